//===- Packing.h - weights in the order that kernels read them --*- C++ -*-===//
#ifndef RLX_LIB_RUNTIME_PACKING_H
#define RLX_LIB_RUNTIME_PACKING_H

#include "rlx/Runtime/WeightTable.h"

namespace rlx {

class ThreadPool;

/// Bytes that `layout` of a row of `elements` values takes. Errors: an extent or stride that leaves the row, an
/// overflow.
Result<size_t> packedSize(data::ElementType type, int64_t elements, const WeightLayout &layout);

/// Writes the layout to `out`, which has packedSize() bytes and is 64-byte aligned; `row` need not be aligned. With a
/// pool, large ones in pieces on its threads; the bytes are the same.
void packInto(data::ElementType type, int64_t elements, const std::byte *row, const WeightLayout &layout,
              std::byte *out, ThreadPool *pool);

} // namespace rlx

#endif // RLX_LIB_RUNTIME_PACKING_H
