//===- SplitBatches.cpp - products over merged batches and heads ----------===//
//
// Older exports multiply matrices with three dims only: batch and heads are merged
// before each product and split again after it. A merge of a transpose is a copy,
// and hides attention from those who look for it. It moves behind the product (and
// behind a softmax along the last axis), to where the split takes it back:
//
//   matmul(reshape(q), transpose(reshape(k)))   ->  reshape(matmul(q, transpose(k)))
//     [B*H, S, D]          [B*H, D, S]                        [B, H, S, S]
//
// Each element is computed as before, so no bit changes.
//
//===----------------------------------------------------------------------===//
#include "Patterns.h"
#include "Shapes.h"

#include "mlir/IR/PatternMatch.h"

using mlir::RankedTensorType;
using mlir::Value;

namespace rlx::transforms {
namespace {

/// [d0, d1, ..., m, n] shown as [d0 * d1 * ..., m, n].
struct Merge {
  ir::ReshapeOp op;
  Dims fine;
  Value source() { return op.getInput(); }
  llvm::ArrayRef<DimExpr> batch() const { return llvm::ArrayRef<DimExpr>(fine).drop_back(2); }
};

std::optional<Merge> mergeOf(Value value) {
  auto reshape = value.getDefiningOp<ir::ReshapeOp>();
  std::optional<Dims> fine = reshape ? dimsOf(typeOf(reshape.getInput())) : std::nullopt,
                      coarse = reshape ? dimsOf(typeOf(value)) : std::nullopt;
  if (!fine || !coarse || coarse->size() != 3 || fine->size() < 4)
    return std::nullopt;
  DimExpr product = 1;
  for (const DimExpr &dim : llvm::ArrayRef<DimExpr>(*fine).drop_back(2))
    product = product * dim;
  if (product != (*coarse)[0] ||
      llvm::ArrayRef<DimExpr>(*fine).take_back(2) != llvm::ArrayRef<DimExpr>(*coarse).drop_front())
    return std::nullopt;
  return Merge{reshape, *fine};
}

/// The last two axes change places.
bool isSwap(ir::TransposeOp transpose) {
  return transpose && transpose.getPermutation() == llvm::ArrayRef<int64_t>{0, 2, 1};
}

/// What `value` shows without its merge: the merge's source, with its last axes swapped where `value` is so.
struct Unmerged {
  Merge merge;
  ir::TransposeOp swap;
};
std::optional<Unmerged> unmerged(Value value) {
  auto swap = value.getDefiningOp<ir::TransposeOp>();
  if (isSwap(swap))
    value = swap.getInput();
  else
    swap = {};
  std::optional<Merge> merge = mergeOf(value);
  if (!merge)
    return std::nullopt;
  return Unmerged{*merge, swap};
}

Value build(Unmerged &from, mlir::PatternRewriter &rewriter) {
  Value source = from.merge.source();
  if (!from.swap)
    return source;
  llvm::SmallVector<int64_t> permutation;
  for (size_t axis = 0; axis < from.merge.fine.size(); ++axis)
    permutation.push_back(axis);
  std::swap(permutation[permutation.size() - 2], permutation.back());
  return ir::TransposeOp::create(rewriter, from.swap.getLoc(), permuted(typeOf(source), permutation), source,
                                 permutation);
}

struct MatmulBeforeMerge : mlir::OpRewritePattern<ir::MatmulOp> {
  using OpRewritePattern::OpRewritePattern;
  llvm::LogicalResult matchAndRewrite(ir::MatmulOp op, mlir::PatternRewriter &rewriter) const override {
    std::optional<Unmerged> lhs = unmerged(op.getLhs()), rhs = unmerged(op.getRhs());
    if (!lhs || !rhs || lhs->merge.batch() != rhs->merge.batch())
      return mlir::failure();
    Value left = build(*lhs, rewriter), right = build(*rhs, rewriter);
    llvm::ArrayRef<int64_t> leftShape = typeOf(left).getShape(), rightShape = typeOf(right).getShape();
    Dims dims(lhs->merge.batch().begin(), lhs->merge.batch().end());
    llvm::SmallVector<int64_t> shape(leftShape.drop_back());
    std::optional<Dims> leftDims = dimsOf(typeOf(left)), rightDims = dimsOf(typeOf(right));
    dims.push_back((*leftDims)[leftDims->size() - 2]);
    dims.push_back(rightDims->back());
    shape.push_back(rightShape.back());
    Value product =
        ir::MatmulOp::create(rewriter, op.getLoc(), typeLike(typeOf(op.getResult()), shape, dims), left, right);
    rewriter.replaceOpWithNewOp<ir::ReshapeOp>(op, typeOf(op.getResult()), product);
    return mlir::success();
  }
};

struct SoftmaxBeforeMerge : mlir::OpRewritePattern<ir::SoftmaxOp> {
  using OpRewritePattern::OpRewritePattern;
  llvm::LogicalResult matchAndRewrite(ir::SoftmaxOp op, mlir::PatternRewriter &rewriter) const override {
    std::optional<Merge> merge = mergeOf(op.getInput());
    if (!merge || op.getAxis() != 2)
      return mlir::failure();
    Value source = merge->source();
    Value softmax = ir::SoftmaxOp::create(rewriter, op.getLoc(), source.getType(), source,
                                          static_cast<uint64_t>(merge->fine.size() - 1));
    rewriter.replaceOpWithNewOp<ir::ReshapeOp>(op, typeOf(op.getResult()), softmax);
    return mlir::success();
  }
};

} // namespace

void addBatchPatterns(mlir::RewritePatternSet &patterns) {
  patterns.add<MatmulBeforeMerge, SoftmaxBeforeMerge>(patterns.getContext());
}

} // namespace rlx::transforms
