//===- ExecutableState.h - what runs share ----------------------*- C++ -*-===//
#ifndef RLX_LIB_RUNTIME_EXECUTABLESTATE_H
#define RLX_LIB_RUNTIME_EXECUTABLESTATE_H

#include "Buckets.h"
#include "SpecializationCache.h"
#include "rlx/Runtime/Executable.h"

#include <array>
#include <mutex>
#include <optional>

namespace rlx {

/// What an executable and its clones have in common. Immutable but for the cache.
struct ExecutableSetup {
  std::shared_ptr<SpecializationCache> cache;
  /// Of the model's signature with the hints' ranges and multiples, where there are any.
  std::optional<BindingSolver> tightened;
  Buckets buckets;
  ShapesOf inputShapes, outputShapes; ///< where there are buckets
  std::shared_ptr<Preparation> likely;
  std::vector<size_t> allOutputs; ///< 0, 1, ...

  const BindingSolver &solver() const { return tightened ? *tightened : cache->model->solver(); }
};

/// What a run goes by once its sizes are solved. Stays where it is.
struct FoundRun {
  FoundRun() {} // does not write the memory
  FoundRun(const FoundRun &) = delete;
  FoundRun &operator=(const FoundRun &) = delete;

  std::shared_ptr<const ReadySpecialization> ready;
  std::span<int64_t> sizes; ///< of `ready`, one per dim
  /// The caller's, where the run is padded to `sizes`: those of its bucket. Empty for most.
  std::span<const int64_t> asked;

  std::array<int64_t, 2 * BindingSolver::kMaxDims> memory; ///< of `sizes` and `asked`
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
  Status prepareRun(std::span<const NamedTensor> inputs, std::span<const OutputBuffer> outputs,
                    const RunOptions &options, FoundRun &found);
  /// Of an output, as the caller gets it.
  size_t outputRank(const FoundRun &found, size_t output) const {
    return found.asked.empty() ? found.ready->plan->outputs[output].size() : setup->outputShapes.rank(output);
  }
  /// `shape`: one per axis.
  void outputShape(const FoundRun &found, size_t output, std::span<int64_t> shape) const;
  /// Runs into buffers, which are those of some outputs, each once.
  Status run(const FoundRun &found, std::span<const NamedTensor> inputs, std::span<const OutputBuffer> outputs,
             const ParamValues *params, const RunOptions &options);
  /// The sizes at which a binding given in full runs.
  Result<std::vector<int64_t>> sizesOf(const Binding &binding) const;

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
