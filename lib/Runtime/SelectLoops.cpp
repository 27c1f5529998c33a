//===- SelectLoops.cpp - elementwise programs, data movement --------------===//
#include "Select.h"

#include <algorithm>

using namespace rlx;
using namespace rlx::select;

namespace {
/// Moves the loop along which the inputs that stride along the innermost one lie contiguous to the place before it:
/// there the kernel looks for transposes. The order of the outer loops shows in positions of errors only, and these
/// steps make none.
void placeTurnedLoop(Nest &nest, const std::vector<data::Instr> &program, size_t inputs) {
  size_t rank = nest.extents.size();
  auto isPlain = [](const StepOperand &operand) { return operand.kind != data::AccessKind::Indexed; };
  if (rank < 3 || !std::all_of(nest.operands.begin(), nest.operands.end(), isPlain) || mayFail(program))
    return;
  for (size_t loop = rank - 2; loop-- > 0;) {
    if (nest.extents[loop] == 1)
      continue;
    bool turns = false, all = true;
    for (size_t i = 0; i != inputs; ++i) {
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

Selected rlx::select::selectLoops(StepReader &reader, data::KernelSpecT &spec, StepInstance &call) {
  const data::StepT &step = reader.step;
  if (Status status = reader.program(step.program, step.inputs.size()); !status)
    return status.takeError();
  if (Status status = reader.results(step.inputs.size(), step.outputs.size()); !status)
    return status.takeError();
  if (step.outputs.empty())
    return reader.malformed("it has no output");
  if (step.combine < data::Combine::MIN || step.combine > data::Combine::MAX)
    return reader.malformed("it combines in an unknown way");

  Result<std::vector<int64_t>> extents = reader.extents();
  if (!extents)
    return extents.takeError();
  call.extents = *extents;
  if (product(*extents) == 0)
    return false;

  Nest nest;
  nest.extents = *extents;
  if (Status status = reader.readInputs(nest, 0); !status)
    return status.takeError();
  bool indexedOutput = false;
  for (const auto &access : step.outputs) {
    Result<StepOperand> operand = reader.operand(*access, *extents, true);
    if (!operand)
      return operand.takeError();
    if (Status status = reader.window(*operand, *extents, true); !status)
      return status.takeError();
    indexedOutput |= operand->kind == data::AccessKind::Indexed;
    nest.operands.push_back(std::move(*operand));
  }
  if (Status status = reader.disjoint(); !status)
    return status.takeError();
  if (step.combine != data::Combine::Assign && !indexedOutput)
    return reader.malformed("it combines without an indexed output");

  size_t rank = reader.dropConstantUnits(nest, nest.extents.size());
  rank = nest.merge(0, rank);
  if (rank > UINT8_MAX)
    return reader.malformed("it has too many loops");
  placeTurnedLoop(nest, step.program, step.inputs.size());

  spec.family = data::Family::Loops;
  spec.rank = static_cast<uint8_t>(rank);
  spec.program = step.program;
  spec.results = step.results;
  spec.combine = step.combine;
  append(call.integers, nest.extents);
  for (size_t i = 0; i != nest.operands.size(); ++i) {
    (i < step.inputs.size() ? spec.inputs : spec.outputs).push_back(accessSpecOf(nest.operands[i], rank - 1));
    appendOperand(nest.operands[i], call);
  }
  if (indexedOutput)
    call.tiles = 1;
  else if (rank == 1)
    call.tiles = (nest.extents[0] - 1) / kLoopsBlock + 1;
  else
    call.tiles = product(std::span(nest.extents).first(rank - 1));
  return true;
}
