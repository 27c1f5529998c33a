//===- LibraryTest.cpp - a compiler in a library that is opened -----------===//
//
// This program links the runtime alone, and is a host that carries another MLIR:
// one whose functions end the process.
//
//===----------------------------------------------------------------------===//
#include "rlx/Runtime/CompilerLibrary.h"
#include "rlx/Runtime/Engine.h"
#include "rlx/Runtime/Executable.h"
#include "rlx/Runtime/Load.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) ||                                                   \
    (defined(__has_feature) && (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer)))
#define RLX_OTHER_MALLOC
#endif

using namespace rlx;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

namespace {

constexpr const char *kModule = R"(
rlx.graph @twice(%x: tensor<?xf32, #rlx.dims<[B]>> {rlx.name = "x"}) -> (tensor<?xf32, #rlx.dims<[B]>> {rlx.name = "y"})
    attributes {dims = [#rlx.dim<"B">]} {
  %y = rlx.add %x, %x : tensor<?xf32, #rlx.dims<[B]>>, tensor<?xf32, #rlx.dims<[B]>> -> tensor<?xf32, #rlx.dims<[B]>>
  rlx.output %y : tensor<?xf32, #rlx.dims<[B]>>
})";

/// Where the variable points while the object lives.
class Variable {
public:
  explicit Variable(const char *value) { setenv(kCompilerLibraryVariable, value, 1); }
  ~Variable() { unsetenv(kCompilerLibraryVariable); }
};

std::shared_ptr<Engine> engine() {
  EngineOptions options;
  options.threads = 2;
  auto made = Engine::create(std::move(options));
  EXPECT_TRUE(made);
  return *made;
}

Error errorOf() {
  Result<LoadedModel> loaded = loadModule(*engine(), kModule, nullptr);
  EXPECT_FALSE(loaded);
  return loaded ? Error{} : loaded.error();
}

/// "right", or what went wrong.
std::string resultIn(const std::shared_ptr<Engine> &engine, float last) {
  Result<LoadedModel> loaded = loadModule(*engine, kModule, nullptr);
  if (!loaded)
    return loaded.error().message;
  auto executable = Executable::create(engine, loaded->model);
  if (!executable)
    return executable.error().message;
  std::vector<float> x = {1, -2, last};
  std::vector<int64_t> shape = {3};
  NamedTensor inputs[] = {{"x", {data::ElementType::F32, shape, x.data(), 12}}};
  auto outputs = (*executable)->run(inputs);
  if (!outputs)
    return outputs.error().message;
  auto y = (*outputs)[0].as<float>();
  return y[0] == 2 && y[1] == -4 && y[2] == 2 * last ? "right" : "wrong";
}

std::string maps() {
  std::ostringstream all;
  all << std::ifstream("/proc/self/maps").rdbuf();
  return all.str();
}

} // namespace

TEST(Library, NotThere) {
  unsetenv(kCompilerLibraryVariable);
  Error error = errorOf();
  EXPECT_EQ(error.code, ErrorCode::Unsupported);
  // Beside this program, in ../lib from there, and wherever the loader looks.
  EXPECT_THAT(error.message, AllOf(HasSubstr("unittests/bin/librlx-compiler.so'"),
                                   HasSubstr("unittests/bin/../lib/librlx-compiler.so'"), HasSubstr("loader's path"),
                                   HasSubstr(kCompilerLibraryVariable)));
  Variable nowhere("/nowhere/librlx-compiler.so");
  EXPECT_THAT(errorOf().message, HasSubstr("'/nowhere/librlx-compiler.so'"));
}

TEST(Library, NotOne) {
  {
    Variable text("/proc/self/status"); // a file that is no library
    Error error = errorOf();
    EXPECT_EQ(error.code, ErrorCode::Unsupported);
    EXPECT_THAT(error.message, AllOf(HasSubstr("/proc/self/status"), HasSubstr("cannot be opened")));
  }
  Variable other(RLX_TEST_NO_COMPILER);
  EXPECT_THAT(errorOf().message, AllOf(HasSubstr(RLX_TEST_NO_COMPILER), HasSubstr("not a compiler library")));
}

TEST(Library, AnotherBuild) {
  Variable other(RLX_TEST_OTHER_LIBRARY);
  Error error = errorOf();
  EXPECT_EQ(error.code, ErrorCode::Unsupported);
  EXPECT_THAT(error.message, AllOf(HasSubstr(RLX_TEST_OTHER_LIBRARY), HasSubstr("9.9.9-abc"), HasSubstr(buildId())));
}

// In a process of its own, started by the next test.
TEST(Library, DISABLED_Value) { EXPECT_EQ(resultIn(engine(), 7), "right"); }

#ifndef RLX_OTHER_MALLOC
// Memory goes between the compiler and the C library in both directions, so that a mix of two would end the process.
TEST(Library, InAProcessWithAMallocOfItsOwn) {
  std::string self = std::filesystem::read_symlink("/proc/self/exe");
  std::string command = "LD_PRELOAD='" RLX_TEST_OTHER_MALLOC "' RLX_COMPILER_LIBRARY='" RLX_TEST_COMPILER_LIBRARY
                        "' '" +
                        self + "' --gtest_also_run_disabled_tests --gtest_filter=Library.DISABLED_Value > /dev/null";
  EXPECT_EQ(std::system(command.c_str()), 0);
}
#endif

TEST(Library, OpenedWhenNeededBesideAnotherMlir) {
  ASSERT_TRUE(dlopen(RLX_TEST_OTHER_LIBRARY, RTLD_NOW | RTLD_GLOBAL)) << dlerror();
  constexpr const char *symbol = "_ZN4mlir6verifyEPNS_9OperationEb";
  void *theirs = dlsym(RTLD_DEFAULT, symbol);
  ASSERT_TRUE(theirs);
  Variable here(RLX_TEST_COMPILER_LIBRARY);
  std::shared_ptr<Engine> made = engine();
  EXPECT_THAT(maps(), AllOf(Not(HasSubstr("libLLVM")), Not(HasSubstr("libMLIR"))));

  // Several at once, all at their first need.
  std::vector<std::thread> threads;
  std::vector<std::string> results(4);
  for (size_t t = 0; t != results.size(); ++t)
    threads.emplace_back([&, t] { results[t] = resultIn(made, static_cast<float>(t)); });
  for (std::thread &thread : threads)
    thread.join();
#ifdef RLX_OTHER_MALLOC
  // A malloc of the process's own forbids to bind the compiler to its own MLIR first.
  for (const std::string &result : results)
    EXPECT_THAT(result, HasSubstr("another MLIR"));
#else
  for (const std::string &result : results)
    EXPECT_EQ(result, "right");
#endif
  // Nothing of it has leaked out.
  EXPECT_EQ(dlsym(RTLD_DEFAULT, symbol), theirs);
  EXPECT_EQ(dlsym(RTLD_DEFAULT, kCompilerLibrarySymbol),
            dlsym(dlopen(RLX_TEST_OTHER_LIBRARY, RTLD_NOW), kCompilerLibrarySymbol));
  EXPECT_EQ(dlsym(RTLD_DEFAULT, "_ZN4mlir11MLIRContextC1ENS0_9ThreadingE"), nullptr);
}
