//===- Convert.h - f32 to and from the 16-bit floats ------------*- C++ -*-===//
#ifndef RLX_LIB_RUNTIME_CONVERT_H
#define RLX_LIB_RUNTIME_CONVERT_H

#include "rlx/Data/Plan_generated.h"

#include <cstddef>
#include <cstdint>

namespace rlx {

/// Round to nearest even; too large gives infinity, NaN stays a (quiet) NaN.
uint16_t f32ToF16(float value);
uint16_t f32ToBf16(float value);
/// Exact.
float f16ToF32(uint16_t bits);
float bf16ToF32(uint16_t bits);

/// True for f16 and bf16: values a caller may give and take as f32.
inline bool isShortFloat(data::ElementType type) {
  return type == data::ElementType::F16 || type == data::ElementType::BF16;
}
/// `count` f32 values at `source` (any alignment) to f16 or bf16 at `target`.
void narrowFromF32(const void *source, data::ElementType type, void *target, size_t count);
/// `count` f16 or bf16 values at `source` to f32 at `target` (any alignment).
void widenToF32(const void *source, data::ElementType type, void *target, size_t count);

} // namespace rlx

#endif // RLX_LIB_RUNTIME_CONVERT_H
