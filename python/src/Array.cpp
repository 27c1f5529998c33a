//===- Array.cpp - arrays in and out of runs ------------------------------===//
#include "Array.h"

#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#include <numpy/arrayobject.h>

#include <cstring>

using namespace rlxpy;

static_assert(sizeof(npy_intp) == sizeof(int64_t), "shapes are handed on as they are");

namespace {

constexpr rlx_dtype noType = -1;
/// The numpy type number of bfloat16, once ml_dtypes was found; else -1.
int bfloat16Number = -1;
/// What arrays of each type are made with. bf16: null without ml_dtypes.
PyArray_Descr *descriptors[RLX_F64 + 1];
PyObject *convertFunction; ///< rlx._convert.from_python

rlx_dtype typeOfNumber(int number) {
  switch (number) {
  case NPY_BOOL:
    return RLX_I1;
  case NPY_BYTE:
    return RLX_I8;
  case NPY_SHORT:
    return RLX_I16;
  case NPY_INT:
    return RLX_I32;
  case NPY_LONG:
    return sizeof(long) == 8 ? RLX_I64 : RLX_I32;
  case NPY_LONGLONG:
    return RLX_I64;
  case NPY_UBYTE:
    return RLX_U8;
  case NPY_USHORT:
    return RLX_U16;
  case NPY_UINT:
    return RLX_U32;
  case NPY_ULONG:
    return sizeof(long) == 8 ? RLX_U64 : RLX_U32;
  case NPY_ULONGLONG:
    return RLX_U64;
  case NPY_HALF:
    return RLX_F16;
  case NPY_FLOAT:
    return RLX_F32;
  case NPY_DOUBLE:
    return RLX_F64;
  default:
    return number == bfloat16Number && number >= 0 ? RLX_BF16 : noType;
  }
}

/// Looks for ml_dtypes. It is optional, and may be imported by the user later than rlx.
bool findBfloat16() noexcept {
  if (descriptors[RLX_BF16])
    return true;
  PyObject *module = PyImport_ImportModule("ml_dtypes");
  PyObject *type = module ? PyObject_GetAttrString(module, "bfloat16") : nullptr;
  PyArray_Descr *descriptor = nullptr;
  if (type && PyArray_DescrConverter(type, &descriptor)) {
    descriptors[RLX_BF16] = descriptor;
    bfloat16Number = descriptor->type_num;
  }
  Py_XDECREF(type);
  Py_XDECREF(module);
  PyErr_Clear();
  return descriptors[RLX_BF16] != nullptr;
}

rlx_dtype typeOf(PyArrayObject *array) {
  int number = PyArray_DESCR(array)->type_num;
  rlx_dtype type = typeOfNumber(number);
  if (type == noType && number >= NPY_USERDEF && bfloat16Number < 0 && findBfloat16())
    type = typeOfNumber(number);
  return type;
}

bool accepted(rlx_dtype given, rlx_dtype wanted) {
  return given == wanted || (given == RLX_F32 && (wanted == RLX_F16 || wanted == RLX_BF16));
}

const char *alsoF32(const Port &port) { return port.type == RLX_F16 || port.type == RLX_BF16 ? " (or f32)" : ""; }

bool isMasked(PyObject *array) {
  PyObject *mask = PyObject_GetAttrString(array, "_mask");
  if (!mask)
    PyErr_Clear();
  Py_XDECREF(mask);
  return mask != nullptr;
}

bool isNative(PyArrayObject *array) { return PyArray_ISNOTSWAPPED(array); }

bool wrongType(const char *what, PyArrayObject *array, const Port &port) noexcept {
  PyObject *name = PyObject_Str(reinterpret_cast<PyObject *>(PyArray_DESCR(array)));
  if (name)
    setInvalid("%s '%s' is %s%s, the array is %U", what, port.text, rlx_dtype_name(port.type), alsoF32(port), name);
  Py_XDECREF(name);
  return false;
}

bool viewArrayInput(PyArrayObject *array, const Port &port, rlx_input &input, Holder &holder,
                    const char *what) noexcept {
  rlx_dtype type = typeOf(array);
  if (!accepted(type, port.type))
    return wrongType(what, array, port);
  if (PyArray_IS_C_CONTIGUOUS(array) && isNative(array)) {
    Py_INCREF(array);
  } else {
    PyArray_Descr *descriptor = descriptors[type];
    Py_INCREF(descriptor);
    array = reinterpret_cast<PyArrayObject *>(PyArray_FromArray(array, descriptor, NPY_ARRAY_CARRAY_RO));
    if (!array)
      return false;
  }
  holder.object = reinterpret_cast<PyObject *>(array);
  input.name = nullptr;
  input.data = PyArray_DATA(array);
  input.bytes = static_cast<size_t>(PyArray_NBYTES(array));
  input.shape = reinterpret_cast<const int64_t *>(PyArray_DIMS(array));
  input.rank = PyArray_NDIM(array);
  input.dtype = type;
  input.flags = 0;
  return true;
}

bool isPlainPython(PyObject *argument) {
  return PyList_CheckExact(argument) || PyTuple_CheckExact(argument) || PyFloat_CheckExact(argument) ||
         PyLong_CheckExact(argument) || PyBool_Check(argument);
}

/// An array made of something else, with its own type. Null with an error set.
PyArrayObject *arrayFrom(PyObject *argument) noexcept {
  return reinterpret_cast<PyArrayObject *>(PyArray_FromAny(argument, nullptr, 0, 0, 0, nullptr));
}

bool speaksDlpack(PyObject *argument) { return PyObject_HasAttrString(argument, "__dlpack__"); }

/// A tensor of DLPack that was taken over: its deleter is called once, with the GIL, which it may need.
class Taken {
public:
  Taken() = default;
  Taken(const Taken &) = delete;
  ~Taken() {
    nb::error_scope scope; // an error may be on its way out
    if (old && old->deleter)
      old->deleter(old);
    if (versioned && versioned->deleter)
      versioned->deleter(versioned);
  }

  /// False with an error set: the producer's own where it raises one.
  bool take(PyObject *producer, const Port &port, const char *what) noexcept {
    PyObject *capsule = exported(producer);
    if (!capsule)
      return false;
    // From here on it is not the capsule's any more.
    if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
      versioned = static_cast<rlx_dl_managed_tensor_versioned *>(PyCapsule_GetPointer(capsule, "dltensor_versioned"));
      PyCapsule_SetName(capsule, "used_dltensor_versioned");
    } else if (PyCapsule_IsValid(capsule, "dltensor")) {
      old = static_cast<rlx_dl_managed_tensor *>(PyCapsule_GetPointer(capsule, "dltensor"));
      PyCapsule_SetName(capsule, "used_dltensor");
    } else {
      setInvalid("%s '%s': the %s gives no DLPack tensor, but %R", what, port.text, Py_TYPE(producer)->tp_name,
                 capsule);
    }
    Py_DECREF(capsule);
    return old || versioned;
  }

  /// Makes `input` a view of it, or of a copy. False with an error set.
  bool view(const Port &port, const char *what, rlx_input &input, rlx_tensor **copy) const noexcept {
    rlx_status *status = versioned ? rlx_input_from_dlpack_versioned(versioned, nullptr, &input, copy)
                                   : rlx_input_from_dlpack(&old->dl_tensor, nullptr, &input, copy);
    if (!status) {
      if (accepted(input.dtype, port.type))
        return true;
      setInvalid("%s '%s' is %s%s, the array is %s", what, port.text, rlx_dtype_name(port.type), alsoF32(port),
                 rlx_dtype_name(input.dtype));
      return false;
    }
    if (PyObject *type = exceptionOf(rlx_status_code(status)))
      PyErr_Format(type, "%s '%s': %s", what, port.text, rlx_status_message(status));
    rlx_status_destroy(&status);
    return false;
  }
  /// Why nothing is to be written to it; null where it may. For one that view() took.
  const char *whyNotWritten() const {
    uint64_t flags = versioned ? versioned->flags : 0;
    return flags & 1 ? "must not be written to" : flags & 2 ? "is a copy, which nobody would see" : nullptr;
  }

private:
  /// What the producer gives, of version 1 where it knows of versions.
  static PyObject *exported(PyObject *producer) noexcept {
    PyObject *method = PyObject_GetAttrString(producer, "__dlpack__");
    PyObject *none = method ? PyTuple_New(0) : nullptr;
    PyObject *options = none ? Py_BuildValue("{s(ii)}", "max_version", 1, 0) : nullptr;
    PyObject *capsule = options ? PyObject_Call(method, none, options) : nullptr;
    if (options && !capsule && PyErr_ExceptionMatches(PyExc_TypeError)) {
      PyErr_Clear();
      capsule = PyObject_CallNoArgs(method);
    }
    Py_XDECREF(options);
    Py_XDECREF(none);
    Py_XDECREF(method);
    return capsule;
  }

  rlx_dl_managed_tensor *old = nullptr;
  rlx_dl_managed_tensor_versioned *versioned = nullptr;
};

/// Owns it. Null with an error set.
PyObject *capsuleOf(std::unique_ptr<Taken> tensor) noexcept {
  PyObject *capsule = PyCapsule_New(
      tensor.get(), nullptr, [](PyObject *self) { delete static_cast<Taken *>(PyCapsule_GetPointer(self, nullptr)); });
  if (capsule)
    (void)tensor.release();
  return capsule;
}

bool viewDlpackInput(PyObject *argument, const Port &port, rlx_input &input, Holder &holder,
                     const char *what) noexcept {
  auto tensor = std::make_unique<Taken>();
  if (!tensor->take(argument, port, what) || !tensor->view(port, what, input, &holder.copy))
    return false;
  holder.object = capsuleOf(std::move(tensor));
  return holder.object != nullptr;
}

bool fillOutput(rlx_output &output, void *data, size_t bytes, rlx_dtype type) {
  output.name = nullptr;
  output.data = data;
  output.bytes = bytes;
  output.dtype = type;
  output.flags = 0;
  return true;
}

bool viewDlpackOutput(PyObject *argument, const Port &port, rlx_output &output, const int64_t **shape, int32_t *rank,
                      Holder &holder) noexcept {
  auto tensor = std::make_unique<Taken>();
  // An input of these values has the checks that an output needs: where it is, its type, no gaps.
  rlx_input checked;
  if (!tensor->take(argument, port, "output") || !tensor->view(port, "output", checked, nullptr))
    return false;
  if (const char *why = tensor->whyNotWritten()) {
    setInvalid("output '%s': what the %s gives %s", port.text, Py_TYPE(argument)->tp_name, why);
    return false;
  }
  *shape = checked.shape;
  *rank = checked.rank;
  fillOutput(output, const_cast<void *>(checked.data), checked.bytes, checked.dtype);
  holder.object = capsuleOf(std::move(tensor));
  return holder.object != nullptr;
}

void freeTensor(PyObject *capsule) {
  auto *tensor = static_cast<rlx_tensor *>(PyCapsule_GetPointer(capsule, nullptr));
  rlx_tensor_destroy(&tensor);
}

int importArrayApi() {
  import_array1(-1);
  return 0;
}

} // namespace

void rlxpy::importNumpy() {
  if (importArrayApi() < 0)
    throw nb::python_error();
  const std::pair<rlx_dtype, int> numbers[] = {{RLX_I1, NPY_BOOL},     {RLX_I8, NPY_INT8},     {RLX_I16, NPY_INT16},
                                               {RLX_I32, NPY_INT32},   {RLX_I64, NPY_INT64},   {RLX_U8, NPY_UINT8},
                                               {RLX_U16, NPY_UINT16},  {RLX_U32, NPY_UINT32},  {RLX_U64, NPY_UINT64},
                                               {RLX_F16, NPY_FLOAT16}, {RLX_F32, NPY_FLOAT32}, {RLX_F64, NPY_FLOAT64}};
  for (auto [type, number] : numbers)
    descriptors[type] = PyArray_DescrFromType(number);
  convertFunction = nb::object(nb::module_::import_("rlx._convert").attr("from_python")).release().ptr();
}

Port rlxpy::makePort(const rlx_tensor_info &info) {
  Port port;
  port.name = nb::steal(PyUnicode_InternFromString(info.name));
  if (!port.name.is_valid())
    throw nb::python_error();
  port.text = PyUnicode_AsUTF8(port.name.ptr());
  port.type = info.dtype;
  for (int32_t axis = 0; axis < info.rank; ++axis) {
    port.shape.push_back(info.shape[axis]);
    port.dims.emplace_back(info.dims[axis]);
  }
  return port;
}

std::string Port::describe() const {
  std::string result = "'";
  result.append(text).append("' is ").append(rlx_dtype_name(type)).append(" [");
  for (size_t axis = 0; axis < dims.size(); ++axis)
    result.append(axis ? "," : "").append(dims[axis]);
  return result.append("]");
}

bool rlxpy::viewInput(PyObject *argument, const Port &port, rlx_input &input, Holder &holder,
                      const char *what) noexcept {
  if (Py_TYPE(argument) == &PyArray_Type)
    return viewArrayInput(reinterpret_cast<PyArrayObject *>(argument), port, input, holder, what);
  if (isPlainPython(argument)) {
    PyObject *type = PyUnicode_FromString(port.type == RLX_BF16 && !findBfloat16() ? "f32" : rlx_dtype_name(port.type));
    PyObject *whose = PyUnicode_FromFormat("%s '%s'", what, port.text);
    PyObject *array =
        type && whose ? PyObject_CallFunctionObjArgs(convertFunction, argument, type, whose, nullptr) : nullptr;
    Py_XDECREF(whose);
    Py_XDECREF(type);
    bool done = array && viewArrayInput(reinterpret_cast<PyArrayObject *>(array), port, input, holder, what);
    Py_XDECREF(array);
    return done;
  }
  if (PyArray_Check(argument)) {
    if (isMasked(argument)) {
      setInvalid("%s '%s': a masked array has no plain values: fill it first", what, port.text);
      return false;
    }
    return viewArrayInput(reinterpret_cast<PyArrayObject *>(argument), port, input, holder, what);
  }
  if (!PyArray_CheckAnyScalar(argument) && speaksDlpack(argument))
    return viewDlpackInput(argument, port, input, holder, what);
  // Scalars of numpy, what speaks the buffer protocol or has __array__.
  PyArrayObject *array = arrayFrom(argument);
  bool done = array && viewArrayInput(array, port, input, holder, what);
  Py_XDECREF(array);
  return done;
}

bool rlxpy::viewOutput(PyObject *argument, const Port &port, rlx_output &output, const int64_t **shape, int32_t *rank,
                       Holder &holder) noexcept {
  if (!PyArray_Check(argument)) {
    if (speaksDlpack(argument))
      return viewDlpackOutput(argument, port, output, shape, rank, holder);
    setInvalid("output '%s': an array is wanted that can be written to, not a %s", port.text,
               Py_TYPE(argument)->tp_name);
    return false;
  }
  auto *array = reinterpret_cast<PyArrayObject *>(argument);
  rlx_dtype type = typeOf(array);
  if (!accepted(type, port.type))
    return wrongType("output", array, port);
  constexpr int needed = NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_WRITEABLE | NPY_ARRAY_ALIGNED;
  if (!PyArray_CHKFLAGS(array, needed) || !isNative(array)) {
    const char *reason = !PyArray_ISWRITEABLE(array)       ? "cannot be written to"
                         : !PyArray_IS_C_CONTIGUOUS(array) ? "is not contiguous in row-major order"
                         : !isNative(array)                ? "has foreign byte order"
                                                           : "is not aligned";
    setInvalid("output '%s': the array %s", port.text, reason);
    return false;
  }
  if (Py_TYPE(argument) != &PyArray_Type && isMasked(argument)) {
    setInvalid("output '%s': a masked array is none to write to", port.text);
    return false;
  }
  Py_INCREF(argument);
  holder.object = argument;
  *shape = reinterpret_cast<const int64_t *>(PyArray_DIMS(array));
  *rank = PyArray_NDIM(array);
  return fillOutput(output, PyArray_DATA(array), static_cast<size_t>(PyArray_NBYTES(array)), type);
}

PyObject *rlxpy::arrayOf(rlx_tensor *tensor) noexcept {
  rlx_view view;
  if (rlx_status *status = rlx_tensor_view(tensor, &view)) {
    setError(status);
    rlx_tensor_destroy(&tensor);
    return nullptr;
  }
  auto *dims = reinterpret_cast<npy_intp *>(const_cast<int64_t *>(view.shape));
  if (view.dtype == RLX_BF16 && !findBfloat16()) {
    PyObject *array = PyArray_EMPTY(view.rank, dims, NPY_FLOAT32, 0);
    if (array) {
      const auto *from = static_cast<const uint16_t *>(view.data);
      auto *to = static_cast<uint32_t *>(PyArray_DATA(reinterpret_cast<PyArrayObject *>(array)));
      for (size_t i = 0; i < view.bytes / 2; ++i)
        to[i] = uint32_t(from[i]) << 16;
    }
    rlx_tensor_destroy(&tensor);
    return array;
  }
  PyObject *capsule = PyCapsule_New(tensor, nullptr, freeTensor);
  if (!capsule) {
    rlx_tensor_destroy(&tensor);
    return nullptr;
  }
  PyArray_Descr *descriptor = descriptors[view.dtype];
  Py_INCREF(descriptor);
  PyObject *array = PyArray_NewFromDescr(&PyArray_Type, descriptor, view.rank, dims, nullptr,
                                         const_cast<void *>(view.data), NPY_ARRAY_CARRAY, nullptr);
  if (!array) {
    Py_DECREF(capsule);
    return nullptr;
  }
  if (PyArray_SetBaseObject(reinterpret_cast<PyArrayObject *>(array), capsule) < 0) {
    Py_DECREF(array);
    return nullptr;
  }
  return array;
}
