//===- Common.cpp - errors ------------------------------------------------===//
#include "Common.h"

#include <unistd.h>

#include <chrono>
#include <cstdarg>
#include <thread>

using namespace rlxpy;

unsigned rlxpy::generation = 0;
size_t Unlocked::inside = 0;
std::atomic<size_t> Callback::calls = 0;
std::atomic<bool> Callback::ending = false;
static std::thread::id endingThread;

Unlocked::Unlocked() {
  if (Callback::ending && std::this_thread::get_id() != endingThread) {
    PyEval_SaveThread();
    for (;;)
      pause();
  }
  ++inside;
  state = PyEval_SaveThread();
}

void rlxpy::forked() noexcept {
  ++generation;
  Unlocked::inside = 0;
  Callback::calls = 0;
}

void rlxpy::end() noexcept {
  using Clock = std::chrono::steady_clock;
  auto until = Clock::now() + std::chrono::seconds(10);
  auto letOthersGoOn = [&] {
    if (Clock::now() > until)
      return false;
    PyThreadState *state = PyEval_SaveThread();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    PyEval_RestoreThread(state);
    return true;
  };
  while (Unlocked::inside > 0 && letOthersGoOn()) {
  }
  endingThread = std::this_thread::get_id();
  Callback::ending = true;
  while (Callback::calls > 0 && letOthersGoOn()) {
  }
}

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

std::string rlxpy::nameOf(nb::handle name, const char *what) {
  Py_ssize_t bytes = 0;
  const char *text = PyUnicode_Check(name.ptr()) ? PyUnicode_AsUTF8AndSize(name.ptr(), &bytes) : nullptr;
  if (text && !memchr(text, 0, static_cast<size_t>(bytes)))
    return {text, static_cast<size_t>(bytes)};
  PyErr_Clear();
  setInvalid("%s: a name is wanted, a str that has a form in UTF-8 and no zero byte, not %R", what, name.ptr());
  throw nb::python_error();
}

void rlxpy::throwInvalid(const std::string &message) {
  setInvalid("%s", message.c_str());
  throw nb::python_error();
}
