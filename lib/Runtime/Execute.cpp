//===- Execute.cpp - one run of a specialization --------------------------===//
#include "Execute.h"

#include "CheckedMath.h"
#include "Crew.h"
#include "FloatEnvironment.h"
#include "Split.h"
#include "rlx/Runtime/Tensor.h"

#include <algorithm>
#include <chrono>
#include <cstring>

using namespace rlx;
using data::BufferKind;

namespace {
/// "[1,2]" for a row-major position; the number itself where it is none.
std::string placeString(int64_t element, std::span<const int64_t> extents) {
  std::vector<int64_t> place(extents.size());
  int64_t rest = element;
  for (size_t i = extents.size(); i-- > 0;) {
    if (extents[i] <= 0 || rest < 0)
      return std::to_string(element);
    place[i] = rest % extents[i];
    rest /= extents[i];
  }
  return rest == 0 ? shapeString(place) : std::to_string(element);
}

Error describe(const ErrorWord &word, const std::string &node, std::span<const int64_t> extents) {
  std::string text = "node '" + node + "': ";
  switch (word.kind) {
  case ErrorKind::DivisionByZero:
    text += "division by zero";
    break;
  case ErrorKind::IndexOutOfRange:
    text += "index " + std::to_string(word.value) + " is out of range for an axis of " + std::to_string(word.extent);
    break;
  default:
    text += "error " + std::to_string(static_cast<int>(word.kind));
  }
  return Error{ErrorCode::RunFailed, text + " at element " + placeString(word.element, extents)};
}

bool isNeeded(const std::vector<uint8_t> &needed, const std::vector<uint8_t> &asked) {
  if (needed.empty())
    return true;
  for (size_t i = 0; i != std::min(needed.size(), asked.size()); ++i)
    if (needed[i] & asked[i])
      return true;
  return false;
}

/// The kernels of a run, called with the places of its buffers.
class Kernels final : public TileRunner {
public:
  /// `base`: one per buffer. `scratch`: `scratchBytes` for each worker.
  Kernels(const ReadySpecialization &ready, std::span<std::byte *const> base, std::byte *scratch, size_t scratchBytes,
          unsigned workers)
      : ready(ready), base(base), workers(workers) {
    for (unsigned i = 0; i != workers; ++i)
      this->workers[i].scratch = scratch + i * scratchBytes;
  }

  const StepInstance &step(size_t number) const override { return ready.plan->steps[number]; }

  void run(const Piece &piece, unsigned worker, ErrorWord &error) override {
    const StepInstance &call = step(piece.number);
    Worker &own = workers[worker];
    if (own.number != piece.number || own.group != piece.group || own.groups != piece.groups)
      prepare(own, call, piece);
    const int64_t *integers = piece.groups == 1 ? call.integers.data() : own.integers.data();
    ready.kernels[call.kernel].function(own.pointers.data(), integers, piece.begin, piece.end, &error);
  }
  /// All of a step, on the calling thread.
  void runWhole(size_t number, ErrorWord &error) { run({number, 0, step(number).tiles, 0, 1}, 0, error); }

private:
  struct alignas(64) Worker {
    std::byte *scratch = nullptr;
    /// What the arguments are for.
    size_t number = SIZE_MAX;
    uint32_t group = 0, groups = 1;
    std::vector<void *> pointers;
    std::vector<int64_t> integers; ///< of a group of rows
  };

  void prepare(Worker &own, const StepInstance &call, const Piece &piece) {
    own.number = piece.number;
    own.group = piece.group;
    own.groups = piece.groups;
    own.pointers.clear();
    for (const PointerSource &pointer : call.pointers)
      own.pointers.push_back(pointer.kind == PointerSource::Kind::Buffer    ? base[pointer.buffer] + pointer.byteOffset
                             : pointer.kind == PointerSource::Kind::Scratch ? own.scratch
                                                                            : nullptr);
    if (piece.groups == 1)
      return;
    // Rows of the group, as a product of its own.
    int64_t rows = call.integers[0], each = rows / piece.groups, longer = rows % piece.groups;
    int64_t first = piece.group * each + std::min<int64_t>(piece.group, longer);
    own.integers = call.integers;
    own.integers[0] = each + (piece.group < longer);
    for (size_t i = 0; i != own.pointers.size(); ++i)
      own.pointers[i] = static_cast<std::byte *>(own.pointers[i]) + first * call.rowBytes[i];
  }

  const ReadySpecialization &ready;
  std::span<std::byte *const> base;
  std::vector<Worker> workers;
};

/// Calls the kernels of the steps that are needed for `asked`, in order.
Status runSteps(const ReadySpecialization &ready, const std::vector<uint8_t> &asked, Kernels &kernels, Crew *crew,
                std::vector<StepTime> *profile) {
  FloatEnvironment environment;
  const Specialization &made = *ready.plan;
  for (size_t number = 0; number != made.steps.size(); ++number) {
    const StepInstance &call = made.steps[number];
    const data::StepT &step = *made.plan->steps[call.step];
    if (!isNeeded(step.needed, asked))
      continue;
    std::chrono::steady_clock::time_point start;
    if (profile)
      start = std::chrono::steady_clock::now();
    ErrorWord error;
    unsigned threads = 1;
    if (crew && call.unitTiles != call.tiles) {
      threads = crew->share(number, error);
      // Which error of several comes first must not depend on who ran what: the
      // step once more, in order. It reads nothing that it has written.
      if (error.kind != ErrorKind::None) {
        ErrorWord first;
        kernels.runWhole(number, first);
        if (first.kind != ErrorKind::None)
          error = first;
      }
    } else {
      kernels.runWhole(number, error);
    }
    if (error.kind != ErrorKind::None)
      return describe(error, step.node, call.extents);
    if (profile) {
      std::chrono::duration<double, std::milli> ms = std::chrono::steady_clock::now() - start;
      profile->push_back({step.node, step.family, call.extents, ms.count(), threads});
    }
  }
  return Status::ok();
}
} // namespace

WeightLayout rlx::layoutOf(const data::BufferT &buffer) {
  if (buffer.layout == data::PackedLayout::Strided)
    return {};
  return {
      buffer.layout, static_cast<int64_t>(buffer.k), static_cast<int64_t>(buffer.n), buffer.k_stride, buffer.n_stride,
      buffer.offset};
}

Status rlx::layOut(ReadySpecialization &, const ThreadPool &) { return Status::ok(); }

Status rlx::execute(const ReadySpecialization &ready, const data::ModelSignatureT &signature, ArenaPool &arenas,
                    ThreadPool &pool, const RunArguments &arguments) {
  const Specialization &made = *ready.plan;
  const data::PlanTemplateT &plan = *made.plan;
  std::vector<uint8_t> asked((arguments.outputs.size() + 7) / 8);
  for (size_t i = 0; i != arguments.outputs.size(); ++i)
    if (arguments.outputs[i])
      asked[i / 8] |= static_cast<uint8_t>(1u << (i % 8));

  // Output buffers that this run touches without being asked for need memory too:
  // a step may write several outputs, and a later step may read one.
  std::vector<bool> touched(plan.buffers.size());
  for (const StepInstance &call : made.steps)
    if (isNeeded(plan.steps[call.step]->needed, asked))
      for (const PointerSource &pointer : call.pointers)
        if (pointer.kind == PointerSource::Kind::Buffer)
          touched[pointer.buffer] = true;
  for (size_t i = 0; i != plan.outputs.size(); ++i)
    if (arguments.outputs[i])
      touched[plan.outputs[i]->buffer] = true;
  // An output's buffer is its final place where the graph output is that buffer.
  auto place = [&](size_t buffer) -> void * {
    uint32_t index = plan.buffers[buffer]->index;
    return plan.outputs[index]->buffer == buffer ? arguments.outputs[index] : nullptr;
  };

  // One block: the arena, spare outputs, scratch for each thread.
  size_t total = static_cast<size_t>(made.arenaBytes);
  std::vector<size_t> spare(plan.buffers.size());
  auto reserve = [&](size_t bytes) -> std::optional<size_t> {
    std::optional<size_t> at = alignUp(total, kBufferAlignment);
    if (!at || __builtin_add_overflow(*at, bytes, &total))
      return std::nullopt;
    return at;
  };
  Error tooLarge{ErrorCode::OutOfRange, "the memory of a run overflows"};
  for (size_t i = 0; i != plan.buffers.size(); ++i) {
    const data::BufferT &buffer = *plan.buffers[i];
    if (buffer.kind != BufferKind::Output || !touched[i] || place(i))
      continue;
    std::optional<size_t> at = reserve(static_cast<size_t>(made.buffers[i].bytes));
    if (!at)
      return tooLarge;
    spare[i] = *at;
  }
  unsigned workers = crewSize(made, pool);
  std::optional<size_t> scratchBytes = alignUp(static_cast<size_t>(made.scratchBytes), kBufferAlignment), scratch;
  if (size_t bytes; scratchBytes && !__builtin_mul_overflow(*scratchBytes, workers, &bytes))
    scratch = reserve(bytes);
  if (!scratch)
    return tooLarge;
  Result<ArenaPool::Block> block = arenas.borrow(total);
  if (!block)
    return block.takeError();
  std::byte *memory = block->data();

  std::array<uint64_t, 2> runState = {arguments.seed, arguments.step};
  std::vector<std::byte *> base(plan.buffers.size());
  auto readOnly = [](const void *pointer) {
    return const_cast<std::byte *>(static_cast<const std::byte *>(pointer)); // instantiate() lets no step write it
  };
  for (size_t i = 0; i != plan.buffers.size(); ++i) {
    const data::BufferT &buffer = *plan.buffers[i];
    switch (buffer.kind) {
    case BufferKind::Input:
      base[i] = readOnly(arguments.inputs[buffer.index]);
      break;
    case BufferKind::Output:
      base[i] = static_cast<std::byte *>(place(i));
      if (!base[i])
        base[i] = memory + spare[i];
      break;
    case BufferKind::Param: {
      const ParamValue &value = *arguments.params[made.buffers[i].param];
      const std::string &name = signature.params[made.buffers[i].param]->name;
      if (buffer.layout == data::PackedLayout::Strided && value.elements() != made.buffers[i].elements)
        return Error{ErrorCode::InvalidArgument, "param '" + name + "' was set to " + std::to_string(value.elements()) +
                                                     " elements, but has " + std::to_string(made.buffers[i].elements) +
                                                     " at these sizes"};
      Result<const void *> bytes = value.get(layoutOf(buffer));
      if (!bytes)
        return Error{bytes.error().code, "param '" + name + "': " + bytes.error().message};
      base[i] = readOnly(*bytes);
      break;
    }
    case BufferKind::Weight:
    case BufferKind::Constant:
      base[i] = readOnly(ready.fixed[i]);
      break;
    case BufferKind::Arena:
      base[i] = memory + made.buffers[i].arenaOffset;
      break;
    case BufferKind::RunState:
      base[i] = reinterpret_cast<std::byte *>(runState.data());
      break;
    }
  }

  Kernels kernels(ready, base, memory + *scratch, *scratchBytes, workers);
  std::shared_ptr<Crew> crew = workers > 1 ? Crew::gather(pool, workers, kernels) : nullptr;
  Status status = runSteps(ready, asked, kernels, crew.get(), arguments.profile);
  if (crew)
    crew->end();
  if (!status)
    return status;

  for (size_t i = 0; i != plan.outputs.size(); ++i) {
    uint32_t buffer = plan.outputs[i]->buffer;
    void *to = arguments.outputs[i];
    if (to && to != base[buffer] && made.buffers[buffer].bytes)
      std::memcpy(to, base[buffer], static_cast<size_t>(made.buffers[buffer].bytes));
  }
  return Status::ok();
}
