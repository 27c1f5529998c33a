//===- Split.h - how a step is shared between threads -----------*- C++ -*-===//
#ifndef RLX_LIB_RUNTIME_SPLIT_H
#define RLX_LIB_RUNTIME_SPLIT_H

#include "rlx/Data/Plan_generated.h"
#include "rlx/Runtime/Instantiate.h"

namespace rlx {

/// Fills in `unitTiles` and `helpers` of a selected step (KernelABI.h says what
/// `call.integers` holds), by a rough count of what its tiles read, write and
/// compute. The same on every machine, so that plans are.
void splitStep(const data::KernelSpecT &spec, StepInstance &call);

/// Pieces that threads take of a step.
inline uint32_t unitsOf(const StepInstance &call) {
  return static_cast<uint32_t>((call.tiles - 1) / call.unitTiles + 1);
}

} // namespace rlx

#endif // RLX_LIB_RUNTIME_SPLIT_H
