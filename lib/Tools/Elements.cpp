//===- Elements.cpp - single elements, for people -------------------------===//
#include "rlx/Tools/Elements.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <fmt/format.h>

namespace rlx::tools {

using data::ElementType;

namespace {

template <typename T> T load(const void *data, int64_t index) {
  T value;
  std::memcpy(&value, static_cast<const char *>(data) + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

double widenHalf(uint16_t bits) {
  int exponent = (bits >> 10) & 31;
  int mantissa = bits & 1023;
  double magnitude;
  if (exponent == 31)
    magnitude = mantissa ? std::nan("") : HUGE_VAL;
  else if (exponent == 0)
    magnitude = std::ldexp(mantissa, -24);
  else
    magnitude = std::ldexp(mantissa + 1024, exponent - 25);
  return bits & 0x8000 ? -magnitude : magnitude;
}

} // namespace

double floatElement(ElementType type, const void *data, int64_t index) {
  switch (type) {
  case ElementType::F16:
    return widenHalf(load<uint16_t>(data, index));
  case ElementType::BF16:
    return std::bit_cast<float>(uint32_t(load<uint16_t>(data, index)) << 16);
  case ElementType::F32:
    return load<float>(data, index);
  default:
    return load<double>(data, index);
  }
}

/// A NaN is one, whatever its sign bit says.
template <typename T> static std::string floatText(T value) {
  return std::isnan(value) ? "nan" : fmt::format("{}", value);
}

std::string elementText(ElementType type, const void *data, int64_t index) {
  switch (type) {
  case ElementType::I1:
    return load<uint8_t>(data, index) ? "true" : "false";
  case ElementType::I8:
    return fmt::to_string(int(load<int8_t>(data, index)));
  case ElementType::I16:
    return fmt::to_string(load<int16_t>(data, index));
  case ElementType::I32:
    return fmt::to_string(load<int32_t>(data, index));
  case ElementType::I64:
    return fmt::to_string(load<int64_t>(data, index));
  case ElementType::U8:
    return fmt::to_string(unsigned(load<uint8_t>(data, index)));
  case ElementType::U16:
    return fmt::to_string(load<uint16_t>(data, index));
  case ElementType::U32:
    return fmt::to_string(load<uint32_t>(data, index));
  case ElementType::U64:
    return fmt::to_string(load<uint64_t>(data, index));
  case ElementType::F64:
    return floatText(load<double>(data, index));
  case ElementType::F16:
  case ElementType::BF16:
  case ElementType::F32:
    return floatText(static_cast<float>(floatElement(type, data, index)));
  }
  return "?";
}

} // namespace rlx::tools
