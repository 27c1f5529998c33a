//===- rlx-compile-worker.cpp - the compiler in a process of its own ------===//
//
// Started by the runtime (EngineOptions::compiler) with a socket for its standard
// input. What is global in a process is set here, and nowhere in the libraries.
//
//===----------------------------------------------------------------------===//
#include "rlx/Compiler/Worker.h"

#include "llvm/Support/ErrorHandling.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <poll.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

namespace {
constexpr int kExitOutOfMemory = 77; // as lib/Runtime/WorkerProcess.h knows it

/// Ends the process as soon as the host is gone, whatever it is doing: a compilation that nobody waits for any more
/// must not go on.
void *watchHost(void *) {
  struct pollfd host = {STDIN_FILENO, 0, 0}; // its end alone
  while (::poll(&host, 1, -1) < 0 || !(host.revents & (POLLHUP | POLLERR | POLLNVAL)))
    ;
  ::_exit(0);
}

[[noreturn]] void outOfMemory() { ::_exit(kExitOutOfMemory); }

int usage(FILE *stream, int code) {
  std::fputs("rlx-compile-worker: compiles for a program that uses rlx, in a process of its own.\n"
             "It is started by the runtime, with a socket for its standard input, when an engine is made with\n"
             "EngineOptions::compiler = CompilerPlace::Worker (rlx-run: --compiler=worker), and ends with it.\n",
             stream);
  return code;
}
} // namespace

// Much of MLIR does not look whether malloc gave it something, and would crash instead. Sanitizers have their own.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) &&                                                 \
    !(defined(__has_feature) && (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer)))
extern "C" {
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *old, size_t bytes);

void *malloc(size_t bytes) {
  if (void *memory = __libc_malloc(bytes))
    return memory;
  outOfMemory();
}
void *calloc(size_t count, size_t bytes) {
  if (void *memory = __libc_calloc(count, bytes))
    return memory;
  outOfMemory();
}
void *realloc(void *old, size_t bytes) {
  void *memory = __libc_realloc(old, bytes);
  if (memory || bytes == 0)
    return memory;
  outOfMemory();
}
}
#endif

int main(int argc, char **argv) {
  if (argc == 2 && std::strcmp(argv[1], "--help") == 0)
    return usage(stdout, 0);
  struct stat info;
  if (argc != 1 || ::fstat(STDIN_FILENO, &info) != 0 || !S_ISSOCK(info.st_mode))
    return usage(stderr, 1);

  std::signal(SIGPIPE, SIG_IGN);
  // Writing a core would delay the news of a crash by seconds, and a model that crashes the compiler fill a disk.
  struct rlimit none = {0, 0};
  (void)::setrlimit(RLIMIT_CORE, &none);
  std::set_new_handler(outOfMemory);
  llvm::install_bad_alloc_error_handler([](void *, const char *, bool) { outOfMemory(); });

  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 64 << 10);
  pthread_t watcher;
  if (pthread_create(&watcher, &small, watchHost, nullptr) != 0)
    return kExitOutOfMemory;
  pthread_attr_destroy(&small);
  // Not by way of exit(): threads may be at work.
  ::_exit(rlx::compiler::serveRequests(STDIN_FILENO));
}
