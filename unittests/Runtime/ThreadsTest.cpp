//===- ThreadsTest.cpp - runs on several threads --------------------------===//
#include "EngineParts.h"
#include "Fakes.h"
#include "Pools.h"
#include "Split.h"

#include <cmath>
#include <cstring>
#include <ctime>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

using namespace rlx;
using namespace rlx::fakes;
using data::BufferKind;
using data::Family;
using data::Opcode;

namespace {
constexpr auto F32 = ElementType::F32, I32 = ElementType::I32;
using Values = std::vector<float>;
using Shape = std::vector<int64_t>;
constexpr int64_t K = 48, N = 200;

std::shared_ptr<Engine> engineWith(int threads, std::shared_ptr<ThreadPool> pool = nullptr) {
  EngineOptions options;
  options.threads = threads;
  options.pool = std::move(pool);
  options.loader = std::make_shared<FakeLoader>();
  auto engine = Engine::create(std::move(options));
  EXPECT_OK(engine);
  return *engine;
}

/// Engines of 1, 2, 3 and 8 threads, and of pools that hardly help.
std::vector<std::shared_ptr<Engine>> engines() {
  std::vector<std::shared_ptr<Engine>> made;
  for (int threads : {1, 2, 3, 8})
    made.push_back(engineWith(threads));
  for (auto &pool : oddPools())
    made.push_back(engineWith(0, pool));
  return made;
}

Values chainWeights();

/// y = cumsum(max(x + x, 0) . w) along rows; w is an input, or a packed weight, and
/// then threads may share the rows of the product.
Bench chain(std::shared_ptr<Engine> engine, bool packed = false) {
  auto weights = std::make_shared<WeightTable>();
  auto values = std::make_shared<Values>(chainWeights());
  EXPECT_OK(weights->add("w", {F32, {K, N}, std::as_bytes(std::span(*values)), values}));
  SignatureBuilder signature;
  signature.dim("B").input("x", F32, {"B", "48"}).output("y", F32, {"B", "200"});
  if (!packed)
    signature.input("w", F32, {"48", "200"});
  return Bench(
      std::move(signature),
      [packed](const Binding &) {
        PlanBuilder p;
        uint32_t B = p.symbol(0), k = p.constant(K), n = p.constant(N), one = p.constant(1), zero = p.constant(0);
        uint32_t size = p.mul(B, k), large = p.mul(B, n);
        uint32_t x = p.buffer(BufferKind::Input, F32, size, 0);
        uint32_t w = p.buffer(packed ? BufferKind::Weight : BufferKind::Input, F32, p.constant(K * N), 1);
        if (packed) {
          data::BufferT &buffer = *p.plan->buffers[w];
          buffer.name = "w";
          buffer.layout = data::PackedLayout::Panels16;
          buffer.k = K;
          buffer.n = N;
          buffer.k_stride = N;
          buffer.n_stride = 1;
        }
        uint32_t doubled = p.arena(F32, size, 0, 1), positive = p.arena(F32, size, 1, 2);
        uint32_t product = p.arena(F32, large, 2, 3), y = p.buffer(BufferKind::Output, F32, large, 0);
        binary(p, "double", Opcode::Add, size, x, x, doubled);
        data::StepT &relu = unary(p, "relu", size, doubled, positive);
        relu.program.push_back(instr(Opcode::Max, F32, 0, 0));
        relu.results = {1};
        data::StepT &matmul = p.step(Family::Matmul, "product", {B, n});
        matmul.inputs.push_back(p.access(positive, {k, zero}));
        matmul.inputs.push_back(p.access(w, {zero, packed ? zero : one}));
        matmul.outputs.push_back(p.access(product, {n, one}));
        matmul.results = {0};
        matmul.k = k;
        matmul.a_k_stride = one;
        matmul.b_k_stride = packed ? zero : n;
        matmul.b_packed = packed;
        data::StepT &scan = p.step(Family::Scan, "sums", {B, n});
        scan.inputs.push_back(p.access(product, {n, one}));
        scan.outputs.push_back(p.access(y, {n, one}));
        p.output(y, {B, n});
        return reply(p.take());
      },
      64, std::move(weights), std::move(engine));
}

float made(size_t i) { return std::sin(static_cast<float>(i)) * static_cast<float>(i % 97); }

/// `salt`: another one for each run, because memory of earlier runs is used again
/// and would hide what is not written.
Values chainInput(int64_t rows, int salt) {
  Values x(static_cast<size_t>(rows * K));
  for (size_t i = 0; i != x.size(); ++i)
    x[i] = made(i + static_cast<size_t>(salt) * 31);
  return x;
}
Values chainWeights() {
  Values w(K * N);
  for (size_t i = 0; i != w.size(); ++i)
    w[i] = made(i + 1234567);
  return w;
}

/// What chain() is, in plain C++ and the same order of sums.
Values chainWanted(int64_t rows, int salt = 0) {
  Values x = chainInput(rows, salt), w = chainWeights(), y(static_cast<size_t>(rows * N));
  for (int64_t row = 0; row != rows; ++row) {
    float running = 0;
    for (int64_t column = 0; column != N; ++column) {
      float sum = 0;
      for (int64_t i = 0; i != K; ++i) {
        float value = x[static_cast<size_t>(row * K + i)];
        sum += std::max(value + value, 0.0f) * w[static_cast<size_t>(i * N + column)];
      }
      running += sum;
      y[static_cast<size_t>(row * N + column)] = running;
    }
  }
  return y;
}

Result<Values> runChain(Executable &executable, int64_t rows, int salt = 0, std::vector<StepTime> *profile = nullptr) {
  Values x = chainInput(rows, salt), w = chainWeights();
  Shape xShape = {rows, K}, wShape = {K, N};
  std::vector<NamedTensor> inputs = {input("x", F32, xShape, x)};
  if (executable.model()->findInput("w"))
    inputs.push_back(input("w", F32, wShape, w));
  RunOptions options;
  options.profile = profile;
  auto outputs = executable.run(inputs, options);
  if (!outputs)
    return outputs.takeError();
  return valuesOf<float>((*outputs)[0]);
}

void expectSameBits(const Result<Values> &got, const Values &wanted) {
  ASSERT_OK(got);
  ASSERT_EQ(got->size(), wanted.size());
  EXPECT_TRUE(wanted.empty() || std::memcmp(got->data(), wanted.data(), wanted.size() * sizeof(float)) == 0);
}

double cpuSeconds() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}
} // namespace

//===----------------------------------------------------------------------===//
// Runs
//===----------------------------------------------------------------------===//

TEST(Threads, SameBits) {
  // Case 60, as far as the runtime goes: who runs which tiles changes nothing.
  for (auto &engine : engines())
    for (bool packed : {false, true}) {
      Bench bench = chain(engine, packed);
      for (int64_t rows : {0, 1, 2, 37, 301})
        for (int salt = 0; salt != 3; ++salt)
          expectSameBits(runChain(*bench.executable, rows, salt), chainWanted(rows, salt));
    }
}

/// Runs until a step has been shared, 2,000 times at most. Returns the most threads that a step had. `afterRun` gets
/// the run's number and the most so far.
static unsigned mostThreads(Bench &bench, const std::function<void(int, unsigned)> &afterRun = [](int, unsigned) {}) {
  unsigned most = 0;
  for (int i = 0; i != 2000 && most < 2; ++i) {
    std::vector<StepTime> profile;
    expectSameBits(runChain(*bench.executable, 300, 0, &profile), chainWanted(300));
    for (const StepTime &step : profile)
      most = std::max(most, step.threads);
    afterRun(i, most);
  }
  return most;
}

TEST(Threads, HelpersTakePart) {
  Bench bench = chain(engineWith(3));
  EXPECT_GE(mostThreads(bench), 2u);
}

/// Crews are used again: what was asked of a pool that dropped it does not count as help for ever.
TEST(Threads, HelpersTakePartAfterDroppedTasks) {
  class Moody : public ThreadPerTaskPool {
  public:
    void submit(std::function<void()> task) override {
      if (!drops)
        ThreadPerTaskPool::submit(std::move(task));
    }
    std::atomic<bool> drops{true};
  };
  auto pool = std::make_shared<Moody>();
  Bench bench = chain(engineWith(0, pool));
  unsigned most = mostThreads(bench, [&](int run, unsigned most) {
    EXPECT_TRUE(most == 1 || !pool->drops);
    pool->drops = run < 3;
  });
  EXPECT_GE(most, 2u);
}

#if !defined(__SANITIZE_THREAD__) && !(defined(__has_feature) && __has_feature(thread_sanitizer))
/// Whoever was in an idle crew when the process was forked never leaves it in the child.
TEST(Threads, IssueAChildHasTheCrewsOfItsParent) {
  Bench bench = chain(engineWith(3));
  EXPECT_GE(mostThreads(bench), 2u);
  Values wanted = chainWanted(300);
  pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    Crews &crews = bench.engine->parts().crews;
    std::shared_ptr<Crew> first = crews.borrow(3), second;
    Crew *address = first.get();
    crews.giveBack(first);
    bool fresh = first.use_count() == 1;
    second = crews.borrow(3);
    Result<Values> got = runChain(*bench.executable, 300);
    _exit(fresh && second.get() != address && got && *got == wanted ? 0 : 1);
  }
  int status = 1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
#endif

TEST(Threads, FirstErrorIsTheOneInOrder) {
  constexpr int64_t rows = 64, columns = 3000;
  std::vector<int32_t> a(rows * columns, 6), b(rows * columns, 2);
  // Many, and one alone before them.
  for (int64_t i = 20 * columns; i < rows * columns; i += 7)
    b[static_cast<size_t>(i)] = 0;
  b[13 * columns + 2990] = 0;
  for (auto &engine : engines()) {
    Bench bench(
        SignatureBuilder()
            .dim("R")
            .input("a", I32, {"R", "3000"})
            .input("b", I32, {"R", "3000"})
            .output("q", I32, {"R", "3000"}),
        [](const Binding &) {
          PlanBuilder p;
          uint32_t R = p.symbol(0), n = p.constant(columns), one = p.constant(1), wide = p.constant(2 * columns);
          uint32_t size = p.mul(R, n);
          uint32_t a = p.buffer(BufferKind::Input, I32, size, 0), b = p.buffer(BufferKind::Input, I32, size, 1);
          uint32_t apart = p.arena(I32, p.mul(R, wide), 0, 0), q = p.buffer(BufferKind::Output, I32, size, 0);
          // Rows that do not lie next to each other stay rows.
          data::StepT &step = p.step(Family::Loops, "ratio", {R, n});
          step.inputs.push_back(p.access(a, {n, one}));
          step.inputs.push_back(p.access(b, {n, one}));
          step.outputs.push_back(p.access(apart, {wide, one}));
          step.program.push_back(instr(Opcode::Div, I32, 0, 1));
          step.results = {2};
          p.output(q, {R, n});
          return reply(p.take());
        },
        64, nullptr, engine);
    Shape shape = {rows, columns};
    NamedTensor inputs[] = {input("a", I32, shape, a), input("b", I32, shape, b)};
    for (int again = 0; again != 10; ++again)
      EXPECT_ERROR(bench.executable->run(inputs), ErrorCode::RunFailed,
                   "node 'ratio': division by zero at element [13,2990]");
  }
}

TEST(Threads, ManyRunsAtOnce) {
  std::vector<Values> wanted;
  for (int64_t t = 0; t != 8; ++t)
    wanted.push_back(chainWanted(20 + 10 * t));
  std::shared_ptr<ThreadPool> one = *ThreadPool::create(1);
  for (auto &engine : {engineWith(3), engineWith(0, one)}) {
    Bench bench = chain(engine);
    std::vector<std::thread> threads;
    for (int64_t t = 0; t != 8; ++t)
      threads.emplace_back([&, t] {
        for (int i = 0; i != 10; ++i)
          expectSameBits(runChain(*bench.executable, 20 + 10 * t), wanted[static_cast<size_t>(t)]);
      });
    for (std::thread &thread : threads)
      thread.join();
  }
}

TEST(Threads, RunsInsideTasksOfThePool) {
  auto pool = ThreadPool::create(3);
  ASSERT_OK(pool);
  Bench bench = chain(engineWith(0, *pool));
  Values wanted = chainWanted(50);
  parallelFor(**pool, 12, [&](size_t) { expectSameBits(runChain(*bench.executable, 50), wanted); });
}

TEST(Threads, IdleAfterARun) {
  Bench bench = chain(engineWith(8));
  expectSameBits(runChain(*bench.executable, 300), chainWanted(300));
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  double before = cpuSeconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  // One thread that spun would have used nearly all of it.
  EXPECT_LT(cpuSeconds() - before, 0.03);
}

#if defined(__x86_64__)
TEST(Threads, DenormalsAreKeptOnEveryThread) {
  // Threads inherit the settings of the one that made them: flush and zero.
  unsigned saved = _mm_getcsr();
  _mm_setcsr(saved | 0x8040);
  auto engine = engineWith(4);
  _mm_setcsr(saved);
  Bench bench(
      SignatureBuilder().dim("N").input("x", F32, {"N"}).output("y", F32, {"N"}),
      [](const Binding &) {
        PlanBuilder p;
        uint32_t n = p.symbol(0), x = p.buffer(BufferKind::Input, F32, n, 0),
                 y = p.buffer(BufferKind::Output, F32, n, 0);
        binary(p, "double", Opcode::Add, n, x, x, y);
        p.output(y, {n});
        return reply(p.take());
      },
      64, nullptr, engine);
  Values x(2000000, 0x1p-140f);
  Shape shape = {static_cast<int64_t>(x.size())};
  NamedTensor inputs[] = {input("x", F32, shape, x)};
  for (int i = 0; i != 5; ++i) {
    auto y = bench.executable->run(inputs);
    ASSERT_OK(y);
    auto values = (*y)[0].as<float>();
    EXPECT_TRUE(std::all_of(values.begin(), values.end(), [](float value) { return value == 0x1p-139f; }));
  }
}
#endif

TEST(Threads, Profile) {
  for (int threads : {1, 3}) {
    Bench bench = chain(engineWith(threads));
    std::vector<StepTime> profile(7);
    expectSameBits(runChain(*bench.executable, 300, 0, &profile), chainWanted(300));
    ASSERT_EQ(profile.size(), 4u);
    EXPECT_EQ(profile[0].node, "double");
    EXPECT_EQ(profile[2].node, "product");
    EXPECT_EQ(profile[2].family, Family::Matmul);
    EXPECT_EQ(profile[2].extents, (Shape{300, N}));
    EXPECT_EQ(profile[3].family, Family::Scan);
    for (const StepTime &step : profile) {
      EXPECT_GT(step.ms, 0);
      EXPECT_GE(step.threads, 1u);
      EXPECT_LE(step.threads, static_cast<unsigned>(threads));
    }
  }
}

//===----------------------------------------------------------------------===//
// Engines
//===----------------------------------------------------------------------===//

namespace {
class PoolOf : public DroppingPool {
public:
  explicit PoolOf(unsigned count) : count(count) {}
  unsigned threads() const override { return count; }

private:
  unsigned count;
};
} // namespace

TEST(Threads, HowManyAnEngineHas) {
  EXPECT_EQ(engineWith(0)->threads(), availableCores());
  EXPECT_EQ(engineWith(1)->threads(), 1u);
  EXPECT_EQ(engineWith(5)->threads(), 5u);
  auto eight = std::make_shared<PoolOf>(8);
  EXPECT_EQ(engineWith(0, eight)->threads(), 8u);
  EXPECT_EQ(engineWith(0, eight)->parts().threads, eight);
  EXPECT_EQ(engineWith(3, eight)->threads(), 3u);
  EXPECT_EQ(engineWith(20, eight)->threads(), 8u);
  EXPECT_EQ(engineWith(0, std::make_shared<PoolOf>(0))->threads(), 1u);
  EXPECT_EQ(engineWith(0, std::make_shared<PoolOf>(4000000000u))->threads(), kMaxThreads);
}

//===----------------------------------------------------------------------===//
// The split
//===----------------------------------------------------------------------===//

namespace {
void expectWellFormed(const StepCall &call) {
  EXPECT_GE(call.unitTiles, 1);
  EXPECT_LE(call.unitTiles, call.tiles);
  EXPECT_LE(unitsOf(call), 256u);
}

select::StepDraft split(Family family, std::vector<int64_t> integers, int64_t tiles, uint8_t rank = 1) {
  data::KernelSpecT spec;
  spec.family = family;
  spec.rank = rank;
  spec.b_layout = data::PackedLayout::Panels16;
  for (auto *list : {&spec.inputs, &spec.outputs}) {
    list->push_back(std::make_unique<data::AccessSpecT>());
    list->back()->type = F32;
  }
  select::StepDraft call;
  call.tiles = tiles;
  call.integers = std::move(integers);
  call.integers.resize(call.integers.size() + 16); // strides, which tell nothing here
  splitStep(spec, costsOf(spec), call);
  expectWellFormed(call);
  return call;
}
} // namespace

TEST(Split, SmallStepsStayWhole) {
  EXPECT_EQ(split(Family::Loops, {1}, 1).unitTiles, 1);
  EXPECT_EQ(split(Family::Loops, {2 * kLoopsBlock}, 2).unitTiles, 2);
  EXPECT_EQ(split(Family::Rows, {8, 100}, 8).unitTiles, 8);
  EXPECT_EQ(split(Family::Matmul, {1, 64, 64}, 4).unitTiles, 4); // M, N, K
  EXPECT_EQ(split(Family::Scan, {5, 0}, 5).unitTiles, 5);
  // What is one tile is one, however large.
  EXPECT_EQ(split(Family::Loops, {100000000}, 1).helpers, 0u);
}

TEST(Split, LargeStepsAreShared) {
  // 100 million elements: as many units as there may be, and threads for all.
  select::StepDraft loops = split(Family::Loops, {100000000}, 24415);
  EXPECT_GT(unitsOf(loops), 200u);
  EXPECT_GT(loops.helpers, 100u);
  // Twelve rows of 8 us each.
  select::StepDraft rows = split(Family::Rows, {12, 10000}, 12);
  EXPECT_EQ(rows.unitTiles, 1);
  EXPECT_GE(rows.helpers, 2u);
  EXPECT_LE(rows.helpers, 11u);
  // Many panels: in groups of four. Few: in pairs.
  EXPECT_EQ(split(Family::Matmul, {6, 1536, 384}, 96).unitTiles % 4, 0);
  EXPECT_EQ(split(Family::Matmul, {128, 384, 384}, 24).unitTiles, 2);
  EXPECT_EQ(split(Family::Matmul, {128, 1536, 384}, 96).unitTiles, 4);
}

/// A kernel takes as long for one panel as for all that it takes at once: two threads took twice as long for 24 panels
/// of bytes as one.
TEST(Split, issue_PanelsThatAreTakenAtOnce) {
  auto unit = [](ElementType a, ElementType b, int64_t rows, ElementType sum = F32) {
    data::KernelSpecT spec;
    spec.family = Family::Matmul;
    spec.rank = 2;
    spec.a_type = a;
    spec.b_type = b;
    spec.accumulator = sum;
    spec.b_layout = data::PackedLayout::Panels16;
    spec.row_class = static_cast<uint8_t>(rows <= kMatmulFewRows && sum == F32 ? kMatmulFewRows : kMatmulManyRows);
    select::StepDraft call;
    call.tiles = 24;
    call.integers = {rows, 384, 1536, 1536, 1, 0, 0};
    splitStep(spec, costsOf(spec), call);
    expectWellFormed(call);
    EXPECT_GT(unitsOf(call), 1u);
    return call.unitTiles;
  };
  for (int64_t rows : {1, 2})
    EXPECT_EQ(unit(F32, ElementType::I8, rows), 8);
  for (int64_t rows : {3, 4, 5})
    EXPECT_EQ(unit(F32, ElementType::U8, rows), 4);
  for (int64_t rows : {1, 2, 3, 5})
    EXPECT_EQ(unit(F32, F32, rows), 4);
  // Rows of 16 bits are widened once for four panels, at any number of rows.
  for (int64_t rows : {1, 6, 16, 63})
    EXPECT_EQ(unit(ElementType::F16, ElementType::F16, rows), 4);
  EXPECT_EQ(unit(F32, F32, 16), 2);
  // These sums take a panel at a time.
  EXPECT_EQ(unit(ElementType::I8, ElementType::I8, 16, ElementType::I32), 1);
}

TEST(Split, AttentionStaysWithItsKeys) {
  auto unit = [](int64_t heads, int64_t length) {
    data::KernelSpecT spec;
    spec.family = Family::Attention;
    spec.rank = 4;
    spec.batch_rank = 2;
    spec.row_class = kAttentionRows;
    select::StepDraft call;
    call.integers = {1, heads, length, length, 32, 32};
    call.tiles = heads * ((length - 1) / kAttentionRows + 1);
    splitStep(spec, costsOf(spec), call);
    return call.unitTiles;
  };
  // Whole heads where there are enough of them, or several; else quarters of one.
  EXPECT_EQ(unit(12, 128), 16);
  EXPECT_EQ(unit(12, 16) % 2, 0);
  EXPECT_EQ(unit(2, 4096), 128);
}

namespace {
/// [rows, k] . [k, columns] with an input gathered along rows, then an f16 one; the
/// output is f64.
select::StepDraft splitProduct(int64_t rows, int64_t columns, int64_t k,
                               data::PackedLayout layout = data::PackedLayout::Panels16,
                               data::AccessKind last = data::AccessKind::Direct) {
  data::KernelSpecT spec;
  spec.family = Family::Matmul;
  spec.rank = 2;
  spec.row_class = kMatmulManyRows;
  spec.b_layout = layout;
  spec.a_type = F32;
  spec.b_type = ElementType::I8;
  for (ElementType type : {F32, ElementType::F16, ElementType::F64}) {
    auto made = std::make_unique<data::AccessSpecT>();
    made->type = type;
    (type == ElementType::F64 ? spec.outputs : spec.inputs).push_back(std::move(made));
  }
  spec.inputs[0]->kind = data::AccessKind::Indexed;
  spec.inputs[0]->index_type = ElementType::I64;
  spec.inputs[0]->index_inner = {data::InnerMode::Splat};
  spec.inputs[1]->kind = last;
  select::StepDraft call;
  call.tiles = (columns - 1) / kPanel + 1;
  call.integers = {rows, columns, k};
  call.integers.insert(call.integers.end(), {k + 5, 1, 0, 0});     // a, b
  call.integers.insert(call.integers.end(), {0, 1, 3, 0, 999, 7}); // gathered; its index
  call.integers.insert(call.integers.end(), {11, 1, columns, 1});  // f16, output
  call.pointers.resize(7);                                         // a, b, gathered, index, f16, output, scratch
  splitStep(spec, costsOf(spec), call);
  expectWellFormed(call);
  return call;
}
} // namespace

TEST(Split, RowsOfProducts) {
  select::StepDraft call = splitProduct(200, 384, 384);
  EXPECT_EQ(call.rowGroups, 6u); // of 32 rows at least
  EXPECT_EQ(call.rowBytes, (Shape{389 * 4, 0, 0, 3 * 8, 11 * 2, 384 * 8, 0}));
  EXPECT_EQ(splitProduct(63, 384, 384).rowGroups, 1u);
  // Nothing to sum: a is empty, and its strides were never checked.
  EXPECT_LT(splitProduct(10000, 384, 0).unitTiles, 24);
  EXPECT_EQ(splitProduct(10000, 384, 0).rowGroups, 1u);
  EXPECT_EQ(splitProduct(1000000, 384, 384).rowGroups, kMaxThreads);
  // Weights far larger than what goes in and out are read once.
  EXPECT_EQ(splitProduct(64, 3072, 16384).rowGroups, 1u);
  // What no pointer stands for cannot be moved on.
  EXPECT_EQ(splitProduct(200, 384, 384, data::PackedLayout::Panels16, data::AccessKind::Iota).rowGroups, 1u);
  EXPECT_EQ(splitProduct(200, 384, 384, data::PackedLayout::Strided).rowGroups, 1u);
  EXPECT_EQ(split(Family::Matmul, {4, 4, 4}, 1).rowGroups, 1u);
}

TEST(Split, AnySizes) {
  int64_t huge = INT64_MAX / 16;
  EXPECT_GT(split(Family::Loops, {huge, 1}, huge, 2).unitTiles, 1 << 30);
  EXPECT_EQ(split(Family::Rows, {huge, 0}, huge).unitTiles, huge); // takes no time by the count
  EXPECT_GT(split(Family::Matmul, {huge, huge, huge}, huge / 16).unitTiles, 1 << 30);
}
