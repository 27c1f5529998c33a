//===- AlignedBytes.h - memory for values -----------------------*- C++ -*-===//
#ifndef RLX_LIB_RUNTIME_ALIGNEDBYTES_H
#define RLX_LIB_RUNTIME_ALIGNEDBYTES_H

#include "rlx/Runtime/Tensor.h"

#include <cstddef>
#include <cstdlib>
#include <memory>

namespace rlx {

class Allocator;

/// What every buffer that kernels see is aligned to.
inline constexpr size_t kBufferAlignment = 64;

struct FreeBytes {
  void operator()(std::byte *pointer) const { std::free(pointer); }
};
using AlignedBytes = std::unique_ptr<std::byte[], FreeBytes>;

/// `bytes` of uninitialised memory, 64-byte aligned; null when there is none. Zero
/// bytes give a pointer of their own too. Large ones lie on huge pages where the
/// system has them.
AlignedBytes allocateAligned(size_t bytes);

/// The same of a caller's allocator, or of the system's where it is null, for
/// freeFrom() with the same number of bytes.
std::byte *allocateFrom(Allocator *allocator, size_t bytes);
void freeFrom(Allocator *allocator, std::byte *memory, size_t bytes);

/// True when `pointer` may be read as elements of `type`.
inline bool isAligned(const void *pointer, data::ElementType type) {
  size_t size = elementSize(type);
  return size == 0 || reinterpret_cast<uintptr_t>(pointer) % size == 0;
}

} // namespace rlx

#endif // RLX_LIB_RUNTIME_ALIGNEDBYTES_H
