//===- WorkerTest.cpp - a compiler in another process ---------------------===//
//
// This program links the runtime alone: what it compiles, a worker compiles.
//
//===----------------------------------------------------------------------===//
#include "WorkerPool.h"
#include "WorkerProcess.h"

#include "rlx/Runtime/CompilerLibrary.h"
#include "rlx/Runtime/Engine.h"
#include "rlx/Runtime/Executable.h"
#include "rlx/Runtime/Load.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include <atomic>
#include <csignal>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <sstream>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) ||                                                   \
    (defined(__has_feature) && (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer)))
#define RLX_SANITIZED
#endif

using namespace rlx;
using namespace std::chrono_literals;
using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;

namespace {

/// y[b][n] = 2^doublings * sum over k of x[b][k] * w[k][n].
std::string moduleText(unsigned doublings = 0) {
  const std::string x = "tensor<?x4xf32, #rlx.dims<[B, 4]>>", y = "tensor<?x2xf32, #rlx.dims<[B, 2]>>";
  std::string text = "rlx.graph @affine(%x: " + x + " {rlx.name = \"x\"}) -> (" + y +
                     " {rlx.name = \"y\"}) attributes {dims = [#rlx.dim<\"B\">]} {\n"
                     "%w = rlx.weight \"w\" : tensor<4x2xf32>\n"
                     "%t0 = rlx.matmul %x, %w : " +
                     x + ", tensor<4x2xf32> -> " + y + "\n";
  for (unsigned i = 0; i != doublings; ++i)
    text += "%t" + std::to_string(i + 1) + " = rlx.add %t" + std::to_string(i) + ", %t" + std::to_string(i) + " : " +
            y + ", " + y + " -> " + y + "\n";
  return text + "rlx.output %t" + std::to_string(doublings) + " : " + y + "\n}\n";
}

/// w[k][n] = k + 10 n.
std::shared_ptr<WeightTable> weights() {
  auto values = std::make_shared<std::vector<float>>();
  for (int k = 0; k != 4; ++k)
    for (int n = 0; n != 2; ++n)
      values->push_back(static_cast<float>(k + 10 * n));
  auto table = std::make_shared<WeightTable>();
  WeightRow row{data::ElementType::F32, {4, 2}, std::as_bytes(std::span(*values)), values};
  EXPECT_TRUE(table->add("w", std::move(row)));
  return table;
}

struct Options {
  std::string program = RLX_TEST_WORKER;
  std::chrono::milliseconds timeout{120000};
  size_t memoryBytes = 0;
  int threads = 2;
};

std::shared_ptr<Engine> engineWith(const Options &options = {}) {
  EngineOptions engine;
  engine.threads = options.threads;
  engine.compiler = CompilerPlace::Worker;
  engine.worker.program = options.program;
  engine.worker.timeout = options.timeout;
  engine.worker.memoryBytes = options.memoryBytes;
  auto made = Engine::create(std::move(engine));
  EXPECT_TRUE(made);
  return *made;
}

Result<std::shared_ptr<Executable>> load(const std::shared_ptr<Engine> &engine, unsigned doublings = 0) {
  Result<LoadedModel> loaded = loadModule(*engine, moduleText(doublings), weights());
  if (!loaded)
    return loaded.takeError();
  return Executable::create(engine, loaded->model);
}

/// Runs `rows` rows {b, 1, 2, 3} and checks every value: sum over k of x * (k + 10 n) = 14 + 10 n (b + 6).
Status runRows(Executable &executable, int64_t rows, unsigned doublings = 0) {
  std::vector<float> x;
  for (int64_t b = 0; b != rows; ++b)
    for (float value : {static_cast<float>(b), 1.f, 2.f, 3.f})
      x.push_back(value);
  std::vector<int64_t> shape = {rows, 4};
  NamedTensor inputs[] = {{"x", {data::ElementType::F32, shape, x.data(), x.size() * 4}}};
  Result<std::vector<Tensor>> outputs = executable.run(inputs);
  if (!outputs)
    return outputs.takeError();
  auto y = (*outputs)[0].as<float>();
  EXPECT_EQ(y.size(), static_cast<size_t>(rows * 2));
  for (int64_t b = 0; b != rows; ++b)
    for (int64_t n = 0; n != 2; ++n)
      EXPECT_EQ(y[static_cast<size_t>(b * 2 + n)], static_cast<float>((1 << doublings) * (14 + 10 * n * (b + 6))));
  return Status::ok();
}

/// Everything in a file; nothing where it has gone.
std::string contents(const std::string &path) {
  std::ostringstream all;
  all << std::ifstream(path).rdbuf();
  return all.str();
}

/// Children of a process, zombies among them.
std::vector<pid_t> childrenOf(pid_t parent) {
  std::vector<pid_t> children;
  DIR *processes = opendir("/proc");
  while (struct dirent *entry = readdir(processes)) {
    if (!std::isdigit(static_cast<unsigned char>(entry->d_name[0])))
      continue;
    std::string stat = contents("/proc/" + std::string(entry->d_name) + "/stat");
    size_t end = stat.rfind(')'); // what follows the name: state, parent
    if (end != std::string::npos && std::atoi(stat.c_str() + end + 4) == parent)
      children.push_back(std::atoi(entry->d_name));
  }
  closedir(processes);
  return children;
}
std::vector<pid_t> workers() { return childrenOf(getpid()); }

size_t openDescriptors() {
  size_t count = 0;
  DIR *folder = opendir("/proc/self/fd");
  while (readdir(folder))
    ++count;
  closedir(folder);
  return count;
}

class Folder {
public:
  Folder() { EXPECT_NE(mkdtemp(path.data()), nullptr); }
  ~Folder() {
    for (const std::string &file : files)
      unlink(file.c_str());
    rmdir(path.c_str());
  }
  std::string write(const std::string &name, const std::string &content, mode_t mode = 0700) {
    files.push_back(path + "/" + name);
    std::ofstream(files.back(), std::ios::binary) << content;
    chmod(files.back().c_str(), mode);
    return files.back();
  }
  std::string path = (std::filesystem::temp_directory_path() / "rlx-worker-XXXXXX").string();

private:
  std::vector<std::string> files;
};

/// A program that plays the worker.
std::string script(Folder &folder, const std::string &body) { return folder.write("worker", "#!/bin/sh\n" + body); }

std::string framed(const data::WorkerReplyT &reply) {
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(data::CreateWorkerReply(builder, &reply));
  std::string text = "RLXW";
  text.append(4, '\0');
  for (int i = 0; i != 8; ++i)
    text += static_cast<char>(static_cast<uint64_t>(builder.GetSize()) >> (8 * i));
  return text.append(reinterpret_cast<const char *>(builder.GetBufferPointer()), builder.GetSize());
}

std::string welcome(const std::string &build) {
  data::WorkerReplyT reply;
  reply.number = 1;
  data::WorkerWelcomeT body;
  body.build = build;
  body.target = "x86_64:x86-64-v3:";
  reply.body.Set(std::move(body));
  return framed(reply);
}

/// Runs while the worker is stopped, and has the worker killed once the request is under way.
Status runAndKill(Executable &executable, int64_t rows) {
  pid_t worker = workers()[0];
  kill(worker, SIGSTOP);
  Status status;
  std::atomic<pid_t> thread{0};
  std::thread runs([&] {
    thread = gettid();
    status = runRows(executable, rows);
  });
  // In poll() it has said all that it has to say, and waits for the answer.
  for (int i = 0; i != 1000; ++i) {
    std::this_thread::sleep_for(10ms);
    if (contents("/proc/self/task/" + std::to_string(thread) + "/syscall").starts_with(std::to_string(SYS_poll) + " "))
      break;
  }
  kill(worker, SIGKILL);
  runs.join();
  return status;
}

/// What a load must end in.
Error loadError(const Options &options) {
  auto loaded = load(engineWith(options));
  EXPECT_FALSE(loaded);
  return loaded ? Error{} : loaded.error();
}

} // namespace

TEST(Worker, ValuesAndNoCompilerInThisProcess) {
  auto engine = engineWith();
  EXPECT_TRUE(workers().empty());
  auto executable = load(engine);
  ASSERT_TRUE(executable) << executable.error().message;
  EXPECT_EQ(workers().size(), 1u);
  for (int64_t rows : {3, 1, 0, 64, 7}) {
    Status status = runRows(**executable, rows);
    ASSERT_TRUE(status) << status.error().message;
  }
  EXPECT_EQ((*executable)->stats().templatesMade, 1u);
  EXPECT_EQ(workers().size(), 1u);
  EXPECT_THAT(contents("/proc/self/maps"), AllOf(HasSubstr("libc.so"), Not(HasSubstr("LLVM")), Not(HasSubstr("MLIR"))));
  // The model keeps what it needs; with the last of all the process goes.
  engine.reset();
  EXPECT_EQ(workers().size(), 1u);
  *executable = nullptr;
  EXPECT_TRUE(workers().empty());
}

TEST(Worker, ErrorsOfTheCompiler) {
  auto engine = engineWith();
  Result<LoadedModel> wrong = loadModule(*engine, "rlx.graph", nullptr);
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().code, ErrorCode::InvalidModel);
  wrong = loadModule(*engine, moduleText(), nullptr);
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().code, ErrorCode::InvalidModel);
  EXPECT_THAT(wrong.error().message, HasSubstr("'w' is not among the weights"));
  wrong = loadModule(*engine, "ML\xefR rest", nullptr);
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().code, ErrorCode::Unsupported);
  wrong = loadModel(*engine, "nowhere/at-all.onnx");
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().code, ErrorCode::Io);
  EXPECT_THAT(wrong.error().message, AllOf(HasSubstr("'nowhere/at-all.onnx'"), HasSubstr("No such file")));
  wrong = loadModel(*engine, "model.txt");
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().code, ErrorCode::InvalidArgument);
  // None of them cost the worker its life.
  EXPECT_EQ(workers().size(), 1u);
}

TEST(Worker, RelativeToTheFolderOfTheHost) {
  Folder folder;
  std::string text = moduleText();
  // A module without weights of its own: the matrix is a constant.
  text.replace(text.find("rlx.weight \"w\""), 14,
               "rlx.constant dense<[[0.0, 10.0], [1.0, 11.0], [2.0, 12.0], [3.0, 13.0]]>");
  folder.write("m.mlir", text);
  auto engine = engineWith();
  ASSERT_FALSE(loadModel(*engine, "m.mlir"));
  std::string before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path);
  Result<LoadedModel> loaded = loadModel(*engine, "m.mlir");
  std::filesystem::current_path(before);
  ASSERT_TRUE(loaded) << loaded.error().message;
  auto executable = Executable::create(engine, loaded->model);
  ASSERT_TRUE(executable);
  EXPECT_TRUE(runRows(**executable, 5));
}

// Stopped, asked, killed: the worker dies in the middle of a request.
TEST(Worker, KilledInTheMiddle) {
  auto engine = engineWith();
  auto executable = load(engine);
  ASSERT_TRUE(executable);
  for (int round = 0; round != 3; ++round) {
    ASSERT_EQ(workers().size(), 1u);
    Status status = runAndKill(**executable, 4);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::CompilerFailed);
    EXPECT_THAT(status.error().message, AllOf(HasSubstr("signal 9"), HasSubstr("'affine'"), HasSubstr("{B=4}")));
    EXPECT_TRUE(workers().empty());
    // Not remembered, and the new worker is given the model; loading again would be the caller's work.
    if (round != 2) {
      auto other = load(engine, 1);
      ASSERT_TRUE(other) << other.error().message;
    }
  }
  Status status = runRows(**executable, 4);
  EXPECT_TRUE(status) << status.error().message;
}

// The plan is there, the kernel for many rows is not.
TEST(Worker, KilledWhileKernelsAreCompiled) {
  auto engine = engineWith();
  auto executable = load(engine);
  ASSERT_TRUE(executable);
  ASSERT_TRUE(runRows(**executable, 1));
  Status status = runAndKill(**executable, 64);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::CompilerFailed);
  EXPECT_THAT(status.error().message,
              AllOf(HasSubstr("{B=64}"), HasSubstr("compiling 1 kernels of model 'affine'"), HasSubstr("signal 9")));
  EXPECT_EQ((*executable)->stats().templatesMade, 1u);
  EXPECT_TRUE(runRows(**executable, 64));
}

TEST(Worker, KilledBetweenRequests) {
  auto engine = engineWith();
  auto executable = load(engine);
  ASSERT_TRUE(executable);
  for (unsigned round = 0; round != 3; ++round) {
    kill(workers()[0], SIGKILL);
    std::this_thread::sleep_for(50ms);
    // Nobody's request died with it, so nobody gets an error.
    Status status = runRows(**executable, 2 + round);
    EXPECT_TRUE(status) << status.error().message;
    auto other = load(engine, round);
    EXPECT_TRUE(other) << other.error().message;
  }
}

TEST(Worker, ManyRoundsLeaveNothingBehind) {
  auto engine = engineWith({.threads = 1});
  std::mt19937 random(7);
  size_t before = openDescriptors();
  unsigned failed = 0;
  for (int round = 0; round != 200; ++round) {
    std::thread killer([pause = random() % 120] {
      std::this_thread::sleep_for(std::chrono::milliseconds(pause));
      for (pid_t each : workers())
        kill(each, SIGKILL);
    });
    auto executable = load(engine);
    Status status = executable ? runRows(**executable, 3) : Status(executable.error());
    killer.join();
    if (!status) {
      ++failed;
      EXPECT_EQ(status.error().code, ErrorCode::CompilerFailed) << status.error().message;
    }
  }
  EXPECT_GT(failed, 0u);
  std::this_thread::sleep_for(50ms); // what the last round killed may not have ended yet, and would be asked
  auto executable = load(engine);
  ASSERT_TRUE(executable) << executable.error().message;
  EXPECT_TRUE(runRows(**executable, 3));
  *executable = nullptr;
  engine.reset();
  EXPECT_TRUE(workers().empty());
  EXPECT_EQ(openDescriptors(), before);
}

TEST(Worker, EightThreadsAndAKiller) {
  auto engine = engineWith({.threads = 4});
  std::atomic<bool> ending{false};
  std::atomic<unsigned> good{0}, failed{0};
  std::thread killer([&] {
    while (!ending) {
      std::this_thread::sleep_for(50ms);
      if (std::vector<pid_t> all = workers(); !all.empty())
        kill(all[static_cast<size_t>(rand()) % all.size()], SIGKILL);
    }
  });
  std::vector<std::thread> threads;
  for (unsigned t = 0; t != 8; ++t)
    threads.emplace_back([&, t] {
      auto until = std::chrono::steady_clock::now() + 4s;
      for (unsigned i = t; std::chrono::steady_clock::now() < until; ++i) {
        auto executable = load(engine, i % 6);
        Status status = executable ? runRows(**executable, i % 9, i % 6) : Status(executable.error());
        ++(status ? good : failed);
        if (!status)
          EXPECT_EQ(status.error().code, ErrorCode::CompilerFailed) << status.error().message;
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  ending = true;
  killer.join();
  RecordProperty("good", static_cast<int>(good));
  RecordProperty("failed", static_cast<int>(failed));
  std::this_thread::sleep_for(100ms); // the one killed last is gone by then
  EXPECT_LE(workers().size(), 4u);
  for (unsigned doublings = 0; doublings != 6; ++doublings) {
    auto executable = load(engine, doublings);
    ASSERT_TRUE(executable) << executable.error().message;
    EXPECT_TRUE(runRows(**executable, 5, doublings));
  }
}

TEST(Worker, TimeLimit) {
  auto engine = engineWith({.timeout = 60s});
  auto executable = load(engine);
  ASSERT_TRUE(executable);
  auto late = engineWith({.timeout = 400ms});
  Result<LoadedModel> loaded = Error{};
  // A busy machine may take longer than that for a load.
  for (int attempt = 0; attempt != 100 && !loaded; ++attempt)
    loaded = loadModule(*late, moduleText(), weights());
  ASSERT_TRUE(loaded) << loaded.error().message;
  auto slow = Executable::create(late, loaded->model);
  ASSERT_TRUE(slow);
  auto all = workers();
  ASSERT_EQ(all.size(), 2u);
  for (pid_t each : all)
    kill(each, SIGSTOP);
  Status status = runRows(**slow, 4);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::CompilerFailed);
  EXPECT_THAT(status.error().message, AllOf(HasSubstr("400 ms"), HasSubstr("'affine'"), HasSubstr("{B=4}")));
  EXPECT_EQ(workers().size(), 1u);
  kill(workers()[0], SIGCONT);
  EXPECT_TRUE(runRows(**executable, 4));
}

TEST(Worker, MemoryLimit) {
  // A graph of some thousand ops takes more than that.
  auto large = load(engineWith({.memoryBytes = 1 << 20}), 4000);
  ASSERT_FALSE(large);
  const Error &error = large.error();
  EXPECT_EQ(error.code, ErrorCode::CompilerFailed);
#ifndef RLX_SANITIZED // which end the process in their own way
  EXPECT_THAT(error.message, HasSubstr("ran out of memory while loading a module"));
#endif
  auto executable = load(engineWith({.memoryBytes = size_t(1) << 30}));
  ASSERT_TRUE(executable) << executable.error().message;
  EXPECT_TRUE(runRows(**executable, 4));
}

TEST(Worker, NoProgram) {
  Error error = loadError({.program = "/nowhere/rlx-compile-worker"});
  EXPECT_EQ(error.code, ErrorCode::Unsupported);
  EXPECT_THAT(error.message, AllOf(HasSubstr("'/nowhere/rlx-compile-worker'"), HasSubstr("No such file")));
  setenv(kWorkerVariable, "/nowhere/worker", 1);
  error = loadError({.program = ""});
  unsetenv(kWorkerVariable);
  EXPECT_EQ(error.code, ErrorCode::Unsupported);
  EXPECT_THAT(error.message, AllOf(HasSubstr("'/nowhere/worker'"), HasSubstr(kWorkerVariable)));
}

TEST(Worker, ProgramsThatAreNone) {
  Folder folder;
  struct Case {
    const char *body;
    ErrorCode code;
    const char *message;
  } cases[] = {
      {"echo sorry >&2\nexit 3\n", ErrorCode::CompilerFailed, "exited with code 3: sorry"},
      {"kill -SEGV $$\n", ErrorCode::CompilerFailed, "signal 11"},
      {"kill -40 $$\n", ErrorCode::CompilerFailed, "signal 40"}, // issue: it has no name
      {"exit 0\n", ErrorCode::CompilerFailed, "exited with code 0"},
      {"printf 'this is not a frame of any kind' >&0\nexec sleep 100\n", ErrorCode::CompilerFailed, "no reply"},
      {"exec cat >&0\n", ErrorCode::CompilerFailed, "no reply"}, // says what it hears
      {"exec 0</dev/null\nexec sleep 100\n", ErrorCode::CompilerFailed, "left its connection"},
      {"exec sleep 100\n", ErrorCode::CompilerFailed, "did not answer within 500 ms"},
      // A frame that promises more than there is, or than there can be.
      {"printf 'RLXW\\0\\0\\0\\0\\0\\377\\377\\377\\0\\0\\0\\0' >&0\nexec sleep 100\n", ErrorCode::CompilerFailed,
       "no reply"},
      {"printf 'RLXW\\0\\0\\0\\0\\0\\377\\377\\037\\0\\0\\0\\0' >&0\nexec sleep 100\n", ErrorCode::CompilerFailed,
       "did not answer"},
      {"printf 'RLXW\\377\\377\\377\\377\\0\\0\\0\\0\\0\\0\\0\\0' >&0\nexec sleep 100\n", ErrorCode::CompilerFailed,
       "no reply"},
      {"printf 'RLXW\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0' >&0\nexec sleep 100\n", ErrorCode::CompilerFailed,
       "no reply"},
  };
  size_t before = openDescriptors();
  for (const Case &each : cases) {
    Error error = loadError({.program = script(folder, each.body), .timeout = 500ms});
    EXPECT_EQ(error.code, each.code) << each.body;
    // A machine may be too busy for a shell to say anything in time.
    EXPECT_THAT(error.message, AnyOf(HasSubstr(each.message), HasSubstr("did not answer"))) << each.body;
  }
  EXPECT_TRUE(workers().empty());
  EXPECT_EQ(openDescriptors(), before);
}

TEST(Worker, AnotherBuild) {
  Folder folder;
  std::string reply = folder.write("reply", welcome("9.9.9-abc"));
  Error error = loadError({.program = script(folder, "cat " + reply + " >&0\nexec sleep 100\n")});
  EXPECT_EQ(error.code, ErrorCode::Unsupported);
  EXPECT_THAT(error.message, AllOf(HasSubstr("9.9.9-abc"), HasSubstr(buildId()), HasSubstr(folder.path)));
}

// A reply with bytes changed is an error or a model, and nothing else.
TEST(Worker, ChangedReplies) {
  data::WorkerReplyT reply;
  reply.number = 2;
  data::WorkerLoadedT body;
  body.signature = std::make_unique<data::ModelSignatureT>();
  body.signature->name = "affine";
  body.signature->dims.push_back(std::make_unique<data::DimT>());
  body.signature->dims[0]->name = "B";
  for (auto *list : {&body.signature->inputs, &body.signature->outputs}) {
    list->push_back(std::make_unique<data::TensorSpecT>());
    list->back()->name = "x";
    list->back()->type = data::ElementType::F32;
    list->back()->shape = {"B", "4"};
  }
  body.prepared = {1, 2, 3};
  body.warnings = {"w"};
  for (int i = 0; i != 3; ++i) {
    body.weights.push_back(std::make_unique<data::WorkerRowT>());
    body.weights.back()->name = "w" + std::to_string(i);
    body.weights.back()->type = data::ElementType::F32;
    body.weights.back()->shape = {0};
  }
  reply.body.Set(std::move(body));
  const std::string good = framed(reply);
  Folder folder;
  std::string first = folder.write("welcome", welcome(buildId()));
  std::string model = folder.write("m.mlir", moduleText());
  auto loadWith = [&](const std::string &bytes) {
    std::string second = folder.write("second", bytes);
    auto engine = engineWith(
        {.program = script(folder, "cat " + first + " " + second + " >&0\nexec sleep 100\n"), .timeout = 2s});
    return loadModel(*engine, model);
  };
  Result<LoadedModel> unchanged = loadWith(good);
  ASSERT_TRUE(unchanged) << unchanged.error().message;
  EXPECT_EQ(unchanged->model->signature().name, "affine");
  std::mt19937 random(11);
  unsigned errors = 0;
  for (int round = 0; round != 120; ++round) {
    std::string bytes = good;
    for (unsigned changes = 1 + random() % 4; changes != 0; --changes)
      bytes[16 + random() % (bytes.size() - 16)] = static_cast<char>(random() % 3 ? random() : 0xff * (random() % 2));
    errors += !loadWith(bytes);
  }
  EXPECT_GT(errors, 20u);
}

TEST(Worker, HostsThatLookAfterAllChildren) {
  // The system throws the status of children away.
  std::signal(SIGCHLD, SIG_IGN);
  auto engine = engineWith();
  auto executable = load(engine);
  EXPECT_TRUE(executable) << executable.error().message;
  if (executable) {
    Status status = runAndKill(**executable, 4);
    EXPECT_FALSE(status);
    if (!status)
      EXPECT_EQ(status.error().code, ErrorCode::CompilerFailed);
    EXPECT_TRUE(runRows(**executable, 4));
    *executable = nullptr;
  }
  engine.reset();
  // A child whose status nobody wants may be listed for a moment after waiting for it has ended.
  for (int i = 0; i != 1000 && !workers().empty(); ++i)
    std::this_thread::sleep_for(1ms);
  std::signal(SIGCHLD, SIG_DFL);
  EXPECT_TRUE(workers().empty());
}

TEST(Worker, HostsWithManyDescriptors) {
  struct rlimit before, more;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  more = before;
  more.rlim_cur = more.rlim_max;
  setrlimit(RLIMIT_NOFILE, &more);
  std::vector<int> taken;
  for (int i = 0; i != 1500; ++i)
    taken.push_back(dup(0)); // not closed in children by themselves
  {
    auto engine = engineWith();
    auto executable = load(engine);
    ASSERT_TRUE(executable) << executable.error().message;
    EXPECT_TRUE(runRows(**executable, 4));
    // The worker has none of them.
    size_t count = 0;
    DIR *folder = opendir(("/proc/" + std::to_string(workers()[0]) + "/fd").c_str());
    ASSERT_TRUE(folder);
    while (readdir(folder))
      ++count;
    closedir(folder);
    EXPECT_LT(count, 20u);
  }
  for (int each : taken)
    close(each);
  setrlimit(RLIMIT_NOFILE, &before);
}

namespace {
/// What `body` returns, from a child made by fork().
int inChild(const std::function<int()> &body) {
  pid_t child = fork();
  if (child == 0)
    _exit(body());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
} // namespace

TEST(Worker, HostsWithoutStreams) {
  EXPECT_EQ(inChild([] {
              for (int stream : {0, 1, 2})
                close(stream);
              auto executable = load(engineWith({.threads = 1}));
              return executable && runRows(**executable, 4) ? 0 : 1;
            }),
            0);
}

// A child made by fork() has workers of its own, and leaves its parent's alone.
TEST(Worker, AfterFork) {
  auto engine = engineWith({.threads = 1});
  auto executable = load(engine);
  ASSERT_TRUE(executable);
  pid_t worker = workers()[0];
  EXPECT_EQ(inChild([&] {
              if (!runRows(**executable, 4))
                return 1;
              if (workers().empty())
                return 2;
              *executable = nullptr;
              engine.reset();
              return workers().empty() ? 0 : 3;
            }),
            0);
  EXPECT_EQ(workers(), std::vector<pid_t>{worker});
  EXPECT_TRUE(runRows(**executable, 4));
}

// A worker goes with its host, even one that had no time to say so.
TEST(Worker, EndsWithItsHost) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  pid_t host = fork();
  if (host == 0) {
    auto executable = load(engineWith({.threads = 1}));
    char good = executable ? 1 : 0;
    (void)!write(ready[1], &good, 1);
    for (;;)
      pause();
  }
  char good = 0;
  ASSERT_EQ(read(ready[0], &good, 1), 1);
  EXPECT_EQ(good, 1);
  std::vector<pid_t> theirs = childrenOf(host);
  ASSERT_EQ(theirs.size(), 1u);
  kill(host, SIGKILL);
  waitpid(host, nullptr, 0);
  bool gone = false;
  for (int i = 0; i != 500 && !gone; ++i) {
    std::this_thread::sleep_for(10ms);
    std::string stat = contents("/proc/" + std::to_string(theirs[0]) + "/stat");
    // Whoever inherits it may not have looked yet.
    gone = stat.empty() || stat[stat.rfind(')') + 2] == 'Z';
  }
  EXPECT_TRUE(gone);
  close(ready[0]);
  close(ready[1]);
}

// Models that are gone are forgotten by the worker too: its memory stays flat.
TEST(Worker, ForgetsModels) {
  auto engine = engineWith({.threads = 1});
  auto residentKiB = [] {
    std::ifstream file("/proc/" + std::to_string(workers()[0]) + "/status");
    for (std::string line; std::getline(file, line);)
      if (line.starts_with("RssAnon:"))
        return std::atol(line.c_str() + 8);
    return 0l;
  };
  long half = 0;
  for (int round = 0; round != 120; ++round) {
    auto executable = load(engine, 12);
    ASSERT_TRUE(executable) << executable.error().message;
    ASSERT_TRUE(runRows(**executable, 2, 12));
    if (round == 60)
      half = residentKiB();
  }
  EXPECT_LT(residentKiB(), half + 8192);
}
