//===- Buckets.h - runs at the next larger size -----------------*- C++ -*-===//
#ifndef RLX_LIB_RUNTIME_BUCKETS_H
#define RLX_LIB_RUNTIME_BUCKETS_H

#include "rlx/Runtime/Executable.h"

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

/// Copies a row-major tensor to the beginnings of the axes of a larger one, and zeros
/// to the rest of it. Each size of `larger` is at least that of `shape`.
void padWithZeros(const void *from, std::span<const int64_t> shape, void *to, std::span<const int64_t> larger,
                  size_t elementBytes);
/// Copies the beginnings of the axes of a larger tensor.
void cutBack(const void *from, std::span<const int64_t> larger, void *to, std::span<const int64_t> shape,
             size_t elementBytes);

} // namespace rlx

#endif // RLX_LIB_RUNTIME_BUCKETS_H
