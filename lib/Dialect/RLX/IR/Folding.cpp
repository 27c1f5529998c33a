//===- Folding.cpp - small known contents ---------------------------------===//

#include "Folding.h"

using namespace mlir;
using namespace rlx;
using namespace rlx::ir;
using namespace rlx::ir::detail;

bool Cells::isSymbolic() const {
  return llvm::any_of(elements, [](const Cell &cell) { return std::holds_alternative<DimExpr>(cell); });
}

DimExpr Cells::expression(size_t i) const {
  if (const DimExpr *dim = std::get_if<DimExpr>(&elements[i]))
    return *dim;
  return DimExpr(integer(i).getSExtValue());
}

llvm::APInt Cells::integer(size_t i) const { return cast<IntegerAttr>(std::get<Attribute>(elements[i])).getValue(); }

bool rlx::ir::detail::isPlain(RankedTensorType type) { return type.hasStaticShape() && !type.getEncoding(); }

bool rlx::ir::detail::isSmall(RankedTensorType type) {
  if (!isPlain(type))
    return false;
  int64_t bytes = elementBytes(type.getElementType());
  for (int64_t size : type.getShape())
    if (llvm::MulOverflow(bytes, size, bytes) || bytes > maxFoldedBytes)
      // An empty axis further on makes it small again, but nobody needs that folded.
      return false;
  return true;
}

std::optional<Cells> rlx::ir::detail::getCells(Value value, Attribute constant) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!type || !type.hasStaticShape() || !constant)
    return std::nullopt;
  Cells cells{SmallVector<int64_t>(type.getShape()), type.getElementType(), {}};
  if (auto dims = dyn_cast<DimsAttr>(constant)) {
    for (const DimExpr &dim : dims.getDims())
      cells.elements.push_back(dim);
    return cells;
  }
  auto dense = dyn_cast<DenseElementsAttr>(constant);
  if (!dense || !isSmall(RankedTensorType::get(type.getShape(), type.getElementType())))
    return std::nullopt;
  for (Attribute element : dense.getValues<Attribute>())
    cells.elements.push_back(element);
  return cells;
}

Attribute rlx::ir::detail::fromCells(RankedTensorType type, ArrayRef<Cell> cells) {
  // A list of sizes that are all numbers is a constant.
  bool symbolic = llvm::any_of(cells, [](const Cell &cell) {
    const DimExpr *dim = std::get_if<DimExpr>(&cell);
    return dim && !dim->isConstant();
  });
  if (symbolic) {
    if (type.getRank() > 1)
      return {};
    SmallVector<DimExpr> dims;
    for (const Cell &cell : cells) {
      if (const DimExpr *dim = std::get_if<DimExpr>(&cell))
        dims.push_back(*dim);
      else
        dims.push_back(cast<IntegerAttr>(std::get<Attribute>(cell)).getValue().getSExtValue());
    }
    return DimsAttr::get(type.getContext(), dims);
  }
  SmallVector<Attribute> elements;
  for (const Cell &cell : cells) {
    if (const DimExpr *dim = std::get_if<DimExpr>(&cell))
      elements.push_back(IntegerAttr::get(type.getElementType(), *dim->constant()));
    else
      elements.push_back(std::get<Attribute>(cell));
  }
  return DenseElementsAttr::get(RankedTensorType::get(type.getShape(), type.getElementType()), elements);
}

Cell rlx::ir::detail::makeCell(Type elementType, const llvm::APInt &value) {
  return Attribute(IntegerAttr::get(elementType, value));
}

SmallVector<int64_t> rlx::ir::detail::stridesOf(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;)
    strides[i - 1] = strides[i] * shape[i];
  return strides;
}

void rlx::ir::detail::forEachIndex(ArrayRef<int64_t> shape, function_ref<void(ArrayRef<int64_t>)> visit) {
  if (llvm::is_contained(shape, 0))
    return;
  SmallVector<int64_t> index(shape.size(), 0);
  while (true) {
    visit(index);
    size_t axis = shape.size();
    while (axis > 0 && ++index[axis - 1] == shape[axis - 1])
      index[--axis] = 0;
    if (axis == 0)
      return;
  }
}

DimFacts rlx::ir::detail::factsAround(Operation *op) {
  if (auto graph = op->getParentOfType<GraphOp>())
    return graph.getFacts();
  return {};
}

bool rlx::ir::detail::isNonNegative(const DimFacts &facts, const DimExpr &dim) { return facts.range(dim).min >= 0; }
