//===- Session.h - a context with a prepared graph in it --------*- C++ -*-===//
#ifndef RLX_LIB_COMPILER_SESSION_H
#define RLX_LIB_COMPILER_SESSION_H

#include "rlx/Dialect/RLX/IR/RLXOps.h"
#include "rlx/Support/Result.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Pass/PassManager.h"

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace rlx::compiler {

/// A context with the rlx dialect, one thread, nothing else.
std::unique_ptr<mlir::MLIRContext> makeContext();

/// Collects what the compiler says while it lives; nothing is printed.
class DiagnosticCollector {
public:
  explicit DiagnosticCollector(mlir::MLIRContext *context);
  /// The first error with its notes, as one line that names the node.
  std::string firstError() const { return error; }
  const std::vector<std::string> &warnings() const { return warningLines; }

private:
  mlir::ScopedDiagnosticHandler handler;
  std::string error;
  std::vector<std::string> warningLines;
};

/// The graph of a module. Errors: none, or several.
Result<ir::GraphOp> onlyGraph(mlir::ModuleOp module);

/// Writes a module as NN-stage.mlir; does nothing for an empty folder.
Status dumpModule(mlir::ModuleOp module, const std::string &folder, unsigned number, const std::string &stage);

/// Milliseconds since it was made or last asked.
class Stopwatch {
public:
  double lap() {
    auto now = std::chrono::steady_clock::now();
    return std::chrono::duration<double, std::milli>(now - std::exchange(start, now)).count();
  }

private:
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
};

/// Verifies what passes have made of a caller's graph. Error (InvalidModel): the op that the graph made wrong.
Status verifyModule(mlir::ModuleOp module);

/// Runs passes on a module; what they said becomes the error.
Status runPasses(mlir::PassManager &manager, mlir::ModuleOp module, ErrorCode code);

} // namespace rlx::compiler

#endif // RLX_LIB_COMPILER_SESSION_H
