//===- RecognizeLookups.cpp - lookups that move nothing -------------------===//
//
// Exporters build attention masks by positions: ranges of the batch and of the
// keys, expanded against each other, joined to index pairs and looked up in the
// mask. Where every index is the position along an axis of the result, and runs
// over the whole axis of the data, the lookup is a view:
//
//   gather_nd(x, concat(iota over B, iota over S))  ->  broadcast_to(reshape(x))
//   gather(x, iota)                                 ->  x
//
//===----------------------------------------------------------------------===//
#include "Patterns.h"
#include "Shapes.h"

#include "mlir/IR/PatternMatch.h"

#include "llvm/ADT/STLExtras.h"

using mlir::RankedTensorType;
using mlir::Value;

namespace rlx::transforms {
namespace {

const DimExpr kOne(1);

/// The axis of the result that axis `axis` of a reshape's input becomes, where the
/// reshape only adds or drops dims of 1 (`axis` itself is none of them).
std::optional<int64_t> axisAfterReshape(const Dims &from, const Dims &to, int64_t axis) {
  size_t position = 0, count = 0;
  for (auto [i, dim] : llvm::enumerate(from))
    if (dim != kOne) {
      if (static_cast<int64_t>(i) == axis)
        position = count;
      ++count;
    }
  std::optional<int64_t> found;
  size_t next = 0;
  auto wide = llvm::make_filter_range(from, [](const DimExpr &dim) { return dim != kOne; });
  auto it = wide.begin();
  for (auto [i, dim] : llvm::enumerate(to)) {
    if (dim == kOne)
      continue;
    if (it == wide.end() || *it != dim)
      return std::nullopt;
    if (next++ == position)
      found = static_cast<int64_t>(i);
    ++it;
  }
  return it == wide.end() ? found : std::nullopt;
}

/// The axis along which `value` counts 0, 1, 2, ..., being constant along all
/// others; nothing when it does not.
std::optional<int64_t> countedAxis(Value value) {
  std::optional<Dims> dims = dimsOf(typeOf(value));
  mlir::Operation *op = value.getDefiningOp();
  if (!dims || !op)
    return std::nullopt;
  if (auto iota = llvm::dyn_cast<ir::IotaOp>(op)) {
    llvm::ArrayRef<DimExpr> startStep = iota.getStartStep().getDims();
    if (startStep[0] != DimExpr(0) || startStep[1] != kOne || (*dims)[iota.getAxis()] == kOne)
      return std::nullopt;
    return iota.getAxis();
  }
  // Of the integer types that index, i32 and i64, both hold every position.
  if (auto convert = llvm::dyn_cast<ir::ConvertOp>(op)) {
    mlir::Type from = typeOf(convert.getInput()).getElementType(), to = typeOf(value).getElementType();
    if ((from.isSignlessInteger(64) || from.isSignlessInteger(32)) && to.isSignlessInteger(64))
      return countedAxis(convert.getInput());
    return std::nullopt;
  }
  if (auto broadcast = llvm::dyn_cast<ir::BroadcastToOp>(op)) {
    std::optional<int64_t> axis = countedAxis(broadcast.getInput());
    std::optional<Dims> from = dimsOf(typeOf(broadcast.getInput()));
    if (!axis)
      return std::nullopt;
    int64_t moved = *axis + static_cast<int64_t>(dims->size() - from->size());
    return (*from)[*axis] == (*dims)[moved] ? std::optional(moved) : std::nullopt;
  }
  if (auto reshape = llvm::dyn_cast<ir::ReshapeOp>(op)) {
    std::optional<int64_t> axis = countedAxis(reshape.getInput());
    return axis ? axisAfterReshape(*dimsOf(typeOf(reshape.getInput())), *dims, *axis) : std::nullopt;
  }
  return std::nullopt;
}

struct GatherNDByPosition : mlir::OpRewritePattern<ir::GatherNDOp> {
  using OpRewritePattern::OpRewritePattern;
  llvm::LogicalResult matchAndRewrite(ir::GatherNDOp op, mlir::PatternRewriter &rewriter) const override {
    RankedTensorType data = typeOf(op.getData()), indices = typeOf(op.getIndices());
    std::optional<Dims> dataDims = dimsOf(data), indexDims = dimsOf(indices), resultDims = dimsOf(op.getType());
    if (op.getBatchDims() != 0 || !dataDims || !indexDims || !resultDims)
      return mlir::failure();
    llvm::SmallVector<Value> parts{op.getIndices()};
    if (auto concat = op.getIndices().getDefiningOp<ir::ConcatOp>()) {
      if (static_cast<int64_t>(concat.getAxis()) != indices.getRank() - 1)
        return mlir::failure();
      parts.assign(concat.getInputs().begin(), concat.getInputs().end());
    }
    // (axis of the result, axis of the data)
    llvm::SmallVector<std::pair<int64_t, int64_t>> axes;
    for (Value part : parts) {
      if (typeOf(part).getShape().back() != 1)
        return mlir::failure();
      std::optional<int64_t> axis = countedAxis(part);
      size_t indexed = axes.size();
      if (!axis || indexed == dataDims->size() || (*indexDims)[*axis] != (*dataDims)[indexed] ||
          llvm::is_contained(llvm::make_first_range(axes), *axis))
        return mlir::failure();
      axes.emplace_back(*axis, indexed);
    }
    // The data's axes in the order the result has them, then dims of 1 between them, then repetition.
    llvm::sort(axes);
    llvm::SmallVector<int64_t> permutation = llvm::to_vector(llvm::make_second_range(axes));
    for (size_t axis = axes.size(); axis < dataDims->size(); ++axis)
      permutation.push_back(static_cast<int64_t>(axis));
    size_t outer = indexDims->size() - 1;
    Dims dims(outer, kOne);
    llvm::SmallVector<int64_t> shape(outer, 1);
    for (auto [axis, source] : axes) {
      dims[axis] = (*dataDims)[source];
      shape[axis] = data.getDimSize(source);
    }
    for (size_t axis = axes.size(); axis < dataDims->size(); ++axis) {
      dims.push_back((*dataDims)[axis]);
      shape.push_back(data.getDimSize(axis));
    }
    Value value = op.getData();
    if (!llvm::is_sorted(permutation))
      value = ir::TransposeOp::create(rewriter, op.getLoc(), permuted(data, permutation), value, permutation);
    value = ir::ReshapeOp::create(rewriter, op.getLoc(), typeLike(data, shape, dims), value);
    if (dims != *resultDims)
      value = ir::BroadcastToOp::create(rewriter, op.getLoc(), op.getType(), value);
    rewriter.replaceOp(op, value);
    return mlir::success();
  }
};

struct GatherByPosition : mlir::OpRewritePattern<ir::GatherOp> {
  using OpRewritePattern::OpRewritePattern;
  llvm::LogicalResult matchAndRewrite(ir::GatherOp op, mlir::PatternRewriter &rewriter) const override {
    RankedTensorType indices = typeOf(op.getIndices());
    std::optional<Dims> dataDims = dimsOf(typeOf(op.getData())), indexDims = dimsOf(indices);
    if (indices.getRank() != 1 || op.getData().getType() != op.getType() || !dataDims || !indexDims ||
        (*indexDims)[0] != (*dataDims)[op.getAxis()] || countedAxis(op.getIndices()) != 0)
      return mlir::failure();
    rewriter.replaceOp(op, op.getData());
    return mlir::success();
  }
};

} // namespace

void addLookupPatterns(mlir::RewritePatternSet &patterns) {
  patterns.add<GatherNDByPosition, GatherByPosition>(patterns.getContext());
}

} // namespace rlx::transforms
