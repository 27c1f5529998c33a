//===- WorkerChannel.cpp - messages over a socket -------------------------===//
#include "WorkerChannel.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

using namespace rlx;

namespace {
struct Frame {
  static constexpr uint32_t kMagic = 0x57584c52; // "RLXW"
  uint32_t magic = kMagic;
  uint32_t descriptors = 0;
  uint64_t bytes = 0;
};
static_assert(sizeof(Frame) == 16);

constexpr size_t kDescriptorsAtOnce = 100; // the system takes 253
/// FlatBuffers have 32-bit offsets.
constexpr uint64_t kMaxMessage = (uint64_t(1) << 31) - 2;
/// Memory is taken as bytes arrive, so that a length alone allocates nothing.
constexpr size_t kPiece = 1 << 20;

ChannelError systemError(const char *what) {
  int number = errno;
  return {ChannelFailure::System, std::string(what) + ": " + std::strerror(number)};
}
bool isGone(int number) { return number == EPIPE || number == ECONNRESET || number == ENOTCONN; }
} // namespace

WorkerChannel::WorkerChannel(Descriptor socketEnd, int ended) : socket(std::move(socketEnd)), ended(ended) {
  int flags = ::fcntl(socket.get(), F_GETFL);
  ::fcntl(socket.get(), F_SETFL, flags | O_NONBLOCK);
}

std::optional<ChannelError> WorkerChannel::wait(short events, const Deadline &deadline) {
  while (true) {
    int timeout = -1;
    if (deadline) {
      auto left = std::chrono::ceil<std::chrono::milliseconds>(*deadline - std::chrono::steady_clock::now()).count();
      if (left <= 0)
        return ChannelError{ChannelFailure::Late, {}};
      timeout = static_cast<int>(std::min<long long>(left, 1 << 30));
    }
    struct pollfd waited[2] = {{socket.get(), events, 0}, {ended, POLLIN, 0}}; // a number below 0 is passed over
    int count = ::poll(waited, 2, timeout);
    if (count < 0 && errno != EINTR)
      return systemError("waiting for the other process");
    if (count <= 0)
      continue;
    // What an ended process has sent is still there to be read.
    if (waited[0].revents)
      return std::nullopt;
    if (waited[1].revents)
      return ChannelError{ChannelFailure::Closed, {}};
  }
}

std::optional<ChannelError> WorkerChannel::send(std::span<const uint8_t> message,
                                                std::span<const Descriptor> descriptors, const Deadline &deadline) {
  if (message.size() > kMaxMessage)
    return ChannelError{ChannelFailure::System, "a message of " + std::to_string(message.size()) + " bytes"};
  Frame frame;
  frame.descriptors = static_cast<uint32_t>(descriptors.size());
  frame.bytes = message.size();
  auto sendBytes = [&](std::span<const uint8_t> bytes,
                       std::span<const Descriptor> with) -> std::optional<ChannelError> {
    while (!bytes.empty()) {
      struct iovec part = {const_cast<uint8_t *>(bytes.data()), bytes.size()};
      struct msghdr header = {};
      header.msg_iov = &part;
      header.msg_iovlen = 1;
      alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * kDescriptorsAtOnce)];
      if (!with.empty()) {
        std::memset(control, 0, sizeof(control));
        header.msg_control = control;
        header.msg_controllen = CMSG_SPACE(sizeof(int) * with.size());
        struct cmsghdr *first = CMSG_FIRSTHDR(&header);
        first->cmsg_level = SOL_SOCKET;
        first->cmsg_type = SCM_RIGHTS;
        first->cmsg_len = CMSG_LEN(sizeof(int) * with.size());
        for (size_t i = 0; i != with.size(); ++i) {
          int number = with[i].get();
          std::memcpy(CMSG_DATA(first) + i * sizeof(int), &number, sizeof(int));
        }
      }
      ssize_t sent = ::sendmsg(socket.get(), &header, MSG_NOSIGNAL);
      if (sent > 0) {
        bytes = bytes.subspan(static_cast<size_t>(sent));
        with = {};
        continue;
      }
      if (sent < 0 && errno == EINTR)
        continue;
      if (sent < 0 && isGone(errno))
        return ChannelError{ChannelFailure::Closed, {}};
      if (sent < 0 && errno != EAGAIN && errno != EWOULDBLOCK)
        return systemError("sending to the other process");
      if (std::optional<ChannelError> error = wait(POLLOUT, deadline))
        return error;
    }
    return std::nullopt;
  };
  if (auto error = sendBytes({reinterpret_cast<const uint8_t *>(&frame), sizeof(frame)}, {}))
    return error;
  while (!descriptors.empty()) {
    size_t count = std::min(descriptors.size(), kDescriptorsAtOnce);
    uint8_t carrier = 0;
    if (auto error = sendBytes({&carrier, 1}, descriptors.first(count)))
      return error;
    descriptors = descriptors.subspan(count);
  }
  return sendBytes(message, {});
}

std::optional<ChannelError> WorkerChannel::receiveBytes(std::span<uint8_t> bytes, const Deadline &deadline) {
  while (!bytes.empty()) {
    ssize_t got = ::recv(socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got > 0) {
      bytes = bytes.subspan(static_cast<size_t>(got));
      continue;
    }
    if (got == 0 || (got < 0 && isGone(errno)))
      return ChannelError{ChannelFailure::Closed, {}};
    if (errno == EINTR)
      continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK)
      return systemError("receiving from the other process");
    if (std::optional<ChannelError> error = wait(POLLIN, deadline))
      return error;
  }
  return std::nullopt;
}

std::optional<ChannelError> WorkerChannel::receive(std::vector<uint8_t> &message, size_t limit,
                                                   const DescriptorSink &sink, const Deadline &deadline) {
  Frame frame;
  if (auto error = receiveBytes({reinterpret_cast<uint8_t *>(&frame), sizeof(frame)}, deadline))
    return error;
  if (frame.magic != Frame::kMagic || frame.bytes > kMaxMessage || frame.descriptors > limit)
    return ChannelError{ChannelFailure::Garbage, {}};

  std::optional<std::string> refused;
  for (size_t expected = frame.descriptors; expected != 0;) {
    if (auto error = wait(POLLIN, deadline))
      return error;
    uint8_t carrier;
    struct iovec part = {&carrier, 1};
    alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * kDescriptorsAtOnce)];
    struct msghdr header = {};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof(control);
    ssize_t got = ::recvmsg(socket.get(), &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (got < 0 && (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK))
      continue;
    if (got == 0 || (got < 0 && isGone(errno)))
      return ChannelError{ChannelFailure::Closed, {}};
    if (got < 0)
      return systemError("receiving from the other process");
    // All that came is taken before anything is judged, so that none stays open.
    std::vector<Descriptor> came;
    for (struct cmsghdr *each = CMSG_FIRSTHDR(&header); each; each = CMSG_NXTHDR(&header, each)) {
      if (each->cmsg_level != SOL_SOCKET || each->cmsg_type != SCM_RIGHTS)
        continue;
      size_t count = (each->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (size_t i = 0; i != count; ++i) {
        int number;
        std::memcpy(&number, CMSG_DATA(each) + i * sizeof(int), sizeof(int));
        came.emplace_back(number);
      }
    }
    if (header.msg_flags & MSG_CTRUNC)
      return ChannelError{ChannelFailure::System, "no file descriptors are left for the files of the model"};
    if (came.size() != std::min(expected, kDescriptorsAtOnce))
      return ChannelError{ChannelFailure::Garbage, {}};
    expected -= came.size();
    for (Descriptor &each : came)
      if (!refused)
        refused = sink(std::move(each));
  }

  message.clear();
  while (message.size() != frame.bytes) {
    size_t had = message.size(), piece = std::min<size_t>(frame.bytes - had, std::max(kPiece, had));
    message.resize(had + piece);
    if (auto error = receiveBytes(std::span(message).subspan(had), deadline))
      return error;
  }
  if (refused)
    return ChannelError{ChannelFailure::System, *refused};
  return std::nullopt;
}

bool WorkerChannel::isStale() const {
  struct pollfd waited[2] = {{socket.get(), POLLIN, 0}, {ended, POLLIN, 0}};
  int count;
  do
    count = ::poll(waited, 2, 0);
  while (count < 0 && errno == EINTR);
  return count != 0;
}

Result<Descriptor> rlx::memoryFile(const char *name) {
  Descriptor file(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file)
    return Error{ErrorCode::Io, std::string("the system gives no file in memory: ") + std::strerror(errno)};
  return file;
}
