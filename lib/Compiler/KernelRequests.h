//===- KernelRequests.h - compiling a batch of kernels ----------*- C++ -*-===//
#ifndef RLX_LIB_COMPILER_KERNELREQUESTS_H
#define RLX_LIB_COMPILER_KERNELREQUESTS_H

#include "rlx/Runtime/Compiler.h"

#include <span>
#include <string>
#include <vector>

namespace rlx::compiler {

/// Compiles specs, side by side where `pool` has threads; the images are in the
/// specs' order, and an error is that of the first spec that has one. `dumpDir`: when not empty, the LLVM IR of each
/// kernel is written there as kernel-<digest of its spec>.ll.
Result<std::vector<data::KernelImageT>> compileKernelBatch(std::span<const data::KernelSpecT> specs, ThreadPool &pool,
                                                           PhaseTimes &times, const std::string &dumpDir);

/// What kernels are compiled for on this machine.
std::string kernelTarget();

} // namespace rlx::compiler

#endif // RLX_LIB_COMPILER_KERNELREQUESTS_H
