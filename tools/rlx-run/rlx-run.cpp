//===- rlx-run.cpp - runs a model on inputs from files --------------------===//
//
// Flags and printing only: the work is done by Compiler (loading), Runtime
// (running) and Tools (files, comparing).
//
//===----------------------------------------------------------------------===//
#include "rlx/Compiler/Load.h"
#include "rlx/Runtime/Engine.h"
#include "rlx/Runtime/Executable.h"
#include "rlx/Runtime/Model.h"
#include "rlx/Tools/CommandLine.h"
#include "rlx/Tools/Compare.h"
#include "rlx/Tools/DataSet.h"
#include "rlx/Tools/Elements.h"
#include "rlx/Tools/Files.h"
#include "rlx/Tools/Npy.h"
#include "rlx/Tools/Table.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fmt/format.h>
#include <limits>
#include <nlohmann/json.hpp>

using namespace rlx;
using namespace rlx::tools;
using Json = nlohmann::ordered_json;

namespace {

struct Flags {
  std::string model;
  std::vector<std::string> inputs, dataFolders, dims, params;
  std::string expect, outputFolder, dumpFolder, until, weights, compiler = "process";
  std::optional<uint64_t> randomSeed;
  int64_t randomMax = 2;
  Tolerance tolerance;
  int64_t repeat = 1;
  int threads = 0;
  std::optional<uint64_t> seed;
  bool json = false, stats = false, explain = false, list = false, profile = false;
};

void declareFlags(CLI::App &app, Flags &flags) {
  app.add_option("model", flags.model, "A .onnx or .mlir file")->required()->type_name("MODEL");
  app.add_flag("--list", flags.list, "Print the model's inputs, outputs, dims and params, and end");
  app.add_option("--input", flags.inputs, "An input from a file; repeatable")
      ->type_name("NAME=FILE.npy|pb")
      ->allow_extra_args(false);
  app.add_option("--data", flags.dataFolders,
                 "A folder of inputs: NAME.npy, NAME.pb or input_N.pb. Repeatable: one run each, in order, on one "
                 "executable")
      ->type_name("DIR")
      ->allow_extra_args(false);
  app.add_option("--random", flags.randomSeed,
                 "Make the inputs that no file gives: floats in [-1, 1), integers in [0, --random-max)")
      ->type_name("SEED")
      ->check(checkSeed);
  app.add_option("--random-max", flags.randomMax, "Limit of random integers")
      ->type_name("N")
      ->capture_default_str()
      ->check(CLI::Range(int64_t(1), std::numeric_limits<int64_t>::max()));
  app.add_option("--dim", flags.dims, "Size of a named dim; those not given are found from the inputs; repeatable")
      ->type_name("NAME=SIZE")
      ->allow_extra_args(false);
  app.add_option("--param", flags.params, "Value of a param; repeatable")
      ->type_name("NAME=FILE.npy|pb")
      ->allow_extra_args(false);
  app.add_option("--weights", flags.weights, "The .safetensors file of a .mlir model, when it is not beside it")
      ->type_name("FILE")
      ->check(checkPath);
  app.add_option("--seed", flags.seed, "Seed of random ops in the model (default 42)")
      ->type_name("SEED")
      ->check(checkSeed);
  app.add_option("--expect", flags.expect,
                 "Compare with the outputs in this folder: N.npy, output_N.pb, NAME.npy or NAME.pb; with several runs "
                 "DIR/0, DIR/1, ... A difference gives exit code 1")
      ->type_name("DIR")
      ->check(checkPath);
  app.add_option("--rtol", flags.tolerance.relative, "Relative tolerance of --expect")
      ->type_name("X")
      ->capture_default_str()
      ->check(checkTolerance);
  app.add_option("--atol", flags.tolerance.absolute, "Absolute tolerance of --expect")
      ->type_name("X")
      ->capture_default_str()
      ->check(checkTolerance);
  app.add_option(
         "--output-dir", flags.outputFolder,
         "Write the outputs as 0.npy, 1.npy, ... in the graph's order; with several runs into DIR/0, DIR/1, ... bf16, "
         "which numpy does not have, is written as float32; --expect reads it so")
      ->type_name("DIR")
      ->check(checkPath);
  app.add_option("--repeat", flags.repeat, "Run each data set N times")
      ->type_name("N")
      ->capture_default_str()
      ->check(CLI::Range(int64_t(1), int64_t(1000000)));
  app.add_option("--threads", flags.threads,
                 "Threads of a run and of compiling, 256 at most; 0: one per core this process may use")
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--compiler", flags.compiler,
                 "Where compiling happens: in this process, or in a worker process, which this one survives")
      ->type_name("process|worker")
      ->capture_default_str()
      ->check(CLI::IsMember({"process", "worker"}));
  app.add_flag("--json", flags.json, "Print one JSON document instead of text");
  app.add_flag("--stats", flags.stats, "Print what was compiled, instantiated and hit, by binding");
  app.add_flag("--profile", flags.profile, "Print where the time of the runs goes, by step");
  app.add_flag("--explain", flags.explain, "Say after each run that missed why it missed");
  app.add_option("--dump-dir", flags.dumpFolder, "Write the IR after each stage into this folder")
      ->type_name("DIR")
      ->check(checkPath);
  app.add_option("--until", flags.until, "Stop after this stage and run nothing")
      ->type_name("STAGE")
      ->check(CLI::IsMember(compiler::stageNames()));
  app.footer("Examples:\n"
             "  rlx-run model.onnx --list\n"
             "  rlx-run model.onnx --random 1 --dim batch=2 --dim seq=16\n"
             "  rlx-run model.onnx --data a --data b --expect wanted --atol 1e-4 --stats\n"
             "  rlx-run model.onnx --input ids=ids.npy --output-dir out\n"
             "Exit code: 0, or 1 after one line that says what is wrong.");
}

/// What one data set's runs gave.
struct Run {
  std::string folder;
  RunReport first;
  BindingInfo made; ///< of the specialization, when `first` missed
  std::vector<double> runMs;
  std::optional<std::vector<StepTime>> steps; ///< --profile: medians over the runs but the first, slowest first
  std::vector<Tensor> outputs;
  std::vector<Comparison> comparisons;
  std::string explanation;
};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  size_t half = values.size() / 2;
  return values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
}

std::string bindingText(const Binding &binding) {
  std::vector<std::string> parts;
  for (const auto &[name, size] : binding)
    parts.push_back(fmt::format("{}={}", name, size));
  return parts.empty() ? "(no dims)" : fmt::format("{}", fmt::join(parts, " "));
}

std::string typedShape(data::ElementType type, std::span<const std::string> shape) {
  return fmt::format("{}[{}]", elementTypeName(type), fmt::join(shape, ", "));
}

//===----------------------------------------------------------------------===//
// --list
//===----------------------------------------------------------------------===//

Json dimJson(const data::DimT &dim) {
  Json json{{"name", dim.name}, {"min", dim.min}};
  if (dim.max != std::numeric_limits<int64_t>::max())
    json["max"] = dim.max;
  if (dim.multiple != 1)
    json["multiple"] = dim.multiple;
  if (!dim.likely.empty())
    json["likely"] = dim.likely;
  return json;
}

void printList(const data::ModelSignatureT &signature, bool asJson) {
  const std::pair<const char *, const std::vector<std::unique_ptr<data::TensorSpecT>> *> groups[] = {
      {"input", &signature.inputs}, {"output", &signature.outputs}, {"param", &signature.params}};
  if (asJson) {
    Json document{{"name", signature.name}, {"dims", Json::array()}};
    for (const auto &dim : signature.dims)
      document["dims"].push_back(dimJson(*dim));
    for (const auto &[kind, specs] : groups) {
      Json &list = document[std::string(kind) + "s"] = Json::array();
      for (const auto &spec : *specs)
        list.push_back({{"name", spec->name}, {"type", elementTypeName(spec->type)}, {"shape", spec->shape}});
    }
    document["constraints"] = Json::array();
    for (const auto &constraint : signature.constraints)
      document["constraints"].push_back(constraint->message);
    fmt::print("{}\n", document.dump(2, ' ', false, Json::error_handler_t::replace));
    return;
  }
  for (const auto &[kind, specs] : groups)
    for (const auto &spec : *specs)
      fmt::print("{} {} {}\n", kind, spec->name, typedShape(spec->type, spec->shape));
  for (const auto &dim : signature.dims) {
    fmt::print("dim {} min {}", dim->name, dim->min);
    if (dim->max != std::numeric_limits<int64_t>::max())
      fmt::print(" max {}", dim->max);
    if (dim->multiple != 1)
      fmt::print(" multiple {}", dim->multiple);
    if (!dim->likely.empty())
      fmt::print(" likely {}", fmt::join(dim->likely, ","));
    fmt::print("\n");
  }
  for (const auto &constraint : signature.constraints)
    fmt::print("constraint {}\n", constraint->message);
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

Json bindingJson(const Binding &binding) {
  Json json = Json::object();
  for (const auto &[name, size] : binding)
    json[name] = size;
  return json;
}

Json timesJson(const PhaseTimes &times) {
  Json json = Json::object();
  for (const auto &[phase, ms] : times)
    json[phase] = ms;
  return json;
}

Json runJson(const Run &run, const data::ModelSignatureT &signature) {
  Json json;
  if (!run.folder.empty())
    json["data"] = run.folder;
  json["binding"] = bindingJson(run.first.binding);
  json["specialization"] = originName(run.first.origin);
  json["compile_ms"] = run.first.specializeMs;
  json["kernels_compiled"] = run.made.kernelsCompiled;
  json["kernels_reused"] = run.made.kernelsReused;
  json["run_ms"] = run.runMs;
  if (!run.explanation.empty())
    json["explanation"] = run.explanation;
  if (run.steps) {
    json["profile"] = Json::array();
    for (const StepTime &step : *run.steps)
      json["profile"].push_back({{"node", step.node},
                                 {"family", data::EnumNameFamily(step.family)},
                                 {"extents", step.extents},
                                 {"ms", step.ms},
                                 {"threads", step.threads}});
  }
  json["outputs"] = Json::array();
  for (size_t i = 0; i < run.outputs.size(); ++i) {
    Json output{{"name", signature.outputs[i]->name},
                {"type", elementTypeName(run.outputs[i].type())},
                {"shape", run.outputs[i].shape()}};
    if (i < run.comparisons.size()) {
      const Comparison &comparison = run.comparisons[i];
      output["passed"] = comparison.passed;
      // JSON has no infinity.
      output["largest_difference"] = std::isfinite(comparison.largest) ? Json(comparison.largest) : Json("inf");
      if (!comparison.passed)
        output["reason"] = comparison.reason;
    }
    json["outputs"].push_back(std::move(output));
  }
  return json;
}

Json statsJson(const Executable &executable, const PhaseTimes &load) {
  Statistics all = executable.stats();
  Json json{{"threads", executable.engine()->threads()},
            {"hits", all.hits},
            {"misses", all.misses},
            {"evictions", all.evictions},
            {"failures", all.failures},
            {"templates_made", all.templatesMade},
            {"templates_reused", all.templatesReused},
            {"kernels_compiled", all.kernelsCompiled},
            {"kernels_reused", all.kernelsReused},
            {"code_bytes", all.codeBytes},
            {"load_ms_by_phase", timesJson(load)},
            {"ms_by_phase", timesJson(all.times)},
            {"bindings", Json::array()}};
  for (const BindingInfo &info : executable.bindings())
    json["bindings"].push_back({{"binding", bindingJson(info.binding)},
                                {"origin", originName(info.origin)},
                                {"guards_failed", info.guardsFailed},
                                {"kernels_compiled", info.kernelsCompiled},
                                {"kernels_reused", info.kernelsReused},
                                {"ms_by_phase", timesJson(info.times)},
                                {"hits", info.hits},
                                {"steps", info.steps},
                                {"arena_bytes", info.arenaBytes}});
  return json;
}

void printStats(const Executable &executable, const PhaseTimes &load) {
  Statistics all = executable.stats();
  std::vector<BindingInfo> bindings = executable.bindings();
  // One column per phase that any binding went through, in the order of the sums.
  std::vector<std::string> heading{"binding", "origin", "compiled", "reused", "hits", "steps", "arena KiB"};
  for (const auto &[phase, ms] : all.times)
    heading.push_back(phase + " ms");
  Table table(heading);
  for (const BindingInfo &info : bindings) {
    std::vector<std::string> row{bindingText(info.binding),
                                 originName(info.origin),
                                 fmt::to_string(info.kernelsCompiled),
                                 fmt::to_string(info.kernelsReused),
                                 fmt::to_string(info.hits),
                                 fmt::to_string(info.steps),
                                 fmt::format("{:.1f}", static_cast<double>(info.arenaBytes) / 1024)};
    for (const auto &[phase, sum] : all.times) {
      auto found = std::ranges::find(info.times, phase, [](const auto &entry) { return entry.first; });
      row.push_back(found == info.times.end() ? "-" : fmt::format("{:.2f}", found->second));
    }
    table.add(std::move(row));
  }
  fmt::print("\n{}", table.text());
  fmt::print("load:");
  for (const auto &[phase, ms] : load)
    fmt::print(" {} {:.2f} ms", phase, ms);
  fmt::print("\n");
  for (const BindingInfo &info : bindings)
    for (const std::string &guard : info.guardsFailed)
      fmt::print("guard failed for {}: {}\n", bindingText(info.binding), guard);
  fmt::print(
      "threads {}; hits {}, misses {}, evictions {}, failures {}; templates made {}, reused {}; kernels compiled {}, "
      "reused {}; code {} bytes\n",
      executable.engine()->threads(), all.hits, all.misses, all.evictions, all.failures, all.templatesMade,
      all.templatesReused, all.kernelsCompiled, all.kernelsReused, all.codeBytes);
}

void printProfile(std::span<const StepTime> steps) {
  if (steps.empty()) {
    fmt::print("no steps: no output has to be computed\n");
    return;
  }
  double sum = 0;
  for (const StepTime &step : steps)
    sum += step.ms;
  Table table({"ms", "share", "threads", "family", "extents", "node"});
  for (const StepTime &step : steps)
    table.add({fmt::format("{:.4f}", step.ms), fmt::format("{:.1f}%", sum > 0 ? 100 * step.ms / sum : 0),
               fmt::to_string(step.threads), data::EnumNameFamily(step.family), shapeString(step.extents), step.node});
  fmt::print("{}{} steps, {:.4f} ms\n", table.text(), steps.size(), sum);
}

void printRun(const Run &run, const data::ModelSignatureT &signature) {
  if (!run.folder.empty())
    fmt::print("{}: ", run.folder);
  fmt::print("{}  {}", bindingText(run.first.binding), originName(run.first.origin));
  if (run.first.origin != Origin::Hit)
    fmt::print(", compile {:.2f} ms, kernels compiled {}, reused {}", run.first.specializeMs, run.made.kernelsCompiled,
               run.made.kernelsReused);
  if (run.runMs.size() == 1)
    fmt::print(", run {:.3f} ms\n", run.runMs.front());
  else
    fmt::print(", {} runs, median {:.3f} ms, fastest {:.3f} ms\n", run.runMs.size(), median(run.runMs),
               std::ranges::min(run.runMs));
  if (!run.explanation.empty())
    fmt::print("{}{}", run.explanation, run.explanation.ends_with('\n') ? "" : "\n");
  for (size_t i = 0; i < run.outputs.size(); ++i) {
    const Tensor &tensor = run.outputs[i];
    constexpr int64_t kShown = 6;
    std::vector<std::string> values;
    for (int64_t e = 0; e < std::min(tensor.elements(), kShown); ++e)
      values.push_back(elementText(tensor.type(), tensor.data(), e));
    if (tensor.elements() > kShown)
      values.push_back("...");
    fmt::print("  {} {}{}: {}", signature.outputs[i]->name, elementTypeName(tensor.type()), shapeString(tensor.shape()),
               fmt::join(values, " "));
    if (i < run.comparisons.size())
      fmt::print("  ({}; largest difference {:.3g})", run.comparisons[i].passed ? "as expected" : "NOT as expected",
                 run.comparisons[i].largest);
    fmt::print("\n");
  }
  if (run.steps)
    printProfile(*run.steps);
}

//===----------------------------------------------------------------------===//
// Inputs from flags
//===----------------------------------------------------------------------===//

std::vector<std::string> namesOf(const std::vector<std::unique_ptr<data::TensorSpecT>> &specs) {
  std::vector<std::string> names;
  for (const auto &spec : specs)
    names.push_back(spec->name);
  return names;
}

Result<Binding> parseDims(const Flags &flags, const data::ModelSignatureT &signature) {
  std::vector<std::string> names;
  for (const auto &dim : signature.dims)
    names.push_back(dim->name);
  Binding binding;
  for (const std::string &text : flags.dims) {
    auto pair = splitAssignment(text, names);
    if (!pair)
      return Error{pair.error().code, "--dim " + pair.error().message};
    const auto &[name, value] = *pair;
    if (std::ranges::find(names, name) == names.end())
      return Error{ErrorCode::InvalidArgument,
                   fmt::format("--dim {}: the model has no dim '{}' (it has {})", text, name,
                               names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")))};
    int64_t size = 0;
    auto [end, failure] = std::from_chars(value.data(), value.data() + value.size(), size);
    if (failure != std::errc() || end != value.data() + value.size() || size < 0)
      return Error{ErrorCode::InvalidArgument, fmt::format("--dim {}: '{}' is no size", text, value)};
    if (!binding.emplace(name, size).second)
      return Error{ErrorCode::InvalidArgument, fmt::format("--dim {}: '{}' is given twice", text, name)};
  }
  return binding;
}

/// The data sets to run: one per --data, else one; --input and --random join each.
Result<std::vector<DataSet>> collectInputs(const Flags &flags, const Model &model, const Binding &binding) {
  std::vector<std::string> names = namesOf(model.signature().inputs);
  std::vector<DataSet> sets(std::max<size_t>(flags.dataFolders.size(), 1));
  for (size_t i = 0; i < sets.size(); ++i) {
    if (i < flags.dataFolders.size())
      if (Status status = readInputFolder(flags.dataFolders[i], model, sets[i]); !status)
        return status.takeError();
    for (const std::string &text : flags.inputs) {
      auto pair = splitAssignment(text, names);
      if (!pair)
        return Error{pair.error().code, "--input " + pair.error().message};
      if (std::ranges::find(names, pair->first) == names.end())
        return Error{ErrorCode::InvalidArgument,
                     fmt::format("--input {}: the model has no input '{}' (it has {})", text, pair->first,
                                 names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")))};
      Result<Tensor> tensor = readTensor(pair->second);
      if (!tensor)
        return tensor.takeError();
      if (Status status = sets[i].add(pair->first, *std::move(tensor)); !status)
        return status.takeError();
    }
    if (flags.randomSeed)
      if (Status status = addRandomInputs(model, binding, {*flags.randomSeed, flags.randomMax}, sets[i]); !status)
        return status.takeError();
  }
  return sets;
}

/// A param is set by its elements; a file says their shape too. Sizes with a name are checked by the runs.
Status checkParamShape(const Model &model, const std::string &name, const Tensor &tensor) {
  std::optional<size_t> position = model.findParam(name);
  if (!position)
    return Status::ok(); // setting it will say so
  const std::vector<DimExpr> &shape = model.paramShapes()[*position];
  bool fits = std::ranges::equal(
      shape, tensor.shape(), [](const DimExpr &dim, int64_t size) { return dim.constant().value_or(size) == size; });
  if (fits)
    return Status::ok();
  return Error{ErrorCode::InvalidArgument,
               fmt::format("param '{}' has shape [{}], the file has {}", name,
                           fmt::join(model.signature().params[*position]->shape, ","), shapeString(tensor.shape()))};
}

Status setParams(const Flags &flags, Executable &executable) {
  std::vector<std::string> names = namesOf(executable.model()->signature().params);
  for (const std::string &text : flags.params) {
    auto pair = splitAssignment(text, names);
    if (!pair)
      return Error{pair.error().code, "--param " + pair.error().message};
    Result<Tensor> tensor = readTensor(pair->second);
    if (!tensor)
      return tensor.takeError();
    if (Status status = checkParamShape(*executable.model(), pair->first, *tensor); !status)
      return Error{status.error().code, fmt::format("--param {}: {}", text, status.error().message)};
    auto *data = static_cast<const std::byte *>(tensor->data());
    if (Status status = executable.setParamTyped(pair->first, {data, tensor->bytes()}, tensor->type()); !status)
      return Error{status.error().code, fmt::format("--param {}: {}", text, status.error().message)};
  }
  return Status::ok();
}

/// DIR, or DIR/i when there are several runs.
std::string folderOf(const std::string &folder, size_t index, size_t runs) {
  return runs == 1 ? folder : fmt::format("{}/{}", folder, index);
}

/// Runs whose times by step are kept: enough for a median, whatever --repeat says.
constexpr size_t kProfiles = 256;

/// Medians by step, slowest first. Every run has the same steps; the first is left out where there are more, because
/// it meets cold memory.
std::vector<StepTime> summarize(const std::vector<std::vector<StepTime>> &profiles) {
  std::vector<StepTime> steps = profiles.front();
  std::span measured = std::span(profiles).subspan(profiles.size() > 1 ? 1 : 0);
  for (size_t i = 0; i < steps.size(); ++i) {
    std::vector<double> ms;
    for (const std::vector<StepTime> &profile : measured) {
      ms.push_back(profile[i].ms);
      steps[i].threads = std::max(steps[i].threads, profile[i].threads);
    }
    steps[i].ms = median(std::move(ms));
  }
  std::ranges::sort(steps, std::greater(), &StepTime::ms);
  return steps;
}

Result<Run> runDataSet(const Flags &flags, Executable &executable, const DataSet &set, const Binding &binding) {
  Run run;
  std::vector<NamedTensor> inputs = set.view();
  std::vector<std::vector<StepTime>> profiles;
  for (int64_t i = 0; i < flags.repeat; ++i) {
    RunReport report;
    RunOptions options;
    options.binding = binding;
    options.report = &report;
    // The first, and the latest after it.
    size_t slot = i == 0 ? 0 : 1 + static_cast<size_t>(i - 1) % kProfiles;
    if (flags.profile) {
      if (slot == profiles.size())
        profiles.emplace_back();
      profiles[slot].clear();
      options.profile = &profiles[slot];
    }
    Result<std::vector<Tensor>> outputs = executable.run(inputs, options);
    if (!outputs)
      return outputs.takeError();
    run.runMs.push_back(report.runMs);
    if (i != 0)
      continue;
    run.first = report;
    run.outputs = *std::move(outputs);
    if (report.origin == Origin::Hit)
      continue;
    for (const BindingInfo &info : executable.bindings())
      if (info.binding == report.binding)
        run.made = info;
    if (flags.explain)
      if (std::optional<MissReport> miss = executable.explain())
        run.explanation = miss->text();
  }
  if (flags.profile)
    run.steps = summarize(profiles);
  return run;
}

int runModel(const CLI::App &app, const Flags &flags) {
  EngineOptions engineOptions;
  engineOptions.threads = flags.threads;
  bool worker = flags.compiler == "worker";
  if (worker && !(flags.dumpFolder.empty() && flags.until.empty()))
    return fail(app, "--dump-dir and --until need the compiler in this process");
  if (worker)
    engineOptions.compiler = CompilerPlace::Worker;
  Result<std::shared_ptr<Engine>> engine = Engine::create(std::move(engineOptions));
  if (!engine)
    return fail(app, engine.error());
  if (!flags.dumpFolder.empty()) {
    std::error_code failure;
    if (!std::filesystem::exists(flags.model, failure))
      return fail(app, fmt::format("cannot open '{}': No such file or directory", flags.model));
    std::filesystem::create_directories(flags.dumpFolder, failure);
    if (failure)
      return fail(app, fmt::format("cannot make the folder '{}': {}", flags.dumpFolder, failure.message()));
  }
  compiler::LoadOptions load;
  load.weightsFile = flags.weights;
  load.dumpDir = flags.dumpFolder;
  load.until = flags.until;
  auto start = std::chrono::steady_clock::now();
  Result<LoadedModel> loaded = worker ? loadModel(**engine, flags.model, load) : compiler::loadModel(flags.model, load);
  if (!loaded)
    return fail(app, loaded.error());
  double loadMs = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  for (const std::string &warning : loaded->warnings)
    fmt::print(stderr, "{}: warning: {}\n", app.get_name(), warning);
  const Model &model = *loaded->model;
  if (flags.list || !flags.until.empty()) {
    if (!flags.until.empty() && !flags.json)
      fmt::print("stopped after stage {}\n", flags.until);
    printList(model.signature(), flags.json);
    return 0;
  }

  ExecutableOptions options;
  if (flags.seed)
    options.rng.seed = *flags.seed;
  Result<std::shared_ptr<Executable>> executable = Executable::create(*engine, loaded->model, options);
  if (!executable)
    return fail(app, executable.error());
  Result<Binding> binding = parseDims(flags, model.signature());
  if (!binding)
    return fail(app, binding.error());
  if (Status status = setParams(flags, **executable); !status)
    return fail(app, status.error());
  Result<std::vector<DataSet>> sets = collectInputs(flags, model, *binding);
  if (!sets)
    return fail(app, sets.error());
  std::vector<std::vector<Tensor>> expected;
  for (size_t i = 0; i < sets->size() && !flags.expect.empty(); ++i) {
    Result<std::vector<Tensor>> tensors = readExpectedFolder(folderOf(flags.expect, i, sets->size()), model);
    if (!tensors)
      return fail(app, tensors.error());
    expected.push_back(*std::move(tensors));
  }

  // Outputs are kept and written last, so that an error in a later data set leaves nothing behind.
  std::vector<Run> runs;
  std::string difference;
  for (size_t i = 0; i < sets->size(); ++i) {
    Result<Run> run = runDataSet(flags, **executable, (*sets)[i], *binding);
    if (!run) {
      std::string where = i < flags.dataFolders.size() ? "'" + flags.dataFolders[i] + "': " : "";
      return fail(app, where + run.error().message);
    }
    if (i < flags.dataFolders.size())
      run->folder = flags.dataFolders[i];
    for (size_t o = 0; i < expected.size() && o < expected[i].size(); ++o) {
      Comparison comparison = compareTensors(run->outputs[o].view(), expected[i][o].view(), flags.tolerance);
      if (!comparison.passed && difference.empty())
        difference = fmt::format("output '{}'{}: {}", model.signature().outputs[o]->name,
                                 run->folder.empty() ? "" : " of '" + run->folder + "'", comparison.reason);
      run->comparisons.push_back(std::move(comparison));
    }
    runs.push_back(*std::move(run));
  }
  for (size_t i = 0; i < runs.size() && !flags.outputFolder.empty(); ++i)
    for (size_t o = 0; o < runs[i].outputs.size(); ++o)
      if (Status status = writeFile(fmt::format("{}/{}.npy", folderOf(flags.outputFolder, i, runs.size()), o),
                                    encodeNpy(runs[i].outputs[o].view()));
          !status)
        return fail(app, status.error());

  if (flags.json) {
    Json document{
        {"model", flags.model}, {"threads", (*engine)->threads()}, {"load_ms", loadMs}, {"warnings", loaded->warnings}};
    document["runs"] = Json::array();
    for (const Run &run : runs)
      document["runs"].push_back(runJson(run, model.signature()));
    if (!flags.expect.empty())
      document["passed"] = difference.empty();
    if (flags.stats)
      document["statistics"] = statsJson(**executable, loaded->times);
    fmt::print("{}\n", document.dump(2, ' ', false, Json::error_handler_t::replace));
  } else {
    for (const Run &run : runs)
      printRun(run, model.signature());
    if (flags.stats)
      printStats(**executable, loaded->times);
  }
  return difference.empty() ? 0 : fail(app, difference);
}

} // namespace

int main(int argc, char **argv) {
  CLI::App app("Runs a model on inputs from files: finds the sizes of its named dims from them, compiles what is new, "
               "and reuses the rest.",
               "rlx-run");
  Flags flags;
  declareFlags(app, flags);
  if (std::optional<int> code = parseFlags(app, argc, argv))
    return *code;
  int code = guarded(app, [&] { return runModel(app, flags); });
  // A full disk or a closed pipe shows only now.
  if (std::fflush(stdout) != 0 || std::ferror(stdout))
    return fail(app, "the output could not be written");
  return code;
}
