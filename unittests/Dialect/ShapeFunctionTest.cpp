//===- ShapeFunctionTest.cpp - results of ops over named and bound sizes --===//
//
// The numbers are worked out by hand.
//
//===----------------------------------------------------------------------===//

#include "DialectTest.h"

using namespace rlx;
using namespace rlx::ir;

namespace {

using ShapeFunctionTest = DialectTest;
using testing::Test;

TEST_F(ShapeFunctionTest, LinearKeepsNamesAndGivesNumbersOnceBound) {
  mlir::Value w = value({"64", "64"});
  EXPECT_EQ(typeOf<MatmulOp>(value({"B", "S", "64"}), w), "tensor<?x?x64xf32, #rlx.dims<[B, S, 64]>>");
  Binding bound{{"B", 1}, {"S", 128}};
  EXPECT_EQ(typeOf<MatmulOp>(value({"B", "S", "64"}, &bound), w), "tensor<1x128x64xf32, #rlx.dims<[B, S, 64]>>");
  // Case 1: only some are bound.
  Binding partly{{"S", 16}};
  EXPECT_EQ(typeOf<MatmulOp>(value({"B", "S", "4"}, &partly), value({"4", "8"})),
            "tensor<?x16x8xf32, #rlx.dims<[B, S, 8]>>");
}

TEST_F(ShapeFunctionTest, MatmulInnerSizes) {
  EXPECT_EQ(typeOf<MatmulOp>(value({"4", "384"}), value({"512", "8"})),
            "error: 'rlx.matmul' op inner sizes differ: [384] and [512]\n");
  EXPECT_EQ(requirementsOf<MatmulOp>(value({"B", "N"}), value({"M", "8"})),
            "N == M; rlx.matmul: inner sizes differ: N and M\n");
  EXPECT_EQ(requirementsOf<MatmulOp>(value({"B", "N"}), value({"N", "8"})), "");
  EXPECT_EQ(requirementsOf<MatmulOp>(value({"B", "?"}), value({"M", "8"})), "");
  // Bound, a contradiction is an error by number.
  Binding bound{{"N", 3}, {"M", 4}};
  EXPECT_EQ(typeOf<MatmulOp>(value({"2", "N"}, &bound), value({"M", "8"}, &bound)),
            "error: 'rlx.matmul' op inner sizes differ: [3] and [4]\n");
  // Batch dims broadcast, on either side; zero sizes are sizes.
  EXPECT_EQ(typeOf<MatmulOp>(value({"7", "1", "2", "3"}), value({"B", "3", "0"})),
            "tensor<7x?x2x0xf32, #rlx.dims<[7, B, 2, 0]>>");
  EXPECT_EQ(requirementsOf<MatmulOp>(value({"N", "2", "3"}), value({"M", "3", "4"})),
            "broadcastable(N, M); rlx.matmul: batch dims N and M do not broadcast\n");
}

// Case 17.
TEST_F(ShapeFunctionTest, ConcatAddsSizes) {
  llvm::SmallVector<mlir::Value> parts = {value({"1", "P", "8"}), value({"1", "1", "8"})};
  EXPECT_EQ(typeOf<ConcatOp>(parts, uint64_t(1)), "tensor<1x?x8xf32, #rlx.dims<[1, P+1, 8]>>");
  Binding bound{{"P", 4}, {"S", 3}};
  parts = {value({"1", "P", "8"}, &bound), value({"1", "1", "8"})};
  EXPECT_EQ(typeOf<ConcatOp>(parts, uint64_t(1)), "tensor<1x5x8xf32, #rlx.dims<[1, P+1, 8]>>");
  mlir::Value s = value({"S"}, &bound);
  parts = {s, s};
  EXPECT_EQ(typeOf<ConcatOp>(parts, uint64_t(0)), "tensor<6xf32, #rlx.dims<[2*S]>>");
  parts = {value({"N", "A"}), value({"M", "C"})};
  EXPECT_EQ(requirementsOf<ConcatOp>(parts, uint64_t(0)), "A == C; rlx.concat: sizes of axis 1 differ: A and C\n");
}

// Case 19.
TEST_F(ShapeFunctionTest, BroadcastAgainstANumberAndAnotherName) {
  mlir::Value five = value({"5", "3"});
  EXPECT_EQ(typeOf<AddOp>(value({"N", "3"}), five), "tensor<5x3xf32>");
  EXPECT_EQ(requirementsOf<AddOp>(value({"N", "3"}), five),
            "broadcastable(N, 5); rlx.add: axis 0: N and 5 do not broadcast\n");
  for (int64_t n : {1, 5}) {
    Binding bound{{"N", n}};
    EXPECT_EQ(typeOf<AddOp>(value({"N", "3"}, &bound), five), "tensor<5x3xf32>");
  }
  Binding four{{"N", 4}};
  EXPECT_EQ(typeOf<AddOp>(value({"N", "3"}, &four), five),
            "error: 'rlx.add' op operands of sizes [4, 3] and [5, 3] do not broadcast\n");

  EXPECT_EQ(typeOf<AddOp>(value({"N", "4"}), value({"M", "4"})), "tensor<?x4xf32, #rlx.dims<[broadcast(M, N), 4]>>");
  for (auto [n, m] : {std::pair(1, 5), std::pair(5, 5), std::pair(5, 1)}) {
    Binding bound{{"N", n}, {"M", m}};
    EXPECT_EQ(typeOf<AddOp>(value({"N", "4"}, &bound), value({"M", "4"}, &bound)),
              "tensor<5x4xf32, #rlx.dims<[broadcast(M, N), 4]>>");
  }
  Binding conflict{{"N", 3}, {"M", 5}};
  EXPECT_EQ(typeOf<AddOp>(value({"N", "4"}, &conflict), value({"M", "4"}, &conflict)),
            "error: 'rlx.add' op operands of sizes [3, 4] and [5, 4] do not broadcast\n");
}

// Case 20.
TEST_F(ShapeFunctionTest, SumOfNamesAgainstAThird) {
  Binding bound{{"N", 2}, {"M", 3}, {"K", 5}};
  llvm::SmallVector<mlir::Value> parts = {value({"N", "4"}, &bound), value({"M", "4"}, &bound)};
  auto joined = createChecked<ConcatOp>(builder, builder.getUnknownLoc(), parts, uint64_t(0));
  ASSERT_TRUE(mlir::succeeded(joined));
  mlir::Value z = value({"K", "4"}, &bound);
  EXPECT_EQ(typeOf<AddOp>(joined->getResult(), z), "tensor<5x4xf32, #rlx.dims<[broadcast(K, M+N), 4]>>");
  EXPECT_EQ(requirementsOf<AddOp>(joined->getResult(), z),
            "broadcastable(M+N, K); rlx.add: axis 0: M+N and K do not broadcast\n");
  bound["K"] = 6;
  EXPECT_EQ(typeOf<AddOp>(joined->getResult(), value({"K", "4"}, &bound)),
            "error: 'rlx.add' op operands of sizes [5, 4] and [6, 4] do not broadcast\n");
}

// Case 22.
TEST_F(ShapeFunctionTest, GatherReplacesAnAxis) {
  mlir::Type i64 = builder.getI64Type();
  EXPECT_EQ(typeOf<GatherOp>(value({"30522", "384"}), value({"4", "15"}, nullptr, i64), uint64_t(0)),
            "tensor<4x15x384xf32>");
  EXPECT_EQ(typeOf<GatherOp>(value({"B", "S", "H"}), value({}, nullptr, i64), uint64_t(1)),
            "tensor<?x?xf32, #rlx.dims<[B, H]>>");
  EXPECT_EQ(typeOf<GatherOp>(value({"3"}), value({"2"}, nullptr, i64), uint64_t(-1)),
            "error: 'rlx.gather' op axis -1 is outside a tensor of rank 1\n");
}

TEST_F(ShapeFunctionTest, GatherAndScatterByTuples) {
  mlir::Type i64 = builder.getI64Type();
  // [B, 5, 7] at [B, 3, 1] with one batch axis: a row of 7 each.
  EXPECT_EQ(typeOf<GatherNDOp>(value({"B", "5", "7"}), value({"B", "3", "1"}, nullptr, i64), uint64_t(1)),
            "tensor<?x3x7xf32, #rlx.dims<[B, 3, 7]>>");
  EXPECT_EQ(typeOf<GatherNDOp>(value({"2", "2"}), value({"2", "2"}, nullptr, i64), uint64_t(0)), "tensor<2xf32>");
  EXPECT_EQ(requirementsOf<GatherNDOp>(value({"B", "5"}), value({"C", "1"}, nullptr, i64), uint64_t(1)),
            "B == C; rlx.gather_nd: batch sizes of axis 0 differ: B and C\n");
  EXPECT_EQ(typeOf<GatherElementsOp>(value({"3", "5"}), value({"N", "2"}, nullptr, i64), uint64_t(1)),
            "tensor<?x2xf32, #rlx.dims<[N, 2]>>");
  EXPECT_EQ(requirementsOf<GatherElementsOp>(value({"3", "5"}), value({"N", "2"}, nullptr, i64), uint64_t(1)),
            "N <= 3; rlx.gather_elements: axis 0: N indices for a size of 3\n");
  EXPECT_EQ(typeOf<ScatterNDOp>(value({"V", "7"}), value({"N", "1"}, nullptr, i64), value({"N", "7"}), Combine::Add),
            "tensor<?x7xf32, #rlx.dims<[V, 7]>>");
  EXPECT_EQ(
      requirementsOf<ScatterNDOp>(value({"V", "7"}), value({"N", "1"}, nullptr, i64), value({"M", "7"}), Combine::Add),
      "N == M; rlx.scatter_nd: sizes of axis 0 of updates differ: N and M\n");
}

TEST_F(ShapeFunctionTest, ReductionsAndTranspose) {
  mlir::Value x = value({"B", "S", "4"});
  llvm::SmallVector<int64_t> axes = {0, 2};
  EXPECT_EQ(typeOf<ReduceOp>(ReduceKind::Sum, x, axes, false), "tensor<?xf32, #rlx.dims<[S]>>");
  EXPECT_EQ(typeOf<ReduceOp>(ReduceKind::Sum, x, axes, true), "tensor<1x?x1xf32, #rlx.dims<[1, S, 1]>>");
  // Case 49: axis 1 of [0, 3].
  axes = {1};
  EXPECT_EQ(typeOf<ReduceOp>(ReduceKind::Sum, value({"0", "3"}), axes, false), "tensor<0xf32>");
  llvm::SmallVector<int64_t> permutation = {2, 0, 1};
  EXPECT_EQ(typeOf<TransposeOp>(x, permutation), "tensor<4x?x?xf32, #rlx.dims<[4, B, S]>>");
}

TEST_F(ShapeFunctionTest, PadAddsExpressionsAndBindsThem) {
  mlir::Value zero = value({});
  auto low = DimsAttr::get(&context, dims({"T - S", "0"})), high = DimsAttr::get(&context, dims({"S", "2"}));
  EXPECT_EQ(typeOf<PadOp>(value({"S", "4"}), zero, low, high), "tensor<?x6xf32, #rlx.dims<[S+T, 6]>>");
  EXPECT_EQ(requirementsOf<PadOp>(value({"S", "4"}), zero, low, high),
            "0 <= -S+T; rlx.pad: axis 0: count -S+T is negative\n");
  // The operand says what S is; nothing says T until a binding is given.
  Binding bound{{"S", 3}};
  mlir::Value x = value({"S", "4"}, &bound);
  EXPECT_EQ(typeOf<PadOp>(x, zero, low, high), "tensor<?x6xf32, #rlx.dims<[S+T, 6]>>");
  auto pad = createChecked<PadOp>(builder, builder.getUnknownLoc(), x, zero, low, high);
  ASSERT_TRUE(mlir::succeeded(pad));
  bound["T"] = 5;
  llvm::SmallVector<mlir::RankedTensorType> types;
  ASSERT_TRUE(mlir::succeeded(inferResultTypes(*pad, types, &bound)));
  EXPECT_EQ(types.front().getShape(), llvm::ArrayRef<int64_t>({8, 6}));
  // Where the operand's own number suffices, the attribute's names are found in it.
  auto twice = DimsAttr::get(&context, dims({"S", "0"}));
  EXPECT_EQ(typeOf<PadOp>(x, zero, twice, high), "tensor<9x6xf32, #rlx.dims<[3*S, 6]>>");
}

TEST_F(ShapeFunctionTest, NormsAndAttention) {
  EXPECT_EQ(
      requirementsOf<LayerNormOp>(value({"B", "H"}), value({"384"}), value({"D"}), uint64_t(1), llvm::APFloat(1e-5)),
      "H == 384; rlx.layer_norm: normalised size and scale or bias differ: H and 384\n"
      "H == D; rlx.layer_norm: normalised size and scale or bias differ: H and D\n");
  mlir::Value none;
  EXPECT_EQ(typeOf<AttentionOp>(value({"B", "8", "L", "64"}), value({"B", "2", "T", "64"}),
                                value({"B", "2", "T", "32"}), none, llvm::APFloat(0.125)),
            "tensor<?x8x?x32xf32, #rlx.dims<[B, 8, L, 32]>>");
  EXPECT_EQ(requirementsOf<AttentionOp>(value({"B", "H", "L", "D"}), value({"B", "G", "T", "D"}),
                                        value({"B", "G", "U", "32"}), value({"B", "1", "L", "M"}),
                                        llvm::APFloat(0.125)),
            "H % G == 0; rlx.attention: H query heads are no multiple of G key heads\n"
            "T == U; rlx.attention: lengths of key and value differ: T and U\n"
            "broadcast(M, T) == T; rlx.attention: mask size M is neither 1 nor T\n");
}

TEST_F(ShapeFunctionTest, UnknownSizesStayUnknown) {
  // A type with one unknown size names none: the other `?` is unknown too. Against 4 it is 4 or 1.
  EXPECT_EQ(typeOf<AddOp>(value({"B", "?"}), value({"B", "4"})), "tensor<?x4xf32>");
  EXPECT_EQ(typeOf<AddOp>(value({"B", "?"}), value({"B", "1"})), "tensor<?x?xf32>");
  EXPECT_EQ(typeOf<MatmulOp>(value({"?", "4"}), value({"4", "8"})), "tensor<?x8xf32>");
  EXPECT_EQ(requirementsOf<AddOp>(value({"?"}), value({"B"})), "");
}

TEST_F(ShapeFunctionTest, SliceRequiresWhatItReads) {
  // Case 55 in the clamped form: [S-1, -1 step] reads all, also when S is 0 (start -1, count 0).
  mlir::Value x = value({"S"});
  mlir::Type type = x.getType();
  auto slice = [&](const char *start, int64_t step, const char *count) {
    TensorShape shape{dims({count}), builder.getF32Type()};
    return SliceOp::create(builder, builder.getUnknownLoc(), makeType(&context, shape), x,
                           DimsAttr::get(&context, dims({start})), llvm::ArrayRef<int64_t>(step));
  };
  EXPECT_EQ(slice("0", 1, "S").getType(), type);
  EXPECT_EQ(requirements(slice("0", 1, "S")), "");
  EXPECT_EQ(requirements(slice("0", 1, "2")),
            "2 <= S; rlx.slice: axis 0: reads past the end (start 0, count 2, step 1, size S)\n");
  SliceOp reversed = slice("S - 1", -1, "S");
  llvm::SmallVector<Requirement> list;
  reversed.collectRequirements(list);
  for (int64_t s : {0, 1, 2, 100})
    for (const Requirement &requirement : list) {
      Result<bool> holds = requirement.predicate.evaluate({{"S", s}});
      EXPECT_TRUE(holds && *holds) << requirement.message << " at " << s;
    }
  // Two elements from S - 3 on fit from S = 3 on.
  SliceOp tail = slice("S - 3", 1, "2");
  list.clear();
  tail.collectRequirements(list);
  ASSERT_EQ(list.size(), 1u);
  EXPECT_FALSE(*list[0].predicate.evaluate({{"S", 2}}));
  EXPECT_TRUE(*list[0].predicate.evaluate({{"S", 3}}));
}

TEST_F(ShapeFunctionTest, ReshapeAndBroadcastRequire) {
  auto to = [&](std::initializer_list<const char *> sizes) {
    return makeType(&context, TensorShape{dims(sizes), builder.getF32Type()});
  };
  mlir::Location loc = builder.getUnknownLoc();
  EXPECT_EQ(requirements(ReshapeOp::create(builder, loc, to({"2*S", "2"}), value({"S", "4"}))), "");
  EXPECT_EQ(requirements(ReshapeOp::create(builder, loc, to({"T", "2"}), value({"S", "4"}))),
            "4*S == 2*T; rlx.reshape: [S, 4] and [T, 2] have different numbers of elements\n");
  EXPECT_EQ(requirements(BroadcastToOp::create(builder, loc, to({"B", "S", "4"}), value({"S", "1"}))), "");
  BroadcastToOp open = BroadcastToOp::create(builder, loc, to({"M"}), value({"N"}));
  llvm::SmallVector<Requirement> list;
  open.collectRequirements(list);
  ASSERT_EQ(list.size(), 1u);
  auto holds = [&](int64_t n, int64_t m) {
    Result<bool> answer = list[0].predicate.evaluate({{"N", n}, {"M", m}});
    return answer && *answer;
  };
  EXPECT_TRUE(holds(1, 5));
  EXPECT_TRUE(holds(5, 5));
  EXPECT_TRUE(holds(1, 0));
  EXPECT_FALSE(holds(5, 1));
  EXPECT_FALSE(holds(3, 5));
}

TEST_F(ShapeFunctionTest, BuildersInferAndFold) {
  mlir::Location loc = builder.getUnknownLoc();
  AddOp add = AddOp::create(builder, loc, value({"B", "4"}), value({"4"}));
  EXPECT_EQ(add.getType(), value({"B", "4"}).getType());
  // What ONNX makes of x.view(B, S, -1): the shape's content is known as expressions.
  mlir::Value shape = createDimValues(builder, loc, dims({"B", "S", "64"}));
  mlir::Value two = createDimValues(builder, loc, dims({"2"}), /*scalar=*/true);
  auto doubled = createOrFoldChecked<MulOp>(builder, loc, shape, two);
  ASSERT_TRUE(mlir::succeeded(doubled));
  auto known = getDimValues(*doubled);
  ASSERT_TRUE(known.has_value());
  EXPECT_EQ(toString(*known), "[2*B, 2*S, 128]");
  EXPECT_EQ(getDimValues(value({"2"}, nullptr, builder.getI64Type())), std::nullopt);
  EXPECT_EQ(toString(*getDimValues(two)), "[2]");
}

} // namespace
