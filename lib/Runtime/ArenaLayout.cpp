//===- ArenaLayout.cpp - offsets by lifetime ------------------------------===//
#include "ArenaLayout.h"

#include "AlignedBytes.h"
#include "CheckedMath.h"

#include <algorithm>
#include <iterator>
#include <tuple>

using namespace rlx;

std::optional<int64_t> rlx::layoutArena(std::vector<ArenaRequest> &requests) {
  constexpr auto alignment = static_cast<int64_t>(kBufferAlignment);
  // The sum bounds every offset below, so one check covers all of them.
  int64_t sum = 0;
  std::vector<size_t> starts;
  for (size_t i = 0; i != requests.size(); ++i) {
    requests[i].offset = 0;
    if (requests[i].bytes == 0)
      continue;
    int64_t rounded;
    if (!checkedAdd(requests[i].bytes, alignment - 1, rounded) || !checkedAdd(sum, rounded, sum))
      return std::nullopt;
    starts.push_back(i);
  }
  auto rounded = [&](size_t i) { return (requests[i].bytes + alignment - 1) / alignment * alignment; };
  std::vector<size_t> ends = starts;
  std::sort(starts.begin(), starts.end(), [&](size_t a, size_t b) {
    // Of those that begin together the larger first: it has fewer holes to choose from.
    return std::tuple(requests[a].first, -requests[a].bytes, a) < std::tuple(requests[b].first, -requests[b].bytes, b);
  });
  std::sort(ends.begin(), ends.end(),
            [&](size_t a, size_t b) { return std::pair(requests[a].last, a) < std::pair(requests[b].last, b); });

  struct Hole {
    int64_t offset, bytes;
  };
  std::vector<Hole> holes; // by offset, never adjacent
  int64_t total = 0;
  auto release = [&](int64_t offset, int64_t bytes) {
    auto next = std::lower_bound(holes.begin(), holes.end(), offset,
                                 [](const Hole &hole, int64_t offset) { return hole.offset < offset; });
    bool joinsNext = next != holes.end() && offset + bytes == next->offset;
    if (next != holes.begin() && std::prev(next)->offset + std::prev(next)->bytes == offset) {
      std::prev(next)->bytes += bytes + (joinsNext ? next->bytes : 0);
      if (joinsNext)
        holes.erase(next);
    } else if (joinsNext) {
      *next = {offset, bytes + next->bytes};
    } else {
      holes.insert(next, {offset, bytes});
    }
  };

  auto ended = ends.begin();
  for (size_t i : starts) {
    // `first` rises, so whatever ended before it has been placed.
    for (; ended != ends.end() && requests[*ended].last < requests[i].first; ++ended)
      release(requests[*ended].offset, rounded(*ended));
    int64_t bytes = rounded(i);
    auto best = holes.end();
    for (auto hole = holes.begin(); hole != holes.end(); ++hole)
      if (hole->bytes >= bytes && (best == holes.end() || hole->bytes < best->bytes))
        best = hole;
    // None fits: the hole at the end, if there is one, grows.
    if (best == holes.end() && !holes.empty() && holes.back().offset + holes.back().bytes == total) {
      best = std::prev(holes.end());
      total = best->offset + bytes;
      best->bytes = bytes;
    }
    if (best == holes.end()) {
      requests[i].offset = total;
      total += bytes;
      continue;
    }
    requests[i].offset = best->offset;
    best->offset += bytes;
    best->bytes -= bytes;
    if (best->bytes == 0)
      holes.erase(best);
  }
  return total;
}
