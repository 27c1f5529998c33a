//===- EngineParts.h - what an engine is made of ----------------*- C++ -*-===//
#ifndef RLX_LIB_RUNTIME_ENGINEPARTS_H
#define RLX_LIB_RUNTIME_ENGINEPARTS_H

#include "ArenaPool.h"
#include "Background.h"
#include "CompilerSlot.h"
#include "Crew.h"
#include "KernelCache.h"
#include "rlx/Runtime/Engine.h"

namespace rlx {

struct Engine::Parts {
  Parts(const EngineOptions &options, std::shared_ptr<ThreadPool> threads)
      : threads(std::move(threads)), crews(*this->threads), kernels(options.loader),
        arenas(options.allocator, options.idleBytes, options.idleTime), background(options.backgroundThreads) {}

  const std::shared_ptr<ThreadPool> threads;
  Crews crews; ///< of `threads`
  KernelCache kernels;
  ArenaPool arenas;
  CompilerSlot compiler;
  Background background; ///< ends first: what its threads still do may use the others
};

} // namespace rlx

#endif // RLX_LIB_RUNTIME_ENGINEPARTS_H
