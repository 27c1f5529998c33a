//===- Safetensors.cpp - weights in a .safetensors file -------------------===//
//
// Eight bytes of header length, a JSON header {name: {dtype, shape,
// data_offsets}}, then the data the offsets count into. The header is read as a
// stream of events by a small state machine that accepts this form and no other.
//
//===----------------------------------------------------------------------===//
#include "CheckedMath.h"
#include "rlx/Runtime/Tensor.h"
#include "rlx/Runtime/WeightTable.h"
#include "rlx/Support/Files.h"

#include <nlohmann/json.hpp>

#include <algorithm>

using namespace rlx;
using data::ElementType;

namespace {
constexpr uint64_t kMaxHeader = 100u << 20; // the format's own limit
constexpr size_t kMaxRank = 64;
constexpr std::string_view kMetadata = "__metadata__";

struct TypeName {
  std::string_view name;
  ElementType type;
};
constexpr TypeName kTypes[] = {{"BOOL", ElementType::I1}, {"I8", ElementType::I8},     {"I16", ElementType::I16},
                               {"I32", ElementType::I32}, {"I64", ElementType::I64},   {"U8", ElementType::U8},
                               {"U16", ElementType::U16}, {"U32", ElementType::U32},   {"U64", ElementType::U64},
                               {"F16", ElementType::F16}, {"BF16", ElementType::BF16}, {"F32", ElementType::F32},
                               {"F64", ElementType::F64}};

struct Entry {
  std::string name;
  std::optional<ElementType> type;
  std::optional<std::vector<int64_t>> shape;
  std::optional<std::vector<uint64_t>> offsets;
};

/// Receives the events of the header's JSON.
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
public:
  std::vector<Entry> entries;
  std::string problem;

  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("a boolean"); }
  bool number_integer(number_integer_t) override { return unexpected("a negative number"); }
  bool number_float(number_float_t, const string_t &) override { return unexpected("a fraction"); }
  bool binary(binary_t &) override { return unexpected("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (state == State::Shape) {
      if (value > static_cast<uint64_t>(INT64_MAX) || entries.back().shape->size() == kMaxRank)
        return fail("has a shape that is too large");
      entries.back().shape->push_back(static_cast<int64_t>(value));
      return true;
    }
    if (state == State::Offsets) {
      if (entries.back().offsets->size() == 2)
        return fail("has more than two data_offsets");
      entries.back().offsets->push_back(value);
      return true;
    }
    return unexpected("a number");
  }
  bool string(string_t &value) override {
    if (state == State::MetadataValue) {
      state = State::Metadata;
      return true;
    }
    if (state != State::Type)
      return unexpected("a string");
    for (const TypeName &known : kTypes)
      if (known.name == value)
        entries.back().type = known.type;
    if (!entries.back().type)
      return fail("has the unknown dtype '" + value.substr(0, 40) + "'");
    state = State::Tensor;
    return true;
  }
  bool start_object(size_t) override {
    switch (state) {
    case State::Start:
      state = State::Top;
      return true;
    case State::MetadataObject:
      state = State::Metadata;
      return true;
    case State::TensorObject:
      state = State::Tensor;
      return true;
    default:
      return unexpected("an object");
    }
  }
  bool key(string_t &name) override {
    if (state == State::Top) {
      if (name == kMetadata) {
        state = State::MetadataObject;
      } else {
        entries.push_back(Entry{name, {}, {}, {}});
        state = State::TensorObject;
      }
      return true;
    }
    if (state == State::Metadata) {
      state = State::MetadataValue;
      return true;
    }
    // The parser calls key() in objects only, so this is a tensor's.
    Entry &entry = entries.back();
    if (name == "dtype" && !entry.type)
      state = State::Type;
    else if (name == "shape" && !entry.shape)
      state = State::ShapeArray;
    else if (name == "data_offsets" && !entry.offsets)
      state = State::OffsetsArray;
    else
      return fail("has an unknown or repeated field '" + name.substr(0, 40) + "'");
    return true;
  }
  bool end_object() override {
    if (state == State::Tensor) {
      const Entry &entry = entries.back();
      if (!entry.type || !entry.shape || !entry.offsets || entry.offsets->size() != 2)
        return fail("lacks dtype, shape or data_offsets");
    }
    state = State::Top;
    return true;
  }
  bool start_array(size_t) override {
    if (state == State::ShapeArray) {
      entries.back().shape.emplace();
      state = State::Shape;
      return true;
    }
    if (state == State::OffsetsArray) {
      entries.back().offsets.emplace();
      state = State::Offsets;
      return true;
    }
    return unexpected("an array");
  }
  bool end_array() override {
    state = State::Tensor;
    return true;
  }
  bool parse_error(size_t position, const std::string &, const nlohmann::detail::exception &) override {
    problem = "its header is not JSON at byte " + std::to_string(position);
    return false;
  }

private:
  enum class State {
    Start,
    Top,
    MetadataObject,
    Metadata,
    MetadataValue,
    TensorObject,
    Tensor,
    Type,
    ShapeArray,
    Shape,
    OffsetsArray,
    Offsets
  };
  State state = State::Start;

  bool fail(const std::string &text) {
    problem = "tensor '" + entries.back().name + "' " + text;
    return false;
  }
  bool unexpected(const char *what) {
    problem = entries.empty()
                  ? std::string("its header holds ") + what + " where it must not"
                  : "near tensor '" + entries.back().name + "' the header holds " + what + " where it must not";
    return false;
  }
};
} // namespace

Result<std::shared_ptr<WeightTable>> WeightTable::openSafetensors(const std::string &path) {
  Result<MappedFile> mapped = mapFile(path);
  if (!mapped)
    return mapped.takeError();
  std::span<const std::byte> file = mapped->bytes;
  auto bad = [&](const std::string &text) { return Error{ErrorCode::InvalidModel, "'" + path + "': " + text}; };
  if (file.size() < 8)
    return bad("too short for a .safetensors file");
  uint64_t headerBytes = 0;
  for (int i = 7; i >= 0; --i)
    headerBytes = headerBytes << 8 | std::to_integer<uint64_t>(file[static_cast<size_t>(i)]);
  if (headerBytes > kMaxHeader)
    return bad("its header claims " + std::to_string(headerBytes) + " bytes, more than the format allows");
  if (headerBytes > file.size() - 8)
    return bad("it is truncated: the header has " + std::to_string(headerBytes) + " bytes, the file " +
               std::to_string(file.size() - 8) + " after its first eight");

  HeaderReader header;
  const char *text = reinterpret_cast<const char *>(file.data() + 8);
  if (!nlohmann::json::sax_parse(text, text + headerBytes, &header))
    return bad(header.problem.empty() ? "its header is not JSON" : header.problem);

  std::span<const std::byte> data = file.subspan(8 + headerBytes);
  // In the order of their data, so that overlap is between neighbours.
  std::sort(header.entries.begin(), header.entries.end(), [](const Entry &a, const Entry &b) {
    return std::pair(*a.offsets, a.name) < std::pair(*b.offsets, b.name);
  });
  auto result = std::make_shared<WeightTable>();
  uint64_t end = 0;
  for (Entry &entry : header.entries) {
    uint64_t from = (*entry.offsets)[0], to = (*entry.offsets)[1];
    if (from > to || to > data.size())
      return bad("tensor '" + entry.name + "' has bytes " + std::to_string(from) + " to " + std::to_string(to) +
                 ", but the file holds " + std::to_string(data.size()) + " (is it truncated?)");
    if (from < end)
      return bad("tensor '" + entry.name + "' overlaps another one");
    end = to;
    Status added = result->add(entry.name, WeightRow{*entry.type, std::move(*entry.shape),
                                                     data.subspan(from, to - from), mapped->owner,
                                                     /*mapped=*/true});
    if (!added)
      return bad(added.error().message);
  }
  return result;
}

namespace {
Result<std::string> quoted(const std::string &name) {
  static constexpr char hex[] = "0123456789abcdef";
  std::string text = "\"";
  for (char c : name) {
    if (c == '"' || c == '\\')
      text += std::string("\\") + c;
    else if (static_cast<unsigned char>(c) < 0x20)
      text += std::string("\\u00") + hex[(c >> 4) & 15] + hex[c & 15];
    else
      text += c;
  }
  text += '"';
  if (name == kMetadata || !nlohmann::json::accept(text))
    return Error{ErrorCode::InvalidArgument, "a weight named " + text + " cannot be written to a .safetensors file"};
  return text;
}
} // namespace

Status WeightTable::writeSafetensors(const std::string &path) const {
  // Wider elements first: with a header of a multiple of 64 bytes every tensor is
  // aligned in the mapped file without holes, which other readers refuse.
  std::vector<std::pair<const std::string *, const WeightRow *>> order;
  for (const auto &[name, row] : table)
    order.emplace_back(&name, &row);
  std::sort(order.begin(), order.end(), [](const auto &a, const auto &b) {
    size_t wide = elementSize(a.second->type), narrow = elementSize(b.second->type);
    return wide != narrow ? wide > narrow : *a.first < *b.first;
  });
  std::string header = "{";
  uint64_t offset = 0;
  for (const auto &[name, row] : order) {
    Result<std::string> text = quoted(*name);
    if (!text)
      return text.takeError();
    const auto *type = std::find_if(std::begin(kTypes), std::end(kTypes),
                                    [&](const TypeName &known) { return known.type == row->type; });
    header += (header.size() > 1 ? "," : "") + *text + ":{\"dtype\":\"" + std::string(type->name) +
              "\",\"shape\":" + shapeString(row->shape) + ",\"data_offsets\":[" + std::to_string(offset) + "," +
              std::to_string(offset + row->bytes.size()) + "]}";
    offset += row->bytes.size();
  }
  header += "}";
  header.append((64 - (header.size() + 8) % 64) % 64, ' ');
  if (header.size() > kMaxHeader)
    return Error{ErrorCode::OutOfRange, "'" + path + "': too many weights for the header of a .safetensors file"};

  Result<AtomicFile> file = AtomicFile::create(path);
  if (!file)
    return file.takeError();
  std::byte length[8];
  for (int i = 0; i != 8; ++i)
    length[i] = static_cast<std::byte>(header.size() >> (8 * i));
  Status status = file->write(length);
  if (status)
    status = file->write(std::as_bytes(std::span(header)));
  for (const auto &[name, row] : order)
    if (status)
      status = file->write(row->bytes);
  return status ? file->commit() : status;
}
