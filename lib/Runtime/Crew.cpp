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
/// The ticket of a crew that has ended.
constexpr uint64_t kEnded = uint64_t(UINT32_MAX) << 32;

uint32_t leftOf(uint64_t ticket) { return static_cast<uint32_t>(ticket); }
size_t stepOf(uint64_t ticket) { return static_cast<size_t>(ticket >> 32); }

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
      present(std::make_unique<std::atomic<bool>[]>(size)) {}

std::shared_ptr<Crew> Crew::gather(ThreadPool &pool, unsigned size, TileRunner &runner) {
  return std::shared_ptr<Crew>(new Crew(pool, size, runner));
}

/// Takes units of the step that is shared; many while there are many, so that
/// there are few turns, and few at the end, so that all end together. `left`:
/// units there were before.
bool Crew::claim(uint64_t &seen, uint32_t &left, uint32_t &taken) {
  seen = ticket.load(std::memory_order_acquire);
  while ((left = leftOf(seen)) != 0) {
    taken = std::max(1u, left / (4 * size));
    if (ticket.compare_exchange_weak(seen, seen - taken, std::memory_order_acq_rel, std::memory_order_acquire))
      return true;
  }
  return false;
}

void Crew::runUnits(size_t number, uint32_t left, uint32_t taken, unsigned worker) {
  const StepInstance &step = runner->step(number);
  int64_t first = unitsOf(step) - left;
  ErrorWord error;
  runner->run(number, first * step.unitTiles, std::min((first + taken) * step.unitTiles, step.tiles), worker, error);
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
  // Sequentially consistent, here and where helpers leave: either this thread sees
  // that one has left, or that one sees the step.
  ticket.store(uint64_t(number) << 32 | units, std::memory_order_seq_cst);
  for (unsigned worker = 1; worker <= std::min(step.helpers, size - 1); ++worker) {
    if (present[worker].load(std::memory_order_seq_cst) || present[worker].exchange(true, std::memory_order_seq_cst))
      continue;
    pool->submit([crew = shared_from_this(), worker] { crew->help(worker); });
  }

  uint64_t seen;
  for (uint32_t left, taken; claim(seen, left, taken); mine += taken)
    runUnits(number, left, taken, 0);

  uint32_t others = units - mine;
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

void Crew::end() { ticket.store(kEnded, std::memory_order_seq_cst); }

void Crew::help(unsigned worker) {
  // A pool that runs tasks inside submit() helps nobody.
  if (std::this_thread::get_id() == leader) {
    present[worker].store(false, std::memory_order_seq_cst);
    return;
  }
  FloatEnvironment environment;
  size_t last = SIZE_MAX;
  while (true) {
    for (Spin spin;;) {
      uint64_t seen;
      uint32_t left, taken;
      if (claim(seen, left, taken)) {
        if (stepOf(seen) != last) {
          last = stepOf(seen);
          joined.fetch_add(1, std::memory_order_relaxed);
        }
        runUnits(last, left, taken, worker);
        finished.fetch_add(taken, std::memory_order_seq_cst);
        if (leaderSleeps.load(std::memory_order_seq_cst)) {
          std::lock_guard lock(mutex);
          done.notify_one();
        }
        spin = Spin();
      } else if (seen == kEnded || !spin.goOn()) {
        break;
      }
    }
    // The leader may have shared another step since, counting on this helper.
    present[worker].store(false, std::memory_order_seq_cst);
    if (leftOf(ticket.load(std::memory_order_seq_cst)) == 0 ||
        present[worker].exchange(true, std::memory_order_seq_cst))
      return;
  }
}
