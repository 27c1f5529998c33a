//===- soak.cpp - a server's days in minutes ------------------------------===//
//
// Threads share one executable and its clones, at ever-changing sizes, while params
// change, clones and whole models come and go. Every answer is compared with one
// computed here by plain loops, exactly: all numbers are small integers. What the
// process holds is sampled meanwhile.
//
//===----------------------------------------------------------------------===//
#include "Bench.h"

#include "rlx/Compiler/Load.h"
#include "rlx/Runtime/Engine.h"
#include "rlx/Runtime/Executable.h"
#include "rlx/Runtime/Load.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <random>
#include <thread>

using namespace rlx;
using namespace rlx::bench;

namespace {

constexpr int64_t kWidth = 16;

/// y = max((x + m) w + b, 0) + constant over [B, S, 16], z = running sums along S of the sums of x. `m` has 16 columns
/// or one, which is two templates.
std::string moduleText(int constant) {
  return fmt::format(R"(
rlx.graph @soak(%x: tensor<?x?x16xf32, #rlx.dims<[B, S, 16]>> {{rlx.name = "x"}},
                %m: tensor<?xf32, #rlx.dims<[K]>> {{rlx.name = "m"}})
    -> (tensor<?x?x16xf32, #rlx.dims<[B, S, 16]>> {{rlx.name = "y"}},
        tensor<?x?xf32, #rlx.dims<[B, S]>> {{rlx.name = "z"}})
    attributes {{dims = [#rlx.dim<"B">, #rlx.dim<"S">, #rlx.dim<"K">]}} {{
  %w = rlx.param "w" : tensor<16x16xf32>
  %b = rlx.param "b" : tensor<16xf32>
  %zero = rlx.constant dense<0.0> : tensor<f32>
  %c = rlx.constant dense<{}.0> : tensor<f32>
  %0 = rlx.add %x, %m : tensor<?x?x16xf32, #rlx.dims<[B, S, 16]>>, tensor<?xf32, #rlx.dims<[K]>>
       -> tensor<?x?x16xf32, #rlx.dims<[B, S, 16]>>
  %1 = rlx.matmul %0, %w : tensor<?x?x16xf32, #rlx.dims<[B, S, 16]>>, tensor<16x16xf32>
       -> tensor<?x?x16xf32, #rlx.dims<[B, S, 16]>>
  %2 = rlx.add %1, %b : tensor<?x?x16xf32, #rlx.dims<[B, S, 16]>>, tensor<16xf32>
       -> tensor<?x?x16xf32, #rlx.dims<[B, S, 16]>>
  %3 = rlx.max %2, %zero : tensor<?x?x16xf32, #rlx.dims<[B, S, 16]>>, tensor<f32>
       -> tensor<?x?x16xf32, #rlx.dims<[B, S, 16]>>
  %4 = rlx.add %3, %c : tensor<?x?x16xf32, #rlx.dims<[B, S, 16]>>, tensor<f32>
       -> tensor<?x?x16xf32, #rlx.dims<[B, S, 16]>>
  %5 = rlx.reduce sum %x axes [2] : tensor<?x?x16xf32, #rlx.dims<[B, S, 16]>> -> tensor<?x?xf32, #rlx.dims<[B, S]>>
  %6 = rlx.cumsum %5 axis 1 : tensor<?x?xf32, #rlx.dims<[B, S]>> -> tensor<?x?xf32, #rlx.dims<[B, S]>>
  rlx.output %4, %6 : tensor<?x?x16xf32, #rlx.dims<[B, S, 16]>>, tensor<?x?xf32, #rlx.dims<[B, S]>>
}}
)",
                     constant);
}

struct Sizes {
  int64_t b = 0, s = 0, k = 0;
};

/// Params of version v: whole numbers, so that sums are exact in any order.
std::vector<float> weightsOf(int version) {
  std::vector<float> w(kWidth * kWidth);
  for (int64_t i = 0; i != kWidth * kWidth; ++i)
    w[static_cast<size_t>(i)] = static_cast<float>((i * 7 + version) % 5 - 2);
  return w;
}
std::vector<float> biasOf(int version) {
  std::vector<float> b(kWidth);
  for (int64_t i = 0; i != kWidth; ++i)
    b[static_cast<size_t>(i)] = static_cast<float>((i + version) % 7 - 3);
  return b;
}

/// Inputs of one run and the answers to it.
struct Problem {
  Sizes sizes;
  std::vector<float> x, m;

  Problem(Sizes sizes, std::mt19937 &random) : sizes(sizes) {
    x.resize(static_cast<size_t>(sizes.b * sizes.s * kWidth));
    m.resize(static_cast<size_t>(sizes.k));
    for (float &value : x)
      value = static_cast<float>(static_cast<int>(random() % 7) - 3);
    for (float &value : m)
      value = static_cast<float>(random() % 3);
  }

  /// Empty where both outputs are right for the params of `version`, else the first difference.
  std::string check(std::span<const float> y, std::span<const float> z, int version, int constant) const {
    std::vector<float> w = weightsOf(version), bias = biasOf(version);
    for (int64_t row = 0; row != sizes.b * sizes.s; ++row) {
      for (int64_t column = 0; column != kWidth; ++column) {
        float sum = 0;
        for (int64_t i = 0; i != kWidth; ++i)
          sum += (x[static_cast<size_t>(row * kWidth + i)] + m[static_cast<size_t>(sizes.k == 1 ? 0 : i)]) *
                 w[static_cast<size_t>(i * kWidth + column)];
        float expected = std::max(sum + bias[static_cast<size_t>(column)], 0.0f) + static_cast<float>(constant);
        float got = y[static_cast<size_t>(row * kWidth + column)];
        if (got != expected)
          return fmt::format("y[{}, {}] is {}, not {}", row, column, got, expected);
      }
    }
    for (int64_t b = 0; b != sizes.b; ++b) {
      float running = 0;
      for (int64_t s = 0; s != sizes.s; ++s) {
        for (int64_t i = 0; i != kWidth; ++i)
          running += x[static_cast<size_t>((b * sizes.s + s) * kWidth + i)];
        if (float got = z[static_cast<size_t>(b * sizes.s + s)]; got != running)
          return fmt::format("z[{}, {}] is {}, not {}", b, s, got, running);
      }
    }
    return {};
  }
};

/// What the process holds at one moment.
struct Sample {
  double seconds = 0;
  int64_t residentKiB = 0, threads = 0, mappings = 0;
  uint64_t entries = 0, bytes = 0;
};

int64_t lineCount(const char *path) {
  std::ifstream file(path);
  int64_t count = 0;
  for (std::string line; std::getline(file, line);)
    ++count;
  return count;
}

/// Processes that this one has started.
std::vector<pid_t> children() {
  std::vector<pid_t> found;
  std::error_code failure;
  for (const auto &entry : std::filesystem::directory_iterator("/proc", failure)) {
    std::string name = entry.path().filename();
    pid_t pid = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), pid).ec != std::errc())
      continue;
    std::ifstream file(entry.path() / "stat");
    std::string text;
    std::getline(file, text);
    // "pid (name) state parent ...": the name may hold anything, but no more ')' follow it.
    size_t after = text.rfind(')');
    if (after != std::string::npos && after + 4 < text.size() && std::atoi(text.c_str() + after + 4) == getpid())
      found.push_back(pid);
  }
  return found;
}

class Soak {
public:
  Soak(std::shared_ptr<Engine> engine, std::vector<Sizes> bindings, bool mayFail)
      : engine(std::move(engine)), bindings(std::move(bindings)), mayFail(mayFail) {}

  Result<std::shared_ptr<Executable>> load(int constant, ExecutableOptions options = {}) {
    Result<LoadedModel> loaded = loadModule(*engine, moduleText(constant), nullptr);
    if (!loaded)
      return loaded.takeError();
    return Executable::create(engine, loaded->model, options);
  }

  Status start(size_t entries, size_t bytes) {
    ExecutableOptions options;
    options.cacheEntries = entries;
    options.cacheBytes = bytes;
    // A worker may be killed while it loads this.
    for (int attempt = 0;; ++attempt) {
      Result<std::shared_ptr<Executable>> made = load(0, options);
      if (made) {
        base = std::move(*made);
        return set(*base, 0);
      }
      if (attempt == 20 || !forgives(made.error()))
        return made.takeError();
    }
  }

  static Status set(Executable &executable, int version) {
    if (Status status = executable.setParam("w", weightsOf(version)); !status)
      return status;
    return executable.setParam("b", biasOf(version));
  }

  /// A client: runs until told to stop.
  void client(unsigned seed) {
    std::mt19937 random(seed);
    std::shared_ptr<Executable> mine = base->clone();
    int version = static_cast<int>(random() % 11);
    note(set(*mine, version));
    std::unique_ptr<RunContext> context = mine->createContext();
    while (!stop) {
      if (random() % 50 == 0) { // a new client
        mine = base->clone();
        version = static_cast<int>(random() % 11);
        note(set(*mine, version));
        context = mine->createContext();
        ++clones;
      }
      if (random() % 20 == 0) {
        version = static_cast<int>(random() % 11);
        note(set(*mine, version));
        if (random() % 2)
          note(mine->finalizeParams());
      }
      // A third of the traffic comes back to sizes that are often asked for.
      size_t number = random() % 3 == 0 ? random() % 16 : next++ % bindings.size();
      Problem problem(bindings[number], random);
      run(*mine, *context, problem, version, 0, random);
    }
  }

  /// A model that comes and goes.
  void churn(unsigned seed) {
    std::mt19937 random(seed);
    for (int constant = 1; !stop; ++constant) {
      Result<std::shared_ptr<Executable>> made = load(constant);
      if (!made) {
        note(made.takeError());
        continue;
      }
      note(set(**made, constant % 11));
      std::unique_ptr<RunContext> context = (*made)->createContext();
      for (int i = 0; i != 3 && !stop; ++i) {
        Problem problem(bindings[random() % bindings.size()], random);
        run(**made, *context, problem, constant % 11, constant, random);
      }
      ++models;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }

  void run(Executable &executable, RunContext &context, const Problem &problem, int version, int constant,
           std::mt19937 &random) {
    const Sizes &sizes = problem.sizes;
    const int64_t xShape[] = {sizes.b, sizes.s, kWidth}, mShape[] = {sizes.k};
    const NamedTensor inputs[] = {
        {"x", TensorView{data::ElementType::F32, xShape, problem.x.data(), problem.x.size() * sizeof(float), false}},
        {"m", TensorView{data::ElementType::F32, mShape, problem.m.data(), problem.m.size() * sizeof(float), false}}};
    auto rows = static_cast<size_t>(sizes.b * sizes.s);
    std::vector<float> y(rows * kWidth, -1), z(rows, -1);
    RunOptions options;
    unsigned way = random() % 4;
    if (random() % 16 == 0)
      options.onMiss = OnMiss::FailFast;
    else if (random() % 16 == 0)
      options.timeout = std::chrono::milliseconds(5);
    Status status;
    if (way == 0) {
      const OutputBuffer outputs[] = {{"y", data::ElementType::F32, y.data(), y.size() * sizeof(float)},
                                      {"z", data::ElementType::F32, z.data(), z.size() * sizeof(float)}};
      status = executable.runInto(inputs, outputs, options);
    } else if (way == 1) {
      Result<std::span<const RawOutput>> raw = context.run(inputs, options);
      if (raw) {
        take((*raw)[0], y);
        take((*raw)[1], z);
      } else {
        status = raw.takeError();
      }
    } else {
      // The other order, and once more than needed.
      const size_t order[] = {1, 0, 1};
      Result<std::vector<Tensor>> tensors = executable.runReadOutputs(inputs, order, options);
      if (tensors) {
        std::span<const float> first = std::as_const((*tensors)[0]).as<float>(),
                               second = std::as_const((*tensors)[1]).as<float>();
        z.assign(first.begin(), first.end());
        y.assign(second.begin(), second.end());
      } else {
        status = tensors.takeError();
      }
    }
    ++runs;
    if (!status) {
      if (status.error().code == ErrorCode::NotReady && (options.onMiss == OnMiss::FailFast || options.timeout))
        ++notReady;
      else
        note(status);
      return;
    }
    std::string difference = y.size() == rows * kWidth && z.size() == rows ? problem.check(y, z, version, constant)
                                                                           : std::string("an output has another size");
    if (!difference.empty())
      wrong(fmt::format("B={} S={} K={}: {}", sizes.b, sizes.s, sizes.k, difference));
  }

  static void take(const RawOutput &from, std::vector<float> &to) {
    to.resize(from.bytes / sizeof(float));
    std::copy_n(static_cast<const float *>(from.data), to.size(), to.begin());
  }

  bool forgives(const Error &error) const { return mayFail && error.code == ErrorCode::CompilerFailed; }
  void note(const Status &status) {
    if (status)
      return;
    if (forgives(status.error()))
      ++compilerFailed;
    else
      wrong(status.error().message);
  }
  void wrong(std::string what) {
    ++wrongs;
    std::lock_guard lock(mutex);
    if (firstWrong.empty())
      firstWrong = std::move(what);
  }

  Sample sample(double seconds) const {
    Statistics stats = base->stats();
    return {seconds,
            processStatus("VmRSS:"),
            processStatus("Threads:"),
            lineCount("/proc/self/maps"),
            stats.entries,
            stats.planBytes + stats.templateBytes + stats.kernelBytes};
  }

  std::shared_ptr<Engine> engine;
  std::shared_ptr<Executable> base;
  const std::vector<Sizes> bindings;
  const bool mayFail;
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> next{0}, runs{0}, wrongs{0}, notReady{0}, compilerFailed{0}, clones{0}, models{0}, kills{0};
  std::mutex mutex; ///< guards `firstWrong`
  std::string firstWrong;
};

template <typename Get> double medianOf(std::span<const Sample> samples, Get get) {
  std::vector<double> values;
  for (const Sample &sample : samples)
    values.push_back(static_cast<double>(get(sample)));
  return median(values);
}

struct Flags {
  double seconds = 90, killEvery = 2;
  int threads = 8, bindings = 5000;
  size_t entries = 32, mebibytes = 64;
  std::string compiler = "both";
};

/// One soak, with the compiler in one place. An exit code when it cannot go on.
std::optional<int> soakOnce(Bench &bench, const Flags &flags, const std::vector<Sizes> &bindings, bool worker,
                            bool &wrong) {
  const std::string place = worker ? "compiler in a worker that is killed" : "compiler in the process";
  EngineOptions options;
  options.cacheEntries = flags.entries;
  options.cacheBytes = flags.mebibytes << 20;
  options.idleTime = std::chrono::milliseconds(1000);
  if (worker)
    options.compiler = CompilerPlace::Worker;
  else
    options.compilerSource = compiler::inProcess();
  Result<std::shared_ptr<Engine>> engine = Engine::create(options);
  if (!engine)
    return bench.fail(engine.error().message);
  Soak soak(std::move(*engine), bindings, worker);
  if (Status status = soak.start(flags.entries, flags.mebibytes << 20); !status)
    return bench.fail(status.error().message);

  double begin = now(), lastKill = begin;
  std::vector<std::thread> crowd;
  for (int i = 0; i != flags.threads; ++i)
    crowd.emplace_back([&soak, i] { soak.client(static_cast<unsigned>(i + 1)); });
  crowd.emplace_back([&soak] { soak.churn(99); });
  std::vector<Sample> samples;
  while (now() - begin < flags.seconds && soak.wrongs == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    samples.push_back(soak.sample(now() - begin));
    if (worker && now() - lastKill > flags.killEvery) {
      lastKill = now();
      for (pid_t child : children())
        if (kill(child, SIGKILL) == 0)
          ++soak.kills;
    }
    if (samples.size() % 100 == 0)
      bench.progress(fmt::format("{}: {:.0f} of {:.0f} s, {} runs, {} MiB", place, now() - begin, flags.seconds,
                                 soak.runs.load(), samples.back().residentKiB / 1024));
  }
  soak.stop = true;
  for (std::thread &thread : crowd)
    thread.join();

  Sheet held({"quarter", "resident MiB", "threads", "mappings", "specializations, most", "MiB of them, most"});
  size_t quarter = samples.size() / 4;
  for (size_t i = 0; i != 4 && quarter; ++i) {
    std::span<const Sample> part = std::span(samples).subspan(i * quarter, quarter);
    auto most = [&](auto get) {
      return get(*std::max_element(part.begin(), part.end(),
                                   [&](const Sample &a, const Sample &b) { return get(a) < get(b); }));
    };
    held.add(
        {fmt::to_string(i + 1),
         cell("{:.1f}", medianOf(part, [](const Sample &sample) { return sample.residentKiB; }) / 1024),
         cell("{:.0f}", medianOf(part, [](const Sample &sample) { return sample.threads; })),
         cell("{:.0f}", medianOf(part, [](const Sample &sample) { return sample.mappings; })),
         cell(static_cast<int64_t>(most([](const Sample &sample) { return sample.entries; }))),
         cell("{:.2f}", static_cast<double>(most([](const Sample &sample) { return sample.bytes; })) / (1 << 20))});
  }
  bench.print(place + ": what the process held (medians of each quarter)", held);

  Statistics stats = soak.base->stats();
  Sheet counts({"what", "times"});
  for (auto [what, value] :
       std::initializer_list<std::pair<const char *, uint64_t>>{{"runs", soak.runs},
                                                                {"runs that would not wait", soak.notReady},
                                                                {"hits", stats.hits},
                                                                {"misses", stats.misses},
                                                                {"evictions", stats.evictions},
                                                                {"templates made", stats.templatesMade},
                                                                {"templates dropped", stats.templatesDropped},
                                                                {"kernels compiled", stats.kernelsCompiled},
                                                                {"clones", soak.clones},
                                                                {"models that came and went", soak.models},
                                                                {"workers killed", soak.kills},
                                                                {"requests that died with them", soak.compilerFailed},
                                                                {"wrong answers", soak.wrongs}})
    counts.add({what, cell(static_cast<int64_t>(value))});
  bench.print(place + ": what happened", counts);

  if (!soak.firstWrong.empty())
    bench.note("first wrong: " + soak.firstWrong);
  bench.require(soak.wrongs == 0, "no wrong answer and no error that was not asked for");
  bool within = std::all_of(samples.begin(), samples.end(), [&](const Sample &sample) {
    return sample.entries <= flags.entries && sample.bytes <= flags.mebibytes << 20;
  });
  bench.require(within, fmt::format("never more than {} specializations and {} MiB", flags.entries, flags.mebibytes));
  if (quarter > 0 && !bench.quick) {
    std::span<const Sample> third = std::span(samples).subspan(2 * quarter, quarter),
                            last = std::span(samples).subspan(3 * quarter);
    auto flat = [&](auto get, double slack) { return medianOf(last, get) <= medianOf(third, get) * 1.02 + slack; };
    bench.require(flat([](const Sample &sample) { return sample.residentKiB; }, 2048),
                  "resident memory flat in the second half (2 % and 2 MiB)");
    bench.require(flat([](const Sample &sample) { return sample.threads; }, 0), "threads flat in the second half");
    bench.require(flat([](const Sample &sample) { return sample.mappings; }, 8), "mappings flat in the second half");
    bench.require(soak.next >= static_cast<uint64_t>(flags.bindings), "every binding was met");
  }
  wrong = wrong || soak.wrongs;
  return std::nullopt;
}

} // namespace

int main(int argc, char **argv) {
  Bench bench("soak", "Many threads, ever-changing sizes, params, clones and models: right answers, flat memory.");
  Flags flags;
  bench.app.add_option("--seconds", flags.seconds, "How long, each")
      ->capture_default_str()
      ->check(CLI::Range(2.0, 1e6));
  bench.app.add_option("--threads", flags.threads, "Threads that run")
      ->capture_default_str()
      ->check(CLI::Range(1, 256));
  bench.app.add_option("--bindings", flags.bindings, "Different sizes")
      ->capture_default_str()
      ->check(CLI::Range(16, 8000));
  bench.app.add_option("--entries", flags.entries, "Specializations held at most")
      ->capture_default_str()
      ->check(CLI::Range(1, 100000));
  bench.app.add_option("--mib", flags.mebibytes, "MiB held at most")
      ->capture_default_str()
      ->check(CLI::Range(1, 100000));
  bench.app
      .add_option("--compiler", flags.compiler, "In the process, in a worker that is killed, or one after the other")
      ->capture_default_str()
      ->check(CLI::IsMember({"process", "worker", "both"}));
  bench.app.add_option("--kill-every", flags.killEvery, "Seconds between the deaths of workers")
      ->capture_default_str()
      ->check(CLI::Range(0.05, 1e6));
  if (std::optional<int> code = bench.parse(argc, argv))
    return *code;
  if (bench.quick)
    flags.seconds = std::min(flags.seconds, 4.0);

  std::mt19937 random(17);
  std::vector<Sizes> all;
  for (int64_t b = 0; b <= 40; ++b)
    for (int64_t s = 0; s <= 100; ++s)
      for (int64_t k : {int64_t(1), kWidth})
        all.push_back({b, s, k});
  std::shuffle(all.begin(), all.end(), random);
  all.resize(static_cast<size_t>(flags.bindings));

  bool wrong = false;
  for (bool worker : {false, true})
    if (flags.compiler != (worker ? "process" : "worker"))
      if (std::optional<int> code = soakOnce(bench, flags, all, worker, wrong))
        return *code;
  int code = bench.finish();
  return wrong ? 1 : code;
}
