//===- PlanPasses.cpp - the pipeline from a bound graph to a plan ---------===//

#include "rlx/Codegen/Plan/Passes.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"

namespace rlx::codegen {

void buildLowerHostPipeline(mlir::OpPassManager &manager) {
  // Kernels first: they decide which values exist at all.
  manager.addNestedPass<ir::GraphOp>(createFormKernels());
  // Lifetimes of the values that are left.
  manager.addNestedPass<ir::GraphOp>(createPlanMemory());
}

void registerPlanPasses() {
  registerRlxPlanPasses();
  mlir::PassPipelineRegistration<>("rlx-lower-host", "From a bound, synced graph to kernels with buffers.",
                                   buildLowerHostPipeline);
}

} // namespace rlx::codegen
