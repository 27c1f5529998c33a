//===- Session.cpp - a context with a prepared graph in it ----------------===//

#include "Session.h"

#include "rlx/Dialect/RLX/IR/NodeName.h"

#include "mlir/IR/AsmState.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/IR/Verifier.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace rlx::compiler {

std::unique_ptr<MLIRContext> makeContext() {
  DialectRegistry registry;
  registry.insert<ir::RLXDialect>();
  auto context = std::make_unique<MLIRContext>(registry, MLIRContext::Threading::DISABLED);
  context->loadAllAvailableDialects();
  context->printOpOnDiagnostic(false);
  return context;
}

namespace {
/// "node 'Add_12': " where the location has a name, "file.mlir:3:7: " where it has a line.
std::string whereText(Location location) {
  if (std::string name = ir::findNodeName(location); !name.empty())
    return "node '" + name + "': ";
  if (auto line = dyn_cast<FileLineColLoc>(location))
    return llvm::formatv("{0}:{1}:{2}: ", line.getFilename().getValue(), line.getLine(), line.getColumn()).str();
  return {};
}
} // namespace

DiagnosticCollector::DiagnosticCollector(MLIRContext *context)
    : handler(context, [this](Diagnostic &diagnostic) {
        std::string text = diagnostic.str(), where = whereText(diagnostic.getLocation());
        // Messages that outlive their op name its node themselves.
        if (!text.starts_with(where))
          text.insert(0, where);
        for (Diagnostic &note : diagnostic.getNotes())
          text += "; " + note.str();
        if (diagnostic.getSeverity() == DiagnosticSeverity::Error) {
          if (error.empty())
            error = std::move(text);
        } else if (diagnostic.getSeverity() == DiagnosticSeverity::Warning) {
          warningLines.push_back(std::move(text));
        }
        return success();
      }) {}

Result<ir::GraphOp> onlyGraph(ModuleOp module) {
  ir::GraphOp graph;
  for (auto candidate : module.getOps<ir::GraphOp>()) {
    if (graph)
      return Error{ErrorCode::InvalidModel, "the module has several graphs ('" + graph.getSymName().str() + "', '" +
                                                candidate.getSymName().str() + "'); rlx runs modules of one"};
    graph = candidate;
  }
  if (!graph)
    return Error{ErrorCode::InvalidModel, "the module has no rlx.graph"};
  return graph;
}

Status dumpModule(ModuleOp module, const std::string &folder, unsigned number, const std::string &stage) {
  if (folder.empty())
    return Status::ok();
  llvm::SmallString<128> path(folder);
  llvm::sys::path::append(path, llvm::formatv("{0}{1}-{2}.mlir", number < 10 ? "0" : "", number, stage).str());
  std::error_code code;
  llvm::raw_fd_ostream stream(path, code);
  if (code)
    return Error{ErrorCode::Io, "cannot write '" + std::string(path) + "': " + code.message()};
  OpPrintingFlags flags;
  flags.enableDebugInfo(true, false);
  module.print(stream, flags);
  return Status::ok();
}

Status verifyModule(ModuleOp module) {
  DiagnosticCollector said(module.getContext());
  if (succeeded(mlir::verify(module)))
    return Status::ok();
  return Error{ErrorCode::InvalidModel, "once prepared, the graph is not valid: " + said.firstError()};
}

Status runPasses(PassManager &manager, ModuleOp module, ErrorCode code) {
  DiagnosticCollector said(module.getContext());
  if (succeeded(manager.run(module)))
    return Status::ok();
  std::string error = said.firstError();
  return Error{code, error.empty() ? "a pass failed without saying why" : error};
}

} // namespace rlx::compiler
