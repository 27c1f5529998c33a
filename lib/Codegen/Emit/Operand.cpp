//===- Operand.cpp - an operand of a kernel, as its spec says -------------===//
#include "rlx/Codegen/Operand.h"

#include "llvm/IR/Intrinsics.h"

using namespace llvm;

namespace rlx {

using data::AccessKind;
using data::Combine;
using data::ElementType;
using data::InnerMode;

unsigned operandIntegers(const data::AccessSpecT &spec, unsigned loops) {
  unsigned count = loops;
  if (spec.kind == AccessKind::Iota)
    ++count;
  unsigned indices = static_cast<unsigned>(spec.index_inner.size());
  if (spec.kind == AccessKind::Indexed)
    count += indices * (loops + 2);
  if (spec.panels)
    count += 2 + loops + indices;
  return count;
}

unsigned operandPointers(const data::AccessSpecT &spec) {
  return 1 + (spec.kind == AccessKind::Indexed ? static_cast<unsigned>(spec.index_inner.size()) : 0);
}

Operand::Operand(Emitter &e, const data::AccessSpecT &spec, unsigned number, unsigned loops, unsigned &nextInteger,
                 unsigned &nextPointer)
    : e(e), spec(spec), number(number), loops(loops),
      firstStride(nextInteger + (spec.kind == AccessKind::Iota ? 1 : 0)), firstPointer(nextPointer) {
  nextInteger += operandIntegers(spec, loops);
  nextPointer += operandPointers(spec);
}

bool Operand::hasMovingIndex() const {
  return spec.kind == AccessKind::Indexed &&
         llvm::any_of(spec.index_inner, [](InnerMode mode) { return mode != InnerMode::Splat; });
}

Value *Operand::checkedIndex(unsigned k, Value *index, Value *element, unsigned W) {
  // One unsigned comparison serves both ends, whatever the extent; a negative index first counts from the end.
  Value *extent = e.integer(indexInteger(k) + loops);
  Value *extents = e.splat(extent, W);
  Value *zero = Constant::getNullValue(index->getType());
  Value *wrapped = e.b.CreateSelect(e.b.CreateICmpSLT(index, zero), e.b.CreateAdd(index, extents), index);
  Value *bad = e.b.CreateICmpUGE(wrapped, extents);
  e.failIf(bad, ErrorKind::IndexOutOfRange, number, element, index, extent, W);
  return wrapped;
}

Value *Operand::panelOffset(Value *column, unsigned W) {
  Value *panel = e.b.CreateLShr(column, e.splat(e.i64(llvm::Log2_64(kPanel)), W));
  Value *lane = e.b.CreateAnd(column, e.splat(e.i64(kPanel - 1), W));
  return e.b.CreateAdd(e.b.CreateMul(panel, e.splat(e.integer(columnInteger() + 1), W)), lane);
}

Operand::Row Operand::enter(ArrayRef<Value *> indices, unsigned vectorLoop, Value *element, bool preload) {
  assert(indices.size() == loops && "one index per loop");
  this->vectorLoop = vectorLoop;
  IRBuilder<> &b = e.b;
  auto offset = [&](unsigned first) {
    Value *sum = nullptr;
    for (unsigned loop = 0; loop < loops; ++loop) {
      if (loop == vectorLoop)
        continue;
      Value *term = b.CreateMul(indices[loop], e.integer(first + loop));
      sum = sum ? b.CreateAdd(sum, term) : term;
    }
    return sum;
  };
  Row row;
  Value *base = offset(firstStride);
  if (spec.kind == AccessKind::Iota) {
    Value *start = e.integer(firstStride - 1);
    row.pointer = base ? b.CreateAdd(start, base) : start;
    return row;
  }
  row.pointer = e.pointer(firstPointer);
  if (base)
    row.pointer = e.elementPointer(row.pointer, spec.type, base);
  Value *column = nullptr;
  if (spec.panels) {
    column = e.integer(columnInteger());
    if (Value *moved = offset(columnInteger() + 2))
      column = b.CreateAdd(column, moved);
  }
  if (spec.kind == AccessKind::Indexed) {
    for (unsigned k = 0; k < spec.index_inner.size(); ++k) {
      Value *indexPointer = e.pointer(firstPointer + 1 + k);
      if (Value *indexOffset = offset(indexInteger(k)))
        indexPointer = e.elementPointer(indexPointer, spec.index_type, indexOffset);
      if (spec.index_inner[k] != InnerMode::Splat) {
        row.indexPointers.push_back(indexPointer);
        continue;
      }
      row.indexPointers.push_back(nullptr);
      Value *index = b.CreateSExt(e.load(indexPointer, spec.index_type, 1), b.getInt64Ty());
      index = checkedIndex(k, index, element, 1);
      row.pointer = e.elementPointer(row.pointer, spec.type, axisOffset(k, index, 1));
      if (spec.panels)
        column = b.CreateAdd(column, axisColumn(k, index, 1));
    }
  }
  if (isGathered())
    row.column = column;
  else if (spec.panels)
    row.pointer = e.elementPointer(row.pointer, spec.type, panelOffset(column, 1));
  if (preload && spec.inner == InnerMode::Splat && !isGathered())
    row.splat = e.load(row.pointer, spec.type, 1);
  return row;
}

Value *Operand::laneOffsets(const Row &row, Value *i, Value *element, unsigned W) {
  IRBuilder<> &b = e.b;
  Type *i64 = e.lanes(b.getInt64Ty(), W);
  Value *sum = Constant::getNullValue(i64);
  Value *positions = b.CreateAdd(e.splat(i, W), e.laneIndices(W));
  if (spec.inner == InnerMode::Contiguous)
    sum = positions;
  else if (spec.inner == InnerMode::Strided)
    sum = b.CreateMul(positions, e.splat(vectorStride(), W));
  Value *column = nullptr;
  if (spec.panels) {
    column = e.splat(row.column, W);
    if (spec.column_inner == InnerMode::Contiguous)
      column = b.CreateAdd(column, positions);
    else if (spec.column_inner == InnerMode::Strided)
      column = b.CreateAdd(column, b.CreateMul(positions, e.splat(e.integer(columnInteger() + 2 + vectorLoop), W)));
  }
  for (unsigned k = 0; k < spec.index_inner.size(); ++k) {
    if (!row.indexPointers[k])
      continue;
    Value *stride = e.integer(indexInteger(k) + vectorLoop);
    bool contiguous = spec.index_inner[k] == InnerMode::Contiguous;
    Value *at = e.elementPointer(row.indexPointers[k], spec.index_type, contiguous ? i : b.CreateMul(i, stride));
    Value *index = e.loadLanes(at, spec.index_type, spec.index_inner[k], stride, W);
    index = checkedIndex(k, b.CreateSExt(index, i64), element, W);
    sum = b.CreateAdd(sum, axisOffset(k, index, W));
    if (spec.panels)
      column = b.CreateAdd(column, axisColumn(k, index, W));
  }
  if (spec.panels)
    sum = b.CreateAdd(sum, panelOffset(column, W));
  return sum;
}

Value *Operand::lanePointer(const Row &row, Value *i) {
  switch (spec.inner) {
  case InnerMode::Splat:
    return row.pointer;
  case InnerMode::Contiguous:
    return e.elementPointer(row.pointer, spec.type, i);
  case InnerMode::Strided:
    return e.elementPointer(row.pointer, spec.type, e.b.CreateMul(i, vectorStride()));
  }
  llvm_unreachable("inner mode");
}

Lanes Operand::load(const Row &row, Value *i, Value *element, unsigned W) {
  IRBuilder<> &b = e.b;
  if (spec.kind == AccessKind::Iota) {
    if (spec.inner == InnerMode::Splat)
      return {e.splat(row.pointer, W), ElementType::I64};
    Value *positions = b.CreateAdd(e.splat(i, W), e.laneIndices(W));
    if (spec.inner == InnerMode::Strided)
      positions = b.CreateMul(positions, e.splat(vectorStride(), W));
    return {b.CreateAdd(e.splat(row.pointer, W), positions), ElementType::I64};
  }
  if (row.splat)
    return {e.splat(row.splat, W), spec.type};
  if (isGathered())
    return {e.gather(row.pointer, spec.type, laneOffsets(row, i, element, W), W), spec.type};
  Value *pointer = lanePointer(row, i);
  return {e.loadLanes(pointer, spec.type, spec.inner, spec.inner == InnerMode::Strided ? vectorStride() : nullptr, W),
          spec.type};
}

void Operand::store(const Row &row, Value *i, Value *element, Value *value, unsigned W) {
  if (hasMovingIndex()) {
    assert(W == 1 && "a scatter goes element by element");
    e.store(e.elementPointer(row.pointer, spec.type, laneOffsets(row, i, element, 1)), spec.type, value, 1);
    return;
  }
  Value *stride = spec.inner == InnerMode::Strided ? vectorStride() : nullptr;
  e.storeLanes(lanePointer(row, i), spec.type, spec.inner, stride, value, W);
}

void Operand::update(const Row &row, Value *i, Value *element, Combine combine, Value *value, unsigned W) {
  if (combine == Combine::Assign)
    return store(row, i, element, value, W);
  if (hasMovingIndex()) {
    assert(W == 1 && "a scatter goes element by element");
    Value *pointer = e.elementPointer(row.pointer, spec.type, laneOffsets(row, i, element, 1));
    e.store(pointer, spec.type, emitCombine(e, combine, e.load(pointer, spec.type, 1), value, spec.type, 1), 1);
    return;
  }
  Lanes old = load(row, i, element, W);
  store(row, i, element, emitCombine(e, combine, old.value, value, spec.type, W), W);
}

bool Operand::isMaskable() const {
  // Masks over 8 and 16 bit elements are no instructions before AVX-512.
  return spec.kind == AccessKind::Direct && spec.inner == InnerMode::Contiguous && elementBytes(spec.type) >= 4;
}

Value *Operand::loadMasked(const Row &row, Value *i, Value *mask, unsigned W) {
  if (spec.inner == InnerMode::Splat)
    return e.b.CreateSelect(mask, e.splat(row.splat ? row.splat : e.load(row.pointer, spec.type, 1), W),
                            Constant::getNullValue(e.lanes(spec.type, W)));
  return e.maskedLoad(lanePointer(row, i), spec.type, mask, W);
}

void Operand::storeMasked(const Row &row, Value *i, Value *value, Value *mask, unsigned W) {
  e.maskedStore(lanePointer(row, i), spec.type, value, mask, W);
}

Value *Operand::room(unsigned W) {
  if (!stack)
    stack = e.stackArray(e.memoryType(spec.type), W);
  return stack;
}

//===----------------------------------------------------------------------===//
// Blocks
//===----------------------------------------------------------------------===//

Value *Block::active(Emitter &e) const {
  if (!full || W == 1)
    return nullptr;
  return e.tailMask(count, W);
}

/// Position of the element `lane` lanes after `element`.
static Value *laneElement(Emitter &e, Value *element, Value *lane) {
  return e.b.CreateAdd(element, e.elementStride ? e.b.CreateMul(lane, e.elementStride) : lane);
}

void loadBlock(Emitter &e, MutableArrayRef<Operand> operands, ArrayRef<Operand::Row> rows, const Block &block,
               SmallVectorImpl<Lanes> &values) {
  IRBuilder<> &b = e.b;
  unsigned W = block.W;
  auto whole = [&] {
    Emitter::Values loaded;
    for (size_t k = 0; k < operands.size(); ++k)
      loaded.push_back(operands[k].load(rows[k], block.i, block.element, W).value);
    return loaded;
  };
  Emitter::Values loaded;
  if (!block.full || W == 1) {
    loaded = whole();
  } else {
    loaded = e.ifThenElse(block.full, whole, [&] {
      // What lies contiguous is loaded under a mask, what stays the same as it is; the rest goes element by element
      // through the stack.
      Value *mask = nullptr;
      Emitter::Values staged(operands.size());
      bool inTurn = false;
      for (size_t k = 0; k < operands.size(); ++k) {
        if (operands[k].isMaskable() || operands[k].isSplat()) {
          mask = mask ? mask : e.tailMask(block.count, W);
          staged[k] = operands[k].loadMasked(rows[k], block.i, mask, W);
        } else {
          inTurn = true;
          e.store(operands[k].room(W), operands[k].type(), Constant::getNullValue(e.lanes(operands[k].type(), W)), W);
        }
      }
      if (!inTurn)
        return staged;
      e.forLoop(e.i64(0), block.count, e.i64(1), [&](Value *lane) {
        Value *element = laneElement(e, block.element, lane);
        for (size_t k = 0; k < operands.size(); ++k) {
          if (staged[k])
            continue;
          Lanes one = operands[k].load(rows[k], b.CreateAdd(block.i, lane), element, 1);
          e.store(e.elementPointer(operands[k].room(W), one.type, lane), one.type, one.value, 1);
        }
      });
      for (size_t k = 0; k < operands.size(); ++k)
        if (!staged[k])
          staged[k] = e.load(operands[k].room(W), operands[k].type(), W);
      return staged;
    });
  }
  for (size_t k = 0; k < operands.size(); ++k)
    values.push_back({loaded[k], operands[k].type()});
}

void storeBlock(Emitter &e, MutableArrayRef<Operand> operands, ArrayRef<Operand::Row> rows, const Block &block,
                Combine combine, ArrayRef<Value *> values) {
  unsigned W = block.W;
  auto whole = [&] {
    for (size_t k = 0; k < operands.size(); ++k)
      operands[k].update(rows[k], block.i, block.element, combine, values[k], W);
    return Emitter::Values();
  };
  if (!block.full || W == 1) {
    whole();
    return;
  }
  e.ifThenElse(block.full, whole, [&] {
    Value *mask = nullptr;
    auto isMasked = [&](size_t k) { return combine == Combine::Assign && operands[k].isMaskable(); };
    bool inTurn = false;
    for (size_t k = 0; k < operands.size(); ++k) {
      if (isMasked(k)) {
        mask = mask ? mask : e.tailMask(block.count, W);
        operands[k].storeMasked(rows[k], block.i, values[k], mask, W);
      } else {
        inTurn = true;
        e.store(operands[k].room(W), operands[k].type(), values[k], W);
      }
    }
    if (!inTurn)
      return Emitter::Values();
    e.forLoop(e.i64(0), block.count, e.i64(1), [&](Value *lane) {
      Value *element = laneElement(e, block.element, lane);
      for (size_t k = 0; k < operands.size(); ++k) {
        if (isMasked(k))
          continue;
        Value *one = e.load(e.elementPointer(operands[k].room(W), operands[k].type(), lane), operands[k].type(), 1);
        operands[k].update(rows[k], e.b.CreateAdd(block.i, lane), element, combine, one, 1);
      }
    });
    return Emitter::Values();
  });
}

Value *emitCombine(Emitter &e, Combine combine, Value *old, Value *value, ElementType type, unsigned W) {
  data::Opcode op = data::Opcode::Add;
  switch (combine) {
  case Combine::Assign:
    return value;
  case Combine::Add:
    op = data::Opcode::Add;
    break;
  case Combine::Mul:
    op = data::Opcode::Mul;
    break;
  case Combine::Max:
    op = data::Opcode::Max;
    break;
  case Combine::Min:
    op = data::Opcode::Min;
    break;
  }
  return emitInstr(e, data::Instr(op, type, 0, 0, 0, 0), {old, type}, {value, type}, {}, e.i64(0), W);
}

} // namespace rlx
