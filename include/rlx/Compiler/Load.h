//===- Load.h - from a file to a model that runs ----------------*- C++ -*-===//
#ifndef RLX_COMPILER_LOAD_H
#define RLX_COMPILER_LOAD_H

#include "rlx/Runtime/CompilerLibrary.h"
#include "rlx/Runtime/Load.h"
#include "rlx/Support/Result.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace mlir {
class ModuleOp;
} // namespace mlir

namespace rlx::compiler {

struct LoadOptions : rlx::LoadOptions {
  /// When set: the IR after each stage is written there as NN-stage.mlir, and
  /// the LLVM IR of each kernel as kernel-*.ll. The folder must exist.
  std::string dumpDir;
  /// Stop after this stage (one of stageNames()); running is then refused.
  std::string until;
};

/// Milliseconds by phase: what reading was made of (parse, import; or read), prepare, model.
using rlx::LoadedModel;

/// For EngineOptions::compilerSource, of a program that links the compiler: rlx::loadModel
/// then reads models with it, and opens no library.
std::shared_ptr<CompilerSource> inProcess();

/// Loads a .onnx or .mlir file, prepares the graph and gives a model
/// whose compiler works in this process. Errors: Io, InvalidModel, Unsupported
/// (one message that lists everything).
Result<LoadedModel> loadModel(const std::string &path, const LoadOptions &options = {});

/// The same for a module in the rlx dialect that is in memory, text or bytecode.
/// `weights` holds the rows that it names; null for none. Errors: InvalidModel,
/// Unsupported; InvalidArgument for an option that is about files.
Result<LoadedModel> loadModule(std::string_view module, std::shared_ptr<WeightTable> weights = nullptr,
                               const LoadOptions &options = {});

/// The same for a module that its maker still holds, such as GraphBuilder's. It is
/// read, not changed, and not needed afterwards; ops of other dialects are an error.
Result<LoadedModel> loadModule(mlir::ModuleOp module, std::shared_ptr<WeightTable> weights = nullptr,
                               const LoadOptions &options = {});

/// Stages in the order they run, as `until` takes them.
const std::vector<std::string> &stageNames();

} // namespace rlx::compiler

#endif // RLX_COMPILER_LOAD_H
