//===- WeightTableTest.cpp ------------------------------------------------===//
#include "rlx/Runtime/WeightTable.h"
#include "Fakes.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <unistd.h>

using namespace rlx;
using data::ElementType;
using data::PackedLayout;

namespace {
template <typename T> WeightRow row(ElementType type, std::vector<int64_t> shape, std::vector<T> values) {
  auto owner = std::make_shared<std::vector<T>>(std::move(values));
  return {type, std::move(shape), std::as_bytes(std::span(*owner)), owner};
}

std::string temporary(const std::string &name) {
  return testing::TempDir() + "rlx-" + std::to_string(::getpid()) + name;
}

void write(const std::string &path, const std::string &bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

/// A file of a header and data bytes.
std::string file(const std::string &header, size_t dataBytes) {
  std::string bytes;
  for (int i = 0; i != 8; ++i)
    bytes += static_cast<char>(header.size() >> (8 * i));
  return bytes + header + std::string(dataBytes, '\1');
}
} // namespace

TEST(WeightTable, AddChecksSizes) {
  WeightTable table;
  EXPECT_OK(table.add("w", row<float>(ElementType::F32, {2, 2}, {1, 2, 3, 4})));
  EXPECT_ERROR(table.add("w", row<float>(ElementType::F32, {1}, {1})), ErrorCode::InvalidModel, "'w' is there twice");
  EXPECT_ERROR(table.add("v", row<float>(ElementType::F32, {3}, {1, 2})), ErrorCode::InvalidModel, "12 bytes, but 8");
  EXPECT_ERROR(table.add("v", row<float>(ElementType::F32, {-1}, {1})), ErrorCode::InvalidModel, "negative");
  EXPECT_ERROR(table.add("v", row<float>(ElementType::F32, {4611686018427387906}, {1, 2})), ErrorCode::InvalidModel,
               "overflowing");
  EXPECT_ERROR(table.add("v", row<uint8_t>(ElementType::I1, {2}, {1, 2})), ErrorCode::InvalidModel, "neither 0 nor 1");
  EXPECT_EQ(table.rows().size(), 1u);
}

TEST(WeightTable, PacksPanels) {
  // [3, 18]: element (k, n) is 100 k + n.
  WeightTable table;
  std::vector<float> values;
  for (int k = 0; k != 3; ++k)
    for (int n = 0; n != 18; ++n)
      values.push_back(static_cast<float>(100 * k + n));
  ASSERT_TRUE(table.add("w", row<float>(ElementType::F32, {3, 18}, values)));
  WeightLayout layout{PackedLayout::Panels16, 3, 18, 18, 1, 0};
  auto bytes = table.get("w", layout);
  ASSERT_OK(bytes);
  ASSERT_EQ(bytes->size(), 2u * 3 * 16 * 4);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(bytes->data()) % 64, 0u);
  auto *packed = reinterpret_cast<const float *>(bytes->data());
  EXPECT_EQ(packed[0], 0);
  EXPECT_EQ(packed[15], 15);
  EXPECT_EQ(packed[16], 100);
  EXPECT_EQ(packed[3 * 16], 16); // second panel, k 0
  EXPECT_EQ(packed[3 * 16 + 1], 17);
  EXPECT_EQ(packed[3 * 16 + 2], 0);            // padding
  EXPECT_EQ(packed[3 * 16 + 2 * 16 + 1], 217); // second panel, k 2
  // Made once.
  EXPECT_EQ(table.packedBytes(), bytes->size());
  EXPECT_EQ(table.get("w", layout)->data(), bytes->data());
  EXPECT_EQ(table.packedBytes(), bytes->size());

  // The transposed view of the same row: K = 18, N = 3.
  auto transposed = table.get("w", {PackedLayout::Panels16, 18, 3, 1, 18, 0});
  ASSERT_OK(transposed);
  auto *other = reinterpret_cast<const float *>(transposed->data());
  EXPECT_EQ(other[17 * 16 + 2], 217);
}

TEST(WeightTable, PacksEveryWidth) {
  WeightTable table;
  ASSERT_TRUE(table.add("i8", row<int8_t>(ElementType::I8, {2, 1}, {7, -8})));
  ASSERT_TRUE(table.add("f16", row<uint16_t>(ElementType::F16, {2, 1}, {7, 8})));
  ASSERT_TRUE(table.add("f64", row<double>(ElementType::F64, {2, 1}, {7, 8})));
  WeightLayout layout{PackedLayout::Panels16, 2, 1, 1, 1, 0};
  EXPECT_EQ(reinterpret_cast<const int8_t *>(table.get("i8", layout)->data())[16], -8);
  EXPECT_EQ(reinterpret_cast<const uint16_t *>(table.get("f16", layout)->data())[16], 8);
  EXPECT_EQ(reinterpret_cast<const double *>(table.get("f64", layout)->data())[16], 8.0);
  EXPECT_EQ(table.packedBytes(), 32u + 64 + 256);
}

TEST(WeightTable, LayoutsMustLieInsideTheRow) {
  WeightTable table;
  ASSERT_TRUE(table.add("w", row<float>(ElementType::F32, {2, 2}, {1, 2, 3, 4})));
  using enum PackedLayout;
  for (WeightLayout layout :
       {WeightLayout{Panels16, 3, 2, 2, 1, 0}, WeightLayout{Panels16, 2, 2, 2, 1, 1},
        WeightLayout{Panels16, 2, 2, -2, 1, 0}, WeightLayout{Panels16, -1, 2, 2, 1, 0},
        WeightLayout{Panels16, INT64_MAX, INT64_MAX, 0, INT64_MAX, 0}, WeightLayout{Panels16, 2, 2, INT64_MIN, 1, 0}})
    EXPECT_ERROR(table.get("w", layout), ErrorCode::InvalidModel, "weight 'w'");
  // Inside, but far too large when packed.
  EXPECT_ERROR(table.get("w", {Panels16, INT64_MAX, 1, 0, 0, 0}), ErrorCode::OutOfRange, "weight 'w'");
  EXPECT_ERROR(table.get("v", {}), ErrorCode::InvalidModel, "no weight 'v'");
  EXPECT_EQ(table.packedBytes(), 0u);
  // Backwards is fine where it stays inside.
  EXPECT_OK(table.get("w", {Panels16, 2, 2, -2, -1, 3}));
}

TEST(WeightTable, MisalignedRowsAreCopied) {
  WeightTable table;
  auto owner = std::make_shared<std::vector<std::byte>>(13);
  float value = 2.5f;
  std::memcpy(owner->data() + 1, &value, 4);
  ASSERT_TRUE(table.add("w", {ElementType::F32, {1}, std::span(*owner).subspan(1, 4), owner}));
  auto bytes = table.get("w", {});
  ASSERT_OK(bytes);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(bytes->data()) % 4, 0u);
  EXPECT_EQ(*reinterpret_cast<const float *>(bytes->data()), 2.5f);
}

TEST(Safetensors, RoundTrip) {
  WeightTable table;
  ASSERT_TRUE(table.add("b \"q\" \\ \n", row<int8_t>(ElementType::I8, {3}, {1, -2, 3})));
  ASSERT_TRUE(table.add("a", row<float>(ElementType::F32, {2, 1}, {1.5f, -0.0f})));
  ASSERT_TRUE(table.add("c", row<double>(ElementType::F64, {}, {4.25})));
  ASSERT_TRUE(table.add("empty", row<int64_t>(ElementType::I64, {0, 5}, {})));
  ASSERT_TRUE(table.add("z", row<uint8_t>(ElementType::I1, {2}, {1, 0})));
  std::string path = temporary("roundtrip.safetensors");
  ASSERT_OK(table.writeSafetensors(path));
  auto read = WeightTable::openSafetensors(path);
  ASSERT_OK(read);
  ASSERT_EQ((*read)->rows().size(), table.rows().size());
  for (const auto &[name, wanted] : table.rows()) {
    const WeightRow *got = (*read)->find(name);
    ASSERT_TRUE(got) << name;
    EXPECT_EQ(got->type, wanted.type);
    EXPECT_EQ(got->shape, wanted.shape);
    ASSERT_EQ(got->bytes.size(), wanted.bytes.size());
    EXPECT_TRUE(std::equal(got->bytes.begin(), got->bytes.end(), wanted.bytes.begin()));
    if (!wanted.bytes.empty()) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(got->bytes.data()) % elementSize(got->type), 0u);
    }
  }
  // Replacing a file that is open leaves the open one as it was.
  WeightTable other;
  ASSERT_TRUE(other.add("a", row<float>(ElementType::F32, {1}, {9})));
  ASSERT_OK(other.writeSafetensors(path));
  EXPECT_EQ(reinterpret_cast<const float *>((*read)->find("a")->bytes.data())[0], 1.5f);
  std::remove(path.c_str());
}

TEST(Safetensors, RefusesToWrite) {
  WeightTable table;
  ASSERT_TRUE(table.add("\xff", row<int8_t>(ElementType::I8, {1}, {1})));
  EXPECT_ERROR(table.writeSafetensors(temporary("bad.safetensors")), ErrorCode::InvalidArgument, "cannot be written");
  WeightTable fine;
  EXPECT_ERROR(fine.writeSafetensors(temporary("/no/such/folder")), ErrorCode::Io, "no/such/folder");
}

TEST(Safetensors, HostileFiles) {
  const std::string good = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  struct Case {
    std::string bytes, message;
  };
  std::string huge = file(good, 8);
  huge[7] = '\x7f';
  const Case cases[] = {
      {"", "too short"},
      {"1234567", "too short"},
      {huge, "more than the format allows"},
      {file(good, 8).substr(0, 40), "truncated"},
      {file(good, 7), "truncated"},
      {file(good.substr(0, 20), 8), "not JSON"},
      {file(good + "x", 8), "not JSON"},
      {file("[]", 8), "array"},
      {file("3", 8), "number"},
      {file(R"({"a":3})", 8), "number"},
      {file(R"({"a":{"dtype":"F32","shape":[2]}})", 8), "lacks"},
      {file(R"({"a":{}})", 8), "lacks"},
      {file(R"({"a":{"dtype":"F31","shape":[2],"data_offsets":[0,8]}})", 8), "unknown dtype 'F31'"},
      {file(R"({"a":{"dtype":7,"shape":[2],"data_offsets":[0,8]}})", 8), "number"},
      {file(R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8), "negative"},
      {file(R"({"a":{"dtype":"F32","shape":[2.5],"data_offsets":[0,8]}})", 8), "fraction"},
      {file(R"({"a":{"dtype":"F32","shape":[[2]],"data_offsets":[0,8]}})", 8), "array"},
      {file(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8), "12 bytes, but 8"},
      {file(R"({"a":{"dtype":"F32","shape":[4611686018427387906],"data_offsets":[0,8]}})", 8), "overflow"},
      {file(R"({"a":{"dtype":"F32","shape":[99999999999999999999],"data_offsets":[0,8]}})", 8), "fraction"},
      {file(R"({"a":{"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,8]}})", 8), "too large"},
      {file(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8), "bytes 8 to 0"},
      {file(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8,9]}})", 8), "more than two"},
      {file(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[18446744073709551608,18446744073709551615]}})", 8),
       "truncated"},
      {file(R"({"a":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8), "repeated"},
      {file(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1}})", 8), "unknown or repeated"},
      {file(
           R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"a":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}})",
           16),
       "twice"},
      {file(
           R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
           16),
       "overlaps"},
      {file(R"({"a":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]}})", 0), "truncated"},
      {file(R"({"__metadata__":{"k":1}})", 0), "number"},
      {file(std::string(1 << 16, '['), 0), "array"},
      {file(R"({"a":)" + std::string(1 << 16, '{'), 0), "not JSON"},
  };
  std::string path = temporary("hostile.safetensors");
  for (const Case &test : cases) {
    write(path, test.bytes);
    SCOPED_TRACE(test.bytes.substr(0, 120));
    EXPECT_ERROR(WeightTable::openSafetensors(path), ErrorCode::InvalidModel, test.message);
  }
  // Every prefix of a good file is refused; the file itself, with metadata, opens.
  std::string whole = file(R"({"__metadata__":{"k":"v"},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8);
  for (size_t length = 0; length != whole.size(); ++length) {
    write(path, whole.substr(0, length));
    EXPECT_FALSE(WeightTable::openSafetensors(path)) << length;
  }
  write(path, whole);
  EXPECT_OK(WeightTable::openSafetensors(path));
  std::remove(path.c_str());
  EXPECT_ERROR(WeightTable::openSafetensors(path), ErrorCode::Io, "cannot open");
  EXPECT_ERROR(WeightTable::openSafetensors(testing::TempDir()), ErrorCode::Io, "not a regular file");
}
