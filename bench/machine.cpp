//===- machine.cpp - the limits of the machine ----------------------------===//
//
// Prints them; or, for the Python benchmarks, measures what it is asked for, so
// that the limits are taken in turn with what is timed.
//
//===----------------------------------------------------------------------===//
#include "common/Bench.h"

#include <iostream>
#include <map>
#include <sstream>

using namespace rlx::bench;

/// Answers lines from standard input: "name", "peak THREADS", "read BYTES THREADS", "copy BYTES THREADS", "order
/// THREADS OFFSET BYTES OFFSET BYTES ...", which reads these pieces one after the other.
static int serve() {
  std::map<size_t, Memory> memories; // touching memory takes longer than reading it
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string what;
    size_t bytes = 0;
    int threads = 1;
    words >> what;
    if (what == "read" || what == "copy")
      words >> bytes;
    if (what != "name")
      words >> threads;
    std::vector<Memory::Piece> order;
    for (Memory::Piece piece; what == "order" && words >> piece.offset && words >> piece.bytes;) {
      order.push_back(piece);
      bytes = std::max(bytes, piece.offset + piece.bytes);
    }
    if (what == "order" && words.eof())
      words.clear();
    if (!words || threads < 1 || threads > 16 || bytes > (size_t(4) << 30)) {
      fmt::print("error\n");
    } else if (what == "name") {
      fmt::print("{}\n", cpuName());
    } else if (what == "peak") {
      fmt::print("{}\n", fmaPeak(threads));
    } else if (what == "order" && !order.empty()) {
      fmt::print("{}\n", memories.try_emplace(bytes, bytes).first->second.read(order, threads));
    } else if (what == "read" || what == "copy") {
      Memory &memory = memories.try_emplace(bytes, bytes).first->second;
      fmt::print("{}\n", what == "read" ? memory.read(threads) : memory.copy(threads));
    } else {
      fmt::print("error\n");
    }
    std::fflush(stdout);
  }
  return 0;
}

int main(int argc, char **argv) {
  Bench bench("machine", "The limits of this machine: multiply-adds in registers, and memory by the size of what is "
                         "read. Every benchmark prints what it needs of them; this one prints more.");
  bool serving = false;
  bench.app.add_flag("--serve", serving, "Answer requests from standard input (for the other benchmarks)");
  if (std::optional<int> code = bench.parse(argc, argv))
    return *code;
  if (serving)
    return serve();
  bench.machine();
  int threads = std::min(cpuCount(), 2);
  std::vector<std::string> heading{"KiB"};
  for (int count = 1; count <= threads; ++count)
    for (const char *what : {"read", "copy"})
      heading.push_back(fmt::format("{} GB/s, {} thread{}", what, count, count == 1 ? "" : "s"));
  Sheet sheet(heading);
  for (size_t kib : {16, 256, 512, 2048, 8192, 16384, 24576, 40960, 65536, 262144}) {
    Memory memory(kib << 10);
    std::vector<Cell> row{cell(static_cast<int64_t>(kib))};
    for (int count = 1; count <= threads; ++count) {
      std::vector<double> reads, copies;
      for (int sample = 0; sample < bench.rounds; ++sample) {
        reads.push_back(memory.read(count));
        copies.push_back(memory.copy(count));
      }
      row.push_back(cell("{:.1f}", median(reads)));
      row.push_back(cell("{:.1f}", median(copies)));
    }
    sheet.add(std::move(row));
  }
  bench.print("memory, by the bytes that are read or copied again and again", sheet);
  return bench.finish();
}
