//===- WorkerPool.h - an engine's worker processes --------------*- C++ -*-===//
#ifndef RLX_LIB_RUNTIME_WORKERPOOL_H
#define RLX_LIB_RUNTIME_WORKERPOOL_H

#include "WorkerChannel.h"
#include "rlx/Runtime/Engine.h"

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace rlx {

/// What a worker must know before it can specialize a model.
struct WorkerModel {
  uint64_t number = 0;
  std::vector<uint8_t> prepared; ///< as the worker that loaded it had it
};

/// A request, and what goes with it.
struct WorkerCall {
  data::WorkerRequestBodyUnion body;
  /// "loading 'm.onnx'": for messages.
  std::string what;
  /// Given to a worker that does not know it, before the request.
  const WorkerModel *model = nullptr;
  /// The worker knows this model once the request has been answered.
  uint64_t makesModel = 0;
  /// With the host's working folder.
  bool withFolder = false;
  /// For the descriptors of the reply; null: none may come.
  DescriptorSink sink;
};

/// A reply that has been verified: `body` lies in `bytes`.
template <typename Body> struct WorkerAnswer {
  std::vector<uint8_t> bytes;
  const Body *body = nullptr;
};

/// An error as a worker says it.
Error errorOf(const data::WorkerError &error);

/// Worker processes. Each takes one request at a time, so that one that dies takes one request with it and nobody
/// else's. There are as many as there are requests at once, but no more than kMaxWorkers and threads: a worker compiles
/// the kernels of one request on all threads already. Who finds all of them busy waits; every request has a time limit.
/// A worker that has died, or was given up on, is replaced when the next request comes. Thread safe, also in a child
/// made by fork(), which starts workers of its own.
class WorkerPool {
public:
  WorkerPool(const WorkerOptions &options, unsigned threads) : options(options), threads(threads) {}
  ~WorkerPool();
  static constexpr unsigned kMaxWorkers = 4;

  uint64_t newModel() { return nextModel++; }
  /// Workers may forget it.
  void dropModel(uint64_t number);

  /// Errors: those of the compiler; Unsupported where the worker cannot be started or is of another build;
  /// CompilerFailed where it died, was late, or answered what is no reply.
  template <typename Body> Result<WorkerAnswer<Body>> call(WorkerCall call) {
    WorkerAnswer<Body> answer;
    Result<const data::WorkerReply *> reply = run(call, data::WorkerReplyBodyTraits<Body>::enum_value, answer.bytes);
    if (!reply)
      return reply.takeError();
    answer.body = static_cast<const Body *>((*reply)->body());
    return answer;
  }
  /// Of the machine, from the worker that was started last.
  std::string target();

private:
  struct Worker;
  struct State;
  State &state();
  Result<std::unique_ptr<Worker>> acquire(State &state);
  Result<std::unique_ptr<Worker>> start(State &state, const Deadline &deadline);
  void release(State &state, std::unique_ptr<Worker> worker);
  Deadline deadline() const;
  Result<const data::WorkerReply *> run(WorkerCall &call, data::WorkerReplyBody expected, std::vector<uint8_t> &bytes);
  Result<const data::WorkerReply *> exchange(State &state, Worker &worker, WorkerCall &call,
                                             data::WorkerReplyBody expected, const Deadline &deadline,
                                             std::vector<uint8_t> &bytes);
  Error failed(Worker &worker, const std::string &what, const ChannelError &error);

  const WorkerOptions options;
  const unsigned threads;
  std::atomic<uint64_t> nextModel{1};
  std::atomic<State *> current{nullptr};
};

} // namespace rlx

#endif // RLX_LIB_RUNTIME_WORKERPOOL_H
