//===- CacheTest.cpp - bounds, flights, the background --------------------===//
#include "Allocations.h"
#include "Background.h"
#include "BindingTable.h"
#include "Fakes.h"
#include "ResidentMemory.h"
#include "SpecializationCache.h"
#include "rlx/Runtime/CodeMemory.h"

#include <condition_variable>
#include <fstream>
#include <future>
#include <latch>
#if defined(__GLIBC__)
#include <malloc.h>
#endif
#include <random>
#include <set>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace rlx;
using namespace rlx::fakes;
using data::BufferKind;
using data::Opcode;
using data::PredicateKind;
using namespace std::chrono_literals;

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define RLX_SANITIZED 1
#endif
#endif

namespace {
constexpr auto F32 = ElementType::F32;

SignatureBuilder vectorSignature() {
  return SignatureBuilder().dim("N").input("x", F32, {"N"}).output("y", F32, {"N"});
}

/// y = x + 1; what differs in `imm` is another kernel.
std::unique_ptr<data::PlanTemplateT> addOnePlan(uint64_t imm = 0) {
  PlanBuilder p;
  uint32_t N = p.symbol(0);
  uint32_t x = p.buffer(BufferKind::Input, F32, N, 0), y = p.buffer(BufferKind::Output, F32, N, 0);
  uint32_t one = p.constantBuffer<float>(F32, {1});
  binary(p, "add", Opcode::Add, N, x, one, y, true);
  if (imm)
    p.plan->steps[0]->program.push_back(instr(Opcode::Constant, F32, 0, 0, 0, imm));
  p.output(y, {N});
  return p.take();
}

/// The halves of x in turns: at N == 2 another kernel, of one loop.
std::unique_ptr<data::PlanTemplateT> turnsPlan() {
  PlanBuilder p;
  uint32_t N = p.symbol(0), one = p.constant(1), two = p.constant(2);
  uint32_t half = p.expr(data::ExprOp::FloorDiv, N, two, 0);
  uint32_t x = p.buffer(BufferKind::Input, F32, N, 0), y = p.buffer(BufferKind::Output, F32, N, 0);
  data::StepT &step = p.step(data::Family::Loops, "turns", {half, two});
  step.inputs.push_back(p.access(x, {one, half}));
  step.outputs.push_back(p.access(y, {two, one}));
  step.results = {0};
  p.output(y, {N});
  return p.take();
}

Result<SpecializeReply> oneTemplate(const Binding &) { return reply(addOnePlan()); }

/// A template and a kernel for each N; N == 7 is refused.
Result<SpecializeReply> templateEach(const Binding &binding) {
  int64_t n = binding.at("N");
  SpecializeReply made;
  made.plan = addOnePlan(static_cast<uint64_t>(n + 1));
  PlanBuilder guards;
  guards.guard(PredicateKind::NotEqual, "N", "7", n != 7, true, "N must not be 7");
  // The bits of N, as far as they say which N it is.
  for (int64_t bit = 1; bit <= 4096 && n != 7; bit *= 2)
    guards.guard(PredicateKind::Equal, "mod(floordiv(N, " + std::to_string(bit) + "), 2)", "1", n / bit % 2 == 1);
  made.plan->guards = std::move(guards.plan->guards);
  if (n == 7)
    made.error = std::make_unique<Error>(Error{ErrorCode::InvalidArgument, "N must not be 7: N is 7"});
  return made;
}

/// Shut until it is opened.
class Gate {
public:
  void open() {
    std::lock_guard lock(mutex);
    isOpen = true;
    changed.notify_all();
  }
  void pass() {
    std::unique_lock lock(mutex);
    ++waiting;
    changed.notify_all();
    changed.wait(lock, [&] { return isOpen; });
  }
  /// Until `count` have come to it.
  void await(int count = 1) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return waiting >= count; });
  }

private:
  std::mutex mutex;
  std::condition_variable changed;
  bool isOpen = false;
  int waiting = 0;
};

template <typename Condition> void eventually(Condition condition) {
  for (int i = 0; i != 20000 && !condition(); ++i)
    std::this_thread::sleep_for(1ms);
  EXPECT_TRUE(condition());
}

struct TestCache {
  std::shared_ptr<FakeCompiler> compiler;
  std::shared_ptr<Engine> engine;
  std::shared_ptr<SpecializationCache> cache;

  explicit TestCache(FakeCompiler::Specialize specialize, size_t entries = 64, size_t bytes = 0,
                     EngineOptions options = {})
      : compiler(std::make_shared<FakeCompiler>(std::move(specialize))) {
    if (!options.loader)
      options.loader = std::make_shared<FakeLoader>();
    auto made = Engine::create(std::move(options));
    EXPECT_OK(made);
    engine = *made;
    auto model = Model::create(vectorSignature().signature, nullptr, compiler);
    EXPECT_OK(model);
    cache = std::make_shared<SpecializationCache>(engine, *model, entries, bytes);
  }

  /// Until the background has ended too: it may be about to call what the test owns.
  ~TestCache() {
    std::weak_ptr<Engine> ended = engine;
    cache = nullptr;
    engine = nullptr;
    eventually([&] { return ended.expired(); });
  }
  TestCache(const TestCache &) = delete;
  TestCache &operator=(const TestCache &) = delete;

  Result<SpecializationCache::Acquired> get(int64_t n, OnMiss onMiss = OnMiss::Wait,
                                            std::optional<std::chrono::nanoseconds> timeout = {}) {
    int64_t sizes[] = {n};
    return cache->get(sizes, onMiss, timeout);
  }
  /// How it came; what it is for is checked.
  Origin origin(int64_t n) {
    auto got = get(n);
    EXPECT_OK(got);
    if (!got)
      return Origin::Hit;
    EXPECT_EQ(got->ready->plan->outputs[0], Sizes{n});
    return got->origin;
  }
  std::vector<int64_t> bindings() const {
    std::vector<int64_t> result;
    for (const BindingInfo &info : cache->bindings())
      if (info.state == BindingState::Ready)
        result.push_back(info.binding.at("N"));
    return result;
  }
  size_t unready() const {
    size_t count = 0;
    for (const BindingInfo &info : cache->bindings())
      count += info.state != BindingState::Ready;
    return count;
  }
  Forecast forecast(int64_t n) const {
    int64_t sizes[] = {n};
    return cache->explain(sizes);
  }
  Result<std::shared_ptr<Preparation>> prepare(std::vector<int64_t> lengths,
                                               std::function<void(Preparation::Progress)> progress = {}) {
    std::vector<Sizes> sizes;
    for (int64_t n : lengths)
      sizes.push_back({n});
    return cache->prepareInBackground(std::move(sizes), std::move(progress));
  }
};

void inThreads(int count, const std::function<void(int)> &body) {
  std::vector<std::thread> threads;
  for (int i = 0; i != count; ++i)
    threads.emplace_back(body, i);
  for (std::thread &thread : threads)
    thread.join();
}

EngineOptions withPool(unsigned threads) {
  EngineOptions options;
  auto pool = ThreadPool::create(threads);
  EXPECT_OK(pool);
  options.pool = *pool;
  return options;
}
} // namespace

//===----------------------------------------------------------------------===//
// Hits
//===----------------------------------------------------------------------===//

TEST(Cache, HitsAreConstantTimeAndAllocateNothing) {
  for (int64_t held : {10, 10000}) {
    TestCache room(oneTemplate, 10000);
    for (int64_t n = 0; n != held; ++n)
      ASSERT_OK(room.get(n));
    ASSERT_EQ(room.cache->stats().entries, static_cast<uint64_t>(held));
    size_t before = allocations(), probes = 0, most = 0;
    for (int64_t n = 0; n != held; ++n) {
      int64_t sizes[] = {n};
      auto got = room.cache->get(sizes);
      ASSERT_TRUE(got && got->origin == Origin::Hit && !got->waited);
    }
    EXPECT_EQ(allocations(), before);
    for (int64_t n = 0; n != held; ++n) {
      int64_t sizes[] = {n};
      size_t slots = room.cache->probes(sizes);
      probes += slots;
      most = std::max(most, slots);
    }
    // The table is at most half full: 1.5 on average for a good hash. (The hash has a seed: ten may be unlucky.)
    EXPECT_LE(static_cast<double>(probes), 1.6 * static_cast<double>(held) + 20) << held;
    EXPECT_LE(most, 64u) << held;
    Statistics stats = room.cache->stats();
    EXPECT_EQ(stats.hits, static_cast<uint64_t>(held));
    EXPECT_EQ(stats.misses, static_cast<uint64_t>(held));
    EXPECT_EQ(stats.templatesMade, 1u);
  }
}

TEST(Cache, TableUnderReadersAndAWriter) {
  BindingTable table;
  auto made = [](int64_t a, int64_t b) {
    auto entry = std::make_unique<BindingTable::Entry>();
    entry->sizes = {a, b};
    auto ready = std::make_shared<ReadySpecialization>();
    ready->inputElements = {a, b};
    entry->ready = std::move(ready);
    return entry;
  };
  std::atomic<bool> ending{false};
  std::atomic<uint64_t> wrong{0}, found{0};
  std::vector<std::thread> readers;
  for (unsigned i = 0; i != 4; ++i)
    readers.emplace_back([&, i] {
      std::mt19937 random(i);
      while (!ending) {
        int64_t sizes[] = {static_cast<int64_t>(random() % 100), static_cast<int64_t>(random() % 3)};
        auto ready = table.find(sizes);
        found += ready != nullptr;
        wrong += ready && !std::ranges::equal(ready->inputElements, sizes);
        if (random() % 64 == 0)
          (void)table.latest();
      }
    });
  std::mt19937 random(77);
  std::set<Sizes> there;
  for (int i = 0; i != 20000; ++i) {
    BindingTable::Garbage garbage;
    Sizes sizes = {static_cast<int64_t>(random() % 100), static_cast<int64_t>(random() % 3)};
    if (BindingTable::Entry *entry = table.peek(sizes)) {
      ASSERT_TRUE(there.erase(sizes));
      table.remove(*entry, garbage);
    } else {
      ASSERT_TRUE(there.insert(sizes).second);
      table.insert(made(sizes[0], sizes[1]), garbage);
    }
    table.settle(garbage);
  }
  eventually([&] { return found > 0; });
  ending = true;
  for (std::thread &reader : readers)
    reader.join();
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(table.count(), there.size());
  EXPECT_EQ(table.entries().size(), there.size());
  for (const Sizes &sizes : there)
    EXPECT_TRUE(table.peek(sizes));
}

//===----------------------------------------------------------------------===//
// Bounds
//===----------------------------------------------------------------------===//

TEST(Cache, LeastRecentlyUsedGoesFirst) {
  TestCache room(oneTemplate, 3);
  for (int64_t n : {1, 2, 3})
    room.origin(n);
  EXPECT_EQ(room.origin(1), Origin::Hit);
  EXPECT_EQ(room.origin(2), Origin::Hit);
  room.origin(4);
  EXPECT_EQ(room.bindings(), (std::vector<int64_t>{4, 2, 1}));
  room.origin(5);
  EXPECT_EQ(room.bindings(), (std::vector<int64_t>{5, 4, 2}));
  EXPECT_EQ(room.origin(2), Origin::Hit);
  room.origin(1);
  EXPECT_EQ(room.bindings(), (std::vector<int64_t>{1, 2, 5}));
  auto why = room.cache->explain();
  ASSERT_TRUE(why);
  EXPECT_TRUE(why->evicted && why->made && !why->first);
  ASSERT_EQ(why->changes.size(), 1u);
  EXPECT_EQ(why->changes[0].from, 2);
  EXPECT_EQ(why->changes[0].to, 1);
  Statistics stats = room.cache->stats();
  EXPECT_EQ(stats.evictions, 3u);
  EXPECT_EQ(stats.hits, 3u);
  EXPECT_EQ(stats.misses, 6u);
}

TEST(Cache, AnyOrderOfUseIsKept) {
  std::mt19937 random(5);
  TestCache room(oneTemplate, 8);
  std::vector<int64_t> order; // the latest first
  for (int i = 0; i != 3000; ++i) {
    auto n = static_cast<int64_t>(random() % 12);
    bool held = std::find(order.begin(), order.end(), n) != order.end();
    ASSERT_EQ(room.origin(n) == Origin::Hit, held) << i;
    std::erase(order, n);
    order.insert(order.begin(), n);
    order.resize(std::min<size_t>(order.size(), 8));
  }
  EXPECT_EQ(room.bindings(), order);
}

TEST(Cache, InUseOutlivesEviction) {
  TestCache room(templateEach, 1, 1);
  auto got = room.get(3);
  ASSERT_OK(got);
  std::weak_ptr<const ReadySpecialization> watched = got->ready;
  size_t kernels = room.engine->kernelCount();
  EXPECT_EQ(kernels, 1u);
  room.origin(4);
  EXPECT_EQ(room.bindings(), std::vector<int64_t>{4});
  EXPECT_EQ(room.engine->kernelCount(), 2u); // it is in use
  EXPECT_EQ(got->ready->plan->outputs[0], Sizes{3});
  EXPECT_EQ(got->ready->plan->plan->steps.size(), 1u);
  got->ready = nullptr;
  EXPECT_TRUE(watched.expired());
  EXPECT_EQ(room.engine->kernelCount(), 1u);
}

TEST(Cache, BytesAreBounded) {
  TestCache measured(oneTemplate, 1000);
  measured.origin(1);
  Statistics one = measured.cache->stats();
  EXPECT_GT(one.planBytes, sizeof(ReadySpecialization) + sizeof(Specialization));
  EXPECT_GT(one.templateBytes, sizeof(data::PlanTemplateT));
  EXPECT_GE(one.kernelBytes, 64u);
  EXPECT_EQ(measured.cache->bindings()[0].bytes, one.planBytes);

  size_t bound = one.templateBytes + one.kernelBytes + 10 * one.planBytes + one.planBytes / 2;
  TestCache room(oneTemplate, 1000, bound);
  for (int64_t n = 1; n != 500; ++n) {
    room.origin(n);
    Statistics stats = room.cache->stats();
    ASSERT_LE(stats.planBytes + stats.templateBytes + stats.kernelBytes, bound);
  }
  Statistics stats = room.cache->stats();
  EXPECT_GE(stats.entries, 8u);
  EXPECT_LE(stats.entries, 11u);
  EXPECT_EQ(stats.templatesMade, 1u);
  EXPECT_EQ(room.bindings()[0], 499);

  // Whatever the bound, the newest stays, with its template.
  TestCache tiny(templateEach, 1000, 1);
  for (int64_t n : {1, 2, 3, 2}) {
    EXPECT_EQ(tiny.origin(n), Origin::NewTemplate);
    EXPECT_EQ(tiny.bindings(), std::vector<int64_t>{n});
    EXPECT_EQ(tiny.origin(n), Origin::Hit);
    Statistics held = tiny.cache->stats();
    EXPECT_EQ(held.templates, 1u);
    EXPECT_EQ(held.kernels, 1u);
    EXPECT_EQ(tiny.engine->kernelCount(), 1u);
  }
  EXPECT_EQ(tiny.cache->stats().templatesDropped, 3u);
}

#if defined(__GLIBC__) && !defined(RLX_SANITIZED)
TEST(Cache, BytesAreWhatTheAllocatorGave) {
  auto expectNear = [](size_t counted, size_t given) {
    double share = static_cast<double>(counted) / static_cast<double>(given);
    EXPECT_GE(share, 0.75) << counted << " of " << given;
    EXPECT_LE(share, 1.15) << counted << " of " << given;
  };
  TestCache room(oneTemplate, 5000);
  room.origin(5000);
  size_t given = mallinfo2().uordblks;
  Statistics before = room.cache->stats();
  for (int64_t n = 0; n != 2000; ++n)
    room.origin(n);
  Statistics after = room.cache->stats();
  expectNear(after.planBytes + after.templateBytes - before.planBytes - before.templateBytes,
             mallinfo2().uordblks - given);

  TestCache each(templateEach, 5000);
  given = mallinfo2().uordblks;
  for (int64_t n = 100; n != 600; ++n)
    each.origin(n);
  after = each.cache->stats();
  // The kernels of this test have no code.
  expectNear(after.planBytes + after.templateBytes + after.kernelBytes - 64 * after.kernels,
             mallinfo2().uordblks - given);
}

TEST(Cache, ManyLengthsLeaveNothing) {
  // Case 34, to the byte of what was allocated.
  TestCache room(oneTemplate, 32);
  size_t most = 0, early = 0;
  for (int64_t n = 0; n != 8000; ++n) {
    if (n % 3)
      room.origin(n);
    else
      (void)room.get(n, n % 2 ? OnMiss::FailFast : OnMiss::Wait, 1ms);
    ASSERT_LE(room.cache->stats().entries, 32u);
    if (n % 1000 != 999)
      continue;
    eventually([&] { return room.unready() == 0; });
    size_t given = mallinfo2().uordblks;
    (n < 4000 ? early : most) = std::max(n < 4000 ? early : most, given);
  }
  EXPECT_LE(most, early + 4096);
  EXPECT_EQ(room.cache->stats().entries, 32u);
  EXPECT_LE(room.cache->stats().templates, 1u);
}
#endif

TEST(Cache, TemplatesWithoutSpecializationsAreBounded) {
  constexpr auto kIdle = static_cast<int64_t>(SpecializationCache::kIdleTemplates);
  TestCache room(templateEach, 2);
  for (int64_t n = 100; n != 400; ++n) {
    ASSERT_EQ(room.origin(n), Origin::NewTemplate);
    Statistics stats = room.cache->stats();
    ASSERT_LE(stats.templates, static_cast<uint64_t>(kIdle + 2));
    ASSERT_EQ(stats.templates, stats.kernels);
    ASSERT_EQ(room.engine->kernelCount(), stats.kernels);
    ASSERT_EQ(room.engine->codeBytes(), 64 * stats.kernels);
  }
  Statistics stats = room.cache->stats();
  EXPECT_EQ(stats.templates, static_cast<uint64_t>(kIdle + 2));
  EXPECT_EQ(stats.templatesMade, 300u);
  EXPECT_EQ(stats.templatesDropped, 300u - stats.templates);
  // What is held needs no compiler, and is used again by that.
  EXPECT_EQ(room.forecast(399 - kIdle - 1).kind, Forecast::Kind::Instantiate);
  EXPECT_EQ(room.origin(399 - kIdle - 1), Origin::Instantiated);
  EXPECT_EQ(room.cache->stats().kernelsCompiled, 300u);
  EXPECT_EQ(room.forecast(200).kind, Forecast::Kind::NewTemplate);
  EXPECT_EQ(room.origin(200), Origin::NewTemplate);
  EXPECT_EQ(room.forecast(399 - kIdle).kind, Forecast::Kind::NewTemplate); // it went for 200
  EXPECT_EQ(room.forecast(399 - kIdle - 1).kind, Forecast::Kind::Hit);
}

TEST(Cache, KernelsOfTwoModelsLiveAsLongAsEither) {
  TestCache one(oneTemplate);
  one.origin(3);
  {
    auto model = Model::create(vectorSignature().signature, nullptr, one.compiler);
    ASSERT_OK(model);
    auto other = std::make_shared<SpecializationCache>(one.engine, *model, 4);
    int64_t sizes[] = {3};
    ASSERT_OK(other->get(sizes));
    EXPECT_EQ(one.compiler->compiled, 1);
    one.cache = nullptr;
    EXPECT_EQ(one.engine->kernelCount(), 1u);
    ASSERT_OK(other->get(sizes));
  }
  EXPECT_EQ(one.engine->kernelCount(), 0u);
  EXPECT_EQ(one.engine->codeBytes(), 0u);
}

namespace {
/// Copies the images into real code memory, but calls functions of ours.
class CopyingLoader : public KernelLoader {
public:
  Result<std::vector<LoadedKernel>> load(std::span<const data::KernelImageT> images) override {
    std::vector<data::KernelImageT> copies(images.begin(), images.end());
    std::vector<const data::KernelImageT *> batch;
    for (data::KernelImageT &copy : copies) {
      copy.code.resize(20000, 0xc3);
      copy.text_size = 64;
      batch.push_back(&copy);
    }
    Result<std::vector<KernelHandle>> handles = memory.load(batch);
    if (!handles)
      return handles.takeError();
    Result<std::vector<LoadedKernel>> kernels = functions.load(images);
    for (size_t i = 0; kernels && i != handles->size(); ++i)
      (*kernels)[i].owner = std::move((*handles)[i].region);
    return kernels;
  }

private:
  CodeMemory memory;
  FakeLoader functions;
};

size_t residentBytes() {
  std::ifstream file("/proc/self/statm");
  size_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}
} // namespace

TEST(Cache, TwoThousandRoundsOfSpecialiseAndEvict) {
  EngineOptions options;
  options.loader = std::make_shared<CopyingLoader>();
  TestCache room(templateEach, 4, 0, std::move(options));
  auto kept = room.get(4000); // one kernel that lives for ever, in the first region
  ASSERT_OK(kept);
  size_t maps = 0, resident = 0;
  for (int64_t n = 10; n != 2010; ++n) {
    ASSERT_EQ(room.origin(n), Origin::NewTemplate);
    if (n == 1010) {
      maps = test::mappings();
      resident = residentBytes();
    }
  }
  EXPECT_EQ(room.cache->stats().evictions, 1997u);
  EXPECT_LE(room.engine->kernelCount(), SpecializationCache::kIdleTemplates + 5);
#ifndef RLX_SANITIZED
  EXPECT_LE(test::mappings(), maps + 8);
  EXPECT_LE(residentBytes(), resident + (size_t(1) << 20));
#endif
}

//===----------------------------------------------------------------------===//
// Flights
//===----------------------------------------------------------------------===//

TEST(Cache, OneFlightServesAllWhoCome) {
  // Case 35.
  Gate gate;
  TestCache room([&](const Binding &binding) {
    gate.pass();
    return oneTemplate(binding);
  });
  std::atomic<int> waited{0}, made{0};
  std::thread opener([&] {
    gate.await();
    std::this_thread::sleep_for(20ms);
    gate.open();
  });
  inThreads(32, [&](int) {
    auto got = room.get(5);
    ASSERT_OK(got);
    waited += got->waited;
    made += got->origin != Origin::Hit;
  });
  opener.join();
  EXPECT_EQ(room.compiler->specialized, 1);
  EXPECT_EQ(made, 1);
  Statistics stats = room.cache->stats();
  EXPECT_EQ(stats.misses, 1u);
  EXPECT_EQ(stats.hits, 31u);
  EXPECT_EQ(room.cache->bindings()[0].hits, 31u);
  EXPECT_GT(waited, 0);
}

TEST(Cache, ThirtyTwoBindingsAtOnce) {
  // Case 35, also with a caller's pool of one thread.
  for (unsigned threads : {1u, 2u})
    for (auto &specialize : {FakeCompiler::Specialize(oneTemplate), FakeCompiler::Specialize(templateEach)}) {
      TestCache room(specialize, 64, 0, withPool(threads));
      inThreads(32, [&](int i) {
        for (int64_t round = 0; round != 20; ++round)
          room.origin(100 + (i + round * 7) % 32);
      });
      Statistics stats = room.cache->stats();
      EXPECT_EQ(stats.misses, 32u);
      EXPECT_EQ(stats.entries, 32u);
      EXPECT_EQ(stats.hits, 32u * 19);
      EXPECT_EQ(stats.templatesMade, static_cast<uint64_t>(room.compiler->specialized));
      EXPECT_EQ(stats.templatesMade + stats.templatesReused, 32u);
    }
}

TEST(Cache, CapacityOneAndTwoThreads) {
  // Case 35.
  for (size_t bytes : {0, 1}) {
    TestCache room(templateEach, 1, bytes);
    inThreads(2, [&](int i) {
      for (int round = 0; round != 1500; ++round)
        room.origin(10 + (i + round) % 2);
    });
    EXPECT_EQ(room.cache->stats().entries, 1u);
    EXPECT_EQ(room.cache->stats().hits + room.cache->stats().misses, 3000u);
  }
}

TEST(Cache, ChurnFromManyThreads) {
  TestCache room(templateEach, 6, 30000);
  inThreads(8, [&](int i) {
    std::mt19937 random(static_cast<unsigned>(i));
    for (int round = 0; round != 400; ++round) {
      auto n = static_cast<int64_t>(10 + random() % 40);
      if (random() % 4) {
        room.origin(n);
        continue;
      }
      auto got = room.get(n, random() % 2 ? OnMiss::FailFast : OnMiss::Wait, 1ms);
      if (got)
        EXPECT_EQ(got->ready->plan->outputs[0], Sizes{n});
      else
        EXPECT_EQ(got.error().code, ErrorCode::NotReady) << got.error().message;
      (void)room.cache->stats();
      (void)room.cache->bindings();
    }
  });
  eventually([&] { return room.unready() == 0; });
  EXPECT_LE(room.cache->stats().entries, 6u);
}

TEST(Cache, FailuresReachAllWhoWaitAndAreForgotten) {
  Gate gate;
  std::atomic<bool> broken{true};
  TestCache room([&](const Binding &binding) -> Result<SpecializeReply> {
    gate.pass();
    if (broken)
      return Error{ErrorCode::CompilerFailed, "it died"};
    return oneTemplate(binding);
  });
  std::atomic<int> failed{0};
  std::thread opener([&] {
    gate.await();
    std::this_thread::sleep_for(20ms);
    gate.open();
  });
  inThreads(8, [&](int) {
    auto got = room.get(5);
    failed += !got && got.error().message == "it died";
  });
  opener.join();
  EXPECT_EQ(failed, 8);
  EXPECT_GE(room.cache->stats().failures, 1u);
  EXPECT_EQ(room.cache->stats().entries, 0u);
  auto why = room.cache->explain();
  ASSERT_TRUE(why);
  EXPECT_EQ(why->error, "it died");
  broken = false;
  EXPECT_EQ(room.origin(5), Origin::NewTemplate);
}

TEST(Cache, WhoDoesNotWaitIsToldAndItIsMade) {
  Gate gate;
  TestCache room([&](const Binding &binding) {
    gate.pass();
    return oneTemplate(binding);
  });
  for (int i = 0; i != 3; ++i)
    EXPECT_ERROR(room.get(5, OnMiss::FailFast), ErrorCode::NotReady, "{N=5} is not ready");
  gate.await();
  auto bindings = room.cache->bindings();
  ASSERT_EQ(bindings.size(), 1u);
  EXPECT_EQ(bindings[0].binding, (Binding{{"N", 5}}));
  EXPECT_STREQ(bindingStateName(bindings[0].state), "making");
  EXPECT_EQ(room.forecast(5).kind, Forecast::Kind::Making);
  auto why = room.cache->explain();
  ASSERT_TRUE(why);
  EXPECT_NE(why->text().find("not made yet"), std::string::npos) << why->text();
  EXPECT_ERROR(room.get(6, OnMiss::FailFast), ErrorCode::NotReady, "{N=6}");
  EXPECT_STREQ(bindingStateName(room.cache->bindings()[1].state), "queued");
  gate.open();
  eventually([&] { return room.get(5, OnMiss::FailFast) && room.get(6, OnMiss::FailFast); });
  EXPECT_EQ(room.compiler->specialized, 1);
  Statistics stats = room.cache->stats();
  EXPECT_EQ(stats.misses, 2u);
  EXPECT_GE(stats.notReady, 4u);
  EXPECT_EQ(room.get(5)->origin, Origin::Hit);
}

TEST(Cache, WaitsNoLongerThanToldTo) {
  Gate gate;
  TestCache room([&](const Binding &binding) {
    gate.pass();
    return templateEach(binding);
  });
  // The first to miss, one who finds it being made, and one whose template has to
  // wait for another's.
  std::thread first([&] { EXPECT_ERROR(room.get(5, OnMiss::Wait, 5ms), ErrorCode::NotReady, "within the time"); });
  first.join();
  EXPECT_ERROR(room.get(5, OnMiss::Wait, 5ms), ErrorCode::NotReady, "within the time");
  EXPECT_ERROR(room.get(6, OnMiss::Wait, 5ms), ErrorCode::NotReady, "within the time");
  EXPECT_ERROR(room.get(6, OnMiss::Wait, 0ns), ErrorCode::NotReady, "within the time");
  EXPECT_ERROR(room.get(6, OnMiss::Wait, -1h), ErrorCode::NotReady, "within the time");
  std::thread opener([&] {
    std::this_thread::sleep_for(20ms);
    gate.open();
  });
  auto got = room.get(8, OnMiss::Wait, std::chrono::nanoseconds::max());
  opener.join();
  ASSERT_OK(got);
  EXPECT_EQ(got->origin, Origin::NewTemplate);
  EXPECT_TRUE(got->waited);
  EXPECT_EQ(room.origin(6), Origin::Hit);
  EXPECT_EQ(room.cache->stats().notReady, 5u);
}

namespace {
/// A cache whose one background thread is held up after it has made binding 1.
struct Blocked {
  Gate gate;
  std::optional<TestCache> room;
  Blocked() {
    EngineOptions options;
    options.log = [this](std::string_view line) {
      if (line.find("{N=1}") != std::string_view::npos)
        gate.pass();
    };
    room.emplace(templateEach, 64, 0, std::move(options));
    EXPECT_FALSE(room->get(1, OnMiss::FailFast));
    gate.await();
  }
  ~Blocked() { gate.open(); }
};

/// A cache of four entries whose one background thread is making binding 1.
struct Compiling {
  Gate gate;
  std::optional<TestCache> room;
  Compiling() {
    room.emplace(
        [this](const Binding &binding) {
          if (binding.at("N") == 1)
            gate.pass();
          return templateEach(binding);
        },
        4);
    EXPECT_FALSE(room->get(1, OnMiss::FailFast));
    gate.await();
  }
  ~Compiling() { gate.open(); }
};
} // namespace

/// Sizes that change faster than they can be made do not pile up behind the background.
TEST(Cache, IssueRunsThatDoNotWaitPileUp) {
  Compiling held;
  TestCache &room = *held.room;
  for (int64_t n = 2; n != 1000; ++n)
    EXPECT_ERROR(room.get(n, OnMiss::FailFast), ErrorCode::NotReady, "is not ready");
  EXPECT_EQ(room.unready(), 5u); // with the one being made
  EXPECT_ERROR(room.get(5, OnMiss::FailFast), ErrorCode::NotReady, "{N=5} is not ready");
  EXPECT_ERROR(room.get(7, OnMiss::FailFast), ErrorCode::NotReady, "nor is it begun");
  for (int64_t n = 2000; n != 2100; ++n)
    EXPECT_ERROR(room.get(n, OnMiss::Wait, 100us), ErrorCode::NotReady, "within the time given");
  EXPECT_EQ(room.unready(), 5u);
  // Who waits is served: first, by the background, and beside it.
  auto job = room.prepare({3000, 3001});
  ASSERT_OK(job);
  EXPECT_EQ(room.unready(), 7u);
  std::thread waits([&] { EXPECT_OK(room.get(4000, OnMiss::Wait, 60s)); });
  eventually([&] { return room.unready() == 8; });
  held.gate.open();
  waits.join();
  EXPECT_OK((*job)->wait());
  eventually([&] { return room.unready() == 0; });
  // There is room again.
  for (int64_t n : {8, 9, 10, 11})
    EXPECT_FALSE(room.get(n, OnMiss::FailFast));
  eventually([&] { return room.unready() == 0; });
  EXPECT_EQ(room.origin(10), Origin::Hit);
}

/// What a template serves does not stand behind what the background compiles.
TEST(Cache, IssueASlowCompileHoldsUpWhatNeedsNone) {
  Gate gate;
  TestCache room([&](const Binding &binding) {
    int64_t n = binding.at("N");
    if (n >= 100)
      gate.pass();
    PlanBuilder guards;
    guards.guard(PredicateKind::NotEqual, "N", "7", true, true, "N must not be 7");
    guards.guard(PredicateKind::LessEqual, "100", "N", n >= 100);
    Result<SpecializeReply> made = reply(n >= 100 ? addOnePlan() : turnsPlan());
    made->plan->guards = std::move(guards.plan->guards);
    return made;
  });
  room.origin(4);
  EXPECT_FALSE(room.get(7));
  EXPECT_FALSE(room.get(100, OnMiss::FailFast));
  gate.await();
  auto job = room.prepare({20, 21});
  ASSERT_OK(job);
  for (auto [n, timeout] : {std::pair(6, 0ns), std::pair(8, std::chrono::nanoseconds(1h)), std::pair(20, 0ns)}) {
    auto got = room.get(n, OnMiss::FailFast);
    if (timeout != 0ns)
      got = room.get(n, OnMiss::Wait, timeout);
    ASSERT_OK(got);
    EXPECT_EQ(got->origin, timeout != 0ns ? Origin::Hit : Origin::Instantiated);
    EXPECT_EQ(got->ready->plan->outputs[0], Sizes{n});
  }
  auto got = room.get(10, OnMiss::Wait, 0ns);
  ASSERT_OK(got);
  EXPECT_EQ(got->origin, Origin::Instantiated);
  EXPECT_FALSE(got->waited);
  EXPECT_ERROR(room.get(7, OnMiss::FailFast), ErrorCode::InvalidArgument, "N must not be 7");
  EXPECT_EQ(room.cache->stats().notReady, 1u);
  // A kernel is missing. It is tried once.
  int compiled = room.compiler->compiled;
  for (int i = 0; i != 3; ++i)
    EXPECT_ERROR(room.get(2, OnMiss::FailFast), ErrorCode::NotReady, "{N=2} is not ready");
  EXPECT_ERROR(room.get(2, OnMiss::Wait, 1ms), ErrorCode::NotReady, "within the time");
  EXPECT_EQ(room.compiler->compiled, compiled);
  EXPECT_EQ(room.unready(), 3u); // 100, 21, 2
  gate.open();
  EXPECT_OK((*job)->wait());
  eventually([&] { return room.unready() == 0; });
  EXPECT_EQ(room.origin(2), Origin::Hit);
  EXPECT_EQ(room.compiler->compiled, compiled + 2);
  EXPECT_EQ(room.compiler->specialized, 2);
  Statistics stats = room.cache->stats();
  EXPECT_EQ(stats.misses, 10u); // 4, 7 twice, 100, 20, 21, 6, 8, 10 and 2
}

/// Who waits takes over what could not be made without the compiler.
TEST(Cache, TriedWithoutTheCompilerByManyThreads) {
  for (int round = 0; round != 100; ++round) {
    TestCache room([](const Binding &) { return reply(turnsPlan()); }, 2);
    room.origin(4);
    inThreads(6, [&](int i) {
      if (i % 3 == 0)
        EXPECT_OK(room.get(2));
      else if (i % 3 == 1)
        EXPECT_OK(room.get(2, OnMiss::Wait, 1h));
      else
        eventually([&] { return bool(room.get(2, OnMiss::FailFast)); });
    });
    EXPECT_EQ(room.unready(), 0u);
    EXPECT_EQ(room.compiler->compiled, 2);
    EXPECT_EQ(room.cache->stats().misses, 2u);
    EXPECT_EQ(room.cache->stats().templates, 1u);
  }
}

/// Who does not wait is not told that it is not ready where it takes no compiler, whoever is making it just now.
TEST(Cache, IssueNotReadyForWhatAnotherInstantiates) {
  constexpr int kThreads = 6;
  TestCache room(oneTemplate, 1000);
  room.origin(1);
  for (int64_t n = 2; n != 302; ++n) {
    std::latch start(kThreads);
    inThreads(kThreads, [&](int i) {
      start.arrive_and_wait();
      if (i == 0)
        EXPECT_OK(room.get(n));
      else if (i % 2)
        EXPECT_OK(room.get(n, OnMiss::FailFast));
      else
        EXPECT_OK(room.get(n, OnMiss::Wait, 0ns));
    });
  }
  EXPECT_EQ(room.cache->stats().notReady, 0u);
  EXPECT_EQ(room.cache->stats().misses, 301u);
}

namespace {
/// A cache with the template of lengths below 100, whose one background thread is compiling another.
struct Busy {
  Gate gate;
  std::optional<TestCache> room;
  explicit Busy(size_t entries = 64) {
    room.emplace(
        [this](const Binding &binding) {
          bool large = binding.at("N") >= 100;
          if (large)
            gate.pass();
          PlanBuilder guards;
          guards.guard(PredicateKind::LessEqual, "100", "N", large);
          Result<SpecializeReply> made = reply(large ? addOnePlan() : turnsPlan());
          made->plan->guards = std::move(guards.plan->guards);
          return made;
        },
        entries);
    room->origin(4);
    EXPECT_FALSE(room->get(100, OnMiss::FailFast));
    gate.await();
  }
  ~Busy() { gate.open(); }
};
} // namespace

/// What needs no compiler any more, since another binding was made, is not left to the background.
TEST(Cache, IssueTriedOnceAndNeverAgain) {
  Busy busy;
  TestCache &room = *busy.room;
  EXPECT_ERROR(room.get(2, OnMiss::FailFast), ErrorCode::NotReady, "{N=2} is not ready");
  room.origin(3); // has the same kernel
  auto got = room.get(2, OnMiss::FailFast);
  ASSERT_OK(got);
  EXPECT_EQ(got->origin, Origin::Instantiated);
}

/// What was queued and is made by a run leaves the queue, and with it what it was made into.
TEST(Cache, IssueWorkThatWasTakenOverStaysQueued) {
  Busy busy(4);
  TestCache &room = *busy.room;
  std::vector<int64_t> lengths;
  for (int64_t n = 10; n != 90; ++n)
    lengths.push_back(n);
  auto job = room.prepare(lengths);
  ASSERT_OK(job);
  std::vector<std::weak_ptr<const ReadySpecialization>> made;
  for (int64_t n : lengths) {
    auto got = n % 2 ? room.get(n) : room.get(n, OnMiss::FailFast);
    ASSERT_OK(got);
    made.push_back(got->ready);
  }
  EXPECT_EQ(room.cache->stats().entries, 4u);
  EXPECT_EQ(std::count_if(made.begin(), made.end(), [](const auto &ready) { return ready.expired(); }), 76);
}

TEST(Cache, NobodyWaitsForQueuedWork) {
  Blocked blocked;
  TestCache &room = *blocked.room;
  EXPECT_FALSE(room.get(2, OnMiss::FailFast));
  auto job = room.prepare({2, 3});
  ASSERT_OK(job);
  EXPECT_EQ(room.unready(), 2u);
  EXPECT_EQ(room.origin(2), Origin::NewTemplate); // taken over
  EXPECT_EQ(room.origin(3), Origin::NewTemplate);
  EXPECT_EQ(room.unready(), 0u);
  EXPECT_OK((*job)->wait());
  EXPECT_EQ(room.compiler->specialized, 3);
  // One who gives a time leaves it to the background.
  EXPECT_ERROR(room.get(4, OnMiss::Wait, 2ms), ErrorCode::NotReady, "");
  blocked.gate.open();
  eventually([&] { return room.unready() == 0; });
  EXPECT_EQ(room.compiler->specialized, 4);
}

TEST(Cache, UrgentWorkComesFirst) {
  Blocked blocked;
  TestCache &room = *blocked.room;
  auto job = room.prepare({10, 11, 12, 13});
  ASSERT_OK(job);
  std::thread waiter([&] {
    auto got = room.get(13, OnMiss::Wait, 1h);
    EXPECT_OK(got);
  });
  eventually([&] { return room.cache->stats().misses == 5; });
  std::this_thread::sleep_for(20ms); // until it has queued it again
  blocked.gate.open();
  waiter.join();
  EXPECT_OK((*job)->wait());
  EXPECT_EQ(room.cache->stats().misses, 5u);
  // The order in which they were made.
  EXPECT_EQ(room.bindings(), (std::vector<int64_t>{12, 11, 10, 13, 1}));
}

//===----------------------------------------------------------------------===//
// Preparing
//===----------------------------------------------------------------------===//

TEST(Preparation, ReportsEachAndTheFirstError) {
  EngineOptions options;
  options.backgroundThreads = 3;
  TestCache room(templateEach, 64, 0, std::move(options));
  room.origin(1);
  std::atomic<int> inside{0}, most{0};
  std::vector<Preparation::Progress> seen; // serialised by contract
  std::thread::id self = std::this_thread::get_id();
  bool elsewhere = true;
  auto job = room.prepare({1, 2, 7, 3, 2, 7, 4, 5, 6}, [&](Preparation::Progress progress) {
    most = std::max(most.load(), ++inside);
    seen.push_back(progress);
    elsewhere &= std::this_thread::get_id() != self;
    std::this_thread::sleep_for(1ms);
    --inside;
  });
  ASSERT_OK(job);
  EXPECT_ERROR((*job)->wait(), ErrorCode::InvalidArgument, "N must not be 7");
  EXPECT_EQ(most, 1);
  EXPECT_TRUE(elsewhere);
  ASSERT_EQ(seen.size(), 9u);
  for (size_t i = 0; i != seen.size(); ++i) {
    EXPECT_EQ(seen[i].done, i + 1);
    EXPECT_EQ(seen[i].total, 9u);
  }
  EXPECT_EQ(seen.back().failed, 2u);
  EXPECT_EQ((*job)->progress().failed, 2u);
  EXPECT_EQ(room.cache->stats().entries, 6u);
  EXPECT_EQ(room.cache->stats().misses, 7u);
  EXPECT_EQ(room.origin(6), Origin::Hit);

  auto none = room.prepare({});
  ASSERT_OK(none);
  EXPECT_OK((*none)->wait());
}

TEST(Preparation, CanBeCancelled) {
  Blocked blocked;
  TestCache &room = *blocked.room;
  auto job = room.prepare({2, 3, 4}), other = room.prepare({4});
  ASSERT_OK(job);
  ASSERT_OK(other);
  EXPECT_ERROR((*job)->wait(1ms), ErrorCode::NotReady, "3 are not prepared");
  EXPECT_FALSE(room.get(3, OnMiss::FailFast));
  (*job)->cancel();
  (*job)->cancel();
  EXPECT_ERROR((*job)->wait(), ErrorCode::Cancelled, "cancelled");
  EXPECT_EQ((*job)->progress().done, 3u);
  EXPECT_EQ(room.unready(), 2u); // 3 is wanted by a run, 4 by the other job
  blocked.gate.open();
  EXPECT_OK((*other)->wait());
  eventually([&] { return room.unready() == 0; });
  EXPECT_EQ(room.bindings().size(), 3u);
  EXPECT_EQ(room.forecast(2).kind, Forecast::Kind::NewTemplate);
}

/// What a job leaves to runs that have gone is bounded as what those leave themselves.
TEST(Preparation, IssueWhatACancelledJobLeavesIsBounded) {
  Compiling held;
  TestCache &room = *held.room;
  std::vector<int64_t> lengths;
  for (int64_t n = 10; n != 50; ++n)
    lengths.push_back(n);
  auto job = room.prepare(lengths);
  ASSERT_OK(job);
  for (int64_t n = 10; n != 20; ++n)
    EXPECT_ERROR(room.get(n, OnMiss::FailFast), ErrorCode::NotReady, "is not ready");
  EXPECT_EQ(room.unready(), 41u);
  (*job)->cancel();
  EXPECT_EQ((*job)->progress().failed, 40u);
  EXPECT_EQ(room.unready(), 5u); // with the one being made
  EXPECT_ERROR(room.get(60, OnMiss::FailFast), ErrorCode::NotReady, "nor is it begun");
  held.gate.open();
  eventually([&] { return room.unready() == 0; });
  EXPECT_EQ(room.compiler->specialized, 5);
}

/// What a run tries without the compiler just now is dropped, too.
TEST(Preparation, IssueCancelledWhileItIsTried) {
  for (int round = 0; round != 200; ++round) {
    Busy busy;
    TestCache &room = *busy.room;
    // A kernel is missing.
    auto job = room.prepare({2});
    ASSERT_OK(job);
    std::latch start(2);
    inThreads(2, [&](int i) {
      start.arrive_and_wait();
      if (i == 0)
        EXPECT_ERROR(room.get(2, OnMiss::FailFast), ErrorCode::NotReady, "is not ready");
      else
        (*job)->cancel();
    });
    ASSERT_EQ((*job)->progress().failed, 1u);
    EXPECT_ERROR((*job)->wait(), ErrorCode::Cancelled, "cancelled");
  }
}

TEST(Background, WhatIsDroppedGoesAtOnce) {
  Gate gate;
  Background background(1);
  ASSERT_OK(background.submit([&] { gate.pass(); }));
  gate.await();
  std::vector<std::weak_ptr<int>> queued;
  std::vector<int> ran;
  int things[6];
  for (int i = 0; i != 6; ++i) {
    auto owned = std::make_shared<int>(i);
    queued.push_back(owned);
    ASSERT_OK(background.submit([&ran, owned] { ran.push_back(*owned); }, i % 2, &things[i]));
  }
  background.drop({&things[1], &things[2], &gate});
  for (size_t i = 0; i != queued.size(); ++i)
    EXPECT_EQ(queued[i].expired(), i == 1 || i == 2);
  background.drop({});
  // One by one; there may be several about a thing, urgent or not.
  for (int i = 0; i != 4; ++i) {
    auto owned = std::make_shared<int>(6);
    queued.push_back(owned);
    ASSERT_OK(background.submit([&ran, owned] { ran.push_back(*owned); }, i % 2, &things[2]));
  }
  background.drop(&things[1], 7);
  background.drop(&things[2], 0);
  EXPECT_FALSE(queued[6].expired());
  background.drop(&things[2], 3); // the urgent ones first
  EXPECT_EQ((std::vector{queued[6].expired(), queued[7].expired(), queued[8].expired(), queued[9].expired()}),
            (std::vector{true, true, false, true}));
  std::atomic<bool> last{false};
  ASSERT_OK(background.submit([&] { last = true; }));
  gate.open();
  eventually([&] { return last.load(); });
  EXPECT_EQ(ran, (std::vector<int>{3, 5, 0, 4, 6}));
}

TEST(Preparation, CallbacksMayUseIt) {
  TestCache room(templateEach);
  std::promise<std::shared_ptr<Preparation>> given;
  std::shared_future<std::shared_ptr<Preparation>> job = given.get_future().share();
  std::atomic<int> calls{0};
  auto made = room.prepare({1, 2, 3, 4, 5, 6}, [&, job](Preparation::Progress progress) {
    ++calls;
    EXPECT_EQ(progress.done, 1u);
    EXPECT_EQ(job.get()->progress().total, 6u);
    EXPECT_ERROR(job.get()->wait(0ns), ErrorCode::NotReady, "");
    (void)room.cache->stats();
    EXPECT_OK(room.get(1));
    EXPECT_OK(room.get(100));
    job.get()->cancel();
    EXPECT_ERROR(job.get()->wait(), ErrorCode::Cancelled, "");
  });
  ASSERT_OK(made);
  given.set_value(*made);
  EXPECT_ERROR((*made)->wait(), ErrorCode::Cancelled, "");
  EXPECT_EQ(calls, 1);
}

/// The only background thread must not wait for itself: neither for its own job nor for another one.
TEST(Preparation, IssueACallbackWaitsForTheBackground) {
  TestCache room(templateEach);
  std::promise<std::shared_ptr<Preparation>> given;
  std::shared_future<std::shared_ptr<Preparation>> later = given.get_future().share();
  std::atomic<int> calls{0};
  std::shared_ptr<Preparation> job;
  auto made = room.prepare({1, 2}, [&, later](Preparation::Progress progress) {
    ++calls;
    EXPECT_ERROR(later.get()->wait(), ErrorCode::InvalidArgument, "background");
    EXPECT_ERROR(later.get()->wait(1ns), ErrorCode::NotReady, "");
    if (progress.done == 1)
      EXPECT_ERROR(job->wait(), ErrorCode::InvalidArgument, "background");
    else
      EXPECT_OK(job->wait());
  });
  ASSERT_OK(made);
  job = *made;
  auto behind = room.prepare({3}, [&](Preparation::Progress) { ++calls; });
  ASSERT_OK(behind);
  given.set_value(*behind);
  EXPECT_OK(job->wait());
  EXPECT_OK((*behind)->wait());
  EXPECT_EQ(calls, 3);
  job = nullptr;
}

TEST(Preparation, QueuedWorkOfADeadCacheIsDropped) {
  Blocked blocked;
  auto model = Model::create(vectorSignature().signature, nullptr, blocked.room->compiler);
  ASSERT_OK(model);
  auto other = std::make_shared<SpecializationCache>(blocked.room->engine, *model, 4);
  auto job = other->prepareInBackground({{2}, {3}}, nullptr);
  ASSERT_OK(job);
  other = nullptr;
  EXPECT_ERROR((*job)->wait(), ErrorCode::Cancelled, "cancelled");
  (*job)->cancel();
  blocked.gate.open();
  blocked.room->origin(9);
  EXPECT_EQ(blocked.room->compiler->specialized, 2);
}

#if !defined(__SANITIZE_THREAD__) && !(defined(__has_feature) && __has_feature(thread_sanitizer))
/// A child made by fork() has no background threads: a callback that came with what was refused is not called, when
/// another thread has made some of it either.
TEST(Preparation, IssueRefusedPreparationsCallNobody) {
  Gate gate;
  TestCache room([&](const Binding &binding) {
    if (binding.at("N") == 2)
      gate.pass();
    return templateEach(binding);
  });
  room.origin(1);
  pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    std::thread maker([&] { (void)room.get(2); });
    gate.await();
    std::atomic<int> calls{0};
    auto refused = room.prepare({2, 3}, [&](Preparation::Progress) { ++calls; });
    gate.open();
    maker.join();
    auto there = room.prepare({1, 2}, [&](Preparation::Progress) { calls += 10; });
    _exit(refused ? 1 : !there || !(*there)->wait() ? 2 : calls != 20 ? 3 : 0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}
#endif

/// What was made but not told yet when the engine ended is told to nobody, and nobody waits for it.
TEST(Preparation, IssueWaitAfterTheEngineEnded) {
  TestCache room(templateEach);
  room.origin(1);
  Gate gate;
  auto first = room.prepare({1}, [&](Preparation::Progress) { gate.pass(); });
  ASSERT_OK(first);
  gate.await();
  std::atomic<int> calls{0};
  auto second = room.prepare({1}, [&](Preparation::Progress) { ++calls; }); // behind the first one's call
  ASSERT_OK(second);
  std::thread ends([&] {
    room.cache = nullptr;
    room.engine = nullptr;
  });
  EXPECT_OK((*second)->wait(30s));
  gate.open();
  ends.join();
  EXPECT_OK((*first)->wait());
  EXPECT_EQ(calls, 0);
}

TEST(Preparation, AnEngineMayEndInItsOwnThread) {
  for (int round = 0; round != 20; ++round) {
    auto gate = std::make_shared<Gate>();
    EngineOptions options;
    options.backgroundThreads = 2;
    std::optional<TestCache> room;
    room.emplace(
        [gate](const Binding &binding) {
          gate->pass();
          return oneTemplate(binding);
        },
        64, 0, std::move(options));
    auto job = room->prepare({1, 2, 3});
    ASSERT_OK(job);
    gate->await();
    std::weak_ptr<Engine> engine = room->engine;
    room->cache = nullptr;
    room->engine = nullptr;
    EXPECT_FALSE(engine.expired());
    gate->open();
    eventually([&] { return engine.expired(); });
    // Some were made, the last maybe dropped.
    (void)(*job)->wait();
    EXPECT_EQ((*job)->progress().done, 3u);
  }
}

//===----------------------------------------------------------------------===//
// Telling
//===----------------------------------------------------------------------===//

TEST(Cache, TellsWhatARunWouldMeet) {
  TestCache room(templateEach);
  EXPECT_EQ(room.forecast(3).kind, Forecast::Kind::NewTemplate);
  EXPECT_TRUE(room.forecast(3).guardsFailed.empty());
  room.origin(3);
  EXPECT_EQ(room.forecast(3).kind, Forecast::Kind::Hit);
  Forecast error = room.forecast(7);
  EXPECT_EQ(error.kind, Forecast::Kind::Error);
  EXPECT_NE(error.text().find("N must not be 7"), std::string::npos) << error.text();
  room.origin(2);
  Forecast other = room.forecast(6);
  EXPECT_EQ(other.kind, Forecast::Kind::NewTemplate);
  ASSERT_EQ(other.guardsFailed.size(), 2u); // one for each template
  EXPECT_NE(other.guardsFailed[0].find("N-2*floordiv(N, 2) == 1"), std::string::npos) << other.text();
  EXPECT_NE(other.guardsFailed[1].find("not floordiv(N, 4)"), std::string::npos) << other.text();
  EXPECT_EQ(room.compiler->specialized, 2); // asking made nothing
  EXPECT_EQ(room.cache->stats().misses, 2u);

  TestCache one(oneTemplate, 1);
  one.origin(3);
  one.origin(4);
  EXPECT_EQ(one.forecast(3).kind, Forecast::Kind::Instantiate);
  BindingInfo info = one.cache->bindings()[0];
  EXPECT_STREQ(bindingStateName(info.state), "ready");
  std::this_thread::sleep_for(3ms);
  double idle = one.cache->bindings()[0].idleMs;
  EXPECT_GE(idle, 3);
  one.origin(4);
  EXPECT_LT(one.cache->bindings()[0].idleMs, idle + 1000);
  EXPECT_EQ(one.cache->bindings()[0].hits, 1u);
}

TEST(Cache, TheLogMayAskTheEngine) {
  std::weak_ptr<SpecializationCache> cache;
  std::mutex mutex;
  std::vector<std::string> lines;
  EngineOptions options;
  options.log = [&](std::string_view line) {
    std::shared_ptr<SpecializationCache> held = cache.lock();
    ASSERT_TRUE(held);
    EXPECT_GE(held->stats().misses, 1u);
    (void)held->bindings();
    (void)held->explain();
    (void)held->engine->kernelCount();
    int64_t sizes[] = {99};
    (void)held->get(sizes, OnMiss::FailFast);
    std::lock_guard lock(mutex);
    lines.emplace_back(line);
  };
  TestCache room(templateEach, 64, 0, std::move(options));
  cache = room.cache;
  room.origin(5);
  EXPECT_FALSE(room.get(7));
  eventually([&] {
    std::lock_guard lock(mutex);
    return lines.size() == 3;
  });
  EXPECT_NE(lines[0].find("{N=5}: new, 1 kernels compiled"), std::string::npos) << lines[0];
}

TEST(Engine, OptionsOutOfRangeAreNamed) {
  auto refused = [](const char *name, auto change) {
    EngineOptions options;
    change(options);
    EXPECT_ERROR(Engine::create(std::move(options)), ErrorCode::InvalidArgument, name);
  };
  refused("cacheEntries", [](EngineOptions &options) { options.cacheEntries = 0; });
  refused("backgroundThreads", [](EngineOptions &options) { options.backgroundThreads = 0; });
  refused("backgroundThreads", [](EngineOptions &options) { options.backgroundThreads = 65; });
  refused("idleTime", [](EngineOptions &options) { options.idleTime = -1ms; });
  refused("worker.timeout", [](EngineOptions &options) { options.worker.timeout = -1ms; });
  refused("threads", [](EngineOptions &options) { options.threads = -1; });
  refused("threads", [](EngineOptions &options) { options.threads = 1 << 20; });
  refused("compiler", [](EngineOptions &options) { options.compiler = static_cast<CompilerPlace>(7); });
}

TEST(Engine, TwoLiveSideBySide) {
  std::atomic<int> first{0}, second{0};
  EngineOptions one, two;
  one.log = [&](std::string_view) { ++first; };
  two.log = [&](std::string_view) { ++second; };
  one.threads = 1;
  two.threads = 2;
  TestCache a(oneTemplate, 1, 0, std::move(one)), b(templateEach, 8, 0, std::move(two));
  inThreads(4, [&](int i) {
    for (int64_t n = 10; n != 15; ++n)
      (i % 2 ? a : b).origin(n);
  });
  EXPECT_EQ(b.cache->stats().entries, 5u);
  EXPECT_EQ(a.cache->stats().entries, 1u);
  EXPECT_EQ(second, 5);
  EXPECT_GE(first, 5);
  EXPECT_EQ(a.engine->threads(), 1u);
  EXPECT_EQ(b.engine->threads(), 2u);
  EXPECT_EQ(a.engine->kernelCount(), 1u);
  EXPECT_EQ(b.engine->kernelCount(), 5u);
}
