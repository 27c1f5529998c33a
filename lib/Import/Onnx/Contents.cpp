//===- Contents.cpp - integers known while importing ----------------------===//
#include "Contents.h"

#include "rlx/Dialect/RLX/IR/RLXOps.h"

#include <cmath>

using namespace rlx;
using namespace rlx::onnx_import;

std::optional<llvm::SmallVector<double, 4>> rlx::onnx_import::constantNumbers(mlir::Value value) {
  auto op = value.getDefiningOp<ir::ConstantOp>();
  if (!op)
    return std::nullopt;
  auto elements = llvm::dyn_cast<mlir::DenseElementsAttr>(op.getValue());
  if (!elements || elements.getNumElements() > Contents::maxElements)
    return std::nullopt;
  llvm::SmallVector<double, 4> numbers;
  mlir::Type type = elements.getElementType();
  if (llvm::isa<mlir::FloatType>(type)) {
    for (llvm::APFloat number : elements.getValues<llvm::APFloat>()) {
      bool loses;
      number.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &loses);
      numbers.push_back(number.convertToDouble());
    }
  } else {
    bool isSigned = !type.isUnsignedInteger() && !type.isInteger(1);
    for (const llvm::APInt &number : elements.getValues<llvm::APInt>())
      numbers.push_back(isSigned ? number.signedRoundToDouble() : number.roundToDouble());
  }
  return numbers;
}

std::optional<DimVector> Contents::find(mlir::Value value) {
  if (!value)
    return std::nullopt;
  if (auto found = known.find(value); found != known.end())
    return found->second;
  if (auto op = value.getDefiningOp<ir::DimValuesOp>()) {
    auto dims = op.getValues().getDims();
    return DimVector(dims.begin(), dims.end());
  }
  auto op = value.getDefiningOp<ir::ConstantOp>();
  if (!op)
    return std::nullopt;
  auto elements = llvm::dyn_cast<mlir::DenseElementsAttr>(op.getValue());
  if (!elements || elements.getNumElements() > maxElements)
    return std::nullopt;
  mlir::Type type = elements.getElementType();
  DimVector dims;
  if (llvm::isa<mlir::FloatType>(type)) {
    std::optional<llvm::SmallVector<double, 4>> numbers = constantNumbers(value);
    for (double number : *numbers) {
      if (!(std::abs(number) < 9.0e15) || number != std::trunc(number) || (number == 0 && std::signbit(number)))
        return std::nullopt;
      dims.push_back(DimExpr(static_cast<int64_t>(number)));
    }
    return dims;
  }
  bool isSigned = !type.isUnsignedInteger() && !type.isInteger(1);
  for (const llvm::APInt &number : elements.getValues<llvm::APInt>()) {
    if (!isSigned && number.getActiveBits() > 63)
      return std::nullopt;
    dims.push_back(DimExpr(isSigned ? number.getSExtValue() : static_cast<int64_t>(number.getZExtValue())));
  }
  return dims;
}
