//===- CommandLine.h - flags and error lines of a tool ----------*- C++ -*-===//
#ifndef RLX_TOOLS_COMMANDLINE_H
#define RLX_TOOLS_COMMANDLINE_H

#include "rlx/Support/Result.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <optional>
#include <string>

namespace rlx::tools {

/// "rlx-run: error: <message>" on standard error; returns the exit code, 1.
inline int fail(const CLI::App &app, const std::string &message) {
  std::fflush(stdout); // what was printed before comes before, also where both go to one file
  std::fprintf(stderr, "%s: error: %s\n", app.get_name().c_str(), message.c_str());
  return 1;
}
inline int fail(const CLI::App &app, const Error &error) { return fail(app, error.message); }

/// Parses the flags. An exit code means that the tool is done: 0 after --help, 1
/// after a line about flags that are wrong. Needs exceptions: for tools only.
inline std::optional<int> parseFlags(CLI::App &app, int argc, char **argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    if (error.get_exit_code() == 0)
      return app.exit(error);
    return fail(app, std::string(error.what()) + " (see --help)");
  }
  return std::nullopt;
}

//===--- checks of a flag's text: an empty answer, or what is wrong with it -===//

/// A tolerance is a finite number, 0 or more. (CLI11's own range check lets NaN through, which nothing exceeds.)
inline std::string checkTolerance(const std::string &text) {
  double value = -1;
  auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  bool good = failure == std::errc() && end == text.data() + text.size() && std::isfinite(value) && value >= 0;
  return good ? "" : "'" + text + "' is no finite number from 0 up";
}

/// A seed has 64 bits. (CLI11 wraps what is negative and cuts what is too large.)
inline std::string checkSeed(const std::string &text) {
  uint64_t value = 0;
  auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  bool good = failure == std::errc() && end == text.data() + text.size();
  return good ? "" : "'" + text + "' is no whole number from 0 to 18446744073709551615";
}

/// An empty name is a mistake (a shell variable that is not set), not a flag left out.
inline std::string checkPath(const std::string &text) { return text.empty() ? "an empty name" : ""; }

/// Runs what is left of `main`. Out of memory, or an exception of a library that
/// throws, is one line as any other error.
template <typename Body> int guarded(const CLI::App &app, Body body) {
  try {
    return body();
  } catch (const std::exception &error) {
    return fail(app, std::string(error.what()));
  }
}

} // namespace rlx::tools

#endif // RLX_TOOLS_COMMANDLINE_H
