#include "rlx/Tools/Npy.h"

#include "TestBytes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>

using namespace rlx;
using namespace rlx::tools;
using data::ElementType;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

// Written by numpy 2.4: np.array([[1.5, -2, inf], [0, 1e-40, 3]], float32).
constexpr std::string_view kF32 =
    "934e554d5059010076007b276465736372273a20273c6634272c2027666f727472616e5f6f72646572273a2046616c73652c"
    "20277368617065273a2028322c2033292c207d20202020202020202020202020202020202020202020202020202020202020"
    "2020202020202020202020202020202020202020202020202020200a0000c03f000000c00000807f00000000c21601000000"
    "4040";
// np.asfortranarray(np.arange(6).reshape(2, 3)) as float16, format version 2.
constexpr std::string_view kF16Fortran =
    "934e554d50590200740000007b276465736372273a20273c6632272c2027666f727472616e5f6f72646572273a2054727565"
    "2c20277368617065273a2028322c2033292c207d202020202020202020202020202020202020202020202020202020202020"
    "2020202020202020202020202020202020202020202020202020200a00000042003c004400400045";
// np.array(True), format version 3.
constexpr std::string_view kBoolScalar =
    "934e554d50590300740000007b276465736372273a20277c6231272c2027666f727472616e5f6f72646572273a2046616c73"
    "652c20277368617065273a2028292c207d202020202020202020202020202020202020202020202020202020202020202020"
    "2020202020202020202020202020202020202020202020202020200a01";
// np.zeros((0, 4), int64).
constexpr std::string_view kI64Empty =
    "934e554d5059010076007b276465736372273a20273c6938272c2027666f727472616e5f6f72646572273a2046616c73652c"
    "20277368617065273a2028302c2034292c207d20202020202020202020202020202020202020202020202020202020202020"
    "2020202020202020202020202020202020202020202020202020200a";

/// A version 1 file with this header text and this many zero bytes of data.
std::vector<std::byte> withHeader(std::string header, size_t data) {
  std::string file("\x93NUMPY\x01\x00", 8);
  file += static_cast<char>(header.size() & 255);
  file += static_cast<char>(header.size() >> 8);
  file += header;
  file.append(data, '\0');
  return bytesOf(file);
}

std::string errorOf(const std::vector<std::byte> &file) {
  Result<Tensor> tensor = decodeNpy(file);
  if (tensor)
    return "decoded";
  EXPECT_EQ(tensor.error().code, ErrorCode::InvalidArgument);
  return tensor.error().message;
}

TEST(NpyTest, ReadsWhatNumpyWrites) {
  Result<Tensor> plain = decodeNpy(fromHex(kF32));
  ASSERT_TRUE(plain) << plain.error().message;
  EXPECT_EQ(plain->type(), ElementType::F32);
  EXPECT_THAT(plain->shape(), ElementsAre(2, 3));
  EXPECT_THAT(valuesOf<uint32_t>(*plain), ElementsAre(0x3fc00000, 0xc0000000, 0x7f800000, 0, 0x000116c2, 0x40400000));

  Result<Tensor> columns = decodeNpy(fromHex(kF16Fortran));
  ASSERT_TRUE(columns) << columns.error().message;
  EXPECT_EQ(columns->type(), ElementType::F16);
  EXPECT_THAT(columns->shape(), ElementsAre(2, 3));
  // 0 1 2 3 4 5 in row-major order.
  EXPECT_THAT(valuesOf<uint16_t>(*columns), ElementsAre(0, 0x3c00, 0x4000, 0x4200, 0x4400, 0x4500));

  Result<Tensor> scalar = decodeNpy(fromHex(kBoolScalar));
  ASSERT_TRUE(scalar) << scalar.error().message;
  EXPECT_EQ(scalar->type(), ElementType::I1);
  EXPECT_TRUE(scalar->shape().empty());
  EXPECT_THAT(valuesOf<uint8_t>(*scalar), ElementsAre(1));

  Result<Tensor> empty = decodeNpy(fromHex(kI64Empty));
  ASSERT_TRUE(empty) << empty.error().message;
  EXPECT_THAT(empty->shape(), ElementsAre(0, 4));
  EXPECT_EQ(empty->elements(), 0);
}

TEST(NpyTest, WritesTheBytesNumpyWrites) {
  float infinity = std::numeric_limits<float>::infinity();
  Tensor tensor = makeTensor<float>(ElementType::F32, {2, 3}, {1.5f, -2, infinity, 0, 1e-40f, 3});
  EXPECT_EQ(encodeNpy(tensor.view()), fromHex(kF32));
  Tensor empty = makeTensor<int64_t>(ElementType::I64, {0, 4}, {});
  EXPECT_EQ(encodeNpy(empty.view()), fromHex(kI64Empty));
}

TEST(NpyTest, RoundTripsEveryRank) {
  for (const std::vector<int64_t> &shape : std::vector<std::vector<int64_t>>{{}, {2}, {1, 2}, {1, 1, 2, 1}}) {
    std::vector<uint16_t> values(shape.empty() ? 1 : 2, 40000);
    Tensor tensor = makeTensor<uint16_t>(ElementType::U16, shape, values);
    Result<Tensor> back = decodeNpy(encodeNpy(tensor.view()));
    ASSERT_TRUE(back) << back.error().message;
    EXPECT_EQ(back->type(), ElementType::U16);
    EXPECT_EQ(back->shape(), shape);
    EXPECT_EQ(valuesOf<uint16_t>(*back), values);
  }
}

TEST(NpyTest, WritesBf16AsF32) {
  Tensor tensor = makeTensor<uint16_t>(ElementType::BF16, {2}, {0x4049, 0xbf80});
  Result<Tensor> back = decodeNpy(encodeNpy(tensor.view()));
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(back->type(), ElementType::F32);
  EXPECT_THAT(valuesOf<float>(*back), ElementsAre(3.140625f, -1.0f));
}

TEST(NpyTest, BooleansBecomeZeroOrOne) {
  std::vector<std::byte> file = withHeader("{'descr': '|b1', 'fortran_order': False, 'shape': (2,), }\n", 2);
  file.back() = std::byte{200};
  Result<Tensor> tensor = decodeNpy(file);
  ASSERT_TRUE(tensor);
  EXPECT_THAT(valuesOf<uint8_t>(*tensor), ElementsAre(0, 1));
}

TEST(NpyTest, RefusesWhatItCannotRead) {
  EXPECT_THAT(errorOf(bytesOf("PK\x03\x04 not an array at all")), HasSubstr("not a .npy file"));
  EXPECT_THAT(errorOf({}), HasSubstr("not a .npy file"));
  EXPECT_THAT(errorOf(withHeader("{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }", 4)),
              HasSubstr("big endian"));
  EXPECT_THAT(errorOf(withHeader("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", 8)),
              HasSubstr("'|O' has no rlx type"));
  EXPECT_THAT(errorOf(withHeader("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", 4)),
              HasSubstr("records"));
  EXPECT_THAT(errorOf(withHeader("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", 4)),
              HasSubstr("takes 8 bytes of data, but it has 4"));
  EXPECT_THAT(errorOf(withHeader("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", 5)),
              HasSubstr("takes 4 bytes of data, but it has 5"));
  EXPECT_THAT(errorOf(withHeader("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904,), }", 4)),
              HasSubstr("too large"));
  EXPECT_THAT(errorOf(withHeader("{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296, 4294967296), }", 8)),
              HasSubstr("too large"));
  EXPECT_THAT(errorOf(withHeader("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }", 4)),
              HasSubstr("header"));
  EXPECT_THAT(errorOf(withHeader("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", 4)),
              HasSubstr("header"));
  EXPECT_THAT(errorOf(withHeader("{'descr': '<f4', 'shape': (1,), }", 4)), HasSubstr("header"));
  EXPECT_THAT(errorOf(withHeader("", 0)), HasSubstr("header"));
  std::vector<std::byte> newer = fromHex(kF32);
  newer[6] = std::byte{4};
  EXPECT_THAT(errorOf(newer), HasSubstr("format 4.0 is not known"));
}

// Every prefix is refused, and so is every file with one byte of its header changed unless it still describes the
// same number of bytes: nothing may crash or read past the end (the sanitizer build sees that).
TEST(NpyTest, SurvivesTruncationAndChangedBytes) {
  std::vector<std::byte> file = fromHex(kF16Fortran);
  for (size_t length = 0; length < file.size(); ++length)
    EXPECT_NE(errorOf(std::vector<std::byte>(file.begin(), file.begin() + length)), "decoded") << length;
  for (size_t at = 0; at < 70; ++at)
    for (int value : std::initializer_list<int>{0, 1, '(', '9', '{', '\'', 127, 255}) {
      std::vector<std::byte> changed = file;
      changed[at] = std::byte(value);
      Result<Tensor> tensor = decodeNpy(changed);
      if (tensor) {
        EXPECT_EQ(tensor->bytes(), 12u) << at << " " << value;
      }
    }
}

} // namespace
