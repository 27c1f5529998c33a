//===- WorkerProcess.h - a child process, started and ended -----*- C++ -*-===//
#ifndef RLX_LIB_RUNTIME_WORKERPROCESS_H
#define RLX_LIB_RUNTIME_WORKERPROCESS_H

#include "rlx/Support/Files.h"
#include "rlx/Support/Result.h"

#include <memory>
#include <string>
#include <sys/types.h>

namespace rlx {

/// The code that a worker exits with when it gets no memory.
inline constexpr int kExitOutOfMemory = 77;

/// A child of this process with a socket for its standard input. What it prints is kept for the message about its end.
///
/// The host may be any program: nothing of it is changed (signal handlers, SIGCHLD, descriptors), no descriptor of it
/// goes to the child, signals of its terminal do not reach the child, and it may collect the status of children that
/// it does not know; then how this one ended stays unknown.
class WorkerProcess {
public:
  /// Errors (Unsupported): `program` cannot be started; (CompilerFailed): the system gives no process or descriptors.
  static Result<std::unique_ptr<WorkerProcess>> start(const std::string &program);
  /// Ends it.
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess &) = delete;
  WorkerProcess &operator=(const WorkerProcess &) = delete;

  /// Our end of the socket; once.
  Descriptor takeSocket() { return std::move(socket); }
  /// Readable when the process has ended; -1 where the system has no such thing.
  int ended() const { return pidfd.get(); }
  pid_t id() const { return pid; }

  /// Waits for its end, and ends it where that does not come: at once, or, with `grace`, after a second. Then says how
  /// it ended: "was ended by signal 9 (Killed)", "exited with code 3: <its last line>". Once.
  std::string finish(bool grace);

private:
  WorkerProcess() = default;
  bool waitMs(int ms);
  std::string lastLine() const;

  pid_t pid = -1, owner = -1;
  Descriptor pidfd, socket, output;
};

} // namespace rlx

#endif // RLX_LIB_RUNTIME_WORKERPROCESS_H
