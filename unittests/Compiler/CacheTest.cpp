//===- CacheTest.cpp - the cache with real kernels ------------------------===//
//
// CASES 32, 34 and 35 where kernels and templates come and go under runs.
//
//===----------------------------------------------------------------------===//
#include "../Runtime/ResidentMemory.h"
#include "CompilerTest.h"

#include "rlx/Runtime/ThreadPool.h"

#include <atomic>
#include <chrono>
#include <thread>

using namespace rlx;
using namespace rlx::compilertest;
using namespace std::chrono_literals;
using Floats = std::vector<float>;

namespace {
/// y = running sums of (x + m) along N; m has 4 columns or one, which is two templates.
std::string sumGraph() {
  std::string x = typeOf({"N", "4"}), m = typeOf({"K"});
  return graphText({"N", "K"}, {{"x", x}, {"m", m}}, {{"y", x}},
                   "%e = rlx.add %x, %m : $x, $m -> $x\n%y = rlx.cumsum %e axis 0 : $x -> $y");
}

/// Of x = 1 and m = k: row i is (i + 1)(1 + k).
bool isRight(const Loaded &loaded, int64_t n, int64_t k) {
  auto y = loaded.run(
      {f32({n, 4}, Floats(static_cast<size_t>(n) * 4, 1)), f32({k}, Floats(static_cast<size_t>(k), float(k)))});
  if (!y || (*y)[0].shape() != Shape{n, 4})
    return false;
  Floats values = valuesOf<float>((*y)[0]);
  for (size_t i = 0; i != values.size(); ++i)
    if (values[i] != static_cast<float>((i / 4 + 1) * static_cast<size_t>(1 + k)))
      return false;
  return true;
}

std::shared_ptr<Engine> engineOf(EngineOptions options) {
  auto engine = Engine::create(std::move(options));
  EXPECT_TRUE(static_cast<bool>(engine));
  return engine ? *engine : nullptr;
}
} // namespace

TEST(CacheOfKernels, CapacityOneAndTwoThreads) {
  // Nothing is held but the newest: code goes while the other thread is about to need it, or runs it.
  ExecutableOptions options;
  options.cacheEntries = 1;
  options.cacheBytes = 1;
  Loaded loaded(sumGraph(), nullptr, options);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int64_t i = 0; i != 2; ++i)
    threads.emplace_back([&, i] {
      for (int64_t round = 0; round != 60; ++round)
        wrong += !isRight(loaded, 1 + round % 3, (i + round) % 2 ? 1 : 4);
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(wrong, 0);
  Statistics stats = loaded->stats();
  EXPECT_EQ(stats.entries, 1u);
  EXPECT_EQ(stats.templates, 1u);
  EXPECT_GT(stats.templatesDropped, 0u);
  EXPECT_EQ(loaded->engine()->kernelCount(), stats.kernels);
}

TEST(CacheOfKernels, CodeIsGivenBack) {
  ExecutableOptions options;
  options.cacheBytes = 1;
  Loaded loaded(sumGraph(), nullptr, options);
  size_t early = 0, kernels = 0;
  for (int64_t round = 0; round != 120; ++round) {
    ASSERT_TRUE(isRight(loaded, 2 + round % 5, round % 2 ? 1 : 4));
    if (round == 20) {
      early = test::mappings();
      kernels = loaded->engine()->kernelCount();
    }
  }
  EXPECT_LE(test::mappings(), early + 8);
  EXPECT_LE(loaded->engine()->kernelCount(), kernels + 1);
  Statistics stats = loaded->stats();
  EXPECT_EQ(stats.templatesMade, 120u);
  EXPECT_EQ(stats.templatesDropped, 119u);
}

TEST(CacheOfKernels, ACallersPoolOfOneThread) {
  // Case 35: 32 threads, 32 bindings.
  EngineOptions engineOptions;
  auto pool = ThreadPool::create(2);
  ASSERT_GOOD(pool);
  engineOptions.pool = *pool;
  Loaded loaded(sumGraph(), nullptr, {}, engineOf(std::move(engineOptions)));
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int64_t i = 0; i != 32; ++i)
    threads.emplace_back([&, i] {
      for (int64_t round = 0; round != 4; ++round)
        wrong += !isRight(loaded, 1 + (i + round) % 16, (i + round) % 32 < 16 ? 1 : 4);
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(loaded->stats().misses, 32u);
  EXPECT_EQ(loaded->stats().entries, 32u);
}

TEST(CacheOfKernels, MadeInTheBackground) {
  Loaded loaded(sumGraph());
  RunOptions failFast;
  failFast.onMiss = OnMiss::FailFast;
  std::vector<Value> inputs = {f32({2, 4}, Floats(8, 1)), f32({1}, {1})};
  auto y = loaded.run(inputs, failFast);
  ASSERT_FALSE(static_cast<bool>(y));
  EXPECT_EQ(y.error().code, ErrorCode::NotReady);
  for (int i = 0; i != 20000 && !(y = loaded.run(inputs, failFast)); ++i)
    std::this_thread::sleep_for(1ms);
  ASSERT_GOOD(y);
  EXPECT_EQ(difference((*y)[0], f32({2, 4}, {2, 2, 2, 2, 4, 4, 4, 4})), "");

  std::vector<Binding> bindings;
  for (int64_t n = 0; n != 10; ++n)
    bindings.push_back({{"N", n}, {"K", n % 2 ? 1 : 4}});
  std::vector<size_t> done;
  auto job =
      loaded->prepareInBackground(bindings, [&](Preparation::Progress progress) { done.push_back(progress.done); });
  ASSERT_GOOD(job);
  EXPECT_TRUE(static_cast<bool>((*job)->wait()));
  EXPECT_EQ(done.size(), 10u);
  uint64_t misses = loaded->stats().misses;
  for (int64_t n = 0; n != 10; ++n)
    EXPECT_TRUE(isRight(loaded, n, n % 2 ? 1 : 4)) << n;
  EXPECT_EQ(loaded->stats().misses, misses);
  EXPECT_EQ(loaded->explain({{"N", 3}, {"K", 1}}).kind, Forecast::Kind::Hit);
  EXPECT_EQ(loaded->explain({{"N", 30}, {"K", 1}}).kind, Forecast::Kind::Instantiate);
  EXPECT_EQ(loaded->explain({{"N", 30}, {"K", 3}}).kind, Forecast::Kind::Error);
  EXPECT_EQ(loaded->explain({{"N", 30}}).kind, Forecast::Kind::Error);
}
