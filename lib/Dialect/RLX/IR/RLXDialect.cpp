//===- RLXDialect.cpp - the rlx dialect -----------------------------------===//

#include "rlx/Dialect/RLX/IR/RLXDialect.h"

#include "rlx/Dialect/RLX/IR/RLXOps.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace rlx::ir;

#include "rlx/Dialect/RLX/IR/RLXDialect.cpp.inc"

void RLXDialect::initialize() {
  registerAttributes();
  registerOperations();
}

Operation *RLXDialect::materializeConstant(OpBuilder &builder, Attribute value, Type type, Location location) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor)
    return nullptr;
  if (auto dims = dyn_cast<DimsAttr>(value)) {
    if (!tensor.getElementType().isInteger(64) || tensor.getRank() > 1)
      return nullptr;
    return DimValuesOp::create(builder, location, type, dims);
  }
  if (auto elements = dyn_cast<ElementsAttr>(value))
    return ConstantOp::create(builder, location, type, elements);
  return nullptr;
}
