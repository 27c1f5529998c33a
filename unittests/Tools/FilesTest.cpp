#include "rlx/Tools/Files.h"

#include "TestBytes.h"

#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

using namespace rlx;
using namespace rlx::tools;
using testing::HasSubstr;

namespace {

class FilesTest : public testing::Test {
protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "rlx-files-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder); }
  std::string path(const std::string &name) const { return folder + "/" + name; }
  std::string folder;
};

TEST_F(FilesTest, WritesWholeFilesAndMakesFolders) {
  ASSERT_TRUE(writeFile(path("a/b/c.bin"), bytesOf("hello")));
  ASSERT_TRUE(writeFile(path("a/b/c.bin"), bytesOf("bye")));
  Result<std::vector<std::byte>> back = readFile(path("a/b/c.bin"));
  ASSERT_TRUE(back);
  EXPECT_EQ(*back, bytesOf("bye"));
  // Nothing temporary stays.
  size_t entries = 0;
  for ([[maybe_unused]] auto &entry : std::filesystem::directory_iterator(path("a/b")))
    ++entries;
  EXPECT_EQ(entries, 1u);
}

TEST_F(FilesTest, RefusesWhatIsNoRegularFile) {
  Result<std::vector<std::byte>> missing = readFile(path("missing"));
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::Io);
  EXPECT_THAT(missing.error().message, HasSubstr("missing': No such file"));
  EXPECT_THAT(readFile(folder).error().message, HasSubstr("not a regular file"));
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_THAT(readFile(path("pipe")).error().message, HasSubstr("not a regular file"));
  Status blocked = writeFile(path("pipe") + "/inside.bin", bytesOf("x"));
  ASSERT_FALSE(blocked);
  EXPECT_EQ(blocked.error().code, ErrorCode::Io);
}

TEST_F(FilesTest, ErrorsNameTheFile) {
  ASSERT_TRUE(writeFile(path("x.npy"), bytesOf("nothing")));
  EXPECT_THAT(readTensor(path("x.npy")).error().message, HasSubstr("x.npy': not a .npy file"));
  EXPECT_THAT(readTensor(path("x.txt")).error().message, HasSubstr("ends in .npy or .pb"));
}

} // namespace
