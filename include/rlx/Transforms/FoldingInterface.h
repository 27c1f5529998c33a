//===- FoldingInterface.h - how folding reaches the host kernels -*- C++ -*-===//
#ifndef RLX_TRANSFORMS_FOLDINGINTERFACE_H
#define RLX_TRANSFORMS_FOLDINGINTERFACE_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Operation.h"
#include "llvm/ADT/SmallVector.h"

namespace rlx {

/// Computes an op on constant operands with the kernels that would run later, so
/// that folded and computed numbers agree bit for bit. The compiler supplies it;
/// the passes know only this.
class FoldingInterface {
public:
  virtual ~FoldingInterface() = default;

  /// The results of `op`, one attribute each, of the results' shapes and element
  /// types. Failure, without a diagnostic, where the op cannot be computed here or
  /// would fail at run time (zero divisor, index out of range): it then stays.
  virtual llvm::FailureOr<llvm::SmallVector<mlir::DenseElementsAttr>>
  fold(mlir::Operation *op, llvm::ArrayRef<mlir::DenseElementsAttr> operands) = 0;
};

} // namespace rlx

#endif // RLX_TRANSFORMS_FOLDINGINTERFACE_H
