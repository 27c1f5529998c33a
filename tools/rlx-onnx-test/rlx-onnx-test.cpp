//===- rlx-onnx-test.cpp - runs ONNX test folders -------------------------===//
//
// Flags and printing only. One engine serves all folders; one loaded model and
// one executable serve all data sets of a folder.
//
//===----------------------------------------------------------------------===//
#include "rlx/Compiler/Load.h"
#include "rlx/Runtime/Engine.h"
#include "rlx/Runtime/Executable.h"
#include "rlx/Runtime/Model.h"
#include "rlx/Tools/CommandLine.h"
#include "rlx/Tools/Compare.h"
#include "rlx/Tools/DataSet.h"
#include "rlx/Tools/Files.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <set>

using namespace rlx;
using namespace rlx::tools;
namespace fs = std::filesystem;

namespace {

struct Flags {
  std::vector<std::string> folders;
  Tolerance tolerance;
  bool dynamic = false, verbose = false;
};

enum class Outcome { Passed, Failed, Skipped };

struct Verdict {
  Outcome outcome = Outcome::Passed;
  std::string reason;
};

Verdict failed(std::string reason) { return {Outcome::Failed, std::move(reason)}; }
/// What rlx says it cannot do is skipped, every other error is a failure.
Verdict verdictOf(const Error &error) {
  return {error.code == ErrorCode::Unsupported ? Outcome::Skipped : Outcome::Failed, error.message};
}

/// What a folder's meta.json says; all of it is optional.
struct Meta {
  std::optional<double> tolerance;
  std::set<int64_t> mustFail;
};

Result<Meta> readMeta(const std::string &path) {
  Meta meta;
  if (std::error_code failure; !fs::exists(path, failure))
    return meta;
  Result<std::vector<std::byte>> bytes = readFile(path);
  if (!bytes)
    return bytes.takeError();
  const char *begin = reinterpret_cast<const char *>(bytes->data());
  nlohmann::json json = nlohmann::json::parse(begin, begin + bytes->size(), nullptr, /*allow_exceptions=*/false);
  auto bad = [&](const char *what) { return Error{ErrorCode::InvalidArgument, fmt::format("'{}': {}", path, what)}; };
  if (!json.is_object())
    return bad("not a JSON object");
  if (auto atol = json.find("atol"); atol != json.end()) {
    if (!atol->is_number())
      return bad("'atol' is no number");
    meta.tolerance = atol->get<double>();
  }
  if (auto sets = json.find("must_fail"); sets != json.end()) {
    if (!sets->is_array())
      return bad("'must_fail' is no list");
    for (const nlohmann::json &set : *sets) {
      if (!set.is_number_integer())
        return bad("'must_fail' holds something else than numbers");
      meta.mustFail.insert(set.get<int64_t>());
    }
  }
  return meta;
}

/// The folders test_data_set_N, by N.
std::vector<std::pair<int64_t, std::string>> dataSets(const std::string &folder) {
  std::vector<std::pair<int64_t, std::string>> sets;
  std::error_code failure;
  for (fs::directory_iterator it(folder, failure), end; !failure && it != end; it.increment(failure)) {
    std::string name = it->path().filename().string();
    constexpr std::string_view kPrefix = "test_data_set_";
    int64_t number = 0;
    if (!name.starts_with(kPrefix))
      continue;
    const char *begin = name.data() + kPrefix.size(), *last = name.data() + name.size();
    if (auto [next, error] = std::from_chars(begin, last, number); error == std::errc() && next == last)
      sets.emplace_back(number, it->path().string());
  }
  std::ranges::sort(sets);
  return sets;
}

/// True when a value of output `index` changes with the step of the random ops: it was drawn, not computed.
bool isRandom(Executable &executable, const DataSet &inputs, size_t index, const Tensor &first) {
  for (uint32_t step = 1; step <= 16; ++step) {
    RunOptions options;
    options.step = step;
    Result<std::vector<Tensor>> again = executable.run(inputs.view(), options);
    if (again && std::memcmp((*again)[index].data(), first.data(), first.bytes()) != 0)
      return true;
  }
  return false;
}

Verdict runSet(Executable &executable, const std::string &folder, const Tolerance &tolerance, bool mustFail) {
  const Model &model = *executable.model();
  DataSet inputs;
  if (Status status = readInputFolder(folder, model, inputs); !status)
    return verdictOf(status.error());
  Result<std::vector<Tensor>> outputs = executable.run(inputs.view());
  if (mustFail) {
    if (outputs)
      return failed("it ran, but must be refused");
    if (outputs.error().code == ErrorCode::Internal || outputs.error().code == ErrorCode::Unsupported)
      return verdictOf(outputs.error());
    return {};
  }
  if (!outputs)
    return verdictOf(outputs.error());
  Result<std::vector<Tensor>> expected = readExpectedFolder(folder, model);
  if (!expected)
    return verdictOf(expected.error());
  for (size_t i = 0; i < expected->size(); ++i) {
    const Tensor &got = (*outputs)[i];
    Comparison comparison = compareTensors(got.view(), (*expected)[i].view(), tolerance);
    if (comparison.passed)
      continue;
    const std::string &name = model.signature().outputs[i]->name;
    if (comparison.mismatches > 0 && isRandom(executable, inputs, i, got))
      return {Outcome::Skipped, fmt::format("output '{}' is random; its type and shape are as expected", name)};
    return failed(fmt::format("output '{}': {}", name, comparison.reason));
  }
  return {};
}

Verdict runFolder(const std::shared_ptr<Engine> &engine, const std::string &folder, const Flags &flags) {
  Result<Meta> meta = readMeta(folder + "/meta.json");
  if (!meta)
    return failed(meta.error().message);
  Tolerance tolerance = flags.tolerance;
  if (meta->tolerance)
    tolerance = {*meta->tolerance, *meta->tolerance};
  std::vector<std::pair<int64_t, std::string>> sets = dataSets(folder);
  if (sets.empty())
    return failed("it holds no test_data_set_N");

  compiler::LoadOptions load;
  load.dynamicInputs = flags.dynamic;
  Result<compiler::LoadedModel> loaded = compiler::loadModel(folder + "/model.onnx", load);
  if (!loaded) {
    // The line begins with the folder's name already.
    Error error = loaded.takeError();
    if (std::string prefix = folder + "/model.onnx: "; error.message.starts_with(prefix))
      error.message.erase(0, prefix.size());
    return verdictOf(error);
  }
  Result<std::shared_ptr<Executable>> executable = Executable::create(engine, loaded->model);
  if (!executable)
    return verdictOf(executable.error());
  // A failure counts more than a skip, so every data set is run.
  Verdict worst;
  for (const auto &[number, path] : sets) {
    Verdict verdict = runSet(**executable, path, tolerance, meta->mustFail.contains(number));
    verdict.reason = fmt::format("data set {}: {}", number, verdict.reason);
    if (verdict.outcome == Outcome::Failed)
      return verdict;
    if (verdict.outcome == Outcome::Skipped && worst.outcome == Outcome::Passed)
      worst = std::move(verdict);
  }
  return worst;
}

/// The last part of a path, however it ends.
std::string nameOf(const std::string &folder) {
  fs::path path = fs::path(folder).lexically_normal();
  return path.has_filename() ? path.filename().string() : path.parent_path().filename().string();
}

int runFolders(const CLI::App &app, const Flags &flags) {
  for (const std::string &folder : flags.folders)
    if (std::error_code failure; !fs::is_regular_file(folder + "/model.onnx", failure))
      return fail(app, fmt::format("'{}' holds no model.onnx", folder));
  Result<std::shared_ptr<Engine>> engine = Engine::create();
  if (!engine)
    return fail(app, engine.error());

  size_t counts[3] = {};
  for (const std::string &folder : flags.folders) {
    Verdict verdict = runFolder(*engine, folder, flags);
    ++counts[static_cast<size_t>(verdict.outcome)];
    if (verdict.outcome != Outcome::Passed)
      fmt::print("{} {}: {}\n", verdict.outcome == Outcome::Failed ? "FAIL" : "SKIP", nameOf(folder), verdict.reason);
    else if (flags.verbose)
      fmt::print("PASS {}\n", nameOf(folder));
    std::fflush(stdout);
  }
  fmt::print("{} passed, {} failed, {} skipped\n", counts[0], counts[1], counts[2]);
  return counts[1] == 0 ? 0 : 1;
}

} // namespace

int main(int argc, char **argv) {
  CLI::App app("Runs ONNX test folders: each holds model.onnx and test_data_set_N/{input,output}_N.pb.",
               "rlx-onnx-test");
  Flags flags;
  app.add_option("folders", flags.folders, "Test folders")->required()->type_name("DIR");
  app.add_option("--rtol", flags.tolerance.relative, "Relative tolerance, unless meta.json says otherwise")
      ->type_name("X")
      ->capture_default_str()
      ->check(checkTolerance);
  app.add_option("--atol", flags.tolerance.absolute, "Absolute tolerance, unless meta.json says otherwise")
      ->type_name("X")
      ->capture_default_str()
      ->check(checkTolerance);
  app.add_flag("--dynamic", flags.dynamic, "Declare every dim of every input as a named dim of its own");
  app.add_flag("-v,--verbose", flags.verbose, "Print a line for folders that pass, too");
  app.footer("A meta.json beside the model may give atol (used as rtol too) and must_fail, the numbers of data sets\n"
             "that must be refused with an error. Types and shapes must match, NaN equals NaN, integers are exact.\n"
             "A folder that needs what rlx does not support is skipped, with the reason.\n"
             "Example: rlx-onnx-test --dynamic test/cases/*\n"
             "The last line counts folders. Exit code: 0 if none failed, else 1.");
  if (std::optional<int> code = parseFlags(app, argc, argv))
    return *code;
  return guarded(app, [&] { return runFolders(app, flags); });
}
