//===- ShapeFunctions.h - what the ops' generated methods call --*- C++ -*-===//
//
// Private to the dialect. One computeShapes per op, over its adaptor, so that the builders (which have no op yet),
// the verifier and inferShapes share it. Each checks everything it relies on: the verifier calls it on whatever the
// parser read.
//
//===----------------------------------------------------------------------===//
#ifndef RLX_LIB_DIALECT_RLX_IR_SHAPEFUNCTIONS_H
#define RLX_LIB_DIALECT_RLX_IR_SHAPEFUNCTIONS_H

#include "rlx/Dialect/RLX/IR/RLXOps.h"

namespace rlx::ir::detail {

using EmitError = llvm::function_ref<mlir::InFlightDiagnostic()>;
using Shapes = llvm::ArrayRef<TensorShape>;
using ShapeResults = llvm::SmallVectorImpl<TensorShape>;
using ShapeFunction = llvm::function_ref<mlir::LogicalResult(EmitError, Shapes, ShapeResults &)>;

/// Runs a shape function twice where operands are bound, on expressions and on numbers, and joins the results:
/// expressions as provenance, numbers as sizes.
mlir::LogicalResult inferTypes(mlir::MLIRContext *context, std::optional<mlir::Location> location,
                               llvm::StringRef opName, mlir::ValueRange operands,
                               llvm::SmallVectorImpl<mlir::Type> &types, ShapeFunction shapes);
mlir::LogicalResult inferTypes(mlir::MLIRContext *context, EmitError emit, mlir::ValueRange operands,
                               llvm::SmallVectorImpl<mlir::RankedTensorType> &types, ShapeFunction shapes,
                               const Binding *binding);

/// The verifier of every op with inferred types: one error in our words, instead of MLIR's own check of the same.
mlir::LogicalResult verifyInferred(mlir::Operation *op);

/// Which element types an elementwise op takes, and gives.
enum class ElementRule { Any, Number, Integer, Test, Compare, Select };
mlir::LogicalResult elementwiseShapes(ElementRule rule, EmitError emit, Shapes operands, ShapeResults &results);

template <typename Adaptor>
mlir::LogicalResult computeShapes(const Adaptor &, EmitError emit, Shapes operands, ShapeResults &results) {
  auto isOneOf = []<typename... Ops>(std::tuple<Ops...> *) {
    return (std::is_same_v<Adaptor, typename Ops::Adaptor> || ...);
  };
  constexpr std::tuple<AndOp, OrOp, XorOp, ShlOp, ShrOp, NotOp> *integers = nullptr;
  constexpr std::tuple<MaxOp, MinOp> *any = nullptr;
  ElementRule rule = ElementRule::Number;
  if (isOneOf(integers))
    rule = ElementRule::Integer;
  else if (isOneOf(any))
    rule = ElementRule::Any;
  else if (isOneOf(static_cast<std::tuple<IsNaNOp, IsInfOp> *>(nullptr)))
    rule = ElementRule::Test;
  else if (isOneOf(static_cast<std::tuple<CompareOp> *>(nullptr)))
    rule = ElementRule::Compare;
  else if (isOneOf(static_cast<std::tuple<SelectOp> *>(nullptr)))
    rule = ElementRule::Select;
  return elementwiseShapes(rule, emit, operands, results);
}

#define RLX_DECLARE_SHAPE_FUNCTION(OP)                                                                                 \
  mlir::LogicalResult computeShapes(OP::Adaptor op, EmitError emit, Shapes operands, ShapeResults &results);
RLX_DECLARE_SHAPE_FUNCTION(MatmulOp)
RLX_DECLARE_SHAPE_FUNCTION(ReduceOp)
RLX_DECLARE_SHAPE_FUNCTION(CumSumOp)
RLX_DECLARE_SHAPE_FUNCTION(SoftmaxOp)
RLX_DECLARE_SHAPE_FUNCTION(LogSoftmaxOp)
RLX_DECLARE_SHAPE_FUNCTION(LayerNormOp)
RLX_DECLARE_SHAPE_FUNCTION(RmsNormOp)
RLX_DECLARE_SHAPE_FUNCTION(AttentionOp)
RLX_DECLARE_SHAPE_FUNCTION(TransposeOp)
RLX_DECLARE_SHAPE_FUNCTION(ConcatOp)
RLX_DECLARE_SHAPE_FUNCTION(PadOp)
RLX_DECLARE_SHAPE_FUNCTION(GatherOp)
RLX_DECLARE_SHAPE_FUNCTION(GatherNDOp)
RLX_DECLARE_SHAPE_FUNCTION(GatherElementsOp)
RLX_DECLARE_SHAPE_FUNCTION(ScatterElementsOp)
RLX_DECLARE_SHAPE_FUNCTION(ScatterNDOp)
#undef RLX_DECLARE_SHAPE_FUNCTION

/// Checks that `axis` lies in [0, rank).
mlir::LogicalResult checkAxis(EmitError emit, int64_t axis, size_t rank);
/// Checks that two operands have one element type.
mlir::LogicalResult checkSameElements(EmitError emit, const TensorShape &a, const TensorShape &b);
/// The size that two dims that must be equal have; an error (`what`: "axis 1") when they certainly differ.
mlir::FailureOr<DimExpr> joinEqual(EmitError emit, const DimExpr &a, const DimExpr &b, const llvm::Twine &what);

/// Appends a requirement unless it is certain or speaks of unknown dims.
void require(llvm::SmallVectorImpl<Requirement> &requirements, DimPredicate predicate, const llvm::Twine &message);
void requireEqual(mlir::Operation *op, llvm::SmallVectorImpl<Requirement> &requirements, const DimExpr &a,
                  const DimExpr &b, const llvm::Twine &what);
/// What must hold for an axis of `size` to be repeated to `target`: that it is one or the other. Nothing where it is.
std::optional<DimPredicate> repeatsTo(const DimExpr &size, const DimExpr &target);
/// Every pair of operands broadcasts, axis by axis from the last.
void requireBroadcast(mlir::Operation *op, llvm::SmallVectorImpl<Requirement> &requirements);
/// Shape of an operand or result.
TensorShape shapeOf(mlir::Value value);

/// Folds integers exactly, and drops neutral operands where that keeps every bit.
mlir::OpFoldResult foldElementwise(mlir::Operation *op, data::Opcode opcode, llvm::ArrayRef<mlir::Attribute> operands);

} // namespace rlx::ir::detail

#endif // RLX_LIB_DIALECT_RLX_IR_SHAPEFUNCTIONS_H
