//===- BindingTable.h - specializations by sizes ----------------*- C++ -*-===//
#ifndef RLX_LIB_RUNTIME_BINDINGTABLE_H
#define RLX_LIB_RUNTIME_BINDINGTABLE_H

#include "Execute.h"

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

namespace rlx {

using Sizes = std::vector<int64_t>;

/// Hash of the sizes of a binding.
uint64_t hashSizes(std::span<const int64_t> sizes, uint64_t seed = 0);

/// What uses are stamped with: ticks of a clock that all cores share and that costs
/// next to nothing to read.
int64_t useStamp();

/// How long ago stamps were, by the ticks and the time since it was made.
class UseClock {
public:
  UseClock();
  double msSince(int64_t stamp) const;

private:
  const int64_t startStamp;
  const int64_t startNs;
};

/// What a cache knows of a template it holds.
struct HeldTemplate;

/// Specializations by their sizes, open addressing.
///
/// find() may be called at any time and from any thread. All other members belong
/// to one thread at a time, the writer. Readers take a lock of their own, one of
/// several that threads share by chance; a writer changes the table by single
/// atomic stores and frees what it took out only after it has held each of those
/// locks once, for no time at all, so that nobody reads it any more.
class BindingTable {
public:
  struct Entry {
    Sizes sizes;
    uint64_t hash = 0;
    std::shared_ptr<const ReadySpecialization> ready;
    // The writer's own.
    std::shared_ptr<HeldTemplate> heldTemplate;
    size_t bytes = 0;
    uint64_t hitsCounted = 0; ///< of ready->hits, when it was taken out
  };
  /// What was taken out, and may still be read.
  struct Garbage {
    struct Slots;
    Garbage();
    Garbage(Garbage &&) noexcept;
    ~Garbage();
    std::vector<std::unique_ptr<Entry>> entries;
    std::vector<std::unique_ptr<Slots>> slots;
  };

  BindingTable();
  ~BindingTable();
  BindingTable(const BindingTable &) = delete;
  BindingTable &operator=(const BindingTable &) = delete;

  /// Constant time, allocates nothing; counts and stamps the use. Null when there
  /// is none.
  std::shared_ptr<const ReadySpecialization> find(std::span<const int64_t> sizes);

  /// Counts nothing.
  Entry *peek(std::span<const int64_t> sizes) const;
  /// `entry`'s sizes are not there yet.
  void insert(std::unique_ptr<Entry> entry, Garbage &garbage);
  void remove(const Entry &entry, Garbage &garbage);
  /// Returns when nobody reads the garbage any more. Any thread may call it.
  void settle(Garbage &garbage);

  /// As this table hashes. The seed is its address: nobody who chooses sizes can
  /// choose them to collide.
  uint64_t hash(std::span<const int64_t> sizes) const { return hashSizes(sizes, reinterpret_cast<uintptr_t>(this)); }

  size_t count() const { return live; }
  std::vector<Entry *> entries() const;
  /// The sizes found last and their stamp, when anything was found and is there.
  std::optional<std::pair<int64_t, Sizes>> latest();
  /// Slots that find() looks at.
  size_t probes(std::span<const int64_t> sizes) const;
  /// Of the table itself.
  size_t bytes() const;

private:
  using Slots = Garbage::Slots;
  struct alignas(64) Stripe {
    std::mutex mutex; // guards `last`, and keeps what its holder reads from being freed
    Entry *last = nullptr;
  };
  Stripe &stripe();
  Entry *lookup(std::span<const int64_t> sizes, uint64_t hash, size_t *probes = nullptr) const;

  static constexpr size_t kStripes = 32;
  std::array<Stripe, kStripes> stripes;
  std::atomic<Slots *> current;
  size_t live = 0, taken = 0; // entries; slots that are not empty
};

} // namespace rlx

#endif // RLX_LIB_RUNTIME_BINDINGTABLE_H
