//===- Convert.cpp - f32 to and from the 16-bit floats --------------------===//
#include "Convert.h"

#include <bit>
#include <cassert>
#include <cstring>

using namespace rlx;

// Integer arithmetic throughout: the caller's rounding mode and flush-to-zero
// setting must not matter.

uint16_t rlx::f32ToF16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  uint32_t magnitude = bits & 0x7FFFFFFF;
  if (magnitude > 0x7F800000)
    return static_cast<uint16_t>(sign | 0x7E00 | ((magnitude >> 13) & 0x3FF));
  if (magnitude >= 0x477FF000) // 65520 and more round to infinity
    return static_cast<uint16_t>(sign | 0x7C00);
  if (magnitude < 0x33000001) // 2^-25 and less round to zero
    return sign;
  uint32_t exponent = magnitude >> 23;
  uint32_t mantissa = (magnitude & 0x7FFFFF) | 0x800000;
  // Bits to drop: 13 for normal results, one more for each step below 2^-14.
  uint32_t shift = exponent < 113 ? 126 - exponent : 13;
  uint32_t kept = mantissa >> shift;
  uint32_t rest = mantissa & ((1u << shift) - 1), half = 1u << (shift - 1);
  if (rest > half || (rest == half && (kept & 1)))
    ++kept;
  // A carry out of the mantissa moves into the exponent, as it should.
  if (exponent >= 113)
    kept += (exponent - 113) << 10;
  return static_cast<uint16_t>(sign | kept);
}

uint16_t rlx::f32ToBf16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFF) > 0x7F800000)
    return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

float rlx::f16ToF32(uint16_t bits) {
  uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  uint32_t exponent = (bits >> 10) & 0x1F, mantissa = bits & 0x3FF;
  if (exponent == 0x1F)
    return std::bit_cast<float>(sign | 0x7F800000 | (mantissa << 13));
  if (exponent == 0) {
    if (mantissa == 0)
      return std::bit_cast<float>(sign);
    uint32_t up = static_cast<uint32_t>(std::countl_zero(mantissa)) - 21; // brings the leading one to bit 10
    return std::bit_cast<float>(sign | ((113 - up) << 23) | (((mantissa << up) & 0x3FF) << 13));
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

float rlx::bf16ToF32(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

void rlx::narrowFromF32(const void *source, data::ElementType type, void *target, size_t count) {
  assert(isShortFloat(type));
  bool half = type == data::ElementType::F16;
  const auto *from = static_cast<const std::byte *>(source);
  auto *to = static_cast<std::byte *>(target);
  for (size_t i = 0; i != count; ++i) {
    float value;
    std::memcpy(&value, from + i * sizeof(float), sizeof(float));
    uint16_t bits = half ? f32ToF16(value) : f32ToBf16(value);
    std::memcpy(to + i * sizeof(bits), &bits, sizeof(bits));
  }
}

void rlx::widenToF32(const void *source, data::ElementType type, void *target, size_t count) {
  assert(isShortFloat(type));
  bool half = type == data::ElementType::F16;
  const auto *from = static_cast<const std::byte *>(source);
  auto *to = static_cast<std::byte *>(target);
  for (size_t i = 0; i != count; ++i) {
    uint16_t bits;
    std::memcpy(&bits, from + i * sizeof(bits), sizeof(bits));
    float value = half ? f16ToF32(bits) : bf16ToF32(bits);
    std::memcpy(to + i * sizeof(float), &value, sizeof(float));
  }
}
