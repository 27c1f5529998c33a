//===- SelectLoops.cpp - elementwise programs, data movement --------------===//
#include "Select.h"

#include <algorithm>

using namespace rlx;
using namespace rlx::select;

namespace {
/// Moves the loop along which the inputs that stride along the innermost one lie contiguous to the place before it:
/// there the kernel looks for transposes. The order of the outer loops shows in positions of errors only, and these
/// steps make none.
void placeTurnedLoop(Nest &nest, const StepForm &step) {
  size_t rank = nest.extents.size();
  auto isPlain = [](const StepOperand &operand) { return operand.kind != data::AccessKind::Indexed; };
  if (rank < 3 || !std::all_of(nest.operands.begin(), nest.operands.end(), isPlain) || step.mayFail)
    return;
  for (size_t loop = rank - 2; loop-- > 0;) {
    if (nest.extents[loop] == 1)
      continue;
    bool turns = false, all = true;
    for (size_t i = 0; i != step.inputs; ++i) {
      const StepOperand &operand = nest.operands[i];
      if (operand.kind != data::AccessKind::Direct || innerMode(operand.strides[rank - 1]) != data::InnerMode::Strided)
        continue;
      turns |= operand.strides[loop] == 1;
      all &= operand.strides[loop] == 1;
    }
    if (!turns || !all)
      continue;
    nest.moveLoop(loop, rank - 2);
    return;
  }
}
} // namespace

Selected rlx::select::selectLoops(StepReader &reader, StepDraft &call) {
  const StepForm &step = reader.step;
  Result<Numbers> extents = reader.extents();
  if (!extents)
    return extents.takeError();
  call.extents.assign(extents->begin(), extents->end());
  if (product(*extents) == 0)
    return false;

  Nest nest(reader.memory);
  nest.extents = *extents;
  if (Status status = reader.readInputs(nest, 0); !status)
    return status.takeError();
  bool indexedOutput = false;
  for (size_t i = 0; i != step.outputs; ++i) {
    Result<StepOperand> operand = reader.operand(reader.output(i), *extents);
    if (!operand)
      return operand.takeError();
    if (Status status = reader.window(*operand, *extents, true); !status)
      return status.takeError();
    indexedOutput |= operand->kind == data::AccessKind::Indexed;
    nest.operands.push_back(std::move(*operand));
  }
  if (Status status = reader.disjoint(); !status)
    return status.takeError();

  size_t rank = reader.dropConstantUnits(nest, nest.extents.size());
  rank = nest.merge(0, rank);
  if (rank > UINT8_MAX)
    return reader.malformed("it has too many loops");
  placeTurnedLoop(nest, step);

  call.choice.rank = static_cast<uint8_t>(rank);
  append(call.integers, nest.extents);
  for (const StepOperand &operand : nest.operands) {
    appendModes(operand, rank - 1, call);
    appendOperand(operand, call);
  }
  if (indexedOutput)
    call.tiles = 1;
  else if (rank == 1)
    call.tiles = (nest.extents[0] - 1) / kLoopsBlock + 1;
  else
    call.tiles = product(std::span(nest.extents).first(rank - 1));
  return true;
}
