//===- Crew.h - the threads of one run --------------------------*- C++ -*-===//
//
// A run has one crew: its own thread, the leader, walks the steps, and helpers
// take units of the step that is being shared. A helper that has come stays for
// the steps that follow, looks for work for a few microseconds, and leaves; the
// leader asks the pool for helpers at a step that is worth waking them. The leader
// never waits for a helper that has taken nothing.
//
//===----------------------------------------------------------------------===//
#ifndef RLX_LIB_RUNTIME_CREW_H
#define RLX_LIB_RUNTIME_CREW_H

#include "rlx/Runtime/Instantiate.h"
#include "rlx/Runtime/ThreadPool.h"

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <span>
#include <thread>

namespace rlx {

struct ErrorWord;

/// What runs some tiles of a step. Called by several threads at once, each with
/// its own `worker`.
class TileRunner {
public:
  /// Runs tiles [begin, end) of step `number` (of Specialization::steps).
  /// `worker`: 0 is the leader.
  virtual void run(size_t number, int64_t begin, int64_t end, unsigned worker, ErrorWord &error) = 0;
  virtual const StepInstance &step(size_t number) const = 0;

protected:
  ~TileRunner() = default;
};

/// Threads that a run of these steps can use, its own among them.
unsigned crewSize(const Specialization &made, const ThreadPool &pool);

class Crew : public std::enable_shared_from_this<Crew> {
public:
  /// `runner` is used until the crew ends. `size`: 2 or more.
  static std::shared_ptr<Crew> gather(ThreadPool &pool, unsigned size, TileRunner &runner);

  /// Runs step `number`, in shared units; steps come in ascending order. Returns
  /// how many threads took part. When a unit failed, `error` is one of the errors.
  unsigned share(size_t number, ErrorWord &error);

  /// Lets the helpers go. Nothing of the runner is used afterwards.
  void end();

private:
  Crew(ThreadPool &pool, unsigned size, TileRunner &runner);
  void help(unsigned worker);
  bool claim(uint64_t &seen, uint32_t &left, uint32_t &taken);
  void runUnits(size_t number, uint32_t left, uint32_t taken, unsigned worker);

  ThreadPool *const pool; ///< of use to the leader only
  const unsigned size;
  TileRunner *const runner; ///< read after a claim only: gone when the run is
  const std::thread::id leader;
  /// One per helper: someone has been asked to be that helper, or is it.
  std::unique_ptr<std::atomic<bool>[]> present;

  /// The step that is shared, above the number of its units that nobody has taken
  /// yet. Who changes the number owns the units in between.
  alignas(64) std::atomic<uint64_t> ticket{0};
  /// Units of that step that helpers have run, and helpers that ran some.
  alignas(64) std::atomic<uint32_t> finished{0};
  std::atomic<uint32_t> joined{0};
  std::atomic<bool> leaderSleeps{false};
  std::mutex mutex; // guards `failure`, and the leader's sleep
  std::condition_variable done;
  std::unique_ptr<ErrorWord> failure;
};

} // namespace rlx

#endif // RLX_LIB_RUNTIME_CREW_H
