//===- KernelCache.h - kernels by spec --------------------------*- C++ -*-===//
#ifndef RLX_LIB_RUNTIME_KERNELCACHE_H
#define RLX_LIB_RUNTIME_KERNELCACHE_H

#include "rlx/Runtime/Compiler.h"
#include "rlx/Runtime/Engine.h"

#include <condition_variable>
#include <map>
#include <mutex>

namespace rlx {

/// The kernels of an engine by the bytes of their spec. Two threads that want the
/// same new kernel compile it once. Thread safe.
class KernelCache {
public:
  explicit KernelCache(std::shared_ptr<KernelLoader> loader) : loader(std::move(loader)) {}

  struct Got {
    std::vector<LoadedKernel> kernels; ///< one per spec, in order
    size_t compiled = 0;               ///< by this call
    size_t codeBytes = 0;              ///< of those
  };
  /// Kernels for `specs`, whose keys are `keys`; compiles what there is not, on
  /// `pool` too. Adds to `times`: "compile" is how long the caller waited for the
  /// compiler. A failure is not remembered.
  Result<Got> get(std::span<const data::KernelSpecT> specs, std::span<const std::vector<uint8_t>> keys,
                  CompilerInterface &compiler, ThreadPool &pool, PhaseTimes &times);

  size_t count() const;
  size_t codeBytes() const;

private:
  struct Entry {
    LoadedKernel kernel; ///< no function yet: being compiled
    size_t bytes = 0;
  };
  Status compile(std::span<const data::KernelSpecT> specs, std::span<const std::vector<uint8_t>> keys,
                 const std::vector<size_t> &mine, CompilerInterface &compiler, ThreadPool &pool, PhaseTimes &times,
                 Got &got);

  std::shared_ptr<KernelLoader> loader;
  mutable std::mutex mutex; // guards the members below
  std::condition_variable changed;
  std::map<std::vector<uint8_t>, Entry> entries;
  size_t totalBytes = 0;
};

} // namespace rlx

#endif // RLX_LIB_RUNTIME_KERNELCACHE_H
