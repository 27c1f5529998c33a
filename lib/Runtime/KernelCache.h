//===- KernelCache.h - kernels by spec --------------------------*- C++ -*-===//
#ifndef RLX_LIB_RUNTIME_KERNELCACHE_H
#define RLX_LIB_RUNTIME_KERNELCACHE_H

#include "rlx/Runtime/Compiler.h"
#include "rlx/Runtime/Engine.h"
#include "rlx/Runtime/Instantiate.h"

#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace rlx {

/// The kernels of an engine by the bytes of their spec. Two threads that want the
/// same new kernel compile it once. Thread safe.
///
/// It holds no kernel: one lives as long as a LoadedKernel of it does, and is found
/// as long as it lives.
class KernelCache {
public:
  explicit KernelCache(std::shared_ptr<KernelLoader> loader);
  ~KernelCache();

  struct Got {
    std::vector<LoadedKernel> kernels; ///< one per kernel that was asked for, in order
    std::vector<size_t> bytes;         ///< of each: its code and its key
    size_t compiled = 0;               ///< by this call
    size_t codeBytes = 0;              ///< of those
  };
  /// The code of `kernels`, no two of one spec; compiles what there is not, on
  /// `pool` too. Adds to `times`: "compile" is how long the caller waited for the
  /// compiler. A failure is not remembered.
  Result<Got> get(const SelectedKernels &kernels, CompilerInterface &compiler, ThreadPool &pool, PhaseTimes &times);

  /// The same where all are there: compiles nothing and waits for nobody.
  std::optional<Got> find(const SelectedKernels &kernels);

  size_t count() const;
  size_t codeBytes() const;

private:
  class Kernel;
  struct Table;
  bool take(Got &got, size_t i, const std::vector<uint8_t> &key);
  Result<std::vector<std::shared_ptr<Kernel>>> compile(const SelectedKernels &wanted, const std::vector<size_t> &mine,
                                                       CompilerInterface &compiler, ThreadPool &pool,
                                                       PhaseTimes &times);

  std::shared_ptr<KernelLoader> loader;
  std::shared_ptr<Table> table; ///< the kernels' too, which may outlive this
};

} // namespace rlx

#endif // RLX_LIB_RUNTIME_KERNELCACHE_H
