//===- Prepare.h - what is done once for a model ----------------*- C++ -*-===//
#ifndef RLX_LIB_COMPILER_PREPARE_H
#define RLX_LIB_COMPILER_PREPARE_H

#include "ModelCompiler.h"

#include "rlx/Compiler/Load.h"
#include "rlx/Import/ModuleIO.h"

namespace rlx::compiler {

/// A model before the runtime has it.
struct PreparedModel {
  data::ModelSignatureT signature;
  /// Of a file; null for a module, whose weights the caller has.
  std::shared_ptr<WeightTable> weights;
  /// Null where LoadOptions::until stopped before.
  std::shared_ptr<ModelCompiler> compiler;
  std::vector<std::string> warnings;
  PhaseTimes times;
};

/// As loadModel().
Result<PreparedModel> prepareFile(const std::string &path, const LoadOptions &options);
/// As loadModule(); of the weights only types and shapes are looked at.
Result<PreparedModel> prepareModule(std::string_view module, WeightLookup weights, const LoadOptions &options);

} // namespace rlx::compiler

#endif // RLX_LIB_COMPILER_PREPARE_H
