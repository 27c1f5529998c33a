//===- Contraction.cpp - shapes of matmul, reductions, norms, attention ---===//

#include "ShapeFunctions.h"

using namespace mlir;
using namespace rlx;
using namespace rlx::ir;
using namespace rlx::ir::detail;

//===----------------------------------------------------------------------===//
// MatmulOp
//===----------------------------------------------------------------------===//

LogicalResult rlx::ir::detail::computeShapes(MatmulOp::Adaptor op, EmitError emit, Shapes operands,
                                             ShapeResults &results) {
  const TensorShape &lhs = operands[0], &rhs = operands[1];
  if (lhs.rank() < 2 || rhs.rank() < 2)
    return emit() << "operands have ranks " << lhs.rank() << " and " << rhs.rank() << "; both need 2 or more";
  if (lhs.elementType.isInteger(1))
    return emit() << "does not take i1";
  bool widened = isa<FloatType>(lhs.elementType) && rhs.elementType.isInteger(8);
  if (!widened && failed(checkSameElements(emit, lhs, rhs)))
    return failure();
  if (failed(joinEqual(emit, lhs.dims.back(), rhs.dims[rhs.rank() - 2], "inner sizes")))
    return failure();
  std::optional<SmallVector<DimExpr>> dims =
      broadcastShapes(ArrayRef(lhs.dims).drop_back(2), ArrayRef(rhs.dims).drop_back(2));
  if (!dims)
    return emit() << "batch dims of " << toString(lhs.dims) << " and " << toString(rhs.dims) << " do not broadcast";
  dims->push_back(lhs.dims[lhs.rank() - 2]);
  dims->push_back(rhs.dims.back());
  results.push_back({std::move(*dims), lhs.elementType});
  return success();
}

void MatmulOp::collectRequirements(SmallVectorImpl<Requirement> &requirements) {
  TensorShape lhs = shapeOf(getLhs()), rhs = shapeOf(getRhs());
  requireEqual(*this, requirements, lhs.dims.back(), rhs.dims[rhs.rank() - 2], "inner sizes");
  size_t common = std::min(lhs.rank(), rhs.rank()) - 2;
  for (size_t k = 0; k < common; ++k) {
    const DimExpr &x = lhs.dims[lhs.rank() - 2 - common + k], &y = rhs.dims[rhs.rank() - 2 - common + k];
    if (x == y || x.constant() == 1 || y.constant() == 1)
      continue;
    require(requirements, {DimPredicate::Kind::Broadcastable, x, y},
            "rlx.matmul: batch dims " + Twine(x.str()) + " and " + y.str() + " do not broadcast");
  }
}

//===----------------------------------------------------------------------===//
// Reductions and scans
//===----------------------------------------------------------------------===//

LogicalResult rlx::ir::detail::computeShapes(ReduceOp::Adaptor op, EmitError emit, Shapes operands,
                                             ShapeResults &results) {
  const TensorShape &input = operands.front();
  if (input.elementType.isInteger(1))
    return emit() << "does not take i1";
  ArrayRef<int64_t> axes = op.getAxes();
  for (auto [i, axis] : llvm::enumerate(axes)) {
    if (failed(checkAxis(emit, axis, input.rank())))
      return failure();
    if (i > 0 && axes[i - 1] >= axis)
      return emit() << "axes are not sorted, each once";
  }
  TensorShape result;
  result.elementType = input.elementType;
  for (auto [axis, dim] : llvm::enumerate(input.dims)) {
    if (!llvm::is_contained(axes, static_cast<int64_t>(axis)))
      result.dims.push_back(dim);
    else if (op.getKeepDims())
      result.dims.push_back(1);
  }
  results.push_back(std::move(result));
  return success();
}

/// The result has the operand's shape; `axis` lies inside it.
static LogicalResult alongAxis(EmitError emit, int64_t axis, Shapes operands, ShapeResults &results) {
  if (failed(checkAxis(emit, axis, operands.front().rank())))
    return failure();
  results.push_back(operands.front());
  return success();
}

LogicalResult rlx::ir::detail::computeShapes(CumSumOp::Adaptor op, EmitError emit, Shapes operands,
                                             ShapeResults &results) {
  if (operands.front().elementType.isInteger(1))
    return emit() << "does not take i1";
  return alongAxis(emit, op.getAxis(), operands, results);
}

LogicalResult rlx::ir::detail::computeShapes(SoftmaxOp::Adaptor op, EmitError emit, Shapes operands,
                                             ShapeResults &results) {
  return alongAxis(emit, op.getAxis(), operands, results);
}

LogicalResult rlx::ir::detail::computeShapes(LogSoftmaxOp::Adaptor op, EmitError emit, Shapes operands,
                                             ShapeResults &results) {
  return alongAxis(emit, op.getAxis(), operands, results);
}

//===----------------------------------------------------------------------===//
// Norms
//===----------------------------------------------------------------------===//

/// Scale and bias (the operands after the first) have the shape of the axes from `axis` on.
static LogicalResult normShapes(EmitError emit, int64_t axis, Shapes operands, ShapeResults &results) {
  const TensorShape &input = operands.front();
  if (failed(checkAxis(emit, axis, input.rank())))
    return failure();
  ArrayRef<DimExpr> normalised = ArrayRef(input.dims).drop_front(axis);
  for (const TensorShape &operand : operands.drop_front()) {
    if (failed(checkSameElements(emit, input, operand)))
      return failure();
    bool fits = operand.rank() == normalised.size();
    for (size_t i = 0; fits && i < normalised.size(); ++i)
      fits = !certainlyDiffer(operand.dims[i], normalised[i]);
    if (!fits)
      return emit() << "scale or bias of sizes " << toString(operand.dims) << " does not fit the normalised "
                    << toString(normalised);
  }
  results.push_back(input);
  return success();
}

static void requireNorm(Operation *op, int64_t axis, SmallVectorImpl<Requirement> &requirements) {
  TensorShape input = shapeOf(op->getOperand(0));
  for (Value operand : op->getOperands().drop_front())
    for (auto [i, dim] : llvm::enumerate(shapeOf(operand).dims))
      requireEqual(op, requirements, input.dims[axis + i], dim, "normalised size and scale or bias");
}

LogicalResult rlx::ir::detail::computeShapes(LayerNormOp::Adaptor op, EmitError emit, Shapes operands,
                                             ShapeResults &results) {
  return normShapes(emit, op.getAxis(), operands, results);
}

void LayerNormOp::collectRequirements(SmallVectorImpl<Requirement> &requirements) {
  requireNorm(*this, getAxis(), requirements);
}

LogicalResult rlx::ir::detail::computeShapes(RmsNormOp::Adaptor op, EmitError emit, Shapes operands,
                                             ShapeResults &results) {
  return normShapes(emit, op.getAxis(), operands, results);
}

void RmsNormOp::collectRequirements(SmallVectorImpl<Requirement> &requirements) {
  requireNorm(*this, getAxis(), requirements);
}

//===----------------------------------------------------------------------===//
// AttentionOp
//===----------------------------------------------------------------------===//

LogicalResult rlx::ir::detail::computeShapes(AttentionOp::Adaptor op, EmitError emit, Shapes operands,
                                             ShapeResults &results) {
  const TensorShape &query = operands[0], &key = operands[1], &value = operands[2];
  size_t rank = query.rank();
  if (rank < 3 || key.rank() != rank || value.rank() != rank)
    return emit() << "query, key and value have ranks " << rank << ", " << key.rank() << " and " << value.rank()
                  << "; they need one rank of 3 or more";
  for (const TensorShape &operand : operands.drop_front())
    if (failed(checkSameElements(emit, query, operand)))
      return failure();
  TensorShape result = query;
  for (size_t i = 0; i + 3 < rank; ++i)
    for (const TensorShape *other : {&key, &value}) {
      FailureOr<DimExpr> joined = joinEqual(emit, result.dims[i], other->dims[i], "leading sizes");
      if (failed(joined))
        return failure();
      result.dims[i] = *joined;
    }
  std::optional<int64_t> heads = query.dims[rank - 3].constant(), keyHeads = key.dims[rank - 3].constant();
  if (heads && keyHeads && (*keyHeads == 0 ? *heads != 0 : *heads % *keyHeads != 0))
    return emit() << *heads << " query heads are no multiple of " << *keyHeads << " key heads";
  if (failed(joinEqual(emit, key.dims[rank - 3], value.dims[rank - 3], "heads of key and value")) ||
      failed(joinEqual(emit, key.dims[rank - 2], value.dims[rank - 2], "lengths of key and value")) ||
      failed(joinEqual(emit, query.dims[rank - 1], key.dims[rank - 1], "depths of query and key")))
    return failure();
  if (operands.size() > 3) {
    SmallVector<DimExpr> scores(query.dims);
    scores.back() = key.dims[rank - 2];
    const TensorShape &mask = operands[3];
    bool fits = mask.rank() <= rank;
    for (size_t i = 0; fits && i < mask.rank(); ++i) {
      const DimExpr &size = mask.dims[i], &score = scores[rank - mask.rank() + i];
      fits = size.constant() == 1 || !certainlyDiffer(size, score);
    }
    if (!fits)
      return emit() << "mask of sizes " << toString(mask.dims) << " does not broadcast to the scores' "
                    << toString(scores);
  }
  result.dims.back() = value.dims.back();
  results.push_back(std::move(result));
  return success();
}

void AttentionOp::collectRequirements(SmallVectorImpl<Requirement> &requirements) {
  TensorShape query = shapeOf(getQuery()), key = shapeOf(getKey()), value = shapeOf(getValue());
  size_t rank = query.rank();
  for (size_t i = 0; i + 3 < rank; ++i) {
    requireEqual(*this, requirements, query.dims[i], key.dims[i], "leading sizes");
    requireEqual(*this, requirements, query.dims[i], value.dims[i], "leading sizes");
  }
  const DimExpr &heads = query.dims[rank - 3], &keyHeads = key.dims[rank - 3];
  if (heads != keyHeads && keyHeads.constant() != 1)
    require(requirements, {DimPredicate::Kind::Divisible, heads, keyHeads},
            "rlx.attention: " + Twine(heads.str()) + " query heads are no multiple of " + keyHeads.str() +
                " key heads");
  requireEqual(*this, requirements, key.dims[rank - 3], value.dims[rank - 3], "heads of key and value");
  requireEqual(*this, requirements, key.dims[rank - 2], value.dims[rank - 2], "lengths of key and value");
  requireEqual(*this, requirements, query.dims[rank - 1], key.dims[rank - 1], "depths of query and key");
  if (!getMask())
    return;
  query.dims.back() = key.dims[rank - 2];
  TensorShape mask = shapeOf(getMask());
  for (size_t i = 0; i < mask.rank(); ++i) {
    const DimExpr &size = mask.dims[i], &score = query.dims[rank - mask.rank() + i];
    if (std::optional<DimPredicate> repeats = repeatsTo(size, score))
      require(requirements, std::move(*repeats),
              "rlx.attention: mask size " + Twine(size.str()) + " is neither 1 nor " + score.str());
  }
}
