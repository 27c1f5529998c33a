#include "rlx/Tools/TensorProto.h"

#include "TestBytes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace rlx;
using namespace rlx::tools;
using data::ElementType;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

// Written by onnx 1.23's helper.make_tensor and numpy_helper.from_array.
constexpr std::string_view kF16Typed = "0802100a2a058078fff701420174";                         // [1, 65504]
constexpr std::string_view kBf16Typed = "080210102a06c9800180ff02420173";                      // [3.140625, -1]
constexpr std::string_view kI64Raw = "0801080210074201724a10ffffffffffffffff0000000000010000"; // [[-1, 2^40]]
constexpr std::string_view kBoolTyped = "080310092a03010001420162";                            // [true, false, true]
constexpr std::string_view kU32Typed = "0802100c4201755a0607ffffffff0f";                       // [7, 4294967295]
constexpr std::string_view kString = "08011008320178420173";                                   // [b"x"]

Tensor decoded(std::string_view hex) {
  Result<Tensor> tensor = decodeTensorProto(fromHex(hex));
  EXPECT_TRUE(tensor) << tensor.error().message;
  return tensor ? *std::move(tensor) : Tensor();
}

Error errorOf(std::string_view hex) {
  Result<Tensor> tensor = decodeTensorProto(fromHex(hex));
  EXPECT_FALSE(tensor);
  return tensor ? Error{} : tensor.error();
}

TEST(TensorProtoTest, ReadsTypedFieldsAndRawData) {
  Tensor half = decoded(kF16Typed);
  EXPECT_EQ(half.type(), ElementType::F16);
  EXPECT_THAT(valuesOf<uint16_t>(half), ElementsAre(0x3c00, 0x7bff));
  Tensor brain = decoded(kBf16Typed);
  EXPECT_EQ(brain.type(), ElementType::BF16);
  EXPECT_THAT(valuesOf<uint16_t>(brain), ElementsAre(0x4049, 0xbf80));
  Tensor raw = decoded(kI64Raw);
  EXPECT_THAT(raw.shape(), ElementsAre(1, 2));
  EXPECT_THAT(valuesOf<int64_t>(raw), ElementsAre(-1, int64_t(1) << 40));
  Tensor boolean = decoded(kBoolTyped);
  EXPECT_EQ(boolean.type(), ElementType::I1);
  EXPECT_THAT(valuesOf<uint8_t>(boolean), ElementsAre(1, 0, 1));
  Tensor word = decoded(kU32Typed);
  EXPECT_EQ(word.type(), ElementType::U32);
  EXPECT_THAT(valuesOf<uint32_t>(word), ElementsAre(7u, 4294967295u));
}

TEST(TensorProtoTest, WritesTheBytesOnnxWrites) {
  Tensor tensor = makeTensor<int64_t>(ElementType::I64, {1, 2}, {-1, int64_t(1) << 40});
  EXPECT_EQ(encodeTensorProto(tensor.view(), "r"), fromHex(kI64Raw));
}

TEST(TensorProtoTest, RefusesWhatItCannotRead) {
  Error text = errorOf(kString);
  EXPECT_EQ(text.code, ErrorCode::Unsupported);
  EXPECT_THAT(text.message, HasSubstr("STRING"));
  EXPECT_THAT(errorOf("").message, HasSubstr("not an ONNX tensor"));
  EXPECT_THAT(errorOf("ffffffffffff").message, HasSubstr("not an ONNX tensor"));
  // Shape [3] with two float16 values; shape [3] of int64 with 16 raw bytes.
  EXPECT_THAT(errorOf("0803100a2a058078fff701420174").message, HasSubstr("shape [3] has 3 elements, but it holds 2"));
  EXPECT_THAT(errorOf("080310074a10ffffffffffffffff0000000000010000").message,
              HasSubstr("takes 24 bytes of data, but it has 16"));
  // Shape [1] with two values is as wrong as too few.
  EXPECT_THAT(errorOf("0801100a2a058078fff701").message, HasSubstr("shape [1] has 1 elements, but it holds 2"));
  // [2^62] of f32 with no data, [-1] of f32: nothing may be allocated.
  EXPECT_THAT(errorOf("088080808080808080401001").message, HasSubstr("too large"));
  EXPECT_THAT(errorOf("08ffffffffffffffffff011001").message, HasSubstr("negative"));
  EXPECT_THAT(errorOf("0880808080101001").message, HasSubstr("holds 0"));
  // data_location EXTERNAL.
  EXPECT_THAT(errorOf("0801100170"
                      "01")
                  .message,
              HasSubstr("another file"));
}

TEST(TensorProtoTest, SurvivesTruncationAndChangedBytes) {
  std::vector<std::byte> file = fromHex(kI64Raw);
  for (size_t length = 0; length < file.size(); ++length) {
    Result<Tensor> tensor = decodeTensorProto(std::span(file).first(length));
    EXPECT_FALSE(tensor) << length;
  }
  for (size_t at = 0; at < file.size(); ++at)
    for (int value = 0; value < 256; ++value) {
      std::vector<std::byte> changed = file;
      changed[at] = std::byte(value);
      Result<Tensor> tensor = decodeTensorProto(changed);
      if (tensor) {
        EXPECT_LE(tensor->bytes(), 16u) << at << " " << value;
      }
    }
}

} // namespace
