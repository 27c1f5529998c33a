//===- RandomGraph.h - graphs that nobody would write -----------*- C++ -*-===//
#ifndef RLX_UNITTESTS_CODEGEN_PLAN_RANDOMGRAPH_H
#define RLX_UNITTESTS_CODEGEN_PLAN_RANDOMGRAPH_H

#include "rlx/Dialect/RLX/IR/RLXOps.h"
#include "rlx/Runtime/WeightTable.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace rlx::test {

/// The same numbers in every process and with every standard library.
class Random {
public:
  explicit Random(uint64_t seed) : state(seed) {}
  uint64_t next();
  /// In [0, limit).
  uint64_t below(uint64_t limit) { return next() % limit; }
  bool chance(unsigned percent) { return below(100) < percent; }
  template <typename T> const T &pick(const std::vector<T> &list) { return list[below(list.size())]; }

private:
  uint64_t state;
};

/// A graph over some of the dims B, S, N and M, and its weights.
struct RandomGraph {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  ir::GraphOp graph;
  std::shared_ptr<WeightTable> weights;
  /// Largest value that some element may have, as far as ranges of ops tell, for inputs in [-1, 1] and sizes up to
  /// 8: what an error is measured against.
  double scale = 1;
  data::ElementType type = data::ElementType::F32; ///< of everything but indices

  std::string text();
};

/// Deterministic. `context` must have the rlx dialect loaded.
RandomGraph makeRandomGraph(mlir::MLIRContext &context, uint64_t seed);

/// Sizes as they hurt: equal ones, ones and zeros among small ones. In the order of the graph's dims.
std::vector<int64_t> randomSizes(Random &random, size_t count);

} // namespace rlx::test

#endif // RLX_UNITTESTS_CODEGEN_PLAN_RANDOMGRAPH_H
