//===- Executable.h - runs a model at any sizes -----------------*- C++ -*-===//
#ifndef RLX_RUNTIME_EXECUTABLE_H
#define RLX_RUNTIME_EXECUTABLE_H

#include "rlx/Runtime/Engine.h"
#include "rlx/Runtime/Model.h"
#include "rlx/Runtime/Statistics.h"
#include "rlx/Runtime/Tensor.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace rlx {

/// State of the random ops: Philox 4x32-10, a function of (seed, op key, step).
struct RngOptions {
  uint64_t seed = 42;
  /// Mixed into every stream, so that a caller can ask for fresh numbers.
  uint32_t step = 0;
};

struct ExecutableOptions {
  RngOptions rng;
  /// Specializations held, least recently used goes first. 0: the engine's.
  size_t cacheEntries = 0;
};

/// Per-run choices.
struct RunOptions {
  /// Sizes the caller knows; the rest is solved from the inputs.
  Binding binding;
  /// Instead of the executable's step counter.
  std::optional<uint32_t> step;
  /// Filled in when not null.
  RunReport *report = nullptr;
  /// Filled in when not null, with the steps that ran, in order.
  std::vector<StepTime> *profile = nullptr;
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
  /// or another buffer. On error the buffers' contents are unspecified.
  Status runInto(std::span<const NamedTensor> inputs, std::span<const OutputBuffer> outputs,
                 const RunOptions &options = {});

  /// Makes the specialization of a binding ahead of its first run. Every dim
  /// must be given.
  Status prepare(const Binding &binding);
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

  const std::shared_ptr<const Model> &model() const;
  const std::shared_ptr<Engine> &engine() const;

private:
  struct State;
  explicit Executable(std::unique_ptr<State> state);
  std::unique_ptr<State> state;
};

} // namespace rlx

#endif // RLX_RUNTIME_EXECUTABLE_H
