//===- Select.h - one step: from expressions to a kernel call ---*- C++ -*-===//
//
// A selector per kernel family. Each evaluates the step's accesses, checks them,
// drops unit loops and merges neighbours by number, and writes what that decides of
// the KernelSpec and the arguments that include/rlx/Data/KernelABI.h describes.
//
//===----------------------------------------------------------------------===//
#ifndef RLX_LIB_RUNTIME_SELECT_H
#define RLX_LIB_RUNTIME_SELECT_H

#include "rlx/Data/ElementType.h"
#include "rlx/Data/KernelABI.h"
#include "rlx/Runtime/Instantiate.h"

#include <memory_resource>
#include <span>
#include <string>

/// A namespace of their own: the emitters of lib/Codegen speak of operands too.
namespace rlx::select {

/// A template's accesses and steps as selectors read them: checked, without what no number depends on, and side by
/// side, so that they are read fast right after a run has filled the caches with its own data. Numbers of expressions
/// are those of the plan; lists begin at the place given in the list named.
struct AccessForm {
  data::AccessKind kind = data::AccessKind::Direct;
  data::ElementType type = data::ElementType::F32;
  bool panels = false;
  uint32_t rank = 0, buffer = 0, offset = 0, column = 0;
  uint32_t strides = 0; ///< of exprs
  /// Of exprs, where some loop may broadcast: the operand's own extent, else kNone.
  uint32_t own = kNone;
  uint32_t columnStrides = 0;           ///< panels: of exprs
  uint32_t indices = 0, indexCount = 0; ///< of indices
  static constexpr uint32_t kNone = UINT32_MAX;
};
struct IndexForm {
  AccessForm access;
  uint32_t extent = 0, stride = 0, column = 0;
};
struct StepForm {
  data::Family family = data::Family::Loops;
  data::ElementType accumulator = data::ElementType::F32;
  uint8_t reduced = 0;
  bool reduceInner = false, bPacked = false;
  bool mayFail = false;                           ///< its program may raise an error
  uint32_t needed = 0;                            ///< the first step with the same list of outputs that need it
  uint32_t loops = 0, loopCount = 0;              ///< of exprs
  uint32_t accesses = 0, inputs = 0, outputs = 0; ///< of accesses; how many
  uint32_t k = 0, aStride = 0, bStride = 0, d = 0, vStride = 0, outputStride = 0;
  double epsilon = 0;
};
struct BufferForm {
  data::BufferKind kind = data::BufferKind::Arena;
  data::ElementType type = data::ElementType::F32;
  data::PackedLayout layout = data::PackedLayout::Strided;
  uint32_t index = 0, elements = 0, firstStep = 0, lastStep = 0;
  int64_t k = 0, n = 0;
  size_t constantBytes = 0;
};
struct PlanForm {
  std::vector<StepForm> steps;
  std::vector<BufferForm> buffers;
  std::vector<AccessForm> accesses;
  std::vector<IndexForm> indices;
  std::vector<uint32_t> exprs;
  int64_t packedBytes = 0; ///< of the weights that products read whole; INT64_MAX where that is no number

  size_t bytes() const;
};

/// Checks of each step what does not depend on sizes. Numbers of expressions and buffers and enumerators of accesses
/// and buffers are known to be good. Errors: InvalidModel, naming the step.
Status checkSteps(const data::PlanTemplateT &plan);
/// Of a plan that was checked.
PlanForm formOf(const data::PlanTemplateT &plan);

/// Lists of one step while it is selected: their memory is given back all at once.
using Numbers = std::pmr::vector<int64_t>;

/// Who supplies the indices of an Indexed operand.
struct StepIndexOperand {
  uint32_t buffer = 0;
  data::ElementType type = data::ElementType::I64;
  int64_t offset = 0;
  Numbers strides;
  int64_t extent = 0, axisStride = 0;
  int64_t axisColumn = 0; ///< panels
};

/// An access with its numbers. A broadcast loop has stride 0; the stride of a
/// loop of extent 1 is whatever the expression gave (it is never applied, but it
/// keeps the kernel variant the one that larger extents have).
struct StepOperand {
  explicit StepOperand(std::pmr::memory_resource *memory) : strides(memory), indices(memory), columnStrides(memory) {}

  data::AccessKind kind = data::AccessKind::Direct;
  data::ElementType type = data::ElementType::F32;
  uint32_t buffer = 0;
  int64_t offset = 0;
  Numbers strides;
  std::pmr::vector<StepIndexOperand> indices;
  /// Reads a packed weight: what is above names rows of its matrix, the following in the same way its columns. Once
  /// its window is checked, `offset` and strides are in elements of panel 0.
  bool panels = false;
  int64_t column = 0, panelStride = 0;
  Numbers columnStrides;
};

/// What sizes decide of a kernel's spec. All else is the step's.
struct SpecChoice {
  uint8_t rank = 0, reduced = 0, batchRank = 0, rowClass = 0;
  data::InnerMode aInner = data::InnerMode::Contiguous;
  bool operator==(const SpecChoice &) const = default;
};
/// How each operand of the spec moves, inputs first: along the vector loop, then of its columns where it reads panels,
/// then of its indices. As many for a step at any sizes.
using OperandModes = std::span<const data::InnerMode>;
/// The spec but for target and revision.
data::KernelSpecT specOf(const data::StepT &step, const SpecChoice &choice, OperandModes modes);
/// How many modes the step has.
size_t modesOf(const data::StepT &step);

/// A step that is being selected. The lists keep their memory for the next.
struct StepDraft : StepCall {
  std::vector<int64_t> rowBytes, integers, extents;
  std::vector<PointerSource> pointers;
  SpecChoice choice;
  std::vector<data::InnerMode> modes;

  void clear();
};

/// A loop nest and what it touches.
struct Nest {
  explicit Nest(std::pmr::memory_resource *memory) : extents(memory), operands(memory) {}

  Numbers extents;
  std::pmr::vector<StepOperand> operands;

  /// Removes loops of extent 1 from [begin, end) but leaves `keep` (0 or 1) of
  /// them: the last, or a new one with stride 1 where there is none. Returns the
  /// new end.
  size_t dropUnits(size_t begin, size_t end, size_t keep);
  /// Merges neighbours of [begin, end) where every operand allows it: the outer
  /// stride is the inner stride times the inner extent. Returns the new end.
  size_t merge(size_t begin, size_t end);
  /// True when loop `i` can be merged into loop `i + 1`.
  bool mergeable(size_t i) const;
  void mergeInto(size_t i); ///< loop i into i + 1
  void erase(size_t i);
  /// Puts loop `from` at `to`, further in; those between move one out.
  void moveLoop(size_t from, size_t to);
  /// For kernels that work along the last loop, on operand 0 and into operand 1: where their rows lie side by side,
  /// puts the loop along which they do before the last. There the kernel looks for it, and takes several at a time.
  void placeRowsSideBySide();
  void insertUnit(size_t i);

private:
  template <typename Fn> void eachStrides(Fn fn);
  template <typename Fn> bool allStrides(Fn fn) const;
};

/// What the selectors share: the step, its expressions' values, and the checks of numbers.
class StepReader {
public:
  /// Lists lie in `memory`.
  StepReader(const data::PlanTemplateT &plan, const PlanForm &form, uint32_t number, std::span<const int64_t> values,
             std::span<const BufferInstance> buffers, std::pmr::memory_resource *memory)
      : plan(plan), form(form), step(form.steps[number]), number(number), memory(memory), values(values),
        buffers(buffers), touched(memory) {}

  const data::PlanTemplateT &plan;
  const PlanForm &form;
  const StepForm &step;
  const uint32_t number; ///< of the step
  std::pmr::memory_resource *const memory;

  int64_t value(uint32_t expr) const { return values[expr]; }
  std::span<const uint32_t> iteration() const { return exprs(step.loops, step.loopCount); }
  const AccessForm &input(size_t i) const { return form.accesses[step.accesses + i]; }
  const AccessForm &output(size_t i) const { return input(step.inputs + i); }
  std::span<const uint32_t> exprs(uint32_t first, size_t count) const {
    return std::span(form.exprs).subspan(first, count);
  }
  Error error(ErrorCode code, const std::string &text) const;
  Error malformed(const std::string &text) const { return error(ErrorCode::InvalidModel, text); }

  /// The step's loop extents. Errors: a negative one, a product that overflows.
  Result<Numbers> extents() const;

  /// The numbers of an access over the first `extents.size()` loops. Errors: a broadcast that does not fit. The window
  /// is not yet checked.
  Result<StepOperand> operand(const AccessForm &access, std::span<const int64_t> extents) const;

  /// Checks that everything the operand can reach over a nest of these extents
  /// lies in its buffers (strides as long as extents), and remembers it. Of a plain
  /// output each point of the nest must have an element of its own.
  Status window(StepOperand &operand, std::span<const int64_t> extents, std::span<const int64_t> strides,
                bool isOutput);
  Status window(StepOperand &operand, std::span<const int64_t> extents, bool isOutput) {
    return window(operand, extents, operand.strides, isOutput);
  }
  /// Adds the step's inputs from `first` on to the nest, whose extents are the step's, with their windows checked.
  Status readInputs(Nest &nest, size_t first);
  /// After all windows: outputs overlap no input and no other output.
  Status disjoint();

  /// Removes from the step's loops [0, end) of `nest`, which are still those of its iteration, the ones that have one
  /// turn at any size, but for one where there is no other (made if there is none). What happens to have one turn
  /// stays: the kernel is then the one that serves other sizes. Where that would cost time it goes too: an innermost
  /// loop of one turn with many around it; those around a row so long that it is work for several threads. Returns the
  /// new end.
  size_t dropConstantUnits(Nest &nest, size_t end) const;

private:
  struct Touched {
    uint32_t buffer;
    int64_t low, high; ///< elements, inclusive
    bool isOutput;
  };
  std::span<const int64_t> values;
  std::span<const BufferInstance> buffers;
  std::pmr::vector<Touched> touched;

  Status reach(uint32_t buffer, int64_t &offset, std::span<const int64_t> extents, std::span<const int64_t> strides,
               std::span<const StepIndexOperand> indices, bool isOutput);
  Status reachPanels(StepOperand &operand, std::span<const int64_t> extents);
  Status writesOnce(std::span<const int64_t> extents, std::span<const int64_t> strides) const;
};

data::InnerMode innerMode(int64_t stride);
/// Appends how an operand moves along a loop.
void appendModes(const StepOperand &operand, size_t loop, StepDraft &call);
/// Appends an operand's block of integers and its pointers.
void appendOperand(const StepOperand &operand, StepDraft &call);
void appendPointer(const StepOperand &operand, StepDraft &call);
void append(std::vector<int64_t> &to, std::span<const int64_t> from);
/// Product of the extents, which is known to fit.
int64_t product(std::span<const int64_t> extents);

/// A selector returns false where the step has nothing to do at these sizes.
using Selected = Result<bool>;
Selected selectLoops(StepReader &reader, StepDraft &call);
Selected selectReduce(StepReader &reader, StepDraft &call);
Selected selectRows(StepReader &reader, StepDraft &call);
/// `scratchBytes` grows to what the step needs.
Selected selectMatmul(StepReader &reader, StepDraft &call, int64_t &scratchBytes);
/// `scratchBytes` grows to what the step needs.
Selected selectAttention(StepReader &reader, StepDraft &call, int64_t &scratchBytes);
Selected selectScan(StepReader &reader, StepDraft &call);

} // namespace rlx::select

#endif // RLX_LIB_RUNTIME_SELECT_H
