//===- Proto.cpp - ONNX files and their tensors ---------------------------===//
#include "Proto.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/Path.h"

#include "onnx/onnx_pb.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <cstring>

using namespace rlx;
using namespace rlx::onnx_import;
using rlx::data::ElementType;

static Error invalid(std::string message) { return {ErrorCode::InvalidModel, std::move(message)}; }

//===----------------------------------------------------------------------===//
// Parsing around large contents
//===----------------------------------------------------------------------===//

namespace {

using google::protobuf::MessageLite;
using Bytes = std::span<const std::byte>;

/// Raw contents longer than this stay in the file. What is shorter becomes constants of the graph, mostly.
constexpr size_t kOutsideFrom = 1024;

constexpr uint32_t kLengthDelimited = 2;
/// Bytes of a varint: protobuf takes no more for a tag or a length, and for a value.
constexpr unsigned kLongestTag = 5, kLongestVarint = 10;
constexpr uint32_t kModelGraph = 7, kGraphInitializer = 5, kTensorRawData = 9; // field numbers of onnx.proto

struct Field {
  uint32_t number, wireType;
  Bytes whole;
  Bytes payload; // of a length-delimited field
};

std::optional<uint64_t> takeVarint(Bytes &bytes, unsigned longest) {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 7 * longest && !bytes.empty(); shift += 7) {
    auto byte = std::to_integer<uint64_t>(bytes.front());
    bytes = bytes.subspan(1);
    value |= (byte & 0x7f) << shift;
    if (byte < 0x80)
      return value;
  }
  return std::nullopt;
}

/// The field at the front; nothing where there is none that is well formed, or one of a kind that ONNX does not have.
std::optional<Field> takeField(Bytes &bytes) {
  Bytes rest = bytes;
  std::optional<uint64_t> tag = takeVarint(rest, kLongestTag);
  if (!tag || *tag > UINT32_MAX || *tag >> 3 == 0)
    return std::nullopt;
  Field field{static_cast<uint32_t>(*tag >> 3), static_cast<uint32_t>(*tag & 7), {}, {}};
  std::optional<uint64_t> length;
  switch (field.wireType) {
  case 0:
    if (!takeVarint(rest, kLongestVarint))
      return std::nullopt;
    length = 0;
    break;
  case 1:
    length = 8;
    break;
  case kLengthDelimited:
    length = takeVarint(rest, kLongestTag);
    break;
  case 5:
    length = 4;
    break;
  default:
    break;
  }
  if (!length || *length > rest.size())
    return std::nullopt;
  field.payload = rest.first(static_cast<size_t>(*length));
  rest = rest.subspan(field.payload.size());
  field.whole = bytes.first(bytes.size() - rest.size());
  bytes = rest;
  return field;
}

/// Parsing pieces of a message one after another is parsing the message.
bool merge(MessageLite &message, Bytes piece) {
  google::protobuf::io::CodedInputStream stream(reinterpret_cast<const uint8_t *>(piece.data()),
                                                static_cast<int>(piece.size()));
  return piece.empty() || (message.MergePartialFromCodedStream(&stream) && stream.ConsumedEntireMessage());
}

/// Calls `special` for each field, and merges runs of those for which it gives false into `message`.
bool mergeAround(MessageLite &message, Bytes bytes, llvm::function_ref<bool(const Field &field, bool &good)> special) {
  Bytes all = bytes;
  size_t begin = 0;
  while (!bytes.empty()) {
    size_t at = all.size() - bytes.size();
    std::optional<Field> field = takeField(bytes);
    if (!field)
      return false;
    // What comes before has to be merged before, so that repeated fields keep their order.
    bool good = true;
    Bytes before = all.subspan(begin, at - begin);
    if (field->wireType != kLengthDelimited || field->payload.size() <= kOutsideFrom)
      continue;
    if (!merge(message, before))
      return false;
    begin = at;
    if (special(*field, good))
      begin = all.size() - bytes.size();
    if (!good)
      return false;
  }
  return merge(message, all.subspan(begin));
}

/// The one raw content of a tensor when it is large; nothing otherwise.
std::optional<Field> largeContent(Bytes tensor) {
  std::optional<Field> found;
  while (!tensor.empty()) {
    std::optional<Field> field = takeField(tensor);
    if (!field || (field->number == kTensorRawData && found))
      return std::nullopt;
    if (field->number == kTensorRawData && field->wireType == kLengthDelimited)
      found = field;
  }
  return found && found->payload.size() > kOutsideFrom ? found : std::nullopt;
}

/// Fills `parsed` but for large contents; false where the bytes are not of the form that this expects.
bool parseAround(Bytes bytes, ParsedModel &parsed) {
  return mergeAround(*parsed.model, bytes, [&](const Field &field, bool &good) {
    if (field.number != kModelGraph)
      return false;
    ::onnx::GraphProto &graph = *parsed.model->mutable_graph();
    good = mergeAround(graph, field.payload, [&](const Field &inner, bool &innerGood) {
      std::optional<Field> content;
      if (inner.number == kGraphInitializer)
        content = largeContent(inner.payload);
      if (!content)
        return false;
      ::onnx::TensorProto &tensor = *graph.add_initializer();
      auto before = static_cast<size_t>(content->whole.data() - inner.payload.data());
      innerGood = merge(tensor, inner.payload.first(before)) &&
                  merge(tensor, inner.payload.subspan(before + content->whole.size()));
      parsed.outside[&tensor] = content->payload;
      return true;
    });
    return true;
  });
}

} // namespace

Result<ParsedModel> rlx::onnx_import::parseModel(std::span<const std::byte> bytes, std::shared_ptr<const void> file) {
  if (bytes.empty())
    return invalid("the file is empty");
  // Protobuf counts in int; a larger message would be cut silently.
  if (bytes.size() > static_cast<size_t>(INT32_MAX))
    return invalid("the file is larger than 2 GiB, which no ONNX file can be (weights belong in external data)");
  ParsedModel parsed{std::make_shared<::onnx::ModelProto>(), {}, file};
  if (!file || !parseAround(bytes, parsed)) {
    // In one piece: protobuf has the last word on what is a message.
    parsed.outside.clear();
    google::protobuf::io::ArrayInputStream stream(bytes.data(), static_cast<int>(bytes.size()));
    // "Partial": a missing required field must not make protobuf write to stderr.
    if (!parsed.model->ParsePartialFromZeroCopyStream(&stream))
      return invalid("not an ONNX file, or a truncated one");
  }
  if (!parsed.model->has_graph())
    return invalid("not an ONNX file: it has no graph");
  return parsed;
}

std::optional<ElementType> rlx::onnx_import::elementTypeOf(int32_t onnxType) {
  switch (onnxType) {
  case ::onnx::TensorProto::FLOAT:
    return ElementType::F32;
  case ::onnx::TensorProto::UINT8:
    return ElementType::U8;
  case ::onnx::TensorProto::INT8:
    return ElementType::I8;
  case ::onnx::TensorProto::UINT16:
    return ElementType::U16;
  case ::onnx::TensorProto::INT16:
    return ElementType::I16;
  case ::onnx::TensorProto::INT32:
    return ElementType::I32;
  case ::onnx::TensorProto::INT64:
    return ElementType::I64;
  case ::onnx::TensorProto::BOOL:
    return ElementType::I1;
  case ::onnx::TensorProto::FLOAT16:
    return ElementType::F16;
  case ::onnx::TensorProto::DOUBLE:
    return ElementType::F64;
  case ::onnx::TensorProto::UINT32:
    return ElementType::U32;
  case ::onnx::TensorProto::UINT64:
    return ElementType::U64;
  case ::onnx::TensorProto::BFLOAT16:
    return ElementType::BF16;
  default:
    return std::nullopt;
  }
}

std::string rlx::onnx_import::onnxTypeName(int32_t onnxType) {
  // 1 to 16 as the packaged schema has them; later ones by their published numbers.
  static constexpr const char *names[] = {"UNDEFINED",      "FLOAT",    "UINT8",        "INT8",           "UINT16",
                                          "INT16",          "INT32",    "INT64",        "STRING",         "BOOL",
                                          "FLOAT16",        "DOUBLE",   "UINT32",       "UINT64",         "COMPLEX64",
                                          "COMPLEX128",     "BFLOAT16", "FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2",
                                          "FLOAT8E5M2FNUZ", "UINT4",    "INT4",         "FLOAT4E2M1"};
  if (onnxType >= 0 && onnxType < static_cast<int32_t>(std::size(names)))
    return names[onnxType];
  return "type " + std::to_string(onnxType);
}

size_t rlx::onnx_import::elementBytes(ElementType type) {
  switch (type) {
  case ElementType::I1:
  case ElementType::I8:
  case ElementType::U8:
    return 1;
  case ElementType::I16:
  case ElementType::U16:
  case ElementType::F16:
  case ElementType::BF16:
    return 2;
  case ElementType::I32:
  case ElementType::U32:
  case ElementType::F32:
    return 4;
  default:
    return 8;
  }
}

std::optional<int64_t> rlx::onnx_import::elementCount(std::span<const int64_t> shape) {
  // A zero extent makes the product 0, but the others must be sane all the same.
  int64_t count = 1, nonZero = 1;
  for (int64_t dim : shape) {
    if (dim < 0)
      return std::nullopt;
    if (dim != 0 && llvm::MulOverflow(nonZero, dim, nonZero))
      return std::nullopt;
    count *= dim ? 1 : 0;
  }
  return count == 0 ? 0 : nonZero;
}

std::string rlx::onnx_import::printable(std::string text) {
  auto isControl = [](unsigned char c) { return c < 0x20 || c == 0x7f; };
  if (llvm::none_of(text, isControl))
    return text;
  std::string result;
  for (char c : text) {
    if (isControl(static_cast<unsigned char>(c)))
      result += "\\x" + llvm::utohexstr(static_cast<unsigned char>(c), /*LowerCase=*/false, /*Width=*/2);
    else
      result += c;
  }
  return result;
}

/// Bytes of our own, for what must be converted or aligned.
static std::span<std::byte> allocate(TensorData &tensor, size_t size) {
  tensor.mapped = false;
  // 8-byte units, so that every element type is aligned.
  auto storage = std::make_shared<std::vector<uint64_t>>(size / 8 + 1);
  std::span<std::byte> bytes = std::as_writable_bytes(std::span<uint64_t>(*storage)).first(size);
  tensor.bytes = bytes;
  tensor.owner = std::move(storage);
  return bytes;
}

/// rlx keeps a boolean as 0 or 1; a file may hold any byte.
static void normaliseBooleans(TensorData &tensor) {
  bool clean = true;
  for (std::byte b : tensor.bytes)
    clean &= static_cast<uint8_t>(b) <= 1;
  if (clean)
    return;
  std::shared_ptr<const void> keep = tensor.owner;
  std::span<const std::byte> source = tensor.bytes;
  std::span<std::byte> target = allocate(tensor, source.size());
  for (size_t i = 0; i < source.size(); ++i)
    target[i] = static_cast<std::byte>(source[i] != std::byte{0});
}

static void alignElements(TensorData &tensor) {
  if (reinterpret_cast<uintptr_t>(tensor.bytes.data()) % elementBytes(tensor.type) == 0)
    return;
  std::shared_ptr<const void> keep = tensor.owner;
  std::span<const std::byte> source = tensor.bytes;
  std::memcpy(allocate(tensor, source.size()).data(), source.data(), source.size());
}

/// Narrows the 32- or 64-bit fields in which a TensorProto keeps small types.
template <typename Stored, typename Field> static void narrow(TensorData &tensor, const Field &field) {
  std::span<std::byte> target = allocate(tensor, field.size() * sizeof(Stored));
  for (int i = 0; i < field.size(); ++i) {
    Stored value = static_cast<Stored>(field.Get(i));
    std::memcpy(target.data() + i * sizeof(Stored), &value, sizeof(Stored));
  }
}

Result<TensorData> TensorReader::read(const ::onnx::TensorProto &tensor) {
  std::string name = "tensor '" + tensor.name() + "'";
  std::optional<ElementType> type = elementTypeOf(tensor.data_type());
  if (!type)
    return Error{ErrorCode::Unsupported,
                 name + " has element type " + onnxTypeName(tensor.data_type()) + ", which rlx does not have"};
  TensorData result;
  result.type = *type;
  result.shape.assign(tensor.dims().begin(), tensor.dims().end());
  std::optional<int64_t> count = elementCount(result.shape);
  if (!count || *count > INT64_MAX / static_cast<int64_t>(elementBytes(*type)))
    return invalid(name + " has dims that are negative or too large");
  result.elements = *count;
  uint64_t expected = static_cast<uint64_t>(*count) * elementBytes(*type);

  if (tensor.has_data_location() && tensor.data_location() == ::onnx::TensorProto::EXTERNAL)
    return readExternal(tensor, std::move(result), expected);
  if (tensor.has_segment())
    return Error{ErrorCode::Unsupported, name + " is stored in segments"};

  auto wrongSize = [&](size_t have) {
    return invalid(name + " holds " + std::to_string(have) + " elements, its dims say " + std::to_string(*count));
  };
  auto borrow = [&](const void *data) {
    result.bytes = {static_cast<const std::byte *>(data), static_cast<size_t>(expected)};
    result.owner = std::shared_ptr<const void>(parsed.model, data);
  };
  if (auto outside = parsed.outside.find(&tensor); outside != parsed.outside.end()) {
    if (outside->second.size() != expected)
      return invalid(name + " holds " + std::to_string(outside->second.size()) + " bytes, its type and dims say " +
                     std::to_string(expected));
    result.bytes = outside->second;
    result.owner = parsed.file;
    result.mapped = true;
  } else if (tensor.has_raw_data()) {
    if (tensor.raw_data().size() != expected)
      return invalid(name + " holds " + std::to_string(tensor.raw_data().size()) + " bytes, its type and dims say " +
                     std::to_string(expected));
    borrow(tensor.raw_data().data());
    alignElements(result);
  } else {
    auto size = static_cast<size_t>(*count);
    switch (*type) {
    case ElementType::F32:
      if (static_cast<size_t>(tensor.float_data_size()) != size)
        return wrongSize(tensor.float_data_size());
      borrow(tensor.float_data().data());
      break;
    case ElementType::F64:
      if (static_cast<size_t>(tensor.double_data_size()) != size)
        return wrongSize(tensor.double_data_size());
      borrow(tensor.double_data().data());
      break;
    case ElementType::I64:
      if (static_cast<size_t>(tensor.int64_data_size()) != size)
        return wrongSize(tensor.int64_data_size());
      borrow(tensor.int64_data().data());
      break;
    case ElementType::U64:
    case ElementType::U32:
      if (static_cast<size_t>(tensor.uint64_data_size()) != size)
        return wrongSize(tensor.uint64_data_size());
      if (*type == ElementType::U64)
        borrow(tensor.uint64_data().data());
      else
        narrow<uint32_t>(result, tensor.uint64_data());
      break;
    default:
      if (static_cast<size_t>(tensor.int32_data_size()) != size)
        return wrongSize(tensor.int32_data_size());
      if (*type == ElementType::I32)
        borrow(tensor.int32_data().data());
      else if (elementBytes(*type) == 1)
        narrow<uint8_t>(result, tensor.int32_data());
      else
        narrow<uint16_t>(result, tensor.int32_data());
      break;
    }
  }
  if (*type == ElementType::I1)
    normaliseBooleans(result);
  return result;
}

Result<MappedFile> TensorReader::openExternal(const std::string &location) {
  if (auto found = files.find(location); found != files.end())
    return found->second;
  if (folder.empty())
    return invalid("external data '" + location + "' is not available for a model in memory");
  auto refuse = [&] { return invalid("external data '" + location + "' lies outside the model's folder"); };
  if (location.empty() || location.find('\0') != std::string::npos || llvm::sys::path::is_absolute(location))
    return refuse();
  for (auto part = llvm::sys::path::begin(location), end = llvm::sys::path::end(location); part != end; ++part)
    if (*part == "..")
      return refuse();
  llvm::SmallString<256> path(folder);
  llvm::sys::path::append(path, location);
  // A link may still lead out; compare where both really are.
  llvm::SmallString<256> realFolder, realPath;
  if (llvm::sys::fs::real_path(folder, realFolder))
    return Error{ErrorCode::Io, "cannot open the model's folder '" + folder + "'"};
  if (std::error_code code = llvm::sys::fs::real_path(path, realPath))
    return Error{ErrorCode::Io, "cannot open external data '" + location + "': " + code.message()};
  llvm::StringRef rest = realPath;
  if (!rest.consume_front(realFolder) || !(rest.starts_with("/") || realFolder.str() == "/"))
    return refuse();
  Result<MappedFile> mapped = mapFile(std::string(realPath));
  if (!mapped)
    return mapped.takeError();
  return files.emplace(location, std::move(*mapped)).first->second;
}

Result<TensorData> TensorReader::readExternal(const ::onnx::TensorProto &tensor, TensorData result, uint64_t expected) {
  std::string name = "tensor '" + tensor.name() + "'";
  std::string location;
  uint64_t offset = 0;
  std::optional<uint64_t> length;
  for (const auto &entry : tensor.external_data()) {
    uint64_t number = 0;
    bool isNumber = !llvm::StringRef(entry.value()).getAsInteger(10, number);
    if (entry.key() == "location") {
      location = entry.value();
    } else if (entry.key() == "offset" || entry.key() == "length") {
      if (!isNumber)
        return invalid(name + ": external data has " + entry.key() + " '" + entry.value() + "', which is no size");
      if (entry.key() == "offset")
        offset = number;
      else
        length = number;
    } // checksum and keys of later versions change nothing about where the bytes lie
  }
  Result<MappedFile> mapping = openExternal(location);
  if (!mapping) {
    Error error = mapping.takeError();
    error.message = name + ": " + error.message;
    return error;
  }
  uint64_t available = mapping->bytes.size();
  if (length && *length != expected)
    return invalid(name + ": external data is " + std::to_string(*length) + " bytes long, its type and dims say " +
                   std::to_string(expected));
  if (offset > available || expected > available - offset)
    return invalid(name + ": external data reaches to byte " + std::to_string(offset) + " + " +
                   std::to_string(expected) + ", but '" + location + "' has " + std::to_string(available));
  result.bytes = mapping->bytes.subspan(offset, expected);
  result.owner = mapping->owner;
  result.mapped = true;
  if (result.type == ElementType::I1)
    normaliseBooleans(result);
  return result;
}
