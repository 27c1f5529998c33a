//===- Tensor.cpp - values that enter and leave a run ---------------------===//
#include "rlx/Runtime/Tensor.h"

#include "AlignedBytes.h"
#include "CheckedMath.h"
#include "Convert.h"
#include "rlx/Runtime/Engine.h"

#include <algorithm>
#include <cstring>
#if defined(__linux__)
#include <sys/mman.h>
#endif

using namespace rlx;
using data::ElementType;

std::optional<int64_t> rlx::elementCount(std::span<const int64_t> shape) {
  int64_t count = 1;
  bool zero = false, overflow = false;
  for (int64_t size : shape) {
    if (size < 0)
      return std::nullopt;
    zero |= size == 0;
    overflow |= !checkedMul(count, size, count);
  }
  if (zero)
    return 0;
  if (overflow)
    return std::nullopt;
  return count;
}

std::string rlx::shapeString(std::span<const int64_t> shape) {
  std::string text = "[";
  for (size_t i = 0; i != shape.size(); ++i)
    text += (i ? "," : "") + std::to_string(shape[i]);
  return text + "]";
}

/// Buffers from here on are worth pages of 2 MiB: the last one of a buffer may stay half empty.
static constexpr size_t kHugePage = size_t(2) << 20, kHugeFrom = 2 * kHugePage;

static std::byte *allocateOfSystem(size_t bytes) {
  size_t alignment = bytes < kHugeFrom ? kBufferAlignment : kHugePage;
  std::optional<size_t> rounded = alignUp(bytes ? bytes : 1, alignment);
  if (!rounded || *rounded > PTRDIFF_MAX)
    return nullptr;
  void *memory = std::aligned_alloc(alignment, *rounded);
#if defined(MADV_HUGEPAGE)
  // A wish: without it the memory is as good, only slower to get and to walk through.
  if (memory && alignment == kHugePage)
    (void)::madvise(memory, *rounded, MADV_HUGEPAGE);
#endif
  return static_cast<std::byte *>(memory);
}

AlignedBytes rlx::allocateAligned(size_t bytes) { return AlignedBytes(allocateOfSystem(bytes)); }

std::byte *rlx::allocateFrom(Allocator *allocator, size_t bytes) {
  if (!allocator)
    return allocateOfSystem(bytes);
  return static_cast<std::byte *>(allocator->allocate(std::max<size_t>(bytes, 1), kBufferAlignment));
}

void rlx::freeFrom(Allocator *allocator, std::byte *memory, size_t bytes) {
  if (allocator)
    allocator->deallocate(memory, std::max<size_t>(bytes, 1));
  else
    std::free(memory);
}

void Tensor::Free::operator()(std::byte *pointer) const { freeFrom(allocator.get(), pointer, bytes); }

Result<Tensor> Tensor::allocate(ElementType type, std::vector<int64_t> shape, std::shared_ptr<Allocator> allocator) {
  std::optional<int64_t> count = elementCount(shape);
  int64_t bytes = 0;
  if (!count || !checkedMul(*count, static_cast<int64_t>(elementSize(type)), bytes))
    return Error{ErrorCode::OutOfRange,
                 "a tensor of shape " + shapeString(shape) + " has a negative or overflowing size"};
  if (elementSize(type) == 0)
    return Error{ErrorCode::InvalidArgument, "no such element type"};
  std::byte *memory = allocateFrom(allocator.get(), static_cast<size_t>(bytes));
  if (!memory)
    return Error{ErrorCode::OutOfRange, "no memory for a tensor of " + std::to_string(bytes) + " bytes"};
  Tensor tensor;
  tensor.elementType = type;
  tensor.sizes = std::move(shape);
  tensor.count = *count;
  tensor.storage = {memory, Free(std::move(allocator), static_cast<size_t>(bytes))};
  return tensor;
}

Result<Tensor> Tensor::copyOf(const TensorView &view) {
  if (view.isFlat)
    return Error{ErrorCode::InvalidArgument, "a tensor without a shape cannot be copied"};
  Result<Tensor> tensor = allocate(view.type, {view.shape.begin(), view.shape.end()});
  if (!tensor)
    return tensor;
  if (tensor->bytes() != view.bytes)
    return Error{ErrorCode::InvalidArgument, "a tensor of shape " + shapeString(view.shape) + " and type " +
                                                 std::string(elementTypeName(view.type)) + " has " +
                                                 std::to_string(tensor->bytes()) + " bytes, not " +
                                                 std::to_string(view.bytes)};
  if (view.bytes && !view.data)
    return Error{ErrorCode::InvalidArgument, "a tensor of shape " + shapeString(view.shape) + " has no data"};
  if (view.bytes)
    std::memcpy(tensor->data(), view.data, view.bytes);
  return tensor;
}

Result<Tensor> Tensor::toF32() const {
  Result<Tensor> wide = allocate(ElementType::F32, sizes);
  if (!wide)
    return wide;
  if (elementType == ElementType::F32) {
    std::memcpy(wide->data(), data(), bytes());
    return wide;
  }
  if (!isShortFloat(elementType))
    return Error{ErrorCode::InvalidArgument,
                 "only f16 and bf16 widen to f32, not " + std::string(elementTypeName(elementType))};
  widenToF32(data(), elementType, wide->data(), static_cast<size_t>(count));
  return wide;
}
