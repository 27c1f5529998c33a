//===- BindingTable.cpp - specializations by sizes ------------------------===//
#include "BindingTable.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <pthread.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#define XXH_INLINE_ALL
#include <xxhash.h>

using namespace rlx;

uint64_t rlx::hashSizes(std::span<const int64_t> sizes, uint64_t seed) {
  return XXH3_64bits_withSeed(sizes.data(), sizes.size_bytes(), seed);
}

namespace {
int64_t steadyNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}
} // namespace

int64_t rlx::useStamp() {
#if defined(__x86_64__)
  return static_cast<int64_t>(__rdtsc());
#elif defined(__aarch64__)
  int64_t ticks;
  asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
#else
  return steadyNs();
#endif
}

UseClock::UseClock() : startStamp(useStamp()), startNs(steadyNs()) {}

double UseClock::msSince(int64_t stamp) const {
  int64_t now = useStamp();
  auto ticks = static_cast<double>(std::max<int64_t>(now - startStamp, 1));
  double msPerTick = static_cast<double>(steadyNs() - startNs) * 1e-6 / ticks;
  return static_cast<double>(std::max<int64_t>(now - stamp, 0)) * msPerTick;
}

/// A power of two of them, at least half empty, so that a search ends.
struct BindingTable::Garbage::Slots {
  explicit Slots(size_t count) : mask(count - 1), at(std::make_unique<std::atomic<Entry *>[]>(count)) {}
  size_t mask;
  std::unique_ptr<std::atomic<Entry *>[]> at;
};

BindingTable::Garbage::Garbage() = default;
BindingTable::Garbage::Garbage(Garbage &&) noexcept = default;
BindingTable::Garbage::~Garbage() = default;

namespace {
constexpr size_t kFewest = 16;

/// Where an entry was.
BindingTable::Entry *gone() {
  alignas(BindingTable::Entry) static const char place = 0;
  return reinterpret_cast<BindingTable::Entry *>(const_cast<char *>(&place));
}
} // namespace

BindingTable::BindingTable() : current(new Slots(kFewest)) {}

BindingTable::~BindingTable() {
  std::unique_ptr<Slots> slots(current.load(std::memory_order_relaxed));
  for (Entry *entry : entries())
    delete entry;
}

BindingTable::Stripe &BindingTable::stripe() {
  // Thread ids are addresses; the product mixes them into the upper bits.
  static_assert(std::has_single_bit(kStripes));
  auto id = static_cast<uint64_t>(pthread_self()) * 0x9E3779B97F4A7C15u;
  return stripes[id >> (64 - std::bit_width(kStripes - 1))];
}

BindingTable::Entry *BindingTable::lookup(std::span<const int64_t> sizes, uint64_t hash, size_t *probes) const {
  const Slots &slots = *current.load(std::memory_order_acquire);
  for (size_t i = hash & slots.mask;; i = (i + 1) & slots.mask) {
    if (probes)
      ++*probes;
    Entry *entry = slots.at[i].load(std::memory_order_acquire);
    if (!entry)
      return nullptr;
    if (entry != gone() && entry->hash == hash && std::ranges::equal(entry->sizes, sizes))
      return entry;
  }
}

std::shared_ptr<const ReadySpecialization> BindingTable::find(std::span<const int64_t> sizes) {
  uint64_t hash = this->hash(sizes);
  int64_t now = useStamp();
  Stripe &mine = stripe();
  std::lock_guard lock(mine.mutex);
  Entry *entry = lookup(sizes, hash);
  if (!entry)
    return nullptr;
  mine.last = entry;
  entry->ready->hits.fetch_add(1, std::memory_order_relaxed);
  entry->ready->used.store(now, std::memory_order_relaxed);
  return entry->ready;
}

BindingTable::Entry *BindingTable::peek(std::span<const int64_t> sizes) const { return lookup(sizes, hash(sizes)); }

void BindingTable::insert(std::unique_ptr<Entry> entry, Garbage &garbage) {
  entry->hash = hash(entry->sizes);
  Slots *slots = current.load(std::memory_order_relaxed);
  auto put = [](Slots &into, Entry *entry, std::memory_order order) {
    size_t i = entry->hash & into.mask;
    while (into.at[i].load(std::memory_order_relaxed))
      i = (i + 1) & into.mask;
    into.at[i].store(entry, order);
  };
  if (2 * (taken + 1) > slots->mask + 1) {
    // A new one, without the places of those that went; with room for as many again.
    auto larger = std::make_unique<Slots>(std::max(kFewest, std::bit_ceil(4 * (live + 1))));
    for (Entry *other : entries())
      put(*larger, other, std::memory_order_relaxed);
    garbage.slots.emplace_back(slots);
    slots = larger.release();
    taken = live;
    current.store(slots, std::memory_order_release);
  }
  ++live;
  ++taken;
  put(*slots, entry.release(), std::memory_order_release);
}

void BindingTable::remove(const Entry &entry, Garbage &garbage) {
  Slots &slots = *current.load(std::memory_order_relaxed);
  size_t i = entry.hash & slots.mask;
  while (slots.at[i].load(std::memory_order_relaxed) != &entry)
    i = (i + 1) & slots.mask;
  garbage.entries.emplace_back(slots.at[i].load(std::memory_order_relaxed));
  slots.at[i].store(gone(), std::memory_order_release);
  --live;
}

void BindingTable::settle(Garbage &garbage) {
  if (garbage.entries.empty() && garbage.slots.empty())
    return;
  for (Stripe &stripe : stripes) {
    std::lock_guard lock(stripe.mutex);
    for (const auto &entry : garbage.entries)
      if (stripe.last == entry.get())
        stripe.last = nullptr;
  }
}

std::vector<BindingTable::Entry *> BindingTable::entries() const {
  const Slots &slots = *current.load(std::memory_order_relaxed);
  std::vector<Entry *> result;
  result.reserve(live);
  for (size_t i = 0; i <= slots.mask; ++i)
    if (Entry *entry = slots.at[i].load(std::memory_order_relaxed); entry && entry != gone())
      result.push_back(entry);
  return result;
}

std::optional<std::pair<int64_t, Sizes>> BindingTable::latest() {
  std::optional<std::pair<int64_t, Sizes>> result;
  for (Stripe &stripe : stripes) {
    std::lock_guard lock(stripe.mutex);
    if (!stripe.last)
      continue;
    int64_t used = stripe.last->ready->used.load(std::memory_order_relaxed);
    if (!result || used > result->first)
      result.emplace(used, stripe.last->sizes);
  }
  return result;
}

size_t BindingTable::probes(std::span<const int64_t> sizes) const {
  size_t count = 0;
  (void)lookup(sizes, hash(sizes), &count);
  return count;
}

size_t BindingTable::bytes() const {
  return sizeof(*this) + (current.load(std::memory_order_relaxed)->mask + 1) * sizeof(std::atomic<Entry *>);
}
