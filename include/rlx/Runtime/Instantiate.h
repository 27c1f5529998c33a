//===- Instantiate.h - plan template and sizes to a plan --------*- C++ -*-===//
//
// Numbers only: no compiler is involved. A template is treated like input: what
// it says is checked before it is used, so that a plan made from it never leaves
// its buffers, whatever the template holds.
//
//===----------------------------------------------------------------------===//
#ifndef RLX_RUNTIME_INSTANTIATE_H
#define RLX_RUNTIME_INSTANTIATE_H

#include "rlx/Data/Plan_generated.h"
#include "rlx/Runtime/Model.h"
#include "rlx/Support/DimExpr.h"
#include "rlx/Support/Result.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace rlx {

/// Part of a list that somebody else owns.
template <typename T> class Part : public std::span<const T> {
public:
  using std::span<const T>::span;
  operator std::vector<T>() const { return {this->begin(), this->end()}; }
  friend bool operator==(const Part &a, const Part &b) { return std::ranges::equal(a, b); }
  friend bool operator==(const Part &a, const std::vector<T> &b) { return std::ranges::equal(a, b); }
};

/// Where a pointer argument of a kernel comes from at run time.
struct PointerSource {
  enum class Kind : uint8_t { Null, Buffer, Scratch };
  Kind kind = Kind::Null;
  uint32_t buffer = 0;    ///< of the template
  int64_t byteOffset = 0; ///< into the buffer
};

/// How a kernel is called and shared.
struct StepCall {
  uint32_t step = 0;   ///< of the template
  uint32_t kernel = 0; ///< of Specialization::kernels
  uint32_t needed = 0; ///< a step of the template that is needed where this one is: the first such
  int64_t tiles = 0;   ///< 1 or more
  /// Threads share the tiles in units of this many neighbours, the last may be
  /// shorter. `tiles`: not worth sharing.
  int64_t unitTiles = 0;
  uint32_t helpers = 0; ///< threads worth waking for it, besides the run's own
  /// A product whose rows threads share, in at most so many groups, each with all
  /// the tiles. 1: none. The rows are the first integer, and pointer i moves on by
  /// rowBytes[i] from one to the next.
  uint32_t rowGroups = 1;
};

/// A step with its numbers: one call of one kernel. Its lists lie in the
/// specialization's.
struct StepInstance : StepCall {
  Part<int64_t> rowBytes;
  Part<PointerSource> pointers;
  Part<int64_t> integers; ///< as KernelABI.h lays them out
  /// Loop extents before dropping and merging, to name an element in messages.
  Part<int64_t> extents;
};

struct BufferInstance {
  int64_t elements = 0;
  int64_t bytes = 0;
  int64_t arenaOffset = 0; ///< Arena: in bytes, a multiple of 64
  data::BufferKind kind = data::BufferKind::Arena;
  uint32_t index = 0; ///< Input, Output: position in the signature
  uint32_t param = 0; ///< Param: position in the signature
};

/// A kernel that a template's steps select; all its bindings have the same one.
struct SelectedKernel {
  data::KernelSpecT spec;
  std::vector<uint8_t> key; ///< `spec`, serialised
  uint32_t number = 0;      ///< among those of the template
};
using SelectedKernels = std::vector<std::shared_ptr<const SelectedKernel>>;

/// What the cache holds for a binding: everything a run needs but the kernels'
/// code and the pointers. Immutable.
struct Specialization {
  Specialization() = default;
  Specialization(const Specialization &) = delete;
  Specialization &operator=(const Specialization &) = delete;

  std::shared_ptr<const data::PlanTemplateT> plan;
  std::vector<BufferInstance> buffers;       ///< one per buffer of the template
  std::vector<StepInstance> steps;           ///< in order; empty ones left out
  SelectedKernels kernels;                   ///< distinct
  std::vector<std::vector<int64_t>> outputs; ///< shapes of the graph outputs
  int64_t arenaBytes = 0;
  int64_t scratchBytes = 0;
  // What `steps` are parts of:
  std::vector<int64_t> numbers;
  std::vector<PointerSource> pointers;
};

/// A template that was checked against a model, and what its bindings have in
/// common: made once, so that a new binding pays only for what is its own. Thread
/// safe.
class CheckedTemplate {
public:
  /// `model` supplies the shapes of inputs, outputs and params and the elements of
  /// weights, and outlives this. `target` goes into every KernelSpec. Errors: a
  /// plan that is not well formed or does not fit the model (InvalidModel).
  static Result<std::shared_ptr<const CheckedTemplate>> create(std::shared_ptr<const data::PlanTemplateT> plan,
                                                               const Model &model, std::string_view target);
  ~CheckedTemplate();

  /// Evaluates the plan at `binding` (every dim of the signature), selects kernels
  /// by number and lays out the arena. Deterministic. Errors: a plan that leaves
  /// its buffers (InvalidModel, naming the step); sizes that overflow (OutOfRange)
  /// or cannot be broadcast (InvalidArgument).
  Result<std::shared_ptr<const Specialization>> instantiate(const Binding &binding) const;

  /// Of memory that it takes, without the plan. Grows with what bindings select.
  size_t bytes() const;

private:
  struct Parts;
  explicit CheckedTemplate(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts;
};

/// Checks a template and instantiates it once.
Result<std::shared_ptr<const Specialization>> instantiate(std::shared_ptr<const data::PlanTemplateT> plan,
                                                          const Model &model, const Binding &binding,
                                                          std::string_view target);

/// Every number and name that a run depends on, as bytes: two plans are the same
/// exactly when these are.
std::vector<uint8_t> serialize(const Specialization &specialization);

} // namespace rlx

#endif // RLX_RUNTIME_INSTANTIATE_H
