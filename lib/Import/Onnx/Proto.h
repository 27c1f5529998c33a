//===- Proto.h - ONNX files and their tensors -------------------*- C++ -*-===//
//
// Everything that reads bytes of a model file. Nothing here trusts a length, an
// offset or a dim.
//
//===----------------------------------------------------------------------===//
#ifndef RLX_LIB_IMPORT_ONNX_PROTO_H
#define RLX_LIB_IMPORT_ONNX_PROTO_H

#include "rlx/Data/Plan_generated.h"
#include "rlx/Support/Files.h"
#include "rlx/Support/Result.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace onnx {
class ModelProto;
class TensorProto;
} // namespace onnx

namespace rlx::onnx_import {

/// A tensor of the file: row-major little-endian bytes, at any address, that live
/// as long as `owner`.
struct TensorData {
  data::ElementType type;
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
  int64_t elements = 0;
  bool mapped = false; ///< the bytes lie in a mapped file
};

/// A model, and what of it was not copied: large raw contents of the graph's
/// initializers, which `model` then lacks.
struct ParsedModel {
  std::shared_ptr<::onnx::ModelProto> model;
  std::map<const ::onnx::TensorProto *, std::span<const std::byte>> outside;
  std::shared_ptr<const void> file; ///< keeps `outside` mapped
};

/// Parses a whole model. With `file`, which keeps `bytes` where they are, large
/// contents stay there; without it everything is copied. Errors: InvalidModel
/// (truncated, foreign, or larger than the 2 GiB protobuf allows).
Result<ParsedModel> parseModel(std::span<const std::byte> bytes, std::shared_ptr<const void> file);

/// rlx's element type for a number of TensorProto.DataType, where there is one.
std::optional<data::ElementType> elementTypeOf(int32_t onnxType);
/// "FLOAT8E4M3FN" and so on; "type 77" for a number that is not known.
std::string onnxTypeName(int32_t onnxType);
/// Size of an element in bytes.
size_t elementBytes(data::ElementType type);
/// Product of the dims, or nothing when one is negative or it overflows.
std::optional<int64_t> elementCount(std::span<const int64_t> shape);

/// Reads tensors of one model, and keeps the files of external data mapped.
class TensorReader {
public:
  /// `parsed` owns the protobuf messages; `folder` may be empty.
  TensorReader(ParsedModel parsed, std::string folder) : parsed(std::move(parsed)), folder(std::move(folder)) {}

  /// The bytes of a tensor that is part of the model, without copying them where
  /// the file's form allows. Errors name the tensor.
  Result<TensorData> read(const ::onnx::TensorProto &tensor);

private:
  Result<MappedFile> openExternal(const std::string &location);
  Result<TensorData> readExternal(const ::onnx::TensorProto &tensor, TensorData result, uint64_t expected);

  ParsedModel parsed;
  std::string folder;
  std::map<std::string, MappedFile> files;
};

/// Names come from files: control characters are written as \xNN, so that a
/// message stays one line.
std::string printable(std::string text);

} // namespace rlx::onnx_import

#endif // RLX_LIB_IMPORT_ONNX_PROTO_H
