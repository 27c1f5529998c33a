//===- IndexMap.cpp - which element of a value a loop nest reads ----------===//

#include "rlx/Codegen/Plan/IndexMap.h"

#include "rlx/Dialect/RLX/IR/RLXOps.h"
#include "rlx/Dialect/RLX/IR/TensorShape.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace rlx::codegen {

IndexForm IndexForm::zero(unsigned loops) {
  IndexForm form;
  form.coefficients.assign(loops, DimExpr(0));
  form.broadcast.assign(loops, std::nullopt);
  return form;
}

IndexForm IndexForm::loop(unsigned loops, unsigned index) {
  IndexForm form = zero(loops);
  form.coefficients[index] = DimExpr(1);
  return form;
}

bool IndexForm::isZero() const {
  return offset == DimExpr(0) && llvm::all_of(coefficients, [](const DimExpr &c) { return c == DimExpr(0); });
}

IndexMap IndexMap::identity(unsigned loops) {
  IndexMap map;
  map.loops = loops;
  for (unsigned i = 0; i < loops; ++i)
    map.dims.push_back(IndexForm::loop(loops, i));
  return map;
}

Dims rowMajorStrides(ArrayRef<DimExpr> dims) {
  Dims strides(dims.size(), DimExpr(1));
  for (size_t i = dims.size(); i-- > 1;)
    strides[i - 1] = strides[i] * dims[i];
  return strides;
}

DimExpr elementCount(ArrayRef<DimExpr> dims) {
  DimExpr count(1);
  for (const DimExpr &dim : dims)
    count = count * dim;
  return count;
}

Dims DimReader::dims(Value value) const {
  ir::TensorShape shape = ir::getShape(cast<RankedTensorType>(value.getType()));
  Dims result;
  for (const DimExpr &dim : shape.dims)
    result.push_back(facts.simplify(dim));
  return result;
}

IndexMap broadcastOperandMap(const IndexMap &resultMap, ArrayRef<DimExpr> resultDims, ArrayRef<DimExpr> operandDims) {
  IndexMap map;
  map.loops = resultMap.loops;
  size_t lead = resultDims.size() - operandDims.size();
  for (size_t i = 0; i < operandDims.size(); ++i) {
    const DimExpr &own = operandDims[i];
    const IndexForm &form = resultMap.dims[lead + i];
    if (own == resultDims[lead + i]) {
      map.dims.push_back(form);
      continue;
    }
    if (own == DimExpr(1)) {
      map.dims.push_back(IndexForm::zero(map.loops));
      continue;
    }
    // The operand's size may turn out to be 1 where the result's is not: decided by number. A constant that is not 1
    // can only be equal.
    IndexForm flagged = form;
    if (!own.isConstant())
      for (unsigned j = 0; j < map.loops; ++j)
        if (flagged.coefficients[j] != DimExpr(0))
          flagged.broadcast[j] = own;
    map.dims.push_back(std::move(flagged));
  }
  return map;
}

namespace {
IndexForm add(const IndexForm &a, const IndexForm &b) {
  IndexForm sum = a;
  sum.offset = a.offset + b.offset;
  for (size_t j = 0; j < sum.coefficients.size(); ++j) {
    sum.coefficients[j] = a.coefficients[j] + b.coefficients[j];
    if (b.broadcast[j])
      sum.broadcast[j] = b.broadcast[j];
  }
  return sum;
}

IndexForm scale(const IndexForm &form, const DimExpr &factor) {
  IndexForm scaled = form;
  scaled.offset = form.offset * factor;
  for (DimExpr &coefficient : scaled.coefficients)
    coefficient = coefficient * factor;
  return scaled;
}
} // namespace

std::optional<IndexMap> splitReshapeMap(const IndexMap &resultMap, ArrayRef<DimExpr> resultDims,
                                        ArrayRef<DimExpr> inputDims) {
  IndexMap map;
  map.loops = resultMap.loops;
  size_t r = 0;
  for (const DimExpr &input : inputDims) {
    if (input == DimExpr(1)) {
      map.dims.push_back(IndexForm::zero(map.loops));
      continue;
    }
    // Take result dims until their product is this input dim.
    size_t first = r;
    DimExpr product(1);
    while (r < resultDims.size() && product != input)
      product = product * resultDims[r++];
    if (product != input)
      return std::nullopt;
    IndexForm form = IndexForm::zero(map.loops);
    DimExpr stride(1);
    for (size_t i = r; i-- > first;) {
      form = add(form, scale(resultMap.dims[i], stride));
      stride = stride * resultDims[i];
    }
    map.dims.push_back(std::move(form));
  }
  // What is left must be of size 1.
  for (; r < resultDims.size(); ++r)
    if (resultDims[r] != DimExpr(1))
      return std::nullopt;
  return map;
}

std::optional<IndexMap> viewOperandMap(Operation *op, const IndexMap &resultMap, const DimReader &reader) {
  return llvm::TypeSwitch<Operation *, std::optional<IndexMap>>(op)
      .Case<ir::TransposeOp>([&](ir::TransposeOp transpose) {
        IndexMap map;
        map.loops = resultMap.loops;
        map.dims.resize(resultMap.dims.size());
        for (auto [i, axis] : llvm::enumerate(transpose.getPermutation()))
          map.dims[axis] = resultMap.dims[i];
        return map;
      })
      .Case<ir::SliceOp>([&](ir::SliceOp slice) {
        IndexMap map;
        map.loops = resultMap.loops;
        ArrayRef<DimExpr> starts = slice.getStarts().getDims();
        ArrayRef<int64_t> steps = slice.getSteps();
        for (size_t i = 0; i < resultMap.dims.size(); ++i) {
          IndexForm form = scale(resultMap.dims[i], DimExpr(steps[i]));
          form.offset = form.offset + reader.known().simplify(starts[i]);
          map.dims.push_back(std::move(form));
        }
        return map;
      })
      .Case<ir::BroadcastToOp>([&](ir::BroadcastToOp broadcast) {
        return broadcastOperandMap(resultMap, reader.dims(broadcast.getResult()), reader.dims(broadcast.getInput()));
      })
      .Case<ir::ReshapeOp>([&](ir::ReshapeOp reshape) {
        return splitReshapeMap(resultMap, reader.dims(reshape.getResult()), reader.dims(reshape.getInput()));
      })
      .Case<ir::AssumeDimsOp>([&](ir::AssumeDimsOp) { return resultMap; })
      .Default([](Operation *) { return std::nullopt; });
}

bool isView(Operation *op, const DimReader &reader) {
  if (isa<ir::TransposeOp, ir::SliceOp, ir::BroadcastToOp, ir::AssumeDimsOp>(op))
    return true;
  if (auto reshape = dyn_cast<ir::ReshapeOp>(op)) {
    unsigned rank = cast<RankedTensorType>(reshape.getType()).getRank();
    return splitReshapeMap(IndexMap::identity(rank), reader.dims(reshape.getResult()), reader.dims(reshape.getInput()))
        .has_value();
  }
  return false;
}

} // namespace rlx::codegen
