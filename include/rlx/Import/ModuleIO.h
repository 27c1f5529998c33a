//===- ModuleIO.h - .mlir files with their weights --------------*- C++ -*-===//
#ifndef RLX_IMPORT_MODULEIO_H
#define RLX_IMPORT_MODULEIO_H

#include "rlx/Runtime/WeightTable.h"
#include "rlx/Support/Result.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"

#include <memory>
#include <string>
#include <string_view>

namespace rlx {

/// A module read from a .mlir file, and the weights beside it (never
/// null, perhaps empty).
struct OpenedModule {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::shared_ptr<WeightTable> weights;
};

/// Writes `module` as text, and its weights to `weightsFile` (default:
/// `<stem>.safetensors` beside `path`). The module's attribute `rlx.weights`
/// names that file, relative to `path`'s folder. No weights, no second file.
/// Files appear whole or not at all; on an error neither is left behind.
Status writeModule(mlir::ModuleOp module, const WeightTable &weights, const std::string &path,
                   const std::string &weightsFile = {});

/// Reads the text of a module in the rlx dialect, verifies it, and maps
/// its weights: `weightsFile` when given, else the file that `rlx.weights`
/// names, which must lie in the module's folder. Errors: Io, InvalidModel (with
/// line and column where the text is wrong, or the row that a weight lacks),
/// Unsupported for bytecode, whose reader is not safe on a stranger's bytes.
Result<OpenedModule> openMlir(mlir::MLIRContext &context, const std::string &path, const std::string &weightsFile = {});

/// A row of the weights by name, or null. Its type and shape are looked at, not its bytes.
using WeightLookup = llvm::function_ref<const WeightRow *(llvm::StringRef)>;

/// Reads and verifies a module that is in memory, text or (from a source that
/// the caller trusts) bytecode. `weights` has the rows that it names; `rlx.weights`
/// is not looked at, and no file is opened. `name` stands for the path in messages.
/// Errors: InvalidModel.
Result<mlir::OwningOpRef<mlir::ModuleOp>> parseMlir(mlir::MLIRContext &context, std::string_view module,
                                                    const std::string &name, WeightLookup weights);

} // namespace rlx

#endif // RLX_IMPORT_MODULEIO_H
