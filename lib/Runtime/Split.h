//===- Split.h - how a step is shared between threads -----------*- C++ -*-===//
#ifndef RLX_LIB_RUNTIME_SPLIT_H
#define RLX_LIB_RUNTIME_SPLIT_H

#include "Select.h"

namespace rlx {

/// The most units of a step: enough to keep threads equally busy to the end.
inline constexpr int64_t kMaxUnits = 256;

/// Threads are woken for a run that has at least so much to share: it would be
/// over before they come.
inline constexpr double kWakeNs = 90000;

/// What a kernel does at each of its elements: nanoseconds, by a rough count.
struct ElementCosts {
  double program = 0, epilogue = 0, inputs = 0, outputs = 0;
};
ElementCosts costsOf(const data::KernelSpecT &spec);

/// Fills in how a selected step is shared (KernelABI.h says what
/// `call.integers` holds), by a rough count of what its tiles read, write and
/// compute. The same on every machine, so that plans are.
/// Returns the nanoseconds of that count where the step is shared, else 0.
double splitStep(const data::KernelSpecT &spec, const ElementCosts &costs, select::StepDraft &call);

/// Pieces that threads take of a step.
inline uint32_t unitsOf(const StepCall &call) { return static_cast<uint32_t>((call.tiles - 1) / call.unitTiles + 1); }

} // namespace rlx

#endif // RLX_LIB_RUNTIME_SPLIT_H
