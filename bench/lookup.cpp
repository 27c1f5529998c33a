//===- lookup.cpp - finding a specialization that is there ----------------===//
//
// What a run spends on the cache when it hits: with few entries and with many, on
// one thread and on several, all at one binding or each at its own.
//
//===----------------------------------------------------------------------===//
#include "Bench.h"

#include "BindingTable.h"

#include <algorithm>
#include <atomic>
#include <ctime>
#include <thread>

using namespace rlx;
using namespace rlx::bench;

namespace {
/// The sizes of a binding of two dims.
std::array<int64_t, 2> sizesOf(size_t number) {
  return {static_cast<int64_t>(number % 64), static_cast<int64_t>(number / 64)};
}

void fill(BindingTable &table, size_t entries) {
  BindingTable::Garbage garbage;
  for (size_t i = 0; i != entries; ++i) {
    auto entry = std::make_unique<BindingTable::Entry>();
    auto sizes = sizesOf(i);
    entry->sizes.assign(sizes.begin(), sizes.end());
    entry->ready = std::make_shared<ReadySpecialization>();
    table.insert(std::move(entry), garbage);
  }
}

/// Of the calling thread, so that more threads than cores can be compared with fewer.
double cpuNs() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

/// Nanoseconds of a hit, of the thread of `threads` for which it takes longest. Each goes through `bindings`
/// neighbours of its own, or all through the same.
double hitNs(BindingTable &table, unsigned threads, size_t entries, size_t bindings, bool same) {
  constexpr size_t kHits = 200000;
  std::atomic<unsigned> waiting{0};
  std::atomic<bool> wrong{false};
  std::vector<double> ns(threads);
  auto work = [&](unsigned number) {
    size_t first = same ? 0 : number * (entries / threads);
    ++waiting;
    while (waiting < threads)
      std::this_thread::yield();
    double start = cpuNs();
    for (size_t i = 0; i != kHits; ++i) {
      auto sizes = sizesOf(first + i % bindings);
      if (!table.find(sizes))
        wrong = true;
    }
    ns[number] = (cpuNs() - start) / kHits;
  };
  std::vector<std::thread> others;
  for (unsigned i = 1; i < threads; ++i)
    others.emplace_back(work, i);
  work(0);
  for (std::thread &other : others)
    other.join();
  return wrong ? -1 : *std::max_element(ns.begin(), ns.end());
}
} // namespace

int main(int argc, char **argv) {
  Bench bench("lookup", "Time of a hit in the cache of specializations.");
  if (std::optional<int> code = bench.parse(argc, argv))
    return *code;
  struct Case {
    unsigned threads;
    bool same;
  };
  Sheet sheet({"threads", "bindings", "ns of CPU, 10 held", "10,000 held"});
  BindingTable few, many;
  fill(few, 10);
  fill(many, 10000);
  for (Case c : {Case{1, true}, Case{1, false}, Case{2, true}, Case{2, false}, Case{8, true}, Case{8, false}}) {
    size_t inFew = c.same ? 1 : 10 / c.threads, inMany = c.same ? 1 : 10000 / c.threads;
    double fewNs = 1e9, manyNs = 1e9;
    for (int round = 0; round != std::max(3, bench.rounds); ++round) {
      fewNs = std::min(fewNs, hitNs(few, c.threads, 10, inFew, c.same));
      manyNs = std::min(manyNs, hitNs(many, c.threads, 10000, inMany, c.same));
    }
    sheet.add({cell(static_cast<int64_t>(c.threads)), c.same ? "one for all" : "each its own, in turn",
               cell("{:.0f}", fewNs), cell("{:.0f}", manyNs)});
  }
  bench.print("a hit", sheet);
  return bench.finish();
}
