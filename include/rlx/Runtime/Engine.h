//===- Engine.h - what models share -----------------------------*- C++ -*-===//
#ifndef RLX_RUNTIME_ENGINE_H
#define RLX_RUNTIME_ENGINE_H

#include "rlx/Data/KernelABI.h"
#include "rlx/Data/Plan_generated.h"
#include "rlx/Runtime/ThreadPool.h"
#include "rlx/Support/Result.h"

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace rlx {

class ArenaPool;
class KernelCache;

/// A kernel that can be called for as long as `owner` lives.
struct LoadedKernel {
  KernelFn function = nullptr;
  std::shared_ptr<const void> owner;
};

/// Makes kernel images callable. Thread safe. The default copies them into
/// read-execute memory; tests supply functions of their own.
class KernelLoader {
public:
  virtual ~KernelLoader() = default;
  /// One kernel per image, in order.
  virtual Result<std::vector<LoadedKernel>> load(std::span<const data::KernelImageT> images) = 0;
};

struct EngineOptions {
  /// Specializations an executable holds unless it says otherwise; 1 or more.
  size_t cacheEntries = 64;
  /// Threads of a run and of a compilation, the calling one among them: 1 is
  /// serial, 0 is all of `pool`, or, without one, availableCores() or as many of them
  /// as the system starts.
  int threads = 0;
  /// The caller's threads. Null: the engine starts its own.
  std::shared_ptr<ThreadPool> pool;
  /// Called with one line for each miss, from the thread that missed.
  std::function<void(std::string_view)> log;
  /// Null: the default loader.
  std::shared_ptr<KernelLoader> loader;
};

/// What all models of a process share: kernels by their spec, arenas and threads.
/// Thread safe.
class Engine {
public:
  /// Errors: an option out of its range; threads that were asked for and that the
  /// system does not give.
  static Result<std::shared_ptr<Engine>> create(EngineOptions options = {});
  ~Engine();

  const EngineOptions &options() const { return settings; }
  /// Kernels held, and the bytes of their code.
  size_t kernelCount() const;
  size_t codeBytes() const;

  /// Threads that share the work of a run, the calling one among them.
  unsigned threads() const { return threadPool->threads(); }

  /// For the runtime's own parts.
  ThreadPool &pool() { return *threadPool; }
  KernelCache &kernels() { return *kernelCache; }
  ArenaPool &arenas() { return *arenaPool; }

private:
  Engine(EngineOptions options, std::shared_ptr<ThreadPool> pool);
  EngineOptions settings;
  std::shared_ptr<ThreadPool> threadPool;
  std::unique_ptr<KernelCache> kernelCache;
  std::unique_ptr<ArenaPool> arenaPool;
};

} // namespace rlx

#endif // RLX_RUNTIME_ENGINE_H
