//===- Families.h - a builder per kernel family -----------------*- C++ -*-===//
#ifndef RLX_CODEGEN_FAMILIES_H
#define RLX_CODEGEN_FAMILIES_H

#include "rlx/Codegen/Emitter.h"
#include "rlx/Support/Result.h"

namespace rlx {

/// Each emits the body of the kernel that `spec` describes, which validateSpec has passed, as rlx/Data/KernelABI.h says
/// for its family. Where one cannot serve a legal spec it names what it cannot do (Unsupported).
Status emitLoops(Emitter &e, const data::KernelSpecT &spec);
Status emitReduce(Emitter &e, const data::KernelSpecT &spec);
Status emitRows(Emitter &e, const data::KernelSpecT &spec);
Status emitMatmul(Emitter &e, const data::KernelSpecT &spec);
Status emitScan(Emitter &e, const data::KernelSpecT &spec);
Status emitAttention(Emitter &e, const data::KernelSpecT &spec);

} // namespace rlx

#endif // RLX_CODEGEN_FAMILIES_H
