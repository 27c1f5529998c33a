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

#include <atomic>
#include <cstdint>
#include <cstring>
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

/// The UTF-8 of a str that names something; `what` is for the error. Throws where it is none, or has no such form: a
/// lone surrogate, or a zero byte, at which the C API would take it to end.
std::string nameOf(nb::handle name, const char *what);

/// A str of what the runtime says.
inline nb::object textOf(const char *text) {
  return nb::steal(PyUnicode_DecodeUTF8(text, static_cast<Py_ssize_t>(strlen(text)), "replace"));
}

/// Exceptions and other things of the Python part, imported once. What it returns is borrowed.
PyObject *exceptionOf(rlx_code code) noexcept;

/// Without the GIL, for as long as this lives. Python takes threads away that ask for the GIL when it has ended, in the
/// middle of C++; therefore it is not left to end before those that were here have it back (end()), and who comes later
/// stops here.
class Unlocked {
public:
  Unlocked();
  Unlocked(const Unlocked &) = delete;
  ~Unlocked() {
    PyEval_RestoreThread(state);
    if (inside > 0) // a child of a fork begins anew
      --inside;
  }

private:
  friend void end() noexcept;
  friend void forked() noexcept;
  static size_t inside; ///< under the GIL
  PyThreadState *state;
};

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
  bool isClosed() const { return closed; }
  /// Who uses it without the GIL keeps it beyond close(). With the GIL held.
  void enter() { ++users; }
  void leave() {
    if (--users == 0 && closed)
      reset();
  }
  /// The same for a scope.
  class Use {
  public:
    explicit Use(Handle &handle) : handle(handle) { handle.enter(); }
    Use(const Use &) = delete;
    ~Use() { handle.leave(); }

  private:
    Handle &handle;
  };
  void close() {
    closed = true;
    if (users == 0)
      reset();
  }
  void reset() {
    T *old = std::exchange(handle, nullptr);
    if (old && !forked()) {
      Unlocked unlocked;
      Destroy(&old);
    }
  }

private:
  T *handle = nullptr;
  unsigned made = generation, users = 0;
  bool closed = false;
};

/// A Python function that the runtime calls from threads of its own.
class Callback {
public:
  explicit Callback(nb::object function) : function(std::move(function)) {}
  /// Calls it with what `arguments` makes, which holds the GIL when called. What the function raises is printed as
  /// Python prints it where nobody can catch it. Does nothing once forget() was called or Python is ending. `then` is
  /// called after it, with the GIL.
  template <typename Arguments, typename Then> void call(Arguments arguments, Then then) noexcept {
    ++calls;
    if (!ending) {
      PyGILState_STATE state = PyGILState_Ensure();
      if (nb::object held = function; held.is_valid()) {
        PyObject *argument = arguments();
        PyObject *result = argument ? PyObject_CallOneArg(held.ptr(), argument) : nullptr;
        Py_XDECREF(argument);
        if (!result)
          PyErr_WriteUnraisable(held.ptr());
        Py_XDECREF(result);
      }
      then();
      PyGILState_Release(state);
    }
    --calls;
  }
  /// With the GIL held.
  void forget() { function.reset(); }
  /// For Python's collector of cycles.
  PyObject *peek() const { return function.ptr(); }

private:
  friend void end() noexcept;
  friend void forked() noexcept;
  friend class Unlocked;
  static std::atomic<size_t> calls;
  static std::atomic<bool> ending;
  nb::object function;
};

/// Waits, some seconds at most, until no thread is in the runtime or in a callback; from then on there are no
/// callbacks. To be called when executables are closed and Python is about to end.
void end() noexcept;
/// To be called in the child of a fork, which has one thread.
void forked() noexcept;

/// What the runtime calls as long as it likes must stay: a few words of it are never freed.
struct LogSink {
  Callback callback;
  static void line(void *user, const char *text) noexcept {
    static_cast<LogSink *>(user)->callback.call(
        [=] { return PyUnicode_DecodeUTF8(text, static_cast<Py_ssize_t>(strlen(text)), "replace"); }, [] {});
  }
};

void defineModel(nb::module_ &module);
void defineExecutable(nb::module_ &module);

} // namespace rlxpy

#endif // RLX_PYTHON_COMMON_H
