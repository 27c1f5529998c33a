//===- Executable.cpp - runs a model at any sizes -------------------------===//
#include "rlx/Runtime/Executable.h"

#include "Convert.h"
#include "SpecializationCache.h"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <cstring>

using namespace rlx;
using data::ElementType;

struct Executable::State {
  std::shared_ptr<SpecializationCache> cache; ///< shared by clones
  mutable std::mutex mutex;                   ///< guards the members below
  ParamValues params;
  RngOptions rng;

  const Model &model() const { return *cache->model; }
  const data::ModelSignatureT &signature() const { return cache->model->signature(); }

  Status setParam(std::string_view name, const void *data, size_t bytes, ElementType type);
  Result<ParamValues> paramsSet() const;
  Result<std::shared_ptr<const ReadySpecialization>>
  prepareRun(std::span<const NamedTensor> inputs, std::span<const OutputBuffer> outputs, const RunOptions &options);
  Status run(const ReadySpecialization &ready, std::span<const NamedTensor> inputs, const RunOptions &options,
             std::vector<void *> outputs);
};

namespace {
using Clock = std::chrono::steady_clock;
double msSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

Error invalid(const std::string &text) { return Error{ErrorCode::InvalidArgument, text}; }

/// Values as kernels take them: the right type, aligned, i1 as 0 and 1. Points
/// into `view` where it is so already, else into `copy`.
Result<const void *> conform(const std::string &what, const TensorView &view, ElementType type, int64_t elements,
                             AlignedBytes &copy) {
  auto count = static_cast<size_t>(elements);
  bool narrow = view.type == ElementType::F32 && isShortFloat(type);
  if (view.type != type && !narrow)
    return invalid(what + " is " + elementTypeName(view.type) + ", but must be " + elementTypeName(type));
  // The solver has seen the sizes; this is what keeps kernels inside the bytes.
  if (view.bytes != count * elementSize(view.type))
    return invalid(what + " has " + std::to_string(view.bytes) + " bytes, but its " + std::to_string(elements) +
                   " elements of " + elementTypeName(view.type) + " take " +
                   std::to_string(count * elementSize(view.type)));
  if (view.bytes && !view.data)
    return invalid(what + " has no data");
  const auto *bytes = static_cast<const uint8_t *>(view.data);
  bool odd = type == ElementType::I1 && std::any_of(bytes, bytes + count, [](uint8_t value) { return value > 1; });
  if (!narrow && !odd && isAligned(view.data, type))
    return view.data;
  copy = allocateAligned(count * elementSize(type));
  if (!copy)
    return Error{ErrorCode::OutOfRange, "no memory for " + what};
  if (narrow)
    narrowFromF32(view.data, type, copy.get(), count);
  else if (odd)
    std::transform(bytes, bytes + count, reinterpret_cast<uint8_t *>(copy.get()),
                   [](uint8_t value) -> uint8_t { return value != 0; });
  else if (view.bytes)
    std::memcpy(copy.get(), view.data, view.bytes);
  return static_cast<const void *>(copy.get());
}

bool overlap(const void *a, size_t aBytes, const void *b, size_t bBytes) {
  auto x = reinterpret_cast<uintptr_t>(a), y = reinterpret_cast<uintptr_t>(b);
  return aBytes && bBytes && x < y + bBytes && y < x + aBytes;
}
} // namespace

//===----------------------------------------------------------------------===//
// Params
//===----------------------------------------------------------------------===//

Status Executable::State::setParam(std::string_view name, const void *data, size_t bytes, ElementType type) {
  std::optional<size_t> position = model().findParam(name);
  if (!position)
    return invalid("there is no param '" + std::string(name) + "'");
  const data::TensorSpecT &spec = *signature().params[*position];
  std::string what = "param '" + spec.name + "'";
  if (type != spec.type && !(type == ElementType::F32 && isShortFloat(spec.type)))
    return invalid(what + " is set from " + elementTypeName(type) + ", but is " + elementTypeName(spec.type));
  size_t width = elementSize(type);
  if (bytes % width != 0)
    return invalid(what + " is set from " + std::to_string(bytes) + " bytes, not a multiple of " +
                   std::to_string(width));
  auto elements = static_cast<int64_t>(bytes / width);
  // A shape with named dims is checked by each run, against its sizes.
  std::vector<int64_t> shape;
  const std::vector<DimExpr> &dims = model().paramShapes()[*position];
  for (const DimExpr &dim : dims)
    if (std::optional<int64_t> size = dim.constant())
      shape.push_back(*size);
  if (shape.size() == dims.size() && elementCount(shape) != elements)
    return invalid(what + " of shape " + shapeString(shape) + " is set from " + std::to_string(elements) + " elements");

  AlignedBytes value;
  Result<const void *> source = conform(what, TensorView{type, {}, data, bytes, true}, spec.type, elements, value);
  if (!source)
    return source.takeError();
  if (!value) {
    value = allocateAligned(bytes);
    if (!value)
      return Error{ErrorCode::OutOfRange, "no memory for " + what};
    if (bytes)
      std::memcpy(value.get(), *source, bytes);
  }
  auto made = std::make_shared<const ParamValue>(spec.type, elements, std::move(value));
  std::lock_guard lock(mutex);
  params[*position] = std::move(made);
  return Status::ok();
}

Result<ParamValues> Executable::State::paramsSet() const {
  std::string missing;
  std::lock_guard lock(mutex);
  for (size_t i = 0; i != params.size(); ++i)
    if (!params[i])
      missing += (missing.empty() ? "'" : ", '") + signature().params[i]->name + "'";
  if (!missing.empty())
    return invalid("params that are not set: " + missing);
  return params;
}

Status Executable::setParam(std::string_view name, std::span<const float> values) {
  return state->setParam(name, values.data(), values.size_bytes(), ElementType::F32);
}

Status Executable::setParamTyped(std::string_view name, std::span<const std::byte> bytes, ElementType type) {
  if (!elementSize(type))
    return invalid("param '" + std::string(name) + "' is set from an unknown type");
  return state->setParam(name, bytes.data(), bytes.size(), type);
}

Status Executable::finalizeParams() {
  Result<ParamValues> params = state->paramsSet();
  if (!params)
    return params.takeError();
  for (const auto &ready : state->cache->held()) {
    const Specialization &made = *ready->plan;
    for (size_t i = 0; i != made.buffers.size(); ++i) {
      const data::BufferT &buffer = *made.plan->buffers[i];
      if (buffer.kind != data::BufferKind::Param)
        continue;
      Result<const void *> packed = (*params)[made.buffers[i].param]->get(layoutOf(buffer));
      if (!packed)
        return Error{packed.error().code, "param '" + state->signature().params[made.buffers[i].param]->name +
                                              "': " + packed.error().message};
    }
  }
  return Status::ok();
}

//===----------------------------------------------------------------------===//
// Runs
//===----------------------------------------------------------------------===//

Result<std::shared_ptr<const ReadySpecialization>> Executable::State::prepareRun(std::span<const NamedTensor> inputs,
                                                                                 std::span<const OutputBuffer> outputs,
                                                                                 const RunOptions &options) {
  std::vector<int64_t> sizes(model().solver().dims().size());
  if (Status status = model().solver().solve(inputs, outputs, options.binding, sizes); !status)
    return status.takeError();
  Clock::time_point start = Clock::now();
  Result<SpecializationCache::Acquired> acquired = cache->get(sizes);
  if (options.report) {
    options.report->binding = model().solver().binding(sizes);
    options.report->origin = acquired ? acquired->origin : Origin::Hit;
    options.report->specializeMs =
        acquired && acquired->origin == Origin::Hit && !acquired->waited ? 0 : msSince(start);
    options.report->runMs = 0;
  }
  if (!acquired)
    return acquired.takeError();
  return std::move(acquired->ready);
}

Status Executable::State::run(const ReadySpecialization &ready, std::span<const NamedTensor> inputs,
                              const RunOptions &options, std::vector<void *> outputs) {
  Clock::time_point start = Clock::now();
  RunArguments arguments;
  arguments.outputs = std::move(outputs);
  Result<ParamValues> params = paramsSet();
  if (!params)
    return params.takeError();
  arguments.params = std::move(*params);
  {
    std::lock_guard lock(mutex);
    arguments.seed = rng.seed;
    arguments.step = options.step.value_or(rng.step);
  }
  // The solver has seen to it that every input is there once.
  size_t count = signature().inputs.size();
  arguments.inputs.resize(count);
  std::vector<AlignedBytes> copies(count);
  std::vector<bool> seen(count);
  for (const NamedTensor &input : inputs) {
    std::optional<size_t> position = model().findInput(input.name);
    if (!position || seen[*position])
      return invalid("input '" + std::string(input.name) + (position ? "' is given twice" : "' does not exist"));
    seen[*position] = true;
    Result<const void *> data =
        conform("input '" + std::string(input.name) + "'", input.tensor, signature().inputs[*position]->type,
                ready.inputElements[*position], copies[*position]);
    if (!data)
      return data.takeError();
    arguments.inputs[*position] = *data;
  }
  for (size_t i = 0; i != count; ++i)
    if (!seen[i])
      return invalid("input '" + signature().inputs[i]->name + "' is missing");
  arguments.profile = options.profile;
  if (options.profile)
    options.profile->clear();
  Status status = execute(ready, signature(), cache->engine->arenas(), cache->engine->pool(), arguments);
  if (options.report)
    options.report->runMs = msSince(start);
  return status;
}

Result<std::vector<Tensor>> Executable::run(std::span<const NamedTensor> inputs, const RunOptions &options) {
  std::vector<size_t> all(state->signature().outputs.size());
  for (size_t i = 0; i != all.size(); ++i)
    all[i] = i;
  return runReadOutputs(inputs, all, options);
}

Result<std::vector<Tensor>> Executable::runReadOutputs(std::span<const NamedTensor> inputs,
                                                       std::span<const size_t> outputs, const RunOptions &options) {
  const data::ModelSignatureT &signature = state->signature();
  for (size_t output : outputs)
    if (output >= signature.outputs.size())
      return invalid("output " + std::to_string(output) + " does not exist: there are " +
                     std::to_string(signature.outputs.size()));
  // Before anything is compiled for a run that cannot succeed.
  if (Result<ParamValues> params = state->paramsSet(); !params)
    return params.takeError();
  auto ready = state->prepareRun(inputs, {}, options);
  if (!ready)
    return ready.takeError();

  std::vector<Tensor> made(signature.outputs.size());
  std::vector<void *> places(signature.outputs.size());
  for (size_t output : outputs) {
    if (places[output])
      continue;
    Result<Tensor> tensor = Tensor::allocate(signature.outputs[output]->type, (*ready)->plan->outputs[output]);
    if (!tensor)
      return Error{tensor.error().code, "output '" + signature.outputs[output]->name + "': " + tensor.error().message};
    made[output] = std::move(*tensor);
    places[output] = made[output].data();
  }
  if (Status status = state->run(**ready, inputs, options, std::move(places)); !status)
    return status.takeError();
  std::vector<Tensor> results;
  for (size_t i = 0; i != outputs.size(); ++i) {
    bool again = std::find(outputs.begin() + static_cast<ptrdiff_t>(i) + 1, outputs.end(), outputs[i]) != outputs.end();
    if (!again) {
      results.push_back(std::move(made[outputs[i]]));
      continue;
    }
    Result<Tensor> copy = Tensor::copyOf(made[outputs[i]].view());
    if (!copy)
      return copy.takeError();
    results.push_back(std::move(*copy));
  }
  return results;
}

Status Executable::runInto(std::span<const NamedTensor> inputs, std::span<const OutputBuffer> outputs,
                           const RunOptions &options) {
  const data::ModelSignatureT &signature = state->signature();
  std::vector<size_t> positions;
  for (size_t i = 0; i != outputs.size(); ++i) {
    const OutputBuffer &output = outputs[i];
    std::optional<size_t> position = state->model().findOutput(output.name);
    if (!position)
      return invalid("there is no output '" + std::string(output.name) + "'");
    if (std::find(positions.begin(), positions.end(), *position) != positions.end())
      return invalid("output '" + std::string(output.name) + "' is given twice");
    ElementType type = signature.outputs[*position]->type;
    if (output.type != type && !(output.type == ElementType::F32 && isShortFloat(type)))
      return invalid("output '" + std::string(output.name) + "' is " + elementTypeName(type) + ", but its buffer is " +
                     elementTypeName(output.type));
    if (output.bytes && !output.data)
      return invalid("output '" + std::string(output.name) + "' has no buffer");
    for (const NamedTensor &input : inputs)
      if (overlap(output.data, output.bytes, input.tensor.data, input.tensor.bytes))
        return invalid("the buffer of output '" + std::string(output.name) + "' overlaps input '" +
                       std::string(input.name) + "'");
    for (size_t other = 0; other != i; ++other)
      if (overlap(output.data, output.bytes, outputs[other].data, outputs[other].bytes))
        return invalid("the buffers of outputs '" + std::string(output.name) + "' and '" +
                       std::string(outputs[other].name) + "' overlap");
    positions.push_back(*position);
  }
  if (Result<ParamValues> params = state->paramsSet(); !params)
    return params.takeError();
  auto ready = state->prepareRun(inputs, outputs, options);
  if (!ready)
    return ready.takeError();

  std::vector<void *> places(signature.outputs.size());
  std::vector<AlignedBytes> copies(outputs.size()); // of outputs that cannot be written in place
  for (size_t i = 0; i != outputs.size(); ++i) {
    const OutputBuffer &output = outputs[i];
    const std::vector<int64_t> &shape = (*ready)->plan->outputs[positions[i]];
    ElementType type = signature.outputs[positions[i]]->type;
    auto elements = static_cast<size_t>(*elementCount(shape));
    if (output.bytes != elements * elementSize(output.type))
      return invalid("output '" + std::string(output.name) + "' has shape " + shapeString(shape) + " and takes " +
                     std::to_string(elements * elementSize(output.type)) + " bytes, but its buffer has " +
                     std::to_string(output.bytes));
    if (output.type == type && output.data && isAligned(output.data, type)) {
      places[positions[i]] = output.data;
      continue;
    }
    copies[i] = allocateAligned(elements * elementSize(type));
    if (!copies[i])
      return Error{ErrorCode::OutOfRange, "no memory for output '" + std::string(output.name) + "'"};
    places[positions[i]] = copies[i].get();
  }
  if (Status status = state->run(**ready, inputs, options, std::move(places)); !status)
    return status;
  for (size_t i = 0; i != outputs.size(); ++i) {
    if (!copies[i] || !outputs[i].bytes)
      continue;
    ElementType type = signature.outputs[positions[i]]->type;
    if (outputs[i].type == type)
      std::memcpy(outputs[i].data, copies[i].get(), outputs[i].bytes);
    else
      widenToF32(copies[i].get(), type, outputs[i].data, outputs[i].bytes / sizeof(float));
  }
  return Status::ok();
}

Status Executable::prepare(const Binding &binding) {
  std::vector<int64_t> sizes(state->model().solver().dims().size());
  if (Status status = state->model().solver().check(binding, sizes); !status)
    return status;
  Result<SpecializationCache::Acquired> acquired = state->cache->get(sizes);
  return acquired ? Status::ok() : Status(acquired.takeError());
}

Result<Binding> Executable::solve(std::span<const NamedTensor> inputs, const Binding &given) const {
  return state->model().solver().solve(inputs, given);
}

//===----------------------------------------------------------------------===//
// The rest
//===----------------------------------------------------------------------===//

Executable::Executable(std::unique_ptr<State> state) : state(std::move(state)) {}
Executable::~Executable() = default;

Result<std::shared_ptr<Executable>> Executable::create(std::shared_ptr<Engine> engine,
                                                       std::shared_ptr<const Model> model, ExecutableOptions options) {
  assert(engine && model && "an executable needs an engine and a model");
  size_t capacity = options.cacheEntries ? options.cacheEntries : engine->options().cacheEntries;
  auto state = std::make_unique<State>();
  state->params.resize(model->signature().params.size());
  state->rng = options.rng;
  state->cache = std::make_shared<SpecializationCache>(std::move(engine), std::move(model), capacity);
  return std::shared_ptr<Executable>(new Executable(std::move(state)));
}

void Executable::setRng(const RngOptions &options) {
  std::lock_guard lock(state->mutex);
  state->rng = options;
}

RngOptions Executable::rng() const {
  std::lock_guard lock(state->mutex);
  return state->rng;
}

std::shared_ptr<Executable> Executable::clone() const {
  auto copy = std::make_unique<State>();
  copy->cache = state->cache;
  std::lock_guard lock(state->mutex);
  copy->params = state->params;
  copy->rng = state->rng;
  return std::shared_ptr<Executable>(new Executable(std::move(copy)));
}

Statistics Executable::stats() const { return state->cache->stats(); }
std::vector<BindingInfo> Executable::bindings() const { return state->cache->bindings(); }
std::optional<MissReport> Executable::explain() const { return state->cache->explain(); }
const std::shared_ptr<const Model> &Executable::model() const { return state->cache->model; }
const std::shared_ptr<Engine> &Executable::engine() const { return state->cache->engine; }
