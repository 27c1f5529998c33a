//===- SelectAttention.cpp - attention in one kernel ----------------------===//
#include "CheckedMath.h"
#include "Select.h"

#include "rlx/Runtime/Tensor.h"

#include <algorithm>

using namespace rlx;
using namespace rlx::select;

namespace {
constexpr size_t kMaxBatchLoops = 30; // with queries and keys: the ranks that kernels take
/// Fewer batch loops than this are filled up with loops of one: one kernel then serves one sequence and many.
constexpr size_t kBatchLoops = 2;
/// A single query has a kernel of its own where it meets at least so many keys (a cache that is decoded from). Below,
/// what it would save is less than what another kernel costs.
constexpr int64_t kDecodeKeys = 64;
} // namespace

Selected rlx::select::selectAttention(StepReader &reader, StepDraft &call, int64_t &scratchBytes) {
  const StepForm &step = reader.step;
  Result<Numbers> extents = reader.extents();
  if (!extents)
    return extents.takeError();
  call.extents.assign(extents->begin(), extents->end());
  size_t query = extents->size() - 2, key = query + 1;
  int64_t keys = extents->back(), k = reader.value(step.k), d = reader.value(step.d);
  if (k < 0 || d < 0)
    return reader.error(ErrorCode::OutOfRange, "its inner extent is negative");
  // No key is a sum over nothing; no query and no element of a result is no work.
  std::optional<int64_t> rowCount = elementCount(std::span(*extents).first(key));
  if (!rowCount)
    return reader.error(ErrorCode::OutOfRange, "its rows overflow");
  if (*rowCount == 0 || d == 0)
    return false;

  // Each operand's own last loop stands where the step's loop over the keys is; a row of k or v is a key's.
  enum : size_t { Q, KeyRow, V, Output };
  Nest nest(reader.memory);
  nest.extents = *extents;
  struct Side {
    const AccessForm *access;
    bool byKey; ///< its rows belong to the keys, not to the queries
    int64_t length, stride;
  };
  const Side sides[] = {
      {&reader.input(0), false, k, reader.value(step.aStride)},
      {&reader.input(1), true, k, reader.value(step.bStride)},
      {&reader.input(2), true, d, reader.value(step.vStride)},
      {&reader.output(0), false, d, reader.value(step.outputStride)},
  };
  for (const Side &side : sides) {
    bool isOutput = &side == &sides[Output];
    Result<StepOperand> operand = reader.operand(*side.access, *extents);
    if (!operand)
      return operand.takeError();
    size_t still = side.byKey ? query : key, row = side.byKey ? key : query;
    if ((*extents)[still] > 1 && operand->strides[still] != 0)
      return reader.malformed(side.byKey ? "k or v moves along the queries" : "q or the output moves along the keys");
    Numbers windowExtents(extents->begin(), extents->begin() + static_cast<ptrdiff_t>(query), reader.memory);
    windowExtents.insert(windowExtents.end(), {(*extents)[row], side.length});
    operand->strides[query] = operand->strides[row];
    operand->strides[key] = side.stride;
    if (Status status = reader.window(*operand, windowExtents, isOutput); !status)
      return status.takeError();
    nest.operands.push_back(std::move(*operand));
  }
  if (Status status = reader.readInputs(nest, 3); !status)
    return status.takeError();
  if (Status status = reader.disjoint(); !status)
    return status.takeError();

  query = nest.dropUnits(0, query, 0);
  query = nest.merge(0, query);
  for (; query < kBatchLoops; ++query)
    nest.insertUnit(0);
  if (query > kMaxBatchLoops)
    return reader.error(ErrorCode::Unsupported, "its batch takes " + std::to_string(query) + " loops, more than " +
                                                    std::to_string(kMaxBatchLoops));
  key = query + 1;
  int64_t queries = nest.extents[query];

  SpecChoice &choice = call.choice;
  choice.rank = static_cast<uint8_t>(query + 2);
  choice.batchRank = static_cast<uint8_t>(query);
  choice.rowClass = static_cast<uint8_t>(queries == 1 && keys >= kDecodeKeys ? 1 : kAttentionRows);

  append(call.integers, nest.extents);
  call.integers.push_back(k);
  call.integers.push_back(d);
  for (const StepOperand &operand : nest.operands) {
    appendOperand(operand, call);
    if (&operand != &nest.operands[Output])
      appendModes(operand, key, call);
  }
  appendModes(nest.operands[Output], key, call);
  call.pointers.push_back({PointerSource::Kind::Scratch, 0, 0});
  // What attentionScratchBytes() asks of its caller.
  int64_t rows, width, bound;
  if (!checkedAdd(keys, int64_t(128), rows) || !checkedAdd(k, d, width) || !checkedAdd(width, int64_t(128), width) ||
      !checkedMul(rows, width, bound) || !checkedMul(bound, int64_t(4), bound))
    return reader.error(ErrorCode::OutOfRange, "its scratch memory overflows");
  scratchBytes = std::max(scratchBytes, attentionScratchBytes(queries, keys, k, d));
  call.tiles = product(std::span(nest.extents).first(query)) * ((queries - 1) / choice.rowClass + 1);
  return true;
}
