//===- Reference.h - a graph computed one op at a time ----------*- C++ -*-===//
#ifndef RLX_UNITTESTS_CODEGEN_PLAN_REFERENCE_H
#define RLX_UNITTESTS_CODEGEN_PLAN_REFERENCE_H

#include "rlx/Dialect/RLX/IR/RLXOps.h"
#include "rlx/Runtime/WeightTable.h"
#include "rlx/Support/DimExpr.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace rlx::test {

/// Row-major values of any type.
struct Values {
  std::vector<int64_t> shape;
  std::vector<double> data;
};

/// The outputs of a graph at a binding, in double precision, straight from the
/// definition of each op: no plan, no kernels, no fusion. Nothing where an index
/// is out of range. An op it does not know fails the test.
std::optional<std::vector<Values>> evaluateReference(ir::GraphOp graph, const Binding &binding,
                                                     const std::vector<Values> &inputs, const WeightTable &weights);

/// Why the graph is not legal at a binding, judged by plain sizes; empty when it is.
std::string whyIllegal(ir::GraphOp graph, const Binding &binding);

} // namespace rlx::test

#endif // RLX_UNITTESTS_CODEGEN_PLAN_REFERENCE_H
