//===- Preparation.cpp - specializations made ahead -----------------------===//
#include "Preparation.h"

#include "SpecializationCache.h"

#include <algorithm>
#include <utility>

using namespace rlx;

Preparation::~Preparation() = default;

std::chrono::steady_clock::time_point rlx::deadlineOf(std::chrono::nanoseconds timeout) {
  constexpr std::chrono::nanoseconds kLongest = std::chrono::hours(24 * 365);
  return std::chrono::steady_clock::now() + std::min(timeout, kLongest);
}

PreparationJob::PreparationJob(size_t total, std::function<void(Progress)> callback,
                               std::weak_ptr<SpecializationCache> cache)
    : cache(std::move(cache)), callback(std::move(callback)), over(total) {
  state.total = total;
}

Preparation::Progress PreparationJob::progress() const {
  std::lock_guard lock(mutex);
  return state;
}

void PreparationJob::cancel() {
  // Without the cache all was dropped already.
  if (std::shared_ptr<SpecializationCache> held = cache.lock())
    held->cancel(*this);
}

Status PreparationJob::wait(std::optional<std::chrono::nanoseconds> timeout) {
  // Without the cache all is over.
  std::shared_ptr<SpecializationCache> held = timeout ? nullptr : cache.lock();
  bool inBackground = held && held->isBackgroundThread();
  held = nullptr;
  std::unique_lock lock(mutex);
  auto done = [&] {
    bool calling = reporting != std::thread::id() && reporting != std::this_thread::get_id();
    bool toCall = !unreported.empty() && reporting != std::this_thread::get_id();
    return state.done == state.total && !calling && !toCall;
  };
  if (inBackground && !done())
    return Error{ErrorCode::InvalidArgument, "a callback waits for the background thread that it is called from"};
  if (!timeout)
    changed.wait(lock, done);
  else if (!changed.wait_until(lock, deadlineOf(*timeout), done))
    return Error{ErrorCode::NotReady, "of " + std::to_string(state.total) + " bindings " +
                                          std::to_string(state.total - state.done) + " are not prepared yet"};
  return failures.empty() ? Status::ok() : Status(failures.begin()->second);
}

bool PreparationJob::settled(size_t index, const Status &status) {
  if (over[index])
    return false;
  over[index] = true;
  ++state.done;
  if (!status) {
    ++state.failed;
    failures.emplace(index, status.error());
  }
  return true;
}

void PreparationJob::settle(size_t index, const Status &status) {
  {
    std::lock_guard lock(mutex);
    if (settled(index, status) && callback)
      unreported.push_back(state);
  }
  changed.notify_all();
}

/// What the callback owns, this job perhaps, goes with it.
std::function<void(Preparation::Progress)> PreparationJob::takeCallbackWhenOver() {
  bool isOver = state.done == state.total && unreported.empty() && reporting == std::thread::id();
  return isOver ? std::exchange(callback, nullptr) : nullptr;
}

void PreparationJob::drop(size_t index) {
  std::function<void(Progress)> over;
  {
    std::lock_guard lock(mutex);
    settled(index, Error{ErrorCode::Cancelled, "preparing this binding was cancelled"});
    over = takeCallbackWhenOver();
  }
  changed.notify_all();
}

std::function<void()> PreparationJob::reporter(std::shared_ptr<PreparationJob> job) {
  struct Task {
    std::shared_ptr<PreparationJob> job;
    bool called = false;
    ~Task() {
      if (!called)
        job->forgetReports();
    }
  };
  auto task = std::make_shared<Task>();
  task->job = std::move(job);
  return [task = std::move(task)] {
    task->called = true;
    task->job->report();
  };
}

void PreparationJob::forgetReports() {
  std::function<void(Progress)> over;
  {
    std::lock_guard lock(mutex);
    if (reporting != std::thread::id())
      return; // that thread calls for these too
    unreported.clear();
    over = takeCallbackWhenOver();
  }
  changed.notify_all();
}

void PreparationJob::report() {
  std::function<void(Progress)> over;
  {
    std::unique_lock lock(mutex);
    if (reporting != std::thread::id())
      return;
    reporting = std::this_thread::get_id();
    while (!unreported.empty()) {
      Progress progress = unreported.front();
      unreported.pop_front();
      lock.unlock();
      callback(progress);
      lock.lock();
    }
    reporting = {};
    over = takeCallbackWhenOver();
  }
  changed.notify_all();
}
