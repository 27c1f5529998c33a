//===- Select.cpp - what the selectors share ------------------------------===//
#include "Select.h"

#include "CheckedMath.h"
#include "rlx/Data/Opcode.h"
#include "rlx/Runtime/Tensor.h"

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <map>

using namespace rlx;
using namespace rlx::select;
using data::AccessKind;
using data::BufferKind;
using data::ElementType;
using data::InnerMode;
using data::Opcode;

//===----------------------------------------------------------------------===//
// Nest
//===----------------------------------------------------------------------===//

template <typename Fn> void Nest::eachStrides(Fn fn) {
  for (StepOperand &operand : operands) {
    fn(operand.strides);
    if (operand.panels)
      fn(operand.columnStrides);
    for (StepIndexOperand &index : operand.indices)
      fn(index.strides);
  }
}

template <typename Fn> bool Nest::allStrides(Fn fn) const {
  for (const StepOperand &operand : operands) {
    if (!fn(operand.strides) || (operand.panels && !fn(operand.columnStrides)))
      return false;
    for (const StepIndexOperand &index : operand.indices)
      if (!fn(index.strides))
        return false;
  }
  return true;
}

void Nest::erase(size_t i) {
  auto at = static_cast<ptrdiff_t>(i);
  extents.erase(extents.begin() + at);
  eachStrides([&](Numbers &strides) { strides.erase(strides.begin() + at); });
}

void Nest::moveLoop(size_t from, size_t to) {
  auto first = static_cast<ptrdiff_t>(from), last = static_cast<ptrdiff_t>(to) + 1;
  auto move = [&](Numbers &values) {
    std::rotate(values.begin() + first, values.begin() + first + 1, values.begin() + last);
  };
  move(extents);
  eachStrides(move);
}

void Nest::placeRowsSideBySide() {
  size_t row = extents.size() - 1;
  const Numbers &from = operands[0].strides, &to = operands[1].strides;
  if (innerMode(from[row]) != data::InnerMode::Strided)
    return;
  bool bothSideBySide = innerMode(to[row]) == data::InnerMode::Strided;
  for (size_t loop = row - 1; loop-- > 0;)
    if (extents[loop] > 1 && from[loop] == 1 && (!bothSideBySide || to[loop] == 1))
      return moveLoop(loop, row - 1);
}

void Nest::insertUnit(size_t i) {
  auto at = static_cast<ptrdiff_t>(i);
  extents.insert(extents.begin() + at, 1);
  eachStrides([&](Numbers &strides) { strides.insert(strides.begin() + at, 1); });
}

size_t Nest::dropUnits(size_t begin, size_t end, size_t keep) {
  bool onlyUnits = std::all_of(extents.begin() + static_cast<ptrdiff_t>(begin),
                               extents.begin() + static_cast<ptrdiff_t>(end), [](int64_t e) { return e == 1; });
  // Where all are units, the last stays: its strides are those that a larger size
  // would have along the innermost loop, so the kernel variant is the same.
  size_t stop = onlyUnits && keep && end > begin ? end - 1 : end;
  for (size_t i = stop; i-- > begin;) {
    if (extents[i] == 1) {
      erase(i);
      --end;
    }
  }
  if (keep && end == begin) {
    insertUnit(begin);
    ++end;
  }
  return end;
}

bool Nest::mergeable(size_t i) const {
  int64_t merged;
  if (!checkedMul(extents[i], extents[i + 1], merged))
    return false;
  return allStrides([&](const Numbers &strides) {
    int64_t step;
    return checkedMul(strides[i + 1], extents[i + 1], step) && step == strides[i];
  });
}

void Nest::mergeInto(size_t i) {
  extents[i + 1] *= extents[i];
  erase(i);
}

size_t Nest::merge(size_t begin, size_t end) {
  for (size_t i = end; i-- > begin + 1;) {
    // Loop i - 1 into loop i; afterwards the merged loop is i - 1.
    if (i < end && mergeable(i - 1)) {
      mergeInto(i - 1);
      --end;
    }
  }
  return end;
}

//===----------------------------------------------------------------------===//
// What does not depend on sizes
//===----------------------------------------------------------------------===//

namespace {
Error stepError(const data::StepT &step, ErrorCode code, const std::string &text) {
  return Error{code, "plan step '" + step.node + "': " + text};
}

/// Checks one step.
class StepChecker {
public:
  StepChecker(const data::PlanTemplateT &plan, size_t number) : plan(plan), step(*plan.steps[number]), number(number) {}

  Status check() const {
    switch (step.family) {
    case data::Family::Loops:
      return loops();
    case data::Family::Reduce:
      return reduce();
    case data::Family::Rows:
      return rows();
    case data::Family::Matmul:
      return matmul();
    case data::Family::Attention:
      return attention();
    case data::Family::Scan:
      return scan();
    }
    return malformed("it belongs to an unknown family");
  }

private:
  Error malformed(const std::string &text) const { return stepError(step, ErrorCode::InvalidModel, text); }
  Status loops() const;
  Status reduce() const;
  Status rows() const;
  Status matmul() const;
  Status attention() const;
  Status scan() const;
  Status access(const data::AccessT &access, size_t loops, bool isOutput) const;
  Status accesses(size_t plain, bool plainOutputs) const;
  Status program(const std::vector<data::Instr> &program, size_t inputs) const;
  Status programs(size_t inputs, size_t results) const;

  const data::PlanTemplateT &plan;
  const data::StepT &step;
  const size_t number;
};

/// Every value number of `program` refers to an earlier value, and every enumerator is known.
Status StepChecker::program(const std::vector<data::Instr> &program, size_t inputs) const {
  if (inputs + program.size() > UINT16_MAX)
    return malformed("its program is too long");
  for (size_t i = 0; i != program.size(); ++i) {
    if (program[i].op() < Opcode::MIN || program[i].op() > Opcode::MAX || elementSize(program[i].type()) == 0)
      return malformed("its program holds an unknown instruction or type");
    uint16_t numbers[] = {program[i].a(), program[i].b(), program[i].c()};
    for (unsigned k = 0; k != operandCount(program[i].op()); ++k)
      if (numbers[k] >= inputs + i)
        return malformed("instruction " + std::to_string(i) + " of its program uses a value that is not there yet");
  }
  return Status::ok();
}

/// The program and its results.
Status StepChecker::programs(size_t inputs, size_t results) const {
  if (Status status = program(step.program, inputs); !status)
    return status;
  if (step.results.size() != results)
    return malformed("its program has " + std::to_string(step.results.size()) + " results for " +
                     std::to_string(results) + " places");
  for (uint16_t result : step.results)
    if (result >= inputs + step.program.size())
      return malformed("a result of its program is no value");
  return Status::ok();
}

/// `loops`: those that it moves along.
Status StepChecker::access(const data::AccessT &access, size_t loops, bool isOutput) const {
  if (access.strides.size() != loops)
    return malformed("an operand has " + std::to_string(access.strides.size()) + " strides for " +
                     std::to_string(loops) + " loops");
  for (size_t i = 0; i != loops; ++i)
    if (i < access.broadcast.size() && access.broadcast[i] && i >= access.extents.size())
      return malformed("an operand that may broadcast lacks its extents");
  if (access.kind == AccessKind::Iota) {
    if (isOutput || access.type != ElementType::I64)
      return malformed("an iota must be an input of type i64");
    return Status::ok();
  }

  const data::BufferT &buffer = *plan.buffers[access.buffer];
  if (buffer.type != access.type)
    return malformed("an operand of type " + std::string(elementTypeName(access.type)) + " lies in a buffer of type " +
                     std::string(elementTypeName(buffer.type)));
  if (isOutput && buffer.kind != BufferKind::Output && buffer.kind != BufferKind::Arena)
    return malformed("an output lies in a buffer that must not be written");
  if (buffer.kind == BufferKind::Arena && (number < buffer.first_step || number > buffer.last_step))
    return malformed("a buffer is used outside its lifetime");
  if (access.kind == AccessKind::Direct)
    return Status::ok();

  if (access.indices.empty() || access.indices.size() != access.axis_extents.size() ||
      access.indices.size() != access.axis_strides.size())
    return malformed("an indexed operand lacks indices, axis extents or axis strides");
  if (access.panels) {
    if (isOutput || (step.family != data::Family::Loops && step.family != data::Family::Reduce))
      return malformed("panels are read by loops and reductions only");
    if (buffer.layout != data::PackedLayout::Panels16)
      return malformed("panels are read from a buffer that is not packed");
    if (access.column_strides.size() != loops || access.axis_columns.size() != access.indices.size())
      return malformed("an operand in panels lacks column strides");
    if (std::find(access.broadcast.begin(), access.broadcast.end(), true) != access.broadcast.end())
      return malformed("an operand in panels is broadcast");
  }
  for (const auto &index : access.indices) {
    if (index->kind != AccessKind::Direct)
      return malformed("an index must be read from memory");
    if (index->type != ElementType::I32 && index->type != ElementType::I64)
      return malformed("an index must be i32 or i64");
    if (Status status = this->access(*index, loops, false); !status)
      return status;
    if (index->type != access.indices[0]->type)
      return malformed("the indices of an operand differ in type");
  }
  return Status::ok();
}

/// All accesses, over all loops. The first `plain` inputs are windows, and the outputs where that is `plainOutputs`.
Status StepChecker::accesses(size_t plain, bool plainOutputs) const {
  for (bool isOutput : {false, true}) {
    const auto &list = isOutput ? step.outputs : step.inputs;
    for (size_t i = 0; i != list.size(); ++i) {
      if ((isOutput ? plainOutputs : i < plain) && list[i]->kind != AccessKind::Direct)
        return malformed("an operand of this family must be a plain window");
      if (Status status = access(*list[i], step.iteration.size(), isOutput); !status)
        return status;
    }
  }
  return Status::ok();
}

Status StepChecker::loops() const {
  if (Status status = programs(step.inputs.size(), step.outputs.size()); !status)
    return status;
  if (step.outputs.empty())
    return malformed("it has no output");
  if (step.combine < data::Combine::MIN || step.combine > data::Combine::MAX)
    return malformed("it combines in an unknown way");
  if (Status status = accesses(0, false); !status)
    return status;
  bool indexed = std::any_of(step.outputs.begin(), step.outputs.end(),
                             [](const auto &output) { return output->kind == AccessKind::Indexed; });
  if (step.combine != data::Combine::Assign && !indexed)
    return malformed("it combines without an indexed output");
  return Status::ok();
}

Status StepChecker::reduce() const {
  if (Status status = programs(step.inputs.size(), 1); !status)
    return status;
  if (Status status = program(step.epilogue, 2); !status)
    return status;
  if (step.epilogue_result >= 2 + step.epilogue.size())
    return malformed("the result of its epilogue is no value");
  // No input is fine: the elements of a filled tensor are constants of the program.
  if (step.outputs.size() != 1)
    return malformed("a reduction has one output");
  if (step.reduce < data::ReduceKind::MIN || step.reduce > data::ReduceKind::MAX || !elementBytes(step.accumulator))
    return malformed("it reduces in an unknown way");
  if (step.reduced > step.iteration.size())
    return malformed("it reduces more loops than it has");
  const data::AccessT &output = *step.outputs[0];
  if (output.kind != AccessKind::Direct)
    return malformed("the output of a reduction must be a plain window");
  // The output has no reduced loops. It may be given with them, at stride 0.
  size_t kept = step.iteration.size() - step.reduced;
  bool whole = output.strides.size() == step.iteration.size();
  if (Status status = access(output, whole ? step.iteration.size() : kept, true); !status)
    return status;
  for (const auto &input : step.inputs)
    if (Status status = access(*input, step.iteration.size(), false); !status)
      return status;
  return Status::ok();
}

Status StepChecker::rows() const {
  if (step.inputs.size() != size_t(1) + step.has_scale + step.has_bias || step.outputs.size() != 1)
    return malformed("its operands are not x, scale, bias and one output");
  if (step.rows < data::RowsKind::MIN || step.rows > data::RowsKind::MAX || !elementBytes(step.accumulator))
    return malformed("it is an unknown kind of row operation");
  // Without a program there may be no results: the normalised value is stored.
  if (!step.results.empty() || !step.program.empty())
    if (Status status = programs(1, 1); !status)
      return status;
  if (step.iteration.empty())
    return malformed("it has no row");
  return accesses(step.inputs.size(), true);
}

Status StepChecker::matmul() const {
  if (step.inputs.size() < 2 || step.outputs.empty())
    return malformed("a matmul has inputs a and b and an output");
  if (Status status = programs(step.inputs.size() - 1, step.outputs.size()); !status)
    return status;
  if (step.iteration.size() < 2)
    return malformed("it lacks the loops over rows and columns");
  if (!elementBytes(step.accumulator))
    return malformed("its accumulator has no known type");
  return accesses(2, true);
}

Status StepChecker::attention() const {
  if (step.inputs.size() < 3 || step.outputs.size() != 1)
    return malformed("attention has inputs q, k and v and one output");
  if (Status status = programs(step.inputs.size() - 2, 1); !status)
    return status;
  if (step.iteration.size() < 2)
    return malformed("it lacks the loops over queries and keys");
  return accesses(3, true);
}

Status StepChecker::scan() const {
  if (step.inputs.size() != 1 || step.outputs.size() != 1)
    return malformed("a scan has one input and one output");
  if (step.iteration.empty())
    return malformed("it has no loop to scan");
  if (!elementBytes(step.accumulator))
    return malformed("its accumulator has no known type");
  return accesses(1, true);
}

/// Puts accesses side by side.
class FormWriter {
public:
  PlanForm form;

  uint32_t list(const std::vector<uint32_t> &exprs) {
    auto first = static_cast<uint32_t>(form.exprs.size());
    form.exprs.insert(form.exprs.end(), exprs.begin(), exprs.end());
    return first;
  }
  AccessForm access(const data::AccessT &from);
  void step(const data::StepT &from);

private:
  std::map<std::vector<uint8_t>, uint32_t> needed; ///< where it was first
};

AccessForm FormWriter::access(const data::AccessT &from) {
  AccessForm access;
  access.kind = from.kind;
  access.type = from.type;
  access.rank = static_cast<uint32_t>(from.strides.size());
  access.buffer = from.buffer;
  access.offset = from.offset;
  access.strides = list(from.strides);
  if (std::find(from.broadcast.begin(), from.broadcast.end(), true) != from.broadcast.end()) {
    std::vector<uint32_t> own(from.strides.size(), AccessForm::kNone);
    for (size_t i = 0; i != std::min(own.size(), from.broadcast.size()); ++i)
      if (from.broadcast[i])
        own[i] = from.extents[i];
    access.own = list(own);
  }
  if (from.kind != AccessKind::Indexed)
    return access;
  access.panels = from.panels;
  if (from.panels) {
    access.column = from.column;
    access.columnStrides = list(from.column_strides);
  }
  std::vector<IndexForm> indices; // have none of their own
  for (size_t k = 0; k != from.indices.size(); ++k)
    indices.push_back({this->access(*from.indices[k]), from.axis_extents[k], from.axis_strides[k],
                       from.panels ? from.axis_columns[k] : 0});
  access.indices = static_cast<uint32_t>(form.indices.size());
  access.indexCount = static_cast<uint32_t>(indices.size());
  form.indices.insert(form.indices.end(), indices.begin(), indices.end());
  return access;
}

void FormWriter::step(const data::StepT &from) {
  StepForm step;
  step.family = from.family;
  step.accumulator = from.accumulator;
  step.reduced = from.reduced;
  step.reduceInner = from.reduce_inner;
  step.bPacked = from.b_packed;
  // A division of integers.
  step.mayFail = std::any_of(from.program.begin(), from.program.end(), [](const data::Instr &instr) {
    return isIntegerType(instr.type()) &&
           (instr.op() == Opcode::Div || instr.op() == Opcode::Mod || instr.op() == Opcode::Rem);
  });
  step.loops = list(from.iteration);
  step.loopCount = static_cast<uint32_t>(from.iteration.size());
  step.accesses = static_cast<uint32_t>(form.accesses.size());
  step.inputs = static_cast<uint32_t>(from.inputs.size());
  step.outputs = static_cast<uint32_t>(from.outputs.size());
  step.k = from.k;
  step.aStride = from.a_k_stride;
  step.bStride = from.b_k_stride;
  step.d = from.d;
  step.vStride = from.v_stride;
  step.outputStride = from.output_stride;
  step.epsilon = from.epsilon;
  for (const auto *accesses : {&from.inputs, &from.outputs})
    for (const auto &each : *accesses)
      form.accesses.push_back(access(*each));
  step.needed = needed.try_emplace(from.needed, static_cast<uint32_t>(form.steps.size())).first->second;
  form.steps.push_back(step);
}
} // namespace

Status rlx::select::checkSteps(const data::PlanTemplateT &plan) {
  for (size_t i = 0; i != plan.steps.size(); ++i)
    if (Status status = StepChecker(plan, i).check(); !status)
      return status;
  return Status::ok();
}

/// As PlanForm has them.
static int64_t packedWeightBytes(const data::PlanTemplateT &plan) {
  int64_t total = 0;
  for (const auto &buffer : plan.buffers)
    if (buffer->kind == data::BufferKind::Weight && buffer->layout == data::PackedLayout::Panels16) {
      int64_t bytes;
      if (!checkedMul(static_cast<int64_t>(buffer->k), static_cast<int64_t>(buffer->n), bytes) || bytes < 0 ||
          !checkedMul(bytes, elementBytes(buffer->type), bytes) || !checkedAdd(total, bytes, total))
        return INT64_MAX;
    }
  return total;
}

PlanForm rlx::select::formOf(const data::PlanTemplateT &plan) {
  FormWriter writer;
  for (const auto &buffer : plan.buffers)
    writer.form.buffers.push_back({buffer->kind, buffer->type, buffer->layout, buffer->index, buffer->elements,
                                   buffer->first_step, buffer->last_step, static_cast<int64_t>(buffer->k),
                                   static_cast<int64_t>(buffer->n), buffer->data.size()});
  for (const auto &step : plan.steps)
    writer.step(*step);
  writer.form.packedBytes = packedWeightBytes(plan);
  return std::move(writer.form);
}

size_t PlanForm::bytes() const {
  return steps.capacity() * sizeof(steps[0]) + buffers.capacity() * sizeof(buffers[0]) +
         accesses.capacity() * sizeof(accesses[0]) + indices.capacity() * sizeof(indices[0]) +
         exprs.capacity() * sizeof(exprs[0]);
}

//===----------------------------------------------------------------------===//
// StepReader
//===----------------------------------------------------------------------===//

namespace {
/// What a form over a nest may come to: from `low` to `high`, unless some extent is 0.
struct Reach {
  int64_t low, high;
  bool fits = true, empty = false;
  explicit Reach(int64_t start) : low(start), high(start) {}
  void add(int64_t extent, int64_t stride) {
    if (extent == 0) {
      empty = true;
      return;
    }
    int64_t distance;
    int64_t &end = stride < 0 ? low : high;
    fits &= checkedMul(extent - 1, stride, distance) && checkedAdd(end, distance, end);
  }
  void add(std::span<const int64_t> extents, std::span<const int64_t> strides) {
    for (size_t i = 0; i != extents.size(); ++i)
      add(extents[i], strides[i]);
  }
  bool isInside(int64_t count) const { return fits && low >= 0 && high < count; }
  std::string text() const {
    return fits ? std::to_string(low) + " to " + std::to_string(high) : "further than 64 bits count";
  }
};
} // namespace

Error StepReader::error(ErrorCode code, const std::string &text) const {
  return stepError(*plan.steps[number], code, text);
}

Result<Numbers> StepReader::extents() const {
  Numbers result(memory);
  result.reserve(step.loopCount);
  for (uint32_t expr : iteration()) {
    if (value(expr) < 0)
      return error(ErrorCode::OutOfRange, "a loop has the negative extent " + std::to_string(value(expr)));
    result.push_back(value(expr));
  }
  if (!elementCount(result))
    return error(ErrorCode::OutOfRange, "its iteration space " + shapeString(result) + " overflows");
  return result;
}

Result<StepOperand> StepReader::operand(const AccessForm &access, std::span<const int64_t> extents) const {
  assert(access.rank == extents.size() && "checked with the template");
  StepOperand result(memory);
  result.kind = access.kind;
  result.type = access.type;
  result.buffer = access.buffer;
  result.offset = value(access.offset);
  result.strides.reserve(extents.size());
  for (uint32_t expr : exprs(access.strides, access.rank))
    result.strides.push_back(value(expr));
  if (access.own != AccessForm::kNone) {
    std::span<const uint32_t> own = exprs(access.own, access.rank);
    for (size_t i = 0; i != extents.size(); ++i) {
      if (own[i] == AccessForm::kNone || value(own[i]) == extents[i])
        continue;
      if (value(own[i]) != 1)
        return error(ErrorCode::InvalidArgument, "an operand of size " + std::to_string(value(own[i])) +
                                                     " cannot be broadcast to " + std::to_string(extents[i]));
      result.strides[i] = 0;
    }
  }
  if (access.panels) {
    result.panels = true;
    result.column = value(access.column);
    for (uint32_t expr : exprs(access.columnStrides, access.rank))
      result.columnStrides.push_back(value(expr));
  }
  for (const IndexForm &from : std::span(form.indices).subspan(access.indices, access.indexCount)) {
    Result<StepOperand> index = operand(from.access, extents);
    if (!index)
      return index.takeError();
    StepIndexOperand made{index->buffer,
                          index->type,
                          index->offset,
                          std::move(index->strides),
                          value(from.extent),
                          value(from.stride),
                          access.panels ? value(from.column) : 0};
    if (made.extent < 0)
      return error(ErrorCode::OutOfRange, "an indexed axis has the negative extent " + std::to_string(made.extent));
    result.indices.push_back(std::move(made));
  }
  return result;
}

Status StepReader::reach(uint32_t buffer, int64_t &offset, std::span<const int64_t> extents,
                         std::span<const int64_t> strides, std::span<const StepIndexOperand> indices, bool isOutput) {
  if (form.buffers[buffer].layout != data::PackedLayout::Strided)
    return malformed("a packed weight is read as if it were plain");
  int64_t elements = buffers[buffer].elements;
  Reach reach(offset);
  reach.add(extents, strides);
  for (const StepIndexOperand &index : indices)
    reach.add(index.extent, index.axisStride); // of extent 0: no index is valid, so none is followed
  if (reach.empty) {
    // Nothing is touched, but the pointer itself must be one of the buffer's. A slice of nothing may well begin
    // outside of it.
    offset = 0;
    return Status::ok();
  }
  if (!reach.isInside(elements))
    return malformed(reach.fits ? "an operand reaches from element " + reach.text() + " of a buffer of " +
                                      std::to_string(elements)
                                : "an operand reaches " + reach.text());
  touched.push_back({buffer, reach.low, reach.high, isOutput});
  return Status::ok();
}

/// What a packed weight may be asked for: rows and columns of its matrix, each on its own.
Status StepReader::reachPanels(StepOperand &operand, std::span<const int64_t> extents) {
  int64_t rows = form.buffers[operand.buffer].k, columns = form.buffers[operand.buffer].n;
  Reach row(operand.offset), column(operand.column);
  row.add(extents, operand.strides);
  column.add(extents, operand.columnStrides);
  for (const StepIndexOperand &index : operand.indices) {
    row.add(index.extent, index.axisStride);
    column.add(index.extent, index.axisColumn);
  }
  if (row.empty) { // as above
    operand.offset = operand.column = 0;
  } else if (!row.isInside(rows) || !column.isInside(columns)) {
    return malformed("an operand in panels reaches rows " + row.text() + " and columns " + column.text() +
                     " of a matrix of " + std::to_string(rows) + " x " + std::to_string(columns));
  }
  // Every offset into the panels is less than their size, which fits.
  int64_t bytes;
  bool fits = checkedMul(columns / kPanel + 1, rows, bytes) &&
              checkedMul(bytes, kPanel * static_cast<int64_t>(elementSize(operand.type)), bytes) &&
              checkedMul(operand.offset, kPanel, operand.offset);
  // A stride that is never applied may be any number.
  auto toElements = [&](int64_t extent, int64_t &stride) { fits &= checkedMul(stride, kPanel, stride) || extent <= 1; };
  for (size_t i = 0; i != extents.size(); ++i)
    toElements(extents[i], operand.strides[i]);
  for (StepIndexOperand &index : operand.indices)
    toElements(index.extent, index.axisStride);
  if (!fits)
    return error(ErrorCode::OutOfRange,
                 "a packed weight of " + std::to_string(rows) + " x " + std::to_string(columns) + " overflows");
  operand.panelStride = rows * kPanel;
  return Status::ok();
}

/// True of any part of a row-major tensor, whatever the order and direction of its axes: a stride leads further than
/// all the smaller ones together. Outputs that have an element for each point in some other way are not ours.
Status StepReader::writesOnce(std::span<const int64_t> extents, std::span<const int64_t> strides) const {
  // The window lies in its buffer, so nothing here overflows.
  std::pmr::vector<std::pair<int64_t, int64_t>> moves(memory); // how far a step leads, how many there are
  for (size_t i = extents.size(); i-- > 0;) {
    if (extents[i] == 0)
      return Status::ok();
    if (extents[i] > 1)
      moves.emplace_back(std::abs(strides[i]), extents[i] - 1);
  }
  std::sort(moves.begin(), moves.end());
  int64_t covered = 0;
  for (auto [stride, steps] : moves) {
    if (stride <= covered)
      return malformed("several points of its loops write one element of an output");
    covered += stride * steps;
  }
  return Status::ok();
}

Status StepReader::window(StepOperand &operand, std::span<const int64_t> extents, std::span<const int64_t> strides,
                          bool isOutput) {
  if (operand.kind == AccessKind::Iota) {
    Reach reach(operand.offset);
    reach.add(extents, strides);
    return reach.fits ? Status::ok() : error(ErrorCode::OutOfRange, "a range of integers overflows");
  }
  if (operand.panels) {
    if (Status status = reachPanels(operand, extents); !status)
      return status;
  } else if (Status status = reach(operand.buffer, operand.offset, extents, strides, operand.indices, isOutput);
             !status) {
    return status;
  }
  if (isOutput && operand.kind == AccessKind::Direct)
    if (Status status = writesOnce(extents, strides); !status)
      return status;
  for (StepIndexOperand &index : operand.indices)
    if (Status status = reach(index.buffer, index.offset, extents, index.strides, {}, false); !status)
      return status;
  return Status::ok();
}

Status StepReader::readInputs(Nest &nest, size_t first) {
  for (size_t i = first; i != step.inputs; ++i) {
    Result<StepOperand> read = operand(input(i), nest.extents);
    if (!read)
      return read.takeError();
    if (Status status = window(*read, nest.extents, false); !status)
      return status;
    nest.operands.push_back(std::move(*read));
  }
  return Status::ok();
}

Status StepReader::disjoint() {
  std::sort(touched.begin(), touched.end(),
            [](const Touched &a, const Touched &b) { return std::pair(a.buffer, a.low) < std::pair(b.buffer, b.low); });
  int64_t inputsEnd = -1, outputsEnd = -1; // the last element so far of those in this buffer
  for (size_t i = 0; i != touched.size(); ++i) {
    const Touched &each = touched[i];
    if (i == 0 || touched[i - 1].buffer != each.buffer)
      inputsEnd = outputsEnd = -1;
    if (each.isOutput && each.low <= outputsEnd)
      return malformed("two of its outputs overlap");
    if (each.low <= (each.isOutput ? inputsEnd : outputsEnd))
      return malformed("an output overlaps an input");
    int64_t &end = each.isOutput ? outputsEnd : inputsEnd;
    end = std::max(end, each.high);
  }
  return Status::ok();
}

size_t StepReader::dropConstantUnits(Nest &nest, size_t end) const {
  if (end == 0) {
    nest.insertUnit(0);
    return 1;
  }
  int64_t turns = product(std::span(nest.extents).first(end));
  for (size_t i = end; i-- > 0 && end > 1;) {
    const data::ExprNode &extent = plan.exprs[iteration()[i]];
    if (nest.extents[i] == 1 && extent.op() == data::ExprOp::Constant) {
      nest.erase(i);
      --end;
    }
  }
  while (end > 1 && nest.extents[end - 1] == 1 && turns >= kLoopsBlock)
    nest.erase(--end);
  // One long row.
  while (end > 1 && nest.extents[end - 1] == turns && turns >= 2 * kLoopsBlock) {
    nest.erase(0);
    --end;
  }
  return end;
}

//===----------------------------------------------------------------------===//
// Writing specs and arguments
//===----------------------------------------------------------------------===//

InnerMode rlx::select::innerMode(int64_t stride) {
  return stride == 1 ? InnerMode::Contiguous : stride == 0 ? InnerMode::Splat : InnerMode::Strided;
}

void rlx::select::appendModes(const StepOperand &operand, size_t loop, StepDraft &call) {
  call.modes.push_back(innerMode(operand.strides[loop]));
  if (operand.panels)
    call.modes.push_back(innerMode(operand.columnStrides[loop]));
  for (const StepIndexOperand &index : operand.indices)
    call.modes.push_back(innerMode(index.strides[loop]));
}

data::KernelSpecT rlx::select::specOf(const data::StepT &step, const SpecChoice &choice, OperandModes modes) {
  data::KernelSpecT spec;
  spec.family = step.family;
  spec.rank = choice.rank;
  spec.program = step.program;
  spec.results = step.results;
  size_t next = 0, first = 0;
  switch (step.family) {
  case data::Family::Loops:
    spec.combine = step.combine;
    break;
  case data::Family::Reduce:
    spec.reduced = choice.reduced;
    spec.reduce = step.reduce;
    spec.reduce_inner = step.reduce_inner;
    spec.accumulator = step.accumulator;
    spec.epilogue = step.epilogue;
    spec.epilogue_result = step.epilogue_result;
    break;
  case data::Family::Rows:
    spec.rows = step.rows;
    spec.has_scale = step.has_scale;
    spec.has_bias = step.has_bias;
    spec.accumulator = step.accumulator;
    break;
  case data::Family::Matmul:
    spec.batch_rank = choice.batchRank;
    spec.row_class = choice.rowClass;
    spec.a_type = step.inputs[0]->type;
    spec.b_type = step.inputs[1]->type;
    spec.a_inner = choice.aInner;
    spec.b_layout = step.b_packed ? data::PackedLayout::Panels16 : data::PackedLayout::Strided;
    spec.accumulator = step.accumulator;
    first = 2; // a and b are told above
    break;
  case data::Family::Attention:
    spec.batch_rank = choice.batchRank;
    spec.row_class = choice.rowClass;
    spec.zero_nan = step.zero_nan;
    break;
  case data::Family::Scan:
    spec.program.clear();
    spec.results.clear();
    spec.accumulator = step.accumulator;
    spec.exclusive = step.exclusive;
    spec.reverse = step.reverse;
    break;
  }
  auto operand = [&](const data::AccessT &access) {
    auto made = std::make_unique<data::AccessSpecT>();
    made->kind = access.kind;
    made->type = access.type;
    made->inner = modes[next++];
    if (access.kind != AccessKind::Indexed)
      return made;
    made->panels = access.panels;
    if (access.panels)
      made->column_inner = modes[next++];
    made->index_type = access.indices[0]->type;
    for (size_t i = 0; i != access.indices.size(); ++i)
      made->index_inner.push_back(modes[next++]);
    return made;
  };
  for (size_t i = first; i != step.inputs.size(); ++i)
    spec.inputs.push_back(operand(*step.inputs[i]));
  for (const auto &output : step.outputs)
    spec.outputs.push_back(operand(*output));
  assert(next == modes.size() && "modes of other operands");
  return spec;
}

size_t rlx::select::modesOf(const data::StepT &step) {
  size_t count = 0;
  auto add = [&](const data::AccessT &access) {
    bool indexed = access.kind == AccessKind::Indexed;
    count += 1 + (indexed ? access.indices.size() + access.panels : 0);
  };
  for (size_t i = step.family == data::Family::Matmul ? 2 : 0; i < step.inputs.size(); ++i)
    add(*step.inputs[i]);
  for (const auto &output : step.outputs)
    add(*output);
  return count;
}

void StepDraft::clear() {
  static_cast<StepCall &>(*this) = {};
  for (auto *list : {&rowBytes, &integers, &extents})
    list->clear();
  pointers.clear();
  modes.clear();
  choice = {};
}

void rlx::select::append(std::vector<int64_t> &to, std::span<const int64_t> from) {
  to.insert(to.end(), from.begin(), from.end());
}

void rlx::select::appendPointer(const StepOperand &operand, StepDraft &call) {
  if (operand.kind == AccessKind::Iota) {
    call.pointers.push_back({});
    return;
  }
  // The windows were checked, so offsets in bytes fit too.
  call.pointers.push_back(
      {PointerSource::Kind::Buffer, operand.buffer, operand.offset * static_cast<int64_t>(elementSize(operand.type))});
  for (const StepIndexOperand &index : operand.indices)
    call.pointers.push_back(
        {PointerSource::Kind::Buffer, index.buffer, index.offset * static_cast<int64_t>(elementSize(index.type))});
}

void rlx::select::appendOperand(const StepOperand &operand, StepDraft &call) {
  if (operand.kind == AccessKind::Iota)
    call.integers.push_back(operand.offset);
  append(call.integers, operand.strides);
  for (const StepIndexOperand &index : operand.indices) {
    append(call.integers, index.strides);
    call.integers.push_back(index.extent);
    call.integers.push_back(index.axisStride);
  }
  if (operand.panels) {
    call.integers.push_back(operand.column);
    call.integers.push_back(operand.panelStride);
    append(call.integers, operand.columnStrides);
    for (const StepIndexOperand &index : operand.indices)
      call.integers.push_back(index.axisColumn);
  }
  appendPointer(operand, call);
}

int64_t rlx::select::product(std::span<const int64_t> extents) { return *elementCount(extents); }
