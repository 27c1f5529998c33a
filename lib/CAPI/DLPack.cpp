//===- DLPack.cpp - tensors from and for other libraries ------------------===//
#include "Handles.h"

#include "rlx/Data/ElementType.h"

using namespace rlx;
using namespace rlx::capi;
using data::ElementType;

// The layout that other libraries have.
static_assert(offsetof(rlx_dl_tensor, device) == sizeof(void *) &&
              offsetof(rlx_dl_tensor, ndim) == sizeof(void *) + 8 &&
              offsetof(rlx_dl_tensor, dtype) == sizeof(void *) + 12 &&
              offsetof(rlx_dl_tensor, shape) == sizeof(void *) + 16 &&
              offsetof(rlx_dl_managed_tensor, manager_ctx) == sizeof(rlx_dl_tensor));
static_assert(offsetof(rlx_dl_managed_tensor_versioned, manager_ctx) == 8 &&
              offsetof(rlx_dl_managed_tensor_versioned, deleter) == 8 + sizeof(void *) &&
              offsetof(rlx_dl_managed_tensor_versioned, flags) == 8 + 2 * sizeof(void *) &&
              offsetof(rlx_dl_managed_tensor_versioned, dl_tensor) == 16 + 2 * sizeof(void *));

namespace {

enum DeviceType { Cpu = 1 };
enum TypeCode : uint8_t { Int = 0, UInt = 1, Float = 2, BFloat = 4, Bool = 6 };

std::optional<ElementType> elementType(uint8_t code, uint8_t bits) {
  switch (code) {
  case Int:
    return bits == 8    ? std::optional(ElementType::I8)
           : bits == 16 ? std::optional(ElementType::I16)
           : bits == 32 ? std::optional(ElementType::I32)
           : bits == 64 ? std::optional(ElementType::I64)
                        : std::nullopt;
  case UInt:
    return bits == 8    ? std::optional(ElementType::U8)
           : bits == 16 ? std::optional(ElementType::U16)
           : bits == 32 ? std::optional(ElementType::U32)
           : bits == 64 ? std::optional(ElementType::U64)
                        : std::nullopt;
  case Float:
    return bits == 16   ? std::optional(ElementType::F16)
           : bits == 32 ? std::optional(ElementType::F32)
           : bits == 64 ? std::optional(ElementType::F64)
                        : std::nullopt;
  case BFloat:
    return bits == 16 ? std::optional(ElementType::BF16) : std::nullopt;
  case Bool:
    return bits == 8 ? std::optional(ElementType::I1) : std::nullopt;
  }
  return std::nullopt;
}

TypeCode typeCode(ElementType type) {
  if (type == ElementType::I1)
    return Bool;
  if (type == ElementType::BF16)
    return BFloat;
  return isFloatType(type) ? Float : isUnsignedType(type) ? UInt : Int;
}

/// Row-major without gaps, as far as anybody can tell.
bool isContiguous(std::span<const int64_t> shape, const int64_t *strides) {
  int64_t expected = 1;
  for (size_t axis = shape.size(); axis-- != 0;) {
    if (shape[axis] != 1 && strides[axis] != expected)
      return false;
    expected *= shape[axis];
  }
  return true;
}

/// Copies `shape` elements of T, of one axis at least, that lie at multiples of `strides` to `to`, in order.
template <typename T> T *gather(std::span<const int64_t> shape, const int64_t *strides, const std::byte *from, T *to) {
  for (int64_t i = 0; i != shape[0]; ++i) {
    // Of one element any stride may be said.
    const std::byte *at = from + i * strides[0] * static_cast<int64_t>(sizeof(T));
    if (shape.size() == 1)
      std::memcpy(to++, at, sizeof(T));
    else
      to = gather(shape.subspan(1), strides + 1, at, to);
  }
  return to;
}

/// Whether no element lies further than addresses reach.
bool isReachable(std::span<const int64_t> shape, const int64_t *strides, size_t width) {
  int64_t below = 0, above = 0;
  for (size_t axis = 0; axis != shape.size(); ++axis) {
    int64_t reach;
    if (__builtin_mul_overflow(shape[axis] - 1, strides[axis], &reach) ||
        __builtin_mul_overflow(reach, static_cast<int64_t>(width), &reach) ||
        __builtin_add_overflow(reach < 0 ? below : above, reach, reach < 0 ? &below : &above))
      return false;
  }
  return true;
}

/// What is given away, of one exchange or the other.
template <typename Exchange> struct Managed {
  Exchange tensor;
  rlx_tensor *owner;
  std::vector<int64_t> shape, strides;
};

template <typename Exchange> void deleteManaged(Exchange *self) {
  auto *managed = static_cast<Managed<Exchange> *>(self->manager_ctx);
  managed->owner->release();
  delete managed;
}

template <typename Exchange> Exchange *share(rlx_tensor *tensor) {
  auto *made = new Managed<Exchange>{};
  made->owner = tensor;
  made->shape = tensor->tensor.shape();
  made->strides.resize(made->shape.size());
  int64_t stride = 1;
  for (size_t axis = made->shape.size(); axis-- != 0;) {
    made->strides[axis] = stride;
    // A size of 0 or sizes whose product overflows beside one: what the strides are does not matter then.
    if (tensor->tensor.elements())
      stride *= made->shape[axis];
  }
  rlx_dl_tensor &to = made->tensor.dl_tensor;
  ElementType type = tensor->tensor.type();
  to.data = tensor->tensor.data();
  to.device.device_type = static_cast<decltype(to.device.device_type)>(Cpu);
  to.ndim = static_cast<int32_t>(made->shape.size());
  to.dtype.code = typeCode(type);
  to.dtype.bits = static_cast<uint8_t>(elementSize(type) * 8);
  to.dtype.lanes = 1;
  to.shape = made->shape.data();
  to.strides = made->strides.data();
  made->tensor.manager_ctx = made;
  made->tensor.deleter = deleteManaged<Exchange>;
  tensor->users.fetch_add(1, std::memory_order_relaxed);
  return &made->tensor;
}

} // namespace

rlx_status *rlx_tensor_to_dlpack(rlx_tensor *tensor, rlx_dl_managed_tensor **managed) {
  return guarded([&]() -> rlx_status * {
    RLX_CAPI_GIVEN(managed);
    *managed = nullptr;
    RLX_CAPI_ALIVE(tensor);
    *managed = share<rlx_dl_managed_tensor>(tensor);
    return nullptr;
  });
}

rlx_status *rlx_tensor_to_dlpack_versioned(rlx_tensor *tensor, rlx_dl_managed_tensor_versioned **managed) {
  return guarded([&]() -> rlx_status * {
    RLX_CAPI_GIVEN(managed);
    *managed = nullptr;
    RLX_CAPI_ALIVE(tensor);
    *managed = share<rlx_dl_managed_tensor_versioned>(tensor);
    (*managed)->version = {1, 0};
    return nullptr;
  });
}

rlx_status *rlx_input_from_dlpack_versioned(const rlx_dl_managed_tensor_versioned *managed, const char *name,
                                            rlx_input *input, rlx_tensor **copy) {
  rlx_status *status = guarded([&]() -> rlx_status * {
    if (copy)
      *copy = nullptr;
    RLX_CAPI_GIVEN(managed);
    if (managed->version.major != 1)
      return fail(
          Error{ErrorCode::Unsupported, (name ? "input '" + std::string(name) + "'" : std::string("a DLPack tensor")) +
                                            " is of DLPack " + std::to_string(managed->version.major) + "." +
                                            std::to_string(managed->version.minor) + ", but must be of version 1"});
    return nullptr;
  });
  return status ? status : rlx_input_from_dlpack(&managed->dl_tensor, name, input, copy);
}

rlx_status *rlx_input_from_dlpack(const rlx_dl_tensor *tensor, const char *name, rlx_input *input, rlx_tensor **copy) {
  return guarded([&]() -> rlx_status * {
    if (copy)
      *copy = nullptr;
    RLX_CAPI_GIVEN(tensor);
    RLX_CAPI_GIVEN(input);
    auto wrong = [&](const std::string &text) {
      return invalid((name ? "input '" + std::string(name) + "'" : std::string("a DLPack tensor")) + " " + text);
    };
    if (static_cast<int32_t>(tensor->device.device_type) != Cpu)
      return wrong("is on a device of DLPack's type " + std::to_string(static_cast<int>(tensor->device.device_type)) +
                   ", but must be on the CPU");
    if (tensor->dtype.lanes != 1)
      return wrong("has elements of " + std::to_string(tensor->dtype.lanes) + " lanes, but must have 1");
    std::optional<ElementType> type = elementType(tensor->dtype.code, tensor->dtype.bits);
    if (!type)
      return wrong("has elements of DLPack's type " + std::to_string(tensor->dtype.code) + " with " +
                   std::to_string(tensor->dtype.bits) + " bits, which rlx has not");
    if (tensor->ndim < 0 || tensor->ndim > kMaxRank)
      return wrong("has rank " + std::to_string(tensor->ndim));
    if (tensor->ndim && !tensor->shape)
      return wrong("has no shape");
    std::span<const int64_t> shape(tensor->shape, static_cast<size_t>(tensor->ndim));
    std::optional<int64_t> elements = elementCount(shape);
    size_t width = elementSize(*type);
    int64_t bytes = 0;
    if (!elements || __builtin_mul_overflow(*elements, static_cast<int64_t>(width), &bytes))
      return wrong("has a size that is negative or does not fit: " + shapeString(shape));
    if (bytes && !tensor->data)
      return wrong("has no data");
    // With no data there is nothing to be off from.
    const auto *data = tensor->data ? static_cast<const std::byte *>(tensor->data) + tensor->byte_offset : nullptr;
    if (bytes && tensor->strides && !isContiguous(shape, tensor->strides)) {
      if (!copy)
        return wrong("has strides that are not row-major: it has to be copied");
      if (!isReachable(shape, tensor->strides, width))
        return wrong("has strides that do not fit");
      Result<Tensor> made = Tensor::allocate(*type, {shape.begin(), shape.end()});
      if (!made)
        return fail(made.takeError());
      switch (width) {
      case 1:
        gather(shape, tensor->strides, data, static_cast<uint8_t *>(made->data()));
        break;
      case 2:
        gather(shape, tensor->strides, data, static_cast<uint16_t *>(made->data()));
        break;
      case 4:
        gather(shape, tensor->strides, data, static_cast<uint32_t *>(made->data()));
        break;
      default:
        gather(shape, tensor->strides, data, static_cast<uint64_t *>(made->data()));
        break;
      }
      data = static_cast<const std::byte *>(made->data());
      *copy = makeTensor(std::move(*made));
    }
    *input = {name, data, static_cast<size_t>(bytes), tensor->shape, tensor->ndim, fromType(*type), 0};
    return nullptr;
  });
}
