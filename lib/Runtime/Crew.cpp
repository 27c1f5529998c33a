//===- Crew.cpp - the threads of one run ----------------------------------===//
#include "Crew.h"

#include "FloatEnvironment.h"
#include "Split.h"
#include "rlx/Data/KernelABI.h"

#include <algorithm>
#include <chrono>
#include <utility>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

using namespace rlx;

namespace {
constexpr bool hasEnded(uint64_t turn) { return turn % 2 == 1; }

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

Crew::Crew(ThreadPool &pool, unsigned size)
    : size(size), pool(&pool), parts(std::make_unique<Part[]>(size)), seats(std::make_unique<Seat[]>(size)) {
  for (unsigned worker = 0; worker != size; ++worker) {
    seats[worker].crew = this;
    seats[worker].worker = worker;
  }
}

void Crew::begin(TileRunner &own) {
  // Whoever was asked has gone, or the pool has dropped the task.
  if (weak_from_this().use_count() == 1) {
    std::atomic_thread_fence(std::memory_order_acquire);
    for (unsigned worker = 0; worker != size; ++worker)
      seats[worker].taken.store(false, std::memory_order_relaxed);
  }
  leader.store(std::this_thread::get_id(), std::memory_order_relaxed);
  runner = &own;
  ++runs;
  std::lock_guard lock(mutex);
  failure.reset();
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
    failure = error;
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
  uint64_t before = turn.load(std::memory_order_relaxed); // the leader alone writes it
  turn.store(before + 2 - before % 2, std::memory_order_seq_cst);
  for (unsigned worker = 1; worker < groups * partsOfGroup; ++worker) {
    std::atomic<bool> &taken = seats[worker].taken;
    if (taken.load(std::memory_order_seq_cst) || taken.exchange(true, std::memory_order_seq_cst))
      continue;
    pool->offer(std::shared_ptr<PoolTask>(shared_from_this(), &seats[worker]));
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

void Crew::end() { turn.store(turn.load(std::memory_order_relaxed) | 1, std::memory_order_seq_cst); }

void Crew::help(unsigned worker) {
  std::atomic<bool> &taken = seats[worker].taken;
  // A pool that runs tasks inside submit() helps nobody.
  if (std::this_thread::get_id() == leader.load(std::memory_order_relaxed)) {
    taken.store(false, std::memory_order_seq_cst);
    return;
  }
  FloatEnvironment environment;
  std::pair<uint64_t, size_t> last; // runs are counted from 1
  while (true) {
    uint64_t seen = turn.load(std::memory_order_seq_cst);
    for (Spin spin; !hasEnded(seen);) {
      for (Claim claimed; claim(worker, claimed); spin = Spin()) {
        std::pair<uint64_t, size_t> step(runs, claimed.number);
        if (std::exchange(last, step) != step)
          joined.fetch_add(1, std::memory_order_relaxed);
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
    taken.store(false, std::memory_order_seq_cst);
    uint64_t now = turn.load(std::memory_order_seq_cst);
    if (now == seen || hasEnded(now) || taken.exchange(true, std::memory_order_seq_cst))
      return;
  }
}

std::shared_ptr<Crew> Crews::borrow(unsigned size) {
  if (process == getpid()) {
    std::lock_guard lock(mutex);
    // The one used last.
    for (size_t i = idle.size(); i-- > 0;) {
      if (idle[i]->size != size)
        continue;
      std::shared_ptr<Crew> crew = std::move(idle[i]);
      idle.erase(idle.begin() + static_cast<ptrdiff_t>(i));
      return crew;
    }
  }
  return std::make_shared<Crew>(pool, size);
}

void Crews::giveBack(std::shared_ptr<Crew> crew) {
  if (process != getpid())
    return;
  std::shared_ptr<Crew> oldest; // goes after the lock
  std::lock_guard lock(mutex);
  if (idle.size() == kMostIdle) {
    oldest = std::move(idle.front());
    idle.erase(idle.begin());
  }
  idle.push_back(std::move(crew));
}
