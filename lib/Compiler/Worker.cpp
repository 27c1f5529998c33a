//===- Worker.cpp - the compiler's side of a worker process ---------------===//

#include "rlx/Compiler/Worker.h"

#include "KernelRequests.h"
#include "Prepare.h"

#include "../Runtime/WorkerChannel.h"
#include "rlx/Runtime/BuildId.h"
#include "rlx/Runtime/CompilerLibrary.h"
#include "rlx/Runtime/ThreadPool.h"
#include "rlx/Runtime/WeightTable.h"
#include "rlx/Support/Files.h"

#include <algorithm>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <map>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

namespace rlx::compiler {

namespace {
/// A reply, and the files that go with it.
struct Answer {
  data::WorkerReplyT message;
  std::vector<Descriptor> files;
};

std::vector<std::unique_ptr<data::WorkerTimeT>> packTimes(const PhaseTimes &times) {
  std::vector<std::unique_ptr<data::WorkerTimeT>> packed;
  for (const auto &[phase, ms] : times) {
    packed.push_back(std::make_unique<data::WorkerTimeT>());
    packed.back()->phase = phase;
    packed.back()->ms = ms;
  }
  return packed;
}

std::unique_ptr<data::WorkerErrorT> packError(const Error &error) {
  auto packed = std::make_unique<data::WorkerErrorT>();
  packed->code = static_cast<int>(error.code);
  packed->message = error.message;
  return packed;
}

/// Memory that can be written now, in bytes: what counts against RLIMIT_DATA, to which mapped files do not.
std::optional<uint64_t> writableBytes() {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("VmData:"))
      return std::strtoull(line.c_str() + 7, nullptr, 10) * 1024;
  return std::nullopt;
}

Status limitMemory(uint64_t bytes) {
  std::optional<uint64_t> now = writableBytes();
  struct rlimit limit;
  if (!now || ::getrlimit(RLIMIT_DATA, &limit) != 0)
    return Error{ErrorCode::Unsupported, "the memory of the worker cannot be limited on this system"};
  uint64_t wanted = *now + std::min(bytes, uint64_t(1) << 60);
  limit.rlim_cur = std::min<rlim_t>(wanted, limit.rlim_max);
  if (::setrlimit(RLIMIT_DATA, &limit) != 0)
    return Error{ErrorCode::Unsupported,
                 std::string("the memory of the worker cannot be limited: ") + std::strerror(errno)};
  return Status::ok();
}

/// The rows of a model as the host can find them: in files that are sent along. Rows that lie in no mapped file are
/// written to one in memory.
Status packRows(const WeightTable &weights, std::vector<std::unique_ptr<data::WorkerRowT>> &rows,
                std::vector<Descriptor> &files) {
  std::map<const FileMapping *, uint32_t> known;
  Descriptor memory;
  uint64_t written = 0;
  uint32_t memoryIndex = 0;
  for (const auto &[name, row] : weights.rows()) {
    auto packed = std::make_unique<data::WorkerRowT>();
    packed->name = name;
    packed->type = row.type;
    packed->shape = row.shape;
    packed->bytes = row.bytes.size();
    const FileMapping *mapping = row.mapped ? mappingOf(row.owner) : nullptr;
    if (row.bytes.empty()) {
      // Nothing to find.
    } else if (mapping) {
      auto [entry, isNew] = known.try_emplace(mapping, static_cast<uint32_t>(files.size()));
      if (isNew) {
        Result<OpenFile> open = reopen(*mapping);
        if (!open)
          return open.takeError();
        files.push_back(std::move(open->file));
      }
      packed->file = entry->second;
      packed->offset = static_cast<uint64_t>(row.bytes.data() - mapping->bytes.data());
    } else {
      if (!memory) {
        Result<Descriptor> made = memoryFile("rlx-weights");
        if (!made)
          return made.takeError();
        memory = std::move(*made);
        memoryIndex = static_cast<uint32_t>(files.size());
        files.emplace_back(::fcntl(memory.get(), F_DUPFD_CLOEXEC, 0));
      }
      written = (written + 63) / 64 * 64;
      packed->file = memoryIndex;
      packed->offset = written;
      if (::lseek(memory.get(), static_cast<off_t>(written), SEEK_SET) < 0)
        return Error{ErrorCode::Io, std::string("weights in memory: ") + std::strerror(errno)};
      if (Status status = writeAll(memory, "weights in memory", row.bytes); !status)
        return status;
      written += row.bytes.size();
    }
    rows.push_back(std::move(packed));
  }
  if (memory && ::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) != 0)
    return Error{ErrorCode::Io, std::string("weights in memory: ") + std::strerror(errno)};
  return Status::ok();
}

/// What a worker knows.
class Service {
public:
  /// `folder`: the host's, where it came along.
  Answer answer(const data::WorkerRequest &request, Descriptor folder);

private:
  using Bodies = data::WorkerReplyBodyUnion;
  Status hello(const data::WorkerHello &request, Bodies &reply);
  Status load(const data::WorkerLoad &request, Descriptor folder, Answer &reply);
  Status loadModule(const data::WorkerLoadModule &request, Answer &reply);
  Status open(const data::WorkerOpen &request, Bodies &reply);
  Status specialize(const data::WorkerSpecialize &request, Bodies &reply);
  Status compile(const data::WorkerCompile &request, Bodies &reply);
  Status keep(uint64_t number, Result<PreparedModel> prepared, Answer &reply);

  std::shared_ptr<ThreadPool> pool;
  std::map<uint64_t, std::shared_ptr<ModelCompiler>> models;
};

std::string text(const flatbuffers::String *string) { return string ? string->str() : std::string(); }
Error malformed() { return {ErrorCode::Internal, "a request that is not well formed"}; }

Answer Service::answer(const data::WorkerRequest &request, Descriptor folder) {
  Answer reply;
  reply.message.number = request.number();
  if (request.forget())
    for (uint64_t number : *request.forget())
      models.erase(number);
  Status status = malformed();
  if (const auto *body = request.body_as_WorkerHello())
    status = hello(*body, reply.message.body);
  else if (!pool)
    ;
  else if (const auto *body = request.body_as_WorkerLoad())
    status = load(*body, std::move(folder), reply);
  else if (const auto *body = request.body_as_WorkerLoadModule())
    status = loadModule(*body, reply);
  else if (const auto *body = request.body_as_WorkerOpen())
    status = open(*body, reply.message.body);
  else if (const auto *body = request.body_as_WorkerSpecialize())
    status = specialize(*body, reply.message.body);
  else if (const auto *body = request.body_as_WorkerCompile())
    status = compile(*body, reply.message.body);
  if (!status) {
    data::WorkerRefusedT refused;
    refused.error = packError(status.error());
    reply.message.body.Set(std::move(refused));
    reply.files.clear();
  }
  return reply;
}

Status Service::hello(const data::WorkerHello &request, Bodies &reply) {
  // What the system gives, down to the one thread there is.
  for (unsigned count = std::clamp(request.threads(), 1u, kMaxThreads); !pool; --count)
    if (Result<std::shared_ptr<ThreadPool>> made = ThreadPool::create(count))
      pool = std::move(*made);
  data::WorkerWelcomeT welcome;
  welcome.build = RLX_BUILD_ID;
  welcome.target = kernelTarget();
  if (request.memory_bytes())
    if (Status status = limitMemory(request.memory_bytes()); !status)
      return status;
  reply.Set(std::move(welcome));
  return Status::ok();
}

Status Service::keep(uint64_t number, Result<PreparedModel> prepared, Answer &reply) {
  if (!prepared)
    return prepared.takeError();
  data::WorkerLoadedT loaded;
  if (prepared->weights)
    if (Status status = packRows(*prepared->weights, loaded.weights, reply.files); !status)
      return status;
  loaded.signature = std::make_unique<data::ModelSignatureT>(std::move(prepared->signature));
  const std::string &bytes = prepared->compiler->prepared();
  loaded.prepared.assign(bytes.begin(), bytes.end());
  loaded.warnings = std::move(prepared->warnings);
  loaded.times = packTimes(prepared->times);
  models[number] = std::move(prepared->compiler);
  reply.message.body.Set(std::move(loaded));
  return Status::ok();
}

Status Service::load(const data::WorkerLoad &request, Descriptor folder, Answer &reply) {
  std::string path = text(request.path());
  if (folder) {
    if (::fchdir(folder.get()) != 0)
      return Error{ErrorCode::Io, "cannot open '" + path + "': the working folder: " + std::strerror(errno)};
  } else if (!path.starts_with('/')) {
    return Error{ErrorCode::Io, "cannot open '" + path + "': there is no working folder"};
  }
  LoadOptions options;
  options.weightsFile = text(request.weights_file());
  options.dynamicInputs = request.dynamic_inputs();
  return keep(request.model(), prepareFile(path, options), reply);
}

Status Service::loadModule(const data::WorkerLoadModule &request, Answer &reply) {
  std::map<std::string, WeightRow, std::less<>> rows;
  if (request.weights())
    for (const data::WorkerRow *each : *request.weights()) {
      WeightRow row{each->type(), {}, {}, nullptr};
      if (each->shape())
        row.shape.assign(each->shape()->begin(), each->shape()->end());
      rows.emplace(text(each->name()), std::move(row));
    }
  auto find = [&](llvm::StringRef name) -> const WeightRow * {
    auto row = rows.find(std::string_view(name));
    return row == rows.end() ? nullptr : &row->second;
  };
  std::string_view module = request.text() ? request.text()->string_view() : std::string_view();
  return keep(request.model(), prepareModule(module, find, {}), reply);
}

Status Service::open(const data::WorkerOpen &request, Bodies &reply) {
  if (!request.prepared())
    return malformed();
  models[request.model()] = ModelCompiler::open({request.prepared()->begin(), request.prepared()->end()});
  reply.Set(data::WorkerOpenedT());
  return Status::ok();
}

Status Service::specialize(const data::WorkerSpecialize &request, Bodies &reply) {
  auto model = models.find(request.model());
  if (model == models.end())
    return Error{ErrorCode::Internal, "a model that this worker does not know"};
  Binding binding;
  if (request.binding())
    for (const data::WorkerSize *each : *request.binding())
      binding[text(each->dim())] = each->size();
  Result<SpecializeReply> made = model->second->specialize(binding);
  if (!made)
    return made.takeError();
  data::WorkerSpecializedT specialized;
  specialized.plan = std::move(made->plan);
  if (made->error)
    specialized.error = packError(*made->error);
  specialized.times = packTimes(made->times);
  reply.Set(std::move(specialized));
  return Status::ok();
}

Status Service::compile(const data::WorkerCompile &request, Bodies &reply) {
  std::vector<data::KernelSpecT> specs;
  if (request.specs())
    for (const data::KernelSpec *each : *request.specs()) {
      specs.emplace_back();
      each->UnPackTo(&specs.back());
    }
  PhaseTimes times;
  Result<std::vector<data::KernelImageT>> images = compileKernelBatch(specs, *pool, times, {});
  if (!images)
    return images.takeError();
  data::WorkerCompiledT compiled;
  for (data::KernelImageT &image : *images)
    compiled.images.push_back(std::make_unique<data::KernelImageT>(std::move(image)));
  compiled.times = packTimes(times);
  reply.Set(std::move(compiled));
  return Status::ok();
}
} // namespace

int serveRequests(int socket) {
  // The files of a model with much external data are open at the same time.
  struct rlimit files;
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    (void)::setrlimit(RLIMIT_NOFILE, &files);
  }
  WorkerChannel channel{Descriptor(socket)};
  Service service;
  std::vector<uint8_t> bytes;
  while (true) {
    Descriptor folder;
    auto takeFolder = [&](Descriptor came) -> std::optional<std::string> {
      folder = std::move(came);
      return std::nullopt;
    };
    if (auto error = channel.receive(bytes, 1, takeFolder, std::nullopt))
      return error->kind == ChannelFailure::Closed ? 0 : 1;
    const auto *request = readMessage<data::WorkerRequest>(bytes);
    if (!request)
      return 1;
    Answer answer = service.answer(*request, std::move(folder));
    flatbuffers::FlatBufferBuilder builder;
    builder.Finish(data::CreateWorkerReply(builder, &answer.message));
    if (channel.send({builder.GetBufferPointer(), builder.GetSize()}, answer.files, std::nullopt))
      return 1;
  }
}

} // namespace rlx::compiler
