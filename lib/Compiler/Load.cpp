//===- Load.cpp - from a file to a model that runs ------------------------===//

#include "rlx/Compiler/Load.h"

#include "HostFolder.h"
#include "ModelCompiler.h"
#include "Prepare.h"
#include "Session.h"

#include "rlx/Codegen/Plan/EmitPlan.h"
#include "rlx/Import/Onnx.h"
#include "rlx/Runtime/Model.h"
#include "rlx/Transforms/Pipelines.h"

#include "mlir/Bytecode/BytecodeWriter.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace rlx::compiler {

namespace {
constexpr llvm::StringLiteral kImport = "import";

/// Refuses to specialize: the user asked to stop earlier.
class StoppedCompiler : public CompilerInterface {
public:
  explicit StoppedCompiler(std::string stage) : stage(std::move(stage)) {}
  Result<SpecializeReply> specialize(const Binding &) override { return stopped(); }
  Result<std::vector<data::KernelImageT>> compileKernels(std::span<const data::KernelSpecT>, ThreadPool &,
                                                         PhaseTimes &) override {
    return stopped();
  }
  std::string target() const override { return {}; }

private:
  Error stopped() const {
    return {ErrorCode::InvalidArgument, "the model was prepared only as far as '" + stage + "' and cannot run"};
  }
  std::string stage;
};

struct Source {
  OwningOpRef<ModuleOp> module;
  std::shared_ptr<WeightTable> weights;
  std::vector<std::string> warnings;
  PhaseTimes times;
};

Result<Source> readSource(MLIRContext &context, const std::string &path, const LoadOptions &options) {
  llvm::StringRef name(path);
  Stopwatch watch;
  if (name.ends_with(".mlir")) {
    if (options.dynamicInputs)
      return Error{ErrorCode::InvalidArgument, "'" + path + "': only the dims of ONNX models can be redeclared"};
    Result<OpenedModule> opened = openMlir(context, path, options.weightsFile);
    if (!opened)
      return opened.takeError();
    Source source{std::move(opened->module), std::move(opened->weights), {}, {}};
    source.times.emplace_back("read", watch.lap());
    return source;
  }
  if (name.ends_with(".onnx")) {
    if (!options.weightsFile.empty())
      return Error{ErrorCode::InvalidArgument, "'" + path + "': a weights file belongs to an .mlir model only"};
    ImportOptions importOptions;
    importOptions.dynamicInputs = options.dynamicInputs;
    Result<ImportedModel> imported = importOnnx(context, path, importOptions);
    if (!imported)
      return imported.takeError();
    return Source{std::move(imported->module), std::move(imported->weights), std::move(imported->warnings),
                  std::move(imported->times)};
  }
  return Error{ErrorCode::InvalidArgument, "'" + path + "': not a kind of model that rlx reads (.onnx, .mlir)"};
}

Status checkUntil(const LoadOptions &options) {
  if (!options.until.empty() && !llvm::is_contained(stageNames(), options.until))
    return Error{ErrorCode::InvalidArgument,
                 "no stage '" + options.until + "'; stages are " + llvm::join(stageNames(), ", ")};
  return Status::ok();
}

/// From a module as written or imported to what the runtime and the compiler need of it.
Result<PreparedModel> prepare(MLIRContext &context, Source source, const LoadOptions &options) {
  Stopwatch watch;
  unsigned dumped = 0;
  if (Status status = dumpModule(*source.module, options.dumpDir, dumped++, kImport.str()); !status)
    return status.takeError();

  bool stopped = options.until == kImport;
  if (!stopped) {
    HostFolder folder;
    // Each stage repeats those before it when it is dumped alone; run once, stage by stage only for the dumps.
    if (!options.dumpDir.empty()) {
      for (llvm::StringRef stage : transforms::prepareStages()) {
        OwningOpRef<ModuleOp> copy = source.module->clone();
        transforms::PrepareOptions prepare;
        prepare.until = stage.str();
        prepare.folding = &folder;
        PassManager manager(&context);
        if (failed(transforms::buildPreparePipeline(manager, prepare)))
          return Error{ErrorCode::Internal, "stage '" + stage.str() + "' is not one of rlx-prepare"};
        if (Status status = runPasses(manager, *copy, ErrorCode::InvalidModel); !status)
          return status.takeError();
        if (Status status = dumpModule(*copy, options.dumpDir, dumped++, stage.str()); !status)
          return status.takeError();
        if (options.until == stage)
          break;
      }
    }
    transforms::PrepareOptions prepare;
    prepare.until = options.until;
    prepare.folding = &folder;
    PassManager manager(&context);
    if (failed(transforms::buildPreparePipeline(manager, prepare)))
      return Error{ErrorCode::Internal, "stage '" + options.until + "' is not one of rlx-prepare"};
    // What was read is verified, and what becomes of it once more at the end: after every pass it took half the time.
    manager.enableVerifier(false);
    if (Status status = runPasses(manager, *source.module, ErrorCode::InvalidModel); !status)
      return status.takeError();
    if (Status status = verifyModule(*source.module); !status)
      return status.takeError();
    stopped = !options.until.empty();
  }
  source.times.emplace_back("prepare", watch.lap());

  Result<ir::GraphOp> graph = onlyGraph(*source.module);
  if (!graph)
    return graph.takeError();
  Result<data::ModelSignatureT> signature = codegen::emitSignature(*graph);
  if (!signature)
    return signature.takeError();
  PreparedModel prepared;
  if (!stopped) {
    Result<std::shared_ptr<ModelCompiler>> made = ModelCompiler::create(*source.module, options.dumpDir, dumped);
    if (!made)
      return made.takeError();
    prepared.compiler = std::move(*made);
  }
  prepared.signature = std::move(*signature);
  prepared.weights = std::move(source.weights);
  prepared.warnings = std::move(source.warnings);
  source.times.emplace_back("model", watch.lap());
  prepared.times = std::move(source.times);
  return prepared;
}

Result<LoadedModel> makeModel(Result<PreparedModel> prepared, const LoadOptions &options) {
  if (!prepared)
    return prepared.takeError();
  std::shared_ptr<CompilerInterface> compiler = std::move(prepared->compiler);
  if (!compiler)
    compiler = std::make_shared<StoppedCompiler>(options.until);
  Result<std::shared_ptr<const Model>> model =
      Model::create(std::move(prepared->signature), std::move(prepared->weights), std::move(compiler));
  if (!model)
    return model.takeError();
  return LoadedModel{std::move(*model), std::move(prepared->warnings), std::move(prepared->times)};
}

} // namespace

const std::vector<std::string> &stageNames() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all{kImport.str()};
    for (llvm::StringRef stage : transforms::prepareStages())
      all.push_back(stage.str());
    return all;
  }();
  return names;
}

Result<PreparedModel> prepareFile(const std::string &path, const LoadOptions &options) {
  if (Status status = checkUntil(options); !status)
    return status.takeError();
  std::unique_ptr<MLIRContext> context = makeContext();
  Result<Source> source = readSource(*context, path, options);
  if (!source)
    return source.takeError();
  return prepare(*context, std::move(*source), options);
}

Result<PreparedModel> prepareModule(std::string_view module, WeightLookup weights, const LoadOptions &options) {
  if (Status status = checkUntil(options); !status)
    return status.takeError();
  if (options.dynamicInputs || !options.weightsFile.empty())
    return Error{ErrorCode::InvalidArgument, "a module in memory has its weights beside it, and its dims are declared"};
  std::unique_ptr<MLIRContext> context = makeContext();
  Result<OwningOpRef<ModuleOp>> parsed = parseMlir(*context, module, "module", weights);
  if (!parsed)
    return parsed.takeError();
  return prepare(*context, Source{std::move(*parsed), nullptr, {}, {}}, options);
}

Result<LoadedModel> loadModel(const std::string &path, const LoadOptions &options) {
  return makeModel(prepareFile(path, options), options);
}

Result<LoadedModel> loadModule(std::string_view module, std::shared_ptr<WeightTable> weights,
                               const LoadOptions &options) {
  auto find = [&](llvm::StringRef name) { return weights ? weights->find(name) : nullptr; };
  Result<PreparedModel> prepared = prepareModule(module, find, options);
  if (prepared)
    prepared->weights = std::move(weights);
  return makeModel(std::move(prepared), options);
}

Result<LoadedModel> loadModule(ModuleOp module, std::shared_ptr<WeightTable> weights, const LoadOptions &options) {
  if (!module)
    return Error{ErrorCode::InvalidArgument, "no module"};
  {
    DiagnosticCollector said(module.getContext());
    if (failed(mlir::verify(module)))
      return Error{ErrorCode::InvalidModel, said.firstError()};
  }
  // Into a context of its own: passes rewrite the graph, and leave types behind that live as long as their context.
  std::string bytecode;
  llvm::raw_string_ostream stream(bytecode);
  if (failed(writeBytecodeToFile(module, stream)))
    return Error{ErrorCode::Internal, "the module cannot be written as bytecode"};
  return loadModule(bytecode, std::move(weights), options);
}

} // namespace rlx::compiler
