//===- Common.h - what the parts of the extension share ---------*- C++ -*-===//
//
// The extension sees rlx through its C API alone. Two styles live side by side: calls that are made now and then are
// nanobind's and throw; those that every run makes (Run.cpp) are plain C functions of CPython that return null with an
// error set, as they are several times cheaper to get into.
//
//===----------------------------------------------------------------------===//
#ifndef RLX_PYTHON_COMMON_H
#define RLX_PYTHON_COMMON_H

#include <rlx/rlx.h>

#include <nanobind/nanobind.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace nb = nanobind;

namespace rlxpy {

/// Grows by one in each child of a fork. What was made before it is of no use there: its threads are gone.
extern unsigned generation;

/// Sets the Python error that stands for a status, and destroys it.
void setError(rlx_status *status) noexcept;
/// Sets rlx.InvalidArgument. Format as PyErr_Format.
void setInvalid(const char *format, ...) noexcept;
/// Throws what setError() sets; does nothing on success.
inline void check(rlx_status *status) {
  if (status) {
    setError(status);
    throw nb::python_error();
  }
}
[[noreturn]] void throwInvalid(const std::string &message);

/// Exceptions and other things of the Python part, imported once. What it returns is borrowed.
PyObject *exceptionOf(rlx_code code) noexcept;

/// A handle of the C API, that is destroyed with the object that holds it: without the GIL, since that may wait for
/// threads that want to call back. In a forked child it is left alone, since there it would wait forever.
template <typename T, void (*Destroy)(T **)> class Handle {
public:
  Handle() = default;
  Handle(const Handle &) = delete;
  ~Handle() { reset(); }

  T *get() const { return handle; }
  T **put() { return &handle; }
  bool forked() const { return made != generation; }
  void reset() {
    T *old = std::exchange(handle, nullptr);
    if (old && !forked()) {
      nb::gil_scoped_release unlocked;
      Destroy(&old);
    }
  }

private:
  T *handle = nullptr;
  unsigned made = generation;
};

/// A Python function that the runtime calls from threads of its own.
class Callback {
public:
  explicit Callback(nb::object function) : function(std::move(function)) {}
  /// Calls it with what `arguments` makes; it holds the GIL when called. What the function raises is printed as
  /// Python prints it where nobody can catch it. Does nothing once forget() was called or Python is ending.
  template <typename Arguments> void call(Arguments arguments) noexcept {
    if (ending || !Py_IsInitialized())
      return;
    PyGILState_STATE state = PyGILState_Ensure();
    if (function.is_valid()) {
      nb::object held = function;
      PyObject *result = nullptr;
      if (PyObject *argument = arguments()) {
        result = PyObject_CallOneArg(held.ptr(), argument);
        Py_DECREF(argument);
      }
      if (!result)
        PyErr_WriteUnraisable(held.ptr());
      Py_XDECREF(result);
    }
    PyGILState_Release(state);
  }
  /// With the GIL held.
  void forget() { function.reset(); }

  /// Set when Python ends, after which none is called.
  static bool ending;

private:
  nb::object function;
};

/// What the runtime calls as long as it likes must stay: a few words of it are never freed.
struct LogSink {
  Callback callback;
  static void line(void *user, const char *text) noexcept {
    static_cast<LogSink *>(user)->callback.call([=] { return PyUnicode_DecodeUTF8(text, strlen(text), "replace"); });
  }
};

void defineModel(nb::module_ &module);
void defineExecutable(nb::module_ &module);

} // namespace rlxpy

#endif // RLX_PYTHON_COMMON_H
