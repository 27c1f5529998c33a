//===- Decompose.cpp - ops that kernels are not formed from ---------------===//
#include "Shapes.h"

#include "rlx/Transforms/Passes.h"

#include "llvm/ADT/APFloat.h"

using mlir::failure;
using mlir::FailureOr;
using mlir::LogicalResult;
using mlir::RankedTensorType;
using mlir::Value;

namespace rlx::transforms {

#define GEN_PASS_DEF_DECOMPOSE
#include "rlx/Transforms/Passes.h.inc"

namespace {

Dims dimsOf(Value value) { return ir::getShape(llvm::cast<RankedTensorType>(value.getType())).dims; }

/// Spells one attention op.
class AttentionSpelling {
public:
  AttentionSpelling(ir::AttentionOp op, const Binding &binding)
      : op(op), builder(op), binding(binding), element(op.getType().getElementType()) {}

  FailureOr<Value> spell() {
    Value query = op.getQuery(), key = op.getKey(), value = op.getValue(), mask = op.getMask();
    Dims queryDims = dimsOf(query), keyDims = dimsOf(key);
    size_t rank = queryDims.size(), headAxis = rank - 3;
    DimExpr heads = queryDims[headAxis], keyHeads = keyDims[headAxis];

    // One key head serves all by broadcasting; several serve a group each, which needs an axis of its own.
    bool grouped = heads != keyHeads && keyHeads != DimExpr(1);
    if (grouped) {
      if (!heads.constant() || !keyHeads.constant() || *keyHeads.constant() == 0)
        return op.emitError(nodeName(op)) << ": grouped queries need numbers of heads that are not named, not "
                                          << heads.str() << " and " << keyHeads.str();
      DimExpr groups = *heads.constant() / *keyHeads.constant();
      query = splitHeads(query, headAxis, keyHeads, groups);
      key = splitHeads(key, headAxis, keyHeads, 1);
      value = splitHeads(value, headAxis, keyHeads, 1);
      if (mask && dimsOf(mask).size() >= 3) {
        Dims maskDims = dimsOf(mask);
        size_t maskAxis = maskDims.size() - 3;
        bool perHead = maskDims[maskAxis] != DimExpr(1);
        if (!maskDims[maskAxis].isConstant()) {
          // A named size may turn out to be 1: all heads, then, before they are parted.
          maskDims[maskAxis] = heads;
          RankedTensorType type = ir::makeType(op.getContext(), {maskDims, element}, &binding);
          mask = ir::BroadcastToOp::create(builder, op.getLoc(), type, mask);
        }
        mask = splitHeads(mask, maskAxis, perHead ? keyHeads : DimExpr(1), perHead ? groups : DimExpr(1));
      }
      ++rank;
    }

    llvm::SmallVector<int64_t> swapLast;
    for (size_t axis = 0; axis < rank; ++axis)
      swapLast.push_back(axis);
    std::swap(swapLast[rank - 1], swapLast[rank - 2]);
    FailureOr<Value> scores = make<ir::TransposeOp>(key, swapLast);
    if (succeeded(scores))
      scores = make<ir::MatmulOp>(query, *scores);
    if (llvm::APFloat scale = op.getScale(); succeeded(scores) && !scale.isExactlyValue(1.0))
      scores = make<ir::MulOp>(*scores, scalar(scale));
    if (succeeded(scores) && mask)
      scores = make<ir::AddOp>(*scores, mask);
    if (succeeded(scores))
      scores = make<ir::SoftmaxOp>(*scores, static_cast<int64_t>(rank - 1));
    if (succeeded(scores))
      scores = make<ir::MatmulOp>(*scores, value);
    if (succeeded(scores) && grouped)
      return ir::ReshapeOp::create(builder, op.getLoc(), op.getType(), *scores).getResult();
    return scores;
  }

private:
  template <typename Op, typename... Args> FailureOr<Value> make(Args &&...args) {
    FailureOr<Op> made = ir::createChecked<Op>(builder, op.getLoc(), std::forward<Args>(args)...);
    if (failed(made))
      return failure();
    return Value((*made)->getResult(0));
  }

  Value scalar(llvm::APFloat number) {
    bool losesInfo = false;
    number.convert(llvm::cast<mlir::FloatType>(element).getFloatSemantics(), llvm::APFloat::rmNearestTiesToEven,
                   &losesInfo);
    auto type = RankedTensorType::get({}, element);
    return ir::ConstantOp::create(builder, op.getLoc(), type, mlir::DenseElementsAttr::get(type, number));
  }

  /// Replaces the axis of heads by two: `outer` and `inner`.
  Value splitHeads(Value value, size_t axis, const DimExpr &outer, const DimExpr &inner) {
    Dims dims = dimsOf(value);
    dims[axis] = outer;
    dims.insert(dims.begin() + axis + 1, inner);
    RankedTensorType type = ir::makeType(op.getContext(), {dims, element}, &binding);
    return ir::ReshapeOp::create(builder, op.getLoc(), type, value);
  }

  ir::AttentionOp op;
  mlir::OpBuilder builder;
  const Binding &binding;
  mlir::Type element;
};

struct Decompose : impl::DecomposeBase<Decompose> {
  void runOnOperation() override {
    Binding binding = getOperation().getBinding();
    llvm::SmallVector<ir::AttentionOp> ops;
    getOperation().walk([&](ir::AttentionOp op) { ops.push_back(op); });
    for (ir::AttentionOp op : ops) {
      FailureOr<Value> spelled = AttentionSpelling(op, binding).spell();
      if (failed(spelled))
        return signalPassFailure();
      if (spelled->getType() != op.getType()) {
        // The same sizes under other expressions (which the op's requirements make equal).
        mlir::OpBuilder builder(op);
        spelled = ir::AssumeDimsOp::create(builder, op.getLoc(), op.getType(), *spelled).getResult();
      }
      op.replaceAllUsesWith(*spelled);
      op.erase();
    }
  }
};

} // namespace
} // namespace rlx::transforms
