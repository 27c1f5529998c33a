//===- CpuCaches.h - what the machine's caches hold -------------*- C++ -*-===//
#ifndef RLX_LIB_RUNTIME_CPUCACHES_H
#define RLX_LIB_RUNTIME_CPUCACHES_H

#include "rlx/Data/KernelABI.h"

#include <cstdint>
#include <string>

namespace rlx {

/// Bytes of data that one core has for itself in each cache: where cores share one,
/// its part of it.
struct CpuCaches {
  int64_t level2 = 1 << 20, level3 = 16 << 20; ///< where nothing is known
  int64_t wholeLevel3 = level3;                ///< of all cores that share it
};

/// What a directory such as /sys/devices/system/cpu/cpu0/cache says: index0,
/// index1, ..., each with level, type, size and shared_cpu_list. Whatever is not
/// there or makes no sense leaves the default.
CpuCaches readCpuCaches(const std::string &directory);

/// Those of the machine, read once.
const CpuCaches &cpuCaches();

/// How Matmul kernels go through the rows of a.
struct RowBlocks {
  int64_t large = 0, block = 0; ///< bytes, as KernelABI.h has them
};

/// A panel of b passes over a block while the second cache holds it; a is large where
/// it would leave the third one little room for b.
RowBlocks rowBlocks(const CpuCaches &caches);

/// Whether weights of so many bytes that are read in turn stay in the third cache, and not in the second: as
/// KernelABI.h has it for Matmul. Most stay of up to a third more than the cache has room for (bench/gemm: 42 MB, a
/// cache of 32 MB).
LastCache inLastCache(int64_t weightBytes, const CpuCaches &caches);

} // namespace rlx

#endif // RLX_LIB_RUNTIME_CPUCACHES_H
