//===- Objects.h - what stands behind the package's objects -----*- C++ -*-===//
#ifndef RLX_PYTHON_OBJECTS_H
#define RLX_PYTHON_OBJECTS_H

#include "Array.h"

#include <map>
#include <optional>

namespace rlxpy {

/// Sizes by name, as Python gives them.
using Sizes = std::vector<std::pair<std::string, int64_t>>;
/// The dict {name: size}. Throws.
Sizes sizesOf(nb::dict binding);

class Engine {
public:
  using Handle = rlxpy::Handle<rlx_engine, rlx_engine_destroy>;
  explicit Engine(nb::dict options);
  ~Engine();
  rlx_engine *get() const;
  nb::dict info() const;
  void trim();
  void close();
  /// The log function, or null. Borrowed.
  PyObject *logFunction() const { return log ? log->callback.peek() : nullptr; }

  Handle handle;

private:
  LogSink *log = nullptr;
};

class Model {
public:
  /// Paths are bytes, as the system has them.
  Model(Engine &engine, nb::bytes path, std::optional<nb::bytes> weightsFile, bool dynamicInputs);
  rlx_model *get() const { return handle.get(); }
  nb::dict info() const;

  std::vector<Port> inputs, outputs, params;
  std::vector<std::string> dims;

private:
  Handle<rlx_model, rlx_model_destroy> handle;
};

class Preparation {
public:
  Preparation(const Preparation &) = delete;
  explicit Preparation(nb::object progress);
  ~Preparation();
  nb::tuple progress() const;
  void cancel();
  /// Until it is over; throws NotReady after so many seconds.
  void wait(std::optional<double> seconds);
  /// Cancels, if there is something, and lets go of it.
  void close();

  using Handle = rlxpy::Handle<rlx_preparation, rlx_preparation_destroy>;
  Handle handle;

private:
  friend class Executable;
  struct Sink;
  static void called(void *user, rlx_progress progress) noexcept;
  Sink *sink = nullptr;
  bool ended = false; ///< no call can come any more
};

/// What a run needs to know besides arrays.
struct RunChoices {
  rlx_run_options options = {sizeof(rlx_run_options), nullptr, 0, RLX_WAIT, 0, nullptr, nullptr};
  Sizes names;
  std::vector<rlx_size> sizes;
  uint32_t step = 0;
};

class Executable {
public:
  Executable(const Executable &) = delete;
  Executable(Engine &engine, Model &model, nb::dict options);
  /// A clone.
  Executable(const Executable &other, int);

  rlx_executable *get() const;
  /// Sets the error and gives null where it is closed or was made before a fork.
  rlx_executable *open() const noexcept;
  bool isClosed() const { return handle.isClosed(); }
  void close() { handle.close(); }

  void setParam(nb::handle name, nb::handle value);
  void finalizeParams() const;
  nb::tuple rng() const;
  void setRng(uint64_t seed, uint32_t step);
  void prepare(nb::dict binding);
  void prepareInBackground(nb::list bindings, Preparation &preparation);
  bool likely(Preparation &preparation) const;
  nb::dict solve(nb::handle inputs, nb::dict given) const;
  nb::dict stats() const;
  nb::list bindings() const;
  nb::object explain() const;
  nb::dict forecast(nb::dict binding) const;

  /// Around what is done without the GIL.
  void enter() const { handle.enter(); }
  void leave() const { handle.leave(); }

  std::vector<Port> inputs, outputs, params;
  std::vector<std::string> dims;
  /// Of each axis of an output: the input and axis that have the same size, or -1.
  struct Source {
    int input = -1, axis = -1;
  };
  std::vector<std::vector<Source>> sources;
  /// The subclass of rlx.Outputs for a choice of outputs. Borrowed; null with an error set.
  PyTypeObject *outputsType(const std::vector<size_t> &choice) noexcept;
  std::vector<size_t> all; ///< every output

private:
  void findSources();
  mutable Handle<rlx_executable, rlx_executable_destroy> handle;
  std::map<std::vector<size_t>, nb::object> types;
};

/// The slots of a class whose calls are those of Run.cpp.
extern PyType_Slot executableSlots[];
extern PyType_Slot boundRunSlots[];

/// Puts a view of each input, in the model's order, into `views`. `arguments` is a dict, or a sequence in the model's
/// order. False with an error set.
bool viewInputs(const Executable &executable, PyObject *arguments, rlx_input *views, Holder *holders) noexcept;

/// Arrays that were looked at once, to be run with again and again.
class BoundRun {
public:
  BoundRun(const BoundRun &) = delete;
  BoundRun(nb::object owner, nb::object inputs, nb::object outputs, nb::object binding, nb::object step);

  nb::object owner; ///< the executable
  Executable *executable;
  std::vector<rlx_input> inputs;
  std::vector<rlx_output> outputs;
  std::vector<Holder> holders;
  std::vector<std::vector<int64_t>> shapes; ///< of the inputs: an array's own go when it is given another one
  RunChoices choices;
  bool running = false;
};

} // namespace rlxpy

#endif // RLX_PYTHON_OBJECTS_H
