//===- SelectReduce.cpp - reductions --------------------------------------===//
#include "CheckedMath.h"
#include "Select.h"

#include "rlx/Runtime/Tensor.h"

#include <algorithm>

using namespace rlx;
using namespace rlx::select;
using data::ExprOp;

namespace {
/// True when stride[i] = stride[i + 1] * extent[i + 1] whatever the binding is:
/// seen from the expressions, never from their values. Sees what contiguous
/// tensors have, which is enough; a "no" costs speed only.
bool alwaysContiguous(const StepReader &reader, size_t i) {
  const data::PlanTemplateT &plan = reader.plan;
  auto number = [&](uint32_t expr) -> std::optional<int64_t> {
    const data::ExprNode &node = plan.exprs[expr];
    return node.op() == ExprOp::Constant ? std::optional(node.value()) : std::nullopt;
  };
  auto same = [&](uint32_t a, uint32_t b) { return a == b || plan.exprs[a] == plan.exprs[b]; };
  uint32_t extent = reader.iteration()[i + 1];
  for (size_t n = 0; n != reader.step.inputs; ++n) {
    const AccessForm &access = reader.input(n);
    if (access.kind == data::AccessKind::Indexed)
      return false;
    std::span<const uint32_t> strides = reader.exprs(access.strides, access.rank);
    if (access.own != AccessForm::kNone) {
      std::span<const uint32_t> own = reader.exprs(access.own, access.rank);
      if (own[i] != AccessForm::kNone || own[i + 1] != AccessForm::kNone)
        return false;
    }
    uint32_t outer = strides[i], inner = strides[i + 1];
    const data::ExprNode &node = plan.exprs[outer];
    bool contiguous = false;
    int64_t step;
    if (number(inner) == 0)
      contiguous = number(outer) == 0;
    else if (number(inner) == 1)
      contiguous = same(outer, extent);
    else if (number(inner) && number(extent))
      contiguous = checkedMul(*number(inner), *number(extent), step) && number(outer) == step;
    else
      contiguous = node.op() == ExprOp::Mul && ((same(node.a(), inner) && same(node.b(), extent)) ||
                                                (same(node.a(), extent) && same(node.b(), inner)));
    if (!contiguous)
      return false;
  }
  return true;
}
} // namespace

Selected rlx::select::selectReduce(StepReader &reader, StepDraft &call) {
  const StepForm &step = reader.step;
  Result<Numbers> extents = reader.extents();
  if (!extents)
    return extents.takeError();
  call.extents.assign(extents->begin(), extents->end());
  size_t kept = extents->size() - step.reduced;
  std::span<const int64_t> keptExtents = std::span(*extents).first(kept);
  // Where nothing is reduced the whole says nothing of them.
  std::optional<int64_t> results = elementCount(keptExtents);
  if (!results)
    return reader.error(ErrorCode::OutOfRange, "its results " + shapeString(keptExtents) + " overflow");
  if (*results == 0)
    return false;

  // The output has no reduced loops. It may be given with them, at stride 0.
  AccessForm outputAccess = reader.output(0);
  for (size_t i = kept; i != outputAccess.rank; ++i)
    if ((*extents)[i] > 1 && reader.value(reader.exprs(outputAccess.strides, outputAccess.rank)[i]) != 0)
      return reader.malformed("the output moves along a reduced loop");
  outputAccess.rank = static_cast<uint32_t>(kept);
  Result<StepOperand> output = reader.operand(outputAccess, keptExtents);
  if (!output)
    return output.takeError();
  if (Status status = reader.window(*output, keptExtents, true); !status)
    return status.takeError();

  Nest nest(reader.memory);
  nest.extents = *extents;
  if (Status status = reader.readInputs(nest, 0); !status)
    return status.takeError();
  if (Status status = reader.disjoint(); !status)
    return status.takeError();

  // Nothing to reduce, in whichever loop: one empty loop says it.
  bool nothing = false;
  for (size_t i = kept; i != nest.extents.size(); ++i)
    nothing |= nest.extents[i] == 0;
  if (nothing) {
    while (nest.extents.size() > kept + 1)
      nest.erase(kept);
    nest.extents[kept] = 0;
  }
  // The output takes part in dropping and merging the kept loops, with stride 0
  // along the reduced ones, among which every merge is then up to the inputs.
  output->strides.resize(nest.extents.size(), 0);
  nest.operands.push_back(std::move(*output));

  // A lane of the result is chosen by the place in the last reduced loop. Were
  // that loop merged by number, the sizes of the kept loops, which strides may
  // depend on, could change the bits of a row: it is merged by expression.
  if (step.reduceInner && !nothing)
    for (size_t i = std::max<size_t>(step.loopCount, 1) - 1; i-- > kept && alwaysContiguous(reader, i);)
      nest.mergeInto(i);
  size_t end = nest.dropUnits(kept, nest.extents.size(), 1);
  if (step.reduceInner)
    end = nest.merge(kept, end - 1) + 1;
  else
    end = nest.merge(kept, end);
  size_t reducedLoops = end - kept;
  kept = reader.dropConstantUnits(nest, kept);
  kept = nest.merge(0, kept);
  size_t rank = kept + reducedLoops;
  if (rank > UINT8_MAX)
    return reader.malformed("it has too many loops");

  size_t vectorLoop = step.reduceInner ? rank - 1 : kept - 1;
  call.choice.rank = static_cast<uint8_t>(rank);
  call.choice.reduced = static_cast<uint8_t>(reducedLoops);
  append(call.integers, nest.extents);
  for (size_t i = 0; i + 1 != nest.operands.size(); ++i) {
    appendModes(nest.operands[i], vectorLoop, call);
    appendOperand(nest.operands[i], call);
  }
  StepOperand &result = nest.operands.back();
  result.strides.resize(kept);
  appendModes(result, kept - 1, call);
  appendOperand(result, call);

  call.tiles = product(std::span(nest.extents).first(step.reduceInner ? kept : kept - 1));
  return true;
}
