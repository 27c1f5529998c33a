//===- ThreadPoolTest.cpp - threads that help -----------------------------===//
#include "rlx/Runtime/ThreadPool.h"
#include "Fakes.h"
#include "Pools.h"
#include "rlx/Runtime/Engine.h"

#include <ctime>
#include <fstream>
#include <latch>
#include <pthread.h>
#include <sched.h>
#include <set>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace rlx;
using namespace rlx::fakes;

namespace {
std::shared_ptr<ThreadPool> pool(unsigned threads) {
  auto made = ThreadPool::create(threads);
  return made ? *made : nullptr;
}

/// Every index once, whatever the pool does.
void expectEachOnce(ThreadPool &pool, size_t count) {
  std::vector<std::atomic<int>> seen(count);
  parallelFor(pool, count, [&](size_t i) { ++seen[i]; });
  for (size_t i = 0; i != count; ++i)
    ASSERT_EQ(seen[i], 1) << i << " of " << count;
}

double cpuSeconds() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}
} // namespace

TEST(ThreadPool, EachIndexOnce) {
  for (unsigned threads : {1u, 2u, 3u, 8u}) {
    auto made = pool(threads);
    EXPECT_EQ(made->threads(), threads);
    for (size_t count : {0, 1, 2, 7, 1000})
      expectEachOnce(*made, count);
  }
}

TEST(ThreadPool, SizesThatMakeNoPool) {
  EXPECT_ERROR(ThreadPool::create(0), ErrorCode::InvalidArgument, "1 to 256 threads, not 0");
  EXPECT_ERROR(ThreadPool::create(257), ErrorCode::InvalidArgument, "not 257");
}

TEST(ThreadPool, TasksRunInTheirOrder) {
  // One thread, and tasks that submit tasks: the queue grows while it goes round.
  struct Kept final : PoolTask {
    std::function<void()> body;
    void run() override { body(); }
  };
  auto made = pool(2);
  std::vector<int> ran;
  int given = 0;
  std::latch over(1);
  std::function<void(int)> work;
  auto add = [&] {
    int number = given++;
    if (number % 3 == 0) {
      auto kept = std::make_shared<Kept>();
      kept->body = [&work, number] { work(number); };
      made->offer(std::move(kept));
    } else {
      made->submit([&work, number] { work(number); });
    }
  };
  work = [&](int number) {
    ran.push_back(number);
    for (int i = 0; i != 3 && given < 1000; ++i)
      add();
    if (number == 999)
      over.count_down();
  };
  made->submit([&] { add(); });
  over.wait();
  ASSERT_EQ(ran.size(), 1000u);
  for (int i = 0; i != 1000; ++i)
    ASSERT_EQ(ran[static_cast<size_t>(i)], i);
}

TEST(ThreadPool, SeveralThreadsTakePart) {
  auto made = pool(4);
  std::latch all(4); // opens only when four bodies run at once
  std::mutex mutex;
  std::set<std::thread::id> threads;
  parallelFor(*made, 4, [&](size_t) {
    all.arrive_and_wait();
    std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
  });
  EXPECT_EQ(threads.size(), 4u);
  EXPECT_TRUE(threads.contains(std::this_thread::get_id()));
}

TEST(ThreadPool, Nested) {
  auto made = pool(3);
  std::atomic<int> sum{0};
  parallelFor(*made, 5, [&](size_t) {
    parallelFor(*made, 5, [&](size_t) { parallelFor(*made, 5, [&](size_t i) { sum += static_cast<int>(i); }); });
  });
  EXPECT_EQ(sum, 250);
}

TEST(ThreadPool, FromManyThreads) {
  auto made = pool(3);
  std::vector<std::thread> threads;
  for (int t = 0; t != 8; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i != 50; ++i)
        expectEachOnce(*made, 13);
    });
  for (std::thread &thread : threads)
    thread.join();
}

TEST(ThreadPool, PoolsThatHardlyHelp) {
  for (auto &made : oddPools())
    expectEachOnce(*made, 100);
}

TEST(ThreadPool, EndsWithTasksLeft) {
  auto kept = std::make_shared<int>(1);
  std::latch begun(1);
  std::atomic<bool> finished = false;
  auto made = pool(2);
  made->submit([&] {
    begun.count_down();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    finished = true;
  });
  for (int i = 0; i != 10; ++i)
    made->submit([kept] {});
  begun.wait();
  made.reset();
  EXPECT_TRUE(finished);
  EXPECT_EQ(kept.use_count(), 1); // what was dropped let go of it
}

TEST(ThreadPool, EndsInsideItsOwnTask) {
  std::latch ended(1);
  auto made = pool(2);
  auto *raw = made.get();
  std::latch mayEnd(1);
  raw->submit([&ended, &mayEnd, last = std::move(made)]() mutable {
    mayEnd.wait();
    last.reset();
    ended.count_down();
  });
  mayEnd.count_down();
  ended.wait();
}

TEST(ThreadPool, SleepsWhenIdle) {
  auto made = pool(8);
  expectEachOnce(*made, 1000);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  double before = cpuSeconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  // Seven threads that spun would have used most of a core at least.
  EXPECT_LT(cpuSeconds() - before, 0.03);
}

TEST(ThreadPool, CoresAreThoseOfTheAffinityMask) {
  unsigned cores = availableCores();
  EXPECT_GE(cores, 1u);
  cpu_set_t mask;
  ASSERT_EQ(sched_getaffinity(0, sizeof(mask), &mask), 0);
  EXPECT_LE(cores, static_cast<unsigned>(CPU_COUNT(&mask)));
  int first = 0;
  while (!CPU_ISSET(first, &mask))
    ++first;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  unsigned alone = 0;
  std::thread([&] {
    if (sched_setaffinity(0, sizeof(one), &one) == 0)
      alone = availableCores();
  }).join();
  EXPECT_EQ(alone, 1u);
}

#if !defined(__SANITIZE_THREAD__) && !(defined(__has_feature) && __has_feature(thread_sanitizer))
TEST(ThreadPool, OutlivesFork) {
  auto made = pool(3);
  expectEachOnce(*made, 100);
  std::this_thread::sleep_for(std::chrono::milliseconds(5)); // nobody holds the lock of the queue
  pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    std::atomic<int> sum{0};
    parallelFor(*made, 10, [&](size_t) { ++sum; });
    made.reset();
    _exit(sum == 10 ? 0 : 1);
  }
  int status = 1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
#endif

#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__) &&                                                 \
    !(defined(__has_feature) && (__has_feature(thread_sanitizer) || __has_feature(address_sanitizer)))
/// Address space for what a small program does, not for another thread's stack.
void leaveNoRoomForThreads() {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 64 << 20); // whatever limit on stacks the test runs under
  pthread_setattr_default_np(&attributes);
  long pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  rlimit limit{};
  limit.rlim_cur = limit.rlim_max = static_cast<rlim_t>(pages) * static_cast<rlim_t>(getpagesize()) + (4 << 20);
  setrlimit(RLIMIT_AS, &limit);
}

// Whoever names no number of threads gets an engine also where the system starts none.
TEST(Engine, issue_NoThreadsLeft) {
  EXPECT_EXIT(
      {
        leaveNoRoomForThreads();
        bool some = ThreadPool::create(2).operator bool();
        Result<std::shared_ptr<Engine>> any = Engine::create();
        EngineOptions two;
        two.threads = 2;
        bool asked = Engine::create(two).operator bool();
        std::_Exit(!some && any && (*any)->threads() == 1 && !asked ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}
#endif
