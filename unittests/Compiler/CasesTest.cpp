//===- CasesTest.cpp - what must happen, end to end -----------------------===//
//
// Graphs as text, loaded, compiled and run; the right values are worked out by hand.
//
//===----------------------------------------------------------------------===//
#include "CompilerTest.h"

#include "ModelText.h"

#include "gmock/gmock.h"

#include <array>
#include <atomic>
#include <cmath>
#include <thread>

using namespace rlx;
using namespace rlx::compilertest;
using testing::AllOf;
using testing::HasSubstr;
using Floats = std::vector<float>;
using Longs = std::vector<int64_t>;

namespace {

std::shared_ptr<WeightTable> weightsOf(const std::vector<std::pair<std::string, Value>> &rows) {
  auto table = std::make_shared<WeightTable>();
  for (const auto &[name, value] : rows) {
    auto kept = std::make_shared<const Value>(value);
    Status status = table->add(name, {kept->type, kept->shape, std::as_bytes(std::span(kept->bytes)), kept});
    EXPECT_TRUE(static_cast<bool>(status)) << name;
  }
  return table;
}

Value sequence(Shape shape, float first = 0) {
  Floats values(static_cast<size_t>(*elementCount(shape)));
  for (size_t i = 0; i != values.size(); ++i)
    values[i] = first + static_cast<float>(i);
  return f32(std::move(shape), values);
}

/// y = x under these dims.
std::string copyGraph(const std::vector<std::string> &names, const std::vector<std::string> &shape,
                      const std::string &element = "f32") {
  std::string type = typeOf(shape, element);
  return graphText(names, {{"x", type}}, {{"y", type}}, "%y = rlx.abs %x : $x -> $y");
}

/// Two inputs of those shapes, a copy of each.
std::string copiesGraph(const std::vector<std::string> &names, const std::vector<std::string> &x,
                        const std::vector<std::string> &m) {
  return graphText(names, {{"x", typeOf(x)}, {"m", typeOf(m)}}, {{"y", typeOf(x)}, {"z", typeOf(m)}},
                   "%y = rlx.abs %x : $x -> $y\n%z = rlx.abs %m : $m -> $z");
}

/// What a run solves from these named values.
Result<Binding> solve(const Loaded &loaded, const std::vector<NamedTensor> &inputs, const Binding &given = {}) {
  return loaded->solve(inputs, given);
}

std::string solveError(const Loaded &loaded, const std::vector<NamedTensor> &inputs, const Binding &given = {}) {
  Result<Binding> solved = solve(loaded, inputs, given);
  if (!solved)
    return solved.error().message;
  ADD_FAILURE() << "must not be solved: " << bindingString(*solved);
  return {};
}

/// As many f32 zeros, in no shape.
Value zeros(int64_t count) { return f32({count}, Floats(static_cast<size_t>(count))); }

#define EXPECT_VALUES(tensor, expectedShape, ...)                                                                      \
  EXPECT_EQ(difference(tensor, f32(Shape expectedShape, Floats __VA_ARGS__)), "")

//===----------------------------------------------------------------------===//
// Binding
//===----------------------------------------------------------------------===//

TEST(Cases, Case1_MatmulIsStaticOnceBound) {
  Loaded loaded(graphText({"B", "S"}, {{"x", typeOf({"B", "S", "4"})}}, {{"y", typeOf({"B", "S", "8"})}},
                          "%w = rlx.weight \"w\" : tensor<4x8xf32>\n"
                          "%y = rlx.matmul %x, %w : $x, tensor<4x8xf32> -> $y"),
                weightsOf({{"w", f32({4, 8}, Floats(32, 1))}}));
  auto y = loaded.outputs({sequence({2, 16, 4})});
  EXPECT_EQ(y[0].shape(), (Shape{2, 16, 8}));
  Floats values = valuesOf<float>(y[0]);
  EXPECT_EQ(values[0], 0 + 1 + 2 + 3);
  EXPECT_EQ(values[255], 124 + 125 + 126 + 127);
}

TEST(Cases, Case2_OneUnknownFromAFlatBuffer) {
  Loaded loaded(copyGraph({"S"}, {"3", "S", "64"}));
  Value x = zeros(24576);
  NamedTensor inputs[] = {{"x", x.flat()}};
  auto y = loaded->run(inputs);
  ASSERT_GOOD(y);
  EXPECT_EQ((*y)[0].shape(), (Shape{3, 128, 64}));
}

TEST(Cases, Case3_UnusedAndPartialBindings) {
  Loaded loaded(copyGraph({"B", "S"}, {"B", "S"}));
  Value x = zeros(6);
  EXPECT_THAT(solveError(loaded, {{"x", x.flat()}}, {{"T", 1}}), HasSubstr("'T'"));
  // B alone leaves S, which the elements give.
  auto solved = solve(loaded, {{"x", x.flat()}}, {{"B", 2}});
  ASSERT_GOOD(solved);
  EXPECT_EQ(*solved, (Binding{{"B", 2}, {"S", 3}}));
  Status prepared = loaded->prepare({{"B", 2}});
  ASSERT_FALSE(static_cast<bool>(prepared));
  EXPECT_THAT(prepared.error().message, HasSubstr("S"));
}

TEST(Cases, Case4_Conflict) {
  Loaded loaded(copiesGraph({"B"}, {"B", "3"}, {"B", "3"}));
  Value six = zeros(6), nine = zeros(9);
  EXPECT_THAT(solveError(loaded, {{"x", six.flat()}, {"m", nine.flat()}}),
              AllOf(HasSubstr("'B'"), HasSubstr("2"), HasSubstr("3"), HasSubstr("'x'"), HasSubstr("'m'")));
  EXPECT_THAT(loaded.error({sequence({2, 3}), sequence({3, 3})}),
              AllOf(HasSubstr("'B'"), HasSubstr("2"), HasSubstr("3"), HasSubstr("'x'"), HasSubstr("'m'")));
}

TEST(Cases, Case5_NotDivisible) {
  Loaded four(copyGraph({"B"}, {"B", "4"}));
  Value ten = zeros(10), none = zeros(0), one = zeros(1);
  EXPECT_THAT(solveError(four, {{"x", ten.flat()}}), AllOf(HasSubstr("'x'"), HasSubstr("10"), HasSubstr("4")));
  Loaded zero(copyGraph({"B"}, {"B", "0"}));
  EXPECT_THAT(solveError(zero, {{"x", none.flat()}}), HasSubstr("B"));
  EXPECT_THAT(solveError(zero, {{"x", one.flat()}}), HasSubstr("'x'"));
}

TEST(Cases, Case6_TwoUnknowns) {
  Loaded loaded(copyGraph({"B", "S"}, {"B", "S"}));
  Value x = zeros(6);
  EXPECT_THAT(solveError(loaded, {{"x", x.flat()}}), AllOf(HasSubstr("B"), HasSubstr("S")));
  auto solved = solve(loaded, {{"x", x.flat()}}, {{"B", 3}});
  ASSERT_GOOD(solved);
  EXPECT_EQ(solved->at("S"), 2);
}

TEST(Cases, Case7_ASquare) {
  Loaded loaded(copyGraph({"N"}, {"N", "N"}));
  Value nine = zeros(9), eight = zeros(8);
  auto solved = solve(loaded, {{"x", nine.flat()}});
  ASSERT_GOOD(solved);
  EXPECT_EQ(solved->at("N"), 3);
  EXPECT_THAT(solveError(loaded, {{"x", eight.flat()}}), AllOf(HasSubstr("N"), HasSubstr("8")));
}

TEST(Cases, Case8_OneInputHelpsAnother) {
  Loaded loaded(copiesGraph({"B", "S"}, {"B", "S", "4"}, {"B"}));
  Value x = zeros(24), m = zeros(2);
  for (bool turned : {false, true}) {
    std::vector<NamedTensor> inputs = {{"x", x.flat()}, {"m", m.flat()}};
    if (turned)
      std::swap(inputs[0], inputs[1]);
    auto y = loaded->run(inputs);
    ASSERT_GOOD(y);
    EXPECT_EQ((*y)[0].shape(), (Shape{2, 3, 4}));
    EXPECT_EQ((*y)[1].shape(), (Shape{2}));
  }
}

TEST(Cases, Case9_ZeroElements) {
  Loaded loaded(copyGraph({"B"}, {"B", "4"}));
  Value none = zeros(0);
  NamedTensor inputs[] = {{"x", none.flat()}};
  auto y = loaded->run(inputs);
  ASSERT_GOOD(y);
  EXPECT_VALUES((*y)[0], ({0, 4}), {});
}

TEST(Cases, Case10_InputsThatDoNotFit) {
  Loaded loaded(graphText({}, {{"a", typeOf({"2", "2"})}, {"b", typeOf({"2"})}}, {{"y", typeOf({"2", "2"})}},
                          "%y = rlx.add %a, %b : $a, $b -> $y"));
  Value a = sequence({2, 2}), b = sequence({2}), three = zeros(3);
  EXPECT_THAT(solveError(loaded, {{"a", three.flat()}, {"b", b.view()}}), AllOf(HasSubstr("'a'"), HasSubstr("3")));
  EXPECT_THAT(solveError(loaded, {{"a", a.view()}, {"b", b.view()}, {"c", b.view()}}), HasSubstr("'c'"));
  EXPECT_THAT(solveError(loaded, {{"a", a.view()}}), HasSubstr("'b'"));
  EXPECT_THAT(solveError(loaded, {{"a", a.view()}, {"b", b.view()}, {"b", b.view()}}), HasSubstr("'b'"));
}

TEST(Cases, Case11_BytesOfF16) {
  Loaded loaded(copyGraph({"B"}, {"B", "4"}, "f16"));
  Value x = f16({8}, {0xBC00, 0, 0, 0, 0, 0, 0, 0x3C00});
  ASSERT_EQ(x.bytes.size(), 16u);
  NamedTensor inputs[] = {{"x", x.flat()}};
  auto y = loaded->run(inputs);
  ASSERT_GOOD(y);
  EXPECT_EQ(difference((*y)[0], f16({2, 4}, {0x3C00, 0, 0, 0, 0, 0, 0, 0x3C00})), "");
}

TEST(Cases, Case12_OrderOfNamesDoesNotMatter) {
  Loaded loaded(copyGraph({"B", "S"}, {"B", "S"}));
  ASSERT_GOOD(loaded->prepare({{"B", 2}, {"S", 3}}));
  ASSERT_GOOD(loaded->prepare({{"S", 3}, {"B", 2}}));
  loaded.outputs({sequence({2, 3})});
  EXPECT_EQ(loaded->stats().misses, 1u);
  EXPECT_EQ(loaded->stats().hits, 2u);
}

TEST(Cases, Case13_OutputsJoinTheSolving) {
  std::string sums = typeOf({"n"});
  Loaded loaded(graphText({"n", "m"}, {{"x", typeOf({"n", "m"})}}, {{"y", typeOf({"2 * n"})}},
                          "%s = rlx.reduce sum %x axes [1] : $x -> " + sums +
                              "\n%y = rlx.concat %s, %s axis 0 : " + sums + ", " + sums + " -> $y"));
  Value x = sequence({12});
  Floats y(7);
  NamedTensor inputs[] = {{"x", x.flat()}};
  OutputBuffer outputs[] = {{"y", ElementType::F32, y.data(), 7 * sizeof(float)}};
  Status status = loaded->runInto(inputs, outputs);
  ASSERT_FALSE(static_cast<bool>(status));
  EXPECT_THAT(status.error().message, AllOf(HasSubstr("no integer solution"), HasSubstr("7"), HasSubstr("'y'")));
  EXPECT_EQ(loaded->stats().misses, 0u);
  // 6 make n 3, and then the 12 elements make m 4.
  outputs[0].bytes = 6 * sizeof(float);
  ASSERT_GOOD(loaded->runInto(inputs, outputs));
  EXPECT_EQ(y, (Floats{6, 22, 38, 6, 22, 38, 0}));
}

TEST(Cases, Case14_NamesThatNothingBinds) {
  EXPECT_THAT(loadError(graphText({"B", "K"}, {{"x", typeOf({"B"})}}, {{"y", typeOf({"B", "K"})}},
                                  "%c = rlx.constant dense<1.0> : tensor<1x1xf32>\n"
                                  "%y = rlx.broadcast_to %c : tensor<1x1xf32> -> $y")),
              HasSubstr("K"));
  // floordiv(n, 2) = 3 is n = 6 or n = 7.
  Loaded loaded(copyGraph({"n"}, {"floordiv(n, 2)"}));
  Value x = zeros(3);
  EXPECT_THAT(solveError(loaded, {{"x", x.flat()}}), HasSubstr("n"));
  auto solved = solve(loaded, {{"x", x.flat()}}, {{"n", 7}});
  ASSERT_GOOD(solved);
  EXPECT_THAT(solveError(loaded, {{"x", x.flat()}}, {{"n", 8}}), HasSubstr("n"));
  RunOptions given;
  given.binding = {{"n", 6}};
  EXPECT_EQ(loaded.outputs({x}, given)[0].shape(), (Shape{3}));
}

TEST(Cases, Case14_OnnxDropsNamesOfOutputsOnly) {
  auto loaded = loadOnnx(test::input("x", test::f32, {"B"}) + test::node("n", "Relu", {"x"}, {"y"}) +
                         "output { name: 'y' " + test::tensorType(test::f32, {"unseen"}) + "}");
  ASSERT_GOOD(loaded);
  ASSERT_EQ(loaded->model->signature().dims.size(), 1u);
  EXPECT_EQ(loaded->model->signature().dims[0]->name, "B");
  EXPECT_VALUES(Loaded(loaded->model).outputs({f32({2}, {-1, 2})})[0], ({2}), {0, 2});
}

TEST(Cases, Case15_SizesOutOfReason) {
  Loaded matrix(copyGraph({"N", "M"}, {"N", "M"}));
  Loaded vector(copyGraph({"N"}, {"N"}));
  EXPECT_FALSE(static_cast<bool>(vector->prepare({{"N", -1}})));
  EXPECT_FALSE(static_cast<bool>(vector->prepare({{"N", int64_t(1) << 62}})));
  EXPECT_FALSE(static_cast<bool>(vector->prepare({{"N", 4611686018427387906}})));
  EXPECT_FALSE(static_cast<bool>(matrix->prepare({{"N", int64_t(1) << 32}, {"M", int64_t(1) << 32}})));
  EXPECT_EQ(vector->stats().entries + matrix->stats().entries, 0u);
  // The same by way of a run's inputs.
  Value four = zeros(4);
  Shape minus = {-1}, huge = {int64_t(1) << 62};
  for (const Shape &shape : {minus, huge}) {
    TensorView view = four.view();
    view.shape = shape;
    EXPECT_THAT(solveError(vector, {{"x", view}}), HasSubstr("'x'"));
  }
}

TEST(Cases, Case15_SizesBetweenInputAndOutput) {
  // Input and output are small; what lies between them is 2^53 bytes for each of the 1024.
  std::string large = typeOf({"2147483648", "1048576", "N"});
  Loaded loaded(graphText({"N"}, {{"x", typeOf({"N"})}}, {{"y", typeOf({"N"})}},
                          "%b = rlx.broadcast_to %x : $x -> " + large + "\n%e = rlx.exp %b : " + large + " -> " +
                              large + "\n%y = rlx.reduce sum %e axes [0, 1] : " + large + " -> $y"));
  Value x = zeros(1024);
  NamedTensor inputs[] = {{"x", x.view()}};
  auto y = loaded->run(inputs);
  ASSERT_FALSE(static_cast<bool>(y));
  EXPECT_EQ(y.error().code, ErrorCode::OutOfRange) << y.error().message;
  EXPECT_EQ(loaded->stats().entries, 0u);
}

TEST(Cases, Case59_IssueHugeInnerValueFromATemplate) {
  // As above, but from the template of a size that fits: an error too, and not 2^61 iterations.
  std::string large = typeOf({"2147483648", "1048576", "N"});
  Loaded loaded(graphText({"N"}, {{"x", typeOf({"N"})}}, {{"y", typeOf({"N"})}},
                          "%b = rlx.broadcast_to %x : $x -> " + large + "\n%e = rlx.exp %b : " + large + " -> " +
                              large + "\n%y = rlx.reduce sum %e axes [0, 1] : " + large + " -> $y"));
  ASSERT_TRUE(static_cast<bool>(loaded->prepare({{"N", 2}})));
  Status prepared = loaded->prepare({{"N", 1024}});
  ASSERT_FALSE(static_cast<bool>(prepared));
  EXPECT_EQ(prepared.error().code, ErrorCode::OutOfRange) << prepared.error().message;
}

//===----------------------------------------------------------------------===//
// Shapes
//===----------------------------------------------------------------------===//

TEST(Cases, Case16_Linear) {
  std::string type = typeOf({"B", "S", "64"});
  Loaded loaded(graphText({"B", "S"}, {{"x", type}}, {{"y", type}},
                          "%w = rlx.weight \"w\" : tensor<64x64xf32>\n"
                          "%h = rlx.matmul %x, %w : $x, tensor<64x64xf32> -> $y\n"
                          "%y = rlx.matmul %h, %w : $x, tensor<64x64xf32> -> $y"),
                weightsOf({{"w", f32({64, 64}, Floats(4096, 1))}}));
  EXPECT_EQ(loaded.outputs({f32({1, 8, 64}, Floats(512, 1))})[0].shape(), (Shape{1, 8, 64}));
  auto y = loaded.outputs({f32({1, 128, 64}, Floats(8192, 1))});
  EXPECT_EQ(y[0].shape(), (Shape{1, 128, 64}));
  EXPECT_EQ(valuesOf<float>(y[0]), Floats(8192, 64 * 64));
  auto held = loaded->bindings(); // latest first
  ASSERT_EQ(held.size(), 2u);
  EXPECT_GT(held[0].arenaBytes, held[1].arenaBytes);
  EXPECT_GE(held[1].arenaBytes, 8u * 64 * 4);
}

TEST(Cases, Case17_Concat) {
  std::string one = typeOf({"1", "1", "8"}), joined = typeOf({"1", "P + 1", "8"});
  Loaded loaded(graphText({"P"}, {{"p", typeOf({"1", "P", "8"})}, {"n", one}}, {{"y", joined}, {"z", joined}},
                          "%y = rlx.concat %p, %n axis 1 : $p, $n -> $y\n%z = rlx.neg %y : $y -> $z"));
  auto outputs = loaded.outputs({sequence({1, 4, 8}), sequence({1, 1, 8}, 100)});
  EXPECT_EQ(outputs[0].shape(), (Shape{1, 5, 8}));
  EXPECT_EQ(outputs[1].shape(), (Shape{1, 5, 8}));
  EXPECT_EQ(valuesOf<float>(outputs[0])[31], 31);
  EXPECT_EQ(valuesOf<float>(outputs[0])[39], 107);
  EXPECT_EQ(valuesOf<float>(outputs[1])[39], -107);
  Loaded twice(graphText({"S"}, {{"x", typeOf({"S"})}}, {{"y", typeOf({"2 * S"})}},
                         "%y = rlx.concat %x, %x axis 0 : $x, $x -> $y"));
  EXPECT_VALUES(twice.outputs({f32({3}, {1, 2, 3})})[0], ({6}), {1, 2, 3, 1, 2, 3});
}

/// x of that shape reshaped by ONNX.
Result<compiler::LoadedModel> reshapeModel(const std::vector<std::string> &dims, const std::vector<int64_t> &target,
                                           bool allowZero = false) {
  return loadOnnx(
      test::input("x", test::f32, dims) + test::ints("target", target) +
      test::node("Reshape_3", "Reshape", {"x", "target"}, {"y"}, allowZero ? test::intAttr("allowzero", 1) : "") +
      test::output("y"));
}

std::vector<int64_t> reshaped(const std::vector<std::string> &dims, const std::vector<int64_t> &target, Shape shape,
                              bool allowZero = false) {
  auto loaded = reshapeModel(dims, target, allowZero);
  if (!loaded) {
    ADD_FAILURE() << loaded.error().message;
    return {};
  }
  Value x = sequence(shape);
  auto y = Loaded(loaded->model).outputs({x});
  EXPECT_EQ(y[0].elements(), *elementCount(shape));
  const auto *bytes = static_cast<const uint8_t *>(y[0].data());
  EXPECT_TRUE(std::equal(x.bytes.begin(), x.bytes.end(), bytes, bytes + y[0].bytes()));
  return y[0].shape();
}

/// The message, whether loading or running is what fails.
std::string reshapeError(const std::vector<std::string> &dims, const std::vector<int64_t> &target, Shape shape,
                         bool allowZero = false) {
  auto loaded = reshapeModel(dims, target, allowZero);
  return loaded ? Loaded(loaded->model).error({sequence(std::move(shape))}) : loaded.error().message;
}

TEST(Cases, Case18_Reshape) {
  EXPECT_EQ(reshaped({"S", "4"}, {-1, 2}, {3, 4}), (Shape{6, 2}));
  EXPECT_EQ(reshaped({"4", "15", "384"}, {60, -1}, {4, 15, 384}), (Shape{60, 384}));
  EXPECT_EQ(reshaped({"A", "B", "C"}, {60, -1}, {4, 15, 384}), (Shape{60, 384}));
  EXPECT_THAT(reshapeError({"4", "15"}, {7, -1}, {4, 15}), HasSubstr("Reshape_3"));
  EXPECT_THAT(reshapeError({"A", "B"}, {7, -1}, {4, 15}), HasSubstr("7"));
}

TEST(Cases, Case19_BroadcastOfANameAndANumber) {
  Loaded loaded(graphText({"N"}, {{"a", typeOf({"N", "3"})}, {"b", typeOf({"5", "3"})}}, {{"y", typeOf({"5", "3"})}},
                          "%y = rlx.add %a, %b : $a, $b -> $y"));
  auto five = loaded.outputs({sequence({5, 3}), sequence({5, 3})});
  EXPECT_EQ(valuesOf<float>(five[0])[14], 28);
  auto one = loaded.outputs({sequence({1, 3}), sequence({5, 3})});
  EXPECT_EQ(one[0].shape(), (Shape{5, 3}));
  EXPECT_EQ(valuesOf<float>(one[0])[14], 14 + 2);
  EXPECT_THAT(loaded.error({sequence({4, 3}), sequence({5, 3})}),
              AllOf(HasSubstr("N"), HasSubstr("4"), HasSubstr("5")));
  // The other order of runs, in another cache.
  Loaded again(loaded.model);
  EXPECT_EQ(valuesOf<float>(again.outputs({sequence({1, 3}), sequence({5, 3})})[0])[14], 16);
  EXPECT_EQ(valuesOf<float>(again.outputs({sequence({5, 3}), sequence({5, 3})})[0])[14], 28);
}

TEST(Cases, Case19_BroadcastOfTwoNames) {
  Loaded loaded(graphText({"N", "M"}, {{"a", typeOf({"N", "4"})}, {"b", typeOf({"M", "4"})}},
                          {{"y", typeOf({"broadcast(N, M)", "4"})}}, "%y = rlx.add %a, %b : $a, $b -> $y"));
  const std::pair<int64_t, int64_t> sizes[] = {{1, 5}, {5, 5}, {5, 1}};
  for (auto [n, m] : sizes) {
    auto y = loaded.outputs({sequence({n, 4}), sequence({m, 4}, 100)});
    ASSERT_EQ(y[0].shape(), (Shape{5, 4}));
    for (int64_t i = 0; i != 20; ++i)
      EXPECT_EQ(valuesOf<float>(y[0])[static_cast<size_t>(i)],
                static_cast<float>((n == 1 ? i % 4 : i) + 100 + (m == 1 ? i % 4 : i)));
  }
  EXPECT_THAT(loaded.error({sequence({3, 4}), sequence({5, 4})}),
              AllOf(HasSubstr("N"), HasSubstr("M"), HasSubstr("3"), HasSubstr("5")));
}

TEST(Cases, Case20_ConcatAgainstAName) {
  Loaded loaded(graphText({"N", "M", "K"},
                          {{"a", typeOf({"N", "4"})}, {"b", typeOf({"M", "4"})}, {"z", typeOf({"K", "4"})}},
                          {{"y", typeOf({"K", "4"})}},
                          "%c = rlx.concat %a, %b axis 0 : $a, $b -> tensor<?x4xf32, #rlx.dims<[M + N, 4]>>\n"
                          "%t = rlx.assume_dims %c : tensor<?x4xf32, #rlx.dims<[M + N, 4]>> -> $y\n"
                          "%y = rlx.add %t, %z : $y, $z -> $y"));
  auto y = loaded.outputs({sequence({2, 4}), sequence({3, 4}, 100), f32({5, 4}, Floats(20, 0.5f))});
  EXPECT_EQ(valuesOf<float>(y[0])[7], 7.5f);
  EXPECT_EQ(valuesOf<float>(y[0])[8], 100.5f);
  EXPECT_THAT(loaded.error({sequence({2, 4}), sequence({3, 4}), sequence({6, 4})}),
              AllOf(HasSubstr("K is 6"), testing::AnyOf(HasSubstr("N+M is 5"), HasSubstr("M+N is 5"))));
  auto second = loaded.outputs({sequence({0, 4}), sequence({3, 4}, 100), f32({3, 4}, Floats(12, 0))});
  EXPECT_EQ(valuesOf<float>(second[0]), (Floats{100, 101, 102, 103, 104, 105, 106, 107, 108, 109, 110, 111}));
}

TEST(Cases, Case20_ConcatBroadcastAgainstAName) {
  // As ONNX has it: Add broadcasts, so K = 1 is legal as well.
  auto model = loadOnnx(test::input("a", test::f32, {"N", "4"}) + test::input("b", test::f32, {"M", "4"}) +
                        test::input("z", test::f32, {"K", "4"}) +
                        test::node("Concat_1", "Concat", {"a", "b"}, {"c"}, test::intAttr("axis", 0)) +
                        test::node("Add_2", "Add", {"c", "z"}, {"y"}) + test::output("y"));
  ASSERT_GOOD(model);
  Loaded loaded(model->model);
  auto y = loaded.outputs({sequence({2, 4}), sequence({3, 4}, 100), f32({5, 4}, Floats(20, 0.5f))});
  EXPECT_EQ(valuesOf<float>(y[0])[8], 100.5f);
  EXPECT_THAT(loaded.error({sequence({2, 4}), sequence({3, 4}), sequence({6, 4})}),
              AllOf(HasSubstr("Add_2"), HasSubstr("6"), HasSubstr("5")));
  EXPECT_EQ(loaded.outputs({sequence({2, 4}), sequence({3, 4}), sequence({1, 4})})[0].shape(), (Shape{5, 4}));
  EXPECT_EQ(loaded.outputs({sequence({0, 4}), sequence({3, 4}, 100), f32({3, 4}, Floats(12, 0))})[0].shape(),
            (Shape{3, 4}));
}

TEST(Cases, Case21_DeclaredAndInferredShapes) {
  EXPECT_THAT(loadError("rlx.graph @main(%x: tensor<2x3xf32>) -> tensor<2x4xf32> {\n"
                        "%y = rlx.abs %x : tensor<2x3xf32> -> tensor<2x3xf32>\nrlx.output %y : tensor<2x3xf32>\n}"),
              AllOf(HasSubstr("3"), HasSubstr("4")));
  EXPECT_THAT(loadError("rlx.graph @main(%x: tensor<2x3xf32>) -> tensor<2x4xf32> {\n"
                        "%y = rlx.abs %x : tensor<2x3xf32> -> tensor<2x4xf32>\nrlx.output %y : tensor<2x4xf32>\n}"),
              AllOf(HasSubstr("3"), HasSubstr("4")));
  // A scalar for [1]: the elements are the same, and the promise is what is reported.
  Loaded scalar("rlx.graph @main(%x: tensor<3xf32>) -> tensor<1xf32> {\n"
                "%y = rlx.reduce sum %x axes [0] : tensor<3xf32> -> tensor<f32>\nrlx.output %y : tensor<f32>\n}");
  EXPECT_VALUES(scalar.outputs({f32({3}, {1, 2, 3})})[0], ({1}), {6});
  auto loaded = loadOnnx(test::input("x", test::f32, {"2", "3"}) + test::node("n", "Relu", {"x"}, {"y"}) +
                         "output { name: 'y' " + test::tensorType(test::f32, {"2", "4"}) + "}");
  ASSERT_GOOD(loaded);
  ASSERT_EQ(loaded->warnings.size(), 1u);
  EXPECT_THAT(loaded->warnings[0], HasSubstr("y"));
  EXPECT_EQ(Loaded(loaded->model).outputs({sequence({2, 3})})[0].shape(), (Shape{2, 3}));
}

TEST(Cases, Case22_GatherAndInnerSizes) {
  std::string table = typeOf({"30522", "384"}), ids = typeOf({"B", "S"}, "i64");
  Floats rows(30522 * 384);
  for (size_t i = 0; i != rows.size(); ++i)
    rows[i] = static_cast<float>(i / 384);
  Loaded loaded(
      graphText({"B", "S"}, {{"ids", ids}}, {{"y", typeOf({"B", "S", "384"})}},
                "%t = rlx.weight \"t\" : " + table + "\n%y = rlx.gather %t, %ids axis 0 : " + table + ", $ids -> $y"),
      weightsOf({{"t", f32({30522, 384}, rows)}}));
  std::vector<int64_t> indices(60);
  for (size_t i = 0; i != 60; ++i)
    indices[i] = static_cast<int64_t>(i * 517);
  auto y = loaded.outputs({i64({4, 15}, indices)});
  ASSERT_EQ(y[0].shape(), (Shape{4, 15, 384}));
  EXPECT_EQ(valuesOf<float>(y[0])[59 * 384 + 383], 59 * 517);
  EXPECT_THAT(loadError("rlx.graph @main(%a: tensor<2x384xf32>, %b: tensor<512x4xf32>) -> tensor<2x4xf32> {\n"
                        "%y = rlx.matmul %a, %b : tensor<2x384xf32>, tensor<512x4xf32> -> tensor<2x4xf32>\n"
                        "rlx.output %y : tensor<2x4xf32>\n}"),
              AllOf(HasSubstr("384"), HasSubstr("512")));
}

TEST(Cases, Case23_ReshapeWithZeros) {
  EXPECT_EQ(reshaped({"2", "3", "4"}, {2, -1}, {2, 3, 4}), (Shape{2, 12}));
  EXPECT_EQ(reshaped({"0", "10"}, {-1, 10}, {0, 10}), (Shape{0, 10}));
  EXPECT_EQ(reshaped({"N", "10"}, {-1, 10}, {0, 10}), (Shape{0, 10}));
  EXPECT_THAT(reshapeError({"1", "0"}, {-1, 0}, {1, 0}, /*allowZero=*/true), HasSubstr("Reshape_3"));
  EXPECT_THAT(reshapeError({"1", "N"}, {-1, 0}, {1, 0}), HasSubstr("Reshape_3"));
  EXPECT_THAT(reshapeError({"2", "3"}, {-1, -1}, {2, 3}), HasSubstr("Reshape_3"));
}

//===----------------------------------------------------------------------===//
// Runs and cache
//===----------------------------------------------------------------------===//

Loaded linear() {
  return Loaded(graphText({"B"}, {{"x", typeOf({"B", "4"})}}, {{"y", typeOf({"B", "2"})}},
                          "%w = rlx.weight \"w\" : tensor<4x2xf32>\n%z = rlx.constant dense<0.0> : tensor<f32>\n"
                          "%m = rlx.matmul %x, %w : $x, tensor<4x2xf32> -> $y\n"
                          "%y = rlx.max %m, %z : $y, tensor<f32> -> $y"),
                weightsOf({{"w", f32({4, 2}, {1, 0, 0, 1, 1, 0, 0, 1})}}));
}

TEST(Cases, Case24_Linear) { EXPECT_VALUES(linear().outputs({f32({1, 4}, {1, 2, 3, 4})})[0], ({1, 2}), {4, 6}); }

TEST(Cases, Case25_BatchOneThreeOne) {
  Loaded loaded = linear();
  Value three = f32({3, 4}, {1, 2, 3, 4, -1, -2, -3, -4, 10, -20, 30, 40});
  EXPECT_VALUES(loaded.outputs({f32({1, 4}, {1, 2, 3, 4})})[0], ({1, 2}), {4, 6});
  EXPECT_VALUES(loaded.outputs({three})[0], ({3, 2}), {4, 6, 0, 0, 40, 20});
  EXPECT_VALUES(loaded.outputs({f32({1, 4}, {1, 2, 3, 4})})[0], ({1, 2}), {4, 6});
  EXPECT_LE(loaded->stats().templatesMade, 2u);
  EXPECT_EQ(loaded->stats().misses, 2u);
  EXPECT_EQ(loaded->stats().hits, 1u);
}

TEST(Cases, Case26_ParamsAtAnyTime) {
  Loaded loaded(graphText({"B"}, {{"x", typeOf({"B", "2"})}}, {{"y", typeOf({"B", "2"})}},
                          "%p = rlx.param \"p\" : tensor<2xf32>\n%y = rlx.add %x, %p : $x, tensor<2xf32> -> $y"));
  Value one = f32({1, 2}, {1, 2}), two = f32({2, 2}, {1, 2, 3, 4});
  EXPECT_THAT(loaded.error({one}), HasSubstr("'p'"));
  ASSERT_GOOD(loaded->setParam("p", Floats{10, 20})); // before the first run
  EXPECT_VALUES(loaded.outputs({one})[0], ({1, 2}), {11, 22});
  ASSERT_GOOD(loaded->setParam("p", Floats{100, 200})); // after it, and before another shape
  EXPECT_VALUES(loaded.outputs({two})[0], ({2, 2}), {101, 202, 103, 204});
  EXPECT_VALUES(loaded.outputs({one})[0], ({1, 2}), {101, 202});
  Floats typed = {-1, -2};
  ASSERT_GOOD(loaded->setParamTyped("p", std::as_bytes(std::span(typed)), ElementType::F32));
  EXPECT_VALUES(loaded.outputs({one})[0], ({1, 2}), {0, 0});
  EXPECT_VALUES(loaded.outputs({two})[0], ({2, 2}), {0, 0, 2, 2});
  ASSERT_GOOD(loaded->setParam("p", Floats{5, 5}));
  ASSERT_GOOD(loaded->finalizeParams());
  EXPECT_VALUES(loaded.outputs({two})[0], ({2, 2}), {6, 7, 8, 9});
  ASSERT_GOOD(loaded->setParam("p", Floats{0, 1})); // reopens it
  EXPECT_VALUES(loaded.outputs({two})[0], ({2, 2}), {1, 3, 3, 5});
  EXPECT_THAT(loaded->setParam("q", Floats{1}).error().message, HasSubstr("'q'"));
  EXPECT_THAT(loaded->setParam("p", Floats{1}).error().message, HasSubstr("'p'"));
  EXPECT_EQ(loaded->stats().misses, 2u);
}

TEST(Cases, Case26_ParamAsAMatrix) {
  // A param that a matmul wants packed follows each setting.
  Loaded loaded(graphText({"B"}, {{"x", typeOf({"B", "2"})}}, {{"y", typeOf({"B", "3"})}},
                          "%w = rlx.param \"w\" : tensor<2x3xf32>\n"
                          "%y = rlx.matmul %x, %w : $x, tensor<2x3xf32> -> $y"));
  ASSERT_GOOD(loaded->setParam("w", Floats{1, 2, 3, 4, 5, 6}));
  EXPECT_VALUES(loaded.outputs({f32({1, 2}, {1, 10})})[0], ({1, 3}), {41, 52, 63});
  ASSERT_GOOD(loaded->setParam("w", Floats{0, 0, 1, 1, 0, 0}));
  EXPECT_VALUES(loaded.outputs({f32({1, 2}, {1, 10})})[0], ({1, 3}), {10, 0, 1});
  EXPECT_VALUES(loaded.outputs({f32({2, 2}, {1, 10, 2, 20})})[0], ({2, 3}), {10, 0, 1, 20, 0, 2});
}

TEST(Cases, Case26_ParamsThatAreMissingOrWrong) {
  std::string half = typeOf({"2"}, "f16"), ids = typeOf({"2"}, "i64");
  Loaded loaded(graphText({"B"}, {{"x", typeOf({"B", "2"})}}, {{"y", typeOf({"B", "2"})}, {"k", ids}},
                          "%p = rlx.param \"p\" : tensor<2xf32>\n%h = rlx.param \"h\" : " + half +
                              "\n%i = rlx.param \"i\" : " + ids + "\n%w = rlx.convert %h : " + half +
                              " -> tensor<2xf32>\n%s = rlx.add %p, %w : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>\n"
                              "%y = rlx.add %x, %s : $x, tensor<2xf32> -> $y\n%k = rlx.neg %i : $k -> $k"));
  Value one = f32({1, 2}, {1, 2}), three = f32({3, 2}, Floats(6));
  EXPECT_THAT(loaded.error({one}), AllOf(HasSubstr("'p'"), HasSubstr("'h'"), HasSubstr("'i'")));
  EXPECT_THAT(loaded->finalizeParams().error().message, AllOf(HasSubstr("'p'"), HasSubstr("'h'"), HasSubstr("'i'")));
  ASSERT_GOOD(loaded->setParam("p", Floats{10, 20}));
  EXPECT_THAT(loaded.error({one}), AllOf(testing::Not(HasSubstr("'p'")), HasSubstr("'h'"), HasSubstr("'i'")));
  // 2049 lies between two numbers of f16: to even. f32 bytes are narrowed the same way.
  ASSERT_GOOD(loaded->setParam("h", Floats{2049, 65520}));
  Longs numbers = {5, -6};
  ASSERT_GOOD(loaded->setParamTyped("i", std::as_bytes(std::span(numbers)), ElementType::I64));
  auto outputs = loaded.outputs({one});
  EXPECT_VALUES(outputs[0], ({1, 2}), {1 + 10 + 2048, INFINITY});
  EXPECT_EQ(difference(outputs[1], i64({2}, {-5, 6})), "");
  Floats again = {2051, 1};
  ASSERT_GOOD(loaded->setParamTyped("h", std::as_bytes(std::span(again)), ElementType::F32));
  EXPECT_VALUES(loaded.outputs({three})[0], ({3, 2}), {2062, 21, 2062, 21, 2062, 21});
  // What is refused changes nothing.
  auto refused = [&](Status status, const char *name) {
    ASSERT_FALSE(static_cast<bool>(status));
    EXPECT_EQ(status.error().code, ErrorCode::InvalidArgument);
    EXPECT_THAT(status.error().message, HasSubstr(name));
  };
  refused(loaded->setParam("q", Floats{1}), "'q'");
  refused(loaded->setParam("p", Floats{1, 2, 3}), "'p'");
  refused(loaded->setParam("i", Floats{1, 2}), "'i'");
  refused(loaded->setParamTyped("p", std::as_bytes(std::span(numbers)), ElementType::I64), "'p'");
  refused(loaded->setParamTyped("i", std::as_bytes(std::span(again)), ElementType::I32), "'i'");
  refused(loaded->setParamTyped("p", std::as_bytes(std::span(again)).first(7), ElementType::F32), "'p'");
  EXPECT_VALUES(loaded.outputs({one})[0], ({1, 2}), {2063, 23});
}

TEST(Cases, Case27_SeedSurvivesShapes) {
  std::string type = typeOf({"N"});
  std::string graph = graphText({"N"}, {{"x", type}}, {{"y", type}},
                                "%u = rlx.random_uniform key 7 {low = 0.0 : f64, high = 1.0 : f64} : $x\n"
                                "%y = rlx.add %x, %u : $x, $x -> $y");
  ExecutableOptions options;
  options.rng.seed = 1234;
  Loaded loaded(graph, nullptr, options);
  Floats four = valuesOf<float>(loaded.outputs({zeros(4)})[0]);
  Floats six = valuesOf<float>(loaded.outputs({zeros(6)})[0]);
  EXPECT_EQ(valuesOf<float>(loaded.outputs({zeros(4)})[0]), four);
  EXPECT_EQ(valuesOf<float>(loaded.outputs({zeros(6)})[0]), six);
  // A stream is a function of seed, key, step and element alone.
  EXPECT_EQ(Floats(six.begin(), six.begin() + 4), four);
  EXPECT_EQ(loaded->rng().seed, 1234u);
  EXPECT_NE(valuesOf<float>(Loaded(loaded.model).outputs({zeros(4)})[0]), four) << "the default seed is another";
  RunOptions fresh;
  fresh.step = 1;
  EXPECT_NE(valuesOf<float>(loaded.outputs({zeros(4)}, fresh)[0]), four);
}

TEST(Cases, Case27_PublishedPhilox) {
  // Philox 4x32-10 of counter 0 and key 0 gives 6627e8d5 e169c58d bc57ac4c 9b00dbd8 (its authors' known answers).
  std::string type = typeOf({"4"});
  ExecutableOptions options;
  options.rng.seed = 0;
  Loaded loaded(
      graphText({}, {}, {{"y", type}}, "%y = rlx.random_uniform key 0 {low = 0.0 : f64, high = 1.0 : f64} : $y"),
      nullptr, options);
  EXPECT_VALUES(loaded.outputs({})[0], ({4}),
                {0x6627e8 * 0x1p-24f, 0xe169c5 * 0x1p-24f, 0xbc57ac * 0x1p-24f, 0x9b00db * 0x1p-24f});
}

/// Philox 4x32-10 by the constants of its authors, in plain C++.
std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round != 10; ++round) {
    uint64_t even = uint64_t(0xD2511F53) * counter[0], odd = uint64_t(0xCD9E8D57) * counter[2];
    counter = {static_cast<uint32_t>(odd >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(odd),
               static_cast<uint32_t>(even >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(even)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

/// Element `e` of a stream, in [0, 1).
float uniformAt(uint64_t e, uint64_t seed, uint32_t key, uint32_t step) {
  std::array<uint32_t, 4> words = philox({static_cast<uint32_t>(e / 4), static_cast<uint32_t>(e / 4 >> 32), key, step},
                                         {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  return static_cast<float>(words[e % 4] >> 8) * 0x1p-24f;
}

TEST(Cases, Case27_WholeTensors) {
  // The reference is right: the known answers published with Random123.
  using Words = std::array<uint32_t, 4>;
  ASSERT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  ASSERT_EQ(philox({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}), (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  ASSERT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
  // Uniform numbers have the reference's bits; normal ones are as near as cos, log and sqrt of f32 are.
  std::string type = typeOf({"N", "7"});
  Loaded loaded(graphText({"N"}, {{"x", type}}, {{"u", type}, {"n", type}, {"t", typeOf({"7", "N"})}},
                          "%a = rlx.random_uniform key 4294967295 {low = 0.0 : f64, high = 1.0 : f64} : $x\n"
                          "%b = rlx.random_normal key 320481838 {mean = 2.0 : f64, scale = 3.0 : f64} : $x\n"
                          "%u = rlx.add %x, %a : $x, $x -> $u\n%n = rlx.add %x, %b : $x, $x -> $n\n"
                          "%t = rlx.transpose %u permutation [1, 0] : $u -> $t"));
  const std::pair<uint64_t, uint32_t> states[] = {
      {42, 0}, {0, 1}, {~uint64_t(0), ~0u}, {0x299f31d0a4093822, 0x03707344}};
  for (auto [seed, step] : states)
    for (int64_t rows : {1, 3, 50}) {
      loaded->setRng({seed, step});
      auto outputs = loaded.outputs({f32({rows, 7}, Floats(static_cast<size_t>(rows * 7)))});
      std::span<const float> u = outputs[0].as<float>(), n = outputs[1].as<float>(), t = outputs[2].as<float>();
      for (size_t e = 0; e != u.size(); ++e) {
        ASSERT_EQ(u[e], uniformAt(e, seed, 4294967295, step)) << seed << " " << step << " element " << e;
        ASSERT_EQ(t[e % 7 * static_cast<size_t>(rows) + e / 7], u[e]) << "elements count where they were made";
        double first = std::max(uniformAt(e & ~size_t(1), seed, 320481838, step), 0x1p-24f);
        double angle = 2 * M_PI * double(uniformAt(e | 1, seed, 320481838, step));
        double normal = std::sqrt(-2 * std::log(first)) * (e % 2 ? std::sin(angle) : std::cos(angle));
        ASSERT_NEAR(n[e], 2 + 3 * normal, 1e-5) << seed << " " << step << " element " << e;
      }
    }
}

TEST(Cases, Case27_RandomNumbersOfAllFloats) {
  // The f32 number, converted.
  const std::pair<const char *, ElementType> types[] = {
      {"f64", ElementType::F64}, {"f16", ElementType::F16}, {"bf16", ElementType::BF16}};
  for (auto [element, type] : types) {
    std::string single = typeOf({"9"}), other = typeOf({"9"}, element);
    Loaded loaded(graphText({}, {}, {{"a", single}, {"b", other}, {"c", other}},
                            "%a = rlx.random_uniform key 5 {low = -1.0 : f64, high = 2.0 : f64} : $a\n"
                            "%b = rlx.random_uniform key 5 {low = -1.0 : f64, high = 2.0 : f64} : $b\n"
                            "%c = rlx.convert %a : $a -> $c"));
    auto outputs = loaded.outputs({});
    EXPECT_EQ(difference(outputs[1], outputs[2]), "") << element;
    for (size_t e = 0; e != 9; ++e)
      EXPECT_EQ(outputs[0].as<float>()[e], uniformAt(e, 42, 5, 0) * 3.0f - 1.0f) << "the default seed is 42";
  }
}

TEST(Cases, Case27_StepsAndClones) {
  std::string type = typeOf({"4"});
  Loaded loaded(
      graphText({}, {}, {{"y", type}}, "%y = rlx.random_uniform key 3 {low = 0.0 : f64, high = 1.0 : f64} : $y"));
  auto expected = [](uint64_t seed, uint32_t step) {
    Floats values;
    for (uint64_t e = 0; e != 4; ++e)
      values.push_back(uniformAt(e, seed, 3, step));
    return values;
  };
  auto values = [](Executable &executable, std::optional<uint32_t> step = {}) {
    RunOptions options;
    options.step = step;
    auto y = executable.run({}, options);
    EXPECT_TRUE(static_cast<bool>(y));
    return y ? valuesOf<float>((*y)[0]) : Floats();
  };
  EXPECT_EQ(values(*loaded.executable), expected(42, 0));
  EXPECT_EQ(values(*loaded.executable), expected(42, 0)) << "two runs give the same";
  EXPECT_EQ(values(*loaded.executable, 17), expected(42, 17));
  EXPECT_EQ(values(*loaded.executable), expected(42, 0)) << "a step is for one run";
  loaded->setRng({7, 2});
  auto clone = loaded->clone();
  EXPECT_EQ(values(*clone), expected(7, 2)) << "as it was when cloned";
  clone->setRng({8, 0});
  EXPECT_EQ(values(*clone), expected(8, 0));
  EXPECT_EQ(values(*loaded.executable), expected(7, 2));
  EXPECT_EQ(loaded->stats().misses, 1u);
}

TEST(Cases, Case27_OnnxRandomOps) {
  // Keys count the random nodes; a node's own seed says nothing here, and a warning says that.
  auto floatAttr = [](const std::string &name, float value) {
    return "attribute { name: '" + name + "' type: FLOAT f: " + std::to_string(value) + " } ";
  };
  auto model =
      loadOnnx(test::input("x", test::f32, {"N"}) +
               test::node("r0", "RandomUniform", {}, {"a"}, test::intsAttr("shape", {5}) + floatAttr("seed", 3)) +
               test::node("r1", "RandomUniformLike", {"x"}, {"b"}, floatAttr("low", -2) + floatAttr("high", 2)) +
               test::node("r2", "RandomNormalLike", {"x"}, {"c"}, floatAttr("seed", 3)) +
               test::node("r3", "RandomNormal", {}, {"d"}, test::intsAttr("shape", {2, 2}) + floatAttr("scale", 0.5f)) +
               test::output("a") + test::output("b") + test::output("c") + test::output("d"));
  ASSERT_GOOD(model);
  ASSERT_EQ(model->warnings.size(), 2u);
  EXPECT_THAT(model->warnings[0], AllOf(HasSubstr("'r0'"), HasSubstr("seed")));
  EXPECT_THAT(model->warnings[1], AllOf(HasSubstr("'r2'"), HasSubstr("seed")));
  Loaded loaded(model->model);
  auto outputs = loaded.outputs({f32({3}, {0, 0, 0})});
  ASSERT_EQ(outputs[0].shape(), (Shape{5}));
  ASSERT_EQ(outputs[1].shape(), (Shape{3}));
  ASSERT_EQ(outputs[3].shape(), (Shape{2, 2}));
  auto normalAt = [](uint64_t e, uint32_t key) {
    double radius = std::sqrt(-2 * std::log(std::max(uniformAt(e & ~uint64_t(1), 42, key, 0), 0x1p-24f)));
    double angle = 2 * M_PI * double(uniformAt(e | 1, 42, key, 0));
    return radius * (e % 2 ? std::sin(angle) : std::cos(angle));
  };
  for (size_t e = 0; e != 5; ++e)
    EXPECT_EQ(outputs[0].as<float>()[e], uniformAt(e, 42, 0, 0));
  for (size_t e = 0; e != 3; ++e) {
    EXPECT_EQ(outputs[1].as<float>()[e], uniformAt(e, 42, 1, 0) * 4.0f - 2.0f);
    EXPECT_NEAR(outputs[2].as<float>()[e], normalAt(e, 2), 1e-5);
  }
  for (size_t e = 0; e != 4; ++e)
    EXPECT_NEAR(outputs[3].as<float>()[e], 0.5 * normalAt(e, 3), 1e-5);
}

TEST(Cases, Case28_CloneRunsOtherShapes) {
  std::string type = typeOf({"B", "4"});
  Loaded loaded(graphText({"B"}, {{"x", type}}, {{"y", type}}, "%y = rlx.cumsum %x axis 1 : $x -> $y"));
  auto clone = loaded->clone();
  std::atomic<int> wrong = 0;
  auto work = [&](Executable &executable, int64_t rows) {
    Floats values, expected;
    for (int64_t i = 0; i != rows; ++i) {
      values.insert(values.end(), {1, 2, 3, 4});
      expected.insert(expected.end(), {1, 3, 6, 10});
    }
    Value x = f32({rows, 4}, values);
    NamedTensor inputs[] = {{"x", x.view()}};
    for (int i = 0; i != 50; ++i) {
      auto y = executable.run(inputs);
      if (!y || valuesOf<float>((*y)[0]) != expected)
        ++wrong;
    }
  };
  std::thread other([&] { work(*clone, 3); });
  work(*loaded.executable, 1);
  other.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(loaded->stats().misses, 2u);
}

TEST(Cases, Case29_ShortFloatParams) {
  auto graph = [](const std::string &element) {
    std::string type = typeOf({"4"}, element);
    return graphText({}, {{"x", type}}, {{"y", type}}, "%p = rlx.param \"p\" : $x\n%y = rlx.add %x, %p : $x, $x -> $y");
  };
  Loaded half(graph("f16"));
  ASSERT_GOOD(half->setParam("p", Floats{1, 2, 3, 4}));
  auto y = half.outputs({f32({4}, {10, 20, 30, 40})});
  auto wide = y[0].toF32();
  ASSERT_GOOD(wide);
  EXPECT_EQ(valuesOf<float>(*wide), (Floats{11, 22, 33, 44}));
  Loaded brain(graph("bf16"));
  ASSERT_GOOD(brain->setParam("p", Floats{0.5f, 0.5f, 0.5f, 0.5f}));
  wide = brain.outputs({f32({4}, {1.5f, 2.5f, 3.5f, 4.5f})})[0].toF32();
  ASSERT_GOOD(wide);
  EXPECT_EQ(valuesOf<float>(*wide), (Floats{2, 3, 4, 5}));
}

TEST(Cases, Case29_ShortFloatsAtTheBoundary) {
  // f32 in, narrowed to nearest even; f32 out, widened; by shape and flat, in run_into.
  struct Row {
    const char *element;
    Floats given, expected;
  } rows[] = {{"f16", {65519, 65520, 2049, 2051, 2.9e-8f, -0.0f}, {65504, INFINITY, 2048, 2052, 0, -0.0f}},
              {"bf16",
               {3.14f, 0.26914088f, 1.01171875f, 3e38f, 3.4e38f, -0.0f},
               {3.140625f, 0.26953125f, 1.015625f, 3.0040553e38f, INFINITY, -0.0f}}};
  for (const Row &row : rows) {
    std::string type = typeOf({"N"}, row.element);
    Loaded loaded(graphText({"N"}, {{"x", type}}, {{"y", type}},
                            "%c = rlx.constant dense<-0.0> : tensor<" + std::string(row.element) +
                                ">\n%y = rlx.add %x, %c : $x, tensor<" + row.element + "> -> $y"));
    Value x = f32({6}, row.given);
    for (const TensorView &view : {x.view(), x.flat()}) {
      NamedTensor inputs[] = {{"x", view}};
      Floats y(6, 7);
      OutputBuffer buffers[] = {{"y", ElementType::F32, y.data(), 6 * sizeof(float)}};
      ASSERT_GOOD(loaded->runInto(inputs, buffers));
      for (size_t i = 0; i != 6; ++i) {
        EXPECT_FLOAT_EQ(y[i], row.expected[i]) << row.element << " of " << row.given[i];
        EXPECT_EQ(std::signbit(y[i]), std::signbit(row.expected[i])) << row.element << " of " << row.given[i];
      }
    }
  }
}

TEST(Cases, Case30_EqualSizesAreNotEqualNames) {
  Loaded loaded(graphText({"N", "M"}, {{"a", typeOf({"N", "1"})}, {"b", typeOf({"1", "M"})}},
                          {{"y", typeOf({"N", "M"})}}, "%y = rlx.mul %a, %b : $a, $b -> $y"));
  const std::pair<int64_t, int64_t> sizes[] = {{4, 4}, {4, 7}};
  for (auto [n, m] : sizes) {
    auto y = loaded.outputs({sequence({n, 1}, 1), sequence({1, m}, 1)});
    ASSERT_EQ(y[0].shape(), (Shape{n, m}));
    for (int64_t i = 0; i != n * m; ++i)
      EXPECT_EQ(valuesOf<float>(y[0])[static_cast<size_t>(i)], static_cast<float>((i / m + 1) * (i % m + 1)));
  }
  EXPECT_EQ(loaded->bindings().size(), 2u);
}

TEST(Cases, Case31_ShapesAreThisCalls) {
  std::string type = typeOf({"N"});
  Loaded loaded(graphText({"N"}, {{"x", type}}, {{"y", type}},
                          "%o = rlx.constant dense<1.0> : tensor<f32>\n%y = rlx.add %x, %o : $x, tensor<f32> -> $y"));
  for (int64_t n = 1; n <= 4; ++n) {
    auto y = loaded.outputs({sequence({n})});
    EXPECT_EQ(y[0].shape(), (Shape{n}));
    for (int64_t i = 0; i != n; ++i)
      EXPECT_EQ(valuesOf<float>(y[0])[static_cast<size_t>(i)], static_cast<float>(i + 1));
  }
  EXPECT_EQ(loaded->stats().templatesMade, 1u);
}

TEST(Cases, Case32_OneSpecializationABinding) {
  Loaded loaded(copyGraph({"N"}, {"N"}));
  for (int i = 0; i != 3; ++i)
    loaded.outputs({sequence({5})});
  EXPECT_EQ(loaded->stats().misses, 1u);
  EXPECT_EQ(loaded->stats().hits, 2u);
  ExecutableOptions options;
  options.cacheEntries = 2;
  Loaded small(loaded.model, options);
  for (int64_t n = 1; n <= 3; ++n)
    small.outputs({sequence({n})});
  EXPECT_EQ(small->stats().evictions, 1u);
  auto held = small->bindings();
  ASSERT_EQ(held.size(), 2u);
  EXPECT_EQ(held[0].binding.at("N"), 3);
  EXPECT_EQ(held[1].binding.at("N"), 2);
}

TEST(Cases, Case34_ManyLengths) {
  ExecutableOptions options;
  options.cacheEntries = 8;
  std::string type = typeOf({"N", "3"});
  Loaded loaded(graphText({"N"}, {{"x", type}}, {{"y", type}}, "%y = rlx.softmax %x axis 1 : $x -> $y"), nullptr,
                options);
  const float third = 1.0f / 3;
  for (int64_t n = 0; n != 200; ++n)
    EXPECT_EQ(valuesOf<float>(loaded.outputs({f32({n, 3}, Floats(static_cast<size_t>(n) * 3, 1))})[0]),
              Floats(static_cast<size_t>(n) * 3, third));
  EXPECT_EQ(loaded->stats().entries, 8u);
  EXPECT_EQ(loaded->stats().evictions, 192u);
  EXPECT_LE(loaded->stats().templatesMade, 2u);
  EXPECT_LE(loaded->stats().kernelsCompiled, 4u);
}

TEST(Cases, Case35_ManyThreads) {
  std::string type = typeOf({"N", "5"});
  std::string graph = graphText({"N"}, {{"x", type}}, {{"y", type}},
                                "%e = rlx.abs %x : $x -> $x\n%y = rlx.cumsum %e axis 0 : $x -> $y");
  for (bool same : {true, false}) {
    Loaded loaded(graph);
    std::atomic<int> wrong = 0;
    std::vector<std::thread> threads;
    for (int64_t i = 0; i != 32; ++i)
      threads.emplace_back([&, n = same ? 9 : i + 1] {
        auto y = loaded.run({f32({n, 5}, Floats(static_cast<size_t>(n) * 5, -1))});
        if (!y || (*y)[0].shape() != Shape{n, 5} || valuesOf<float>((*y)[0]).back() != static_cast<float>(n))
          ++wrong;
      });
    for (std::thread &thread : threads)
      thread.join();
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(loaded->stats().misses, same ? 1u : 32u);
    EXPECT_LE(loaded->stats().templatesMade, same ? 1u : 2u);
  }
}

//===----------------------------------------------------------------------===//
// Folding
//===----------------------------------------------------------------------===//

/// The only float of a graph without inputs.
float folded(const std::string &body) {
  auto y = Loaded(graphText({}, {}, {{"y", "tensor<f32>"}}, body)).outputs({});
  return y[0].elements() == 1 ? valuesOf<float>(y[0])[0] : -1;
}

TEST(Cases, Case37_ScaledWeight) {
  Loaded loaded(graphText({"B"}, {{"x", typeOf({"B", "2"})}}, {{"y", typeOf({"B", "2"})}},
                          "%w = rlx.weight \"w\" : tensor<2x2xf32>\n%s = rlx.param \"s\" : tensor<2xf32>\n"
                          "%p = rlx.mul %w, %s : tensor<2x2xf32>, tensor<2xf32> -> tensor<2x2xf32>\n"
                          "%y = rlx.matmul %x, %p : $x, tensor<2x2xf32> -> $y"),
                weightsOf({{"w", f32({2, 2}, {1, 2, 3, 4})}}));
  ASSERT_GOOD(loaded->setParam("s", Floats{1, 10}));
  EXPECT_VALUES(loaded.outputs({f32({1, 2}, {1, 1})})[0], ({1, 2}), {4, 60});
  ASSERT_GOOD(loaded->setParam("s", Floats{2, -1}));
  EXPECT_VALUES(loaded.outputs({f32({1, 2}, {1, 1})})[0], ({1, 2}), {8, -6});
  EXPECT_VALUES(loaded.outputs({f32({2, 2}, {1, 1, 0, 2})})[0], ({2, 2}), {8, -6, 12, -8});
}

TEST(Cases, Case38_Folding) {
  EXPECT_EQ(folded("%a = rlx.constant dense<2.0> : tensor<f32>\n%b = rlx.constant dense<3.0> : tensor<f32>\n"
                   "%y = rlx.add %a, %b : tensor<f32>, tensor<f32> -> tensor<f32>"),
            5);
  EXPECT_NEAR(folded("%a = rlx.constant dense<1.0> : tensor<f32>\n%y = rlx.gelu %a : tensor<f32> -> tensor<f32>"),
              0.84134, 5e-6);
  EXPECT_EQ(folded("%a = rlx.constant dense<2.5> : tensor<f32>\n%y = rlx.round %a : tensor<f32> -> tensor<f32>"), 2);
  // A value that depends on an input stays: it changes with it.
  Loaded depends(graphText({}, {{"x", "tensor<f32>"}}, {{"y", "tensor<f32>"}},
                           "%a = rlx.constant dense<2.0> : tensor<f32>\n%b = rlx.mul %a, %a : $y, $y -> $y\n"
                           "%y = rlx.add %x, %b : $x, $y -> $y"));
  EXPECT_EQ(valuesOf<float>(depends.outputs({f32({}, {1})})[0])[0], 5);
  EXPECT_EQ(valuesOf<float>(depends.outputs({f32({}, {2})})[0])[0], 6);
}

//===----------------------------------------------------------------------===//
// Inputs, outputs and weights as outputs
//===----------------------------------------------------------------------===//

TEST(Cases, OutputsThatNothingComputes) {
  Loaded loaded(graphText({"N"}, {{"x", typeOf({"N"})}},
                          {{"y", typeOf({"N"})}, {"z", typeOf({"N"})}, {"c", typeOf({"2"})}, {"w", typeOf({"2"})}},
                          "%c = rlx.constant dense<[1.0, 2.0]> : $c\n%w = rlx.weight \"w\" : $w\n"
                          "%y = rlx.reshape %x : $x -> $y\n%z = rlx.reshape %x : $x -> $z"),
                weightsOf({{"w", f32({2}, {3, 4})}}));
  auto outputs = loaded.outputs({f32({3}, {5, 6, 7})});
  EXPECT_VALUES(outputs[0], ({3}), {5, 6, 7});
  EXPECT_VALUES(outputs[1], ({3}), {5, 6, 7});
  EXPECT_VALUES(outputs[2], ({2}), {1, 2});
  EXPECT_VALUES(outputs[3], ({2}), {3, 4});
}

TEST(Cases, OnlyTheAskedOutputsAreComputed) {
  // The other output would fail.
  Loaded loaded(graphText({}, {{"x", "tensor<2xi32>"}}, {{"y", "tensor<2xi32>"}, {"z", "tensor<2xi32>"}},
                          "%c = rlx.constant dense<[1, 0]> : tensor<2xi32>\n%y = rlx.add %x, %c : $x, $x -> $y\n"
                          "%z = rlx.div %x, %c : $x, $x -> $z"));
  Value x = i32({2}, {5, 6});
  NamedTensor inputs[] = {{"x", x.view()}};
  size_t first[] = {0, 0};
  auto y = loaded->runReadOutputs(inputs, first);
  ASSERT_GOOD(y);
  ASSERT_EQ(y->size(), 2u);
  EXPECT_EQ(valuesOf<int32_t>((*y)[1]), (std::vector<int32_t>{6, 6}));
  EXPECT_THAT(loaded.error({x}), HasSubstr("division by zero"));
  size_t beyond[] = {2};
  EXPECT_FALSE(static_cast<bool>(loaded->runReadOutputs(inputs, beyond)));
}

TEST(Cases, IssueNameBroadcastToANumber) {
  // The template made for one size refuses the next as if it were made for it.
  for (bool fromTemplate : {false, true}) {
    std::string four = typeOf({"4", "3"});
    Loaded loaded(graphText({"M"}, {{"x", typeOf({"M", "3"})}}, {{"y", four}},
                            "%b = rlx.broadcast_to %x : $x -> " + four + "\n%y = rlx.neg %b : " + four + " -> $y"));
    if (fromTemplate)
      EXPECT_VALUES(loaded.outputs({f32({1, 3}, {1, 2, 3})})[0], ({4, 3}),
                    {-1, -2, -3, -1, -2, -3, -1, -2, -3, -1, -2, -3});
    for (int64_t m : {2, 0}) {
      Floats values(static_cast<size_t>(m * 3));
      EXPECT_THAT(loaded.error({f32({m, 3}, values)}), AllOf(HasSubstr("M is " + std::to_string(m)), HasSubstr("4")));
    }
    EXPECT_EQ(loaded.outputs({sequence({4, 3})})[0].as<float>()[11], -11);
  }
}

TEST(Cases, IssueParamOfTwoTypes) {
  auto graph = [](const std::string &second) {
    return graphText({}, {}, {{"y", "tensor<2xf32>"}, {"z", second}},
                     "%p = rlx.param \"p\" : $y\n%q = rlx.param \"p\" : $z\n%y = rlx.neg %p : $y -> $y\n"
                     "%z = rlx.abs %q : $z -> $z");
  };
  EXPECT_THAT(loadError(graph("tensor<300xf32>")), AllOf(HasSubstr("'p'"), HasSubstr("2xf32"), HasSubstr("300xf32")));
  Loaded loaded(graph("tensor<2xf32>"));
  ASSERT_GOOD(loaded->setParam("p", Floats{-1, 2}));
  EXPECT_VALUES(loaded.outputs({})[0], ({2}), {1, -2});
  EXPECT_VALUES(loaded.outputs({})[1], ({2}), {1, 2});
}

TEST(Cases, IssueMaskOfNamedHeads) {
  // Four query heads in two groups; a mask whose number of heads has a name may have 1 or 4, and nothing else.
  std::string q = typeOf({"4", "L", "2"}), k = typeOf({"2", "T", "2"}), mask = typeOf({"M", "L", "T"});
  Loaded loaded(graphText({"L", "T", "M"}, {{"q", q}, {"k", k}, {"m", mask}}, {{"y", q}},
                          "%y = rlx.attention %q, %k, %k mask %m : $m scale 1.0 : $q, $k, $k -> $y"));
  Loaded plain(graphText({"L", "T"}, {{"q", q}, {"k", k}, {"m", typeOf({"4", "L", "T"})}}, {{"y", q}},
                         "%y = rlx.attention %q, %k, %k mask %m : $m scale 1.0 : $q, $k, $k -> $y"));
  for (int64_t length : {1, 3}) {
    Value queries = randomF32({4, length, 2}, 1), keys = randomF32({2, 5, 2}, 2);
    Value one = randomF32({1, length, 5}, 3), four = one;
    four.shape[0] = 4;
    for (int i = 0; i != 3; ++i)
      four.bytes.insert(four.bytes.end(), one.bytes.begin(), one.bytes.end());
    auto expected = plain.outputs({queries, keys, four});
    EXPECT_EQ(difference(loaded.outputs({queries, keys, four})[0], expected[0]), "");
    EXPECT_EQ(difference(loaded.outputs({queries, keys, one})[0], expected[0]), "");
    Value different = randomF32({4, length, 5}, 4);
    EXPECT_EQ(difference(loaded.outputs({queries, keys, different})[0], plain.outputs({queries, keys, different})[0]),
              "");
    EXPECT_THAT(loaded.error({queries, keys, randomF32({2, length, 5}, 5)}), AllOf(HasSubstr("M"), HasSubstr("2")));
  }
}

TEST(Cases, IssueClipWithoutABound) {
  // As ONNX's reference has it; onnxruntime makes the lowest float of -inf.
  auto clip = [](const std::vector<std::string> &inputs, int opset = 17) {
    auto model = loadOnnx(test::input("x", test::f32, {"N"}) + "initializer { name: 'c' data_type: 1 float_data: 1 } " +
                              test::node("clip", "Clip", inputs, {"y"}) + test::output("y"),
                          opset);
    EXPECT_TRUE(static_cast<bool>(model)) << model.error().message;
    return Loaded(model->model).outputs({f32({4}, {-INFINITY, INFINITY, NAN, 0.5f})});
  };
  EXPECT_VALUES(clip({"x", "", "c"})[0], ({4}), {-INFINITY, 1, NAN, 0.5f});
  EXPECT_VALUES(clip({"x", "c"})[0], ({4}), {1, INFINITY, NAN, 1});
  EXPECT_VALUES(clip({"x"})[0], ({4}), {-INFINITY, INFINITY, NAN, 0.5f});
  EXPECT_VALUES(clip({"x"}, 10)[0], ({4}), {-INFINITY, INFINITY, NAN, 0.5f});
}

//===----------------------------------------------------------------------===//
// Modules in memory
//===----------------------------------------------------------------------===//

TEST(LoadModule, Errors) {
  std::string graph = graphText({}, {}, {{"w", "tensor<2xf32>"}}, "%w = rlx.weight \"w\" : $w");
  EXPECT_THAT(loadError(graph), HasSubstr("'w'"));
  auto other = compiler::loadModule(graph, weightsOf({{"w", f32({3}, {1, 2, 3})}}));
  ASSERT_FALSE(static_cast<bool>(other));
  EXPECT_EQ(other.error().code, ErrorCode::InvalidModel);
  EXPECT_THAT(loadError("rlx.graph @main("), HasSubstr("module: 1:"));
  EXPECT_THAT(loadError(""), HasSubstr("graph"));
  EXPECT_THAT(loadError(copyGraph({}, {"2"}) + "rlx.graph @other() { rlx.output }"), HasSubstr("'other'"));
  compiler::LoadOptions options;
  options.weightsFile = "w.safetensors";
  auto files = compiler::loadModule(copyGraph({}, {"2"}), nullptr, options);
  ASSERT_FALSE(static_cast<bool>(files));
  EXPECT_EQ(files.error().code, ErrorCode::InvalidArgument);
}

TEST(LoadModule, StoppedEarlyDoesNotRun) {
  compiler::LoadOptions options;
  options.until = "infer";
  auto loaded = compiler::loadModule(copyGraph({"N"}, {"N"}), nullptr, options);
  ASSERT_GOOD(loaded);
  EXPECT_THAT(Loaded(loaded->model).error({f32({2}, {1, 2})}), HasSubstr("'infer'"));
  options.until = "never";
  auto never = compiler::loadModule(copyGraph({"N"}, {"N"}), nullptr, options);
  ASSERT_FALSE(static_cast<bool>(never));
  EXPECT_THAT(never.error().message, HasSubstr("decompose"));
}

} // namespace
