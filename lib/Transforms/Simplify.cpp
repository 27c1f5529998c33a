//===- Simplify.cpp - recognise, cancel, drop ------------------------------===//
#include "Patterns.h"

#include "rlx/Transforms/Passes.h"

#include "mlir/IR/Dominance.h"
#include "mlir/Transforms/CSE.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace rlx::transforms {

#define GEN_PASS_DEF_SIMPLIFY
#include "rlx/Transforms/Passes.h.inc"

namespace {

struct Simplify : impl::SimplifyBase<Simplify> {
  llvm::LogicalResult initialize(mlir::MLIRContext *context) override {
    mlir::RewritePatternSet set(context);
    addActivationPatterns(set);
    addNormPatterns(set);
    addQuantizedPatterns(set);
    addLookupPatterns(set);
    addMoveViewPatterns(set);
    addBatchPatterns(set);
    addCancelPatterns(set);
    ir::DimValuesOp::getCanonicalizationPatterns(set, context);
    patterns = std::move(set);
    return mlir::success();
  }

  void runOnOperation() override {
    mlir::GreedyRewriteConfig config;
    config.setRegionSimplificationLevel(mlir::GreedySimplifyRegionLevel::Disabled);
    // Repeated ops go first: patterns compare values by identity (the two x - mean(x) of a normalisation). Rewrites
    // make new repetitions, so both run until neither finds anything; each round removes ops, so it ends.
    bool changed = true;
    for (unsigned round = 0; changed && round < maxRounds; ++round) {
      bool merged = mergeRepeated(), rewritten = false;
      // Not converging within the driver's limit leaves a correct graph.
      (void)mlir::applyPatternsGreedily(getOperation(), patterns, config, &rewritten);
      changed = merged || rewritten;
    }
  }

private:
  static constexpr unsigned maxRounds = 8;

  bool mergeRepeated() {
    mlir::IRRewriter rewriter(&getContext());
    mlir::DominanceInfo dominance(getOperation());
    bool changed = false;
    mlir::eliminateCommonSubExpressions(rewriter, dominance, getOperation(), &changed);
    return changed;
  }

  mlir::FrozenRewritePatternSet patterns;
};

} // namespace
} // namespace rlx::transforms
