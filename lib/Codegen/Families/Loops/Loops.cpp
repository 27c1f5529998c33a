//===- Loops.cpp - elementwise programs over strided operands -------------===//
//
// Elementwise, data movement, gather and scatter: a loop nest whose innermost
// loop runs over lanes. In a row of at least W elements the last vector is moved
// back to end with the row and computes a few elements again, which is harmless
// because no output is an input. A shorter row is one block of fewer lanes. So
// the program stands once in the code.
//
// What may meet an element twice (a scatter that combines, or whose indices
// move along the row) is never repeated, and goes in order.
//
//===----------------------------------------------------------------------===//
#include "rlx/Codegen/Families.h"
#include "rlx/Codegen/Operand.h"

#include "llvm/IR/Intrinsics.h"

using namespace llvm;

namespace rlx {

using data::AccessKind;
using data::Combine;
using data::ElementType;
using data::InnerMode;

namespace {

class LoopsBuilder {
public:
  LoopsBuilder(Emitter &e, const data::KernelSpecT &spec) : e(e), b(e.b), spec(spec), rank(spec.rank) {}

  Status emit() {
    unsigned integer = rank, pointer = 0, number = 0;
    for (const auto *list : {&spec.inputs, &spec.outputs})
      for (const auto &access : *list)
        operands.emplace_back(e, *access, number++, rank, integer, pointer);
    chooseLanes();

    Value *length = e.integer(rank - 1);
    if (rank == 1) {
      Value *lo = e.i64(0), *hi = length;
      if (!scatters) {
        lo = b.CreateMul(e.begin, e.i64(kLoopsBlock));
        hi = b.CreateBinaryIntrinsic(Intrinsic::smin, b.CreateMul(e.end, e.i64(kLoopsBlock)), length);
      }
      row({nullptr}, lo, hi, e.i64(0));
    } else {
      SmallVector<Value *, 8> extents;
      for (unsigned loop = 0; loop + 1 < rank; ++loop)
        extents.push_back(e.integer(loop));
      Value *first = e.begin, *last = e.end;
      if (scatters) { // one tile is the whole nest
        first = e.i64(0);
        last = e.i64(1);
        for (Value *extent : extents)
          last = b.CreateMul(last, extent);
      }
      e.forLoop(first, last, e.i64(1), [&](Value *tile) {
        Emitter::Values indices = e.delinearize(tile, extents);
        indices.push_back(nullptr);
        row(indices, e.i64(0), length, b.CreateMul(tile, length));
      });
    }
    e.finish();
    return Status::ok();
  }

private:
  void chooseLanes() {
    scatters = llvm::any_of(spec.outputs, [](const auto &access) { return access->kind == AccessKind::Indexed; });
    std::vector<ElementType> types;
    auto add = [&](ElementType type) {
      // What only moves needs no room to compute in.
      types.push_back(spec.program.empty() && elementBytes(type) == 2 ? ElementType::I16 : type);
    };
    for (const auto &access : spec.inputs)
      add(access->type);
    for (const auto &access : spec.outputs)
      add(access->type);
    for (const data::Instr &instr : spec.program)
      add(instr.type());
    needsActive = canFail(spec.program);
    W = laneCount(types);
    // One register of 16 floats where there are such: half as many instructions. Not for what computes in double.
    auto isNarrow = [](ElementType type) { return elementBytes(computeType(type)) <= 4; };
    if (W == 8 && e.hasAVX512 && !spec.program.empty() && llvm::all_of(types, isNarrow) && !usesDoubles(spec.program))
      W = 16;
    if (!scatters)
      return;
    // Lanes of a scatter must name different elements: the row's own.
    for (const Operand &operand : ArrayRef<Operand>(operands).drop_front(spec.inputs.size()))
      if (operand.hasMovingIndex())
        W = 1;
    for (const auto &access : spec.outputs)
      if (access->inner != InnerMode::Contiguous)
        W = 1;
  }

  /// Elements [lo, hi) of the row that `indices` name; `element` is the position of its first.
  void row(ArrayRef<Value *> indices, Value *lo, Value *hi, Value *element) {
    rows.clear();
    for (Operand &operand : operands)
      rows.push_back(operand.enter(indices, rank - 1, element, /*preload=*/rows.size() < spec.inputs.size()));
    if (W == 1) {
      e.forLoop(lo, hi, e.i64(1), [&](Value *i) { point({i, b.CreateAdd(element, i), 1}); });
      return;
    }
    Value *last = b.CreateSub(hi, e.i64(W));
    Value *wide = b.CreateICmpSGE(last, lo);
    e.forLoop(lo, hi, e.i64(W), [&](Value *i) {
      if (scatters) {
        Value *full = b.CreateICmpSLE(i, last);
        point({i, b.CreateAdd(element, i), W, full, b.CreateSub(hi, i)});
        return;
      }
      Value *at = b.CreateBinaryIntrinsic(Intrinsic::smax, b.CreateBinaryIntrinsic(Intrinsic::smin, i, last), lo);
      point({at, b.CreateAdd(element, at), W, wide, b.CreateSub(hi, at)});
    });
  }

  void point(const Block &block) {
    SmallVector<Lanes, 16> values;
    size_t inputs = spec.inputs.size();
    MutableArrayRef<Operand> all(operands);
    ArrayRef<Operand::Row> allRows(rows);
    loadBlock(e, all.take_front(inputs), allRows.take_front(inputs), block, values);
    emitProgram(e, spec.program, values, block.element, block.W, needsActive ? block.active(e) : nullptr);
    Emitter::Values results;
    for (size_t k = 0; k < spec.outputs.size(); ++k)
      results.push_back(emitConvert(e, values[spec.results[k]], spec.outputs[k]->type, block.W));
    storeBlock(e, all.drop_front(inputs), allRows.drop_front(inputs), block, spec.combine, results);
  }

  Emitter &e;
  IRBuilder<> &b;
  const data::KernelSpecT &spec;
  unsigned rank, W = 8;
  bool scatters = false, needsActive = false;
  std::vector<Operand> operands;
  std::vector<Operand::Row> rows;
};

} // namespace

Status emitLoops(Emitter &e, const data::KernelSpecT &spec) { return LoopsBuilder(e, spec).emit(); }

} // namespace rlx
