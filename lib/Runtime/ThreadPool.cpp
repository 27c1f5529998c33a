//===- ThreadPool.cpp - threads that help ---------------------------------===//
#include "rlx/Runtime/ThreadPool.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <csignal>
#include <fstream>
#include <mutex>
#include <pthread.h>
#include <sched.h>
#include <set>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

using namespace rlx;

ThreadPool::~ThreadPool() = default;

void ThreadPool::offer(std::shared_ptr<PoolTask> task) {
  submit([task = std::move(task)] { task->run(); });
}

//===----------------------------------------------------------------------===//
// The pool of our own
//===----------------------------------------------------------------------===//

namespace {
/// A queue in a ring that only grows.
class TaskQueue {
public:
  /// One of the two.
  struct Task {
    std::function<void()> once;
    std::shared_ptr<PoolTask> kept;
    void run() { kept ? kept->run() : once(); }
  };
  bool empty() const { return count == 0; }
  void push(Task task) {
    if (count == ring.size()) {
      std::rotate(ring.begin(), ring.begin() + static_cast<ptrdiff_t>(first), ring.end());
      first = 0;
      ring.resize(std::max<size_t>(16, 2 * count));
    }
    ring[(first + count++) % ring.size()] = std::move(task);
  }
  Task pop() {
    Task task = std::exchange(ring[first], {});
    first = (first + 1) % ring.size();
    --count;
    return task;
  }

private:
  std::vector<Task> ring;
  size_t first = 0, count = 0;
};

/// A queue and threads that sleep at it.
class OwnPool final : public ThreadPool {
public:
  explicit OwnPool(unsigned count) : count(count), process(getpid()), shared(std::make_shared<Shared>()) {}
  ~OwnPool() override;
  OwnPool(const OwnPool &) = delete;
  OwnPool &operator=(const OwnPool &) = delete;

  Status start();
  unsigned threads() const override { return count; }
  void submit(std::function<void()> task) override { add({std::move(task), nullptr}); }
  void offer(std::shared_ptr<PoolTask> task) override { add({nullptr, std::move(task)}); }

private:
  void add(TaskQueue::Task task);
  /// Owned by the threads too: the pool may be destroyed by a task of its own.
  struct Shared {
    std::mutex mutex; // guards the members below
    std::condition_variable wake;
    TaskQueue tasks;
    bool ending = false;
  };
  static void *loop(void *argument);

  const unsigned count;
  const pid_t process; ///< a child made by fork() has none of the threads, and locks nobody opens
  const std::shared_ptr<Shared> shared;
  std::vector<pthread_t> workers;
};

void *OwnPool::loop(void *argument) {
  std::unique_ptr<std::shared_ptr<Shared>> owned(static_cast<std::shared_ptr<Shared> *>(argument));
  Shared &shared = **owned;
  std::unique_lock lock(shared.mutex);
  while (true) {
    shared.wake.wait(lock, [&] { return shared.ending || !shared.tasks.empty(); });
    if (shared.ending)
      return nullptr;
    TaskQueue::Task task = shared.tasks.pop();
    lock.unlock();
    task.run();
    task = {}; // what it owns goes before the lock is taken again
    lock.lock();
  }
}

Status OwnPool::start() {
  // Signals are for the threads of the caller.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int failure = 0;
  while (workers.size() + 1 < count && !failure) {
    auto argument = std::make_unique<std::shared_ptr<Shared>>(shared);
    pthread_t thread;
    failure = pthread_create(&thread, nullptr, loop, argument.get());
    if (failure)
      break;
    argument.release(); // the thread's now
    pthread_setname_np(thread, "rlx");
    workers.push_back(thread);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (failure)
    return Error{ErrorCode::OutOfRange, "the system gives " + std::to_string(workers.size() + 1) +
                                            " threads, not the " + std::to_string(count) + " asked for"};
  return Status::ok();
}

OwnPool::~OwnPool() {
  if (process != getpid())
    return;
  TaskQueue dropped;
  {
    std::lock_guard lock(shared->mutex);
    shared->ending = true;
    std::swap(dropped, shared->tasks);
  }
  shared->wake.notify_all();
  for (pthread_t worker : workers) {
    if (pthread_equal(worker, pthread_self()))
      pthread_detach(worker);
    else
      pthread_join(worker, nullptr);
  }
}

void OwnPool::add(TaskQueue::Task task) {
  if (workers.empty() || process != getpid())
    return;
  {
    std::lock_guard lock(shared->mutex);
    shared->tasks.push(std::move(task));
  }
  shared->wake.notify_one();
}
} // namespace

Result<std::shared_ptr<ThreadPool>> ThreadPool::create(unsigned threads) {
  if (threads == 0 || threads > kMaxThreads)
    return Error{ErrorCode::InvalidArgument,
                 "a pool has 1 to " + std::to_string(kMaxThreads) + " threads, not " + std::to_string(threads)};
  auto pool = std::make_shared<OwnPool>(threads);
  if (Status status = pool->start(); !status)
    return status.takeError();
  return std::shared_ptr<ThreadPool>(std::move(pool));
}

//===----------------------------------------------------------------------===//
// How many cores there are
//===----------------------------------------------------------------------===//

namespace {
std::string firstLine(const std::string &path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// Cores of the affinity mask: threads of one core count once.
unsigned affineCores() {
  for (int size = 1024; size <= 1 << 20; size *= 4) {
    cpu_set_t *set = CPU_ALLOC(size);
    if (!set)
      return 1;
    size_t bytes = CPU_ALLOC_SIZE(size);
    std::set<std::string> cores;
    bool known = sched_getaffinity(0, bytes, set) == 0;
    for (int cpu = 0; known && cpu != size; ++cpu) {
      if (!CPU_ISSET_S(static_cast<size_t>(cpu), bytes, set))
        continue;
      std::string number = std::to_string(cpu);
      std::string siblings = firstLine("/sys/devices/system/cpu/cpu" + number + "/topology/thread_siblings_list");
      cores.insert(siblings.empty() ? number : siblings);
    }
    CPU_FREE(set);
    if (known)
      return std::max(1u, static_cast<unsigned>(cores.size()));
  }
  return 1;
}

/// CPUs that the control group (v2) and its parents allow, rounded up; a large
/// number where there is no limit.
unsigned groupLimit() {
  unsigned limit = kMaxThreads;
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("0::/"))
      continue;
    for (std::string path = line.substr(3); !path.empty();) {
      std::string quota = firstLine("/sys/fs/cgroup" + path + "/cpu.max"); // "max 100000" or "200000 100000"
      char *end = nullptr;
      double used = std::strtod(quota.c_str(), &end), period = std::strtod(end, nullptr);
      if (used > 0 && period > 0)
        limit =
            std::min(limit, static_cast<unsigned>(std::clamp((used + period - 1) / period, 1.0, 1.0 * kMaxThreads)));
      path.resize(path.rfind('/'));
    }
  }
  return limit;
}
} // namespace

unsigned rlx::availableCores() { return std::min({affineCores(), groupLimit(), kMaxThreads}); }

//===----------------------------------------------------------------------===//
// Loops of coarse pieces
//===----------------------------------------------------------------------===//

namespace {
/// Owned by every task; those that come late find nothing left and leave `body`,
/// which is gone by then, alone.
struct Loop {
  const std::function<void(size_t)> *body;
  size_t count;
  std::atomic<size_t> next{0};
  std::mutex mutex; // guards `done`
  std::condition_variable changed;
  size_t done = 0;

  void work() {
    size_t mine = 0;
    for (size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < count; ++mine)
      (*body)(i);
    if (mine == 0)
      return;
    std::lock_guard lock(mutex);
    done += mine;
    if (done == count)
      changed.notify_all();
  }
};
} // namespace

void rlx::parallelFor(ThreadPool &pool, size_t count, const std::function<void(size_t)> &body) {
  size_t helpers = std::min<size_t>(std::min(pool.threads(), kMaxThreads), count);
  if (helpers <= 1) {
    for (size_t i = 0; i != count; ++i)
      body(i);
    return;
  }
  auto loop = std::make_shared<Loop>();
  loop->body = &body;
  loop->count = count;
  for (size_t i = 1; i != helpers; ++i)
    pool.submit([loop] { loop->work(); });
  loop->work();
  std::unique_lock lock(loop->mutex);
  loop->changed.wait(lock, [&] { return loop->done == count; });
}
