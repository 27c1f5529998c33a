//===- WorkerChannel.h - messages over a socket -----------------*- C++ -*-===//
//
// A message is a frame, descriptors, and a FlatBuffer of Worker.fbs:
//
//   u32 magic, u32 descriptors, u64 bytes    the frame, little-endian
//   one byte for each kDescriptorsAtOnce descriptors, which come with it
//   the FlatBuffer
//
// The other side may be anything that a process can be: every length is checked,
// and whoever waits can be called off.
//
//===----------------------------------------------------------------------===//
#ifndef RLX_LIB_RUNTIME_WORKERCHANNEL_H
#define RLX_LIB_RUNTIME_WORKERCHANNEL_H

#include "rlx/Data/Worker_generated.h"
#include "rlx/Support/Files.h"
#include "rlx/Support/Result.h"

#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace rlx {

using Deadline = std::optional<std::chrono::steady_clock::time_point>;

/// How a message failed to come or go.
enum class ChannelFailure {
  Closed,  ///< the other side is gone
  Late,    ///< not until the deadline
  Garbage, ///< what came is no message
  System   ///< descriptors or memory are not to be had, and the like
};
struct ChannelError {
  ChannelFailure kind = ChannelFailure::System;
  std::string text; ///< more about it
};

/// Takes descriptors as they come; an error (text) ends the message as System.
using DescriptorSink = std::function<std::optional<std::string>(Descriptor)>;

/// One end of a stream socket; for one thread at a time.
class WorkerChannel {
public:
  /// `socket` is set to non-blocking. `ended`: becomes readable when the other side's process has ended (a pidfd that
  /// outlives the channel), or -1.
  explicit WorkerChannel(Descriptor socket, int ended = -1);

  std::optional<ChannelError> send(std::span<const uint8_t> message, std::span<const Descriptor> descriptors,
                                   const Deadline &deadline);
  /// The bytes of one message, in memory aligned for FlatBuffers. At most `limit` descriptors may come with it.
  std::optional<ChannelError> receive(std::vector<uint8_t> &message, size_t limit, const DescriptorSink &sink,
                                      const Deadline &deadline);
  /// Whether the other side is known to be gone, or has spoken when it was not asked.
  bool isStale() const;

private:
  std::optional<ChannelError> wait(short events, const Deadline &deadline);
  std::optional<ChannelError> receiveBytes(std::span<uint8_t> bytes, const Deadline &deadline);
  Descriptor socket;
  int ended;
};

/// An empty file in memory that can be written, sealed and sent. Error (Io): the system gives none.
Result<Descriptor> memoryFile(const char *name);

/// Reads a message as a table of Worker.fbs, after checking all of it; null when it is none.
template <typename Table> const Table *readMessage(const std::vector<uint8_t> &message) {
  flatbuffers::Verifier::Options options;
  // No table takes less than 4 bytes. Plans nest a few levels.
  options.max_tables = static_cast<flatbuffers::uoffset_t>(message.size() / 4);
  flatbuffers::Verifier verifier(message.data(), message.size(), options);
  return verifier.VerifyBuffer<Table>(nullptr) ? flatbuffers::GetRoot<Table>(message.data()) : nullptr;
}

} // namespace rlx

#endif // RLX_LIB_RUNTIME_WORKERCHANNEL_H
