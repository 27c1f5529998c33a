//===- Run.cpp - the calls that every run makes ---------------------------===//
//
// A run of a small model takes less than a microsecond, so what stands around it is counted in tens of nanoseconds:
// names are found by the addresses of interned strings, arrays of numpy are read in place, nothing is allocated for up
// to eight inputs and outputs. The GIL is released around every run, small ones too: that costs some 40 ns, and whoever
// holds it may be what the run waits for (a log function, say).
//
//===----------------------------------------------------------------------===//
#include "Objects.h"

#include <cmath>
#include <cstring>
#include <memory>

using namespace rlxpy;

namespace {

/// An array of a length known late; short ones lie in the object.
template <typename T> class Few {
public:
  explicit Few(size_t count) : more(count > room ? new T[count]() : nullptr) {}
  T *data() { return more ? more.get() : reinterpret_cast<T *>(&here); }
  T &operator[](size_t i) { return data()[i]; }

private:
  static constexpr size_t room = 8;
  T here[room] = {};
  std::unique_ptr<T[]> more;
};

struct Names {
  PyObject *inputs = PyUnicode_InternFromString("inputs"), *outputs = PyUnicode_InternFromString("outputs"),
           *binding = PyUnicode_InternFromString("binding"), *onMiss = PyUnicode_InternFromString("on_miss"),
           *timeout = PyUnicode_InternFromString("timeout"), *step = PyUnicode_InternFromString("step");
};
const Names &names() {
  static const Names all; // interned strings, for as long as Python is there
  return all;
}

bool same(PyObject *a, PyObject *b) {
  return a == b || (PyUnicode_Check(a) && PyUnicode_Check(b) && PyUnicode_Compare(a, b) == 0);
}

/// The place of a port; -1 with an error set.
Py_ssize_t find(const std::vector<Port> &ports, PyObject *name, const char *what) noexcept {
  for (size_t i = 0; i < ports.size(); ++i)
    if (ports[i].name.ptr() == name)
      return static_cast<Py_ssize_t>(i);
  for (size_t i = 0; i < ports.size(); ++i)
    if (same(ports[i].name.ptr(), name))
      return static_cast<Py_ssize_t>(i);
  std::string known;
  for (const Port &port : ports)
    known += std::string(known.empty() ? "'" : ", '") + port.text + "'";
  setInvalid("no %s %R; there is %s", what, name, known.empty() ? "none" : known.c_str());
  return -1;
}

/// Error: which inputs are missing.
bool missing(const std::vector<Port> &ports, const Holder *holders) noexcept {
  std::string text;
  for (size_t i = 0; i < ports.size(); ++i)
    if (!holders[i].object)
      text += std::string(text.empty() ? "" : "; ") + "input " + ports[i].describe() + ", and was not given";
  setInvalid("%s", text.c_str());
  return false;
}

bool tooMany(const std::vector<Port> &ports, Py_ssize_t count, const char *what) noexcept {
  setInvalid("the model has %zu %s%s, %zd were given", ports.size(), what, ports.size() == 1 ? "" : "s", count);
  return false;
}

bool viewNamed(const Executable &executable, PyObject *dict, rlx_input *views, Holder *holders) noexcept {
  Py_ssize_t place = 0;
  PyObject *name, *value;
  while (PyDict_Next(dict, &place, &name, &value)) {
    Py_ssize_t index = find(executable.inputs, name, "input");
    if (index < 0)
      return false;
    if (holders[index].object) {
      setInvalid("input '%s' was given twice", executable.inputs[index].text);
      return false;
    }
    // Held, since making an array of it may run Python code that changes the dict.
    Py_INCREF(value);
    bool done = viewInput(value, executable.inputs[index], views[index], holders[index]);
    Py_DECREF(value);
    if (!done)
      return false;
  }
  return true;
}

bool viewPlaced(const Executable &executable, PyObject *const *values, Py_ssize_t count, rlx_input *views,
                Holder *holders) noexcept {
  if (count > static_cast<Py_ssize_t>(executable.inputs.size()))
    return tooMany(executable.inputs, count, "input");
  for (Py_ssize_t i = 0; i < count; ++i)
    if (!viewInput(values[i], executable.inputs[i], views[i], holders[i]))
      return false;
  return true;
}

bool complete(const Executable &executable, const Holder *holders) noexcept {
  for (size_t i = 0; i < executable.inputs.size(); ++i)
    if (!holders[i].object)
      return missing(executable.inputs, holders);
  return true;
}

/// A dict of what maps names to things; a new reference, or null with an error set.
PyObject *dictOf(PyObject *mapping) noexcept {
  return PyObject_CallOneArg(reinterpret_cast<PyObject *>(&PyDict_Type), mapping);
}

bool isMapping(PyObject *value) { return PyDict_Check(value) || PyObject_HasAttrString(value, "keys"); }
bool isSequence(PyObject *value) { return PyTuple_Check(value) || PyList_Check(value); }

bool readStep(PyObject *value, RunChoices &choices) noexcept {
  unsigned long long step = PyLong_AsUnsignedLongLong(value);
  if (PyErr_Occurred() || step > UINT32_MAX) {
    PyErr_Clear();
    setInvalid("step: a number from 0 to 2**32 - 1 is wanted, not %R", value);
    return false;
  }
  choices.step = static_cast<uint32_t>(step);
  choices.options.step = &choices.step;
  return true;
}

bool readBinding(PyObject *value, RunChoices &choices) noexcept {
  try {
    nb::object dict = PyDict_Check(value) ? nb::borrow(value) : nb::steal(dictOf(value));
    if (!dict.is_valid())
      return false;
    choices.names = sizesOf(nb::borrow<nb::dict>(dict));
    choices.sizes.clear();
    for (const auto &[name, size] : choices.names)
      choices.sizes.push_back({name.c_str(), size});
    choices.options.sizes = choices.sizes.data();
    choices.options.size_count = choices.sizes.size();
    return true;
  } catch (nb::python_error &error) {
    error.restore();
    return false;
  }
}

bool readOnMiss(PyObject *value, RunChoices &choices) noexcept {
  const char *text = PyUnicode_Check(value) ? PyUnicode_AsUTF8(value) : nullptr;
  if (text && strcmp(text, "wait") == 0) {
    choices.options.on_miss = RLX_WAIT;
  } else if (text && strcmp(text, "fail") == 0) {
    choices.options.on_miss = RLX_FAIL_FAST;
  } else {
    PyErr_Clear();
    setInvalid("on_miss: 'wait' or 'fail' is wanted, not %R", value);
    return false;
  }
  return true;
}

bool readTimeout(PyObject *value, RunChoices &choices) noexcept {
  double seconds = PyFloat_AsDouble(value);
  if (PyErr_Occurred() || !(seconds >= 0)) {
    PyErr_Clear();
    setInvalid("timeout: seconds, 0 or more, are wanted, not %R", value);
    return false;
  }
  // 0 is no limit in the C API, here it is not to wait.
  if (seconds < 9e9)
    choices.options.timeout_ns = std::max<int64_t>(1, static_cast<int64_t>(seconds * 1e9));
  return true;
}

/// The arguments of run and run_into: `required` that may be given by place or name, then those that may be named.
bool readArguments(PyObject *const *arguments, Py_ssize_t count, PyObject *keywords, PyObject **inputs,
                   PyObject **outputs, bool outputsByPlace, RunChoices &choices) noexcept {
  if (count > (outputsByPlace ? 2 : 1)) {
    PyErr_Format(PyExc_TypeError, "%d arguments at most may be given by place, not %zd", outputsByPlace ? 2 : 1, count);
    return false;
  }
  if (count > 0)
    *inputs = arguments[0];
  if (count > 1)
    *outputs = arguments[1];
  const Names &known = names();
  for (Py_ssize_t i = 0; keywords && i < PyTuple_GET_SIZE(keywords); ++i) {
    PyObject *name = PyTuple_GET_ITEM(keywords, i), *value = arguments[count + i];
    bool done = true;
    if (same(name, known.inputs) && !*inputs)
      *inputs = value;
    else if (same(name, known.outputs) && !*outputs)
      *outputs = value;
    else if (same(name, known.binding))
      done = value == Py_None || readBinding(value, choices);
    else if (same(name, known.onMiss))
      done = readOnMiss(value, choices);
    else if (same(name, known.timeout))
      done = value == Py_None || readTimeout(value, choices);
    else if (same(name, known.step))
      done = value == Py_None || readStep(value, choices);
    else {
      PyErr_Format(PyExc_TypeError, "unexpected argument %R, or given twice", name);
      done = false;
    }
    if (!done)
      return false;
  }
  if (!*inputs || (outputsByPlace && !*outputs)) {
    PyErr_Format(PyExc_TypeError, "missing argument: %s", *inputs ? "outputs" : "inputs");
    return false;
  }
  return true;
}

/// Indices of the outputs asked for.
bool readChoice(const Executable &executable, PyObject *asked, std::vector<size_t> &choice) noexcept {
  if (!isSequence(asked)) {
    setInvalid("outputs: a list of names or indices is wanted, not %R", asked);
    return false;
  }
  PyObject **items = PySequence_Fast_ITEMS(asked);
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(asked); ++i) {
    Py_ssize_t index;
    if (PyUnicode_Check(items[i])) {
      index = find(executable.outputs, items[i], "output");
      if (index < 0)
        return false;
    } else {
      index = PyLong_Check(items[i]) ? PyLong_AsSsize_t(items[i]) : -1;
      if (index < 0 || index >= static_cast<Py_ssize_t>(executable.outputs.size())) {
        PyErr_Clear();
        setInvalid("outputs: %R is no name of an output, nor an index below %zu", items[i], executable.outputs.size());
        return false;
      }
    }
    choice.push_back(static_cast<size_t>(index));
  }
  return true;
}

/// Runs, and makes arrays. `choice` null: all outputs.
PyObject *compute(Executable &executable, const rlx_input *views, const std::vector<size_t> *choice,
                  const rlx_run_options *options, bool unpackSingle) noexcept {
  const std::vector<size_t> &asked = choice ? *choice : executable.all;
  rlx_executable *handle = executable.open();
  if (!handle)
    return nullptr;
  Few<rlx_tensor *> tensors(asked.size());
  executable.enter();
  rlx_status *status;
  {
    Unlocked unlocked;
    status = choice ? rlx_run_outputs(handle, views, executable.inputs.size(), asked.data(), tensors.data(),
                                      asked.size(), options)
                    : rlx_run(handle, views, executable.inputs.size(), tensors.data(), asked.size(), options);
  }
  executable.leave();
  if (status) {
    setError(status);
    return nullptr;
  }
  if (unpackSingle && asked.size() == 1)
    return arrayOf(tensors[0]);
  PyTypeObject *type = executable.outputsType(asked);
  PyObject *result = type ? type->tp_alloc(type, static_cast<Py_ssize_t>(asked.size())) : nullptr;
  for (size_t i = 0; i < asked.size(); ++i) {
    PyObject *array = result ? arrayOf(tensors[i]) : nullptr;
    if (array) {
      PyTuple_SET_ITEM(result, static_cast<Py_ssize_t>(i), array);
      continue;
    }
    // arrayOf() has destroyed its tensor; the others are left.
    for (size_t k = result ? i + 1 : i; k < asked.size(); ++k)
      rlx_tensor_destroy(&tensors[k]);
    Py_XDECREF(result);
    return nullptr;
  }
  return result;
}

/// Whether an array has the shape that an output will have, as far as that can be told from the inputs. (The number of
/// elements is the runtime's to check.)
bool fits(const Executable &executable, size_t index, const int64_t *shape, int32_t rank,
          const rlx_input *inputs) noexcept {
  const Port &port = executable.outputs[index];
  bool right = rank == static_cast<int32_t>(port.shape.size());
  std::string wanted;
  for (size_t axis = 0; axis < port.shape.size(); ++axis) {
    int64_t size = port.shape[axis];
    Executable::Source source = executable.sources[index][axis];
    if (size < 0 && source.input >= 0 && inputs[source.input].rank > source.axis)
      size = inputs[source.input].shape[source.axis];
    right = right && (size < 0 || shape[axis] == size);
  }
  if (right)
    return true;
  std::string given;
  for (int32_t axis = 0; axis < rank; ++axis)
    given.append(axis ? "," : "").append(std::to_string(shape[axis]));
  for (size_t axis = 0; axis < port.shape.size(); ++axis) {
    Executable::Source source = executable.sources[index][axis];
    wanted += axis ? "," : "";
    if (port.shape[axis] < 0 && source.input >= 0 && inputs[source.input].rank > source.axis)
      wanted += std::to_string(inputs[source.input].shape[source.axis]);
    else
      wanted += port.dims[axis];
  }
  setInvalid("output '%s': the array is [%s], the output [%s]", port.text, given.c_str(), wanted.c_str());
  return false;
}

/// Views of output arrays: in the model's order without names when all are there, else with names. `count` is how many
/// there are. False with an error set.
bool viewOutputs(const Executable &executable, PyObject *arguments, const rlx_input *inputs, rlx_output *views,
                 Holder *holders, size_t *count) noexcept {
  size_t total = executable.outputs.size();
  *count = 0;
  auto one = [&](size_t index, PyObject *value) {
    if (holders[index].object) {
      setInvalid("output '%s' was given twice", executable.outputs[index].text);
      return false;
    }
    const int64_t *shape = nullptr;
    int32_t rank = 0;
    ++*count;
    return viewOutput(value, executable.outputs[index], views[index], &shape, &rank, holders[index]) &&
           fits(executable, index, shape, rank, inputs);
  };
  if (PyDict_Check(arguments)) {
    Py_ssize_t place = 0;
    PyObject *name, *value;
    while (PyDict_Next(arguments, &place, &name, &value)) {
      Py_ssize_t index = find(executable.outputs, name, "output");
      if (index < 0)
        return false;
      Py_INCREF(value);
      bool done = one(static_cast<size_t>(index), value);
      Py_DECREF(value);
      if (!done)
        return false;
    }
  } else if (PyList_Check(arguments)) {
    PyObject *tuple = PyList_AsTuple(arguments);
    bool done = tuple && viewOutputs(executable, tuple, inputs, views, holders, count);
    Py_XDECREF(tuple);
    return done;
  } else if (PyTuple_Check(arguments)) {
    Py_ssize_t given = PyTuple_GET_SIZE(arguments);
    if (given != static_cast<Py_ssize_t>(total))
      return tooMany(executable.outputs, given, "output");
    for (Py_ssize_t i = 0; i < given; ++i)
      if (!one(static_cast<size_t>(i), PySequence_Fast_ITEMS(arguments)[i]))
        return false;
  } else if (isMapping(arguments)) {
    PyObject *dict = dictOf(arguments);
    bool done = dict && viewOutputs(executable, dict, inputs, views, holders, count);
    Py_XDECREF(dict);
    return done;
  } else if (total == 1) {
    if (!one(0, arguments))
      return false;
  } else {
    setInvalid("outputs: a dict, or a list of all %zu, is wanted", total);
    return false;
  }
  if (*count == total)
    return true;
  size_t next = 0;
  for (size_t i = 0; i < total; ++i) {
    if (!holders[i].object)
      continue;
    views[next] = views[i];
    views[next++].name = executable.outputs[i].text;
  }
  // Names in the outputs, and so in no input: those are by place. (Each array of either has all of its names or none.)
  return true;
}

Executable &executableOf(PyObject *self) { return *nb::inst_ptr<Executable>(nb::handle(self)); }

PyObject *call(PyObject *self, PyObject *arguments, PyObject *keywords) noexcept {
  Executable &executable = executableOf(self);
  Few<rlx_input> views(executable.inputs.size());
  Few<Holder> holders(executable.inputs.size());
  if (!viewPlaced(executable, PySequence_Fast_ITEMS(arguments), PyTuple_GET_SIZE(arguments), views.data(),
                  holders.data()) ||
      (keywords && !viewNamed(executable, keywords, views.data(), holders.data())) ||
      !complete(executable, holders.data()))
    return nullptr;
  return compute(executable, views.data(), nullptr, nullptr, true);
}

PyObject *run(PyObject *self, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords) noexcept {
  Executable &executable = executableOf(self);
  PyObject *inputs = nullptr, *outputs = nullptr;
  RunChoices choices;
  if (!readArguments(arguments, count, keywords, &inputs, &outputs, false, choices))
    return nullptr;
  Few<rlx_input> views(executable.inputs.size());
  Few<Holder> holders(executable.inputs.size());
  if (!viewInputs(executable, inputs, views.data(), holders.data()))
    return nullptr;
  const rlx_run_options *options = keywords ? &choices.options : nullptr;
  if (!outputs || outputs == Py_None)
    return compute(executable, views.data(), nullptr, options, false);
  std::vector<size_t> choice;
  if (!readChoice(executable, outputs, choice))
    return nullptr;
  return compute(executable, views.data(), &choice, options, false);
}

PyObject *runInto(PyObject *self, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords) noexcept {
  Executable &executable = executableOf(self);
  PyObject *inputs = nullptr, *outputs = nullptr;
  RunChoices choices;
  if (!readArguments(arguments, count, keywords, &inputs, &outputs, true, choices))
    return nullptr;
  Few<rlx_input> views(executable.inputs.size());
  Few<Holder> holders(executable.inputs.size());
  Few<rlx_output> outputViews(executable.outputs.size());
  Few<Holder> outputHolders(executable.outputs.size());
  size_t outputCount;
  if (!viewInputs(executable, inputs, views.data(), holders.data()) ||
      !viewOutputs(executable, outputs, views.data(), outputViews.data(), outputHolders.data(), &outputCount))
    return nullptr;
  rlx_executable *handle = executable.open();
  if (!handle)
    return nullptr;
  executable.enter();
  rlx_status *status;
  {
    Unlocked unlocked;
    status = rlx_run_into(handle, views.data(), executable.inputs.size(), outputViews.data(), outputCount,
                          keywords ? &choices.options : nullptr);
  }
  executable.leave();
  if (status) {
    setError(status);
    return nullptr;
  }
  Py_RETURN_NONE;
}

PyObject *callBound(PyObject *self, PyObject *arguments, PyObject *keywords) noexcept {
  BoundRun &bound = *nb::inst_ptr<BoundRun>(nb::handle(self));
  if (PyTuple_GET_SIZE(arguments) != 0 || (keywords && PyDict_GET_SIZE(keywords) != 0)) {
    PyErr_SetString(PyExc_TypeError, "a bound run takes no arguments");
    return nullptr;
  }
  if (bound.running) {
    setInvalid("this bound run is running in another thread: bind one for each thread");
    return nullptr;
  }
  rlx_executable *handle = bound.executable->open();
  if (!handle)
    return nullptr;
  bound.running = true;
  bound.executable->enter();
  rlx_status *status;
  {
    Unlocked unlocked;
    status = rlx_run_into(handle, bound.inputs.data(), bound.inputs.size(), bound.outputs.data(), bound.outputs.size(),
                          &bound.choices.options);
  }
  bound.executable->leave();
  bound.running = false;
  if (status) {
    setError(status);
    return nullptr;
  }
  Py_RETURN_NONE;
}

constexpr int fast = METH_FASTCALL | METH_KEYWORDS;
PyMethodDef executableMethods[] = {
    {"run", reinterpret_cast<PyCFunction>(reinterpret_cast<void *>(run)), fast,
     "run($self, inputs, *, outputs=None, binding=None, on_miss='wait', timeout=None, step=None)\n--\n\n"
     "Computes outputs, which it returns as an Outputs: a tuple that knows their names.\n\n"
     "inputs: a dict of arrays by name, or a list of them in the model's order.\n"
     "outputs: names or indices; only these are computed, and returned in this order. None: all.\n"
     "binding: sizes of dims, where the inputs do not tell.\n"
     "on_miss: 'wait' for what is not compiled yet, or 'fail' with NotReady while that goes on in the background.\n"
     "timeout: seconds to wait at most; then NotReady.\n"
     "step: of random numbers, instead of the executable's."},
    {"run_into", reinterpret_cast<PyCFunction>(reinterpret_cast<void *>(runInto)), fast,
     "run_into($self, inputs, outputs, *, binding=None, on_miss='wait', timeout=None, step=None)\n--\n\n"
     "Computes into the caller's arrays, without copies: `outputs` is a dict by name of some or all outputs, or a list "
     "of\n"
     "all. They must be contiguous, of the outputs' types, and overlap no input and no other output. The rest is as "
     "for\n"
     "run(). After an error their contents are unspecified."},
    {nullptr, nullptr, 0, nullptr}};

} // namespace

bool rlxpy::viewInputs(const Executable &executable, PyObject *arguments, rlx_input *views, Holder *holders) noexcept {
  if (PyDict_Check(arguments))
    return viewNamed(executable, arguments, views, holders) && complete(executable, holders);
  if (PyList_Check(arguments)) { // which Python code that makes an array may change meanwhile
    PyObject *tuple = PyList_AsTuple(arguments);
    bool done = tuple && viewInputs(executable, tuple, views, holders);
    Py_XDECREF(tuple);
    return done;
  }
  if (PyTuple_Check(arguments))
    return viewPlaced(executable, PySequence_Fast_ITEMS(arguments), PyTuple_GET_SIZE(arguments), views, holders) &&
           complete(executable, holders);
  if (isMapping(arguments)) {
    PyObject *dict = dictOf(arguments);
    bool done = dict && viewNamed(executable, dict, views, holders) && complete(executable, holders);
    Py_XDECREF(dict);
    return done;
  }
  if (executable.inputs.size() == 1)
    return viewInput(arguments, executable.inputs[0], views[0], holders[0]);
  setInvalid("inputs: a dict, or a list of all %zu, is wanted", executable.inputs.size());
  return false;
}

BoundRun::BoundRun(nb::object of, nb::object inputArrays, nb::object outputArrays, nb::object binding, nb::object step)
    : owner(std::move(of)), executable(nb::cast<Executable *>(owner)) {
  if (!executable->open())
    throw nb::python_error();
  size_t count = 0;
  inputs.resize(executable->inputs.size());
  outputs.resize(executable->outputs.size());
  holders = std::vector<Holder>(inputs.size() + outputs.size());
  if (!viewInputs(*executable, inputArrays.ptr(), inputs.data(), holders.data()) ||
      !viewOutputs(*executable, outputArrays.ptr(), inputs.data(), outputs.data(), holders.data() + inputs.size(),
                   &count) ||
      (!binding.is_none() && !readBinding(binding.ptr(), choices)) ||
      (!step.is_none() && !readStep(step.ptr(), choices)))
    throw nb::python_error();
  outputs.resize(count);
  for (rlx_input &input : inputs)
    input.shape = shapes.emplace_back(input.shape, input.shape + input.rank).data();
}

PyType_Slot rlxpy::executableSlots[] = {
    {Py_tp_call, reinterpret_cast<void *>(call)}, {Py_tp_methods, executableMethods}, {0, nullptr}};
PyType_Slot rlxpy::boundRunSlots[] = {{Py_tp_call, reinterpret_cast<void *>(callBound)}, {0, nullptr}};
