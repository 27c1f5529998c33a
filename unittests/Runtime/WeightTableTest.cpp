//===- WeightTableTest.cpp ------------------------------------------------===//
#include "rlx/Runtime/WeightTable.h"
#include "Fakes.h"
#include "Packing.h"
#include "Pools.h"
#include "ResidentMemory.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <random>
#include <thread>
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
  // Strides of what has one element are never applied.
  auto one = table.get("w", {Panels16, 1, 1, INT64_MAX, INT64_MIN, 2});
  ASSERT_OK(one);
  EXPECT_EQ(reinterpret_cast<const float *>(one->data())[0], 3.0f);
  EXPECT_EQ(reinterpret_cast<const float *>(one->data())[1], 0.0f);
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

namespace {
/// Panels as they are defined, one element at a time.
std::vector<std::byte> packedByDefinition(size_t size, const std::byte *row, const WeightLayout &layout) {
  int64_t panels = (layout.n + 15) / 16;
  std::vector<std::byte> out(static_cast<size_t>(panels * layout.k * 16) * size);
  for (int64_t k = 0; k != layout.k; ++k)
    for (int64_t n = 0; n != layout.n; ++n)
      std::memcpy(out.data() + static_cast<size_t>((n / 16 * layout.k + k) * 16 + n % 16) * size,
                  row + (layout.offset + k * layout.kStride + n * layout.nStride) * static_cast<int64_t>(size), size);
  return out;
}
} // namespace

TEST(WeightTable, PackingIsWhatItsDefinitionSays) {
  std::mt19937 random(7);
  std::vector<std::shared_ptr<ThreadPool>> pools = fakes::oddPools();
  pools.push_back(nullptr);
  auto own = ThreadPool::create(3);
  ASSERT_OK(own);
  pools.push_back(*own);
  using enum ElementType;
  for (ElementType type : {I8, BF16, F32, F64}) {
    size_t size = elementSize(type);
    for (auto [k, n] : {std::pair<int64_t, int64_t>{0, 5},
                        {5, 0},
                        {1, 1},
                        {3, 16},
                        {16, 15},
                        {17, 17},
                        {33, 40},
                        {15, 64},
                        {100, 129},
                        {700, 300}}) {
      // Rows of n, rows of k, both backwards, and with holes.
      const WeightLayout layouts[] = {
          {PackedLayout::Panels16, k, n, n, 1, 3},       {PackedLayout::Panels16, k, n, 1, k, 0},
          {PackedLayout::Panels16, k, n, -n, -1, k * n}, {PackedLayout::Panels16, k, n, -1, -k, k * n},
          {PackedLayout::Panels16, k, n, 2 * n, 2, 1},   {PackedLayout::Panels16, k, n, 1, k + 3, 2},
          {PackedLayout::Panels16, k, n, n + 5, 1, 0}};
      auto elements = 2 * (k + 1) * (n + 1) + 3 * n + 5 * k + 8;
      std::vector<std::byte> bytes(static_cast<size_t>(elements) * size + 1);
      for (std::byte &each : bytes)
        each = static_cast<std::byte>(random());
      for (const WeightLayout &layout : layouts) {
        for (size_t misaligned : {0, 1}) {
          const std::byte *row = bytes.data() + misaligned;
          auto wanted = packedByDefinition(size, row, layout);
          auto length = packedSize(type, elements, layout);
          ASSERT_OK(length);
          ASSERT_EQ(*length, wanted.size());
          for (const auto &pool : pools) {
            std::vector<std::byte> got(wanted.size() + 1, std::byte{0xaa});
            packInto(type, elements, row, layout, got.data(), pool.get());
            ASSERT_TRUE(std::equal(wanted.begin(), wanted.end(), got.begin()))
                << "bytes " << size << ", " << k << " x " << n << ", strides " << layout.kStride << ", "
                << layout.nStride;
            ASSERT_EQ(got.back(), std::byte{0xaa}); // and not a byte more
          }
        }
      }
    }
  }
}

TEST(WeightTable, ManyThreadsShareOneCopy) {
  constexpr int64_t k = 300, n = 200;
  WeightTable table;
  std::vector<float> values(k * n);
  for (size_t i = 0; i != values.size(); ++i)
    values[i] = static_cast<float>(i);
  for (const char *name : {"a", "b", "c"})
    ASSERT_TRUE(table.add(name, row<float>(ElementType::F32, {k, n}, values)));
  WeightLayout layout{PackedLayout::Panels16, k, n, n, 1, 0};
  std::vector<std::vector<const std::byte *>> seen(8);
  {
    auto pool = ThreadPool::create(3);
    ASSERT_OK(pool);
    std::vector<std::thread> threads;
    for (size_t i = 0; i != seen.size(); ++i)
      threads.emplace_back([&, i] {
        std::vector<WeightRequest> requests{{"b", layout}, {"a", layout}, {"c", layout}, {"a", layout}, {"c", {}}};
        if (i % 2) {
          for (const WeightRequest &request : requests)
            if (auto got = table.get(request.name, request.layout))
              seen[i].push_back(got->data());
        } else if (auto got = table.get(requests, **pool)) {
          for (auto bytes : *got)
            seen[i].push_back(bytes.data());
        }
      });
    for (std::thread &thread : threads)
      thread.join();
  }
  ASSERT_EQ(seen[0].size(), 5u);
  EXPECT_EQ(seen[0][1], seen[0][3]);
  EXPECT_NE(seen[0][0], seen[0][1]);
  EXPECT_EQ(seen[0][4], table.find("c")->bytes.data());
  for (const auto &each : seen)
    EXPECT_EQ(each, seen[0]);
  EXPECT_EQ(table.packedBytes(), 3 * packedByDefinition(4, table.find("a")->bytes.data(), layout).size());
  // Column 17 of row 1 of k: panel 1, place 1.
  EXPECT_EQ(reinterpret_cast<const float *>(seen[0][0])[(1 * k + 1) * 16 + 1], 217.f);
}

/// A kernel asks for what lies behind its weight: that is the next one when they lie as they are used.
TEST(WeightTable, RowsLieInTheOrderInWhichTheyAreAskedFor) {
  WeightTable table;
  // The largest is packed first, whatever the order.
  const std::pair<const char *, int64_t> rows[] = {{"small", 3}, {"large", 400}, {"middle", 50}};
  std::vector<WeightRequest> requests;
  for (auto [name, k] : rows) {
    ASSERT_TRUE(
        table.add(name, row<float>(ElementType::F32, {k, 16}, std::vector<float>(static_cast<size_t>(k * 16)))));
    requests.push_back({name, {PackedLayout::Panels16, k, 16, 16, 1, 0}});
  }
  auto pool = ThreadPool::create(2);
  ASSERT_OK(pool);
  auto got = table.get(requests, **pool);
  ASSERT_OK(got);
  EXPECT_EQ((*got)[1].data() - (*got)[0].data(), 3 * 64);
  EXPECT_EQ((*got)[2].data() - (*got)[1].data(), 400 * 64);
}

TEST(WeightTable, ManyAtOnceReportTheFirstError) {
  WeightTable table;
  ASSERT_TRUE(table.add("w", row<float>(ElementType::F32, {2, 2}, {1, 2, 3, 4})));
  WeightLayout good{PackedLayout::Panels16, 2, 2, 2, 1, 0}, outside{PackedLayout::Panels16, 3, 2, 2, 1, 0};
  fakes::InlinePool pool;
  std::vector<WeightRequest> requests{{"w", good}, {"w", outside}, {"v", good}};
  EXPECT_ERROR(table.get(requests, pool), ErrorCode::InvalidModel, "weight 'w': panels of 3 x 2");
  std::swap(requests[1], requests[2]);
  EXPECT_ERROR(table.get(requests, pool), ErrorCode::InvalidModel, "no weight 'v'");
  EXPECT_OK(table.get(std::span(requests).first(1), pool));
  EXPECT_OK(table.get(std::span<const WeightRequest>(), pool));
}

#if defined(__linux__)
TEST(WeightTable, MappedPagesGoWhenOnlyThePackedFormIsUsed) {
  constexpr int64_t k = 512, n = 1024; // 2 MiB
  std::vector<float> values(k * n);
  for (size_t i = 0; i != values.size(); ++i)
    values[i] = static_cast<float>(i % 4099);
  std::string path = temporary("mapped.safetensors");
  {
    WeightTable table;
    ASSERT_TRUE(table.add("w", row<float>(ElementType::F32, {k, n}, values)));
    ASSERT_OK(table.writeSafetensors(path));
  }
  auto table = WeightTable::openSafetensors(path);
  ASSERT_OK(table);
  const std::byte *plain = (*table)->find("w")->bytes.data();
  auto packed = (*table)->get("w", {PackedLayout::Panels16, k, n, n, 1, 0});
  ASSERT_OK(packed);
  int64_t left = test::residentKilobytes(plain + 4096);
  ASSERT_GE(left, 0);
  EXPECT_LT(left, 1024);
  // They come back when somebody looks.
  EXPECT_TRUE(std::equal(values.begin(), values.end(), reinterpret_cast<const float *>(plain)));
  EXPECT_EQ(reinterpret_cast<const float *>(packed->data())[(1 * k + 2) * 16 + 3], values[2 * n + 19]);
  EXPECT_GE(test::residentKilobytes(plain + 4096), 2048);
  // Used plain as well, they stay.
  ASSERT_OK((*table)->get("w", {}));
  ASSERT_OK((*table)->get("w", {PackedLayout::Panels16, n, k, 1, n, 0}));
  EXPECT_GE(test::residentKilobytes(plain + 4096), 2048);
  std::remove(path.c_str());
}
#endif

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
