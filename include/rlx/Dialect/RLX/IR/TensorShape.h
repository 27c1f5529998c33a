//===- TensorShape.h - shapes over named dims -------------------*- C++ -*-===//
//
// What shape functions compute with, and how it is written into tensor types.
//
//===----------------------------------------------------------------------===//
#ifndef RLX_DIALECT_RLX_IR_TENSORSHAPE_H
#define RLX_DIALECT_RLX_IR_TENSORSHAPE_H

#include "rlx/Data/Plan_generated.h"
#include "rlx/Dialect/RLX/IR/RLXAttributes.h"
#include "rlx/Support/DimExpr.h"
#include "rlx/Support/Result.h"

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/SmallVector.h"

#include <optional>
#include <string>

namespace rlx::ir {

/// A dim of which nothing is known yet: a `?` without an expression. Arithmetic carries it along; see isUnknown.
DimExpr unknownDim();
/// True when an unknown dim takes part in `dim`.
bool isUnknown(const DimExpr &dim);

/// Sizes as expressions, outermost first, and the element type. A size that is a number is a constant.
struct TensorShape {
  llvm::SmallVector<DimExpr> dims;
  mlir::Type elementType;

  size_t rank() const { return dims.size(); }
  /// False when some dim is unknown.
  bool isKnown() const;
  /// The product of the dims (1 for a scalar).
  DimExpr elements() const;
};

/// Something that must hold of sizes, and the line an error starts with when it does not.
struct Requirement {
  DimPredicate predicate;
  std::string message;
};

/// Shape of a type by its expressions: those of the encoding where there is one (also for bound dims), else the
/// numbers; a `?` without expression is unknownDim().
TensorShape getShape(mlir::RankedTensorType type);
/// Shape of a type by its numbers: as getShape, but a bound dim is its number.
TensorShape getBoundShape(mlir::RankedTensorType type);

/// Tensor type of a shape. It has an encoding only when some dim is not a number. With `bound`, dims whose names
/// are all bound get their number beside the expression; one that cannot be evaluated, or would be negative, stays
/// `?`. A shape with an unknown dim has numbers where they are constant, `?` elsewhere and no encoding.
mlir::RankedTensorType makeType(mlir::MLIRContext *context, const TensorShape &shape, const Binding *bound = nullptr);

/// Element type as plain data and back. Signless i8 to i64 are signed. Nothing for other types.
std::optional<data::ElementType> toElementType(mlir::Type type);
mlir::Type fromElementType(mlir::MLIRContext *context, data::ElementType type);
/// Bytes of one element in storage (i1 is one byte).
int64_t elementBytes(mlir::Type type);

/// Two sizes that cannot be equal under any binding (5 and 6; S and S + 1). False where one is unknown.
bool certainlyDiffer(const DimExpr &a, const DimExpr &b);
/// Size of two dims broadcast together, or nothing when they are numbers that do not. A number other than 1 wins
/// against a name, which then must be that number or 1.
std::optional<DimExpr> broadcastDim(const DimExpr &a, const DimExpr &b);
/// Sizes of two shapes broadcast together, aligned at the last axis; nothing when they do not.
std::optional<llvm::SmallVector<DimExpr>> broadcastShapes(llvm::ArrayRef<DimExpr> a, llvm::ArrayRef<DimExpr> b);
/// The sizes that a reshape of `input` to `request` gives. A -1 in the request stands for the size that keeps the
/// number of elements; with `zeroCopies`, a 0 stands for the input's size of the same axis. Errors: two -1, another
/// negative number, a 0 beyond the input's axes, the other sizes having product 0 or not dividing the elements, and
/// numbers of elements that certainly differ. Where the quotient is not exact for every size it is a floordiv, and
/// rlx.reshape requires equal numbers of elements.
Result<llvm::SmallVector<DimExpr>> resolveReshape(llvm::ArrayRef<DimExpr> input, llvm::ArrayRef<DimExpr> request,
                                                  bool zeroCopies);
/// "[B, 2*S, ?]".
std::string toString(llvm::ArrayRef<DimExpr> dims);

/// True when a value of type `inferred` may be declared as `actual`: one element type, one rank, no sizes that
/// certainly differ.
bool areCompatible(mlir::TypeRange inferred, mlir::TypeRange actual);

/// The predicate is true for all sizes (names are 0 or more), or an unknown dim takes part.
bool isCertain(const DimPredicate &predicate);

} // namespace rlx::ir

#endif // RLX_DIALECT_RLX_IR_TENSORSHAPE_H
