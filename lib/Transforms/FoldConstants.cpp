//===- FoldConstants.cpp - compute what is constant -----------------------===//
#include "Shapes.h"

#include "rlx/Transforms/FoldingInterface.h"
#include "rlx/Transforms/Passes.h"

#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace rlx::transforms {

#define GEN_PASS_DEF_FOLDCONSTANTS
#include "rlx/Transforms/Passes.h.inc"

namespace {

struct FoldConstants : impl::FoldConstantsBase<FoldConstants> {
  using FoldConstantsBase::FoldConstantsBase;
  FoldConstants(FoldConstantsOptions options, FoldingInterface *folding)
      : FoldConstantsBase(std::move(options)), folding(folding) {}

  void runOnOperation() override {
    ir::GraphOp graph = getOperation();
    if (!folding)
      return runFolders();
    // A number that a kernel computed may let a folder go on, and the other way round.
    do
      runFolders();
    while (runKernels(graph));
  }

private:
  void runFolders() {
    mlir::RewritePatternSet patterns(&getContext());
    ir::DimValuesOp::getCanonicalizationPatterns(patterns, &getContext());
    mlir::GreedyRewriteConfig config;
    config.setRegionSimplificationLevel(mlir::GreedySimplifyRegionLevel::Disabled);
    // Not converging within the driver's limit leaves a correct graph.
    (void)mlir::applyPatternsGreedily(getOperation(), std::move(patterns), config);
  }

  /// True when it folded something.
  bool runKernels(ir::GraphOp graph) {
    bool changed = false;
    mlir::IRRewriter rewriter(&getContext());
    for (mlir::Operation &op : llvm::make_early_inc_range(graph.getBody().front().without_terminator())) {
      llvm::SmallVector<mlir::DenseElementsAttr> operands;
      if (!mayFold(&op, operands))
        continue;
      llvm::FailureOr<llvm::SmallVector<mlir::DenseElementsAttr>> results = folding->fold(&op, operands);
      if (failed(results))
        continue;
      rewriter.setInsertionPoint(&op);
      llvm::SmallVector<mlir::Value> values;
      for (auto [result, value] : llvm::zip_equal(op.getResults(), *results)) {
        assert(value.getType().getShape() == llvm::cast<mlir::RankedTensorType>(result.getType()).getShape() &&
               "a kernel gave another shape than the op");
        values.push_back(ir::ConstantOp::create(rewriter, op.getLoc(), result.getType(), value));
      }
      rewriter.replaceOp(&op, values);
      changed = true;
    }
    return changed;
  }

  /// Is `op` one the kernels may compute now? Collects its operands' values.
  bool mayFold(mlir::Operation *op, llvm::SmallVectorImpl<mlir::DenseElementsAttr> &operands) const {
    if (!llvm::isa<ir::ShapeFunctionOpInterface>(op) || op->getNumOperands() == 0 || op->use_empty() ||
        llvm::isa<ir::RandomUniformOp, ir::RandomNormalOp>(op))
      return false;
    for (mlir::Value operand : op->getOperands())
      if (!mlir::matchPattern(operand, mlir::m_Constant(&operands.emplace_back())))
        return false;
    for (mlir::Type type : op->getResultTypes()) {
      // A size that came from a name would have to be guarded if its number were used here.
      auto tensor = llvm::cast<mlir::RankedTensorType>(type);
      if (!tensor.hasStaticShape() || tensor.getEncoding())
        return false;
      int64_t bytes = ir::elementBytes(tensor.getElementType());
      for (int64_t size : tensor.getShape())
        if (__builtin_mul_overflow(bytes, size, &bytes))
          return false;
      if (bytes > maxBytes)
        return false;
    }
    return true;
  }

  FoldingInterface *folding = nullptr;
};

} // namespace

std::unique_ptr<mlir::Pass> createFoldConstants(FoldConstantsOptions options, FoldingInterface *folding) {
  return std::make_unique<FoldConstants>(std::move(options), folding);
}

} // namespace rlx::transforms
