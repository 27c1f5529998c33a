//===- Pipelines.h - the passes in the order they make sense ----*- C++ -*-===//
#ifndef RLX_TRANSFORMS_PIPELINES_H
#define RLX_TRANSFORMS_PIPELINES_H

#include "rlx/Support/DimExpr.h"

#include "mlir/Pass/PassOptions.h"
#include "llvm/ADT/ArrayRef.h"

#include <string>

namespace mlir {
class OpPassManager;
}

namespace rlx {

class FoldingInterface;

namespace transforms {

/// Options of rlx-prepare: what happens once to a graph, whatever its sizes.
struct PrepareOptions : mlir::PassPipelineOptions<PrepareOptions> {
  Option<std::string> until{*this, "until",
                            llvm::cl::desc("Stop after this stage: infer, clean, recognise or decompose"),
                            llvm::cl::init("")};
  Option<int64_t> maxBytes{*this, "max-bytes", llvm::cl::desc("Largest folded constant, in bytes"),
                           llvm::cl::init(1024)};
  /// Runs float ops on constants; null means folders only. Must outlive the pipeline.
  FoldingInterface *folding = nullptr;
};

/// Options of rlx-specialize: what happens to a prepared graph for one binding.
struct SpecializeOptions : mlir::PassPipelineOptions<SpecializeOptions> {
  ListOption<std::string> dims{*this, "dims", llvm::cl::desc("Sizes by name, as name=size,name=size")};
  Option<std::string> until{*this, "until", llvm::cl::desc("Stop after this stage: bind or sync"), llvm::cl::init("")};
};

/// Stage names that `until` accepts, in order.
llvm::ArrayRef<llvm::StringRef> prepareStages();
llvm::ArrayRef<llvm::StringRef> specializeStages();

/// Adds rlx-prepare. Before: a graph as imported or written. After: every dim has
/// an expression, and the graph holds no op that kernels are not formed from.
/// Fails, adding nothing, when `until` names no stage.
llvm::LogicalResult buildPreparePipeline(mlir::OpPassManager &manager, const PrepareOptions &options);

/// Adds rlx-specialize. Before: a prepared graph. After: each type has numbers
/// beside its expressions, and what the sizes must satisfy was checked. Fails,
/// adding nothing, when `until` names no stage.
llvm::LogicalResult buildSpecializePipeline(mlir::OpPassManager &manager, const SpecializeOptions &options);

/// Registers the pipelines' names with MLIR. Call once per process.
void registerPipelines();

} // namespace transforms
} // namespace rlx

#endif // RLX_TRANSFORMS_PIPELINES_H
