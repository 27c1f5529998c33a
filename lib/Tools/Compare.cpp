//===- Compare.cpp - is a result the expected one? ------------------------===//
#include "rlx/Tools/Compare.h"

#include "rlx/Data/ElementType.h"
#include "rlx/Tools/Elements.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <limits>

namespace rlx::tools {

namespace {

/// Position of a row-major element, as "[0, 2]".
std::string position(std::span<const int64_t> shape, int64_t element) {
  std::vector<int64_t> index(shape.size());
  for (size_t axis = shape.size(); axis-- > 0;) {
    index[axis] = element % shape[axis];
    element /= shape[axis];
  }
  return shapeString(index);
}

/// Distance of two integers, as near as a double comes.
double integerDistance(data::ElementType type, const std::byte *a, const std::byte *b) {
  auto value = [type](const std::byte *at) -> long double {
    if (type == data::ElementType::I1)
      return *at == std::byte{0} ? 0 : 1;
    return std::strtold(elementText(type, at, 0).c_str(), nullptr);
  };
  return static_cast<double>(std::fabs(value(a) - value(b)));
}

} // namespace

Comparison compareTensors(const TensorView &got, const TensorView &expected, const Tolerance &tolerance) {
  Comparison result;
  // .npy files hold bf16 as f32 (encodeNpy), which is exact.
  bool widened = got.type == data::ElementType::BF16 && expected.type == data::ElementType::F32;
  if (got.type != expected.type && !widened) {
    result.reason = fmt::format("type {}, expected {}", elementTypeName(got.type), elementTypeName(expected.type));
    return result;
  }
  if (!std::ranges::equal(got.shape, expected.shape)) {
    result.reason = fmt::format("shape {}, expected {}", shapeString(got.shape), shapeString(expected.shape));
    return result;
  }
  int64_t gotWidth = static_cast<int64_t>(elementSize(got.type)), first = -1;
  int64_t width = static_cast<int64_t>(elementSize(expected.type));
  int64_t count = static_cast<int64_t>(expected.bytes) / width;
  const std::byte *gotData = static_cast<const std::byte *>(got.data);
  const std::byte *expectedData = static_cast<const std::byte *>(expected.data);
  bool real = isFloatType(expected.type);
  for (int64_t i = 0; i < count; ++i) {
    const std::byte *gotAt = gotData + i * gotWidth, *expectedAt = expectedData + i * width;
    if (!widened && std::memcmp(gotAt, expectedAt, width) == 0)
      continue;
    bool agrees = false;
    double distance = 0;
    if (real) {
      double g = floatElement(got.type, gotAt, 0), e = floatElement(expected.type, expectedAt, 0);
      if (std::isfinite(g) && std::isfinite(e)) {
        distance = std::fabs(g - e);
        agrees = distance <= tolerance.absolute + tolerance.relative * std::fabs(e);
      } else {
        agrees = (std::isnan(g) && std::isnan(e)) || g == e;
        distance = agrees ? 0 : std::numeric_limits<double>::infinity();
      }
    } else {
      distance = integerDistance(got.type, gotAt, expectedAt);
    }
    result.largest = std::max(result.largest, distance);
    if (!agrees) {
      ++result.mismatches;
      if (first < 0)
        first = i;
    }
  }
  result.passed = result.mismatches == 0;
  if (!result.passed)
    result.reason =
        fmt::format("{} of {} elements differ by up to {:.3g}, first at {}: {}, expected {}", result.mismatches, count,
                    result.largest, position(expected.shape, first), elementText(got.type, got.data, first),
                    elementText(expected.type, expected.data, first));
  return result;
}

} // namespace rlx::tools
