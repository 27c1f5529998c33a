//===- Model.cpp - engines and models -------------------------------------===//
#include "Objects.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

using namespace rlxpy;

namespace {

nb::tuple describe(const rlx_tensor_info *info) {
  nb::list shape;
  for (int32_t axis = 0; axis < info->rank; ++axis) {
    if (info->shape[axis] >= 0)
      shape.append(info->shape[axis]);
    else
      shape.append(textOf(info->dims[axis]));
  }
  return nb::make_tuple(textOf(info->name), rlx_dtype_name(info->dtype), nb::tuple(shape));
}

using Getter = rlx_status *(*)(const rlx_model *, size_t, const rlx_tensor_info **);

std::vector<const rlx_tensor_info *> getAll(const rlx_model *model, size_t count, Getter get) {
  std::vector<const rlx_tensor_info *> result(count);
  for (size_t i = 0; i < count; ++i)
    check(get(model, i, &result[i]));
  return result;
}

/// A log function may hold on to its engine: Python's collector must see that it is held here.
int traverseEngine(PyObject *self, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(self));
  if (nb::inst_ready(self))
    Py_VISIT(nb::inst_ptr<Engine>(self)->logFunction());
  return 0;
}

int clearEngine(PyObject *self) {
  if (nb::inst_ready(self))
    nb::inst_ptr<Engine>(self)->close();
  return 0;
}

PyType_Slot engineSlots[] = {{Py_tp_traverse, reinterpret_cast<void *>(traverseEngine)},
                             {Py_tp_clear, reinterpret_cast<void *>(clearEngine)},
                             {0, nullptr}};

/// C strings end at the first zero byte, and another file would be opened.
std::string checkedPath(const nb::bytes &given) {
  std::string path(given.c_str(), given.size());
  if (path.find('\0') != std::string::npos)
    throwInvalid("a path has no zero byte: '" + path.substr(0, path.find('\0')) + "' and more");
  return path;
}

/// A value of the dict, or what it is without one.
template <typename T> T option(const nb::dict &options, const char *name, T otherwise) {
  nb::object value = options.get(name, nb::none());
  return value.is_none() ? otherwise : nb::cast<T>(value);
}

} // namespace

Engine::Engine(nb::dict options) {
  rlx_engine_options given = {};
  given.struct_size = sizeof given;
  given.threads = option<int32_t>(options, "threads", 0);
  given.cache_entries = option<size_t>(options, "cache_entries", 0);
  given.cache_bytes = option<size_t>(options, "cache_bytes", 0);
  given.background_threads = option<uint32_t>(options, "background_threads", 0);
  given.idle_bytes = option<size_t>(options, "idle_bytes", 0);
  given.idle_ms = option<int64_t>(options, "idle_ms", 0);
  given.compiler = option<bool>(options, "worker", false) ? RLX_COMPILER_WORKER : RLX_COMPILER_IN_PROCESS;
  nb::object programPath = options.get("worker_program", nb::none());
  std::string program = programPath.is_none() ? "" : checkedPath(nb::cast<nb::bytes>(programPath));
  given.worker_program = program.empty() ? nullptr : program.c_str();
  given.worker_timeout_ms = option<int64_t>(options, "worker_timeout_ms", 0);
  given.worker_memory_bytes = option<size_t>(options, "worker_memory_bytes", 0);
  nb::object callable = options.get("log", nb::none());
  if (!callable.is_none()) {
    log = new LogSink{Callback(callable)};
    given.log = LogSink::line;
    given.log_user = log;
  }
  rlx_status *status;
  {
    Unlocked unlocked;
    status = rlx_engine_create(&given, handle.put());
  }
  if (status && log)
    log->callback.forget();
  check(status);
}

Engine::~Engine() { close(); }

void Engine::close() {
  handle.close();
  if (log)
    log->callback.forget();
}

rlx_engine *Engine::get() const {
  if (handle.isClosed())
    throwInvalid("the engine is closed");
  if (handle.forked())
    throwInvalid("the engine was made before a fork, and cannot be used in the child: make another");
  return handle.get();
}

nb::dict Engine::info() const {
  rlx_engine_info info = {};
  info.struct_size = sizeof info;
  check(rlx_engine_get_info(get(), &info));
  nb::dict result;
  result["threads"] = info.threads;
  result["kernels"] = info.kernels;
  result["code_bytes"] = info.code_bytes;
  return result;
}

void Engine::trim() {
  rlx_engine *engine = get();
  rlx_status *status;
  {
    Handle::Use use(handle);
    Unlocked unlocked;
    status = rlx_engine_trim(engine);
  }
  check(status);
}

Model::Model(Engine &engine, nb::bytes givenPath, std::optional<nb::bytes> weightsFile, bool dynamicInputs) {
  std::string path = checkedPath(givenPath), weights = weightsFile ? checkedPath(*weightsFile) : "";
  rlx_load_options options = {};
  options.struct_size = sizeof options;
  options.weights_file = weightsFile ? weights.c_str() : nullptr;
  options.dynamic_inputs = dynamicInputs;
  rlx_engine *of = engine.get();
  rlx_status *status;
  {
    Engine::Handle::Use use(engine.handle);
    Unlocked unlocked;
    status = rlx_model_load(of, path.c_str(), &options, handle.put());
  }
  check(status);
  const rlx_model_info *info = nullptr;
  check(rlx_model_get_info(handle.get(), &info));
  for (const rlx_tensor_info *each : getAll(handle.get(), info->input_count, rlx_model_get_input))
    inputs.push_back(makePort(*each));
  for (const rlx_tensor_info *each : getAll(handle.get(), info->output_count, rlx_model_get_output))
    outputs.push_back(makePort(*each));
  for (const rlx_tensor_info *each : getAll(handle.get(), info->param_count, rlx_model_get_param))
    params.push_back(makePort(*each));
  for (size_t i = 0; i < info->dim_count; ++i) {
    const rlx_dim_info *dim = nullptr;
    check(rlx_model_get_dim(handle.get(), i, &dim));
    dims.emplace_back(dim->name);
  }
}

nb::dict Model::info() const {
  const rlx_model_info *info = nullptr;
  check(rlx_model_get_info(handle.get(), &info));
  nb::dict result;
  result["name"] = textOf(info->name);
  nb::list warnings, dimList;
  for (size_t i = 0; i < info->warning_count; ++i)
    warnings.append(textOf(info->warnings[i]));
  result["warnings"] = warnings;
  const std::pair<const char *, std::pair<size_t, Getter>> ports[] = {
      {"inputs", {info->input_count, rlx_model_get_input}},
      {"outputs", {info->output_count, rlx_model_get_output}},
      {"params", {info->param_count, rlx_model_get_param}}};
  for (const auto &[name, which] : ports) {
    nb::list list;
    for (const rlx_tensor_info *each : getAll(handle.get(), which.first, which.second))
      list.append(describe(each));
    result[name] = list;
  }
  for (size_t i = 0; i < info->dim_count; ++i) {
    const rlx_dim_info *dim = nullptr;
    check(rlx_model_get_dim(handle.get(), i, &dim));
    nb::list likely;
    for (size_t k = 0; k < dim->likely_count; ++k)
      likely.append(dim->likely[k]);
    nb::object max = dim->max == INT64_MAX ? nb::none() : nb::cast(dim->max);
    dimList.append(nb::make_tuple(textOf(dim->name), dim->min, max, dim->multiple, nb::tuple(likely),
                                  dim->paddable != 0, textOf(dim->obstacle)));
  }
  result["dims"] = dimList;
  return result;
}

void rlxpy::defineModel(nb::module_ &module) {
  nb::class_<Engine>(module, "Engine", nb::type_slots(engineSlots), nb::is_weak_referenceable())
      .def(nb::init<nb::dict>())
      .def("info", &Engine::info)
      .def("trim", &Engine::trim)
      .def("close", &Engine::close);
  nb::class_<Model>(module, "Model", nb::is_weak_referenceable())
      .def(nb::init<Engine &, nb::bytes, std::optional<nb::bytes>, bool>())
      .def("info", &Model::info);
}
