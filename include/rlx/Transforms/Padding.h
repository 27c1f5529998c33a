//===- Padding.h - may a run be padded along a dim --------------*- C++ -*-===//
#ifndef RLX_TRANSFORMS_PADDING_H
#define RLX_TRANSFORMS_PADDING_H

#include "rlx/Dialect/RLX/IR/RLXOps.h"

#include <optional>
#include <string>

namespace rlx::transforms {

/// Whether a run at a larger size of `dim`, its inputs padded with zeros at the end of that dim, computes every element
/// that the smaller run has with the same bits, and no run-time error of its own: nothing if so, else the node that
/// stands in the way and why.
///
/// An axis may be followed where its size is dim times something free of it, and where the dim's index comes first.
/// What runs along the axis (sums, softmax, products) passes where the padding is known to be what changes nothing:
/// zeros of the inputs and what becomes of them (a mask that selects -inf, an index 0).
std::optional<std::string> paddingObstacle(ir::GraphOp graph, llvm::StringRef dim);

} // namespace rlx::transforms

#endif // RLX_TRANSFORMS_PADDING_H
