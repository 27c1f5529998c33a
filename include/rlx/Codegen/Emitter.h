//===- Emitter.h - what every kernel builder writes with --------*- C++ -*-===//
//
// An llvm::IRBuilder inside a function with the kernel signature
// (rlx/Data/KernelABI.h), with structured loops, lanes of element types, and
// the error word. Families emit straight into it; there is no level between.
//
//===----------------------------------------------------------------------===//
#ifndef RLX_CODEGEN_EMITTER_H
#define RLX_CODEGEN_EMITTER_H

#include "rlx/Data/ElementType.h"
#include "rlx/Data/KernelABI.h"
#include "rlx/Data/Plan_generated.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Module.h"

namespace rlx {

/// Name of the entry point in every kernel module.
inline constexpr const char *kKernelEntry = "rlx_kernel";

/// Values of one element type, `W` at a time. With W == 1 they are scalars, else
/// <W x T>. In registers I1 is i1, F16 is half, BF16 is i16 (its bits: what only
/// moves keeps every bit), the rest is as in memory.
class Emitter {
public:
  using Value = llvm::Value;
  using Values = llvm::SmallVector<Value *, 8>;

  /// Makes the entry function in `module` and stands at its start.
  explicit Emitter(llvm::Module &module);

  llvm::IRBuilder<> b;
  llvm::Module &module;
  llvm::Function *function;

  /// Whether the target has AVX-512: a vector of 16 floats is one register there.
  bool hasAVX512 = false;

  Value *begin; ///< First tile.
  Value *end;   ///< One past the last tile.

  /// pointers[i], integers[i] of the call; loaded once, in the entry block.
  Value *pointer(unsigned i);
  Value *integer(unsigned i);

  /// Ends the function: returns from where the builder stands.
  void finish();

  // --- constants ---
  llvm::ConstantInt *i64(int64_t value) { return b.getInt64(static_cast<uint64_t>(value)); }
  Value *f32(float value, unsigned W);
  Value *f64(double value, unsigned W);
  /// `bits` of the element, in register form.
  Value *constant(data::ElementType type, uint64_t bits, unsigned W);

  // --- types ---
  /// One lane in registers.
  llvm::Type *laneType(data::ElementType type);
  /// One element in memory.
  llvm::Type *memoryType(data::ElementType type);
  /// `type` itself for W == 1, else <W x type>.
  llvm::Type *lanes(llvm::Type *type, unsigned W);
  llvm::Type *lanes(data::ElementType type, unsigned W) { return lanes(laneType(type), W); }
  Value *splat(Value *scalar, unsigned W);
  /// <0, 1, .., W-1> as i64.
  Value *laneIndices(unsigned W);

  // --- control flow ---
  /// for (iv = lo; iv < hi; iv += step) body(iv). Signed; `step` above zero.
  void forLoop(Value *lo, Value *hi, Value *step, llvm::function_ref<void(Value *iv)> body);
  /// The same with values carried from one turn to the next; gives their last state (`inits` when no turn is taken).
  Values forLoop(Value *lo, Value *hi, Value *step, llvm::ArrayRef<Value *> inits,
                 llvm::function_ref<Values(Value *iv, llvm::ArrayRef<Value *> carried)> body);
  /// while (condition(carried)) carried = body(carried).
  Values whileLoop(llvm::ArrayRef<Value *> inits,
                   llvm::function_ref<Value *(llvm::ArrayRef<Value *> carried)> condition,
                   llvm::function_ref<Values(llvm::ArrayRef<Value *> carried)> body);
  void ifThen(Value *condition, llvm::function_ref<void()> then);
  Values ifThenElse(Value *condition, llvm::function_ref<Values()> then, llvm::function_ref<Values()> otherwise);
  /// condition ? then() : usual, where the condition is rarely true.
  Values ifRarely(Value *condition, llvm::function_ref<Values()> then, llvm::ArrayRef<Value *> usual);
  /// True when any lane of a <W x i1> (or the i1) is.
  Value *any(Value *mask);
  /// Room on the stack, made in the entry block.
  Value *stackArray(llvm::Type *type, uint64_t count, uint64_t alignment = 64);

  // --- memory; `base` points at the operand's element type, offsets and strides are in elements ---
  Value *elementPointer(Value *base, data::ElementType type, Value *offset);
  Value *load(Value *pointer, data::ElementType type, unsigned W);
  void store(Value *pointer, data::ElementType type, Value *value, unsigned W);
  /// As load and store; lanes where `mask` (<W x i1>) is false are not touched, and are zero when loaded.
  Value *maskedLoad(Value *pointer, data::ElementType type, Value *mask, unsigned W);
  void maskedStore(Value *pointer, data::ElementType type, Value *value, Value *mask, unsigned W);
  /// Lane l at pointer + l * stride.
  Value *stridedLoad(Value *pointer, data::ElementType type, Value *stride, unsigned W);
  void stridedStore(Value *pointer, data::ElementType type, Value *value, Value *stride, unsigned W);
  /// Lane l at pointer + offsets[l] (<W x i64>).
  Value *gather(Value *pointer, data::ElementType type, Value *offsets, unsigned W);
  /// One of the three by `mode`. Splat loads one element. `stride` is used by Strided only.
  Value *loadLanes(Value *pointer, data::ElementType type, data::InnerMode mode, Value *stride, unsigned W);
  /// Contiguous or strided store. Splat stores lane 0 (every lane names one element).
  void storeLanes(Value *pointer, data::ElementType type, data::InnerMode mode, Value *stride, Value *value,
                  unsigned W);
  /// Lanes 0 .. count-1 of <W x i1>, for a tail of `count` (i64) elements.
  Value *tailMask(Value *count, unsigned W);

  // --- errors ---
  /// Where any lane of `bad` is true: writes the error word (if it is still clear) for the first such lane and returns
  /// from the kernel. `element` is the row-major position of lane 0 in the iteration space; `value` and `extent` may
  /// be null (0), `value` may be lanes.
  /// Neighbouring lanes are `elementStride` (null: 1) positions apart.
  Value *elementStride = nullptr;
  void failIf(Value *bad, ErrorKind kind, unsigned operand, Value *element, Value *value, Value *extent, unsigned W);

  // --- loops of the step ---
  /// Splits a row-major `index` into one index per extent.
  Values delinearize(Value *index, llvm::ArrayRef<Value *> extents);
  /// sum(indices[i] * integers[first + i]).
  Value *linearOffset(llvm::ArrayRef<Value *> indices, unsigned firstStride);

private:
  llvm::IRBuilder<> entryBuilder();

  llvm::BasicBlock *entry;
  Value *pointersArgument, *integersArgument, *errorArgument;
  llvm::SmallVector<Value *, 16> pointerCache, integerCache;
};

} // namespace rlx

#endif // RLX_CODEGEN_EMITTER_H
