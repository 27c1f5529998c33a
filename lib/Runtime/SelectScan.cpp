//===- SelectScan.cpp - running sums --------------------------------------===//
#include "Select.h"

using namespace rlx;
using namespace rlx::select;

Selected rlx::select::selectScan(StepReader &reader, StepDraft &call) {
  Result<Numbers> extents = reader.extents();
  if (!extents)
    return extents.takeError();
  call.extents.assign(extents->begin(), extents->end());
  if (product(*extents) == 0)
    return false;

  Nest nest(reader.memory);
  nest.extents = *extents;
  for (bool isOutput : {false, true}) {
    Result<StepOperand> operand = reader.operand(isOutput ? reader.output(0) : reader.input(0), *extents);
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

  call.choice.rank = static_cast<uint8_t>(outer);
  append(call.integers, nest.extents); // the outer loops, then the length
  for (const StepOperand &operand : nest.operands) {
    appendModes(operand, outer, call);
    appendOperand(operand, call);
  }
  call.tiles = product(std::span(nest.extents).first(outer));
  return true;
}
