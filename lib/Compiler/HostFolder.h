//===- HostFolder.h - folding by running the host kernels -------*- C++ -*-===//
#ifndef RLX_LIB_COMPILER_HOSTFOLDER_H
#define RLX_LIB_COMPILER_HOSTFOLDER_H

#include "rlx/Transforms/FoldingInterface.h"

#include <memory>

namespace rlx {
class Engine;
}

namespace rlx::compiler {

/// Computes an op on constants with the kernels that would compute it in a run:
/// a graph of the one op is planned, compiled and run. Kernels are shared
/// between ops, since equal ops have equal specs.
class HostFolder : public FoldingInterface {
public:
  HostFolder();
  ~HostFolder() override;
  llvm::FailureOr<llvm::SmallVector<mlir::DenseElementsAttr>>
  fold(mlir::Operation *op, llvm::ArrayRef<mlir::DenseElementsAttr> operands) override;

private:
  std::shared_ptr<Engine> engine; // null when none could be made: nothing folds
};

} // namespace rlx::compiler

#endif // RLX_LIB_COMPILER_HOSTFOLDER_H
