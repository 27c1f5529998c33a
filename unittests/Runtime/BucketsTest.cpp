//===- BucketsTest.cpp - sizes that are run at the next larger one --------===//
#include "Buckets.h"

#include <gmock/gmock.h>

using namespace rlx;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

namespace {
data::ModelSignatureT signatureOf(bool paddable) {
  data::ModelSignatureT signature;
  auto dim = std::make_unique<data::DimT>();
  dim->name = "S";
  dim->max = 1000;
  dim->paddable = paddable;
  dim->obstacle = paddable ? "" : "node 'mean': reduces along it";
  signature.dims.push_back(std::move(dim));
  return signature;
}

DimHint hintOf(std::vector<Bucket> buckets) {
  DimHint hint;
  hint.dim = "S";
  hint.buckets = std::move(buckets);
  return hint;
}

std::string errorOf(const DimHint &hint, bool paddable = true) {
  Result<Buckets> made = Buckets::create(signatureOf(paddable), std::span(&hint, 1));
  return made ? "" : made.error().message;
}

int64_t rounded(const Buckets &buckets, int64_t size) {
  bool changed = buckets.roundUp(std::span(&size, 1));
  EXPECT_TRUE(changed || size >= 0);
  return size;
}

TEST(Buckets, Case33) {
  DimHint hint = hintOf({{4, 16}, {1, 4}});
  Result<Buckets> made = Buckets::create(signatureOf(true), std::span(&hint, 1));
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(rounded(*made, 2), 3);
  EXPECT_EQ(rounded(*made, 3), 3);
  EXPECT_EQ(rounded(*made, 4), 15);
  EXPECT_EQ(rounded(*made, 15), 15);
  for (int64_t exact : {0, 16, 100})
    EXPECT_EQ(rounded(*made, exact), exact);
}

TEST(Buckets, PowersOfTwo) {
  Result<std::vector<Bucket>> ladder = powerOfTwoBuckets(8, 64);
  ASSERT_TRUE(ladder);
  DimHint hint = hintOf(*ladder);
  Result<Buckets> made = Buckets::create(signatureOf(true), std::span(&hint, 1));
  ASSERT_TRUE(made) << made.error().message;
  for (auto [size, at] : std::initializer_list<std::pair<int64_t, int64_t>>{
           {0, 0}, {1, 8}, {3, 8}, {8, 8}, {9, 16}, {16, 16}, {17, 32}, {32, 32}, {33, 64}, {64, 64}, {65, 65}})
    EXPECT_EQ(rounded(*made, size), at) << size;
}

TEST(Buckets, WhatCannotBeIsRefused) {
  EXPECT_THAT(errorOf(hintOf({{1, 4}, {3, 16}})), HasSubstr("[1, 4) and [3, 16) overlap"));
  EXPECT_THAT(errorOf(hintOf({{4, 4}})), HasSubstr("[4, 4) is empty"));
  EXPECT_THAT(errorOf(hintOf({{0, 4}})), HasSubstr("begins below 1"));
  EXPECT_THAT(errorOf(hintOf({{1, 1002}})), HasSubstr("outside the dim's range"));
  DimHint odd = hintOf({{1, 4}});
  odd.multiple = 2;
  EXPECT_THAT(errorOf(odd), HasSubstr("not a multiple of 2"));
  EXPECT_THAT(errorOf(hintOf({{1, 4}}), false), HasSubstr("node 'mean': reduces along it"));
  DimHint unknown = hintOf({{1, 4}});
  unknown.dim = "T";
  EXPECT_THAT(errorOf(unknown), HasSubstr("no such dim"));
}

using Shape = std::vector<int64_t>;
using Floats = std::vector<float>;

Floats padded(const Floats &values, const Shape &shape, const Shape &larger) {
  Floats all(static_cast<size_t>(*elementCount(larger)), -1);
  padWithZeros(shape, reinterpret_cast<std::byte *>(all.data()), all.size() * sizeof(float), larger, sizeof(float),
               [&](std::byte *to, size_t first, size_t elements) {
                 ASSERT_LE(first + elements, values.size());
                 std::memcpy(to, values.data() + first, elements * sizeof(float));
               });
  return all;
}

Floats cutBack(const Floats &all, const Shape &shape, const Shape &larger) {
  Floats values(static_cast<size_t>(*elementCount(shape)), -1);
  forEachRun(shape, larger, [&](int64_t small, int64_t large, int64_t elements) {
    std::copy_n(all.begin() + large, elements, values.begin() + small);
  });
  return values;
}

TEST(Buckets, PaddingAndCuttingBack) {
  // [2, 2, 2] in [3, 4, 2]; by hand.
  const Floats values = {1, 2, 3, 4, 5, 6, 7, 8};
  Floats all = padded(values, {2, 2, 2}, {3, 4, 2});
  EXPECT_THAT(all, ElementsAre(1, 2, 3, 4, 0, 0, 0, 0, 5, 6, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_EQ(cutBack(all, {2, 2, 2}, {3, 4, 2}), values);
  // The last axis alone.
  EXPECT_THAT(padded({1, 2, 3, 4}, {2, 2}, {2, 3}), ElementsAre(1, 2, 0, 3, 4, 0));
  // Nothing in something, and a scalar.
  EXPECT_THAT(padded({}, {0, 2}, {3, 2}), ElementsAre(0, 0, 0, 0, 0, 0));
  EXPECT_THAT(padded({1}, {}, {}), ElementsAre(1));
  EXPECT_THAT(cutBack({7}, {}, {}), ElementsAre(7));
  // More axes than lie on the stack: [2, 1, ..., 1, 2] in [2, 2, 1, ..., 1, 3].
  Shape shape(20, 1), larger(20, 1);
  shape[0] = shape[19] = larger[0] = larger[1] = 2;
  larger[19] = 3;
  all = padded({1, 2, 3, 4}, shape, larger);
  EXPECT_THAT(all, ElementsAre(1, 2, 0, 0, 0, 0, 3, 4, 0, 0, 0, 0));
  EXPECT_EQ(cutBack(all, shape, larger), (Floats{1, 2, 3, 4}));
  EXPECT_TRUE(fitsInto(shape, larger));
  EXPECT_FALSE(fitsInto(larger, shape));
}

TEST(Buckets, ShapesAtSizes) {
  data::ModelSignatureT signature = signatureOf(true);
  signature.dims.push_back(std::make_unique<data::DimT>());
  signature.dims.back()->name = "B";
  for (std::vector<std::string> shape : {std::vector<std::string>{"2*S + B", "B", "5"}, {}, {"S"}}) {
    signature.inputs.push_back(std::make_unique<data::TensorSpecT>());
    signature.inputs.back()->shape = std::move(shape);
  }
  Result<ShapesOf> shapes = ShapesOf::create(signature.inputs, signature);
  ASSERT_TRUE(shapes) << shapes.error().message;
  const int64_t sizes[] = {7, 3};
  ASSERT_EQ(shapes->rank(0), 3u);
  Shape shape(3);
  shapes->evaluate(0, sizes, shape);
  EXPECT_THAT(shape, ElementsAre(17, 3, 5));
  EXPECT_EQ(shapes->elements(0, sizes), 255);
  EXPECT_EQ(shapes->rank(1), 0u);
  EXPECT_EQ(shapes->elements(1, sizes), 1);
  EXPECT_EQ(shapes->elements(2, sizes), 7);
  signature.inputs[2]->shape = {"T"};
  EXPECT_FALSE(ShapesOf::create(signature.inputs, signature));
}
} // namespace
