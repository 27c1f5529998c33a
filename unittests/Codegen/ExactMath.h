//===- ExactMath.h - functions in higher precision --------------*- C++ -*-===//
#ifndef RLX_UNITTESTS_CODEGEN_EXACTMATH_H
#define RLX_UNITTESTS_CODEGEN_EXACTMATH_H

#include "rlx/Data/Plan_generated.h"

#include <cmath>

namespace rlx::test {

/// What a function of one operand is in `Wide` (double, long double), whose rounding is far below what is tested with
/// it. 0 for other opcodes.
template <typename Wide> Wide exactMath(data::Opcode op, Wide x) {
  using data::Opcode;
  switch (op) {
  case Opcode::Exp:
    return std::exp(x);
  case Opcode::Log:
    return std::log(x);
  case Opcode::Tanh:
    return std::tanh(x);
  case Opcode::Erf:
    return std::erf(x);
  case Opcode::Sin:
    return std::sin(x);
  case Opcode::Cos:
    return std::cos(x);
  case Opcode::Sigmoid:
    return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x));
  case Opcode::Rsqrt:
    return 1 / std::sqrt(x);
  case Opcode::Gelu:
    return std::isinf(x) ? (x < 0 ? Wide(-0.0) : x)
                         : static_cast<Wide>(x * (std::erfc(-static_cast<long double>(x) / std::sqrt(2.0L)) / 2));
  case Opcode::GeluTanh: {
    if (std::isinf(x))
      return x < 0 ? Wide(-0.0) : x;
    long double wide = x,
                y = 2 * std::sqrt(2 / 3.14159265358979323846264338327950288L) * (wide + 0.044715L * wide * wide * wide);
    return static_cast<Wide>(y < 0 ? wide * std::exp(y) / (1 + std::exp(y)) : wide / (1 + std::exp(-y)));
  }
  default:
    return 0;
  }
}

} // namespace rlx::test

#endif // RLX_UNITTESTS_CODEGEN_EXACTMATH_H
