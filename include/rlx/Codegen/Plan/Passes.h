//===- Passes.h - from a bound graph to a plan ------------------*- C++ -*-===//
#ifndef RLX_CODEGEN_PLAN_PASSES_H
#define RLX_CODEGEN_PLAN_PASSES_H

#include "rlx/Dialect/RLX/IR/RLXOps.h"

#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassOptions.h"

#include <memory>
#include <string>

namespace rlx::codegen {

#define GEN_PASS_DECL
#include "rlx/Codegen/Plan/Passes.h.inc"

/// Options of rlx-lower-host.
struct LowerHostOptions : mlir::PassPipelineOptions<LowerHostOptions> {
  Option<std::string> until{*this, "until", llvm::cl::desc("Stop after this stage: kernels or memory"),
                            llvm::cl::init("")};
};

/// Stage names that `until` accepts, in order.
llvm::ArrayRef<llvm::StringRef> lowerHostStages();

/// Adds rlx-lower-host. Before: a bound, synced graph. After: kernels with
/// buffers, ready for emitPlan(). Fails, adding nothing, when `until` names no
/// stage.
llvm::LogicalResult buildLowerHostPipeline(mlir::OpPassManager &manager, const LowerHostOptions &options);

/// Registers the passes of this folder and the pipeline rlx-lower-host.
void registerPlanPasses();

#define GEN_PASS_REGISTRATION
#include "rlx/Codegen/Plan/Passes.h.inc"

} // namespace rlx::codegen

#endif // RLX_CODEGEN_PLAN_PASSES_H
