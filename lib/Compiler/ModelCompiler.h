//===- ModelCompiler.h - the compiler of one model --------------*- C++ -*-===//
#ifndef RLX_LIB_COMPILER_MODELCOMPILER_H
#define RLX_LIB_COMPILER_MODELCOMPILER_H

#include "rlx/Runtime/Compiler.h"

#include "mlir/IR/BuiltinOps.h"

#include <memory>
#include <mutex>
#include <string>

namespace rlx::compiler {

/// Specializes a prepared graph in this process. The graph is kept as bytecode;
/// a context is made from it when one is needed, and dropped after some uses,
/// because a context only grows.
class ModelCompiler : public CompilerInterface {
public:
  /// `module` is prepared. Errors: it cannot be written as bytecode.
  static Result<std::shared_ptr<ModelCompiler>> create(mlir::ModuleOp module, std::string dumpDir,
                                                       unsigned stagesDumped);
  /// Of a graph in the form that prepared() gave, in this process or another of the same build.
  static std::shared_ptr<ModelCompiler> open(std::string prepared);
  ~ModelCompiler() override;
  /// The prepared graph as bytecode, for open().
  const std::string &prepared() const { return bytecode; }

  Result<SpecializeReply> specialize(const Binding &binding) override;
  Result<std::vector<data::KernelImageT>> compileKernels(std::span<const data::KernelSpecT> specs, ThreadPool &pool,
                                                         PhaseTimes &times) override;
  std::string target() const override;

private:
  struct Session;
  ModelCompiler() = default;
  Result<Session *> session();

  std::string bytecode;
  std::string dumpDir;
  unsigned dumped = 0;
  std::mutex mutex; // one specialization at a time: a context is not shared between threads
  std::unique_ptr<Session> current;
};

} // namespace rlx::compiler

#endif // RLX_LIB_COMPILER_MODELCOMPILER_H
