//===- Buckets.h - runs at the next larger size -----------------*- C++ -*-===//
#ifndef RLX_LIB_RUNTIME_BUCKETS_H
#define RLX_LIB_RUNTIME_BUCKETS_H

#include "DimProgram.h"
#include "rlx/Runtime/Executable.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

namespace rlx {

/// The buckets of an executable's dims. Immutable.
class Buckets {
public:
  /// Of all hints together. Errors: InvalidArgument for a dim that the signature
  /// does not have, buckets that are empty, overlap or begin below 1, and one whose
  /// size the dim cannot have; Unsupported, naming the op, for a dim along which a
  /// run may not be padded.
  static Result<Buckets> create(const data::ModelSignatureT &signature, std::span<const DimHint> hints);

  bool empty() const { return ladders.empty(); }
  /// Replaces each size (one per dim of the signature) that lies in a bucket by the
  /// bucket's. True when one has changed.
  bool roundUp(std::span<int64_t> sizes) const;

private:
  struct Ladder {
    size_t dim;
    std::vector<Bucket> buckets; ///< ascending
  };
  std::vector<Ladder> ladders;
};

/// The sizes of one shape, on the stack up to rank 16.
class ShapeRoom {
public:
  explicit ShapeRoom(size_t rank) : rank(rank), more(rank > few.size() ? rank : 0) {}
  ShapeRoom(const ShapeRoom &) = delete;
  ShapeRoom &operator=(const ShapeRoom &) = delete;
  std::span<int64_t> sizes() { return {more.empty() ? few.data() : more.data(), rank}; }

private:
  size_t rank;
  std::array<int64_t, 16> few; // not written where it is not needed
  std::vector<int64_t> more;
};

/// The shapes of some tensors of a signature, ready to evaluate at sizes of its dims, which
/// have been checked. Immutable.
class ShapesOf {
public:
  ShapesOf() = default;
  /// Errors: as DimProgram's.
  static Result<ShapesOf> create(const std::vector<std::unique_ptr<data::TensorSpecT>> &specs,
                                 const data::ModelSignatureT &signature);

  size_t rank(size_t tensor) const { return shapes[tensor].size(); }
  /// `shape`: one per axis.
  void evaluate(size_t tensor, std::span<const int64_t> sizes, std::span<int64_t> shape) const;
  int64_t elements(size_t tensor, std::span<const int64_t> sizes) const;

private:
  struct Axis {
    std::optional<uint32_t> dim; ///< the axis is this dim by itself
    DimProgram program;          ///< else
  };
  std::vector<std::vector<Axis>> shapes;
};

/// Whether each axis of `larger` is at least that of `shape`.
bool fitsInto(std::span<const int64_t> shape, std::span<const int64_t> larger);

/// Calls visit(small, large, elements) for each run of elements that lies together in a
/// row-major tensor of `shape` and in a larger one around it: its places in both, counted
/// in elements, in ascending order. `shape` fits into `larger`. Allocates nothing up to rank 16.
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
  ShapeRoom room(outer);
  std::span<int64_t> index = room.sizes();
  std::fill(index.begin(), index.end(), 0);
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

/// Fills a row-major tensor of `bytes` bytes with one of `shape` at the beginnings of its
/// axes, and zeros elsewhere. copy(to, first, elements) writes elements `first` and on of the
/// smaller one to the bytes at `to`; `larger` is the shape of the one that is filled.
template <typename Copy>
void padWithZeros(std::span<const int64_t> shape, std::byte *to, size_t bytes, std::span<const int64_t> larger,
                  size_t elementBytes, const Copy &copy) {
  size_t done = 0;
  forEachRun(shape, larger, [&](int64_t small, int64_t large, int64_t elements) {
    size_t at = static_cast<size_t>(large) * elementBytes;
    if (at != done)
      std::memset(to + done, 0, at - done);
    copy(to + at, static_cast<size_t>(small), static_cast<size_t>(elements));
    done = at + static_cast<size_t>(elements) * elementBytes;
  });
  if (done != bytes)
    std::memset(to + done, 0, bytes - done);
}

} // namespace rlx

#endif // RLX_LIB_RUNTIME_BUCKETS_H
