//===- Select.h - one step: from expressions to a kernel call ---*- C++ -*-===//
//
// A selector per kernel family. Each evaluates the step's accesses, checks them,
// drops unit loops and merges neighbours by number, and writes the KernelSpec and
// the arguments that include/rlx/Data/KernelABI.h describes.
//
//===----------------------------------------------------------------------===//
#ifndef RLX_LIB_RUNTIME_SELECT_H
#define RLX_LIB_RUNTIME_SELECT_H

#include "rlx/Data/ElementType.h"
#include "rlx/Data/KernelABI.h"
#include "rlx/Runtime/Instantiate.h"

#include <span>
#include <string>

/// A namespace of their own: the emitters of lib/Codegen speak of operands too.
namespace rlx::select {

/// Who supplies the indices of an Indexed operand.
struct StepIndexOperand {
  uint32_t buffer = 0;
  data::ElementType type = data::ElementType::I64;
  int64_t offset = 0;
  std::vector<int64_t> strides;
  int64_t extent = 0, axisStride = 0;
  int64_t axisColumn = 0; ///< panels
};

/// An access with its numbers. A broadcast loop has stride 0; the stride of a
/// loop of extent 1 is whatever the expression gave (it is never applied, but it
/// keeps the kernel variant the one that larger extents have).
struct StepOperand {
  data::AccessKind kind = data::AccessKind::Direct;
  data::ElementType type = data::ElementType::F32;
  uint32_t buffer = 0;
  int64_t offset = 0;
  std::vector<int64_t> strides;
  std::vector<StepIndexOperand> indices;
  /// Reads a packed weight: what is above names rows of its matrix, the following in the same way its columns. Once
  /// its window is checked, `offset` and strides are in elements of panel 0.
  bool panels = false;
  int64_t column = 0, panelStride = 0;
  std::vector<int64_t> columnStrides;
};

/// A loop nest and what it touches.
struct Nest {
  std::vector<int64_t> extents;
  std::vector<StepOperand> operands;

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

/// What the selectors share: the step, its expressions' values, and the checks.
class StepReader {
public:
  StepReader(const data::PlanTemplateT &plan, uint32_t number, std::span<const int64_t> values,
             std::span<const BufferInstance> buffers)
      : plan(plan), step(*plan.steps[number]), number(number), values(values), buffers(buffers) {}

  const data::PlanTemplateT &plan;
  const data::StepT &step;
  const uint32_t number; ///< of the step

  int64_t value(uint32_t expr) const { return values[expr]; }
  Error error(ErrorCode code, const std::string &text) const;
  Error malformed(const std::string &text) const { return error(ErrorCode::InvalidModel, text); }

  /// The step's loop extents. Errors: a negative one, a product that overflows.
  Result<std::vector<int64_t>> extents() const;

  /// The numbers of an access over the first `extents.size()` loops. Errors: the
  /// wrong number of strides, a broadcast that does not fit, an unsuitable
  /// buffer. The window is not yet checked.
  Result<StepOperand> operand(const data::AccessT &access, std::span<const int64_t> extents, bool isOutput);
  /// As operand(), for families that take plain windows only.
  Result<StepOperand> direct(const data::AccessT &access, std::span<const int64_t> extents, bool isOutput);

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
  Status disjoint() const;

  /// Removes from the step's loops [0, end) of `nest`, which are still those of its iteration, the ones that have one
  /// turn at any size, but for one where there is no other (made if there is none). What happens to have one turn
  /// stays: the kernel is then the one that serves other sizes. Where that would cost time it goes too: an innermost
  /// loop of one turn with many around it; those around a row so long that it is work for several threads. Returns the
  /// new end.
  size_t dropConstantUnits(Nest &nest, size_t end) const;

  /// Every value number of `program` refers to an earlier value, and every
  /// enumerator is known.
  Status program(const std::vector<data::Instr> &program, size_t inputs) const;
  Status results(size_t inputs, size_t outputs) const;

private:
  struct Touched {
    uint32_t buffer;
    int64_t low, high; ///< elements, inclusive
    bool isOutput;
  };
  std::span<const int64_t> values;
  std::span<const BufferInstance> buffers;
  std::vector<Touched> touched;

  Status reach(uint32_t buffer, int64_t &offset, std::span<const int64_t> extents, std::span<const int64_t> strides,
               std::span<const StepIndexOperand> indices, bool isOutput);
  Status reachPanels(StepOperand &operand, std::span<const int64_t> extents);
  Status writesOnce(std::span<const int64_t> extents, std::span<const int64_t> strides) const;
};

data::InnerMode innerMode(int64_t stride);
/// Whether an instruction may raise an error: a division of integers.
bool mayFail(const std::vector<data::Instr> &program);
std::unique_ptr<data::AccessSpecT> accessSpecOf(const StepOperand &operand, size_t innerLoop);
/// Appends an operand's block of integers and its pointers.
void appendOperand(const StepOperand &operand, StepInstance &call);
void appendPointer(const StepOperand &operand, StepInstance &call);
void append(std::vector<int64_t> &to, std::span<const int64_t> from);
/// Product of the extents, which is known to fit.
int64_t product(std::span<const int64_t> extents);

/// A selector returns false where the step has nothing to do at these sizes.
using Selected = Result<bool>;
Selected selectLoops(StepReader &reader, data::KernelSpecT &spec, StepInstance &call);
Selected selectReduce(StepReader &reader, data::KernelSpecT &spec, StepInstance &call);
Selected selectRows(StepReader &reader, data::KernelSpecT &spec, StepInstance &call);
/// `scratchBytes` grows to what the step needs.
Selected selectMatmul(StepReader &reader, data::KernelSpecT &spec, StepInstance &call, int64_t &scratchBytes);
/// `scratchBytes` grows to what the step needs.
Selected selectAttention(StepReader &reader, data::KernelSpecT &spec, StepInstance &call, int64_t &scratchBytes);
Selected selectScan(StepReader &reader, data::KernelSpecT &spec, StepInstance &call);

} // namespace rlx::select

#endif // RLX_LIB_RUNTIME_SELECT_H
