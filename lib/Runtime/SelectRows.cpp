//===- SelectRows.cpp - softmax and norms ---------------------------------===//
#include "Select.h"

#include <bit>

using namespace rlx;
using namespace rlx::select;

Selected rlx::select::selectRows(StepReader &reader, data::KernelSpecT &spec, StepInstance &call) {
  const data::StepT &step = reader.step;
  if (step.inputs.size() != size_t(1) + step.has_scale + step.has_bias || step.outputs.size() != 1)
    return reader.malformed("its operands are not x, scale, bias and one output");
  if (step.rows < data::RowsKind::MIN || step.rows > data::RowsKind::MAX || !elementBytes(step.accumulator))
    return reader.malformed("it is an unknown kind of row operation");
  if (Status status = reader.program(step.program, 1); !status)
    return status.takeError();
  // Without a program there may be no results: the normalised value is stored.
  if (!step.results.empty() || !step.program.empty())
    if (Status status = reader.results(1, 1); !status)
      return status.takeError();
  if (step.iteration.empty())
    return reader.malformed("it has no row");

  Result<std::vector<int64_t>> extents = reader.extents();
  if (!extents)
    return extents.takeError();
  call.extents = *extents;
  if (product(*extents) == 0)
    return false;
  size_t outer = extents->size() - 1;

  Nest nest;
  nest.extents = *extents;
  std::vector<StepOperand> perRow; // scale and bias: the same for every row
  for (size_t i = 0; i != step.inputs.size() + 1; ++i) {
    bool isOutput = i == step.inputs.size();
    const data::AccessT &access = isOutput ? *step.outputs[0] : *step.inputs[i];
    Result<StepOperand> operand = reader.direct(access, *extents, isOutput);
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
  if (!mayFail(step.program))
    nest.placeRowsSideBySide();

  spec.family = data::Family::Rows;
  spec.rank = static_cast<uint8_t>(outer);
  spec.rows = step.rows;
  spec.has_scale = step.has_scale;
  spec.has_bias = step.has_bias;
  spec.accumulator = step.accumulator;
  spec.program = step.program;
  spec.results = step.results;
  append(call.integers, nest.extents); // the outer loops, then the length
  call.integers.push_back(std::bit_cast<int64_t>(step.epsilon));
  spec.inputs.push_back(accessSpecOf(nest.operands[0], outer));
  appendOperand(nest.operands[0], call);
  for (const StepOperand &operand : perRow) {
    spec.inputs.push_back(accessSpecOf(operand, operand.strides.size() - 1));
    call.integers.push_back(operand.strides.back());
    appendPointer(operand, call);
  }
  spec.outputs.push_back(accessSpecOf(nest.operands[1], outer));
  appendOperand(nest.operands[1], call);
  call.tiles = product(std::span(nest.extents).first(outer));
  return true;
}
