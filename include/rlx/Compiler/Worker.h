//===- Worker.h - the compiler's side of a worker process -------*- C++ -*-===//
#ifndef RLX_COMPILER_WORKER_H
#define RLX_COMPILER_WORKER_H

namespace rlx::compiler {

/// Answers the requests that come over a socket, one after another, until its other end is gone; returns the exit code
/// of the process. For a process of its own: it limits the memory of the process where it is told to, and takes
/// descriptors and the working folder from the other end.
int serveRequests(int socket);

} // namespace rlx::compiler

#endif // RLX_COMPILER_WORKER_H
