//===- FilesTest.cpp ------------------------------------------------------===//
#include "rlx/Support/Files.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

using namespace rlx;
using testing::HasSubstr;

namespace {

std::span<const std::byte> bytesOf(std::string_view text) {
  return {reinterpret_cast<const std::byte *>(text.data()), text.size()};
}

class FilesTest : public testing::Test {
protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "rlx-support-files-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder); }
  std::string path(const std::string &name) const { return folder + "/" + name; }
  std::string content(const std::string &name) const {
    std::ifstream file(path(name));
    return {std::istreambuf_iterator<char>(file), {}};
  }
  size_t entries() const { return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder), {})); }
  std::string folder;
};

TEST_F(FilesTest, AppearsWholeOrNotAtAll) {
  for (std::string text : {"first", "second"}) {
    Result<AtomicFile> file = AtomicFile::create(path("x"));
    ASSERT_TRUE(file);
    ASSERT_TRUE(file->write(bytesOf(text.substr(0, 3))));
    EXPECT_EQ(content("x"), text == "first" ? "" : "first");
    ASSERT_TRUE(file->write(bytesOf(text.substr(3))));
    ASSERT_TRUE(file->commit());
    EXPECT_EQ(content("x"), text);
  }
  {
    Result<AtomicFile> file = AtomicFile::create(path("x"));
    ASSERT_TRUE(file);
    AtomicFile moved = std::move(*file);
    ASSERT_TRUE(moved.write(bytesOf("third")));
    EXPECT_EQ(entries(), 2u);
  }
  EXPECT_EQ(content("x"), "second");
  EXPECT_EQ(entries(), 1u);
}

TEST_F(FilesTest, RightsAreWhatTheMaskLeaves) {
  mode_t mask = umask(027);
  Result<AtomicFile> file = AtomicFile::create(path("x"));
  umask(mask);
  ASSERT_TRUE(file);
  ASSERT_TRUE(file->commit());
  struct stat info;
  ASSERT_EQ(stat(path("x").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0640u);
}

TEST_F(FilesTest, ReplacesFilesOnly) {
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  Result<AtomicFile> pipe = AtomicFile::create(path("pipe"));
  ASSERT_FALSE(pipe);
  EXPECT_EQ(pipe.error().code, ErrorCode::Io);
  EXPECT_THAT(pipe.error().message, HasSubstr("pipe': not a regular file"));
  EXPECT_THAT(AtomicFile::create(folder).error().message, HasSubstr("not a regular file"));
  EXPECT_THAT(AtomicFile::create(path("no/x")).error().message, HasSubstr("no/x': No such file"));
  EXPECT_EQ(entries(), 1u);
}

TEST_F(FilesTest, MapsRegularFiles) {
  std::ofstream(path("x")) << "hello";
  std::ofstream(path("empty"));
  Result<MappedFile> mapped = mapFile(path("x"));
  ASSERT_TRUE(mapped);
  ASSERT_EQ(mapped->bytes.size(), 5u);
  EXPECT_EQ(std::memcmp(mapped->bytes.data(), "hello", 5), 0);
  Result<MappedFile> empty = mapFile(path("empty"));
  ASSERT_TRUE(empty);
  EXPECT_TRUE(empty->bytes.empty());
  EXPECT_NE(empty->owner, nullptr);
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_THAT(mapFile(path("pipe")).error().message, HasSubstr("pipe': not a regular file"));
  EXPECT_THAT(mapFile(folder).error().message, HasSubstr("not a regular file"));
  EXPECT_THAT(mapFile(path("none")).error().message, HasSubstr("cannot open"));
}

TEST_F(FilesTest, IssueAZeroByteEndsNoPath) {
  std::ofstream(path("x")) << "hello";
  Result<MappedFile> mapped = mapFile(path("x") + std::string("\0.onnx", 6));
  ASSERT_FALSE(mapped);
  EXPECT_EQ(mapped.error().code, ErrorCode::Io);
  EXPECT_THAT(mapped.error().message, HasSubstr("x': a zero byte"));
}

TEST_F(FilesTest, FindsTheFileOfAMapping) {
  std::ofstream(path("x")) << "hello";
  Result<MappedFile> mapped = mapFile(path("x"));
  ASSERT_TRUE(mapped);
  // Owners know no type; an owner of something else is told apart.
  std::shared_ptr<const void> part(mapped->owner, mapped->bytes.data() + 2);
  const FileMapping *mapping = mappingOf(part);
  ASSERT_TRUE(mapping);
  EXPECT_EQ(mapping->path, path("x"));
  EXPECT_EQ(mapping->bytes.data(), mapped->bytes.data());
  EXPECT_EQ(mapping->bytes.size(), 5u);
  EXPECT_EQ(mappingOf(std::make_shared<int>(1)), nullptr);
  EXPECT_EQ(mappingOf(nullptr), nullptr);

  Result<OpenFile> again = reopen(*mapping);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->bytes, 5u);
  // Another file of that name, and a name without a file.
  std::ofstream(path("y")) << "HELLO";
  ASSERT_EQ(rename(path("y").c_str(), path("x").c_str()), 0);
  EXPECT_THAT(reopen(*mapping).error().message, HasSubstr("x': it was replaced"));
  unlink(path("x").c_str());
  EXPECT_THAT(reopen(*mapping).error().message, HasSubstr("x': No such file"));
  EXPECT_EQ(std::memcmp(mapped->bytes.data(), "hello", 5), 0);
}

TEST_F(FilesTest, TakesRegularFiles) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  Descriptor other(ends[1]);
  EXPECT_THAT(takeFile(Descriptor(ends[0]), "it").error().message, HasSubstr("'it': not a regular file"));
  EXPECT_THAT(takeFile(Descriptor(), "it").error().message, HasSubstr("cannot open 'it'"));
}

} // namespace
