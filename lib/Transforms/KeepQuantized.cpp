//===- KeepQuantized.cpp - weights that stay in int8 ----------------------===//
//
// Exporters write an int8 weight as mul(convert(w), scale). Computed where it
// stands, that makes a float copy of the weight. The scale moves behind the op
// that reads the weight instead:
//
//   matmul(x, mul(convert(w), s))       ->  mul(matmul(x, w), s)                    s constant along K
//   gather(mul(convert(w), s), i)       ->  mul(convert(gather(w, i)), gather(s, i))  on axis 0
//   transpose(mul(convert(w), s))       ->  mul(convert(transpose(w)), transpose(s))
//
//===----------------------------------------------------------------------===//
#include "Patterns.h"
#include "Shapes.h"

#include "mlir/IR/PatternMatch.h"

using mlir::RankedTensorType;
using mlir::Value;

namespace rlx::transforms {
namespace {

/// convert(weight) * scale, the scale being null where there is none.
struct Dequantized {
  Value weight, scale;
  ir::ConvertOp convert;
};

/// A stored integer weight: a row of the weight table, maybe under a transpose.
bool isStoredInteger(Value value) {
  if (auto transpose = value.getDefiningOp<ir::TransposeOp>())
    value = transpose.getInput();
  return value.getDefiningOp<ir::WeightOp>() && typeOf(value).getElementType().isInteger();
}

/// Reads `value` as a dequantised weight of `value`'s own shape.
std::optional<Dequantized> readDequantized(Value value) {
  auto read = [&](Value converted, Value scale) -> std::optional<Dequantized> {
    auto convert = converted.getDefiningOp<ir::ConvertOp>();
    if (!convert || !isStoredInteger(convert.getInput()) ||
        !llvm::isa<mlir::FloatType>(convert.getType().getElementType()))
      return std::nullopt;
    // Were the scale of higher rank or larger, the product would have another shape than the weight.
    if (convert.getType() != value.getType())
      return std::nullopt;
    return Dequantized{convert.getInput(), scale, convert};
  };
  if (auto mul = value.getDefiningOp<ir::MulOp>()) {
    if (auto found = read(mul.getLhs(), mul.getRhs()))
      return found;
    return read(mul.getRhs(), mul.getLhs());
  }
  return read(value, Value());
}

struct ScaleAfterMatmul : mlir::OpRewritePattern<ir::MatmulOp> {
  using OpRewritePattern::OpRewritePattern;
  llvm::LogicalResult matchAndRewrite(ir::MatmulOp op, mlir::PatternRewriter &rewriter) const override {
    std::optional<Dequantized> weight = readDequantized(op.getRhs());
    // int8 is what the matmul kernels widen in registers; other widths keep their convert.
    if (!weight || !typeOf(weight->weight).getElementType().isInteger(8))
      return mlir::failure();
    // Unscaled sums reach 127 * K times the activations, more than f16 holds.
    if (weight->scale && op.getType().getElementType().isF16())
      return mlir::failure();
    if (weight->scale) {
      RankedTensorType scale = typeOf(weight->scale);
      // Constant along K, the last axis but one; a scalar and a row [N] are.
      if (scale.getRank() >= 2 && scale.getDimSize(scale.getRank() - 2) != 1)
        return mlir::failure();
    }
    auto type = op.getType();
    Value product = ir::MatmulOp::create(rewriter, op.getLoc(), type, op.getLhs(), weight->weight);
    if (weight->scale)
      product = ir::MulOp::create(rewriter, op.getLoc(), type, product, weight->scale);
    rewriter.replaceOp(op, product);
    return mlir::success();
  }
};

struct DequantizeAfterGather : mlir::OpRewritePattern<ir::GatherOp> {
  using OpRewritePattern::OpRewritePattern;
  llvm::LogicalResult matchAndRewrite(ir::GatherOp op, mlir::PatternRewriter &rewriter) const override {
    if (op.getAxis() != 0)
      return mlir::failure();
    std::optional<Dequantized> table = readDequantized(op.getData());
    if (!table)
      return mlir::failure();
    RankedTensorType result = op.getType(), data = typeOf(op.getData()), indices = typeOf(op.getIndices());

    // A scale per row is looked up as the row is; any other must still line up with the result's last axes.
    RankedTensorType gatheredScale;
    if (table->scale) {
      RankedTensorType scale = typeOf(table->scale);
      if (scale.getRank() == data.getRank() && scale.getDimSize(0) != 1) {
        std::optional<Dims> dims = dimsOf(indices), scaleDims = dimsOf(scale);
        if (scale.getDimSize(0) != data.getDimSize(0) || !dims || !scaleDims)
          return mlir::failure();
        llvm::SmallVector<int64_t> shape(indices.getShape());
        llvm::append_range(shape, scale.getShape().drop_front());
        dims->append(scaleDims->begin() + 1, scaleDims->end());
        gatheredScale = typeLike(scale, shape, *dims);
      } else if (scale.getRank() > result.getRank()) {
        return mlir::failure();
      }
    }

    Value rows =
        ir::GatherOp::create(rewriter, op.getLoc(), withElement(result, typeOf(table->weight).getElementType()),
                             table->weight, op.getIndices(), op.getAxis());
    Value value = ir::ConvertOp::create(rewriter, table->convert.getLoc(), result, rows);
    if (Value scale = table->scale) {
      if (gatheredScale)
        scale = ir::GatherOp::create(rewriter, op.getLoc(), gatheredScale, scale, op.getIndices(), op.getAxis());
      value = ir::MulOp::create(rewriter, op.getLoc(), result, value, scale);
    }
    rewriter.replaceOp(op, value);
    return mlir::success();
  }
};

struct DequantizeAfterTranspose : mlir::OpRewritePattern<ir::TransposeOp> {
  using OpRewritePattern::OpRewritePattern;
  llvm::LogicalResult matchAndRewrite(ir::TransposeOp op, mlir::PatternRewriter &rewriter) const override {
    std::optional<Dequantized> weight = readDequantized(op.getInput());
    if (!weight || !weight->weight.getDefiningOp<ir::WeightOp>())
      return mlir::failure();
    RankedTensorType result = op.getType();
    // The scale is permuted as the weight is, so it needs the weight's rank; unit dims in front give it that.
    Value scale = weight->scale;
    if (scale && typeOf(scale).getRank() != result.getRank() && typeOf(scale).getRank() != 0) {
      std::optional<Dims> dims = dimsOf(typeOf(scale));
      if (!dims)
        return mlir::failure();
      size_t missing = result.getRank() - typeOf(scale).getRank();
      llvm::SmallVector<int64_t> shape(missing, 1);
      llvm::append_range(shape, typeOf(scale).getShape());
      dims->insert(dims->begin(), missing, DimExpr(1));
      scale = ir::ReshapeOp::create(rewriter, op.getLoc(), typeLike(typeOf(scale), shape, *dims), scale);
    }
    auto transposed = [&](Value value) -> Value {
      return ir::TransposeOp::create(rewriter, op.getLoc(), permuted(typeOf(value), op.getPermutation()), value,
                                     op.getPermutation());
    };
    Value value = ir::ConvertOp::create(rewriter, weight->convert.getLoc(), result, transposed(weight->weight));
    if (scale)
      value = ir::MulOp::create(rewriter, op.getLoc(), result, value,
                                typeOf(scale).getRank() == 0 ? scale : transposed(scale));
    rewriter.replaceOp(op, value);
    return mlir::success();
  }
};

} // namespace

void addQuantizedPatterns(mlir::RewritePatternSet &patterns) {
  patterns.add<ScaleAfterMatmul, DequantizeAfterGather, DequantizeAfterTranspose>(patterns.getContext());
}

} // namespace rlx::transforms
