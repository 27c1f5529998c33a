//===- SelectRows.cpp - softmax and norms ---------------------------------===//
#include "Select.h"

#include <bit>

using namespace rlx;
using namespace rlx::select;

Selected rlx::select::selectRows(StepReader &reader, StepDraft &call) {
  const StepForm &step = reader.step;
  Result<Numbers> extents = reader.extents();
  if (!extents)
    return extents.takeError();
  call.extents.assign(extents->begin(), extents->end());
  if (product(*extents) == 0)
    return false;
  size_t outer = extents->size() - 1;

  Nest nest(reader.memory);
  nest.extents = *extents;
  std::pmr::vector<StepOperand> perRow(reader.memory); // scale and bias: the same for every row
  for (size_t i = 0; i != step.inputs + size_t(1); ++i) {
    bool isOutput = i == step.inputs;
    Result<StepOperand> operand = reader.operand(reader.input(i), *extents); // outputs follow the inputs
    if (!operand)
      return operand.takeError();
    if (Status status = reader.window(*operand, *extents, isOutput); !status)
      return status.takeError();
    if (i == 0 || isOutput) {
      nest.operands.push_back(std::move(*operand));
      continue;
    }
    for (size_t loop = 0; loop != outer; ++loop)
      if ((*extents)[loop] > 1 && operand->strides[loop] != 0)
        return reader.malformed("scale or bias differs from row to row");
    perRow.push_back(std::move(*operand));
  }
  if (Status status = reader.disjoint(); !status)
    return status.takeError();

  outer = nest.dropUnits(0, outer, 1);
  outer = nest.merge(0, outer);
  if (outer > UINT8_MAX)
    return reader.malformed("it has too many loops");

  // Positions in errors are told in the order of the step's loops.
  if (!step.mayFail)
    nest.placeRowsSideBySide();

  call.choice.rank = static_cast<uint8_t>(outer);
  append(call.integers, nest.extents); // the outer loops, then the length
  call.integers.push_back(std::bit_cast<int64_t>(step.epsilon));
  appendModes(nest.operands[0], outer, call);
  appendOperand(nest.operands[0], call);
  for (const StepOperand &operand : perRow) {
    appendModes(operand, operand.strides.size() - 1, call);
    call.integers.push_back(operand.strides.back());
    appendPointer(operand, call);
  }
  appendModes(nest.operands[1], outer, call);
  appendOperand(nest.operands[1], call);
  call.tiles = product(std::span(nest.extents).first(outer));
  return true;
}
