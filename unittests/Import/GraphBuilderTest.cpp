//===- GraphBuilderTest.cpp - what builders accept and refuse -------------===//
//
// What built graphs compute is in Compiler/BuiltGraphTest.cpp.
//
//===----------------------------------------------------------------------===//
#include "rlx/Import/GraphBuilder.h"

#include "RandomCalls.h"

#include "rlx/Import/ModuleIO.h"

#include "mlir/IR/Verifier.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include <cmath>
#include <random>

using namespace rlx;
using data::ElementType;
using testing::AllOf;
using testing::HasSubstr;
using Floats = std::vector<float>;

namespace {

constexpr ElementType F32 = ElementType::F32, I64 = ElementType::I64, I32 = ElementType::I32;

#define EXPECT_REFUSED(value, ...)                                                                                     \
  do {                                                                                                                 \
    GraphValue refused = (value);                                                                                      \
    ASSERT_FALSE(static_cast<bool>(refused));                                                                          \
    EXPECT_EQ(refused.error().code, ErrorCode::InvalidArgument);                                                       \
    EXPECT_THAT(refused.error().message, AllOf(__VA_ARGS__));                                                          \
  } while (false)

#define EXPECT_ERROR(status, ...)                                                                                      \
  do {                                                                                                                 \
    auto &&refused = (status);                                                                                         \
    ASSERT_FALSE(static_cast<bool>(refused));                                                                          \
    EXPECT_THAT(refused.error().message, AllOf(__VA_ARGS__));                                                          \
  } while (false)

/// Sizes of a value as text: "[B, 4]".
std::string sizes(const GraphBuilder &builder, const GraphValue &value) {
  auto dims = builder.shape(value);
  return dims ? ir::toString(*dims) : dims.error().message;
}

/// Declares these dims.
void declare(GraphBuilder &builder, std::initializer_list<const char *> names) {
  for (const char *name : names)
    ASSERT_TRUE(static_cast<bool>(builder.dim(name)));
}

TEST(GraphBuilder, BuildsAVerifiedModule) {
  GraphBuilder b;
  ASSERT_TRUE(static_cast<bool>(b.dim("B", {.min = 1, .max = 64, .multiple = 1, .likely = {1, 8}})));
  ASSERT_TRUE(static_cast<bool>(b.dim("S")));
  GraphValue x = b.input("x", F32, {"B", "2*S", 64});
  EXPECT_EQ(sizes(b, x), "[B, 2*S, 64]");
  EXPECT_EQ(*b.elementType(x), F32);
  GraphValue w = b.weight<float>("w", {64, 8}, Floats(512, 0.5f));
  b.node("fc1");
  GraphValue y = b.matmul(x, w);
  EXPECT_EQ(sizes(b, y), "[B, 2*S, 8]");
  ASSERT_TRUE(static_cast<bool>(b.require("S <= 512", "the position table")));
  auto built = b.finish({{"y", y}});
  ASSERT_TRUE(static_cast<bool>(built)) << built.error().message;
  ASSERT_TRUE(built->context);
  EXPECT_TRUE(mlir::succeeded(mlir::verify(*built->module)));
  ASSERT_NE(built->weights->find("w"), nullptr);
  std::string text = built->text();
  EXPECT_THAT(text, AllOf(HasSubstr("#rlx.dim<\"B\", min = 1, max = 64, likely = [1, 8]>"), HasSubstr("\"fc1\""),
                          HasSubstr("rlx.name = \"x\""), HasSubstr("S <= 512"), HasSubstr("the position table")));
  // What is written is what is read.
  mlir::MLIRContext other;
  auto read =
      parseMlir(other, text, "text", [&](llvm::StringRef row) { return built->weights->find(std::string_view(row)); });
  ASSERT_TRUE(static_cast<bool>(read)) << read.error().message;
  EXPECT_EQ(BuiltGraph(std::move(*built)).text(), text);
}

TEST(GraphBuilder, InABorrowedContext) {
  mlir::MLIRContext context;
  BuiltGraph kept;
  {
    GraphBuilder b(context);
    auto built = b.finish({{"y", b.abs(b.input("x", F32, {4}))}});
    ASSERT_TRUE(static_cast<bool>(built));
    EXPECT_FALSE(built->context);
    kept = std::move(*built);
  }
  EXPECT_TRUE(mlir::succeeded(mlir::verify(*kept.module)));
  // Several builders may share one, one after the other.
  GraphBuilder again(context);
  EXPECT_TRUE(static_cast<bool>(again.finish({{"y", again.input("x", F32, {})}})));
  // One graph takes the place of another, context and all.
  GraphBuilder own;
  auto built = own.finish({{"y", own.input("x", F32, {})}});
  ASSERT_TRUE(static_cast<bool>(built));
  BuiltGraph first = std::move(*built);
  GraphBuilder second;
  built = second.finish({{"z", second.input("x", I64, {2})}});
  ASSERT_TRUE(static_cast<bool>(built));
  first = std::move(*built);
  EXPECT_THAT(first.text(), HasSubstr("\"z\""));
}

TEST(GraphBuilder, ShapesOfAllKinds) {
  GraphBuilder b;
  declare(b, {"B", "a:b", "S"});
  EXPECT_EQ(sizes(b, b.input("a", F32, {})), "[]");
  EXPECT_EQ(sizes(b, b.input("b", F32, {3})), "[3]");
  EXPECT_EQ(sizes(b, b.input("c", F32, {"B", 0, "\"a:b\" + 1", DimExpr::symbol("S") * 2})), "[B, 0, \"a:b\"+1, 2*S]");
  EXPECT_EQ(sizes(b, b.input("d", F32, std::vector<int64_t>{1, 2})), "[1, 2]");
  EXPECT_EQ(sizes(b, b.input("e", F32, std::vector<std::string>{"B", "7"})), "[B, 7]");
  EXPECT_EQ(sizes(b, b.input("f", F32, std::vector<DimExpr>{DimExpr::symbol("B")})), "[B]");
  EXPECT_EQ(sizes(b, b.input("g", F32, {"B", "S"})), "[B, S]");
  EXPECT_EQ(sizes(b, b.input("h", F32, {size_t(5), uint8_t(6)})), "[5, 6]");
}

TEST(GraphBuilder, ShapesFollowFromOperands) {
  GraphBuilder b;
  declare(b, {"B", "S", "T"});
  GraphValue x = b.input("x", F32, {"B", "S", 6}), y = b.input("y", F32, {"B", "T", 6});
  EXPECT_EQ(sizes(b, b.concat({x, y}, 1)), "[B, S+T, 6]");
  EXPECT_EQ(sizes(b, b.reshape(x, {"B", -1})), "[B, 6*S]");
  EXPECT_EQ(sizes(b, b.reshape(x, {-1, 3})), "[2*B*S, 3]");
  EXPECT_EQ(sizes(b, b.transpose(x, {2, 0, 1})), "[6, B, S]");
  EXPECT_EQ(sizes(b, b.reduce(ir::ReduceKind::Mean, x, {-1})), "[B, S]");
  EXPECT_EQ(sizes(b, b.reduce(ir::ReduceKind::Sum, x, {-1, 0}, true)), "[1, S, 1]");
  EXPECT_EQ(sizes(b, b.expandDims(x, {0, -1})), "[1, B, S, 6, 1]");
  EXPECT_EQ(sizes(b, b.squeeze(b.expandDims(x, {1}), {1})), "[B, S, 6]");
  EXPECT_EQ(sizes(b, b.slice(x, -1, 2, 3)), "[B, S, 3]");
  EXPECT_EQ(sizes(b, b.slice(x, 1, 0, "S - 1")), "[B, S-1, 6]");
  EXPECT_EQ(sizes(b, b.gather(x, b.input("i", I64, {"T", 2}), 1)), "[B, T, 2, 6]");
  EXPECT_EQ(sizes(b, b.broadcastTo(b.scalar(F32, 1.0), {"B", 2})), "[B, 2]");
  EXPECT_EQ(sizes(b, b.cast(x, ElementType::F16)), "[B, S, 6]");
  EXPECT_EQ(sizes(b, b.matmul(x, b.transpose(y, {0, 2, 1}))), "[B, S, T]");
  EXPECT_EQ(sizes(b, b.randomNormal(F32, {"B", "S"})), "[B, S]");
  EXPECT_EQ(sizes(b, b.iota({"S"}, 0)), "[S]");
  EXPECT_EQ(sizes(b, b.dimValues({"B", "S", 6})), "[3]");
  EXPECT_EQ(sizes(b, b.assumeDims(b.concat({x, y}, 1), {"B", "S + T", 6})), "[B, S+T, 6]");
  EXPECT_EQ(sizes(b, b.pad(x, 0, {0, 1, 0}, {0, "T", 2})), "[B, S+T+1, 8]");
  EXPECT_EQ(*b.elementType(b.compare(ir::ComparePredicate::Lt, x, 0.5)), ElementType::I1);
}

//===----------------------------------------------------------------------===//
// Errors
//===----------------------------------------------------------------------===//

TEST(GraphBuilder, ErrorsNameTheOp) {
  GraphBuilder b;
  GraphValue x = b.input("x", F32, {2, 384}), w = b.weight<float>("w", {512, 4}, Floats(2048, 1));
  EXPECT_REFUSED(b.matmul(x, w), HasSubstr("rlx.matmul"), HasSubstr("384"), HasSubstr("512"));
  b.node("encoder.fc1");
  EXPECT_REFUSED(b.matmul(x, w), HasSubstr("node 'encoder.fc1'"), HasSubstr("rlx.matmul"));
  EXPECT_REFUSED(b.add(x, b.input("i", I32, {384})), HasSubstr("encoder.fc1"), HasSubstr("f32"), HasSubstr("i32"));
  EXPECT_REFUSED(b.add(x, b.input("j", F32, {5})), HasSubstr("rlx.add"), HasSubstr("384"), HasSubstr("5"));
  EXPECT_REFUSED(b.exp(b.input("k", I32, {2})), HasSubstr("rlx.exp"), HasSubstr("float"));
  EXPECT_REFUSED(b.bitAnd(x, x), HasSubstr("rlx.and"));
  EXPECT_REFUSED(b.reshape(x, {7, -1}), HasSubstr("rlx.reshape"), HasSubstr("768"), HasSubstr("7"));
  EXPECT_REFUSED(b.reshape(x, {-1, -1}), HasSubstr("-1"));
  EXPECT_REFUSED(b.reshape(x, {-2, 384}), HasSubstr("-2"));
  EXPECT_REFUSED(b.reshape(x, {3, 384}), HasSubstr("rlx.reshape"));
  EXPECT_REFUSED(b.transpose(x, {0}), HasSubstr("rlx.transpose"), HasSubstr("rank 2"));
  EXPECT_REFUSED(b.transpose(x, {0, 0}), HasSubstr("twice"));
  EXPECT_REFUSED(b.softmax(x, 2), HasSubstr("rlx.softmax"), HasSubstr("axis 2"), HasSubstr("rank 2"));
  EXPECT_REFUSED(b.reduce(ir::ReduceKind::Sum, x, {0, -2}), HasSubstr("rlx.reduce"), HasSubstr("twice"));
  EXPECT_REFUSED(b.reduce(static_cast<ir::ReduceKind>(99), x, {0}), HasSubstr("99"));
  EXPECT_REFUSED(b.compare(static_cast<ir::ComparePredicate>(99), x, x), HasSubstr("99"));
  EXPECT_REFUSED(b.concat({}, 0), HasSubstr("rlx.concat"));
  EXPECT_REFUSED(b.concat({x, b.input("l", F32, {2, 383})}, 0), HasSubstr("383"), HasSubstr("384"));
  EXPECT_REFUSED(b.concat({x, b.input("m", F32, {2})}, 0), HasSubstr("ranks"));
  EXPECT_REFUSED(b.slice(x, 0, 1, 2), HasSubstr("rlx.slice"), HasSubstr("past the end"));
  EXPECT_REFUSED(b.slice(x, 0, 0, 2, 0), HasSubstr("step"));
  EXPECT_REFUSED(b.sliceAxes(x, {0}, {1, 1}, {1, 1}), HasSubstr("rlx.slice"));
  EXPECT_REFUSED(b.slice(x, 5, 0, 1), HasSubstr("axis 5"));
  EXPECT_REFUSED(b.broadcastTo(x, {384}), HasSubstr("rlx.broadcast_to"), HasSubstr("rank"));
  EXPECT_REFUSED(b.broadcastTo(x, {3, 384}), HasSubstr("do not broadcast"));
  EXPECT_REFUSED(b.gather(x, x, 0), HasSubstr("rlx.gather"));
  EXPECT_REFUSED(b.squeeze(x, {0}), HasSubstr("size 2"));
  EXPECT_REFUSED(b.expandDims(x, {4}), HasSubstr("axis 4"));
  EXPECT_REFUSED(b.layerNorm(x, b.input("n", F32, {383})), HasSubstr("rlx.layer_norm"));
  EXPECT_REFUSED(b.cast(x, static_cast<ElementType>(99)), HasSubstr("rlx.convert"), HasSubstr("99"));
  EXPECT_REFUSED(b.iota({}, 0), HasSubstr("rlx.iota"));
  EXPECT_REFUSED(b.randomUniform(F32, {2}, 0, 1, -1), HasSubstr("key -1"));
  EXPECT_REFUSED(b.randomUniform(F32, {2}, 0, 1, int64_t(1) << 32), HasSubstr("key"));
  EXPECT_REFUSED(b.randomUniform(I32, {2}), HasSubstr("rlx.random_uniform"), HasSubstr("float"));
  EXPECT_REFUSED(b.randomNormal(F32, {2}, 0, std::numeric_limits<double>::infinity()), HasSubstr("finite"));
  EXPECT_REFUSED(b.where(x, x, x), HasSubstr("rlx.select"));
  EXPECT_REFUSED(b.scatterND(x, b.input("o", I64, {2, 3}), x, static_cast<ir::Combine>(9)), HasSubstr("9"));
  EXPECT_REFUSED(b.attention(x, x, x, std::nullopt, 1), HasSubstr("rlx.attention"), HasSubstr("rank"));
  // None of that is in the graph.
  auto built = b.finish({{"y", b.relu(x)}});
  ASSERT_TRUE(static_cast<bool>(built)) << built.error().message;
  EXPECT_THAT(built->text(), testing::Not(HasSubstr("rlx.matmul")));
}

TEST(GraphBuilder, ErrorsPassThroughNestedCalls) {
  GraphBuilder b;
  GraphValue x = b.input("x", F32, {2, 3});
  GraphValue bad = b.node("first").matmul(x, x);
  GraphValue outcome = b.node("second").softmax(b.add(b.relu(bad), 1.0));
  EXPECT_REFUSED(outcome, HasSubstr("'first'"), HasSubstr("rlx.matmul"));
  auto built = b.finish({{"x", x}, {"y", outcome}});
  EXPECT_ERROR(built, HasSubstr("'first'"));
  // Nothing is lost by that.
  EXPECT_TRUE(static_cast<bool>(b.finish({{"x", x}})));
}

TEST(GraphBuilder, ValuesOfOthers) {
  GraphBuilder a, b;
  GraphValue x = a.input("x", F32, {2}), y = b.input("y", F32, {2}), none;
  EXPECT_REFUSED(a.add(x, y), HasSubstr("rlx.add"), HasSubstr("another builder"));
  EXPECT_REFUSED(a.abs(none), HasSubstr("rlx.abs"), HasSubstr("no builder"));
  EXPECT_EQ(none.error().code, ErrorCode::InvalidArgument);
  EXPECT_REFUSED(a.concat({x, none}, 0), HasSubstr("no builder"));
  EXPECT_REFUSED(a.layerNorm(x, GraphValue()), HasSubstr("no builder"));
  EXPECT_REFUSED(a.add(1, 2), HasSubstr("both operands are numbers"));
  EXPECT_ERROR(a.finish({{"y", y}}), HasSubstr("output 'y'"), HasSubstr("another builder"));
  EXPECT_ERROR(a.finish({{"y", none}}), HasSubstr("no builder"));
  EXPECT_ERROR(a.shape(y), HasSubstr("another builder"));
  // A builder made where another one was is not that one.
  auto first = std::make_unique<GraphBuilder>();
  GraphValue old = first->input("x", F32, {2});
  first.reset();
  for (int i = 0; i != 10; ++i) {
    first = std::make_unique<GraphBuilder>();
    EXPECT_REFUSED(first->abs(old), HasSubstr("another builder"));
  }
}

TEST(GraphBuilder, NothingAfterFinish) {
  GraphBuilder b;
  GraphValue x = b.input("x", F32, {2});
  auto built = b.finish({{"y", b.abs(x)}});
  ASSERT_TRUE(static_cast<bool>(built));
  EXPECT_REFUSED(b.abs(x), HasSubstr("rlx.abs"), HasSubstr("finished"));
  EXPECT_REFUSED(b.add(x, 1), HasSubstr("finished"));
  EXPECT_REFUSED(b.scalar(F32, 1.0), HasSubstr("finished"));
  EXPECT_REFUSED(b.input("z", F32, {2}), HasSubstr("finished"));
  EXPECT_REFUSED(b.param("z", F32, {2}), HasSubstr("finished"));
  EXPECT_REFUSED(b.weight<float>("z", {1}, Floats{1}), HasSubstr("finished"));
  EXPECT_REFUSED(b.weight("z"), HasSubstr("finished"));
  EXPECT_REFUSED(b.constant<float>({1}, {1}), HasSubstr("finished"));
  EXPECT_REFUSED(b.dimValues({1}), HasSubstr("finished"));
  EXPECT_REFUSED(b.reshape(x, {1, 2}), HasSubstr("finished"));
  EXPECT_REFUSED(b.broadcastTo(x, {2}), HasSubstr("finished"));
  EXPECT_REFUSED(b.slice(x, 0, 0, 1), HasSubstr("finished"));
  EXPECT_REFUSED(b.sliceAxes(x, {0}, {1}, {1}), HasSubstr("finished"));
  EXPECT_REFUSED(b.assumeDims(x, {2}), HasSubstr("finished"));
  EXPECT_REFUSED(b.concat({x}, 0), HasSubstr("finished"));
  EXPECT_REFUSED(b.pad(x, 0, {0}, {0}), HasSubstr("finished"));
  EXPECT_REFUSED(b.iota({2}, 0), HasSubstr("finished"));
  EXPECT_REFUSED(b.randomUniform(F32, {2}), HasSubstr("finished"));
  EXPECT_REFUSED(b.squeeze(x, {0}), HasSubstr("finished"));
  EXPECT_REFUSED(b.cast(x, I32), HasSubstr("finished"));
  EXPECT_REFUSED(b.where(x, x, 1), HasSubstr("finished"));
  EXPECT_REFUSED(b.compare(ir::ComparePredicate::Eq, x, 1), HasSubstr("finished"));
  EXPECT_REFUSED(b.create<ir::AbsOp>(x), HasSubstr("finished"));
  EXPECT_ERROR(b.dim("N"), HasSubstr("finished"));
  EXPECT_ERROR(b.require("1 <= 2", ""), HasSubstr("finished"));
  EXPECT_ERROR(b.useWeights(std::make_shared<WeightTable>()), HasSubstr("finished"));
  EXPECT_ERROR(b.shape(x), HasSubstr("finished"));
  EXPECT_ERROR(b.elementType(x), HasSubstr("finished"));
  EXPECT_ERROR(b.finish({{"y", x}}), HasSubstr("finished"));
}

TEST(GraphBuilder, Names) {
  GraphBuilder b;
  declare(b, {"N"});
  EXPECT_ERROR(b.dim("N"), HasSubstr("'N'"), HasSubstr("twice"));
  EXPECT_ERROR(b.dim(""), HasSubstr("name"));
  EXPECT_ERROR(b.dim("a\nb"), HasSubstr("name"));
  EXPECT_ERROR(b.dim("M", {.min = 5, .max = 4}), HasSubstr("'M'"), HasSubstr("5"), HasSubstr("4"));
  EXPECT_ERROR(b.dim("M", {.min = -1}), HasSubstr("negative"));
  EXPECT_ERROR(b.dim("M", {.multiple = 0}), HasSubstr("multiple"));
  EXPECT_ERROR(b.dim("M", {.max = 64, .likely = {65}}), HasSubstr("65"));
  EXPECT_ERROR(b.dim("M", {.min = 5, .max = 6, .multiple = 4}), HasSubstr("multiple"));
  EXPECT_REFUSED(b.input("x", F32, {"M"}), HasSubstr("input 'x'"), HasSubstr("'M'"), HasSubstr("not declared"));
  ASSERT_TRUE(static_cast<bool>(b.dim("M"))) << "an error declares nothing";
  GraphValue x = b.input("x", F32, {"M"});
  ASSERT_TRUE(static_cast<bool>(x)) << "the name is free after an error";
  EXPECT_REFUSED(b.input("x", F32, {"M"}), HasSubstr("two inputs"), HasSubstr("'x'"));
  EXPECT_REFUSED(b.input("", F32, {"M"}), HasSubstr("empty"));
  EXPECT_REFUSED(b.param("", F32, {2}), HasSubstr("empty"));
  EXPECT_TRUE(static_cast<bool>(b.param("p", F32, {2})));
  EXPECT_REFUSED(b.param("p", F32, {3}), HasSubstr("two params"), HasSubstr("'p'"));
  EXPECT_ERROR(b.require("N <= K", ""), HasSubstr("'K'"), HasSubstr("not declared"));
  EXPECT_ERROR(b.require("N ~ M", ""), HasSubstr("N ~ M"));
  EXPECT_ERROR(b.require("", ""), HasSubstr("constraint"));
  EXPECT_ERROR(b.finish({}), HasSubstr("no outputs"));
  EXPECT_ERROR(b.finish({{"", x}}), HasSubstr("empty"));
  EXPECT_ERROR(b.finish({{"y", x}, {"y", x}}), HasSubstr("two outputs"), HasSubstr("'y'"));
  // N occurs in no input: nothing could bind it.
  auto built = b.finish({{"y", x}, {"z", b.broadcastTo(b.scalar(F32, 0.0), {"N"})}});
  EXPECT_ERROR(built, HasSubstr("'N'"), HasSubstr("outputs"));
  EXPECT_EQ(built.error().code, ErrorCode::InvalidModel);
  EXPECT_TRUE(static_cast<bool>(b.finish({{"y", x}, {"same value", x}})));
}

TEST(GraphBuilder, HostileShapes) {
  GraphBuilder b;
  declare(b, {"N", "M"});
  constexpr int64_t large = int64_t(1) << 32;
  EXPECT_REFUSED(b.input("x", F32, {-1}), HasSubstr("input 'x'"), HasSubstr("-1"));
  EXPECT_REFUSED(b.input("x", F32, {large, large}), HasSubstr("too large"));
  EXPECT_REFUSED(b.input("x", F32, {int64_t(1) << 62}), HasSubstr("too large"));
  EXPECT_REFUSED(b.input("x", F32, {UINT64_MAX}), HasSubstr("18446744073709551615"));
  EXPECT_REFUSED(b.input("x", F32, {"N *"}), HasSubstr("input 'x'"));
  EXPECT_REFUSED(b.input("x", F32, {""}), HasSubstr("input 'x'"));
  EXPECT_REFUSED(b.input("x", F32, {static_cast<const char *>(nullptr)}), HasSubstr("input 'x'"));
  EXPECT_REFUSED(b.input("x", F32, {"9223372036854775807 * N * 9223372036854775807"}), HasSubstr("too large"));
  EXPECT_REFUSED(b.input("x", F32, {"?"}), HasSubstr("input 'x'"));
  EXPECT_REFUSED(b.input("x", F32, std::vector<int64_t>(1000, 1)), HasSubstr("1000 sizes"));
  EXPECT_REFUSED(b.input("x", F32, {std::string(1 << 20, '(')}), HasSubstr("input 'x'"));
  EXPECT_REFUSED(b.input("x", static_cast<ElementType>(77), {1}), HasSubstr("77"));
  EXPECT_REFUSED(b.input("x", F32, {0, large, large}), HasSubstr("too large"));
  // What grows while building.
  GraphValue x = b.input("x", F32, {"N", 1 << 30});
  EXPECT_REFUSED(b.broadcastTo(x, {large, "N", 1 << 30}), HasSubstr("too large"));
  GraphValue wide = b.input("wide", F32, std::vector<int64_t>(32, 1));
  EXPECT_REFUSED(b.expandDims(wide, {0}), HasSubstr("33"));
  EXPECT_REFUSED(b.gather(wide, b.input("i", I64, {1, 1}), 0), HasSubstr("33 dims"));
  EXPECT_REFUSED(b.pad(b.input("v", F32, {2}), 0, {-3}, {0}), HasSubstr("rlx.pad"));
  EXPECT_REFUSED(b.pad(b.input("u", F32, {2}), 0, {INT64_MAX}, {INT64_MAX}), HasSubstr("rlx.pad"));
  // Expressions that double are stopped where they cannot be held.
  GraphValue grown = b.input("grown", F32, {"N + M"});
  for (int i = 0; grown && i != 200; ++i)
    grown = b.reshape(b.matmul(b.expandDims(grown, {1}), b.expandDims(grown, {0})), {-1});
  EXPECT_REFUSED(grown, HasSubstr("rlx."), HasSubstr("too large"));
}

TEST(GraphBuilder, Contents) {
  GraphBuilder b;
  Floats two = {1, 2};
  auto bytes = std::as_bytes(std::span(two));
  EXPECT_REFUSED(b.weight("w", F32, {3}, bytes), HasSubstr("weight 'w'"), HasSubstr("8 bytes"), HasSubstr("[3]"));
  EXPECT_REFUSED(b.weight("w", F32, {-2}, bytes), HasSubstr("weight 'w'"));
  EXPECT_REFUSED(b.weight("w", F32, {int64_t(1) << 61, int64_t(1) << 2}, {}), HasSubstr("weight 'w'"));
  EXPECT_REFUSED(b.weight("w", static_cast<ElementType>(40), {2}, bytes), HasSubstr("weight 'w'"));
  EXPECT_REFUSED(b.weight("w", F32, {2}, std::span(static_cast<const std::byte *>(nullptr), 8)), HasSubstr("no data"));
  EXPECT_REFUSED(b.weight("", F32, {2}, bytes), HasSubstr("empty"));
  EXPECT_REFUSED(b.weight("w"), HasSubstr("'w'"), HasSubstr("not among"));
  GraphValue w = b.weight("w", F32, {2}, bytes);
  ASSERT_TRUE(static_cast<bool>(w)) << w.error().message;
  EXPECT_REFUSED(b.weight("w", F32, {2}, bytes), HasSubstr("two weights"));
  EXPECT_TRUE(static_cast<bool>(b.weight("w")));
  EXPECT_TRUE(static_cast<bool>(b.weight("none", F32, {0, 5}, {})));
  auto owner = std::make_shared<Floats>(two);
  std::weak_ptr<Floats> watched = owner;
  EXPECT_TRUE(static_cast<bool>(b.weight("kept", F32, {2}, std::as_bytes(std::span(*owner)), owner)));
  const Floats *data = owner.get();
  owner.reset();
  EXPECT_FALSE(watched.expired()) << "the table holds on to it";
  EXPECT_ERROR(b.useWeights(std::make_shared<WeightTable>()), HasSubstr("already"));
  EXPECT_ERROR(b.useWeights(nullptr), HasSubstr("no table"));

  EXPECT_REFUSED(b.constant(F32, {3}, bytes), HasSubstr("rlx.constant"), HasSubstr("8 bytes"));
  EXPECT_REFUSED(b.constant(F32, {2}, std::span(static_cast<const std::byte *>(nullptr), 8)), HasSubstr("constant"));
  EXPECT_REFUSED(b.constant<float>({257}, Floats(257, 0)), HasSubstr("weight"));
  EXPECT_TRUE(static_cast<bool>(b.constant<float>({256}, Floats(256, 0))));
  EXPECT_TRUE(static_cast<bool>(b.constant<int8_t>({2, 0}, {})));
  EXPECT_REFUSED(b.scalar(I32, 0.5), HasSubstr("0.5"), HasSubstr("i32"));
  EXPECT_REFUSED(b.scalar(I32, int64_t(1) << 31), HasSubstr("2147483648"));
  EXPECT_REFUSED(b.scalar(ElementType::U8, -1), HasSubstr("-1"));
  EXPECT_REFUSED(b.scalar(ElementType::U8, 256), HasSubstr("256"));
  EXPECT_REFUSED(b.scalar(ElementType::I1, 2), HasSubstr("2"));
  EXPECT_REFUSED(b.scalar(I64, std::nan("")), HasSubstr("i64"));
  EXPECT_REFUSED(b.scalar(static_cast<ElementType>(50), 1.0), HasSubstr("50"));
  EXPECT_REFUSED(b.add(b.constant<int32_t>({1}, {1}), 1.5), HasSubstr("1.5"));
  auto built = b.finish({{"y", b.add(w, b.weight("kept"))}});
  ASSERT_TRUE(static_cast<bool>(built));
  EXPECT_EQ(static_cast<const void *>(built->weights->find("kept")->bytes.data()), data->data()) << "not copied";
}

TEST(GraphBuilder, RowsOfAnotherTable) {
  auto table = std::make_shared<WeightTable>();
  auto values = std::make_shared<const Floats>(Floats{1, 2, 3});
  ASSERT_TRUE(static_cast<bool>(table->add("row", {F32, {3}, std::as_bytes(std::span(*values)), values})));
  GraphBuilder b;
  ASSERT_TRUE(static_cast<bool>(b.useWeights(table)));
  EXPECT_EQ(sizes(b, b.weight("row")), "[3]");
  auto built = b.finish({{"y", b.weight("row")}});
  ASSERT_TRUE(static_cast<bool>(built));
  EXPECT_EQ(built->weights, table);
}

TEST(GraphBuilder, AnyOpOfTheDialect) {
  GraphBuilder b;
  declare(b, {"N"});
  GraphValue x = b.input("x", F32, {"N", 4}), i = b.input("i", I64, {3});
  EXPECT_EQ(sizes(b, b.create<ir::MatmulOp>(x, b.transpose(x, {1, 0}))), "[N, N]");
  EXPECT_EQ(sizes(b, b.create<ir::ConcatOp>(std::vector<GraphValue>{x, x}, uint64_t(0))), "[2*N, 4]");
  std::optional<GraphValue> none;
  EXPECT_EQ(sizes(b, b.create<ir::LayerNormOp>(x, none, none, uint64_t(1), 1e-5)), "[N, 4]");
  EXPECT_EQ(sizes(b, b.create<ir::RmsNormOp>(x, none, uint64_t(1), llvm::APFloat(1e-5f))), "[N, 4]");
  EXPECT_EQ(sizes(b, b.createAs<ir::ReshapeOp>(F32, {2, "2*N"}, x)), "[2, 2*N]");
  EXPECT_EQ(sizes(b, b.createAs<ir::IotaOp>(I64, {"N"}, ir::DimsAttr::get(&b.mlirContext(), {DimExpr(0), DimExpr(1)}),
                                            uint64_t(0))),
            "[N]");
  EXPECT_REFUSED(b.create<ir::AddOp>(x, i), HasSubstr("rlx.add"));
  EXPECT_REFUSED(b.create<ir::AddOp>(x, GraphValue()), HasSubstr("no builder"));
  EXPECT_REFUSED(b.create<ir::AddOp>(x, mlir::Value()), HasSubstr("missing"));
  EXPECT_REFUSED(b.create<ir::AddOp>(x, none), HasSubstr("missing"));
  EXPECT_REFUSED(b.create<ir::GatherOp>(x, i, static_cast<uint64_t>(-1)), HasSubstr("axis"));
  EXPECT_REFUSED(b.create<ir::GatherNDOp>(x, i, static_cast<uint64_t>(-1)), HasSubstr("rlx.gather_nd"));
  EXPECT_REFUSED(b.createAs<ir::ReshapeOp>(F32, {"M"}, x), HasSubstr("'M'"));
  EXPECT_REFUSED(b.createAs<ir::WeightOp>(F32, {2}, mlir::StringAttr::get(&b.mlirContext(), "")), HasSubstr("empty"));
  EXPECT_REFUSED(b.createAs<ir::SliceOp>(F32, {1, 4}, x, ir::DimsAttr::get(&b.mlirContext(), {DimExpr(0)}),
                                         llvm::ArrayRef<int64_t>{1, 1}),
                 HasSubstr("rlx.slice"));
}

TEST(GraphBuilder, EveryNameIsFreeInAnotherRole) {
  // Inputs, params, weights, outputs and dims have names of their own.
  GraphBuilder b;
  declare(b, {"n"});
  GraphValue sum =
      b.add(b.add(b.input("n", F32, {"n"}), b.param("n", F32, {"n"})), b.weight<float>("n", {1}, Floats{1}));
  EXPECT_TRUE(static_cast<bool>(b.node("n").finish({{"n", sum}})));
}

/// Calls of every kind with arguments of every kind: a value or an error, and a module that verifies at the end.
TEST(GraphBuilder, AnyCallsInAnyOrder) {
  size_t good = 0, bad = 0;
  for (uint32_t seed = 0; seed != 20; ++seed) {
    std::mt19937 random(seed);
    GraphBuilder b;
    std::vector<GraphOutput> outputs;
    for (const GraphValue &value : test::callRandomly(b, random, 400, bad))
      outputs.push_back({"out" + std::to_string(outputs.size()), value});
    good += outputs.size();
    auto built = b.finish(outputs);
    // Names that occur in random numbers alone, say, cannot be bound: that is for the whole graph to tell.
    if (!built) {
      EXPECT_EQ(built.error().code, ErrorCode::InvalidModel);
      EXPECT_THAT(built.error().message, HasSubstr("occurs only in outputs"));
    }
  }
  EXPECT_GT(good, 1000u);
  EXPECT_GT(bad, 1000u);
}

TEST(GraphBuilder, AThousandOps) {
  GraphBuilder b;
  declare(b, {"N"});
  GraphValue x = b.input("x", F32, {"N"});
  for (int i = 0; i != 1000; ++i)
    x = b.add(x, 1);
  auto built = b.finish({{"y", x}});
  ASSERT_TRUE(static_cast<bool>(built));
  size_t adds = 0;
  built->module->walk([&](ir::AddOp) { ++adds; });
  EXPECT_EQ(adds, 1000u);
}

} // namespace
