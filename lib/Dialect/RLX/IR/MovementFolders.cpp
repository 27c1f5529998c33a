//===- MovementFolders.cpp - folding what only moves elements -------------===//

#include "Folding.h"

using namespace mlir;
using namespace rlx;
using namespace rlx::ir;
using namespace rlx::ir::detail;

OpFoldResult AssumeDimsOp::fold(FoldAdaptor) {
  if (getInput().getType() == getType())
    return getInput();
  return {};
}

/// Element `source(index)` (a flat position) of known cells for each index of the result.
static Attribute rearrange(RankedTensorType type, const Cells &cells, function_ref<int64_t(ArrayRef<int64_t>)> source) {
  SmallVector<Cell> results;
  forEachIndex(type.getShape(), [&](ArrayRef<int64_t> index) { results.push_back(cells.elements[source(index)]); });
  return fromCells(type, results);
}

static int64_t dot(ArrayRef<int64_t> index, ArrayRef<int64_t> strides) {
  int64_t sum = 0;
  for (auto [i, stride] : llvm::zip_equal(index, strides))
    sum += i * stride;
  return sum;
}

/// Equal types say that two values have equal sizes only when no size is unknown.
static bool sameSizes(Value value, RankedTensorType type) {
  return value.getType() == type && getShape(type).isKnown();
}

OpFoldResult ReshapeOp::fold(FoldAdaptor adaptor) {
  RankedTensorType type = getType();
  if (sameSizes(getInput(), type))
    return getInput();
  if (auto inner = getInput().getDefiningOp<ReshapeOp>()) {
    if (sameSizes(inner.getInput(), type))
      return inner.getInput();
    getInputMutable().assign(inner.getInput());
    return getResult();
  }
  if (!isPlain(type))
    return {};
  // A splat stays one, whatever its size.
  if (auto dense = dyn_cast_or_null<DenseElementsAttr>(adaptor.getInput());
      dense && dense.isSplat() && dense.getNumElements() == type.getNumElements())
    return dense.reshape(RankedTensorType::get(type.getShape(), type.getElementType()));
  if (!isSmall(type))
    return {};
  if (std::optional<Cells> cells = getCells(getInput(), adaptor.getInput());
      cells && static_cast<int64_t>(cells->elements.size()) == type.getNumElements())
    return fromCells(type, cells->elements);
  return {};
}

OpFoldResult TransposeOp::fold(FoldAdaptor adaptor) {
  RankedTensorType type = getType();
  ArrayRef<int64_t> permutation = getPermutation();
  bool identity = llvm::all_of(llvm::enumerate(permutation),
                               [](auto axis) { return axis.value() == static_cast<int64_t>(axis.index()); });
  if (identity && getInput().getType() == type)
    return getInput();
  if (auto inner = getInput().getDefiningOp<TransposeOp>()) {
    SmallVector<int64_t> composed;
    for (int64_t axis : permutation)
      composed.push_back(inner.getPermutation()[axis]);
    setPermutation(composed);
    getInputMutable().assign(inner.getInput());
    return getResult();
  }
  if (!isSmall(type))
    return {};
  std::optional<Cells> cells = getCells(getInput(), adaptor.getInput());
  if (!cells)
    return {};
  SmallVector<int64_t> own = stridesOf(cells->shape), strides;
  for (int64_t axis : permutation)
    strides.push_back(own[axis]);
  return rearrange(type, *cells, [&](ArrayRef<int64_t> index) { return dot(index, strides); });
}

OpFoldResult BroadcastToOp::fold(FoldAdaptor adaptor) {
  RankedTensorType type = getType();
  if (sameSizes(getInput(), type))
    return getInput();
  if (auto inner = getInput().getDefiningOp<BroadcastToOp>()) {
    getInputMutable().assign(inner.getInput());
    return getResult();
  }
  if (!isSmall(type))
    return {};
  std::optional<Cells> cells = getCells(getInput(), adaptor.getInput());
  if (!cells)
    return {};
  SmallVector<int64_t> strides(type.getRank() - cells->shape.size(), 0);
  for (auto [size, stride] : llvm::zip_equal(cells->shape, stridesOf(cells->shape)))
    strides.push_back(size == 1 ? 0 : stride);
  return rearrange(type, *cells, [&](ArrayRef<int64_t> index) { return dot(index, strides); });
}

OpFoldResult SliceOp::fold(FoldAdaptor adaptor) {
  RankedTensorType type = getType();
  bool fromStart = llvm::all_of(getStarts().getDims(), [](const DimExpr &start) { return start.constant() == 0; });
  bool byOne = llvm::all_of(getSteps(), [](int64_t step) { return step == 1; });
  if (fromStart && byOne && sameSizes(getInput(), type))
    return getInput();
  if (!isSmall(type))
    return {};
  std::optional<Cells> cells = getCells(getInput(), adaptor.getInput());
  if (!cells)
    return {};
  SmallVector<int64_t> own = stridesOf(cells->shape), starts;
  for (auto [axis, start] : llvm::enumerate(getStarts().getDims())) {
    std::optional<int64_t> number = start.constant();
    if (!number)
      return {};
    // The verifier has seen that every element lies inside; do not read outside if it has not run.
    __int128 last = __int128(*number) + __int128(type.getDimSize(axis) - 1) * getSteps()[axis];
    if (type.getDimSize(axis) > 0 &&
        (*number < 0 || *number >= cells->shape[axis] || last < 0 || last >= cells->shape[axis]))
      return {};
    starts.push_back(*number);
  }
  return rearrange(type, *cells, [&](ArrayRef<int64_t> index) {
    int64_t position = 0;
    for (size_t axis = 0; axis < index.size(); ++axis)
      position += (starts[axis] + index[axis] * getSteps()[axis]) * own[axis];
    return position;
  });
}

OpFoldResult ConcatOp::fold(FoldAdaptor adaptor) {
  RankedTensorType type = getType();
  if (getInputs().size() == 1 && getInputs().front().getType() == type)
    return getInputs().front();
  if (!isSmall(type))
    return {};
  SmallVector<Cells> parts;
  for (auto [value, constant] : llvm::zip_equal(getInputs(), adaptor.getInputs())) {
    std::optional<Cells> cells = getCells(value, constant);
    if (!cells)
      return {};
    parts.push_back(std::move(*cells));
  }
  size_t axis = getAxis();
  SmallVector<Cell> results;
  forEachIndex(type.getShape(), [&](ArrayRef<int64_t> index) {
    SmallVector<int64_t> inside(index);
    const Cells *part = parts.begin();
    while (inside[axis] >= part->shape[axis])
      inside[axis] -= (part++)->shape[axis];
    results.push_back(part->elements[dot(inside, stridesOf(part->shape))]);
  });
  return fromCells(type, results);
}

OpFoldResult GatherOp::fold(FoldAdaptor adaptor) {
  RankedTensorType type = getType();
  if (!isSmall(type))
    return {};
  std::optional<Cells> data = getCells(getData(), adaptor.getData());
  std::optional<Cells> indices = getCells(getIndices(), adaptor.getIndices());
  if (!data || !indices || indices->isSymbolic())
    return {};
  size_t axis = getAxis();
  int64_t extent = data->shape[axis];
  SmallVector<int64_t> rows;
  for (size_t i = 0; i < indices->elements.size(); ++i) {
    int64_t row = indices->integer(i).getSExtValue();
    // Out of range is an error of the run, which names the node.
    if (row < -extent || row >= extent)
      return {};
    rows.push_back(row < 0 ? row + extent : row);
  }
  SmallVector<int64_t> dataStrides = stridesOf(data->shape), indexStrides = stridesOf(indices->shape);
  size_t indexRank = indices->shape.size();
  return rearrange(type, *data, [&](ArrayRef<int64_t> index) {
    int64_t position = dot(index.take_front(axis), ArrayRef(dataStrides).take_front(axis));
    position += rows[dot(index.slice(axis, indexRank), indexStrides)] * dataStrides[axis];
    return position + dot(index.drop_front(axis + indexRank), ArrayRef(dataStrides).drop_front(axis + 1));
  });
}

OpFoldResult IotaOp::fold(FoldAdaptor) {
  RankedTensorType type = getType();
  // A range over a named dim stays a kernel: its length is not known.
  if (!isSmall(type))
    return {};
  const DimExpr &start = getStartStep().getDims()[0], &step = getStartStep().getDims()[1];
  SmallVector<Cell> results;
  forEachIndex(type.getShape(),
               [&](ArrayRef<int64_t> index) { results.push_back(start + step * DimExpr(index[getAxis()])); });
  if (Attribute known = fromCells(type, results))
    return known;
  return {};
}

OpFoldResult ReduceOp::fold(FoldAdaptor adaptor) {
  RankedTensorType type = getType();
  if (getAxes().empty() && getInput().getType() == type)
    return getInput();
  // Sizes are lists: only those, and integer lists, are reduced here.
  if (!isSmall(type) || getAxes().size() != 1 || getKind() == ReduceKind::Mean ||
      !isa<IntegerType>(type.getElementType()))
    return {};
  std::optional<Cells> cells = getCells(getInput(), adaptor.getInput());
  if (!cells || cells->shape.size() != 1)
    return {};
  bool extremum = getKind() == ReduceKind::Max || getKind() == ReduceKind::Min;
  size_t count = cells->elements.size();
  if (cells->isSymbolic()) {
    DimExpr result = extremum ? cells->expression(0) : DimExpr(getKind() == ReduceKind::Prod ? 1 : 0);
    for (size_t i = 0; i < count; ++i) {
      DimExpr size = cells->expression(i);
      switch (getKind()) {
      case ReduceKind::Sum:
        result = result + size;
        break;
      case ReduceKind::Prod:
        result = result * size;
        break;
      case ReduceKind::Max:
        result = DimExpr::max(result, size);
        break;
      case ReduceKind::Min:
        result = DimExpr::min(result, size);
        break;
      case ReduceKind::Mean:
        return {};
      }
    }
    return fromCells(type, {Cell(result)});
  }
  bool isUnsigned = type.getElementType().isUnsignedInteger();
  unsigned width = type.getElementType().getIntOrFloatBitWidth();
  APInt result(width, getKind() == ReduceKind::Prod ? 1 : 0);
  if (getKind() == ReduceKind::Max)
    result = isUnsigned ? APInt::getMinValue(width) : APInt::getSignedMinValue(width);
  if (getKind() == ReduceKind::Min)
    result = isUnsigned ? APInt::getMaxValue(width) : APInt::getSignedMaxValue(width);
  for (size_t i = 0; i < count; ++i) {
    APInt value = cells->integer(i);
    switch (getKind()) {
    case ReduceKind::Sum:
      result += value;
      break;
    case ReduceKind::Prod:
      result *= value;
      break;
    case ReduceKind::Max:
      result = (isUnsigned ? value.ugt(result) : value.sgt(result)) ? value : result;
      break;
    case ReduceKind::Min:
      result = (isUnsigned ? value.ult(result) : value.slt(result)) ? value : result;
      break;
    case ReduceKind::Mean:
      return {};
    }
  }
  return fromCells(type, {makeCell(type.getElementType(), result)});
}
