//===- WorkerPool.cpp - an engine's worker processes ----------------------===//
#include "WorkerPool.h"

#include "Places.h"
#include "WorkerProcess.h"
#include "rlx/Runtime/CompilerLibrary.h"

#include <algorithm>
#include <fcntl.h>
#include <unistd.h>

using namespace rlx;
using namespace std::chrono;

/// A process and the connection to it.
struct WorkerPool::Worker {
  Worker(std::unique_ptr<WorkerProcess> started, std::string program)
      : process(std::move(started)), channel(process->takeSocket(), process->ended()), program(std::move(program)) {}
  std::unique_ptr<WorkerProcess> process;
  WorkerChannel channel;
  std::string program;
  std::set<uint64_t> models;     ///< that it knows
  std::vector<uint64_t> dropped; ///< that nobody needs; guarded by State::mutex
  uint64_t lastNumber = 0;
};

/// Of one process: the copy that fork() makes of it holds other people's workers and perhaps a locked mutex, and is
/// left alone.
struct WorkerPool::State {
  const pid_t process = ::getpid();
  std::mutex mutex; // guards the members below
  std::condition_variable released;
  std::vector<std::unique_ptr<Worker>> idle;
  std::set<Worker *> all;
  size_t count = 0; ///< of workers, and of those being started
  std::string target;
};

WorkerPool::~WorkerPool() {
  State *mine = current.load();
  if (mine && mine->process == ::getpid())
    delete mine;
}

WorkerPool::State &WorkerPool::state() {
  State *found = current.load();
  while (!found || found->process != ::getpid()) {
    auto fresh = std::make_unique<State>();
    if (current.compare_exchange_strong(found, fresh.get()))
      return *fresh.release();
  }
  return *found;
}

Deadline WorkerPool::deadline() const {
  if (options.timeout <= milliseconds(0))
    return std::nullopt;
  // So large that it would overflow is none.
  if (options.timeout > hours(24 * 365))
    return std::nullopt;
  return steady_clock::now() + options.timeout;
}

std::string WorkerPool::target() {
  State &mine = state();
  std::lock_guard lock(mine.mutex);
  return mine.target;
}

void WorkerPool::dropModel(uint64_t number) {
  State &mine = state();
  std::lock_guard lock(mine.mutex);
  for (Worker *worker : mine.all)
    worker->dropped.push_back(number);
}

Result<std::unique_ptr<WorkerPool::Worker>> WorkerPool::acquire(State &state) {
  const size_t most = std::clamp(threads, 1u, kMaxWorkers);
  while (true) {
    std::unique_ptr<Worker> worker;
    {
      std::unique_lock lock(state.mutex);
      state.released.wait(lock, [&] { return !state.idle.empty() || state.count < most; });
      if (state.idle.empty()) {
        ++state.count;
        break;
      }
      worker = std::move(state.idle.back());
      state.idle.pop_back();
    }
    if (!worker->channel.isStale())
      return worker;
    // It died while it had nothing to do: no request's fault.
    release(state, std::move(worker));
  }
  Result<std::unique_ptr<Worker>> started = start(state, deadline());
  if (!started)
    release(state, nullptr);
  return started;
}

/// Back to the idle ones; one that is of no use any more ends here.
void WorkerPool::release(State &state, std::unique_ptr<Worker> worker) {
  // Without a process it was given up on, and what its pidfd was may be another's descriptor by now.
  bool useful = worker && worker->process && !worker->channel.isStale();
  {
    std::lock_guard lock(state.mutex);
    if (useful) {
      state.idle.push_back(std::move(worker));
    } else {
      --state.count;
      state.all.erase(worker.get());
    }
  }
  state.released.notify_one();
}

Result<std::unique_ptr<WorkerPool::Worker>> WorkerPool::start(State &state, const Deadline &deadline) {
  std::string program = options.program;
  if (program.empty()) {
    constexpr const char *folders[] = {"", "../bin/", "../libexec/rlx/", "../../libexec/rlx/"};
    Search search = searchFile(kWorkerFile, kWorkerVariable, folders);
    if (search.found.empty())
      return Error{ErrorCode::Unsupported, "no program for the compiler's worker: looked for " + search.text() + "; " +
                                               kWorkerVariable + " or WorkerOptions.program names it"};
    program = search.found;
  }
  Result<std::unique_ptr<WorkerProcess>> process = WorkerProcess::start(program);
  if (!process)
    return process.takeError();
  auto worker = std::make_unique<Worker>(std::move(*process), program);
  WorkerCall hello;
  data::WorkerHelloT body;
  body.threads = threads;
  body.memory_bytes = options.memoryBytes;
  hello.body.Set(std::move(body));
  hello.what = "starting";
  std::vector<uint8_t> bytes;
  Result<const data::WorkerReply *> reply =
      exchange(state, *worker, hello, data::WorkerReplyBody::WorkerWelcome, deadline, bytes);
  if (!reply)
    return reply.takeError();
  const data::WorkerWelcome *welcome = (*reply)->body_as_WorkerWelcome();
  std::string build = welcome->build() ? welcome->build()->str() : "";
  if (build != buildId())
    return Error{ErrorCode::Unsupported, "the compiler's worker '" + program + "' is of build '" + build +
                                             "', and the runtime of build '" + buildId() + "': both must be of one"};
  std::lock_guard lock(state.mutex);
  state.target = welcome->target() ? welcome->target()->str() : "";
  state.all.insert(worker.get());
  return worker;
}

Error WorkerPool::failed(Worker &worker, const std::string &what, const ChannelError &error) {
  std::string text = "the compiler's worker ";
  switch (error.kind) {
  case ChannelFailure::Closed:
    text += worker.process->finish(/*grace=*/true) + " while " + what;
    break;
  case ChannelFailure::Late:
    text += "did not answer within " + std::to_string(options.timeout.count()) + " ms, and was ended, while " + what;
    break;
  case ChannelFailure::Garbage:
    text += "'" + worker.program + "' sent what is no reply, and was ended, while " + what;
    break;
  case ChannelFailure::System:
    text += "could not be spoken to (" + error.text + "), and was ended, while " + what;
    break;
  }
  return Error{ErrorCode::CompilerFailed, text + "; another one is started when it is needed"};
}

Result<const data::WorkerReply *> WorkerPool::exchange(State &state, Worker &worker, WorkerCall &call,
                                                       data::WorkerReplyBody expected, const Deadline &deadline,
                                                       std::vector<uint8_t> &bytes) {
  data::WorkerRequestT request;
  request.number = ++worker.lastNumber;
  request.body = std::move(call.body);
  {
    std::lock_guard lock(state.mutex);
    for (uint64_t number : worker.dropped)
      if (worker.models.erase(number))
        request.forget.push_back(number);
    worker.dropped.clear();
  }
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(data::CreateWorkerRequest(builder, &request));

  Descriptor folder[1];
  if (call.withFolder)
    folder[0] = Descriptor(::open(".", O_PATH | O_DIRECTORY | O_CLOEXEC));
  auto fail = [&](const ChannelError &error) {
    Error text = failed(worker, call.what, error);
    worker.process.reset();
    return text;
  };
  if (auto error = worker.channel.send({builder.GetBufferPointer(), builder.GetSize()},
                                       std::span<const Descriptor>(folder, folder[0] ? 1 : 0), deadline))
    return fail(*error);
  constexpr size_t kMaxFiles = 1 << 16;
  if (auto error = worker.channel.receive(bytes, call.sink ? kMaxFiles : 0, call.sink, deadline))
    return fail(*error);
  const auto *reply = readMessage<data::WorkerReply>(bytes);
  if (!reply || reply->number() != request.number || !reply->body() ||
      (reply->body_type() != expected && reply->body_type() != data::WorkerReplyBody::WorkerRefused))
    return fail({ChannelFailure::Garbage, {}});
  if (const data::WorkerRefused *refused = reply->body_as_WorkerRefused()) {
    const data::WorkerError *error = refused->error();
    if (!error)
      return fail({ChannelFailure::Garbage, {}});
    return errorOf(*error);
  }
  if (call.makesModel)
    worker.models.insert(call.makesModel);
  return reply;
}

Error rlx::errorOf(const data::WorkerError &error) {
  bool known = error.code() >= static_cast<int>(ErrorCode::InvalidArgument) &&
               error.code() <= static_cast<int>(ErrorCode::CompilerFailed);
  return Error{known ? static_cast<ErrorCode>(error.code()) : ErrorCode::Internal,
               error.message() ? error.message()->str() : ""};
}

Result<const data::WorkerReply *> WorkerPool::run(WorkerCall &call, data::WorkerReplyBody expected,
                                                  std::vector<uint8_t> &bytes) {
  State &mine = state();
  Result<std::unique_ptr<Worker>> worker = acquire(mine);
  if (!worker)
    return Error{worker.error().code, worker.error().message + " (wanted for " + call.what + ")"};
  Deadline until = deadline();
  Result<const data::WorkerReply *> reply = Error{};
  bool knows = !call.model || (*worker)->models.contains(call.model->number);
  if (!knows) {
    WorkerCall open;
    data::WorkerOpenT body;
    body.model = call.model->number;
    body.prepared = call.model->prepared;
    open.body.Set(std::move(body));
    open.what = call.what;
    open.makesModel = call.model->number;
    reply = exchange(mine, **worker, open, data::WorkerReplyBody::WorkerOpened, until, bytes);
    knows = static_cast<bool>(reply);
  }
  if (knows)
    reply = exchange(mine, **worker, call, expected, until, bytes);
  release(mine, std::move(*worker));
  return reply;
}
