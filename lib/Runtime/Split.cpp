//===- Split.cpp - how a step is shared between threads -------------------===//
#include "Split.h"

#include "rlx/Data/ElementType.h"
#include "rlx/Data/KernelABI.h"
#include "rlx/Runtime/ThreadPool.h"

#include <algorithm>
#include <cmath>

using namespace rlx;
using data::Family;
using data::Opcode;
using select::StepDraft;

namespace {
/// Nanoseconds of one core of today, for what no kernel beats. Only the order of
/// magnitude matters: a step is split when it surely takes longer than it costs to
/// tell another thread.
constexpr double kByte = 1.0 / 16;        // moved within the cache
constexpr double kSimple = 1.0 / 8;       // an add, a compare, a conversion of a vector's element
constexpr double kFunction = 0.8;         // exp and its like
constexpr double kDivision = 2;           // of integers
constexpr double kScattered = 1;          // an element that is not next to the one before
constexpr double kMultiplyAdd = 1.0 / 50; // of f32

/// The least work worth a thread's attention, worth handing over, and worth waking
/// a thread for.
constexpr double kUnitNs = 4000, kSharedNs = 10000, kHelperNs = 15000;

double programNs(const std::vector<data::Instr> &program) {
  double ns = 0;
  for (const data::Instr &instr : program) {
    bool integer = instr.type() != data::ElementType::F16 && instr.type() != data::ElementType::BF16 &&
                   instr.type() != data::ElementType::F32 && instr.type() != data::ElementType::F64;
    switch (instr.op()) {
    case Opcode::Constant:
      break;
    case Opcode::Pow:
    case Opcode::Exp:
    case Opcode::Log:
    case Opcode::Tanh:
    case Opcode::Erf:
    case Opcode::Sigmoid:
    case Opcode::Sin:
    case Opcode::Cos:
    case Opcode::Gelu:
    case Opcode::GeluTanh:
    case Opcode::Philox:
      ns += kFunction;
      break;
    case Opcode::Div:
    case Opcode::Mod:
    case Opcode::Rem:
      ns += integer ? kDivision : kSimple;
      break;
    default:
      ns += kSimple;
    }
  }
  return ns;
}

double accessNs(const std::vector<std::unique_ptr<data::AccessSpecT>> &operands) {
  double ns = 0;
  for (const auto &operand : operands) {
    if (operand->inner == data::InnerMode::Contiguous)
      ns += kByte * static_cast<double>(elementBytes(operand->type));
    else if (operand->inner == data::InnerMode::Strided && operand->kind != data::AccessKind::Iota)
      ns += kScattered;
    ns += kScattered * static_cast<double>(operand->index_inner.size());
  }
  return ns;
}

double count(const int64_t *extents, size_t from, size_t to) {
  double product = 1;
  for (size_t i = from; i < to; ++i)
    product *= static_cast<double>(extents[i]);
  return product;
}

double multiplyAddNs(data::ElementType accumulator) {
  bool isFloat = accumulator == data::ElementType::F32;
  return kMultiplyAdd * (isFloat ? 1 : 2);
}

/// A tile that is not cut off at an end.
double tileNs(const data::KernelSpecT &spec, const ElementCosts &costs, const StepDraft &call) {
  double elementNs = costs.program + costs.inputs + costs.outputs;
  const int64_t *extents = call.integers.data();
  size_t rank = spec.rank;
  switch (spec.family) {
  case Family::Loops: {
    if (call.tiles == 1)
      return 0;
    double elements = rank == 1 ? static_cast<double>(kLoopsBlock) : static_cast<double>(extents[rank - 1]);
    return elements * elementNs;
  }
  case Family::Reduce: {
    size_t kept = rank - spec.reduced;
    double results = spec.reduce_inner ? 1 : static_cast<double>(extents[kept - 1]);
    double elements = results * count(extents, kept, rank);
    return elements * (costs.program + costs.inputs + kSimple) + results * (costs.epilogue + costs.outputs);
  }
  case Family::Rows: {
    bool exponentials = spec.rows == data::RowsKind::Softmax || spec.rows == data::RowsKind::LogSoftmax;
    return static_cast<double>(extents[rank]) * (elementNs + (exponentials ? kFunction : 4 * kSimple));
  }
  case Family::Scan:
    return static_cast<double>(extents[rank]) * (elementNs + kScattered);
  case Family::Matmul: {
    size_t batch = spec.batch_rank;
    auto rows = static_cast<double>(extents[batch]), k = static_cast<double>(extents[batch + 2]);
    auto columns = static_cast<double>(std::min(extents[batch + 1], kPanel));
    double panel = spec.b_layout == data::PackedLayout::Strided
                       ? 4 * kSimple
                       : kByte * static_cast<double>(elementBytes(spec.b_type));
    return columns * (rows * (k * multiplyAddNs(spec.accumulator) + elementNs) + k * panel);
  }
  case Family::Attention: {
    size_t batch = spec.batch_rank;
    auto rows = static_cast<double>(std::min(extents[batch], kAttentionRows)),
         keys = static_cast<double>(extents[batch + 1]);
    double width = static_cast<double>(extents[batch + 2]) + static_cast<double>(extents[batch + 3]);
    return rows * keys * (width * kMultiplyAdd + kFunction + elementNs);
  }
  }
  return 0;
}

/// The most packed panels that a kernel takes at once on any machine: it takes as long for fewer.
int64_t panelsAtOnce(const data::KernelSpecT &spec, int64_t rows) {
  if (spec.b_layout != data::PackedLayout::Panels16 || spec.accumulator != data::ElementType::F32)
    return 1;
  if (spec.row_class == kMatmulFewRows)
    return rows <= 2 && elementBytes(spec.b_type) == 1 ? 8 : 4;
  return elementBytes(spec.a_type) == 2 ? 4 : 2;
}

/// Threads that share a product by its columns each read all of a, half of which
/// another one has just written, and leave rows in halves for the step after. By
/// rows, each reads all of b, which no one has written: better unless b is so large
/// that it comes from memory.
void splitRows(const data::KernelSpecT &spec, StepDraft &call) {
  size_t batch = spec.batch_rank;
  if (spec.family != Family::Matmul || batch != 0 || spec.b_layout != data::PackedLayout::Panels16)
    return;
  constexpr int64_t kFewestRows = 32; // as fast as more of them
  int64_t rows = call.integers[0];
  auto columns = static_cast<double>(call.integers[1]), k = static_cast<double>(call.integers[2]);
  double aBytes = k * static_cast<double>(elementBytes(spec.a_type)), outBytes = 0;
  for (const auto &output : spec.outputs)
    outBytes += columns * static_cast<double>(elementBytes(output->type));
  double bBytes = columns * k * static_cast<double>(elementBytes(spec.b_type));
  // Where k is 0 nothing of a is there, and its strides may be any numbers.
  if (rows < 2 * kFewestRows || k == 0 || bBytes > 4 * static_cast<double>(rows) * (aBytes + outBytes))
    return;

  // Extents, then the strides of a (m, k) and b, then operands (m, n).
  std::vector<int64_t> &rowBytes = call.rowBytes;
  rowBytes = {call.integers[3] * elementBytes(spec.a_type), 0};
  size_t at = 7;
  for (const auto *operands : {&spec.inputs, &spec.outputs})
    for (const auto &operand : *operands) {
      if (operand->kind == data::AccessKind::Iota)
        return rowBytes.clear(); // has no pointer to move
      // Where no index is valid nothing of the operand is there either.
      for (size_t i = 0; i != operand->index_inner.size(); ++i)
        if (call.integers[at + 4 * i + 4] == 0)
          return rowBytes.clear();
      rowBytes.push_back(call.integers[at] * elementBytes(operand->type));
      at += 2;
      for (size_t i = 0; i != operand->index_inner.size(); ++i) {
        rowBytes.push_back(call.integers[at] * elementBytes(operand->index_type));
        at += 4;
      }
    }
  rowBytes.push_back(0); // scratch is the worker's own
  if (rowBytes.size() != call.pointers.size())
    return rowBytes.clear();
  call.rowGroups = static_cast<uint32_t>(std::min<int64_t>(rows / kFewestRows, kMaxThreads));
}
} // namespace

ElementCosts rlx::costsOf(const data::KernelSpecT &spec) {
  return {programNs(spec.program), programNs(spec.epilogue), accessNs(spec.inputs), accessNs(spec.outputs)};
}

double rlx::splitStep(const data::KernelSpecT &spec, const ElementCosts &costs, StepDraft &call) {
  call.unitTiles = call.tiles;
  call.helpers = 0;
  double tile = tileNs(spec, costs, call), all = tile * static_cast<double>(call.tiles);
  if (call.tiles == 1 || !(all >= kSharedNs))
    return 0;
  auto tiles = static_cast<double>(call.tiles);
  // An even number of units: steps over the same rows then fall into the same
  // halves, and a thread finds in its cache what it wrote a step before.
  double units = std::clamp(std::floor(std::min(all / kUnitNs, tiles) / 2) * 2, 2.0, static_cast<double>(kMaxUnits));
  double unit = std::ceil(tiles / units);
  // Panels that are taken at once stay together. Strided b is read in cache lines that
  // reach into the next panel: more neighbours do where that leaves enough to share.
  constexpr double kGroup = 4, kEnough = 16;
  if (spec.family == Family::Matmul) {
    auto group = static_cast<double>(panelsAtOnce(spec, call.integers[spec.batch_rank]));
    if (tiles / kGroup >= kEnough)
      group = std::max(group, kGroup);
    unit = std::ceil(unit / group) * group;
  }
  // Attention packs the keys of each batch index that a range of it meets: whole ones, or quarters where they are few.
  if (spec.family == Family::Attention) {
    auto perBatch = static_cast<double>((call.integers[spec.batch_rank] - 1) / spec.row_class + 1);
    double least = tiles / perBatch >= kEnough / 2 ? perBatch : std::ceil(perBatch / 4);
    unit = std::ceil(unit / least) * least;
  }
  if (unit >= tiles)
    return 0;
  call.unitTiles = static_cast<int64_t>(unit);
  double threads = std::min({all / kHelperNs, std::ceil(tiles / unit), static_cast<double>(kMaxUnits)});
  call.helpers = static_cast<uint32_t>(std::max(threads, 1.0)) - 1;
  splitRows(spec, call);
  return all;
}
