//===- ThreadsTest.cpp - one executable, many threads ---------------------===//
#include "CAPITest.h"

#include <thread>

using namespace rlx::capitest;

TEST(CAPIThreads, RunsSetsAndClones) {
  Executable executable = load(kScale, 2);
  const float ones[] = {1, 1, 1, 1}, twos[] = {2, 2, 2, 2};
  ASSERT_OK(rlx_executable_set_param(executable, "w", RLX_F32, ones, sizeof ones));
  auto work = [&](unsigned seed) {
    for (unsigned round = 0; round != 60; ++round) {
      Rows x((seed * 7 + round) % 9, 1);
      rlx_input input = x.input(round % 2 ? "x" : nullptr);
      Executable clone;
      rlx_executable *target = executable;
      if (round % 8 == 0) {
        ASSERT_OK(rlx_executable_clone(executable, &clone));
        target = clone;
      }
      if (round % 4 == seed)
        ASSERT_OK(rlx_executable_set_param(target, "w", RLX_F32, round % 3 ? ones : twos, sizeof ones));
      rlx_tensor *outputs[2] = {};
      ASSERT_OK(rlx_run(target, &input, 1, outputs, 2, nullptr));
      Tensor scaled(outputs[0]), twice(outputs[1]);
      EXPECT_EQ(valuesOf(twice), x.times(2));
      // One or the other, but the same for all of a run.
      std::vector<float> values = valuesOf(scaled);
      EXPECT_TRUE(values == x.times(1) || values == x.times(2));
      if (round % 16 == 0) {
        Snapshot snapshot;
        ASSERT_OK(rlx_executable_snapshot(executable, &snapshot));
      }
    }
  };
  std::vector<std::thread> threads;
  for (unsigned i = 0; i != 4; ++i)
    threads.emplace_back(work, i);
  for (std::thread &thread : threads)
    thread.join();
}

TEST(CAPIThreads, AContextRunsOnceAtATime) {
  Executable executable = load(kJoin);
  Context context;
  ASSERT_OK(rlx_context_create(executable, &context));
  std::atomic<int> done{0}, refused{0};
  auto work = [&] {
    Rows x(500), y(500);
    rlx_input inputs[] = {x.input("x"), y.input("y")};
    for (int i = 0; i != 200; ++i) {
      const rlx_view *views = nullptr;
      std::string failed = text(rlx_context_run(context, inputs, 2, nullptr, 0, &views, nullptr, nullptr));
      if (failed.empty())
        ++done;
      else if (failed.starts_with(std::to_string(RLX_INVALID_ARGUMENT)))
        ++refused;
      else
        ADD_FAILURE() << failed;
    }
  };
  std::thread other(work);
  work();
  other.join();
  EXPECT_GT(done, 0);
  EXPECT_EQ(done + refused, 400);
}
