//===- SelectScan.cpp - running sums --------------------------------------===//
#include "Select.h"

using namespace rlx;
using namespace rlx::select;

Selected rlx::select::selectScan(StepReader &reader, data::KernelSpecT &spec, StepInstance &call) {
  const data::StepT &step = reader.step;
  if (step.inputs.size() != 1 || step.outputs.size() != 1)
    return reader.malformed("a scan has one input and one output");
  if (step.iteration.empty())
    return reader.malformed("it has no loop to scan");
  if (!elementBytes(step.accumulator))
    return reader.malformed("its accumulator has no known type");

  Result<std::vector<int64_t>> extents = reader.extents();
  if (!extents)
    return extents.takeError();
  call.extents = *extents;
  if (product(*extents) == 0)
    return false;

  Nest nest;
  nest.extents = *extents;
  for (bool isOutput : {false, true}) {
    Result<StepOperand> operand = reader.direct(isOutput ? *step.outputs[0] : *step.inputs[0], *extents, isOutput);
    if (!operand)
      return operand.takeError();
    if (Status status = reader.window(*operand, *extents, isOutput); !status)
      return status.takeError();
    nest.operands.push_back(std::move(*operand));
  }
  if (Status status = reader.disjoint(); !status)
    return status.takeError();

  size_t outer = nest.dropUnits(0, extents->size() - 1, 1);
  outer = nest.merge(0, outer);
  if (outer > UINT8_MAX)
    return reader.malformed("it has too many loops");

  nest.placeRowsSideBySide();

  spec.family = data::Family::Scan;
  spec.rank = static_cast<uint8_t>(outer);
  spec.accumulator = step.accumulator;
  spec.exclusive = step.exclusive;
  spec.reverse = step.reverse;
  append(call.integers, nest.extents); // the outer loops, then the length
  spec.inputs.push_back(accessSpecOf(nest.operands[0], outer));
  appendOperand(nest.operands[0], call);
  spec.outputs.push_back(accessSpecOf(nest.operands[1], outer));
  appendOperand(nest.operands[1], call);
  call.tiles = product(std::span(nest.extents).first(outer));
  return true;
}
