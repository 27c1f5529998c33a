//===- CompilerTest.cpp - graphs as text, values by hand ------------------===//
#include "CompilerTest.h"

#include "ModelText.h"

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

namespace rlx::compilertest {

std::string Value::typeText() const {
  std::string text = "tensor<";
  for (int64_t size : shape)
    text += std::to_string(size) + "x";
  std::string name = elementTypeName(type);
  return text + (name[0] == 'u' ? "ui" + name.substr(1) : name) + ">";
}

std::string Value::constantText() const {
  std::string text = "dense<";
  if (type == ElementType::I1) {
    // Bits of booleans are packed in MLIR's hexadecimal form; so they are spelled.
    std::string flat = "[";
    for (size_t i = 0; i != bytes.size(); ++i)
      flat += std::string(i ? ", " : "") + (bytes[i] ? "true" : "false");
    EXPECT_LE(shape.size(), 1u) << "constants of i1 are vectors here";
    text += shape.empty() ? (bytes[0] ? "true" : "false") : bytes.empty() ? "" : flat + "]";
  } else if (!bytes.empty()) {
    static const char digits[] = "0123456789ABCDEF";
    text += "\"0x";
    for (uint8_t byte : bytes)
      text += {digits[byte >> 4], digits[byte & 15]};
    text += "\"";
  }
  return text + "> : " + typeText();
}

Value randomF32(Shape shape, uint32_t seed) {
  std::mt19937 generator(seed);
  std::vector<float> values(static_cast<size_t>(*elementCount(shape)));
  for (float &one : values)
    one = static_cast<float>(static_cast<int64_t>(generator() >> 8) - (1 << 23)) * 0x1p-23f;
  return f32(std::move(shape), values);
}

namespace {
uint64_t bitsAt(const void *data, size_t width, size_t i) {
  uint64_t bits = 0;
  std::memcpy(&bits, static_cast<const char *>(data) + i * width, width);
  return bits;
}

bool isNaNBits(ElementType type, uint64_t bits) {
  switch (type) {
  case ElementType::F16:
    return (bits & 0x7FFF) > 0x7C00;
  case ElementType::BF16:
    return (bits & 0x7FFF) > 0x7F80;
  case ElementType::F32:
    return (bits & 0x7FFFFFFF) > 0x7F800000;
  case ElementType::F64:
    return (bits & 0x7FFFFFFFFFFFFFFF) > 0x7FF0000000000000;
  default:
    return false;
  }
}

std::string differs(const TensorView &got, const TensorView &expected, bool anyNaN) {
  if (got.type != expected.type)
    return std::string("type ") + elementTypeName(got.type) + ", expected " + elementTypeName(expected.type);
  if (!std::equal(got.shape.begin(), got.shape.end(), expected.shape.begin(), expected.shape.end()))
    return "shape " + shapeString(got.shape) + ", expected " + shapeString(expected.shape);
  if (got.bytes != expected.bytes)
    return std::to_string(got.bytes) + " bytes, expected " + std::to_string(expected.bytes);
  size_t width = elementSize(got.type);
  for (size_t i = 0; i != got.bytes / width; ++i) {
    uint64_t a = bitsAt(got.data, width, i), b = bitsAt(expected.data, width, i);
    if (a == b || (anyNaN && isNaNBits(got.type, a) && isNaNBits(got.type, b)))
      continue;
    char text[96];
    std::snprintf(text, sizeof text, "element %zu has bits 0x%0*llX, expected 0x%0*llX", i, static_cast<int>(width * 2),
                  static_cast<unsigned long long>(a), static_cast<int>(width * 2), static_cast<unsigned long long>(b));
    return text;
  }
  return {};
}
} // namespace

std::string difference(const Tensor &tensor, const Value &expected) {
  return differs(tensor.view(), expected.view(), /*anyNaN=*/true);
}
std::string difference(const Tensor &tensor, const Tensor &expected) {
  return differs(tensor.view(), expected.view(), /*anyNaN=*/false);
}

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

namespace {
std::shared_ptr<const Model> modelOf(const std::string &module, std::shared_ptr<WeightTable> weights) {
  Result<compiler::LoadedModel> loaded = compiler::loadModule(module, std::move(weights));
  if (!loaded) {
    ADD_FAILURE() << loaded.error().message << "\n" << module;
    return nullptr;
  }
  return loaded->model;
}
} // namespace

Loaded::Loaded(const std::string &module, std::shared_ptr<WeightTable> weights, ExecutableOptions options,
               std::shared_ptr<Engine> engine)
    : Loaded(modelOf(module, std::move(weights)), options, std::move(engine)) {}

Loaded::Loaded(std::shared_ptr<const Model> given, ExecutableOptions options, std::shared_ptr<Engine> engine)
    : model(std::move(given)) {
  if (!model)
    return;
  if (!engine) {
    Result<std::shared_ptr<Engine>> made = Engine::create();
    if (!made) {
      ADD_FAILURE() << made.error().message;
      return;
    }
    engine = std::move(*made);
  }
  Result<std::shared_ptr<Executable>> made = Executable::create(std::move(engine), model, options);
  if (!made) {
    ADD_FAILURE() << made.error().message;
    return;
  }
  executable = std::move(*made);
}

Result<std::vector<Tensor>> Loaded::run(const std::vector<Value> &inputs, const RunOptions &options) const {
  if (!executable)
    return Error{ErrorCode::Internal, "the model did not load"};
  std::vector<NamedTensor> named;
  const auto &specs = model->signature().inputs;
  for (size_t i = 0; i != inputs.size(); ++i)
    named.push_back({i < specs.size() ? specs[i]->name : "surplus", inputs[i].view()});
  return executable->run(named, options);
}

std::vector<Tensor> Loaded::outputs(const std::vector<Value> &inputs, const RunOptions &options) const {
  Result<std::vector<Tensor>> results = run(inputs, options);
  if (results)
    return std::move(*results);
  ADD_FAILURE() << results.error().message;
  return std::vector<Tensor>(model ? model->signature().outputs.size() : 0);
}

std::string Loaded::error(const std::vector<Value> &inputs, const RunOptions &options) const {
  Result<std::vector<Tensor>> results = run(inputs, options);
  if (!results)
    return results.error().message;
  ADD_FAILURE() << "the run must fail";
  return {};
}

std::string loadError(const std::string &module) {
  Result<compiler::LoadedModel> loaded = compiler::loadModule(module);
  if (!loaded)
    return loaded.error().message;
  ADD_FAILURE() << "the module must not load";
  return {};
}

//===----------------------------------------------------------------------===//
// Files
//===----------------------------------------------------------------------===//

TemporaryFolder::TemporaryFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "rlx-compiler-test-XXXXXX").string();
  EXPECT_NE(mkdtemp(pattern.data()), nullptr);
  path = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code code;
  std::filesystem::remove_all(path, code);
}

std::string TemporaryFolder::write(const std::string &name, const std::string &content) const {
  std::string file = path + "/" + name;
  std::ofstream(file, std::ios::binary) << content;
  return file;
}

Result<compiler::LoadedModel> loadOnnx(const std::string &graph, int opset) {
  TemporaryFolder folder;
  return compiler::loadModel(folder.write("model.onnx", test::modelBytes(graph, opset)));
}

} // namespace rlx::compilertest
