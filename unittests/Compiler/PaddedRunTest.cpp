//===- PaddedRunTest.cpp - runs in buckets, end to end --------------------===//
#include "CompilerTest.h"

#include "rlx/Import/GraphBuilder.h"

#include <cmath>
#include <random>

#include "gmock/gmock.h"

using namespace rlx;
using namespace rlx::compilertest;
using testing::HasSubstr;
using Floats = std::vector<float>;

namespace {

ExecutableOptions bucketsOf(const std::string &dim, std::vector<Bucket> buckets) {
  ExecutableOptions options;
  options.hints.push_back({});
  options.hints.back().dim = dim;
  options.hints.back().buckets = std::move(buckets);
  return options;
}

/// y = x + 1 along S.
std::string addOne() {
  return graphText({"S"}, {{"x", typeOf({"S"})}}, {{"y", typeOf({"S"})}},
                   "%one = rlx.constant dense<1.0> : tensor<f32>\n%y = rlx.add %x, %one : $x, tensor<f32> -> $y");
}

Value counting(int64_t size) {
  Floats values;
  for (int64_t i = 0; i != size; ++i)
    values.push_back(static_cast<float>(i));
  return f32({size}, values);
}

TEST(PaddedRun, Case33_SizesOfABucketShareASpecialization) {
  Loaded loaded(addOne(), nullptr, bucketsOf("S", {{1, 4}, {4, 16}}));
  for (int64_t size : {2, 3, 2, 1}) {
    RunReport report;
    RunOptions options;
    options.report = &report;
    std::vector<Tensor> y = loaded.outputs({counting(size)}, options);
    ASSERT_EQ(y[0].shape(), (Shape{size})); // this call's
    for (int64_t i = 0; i != size; ++i)
      EXPECT_EQ(y[0].as<float>()[static_cast<size_t>(i)], static_cast<float>(i + 1));
    EXPECT_EQ(report.binding, (Binding{{"S", size}}));
  }
  ASSERT_EQ(loaded->bindings().size(), 1u);
  EXPECT_EQ(loaded->bindings()[0].binding, (Binding{{"S", 3}}));
  EXPECT_EQ(loaded->stats().hits, 3u);
  for (int64_t size : {0, 16, 100})
    EXPECT_EQ(loaded.outputs({counting(size)})[0].shape(), (Shape{size}));
  EXPECT_EQ(loaded->bindings().size(), 4u);
  EXPECT_EQ(loaded.outputs({counting(7)})[0].as<float>()[6], 7);
  EXPECT_EQ(loaded->bindings()[0].binding, (Binding{{"S", 15}}));
}

TEST(PaddedRun, Case33_ALadderOfPowersOfTwo) {
  Result<std::vector<Bucket>> ladder = powerOfTwoBuckets(8, 64);
  ASSERT_GOOD(ladder);
  Loaded loaded(addOne(), nullptr, bucketsOf("S", *ladder));
  for (auto [size, at] :
       std::vector<std::pair<int64_t, int64_t>>{{3, 8}, {8, 8}, {9, 16}, {16, 16}, {17, 32}, {64, 64}, {65, 65}}) {
    EXPECT_EQ(loaded.outputs({counting(size)})[0].shape(), (Shape{size}));
    EXPECT_EQ(loaded->bindings()[0].binding, (Binding{{"S", at}})) << size;
  }
}

/// Two layers with weights, softmax along the last axis, over [B, S, 8]; z: a running sum along S.
std::string layers() {
  return graphText({"B", "S"}, {{"x", typeOf({"B", "S", "8"})}},
                   {{"y", typeOf({"B", "S", "8"})}, {"z", typeOf({"B", "S", "8"})}, {"flat", typeOf({"B * S", "8"})}},
                   "%w = rlx.param \"w\" : tensor<8x8xf32>\n"
                   "%0 = rlx.matmul %x, %w : $x, tensor<8x8xf32> -> $y\n"
                   "%1 = rlx.gelu %0 : $y -> $y\n"
                   "%2 = rlx.matmul %1, %w : $y, tensor<8x8xf32> -> $y\n"
                   "%y = rlx.softmax %2 axis 2 : $y -> $y\n"
                   "%z = rlx.cumsum %1 axis 1 : $y -> $z\n"
                   "%flat = rlx.reshape %1 : $y -> $flat");
}

TEST(PaddedRun, Case60_RowsHaveTheBitsTheyHaveWithout) {
  ExecutableOptions options = bucketsOf("B", {{1, 9}});
  Loaded plain(layers()), padded(layers(), nullptr, options);
  Value w = randomF32({8, 8}, 1);
  for (const Loaded *loaded : {&plain, &padded})
    ASSERT_GOOD((*loaded)->setParamTyped("w", std::as_bytes(std::span(w.bytes)), ElementType::F32));
  for (auto [b, s] : std::vector<std::pair<int64_t, int64_t>>{{1, 5}, {3, 7}, {7, 1}, {2, 0}, {8, 4}, {0, 3}, {9, 2}}) {
    Value x = randomF32({b, s, 8}, static_cast<uint32_t>(10 * b + s));
    std::vector<Tensor> expected = plain.outputs({x}), got = padded.outputs({x});
    for (size_t i = 0; i != 3; ++i)
      EXPECT_EQ(difference(got[i], expected[i]), "") << "output " << i << " at B=" << b << " S=" << s;
  }
  // "flat" merges S behind B, so that S cannot be cut back.
  Result<std::shared_ptr<Executable>> refused =
      Executable::create(padded->engine(), padded.model, bucketsOf("S", {{1, 9}}));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::Unsupported);
  EXPECT_THAT(refused.error().message, HasSubstr("dim 'S'"));
}

TEST(PaddedRun, EveryWayToRun) {
  Loaded loaded(addOne(), nullptr, bucketsOf("S", {{1, 9}}));
  Value x = counting(5);
  const NamedTensor inputs[] = {{"x", x.flat()}};
  Floats y(7, -1);
  const OutputBuffer outputs[] = {{"y", ElementType::F32, y.data() + 1, 5 * sizeof(float)}};
  ASSERT_GOOD(loaded->runInto(inputs, outputs));
  EXPECT_EQ(y, (Floats{-1, 1, 2, 3, 4, 5, -1})); // nothing beyond the buffer
  std::unique_ptr<RunContext> context = loaded->createContext();
  Result<std::span<const RawOutput>> raw = context->run(inputs);
  ASSERT_GOOD(raw);
  ASSERT_EQ((*raw)[0].shape.size(), 1u);
  EXPECT_EQ((*raw)[0].shape[0], 5);
  EXPECT_EQ((*raw)[0].bytes, 20u);
  EXPECT_EQ(static_cast<const float *>((*raw)[0].data)[4], 5);
  ASSERT_GOOD(loaded->prepare(Binding{{"S", 2}}));
  EXPECT_EQ(loaded->bindings().size(), 1u);
  // A buffer of another size has another binding.
  Floats small(4);
  const OutputBuffer wrong[] = {{"y", ElementType::F32, small.data(), small.size() * sizeof(float)}};
  EXPECT_FALSE(loaded->runInto(inputs, wrong));
}

TEST(PaddedRun, ShortFloatsAreNarrowedAndWidened) {
  std::string type = typeOf({"S", "2"}, "f16");
  Loaded loaded(graphText({"S"}, {{"x", type}}, {{"y", type}}, "%y = rlx.add %x, %x : $x, $x -> $y"), nullptr,
                bucketsOf("S", {{1, 9}}));
  const Floats x = {1, 2, 3, 4, 5, 6};
  const int64_t shape[] = {3, 2};
  const NamedTensor inputs[] = {{"x", TensorView{ElementType::F32, shape, x.data(), x.size() * sizeof(float), false}}};
  Floats y(6);
  const OutputBuffer outputs[] = {{"y", ElementType::F32, y.data(), y.size() * sizeof(float)}};
  ASSERT_GOOD(loaded->runInto(inputs, outputs));
  EXPECT_EQ(y, (Floats{2, 4, 6, 8, 10, 12}));
}

TEST(PaddedRun, OpsThatMixAreNamed) {
  std::string x = typeOf({"B", "S"});
  Loaded loaded(graphText({"B", "S"}, {{"x", x}}, {{"y", x}}, "%y = rlx.softmax %x axis 1 : $x -> $y"));
  Result<std::shared_ptr<Executable>> refused =
      Executable::create(loaded->engine(), loaded.model, bucketsOf("S", {{1, 9}}));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::Unsupported);
  EXPECT_THAT(refused.error().message, HasSubstr("softmax"));
  EXPECT_TRUE(Executable::create(loaded->engine(), loaded.model, bucketsOf("B", {{1, 9}})));
}

TEST(PaddedRun, AMaskThatIsExactPasses) {
  // Scores are selected by an input that is false in the padding.
  std::string x = typeOf({"B", "S"}), mask = typeOf({"B", "S"}, "i1");
  std::string graph = graphText({"B", "S"}, {{"x", x}, {"mask", mask}}, {{"y", x}, {"sum", typeOf({"B"})}},
                                "%masked = rlx.constant dense<0xFF800000> : tensor<f32>\n"
                                "%0 = rlx.select %mask, %x, %masked : $mask, $x, tensor<f32> -> $x\n"
                                "%y = rlx.softmax %0 axis 1 : $x -> $x\n"
                                "%sum = rlx.reduce sum %x axes [1] : $x -> $sum");
  Loaded plain(graph), padded(graph, nullptr, bucketsOf("S", {{1, 65}}));
  for (auto [b, s] : std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {3, 33}, {2, 63}, {4, 64}, {2, 70}}) {
    Value values = randomF32({b, s}, 3);
    std::vector<uint8_t> bits(static_cast<size_t>(b * s));
    for (size_t i = 0; i != bits.size(); ++i)
      bits[i] = i % 3 != 1;
    std::vector<Tensor> expected = plain.outputs({values, i1({b, s}, bits)}),
                        got = padded.outputs({values, i1({b, s}, bits)});
    for (size_t i = 0; i != 2; ++i)
      EXPECT_EQ(difference(got[i], expected[i]), "") << "output " << i << " at B=" << b << " S=" << s;
  }
}

/// That a model may not be padded along S, or that runs padded to 64 have the bits of those that are not.
void expectSameBits(const std::string &graph, const std::vector<Value> &inputs, bool mayBePadded) {
  Loaded plain(graph);
  Result<std::shared_ptr<Executable>> made =
      Executable::create(plain->engine(), plain.model, bucketsOf("S", {{1, 65}}));
  ASSERT_EQ(static_cast<bool>(made), mayBePadded);
  if (!made)
    return;
  Loaded padded(graph, nullptr, bucketsOf("S", {{1, 65}}));
  std::vector<Tensor> expected = plain.outputs(inputs), got = padded.outputs(inputs);
  for (size_t i = 0; i != expected.size(); ++i)
    EXPECT_EQ(difference(got[i], expected[i]), "") << "output " << i;
}

TEST(PaddedRun, IssueSumsOverSeveralAxes) {
  // Elements are numbered through both axes: along the second, padding moves them to other lanes.
  for (auto [shape, mayBePadded] : {std::pair(Shape{5, 37}, false), std::pair(Shape{37, 5}, true)}) {
    std::vector<std::string> dims = {std::to_string(shape[0]), std::to_string(shape[1])};
    dims[mayBePadded ? 0 : 1] = "S";
    expectSameBits(graphText({"S"}, {{"x", typeOf(dims)}}, {{"y", "tensor<f32>"}},
                             "%y = rlx.reduce sum %x axes [0, 1] : $x -> $y"),
                   {randomF32(shape, 4)}, mayBePadded);
  }
}

TEST(PaddedRun, IssueProductsThatAreTooSmall) {
  // -1e-60 is rounded to -0, to which the padding's +0 would add: +0.
  auto graph = [](const std::string &x) {
    return graphText({"S"}, {{"x", typeOf({"1", "S"})}, {"w", typeOf({"S", "1"})}}, {{"y", "tensor<1x1xf32>"}},
                     "%n = rlx.neg %x : $x -> $x\n%y = rlx.matmul " + x + ", %w : $x, $w -> $y");
  };
  expectSameBits(graph("%x"), {f32({1, 1}, {-1e-30f}), f32({1, 1}, {1e-30f})}, false);
  for (float x : {-1e-30f, 1e-30f})
    expectSameBits(graph("%n"), {f32({1, 1}, {x}), f32({1, 1}, {1e-30f})}, true);
}

TEST(PaddedRun, SumsOfMinusZeros) {
  for (int64_t s : {1, 40})
    expectSameBits(graphText({"S"}, {{"x", typeOf({"S"})}},
                             {{"y", typeOf({"S"})}, {"z", typeOf({"S"})}, {"sum", "tensor<f32>"}},
                             "%y = rlx.cumsum %x axis 0 {reverse} : $x -> $y\n"
                             "%z = rlx.cumsum %x axis 0 {reverse, exclusive} : $x -> $z\n"
                             "%sum = rlx.reduce sum %x axes [0] : $x -> $sum"),
                   {f32({s}, Floats(static_cast<size_t>(s), -0.0f))}, true);
}

/// 3 and 5 would run at 8 and 5, which the model does not take.
TEST(PaddedRun, issue_WhatABucketWouldBreakRunsAsItIs) {
  std::string text =
      graphText({"B", "S"}, {{"x", typeOf({"B", "S"})}}, {{"y", typeOf({"B", "S"})}}, "%y = rlx.neg %x : $x -> $y");
  size_t at = text.find("dims = [#rlx.dim");
  ASSERT_NE(at, std::string::npos);
  text.insert(at, "constraints = [#rlx.constraint<\"B < S\", \"fewer rows than columns\">], ");
  ExecutableOptions options = bucketsOf("B", {{1, 9}});
  options.hints[0].likely = {3};
  options.hints.push_back({});
  options.hints.back().dim = "S";
  options.hints.back().likely = {5, 9, 2};
  options.prepareLikely = true;
  Loaded loaded(text, nullptr, options);
  ASSERT_GOOD(loaded->likely()->wait());
  EXPECT_EQ(loaded->likely()->progress().total, 2u); // 3 and 5, 8 and 9; not 3 and 2
  for (auto [b, s, at] : std::vector<std::array<int64_t, 3>>{{3, 5, 3}, {3, 9, 8}, {4, 5, 4}, {3, 5, 3}, {7, 8, 7}}) {
    ASSERT_GOOD(loaded->prepare({{{"B", b}, {"S", s}}}));
    EXPECT_EQ(loaded->bindings()[0].binding, (Binding{{"B", at}, {"S", s}}));
    Value x = randomF32({b, s}, static_cast<uint32_t>(b * s));
    std::vector<Tensor> y = loaded.outputs({x});
    ASSERT_EQ(y[0].shape(), (Shape{b, s}));
    const auto *given = reinterpret_cast<const float *>(x.bytes.data());
    for (size_t i = 0; i != static_cast<size_t>(b * s); ++i)
      EXPECT_EQ(y[0].as<float>()[i], -given[i]);
    EXPECT_EQ(loaded->bindings()[0].binding, (Binding{{"B", at}, {"S", s}}));
  }
  EXPECT_EQ(loaded->bindings().size(), 4u);
  auto refused = loaded.run({randomF32({5, 5}, 1)});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("fewer rows than columns"));
}

TEST(PaddedRun, LikelySizesOfOneBucketArePreparedOnce) {
  ExecutableOptions options = bucketsOf("S", {{1, 9}});
  options.hints[0].likely = {2, 3, 5, 20};
  options.prepareLikely = true;
  Loaded loaded(addOne(), nullptr, options);
  ASSERT_TRUE(loaded->likely());
  ASSERT_GOOD(loaded->likely()->wait());
  EXPECT_EQ(loaded->likely()->progress().total, 2u);
  EXPECT_EQ(loaded->bindings().size(), 2u);
}

/// Ops at random over inputs with all the values that have a way of their own; asks along which dims it may be padded.
class RandomPaddedGraph {
public:
  explicit RandomPaddedGraph(uint32_t seed) : random(seed) {
    EXPECT_TRUE(b.dim("N"));
    EXPECT_TRUE(b.dim("M"));
    input("x", ElementType::F32, {"N", 3});
    input("p", ElementType::F32, {"N", "M"});
    input("q", ElementType::F32, {"M", "N"});
    input("y", ElementType::F32, {3});
    input("r", ElementType::F32, {2, "N", 3});
    input("i", ElementType::I64, {"N"});
    input("k", ElementType::I32, {"N", "M"});
    input("c", ElementType::I1, {"N", "M"});
    input("d", ElementType::I1, {"N"});
    input("e", ElementType::F64, {"M", "N"});
    int most = 8 + static_cast<int>(random() % 30);
    for (int step = 0; step != most; ++step)
      if (GraphValue made = call())
        values.push_back(made);
  }

  void check(size_t &paddable) {
    std::vector<GraphOutput> outputs = {{"out", values.back()}};
    Result<BuiltGraph> built = b.finish(outputs);
    if (!built)
      return;
    auto loaded = compiler::loadModule(*built->module, built->weights);
    if (!loaded)
      return;
    Loaded plain(loaded->model);
    for (const auto &dim : loaded->model->signature().dims) {
      if (!dim->paddable)
        continue;
      ++paddable;
      Loaded padded(loaded->model, bucketsOf(dim->name, {{1, 41}}));
      for (int64_t n : {1, 2, 37}) {
        Binding binding = {{"N", n}, {"M", 5}};
        if (dim->name == "M")
          binding = {{"N", 5}, {"M", n}};
        std::vector<Value> given = inputsOf(*loaded->model, binding);
        auto expected = plain.run(given), got = padded.run(given);
        ASSERT_EQ(static_cast<bool>(expected), static_cast<bool>(got))
            << (expected ? got.error().message : expected.error().message) << built->text();
        if (!expected)
          continue;
        const Tensor &right = (*expected)[0];
        const auto *bytes = static_cast<const uint8_t *>(right.data());
        Value value{right.type(), right.shape(), {bytes, bytes + right.bytes()}};
        ASSERT_EQ(difference((*got)[0], value), "") << dim->name << " = " << n << "\n" << built->text();
      }
    }
  }

private:
  void input(const char *name, ElementType type, const GraphShape &shape) {
    values.push_back(b.input(name, type, shape));
  }
  template <typename T> T pick(std::initializer_list<T> list) { return std::data(list)[random() % list.size()]; }
  const GraphValue &any() {
    return values[random() % 3 ? values.size() - 1 - random() % std::min<size_t>(values.size(), 8)
                               : random() % values.size()];
  }
  GraphOperand operand() {
    switch (random() % 6) {
    case 0:
      return pick<double>({0.0, 1.0, -1.0, -INFINITY, INFINITY, 0.5});
    case 1:
      return pick<int64_t>({0, 1, 2, -1});
    default:
      return any();
    }
  }
  int64_t axis() { return pick<int64_t>({0, 1, 2, -1}); }
  std::vector<int64_t> axes() {
    return pick<std::vector<int64_t>>({{0}, {1}, {0, 1}, {1, 2}, {0, 2}, {-1}, {0, 1, 2}});
  }
  GraphShape shape() {
    return pick<GraphShape>({{"N", 3},
                             {"N*M"},
                             {"3*N"},
                             {"M*N"},
                             {"N", "M"},
                             {"M", "N"},
                             {"N", 1, "M"},
                             {2, "N", 3},
                             {6, "N"},
                             {"N", "3*M"},
                             {1, "N", 3},
                             {"2*N", 3},
                             {3, "N"},
                             {"N", 3, 1}});
  }
  GraphValue call() {
    switch (random() % 26) {
    case 0:
      return b.add(operand(), operand());
    case 1:
      return b.mul(operand(), operand());
    case 2:
      return b.sub(operand(), operand());
    case 3:
      return b.div(operand(), operand());
    case 4:
      return b.max(operand(), operand());
    case 5:
      return b.compare(pick({ir::ComparePredicate::Lt, ir::ComparePredicate::Eq, ir::ComparePredicate::Ne}), operand(),
                       operand());
    case 6:
    case 7:
      return b.where(any(), operand(), operand());
    case 8:
      return b.cast(any(), pick({ElementType::F32, ElementType::I32, ElementType::I64, ElementType::F16,
                                 ElementType::U8, ElementType::I1, ElementType::F64}));
    case 9:
    case 10:
      return b.matmul(any(), any());
    case 11:
    case 12:
      return b.reduce(pick({ir::ReduceKind::Sum, ir::ReduceKind::Max, ir::ReduceKind::Prod, ir::ReduceKind::Min,
                            ir::ReduceKind::Mean}),
                      any(), axes(), random() % 2);
    case 13:
      return b.cumsum(any(), axis(), random() % 2, random() % 2);
    case 14:
      return b.softmax(any(), axis());
    case 15:
      return b.logSoftmax(any(), axis());
    case 16:
      return b.layerNorm(any(), std::nullopt, std::nullopt, axis());
    case 17:
      return b.reshape(any(), shape());
    case 18:
      return b.transpose(any(), pick<std::vector<int64_t>>({{1, 0}, {0, 2, 1}, {1, 0, 2}, {2, 1, 0}}));
    case 19:
      return b.broadcastTo(any(), shape());
    case 20:
      return b.slice(any(), axis(), 0, pick<GraphDim>({GraphDim("N"), GraphDim(1), GraphDim(2), GraphDim("M")}), 1);
    case 21:
      return b.concat({any(), any()}, axis());
    case 22:
      return b.gather(any(), any(), axis());
    case 23:
      return b.neg(any());
    case 24:
      return random() % 2 ? b.isNaN(any()) : b.bitNot(any());
    default:
      return random() % 3 ? b.iota(shape(), axis(), 0) : b.randomNormal(ElementType::F32, shape());
    }
  }
  std::vector<Value> inputsOf(const Model &model, const Binding &binding) {
    std::vector<Value> made;
    for (size_t i = 0; i != model.signature().inputs.size(); ++i) {
      ElementType type = model.signature().inputs[i]->type;
      Value value{type, {}, {}};
      size_t count = 1;
      for (const DimExpr &dim : model.inputShapes()[i]) {
        value.shape.push_back(*dim.evaluate(binding));
        count *= static_cast<size_t>(value.shape.back());
      }
      auto fill = [&](auto next) {
        std::vector<decltype(next())> numbers(count);
        for (auto &number : numbers)
          number = next();
        value.bytes.resize(count * sizeof(numbers[0]));
        std::memcpy(value.bytes.data(), numbers.data(), value.bytes.size());
      };
      auto real = [&] {
        return random() % 4 ? static_cast<double>(random() % 2000) / 700 - 1.3
                            : pick<double>({-0.0, 0.0, 1e-30, -1e-30, 1.0, INFINITY, -INFINITY, NAN, 1e-40});
      };
      bool tame = random() % 3 != 0;
      auto value32 = [&] {
        return static_cast<float>(tame ? static_cast<double>(random() % 2000) / 700 - 1.3 : real());
      };
      switch (type) {
      case ElementType::F32:
        fill(value32);
        break;
      case ElementType::F64:
        fill([&] { return static_cast<double>(value32()); });
        break;
      case ElementType::I64:
        fill([&] { return static_cast<int64_t>(random() % 3); });
        break;
      case ElementType::I32:
        fill([&] { return static_cast<int32_t>(random() % 5) - 1; });
        break;
      default:
        fill([&] { return static_cast<uint8_t>(random() % 2); });
      }
      made.push_back(std::move(value));
    }
    return made;
  }
  std::mt19937 random;
  GraphBuilder b;
  std::vector<GraphValue> values;
};

TEST(PaddedRun, WhatMayBePaddedKeepsItsBits) {
  size_t paddable = 0;
  for (uint32_t seed = 0; seed != 150 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomPaddedGraph(seed).check(paddable);
  }
  EXPECT_GT(paddable, 30u);
}

} // namespace
