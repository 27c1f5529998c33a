//===- Pipelines.cpp - the passes in the order they make sense ------------===//
#include "rlx/Transforms/Pipelines.h"

#include "rlx/Transforms/FoldingInterface.h"
#include "rlx/Transforms/Passes.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using llvm::failure;
using llvm::LogicalResult;
using llvm::StringRef;
using llvm::success;
using rlx::ir::GraphOp;

namespace rlx::transforms {

llvm::ArrayRef<StringRef> prepareStages() {
  static const StringRef stages[] = {"infer", "clean", "recognise", "decompose"};
  return stages;
}

llvm::ArrayRef<StringRef> specializeStages() {
  static const StringRef stages[] = {"bind", "sync"};
  return stages;
}

static bool isStage(StringRef until, llvm::ArrayRef<StringRef> stages) {
  return until.empty() || llvm::is_contained(stages, until);
}

LogicalResult buildPreparePipeline(mlir::OpPassManager &manager, const PrepareOptions &options) {
  StringRef until = options.until;
  if (!isStage(until, prepareStages()))
    return failure();
  FoldConstantsOptions fold{options.maxBytes};
  VerifyStaticOptions named{/*named=*/true};

  //===--------------------------------------------------------------------===//
  // infer: every dim gets an expression
  //===--------------------------------------------------------------------===//

  // First, because all later passes read shapes, and because what the sizes must satisfy has to be recorded
  // before a rewrite drops the op that needs it.
  manager.addNestedPass<GraphOp>(createInferDims());
  // Contract: no unknown dim is left.
  manager.addNestedPass<GraphOp>(createVerifyStatic(named));
  if (until == "infer")
    return success();

  //===--------------------------------------------------------------------===//
  // clean: one of each constant, and none that could be computed now
  //===--------------------------------------------------------------------===//

  // Shape arithmetic and constant subgraphs become values, which patterns then see.
  manager.addNestedPass<GraphOp>(createFoldConstants(fold, options.folding));
  // Exporters write a constant per use; merged, equal subgraphs become visible as equal.
  manager.addNestedPass<GraphOp>(createDedupeConstants());
  if (until == "clean")
    return success();

  //===--------------------------------------------------------------------===//
  // recognise: what exporters spell out becomes one op
  //===--------------------------------------------------------------------===//

  manager.addNestedPass<GraphOp>(createSimplify());
  // Patterns bring constants near each other that were not (two factors of one product).
  manager.addNestedPass<GraphOp>(createFoldConstants(fold, options.folding));
  if (until == "recognise")
    return success();

  //===--------------------------------------------------------------------===//
  // decompose: only ops that kernels are formed from
  //===--------------------------------------------------------------------===//

  manager.addNestedPass<GraphOp>(createDecompose());
  // The pieces share transposes and scales with their neighbours.
  manager.addNestedPass<GraphOp>(createSimplify());
  manager.addNestedPass<GraphOp>(createDedupeConstants());
  // Contract: the rewrites kept every dim's expression.
  manager.addNestedPass<GraphOp>(createVerifyStatic(named));
  return success();
}

LogicalResult buildSpecializePipeline(mlir::OpPassManager &manager, const SpecializeOptions &options) {
  StringRef until = options.until;
  if (!isStage(until, specializeStages()))
    return failure();

  //===--------------------------------------------------------------------===//
  // bind: sizes beside names
  //===--------------------------------------------------------------------===//

  BindDimsOptions bind;
  bind.dims.assign(options.dims.begin(), options.dims.end());
  manager.addPass(createBindDims(bind));
  if (until == "bind")
    return success();

  //===--------------------------------------------------------------------===//
  // sync: the graph agrees with its sizes
  //===--------------------------------------------------------------------===//

  manager.addNestedPass<GraphOp>(createSyncShapes());
  // Contract: static. No rewrite runs after binding: one that saw a number could make a plan that holds for that
  // number only, and say so nowhere. Facts are asked where plans are formed, and recorded.
  manager.addNestedPass<GraphOp>(createVerifyStatic());
  return success();
}

/// Registers a pipeline whose builder can refuse its options.
template <typename Options>
static void registerStaged(StringRef name, StringRef summary, llvm::ArrayRef<StringRef> stages,
                           LogicalResult (*build)(mlir::OpPassManager &, const Options &)) {
  mlir::registerPassPipeline(
      name, summary,
      [=](mlir::OpPassManager &manager, StringRef text,
          llvm::function_ref<LogicalResult(const llvm::Twine &)> error) -> LogicalResult {
        Options options;
        if (failed(options.parseFromString(text)))
          return failure();
        if (succeeded(build(manager, options)))
          return success();
        return error(name + ": no stage '" + StringRef(options.until) + "'; stages are " + llvm::join(stages, ", "));
      },
      [](llvm::function_ref<void(const mlir::detail::PassOptions &)> show) { show(Options()); });
}

void registerPipelines() {
  registerStaged<PrepareOptions>(
      "rlx-prepare",
      "Once per graph: infer dims, fold, dedupe constants, recognise what exporters spell out, decompose",
      prepareStages(), buildPreparePipeline);
  registerStaged<SpecializeOptions>("rlx-specialize",
                                    "Per binding: put sizes beside names, recompute shapes, check that all is static",
                                    specializeStages(), buildSpecializePipeline);
}

} // namespace rlx::transforms
