//===- Background.cpp - threads that make specializations -----------------===//
#include "Background.h"

#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <deque>
#include <string>

using namespace rlx;

struct Background::Shared {
  std::mutex mutex; // guards the members below
  std::condition_variable wake;
  struct Task {
    std::function<void()> run;
    const void *what = nullptr;
  };
  std::deque<Task> urgent, tasks;
  size_t asleep = 0;
  bool ending = false;
};

Background::Background(unsigned threads) : most(threads), process(getpid()), shared(std::make_shared<Shared>()) {}

void *Background::loop(void *argument) {
  std::unique_ptr<std::shared_ptr<Shared>> owned(static_cast<std::shared_ptr<Shared> *>(argument));
  Shared &shared = **owned;
  std::unique_lock lock(shared.mutex);
  while (true) {
    ++shared.asleep;
    shared.wake.wait(lock, [&] { return shared.ending || !shared.urgent.empty() || !shared.tasks.empty(); });
    --shared.asleep;
    if (shared.ending)
      return nullptr;
    std::deque<Shared::Task> &queue = shared.urgent.empty() ? shared.tasks : shared.urgent;
    std::function<void()> task = std::move(queue.front().run);
    queue.pop_front();
    lock.unlock();
    task();
    task = nullptr; // what it owns, an engine perhaps, goes before the lock is taken again
    lock.lock();
  }
}

Status Background::submit(std::function<void()> task, bool urgent, const void *what) {
  if (process != getpid())
    return Error{ErrorCode::Unsupported, "a child made by fork() has no background threads"};
  std::lock_guard workersLock(mutex);
  bool needed;
  {
    std::lock_guard lock(shared->mutex);
    needed = shared->asleep <= shared->urgent.size() + shared->tasks.size() && workers.size() < most;
  }
  if (needed) {
    // Signals are for the threads of the caller.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    auto argument = std::make_unique<std::shared_ptr<Shared>>(shared);
    pthread_t thread;
    int failure = pthread_create(&thread, nullptr, loop, argument.get());
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (!failure) {
      argument.release(); // the thread's now
      pthread_setname_np(thread, "rlx-background");
      workers.push_back(thread);
    } else if (workers.empty()) {
      return Error{ErrorCode::OutOfRange,
                   std::string("the system gives no thread for the background: ") + std::strerror(failure)};
    }
  }
  {
    std::lock_guard lock(shared->mutex);
    (urgent ? shared->urgent : shared->tasks).push_back({std::move(task), what});
  }
  shared->wake.notify_one();
  return Status::ok();
}

void Background::drop(const std::unordered_set<const void *> &what) {
  if (process != getpid())
    return;
  std::vector<Shared::Task> dropped; // what they own goes after the lock
  std::lock_guard lock(shared->mutex);
  auto isDropped = [&](Shared::Task &task) {
    if (!what.contains(task.what))
      return false;
    dropped.push_back(std::move(task));
    return true;
  };
  std::erase_if(shared->urgent, isDropped);
  std::erase_if(shared->tasks, isDropped);
}

void Background::drop(const void *what, size_t most) {
  if (process != getpid())
    return;
  std::vector<Shared::Task> dropped; // as above
  std::lock_guard lock(shared->mutex);
  for (std::deque<Shared::Task> *queue : {&shared->urgent, &shared->tasks})
    for (auto at = queue->begin(); at != queue->end() && dropped.size() != most;) {
      if (at->what != what) {
        ++at;
        continue;
      }
      dropped.push_back(std::move(*at));
      at = queue->erase(at);
    }
}

bool Background::isOwnThread() {
  if (process != getpid())
    return false;
  std::lock_guard lock(mutex);
  return std::any_of(workers.begin(), workers.end(),
                     [](pthread_t worker) { return pthread_equal(worker, pthread_self()); });
}

Background::~Background() {
  if (process != getpid())
    return;
  std::deque<Shared::Task> dropped[2];
  {
    std::lock_guard lock(shared->mutex);
    shared->ending = true;
    dropped[0].swap(shared->urgent);
    dropped[1].swap(shared->tasks);
  }
  shared->wake.notify_all();
  // Before the wait for those that have begun: somebody may wait for what was dropped.
  for (std::deque<Shared::Task> &tasks : dropped)
    tasks.clear();
  for (pthread_t worker : workers) {
    if (pthread_equal(worker, pthread_self()))
      pthread_detach(worker);
    else
      pthread_join(worker, nullptr);
  }
}
