//===- RunTest.cpp - what a run costs, and what callers may pass ----------===//
#include "Allocations.h"
#include "CountingAllocator.h"
#include "Fakes.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <thread>

using namespace rlx;
using namespace rlx::fakes;
using data::BufferKind;
using data::Opcode;

namespace {
constexpr auto F32 = ElementType::F32;
constexpr auto kBad = ErrorCode::InvalidArgument;
using Values = std::vector<float>;
using Shape = std::vector<int64_t>;

std::unique_ptr<data::PlanTemplateT> addOnePlan() {
  PlanBuilder p;
  uint32_t N = p.symbol(0);
  uint32_t x = p.buffer(BufferKind::Input, F32, N, 0), y = p.buffer(BufferKind::Output, F32, N, 0);
  uint32_t one = p.constantBuffer<float>(F32, {1});
  binary(p, "add", Opcode::Add, N, x, one, y, true);
  p.output(y, {N});
  return p.take();
}

std::shared_ptr<Engine> engineWith(EngineOptions options) {
  options.loader = std::make_shared<FakeLoader>();
  auto engine = Engine::create(std::move(options));
  EXPECT_OK(engine);
  return *engine;
}

/// y = x + 1.
Bench addOne(std::shared_ptr<Engine> engine = nullptr) {
  return Bench(
      SignatureBuilder().dim("N").input("x", F32, {"N"}).output("y", F32, {"N"}),
      [](const Binding &) { return reply(addOnePlan()); }, 64, nullptr, std::move(engine));
}

/// y = x + p, of 16-bit floats too; twice = y + y goes over the arena where only it is asked for; p [N].
Bench addParamTwice(ElementType type) {
  return Bench(SignatureBuilder()
                   .dim("N")
                   .input("x", type, {"N"})
                   .param("p", type, {"N"})
                   .output("y", type, {"N"})
                   .output("twice", type, {"N"}),
               [=](const Binding &) {
                 PlanBuilder p;
                 uint32_t N = p.symbol(0);
                 uint32_t x = p.buffer(BufferKind::Input, type, N, 0), param = p.buffer(BufferKind::Param, type, N, 0);
                 uint32_t y = p.buffer(BufferKind::Output, type, N, 0),
                          twice = p.buffer(BufferKind::Output, type, N, 1);
                 binary(p, "add", Opcode::Add, N, x, param, y).needed = {3};
                 binary(p, "double", Opcode::Add, N, y, y, twice).needed = {2};
                 p.output(y, {N});
                 p.output(twice, {N});
                 return reply(p.take());
               });
}

/// `count` inputs x0, x1, ...; y is the first and the last of them together.
Bench manyInputs(size_t count) {
  SignatureBuilder signature;
  signature.dim("N").output("y", F32, {"N"});
  for (size_t i = 0; i != count; ++i)
    signature.input("x" + std::to_string(i), F32, {"N"});
  return Bench(std::move(signature), [count](const Binding &) {
    PlanBuilder p;
    uint32_t N = p.symbol(0);
    uint32_t first = p.buffer(BufferKind::Input, F32, N, 0);
    uint32_t last = p.buffer(BufferKind::Input, F32, N, static_cast<uint32_t>(count - 1));
    uint32_t y = p.buffer(BufferKind::Output, F32, N, 0);
    binary(p, "add", Opcode::Add, N, first, last, y);
    p.output(y, {N});
    return reply(p.take());
  });
}
} // namespace

//===----------------------------------------------------------------------===//
// A hit
//===----------------------------------------------------------------------===//

TEST(Run, AllocationsAreCounted) {
  void *volatile memory = nullptr; // so that nothing is optimised away
  EXPECT_EQ(allocationsOf([&] { memory = ::operator new(100); }), 1u);
  ::operator delete(memory);
  EXPECT_EQ(allocationsOf([&] { memory = std::aligned_alloc(64, 64); }), countsAligned() ? 1u : 0u);
  std::free(memory);
}

TEST(Run, HitAllocatesNothing) {
  Bench bench = addOne();
  Values x(16), y(17);
  for (int64_t size = 1; size <= 16; ++size) { // all of them are warm
    Shape shape = {size};
    x.resize(static_cast<size_t>(size), 1);
    NamedTensor inputs[] = {input("x", F32, shape, x)};
    OutputBuffer outputs[] = {{"y", F32, y.data(), x.size() * 4}};
    for (int i = 0; i != 2; ++i)
      ASSERT_OK(bench.executable->runInto(inputs, outputs));
  }
  size_t failures = 0;
  EXPECT_EQ(allocationsOf([&] {
              for (int64_t size : {1, 7, 16, 7, 2}) {
                Shape::value_type shape[] = {size};
                size_t bytes = static_cast<size_t>(size) * 4;
                NamedTensor inputs[] = {{"x", TensorView{F32, shape, x.data(), bytes}}};
                OutputBuffer outputs[] = {{"y", F32, y.data(), bytes}};
                failures += !bench.executable->runInto(inputs, outputs);
                // At an odd address: through copies, in the same memory.
                outputs[0].data = reinterpret_cast<std::byte *>(y.data()) + 1;
                failures += !bench.executable->runInto(inputs, outputs);
                // Nothing asked for.
                failures += !bench.executable->runInto(inputs, {});
              }
            }),
            0u);
  EXPECT_EQ(failures, 0u);
}

TEST(Run, GivenSizesAllocateNothing) {
  Bench bench = addOne();
  Values x = {1, 2, 3}, y(3);
  NamedTensor inputs[] = {{"x", TensorView::flat(F32, x.data(), 12)}};
  OutputBuffer outputs[] = {{"y", F32, y.data(), 12}};
  RunOptions options;
  options.binding["N"] = 3;
  ASSERT_OK(bench.executable->runInto(inputs, outputs, options));
  EXPECT_EQ(allocationsOf([&] { EXPECT_TRUE(bool(bench.executable->runInto(inputs, outputs, options))); }), 0u);
  EXPECT_EQ(y, (Values{2, 3, 4}));
}

TEST(Run, ParamsAndPartsAllocateNothing) {
  for (ElementType type : {F32, ElementType::F16}) {
    Bench bench = addParamTwice(type);
    Values p = {1, 2, 3}, x = {10, 20, 30}, y(3), twice(3);
    Shape shape = {3};
    ASSERT_OK(bench.executable->setParam("p", p));
    NamedTensor inputs[] = {input("x", F32, shape, x)};
    OutputBuffer both[] = {{"twice", F32, twice.data(), 12}, {"y", F32, y.data(), 12}};
    std::span<OutputBuffer> runs[] = {both, std::span(both, 1), std::span(both).subspan(1)};
    for (std::span<OutputBuffer> outputs : runs)
      ASSERT_OK(bench.executable->runInto(inputs, outputs));
    for (std::span<OutputBuffer> outputs : runs) {
      y.assign(3, 0);
      twice.assign(3, 0);
      EXPECT_EQ(allocationsOf([&] { EXPECT_TRUE(bool(bench.executable->runInto(inputs, outputs))); }), 0u);
      EXPECT_EQ(twice, outputs.data() == both ? (Values{22, 44, 66}) : Values(3));
      EXPECT_EQ(y, outputs.size() == 1 && outputs.data() == both ? Values(3) : (Values{11, 22, 33}));
    }
    // The latest value, without a copy of the others.
    p = {5, 5, 5};
    ASSERT_OK(bench.executable->setParam("p", p));
    ASSERT_OK(bench.executable->runInto(inputs, both));
    EXPECT_EQ(y, (Values{15, 25, 35}));
    EXPECT_EQ(allocationsOf([&] { EXPECT_TRUE(bool(bench.executable->runInto(inputs, both))); }), 0u);
  }
}

TEST(Run, ContextsAllocateNothing) {
  Bench bench = addOne();
  auto context = bench.executable->createContext();
  Values x = {1, 2, 3};
  Shape shape = {3};
  NamedTensor inputs[] = {input("x", F32, shape, x)};
  size_t outputs[] = {0, 0};
  for (int i = 0; i != 2; ++i) {
    ASSERT_OK(context->run(inputs));
    ASSERT_OK(context->runReadOutputs(inputs, outputs));
  }
  EXPECT_EQ(allocationsOf([&] { EXPECT_TRUE(bool(context->run(inputs))); }), 0u);
  EXPECT_EQ(allocationsOf([&] { EXPECT_TRUE(bool(context->runReadOutputs(inputs, outputs))); }), 0u);
}

/// Steps that threads share: the crew and its offers of help are those of the run before.
TEST(Run, SharedHitsAllocateNothing) {
  EngineOptions options;
  options.threads = 2;
  Bench bench = addOne(engineWith(std::move(options)));
  constexpr size_t kSize = size_t(1) << 20;
  Values x(kSize, 1), y(kSize);
  Shape shape = {kSize};
  NamedTensor inputs[] = {input("x", F32, shape, x)};
  OutputBuffer outputs[] = {{"y", F32, y.data(), kSize * 4}};
  unsigned most = 1;
  for (int i = 0; i != 2000 && most < 2; ++i) {
    std::vector<StepTime> profile;
    RunOptions profiled;
    profiled.profile = &profile;
    ASSERT_OK(bench.executable->runInto(inputs, outputs, profiled));
    ASSERT_EQ(profile.size(), 1u);
    most = profile[0].threads;
  }
  EXPECT_EQ(most, 2u);
  size_t before = allocationsOfAll(), failures = 0;
  for (int i = 0; i != 50; ++i) {
    y[kSize - 1] = 0;
    failures += !bench.executable->runInto(inputs, outputs) || y[kSize - 1] != 2;
  }
  EXPECT_EQ(allocationsOfAll() - before, 0u);
  EXPECT_EQ(failures, 0u);
}

/// The same in buckets: the copies lie in the run's memory, and sizes are worked out on the stack.
TEST(Run, BucketHitsAllocateNothing) {
  for (ElementType type : {F32, ElementType::F16}) {
    SignatureBuilder signature;
    signature.dim("B").dim("N").input("x", type, {"B", "N"}).output("y", type, {"B", "N"});
    for (auto &dim : signature.signature.dims)
      dim->paddable = true;
    Bench bench(std::move(signature), [=](const Binding &) {
      PlanBuilder p;
      uint32_t B = p.symbol(0), N = p.symbol(1), all = p.mul(B, N);
      uint32_t x = p.buffer(BufferKind::Input, type, all, 0), y = p.buffer(BufferKind::Output, type, all, 0);
      binary(p, "double", Opcode::Add, all, x, x, y);
      p.output(y, {B, N});
      return reply(p.take());
    });
    ExecutableOptions options;
    for (const char *dim : {"B", "N"}) {
      options.hints.push_back({});
      options.hints.back().dim = dim;
      options.hints.back().buckets = {{1, 9}};
    }
    auto executable = Executable::create(bench.engine, bench.model, options);
    ASSERT_OK(executable);
    auto context = (*executable)->createContext();
    // As f32 also where the model's are f16.
    Values x(64), y(65), wanted(64);
    for (size_t i = 0; i != x.size(); ++i) {
      x[i] = static_cast<float>(i + 1);
      wanted[i] = 2 * x[i];
    }
    for (Shape shape : {Shape{2, 3}, Shape{8, 5}, Shape{3, 8}, Shape{8, 8}, Shape{1, 1}}) {
      auto count = static_cast<size_t>(shape[0] * shape[1]);
      RunOptions sizes;
      sizes.binding["B"] = shape[0];
      for (bool flat : {false, true}) {
        TensorView view =
            flat ? TensorView::flat(F32, x.data(), 4 * count) : TensorView{F32, shape, x.data(), 4 * count};
        sizes.binding["N"] = shape[1];
        NamedTensor inputs[] = {{"x", view}};
        OutputBuffer outputs[] = {{"y", F32, y.data(), 4 * count}};
        for (bool warm : {false, true}) {
          std::fill(y.begin(), y.end(), -1.0f);
          Result<std::span<const RawOutput>> raw = std::span<const RawOutput>();
          size_t made = allocationsOf([&] {
            EXPECT_TRUE(bool((*executable)->runInto(inputs, outputs, sizes)));
            EXPECT_TRUE(bool((*executable)->runInto(inputs, {}, sizes)));
            raw = context->run(inputs, sizes);
          });
          EXPECT_TRUE(made == 0 || !warm) << made;
          EXPECT_TRUE(std::equal(wanted.begin(), wanted.begin() + static_cast<ptrdiff_t>(count), y.begin()));
          EXPECT_EQ(y[count], -1); // nothing behind it
          ASSERT_OK(raw);
          const RawOutput &output = (*raw)[0];
          EXPECT_EQ(Shape(output.shape.begin(), output.shape.end()), shape);
          ASSERT_EQ(output.bytes, count * elementSize(type));
          if (type == F32)
            EXPECT_EQ(std::memcmp(output.data, wanted.data(), output.bytes), 0);
        }
        // At an odd address.
        outputs[0].data = reinterpret_cast<std::byte *>(y.data()) + 1;
        EXPECT_EQ(allocationsOf([&] { EXPECT_TRUE(bool((*executable)->runInto(inputs, outputs, sizes))); }), 0u);
        EXPECT_EQ(std::memcmp(outputs[0].data, wanted.data(), 4 * count), 0);
        // What the caller has is still checked.
        outputs[0].bytes -= 4;
        EXPECT_ERROR((*executable)->runInto(inputs, outputs, sizes), kBad, "output 'y'");
        inputs[0].tensor.bytes -= 4;
        EXPECT_ERROR((*executable)->runInto(inputs, {}, sizes), kBad, "input 'x'");
      }
    }
    ASSERT_EQ((*executable)->bindings().size(), 1u);
    EXPECT_EQ((*executable)->bindings()[0].binding, (Binding{{"B", 8}, {"N", 8}}));
  }
}

/// The model does not take 8 rows of 5: such runs are at their own sizes, and no slower for it.
TEST(Run, issue_HitsBesideABrokenBucketAllocateNothing) {
  SignatureBuilder signature;
  signature.dim("B").dim("N").input("x", F32, {"B", "N"}).output("y", F32, {"B", "N"});
  signature.signature.dims[0]->paddable = true;
  auto bound = std::make_unique<data::ConstraintT>();
  bound->predicate = std::make_unique<data::PredicateT>();
  bound->predicate->kind = data::PredicateKind::LessEqual;
  bound->predicate->lhs = "B";
  bound->predicate->rhs = "N";
  bound->message = "more rows than columns";
  signature.signature.constraints.push_back(std::move(bound));
  Bench bench(std::move(signature), [=](const Binding &) {
    PlanBuilder p;
    uint32_t B = p.symbol(0), N = p.symbol(1), all = p.mul(B, N);
    uint32_t x = p.buffer(BufferKind::Input, F32, all, 0), y = p.buffer(BufferKind::Output, F32, all, 0);
    binary(p, "double", Opcode::Add, all, x, x, y);
    p.output(y, {B, N});
    return reply(p.take());
  });
  ExecutableOptions options;
  options.hints.push_back({});
  options.hints.back().dim = "B";
  options.hints.back().buckets = {{1, 9}};
  auto executable = Executable::create(bench.engine, bench.model, options);
  ASSERT_OK(executable);
  Values x(72), y(72);
  for (size_t i = 0; i != x.size(); ++i)
    x[i] = static_cast<float>(i + 1);
  for (Shape shape : {Shape{3, 5}, Shape{3, 9}, Shape{5, 5}, Shape{3, 5}, Shape{8, 9}}) {
    auto count = static_cast<size_t>(shape[0] * shape[1]);
    NamedTensor inputs[] = {{"x", TensorView{F32, shape, x.data(), 4 * count}}};
    OutputBuffer outputs[] = {{"y", F32, y.data(), 4 * count}};
    for (bool warm : {false, true}) {
      std::fill(y.begin(), y.end(), -1.0f);
      size_t made = allocationsOf([&] { EXPECT_TRUE(bool((*executable)->runInto(inputs, outputs))); });
      EXPECT_TRUE(made == 0 || !warm) << made;
      for (size_t i = 0; i != y.size(); ++i)
        ASSERT_EQ(y[i], i < count ? 2 * x[i] : -1) << i;
    }
    EXPECT_EQ((*executable)->bindings()[0].binding, (Binding{{"B", shape[1] == 9 ? 8 : shape[0]}, {"N", shape[1]}}));
  }
  EXPECT_EQ((*executable)->bindings().size(), 3u);
}

TEST(Run, HundredsOfInputs) {
  for (size_t count : {2, 65, 300, 600}) {
    Bench bench = manyInputs(count);
    Values first = {1, 2}, last = {10, 20}, y(2), other(2);
    Shape shape = {2};
    std::vector<std::string> names;
    for (size_t i = 0; i != count; ++i)
      names.push_back("x" + std::to_string(i));
    std::vector<NamedTensor> inputs;
    for (size_t i = 0; i != count; ++i)
      inputs.push_back(input(names[i], F32, shape, i == 0 ? first : i + 1 == count ? last : other));
    OutputBuffer outputs[] = {{"y", F32, y.data(), 8}};
    for (int i = 0; i != 2; ++i) {
      ASSERT_OK(bench.executable->runInto(inputs, outputs));
      EXPECT_EQ(y, (Values{11, 22}));
      size_t made = allocationsOf([&] { EXPECT_TRUE(bool(bench.executable->runInto(inputs, outputs))); });
      EXPECT_TRUE(made == 0 || count > 512) << made;
      std::reverse(inputs.begin(), inputs.end()); // now the names are looked up
      y = {0, 0};
    }
    std::swap(inputs[0].name, inputs[1].name);
    EXPECT_OK(bench.executable->runInto(inputs, outputs));
    inputs[1].name = inputs[0].name;
    EXPECT_ERROR(bench.executable->runInto(inputs, outputs), kBad, "given twice");
    inputs[1].name = "x";
    EXPECT_ERROR(bench.executable->runInto(inputs, outputs), kBad, "no input is named 'x'");
    inputs.pop_back();
    EXPECT_ERROR(bench.executable->runInto(inputs, outputs), kBad, "");
  }
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

TEST(Run, MemoryOfACallersAllocator) {
  auto allocator = std::make_shared<CountingAllocator>();
  std::vector<Tensor> kept;
  {
    EngineOptions options;
    options.allocator = allocator;
    Bench bench = addOne(engineWith(std::move(options)));
    Values x(100, 1);
    Shape shape = {100};
    NamedTensor inputs[] = {input("x", F32, shape, x)};
    auto y = bench.executable->run(inputs);
    ASSERT_OK(y);
    kept = std::move(*y);
    Statistics stats = bench.executable->stats();
    EXPECT_EQ(stats.arenaBytesIdle + stats.arenaBytesInUse + kept[0].bytes(), allocator->bytes);
    EXPECT_GT(stats.arenaBytesIdle, 0u);
    bench.engine->trim();
    EXPECT_EQ(bench.executable->stats().arenaBytesIdle, 0u);
    EXPECT_EQ(allocator->bytes, 400u);
    // No memory is an error, and the next run goes on.
    allocator->limit = 400;
    EXPECT_ERROR(bench.executable->run(inputs), ErrorCode::OutOfRange, "output 'y'");
    Values into(100);
    OutputBuffer output[] = {{"y", F32, into.data(), 400}};
    EXPECT_ERROR(bench.executable->runInto(inputs, output), ErrorCode::OutOfRange, "no memory");
    auto context = bench.executable->createContext();
    EXPECT_ERROR(context->run(inputs), ErrorCode::OutOfRange, "no memory");
    allocator->limit = SIZE_MAX;
    EXPECT_OK(bench.executable->runInto(inputs, output));
    EXPECT_OK(context->run(inputs));
  }
  // The tensor outlives the engine, and has what frees it.
  EXPECT_EQ(allocator->bytes, 400u);
  EXPECT_EQ(valuesOf<float>(kept[0]), Values(100, 2));
  Tensor moved = std::move(kept[0]);
  kept.clear();
  moved = Tensor();
  EXPECT_EQ(allocator->bytes, 0u);
}

TEST(Run, IdleMemoryGoes) {
  auto allocator = std::make_shared<CountingAllocator>();
  EngineOptions options;
  options.allocator = allocator;
  options.idleTime = std::chrono::milliseconds(0);
  Bench bench = addOne(engineWith(std::move(options)));
  Values x = {1}, y(1);
  Shape shape = {1};
  NamedTensor inputs[] = {input("x", F32, shape, x)};
  OutputBuffer output[] = {{"y", F32, y.data(), 4}};
  for (int i = 0; i != 3; ++i) {
    ASSERT_OK(bench.executable->runInto(inputs, output));
    EXPECT_EQ(allocator->bytes, 0u);
  }
}

TEST(RunContext, OutputsLieInItsMemory) {
  Bench bench = addOne();
  auto context = bench.executable->createContext();
  const void *before = nullptr;
  for (int64_t size : {3, 3, 2, 0, 5000, 5000, 1}) {
    Values x(static_cast<size_t>(size), 4);
    Shape shape = {size};
    NamedTensor inputs[] = {input("x", F32, shape, x)};
    auto outputs = context->run(inputs);
    ASSERT_OK(outputs);
    ASSERT_EQ(outputs->size(), 1u);
    const RawOutput &y = (*outputs)[0];
    EXPECT_EQ(Shape(y.shape.begin(), y.shape.end()), shape);
    EXPECT_EQ(y.bytes, x.size() * 4);
    EXPECT_EQ(y.type, F32);
    ASSERT_NE(y.data, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(y.data) % 64, 0u);
    auto *values = static_cast<const float *>(y.data);
    EXPECT_TRUE(std::all_of(values, values + size, [](float value) { return value == 5; }));
    EXPECT_TRUE(!before || size > 3 || y.data == before); // used again
    before = size > 3 ? nullptr : y.data;
    // A run of the executable does not touch it.
    ASSERT_OK(bench.executable->run(inputs));
    EXPECT_TRUE(std::all_of(values, values + size, [](float value) { return value == 5; }));
  }
}

TEST(RunContext, PartsAndRepeats) {
  Bench bench = addParamTwice(F32);
  Values p = {1, 2}, x = {10, 20};
  Shape shape = {2};
  auto context = bench.executable->createContext();
  NamedTensor inputs[] = {input("x", F32, shape, x)};
  EXPECT_ERROR(context->run(inputs), kBad, "'p'");
  ASSERT_OK(bench.executable->setParam("p", p));
  size_t order[] = {1, 0, 1}, only[] = {1}, none[] = {2};
  auto read = [](const RawOutput &raw) {
    auto *values = static_cast<const float *>(raw.data);
    return Values(values, values + raw.bytes / 4);
  };
  auto outputs = context->runReadOutputs(inputs, order);
  ASSERT_OK(outputs);
  ASSERT_EQ(outputs->size(), 3u);
  EXPECT_EQ(read((*outputs)[0]), (Values{22, 44}));
  EXPECT_EQ(read((*outputs)[1]), (Values{11, 22}));
  EXPECT_EQ(read((*outputs)[2]), (Values{22, 44}));
  EXPECT_EQ((*outputs)[2].shape[0], 2);
  outputs = context->runReadOutputs(inputs, only);
  ASSERT_OK(outputs);
  EXPECT_EQ(read((*outputs)[0]), (Values{22, 44}));
  EXPECT_ERROR(context->runReadOutputs(inputs, none), kBad, "output 2 does not exist: there are 2");
  outputs = context->runReadOutputs(inputs, {});
  ASSERT_OK(outputs);
  EXPECT_TRUE(outputs->empty());
}

TEST(RunContext, OwnMemoryIsNoInput) {
  Bench bench = addOne();
  auto context = bench.executable->createContext(), second = bench.executable->createContext();
  Values x = {1, 2, 3};
  Shape shape = {3};
  NamedTensor inputs[] = {input("x", F32, shape, x)};
  auto y = context->run(inputs);
  ASSERT_OK(y);
  NamedTensor again[] = {{"x", TensorView{F32, shape, (*y)[0].data, 12}}};
  EXPECT_ERROR(context->run(again), kBad, "input 'x' lies in the memory of the run context");
  // Another context's is as good as any.
  auto z = second->run(again);
  ASSERT_OK(z);
  EXPECT_EQ(static_cast<const float *>((*z)[0].data)[2], 5);
}

TEST(RunContext, OneRunAtATime) {
  // The second run comes while the first one compiles.
  std::unique_ptr<RunContext> context;
  Values x = {1};
  Shape shape = {1};
  NamedTensor inputs[] = {input("x", F32, shape, x)};
  std::string message;
  Bench bench(SignatureBuilder().dim("N").input("x", F32, {"N"}).output("y", F32, {"N"}), [&](const Binding &) {
    std::thread([&] {
      auto second = context->run(inputs);
      message = second ? "no error" : second.error().message;
      context->trim(); // does nothing
    }).join();
    return reply(addOnePlan());
  });
  context = bench.executable->createContext();
  auto y = context->run(inputs);
  ASSERT_OK(y);
  EXPECT_EQ(static_cast<const float *>((*y)[0].data)[0], 2);
  EXPECT_EQ(message, "a run context is used by two runs at once");
  EXPECT_OK(context->run(inputs));
}

TEST(RunContext, TrimsAndOutlives) {
  auto allocator = std::make_shared<CountingAllocator>();
  std::unique_ptr<RunContext> context;
  Values x(1000, 1);
  Shape shape = {1000};
  NamedTensor inputs[] = {input("x", F32, shape, x)};
  {
    EngineOptions options;
    options.allocator = allocator;
    Bench bench = addOne(engineWith(std::move(options)));
    context = bench.executable->createContext();
    ASSERT_OK(context->run(inputs));
    bench.engine->trim();
    EXPECT_GE(allocator->bytes, 4000u); // what is held is not idle
    EXPECT_EQ(bench.executable->stats().arenaBytesInUse, allocator->bytes);
    context->trim();
    bench.engine->trim();
    EXPECT_EQ(allocator->bytes, 0u);
  }
  auto y = context->run(inputs);
  ASSERT_OK(y);
  EXPECT_EQ(static_cast<const float *>((*y)[0].data)[999], 2);
  context.reset();
  EXPECT_EQ(allocator->bytes, 0u);
}

TEST(RunContext, ManyThreads) {
  Bench bench = addOne();
  std::vector<std::thread> threads;
  for (int number = 0; number != 4; ++number)
    threads.emplace_back([&, number] {
      auto context = bench.executable->createContext();
      for (int64_t i = 0; i != 200; ++i) {
        Values x(static_cast<size_t>(i % 7 + 1), static_cast<float>(number));
        Shape shape = {static_cast<int64_t>(x.size())};
        NamedTensor inputs[] = {input("x", F32, shape, x)};
        auto y = context->run(inputs);
        ASSERT_OK(y);
        auto *values = static_cast<const float *>((*y)[0].data);
        for (size_t k = 0; k != x.size(); ++k)
          ASSERT_EQ(values[k], static_cast<float>(number + 1));
      }
    });
  for (std::thread &thread : threads)
    thread.join();
}

//===----------------------------------------------------------------------===//
// What callers may pass
//===----------------------------------------------------------------------===//

TEST(Run, BadArguments) {
  Bench bench = addOne();
  Values x = {1, 2, 3}, y(3);
  Shape shape = {3};
  auto type = [](int number) { return static_cast<ElementType>(number); };
  auto into = [&](NamedTensor given, OutputBuffer output) {
    NamedTensor inputs[] = {given};
    OutputBuffer outputs[] = {output};
    return bench.executable->runInto(inputs, outputs);
  };
  NamedTensor good = input("x", F32, shape, x);
  OutputBuffer buffer{"y", F32, y.data(), 12};
  ASSERT_OK(into(good, buffer));
  auto with = [](auto value, auto change) {
    change(value);
    return value;
  };
  auto bad = [&](auto change) { return into(with(good, change), buffer); };
  auto badBuffer = [&](auto change) { return into(good, with(buffer, change)); };
  EXPECT_ERROR(bad([](NamedTensor &t) { t.name = {}; }), kBad, "no input is named ''");
  EXPECT_ERROR(bad([&](NamedTensor &t) { t.tensor.type = type(100); }), kBad, "input 'x' is unknown, must be f32");
  EXPECT_ERROR(bad([&](NamedTensor &t) { t.tensor.type = type(-1); }), kBad, "input 'x' is unknown, must be f32");
  EXPECT_ERROR(bad([&](NamedTensor &t) { t.tensor.type = type(100), t.tensor.isFlat = true; }), kBad, "unknown");
  EXPECT_ERROR(bad([](NamedTensor &t) { t.tensor.data = nullptr; }), kBad, "input 'x' has no data");
  EXPECT_ERROR(
      bad([](NamedTensor &t) { t.tensor.shape = std::span<const int64_t>(static_cast<int64_t *>(nullptr), 1); }), kBad,
      "input 'x' has no shape");
  EXPECT_FALSE(bad([](NamedTensor &t) { t.tensor.bytes = SIZE_MAX; }));
  EXPECT_FALSE(bad([](NamedTensor &t) { t.tensor.bytes = SIZE_MAX - 3, t.tensor.isFlat = true; }));
  EXPECT_FALSE(bad([](NamedTensor &t) { t.tensor.bytes = 0; }));
  Shape negative = {-3}, huge = {INT64_MAX}, deep(100, 1);
  EXPECT_ERROR(bad([&](NamedTensor &t) { t.tensor.shape = negative; }), ErrorCode::OutOfRange, "axis 0 is -3");
  EXPECT_FALSE(bad([&](NamedTensor &t) { t.tensor.shape = huge; }));
  EXPECT_ERROR(bad([&](NamedTensor &t) { t.tensor.shape = deep; }), kBad, "rank 100");
  EXPECT_ERROR(bad([&](NamedTensor &t) { t.tensor.shape = {}; }), kBad, "rank 0");

  EXPECT_ERROR(badBuffer([](OutputBuffer &o) { o.name = {}; }), kBad, "no output ''");
  EXPECT_ERROR(badBuffer([&](OutputBuffer &o) { o.type = type(100); }), kBad, "its buffer is unknown");
  EXPECT_ERROR(badBuffer([](OutputBuffer &o) { o.data = nullptr; }), kBad, "no buffer");
  EXPECT_FALSE(badBuffer([](OutputBuffer &o) { o.bytes = SIZE_MAX; }));
  EXPECT_FALSE(badBuffer([](OutputBuffer &o) { o.bytes = 11; }));
  EXPECT_FALSE(badBuffer([](OutputBuffer &o) { o.bytes = 0; }));
  EXPECT_ERROR(badBuffer([&](OutputBuffer &o) { o.data = x.data() + 2; }), kBad, "overlaps input 'x'");
  EXPECT_ERROR(badBuffer([&](OutputBuffer &o) { o.data = reinterpret_cast<std::byte *>(x.data()) - 11; }), kBad,
               "overlaps input 'x'");
  size_t out[] = {SIZE_MAX};
  NamedTensor inputs[] = {good};
  EXPECT_ERROR(bench.executable->runReadOutputs(inputs, out), kBad, "does not exist: there are 1");

  RunOptions options;
  options.binding["M"] = 3;
  OutputBuffer outputs[] = {buffer};
  EXPECT_ERROR(bench.executable->runInto(inputs, outputs, options), kBad, "no dim is named 'M'");
  options.binding = {{"N", INT64_MIN}};
  EXPECT_FALSE(bench.executable->runInto(inputs, outputs, options));

  EXPECT_FALSE(bench.executable->setParam("", x));
  EXPECT_FALSE(bench.executable->prepare({{"N", INT64_MAX}}));
  // Neither of them has broken anything, and none was compiled but the good one.
  EXPECT_OK(into(good, buffer));
  EXPECT_EQ(bench.compiler->specialized, 1);
}

TEST(Run, BadParams) {
  Bench bench = addParamTwice(ElementType::F16);
  auto bytes = [](const void *data, size_t size) { return std::span(static_cast<const std::byte *>(data), size); };
  float values[] = {1, 2, 3};
  EXPECT_ERROR(bench.executable->setParamTyped("p", bytes(nullptr, 6), ElementType::F16), kBad, "no data");
  EXPECT_ERROR(bench.executable->setParamTyped("p", bytes(values, 5), ElementType::F16), kBad, "multiple of 2");
  EXPECT_ERROR(bench.executable->setParamTyped("p", bytes(values, 12), static_cast<ElementType>(99)), kBad, "unknown");
  EXPECT_ERROR(bench.executable->setParamTyped("p", bytes(values, 12), ElementType::I32), kBad, "is f16");
  EXPECT_ERROR(bench.executable->setParam("q", values), kBad, "'q'");
  // From any address.
  std::vector<std::byte> odd(13);
  std::memcpy(odd.data() + 1, values, 12);
  ASSERT_OK(bench.executable->setParamTyped("p", std::span(odd).subspan(1), F32));
  Values x = {1, 1, 1}, y(3);
  Shape shape = {3};
  NamedTensor inputs[] = {input("x", F32, shape, x)};
  OutputBuffer outputs[] = {{"y", F32, y.data(), 12}};
  ASSERT_OK(bench.executable->runInto(inputs, outputs));
  EXPECT_EQ(y, (Values{2, 3, 4}));
  // Set while others run: each run sees one of the values.
  std::thread setter([&] {
    for (int i = 0; i != 300; ++i) {
      Values all(3, static_cast<float>(i));
      EXPECT_OK(bench.executable->setParam("p", all));
    }
  });
  for (int i = 0; i != 300; ++i) {
    ASSERT_OK(bench.executable->runInto(inputs, outputs));
    ASSERT_TRUE((y == Values{2, 3, 4}) || (y[0] == y[1] && y[1] == y[2])) << y[0] << y[1] << y[2];
  }
  setter.join();
}

TEST(Executable, NeedsEngineAndModel) {
  Bench bench = addOne();
  EXPECT_ERROR(Executable::create(nullptr, bench.model), kBad, "an engine");
  EXPECT_ERROR(Executable::create(bench.engine, nullptr), kBad, "a model");
}

//===----------------------------------------------------------------------===//
// Hints
//===----------------------------------------------------------------------===//

namespace {
Result<std::shared_ptr<Executable>> hinted(const Bench &bench, std::vector<DimHint> hints, bool likely = false) {
  ExecutableOptions options;
  options.hints = std::move(hints);
  options.prepareLikely = likely;
  return Executable::create(bench.engine, bench.model, std::move(options));
}

DimHint hint(std::string dim, int64_t min, int64_t max, int64_t multiple = 1, std::vector<int64_t> likely = {}) {
  DimHint made;
  made.dim = std::move(dim);
  made.min = min;
  made.max = max;
  made.multiple = multiple;
  made.likely = std::move(likely);
  return made;
}

Bench addOneOf(int64_t min, int64_t max, int64_t multiple) {
  return Bench(SignatureBuilder().dim("N", min, max, multiple).input("x", F32, {"N"}).output("y", F32, {"N"}),
               [](const Binding &) { return reply(addOnePlan()); });
}
} // namespace

TEST(Hints, TightenWhatAnExecutableTakes) {
  Bench bench = addOneOf(0, 100, 4);
  auto executable = hinted(bench, {hint("N", 5, 60, 6)});
  ASSERT_OK(executable);
  auto run = [](Executable &runs, size_t size) {
    Values x(size, 1);
    Shape shape = {static_cast<int64_t>(size)};
    NamedTensor inputs[] = {input("x", F32, shape, x)};
    return runs.run(inputs);
  };
  EXPECT_OK(run(**executable, 12));
  EXPECT_OK(run(**executable, 60));
  EXPECT_ERROR(run(**executable, 4), ErrorCode::OutOfRange, "dim 'N' is 4, less than its minimum 5");
  EXPECT_ERROR(run(**executable, 72), ErrorCode::OutOfRange, "more than its maximum 60");
  EXPECT_ERROR(run(**executable, 16), ErrorCode::OutOfRange, "not a multiple of 12");
  EXPECT_ERROR((*executable)->prepare({{"N", 16}}), ErrorCode::OutOfRange, "not a multiple of 12");
  EXPECT_ERROR(run(*(*executable)->clone(), 16), ErrorCode::OutOfRange, "not a multiple of 12");
  // The model is as it was.
  EXPECT_OK(run(*bench.executable, 16));
}

TEST(Hints, OnesThatCannotBe) {
  Bench bench = addOneOf(2, 100, 4);
  EXPECT_ERROR(hinted(bench, {hint("M", 0, 1)}), kBad, "hint of dim 'M'");
  EXPECT_ERROR(hinted(bench, {hint("", 0, 1)}), kBad, "hint of dim ''");
  EXPECT_ERROR(hinted(bench, {hint("N", 5, 4)}), kBad, "hint of dim 'N'");
  EXPECT_ERROR(hinted(bench, {hint("N", 101, 200)}), kBad, "hint of dim 'N'");
  EXPECT_ERROR(hinted(bench, {hint("N", 5, 7)}), kBad, "hint of dim 'N'"); // no multiple of 4
  EXPECT_ERROR(hinted(bench, {hint("N", -1, 7)}), kBad, "hint of dim 'N'");
  EXPECT_ERROR(hinted(bench, {hint("N", 0, 7, 0)}), kBad, "hint of dim 'N'");
  EXPECT_ERROR(hinted(bench, {hint("N", 0, 7, -4)}), kBad, "hint of dim 'N'");
  EXPECT_ERROR(hinted(bench, {hint("N", 0, INT64_MAX, INT64_MAX)}), kBad, "hint of dim 'N'");
  EXPECT_ERROR(hinted(bench, {hint("N", 0, 50, 1, {8, 9})}), kBad, "likely size 9");
  EXPECT_ERROR(hinted(bench, {hint("N", 0, 50), hint("N", 0, 60)}), kBad, "hint of dim 'N'");
  EXPECT_ERROR(hinted(bench, {hint("N", 0, 50)}, true), kBad, "dim 'N' has none");
  std::vector<int64_t> many;
  for (int64_t i = 1; i != 25; ++i)
    many.push_back(4 * i);
  ExecutableOptions options;
  options.cacheEntries = 5;
  options.prepareLikely = true;
  options.hints = {hint("N", 0, 100, 1, many)};
  EXPECT_ERROR(Executable::create(bench.engine, bench.model, options), kBad, "entries of the cache");
}

TEST(Hints, LikelySizesAreMadeAhead) {
  Bench bench = addOneOf(0, 100, 4);
  auto executable = hinted(bench, {hint("N", 0, 50, 1, {8, 4, 8})}, true);
  ASSERT_OK(executable);
  std::shared_ptr<Preparation> likely = (*executable)->likely();
  ASSERT_TRUE(likely);
  ASSERT_OK(likely->wait());
  EXPECT_EQ(likely->progress().total, 2u);
  EXPECT_EQ((*executable)->bindings().size(), 2u);
  Values x(8, 1);
  Shape shape = {8};
  NamedTensor inputs[] = {input("x", F32, shape, x)};
  RunOptions options;
  options.onMiss = OnMiss::FailFast;
  EXPECT_OK((*executable)->run(inputs, options));
  EXPECT_FALSE(bench.executable->likely());
}

TEST(Prepare, InTheBackground) {
  Bench bench = addOne();
  Binding bindings[] = {{{"N", 1}}, {{"N", 2}}, {{"N", 3}}};
  std::atomic<size_t> calls{0};
  auto preparation = bench.executable->prepareInBackground(bindings, [&](Preparation::Progress) { ++calls; });
  ASSERT_OK(preparation);
  ASSERT_OK((*preparation)->wait());
  EXPECT_EQ((*preparation)->progress().done, 3u);
  EXPECT_EQ(bench.executable->bindings().size(), 3u);
  Binding bad[] = {{{"N", 4}}, {{"M", 2}}};
  EXPECT_ERROR(bench.executable->prepareInBackground(bad), kBad, "'M'");
  EXPECT_ERROR(bench.executable->prepare(bad), kBad, "'M'");
  Binding negative[] = {{{"N", -4}}};
  EXPECT_FALSE(bench.executable->prepareInBackground(negative));
}
