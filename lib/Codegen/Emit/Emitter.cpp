//===- Emitter.cpp - loops, lanes and the error word ----------------------===//
#include "rlx/Codegen/Emitter.h"

#include "llvm/IR/Intrinsics.h"
#include "llvm/IR/MDBuilder.h"

using namespace llvm;

namespace rlx {

using data::ElementType;
using data::InnerMode;

Emitter::Emitter(Module &module) : b(module.getContext()), module(module) {
  Type *pointerType = b.getPtrTy();
  auto *type =
      FunctionType::get(b.getVoidTy(), {pointerType, pointerType, b.getInt64Ty(), b.getInt64Ty(), pointerType}, false);
  function = Function::Create(type, GlobalValue::ExternalLinkage, kKernelEntry, module);
  function->setDSOLocal(true);
  function->setDoesNotThrow();
  function->addFnAttr("frame-pointer", "all");
  function->addFnAttr("no-builtins");
  function->setAlignment(Align(64));
  pointersArgument = function->getArg(0);
  integersArgument = function->getArg(1);
  begin = function->getArg(2);
  end = function->getArg(3);
  errorArgument = function->getArg(4);
  pointersArgument->setName("pointers");
  integersArgument->setName("integers");
  begin->setName("begin");
  end->setName("end");
  errorArgument->setName("error");
  entry = BasicBlock::Create(module.getContext(), "entry", function);
  BasicBlock *body = BasicBlock::Create(module.getContext(), "body", function);
  b.SetInsertPoint(entry);
  b.CreateBr(body);
  b.SetInsertPoint(body);
}

IRBuilder<> Emitter::entryBuilder() { return IRBuilder<>(entry->getTerminator()); }

Value *Emitter::pointer(unsigned i) {
  if (pointerCache.size() <= i)
    pointerCache.resize(i + 1);
  if (!pointerCache[i]) {
    IRBuilder<> at = entryBuilder();
    pointerCache[i] =
        at.CreateLoad(at.getPtrTy(), at.CreateConstGEP1_64(at.getPtrTy(), pointersArgument, i), "p" + Twine(i));
  }
  return pointerCache[i];
}

Value *Emitter::integer(unsigned i) {
  if (integerCache.size() <= i)
    integerCache.resize(i + 1);
  if (!integerCache[i]) {
    IRBuilder<> at = entryBuilder();
    integerCache[i] =
        at.CreateLoad(at.getInt64Ty(), at.CreateConstGEP1_64(at.getInt64Ty(), integersArgument, i), "n" + Twine(i));
  }
  return integerCache[i];
}

void Emitter::finish() { b.CreateRetVoid(); }

//===----------------------------------------------------------------------===//
// Types and constants
//===----------------------------------------------------------------------===//

Type *Emitter::laneType(ElementType type) {
  switch (type) {
  case ElementType::I1:
    return b.getInt1Ty();
  case ElementType::I8:
  case ElementType::U8:
    return b.getInt8Ty();
  case ElementType::I16:
  case ElementType::U16:
  case ElementType::BF16:
    return b.getInt16Ty();
  case ElementType::I32:
  case ElementType::U32:
    return b.getInt32Ty();
  case ElementType::I64:
  case ElementType::U64:
    return b.getInt64Ty();
  case ElementType::F16:
    return b.getHalfTy();
  case ElementType::F32:
    return b.getFloatTy();
  case ElementType::F64:
    return b.getDoubleTy();
  }
  llvm_unreachable("element type");
}

Type *Emitter::memoryType(ElementType type) { return type == ElementType::I1 ? b.getInt8Ty() : laneType(type); }

Type *Emitter::lanes(Type *type, unsigned W) { return W == 1 ? type : FixedVectorType::get(type, W); }

Value *Emitter::splat(Value *scalar, unsigned W) { return W == 1 ? scalar : b.CreateVectorSplat(W, scalar); }

Value *Emitter::laneIndices(unsigned W) {
  if (W == 1)
    return i64(0);
  SmallVector<Constant *, 32> indices;
  for (unsigned lane = 0; lane < W; ++lane)
    indices.push_back(b.getInt64(lane));
  return ConstantVector::get(indices);
}

Value *Emitter::f32(float value, unsigned W) { return splat(ConstantFP::get(b.getFloatTy(), value), W); }
Value *Emitter::f64(double value, unsigned W) { return splat(ConstantFP::get(b.getDoubleTy(), value), W); }

Value *Emitter::constant(ElementType type, uint64_t bits, unsigned W) {
  Type *lane = laneType(type);
  if (type == ElementType::I1)
    return splat(b.getInt1(bits != 0), W);
  unsigned width = lane->getScalarSizeInBits();
  APInt value = APInt(64, bits).trunc(width);
  if (lane->isIntegerTy())
    return splat(ConstantInt::get(lane, value), W);
  return splat(ConstantFP::get(lane, APFloat(lane->getFltSemantics(), value)), W);
}

//===----------------------------------------------------------------------===//
// Control flow
//===----------------------------------------------------------------------===//

void Emitter::forLoop(Value *lo, Value *hi, Value *step, function_ref<void(Value *)> body) {
  forLoop(lo, hi, step, {}, [&](Value *iv, ArrayRef<Value *>) {
    body(iv);
    return Values();
  });
}

Emitter::Values Emitter::forLoop(Value *lo, Value *hi, Value *step, ArrayRef<Value *> inits,
                                 function_ref<Values(Value *, ArrayRef<Value *>)> body) {
  // Guarded and rotated (do-while): no later pass has to rotate it.
  LLVMContext &context = module.getContext();
  BasicBlock *preheader = b.GetInsertBlock();
  BasicBlock *loop = BasicBlock::Create(context, "loop", function);
  BasicBlock *done = BasicBlock::Create(context, "done", function);
  b.CreateCondBr(b.CreateICmpSLT(lo, hi), loop, done);
  b.SetInsertPoint(loop);
  PHINode *iv = b.CreatePHI(lo->getType(), 2, "i");
  iv->addIncoming(lo, preheader);
  SmallVector<PHINode *, 8> carried;
  SmallVector<Value *, 8> now;
  for (Value *init : inits) {
    PHINode *phi = b.CreatePHI(init->getType(), 2);
    phi->addIncoming(init, preheader);
    carried.push_back(phi);
    now.push_back(phi);
  }
  Values next = body(iv, now);
  assert(next.size() == inits.size() && "a loop body gives one value per carried one");
  BasicBlock *latch = b.GetInsertBlock();
  Value *ivNext = b.CreateNSWAdd(iv, step);
  iv->addIncoming(ivNext, latch);
  for (auto [phi, value] : llvm::zip(carried, next))
    phi->addIncoming(value, latch);
  b.CreateCondBr(b.CreateICmpSLT(ivNext, hi), loop, done);
  done->moveAfter(latch);
  b.SetInsertPoint(done);
  Values results;
  for (auto [init, value] : llvm::zip(inits, next)) {
    PHINode *phi = b.CreatePHI(init->getType(), 2);
    phi->addIncoming(init, preheader);
    phi->addIncoming(value, latch);
    results.push_back(phi);
  }
  return results;
}

Emitter::Values Emitter::whileLoop(ArrayRef<Value *> inits, function_ref<Value *(ArrayRef<Value *>)> condition,
                                   function_ref<Values(ArrayRef<Value *>)> body) {
  LLVMContext &context = module.getContext();
  BasicBlock *preheader = b.GetInsertBlock();
  BasicBlock *header = BasicBlock::Create(context, "while", function);
  BasicBlock *loop = BasicBlock::Create(context, "do", function);
  BasicBlock *done = BasicBlock::Create(context, "done", function);
  b.CreateBr(header);
  b.SetInsertPoint(header);
  SmallVector<PHINode *, 8> carried;
  Values now;
  for (Value *init : inits) {
    PHINode *phi = b.CreatePHI(init->getType(), 2);
    phi->addIncoming(init, preheader);
    carried.push_back(phi);
    now.push_back(phi);
  }
  b.CreateCondBr(condition(now), loop, done);
  b.SetInsertPoint(loop);
  Values next = body(now);
  BasicBlock *latch = b.GetInsertBlock();
  for (auto [phi, value] : llvm::zip(carried, next))
    phi->addIncoming(value, latch);
  b.CreateBr(header);
  done->moveAfter(latch);
  b.SetInsertPoint(done);
  return now;
}

void Emitter::ifThen(Value *condition, function_ref<void()> then) {
  LLVMContext &context = module.getContext();
  BasicBlock *thenBlock = BasicBlock::Create(context, "then", function);
  BasicBlock *done = BasicBlock::Create(context, "done", function);
  b.CreateCondBr(condition, thenBlock, done);
  b.SetInsertPoint(thenBlock);
  then();
  b.CreateBr(done);
  done->moveAfter(b.GetInsertBlock());
  b.SetInsertPoint(done);
}

Emitter::Values Emitter::ifThenElse(Value *condition, function_ref<Values()> then, function_ref<Values()> otherwise) {
  LLVMContext &context = module.getContext();
  BasicBlock *thenBlock = BasicBlock::Create(context, "then", function);
  BasicBlock *elseBlock = BasicBlock::Create(context, "else", function);
  BasicBlock *done = BasicBlock::Create(context, "done", function);
  b.CreateCondBr(condition, thenBlock, elseBlock);
  b.SetInsertPoint(thenBlock);
  Values thenValues = then();
  BasicBlock *thenEnd = b.GetInsertBlock();
  b.CreateBr(done);
  elseBlock->moveAfter(thenEnd);
  b.SetInsertPoint(elseBlock);
  Values elseValues = otherwise();
  BasicBlock *elseEnd = b.GetInsertBlock();
  b.CreateBr(done);
  done->moveAfter(elseEnd);
  b.SetInsertPoint(done);
  Values results;
  for (auto [x, y] : llvm::zip(thenValues, elseValues)) {
    PHINode *phi = b.CreatePHI(x->getType(), 2);
    phi->addIncoming(x, thenEnd);
    phi->addIncoming(y, elseEnd);
    results.push_back(phi);
  }
  return results;
}

Emitter::Values Emitter::ifRarely(Value *condition, function_ref<Values()> then, ArrayRef<Value *> usual) {
  LLVMContext &context = module.getContext();
  BasicBlock *before = b.GetInsertBlock();
  BasicBlock *thenBlock = BasicBlock::Create(context, "rare", function);
  BasicBlock *done = BasicBlock::Create(context, "done", function);
  BranchInst *branch = b.CreateCondBr(condition, thenBlock, done);
  branch->setMetadata(LLVMContext::MD_prof, MDBuilder(context).createBranchWeights(1, 1 << 10));
  b.SetInsertPoint(thenBlock);
  Values rare = then();
  BasicBlock *thenEnd = b.GetInsertBlock();
  b.CreateBr(done);
  done->moveAfter(before);
  b.SetInsertPoint(done);
  Values results;
  for (auto [x, y] : llvm::zip(rare, usual)) {
    PHINode *phi = b.CreatePHI(x->getType(), 2);
    phi->addIncoming(x, thenEnd);
    phi->addIncoming(y, before);
    results.push_back(phi);
  }
  return results;
}

Value *Emitter::any(Value *mask) {
  if (!mask->getType()->isVectorTy())
    return mask;
  unsigned W = cast<FixedVectorType>(mask->getType())->getNumElements();
  return b.CreateICmpNE(b.CreateBitCast(mask, b.getIntNTy(W)), b.getIntN(W, 0));
}

Value *Emitter::stackArray(Type *type, uint64_t count, uint64_t alignment) {
  IRBuilder<> at = entryBuilder();
  AllocaInst *array = at.CreateAlloca(ArrayType::get(type, count));
  array->setAlignment(Align(alignment));
  return array;
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

static Align elementAlign(ElementType type) { return Align(static_cast<uint64_t>(elementBytes(type))); }
/// What is only read may lie anywhere: weights are read where a file has them. With AVX the same instructions serve.
static constexpr Align anyAlign{}; // 1

/// Memory form to register form and back.
static Value *fromMemory(Emitter &e, ElementType type, Value *value) {
  return type == ElementType::I1 ? e.b.CreateICmpNE(value, Constant::getNullValue(value->getType())) : value;
}
static Value *toMemory(Emitter &e, ElementType type, Value *value, unsigned W) {
  return type == ElementType::I1 ? e.b.CreateZExt(value, e.lanes(e.b.getInt8Ty(), W)) : value;
}

Value *Emitter::elementPointer(Value *base, ElementType type, Value *offset) {
  return b.CreateGEP(memoryType(type), base, offset);
}

Value *Emitter::load(Value *pointer, ElementType type, unsigned W) {
  return fromMemory(*this, type, b.CreateAlignedLoad(lanes(memoryType(type), W), pointer, anyAlign));
}

void Emitter::store(Value *pointer, ElementType type, Value *value, unsigned W) {
  b.CreateAlignedStore(toMemory(*this, type, value, W), pointer, elementAlign(type));
}

Value *Emitter::maskedLoad(Value *pointer, ElementType type, Value *mask, unsigned W) {
  Type *vector = lanes(memoryType(type), W);
  assert(W > 1 && "scalars are not masked");
  return fromMemory(*this, type, b.CreateMaskedLoad(vector, pointer, anyAlign, mask, Constant::getNullValue(vector)));
}

void Emitter::maskedStore(Value *pointer, ElementType type, Value *value, Value *mask, unsigned W) {
  assert(W > 1 && "scalars are not masked");
  b.CreateMaskedStore(toMemory(*this, type, value, W), pointer, elementAlign(type), mask);
}

Value *Emitter::stridedLoad(Value *pointer, ElementType type, Value *stride, unsigned W) {
  if (W == 1)
    return load(pointer, type, 1);
  // One pointer after the other: the offsets stay scalar, and no gather is slower than this where it counts.
  Type *element = memoryType(type);
  Value *result = PoisonValue::get(lanes(element, W));
  Value *at = pointer;
  for (unsigned lane = 0; lane < W; ++lane) {
    if (lane)
      at = b.CreateGEP(element, at, stride);
    result = b.CreateInsertElement(result, b.CreateAlignedLoad(element, at, anyAlign), lane);
  }
  return fromMemory(*this, type, result);
}

void Emitter::stridedStore(Value *pointer, ElementType type, Value *value, Value *stride, unsigned W) {
  value = toMemory(*this, type, value, W);
  if (W == 1) {
    b.CreateAlignedStore(value, pointer, elementAlign(type));
    return;
  }
  Value *at = pointer;
  for (unsigned lane = 0; lane < W; ++lane) {
    if (lane)
      at = b.CreateGEP(memoryType(type), at, stride);
    b.CreateAlignedStore(b.CreateExtractElement(value, lane), at, elementAlign(type));
  }
}

Value *Emitter::gather(Value *pointer, ElementType type, Value *offsets, unsigned W) {
  Type *element = memoryType(type);
  Value *pointers = b.CreateGEP(element, pointer, offsets);
  if (W == 1)
    return fromMemory(*this, type, b.CreateAlignedLoad(element, pointers, anyAlign));
  // The code generator takes the machine's gather where that is fast, else single loads.
  return fromMemory(*this, type, b.CreateMaskedGather(lanes(element, W), pointers, anyAlign));
}

Value *Emitter::loadLanes(Value *pointer, ElementType type, InnerMode mode, Value *stride, unsigned W) {
  if (mode == InnerMode::Contiguous)
    return load(pointer, type, W);
  if (mode == InnerMode::Splat)
    return splat(load(pointer, type, 1), W);
  return stridedLoad(pointer, type, stride, W);
}

void Emitter::storeLanes(Value *pointer, ElementType type, InnerMode mode, Value *stride, Value *value, unsigned W) {
  if (mode == InnerMode::Contiguous)
    return store(pointer, type, value, W);
  if (mode == InnerMode::Splat)
    return store(pointer, type, W == 1 ? value : b.CreateExtractElement(value, uint64_t(0)), 1);
  stridedStore(pointer, type, value, stride, W);
}

Value *Emitter::tailMask(Value *count, unsigned W) {
  // Compared in 32 bits, which is one register; a count above W fills every lane all the same.
  Value *limit = b.CreateTrunc(b.CreateBinaryIntrinsic(Intrinsic::smin, count, i64(W)), b.getInt32Ty());
  SmallVector<Constant *, 32> indices;
  for (unsigned lane = 0; lane < W; ++lane)
    indices.push_back(b.getInt32(lane));
  return b.CreateICmpSLT(ConstantVector::get(indices), splat(limit, W));
}

//===----------------------------------------------------------------------===//
// Errors
//===----------------------------------------------------------------------===//

void Emitter::failIf(Value *bad, ErrorKind kind, unsigned operand, Value *element, Value *value, Value *extent,
                     unsigned W) {
  LLVMContext &context = module.getContext();
  BasicBlock *fail = BasicBlock::Create(context, "fail", function);
  BasicBlock *write = BasicBlock::Create(context, "fail.write", function);
  BasicBlock *leave = BasicBlock::Create(context, "fail.return", function);
  BasicBlock *good = BasicBlock::Create(context, "good", function);
  BranchInst *branch = b.CreateCondBr(any(bad), fail, good);
  branch->setMetadata(LLVMContext::MD_prof, MDBuilder(context).createBranchWeights(1, 1 << 20));
  good->moveAfter(b.GetInsertBlock());

  b.SetInsertPoint(fail);
  Value *old = b.CreateLoad(b.getInt32Ty(), errorArgument);
  b.CreateCondBr(b.CreateICmpEQ(old, b.getInt32(0)), write, leave);
  b.SetInsertPoint(write);
  if (W > 1) {
    Value *lane =
        b.CreateIntrinsic(Intrinsic::cttz, {b.getIntNTy(W)}, {b.CreateBitCast(bad, b.getIntNTy(W)), b.getInt1(true)});
    lane = b.CreateZExt(lane, b.getInt64Ty());
    if (value && value->getType()->isVectorTy())
      value = b.CreateExtractElement(value, lane);
    element = b.CreateAdd(element, elementStride ? b.CreateMul(lane, elementStride) : lane);
  }
  auto field = [&](size_t offset) { return b.CreateConstGEP1_64(b.getInt8Ty(), errorArgument, offset); };
  b.CreateStore(element, field(offsetof(ErrorWord, element)));
  b.CreateStore(value ? b.CreateSExtOrTrunc(value, b.getInt64Ty()) : i64(0), field(offsetof(ErrorWord, value)));
  b.CreateStore(extent ? extent : i64(0), field(offsetof(ErrorWord, extent)));
  b.CreateStore(b.getInt32(operand), field(offsetof(ErrorWord, operand)));
  b.CreateStore(b.getInt32(static_cast<uint32_t>(kind)), field(offsetof(ErrorWord, kind)));
  b.CreateBr(leave);
  b.SetInsertPoint(leave);
  b.CreateRetVoid();
  b.SetInsertPoint(good);
}

//===----------------------------------------------------------------------===//
// Loops of the step
//===----------------------------------------------------------------------===//

Emitter::Values Emitter::delinearize(Value *index, ArrayRef<Value *> extents) {
  Values indices(extents.size());
  for (size_t i = extents.size(); i-- > 0;) {
    if (i == 0) {
      indices[0] = index;
      break;
    }
    Value *quotient = b.CreateUDiv(index, extents[i]);
    indices[i] = b.CreateSub(index, b.CreateMul(quotient, extents[i]));
    index = quotient;
  }
  return indices;
}

Value *Emitter::linearOffset(ArrayRef<Value *> indices, unsigned firstStride) {
  Value *sum = nullptr;
  for (auto [i, index] : llvm::enumerate(indices)) {
    Value *term = b.CreateMul(index, integer(firstStride + static_cast<unsigned>(i)));
    sum = sum ? b.CreateAdd(sum, term) : term;
  }
  return sum ? sum : i64(0);
}

} // namespace rlx
