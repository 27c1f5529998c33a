//===- Load.h - from a file to a model that runs ----------------*- C++ -*-===//
#ifndef RLX_COMPILER_LOAD_H
#define RLX_COMPILER_LOAD_H

#include "rlx/Support/Result.h"

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rlx {
class Model;
class WeightTable;
} // namespace rlx

namespace rlx::compiler {

struct LoadOptions {
  /// ONNX only: every input dim becomes a named dim of its own.
  bool dynamicInputs = false;
  /// .mlir only: the weights, when not in the file that the module names.
  std::string weightsFile;
  /// When set: the IR after each stage is written there as NN-stage.mlir, and
  /// the LLVM IR of each kernel as kernel-*.ll. The folder must exist.
  std::string dumpDir;
  /// Stop after this stage (one of stageNames()); running is then refused.
  std::string until;
};

struct LoadedModel {
  std::shared_ptr<const Model> model;
  std::vector<std::string> warnings;
  /// Milliseconds by phase: what reading was made of (parse, import; or read), prepare, model.
  std::vector<std::pair<std::string, double>> times;
};

/// Loads a .onnx or .mlir file, prepares the graph and gives a model
/// whose compiler works in this process. Errors: Io, InvalidModel, Unsupported
/// (one message that lists everything).
Result<LoadedModel> loadModel(const std::string &path, const LoadOptions &options = {});

/// The same for a module in the rlx dialect that is in memory, text or bytecode.
/// `weights` holds the rows that it names; null for none. Errors: InvalidModel,
/// Unsupported; InvalidArgument for an option that is about files.
Result<LoadedModel> loadModule(std::string_view module, std::shared_ptr<WeightTable> weights = nullptr,
                               const LoadOptions &options = {});

/// Stages in the order they run, as `until` takes them.
const std::vector<std::string> &stageNames();

} // namespace rlx::compiler

#endif // RLX_COMPILER_LOAD_H
