//===- SessionTest.cpp - what the compiler says about modules -------------===//
#include "Session.h"

#include "mlir/Parser/Parser.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

using namespace rlx;
using testing::AllOf;
using testing::HasSubstr;

// issue: what a graph turned into was called a bug of rlx (Internal) when it was wrong.
TEST(Session, IssueWhatPassesMadeOfAGraph) {
  std::unique_ptr<mlir::MLIRContext> context = compiler::makeContext();
  // As no reader lets it pass: the sum of two and three elements.
  const char *text = R"(
rlx.graph @main(%a: tensor<2xf32> {rlx.name = "a"}, %b: tensor<3xf32> {rlx.name = "b"}) ->
    (tensor<2xf32> {rlx.name = "y"}) attributes {dims = []} {
  %y = rlx.add %a, %b : tensor<2xf32>, tensor<3xf32> -> tensor<2xf32> loc("Add_7")
  rlx.output %y : tensor<2xf32>
})";
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, mlir::ParserConfig(context.get(), false));
  ASSERT_TRUE(module);
  Status status = compiler::verifyModule(*module);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::InvalidModel);
  EXPECT_THAT(status.error().message, AllOf(HasSubstr("once prepared"), HasSubstr("Add_7"), HasSubstr("rlx.add")));
}
