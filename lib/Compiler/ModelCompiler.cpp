//===- ModelCompiler.cpp - the compiler of one model ----------------------===//

#include "ModelCompiler.h"

#include "KernelRequests.h"
#include "Session.h"

#include "rlx/Codegen/Plan/EmitPlan.h"
#include "rlx/Codegen/Plan/Passes.h"
#include "rlx/Codegen/Plan/Questions.h"
#include "rlx/Transforms/Passes.h"

#include "mlir/Bytecode/BytecodeWriter.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace rlx::compiler {

namespace {
/// Specializations a context serves: types and attributes with numbers in them stay in it for good.
constexpr unsigned kUsesOfContext = 64;

} // namespace

struct ModelCompiler::Session {
  std::unique_ptr<MLIRContext> context;
  OwningOpRef<ModuleOp> module;
  unsigned uses = 0;
};

ModelCompiler::~ModelCompiler() = default;

Result<std::shared_ptr<ModelCompiler>> ModelCompiler::create(ModuleOp module, std::string dumpDir,
                                                             unsigned stagesDumped) {
  std::shared_ptr<ModelCompiler> compiler(new ModelCompiler);
  llvm::raw_string_ostream stream(compiler->bytecode);
  if (failed(writeBytecodeToFile(module, stream)))
    return Error{ErrorCode::Internal, "the prepared graph cannot be written as bytecode"};
  compiler->dumpDir = std::move(dumpDir);
  compiler->dumped = stagesDumped;
  return compiler;
}

std::shared_ptr<ModelCompiler> ModelCompiler::open(std::string prepared) {
  std::shared_ptr<ModelCompiler> compiler(new ModelCompiler);
  compiler->bytecode = std::move(prepared);
  return compiler;
}

Result<ModelCompiler::Session *> ModelCompiler::session() {
  if (current && current->uses++ < kUsesOfContext)
    return current.get();
  auto made = std::make_unique<Session>();
  made->context = makeContext();
  DiagnosticCollector said(made->context.get());
  made->module = parseSourceString<ModuleOp>(bytecode, ParserConfig(made->context.get(), /*verifyAfterParse=*/false));
  if (!made->module)
    return Error{ErrorCode::Internal, "the prepared graph cannot be read back: " + said.firstError()};
  current = std::move(made);
  return current.get();
}

Result<SpecializeReply> ModelCompiler::specialize(const Binding &binding) {
  std::lock_guard<std::mutex> lock(mutex);
  Stopwatch watch;
  SpecializeReply reply;
  Result<Session *> open = session();
  if (!open)
    return open.takeError();
  Result<ir::GraphOp> prepared = onlyGraph(*(*open)->module);
  if (!prepared)
    return prepared.takeError();
  reply.times.emplace_back("open", watch.lap());

  // Requirements first, on the symbolic graph: one that fails is an answer (an error leaf), and costs no pass.
  SizeAccessor sizes(codegen::declaredFacts(*prepared), binding);
  if (Status status = codegen::askFirstQuestions(*prepared, sizes); !status) {
    if (sizes.trail().empty() || sizes.trail().back().answer || !sizes.trail().back().required)
      return status.takeError();
    reply.plan = std::make_unique<data::PlanTemplateT>();
    reply.plan->guards = codegen::emitGuards(sizes.trail());
    reply.error = std::make_unique<Error>(status.takeError());
    reply.times.emplace_back("ask", watch.lap());
    return reply;
  }
  reply.times.emplace_back("ask", watch.lap());

  OwningOpRef<ModuleOp> module = (*open)->module->clone();
  struct Stage {
    const char *name;
    /// Whose fault it is when the stage fails.
    ErrorCode code;
    bool verify;
    void (*build)(PassManager &, const Binding &);
  };
  const Stage stages[] = {
      {"bind", ErrorCode::OutOfRange, false,
       [](PassManager &manager, const Binding &sizes) { manager.addPass(transforms::createBindDims(sizes)); }},
      {"sync", ErrorCode::InvalidModel, true,
       [](PassManager &manager, const Binding &) {
         OpPassManager &graphs = manager.nest<ir::GraphOp>();
         graphs.addPass(transforms::createSyncShapes());
         graphs.addPass(transforms::createVerifyStatic());
       }},
      {"kernels", ErrorCode::InvalidModel, false,
       [](PassManager &manager, const Binding &) {
         // Without `until` the pipeline takes every option.
         (void)codegen::buildLowerHostPipeline(manager, {});
       }},
  };
  for (const Stage &stage : stages) {
    // Stages end in checks of their contracts. Verifying every op after every pass as well took a third of the time a
    // template takes; it is done where a pass has rewritten all types.
    PassManager manager(module->getContext());
    manager.enableVerifier(stage.verify);
    stage.build(manager, binding);
    if (Status status = runPasses(manager, *module, stage.code); !status)
      return status.takeError();
    reply.times.emplace_back(stage.name, watch.lap());
    if (Status status = dumpModule(*module, dumpDir, dumped, stage.name); !status)
      return status.takeError();
    if (!dumpDir.empty())
      ++dumped;
  }

  Result<ir::GraphOp> planned = onlyGraph(*module);
  if (!planned)
    return planned.takeError();
  Result<std::unique_ptr<data::PlanTemplateT>> plan = codegen::emitPlan(*planned);
  if (!plan)
    return plan.takeError();
  reply.plan = std::move(*plan);
  reply.times.emplace_back("plan", watch.lap());
  return reply;
}

Result<std::vector<data::KernelImageT>> ModelCompiler::compileKernels(std::span<const data::KernelSpecT> specs,
                                                                      ThreadPool &pool, PhaseTimes &times) {
  return compileKernelBatch(specs, pool, times, dumpDir);
}

std::string ModelCompiler::target() const { return kernelTarget(); }

} // namespace rlx::compiler
