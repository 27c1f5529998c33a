//===- Background.h - threads that make specializations ---------*- C++ -*-===//
#ifndef RLX_LIB_RUNTIME_BACKGROUND_H
#define RLX_LIB_RUNTIME_BACKGROUND_H

#include "rlx/Support/Result.h"

#include <functional>
#include <memory>
#include <mutex>
#include <pthread.h>
#include <unistd.h>
#include <unordered_set>
#include <vector>

namespace rlx {

/// An engine's background threads: a queue that they empty. Started one by one, as
/// long as work waits and there are fewer than asked for. Thread safe.
class Background {
public:
  explicit Background(unsigned threads);
  /// Drops what has not begun and waits for what has, unless it is called by it.
  ~Background();
  Background(const Background &) = delete;
  Background &operator=(const Background &) = delete;

  /// Runs `task` on one of the threads, before all that is not urgent if it is.
  /// Errors: there is no thread and the system gives none; a child made by fork(),
  /// which has none of its parent's.
  /// `what` is what the task is about, for drop().
  Status submit(std::function<void()> task, bool urgent = false, const void *what = nullptr);
  /// Forgets the tasks about these that have not begun.
  void drop(const std::unordered_set<const void *> &what);
  /// The same about one, of which there are `most`: as long as it takes to find them.
  void drop(const void *what, size_t most);
  /// Whether the caller is one of the threads, which must not wait for the others.
  bool isOwnThread();

private:
  struct Shared;
  static void *loop(void *argument);

  const unsigned most;
  const pid_t process;
  const std::shared_ptr<Shared> shared; ///< the threads' too
  std::mutex mutex;                     // guards `workers`
  std::vector<pthread_t> workers;
};

} // namespace rlx

#endif // RLX_LIB_RUNTIME_BACKGROUND_H
