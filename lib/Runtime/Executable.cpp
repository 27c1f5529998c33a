//===- Executable.cpp - runs a model at any sizes -------------------------===//
#include "rlx/Runtime/Executable.h"

#include "Convert.h"
#include "EngineParts.h"
#include "ExecutableState.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <numeric>
#include <set>

using namespace rlx;
using data::ElementType;

namespace {
using Clock = std::chrono::steady_clock;
double msSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

Error invalid(const std::string &text) { return Error{ErrorCode::InvalidArgument, text}; }
std::string inputTitle(std::string_view name) { return "input '" + std::string(name) + "'"; }
std::string outputTitle(std::string_view name) { return "output '" + std::string(name) + "'"; }

bool isNarrowed(ElementType given, ElementType type) { return given == ElementType::F32 && isShortFloat(type); }

/// That `view` has the elements that kernels will read. `what()` names it.
template <typename What>
Status checkView(const TensorView &view, ElementType type, int64_t elements, const What &what) {
  if (view.type != type && !isNarrowed(view.type, type))
    return invalid(what() + " is " + elementTypeName(view.type) + ", but must be " + elementTypeName(type));
  // The solver has seen the sizes; this is what keeps kernels inside the bytes.
  if (view.bytes != static_cast<size_t>(elements) * elementSize(view.type))
    return invalid(what() + " has " + std::to_string(view.bytes) + " bytes, but its " + std::to_string(elements) +
                   " elements of " + elementTypeName(view.type) + " take " +
                   std::to_string(static_cast<size_t>(elements) * elementSize(view.type)));
  if (view.bytes && !view.data)
    return invalid(what() + " has no data");
  return Status::ok();
}

/// Replaces sizes, which have been checked, by those they run at.
void intoBuckets(std::vector<int64_t> &sizes, const Buckets &buckets, const BindingSolver &solver) {
  std::vector<int64_t> larger = sizes;
  if (buckets.roundUp(larger) && solver.check(larger))
    sizes = std::move(larger);
}

/// Whether kernels cannot read the values where they are: another type, not aligned,
/// an i1 that is neither 0 nor 1.
bool needsCopy(const TensorView &view, ElementType type) {
  if (view.type != type || !isAligned(view.data, type))
    return true;
  const auto *bytes = static_cast<const uint8_t *>(view.data);
  return type == ElementType::I1 && std::any_of(bytes, bytes + view.bytes, [](uint8_t value) { return value > 1; });
}

/// The values as kernels take them.
void copyTo(std::byte *target, const TensorView &view, ElementType type) {
  if (!view.bytes)
    return;
  if (view.type != type)
    return narrowFromF32(view.data, type, target, view.bytes / sizeof(float));
  std::memcpy(target, view.data, view.bytes);
  if (type == ElementType::I1)
    for (size_t i = 0; i != view.bytes; ++i)
      target[i] = std::byte(target[i] != std::byte(0));
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

  TensorView view = TensorView::flat(type, data, bytes);
  if (Status status = checkView(view, spec.type, elements, [&] { return what; }); !status)
    return status;
  AlignedBytes value = allocateAligned(static_cast<size_t>(elements) * elementSize(spec.type));
  if (!value)
    return Error{ErrorCode::OutOfRange, "no memory for " + what};
  copyTo(value.get(), view, spec.type);
  auto made = std::make_shared<const ParamValue>(spec.type, elements, std::move(value));
  std::shared_ptr<const ParamValues> old; // freed after the lock
  {
    std::lock_guard lock(mutex);
    std::swap(params[*position], made);
    std::swap(snapshot, old);
  }
  return Status::ok();
}

Result<std::shared_ptr<const ParamValues>> Executable::State::paramsSet() const {
  if (signature().params.empty())
    return std::shared_ptr<const ParamValues>();
  std::string missing;
  std::lock_guard lock(mutex);
  if (snapshot)
    return snapshot;
  for (size_t i = 0; i != params.size(); ++i)
    if (!params[i])
      missing += (missing.empty() ? "'" : ", '") + signature().params[i]->name + "'";
  if (!missing.empty())
    return invalid("params that are not set: " + missing);
  snapshot = std::make_shared<const ParamValues>(params);
  return snapshot;
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
  Result<std::shared_ptr<const ParamValues>> params = state->paramsSet();
  if (!params)
    return params.takeError();
  if (!*params)
    return Status::ok();
  for (const auto &ready : state->setup->cache->held()) {
    const Specialization &made = *ready->plan;
    for (size_t i = 0; i != made.buffers.size(); ++i) {
      const data::BufferT &buffer = *made.plan->buffers[i];
      if (buffer.kind != data::BufferKind::Param)
        continue;
      Result<const void *> packed = (**params)[made.buffers[i].param]->get(layoutOf(buffer));
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

Status Executable::State::prepareRun(std::span<const NamedTensor> inputs, std::span<const OutputBuffer> outputs,
                                     const RunOptions &options, FoundRun &found) {
  size_t dims = setup->solver().dims().size();
  std::span<int64_t> sizes = found.sizes = std::span(found.memory).first(dims);
  if (Status status = setup->solver().solve(inputs, outputs, options.binding, sizes); !status)
    return status;
  for (const NamedTensor &input : inputs)
    if (input.tensor.bytes && !input.tensor.data)
      return invalid(inputTitle(input.name) + " has no data");
  Clock::time_point start;
  if (options.report) {
    start = Clock::now();
    options.report->binding = setup->solver().binding(sizes);
    options.report->origin = Origin::Hit;
    options.report->specializeMs = options.report->runMs = 0;
  }
  if (!setup->buckets.empty()) {
    std::span<int64_t> asked = std::span(found.memory).subspan(dims, dims);
    std::copy(sizes.begin(), sizes.end(), asked.begin());
    if (setup->buckets.roundUp(sizes)) {
      found.asked = asked;
      found.ready = setup->cache->find(sizes);
      if (found.ready)
        return Status::ok();
      // What the caller gave has been checked; whether the model takes the larger sizes has not, before they are there.
      // Where it does not, the run is at its own, and only then are those there.
      found.ready = setup->cache->find(asked);
      if (found.ready || !setup->solver().check(sizes)) {
        std::copy(asked.begin(), asked.end(), sizes.begin());
        found.asked = {};
      }
      if (found.ready)
        return Status::ok();
    }
  }
  Result<SpecializationCache::Acquired> acquired = setup->cache->get(sizes, options.onMiss, options.timeout);
  if (options.report && acquired)
    options.report->origin = acquired->origin;
  if (options.report && !(acquired && acquired->origin == Origin::Hit && !acquired->waited))
    options.report->specializeMs = msSince(start);
  if (!acquired)
    return acquired.takeError();
  found.ready = std::move(acquired->ready);
  return Status::ok();
}

void Executable::State::outputShape(const FoundRun &found, size_t output, std::span<int64_t> shape) const {
  if (!found.asked.empty())
    return setup->outputShapes.evaluate(output, found.asked, shape);
  std::span<const int64_t> made = found.ready->plan->outputs[output];
  std::copy(made.begin(), made.end(), shape.begin());
}

Status Executable::State::run(const FoundRun &found, std::span<const NamedTensor> inputs,
                              std::span<const OutputBuffer> outputs, const ParamValues *params,
                              const RunOptions &options) {
  Clock::time_point start;
  if (options.report)
    start = Clock::now();
  if (options.profile)
    options.profile->clear();
  const ReadySpecialization &ready = *found.ready;
  const RunLayout &layout = ready.layout;
  const Model &model = this->model();
  const data::ModelSignatureT &signature = model.signature();
  // The solver has seen to it that every input is there once and has the right size, and buffers likewise; what is
  // checked here again is what the memory that kernels touch depends on.
  auto inputAt = [&](size_t i) { return model.findInput(inputs[i].name, i); };
  auto outputAt = [&](size_t i) { return model.findOutput(outputs[i].name, i); };
  // What the caller has of a tensor: in a bucket a part of what the kernels have.
  bool padded = !found.asked.empty();
  auto inputElements = [&](size_t position) {
    return padded ? setup->inputShapes.elements(position, found.asked) : ready.inputElements[position];
  };
  auto outputElements = [&](size_t position) {
    return padded ? setup->outputShapes.elements(position, found.asked) : layout.outputElements[position];
  };

  // How much memory.
  BlockSize room(layout.bytes);
  Bits copied(inputs.size()), given(signature.inputs.size()), asked(signature.outputs.size());
  for (size_t i = 0; i != inputs.size(); ++i) {
    const TensorView &tensor = inputs[i].tensor;
    auto what = [&] { return inputTitle(inputs[i].name); };
    std::optional<size_t> position = inputAt(i);
    if (!position || !given.set(*position))
      return invalid(what() + (position ? " is given twice" : " does not exist"));
    ElementType type = signature.inputs[*position]->type;
    int64_t elements = inputElements(*position), whole = ready.inputElements[*position];
    if (Status status = checkView(tensor, type, elements, what); !status)
      return status;
    if (elements != whole || needsCopy(tensor, type)) {
      copied.set(i);
      room.add(static_cast<size_t>(whole) * elementSize(type));
    }
  }
  if (inputs.size() != signature.inputs.size())
    for (size_t i = 0; i != signature.inputs.size(); ++i)
      if (!given.test(i))
        return invalid(inputTitle(signature.inputs[i]->name) + " is missing");
  auto inPlace = [&](const OutputBuffer &output, size_t position) {
    ElementType type = signature.outputs[position]->type;
    return output.type == type && output.data && isAligned(output.data, type) &&
           output.bytes == static_cast<size_t>(layout.outputElements[position]) * elementSize(type);
  };
  for (size_t i = 0; i != outputs.size(); ++i) {
    const OutputBuffer &output = outputs[i];
    std::optional<size_t> position = outputAt(i);
    if (!position || !asked.set(*position))
      return invalid(outputTitle(output.name) + (position ? " is given twice" : " does not exist"));
    auto elements = static_cast<size_t>(outputElements(*position));
    if (output.bytes != elements * elementSize(output.type)) {
      std::vector<int64_t> shape(outputRank(found, *position));
      outputShape(found, *position, shape);
      return invalid(outputTitle(output.name) + " has shape " + shapeString(shape) + " and takes " +
                     std::to_string(elements * elementSize(output.type)) + " bytes, but its buffer has " +
                     std::to_string(output.bytes));
    }
    if (!inPlace(output, *position))
      room.add(static_cast<size_t>(layout.outputElements[*position]) * elementSize(signature.outputs[*position]->type));
  }
  bool whole = outputs.size() == signature.outputs.size();
  size_t spareAt = room.size();
  reserveSpare(layout, asked, whole, room);
  if (room.tooLarge())
    return Error{ErrorCode::OutOfRange, "the memory of a run overflows"};
  Result<ArenaPool::Block> block = engine().parts().arenas.borrow(room.size());
  if (!block)
    return block.takeError();

  constexpr const char *shrinks = " would be smaller at the sizes of its bucket";
  RunFrame run{ready, signature, block->data(), asked, whole, spareAt, params};
  BlockSize copies(layout.bytes);
  for (size_t i = 0; i != inputs.size(); ++i) {
    size_t position = *inputAt(i);
    run.input(position) = inputs[i].tensor.data;
    if (!copied.test(i))
      continue;
    ElementType type = signature.inputs[position]->type;
    size_t bytes = static_cast<size_t>(ready.inputElements[position]) * elementSize(type);
    std::byte *copy = run.memory + copies.add(bytes);
    run.input(position) = copy;
    if (!padded || inputElements(position) == ready.inputElements[position]) {
      copyTo(copy, inputs[i].tensor, type);
      continue;
    }
    ShapeRoom own(setup->inputShapes.rank(position)), larger(setup->inputShapes.rank(position));
    setup->inputShapes.evaluate(position, found.asked, own.sizes());
    setup->inputShapes.evaluate(position, found.sizes, larger.sizes());
    if (!fitsInto(own.sizes(), larger.sizes()))
      return invalid(inputTitle(inputs[i].name) + shrinks);
    const TensorView &tensor = inputs[i].tensor;
    size_t width = elementSize(tensor.type);
    padWithZeros(own.sizes(), copy, bytes, larger.sizes(), elementSize(type),
                 [&](std::byte *to, size_t first, size_t elements) {
                   const std::byte *from = static_cast<const std::byte *>(tensor.data) + first * width;
                   copyTo(to, TensorView::flat(tensor.type, from, elements * width), type);
                 });
  }
  BlockSize results = copies; // copies of outputs follow those of inputs
  for (size_t i = 0; i != outputs.size(); ++i) {
    size_t position = *outputAt(i);
    run.output(position) = outputs[i].data;
    if (!inPlace(outputs[i], position))
      run.output(position) = run.memory + results.add(static_cast<size_t>(layout.outputElements[position]) *
                                                      elementSize(signature.outputs[position]->type));
  }
  if (!layout.randomState.empty()) {
    std::lock_guard lock(mutex);
    run.seed = rng.seed;
    run.step = options.step.value_or(rng.step);
  }
  run.profile = options.profile;
  Status status = execute(run, engine().parts().crews);
  if (options.report)
    options.report->runMs = msSince(start);
  if (!status)
    return status;
  for (size_t i = 0; i != outputs.size(); ++i) {
    size_t position = *outputAt(i);
    ElementType type = signature.outputs[position]->type;
    if (!outputs[i].bytes || inPlace(outputs[i], position))
      continue;
    auto give = [&](int64_t first, int64_t from, int64_t elements) {
      std::byte *to =
          static_cast<std::byte *>(outputs[i].data) + static_cast<size_t>(first) * elementSize(outputs[i].type);
      const std::byte *made =
          static_cast<const std::byte *>(run.output(position)) + static_cast<size_t>(from) * elementSize(type);
      if (outputs[i].type == type)
        std::memcpy(to, made, static_cast<size_t>(elements) * elementSize(type));
      else
        widenToF32(made, type, to, static_cast<size_t>(elements));
    };
    int64_t elements = static_cast<int64_t>(outputs[i].bytes / elementSize(outputs[i].type));
    if (elements == layout.outputElements[position]) {
      give(0, 0, elements);
      continue;
    }
    ShapeRoom own(setup->outputShapes.rank(position));
    setup->outputShapes.evaluate(position, found.asked, own.sizes());
    if (!fitsInto(own.sizes(), ready.plan->outputs[position]))
      return invalid(outputTitle(outputs[i].name) + shrinks);
    forEachRun(own.sizes(), ready.plan->outputs[position], give);
  }
  return Status::ok();
}

Result<std::vector<Tensor>> Executable::run(std::span<const NamedTensor> inputs, const RunOptions &options) {
  return runReadOutputs(inputs, state->setup->allOutputs, options);
}

Result<std::vector<Tensor>> Executable::runReadOutputs(std::span<const NamedTensor> inputs,
                                                       std::span<const size_t> outputs, const RunOptions &options) {
  const data::ModelSignatureT &signature = state->signature();
  for (size_t output : outputs)
    if (output >= signature.outputs.size())
      return invalid("output " + std::to_string(output) + " does not exist: there are " +
                     std::to_string(signature.outputs.size()));
  // Before anything is compiled for a run that cannot succeed.
  Result<std::shared_ptr<const ParamValues>> params = state->paramsSet();
  if (!params)
    return params.takeError();
  FoundRun found;
  if (Status status = state->prepareRun(inputs, {}, options, found); !status)
    return status.takeError();

  std::vector<Tensor> results(outputs.size());
  std::array<OutputBuffer, 8> few; // most models have no more
  std::vector<OutputBuffer> many(outputs.size() <= few.size() ? 0 : outputs.size());
  OutputBuffer *buffers = many.empty() ? few.data() : many.data();
  size_t count = 0;
  Bits seen(signature.outputs.size());
  for (size_t i = 0; i != outputs.size(); ++i) {
    size_t output = outputs[i];
    if (!seen.set(output))
      continue;
    const data::TensorSpecT &spec = *signature.outputs[output];
    std::vector<int64_t> shape(state->outputRank(found, output));
    state->outputShape(found, output, shape);
    Result<Tensor> tensor = Tensor::allocate(spec.type, std::move(shape), state->engine().options().allocator);
    if (!tensor)
      return Error{tensor.error().code, outputTitle(spec.name) + ": " + tensor.error().message};
    results[i] = std::move(*tensor);
    buffers[count++] = {spec.name, spec.type, results[i].data(), results[i].bytes()};
  }
  if (Status status = state->run(found, inputs, std::span(buffers, count), params->get(), options); !status)
    return status.takeError();
  for (size_t i = 0; count != outputs.size() && i != outputs.size(); ++i) {
    if (results[i].data())
      continue;
    // Asked for before.
    const Tensor &made =
        results[static_cast<size_t>(std::find(outputs.begin(), outputs.end(), outputs[i]) - outputs.begin())];
    Result<Tensor> copy = Tensor::allocate(made.type(), made.shape(), state->engine().options().allocator);
    if (!copy)
      return copy.takeError();
    std::memcpy(copy->data(), made.data(), made.bytes());
    results[i] = std::move(*copy);
  }
  return results;
}

Status Executable::runInto(std::span<const NamedTensor> inputs, std::span<const OutputBuffer> outputs,
                           const RunOptions &options) {
  const data::ModelSignatureT &signature = state->signature();
  Bits asked(signature.outputs.size());
  for (size_t i = 0; i != outputs.size(); ++i) {
    const OutputBuffer &output = outputs[i];
    std::optional<size_t> position = state->model().findOutput(output.name, i);
    if (!position)
      return invalid("there is no " + outputTitle(output.name));
    if (!asked.set(*position))
      return invalid(outputTitle(output.name) + " is given twice");
    ElementType type = signature.outputs[*position]->type;
    if (output.type != type && !isNarrowed(output.type, type))
      return invalid(outputTitle(output.name) + " is " + elementTypeName(type) + ", but its buffer is " +
                     elementTypeName(output.type));
    if (output.bytes && !output.data)
      return invalid(outputTitle(output.name) + " has no buffer");
    for (const NamedTensor &input : inputs)
      if (overlap(output.data, output.bytes, input.tensor.data, input.tensor.bytes))
        return invalid("the buffer of " + outputTitle(output.name) + " overlaps " + inputTitle(input.name));
    for (size_t other = 0; other != i; ++other)
      if (overlap(output.data, output.bytes, outputs[other].data, outputs[other].bytes))
        return invalid("the buffers of outputs '" + std::string(output.name) + "' and '" +
                       std::string(outputs[other].name) + "' overlap");
  }
  Result<std::shared_ptr<const ParamValues>> params = state->paramsSet();
  if (!params)
    return params.takeError();
  FoundRun found;
  if (Status status = state->prepareRun(inputs, outputs, options, found); !status)
    return status;
  return state->run(found, inputs, outputs, params->get(), options);
}

//===----------------------------------------------------------------------===//
// Preparing
//===----------------------------------------------------------------------===//

Result<std::vector<int64_t>> Executable::State::sizesOf(const Binding &binding) const {
  std::vector<int64_t> sizes(setup->solver().dims().size());
  if (Status status = setup->solver().check(binding, sizes); !status)
    return status.takeError();
  intoBuckets(sizes, setup->buckets, setup->solver());
  return sizes;
}

Status Executable::prepare(const Binding &binding) { return prepare(std::span(&binding, 1)); }

Status Executable::prepare(std::span<const Binding> bindings) {
  for (const Binding &binding : bindings) {
    Result<std::vector<int64_t>> sizes = state->sizesOf(binding);
    if (!sizes)
      return sizes.takeError();
    if (Result<SpecializationCache::Acquired> acquired = state->setup->cache->get(*sizes); !acquired)
      return acquired.takeError();
  }
  return Status::ok();
}

Result<std::shared_ptr<Preparation>>
Executable::prepareInBackground(std::span<const Binding> bindings,
                                std::function<void(Preparation::Progress)> progress) {
  std::vector<std::vector<int64_t>> all;
  for (const Binding &binding : bindings) {
    Result<std::vector<int64_t>> sizes = state->sizesOf(binding);
    if (!sizes)
      return sizes.takeError();
    all.push_back(std::move(*sizes));
  }
  return state->setup->cache->prepareInBackground(std::move(all), std::move(progress));
}

std::shared_ptr<Preparation> Executable::likely() const { return state->setup->likely; }

Result<Binding> Executable::solve(std::span<const NamedTensor> inputs, const Binding &given) const {
  return state->setup->solver().solve(inputs, given);
}

//===----------------------------------------------------------------------===//
// Making
//===----------------------------------------------------------------------===//

namespace {
/// Adds what the hints say to the signature's dims.
Status tighten(data::ModelSignatureT &signature, std::span<const DimHint> hints) {
  std::set<std::string_view> seen;
  for (const DimHint &hint : hints) {
    std::string what = "hint of dim '" + hint.dim + "'";
    auto found = std::find_if(signature.dims.begin(), signature.dims.end(),
                              [&](const auto &dim) { return dim->name == hint.dim; });
    if (found == signature.dims.end())
      return invalid(what + ": the model has no such dim");
    if (!seen.insert(hint.dim).second)
      return invalid(what + ": there is another one");
    if (hint.min < 0 || hint.multiple < 1)
      return invalid(what + ": sizes are 0 or more, and multiples of 1 or more");
    data::DimT &dim = **found;
    dim.min = std::max(dim.min, hint.min);
    dim.max = std::min(dim.max, hint.max);
    bool none =
        __builtin_mul_overflow(dim.multiple / std::gcd(dim.multiple, hint.multiple), hint.multiple, &dim.multiple);
    // The first multiple that is not below the range.
    int64_t up = none || dim.min % dim.multiple == 0 ? 0 : dim.multiple - dim.min % dim.multiple, first = 0;
    if (none || __builtin_add_overflow(dim.min, up, &first) || first > dim.max)
      return invalid(what + ": with what the model says of the dim, no size is left");
    for (int64_t size : hint.likely)
      if (size < dim.min || size > dim.max || size % dim.multiple != 0)
        return invalid(what + ": its likely size " + std::to_string(size) + " is none it can have");
    // What the model expects and the hint rules out is not likely any more.
    std::erase_if(dim.likely,
                  [&](int64_t size) { return size < dim.min || size > dim.max || size % dim.multiple != 0; });
    dim.likely.insert(dim.likely.end(), hint.likely.begin(), hint.likely.end());
  }
  return Status::ok();
}

/// All combinations of likely sizes that a run can have.
Result<std::vector<std::vector<int64_t>>>
likelySizes(const data::ModelSignatureT &signature, const BindingSolver &solver, const Buckets &buckets, size_t most) {
  std::vector<std::vector<int64_t>> all = {{}};
  for (const auto &dim : signature.dims) {
    std::set<int64_t> sizes(dim->likely.begin(), dim->likely.end());
    if (sizes.empty())
      return invalid("likely sizes: dim '" + dim->name + "' has none");
    if (sizes.size() > most / all.size())
      return invalid("likely sizes: more combinations than the " + std::to_string(most) + " entries of the cache");
    std::vector<std::vector<int64_t>> longer;
    for (const std::vector<int64_t> &begin : all)
      for (int64_t size : sizes) {
        longer.push_back(begin);
        longer.back().push_back(size);
      }
    all = std::move(longer);
  }
  // Dims may depend on each other.
  std::erase_if(all, [&](const std::vector<int64_t> &sizes) { return !solver.check(sizes); });
  // Several may lie in one bucket.
  for (std::vector<int64_t> &sizes : all)
    intoBuckets(sizes, buckets, solver);
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}
} // namespace

Executable::Executable(std::shared_ptr<State> state) : state(std::move(state)) {}
Executable::~Executable() = default;

Result<std::shared_ptr<Executable>> Executable::create(std::shared_ptr<Engine> engine,
                                                       std::shared_ptr<const Model> model, ExecutableOptions options) {
  if (!engine || !model)
    return invalid(std::string("an executable needs ") + (engine ? "a model" : "an engine"));
  size_t entries = options.cacheEntries ? options.cacheEntries : engine->options().cacheEntries;
  size_t bytes = options.cacheBytes.value_or(engine->options().cacheBytes);
  auto setup = std::make_shared<ExecutableSetup>();
  std::optional<data::ModelSignatureT> signature;
  if (!options.hints.empty() || options.prepareLikely) {
    signature.emplace(model->signature());
    if (Status status = tighten(*signature, options.hints); !status)
      return status.takeError();
    Result<BindingSolver> solver = BindingSolver::create(*signature);
    if (!solver)
      return solver.takeError();
    setup->tightened.emplace(std::move(*solver));
    Result<Buckets> buckets = Buckets::create(*signature, options.hints);
    if (!buckets)
      return buckets.takeError();
    setup->buckets = std::move(*buckets);
    if (!setup->buckets.empty()) {
      Result<ShapesOf> inputs = ShapesOf::create(signature->inputs, *signature);
      Result<ShapesOf> outputs = ShapesOf::create(signature->outputs, *signature);
      if (!inputs || !outputs)
        return (inputs ? outputs : inputs).takeError();
      setup->inputShapes = std::move(*inputs);
      setup->outputShapes = std::move(*outputs);
    }
  }
  setup->allOutputs.resize(model->signature().outputs.size());
  std::iota(setup->allOutputs.begin(), setup->allOutputs.end(), 0);
  auto state = std::make_shared<State>();
  state->params.resize(model->signature().params.size());
  state->rng = options.rng;
  setup->cache = std::make_shared<SpecializationCache>(std::move(engine), std::move(model), entries, bytes);
  if (options.prepareLikely) {
    auto sizes = likelySizes(*signature, setup->solver(), setup->buckets, entries);
    if (!sizes)
      return sizes.takeError();
    auto likely = setup->cache->prepareInBackground(std::move(*sizes), nullptr);
    if (!likely)
      return likely.takeError();
    setup->likely = std::move(*likely);
  }
  state->setup = std::move(setup);
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
  auto copy = std::make_shared<State>();
  copy->setup = state->setup;
  std::lock_guard lock(state->mutex);
  copy->params = state->params;
  copy->snapshot = state->snapshot;
  copy->rng = state->rng;
  return std::shared_ptr<Executable>(new Executable(std::move(copy)));
}

Statistics Executable::stats() const { return state->setup->cache->stats(); }
std::vector<BindingInfo> Executable::bindings() const { return state->setup->cache->bindings(); }
std::optional<MissReport> Executable::explain() const { return state->setup->cache->explain(); }

Forecast Executable::explain(const Binding &binding) const {
  Result<std::vector<int64_t>> sizes = state->sizesOf(binding);
  if (sizes)
    return state->setup->cache->explain(*sizes);
  return Forecast{binding, Forecast::Kind::Error, {}, sizes.error().message};
}

const std::shared_ptr<const Model> &Executable::model() const { return state->setup->cache->model; }
const std::shared_ptr<Engine> &Executable::engine() const { return state->setup->cache->engine; }
