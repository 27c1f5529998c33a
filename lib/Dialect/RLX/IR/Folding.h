//===- Folding.h - small known contents, for the folders --------*- C++ -*-===//
//
// Private to the dialect. Folders work on cells: the elements of a small constant, or the expressions of dim_values.
//
//===----------------------------------------------------------------------===//
#ifndef RLX_LIB_DIALECT_RLX_IR_FOLDING_H
#define RLX_LIB_DIALECT_RLX_IR_FOLDING_H

#include "ShapeFunctions.h"

#include <variant>

namespace rlx::ir::detail {

/// No fold makes a constant above this, but for splats that were there before.
constexpr int64_t maxFoldedBytes = 1024;

/// One element: a constant of any type, or a size.
using Cell = std::variant<mlir::Attribute, DimExpr>;

/// A tensor whose elements are known.
struct Cells {
  llvm::SmallVector<int64_t> shape;
  mlir::Type elementType;
  llvm::SmallVector<Cell> elements; ///< row-major

  bool isSymbolic() const;
  /// The integer element `i` as an expression (i64 only), or as a number.
  DimExpr expression(size_t i) const;
  llvm::APInt integer(size_t i) const;
};

/// Static sizes that come from no name: only such a value may become a constant. (Bound sizes are remembered as
/// expressions; folding by them would tie the graph to one binding.)
bool isPlain(mlir::RankedTensorType type);
/// As isPlain, and within the cap.
bool isSmall(mlir::RankedTensorType type);

/// Elements of a constant operand, as a folder is given it, when they are few.
std::optional<Cells> getCells(mlir::Value value, mlir::Attribute constant);
/// The attribute that holds cells: DimsAttr where one is a size (rank 0 or 1 only), else dense elements. Null when
/// neither can hold them.
mlir::Attribute fromCells(mlir::RankedTensorType type, llvm::ArrayRef<Cell> cells);
/// An element as a cell.
Cell makeCell(mlir::Type elementType, const llvm::APInt &value);

/// Row-major strides of a static shape.
llvm::SmallVector<int64_t> stridesOf(llvm::ArrayRef<int64_t> shape);
/// Calls `visit` with the index of each element of `shape`, in row-major order.
void forEachIndex(llvm::ArrayRef<int64_t> shape, llvm::function_ref<void(llvm::ArrayRef<int64_t>)> visit);

/// What the graph around `op` declares about names.
DimFacts factsAround(mlir::Operation *op);
/// True where the size is known to be 0 or more.
bool isNonNegative(const DimFacts &facts, const DimExpr &dim);

} // namespace rlx::ir::detail

#endif // RLX_LIB_DIALECT_RLX_IR_FOLDING_H
