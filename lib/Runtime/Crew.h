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
  /// `runner` is used until the crew ends. `size`: 2 or more.
  static std::shared_ptr<Crew> gather(ThreadPool &pool, unsigned size, TileRunner &runner);

  /// Runs step `number`, in shared units; steps come in ascending order. Returns
  /// how many threads took part. When a unit failed, `error` is one of the errors.
  unsigned share(size_t number, ErrorWord &error);

  /// Lets the helpers go. Nothing of the runner is used afterwards.
  void end();

private:
  /// Units of a step that nobody has taken yet: a place of its own in memory,
  /// because the worker whose part it is mostly uses it alone.
  struct alignas(64) Part {
    std::atomic<uint64_t> left{0}; ///< step, first, end: see Crew.cpp
  };
  struct Claim {
    size_t number = 0;
    unsigned part = 0;
    uint32_t first = 0, end = 0;
    uint32_t units() const { return end - first; }
  };

  Crew(ThreadPool &pool, unsigned size, TileRunner &runner);
  void help(unsigned worker);
  bool claim(unsigned worker, Claim &claimed);
  void runUnits(const Claim &claimed, unsigned worker);

  ThreadPool *const pool; ///< of use to the leader only
  const unsigned size;
  TileRunner *const runner; ///< read after a claim only: gone when the run is
  const std::thread::id leader;
  /// One per worker. A step's parts follow each other, so that a worker meets in
  /// its cache what it wrote a step before; those who have done theirs take from
  /// the others.
  const std::unique_ptr<Part[]> parts;
  /// One per helper: someone has been asked to be that helper, or is it.
  const std::unique_ptr<std::atomic<bool>[]> present;

  /// Of the step that is shared: groups of its rows, each of as many parts.
  uint32_t groups = 1, partsOfGroup = 1;
  /// Goes up when there are new parts, and to kEnded.
  alignas(64) std::atomic<uint64_t> turn{0};
  /// Units of the step that helpers have run, and helpers that ran some.
  alignas(64) std::atomic<uint32_t> finished{0};
  std::atomic<uint32_t> joined{0};
  std::atomic<bool> leaderSleeps{false};
  std::mutex mutex; // guards `failure`, and the leader's sleep
  std::condition_variable done;
  std::unique_ptr<ErrorWord> failure;
};

} // namespace rlx

#endif // RLX_LIB_RUNTIME_CREW_H
