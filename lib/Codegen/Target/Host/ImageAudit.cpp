//===- ImageAudit.cpp - what IR must not hold to become an image ----------===//
#include "rlx/Codegen/Image.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/IR/GlobalAlias.h"
#include "llvm/IR/GlobalIFunc.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/InstrTypes.h"
#include "llvm/IR/Module.h"

using namespace llvm;

namespace rlx {

static Error refuse(const Twine &what, const GlobalValue &value) {
  return Error{ErrorCode::Internal, ("kernel image: " + what + " '" + value.getName() + "'").str()};
}

static Status auditVariable(const GlobalVariable &variable) {
  // llvm.global_ctors, llvm.used and their kin.
  if (variable.hasAppendingLinkage() || variable.getName().starts_with("llvm."))
    return refuse("constructors or compiler lists", variable);
  if (variable.isThreadLocal())
    return refuse("thread-local variable", variable);
  if (!variable.hasInitializer() || variable.hasExternalWeakLinkage())
    return refuse("external variable", variable);
  if (!variable.isConstant())
    return refuse("mutable variable", variable);
  // An address in a constant is a relocation that only the loader could apply.
  if (variable.getInitializer()->needsDynamicRelocation())
    return refuse("address held by constant", variable);
  return Status::ok();
}

/// Instructions and labels: no directive that would open a section or make a symbol. (What names a symbol of others is
/// an import, which the link refuses.)
static bool isPlainAssembly(StringRef text) {
  SmallVector<StringRef, 64> lines;
  text.split(lines, '\n');
  return llvm::all_of(lines, [](StringRef line) {
    line = line.ltrim("0123456789: \t");
    return !line.contains(';') && (!line.starts_with(".") || line.starts_with(".p2align "));
  });
}

static Status auditFunction(const Function &function) {
  if (function.isDeclaration()) {
    if (function.isIntrinsic())
      return Status::ok();
    return refuse("external function", function);
  }
  for (const Instruction &instruction : instructions(function)) {
    const auto *call = dyn_cast<CallBase>(&instruction);
    if (!call)
      continue;
    if (const auto *assembly = dyn_cast<InlineAsm>(call->getCalledOperand())) {
      if (!isPlainAssembly(assembly->getAsmString()))
        return refuse("directive in assembly in", function);
      continue;
    }
    if (!call->getCalledFunction())
      return refuse("call through a pointer in", function);
  }
  return Status::ok();
}

Status auditModule(const Module &module, std::string_view entry) {
  for (const GlobalVariable &variable : module.globals())
    if (Status status = auditVariable(variable); !status)
      return status;
  for (const GlobalIFunc &ifunc : module.ifuncs())
    return refuse("ifunc", ifunc);
  for (const GlobalAlias &alias : module.aliases())
    return refuse("alias", alias);
  if (!module.getModuleInlineAsm().empty())
    return Error{ErrorCode::Internal, "kernel image: assembly at module level"};
  for (const Function &function : module)
    if (Status status = auditFunction(function); !status)
      return status;

  const Function *function = module.getFunction(StringRef(entry));
  if (!function || function->isDeclaration())
    return Error{ErrorCode::Internal, "kernel image: no function '" + std::string(entry) + "' in the module"};
  if (function->hasLocalLinkage())
    return refuse("the entry has local linkage:", *function);
  return Status::ok();
}

} // namespace rlx
