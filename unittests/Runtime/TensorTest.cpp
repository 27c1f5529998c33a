//===- TensorTest.cpp -----------------------------------------------------===//
#include "Convert.h"
#include "Fakes.h"

#include <bit>
#include <cmath>
#include <cstring>

using namespace rlx;

TEST(Tensor, ElementCount) {
  EXPECT_EQ(elementCount(std::vector<int64_t>{}), 1);
  EXPECT_EQ(elementCount(std::vector<int64_t>{2, 3}), 6);
  EXPECT_EQ(elementCount(std::vector<int64_t>{int64_t(1) << 32, int64_t(1) << 32}), std::nullopt);
  EXPECT_EQ(elementCount(std::vector<int64_t>{int64_t(1) << 32, int64_t(1) << 32, 0}), 0);
  EXPECT_EQ(elementCount(std::vector<int64_t>{-1}), std::nullopt);
}

TEST(Tensor, RefusesWhatCannotBeAllocated) {
  // Case 15: 4611686018427387906 f32 wrap to 8 bytes in 64-bit arithmetic.
  EXPECT_ERROR(Tensor::allocate(data::ElementType::F32, {4611686018427387906}), ErrorCode::OutOfRange, "overflow");
  EXPECT_ERROR(Tensor::allocate(data::ElementType::F32, {int64_t(1) << 32, int64_t(1) << 32}), ErrorCode::OutOfRange,
               "overflow");
  EXPECT_ERROR(Tensor::allocate(data::ElementType::I8, {INT64_MAX}), ErrorCode::OutOfRange, "memory");
  EXPECT_ERROR(Tensor::allocate(static_cast<data::ElementType>(77), {1}), ErrorCode::InvalidArgument, "type");
}

TEST(Tensor, IssueCopyOfNoData) {
  const int64_t shape[] = {2};
  EXPECT_ERROR(Tensor::copyOf(TensorView{data::ElementType::F32, shape, nullptr, 8, false}), ErrorCode::InvalidArgument,
               "no data");
}

TEST(Tensor, IsAlignedAndOwned) {
  auto tensor = Tensor::allocate(data::ElementType::F32, {0, 3});
  ASSERT_OK(tensor);
  EXPECT_NE(tensor->data(), nullptr);
  EXPECT_EQ(tensor->bytes(), 0u);
  auto other = Tensor::allocate(data::ElementType::I8, {5});
  ASSERT_OK(other);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(other->data()) % 64, 0u);
}

TEST(Convert, PublishedValues) {
  // Case 52.
  EXPECT_EQ(f16ToF32(f32ToF16(65519.0f)), 65504.0f);
  EXPECT_TRUE(std::isinf(f16ToF32(f32ToF16(65520.0f))));
  EXPECT_EQ(f16ToF32(f32ToF16(2049.0f)), 2048.0f);
  EXPECT_EQ(f16ToF32(f32ToF16(2051.0f)), 2052.0f);
  EXPECT_EQ(f32ToF16(2.9e-8f), 0);
  EXPECT_EQ(bf16ToF32(f32ToBf16(3.14f)), 3.140625f);
  EXPECT_EQ(bf16ToF32(f32ToBf16(0.26914088f)), 0.26953125f);
  EXPECT_EQ(bf16ToF32(f32ToBf16(1.01171875f)), 1.015625f);
  EXPECT_TRUE(std::isnan(bf16ToF32(f32ToBf16(std::bit_cast<float>(0x7F800001u)))));
  EXPECT_TRUE(std::isnan(f16ToF32(f32ToF16(std::bit_cast<float>(0x7F800001u)))));
}

TEST(Convert, AgreesWithTheCompilersConversion) {
  for (uint32_t bits = 0; bits != 0x10000; ++bits) {
    auto half = static_cast<uint16_t>(bits);
    float wide = f16ToF32(half);
    auto reference = static_cast<float>(std::bit_cast<_Float16>(half));
    EXPECT_EQ(std::isnan(wide), std::isnan(reference));
    if (!std::isnan(wide)) {
      EXPECT_EQ(std::bit_cast<uint32_t>(wide), std::bit_cast<uint32_t>(reference)) << bits;
      EXPECT_EQ(f32ToF16(wide), half);
    }
  }
  // Every exponent, and mantissas around ties.
  for (uint64_t bits = 0; bits < (uint64_t(1) << 32); bits += 4099) {
    for (int64_t near : {-1, 0, 1}) {
      auto word = static_cast<uint32_t>((bits & ~uint64_t(0xFFF)) + static_cast<uint64_t>(near));
      auto value = std::bit_cast<float>(word);
      if (std::isnan(value))
        continue;
      ASSERT_EQ(f32ToF16(value), std::bit_cast<uint16_t>(static_cast<_Float16>(value))) << word;
      // bf16: the nearer of the two neighbours, which are f32 with 16 zero bits.
      double below = std::bit_cast<float>(word & 0xFFFF0000u),
             above = std::bit_cast<float>((word & 0xFFFF0000u) + 0x10000u);
      if (std::isinf(below) || std::isinf(above))
        continue;
      double down = std::fabs(value - below), up = std::fabs(above - value);
      uint32_t wanted = (word >> 16) + (up < down || (up == down && (word >> 16 & 1)));
      ASSERT_EQ(f32ToBf16(value), wanted) << word;
    }
  }
}
