//===- CpuCaches.cpp - what the machine's caches hold ---------------------===//
#include "CpuCaches.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <string_view>

using namespace rlx;

namespace {
constexpr int64_t kLeast = 64 << 10, kMost = int64_t(1) << 32; ///< bytes of a cache that is believed
constexpr int64_t kMostSharers = 4096;

std::string firstLine(const std::string &path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// The number that `text` begins with, 0 or more, which is taken off.
std::optional<int64_t> number(std::string_view &text) {
  uint32_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc())
    return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return value;
}

/// "512K", "32M", "1G".
std::optional<int64_t> bytesOf(std::string_view text) {
  std::optional<int64_t> value = number(text);
  if (!value || text.size() > 1)
    return std::nullopt;
  int64_t unit = text.empty() ? 1 : text == "K" ? 1 << 10 : text == "M" ? 1 << 20 : text == "G" ? 1 << 30 : 0;
  int64_t bytes = *value * unit;
  if (bytes < kLeast || bytes > kMost)
    return std::nullopt;
  return bytes;
}

/// How many CPUs "0-3,8,12-15" names.
std::optional<int64_t> countOf(std::string_view list) {
  int64_t count = 0;
  while (true) {
    std::optional<int64_t> first = number(list), last = first;
    if (first && list.starts_with('-')) {
      list.remove_prefix(1);
      last = number(list);
    }
    if (!first || !last || *last < *first)
      return std::nullopt;
    count += *last - *first + 1;
    if (list.empty())
      return count <= kMostSharers ? std::optional(count) : std::nullopt;
    if (!list.starts_with(','))
      return std::nullopt;
    list.remove_prefix(1);
  }
}
} // namespace

CpuCaches rlx::readCpuCaches(const std::string &directory) {
  std::optional<int64_t> bytes[4], sharers[4]; // by level
  constexpr int kMostCaches = 16;
  for (int i = 0; i != kMostCaches; ++i) {
    std::string cache = directory + "/index" + std::to_string(i) + "/";
    std::string level = firstLine(cache + "level"), type = firstLine(cache + "type");
    if (level.empty())
      break;
    if (level.size() != 1 || level[0] < '1' || level[0] > '3' || (type != "Data" && type != "Unified"))
      continue;
    auto at = static_cast<size_t>(level[0] - '0');
    bytes[at] = bytesOf(firstLine(cache + "size"));
    sharers[at] = countOf(firstLine(cache + "shared_cpu_list"));
  }
  // CPUs that share even the first cache are one core.
  int64_t threads = std::max<int64_t>(sharers[1].value_or(1), 1);
  CpuCaches caches;
  auto share = [&](size_t level, int64_t &result) {
    if (bytes[level])
      result = std::max(*bytes[level] / std::max<int64_t>(sharers[level].value_or(1) / threads, 1), kLeast);
  };
  share(2, caches.level2);
  share(3, caches.level3);
  caches.wholeLevel3 = std::max(bytes[3].value_or(caches.level3), caches.level3);
  return caches;
}

const CpuCaches &rlx::cpuCaches() {
  static const CpuCaches caches = readCpuCaches("/sys/devices/system/cpu/cpu0/cache");
  return caches;
}

RowBlocks rlx::rowBlocks(const CpuCaches &caches) {
  int64_t block = std::max<int64_t>(caches.level2 / 2, 1);
  return {std::max(caches.level3 / 4, 2 * block), block};
}

bool rlx::contendForLastCache(int64_t weightBytes, const CpuCaches &caches) {
  int64_t all = caches.wholeLevel3;
  if (weightBytes <= std::max(caches.level2, all / 8 * 3))
    return false;
  return weightBytes <= all || weightBytes - all <= all / 3;
}
