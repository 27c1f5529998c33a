//===- SelectReduce.cpp - reductions --------------------------------------===//
#include "CheckedMath.h"
#include "Select.h"

#include <algorithm>

using namespace rlx;
using namespace rlx::select;
using data::ExprOp;

namespace {
/// True when stride[i] = stride[i + 1] * extent[i + 1] whatever the binding is:
/// seen from the expressions, never from their values. Sees what contiguous
/// tensors have, which is enough; a "no" costs speed only.
bool alwaysContiguous(const data::PlanTemplateT &plan, const data::StepT &step, size_t i) {
  auto number = [&](uint32_t expr) -> std::optional<int64_t> {
    const data::ExprNode &node = plan.exprs[expr];
    return node.op() == ExprOp::Constant ? std::optional(node.value()) : std::nullopt;
  };
  auto same = [&](uint32_t a, uint32_t b) { return a == b || plan.exprs[a] == plan.exprs[b]; };
  uint32_t extent = step.iteration[i + 1];
  return std::all_of(step.inputs.begin(), step.inputs.end(), [&](const std::unique_ptr<data::AccessT> &access) {
    auto broadcasts = [&](size_t loop) { return loop < access->broadcast.size() && access->broadcast[loop]; };
    if (access->kind == data::AccessKind::Indexed || i + 1 >= access->strides.size() || broadcasts(i) ||
        broadcasts(i + 1))
      return false;
    uint32_t outer = access->strides[i], inner = access->strides[i + 1];
    const data::ExprNode &node = plan.exprs[outer];
    if (number(inner) == 0)
      return number(outer) == 0;
    if (number(inner) == 1)
      return same(outer, extent);
    if (number(inner) && number(extent)) {
      int64_t step;
      return checkedMul(*number(inner), *number(extent), step) && number(outer) == step;
    }
    return node.op() == ExprOp::Mul &&
           ((same(node.a(), inner) && same(node.b(), extent)) || (same(node.a(), extent) && same(node.b(), inner)));
  });
}
} // namespace

Selected rlx::select::selectReduce(StepReader &reader, data::KernelSpecT &spec, StepInstance &call) {
  const data::StepT &step = reader.step;
  if (Status status = reader.program(step.program, step.inputs.size()); !status)
    return status.takeError();
  if (Status status = reader.results(step.inputs.size(), 1); !status)
    return status.takeError();
  if (Status status = reader.program(step.epilogue, 2); !status)
    return status.takeError();
  if (step.epilogue_result >= 2 + step.epilogue.size())
    return reader.malformed("the result of its epilogue is no value");
  // No input is fine: the elements of a filled tensor are constants of the program.
  if (step.outputs.size() != 1)
    return reader.malformed("a reduction has one output");
  if (step.reduce < data::ReduceKind::MIN || step.reduce > data::ReduceKind::MAX || !elementBytes(step.accumulator))
    return reader.malformed("it reduces in an unknown way");
  if (step.reduced > step.iteration.size())
    return reader.malformed("it reduces more loops than it has");

  Result<std::vector<int64_t>> extents = reader.extents();
  if (!extents)
    return extents.takeError();
  call.extents = *extents;
  size_t kept = extents->size() - step.reduced;
  std::span<const int64_t> keptExtents = std::span(*extents).first(kept);
  if (product(keptExtents) == 0)
    return false;

  // The output has no reduced loops. It may be given with them, at stride 0.
  data::AccessT outputAccess = *step.outputs[0];
  if (outputAccess.strides.size() == extents->size()) {
    for (size_t i = kept; i != extents->size(); ++i)
      if ((*extents)[i] > 1 && reader.value(outputAccess.strides[i]) != 0)
        return reader.malformed("the output moves along a reduced loop");
    outputAccess.strides.resize(kept);
    outputAccess.broadcast.resize(std::min(kept, outputAccess.broadcast.size()));
  }
  Result<StepOperand> output = reader.operand(outputAccess, keptExtents, true);
  if (!output)
    return output.takeError();
  if (output->kind != data::AccessKind::Direct)
    return reader.malformed("the output of a reduction must be a plain window");
  if (Status status = reader.window(*output, keptExtents, true); !status)
    return status.takeError();

  Nest nest;
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
  if (step.reduce_inner && !nothing)
    for (size_t i = step.iteration.size() - 1; i-- > kept && alwaysContiguous(reader.plan, step, i);)
      nest.mergeInto(i);
  size_t end = nest.dropUnits(kept, nest.extents.size(), 1);
  if (step.reduce_inner)
    end = nest.merge(kept, end - 1) + 1;
  else
    end = nest.merge(kept, end);
  size_t reducedLoops = end - kept;
  kept = reader.dropConstantUnits(nest, kept);
  kept = nest.merge(0, kept);
  size_t rank = kept + reducedLoops;
  if (rank > UINT8_MAX)
    return reader.malformed("it has too many loops");

  size_t vectorLoop = step.reduce_inner ? rank - 1 : kept - 1;
  spec.family = data::Family::Reduce;
  spec.rank = static_cast<uint8_t>(rank);
  spec.reduced = static_cast<uint8_t>(reducedLoops);
  spec.program = step.program;
  spec.results = step.results;
  spec.reduce = step.reduce;
  spec.reduce_inner = step.reduce_inner;
  spec.accumulator = step.accumulator;
  spec.epilogue = step.epilogue;
  spec.epilogue_result = step.epilogue_result;
  append(call.integers, nest.extents);
  for (size_t i = 0; i + 1 != nest.operands.size(); ++i) {
    spec.inputs.push_back(accessSpecOf(nest.operands[i], vectorLoop));
    appendOperand(nest.operands[i], call);
  }
  StepOperand &result = nest.operands.back();
  result.strides.resize(kept);
  spec.outputs.push_back(accessSpecOf(result, kept - 1));
  appendOperand(result, call);

  call.tiles = product(std::span(nest.extents).first(step.reduce_inner ? kept : kept - 1));
  return true;
}
