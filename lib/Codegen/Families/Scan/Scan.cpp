//===- Scan.cpp - running sums along a loop -------------------------------===//
#include "rlx/Codegen/ElementProgram.h"
#include "rlx/Codegen/Families.h"

using namespace llvm;

namespace rlx {

using data::ElementType;
using data::ReduceKind;

/// One element after the other, which fixes the order of the sums.
Status emitScan(Emitter &e, const data::KernelSpecT &spec) {
  IRBuilder<> &b = e.b;
  unsigned rank = spec.rank;
  ElementType from = spec.inputs[0]->type, to = spec.outputs[0]->type, sum = spec.accumulator;
  SmallVector<Value *, 8> extents;
  for (unsigned loop = 0; loop < rank; ++loop)
    extents.push_back(e.integer(loop));
  Value *length = e.integer(rank);
  unsigned xStrides = rank + 1, outStrides = xStrides + rank + 1;
  Value *xStep = e.integer(xStrides + rank), *outStep = e.integer(outStrides + rank);

  if (spec.reduce != ReduceKind::Sum)
    return Error{ErrorCode::Unsupported, std::string("a running ") + data::EnumNameReduceKind(spec.reduce)};

  e.forLoop(e.begin, e.end, e.i64(1), [&](Value *tile) {
    Emitter::Values indices = e.delinearize(tile, extents);
    Value *x = e.elementPointer(e.pointer(0), from, e.linearOffset(indices, xStrides));
    Value *out = e.elementPointer(e.pointer(1), to, e.linearOffset(indices, outStrides));
    Value *first = b.CreateMul(tile, length);
    e.forLoop(e.i64(0), length, e.i64(1), {e.constant(sum, 0, 1)}, [&](Value *i, ArrayRef<Value *> now) {
      Value *at = spec.reverse ? b.CreateSub(b.CreateSub(length, e.i64(1)), i) : i;
      Lanes element = {e.load(e.elementPointer(x, from, b.CreateMul(at, xStep)), from, 1), from};
      Lanes value = {emitConvert(e, element, sum, 1), sum};
      data::Instr add(data::Opcode::Add, sum, 0, 0, 0, 0);
      Value *next = emitInstr(e, add, {now[0], sum}, value, {}, b.CreateAdd(first, at), 1);
      Value *shown = emitConvert(e, {spec.exclusive ? now[0] : next, sum}, to, 1);
      e.store(e.elementPointer(out, to, b.CreateMul(at, outStep)), to, shown, 1);
      return Emitter::Values{next};
    });
  });
  e.finish();
  return Status::ok();
}

} // namespace rlx
