//===- StripDims.cpp - the border to other dialects -----------------------===//
#include "Shapes.h"

#include "rlx/Transforms/Passes.h"

#include "mlir/IR/AttrTypeSubElements.h"

namespace rlx::transforms {

#define GEN_PASS_DEF_STRIPDIMS
#include "rlx/Transforms/Passes.h.inc"

namespace {

struct StripDims : impl::StripDimsBase<StripDims> {
  void runOnOperation() override {
    if (failed(checkStatic()))
      return signalPassFailure();
    // Any op may hold a type, also inside an attribute (a signature), so all of them are visited.
    mlir::AttrTypeReplacer replacer;
    replacer.addReplacement([](mlir::RankedTensorType type) -> std::optional<mlir::Type> {
      if (!llvm::isa_and_present<ir::DimsAttr>(type.getEncoding()))
        return std::nullopt;
      return mlir::RankedTensorType::get(type.getShape(), type.getElementType());
    });
    replacer.recursivelyReplaceElementsIn(getOperation(), /*replaceAttrs=*/true, /*replaceLocs=*/false,
                                          /*replaceTypes=*/true);
    assert(!hasDims(getOperation()) && "a type with dims was missed");
  }

private:
  llvm::LogicalResult checkStatic() {
    return rewriteTypes(
        getOperation(),
        [](mlir::Operation *op, mlir::RankedTensorType type) -> mlir::FailureOr<mlir::RankedTensorType> {
          if (llvm::isa_and_present<ir::DimsAttr>(type.getEncoding()) && !type.hasStaticShape())
            return op->emitError(nodeName(op))
                   << ": " << type << " has an open dim, whose name would be lost; rlx-bind-dims and "
                   << "rlx-sync-shapes come before";
          return mlir::RankedTensorType();
        });
  }

  static bool hasDims(mlir::Operation *root) {
    bool found = false;
    (void)rewriteTypes(root, [&](mlir::Operation *, mlir::RankedTensorType type) {
      found |= llvm::isa_and_present<ir::DimsAttr>(type.getEncoding());
      return mlir::FailureOr<mlir::RankedTensorType>(mlir::RankedTensorType());
    });
    return found;
  }
};

} // namespace
} // namespace rlx::transforms
