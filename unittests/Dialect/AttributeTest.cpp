//===- AttributeTest.cpp - attributes and the graph's own methods ---------===//

#include "DialectTest.h"

#include "mlir/AsmParser/AsmParser.h"
#include "mlir/Parser/Parser.h"

using namespace rlx;
using namespace rlx::ir;

namespace {

using AttributeTest = DialectTest;

TEST_F(AttributeTest, EqualListsAreOneAttribute) {
  auto a = DimsAttr::get(&context, dims({"B", "2*S"}));
  EXPECT_EQ(a, DimsAttr::get(&context, {DimExpr::symbol("B"), DimExpr::symbol("S") + DimExpr::symbol("S")}));
  EXPECT_NE(a, DimsAttr::get(&context, dims({"2*S", "B"})));
  EXPECT_EQ(mlir::parseAttribute("#rlx.dims<[B, S * 2]>", &context), a);
  EXPECT_EQ(mlir::parseAttribute("#rlx.dims<[]>", &context), DimsAttr::get(&context, {}));
}

TEST_F(AttributeTest, NamesOfAnyTextSurvive) {
  // Names of real files, and of hostile ones.
  for (const char *name : {"a:b/c.d", "unk__12", "floor(height/2 - 1/2)", "x y", "\"\\", "-", "7", "\xc3\xa9t\xc3\xa9",
                           "mod", "i64", "->"}) {
    auto dims = DimsAttr::get(&context, {DimExpr::symbol(name) * 3 - 1, DimExpr::symbol(name)});
    std::string text;
    llvm::raw_string_ostream(text) << dims;
    EXPECT_EQ(mlir::parseAttribute(text, &context), dims) << text << errors;
    auto decl = DimDeclAttr::get(&context, name, 0, 5, 1, {2, 3}, std::nullopt);
    text.clear();
    llvm::raw_string_ostream(text) << decl;
    EXPECT_EQ(mlir::parseAttribute(text, &context), decl) << text << errors;
    auto constraint = ConstraintAttr::get(
        &context, DimPredicate{DimPredicate::Kind::Divisible, DimExpr::symbol(name), 8}, "why \"so\"");
    text.clear();
    llvm::raw_string_ostream(text) << constraint;
    EXPECT_EQ(mlir::parseAttribute(text, &context), constraint) << text << errors;
  }
}

TEST_F(AttributeTest, ControlCharactersAreNoName) {
  for (const char *text : {R"(#rlx.dims<["a\0A"]>)", R"(#rlx.dims<["\7F"]>)", R"(#rlx.dim<"\00">)"}) {
    errors.clear();
    EXPECT_FALSE(mlir::parseAttribute(text, &context)) << text;
    EXPECT_NE(errors.find("control character"), std::string::npos) << errors;
  }
}

TEST_F(AttributeTest, PrecedenceOfTheGrammar) {
  auto parsed = [&](const char *text) {
    auto dims = llvm::cast<DimsAttr>(mlir::parseAttribute(text, &context));
    Result<int64_t> value = dims.getDims()[0].evaluate({{"A", 7}, {"B", 3}});
    return value ? *value : -1;
  };
  EXPECT_EQ(parsed("#rlx.dims<[1 + A * B]>"), 22);
  EXPECT_EQ(parsed("#rlx.dims<[(1 + A) * B]>"), 24);
  EXPECT_EQ(parsed("#rlx.dims<[A - B - 1]>"), 3);
  EXPECT_EQ(parsed("#rlx.dims<[A - (B - 1)]>"), 5);
  EXPECT_EQ(parsed("#rlx.dims<[- -A]>"), 7);
  EXPECT_EQ(parsed("#rlx.dims<[A --3]>"), 10);
  EXPECT_EQ(parsed("#rlx.dims<[floordiv(A, B) + ceildiv(A, B) + mod(A, B)]>"), 6);
  EXPECT_EQ(parsed("#rlx.dims<[max(A, B) - min(A, B)]>"), 4);
}

TEST_F(AttributeTest, GraphKnowsItsNamesAndFacts) {
  mlir::OwningOpRef<mlir::ModuleOp> parsed = mlir::parseSourceString<mlir::ModuleOp>(R"(
    rlx.graph @g(%a: tensor<?xf32, #rlx.dims<[B]>> {rlx.name = "ids"}, %b: tensor<4xf32>) -> (tensor<4xf32>)
        attributes {dims = [#rlx.dim<"B", min = 2, max = 64, multiple = 2, bound = 8>, #rlx.dim<"S">],
                    constraints = [#rlx.constraint<"S == B", "declared">]} {
      rlx.output %b : tensor<4xf32>
    })",
                                                                                     &context);
  ASSERT_TRUE(parsed) << errors;
  GraphOp graph = *parsed->getOps<GraphOp>().begin();
  EXPECT_EQ(graph.getInputName(0), "ids");
  EXPECT_EQ(graph.getInputName(1), "input1");
  EXPECT_EQ(graph.getOutputName(0), "output0");
  ASSERT_EQ(graph.getDimDecls().size(), 2u);
  EXPECT_EQ(graph.getDimDecls()[0].getMultiple(), 2);
  EXPECT_EQ(graph.getBinding(), (Binding{{"B", 8}}));
  EXPECT_EQ(graph.getConstraintList().size(), 1u);
  using K = DimPredicate::Kind;
  EXPECT_EQ(graph.getFacts().prove({K::LessEqual, DimExpr(2), DimExpr::symbol("B")}), true);
  EXPECT_EQ(graph.getFacts().prove({K::Less, DimExpr(64), DimExpr::symbol("S")}), false);
  EXPECT_EQ(graph.getOutput().getValues().size(), 1u);
}

TEST_F(AttributeTest, CheckedCreationOfWhatDoesNotFit) {
  // The importer hands over whatever a file says: an error, not the end of the process.
  EXPECT_EQ(typeOf<AddOp>(value({"2"}), value({"3"})),
            "error: 'rlx.add' op operands of sizes [2] and [3] do not broadcast\n");
  EXPECT_EQ(typeOf<ExpOp>(value({"2"}, nullptr, builder.getI32Type())).substr(0, 6), "error:");
  EXPECT_EQ(typeOf<SoftmaxOp>(value({"2"}), uint64_t(INT64_MIN)),
            "error: 'rlx.softmax' op axis -9223372036854775808 is outside a tensor of rank 1\n");
}

} // namespace
