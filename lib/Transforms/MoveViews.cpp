//===- MoveViews.cpp - element ops go in front of views -------------------===//
//
// A kernel takes the element ops that follow a matmul into its epilogue, as long
// as they keep its shape. Exporters put views in between: a head split before the
// scale of a query, a reshape to three dims before the residual. The element op
// commutes with the view and moves in front of it, towards the matmul:
//
//   mul(transpose(reshape(matmul)), 0.42)   ->  transpose(reshape(mul(matmul, 0.42)))
//   add(reshape(matmul), residual)          ->  reshape(add(matmul, reshape(residual)))
//
// Each element is computed from the same operands as before, so no bit changes.
//
//===----------------------------------------------------------------------===//
#include "Patterns.h"
#include "Shapes.h"

#include "mlir/IR/PatternMatch.h"

using mlir::RankedTensorType;
using mlir::Value;

namespace rlx::transforms {
namespace {

/// One number for all elements, of whatever rank.
bool isScalar(Value value) { return (splatFloat(value) || splatInt(value)) && typeOf(value).getNumElements() == 1; }

bool isView(mlir::Operation *op) { return llvm::isa_and_nonnull<ir::ReshapeOp, ir::TransposeOp>(op); }

/// Does `value` come from a matmul through views and element ops that nothing else reads?
bool continuesMatmul(Value value) {
  // As long as the chains that kernels are formed of; beyond, nothing would be gained.
  constexpr unsigned maxSteps = 16;
  for (unsigned step = 0; step < maxSteps; ++step) {
    mlir::Operation *op = value.getDefiningOp();
    if (!op || !value.hasOneUse())
      return false;
    if (llvm::isa<ir::MatmulOp>(op))
      return true;
    Value next;
    if (isView(op)) {
      next = op->getOperand(0);
    } else if (llvm::isa<ir::ElementwiseOpInterface>(op)) {
      // The operand the chain comes from: the one of the result's shape whose only reader is this op.
      for (Value operand : op->getOperands())
        if (operand.hasOneUse() && typeOf(operand).getShape() == typeOf(value).getShape() &&
            (isView(operand.getDefiningOp()) ||
             llvm::isa_and_nonnull<ir::MatmulOp, ir::ElementwiseOpInterface>(operand.getDefiningOp()))) {
          next = operand;
          break;
        }
    }
    if (!next)
      return false;
    value = next;
  }
  return false;
}

struct ElementwiseBeforeView : mlir::OpInterfaceRewritePattern<ir::ElementwiseOpInterface> {
  using OpInterfaceRewritePattern::OpInterfaceRewritePattern;
  llvm::LogicalResult matchAndRewrite(ir::ElementwiseOpInterface op, mlir::PatternRewriter &rewriter) const override {
    auto result = typeOf(op->getResult(0));
    std::optional<Dims> dims = dimsOf(result);
    if (!dims)
      return mlir::failure();
    for (mlir::OpOperand &operand : op->getOpOperands()) {
      mlir::Operation *view = operand.get().getDefiningOp();
      // The view must show the whole result: an operand that is repeated has another shape.
      if (!isView(view) || dimsOf(typeOf(operand.get())) != dims || !operand.get().hasOneUse() ||
          !continuesMatmul(view->getOperand(0)))
        continue;
      if (succeeded(move(op, operand.getOperandNumber(), view, rewriter)))
        return mlir::success();
    }
    return mlir::failure();
  }

private:
  static llvm::LogicalResult move(mlir::Operation *op, unsigned number, mlir::Operation *view,
                                  mlir::PatternRewriter &rewriter) {
    Value base = view->getOperand(0);
    RankedTensorType baseType = typeOf(base), result = typeOf(op->getResult(0));
    std::optional<Dims> baseDims = dimsOf(baseType), resultDims = dimsOf(result);
    if (!baseDims)
      return mlir::failure();
    bool isReshape = llvm::isa<ir::ReshapeOp>(view);
    for (mlir::OpOperand &operand : op->getOpOperands()) {
      if (operand.getOperandNumber() == number)
        continue;
      Value other = operand.get();
      bool fits = isScalar(other) ? typeOf(other).getRank() <= baseType.getRank()
                                  : isReshape && dimsOf(typeOf(other)) == resultDims;
      if (!fits)
        return mlir::failure();
    }
    llvm::SmallVector<Value> operands;
    for (mlir::OpOperand &operand : op->getOpOperands()) {
      Value other = operand.get();
      if (operand.getOperandNumber() == number)
        operands.push_back(base);
      else if (isScalar(other))
        operands.push_back(other);
      else
        operands.push_back(ir::ReshapeOp::create(rewriter, view->getLoc(),
                                                 withElement(baseType, typeOf(other).getElementType()), other));
    }
    mlir::OperationState state(op->getLoc(), op->getName(), operands, withElement(baseType, result.getElementType()),
                               op->getAttrs());
    mlir::Operation *moved = rewriter.create(state);
    if (isReshape)
      rewriter.replaceOpWithNewOp<ir::ReshapeOp>(op, result, moved->getResult(0));
    else
      rewriter.replaceOpWithNewOp<ir::TransposeOp>(op, result, moved->getResult(0),
                                                   llvm::cast<ir::TransposeOp>(view).getPermutation());
    return mlir::success();
  }
};

} // namespace

void addMoveViewPatterns(mlir::RewritePatternSet &patterns) {
  patterns.add<ElementwiseBeforeView>(patterns.getContext());
}

} // namespace rlx::transforms
