//===- ShapeArithmeticTest.cpp - shapes as expressions --------------------===//
#include "ModelText.h"

#include "gmock/gmock.h"

using namespace rlx;
using namespace rlx::test;
using testing::AllOf;
using testing::HasSubstr;

namespace {

std::string constraints(Import &import) {
  std::string text;
  if (ir::GraphOp graph = import.graph())
    for (ir::ConstraintAttr constraint : graph.getConstraintList())
      text += (text.empty() ? "" : "; ") + constraint.getPredicate().str();
  return text;
}

/// x reshaped to a constant shape.
std::string reshapeGraph(const std::vector<std::string> &dims, const std::vector<int64_t> &shape) {
  return input("x", f32, dims) + ints("s", shape) + node("r", "Reshape", {"x", "s"}, {"y"}) + output("y");
}
std::string reshaped(const std::vector<std::string> &dims, const std::vector<int64_t> &shape) {
  return Import(reshapeGraph(dims, shape)).dims();
}
std::string reshapeError(const std::vector<std::string> &dims, const std::vector<int64_t> &shape) {
  return Import(reshapeGraph(dims, shape)).error();
}

TEST(ShapeArithmetic, ReshapeToNumbers) {
  EXPECT_EQ(reshaped({"S", "4"}, {-1, 2}), "[2*S, 2]");
  EXPECT_EQ(reshaped({"4", "15", "384"}, {60, -1}), "[60, 384]");
  EXPECT_EQ(reshaped({"2", "3", "4"}, {2, -1}), "[2, 12]");
  EXPECT_EQ(reshaped({"0", "10"}, {-1, 10}), "[0, 10]");
  EXPECT_EQ(reshaped({"2", "3", "4"}, {0, 0, 2, -1}), "[2, 3, 2, 2]");
  EXPECT_EQ(reshaped({"N"}, {1, -1}), "[1, N]");
  EXPECT_EQ(reshaped({}, {1, 1}), "[1, 1]");
  EXPECT_EQ(reshaped({"1", "1"}, {}), "[]");

  EXPECT_THAT(reshapeError({"4", "15"}, {7, -1}), AllOf(HasSubstr("'r'"), HasSubstr("60"), HasSubstr("7")));
  EXPECT_THAT(reshapeError({"1", "0"}, {-1, 0}), HasSubstr("'r'"));
  EXPECT_THAT(reshapeError({"4"}, {-1, -1}), HasSubstr("-1 twice"));
  EXPECT_THAT(reshapeError({"4"}, {4, 0}), HasSubstr("does not have"));
  EXPECT_THAT(reshapeError({"4"}, {-2, -2}), HasSubstr("negative"));
  EXPECT_THAT(reshapeError({"4"}, {5}), HasSubstr("'r'"));
}

TEST(ShapeArithmetic, AnExactQuotientStillNeedsItsDivisor) {
  // [B, S, 384] to [-1, S, 32] with S from the shape: 12 * B, but not for S = 0.
  Import import(input("x", f32, {"B", "S", "384"}) + ints("one", {1}) + ints("minus", {-1}) + ints("w", {32}) +
                node("shape", "Shape", {"x"}, {"s"}) + node("take", "Gather", {"s", "one"}, {"len"}) +
                node("join", "Concat", {"minus", "len", "w"}, {"t"}, intAttr("axis", 0)) +
                node("r", "Reshape", {"x", "t"}, {"y"}) + output("y"));
  EXPECT_EQ(import.dims(), "[12*B, S, 32]");
  EXPECT_EQ(constraints(import), "1 <= 32*S");
  EXPECT_THAT(import.graph().getConstraintList().front().getMessage().str(), HasSubstr("'r'"));
}

TEST(ShapeArithmetic, AQuotientThatMayNotBeExact) {
  Import import(reshapeGraph({"N"}, {8, -1}));
  EXPECT_EQ(import.dims(), "[8, floordiv(N, 8)]");
  EXPECT_EQ(constraints(import), "N % 8 == 0");
}

TEST(ShapeArithmetic, AllowZero) {
  auto graph = [](const std::string &attr) {
    return input("x", f32, {"0", "3"}) + ints("s", {3, 0}) + node("r", "Reshape", {"x", "s"}, {"y"}, attr) +
           output("y");
  };
  EXPECT_EQ(Import(graph(intAttr("allowzero", 1))).dims(), "[3, 0]");
  EXPECT_THAT(Import(graph("")).error(), HasSubstr("'r'")); // [3, 3] of nothing
}

TEST(ShapeArithmetic, ASymbolicZeroWouldCopy) {
  // [N, M] to [M, N]: where M is 0 the first would copy N, which fits only if N is 0 too.
  Import import(input("x", f32, {"N", "M"}) + ints("swap", {1, 0}) + node("shape", "Shape", {"x"}, {"s"}) +
                node("take", "Gather", {"s", "swap"}, {"t"}) + node("r", "Reshape", {"x", "t"}, {"y"}) + output("y"));
  EXPECT_EQ(import.dims(), "[M, N]");
  EXPECT_THAT(constraints(import), AllOf(HasSubstr("1 <= max(M, -N+1)"), HasSubstr("1 <= max(N, -M+1)")));
  // Its own dim in its own place asks nothing.
  Import same(input("x", f32, {"N", "M", "4"}) + ints("first", {0, 1}) + ints("rest", {2, 2}) +
              node("shape", "Shape", {"x"}, {"s"}) + node("take", "Gather", {"s", "first"}, {"lead"}) +
              node("join", "Concat", {"lead", "rest"}, {"t"}, intAttr("axis", 0)) +
              node("r", "Reshape", {"x", "t"}, {"y"}) + output("y"));
  EXPECT_EQ(same.dims(), "[N, M, 2, 2]");
  EXPECT_EQ(constraints(same), "");
}

TEST(ShapeArithmetic, IntegerOpsOnSizes) {
  auto sizes = [](const std::string &type, const std::vector<int64_t> &other) {
    return Import(input("x", f32, {"B", "S"}) + ints("k", other) + node("shape", "Shape", {"x"}, {"s"}) +
                  node("n", type, {"s", "k"}, {"y"}) + output("y"))
        .elements();
  };
  EXPECT_EQ(sizes("Add", {1, -2}), "[B+1, S-2]");
  EXPECT_EQ(sizes("Sub", {1}), "[B-1, S-1]");
  EXPECT_EQ(sizes("Mul", {2, 3}), "[2*B, 3*S]");
  EXPECT_EQ(sizes("Div", {2, 1}), "[floordiv(B, 2), S]");
  EXPECT_EQ(sizes("Max", {0}), "[B, S]");
  EXPECT_EQ(sizes("Min", {512}), "[min(B, 512), min(S, 512)]");
  EXPECT_EQ(sizes("Gather", {-1, 0, 1}), "[S, B, S]");
}

TEST(ShapeArithmetic, IntegerDivisionTruncates) {
  Import import(ints("a", {8, -8, 7, -7}) + ints("b", {-3, 3, -2, 2}) + node("d", "Div", {"a", "b"}, {"y"}) +
                output("y"));
  EXPECT_EQ(import.elements(), "[-2, -2, -3, -3]");
}

TEST(ShapeArithmetic, SizesThroughFloats) {
  Import import(input("x", f32, {"N"}) + "initializer { name: 'two' data_type: 1 float_data: 2 } " +
                node("shape", "Shape", {"x"}, {"s"}) + node("up", "Cast", {"s"}, {"f"}, intAttr("to", 1)) +
                node("mul", "Mul", {"f", "two"}, {"g"}) + node("floor", "Floor", {"g"}, {"h"}) +
                node("down", "Cast", {"h"}, {"y"}, intAttr("to", 7)) + output("y"));
  EXPECT_EQ(import.elements(), "[2*N]");
}

TEST(ShapeArithmetic, HalvesThroughFloats) {
  // What exporters write for N // 2.
  Import import(input("x", f32, {"N", "4"}) + ints("zero", {0}) + ints("minus", {-1}) +
                "initializer { name: 'two' data_type: 1 dims: 1 float_data: 2 } " +
                node("shape", "Shape", {"x"}, {"s"}) + node("take", "Gather", {"s", "zero"}, {"n"}) +
                node("up", "Cast", {"n"}, {"f"}, intAttr("to", 1)) + node("div", "Div", {"f", "two"}, {"g"}) +
                node("floor", "Floor", {"g"}, {"h"}) + node("down", "Cast", {"h"}, {"i"}, intAttr("to", 7)) +
                node("cut", "Slice", {"x", "zero", "i"}, {"y"}) + output("y"));
  EXPECT_EQ(import.dims(), "[floordiv(N, 2), 4]");
}

TEST(ShapeArithmetic, ExpandByAShapeWithMinusOnes) {
  // Exporters write Where(Equal(shape, -1), 1, shape) before Expand. Sizes are never -1.
  Import import(input("x", f32, {"N", "1"}) + input("z", f32, {"N", "M"}) + ints("minus", {-1, -1}) +
                ints("ones", {1, 1}) + node("shape", "Shape", {"z"}, {"s"}) +
                node("eq", "Equal", {"s", "minus"}, {"c"}) + node("where", "Where", {"c", "ones", "s"}, {"t"}) +
                node("e", "Expand", {"x", "t"}, {"y"}) + output("y"));
  EXPECT_EQ(import.dims(), "[N, M]");
  EXPECT_EQ(constraints(import), "");
}

TEST(ShapeArithmetic, ExpandBroadcastsBothWays) {
  auto expanded = [](const std::vector<std::string> &dims, const std::vector<int64_t> &shape) {
    return Import(input("x", f32, dims) + ints("s", shape) + node("e", "Expand", {"x", "s"}, {"y"}) + output("y"))
        .dims();
  };
  EXPECT_EQ(expanded({"3", "1"}, {2, 1, 6}), "[2, 3, 6]");
  EXPECT_EQ(expanded({"3", "4"}, {1, 1}), "[3, 4]");
  EXPECT_EQ(expanded({"3", "4"}, {1}), "[3, 4]");
  EXPECT_EQ(expanded({"1", "4"}, {0, 4}), "[0, 4]");
}

//===--- Slice (a tensor of three elements that are known) ----------------===//

std::string sliced(int64_t start, int64_t end, int64_t step) {
  return Import(ints("x", {10, 11, 12}) + ints("b", {start}) + ints("e", {end}) + ints("a", {0}) + ints("p", {step}) +
                node("s", "Slice", {"x", "b", "e", "a", "p"}, {"y"}) + output("y"))
      .elements();
}

TEST(ShapeArithmetic, SliceBounds) {
  EXPECT_EQ(sliced(0, 3, 1), "[10, 11, 12]");
  EXPECT_EQ(sliced(-5, 2, 1), "[10, 11]");
  EXPECT_EQ(sliced(1, INT64_MAX, 1), "[11, 12]");
  EXPECT_EQ(sliced(1, INT32_MAX, 1), "[11, 12]");
  EXPECT_EQ(sliced(2, 1, 1), "[]");
  EXPECT_EQ(sliced(-1, INT64_MIN, -1), "[12, 11, 10]");
  EXPECT_EQ(sliced(5, INT32_MIN, -1), "[12, 11, 10]");
  EXPECT_EQ(sliced(-1, INT64_MAX, -1), "[]");
  EXPECT_EQ(sliced(-1, -4, -2), "[12, 10]");
  EXPECT_EQ(sliced(0, 3, INT64_MAX), "[10]");
  EXPECT_EQ(sliced(2, INT64_MIN, INT64_MIN), "[12]");
  EXPECT_THAT(Import(ints("x", {1}) + ints("b", {0}) + ints("e", {1}) + ints("a", {0}) + ints("p", {0}) +
                     node("s", "Slice", {"x", "b", "e", "a", "p"}, {"y"}) + output("y"))
                  .error(),
              AllOf(HasSubstr("'s'"), HasSubstr("step 0")));
}

std::string sliceDims(int64_t start, int64_t end, int64_t step) {
  return Import(input("x", f32, {"N"}) + ints("b", {start}) + ints("e", {end}) + ints("a", {0}) + ints("p", {step}) +
                node("s", "Slice", {"x", "b", "e", "a", "p"}, {"y"}) + output("y"))
      .dims();
}

/// The size of a slice, as an expression of N.
DimExpr sliceSize(int64_t start, int64_t end, int64_t step) {
  std::string text = sliceDims(start, end, step);
  Result<DimExpr> expr = DimExpr::parse(text.substr(1, text.size() - 2));
  EXPECT_TRUE(expr) << text;
  return expr ? *expr : DimExpr(-1);
}

TEST(ShapeArithmetic, SliceSizesFollowTheRuleAtEverySize) {
  EXPECT_EQ(sliceDims(0, INT64_MAX, 1), "[N]");
  EXPECT_EQ(sliceDims(-1, INT64_MIN, -1), "[N]");
  EXPECT_EQ(sliceDims(0, 512, 1), "[min(N, 512)]");
  for (int64_t start : {int64_t(-7), int64_t(-2), int64_t(0), int64_t(1), int64_t(4)})
    for (int64_t end : {INT64_MIN, int64_t(-3), int64_t(0), int64_t(2), int64_t(9), INT64_MAX})
      for (int64_t step : {-2, -1, 1, 3}) {
        DimExpr expr = sliceSize(start, end, step);
        for (int64_t size : {0, 1, 2, 3, 5, 8}) {
          // The rule of the operator's description, by counting.
          auto place = [&](int64_t bound, int64_t low, int64_t high) {
            __int128 wide = bound;
            if (wide < 0)
              wide += size;
            return static_cast<int64_t>(std::min<__int128>(std::max<__int128>(wide, low), high));
          };
          int64_t count = 0;
          if (step > 0)
            for (int64_t i = place(start, 0, size); i < place(end, 0, size); i += step)
              ++count;
          else
            for (int64_t i = place(start, 0, size - 1); i > place(end, -1, size - 1) && size > 0; i += step)
              ++count;
          Result<int64_t> found = expr.evaluate({{"N", size}});
          ASSERT_TRUE(found) << found.error().message;
          EXPECT_EQ(*found, count) << start << ":" << end << ":" << step << " of " << size;
        }
      }
}

TEST(ShapeArithmetic, SliceOfAShapeBySizes) {
  Import import(input("x", f32, {"N", "3"}) + input("z", f32, {"M"}) + ints("zero", {0}) +
                node("shape", "Shape", {"z"}, {"s"}) + node("cut", "Slice", {"x", "zero", "s"}, {"y"}) + output("y"));
  EXPECT_EQ(import.dims(), "[min(M, N), 3]");
}

//===--- others -----------------------------------------------------------===//

TEST(ShapeArithmetic, RangesAndFills) {
  Import range(input("x", f32, {"N"}) + ints("zero", {0}, true) + ints("one", {1}, true) + ints("two", {2}, true) +
               node("shape", "Shape", {"x"}, {"s"}) + node("squeeze", "Squeeze", {"s"}, {"n"}) +
               node("r", "Range", {"zero", "n", "one"}, {"y"}) + node("q", "Range", {"zero", "n", "two"}, {"z"}) +
               node("f", "ConstantOfShape", {"s"}, {"w"}) + output("y") + output("z") + output("w"));
  EXPECT_EQ(range.dims(0), "[N]");
  EXPECT_EQ(range.dims(1), "[floordiv(N+1, 2)]");
  EXPECT_EQ(range.dims(2), "[N]");
  Import numbers(ints("a", {10}, true) + ints("b", {3}, true) + ints("c", {-3}, true) +
                 node("r", "Range", {"a", "b", "c"}, {"y"}) + output("y"));
  EXPECT_EQ(numbers.elements(), "[10, 7, 4]");
  Import run(input("n", i64, {}) + ints("zero", {0}, true) + ints("one", {1}, true) +
             node("r", "Range", {"zero", "n", "one"}, {"y"}) + output("y"));
  EXPECT_THAT(run.error(), AllOf(HasSubstr("'r'"), HasSubstr("'limit'"), HasSubstr("only when the model runs")));
}

TEST(ShapeArithmetic, Splits) {
  Import even(input("x", f32, {"2", "N"}) + node("s", "Split", {"x"}, {"a", "b"}, intAttr("axis", 1)) + output("a") +
                  output("b"),
              13);
  EXPECT_EQ(even.dims(0), "[2, floordiv(N, 2)]");
  EXPECT_EQ(constraints(even), "N % 2 == 0");
  Import parts(input("x", f32, {"N"}) + ints("p", {3, 4}) + node("s", "Split", {"x", "p"}, {"a", "b"}) + output("b"));
  EXPECT_EQ(parts.dims(0), "[4]");
  EXPECT_EQ(constraints(parts), "N == 7");
  Import uneven(input("x", f32, {"7"}) + node("s", "Split", {"x"}, {"a", "b", "c"}, intAttr("num_outputs", 3)) +
                    output("a") + output("c"),
                18);
  EXPECT_EQ(uneven.dims(0), "[3]");
  EXPECT_EQ(uneven.dims(1), "[1]");
  EXPECT_THAT(Import(input("x", f32, {"7"}) + node("s", "Split", {"x"}, {"a", "b"}) + output("a"), 13).error(),
              HasSubstr("'s'"));
}

TEST(ShapeArithmetic, SqueezeNeedsToKnow) {
  EXPECT_EQ(Import(input("x", f32, {"1", "N", "1"}) + ints("a", {0, -1}) + node("s", "Squeeze", {"x", "a"}, {"y"}) +
                   output("y"))
                .dims(),
            "[N]");
  EXPECT_THAT(Import(input("x", f32, {"1", "N"}) + node("s", "Squeeze", {"x"}, {"y"}) + output("y")).error(),
              AllOf(HasSubstr("'s'"), HasSubstr("N")));
  Import one(input("x", f32, {"N", "3"}) + ints("a", {0}) + node("s", "Squeeze", {"x", "a"}, {"y"}) + output("y"));
  EXPECT_EQ(constraints(one), "N == 1");
}

TEST(ShapeArithmetic, ShapesOfOtherOps) {
  auto dims = [](const std::string &graph, int opset = 17) { return Import(graph + output("y"), opset).dims(); };
  std::string x = input("x", f32, {"B", "S", "8"});
  EXPECT_EQ(dims(x + ints("r", {2, 1, 3}) + node("n", "Tile", {"x", "r"}, {"y"})), "[2*B, S, 24]");
  EXPECT_EQ(dims(x + node("n", "Flatten", {"x"}, {"y"}, intAttr("axis", 2))), "[B*S, 8]");
  EXPECT_EQ(dims(x + node("n", "Flatten", {"x"}, {"y"}, intAttr("axis", 0))), "[1, 8*B*S]");
  EXPECT_EQ(dims(x + node("n", "Transpose", {"x"}, {"y"})), "[8, S, B]");
  EXPECT_EQ(dims(x + node("n", "Concat", {"x", "x"}, {"y"}, intAttr("axis", 1))), "[B, 2*S, 8]");
  EXPECT_EQ(dims(x + node("n", "ReduceMean", {"x"}, {"y"}, intsAttr("axes", {-1}) + intAttr("keepdims", 0))), "[B, S]");
  EXPECT_EQ(dims(x + input("i", i64, {"S", "2"}) + node("n", "Gather", {"x", "i"}, {"y"}, intAttr("axis", 1))),
            "[B, S, 2, 8]");
  EXPECT_EQ(dims(x + node("n", "Softmax", {"x"}, {"y"}, intAttr("axis", 1)), 11), "[B, S, 8]");
  EXPECT_EQ(dims(x + input("v", f32, {"8"}) + node("n", "MatMul", {"x", "v"}, {"y"})), "[B, S]");
  EXPECT_EQ(dims(x + ints("p", {0, 1, 0, 0, 2, 0}) + node("n", "Pad", {"x", "p"}, {"y"})), "[B, S+3, 8]");
  EXPECT_EQ(dims(x + node("n", "Einsum", {"x", "x"}, {"y"}, stringAttr("equation", "bsd,btd->bst"))), "[B, S, S]");
  EXPECT_EQ(Import(x + node("n", "Size", {"x"}, {"y"}) + output("y")).elements(), "[8*B*S]");
}

} // namespace
