//===- RLXOps.h - the ops of the rlx dialect --------------------*- C++ -*-===//
#ifndef RLX_DIALECT_RLX_IR_RLXOPS_H
#define RLX_DIALECT_RLX_IR_RLXOPS_H

#include "rlx/Dialect/RLX/IR/RLXAttributes.h"
#include "rlx/Dialect/RLX/IR/RLXDialect.h"
#include "rlx/Dialect/RLX/IR/TensorShape.h"
#include "rlx/Support/DimFacts.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "rlx/Dialect/RLX/IR/RLXInterfaces.h.inc"

#define GET_OP_CLASSES
#include "rlx/Dialect/RLX/IR/RLXOps.h.inc"

namespace rlx::ir {

/// Result types of an op with a shape function, from its operands' types as they are now. Names that `binding` has
/// get their numbers. An error (at the op) where operands contradict each other, by expression or by number.
mlir::LogicalResult inferResultTypes(mlir::Operation *op, llvm::SmallVectorImpl<mlir::RankedTensorType> &types,
                                     const Binding *binding = nullptr);

/// An i64 tensor of the sizes, rank 1 (or a scalar, of one size): a constant when all are numbers, else dim_values.
mlir::Value createDimValues(mlir::OpBuilder &builder, mlir::Location location, llvm::ArrayRef<DimExpr> dims,
                            bool scalar = false);

/// The sizes an i64 value of rank 0 or 1 is known to hold: of a dim_values or a constant. Nothing otherwise.
std::optional<llvm::SmallVector<DimExpr>> getDimValues(mlir::Value value);

/// Creates an op of inferred result type from operands and attributes that may not fit each other, as those of a
/// file: a diagnostic at `location` and failure where the builder's own inference would end the process. Takes the
/// arguments of `OpTy::build` after the result type. Does not fold.
template <typename OpTy, typename... Args>
mlir::FailureOr<OpTy> createChecked(mlir::OpBuilder &builder, mlir::Location location, Args &&...args) {
  mlir::OperationState state(location, OpTy::getOperationName());
  mlir::Type placeholder = mlir::RankedTensorType::get({}, builder.getI1Type());
  OpTy::build(builder, state, placeholder, std::forward<Args>(args)...);
  mlir::Operation *op = mlir::Operation::create(state);
  llvm::SmallVector<mlir::RankedTensorType> types;
  if (mlir::failed(inferResultTypes(op, types))) {
    op->destroy();
    return mlir::failure();
  }
  op->getResult(0).setType(types.front());
  if (mlir::failed(mlir::verify(op))) {
    op->destroy();
    return mlir::failure();
  }
  builder.insert(op);
  return mlir::cast<OpTy>(op);
}

/// As createChecked, then folded: the value may be one that was there before, or a new constant.
template <typename OpTy, typename... Args>
mlir::FailureOr<mlir::Value> createOrFoldChecked(mlir::OpBuilder &builder, mlir::Location location, Args &&...args) {
  mlir::FailureOr<OpTy> op = createChecked<OpTy>(builder, location, std::forward<Args>(args)...);
  if (mlir::failed(op))
    return mlir::failure();
  llvm::SmallVector<mlir::Value> folded;
  if (mlir::succeeded(builder.tryFold(*op, folded)) && !folded.empty()) {
    (*op)->erase();
    return folded.front();
  }
  return mlir::Value((*op)->getResult(0));
}

} // namespace rlx::ir

#endif // RLX_DIALECT_RLX_IR_RLXOPS_H
