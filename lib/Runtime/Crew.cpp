//===- Crew.cpp - the threads of one run ----------------------------------===//
#include "Crew.h"

#include "FloatEnvironment.h"
#include "Split.h"
#include "rlx/Data/KernelABI.h"

#include <algorithm>
#include <chrono>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

using namespace rlx;

namespace {
/// The turn of a crew that has ended.
constexpr uint64_t kEnded = UINT64_MAX;

/// A part is one number, so that it changes at once: the step, and the first and
/// the end of its units that are left. The step is in it so that who looked a step
/// ago takes nothing.
constexpr uint64_t partOf(size_t number, uint64_t first, uint64_t end) {
  return static_cast<uint64_t>(number) << 32 | first << 16 | end;
}
constexpr uint64_t firstOf(uint64_t part) { return part >> 16 & 0xFFFF; }
constexpr uint64_t endOf(uint64_t part) { return part & 0xFFFF; }
static_assert(kMaxUnits <= 0xFFFF);

/// Looks again and again, for as long as waking a sleeping thread would take.
class Spin {
public:
  /// False when it is time to give up.
  bool goOn() {
    for (int i = 0; i != 16; ++i) {
#if defined(__x86_64__)
      _mm_pause();
#elif defined(__aarch64__)
      __asm__ volatile("yield");
#endif
    }
    return Clock::now() < end;
  }

private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point end = Clock::now() + std::chrono::microseconds(20);
};
} // namespace

unsigned rlx::crewSize(const Specialization &made, const ThreadPool &pool) {
  uint32_t helpers = 0;
  for (const StepInstance &call : made.steps)
    helpers = std::max(helpers, call.helpers);
  return std::min({helpers + 1, pool.threads(), kMaxThreads});
}

Crew::Crew(ThreadPool &pool, unsigned size, TileRunner &runner)
    : pool(&pool), size(size), runner(&runner), leader(std::this_thread::get_id()),
      parts(std::make_unique<Part[]>(size)), present(std::make_unique<std::atomic<bool>[]>(size)) {}

std::shared_ptr<Crew> Crew::gather(ThreadPool &pool, unsigned size, TileRunner &runner) {
  return std::shared_ptr<Crew>(new Crew(pool, size, runner));
}

/// From the front of the worker's own part a quarter, so that there are few turns
/// and something is left for who is early; from the end of another's a half.
bool Crew::claim(unsigned worker, Claim &claimed) {
  for (unsigned i = 0; i != size; ++i) {
    std::atomic<uint64_t> &left = parts[(worker + i) % size].left;
    uint64_t seen = left.load(std::memory_order_acquire);
    while (firstOf(seen) != endOf(seen)) {
      uint64_t first = firstOf(seen), end = endOf(seen);
      size_t number = seen >> 32;
      uint64_t taken = std::max<uint64_t>(1, (end - first) / (i == 0 ? 4 : 2));
      uint64_t next = i == 0 ? partOf(number, first + taken, end) : partOf(number, first, end - taken);
      if (!left.compare_exchange_weak(seen, next, std::memory_order_acq_rel, std::memory_order_acquire))
        continue;
      claimed.number = number;
      claimed.part = (worker + i) % size;
      claimed.first = static_cast<uint32_t>(i == 0 ? first : end - taken);
      claimed.end = static_cast<uint32_t>(i == 0 ? first + taken : end);
      return true;
    }
  }
  return false;
}

void Crew::runUnits(const Claim &claimed, unsigned worker) {
  const StepInstance &step = runner->step(claimed.number);
  Piece piece;
  piece.number = claimed.number;
  piece.begin = claimed.first * step.unitTiles;
  piece.end = std::min(claimed.end * step.unitTiles, step.tiles);
  piece.group = claimed.part / partsOfGroup;
  piece.groups = groups;
  ErrorWord error;
  runner->run(piece, worker, error);
  if (error.kind == ErrorKind::None)
    return;
  std::lock_guard lock(mutex);
  if (!failure)
    failure = std::make_unique<ErrorWord>(error);
}

unsigned Crew::share(size_t number, ErrorWord &error) {
  const StepInstance &step = runner->step(number);
  uint32_t units = unitsOf(step), mine = 0;
  finished.store(0, std::memory_order_relaxed);
  joined.store(0, std::memory_order_relaxed);
  // For those who are likely to come; whoever else is there takes from them.
  uint32_t workers = std::min(step.helpers + 1, size);
  groups = std::min(step.rowGroups, workers);
  partsOfGroup = std::min(workers / groups, units);
  for (uint32_t i = 0; i != groups * partsOfGroup; ++i) {
    uint64_t part = i % partsOfGroup;
    parts[i].left.store(partOf(number, units * part / partsOfGroup, units * (part + 1) / partsOfGroup),
                        std::memory_order_release);
  }
  // Sequentially consistent, here and where helpers leave: either this thread sees
  // that one has left, or that one sees the turn.
  turn.fetch_add(1, std::memory_order_seq_cst);
  for (unsigned worker = 1; worker < groups * partsOfGroup; ++worker) {
    if (present[worker].load(std::memory_order_seq_cst) || present[worker].exchange(true, std::memory_order_seq_cst))
      continue;
    pool->submit([crew = shared_from_this(), worker] { crew->help(worker); });
  }

  for (Claim claimed; claim(0, claimed); mine += claimed.units())
    runUnits(claimed, 0);

  uint32_t others = units * groups - mine;
  auto finishedAll = [&] { return finished.load(std::memory_order_seq_cst) == others; };
  for (Spin spin; !finishedAll();) {
    if (spin.goOn())
      continue;
    std::unique_lock lock(mutex);
    leaderSleeps.store(true, std::memory_order_seq_cst);
    done.wait(lock, finishedAll);
    leaderSleeps.store(false, std::memory_order_relaxed);
  }
  std::lock_guard lock(mutex);
  if (failure)
    error = *failure;
  // A helper that left and came back counts twice.
  return std::min(joined.load(std::memory_order_relaxed) + (mine != 0), size);
}

void Crew::end() { turn.store(kEnded, std::memory_order_seq_cst); }

void Crew::help(unsigned worker) {
  // A pool that runs tasks inside submit() helps nobody.
  if (std::this_thread::get_id() == leader) {
    present[worker].store(false, std::memory_order_seq_cst);
    return;
  }
  FloatEnvironment environment;
  size_t last = SIZE_MAX;
  while (true) {
    uint64_t seen = turn.load(std::memory_order_seq_cst);
    for (Spin spin; seen != kEnded;) {
      for (Claim claimed; claim(worker, claimed); spin = Spin()) {
        if (claimed.number != last)
          joined.fetch_add(1, std::memory_order_relaxed);
        last = claimed.number;
        runUnits(claimed, worker);
        finished.fetch_add(claimed.units(), std::memory_order_seq_cst);
        if (leaderSleeps.load(std::memory_order_seq_cst)) {
          std::lock_guard lock(mutex);
          done.notify_one();
        }
      }
      // Nothing is left of this turn. Parts are written before the turn goes up.
      uint64_t before = seen;
      while ((seen = turn.load(std::memory_order_seq_cst)) == before && spin.goOn())
        ;
      if (seen == before)
        break;
    }
    // The leader may have begun another turn since, counting on this helper.
    present[worker].store(false, std::memory_order_seq_cst);
    uint64_t now = turn.load(std::memory_order_seq_cst);
    if (now == seen || now == kEnded || present[worker].exchange(true, std::memory_order_seq_cst))
      return;
  }
}
