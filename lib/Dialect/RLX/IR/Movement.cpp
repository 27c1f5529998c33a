//===- Movement.cpp - shapes of ops that move elements --------------------===//

#include "ShapeFunctions.h"

#include "llvm/ADT/SmallBitVector.h"

using namespace mlir;
using namespace rlx;
using namespace rlx::ir;
using namespace rlx::ir::detail;

/// For ops whose result type states the shape: the result as declared.
static LogicalResult declaredShape(Value result, ShapeResults &results) {
  results.push_back(shapeOf(result));
  return success();
}

/// An error for the first requirement that fails at every size.
template <typename OpTy> static LogicalResult verifyRequirements(OpTy op) {
  SmallVector<Requirement> requirements;
  op.collectRequirements(requirements);
  DimFacts facts;
  for (const Requirement &requirement : requirements)
    if (facts.prove(requirement.predicate) == false)
      return op.emitOpError() << "never holds: " << requirement.message;
  return success();
}

static LogicalResult verifySameElements(Operation *op) {
  return checkSameElements([&] { return op->emitOpError(); }, shapeOf(op->getOperand(0)), shapeOf(op->getResult(0)));
}

//===----------------------------------------------------------------------===//
// AssumeDimsOp
//===----------------------------------------------------------------------===//

LogicalResult AssumeDimsOp::inferShapes(Shapes, ShapeResults &results) { return declaredShape(getResult(), results); }

void AssumeDimsOp::collectRequirements(SmallVectorImpl<Requirement> &requirements) {
  for (auto [axis, dims] : llvm::enumerate(llvm::zip_equal(shapeOf(getInput()).dims, shapeOf(getResult()).dims)))
    requireEqual(*this, requirements, std::get<0>(dims), std::get<1>(dims), "assumed sizes of axis " + Twine(axis));
}

LogicalResult AssumeDimsOp::verify() {
  if (failed(verifySameElements(*this)))
    return failure();
  if (getInput().getType().getRank() != getType().getRank())
    return emitOpError() << "ranks differ: " << getInput().getType().getRank() << " and " << getType().getRank();
  if (!areCompatible(Type(getInput().getType()), Type(getType())))
    return emitOpError() << "sizes " << toString(getBoundShape(getInput().getType()).dims) << " can never be "
                         << toString(getBoundShape(getType()).dims);
  return verifyRequirements(*this);
}

//===----------------------------------------------------------------------===//
// ReshapeOp
//===----------------------------------------------------------------------===//

LogicalResult ReshapeOp::inferShapes(Shapes, ShapeResults &results) { return declaredShape(getResult(), results); }

void ReshapeOp::collectRequirements(SmallVectorImpl<Requirement> &requirements) {
  TensorShape from = shapeOf(getInput()), to = shapeOf(getResult());
  if (!from.isKnown() || !to.isKnown())
    return;
  require(requirements, {DimPredicate::Kind::Equal, from.elements(), to.elements()},
          "rlx.reshape: " + Twine(toString(from.dims)) + " and " + toString(to.dims) +
              " have different numbers of elements");
}

LogicalResult ReshapeOp::verify() {
  if (failed(verifySameElements(*this)))
    return failure();
  DimExpr from = getBoundShape(getInput().getType()).elements(), to = getBoundShape(getType()).elements();
  if (certainlyDiffer(from, to))
    return emitOpError() << "sizes " << toString(getBoundShape(getInput().getType()).dims) << " and "
                         << toString(getBoundShape(getType()).dims) << " have different numbers of elements";
  return verifyRequirements(*this);
}

//===----------------------------------------------------------------------===//
// TransposeOp
//===----------------------------------------------------------------------===//

LogicalResult rlx::ir::detail::computeShapes(TransposeOp::Adaptor op, EmitError emit, Shapes operands,
                                             ShapeResults &results) {
  const TensorShape &input = operands.front();
  ArrayRef<int64_t> permutation = op.getPermutation();
  if (permutation.size() != input.rank())
    return emit() << "permutation of " << permutation.size() << " axes for a tensor of rank " << input.rank();
  llvm::SmallBitVector seen(input.rank());
  TensorShape result;
  result.elementType = input.elementType;
  for (int64_t axis : permutation) {
    if (failed(checkAxis(emit, axis, input.rank())))
      return failure();
    if (seen.test(axis))
      return emit() << "permutation has axis " << axis << " twice";
    seen.set(axis);
    result.dims.push_back(input.dims[axis]);
  }
  results.push_back(std::move(result));
  return success();
}

//===----------------------------------------------------------------------===//
// BroadcastToOp
//===----------------------------------------------------------------------===//

LogicalResult BroadcastToOp::inferShapes(Shapes, ShapeResults &results) { return declaredShape(getResult(), results); }

void BroadcastToOp::collectRequirements(SmallVectorImpl<Requirement> &requirements) {
  TensorShape from = shapeOf(getInput()), to = shapeOf(getResult());
  for (size_t i = 0; i < from.rank(); ++i) {
    const DimExpr &size = from.dims[i], &target = to.dims[to.rank() - from.rank() + i];
    if (std::optional<DimPredicate> repeats = repeatsTo(size, target))
      require(requirements, std::move(*repeats),
              "rlx.broadcast_to: axis " + Twine(i) + ": size " + size.str() + " is neither 1 nor " + target.str());
  }
}

LogicalResult BroadcastToOp::verify() {
  if (failed(verifySameElements(*this)))
    return failure();
  TensorShape from = getBoundShape(getInput().getType()), to = getBoundShape(getType());
  if (from.rank() > to.rank())
    return emitOpError() << "result has rank " << to.rank() << ", below the operand's " << from.rank();
  for (size_t i = 0; i < from.rank(); ++i) {
    const DimExpr &size = from.dims[i], &target = to.dims[to.rank() - from.rank() + i];
    if (size.isConstant() && size.constant() != 1 && certainlyDiffer(size, target))
      return emitOpError() << "sizes " << toString(from.dims) << " do not broadcast to " << toString(to.dims);
  }
  return verifyRequirements(*this);
}

//===----------------------------------------------------------------------===//
// SliceOp
//===----------------------------------------------------------------------===//

LogicalResult SliceOp::inferShapes(Shapes, ShapeResults &results) { return declaredShape(getResult(), results); }

void SliceOp::collectRequirements(SmallVectorImpl<Requirement> &requirements) {
  using K = DimPredicate::Kind;
  TensorShape from = shapeOf(getInput()), to = shapeOf(getResult());
  for (auto [axis, start] : llvm::enumerate(getStarts().getDims())) {
    const DimExpr &size = from.dims[axis], &count = to.dims[axis];
    if (isUnknown(size) || isUnknown(count) || count.constant() == 0)
      continue;
    int64_t step = getSteps()[axis];
    // `last` is the element read last, where there is one; one(count) is 0 or 1. An empty slice may start one
    // before the tensor or at its end: that is what clamping gives.
    DimExpr last = start + (count - 1) * DimExpr(step);
    DimExpr some = count.isConstant() ? DimExpr(1) : DimExpr::min(count, 1);
    auto message = [&](const char *what) {
      return "rlx.slice: axis " + std::to_string(axis) + ": " + what + " (start " + start.str() + ", count " +
             count.str() + ", step " + std::to_string(step) + ", size " + size.str() + ")";
    };
    if (step > 0) {
      require(requirements, {K::LessEqual, 0, start}, message("starts before the tensor"));
      require(requirements, {K::LessEqual, last + 1, size}, message("reads past the end"));
    } else {
      require(requirements, {K::LessEqual, start + some, size}, message("starts past the end"));
      require(requirements, {K::LessEqual, 0, last}, message("reads before the start"));
    }
  }
}

LogicalResult SliceOp::verify() {
  if (failed(verifySameElements(*this)))
    return failure();
  size_t rank = getInput().getType().getRank();
  if (getStarts().size() != rank || getSteps().size() != rank || static_cast<size_t>(getType().getRank()) != rank)
    return emitOpError() << "tensor of rank " << rank << " with " << getStarts().size() << " starts, "
                         << getSteps().size() << " steps and a result of rank " << getType().getRank();
  for (auto [axis, step] : llvm::enumerate(getSteps()))
    if (step == 0)
      return emitOpError() << "step of axis " << axis << " is 0";
  return verifyRequirements(*this);
}

//===----------------------------------------------------------------------===//
// ConcatOp
//===----------------------------------------------------------------------===//

LogicalResult rlx::ir::detail::computeShapes(ConcatOp::Adaptor op, EmitError emit, Shapes operands,
                                             ShapeResults &results) {
  if (operands.empty())
    return emit() << "needs an operand";
  int64_t axis = op.getAxis();
  TensorShape result = operands.front();
  if (failed(checkAxis(emit, axis, result.rank())))
    return failure();
  for (const TensorShape &operand : operands.drop_front()) {
    if (failed(checkSameElements(emit, result, operand)))
      return failure();
    if (operand.rank() != result.rank())
      return emit() << "operands have ranks " << result.rank() << " and " << operand.rank();
    for (size_t i = 0; i < result.rank(); ++i) {
      if (i == static_cast<size_t>(axis)) {
        result.dims[i] = result.dims[i] + operand.dims[i];
        continue;
      }
      FailureOr<DimExpr> joined = joinEqual(emit, result.dims[i], operand.dims[i], "sizes of axis " + Twine(i));
      if (failed(joined))
        return failure();
      result.dims[i] = *joined;
    }
  }
  results.push_back(std::move(result));
  return success();
}

void ConcatOp::collectRequirements(SmallVectorImpl<Requirement> &requirements) {
  TensorShape first = shapeOf(getInputs().front());
  for (Value operand : getInputs().drop_front())
    for (auto [axis, dim] : llvm::enumerate(shapeOf(operand).dims))
      if (axis != getAxis())
        requireEqual(*this, requirements, first.dims[axis], dim, "sizes of axis " + Twine(axis));
}

//===----------------------------------------------------------------------===//
// PadOp
//===----------------------------------------------------------------------===//

LogicalResult rlx::ir::detail::computeShapes(PadOp::Adaptor op, EmitError emit, Shapes operands,
                                             ShapeResults &results) {
  TensorShape result = operands[0];
  if (failed(checkSameElements(emit, operands[0], operands[1])))
    return failure();
  if (operands[1].rank() != 0)
    return emit() << "the value has rank " << operands[1].rank() << ", not 0";
  if (op.getLow().size() != result.rank() || op.getHigh().size() != result.rank())
    return emit() << "tensor of rank " << result.rank() << " with " << op.getLow().size() << " low and "
                  << op.getHigh().size() << " high counts";
  for (auto [axis, dim] : llvm::enumerate(result.dims)) {
    const DimExpr &low = op.getLow().getDims()[axis], &high = op.getHigh().getDims()[axis];
    for (const DimExpr &count : {low, high})
      if (std::optional<int64_t> number = count.constant(); number && *number < 0)
        return emit() << "count " << *number << " of axis " << axis << " is negative";
    dim = dim + low + high;
  }
  results.push_back(std::move(result));
  return success();
}

void PadOp::collectRequirements(SmallVectorImpl<Requirement> &requirements) {
  for (DimsAttr counts : {getLow(), getHigh()})
    for (auto [axis, count] : llvm::enumerate(counts.getDims()))
      require(requirements, {DimPredicate::Kind::LessEqual, 0, count},
              "rlx.pad: axis " + Twine(axis) + ": count " + count.str() + " is negative");
}

//===----------------------------------------------------------------------===//
// Gather and scatter
//===----------------------------------------------------------------------===//

LogicalResult rlx::ir::detail::computeShapes(GatherOp::Adaptor op, EmitError emit, Shapes operands,
                                             ShapeResults &results) {
  const TensorShape &data = operands[0], &indices = operands[1];
  int64_t axis = op.getAxis();
  if (failed(checkAxis(emit, axis, data.rank())))
    return failure();
  TensorShape result;
  result.elementType = data.elementType;
  result.dims.append(data.dims.begin(), data.dims.begin() + axis);
  result.dims.append(indices.dims.begin(), indices.dims.end());
  result.dims.append(data.dims.begin() + axis + 1, data.dims.end());
  results.push_back(std::move(result));
  return success();
}

/// The size of the last axis of an index tensor, in [1, limit].
static FailureOr<int64_t> indexDepth(EmitError emit, const TensorShape &indices, int64_t limit) {
  if (indices.rank() == 0)
    return emit() << "indices need rank 1 or more", failure();
  std::optional<int64_t> depth = indices.dims.back().constant();
  if (!depth)
    return emit() << "the last axis of the indices is " << toString(indices.dims.back()) << ", not a number", failure();
  if (*depth < 1 || *depth > limit)
    return emit() << "index tuples of " << *depth << " for " << limit << " axes", failure();
  return *depth;
}

LogicalResult rlx::ir::detail::computeShapes(GatherNDOp::Adaptor op, EmitError emit, Shapes operands,
                                             ShapeResults &results) {
  const TensorShape &data = operands[0], &indices = operands[1];
  int64_t batch = op.getBatchDims();
  if (batch < 0 || batch >= static_cast<int64_t>(std::min(data.rank(), indices.rank())))
    return emit() << "batch_dims " << batch << " with data of rank " << data.rank() << " and indices of rank "
                  << indices.rank();
  FailureOr<int64_t> depth = indexDepth(emit, indices, data.rank() - batch);
  if (failed(depth))
    return failure();
  TensorShape result;
  result.elementType = data.elementType;
  for (int64_t i = 0; i < batch; ++i) {
    FailureOr<DimExpr> joined = joinEqual(emit, data.dims[i], indices.dims[i], "batch sizes of axis " + Twine(i));
    if (failed(joined))
      return failure();
    result.dims.push_back(*joined);
  }
  result.dims.append(indices.dims.begin() + batch, indices.dims.end() - 1);
  result.dims.append(data.dims.begin() + batch + *depth, data.dims.end());
  results.push_back(std::move(result));
  return success();
}

void GatherNDOp::collectRequirements(SmallVectorImpl<Requirement> &requirements) {
  TensorShape data = shapeOf(getData()), indices = shapeOf(getIndices());
  for (uint64_t i = 0; i < getBatchDims(); ++i)
    requireEqual(*this, requirements, data.dims[i], indices.dims[i], "batch sizes of axis " + Twine(i));
}

/// Indices of gather_elements and scatter_elements: the data's rank, and no larger off the axis.
static LogicalResult checkElementIndices(EmitError emit, int64_t axis, const TensorShape &data,
                                         const TensorShape &indices) {
  if (failed(checkAxis(emit, axis, data.rank())))
    return failure();
  if (indices.rank() != data.rank())
    return emit() << "data has rank " << data.rank() << ", the indices have " << indices.rank();
  for (size_t i = 0; i < data.rank(); ++i) {
    std::optional<int64_t> size = data.dims[i].constant(), count = indices.dims[i].constant();
    if (i != static_cast<size_t>(axis) && size && count && *count > *size)
      return emit() << "axis " << i << ": " << *count << " indices for a size of " << *size;
  }
  return success();
}

static void requireElementIndices(Operation *op, int64_t axis, const TensorShape &data, const TensorShape &indices,
                                  SmallVectorImpl<Requirement> &requirements) {
  for (size_t i = 0; i < data.rank(); ++i)
    if (i != static_cast<size_t>(axis))
      require(requirements, {DimPredicate::Kind::LessEqual, indices.dims[i], data.dims[i]},
              op->getName().getStringRef() + ": axis " + Twine(i) + ": " + indices.dims[i].str() +
                  " indices for a size of " + data.dims[i].str());
}

LogicalResult rlx::ir::detail::computeShapes(GatherElementsOp::Adaptor op, EmitError emit, Shapes operands,
                                             ShapeResults &results) {
  if (failed(checkElementIndices(emit, op.getAxis(), operands[0], operands[1])))
    return failure();
  results.push_back({operands[1].dims, operands[0].elementType});
  return success();
}

void GatherElementsOp::collectRequirements(SmallVectorImpl<Requirement> &requirements) {
  requireElementIndices(*this, getAxis(), shapeOf(getData()), shapeOf(getIndices()), requirements);
}

LogicalResult rlx::ir::detail::computeShapes(ScatterElementsOp::Adaptor op, EmitError emit, Shapes operands,
                                             ShapeResults &results) {
  const TensorShape &data = operands[0], &indices = operands[1], &updates = operands[2];
  if (failed(checkSameElements(emit, data, updates)) || failed(checkElementIndices(emit, op.getAxis(), data, indices)))
    return failure();
  if (updates.rank() != indices.rank())
    return emit() << "indices have rank " << indices.rank() << ", the updates have " << updates.rank();
  for (size_t i = 0; i < indices.rank(); ++i)
    if (failed(
            joinEqual(emit, indices.dims[i], updates.dims[i], "sizes of axis " + Twine(i) + " of indices and updates")))
      return failure();
  results.push_back(data);
  return success();
}

void ScatterElementsOp::collectRequirements(SmallVectorImpl<Requirement> &requirements) {
  TensorShape indices = shapeOf(getIndices());
  requireElementIndices(*this, getAxis(), shapeOf(getData()), indices, requirements);
  for (auto [axis, dim] : llvm::enumerate(shapeOf(getUpdates()).dims))
    requireEqual(*this, requirements, indices.dims[axis], dim,
                 "sizes of axis " + Twine(axis) + " of indices and updates");
}

LogicalResult rlx::ir::detail::computeShapes(ScatterNDOp::Adaptor op, EmitError emit, Shapes operands,
                                             ShapeResults &results) {
  const TensorShape &data = operands[0], &indices = operands[1], &updates = operands[2];
  if (failed(checkSameElements(emit, data, updates)))
    return failure();
  FailureOr<int64_t> depth = indexDepth(emit, indices, data.rank());
  if (failed(depth))
    return failure();
  SmallVector<DimExpr> expected(indices.dims.begin(), indices.dims.end() - 1);
  expected.append(data.dims.begin() + *depth, data.dims.end());
  if (updates.rank() != expected.size())
    return emit() << "updates have rank " << updates.rank() << ", not " << expected.size();
  for (auto [axis, dims] : llvm::enumerate(llvm::zip_equal(expected, updates.dims)))
    if (failed(joinEqual(emit, std::get<0>(dims), std::get<1>(dims), "sizes of axis " + Twine(axis) + " of updates")))
      return failure();
  results.push_back(data);
  return success();
}

void ScatterNDOp::collectRequirements(SmallVectorImpl<Requirement> &requirements) {
  TensorShape data = shapeOf(getData()), indices = shapeOf(getIndices()), updates = shapeOf(getUpdates());
  std::optional<int64_t> depth = indices.dims.back().constant();
  if (!depth)
    return;
  SmallVector<DimExpr> expected(indices.dims.begin(), indices.dims.end() - 1);
  expected.append(data.dims.begin() + *depth, data.dims.end());
  for (auto [axis, dims] : llvm::enumerate(llvm::zip_equal(expected, updates.dims)))
    requireEqual(*this, requirements, std::get<0>(dims), std::get<1>(dims),
                 "sizes of axis " + Twine(axis) + " of updates");
}

//===----------------------------------------------------------------------===//
// Ops without operands
//===----------------------------------------------------------------------===//

LogicalResult IotaOp::inferShapes(Shapes, ShapeResults &results) { return declaredShape(getResult(), results); }

LogicalResult IotaOp::verify() {
  if (getStartStep().size() != 2)
    return emitOpError() << "needs a start and a step, not " << getStartStep().size() << " expressions";
  return checkAxis([&] { return emitOpError(); }, getAxis(), getType().getRank());
}

static LogicalResult verifyRandom(Operation *op, int64_t key, std::initializer_list<APFloat> parameters) {
  if (key < 0 || key > UINT32_MAX)
    return op->emitOpError() << "key " << key << " is outside [0, 2^32)";
  for (const APFloat &parameter : parameters)
    if (!parameter.isFinite())
      return op->emitOpError() << "a parameter is not finite";
  return success();
}

LogicalResult RandomUniformOp::inferShapes(Shapes, ShapeResults &results) {
  return declaredShape(getResult(), results);
}
LogicalResult RandomUniformOp::verify() { return verifyRandom(*this, getKey(), {getLow(), getHigh()}); }

LogicalResult RandomNormalOp::inferShapes(Shapes, ShapeResults &results) { return declaredShape(getResult(), results); }
LogicalResult RandomNormalOp::verify() { return verifyRandom(*this, getKey(), {getMean(), getScale()}); }
