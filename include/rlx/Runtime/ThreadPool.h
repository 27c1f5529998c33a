//===- ThreadPool.h - threads that help ------------------------*- C++ -*-===//
//
// Work is never handed to a pool and waited for. A task that a pool is given is an
// offer of help: it takes pieces of work as long as there are any, and whoever
// made the offer takes pieces too and waits only for those that others have
// taken. So all work gets done, and nothing waits for a thread to come free, even
// with a pool that runs tasks late, one after another, or not at all, and from
// inside a task of the same pool.
//
//===----------------------------------------------------------------------===//
#ifndef RLX_RUNTIME_THREADPOOL_H
#define RLX_RUNTIME_THREADPOOL_H

#include "rlx/Support/Result.h"

#include <cstddef>
#include <functional>
#include <memory>

namespace rlx {

/// A task that is offered again and again.
class PoolTask {
public:
  virtual void run() = 0;

protected:
  ~PoolTask() = default;
};

/// Threads that an engine may use. Thread safe. A caller may supply its own.
class ThreadPool {
public:
  virtual ~ThreadPool();

  /// Into how many threads work is worth splitting, the one that has the work
  /// among them; 1 or more, and always the same.
  virtual unsigned threads() const = 0;

  /// Runs `task` once, now or later, on a thread of the pool, or drops it. Returns
  /// without waiting for it, and throws nothing. A task ends by itself: it waits for
  /// no other task, owns what it uses, and does nothing when it comes too late. Some
  /// tasks compile: threads have stacks of the usual size, 8 MiB.
  virtual void submit(std::function<void()> task) = 0;

  /// The same for a task that the caller keeps: nothing has to be allocated for it, and
  /// the pools of create() do not.
  virtual void offer(std::shared_ptr<PoolTask> task);

  /// A pool of `threads` - 1 threads, asleep while there is nothing to do. The
  /// destructor drops what has not begun and waits for what has. Errors: more than
  /// kMaxThreads, or threads that the system does not give.
  static Result<std::shared_ptr<ThreadPool>> create(unsigned threads);
};

/// The most threads that a run uses.
inline constexpr unsigned kMaxThreads = 256;

/// Physical cores that this process may run on: what its affinity mask and the
/// CPU limit of its control group leave. 1 or more.
unsigned availableCores();

/// Calls body(i) once for each i < count, on the calling thread and on those of
/// `pool` that come to help, in no order, and returns when all have returned. For
/// coarse pieces (20 us and more). May be nested. `body` throws nothing.
void parallelFor(ThreadPool &pool, size_t count, const std::function<void(size_t)> &body);

} // namespace rlx

#endif // RLX_RUNTIME_THREADPOOL_H
