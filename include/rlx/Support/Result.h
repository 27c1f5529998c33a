//===- Result.h - errors as values ------------------------------*- C++ -*-===//
#ifndef RLX_SUPPORT_RESULT_H
#define RLX_SUPPORT_RESULT_H

#include <cassert>
#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace rlx {

/// What kind of help the caller needs. Stable: also the C API's numbers.
enum class ErrorCode : int {
  InvalidArgument = 1, ///< A name, type, rank or size the caller gave is wrong.
  InvalidModel = 2,    ///< The graph or file is wrong.
  Unsupported = 3,     ///< Legal, but rlx cannot do it; names the op.
  Unsolvable = 4,      ///< The binding cannot be found from what was given.
  OutOfRange = 5,      ///< A size outside its range, or arithmetic overflow.
  RunFailed = 6,       ///< Only the data was wrong: index out of range, division by zero.
  Io = 7,              ///< A file could not be read or written.
  Internal = 8,        ///< A bug of ours that was caught.
  NotReady = 9,        ///< What the run needs is still being compiled, and the caller would not wait (longer).
  Cancelled = 10,      ///< The caller gave up on it.
  CompilerFailed = 11, ///< The compiler died, took too long or too much memory; asking again may help.
};

/// An error: a code and one line that names the thing and the way out.
struct Error {
  ErrorCode code = ErrorCode::Internal;
  std::string message;
};

/// A value or an Error.
template <typename T> class [[nodiscard]] Result {
public:
  Result(T value) : state(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state(std::in_place_index<1>, std::move(error)) {}

  explicit operator bool() const { return state.index() == 0; }
  T &operator*() & { return std::get<0>(state); }
  const T &operator*() const & { return std::get<0>(state); }
  T &&operator*() && { return std::get<0>(std::move(state)); }
  T *operator->() { return &std::get<0>(state); }
  const T *operator->() const { return &std::get<0>(state); }
  const Error &error() const { return std::get<1>(state); }
  Error takeError() { return std::get<1>(std::move(state)); }

private:
  std::variant<T, Error> state;
};

/// Success or an Error.
class [[nodiscard]] Status {
public:
  Status() = default;
  Status(Error error) : failure(std::move(error)) {}

  static Status ok() { return {}; }
  /// True on success.
  explicit operator bool() const { return !failure.has_value(); }
  const Error &error() const { return *failure; }
  Error takeError() { return std::move(*failure); }

private:
  std::optional<Error> failure;
};

} // namespace rlx

#endif // RLX_SUPPORT_RESULT_H
