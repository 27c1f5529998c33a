//===- Npy.cpp - numpy's array files --------------------------------------===//
#include "rlx/Tools/Npy.h"

#include "rlx/Tools/Elements.h"

#include <charconv>
#include <cstring>
#include <fmt/format.h>

namespace rlx::tools {

using data::ElementType;

namespace {

Error bad(std::string message) { return Error{ErrorCode::InvalidArgument, std::move(message)}; }

constexpr std::string_view kMagic("\x93NUMPY", 6);
/// numpy pads headers to a few hundred bytes; structured types, which are not read here, are what makes one long.
constexpr size_t kHeaderLimit = 65536;

struct TypeCode {
  std::string_view code;
  ElementType type;
};
constexpr TypeCode kTypes[] = {
    {"b1", ElementType::I1},  {"i1", ElementType::I8},  {"i2", ElementType::I16}, {"i4", ElementType::I32},
    {"i8", ElementType::I64}, {"u1", ElementType::U8},  {"u2", ElementType::U16}, {"u4", ElementType::U32},
    {"u8", ElementType::U64}, {"f2", ElementType::F16}, {"f4", ElementType::F32}, {"f8", ElementType::F64},
};

Result<ElementType> parseType(std::string_view text) {
  if (text.size() >= 2) {
    char order = text.front();
    for (const TypeCode &entry : kTypes) {
      if (text.substr(1) != entry.code)
        continue;
      if (order == '<' || (order == '|' && entry.code[1] == '1') || order == '=')
        return entry.type;
      if (order == '>')
        return bad(fmt::format("its data is big endian ('{}'); only little endian is read", text));
    }
  }
  return bad(fmt::format("its element type '{}' has no rlx type", text));
}

/// Reads the header: a Python dict display of exactly the keys descr,
/// fortran_order and shape, in any order.
class HeaderReader {
public:
  explicit HeaderReader(std::string_view text) : text(text) {}

  Status read() {
    if (!take('{'))
      return malformed();
    while (!take('}')) {
      std::string_view key;
      if (!readString(key) || !take(':'))
        return malformed();
      if (key == "descr") {
        std::string_view code;
        if (peek() == '[' || peek() == '(')
          return bad("its elements are records; only plain numbers are read");
        if (haveType || !readString(code))
          return malformed();
        Result<ElementType> parsed = parseType(code);
        if (!parsed)
          return parsed.takeError();
        type = *parsed;
        haveType = true;
      } else if (key == "fortran_order") {
        if (haveOrder || !readBool(columnMajor))
          return malformed();
        haveOrder = true;
      } else if (key == "shape") {
        if (haveShape || !readShape())
          return malformed();
        haveShape = true;
      } else {
        return bad(fmt::format("its header has the unknown key '{}'", key));
      }
      if (!take(',') && peek() != '}')
        return malformed();
    }
    skip();
    if (position != text.size() || !haveType || !haveOrder || !haveShape)
      return malformed();
    return Status::ok();
  }

  ElementType type = ElementType::F32;
  bool columnMajor = false;
  std::vector<int64_t> shape;

private:
  static Error malformed() { return bad("its header is not one that numpy writes"); }
  void skip() {
    while (position < text.size() && (text[position] == ' ' || text[position] == '\n'))
      ++position;
  }
  char peek() {
    skip();
    return position < text.size() ? text[position] : '\0';
  }
  bool take(char c) {
    if (peek() != c)
      return false;
    ++position;
    return true;
  }
  bool readString(std::string_view &out) {
    char quote = peek();
    if (quote != '\'' && quote != '"')
      return false;
    size_t end = text.find(quote, position + 1);
    if (end == std::string_view::npos)
      return false;
    out = text.substr(position + 1, end - position - 1);
    position = end + 1;
    return out.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_<>|=") ==
           std::string_view::npos;
  }
  bool readBool(bool &out) {
    skip();
    for (auto [word, value] : {std::pair<std::string_view, bool>{"True", true}, {"False", false}}) {
      if (text.substr(position, word.size()) != word)
        continue;
      position += word.size();
      out = value;
      return true;
    }
    return false;
  }
  bool readShape() {
    if (!take('('))
      return false;
    while (!take(')')) {
      skip();
      int64_t size = 0;
      const char *begin = text.data() + position, *end = text.data() + text.size();
      auto [next, failure] = std::from_chars(begin, end, size);
      if (failure != std::errc() || size < 0 || shape.size() == 32)
        return false;
      position += static_cast<size_t>(next - begin);
      shape.push_back(size);
      take('L'); // Python 2 wrote long integers so
      if (!take(',') && peek() != ')')
        return false;
    }
    return true;
  }

  std::string_view text;
  size_t position = 0;
  bool haveType = false, haveOrder = false, haveShape = false;
};

/// Copies column-major elements to row-major order.
void toRowMajor(const std::byte *source, std::byte *target, const std::vector<int64_t> &shape, int64_t width,
                int64_t elements) {
  std::vector<int64_t> index(shape.size(), 0), strides(shape.size());
  int64_t stride = 1;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    strides[axis] = stride;
    stride *= shape[axis];
  }
  int64_t from = 0;
  for (int64_t i = 0; i < elements; ++i) {
    std::memcpy(target + i * width, source + from * width, static_cast<size_t>(width));
    for (size_t axis = shape.size(); axis-- > 0;) {
      from += strides[axis];
      if (++index[axis] < shape[axis])
        break;
      from -= strides[axis] * shape[axis];
      index[axis] = 0;
    }
  }
}

} // namespace

Result<Tensor> decodeNpy(std::span<const std::byte> file) {
  std::string_view text(reinterpret_cast<const char *>(file.data()), file.size());
  if (text.size() < 10 || text.substr(0, 6) != kMagic)
    return bad("not a .npy file (its first bytes are not numpy's)");
  unsigned version = static_cast<unsigned char>(text[6]);
  if (version < 1 || version > 3 || text[7] != 0)
    return bad(fmt::format(".npy format {}.{} is not known; 1.0 to 3.0 are", version,
                           unsigned(static_cast<unsigned char>(text[7]))));
  size_t start = version == 1 ? 10 : 12, length = 0;
  if (text.size() < start)
    return bad("truncated in its header");
  for (size_t i = start; i-- > 8;)
    length = length << 8 | static_cast<unsigned char>(text[i]);
  if (length > text.size() - start)
    return bad("truncated in its header");
  if (length > kHeaderLimit)
    return bad(fmt::format("its header of {} bytes is longer than numpy writes for plain numbers", length));
  HeaderReader header(text.substr(start, length));
  if (Status status = header.read(); !status)
    return status.takeError();

  std::optional<int64_t> elements = elementCount(header.shape);
  int64_t width = static_cast<int64_t>(elementSize(header.type)), wanted = 0;
  if (!elements || __builtin_mul_overflow(*elements, width, &wanted))
    return bad(fmt::format("its shape {} is too large", shapeString(header.shape)));
  size_t have = text.size() - start - length;
  if (have != static_cast<size_t>(wanted))
    return bad(fmt::format("shape {} of {} takes {} bytes of data, but it has {}", shapeString(header.shape),
                           elementTypeName(header.type), wanted, have));
  Result<Tensor> tensor = Tensor::allocate(header.type, header.shape);
  if (!tensor)
    return tensor;
  const std::byte *source = file.data() + start + length;
  auto *target = static_cast<std::byte *>(tensor->data());
  if (header.columnMajor && header.shape.size() > 1)
    toRowMajor(source, target, header.shape, width, *elements);
  else if (wanted != 0)
    std::memcpy(target, source, static_cast<size_t>(wanted));
  if (header.type == ElementType::I1)
    for (uint8_t &value : tensor->as<uint8_t>())
      value = value != 0;
  return tensor;
}

std::vector<std::byte> encodeNpy(const TensorView &tensor) {
  std::vector<std::byte> widened;
  std::span<const std::byte> bytes(static_cast<const std::byte *>(tensor.data), tensor.bytes);
  ElementType type = tensor.type;
  if (type == ElementType::BF16) {
    type = ElementType::F32;
    widened.resize(tensor.bytes * 2);
    for (int64_t i = 0, count = static_cast<int64_t>(tensor.bytes / 2); i < count; ++i) {
      float value = static_cast<float>(floatElement(ElementType::BF16, tensor.data, i));
      std::memcpy(widened.data() + i * 4, &value, 4);
    }
    bytes = widened;
  }
  std::string_view code;
  for (const TypeCode &entry : kTypes)
    if (entry.type == type)
      code = entry.code;
  std::string shape = fmt::format("{}{}", fmt::join(tensor.shape, ", "), tensor.shape.size() == 1 ? "," : "");
  std::string header = fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': ({}), }}",
                                   elementSize(type) == 1 ? '|' : '<', code, shape);
  // Data starts at a multiple of 64, as the format asks.
  size_t total = (10 + header.size() + 1 + 63) / 64 * 64;
  header.resize(total - 10 - 1, ' ');
  header += '\n';
  std::string start(kMagic);
  start += {1, 0, static_cast<char>(header.size() & 255), static_cast<char>(header.size() >> 8)};
  start += header;
  std::vector<std::byte> file(start.size() + bytes.size());
  std::memcpy(file.data(), start.data(), start.size());
  if (!bytes.empty())
    std::memcpy(file.data() + start.size(), bytes.data(), bytes.size());
  return file;
}

} // namespace rlx::tools
