//===- CpuCachesTest.cpp --------------------------------------------------===//
#include "CpuCaches.h"

#include "gtest/gtest.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

using namespace rlx;

namespace {
struct Cache {
  const char *level, *type, *size, *sharers;
};

/// A directory as the kernel shows it.
class CpuCachesTest : public testing::Test {
protected:
  void SetUp() override {
    directory = testing::TempDir() + "rlx-caches-XXXXXX";
    ASSERT_NE(::mkdtemp(directory.data()), nullptr);
  }
  void TearDown() override { std::filesystem::remove_all(directory); }
  CpuCaches read(const std::vector<Cache> &caches) {
    for (size_t i = 0; i != caches.size(); ++i) {
      std::string at = directory + "/index" + std::to_string(i) + "/";
      std::filesystem::create_directories(at);
      auto write = [&](const char *name, const char *text) { std::ofstream(at + name) << text << "\n"; };
      write("level", caches[i].level);
      write("type", caches[i].type);
      write("size", caches[i].size);
      write("shared_cpu_list", caches[i].sharers);
    }
    return readCpuCaches(directory);
  }
  std::string directory;
};
constexpr int64_t kKi = 1 << 10, kMi = 1 << 20;
} // namespace

TEST_F(CpuCachesTest, CoresShareTheThird) {
  CpuCaches caches = read({{"1", "Data", "32K", "0"},
                           {"1", "Instruction", "64K", "0"},
                           {"2", "Unified", "1024K", "0"},
                           {"3", "Unified", "32768K", "0-1"}});
  EXPECT_EQ(caches.level2, kMi);
  EXPECT_EQ(caches.level3, 16 * kMi);
  EXPECT_EQ(caches.wholeLevel3, 32 * kMi);
  EXPECT_FALSE(contendForLastCache(0, caches));
  EXPECT_FALSE(contendForLastCache(12 * kMi, caches)); // with room to spare
  EXPECT_TRUE(contendForLastCache(12 * kMi + 1, caches));
  EXPECT_TRUE(contendForLastCache(32 * kMi, caches));
  EXPECT_TRUE(contendForLastCache(32 * kMi + 1, caches));
  EXPECT_TRUE(contendForLastCache(42 * kMi, caches)); // most of it
  EXPECT_FALSE(contendForLastCache(43 * kMi, caches));
  EXPECT_FALSE(contendForLastCache(INT64_MAX, caches));
}

TEST_F(CpuCachesTest, TheSecondIsTheLargerPart) {
  CpuCaches caches = read({{"1", "Data", "32K", "0"}, {"2", "Unified", "2048K", "0"}, {"3", "Unified", "4096K", "0"}});
  EXPECT_FALSE(contendForLastCache(2 * kMi, caches)); // in the second
  EXPECT_TRUE(contendForLastCache(2 * kMi + 1, caches));
  EXPECT_TRUE(contendForLastCache(5 * kMi, caches));
}

TEST_F(CpuCachesTest, ThreadsOfACoreAreOne) {
  // Eight cores of two threads each.
  CpuCaches caches =
      read({{"1", "Data", "48K", "0,8"}, {"2", "Unified", "2M", "0,8"}, {"3", "Unified", "24M", "0-15"}});
  EXPECT_EQ(caches.level2, 2 * kMi);
  EXPECT_EQ(caches.level3, 3 * kMi);
  EXPECT_EQ(caches.wholeLevel3, 24 * kMi);
}

TEST_F(CpuCachesTest, FourCoresShareTheSecondAndThereIsNoThird) {
  CpuCaches caches = read({{"1", "Data", "32K", "0"}, {"2", "Unified", "2048K", "0-3"}});
  EXPECT_EQ(caches.level2, 512 * kKi);
  EXPECT_EQ(caches.level3, CpuCaches().level3);
}

TEST_F(CpuCachesTest, WhatMakesNoSenseLeavesTheDefault) {
  auto isDefault = [](const CpuCaches &caches) {
    return caches.level2 == CpuCaches().level2 && caches.level3 == CpuCaches().level3 &&
           caches.wholeLevel3 == CpuCaches().wholeLevel3;
  };
  EXPECT_TRUE(isDefault(readCpuCaches(directory)));
  EXPECT_TRUE(isDefault(readCpuCaches(directory + "/absent")));
  for (const char *size : {"", "K", "-512K", "0K", "1023", "512KK", "512Q", "99999999999999999999K", "4294967295G"})
    EXPECT_TRUE(isDefault(read({{"1", "Data", "32K", "0"}, {"2", "Unified", size, "0"}, {"3", "Unified", size, "0"}})))
        << size;
  for (const char *level : {"0", "4", "x", "22", "-2"})
    EXPECT_TRUE(isDefault(read({{level, "Unified", "512K", "0"}}))) << level;
  // A list that cannot be read: one core.
  for (const char *list : {"", "x", "3-1", "0-", "0,,1", "0-4294967295", "0;1"}) {
    CpuCaches caches = read({{"2", "Unified", "512K", list}, {"1", "Data", "32K", list}});
    EXPECT_EQ(caches.level2, 512 * kKi) << list;
  }
}

TEST(RowBlocks, OfTheCaches) {
  RowBlocks blocks = rowBlocks({kMi, 16 * kMi});
  EXPECT_EQ(blocks.block, 512 * kKi);
  EXPECT_EQ(blocks.large, 4 * kMi);
  // Never larger than what is large.
  blocks = rowBlocks({4 * kMi, 2 * kMi});
  EXPECT_EQ(blocks.block, 2 * kMi);
  EXPECT_EQ(blocks.large, 4 * kMi);
  // This machine's, whatever it is.
  blocks = rowBlocks(cpuCaches());
  EXPECT_GE(blocks.block, 32 * kKi);
  EXPECT_GE(blocks.large, 2 * blocks.block);
}
