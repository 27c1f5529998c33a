//===- ExecutableTest.cpp -------------------------------------------------===//
#include "Fakes.h"

#include <bit>
#include <cstring>
#include <future>
#include <thread>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

using namespace rlx;
using namespace rlx::fakes;
using data::BufferKind;
using data::Family;
using data::Opcode;
using data::PredicateKind;

namespace {
constexpr auto F32 = ElementType::F32;
using Values = std::vector<float>;
using Shape = std::vector<int64_t>;

SignatureBuilder vectorSignature(ElementType type = F32) {
  return SignatureBuilder().dim("N").input("x", type, {"N"}).output("y", type, {"N"});
}

/// y = x + 1.
std::unique_ptr<data::PlanTemplateT> addOnePlan() {
  PlanBuilder p;
  uint32_t N = p.symbol(0);
  uint32_t x = p.buffer(BufferKind::Input, F32, N, 0), y = p.buffer(BufferKind::Output, F32, N, 0);
  uint32_t one = p.constantBuffer<float>(F32, {1});
  binary(p, "add", Opcode::Add, N, x, one, y, true);
  p.output(y, {N});
  return p.take();
}

Bench addOne(size_t cacheEntries = 64) {
  return Bench(vectorSignature(), [](const Binding &) { return reply(addOnePlan()); }, cacheEntries);
}

Result<std::vector<Tensor>> runVector(Executable &executable, const Values &x, RunReport *report = nullptr) {
  Shape shape = {static_cast<int64_t>(x.size())};
  NamedTensor inputs[] = {input("x", F32, shape, x)};
  RunOptions options;
  options.report = report;
  return executable.run(inputs, options);
}

Values sequence(int64_t count) {
  Values values(static_cast<size_t>(count));
  for (int64_t i = 0; i != count; ++i)
    values[static_cast<size_t>(i)] = static_cast<float>(i);
  return values;
}
} // namespace

//===----------------------------------------------------------------------===//
// Right numbers
//===----------------------------------------------------------------------===//

TEST(Executable, PackedWeight) {
  // Case 24.
  auto weights = std::make_shared<WeightTable>();
  // At an odd address, as in a file: read plain, it would have to be copied.
  const float values[] = {1, 0, 0, 1, 1, 0, 0, 1};
  auto bytes = std::make_shared<std::vector<std::byte>>(1 + sizeof(values));
  std::memcpy(bytes->data() + 1, values, sizeof(values));
  ASSERT_TRUE(weights->add("w", {F32, {4, 2}, std::span(*bytes).subspan(1), bytes}));
  Bench bench(
      SignatureBuilder().dim("B").input("x", F32, {"B", "4"}).output("y", F32, {"B", "2"}),
      [](const Binding &) {
        PlanBuilder p;
        uint32_t B = p.symbol(0), K = p.constant(4), N = p.constant(2), one = p.constant(1), zero = p.constant(0);
        uint32_t x = p.buffer(BufferKind::Input, F32, p.mul(B, K), 0);
        uint32_t w = p.buffer(BufferKind::Weight, F32, p.constant(8));
        data::BufferT &packed = *p.plan->buffers[w];
        packed.name = "w";
        packed.layout = data::PackedLayout::Panels16;
        packed.k = 4;
        packed.n = 2;
        packed.k_stride = 2;
        packed.n_stride = 1;
        // Named, and read by no step.
        p.plan->buffers[p.buffer(BufferKind::Weight, F32, p.constant(8))]->name = "w";
        uint32_t y = p.buffer(BufferKind::Output, F32, p.mul(B, N), 0);
        data::StepT &step = p.step(Family::Matmul, "matmul", {B, N});
        step.inputs.push_back(p.access(x, {K, zero}));
        step.inputs.push_back(p.access(w, {zero, zero}));
        step.outputs.push_back(p.access(y, {N, one}));
        step.results = {0};
        step.k = K;
        step.a_k_stride = one;
        step.b_packed = true;
        p.output(y, {B, N});
        return reply(p.take());
      },
      64, weights);
  Values x = {1, 2, 3, 4};
  Shape shape = {1, 4};
  NamedTensor inputs[] = {input("x", F32, shape, x)};
  auto y = bench.executable->run(inputs);
  ASSERT_OK(y);
  EXPECT_EQ(valuesOf<float>((*y)[0]), (Values{4, 6}));
  EXPECT_EQ((*y)[0].shape(), (Shape{1, 2}));
  // Ten rows: another kernel class, the same template and the same packed copy.
  Values many = sequence(40);
  Shape tenByFour = {10, 4};
  NamedTensor more[] = {input("x", F32, tenByFour, many)};
  size_t packedBytes = weights->packedBytes();
  EXPECT_EQ(packedBytes, 4u * 16 * 4); // one panel, and no plain copy
  auto z = bench.executable->run(more);
  ASSERT_OK(z);
  EXPECT_EQ(valuesOf<float>((*z)[0])[18], 36 + 38); // row 9: x0 + x2
  EXPECT_EQ(valuesOf<float>((*z)[0])[19], 37 + 39);
  EXPECT_EQ(weights->packedBytes(), packedBytes);
  EXPECT_EQ(bench.compiler->specialized, 1);
}

TEST(Executable, ReportedShapesAreThisCalls) {
  // Case 31.
  Bench bench = addOne();
  for (int64_t n : {1, 2, 3, 4, 0}) {
    auto y = runVector(*bench.executable, sequence(n));
    ASSERT_OK(y);
    EXPECT_EQ((*y)[0].shape(), (Shape{n}));
    for (int64_t i = 0; i != n; ++i)
      EXPECT_EQ(valuesOf<float>((*y)[0])[static_cast<size_t>(i)], static_cast<float>(i + 1));
  }
}

TEST(Executable, EqualSizesDoNotMakeEqualNames) {
  // Case 30: an outer product.
  Bench bench(
      SignatureBuilder().dim("N").dim("M").input("x", F32, {"N"}).input("z", F32, {"M"}).output("y", F32, {"N", "M"}),
      [](const Binding &) {
        PlanBuilder p;
        uint32_t N = p.symbol(0), M = p.symbol(1), one = p.constant(1), zero = p.constant(0);
        uint32_t x = p.buffer(BufferKind::Input, F32, N, 0), z = p.buffer(BufferKind::Input, F32, M, 1);
        uint32_t y = p.buffer(BufferKind::Output, F32, p.mul(N, M), 0);
        data::StepT &step = p.step(Family::Loops, "outer", {N, M});
        step.inputs.push_back(p.access(x, {one, zero}));
        step.inputs.push_back(p.access(z, {zero, one}));
        step.outputs.push_back(p.access(y, {M, one}));
        step.program.push_back(instr(Opcode::Mul, F32, 0, 1));
        step.results = {2};
        p.output(y, {N, M});
        return reply(p.take());
      });
  for (int64_t m : {4, 7}) {
    Values x = sequence(4), z = sequence(m);
    Shape xs = {4}, zs = {m};
    NamedTensor inputs[] = {input("z", F32, zs, z), input("x", F32, xs, x)};
    auto y = bench.executable->run(inputs);
    ASSERT_OK(y);
    EXPECT_EQ((*y)[0].shape(), (Shape{4, m}));
    for (int64_t i = 0; i != 4; ++i)
      for (int64_t j = 0; j != m; ++j)
        EXPECT_EQ(valuesOf<float>((*y)[0])[static_cast<size_t>(i * m + j)], static_cast<float>(i * j));
  }
  EXPECT_EQ(bench.executable->stats().entries, 2u);
}

TEST(Executable, DenormalsAreKeptWhateverTheCallerSet) {
#if defined(__x86_64__)
  // Case 53.
  Bench bench(SignatureBuilder().input("x", F32, {"1"}).input("z", F32, {"1"}).output("y", F32, {"1"}),
              [](const Binding &) {
                PlanBuilder p;
                uint32_t one = p.constant(1);
                uint32_t x = p.buffer(BufferKind::Input, F32, one, 0), z = p.buffer(BufferKind::Input, F32, one, 1);
                uint32_t y = p.buffer(BufferKind::Output, F32, one, 0);
                binary(p, "mul", Opcode::Mul, one, x, z, y);
                p.output(y, {one});
                return reply(p.take());
              });
  Values x = {std::bit_cast<float>(0x000116C2u)}, z = {2};
  Shape shape = {1};
  NamedTensor inputs[] = {input("x", F32, shape, x), input("z", F32, shape, z)};
  unsigned before = _mm_getcsr();
  unsigned flushing = (before | 0x8040) & ~0x3Fu; // flush to zero, denormals are zero
  _mm_setcsr(flushing);
  auto y = bench.executable->run(inputs);
  unsigned after = _mm_getcsr();
  _mm_setcsr(before);
  ASSERT_OK(y);
  EXPECT_EQ(std::bit_cast<uint32_t>(valuesOf<float>((*y)[0])[0]), 0x00022D84u);
  EXPECT_EQ(after & ~0x3Fu, flushing);
#endif
}

TEST(Executable, OutputsMayBeInputsConstantsAndEachOther) {
  Bench bench(SignatureBuilder()
                  .dim("N")
                  .input("x", F32, {"N"})
                  .param("p", F32, {"2"})
                  .output("same", F32, {"N"})
                  .output("constant", F32, {"2"})
                  .output("param", F32, {"2"})
                  .output("sum", F32, {"N"})
                  .output("again", F32, {"N"})
                  .output("kept", F32, {"N"}),
              [](const Binding &) {
                PlanBuilder p;
                uint32_t N = p.symbol(0), two = p.constant(2);
                uint32_t x = p.buffer(BufferKind::Input, F32, N, 0);
                uint32_t c = p.constantBuffer<float>(F32, {5, 6});
                uint32_t param = p.buffer(BufferKind::Param, F32, two, 0);
                uint32_t sum = p.buffer(BufferKind::Output, F32, N, 3);
                uint32_t kept = p.arena(F32, N, 1, 1);
                binary(p, "double", Opcode::Add, N, x, x, sum);
                binary(p, "quadruple", Opcode::Add, N, sum, sum, kept);
                p.output(x, {N});
                p.output(c, {two});
                p.output(param, {two});
                p.output(sum, {N});
                p.output(sum, {N});
                p.output(kept, {N});
                return reply(p.take());
              });
  ASSERT_OK(bench.executable->setParam("p", Values{8, 9}));
  auto y = runVector(*bench.executable, {1, 2, 3});
  ASSERT_OK(y);
  const Values wanted[] = {{1, 2, 3}, {5, 6}, {8, 9}, {2, 4, 6}, {2, 4, 6}, {4, 8, 12}};
  for (size_t i = 0; i != 6; ++i) {
    EXPECT_EQ(valuesOf<float>((*y)[i]), wanted[i]);
    for (size_t j = 0; j != i; ++j)
      EXPECT_NE((*y)[i].data(), (*y)[j].data());
  }
  // Only the last: it needs the buffer of "sum", which nobody asked for.
  Values x = {1, 2, 3};
  Shape shape = {3};
  NamedTensor inputs[] = {input("x", F32, shape, x)};
  auto last = bench.executable->runReadOutputs(inputs, std::vector<size_t>{5});
  ASSERT_OK(last);
  EXPECT_EQ(valuesOf<float>((*last)[0]), wanted[5]);
  // "again" alone lies in a buffer that is another output's.
  auto again = bench.executable->runReadOutputs(inputs, std::vector<size_t>{4, 0, 4});
  ASSERT_OK(again);
  ASSERT_EQ(again->size(), 3u);
  EXPECT_EQ(valuesOf<float>((*again)[0]), wanted[4]);
  EXPECT_EQ(valuesOf<float>((*again)[1]), wanted[0]);
  EXPECT_EQ(valuesOf<float>((*again)[2]), wanted[4]);
  EXPECT_ERROR(bench.executable->runReadOutputs(inputs, std::vector<size_t>{6}), ErrorCode::InvalidArgument,
               "output 6 does not exist");
}

namespace {
/// q = a / b (step 0, for output 0), c = a (step 1, for output 1); all i32.
Bench divide() {
  constexpr auto I32 = ElementType::I32;
  return Bench(SignatureBuilder()
                   .dim("N")
                   .input("a", I32, {"2", "N"})
                   .input("b", I32, {"2", "N"})
                   .output("q", I32, {"2", "N"})
                   .output("c", F32, {"1"}),
               [](const Binding &) {
                 PlanBuilder p;
                 uint32_t N = p.symbol(0), two = p.constant(2), one = p.constant(1), size = p.mul(two, N);
                 uint32_t a = p.buffer(BufferKind::Input, I32, size, 0), b = p.buffer(BufferKind::Input, I32, size, 1);
                 uint32_t q = p.buffer(BufferKind::Output, I32, size, 0);
                 uint32_t c = p.buffer(BufferKind::Output, F32, one, 1);
                 data::StepT &step = p.step(Family::Loops, "ratio", {two, N});
                 step.inputs.push_back(p.access(a, {N, one}));
                 step.inputs.push_back(p.access(b, {N, one}));
                 step.outputs.push_back(p.access(q, {N, one}));
                 step.program.push_back(instr(Opcode::Div, I32, 0, 1));
                 step.results = {2};
                 step.needed = {1};
                 uint32_t seven = p.constantBuffer<float>(F32, {7});
                 unary(p, "copy", one, seven, c).needed = {2};
                 p.output(q, {two, N});
                 p.output(c, {one});
                 return reply(p.take());
               });
}
} // namespace

TEST(Executable, DataErrorsNameNodeAndElement) {
  Bench bench = divide();
  std::vector<int32_t> a = {8, -8, 7, -7, 1, 2}, b = {-3, 3, -2, 2, 0, 1};
  Shape shape = {2, 3};
  NamedTensor inputs[] = {input("a", ElementType::I32, shape, a), input("b", ElementType::I32, shape, b)};
  EXPECT_ERROR(bench.executable->run(inputs), ErrorCode::RunFailed, "node 'ratio': division by zero at element [1,1]");
  // The same run without the output that needs the division.
  auto copy = bench.executable->runReadOutputs(inputs, std::vector<size_t>{1});
  ASSERT_OK(copy);
  EXPECT_EQ(valuesOf<float>((*copy)[0]), Values{7});
  auto none = bench.executable->runReadOutputs(inputs, {});
  ASSERT_OK(none);
  EXPECT_TRUE(none->empty());
  // A failed run leaves nothing behind.
  b[4] = 1;
  auto fine = bench.executable->run(inputs);
  ASSERT_OK(fine);
  EXPECT_EQ(valuesOf<int32_t>((*fine)[0]), (std::vector<int32_t>{-2, -2, -3, -3, 1, 2}));
}

TEST(Executable, BytesOfI1AreNormalised) {
  Bench bench(vectorSignature(ElementType::I1), [](const Binding &) {
    PlanBuilder p;
    uint32_t N = p.symbol(0);
    uint32_t x = p.buffer(BufferKind::Input, ElementType::I1, N, 0);
    uint32_t y = p.buffer(BufferKind::Output, ElementType::I1, N, 0);
    unary(p, "copy", N, x, y);
    p.output(y, {N});
    return reply(p.take());
  });
  std::vector<uint8_t> x = {0, 1, 2, 255};
  Shape shape = {4};
  NamedTensor inputs[] = {input("x", ElementType::I1, shape, x)};
  auto y = bench.executable->run(inputs);
  ASSERT_OK(y);
  EXPECT_EQ(valuesOf<uint8_t>((*y)[0]), (std::vector<uint8_t>{0, 1, 1, 1}));
}

//===----------------------------------------------------------------------===//
// Inputs and bindings
//===----------------------------------------------------------------------===//

TEST(Executable, FlatInputsAreSolved) {
  // Cases 8 and 9: x[B,S,4] with 24 elements and m[B] with 2.
  Bench bench(SignatureBuilder()
                  .dim("B")
                  .dim("S")
                  .input("x", F32, {"B", "S", "4"})
                  .input("m", F32, {"B"})
                  .output("y", F32, {"B", "S", "4"}),
              [](const Binding &) {
                PlanBuilder p;
                uint32_t B = p.symbol(0), S = p.symbol(1), four = p.constant(4), one = p.constant(1),
                         zero = p.constant(0);
                uint32_t S4 = p.mul(S, four), all = p.mul(B, S4);
                uint32_t x = p.buffer(BufferKind::Input, F32, all, 0), m = p.buffer(BufferKind::Input, F32, B, 1);
                uint32_t y = p.buffer(BufferKind::Output, F32, all, 0);
                data::StepT &step = p.step(Family::Loops, "mul", {B, S, four});
                step.inputs.push_back(p.access(x, {S4, four, one}));
                step.inputs.push_back(p.access(m, {one, zero, zero}));
                step.outputs.push_back(p.access(y, {S4, four, one}));
                step.program.push_back(instr(Opcode::Mul, F32, 0, 1));
                step.results = {2};
                p.output(y, {B, S, four});
                return reply(p.take());
              });
  Values x = sequence(24), m = {1, 10};
  NamedTensor flatX{"x", TensorView::flat(F32, x.data(), 96)}, flatM{"m", TensorView::flat(F32, m.data(), 8)};
  for (bool swap : {false, true}) {
    std::vector<NamedTensor> inputs = swap ? std::vector{flatM, flatX} : std::vector{flatX, flatM};
    auto y = bench.executable->run(inputs);
    ASSERT_OK(y);
    EXPECT_EQ((*y)[0].shape(), (Shape{2, 3, 4}));
    EXPECT_EQ(valuesOf<float>((*y)[0])[11], 11);
    EXPECT_EQ(valuesOf<float>((*y)[0])[12], 120);
  }
  // Empty, S given.
  RunOptions options;
  options.binding = {{"S", 3}};
  NamedTensor empty[] = {{"x", TensorView::flat(F32, nullptr, 0)}, {"m", TensorView::flat(F32, nullptr, 0)}};
  auto y = bench.executable->run(empty, options);
  ASSERT_OK(y);
  EXPECT_EQ((*y)[0].shape(), (Shape{0, 3, 4}));
}

TEST(Executable, BadInputsAreNamed) {
  Bench bench = addOne();
  Values x = {1, 2, 3};
  Shape shape = {3}, wrong = {4}, matrix = {1, 3}, huge = {int64_t(1) << 62}, negative = {-3};
  NamedTensor good = input("x", F32, shape, x);
  auto run = [&](std::vector<NamedTensor> inputs) { return bench.executable->run(inputs); };
  auto bad = ErrorCode::InvalidArgument;
  auto refused = [&](std::vector<NamedTensor> inputs, std::string_view name) {
    auto y = run(std::move(inputs));
    ASSERT_FALSE(y);
    EXPECT_NE(y.error().message.find(name), std::string::npos) << y.error().message;
  };
  refused({}, "'x'");
  refused({good, good}, "'x'");
  refused({input("z", F32, shape, x)}, "'z'");
  refused({good, input("z", F32, shape, x)}, "'z'");
  refused({input("x", F32, wrong, x)}, "'x'");
  refused({input("x", F32, matrix, x)}, "'x'");
  refused({input("x", F32, huge, x)}, "'x'");
  refused({input("x", F32, negative, x)}, "'x'");
  refused({input("x", ElementType::F64, shape, x)}, "'x'");
  refused({input("x", ElementType::I32, shape, x)}, "'x'");
  refused({{"x", TensorView::flat(F32, x.data(), 11)}}, "'x'");
  EXPECT_ERROR(run({{"x", TensorView{F32, shape, nullptr, 12, false}}}), bad, "input 'x'");
  // Nothing was compiled for any of them but the one with good sizes and no data.
  EXPECT_LE(bench.compiler->specialized, 1);
  EXPECT_OK(run({good}));
}

TEST(Executable, MisalignedInputIsCopied) {
  Bench bench = addOne();
  std::vector<std::byte> bytes(13);
  Values x = {1, 2, 3};
  std::memcpy(bytes.data() + 1, x.data(), 12);
  Shape shape = {3};
  NamedTensor inputs[] = {{"x", TensorView{F32, shape, bytes.data() + 1, 12, false}}};
  auto y = bench.executable->run(inputs);
  ASSERT_OK(y);
  EXPECT_EQ(valuesOf<float>((*y)[0]), (Values{2, 3, 4}));
}

TEST(Executable, Prepare) {
  Bench bench = addOne();
  EXPECT_OK(bench.executable->prepare({{"N", 5}}));
  EXPECT_EQ(bench.executable->stats().misses, 1u);
  RunReport report;
  ASSERT_OK(runVector(*bench.executable, sequence(5), &report));
  EXPECT_EQ(report.origin, Origin::Hit);
  EXPECT_EQ(report.binding, (Binding{{"N", 5}}));
  EXPECT_FALSE(bench.executable->prepare(Binding()));
  EXPECT_FALSE(bench.executable->prepare({{"M", 5}}));
  EXPECT_FALSE(bench.executable->prepare({{"N", -1}}));
  EXPECT_FALSE(bench.executable->prepare({{"N", int64_t(1) << 62}}));
}

//===----------------------------------------------------------------------===//
// Caller's buffers
//===----------------------------------------------------------------------===//

TEST(Executable, RunInto) {
  Bench bench = addOne();
  Values x = {1, 2, 3}, y(3);
  Shape shape = {3};
  NamedTensor inputs[] = {input("x", F32, shape, x)};
  OutputBuffer output{"y", F32, y.data(), 12};
  auto into = [&](std::vector<OutputBuffer> outputs) { return bench.executable->runInto(inputs, outputs); };
  ASSERT_OK(into({output}));
  EXPECT_EQ(y, (Values{2, 3, 4}));
  EXPECT_OK(into({}));
  auto bad = ErrorCode::InvalidArgument;
  EXPECT_ERROR(into({output, output}), bad, "given twice");
  EXPECT_ERROR(into({{"q", F32, y.data(), 12}}), bad, "no output 'q'");
  EXPECT_ERROR(into({{"y", ElementType::I32, y.data(), 12}}), bad, "is f32, but its buffer is i32");
  EXPECT_ERROR(into({{"y", F32, nullptr, 12}}), bad, "no buffer");
  EXPECT_ERROR(into({{"y", F32, x.data() + 1, 12}}), bad, "overlaps input 'x'");
  EXPECT_FALSE(into({{"y", F32, y.data(), 8}}));
  // Any alignment.
  std::vector<std::byte> bytes(13);
  ASSERT_OK(into({{"y", F32, bytes.data() + 1, 12}}));
  Values read(3);
  std::memcpy(read.data(), bytes.data() + 1, 12);
  EXPECT_EQ(read, (Values{2, 3, 4}));
}

TEST(Executable, OutputBuffersHelpToSolve) {
  // Case 13: an output of dim 2n given a buffer of 7.
  Bench bench(SignatureBuilder().dim("n").input("x", F32, {"n"}).output("y", F32, {"2*n"}), [](const Binding &) {
    PlanBuilder p;
    uint32_t n = p.symbol(0), two = p.constant(2), one = p.constant(1), zero = p.constant(0), size = p.mul(two, n);
    uint32_t x = p.buffer(BufferKind::Input, F32, n, 0), y = p.buffer(BufferKind::Output, F32, size, 0);
    data::StepT &step = p.step(Family::Loops, "repeat", {two, n});
    step.inputs.push_back(p.access(x, {zero, one}));
    step.outputs.push_back(p.access(y, {n, one}));
    step.results = {0};
    p.output(y, {size});
    return reply(p.take());
  });
  Values x = {1, 2, 3}, y(7);
  NamedTensor inputs[] = {{"x", TensorView::flat(F32, x.data(), 12)}};
  OutputBuffer seven[] = {{"y", F32, y.data(), 28}}, six[] = {{"y", F32, y.data(), 24}};
  auto wrong = bench.executable->runInto(inputs, seven);
  EXPECT_FALSE(wrong);
  EXPECT_NE(wrong.error().message.find("'y'"), std::string::npos) << wrong.error().message;
  ASSERT_OK(bench.executable->runInto(inputs, six));
  EXPECT_EQ(y, (Values{1, 2, 3, 1, 2, 3, 0}));
}

//===----------------------------------------------------------------------===//
// Params, rng, clones
//===----------------------------------------------------------------------===//

namespace {
/// y = x + p, both [N] or p [4].
Bench addParam(ElementType type, std::string size = "4") {
  return Bench(SignatureBuilder().dim("N").input("x", type, {"N"}).param("p", type, {size}).output("y", type, {"N"}),
               [=](const Binding &) {
                 PlanBuilder p;
                 uint32_t N = p.symbol(0), four = size == "N" ? N : p.constant(4);
                 uint32_t x = p.buffer(BufferKind::Input, type, N, 0), y = p.buffer(BufferKind::Output, type, N, 0);
                 uint32_t param = p.buffer(BufferKind::Param, type, four, 0);
                 binary(p, "add", Opcode::Add, N, x, param, y);
                 p.output(y, {N});
                 return reply(p.take());
               });
}
} // namespace

TEST(Executable, ShortFloats) {
  // Case 29.
  struct {
    ElementType type;
    Values param, x, wanted;
  } cases[] = {{ElementType::F16, {1, 2, 3, 4}, {10, 20, 30, 40}, {11, 22, 33, 44}},
               {ElementType::BF16, {1.5, 2.5, 3.5, 4.5}, {0.5, 0.5, 0.5, 0.5}, {2, 3, 4, 5}}};
  for (auto &test : cases) {
    Bench bench = addParam(test.type);
    ASSERT_OK(bench.executable->setParam("p", test.param));
    auto y = runVector(*bench.executable, test.x); // f32 into an f16 input
    ASSERT_OK(y);
    EXPECT_EQ((*y)[0].type(), test.type);
    auto wide = (*y)[0].toF32();
    ASSERT_OK(wide);
    EXPECT_EQ(valuesOf<float>(*wide), test.wanted);
    // And widened into an f32 buffer.
    Shape shape = {4};
    NamedTensor inputs[] = {input("x", F32, shape, test.x)};
    Values into(4);
    OutputBuffer output[] = {{"y", F32, into.data(), 16}};
    ASSERT_OK(bench.executable->runInto(inputs, output));
    EXPECT_EQ(into, test.wanted);
  }
}

TEST(Executable, FlatF16CountsItsOwnElements) {
  // Case 11, through a run: 16 bytes of f16 for [B,4] are B = 2.
  Bench bench(
      SignatureBuilder().dim("B").input("x", ElementType::F16, {"B", "4"}).output("y", ElementType::F16, {"B", "4"}),
      [](const Binding &) {
        PlanBuilder p;
        uint32_t size = p.mul(p.symbol(0), p.constant(4));
        uint32_t x = p.buffer(BufferKind::Input, ElementType::F16, size, 0);
        p.output(x, {0, 1});
        return reply(p.take());
      });
  std::vector<uint16_t> x(8);
  NamedTensor inputs[] = {{"x", TensorView::flat(ElementType::F16, x.data(), 16)}};
  auto y = bench.executable->run(inputs);
  ASSERT_OK(y);
  EXPECT_EQ((*y)[0].shape(), (Shape{2, 4}));
}

TEST(Executable, ParamsAreSeenByEveryShape) {
  // Case 26, with a param as long as the input.
  Bench bench = addParam(F32);
  Executable &e = *bench.executable;
  auto run = [&](float x) {
    auto y = runVector(e, Values(4, x));
    EXPECT_OK(y);
    return y ? valuesOf<float>((*y)[0])[3] : -1;
  };
  EXPECT_ERROR(runVector(e, Values(4)), ErrorCode::InvalidArgument, "not set: 'p'");
  EXPECT_EQ(bench.compiler->specialized, 0);
  EXPECT_FALSE(e.finalizeParams());
  ASSERT_OK(e.setParam("p", Values{0, 0, 0, 1}));
  EXPECT_EQ(run(1), 2);
  ASSERT_OK(e.setParam("p", Values{0, 0, 0, 5}));
  EXPECT_EQ(run(1), 6);
  ASSERT_OK(e.finalizeParams());
  Values typed = {0, 0, 0, 7};
  ASSERT_OK(e.setParamTyped("p", std::as_bytes(std::span(typed)), F32));
  EXPECT_EQ(run(1), 8);
  ASSERT_OK(e.setParam("p", Values{0, 0, 0, 9}));
  EXPECT_EQ(run(1), 10);
  EXPECT_EQ(bench.compiler->specialized, 1);

  auto bad = ErrorCode::InvalidArgument;
  EXPECT_ERROR(e.setParam("q", Values(4)), bad, "no param 'q'");
  EXPECT_ERROR(e.setParam("p", Values(3)), bad, "shape [4] is set from 3");
  EXPECT_ERROR(e.setParamTyped("p", std::as_bytes(std::span(typed)), ElementType::I32), bad, "is set from i32");
  EXPECT_ERROR(e.setParamTyped("p", std::as_bytes(std::span(typed)).first(15), F32), bad, "not a multiple");
  EXPECT_ERROR(e.setParamTyped("p", std::as_bytes(std::span(typed)), static_cast<ElementType>(50)), bad,
               "unknown type");
  EXPECT_EQ(run(1), 10); // what failed changed nothing
}

TEST(Executable, ParamOfNamedSize) {
  Bench bench = addParam(F32, "N");
  ASSERT_OK(bench.executable->setParam("p", Values(3, 1)));
  EXPECT_OK(runVector(*bench.executable, Values(3)));
  EXPECT_ERROR(runVector(*bench.executable, Values(4)), ErrorCode::InvalidArgument,
               "param 'p' was set to 3 elements, but has 4");
}

TEST(Executable, PackedParamFollowsItsValue) {
  Bench bench(
      SignatureBuilder().dim("B").input("x", F32, {"B", "2"}).param("w", F32, {"2", "1"}).output("y", F32, {"B", "1"}),
      [](const Binding &) {
        PlanBuilder p;
        uint32_t B = p.symbol(0), K = p.constant(2), N = p.constant(1), zero = p.constant(0);
        uint32_t x = p.buffer(BufferKind::Input, F32, p.mul(B, K), 0);
        uint32_t w = p.buffer(BufferKind::Param, F32, K, 0);
        data::BufferT &packed = *p.plan->buffers[w];
        packed.layout = data::PackedLayout::Panels16;
        packed.k = 2;
        packed.n = packed.k_stride = packed.n_stride = 1;
        uint32_t y = p.buffer(BufferKind::Output, F32, B, 0);
        data::StepT &step = p.step(Family::Matmul, "matmul", {B, N});
        step.inputs.push_back(p.access(x, {K, zero}));
        step.inputs.push_back(p.access(w, {zero, zero}));
        step.outputs.push_back(p.access(y, {N, N}));
        step.results = {0};
        step.k = K;
        step.a_k_stride = N;
        step.b_packed = true;
        p.output(y, {B, N});
        return reply(p.take());
      });
  Values x = {1, 2};
  Shape shape = {1, 2};
  NamedTensor inputs[] = {input("x", F32, shape, x)};
  for (float factor : {1.0f, 10.0f}) {
    ASSERT_OK(bench.executable->setParam("w", Values{factor, 3 * factor}));
    ASSERT_OK(bench.executable->finalizeParams());
    auto y = bench.executable->run(inputs);
    ASSERT_OK(y);
    EXPECT_EQ(valuesOf<float>((*y)[0])[0], 7 * factor);
  }
}

TEST(Executable, SeedAndStep) {
  Bench bench(SignatureBuilder().dim("N").input("x", F32, {"N"}).output("y", ElementType::U64, {"2"}),
              [](const Binding &) {
                PlanBuilder p;
                uint32_t two = p.constant(2);
                uint32_t state = p.buffer(BufferKind::RunState, ElementType::U64, two);
                uint32_t y = p.buffer(BufferKind::Output, ElementType::U64, two, 0);
                unary(p, "copy", two, state, y);
                p.output(y, {two});
                return reply(p.take());
              });
  Executable &e = *bench.executable;
  auto state = [&](int64_t n) {
    auto y = runVector(e, sequence(n));
    EXPECT_OK(y);
    return valuesOf<uint64_t>((*y)[0]);
  };
  using State = std::vector<uint64_t>;
  EXPECT_EQ(e.rng().seed, 42u);
  EXPECT_EQ(state(1), (State{42, 0}));
  EXPECT_EQ(state(2), (State{42, 0})); // another shape
  EXPECT_EQ(state(1), (State{42, 0})); // and back
  e.setRng({7, 3});
  EXPECT_EQ(state(1), (State{7, 3}));
  Values x(1);
  Shape shape = {1};
  NamedTensor inputs[] = {input("x", F32, shape, x)};
  RunOptions options;
  options.step = 9;
  auto y = e.run(inputs, options);
  ASSERT_OK(y);
  EXPECT_EQ(valuesOf<uint64_t>((*y)[0]), (State{7, 9}));
  // Case 27: the option's seed survives.
  ExecutableOptions seeded;
  seeded.rng.seed = 1234567890123456789;
  auto other = Executable::create(bench.engine, bench.model, seeded);
  ASSERT_OK(other);
  auto z = (*other)->run(inputs);
  ASSERT_OK(z);
  EXPECT_EQ(valuesOf<uint64_t>((*z)[0]), (State{1234567890123456789, 0}));
}

TEST(Executable, CloneSharesAndOwns) {
  // Case 28: cumsum in origin and clone at other shapes at the same time.
  Bench bench(vectorSignature(), [](const Binding &) {
    PlanBuilder p;
    uint32_t N = p.symbol(0), one = p.constant(1);
    uint32_t x = p.buffer(BufferKind::Input, F32, N, 0), y = p.buffer(BufferKind::Output, F32, N, 0);
    data::StepT &step = p.step(Family::Scan, "cumsum", {one, N});
    step.inputs.push_back(p.access(x, {N, one}));
    step.outputs.push_back(p.access(y, {N, one}));
    p.output(y, {N});
    return reply(p.take());
  });
  std::shared_ptr<Executable> clone = bench.executable->clone();
  bench.executable->setRng({1, 1});
  EXPECT_EQ(clone->rng().seed, 42u);
  auto hammer = [](Executable &executable, int64_t n) {
    for (int i = 0; i != 200; ++i) {
      auto y = runVector(executable, {1, 2, 3, 4});
      ASSERT_OK(y);
      ASSERT_EQ(valuesOf<float>((*y)[0]), (Values{1, 3, 6, 10}));
      auto z = runVector(executable, Values(static_cast<size_t>(n), 1));
      ASSERT_OK(z);
      ASSERT_EQ(valuesOf<float>((*z)[0]).back(), static_cast<float>(n));
    }
  };
  std::thread other([&] { hammer(*clone, 100); });
  hammer(*bench.executable, 57);
  other.join();
  EXPECT_EQ(bench.compiler->specialized, 1);
  EXPECT_EQ(clone->stats().misses, 3u); // shared
  EXPECT_EQ(bench.executable->stats().misses, 3u);
}

TEST(Executable, ClonesOwnTheirParams) {
  Bench bench = addParam(F32);
  ASSERT_OK(bench.executable->setParam("p", Values(4, 1)));
  std::shared_ptr<Executable> clone = bench.executable->clone();
  ASSERT_OK(clone->setParam("p", Values(4, 100)));
  auto mine = runVector(*bench.executable, Values(4)), its = runVector(*clone, Values(4));
  ASSERT_OK(mine);
  ASSERT_OK(its);
  EXPECT_EQ(valuesOf<float>((*mine)[0])[0], 1);
  EXPECT_EQ(valuesOf<float>((*its)[0])[0], 100);
}

//===----------------------------------------------------------------------===//
// Templates and the cache
//===----------------------------------------------------------------------===//

TEST(Executable, OneBindingAskedThreeTimes) {
  // Case 32, first half.
  Bench bench = addOne();
  for (int i = 0; i != 3; ++i)
    ASSERT_OK(runVector(*bench.executable, sequence(4)));
  Statistics stats = bench.executable->stats();
  EXPECT_EQ(stats.misses, 1u);
  EXPECT_EQ(stats.hits, 2u);
  EXPECT_EQ(stats.templatesMade, 1u);
  EXPECT_EQ(stats.kernelsCompiled, 1u);
  EXPECT_EQ(stats.codeBytes, 64u);
  auto bindings = bench.executable->bindings();
  ASSERT_EQ(bindings.size(), 1u);
  EXPECT_EQ(bindings[0].binding, (Binding{{"N", 4}}));
  EXPECT_EQ(bindings[0].hits, 2u);
  EXPECT_EQ(bindings[0].origin, Origin::NewTemplate);
}

TEST(Executable, LeastRecentlyUsedGoes) {
  // Case 32: capacity 2, bindings 1, 2, 3.
  Bench bench = addOne(2);
  auto run = [&](int64_t n) {
    RunReport report;
    EXPECT_OK(runVector(*bench.executable, sequence(n), &report));
    return report.origin;
  };
  EXPECT_EQ(run(1), Origin::NewTemplate);
  EXPECT_EQ(run(2), Origin::Instantiated);
  EXPECT_EQ(run(3), Origin::Instantiated);
  auto bindings = bench.executable->bindings();
  ASSERT_EQ(bindings.size(), 2u);
  EXPECT_EQ(bindings[0].binding, (Binding{{"N", 3}}));
  EXPECT_EQ(bindings[1].binding, (Binding{{"N", 2}}));
  EXPECT_EQ(run(2), Origin::Hit); // now 3 is the oldest
  EXPECT_EQ(run(1), Origin::Instantiated);
  auto why = bench.executable->explain();
  ASSERT_TRUE(why);
  EXPECT_TRUE(why->evicted);
  ASSERT_EQ(why->changes.size(), 1u);
  EXPECT_EQ(why->changes[0].dim, "N");
  EXPECT_EQ(why->changes[0].from, 2);
  EXPECT_EQ(why->changes[0].to, 1);
  EXPECT_NE(why->text().find("dim 'N' changed from 2 to 1"), std::string::npos) << why->text();
  EXPECT_EQ(run(2), Origin::Hit);
  EXPECT_EQ(run(3), Origin::Instantiated);
  Statistics stats = bench.executable->stats();
  EXPECT_EQ(stats.evictions, 3u);
  EXPECT_EQ(stats.templatesMade, 1u);
  EXPECT_EQ(stats.templatesReused, 4u);
  EXPECT_EQ(stats.kernelsCompiled, 1u);
}

TEST(Executable, ManyLengthsStayBounded) {
  // Case 34.
  Bench bench = addOne(32);
  for (int64_t n = 0; n != 2000; ++n) {
    ASSERT_OK(runVector(*bench.executable, sequence(n)));
    ASSERT_LE(bench.executable->stats().entries, 32u);
  }
  Statistics stats = bench.executable->stats();
  EXPECT_EQ(stats.misses, 2000u);
  EXPECT_EQ(stats.templatesMade, 1u);
  EXPECT_EQ(stats.kernelsCompiled, 1u);
  EXPECT_EQ(bench.engine->kernelCount(), 1u);
}

namespace {
/// Two templates: N <= 4 and not; and N == 7 is refused.
Bench guarded() {
  return Bench(vectorSignature(), [](const Binding &binding) -> Result<SpecializeReply> {
    int64_t n = binding.at("N");
    SpecializeReply made;
    made.plan = addOnePlan();
    PlanBuilder guards;
    guards.guard(PredicateKind::LessEqual, "N", "4", n <= 4);
    if (n > 4)
      guards.guard(PredicateKind::NotEqual, "N", "7", n != 7, true, "N must not be 7");
    made.plan->guards = std::move(guards.plan->guards);
    if (n == 7)
      made.error = std::make_unique<Error>(Error{ErrorCode::InvalidArgument, "N must not be 7: N is 7"});
    return made;
  });
}
} // namespace

TEST(Executable, GuardsMakeTemplates) {
  Bench bench = guarded();
  auto run = [&](int64_t n) {
    RunReport report;
    EXPECT_OK(runVector(*bench.executable, sequence(n), &report));
    return report.origin;
  };
  EXPECT_EQ(run(2), Origin::NewTemplate);
  EXPECT_EQ(run(3), Origin::Instantiated);
  EXPECT_EQ(run(9), Origin::NewTemplate);
  auto why = bench.executable->explain();
  ASSERT_TRUE(why);
  ASSERT_EQ(why->guardsFailed.size(), 1u);
  EXPECT_NE(why->guardsFailed[0].find("N <= 4"), std::string::npos) << why->guardsFailed[0];
  EXPECT_EQ(bench.executable->bindings()[0].guardsFailed, why->guardsFailed);
  EXPECT_EQ(run(10), Origin::Instantiated);
  EXPECT_EQ(bench.compiler->specialized, 2);
  EXPECT_EQ(bench.executable->stats().templatesMade, 2u);
}

TEST(Executable, FailedRequirementsAreRemembered) {
  Bench bench = guarded();
  for (int i = 0; i != 3; ++i)
    EXPECT_FALSE(runVector(*bench.executable, sequence(7)));
  EXPECT_EQ(bench.compiler->specialized, 1);
  EXPECT_EQ(bench.executable->stats().failures, 3u);
  EXPECT_EQ(bench.executable->stats().entries, 0u);
  auto why = bench.executable->explain();
  ASSERT_TRUE(why);
  EXPECT_NE(why->error.find("7"), std::string::npos);
  EXPECT_OK(runVector(*bench.executable, sequence(8)));
}

TEST(Executable, CompilerFailuresAreNotRemembered) {
  auto broken = std::make_shared<std::atomic<bool>>(true);
  Bench bench(vectorSignature(), [=](const Binding &) -> Result<SpecializeReply> {
    if (*broken)
      return Error{ErrorCode::Internal, "no more disk"};
    return reply(addOnePlan());
  });
  EXPECT_ERROR(runVector(*bench.executable, sequence(3)), ErrorCode::Internal, "no more disk");
  *broken = false;
  EXPECT_OK(runVector(*bench.executable, sequence(3)));
  EXPECT_EQ(bench.compiler->specialized, 2);
}

TEST(Executable, BadTemplatesAreRefused) {
  Bench bench(vectorSignature(), [](const Binding &) {
    auto plan = addOnePlan();
    plan->steps[0]->outputs[0]->offset = 0; // N
    return reply(std::move(plan));
  });
  EXPECT_ERROR(runVector(*bench.executable, sequence(3)), ErrorCode::InvalidModel, "plan step 'add'");
}

TEST(Executable, ModelsShareKernels) {
  Bench one = addOne();
  Bench two(vectorSignature(), [](const Binding &) { return reply(addOnePlan()); }, 64, nullptr, one.engine);
  ASSERT_OK(runVector(*one.executable, sequence(3)));
  ASSERT_OK(runVector(*two.executable, sequence(3)));
  EXPECT_EQ(one.compiler->compiled, 1);
  EXPECT_EQ(two.compiler->compiled, 0);
  EXPECT_EQ(two.executable->stats().kernelsReused, 1u);
  EXPECT_EQ(one.engine->kernelCount(), 1u);
  EXPECT_EQ(one.engine->codeBytes(), 64u);
}

TEST(Executable, ThirtyTwoThreadsOnOneBinding) {
  // Case 35.
  Bench bench = addOne();
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int i = 0; i != 32; ++i)
    threads.emplace_back([&] {
      auto y = runVector(*bench.executable, {1, 2, 3});
      right += y && valuesOf<float>((*y)[0]) == Values{2, 3, 4};
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(right, 32);
  EXPECT_EQ(bench.compiler->specialized, 1);
  EXPECT_EQ(bench.executable->stats().misses, 1u);
  EXPECT_EQ(bench.executable->stats().hits, 31u);
}

TEST(Executable, ThirtyTwoThreadsOnThirtyTwoBindings) {
  Bench bench = addOne();
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int i = 0; i != 32; ++i)
    threads.emplace_back([&, i] {
      auto y = runVector(*bench.executable, Values(static_cast<size_t>(i), 1));
      right += y && valuesOf<float>((*y)[0]) == Values(static_cast<size_t>(i), 2);
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(right, 32);
  EXPECT_EQ(bench.executable->stats().misses, 32u);
  EXPECT_EQ(bench.executable->stats().entries, 32u);
  EXPECT_EQ(bench.compiler->specialized, 1);
  for (const auto &[key, times] : bench.compiler->keys)
    EXPECT_EQ(times, 1);
}

TEST(Executable, CapacityOneAndTwoThreads) {
  Bench bench = addOne(1);
  auto alternate = [&](int64_t n) {
    for (int i = 0; i != 500; ++i) {
      auto y = runVector(*bench.executable, Values(static_cast<size_t>(n), 1));
      ASSERT_OK(y);
      ASSERT_EQ(valuesOf<float>((*y)[0]), Values(static_cast<size_t>(n), 2));
    }
  };
  std::thread other([&] { alternate(5); });
  alternate(3);
  other.join();
  EXPECT_EQ(bench.executable->stats().entries, 1u);
}

TEST(Executable, FailureReachesAllWhoWaited) {
  // The first one in waits until the others have had time to queue behind it.
  auto entered = std::make_shared<std::atomic<int>>(0);
  Bench bench(vectorSignature(), [=](const Binding &) -> Result<SpecializeReply> {
    ++*entered;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    return Error{ErrorCode::Internal, "no more disk"};
  });
  std::vector<std::thread> threads;
  std::atomic<int> failed{0};
  for (int i = 0; i != 8; ++i)
    threads.emplace_back([&] { failed += !runVector(*bench.executable, sequence(3)); });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(failed, 8);
  EXPECT_LT(*entered, 8); // most waited for another one's failure
}

TEST(Executable, IssueWaitingIsReported) {
  // The one that makes it gives the other one half a second to queue behind it.
  std::promise<void> entered, queued;
  Bench bench(vectorSignature(), [&](const Binding &) -> Result<SpecializeReply> {
    entered.set_value();
    queued.get_future().wait();
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    return reply(addOnePlan());
  });
  std::thread maker([&] { EXPECT_TRUE(runVector(*bench.executable, sequence(3))); });
  entered.get_future().wait();
  RunReport report;
  queued.set_value();
  auto waited = runVector(*bench.executable, sequence(3), &report);
  maker.join();
  ASSERT_OK(waited);
  EXPECT_EQ(report.origin, Origin::Hit);
  EXPECT_GT(report.specializeMs, 1);
  ASSERT_OK(runVector(*bench.executable, sequence(3), &report));
  EXPECT_EQ(report.specializeMs, 0);
}

//===----------------------------------------------------------------------===//
// Making engines and models
//===----------------------------------------------------------------------===//

TEST(Engine, Options) {
  EngineOptions options;
  for (int threads : {-1, 257, std::numeric_limits<int>::max()}) {
    options.threads = threads;
    EXPECT_ERROR(Engine::create(options), ErrorCode::InvalidArgument, "not " + std::to_string(threads));
  }
  options.threads = 0;
  options.cacheEntries = 0;
  EXPECT_ERROR(Engine::create(options), ErrorCode::InvalidArgument, "at least 1");
}

TEST(Engine, LogsMisses) {
  std::vector<std::string> lines;
  EngineOptions options;
  options.loader = std::make_shared<FakeLoader>();
  options.log = [&](std::string_view line) { lines.emplace_back(line); };
  auto engine = Engine::create(std::move(options));
  ASSERT_OK(engine);
  Bench bench(vectorSignature(), [](const Binding &) { return reply(addOnePlan()); }, 64, nullptr, *engine);
  ASSERT_OK(runVector(*bench.executable, sequence(3)));
  ASSERT_OK(runVector(*bench.executable, sequence(3)));
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("{N=3}: new, 1 kernels compiled"), std::string::npos) << lines[0];
}

TEST(Model, ChecksItsSignature) {
  auto make = [](SignatureBuilder signature) {
    return Model::create(std::move(signature.signature), nullptr, nullptr);
  };
  EXPECT_OK(make(vectorSignature()));
  auto bad = ErrorCode::InvalidModel;
  EXPECT_ERROR(make(vectorSignature().dim("N")), bad, "'N'");
  EXPECT_ERROR(make(vectorSignature().input("x", F32, {"N"})), bad, "input 'x' is there twice");
  EXPECT_ERROR(make(vectorSignature().input("z", F32, {"Q"})), bad, "'Q'");
  EXPECT_ERROR(make(vectorSignature().input("z", F32, {"N+"})), bad, "input 'z'");
  EXPECT_ERROR(make(vectorSignature().input("z", static_cast<ElementType>(99), {})), bad, "not well formed");
  EXPECT_ERROR(make(vectorSignature().dim("M", 3, 2)), bad, "'M'");
  // Case 14: a name that occurs in outputs only.
  EXPECT_ERROR(make(vectorSignature().dim("M").output("z", F32, {"M"})), bad, "'M' occurs in outputs only");
}
