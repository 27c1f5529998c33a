//===- KernelHarness.h - compiling and calling kernels in tests -*- C++ -*-===//
#ifndef RLX_UNITTESTS_CODEGEN_KERNELHARNESS_H
#define RLX_UNITTESTS_CODEGEN_KERNELHARNESS_H

#include "rlx/Codegen/KernelCompiler.h"
#include "rlx/Data/ElementType.h"
#include "rlx/Data/Serialize.h"
#include "rlx/Runtime/CodeMemory.h"

#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <gtest/gtest.h>
#include <map>
#include <random>
#include <sys/mman.h>

namespace rlx::test {

using data::ElementType;

/// The value of an element as a double (exact but for 64-bit integers).
inline double getElement(ElementType type, const void *at) {
  auto as = [&]<typename T>(T value) {
    std::memcpy(&value, at, sizeof(T));
    return static_cast<double>(value);
  };
  switch (type) {
  case ElementType::I1:
  case ElementType::U8:
    return as(uint8_t());
  case ElementType::I8:
    return as(int8_t());
  case ElementType::I16:
    return as(int16_t());
  case ElementType::U16:
    return as(uint16_t());
  case ElementType::I32:
    return as(int32_t());
  case ElementType::U32:
    return as(uint32_t());
  case ElementType::I64:
    return as(int64_t());
  case ElementType::U64:
    return as(uint64_t());
  case ElementType::F16:
    return as(static_cast<_Float16>(0));
  case ElementType::BF16: {
    uint16_t bits;
    std::memcpy(&bits, at, 2);
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  }
  case ElementType::F32:
    return as(float());
  case ElementType::F64:
    return as(double());
  }
  return 0;
}

/// Stores a value that the type holds; bf16 drops what does not fit.
inline void putElement(ElementType type, void *at, double value) {
  auto as = [&](auto converted) { std::memcpy(at, &converted, sizeof(converted)); };
  switch (type) {
  case ElementType::I1:
  case ElementType::U8:
    return as(static_cast<uint8_t>(value));
  case ElementType::I8:
    return as(static_cast<int8_t>(value));
  case ElementType::I16:
    return as(static_cast<int16_t>(value));
  case ElementType::U16:
    return as(static_cast<uint16_t>(value));
  case ElementType::I32:
    return as(static_cast<int32_t>(value));
  case ElementType::U32:
    return as(static_cast<uint32_t>(value));
  case ElementType::I64:
    return as(static_cast<int64_t>(value));
  case ElementType::U64:
    return as(static_cast<uint64_t>(value));
  case ElementType::F16:
    return as(static_cast<_Float16>(value));
  case ElementType::BF16:
    return as(static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(value)) >> 16));
  case ElementType::F32:
    return as(static_cast<float>(value));
  case ElementType::F64:
    return as(value);
  }
}

/// Elements that end where the next page may not be touched, so that a read or
/// write past them is a crash; before them lie bytes that must not change.
class Buffer {
public:
  Buffer(ElementType type, int64_t elements) : type(type), elements(elements) {
    size_t bytes = static_cast<size_t>(elements * elementBytes(type));
    size = (bytes + 64 + 4095) / 4096 * 4096;
    base = static_cast<char *>(mmap(nullptr, size + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(base + size, 4096, PROT_NONE);
    std::memset(base, 0x5a, size);
    data = base + size - bytes;
  }
  ~Buffer() { munmap(base, size + 4096); }
  Buffer(const Buffer &) = delete;

  char *at(int64_t element) { return data + element * elementBytes(type); }
  double get(int64_t element) { return getElement(type, at(element)); }
  void put(int64_t element, double value) { putElement(type, at(element), value); }
  /// Still as the constructor left it.
  bool untouched(int64_t element) {
    for (int64_t i = 0; i < elementBytes(type); ++i)
      if (at(element)[i] != 0x5a)
        return false;
    return true;
  }
  /// Small integers for integers, [-1, 1) otherwise; rounded to the type.
  void fillRandom(std::mt19937 &random) {
    bool integral = !isFloatType(type);
    for (int64_t i = 0; i < elements; ++i) {
      double value = std::uniform_real_distribution<float>(-1, 1)(random);
      if (type == ElementType::I1)
        put(i, value > 0);
      else if (isUnsignedType(type))
        put(i, std::floor((value + 1) * 50));
      else
        put(i, integral ? std::floor(value * 100) : value);
    }
  }

  const ElementType type;
  const int64_t elements;
  char *data;

private:
  char *base;
  size_t size;
};

/// What kernels are compiled for: this machine, or RLX_TEST_TARGET, such as
/// "x86_64:x86-64-v3:", to run an older machine's code here.
inline const std::string &testTarget() {
  static const std::string target = [] {
    const char *chosen = std::getenv("RLX_TEST_TARGET");
    return chosen ? std::string(chosen) : hostTarget();
  }();
  return target;
}

/// The kernel of a spec, compiled once a process.
inline KernelFn kernelFor(data::KernelSpecT &spec) {
  static CodeMemory memory;
  static std::map<std::vector<uint8_t>, KernelHandle> kernels;
  spec.target = testTarget();
  spec.revision = kEmitterRevision;
  auto bytes = serializeSpec(spec);
  std::vector<uint8_t> key(bytes.begin(), bytes.end());
  auto found = kernels.find(key);
  if (found != kernels.end())
    return found->second.fn;
  auto image = compileKernel(spec);
  if (!image) {
    ADD_FAILURE() << image.error().message;
    return nullptr;
  }
  const data::KernelImageT *batch[] = {&*image};
  auto handles = memory.load(batch);
  if (!handles) {
    ADD_FAILURE() << handles.error().message;
    return nullptr;
  }
  return (kernels[key] = (*handles)[0]).fn;
}

inline std::unique_ptr<data::AccessSpecT> accessSpec(ElementType type,
                                                     data::InnerMode inner = data::InnerMode::Contiguous,
                                                     data::AccessKind kind = data::AccessKind::Direct) {
  auto access = std::make_unique<data::AccessSpecT>();
  access->type = type;
  access->inner = inner;
  access->kind = kind;
  return access;
}

/// Distance in units of the last place of the reference's type.
inline double ulps(double value, double reference, ElementType type) {
  if (std::isnan(value) && std::isnan(reference))
    return 0;
  if (value == reference)
    return 0;
  int digits = type == ElementType::F64 ? 53 : type == ElementType::F16 ? 11 : type == ElementType::BF16 ? 8 : 24;
  int smallest = type == ElementType::F64 ? -1021 : type == ElementType::F16 ? -13 : -125;
  int exponent;
  std::frexp(reference, &exponent);
  return std::abs(value - reference) / std::ldexp(1.0, std::max(exponent, smallest) - digits);
}

} // namespace rlx::test

#endif // RLX_UNITTESTS_CODEGEN_KERNELHARNESS_H
