//===- Passes.h - from a bound graph to a plan ------------------*- C++ -*-===//
#ifndef RLX_CODEGEN_PLAN_PASSES_H
#define RLX_CODEGEN_PLAN_PASSES_H

#include "rlx/Dialect/RLX/IR/RLXOps.h"

#include "mlir/Pass/Pass.h"

#include <memory>

namespace rlx::codegen {

#define GEN_PASS_DECL
#include "rlx/Codegen/Plan/Passes.h.inc"

/// rlx-form-kernels, then rlx-plan-memory, on every graph of a module.
void buildLowerHostPipeline(mlir::OpPassManager &manager);

/// Registers rlx-form-kernels and rlx-plan-memory, and the pipeline
/// rlx-lower-host that runs both.
void registerPlanPasses();

#define GEN_PASS_REGISTRATION
#include "rlx/Codegen/Plan/Passes.h.inc"

} // namespace rlx::codegen

#endif // RLX_CODEGEN_PLAN_PASSES_H
