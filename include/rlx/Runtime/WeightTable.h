//===- WeightTable.h - named weights, stored once ---------------*- C++ -*-===//
#ifndef RLX_RUNTIME_WEIGHTTABLE_H
#define RLX_RUNTIME_WEIGHTTABLE_H

#include "rlx/Data/Plan_generated.h"
#include "rlx/Support/Result.h"

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rlx {

class ThreadPool;

/// One weight: its bytes are row-major, little-endian, and live as long as
/// `owner` does (a mapped file, a protobuf message, a buffer).
struct WeightRow {
  data::ElementType type;
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes; ///< at any address
  std::shared_ptr<const void> owner;
  /// The bytes lie in a read-only mapping of a file: pages that nothing reads any
  /// more may be let go of, and come back by themselves.
  bool mapped = false;
};

/// How users of a weight want it stored. Plain is the row itself.
struct WeightLayout {
  data::PackedLayout layout = data::PackedLayout::Strided;
  int64_t k = 0, n = 0;                         ///< Panels16: extents
  int64_t kStride = 0, nStride = 0, offset = 0; ///< Panels16: where (k, n) lies in the plain row
  auto operator<=>(const WeightLayout &) const = default;
};

/// Owned bytes of a layout, 64-byte aligned.
struct PackedBytes {
  std::shared_ptr<const std::byte[]> data;
  size_t bytes = 0;
};
/// `layout` of a plain row of `elements` values of `type`. Errors: an extent or
/// stride that leaves the row, an overflow, no memory.
Result<PackedBytes> packWeight(data::ElementType type, int64_t elements, const void *row, const WeightLayout &layout);

/// What a user of weights asks for.
struct WeightRequest {
  std::string_view name;
  WeightLayout layout;
};

/// The weights of a model by name. Filled by a loader, then shared and read by
/// everything: adding is not thread safe, `find` and `get` are.
class WeightTable {
public:
  WeightTable();
  ~WeightTable();

  /// Adds a row. Errors: the name is taken; bytes do not match type and shape;
  /// a negative or overflowing size.
  Status add(std::string name, WeightRow row);
  const WeightRow *find(std::string_view name) const;
  /// Every row, by name.
  const std::map<std::string, WeightRow, std::less<>> &rows() const { return table; }

  /// The bytes of a row under a layout, packed at the first call and kept, so
  /// that every template and binding shares one copy. 64-byte aligned when
  /// packed. A plain row in a mapped file is that, at any address, so that only
  /// the pages that are read take memory; another one is copied once where it is
  /// not aligned to its element.
  /// A second thread that wants the same waits for the first; others do not. Once
  /// a mapped row has been packed, and unless it is used plain too, its pages are
  /// let go of. With a pool, large rows are packed on its threads.
  /// Errors: no such row; an extent or stride that leaves the row; no memory.
  Result<std::span<const std::byte>> get(std::string_view name, const WeightLayout &layout, ThreadPool *pool = nullptr);
  /// The same for many, in order, those that are not packed yet on all threads. They lie one behind the other in that
  /// order, which is best the one in which they are used: kernels ask for what lies behind a row while they end it.
  Result<std::vector<std::span<const std::byte>>> get(std::span<const WeightRequest> requests, ThreadPool &pool);

  /// Opens the rows of a .safetensors file, mapped, nothing copied. The file is
  /// not trusted: every length, offset, type and shape is checked. It must not
  /// shrink while mapped.
  static Result<std::shared_ptr<WeightTable>> openSafetensors(const std::string &path);
  /// Writes all rows. Atomic: a temporary file beside it, then rename.
  Status writeSafetensors(const std::string &path) const;

  /// Whether anybody has asked for the row as it is.
  bool isReadPlain(std::string_view name) const;
  /// Bytes held in packed copies.
  size_t packedBytes() const;

private:
  struct Packed;
  Result<std::byte *> allocate(size_t bytes);
  Packed &entryOf(std::string_view name, const WeightLayout &layout);
  Status reserve(std::string_view name, const WeightRow &row, const WeightLayout &layout, Packed &entry);

  std::map<std::string, WeightRow, std::less<>> table;
  size_t plainBytes = 0; // of all rows

  mutable std::mutex mutex; // guards the members below
  std::map<std::pair<std::string, WeightLayout>, std::unique_ptr<Packed>> packed; // none goes
  std::set<std::string, std::less<>> usedPlain;
  std::vector<std::shared_ptr<std::byte[]>> chunks; // what packed rows lie in
  std::span<std::byte> rest;                        // of the last one
  size_t packedTotal = 0;
};

} // namespace rlx

#endif // RLX_RUNTIME_WEIGHTTABLE_H
