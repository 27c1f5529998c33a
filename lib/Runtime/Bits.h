//===- Bits.h - a few bits on the stack -------------------------*- C++ -*-===//
#ifndef RLX_LIB_RUNTIME_BITS_H
#define RLX_LIB_RUNTIME_BITS_H

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace rlx {

/// A bit for each of a run's inputs or outputs. Allocates nothing for up to 512.
class Bits {
public:
  explicit Bits(size_t count) {
    size_t needed = (count + 63) / 64;
    if (needed > inlined.size())
      more = std::make_unique<uint64_t[]>(needed); // zeroed
    else
      std::fill_n(inlined.begin(), needed, 0);
    words = more ? more.get() : inlined.data();
  }
  Bits(const Bits &) = delete;
  Bits &operator=(const Bits &) = delete;

  bool test(size_t i) const { return words[i / 64] >> i % 64 & 1; }
  /// False when it was set already.
  bool set(size_t i) {
    uint64_t bit = uint64_t(1) << i % 64;
    if (words[i / 64] & bit)
      return false;
    words[i / 64] |= bit;
    return true;
  }
  /// Bits 8i to 8i + 7.
  uint8_t byte(size_t i) const { return static_cast<uint8_t>(words[i / 8] >> i % 8 * 8); }

private:
  std::array<uint64_t, 8> inlined;
  std::unique_ptr<uint64_t[]> more;
  uint64_t *words;
};

} // namespace rlx

#endif // RLX_LIB_RUNTIME_BITS_H
