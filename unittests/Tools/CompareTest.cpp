#include "rlx/Tools/Compare.h"

#include "TestBytes.h"

#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>

using namespace rlx;
using namespace rlx::tools;
using data::ElementType;
using testing::HasSubstr;

namespace {

Comparison compareFloats(std::vector<float> got, std::vector<float> expected, Tolerance tolerance = {}) {
  std::vector<int64_t> shape{static_cast<int64_t>(expected.size())};
  Tensor a = makeTensor<float>(ElementType::F32, {static_cast<int64_t>(got.size())}, got);
  Tensor b = makeTensor<float>(ElementType::F32, shape, expected);
  return compareTensors(a.view(), b.view(), tolerance);
}

TEST(CompareTest, TolerancesAddUp) {
  // |got - expected| <= 0.25 + 0.5 * |expected|, every number exact in binary.
  Tolerance tolerance{.relative = 0.5, .absolute = 0.25};
  EXPECT_TRUE(compareFloats({2.25f}, {4.5f}, {.relative = 0.5, .absolute = 0}).passed);
  EXPECT_TRUE(compareFloats({6.25f}, {4.0f}, tolerance).passed);
  Comparison over = compareFloats({1, 6.5f}, {1, 4}, tolerance);
  EXPECT_FALSE(over.passed);
  EXPECT_EQ(over.mismatches, 1);
  EXPECT_EQ(over.largest, 2.5);
  EXPECT_EQ(over.reason, "1 of 2 elements differ by up to 2.5, first at [1]: 6.5, expected 4");
}

TEST(CompareTest, NanEqualsNanAndInfinityOnlyItself) {
  float nan = std::nanf(""), inf = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(compareFloats({nan, inf, -inf}, {-nan, inf, -inf}).passed);
  EXPECT_TRUE(compareFloats({-0.0f}, {0.0f}, {.relative = 0, .absolute = 0}).passed);
  EXPECT_FALSE(compareFloats({nan}, {1}).passed);
  EXPECT_FALSE(compareFloats({1}, {nan}).passed);
  EXPECT_FALSE(compareFloats({inf}, {-inf}).passed);
  Comparison wide = compareFloats({inf}, {1e30f}, {.relative = 1e9, .absolute = 1e38});
  EXPECT_FALSE(wide.passed);
  EXPECT_TRUE(std::isinf(wide.largest));
  EXPECT_FALSE(compareFloats({1e30f}, {inf}, {.relative = 1, .absolute = 1}).passed);
}

TEST(CompareTest, TypesAndShapesAreStrict) {
  Tensor one = makeTensor<float>(ElementType::F32, {1}, {1});
  Tensor scalar = makeTensor<float>(ElementType::F32, {}, {1});
  Tensor integer = makeTensor<int32_t>(ElementType::I32, {1}, {1});
  EXPECT_EQ(compareTensors(one.view(), scalar.view(), {}).reason, "shape [1], expected []");
  EXPECT_EQ(compareTensors(one.view(), integer.view(), {}).reason, "type f32, expected i32");
  Tensor wide = makeTensor<float>(ElementType::F32, {0, 4}, {});
  Tensor tall = makeTensor<float>(ElementType::F32, {4, 0}, {});
  EXPECT_FALSE(compareTensors(wide.view(), tall.view(), {}).passed);
  EXPECT_TRUE(compareTensors(wide.view(), wide.view(), {}).passed);
}

TEST(CompareTest, IntegersAreExactWhateverTheTolerance) {
  Tolerance loose{.relative = 10, .absolute = 10};
  Tensor a = makeTensor<int64_t>(ElementType::I64, {1, 2}, {5, std::numeric_limits<int64_t>::max()});
  Tensor b = makeTensor<int64_t>(ElementType::I64, {1, 2}, {5, std::numeric_limits<int64_t>::max() - 1});
  Comparison result = compareTensors(a.view(), b.view(), loose);
  EXPECT_FALSE(result.passed);
  EXPECT_EQ(result.mismatches, 1);
  EXPECT_EQ(result.largest, 1);
  EXPECT_THAT(result.reason, HasSubstr("first at [0,1]: 9223372036854775807, expected 9223372036854775806"));
  Tensor yes = makeTensor<uint8_t>(ElementType::I1, {1}, {1});
  Tensor no = makeTensor<uint8_t>(ElementType::I1, {1}, {0});
  EXPECT_THAT(compareTensors(yes.view(), no.view(), loose).reason, HasSubstr("true, expected false"));
}

TEST(CompareTest, HalfFloatsAreWidened) {
  // 1 and 1 + 2^-10 (f16); 2^-24, the smallest, and 0.
  Tensor a = makeTensor<uint16_t>(ElementType::F16, {2}, {0x3c01, 0x0001});
  Tensor b = makeTensor<uint16_t>(ElementType::F16, {2}, {0x3c00, 0x0000});
  Comparison result = compareTensors(a.view(), b.view(), {.relative = 0, .absolute = 0});
  EXPECT_EQ(result.mismatches, 2);
  EXPECT_EQ(result.largest, std::ldexp(1.0, -10));
  EXPECT_TRUE(compareTensors(a.view(), b.view(), {.relative = 0, .absolute = std::ldexp(1.0, -10)}).passed);
  Tensor c = makeTensor<uint16_t>(ElementType::BF16, {1}, {0x3f81});
  Tensor d = makeTensor<uint16_t>(ElementType::BF16, {1}, {0x3f80});
  EXPECT_EQ(compareTensors(c.view(), d.view(), {.relative = 0, .absolute = 0}).largest, std::ldexp(1.0, -7));
}

TEST(CompareTest, IssueBf16IsExpectedAsF32) {
  // .npy files cannot hold bf16.
  Tolerance exact{.relative = 0, .absolute = 0};
  Tensor got = makeTensor<uint16_t>(ElementType::BF16, {3}, {0x3f80, 0x7fc0, 0xff80});
  Tensor same = makeTensor<float>(ElementType::F32, {3}, {1, std::nanf(""), -std::numeric_limits<float>::infinity()});
  EXPECT_TRUE(compareTensors(got.view(), same.view(), exact).passed);
  Tensor other = makeTensor<float>(ElementType::F32, {3}, {1, 1, 1});
  EXPECT_EQ(compareTensors(got.view(), other.view(), exact).reason,
            "2 of 3 elements differ by up to inf, first at [1]: nan, expected 1");
  // Not the other way round, and no other types.
  EXPECT_EQ(compareTensors(same.view(), got.view(), exact).reason, "type f32, expected bf16");
  Tensor half = makeTensor<uint16_t>(ElementType::F16, {3}, {0, 0, 0});
  EXPECT_EQ(compareTensors(half.view(), same.view(), exact).reason, "type f16, expected f32");
}

TEST(CompareTest, IssueNanHasNoSign) {
  Tensor got = makeTensor<float>(ElementType::F32, {1}, {-std::nanf("")});
  Tensor expected = makeTensor<float>(ElementType::F32, {1}, {-1});
  EXPECT_THAT(compareTensors(got.view(), expected.view(), {}).reason, HasSubstr("first at [0]: nan, expected -1"));
}

} // namespace
