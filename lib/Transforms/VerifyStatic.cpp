//===- VerifyStatic.cpp - is every size known? ----------------------------===//
#include "Shapes.h"

#include "rlx/Transforms/Passes.h"

namespace rlx::transforms {

#define GEN_PASS_DEF_VERIFYSTATIC
#include "rlx/Transforms/Passes.h.inc"

namespace {

struct VerifyStatic : impl::VerifyStaticBase<VerifyStatic> {
  using VerifyStaticBase::VerifyStaticBase;

  void runOnOperation() override {
    Binding binding = getOperation().getBinding();
    llvm::LogicalResult result = rewriteTypes(
        getOperation(), [&](mlir::Operation *op, mlir::RankedTensorType type) { return check(op, type, binding); });
    if (failed(result))
      return signalPassFailure();
    markAllAnalysesPreserved();
  }

private:
  /// Null (nothing to rewrite) where `type` keeps the contract.
  mlir::FailureOr<mlir::RankedTensorType> check(mlir::Operation *op, mlir::RankedTensorType type,
                                                const Binding &binding) const {
    ir::TensorShape shape = ir::getShape(type);
    for (auto [axis, dim] : llvm::enumerate(shape.dims)) {
      if (ir::isUnknown(dim)) {
        mlir::InFlightDiagnostic diagnostic = op->emitError(nodeName(op))
                                              << ": axis " << axis << " of " << type << " is unknown";
        diagnostic.attachNote() << "rlx-infer-dims finds it, or says why it cannot";
        return diagnostic;
      }
      if (named || !type.isDynamicDim(axis))
        continue;
      std::set<std::string> names;
      dim.collectNames(names);
      std::erase_if(names, [&](const std::string &name) { return binding.contains(name); });
      mlir::InFlightDiagnostic diagnostic = op->emitError(nodeName(op))
                                            << ": axis " << axis << " of " << type << " has no size";
      if (names.empty())
        diagnostic.attachNote() << "its names are bound; rlx-sync-shapes computes it";
      else
        diagnostic.attachNote() << "dim '" << *names.begin() << "' is not bound";
      return diagnostic;
    }
    return mlir::RankedTensorType();
  }
};

} // namespace
} // namespace rlx::transforms
