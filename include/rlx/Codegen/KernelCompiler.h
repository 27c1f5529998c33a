//===- KernelCompiler.h - from a kernel spec to machine code ----*- C++ -*-===//
#ifndef RLX_CODEGEN_KERNELCOMPILER_H
#define RLX_CODEGEN_KERNELCOMPILER_H

#include "rlx/Data/KernelABI.h"
#include "rlx/Data/Plan_generated.h"
#include "rlx/Support/Result.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace rlx {

/// Milliseconds by phase, in the order they ran.
using KernelPhaseTimes = std::vector<std::pair<std::string, double>>;

struct KernelCompilerOptions {
  /// Adds each phase's time: to the entry of that name where there is one. Phases: emit, optimize, codegen, link.
  KernelPhaseTimes *times = nullptr;
  /// When set, receives the LLVM IR as emitted / as given to the code generator, and the assembly.
  std::string *emittedIR = nullptr;
  std::string *optimizedIR = nullptr;
  std::string *assembly = nullptr;
};

/// Compiles kernels one after another, and keeps between them what depends on the target alone. For one thread at a
/// time; different compilers work beside each other.
class KernelCompiler {
public:
  KernelCompiler();
  ~KernelCompiler();
  KernelCompiler(KernelCompiler &&) noexcept;

  /// A pure function of the spec (and of `revision` of this build): equal specs give equal bytes, whatever was compiled
  /// before. Errors: InvalidArgument for a spec that is malformed or for another target, Unsupported for what no family
  /// does, Internal for a bug of ours.
  Result<data::KernelImageT> compile(const data::KernelSpecT &spec, const KernelCompilerOptions &options = {});

private:
  struct Machine;
  std::unique_ptr<Machine> machine;
};

/// Compiles one kernel with a compiler of its own. Thread safe.
Result<data::KernelImageT> compileKernel(const data::KernelSpecT &spec, const KernelCompilerOptions &options = {});

/// Checks everything a spec must have before a family sees it: counts, value numbers, types. compileKernel calls it.
Status validateSpec(const data::KernelSpecT &spec);

/// What KernelSpec.target is on this machine: "x86_64:<cpu>:<features that differ from the cpu's own>".
/// Thread safe; found once.
const std::string &hostTarget();

} // namespace rlx

#endif // RLX_CODEGEN_KERNELCOMPILER_H
