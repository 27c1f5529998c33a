//===- ShapeFunctions.cpp - from shape functions to result types ----------===//

#include "ShapeFunctions.h"

using namespace mlir;
using namespace rlx;
using namespace rlx::ir;
using namespace rlx::ir::detail;

LogicalResult rlx::ir::detail::inferTypes(MLIRContext *context, EmitError emit, ValueRange operands,
                                          SmallVectorImpl<RankedTensorType> &types, ShapeFunction shapes,
                                          const Binding *binding) {
  SmallVector<TensorShape> expressions, numbers, results, numberResults;
  Binding local = binding ? *binding : Binding();
  bool bound = false;
  for (Value operand : operands) {
    auto type = dyn_cast<RankedTensorType>(operand.getType());
    if (!type)
      return emit() << "operand is not a ranked tensor";
    expressions.push_back(getShape(type));
    numbers.push_back(getBoundShape(type));
    // The types themselves say what some names are bound to.
    for (auto [expression, size] : llvm::zip_equal(expressions.back().dims, type.getShape()))
      if (!ShapedType::isDynamic(size) && !expression.isConstant()) {
        bound = true;
        if (expression.isSymbol())
          local.try_emplace(std::string(expression.name()), size);
      }
  }
  if (failed(shapes(emit, expressions, results)))
    return failure();
  if (bound && failed(shapes(emit, numbers, numberResults)))
    return failure();
  for (auto [i, result] : llvm::enumerate(results)) {
    RankedTensorType type = makeType(context, result, local.empty() ? nullptr : &local);
    if (bound && result.isKnown()) {
      // Where the names did not tell, the operands' numbers may.
      SmallVector<int64_t> sizes(type.getShape());
      for (auto [size, number] : llvm::zip_equal(sizes, numberResults[i].dims))
        if (std::optional<int64_t> constant = number.constant();
            constant && *constant >= 0 && ShapedType::isDynamic(size))
          size = *constant;
      type = RankedTensorType::get(sizes, type.getElementType(), type.getEncoding());
    }
    types.push_back(type);
  }
  return success();
}

LogicalResult rlx::ir::detail::inferTypes(MLIRContext *context, std::optional<Location> location, StringRef opName,
                                          ValueRange operands, SmallVectorImpl<Type> &types, ShapeFunction shapes) {
  auto emit = [&]() -> InFlightDiagnostic {
    if (!location)
      return InFlightDiagnostic();
    return emitError(*location) << "'" << opName << "' op ";
  };
  SmallVector<RankedTensorType> tensors;
  if (failed(inferTypes(context, emit, operands, tensors, shapes, nullptr)))
    return failure();
  types.assign(tensors.begin(), tensors.end());
  return success();
}

LogicalResult rlx::ir::inferResultTypes(Operation *op, SmallVectorImpl<RankedTensorType> &types,
                                        const Binding *binding) {
  auto shaped = dyn_cast<ShapeFunctionOpInterface>(op);
  if (!shaped)
    return op->emitOpError("has no shape function");
  return inferTypes(
      op->getContext(), [&] { return op->emitOpError(); }, op->getOperands(), types,
      [&](EmitError, Shapes operands, ShapeResults &results) { return shaped.inferShapes(operands, results); },
      binding);
}

LogicalResult rlx::ir::detail::verifyInferred(Operation *op) {
  SmallVector<RankedTensorType> inferred;
  if (failed(inferResultTypes(op, inferred)))
    return failure();
  if (areCompatible(Type(inferred.front()), op->getResult(0).getType()))
    return success();
  return op->emitOpError() << "has a result of type " << op->getResult(0).getType() << ", but its operands give "
                           << inferred.front();
}

LogicalResult rlx::ir::detail::checkAxis(EmitError emit, int64_t axis, size_t rank) {
  if (axis < 0 || axis >= static_cast<int64_t>(rank))
    return emit() << "axis " << axis << " is outside a tensor of rank " << rank;
  return success();
}

LogicalResult rlx::ir::detail::checkSameElements(EmitError emit, const TensorShape &a, const TensorShape &b) {
  if (a.elementType != b.elementType)
    return emit() << "element types " << a.elementType << " and " << b.elementType << " differ";
  return success();
}

FailureOr<DimExpr> rlx::ir::detail::joinEqual(EmitError emit, const DimExpr &a, const DimExpr &b, const Twine &what) {
  if (certainlyDiffer(a, b))
    return emit() << what << " differ: " << toString(a) << " and " << toString(b), failure();
  if (isUnknown(a) || (b.isConstant() && !isUnknown(b)))
    return b;
  return a;
}

void rlx::ir::detail::require(SmallVectorImpl<Requirement> &requirements, DimPredicate predicate,
                              const Twine &message) {
  if (!isCertain(predicate))
    requirements.push_back({std::move(predicate), message.str()});
}

/// "N" without the brackets of a list.
static std::string text(const DimExpr &dim) {
  std::string out;
  llvm::raw_string_ostream os(out);
  printDimExpr(os, dim);
  return out;
}

void rlx::ir::detail::requireEqual(Operation *op, SmallVectorImpl<Requirement> &requirements, const DimExpr &a,
                                   const DimExpr &b, const Twine &what) {
  require(requirements, {DimPredicate::Kind::Equal, a, b},
          op->getName().getStringRef() + ": " + what + " differ: " + text(a) + " and " + text(b));
}

TensorShape rlx::ir::detail::shapeOf(Value value) { return getShape(cast<RankedTensorType>(value.getType())); }

std::optional<DimPredicate> rlx::ir::detail::repeatsTo(const DimExpr &size, const DimExpr &target) {
  if (size == target || size.constant() == 1)
    return std::nullopt;
  // broadcast(N, M) == M says that N is 1 or M, also when M is 1. Against what is never 1 (7, 3*M) the expression is
  // just that, and says nothing of N.
  DimPredicate repeats{DimPredicate::Kind::Equal, size.isConstant() ? size : DimExpr::broadcast(size, target), target};
  if (isCertain(repeats) || (target.isConstant() && target.constant() != 1))
    return DimPredicate{DimPredicate::Kind::Broadcastable, size, target};
  return repeats;
}

void rlx::ir::detail::requireBroadcast(Operation *op, SmallVectorImpl<Requirement> &requirements) {
  SmallVector<TensorShape> shapes;
  size_t rank = 0;
  for (Value operand : op->getOperands()) {
    shapes.push_back(shapeOf(operand));
    rank = std::max(rank, shapes.back().rank());
  }
  for (size_t i = 0; i < shapes.size(); ++i)
    for (size_t j = i + 1; j < shapes.size(); ++j) {
      ArrayRef<DimExpr> a = shapes[i].dims, b = shapes[j].dims;
      size_t common = std::min(a.size(), b.size());
      for (size_t k = 0; k < common; ++k) {
        const DimExpr &x = a[a.size() - common + k], &y = b[b.size() - common + k];
        if (x == y || x.constant() == 1 || y.constant() == 1)
          continue;
        require(requirements, {DimPredicate::Kind::Broadcastable, x, y},
                op->getName().getStringRef() + ": axis " + Twine(rank - common + k) + ": " + text(x) + " and " +
                    text(y) + " do not broadcast");
      }
    }
}
