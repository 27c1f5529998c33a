//===- ModelText.h - ONNX models as text, for tests -------------*- C++ -*-===//
#ifndef RLX_UNITTESTS_IMPORT_MODELTEXT_H
#define RLX_UNITTESTS_IMPORT_MODELTEXT_H

#include "rlx/Dialect/RLX/IR/RLXOps.h"
#include "rlx/Import/Onnx.h"

#include "mlir/IR/MLIRContext.h"
#include "gtest/gtest.h"

#include <string>

namespace rlx::test {

/// The bytes of a model whose graph (and functions) are given in protobuf's text
/// form: `input { ... } node { ... } output { ... }`. The test fails where the
/// text is wrong.
std::string modelBytes(const std::string &graph, int opset = 17, const std::string &rest = {});

/// Short forms of pieces of a graph. A dim is a number or a name ("B"); "" is one
/// without either.
std::string tensorType(int elementType, const std::vector<std::string> &dims);
std::string input(const std::string &name, int elementType, const std::vector<std::string> &dims);
std::string output(const std::string &name);
/// node("n1", "Add", {"a", "b"}, {"c"}, "attribute { ... }")
std::string node(const std::string &name, const std::string &type, const std::vector<std::string> &inputs,
                 const std::vector<std::string> &outputs, const std::string &attributes = {});
std::string intAttr(const std::string &name, int64_t value);
std::string intsAttr(const std::string &name, const std::vector<int64_t> &values);
std::string stringAttr(const std::string &name, const std::string &value);
/// An i64 initializer of rank 1 (or a scalar, with `scalar`).
std::string ints(const std::string &name, const std::vector<int64_t> &values, bool scalar = false);

inline constexpr int f32 = 1, i32 = 6, i64 = 7, boolean = 9;

/// Imports text, and holds what came of it.
struct Import {
  explicit Import(const std::string &graph, int opset = 17, const ImportOptions &options = {},
                  const std::string &rest = {});
  /// The graph; the test fails (and this is null) when the import did.
  ir::GraphOp graph();
  /// Dims of output `i` as text: "[B, 4]".
  std::string dims(unsigned i = 0);
  /// The elements of output `i`, which must have folded to a constant or sizes.
  std::string elements(unsigned i = 0);
  /// The error's message; the test fails when there is none.
  std::string error();

  mlir::MLIRContext context;
  Result<ImportedModel> result;
};

} // namespace rlx::test

#endif // RLX_UNITTESTS_IMPORT_MODELTEXT_H
