//===- PaddingTest.cpp - along which dims a run may be padded -------------===//
#include "rlx/Transforms/Padding.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"

#include <gmock/gmock.h>

using namespace mlir;
using ::testing::HasSubstr;

namespace {

class PaddingTest : public ::testing::Test {
protected:
  PaddingTest() { context.loadDialect<rlx::ir::RLXDialect>(); }

  /// What stands in the way of padding along `dim`; empty when nothing does.
  std::string obstacle(StringRef dim, StringRef text) {
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
    EXPECT_TRUE(module);
    if (!module)
      return "no module";
    return rlx::transforms::paddingObstacle(*module->getOps<rlx::ir::GraphOp>().begin(), dim).value_or("");
  }

  MLIRContext context;
};

TEST_F(PaddingTest, RowsOfAPerceptronAreApart) {
  EXPECT_EQ(obstacle("B", R"(
    rlx.graph @main(%x: tensor<?x4xf32, #rlx.dims<[B, 4]>>) -> tensor<?x8xf32, #rlx.dims<[B, 8]>>
        attributes {dims = [#rlx.dim<"B">]} {
      %w = rlx.weight "w" : tensor<4x8xf32>
      %b = rlx.weight "b" : tensor<8xf32>
      %0 = rlx.matmul %x, %w : tensor<?x4xf32, #rlx.dims<[B, 4]>>, tensor<4x8xf32> -> tensor<?x8xf32, #rlx.dims<[B, 8]>>
      %1 = rlx.add %0, %b : tensor<?x8xf32, #rlx.dims<[B, 8]>>, tensor<8xf32> -> tensor<?x8xf32, #rlx.dims<[B, 8]>>
      %2 = rlx.softmax %1 axis 1 : tensor<?x8xf32, #rlx.dims<[B, 8]>> -> tensor<?x8xf32, #rlx.dims<[B, 8]>>
      rlx.output %2 : tensor<?x8xf32, #rlx.dims<[B, 8]>>
    })"),
            "");
}

TEST_F(PaddingTest, issue_BoundsAreChecksWhatIsEqualIsMore) {
  // A bound holds at the sizes given and at the bucket's, or the run is not padded: it says nothing else. Importers
  // leave one wherever a -1 of a reshape divides.
  auto withConstraint = [](StringRef constraint) {
    return (R"(
    rlx.graph @main(%x: tensor<?x?xf32, #rlx.dims<[B, S]>>) -> tensor<?x?xf32, #rlx.dims<[B, S]>>
        attributes {constraints = [#rlx.constraint<")" +
            constraint + R"(", "why">], dims = [#rlx.dim<"B">, #rlx.dim<"S">]} {
      %0 = rlx.exp %x : tensor<?x?xf32, #rlx.dims<[B, S]>> -> tensor<?x?xf32, #rlx.dims<[B, S]>>
      rlx.output %0 : tensor<?x?xf32, #rlx.dims<[B, S]>>
    })")
        .str();
  };
  EXPECT_EQ(obstacle("B", withConstraint("1 <= 32*B*S")), "");
  EXPECT_EQ(obstacle("B", withConstraint("B < S")), "");
  EXPECT_EQ(obstacle("B", withConstraint("broadcastable(S, min(S, 512))")), "");
  EXPECT_THAT(obstacle("S", withConstraint("broadcastable(S, min(S, 512))")), HasSubstr("speaks of it"));
  EXPECT_THAT(obstacle("B", withConstraint("B == S")), HasSubstr("the constraint 'B == S' speaks of it"));
}

TEST_F(PaddingTest, SumsAlongTheDimNeedZeros) {
  // Padded inputs are zeros, and a sum is the same with them; after exp they are ones.
  const char *sum = R"(
    rlx.graph @main(%x: tensor<?x4xf32, #rlx.dims<[S, 4]>>) -> tensor<4xf32> attributes {dims = [#rlx.dim<"S">]} {
      %1 = rlx.reduce sum %x axes [0] : tensor<?x4xf32, #rlx.dims<[S, 4]>> -> tensor<4xf32>
      rlx.output %1 : tensor<4xf32>
    })";
  EXPECT_EQ(obstacle("S", sum), "");
  EXPECT_THAT(obstacle("S", R"(
    rlx.graph @main(%x: tensor<?x4xf32, #rlx.dims<[S, 4]>>) -> tensor<4xf32> attributes {dims = [#rlx.dim<"S">]} {
      %0 = rlx.exp %x : tensor<?x4xf32, #rlx.dims<[S, 4]>> -> tensor<?x4xf32, #rlx.dims<[S, 4]>>
      %1 = rlx.reduce sum %0 axes [0] : tensor<?x4xf32, #rlx.dims<[S, 4]>> -> tensor<4xf32>
      rlx.output %1 : tensor<4xf32>
    })"),
              HasSubstr("reduces along it"));
  EXPECT_THAT(obstacle("S", R"(
    rlx.graph @main(%x: tensor<?x4xf32, #rlx.dims<[S, 4]>>) -> tensor<4xf32> attributes {dims = [#rlx.dim<"S">]} {
      %1 = rlx.reduce mean %x axes [0] : tensor<?x4xf32, #rlx.dims<[S, 4]>> -> tensor<4xf32>
      rlx.output %1 : tensor<4xf32>
    })"),
              HasSubstr("reduces along it"));
}

TEST_F(PaddingTest, SoftmaxNeedsAMaskOfMinusInfinity) {
  // The mask is an input: 0 in the padding, where -inf is selected.
  EXPECT_EQ(obstacle("S", R"(
    rlx.graph @main(%x: tensor<?xf32, #rlx.dims<[S]>>, %mask: tensor<?xi64, #rlx.dims<[S]>>)
        -> tensor<?xf32, #rlx.dims<[S]>> attributes {dims = [#rlx.dim<"S">]} {
      %zero = rlx.constant dense<0> : tensor<i64>
      %masked = rlx.constant dense<0xFF800000> : tensor<f32>
      %0 = rlx.compare ne %mask, %zero : tensor<?xi64, #rlx.dims<[S]>>, tensor<i64> -> tensor<?xi1, #rlx.dims<[S]>>
      %1 = rlx.select %0, %x, %masked : tensor<?xi1, #rlx.dims<[S]>>, tensor<?xf32, #rlx.dims<[S]>>, tensor<f32>
           -> tensor<?xf32, #rlx.dims<[S]>>
      %2 = rlx.softmax %1 axis 0 : tensor<?xf32, #rlx.dims<[S]>> -> tensor<?xf32, #rlx.dims<[S]>>
      rlx.output %2 : tensor<?xf32, #rlx.dims<[S]>>
    })"),
            "");
  EXPECT_THAT(obstacle("S", R"(
    rlx.graph @main(%x: tensor<?xf32, #rlx.dims<[S]>>) -> tensor<?xf32, #rlx.dims<[S]>>
        attributes {dims = [#rlx.dim<"S">]} {
      %0 = rlx.softmax %x axis 0 : tensor<?xf32, #rlx.dims<[S]>> -> tensor<?xf32, #rlx.dims<[S]>>
      rlx.output %0 : tensor<?xf32, #rlx.dims<[S]>>
    })"),
              HasSubstr("nothing masks the padding"));
}

TEST_F(PaddingTest, LookupsTakeTheIndexZeroOfThePadding) {
  EXPECT_EQ(obstacle("S", R"(
    rlx.graph @main(%i: tensor<?xi64, #rlx.dims<[S]>>) -> tensor<?x4xf32, #rlx.dims<[S, 4]>>
        attributes {dims = [#rlx.dim<"S">]} {
      %w = rlx.weight "w" : tensor<5x4xf32>
      %0 = rlx.gather %w, %i axis 0 : tensor<5x4xf32>, tensor<?xi64, #rlx.dims<[S]>> -> tensor<?x4xf32, #rlx.dims<[S, 4]>>
      rlx.output %0 : tensor<?x4xf32, #rlx.dims<[S, 4]>>
    })"),
            "");
  // 0 - 7 lies outside the table, and there is no telling from here that it does not.
  EXPECT_THAT(obstacle("S", R"(
    rlx.graph @main(%i: tensor<?xi64, #rlx.dims<[S]>>) -> tensor<?x4xf32, #rlx.dims<[S, 4]>>
        attributes {dims = [#rlx.dim<"S">]} {
      %w = rlx.weight "w" : tensor<5x4xf32>
      %seven = rlx.constant dense<7> : tensor<i64>
      %1 = rlx.sub %i, %seven : tensor<?xi64, #rlx.dims<[S]>>, tensor<i64> -> tensor<?xi64, #rlx.dims<[S]>>
      %0 = rlx.gather %w, %1 axis 0 : tensor<5x4xf32>, tensor<?xi64, #rlx.dims<[S]>> -> tensor<?x4xf32, #rlx.dims<[S, 4]>>
      rlx.output %0 : tensor<?x4xf32, #rlx.dims<[S, 4]>>
    })"),
              HasSubstr("index that only the padding has"));
}

TEST_F(PaddingTest, APaddedDivisorWouldBeZero) {
  const char *text = R"(
    rlx.graph @main(%x: tensor<?xi32, #rlx.dims<[S]>>, %y: tensor<?xi32, #rlx.dims<[S]>>)
        -> tensor<?xi32, #rlx.dims<[S]>> attributes {dims = [#rlx.dim<"S">]} {
      %0 = rlx.div %x, %y : tensor<?xi32, #rlx.dims<[S]>>, tensor<?xi32, #rlx.dims<[S]>> -> tensor<?xi32, #rlx.dims<[S]>>
      rlx.output %0 : tensor<?xi32, #rlx.dims<[S]>>
    })";
  EXPECT_THAT(obstacle("S", text), HasSubstr("divide by a padded zero"));
}

TEST_F(PaddingTest, MergedAxesFollowWhereTheDimComesFirst) {
  const char *text = R"(
    rlx.graph @main(%x: tensor<?x?x4xf32, #rlx.dims<[B, S, 4]>>) -> tensor<?x4xf32, #rlx.dims<[B * S, 4]>>
        attributes {dims = [#rlx.dim<"B">, #rlx.dim<"S">]} {
      %0 = rlx.reshape %x : tensor<?x?x4xf32, #rlx.dims<[B, S, 4]>> -> tensor<?x4xf32, #rlx.dims<[B * S, 4]>>
      rlx.output %0 : tensor<?x4xf32, #rlx.dims<[B * S, 4]>>
    })";
  EXPECT_EQ(obstacle("B", text), "");
  EXPECT_THAT(obstacle("S", text), HasSubstr("merges it behind another axis"));
}

TEST_F(PaddingTest, ValuesThatDependOnTheSizeAreInTheWay) {
  EXPECT_THAT(obstacle("S", R"(
    rlx.graph @main(%x: tensor<?xi64, #rlx.dims<[S]>>) -> tensor<?xi64, #rlx.dims<[S]>>
        attributes {dims = [#rlx.dim<"S">]} {
      %n = rlx.dim_values [S] : tensor<1xi64>
      %0 = rlx.add %x, %n : tensor<?xi64, #rlx.dims<[S]>>, tensor<1xi64> -> tensor<?xi64, #rlx.dims<[S]>>
      rlx.output %0 : tensor<?xi64, #rlx.dims<[S]>>
    })"),
              HasSubstr("depends on the size"));
}

TEST_F(PaddingTest, RunningSumsPassForwardOnly) {
  const char *forward = R"(
    rlx.graph @main(%x: tensor<?xf32, #rlx.dims<[S]>>) -> tensor<?xf32, #rlx.dims<[S]>>
        attributes {dims = [#rlx.dim<"S">]} {
      %1 = rlx.exp %x : tensor<?xf32, #rlx.dims<[S]>> -> tensor<?xf32, #rlx.dims<[S]>>
      %0 = rlx.cumsum %1 axis 0 : tensor<?xf32, #rlx.dims<[S]>> -> tensor<?xf32, #rlx.dims<[S]>>
      rlx.output %0 : tensor<?xf32, #rlx.dims<[S]>>
    })";
  EXPECT_EQ(obstacle("S", forward), "");
  std::string reverse(forward);
  reverse.replace(reverse.find("axis 0"), 6, "axis 0 {reverse}");
  EXPECT_THAT(obstacle("S", reverse), HasSubstr("from the end"));
}

TEST_F(PaddingTest, ConstraintsAndRequirementsAreInTheWay) {
  EXPECT_THAT(obstacle("S", R"(
    rlx.graph @main(%x: tensor<?xf32, #rlx.dims<[S]>>) -> tensor<?xf32, #rlx.dims<[S]>>
        attributes {dims = [#rlx.dim<"S">], constraints = [#rlx.constraint<"S % 8 == 0", "declared">]} {
      rlx.output %x : tensor<?xf32, #rlx.dims<[S]>>
    })"),
              HasSubstr("S % 8 == 0"));
  EXPECT_NE(obstacle("S", R"(
    rlx.graph @main(%x: tensor<?xf32, #rlx.dims<[S]>>, %y: tensor<?xf32, #rlx.dims<[T]>>)
        -> tensor<?xf32, #rlx.dims<[broadcast(S, T)]>> attributes {dims = [#rlx.dim<"S">, #rlx.dim<"T">]} {
      %0 = rlx.add %x, %y : tensor<?xf32, #rlx.dims<[S]>>, tensor<?xf32, #rlx.dims<[T]>>
           -> tensor<?xf32, #rlx.dims<[broadcast(S, T)]>>
      rlx.output %0 : tensor<?xf32, #rlx.dims<[broadcast(S, T)]>>
    })"),
            "");
}

TEST_F(PaddingTest, MatmulSumsAlongItUnlessProductsAddNothing) {
  // Zeros of integers; of floats +0 would turn a sum of -0.
  auto product = [](std::string type, const char *negated = "%x") {
    std::string x = "tensor<2x?x" + type + ", #rlx.dims<[2, S]>>", y = "tensor<?x3x" + type + ", #rlx.dims<[S, 3]>>",
                z = "tensor<2x3x" + type + ">";
    return "rlx.graph @main(%x: " + x + ", %y: " + y + ") -> " + z + " attributes {dims = [#rlx.dim<\"S\">]} {\n" +
           "%n = rlx.neg %x : " + x + " -> " + x + "\n%0 = rlx.matmul " + negated + ", %y : " + x + ", " + y + " -> " +
           z + "\nrlx.output %0 : " + z + "\n}";
  };
  EXPECT_EQ(obstacle("S", product("i32")), "");
  EXPECT_THAT(obstacle("S", product("f32")), HasSubstr("sums along it"));
  EXPECT_EQ(obstacle("S", product("f32", "%n")), ""); // -0 times +0
  EXPECT_THAT(obstacle("S", R"(
    rlx.graph @main(%x: tensor<2x?xf32, #rlx.dims<[2, S]>>, %y: tensor<?x3xf32, #rlx.dims<[S, 3]>>) -> tensor<2x3xf32>
        attributes {dims = [#rlx.dim<"S">]} {
      %1 = rlx.reciprocal %y : tensor<?x3xf32, #rlx.dims<[S, 3]>> -> tensor<?x3xf32, #rlx.dims<[S, 3]>>
      %0 = rlx.matmul %x, %1 : tensor<2x?xf32, #rlx.dims<[2, S]>>, tensor<?x3xf32, #rlx.dims<[S, 3]>> -> tensor<2x3xf32>
      rlx.output %0 : tensor<2x3xf32>
    })"),
              HasSubstr("sums along it"));
}

TEST_F(PaddingTest, IssueSumsBehindAnotherAxis) {
  auto reduce = [](const char *kind, const char *x, const char *axes) {
    return "rlx.graph @main(%x: " + std::string(x) + ") -> tensor<f32> attributes {dims = [#rlx.dim<\"S\">]} {\n" +
           "%0 = rlx.reduce " + kind + " %x axes " + axes + " : " + x +
           " -> tensor<f32>\nrlx.output %0 : tensor<f32>\n}";
  };
  EXPECT_EQ(obstacle("S", reduce("sum", "tensor<?x5xf32, #rlx.dims<[S, 5]>>", "[0, 1]")), "");
  EXPECT_EQ(obstacle("S", reduce("sum", "tensor<1x?xf32, #rlx.dims<[1, S]>>", "[0, 1]")), "");
  EXPECT_THAT(obstacle("S", reduce("sum", "tensor<5x?xf32, #rlx.dims<[5, S]>>", "[0, 1]")),
              HasSubstr("behind another axis"));
}

} // namespace
