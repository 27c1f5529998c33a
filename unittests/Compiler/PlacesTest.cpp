//===- PlacesTest.cpp - one compiler, wherever it is ----------------------===//
//
// What a worker makes of a model is what the compiler makes of it in the process.
//
//===----------------------------------------------------------------------===//
#include "CompilerTest.h"
#include "ModelText.h"

#include "gmock/gmock.h"

#include <algorithm>
#include <filesystem>

using namespace rlx;
using namespace rlx::compilertest;
using testing::HasSubstr;

namespace {

std::shared_ptr<Engine> engineAt(CompilerPlace place) {
  EngineOptions options;
  options.threads = 2;
  options.compiler = place;
  options.compilerSource = compiler::inProcess();
  options.worker.program = RLX_TEST_WORKER;
  auto engine = Engine::create(std::move(options));
  EXPECT_TRUE(engine);
  return *engine;
}

struct Both {
  std::shared_ptr<Engine> here = engineAt(CompilerPlace::InProcess), there = engineAt(CompilerPlace::Worker);
};

void compareModels(const Model &here, const Model &there) {
  EXPECT_EQ(here.signature(), there.signature());
  ASSERT_EQ(here.weights().rows().size(), there.weights().rows().size());
  for (const auto &[name, row] : here.weights().rows()) {
    const WeightRow *other = there.weights().find(name);
    ASSERT_TRUE(other) << name;
    EXPECT_EQ(row.type, other->type);
    EXPECT_EQ(row.shape, other->shape);
    EXPECT_TRUE(std::ranges::equal(row.bytes, other->bytes)) << name;
  }
}

/// Runs both with every dim of that size; returns whether there was a result.
bool compareRuns(Executable &here, Executable &there, int64_t size) {
  Binding binding;
  for (const auto &dim : here.model()->signature().dims)
    binding[dim->name] = size * dim->multiple;
  std::vector<Value> values;
  std::vector<NamedTensor> inputs;
  for (size_t i = 0; i != here.model()->signature().inputs.size(); ++i) {
    const auto &spec = *here.model()->signature().inputs[i];
    Shape shape;
    for (const DimExpr &dim : here.model()->inputShapes()[i]) {
      Result<int64_t> number = dim.evaluate(binding);
      if (!number)
        return false;
      shape.push_back(*number);
    }
    std::optional<int64_t> count = elementCount(shape);
    if (!count)
      return false;
    Value value{spec.type, shape, std::vector<uint8_t>(static_cast<size_t>(*count) * elementSize(spec.type))};
    if (spec.type == ElementType::F32)
      value = randomF32(shape, static_cast<uint32_t>(size));
    values.push_back(std::move(value));
  }
  for (size_t i = 0; i != values.size(); ++i)
    inputs.push_back({here.model()->signature().inputs[i]->name, values[i].view()});
  RunOptions options;
  options.binding = binding;
  auto first = here.run(inputs, options), second = there.run(inputs, options);
  EXPECT_EQ(static_cast<bool>(first), static_cast<bool>(second));
  if (!first || !second) {
    EXPECT_EQ(first ? "" : first.error().message, second ? "" : second.error().message);
    return false;
  }
  for (size_t i = 0; i != first->size(); ++i)
    EXPECT_EQ(difference((*first)[i], (*second)[i]), "") << "output " << i;
  return true;
}

/// Loads and runs a file in both ways; returns how many runs had a result.
unsigned compare(const Both &engines, const std::string &path, const LoadOptions &options = {}) {
  SCOPED_TRACE(path);
  Result<LoadedModel> here = loadModel(*engines.here, path, options), there = loadModel(*engines.there, path, options);
  EXPECT_EQ(static_cast<bool>(here), static_cast<bool>(there));
  if (!here || !there) {
    EXPECT_EQ(here ? "" : here.error().message, there ? "" : there.error().message);
    EXPECT_EQ(here.error().code, there.error().code);
    return 0;
  }
  EXPECT_EQ(here->warnings, there->warnings);
  compareModels(*here->model, *there->model);
  auto first = Executable::create(engines.here, here->model), second = Executable::create(engines.there, there->model);
  EXPECT_TRUE(first && second);
  unsigned results = 0;
  for (int64_t size : {2, 3, 1, 0})
    results += compareRuns(**first, **second, size);
  return results;
}

} // namespace

TEST(Places, ModelsOfTheCases) {
  Both engines;
  unsigned results = 0, models = 0;
  for (const auto &entry : std::filesystem::directory_iterator(RLX_TEST_CASES)) {
    std::string path = entry.path() / "model.onnx";
    if (!std::filesystem::exists(path))
      continue;
    ++models;
    results += compare(engines, path);
    LoadOptions dynamic;
    dynamic.dynamicInputs = true;
    results += compare(engines, path, dynamic);
  }
  EXPECT_GT(models, 10u);
  EXPECT_GT(results, models);
}

// Weights that lie in the file, at odd places too, and weights that lie nowhere but in the message.
TEST(Places, WeightsOfEveryKind) {
  using test::input, test::node, test::output, test::modelBytes;
  std::string numbers, raw;
  for (int i = 0; i != 40 * 8; ++i) {
    numbers += "float_data: " + std::to_string(i % 13 - 6) + " ";
    raw += i % 2 ? "\\000\\000\\200\\077" : "\\000\\000\\000\\100"; // 1 and 2
  }
  std::string graph = input("x", test::f32, {"N", "40"}) + "initializer { name: 'said' data_type: 1 dims: 40 dims: 8 " +
                      numbers + "} initializer { name: 'raw' data_type: 1 dims: 40 dims: 8 raw_data: '" + raw +
                      "' } initializer { name: 'r' data_type: 1 dims: 40 dims: 8 raw_data: '" + raw + "' } " +
                      node("a", "Add", {"said", "raw"}, {"s"}) + node("b", "Mul", {"s", "r"}, {"p"}) +
                      node("m", "MatMul", {"x", "p"}, {"y"}) + output("y");
  TemporaryFolder folder;
  Both engines;
  EXPECT_EQ(compare(engines, folder.write("m.onnx", modelBytes(graph))), 4u);
}

TEST(Places, WeightsBesideAModule) {
  TemporaryFolder folder;
  WeightTable table;
  Value w = randomF32({4, 8}, 3);
  ASSERT_TRUE(table.add("w", WeightRow{w.type, w.shape, std::as_bytes(std::span(w.bytes)), nullptr}));
  std::string file = folder.write("w.safetensors", "");
  ASSERT_TRUE(table.writeSafetensors(file));
  std::string text = graphText({"B"}, {{"x", typeOf({"B", "4"})}}, {{"y", typeOf({"B", "8"})}},
                               "%w = rlx.weight \"w\" : tensor<4x8xf32>\n"
                               "%y = rlx.matmul %x, %w : $x, tensor<4x8xf32> -> $y");
  Both engines;
  std::string path = folder.write("m.mlir", text);
  LoadOptions options;
  options.weightsFile = file;
  EXPECT_EQ(compare(engines, path, options), 4u);
  EXPECT_EQ(compare(engines, path), 0u);
  // Named by the module itself.
  EXPECT_EQ(compare(engines,
                    folder.write("n.mlir", "module attributes {rlx.weights = \"w.safetensors\"} {\n" + text + "}\n")),
            4u);
}

TEST(Places, ErrorsAreTheSame) {
  TemporaryFolder folder;
  Both engines;
  for (const std::string &path :
       {folder.write("a.onnx", "no model"), folder.write("b.onnx", ""), folder.write("a.mlir", "rlx.graph"),
        folder.write("a.txt", ""), std::string("nowhere/a.onnx"), std::string("/tmp"), std::string(), std::string("/"),
        folder.write("c.onnx", test::modelBytes(test::input("x", test::f32, {"N"}) +
                                                test::node("n", "NoSuchOp", {"x"}, {"y"}) + test::output("y")))})
    EXPECT_EQ(compare(engines, path), 0u);
}
