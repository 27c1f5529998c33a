//===- Shapes.cpp - dims of types, as the passes handle them --------------===//
#include "Shapes.h"

#include "rlx/Dialect/RLX/IR/NodeName.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Location.h"
#include "llvm/ADT/TypeSwitch.h"

using mlir::RankedTensorType;

namespace rlx::transforms {

std::optional<Dims> dimsOf(RankedTensorType type) {
  ir::TensorShape shape = ir::getShape(type);
  if (!shape.isKnown())
    return std::nullopt;
  return shape.dims;
}

RankedTensorType typeLike(RankedTensorType source, llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<DimExpr> dims) {
  bool named = llvm::any_of(dims, [](const DimExpr &dim) { return !dim.isConstant(); });
  return RankedTensorType::get(shape, source.getElementType(),
                               named ? ir::DimsAttr::get(source.getContext(), dims) : mlir::Attribute());
}

RankedTensorType withElement(RankedTensorType type, mlir::Type element) {
  return RankedTensorType::get(type.getShape(), element, type.getEncoding());
}

RankedTensorType permuted(RankedTensorType type, llvm::ArrayRef<int64_t> permutation) {
  llvm::SmallVector<int64_t> shape;
  for (int64_t axis : permutation)
    shape.push_back(type.getDimSize(axis));
  std::optional<Dims> dims = dimsOf(type);
  if (!dims)
    return RankedTensorType::get(shape, type.getElementType());
  Dims permutedDims;
  for (int64_t axis : permutation)
    permutedDims.push_back((*dims)[axis]);
  return typeLike(type, shape, permutedDims);
}

static bool allBound(const DimExpr &expr, const Binding &binding) {
  std::set<std::string> names;
  expr.collectNames(names);
  return llvm::all_of(names, [&](const std::string &name) { return binding.contains(name); });
}

Result<RankedTensorType> boundType(RankedTensorType type, const Binding &binding) {
  std::optional<Dims> dims = dimsOf(type);
  if (!dims)
    return type;
  llvm::SmallVector<int64_t> shape(type.getShape());
  int64_t bytes = ir::elementBytes(type.getElementType());
  for (auto [axis, dim] : llvm::enumerate(*dims)) {
    if (allBound(dim, binding)) {
      Result<int64_t> size = dim.evaluate(binding);
      if (!size) {
        if (size.error().code == ErrorCode::OutOfRange)
          return size.takeError();
        shape[axis] = mlir::ShapedType::kDynamic;
      } else if (*size < 0) {
        return Error{ErrorCode::OutOfRange,
                     "axis " + std::to_string(axis) + ", " + dim.str() + ", would have size " + std::to_string(*size)};
      } else {
        shape[axis] = *size;
      }
    }
    if (shape[axis] > 0 && __builtin_mul_overflow(bytes, shape[axis], &bytes))
      return Error{ErrorCode::OutOfRange, "a tensor of shape " + ir::toString(*dims) + " is too large for 64 bits"};
  }
  return RankedTensorType::get(shape, type.getElementType(), type.getEncoding());
}

std::string explainFailure(const DimPredicate &predicate, const Binding &binding) {
  auto is = [&](const DimExpr &expr) {
    if (expr.isConstant())
      return expr.str();
    Result<int64_t> value = expr.evaluate(binding);
    return expr.str() + " is " + (value ? std::to_string(*value) : std::string("unknown"));
  };
  switch (predicate.kind) {
  case DimPredicate::Kind::Equal:
    return predicate.rhs.isConstant() ? is(predicate.lhs) + ", not " + predicate.rhs.str()
                                      : is(predicate.lhs) + ", but " + is(predicate.rhs);
  case DimPredicate::Kind::NotEqual:
    return is(predicate.lhs) + ", and so is " + predicate.rhs.str();
  case DimPredicate::Kind::LessEqual:
    return is(predicate.lhs) + ", more than " + is(predicate.rhs);
  case DimPredicate::Kind::Less:
    return is(predicate.lhs) + ", not less than " + is(predicate.rhs);
  case DimPredicate::Kind::Divisible:
    return is(predicate.lhs) + ", not a multiple of " + is(predicate.rhs);
  case DimPredicate::Kind::Broadcastable:
    return is(predicate.lhs) + ", " + is(predicate.rhs) + ", and neither is 1";
  }
  return predicate.str();
}

/// Checks one predicate; `message` is how the error starts.
static llvm::LogicalResult check(mlir::Operation *op, const Binding &binding, const DimPredicate &predicate,
                                 llvm::StringRef message) {
  // A partial binding: what cannot be told yet is checked when the rest is bound.
  if (!allBound(predicate.lhs, binding) || !allBound(predicate.rhs, binding))
    return mlir::success();
  Result<bool> holds = predicate.evaluate(binding);
  if (!holds)
    return op->emitError(message) << ": " << holds.error().message;
  if (!*holds)
    return op->emitError(message) << ": " << explainFailure(predicate, binding);
  return mlir::success();
}

llvm::LogicalResult checkRequirements(mlir::Operation *op, const Binding &binding) {
  llvm::SmallVector<ir::Requirement> requirements;
  if (auto shaped = llvm::dyn_cast<ir::ShapeFunctionOpInterface>(op))
    shaped.collectRequirements(requirements);
  for (const ir::Requirement &requirement : requirements)
    if (failed(check(op, binding, requirement.predicate, requirement.message)))
      return mlir::failure();
  return mlir::success();
}

llvm::LogicalResult checkConstraints(ir::GraphOp graph, const Binding &binding) {
  for (ir::ConstraintAttr constraint : graph.getConstraintList())
    if (failed(check(graph, binding, constraint.getPredicate(), constraint.getMessage())))
      return mlir::failure();
  return mlir::success();
}

std::string nodeName(mlir::Operation *op) {
  std::string name = ir::findNodeName(op->getLoc());
  return name.empty() ? op->getName().getStringRef().str() : "node '" + name + "'";
}

llvm::LogicalResult
rewriteTypes(mlir::Operation *root,
             llvm::function_ref<mlir::FailureOr<RankedTensorType>(mlir::Operation *, RankedTensorType)> rewrite) {
  auto rewriteValue = [&](mlir::Operation *op, mlir::Value value) -> llvm::LogicalResult {
    auto type = llvm::dyn_cast<RankedTensorType>(value.getType());
    if (!type)
      return mlir::success();
    mlir::FailureOr<RankedTensorType> rewritten = rewrite(op, type);
    if (failed(rewritten))
      return mlir::failure();
    if (*rewritten)
      value.setType(*rewritten);
    return mlir::success();
  };
  mlir::WalkResult result = root->walk<mlir::WalkOrder::PreOrder>([&](mlir::Operation *op) {
    for (mlir::Value value : op->getResults())
      if (failed(rewriteValue(op, value)))
        return mlir::WalkResult::interrupt();
    for (mlir::Region &region : op->getRegions())
      for (mlir::Block &block : region)
        for (mlir::Value value : block.getArguments())
          if (failed(rewriteValue(op, value)))
            return mlir::WalkResult::interrupt();
    if (auto graph = llvm::dyn_cast<ir::GraphOp>(op)) {
      auto rewriteList = [&](mlir::TypeRange types, llvm::SmallVectorImpl<mlir::Type> &rewritten) {
        for (mlir::Type type : types) {
          rewritten.push_back(type);
          if (auto tensor = llvm::dyn_cast<RankedTensorType>(type)) {
            mlir::FailureOr<RankedTensorType> changed = rewrite(op, tensor);
            if (failed(changed))
              return mlir::failure();
            if (*changed)
              rewritten.back() = *changed;
          }
        }
        return mlir::success();
      };
      llvm::SmallVector<mlir::Type> inputs, outputs;
      if (failed(rewriteList(graph.getArgumentTypes(), inputs)) || failed(rewriteList(graph.getResultTypes(), outputs)))
        return mlir::WalkResult::interrupt();
      graph.setFunctionTypeAttr(mlir::TypeAttr::get(mlir::FunctionType::get(op->getContext(), inputs, outputs)));
    }
    return mlir::WalkResult::advance();
  });
  return mlir::failure(result.wasInterrupted());
}

} // namespace rlx::transforms
