//===- RunContext.cpp - memory of runs that the caller holds on to --------===//
#include "EngineParts.h"
#include "ExecutableState.h"

#include <algorithm>

using namespace rlx;

struct RunContext::State {
  std::shared_ptr<Executable::State> executable; ///< goes last: it has the pool that `memory` is of
  std::atomic<bool> busy{false};
  // The members below belong to the run.
  ArenaPool::Block memory;
  std::vector<RawOutput> outputs;
  std::vector<OutputBuffer> buffers;
  std::vector<int64_t> shapes; ///< of `outputs`, one behind the other
  std::vector<size_t> first;   ///< per output of the signature: where it is asked for first
};

namespace {
Error invalid(const std::string &text) { return Error{ErrorCode::InvalidArgument, text}; }

/// The one run of a context.
class Turn {
public:
  explicit Turn(std::atomic<bool> &busy) : busy(busy), mine(!busy.exchange(true, std::memory_order_acquire)) {}
  ~Turn() {
    if (mine)
      busy.store(false, std::memory_order_release);
  }
  Turn(const Turn &) = delete;
  Turn &operator=(const Turn &) = delete;
  explicit operator bool() const { return mine; }

private:
  std::atomic<bool> &busy;
  const bool mine;
};
} // namespace

RunContext::RunContext(std::unique_ptr<State> state) : state(std::move(state)) {}
RunContext::~RunContext() = default;

std::unique_ptr<RunContext> Executable::createContext() {
  auto made = std::make_unique<RunContext::State>();
  made->executable = state;
  return std::unique_ptr<RunContext>(new RunContext(std::move(made)));
}

Result<std::span<const RawOutput>> RunContext::run(std::span<const NamedTensor> inputs, const RunOptions &options) {
  return runReadOutputs(inputs, state->executable->setup->allOutputs, options);
}

Result<std::span<const RawOutput>> RunContext::runReadOutputs(std::span<const NamedTensor> inputs,
                                                              std::span<const size_t> outputs,
                                                              const RunOptions &options) {
  Turn turn(state->busy);
  if (!turn)
    return invalid("a run context is used by two runs at once");
  Executable::State &executable = *state->executable;
  const data::ModelSignatureT &signature = executable.signature();
  for (size_t output : outputs)
    if (output >= signature.outputs.size())
      return invalid("output " + std::to_string(output) + " does not exist: there are " +
                     std::to_string(signature.outputs.size()));
  ArenaPool::Block &memory = state->memory;
  for (const NamedTensor &input : inputs)
    if (memory && overlap(input.tensor.data, input.tensor.bytes, memory.data(), memory.bytes()))
      return invalid("input '" + std::string(input.name) + "' lies in the memory of the run context");
  Result<std::shared_ptr<const ParamValues>> params = executable.paramsSet();
  if (!params)
    return params.takeError();
  FoundRun found;
  if (Status status = executable.prepareRun(inputs, {}, options, found); !status)
    return status.takeError();

  // Each output that is asked for has its place, once.
  constexpr size_t kNone = SIZE_MAX;
  state->first.assign(signature.outputs.size(), kNone);
  state->outputs.clear();
  state->buffers.clear();
  state->shapes.clear();
  BlockSize room(0);
  size_t dims = 0;
  for (size_t output : outputs)
    dims += executable.outputRank(found, output);
  state->shapes.reserve(dims); // spans of it are handed out
  for (size_t i = 0; i != outputs.size(); ++i) {
    size_t output = outputs[i];
    const data::TensorSpecT &spec = *signature.outputs[output];
    RawOutput raw;
    raw.type = spec.type;
    size_t begin = state->shapes.size();
    state->shapes.resize(begin + executable.outputRank(found, output));
    std::span<int64_t> shape = std::span(state->shapes).subspan(begin);
    executable.outputShape(found, output, shape);
    raw.shape = shape;
    raw.bytes = static_cast<size_t>(*elementCount(shape)) * elementSize(spec.type);
    state->outputs.push_back(raw);
    if (state->first[output] != kNone)
      continue;
    state->first[output] = i;
    room.add(raw.bytes);
  }
  if (room.tooLarge())
    return Error{ErrorCode::OutOfRange, "the memory of a run overflows"};
  if (!ArenaPool::fits(memory, room.size())) {
    memory.giveBack();
    Result<ArenaPool::Block> block = executable.engine().parts().arenas.borrow(room.size());
    if (!block)
      return block.takeError();
    memory = std::move(*block);
  }
  BlockSize places(0);
  for (size_t i = 0; i != outputs.size(); ++i) {
    RawOutput &raw = state->outputs[i];
    if (size_t first = state->first[outputs[i]]; first != i) {
      raw.data = state->outputs[first].data;
      continue;
    }
    std::byte *place = memory.data() + places.add(raw.bytes);
    raw.data = place;
    state->buffers.push_back({signature.outputs[outputs[i]]->name, raw.type, place, raw.bytes});
  }
  if (Status status = executable.run(found, inputs, state->buffers, params->get(), options); !status)
    return status.takeError();
  return std::span<const RawOutput>(state->outputs);
}

void RunContext::trim() {
  if (Turn turn(state->busy); turn)
    state->memory.giveBack();
}
