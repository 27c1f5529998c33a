//===- worker.cpp - rlx in a process of its own ---------------------------===//
//
// The rlx side of the benchmarks that are driven from Python: one JSON request a
// line, one JSON answer a line. common/peer.py answers the same requests for the
// other engines.
//
//   {"do": "inputs", "folder": F}    takes NAME.npy files as inputs from now on
//   {"do": "write", "folder": F}     runs once; writes the outputs as 0.npy, 1.npy, ...
//   {"do": "run", "times": N}        runs; the milliseconds of each
//   {"do": "memory"}                 peak and present resident memory, KiB
// and of rlx alone:
//   {"do": "prepare", "binding": B}  makes the specialization of these sizes
//   {"do": "kernels", "binding": B}  compiles each kernel of these sizes by itself: its milliseconds by phase
//   {"do": "fresh", "kernels": K}    forgets templates and bindings; kernels too when K is true
//
//===----------------------------------------------------------------------===//
#include "Measure.h"

#include "rlx/Compiler/Load.h"
#include "rlx/Runtime/Engine.h"
#include "rlx/Runtime/Executable.h"
#include "rlx/Runtime/Instantiate.h"
#include "rlx/Runtime/Model.h"
#include "rlx/Runtime/ThreadPool.h"
#include "rlx/Tools/CommandLine.h"
#include "rlx/Tools/DataSet.h"
#include "rlx/Tools/Files.h"
#include "rlx/Tools/Npy.h"

#include <chrono>
#include <filesystem>
#include <fmt/format.h>
#include <iostream>
#include <nlohmann/json.hpp>

using namespace rlx;
using namespace rlx::tools;
using Json = nlohmann::ordered_json;

namespace {

struct Flags {
  std::string model, inputs;
  int threads = 1;
};

double millisecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

/// Every NAME.npy of a folder. (Inputs are read before the model is there: loading it is timed.)
Result<DataSet> readFolder(const std::string &folder) {
  DataSet data;
  std::error_code failure;
  for (const auto &entry : std::filesystem::directory_iterator(folder, failure)) {
    if (entry.path().extension() != ".npy")
      continue;
    Result<Tensor> tensor = readTensor(entry.path().string());
    if (!tensor)
      return tensor.takeError();
    if (Status status = data.add(entry.path().stem().string(), *std::move(tensor)); !status)
      return status.takeError();
  }
  if (failure)
    return Error{ErrorCode::Io, fmt::format("'{}': {}", folder, failure.message())};
  return data;
}

Binding bindingOf(const Json &request) {
  Binding binding;
  for (const auto &[name, size] : request.at("binding").items())
    binding[name] = size.get<int64_t>();
  return binding;
}

Json phasesJson(const PhaseTimes &times) {
  Json json = Json::object();
  for (const auto &[phase, ms] : times)
    json[phase] = json.value(phase, 0.0) + ms;
  return json;
}

/// A kernel in a few words: "Matmul I8, 6 rows and more: Mul Add Gelu".
std::string describe(const data::KernelSpecT &spec) {
  std::string text = data::EnumNameFamily(spec.family);
  if (spec.family == data::Family::Matmul)
    text += fmt::format(" {}{}, {} rows{}", data::EnumNameElementType(spec.b_type),
                        spec.b_layout == data::PackedLayout::Strided ? " as it lies" : "", spec.row_class,
                        spec.row_class == kMatmulFewRows ? " and fewer" : " and more");
  if (spec.family == data::Family::Rows)
    text += fmt::format(" {}", data::EnumNameRowsKind(spec.rows));
  if (spec.family == data::Family::Reduce)
    text += fmt::format(" {}", data::EnumNameReduceKind(spec.reduce));
  text += fmt::format(", {} loops", spec.rank);
  for (const auto *program : {&spec.program, &spec.epilogue})
    for (const data::Instr &instr : *program)
      text += fmt::format("{}{}", &instr == program->data() ? ": " : " ", data::EnumNameOpcode(instr.op()));
  return text;
}

class Worker {
public:
  Status load(const Flags &flags) {
    threads = flags.threads;
    if (Status status = freshEngine(); !status)
      return status;
    Result<compiler::LoadedModel> loaded = compiler::loadModel(flags.model);
    if (!loaded)
      return loaded.takeError();
    model = loaded->model;
    loadTimes = loaded->times;
    return fresh();
  }

  Status freshEngine() {
    EngineOptions options;
    options.threads = threads;
    options.cacheEntries = 4096; // a stream of sizes is counted, not its evictions
    Result<std::shared_ptr<Engine>> made = Engine::create(options);
    if (!made)
      return made.takeError();
    engine = *made;
    return Status::ok();
  }

  Status fresh() {
    Result<std::shared_ptr<Executable>> made = Executable::create(engine, model);
    if (!made)
      return made.takeError();
    executable = *made;
    return Status::ok();
  }

  Result<std::vector<Tensor>> run() { return executable->run(data.view()); }

  Result<Json> answer(const Json &request) {
    std::string what = request.value("do", "");
    if (what == "inputs") {
      Result<DataSet> read = readFolder(request.value("folder", ""));
      if (!read)
        return read.takeError();
      data = *std::move(read);
      return Json{{"ms", 0}};
    }
    if (what == "write") {
      std::string folder = request.value("folder", "");
      auto start = std::chrono::steady_clock::now();
      Result<std::vector<Tensor>> outputs = run();
      double ms = millisecondsSince(start);
      if (!outputs)
        return outputs.takeError();
      for (size_t i = 0; i < outputs->size(); ++i)
        if (Status status = writeFile(fmt::format("{}/{}.npy", folder, i), encodeNpy((*outputs)[i].view())); !status)
          return status.takeError();
      return Json{{"ms", ms}};
    }
    if (what == "run") {
      Json times = Json::array();
      std::vector<NamedTensor> inputs = data.view();
      for (int i = 0, count = request.value("times", 1); i < count; ++i) {
        auto start = std::chrono::steady_clock::now();
        Result<std::vector<Tensor>> outputs = executable->run(inputs);
        times.push_back(millisecondsSince(start));
        if (!outputs)
          return outputs.takeError();
      }
      return Json{{"ms", times}};
    }
    if (what == "memory")
      return Json{{"peak_kib", bench::processStatus("VmHWM:")}, {"resident_kib", bench::processStatus("VmRSS:")}};
    if (what == "prepare") {
      Binding binding = bindingOf(request);
      auto start = std::chrono::steady_clock::now();
      Status status = executable->prepare(binding);
      double ms = millisecondsSince(start);
      if (!status)
        return status.takeError();
      Json reply{{"ms", ms}};
      reply.update(statistics());
      return reply;
    }
    if (what == "kernels")
      return kernels(bindingOf(request));
    if (what == "statistics")
      return statistics();
    if (what == "fresh") {
      // Kernels go with their last user, so the one that is forgotten stays until the next is.
      forgotten = std::move(executable);
      if (request.value("kernels", false)) {
        forgotten.reset();
        if (Status status = freshEngine(); !status)
          return status.takeError();
      }
      if (Status status = fresh(); !status)
        return status.takeError();
      return Json::object();
    }
    return Error{ErrorCode::InvalidArgument, fmt::format("no request '{}'", what)};
  }

  /// The plan of these sizes as the compiler makes it, and its kernels one by one.
  Result<Json> kernels(const Binding &binding) {
    CompilerInterface &compiler = *model->compiler();
    auto start = std::chrono::steady_clock::now();
    Result<SpecializeReply> reply = compiler.specialize(binding);
    double templateMs = millisecondsSince(start);
    if (!reply)
      return reply.takeError();
    if (reply->error)
      return *reply->error;
    start = std::chrono::steady_clock::now();
    auto made = instantiate(std::move(reply->plan), *model, binding, compiler.target());
    double instantiateMs = millisecondsSince(start);
    if (!made)
      return made.takeError();
    Result<std::shared_ptr<ThreadPool>> pool = ThreadPool::create(1);
    if (!pool)
      return pool.takeError();
    Json list = Json::array();
    std::vector<size_t> uses((*made)->kernels.size());
    for (const StepInstance &step : (*made)->steps)
      ++uses[step.kernel];
    for (size_t i = 0; i < uses.size(); ++i) {
      PhaseTimes times;
      start = std::chrono::steady_clock::now();
      auto images = compiler.compileKernels({&(*made)->kernels[i]->spec, 1}, **pool, times);
      double ms = millisecondsSince(start);
      if (!images)
        return images.takeError();
      list.push_back({{"kernel", describe((*made)->kernels[i]->spec)},
                      {"steps", uses[i]},
                      {"ms", ms},
                      {"ms_by_phase", phasesJson(times)},
                      {"code_bytes", images->front().code.size()}});
    }
    return Json{{"template_ms", templateMs},
                {"template_ms_by_phase", phasesJson(reply->times)},
                {"instantiate_ms", instantiateMs},
                {"steps", (*made)->steps.size()},
                {"kernels", list}};
  }

  Json statistics() const {
    Statistics all = executable->stats();
    return Json{{"templates", all.templatesMade},
                {"instantiated", all.templatesReused},
                {"misses", all.misses},
                {"kernels_compiled", all.kernelsCompiled},
                {"kernels_held", engine->kernelCount()},
                {"code_bytes", all.codeBytes},
                {"ms_by_phase", phasesJson(all.times)}};
  }

  DataSet data;
  PhaseTimes loadTimes;

private:
  int threads = 1;
  std::shared_ptr<Engine> engine;
  std::shared_ptr<const Model> model;
  std::shared_ptr<Executable> executable, forgotten;
};

void say(const Json &answer) {
  fmt::print("{}\n", answer.dump(-1, ' ', false, Json::error_handler_t::replace));
  std::fflush(stdout);
}

int serve(const CLI::App &app, const Flags &flags) {
  Worker worker;
  if (!flags.inputs.empty()) {
    Result<DataSet> read = readFolder(flags.inputs);
    if (!read)
      return fail(app, read.error());
    worker.data = *std::move(read);
  }
  auto start = std::chrono::steady_clock::now();
  if (Status status = worker.load(flags); !status)
    return fail(app, status.error());
  Json ready{{"engine", "rlx"}, {"version", "of this checkout"}, {"load_ms", millisecondsSince(start)}};
  ready["load_ms_by_phase"] = phasesJson(worker.loadTimes);
  if (!flags.inputs.empty()) {
    Result<std::vector<Tensor>> outputs = worker.run();
    ready["first_answer_ms"] = millisecondsSince(start);
    if (!outputs)
      return fail(app, outputs.error());
  }
  say(ready);
  for (std::string line; std::getline(std::cin, line);) {
    Json request = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!request.is_object())
      return fail(app, "a request is no JSON object: " + line);
    Result<Json> answer = worker.answer(request);
    say(answer ? *answer : Json{{"error", answer.error().message}});
  }
  return 0;
}

} // namespace

int main(int argc, char **argv) {
  CLI::App app("Runs a model on request, for the benchmarks driven from Python.", "rlx-bench-worker");
  Flags flags;
  app.add_option("--model", flags.model, "A .onnx or .mlir file")->required()->type_name("FILE");
  app.add_option("--threads", flags.threads, "Threads of a run")->type_name("N")->check(CLI::Range(1, 1024));
  app.add_option("--first", flags.inputs,
                 "Run once as soon as the model is there, on the NAME.npy files of this folder")
      ->type_name("DIR");
  if (std::optional<int> code = parseFlags(app, argc, argv))
    return *code;
  return guarded(app, [&] { return serve(app, flags); });
}
