//===- SelectMatmul.cpp - matrix products ---------------------------------===//
#include "CheckedMath.h"
#include "CpuCaches.h"
#include "Select.h"

#include <algorithm>

using namespace rlx;
using namespace rlx::select;

namespace {
constexpr size_t kMaxBatchLoops = 30; // with rows and columns: the ranks that kernels take
} // namespace

Selected rlx::select::selectMatmul(StepReader &reader, StepDraft &call, int64_t &scratchBytes) {
  const StepForm &step = reader.step;
  Result<Numbers> extents = reader.extents();
  if (!extents)
    return extents.takeError();
  call.extents.assign(extents->begin(), extents->end());
  int64_t k = reader.value(step.k);
  if (k < 0)
    return reader.error(ErrorCode::OutOfRange, "its inner extent is negative");
  if (product(*extents) == 0)
    return false;
  size_t row = extents->size() - 2, column = row + 1;

  // a moves along the batch, rows and k; b along the batch, k and columns.
  Result<StepOperand> a = reader.operand(reader.input(0), *extents);
  if (!a)
    return a.takeError();
  Result<StepOperand> b = reader.operand(reader.input(1), *extents);
  if (!b)
    return b.takeError();
  if ((*extents)[column] > 1 && a->strides[column] != 0)
    return reader.malformed("a moves along the columns");
  if ((*extents)[row] > 1 && b->strides[row] != 0)
    return reader.malformed("b moves along the rows");
  a->strides[column] = 0;
  b->strides[row] = 0;

  Numbers windowExtents(*extents, reader.memory), windowStrides(a->strides, reader.memory);
  windowExtents[column] = k;
  windowStrides[column] = reader.value(step.aStride);
  if (Status status = reader.window(*a, windowExtents, windowStrides, false); !status)
    return status.takeError();
  if (step.bPacked) {
    const BufferForm &buffer = reader.form.buffers[b->buffer];
    if (buffer.layout != data::PackedLayout::Panels16 || buffer.k != k || buffer.n != (*extents)[column] ||
        b->offset != 0)
      return reader.malformed("b is not packed for its sizes");
    for (size_t loop = 0; loop != row; ++loop)
      if ((*extents)[loop] > 1 && b->strides[loop] != 0)
        return reader.malformed("a packed b moves along the batch");
    std::fill(b->strides.begin(), b->strides.end(), 0);
  } else {
    windowExtents = *extents;
    windowStrides = b->strides;
    windowExtents[row] = k;
    windowStrides[row] = reader.value(step.bStride);
    if (Status status = reader.window(*b, windowExtents, windowStrides, false); !status)
      return status.takeError();
  }

  Nest nest(reader.memory);
  nest.extents = *extents;
  nest.operands.push_back(std::move(*a));
  nest.operands.push_back(std::move(*b));
  if (Status status = reader.readInputs(nest, 2); !status)
    return status.takeError();
  for (size_t i = 0; i != step.outputs; ++i) {
    Result<StepOperand> operand = reader.operand(reader.output(i), *extents);
    if (!operand)
      return operand.takeError();
    if (Status status = reader.window(*operand, *extents, true); !status)
      return status.takeError();
    nest.operands.push_back(std::move(*operand));
  }
  if (Status status = reader.disjoint(); !status)
    return status.takeError();

  // Batch loops along which b stays are more rows of the same product. A single
  // row takes on the batch loop's strides whatever they are.
  row = nest.dropUnits(0, row, 0);
  while (row > 0 && nest.operands[1].strides[row - 1] == 0) {
    if (nest.extents[row] == 1)
      nest.erase(row);
    else if (nest.mergeable(row - 1))
      nest.mergeInto(row - 1);
    else
      break;
    --row;
  }
  row = nest.merge(0, row);
  if (row > kMaxBatchLoops)
    return reader.error(ErrorCode::Unsupported, "its batch takes " + std::to_string(row) + " loops, more than " +
                                                    std::to_string(kMaxBatchLoops));
  column = row + 1;
  int64_t rows = nest.extents[row], columns = nest.extents[column];

  const StepOperand &left = nest.operands[0], &right = nest.operands[1];
  SpecChoice &choice = call.choice;
  choice.rank = static_cast<uint8_t>(row + 2);
  choice.batchRank = static_cast<uint8_t>(row);
  // Only "contiguous or not" matters along k; a splat is a stride like any other.
  int64_t aStride = reader.value(step.aStride);
  choice.aInner = aStride == 1 || k <= 1 ? data::InnerMode::Contiguous : data::InnerMode::Strided;
  // Where sums are not f32 one kernel serves all.
  bool few = rows <= kMatmulFewRows && step.accumulator == data::ElementType::F32;
  choice.rowClass = static_cast<uint8_t>(few ? kMatmulFewRows : kMatmulManyRows);

  append(call.integers, nest.extents);
  call.integers.push_back(k);
  append(call.integers, std::span(left.strides).first(row + 1));
  call.integers.push_back(choice.aInner == data::InnerMode::Contiguous ? 1 : aStride);
  append(call.integers, std::span(right.strides).first(row));
  call.integers.push_back(step.bPacked ? 0 : reader.value(step.bStride));
  call.integers.push_back(step.bPacked ? 0 : right.strides[column]);
  appendPointer(left, call);
  appendPointer(right, call);
  for (size_t i = 2; i != nest.operands.size(); ++i) {
    appendModes(nest.operands[i], column, call);
    appendOperand(nest.operands[i], call);
  }
  RowBlocks blocks = rowBlocks(cpuCaches());
  call.integers.push_back(blocks.large);
  call.integers.push_back(blocks.block);
  call.integers.push_back(step.bPacked && contendForLastCache(reader.form.packedBytes, cpuCaches()));
  call.pointers.push_back({PointerSource::Kind::Scratch, 0, 0});
  int64_t scratch;
  if (!checkedMul(k, kMatmulScratchPerK * elementBytes(step.accumulator), scratch))
    return reader.error(ErrorCode::OutOfRange, "its scratch memory overflows");
  scratchBytes = std::max(scratchBytes, scratch);
  call.tiles = product(std::span(nest.extents).first(row)) * ((columns - 1) / kPanel + 1);
  return true;
}
