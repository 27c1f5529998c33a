//===- Crew.h - the threads of one run --------------------------*- C++ -*-===//
//
// A run has one crew: its own thread, the leader, walks the steps, and helpers
// take units of the step that is being shared. A helper that has come stays for
// the steps that follow, looks for work for a few microseconds, and leaves; the
// leader asks the pool for helpers at a step that is worth waking them. The leader
// never waits for a helper that has taken nothing.
//
// Crews are used again. A helper that comes too late for one run helps the next one
// of the same crew, or finds nothing to do.
//
//===----------------------------------------------------------------------===//
#ifndef RLX_LIB_RUNTIME_CREW_H
#define RLX_LIB_RUNTIME_CREW_H

#include "rlx/Data/KernelABI.h"
#include "rlx/Runtime/Instantiate.h"
#include "rlx/Runtime/ThreadPool.h"

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <unistd.h>
#include <vector>

namespace rlx {

/// Tiles [begin, end) of step `number` (of Specialization::steps), of group `group`
/// of `groups` about equal ones of its rows.
struct Piece {
  size_t number = 0;
  int64_t begin = 0, end = 0;
  uint32_t group = 0, groups = 1;
};

/// What runs some tiles of a step. Called by several threads at once, each with
/// its own `worker`; 0 is the leader.
class TileRunner {
public:
  virtual void run(const Piece &piece, unsigned worker, ErrorWord &error) = 0;
  virtual const StepInstance &step(size_t number) const = 0;

protected:
  ~TileRunner() = default;
};

/// Threads that a run of these steps can use, its own among them.
unsigned crewSize(const Specialization &made, const ThreadPool &pool);

class Crew : public std::enable_shared_from_this<Crew> {
public:
  /// `size`: 2 or more.
  Crew(ThreadPool &pool, unsigned size);

  /// Begins a run, led by the calling thread; `runner` is used until it ends.
  void begin(TileRunner &runner);

  /// Runs step `number`, in shared units; steps come in ascending order. Returns
  /// how many threads took part. When a unit failed, `error` is one of the errors.
  unsigned share(size_t number, ErrorWord &error);

  /// Lets the helpers go. Nothing of the runner is used afterwards.
  void end();

  const unsigned size;

private:
  /// Units of a step that nobody has taken yet: a place of its own in memory,
  /// because the worker whose part it is mostly uses it alone.
  struct alignas(64) Part {
    std::atomic<uint64_t> left{0}; ///< step, first, end: see Crew.cpp
  };
  /// The offer to be one of the helpers.
  struct Seat final : PoolTask {
    void run() override { crew->help(worker); }
    Crew *crew = nullptr; ///< which the seat is a part of
    unsigned worker = 0;
    /// Someone has been asked to be that helper, or is it.
    std::atomic<bool> taken{false};
  };
  struct Claim {
    size_t number = 0;
    unsigned part = 0;
    uint32_t first = 0, end = 0;
    uint32_t units() const { return end - first; }
  };

  void help(unsigned worker);
  bool claim(unsigned worker, Claim &claimed);
  void runUnits(const Claim &claimed, unsigned worker);

  ThreadPool *const pool; ///< of use to the leader only
  std::atomic<std::thread::id> leader;
  // Read after a claim only.
  TileRunner *runner = nullptr; ///< gone when the run is
  uint64_t runs = 0;            ///< that have begun
  /// One per worker. A step's parts follow each other, so that a worker meets in
  /// its cache what it wrote a step before; those who have done theirs take from
  /// the others.
  const std::unique_ptr<Part[]> parts;
  const std::unique_ptr<Seat[]> seats; ///< one per worker

  /// Of the step that is shared: groups of its rows, each of as many parts.
  uint32_t groups = 1, partsOfGroup = 1;
  /// Goes up when there are new parts, to an even number, and when a run ends, to an odd one.
  alignas(64) std::atomic<uint64_t> turn{0};
  /// Units of the step that helpers have run, and helpers that ran some.
  alignas(64) std::atomic<uint32_t> finished{0};
  std::atomic<uint32_t> joined{0};
  std::atomic<bool> leaderSleeps{false};
  std::mutex mutex; // guards `failure`, and the leader's sleep
  std::condition_variable done;
  std::optional<ErrorWord> failure;
};

/// An engine's crews: those of runs that go on are lent. Thread safe.
class Crews {
public:
  explicit Crews(ThreadPool &pool) : pool(pool), process(getpid()) {}

  /// Of some size that a run has; allocates where none is idle.
  std::shared_ptr<Crew> borrow(unsigned size);
  void giveBack(std::shared_ptr<Crew> crew);

private:
  static constexpr size_t kMostIdle = 64;
  ThreadPool &pool;
  const pid_t process; ///< in a child made by fork() a helper that is not there may have the lock of an idle crew
  std::mutex mutex;    // guards `idle`
  std::vector<std::shared_ptr<Crew>> idle;
};

} // namespace rlx

#endif // RLX_LIB_RUNTIME_CREW_H
