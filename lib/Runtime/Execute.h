//===- Execute.h - one run of a specialization ------------------*- C++ -*-===//
#ifndef RLX_LIB_RUNTIME_EXECUTE_H
#define RLX_LIB_RUNTIME_EXECUTE_H

#include "ArenaPool.h"
#include "Bits.h"
#include "Params.h"
#include "rlx/Runtime/Engine.h"
#include "rlx/Runtime/Instantiate.h"
#include "rlx/Runtime/Statistics.h"

#include <atomic>

namespace rlx {

class Crews;

/// What runs of a specialization have in common, found once.
///
/// A run has one block of memory. At its front lies what is the same in every run:
/// the arena, scratch of each thread, and tables of pointers that the run fills in;
/// behind it what only some runs need: outputs that are computed without being asked
/// for, and copies of inputs and outputs.
struct RunLayout {
  /// A pointer argument: what the run has in its table at `slot`, moved on.
  struct Pointer {
    uint32_t slot = 0;
    int64_t offset = 0;
  };
  /// A step as it is called.
  struct Call {
    KernelFn function = nullptr;
    const int64_t *integers = nullptr; ///< of the plan
    int64_t tiles = 0;
    uint32_t firstPointer = 0, pointers = 0; ///< of RunLayout::pointers
    bool shared = false;                     ///< worth sharing between threads
    bool unused = false;                     ///< no output needs it
  };
  struct Buffer {
    uint32_t slot = 0, index = 0; ///< of the signature
  };
  struct Place {
    uint32_t slot = 0;
    int64_t offset = 0;
  };
  /// A buffer of a graph output.
  struct Written {
    uint32_t slot = 0, index = 0;
    /// The output is this buffer, so that it is computed in place where it is asked for.
    bool final = false;
    size_t bytes = 0;
    /// Bit i: a run that asks for output i touches it. Empty: every run does.
    std::vector<uint8_t> touchedBy;
  };
  /// An output that is copied from a buffer in the end.
  struct Copied {
    uint32_t output = 0, slot = 0;
    size_t bytes = 0;
  };

  std::vector<Call> calls; ///< one per step of the plan
  std::vector<Pointer> pointers;
  /// A slot per buffer, one for null and one for the scratch of the run's own thread.
  std::vector<uintptr_t> slots; ///< weights and constants filled in
  std::vector<Buffer> inputs, params;
  std::vector<Place> arena;
  std::vector<Written> written;
  std::vector<Copied> copied;
  std::vector<uint32_t> randomState; ///< slots that read seed and step
  std::vector<int64_t> outputElements;
  unsigned workers = 1; ///< threads that a run can use
  uint32_t mostPointers = 0, mostIntegers = 0;

  // Of the block, in bytes, multiples of 64.
  size_t scratch = 0, scratchBytes = 0; ///< of one thread
  size_t slotsAt = 0, inputsAt = 0, outputsAt = 0, argumentsAt = 0, workersAt = 0;
  size_t bytes = 0;        ///< of the front
  size_t spareOfWhole = 0; ///< of a run that asks for every output
};

/// A specialization that can run: kernels loaded, weights found. Immutable but
/// for what counts its use, which comes first: beside the count of references, so
/// that a hit writes to one line of memory.
struct ReadySpecialization {
  mutable std::atomic<uint64_t> hits{0};
  mutable std::atomic<int64_t> used{0}; ///< when it was found last, or made, as useStamp() counts
  std::shared_ptr<const Specialization> plan;
  std::vector<LoadedKernel> kernels;  ///< one per plan->kernels
  std::vector<int64_t> inputElements; ///< one per input of the signature
  BindingInfo info;                   ///< use apart
  RunLayout layout;
};

/// Lays out what every run of `ready` needs, once all else is there. `fixed`: where weights and constants lie, one per
/// buffer. Error: memory that 64 bits cannot count.
Status layOut(ReadySpecialization &ready, std::span<const void *const> fixed, const ThreadPool &pool);

/// Sums up bytes of a block.
class BlockSize {
public:
  explicit BlockSize(size_t bytes) : bytes(bytes) {}
  /// Where `more` bytes begin, a multiple of 64.
  size_t add(size_t more) {
    size_t at = bytes;
    if (more > SIZE_MAX - (kBufferAlignment - 1) ||
        __builtin_add_overflow(bytes, (more + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment, &bytes))
      overflown = true;
    return at;
  }
  size_t size() const { return bytes; }
  bool tooLarge() const { return overflown; }

private:
  size_t bytes;
  bool overflown = false;
};

/// A run that is being set up.
struct RunFrame {
  const ReadySpecialization &ready;
  const data::ModelSignatureT &signature;
  std::byte *memory;         ///< RunLayout::bytes, and what is added to them
  const Bits &asked;         ///< outputs
  bool whole = false;        ///< all of them
  size_t spareAt = 0;        ///< of `memory`: what reserveSpare() has added
  const ParamValues *params; ///< all set
  uint64_t seed = 0, step = 0;
  std::vector<StepTime> *profile = nullptr; ///< one is added for each step that ran

  /// Values, one per input of the signature, aligned to their elements.
  const void *&input(size_t i) const { return reinterpret_cast<const void **>(memory + ready.layout.inputsAt)[i]; }
  /// Where the bytes of an output go, aligned to its elements; for those asked for.
  void *&output(size_t i) const { return reinterpret_cast<void **>(memory + ready.layout.outputsAt)[i]; }
};

/// Adds the bytes of outputs that are computed without being asked for.
void reserveSpare(const RunLayout &layout, const Bits &asked, bool whole, BlockSize &room);

/// Runs the steps that the outputs asked for need, with the help of a crew where steps are
/// shared. Allocates nothing, but where no such crew is idle. Errors, the same with any
/// number of threads: RunFailed, naming the node; a param that does not fit the plan.
Status execute(const RunFrame &run, Crews &crews);

/// The weight layout that a buffer of a plan asks for.
WeightLayout layoutOf(const data::BufferT &buffer);

} // namespace rlx

#endif // RLX_LIB_RUNTIME_EXECUTE_H
