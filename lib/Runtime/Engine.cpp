//===- Engine.cpp - what models share -------------------------------------===//
#include "rlx/Runtime/Engine.h"

#include "EngineParts.h"
#include "rlx/Runtime/CodeMemory.h"

#include <algorithm>

using namespace rlx;

namespace {
constexpr unsigned kMaxBackground = 64;

/// Copies images into read-execute memory.
class CodeLoader : public KernelLoader {
public:
  Result<std::vector<LoadedKernel>> load(std::span<const data::KernelImageT> images) override {
    std::vector<const data::KernelImageT *> batch;
    for (const data::KernelImageT &image : images)
      batch.push_back(&image);
    Result<std::vector<KernelHandle>> handles = memory.load(batch);
    if (!handles)
      return handles.takeError();
    std::vector<LoadedKernel> kernels;
    for (KernelHandle &handle : *handles)
      kernels.push_back({handle.fn, std::move(handle.region)});
    return kernels;
  }

private:
  CodeMemory memory;
};

/// Fewer threads of a caller's pool.
class PartOfPool : public ThreadPool {
public:
  PartOfPool(std::shared_ptr<ThreadPool> whole, unsigned count) : whole(std::move(whole)), count(count) {}
  unsigned threads() const override { return count; }
  void submit(std::function<void()> task) override { whole->submit(std::move(task)); }
  void offer(std::shared_ptr<PoolTask> task) override { whole->offer(std::move(task)); }

private:
  std::shared_ptr<ThreadPool> whole;
  unsigned count;
};

Result<std::shared_ptr<ThreadPool>> poolFor(const EngineOptions &options) {
  if (options.threads < 0 || static_cast<unsigned>(options.threads) > kMaxThreads)
    return Error{ErrorCode::InvalidArgument, "threads: an engine has 1 to " + std::to_string(kMaxThreads) +
                                                 " (0: all there are), not " + std::to_string(options.threads)};
  auto wanted = static_cast<unsigned>(options.threads);
  if (!options.pool) {
    if (wanted)
      return ThreadPool::create(wanted);
    // Who names no number gets what the system gives, down to serial runs.
    for (unsigned count = availableCores(); count > 1; --count)
      if (Result<std::shared_ptr<ThreadPool>> pool = ThreadPool::create(count))
        return pool;
    return ThreadPool::create(1);
  }
  unsigned there = std::clamp(options.pool->threads(), 1u, kMaxThreads);
  unsigned used = wanted ? std::min(wanted, there) : there;
  if (used == options.pool->threads())
    return options.pool;
  return std::shared_ptr<ThreadPool>(std::make_shared<PartOfPool>(options.pool, used));
}
} // namespace

Engine::Engine(EngineOptions options, std::shared_ptr<ThreadPool> pool)
    : settings(std::move(options)), own(std::make_unique<Parts>(settings, std::move(pool))) {}

Engine::~Engine() = default;
Allocator::~Allocator() = default;

Result<std::shared_ptr<Engine>> Engine::create(EngineOptions options) {
  auto bad = [](const std::string &text) { return Error{ErrorCode::InvalidArgument, text}; };
  if (options.cacheEntries == 0)
    return bad("cacheEntries: a cache holds at least 1 entry");
  if (options.backgroundThreads < 1 || options.backgroundThreads > kMaxBackground)
    return bad("backgroundThreads: an engine has 1 to " + std::to_string(kMaxBackground) + ", not " +
               std::to_string(options.backgroundThreads));
  if (options.idleTime.count() < 0)
    return bad("idleTime: a time of " + std::to_string(options.idleTime.count()) + " ms is not possible");
  if (options.worker.timeout.count() < 0)
    return bad("worker.timeout: a time of " + std::to_string(options.worker.timeout.count()) + " ms is not possible");
  if (options.compiler != CompilerPlace::InProcess && options.compiler != CompilerPlace::Worker)
    return bad("compiler: there is no place " + std::to_string(static_cast<int>(options.compiler)));
  if (!options.loader)
    options.loader = std::make_shared<CodeLoader>();
  Result<std::shared_ptr<ThreadPool>> pool = poolFor(options);
  if (!pool)
    return pool.takeError();
  return std::shared_ptr<Engine>(new Engine(std::move(options), std::move(*pool)));
}

unsigned Engine::threads() const { return own->threads->threads(); }
void Engine::trim() { own->arenas.trim(); }
size_t Engine::kernelCount() const { return own->kernels.count(); }
size_t Engine::codeBytes() const { return own->kernels.codeBytes(); }
