//===- Files.h - reading and writing whole files ----------------*- C++ -*-===//
#ifndef RLX_TOOLS_FILES_H
#define RLX_TOOLS_FILES_H

#include "rlx/Runtime/Tensor.h"
#include "rlx/Support/Result.h"

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace rlx::tools {

/// The bytes of a regular file. Errors name the path; a folder, a pipe or a
/// device is refused, so that a wrong path cannot hang the caller.
Result<std::vector<std::byte>> readFile(const std::string &path);

/// Writes a file beside the target and renames it, so that a reader never sees
/// half of it. Missing folders are made.
Status writeFile(const std::string &path, std::span<const std::byte> bytes);

/// Reads a .npy or .pb (ONNX TensorProto) file, by its name's ending.
Result<Tensor> readTensor(const std::string &path);

} // namespace rlx::tools

#endif // RLX_TOOLS_FILES_H
