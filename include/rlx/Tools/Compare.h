//===- Compare.h - is a result the expected one? ----------------*- C++ -*-===//
#ifndef RLX_TOOLS_COMPARE_H
#define RLX_TOOLS_COMPARE_H

#include "rlx/Runtime/Tensor.h"

#include <string>

namespace rlx::tools {

/// Floats agree when |got - expected| <= absolute + relative * |expected|.
struct Tolerance {
  double relative = 1e-3;
  double absolute = 1e-7;
};

/// What comparing two tensors found.
struct Comparison {
  bool passed = false;
  /// Largest |got - expected| over elements that are finite in both; infinity
  /// when one is NaN or infinite and the other is not the same.
  double largest = 0;
  /// Elements outside the tolerance.
  int64_t mismatches = 0;
  /// One line, empty when passed: "type f32, expected i64", "shape [2], expected
  /// [3]", "3 of 12 elements differ, first at [0,2]: 1.5, expected 1".
  std::string reason;
};

/// Types and shapes must be equal, except that f32 may be expected of bf16, which
/// .npy files cannot hold. NaN equals NaN, an infinity only itself,
/// integers and booleans are exact.
Comparison compareTensors(const TensorView &got, const TensorView &expected, const Tolerance &tolerance);

} // namespace rlx::tools

#endif // RLX_TOOLS_COMPARE_H
