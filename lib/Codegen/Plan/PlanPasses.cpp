//===- PlanPasses.cpp - the pipeline from a bound graph to a plan ---------===//

#include "rlx/Codegen/Plan/Passes.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using llvm::failure;
using llvm::LogicalResult;
using llvm::StringRef;
using llvm::success;

namespace rlx::codegen {

llvm::ArrayRef<StringRef> lowerHostStages() {
  static const StringRef stages[] = {"kernels", "memory"};
  return stages;
}

LogicalResult buildLowerHostPipeline(mlir::OpPassManager &manager, const LowerHostOptions &options) {
  StringRef until = options.until;
  if (!until.empty() && !llvm::is_contained(lowerHostStages(), until))
    return failure();

  //===--------------------------------------------------------------------===//
  // kernels: which values exist at all, and what computes each
  //===--------------------------------------------------------------------===//

  manager.addNestedPass<ir::GraphOp>(createFormKernels());
  // Contract: kernels, sources and reshapes; nothing else computes.
  manager.addNestedPass<ir::GraphOp>(createVerifyPlan());
  if (until == "kernels")
    return success();

  //===--------------------------------------------------------------------===//
  // memory: which buffer each value is, and how long it lives
  //===--------------------------------------------------------------------===//

  // Last, because fusion decides which values need memory.
  manager.addNestedPass<ir::GraphOp>(createPlanMemory());
  VerifyPlanOptions memory;
  memory.memory = true;
  // Contract: no buffer dies before its last reader.
  manager.addNestedPass<ir::GraphOp>(createVerifyPlan(memory));
  return success();
}

void registerPlanPasses() {
  registerRlxPlanPasses();
  mlir::registerPassPipeline(
      "rlx-lower-host", "Per template: from a bound, synced graph to kernels with buffers",
      [](mlir::OpPassManager &manager, StringRef text,
         llvm::function_ref<LogicalResult(const llvm::Twine &)> error) -> LogicalResult {
        LowerHostOptions options;
        if (failed(options.parseFromString(text)))
          return failure();
        if (succeeded(buildLowerHostPipeline(manager, options)))
          return success();
        return error("rlx-lower-host: no stage '" + StringRef(options.until) + "'; stages are " +
                     llvm::join(lowerHostStages(), ", "));
      },
      [](llvm::function_ref<void(const mlir::detail::PassOptions &)> show) { show(LowerHostOptions()); });
}

} // namespace rlx::codegen
