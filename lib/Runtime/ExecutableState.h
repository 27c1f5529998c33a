//===- ExecutableState.h - what runs share ----------------------*- C++ -*-===//
#ifndef RLX_LIB_RUNTIME_EXECUTABLESTATE_H
#define RLX_LIB_RUNTIME_EXECUTABLESTATE_H

#include "Buckets.h"
#include "SpecializationCache.h"
#include "rlx/Runtime/Executable.h"

#include <mutex>
#include <optional>

namespace rlx {

/// What an executable and its clones have in common. Immutable but for the cache.
struct ExecutableSetup {
  std::shared_ptr<SpecializationCache> cache;
  /// Of the model's signature with the hints' ranges and multiples, where there are any.
  std::optional<BindingSolver> tightened;
  Buckets buckets;
  std::shared_ptr<Preparation> likely;
  std::vector<size_t> allOutputs; ///< 0, 1, ...

  const BindingSolver &solver() const { return tightened ? *tightened : cache->model->solver(); }
};

/// What the inputs and outputs of a run in a bucket are, each one per input or output
/// of the signature.
struct PaddedShapes {
  std::vector<std::vector<int64_t>> inputs, outputs; ///< the caller's
  std::vector<std::vector<int64_t>> paddedInputs;    ///< at the bucket's sizes
};

/// What a run goes by once its sizes are solved.
struct FoundRun {
  std::shared_ptr<const ReadySpecialization> ready;
  std::unique_ptr<const PaddedShapes> padded; ///< null for most: the sizes are those of `ready`

  /// As the caller gets them.
  const std::vector<std::vector<int64_t>> &outputShapes() const {
    return padded ? padded->outputs : ready->plan->outputs;
  }
};

struct Executable::State {
  std::shared_ptr<const ExecutableSetup> setup;

  const Model &model() const { return *setup->cache->model; }
  const data::ModelSignatureT &signature() const { return model().signature(); }
  Engine &engine() const { return *setup->cache->engine; }

  Status setParam(std::string_view name, const void *data, size_t bytes, data::ElementType type);
  /// As they are now, for one run; null for a model without any. Error: those that are not set.
  Result<std::shared_ptr<const ParamValues>> paramsSet() const;

  /// Solves the sizes, and finds or makes what runs at them. `outputs`: the caller's buffers.
  Result<FoundRun> prepareRun(std::span<const NamedTensor> inputs, std::span<const OutputBuffer> outputs,
                              const RunOptions &options);
  /// Runs into buffers, which are those of some outputs, each once.
  Status run(const FoundRun &found, std::span<const NamedTensor> inputs, std::span<const OutputBuffer> outputs,
             const ParamValues *params, const RunOptions &options);
  /// The sizes at which a binding given in full runs.
  Result<std::vector<int64_t>> sizesOf(const Binding &binding) const;

  // Parts of these.
  Status runAsItIs(const ReadySpecialization &ready, std::span<const NamedTensor> inputs,
                   std::span<const OutputBuffer> outputs, const ParamValues *params, const RunOptions &options);
  Status runPadded(const FoundRun &found, std::span<const NamedTensor> inputs, std::span<const OutputBuffer> outputs,
                   const ParamValues *params, const RunOptions &options);
  /// Shapes at the caller's sizes and at the bucket's. Error: sizes that no run could have.
  Result<std::unique_ptr<const PaddedShapes>> paddedShapes(std::span<const int64_t> sizes,
                                                           std::span<const int64_t> bucket) const;

  mutable std::mutex mutex; ///< guards the members below; held for a few instructions
  ParamValues params;
  /// What runs take, made by the first one after a param is set.
  mutable std::shared_ptr<const ParamValues> snapshot;
  RngOptions rng;
};

/// Whether two pieces of memory have a byte in common.
inline bool overlap(const void *a, size_t aBytes, const void *b, size_t bBytes) {
  auto x = reinterpret_cast<uintptr_t>(a), y = reinterpret_cast<uintptr_t>(b);
  return aBytes && bBytes && (x < y ? y - x < aBytes : x - y < bBytes);
}

} // namespace rlx

#endif // RLX_LIB_RUNTIME_EXECUTABLESTATE_H
