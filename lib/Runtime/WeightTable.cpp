//===- WeightTable.cpp - named weights, stored once -----------------------===//
#include "rlx/Runtime/WeightTable.h"

#include "AlignedBytes.h"
#include "CheckedMath.h"
#include "Packing.h"
#include "rlx/Data/KernelABI.h"
#include "rlx/Runtime/Tensor.h"
#include "rlx/Runtime/ThreadPool.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <optional>
#include <sys/mman.h>
#include <tuple>
#include <unistd.h>

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
  plainBytes += row.bytes.size();
  table.emplace(std::move(name), std::move(row));
  return Status::ok();
}

const WeightRow *WeightTable::find(std::string_view name) const {
  auto it = table.find(name);
  return it == table.end() ? nullptr : &it->second;
}

Result<PackedBytes> rlx::packWeight(data::ElementType type, int64_t elements, const void *row,
                                    const WeightLayout &layout) {
  Result<size_t> bytes = packedSize(type, elements, layout);
  if (!bytes)
    return bytes.takeError();
  AlignedBytes memory = allocateAligned(*bytes);
  if (!memory)
    return Error{ErrorCode::OutOfRange, "no memory for " + std::to_string(*bytes) + " packed bytes"};
  packInto(type, elements, static_cast<const std::byte *>(row), layout, memory.get(), nullptr);
  return PackedBytes{std::shared_ptr<const std::byte[]>(std::move(memory)), *bytes};
}

/// One layout of one row. Whoever finds it empty fills it.
struct WeightTable::Packed {
  std::mutex mutex;           // held while packing; guards what follows
  std::byte *place = nullptr; // where they will lie
  size_t size = 0;            // of `place`
  std::optional<std::span<const std::byte>> bytes;
};

WeightTable::WeightTable() = default;
WeightTable::~WeightTable() = default;

/// Memory that lives as long as the table. One row behind the other, so that all of them share few large pages.
Result<std::byte *> WeightTable::allocate(size_t bytes) {
  constexpr size_t kSmallest = 64 << 10, kLargest = 32 << 20;
  std::lock_guard lock(mutex);
  std::optional<size_t> rounded = alignUp(bytes, kBufferAlignment);
  if (rounded && *rounded > rest.size()) {
    size_t size = std::max(*rounded, std::clamp(plainBytes, kSmallest, kLargest));
    AlignedBytes chunk = size <= SIZE_MAX - kReadAhead ? allocateAligned(size + kReadAhead) : nullptr;
    if (chunk) {
      // What is asked for there must have pages, or each line would take a search through their tables.
      std::memset(chunk.get() + size, 0, kReadAhead);
      rest = {chunk.get(), size};
      chunks.emplace_back(std::move(chunk));
    } else {
      rounded.reset();
    }
  }
  if (!rounded)
    return Error{ErrorCode::OutOfRange, "no memory for " + std::to_string(bytes) + " packed bytes"};
  std::byte *memory = rest.data();
  rest = rest.subspan(*rounded);
  packedTotal += bytes;
  return memory;
}

namespace {
/// The whole pages of a mapping that `bytes` covers.
std::span<std::byte> pagesOf(std::span<const std::byte> bytes) {
  auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  auto begin = reinterpret_cast<uintptr_t>(bytes.data()), end = begin + bytes.size();
  begin = (begin + page - 1) / page * page;
  end = end / page * page;
  return {reinterpret_cast<std::byte *>(begin), end > begin ? end - begin : 0};
}

// Both are about speed and memory only: what the system refuses changes nothing.
/// Maps the pages in one go instead of one fault after another.
void fetchPages(std::span<const std::byte> bytes) {
#if defined(MADV_POPULATE_READ)
  if (std::span<std::byte> pages = pagesOf(bytes); !pages.empty())
    (void)::madvise(pages.data(), pages.size(), MADV_POPULATE_READ);
#endif
}
/// Lets go of pages of a file mapping; touched again, they come back from the file.
void dropPages(std::span<const std::byte> bytes) {
  if (std::span<std::byte> pages = pagesOf(bytes); !pages.empty())
    (void)::madvise(pages.data(), pages.size(), MADV_DONTNEED);
}
/// Whether users of a plain row read it where it is.
bool isReadInPlace(const WeightRow &row) {
  return row.mapped || row.bytes.empty() || isAligned(row.bytes.data(), row.type);
}
} // namespace

/// The entry of a layout of a row that is to be packed, and its key. A plain copy depends on nothing but the row: one
/// key for all. Under the table's mutex.
WeightTable::Packed &WeightTable::entryOf(std::string_view name, const WeightLayout &layout) {
  bool plain = layout.layout == data::PackedLayout::Strided;
  std::unique_ptr<Packed> &slot = packed[{std::string(name), plain ? WeightLayout() : layout}];
  if (!slot)
    slot = std::make_unique<Packed>();
  return *slot;
}

/// Gives an entry its place, under its mutex.
Status WeightTable::reserve(std::string_view name, const WeightRow &row, const WeightLayout &layout, Packed &entry) {
  if (entry.place)
    return Status::ok();
  auto fail = [&](const Error &error) {
    return Error{error.code, "weight '" + std::string(name) + "': " + error.message};
  };
  Result<size_t> bytes = packedSize(row.type, *elementCount(row.shape), layout);
  if (!bytes)
    return fail(bytes.error());
  Result<std::byte *> memory = allocate(*bytes);
  if (!memory)
    return fail(memory.error());
  entry.place = *memory;
  entry.size = *bytes;
  return Status::ok();
}

Result<std::span<const std::byte>> WeightTable::get(std::string_view name, const WeightLayout &layout,
                                                    ThreadPool *pool) {
  const WeightRow *row = find(name);
  if (!row)
    return Error{ErrorCode::InvalidModel, "there is no weight '" + std::string(name) + "'"};
  bool plain = layout.layout == data::PackedLayout::Strided;
  Packed *entry;
  bool keepPages;
  {
    std::lock_guard lock(mutex);
    if (plain)
      usedPlain.emplace(name);
    if (plain && isReadInPlace(*row))
      return row->bytes;
    entry = &entryOf(name, layout);
    keepPages = usedPlain.contains(name);
  }
  std::lock_guard packing(entry->mutex);
  if (entry->bytes)
    return *entry->bytes;
  if (Status status = reserve(name, *row, layout, *entry); !status)
    return status.takeError();
  if (row->mapped)
    fetchPages(row->bytes);
  packInto(row->type, *elementCount(row->shape), row->bytes.data(), layout, entry->place, pool);
  if (row->mapped && !keepPages)
    dropPages(row->bytes);
  entry->bytes = std::span<const std::byte>(entry->place, entry->size);
  return *entry->bytes;
}

Result<std::vector<std::span<const std::byte>>> WeightTable::get(std::span<const WeightRequest> requests,
                                                                 ThreadPool &pool) {
  // Places in the order asked for, which is that of use: what is asked for ahead of a row's end is the next row. What
  // cannot have one fails below, where it is packed.
  for (const WeightRequest &request : requests)
    if (const WeightRow *row = find(request.name); row && request.layout.layout != data::PackedLayout::Strided) {
      Packed *entry;
      {
        std::lock_guard lock(mutex);
        entry = &entryOf(request.name, request.layout);
      }
      std::lock_guard packing(entry->mutex);
      (void)reserve(request.name, *row, request.layout, *entry);
    }
  // Plain ones first: what is read plain keeps its pages. Then the large ones, so that none is left alone at the end.
  std::vector<size_t> order(requests.size());
  std::iota(order.begin(), order.end(), size_t(0));
  auto rank = [&](size_t i) {
    const WeightRow *row = find(requests[i].name);
    return std::tuple(requests[i].layout.layout != data::PackedLayout::Strided,
                      row ? SIZE_MAX - row->bytes.size() : size_t(0), requests[i].name, requests[i].layout);
  };
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return rank(a) < rank(b); });
  std::vector<std::optional<Result<std::span<const std::byte>>>> got(requests.size());
  size_t packedFrom = 0;
  for (; packedFrom != order.size(); ++packedFrom) {
    const WeightRequest &request = requests[order[packedFrom]];
    if (request.layout.layout != data::PackedLayout::Strided)
      break;
    got[order[packedFrom]] = get(request.name, request.layout, &pool);
  }
  // Equal requests lie side by side: the first stands for all, so that no thread waits for another's packing.
  std::vector<size_t> distinct;
  auto same = [&](size_t a, size_t b) {
    return requests[a].name == requests[b].name && requests[a].layout == requests[b].layout;
  };
  for (size_t i = packedFrom; i != order.size(); ++i)
    if (distinct.empty() || !same(distinct.back(), order[i]))
      distinct.push_back(order[i]);
  parallelFor(pool, distinct.size(), [&](size_t i) {
    const WeightRequest &request = requests[distinct[i]];
    got[distinct[i]] = get(request.name, request.layout, &pool);
  });
  for (size_t i = packedFrom, from = 0; i != order.size(); ++i) {
    if (!same(distinct[from], order[i]))
      ++from;
    if (order[i] != distinct[from])
      got[order[i]] = got[distinct[from]];
  }
  std::vector<std::span<const std::byte>> result;
  for (std::optional<Result<std::span<const std::byte>>> &each : got) {
    if (!*each)
      return each->takeError();
    result.push_back(**each);
  }
  return result;
}

bool WeightTable::isReadPlain(std::string_view name) const {
  std::lock_guard lock(mutex);
  return usedPlain.contains(name);
}

size_t WeightTable::packedBytes() const {
  std::lock_guard lock(mutex);
  return packedTotal;
}
