//===- ElementData.cpp - constants as bytes and back ----------------------===//

#include "rlx/Dialect/RLX/IR/ElementData.h"

#include "mlir/IR/BuiltinTypes.h"

#include <cassert>

using namespace mlir;

namespace rlx::ir {

std::vector<uint8_t> bytesOf(DenseElementsAttr value) {
  unsigned size = std::max(1u, value.getElementType().getIntOrFloatBitWidth() / 8);
  std::vector<uint8_t> bytes;
  bytes.reserve(value.getNumElements() * size);
  auto append = [&](const APInt &element) {
    uint64_t bits = element.getZExtValue();
    for (unsigned i = 0; i < size; ++i)
      bytes.push_back(static_cast<uint8_t>(bits >> (8 * i)));
  };
  if (isa<FloatType>(value.getElementType())) {
    for (const APFloat &element : value.getValues<APFloat>())
      append(element.bitcastToAPInt());
  } else {
    for (const APInt &element : value.getValues<APInt>())
      append(element);
  }
  return bytes;
}

DenseElementsAttr elementsFromBytes(ShapedType type, ArrayRef<uint8_t> bytes) {
  unsigned width = type.getElementType().getIntOrFloatBitWidth();
  unsigned size = std::max(1u, width / 8);
  assert(bytes.size() == static_cast<size_t>(type.getNumElements()) * size && "bytes must match the type");
  // Element by element: how an attribute packs i1 is its own affair.
  SmallVector<APInt> integers;
  for (size_t i = 0; i < bytes.size(); i += size) {
    uint64_t bits = 0;
    for (unsigned b = 0; b < size; ++b)
      bits |= static_cast<uint64_t>(bytes[i + b]) << (8 * b);
    integers.emplace_back(width, width == 1 ? bits != 0 : bits);
  }
  if (auto floatType = dyn_cast<FloatType>(type.getElementType())) {
    SmallVector<APFloat> floats;
    for (const APInt &bits : integers)
      floats.emplace_back(floatType.getFloatSemantics(), bits);
    return DenseElementsAttr::get(type, floats);
  }
  return DenseElementsAttr::get(type, integers);
}

} // namespace rlx::ir
