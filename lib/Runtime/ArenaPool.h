//===- ArenaPool.h - memory of runs, used again -----------------*- C++ -*-===//
#ifndef RLX_LIB_RUNTIME_ARENAPOOL_H
#define RLX_LIB_RUNTIME_ARENAPOOL_H

#include "AlignedBytes.h"
#include "rlx/Support/Result.h"

#include <mutex>
#include <vector>

namespace rlx {

/// Blocks of memory that runs borrow. Keeps a few for the next run. Thread safe.
class ArenaPool {
public:
  /// A borrowed block; goes back to its pool, which must outlive it.
  class Block {
  public:
    Block() = default;
    Block(Block &&other) noexcept { *this = std::move(other); }
    Block &operator=(Block &&other) noexcept;
    ~Block() { giveBack(); }
    std::byte *data() const { return memory.get(); }

  private:
    friend class ArenaPool;
    void giveBack();
    ArenaPool *pool = nullptr;
    AlignedBytes memory;
    size_t bytes = 0;
  };

  /// At least `bytes`, 64-byte aligned, uninitialised. Error: no memory.
  Result<Block> borrow(size_t bytes);

private:
  struct Free {
    AlignedBytes memory;
    size_t bytes;
  };
  std::mutex mutex; // guards `blocks`
  std::vector<Free> blocks;
};

} // namespace rlx

#endif // RLX_LIB_RUNTIME_ARENAPOOL_H
