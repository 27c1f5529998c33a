//===- ArenaPool.cpp - memory of runs, used again -------------------------===//
#include "ArenaPool.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <string>
#include <utility>
#if defined(__linux__)
#include <time.h>
#endif

using namespace rlx;

/// At the front of each block.
struct alignas(kBufferAlignment) ArenaPool::Header {
  size_t bytes = 0, number = 0;                ///< with the header; of its class
  int64_t since = 0;                           ///< when it was given back
  Header *next = nullptr, *before = nullptr;   ///< of its class
  Header *older = nullptr, *younger = nullptr; ///< of all that are idle
};

namespace {
/// A clock that is cheap to read and good to a few milliseconds.
int64_t now() {
#if defined(__linux__)
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
  return time.tv_sec * 1'000'000'000 + time.tv_nsec;
#else
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
#endif
}

/// Blocks come in sizes of 4 KiB times 1, 9/8, ... 15/8, 2, ...: a class is a number of
/// eighths above a power of two.
constexpr size_t kSmallestLog = 12, kEighths = 8;
/// A run is lent a block of up to four times its need.
constexpr size_t kLargerClasses = 2 * kEighths;
/// Of blocks of 256 KiB: up to there it does not matter.
constexpr size_t kSmallClass = (18 - kSmallestLog) * kEighths;

int64_t nanoseconds(std::chrono::milliseconds time) {
  constexpr auto longest = std::chrono::hours(24 * 365 * 100);
  return std::chrono::nanoseconds(std::clamp<std::chrono::milliseconds>(time, std::chrono::milliseconds(0), longest))
      .count();
}
} // namespace

ArenaPool::ArenaPool(std::shared_ptr<Allocator> allocator, size_t idleBytes, std::chrono::milliseconds idleTime)
    : allocator(std::move(allocator)), idleBytes(idleBytes), idleNs(nanoseconds(idleTime)) {}

ArenaPool::~ArenaPool() {
  assert(bytes.inUse == 0 && "a block is used after its pool");
  trim();
}

/// The class of the smallest blocks of at least `bytes`; kClasses where there is none.
size_t ArenaPool::classOf(size_t bytes) {
  if (bytes <= size_t(1) << kSmallestLog)
    return 0;
  // The leading bit of the number before it gives the power, the next three the eighths.
  auto log = static_cast<size_t>(std::bit_width(bytes - 1)) - 1;
  size_t eighth = (bytes - 1) >> (log - 3) & 7;
  size_t number = (log - kSmallestLog) * kEighths + eighth + 1;
  return bytes > static_cast<size_t>(PTRDIFF_MAX) / 2 ? kClasses : number;
}

size_t ArenaPool::classBytes(size_t number) {
  return (kEighths + number % kEighths) << (number / kEighths + kSmallestLog - 3);
}

size_t ArenaPool::largestFor(size_t number) {
  return std::min(std::max(number + kLargerClasses, kSmallClass), kClasses - 1);
}

ArenaPool::Block &ArenaPool::Block::operator=(Block &&other) noexcept {
  if (this != &other) {
    giveBack();
    pool = other.pool;
    header = std::exchange(other.header, nullptr);
  }
  return *this;
}

void ArenaPool::Block::giveBack() {
  if (header)
    pool->giveBack(std::exchange(header, nullptr));
}

std::byte *ArenaPool::Block::data() const { return reinterpret_cast<std::byte *>(header + 1); }
size_t ArenaPool::Block::bytes() const { return header->bytes - sizeof(Header); }

bool ArenaPool::fits(const Block &block, size_t bytes) {
  if (!block || block.bytes() < bytes)
    return false;
  size_t number = classOf(bytes + sizeof(Header)); // no overflow: the block is larger
  return block.header->number <= largestFor(number);
}

/// Takes out a block of this class or a little larger. The lock is held.
ArenaPool::Header *ArenaPool::take(size_t number) {
  size_t last = largestFor(number);
  for (size_t word = number / 64; word <= last / 64; ++word) {
    uint64_t bits = there[word];
    if (word == number / 64)
      bits &= ~uint64_t(0) << number % 64;
    if (!bits)
      continue;
    size_t found = word * 64 + static_cast<size_t>(std::countr_zero(bits));
    if (found > last)
      return nullptr;
    Header *header = blocks[found], *none = nullptr;
    drop(header, none);
    return header;
  }
  return nullptr;
}

/// Takes an idle block out and puts it before `chain`. The lock is held.
void ArenaPool::drop(Header *header, Header *&chain) {
  (header->before ? header->before->next : blocks[header->number]) = header->next;
  if (header->next)
    header->next->before = header->before;
  if (!blocks[header->number])
    there[header->number / 64] &= ~(uint64_t(1) << header->number % 64);
  (header->younger ? header->younger->older : newest) = header->older;
  (header->older ? header->older->younger : oldest) = header->younger;
  bytes.idle -= header->bytes;
  header->next = chain;
  chain = header;
}

/// Frees dropped blocks, without the lock.
void ArenaPool::release(Header *chain) {
  while (chain) {
    Header *header = std::exchange(chain, chain->next);
    freeFrom(allocator.get(), reinterpret_cast<std::byte *>(header), header->bytes);
  }
}

Result<ArenaPool::Block> ArenaPool::borrow(size_t wanted) {
  size_t whole, number = kClasses;
  if (!__builtin_add_overflow(wanted, sizeof(Header), &whole))
    number = classOf(whole);
  if (number == kClasses)
    return Error{ErrorCode::OutOfRange, "no memory for the " + std::to_string(wanted) + " bytes of a run"};
  size_t size = classBytes(number);
  {
    std::lock_guard lock(mutex);
    if (Header *header = take(number)) {
      bytes.inUse += header->bytes;
      return Block(this, header);
    }
    bytes.inUse += size;
  }
  std::byte *memory = allocateFrom(allocator.get(), size);
  if (!memory) {
    trim();
    memory = allocateFrom(allocator.get(), size);
  }
  if (!memory) {
    std::lock_guard lock(mutex);
    bytes.inUse -= size;
    return Error{ErrorCode::OutOfRange, "no memory for the " + std::to_string(wanted) + " bytes of a run"};
  }
  auto *header = new (memory) Header;
  header->bytes = size;
  header->number = number;
  return Block(this, header);
}

void ArenaPool::giveBack(Header *header) {
  header->since = now();
  Header *dropped = nullptr;
  {
    std::lock_guard lock(mutex);
    bytes.inUse -= header->bytes;
    bytes.idle += header->bytes;
    header->before = nullptr;
    header->next = std::exchange(blocks[header->number], header);
    if (header->next)
      header->next->before = header;
    there[header->number / 64] |= uint64_t(1) << header->number % 64;
    header->younger = nullptr;
    header->older = std::exchange(newest, header);
    (header->older ? header->older->younger : oldest) = header;
    while (oldest && (bytes.idle > idleBytes || header->since - oldest->since >= idleNs)) {
      bool last = oldest == header;
      drop(oldest, dropped);
      if (last)
        break; // `header` is read in the condition
    }
  }
  release(dropped);
}

void ArenaPool::trim() {
  Header *dropped = nullptr;
  {
    std::lock_guard lock(mutex);
    while (oldest)
      drop(oldest, dropped);
  }
  release(dropped);
}

ArenaPool::Usage ArenaPool::usage() const {
  std::lock_guard lock(mutex);
  return bytes;
}
