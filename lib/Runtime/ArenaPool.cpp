//===- ArenaPool.cpp - memory of runs, used again -------------------------===//
#include "ArenaPool.h"

#include <algorithm>
#include <string>
#include <utility>

using namespace rlx;

namespace {
// As many as there may sensibly be runs at once. Each is as large as the largest
// run that used it.
constexpr size_t kKept = 8;
} // namespace

ArenaPool::Block &ArenaPool::Block::operator=(Block &&other) noexcept {
  if (this != &other) {
    giveBack();
    pool = std::exchange(other.pool, nullptr);
    memory = std::move(other.memory);
    bytes = std::exchange(other.bytes, 0);
  }
  return *this;
}

void ArenaPool::Block::giveBack() {
  if (!pool || !memory)
    return;
  AlignedBytes dropped; // freed after the lock is released
  {
    std::lock_guard lock(pool->mutex);
    pool->blocks.push_back({std::move(memory), bytes});
    if (pool->blocks.size() > kKept) {
      auto smallest = std::min_element(pool->blocks.begin(), pool->blocks.end(),
                                       [](const Free &a, const Free &b) { return a.bytes < b.bytes; });
      dropped = std::move(smallest->memory);
      pool->blocks.erase(smallest);
    }
  }
  pool = nullptr;
}

Result<ArenaPool::Block> ArenaPool::borrow(size_t bytes) {
  Block block;
  {
    std::lock_guard lock(mutex);
    auto best = blocks.end();
    for (auto it = blocks.begin(); it != blocks.end(); ++it)
      if (it->bytes >= bytes && (best == blocks.end() || it->bytes < best->bytes))
        best = it;
    // None is large enough: the largest is replaced, so that the pool holds what
    // runs at once, not a history of sizes.
    if (best != blocks.end()) {
      block.memory = std::move(best->memory);
      block.bytes = best->bytes;
      blocks.erase(best);
    } else if (!blocks.empty()) {
      auto largest = std::max_element(blocks.begin(), blocks.end(),
                                      [](const Free &a, const Free &b) { return a.bytes < b.bytes; });
      blocks.erase(largest);
    }
  }
  if (!block.memory) {
    block.memory = allocateAligned(bytes);
    block.bytes = bytes;
    if (!block.memory)
      return Error{ErrorCode::OutOfRange, "no memory for the " + std::to_string(bytes) + " bytes of a run"};
  }
  block.pool = this;
  return block;
}
