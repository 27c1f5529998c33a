//===- Scan.cpp - running sums along a loop -------------------------------===//
#include "rlx/Codegen/ElementProgram.h"
#include "rlx/Codegen/Families.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/IR/Intrinsics.h"

#include <array>

using namespace llvm;

namespace rlx {

using data::ElementType;
using data::InnerMode;
using data::ReduceKind;

namespace {

/// One element after the other, which fixes the order of the sums. So that they do not wait for each other, several
/// rows go at once: as lanes where rows lie side by side, else kRows of them.
class ScanBuilder {
public:
  ScanBuilder(Emitter &e, const data::KernelSpecT &spec)
      : e(e), b(e.b), spec(spec), rank(spec.rank), from(spec.inputs[0]->type), to(spec.outputs[0]->type) {}

  void emit() {
    for (unsigned loop = 0; loop < rank; ++loop)
      extents.push_back(e.integer(loop));
    length = e.integer(rank);
    xStep = e.integer(xStrides() + rank);
    outStep = e.integer(outStrides() + rank);
    if (spec.inputs[0]->inner == InnerMode::Contiguous || spec.outputs[0]->inner == InnerMode::Contiguous) {
      inTurn(e.begin, e.end);
    } else {
      unsigned lanes = laneCount(e, std::array{from, to, spec.accumulator}, {});
      // Rows that differ in the last of the outer loops only go together; the last ones end with the others.
      Value *along = extents.back();
      Value *lastRun = b.CreateAdd(b.CreateSDiv(b.CreateSub(e.end, e.i64(1)), along), e.i64(1));
      Value *sideBySide = b.CreateAnd(b.CreateICmpEQ(e.integer(xStrides() + rank - 1), e.i64(1)),
                                      b.CreateICmpEQ(e.integer(outStrides() + rank - 1), e.i64(1)));
      e.forLoop(b.CreateSDiv(e.begin, along), lastRun, e.i64(1), [&](Value *run) {
        Value *start = b.CreateMul(run, along);
        Value *lo = b.CreateBinaryIntrinsic(Intrinsic::smax, e.begin, start);
        Value *hi = b.CreateBinaryIntrinsic(Intrinsic::smin, e.end, b.CreateAdd(start, along));
        Value *last = b.CreateSub(hi, e.i64(lanes));
        e.ifThenElse(
            b.CreateAnd(sideBySide, b.CreateICmpSGE(last, lo)),
            [&] {
              e.forLoop(lo, hi, e.i64(lanes),
                        [&](Value *tile) { rows(b.CreateBinaryIntrinsic(Intrinsic::smin, tile, last), 1, lanes); });
              return Emitter::Values();
            },
            [&] {
              inTurn(lo, hi);
              return Emitter::Values();
            });
      });
    }
    e.finish();
  }

private:
  static constexpr int64_t kRows = 4;

  unsigned xStrides() const { return rank + 1; }
  unsigned outStrides() const { return xStrides() + rank + 1; }

  void inTurn(Value *lo, Value *hi) {
    Value *grouped = b.CreateSub(hi, b.CreateSRem(b.CreateSub(hi, lo), e.i64(kRows)));
    e.forLoop(lo, grouped, e.i64(kRows), [&](Value *tile) { rows(tile, kRows, 1); });
    e.forLoop(grouped, hi, e.i64(1), [&](Value *tile) { rows(tile, 1, 1); });
  }

  /// `count` rows from `tile` on, or `lanes` rows side by side.
  void rows(Value *tile, int64_t count, unsigned lanes) {
    SmallVector<Value *, kRows> xs, outs;
    for (int64_t k = 0; k < count; ++k) {
      Emitter::Values indices = e.delinearize(b.CreateAdd(tile, e.i64(k)), extents);
      xs.push_back(e.elementPointer(e.pointer(0), from, e.linearOffset(indices, xStrides())));
      outs.push_back(e.elementPointer(e.pointer(1), to, e.linearOffset(indices, outStrides())));
    }
    ElementType sum = spec.accumulator;
    Emitter::Values zeros(xs.size(), e.constant(sum, 0, lanes));
    e.forLoop(e.i64(0), length, e.i64(1), zeros, [&](Value *i, ArrayRef<Value *> now) {
      Value *at = spec.reverse ? b.CreateSub(b.CreateSub(length, e.i64(1)), i) : i;
      Emitter::Values next;
      for (auto [x, out, before] : llvm::zip(xs, outs, now)) {
        Lanes element = {e.load(e.elementPointer(x, from, b.CreateMul(at, xStep)), from, lanes), from};
        Lanes value = {emitConvert(e, element, sum, lanes), sum};
        data::Instr add(data::Opcode::Add, sum, 0, 0, 0, 0);
        next.push_back(emitInstr(e, add, {before, sum}, value, {}, nullptr, lanes));
        Value *shown = emitConvert(e, {spec.exclusive ? before : next.back(), sum}, to, lanes);
        e.store(e.elementPointer(out, to, b.CreateMul(at, outStep)), to, shown, lanes);
      }
      return next;
    });
  }

  Emitter &e;
  IRBuilder<> &b;
  const data::KernelSpecT &spec;
  unsigned rank;
  ElementType from, to;
  SmallVector<Value *, 8> extents;
  Value *length = nullptr, *xStep = nullptr, *outStep = nullptr;
};

} // namespace

Status emitScan(Emitter &e, const data::KernelSpecT &spec) {
  if (spec.reduce != ReduceKind::Sum)
    return Error{ErrorCode::Unsupported, std::string("a running ") + data::EnumNameReduceKind(spec.reduce)};
  ScanBuilder(e, spec).emit();
  return Status::ok();
}

} // namespace rlx
