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

TEST(Buckets, PaddingAndCuttingBack) {
  // [2, 2, 2] in [3, 4, 2]; by hand.
  const std::vector<int64_t> shape = {2, 2, 2}, larger = {3, 4, 2};
  const std::vector<float> values = {1, 2, 3, 4, 5, 6, 7, 8};
  std::vector<float> padded(24, -1), back(8, -1);
  padWithZeros(values.data(), shape, padded.data(), larger, sizeof(float));
  EXPECT_THAT(padded, ElementsAre(1, 2, 3, 4, 0, 0, 0, 0, 5, 6, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
  cutBack(padded.data(), larger, back.data(), shape, sizeof(float));
  EXPECT_EQ(back, values);
  // The last axis alone.
  std::vector<float> row(6, -1);
  padWithZeros(values.data(), std::vector<int64_t>{2, 2}, row.data(), std::vector<int64_t>{2, 3}, sizeof(float));
  EXPECT_THAT(row, ElementsAre(1, 2, 0, 3, 4, 0));
  // Nothing in something, and a scalar.
  padWithZeros(nullptr, std::vector<int64_t>{0, 2}, row.data(), std::vector<int64_t>{3, 2}, sizeof(float));
  EXPECT_THAT(row, ElementsAre(0, 0, 0, 0, 0, 0));
  padWithZeros(values.data(), std::vector<int64_t>{}, row.data(), std::vector<int64_t>{}, sizeof(float));
  EXPECT_EQ(row[0], 1);
}
} // namespace
