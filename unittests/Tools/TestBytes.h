//===- TestBytes.h - bytes for the tests of tensor files --------*- C++ -*-===//
#ifndef RLX_UNITTESTS_TOOLS_TESTBYTES_H
#define RLX_UNITTESTS_TOOLS_TESTBYTES_H

#include "rlx/Runtime/Tensor.h"

#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rlx::tools {

/// Bytes written as hexadecimal digits.
inline std::vector<std::byte> fromHex(std::string_view text) {
  auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  std::vector<std::byte> bytes;
  for (size_t i = 0; i + 1 < text.size(); i += 2)
    bytes.push_back(std::byte(digit(text[i]) * 16 + digit(text[i + 1])));
  return bytes;
}

inline std::vector<std::byte> bytesOf(std::string_view text) {
  std::vector<std::byte> bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

/// A tensor of these values.
template <typename T> Tensor makeTensor(data::ElementType type, std::vector<int64_t> shape, std::vector<T> values) {
  Tensor tensor = *Tensor::copyOf(TensorView{type, shape, values.data(), values.size() * sizeof(T), false});
  return tensor;
}

template <typename T> std::vector<T> valuesOf(const Tensor &tensor) {
  std::span<const T> values = tensor.as<T>();
  return {values.begin(), values.end()};
}

} // namespace rlx::tools

#endif // RLX_UNITTESTS_TOOLS_TESTBYTES_H
