//===- compare.cpp - rlx and onnxruntime, timed in turn -------------------===//
//
// The program behind bench/compare. onnxruntime runs in a worker process that
// this one talks to over pipes; each side times its own call, so that the pipe
// is in neither figure.
//
//===----------------------------------------------------------------------===//
#include "rlx/Tools/Compare.h"
#include "rlx/Compiler/Load.h"
#include "rlx/Runtime/Engine.h"
#include "rlx/Runtime/Executable.h"
#include "rlx/Runtime/Model.h"
#include "rlx/Tools/CommandLine.h"
#include "rlx/Tools/DataSet.h"
#include "rlx/Tools/Table.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace rlx;
using namespace rlx::tools;

namespace {

/// A process that answers one line to each line.
class Worker {
public:
  ~Worker() {
    if (toChild)
      std::fclose(toChild);
    if (fromChild)
      std::fclose(fromChild);
    if (child > 0)
      ::waitpid(child, nullptr, 0);
  }

  Result<std::string> start(const std::vector<std::string> &command) {
    int down[2], up[2];
    if (::pipe(down) != 0 || ::pipe(up) != 0)
      return Error{ErrorCode::Io, "cannot make a pipe"};
    child = ::fork();
    if (child < 0)
      return Error{ErrorCode::Io, "cannot start a process"};
    if (child == 0) {
      ::dup2(down[0], 0);
      ::dup2(up[1], 1);
      for (int fd : {down[0], down[1], up[0], up[1]})
        ::close(fd);
      std::vector<char *> arguments;
      for (const std::string &word : command)
        arguments.push_back(const_cast<char *>(word.c_str()));
      arguments.push_back(nullptr);
      ::execv(arguments[0], arguments.data());
      ::_exit(127);
    }
    ::close(down[0]);
    ::close(up[1]);
    toChild = ::fdopen(down[1], "w");
    fromChild = ::fdopen(up[0], "r");
    return answer();
  }

  /// Sends a command and gives the answer.
  Result<std::string> ask(const std::string &command) {
    std::fprintf(toChild, "%s\n", command.c_str());
    std::fflush(toChild);
    return answer();
  }

private:
  Result<std::string> answer() {
    std::string line;
    for (int c; (c = std::fgetc(fromChild)) != EOF;) {
      if (c == '\n')
        return line;
      line += static_cast<char>(c);
    }
    return Error{ErrorCode::Io, "the onnxruntime worker ended"};
  }

  pid_t child = -1;
  FILE *toChild = nullptr, *fromChild = nullptr;
};

struct Flags {
  std::string python, worker, model;
  std::vector<std::string> sizes{"1x7", "1x128", "8x32", "3x17", "8x128"};
  int rounds = 30;
  double atMost = 0;
  bool json = false;
};

struct Row {
  int64_t batch = 0, length = 0;
  double difference = 0, rlxMs = 0, otherMs = 0;
  double ratio() const { return rlxMs / otherMs; }
};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

constexpr double kTolerance = 1e-4;

Result<Row> compareAt(const std::string &size, const Flags &flags, Worker &worker, Executable &executable,
                      const std::string &scratch) {
  Row row;
  char end = 0;
  if (std::sscanf(size.c_str(), "%ldx%ld%c", &row.batch, &row.length, &end) != 2 || row.batch < 1 || row.length < 1)
    return Error{ErrorCode::InvalidArgument, fmt::format("--size {}: expected BATCHxLENGTH", size)};
  std::string inputFolder = fmt::format("{}/{}-in", scratch, size),
              outputFolder = fmt::format("{}/{}-out", scratch, size);
  std::error_code ignored;
  std::filesystem::remove_all(inputFolder, ignored);
  std::filesystem::remove_all(outputFolder, ignored);
  for (const std::string &command :
       {fmt::format("make {} {} {}", row.batch, row.length, inputFolder), fmt::format("write {}", outputFolder)})
    if (Result<std::string> answer = worker.ask(command); !answer)
      return answer.takeError();
  DataSet data;
  if (Status status = readInputFolder(inputFolder, *executable.model(), data); !status)
    return status.takeError();
  Result<std::vector<Tensor>> expected = readExpectedFolder(outputFolder, *executable.model());
  if (!expected)
    return expected.takeError();

  // Results first: a wrong answer has no speed.
  std::vector<NamedTensor> inputs = data.view();
  Result<std::vector<Tensor>> outputs = executable.run(inputs);
  if (!outputs)
    return outputs.takeError();
  for (size_t i = 0; i < expected->size(); ++i) {
    Comparison comparison =
        compareTensors((*outputs)[i].view(), (*expected)[i].view(), {.relative = 0, .absolute = kTolerance});
    if (!comparison.passed)
      return Error{ErrorCode::RunFailed, fmt::format("at {} the results differ: {}", size, comparison.reason)};
    row.difference = std::max(row.difference, comparison.largest);
  }

  std::vector<double> ours, theirs;
  for (int round = -3; round < flags.rounds; ++round)
    for (int turn = 0; turn < 2; ++turn) {
      double ms = 0;
      bool rlxTurn = (round + 3 + turn) % 2 == 0;
      if (rlxTurn) {
        auto start = std::chrono::steady_clock::now();
        Result<std::vector<Tensor>> result = executable.run(inputs);
        ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
        if (!result)
          return result.takeError();
      } else {
        Result<std::string> answer = worker.ask("run");
        if (!answer)
          return answer.takeError();
        ms = std::strtod(answer->c_str(), nullptr);
      }
      if (round >= 0) // three rounds to warm up
        (rlxTurn ? ours : theirs).push_back(ms);
    }
  row.rlxMs = median(ours);
  row.otherMs = median(theirs);
  return row;
}

int run(const CLI::App &app, const Flags &flags) {
  Worker worker;
  Result<std::string> ready = worker.start({flags.python, flags.worker, flags.model});
  if (!ready)
    return fail(app, ready.error());
  std::string version = ready->substr(std::min(ready->find(' ') + 1, ready->size()));
  Result<compiler::LoadedModel> loaded = compiler::loadModel(flags.model);
  if (!loaded)
    return fail(app, loaded.error());
  Result<std::shared_ptr<Engine>> engine = Engine::create();
  if (!engine)
    return fail(app, engine.error());
  Result<std::shared_ptr<Executable>> executable = Executable::create(*engine, loaded->model);
  if (!executable)
    return fail(app, executable.error());

  std::string scratch = (std::filesystem::temp_directory_path() / "rlx-compare-XXXXXX").string();
  if (!::mkdtemp(scratch.data()))
    return fail(app, "cannot make a temporary folder");
  std::vector<Row> rows;
  std::string error;
  for (const std::string &size : flags.sizes) {
    Result<Row> row = compareAt(size, flags, worker, **executable, scratch);
    if (!row) {
      error = row.error().message;
      break;
    }
    rows.push_back(*row);
  }
  std::error_code ignored;
  std::filesystem::remove_all(scratch, ignored);
  if (!error.empty())
    return fail(app, error);

  if (flags.json) {
    nlohmann::ordered_json document{
        {"model", "minilm"}, {"onnxruntime", version}, {"threads", 1}, {"rounds", flags.rounds}};
    for (const Row &row : rows)
      document["sizes"].push_back({{"batch", row.batch},
                                   {"sequence", row.length},
                                   {"largest_difference", row.difference},
                                   {"rlx_ms", row.rlxMs},
                                   {"onnxruntime_ms", row.otherMs},
                                   {"ratio", row.ratio()}});
    fmt::print("{}\n", document.dump(2));
  } else {
    fmt::print("MiniLM 8-bit, one thread each, medians of {} interleaved rounds, onnxruntime {}\n", flags.rounds,
               version);
    Table table({"batch", "sequence", "largest difference", "rlx ms", "onnxruntime ms", "ratio"});
    for (const Row &row : rows)
      table.add({fmt::to_string(row.batch), fmt::to_string(row.length), fmt::format("{:.2e}", row.difference),
                 fmt::format("{:.3f}", row.rlxMs), fmt::format("{:.3f}", row.otherMs),
                 fmt::format("{:.2f}", row.ratio())});
    fmt::print("{}", table.text());
  }
  for (const Row &row : rows)
    if (flags.atMost > 0 && row.ratio() > flags.atMost)
      return fail(app, fmt::format("at {}x{} the ratio is {:.2f}, at most {} is wanted", row.batch, row.length,
                                   row.ratio(), flags.atMost));
  return 0;
}

} // namespace

int main(int argc, char **argv) {
  // A worker that ended is an answer that does not come, not a signal.
  ::signal(SIGPIPE, SIG_IGN);
  CLI::App app("Times MiniLM on rlx and onnxruntime in turn. Run it by bench/compare.", "rlx-bench-compare");
  Flags flags;
  app.add_option("--python", flags.python, "Python with onnxruntime")->required()->type_name("FILE");
  app.add_option("--worker", flags.worker, "onnxruntime_worker.py")->required()->type_name("FILE");
  app.add_option("--model", flags.model, "MiniLM's .onnx file")->required()->type_name("FILE");
  app.add_option("--size", flags.sizes, "A size to time; repeatable")->type_name("BATCHxLENGTH");
  app.add_option("--rounds", flags.rounds, "Timed rounds a size")
      ->type_name("N")
      ->capture_default_str()
      ->check(CLI::Range(1, 100000));
  app.add_option("--at-most", flags.atMost, "Exit code 1 when a ratio rlx / onnxruntime is above this")
      ->type_name("RATIO")
      ->check(CLI::PositiveNumber);
  app.add_flag("--json", flags.json, "Print one JSON document instead of a table");
  if (std::optional<int> code = parseFlags(app, argc, argv))
    return *code;
  return guarded(app, [&] { return run(app, flags); });
}
