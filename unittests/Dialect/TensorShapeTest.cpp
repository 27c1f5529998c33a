//===- TensorShapeTest.cpp - shapes and tensor types ----------------------===//

#include "DialectTest.h"

using namespace rlx;
using namespace rlx::ir;

namespace {

using TensorShapeTest = DialectTest;

std::string str(mlir::Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return text;
}

TEST_F(TensorShapeTest, TypesCarryExpressionsOnlyWhereNamed) {
  mlir::Type f32 = builder.getF32Type();
  EXPECT_EQ(str(makeType(&context, {dims({"2", "3"}), f32})), "tensor<2x3xf32>");
  EXPECT_EQ(str(makeType(&context, {dims({"B", "3"}), f32})), "tensor<?x3xf32, #rlx.dims<[B, 3]>>");
  Binding bound{{"B", 4}};
  EXPECT_EQ(str(makeType(&context, {dims({"B", "S - 1", "2*B"}), f32}, &bound)),
            "tensor<4x?x8xf32, #rlx.dims<[B, S-1, 2*B]>>");
  // Negative or overflowing sizes are no numbers.
  bound["S"] = 0;
  EXPECT_EQ(str(makeType(&context, {dims({"S - 1"}), f32}, &bound)), "tensor<?xf32, #rlx.dims<[S-1]>>");
  bound["S"] = INT64_MAX;
  EXPECT_EQ(str(makeType(&context, {dims({"2*S"}), f32}, &bound)), "tensor<?xf32, #rlx.dims<[2*S]>>");
  EXPECT_EQ(str(makeType(&context, {{dim("B"), unknownDim(), dim("3")}, f32})), "tensor<?x?x3xf32>");
}

TEST_F(TensorShapeTest, ShapesOfTypes) {
  Binding bound{{"B", 4}};
  auto type = makeType(&context, {dims({"B", "S"}), builder.getF32Type()}, &bound);
  EXPECT_EQ(toString(getShape(type).dims), "[B, S]");
  EXPECT_EQ(toString(getBoundShape(type).dims), "[4, S]");
  EXPECT_TRUE(getShape(type).isKnown());
  auto open = mlir::RankedTensorType::get({mlir::ShapedType::kDynamic, 3}, builder.getF32Type());
  EXPECT_EQ(toString(getShape(open).dims), "[?, 3]");
  EXPECT_FALSE(getShape(open).isKnown());
  EXPECT_TRUE(isUnknown(getShape(open).elements()));
}

TEST_F(TensorShapeTest, ElementTypesThereAndBack) {
  for (data::ElementType type : data::EnumValuesElementType()) {
    mlir::Type made = fromElementType(&context, type);
    ASSERT_TRUE(made);
    EXPECT_EQ(toElementType(made), type);
  }
  EXPECT_EQ(toElementType(builder.getIndexType()), std::nullopt);
  EXPECT_EQ(toElementType(builder.getIntegerType(4)), std::nullopt);
  EXPECT_EQ(toElementType(builder.getIntegerType(8, /*isSigned=*/true)), std::nullopt);
  EXPECT_EQ(elementBytes(builder.getI1Type()), 1);
  EXPECT_EQ(elementBytes(builder.getBF16Type()), 2);
}

TEST_F(TensorShapeTest, BroadcastOfDims) {
  auto joined = [&](const char *a, const char *b) {
    std::optional<DimExpr> result = broadcastDim(dim(a), dim(b));
    return result ? result->str() : "none";
  };
  EXPECT_EQ(joined("N", "N"), "N");
  EXPECT_EQ(joined("1", "N"), "N");
  EXPECT_EQ(joined("N", "1"), "N");
  EXPECT_EQ(joined("N", "5"), "5");
  EXPECT_EQ(joined("0", "N"), "0");
  EXPECT_EQ(joined("1", "0"), "0");
  EXPECT_EQ(joined("0", "5"), "none");
  EXPECT_EQ(joined("4", "5"), "none");
  EXPECT_EQ(joined("N", "M"), "broadcast(M, N)");
  EXPECT_EQ(toString(*broadcastShapes(dims({"4"}), dims({"B", "S", "1"}))), "[B, S, 4]");
  EXPECT_FALSE(broadcastShapes(dims({"2"}), dims({"3"})).has_value());
}

// Cases 18, 23 and 59.
TEST_F(TensorShapeTest, ReshapeRequests) {
  auto resolved = [&](std::initializer_list<const char *> from, std::initializer_list<const char *> to,
                      bool zeroCopies = true) {
    auto result = resolveReshape(dims(from), dims(to), zeroCopies);
    return result ? toString(*result) : "error: " + result.error().message;
  };
  EXPECT_EQ(resolved({"S", "4"}, {"-1", "2"}), "[2*S, 2]");
  EXPECT_EQ(resolved({"4", "15", "384"}, {"60", "-1"}), "[60, 384]");
  EXPECT_EQ(resolved({"4", "15"}, {"7", "-1"}),
            "error: cannot reshape [4, 15] to [7, -1]: 60 elements do not divide by 7");
  EXPECT_EQ(resolved({"2", "3", "4"}, {"2", "-1"}), "[2, 12]");
  EXPECT_EQ(resolved({"0", "10"}, {"-1", "10"}), "[0, 10]");
  EXPECT_EQ(resolved({"1", "0"}, {"-1", "0"}),
            "error: cannot reshape [1, 0] to [-1, 0]: the size for -1 is anything, as the others have product 0");
  EXPECT_EQ(resolved({"1", "0"}, {"-1", "0"}, false),
            "error: cannot reshape [1, 0] to [-1, 0]: the size for -1 is anything, as the others have product 0");
  EXPECT_EQ(resolved({"4"}, {"-1", "-1"}), "error: cannot reshape [4] to [-1, -1]: two sizes are -1");
  EXPECT_EQ(resolved({"4"}, {"-2"}), "error: cannot reshape [4] to [-2]: size -2 is negative");
  EXPECT_EQ(resolved({"4"}, {"4", "0"}), "error: cannot reshape [4] to [4, 0]: there is no axis 1 to copy");
  EXPECT_EQ(resolved({"4"}, {"0"}, false), "error: cannot reshape [4] to [0]: 4 elements are not 0");
  EXPECT_EQ(resolved({"B", "S", "384"}, {"0", "0", "12", "32"}), "[B, S, 12, 32]");
  EXPECT_EQ(resolved({"B", "S", "12", "32"}, {"B", "S", "-1"}), "[B, S, 384]");
  EXPECT_EQ(resolved({"B", "S"}, {"-1", "6"}), "[floordiv(B*S, 6), 6]");
  EXPECT_EQ(resolved({}, {"1"}), "[1]");
  EXPECT_EQ(resolved({"1"}, {}), "[]");
}

TEST_F(TensorShapeTest, WhatIsCertain) {
  using K = DimPredicate::Kind;
  EXPECT_TRUE(certainlyDiffer(dim("S"), dim("S + 1")));
  EXPECT_FALSE(certainlyDiffer(dim("S"), dim("T")));
  EXPECT_FALSE(certainlyDiffer(unknownDim(), dim("5")));
  EXPECT_TRUE(isCertain({K::LessEqual, dim("0"), dim("S")}));
  EXPECT_FALSE(isCertain({K::LessEqual, dim("1"), dim("S")}));
  EXPECT_TRUE(isCertain({K::Equal, unknownDim(), dim("S")}));
}

} // namespace
