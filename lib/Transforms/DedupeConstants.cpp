//===- DedupeConstants.cpp - one copy of equal constants ------------------===//
#include "rlx/Transforms/Passes.h"

#include "mlir/IR/Remarks.h"
#include "llvm/ADT/DenseMap.h"

#include <map>
#include <tuple>

namespace rlx::transforms {

#define GEN_PASS_DEF_DEDUPECONSTANTS
#include "rlx/Transforms/Passes.h.inc"

namespace {

/// What two sources must share to be one: op, value and type. Attributes are uniqued (dense ones by element type, shape
/// and bytes), so equal pointers are equal values.
using SourceKey = std::tuple<const void *, const void *, const void *>;

struct DedupeConstants : impl::DedupeConstantsBase<DedupeConstants> {
  void runOnOperation() override {
    ir::GraphOp graph = getOperation();
    std::map<SourceKey, mlir::Operation *> first;
    unsigned constants = 0, weights = 0;
    for (mlir::Operation &op : llvm::make_early_inc_range(graph.getBody().front())) {
      std::optional<SourceKey> key = keyOf(&op);
      if (!key)
        continue;
      // Ops are met in order, so the first of a kind stands before every user of the others.
      auto [place, inserted] = first.emplace(*key, &op);
      if (inserted)
        continue;
      op.replaceAllUsesWith(place->second);
      ++(llvm::isa<ir::ConstantOp>(op) ? constants : weights);
      op.erase();
    }
    if (constants + weights == 0)
      return markAllAnalysesPreserved();
    mlir::remark::passed(graph.getLoc(), mlir::remark::RemarkOpts::name("merged").category("rlx-dedupe-constants"))
        << mlir::remark::add("merged {0} constants and {1} weights", constants, weights);
  }

  static std::optional<SourceKey> keyOf(mlir::Operation *op) {
    const void *kind = op->getName().getAsOpaquePointer();
    if (op->getNumResults() != 1)
      return std::nullopt;
    const void *type = op->getResult(0).getType().getAsOpaquePointer();
    if (auto constant = llvm::dyn_cast<ir::ConstantOp>(op)) {
      mlir::ElementsAttr value = constant.getValue();
      return SourceKey{kind, value.getAsOpaquePointer(), type};
    }
    if (auto weight = llvm::dyn_cast<ir::WeightOp>(op))
      return SourceKey{kind, weight.getRowAttr().getAsOpaquePointer(), type};
    if (auto param = llvm::dyn_cast<ir::ParamOp>(op))
      return SourceKey{kind, param.getNameAttr().getAsOpaquePointer(), type};
    return std::nullopt;
  }
};

} // namespace
} // namespace rlx::transforms
