//===- WorkerProcess.cpp - a child process, started and ended -------------===//
#include "WorkerProcess.h"

#include "WorkerChannel.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef P_PIDFD
#define P_PIDFD 3
#endif

using namespace rlx;

extern char **environ;

namespace {
/// Away from the numbers that the child's standard streams get: a host may have closed its own.
Descriptor aboveStreams(Descriptor descriptor) {
  if (!descriptor || descriptor.get() > 2)
    return descriptor;
  return Descriptor(::fcntl(descriptor.get(), F_DUPFD_CLOEXEC, 3));
}

Error cannot(ErrorCode code, const std::string &program, int number) {
  return {code, "cannot start the compiler's worker '" + program + "': " + std::strerror(number)};
}

/// How posix_spawn starts the child; null members were not made.
struct SpawnSettings {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  bool good;

  SpawnSettings(int socket, int output) {
    good = ::posix_spawn_file_actions_init(&actions) == 0;
    good = ::posix_spawnattr_init(&attributes) == 0 && good;
    sigset_t all, none;
    sigfillset(&all);
    sigemptyset(&none);
    good = good && ::posix_spawn_file_actions_adddup2(&actions, socket, STDIN_FILENO) == 0 &&
           ::posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO) == 0 &&
           ::posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO) == 0 &&
           // Not all of a host's descriptors are marked to be closed.
           ::posix_spawn_file_actions_addclosefrom_np(&actions, 3) == 0 &&
           ::posix_spawnattr_setsigdefault(&attributes, &all) == 0 &&
           ::posix_spawnattr_setsigmask(&attributes, &none) == 0 &&
           ::posix_spawnattr_setflags(&attributes,
                                      POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSID) == 0;
  }
  ~SpawnSettings() {
    ::posix_spawn_file_actions_destroy(&actions);
    ::posix_spawnattr_destroy(&attributes);
  }
};
} // namespace

Result<std::unique_ptr<WorkerProcess>> WorkerProcess::start(const std::string &program) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return cannot(ErrorCode::CompilerFailed, program, errno);
  std::unique_ptr<WorkerProcess> process(new WorkerProcess);
  process->socket = aboveStreams(Descriptor(ends[0]));
  Descriptor theirs = aboveStreams(Descriptor(ends[1]));
  Result<Descriptor> output = memoryFile("rlx-worker-output");
  if (!output)
    return Error{ErrorCode::CompilerFailed, output.error().message};
  process->output = aboveStreams(std::move(*output));
  if (!process->socket || !theirs || !process->output)
    return cannot(ErrorCode::CompilerFailed, program, EMFILE);

  SpawnSettings settings(theirs.get(), process->output.get());
  if (!settings.good)
    return cannot(ErrorCode::CompilerFailed, program, ENOMEM);
  char *arguments[] = {const_cast<char *>(program.c_str()), nullptr};
  pid_t pid;
  if (int number = ::posix_spawn(&pid, program.c_str(), &settings.actions, &settings.attributes, arguments, environ))
    return cannot(number == EAGAIN || number == ENOMEM ? ErrorCode::CompilerFailed : ErrorCode::Unsupported, program,
                  number);
  process->pid = pid;
  process->owner = ::getpid();
  // Unlike its number, this can never come to mean another process.
  process->pidfd = Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  return process;
}

bool WorkerProcess::waitMs(int ms) {
  if (pidfd) {
    // A signal of the host ends a poll, not the wait.
    auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(ms);
    struct pollfd waited = {pidfd.get(), POLLIN, 0};
    int count;
    while ((count = ::poll(&waited, 1, ms)) < 0 && errno == EINTR) {
      auto left = std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now()).count();
      ms = static_cast<int>(std::max<long long>(left, 0));
    }
    return count > 0;
  }
  for (;; ms -= 5) {
    siginfo_t info = {};
    if (::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != 0)
      return true;
    if (ms <= 0)
      return false;
    struct timespec pause = {0, 5000000};
    ::nanosleep(&pause, nullptr);
  }
}

std::string WorkerProcess::lastLine() const {
  char buffer[2048];
  off_t size = ::lseek(output.get(), 0, SEEK_END);
  off_t from = size > static_cast<off_t>(sizeof(buffer)) ? size - static_cast<off_t>(sizeof(buffer)) : 0;
  ssize_t got = ::pread(output.get(), buffer, sizeof(buffer), from);
  std::string text(buffer, got > 0 ? static_cast<size_t>(got) : 0);
  while (!text.empty() && (text.back() == '\n' || text.back() == ' '))
    text.pop_back();
  if (size_t line = text.rfind('\n'); line != std::string::npos)
    text.erase(0, line + 1);
  if (text.size() > 300)
    text.resize(300);
  for (char &c : text)
    if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) > 0x7e)
      c = '?';
  return text;
}

std::string WorkerProcess::finish(bool grace) {
  if (pid < 0)
    return "has ended";
  bool killed = false;
  if (!waitMs(grace ? 1000 : 0)) {
    killed = true;
    if (pidfd)
      ::syscall(SYS_pidfd_send_signal, pidfd.get(), SIGKILL, nullptr, 0);
    else
      ::kill(pid, SIGKILL);
  }
  siginfo_t info = {};
  int waited;
  do
    waited = pidfd ? ::waitid(static_cast<idtype_t>(P_PIDFD), static_cast<id_t>(pidfd.get()), &info, WEXITED)
                   : ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED);
  while (waited != 0 && errno == EINTR);
  pid = -1;
  std::string said = lastLine();
  std::string more = said.empty() ? "" : ": " + said;
  if (killed)
    return "left its connection and was ended" + more;
  if (waited != 0) // ECHILD: SIGCHLD is ignored, or somebody waits for any child
    return "has ended" + more;
  if (info.si_code == CLD_EXITED)
    return info.si_status == kExitOutOfMemory ? "ran out of memory"
                                              : "exited with code " + std::to_string(info.si_status) + more;
  const char *name = ::sigdescr_np(info.si_status); // real-time signals have none
  return "was ended by signal " + std::to_string(info.si_status) + (name ? std::string(" (") + name + ")" : "") + more;
}

WorkerProcess::~WorkerProcess() {
  // A child made by fork() has a copy of this, but not the process.
  if (pid >= 0 && owner == ::getpid())
    (void)finish(false);
}
