//===- ElementData.h - constants as bytes and back --------------*- C++ -*-===//
#ifndef RLX_DIALECT_RLX_IR_ELEMENTDATA_H
#define RLX_DIALECT_RLX_IR_ELEMENTDATA_H

#include "mlir/IR/BuiltinAttributes.h"

#include <cstdint>
#include <vector>

namespace rlx::ir {

/// The elements as buffers hold them: row-major, little-endian, one byte an i1.
/// A splat is written out.
std::vector<uint8_t> bytesOf(mlir::DenseElementsAttr value);

/// The constant of these bytes, which must be as many as `type` needs.
mlir::DenseElementsAttr elementsFromBytes(mlir::ShapedType type, llvm::ArrayRef<uint8_t> bytes);

} // namespace rlx::ir

#endif // RLX_DIALECT_RLX_IR_ELEMENTDATA_H
