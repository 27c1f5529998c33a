//===- PlanBuffers.h - what rlx-plan-memory decided -------------*- C++ -*-===//
#ifndef RLX_CODEGEN_PLAN_PLANBUFFERS_H
#define RLX_CODEGEN_PLAN_PLANBUFFERS_H

#include "rlx/Dialect/RLX/IR/RLXOps.h"

#include <cstdint>
#include <optional>

namespace rlx::codegen {

/// Where a kernel's result lies: it is a graph output, or it lives in the arena
/// from kernel `first` to kernel `last`, both included.
struct BufferPlan {
  std::optional<int64_t> output;
  int64_t first = 0, last = 0;
};

/// Nothing before rlx-plan-memory ran.
std::optional<BufferPlan> bufferPlan(ir::KernelOp kernel, unsigned result);

/// The value whose buffer `value` is: reshapes outside kernels are aliases.
mlir::Value storedValue(mlir::Value value);

} // namespace rlx::codegen

#endif // RLX_CODEGEN_PLAN_PLANBUFFERS_H
