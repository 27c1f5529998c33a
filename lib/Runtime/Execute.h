//===- Execute.h - one run of a specialization ------------------*- C++ -*-===//
#ifndef RLX_LIB_RUNTIME_EXECUTE_H
#define RLX_LIB_RUNTIME_EXECUTE_H

#include "ArenaPool.h"
#include "Params.h"
#include "rlx/Runtime/Engine.h"
#include "rlx/Runtime/Instantiate.h"
#include "rlx/Runtime/Statistics.h"

#include <array>
#include <atomic>

namespace rlx {

/// A specialization that can run: kernels loaded, weights found. Immutable but
/// for what counts its use, which comes first: beside the count of references, so
/// that a hit writes to one line of memory.
struct ReadySpecialization {
  mutable std::atomic<uint64_t> hits{0};
  mutable std::atomic<int64_t> used{0}; ///< when it was found last, or made: nanoseconds of the steady clock
  std::shared_ptr<const Specialization> plan;
  std::vector<LoadedKernel> kernels;  ///< one per plan->kernels
  std::vector<const void *> fixed;    ///< one per buffer: weights and constants
  std::vector<int64_t> inputElements; ///< one per input of the signature
  BindingInfo info;                   ///< use apart
};

/// Lays out what every run of `ready` needs, once all else is there. Error: memory
/// that 64 bits cannot count.
Status layOut(ReadySpecialization &ready, const ThreadPool &pool);

/// What a run is given. Every pointer is aligned to its element.
struct RunArguments {
  std::vector<const void *> inputs; ///< one per input of the signature
  ParamValues params;               ///< all set
  uint64_t seed = 0, step = 0;
  /// One per output: where its bytes go, or null where it is not asked for.
  std::vector<void *> outputs;
  std::vector<StepTime> *profile = nullptr; ///< one is added for each step that ran
};

/// Runs the steps that the outputs asked for need, with help from `pool`. Errors,
/// the same with any number of threads: RunFailed, naming the node; no memory; a
/// param that does not fit the plan.
Status execute(const ReadySpecialization &ready, const data::ModelSignatureT &signature, ArenaPool &arenas,
               ThreadPool &pool, const RunArguments &arguments);

/// The weight layout that a buffer of a plan asks for.
WeightLayout layoutOf(const data::BufferT &buffer);

} // namespace rlx

#endif // RLX_LIB_RUNTIME_EXECUTE_H
