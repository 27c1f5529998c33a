//===- ArenaLayoutTest.cpp ------------------------------------------------===//
#include "ArenaLayout.h"

#include <gtest/gtest.h>

#include <random>

using namespace rlx;

TEST(ArenaLayout, SharesWhatDoesNotLiveTogether) {
  // A chain: each buffer is read by the next step only, so two places do.
  std::vector<ArenaRequest> chain;
  for (uint32_t step = 0; step != 10; ++step)
    chain.push_back({100, step, step + 1, 0});
  EXPECT_EQ(layoutArena(chain), 256); // two of 100 bytes, rounded up to 128
  EXPECT_EQ(chain[0].offset, 0);
  EXPECT_EQ(chain[1].offset, 128);
  EXPECT_EQ(chain[2].offset, 0);
}

TEST(ArenaLayout, HoleAtTheEndGrows) {
  std::vector<ArenaRequest> requests = {{64, 0, 0, 0}, {640, 1, 1, 0}};
  EXPECT_EQ(layoutArena(requests), 640);
}

TEST(ArenaLayout, OverflowIsNoLayout) {
  std::vector<ArenaRequest> requests = {{INT64_MAX - 10, 0, 1, 0}};
  EXPECT_EQ(layoutArena(requests), std::nullopt);
  requests = {{INT64_MAX / 2, 0, 1, 0}, {INT64_MAX / 2, 0, 1, 0}, {1000, 0, 1, 0}};
  EXPECT_EQ(layoutArena(requests), std::nullopt);
}

TEST(ArenaLayout, NoTwoThatLiveTogetherOverlap) {
  std::mt19937 random(7);
  for (int round = 0; round != 200; ++round) {
    std::vector<ArenaRequest> requests(1 + random() % 60);
    for (ArenaRequest &request : requests) {
      request.bytes = random() % 5 ? random() % 3000 : 0;
      request.first = random() % 40;
      request.last = request.first + random() % 10;
    }
    std::vector<ArenaRequest> again = requests;
    std::optional<int64_t> total = layoutArena(requests);
    ASSERT_TRUE(total);
    ASSERT_EQ(layoutArena(again), total);
    int64_t peak = 0;
    for (uint32_t step = 0; step != 50; ++step) {
      int64_t live = 0;
      for (const ArenaRequest &request : requests)
        if (request.first <= step && step <= request.last)
          live += (request.bytes + 63) / 64 * 64;
      peak = std::max(peak, live);
    }
    EXPECT_GE(*total, peak);
    EXPECT_LE(*total, 2 * peak);
    for (size_t i = 0; i != requests.size(); ++i) {
      const ArenaRequest &a = requests[i];
      EXPECT_EQ(a.offset, again[i].offset);
      EXPECT_EQ(a.offset % 64, 0);
      EXPECT_LE(a.offset + a.bytes, *total);
      for (size_t j = 0; j != i; ++j) {
        const ArenaRequest &b = requests[j];
        if (a.bytes && b.bytes && a.first <= b.last && b.first <= a.last) {
          EXPECT_TRUE(a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset);
        }
      }
    }
  }
}
