//===- Buckets.cpp - runs at the next larger size -------------------------===//
#include "Buckets.h"

#include <algorithm>
#include <cassert>
#include <functional>

using namespace rlx;

namespace {
Error invalid(const std::string &text) { return Error{ErrorCode::InvalidArgument, text}; }

std::string bucketString(const Bucket &bucket) {
  return "[" + std::to_string(bucket.first) + ", " + std::to_string(bucket.end) + ")";
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

Result<ShapesOf> ShapesOf::create(const std::vector<std::unique_ptr<data::TensorSpecT>> &specs,
                                  const data::ModelSignatureT &signature) {
  DimIndex dims;
  for (const auto &dim : signature.dims)
    dims.emplace(dim->name, static_cast<uint32_t>(dims.size()));
  ShapesOf made;
  for (const auto &spec : specs) {
    std::vector<Axis> &shape = made.shapes.emplace_back();
    for (const std::string &text : spec->shape) {
      Result<DimExpr> expr = DimExpr::parse(text);
      if (!expr)
        return expr.takeError();
      Result<DimProgram> program = DimProgram::compile(*expr, dims);
      if (!program)
        return program.takeError();
      Axis &axis = shape.emplace_back();
      if (expr->isSymbol())
        axis.dim = dims.find(expr->name())->second;
      axis.program = std::move(*program);
    }
  }
  return made;
}

void ShapesOf::evaluate(size_t tensor, std::span<const int64_t> sizes, std::span<int64_t> shape) const {
  int64_t *size = shape.data();
  for (const Axis &axis : shapes[tensor]) {
    DimOutcome outcome = DimOutcome::Ok;
    if (axis.dim)
      *size++ = sizes[*axis.dim];
    else
      outcome = axis.program.evaluate(sizes, *size++);
    assert(outcome == DimOutcome::Ok && "sizes that have not been checked");
    (void)outcome;
  }
}

int64_t ShapesOf::elements(size_t tensor, std::span<const int64_t> sizes) const {
  ShapeRoom room(rank(tensor));
  evaluate(tensor, sizes, room.sizes());
  return elementCount(room.sizes()).value_or(0);
}

bool rlx::fitsInto(std::span<const int64_t> shape, std::span<const int64_t> larger) {
  return std::equal(shape.begin(), shape.end(), larger.begin(), larger.end(), std::less_equal<>());
}
