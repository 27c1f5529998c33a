//===- Common.cpp - errors ------------------------------------------------===//
#include "Common.h"

#include <cstdarg>

using namespace rlxpy;

unsigned rlxpy::generation = 0;
bool rlxpy::Callback::ending = false;

PyObject *rlxpy::exceptionOf(rlx_code code) noexcept {
  static PyObject *byCode = nullptr; // a dict, for as long as Python is there
  if (!byCode) {
    PyObject *module = PyImport_ImportModule("rlx._errors");
    byCode = module ? PyObject_GetAttrString(module, "BY_CODE") : nullptr;
    Py_XDECREF(module);
    if (!byCode)
      return nullptr;
  }
  PyObject *key = PyLong_FromLong(code);
  PyObject *found = key ? PyDict_GetItemWithError(byCode, key) : nullptr;
  Py_XDECREF(key);
  if (!found && !PyErr_Occurred())
    found = PyExc_RuntimeError;
  return found;
}

void rlxpy::setError(rlx_status *status) noexcept {
  const char *message = rlx_status_message(status);
  PyObject *text = PyUnicode_DecodeUTF8(message, static_cast<Py_ssize_t>(strlen(message)), "replace");
  PyObject *type = text ? exceptionOf(rlx_status_code(status)) : nullptr;
  if (type)
    PyErr_SetObject(type, text);
  Py_XDECREF(text);
  rlx_status_destroy(&status);
}

void rlxpy::setInvalid(const char *format, ...) noexcept {
  PyObject *type = exceptionOf(RLX_INVALID_ARGUMENT);
  if (!type)
    return;
  va_list arguments;
  va_start(arguments, format);
  PyErr_FormatV(type, format, arguments);
  va_end(arguments);
}

void rlxpy::throwInvalid(const std::string &message) {
  setInvalid("%s", message.c_str());
  throw nb::python_error();
}
