//===- Operand.h - an operand of a kernel, as its spec says -----*- C++ -*-===//
#ifndef RLX_CODEGEN_OPERAND_H
#define RLX_CODEGEN_OPERAND_H

#include "rlx/Codegen/ElementProgram.h"
#include "rlx/Codegen/Emitter.h"

namespace rlx {

/// Reads or writes one operand (Direct, Iota or Indexed) whose block of arguments is laid out as rlx/Data/KernelABI.h
/// says. One loop is the vector loop, which InnerMode speaks of; what the others fix is computed once, by enter().
class Operand {
public:
  /// Takes its place in the arguments and moves both counters past it. `number` names it in the error word.
  Operand(Emitter &e, const data::AccessSpecT &spec, unsigned number, unsigned loops, unsigned &nextInteger,
          unsigned &nextPointer);

  /// All that does not depend on the vector loop.
  struct Row {
    llvm::Value *pointer = nullptr;                    ///< Element 0 of the vector loop. Iota: its value (i64).
    llvm::Value *splat = nullptr;                      ///< The value of the whole row, where it was preloaded.
    llvm::SmallVector<llvm::Value *, 2> indexPointers; ///< Of index operands that move; null for the others.
    llvm::Value *column = nullptr; ///< Panels: of element 0, where the column moves; else `pointer` has it.
  };

  /// `indices` has one entry per loop, ignored at `vectorLoop`. `element` is the row-major position of the row's first
  /// iteration point. An index that stays the same over the row is checked here (and returns from the kernel if bad).
  /// `preload` (an input whose row is known not to be empty): a value that stays the same is loaded here too.
  Row enter(llvm::ArrayRef<llvm::Value *> indices, unsigned vectorLoop, llvm::Value *element, bool preload = false);

  /// Lanes i .. i + W - 1 of the vector loop; `element` is the position of the first.
  Lanes load(const Row &row, llvm::Value *i, llvm::Value *element, unsigned W);

  /// Writes lanes (of the operand's own type).
  void store(const Row &row, llvm::Value *i, llvm::Value *element, llvm::Value *value, unsigned W);

  /// Whether a few of the lanes can be loaded and stored under a mask.
  bool isMaskable() const;
  /// Whether every lane is one element, known as soon as the row is entered.
  bool isSplat() const { return spec.kind == data::AccessKind::Direct && spec.inner == data::InnerMode::Splat; }
  /// Of an operand that is one of the two; there is at least one lane. Those that `mask` leaves out are zero.
  llvm::Value *loadMasked(const Row &row, llvm::Value *i, llvm::Value *mask, unsigned W);
  void storeMasked(const Row &row, llvm::Value *i, llvm::Value *value, llvm::Value *mask, unsigned W);

  /// Reads, combines, writes. Lanes name different elements.
  void update(const Row &row, llvm::Value *i, llvm::Value *element, data::Combine combine, llvm::Value *value,
              unsigned W);

  /// W elements on the stack, for rows that are shorter than the lanes.
  llvm::Value *room(unsigned W);

  data::ElementType type() const { return spec.type; }
  bool isIndexed() const { return spec.kind == data::AccessKind::Indexed; }
  /// Of a loop of the nest, in elements.
  llvm::Value *stride(unsigned loop) { return e.integer(firstStride + loop); }
  /// Element i of a row of a direct operand.
  llvm::Value *pointerAt(const Row &row, llvm::Value *i) { return lanePointer(row, i); }
  /// Whether some index operand changes along the vector loop.
  bool hasMovingIndex() const;

private:
  /// Index operand k, once it is known to be one of the axis, counted from its start.
  llvm::Value *checkedIndex(unsigned k, llvm::Value *index, llvm::Value *element, unsigned W);
  llvm::Value *axisOffset(unsigned k, llvm::Value *index, unsigned W) {
    return e.b.CreateMul(index, e.splat(e.integer(indexInteger(k) + loops + 1), W));
  }
  /// Whether lanes lie wherever indices or panels put them.
  bool isGathered() const { return hasMovingIndex() || (spec.panels && spec.column_inner != data::InnerMode::Splat); }
  llvm::Value *axisColumn(unsigned k, llvm::Value *index, unsigned W) {
    return e.b.CreateMul(index, e.splat(e.integer(columnInteger() + 2 + loops + k), W));
  }
  /// What a column adds to the place of its row in panel 0.
  llvm::Value *panelOffset(llvm::Value *column, unsigned W);
  /// Element offsets of lanes (i64 lanes) from row.pointer; only where they are gathered.
  llvm::Value *laneOffsets(const Row &row, llvm::Value *i, llvm::Value *element, unsigned W);
  llvm::Value *lanePointer(const Row &row, llvm::Value *i);
  llvm::Value *vectorStride() { return e.integer(firstStride + vectorLoop); }
  unsigned indexInteger(unsigned k) const { return firstStride + loops + k * (loops + 2); }
  unsigned columnInteger() const { return indexInteger(static_cast<unsigned>(spec.index_inner.size())); }

  Emitter &e;
  const data::AccessSpecT &spec;
  unsigned number, loops;
  unsigned firstStride; ///< Where strides begin in the integers.
  unsigned firstPointer;
  unsigned vectorLoop = 0;
  llvm::Value *stack = nullptr;
};

/// Part of the vector loop: lanes i .. i + W - 1, of which the first `count` exist. `full` (i1) says whether that is
/// all of them; null for `full` says that it always is.
struct Block {
  llvm::Value *i;
  llvm::Value *element; ///< Position of lane 0 in the iteration space.
  unsigned W;
  llvm::Value *full = nullptr;
  llvm::Value *count = nullptr;

  /// Lanes that exist as <W x i1>, null when all do always.
  llvm::Value *active(Emitter &e) const;
};

/// Loads a block of each operand. Lanes that do not exist are zero: a short block comes under a mask or element by
/// element through the stack, so that what follows exists once, for whole vectors.
void loadBlock(Emitter &e, llvm::MutableArrayRef<Operand> operands, llvm::ArrayRef<Operand::Row> rows,
               const Block &block, llvm::SmallVectorImpl<Lanes> &values);

/// Stores a block to each operand, combining with what is there.
void storeBlock(Emitter &e, llvm::MutableArrayRef<Operand> operands, llvm::ArrayRef<Operand::Row> rows,
                const Block &block, data::Combine combine, llvm::ArrayRef<llvm::Value *> values);

/// Integers that an operand's block takes.
unsigned operandIntegers(const data::AccessSpecT &spec, unsigned loops);
/// Pointers that an operand takes.
unsigned operandPointers(const data::AccessSpecT &spec);

/// Combines an old and a new element as a scatter does; in the type's own arithmetic.
llvm::Value *emitCombine(Emitter &e, data::Combine combine, llvm::Value *old, llvm::Value *value,
                         data::ElementType type, unsigned W);

} // namespace rlx

#endif // RLX_CODEGEN_OPERAND_H
