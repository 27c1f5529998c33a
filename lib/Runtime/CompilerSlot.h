//===- CompilerSlot.h - an engine's compiler --------------------*- C++ -*-===//
#ifndef RLX_LIB_RUNTIME_COMPILERSLOT_H
#define RLX_LIB_RUNTIME_COMPILERSLOT_H

#include "rlx/Runtime/CompilerLibrary.h"

#include <memory>
#include <mutex>

namespace rlx {

class Engine;

/// Holds what reads an engine's models, from the first that is read on. Thread safe.
class CompilerSlot {
public:
  /// What the engine's options ask for. An error is not remembered: the next call
  /// looks again.
  Result<std::shared_ptr<CompilerSource>> get(Engine &engine);

private:
  std::mutex mutex; // guards `source`
  std::shared_ptr<CompilerSource> source;
};

/// Finds and opens the compiler library. Errors (Unsupported): not found, with the
/// places looked at; of another build; another MLIR of the process is in its way.
Result<std::shared_ptr<CompilerSource>> openCompilerLibrary();

} // namespace rlx

#endif // RLX_LIB_RUNTIME_COMPILERSLOT_H
