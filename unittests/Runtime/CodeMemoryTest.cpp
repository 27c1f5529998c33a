#include "rlx/Runtime/CodeMemory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace rlx;
using testing::HasSubstr;

namespace {

/// mov rax, [rdi]; mov qword [rax], value; ret
data::KernelImageT storing(int32_t value, size_t padding = 0) {
  data::KernelImageT image;
  image.code.assign(padding, 0xcc);
  image.entry = static_cast<uint32_t>(padding);
  image.code.insert(image.code.end(), {0x48, 0x8b, 0x07, 0x48, 0xc7, 0x00});
  for (int shift = 0; shift < 32; shift += 8)
    image.code.push_back(static_cast<uint8_t>(value >> shift));
  image.code.push_back(0xc3);
  image.text_size = static_cast<uint32_t>(image.code.size());
  image.spec = {1, 2, 3};
  return image;
}

int64_t call(const KernelHandle &handle) {
  int64_t out = 0;
  void *pointers[] = {&out};
  handle.fn(pointers, nullptr, 0, 1, nullptr);
  return out;
}

/// Permissions of the mapping that holds an address, such as "r-xp"; empty
/// when nothing is mapped there.
std::string permissions(const void *address) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    unsigned long long begin, end;
    char text[8];
    if (std::sscanf(line.c_str(), "%llx-%llx %4s", &begin, &end, text) == 3 &&
        reinterpret_cast<uintptr_t>(address) >= begin && reinterpret_cast<uintptr_t>(address) < end)
      return text;
  }
  return "";
}

TEST(CodeMemory, loadsABatchPackedAt64Bytes) {
  CodeMemory memory;
  std::vector<data::KernelImageT> images;
  for (int i = 0; i < 20; ++i)
    images.push_back(storing(100 + i, i * 3));
  std::vector<const data::KernelImageT *> pointers;
  for (const data::KernelImageT &image : images)
    pointers.push_back(&image);
  auto handles = memory.load(pointers);
  ASSERT_TRUE(handles) << handles.error().message;
  ASSERT_EQ(handles->size(), 20u);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(call((*handles)[i]), 100 + i);
    EXPECT_EQ((reinterpret_cast<uintptr_t>((*handles)[i].fn) - images[i].entry) % 64, 0u);
    EXPECT_EQ((*handles)[i].region, (*handles)[0].region);
  }
  EXPECT_EQ(reinterpret_cast<char *>((*handles)[1].fn) - reinterpret_cast<char *>((*handles)[0].fn), 64 + 3);
  EXPECT_EQ(permissions(reinterpret_cast<void *>((*handles)[0].fn)), "r-xp");
}

TEST(CodeMemory, batchesShareARegionAndASealedPageStaysSealed) {
  CodeMemory memory;
  data::KernelImageT one = storing(1), two = storing(2);
  const data::KernelImageT *first[] = {&one}, *second[] = {&two};
  auto a = memory.load(first), b = memory.load(second);
  ASSERT_TRUE(a && b);
  EXPECT_EQ((*a)[0].region, (*b)[0].region);
  EXPECT_NE(reinterpret_cast<uintptr_t>((*a)[0].fn) / 4096, reinterpret_cast<uintptr_t>((*b)[0].fn) / 4096);
  EXPECT_EQ(permissions(reinterpret_cast<void *>((*a)[0].fn)), "r-xp");
  EXPECT_EQ(call((*a)[0]) + call((*b)[0]), 3);
}

TEST(CodeMemory, tailsTrap) {
  CodeMemory memory;
  data::KernelImageT image = storing(7);
  const data::KernelImageT *batch[] = {&image};
  auto handles = memory.load(batch);
  ASSERT_TRUE(handles);
  auto *code = reinterpret_cast<const unsigned char *>((*handles)[0].fn);
  for (size_t i = image.code.size(); i < 4096; ++i)
    ASSERT_EQ(code[i], 0xcc) << i;
}

TEST(CodeMemory, memoryGoesWithItsLastUser) {
  KernelHandle last;
  const void *address;
  {
    CodeMemory memory;
    data::KernelImageT one = storing(1), two = storing(2);
    const data::KernelImageT *batch[] = {&one, &two};
    auto handles = memory.load(batch);
    ASSERT_TRUE(handles);
    last = (*handles)[1];
    address = reinterpret_cast<void *>(last.fn);
  }
  EXPECT_EQ(call(last), 2);
  std::weak_ptr<const CodeRegion> watch = last.region;
  last = {};
  EXPECT_TRUE(watch.expired());
  EXPECT_NE(permissions(address), "r-xp");
}

TEST(CodeMemory, aBatchLargerThanARegion) {
  CodeMemory memory({.regionBytes = 4096, .perfMapFile = ""});
  data::KernelImageT large = storing(9, 100000), small = storing(8);
  const data::KernelImageT *batch[] = {&large, &small};
  auto handles = memory.load(batch);
  ASSERT_TRUE(handles);
  EXPECT_EQ(call((*handles)[0]), 9);
  EXPECT_EQ(call((*handles)[1]), 8);
}

TEST(CodeMemory, refusesImagesWhoseFieldsDoNotFit) {
  CodeMemory memory;
  for (int wrong = 0; wrong < 4; ++wrong) {
    data::KernelImageT image = storing(1);
    switch (wrong) {
    case 0:
      image.entry = image.text_size;
      break;
    case 1:
      image.text_size = static_cast<uint32_t>(image.code.size()) + 1;
      break;
    case 2:
      image.entry = UINT32_MAX;
      image.text_size = UINT32_MAX;
      break;
    case 3:
      image.code.clear();
      image.text_size = 0;
      image.entry = 0;
      break;
    }
    data::KernelImageT right = storing(2);
    const data::KernelImageT *batch[] = {&right, &image};
    auto handles = memory.load(batch);
    ASSERT_FALSE(handles) << wrong;
    EXPECT_EQ(handles.error().code, ErrorCode::InvalidArgument);
    EXPECT_THAT(handles.error().message, HasSubstr("do not lie in"));
  }
  auto none = memory.load({});
  ASSERT_TRUE(none);
  EXPECT_TRUE(none->empty());
}

TEST(CodeMemory, writesAPerfMapOnRequest) {
  std::string path = testing::TempDir() + "rlx-perf-" + std::to_string(getpid()) + ".map";
  std::remove(path.c_str());
  CodeMemory memory({.regionBytes = 1 << 20, .perfMapFile = path});
  data::KernelImageT image = storing(3);
  const data::KernelImageT *batch[] = {&image, &image};
  auto handles = memory.load(batch);
  ASSERT_TRUE(handles) << handles.error().message;
  std::ifstream file(path);
  for (const KernelHandle &handle : *handles) {
    unsigned long long address;
    unsigned size;
    std::string line;
    ASSERT_TRUE(std::getline(file, line));
    ASSERT_EQ(std::sscanf(line.c_str(), "%llx %x", &address, &size), 2) << line;
    EXPECT_EQ(address, reinterpret_cast<uintptr_t>(handle.fn));
    EXPECT_EQ(size, image.text_size);
    EXPECT_THAT(line, HasSubstr(" rlx_"));
  }
  std::remove(path.c_str());

  CodeMemory elsewhere({.regionBytes = 1 << 20, .perfMapFile = "/nonexistent/perf.map"});
  auto failed = elsewhere.load(batch);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, ErrorCode::Io);
}

#ifndef PR_SET_MDWE
#define PR_SET_MDWE 65
#define PR_MDWE_REFUSE_EXEC_GAIN 1
#endif

/// In a child, because the setting cannot be taken back: 0 = right, 77 = the
/// kernel does not know it, anything else = the step that failed.
int loadWhenWritableMemoryMayNotBecomeExecutable() {
  if (prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0L, 0L, 0L) != 0)
    return 77;
  CodeMemory memory;
  data::KernelImageT one = storing(5), two = storing(6);
  const data::KernelImageT *first[] = {&one}, *second[] = {&two};
  auto a = memory.load(first);
  if (!a)
    return 1;
  auto b = memory.load(second);
  if (!b)
    return 2;
  if (!memory.usesFiles())
    return 3;
  if (call((*a)[0]) != 5 || call((*b)[0]) != 6)
    return 4;
  if (permissions(reinterpret_cast<void *>((*a)[0].fn)) != "r-xp")
    return 5;
  return 0;
}

TEST(CodeMemory, fallsBackToASealedFile) {
  pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0)
    _exit(loadWhenWritableMemoryMayNotBecomeExecutable());
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77)
    GTEST_SKIP() << "this kernel has no PR_SET_MDWE";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

bool isResident(const void *address) {
  auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  unsigned char state = 0;
  EXPECT_EQ(mincore(reinterpret_cast<void *>(reinterpret_cast<uintptr_t>(address) / page * page), page, &state), 0);
  return state & 1;
}

TEST(CodeMemory, pagesGoWithTheLastKernelInThem) {
  CodeMemory memory;
  data::KernelImageT one = storing(1), two = storing(2), three = storing(3);
  const data::KernelImageT *first[] = {&one, &two}, *second[] = {&three};
  auto a = memory.load(first), b = memory.load(second);
  ASSERT_TRUE(a && b);
  ASSERT_EQ((*a)[0].region, (*b)[0].region);
  auto *address = reinterpret_cast<void *>((*a)[0].fn);
  (*a)[0] = {};
  EXPECT_TRUE(isResident(address));
  EXPECT_EQ(call((*a)[1]), 2);
  (*a)[1] = {};
  EXPECT_FALSE(isResident(address));
  EXPECT_EQ(permissions(address), "r-xp"); // the mapping stays for the others
  EXPECT_EQ(call((*b)[0]), 3);
}

TEST(CodeMemory, loadsFromManyThreads) {
  CodeMemory memory({.regionBytes = 16384, .perfMapFile = ""});
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        data::KernelImageT image = storing(t * 1000 + i);
        const data::KernelImageT *batch[] = {&image};
        auto handles = memory.load(batch);
        if (!handles || call((*handles)[0]) != t * 1000 + i)
          ++wrong;
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(wrong, 0);
}

} // namespace
