//===- Questions.h - facts, guards and requirements of a graph --*- C++ -*-===//
//
// The link between a graph's attributes and the SizeAccessor: what is declared
// of its dims, what its ops require, and the questions asked so far, which the
// graph carries as `rlx.guards` from the first question to the plan.
//
//===----------------------------------------------------------------------===//
#ifndef RLX_CODEGEN_PLAN_QUESTIONS_H
#define RLX_CODEGEN_PLAN_QUESTIONS_H

#include "rlx/Dialect/RLX/IR/RLXOps.h"
#include "rlx/Support/DimFacts.h"

#include <string>
#include <vector>

namespace rlx::codegen {

/// What the graph declares: range and multiple of each name.
DimFacts declaredFacts(ir::GraphOp graph);
/// Declared facts and everything the recorded guards taught.
DimFacts knownFacts(ir::GraphOp graph);

/// The questions recorded on the graph, in order.
std::vector<SizeAccessor::Asked> recordedQuestions(ir::GraphOp graph);
void recordQuestions(ir::GraphOp graph, const std::vector<SizeAccessor::Asked> &questions);

/// How an op is called in messages: the name of its location (the ONNX node),
/// else its own name.
std::string nodeName(mlir::Operation *op);

/// Requires the graph's constraints and every op's requirements, in order, and
/// settles each min and max of two sizes by a choice (so that expressions stay
/// short and later facts follow). Stops at the first requirement that fails:
/// the accessor's trail ends with it.
Status askFirstQuestions(ir::GraphOp graph, SizeAccessor &sizes);

} // namespace rlx::codegen

#endif // RLX_CODEGEN_PLAN_QUESTIONS_H
