//===- ResidentMemory.h - mappings, and what of them is in memory *- C++ -*-===//
#ifndef RLX_UNITTESTS_RUNTIME_RESIDENTMEMORY_H
#define RLX_UNITTESTS_RUNTIME_RESIDENTMEMORY_H

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>

namespace rlx::test {

/// Kilobytes in memory of the mapping that `address` lies in; -1 where there is none.
inline int64_t residentKilobytes(const void *address) {
  std::ifstream maps("/proc/self/smaps");
  bool inside = false;
  for (std::string line; std::getline(maps, line);) {
    uintptr_t begin = 0, end = 0;
    char dash = 0;
    if (std::istringstream range(line); range >> std::hex >> begin >> dash >> end && dash == '-')
      inside = begin <= reinterpret_cast<uintptr_t>(address) && reinterpret_cast<uintptr_t>(address) < end;
    else if (inside && line.starts_with("Rss:"))
      return std::stoll(line.substr(4));
  }
  return -1;
}

/// Mappings of the process.
inline size_t mappings() {
  std::ifstream file("/proc/self/maps");
  size_t lines = 0;
  for (std::string line; std::getline(file, line);)
    ++lines;
  return lines;
}

} // namespace rlx::test

#endif // RLX_UNITTESTS_RUNTIME_RESIDENTMEMORY_H
