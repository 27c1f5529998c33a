//===- Passes.h - graph to graph passes -------------------------*- C++ -*-===//
#ifndef RLX_TRANSFORMS_PASSES_H
#define RLX_TRANSFORMS_PASSES_H

#include "rlx/Dialect/RLX/IR/RLXOps.h"
#include "rlx/Support/DimExpr.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

#include <memory>

namespace rlx {

class FoldingInterface;

namespace transforms {

#define GEN_PASS_DECL
#include "rlx/Transforms/Passes.h.inc"

/// rlx-bind-dims with sizes given as a binding instead of as text.
std::unique_ptr<mlir::Pass> createBindDims(const Binding &binding);

/// rlx-fold-constants that runs `folding` for what the folders leave. `folding`
/// must outlive the pass; null means folders only.
std::unique_ptr<mlir::Pass> createFoldConstants(FoldConstantsOptions options, FoldingInterface *folding);

#define GEN_PASS_REGISTRATION
#include "rlx/Transforms/Passes.h.inc"

} // namespace transforms
} // namespace rlx

#endif // RLX_TRANSFORMS_PASSES_H
