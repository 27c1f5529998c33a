//===- Select.cpp - what the selectors share ------------------------------===//
#include "Select.h"

#include "CheckedMath.h"
#include "rlx/Data/Opcode.h"
#include "rlx/Runtime/Tensor.h"

#include <algorithm>
#include <cassert>
#include <cstdlib>

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
  eachStrides([&](std::vector<int64_t> &strides) { strides.erase(strides.begin() + at); });
}

void Nest::moveLoop(size_t from, size_t to) {
  auto first = static_cast<ptrdiff_t>(from), last = static_cast<ptrdiff_t>(to) + 1;
  auto move = [&](std::vector<int64_t> &values) {
    std::rotate(values.begin() + first, values.begin() + first + 1, values.begin() + last);
  };
  move(extents);
  eachStrides(move);
}

void Nest::placeRowsSideBySide() {
  size_t row = extents.size() - 1;
  const std::vector<int64_t> &from = operands[0].strides, &to = operands[1].strides;
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
  eachStrides([&](std::vector<int64_t> &strides) { strides.insert(strides.begin() + at, 1); });
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
  return allStrides([&](const std::vector<int64_t> &strides) {
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
};
} // namespace

Error StepReader::error(ErrorCode code, const std::string &text) const {
  return Error{code, "plan step '" + step.node + "': " + text};
}

Result<std::vector<int64_t>> StepReader::extents() const {
  std::vector<int64_t> result;
  for (uint32_t expr : step.iteration) {
    if (value(expr) < 0)
      return error(ErrorCode::OutOfRange, "a loop has the negative extent " + std::to_string(value(expr)));
    result.push_back(value(expr));
  }
  if (!elementCount(result))
    return error(ErrorCode::OutOfRange, "its iteration space " + shapeString(result) + " overflows");
  return result;
}

Result<StepOperand> StepReader::operand(const data::AccessT &access, std::span<const int64_t> extents, bool isOutput) {
  // Numbers of expressions and buffers, and enumerators, were checked with the
  // template.
  StepOperand result;
  result.kind = access.kind;
  result.type = access.type;
  result.buffer = access.buffer;
  result.offset = value(access.offset);
  if (access.strides.size() != extents.size())
    return malformed("an operand has " + std::to_string(access.strides.size()) + " strides for " +
                     std::to_string(extents.size()) + " loops");
  for (size_t i = 0; i != extents.size(); ++i) {
    int64_t stride = value(access.strides[i]);
    if (i < access.broadcast.size() && access.broadcast[i]) {
      if (i >= access.extents.size())
        return malformed("an operand that may broadcast lacks its extents");
      int64_t own = value(access.extents[i]);
      if (own != extents[i]) {
        if (own != 1)
          return error(ErrorCode::InvalidArgument, "an operand of size " + std::to_string(own) +
                                                       " cannot be broadcast to " + std::to_string(extents[i]));
        stride = 0;
      }
    }
    result.strides.push_back(stride);
  }
  if (access.kind == AccessKind::Iota) {
    if (isOutput || access.type != ElementType::I64)
      return malformed("an iota must be an input of type i64");
    return result;
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
    return result;

  if (access.indices.empty() || access.indices.size() != access.axis_extents.size() ||
      access.indices.size() != access.axis_strides.size())
    return malformed("an indexed operand lacks indices, axis extents or axis strides");
  if (access.panels) {
    if (isOutput || (step.family != data::Family::Loops && step.family != data::Family::Reduce))
      return malformed("panels are read by loops and reductions only");
    if (buffer.layout != data::PackedLayout::Panels16)
      return malformed("panels are read from a buffer that is not packed");
    if (access.column_strides.size() != extents.size() || access.axis_columns.size() != access.indices.size())
      return malformed("an operand in panels lacks column strides");
    if (std::find(access.broadcast.begin(), access.broadcast.end(), true) != access.broadcast.end())
      return malformed("an operand in panels is broadcast");
    result.panels = true;
    result.column = value(access.column);
    for (uint32_t stride : access.column_strides)
      result.columnStrides.push_back(value(stride));
  }
  for (size_t k = 0; k != access.indices.size(); ++k) {
    const data::AccessT &from = *access.indices[k];
    if (from.kind != AccessKind::Direct)
      return malformed("an index must be read from memory");
    if (from.type != ElementType::I32 && from.type != ElementType::I64)
      return malformed("an index must be i32 or i64");
    Result<StepOperand> index = operand(from, extents, false);
    if (!index)
      return index.takeError();
    if (k && index->type != result.indices[0].type)
      return malformed("the indices of an operand differ in type");
    StepIndexOperand made{index->buffer,
                          index->type,
                          index->offset,
                          std::move(index->strides),
                          value(access.axis_extents[k]),
                          value(access.axis_strides[k]),
                          access.panels ? value(access.axis_columns[k]) : 0};
    if (made.extent < 0)
      return error(ErrorCode::OutOfRange, "an indexed axis has the negative extent " + std::to_string(made.extent));
    result.indices.push_back(std::move(made));
  }
  return result;
}

Result<StepOperand> StepReader::direct(const data::AccessT &access, std::span<const int64_t> extents, bool isOutput) {
  if (access.kind != AccessKind::Direct)
    return malformed("an operand of this family must be a plain window");
  return operand(access, extents, isOutput);
}

Status StepReader::reach(uint32_t buffer, int64_t &offset, std::span<const int64_t> extents,
                         std::span<const int64_t> strides, std::span<const StepIndexOperand> indices, bool isOutput) {
  if (plan.buffers[buffer]->layout != data::PackedLayout::Strided)
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
    return malformed("an operand reaches from element " + std::to_string(reach.low) + " to " +
                     std::to_string(reach.high) + " of a buffer of " + std::to_string(elements));
  touched.push_back({buffer, reach.low, reach.high, isOutput});
  return Status::ok();
}

/// What a packed weight may be asked for: rows and columns of its matrix, each on its own.
Status StepReader::reachPanels(StepOperand &operand, std::span<const int64_t> extents) {
  const data::BufferT &buffer = *plan.buffers[operand.buffer];
  auto rows = static_cast<int64_t>(buffer.k), columns = static_cast<int64_t>(buffer.n); // checked with the template
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
    auto range = [](const Reach &reach) { return std::to_string(reach.low) + " to " + std::to_string(reach.high); };
    return malformed("an operand in panels reaches rows " + range(row) + " and columns " + range(column) +
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
  std::vector<std::pair<int64_t, int64_t>> moves; // how far a step leads, how many there are
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
  for (size_t i = first; i != step.inputs.size(); ++i) {
    Result<StepOperand> read = operand(*step.inputs[i], nest.extents, false);
    if (!read)
      return read.takeError();
    if (Status status = window(*read, nest.extents, false); !status)
      return status;
    nest.operands.push_back(std::move(*read));
  }
  return Status::ok();
}

Status StepReader::disjoint() const {
  for (const Touched &output : touched)
    for (const Touched &other : touched)
      if (output.isOutput && &output != &other && output.buffer == other.buffer && output.low <= other.high &&
          other.low <= output.high)
        return malformed(other.isOutput ? "two of its outputs overlap" : "an output overlaps an input");
  return Status::ok();
}

size_t StepReader::dropConstantUnits(Nest &nest, size_t end) const {
  if (end == 0) {
    nest.insertUnit(0);
    return 1;
  }
  int64_t turns = product(std::span(nest.extents).first(end));
  for (size_t i = end; i-- > 0 && end > 1;) {
    const data::ExprNode &extent = plan.exprs[step.iteration[i]];
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

Status StepReader::program(const std::vector<data::Instr> &program, size_t inputs) const {
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

Status StepReader::results(size_t inputs, size_t outputs) const {
  if (step.results.size() != outputs)
    return malformed("its program has " + std::to_string(step.results.size()) + " results for " +
                     std::to_string(outputs) + " places");
  for (uint16_t result : step.results)
    if (result >= inputs + step.program.size())
      return malformed("a result of its program is no value");
  return Status::ok();
}

//===----------------------------------------------------------------------===//
// Writing specs and arguments
//===----------------------------------------------------------------------===//

InnerMode rlx::select::innerMode(int64_t stride) {
  return stride == 1 ? InnerMode::Contiguous : stride == 0 ? InnerMode::Splat : InnerMode::Strided;
}

bool rlx::select::mayFail(const std::vector<data::Instr> &program) {
  return std::any_of(program.begin(), program.end(), [](const data::Instr &instr) {
    return isIntegerType(instr.type()) &&
           (instr.op() == Opcode::Div || instr.op() == Opcode::Mod || instr.op() == Opcode::Rem);
  });
}

std::unique_ptr<data::AccessSpecT> rlx::select::accessSpecOf(const StepOperand &operand, size_t innerLoop) {
  auto spec = std::make_unique<data::AccessSpecT>();
  spec->kind = operand.kind;
  spec->type = operand.type;
  spec->inner = innerMode(operand.strides[innerLoop]);
  if (!operand.indices.empty())
    spec->index_type = operand.indices[0].type;
  for (const StepIndexOperand &index : operand.indices)
    spec->index_inner.push_back(innerMode(index.strides[innerLoop]));
  spec->panels = operand.panels;
  if (operand.panels)
    spec->column_inner = innerMode(operand.columnStrides[innerLoop]);
  return spec;
}

void rlx::select::append(std::vector<int64_t> &to, std::span<const int64_t> from) {
  to.insert(to.end(), from.begin(), from.end());
}

void rlx::select::appendPointer(const StepOperand &operand, StepInstance &call) {
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

void rlx::select::appendOperand(const StepOperand &operand, StepInstance &call) {
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
