//===- Preparation.h - specializations made ahead ---------------*- C++ -*-===//
#ifndef RLX_LIB_RUNTIME_PREPARATION_H
#define RLX_LIB_RUNTIME_PREPARATION_H

#include "rlx/Runtime/Executable.h"

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>

namespace rlx {

class SpecializationCache;

/// What SpecializationCache::prepareInBackground() returns. Thread safe.
class PreparationJob final : public Preparation {
public:
  PreparationJob(size_t total, std::function<void(Progress)> callback, std::weak_ptr<SpecializationCache> cache);

  Progress progress() const override;
  void cancel() override;
  Status wait(std::optional<std::chrono::nanoseconds> timeout) override;

  /// Binding `index` came to this. The first call for it counts.
  void settle(size_t index, const Status &status);
  /// The same for one that was dropped: nobody is called.
  void drop(size_t index);
  /// A task for a background thread: calls the callback for what was settled since.
  /// While another thread does, that one does this too. Dropped without having been
  /// called, nobody is called, nor waited for.
  static std::function<void()> reporter(std::shared_ptr<PreparationJob> job);

private:
  void report();
  void forgetReports();
  // With the lock held:
  bool settled(size_t index, const Status &status);
  std::function<void(Progress)> takeCallbackWhenOver();

  const std::weak_ptr<SpecializationCache> cache;

  mutable std::mutex mutex; // guards the members below
  std::condition_variable changed;
  std::function<void(Progress)> callback; ///< let go of after its last call
  Progress state;
  std::vector<bool> over; // by binding
  std::map<size_t, Error> failures;
  std::deque<Progress> unreported;
  std::thread::id reporting; // who calls back now
};

/// `timeout` from now; no later than clocks can count.
std::chrono::steady_clock::time_point deadlineOf(std::chrono::nanoseconds timeout);

} // namespace rlx

#endif // RLX_LIB_RUNTIME_PREPARATION_H
