//===- HeapBytes.h - how much memory plans take -----------------*- C++ -*-===//
#ifndef RLX_LIB_RUNTIME_HEAPBYTES_H
#define RLX_LIB_RUNTIME_HEAPBYTES_H

#include "rlx/Data/Plan_generated.h"

#include <cstddef>

namespace rlx {

struct ReadySpecialization;

/// Bytes that an object and all that it owns takes, as the allocator was asked for
/// them. What is shared, as the template of a specialization and the code of its
/// kernels, is left out.
size_t heapBytes(const data::PlanTemplateT &plan);
size_t heapBytes(const data::KernelSpecT &spec);
size_t heapBytes(const ReadySpecialization &ready);

} // namespace rlx

#endif // RLX_LIB_RUNTIME_HEAPBYTES_H
