//===- CallbacksTest.cpp - memory, threads and logs of the caller ---------===//
#include "CAPITest.h"

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <map>
#include <mutex>
#include <thread>

using namespace rlx::capitest;

namespace {

rlx_engine_options defaults() {
  rlx_engine_options options = {};
  options.struct_size = sizeof options;
  return options;
}

/// Knows what it gave, and may give nothing.
struct Memory {
  std::mutex mutex;
  std::map<void *, size_t> given;
  size_t calls = 0, released = 0;
  bool exhausted = false;

  rlx_allocator calls_() {
    rlx_allocator allocator = {};
    allocator.user = this;
    allocator.allocate = [](void *user, size_t bytes, size_t alignment) -> void * {
      auto &self = *static_cast<Memory *>(user);
      std::lock_guard lock(self.mutex);
      EXPECT_GT(bytes, 0u);
      EXPECT_EQ(alignment & (alignment - 1), 0u);
      ++self.calls;
      if (self.exhausted)
        return nullptr;
      void *pointer = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
      self.given[pointer] = bytes;
      return pointer;
    };
    allocator.deallocate = [](void *user, void *pointer, size_t bytes) {
      auto &self = *static_cast<Memory *>(user);
      std::lock_guard lock(self.mutex);
      auto found = self.given.find(pointer);
      ASSERT_NE(found, self.given.end());
      EXPECT_EQ(found->second, bytes);
      self.given.erase(found);
      std::free(pointer);
    };
    allocator.release = [](void *user) { ++static_cast<Memory *>(user)->released; };
    return allocator;
  }
};

/// A thread that runs every other task and drops the rest.
struct Pool {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<rlx_task *> tasks;
  std::atomic<size_t> submitted{0}, run{0}, released{0};
  bool ended = false;
  std::thread thread{[this] { work(); }};

  ~Pool() {
    {
      std::lock_guard lock(mutex);
      ended = true;
    }
    changed.notify_all();
    thread.join();
  }
  void work() {
    std::unique_lock lock(mutex);
    for (bool drop = false;; drop = !drop) {
      changed.wait(lock, [this] { return ended || !tasks.empty(); });
      if (tasks.empty())
        return;
      rlx_task *task = tasks.front();
      tasks.pop_front();
      lock.unlock();
      if (drop)
        rlx_task_drop(task);
      else
        rlx_task_run(task), ++run;
      lock.lock();
    }
  }
  rlx_thread_pool calls() {
    rlx_thread_pool pool = {};
    pool.user = this;
    pool.threads = 2;
    pool.submit = [](void *user, rlx_task *task) {
      auto &self = *static_cast<Pool *>(user);
      ++self.submitted;
      {
        std::lock_guard lock(self.mutex);
        self.tasks.push_back(task);
      }
      self.changed.notify_one();
    };
    pool.release = [](void *user) { ++static_cast<Pool *>(user)->released; };
    return pool;
  }
};

} // namespace

TEST(CAPICallbacks, Allocator) {
  Memory memory;
  {
    rlx_allocator allocator = memory.calls_();
    rlx_engine_options options = defaults();
    options.threads = 1;
    options.allocator = &allocator;
    Engine engine;
    ASSERT_OK(rlx_engine_create(&options, &engine));
    Model model = load(engine, kJoin);
    Executable executable = makeExecutable(engine, model);
    Rows x(2), y(3);
    rlx_input inputs[] = {x.input("x"), y.input("y")};
    Tensor z, later;
    ASSERT_OK(rlx_run(executable, inputs, 2, &z, 1, nullptr));
    EXPECT_EQ(valuesOf(z), concat(x.times(2), y.times(2)));
    EXPECT_GT(memory.calls, 0u);
    EXPECT_GT(memory.given.size(), 0u);
    memory.exhausted = true;
    Rows large(1 << 18);
    inputs[0] = large.input("x");
    EXPECT_FAILS(rlx_run(executable, inputs, 2, &later, 1, nullptr), RLX_OUT_OF_RANGE, "memory");
    memory.exhausted = false;
    ASSERT_OK(rlx_run(executable, inputs, 2, &later, 1, nullptr));
    EXPECT_EQ(valuesOf(later), concat(large.times(2), y.times(2)));
    // What is still held keeps the allocator.
    engine = Engine();
    model = Model();
    executable = Executable();
    EXPECT_EQ(valuesOf(z), concat(x.times(2), y.times(2)));
  }
  EXPECT_EQ(memory.given.size(), 0u);
  EXPECT_EQ(memory.released, 1u);
}

TEST(CAPICallbacks, ThreadPoolThatDropsHalf) {
  Pool pool;
  {
    rlx_thread_pool calls = pool.calls();
    rlx_engine_options options = defaults();
    options.pool = &calls;
    Engine engine;
    ASSERT_OK(rlx_engine_create(&options, &engine));
    rlx_engine_info info = {};
    info.struct_size = sizeof info;
    ASSERT_OK(rlx_engine_get_info(engine, &info));
    EXPECT_EQ(info.threads, 2u);
    Model model = load(engine, kJoin);
    Executable executable = makeExecutable(engine, model);
    for (int64_t rows : {1 << 16, 1, 1 << 17}) {
      Rows x(rows), y(3);
      rlx_input inputs[] = {x.input("x"), y.input("y")};
      Tensor z;
      ASSERT_OK(rlx_run(executable, inputs, 2, &z, 1, nullptr));
      EXPECT_EQ(valuesOf(z), concat(x.times(2), y.times(2)));
    }
    EXPECT_GT(pool.submitted, 0u);
  }
  // A task that comes late may hold on to it.
  while (!pool.released)
    std::this_thread::yield();
  EXPECT_EQ(pool.released, 1u);
}

TEST(CAPICallbacks, ReleasedWhenThereIsNoEngine) {
  Memory memory;
  rlx_allocator allocator = memory.calls_();
  rlx_engine_options options = defaults();
  options.allocator = &allocator;
  options.background_threads = 1000;
  Engine engine;
  EXPECT_FAILS(rlx_engine_create(&options, &engine), RLX_INVALID_ARGUMENT, "1000");
  EXPECT_EQ(memory.released, 1u);
}

TEST(CAPICallbacks, Log) {
  std::vector<std::string> lines;
  rlx_engine_options options = defaults();
  options.threads = 1;
  options.log = [](void *user, const char *line) { static_cast<std::vector<std::string> *>(user)->push_back(line); };
  options.log_user = &lines;
  Engine engine;
  ASSERT_OK(rlx_engine_create(&options, &engine));
  Model model = load(engine, kJoin);
  Executable executable = makeExecutable(engine, model);
  Rows x(7), y(3);
  rlx_input inputs[] = {x.input("x"), y.input("y")};
  for (int i = 0; i != 2; ++i) {
    Tensor z;
    ASSERT_OK(rlx_run(executable, inputs, 2, &z, 1, nullptr));
  }
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_THAT(lines[0], testing::HasSubstr("N=7"));
}
