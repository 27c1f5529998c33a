//===- BuiltGraphTest.cpp - what graphs written in C++ compute ------------===//
//
// GraphBuilder to values; what it refuses is tested with the importer.
//
//===----------------------------------------------------------------------===//
#include "CompilerTest.h"

#include "RandomCalls.h"

#include "rlx/Import/GraphBuilder.h"

#include "mlir/IR/Builders.h"
#include "gmock/gmock.h"

#include <cmath>
#include <functional>
#include <random>

using namespace rlx;
using namespace rlx::compilertest;
using testing::AllOf;
using testing::HasSubstr;
using Floats = std::vector<float>;
using Longs = std::vector<int64_t>;

namespace {

constexpr ElementType F32 = ElementType::F32, I64 = ElementType::I64;

/// The outputs' model; an error ends the test.
std::shared_ptr<const Model> modelOf(GraphBuilder &builder, const std::vector<GraphOutput> &outputs) {
  Result<BuiltGraph> built = builder.finish(outputs);
  if (!built)
    throw std::runtime_error(built.error().message);
  auto loaded = compiler::loadModule(*built->module, built->weights);
  if (!loaded)
    throw std::runtime_error(loaded.error().message + "\n" + built->text());
  return loaded->model;
}

void declare(GraphBuilder &builder, std::initializer_list<const char *> names) {
  for (const char *name : names)
    ASSERT_GOOD(builder.dim(name));
}

#define EXPECT_FLOATS(tensor, expectedShape, ...)                                                                      \
  EXPECT_EQ(difference(tensor, f32(Shape expectedShape, Floats __VA_ARGS__)), "")
#define EXPECT_LONGS(tensor, expectedShape, ...)                                                                       \
  EXPECT_EQ(difference(tensor, i64(Shape expectedShape, Longs __VA_ARGS__)), "")

//===----------------------------------------------------------------------===//
// Each op
//===----------------------------------------------------------------------===//

TEST(BuiltGraph, Elementwise) {
  GraphBuilder b;
  declare(b, {"N"});
  GraphValue x = b.input("x", F32, {"N"}), i = b.input("i", I64, {"N"});
  Loaded loaded(modelOf(b, {{"add", b.add(x, 1)},
                            {"sub", b.sub(10, x)},
                            {"mul", b.mul(x, x)},
                            {"div", b.div(i, 2)},
                            {"mod", b.mod(i, 3)},
                            {"rem", b.rem(i, 3)},
                            {"pow", b.pow(x, 2)},
                            {"max", b.max(x, 0.5)},
                            {"min", b.min(0.5f, x)},
                            {"and", b.bitAnd(i, 3)},
                            {"or", b.bitOr(i, 1)},
                            {"xor", b.bitXor(i, -1)},
                            {"shl", b.shl(i, 1)},
                            {"shr", b.shr(i, 1)},
                            {"neg", b.neg(x)},
                            {"abs", b.abs(x)},
                            {"sign", b.sign(x)},
                            {"not", b.bitNot(i)},
                            {"sqrt", b.sqrt(b.abs(x))},
                            {"reciprocal", b.reciprocal(x)},
                            {"floor", b.floor(b.mul(x, 0.75))},
                            {"ceil", b.ceil(b.mul(x, 0.75))},
                            {"round", b.round(b.mul(x, 0.75))},
                            {"relu", b.relu(x)},
                            {"where", b.where(b.compare(ir::ComparePredicate::Gt, x, 0), x, 7)},
                            {"nan", b.isNaN(b.sqrt(x))},
                            {"inf", b.isInf(b.div(x, 0))},
                            {"cast", b.cast(b.mul(x, 0.75), I64)}}));
  auto y = loaded.outputs({f32({4}, {-2, -1, 1, 4}), i64({4}, {-7, -1, 1, 7})});
  EXPECT_FLOATS(y[0], ({4}), {-1, 0, 2, 5});
  EXPECT_FLOATS(y[1], ({4}), {12, 11, 9, 6});
  EXPECT_FLOATS(y[2], ({4}), {4, 1, 1, 16});
  EXPECT_LONGS(y[3], ({4}), {-3, 0, 0, 3});
  EXPECT_LONGS(y[4], ({4}), {2, 2, 1, 1});
  EXPECT_LONGS(y[5], ({4}), {-1, -1, 1, 1});
  EXPECT_FLOATS(y[6], ({4}), {4, 1, 1, 16});
  EXPECT_FLOATS(y[7], ({4}), {0.5, 0.5, 1, 4});
  EXPECT_FLOATS(y[8], ({4}), {-2, -1, 0.5, 0.5});
  EXPECT_LONGS(y[9], ({4}), {1, 3, 1, 3});
  EXPECT_LONGS(y[10], ({4}), {-7, -1, 1, 7});
  EXPECT_LONGS(y[11], ({4}), {6, 0, -2, -8});
  EXPECT_LONGS(y[12], ({4}), {-14, -2, 2, 14});
  EXPECT_LONGS(y[13], ({4}), {-4, -1, 0, 3});
  EXPECT_FLOATS(y[14], ({4}), {2, 1, -1, -4});
  EXPECT_FLOATS(y[15], ({4}), {2, 1, 1, 4});
  EXPECT_FLOATS(y[16], ({4}), {-1, -1, 1, 1});
  EXPECT_LONGS(y[17], ({4}), {6, 0, -2, -8});
  EXPECT_FLOATS(y[18], ({4}), {std::sqrt(2.0f), 1, 1, 2});
  EXPECT_FLOATS(y[19], ({4}), {-0.5, -1, 1, 0.25});
  EXPECT_FLOATS(y[20], ({4}), {-2, -1, 0, 3});
  EXPECT_FLOATS(y[21], ({4}), {-1, -0.0f, 1, 3});
  EXPECT_FLOATS(y[22], ({4}), {-2, -1, 1, 3});
  EXPECT_FLOATS(y[23], ({4}), {0, 0, 1, 4});
  EXPECT_FLOATS(y[24], ({4}), {7, 7, 1, 4});
  EXPECT_EQ(difference(y[25], i1({4}, {1, 1, 0, 0})), "");
  EXPECT_EQ(difference(y[26], i1({4}, {1, 1, 1, 1})), "");
  EXPECT_LONGS(y[27], ({4}), {-1, 0, 0, 3});
}

TEST(BuiltGraph, Functions) {
  GraphBuilder b;
  declare(b, {"N"});
  GraphValue x = b.input("x", F32, {"N"});
  Loaded loaded(modelOf(b, {{"exp", b.exp(x)},
                            {"log", b.log(b.abs(x))},
                            {"tanh", b.tanh(x)},
                            {"erf", b.erf(x)},
                            {"sigmoid", b.sigmoid(x)},
                            {"sin", b.sin(x)},
                            {"cos", b.cos(x)},
                            {"gelu", b.gelu(x)},
                            {"silu", b.silu(x)}}));
  Floats values = {-1.5f, -0.25f, 0.75f, 2};
  auto y = loaded.outputs({f32({4}, values)});
  const std::function<double(double)> functions[] = {
      [](double v) { return std::exp(v); },
      [](double v) { return std::log(std::fabs(v)); },
      [](double v) { return std::tanh(v); },
      [](double v) { return std::erf(v); },
      [](double v) { return 1 / (1 + std::exp(-v)); },
      [](double v) { return std::sin(v); },
      [](double v) { return std::cos(v); },
      [](double v) { return v / 2 * (1 + std::erf(v / std::sqrt(2.0))); },
      [](double v) { return v / (1 + std::exp(-v)); }};
  for (size_t f = 0; f != std::size(functions); ++f)
    for (size_t i = 0; i != values.size(); ++i)
      EXPECT_NEAR(y[f].as<float>()[i], functions[f](double(values[i])), 1e-6) << f;
}

TEST(BuiltGraph, Rows) {
  GraphBuilder b;
  declare(b, {"B"});
  GraphValue x = b.input("x", F32, {"B", 2});
  GraphValue scale = b.constant<float>({2}, {1, 2}), bias = b.constant<float>({2}, {10, 20});
  auto sum = ir::ReduceKind::Sum, max = ir::ReduceKind::Max, mean = ir::ReduceKind::Mean;
  Loaded loaded(modelOf(b, {{"softmax", b.softmax(x)},
                            {"columns", b.softmax(x, 0)},
                            {"log", b.logSoftmax(x)},
                            {"norm", b.layerNorm(x, scale, bias, -1, 0)},
                            {"plain norm", b.layerNorm(x, {}, {}, -1, 0)},
                            {"rms", b.rmsNorm(x, scale, -1, 0)},
                            {"sum", b.reduce(sum, x, {-1})},
                            {"max", b.reduce(max, x, {0}, true)},
                            {"mean", b.reduce(mean, x, {0, 1})},
                            {"cumsum", b.cumsum(x, 0)},
                            {"reverse", b.cumsum(x, -1, true, true)}}));
  auto y = loaded.outputs({f32({2, 2}, {0, 0, 3, 1})});
  auto near = [&](size_t output, const Floats &expected) {
    Floats got = valuesOf<float>(y[output]);
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i != got.size(); ++i)
      EXPECT_NEAR(got[i], expected[i], 1e-6) << output << " element " << i;
  };
  near(0, {0.5f, 0.5f, 0.880797f, 0.119203f});
  near(1, {0.0474259f, 0.2689414f, 0.9525741f, 0.7310586f});
  near(2, {-0.6931472f, -0.6931472f, -0.126928f, -2.126928f});
  // The rows are (0, 0), of no variance: 0 / 0; and (3, 1), which becomes (1, -1).
  EXPECT_TRUE(std::isnan(y[3].as<float>()[0]));
  EXPECT_NEAR(y[3].as<float>()[2], 11, 1e-5);
  EXPECT_NEAR(y[3].as<float>()[3], 18, 1e-5);
  EXPECT_NEAR(y[4].as<float>()[3], -1, 1e-6);
  EXPECT_NEAR(y[5].as<float>()[2], 3 / std::sqrt(5.0), 1e-6);
  EXPECT_NEAR(y[5].as<float>()[3], 2 / std::sqrt(5.0), 1e-6);
  EXPECT_FLOATS(y[6], ({2}), {0, 4});
  EXPECT_FLOATS(y[7], ({1, 2}), {3, 1});
  EXPECT_FLOATS(y[8], ({}), {1});
  EXPECT_FLOATS(y[9], ({2, 2}), {0, 0, 3, 1});
  EXPECT_FLOATS(y[10], ({2, 2}), {0, 0, 1, 0});
}

TEST(BuiltGraph, Movement) {
  GraphBuilder b;
  declare(b, {"N"});
  GraphValue x = b.input("x", I64, {"N", 2}), at = b.input("at", I64, {2});
  GraphValue joined = b.concat({x, b.constant<int64_t>({1, 2}, {8, 9})}, 0);
  Loaded loaded(modelOf(
      b, {{"reshape", b.reshape(x, {-1})},
          {"transpose", b.transpose(x, {1, 0})},
          {"broadcast", b.broadcastTo(b.scalar(I64, 5), {"N", 1})},
          {"expand", b.expandDims(x, {0, -1})},
          {"slice", b.slice(x, 0, "N - 1", 1)},
          {"backwards", b.slice(x, -1, 1, 2, -1)},
          {"axes", b.sliceAxes(x, {1, 0}, {"N - 1", 1}, {1, 1})},
          {"concat", joined},
          {"pad", b.pad(x, 7, {0, 1}, {1, 0})},
          {"gather", b.gather(x, at)},
          {"columns", b.gather(x, b.constant<int32_t>({}, {-1}), 1)},
          {"nd", b.gatherND(x, b.constant<int64_t>({1, 2}, {1, 1}))},
          {"elements", b.gatherElements(x, b.constant<int64_t>({1, 2}, {1, 0}), 0)},
          {"scatter", b.scatterElements(x, b.constant<int64_t>({1, 2}, {1, 0}), b.constant<int64_t>({1, 2}, {10, 20}),
                                        0, ir::Combine::Add)},
          {"scatternd", b.scatterND(x, b.constant<int64_t>({1, 1}, {0}), b.constant<int64_t>({1, 2}, {30, 40}))},
          {"iota", b.iota({"N", 2}, 0, "N", -1)},
          {"dims", b.dimValues({"N", "N * N", 4})},
          {"squeeze", b.squeeze(b.slice(x, 0, 0, 1), {0})}}));
  auto y = loaded.outputs({i64({2, 2}, {1, 2, 3, 4}), i64({2}, {1, -2})});
  EXPECT_LONGS(y[0], ({4}), {1, 2, 3, 4});
  EXPECT_LONGS(y[1], ({2, 2}), {1, 3, 2, 4});
  EXPECT_LONGS(y[2], ({2, 1}), {5, 5});
  EXPECT_LONGS(y[3], ({1, 2, 2, 1}), {1, 2, 3, 4});
  EXPECT_LONGS(y[4], ({1, 2}), {3, 4});
  EXPECT_LONGS(y[5], ({2, 2}), {2, 1, 4, 3});
  EXPECT_LONGS(y[6], ({1, 1}), {3});
  EXPECT_LONGS(y[7], ({3, 2}), {1, 2, 3, 4, 8, 9});
  EXPECT_LONGS(y[8], ({3, 3}), {7, 1, 2, 7, 3, 4, 7, 7, 7});
  EXPECT_LONGS(y[9], ({2, 2}), {3, 4, 1, 2});
  EXPECT_LONGS(y[10], ({2}), {2, 4});
  EXPECT_LONGS(y[11], ({1}), {4});
  EXPECT_LONGS(y[12], ({1, 2}), {3, 2});
  EXPECT_LONGS(y[13], ({2, 2}), {1, 22, 13, 4});
  EXPECT_LONGS(y[14], ({2, 2}), {30, 40, 3, 4});
  EXPECT_LONGS(y[15], ({2, 2}), {2, 2, 1, 1});
  EXPECT_LONGS(y[16], ({3}), {2, 4, 4});
  EXPECT_LONGS(y[17], ({2}), {1, 2});
}

TEST(BuiltGraph, ProductsAndAttention) {
  GraphBuilder b;
  declare(b, {"H", "L"});
  GraphValue q = b.input("q", F32, {"H", "L", 2});
  GraphValue mask = b.constant<float>({2}, {0, -INFINITY});
  Loaded loaded(modelOf(b, {{"scores", b.matmul(q, b.transpose(q, {0, 2, 1}))}, {"y", b.attention(q, q, q, mask, 1)}}));
  auto y = loaded.outputs({f32({1, 2, 2}, {1, 2, 3, 4})});
  EXPECT_FLOATS(y[0], ({1, 2, 2}), {5, 11, 11, 25});
  EXPECT_FLOATS(y[1], ({1, 2, 2}), {1, 2, 1, 2}); // the second key is masked
}

//===----------------------------------------------------------------------===//
// Whole graphs
//===----------------------------------------------------------------------===//

TEST(BuiltGraph, DimsAreSharedBetweenInputs) {
  GraphBuilder b;
  ASSERT_GOOD(b.dim("B", {.min = 1, .max = 8}));
  ASSERT_GOOD(b.require("B != 5", "five is right out"));
  Loaded loaded(modelOf(b, {{"y", b.add(b.input("x", F32, {"B", 2}), b.input("m", F32, {"B", 1}))}}));
  EXPECT_FLOATS(loaded.outputs({f32({2, 2}, {1, 2, 3, 4}), f32({2, 1}, {10, 20})})[0], ({2, 2}), {11, 12, 23, 24});
  EXPECT_THAT(loaded.error({f32({2, 2}, {1, 2, 3, 4}), f32({3, 1}, {1, 2, 3})}),
              AllOf(HasSubstr("'B'"), HasSubstr("'x'"), HasSubstr("'m'")));
  EXPECT_THAT(loaded.error({f32({9, 2}, Floats(18)), f32({9, 1}, Floats(9))}), HasSubstr("'B'"));
  EXPECT_THAT(loaded.error({f32({5, 2}, Floats(10)), f32({5, 1}, Floats(5))}), HasSubstr("five is right out"));
}

TEST(BuiltGraph, NodesAreNamedAtRunTime) {
  GraphBuilder b;
  declare(b, {"N"});
  GraphValue x = b.input("x", I64, {"N"});
  GraphValue y = b.node("ratio").div(12, x);
  Loaded loaded(modelOf(b, {{"y", y}}));
  EXPECT_LONGS(loaded.outputs({i64({3}, {1, 2, 3})})[0], ({3}), {12, 6, 4});
  EXPECT_THAT(loaded.error({i64({3}, {1, 0, 3})}), AllOf(HasSubstr("'ratio'"), HasSubstr("division by zero")));
}

TEST(BuiltGraph, ParamsAndWeights) {
  GraphBuilder b;
  declare(b, {"B"});
  auto borrowed = std::make_shared<Floats>(Floats{1, 0, 0, 1});
  std::weak_ptr<Floats> watched = borrowed;
  GraphValue w = b.weight("w", F32, {2, 2}, std::as_bytes(std::span(*borrowed)), borrowed);
  GraphValue x = b.input("x", F32, {"B", 2});
  std::shared_ptr<const Model> model = modelOf(b, {{"y", b.add(b.matmul(x, w), b.param("bias", F32, {2}))}});
  borrowed.reset();
  EXPECT_FALSE(watched.expired()) << "the model holds on to its weights";
  {
    Loaded loaded(model);
    EXPECT_THAT(loaded.error({f32({1, 2}, {1, 2})}), HasSubstr("'bias'"));
    ASSERT_GOOD(loaded->setParam("bias", Floats{10, 20}));
    EXPECT_FLOATS(loaded.outputs({f32({1, 2}, {1, 2})})[0], ({1, 2}), {11, 22});
  }
  model.reset();
  EXPECT_TRUE(watched.expired());
}

TEST(BuiltGraph, RandomNumbersHaveKeysInOrder) {
  GraphBuilder b;
  declare(b, {"N"});
  GraphValue x = b.input("x", F32, {"N"});
  GraphValue first = b.randomUniform(F32, {"N"}), second = b.randomUniform(F32, {"N"}, 0, 1);
  GraphValue again = b.randomUniform(F32, {"N"}, 0, 1, 0);
  Loaded loaded(modelOf(b, {{"a", b.add(first, x)}, {"b", b.add(second, x)}, {"c", b.add(again, x)}}));
  auto y = loaded.outputs({f32({5}, Floats(5))});
  EXPECT_NE(valuesOf<float>(y[0]), valuesOf<float>(y[1]));
  EXPECT_EQ(valuesOf<float>(y[0]), valuesOf<float>(y[2]));
}

TEST(BuiltGraph, AThousandOps) {
  GraphBuilder b;
  declare(b, {"N"});
  GraphValue x = b.input("x", F32, {"N"});
  GraphValue y = x;
  for (int i = 0; i != 500; ++i)
    y = b.add(b.max(y, x), 1);
  Loaded loaded(modelOf(b, {{"y", y}}));
  EXPECT_FLOATS(loaded.outputs({f32({3}, {0, 1, -7})})[0], ({3}), {500, 501, 493});
}

TEST(BuiltGraph, IssueTheLowestNumberInASize) {
  GraphBuilder b;
  declare(b, {"N"});
  GraphValue y = b.add(b.dimValues({"N"}), b.scalar(I64, INT64_MIN)); // folds to the expression
  Loaded loaded(modelOf(b, {{"y", y}, {"x", b.input("x", F32, {"N"})}}));
  EXPECT_LONGS(loaded.outputs({f32({3}, {0, 0, 0})})[0], ({1}), {INT64_MIN + 3});
}

TEST(BuiltGraph, ModulesThatCannotBeLoaded) {
  auto message = [](mlir::ModuleOp module, ErrorCode code) {
    auto loaded = compiler::loadModule(module);
    if (loaded) {
      ADD_FAILURE() << "must not load";
      return std::string();
    }
    EXPECT_EQ(loaded.error().code, code);
    return loaded.error().message;
  };
  EXPECT_THAT(message(mlir::ModuleOp(), ErrorCode::InvalidArgument), HasSubstr("no module"));
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> empty = mlir::ModuleOp::create(mlir::UnknownLoc::get(&context));
  EXPECT_THAT(message(*empty, ErrorCode::InvalidModel), HasSubstr("no rlx.graph"));
  // A row that no table has.
  GraphBuilder weighty(context);
  GraphValue w = weighty.weight<float>("w", {1}, Floats{1});
  auto built = weighty.finish({{"y", w}});
  ASSERT_GOOD(built);
  EXPECT_THAT(message(*built->module, ErrorCode::InvalidModel), HasSubstr("'w'"));
  // What the verifier refuses: a graph that was changed after it was built.
  GraphBuilder changed(context);
  built = changed.finish({{"y", changed.input("x", F32, {2})}});
  ASSERT_GOOD(built);
  built->module->walk([](ir::GraphOp graph) { graph.getBody().front().getTerminator()->setOperands({}); });
  EXPECT_THAT(message(*built->module, ErrorCode::InvalidModel), HasSubstr("0 values"));
  // Ops that rlx does not know.
  context.allowUnregisteredDialects();
  GraphBuilder foreign(context);
  built = foreign.finish({{"y", foreign.input("x", F32, {2})}});
  ASSERT_GOOD(built);
  built->module->walk([](ir::GraphOp graph) {
    mlir::OpBuilder inside = mlir::OpBuilder::atBlockBegin(&graph.getBody().front());
    inside.create(mlir::OperationState(inside.getUnknownLoc(), "other.op"));
  });
  EXPECT_THAT(message(*built->module, ErrorCode::InvalidModel), HasSubstr("other"));
}

TEST(BuiltGraph, TheModuleStaysAsItWas) {
  GraphBuilder b;
  declare(b, {"N"});
  auto built = b.finish({{"y", b.relu(b.input("x", F32, {"N"}))}});
  ASSERT_GOOD(built);
  std::string before = built->text();
  ASSERT_GOOD(compiler::loadModule(*built->module, built->weights));
  EXPECT_EQ(built->text(), before);
  // The text is the same model.
  Loaded loaded(before, built->weights);
  EXPECT_FLOATS(loaded.outputs({f32({2}, {-1, 1})})[0], ({2}), {0, 1});
}

//===----------------------------------------------------------------------===//
// Random graphs against an interpreter
//===----------------------------------------------------------------------===//

/// Integers that wrap, so that every order of computing gives the same bits.
struct Array {
  Shape shape;
  Longs values;

  explicit Array(Shape sizes) : shape(std::move(sizes)), values(static_cast<size_t>(*elementCount(shape))) {}
  int64_t rank() const { return static_cast<int64_t>(shape.size()); }
  /// Position of an element by its indices.
  size_t at(const Shape &index) const {
    int64_t position = 0;
    for (size_t i = 0; i != shape.size(); ++i)
      position = position * shape[i] + index[i];
    return static_cast<size_t>(position);
  }
  /// Calls for every element with its indices.
  void each(const std::function<void(const Shape &, int64_t &)> &visit) {
    Shape index(shape.size());
    for (int64_t &value : values) {
      visit(index, value);
      for (size_t i = shape.size(); i-- != 0;) {
        if (++index[i] < shape[i])
          break;
        index[i] = 0;
      }
    }
  }
};

int64_t wrap(uint64_t value) { return static_cast<int64_t>(value); }

/// A graph as it grows: what the builder has, and how to compute it plainly.
class RandomGraph {
public:
  explicit RandomGraph(uint32_t seed) : random(seed) {
    declare(builder, {"N", "M"});
    addInput("x", {"N", "M"});
    addInput("y", {"N"});
    addInput("z", {"M", 3});
    for (int i = 0; i != 14; ++i)
      step();
  }

  /// Builds, then runs at bindings in one executable, each against the interpreter.
  void check() {
    std::vector<GraphOutput> outputs;
    size_t first = nodes.size() - 4;
    for (size_t i = first; i != nodes.size(); ++i)
      outputs.push_back({"out" + std::to_string(i), nodes[i].value});
    Loaded loaded(modelOf(builder, outputs));
    for (int round = 0; round != 7; ++round) {
      Binding binding = {{"N", pick(7)}, {"M", pick(7)}};
      std::vector<Array> arrays;
      std::vector<Value> inputs;
      for (const Node &node : nodes)
        arrays.push_back(node.compute(arrays, binding));
      for (size_t i = 0; i != 3; ++i)
        inputs.push_back(i64(arrays[i].shape, arrays[i].values));
      auto results = loaded.run(inputs);
      ASSERT_TRUE(static_cast<bool>(results)) << bindingString(binding) << ": " << results.error().message;
      for (size_t i = first; i != nodes.size(); ++i)
        EXPECT_EQ(difference((*results)[i - first], i64(arrays[i].shape, arrays[i].values)), "")
            << bindingString(binding) << " value " << i << " (" << nodes[i].what << ")";
    }
  }

private:
  using Compute = std::function<Array(const std::vector<Array> &, const Binding &)>;
  struct Node {
    GraphValue value;
    std::vector<DimExpr> dims;
    std::string what;
    Compute compute;
  };

  int64_t pick(int64_t count) { return static_cast<int64_t>(random() % static_cast<uint32_t>(count)); }

  static Shape sizes(const std::vector<DimExpr> &dims, const Binding &binding) {
    Shape shape;
    for (const DimExpr &dim : dims)
      shape.push_back(*dim.evaluate(binding));
    return shape;
  }

  void add(const std::string &what, GraphValue value, Compute compute) {
    ASSERT_TRUE(static_cast<bool>(value)) << what << ": " << value.error().message;
    std::vector<DimExpr> dims = *builder.shape(value);
    // Nothing that grows out of hand.
    int64_t elements = 1;
    for (int64_t size : sizes(dims, {{"N", 7}, {"M", 7}}))
      elements *= size;
    if (elements > 4000 || dims.size() > 5)
      return;
    nodes.push_back({std::move(value), std::move(dims), what, std::move(compute)});
  }

  void addInput(const std::string &name, const GraphShape &shape) {
    GraphValue value = builder.input(name, I64, shape);
    std::vector<DimExpr> dims = *builder.shape(value);
    add(name, value, [this, dims](const std::vector<Array> &, const Binding &binding) {
      Array array(sizes(dims, binding));
      for (int64_t &entry : array.values)
        entry = static_cast<int64_t>(random() % 2001) - 1000;
      return array;
    });
  }

  void step() {
    size_t a = static_cast<size_t>(pick(static_cast<int64_t>(nodes.size())));
    GraphValue x = nodes[a].value;
    std::vector<DimExpr> dims = nodes[a].dims;
    auto rank = static_cast<int64_t>(dims.size());
    int64_t axis = rank ? pick(rank) : 0;
    switch (pick(12)) {
    case 0: { // two values of one shape, or with a number
      size_t other = a;
      for (size_t i = 0; i != nodes.size(); ++i)
        if (nodes[i].dims == dims && pick(2))
          other = i;
      int64_t kind = pick(5);
      GraphValue y = nodes[other].value;
      GraphValue made = kind == 0   ? builder.add(x, y)
                        : kind == 1 ? builder.sub(x, y)
                        : kind == 2 ? builder.mul(x, y)
                        : kind == 3 ? builder.max(x, y)
                                    : builder.where(builder.compare(ir::ComparePredicate::Lt, x, y), 5, y);
      add("binary " + std::to_string(kind), made, [=](const std::vector<Array> &arrays, const Binding &) {
        Array result = arrays[a];
        for (size_t i = 0; i != result.values.size(); ++i) {
          int64_t l = arrays[a].values[i], r = arrays[other].values[i];
          auto ul = static_cast<uint64_t>(l), ur = static_cast<uint64_t>(r);
          result.values[i] = kind == 0   ? wrap(ul + ur)
                             : kind == 1 ? wrap(ul - ur)
                             : kind == 2 ? wrap(ul * ur)
                             : kind == 3 ? std::max(l, r)
                                         : (l < r ? 5 : r);
        }
        return result;
      });
      return;
    }
    case 1: { // with its own sum along an axis, which broadcasts
      if (!rank)
        return;
      add("centred", builder.sub(x, builder.reduce(ir::ReduceKind::Sum, x, {axis}, true)),
          [=](const std::vector<Array> &arrays, const Binding &) {
            Array result = arrays[a];
            result.each([&](const Shape &index, int64_t &value) {
              Shape other = index;
              uint64_t sum = 0;
              for (other[axis] = 0; other[axis] != result.shape[axis]; ++other[axis])
                sum += static_cast<uint64_t>(arrays[a].values[arrays[a].at(other)]);
              value = wrap(static_cast<uint64_t>(value) - sum);
            });
            return result;
          });
      return;
    }
    case 2: { // reduce
      if (!rank)
        return;
      bool largest = pick(2);
      add("reduce", builder.reduce(largest ? ir::ReduceKind::Max : ir::ReduceKind::Sum, x, {axis}),
          [=](const std::vector<Array> &arrays, const Binding &) {
            Shape shape = arrays[a].shape;
            shape.erase(shape.begin() + axis);
            Array result(shape);
            result.each([&](const Shape &index, int64_t &value) {
              Shape other = index;
              other.insert(other.begin() + axis, 0);
              uint64_t sum = 0;
              int64_t top = INT64_MIN;
              for (; other[axis] != arrays[a].shape[axis]; ++other[axis]) {
                int64_t element = arrays[a].values[arrays[a].at(other)];
                sum += static_cast<uint64_t>(element);
                top = std::max(top, element);
              }
              value = largest ? top : wrap(sum);
            });
            return result;
          });
      return;
    }
    case 3: { // transpose
      std::vector<int64_t> order(static_cast<size_t>(rank));
      for (int64_t i = 0; i != rank; ++i)
        order[static_cast<size_t>(i)] = i;
      std::shuffle(order.begin(), order.end(), random);
      add("transpose", builder.transpose(x, order), [=](const std::vector<Array> &arrays, const Binding &) {
        Shape shape;
        for (int64_t from : order)
          shape.push_back(arrays[a].shape[static_cast<size_t>(from)]);
        Array result(shape);
        result.each([&](const Shape &index, int64_t &value) {
          Shape from(index.size());
          for (size_t i = 0; i != order.size(); ++i)
            from[static_cast<size_t>(order[i])] = index[i];
          value = arrays[a].values[arrays[a].at(from)];
        });
        return result;
      });
      return;
    }
    case 4: { // two axes become one, or all
      GraphShape shape(dims);
      if (rank > 1 && pick(2)) {
        axis = pick(rank - 1);
        shape.dims[static_cast<size_t>(axis)] = dims[static_cast<size_t>(axis)] * dims[static_cast<size_t>(axis) + 1];
        shape.dims.erase(shape.dims.begin() + axis + 1);
      } else {
        shape = {-1};
      }
      GraphValue made = builder.reshape(x, shape);
      ASSERT_TRUE(static_cast<bool>(made));
      std::vector<DimExpr> target = *builder.shape(made);
      add("reshape", made, [=](const std::vector<Array> &arrays, const Binding &binding) {
        Array result(sizes(target, binding));
        result.values = arrays[a].values;
        return result;
      });
      return;
    }
    case 5: { // every other one, or backwards
      if (!rank)
        return;
      bool backwards = pick(2);
      DimExpr size = dims[static_cast<size_t>(axis)];
      GraphValue made = backwards ? builder.slice(x, axis, size - 1, size, -1)
                                  : builder.slice(x, axis, 0, DimExpr::ceilDiv(size, 2), 2);
      add("slice", made, [=](const std::vector<Array> &arrays, const Binding &) {
        Shape shape = arrays[a].shape;
        int64_t whole = shape[static_cast<size_t>(axis)];
        shape[static_cast<size_t>(axis)] = backwards ? whole : (whole + 1) / 2;
        Array result(shape);
        result.each([&](const Shape &index, int64_t &value) {
          Shape from = index;
          int64_t &at = from[static_cast<size_t>(axis)];
          at = backwards ? whole - 1 - at : 2 * at;
          value = arrays[a].values[arrays[a].at(from)];
        });
        return result;
      });
      return;
    }
    case 6: { // concat with one that fits, or itself
      if (!rank)
        return;
      size_t other = a;
      for (size_t i = 0; i != nodes.size(); ++i) {
        std::vector<DimExpr> theirs = nodes[i].dims;
        if (theirs.size() != dims.size())
          continue;
        theirs[static_cast<size_t>(axis)] = dims[static_cast<size_t>(axis)];
        if (theirs == dims && pick(2))
          other = i;
      }
      add("concat", builder.concat({x, nodes[other].value, x}, axis),
          [=](const std::vector<Array> &arrays, const Binding &) {
            Shape shape = arrays[a].shape;
            auto at = static_cast<size_t>(axis);
            int64_t mine = shape[at], theirs = arrays[other].shape[at];
            shape[at] = 2 * mine + theirs;
            Array result(shape);
            result.each([&](const Shape &index, int64_t &value) {
              Shape from = index;
              const Array &source = from[at] < mine || from[at] >= mine + theirs ? arrays[a] : arrays[other];
              from[at] -= from[at] < mine ? 0 : from[at] < mine + theirs ? mine : mine + theirs;
              value = source.values[source.at(from)];
            });
            return result;
          });
      return;
    }
    case 7: { // repeated along a new axis
      GraphShape shape(dims);
      shape.dims.insert(shape.dims.begin() + axis, GraphDim("M"));
      add("broadcast", builder.broadcastTo(builder.expandDims(x, {axis}), shape),
          [=](const std::vector<Array> &arrays, const Binding &binding) {
            Shape sizes = arrays[a].shape;
            sizes.insert(sizes.begin() + axis, binding.at("M"));
            Array result(sizes);
            result.each([&](const Shape &index, int64_t &value) {
              Shape from = index;
              from.erase(from.begin() + axis);
              value = arrays[a].values[arrays[a].at(from)];
            });
            return result;
          });
      return;
    }
    case 8: { // product with its own transpose
      if (rank != 2)
        return;
      add("matmul", builder.matmul(x, builder.transpose(x, {1, 0})),
          [=](const std::vector<Array> &arrays, const Binding &) {
            const Array &array = arrays[a];
            Array result({array.shape[0], array.shape[0]});
            result.each([&](const Shape &index, int64_t &value) {
              uint64_t sum = 0;
              for (int64_t k = 0; k != array.shape[1]; ++k)
                sum += static_cast<uint64_t>(array.values[array.at({index[0], k})]) *
                       static_cast<uint64_t>(array.values[array.at({index[1], k})]);
              value = wrap(sum);
            });
            return result;
          });
      return;
    }
    case 9: { // padded
      GraphShape low, high;
      for (int64_t i = 0; i != rank; ++i) {
        low.dims.push_back(i == axis ? 2 : 0);
        high.dims.push_back(i == axis ? GraphDim("N") : GraphDim(1));
      }
      add("pad", builder.pad(x, -3, low, high), [=](const std::vector<Array> &arrays, const Binding &binding) {
        Shape shape = arrays[a].shape;
        for (int64_t i = 0; i != rank; ++i)
          shape[static_cast<size_t>(i)] += i == axis ? 2 + binding.at("N") : 1;
        Array result(shape);
        result.each([&](const Shape &index, int64_t &value) {
          Shape from = index;
          if (rank)
            from[static_cast<size_t>(axis)] -= 2;
          bool inside = true;
          for (size_t i = 0; i != from.size(); ++i)
            inside &= from[i] >= 0 && from[i] < arrays[a].shape[i];
          value = inside ? arrays[a].values[arrays[a].at(from)] : -3;
        });
        return result;
      });
      return;
    }
    case 10: { // running sums
      if (!rank)
        return;
      bool exclusive = pick(2);
      add("cumsum", builder.cumsum(x, axis, exclusive), [=](const std::vector<Array> &arrays, const Binding &) {
        Array result = arrays[a];
        result.each([&](const Shape &index, int64_t &value) {
          Shape other = index;
          uint64_t sum = 0;
          auto at = static_cast<size_t>(axis);
          for (other[at] = 0; other[at] < index[at] + (exclusive ? 0 : 1); ++other[at])
            sum += static_cast<uint64_t>(arrays[a].values[arrays[a].at(other)]);
          value = wrap(sum);
        });
        return result;
      });
      return;
    }
    default: { // looked up by positions that run backwards
      if (!rank)
        return;
      DimExpr size = dims[static_cast<size_t>(axis)];
      add("gather", builder.gather(x, builder.iota({size}, 0, size - 1, -1), axis),
          [=](const std::vector<Array> &arrays, const Binding &) {
            Array result(arrays[a].shape);
            auto at = static_cast<size_t>(axis);
            result.each([&](const Shape &index, int64_t &value) {
              Shape from = index;
              from[at] = result.shape[at] - 1 - from[at];
              value = arrays[a].values[arrays[a].at(from)];
            });
            return result;
          });
    }
    }
  }

  GraphBuilder builder;
  std::vector<Node> nodes;
  std::mt19937 random;
};

TEST(BuiltGraph, RandomGraphsAgreeWithAnInterpreter) {
  for (uint32_t seed = 1; seed <= 25 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomGraph(seed).check();
  }
}

/// Graphs that nobody would write, but that are legal: they load and run, or say what is wrong.
TEST(BuiltGraph, AnythingThatIsBuiltRunsOrSaysWhyNot) {
  size_t ran = 0, refused = 0;
  for (uint32_t seed = 0; seed != 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    GraphBuilder builder;
    size_t bad = 0;
    std::vector<GraphValue> values = test::callRandomly(builder, random, 60, bad);
    std::vector<GraphOutput> outputs;
    for (int i = 0; i != 3; ++i)
      outputs.push_back({"out" + std::to_string(i), values[random() % values.size()]});
    Result<BuiltGraph> built = builder.finish(outputs);
    if (!built)
      continue; // a dim in outputs only
    auto loaded = compiler::loadModule(*built->module, built->weights);
    if (!loaded) {
      EXPECT_FALSE(loaded.error().message.empty());
      EXPECT_NE(loaded.error().code, ErrorCode::Internal) << loaded.error().message << built->text();
      ++refused;
      continue;
    }
    Loaded executable(loaded->model);
    const data::ModelSignatureT &signature = loaded->model->signature();
    for (int64_t n : {2, 1, 0, 5}) {
      Binding binding = {{"N", n}, {"M", 3}};
      auto sizesOf = [&](const std::vector<DimExpr> &dims) {
        Shape shape;
        for (const DimExpr &dim : dims) {
          Result<int64_t> size = dim.evaluate(binding);
          shape.push_back(size && *size >= 0 && *size < 1000 ? *size : 0);
        }
        return shape;
      };
      auto zerosOf = [&](const data::TensorSpecT &spec, const std::vector<DimExpr> &dims) {
        Value value{spec.type, sizesOf(dims), {}};
        int64_t count = elementCount(value.shape).value_or(0);
        value.bytes.resize(static_cast<size_t>(std::min<int64_t>(count, 1 << 20)) * elementSize(spec.type));
        return value;
      };
      for (size_t i = 0; i != signature.params.size(); ++i) {
        Value value = zerosOf(*signature.params[i], loaded->model->paramShapes()[i]);
        (void)executable->setParamTyped(signature.params[i]->name, std::as_bytes(std::span(value.bytes)), value.type);
      }
      std::vector<Value> inputs;
      for (size_t i = 0; i != signature.inputs.size(); ++i)
        inputs.push_back(zerosOf(*signature.inputs[i], loaded->model->inputShapes()[i]));
      RunOptions options;
      options.binding = binding;
      auto results = executable.run(inputs, options);
      if (results) {
        ++ran;
        continue;
      }
      ++refused;
      EXPECT_FALSE(results.error().message.empty());
      EXPECT_NE(results.error().code, ErrorCode::Internal) << results.error().message << built->text();
    }
  }
  EXPECT_GT(ran, 20u);
  EXPECT_GT(refused, 0u);
}

} // namespace
