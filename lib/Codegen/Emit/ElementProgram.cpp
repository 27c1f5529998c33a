//===- ElementProgram.cpp - straight-line code over lanes -----------------===//
#include "rlx/Codegen/ElementProgram.h"

#include "rlx/Codegen/Math.h"
#include "rlx/Data/Opcode.h"

#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/APSInt.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/IR/Intrinsics.h"

#include <limits>

using namespace llvm;

namespace rlx {

using data::ElementType;
using data::Instr;
using data::Opcode;

//===----------------------------------------------------------------------===//
// Checking
//===----------------------------------------------------------------------===//

namespace {

bool isComparison(Opcode op) { return op >= Opcode::Equal && op <= Opcode::GreaterEqual; }

/// Whether the opcode works on operands of this type.
bool existsFor(Opcode op, ElementType type) {
  bool isFloat = isFloatType(type), isInteger = isIntegerType(type);
  switch (op) {
  case Opcode::Add:
  case Opcode::Sub:
  case Opcode::Mul:
  case Opcode::Div:
  case Opcode::Mod:
  case Opcode::Rem:
  case Opcode::Pow:
  case Opcode::Neg:
  case Opcode::Abs:
  case Opcode::Sign:
    return isFloat || isInteger;
  case Opcode::And:
  case Opcode::Or:
  case Opcode::Xor:
  case Opcode::Not:
    return !isFloat;
  case Opcode::ShiftLeft:
  case Opcode::ShiftRight:
    return isInteger;
  case Opcode::Exp:
  case Opcode::Log:
  case Opcode::Sqrt:
  case Opcode::Rsqrt:
  case Opcode::Reciprocal:
  case Opcode::Tanh:
  case Opcode::Erf:
  case Opcode::Sigmoid:
  case Opcode::Sin:
  case Opcode::Cos:
  case Opcode::Floor:
  case Opcode::Ceil:
  case Opcode::Round:
  case Opcode::Gelu:
  case Opcode::GeluTanh:
  case Opcode::IsNaN:
  case Opcode::IsInf:
    return isFloat;
  default:
    return true;
  }
}

} // namespace

Result<std::vector<ElementType>> checkProgram(std::span<const Instr> program, std::span<const ElementType> inputs) {
  std::vector<ElementType> types(inputs.begin(), inputs.end());
  for (size_t i = 0; i < program.size(); ++i) {
    const Instr &instr = program[i];
    auto fail = [&](const std::string &why) {
      return Error{ErrorCode::InvalidArgument,
                   "element program, instruction " + std::to_string(i) + " (" +
                       (instr.op() <= Opcode::MAX ? data::EnumNameOpcode(instr.op()) : "?") + "): " + why};
    };
    if (instr.op() > Opcode::MAX)
      return fail("unknown opcode");
    if (instr.type() > ElementType::MAX)
      return fail("unknown type");
    unsigned count = operandCount(instr.op());
    uint16_t numbers[] = {instr.a(), instr.b(), instr.c()};
    ElementType operand[3] = {};
    for (unsigned k = 0; k < count; ++k) {
      if (numbers[k] >= types.size())
        return fail("operand " + std::to_string(k) + " is no earlier value");
      operand[k] = types[numbers[k]];
    }
    bool fits = true;
    switch (instr.op()) {
    case Opcode::Constant:
    case Opcode::Convert:
      break;
    case Opcode::Select:
      fits = operand[0] == ElementType::I1 && operand[1] == instr.type() && operand[2] == instr.type();
      break;
    case Opcode::Philox:
      fits = instr.type() == ElementType::U32 && operand[0] == ElementType::U64 && operand[1] == ElementType::U64 &&
             operand[2] == ElementType::U64;
      break;
    case Opcode::IsNaN:
    case Opcode::IsInf:
      fits = instr.type() == ElementType::I1 && existsFor(instr.op(), operand[0]);
      break;
    default:
      if (isComparison(instr.op()))
        fits = instr.type() == ElementType::I1 && operand[0] == operand[1];
      else
        fits = operand[0] == instr.type() && (count < 2 || operand[1] == instr.type()) &&
               existsFor(instr.op(), instr.type());
    }
    if (!fits) {
      std::string given;
      for (unsigned k = 0; k < count; ++k)
        given += std::string(k ? ", " : "") + elementTypeName(operand[k]);
      return fail("does not take (" + given + ") to " + elementTypeName(instr.type()));
    }
    types.push_back(instr.type());
  }
  return types;
}

//===----------------------------------------------------------------------===//
// Conversions
//===----------------------------------------------------------------------===//

ElementType computeType(ElementType type) {
  return type == ElementType::F16 || type == ElementType::BF16 ? ElementType::F32 : type;
}

namespace {

class Converter {
public:
  Converter(Emitter &e, unsigned W) : e(e), b(e.b), W(W) {}

  /// f16 and bf16 to f32 lanes; the others as they are.
  Value *widen(Lanes x) {
    if (x.type == ElementType::F16)
      return b.CreateFPExt(x.value, lanes(b.getFloatTy()));
    if (x.type == ElementType::BF16)
      return b.CreateBitCast(b.CreateShl(b.CreateZExt(x.value, lanes(b.getInt32Ty())), 16), lanes(b.getFloatTy()));
    return x.value;
  }

  /// f32 lanes to f16 or bf16; lanes of other types as they are.
  Value *narrow(Value *x, ElementType to) {
    if (to == ElementType::F16)
      return b.CreateFPTrunc(x, lanes(b.getHalfTy()));
    if (to != ElementType::BF16)
      return x;
    // Half to even in integers; the machine's own conversion would be a call.
    Value *bits = b.CreateBitCast(x, lanes(b.getInt32Ty()));
    Value *high = b.CreateLShr(bits, 16);
    Value *odd = b.CreateAnd(high, splatInt(bits, 1));
    Value *rounded = b.CreateLShr(b.CreateAdd(bits, b.CreateAdd(odd, splatInt(bits, 0x7fff))), 16);
    Value *quiet = b.CreateOr(high, splatInt(bits, 0x40));
    return b.CreateTrunc(b.CreateSelect(b.CreateFCmpUNO(x, x), quiet, rounded), lanes(b.getInt16Ty()));
  }

  Value *convert(Lanes from, ElementType to) {
    if (from.type == to)
      return from.value;
    if (to == ElementType::I1)
      return isFloatType(from.type) ? b.CreateFCmpUNE(widen(from), Constant::getNullValue(widen(from)->getType()))
                                    : b.CreateICmpNE(from.value, Constant::getNullValue(from.value->getType()));
    if (from.type == ElementType::I1)
      return b.CreateSelect(from.value, e.constant(to, oneBits(to), W), e.constant(to, 0, W));
    if (isFloatType(from.type))
      return isFloatType(to) ? floatToFloat(from, to) : floatToInteger(from, to);
    return isFloatType(to) ? integerToFloat(from, to) : integerToInteger(from, to);
  }

  static uint64_t oneBits(ElementType type) {
    switch (type) {
    case ElementType::F16:
      return 0x3c00;
    case ElementType::BF16:
      return 0x3f80;
    case ElementType::F32:
      return 0x3f800000;
    case ElementType::F64:
      return 0x3ff0000000000000;
    default:
      return 1;
    }
  }

private:
  Type *lanes(Type *type) { return e.lanes(type, W); }
  Value *splatInt(Value *like, uint64_t value) { return ConstantInt::get(like->getType(), value); }

  Value *integerToInteger(Lanes from, ElementType to) {
    Type *type = lanes(e.laneType(to));
    return isUnsignedType(from.type) ? b.CreateZExtOrTrunc(from.value, type) : b.CreateSExtOrTrunc(from.value, type);
  }

  /// Cut to what the type holds while still a float, which leaves instructions that vectors have; the largest integer
  /// of 32 and 64 bits is no float, so it is put in afterwards.
  Value *floatToInteger(Lanes from, ElementType to) {
    Value *x = widen(from);
    Type *type = x->getType();
    unsigned bits = 8 * static_cast<unsigned>(elementBytes(to));
    bool isUnsigned = isUnsignedType(to);
    APSInt lowest = APSInt::getMinValue(bits, isUnsigned), highest = APSInt::getMaxValue(bits, isUnsigned);
    auto constant = [&](const APSInt &value, bool &exact) {
      APFloat number(type->getScalarType()->getFltSemantics());
      exact = number.convertFromAPInt(value, value.isSigned(), APFloat::rmTowardZero) == APFloat::opOK;
      return ConstantFP::get(type, number);
    };
    bool exact;
    Constant *low = constant(lowest, exact), *high = constant(highest, exact);
    Value *above = b.CreateFCmpOGT(x, high);
    Value *cut = b.CreateSelect(above, high, x);
    // NaN comes out of neither comparison.
    cut = b.CreateSelect(b.CreateFCmpOLT(cut, low), low, cut);
    cut = b.CreateSelect(b.CreateFCmpUNO(x, x), Constant::getNullValue(type), cut);
    // Narrow ones by way of 32 bits.
    Type *wide = lanes(bits < 32 ? b.getInt32Ty() : b.getIntNTy(bits));
    Value *whole = isUnsigned && bits >= 32 ? b.CreateFPToUI(cut, wide) : b.CreateFPToSI(cut, wide);
    if (bits < 32)
      return b.CreateTrunc(whole, lanes(e.laneType(to)));
    return exact ? whole : b.CreateSelect(above, ConstantInt::get(wide, highest), whole);
  }

  Value *floatToFloat(Lanes from, ElementType to) {
    Value *x = widen(from);
    if (from.type != ElementType::F64)
      return to == ElementType::F64 ? b.CreateFPExt(x, lanes(b.getDoubleTy())) : narrow(x, to);
    if (to == ElementType::F32)
      return b.CreateFPTrunc(x, lanes(b.getFloatTy()));
    return narrow(truncateToOdd(x), to);
  }

  /// f64 to f32, cut off towards zero with the last bit set if anything was lost: rounding that again to half or fewer
  /// bits gives what rounding the double at once would.
  Value *truncateToOdd(Value *x) {
    Value *near = b.CreateFPTrunc(x, lanes(b.getFloatTy()));
    Value *back = b.CreateFPExt(near, x->getType());
    Value *above =
        b.CreateFCmpOGT(b.CreateUnaryIntrinsic(Intrinsic::fabs, back), b.CreateUnaryIntrinsic(Intrinsic::fabs, x));
    Value *inexact = b.CreateFCmpONE(back, x);
    Value *bits = b.CreateBitCast(near, lanes(b.getInt32Ty()));
    bits = b.CreateSub(bits, b.CreateZExt(above, bits->getType()));
    bits = b.CreateOr(bits, b.CreateZExt(inexact, bits->getType()));
    return b.CreateBitCast(bits, near->getType());
  }

  Value *integerToFloat(Lanes from, ElementType to) {
    bool isUnsigned = isUnsignedType(from.type);
    auto plain = [&](Value *x, Type *type) {
      return isUnsigned ? b.CreateUIToFP(x, lanes(type)) : b.CreateSIToFP(x, lanes(type));
    };
    if (to == ElementType::F64)
      return plain(from.value, b.getDoubleTy());
    // Exact in f32, or infinite in f16 whatever the rounding.
    if (to != ElementType::BF16 || elementBytes(from.type) <= 2)
      return narrow(plain(from.value, b.getFloatTy()), to);
    if (elementBytes(from.type) == 4)
      return narrow(truncateToOdd(plain(from.value, b.getDoubleTy())), to);
    // 64 bits to bf16: the top 53 bits, the last one standing for all below, fit a double.
    Value *x = from.value;
    Value *top = isUnsigned ? b.CreateLShr(x, 11) : b.CreateAShr(x, 11);
    Value *lost = b.CreateICmpNE(b.CreateAnd(x, splatInt(x, 0x7ff)), splatInt(x, 0));
    top = b.CreateOr(top, b.CreateZExt(lost, x->getType()));
    Value *scaled = b.CreateFMul(plain(top, b.getDoubleTy()), e.f64(2048, W));
    // Small values would lose bits that count.
    Value *size = isUnsigned ? x : b.CreateBinaryIntrinsic(Intrinsic::abs, x, b.getFalse());
    Value *small = b.CreateICmpULT(size, splatInt(x, uint64_t(1) << 53));
    Value *exact = plain(b.CreateSelect(small, x, splatInt(x, 0)), b.getDoubleTy());
    return narrow(truncateToOdd(b.CreateSelect(small, exact, scaled)), to);
  }

  Emitter &e;
  IRBuilder<> &b;
  unsigned W;
};

} // namespace

Value *emitConvert(Emitter &e, Lanes from, ElementType to, unsigned W) { return Converter(e, W).convert(from, to); }

//===----------------------------------------------------------------------===//
// Instructions
//===----------------------------------------------------------------------===//

Value *emitMax(Emitter &e, Value *a, Value *b, ElementType type) {
  if (isFloatType(type)) {
    assert(computeType(type) == type && "f16 and bf16 are compared as f32");
    return math::maximum(e, a, b);
  }
  if (type == ElementType::I1)
    return e.b.CreateOr(a, b);
  return e.b.CreateBinaryIntrinsic(isUnsignedType(type) ? Intrinsic::umax : Intrinsic::smax, a, b);
}

Value *emitMin(Emitter &e, Value *a, Value *b, ElementType type) {
  if (isFloatType(type)) {
    assert(computeType(type) == type && "f16 and bf16 are compared as f32");
    return math::minimum(e, a, b);
  }
  if (type == ElementType::I1)
    return e.b.CreateAnd(a, b);
  return e.b.CreateBinaryIntrinsic(isUnsignedType(type) ? Intrinsic::umin : Intrinsic::smin, a, b);
}

namespace {

/// Integer operations that need more than one instruction.
class IntegerOps {
public:
  IntegerOps(Emitter &e, ElementType type, unsigned W) : e(e), b(e.b), isUnsigned(isUnsignedType(type)), W(W) {}

  Value *divide(Opcode op, Value *x, Value *y, Value *element, Value *active) {
    Value *zero = constant(y, 0), *one = constant(y, 1), *allOnes = Constant::getAllOnesValue(y->getType());
    Value *byZero = b.CreateICmpEQ(y, zero);
    if (active) {
      y = b.CreateSelect(active, y, one);
      byZero = b.CreateAnd(byZero, active);
    }
    e.failIf(byZero, ErrorKind::DivisionByZero, 0, element, nullptr, nullptr, W);
    if (isUnsigned)
      return op == Opcode::Div ? b.CreateUDiv(x, y) : b.CreateURem(x, y);
    // The machine traps on INT_MIN / -1.
    Value *byMinusOne = b.CreateICmpEQ(y, allOnes);
    Value *divisor = b.CreateSelect(byMinusOne, one, y);
    if (op == Opcode::Div)
      return b.CreateSelect(byMinusOne, b.CreateNeg(x), b.CreateSDiv(x, divisor));
    Value *rest = b.CreateSRem(x, divisor); // by 1 instead of -1: 0 in both cases
    if (op == Opcode::Rem)
      return rest;
    Value *apart = b.CreateAnd(b.CreateICmpSLT(b.CreateXor(rest, y), zero), b.CreateICmpNE(rest, zero));
    return b.CreateSelect(apart, b.CreateAdd(rest, y), rest);
  }

  /// Wraps; x to a negative power is 0 but for 1 and -1.
  Value *power(Value *x, Value *y) {
    Value *zero = constant(y, 0), *one = constant(y, 1);
    Value *negative = isUnsigned ? nullptr : b.CreateICmpSLT(y, zero);
    Value *exponent = negative ? b.CreateSelect(negative, zero, y) : y;
    Emitter::Values last = e.whileLoop(
        {one, x, exponent}, [&](ArrayRef<Value *> now) { return e.any(b.CreateICmpNE(now[2], zero)); },
        [&](ArrayRef<Value *> now) -> Emitter::Values {
          Value *odd = b.CreateICmpNE(b.CreateAnd(now[2], one), zero);
          return {b.CreateSelect(odd, b.CreateMul(now[0], now[1]), now[0]), b.CreateMul(now[1], now[1]),
                  b.CreateLShr(now[2], one)};
        });
    Value *result = last[0];
    if (!negative)
      return result;
    Value *minusOne = Constant::getAllOnesValue(y->getType());
    Value *even = b.CreateICmpEQ(b.CreateAnd(y, one), zero);
    Value *inverse = b.CreateSelect(b.CreateICmpEQ(x, minusOne), b.CreateSelect(even, one, minusOne),
                                    b.CreateSelect(b.CreateICmpEQ(x, one), one, zero));
    return b.CreateSelect(negative, inverse, result);
  }

  /// Amounts of the width and more shift everything out (negative ones count as such).
  Value *shift(Opcode op, Value *x, Value *y) {
    unsigned width = x->getType()->getScalarSizeInBits();
    Value *fits = b.CreateICmpULT(y, constant(y, width));
    if (op == Opcode::ShiftRight && !isUnsigned)
      return b.CreateAShr(x, b.CreateSelect(fits, y, constant(y, width - 1)));
    Value *amount = b.CreateSelect(fits, y, constant(y, 0));
    Value *shifted = op == Opcode::ShiftLeft ? b.CreateShl(x, amount) : b.CreateLShr(x, amount);
    return b.CreateSelect(fits, shifted, constant(y, 0));
  }

  Value *sign(Value *x) {
    Value *zero = constant(x, 0);
    Value *above = b.CreateZExt(isUnsigned ? b.CreateICmpNE(x, zero) : b.CreateICmpSGT(x, zero), x->getType());
    return isUnsigned ? above : b.CreateAdd(above, b.CreateSExt(b.CreateICmpSLT(x, zero), x->getType()));
  }

private:
  Value *constant(Value *like, uint64_t value) { return ConstantInt::get(like->getType(), value); }

  Emitter &e;
  IRBuilder<> &b;
  bool isUnsigned;
  unsigned W;
};

/// Word (index mod 4) of Philox4x32-10, see Opcode::Philox.
Value *emitPhilox(Emitter &e, Value *index, Value *seed, Value *step, uint64_t key, unsigned W) {
  IRBuilder<> &b = e.b;
  Type *i32 = e.lanes(b.getInt32Ty(), W), *i64 = e.lanes(b.getInt64Ty(), W);
  auto word = [&](Value *x) { return b.CreateTrunc(x, i32); };
  auto high = [&](Value *x) { return b.CreateTrunc(b.CreateLShr(x, 32), i32); };
  auto c32 = [&](uint32_t value) { return ConstantInt::get(i32, value); };
  Value *block = b.CreateLShr(index, 2);
  Value *counter[4] = {word(block), high(block), c32(static_cast<uint32_t>(key)), word(step)};
  Value *keys[2] = {word(seed), high(seed)};
  for (unsigned round = 0; round < 10; ++round) {
    if (round) {
      keys[0] = b.CreateAdd(keys[0], c32(0x9E3779B9));
      keys[1] = b.CreateAdd(keys[1], c32(0xBB67AE85));
    }
    Value *p0 = b.CreateMul(b.CreateZExt(counter[0], i64), ConstantInt::get(i64, 0xD2511F53));
    Value *p1 = b.CreateMul(b.CreateZExt(counter[2], i64), ConstantInt::get(i64, 0xCD9E8D57));
    Value *next[4] = {b.CreateXor(b.CreateXor(high(p1), counter[1]), keys[0]), word(p1),
                      b.CreateXor(b.CreateXor(high(p0), counter[3]), keys[1]), word(p0)};
    std::copy(next, next + 4, counter);
  }
  Value *which = b.CreateAnd(word(index), c32(3));
  Value *low = b.CreateICmpEQ(b.CreateAnd(which, c32(1)), c32(0));
  return b.CreateSelect(b.CreateICmpULT(which, c32(2)), b.CreateSelect(low, counter[0], counter[1]),
                        b.CreateSelect(low, counter[2], counter[3]));
}

Value *emitCompare(Emitter &e, Opcode op, Value *x, Value *y, ElementType type) {
  if (isFloatType(type)) {
    CmpInst::Predicate predicates[] = {CmpInst::FCMP_OEQ, CmpInst::FCMP_UNE, CmpInst::FCMP_OLT,
                                       CmpInst::FCMP_OLE, CmpInst::FCMP_OGT, CmpInst::FCMP_OGE};
    return e.b.CreateFCmp(predicates[static_cast<int>(op) - static_cast<int>(Opcode::Equal)], x, y);
  }
  bool isUnsigned = isUnsignedType(type) || type == ElementType::I1;
  CmpInst::Predicate predicates[] = {CmpInst::ICMP_EQ,
                                     CmpInst::ICMP_NE,
                                     isUnsigned ? CmpInst::ICMP_ULT : CmpInst::ICMP_SLT,
                                     isUnsigned ? CmpInst::ICMP_ULE : CmpInst::ICMP_SLE,
                                     isUnsigned ? CmpInst::ICMP_UGT : CmpInst::ICMP_SGT,
                                     isUnsigned ? CmpInst::ICMP_UGE : CmpInst::ICMP_SGE};
  return e.b.CreateICmp(predicates[static_cast<int>(op) - static_cast<int>(Opcode::Equal)], x, y);
}

/// On f32 or f64 lanes.
Value *emitFloat(Emitter &e, Opcode op, Value *x, Value *y) {
  IRBuilder<> &b = e.b;
  auto c = [&](double value) { return ConstantFP::get(x->getType(), value); };
  switch (op) {
  case Opcode::Add:
    return b.CreateFAdd(x, y);
  case Opcode::Sub:
    return b.CreateFSub(x, y);
  case Opcode::Mul:
    return b.CreateFMul(x, y);
  case Opcode::Div:
    return b.CreateFDiv(x, y);
  case Opcode::Mod:
    return math::mod(e, x, y);
  case Opcode::Rem:
    return math::rem(e, x, y);
  case Opcode::Pow:
    return math::pow(e, x, y);
  case Opcode::Max:
    return math::maximum(e, x, y);
  case Opcode::Min:
    return math::minimum(e, x, y);
  case Opcode::Neg:
    return b.CreateFNeg(x);
  case Opcode::Abs:
    return b.CreateUnaryIntrinsic(Intrinsic::fabs, x);
  case Opcode::Sign: {
    // +-1; zeros give +0, NaN itself.
    Value *one = b.CreateBinaryIntrinsic(Intrinsic::copysign, c(1), x);
    Value *result = b.CreateSelect(b.CreateFCmpOEQ(x, c(0)), c(0), one);
    return b.CreateSelect(b.CreateFCmpUNO(x, x), x, result);
  }
  case Opcode::Exp:
    return math::exp(e, x);
  case Opcode::Log:
    return math::log(e, x);
  case Opcode::Sqrt:
    return b.CreateUnaryIntrinsic(Intrinsic::sqrt, x);
  case Opcode::Rsqrt:
    return b.CreateFDiv(c(1), b.CreateUnaryIntrinsic(Intrinsic::sqrt, x));
  case Opcode::Reciprocal:
    return b.CreateFDiv(c(1), x);
  case Opcode::Tanh:
    return math::tanh(e, x);
  case Opcode::Erf:
    return math::erf(e, x);
  case Opcode::Sigmoid:
    return math::sigmoid(e, x);
  case Opcode::Sin:
    return math::sin(e, x);
  case Opcode::Cos:
    return math::cos(e, x);
  case Opcode::Floor:
    return b.CreateUnaryIntrinsic(Intrinsic::floor, x);
  case Opcode::Ceil:
    return b.CreateUnaryIntrinsic(Intrinsic::ceil, x);
  case Opcode::Round:
    return b.CreateUnaryIntrinsic(Intrinsic::roundeven, x);
  case Opcode::Gelu:
    return math::gelu(e, x);
  case Opcode::GeluTanh:
    return math::geluTanh(e, x);
  default:
    llvm_unreachable("checkProgram lets no other opcode through for floats");
  }
}

Value *emitInteger(Emitter &e, Opcode op, Value *x, Value *y, ElementType type, Value *element, unsigned W,
                   Value *active) {
  IRBuilder<> &b = e.b;
  IntegerOps ops(e, type, W);
  switch (op) {
  case Opcode::Add:
    return b.CreateAdd(x, y);
  case Opcode::Sub:
    return b.CreateSub(x, y);
  case Opcode::Mul:
    return b.CreateMul(x, y);
  case Opcode::Div:
  case Opcode::Mod:
  case Opcode::Rem:
    return ops.divide(op, x, y, element, active);
  case Opcode::Pow:
    return ops.power(x, y);
  case Opcode::Max:
    return emitMax(e, x, y, type);
  case Opcode::Min:
    return emitMin(e, x, y, type);
  case Opcode::And:
    return b.CreateAnd(x, y);
  case Opcode::Or:
    return b.CreateOr(x, y);
  case Opcode::Xor:
    return b.CreateXor(x, y);
  case Opcode::ShiftLeft:
  case Opcode::ShiftRight:
    return ops.shift(op, x, y);
  case Opcode::Neg:
    return b.CreateNeg(x);
  case Opcode::Abs:
    return isUnsignedType(type) ? x : b.CreateBinaryIntrinsic(Intrinsic::abs, x, b.getFalse());
  case Opcode::Sign:
    return ops.sign(x);
  case Opcode::Not:
    return b.CreateNot(x);
  default:
    llvm_unreachable("checkProgram lets no other opcode through for integers");
  }
}

} // namespace

Value *emitInstr(Emitter &e, const Instr &instr, Lanes a, Lanes b, Lanes c, Value *element, unsigned W, Value *active) {
  Converter converter(e, W);
  switch (instr.op()) {
  case Opcode::Constant:
    return e.constant(instr.type(), instr.imm(), W);
  case Opcode::Convert:
    return converter.convert(a, instr.type());
  case Opcode::Select:
    return e.b.CreateSelect(a.value, b.value, c.value);
  case Opcode::Philox:
    return emitPhilox(e, a.value, b.value, c.value, instr.imm(), W);
  case Opcode::IsNaN: {
    Value *x = converter.widen(a);
    return e.b.CreateFCmpUNO(x, x);
  }
  case Opcode::IsInf: {
    Value *x = e.b.CreateUnaryIntrinsic(Intrinsic::fabs, converter.widen(a));
    return e.b.CreateFCmpOEQ(x, ConstantFP::getInfinity(x->getType()));
  }
  default:
    break;
  }
  Value *x = converter.widen(a);
  Value *y = b.value ? converter.widen(b) : nullptr;
  if (isComparison(instr.op()))
    return emitCompare(e, instr.op(), x, y, a.type);
  if (!isFloatType(instr.type()))
    return emitInteger(e, instr.op(), x, y, instr.type(), element, W, active);
  return converter.narrow(emitFloat(e, instr.op(), x, y), instr.type());
}

void emitProgram(Emitter &e, std::span<const Instr> program, SmallVectorImpl<Lanes> &values, Value *element, unsigned W,
                 Value *active) {
  for (const Instr &instr : program) {
    unsigned count = operandCount(instr.op());
    Lanes a = count > 0 ? values[instr.a()] : Lanes();
    Lanes b = count > 1 ? values[instr.b()] : Lanes();
    Lanes c = count > 2 ? values[instr.c()] : Lanes();
    values.push_back({emitInstr(e, instr, a, b, c, element, W, active), instr.type()});
  }
}

bool canFail(std::span<const Instr> program) {
  return llvm::any_of(program, [](const Instr &instr) {
    return (instr.op() == Opcode::Div || instr.op() == Opcode::Mod || instr.op() == Opcode::Rem) &&
           isIntegerType(instr.type());
  });
}

unsigned laneCount(const Emitter &e, std::span<const ElementType> types, std::span<const Instr> program) {
  int64_t widest = 1;
  for (ElementType type : types)
    widest = std::max(widest, elementBytes(computeType(type)));
  if (widest < 4)
    return widest == 1 ? 32 : 16;
  bool usesDoubles = llvm::any_of(program, [](const Instr &instr) {
    return llvm::is_contained({Opcode::Sin, Opcode::Cos, Opcode::Pow, Opcode::Mod, Opcode::Rem}, instr.op()) &&
           isFloatType(instr.type());
  });
  return widest == 4 && e.hasAVX512 && !usesDoubles ? 16 : 8;
}

} // namespace rlx
