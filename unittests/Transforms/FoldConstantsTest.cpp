//===- FoldConstantsTest.cpp - folding through the kernels' interface -----===//
//
// rlx-opt alone has no host kernels; here a stand-in computes, so that what the
// pass asks of it, and what it never asks, can be seen.
//
//===----------------------------------------------------------------------===//
#include "rlx/Dialect/RLX/IR/RLXOps.h"
#include "rlx/Transforms/FoldingInterface.h"
#include "rlx/Transforms/Passes.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include <gtest/gtest.h>

using namespace mlir;

namespace {

/// Adds floats; everything else it declines. Notes what it was asked.
class AddingFolder : public rlx::FoldingInterface {
public:
  FailureOr<SmallVector<DenseElementsAttr>> fold(Operation *op, ArrayRef<DenseElementsAttr> operands) override {
    asked.push_back(op->getName().getStringRef().str());
    auto type = cast<RankedTensorType>(op->getResult(0).getType());
    if (!isa<rlx::ir::AddOp>(op) || !isa<FloatType>(type.getElementType()))
      return failure();
    SmallVector<APFloat> sums;
    for (auto [a, b] : llvm::zip_equal(operands[0].getValues<APFloat>(), operands[1].getValues<APFloat>()))
      sums.push_back(a + b);
    return SmallVector<DenseElementsAttr>{DenseElementsAttr::get(type, sums)};
  }

  std::vector<std::string> asked;
};

class FoldConstantsTest : public ::testing::Test {
protected:
  FoldConstantsTest() { context.loadDialect<rlx::ir::RLXDialect>(); }

  /// Runs the pass with the stand-in; the graph stays in `module`.
  void run(StringRef text, rlx::transforms::FoldConstantsOptions options = {}) {
    module = parseSourceString<ModuleOp>(text, &context);
    ASSERT_TRUE(module);
    PassManager manager(&context);
    manager.addNestedPass<rlx::ir::GraphOp>(rlx::transforms::createFoldConstants(options, &folder));
    ASSERT_TRUE(succeeded(manager.run(*module)));
  }

  unsigned count(StringRef name) {
    unsigned found = 0;
    module->walk([&](Operation *op) { found += op->getName().getStringRef() == name; });
    return found;
  }

  /// The constant behind output `index`, or null.
  DenseElementsAttr output(unsigned index) {
    rlx::ir::OutputOp terminator;
    module->walk([&](rlx::ir::OutputOp op) { terminator = op; });
    auto constant = terminator.getValues()[index].getDefiningOp<rlx::ir::ConstantOp>();
    return constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : DenseElementsAttr();
  }

  MLIRContext context;
  AddingFolder folder;
  OwningOpRef<ModuleOp> module;
};

TEST_F(FoldConstantsTest, ChainsOfFloatsFold) {
  run(R"(
    rlx.graph @main() -> tensor<2xf32> {
      %a = rlx.constant dense<[1.5, 2.0]> : tensor<2xf32>
      %b = rlx.constant dense<[0.25, 8.0]> : tensor<2xf32>
      %0 = rlx.add %a, %b : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
      %1 = rlx.add %0, %b : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
      rlx.output %1 : tensor<2xf32>
    })");
  DenseElementsAttr value = output(0);
  ASSERT_TRUE(value);
  // 1.5 + 0.25 + 0.25 and 2 + 8 + 8
  EXPECT_EQ(value.getValues<float>()[0], 2.0f);
  EXPECT_EQ(value.getValues<float>()[1], 18.0f);
  EXPECT_EQ(count("rlx.constant"), 1u) << "operands that nobody reads any more are gone";
}

TEST_F(FoldConstantsTest, WhatDependsOnAnInputIsNotAsked) {
  run(R"(
    rlx.graph @main(%x: tensor<2xf32>) -> tensor<2xf32> {
      %a = rlx.constant dense<[1.5, 2.0]> : tensor<2xf32>
      %0 = rlx.add %a, %x : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
      rlx.output %0 : tensor<2xf32>
    })");
  EXPECT_TRUE(folder.asked.empty());
  EXPECT_EQ(count("rlx.add"), 1u);
}

TEST_F(FoldConstantsTest, WhatTheKernelsDeclineStays) {
  run(R"(
    rlx.graph @main() -> tensor<2xf32> {
      %a = rlx.constant dense<[1.5, 2.0]> : tensor<2xf32>
      %0 = rlx.exp %a : tensor<2xf32> -> tensor<2xf32>
      rlx.output %0 : tensor<2xf32>
    })");
  EXPECT_EQ(folder.asked, std::vector<std::string>{"rlx.exp"});
  EXPECT_EQ(count("rlx.exp"), 1u);
}

TEST_F(FoldConstantsTest, RandomNumbersAndWeightsAreNeverAsked) {
  run(R"(
    rlx.graph @main() -> (tensor<2xf32>, tensor<2xf32>) {
      %w = rlx.weight "w" : tensor<2xf32>
      %r = rlx.random_uniform key 1 {low = 0.0 : f64, high = 1.0 : f64} : tensor<2xf32>
      %0 = rlx.add %r, %r : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
      %1 = rlx.add %w, %w : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
      rlx.output %0, %1 : tensor<2xf32>, tensor<2xf32>
    })");
  EXPECT_TRUE(folder.asked.empty());
}

TEST_F(FoldConstantsTest, LargeResultsAreNotMade) {
  constexpr StringRef text = R"(
    rlx.graph @main() -> tensor<256xf32> {
      %a = rlx.constant dense<1.0> : tensor<256xf32>
      %b = rlx.constant dense<2.0> : tensor<256xf32>
      %0 = rlx.add %a, %b : tensor<256xf32>, tensor<256xf32> -> tensor<256xf32>
      rlx.output %0 : tensor<256xf32>
    })";
  // 256 * 4 bytes: just allowed by default.
  run(text);
  EXPECT_TRUE(output(0));
  folder.asked.clear();
  run(text, {/*maxBytes=*/1023});
  EXPECT_FALSE(output(0));
  EXPECT_TRUE(folder.asked.empty());
}

TEST_F(FoldConstantsTest, ABoundSizeIsNotTakenForANumber) {
  // Folding it would make a plan that holds at B = 2 only, without a guard that says so.
  run(R"(
    rlx.graph @main(%x: tensor<2xf32, #rlx.dims<[B]>>) -> tensor<2xf32, #rlx.dims<[B]>>
        attributes {dims = [#rlx.dim<"B", bound = 2>]} {
      %a = rlx.constant dense<1.0> : tensor<2xf32> -> tensor<2xf32, #rlx.dims<[B]>>
      %0 = rlx.add %a, %a : tensor<2xf32, #rlx.dims<[B]>>, tensor<2xf32, #rlx.dims<[B]>> -> tensor<2xf32, #rlx.dims<[B]>>
      rlx.output %0 : tensor<2xf32, #rlx.dims<[B]>>
    })");
  EXPECT_TRUE(folder.asked.empty());
}

} // namespace
