//===- KernelCompiler.cpp - from a kernel spec to an image ----------------===//
#include "rlx/Codegen/KernelCompiler.h"

#include "rlx/Codegen/Emitter.h"
#include "rlx/Codegen/Families.h"
#include "rlx/Codegen/Image.h"
#include "rlx/Data/Serialize.h"

#include "LeanPasses.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/IR/DiagnosticHandler.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/DiagnosticPrinter.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/PassManager.h"
#include "llvm/IR/Verifier.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Target/TargetOptions.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/Transforms/Scalar/EarlyCSE.h"
#include "llvm/Transforms/Scalar/LICM.h"
#include "llvm/Transforms/Scalar/LoopPassManager.h"
#include "llvm/Transforms/Scalar/SimplifyCFG.h"
#include "llvm/Transforms/Utils/Cloning.h"

#include <chrono>
#include <memory>

using namespace llvm;

namespace rlx {

using data::Family;

namespace {

constexpr const char *kTriple = "x86_64-unknown-linux-gnu";

void initTargets() {
  static const bool once = [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeX86AsmParser(); // of the assembly in kernels
    return true;
  }();
  (void)once;
}

/// The parts of "x86_64:<cpu>:<features>".
struct TargetName {
  std::string cpu, features;
};

Result<TargetName> parseTarget(StringRef target) {
  auto [arch, rest] = target.split(':');
  auto [cpu, features] = rest.split(':');
  if (arch != "x86_64" || cpu.empty())
    return Error{ErrorCode::InvalidArgument,
                 "kernel target '" + target.str() + "' is not of the form x86_64:<cpu>:<features>"};
  return TargetName{cpu.str(), features.str()};
}

class Stopwatch {
public:
  explicit Stopwatch(KernelPhaseTimes *times) : times(times) { start = std::chrono::steady_clock::now(); }
  void lap(const char *phase) {
    if (!times)
      return;
    auto now = std::chrono::steady_clock::now();
    double ms = std::chrono::duration<double, std::milli>(now - start).count();
    start = now;
    for (auto &[name, sum] : *times)
      if (name == phase) {
        sum += ms;
        return;
      }
    times->emplace_back(phase, ms);
  }

private:
  KernelPhaseTimes *times;
  std::chrono::steady_clock::time_point start;
};

/// A target that LLVM knows (it would print and go on otherwise), with what the code of every family is written for
/// (the kernels would be right without, but call out).
Status checkTarget(const Target &backend, const Triple &triple, const TargetName &name, StringRef target) {
  auto fail = [&](const Twine &why) {
    return Error{ErrorCode::Unsupported, ("kernel target '" + target + "' " + why).str()};
  };
  std::unique_ptr<MCSubtargetInfo> generic(backend.createMCSubtargetInfo(triple, "", ""));
  if (!generic->isCPUStringValid(name.cpu))
    return fail("names a cpu that LLVM does not know");
  SmallVector<StringRef, 16> features;
  StringRef(name.features).split(features, ',', -1, /*KeepEmpty=*/false);
  for (StringRef feature : features) {
    bool known = (feature.starts_with("+") || feature.starts_with("-")) &&
                 llvm::any_of(generic->getAllProcessorFeatures(),
                              [&](const SubtargetFeatureKV &each) { return feature.drop_front() == each.Key; });
    if (!known)
      return fail("names the feature '" + feature + "', which LLVM does not know");
  }
  std::unique_ptr<MCSubtargetInfo> subtarget(backend.createMCSubtargetInfo(triple, name.cpu, name.features));
  for (const char *feature : {"+avx2", "+fma", "+f16c", "+bmi2"})
    if (!subtarget->checkFeatures(feature))
      return fail(Twine("lacks ") + (feature + 1) + "; rlx needs x86-64-v3 or later");
  return Status::ok();
}

/// Keeps the first error that LLVM reports while it works. Without a handler it would print it and end the process.
class ErrorKeeper : public DiagnosticHandler {
public:
  explicit ErrorKeeper(std::string &first) : first(first) {}
  bool handleDiagnostics(const DiagnosticInfo &info) override {
    if (info.getSeverity() == DS_Error && first.empty()) {
      raw_string_ostream os(first);
      DiagnosticPrinterRawOStream printer(os);
      info.print(printer);
    }
    return true; // nothing is left to print
  }

private:
  std::string &first;
};

/// What little pays: fewer instructions for the code generator to select.
void optimize(Module &module, Function &function, TargetMachine &machine) {
  PassBuilder passes(&machine);
  LoopAnalysisManager loops;
  FunctionAnalysisManager functions;
  CGSCCAnalysisManager cgscc;
  ModuleAnalysisManager modules;
  passes.registerModuleAnalyses(modules);
  passes.registerCGSCCAnalyses(cgscc);
  passes.registerFunctionAnalyses(functions);
  passes.registerLoopAnalyses(loops);
  passes.crossRegisterProxies(loops, functions, cgscc, modules);
  FunctionPassManager pipeline;
  pipeline.addPass(EarlyCSEPass());
  pipeline.addPass(SimplifyCFGPass());
  pipeline.addPass(createFunctionToLoopPassAdaptor(LICMPass(LICMOptions()), /*UseMemorySSA=*/true));
  pipeline.run(function, functions);
}

Status emitFamily(Emitter &e, const data::KernelSpecT &spec) {
  switch (spec.family) {
  case Family::Loops:
    return emitLoops(e, spec);
  case Family::Reduce:
    return emitReduce(e, spec);
  case Family::Rows:
    return emitRows(e, spec);
  case Family::Matmul:
    return emitMatmul(e, spec);
  case Family::Scan:
    return emitScan(e, spec);
  case Family::Attention:
    return emitAttention(e, spec);
  }
  return Error{ErrorCode::InvalidArgument, "kernel spec: unknown family"};
}

} // namespace

const std::string &hostTarget() {
  static const std::string target = [] {
    initTargets();
    std::string error;
    Triple triple(kTriple);
    const Target *backend = TargetRegistry::lookupTarget(triple, error);
    std::string cpu = sys::getHostCPUName().str();
    std::string features;
    if (backend) {
      // Only what differs from the cpu's own list (hypervisors hide features), sorted.
      std::unique_ptr<MCSubtargetInfo> own(backend->createMCSubtargetInfo(triple, cpu, ""));
      std::vector<std::string> differing;
      for (const auto &feature : sys::getHostCPUFeatures()) {
        std::string name = feature.getKey().str();
        if (own->checkFeatures("+" + name) != feature.getValue())
          differing.push_back((feature.getValue() ? "+" : "-") + name);
      }
      std::sort(differing.begin(), differing.end(), [](const auto &x, const auto &y) {
        return std::make_pair(x.substr(1), x[0]) < std::make_pair(y.substr(1), y[0]);
      });
      features = join(differing, ",");
    }
    return "x86_64:" + cpu + ":" + features;
  }();
  return target;
}

/// The code generator of one target.
struct KernelCompiler::Machine {
  std::string target;
  TargetName name;
  std::unique_ptr<TargetMachine> machine;

  static Result<std::unique_ptr<Machine>> create(const std::string &target);
};

Result<std::unique_ptr<KernelCompiler::Machine>> KernelCompiler::Machine::create(const std::string &target) {
  initTargets();
  Result<TargetName> name = parseTarget(target);
  if (!name)
    return name.takeError();
  std::string message;
  Triple triple(kTriple);
  const Target *backend = TargetRegistry::lookupTarget(triple, message);
  if (!backend)
    return Error{ErrorCode::Internal, "no x86-64 code generator: " + message};
  if (Status known = checkTarget(*backend, triple, *name, target); !known)
    return known.takeError();
  TargetOptions options;
  options.FunctionSections = true;
  options.UniqueSectionNames = true;
  options.EmitStackSizeSection = true;
  options.UseInitArray = true;
  auto made = std::make_unique<Machine>();
  made->target = target;
  made->name = std::move(*name);
  made->machine.reset(backend->createTargetMachine(triple, made->name.cpu, made->name.features, options, Reloc::PIC_,
                                                   CodeModel::Small, CodeGenOptLevel::Less));
  if (!made->machine)
    return Error{ErrorCode::Internal, "no machine for kernel target '" + target + "'"};
  return made;
}

KernelCompiler::KernelCompiler() = default;
KernelCompiler::~KernelCompiler() = default;
KernelCompiler::KernelCompiler(KernelCompiler &&) noexcept = default;

Result<data::KernelImageT> compileKernel(const data::KernelSpecT &spec, const KernelCompilerOptions &options) {
  return KernelCompiler().compile(spec, options);
}

Result<data::KernelImageT> KernelCompiler::compile(const data::KernelSpecT &spec,
                                                   const KernelCompilerOptions &options) {
  Stopwatch watch(options.times);
  if (!machine || machine->target != spec.target) {
    Result<std::unique_ptr<Machine>> made = Machine::create(spec.target);
    if (!made)
      return made.takeError();
    machine = std::move(*made);
  }
  if (spec.revision != kEmitterRevision)
    return Error{ErrorCode::InvalidArgument, "kernel spec of emitter revision " + std::to_string(spec.revision) +
                                                 "; this build has " + std::to_string(kEmitterRevision)};
  if (Status valid = validateSpec(spec); !valid)
    return valid.takeError();
  TargetMachine &backend = *machine->machine;
  const TargetName &name = machine->name;

  std::string message;
  LLVMContext context;
  std::string reported;
  context.setDiagnosticHandler(std::make_unique<ErrorKeeper>(reported));
  Module module("rlx", context);
  module.setTargetTriple(Triple(kTriple));
  module.setDataLayout(backend.createDataLayout());
  module.setPICLevel(PICLevel::SmallPIC);
  Emitter emitter(module);
  for (const char *attribute : {"target-cpu", "tune-cpu"})
    emitter.function->addFnAttr(attribute, name.cpu);
  emitter.function->addFnAttr("target-features", name.features);
  emitter.hasAVX512 = backend.getMCSubtargetInfo()->checkFeatures("+avx512f");
  if (Status emitted = emitFamily(emitter, spec); !emitted)
    return emitted.takeError();
  raw_string_ostream messageStream(message);
  if (verifyModule(module, &messageStream))
    return Error{ErrorCode::Internal, "kernel builder made invalid IR: " + message};
  if (options.emittedIR) {
    raw_string_ostream os(*options.emittedIR);
    module.print(os, nullptr);
  }
  if (Status audit = auditModule(module, kKernelEntry); !audit)
    return audit.takeError();
  watch.lap("emit");

  optimize(module, *emitter.function, backend);
  if (options.optimizedIR) {
    raw_string_ostream os(*options.optimizedIR);
    module.print(os, nullptr);
  }
  watch.lap("optimize");

  auto generate = [&](Module &from, CodeGenFileType type, SmallVectorImpl<char> &out) -> bool {
    raw_svector_ostream os(out);
    LeanPasses codegen;
    if (backend.addPassesToEmitFile(codegen, os, nullptr, type, /*DisableVerify=*/true))
      return false;
    codegen.run(from);
    return true;
  };
  SmallVector<char, 0> object;
  if (options.assembly) {
    // From a copy, because the code generator changes what it is given.
    std::unique_ptr<Module> copy = CloneModule(module);
    if (generate(*copy, CodeGenFileType::AssemblyFile, object))
      options.assembly->assign(object.data(), object.size());
    object.clear();
  }
  if (!generate(module, CodeGenFileType::ObjectFile, object))
    return Error{ErrorCode::Internal, "the code generator cannot write objects"};
  if (!reported.empty())
    return Error{ErrorCode::Internal, "the code generator: " + reported};
  watch.lap("codegen");

  Result<data::KernelImageT> image = linkImage({object.data(), object.size()}, kKernelEntry);
  if (!image)
    return image.takeError();
  image->spec = serializeSpec(spec);
  image->target = spec.target;
  watch.lap("link");
  return image;
}

} // namespace rlx
