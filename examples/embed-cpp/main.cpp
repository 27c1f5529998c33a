// A small server of a model: two threads run one executable with sizes that change from request to request.
//
//   embed-cpp MODEL [REQUESTS]        embed-cpp ../join.mlir 12
//
// MODEL is an .onnx or .mlir file. Request r gives the k-th named dim the size 1 + (r + k) mod 4. The first of these
// bindings are prepared in the background while the server starts; the others are met by the runs. Printed are the
// outputs' shapes with the sum of each, in the order of the requests, then what the cache did.
#include "rlx/Runtime/Engine.h"
#include "rlx/Runtime/Executable.h"
#include "rlx/Runtime/Load.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

[[noreturn]] void fail(const std::string &doing, const rlx::Error &error) {
  std::fprintf(stderr, "embed-cpp: %s: %s\n", doing.c_str(), error.message.c_str());
  std::exit(1);
}

/// The value of a Result, or the end of the program.
template <typename T> T valueOf(rlx::Result<T> result, const std::string &doing) {
  if (!result)
    fail(doing, result.error());
  return std::move(*result);
}

rlx::Binding bindingOf(const rlx::Model &model, size_t request) {
  rlx::Binding binding;
  for (size_t k = 0; k != model.signature().dims.size(); ++k)
    binding[model.signature().dims[k]->name] = 1 + static_cast<int64_t>((request + k) % 4);
  return binding;
}

/// Made-up values for an input: element i of request r is r + i / 4, or, where an id is wanted, (r + i) mod 5; others
/// are zero.
rlx::Tensor makeInput(const rlx::Model &model, size_t input, const rlx::Binding &binding, size_t request) {
  const auto &spec = *model.signature().inputs[input];
  std::vector<int64_t> shape;
  for (const rlx::DimExpr &dim : model.inputShapes()[input])
    shape.push_back(valueOf(dim.evaluate(binding), "the shape of input '" + spec.name + "'"));
  rlx::Tensor tensor = valueOf(rlx::Tensor::allocate(spec.type, shape), "memory for input '" + spec.name + "'");
  std::memset(tensor.data(), 0, tensor.bytes());
  for (int64_t i = 0; i != tensor.elements(); ++i) {
    auto count = static_cast<int64_t>(request) + i;
    if (spec.type == rlx::data::ElementType::F32)
      tensor.as<float>()[i] = static_cast<float>(request) + 0.25f * static_cast<float>(i);
    else if (spec.type == rlx::data::ElementType::I64)
      tensor.as<int64_t>()[i] = count % 5;
    else if (spec.type == rlx::data::ElementType::I32)
      tensor.as<int32_t>()[i] = static_cast<int32_t>(count % 5);
  }
  return tensor;
}

/// "z [5,4] sum 12.5"
std::string describe(const std::string &name, const rlx::Tensor &tensor) {
  std::string text = name + " " + rlx::shapeString(tensor.shape());
  if (tensor.type() != rlx::data::ElementType::F32)
    return text;
  double sum = 0;
  for (float value : tensor.as<float>())
    sum += value;
  char number[32];
  std::snprintf(number, sizeof number, " sum %g", sum);
  return text + number;
}

std::string serve(rlx::Executable &executable, size_t request) {
  const rlx::Model &model = *executable.model();
  rlx::Binding binding = bindingOf(model, request);
  std::vector<rlx::Tensor> values;
  for (size_t i = 0; i != model.signature().inputs.size(); ++i)
    values.push_back(makeInput(model, i, binding, request));
  std::vector<rlx::NamedTensor> inputs;
  for (size_t i = 0; i != values.size(); ++i)
    inputs.push_back({model.signature().inputs[i]->name, values[i].view()});

  std::vector<rlx::Tensor> outputs = valueOf(executable.run(inputs), "request " + std::to_string(request));
  std::string answer = rlx::bindingString(binding);
  for (size_t i = 0; i != outputs.size(); ++i)
    answer += "  " + describe(model.signature().outputs[i]->name, outputs[i]);
  return answer;
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 2 && argc != 3) {
    std::fprintf(stderr, "usage: embed-cpp MODEL [REQUESTS]\n");
    return 2;
  }
  const size_t requests = argc == 3 ? std::strtoul(argv[2], nullptr, 10) : 12;

  auto engine = valueOf(rlx::Engine::create(), "making an engine");
  rlx::LoadedModel loaded = valueOf(rlx::loadModel(*engine, argv[1]), "loading the model");
  for (const std::string &warning : loaded.warnings)
    std::fprintf(stderr, "embed-cpp: %s\n", warning.c_str());
  auto executable = valueOf(rlx::Executable::create(engine, loaded.model), "making an executable");

  std::vector<rlx::Binding> soon = {bindingOf(*loaded.model, 0), bindingOf(*loaded.model, 1)};
  auto preparation = valueOf(executable->prepareInBackground(soon), "preparing");

  // Requests need not wait for that: a run that misses makes its specialization, or waits for who is at it.
  std::vector<std::string> answers(requests);
  std::atomic<size_t> next{0};
  auto work = [&] {
    for (size_t request = next++; request < requests; request = next++)
      answers[request] = serve(*executable, request);
  };
  std::thread helper(work);
  work();
  helper.join();
  if (rlx::Status status = preparation->wait(); !status)
    fail("preparing", status.error());

  for (const std::string &answer : answers)
    std::printf("%s\n", answer.c_str());
  rlx::Statistics stats = executable->stats();
  double ms = 0;
  for (const auto &[phase, time] : stats.times)
    ms += time;
  std::printf("%llu templates, %llu specializations held, %llu kernels compiled, %.1f ms in the compiler\n",
              static_cast<unsigned long long>(stats.templatesMade), static_cast<unsigned long long>(stats.entries),
              static_cast<unsigned long long>(stats.kernelsCompiled), ms);
  for (const rlx::BindingInfo &info : executable->bindings())
    std::printf("  %s: %llu hits\n", rlx::bindingString(info.binding).c_str(),
                static_cast<unsigned long long>(info.hits));
  return 0;
}
