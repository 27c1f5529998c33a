//===- dispatch.cpp - what a run costs besides its kernels ----------------===//
#include "ArenaPool.h"
#include "Bench.h"
#include "SpecializationCache.h"
#include "rlx/Compiler/Load.h"
#include "rlx/Runtime/Engine.h"
#include "rlx/Runtime/Executable.h"
#include "rlx/Runtime/Model.h"

#include <array>
#include <fmt/format.h>

using namespace rlx;
using namespace rlx::bench;

namespace {

constexpr const char *kModel = R"(
rlx.graph @add_one(%x: tensor<?x4xf32, #rlx.dims<[N, 4]>> {rlx.name = "x"}) -> (tensor<?x4xf32> {rlx.name = "y"})
    attributes {dims = [#rlx.dim<"N">]} {
  %one = rlx.constant dense<1.0> : tensor<f32>
  %0 = rlx.add %x, %one : tensor<?x4xf32, #rlx.dims<[N, 4]>>, tensor<f32> -> tensor<?x4xf32>
  rlx.output %0 : tensor<?x4xf32>
}
)";

/// Calls between two looks at the clock are so short that calling them one by one would show.
constexpr int kCalls = 100;

struct Timed {
  std::string name, what;
  std::function<bool()> call;
};

/// Values, and views of them, for each input or output of a model.
struct Data {
  std::vector<Tensor> tensors;
  std::vector<NamedTensor> inputs;
  std::vector<OutputBuffer> outputs;
};

Result<Data> dataFor(const Model &model, const Binding &binding) {
  Data data;
  auto add = [&](const data::TensorSpecT &spec, const std::vector<DimExpr> &dims) -> Result<Tensor *> {
    std::vector<int64_t> shape;
    for (const DimExpr &dim : dims) {
      Result<int64_t> size = dim.evaluate(binding);
      if (!size)
        return size.takeError();
      shape.push_back(*size);
    }
    Result<Tensor> tensor = Tensor::allocate(spec.type, std::move(shape));
    if (!tensor)
      return tensor.takeError();
    std::fill_n(static_cast<std::byte *>(tensor->data()), tensor->bytes(), std::byte(0));
    data.tensors.push_back(std::move(*tensor));
    return &data.tensors.back();
  };
  const data::ModelSignatureT &signature = model.signature();
  data.tensors.reserve(signature.inputs.size() + signature.outputs.size());
  for (size_t i = 0; i != signature.inputs.size(); ++i) {
    Result<Tensor *> tensor = add(*signature.inputs[i], model.inputShapes()[i]);
    if (!tensor)
      return tensor.takeError();
    data.inputs.push_back({signature.inputs[i]->name, (*tensor)->view()});
  }
  for (size_t i = 0; i != signature.outputs.size(); ++i) {
    Result<Tensor *> tensor = add(*signature.outputs[i], model.outputShapes()[i]);
    if (!tensor)
      return tensor.takeError();
    data.outputs.push_back({signature.outputs[i]->name, (*tensor)->type(), (*tensor)->data(), (*tensor)->bytes()});
  }
  return data;
}
} // namespace

int main(int argc, char **argv) {
  Bench bench("dispatch", "What a run of a small model costs where its specialization is there: nanoseconds of each "
                          "part, and of whole runs. One thread.");
  std::string path;
  int64_t size = 1;
  bench.app.add_option("--model", path, "A model (x[N,4] + 1)")->type_name("FILE");
  bench.app.add_option("--size", size, "Of each of its dims")->capture_default_str();
  if (std::optional<int> code = bench.parse(argc, argv))
    return *code;

  EngineOptions options;
  options.threads = 1;
  auto engine = Engine::create(options);
  if (!engine)
    return bench.fail(engine.error().message);
  auto loaded = path.empty() ? compiler::loadModule(kModel) : compiler::loadModel(path);
  if (!loaded)
    return bench.fail(loaded.error().message);
  std::shared_ptr<const Model> model = loaded->model;
  auto made = Executable::create(*engine, model);
  if (!made)
    return bench.fail(made.error().message);
  Executable &executable = **made;
  Binding binding;
  for (const auto &dim : model->signature().dims)
    binding[dim->name] = size;
  auto data = dataFor(*model, binding);
  if (!data)
    return bench.fail(data.error().message);
  if (Status status = executable.runInto(data->inputs, data->outputs); !status)
    return bench.fail(status.error().message);

  // The same at the next size of a bucket, where the model may be padded.
  ExecutableOptions inBuckets;
  for (const auto &dim : model->signature().dims)
    if (int64_t larger = size + dim->multiple; dim->paddable && size > 0 && larger <= dim->max) {
      inBuckets.hints.push_back({});
      inBuckets.hints.back().dim = dim->name;
      inBuckets.hints.back().buckets = {{1, larger + 1}};
    }
  auto padded = Executable::create(*engine, model, inBuckets);
  if (!padded)
    return bench.fail(padded.error().message);
  if (Status status = (*padded)->runInto(data->inputs, data->outputs); !status)
    return bench.fail(status.error().message);

  // The parts by themselves: a cache and an arena as the executable has them.
  std::vector<int64_t> sizes(model->solver().dims().size(), size);
  auto cache = std::make_shared<SpecializationCache>(*engine, model, 64);
  auto ready = cache->get(sizes);
  if (!ready)
    return bench.fail(ready.error().message);
  size_t bytes = ready->ready->layout.bytes;
  ArenaPool arenas;
  std::unique_ptr<RunContext> context = executable.createContext();
  const Binding none;
  const RunOptions plain;
  std::vector<NamedTensor> &inputs = data->inputs;
  std::vector<OutputBuffer> &outputs = data->outputs;

  std::vector<Timed> parts = {
      {"solve", "sizes from the inputs", [&] { return bool(model->solver().solve(inputs, outputs, none, sizes)); }},
      {"lookup", "the specialization of the sizes", [&] { return bool(cache->get(sizes)); }},
      {"memory", "a block is borrowed and given back", [&] { return bool(arenas.borrow(bytes)); }},
      {"runInto", "into the caller's buffers", [&] { return bool(executable.runInto(inputs, outputs, plain)); }},
      {"run context", "into memory that the caller holds on to", [&] { return bool(context->run(inputs, plain)); }},
      {"run", "into new tensors", [&] { return bool(executable.run(inputs, plain)); }},
  };
  if (!inBuckets.hints.empty())
    parts.push_back({"in a bucket", "runInto, padded to the next size that its dims can have",
                     [&] { return bool((*padded)->runInto(inputs, outputs, plain)); }});
  bool failed = false;
  Race race;
  for (const Timed &part : parts)
    race.add([&part, &failed] {
      for (int i = 0; i != kCalls; ++i)
        failed |= !part.call();
    });
  race.run(bench.rounds);
  if (failed)
    return bench.fail("a call failed");

  Sheet sheet({"part", "ns", "fastest ns", "what"});
  for (size_t i = 0; i != parts.size(); ++i)
    sheet.add({parts[i].name, cell("{:.0f}", race.seconds(i) / kCalls * 1e9),
               cell("{:.0f}", race.fastest(i) / kCalls * 1e9), parts[i].what});
  bench.print("a hit", sheet);
  bench.require(race.seconds(3) / kCalls <= 300e-9, "runInto in 300 ns or less");
  return bench.finish();
}
