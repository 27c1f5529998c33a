//===- Compiler.h - how the runtime reaches a compiler ----------*- C++ -*-===//
#ifndef RLX_RUNTIME_COMPILER_H
#define RLX_RUNTIME_COMPILER_H

#include "rlx/Data/Plan_generated.h"
#include "rlx/Support/DimExpr.h"
#include "rlx/Support/Result.h"

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace rlx {

class ThreadPool;

/// Milliseconds by phase name, in the order they ran.
using PhaseTimes = std::vector<std::pair<std::string, double>>;

/// Answer to a specialize request. `plan->guards` is the trail of questions in
/// both cases; when a requirement failed, `plan` holds only the trail (its last
/// guard has answer false and required true) and `error` says it for people.
struct SpecializeReply {
  std::unique_ptr<data::PlanTemplateT> plan;
  std::unique_ptr<Error> error;
  PhaseTimes times;
};

/// The compiler as the runtime sees it: plain data in, plain data out. The model
/// is fixed when it is made. Thread safe.
class CompilerInterface {
public:
  virtual ~CompilerInterface() = default;

  /// Makes the plan template that holds at `binding` (every dim of the signature
  /// bound). An Error is a failure of the compiler, not to be remembered; a
  /// failed requirement of the graph is a reply with `error` set.
  virtual Result<SpecializeReply> specialize(const Binding &binding) = 0;

  /// Compiles kernels, one image per spec, in order; side by side where `pool` has
  /// threads for it. Adds the time of each phase to `times`, summed over threads.
  /// An Error is that of the first spec that has one.
  virtual Result<std::vector<data::KernelImageT>> compileKernels(std::span<const data::KernelSpecT> specs,
                                                                 ThreadPool &pool, PhaseTimes &times) = 0;

  /// Goes into every KernelSpec: the machine code is made for.
  virtual std::string target() const = 0;
};

} // namespace rlx

#endif // RLX_RUNTIME_COMPILER_H
