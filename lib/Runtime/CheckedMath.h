//===- CheckedMath.h - 64-bit arithmetic that reports overflow --*- C++ -*-===//
#ifndef RLX_LIB_RUNTIME_CHECKEDMATH_H
#define RLX_LIB_RUNTIME_CHECKEDMATH_H

#include <cstddef>
#include <cstdint>
#include <optional>

namespace rlx {

/// Each stores the result and returns true, or returns false when it does not fit.
inline bool checkedAdd(int64_t a, int64_t b, int64_t &result) { return !__builtin_add_overflow(a, b, &result); }
inline bool checkedMul(int64_t a, int64_t b, int64_t &result) { return !__builtin_mul_overflow(a, b, &result); }

/// `value` rounded up to a multiple of `alignment`, a power of two.
inline std::optional<size_t> alignUp(size_t value, size_t alignment) {
  size_t result;
  if (__builtin_add_overflow(value, alignment - 1, &result))
    return std::nullopt;
  return result & ~(alignment - 1);
}

} // namespace rlx

#endif // RLX_LIB_RUNTIME_CHECKEDMATH_H
