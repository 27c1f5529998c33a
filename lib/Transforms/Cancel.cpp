//===- Cancel.cpp - steps that change nothing, views that cancel ----------===//
//
// A float identity is taken only where it holds for every input, -0, infinities
// and NaN included: x * 1, x / 1, x - 0 and x + (-0) do; x + 0 turns -0 into 0 and
// x * 0 loses NaN, so both stay.
//
//===----------------------------------------------------------------------===//
#include "Patterns.h"
#include "Shapes.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"
#include "llvm/ADT/TypeSwitch.h"

#include <cmath>

using mlir::RankedTensorType;
using mlir::Value;

namespace rlx::transforms {

std::optional<double> splatFloat(Value value) {
  mlir::DenseElementsAttr attribute;
  if (!mlir::matchPattern(value, mlir::m_Constant(&attribute)) || !attribute.isSplat() ||
      !llvm::isa<mlir::FloatType>(attribute.getElementType()))
    return std::nullopt;
  llvm::APFloat number = attribute.getSplatValue<llvm::APFloat>();
  bool losesInfo = false;
  number.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &losesInfo);
  return number.convertToDouble();
}

std::optional<llvm::APInt> splatInt(Value value) {
  mlir::DenseElementsAttr attribute;
  if (!mlir::matchPattern(value, mlir::m_Constant(&attribute)) || !attribute.isSplat() ||
      !llvm::isa<mlir::IntegerType>(attribute.getElementType()))
    return std::nullopt;
  return attribute.getSplatValue<llvm::APInt>();
}

namespace {

bool isFloat(Value value, double expected) {
  std::optional<double> found = splatFloat(value);
  return found && *found == expected && std::signbit(*found) == std::signbit(expected);
}

bool isInt(Value value, int64_t expected) {
  std::optional<llvm::APInt> found = splatInt(value);
  return found && found->getBitWidth() > 1 && *found == llvm::APInt(found->getBitWidth(), expected, true);
}

bool isAllOnes(Value value) {
  std::optional<llvm::APInt> found = splatInt(value);
  return found && found->isAllOnes();
}

bool isZero(Value value) {
  std::optional<llvm::APInt> found = splatInt(value);
  return found && found->isZero();
}

/// Does `rhs` leave `op`'s lhs as it is, bit for bit?
bool isRightIdentity(mlir::Operation *op, Value rhs) {
  return llvm::TypeSwitch<mlir::Operation *, bool>(op)
      .Case<ir::AddOp>([&](auto) { return isFloat(rhs, -0.0) || isZero(rhs); })
      .Case<ir::SubOp>([&](auto) { return isFloat(rhs, 0.0) || isZero(rhs); })
      .Case<ir::MulOp, ir::DivOp>([&](auto) { return isFloat(rhs, 1.0) || isInt(rhs, 1); })
      .Case<ir::PowOp>([&](auto) { return isFloat(rhs, 1.0) || isInt(rhs, 1); })
      .Case<ir::AndOp>([&](auto) { return isAllOnes(rhs); })
      .Case<ir::OrOp, ir::XorOp, ir::ShlOp, ir::ShrOp>([&](auto) { return isZero(rhs); })
      .Default([](auto) { return false; });
}

/// x * 1 and its like, when the constant does not change the shape either.
struct DropIdentity : mlir::RewritePattern {
  explicit DropIdentity(mlir::MLIRContext *context) : RewritePattern(MatchAnyOpTypeTag(), 1, context) {}
  llvm::LogicalResult matchAndRewrite(mlir::Operation *op, mlir::PatternRewriter &rewriter) const override {
    if (op->getNumOperands() != 2 || op->getNumResults() != 1)
      return mlir::failure();
    bool commutes = llvm::isa<ir::AddOp, ir::MulOp, ir::AndOp, ir::OrOp, ir::XorOp>(op);
    for (unsigned kept : {0u, 1u}) {
      if (kept == 1 && !commutes)
        break;
      if (op->getOperand(kept).getType() == op->getResult(0).getType() &&
          isRightIdentity(op, op->getOperand(1 - kept))) {
        rewriter.replaceOp(op, op->getOperand(kept));
        return mlir::success();
      }
    }
    return mlir::failure();
  }
};

/// pow(x, 2) as x * x: one rounding, and no pow.
struct SquareByProduct : mlir::OpRewritePattern<ir::PowOp> {
  using OpRewritePattern::OpRewritePattern;
  llvm::LogicalResult matchAndRewrite(ir::PowOp op, mlir::PatternRewriter &rewriter) const override {
    if (op.getLhs().getType() != op.getType() || !(isFloat(op.getRhs(), 2.0) || isInt(op.getRhs(), 2)))
      return mlir::failure();
    rewriter.replaceOpWithNewOp<ir::MulOp>(op, op.getType(), op.getLhs(), op.getLhs());
    return mlir::success();
  }
};

/// neg(neg(x)), not(not(x)).
template <typename Op> struct DropTwice : mlir::OpRewritePattern<Op> {
  using mlir::OpRewritePattern<Op>::OpRewritePattern;
  llvm::LogicalResult matchAndRewrite(Op op, mlir::PatternRewriter &rewriter) const override {
    auto inner = op.getInput().template getDefiningOp<Op>();
    if (!inner)
      return mlir::failure();
    rewriter.replaceOp(op, inner.getInput());
    return mlir::success();
  }
};

/// select of two equal values, or by a constant.
struct DropSelect : mlir::OpRewritePattern<ir::SelectOp> {
  using OpRewritePattern::OpRewritePattern;
  llvm::LogicalResult matchAndRewrite(ir::SelectOp op, mlir::PatternRewriter &rewriter) const override {
    Value chosen;
    if (op.getOnTrue() == op.getOnFalse())
      chosen = op.getOnTrue();
    else if (isAllOnes(op.getCondition()))
      chosen = op.getOnTrue();
    else if (isZero(op.getCondition()))
      chosen = op.getOnFalse();
    if (!chosen || chosen.getType() != op.getType())
      return mlir::failure();
    rewriter.replaceOp(op, chosen);
    return mlir::success();
  }
};

/// A view that gives its operand back.
template <typename View> struct DropSameType : mlir::OpRewritePattern<View> {
  using mlir::OpRewritePattern<View>::OpRewritePattern;
  llvm::LogicalResult matchAndRewrite(View op, mlir::PatternRewriter &rewriter) const override {
    if (op.getInput().getType() != op.getType())
      return mlir::failure();
    rewriter.replaceOp(op, op.getInput());
    return mlir::success();
  }
};

/// reshape(reshape(x)) and broadcast_to(broadcast_to(x)): the last one says it all.
template <typename View> struct SkipInner : mlir::OpRewritePattern<View> {
  using mlir::OpRewritePattern<View>::OpRewritePattern;
  llvm::LogicalResult matchAndRewrite(View op, mlir::PatternRewriter &rewriter) const override {
    auto inner = op.getInput().template getDefiningOp<View>();
    if (!inner)
      return mlir::failure();
    rewriter.modifyOpInPlace(op, [&] { op.getInputMutable().assign(inner.getInput()); });
    return mlir::success();
  }
};

struct ComposeTransposes : mlir::OpRewritePattern<ir::TransposeOp> {
  using OpRewritePattern::OpRewritePattern;
  llvm::LogicalResult matchAndRewrite(ir::TransposeOp op, mlir::PatternRewriter &rewriter) const override {
    llvm::ArrayRef<int64_t> outer = op.getPermutation();
    bool isIdentity = true;
    for (auto [index, axis] : llvm::enumerate(outer))
      isIdentity &= axis == static_cast<int64_t>(index);
    if (isIdentity && op.getInput().getType() == op.getType()) {
      rewriter.replaceOp(op, op.getInput());
      return mlir::success();
    }
    auto inner = op.getInput().getDefiningOp<ir::TransposeOp>();
    if (!inner)
      return mlir::failure();
    llvm::SmallVector<int64_t> composed;
    for (int64_t axis : outer)
      composed.push_back(inner.getPermutation()[axis]);
    rewriter.replaceOpWithNewOp<ir::TransposeOp>(op, op.getType(), inner.getInput(), composed);
    return mlir::success();
  }
};

/// How many dims of `fine`, from `next` on, multiply to `coarse`; nothing when none do. Advances `next`.
std::optional<std::pair<size_t, size_t>> takeGroup(llvm::ArrayRef<DimExpr> fine, size_t &next, const DimExpr &coarse) {
  size_t begin = next;
  DimExpr product = 1;
  while (next < fine.size() && (next == begin || product != coarse))
    product = product * fine[next++];
  if (product != coarse)
    return std::nullopt;
  return std::pair(begin, next);
}

/// reshape(transpose(reshape(x))) that merges neighbouring dims, moves them as one, and splits them again moves the
/// dims of x themselves: [B, 12, S, 32] -> [12 B, S, 32] -> [12 B, 32, S] -> [B, 12, 32, S] is one transpose.
struct TransposeThroughReshapes : mlir::OpRewritePattern<ir::ReshapeOp> {
  using OpRewritePattern::OpRewritePattern;
  llvm::LogicalResult matchAndRewrite(ir::ReshapeOp op, mlir::PatternRewriter &rewriter) const override {
    auto transpose = op.getInput().getDefiningOp<ir::TransposeOp>();
    auto merge = transpose ? transpose.getInput().getDefiningOp<ir::ReshapeOp>() : ir::ReshapeOp();
    if (!merge)
      return mlir::failure();
    std::optional<Dims> fine = dimsOf(merge.getInput().getType()), coarse = dimsOf(merge.getType()),
                        result = dimsOf(op.getType());
    if (!fine || !coarse || !result)
      return mlir::failure();
    llvm::SmallVector<std::pair<size_t, size_t>> groups;
    size_t next = 0;
    for (const DimExpr &dim : *coarse) {
      std::optional<std::pair<size_t, size_t>> group = takeGroup(*fine, next, dim);
      if (!group)
        return mlir::failure();
      groups.push_back(*group);
    }
    if (next != fine->size())
      return mlir::failure();
    llvm::SmallVector<int64_t> permutation;
    Dims moved;
    for (int64_t axis : transpose.getPermutation())
      for (size_t dim = groups[axis].first; dim < groups[axis].second; ++dim) {
        permutation.push_back(dim);
        moved.push_back((*fine)[dim]);
      }
    if (moved != *result)
      return mlir::failure();
    rewriter.replaceOpWithNewOp<ir::TransposeOp>(op, op.getType(), merge.getInput(), permutation);
    return mlir::success();
  }
};

struct DropSingleConcat : mlir::OpRewritePattern<ir::ConcatOp> {
  using OpRewritePattern::OpRewritePattern;
  llvm::LogicalResult matchAndRewrite(ir::ConcatOp op, mlir::PatternRewriter &rewriter) const override {
    if (op.getInputs().size() != 1 || op.getInputs().front().getType() != op.getType())
      return mlir::failure();
    rewriter.replaceOp(op, op.getInputs().front());
    return mlir::success();
  }
};

/// An op that broadcasts by itself reads the small tensor, not the repeated one, where every axis that is repeated has
/// the size of the op's result anyway: nothing else gives the result its shape, and nothing is required of it.
struct ReadBeforeBroadcast : mlir::OpInterfaceRewritePattern<ir::ShapeFunctionOpInterface> {
  using OpInterfaceRewritePattern::OpInterfaceRewritePattern;
  llvm::LogicalResult matchAndRewrite(ir::ShapeFunctionOpInterface op, mlir::PatternRewriter &rewriter) const override {
    // A matmul broadcasts all axes but the last two.
    size_t exact = 0;
    if (llvm::isa<ir::MatmulOp>(op.getOperation()))
      exact = 2;
    else if (!llvm::isa<ir::ElementwiseOpInterface>(op.getOperation()))
      return mlir::failure();
    for (mlir::OpOperand &operand : op->getOpOperands()) {
      auto broadcast = operand.get().getDefiningOp<ir::BroadcastToOp>();
      if (!broadcast || !isRedundant(op, broadcast, exact) || !keepsDims(op, operand.getOperandNumber(), broadcast))
        continue;
      rewriter.modifyOpInPlace(op, [&] { operand.set(broadcast.getInput()); });
      return mlir::success();
    }
    return mlir::failure();
  }

private:
  static bool isRedundant(mlir::Operation *op, ir::BroadcastToOp broadcast, size_t exact) {
    std::optional<Dims> small = dimsOf(broadcast.getInput().getType()), large = dimsOf(broadcast.getType()),
                        result = dimsOf(llvm::cast<RankedTensorType>(op->getResult(0).getType()));
    if (!small || !large || !result || large->size() > result->size() || small->size() < exact)
      return false;
    for (size_t axis = 0; axis < large->size(); ++axis) {
      // Axes count from the last one.
      const DimExpr &size = (*large)[large->size() - 1 - axis];
      DimExpr before = axis < small->size() ? (*small)[small->size() - 1 - axis] : DimExpr(1);
      if (before == size)
        continue;
      if (before != DimExpr(1) || axis < exact || size != (*result)[result->size() - 1 - axis])
        return false;
    }
    return true;
  }

  /// Would `op` have the same dims if operand `number` were what `broadcast` reads?
  static bool keepsDims(ir::ShapeFunctionOpInterface op, unsigned number, ir::BroadcastToOp broadcast) {
    std::optional<Dims> expected = dimsOf(llvm::cast<RankedTensorType>(op->getResult(0).getType()));
    llvm::SmallVector<ir::TensorShape> operands, inferred;
    for (Value operand : op->getOperands())
      operands.push_back(ir::getShape(llvm::cast<RankedTensorType>(operand.getType())));
    operands[number] = ir::getShape(broadcast.getInput().getType());
    // A shape that does not fit is an answer here, not an error to report.
    mlir::ScopedDiagnosticHandler quiet(op->getContext(), [](mlir::Diagnostic &) { return mlir::success(); });
    return expected && succeeded(op.inferShapes(operands, inferred)) && inferred.size() == 1 &&
           inferred.front().isKnown() && inferred.front().dims == *expected;
  }
};

} // namespace

void addCancelPatterns(mlir::RewritePatternSet &patterns) {
  patterns.add<DropIdentity, SquareByProduct, DropTwice<ir::NegOp>, DropTwice<ir::NotOp>, DropSelect,
               DropSameType<ir::ReshapeOp>, DropSameType<ir::BroadcastToOp>, DropSameType<ir::ConvertOp>,
               SkipInner<ir::ReshapeOp>, SkipInner<ir::BroadcastToOp>, ComposeTransposes, TransposeThroughReshapes,
               DropSingleConcat, ReadBeforeBroadcast>(patterns.getContext());
}

} // namespace rlx::transforms
