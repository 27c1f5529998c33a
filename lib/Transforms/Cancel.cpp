//===- Cancel.cpp - views that cancel, across several ops -----------------===//
//
// What one op and its operands show (x * 1, a reshape of a reshape) the folders of
// the dialect drop; these patterns look further.
//
//===----------------------------------------------------------------------===//
#include "Patterns.h"
#include "Shapes.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"

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

/// Is `value` this number everywhere?
bool isSplat(Value value, int64_t expected) {
  if (std::optional<double> number = splatFloat(value))
    return *number == static_cast<double>(expected);
  std::optional<llvm::APInt> found = splatInt(value);
  return found && found->getBitWidth() > 1 && *found == llvm::APInt(found->getBitWidth(), expected, true);
}

/// pow(x, 2) as x * x: one rounding, and no pow.
struct SquareByProduct : mlir::OpRewritePattern<ir::PowOp> {
  using OpRewritePattern::OpRewritePattern;
  llvm::LogicalResult matchAndRewrite(ir::PowOp op, mlir::PatternRewriter &rewriter) const override {
    if (op.getLhs().getType() != op.getType() || !isSplat(op.getRhs(), 2))
      return mlir::failure();
    rewriter.replaceOpWithNewOp<ir::MulOp>(op, op.getType(), op.getLhs(), op.getLhs());
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
  patterns.add<SquareByProduct, TransposeThroughReshapes, ReadBeforeBroadcast>(patterns.getContext());
}

} // namespace rlx::transforms
