//===- Onnx.h - ONNX models into the rlx dialect ----------------*- C++ -*-===//
#ifndef RLX_IMPORT_ONNX_H
#define RLX_IMPORT_ONNX_H

#include "rlx/Runtime/Compiler.h"
#include "rlx/Runtime/WeightTable.h"
#include "rlx/Support/Result.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace rlx {

/// How a model is imported.
struct ImportOptions {
  /// Gives every dim of every input a name (`<input>_<axis>` where the file has
  /// a number), so that nothing is fixed but weights and constants.
  bool dynamicInputs = false;
  /// Initializers up to this many bytes become constants of the graph, larger
  /// ones rows of the weight table.
  size_t maxConstantBytes = 1024;
};

/// A model in the rlx dialect: one `rlx.graph @main` that has been verified.
struct ImportedModel {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  /// The initializers that are not constants, by name. Their bytes lie in the
  /// mapped file, in mapped external data or in the parsed message, and are not
  /// copied.
  std::shared_ptr<WeightTable> weights;
  /// Things in the file that were wrong but could be ignored, a line each.
  std::vector<std::string> warnings;
  /// Milliseconds: parse, import.
  PhaseTimes times;
};

/// Reads an ONNX model, opset 7 to current. External data is looked for in the
/// model's folder only. Errors: Io; InvalidModel for a file that is wrong;
/// Unsupported for what rlx cannot do. The error lists every node that could not
/// be imported. `context` gets the rlx dialect loaded and must outlive the module.
Result<ImportedModel> importOnnx(mlir::MLIRContext &context, const std::string &path,
                                 const ImportOptions &options = {});

/// The same from bytes in memory, which are not needed after the call. `folder`
/// is where external data lies; empty: external data is an error.
Result<ImportedModel> importOnnx(mlir::MLIRContext &context, std::span<const std::byte> bytes,
                                 const std::string &folder, const ImportOptions &options = {});

/// Every operator the importer knows, as "Gemm 7+" or "Softmax 7-12", sorted.
std::vector<std::string> listOnnxOps();

} // namespace rlx

#endif // RLX_IMPORT_ONNX_H
