//===- RecognizeNorms.cpp - normalisations spelled as reductions ----------===//
//
//   d = x - mean(x)                     (none: RMS normalisation)
//   y = d / sqrt(mean(d * d) + epsilon)
//   y * scale + bias
//
//===----------------------------------------------------------------------===//
#include "Patterns.h"
#include "Shapes.h"

#include "mlir/IR/PatternMatch.h"

using mlir::Value;

namespace rlx::transforms {
namespace {

/// The input of `value` = mean(input) over the last axes, kept as unit dims. Sets
/// `axis` to the first of them.
Value meanOfLastAxes(Value value, int64_t &axis) {
  auto reduce = value.getDefiningOp<ir::ReduceOp>();
  if (!reduce || reduce.getKind() != ir::ReduceKind::Mean || !reduce.getKeepDims() || reduce.getAxes().empty())
    return {};
  int64_t rank = reduce.getInput().getType().getRank();
  axis = reduce.getAxes().front();
  for (auto [index, reduced] : llvm::enumerate(reduce.getAxes()))
    if (reduced != axis + static_cast<int64_t>(index))
      return {};
  return reduce.getAxes().back() == rank - 1 ? reduce.getInput() : Value();
}

/// The root of `value` = root * root.
Value squareRootOf(Value value) {
  if (auto mul = value.getDefiningOp<ir::MulOp>())
    return mul.getLhs() == mul.getRhs() ? mul.getLhs() : Value();
  if (auto pow = value.getDefiningOp<ir::PowOp>())
    return splatFloat(pow.getRhs()) == 2.0 ? pow.getLhs() : Value();
  return {};
}

/// The one value of `value` = 1 / deviation, in the spellings exporters use.
Value inverseOf(Value value) {
  if (auto reciprocal = value.getDefiningOp<ir::ReciprocalOp>())
    return reciprocal.getInput();
  if (auto div = value.getDefiningOp<ir::DivOp>())
    return splatFloat(div.getLhs()) == 1.0 ? div.getRhs() : Value();
  return {};
}

/// Rewrites `root` = centred / deviation.
llvm::LogicalResult rewriteNorm(mlir::Operation *root, Value centred, Value deviation,
                                mlir::PatternRewriter &rewriter) {
  auto sqrt = deviation.getDefiningOp<ir::SqrtOp>();
  if (!sqrt)
    return mlir::failure();
  auto add = sqrt.getInput().getDefiningOp<ir::AddOp>();
  if (!add)
    return mlir::failure();
  Value variance = add.getLhs();
  std::optional<double> epsilon = splatFloat(add.getRhs());
  if (!epsilon) {
    variance = add.getRhs();
    epsilon = splatFloat(add.getLhs());
  }
  if (!epsilon)
    return mlir::failure();
  int64_t axis = 0;
  Value squares = meanOfLastAxes(variance, axis);
  if (!squares || squareRootOf(squares) != centred || root->getResult(0).getType() != centred.getType())
    return mlir::failure();

  mlir::Type type = root->getResult(0).getType();
  if (auto sub = centred.getDefiningOp<ir::SubOp>()) {
    int64_t meanAxis = 0;
    if (meanOfLastAxes(sub.getRhs(), meanAxis) == sub.getLhs() && meanAxis == axis && sub.getLhs().getType() == type) {
      rewriter.replaceOpWithNewOp<ir::LayerNormOp>(root, type, sub.getLhs(), Value(), Value(), axis,
                                                   llvm::APFloat(*epsilon));
      return mlir::success();
    }
  }
  rewriter.replaceOpWithNewOp<ir::RmsNormOp>(root, type, centred, Value(), axis, llvm::APFloat(*epsilon));
  return mlir::success();
}

struct RecognizeDividedNorm : mlir::OpRewritePattern<ir::DivOp> {
  using OpRewritePattern::OpRewritePattern;
  llvm::LogicalResult matchAndRewrite(ir::DivOp op, mlir::PatternRewriter &rewriter) const override {
    return rewriteNorm(op, op.getLhs(), op.getRhs(), rewriter);
  }
};

struct RecognizeMultipliedNorm : mlir::OpRewritePattern<ir::MulOp> {
  using OpRewritePattern::OpRewritePattern;
  llvm::LogicalResult matchAndRewrite(ir::MulOp op, mlir::PatternRewriter &rewriter) const override {
    for (auto [centred, inverse] : {std::pair(op.getLhs(), op.getRhs()), std::pair(op.getRhs(), op.getLhs())})
      if (Value deviation = inverseOf(inverse); deviation && succeeded(rewriteNorm(op, centred, deviation, rewriter)))
        return mlir::success();
    return mlir::failure();
  }
};

/// `value` as a tensor of the normalised dims of `input`, through a reshape where
/// it only has unit dims in front; null when its dims are others.
Value asNormalised(Value value, Value input, int64_t axis, mlir::PatternRewriter &rewriter, mlir::Location location) {
  auto valueType = llvm::cast<mlir::RankedTensorType>(value.getType());
  auto inputType = llvm::cast<mlir::RankedTensorType>(input.getType());
  std::optional<Dims> dims = dimsOf(valueType), inputDims = dimsOf(inputType);
  if (!dims || !inputDims || valueType.getElementType() != inputType.getElementType())
    return {};
  llvm::ArrayRef<DimExpr> normalised = llvm::ArrayRef(*inputDims).drop_front(axis);
  if (dims->size() < normalised.size() || dims->size() > inputDims->size())
    return {};
  size_t front = dims->size() - normalised.size();
  if (llvm::ArrayRef(*dims).drop_front(front) != normalised ||
      llvm::any_of(llvm::ArrayRef(*dims).take_front(front), [](const DimExpr &dim) { return dim != DimExpr(1); }))
    return {};
  if (front == 0)
    return value;
  auto type = typeLike(inputType, inputType.getShape().drop_front(axis), normalised);
  return ir::ReshapeOp::create(rewriter, location, type, value);
}

/// norm(x) * scale, where the norm has neither scale nor bias yet.
template <typename Norm> struct AttachScale : mlir::OpRewritePattern<ir::MulOp> {
  using OpRewritePattern::OpRewritePattern;
  llvm::LogicalResult matchAndRewrite(ir::MulOp op, mlir::PatternRewriter &rewriter) const override {
    for (auto [result, factor] : {std::pair(op.getLhs(), op.getRhs()), std::pair(op.getRhs(), op.getLhs())}) {
      auto norm = result.template getDefiningOp<Norm>();
      if (!norm || norm.getScale() || !norm->hasOneUse() || op.getType() != norm.getType())
        continue;
      if constexpr (std::is_same_v<Norm, ir::LayerNormOp>)
        if (norm.getBias())
          continue;
      Value scale = asNormalised(factor, norm.getInput(), norm.getAxis(), rewriter, op.getLoc());
      if (!scale)
        continue;
      if constexpr (std::is_same_v<Norm, ir::LayerNormOp>)
        rewriter.replaceOpWithNewOp<Norm>(op, op.getType(), norm.getInput(), scale, Value(), norm.getAxis(),
                                          norm.getEpsilon());
      else
        rewriter.replaceOpWithNewOp<Norm>(op, op.getType(), norm.getInput(), scale, norm.getAxis(), norm.getEpsilon());
      return mlir::success();
    }
    return mlir::failure();
  }
};

/// norm(x) + bias, where the norm has no bias yet.
struct AttachBias : mlir::OpRewritePattern<ir::AddOp> {
  using OpRewritePattern::OpRewritePattern;
  llvm::LogicalResult matchAndRewrite(ir::AddOp op, mlir::PatternRewriter &rewriter) const override {
    for (auto [result, term] : {std::pair(op.getLhs(), op.getRhs()), std::pair(op.getRhs(), op.getLhs())}) {
      auto norm = result.getDefiningOp<ir::LayerNormOp>();
      // Normalised from axis 0 on, a bias and a residual look the same; both are right.
      if (!norm || norm.getBias() || !norm->hasOneUse() || op.getType() != norm.getType())
        continue;
      Value bias = asNormalised(term, norm.getInput(), norm.getAxis(), rewriter, op.getLoc());
      if (!bias)
        continue;
      rewriter.replaceOpWithNewOp<ir::LayerNormOp>(op, op.getType(), norm.getInput(), norm.getScale(), bias,
                                                   norm.getAxis(), norm.getEpsilon());
      return mlir::success();
    }
    return mlir::failure();
  }
};

} // namespace

void addNormPatterns(mlir::RewritePatternSet &patterns) {
  patterns.add<RecognizeDividedNorm, RecognizeMultipliedNorm, AttachScale<ir::LayerNormOp>, AttachScale<ir::RmsNormOp>,
               AttachBias>(patterns.getContext());
}

} // namespace rlx::transforms
