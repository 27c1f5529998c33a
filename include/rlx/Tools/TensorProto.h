//===- TensorProto.h - ONNX's tensor files ----------------------*- C++ -*-===//
#ifndef RLX_TOOLS_TENSORPROTO_H
#define RLX_TOOLS_TENSORPROTO_H

#include "rlx/Runtime/Tensor.h"
#include "rlx/Support/Result.h"

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace rlx::tools {

/// Decodes a serialised ONNX TensorProto. Types without an rlx element type
/// (strings, complex numbers, 8-bit floats, 4-bit integers) give
/// ErrorCode::Unsupported; data kept in another file is refused.
Result<Tensor> decodeTensorProto(std::span<const std::byte> file);

/// Encodes a tensor as a TensorProto called `name`, with raw data.
std::vector<std::byte> encodeTensorProto(const TensorView &tensor, const std::string &name);

} // namespace rlx::tools

#endif // RLX_TOOLS_TENSORPROTO_H
