//===- TensorProto.cpp - ONNX's tensor files ------------------------------===//
#include "rlx/Tools/TensorProto.h"

#include <algorithm>
#include <climits>
#include <cstring>
#include <fmt/format.h>
#include <onnx/onnx_pb.h>

namespace rlx::tools {

using data::ElementType;
using onnx::TensorProto;

namespace {

Error bad(std::string message) { return Error{ErrorCode::InvalidArgument, std::move(message)}; }

struct TypePair {
  int onnx;
  ElementType type;
};
constexpr TypePair kTypes[] = {
    {TensorProto::FLOAT, ElementType::F32},     {TensorProto::UINT8, ElementType::U8},
    {TensorProto::INT8, ElementType::I8},       {TensorProto::UINT16, ElementType::U16},
    {TensorProto::INT16, ElementType::I16},     {TensorProto::INT32, ElementType::I32},
    {TensorProto::INT64, ElementType::I64},     {TensorProto::BOOL, ElementType::I1},
    {TensorProto::FLOAT16, ElementType::F16},   {TensorProto::DOUBLE, ElementType::F64},
    {TensorProto::UINT32, ElementType::U32},    {TensorProto::UINT64, ElementType::U64},
    {TensorProto::BFLOAT16, ElementType::BF16},
};

/// Copies one of the typed fields, element by element, as `To`.
template <typename To, typename Field> Status fill(Tensor &tensor, const Field &field) {
  if (field.size() != tensor.elements())
    return bad(fmt::format("shape {} has {} elements, but it holds {}", shapeString(tensor.shape()), tensor.elements(),
                           field.size()));
  To *target = static_cast<To *>(tensor.data());
  for (int i = 0; i < field.size(); ++i)
    target[i] = static_cast<To>(field.Get(i));
  return Status::ok();
}

Status fillTyped(Tensor &tensor, const TensorProto &proto) {
  switch (tensor.type()) {
  case ElementType::F32:
    return fill<float>(tensor, proto.float_data());
  case ElementType::F64:
    return fill<double>(tensor, proto.double_data());
  case ElementType::I64:
    return fill<int64_t>(tensor, proto.int64_data());
  case ElementType::U64:
    return fill<uint64_t>(tensor, proto.uint64_data());
  case ElementType::U32:
    return fill<uint32_t>(tensor, proto.uint64_data());
  case ElementType::I32:
    return fill<int32_t>(tensor, proto.int32_data());
  case ElementType::I16:
    return fill<int16_t>(tensor, proto.int32_data());
  case ElementType::U16:
  case ElementType::F16:
  case ElementType::BF16: // half floats lie in int32_data as their bits
    return fill<uint16_t>(tensor, proto.int32_data());
  case ElementType::I8:
  case ElementType::U8:
  case ElementType::I1:
    return fill<uint8_t>(tensor, proto.int32_data());
  }
  return bad("unknown element type");
}

/// Elements held in a typed field: what a tensor without raw data may be as large as.
int64_t typedElements(const TensorProto &proto) {
  return std::max({proto.float_data_size(), proto.double_data_size(), proto.int32_data_size(), proto.int64_data_size(),
                   proto.uint64_data_size()});
}

} // namespace

Result<Tensor> decodeTensorProto(std::span<const std::byte> file) {
  TensorProto proto;
  if (file.size() > INT_MAX || !proto.ParseFromArray(file.data(), static_cast<int>(file.size())))
    return bad("not an ONNX tensor (TensorProto) file");
  if (proto.data_location() == TensorProto::EXTERNAL || proto.external_data_size() != 0)
    return bad("its data lies in another file, which is not read here");
  if (proto.has_segment())
    return bad("it is one segment of a larger tensor, which is not read here");
  if (proto.data_type() == TensorProto::UNDEFINED)
    return bad("not an ONNX tensor (TensorProto) file: it has no element type");
  const TypePair *known = std::ranges::find(kTypes, proto.data_type(), &TypePair::onnx);
  if (known == std::end(kTypes)) {
    std::string name = TensorProto::DataType_IsValid(proto.data_type())
                           ? TensorProto::DataType_Name(static_cast<TensorProto::DataType>(proto.data_type()))
                           : fmt::to_string(proto.data_type());
    return Error{ErrorCode::Unsupported, fmt::format("its element type {} has no rlx type", name)};
  }
  ElementType type = known->type;
  if (proto.dims_size() > 32)
    return bad(fmt::format("its rank {} is too large", proto.dims_size()));
  std::vector<int64_t> shape(proto.dims().begin(), proto.dims().end());
  std::optional<int64_t> elements = elementCount(shape);
  int64_t wanted = 0;
  if (!elements || __builtin_mul_overflow(*elements, static_cast<int64_t>(elementSize(type)), &wanted))
    return bad(fmt::format("its shape {} is negative or too large", shapeString(shape)));
  // Sizes are compared with the bytes that are there before anything is allocated.
  size_t have = proto.raw_data().size();
  if (proto.has_raw_data() && have != static_cast<size_t>(wanted))
    return bad(fmt::format("shape {} of {} takes {} bytes of data, but it has {}", shapeString(shape),
                           elementTypeName(type), wanted, have));
  if (!proto.has_raw_data() && *elements > typedElements(proto))
    return bad(
        fmt::format("shape {} has {} elements, but it holds {}", shapeString(shape), *elements, typedElements(proto)));
  Result<Tensor> tensor = Tensor::allocate(type, std::move(shape));
  if (!tensor)
    return tensor;
  if (!proto.has_raw_data()) {
    if (Status status = fillTyped(*tensor, proto); !status)
      return status.takeError();
  } else if (wanted != 0) {
    std::memcpy(tensor->data(), proto.raw_data().data(), static_cast<size_t>(wanted));
  }
  if (type == ElementType::I1)
    for (uint8_t &value : tensor->as<uint8_t>())
      value = value != 0;
  return tensor;
}

std::vector<std::byte> encodeTensorProto(const TensorView &tensor, const std::string &name) {
  TensorProto proto;
  proto.set_name(name);
  if (const TypePair *pair = std::ranges::find(kTypes, tensor.type, &TypePair::type); pair != std::end(kTypes))
    proto.set_data_type(pair->onnx);
  for (int64_t size : tensor.shape)
    proto.add_dims(size);
  proto.set_raw_data(tensor.data, tensor.bytes);
  std::string text = proto.SerializeAsString();
  std::vector<std::byte> file(text.size());
  if (!text.empty())
    std::memcpy(file.data(), text.data(), text.size());
  return file;
}

} // namespace rlx::tools
