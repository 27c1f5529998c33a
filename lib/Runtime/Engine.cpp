//===- Engine.cpp - what models share -------------------------------------===//
#include "rlx/Runtime/Engine.h"

#include "ArenaPool.h"
#include "KernelCache.h"
#include "rlx/Runtime/CodeMemory.h"

using namespace rlx;

namespace {
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
} // namespace

Engine::Engine(EngineOptions options)
    : settings(std::move(options)), kernelCache(std::make_unique<KernelCache>(settings.loader)),
      arenaPool(std::make_unique<ArenaPool>()) {}

Engine::~Engine() = default;

Result<std::shared_ptr<Engine>> Engine::create(EngineOptions options) {
  if (options.threads != 1)
    return Error{ErrorCode::Unsupported, "an engine has 1 thread so far, not " + std::to_string(options.threads)};
  if (options.cacheEntries == 0)
    return Error{ErrorCode::InvalidArgument, "a cache holds at least 1 entry"};
  if (!options.loader)
    options.loader = std::make_shared<CodeLoader>();
  return std::shared_ptr<Engine>(new Engine(std::move(options)));
}

size_t Engine::kernelCount() const { return kernelCache->count(); }
size_t Engine::codeBytes() const { return kernelCache->codeBytes(); }
