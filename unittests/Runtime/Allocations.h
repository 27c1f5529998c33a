//===- Allocations.h - counts what a thread allocates -----------*- C++ -*-===//
#ifndef RLX_UNITTESTS_RUNTIME_ALLOCATIONS_H
#define RLX_UNITTESTS_RUNTIME_ALLOCATIONS_H

#include <cstddef>

namespace rlx::fakes {

/// Calls of malloc and its kin, operator new among them, by this thread.
size_t allocations();
/// By all threads.
size_t allocationsOfAll();
/// Whether aligned_alloc() counts too: the thread sanitizer does not tell of it.
bool countsAligned();

/// Those of `body`.
template <typename Body> size_t allocationsOf(const Body &body) {
  size_t before = allocations();
  body();
  return allocations() - before;
}

} // namespace rlx::fakes

#endif // RLX_UNITTESTS_RUNTIME_ALLOCATIONS_H
