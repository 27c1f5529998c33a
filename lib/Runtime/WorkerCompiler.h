//===- WorkerCompiler.h - the compiler in other processes -------*- C++ -*-===//
#ifndef RLX_LIB_RUNTIME_WORKERCOMPILER_H
#define RLX_LIB_RUNTIME_WORKERCOMPILER_H

#include "rlx/Runtime/CompilerLibrary.h"
#include "rlx/Runtime/Engine.h"

namespace rlx {

/// Reads models in worker processes that compile with `threads` threads each. No
/// process is started before there is something to do.
std::shared_ptr<CompilerSource> makeWorkerSource(const WorkerOptions &options, unsigned threads);

} // namespace rlx

#endif // RLX_LIB_RUNTIME_WORKERCOMPILER_H
