//===- Shapes.h - dims of types, as the passes handle them ------*- C++ -*-===//
#ifndef RLX_LIB_TRANSFORMS_SHAPES_H
#define RLX_LIB_TRANSFORMS_SHAPES_H

#include "rlx/Dialect/RLX/IR/RLXOps.h"
#include "rlx/Support/DimExpr.h"
#include "rlx/Support/DimFacts.h"

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <optional>
#include <string>

namespace rlx::transforms {

using Dims = llvm::SmallVector<DimExpr>;

/// The type of a value of the dialect: all are ranked tensors.
inline mlir::RankedTensorType typeOf(mlir::Value value) { return llvm::cast<mlir::RankedTensorType>(value.getType()); }

/// The dims of a type as expressions; nothing when one is unknown.
std::optional<Dims> dimsOf(mlir::RankedTensorType type);

/// A type of `source`'s element type with these sizes and these expressions.
mlir::RankedTensorType typeLike(mlir::RankedTensorType source, llvm::ArrayRef<int64_t> shape,
                                llvm::ArrayRef<DimExpr> dims);
/// `type` with another element type.
mlir::RankedTensorType withElement(mlir::RankedTensorType type, mlir::Type element);
/// `type` with its axes permuted: result axis i is axis permutation[i].
mlir::RankedTensorType permuted(mlir::RankedTensorType type, llvm::ArrayRef<int64_t> permutation);

/// `type` with a number for each dim whose names are all bound. Dims that do not
/// evaluate (two bound sizes that do not broadcast) stay open: the op that makes
/// them reports that. Errors: a size that is negative or overflows, or a tensor of
/// more bytes than 63 bits count.
Result<mlir::RankedTensorType> boundType(mlir::RankedTensorType type, const Binding &binding);

/// What a reader needs to see of a predicate that failed: "K is 6, but M+N is 5".
std::string explainFailure(const DimPredicate &predicate, const Binding &binding);

/// Checks what `op` requires of sizes, as far as the binding decides it: an error at
/// the op that names dims and sizes.
llvm::LogicalResult checkRequirements(mlir::Operation *op, const Binding &binding);
/// Checks the graph's constraints in the same way.
llvm::LogicalResult checkConstraints(ir::GraphOp graph, const Binding &binding);

/// How an op is called in messages: "node 'x'" where its location has a name, else
/// the op's own name.
std::string nodeName(mlir::Operation *op);

/// Calls `rewrite` on each tensor type of values in `root`: results, block arguments
/// and the signatures of graphs. Null means unchanged; a failure ends the walk.
llvm::LogicalResult rewriteTypes(
    mlir::Operation *root,
    llvm::function_ref<mlir::FailureOr<mlir::RankedTensorType>(mlir::Operation *, mlir::RankedTensorType)> rewrite);

} // namespace rlx::transforms

#endif // RLX_LIB_TRANSFORMS_SHAPES_H
