//===- Loops.cpp - elementwise programs over strided operands -------------===//
//
// Elementwise, data movement, gather and scatter: a loop nest whose innermost
// loop runs over lanes. In a row of at least W elements the last vector is moved
// back to end with the row and computes a few elements again, which is harmless
// because no output is an input. A shorter row is one block of fewer lanes. So
// the program stands once in the code.
//
// An input whose neighbours in memory are neighbours along the last but one loop
// (a transpose) is read in squares that are turned in registers. Which loop that
// is decides the code that lays out the arguments; the kernel sees it from the
// stride. Elements of a square that ends with a row or column are computed again.
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

    chooseTurn();

    length = e.integer(rank - 1);
    if (rank == 1) {
      Value *lo = e.i64(0), *hi = length;
      if (!scatters) {
        lo = b.CreateMul(e.begin, e.i64(kLoopsBlock));
        hi = least(b.CreateMul(e.end, e.i64(kLoopsBlock)), length);
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
      // Tiles that differ in the last of these loops only go together.
      Value *along = extents.pop_back_val();
      Value *lastRun = b.CreateAdd(b.CreateSDiv(b.CreateSub(last, e.i64(1)), along), e.i64(1));
      e.forLoop(b.CreateSDiv(first, along), lastRun, e.i64(1), [&](Value *run) {
        Value *start = b.CreateMul(run, along);
        rowsOf(extents.empty() ? Emitter::Values() : e.delinearize(run, extents), start,
               most(b.CreateSub(first, start), e.i64(0)), least(b.CreateSub(last, start), along));
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
    W = laneCount(e, types, spec.program);
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

  /// Which inputs may lie turned, and in what squares they are read.
  void chooseTurn() {
    if (rank < 2 || scatters || needsActive)
      return;
    int64_t widest = 1;
    for (const Operand &operand : operands) {
      if (operand.isIndexed())
        return;
      widest = std::max(widest, elementBytes(computeType(operand.type())));
    }
    for (const data::Instr &instr : spec.program)
      widest = std::max(widest, elementBytes(computeType(instr.type())));
    for (unsigned k = 0; k < spec.inputs.size(); ++k)
      if (spec.inputs[k]->kind == AccessKind::Direct && spec.inputs[k]->inner == InnerMode::Strided)
        turned.push_back(k);
    // A long program is not written twice, and squares wait on the stack.
    if (spec.program.size() > kLongestTurned || turned.size() > kMostTurned)
      turned.clear();
    // As many vectors as lanes, in half of the registers. Columns: of a cache line where there are so many.
    unsigned bytes = static_cast<unsigned>(widest);
    side = bytes == 1 ? 16 : bytes == 2 ? (e.hasAVX512 ? 16 : 8) : (e.hasAVX512 ? 64 : 32) / bytes;
    height = bytes == 8 ? 8 : 16;
  }

  /// Rows [lo, hi) of the last but one loop; `start` is the position of row 0 in rows.
  void rowsOf(ArrayRef<Value *> outer, Value *start, Value *lo, Value *hi) {
    auto inTurn = [&] {
      e.forLoop(lo, hi, e.i64(1), [&](Value *at) {
        Emitter::Values indices(outer);
        indices.append({at, nullptr});
        row(indices, e.i64(0), length, b.CreateMul(b.CreateAdd(start, at), length));
      });
    };
    if (turned.empty())
      return inTurn();
    Value *fits =
        b.CreateAnd(b.CreateICmpSGE(length, e.i64(side)), b.CreateICmpSGE(b.CreateSub(hi, lo), e.i64(height)));
    for (unsigned k : turned)
      fits = b.CreateAnd(fits, b.CreateICmpEQ(operands[k].stride(rank - 2), e.i64(1)));
    e.ifThenElse(
        fits,
        [&] {
          squares(outer, start, lo, hi);
          return Emitter::Values();
        },
        [&] {
          inTurn();
          return Emitter::Values();
        });
  }

  /// The same, in blocks of `height` rows by `side` elements.
  void squares(ArrayRef<Value *> outer, Value *start, Value *lo, Value *hi) {
    bool isCopy = spec.program.empty() && operands.size() == 2 && spec.outputs[0]->type == spec.inputs[0]->type &&
                  spec.outputs[0]->inner == InnerMode::Contiguous;
    SmallVector<Value *, 4> tiles(operands.size());
    for (unsigned k : turned)
      if (!isCopy)
        tiles[k] = e.stackArray(e.memoryType(operands[k].type()), height * side);
    // In bands, so that few pages are in use and the lines after those just read are read soon.
    e.forLoop(e.i64(0), length, e.i64(kBand), [&](Value *band) {
      Value *bandEnd = least(b.CreateAdd(band, e.i64(kBand)), length);
      e.forLoop(lo, hi, e.i64(height), [&](Value *i) {
        Value *top = least(i, b.CreateSub(hi, e.i64(height)));
        auto rowAt = [&](Operand &operand, Value *at, Value *element, bool preload) {
          Emitter::Values indices(outer);
          indices.append({at, nullptr});
          return operand.enter(indices, rank - 1, element, preload);
        };
        SmallVector<Operand::Row, 4> tops(operands.size());
        for (unsigned k : turned)
          tops[k] = rowAt(operands[k], top, nullptr, false);
        Operand::Row out;
        if (isCopy)
          out = rowAt(operands.back(), top, nullptr, false);
        e.forLoop(band, bandEnd, e.i64(side), [&](Value *j) {
          Value *left = least(j, b.CreateSub(length, e.i64(side)));
          for (unsigned k : turned) {
            ElementType type = operands[k].type();
            Value *from = operands[k].pointerAt(tops[k], left);
            e.forLoop(e.i64(0), e.i64(height), e.i64(side), [&](Value *column) {
              Emitter::Values square = loadSquare(operands[k], b.CreateGEP(e.memoryType(type), from, column));
              Value *to = isCopy ? e.elementPointer(operands.back().pointerAt(out, left), type,
                                                    b.CreateMul(column, operands.back().stride(rank - 2)))
                                 : e.elementPointer(tiles[k], type, b.CreateMul(column, e.i64(side)));
              Value *pitch = isCopy ? operands.back().stride(rank - 2) : e.i64(side);
              for (Value *vector : square) {
                b.CreateAlignedStore(vector, to, Align(static_cast<uint64_t>(elementBytes(type))));
                to = e.elementPointer(to, type, pitch);
              }
            });
          }
          if (isCopy)
            return;
          e.forLoop(e.i64(0), e.i64(height), e.i64(1), [&](Value *r) {
            Value *at = b.CreateAdd(top, r);
            Value *element = b.CreateAdd(b.CreateMul(b.CreateAdd(start, at), length), left);
            SmallVector<Lanes, 16> values;
            for (unsigned k = 0; k < spec.inputs.size(); ++k) {
              if (tiles[k]) {
                ElementType type = operands[k].type();
                Value *from = e.elementPointer(tiles[k], type, b.CreateMul(r, e.i64(side)));
                values.push_back({e.load(from, type, side), type});
                continue;
              }
              values.push_back(operands[k].load(rowAt(operands[k], at, element, true), left, element, side));
            }
            emitProgram(e, spec.program, values, element, side);
            for (unsigned k = 0; k < spec.outputs.size(); ++k) {
              Operand &operand = operands[spec.inputs.size() + k];
              Value *result = emitConvert(e, values[spec.results[k]], operand.type(), side);
              operand.store(rowAt(operand, at, element, false), left, element, result, side);
            }
          });
        });
      });
    });
  }

  /// `side` vectors of as many elements of an input, turned.
  Emitter::Values loadSquare(Operand &operand, Value *from) {
    ElementType type = operand.type();
    Type *vector = FixedVectorType::get(e.memoryType(type), side);
    Emitter::Values v;
    for (unsigned k = 0; k < side; ++k) {
      v.push_back(b.CreateAlignedLoad(vector, from, Align(1))); // an input may lie anywhere
      from = e.elementPointer(from, type, operand.stride(rank - 1));
    }
    // Within 128 bits interleaving does it: as often as a group of that many vectors can be halved.
    unsigned group = std::min(side, 16 / static_cast<unsigned>(elementBytes(type)));
    for (unsigned done = 1; done < group; done *= 2) {
      Emitter::Values next;
      for (unsigned first = 0; first < side; first += group)
        for (unsigned k = 0; k < group / 2; ++k)
          for (unsigned from : {0u, group / 2}) {
            SmallVector<int, 16> mask;
            for (unsigned lane = 0; lane < side; lane += group)
              for (unsigned l = from; l < from + group / 2; ++l)
                mask.append({static_cast<int>(lane + l), static_cast<int>(side + lane + l)});
            next.push_back(b.CreateShuffleVector(v[first + k], v[first + k + group / 2], mask));
          }
      v = next;
    }
    // Then the groups themselves. Of four, the even and the odd ones are taken apart twice.
    auto pick = [&](Value *x, Value *y, ArrayRef<unsigned> groups) {
      SmallVector<int, 16> mask;
      for (unsigned g : groups)
        for (unsigned l = 0; l < group; ++l)
          mask.push_back(static_cast<int>(g * group + l));
      return b.CreateShuffleVector(x, y, mask);
    };
    Emitter::Values result(side);
    for (unsigned k = 0; k < group; ++k) {
      if (side == group)
        return v;
      if (side == 2 * group) {
        for (unsigned g = 0; g < 2; ++g)
          result[g * group + k] = pick(v[k], v[group + k], {g, 2 + g});
        continue;
      }
      assert(side == 4 * group && "vectors of 512 bits at most");
      for (unsigned odd = 0; odd < 2; ++odd) {
        Value *x = pick(v[k], v[group + k], {odd, odd + 2, odd + 4, odd + 6});
        Value *y = pick(v[2 * group + k], v[3 * group + k], {odd, odd + 2, odd + 4, odd + 6});
        result[odd * group + k] = pick(x, y, {0, 2, 4, 6});
        result[(odd + 2) * group + k] = pick(x, y, {1, 3, 5, 7});
      }
    }
    return result;
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
      Value *at = most(least(i, last), lo);
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

  Value *least(Value *x, Value *y) { return b.CreateBinaryIntrinsic(Intrinsic::smin, x, y); }
  Value *most(Value *x, Value *y) { return b.CreateBinaryIntrinsic(Intrinsic::smax, x, y); }

  /// Elements along the rows of a band of squares; a multiple of every side.
  static constexpr int64_t kBand = 128;
  static constexpr size_t kLongestTurned = 16, kMostTurned = 4;

  Emitter &e;
  IRBuilder<> &b;
  const data::KernelSpecT &spec;
  unsigned rank, W = 8;
  Value *length = nullptr;
  SmallVector<unsigned, 4> turned; ///< inputs
  unsigned side = 0, height = 0;
  bool scatters = false, needsActive = false;
  std::vector<Operand> operands;
  std::vector<Operand::Row> rows;
};

} // namespace

Status emitLoops(Emitter &e, const data::KernelSpecT &spec) { return LoopsBuilder(e, spec).emit(); }

} // namespace rlx
