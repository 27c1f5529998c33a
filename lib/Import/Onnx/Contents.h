//===- Contents.h - integers known while importing --------------*- C++ -*-===//
//
// ONNX computes shapes by ops on integer tensors. While importing, the elements
// of such tensors are kept as size expressions beside the values, so that an
// operand that decides a shape can be read as expressions.
//
//===----------------------------------------------------------------------===//
#ifndef RLX_LIB_IMPORT_ONNX_CONTENTS_H
#define RLX_LIB_IMPORT_ONNX_CONTENTS_H

#include "rlx/Support/DimExpr.h"

#include "mlir/IR/Value.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"

#include <optional>

namespace rlx::onnx_import {

using DimVector = llvm::SmallVector<DimExpr, 4>;

/// Elements of integer and boolean values, row-major. A float value has contents
/// only when all its elements are integers (sizes that passed through a cast).
class Contents {
public:
  /// Longer tensors are data, not shapes.
  static constexpr int64_t maxElements = 256;

  /// The elements of `value` when they are known: recorded, or those of an
  /// rlx.constant or rlx.dim_values.
  std::optional<DimVector> find(mlir::Value value);
  void record(mlir::Value value, DimVector elements) { known[value] = std::move(elements); }

private:
  llvm::DenseMap<mlir::Value, DimVector> known;
};

/// The elements of a constant as doubles, or nothing.
std::optional<llvm::SmallVector<double, 4>> constantNumbers(mlir::Value value);

} // namespace rlx::onnx_import

#endif // RLX_LIB_IMPORT_ONNX_CONTENTS_H
