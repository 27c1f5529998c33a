//===- Executable.h - runs a model at any sizes -----------------*- C++ -*-===//
#ifndef RLX_RUNTIME_EXECUTABLE_H
#define RLX_RUNTIME_EXECUTABLE_H

#include "rlx/Runtime/Engine.h"
#include "rlx/Runtime/Model.h"
#include "rlx/Runtime/Statistics.h"
#include "rlx/Runtime/Tensor.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rlx {

/// State of the random ops: Philox 4x32-10, a function of (seed, op key, step).
struct RngOptions {
  uint64_t seed = 42;
  /// Mixed into every stream, so that a caller can ask for fresh numbers.
  uint32_t step = 0;
};

/// Sizes that are run at the next larger one: inputs are padded with zeros, outputs
/// cut back. Bucket [first, end) runs at end - 1. What lies in none runs as it is, and
/// so does what the model does not take at the sizes of its buckets (where dims are
/// bounds of each other).
struct Bucket {
  int64_t first = 0, end = 0;
};
/// [1, low], then up to each power of two in (low, high]: powerOfTwoBuckets(8, 64)
/// runs 3 at 8, 9 at 16 and 33 at 64. Errors: low or high no power of two, low > high.
Result<std::vector<Bucket>> powerOfTwoBuckets(int64_t low, int64_t high);

/// What the caller knows of a dim beyond the model's own declaration.
struct DimHint {
  std::string dim;
  /// Sizes outside are errors, as if the model had declared it so.
  int64_t min = 0, max = std::numeric_limits<int64_t>::max(), multiple = 1;
  /// Sizes to be expected; see ExecutableOptions::prepareLikely.
  std::vector<int64_t> likely;
  /// In any order; not overlapping, none empty.
  std::vector<Bucket> buckets;
};

struct ExecutableOptions {
  RngOptions rng;
  /// Specializations held, least recently used goes first. 0: the engine's.
  size_t cacheEntries = 0;
  /// Bytes held. Nothing: the engine's; 0: no bound.
  std::optional<size_t> cacheBytes;
  std::vector<DimHint> hints;
  /// Makes the specializations of all combinations of likely sizes (the model's and
  /// the hints') in the background as soon as the executable is made; where a dim has
  /// none, or there are more than cacheEntries combinations, it is an error.
  bool prepareLikely = false;
};

/// What a run does when its specialization is not there yet.
enum class OnMiss {
  Wait, ///< makes it, or waits for who makes it
  /// Makes it where that takes no compiler: a template holds and its kernels are there. Else has it made in the
  /// background, unless as many as the cache holds wait for that already, and is the error NotReady.
  FailFast
};

/// Per-run choices.
struct RunOptions {
  /// Sizes the caller knows; the rest is solved from the inputs.
  Binding binding;
  OnMiss onMiss = OnMiss::Wait;
  /// With Wait: for the compiler no longer than this; then the error is NotReady, and the
  /// making goes on in the background, as with FailFast. Nothing: as long as it takes.
  std::optional<std::chrono::nanoseconds> timeout;
  /// Instead of the executable's step counter.
  std::optional<uint32_t> step;
  /// Filled in when not null.
  RunReport *report = nullptr;
  /// Filled in when not null, with the steps that ran, in order.
  std::vector<StepTime> *profile = nullptr;
};

/// Specializations being made in the background.
class Preparation {
public:
  struct Progress {
    size_t done = 0, failed = 0, total = 0; ///< `failed` are among `done`
  };
  virtual ~Preparation(); ///< does not cancel
  virtual Progress progress() const = 0;
  /// What has not begun is dropped (Cancelled); what has goes on to its end.
  virtual void cancel() = 0;
  /// Until all are made, failed or dropped, or the time is over (NotReady). The
  /// error of the first binding, in order, that has one. Without a time, a callback on
  /// a background thread does not wait for what is not over (InvalidArgument).
  virtual Status wait(std::optional<std::chrono::nanoseconds> timeout = {}) = 0;
};

/// An output in a run context's own memory.
struct RawOutput {
  data::ElementType type = data::ElementType::F32;
  std::span<const int64_t> shape;
  const void *data = nullptr; ///< 64-byte aligned, never null
  size_t bytes = 0;
};

/// Memory of runs that the caller holds on to, so that outputs can be read where
/// they lie. It grows with the outputs, and is replaced where they have become much
/// smaller. One run at a time; a second one at the same time is an error
/// (InvalidArgument), and so is an input that lies in this memory. Keeps what its
/// executable consists of alive, params and all.
class RunContext {
public:
  ~RunContext();
  /// All outputs, or those of `outputs` in that order. Valid until the next run of
  /// this context, or its end.
  Result<std::span<const RawOutput>> run(std::span<const NamedTensor> inputs, const RunOptions &options = {});
  Result<std::span<const RawOutput>> runReadOutputs(std::span<const NamedTensor> inputs,
                                                    std::span<const size_t> outputs, const RunOptions &options = {});
  /// Gives the memory back to the engine: outputs are not valid any more. Does
  /// nothing while a run goes on.
  void trim();

private:
  friend class Executable;
  struct State;
  explicit RunContext(std::unique_ptr<State> state);
  std::unique_ptr<State> state;
};

/// A model made callable: finds the sizes of its named dims from the inputs of
/// each run, and keeps a specialization for each binding met.
///
/// Thread safe: runs go on in parallel, and two that miss on one binding compile
/// once. A param or rng set during a run is seen by runs that start later.
class Executable {
public:
  /// Nothing compiles yet.
  static Result<std::shared_ptr<Executable>> create(std::shared_ptr<Engine> engine, std::shared_ptr<const Model> model,
                                                    ExecutableOptions options = {});
  ~Executable();

  /// Sets an f32, f16 or bf16 param from f32 values (rounded to nearest even).
  /// Errors: no such param, another type, wrong length.
  Status setParam(std::string_view name, std::span<const float> values);
  /// Sets a param from bytes of `type`: the param's type, or f32 for an f16 or
  /// bf16 param. The last call wins, typed or not.
  Status setParamTyped(std::string_view name, std::span<const std::byte> bytes, data::ElementType type);
  /// Ends a round of setting: packs what held specializations want packed. A
  /// later set reopens it. Error: params that are not set, by name.
  Status finalizeParams();

  /// Computes every output. Errors of SEMANTICS A1 name dim, input, axis and
  /// sizes; an error that only the data made is RunFailed and names the node.
  Result<std::vector<Tensor>> run(std::span<const NamedTensor> inputs, const RunOptions &options = {});
  /// Computes only these outputs, returned in the order asked (an index may
  /// repeat).
  Result<std::vector<Tensor>> runReadOutputs(std::span<const NamedTensor> inputs, std::span<const size_t> outputs,
                                             const RunOptions &options = {});
  /// Computes into the caller's buffers: any subset of the outputs, each once.
  /// Their sizes help to solve the binding. A buffer must not overlap an input
  /// or another buffer (InvalidArgument). On error the buffers' contents are
  /// unspecified. Where the specialization is there nothing is allocated (up to 512 inputs
  /// and outputs; a pool of the caller's may, for steps that threads share).
  Status runInto(std::span<const NamedTensor> inputs, std::span<const OutputBuffer> outputs,
                 const RunOptions &options = {});

  /// For runs whose outputs are read in place.
  std::unique_ptr<RunContext> createContext();

  /// Makes the specialization of a binding ahead of its first run. Every dim
  /// must be given.
  Status prepare(const Binding &binding);
  /// The same for several, in order; ends at the first that fails.
  Status prepare(std::span<const Binding> bindings);
  /// On the engine's background threads. `progress`, when given, is called after
  /// each binding, from those threads, never two at once; not any more once the
  /// engine ends. Error: a binding that no run could have.
  Result<std::shared_ptr<Preparation>> prepareInBackground(std::span<const Binding> bindings,
                                                           std::function<void(Preparation::Progress)> progress = {});
  /// Of ExecutableOptions::prepareLikely; null without.
  std::shared_ptr<Preparation> likely() const;
  /// The binding that a run with these inputs would have.
  Result<Binding> solve(std::span<const NamedTensor> inputs, const Binding &given = {}) const;

  void setRng(const RngOptions &options);
  RngOptions rng() const;

  /// Shares graph, weights, templates, kernels, cache and statistics; owns
  /// params (copied as they are now), rng and run state. Costs no compile.
  std::shared_ptr<Executable> clone() const;

  Statistics stats() const;
  /// The bindings held, most recently used first.
  std::vector<BindingInfo> bindings() const;
  /// The latest miss of this executable or a clone; nothing before the first.
  std::optional<MissReport> explain() const;
  /// What a run at a binding, of every dim, would meet now; changes nothing.
  Forecast explain(const Binding &binding) const;

  const std::shared_ptr<const Model> &model() const;
  const std::shared_ptr<Engine> &engine() const;

private:
  friend class RunContext;
  struct State;
  explicit Executable(std::shared_ptr<State> state);
  std::shared_ptr<State> state;
};

} // namespace rlx

#endif // RLX_RUNTIME_EXECUTABLE_H
