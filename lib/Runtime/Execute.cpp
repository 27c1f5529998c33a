//===- Execute.cpp - one run of a specialization --------------------------===//
#include "Execute.h"

#include "Crew.h"
#include "FloatEnvironment.h"
#include "Split.h"
#include "rlx/Runtime/Tensor.h"

#include <algorithm>
#include <array>
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

/// Whether a step that is needed for the outputs `needed` (empty: for all) is needed
/// for those of `asked`.
bool isNeeded(const std::vector<uint8_t> &needed, size_t outputs, const Bits &asked) {
  if (needed.empty())
    return true;
  for (size_t i = 0; i != std::min(needed.size(), (outputs + 7) / 8); ++i)
    if (needed[i] & asked.byte(i))
      return true;
  return false;
}

/// The kernels of a run, called with the places of its buffers.
class Kernels final : public TileRunner {
public:
  explicit Kernels(const RunFrame &run)
      : layout(run.ready.layout), plan(*run.ready.plan),
        slots(reinterpret_cast<uintptr_t *>(run.memory + layout.slotsAt)),
        arguments(reinterpret_cast<void **>(run.memory + layout.argumentsAt)),
        workers(reinterpret_cast<Worker *>(run.memory + layout.workersAt)) {
    if (layout.workers == 1)
      return;
    // Behind the workers: the arguments of each.
    std::byte *at = run.memory + layout.workersAt + layout.workers * sizeof(Worker);
    for (unsigned i = 0; i != layout.workers; ++i) {
      auto *worker = new (&workers[i]) Worker;
      worker->scratch = reinterpret_cast<uintptr_t>(run.memory + layout.scratch + i * layout.scratchBytes);
      worker->pointers = reinterpret_cast<void **>(at);
      worker->integers = reinterpret_cast<int64_t *>(worker->pointers + layout.mostPointers);
      at += argumentBytes(layout.mostPointers, layout.mostIntegers);
    }
  }

  /// Of a worker, a multiple of 64 so that none writes to another's line.
  static size_t argumentBytes(size_t pointers, size_t integers) {
    size_t bytes = pointers * sizeof(void *) + integers * sizeof(int64_t);
    return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
  }
  static size_t workerBytes(unsigned workers, size_t pointers, size_t integers) {
    return workers == 1 ? 0 : workers * (sizeof(Worker) + argumentBytes(pointers, integers));
  }

  const StepInstance &step(size_t number) const override { return plan.steps[number]; }

  void run(const Piece &piece, unsigned worker, ErrorWord &error) override {
    Worker &own = workers[worker];
    if (own.number != piece.number || own.group != piece.group || own.groups != piece.groups)
      prepare(own, piece);
    const RunLayout::Call &call = layout.calls[piece.number];
    call.function(own.pointers, piece.groups == 1 ? call.integers : own.integers, piece.begin, piece.end, &error);
  }
  /// All of a step, on the run's own thread.
  void runWhole(const RunLayout::Call &call, ErrorWord &error) {
    fill(call, arguments);
    call.function(arguments, call.integers, 0, call.tiles, &error);
  }

private:
  struct alignas(kBufferAlignment) Worker {
    uintptr_t scratch = 0;
    void **pointers = nullptr;
    int64_t *integers = nullptr; ///< of a group of rows
    /// What the arguments are for.
    size_t number = SIZE_MAX;
    uint32_t group = 0, groups = 1;
  };

  void fill(const RunLayout::Call &call, void **pointers) const {
    const RunLayout::Pointer *source = layout.pointers.data() + call.firstPointer;
    for (uint32_t i = 0; i != call.pointers; ++i)
      pointers[i] = reinterpret_cast<void *>(slots[source[i].slot] + static_cast<uintptr_t>(source[i].offset));
  }

  void prepare(Worker &own, const Piece &piece) {
    own.number = piece.number;
    own.group = piece.group;
    own.groups = piece.groups;
    const StepInstance &call = plan.steps[piece.number];
    fill(layout.calls[piece.number], own.pointers);
    for (size_t i = 0; i != call.pointers.size(); ++i)
      if (call.pointers[i].kind == PointerSource::Kind::Scratch)
        own.pointers[i] = reinterpret_cast<void *>(own.scratch);
    if (piece.groups == 1)
      return;
    // Rows of the group, as a product of its own.
    int64_t rows = call.integers[0], each = rows / piece.groups, longer = rows % piece.groups;
    int64_t first = piece.group * each + std::min<int64_t>(piece.group, longer);
    std::copy(call.integers.begin(), call.integers.end(), own.integers);
    own.integers[0] = each + (piece.group < longer);
    for (size_t i = 0; i != call.pointers.size(); ++i)
      own.pointers[i] = static_cast<std::byte *>(own.pointers[i]) + first * call.rowBytes[i];
  }

  const RunLayout &layout;
  const Specialization &plan;
  const uintptr_t *slots;
  void **arguments; ///< of what the run's own thread calls alone
  Worker *workers;
};

/// Calls the kernels of the steps that are needed, in order.
Status runSteps(const RunFrame &run, Crews &crews) {
  FloatEnvironment environment;
  const RunLayout &layout = run.ready.layout;
  const Specialization &made = *run.ready.plan;
  Kernels kernels(run);
  struct Ended { // also where a step fails
    Crews &crews;
    std::shared_ptr<Crew> crew;
    ~Ended() {
      if (!crew)
        return;
      crew->end();
      crews.giveBack(std::move(crew));
    }
  } helpers{crews, nullptr};
  for (size_t number = 0; number != layout.calls.size(); ++number) {
    const RunLayout::Call &call = layout.calls[number];
    auto node = [&]() -> const data::StepT & { return *made.plan->steps[made.steps[number].step]; };
    if (call.unused || (!run.whole && !isNeeded(node().needed, run.signature.outputs.size(), run.asked)))
      continue;
    std::chrono::steady_clock::time_point start;
    if (run.profile)
      start = std::chrono::steady_clock::now();
    ErrorWord error;
    unsigned threads = 1;
    if (call.shared && layout.workers > 1) {
      if (!helpers.crew) {
        helpers.crew = crews.borrow(layout.workers);
        helpers.crew->begin(kernels);
      }
      threads = helpers.crew->share(number, error);
      // Which error of several comes first must not depend on who ran what: the
      // step once more, in order. It reads nothing that it has written.
      if (error.kind != ErrorKind::None) {
        ErrorWord first;
        kernels.runWhole(call, first);
        if (first.kind != ErrorKind::None)
          error = first;
      }
    } else {
      kernels.runWhole(call, error);
    }
    if (error.kind != ErrorKind::None)
      return describe(error, node().node, made.steps[number].extents);
    if (run.profile) {
      std::chrono::duration<double, std::milli> ms = std::chrono::steady_clock::now() - start;
      run.profile->push_back({node().node, node().family, made.steps[number].extents, ms.count(), threads});
    }
  }
  return Status::ok();
}

uintptr_t address(const void *pointer) { return reinterpret_cast<uintptr_t>(pointer); }
} // namespace

WeightLayout rlx::layoutOf(const data::BufferT &buffer) {
  if (buffer.layout == data::PackedLayout::Strided)
    return {};
  return {
      buffer.layout, static_cast<int64_t>(buffer.k), static_cast<int64_t>(buffer.n), buffer.k_stride, buffer.n_stride,
      buffer.offset};
}

Status rlx::layOut(ReadySpecialization &ready, std::span<const void *const> fixed, const ThreadPool &pool) {
  const Specialization &made = *ready.plan;
  const data::PlanTemplateT &plan = *made.plan;
  RunLayout layout;
  auto buffers = static_cast<uint32_t>(plan.buffers.size());
  uint32_t null = buffers, ownScratch = buffers + 1;
  size_t outputs = plan.outputs.size(), outputBytes = (outputs + 7) / 8;

  // Who touches an output's buffer.
  std::vector<uint8_t> touchedBy(buffers * outputBytes);
  std::vector<bool> touched(buffers), always(buffers);
  auto touch = [&](uint32_t buffer, size_t i, uint8_t bits) {
    touched[buffer] = true;
    touchedBy[buffer * outputBytes + i] |= bits;
  };
  layout.calls.reserve(made.steps.size());
  layout.pointers.reserve(made.pointers.size());
  for (const StepInstance &step : made.steps) {
    const std::vector<uint8_t> &needed = plan.steps[step.needed]->needed;
    RunLayout::Call call;
    call.function = ready.kernels[step.kernel].function;
    call.integers = step.integers.data();
    call.tiles = step.tiles;
    call.shared = step.unitTiles != step.tiles;
    call.firstPointer = static_cast<uint32_t>(layout.pointers.size());
    call.pointers = static_cast<uint32_t>(step.pointers.size());
    call.unused = !needed.empty();
    for (size_t i = 0; i != std::min(needed.size(), outputBytes); ++i) {
      size_t bits = std::min<size_t>(8, outputs - i * 8);
      call.unused &= !(needed[i] & ((1u << bits) - 1));
    }
    for (const PointerSource &pointer : step.pointers) {
      switch (pointer.kind) {
      case PointerSource::Kind::Null:
        layout.pointers.push_back({null, 0});
        break;
      case PointerSource::Kind::Scratch:
        layout.pointers.push_back({ownScratch, 0});
        break;
      case PointerSource::Kind::Buffer:
        layout.pointers.push_back({pointer.buffer, pointer.byteOffset});
        if (call.unused)
          break;
        if (needed.empty())
          always[pointer.buffer] = true;
        for (size_t i = 0; i != std::min(needed.size(), outputBytes); ++i)
          touch(pointer.buffer, i, needed[i]);
      }
    }
    layout.mostPointers = std::max(layout.mostPointers, call.pointers);
    if (step.rowGroups > 1)
      layout.mostIntegers = std::max(layout.mostIntegers, static_cast<uint32_t>(step.integers.size()));
    layout.calls.push_back(call);
  }
  for (size_t i = 0; i != outputs; ++i) {
    uint32_t buffer = plan.outputs[i]->buffer;
    touch(buffer, i / 8, static_cast<uint8_t>(1u << i % 8));
    bool final = plan.buffers[buffer]->kind == BufferKind::Output && plan.buffers[buffer]->index == i;
    if (!final && made.buffers[buffer].bytes)
      layout.copied.push_back({static_cast<uint32_t>(i), buffer, static_cast<size_t>(made.buffers[buffer].bytes)});
    // Instantiation has seen to it that this fits.
    layout.outputElements.push_back(elementCount(made.outputs[i]).value_or(0));
  }

  // The front of the block.
  layout.workers = crewSize(made, pool);
  BlockSize room(0);
  room.add(static_cast<size_t>(made.arenaBytes));
  layout.scratch = room.size();
  BlockSize one(0);
  one.add(static_cast<size_t>(made.scratchBytes));
  layout.scratchBytes = one.size();
  size_t scratch = 0;
  bool tooLarge = one.tooLarge() || __builtin_mul_overflow(layout.scratchBytes, layout.workers, &scratch);
  room.add(scratch);
  layout.slotsAt = room.add((buffers + size_t(2)) * sizeof(uintptr_t));
  layout.inputsAt = room.add(ready.inputElements.size() * sizeof(void *));
  layout.outputsAt = room.add(outputs * sizeof(void *));
  layout.argumentsAt = room.add(layout.mostPointers * sizeof(void *));
  layout.workersAt = room.add(Kernels::workerBytes(layout.workers, layout.mostPointers, layout.mostIntegers));

  layout.slots.resize(buffers + size_t(2));
  layout.arena.reserve(static_cast<size_t>(std::count_if(
      made.buffers.begin(), made.buffers.end(), [](const auto &buffer) { return buffer.kind == BufferKind::Arena; })));
  BlockSize spare(0);
  for (uint32_t i = 0; i != buffers; ++i) {
    const BufferInstance &buffer = made.buffers[i];
    switch (buffer.kind) {
    case BufferKind::Input:
      layout.inputs.push_back({i, buffer.index});
      break;
    case BufferKind::Output: {
      if (!always[i] && !touched[i])
        break;
      RunLayout::Written written;
      written.slot = i;
      written.index = buffer.index;
      written.final = plan.outputs[buffer.index]->buffer == i;
      written.bytes = static_cast<size_t>(buffer.bytes);
      if (!always[i])
        written.touchedBy.assign(touchedBy.begin() + static_cast<ptrdiff_t>(i * outputBytes),
                                 touchedBy.begin() + static_cast<ptrdiff_t>((i + 1) * outputBytes));
      if (!written.final)
        spare.add(written.bytes);
      layout.written.push_back(std::move(written));
      break;
    }
    case BufferKind::Param:
      layout.params.push_back({i, buffer.param});
      break;
    case BufferKind::Weight:
    case BufferKind::Constant:
      layout.slots[i] = address(fixed[i]);
      break;
    case BufferKind::Arena:
      layout.arena.push_back({i, buffer.arenaOffset});
      break;
    case BufferKind::RunState:
      layout.randomState.push_back(i);
      break;
    }
  }
  layout.spareOfWhole = spare.size();
  layout.bytes = room.size();
  if (tooLarge || room.tooLarge() || spare.tooLarge())
    return Error{ErrorCode::OutOfRange, "the memory of a run overflows"};
  ready.layout = std::move(layout);
  return Status::ok();
}

void rlx::reserveSpare(const RunLayout &layout, const Bits &asked, bool whole, BlockSize &room) {
  if (whole) {
    room.add(layout.spareOfWhole);
    return;
  }
  for (const RunLayout::Written &written : layout.written)
    if (!(written.final && asked.test(written.index)) &&
        isNeeded(written.touchedBy, layout.outputElements.size(), asked))
      room.add(written.bytes);
}

Status rlx::execute(const RunFrame &run, Crews &crews) {
  const RunLayout &layout = run.ready.layout;
  const Specialization &made = *run.ready.plan;
  std::array<uint64_t, 2> randomState = {run.seed, run.step};
  auto *slots = reinterpret_cast<uintptr_t *>(run.memory + layout.slotsAt);
  std::copy(layout.slots.begin(), layout.slots.end(), slots);
  for (const RunLayout::Buffer &input : layout.inputs)
    slots[input.slot] = address(run.input(input.index));
  for (const RunLayout::Place &place : layout.arena)
    slots[place.slot] = address(run.memory + place.offset);
  for (uint32_t slot : layout.randomState)
    slots[slot] = address(randomState.data());
  slots[layout.slots.size() - 1] = address(run.memory + layout.scratch);
  BlockSize spare(run.spareAt);
  for (const RunLayout::Written &written : layout.written) {
    if (written.final && (run.whole || run.asked.test(written.index)))
      slots[written.slot] = address(run.output(written.index));
    else if (run.whole || isNeeded(written.touchedBy, layout.outputElements.size(), run.asked))
      slots[written.slot] = address(run.memory + spare.add(written.bytes));
  }
  for (const RunLayout::Buffer &param : layout.params) {
    const data::BufferT &buffer = *made.plan->buffers[param.slot];
    const ParamValue &value = *(*run.params)[param.index];
    auto name = [&] { return "param '" + run.signature.params[param.index]->name + "'"; };
    int64_t elements = made.buffers[param.slot].elements;
    if (buffer.layout == data::PackedLayout::Strided && value.elements() != elements)
      return Error{ErrorCode::InvalidArgument, name() + " was set to " + std::to_string(value.elements()) +
                                                   " elements, but has " + std::to_string(elements) +
                                                   " at these sizes"};
    Result<const void *> bytes = value.get(layoutOf(buffer));
    if (!bytes)
      return Error{bytes.error().code, name() + ": " + bytes.error().message};
    slots[param.slot] = address(*bytes);
  }

  if (Status status = runSteps(run, crews); !status)
    return status;
  for (const RunLayout::Copied &copied : layout.copied)
    if (run.whole || run.asked.test(copied.output))
      std::memcpy(run.output(copied.output), reinterpret_cast<const void *>(slots[copied.slot]), copied.bytes);
  return Status::ok();
}
