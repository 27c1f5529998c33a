//===- Places.h - where files that belong to the runtime are ----*- C++ -*-===//
#ifndef RLX_LIB_RUNTIME_PLACES_H
#define RLX_LIB_RUNTIME_PLACES_H

#include <span>
#include <string>
#include <vector>

namespace rlx {

/// Where a file was looked for.
struct Search {
  std::string found;               ///< empty: nowhere
  std::vector<std::string> places; ///< paths tried, in order
  /// "'a', 'b'".
  std::string text() const;
};

/// Looks for `file`: at the path that the environment variable holds, and nowhere else, when it is set; else in each
/// of `folders`, which are relative to the folder of the library or program that this code is in.
Search searchFile(const char *file, const char *variable, std::span<const char *const> folders);

} // namespace rlx

#endif // RLX_LIB_RUNTIME_PLACES_H
