//===- LeanPasses.h - the code generator's passes that kernels need -*- C++ -*-===//
#ifndef RLX_LIB_CODEGEN_TARGET_HOST_LEANPASSES_H
#define RLX_LIB_CODEGEN_TARGET_HOST_LEANPASSES_H

#include "llvm/IR/LegacyPassManager.h"

namespace rlx {

/// A pass manager that leaves out what cannot change a kernel or costs more than it gains. The lists are by LLVM's
/// names: a name that a later version no longer has leaves one pass more, and nothing else.
class LeanPasses final : public llvm::legacy::PassManagerBase {
public:
  void add(llvm::Pass *pass) override;
  void run(llvm::Module &module) { passes.run(module); }

private:
  llvm::legacy::PassManager passes;
};

} // namespace rlx

#endif // RLX_LIB_CODEGEN_TARGET_HOST_LEANPASSES_H
