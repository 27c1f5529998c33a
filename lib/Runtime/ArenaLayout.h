//===- ArenaLayout.h - offsets by lifetime ----------------------*- C++ -*-===//
#ifndef RLX_LIB_RUNTIME_ARENALAYOUT_H
#define RLX_LIB_RUNTIME_ARENALAYOUT_H

#include <cstdint>
#include <optional>
#include <vector>

namespace rlx {

/// A buffer that lives from step `first` to step `last` >= `first`, both included.
struct ArenaRequest {
  int64_t bytes = 0; ///< 0 or more
  uint32_t first = 0, last = 0;
  int64_t offset = 0; ///< result: a multiple of 64
};

/// Gives every request an offset such that no two that live at the same step
/// overlap, and returns the bytes of the whole. Best fit over holes, in the order
/// of the first step; depends on nothing but the requests, in order. Nothing when
/// the sum of sizes overflows.
std::optional<int64_t> layoutArena(std::vector<ArenaRequest> &requests);

} // namespace rlx

#endif // RLX_LIB_RUNTIME_ARENALAYOUT_H
