//===- ArenaLayout.cpp - offsets by lifetime ------------------------------===//
#include "ArenaLayout.h"

#include "AlignedBytes.h"
#include "CheckedMath.h"

#include <algorithm>
#include <iterator>
#include <map>
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

  std::map<int64_t, int64_t> holes; // offset -> bytes, never adjacent
  int64_t total = 0;
  auto release = [&](int64_t offset, int64_t bytes) {
    auto next = holes.lower_bound(offset);
    if (next != holes.begin()) {
      auto previous = std::prev(next);
      if (previous->first + previous->second == offset) {
        offset = previous->first;
        bytes += previous->second;
        holes.erase(previous);
      }
    }
    if (next != holes.end() && offset + bytes == next->first) {
      bytes += next->second;
      holes.erase(next);
    }
    holes.emplace(offset, bytes);
  };

  auto ended = ends.begin();
  for (size_t i : starts) {
    // `first` rises, so whatever ended before it has been placed.
    for (; ended != ends.end() && requests[*ended].last < requests[i].first; ++ended)
      release(requests[*ended].offset, rounded(*ended));
    int64_t bytes = rounded(i);
    auto best = holes.end();
    for (auto hole = holes.begin(); hole != holes.end(); ++hole)
      if (hole->second >= bytes && (best == holes.end() || hole->second < best->second))
        best = hole;
    // None fits: the hole at the end, if there is one, grows.
    if (best == holes.end() && !holes.empty()) {
      auto lastHole = std::prev(holes.end());
      if (lastHole->first + lastHole->second == total) {
        total = lastHole->first + bytes;
        lastHole->second = bytes;
        best = lastHole;
      }
    }
    if (best == holes.end()) {
      requests[i].offset = total;
      total += bytes;
      continue;
    }
    int64_t offset = best->first, left = best->second - bytes;
    holes.erase(best);
    if (left)
      holes.emplace(offset + bytes, left);
    requests[i].offset = offset;
  }
  return total;
}
