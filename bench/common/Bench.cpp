//===- Bench.cpp - the frame of a benchmark program -----------------------===//
#include "Bench.h"

#include "rlx/Tools/Table.h"

#include <cstdio>
#include <fstream>
#include <thread>

using namespace rlx::bench;

Bench::Bench(const std::string &name, const std::string &description) : app(description, "bench/" + name), name(name) {
  app.add_option("--rounds", rounds, "Rounds in which the contestants take turns")
      ->type_name("N")
      ->capture_default_str()
      ->check(CLI::Range(1, 100000));
  app.add_flag("--quick", quick, "Few rounds and small sizes: shows that the program works, and times nothing well");
  app.add_flag("--check", check, "Exit code 1 when a requirement is missed");
  app.add_option("--json", jsonFile, "Write all figures to this file")->type_name("FILE");
  app.footer("Exit code: 0; 1 with --check when a requirement is missed, or when a result is wrong; 2 when the flags "
             "are wrong or something is missing.\nUse an otherwise idle machine.");
}

std::optional<int> Bench::parse(int argc, char **argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    if (error.get_exit_code() == 0)
      return app.exit(error);
    return fail(std::string(error.what()) + " (see --help)");
  }
  if (quick && app.count("--rounds") == 0)
    rounds = 3;
  document["bench"] = name;
  document["quick"] = quick;
  document["rounds"] = rounds;
  return std::nullopt;
}

int Bench::fail(const std::string &message) {
  std::fflush(stdout);
  fmt::print(stderr, "{}: error: {}\n", app.get_name(), message);
  return 2;
}

void Bench::machine() {
  int threads = std::min(cpuCount(), 2);
  fmt::print("{}; {} CPUs\n", cpuName(), cpuCount());
  Json &json = document["machine"];
  json["cpu"] = cpuName();
  json["cpus"] = cpuCount();
  const size_t large = quick ? 64u << 20 : 256u << 20;
  Memory memory(large);
  for (int count = 1; count <= threads; ++count) {
    std::vector<double> peaks, reads, copies;
    for (int sample = 0; sample < (quick ? 2 : 7); ++sample) {
      peaks.push_back(fmaPeak(count));
      reads.push_back(memory.read(count));
      copies.push_back(memory.copy(count));
    }
    fmt::print("{} thread{}: FMA peak {:.1f} GF/s; {} MiB: read {:.1f} GB/s, copy {:.1f} GB/s\n", count,
               count == 1 ? "" : "s", median(peaks), large >> 20, median(reads), median(copies));
    json["threads"].push_back({{"threads", count},
                               {"fma_peak_gflops", median(peaks)},
                               {"read_gbs", median(reads)},
                               {"copy_gbs", median(copies)}});
  }
  std::fflush(stdout);
}

double Bench::readBandwidth(size_t bytes, int threads) {
  for (const auto &[known, count, value] : bandwidths)
    if (known == bytes && count == threads)
      return value;
  Memory memory(bytes);
  std::vector<double> samples;
  memory.read(threads); // the caches hold what they can
  for (int sample = 0; sample < (quick ? 2 : 7); ++sample)
    samples.push_back(memory.read(threads));
  bandwidths.emplace_back(bytes, threads, median(samples));
  return median(samples);
}

void Bench::progress(const std::string &what) {
  std::fflush(stdout);
  fmt::print(stderr, "bench/{}: {}\n", name, what);
}

void Bench::print(const std::string &title, const Sheet &sheet) {
  tools::Table table(sheet.heading);
  Json &json = document["tables"][title] = Json::array();
  for (const std::vector<Cell> &row : sheet.rows) {
    std::vector<std::string> texts;
    Json object;
    for (size_t i = 0; i < row.size(); ++i) {
      texts.push_back(row[i].text);
      object[sheet.heading[i]] = row[i].value;
    }
    table.add(std::move(texts));
    json.push_back(std::move(object));
  }
  fmt::print("\n{}\n{}", title, table.text());
  std::fflush(stdout);
}

void Bench::note(const std::string &line) {
  fmt::print("{}\n", line);
  document["notes"].push_back(line);
}

void Bench::require(bool met, const std::string &requirement) {
  fmt::print("{} {}\n", met ? "met:   " : "MISSED:", requirement);
  document["requirements"].push_back({{"met", met}, {"what", requirement}});
  missed |= !met;
}

int Bench::finish() {
  std::vector<double> peaks;
  for (int sample = 0; sample < 5; ++sample)
    peaks.push_back(fmaPeak());
  fmt::print("FMA peak at the end: {:.1f} GF/s\n", median(peaks));
  document["machine"]["fma_peak_at_end_gflops"] = median(peaks);
  if (!jsonFile.empty()) {
    std::ofstream file(jsonFile);
    file << document.dump(2) << "\n";
    if (!file.flush())
      return fail("cannot write '" + jsonFile + "'");
  }
  return check && missed ? 1 : 0;
}
