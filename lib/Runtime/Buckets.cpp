//===- Buckets.cpp - runs at the next larger size -------------------------===//
#include "Buckets.h"

#include <algorithm>
#include <cstring>

using namespace rlx;

namespace {
Error invalid(const std::string &text) { return Error{ErrorCode::InvalidArgument, text}; }

std::string bucketString(const Bucket &bucket) {
  return "[" + std::to_string(bucket.first) + ", " + std::to_string(bucket.end) + ")";
}

/// Calls visit(small, large, elements) for each run of elements that lies together in
/// a tensor of `shape` and in the larger one around it: its places in both, counted
/// in elements, in ascending order.
template <typename Visit>
void forEachRun(std::span<const int64_t> shape, std::span<const int64_t> larger, const Visit &visit) {
  for (int64_t size : shape)
    if (size == 0)
      return;
  // What follows the last axis that differs lies together in both.
  size_t outer = shape.size();
  while (outer > 0 && shape[outer - 1] == larger[outer - 1])
    --outer;
  int64_t together = 1, apart = 1;
  for (size_t axis = outer; axis < shape.size(); ++axis)
    together *= shape[axis];
  apart = together;
  if (outer > 0) {
    --outer;
    together *= shape[outer];
    apart *= larger[outer];
  }
  std::vector<int64_t> index(outer);
  int64_t small = 0;
  while (true) {
    int64_t row = 0;
    for (size_t axis = 0; axis < outer; ++axis)
      row = row * larger[axis] + index[axis];
    visit(small, row * apart, together);
    small += together;
    size_t axis = outer;
    while (axis > 0 && ++index[axis - 1] == shape[axis - 1])
      index[--axis] = 0;
    if (axis == 0)
      return;
  }
}
} // namespace

Result<std::vector<Bucket>> rlx::powerOfTwoBuckets(int64_t low, int64_t high) {
  auto isPower = [](int64_t value) { return value >= 1 && (value & (value - 1)) == 0; };
  if (!isPower(low) || !isPower(high) || low > high || high > (int64_t(1) << 61))
    return invalid("a ladder of powers of two goes from one to another that is not smaller, up to 2^61, not from " +
                   std::to_string(low) + " to " + std::to_string(high));
  std::vector<Bucket> ladder = {{1, low + 1}};
  for (int64_t size = low; size < high; size *= 2)
    ladder.push_back({size + 1, 2 * size + 1});
  return ladder;
}

Result<Buckets> Buckets::create(const data::ModelSignatureT &signature, std::span<const DimHint> hints) {
  Buckets made;
  for (const DimHint &hint : hints) {
    if (hint.buckets.empty())
      continue;
    std::string what = "buckets of dim '" + hint.dim + "'";
    auto found = std::find_if(signature.dims.begin(), signature.dims.end(),
                              [&](const auto &dim) { return dim->name == hint.dim; });
    if (found == signature.dims.end())
      return invalid(what + ": the model has no such dim");
    const data::DimT &dim = **found;
    auto number = static_cast<size_t>(found - signature.dims.begin());
    if (std::any_of(made.ladders.begin(), made.ladders.end(), [&](const Ladder &other) { return other.dim == number; }))
      return invalid(what + " are given twice");
    if (!dim.paddable)
      return Error{ErrorCode::Unsupported,
                   what + ": a run may not be padded along it: " +
                       (dim.obstacle.empty() ? "the model does not say that it may" : dim.obstacle)};
    Ladder ladder{number, hint.buckets};
    std::sort(ladder.buckets.begin(), ladder.buckets.end(),
              [](const Bucket &a, const Bucket &b) { return a.first < b.first; });
    const Bucket *before = nullptr;
    for (const Bucket &bucket : ladder.buckets) {
      if (bucket.first >= bucket.end)
        return invalid(what + ": " + bucketString(bucket) + " is empty");
      if (bucket.first < 1)
        return invalid(what + ": " + bucketString(bucket) + " begins below 1");
      if (before && bucket.first < before->end)
        return invalid(what + ": " + bucketString(*before) + " and " + bucketString(bucket) + " overlap");
      int64_t size = bucket.end - 1, min = std::max(dim.min, hint.min), max = std::min(dim.max, hint.max);
      for (int64_t multiple : {dim.multiple, hint.multiple})
        if (multiple > 1 && size % multiple != 0)
          return invalid(what + ": " + bucketString(bucket) + " runs at " + std::to_string(size) +
                         ", which is not a multiple of " + std::to_string(multiple));
      if (size < min || size > max)
        return invalid(what + ": " + bucketString(bucket) + " runs at " + std::to_string(size) +
                       ", which lies outside the dim's range [" + std::to_string(min) + ", " + std::to_string(max) +
                       "]");
      before = &bucket;
    }
    made.ladders.push_back(std::move(ladder));
  }
  return made;
}

bool Buckets::roundUp(std::span<int64_t> sizes) const {
  bool changed = false;
  for (const Ladder &ladder : ladders) {
    int64_t &size = sizes[ladder.dim];
    auto after = std::upper_bound(ladder.buckets.begin(), ladder.buckets.end(), size,
                                  [](int64_t value, const Bucket &bucket) { return value < bucket.first; });
    if (after == ladder.buckets.begin())
      continue;
    const Bucket &bucket = *std::prev(after);
    if (size >= bucket.end - 1)
      continue; // in none, or the bucket's own size
    size = bucket.end - 1;
    changed = true;
  }
  return changed;
}

void rlx::padWithZeros(const void *from, std::span<const int64_t> shape, void *to, std::span<const int64_t> larger,
                       size_t elementBytes) {
  const auto *source = static_cast<const std::byte *>(from);
  auto *target = static_cast<std::byte *>(to);
  size_t done = 0;
  forEachRun(shape, larger, [&](int64_t small, int64_t large, int64_t elements) {
    size_t at = static_cast<size_t>(large) * elementBytes, bytes = static_cast<size_t>(elements) * elementBytes;
    std::memset(target + done, 0, at - done);
    std::memcpy(target + at, source + static_cast<size_t>(small) * elementBytes, bytes);
    done = at + bytes;
  });
  size_t total = elementBytes;
  for (int64_t size : larger)
    total *= static_cast<size_t>(size);
  std::memset(target + done, 0, total - done);
}

void rlx::cutBack(const void *from, std::span<const int64_t> larger, void *to, std::span<const int64_t> shape,
                  size_t elementBytes) {
  const auto *source = static_cast<const std::byte *>(from);
  auto *target = static_cast<std::byte *>(to);
  forEachRun(shape, larger, [&](int64_t small, int64_t large, int64_t elements) {
    std::memcpy(target + static_cast<size_t>(small) * elementBytes, source + static_cast<size_t>(large) * elementBytes,
                static_cast<size_t>(elements) * elementBytes);
  });
}
