//===- DialectTest.h - a context and short hands for the tests --*- C++ -*-===//
#ifndef RLX_UNITTESTS_DIALECT_DIALECTTEST_H
#define RLX_UNITTESTS_DIALECT_DIALECTTEST_H

#include "rlx/Dialect/RLX/IR/RLXOps.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "gtest/gtest.h"

namespace rlx::ir {

class DialectTest : public testing::Test {
protected:
  DialectTest() : builder(&context) {
    context.loadDialect<RLXDialect>();
    context.getDiagEngine().registerHandler(
        [this](mlir::Diagnostic &diagnostic) { errors += diagnostic.str() + "\n"; });
    module = mlir::ModuleOp::create(builder.getUnknownLoc());
    builder.setInsertionPointToEnd(module->getBody());
  }

  static DimExpr dim(const char *text) {
    Result<DimExpr> expr = DimExpr::parse(text);
    EXPECT_TRUE(static_cast<bool>(expr)) << text;
    return expr ? *expr : DimExpr();
  }
  static llvm::SmallVector<DimExpr> dims(std::initializer_list<const char *> texts) {
    llvm::SmallVector<DimExpr> list;
    for (const char *text : texts)
      list.push_back(dim(text));
    return list;
  }

  /// A param of these sizes ("B", "2*S", "4"; "?" is unknown), with numbers where `bound` has them.
  mlir::Value value(std::initializer_list<const char *> sizes, const Binding *bound = nullptr,
                    mlir::Type element = {}) {
    TensorShape shape;
    for (const char *size : sizes)
      shape.dims.push_back(std::string_view(size) == "?" ? unknownDim() : dim(size));
    shape.elementType = element ? element : builder.getF32Type();
    return ParamOp::create(builder, builder.getUnknownLoc(), makeType(&context, shape, bound), "p");
  }

  /// Result type of an op, or the error.
  template <typename OpTy, typename... Args> std::string typeOf(Args &&...args) {
    errors.clear();
    mlir::FailureOr<OpTy> op = createChecked<OpTy>(builder, builder.getUnknownLoc(), std::forward<Args>(args)...);
    if (mlir::failed(op))
      return "error: " + errors;
    std::string text;
    llvm::raw_string_ostream(text) << (*op)->getResult(0).getType();
    return text;
  }

  /// Requirements of an op of inferred type, one a line.
  template <typename OpTy, typename... Args> std::string requirementsOf(Args &&...args) {
    errors.clear();
    mlir::FailureOr<OpTy> op = createChecked<OpTy>(builder, builder.getUnknownLoc(), std::forward<Args>(args)...);
    if (mlir::failed(op))
      return "error: " + errors;
    return requirements(*op);
  }
  template <typename OpTy> static std::string requirements(OpTy op) {
    llvm::SmallVector<Requirement> list;
    op.collectRequirements(list);
    std::string text;
    for (const Requirement &requirement : list)
      text += requirement.predicate.str() + "; " + requirement.message + "\n";
    return text;
  }

  mlir::MLIRContext context;
  mlir::OpBuilder builder;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::string errors;
};

} // namespace rlx::ir

#endif // RLX_UNITTESTS_DIALECT_DIALECTTEST_H
