//===- Engine.h - what models share -----------------------------*- C++ -*-===//
#ifndef RLX_RUNTIME_ENGINE_H
#define RLX_RUNTIME_ENGINE_H

#include "rlx/Data/KernelABI.h"
#include "rlx/Data/Plan_generated.h"
#include "rlx/Runtime/ThreadPool.h"
#include "rlx/Support/Result.h"

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rlx {

class CompilerSource;

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

/// Where an engine's larger memory comes from: arenas of runs and the outputs that
/// they return. Thread safe; throws nothing.
class Allocator {
public:
  virtual ~Allocator();
  /// `bytes`, 1 or more, aligned to `alignment`, a power of two. Null where there
  /// is no memory.
  virtual void *allocate(size_t bytes, size_t alignment) = 0;
  /// What allocate() gave, with the same size.
  virtual void deallocate(void *pointer, size_t bytes) = 0;
};

/// Where compiling happens.
enum class CompilerPlace {
  InProcess, ///< librlx-compiler is loaded at the first miss that needs it
  Worker     ///< in a process of its own, started at the first miss that needs it, and again when it has died
};

/// Of CompilerPlace::Worker.
struct WorkerOptions {
  /// The worker's program. Empty: rlx-compile-worker where this build keeps it.
  std::string program;
  /// A request that takes longer is an error (CompilerFailed), and its worker is
  /// ended. 0: no limit.
  std::chrono::milliseconds timeout{120000};
  /// Memory of its own that a worker may take: what it maps of the model does not count.
  /// 0: no limit.
  size_t memoryBytes = 0;
};

struct EngineOptions {
  /// Specializations an executable holds unless it says otherwise; 1 or more.
  size_t cacheEntries = 64;
  /// Bytes of specializations, templates and code an executable holds unless it says
  /// otherwise; 0: no bound. The specialization made last is held in any case.
  size_t cacheBytes = size_t(256) << 20;
  /// Threads that make specializations in the background: prepare() and runs that
  /// do not wait. Started when first needed; 1 to 64.
  unsigned backgroundThreads = 1;
  /// Memory of runs that is kept for later ones: at most so many bytes, and none
  /// that has not been used for so long.
  size_t idleBytes = size_t(1) << 30;
  std::chrono::milliseconds idleTime{10000};
  CompilerPlace compiler = CompilerPlace::InProcess;
  WorkerOptions worker;
  /// Of CompilerPlace::InProcess, for a program that links the compiler itself: see
  /// rlx::compiler::inProcess(). Null: librlx-compiler is found and opened.
  std::shared_ptr<CompilerSource> compilerSource;
  /// Null: the system's.
  std::shared_ptr<Allocator> allocator;
  /// Threads of a run and of a compilation, the calling one among them: 1 is
  /// serial, 0 is all of `pool`, or, without one, availableCores() or as many of them
  /// as the system starts.
  int threads = 0;
  /// The caller's threads. Null: the engine starts its own.
  std::shared_ptr<ThreadPool> pool;
  /// Called with one line for each miss, by whoever makes what is missing; may call the
  /// engine. Owns what it uses: work in the background may outlive all other users.
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
  unsigned threads() const;
  /// Gives back memory that no run uses. The engine does it by itself for what was
  /// idle for EngineOptions::idleTime whenever a run ends.
  void trim();

  /// The runtime's own.
  struct Parts;
  Parts &parts() { return *own; }

private:
  Engine(EngineOptions options, std::shared_ptr<ThreadPool> pool);
  EngineOptions settings;
  std::unique_ptr<Parts> own;
};

} // namespace rlx

#endif // RLX_RUNTIME_ENGINE_H
