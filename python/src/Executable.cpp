//===- Executable.cpp - executables, but for their runs -------------------===//
#include "Objects.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cmath>

using namespace rlxpy;

namespace {

nb::list textsOf(const char *const *texts, size_t count) {
  nb::list result;
  for (size_t i = 0; i < count; ++i)
    result.append(textOf(texts[i]));
  return result;
}

nb::dict bindingOf(const rlx_binding &binding) {
  nb::dict result;
  for (size_t i = 0; i < binding.size_count; ++i)
    result[textOf(binding.sizes[i].dim)] = binding.sizes[i].size;
  return result;
}

nb::dict phasesOf(const rlx_phase *phases, size_t count) {
  nb::dict result;
  for (size_t i = 0; i < count; ++i)
    result[textOf(phases[i].name)] = phases[i].ms;
  return result;
}

const char *originName(int32_t origin) {
  return origin == RLX_HIT ? "hit" : origin == RLX_INSTANTIATED ? "instantiated" : "new";
}

std::vector<rlx_size> viewsOf(const Sizes &sizes) {
  std::vector<rlx_size> result;
  for (const auto &[name, size] : sizes)
    result.push_back({name.c_str(), size});
  return result;
}

using Snapshot = Handle<rlx_snapshot, rlx_snapshot_destroy>;

} // namespace

Sizes rlxpy::sizesOf(nb::dict binding) {
  Sizes result;
  for (auto [name, size] : binding) {
    std::string dim = nameOf(name, "a binding is a dict from the names of dims to sizes");
    nb::object index = nb::steal(PyNumber_Index(size.ptr()));
    long long value = index.is_valid() ? PyLong_AsLongLong(index.ptr()) : -1;
    if (value == -1 && PyErr_Occurred()) {
      PyErr_Clear();
      throwInvalid("dim '" + dim + "': the size is no integer of 64 bits");
    }
    result.emplace_back(std::move(dim), value);
  }
  return result;
}

//===----------------------------------------------------------------------===//
// Preparation
//===----------------------------------------------------------------------===//

/// Where the runtime calls. It makes its last call when all are done, and none once wait() has ended: where neither was
/// seen, it stays.
struct Preparation::Sink {
  Callback callback;
};

Preparation::Preparation(nb::object progress) {
  if (!progress.is_none())
    sink = new Sink{Callback(std::move(progress))};
}

Preparation::~Preparation() {
  handle.reset();
  // (The last call may still be on its way out of the sink: the few words are left.)
  if (sink && ended)
    delete sink;
}

void Preparation::called(void *user, rlx_progress progress) noexcept {
  auto *sink = static_cast<Sink *>(user);
  sink->callback.call(
      [=] {
        return Py_BuildValue("(nnn)", static_cast<Py_ssize_t>(progress.done), static_cast<Py_ssize_t>(progress.failed),
                             static_cast<Py_ssize_t>(progress.total));
      },
      [=] {
        if (progress.done == progress.total)
          sink->callback.forget();
      });
}

nb::tuple Preparation::progress() const {
  rlx_progress progress = {};
  check(rlx_preparation_progress(handle.get(), &progress));
  return nb::make_tuple(progress.done, progress.failed, progress.total);
}

void Preparation::cancel() {
  Handle::Use use(handle);
  rlx_status *status;
  {
    // It may be the last to use an executable, whose end waits for callbacks.
    Unlocked unlocked;
    status = rlx_preparation_cancel(handle.get());
  }
  check(status);
}

void Preparation::close() {
  if (handle.get() && !handle.forked())
    cancel();
  handle.close();
}

void Preparation::wait(std::optional<double> seconds) {
  Handle::Use use(handle);
  // In slices, so that Ctrl-C is heard.
  constexpr double slice = 0.1;
  double left = seconds.value_or(INFINITY);
  for (;;) {
    double now = std::min(slice, left);
    auto nanoseconds = std::max<int64_t>(1, static_cast<int64_t>(now * 1e9));
    rlx_status *status;
    {
      Unlocked unlocked;
      status = rlx_preparation_wait(handle.get(), nanoseconds);
    }
    if (rlx_status_code(status) != RLX_NOT_READY) {
      if (sink) {
        ended = true;
        sink->callback.forget();
      }
      check(status);
      return;
    }
    left -= now;
    if (left <= 0)
      check(status);
    rlx_status_destroy(&status);
    if (PyErr_CheckSignals() < 0)
      throw nb::python_error();
  }
}

//===----------------------------------------------------------------------===//
// Executable
//===----------------------------------------------------------------------===//

namespace {

struct Hint {
  std::string dim;
  std::vector<int64_t> likely;
  std::vector<rlx_bucket> buckets;
};

} // namespace

Executable::Executable(Engine &engine, Model &model, nb::dict options)
    : inputs(model.inputs), outputs(model.outputs), params(model.params), dims(model.dims) {
  rlx_executable_options given = {};
  given.struct_size = sizeof given;
  rlx_rng rng{nb::cast<uint64_t>(options["seed"]), nb::cast<uint32_t>(options["step"])};
  given.rng = &rng;
  given.cache_entries = nb::cast<size_t>(options["cache_entries"]);
  given.cache_bytes = nb::cast<size_t>(options["cache_bytes"]);
  given.prepare_likely = nb::cast<bool>(options["prepare_likely"]);
  // (dim, min, max, multiple, likely, buckets)
  auto hints = nb::cast<nb::list>(options["hints"]);
  std::vector<Hint> held(hints.size());
  std::vector<rlx_dim_hint> views(hints.size());
  for (size_t i = 0; i < views.size(); ++i) {
    auto hint = nb::cast<nb::tuple>(hints[i]);
    held[i].dim = nameOf(hint[0], "hints");
    held[i].likely = nb::cast<std::vector<int64_t>>(hint[4]);
    for (auto [first, end] : nb::cast<std::vector<std::pair<int64_t, int64_t>>>(hint[5]))
      held[i].buckets.push_back({first, end});
    views[i] = {};
    views[i].struct_size = sizeof(rlx_dim_hint);
    views[i].dim = held[i].dim.c_str();
    views[i].min = nb::cast<int64_t>(hint[1]);
    views[i].max = nb::cast<int64_t>(hint[2]);
    views[i].multiple = nb::cast<int64_t>(hint[3]);
    views[i].likely = held[i].likely.data();
    views[i].likely_count = held[i].likely.size();
    views[i].buckets = held[i].buckets.data();
    views[i].bucket_count = held[i].buckets.size();
  }
  given.hints = views.data();
  given.hint_count = views.size();
  rlx_engine *of = engine.get();
  rlx_status *status;
  {
    Engine::Handle::Use use(engine.handle);
    Unlocked unlocked;
    status = rlx_executable_create(of, model.get(), &given, handle.put());
  }
  check(status);
  for (size_t i = 0; i < outputs.size(); ++i)
    all.push_back(i);
  findSources();
}

Executable::Executable(const Executable &other, int)
    : inputs(other.inputs), outputs(other.outputs), params(other.params), dims(other.dims), sources(other.sources),
      all(other.all), types(other.types) {
  check(rlx_executable_clone(other.get(), handle.put()));
}

void Executable::findSources() {
  for (const Port &output : outputs) {
    std::vector<Source> &axes = sources.emplace_back(output.shape.size());
    for (size_t axis = 0; axis < axes.size(); ++axis)
      for (size_t i = 0; output.shape[axis] < 0 && i < inputs.size(); ++i)
        for (size_t k = 0; k < inputs[i].dims.size(); ++k)
          if (inputs[i].dims[k] == output.dims[axis])
            axes[axis] = {static_cast<int>(i), static_cast<int>(k)};
  }
}

rlx_executable *Executable::open() const noexcept {
  if (handle.isClosed()) {
    setInvalid("the executable is closed");
    return nullptr;
  }
  if (handle.forked()) {
    setInvalid("the executable was made before a fork, and cannot be used in the child: load it there");
    return nullptr;
  }
  return handle.get();
}

rlx_executable *Executable::get() const {
  rlx_executable *result = open();
  if (!result)
    throw nb::python_error();
  return result;
}

PyTypeObject *Executable::outputsType(const std::vector<size_t> &choice) noexcept {
  auto found = types.find(choice);
  if (found == types.end()) {
    try {
      nb::list names;
      for (size_t index : choice)
        names.append(outputs[index].name);
      nb::object type = nb::module_::import_("rlx._types").attr("outputs_type")(nb::tuple(names));
      if (types.size() > 1000) // somebody asks for ever new choices
        types.clear();
      found = types.emplace(choice, std::move(type)).first;
    } catch (nb::python_error &error) {
      error.restore();
      return nullptr;
    }
  }
  return reinterpret_cast<PyTypeObject *>(found->second.ptr());
}

void Executable::setParam(nb::handle given, nb::handle value) {
  rlx_executable *executable = get();
  std::string name = nameOf(given, "params");
  for (const Port &port : params) {
    if (name != port.text)
      continue;
    rlx_input view;
    Holder holder;
    if (!viewInput(value.ptr(), port, view, holder, "param"))
      throw nb::python_error();
    bool fits = view.rank == static_cast<int32_t>(port.shape.size());
    for (int32_t axis = 0; fits && axis < view.rank; ++axis)
      fits = port.shape[axis] < 0 || view.shape[axis] == port.shape[axis];
    if (!fits) {
      std::string shape;
      for (int32_t axis = 0; axis < view.rank; ++axis)
        shape.append(axis ? "," : "").append(std::to_string(view.shape[axis]));
      throwInvalid("param " + port.describe() + ", the array is [" + shape + "]");
    }
    enter();
    rlx_status *status;
    {
      Unlocked unlocked;
      status = rlx_executable_set_param(executable, port.text, view.dtype, view.data, view.bytes);
    }
    leave();
    check(status);
    return;
  }
  throwInvalid("no param '" + name + "'");
}

void Executable::finalizeParams() const {
  rlx_executable *executable = get();
  enter();
  rlx_status *status;
  {
    Unlocked unlocked;
    status = rlx_executable_finalize_params(executable);
  }
  leave();
  check(status);
}

nb::tuple Executable::rng() const {
  rlx_rng rng = {};
  check(rlx_executable_get_rng(get(), &rng));
  return nb::make_tuple(rng.seed, rng.step);
}

void Executable::setRng(uint64_t seed, uint32_t step) { check(rlx_executable_set_rng(get(), {seed, step})); }

void Executable::prepare(nb::dict binding) {
  rlx_executable *executable = get();
  Sizes sizes = sizesOf(binding);
  std::vector<rlx_size> views = viewsOf(sizes);
  rlx_binding of{views.data(), views.size()};
  enter();
  rlx_status *status;
  {
    Unlocked unlocked;
    status = rlx_executable_prepare(executable, &of, 1);
  }
  leave();
  check(status);
}

void Executable::prepareInBackground(nb::list bindings, Preparation &preparation) {
  rlx_executable *executable = get();
  std::vector<Sizes> sizes;
  for (nb::handle binding : bindings)
    sizes.push_back(sizesOf(nb::cast<nb::dict>(binding)));
  std::vector<std::vector<rlx_size>> views;
  std::vector<rlx_binding> all;
  for (const Sizes &each : sizes) {
    views.push_back(viewsOf(each));
    all.push_back({views.back().data(), views.back().size()});
  }
  rlx_status *status;
  enter();
  {
    Unlocked unlocked;
    status = rlx_executable_prepare_in_background(executable, all.data(), all.size(),
                                                  preparation.sink ? Preparation::called : nullptr, preparation.sink,
                                                  preparation.handle.put());
  }
  leave();
  if (status)
    preparation.ended = true;
  check(status);
}

bool Executable::likely(Preparation &preparation) const {
  check(rlx_executable_get_likely(get(), preparation.handle.put()));
  return preparation.handle.get() != nullptr;
}

nb::dict Executable::solve(nb::handle arguments, nb::dict given) const {
  rlx_executable *executable = get();
  std::vector<rlx_input> views(inputs.size());
  std::vector<Holder> holders(inputs.size());
  if (!viewInputs(*this, arguments.ptr(), views.data(), holders.data()))
    throw nb::python_error();
  Sizes sizes = sizesOf(given);
  std::vector<rlx_size> sizeViews = viewsOf(sizes);
  rlx_binding binding{sizeViews.data(), sizeViews.size()};
  std::vector<int64_t> found(dims.size());
  check(rlx_executable_solve(executable, views.data(), views.size(), &binding, found.data(), found.size()));
  nb::dict result;
  for (size_t i = 0; i < dims.size(); ++i)
    result[textOf(dims[i].c_str())] = found[i];
  return result;
}

nb::dict Executable::stats() const {
  Snapshot snapshot;
  check(rlx_executable_snapshot(get(), snapshot.put()));
  const rlx_statistics *statistics = nullptr;
  check(rlx_snapshot_statistics(snapshot.get(), &statistics));
  nb::dict result;
  result["hits"] = statistics->hits;
  result["misses"] = statistics->misses;
  result["evictions"] = statistics->evictions;
  result["failures"] = statistics->failures;
  result["entries"] = statistics->entries;
  result["templates_made"] = statistics->templates_made;
  result["templates_reused"] = statistics->templates_reused;
  result["kernels_compiled"] = statistics->kernels_compiled;
  result["kernels_reused"] = statistics->kernels_reused;
  result["code_bytes"] = statistics->code_bytes;
  result["templates_dropped"] = statistics->templates_dropped;
  result["not_ready"] = statistics->not_ready;
  result["plan_bytes"] = statistics->plan_bytes;
  result["templates"] = statistics->templates;
  result["template_bytes"] = statistics->template_bytes;
  result["kernels"] = statistics->kernels;
  result["kernel_bytes"] = statistics->kernel_bytes;
  result["arena_bytes_in_use"] = statistics->arena_bytes_in_use;
  result["arena_bytes_idle"] = statistics->arena_bytes_idle;
  result["ms_by_phase"] = phasesOf(statistics->phases, statistics->phase_count);
  return result;
}

nb::list Executable::bindings() const {
  Snapshot snapshot;
  check(rlx_executable_snapshot(get(), snapshot.put()));
  size_t count = 0;
  check(rlx_snapshot_binding_count(snapshot.get(), &count));
  nb::list result;
  for (size_t i = 0; i < count; ++i) {
    const rlx_binding_info *info = nullptr;
    check(rlx_snapshot_binding(snapshot.get(), i, &info));
    nb::dict one;
    one["binding"] = bindingOf(info->binding);
    one["state"] = info->state == RLX_READY ? "ready" : info->state == RLX_MAKING ? "making" : "queued";
    one["idle_ms"] = info->idle_ms;
    one["bytes"] = info->bytes;
    one["origin"] = originName(info->origin);
    one["hits"] = info->hits;
    one["steps"] = info->steps;
    one["arena_bytes"] = info->arena_bytes;
    one["kernels_compiled"] = info->kernels_compiled;
    one["kernels_reused"] = info->kernels_reused;
    one["guards_failed"] = nb::tuple(textsOf(info->guards_failed, info->guard_count));
    one["ms_by_phase"] = phasesOf(info->phases, info->phase_count);
    result.append(one);
  }
  return result;
}

nb::object Executable::explain() const {
  Snapshot snapshot;
  check(rlx_executable_snapshot(get(), snapshot.put()));
  const rlx_miss_info *miss = nullptr;
  check(rlx_snapshot_explain(snapshot.get(), &miss));
  if (!miss)
    return nb::none();
  nb::dict result, changes;
  for (size_t i = 0; i < miss->change_count; ++i)
    changes[textOf(miss->changes[i].dim)] = nb::make_tuple(miss->changes[i].from, miss->changes[i].to);
  result["binding"] = bindingOf(miss->binding);
  result["changes"] = changes;
  result["first"] = miss->first != 0;
  result["made"] = miss->made != 0;
  result["evicted"] = miss->evicted != 0;
  result["origin"] = originName(miss->origin);
  result["guards_failed"] = nb::tuple(textsOf(miss->guards_failed, miss->guard_count));
  result["error"] = textOf(miss->error);
  result["text"] = textOf(miss->text);
  return result;
}

nb::dict Executable::forecast(nb::dict binding) const {
  Sizes sizes = sizesOf(binding);
  std::vector<rlx_size> views = viewsOf(sizes);
  rlx_binding of{views.data(), views.size()};
  Handle<rlx_forecast, rlx_forecast_destroy> forecast;
  check(rlx_executable_forecast(get(), &of, forecast.put()));
  const rlx_forecast_info *info = nullptr;
  check(rlx_forecast_get_info(forecast.get(), &info));
  const char *kinds[] = {"hit", "being made", "instantiate", "compile", "fail"};
  nb::dict result;
  result["kind"] = info->kind >= 0 && info->kind < 5 ? kinds[info->kind] : "unknown";
  result["guards_failed"] = nb::tuple(textsOf(info->guards_failed, info->guard_count));
  result["error"] = textOf(info->error);
  result["text"] = textOf(info->text);
  return result;
}

void rlxpy::defineExecutable(nb::module_ &module) {
  nb::class_<Preparation>(module, "Preparation", nb::is_weak_referenceable())
      .def(nb::init<nb::object>(), nb::arg().none())
      .def("progress", &Preparation::progress)
      .def("cancel", &Preparation::cancel)
      .def("wait", &Preparation::wait, nb::arg().none())
      .def("close", &Preparation::close);
  nb::class_<Executable>(module, "Executable", nb::type_slots(executableSlots), nb::is_weak_referenceable())
      .def(nb::init<Engine &, Model &, nb::dict>())
      .def("__init__", [](Executable *self, const Executable &other) { new (self) Executable(other, 0); })
      .def("close", &Executable::close)
      .def("is_closed", &Executable::isClosed)
      .def("set_param", &Executable::setParam)
      .def("finalize_params", &Executable::finalizeParams)
      .def("get_rng", &Executable::rng)
      .def("set_rng", &Executable::setRng)
      .def("prepare_one", &Executable::prepare)
      .def("prepare_in_background", &Executable::prepareInBackground)
      .def("get_likely", &Executable::likely)
      .def("solve_sizes", &Executable::solve)
      .def("get_stats", &Executable::stats)
      .def("get_bindings", &Executable::bindings)
      .def("get_explain", &Executable::explain)
      .def("get_forecast", &Executable::forecast);
  nb::class_<BoundRun>(module, "BoundRun", nb::type_slots(boundRunSlots))
      .def(nb::init<nb::object, nb::object, nb::object, nb::object, nb::object>(), nb::arg(), nb::arg(), nb::arg(),
           nb::arg().none(), nb::arg().none());
}
