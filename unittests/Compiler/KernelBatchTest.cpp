//===- KernelBatchTest.cpp - many kernels at once -------------------------===//
#include "KernelRequests.h"
#include "Pools.h"

#include "rlx/Codegen/KernelCompiler.h"
#include "rlx/Data/KernelABI.h"

#include <gtest/gtest.h>

using namespace rlx;
using data::ElementType;
using data::Opcode;

namespace {

/// One operation on each element of a vector.
data::KernelSpecT unary(Opcode op, ElementType type, std::string target = hostTarget()) {
  data::KernelSpecT spec;
  spec.family = data::Family::Loops;
  spec.rank = 1;
  spec.target = std::move(target);
  spec.revision = kEmitterRevision;
  for (auto *list : {&spec.inputs, &spec.outputs}) {
    list->push_back(std::make_unique<data::AccessSpecT>());
    list->back()->type = type;
    list->back()->inner = data::InnerMode::Contiguous;
  }
  spec.program = {data::Instr(op, type, 0, 0, 0, 0)};
  spec.results = {1};
  return spec;
}

std::vector<data::KernelSpecT> batch() {
  std::vector<data::KernelSpecT> specs;
  for (std::string target : {hostTarget(), std::string("x86_64:x86-64-v3:")})
    for (Opcode op : {Opcode::Exp, Opcode::Neg, Opcode::Tanh, Opcode::Abs, Opcode::Erf, Opcode::Sqrt})
      specs.push_back(unary(op, ElementType::F32, target));
  return specs;
}

} // namespace

TEST(KernelBatch, BytesDoNotDependOnThreadsOrNeighbours) {
  std::vector<data::KernelSpecT> specs = batch();
  std::vector<data::KernelImageT> alone;
  for (const data::KernelSpecT &spec : specs) {
    auto image = compileKernel(spec);
    ASSERT_TRUE(image) << image.error().message;
    alone.push_back(std::move(*image));
  }
  auto pools = fakes::oddPools();
  for (unsigned threads : {1u, 4u}) {
    auto pool = ThreadPool::create(threads);
    ASSERT_TRUE(pool);
    pools.push_back(*pool);
  }
  for (const auto &pool : pools) {
    PhaseTimes times;
    auto images = compiler::compileKernelBatch(specs, *pool, times, {});
    ASSERT_TRUE(images) << images.error().message;
    ASSERT_EQ(images->size(), alone.size());
    for (size_t i = 0; i != alone.size(); ++i)
      EXPECT_EQ((*images)[i], alone[i]) << i;
    std::vector<std::string> phases;
    for (const auto &[phase, ms] : times)
      phases.push_back(phase);
    EXPECT_EQ(phases, (std::vector<std::string>{"emit", "optimize", "codegen", "link"}));
  }
}

TEST(KernelBatch, TheFirstErrorIsReported) {
  std::vector<data::KernelSpecT> specs = batch();
  specs[3].target = "x86_64:no-such-cpu:";
  specs[7].revision = 0;
  auto pool = ThreadPool::create(4);
  ASSERT_TRUE(pool);
  for (int turn = 0; turn != 3; ++turn) {
    PhaseTimes times;
    auto images = compiler::compileKernelBatch(specs, **pool, times, {});
    ASSERT_FALSE(images);
    EXPECT_NE(images.error().message.find("no-such-cpu"), std::string::npos) << images.error().message;
  }
  // A compiler that refused a spec compiles the next one as if nothing had been.
  KernelCompiler compiler;
  EXPECT_FALSE(compiler.compile(specs[3]));
  EXPECT_FALSE(compiler.compile(specs[7]));
  auto after = compiler.compile(specs[0]), fresh = compileKernel(specs[0]);
  ASSERT_TRUE(after);
  ASSERT_TRUE(fresh);
  EXPECT_EQ(*after, *fresh);
  PhaseTimes none;
  auto empty = compiler::compileKernelBatch({}, **pool, none, {});
  ASSERT_TRUE(empty);
  EXPECT_TRUE(empty->empty());
}
