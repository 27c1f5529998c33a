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

Selected rlx::select::selectAttention(StepReader &reader, data::KernelSpecT &spec, StepInstance &call,
                                      int64_t &scratchBytes) {
  const data::StepT &step = reader.step;
  if (step.inputs.size() < 3 || step.outputs.size() != 1)
    return reader.malformed("attention has inputs q, k and v and one output");
  size_t programInputs = step.inputs.size() - 3;
  if (Status status = reader.program(step.program, 1 + programInputs); !status)
    return status.takeError();
  if (Status status = reader.results(1 + programInputs, 1); !status)
    return status.takeError();
  if (step.iteration.size() < 2)
    return reader.malformed("it lacks the loops over queries and keys");

  Result<std::vector<int64_t>> extents = reader.extents();
  if (!extents)
    return extents.takeError();
  call.extents = *extents;
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
  Nest nest;
  nest.extents = *extents;
  struct Side {
    const data::AccessT *access;
    bool byKey; ///< its rows belong to the keys, not to the queries
    int64_t length, stride;
  };
  const Side sides[] = {
      {step.inputs[0].get(), false, k, reader.value(step.a_k_stride)},
      {step.inputs[1].get(), true, k, reader.value(step.b_k_stride)},
      {step.inputs[2].get(), true, d, reader.value(step.v_stride)},
      {step.outputs[0].get(), false, d, reader.value(step.output_stride)},
  };
  for (const Side &side : sides) {
    bool isOutput = &side == &sides[Output];
    Result<StepOperand> operand = reader.direct(*side.access, *extents, isOutput);
    if (!operand)
      return operand.takeError();
    size_t still = side.byKey ? query : key, row = side.byKey ? key : query;
    if ((*extents)[still] > 1 && operand->strides[still] != 0)
      return reader.malformed(side.byKey ? "k or v moves along the queries" : "q or the output moves along the keys");
    std::vector<int64_t> windowExtents(extents->begin(), extents->begin() + static_cast<ptrdiff_t>(query));
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

  spec.family = data::Family::Attention;
  spec.rank = static_cast<uint8_t>(query + 2);
  spec.batch_rank = static_cast<uint8_t>(query);
  spec.row_class = static_cast<uint8_t>(queries == 1 && keys >= kDecodeKeys ? 1 : kAttentionRows);
  spec.zero_nan = step.zero_nan;
  spec.program = step.program;
  spec.results = step.results;

  append(call.integers, nest.extents);
  call.integers.push_back(k);
  call.integers.push_back(d);
  auto operand = [&](size_t i) {
    (i == Output ? spec.outputs : spec.inputs).push_back(accessSpecOf(nest.operands[i], key));
    appendOperand(nest.operands[i], call);
  };
  for (size_t i = 0; i != nest.operands.size(); ++i)
    operand(i);
  call.pointers.push_back({PointerSource::Kind::Scratch, 0, 0});
  // What attentionScratchBytes() asks of its caller.
  int64_t rows, width, bound;
  if (!checkedAdd(keys, int64_t(128), rows) || !checkedAdd(k, d, width) || !checkedAdd(width, int64_t(128), width) ||
      !checkedMul(rows, width, bound) || !checkedMul(bound, int64_t(4), bound))
    return reader.error(ErrorCode::OutOfRange, "its scratch memory overflows");
  scratchBytes = std::max(scratchBytes, attentionScratchBytes(queries, keys, k, d));
  call.tiles = product(std::span(nest.extents).first(query)) * ((queries - 1) / spec.row_class + 1);
  return true;
}
