//===- WorkerCompiler.cpp - the compiler in other processes ---------------===//
#include "WorkerCompiler.h"

#include "WorkerPool.h"
#include "rlx/Runtime/Load.h"
#include "rlx/Runtime/Statistics.h"
#include "rlx/Runtime/WeightTable.h"

using namespace rlx;

namespace {
using TimeTables = flatbuffers::Vector<flatbuffers::Offset<data::WorkerTime>>;
void addTimes(PhaseTimes &times, const TimeTables *added) {
  if (added)
    for (const data::WorkerTime *each : *added)
      if (each->phase())
        addTime(times, each->phase()->str(), each->ms());
}

Error garbled(const std::string &what) {
  return {ErrorCode::CompilerFailed, "the compiler's worker answered without " + what};
}

/// The compiler of one model, for as long as the model lives.
class WorkerCompiler final : public CompilerInterface {
public:
  WorkerCompiler(std::shared_ptr<WorkerPool> pool, WorkerModel model, std::string name, std::string target)
      : pool(std::move(pool)), model(std::move(model)), name(std::move(name)), machine(std::move(target)) {}
  ~WorkerCompiler() override { pool->dropModel(model.number); }

  Result<SpecializeReply> specialize(const Binding &binding) override {
    data::WorkerSpecializeT request;
    request.model = model.number;
    for (const auto &[dim, size] : binding) {
      auto one = std::make_unique<data::WorkerSizeT>();
      one->dim = dim;
      one->size = size;
      request.binding.push_back(std::move(one));
    }
    WorkerCall call;
    call.body.Set(std::move(request));
    call.what = "making the plan of model '" + name + "' for " + bindingString(binding);
    call.model = &model;
    auto answer = pool->call<data::WorkerSpecialized>(std::move(call));
    if (!answer)
      return answer.takeError();
    SpecializeReply reply;
    if (!answer->body->plan())
      return garbled("a plan");
    reply.plan.reset(answer->body->plan()->UnPack());
    if (const data::WorkerError *error = answer->body->error())
      reply.error = std::make_unique<Error>(errorOf(*error));
    addTimes(reply.times, answer->body->times());
    return reply;
  }

  Result<std::vector<data::KernelImageT>> compileKernels(std::span<const data::KernelSpecT> specs, ThreadPool &,
                                                         PhaseTimes &times) override {
    data::WorkerCompileT request;
    for (const data::KernelSpecT &spec : specs)
      request.specs.push_back(std::make_unique<data::KernelSpecT>(spec));
    WorkerCall call;
    call.body.Set(std::move(request));
    call.what = "compiling " + std::to_string(specs.size()) + " kernels of model '" + name + "'";
    auto answer = pool->call<data::WorkerCompiled>(std::move(call));
    if (!answer)
      return answer.takeError();
    addTimes(times, answer->body->times());
    std::vector<data::KernelImageT> images;
    if (const auto *made = answer->body->images())
      for (const data::KernelImage *image : *made) {
        images.emplace_back();
        image->UnPackTo(&images.back());
      }
    return images; // the cache checks that each is of its spec, the loader what is in it
  }

  std::string target() const override { return machine; }

private:
  const std::shared_ptr<WorkerPool> pool;
  const WorkerModel model;
  const std::string name, machine;
};

class WorkerSource final : public CompilerSource {
public:
  WorkerSource(const WorkerOptions &options, unsigned threads) : pool(std::make_shared<WorkerPool>(options, threads)) {}

  Result<LoadedModel> loadModel(const std::string &path, const LoadOptions &options) override {
    data::WorkerLoadT request;
    request.model = pool->newModel();
    request.path = path;
    request.weights_file = options.weightsFile;
    request.dynamic_inputs = options.dynamicInputs;
    WorkerCall call;
    call.makesModel = request.model;
    call.body.Set(std::move(request));
    call.what = "loading '" + path + "'";
    call.withFolder = true;
    return load(std::move(call), "'" + path + "'", nullptr);
  }

  Result<LoadedModel> loadModule(std::string_view text, std::shared_ptr<WeightTable> weights,
                                 const LoadOptions &) override {
    if (text.size() > kMaxText)
      return Error{ErrorCode::Unsupported, "a module of " + std::to_string(text.size()) +
                                               " bytes is too long for a worker; its weights belong "
                                               "beside it"};
    data::WorkerLoadModuleT request;
    request.model = pool->newModel();
    request.text = text;
    if (!weights)
      weights = std::make_shared<WeightTable>();
    for (const auto &[name, row] : weights->rows()) {
      auto described = std::make_unique<data::WorkerRowT>();
      described->name = name;
      described->type = row.type;
      described->shape = row.shape;
      request.weights.push_back(std::move(described));
    }
    WorkerCall call;
    call.makesModel = request.model;
    call.body.Set(std::move(request));
    call.what = "loading a module";
    return load(std::move(call), "module", std::move(weights));
  }

private:
  /// A message has less than 2 GiB.
  static constexpr size_t kMaxText = size_t(1) << 30;

  /// `weights`: those that the host has; null where the worker found them.
  Result<LoadedModel> load(WorkerCall call, const std::string &name, std::shared_ptr<WeightTable> weights) {
    std::vector<MappedFile> files;
    if (!weights)
      call.sink = [&](Descriptor descriptor) { return mapTo(files, std::move(descriptor), name); };
    const uint64_t number = call.makesModel;
    auto answer = pool->call<data::WorkerLoaded>(std::move(call));
    if (!answer)
      return answer.takeError();
    const data::WorkerLoaded &body = *answer->body;
    if (!body.signature() || !body.prepared()) {
      pool->dropModel(number);
      return garbled("a model");
    }
    WorkerModel model{number, {body.prepared()->begin(), body.prepared()->end()}};
    std::unique_ptr<data::ModelSignatureT> signature(body.signature()->UnPack());
    // From here on it is the compiler that lets the worker forget the model.
    auto compiler = std::make_shared<WorkerCompiler>(pool, std::move(model), signature->name, pool->target());
    if (!weights) {
      Result<std::shared_ptr<WeightTable>> mapped = mapRows(body, files, name);
      if (!mapped)
        return mapped.takeError();
      weights = std::move(*mapped);
    }
    Result<std::shared_ptr<const Model>> made =
        Model::create(std::move(*signature), std::move(weights), std::move(compiler));
    if (!made)
      return made.takeError();
    LoadedModel loaded;
    loaded.model = std::move(*made);
    if (body.warnings())
      for (const flatbuffers::String *warning : *body.warnings())
        loaded.warnings.push_back(warning->str());
    addTimes(loaded.times, body.times());
    return loaded;
  }

  static std::optional<std::string> mapTo(std::vector<MappedFile> &files, Descriptor descriptor,
                                          const std::string &name) {
    Result<OpenFile> open = takeFile(std::move(descriptor), name);
    if (!open)
      return open.error().message;
    Result<MappedFile> mapped = mapFile(*open, name);
    if (!mapped)
      return mapped.error().message;
    files.push_back(std::move(*mapped));
    return std::nullopt;
  }

  static Result<std::shared_ptr<WeightTable>> mapRows(const data::WorkerLoaded &body,
                                                      const std::vector<MappedFile> &files, const std::string &name) {
    auto table = std::make_shared<WeightTable>();
    if (!body.weights())
      return table;
    for (const data::WorkerRow *each : *body.weights()) {
      WeightRow row;
      row.type = each->type();
      if (each->shape())
        row.shape.assign(each->shape()->begin(), each->shape()->end());
      if (each->bytes() != 0) {
        if (each->file() >= files.size())
          return garbled("the file of a weight");
        const MappedFile &file = files[each->file()];
        if (each->offset() > file.bytes.size() || each->bytes() > file.bytes.size() - each->offset())
          return Error{ErrorCode::Io, name + ": a file of its weights changed while it was read"};
        row.bytes = file.bytes.subspan(each->offset(), each->bytes());
        row.owner = file.owner;
        row.mapped = true;
      }
      if (Status status = table->add(each->name() ? each->name()->str() : "", std::move(row)); !status)
        return Error{status.error().code, name + ": " + status.error().message};
    }
    return table;
  }

  const std::shared_ptr<WorkerPool> pool;
};
} // namespace

std::shared_ptr<CompilerSource> rlx::makeWorkerSource(const WorkerOptions &options, unsigned threads) {
  return std::make_shared<WorkerSource>(options, threads);
}
