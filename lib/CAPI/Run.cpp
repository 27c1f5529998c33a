//===- Run.cpp - runs -----------------------------------------------------===//
#include "Handles.h"

#include <algorithm>
#include <memory>

using namespace rlx;
using namespace rlx::capi;

namespace {

/// Room for `count` values of T: on the stack for as many as most models have.
template <typename T, size_t Few = 24> class Places {
public:
  explicit Places(size_t count) : count(count) {
    if (count <= Few) {
      values = reinterpret_cast<T *>(few);
    } else {
      many = std::make_unique_for_overwrite<std::byte[]>(count * sizeof(T));
      values = reinterpret_cast<T *>(many.get());
    }
  }
  static_assert(std::is_trivially_destructible_v<T>, "nothing ends them");
  void put(size_t place, const T &value) { new (values + place) T(value); }
  std::span<const T> all() const { return {values, count}; }

private:
  size_t count;
  T *values;
  alignas(T) std::byte few[Few * sizeof(T)];
  std::unique_ptr<std::byte[]> many;
};

using Inputs = Places<NamedTensor>;
using Outputs = Places<OutputBuffer, 8>;

/// The name of what stands at `position`: its own, or that of the model's.
Result<std::string_view> pickName(const char *kind, const char *name, bool named, size_t position,
                                  const std::vector<std::unique_ptr<data::TensorSpecT>> &declared) {
  if ((name != nullptr) != named)
    return Error{ErrorCode::InvalidArgument, std::string("some ") + kind + "s have names and some have none: " + kind +
                                                 " " + std::to_string(position)};
  if (named)
    return std::string_view(name);
  return std::string_view(declared[position]->name);
}

/// How many there may be, before any is looked at.
rlx_status *checkCount(const char *kind, const void *array, size_t count, size_t declared) {
  if (count > declared)
    return invalid(std::to_string(count) + " " + kind + "s are given, but the model has " + std::to_string(declared));
  if (count && !array)
    return invalid(std::string("'") + kind + "s' is NULL, but there are " + std::to_string(count));
  return nullptr;
}

rlx_status *checkInputs(const Model &model, const rlx_input *inputs, size_t count) {
  size_t declared = model.signature().inputs.size();
  if (rlx_status *status = checkCount("input", inputs, count, declared))
    return status;
  if (count < declared && (count == 0 || !inputs[0].name))
    return invalid(std::to_string(count) + " inputs are given, but the model has " + std::to_string(declared) +
                   ": input '" + model.signature().inputs[count]->name + "' is missing");
  return nullptr;
}

rlx_status *readInput(const Model &model, const rlx_input &input, bool named, size_t i, Inputs &inputs) {
  Result<std::string_view> name = pickName("input", input.name, named, i, model.signature().inputs);
  if (!name)
    return fail(name.takeError());
  auto wrong = [&](const std::string &text) { return invalid("input '" + std::string(*name) + "' " + text); };
  if (!isType(input.dtype))
    return wrong("has dtype " + std::to_string(input.dtype) + ", which is none");
  if (input.flags & ~RLX_FLAT)
    return wrong("has unknown flags");
  if (input.rank < 0 || input.rank > kMaxRank)
    return wrong("has rank " + std::to_string(input.rank));
  bool flat = input.flags & RLX_FLAT;
  if (flat && (input.rank || input.shape))
    return wrong("is flat, but has a shape");
  if (input.rank && !input.shape)
    return wrong("has no shape");
  if (input.bytes && !input.data)
    return wrong("has no data");
  TensorView view{toType(input.dtype), {input.shape, static_cast<size_t>(input.rank)}, input.data, input.bytes, flat};
  inputs.put(i, NamedTensor{*name, view});
  return nullptr;
}

rlx_status *readInputs(const Model &model, const rlx_input *given, Inputs &inputs) {
  for (size_t i = 0; i != inputs.all().size(); ++i)
    if (rlx_status *status = readInput(model, given[i], given[0].name != nullptr, i, inputs)) [[unlikely]]
      return status;
  return nullptr;
}

rlx_status *readOutput(const Model &model, const rlx_output &output, bool named, size_t i, Outputs &outputs) {
  Result<std::string_view> name = pickName("output", output.name, named, i, model.signature().outputs);
  if (!name)
    return fail(name.takeError());
  auto wrong = [&](const std::string &text) { return invalid("output '" + std::string(*name) + "' " + text); };
  if (!isType(output.dtype))
    return wrong("has dtype " + std::to_string(output.dtype) + ", which is none");
  if (output.flags)
    return wrong("has unknown flags");
  if (output.bytes && !output.data)
    return wrong("has no buffer");
  outputs.put(i, OutputBuffer{*name, toType(output.dtype), output.data, output.bytes});
  return nullptr;
}

/// Options of a run as the runtime takes them, and the way back of its report.
class Options {
public:
  rlx_status *read(const Model &model, const rlx_run_options *given) {
    if (!given)
      return nullptr;
    rlx_run_options read = {};
    if (std::optional<Error> error = capi::read(given, read, "rlx_run_options"))
      return fail(std::move(*error));
    if (read.size_count)
      if (std::optional<Error> error =
              readBinding(read.sizes, read.size_count, model.signature().dims.size(), options.binding))
        return fail(std::move(*error));
    if (read.on_miss != RLX_WAIT && read.on_miss != RLX_FAIL_FAST)
      return invalid("on_miss is " + std::to_string(read.on_miss) + ", which is no choice");
    options.onMiss = read.on_miss == RLX_FAIL_FAST ? OnMiss::FailFast : OnMiss::Wait;
    if (read.timeout_ns < 0)
      return invalid("timeout_ns is " + std::to_string(read.timeout_ns) + ", but must not be negative");
    if (read.timeout_ns)
      options.timeout = toWait(read.timeout_ns);
    if (read.step)
      options.step = *read.step;
    if (read.report) {
      if (std::optional<Error> error =
              checkSize(read.report, read.report->struct_size, sizeof(rlx_run_report), "rlx_run_report"))
        return fail(std::move(*error));
      size_t dims = model.signature().dims.size(), room = read.report->size_count;
      if (read.report->sizes ? room != dims : room != 0)
        return invalid("the report has room for " + std::to_string(room) + " sizes, but the model has " +
                       std::to_string(dims) + " dims");
      report = read.report;
      options.report = &made.emplace();
    }
    return nullptr;
  }

  const RunOptions &get() const { return options; }

  /// Once the run is over.
  void giveBack(const Model &model) {
    if (!report)
      return;
    const data::ModelSignatureT &signature = model.signature();
    if (made->binding.size() != signature.dims.size())
      return; // it was not solved
    for (size_t i = 0; report->sizes && i != signature.dims.size(); ++i)
      report->sizes[i] = made->binding.find(signature.dims[i]->name)->second;
    report->origin = static_cast<int32_t>(made->origin);
    report->specialize_ms = made->specializeMs;
    report->run_ms = made->runMs;
  }

private:
  RunOptions options;
  rlx_run_report *report = nullptr;
  std::optional<RunReport> made;
};

static_assert(RLX_HIT == static_cast<int>(Origin::Hit) && RLX_INSTANTIATED == static_cast<int>(Origin::Instantiated) &&
              RLX_NEW_TEMPLATE == static_cast<int>(Origin::NewTemplate));

/// Outputs that are asked for one by one: enough for any use, not enough to be absurd.
constexpr size_t kMostOutputs = 1 << 16;

rlx_status *runOwned(rlx_executable *executable, const rlx_input *inputs, size_t input_count, const size_t *indices,
                     rlx_tensor **outputs, size_t output_count, const rlx_run_options *options) {
  Executable &target = *executable->executable;
  const Model &model = *target.model();
  if (rlx_status *status = checkInputs(model, inputs, input_count))
    return status;
  Inputs converted(input_count);
  if (rlx_status *status = readInputs(model, inputs, converted))
    return status;
  Options choices;
  if (rlx_status *status = choices.read(model, options))
    return status;
  Result<std::vector<Tensor>> made =
      indices ? target.runReadOutputs(converted.all(), {indices, output_count}, choices.get())
              : target.run(converted.all(), choices.get());
  choices.giveBack(model);
  if (!made)
    return fail(made.takeError());
  for (size_t i = 0; i != output_count; ++i)
    outputs[i] = makeTensor(std::move((*made)[i]));
  return nullptr;
}

} // namespace

rlx_tensor *capi::makeTensor(Tensor tensor) {
  auto *made = new rlx_tensor;
  made->tensor = std::move(tensor);
  return made;
}

rlx_status *rlx_run(rlx_executable *executable, const rlx_input *inputs, size_t input_count, rlx_tensor **outputs,
                    size_t output_count, const rlx_run_options *options) {
  return guarded([&]() -> rlx_status * {
    RLX_CAPI_ALIVE(executable);
    size_t declared = executable->executable->model()->signature().outputs.size();
    if (output_count != declared)
      return invalid("there is room for " + std::to_string(output_count) + " outputs, but the model has " +
                     std::to_string(declared));
    if (output_count)
      RLX_CAPI_GIVEN(outputs);
    std::fill_n(outputs, output_count, nullptr);
    return runOwned(executable, inputs, input_count, nullptr, outputs, output_count, options);
  });
}

rlx_status *rlx_run_outputs(rlx_executable *executable, const rlx_input *inputs, size_t input_count,
                            const size_t *indices, rlx_tensor **outputs, size_t output_count,
                            const rlx_run_options *options) {
  return guarded([&]() -> rlx_status * {
    RLX_CAPI_ALIVE(executable);
    if (output_count > kMostOutputs)
      return invalid(std::to_string(output_count) + " outputs are asked for, which is more than " +
                     std::to_string(kMostOutputs));
    if (output_count) {
      RLX_CAPI_GIVEN(outputs);
      std::fill_n(outputs, output_count, nullptr);
      RLX_CAPI_GIVEN(indices);
    }
    size_t none = 0; // of which no output is asked for: not NULL, which is all
    return runOwned(executable, inputs, input_count, output_count ? indices : &none, outputs, output_count, options);
  });
}

rlx_status *rlx_run_into(rlx_executable *executable, const rlx_input *inputs, size_t input_count,
                         const rlx_output *outputs, size_t output_count, const rlx_run_options *options) {
  return guarded([&]() -> rlx_status * {
    RLX_CAPI_ALIVE(executable);
    Executable &target = *executable->executable;
    const Model &model = *target.model();
    if (rlx_status *status = checkInputs(model, inputs, input_count)) [[unlikely]]
      return status;
    if (rlx_status *status = checkCount("output", outputs, output_count, model.signature().outputs.size())) [[unlikely]]
      return status;
    Inputs from(input_count);
    if (rlx_status *status = readInputs(model, inputs, from)) [[unlikely]]
      return status;
    Outputs to(output_count);
    for (size_t i = 0; i != output_count; ++i)
      if (rlx_status *status = readOutput(model, outputs[i], outputs[0].name != nullptr, i, to)) [[unlikely]]
        return status;
    Options choices;
    if (rlx_status *status = choices.read(model, options)) [[unlikely]]
      return status;
    Status status = target.runInto(from.all(), to.all(), choices.get());
    choices.giveBack(model);
    return toStatus(std::move(status));
  });
}

rlx_status *rlx_executable_solve(const rlx_executable *executable, const rlx_input *inputs, size_t input_count,
                                 const rlx_binding *given, int64_t *sizes, size_t size_count) {
  return guarded([&]() -> rlx_status * {
    RLX_CAPI_ALIVE(executable);
    const Executable &target = *executable->executable;
    const Model &model = *target.model();
    const data::ModelSignatureT &signature = model.signature();
    if (size_count != signature.dims.size())
      return invalid("there is room for " + std::to_string(size_count) + " sizes, but the model has " +
                     std::to_string(signature.dims.size()) + " dims");
    if (size_count)
      RLX_CAPI_GIVEN(sizes);
    if (rlx_status *status = checkInputs(model, inputs, input_count))
      return status;
    Inputs converted(input_count);
    if (rlx_status *status = readInputs(model, inputs, converted))
      return status;
    Binding known;
    if (given)
      if (std::optional<Error> error = readBinding(given->sizes, given->size_count, signature.dims.size(), known))
        return fail(std::move(*error));
    Result<Binding> solved = target.solve(converted.all(), known);
    if (!solved)
      return fail(solved.takeError());
    for (size_t i = 0; i != size_count; ++i)
      sizes[i] = solved->find(signature.dims[i]->name)->second;
    return nullptr;
  });
}

//===----------------------------------------------------------------------===//
// Contexts
//===----------------------------------------------------------------------===//

rlx_status *rlx_context_create(rlx_executable *executable, rlx_context **context) {
  return guarded([&]() -> rlx_status * {
    RLX_CAPI_GIVEN(context);
    *context = nullptr;
    RLX_CAPI_ALIVE(executable);
    auto *made = new rlx_context;
    made->context = executable->executable->createContext();
    made->model = executable->executable->model();
    *context = made;
    return nullptr;
  });
}

void rlx_context_destroy(rlx_context **context) { destroy(context); }

rlx_status *rlx_context_trim(rlx_context *context) {
  return guarded([&]() -> rlx_status * {
    RLX_CAPI_ALIVE(context);
    context->context->trim();
    return nullptr;
  });
}

rlx_status *rlx_context_run(rlx_context *context, const rlx_input *inputs, size_t input_count, const size_t *indices,
                            size_t index_count, const rlx_view **outputs, size_t *output_count,
                            const rlx_run_options *options) {
  return guarded([&]() -> rlx_status * {
    RLX_CAPI_ALIVE(context);
    RLX_CAPI_GIVEN(outputs);
    if (index_count > kMostOutputs)
      return invalid(std::to_string(index_count) + " outputs are asked for, which is more than " +
                     std::to_string(kMostOutputs));
    if (index_count)
      RLX_CAPI_GIVEN(indices);
    const Model &model = *context->model;
    if (rlx_status *status = checkInputs(model, inputs, input_count)) [[unlikely]]
      return status;
    Inputs converted(input_count);
    if (rlx_status *status = readInputs(model, inputs, converted)) [[unlikely]]
      return status;
    Options choices;
    if (rlx_status *status = choices.read(model, options)) [[unlikely]]
      return status;
    if (context->busy.test_and_set(std::memory_order_acquire))
      return invalid("the context is in a run already");
    auto made = indices ? context->context->runReadOutputs(converted.all(), {indices, index_count}, choices.get())
                        : context->context->run(converted.all(), choices.get());
    if (made) {
      context->views.clear();
      for (const RawOutput &output : *made)
        context->views.push_back({output.data, output.bytes, output.shape.empty() ? nullptr : output.shape.data(),
                                  static_cast<int32_t>(output.shape.size()), fromType(output.type)});
      *outputs = context->views.data();
      if (output_count)
        *output_count = context->views.size();
    }
    context->busy.clear(std::memory_order_release);
    choices.giveBack(model);
    return made ? nullptr : fail(made.takeError());
  });
}

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

rlx_status *rlx_tensor_view(const rlx_tensor *tensor, rlx_view *view) {
  return guarded([&]() -> rlx_status * {
    RLX_CAPI_ALIVE(tensor);
    RLX_CAPI_GIVEN(view);
    const Tensor &values = tensor->tensor;
    const std::vector<int64_t> &shape = values.shape();
    *view = {values.data(), values.bytes(), shape.empty() ? nullptr : shape.data(), static_cast<int32_t>(shape.size()),
             fromType(values.type())};
    return nullptr;
  });
}

void rlx_tensor_destroy(rlx_tensor **tensor) {
  if (!tensor || !*tensor)
    return;
  if ((*tensor)->end())
    (*tensor)->release();
  *tensor = nullptr;
}
