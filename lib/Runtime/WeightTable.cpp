//===- WeightTable.cpp - named weights, stored once -----------------------===//
#include "rlx/Runtime/WeightTable.h"

#include "AlignedBytes.h"
#include "CheckedMath.h"
#include "rlx/Data/KernelABI.h"
#include "rlx/Runtime/Tensor.h"

#include <algorithm>
#include <cstring>

using namespace rlx;

Status WeightTable::add(std::string name, WeightRow row) {
  auto bad = [&](const std::string &text) { return Error{ErrorCode::InvalidModel, "weight '" + name + "' " + text}; };
  if (elementSize(row.type) == 0)
    return bad("has no known element type");
  std::optional<int64_t> count = elementCount(row.shape);
  int64_t bytes = 0;
  if (!count || !checkedMul(*count, static_cast<int64_t>(elementSize(row.type)), bytes))
    return bad("of shape " + shapeString(row.shape) + " has a negative or overflowing size");
  if (row.bytes.size() != static_cast<size_t>(bytes))
    return bad("of shape " + shapeString(row.shape) + " and type " + std::string(elementTypeName(row.type)) + " has " +
               std::to_string(bytes) + " bytes, but " + std::to_string(row.bytes.size()) + " were given");
  if (row.type == data::ElementType::I1 &&
      std::any_of(row.bytes.begin(), row.bytes.end(), [](std::byte value) { return value > std::byte{1}; }))
    return bad("of type i1 holds a byte that is neither 0 nor 1");
  if (table.contains(name))
    return bad("is there twice");
  table.emplace(std::move(name), std::move(row));
  return Status::ok();
}

const WeightRow *WeightTable::find(std::string_view name) const {
  auto it = table.find(name);
  return it == table.end() ? nullptr : &it->second;
}

namespace {
/// [ceil(n/16)][k][16], zero padded. `Word` carries the bits of an element.
template <typename Word> void packPanels(const std::byte *row, const WeightLayout &layout, std::byte *out) {
  int64_t panels = (layout.n + kPanel - 1) / kPanel;
  for (int64_t panel = 0; panel != panels; ++panel) {
    int64_t first = panel * kPanel, columns = std::min(kPanel, layout.n - first);
    for (int64_t k = 0; k != layout.k; ++k) {
      const std::byte *from =
          row + (layout.offset + k * layout.kStride + first * layout.nStride) * static_cast<int64_t>(sizeof(Word));
      std::byte *to = out + (panel * layout.k + k) * kPanel * static_cast<int64_t>(sizeof(Word));
      for (int64_t column = 0; column != columns; ++column)
        std::memcpy(to + column * static_cast<int64_t>(sizeof(Word)),
                    from + column * layout.nStride * static_cast<int64_t>(sizeof(Word)), sizeof(Word));
      std::memset(to + columns * static_cast<int64_t>(sizeof(Word)), 0,
                  static_cast<size_t>(kPanel - columns) * sizeof(Word));
    }
  }
}

/// Every offset + i * kStride + j * nStride lies in [0, elements).
bool panelsInside(const WeightLayout &layout, int64_t elements) {
  if (layout.k == 0 || layout.n == 0)
    return true;
  int64_t low = layout.offset, high = layout.offset;
  for (auto [extent, stride] : {std::pair(layout.k, layout.kStride), std::pair(layout.n, layout.nStride)}) {
    int64_t reach;
    int64_t &end = stride < 0 ? low : high;
    if (!checkedMul(extent - 1, stride, reach) || !checkedAdd(end, reach, end))
      return false;
  }
  return low >= 0 && high < elements;
}
} // namespace

Result<PackedBytes> rlx::packWeight(data::ElementType type, int64_t elements, const void *row,
                                    const WeightLayout &layout) {
  auto size = static_cast<int64_t>(elementSize(type));
  int64_t bytes = 0;
  if (layout.layout == data::PackedLayout::Strided) {
    if (!checkedMul(elements, size, bytes))
      return Error{ErrorCode::OutOfRange, "its size overflows"};
  } else if (layout.layout == data::PackedLayout::Panels16) {
    if (layout.k < 0 || layout.n < 0 || !panelsInside(layout, elements))
      return Error{ErrorCode::InvalidModel, "panels of " + std::to_string(layout.k) + " x " + std::to_string(layout.n) +
                                                " do not lie inside its " + std::to_string(elements) + " elements"};
    int64_t panels = layout.n / kPanel + (layout.n % kPanel != 0);
    if (!checkedMul(panels, layout.k, bytes) || !checkedMul(bytes, kPanel * size, bytes))
      return Error{ErrorCode::OutOfRange, "its packed size overflows"};
  } else {
    return Error{ErrorCode::InvalidModel, "it is asked for in an unknown layout"};
  }
  AlignedBytes memory = allocateAligned(static_cast<size_t>(bytes));
  if (!memory)
    return Error{ErrorCode::OutOfRange, "no memory for " + std::to_string(bytes) + " packed bytes"};
  auto *from = static_cast<const std::byte *>(row);
  if (layout.layout == data::PackedLayout::Strided) {
    if (bytes)
      std::memcpy(memory.get(), from, static_cast<size_t>(bytes));
  } else if (size == 1) {
    packPanels<uint8_t>(from, layout, memory.get());
  } else if (size == 2) {
    packPanels<uint16_t>(from, layout, memory.get());
  } else if (size == 4) {
    packPanels<uint32_t>(from, layout, memory.get());
  } else {
    packPanels<uint64_t>(from, layout, memory.get());
  }
  return PackedBytes{std::shared_ptr<const std::byte[]>(std::move(memory)), static_cast<size_t>(bytes)};
}

Result<std::span<const std::byte>> WeightTable::get(std::string_view name, const WeightLayout &layout) {
  const WeightRow *row = find(name);
  if (!row)
    return Error{ErrorCode::InvalidModel, "there is no weight '" + std::string(name) + "'"};
  bool plain = layout.layout == data::PackedLayout::Strided;
  if (plain && (row->bytes.empty() || isAligned(row->bytes.data(), row->type)))
    return row->bytes;

  // A plain copy depends on nothing but the row: one key for all.
  std::pair<std::string, WeightLayout> key(name, plain ? WeightLayout() : layout);
  std::lock_guard lock(mutex);
  auto &entry = packed[key];
  if (!entry.data) {
    Result<PackedBytes> made = packWeight(row->type, *elementCount(row->shape), row->bytes.data(), key.second);
    if (!made) {
      packed.erase(key);
      return Error{made.error().code, "weight '" + std::string(name) + "': " + made.error().message};
    }
    entry = std::move(*made);
    packedTotal += entry.bytes;
  }
  return std::span<const std::byte>(entry.data.get(), entry.bytes);
}

size_t WeightTable::packedBytes() const {
  std::lock_guard lock(mutex);
  return packedTotal;
}
