//===- ExecutableState.h - what runs share ----------------------*- C++ -*-===//
#ifndef RLX_LIB_RUNTIME_EXECUTABLESTATE_H
#define RLX_LIB_RUNTIME_EXECUTABLESTATE_H

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
  std::shared_ptr<Preparation> likely;

  const BindingSolver &solver() const { return tightened ? *tightened : cache->model->solver(); }
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
  Result<std::shared_ptr<const ReadySpecialization>>
  prepareRun(std::span<const NamedTensor> inputs, std::span<const OutputBuffer> outputs, const RunOptions &options);
  /// Runs into buffers, which are those of some outputs, each once.
  Status run(const ReadySpecialization &ready, std::span<const NamedTensor> inputs,
             std::span<const OutputBuffer> outputs, const ParamValues *params, const RunOptions &options);
  /// The sizes of a binding given in full.
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
