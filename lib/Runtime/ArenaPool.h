//===- ArenaPool.h - memory of runs, used again -----------------*- C++ -*-===//
#ifndef RLX_LIB_RUNTIME_ARENAPOOL_H
#define RLX_LIB_RUNTIME_ARENAPOOL_H

#include "AlignedBytes.h"
#include "rlx/Support/Result.h"

#include <array>
#include <chrono>
#include <memory>
#include <mutex>

namespace rlx {

/// Blocks of memory that runs borrow; what they give back is kept for later ones.
/// Borrowing and giving back take constant time and, where a block is there,
/// allocate nothing. Thread safe.
///
/// Kept are at most so many bytes, the least recently used go first, and none for
/// longer than the idle time: whoever gives a block back frees what is older. A
/// block is lent only to who needs a good part of it, so that small runs do not keep
/// a large one's memory alive.
class ArenaPool {
  struct Header;

public:
  /// `allocator`: null is the system's.
  explicit ArenaPool(std::shared_ptr<Allocator> allocator = nullptr, size_t idleBytes = size_t(1) << 30,
                     std::chrono::milliseconds idleTime = std::chrono::seconds(10));
  /// Every block has been given back.
  ~ArenaPool();
  ArenaPool(const ArenaPool &) = delete;
  ArenaPool &operator=(const ArenaPool &) = delete;

  /// A borrowed block; goes back to its pool, which must outlive it.
  class Block {
  public:
    Block() = default;
    Block(Block &&other) noexcept : pool(other.pool), header(other.header) { other.header = nullptr; }
    Block &operator=(Block &&other) noexcept;
    ~Block() { giveBack(); }
    void giveBack();

    explicit operator bool() const { return header; }
    /// 64-byte aligned.
    std::byte *data() const;
    size_t bytes() const;

  private:
    friend class ArenaPool;
    Block(ArenaPool *pool, Header *header) : pool(pool), header(header) {}
    ArenaPool *pool = nullptr;
    Header *header = nullptr;
  };

  /// At least `bytes`, uninitialised. Error: no memory.
  Result<Block> borrow(size_t bytes);
  /// Whether a block that is held already would be lent for `bytes`.
  static bool fits(const Block &block, size_t bytes);

  /// Frees everything that is not lent.
  void trim();

  /// Bytes that it has of the allocator: no block is in both.
  struct Usage {
    size_t idle = 0, inUse = 0;
  };
  Usage usage() const;

private:
  static constexpr size_t kClasses = 512, kWords = kClasses / 64;
  static size_t classOf(size_t bytes);
  static size_t classBytes(size_t number);
  static size_t largestFor(size_t number);
  Header *take(size_t number);
  void drop(Header *header, Header *&chain);
  void release(Header *chain);
  void giveBack(Header *header);

  const std::shared_ptr<Allocator> allocator;
  const size_t idleBytes;
  const int64_t idleNs;

  mutable std::mutex mutex; // guards the members below; held for a few instructions
  Usage bytes;
  std::array<uint64_t, kWords> there{};    ///< classes that have a block
  std::array<Header *, kClasses> blocks{}; ///< of a class, the one used last first
  Header *newest = nullptr, *oldest = nullptr;
};

} // namespace rlx

#endif // RLX_LIB_RUNTIME_ARENAPOOL_H
