//===- ModuleIO.cpp - .mlir files with their weights ----------------------===//
#include "rlx/Import/ModuleIO.h"

#include "Onnx/Proto.h"

#include "rlx/Dialect/RLX/IR/NodeName.h"
#include "rlx/Dialect/RLX/IR/RLXOps.h"
#include "rlx/Support/Files.h"

#include "mlir/Bytecode/BytecodeReader.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/raw_ostream.h"

using namespace rlx;

static constexpr llvm::StringLiteral weightsAttr = "rlx.weights";

static std::string folderOf(const std::string &path) {
  llvm::StringRef parent = llvm::sys::path::parent_path(path);
  return parent.empty() ? "." : parent.str();
}

static Status writeText(const std::string &path, const std::string &text) {
  Result<AtomicFile> file = AtomicFile::create(path);
  if (!file)
    return file.takeError();
  Status status = file->write(std::as_bytes(std::span(text)));
  return status ? file->commit() : status;
}

/// What is there already must be a file: a rename would replace a device or a pipe.
static Status checkReplaceable(const std::string &path) {
  llvm::sys::fs::file_status status;
  if (!llvm::sys::fs::status(path, status) && llvm::sys::fs::exists(status) && !llvm::sys::fs::is_regular_file(status))
    return Error{ErrorCode::Io, "cannot write '" + path + "': not a regular file"};
  return Status::ok();
}

Status rlx::writeModule(mlir::ModuleOp module, const WeightTable &weights, const std::string &path,
                        const std::string &weightsFile) {
  if (path.empty() || llvm::sys::path::filename(path).empty())
    return Error{ErrorCode::Io, "cannot write '" + path + "': not a file name"};
  if (Status status = checkReplaceable(path); !status)
    return status;
  std::string file = weightsFile;
  std::string stored;
  if (weights.rows().empty()) {
    file.clear();
  } else {
    if (file.empty()) {
      llvm::SmallString<256> beside(path);
      llvm::sys::path::replace_extension(beside, "safetensors");
      file = std::string(beside);
    }
    if (file == path)
      return Error{ErrorCode::InvalidArgument, "the weights cannot go to '" + path + "' too"};
    if (Status status = checkReplaceable(file); !status)
      return status;
    // In the module's own folder by name alone, so that the pair can be moved.
    llvm::StringRef folder = llvm::sys::path::parent_path(file);
    llvm::SmallString<256> absolute(file);
    if (std::error_code code = llvm::sys::fs::make_absolute(absolute))
      return Error{ErrorCode::Io, "cannot write '" + file + "': " + code.message()};
    stored =
        folder == llvm::sys::path::parent_path(path) ? llvm::sys::path::filename(file).str() : std::string(absolute);
  }
  // The attribute belongs to the file, not to the caller's module.
  mlir::Attribute before = module->getAttr(weightsAttr);
  if (file.empty())
    module->removeAttr(weightsAttr);
  else
    module->setAttr(weightsAttr, mlir::StringAttr::get(module.getContext(), stored));
  bool existed = !file.empty() && llvm::sys::fs::exists(file);
  Status status = file.empty() ? Status::ok() : weights.writeSafetensors(file);
  if (status) {
    mlir::OpPrintingFlags flags;
    flags.enableDebugInfo(/*enable=*/true, /*prettyForm=*/false);
    // The weights are not in it, so that the text is small.
    std::string text;
    llvm::raw_string_ostream os(text);
    module->print(os, flags);
    os << '\n';
    status = writeText(path, text);
    if (!status && !file.empty() && !existed)
      llvm::sys::fs::remove(file);
  }
  if (before)
    module->setAttr(weightsAttr, before);
  else
    module->removeAttr(weightsAttr);
  return status;
}

/// The file that a module names for its weights, which must lie beside it: a
/// module is data, and data must not choose what is opened.
static Result<std::string> resolveWeights(const std::string &path, llvm::StringRef stored) {
  auto refuse = [&](llvm::StringRef why) {
    return Error{ErrorCode::InvalidModel,
                 (path + ": weights file '" + stored + "' " + why + "; name it with --weights to use it").str()};
  };
  if (stored.empty() || stored.contains('\0'))
    return refuse("is no file name");
  if (llvm::sys::path::is_absolute(stored))
    return refuse("lies outside the module's folder");
  for (llvm::StringRef part : llvm::make_range(llvm::sys::path::begin(stored), llvm::sys::path::end(stored)))
    if (part == "..")
      return refuse("lies outside the module's folder");
  llvm::SmallString<256> joined(folderOf(path)), realFolder, realFile;
  llvm::sys::path::append(joined, stored);
  if (std::error_code code = llvm::sys::fs::real_path(joined, realFile))
    return Error{ErrorCode::Io, path + ": cannot open weights file '" + joined.str().str() + "': " + code.message()};
  if (std::error_code code = llvm::sys::fs::real_path(folderOf(path), realFolder))
    return Error{ErrorCode::Io, path + ": cannot open its folder: " + code.message()};
  llvm::StringRef rest = realFile;
  if (!rest.consume_front(realFolder) || !(rest.starts_with("/") || realFolder.str() == "/"))
    return refuse("lies outside the module's folder");
  return std::string(joined);
}

/// MLIR's parser calls itself at each bracket, sign and affine term, as deep as the text says: this keeps it within
/// its stack. Modules of the dialect are a dozen deep, and have no affine maps.
static Status checkDepth(llvm::StringRef text, const std::string &path) {
  constexpr size_t kMaxDepth = 200, kMaxSigns = 16;
  size_t depth = 0, signs = 0, line = 1;
  auto refuse = [&](llvm::StringRef what) {
    return Error{ErrorCode::InvalidModel, (path + ":" + llvm::Twine(line) + ": " + what).str()};
  };
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '\n')
      ++line;
    if (c == '-' && !text.substr(i).starts_with("->")) {
      if (++signs > kMaxSigns)
        return refuse("more than " + llvm::Twine(kMaxSigns).str() + " signs in a row");
      continue;
    }
    if (c == ' ' || c == '\t' || c == '\n' || c == '\r')
      continue;
    signs = 0;
    switch (c) {
    case '"':
      for (++i; i < text.size() && text[i] != '"' && text[i] != '\n'; ++i)
        i += text[i] == '\\';
      break;
    case '/':
      if (text.substr(i).starts_with("//"))
        i = std::min(text.find('\n', i), text.size()) - 1;
      break;
    case '-': // of an arrow
      ++i;
      break;
    case '(':
    case '[':
    case '{':
    case '<':
      if (++depth > kMaxDepth)
        return refuse("brackets more than " + llvm::Twine(kMaxDepth).str() + " deep");
      break;
    case ')':
    case ']':
    case '}':
    case '>':
      depth -= depth != 0;
      break;
    case 'a':
      if (text.substr(i).starts_with("affine_map<") || text.substr(i).starts_with("affine_set<"))
        return refuse("affine maps and sets have no place in a module of the rlx dialect");
      break;
    }
  }
  return Status::ok();
}

/// Parses and verifies; `path` stands for the module in messages.
static Result<mlir::OwningOpRef<mlir::ModuleOp>> parseModule(mlir::MLIRContext &context, llvm::StringRef text,
                                                             const std::string &path) {
  if (!mlir::isBytecode(llvm::MemoryBufferRef(text, path)))
    if (Status status = checkDepth(text, path); !status)
      return status.takeError();
  context.loadDialect<ir::RLXDialect>();
  std::string firstError;
  mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error && firstError.empty()) {
      if (auto where = llvm::dyn_cast<mlir::FileLineColLoc>(diagnostic.getLocation()))
        firstError = std::to_string(where.getLine()) + ":" + std::to_string(where.getColumn()) + ": ";
      else if (std::string name = ir::findNodeName(diagnostic.getLocation()); !name.empty())
        firstError = "node '" + name + "': ";
      firstError += diagnostic.str();
    }
    return mlir::success();
  });
  // The parser wants a terminator after text, so this is the one copy of it.
  llvm::SourceMgr sources;
  sources.AddNewSourceBuffer(llvm::MemoryBuffer::getMemBufferCopy(text, path), llvm::SMLoc());
  mlir::OwningOpRef<mlir::ModuleOp> module =
      mlir::parseSourceFile<mlir::ModuleOp>(sources, mlir::ParserConfig(&context));
  if (!module)
    return Error{ErrorCode::InvalidModel, path + ": " +
                                              (firstError.empty() ? std::string("not a module in the rlx dialect")
                                                                  : onnx_import::printable(firstError))};
  return module;
}

/// Every weight that the module names is a row of its type and shape.
static Status checkWeights(mlir::ModuleOp module, WeightLookup weights, const std::string &path) {
  Status status;
  module->walk([&](ir::WeightOp op) {
    if (!status)
      return;
    auto type = llvm::cast<mlir::RankedTensorType>(op.getResult().getType());
    const WeightRow *row = weights(op.getRow());
    std::string name = path + ": weight '" + onnx_import::printable(op.getRow().str()) + "'";
    if (!row)
      status = Error{ErrorCode::InvalidModel, name + " is not among the weights"};
    else if (ir::fromElementType(op.getContext(), row->type) != type.getElementType() ||
             llvm::ArrayRef<int64_t>(row->shape) != type.getShape())
      status = Error{ErrorCode::InvalidModel, name + " has another type or shape among the weights"};
  });
  return status;
}

Result<mlir::OwningOpRef<mlir::ModuleOp>> rlx::parseMlir(mlir::MLIRContext &context, std::string_view module,
                                                         const std::string &name, WeightLookup weights) {
  Result<mlir::OwningOpRef<mlir::ModuleOp>> parsed = parseModule(context, module, name);
  if (!parsed)
    return parsed.takeError();
  if (Status status = checkWeights(**parsed, weights, name); !status)
    return status.takeError();
  return parsed;
}

Result<OpenedModule> rlx::openMlir(mlir::MLIRContext &context, const std::string &path,
                                   const std::string &weightsFile) {
  Result<MappedFile> file = mapFile(path);
  if (!file)
    return file.takeError();
  llvm::StringRef text(reinterpret_cast<const char *>(file->bytes.data()), file->bytes.size());
  // The bytecode reader crashes on bytes that are wrong in the right way (docs/Security.md).
  if (mlir::isBytecode(llvm::MemoryBufferRef(text, path)))
    return Error{ErrorCode::Unsupported,
                 path + ": MLIR bytecode is not read from files, since its reader is not safe on bytes from elsewhere; "
                        "rlx-opt prints it as text"};
  Result<mlir::OwningOpRef<mlir::ModuleOp>> parsed = parseModule(context, text, path);
  if (!parsed)
    return parsed.takeError();
  OpenedModule result{std::move(*parsed), nullptr};

  auto stored = (*result.module)->getAttrOfType<mlir::StringAttr>(weightsAttr);
  if (!weightsFile.empty() || stored) {
    std::string chosen = weightsFile;
    if (chosen.empty()) {
      Result<std::string> resolved = resolveWeights(path, stored.getValue());
      if (!resolved)
        return resolved.takeError();
      chosen = *resolved;
    }
    Result<std::shared_ptr<WeightTable>> table = WeightTable::openSafetensors(chosen);
    if (!table)
      return table.takeError();
    result.weights = *table;
  } else {
    result.weights = std::make_shared<WeightTable>();
  }
  auto find = [&](llvm::StringRef name) { return result.weights->find(name); };
  if (Status status = checkWeights(*result.module, find, path); !status)
    return status.takeError();
  return result;
}
