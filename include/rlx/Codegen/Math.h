//===- Math.h - vector math of our own --------------------------*- C++ -*-===//
//
// Builders over lanes of float or double (scalars too): no calls, no tables but
// one for huge arguments of sin and cos, the same bits in every lane and at
// every width. NaN gives NaN; infinities, zeros and subnormals are those of C's
// functions. Largest errors in ulp, for f32 over every argument (bench/math
// --exhaustive; unittests/Codegen/MathTest.cpp holds them to it):
//
//             f32    f64
//   exp       1.2    1.2
//   log       0.9    1.0
//   tanh      0.8    1.5
//   erf       1.2    1.0
//   sigmoid   1.1    1.2
//   gelu      2.0    2.0   x/2 (1 + erf(x / sqrt 2)), relative, down to the subnormal results
//   gelu tanh 2.0    1.6   relative to the formula in exact arithmetic
//   sin, cos  0.51   1.0   every finite argument
//   pow       0.51   1.5
//   rem       exact
//   mod       0.5          exact, but where a remainder of the other sign is moved by one divisor
//
//===----------------------------------------------------------------------===//
#ifndef RLX_CODEGEN_MATH_H
#define RLX_CODEGEN_MATH_H

#include "rlx/Codegen/Emitter.h"

namespace rlx::math {

using llvm::Value;

Value *exp(Emitter &e, Value *x);
/// exp for x <= 0 where results below the smallest normal number do not count: those are 0, the others the bits of exp.
Value *expOfNegative(Emitter &e, Value *x);
Value *log(Emitter &e, Value *x);
Value *tanh(Emitter &e, Value *x);
Value *erf(Emitter &e, Value *x);
Value *sigmoid(Emitter &e, Value *x);
Value *gelu(Emitter &e, Value *x);
Value *geluTanh(Emitter &e, Value *x);
Value *sin(Emitter &e, Value *x);
Value *cos(Emitter &e, Value *x);
Value *pow(Emitter &e, Value *x, Value *y);
/// x - trunc(x / y) y, exactly; zero results have the sign of x. NaN for y = 0 or an infinite x.
Value *rem(Emitter &e, Value *x, Value *y);
/// x - floor(x / y) y: rem, moved to the sign of y; zero results have the sign of y.
Value *mod(Emitter &e, Value *x, Value *y);

/// Largest and smallest; NaN if either is, +0 above -0.
Value *maximum(Emitter &e, Value *a, Value *b);
Value *minimum(Emitter &e, Value *a, Value *b);

/// fma(a, b, c), one rounding.
Value *fma(Emitter &e, Value *a, Value *b, Value *c);

} // namespace rlx::math

#endif // RLX_CODEGEN_MATH_H
