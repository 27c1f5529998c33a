//===- Library.cpp - how the runtime finds the compiler -------------------===//

#include "rlx/Compiler/Load.h"
#include "rlx/Runtime/BuildId.h"
#include "rlx/Runtime/CompilerLibrary.h"

#include "mlir/IR/Verifier.h"

namespace rlx::compiler {

namespace {
class InProcess final : public CompilerSource {
public:
  Result<LoadedModel> loadModel(const std::string &path, const rlx::LoadOptions &options) override {
    return compiler::loadModel(path, {options, {}, {}});
  }
  Result<LoadedModel> loadModule(std::string_view text, std::shared_ptr<WeightTable> weights,
                                 const rlx::LoadOptions &options) override {
    return compiler::loadModule(text, std::move(weights), {options, {}, {}});
  }
};
} // namespace

std::shared_ptr<CompilerSource> inProcess() { return std::make_shared<InProcess>(); }

} // namespace rlx::compiler

extern "C" const rlx::CompilerLibrary *rlxCompilerLibrary();

extern "C" const rlx::CompilerLibrary *rlxCompilerLibrary() {
  using Verify = llvm::LogicalResult (*)(mlir::Operation *, bool);
  static const rlx::CompilerLibrary library = {
      .buildId = RLX_BUILD_ID,
      .create = rlx::compiler::inProcess,
      .symbol = "_ZN4mlir6verifyEPNS_9OperationEb",
      .bound = reinterpret_cast<const void *>(static_cast<Verify>(&mlir::verify)),
  };
  return &library;
}
