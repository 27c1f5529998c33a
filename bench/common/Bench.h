//===- Bench.h - the frame of a benchmark program ---------------*- C++ -*-===//
//
// Flags, the machine's limits, tables, verdicts, JSON: alike in every program
// of this folder. A program is:
//
//   int main(int argc, char **argv) {
//     Bench bench("rows", "Speed of softmax and layer norm.");
//     bench.app.add_option(...);                        // own flags, when there are any
//     if (std::optional<int> code = bench.parse(argc, argv))
//       return *code;
//     bench.machine();                                  // prints peak and bandwidth
//     Sheet sheet({"shape", "us", "% of copy"});
//     Race race; ... race.run(bench.rounds);
//     sheet.add({"512x384", cell("{:.1f}", us), cell("{:.0f}", share)});
//     bench.print("softmax", sheet);
//     bench.require(share >= 80, "softmax at 0.8 of a copy or more");
//     return bench.finish();
//   }
//
//===----------------------------------------------------------------------===//
#ifndef RLX_BENCH_COMMON_BENCH_H
#define RLX_BENCH_COMMON_BENCH_H

#include "Measure.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace rlx::bench {

using Json = nlohmann::ordered_json;

/// A cell of a table: what people read, and the value that JSON gets.
struct Cell {
  std::string text;
  Json value;
  Cell(std::string text) : text(text), value(std::move(text)) {}
  Cell(const char *text) : Cell(std::string(text)) {}
  Cell(std::string text, Json value) : text(std::move(text)), value(std::move(value)) {}
};

/// A number, shown in a format such as "{:.1f}".
inline Cell cell(const char *format, double value) { return Cell(fmt::format(fmt::runtime(format), value), value); }
inline Cell cell(int64_t value) { return Cell(fmt::to_string(value), value); }
/// What was not measured: "-", and null in JSON.
inline Cell noCell() { return Cell("-", nullptr); }

/// A table under way.
class Sheet {
public:
  explicit Sheet(std::vector<std::string> heading) : heading(std::move(heading)) {}
  /// As many cells as the heading has.
  void add(std::vector<Cell> row) { rows.push_back(std::move(row)); }

private:
  friend class Bench;
  std::vector<std::string> heading;
  std::vector<std::vector<Cell>> rows;
};

/// One run of a program.
class Bench {
public:
  /// `name` as in bench/NAME.
  Bench(const std::string &name, const std::string &description);

  CLI::App app;
  int rounds = 25;    ///< --rounds; 3 with --quick
  bool quick = false; ///< --quick: does it work at all? The figures mean nothing.
  bool check = false; ///< --check: a requirement that is missed gives exit code 1.

  /// An exit code when the program is done: 0 after --help, 2 after a line about wrong flags.
  std::optional<int> parse(int argc, char **argv);
  /// Measures and prints the peak and the bandwidth on one thread and on two.
  void machine();
  /// GB/s of reading as many bytes again and again: of the cache that holds them, or of memory. Measured once a size.
  double readBandwidth(size_t bytes, int threads = 1);

  /// On standard error, for long work.
  void progress(const std::string &what);
  void print(const std::string &title, const Sheet &sheet);
  void note(const std::string &line);
  /// Prints a line "met" or "MISSED".
  void require(bool met, const std::string &requirement);
  /// One line that says why the program cannot go on; returns its exit code, 2.
  int fail(const std::string &message);
  /// Measures the peak once more, writes the JSON; returns the exit code.
  int finish();

private:
  std::string name, jsonFile;
  Json document;
  std::vector<std::tuple<size_t, int, double>> bandwidths;
  bool missed = false;
};

} // namespace rlx::bench

#endif // RLX_BENCH_COMMON_BENCH_H
