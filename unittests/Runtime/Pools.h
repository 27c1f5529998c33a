//===- Pools.h - pools of callers that keep the contract oddly --*- C++ -*-===//
#ifndef RLX_UNITTESTS_RUNTIME_POOLS_H
#define RLX_UNITTESTS_RUNTIME_POOLS_H

#include "rlx/Runtime/ThreadPool.h"

#include <mutex>
#include <thread>
#include <vector>

namespace rlx::fakes {

/// Promises eight threads and drops every task.
class DroppingPool : public ThreadPool {
public:
  unsigned threads() const override { return 8; }
  void submit(std::function<void()>) override {}
};

/// Runs each task inside submit().
class InlinePool : public ThreadPool {
public:
  unsigned threads() const override { return 8; }
  void submit(std::function<void()> task) override { task(); }
};

/// Runs every task on its one thread, one after another, a while after the first
/// of them came; what is left at the end runs then.
class LatePool : public ThreadPool {
public:
  LatePool() : worker([this] { loop(); }) {}
  ~LatePool() override {
    {
      std::lock_guard lock(mutex);
      ending = true;
    }
    worker.join();
  }
  unsigned threads() const override { return 8; }
  void submit(std::function<void()> task) override {
    std::lock_guard lock(mutex);
    tasks.push_back(std::move(task));
  }

private:
  void loop() {
    for (bool last = false; !last;) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      std::vector<std::function<void()>> batch;
      {
        std::lock_guard lock(mutex);
        batch.swap(tasks);
        last = ending;
      }
      for (auto &task : batch)
        task();
    }
  }
  std::mutex mutex; // guards the members below
  std::vector<std::function<void()>> tasks;
  bool ending = false;
  std::thread worker;
};

/// A new thread for every task: far more than promised.
class ThreadPerTaskPool : public ThreadPool {
public:
  ~ThreadPerTaskPool() override {
    for (std::thread &thread : started)
      thread.join();
  }
  unsigned threads() const override { return 3; }
  void submit(std::function<void()> task) override {
    std::lock_guard lock(mutex);
    started.emplace_back(std::move(task));
  }

private:
  std::mutex mutex; // guards `started`
  std::vector<std::thread> started;
};

inline std::vector<std::shared_ptr<ThreadPool>> oddPools() {
  return {std::make_shared<DroppingPool>(), std::make_shared<InlinePool>(), std::make_shared<LatePool>(),
          std::make_shared<ThreadPerTaskPool>()};
}

} // namespace rlx::fakes

#endif // RLX_UNITTESTS_RUNTIME_POOLS_H
