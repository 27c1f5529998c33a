//===- ImageAudit.cpp - what IR must not hold to become an image ----------===//
#include "rlx/Codegen/Image.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
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

/// An alignment, or an instruction of registers, numbers and memory that registers name, either behind a label that is
/// a number. Nothing that opens a section, makes or names a symbol, calls, returns, pushes or pops.
static bool isPlainAssembly(StringRef line) {
  constexpr StringRef kBlanks = " \t";
  line = line.trim(kBlanks);
  StringRef digits = line.take_while(isDigit);
  if (!digits.empty() && line.substr(digits.size()).starts_with(":"))
    line = line.substr(digits.size() + 1).ltrim(kBlanks);
  if (line.consume_front(".p2align "))
    return !line.empty() && llvm::all_of(line, isDigit);
  StringRef name = line.take_while(isAlnum), operands = line.substr(name.size());
  static constexpr StringRef kOthers[] = {"call",  "callq", "enter", "int",     "int3",    "leave", "leaveq",
                                          "pop",   "popf",  "popfq", "popq",    "push",    "pushf", "pushfq",
                                          "pushq", "ret",   "retq",  "syscall", "sysenter"};
  if (is_contained(kOthers, name))
    return false;
  char before = ' ';
  for (size_t i = 0; i < operands.size(); ++i) {
    char c = operands[i];
    // A single $ is what the call's own operands stand for, or a choice of texts.
    if (c == '$' && (++i == operands.size() || operands[i] != '$'))
      return false;
    bool plain = isAlpha(c) ? before == '%' || isAlnum(before) : isDigit(c) || StringRef(" \t$%(){},-").contains(c);
    if (!plain)
      return false;
    before = c;
  }
  return true;
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
      SmallVector<StringRef, 64> lines;
      assembly->getAsmString().split(lines, '\n');
      for (StringRef line : lines)
        if (!isPlainAssembly(line))
          return refuse("assembly '" + line + "' in", function);
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
