//===- CpuCaches.h - what the machine's caches hold -------------*- C++ -*-===//
#ifndef RLX_LIB_RUNTIME_CPUCACHES_H
#define RLX_LIB_RUNTIME_CPUCACHES_H

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

/// Whether weights of so many bytes that are read in turn contend with others for the third cache, as KernelABI.h has
/// it for Matmul. Measured by bench/gemm on a cache of 32 MB that others use as well: 12 MB stay, of 16 MB and more
/// some comes from memory now and then, and of up to a third more than there is room for most is still found again.
bool contendForLastCache(int64_t weightBytes, const CpuCaches &caches);

} // namespace rlx

#endif // RLX_LIB_RUNTIME_CPUCACHES_H
