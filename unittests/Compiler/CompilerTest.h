//===- CompilerTest.h - graphs as text, values by hand ----------*- C++ -*-===//
#ifndef RLX_UNITTESTS_COMPILER_COMPILERTEST_H
#define RLX_UNITTESTS_COMPILER_COMPILERTEST_H

#include "rlx/Compiler/Load.h"
#include "rlx/Runtime/Engine.h"
#include "rlx/Runtime/Executable.h"
#include "rlx/Runtime/Model.h"
#include "rlx/Runtime/Tensor.h"

#include "gtest/gtest.h"

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace rlx::compilertest {

using data::ElementType;
using Shape = std::vector<int64_t>;

/// A tensor written down in a test: type, shape, and bytes as a run takes them.
struct Value {
  ElementType type = ElementType::F32;
  Shape shape;
  std::vector<uint8_t> bytes;

  TensorView view() const { return TensorView{type, shape, bytes.data(), bytes.size(), false}; }
  TensorView flat() const { return TensorView::flat(type, bytes.data(), bytes.size()); }
  /// "tensor<2x3xf32>".
  std::string typeText() const;
  /// "dense<...> : tensor<2x3xf32>", bit for bit.
  std::string constantText() const;
};

/// `values` in row-major order; their size is the type's.
template <typename T> Value value(ElementType type, Shape shape, const std::vector<T> &values) {
  EXPECT_EQ(sizeof(T), elementSize(type));
  EXPECT_EQ(elementCount(shape), static_cast<int64_t>(values.size()));
  Value made{type, std::move(shape), std::vector<uint8_t>(values.size() * sizeof(T))};
  if (!values.empty())
    std::memcpy(made.bytes.data(), values.data(), made.bytes.size());
  return made;
}
inline Value f32(Shape shape, const std::vector<float> &values) { return value(ElementType::F32, shape, values); }
inline Value f64(Shape shape, const std::vector<double> &values) { return value(ElementType::F64, shape, values); }
inline Value i64(Shape shape, const std::vector<int64_t> &values) { return value(ElementType::I64, shape, values); }
inline Value i32(Shape shape, const std::vector<int32_t> &values) { return value(ElementType::I32, shape, values); }
inline Value i8(Shape shape, const std::vector<int8_t> &values) { return value(ElementType::I8, shape, values); }
inline Value u8(Shape shape, const std::vector<uint8_t> &values) { return value(ElementType::U8, shape, values); }
inline Value i1(Shape shape, const std::vector<uint8_t> &values) { return value(ElementType::I1, shape, values); }
/// By their bits.
inline Value f16(Shape shape, const std::vector<uint16_t> &bits) { return value(ElementType::F16, shape, bits); }
inline Value bf16(Shape shape, const std::vector<uint16_t> &bits) { return value(ElementType::BF16, shape, bits); }
inline Value f32Bits(Shape shape, const std::vector<uint32_t> &bits) { return value(ElementType::F32, shape, bits); }

/// Reproducible numbers in [-1, 1), different for each `seed`.
Value randomF32(Shape shape, uint32_t seed);

/// The values of a tensor of that element size.
template <typename T> std::vector<T> valuesOf(const Tensor &tensor) {
  EXPECT_EQ(sizeof(T), elementSize(tensor.type()));
  auto span = tensor.as<T>();
  return {span.begin(), span.end()};
}

/// Nothing when type, shape and every bit agree, NaN standing for any NaN of its
/// type; else the first difference.
std::string difference(const Tensor &tensor, const Value &expected);
/// The same for two results; NaNs by their bits.
std::string difference(const Tensor &tensor, const Tensor &expected);

/// A model and what runs it, in an engine of its own unless one is given. Text
/// that does not load ends the test.
struct Loaded {
  explicit Loaded(const std::string &module, std::shared_ptr<WeightTable> weights = nullptr,
                  ExecutableOptions options = {}, std::shared_ptr<Engine> engine = nullptr);
  Loaded(std::shared_ptr<const Model> model, ExecutableOptions options = {}, std::shared_ptr<Engine> engine = nullptr);

  /// Runs with inputs in the order of the signature.
  Result<std::vector<Tensor>> run(const std::vector<Value> &inputs, const RunOptions &options = {}) const;
  /// The same; an error ends the test.
  std::vector<Tensor> outputs(const std::vector<Value> &inputs, const RunOptions &options = {}) const;
  /// The message of a run that must fail; the test fails when it does not.
  std::string error(const std::vector<Value> &inputs, const RunOptions &options = {}) const;

  Executable *operator->() const { return executable.get(); }

  std::shared_ptr<const Model> model;
  std::shared_ptr<Executable> executable;
};

/// "tensor<?x4xf32, #rlx.dims<[B, 4]>>" of {"B", "4"}; no encoding where every dim is a number.
std::string typeOf(const std::vector<std::string> &dims, const std::string &element = "f32");

/// The text of a graph: declared dims; inputs and outputs by name and type, which `body` uses as %name and defines as
/// %name. In `body` the type of a listed name may be spelled $name.
std::string graphText(const std::vector<std::string> &dims,
                      const std::vector<std::pair<std::string, std::string>> &inputs,
                      const std::vector<std::pair<std::string, std::string>> &outputs, const std::string &body);

/// The message of a module that must not load.
std::string loadError(const std::string &module);

/// A folder that goes with the object.
class TemporaryFolder {
public:
  TemporaryFolder();
  ~TemporaryFolder();
  std::string write(const std::string &name, const std::string &content) const;

private:
  std::string path;
};

/// A model from an ONNX graph in text, as ModelText.h takes it.
Result<compiler::LoadedModel> loadOnnx(const std::string &graph, int opset = 17);

} // namespace rlx::compilertest

/// Stops the test with the message of a Result or Status that is an error.
#define ASSERT_GOOD(expression) ASSERT_TRUE(static_cast<bool>(expression)) << (expression).error().message

#endif // RLX_UNITTESTS_COMPILER_COMPILERTEST_H
