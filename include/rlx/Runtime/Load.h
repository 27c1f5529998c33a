//===- Load.h - from a file to a model --------------------------*- C++ -*-===//
#ifndef RLX_RUNTIME_LOAD_H
#define RLX_RUNTIME_LOAD_H

#include "rlx/Runtime/Compiler.h"
#include "rlx/Runtime/Engine.h"
#include "rlx/Runtime/Model.h"

#include <memory>
#include <string>
#include <vector>

namespace rlx {

struct LoadOptions {
  /// .mlir: where its weights are. Empty: beside the model.
  std::string weightsFile;
  /// .onnx: every dim of every input becomes a name, whatever the file says.
  bool dynamicInputs = false;
};

/// A model that was read.
struct LoadedModel {
  std::shared_ptr<const Model> model;
  std::vector<std::string> warnings;
  PhaseTimes times;
};

/// Reads an .onnx or .mlir model, with the compiler where the engine has it. The
/// model keeps what it needs of the engine's compiler, not the engine.
/// Errors: a file that cannot be read (Io), is wrong (InvalidModel), or holds what
/// rlx cannot do (Unsupported, naming the nodes); no compiler to be found or one
/// of another build (Unsupported, saying where it was looked for); a worker that
/// died (CompilerFailed).
Result<LoadedModel> loadModel(Engine &engine, const std::string &path, const LoadOptions &options = {});

/// The same for a module of the rlx dialect in text form.
Result<LoadedModel> loadModule(Engine &engine, std::string_view text, std::shared_ptr<WeightTable> weights,
                               const LoadOptions &options = {});

} // namespace rlx

#endif // RLX_RUNTIME_LOAD_H
