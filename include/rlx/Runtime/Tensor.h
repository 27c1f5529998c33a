//===- Tensor.h - values that enter and leave a run -------------*- C++ -*-===//
#ifndef RLX_RUNTIME_TENSOR_H
#define RLX_RUNTIME_TENSOR_H

#include "rlx/Data/ElementType.h"
#include "rlx/Data/Plan_generated.h"
#include "rlx/Support/Result.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rlx {

class Allocator;

/// Bytes of one element: 1, 2, 4 or 8. 0 for a value that is no ElementType.
constexpr size_t elementSize(data::ElementType type) { return static_cast<size_t>(elementBytes(type)); }
/// Product of the sizes. Nothing when a size is negative or the product does
/// not fit; a zero anywhere gives 0 even where the rest would overflow.
std::optional<int64_t> elementCount(std::span<const int64_t> shape);
/// "[2,3]", and "[]" for a scalar.
std::string shapeString(std::span<const int64_t> shape);

/// Someone else's values: row-major, little-endian, read only. Shape and data
/// are borrowed for the length of the call they are passed to.
struct TensorView {
  data::ElementType type = data::ElementType::F32;
  /// Sizes; meaningless when `isFlat`.
  std::span<const int64_t> shape;
  const void *data = nullptr;
  size_t bytes = 0;
  /// The caller knows only how many elements there are; the sizes are solved.
  bool isFlat = false;

  /// Values whose sizes are to be found from their number.
  static TensorView flat(data::ElementType type, const void *data, size_t bytes) {
    return TensorView{type, {}, data, bytes, true};
  }
};

/// Owned values, row-major, 64-byte aligned. Movable; copy with clone().
class Tensor {
public:
  Tensor() = default;
  /// Uninitialised values, of the system's memory where `allocator` is null; else the
  /// tensor keeps the allocator. Errors: a negative or overflowing size, no memory.
  static Result<Tensor> allocate(data::ElementType type, std::vector<int64_t> shape,
                                 std::shared_ptr<Allocator> allocator = nullptr);
  /// A copy of `view`, which must have a shape. Errors: as allocate(); bytes do
  /// not match type and shape; no data.
  static Result<Tensor> copyOf(const TensorView &view);

  data::ElementType type() const { return elementType; }
  const std::vector<int64_t> &shape() const { return sizes; }
  int64_t elements() const { return count; }
  size_t bytes() const { return static_cast<size_t>(count) * elementSize(elementType); }
  /// Never null once allocated, even for zero elements.
  void *data() { return storage.get(); }
  const void *data() const { return storage.get(); }
  /// The values as T, which the caller knows to be the element type's C++ type.
  template <typename T> std::span<T> as() { return {static_cast<T *>(data()), static_cast<size_t>(count)}; }
  template <typename T> std::span<const T> as() const {
    return {static_cast<const T *>(data()), static_cast<size_t>(count)};
  }
  TensorView view() const { return TensorView{elementType, sizes, storage.get(), bytes(), false}; }
  /// An f16, bf16 or f32 tensor as f32. Errors: another type, no memory.
  Result<Tensor> toF32() const;

private:
  struct Free {
    Free() : bytes(0) {}
    Free(std::shared_ptr<Allocator> allocator, size_t bytes) : allocator(std::move(allocator)), bytes(bytes) {}
    void operator()(std::byte *pointer) const;
    std::shared_ptr<Allocator> allocator;
    size_t bytes;
  };
  data::ElementType elementType = data::ElementType::F32;
  std::vector<int64_t> sizes;
  int64_t count = 0;
  std::unique_ptr<std::byte[], Free> storage;
};

/// An input of a run. The name is borrowed, as shape and data are: for the length
/// of the call it is passed to.
struct NamedTensor {
  std::string_view name;
  TensorView tensor;
};

/// Where the caller wants an output: `bytes` at `data`, of the output's type, or
/// f32 for an f16 or bf16 output. The number of elements joins the solving of
/// the binding, so it must be exact. The name is borrowed for the length of the call.
struct OutputBuffer {
  std::string_view name;
  data::ElementType type = data::ElementType::F32;
  void *data = nullptr;
  size_t bytes = 0;
};

} // namespace rlx

#endif // RLX_RUNTIME_TENSOR_H
