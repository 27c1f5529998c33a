//===- CountingAllocator.h - an allocator of a test -------------*- C++ -*-===//
#ifndef RLX_UNITTESTS_RUNTIME_COUNTINGALLOCATOR_H
#define RLX_UNITTESTS_RUNTIME_COUNTINGALLOCATOR_H

#include "rlx/Runtime/Engine.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <mutex>

namespace rlx::fakes {

/// Knows what it has given out, and takes back nothing else.
class CountingAllocator : public Allocator {
public:
  std::atomic<size_t> calls{0}, bytes{0}, limit{SIZE_MAX}; ///< `bytes`: given out

  ~CountingAllocator() override { EXPECT_EQ(bytes, 0u) << "not given back"; }
  void *allocate(size_t size, size_t alignment) override {
    EXPECT_GE(size, 1u);
    std::lock_guard lock(mutex);
    ++calls;
    if (size > PTRDIFF_MAX || bytes + size > limit)
      return nullptr;
    void *memory = std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
    if (!memory)
      return nullptr;
    given[memory] = size;
    bytes += size;
    return memory;
  }
  void deallocate(void *pointer, size_t size) override {
    std::lock_guard lock(mutex);
    auto found = given.find(pointer);
    ASSERT_NE(found, given.end());
    EXPECT_EQ(found->second, size);
    bytes -= size;
    given.erase(found);
    std::free(pointer);
  }

private:
  std::mutex mutex;
  std::map<void *, size_t> given;
};

} // namespace rlx::fakes

#endif // RLX_UNITTESTS_RUNTIME_COUNTINGALLOCATOR_H
