//===- Npy.h - numpy's array files ------------------------------*- C++ -*-===//
#ifndef RLX_TOOLS_NPY_H
#define RLX_TOOLS_NPY_H

#include "rlx/Runtime/Tensor.h"
#include "rlx/Support/Result.h"

#include <cstddef>
#include <span>
#include <vector>

namespace rlx::tools {

/// Decodes the bytes of a .npy file: format versions 1 to 3, little endian,
/// element types bool, int8 to int64, uint8 to uint64, float16 to float64.
/// Column-major data is put in row-major order. Every length is checked against
/// the bytes that are there before anything is allocated. Errors say what is
/// wrong, without the file's name.
Result<Tensor> decodeNpy(std::span<const std::byte> file);

/// Encodes a tensor as a version 1 file. numpy has no bf16: such tensors are
/// written as float32, which is exact.
std::vector<std::byte> encodeNpy(const TensorView &tensor);

} // namespace rlx::tools

#endif // RLX_TOOLS_NPY_H
