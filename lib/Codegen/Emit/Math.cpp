//===- Math.cpp - vector math of our own ----------------------------------===//
//
// Coefficients come from utils/fit-math.py. Clamps are compare-and-select with
// the NaN falling through, which is one instruction. Functions of floats without
// a short polynomial are cut into eight pieces whose coefficients one permute
// each looks up: faster than an exponential or a quotient, and more exact.
//
//===----------------------------------------------------------------------===//
#include "rlx/Codegen/Math.h"

#include "llvm/IR/Intrinsics.h"
#include "llvm/IR/IntrinsicsX86.h"

#include <cmath>
#include <limits>

using namespace llvm;

namespace rlx::math {

namespace {
#include "MathCoefficients.inc"

/// Writes expressions over lanes of one width.
struct Lane {
  Emitter &e;
  IRBuilder<> &b;
  unsigned W;

  Lane(Emitter &e, Value *like)
      : e(e), b(e.b), W(like->getType()->isVectorTy() ? cast<FixedVectorType>(like->getType())->getNumElements() : 1) {}

  Type *f32() { return e.lanes(b.getFloatTy(), W); }
  Type *f64() { return e.lanes(b.getDoubleTy(), W); }
  Type *i32() { return e.lanes(b.getInt32Ty(), W); }
  Type *i64() { return e.lanes(b.getInt64Ty(), W); }
  /// The integer as wide as x's lanes.
  Type *bitsOf(Value *x) { return x->getType()->getScalarType()->isFloatTy() ? i32() : i64(); }

  Value *c(Value *like, double value) { return ConstantFP::get(like->getType(), value); }
  Value *ic(Value *like, uint64_t value) { return ConstantInt::get(like->getType(), value); }
  Value *fma(Value *x, Value *y, Value *z) { return b.CreateIntrinsic(Intrinsic::fma, {x->getType()}, {x, y, z}); }
  Value *abs(Value *x) { return b.CreateUnaryIntrinsic(Intrinsic::fabs, x); }
  Value *copysign(Value *x, Value *sign) { return b.CreateBinaryIntrinsic(Intrinsic::copysign, x, sign); }
  Value *bits(Value *x) { return b.CreateBitCast(x, bitsOf(x)); }
  Value *fromBits(Value *x) { return b.CreateBitCast(x, x->getType()->getScalarSizeInBits() == 32 ? f32() : f64()); }
  Value *select(Value *condition, Value *x, Value *y) { return b.CreateSelect(condition, x, y); }
  /// x > limit ? limit : x; NaN stays.
  Value *atMost(Value *x, double limit) {
    Value *l = c(x, limit);
    return select(b.CreateFCmpOGT(x, l), l, x);
  }
  Value *atLeast(Value *x, double limit) {
    Value *l = c(x, limit);
    return select(b.CreateFCmpOLT(x, l), l, x);
  }
  /// Horner; coefficients from the lowest, of which `skip` are left out.
  template <typename T, size_t N> Value *poly(const T (&coefficients)[N], Value *x, size_t skip = 0) {
    Value *sum = c(x, coefficients[N - 1]);
    for (size_t k = N - 1; k-- > skip;)
      sum = fma(sum, x, c(x, coefficients[k]));
    return sum;
  }
  /// p + q and what the sum lost.
  std::pair<Value *, Value *> twoSum(Value *p, Value *q) {
    Value *sum = b.CreateFAdd(p, q);
    Value *back = b.CreateFSub(sum, p);
    return {sum, b.CreateFAdd(b.CreateFSub(p, b.CreateFSub(sum, back)), b.CreateFSub(q, back))};
  }
  bool isDouble(Value *x) { return x->getType()->getScalarType()->isDoubleTy(); }

  /// Adding it rounds to an integer and leaves that in the low bits; NaN makes no undefined value on the way.
  double magic(Value *x) { return isDouble(x) ? 0x1.8p52 : 0x1.8p23; }
  unsigned mantissaBits(Value *x) { return isDouble(x) ? 52 : 23; }
  unsigned exponentBias(Value *x) { return isDouble(x) ? 1023 : 127; }
  struct Rounded {
    Value *value; ///< the integer as a float
    Value *bits;  ///< in the low bits the integer plus a bias; above them anything
  };
  /// x times factor, to the nearest integer.
  Rounded rounded(Value *x, double factor, unsigned bias = 0) {
    Value *m = c(x, magic(x) + bias);
    Value *shifted = fma(x, c(x, factor), m);
    return {b.CreateFSub(shifted, m), bits(shifted)};
  }
  /// 2^n from bits that hold n plus the exponent bias; what stands above them is shifted out.
  Value *pow2(Value *bits) {
    return fromBits(b.CreateShl(bits, ic(bits, bits->getType()->getScalarSizeInBits() == 64 ? 52 : 23)));
  }
  /// p * 2^n, rounded once, also into subnormals and beyond the largest; bits hold n plus twice the exponent bias.
  Value *scale(Value *p, Value *bits) {
    Value *half = b.CreateLShr(bits, ic(bits, 1));
    return b.CreateFMul(b.CreateFMul(p, pow2(half)), pow2(b.CreateSub(bits, half)));
  }
  /// As rounded(), for n up to 0: bits of which scaleDown() makes 2^n. f32 only.
  Rounded roundedDown(Value *x, double factor, int plus = 0) {
    return rounded(x, factor, static_cast<unsigned>(127 + 64 + plus));
  }
  /// p * 2^n, rounded once, also into subnormals.
  Value *scaleDown(Value *p, Value *bits) { return b.CreateFMul(b.CreateFMul(p, pow2(bits)), c(p, 0x1p-64)); }

  /// e^r - 1 for |r| <= ln2 / 2.
  Value *expm1Poly(Value *r) {
    Value *p = isDouble(r) ? poly(kExp64, r) : poly(kExp32, r);
    return fma(b.CreateFMul(r, r), p, r);
  }
  Value *expPoly(Value *r) { return b.CreateFAdd(expm1Poly(r), c(r, 1)); }
  struct Reduced {
    Value *r, *bits;
  };
  /// x = n ln2 + r; bits as rounded() makes them.
  Reduced reduceExp(Value *x, unsigned bias) {
    Rounded n = rounded(x, 1.4426950408889634, bias);
    // The high part has so few bits that n times it is exact.
    double high = isDouble(x) ? 0x1.62e42feep-1 : 0x1.63p-1;
    double low = static_cast<double>((static_cast<long double>(kLn2[0]) - high) + kLn2[1]);
    Value *r = fma(n.value, c(x, -high), x);
    return {fma(n.value, c(x, -low), r), n.bits};
  }

  /// An entry of a table of eight for each lane, by the low three bits of `index` (i32 lanes).
  Value *lookup(const float (&table)[8], Value *index) {
    SmallVector<Constant *, 16> entries;
    for (float entry : table)
      entries.push_back(ConstantFP::get(b.getFloatTy(), entry));
    if (W == 16 && e.hasAVX512) {
      entries.append(entries.begin(), entries.begin() + 8);
      return b.CreateIntrinsic(Intrinsic::x86_avx512_permvar_sf_512, {}, {ConstantVector::get(entries), index});
    }
    Value *eight = ConstantVector::get(entries);
    auto permute = [&](Value *lanes) { return b.CreateIntrinsic(Intrinsic::x86_avx2_permps, {}, {eight, lanes}); };
    auto eightFrom = [&](unsigned first) {
      SmallVector<int, 8> mask;
      for (unsigned lane = 0; lane < 8; ++lane)
        mask.push_back(first + lane < W ? static_cast<int>(first + lane) : -1);
      return mask;
    };
    if (W == 1) {
      Value *lanes = b.CreateInsertElement(PoisonValue::get(e.lanes(b.getInt32Ty(), 8)), index, uint64_t(0));
      return b.CreateExtractElement(permute(lanes), uint64_t(0));
    }
    if (W == 8)
      return permute(index);
    // In pieces of eight lanes, joined pairwise.
    SmallVector<Value *, 4> parts;
    for (unsigned first = 0; first < W; first += 8)
      parts.push_back(permute(b.CreateShuffleVector(index, eightFrom(first))));
    for (unsigned width = 8; parts.size() > 1; width *= 2) {
      SmallVector<int, 32> both;
      for (unsigned lane = 0; lane < 2 * width; ++lane)
        both.push_back(static_cast<int>(lane));
      for (size_t k = 0; k < parts.size() / 2; ++k)
        parts[k] = b.CreateShuffleVector(parts[2 * k], parts[2 * k + 1], both);
      parts.truncate(parts.size() / 2);
    }
    if (W < 8)
      return b.CreateShuffleVector(parts[0], ArrayRef<int>(eightFrom(0)).take_front(W));
    return parts[0];
  }
  /// The piece that `index` names of a function cut by utils/fit-math.py; `first` says where that is the first one.
  template <size_t Rows> Value *piece(const float (&table)[Rows][8], Value *u, Value *index, Value *first) {
    Value *d = b.CreateFSub(u, lookup(table[0], index));
    Value *sum = lookup(table[Rows - 1], index);
    for (size_t k = Rows - 2; k > 1; --k)
      sum = fma(sum, d, lookup(table[k], index));
    return fma(sum, d, select(first, u, lookup(table[1], index)));
  }
  /// Made by emitOctaves(), for 0 <= u <= top.
  template <size_t Rows> Value *octaves(const float (&table)[Rows][8], double top, Value *u) {
    Value *s = fma(u, c(u, 15 / top), c(u, 1));
    return piece(table, u, b.CreateLShr(bits(s), 22), b.CreateFCmpOLT(s, c(s, 1.5)));
  }
  /// Made by emitSquares().
  template <size_t Rows> Value *squares(const float (&table)[Rows][8], const double (&at)[2], Value *u) {
    Value *m = c(u, magic(u));
    Value *shifted = fma(u, fma(u, c(u, at[0]), c(u, at[1])), m);
    return piece(table, u, bits(shifted), b.CreateFCmpOLE(shifted, m));
  }

  /// above - product, with the sign of x: half of `twiceNear` is the product where |x| <= limit. Beyond it far() is,
  /// and so rarely that mostly no lane asks for it.
  Value *nearOrFar(Value *x, Value *above, double limit, Value *twiceNear, function_ref<Value *()> far) {
    Value *near = fma(twiceNear, c(x, -0.5), above);
    Value *isFar = b.CreateFCmpOGT(abs(x), c(x, limit));
    Value *result = e.ifRarely(
        e.any(isFar), [&] { return Emitter::Values{select(isFar, b.CreateFSub(above, far()), near)}; }, near)[0];
    return copysign(result, x);
  }

  /// A number and what it lacks of the exact value.
  struct Split {
    Value *high, *low;
  };
  /// (n.high + n.low) / (d.high + d.low), all but rounded once, for 1 <= d <= 2.
  Value *quotient(Split n, Split d) {
    Value *first = b.CreateFDiv(n.high, d.high);
    Value *rest = b.CreateFAdd(fma(b.CreateFNeg(first), d.high, n.high), n.low);
    rest = fma(b.CreateFNeg(first), d.low, rest);
    // A twentieth of the correction does not matter, so 1 / d is taken as a straight line.
    return fma(rest, fma(d.high, c(first, -0.5), c(first, 1.457)), first);
  }
  /// u (1 + q), |q| <= 0.42.
  Split grown(Value *u, Value *q) {
    Value *high = fma(q, u, u);
    return {high, fma(q, u, b.CreateFSub(u, high))};
  }
  /// 1 + (1 + q) p for 0 <= p <= 1, |q| <= 0.42.
  Split onePlus(Value *q, Value *p) {
    Value *one = c(q, 1);
    Value *high = fma(b.CreateFAdd(q, one), p, one);
    return {high, fma(q, p, b.CreateFSub(p, b.CreateFSub(high, one)))};
  }
};

} // namespace

Value *fma(Emitter &e, Value *a, Value *b, Value *c) { return Lane(e, a).fma(a, b, c); }

Value *maximum(Emitter &e, Value *a, Value *b) { return e.b.CreateBinaryIntrinsic(Intrinsic::maximum, a, b); }
Value *minimum(Emitter &e, Value *a, Value *b) { return e.b.CreateBinaryIntrinsic(Intrinsic::minimum, a, b); }

Value *exp(Emitter &e, Value *x) {
  Lane l(e, x);
  // Beyond these the result is infinite or rounds to zero.
  x = l.atMost(x, l.isDouble(x) ? 710 : 89);
  x = l.atLeast(x, l.isDouble(x) ? -746 : -104);
  auto [r, bits] = l.reduceExp(x, 2 * l.exponentBias(x));
  return l.scale(l.expPoly(r), bits);
}

Value *expOfNegative(Emitter &e, Value *x) {
  Lane l(e, x);
  double lowest = l.isDouble(x) ? -708.39 : -87.33;
  Value *clamped = l.atLeast(x, lowest);
  auto [r, bits] = l.reduceExp(clamped, l.exponentBias(x));
  Value *power = e.b.CreateFMul(l.expPoly(r), l.pow2(bits));
  return l.select(e.b.CreateFCmpOLT(x, l.c(x, lowest)), l.c(x, 0), power);
}

namespace {

/// x = 2^k (1 + f), sqrt(1/2) <= 1 + f < sqrt(2); for x above 0 and finite.
struct LogParts {
  Value *f, *k;
};
LogParts splitLog(Lane &l, Value *x) {
  bool wide = l.isDouble(x);
  IRBuilder<> &b = l.b;
  Value *small = b.CreateFCmpOLT(x, l.c(x, wide ? 0x1p-1022 : 0x1p-126));
  Value *scaled = l.select(small, b.CreateFMul(x, l.c(x, wide ? 0x1p54 : 0x1p25)), x);
  Value *bits = l.bits(scaled);
  Value *root = wide ? l.ic(bits, 0x3fe6a09e667f3bcdull) : l.ic(bits, 0x3f3504f3);
  Value *above = b.CreateSub(bits, root);
  unsigned shift = wide ? 52 : 23;
  // The exponent as a float without a conversion of 64-bit integers, which AVX2 lacks: its bits under a magic number.
  Value *k;
  Value *exponent = b.CreateAShr(above, l.ic(bits, shift));
  if (wide) {
    Value *m = l.c(x, 0x1.8p52);
    k = b.CreateFSub(l.fromBits(b.CreateAdd(l.bits(m), exponent)), m);
  } else {
    k = b.CreateSIToFP(exponent, x->getType());
  }
  k = b.CreateFSub(k, l.select(small, l.c(x, wide ? 54 : 25), l.c(x, 0)));
  Value *m = l.fromBits(b.CreateAdd(b.CreateAnd(above, l.ic(bits, (uint64_t(1) << shift) - 1)), root));
  return {b.CreateFSub(m, l.c(x, 1)), k};
}

/// The edges of log: 0 gives -inf, below 0 and NaN give NaN, +inf itself.
Value *logEdges(Lane &l, Value *x, Value *result) {
  double infinity = std::numeric_limits<double>::infinity();
  Value *zero = l.c(x, 0);
  result = l.select(l.b.CreateFCmpOEQ(x, l.c(x, infinity)), x, result);
  result = l.select(l.b.CreateFCmpOEQ(x, zero), l.c(x, -infinity), result);
  return l.select(l.b.CreateFCmpULT(x, zero), l.c(x, std::numeric_limits<double>::quiet_NaN()), result);
}

} // namespace

Value *log(Emitter &e, Value *x) {
  Lane l(e, x);
  IRBuilder<> &b = l.b;
  auto [f, k] = splitLog(l, x);
  Value *result;
  if (l.isDouble(x)) {
    // s = f / (2 + f): log(1 + f) = f - (h - s (h + R)), h = f^2 / 2.
    Value *s = b.CreateFDiv(f, b.CreateFAdd(f, l.c(x, 2)));
    Value *z = b.CreateFMul(s, s);
    Value *tail = b.CreateFMul(z, l.poly(kLog64, z));
    Value *h = b.CreateFMul(b.CreateFMul(f, f), l.c(x, 0.5));
    Value *low = l.fma(k, l.c(x, 0x1.a39ef35793c76p-33), b.CreateFMul(s, b.CreateFAdd(h, tail)));
    result = l.fma(k, l.c(x, 0x1.62e42feep-1), b.CreateFSub(f, b.CreateFSub(h, low)));
  } else {
    Value *z = b.CreateFMul(f, f);
    Value *tail = b.CreateFMul(b.CreateFMul(z, f), l.poly(kLog32, f));
    tail = l.fma(k, l.c(x, -2.12194440054690583e-4), tail);
    tail = l.fma(z, l.c(x, -0.5), tail);
    result = l.fma(k, l.c(x, 0.693359375), b.CreateFAdd(f, tail));
  }
  return logEdges(l, x, result);
}

// The functions below that are odd, or all but so, take |x| and give the result the sign of x at the end, where their
// polynomials made +0 of -0.

Value *tanh(Emitter &e, Value *x) {
  Lane l(e, x);
  IRBuilder<> &b = l.b;
  Value *u = l.abs(x);
  if (!l.isDouble(x)) // from 9.02 on it is 1
    return l.copysign(l.octaves(kTanhPieces, 9.1, l.atMost(u, 9.09)), x);
  Value *z = b.CreateFMul(x, x);
  Value *small = l.fma(b.CreateFMul(x, z), l.poly(kTanh64, z), x);
  // 1 - 2 / (e^2u + 1); from 22 on it is 1.
  Value *clamped = l.atMost(u, 22);
  auto [r, bits] = l.reduceExp(b.CreateFAdd(clamped, clamped), l.exponentBias(x));
  Value *power = b.CreateFMul(l.expPoly(r), l.pow2(bits));
  Value *large = b.CreateFSub(l.c(x, 1), b.CreateFDiv(l.c(x, 2), b.CreateFAdd(power, l.c(x, 1))));
  return l.copysign(l.select(b.CreateFCmpOLT(u, l.c(x, 0.625)), small, large), x);
}

Value *erf(Emitter &e, Value *x) {
  Lane l(e, x);
  IRBuilder<> &b = l.b;
  Value *u = l.abs(x);
  if (!l.isDouble(x)) // from 3.92 on it is 1
    return l.copysign(l.octaves(kErfPieces, 4, l.atMost(u, 3.99)), x);
  Value *small = l.fma(x, l.poly(kErf64, b.CreateFMul(x, x)), x);
  Value *t = l.atMost(u, 6);
  // t^2 in two parts, so that exp sees all of it.
  Value *square = b.CreateFMul(t, t);
  Value *rest = l.fma(t, t, b.CreateFNeg(square));
  auto [r, bits] = l.reduceExp(b.CreateFNeg(square), l.exponentBias(x));
  Value *decay = b.CreateFMul(l.expPoly(b.CreateFSub(r, rest)), l.pow2(bits));
  Value *v = b.CreateFDiv(b.CreateFSub(t, l.c(t, 3)), b.CreateFAdd(t, l.c(t, 3)));
  Value *erfcx = b.CreateFDiv(l.poly(kErfcx64, v), l.fma(t, l.c(t, 2), l.c(t, 1)));
  Value *large = b.CreateFSub(l.c(x, 1), b.CreateFMul(decay, erfcx));
  return l.copysign(l.select(b.CreateFCmpOLT(u, l.c(x, 1)), small, large), x);
}

Value *sigmoid(Emitter &e, Value *x) {
  // With 2^n (1 + q) = e^-|x|: 1 / (1 + e^-|x|), and e^-|x| times that below zero.
  Lane l(e, x);
  IRBuilder<> &b = l.b;
  bool wide = l.isDouble(x);
  Value *one = l.c(x, 1), *zero = l.c(x, 0);
  Value *u = l.atMost(l.abs(x), wide ? 746 : 105);
  Value *below = b.CreateFCmpOLT(x, zero);
  auto [r, bits] = l.reduceExp(b.CreateFNeg(u), l.exponentBias(x) * 2);
  Value *q = l.expm1Poly(r);
  // 2^n in two factors, because it may be subnormal; the sum with 1 does not mind.
  Value *half = b.CreateLShr(bits, l.ic(bits, 1));
  Value *p1 = l.pow2(half), *p2 = l.pow2(b.CreateSub(bits, half));
  Lane::Split n = l.grown(one, q);
  n = {l.select(below, n.high, one), l.select(below, n.low, zero)};
  Value *ratio = l.quotient(n, l.onePlus(q, b.CreateFMul(p1, p2)));
  return b.CreateFMul(b.CreateFMul(ratio, l.select(below, p1, one)), l.select(below, p2, one));
}

Value *gelu(Emitter &e, Value *x) {
  // x Phi(x) = max(x, 0) - u Phi(-u) with u = |x|, and 2 u Phi(-u) = e^(-u^2 / 2) R(u), R(u) = u erfcx(u / sqrt 2):
  // where the result is small it is this product alone, and keeps its precision down to the smallest numbers. Near zero
  // the product is cut into pieces itself.
  Lane l(e, x);
  IRBuilder<> &b = l.b;
  Value *zero = l.c(x, 0);
  Value *above = l.select(b.CreateFCmpOGT(x, zero), x, zero);
  if (!l.isDouble(x))
    return l.nearOrFar(x, above, 4.74, l.squares(kGeluNear, kGeluNearAt, l.abs(x)), [&] {
      Value *u = l.atMost(l.abs(x), 14.9);
      Value *R = l.octaves(kGeluPieces, 15, u);
      // The square in two parts, so that exp sees all of it.
      Value *square = b.CreateFMul(u, u);
      Value *rest = l.fma(u, u, b.CreateFNeg(square));
      Lane::Rounded n = l.roundedDown(square, -0.72134752044448171, -1);
      Value *r = l.fma(n.value, l.c(x, kTwiceLn2[0]), square);
      r = b.CreateFAdd(l.fma(n.value, l.c(x, kTwiceLn2[1]), r), rest);
      Value *q = l.fma(b.CreateFMul(r, r), l.poly(kExpHalf32, r), b.CreateFMul(r, l.c(r, -0.5)));
      return l.scaleDown(l.fma(q, R, R), n.bits);
    });
  Value *half = l.c(x, 0.5), *size = l.abs(x);
  Value *u = l.atMost(size, 39);
  Value *v = b.CreateFDiv(b.CreateFSub(u, l.c(x, 2.5)), b.CreateFAdd(u, l.c(x, 3)));
  Value *inner = l.poly(kGelu64, v, 1), *first = l.c(x, kGelu64[0]);
  Value *R = l.fma(v, inner, first);
  Value *lost = b.CreateFAdd(l.fma(v, inner, b.CreateFSub(first, R)), l.c(x, kGelu64Low));
  Value *square = b.CreateFMul(u, u);
  Value *rest = l.fma(u, u, b.CreateFNeg(square));
  Lane::Reduced reduced = l.reduceExp(b.CreateFMul(square, l.c(x, -0.5)), 2 * l.exponentBias(x) - 1);
  Value *q = l.expm1Poly(l.fma(rest, l.c(x, -0.5), reduced.r));
  Value *below = l.scale(b.CreateFAdd(R, l.fma(q, R, lost)), reduced.bits);
  Value *large = b.CreateFSub(above, below);
  // Below 1: x/2 + x^2 P(x^2), where the terms of opposite sign are summed in two parts.
  Value *halved = b.CreateFMul(x, half), *first2 = l.c(x, kPhi64[0]);
  Value *tail = l.poly(kPhi64, square, 1);
  Value *P = l.fma(square, tail, first2);
  Value *PLow = l.fma(square, tail, b.CreateFSub(first2, P));
  Value *product = b.CreateFMul(square, P);
  Value *productLow = l.fma(square, P, b.CreateFNeg(product));
  productLow = b.CreateFAdd(l.fma(square, PLow, productLow), b.CreateFMul(rest, P));
  Value *sum = b.CreateFAdd(halved, product);
  Value *sumLow = b.CreateFSub(product, b.CreateFSub(sum, halved));
  Value *small = b.CreateFAdd(sum, b.CreateFAdd(sumLow, productLow));
  return l.copysign(l.select(b.CreateFCmpOLT(size, l.c(x, 1)), small, large), x);
}

Value *geluTanh(Emitter &e, Value *x) {
  // (1 + tanh y) / 2 = 1 / (1 + e^-2y), 2y = 2 sqrt(2 / pi) (x + 0.044715 x^3). So it is max(x, 0) - u z / (1 + z) with
  // u = |x| and z = e^-2y(u) = 2^n (1 + q).
  Lane l(e, x);
  IRBuilder<> &b = l.b;
  bool wide = l.isDouble(x);
  Value *zero = l.c(x, 0);
  Value *above = l.select(b.CreateFCmpOGT(x, zero), x, zero);
  if (!wide)
    return l.nearOrFar(x, above, 4.49, l.squares(kGeluTanhNear, kGeluTanhNearAt, l.abs(x)), [&] {
      // 2y = c (u^3 + u / 0.044715) in two parts, for it is up to 110 and its absolute error counts; c goes into the
      // constants of the exponential. Beyond 11 the product rounds to zero.
      Value *u = l.atMost(l.abs(x), 11);
      Value *ratio = l.c(x, kGeluRatio[0]);
      Value *sum = l.fma(u, u, ratio);
      Value *sumLow = b.CreateFAdd(l.fma(u, u, b.CreateFSub(ratio, sum)), l.c(x, kGeluRatio[1]));
      Value *y = b.CreateFMul(u, sum);
      Value *yLow = l.fma(u, sumLow, l.fma(u, sum, b.CreateFNeg(y)));
      Lane::Rounded n = l.roundedDown(y, -kGeluCubic[0] * 1.4426950408889634);
      Value *r = l.fma(n.value, l.c(x, kGeluLn2[0]), y);
      r = b.CreateFAdd(l.fma(n.value, l.c(x, kGeluLn2[1]), r), yLow);
      Value *q = l.fma(b.CreateFMul(r, r), l.poly(kExpCubic32, r), b.CreateFMul(r, l.c(r, -kGeluCubic[0])));
      Value *power = b.CreateFMul(l.pow2(n.bits), l.c(x, 0x1p-64));
      return l.scaleDown(l.quotient(l.grown(u, q), l.onePlus(q, power)), n.bits);
    });
  // Beyond 22 the product rounds to zero.
  Value *u = l.atMost(l.abs(x), 22);
  // inner = twice + cubic u^2 in two parts, constants too.
  Value *u2 = b.CreateFMul(u, u);
  Value *low = l.fma(u, u, b.CreateFNeg(u2));
  Value *product = b.CreateFMul(u2, l.c(x, kGeluCubic[0]));
  Value *productLow = l.fma(u2, l.c(x, kGeluCubic[0]), b.CreateFNeg(product));
  productLow = l.fma(u2, l.c(x, kGeluCubic[1]), l.fma(low, l.c(x, kGeluCubic[0]), productLow));
  auto [inner, sumLow] = l.twoSum(product, l.c(x, kGeluTwice[0]));
  Value *innerLow = b.CreateFAdd(b.CreateFAdd(sumLow, productLow), l.c(x, kGeluTwice[1]));
  Value *y = b.CreateFMul(u, inner);
  Value *yLow = b.CreateFAdd(l.fma(u, inner, b.CreateFNeg(y)), b.CreateFMul(u, innerLow));
  Lane::Reduced reduced = l.reduceExp(b.CreateFNeg(y), 2 * l.exponentBias(x));
  Value *q = l.expm1Poly(b.CreateFSub(reduced.r, yLow));
  Value *power = l.scale(l.c(x, 1), reduced.bits);
  Value *part = l.quotient(l.grown(u, q), l.onePlus(q, power));
  return l.copysign(b.CreateFSub(above, l.scale(part, reduced.bits)), x);
}

//===----------------------------------------------------------------------===//
// sin, cos
//===----------------------------------------------------------------------===//

namespace {

/// x = quadrant pi/2 + high + low, |high| <= pi/4. All doubles; quadrant as i64 lanes, to be taken mod 4.
struct Angle {
  Value *high, *low, *quadrant;
};

/// For |x| of 2^20 and more: multiplies the mantissa with the bits of 2/pi that matter. One lane.
Angle reduceHugeHere(Emitter &e, Value *x) {
  IRBuilder<> &b = e.b;
  Type *i64 = b.getInt64Ty(), *i128 = b.getInt128Ty(), *f64 = b.getDoubleTy();
  auto word = [&](uint64_t value) { return b.getInt64(value); };
  Constant *tableData = ConstantDataArray::get(b.getContext(), ArrayRef<uint64_t>(kTwoOverPi));
  auto *table = e.module.getGlobalVariable("rlx_two_over_pi", true);
  if (!table) {
    table = new GlobalVariable(e.module, tableData->getType(), true, GlobalValue::PrivateLinkage, tableData,
                               "rlx_two_over_pi");
    table->setDSOLocal(true);
    table->setAlignment(Align(8));
  }
  Value *bits = b.CreateBitCast(x, i64);
  Value *biased = b.CreateAnd(b.CreateLShr(bits, word(52)), word(0x7ff));
  Value *mantissa = b.CreateOr(b.CreateAnd(bits, word((uint64_t(1) << 52) - 1)), word(uint64_t(1) << 52));
  // x = mantissa 2^(biased - 1075). Bits of 2/pi whose product is a multiple of 4 are left out: with 64 zero bits
  // before the table's bits, the first that counts is number biased - 1075 - 2 + 64.
  Value *position = b.CreateSub(biased, word(1013));
  Value *index = b.CreateLShr(position, word(6));
  Value *shift = b.CreateAnd(position, word(63));
  Value *words[4];
  for (unsigned i = 0; i < 4; ++i)
    words[i] = b.CreateAlignedLoad(i64, b.CreateGEP(i64, table, b.CreateAdd(index, word(i))), Align(8));
  Value *window[3];
  for (unsigned i = 0; i < 3; ++i)
    window[i] = b.CreateIntrinsic(Intrinsic::fshl, {i64}, {words[i], words[i + 1], shift});
  auto wide = [&](Value *v) { return b.CreateZExt(v, i128); };
  Value *m = wide(mantissa);
  Value *p0 = b.CreateMul(m, wide(window[2]));
  Value *p1 = b.CreateAdd(b.CreateMul(m, wide(window[1])), b.CreateLShr(p0, b.getIntN(128, 64)));
  Value *p2 = b.CreateAdd(b.CreateMul(m, wide(window[0])), b.CreateLShr(p1, b.getIntN(128, 64)));
  Value *low = b.CreateTrunc(p0, i64), *middle = b.CreateTrunc(p1, i64), *top = b.CreateTrunc(p2, i64);
  // The top two bits are the quadrant, the rest a fraction of one, taken as signed: in -1/2 .. 1/2.
  Value *high = b.CreateIntrinsic(Intrinsic::fshl, {i64}, {top, middle, word(2)});
  Value *next = b.CreateIntrinsic(Intrinsic::fshl, {i64}, {middle, low, word(2)});
  Value *quadrant = b.CreateAdd(b.CreateLShr(top, word(62)), b.CreateLShr(high, word(63)));
  Value *fraction = b.CreateOr(b.CreateShl(wide(high), b.getIntN(128, 64)), wide(next));
  Value *negative = b.CreateICmpSLT(high, word(0));
  fraction = b.CreateSelect(negative, b.CreateNeg(fraction), fraction);
  Value *zeros = b.CreateIntrinsic(Intrinsic::ctlz, {i128}, {fraction, b.getInt1(false)});
  Value *normal = b.CreateShl(fraction, b.CreateAnd(zeros, b.getIntN(128, 127)));
  // 53 bits to each of two doubles; both conversions are exact.
  auto part = [&](unsigned from, double weight) {
    Value *integer =
        b.CreateAnd(b.CreateTrunc(b.CreateLShr(normal, b.getIntN(128, from)), i64), word((uint64_t(1) << 53) - 1));
    return b.CreateFMul(b.CreateSIToFP(integer, f64), ConstantFP::get(f64, weight));
  };
  Value *scale = b.CreateBitCast(b.CreateShl(b.CreateSub(word(1023), b.CreateTrunc(zeros, i64)), word(52)), f64);
  Value *f1 = b.CreateFMul(part(75, 0x1p-53), scale), *f2 = b.CreateFMul(part(22, 0x1p-106), scale);
  auto k = [&](double value) { return ConstantFP::get(f64, value); };
  Value *r = b.CreateFMul(f1, k(kHalfPi[0]));
  Value *rest = b.CreateIntrinsic(Intrinsic::fma, {f64}, {f1, k(kHalfPi[0]), b.CreateFNeg(r)});
  rest = b.CreateFAdd(rest, b.CreateFAdd(b.CreateFMul(f1, k(kHalfPi[1])), b.CreateFMul(f2, k(kHalfPi[0]))));
  // The sign of the fraction, and of x.
  Value *flip = b.CreateXor(negative, b.CreateICmpSLT(bits, word(0)));
  quadrant = b.CreateSelect(b.CreateICmpSLT(bits, word(0)), b.CreateNeg(quadrant), quadrant);
  r = b.CreateSelect(flip, b.CreateFNeg(r), r);
  rest = b.CreateSelect(flip, b.CreateFNeg(rest), rest);
  return {r, rest, quadrant};
}

/// The same as a function of the module: it is rare, and long.
Angle reduceHuge(Emitter &e, Value *x) {
  IRBuilder<> &b = e.b;
  Type *f64 = b.getDoubleTy();
  Function *function = e.module.getFunction("rlx_reduce_angle");
  if (!function) {
    auto *type = FunctionType::get(StructType::get(f64, f64, b.getInt64Ty()), {f64}, false);
    function = Function::Create(type, GlobalValue::InternalLinkage, "rlx_reduce_angle", e.module);
    function->copyAttributesFrom(e.function);
    function->addFnAttr(Attribute::NoInline);
    function->setDSOLocal(true);
    IRBuilder<>::InsertPointGuard guard(b);
    b.SetInsertPoint(BasicBlock::Create(b.getContext(), "entry", function));
    Angle angle = reduceHugeHere(e, function->getArg(0));
    Value *parts[] = {angle.high, angle.low, angle.quadrant};
    b.CreateAggregateRet(parts, 3);
  }
  Value *result = b.CreateCall(function, {x});
  return {b.CreateExtractValue(result, 0), b.CreateExtractValue(result, 1), b.CreateExtractValue(result, 2)};
}

/// x: doubles; NaN and infinities give NaN. `exactToDouble`: keep the low part (else it is null).
Angle reduceAngle(Lane &l, Value *x, bool exactToDouble) {
  Emitter &e = l.e;
  IRBuilder<> &b = l.b;
  Lane::Rounded q = l.rounded(x, 0.63661977236758134);
  Value *r = l.fma(q.value, l.c(x, -kHalfPi[0]), x);
  Value *low;
  if (exactToDouble) {
    // r is exact here; then the second and third piece of pi/2, with what each subtraction loses.
    Value *p = b.CreateFMul(q.value, l.c(x, kHalfPi[1]));
    Value *pLow = l.fma(q.value, l.c(x, kHalfPi[1]), b.CreateFNeg(p));
    Value *t = b.CreateFSub(r, p);
    Value *back = b.CreateFSub(t, r);
    Value *tLow = b.CreateFSub(b.CreateFSub(r, b.CreateFSub(t, back)), b.CreateFAdd(p, back));
    low = b.CreateFSub(tLow, l.fma(q.value, l.c(x, kHalfPi[2]), pLow));
    r = t;
  } else {
    r = l.fma(q.value, l.c(x, -kHalfPi[1]), r);
    low = l.c(x, 0);
  }
  // Above this the products lose bits. Rare, so lane after lane.
  Value *huge = b.CreateFCmpOGE(l.abs(x), l.c(x, exactToDouble ? 0x1p20 : 0x1p36));
  Emitter::Values slow = e.ifThenElse(
      e.any(huge),
      [&]() -> Emitter::Values {
        Type *f64 = b.getDoubleTy(), *i64 = b.getInt64Ty();
        Value *xs = e.stackArray(f64, l.W), *highs = e.stackArray(f64, l.W), *lows = e.stackArray(f64, l.W),
              *quadrants = e.stackArray(i64, l.W);
        b.CreateStore(x, xs);
        e.forLoop(e.i64(0), e.i64(l.W), e.i64(1), [&](Value *lane) {
          // Small and non-finite lanes take the same way to a result that is not used.
          Value *v = b.CreateLoad(f64, b.CreateGEP(f64, xs, lane));
          Value *size = b.CreateUnaryIntrinsic(Intrinsic::fabs, v);
          Value *usable =
              b.CreateAnd(b.CreateFCmpOGE(size, ConstantFP::get(f64, 0x1p20)),
                          b.CreateFCmpOLT(size, ConstantFP::get(f64, std::numeric_limits<double>::infinity())));
          Angle one = reduceHuge(e, b.CreateSelect(usable, v, ConstantFP::get(f64, 0x1p20)));
          b.CreateStore(one.high, b.CreateGEP(f64, highs, lane));
          b.CreateStore(one.low, b.CreateGEP(f64, lows, lane));
          b.CreateStore(one.quadrant, b.CreateGEP(i64, quadrants, lane));
        });
        return {l.select(huge, b.CreateLoad(l.f64(), highs), r), l.select(huge, b.CreateLoad(l.f64(), lows), low),
                l.select(huge, b.CreateLoad(l.i64(), quadrants), q.bits)};
      },
      [&]() -> Emitter::Values { return {r, low, q.bits}; });
  // inf - inf is NaN; a lane that is infinite took either way.
  Value *finite = b.CreateFCmpONE(l.abs(x), l.c(x, std::numeric_limits<double>::infinity()));
  Value *high = l.select(finite, slow[0], l.c(x, std::numeric_limits<double>::quiet_NaN()));
  return {high, slow[1], slow[2]};
}

Value *sinCos(Emitter &e, Value *x, unsigned firstQuadrant) {
  Lane l(e, x);
  IRBuilder<> &b = l.b;
  bool wide = l.isDouble(x);
  Value *xs = wide ? x : b.CreateFPExt(x, l.f64());
  auto [r, low, quadrant] = reduceAngle(l, xs, wide);
  Value *one = l.c(xs, 1), *half = l.c(xs, 0.5);
  Value *z = b.CreateFMul(r, r);
  Value *sine, *cosine;
  Value *h = b.CreateFMul(z, half);
  if (wide) {
    Value *cube = b.CreateFMul(b.CreateFMul(r, z), l.poly(kSin64, z));
    sine = b.CreateFAdd(r, l.fma(low, b.CreateFSub(one, h), cube));
    Value *w = b.CreateFSub(one, h);
    Value *lost = b.CreateFSub(b.CreateFSub(one, w), h);
    Value *tail = l.fma(b.CreateFMul(z, z), l.poly(kCos64, z), b.CreateFNeg(b.CreateFMul(r, low)));
    cosine = b.CreateFAdd(w, b.CreateFAdd(lost, tail));
  } else {
    sine = l.fma(b.CreateFMul(r, z), l.poly(kSin64Short, z), r);
    cosine = b.CreateFAdd(b.CreateFSub(one, h), b.CreateFMul(b.CreateFMul(z, z), l.poly(kCos64Short, z)));
  }
  if (firstQuadrant)
    quadrant = b.CreateAdd(quadrant, l.ic(quadrant, firstQuadrant));
  Value *odd = b.CreateICmpNE(b.CreateAnd(quadrant, l.ic(quadrant, 1)), l.ic(quadrant, 0));
  sine = l.copysign(sine, r); // the polynomial makes +0 of -0
  Value *result = l.select(odd, cosine, sine);
  Value *sign = b.CreateShl(b.CreateLShr(quadrant, l.ic(quadrant, 1)), l.ic(quadrant, 63));
  result = l.fromBits(b.CreateXor(l.bits(result), sign));
  if (!wide)
    result = b.CreateFPTrunc(result, x->getType());
  return result;
}

} // namespace

Value *sin(Emitter &e, Value *x) { return sinCos(e, x, 0); }
Value *cos(Emitter &e, Value *x) { return sinCos(e, x, 1); }

//===----------------------------------------------------------------------===//
// pow
//===----------------------------------------------------------------------===//

Value *pow(Emitter &e, Value *x, Value *y) {
  Lane l(e, x);
  IRBuilder<> &b = l.b;
  double infinity = std::numeric_limits<double>::infinity();
  bool wide = l.isDouble(x);
  Value *base = wide ? x : b.CreateFPExt(x, l.f64());
  Value *power = wide ? y : b.CreateFPExt(y, l.f64());
  Value *size = l.abs(base);
  Value *zero = l.c(base, 0), *one = l.c(base, 1);

  // log(size) as high + low.
  auto [f, k] = splitLog(l, size);
  Value *two = l.c(base, 2);
  Value *high, *low;
  if (!wide) {
    Value *s = b.CreateFDiv(f, b.CreateFAdd(f, two));
    Value *z = b.CreateFMul(s, s);
    Value *sum = l.fma(b.CreateFMul(s, z), l.poly(kLog64Short, z), b.CreateFMul(s, two));
    high = l.fma(k, l.c(base, kLn2[0]), sum);
    low = nullptr;
  } else {
    // s = f / (2 + f) in two parts. 2 + f loses its last bit; d is what it lost.
    Value *d = b.CreateFAdd(f, two);
    Value *dLow = b.CreateFSub(f, b.CreateFSub(d, two));
    Value *s = b.CreateFDiv(f, d);
    Value *sLow = b.CreateFDiv(b.CreateFSub(l.fma(b.CreateFNeg(s), d, f), b.CreateFMul(s, dLow)), d);
    // z = s^2 and cube = 2/3 s^3, in two parts each.
    Value *z = b.CreateFMul(s, s);
    Value *zLow = l.fma(b.CreateFMul(s, two), sLow, l.fma(s, s, b.CreateFNeg(z)));
    Value *third = l.c(base, 0x1.5555555555555p-1);
    Value *t = b.CreateFMul(s, third);
    Value *tLow = b.CreateFAdd(l.fma(s, third, b.CreateFNeg(t)),
                               l.fma(s, l.c(base, 0x1.5555555555555p-55), b.CreateFMul(sLow, third)));
    Value *cube = b.CreateFMul(t, z);
    Value *cubeLow = b.CreateFAdd(l.fma(t, z, b.CreateFNeg(cube)), l.fma(t, zLow, b.CreateFMul(tLow, z)));
    Value *tail = b.CreateFMul(b.CreateFMul(s, b.CreateFMul(z, z)), l.poly(kLog64Tail, z));
    // k ln2 + 2s + cube + tail, the large ones first.
    Value *ln2 = l.c(base, kLn2[0]);
    Value *kl = b.CreateFMul(k, ln2);
    Value *klLow = l.fma(k, l.c(base, kLn2[1]), l.fma(k, ln2, b.CreateFNeg(kl)));
    auto [h1, l1] = l.twoSum(kl, b.CreateFMul(s, two));
    auto [h2, l2] = l.twoSum(h1, cube);
    auto [h3, l3] = l.twoSum(h2, tail);
    Value *rest = b.CreateFAdd(b.CreateFAdd(l3, l2), l1);
    rest = b.CreateFAdd(rest, b.CreateFAdd(b.CreateFAdd(klLow, b.CreateFMul(sLow, two)), cubeLow));
    high = b.CreateFAdd(h3, rest);
    low = b.CreateFSub(rest, b.CreateFSub(high, h3));
  }
  // The edges of log, so that what follows needs no others: 0 gives -inf, inf itself.
  Value *edge = b.CreateOr(b.CreateFCmpOEQ(size, zero), b.CreateFCmpOEQ(size, l.c(base, infinity)));
  high = l.select(b.CreateFCmpOEQ(size, zero), l.c(base, -infinity),
                  l.select(b.CreateFCmpOEQ(size, l.c(base, infinity)), size, high));

  Value *product = b.CreateFMul(power, high);
  Value *productLow = nullptr;
  double limit = wide ? 746 : 120;
  if (wide) {
    productLow = l.fma(power, low, l.fma(power, high, b.CreateFNeg(product)));
    // Infinite or far outside: the low part is NaN or does not count.
    Value *counts = b.CreateAnd(b.CreateNot(edge), b.CreateFCmpOLT(l.abs(product), l.c(base, limit)));
    productLow = l.select(counts, productLow, zero);
  }
  product = l.atLeast(l.atMost(product, limit), -limit);
  Lane::Reduced reduced = l.reduceExp(product, wide ? 2 * 1023 : 1023);
  Value *result;
  if (wide) {
    result = l.scale(l.expPoly(b.CreateFAdd(reduced.r, productLow)), reduced.bits);
  } else {
    Value *r = reduced.r;
    result = b.CreateFAdd(l.fma(b.CreateFMul(r, r), l.poly(kExp64Short, r), r), one);
    result = b.CreateFMul(result, l.pow2(reduced.bits));
  }

  // Signs: odd integer powers keep that of the base, others of a negative base are NaN unless it is infinite.
  Value *whole = b.CreateUnaryIntrinsic(Intrinsic::rint, power);
  Value *integer = b.CreateFCmpOEQ(whole, power);
  Value *halved = b.CreateFMul(power, l.c(base, 0.5));
  Value *odd = b.CreateAnd(integer, b.CreateFCmpONE(b.CreateUnaryIntrinsic(Intrinsic::rint, halved), halved));
  result = l.select(odd, l.copysign(result, base), result);
  Value *negative = b.CreateAnd(b.CreateFCmpOLT(base, zero), b.CreateFCmpONE(size, l.c(base, infinity)));
  Value *undefined = b.CreateAnd(negative, b.CreateNot(integer));
  result = l.select(undefined, l.c(base, std::numeric_limits<double>::quiet_NaN()), result);
  // NaN on either side, but 1^y and x^0 are 1; -1 to an infinite power is 1 too.
  result = l.select(b.CreateFCmpUNO(base, power), l.c(base, std::numeric_limits<double>::quiet_NaN()), result);
  Value *isOne = b.CreateOr(b.CreateFCmpOEQ(base, one), b.CreateFCmpOEQ(power, zero));
  isOne =
      b.CreateOr(isOne, b.CreateAnd(b.CreateFCmpOEQ(size, one), b.CreateFCmpOEQ(l.abs(power), l.c(base, infinity))));
  result = l.select(isOne, one, result);
  return wide ? result : b.CreateFPTrunc(result, x->getType());
}

//===----------------------------------------------------------------------===//
// rem, mod
//===----------------------------------------------------------------------===//

Value *rem(Emitter &e, Value *x, Value *y) {
  // Takes q y 2^k off x, q a whole number of at most 51 bits, until less than y is left. Every step is exact: the
  // remainder is a multiple of the last bit of y 2^k and not above it, so one fma gives it without rounding.
  Lane l(e, x);
  IRBuilder<> &b = l.b;
  double infinity = std::numeric_limits<double>::infinity();
  bool wide = l.isDouble(x);
  Value *dividend = wide ? x : b.CreateFPExt(x, l.f64());
  Value *divisor = wide ? y : b.CreateFPExt(y, l.f64());
  Value *a = l.abs(dividend), *d = l.abs(divisor);
  Value *zero = l.c(a, 0), *inf = l.c(a, infinity);
  Value *bad = b.CreateOr(b.CreateFCmpUEQ(a, inf), b.CreateFCmpUEQ(d, zero));
  // Lanes with nothing to do get a remainder of 0 over a divisor of 1.
  a = l.select(bad, zero, a);
  d = l.select(b.CreateOr(bad, b.CreateFCmpOEQ(d, inf)), l.c(a, 1), d);
  Value *keep = b.CreateFCmpOEQ(l.abs(divisor), inf); // x rem inf = x
  Value *loopValue = l.select(keep, zero, a);
  // Exponents, of subnormals too.
  auto exponent = [&](Value *v) -> Value * {
    Value *tiny = b.CreateFCmpOLT(v, l.c(v, 0x1p-1022));
    Value *scaled = l.select(tiny, b.CreateFMul(v, l.c(v, 0x1p54)), v);
    Value *field = b.CreateLShr(l.bits(scaled), l.ic(l.bits(v), 52));
    return b.CreateSub(field, l.select(tiny, l.ic(field, 54), l.ic(field, 0)));
  };
  Value *divisorExponent = exponent(d);
  Value *remainder = e.whileLoop(
                          {loopValue}, [&](ArrayRef<Value *> now) { return e.any(b.CreateFCmpOGE(now[0], d)); },
                          [&](ArrayRef<Value *> now) -> Emitter::Values {
                            Value *r = now[0];
                            Value *k =
                                b.CreateSub(b.CreateSub(exponent(r), divisorExponent), l.ic(divisorExponent, 50));
                            k = b.CreateBinaryIntrinsic(Intrinsic::smax, k, l.ic(k, 0));
                            // 2^k in three factors: it may exceed the largest number though d 2^k does not.
                            Value *step = l.ic(k, 1000);
                            Value *k1 = b.CreateBinaryIntrinsic(Intrinsic::smin, k, step);
                            Value *rest = b.CreateSub(k, k1);
                            Value *k2 = b.CreateBinaryIntrinsic(Intrinsic::smin, rest, step);
                            Value *k3 = b.CreateSub(rest, k2);
                            auto power = [&](Value *n) { return l.pow2(b.CreateAdd(n, l.ic(n, 1023))); };
                            Value *shifted = b.CreateFMul(d, power(k1));
                            if (wide)
                              shifted = b.CreateFMul(b.CreateFMul(shifted, power(k2)), power(k3));
                            Value *q = b.CreateUnaryIntrinsic(Intrinsic::trunc, b.CreateFDiv(r, shifted));
                            Value *next = l.fma(b.CreateFNeg(q), shifted, r);
                            // The quotient may have been rounded up by one.
                            next = l.select(b.CreateFCmpOLT(next, zero), b.CreateFAdd(next, shifted), next);
                            // Lanes that are done stay as they are.
                            return {l.select(b.CreateFCmpOGE(r, d), next, r)};
                          })
                         .front();
  remainder = l.copysign(remainder, dividend);
  remainder = l.select(keep, dividend, remainder);
  remainder = l.select(bad, l.c(a, std::numeric_limits<double>::quiet_NaN()), remainder);
  return wide ? remainder : b.CreateFPTrunc(remainder, x->getType());
}

Value *mod(Emitter &e, Value *x, Value *y) {
  Lane l(e, x);
  IRBuilder<> &b = l.b;
  Value *r = rem(e, x, y);
  Value *zero = l.c(x, 0);
  Value *apart = b.CreateXor(b.CreateFCmpOLT(r, zero), b.CreateFCmpOLT(y, zero));
  Value *moved = b.CreateFAdd(r, y);
  // A remainder of zero takes the divisor's sign, one of the wrong sign moves by one divisor.
  Value *isZero = b.CreateFCmpOEQ(r, zero);
  return l.select(isZero, l.copysign(r, y), l.select(apart, moved, r));
}

} // namespace rlx::math
