//===- Executable.cpp - executables, params, preparing --------------------===//
#include "Handles.h"

using namespace rlx;
using namespace rlx::capi;

namespace {

Error wrong(std::string text) { return Error{ErrorCode::InvalidArgument, std::move(text)}; }

Result<DimHint> convert(const rlx_dim_hint &given, size_t position) {
  if (!given.dim)
    return wrong("hint " + std::to_string(position) + " names no dim");
  std::string what = "the hint on dim '" + std::string(given.dim) + "'";
  if (given.likely_count && !given.likely)
    return wrong(what + " has no array of likely sizes");
  if (given.bucket_count && !given.buckets)
    return wrong(what + " has no array of buckets");
  for (size_t count : {given.likely_count, given.bucket_count})
    if (count > kMostElements)
      return wrong(what + " has an array of " + std::to_string(count) + " elements, more than " +
                   std::to_string(kMostElements));
  DimHint hint;
  hint.dim = given.dim;
  hint.min = given.min;
  if (given.max)
    hint.max = given.max;
  if (given.multiple)
    hint.multiple = given.multiple;
  hint.likely.assign(given.likely, given.likely + given.likely_count);
  for (size_t i = 0; i != given.bucket_count; ++i)
    hint.buckets.push_back({given.buckets[i].first, given.buckets[i].end});
  if (given.ladder_low || given.ladder_high) {
    Result<std::vector<Bucket>> ladder = powerOfTwoBuckets(given.ladder_low, given.ladder_high);
    if (!ladder)
      return Error{ladder.error().code, what + ": " + ladder.error().message};
    hint.buckets.insert(hint.buckets.end(), ladder->begin(), ladder->end());
  }
  return hint;
}

Result<std::vector<DimHint>> convertHints(const rlx_executable_options &given, size_t dims) {
  if (given.hint_count > dims)
    return wrong(std::to_string(given.hint_count) + " hints are given, but the model has " + std::to_string(dims) +
                 " dims");
  if (given.hint_count && !given.hints)
    return wrong("'hints' is NULL, but there are " + std::to_string(given.hint_count));
  std::vector<DimHint> hints;
  const auto *bytes = reinterpret_cast<const unsigned char *>(given.hints);
  size_t step = given.hint_count ? given.hints->struct_size : 0;
  for (size_t i = 0; i != given.hint_count; ++i) {
    // The array's elements are as large as the caller's header has them.
    const auto *place = reinterpret_cast<const rlx_dim_hint *>(bytes + i * step);
    rlx_dim_hint hint = {};
    if (std::optional<Error> error = read(place, hint, "rlx_dim_hint"))
      return std::move(*error);
    if (hint.struct_size != step)
      return wrong("hint " + std::to_string(i) + " has another struct_size than the first");
    Result<DimHint> converted = convert(hint, i);
    if (!converted)
      return converted.takeError();
    hints.push_back(std::move(*converted));
  }
  return hints;
}

Result<std::vector<Binding>> readBindings(const Model &model, const rlx_binding *bindings, size_t count) {
  if (count && !bindings)
    return wrong("'bindings' is NULL, but there are " + std::to_string(count));
  if (count > kMostElements)
    return wrong(std::to_string(count) + " bindings are given, more than " + std::to_string(kMostElements));
  std::vector<Binding> read;
  for (size_t i = 0; i != count; ++i) {
    Binding binding;
    if (std::optional<Error> error =
            readBinding(bindings[i].sizes, bindings[i].size_count, model.signature().dims.size(), binding))
      return wrong("binding " + std::to_string(i) + ": " + error->message);
    read.push_back(std::move(binding));
  }
  return read;
}

rlx_preparation *makePreparation(std::shared_ptr<Preparation> preparation) {
  auto *made = new rlx_preparation;
  made->preparation = std::move(preparation);
  return made;
}

} // namespace

rlx_status *rlx_executable_create(rlx_engine *engine, const rlx_model *model, const rlx_executable_options *options,
                                  rlx_executable **executable) {
  return guarded([&]() -> rlx_status * {
    RLX_CAPI_GIVEN(executable);
    *executable = nullptr;
    RLX_CAPI_ALIVE(engine);
    RLX_CAPI_ALIVE(model);
    rlx_executable_options given = {};
    if (std::optional<Error> error = read(options, given, "rlx_executable_options"))
      return fail(std::move(*error));
    ExecutableOptions converted;
    if (given.rng)
      converted.rng = {given.rng->seed, given.rng->step};
    converted.cacheEntries = given.cache_entries;
    if (given.cache_bytes)
      converted.cacheBytes = given.cache_bytes == RLX_UNLIMITED ? 0 : given.cache_bytes;
    Result<std::vector<DimHint>> hints = convertHints(given, model->model->signature().dims.size());
    if (!hints)
      return fail(hints.takeError());
    converted.hints = std::move(*hints);
    converted.prepareLikely = given.prepare_likely != 0;
    Result<std::shared_ptr<Executable>> made = Executable::create(engine->engine, model->model, std::move(converted));
    if (!made)
      return fail(made.takeError());
    *executable = new rlx_executable;
    (*executable)->executable = std::move(*made);
    return nullptr;
  });
}

void rlx_executable_destroy(rlx_executable **executable) { destroy(executable); }

rlx_status *rlx_executable_clone(const rlx_executable *executable, rlx_executable **clone) {
  return guarded([&]() -> rlx_status * {
    RLX_CAPI_GIVEN(clone);
    // Not before the handle was looked at: they may be the same variable.
    RLX_CAPI_ALIVE(executable);
    std::shared_ptr<Executable> copy = executable->executable->clone();
    *clone = new rlx_executable;
    (*clone)->executable = std::move(copy);
    return nullptr;
  });
}

rlx_status *rlx_executable_set_param(rlx_executable *executable, const char *name, rlx_dtype dtype, const void *data,
                                     size_t bytes) {
  return guarded([&]() -> rlx_status * {
    RLX_CAPI_ALIVE(executable);
    RLX_CAPI_GIVEN(name);
    if (!isType(dtype))
      return invalid("param '" + std::string(name) + "' is set from " + std::to_string(dtype) + ", which is no dtype");
    if (bytes && !data)
      return invalid("param '" + std::string(name) + "' has no data");
    return toStatus(
        executable->executable->setParamTyped(name, {static_cast<const std::byte *>(data), bytes}, toType(dtype)));
  });
}

rlx_status *rlx_executable_finalize_params(rlx_executable *executable) {
  return guarded([&]() -> rlx_status * {
    RLX_CAPI_ALIVE(executable);
    return toStatus(executable->executable->finalizeParams());
  });
}

rlx_status *rlx_executable_set_rng(rlx_executable *executable, rlx_rng rng) {
  return guarded([&]() -> rlx_status * {
    RLX_CAPI_ALIVE(executable);
    executable->executable->setRng({rng.seed, rng.step});
    return nullptr;
  });
}

rlx_status *rlx_executable_get_rng(const rlx_executable *executable, rlx_rng *rng) {
  return guarded([&]() -> rlx_status * {
    RLX_CAPI_ALIVE(executable);
    RLX_CAPI_GIVEN(rng);
    RngOptions options = executable->executable->rng();
    *rng = {options.seed, options.step};
    return nullptr;
  });
}

//===----------------------------------------------------------------------===//
// Preparing
//===----------------------------------------------------------------------===//

rlx_status *rlx_executable_prepare(rlx_executable *executable, const rlx_binding *bindings, size_t binding_count) {
  return guarded([&]() -> rlx_status * {
    RLX_CAPI_ALIVE(executable);
    Result<std::vector<Binding>> read = readBindings(*executable->executable->model(), bindings, binding_count);
    if (!read)
      return fail(read.takeError());
    return toStatus(executable->executable->prepare(*read));
  });
}

rlx_status *rlx_executable_prepare_in_background(rlx_executable *executable, const rlx_binding *bindings,
                                                 size_t binding_count, rlx_progress_fn progress, void *user,
                                                 rlx_preparation **preparation) {
  return guarded([&]() -> rlx_status * {
    RLX_CAPI_GIVEN(preparation);
    *preparation = nullptr;
    RLX_CAPI_ALIVE(executable);
    Result<std::vector<Binding>> read = readBindings(*executable->executable->model(), bindings, binding_count);
    if (!read)
      return fail(read.takeError());
    std::function<void(Preparation::Progress)> call;
    if (progress)
      call = [progress, user](Preparation::Progress now) noexcept {
        progress(user, {now.done, now.failed, now.total});
      };
    Result<std::shared_ptr<Preparation>> made = executable->executable->prepareInBackground(*read, std::move(call));
    if (!made)
      return fail(made.takeError());
    *preparation = makePreparation(std::move(*made));
    return nullptr;
  });
}

rlx_status *rlx_executable_get_likely(const rlx_executable *executable, rlx_preparation **preparation) {
  return guarded([&]() -> rlx_status * {
    RLX_CAPI_GIVEN(preparation);
    *preparation = nullptr;
    RLX_CAPI_ALIVE(executable);
    if (std::shared_ptr<Preparation> likely = executable->executable->likely())
      *preparation = makePreparation(std::move(likely));
    return nullptr;
  });
}

rlx_status *rlx_preparation_progress(const rlx_preparation *preparation, rlx_progress *progress) {
  return guarded([&]() -> rlx_status * {
    RLX_CAPI_ALIVE(preparation);
    RLX_CAPI_GIVEN(progress);
    Preparation::Progress now = preparation->preparation->progress();
    *progress = {now.done, now.failed, now.total};
    return nullptr;
  });
}

rlx_status *rlx_preparation_cancel(rlx_preparation *preparation) {
  return guarded([&]() -> rlx_status * {
    RLX_CAPI_ALIVE(preparation);
    preparation->preparation->cancel();
    return nullptr;
  });
}

rlx_status *rlx_preparation_wait(rlx_preparation *preparation, int64_t timeout_ns) {
  return guarded([&]() -> rlx_status * {
    RLX_CAPI_ALIVE(preparation);
    if (timeout_ns < 0)
      return invalid("timeout_ns is " + std::to_string(timeout_ns) + ", but must not be negative");
    if (timeout_ns)
      return toStatus(preparation->preparation->wait(toWait(timeout_ns)));
    return toStatus(preparation->preparation->wait());
  });
}

void rlx_preparation_destroy(rlx_preparation **preparation) { destroy(preparation); }
