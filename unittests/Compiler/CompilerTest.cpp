//===- CompilerTest.cpp - graphs as text, values by hand ------------------===//
#include "CompilerTest.h"

#include "ModelText.h"

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <stdexcept>

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
/// A test cannot go on without what did not come about: googletest reports what is thrown.
template <typename T> T orThrow(Result<T> result, const std::string &what = {}) {
  if (!result)
    throw std::runtime_error(result.error().message + "\n" + what);
  return std::move(*result);
}
} // namespace

Loaded::Loaded(const std::string &module, std::shared_ptr<WeightTable> weights, ExecutableOptions options,
               std::shared_ptr<Engine> engine)
    : Loaded(orThrow(compiler::loadModule(module, std::move(weights)), module).model, options, std::move(engine)) {}

Loaded::Loaded(std::shared_ptr<const Model> given, ExecutableOptions options, std::shared_ptr<Engine> engine)
    : model(std::move(given)) {
  if (!engine)
    engine = orThrow(Engine::create());
  executable = orThrow(Executable::create(std::move(engine), model, options));
}

Result<std::vector<Tensor>> Loaded::run(const std::vector<Value> &inputs, const RunOptions &options) const {
  std::vector<NamedTensor> named;
  const auto &specs = model->signature().inputs;
  for (size_t i = 0; i != inputs.size(); ++i)
    named.push_back({i < specs.size() ? std::string_view(specs[i]->name) : "surplus", inputs[i].view()});
  return executable->run(named, options);
}

std::vector<Tensor> Loaded::outputs(const std::vector<Value> &inputs, const RunOptions &options) const {
  Result<std::vector<Tensor>> results = run(inputs, options);
  if (results)
    return std::move(*results);
  throw std::runtime_error(results.error().message);
}

std::string Loaded::error(const std::vector<Value> &inputs, const RunOptions &options) const {
  Result<std::vector<Tensor>> results = run(inputs, options);
  if (!results)
    return results.error().message;
  ADD_FAILURE() << "the run must fail";
  return {};
}

std::string typeOf(const std::vector<std::string> &dims, const std::string &element) {
  std::string sizes, names;
  bool dynamic = false;
  for (const std::string &dim : dims) {
    bool number = dim.find_first_not_of("0123456789") == std::string::npos;
    dynamic |= !number;
    sizes += (number ? dim : "?") + "x";
    names += (names.empty() ? "" : ", ") + dim;
  }
  return "tensor<" + sizes + element + (dynamic ? ", #rlx.dims<[" + names + "]>>" : ">");
}

std::string graphText(const std::vector<std::string> &dims,
                      const std::vector<std::pair<std::string, std::string>> &inputs,
                      const std::vector<std::pair<std::string, std::string>> &outputs, const std::string &body) {
  std::string arguments, results, values, types, declared, text = body;
  auto comma = [](const std::string &list) { return list.empty() ? "" : ", "; };
  for (const auto &[name, type] : inputs)
    arguments += comma(arguments) + ("%" + name) + ": " + type + " {rlx.name = \"" + name + "\"}";
  for (const auto &[name, type] : outputs) {
    results += comma(results) + type + " {rlx.name = \"" + name + "\"}";
    values += comma(values) + ("%" + name);
    types += comma(types) + type;
  }
  for (const auto *list : {&inputs, &outputs})
    for (const auto &[name, type] : *list)
      for (size_t place = 0; (place = text.find("$" + name, place)) != std::string::npos;) {
        size_t end = place + 1 + name.size();
        if (end != text.size() && (std::isalnum(static_cast<unsigned char>(text[end])) || text[end] == '_')) {
          place = end;
          continue;
        }
        text.replace(place, 1 + name.size(), type);
        place += type.size();
      }
  for (const std::string &dim : dims)
    declared += comma(declared) + ("#rlx.dim<\"" + dim + "\">");
  return "rlx.graph @main(" + arguments + ") -> (" + results + ") attributes {dims = [" + declared + "]} {\n" + text +
         "\nrlx.output " + values + " : " + types + "\n}\n";
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
