//===- ArenaPoolTest.cpp --------------------------------------------------===//
#include "ArenaPool.h"

#include "Allocations.h"
#include "CountingAllocator.h"
#include "Fakes.h"

#include <cstring>
#include <random>
#include <thread>

using namespace rlx;
using namespace rlx::fakes;
using std::chrono::milliseconds;

namespace {
constexpr milliseconds kLong = std::chrono::hours(1);
constexpr size_t kMiB = size_t(1) << 20;
} // namespace

TEST(ArenaPool, BlocksAreUsedAgain) {
  auto allocator = std::make_shared<CountingAllocator>();
  ArenaPool pool(allocator, 64 * kMiB, kLong);
  std::byte *first = nullptr;
  for (size_t bytes : {size_t(5000), size_t(4999), size_t(5050), size_t(5000)}) {
    auto block = pool.borrow(bytes);
    ASSERT_OK(block);
    EXPECT_GE(block->bytes(), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block->data()) % 64, 0u);
    std::memset(block->data(), 1, block->bytes());
    first = first ? first : block->data();
    EXPECT_EQ(block->data(), first);
  }
  EXPECT_EQ(allocator->calls, 1u);
  EXPECT_EQ(allocationsOf([&] { EXPECT_TRUE(static_cast<bool>(pool.borrow(5000))); }), 0u);
}

TEST(ArenaPool, BytesAreCountedOnce) {
  auto allocator = std::make_shared<CountingAllocator>();
  ArenaPool pool(allocator, 64 * kMiB, kLong);
  auto a = pool.borrow(kMiB), b = pool.borrow(3 * kMiB);
  ASSERT_OK(a);
  ASSERT_OK(b);
  EXPECT_EQ(pool.usage().idle, 0u);
  EXPECT_EQ(pool.usage().inUse, allocator->bytes);
  EXPECT_GE(pool.usage().inUse, 4 * kMiB);
  EXPECT_LE(pool.usage().inUse, 5 * kMiB);
  size_t ofB = b->bytes();
  a->giveBack();
  EXPECT_EQ(pool.usage().idle + pool.usage().inUse, allocator->bytes);
  EXPECT_GE(pool.usage().inUse, ofB);
  b->giveBack();
  b->giveBack(); // nothing left to give
  EXPECT_EQ(pool.usage().inUse, 0u);
  EXPECT_EQ(pool.usage().idle, allocator->bytes);
  pool.trim();
  EXPECT_EQ(pool.usage().idle, 0u);
  EXPECT_EQ(allocator->bytes, 0u);
}

TEST(ArenaPool, KeepsSoManyBytesAndDropsTheLeastRecentlyUsed) {
  auto allocator = std::make_shared<CountingAllocator>();
  ArenaPool pool(allocator, 5 * kMiB, kLong);
  auto a = pool.borrow(2 * kMiB - 64), b = pool.borrow(2 * kMiB - 64), c = pool.borrow(2 * kMiB - 64);
  ASSERT_OK(a);
  ASSERT_OK(b);
  ASSERT_OK(c);
  std::byte *ofB = b->data(), *ofC = c->data();
  a->giveBack();
  b->giveBack();
  c->giveBack();
  EXPECT_EQ(pool.usage().idle, 4 * kMiB);
  auto again = pool.borrow(2 * kMiB - 64), more = pool.borrow(2 * kMiB - 64);
  ASSERT_OK(again);
  ASSERT_OK(more);
  EXPECT_EQ(again->data(), ofC);
  EXPECT_EQ(more->data(), ofB);
  again->giveBack();
  more->giveBack();
  // What is larger than the bound is never kept.
  auto large = pool.borrow(6 * kMiB);
  ASSERT_OK(large);
  large->giveBack();
  EXPECT_LE(pool.usage().idle, 5 * kMiB);
  EXPECT_EQ(pool.usage().idle, allocator->bytes);
}

TEST(ArenaPool, IdleBlocksGo) {
  auto allocator = std::make_shared<CountingAllocator>();
  ArenaPool none(allocator, 64 * kMiB, milliseconds(0));
  {
    ASSERT_OK(none.borrow(kMiB));
  }
  EXPECT_EQ(none.usage().idle, 0u);
  EXPECT_EQ(allocator->bytes, 0u);

  ArenaPool pool(allocator, 64 * kMiB, milliseconds(30));
  {
    ASSERT_OK(pool.borrow(kMiB));
  }
  EXPECT_GT(pool.usage().idle, kMiB);
  std::this_thread::sleep_for(milliseconds(80));
  {
    ASSERT_OK(pool.borrow(100));
  } // whoever gives back frees what is too old
  EXPECT_LT(pool.usage().idle, kMiB);
}

TEST(ArenaPool, SmallRunsDoNotKeepLargeBlocksAlive) {
  auto allocator = std::make_shared<CountingAllocator>();
  ArenaPool pool(allocator, size_t(1) << 30, kLong);
  {
    ASSERT_OK(pool.borrow(64 * kMiB));
  }
  auto small = pool.borrow(kMiB), half = pool.borrow(32 * kMiB);
  ASSERT_OK(small);
  ASSERT_OK(half);
  EXPECT_LT(small->bytes(), 2 * kMiB);
  EXPECT_GE(half->bytes(), 64 * kMiB); // a good part of it is needed
  EXPECT_TRUE(ArenaPool::fits(*half, 32 * kMiB));
  EXPECT_FALSE(ArenaPool::fits(*half, kMiB));
  EXPECT_FALSE(ArenaPool::fits(*half, 100 * kMiB));
  EXPECT_FALSE(ArenaPool::fits(ArenaPool::Block(), 0));
}

TEST(ArenaPool, NoMemoryIsAnError) {
  auto allocator = std::make_shared<CountingAllocator>();
  ArenaPool pool(allocator, 64 * kMiB, kLong);
  for (size_t bytes : {SIZE_MAX, SIZE_MAX - 64, SIZE_MAX / 2, size_t(1) << 62})
    EXPECT_ERROR(pool.borrow(bytes), ErrorCode::OutOfRange, "no memory");
  EXPECT_EQ(pool.usage().inUse, 0u);
  // What is idle is given back before a run fails for it.
  {
    ASSERT_OK(pool.borrow(8 * kMiB));
  }
  allocator->limit = 9 * kMiB;
  EXPECT_OK(pool.borrow(kMiB));
  allocator->limit = 0;
  pool.trim();
  EXPECT_ERROR(pool.borrow(kMiB), ErrorCode::OutOfRange, "no memory");
  EXPECT_EQ(pool.usage().inUse, 0u);
}

TEST(ArenaPool, EverySize) {
  auto allocator = std::make_shared<CountingAllocator>();
  ArenaPool pool(allocator, 0, kLong); // nothing is kept, so each gets its own size
  for (size_t bytes = 0; bytes < 20000; bytes += 61) {
    auto block = pool.borrow(bytes);
    ASSERT_OK(block);
    ASSERT_GE(block->bytes(), bytes);
    ASSERT_LE(block->bytes(), std::max<size_t>(4096, bytes + bytes / 8 + 128));
    block->data()[0] = block->data()[block->bytes() - 1] = std::byte(1);
  }
  EXPECT_EQ(allocator->bytes, 0u);
}

TEST(ArenaPool, ManyThreads) {
  auto allocator = std::make_shared<CountingAllocator>();
  ArenaPool pool(allocator, kMiB, milliseconds(1));
  std::vector<std::thread> threads;
  for (unsigned number = 0; number != 4; ++number)
    threads.emplace_back([&pool, number] {
      std::minstd_rand random(number);
      for (int i = 0; i != 2000; ++i) {
        size_t bytes = random() % 100000 + 1;
        auto a = pool.borrow(bytes), b = pool.borrow(bytes / 3);
        ASSERT_OK(a);
        ASSERT_OK(b);
        std::memset(a->data(), static_cast<int>(number), bytes);
        std::memset(b->data(), static_cast<int>(number) + 100, bytes / 3);
        if (i % 100 == 0)
          pool.trim();
        for (size_t at = 0; at < bytes; at += 64)
          ASSERT_EQ(a->data()[at], std::byte(number));
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(pool.usage().inUse, 0u);
  EXPECT_EQ(pool.usage().idle, allocator->bytes);
  EXPECT_LE(allocator->bytes, kMiB);
}
