//===- Array.h - arrays in and out of runs ----------------------*- C++ -*-===//
#ifndef RLX_PYTHON_ARRAY_H
#define RLX_PYTHON_ARRAY_H

#include "Common.h"

#include <array>
#include <memory>

namespace rlxpy {

/// An input, output or param of a model, with what a run needs to know of it.
struct Port {
  nb::object name; ///< interned
  const char *text;
  rlx_dtype type;
  std::vector<int64_t> shape; ///< -1 where it is not a number
  std::vector<std::string> dims;
  /// "'x' is f32 [batch,4]".
  std::string describe() const;
};
Port makePort(const rlx_tensor_info &info);

/// numpy's C API, and the types that it has beyond its own. Called once. Throws.
void importNumpy();

/// Keeps what the values of an argument lie in, until the run is over.
class Holder {
public:
  Holder() = default;
  Holder(Holder &&other) noexcept
      : object(std::exchange(other.object, nullptr)), copy(std::exchange(other.copy, nullptr)) {}
  ~Holder() {
    Py_XDECREF(object);
    if (copy)
      rlx_tensor_destroy(&copy);
  }
  PyObject *object = nullptr;
  rlx_tensor *copy = nullptr;
};

/// Makes `input` a view of an argument, which may be
/// - an array of numpy, or anything that speaks DLPack (on the CPU) or the buffer protocol: no copy, unless it has
/// gaps,
///   another order than row-major, or foreign byte order; its type must be the input's, or f32 for an f16 or bf16 one;
/// - a number, bool, list or tuple: made an array of the input's type, where that loses nothing but precision.
/// `what` is for messages. False with an error set.
bool viewInput(PyObject *argument, const Port &port, rlx_input &input, Holder &holder,
               const char *what = "input") noexcept;

/// Makes `output` a view of an array that can be written to: numpy's or DLPack's, contiguous, of the output's type, or
/// f32 for an f16 or bf16 one. `*shape` points to `rank` sizes for as long as the holder is there. False with an error
/// set.
bool viewOutput(PyObject *argument, const Port &port, rlx_output &output, const int64_t **shape, int32_t *rank,
                Holder &holder) noexcept;

/// An array of numpy over the values of a tensor, which it owns from now on. A bf16 one is of ml_dtypes' type, or
/// widened to f32 where that package is not there. Null with an error set.
PyObject *arrayOf(rlx_tensor *tensor) noexcept;

} // namespace rlxpy

#endif // RLX_PYTHON_ARRAY_H
