//===- InstantiateTest.cpp ------------------------------------------------===//
#include "CpuCaches.h"
#include "Fakes.h"

#include "rlx/Data/KernelABI.h"

#include <bit>
#include <random>
#include <thread>

using namespace rlx;
using namespace rlx::fakes;
using data::AccessKind;
using data::BufferKind;
using data::ExprOp;
using data::Family;
using data::InnerMode;
using data::Opcode;

namespace {
std::shared_ptr<const Model> modelOf(SignatureBuilder signature, std::shared_ptr<WeightTable> weights = nullptr) {
  auto model = Model::create(std::move(signature.signature), std::move(weights), nullptr);
  EXPECT_OK(model);
  return model ? *model : nullptr;
}

std::vector<std::vector<uint8_t>> keysOf(const Specialization &made) {
  std::vector<std::vector<uint8_t>> keys;
  for (const auto &kernel : made.kernels)
    keys.push_back(kernel->key);
  return keys;
}

/// y[B,S,D] = x[B,S,D] + bias[D], D = 8: one Loops step.
struct AddBias {
  std::shared_ptr<const Model> model = modelOf(SignatureBuilder()
                                                   .dim("B")
                                                   .dim("S")
                                                   .input("x", ElementType::F32, {"B", "S", "8"})
                                                   .input("bias", ElementType::F32, {"8"})
                                                   .output("y", ElementType::F32, {"B", "S", "8"}));
  PlanBuilder p;
  uint32_t B = p.symbol(0), S = p.symbol(1), D = p.constant(8), one = p.constant(1), zero = p.constant(0);
  uint32_t SD = p.mul(S, D), BSD = p.mul(B, SD);
  uint32_t x = p.buffer(BufferKind::Input, ElementType::F32, BSD, 0);
  uint32_t bias = p.buffer(BufferKind::Input, ElementType::F32, D, 1);
  uint32_t y = p.buffer(BufferKind::Output, ElementType::F32, BSD, 0);
  data::StepT *step = nullptr;
  AddBias() {
    step = &p.step(Family::Loops, "add", {B, S, D});
    step->inputs.push_back(p.access(x, {SD, D, one}));
    step->inputs.push_back(p.access(bias, {zero, zero, one}));
    step->outputs.push_back(p.access(y, {SD, D, one}));
    step->program.push_back(instr(Opcode::Add, ElementType::F32, 0, 1));
    step->results.push_back(2);
    p.output(y, {B, S, D});
  }
  Result<std::shared_ptr<const Specialization>> at(int64_t b, int64_t s) {
    return instantiate(std::make_shared<data::PlanTemplateT>(*p.plan), *model, {{"B", b}, {"S", s}}, "fake");
  }
};
} // namespace

TEST(Instantiate, MergesLoopsByNumber) {
  AddBias add;
  auto made = add.at(2, 3);
  ASSERT_OK(made);
  ASSERT_EQ((*made)->steps.size(), 1u);
  // B and S merge (x and y are contiguous, bias has stride 0 on both); D stays.
  const StepInstance &call = (*made)->steps[0];
  EXPECT_EQ(call.integers, (std::vector<int64_t>{6, 8, /*x*/ 8, 1, /*bias*/ 0, 1, /*y*/ 8, 1}));
  EXPECT_EQ(call.tiles, 6);
  EXPECT_EQ(call.extents, (std::vector<int64_t>{2, 3, 8}));
  const data::KernelSpecT &spec = (*made)->kernels[0]->spec;
  EXPECT_EQ(spec.rank, 2);
  EXPECT_EQ(spec.target, "fake");
  EXPECT_EQ(spec.inputs[1]->inner, InnerMode::Contiguous);
  EXPECT_EQ((*made)->outputs[0], (std::vector<int64_t>{2, 3, 8}));
}

TEST(Instantiate, OneSequenceAndOneRowUseTheKernelOfMany) {
  AddBias add;
  auto many = add.at(2, 3);
  ASSERT_OK(many);
  for (auto [b, s] : {std::pair(1, 1), std::pair(1, 3), std::pair(2, 1)}) {
    auto made = add.at(b, s);
    ASSERT_OK(made);
    EXPECT_EQ(keysOf(**made), keysOf(**many));
    EXPECT_EQ((*made)->steps[0].integers, (std::vector<int64_t>{b * s, 8, 8, 1, 0, 1, 8, 1}));
    EXPECT_EQ((*made)->steps[0].tiles, b * s);
  }
}

/// y[D,S,B] = x[B,S,D] + bias[D]: the loop along which x is contiguous comes before the innermost.
TEST(Instantiate, TheLoopOfATransposeComesBeforeTheInnermost) {
  AddBias add;
  uint32_t BS = add.p.mul(add.B, add.S);
  add.step->iteration = {add.D, add.S, add.B};
  add.step->inputs[0] = add.p.access(add.x, {add.one, add.D, add.SD});
  add.step->inputs[1] = add.p.access(add.bias, {add.one, add.zero, add.zero});
  add.step->outputs[0] = add.p.access(add.y, {BS, add.B, add.one});
  auto made = add.at(3, 5);
  ASSERT_OK(made);
  EXPECT_EQ((*made)->steps[0].integers, (std::vector<int64_t>{5, 8, 3, 8, 1, 40, 0, 1, 0, 3, 15, 1}));
  EXPECT_EQ((*made)->steps[0].tiles, 40);
  // What may fail keeps its order: it tells which element.
  add.step->program[0] = instr(Opcode::Div, ElementType::I32, 0, 1);
  made = add.at(3, 5);
  ASSERT_OK(made);
  EXPECT_EQ((*made)->steps[0].integers, (std::vector<int64_t>{8, 5, 3, 1, 8, 40, 1, 0, 0, 15, 3, 1}));
}

/// Over S of x[B,S,D]: the loop along which rows lie side by side comes before them.
TEST(Instantiate, TheLoopOfRowsSideBySideComesBeforeTheRow) {
  for (Family family : {Family::Rows, Family::Scan}) {
    AddBias add;
    add.step = &add.p.step(family, "along S", {add.D, add.B, add.S});
    add.step->inputs.push_back(add.p.access(add.x, {add.one, add.SD, add.D}));
    add.step->outputs.push_back(add.p.access(add.y, {add.one, add.SD, add.D}));
    auto made = add.at(3, 5);
    ASSERT_OK(made);
    std::vector<int64_t> want = {3, 8, 5, 40, 1, 8, 40, 1, 8};
    if (family == Family::Rows)
      want.insert(want.begin() + 3, 0); // epsilon
    EXPECT_EQ((*made)->steps.back().integers, want);
    EXPECT_EQ((*made)->steps.back().tiles, 24);
  }
}

// Rows that may fail said the element of another order.
TEST(Instantiate, issue_RowsThatMayFailKeepTheirOrder) {
  AddBias add;
  add.step = &add.p.step(Family::Rows, "along S", {add.D, add.B, add.S});
  add.step->inputs.push_back(add.p.access(add.x, {add.one, add.SD, add.D}));
  add.step->outputs.push_back(add.p.access(add.y, {add.one, add.SD, add.D}));
  add.step->program = {instr(Opcode::Convert, ElementType::I32, 0), instr(Opcode::Div, ElementType::I32, 1, 1)};
  add.step->results = {2};
  auto made = add.at(3, 5);
  ASSERT_OK(made);
  EXPECT_EQ((*made)->steps.back().integers, (std::vector<int64_t>{8, 3, 5, /*epsilon*/ 0, 1, 40, 8, 1, 40, 8}));
}

TEST(Instantiate, LoopsThatAlwaysHaveOneTurnAreDropped) {
  AddBias add;
  // [1, S, D] and [1, 1, D]: the first loop is no dim.
  add.step->iteration[0] = add.one;
  for (auto *list : {&add.step->inputs, &add.step->outputs})
    for (auto &access : *list)
      access->strides[0] = add.one;
  auto made = add.at(1, 1);
  ASSERT_OK(made);
  EXPECT_EQ((*made)->steps[0].integers, (std::vector<int64_t>{1, 8, 8, 1, 0, 1, 8, 1}));
}

TEST(Instantiate, ALoopOfOneTurnIsDroppedWhereItCosts) {
  // The batch innermost, and one: rows of one element.
  AddBias add;
  add.step->iteration = {add.S, add.D, add.B};
  add.step->inputs[0] = add.p.access(add.x, {add.D, add.one, add.SD});
  add.step->inputs[1] = add.p.access(add.bias, {add.zero, add.one, add.zero});
  add.step->outputs[0] = add.p.access(add.y, {add.D, add.one, add.SD});
  auto few = add.at(1, 3);
  ASSERT_OK(few);
  EXPECT_EQ((*few)->kernels[0]->spec.rank, 3);
  auto many = add.at(1, 4096);
  ASSERT_OK(many);
  EXPECT_EQ((*many)->kernels[0]->spec.rank, 2);
  EXPECT_EQ((*many)->steps[0].integers, (std::vector<int64_t>{4096, 8, 8, 1, 0, 1, 8, 1}));
}

TEST(Instantiate, OneLongRowIsOneLoop) {
  // Nothing around it but loops of one turn: it is work for several threads.
  AddBias add;
  add.step->iteration = {add.B, add.B, add.S};
  for (auto *list : {&add.step->inputs, &add.step->outputs})
    for (auto &access : *list)
      access->strides = {add.D, add.zero, add.one};
  add.step->inputs[1] = add.p.access(add.x, {add.zero, add.zero, add.one});
  auto made = add.at(1, 9000);
  ASSERT_OK(made);
  EXPECT_EQ((*made)->steps[0].integers, (std::vector<int64_t>{9000, 1, 1, 1}));
  EXPECT_EQ((*made)->steps[0].tiles, 3);
}

TEST(Instantiate, LargeSingleLoopIsTiledByBlocks) {
  AddBias add;
  // Make the bias as long as x: everything merges.
  add.step->inputs[1] = add.p.access(add.x, {add.SD, add.D, add.one});
  auto made = add.at(2, 257);
  ASSERT_OK(made);
  EXPECT_EQ((*made)->steps[0].integers, (std::vector<int64_t>{2 * 257 * 8, 1, 1, 1}));
  EXPECT_EQ((*made)->steps[0].tiles, 2); // 4112 = 4096 + 16
}

TEST(Instantiate, EmptyStepsAreLeftOut) {
  AddBias add;
  for (auto [b, s] : {std::pair(0, 3), std::pair(3, 0), std::pair(0, 0)}) {
    auto made = add.at(b, s);
    ASSERT_OK(made);
    EXPECT_TRUE((*made)->steps.empty());
    EXPECT_TRUE((*made)->kernels.empty());
    EXPECT_EQ((*made)->outputs[0], (std::vector<int64_t>{b, s, 8}));
  }
}

TEST(Instantiate, UnitLoopsKeepTheVariant) {
  // y[N] = x[N] + c with a scalar c: the same kernel at N = 1 as at N = 5.
  auto model = modelOf(SignatureBuilder()
                           .dim("N")
                           .input("x", ElementType::F32, {"N"})
                           .input("c", ElementType::F32, {})
                           .output("y", ElementType::F32, {"N"}));
  PlanBuilder p;
  uint32_t N = p.symbol(0), one = p.constant(1), zero = p.constant(0);
  uint32_t x = p.buffer(BufferKind::Input, ElementType::F32, N, 0);
  uint32_t c = p.buffer(BufferKind::Input, ElementType::F32, one, 1);
  uint32_t y = p.buffer(BufferKind::Output, ElementType::F32, N, 0);
  data::StepT &step = p.step(Family::Loops, "add", {N});
  step.inputs.push_back(p.access(x, {one}));
  step.inputs.push_back(p.access(c, {zero}));
  step.outputs.push_back(p.access(y, {one}));
  step.program.push_back(instr(Opcode::Add, ElementType::F32, 0, 1));
  step.results.push_back(2);
  p.output(y, {N});
  std::shared_ptr<const data::PlanTemplateT> plan = p.take();
  auto at1 = instantiate(plan, *model, {{"N", 1}}, "fake"), at5 = instantiate(plan, *model, {{"N", 5}}, "fake");
  ASSERT_OK(at1);
  ASSERT_OK(at5);
  EXPECT_EQ(keysOf(**at1), keysOf(**at5));
}

TEST(Instantiate, BroadcastIsAStride) {
  // Case 19: [N,3] + [5,3]; N is 5 or 1.
  auto model = modelOf(SignatureBuilder()
                           .dim("N")
                           .input("x", ElementType::F32, {"N", "3"})
                           .input("z", ElementType::F32, {"5", "3"})
                           .output("y", ElementType::F32, {"5", "3"}));
  PlanBuilder p;
  uint32_t N = p.symbol(0), one = p.constant(1), three = p.constant(3), five = p.constant(5);
  uint32_t x = p.buffer(BufferKind::Input, ElementType::F32, p.mul(N, three), 0);
  uint32_t z = p.buffer(BufferKind::Input, ElementType::F32, p.constant(15), 1);
  uint32_t y = p.buffer(BufferKind::Output, ElementType::F32, p.constant(15), 0);
  data::StepT &step = p.step(Family::Loops, "add", {five, three});
  step.inputs.push_back(p.access(x, {three, one}));
  step.inputs[0]->broadcast = {true, false};
  step.inputs[0]->extents = {N, three};
  step.inputs.push_back(p.access(z, {three, one}));
  step.outputs.push_back(p.access(y, {three, one}));
  step.program.push_back(instr(Opcode::Add, ElementType::F32, 0, 1));
  step.results.push_back(2);
  p.output(y, {five, three});
  std::shared_ptr<const data::PlanTemplateT> plan = p.take();
  auto at5 = instantiate(plan, *model, {{"N", 5}}, "fake");
  ASSERT_OK(at5);
  EXPECT_EQ((*at5)->steps[0].integers, (std::vector<int64_t>{15, 1, 1, 1}));
  auto at1 = instantiate(plan, *model, {{"N", 1}}, "fake");
  ASSERT_OK(at1);
  EXPECT_EQ((*at1)->steps[0].integers, (std::vector<int64_t>{5, 3, /*x*/ 0, 1, /*z*/ 3, 1, /*y*/ 3, 1}));
  EXPECT_ERROR(instantiate(plan, *model, {{"N", 4}}, "fake"), ErrorCode::InvalidArgument, "cannot be broadcast to 5");
}

namespace {
/// y = reduce(x[B,H,W]) over H and W (inner) or over B (outer).
struct Reduction {
  std::shared_ptr<const Model> model;
  PlanBuilder p;
  uint32_t B = p.symbol(0), H = p.symbol(1), W = p.symbol(2), one = p.constant(1);
  uint32_t HW = p.mul(H, W), BHW = p.mul(B, HW);
  uint32_t x = p.buffer(BufferKind::Input, ElementType::F32, BHW, 0);
  explicit Reduction(bool inner) {
    model = modelOf(
        SignatureBuilder()
            .dim("B")
            .dim("H")
            .dim("W")
            .input("x", ElementType::F32, {"B", "H", "W"})
            .output("y", ElementType::F32, inner ? std::vector<std::string>{"B"} : std::vector<std::string>{"H", "W"}));
    uint32_t y = p.buffer(BufferKind::Output, ElementType::F32, inner ? B : HW, 0);
    std::vector<uint32_t> loops = inner ? std::vector{B, H, W} : std::vector{H, W, B};
    data::StepT &step = p.step(Family::Reduce, "sum", loops);
    step.inputs.push_back(p.access(x, inner ? std::vector{HW, W, one} : std::vector{W, one, HW}));
    step.outputs.push_back(p.access(y, inner ? std::vector{one} : std::vector{W, one}));
    step.results = {0};
    step.reduced = inner ? 2 : 1;
    step.reduce_inner = inner;
    p.output(y, inner ? std::vector{B} : std::vector{H, W});
  }
  Result<std::shared_ptr<const Specialization>> at(int64_t b, int64_t h, int64_t w) {
    return instantiate(std::make_shared<data::PlanTemplateT>(*p.plan), *model, {{"B", b}, {"H", h}, {"W", w}}, "fake");
  }
};
} // namespace

TEST(Instantiate, ReduceInner) {
  Reduction sum(true);
  auto made = sum.at(2, 3, 5);
  ASSERT_OK(made);
  // H and W are contiguous at every size: one reduced loop.
  EXPECT_EQ((*made)->steps[0].integers, (std::vector<int64_t>{2, 15, /*x*/ 15, 1, /*y*/ 1}));
  EXPECT_EQ((*made)->steps[0].tiles, 2);
  EXPECT_EQ((*made)->kernels[0]->spec.reduced, 1);
  EXPECT_EQ((*made)->kernels[0]->spec.inputs[0]->inner, InnerMode::Contiguous);
  // Batch 1: a kept loop stays.
  auto one = sum.at(1, 3, 5);
  ASSERT_OK(one);
  EXPECT_EQ((*one)->steps[0].integers, (std::vector<int64_t>{1, 15, 15, 1, 1}));
  EXPECT_EQ(keysOf(**one), keysOf(**made));
}

TEST(Instantiate, LanesOfAReductionDoNotDependOnTheBatch) {
  // x lies as [H,B,W]: H and W are neighbours in memory at batch 1 only, and
  // merging them there would put other elements into a lane than at batch 2.
  Reduction sum(true);
  data::AccessT &access = *sum.p.plan->steps[0]->inputs[0];
  access.strides = {sum.W, sum.p.mul(sum.B, sum.W), sum.one};
  auto one = sum.at(1, 3, 5), two = sum.at(2, 3, 5);
  ASSERT_OK(one);
  ASSERT_OK(two);
  EXPECT_EQ((*one)->steps[0].integers, (std::vector<int64_t>{1, 3, 5, /*x*/ 5, 5, 1, /*y*/ 1}));
  EXPECT_EQ((*two)->steps[0].integers, (std::vector<int64_t>{2, 3, 5, /*x*/ 5, 10, 1, /*y*/ 1}));
  EXPECT_EQ(keysOf(**one), keysOf(**two));
  // Unit reduced loops go: their own sizes decide that.
  auto flat = sum.at(2, 3, 1);
  ASSERT_OK(flat);
  EXPECT_EQ((*flat)->steps[0].integers, (std::vector<int64_t>{2, 3, 1, 2, 1}));
}

TEST(Instantiate, issue_AReductionWithoutLoops) {
  Reduction sum(true);
  data::StepT &step = *sum.p.plan->steps[0];
  step.iteration.clear();
  step.reduced = 0;
  step.inputs[0]->strides.clear();
  step.outputs[0]->strides.clear();
  auto made = sum.at(1, 1, 1);
  ASSERT_OK(made);
  // One element is summed: a kept loop and a reduced one, of one turn.
  EXPECT_EQ((*made)->steps[0].integers, (std::vector<int64_t>{1, 1, /*x*/ 1, 1, /*y*/ 1}));
}

TEST(Instantiate, ReduceOverNothingStillRuns) {
  Reduction sum(true);
  for (auto [h, w] : {std::pair(0, 5), std::pair(3, 0)}) {
    auto made = sum.at(2, h, w);
    ASSERT_OK(made);
    ASSERT_EQ((*made)->steps.size(), 1u);
    EXPECT_EQ((*made)->steps[0].integers[0], 2);
    EXPECT_EQ((*made)->steps[0].integers[1], 0);
    EXPECT_EQ((*made)->kernels[0]->spec.reduced, 1);
  }
  auto none = sum.at(0, 3, 5);
  ASSERT_OK(none);
  EXPECT_TRUE((*none)->steps.empty());
}

TEST(Instantiate, issue_ResultsThatOverflowWhereNothingIsReduced) {
  Reduction sum(false); // y[H,W] over B
  data::StepT &step = *sum.p.plan->steps[0];
  step.iteration[0] = step.iteration[1] = sum.p.constant(int64_t(1) << 40);
  EXPECT_ERROR(sum.at(0, 1, 1), ErrorCode::OutOfRange, "plan step 'sum': its results [1099511627776,1099511627776]");
  EXPECT_ERROR(sum.at(1, 1, 1), ErrorCode::OutOfRange, "overflows");
}

TEST(Instantiate, ReduceOuter) {
  Reduction sum(false);
  auto made = sum.at(4, 2, 3);
  ASSERT_OK(made);
  // H and W merge into one kept loop, along which the lanes run.
  EXPECT_EQ((*made)->steps[0].integers, (std::vector<int64_t>{6, 4, /*x*/ 1, 6, /*y*/ 1}));
  EXPECT_EQ((*made)->steps[0].tiles, 1);
  EXPECT_EQ((*made)->kernels[0]->spec.inputs[0]->inner, InnerMode::Contiguous);
}

TEST(Instantiate, Rows) {
  auto model = modelOf(SignatureBuilder()
                           .dim("B")
                           .dim("S")
                           .input("x", ElementType::F32, {"B", "S", "8"})
                           .input("scale", ElementType::F32, {"8"})
                           .output("y", ElementType::F32, {"B", "S", "8"}));
  PlanBuilder p;
  uint32_t B = p.symbol(0), S = p.symbol(1), D = p.constant(8), one = p.constant(1), zero = p.constant(0);
  uint32_t SD = p.mul(S, D), BSD = p.mul(B, SD);
  uint32_t x = p.buffer(BufferKind::Input, ElementType::F32, BSD, 0);
  uint32_t scale = p.buffer(BufferKind::Input, ElementType::F32, D, 1);
  uint32_t y = p.buffer(BufferKind::Output, ElementType::F32, BSD, 0);
  data::StepT &step = p.step(Family::Rows, "norm", {B, S, D});
  step.inputs.push_back(p.access(x, {SD, D, one}));
  step.inputs.push_back(p.access(scale, {zero, zero, one}));
  step.outputs.push_back(p.access(y, {SD, D, one}));
  step.rows = data::RowsKind::RmsNorm;
  step.has_scale = true;
  step.epsilon = 1e-5;
  p.output(y, {B, S, D});
  std::shared_ptr<const data::PlanTemplateT> plan = std::make_shared<data::PlanTemplateT>(*p.plan);
  auto made = instantiate(plan, *model, {{"B", 2}, {"S", 3}}, "fake");
  ASSERT_OK(made);
  const StepInstance &call = (*made)->steps[0];
  EXPECT_EQ(call.integers, (std::vector<int64_t>{6, 8, std::bit_cast<int64_t>(1e-5), 8, 1, 1, 8, 1}));
  EXPECT_EQ(call.tiles, 6);
  ASSERT_EQ(call.pointers.size(), 3u);
  EXPECT_EQ(call.pointers[1].buffer, scale);
  // A scale that differs from row to row is not what the family computes.
  step.inputs[1]->strides[0] = one;
  EXPECT_ERROR(instantiate(std::make_shared<data::PlanTemplateT>(*p.plan), *model, {{"B", 2}, {"S", 1}}, "fake"),
               ErrorCode::InvalidModel, "");
}

namespace {
/// y[B,M,N] = a[B,M,K] . b[K,N] (shared) or . b[B,K,N].
struct Product {
  std::shared_ptr<const Model> model;
  PlanBuilder p;
  uint32_t B = p.symbol(0), M = p.symbol(1), K = p.symbol(2), N = p.symbol(3), one = p.constant(1),
           zero = p.constant(0);
  uint32_t MK = p.mul(M, K), MN = p.mul(M, N), KN = p.mul(K, N);
  explicit Product(bool shared) {
    model = modelOf(SignatureBuilder()
                        .dim("B")
                        .dim("M")
                        .dim("K")
                        .dim("N")
                        .input("a", ElementType::F32, {"B", "M", "K"})
                        .input("b", ElementType::F32,
                               shared ? std::vector<std::string>{"K", "N"} : std::vector<std::string>{"B", "K", "N"})
                        .output("y", ElementType::F32, {"B", "M", "N"}));
    uint32_t a = p.buffer(BufferKind::Input, ElementType::F32, p.mul(B, MK), 0);
    uint32_t b = p.buffer(BufferKind::Input, ElementType::F32, shared ? KN : p.mul(B, KN), 1);
    uint32_t y = p.buffer(BufferKind::Output, ElementType::F32, p.mul(B, MN), 0);
    data::StepT &step = p.step(Family::Matmul, "matmul", {B, M, N});
    step.inputs.push_back(p.access(a, {MK, K, zero}));
    step.inputs.push_back(p.access(b, {shared ? zero : KN, zero, one}));
    step.outputs.push_back(p.access(y, {MN, N, one}));
    step.results = {0};
    step.k = K;
    step.a_k_stride = one;
    step.b_k_stride = N;
    p.output(y, {B, M, N});
  }
  Result<std::shared_ptr<const Specialization>> at(int64_t b, int64_t m, int64_t k, int64_t n) {
    return instantiate(std::make_shared<data::PlanTemplateT>(*p.plan), *model, {{"B", b}, {"M", m}, {"K", k}, {"N", n}},
                       "fake");
  }
};
} // namespace

TEST(Instantiate, MatmulBySharedMatrixIsOneProduct) {
  Product product(true);
  auto made = product.at(2, 3, 4, 20);
  ASSERT_OK(made);
  const StepInstance &call = (*made)->steps[0];
  // The batch becomes rows: M = 6, many rows, no batch loop.
  RowBlocks blocks = rowBlocks(cpuCaches());
  EXPECT_EQ(call.integers,
            (std::vector<int64_t>{6, 20, 4, /*a*/ 4, 1, /*b*/ 20, 1, /*y*/ 20, 1, blocks.large, blocks.block, 0}));
  EXPECT_EQ(call.tiles, 2);
  EXPECT_EQ((*made)->kernels[0]->spec.row_class, kMatmulManyRows);
  EXPECT_EQ((*made)->kernels[0]->spec.batch_rank, 0);
  EXPECT_EQ((*made)->scratchBytes, matmulScratchBytes(4, 4));
  EXPECT_EQ(call.pointers.back().kind, PointerSource::Kind::Scratch);
}

TEST(Instantiate, MatmulRowClasses) {
  Product product(false);
  RowBlocks blocks = rowBlocks(cpuCaches());
  for (int64_t m = 1; m != 9; ++m) {
    auto made = product.at(2, m, 4, 5);
    ASSERT_OK(made);
    EXPECT_EQ((*made)->kernels[0]->spec.row_class, m <= kMatmulFewRows ? kMatmulFewRows : kMatmulManyRows);
    EXPECT_EQ((*made)->kernels[0]->spec.batch_rank, 1);
    EXPECT_EQ((*made)->steps[0].integers, (std::vector<int64_t>{2, m, 5, 4, /*a*/ m * 4, 4, 1, /*b*/ 20, 5, 1,
                                                                /*y*/ m * 5, 5, 1, blocks.large, blocks.block, 0}));
    EXPECT_EQ((*made)->steps[0].tiles, 2);
  }
}

TEST(Instantiate, MatmulZeroExtents) {
  // Case 57.
  Product product(false);
  for (auto sizes : {std::array{0, 2, 3, 4}, std::array{2, 0, 3, 4}, std::array{2, 2, 3, 0}}) {
    auto made = product.at(sizes[0], sizes[1], sizes[2], sizes[3]);
    ASSERT_OK(made);
    EXPECT_TRUE((*made)->steps.empty());
  }
  auto inner = product.at(2, 2, 0, 4);
  ASSERT_OK(inner);
  ASSERT_EQ((*inner)->steps.size(), 1u); // writes zeros
}

namespace {
/// y[B,M,2,D] = attention of q[B,M,2,K], k[B,N,2,K], v[B,N,2,D], two heads inside of the rows, and mask[B,N], added.
struct Attends {
  std::shared_ptr<const Model> model;
  PlanBuilder p;
  uint32_t B = p.symbol(0), M = p.symbol(1), N = p.symbol(2), K = p.symbol(3), D = p.symbol(4), one = p.constant(1),
           two = p.constant(2), zero = p.constant(0);
  uint32_t K2 = p.mul(K, two), D2 = p.mul(D, two);
  data::StepT *step = nullptr;
  Attends() {
    model = modelOf(SignatureBuilder()
                        .dim("B")
                        .dim("M")
                        .dim("N")
                        .dim("K")
                        .dim("D")
                        .input("q", ElementType::F32, {"B", "M", "2 * K"})
                        .input("k", ElementType::F32, {"B", "N", "2 * K"})
                        .input("v", ElementType::F32, {"B", "N", "2 * D"})
                        .input("mask", ElementType::F32, {"B", "N"})
                        .output("y", ElementType::F32, {"B", "M", "2 * D"}));
    uint32_t MK2 = p.mul(M, K2), NK2 = p.mul(N, K2), ND2 = p.mul(N, D2), MD2 = p.mul(M, D2);
    uint32_t q = p.buffer(BufferKind::Input, ElementType::F32, p.mul(B, MK2), 0);
    uint32_t k = p.buffer(BufferKind::Input, ElementType::F32, p.mul(B, NK2), 1);
    uint32_t v = p.buffer(BufferKind::Input, ElementType::F32, p.mul(B, ND2), 2);
    uint32_t mask = p.buffer(BufferKind::Input, ElementType::F32, p.mul(B, N), 3);
    uint32_t y = p.buffer(BufferKind::Output, ElementType::F32, p.mul(B, MD2), 0);
    step = &p.step(Family::Attention, "attention", {B, two, M, N});
    step->inputs.push_back(p.access(q, {MK2, K, K2, zero}));
    step->inputs.push_back(p.access(k, {NK2, K, zero, K2}));
    step->inputs.push_back(p.access(v, {ND2, D, zero, D2}));
    step->inputs.push_back(p.access(mask, {N, zero, zero, one}));
    step->outputs.push_back(p.access(y, {MD2, D, D2, zero}));
    step->program.push_back(instr(Opcode::Add, ElementType::F32, 0, 1));
    step->results = {2};
    step->k = K;
    step->d = D;
    step->a_k_stride = step->b_k_stride = step->v_stride = step->output_stride = one;
    p.output(y, {B, M, D2});
  }
  Result<std::shared_ptr<const Specialization>> at(int64_t b, int64_t m, int64_t n, int64_t k = 4, int64_t d = 3) {
    return instantiate(std::make_shared<data::PlanTemplateT>(*p.plan), *model,
                       {{"B", b}, {"M", m}, {"N", n}, {"K", k}, {"D", d}}, "fake");
  }
};
} // namespace

TEST(Instantiate, AttentionArguments) {
  Attends attends;
  attends.step->zero_nan = true;
  auto made = attends.at(3, 17, 5);
  ASSERT_OK(made);
  const StepInstance &call = (*made)->steps[0];
  EXPECT_EQ(call.integers, (std::vector<int64_t>{3,
                                                 2,
                                                 17,
                                                 5,
                                                 4,
                                                 3,
                                                 /*q*/ 17 * 8,
                                                 4,
                                                 8,
                                                 1,
                                                 /*k*/ 5 * 8,
                                                 4,
                                                 8,
                                                 1,
                                                 /*v*/ 5 * 6,
                                                 3,
                                                 6,
                                                 1,
                                                 /*y*/ 17 * 6,
                                                 3,
                                                 6,
                                                 1,
                                                 /*mask*/ 5,
                                                 0,
                                                 0,
                                                 1}));
  EXPECT_EQ(call.tiles, 3 * 2 * 3);
  EXPECT_EQ(call.extents, (std::vector<int64_t>{3, 2, 17, 5}));
  ASSERT_EQ(call.pointers.size(), 6u);
  EXPECT_EQ(call.pointers[3].buffer, 4u); // the output comes before the program's inputs
  EXPECT_EQ(call.pointers[4].buffer, 3u);
  EXPECT_EQ(call.pointers[5].kind, PointerSource::Kind::Scratch);
  EXPECT_EQ((*made)->scratchBytes, attentionScratchBytes(17, 5, 4, 3));
  const data::KernelSpecT &spec = (*made)->kernels[0]->spec;
  EXPECT_EQ(spec.rank, 4);
  EXPECT_EQ(spec.batch_rank, 2);
  EXPECT_EQ(spec.row_class, kAttentionRows);
  EXPECT_TRUE(spec.zero_nan);
  EXPECT_EQ(spec.inputs.size(), 4u);
  EXPECT_EQ(spec.outputs.size(), 1u);
}

TEST(Instantiate, OneAttentionKernelForAllSizes) {
  Attends attends;
  auto made = attends.at(3, 17, 5);
  ASSERT_OK(made);
  for (auto [b, m, n] : {std::array{1, 1, 1}, std::array{1, 17, 5}, std::array{3, 1, 5}, std::array{2, 300, 300}}) {
    auto other = attends.at(b, m, n);
    ASSERT_OK(other);
    EXPECT_EQ(keysOf(**other), keysOf(**made));
  }
  // A single query that looks at many keys is the one other case.
  auto decode = attends.at(2, 1, 200);
  ASSERT_OK(decode);
  EXPECT_EQ((*decode)->kernels[0]->spec.row_class, 1);
  EXPECT_EQ((*decode)->steps[0].tiles, 4);
}

TEST(Instantiate, AttentionOverNothing) {
  Attends attends;
  for (auto sizes : {std::array{0, 2, 3, 4, 5}, std::array{2, 0, 3, 4, 5}, std::array{2, 2, 3, 4, 0}}) {
    auto made = attends.at(sizes[0], sizes[1], sizes[2], sizes[3], sizes[4]);
    ASSERT_OK(made);
    EXPECT_TRUE((*made)->steps.empty());
  }
  // Sums over no keys or no elements are written.
  for (auto [n, k] : {std::pair(0, 4), std::pair(3, 0)}) {
    auto made = attends.at(2, 2, n, k);
    ASSERT_OK(made);
    EXPECT_EQ((*made)->steps.size(), 1u);
  }
}

TEST(Instantiate, AttentionThatIsMalformed) {
  auto expect = [](auto change, ErrorCode code, const char *text) {
    Attends attends;
    change(attends);
    EXPECT_ERROR(attends.at(2, 3, 4), code, text);
  };
  expect([](Attends &a) { a.step->inputs[0]->strides[3] = a.one; }, ErrorCode::InvalidModel, "moves along the keys");
  expect([](Attends &a) { a.step->inputs[2]->strides[2] = a.one; }, ErrorCode::InvalidModel, "moves along the queries");
  expect([](Attends &a) { a.step->outputs[0]->strides[2] = a.zero; }, ErrorCode::InvalidModel,
         "one element of an output");
  expect([](Attends &a) { a.step->output_stride = a.zero; }, ErrorCode::InvalidModel, "one element of an output");
  expect([](Attends &a) { a.step->inputs.resize(2); }, ErrorCode::InvalidModel, "q, k and v");
  expect([](Attends &a) { a.step->iteration.resize(1); }, ErrorCode::InvalidModel, "queries and keys");
  expect([](Attends &a) { a.step->k = a.K2; }, ErrorCode::InvalidModel, "reaches from element");
  expect([](Attends &a) { a.step->d = 4711; }, ErrorCode::InvalidModel, "not well formed");
  expect([](Attends &a) { a.step->v_stride = 4711; }, ErrorCode::InvalidModel, "not well formed");
  expect([](Attends &a) { a.step->results = {7}; }, ErrorCode::InvalidModel, "no value");
  expect([](Attends &a) { a.step->d = a.p.constant(-1); }, ErrorCode::OutOfRange, "negative");
  // Enormous sizes of nothing: no key, but more rows than can be counted.
  Attends attends;
  for (auto *list : {&attends.step->inputs, &attends.step->outputs})
    for (auto &access : *list)
      access->strides.assign(4, attends.zero);
  attends.step->iteration = {attends.p.constant(INT64_MAX), attends.two, attends.M, attends.zero};
  EXPECT_ERROR(attends.at(2, 3, 4), ErrorCode::OutOfRange, "overflow");
}

TEST(Instantiate, PackedWeight) {
  auto weights = std::make_shared<WeightTable>();
  auto values = std::make_shared<std::vector<float>>(12, 1.0f);
  ASSERT_TRUE(weights->add("w", {ElementType::F32, {4, 3}, std::as_bytes(std::span(*values)), values}));
  auto model = modelOf(
      SignatureBuilder().dim("M").input("a", ElementType::F32, {"M", "4"}).output("y", ElementType::F32, {"M", "3"}),
      weights);
  PlanBuilder p;
  uint32_t M = p.symbol(0), K = p.constant(4), N = p.constant(3), one = p.constant(1), zero = p.constant(0);
  uint32_t a = p.buffer(BufferKind::Input, ElementType::F32, p.mul(M, K), 0);
  uint32_t b = p.buffer(BufferKind::Weight, ElementType::F32, p.constant(12));
  data::BufferT &packed = *p.plan->buffers[b];
  packed.name = "w";
  packed.layout = data::PackedLayout::Panels16;
  packed.k = 4;
  packed.n = 3;
  packed.k_stride = 3;
  packed.n_stride = 1;
  uint32_t y = p.buffer(BufferKind::Output, ElementType::F32, p.mul(M, N), 0);
  data::StepT &step = p.step(Family::Matmul, "matmul", {M, N});
  step.inputs.push_back(p.access(a, {K, zero}));
  step.inputs.push_back(p.access(b, {zero, zero}));
  step.outputs.push_back(p.access(y, {N, one}));
  step.results = {0};
  step.k = K;
  step.a_k_stride = one;
  step.b_packed = true;
  p.output(y, {M, N});
  auto run = [&] { return instantiate(std::make_shared<data::PlanTemplateT>(*p.plan), *model, {{"M", 2}}, "fake"); };
  auto made = run();
  ASSERT_OK(made);
  EXPECT_EQ((*made)->steps[0].integers, (std::vector<int64_t>{2, 3, 4, 4, 1, 0, 0, 3, 1, rowBlocks(cpuCaches()).large,
                                                              rowBlocks(cpuCaches()).block, 0}));
  EXPECT_EQ((*made)->kernels[0]->spec.b_layout, data::PackedLayout::Panels16);
  // The kernel would read panels of other extents than are there.
  packed.n = 2;
  EXPECT_ERROR(run(), ErrorCode::InvalidModel, "not packed for its sizes");
  packed.n = 3;
  // A packed buffer read as if it were plain.
  step.b_packed = false;
  EXPECT_ERROR(run(), ErrorCode::InvalidModel, "as if it were plain");
  packed.name = "v";
  EXPECT_ERROR(run(), ErrorCode::InvalidModel, "no weight 'v'");
}

TEST(Instantiate, issue_AnOperandThatNoIndexLeadsIntoMovesByAnything) {
  // y[M,64] = a[M,64] . w[64,64] + table[index[M]], which has no rows: its strides are never applied.
  auto weights = std::make_shared<WeightTable>();
  auto values = std::make_shared<std::vector<float>>(64 * 64, 1.0f);
  ASSERT_TRUE(weights->add("w", {ElementType::F32, {64, 64}, std::as_bytes(std::span(*values)), values}));
  auto model = modelOf(SignatureBuilder()
                           .dim("M")
                           .dim("T")
                           .input("a", ElementType::F32, {"M", "64"})
                           .input("table", ElementType::F32, {"T", "64"})
                           .input("index", ElementType::I64, {"M"})
                           .output("y", ElementType::F32, {"M", "64"}),
                       weights);
  auto at = [&](int64_t rows, int64_t stride) {
    PlanBuilder p;
    uint32_t M = p.symbol(0), T = p.symbol(1), K = p.constant(64), one = p.constant(1), zero = p.constant(0);
    uint32_t a = p.buffer(BufferKind::Input, ElementType::F32, p.mul(M, K), 0);
    uint32_t table = p.buffer(BufferKind::Input, ElementType::F32, p.mul(T, K), 1);
    uint32_t index = p.buffer(BufferKind::Input, ElementType::I64, M, 2);
    uint32_t w = p.buffer(BufferKind::Weight, ElementType::F32, p.mul(K, K));
    data::BufferT &packed = *p.plan->buffers[w];
    packed.name = "w";
    packed.layout = data::PackedLayout::Panels16;
    packed.k = packed.n = packed.k_stride = 64;
    packed.n_stride = 1;
    uint32_t y = p.buffer(BufferKind::Output, ElementType::F32, p.mul(M, K), 0);
    data::StepT &step = p.step(Family::Matmul, "matmul", {M, K});
    step.inputs.push_back(p.access(a, {K, zero}));
    step.inputs.push_back(p.access(w, {zero, zero}));
    step.inputs.push_back(p.access(table, {p.constant(stride), one}));
    data::AccessT &looked = *step.inputs[2];
    looked.kind = AccessKind::Indexed;
    looked.indices.push_back(p.access(index, {one, zero}));
    looked.axis_extents = {T};
    looked.axis_strides = {K};
    step.outputs.push_back(p.access(y, {K, one}));
    step.program = {instr(Opcode::Add, ElementType::F32, 0, 1)};
    step.results = {2};
    step.k = K;
    step.a_k_stride = one;
    step.b_packed = true;
    p.output(y, {M, K});
    return instantiate(p.take(), *model, {{"M", 256}, {"T", rows}}, "fake");
  };
  auto some = at(5, 0);
  ASSERT_OK(some);
  EXPECT_EQ((*some)->steps[0].rowGroups, 8u);
  EXPECT_EQ((*some)->steps[0].rowBytes, (std::vector<int64_t>{256, 0, /*table*/ 0, /*index*/ 8, /*y*/ 256, 0}));
  for (int64_t stride : {int64_t(0), int64_t(1) << 60, INT64_MAX, INT64_MIN}) {
    auto none = at(0, stride);
    ASSERT_OK(none);
    EXPECT_EQ((*none)->steps[0].rowGroups, 1u); // nothing moves its pointers
    EXPECT_TRUE((*none)->steps[0].rowBytes.empty());
  }
}

TEST(Instantiate, GatherAndIota) {
  // y[N,3] = table[index[N], :], and the bounds that an indexed axis adds.
  auto model = modelOf(SignatureBuilder()
                           .dim("N")
                           .input("table", ElementType::F32, {"5", "3"})
                           .input("index", ElementType::I64, {"N"})
                           .output("y", ElementType::F32, {"N", "3"}));
  PlanBuilder p;
  uint32_t N = p.symbol(0), one = p.constant(1), zero = p.constant(0), three = p.constant(3), five = p.constant(5);
  uint32_t table = p.buffer(BufferKind::Input, ElementType::F32, p.constant(15), 0);
  uint32_t index = p.buffer(BufferKind::Input, ElementType::I64, N, 1);
  uint32_t y = p.buffer(BufferKind::Output, ElementType::F32, p.mul(N, three), 0);
  data::StepT &step = p.step(Family::Loops, "gather", {N, three});
  step.inputs.push_back(p.access(table, {zero, one}));
  step.inputs[0]->kind = AccessKind::Indexed;
  step.inputs[0]->indices.push_back(p.access(index, {one, zero}));
  step.inputs[0]->axis_extents = {five};
  step.inputs[0]->axis_strides = {three};
  step.outputs.push_back(p.access(y, {three, one}));
  step.results = {0};
  p.output(y, {N, three});
  auto run = [&](int64_t n) {
    return instantiate(std::make_shared<data::PlanTemplateT>(*p.plan), *model, {{"N", n}}, "fake");
  };
  auto made = run(4);
  ASSERT_OK(made);
  EXPECT_EQ((*made)->steps[0].integers, (std::vector<int64_t>{4, 3, /*table*/ 0, 1, /*index*/ 1, 0, 5, 3, /*y*/ 3, 1}));
  EXPECT_EQ((*made)->kernels[0]->spec.inputs[0]->index_inner, (std::vector{InnerMode::Splat}));
  ASSERT_EQ((*made)->steps[0].pointers.size(), 3u);
  // Index 5 would be let through, and reach element 17 of 15.
  step.inputs[0]->axis_extents = {p.constant(6)};
  EXPECT_ERROR(run(4), ErrorCode::InvalidModel, "reaches from element 0 to 17");
  step.inputs[0]->axis_extents = {p.constant(-1)};
  EXPECT_ERROR(run(4), ErrorCode::OutOfRange, "negative extent");
  step.inputs[0]->axis_extents = {zero}; // no index is valid: nothing is read
  EXPECT_OK(run(4));
}

namespace {
/// y[i, 4] = E[index[i], :] of a weight E [37, 4] that is packed for x E^T: k runs along its rows.
struct PackedLookup {
  std::shared_ptr<WeightTable> weights = std::make_shared<WeightTable>();
  PlanBuilder p;
  std::shared_ptr<const Model> model;
  uint32_t N, one, zero, four, e, index, y;
  data::StepT *step;
  PackedLookup() {
    auto values = std::make_shared<std::vector<float>>(37 * 4, 1.0f);
    EXPECT_TRUE(weights->add("e", {ElementType::F32, {37, 4}, std::as_bytes(std::span(*values)), values}));
    model = modelOf(
        SignatureBuilder().dim("N").input("index", ElementType::I64, {"N"}).output("y", ElementType::F32, {"N", "4"}),
        weights);
    N = p.symbol(0), one = p.constant(1), zero = p.constant(0), four = p.constant(4);
    e = p.buffer(BufferKind::Weight, ElementType::F32, p.constant(37 * 4));
    data::BufferT &packed = *p.plan->buffers[e];
    packed.name = "e";
    packed.layout = data::PackedLayout::Panels16;
    packed.k = 4;
    packed.n = 37;
    packed.k_stride = 1;
    packed.n_stride = 4;
    index = p.buffer(BufferKind::Input, ElementType::I64, N, 0);
    y = p.buffer(BufferKind::Output, ElementType::F32, p.mul(N, four), 0);
    step = &p.step(Family::Loops, "lookup", {N, four});
    auto access = p.access(e, {zero, one});
    access->kind = AccessKind::Indexed;
    access->indices.push_back(p.access(index, {one, zero}));
    access->axis_extents = {p.constant(37)};
    access->axis_strides = {zero};
    access->panels = true;
    access->column = zero;
    access->column_strides = {zero, zero};
    access->axis_columns = {one};
    step->inputs.push_back(std::move(access));
    step->outputs.push_back(p.access(y, {four, one}));
    step->results = {0};
    p.output(y, {N, four});
  }
  auto at(int64_t n) const {
    return instantiate(std::make_shared<data::PlanTemplateT>(*p.plan), *model, {{"N", n}}, "fake");
  }
};
} // namespace

TEST(Instantiate, LookupInPanels) {
  PackedLookup lookup;
  auto made = lookup.at(5);
  ASSERT_OK(made);
  // Rows of the panel are 16 elements apart, panels 4 rows. The index moves the column.
  EXPECT_EQ((*made)->steps[0].integers, (std::vector<int64_t>{5, 4, /*e*/ 0, 16, /*index*/ 1, 0, 37, 0,
                                                              /*column*/ 0, 64, 0, 0, 1, /*y*/ 4, 1}));
  const data::AccessSpecT &spec = *(*made)->kernels[0]->spec.inputs[0];
  EXPECT_TRUE(spec.panels);
  EXPECT_EQ(spec.inner, InnerMode::Strided);
  EXPECT_EQ(spec.column_inner, InnerMode::Splat);
  EXPECT_EQ((*made)->steps[0].pointers.size(), 3u);
  EXPECT_OK(lookup.at(0));
  EXPECT_OK(lookup.at(1));
  // An axis of nothing: no index is valid, whatever the window says.
  lookup.step->inputs[0]->axis_extents = {lookup.zero};
  lookup.step->inputs[0]->offset = lookup.p.constant(77);
  made = lookup.at(5);
  ASSERT_OK(made);
  EXPECT_EQ((*made)->steps[0].pointers[0].byteOffset, 0);
}

TEST(Instantiate, LookupInPanelsThatLeavesThem) {
  auto invalid = ErrorCode::InvalidModel;
  auto expect = [](auto damage, ErrorCode code, const char *message) {
    PackedLookup lookup;
    damage(lookup, *lookup.step->inputs[0]);
    EXPECT_ERROR(lookup.at(5), code, message);
  };
  using L = PackedLookup;
  using A = data::AccessT;
  expect([](L &l, A &a) { a.axis_extents = {l.p.constant(38)}; }, invalid, "columns 0 to 37 of a matrix of 4 x 37");
  // Columns that are padded are there, but nobody's.
  expect([](L &l, A &a) { a.column = l.one; }, invalid, "columns 1 to 37");
  expect([](L &l, A &a) { a.column = l.p.constant(-1); }, invalid, "columns -1 to 35");
  expect([](L &l, A &a) { a.offset = l.one; }, invalid, "rows 1 to 4");
  expect([](L &l, A &a) { a.offset = l.p.constant(-1); }, invalid, "rows -1 to 2");
  expect([](L &l, A &a) { a.strides[1] = l.p.constant(-1); }, invalid, "rows -3 to 0");
  expect([](L &l, A &a) { a.column_strides[1] = l.one; }, invalid, "columns 0 to 39");
  expect([](L &l, A &a) { a.column_strides[0] = l.p.constant(INT64_MAX); }, invalid, "reaches rows");
  expect([](L &l, A &a) { a.axis_strides = {l.one}; }, invalid, "rows 0 to 39");
  expect([](L &l, A &a) { a.axis_columns = {l.p.constant(INT64_MIN)}; }, invalid, "reaches rows");
  expect([](L &l, A &) { l.p.plan->buffers[l.e]->n = 36; }, invalid, "of a matrix of 4 x 36");
  expect([](L &l, A &) { l.p.plan->buffers[l.e]->k = 3; }, invalid, "of a matrix of 3 x 37");
  expect([](L &l, A &) { l.p.plan->buffers[l.e]->k = INT64_MAX; }, ErrorCode::OutOfRange, "overflows");
  expect([](L &l, A &) { l.p.plan->buffers[l.e]->n = INT64_MAX; }, ErrorCode::OutOfRange, "overflows");
  expect([](L &l, A &) { l.p.plan->buffers[l.e]->layout = data::PackedLayout::Strided; }, invalid, "not packed");
  expect([](L &, A &a) { a.panels = false; }, invalid, "as if it were plain");
  expect([](L &, A &a) { a.kind = AccessKind::Direct; }, invalid, "not well formed");
  expect([](L &, A &a) { a.column = 4711; }, invalid, "not well formed");
  expect([](L &, A &a) { a.column_strides[0] = 4711; }, invalid, "not well formed");
  expect([](L &, A &a) { a.axis_columns[0] = 4711; }, invalid, "not well formed");
  expect([](L &, A &a) { a.column_strides.pop_back(); }, invalid, "lacks column strides");
  expect([](L &, A &a) { a.axis_columns.clear(); }, invalid, "lacks column strides");
  expect(
      [](L &l, A &a) {
        a.broadcast = {true, false};
        a.extents = {l.one, l.four};
      },
      invalid, "is broadcast");
  expect(
      [](L &l, A &a) {
        a.indices[0]->panels = true;
        l.one = 0;
      },
      invalid, "not well formed");
  expect(
      [](L &l, A &) {
        auto output = std::make_unique<A>(*l.step->inputs[0]);
        output->buffer = l.y;
        l.step->outputs[0] = std::move(output);
      },
      invalid, "loops and reductions only");
}

TEST(Instantiate, RandomDamageNeverLeavesThePanels) {
  // Whatever survives the checks keeps every element that valid indices lead to inside the 3 panels of 4 x 16: walked
  // one by one, as the kernel walks them.
  std::mt19937_64 random(17);
  int survived = 0;
  for (int round = 0; round != 4000; ++round) {
    PackedLookup lookup;
    data::AccessT &access = *lookup.step->inputs[0];
    auto number = [&] {
      static constexpr int64_t values[] = {-37, -4, -1, 0, 1, 2, 3, 4, 5, 8, 9, 16, 36, 37, 38, INT64_MAX, INT64_MIN};
      return lookup.p.constant(values[random() % std::size(values)]);
    };
    for (int hits = 1 + static_cast<int>(random() % 3); hits; --hits) {
      switch (random() % 8) {
      case 0:
        access.offset = number();
        break;
      case 1:
        access.strides[random() % 2] = number();
        break;
      case 2:
        access.axis_strides[0] = number();
        break;
      case 3:
        access.column = number();
        break;
      case 4:
        access.column_strides[random() % 2] = number();
        break;
      case 5:
        access.axis_columns[0] = number();
        break;
      case 6:
        access.axis_extents[0] = number();
        break;
      case 7:
        lookup.step->iteration[random() % 2] = number();
        break;
      }
    }
    auto made = lookup.at(5);
    if (!made || (*made)->steps.empty())
      continue;
    const StepInstance &call = (*made)->steps[0];
    size_t rank = (*made)->kernels[0]->spec.rank;
    const int64_t *extents = call.integers.data(), *strides = extents + rank, *index = strides + rank,
                  *columns = index + rank + 2;
    int64_t points = 1, axis = index[rank];
    for (size_t i = 0; i != rank; ++i)
      points *= extents[i];
    ++survived;
    for (int64_t point = 0; point != points; ++point)
      for (int64_t looked = 0; looked != axis; ++looked) {
        int64_t place = call.pointers[0].byteOffset / 4 + looked * index[rank + 1];
        int64_t column = columns[0] + looked * columns[2 + rank], rest = point;
        for (size_t i = rank; i-- > 0; rest /= extents[i]) {
          place += rest % extents[i] * strides[i];
          column += rest % extents[i] * columns[2 + i];
        }
        ASSERT_GE(column, 0);
        ASSERT_LT(column, 37);
        ASSERT_GE(place, 0);
        ASSERT_LT(place + column / 16 * columns[1] + column % 16, 3 * 4 * 16);
      }
  }
  EXPECT_GT(survived, 300);
}

TEST(Instantiate, ScatterIsOneTile) {
  auto model = modelOf(SignatureBuilder()
                           .dim("N")
                           .input("x", ElementType::F32, {"N"})
                           .input("index", ElementType::I64, {"N"})
                           .output("y", ElementType::F32, {"N"}));
  PlanBuilder p;
  uint32_t N = p.symbol(0), one = p.constant(1), zero = p.constant(0);
  uint32_t x = p.buffer(BufferKind::Input, ElementType::F32, N, 0);
  uint32_t index = p.buffer(BufferKind::Input, ElementType::I64, N, 1);
  uint32_t y = p.buffer(BufferKind::Output, ElementType::F32, N, 0);
  data::StepT &step = p.step(Family::Loops, "scatter", {N});
  step.inputs.push_back(p.access(x, {one}));
  step.outputs.push_back(p.access(y, {zero}));
  step.outputs[0]->kind = AccessKind::Indexed;
  step.outputs[0]->indices.push_back(p.access(index, {one}));
  step.outputs[0]->axis_extents = {N};
  step.outputs[0]->axis_strides = {one};
  step.combine = data::Combine::Add;
  step.results = {0};
  p.output(y, {N});
  auto made = instantiate(p.take(), *model, {{"N", 10000}}, "fake");
  ASSERT_OK(made);
  EXPECT_EQ((*made)->steps[0].tiles, 1);
  EXPECT_EQ((*made)->kernels[0]->spec.combine, data::Combine::Add);
}

TEST(Instantiate, IsDeterministic) {
  AddBias add;
  std::mt19937 random(3);
  for (int i = 0; i != 100; ++i) {
    int64_t b = random() % 6, s = random() % 6;
    auto first = add.at(b, s), second = add.at(b, s);
    ASSERT_OK(first);
    ASSERT_OK(second);
    EXPECT_EQ(serialize(**first), serialize(**second));
    auto other = add.at(b + 1, s);
    ASSERT_OK(other);
    EXPECT_NE(serialize(**first), serialize(**other));
  }
}

TEST(Instantiate, Expressions) {
  auto evaluate = [](auto build, int64_t n) -> Result<int64_t> {
    auto model = modelOf(SignatureBuilder().dim("N").input("x", ElementType::F32, {"N"}));
    PlanBuilder p;
    uint32_t N = p.symbol(0);
    uint32_t buffer = p.arena(ElementType::F32, build(p, N), 0, 0);
    auto made = instantiate(p.take(), *model, {{"N", n}}, "fake");
    if (!made)
      return made.takeError();
    return (*made)->buffers[buffer].elements;
  };
  auto binary = [](ExprOp op, int64_t b) {
    return [=](PlanBuilder &p, uint32_t N) { return p.expr(op, N, p.constant(b), 0); };
  };
  EXPECT_EQ(*evaluate(binary(ExprOp::FloorDiv, 4), 11), 2);
  // floor, not truncation: floordiv(11 - 20, 4) = -3; + 4 = 1.
  EXPECT_EQ(*evaluate(
                [](PlanBuilder &p, uint32_t N) {
                  uint32_t shifted = p.add(N, p.constant(-20));
                  return p.add(p.expr(ExprOp::FloorDiv, shifted, p.constant(4), 0), p.constant(4));
                },
                11),
            1);
  EXPECT_EQ(*evaluate(binary(ExprOp::Min, 7), 11), 7);
  EXPECT_EQ(*evaluate(binary(ExprOp::Max, 7), 11), 11);
  EXPECT_EQ(*evaluate(binary(ExprOp::Broadcast, 1), 11), 11);
  EXPECT_EQ(*evaluate(binary(ExprOp::Broadcast, 11), 1), 11);
  EXPECT_EQ(*evaluate(binary(ExprOp::Broadcast, 0), 1), 0);
  EXPECT_ERROR(evaluate(binary(ExprOp::Broadcast, 5), 4), ErrorCode::InvalidArgument, "sizes 4 and 5");
  EXPECT_ERROR(evaluate(binary(ExprOp::FloorDiv, 0), 4), ErrorCode::OutOfRange, "by zero");
  EXPECT_ERROR(evaluate(binary(ExprOp::Mul, INT64_MAX), 2), ErrorCode::OutOfRange, "overflows");
  EXPECT_ERROR(evaluate(binary(ExprOp::Add, INT64_MAX), 2), ErrorCode::OutOfRange, "overflows");
  EXPECT_ERROR(evaluate(binary(ExprOp::Add, -5), 2), ErrorCode::OutOfRange, "no valid size");
  EXPECT_ERROR(evaluate(binary(ExprOp::Mul, int64_t(1) << 62), 1), ErrorCode::OutOfRange, "no valid size");
  EXPECT_ERROR(evaluate(binary(static_cast<ExprOp>(99), 1), 1), ErrorCode::InvalidModel, "unknown kind");
}

TEST(Instantiate, ArenaHonoursGraphOutputs) {
  // Two buffers that live one after the other; the first is a graph output.
  auto model = modelOf(SignatureBuilder()
                           .dim("N")
                           .input("x", ElementType::F32, {"N"})
                           .output("y", ElementType::F32, {"N"})
                           .output("z", ElementType::F32, {"N"}));
  PlanBuilder p;
  uint32_t N = p.symbol(0), one = p.constant(1);
  uint32_t x = p.buffer(BufferKind::Input, ElementType::F32, N, 0);
  uint32_t y = p.arena(ElementType::F32, N, 0, 0), z = p.arena(ElementType::F32, N, 1, 1);
  for (uint32_t target : {y, z}) {
    data::StepT &step = p.step(Family::Loops, "copy", {N});
    step.inputs.push_back(p.access(x, {one}));
    step.outputs.push_back(p.access(target, {one}));
    step.results = {0};
  }
  p.output(y, {N});
  p.output(z, {N});
  auto made = instantiate(p.take(), *model, {{"N", 10}}, "fake");
  ASSERT_OK(made);
  EXPECT_EQ((*made)->arenaBytes, 128);
  EXPECT_NE((*made)->buffers[y].arenaOffset, (*made)->buffers[z].arenaOffset);
}

//===----------------------------------------------------------------------===//
// Templates that are wrong
//===----------------------------------------------------------------------===//

TEST(Instantiate, UntrustedTemplates) {
  using Damage = std::function<void(AddBias &)>;
  struct Case {
    const char *what;
    Damage damage;
    ErrorCode code;
    const char *message;
  };
  auto invalid = ErrorCode::InvalidModel;
  const Case cases[] = {
      {"offset past the end", [](AddBias &t) { t.step->inputs[0]->offset = t.p.constant(1); }, invalid, "reaches"},
      {"offset before the start", [](AddBias &t) { t.step->inputs[0]->offset = t.p.constant(-1); }, invalid, "reaches"},
      {"stride too large", [](AddBias &t) { t.step->inputs[0]->strides[0] = t.p.constant(1000); }, invalid, "reaches"},
      {"stride that overflows", [](AddBias &t) { t.step->outputs[0]->strides[1] = t.p.constant(INT64_MAX); }, invalid,
       "an operand reaches further than 64 bits count"},
      {"negative stride", [](AddBias &t) { t.step->outputs[0]->strides[2] = t.p.constant(-1); }, invalid, "reaches"},
      {"loops too long", [](AddBias &t) { t.step->iteration[0] = t.p.constant(1000); }, invalid, "reaches"},
      {"loops overflow", [](AddBias &t) { t.step->iteration[0] = t.p.constant(INT64_MAX); }, ErrorCode::OutOfRange,
       "overflows"},
      {"negative loop", [](AddBias &t) { t.step->iteration[0] = t.p.constant(-2); }, ErrorCode::OutOfRange, "negative"},
      {"too few strides", [](AddBias &t) { t.step->inputs[0]->strides.pop_back(); }, invalid, "2 strides for 3 loops"},
      {"no such expression", [](AddBias &t) { t.step->iteration[0] = 10000; }, invalid, "not well formed"},
      {"no such stride", [](AddBias &t) { t.step->inputs[0]->strides[1] = 10000; }, invalid, "not well formed"},
      {"no such offset", [](AddBias &t) { t.step->inputs[0]->offset = 10000; }, invalid, "not well formed"},
      {"no such buffer", [](AddBias &t) { t.step->inputs[0]->buffer = 77; }, invalid, "not well formed"},
      {"no access", [](AddBias &t) { t.step->inputs[0].reset(); }, invalid, "not well formed"},
      {"no step", [](AddBias &t) { t.p.plan->steps[0].reset(); }, invalid, "step is missing"},
      {"no buffer", [](AddBias &t) { t.p.plan->buffers[0].reset(); }, invalid, "buffer 0"},
      {"no output", [](AddBias &t) { t.p.plan->outputs[0].reset(); }, invalid, "output 'y'"},
      {"no outputs", [](AddBias &t) { t.p.plan->outputs.clear(); }, invalid, "0 outputs"},
      {"access kind", [](AddBias &t) { t.step->inputs[0]->kind = static_cast<AccessKind>(9); }, invalid, "not well"},
      {"element type", [](AddBias &t) { t.step->inputs[0]->type = static_cast<ElementType>(99); }, invalid, "not well"},
      {"family", [](AddBias &t) { t.step->family = static_cast<Family>(99); }, invalid, "unknown family"},
      {"buffer kind", [](AddBias &t) { t.p.plan->buffers[0]->kind = static_cast<BufferKind>(99); }, invalid,
       "buffer 0"},
      {"wider type", [](AddBias &t) { t.step->inputs[0]->type = ElementType::F64; }, invalid, "type f64"},
      {"input written", [](AddBias &t) { t.step->outputs[0]->buffer = t.x; }, invalid, "must not be written"},
      {"in place", [](AddBias &t) { t.step->inputs[0]->buffer = t.y; }, invalid, "overlaps an input"},
      {"no such input", [](AddBias &t) { t.p.plan->buffers[t.x]->index = 5; }, invalid, "no input, output or param"},
      {"input taken to be longer", [](AddBias &t) { t.p.plan->buffers[t.x]->elements = t.p.constant(1000); }, invalid,
       "what it stands for is 48"},
      {"operand of another type", [](AddBias &t) { t.p.plan->buffers[t.x]->type = ElementType::I32; }, invalid,
       "lies in a buffer of type i32"},
      {"input of another type",
       [](AddBias &t) { t.p.plan->buffers[t.x]->type = t.step->inputs[0]->type = ElementType::I32; }, invalid,
       "is 48 of i32"},
      {"output too short", [](AddBias &t) { t.p.plan->buffers[t.y]->elements = t.p.constant(47); }, invalid, "reaches"},
      {"output shape", [](AddBias &t) { t.p.plan->outputs[0]->shape.pop_back(); }, invalid, "output 'y'"},
      {"output of another shape", [](AddBias &t) { t.p.plan->outputs[0]->shape = {t.BSD}; }, invalid,
       "output 'y' is of shape [48], but the model's is [2,3,8]"},
      {"output transposed", [](AddBias &t) { t.p.plan->outputs[0]->shape = {t.S, t.B, t.D}; }, invalid,
       "output 'y' is of shape [3,2,8], but the model's is [2,3,8]"},
      {"output twice", [](AddBias &t) { t.p.buffer(BufferKind::Output, ElementType::F32, t.BSD, 0); }, invalid,
       "has a buffer already"},
      {"value not there", [](AddBias &t) { t.step->program[0] = instr(Opcode::Add, ElementType::F32, 0, 2); }, invalid,
       "not there yet"},
      {"opcode", [](AddBias &t) { t.step->program[0] = instr(static_cast<Opcode>(200), ElementType::F32); }, invalid,
       "unknown instruction"},
      {"instruction type", [](AddBias &t) { t.step->program[0] = instr(Opcode::Neg, static_cast<ElementType>(50)); },
       invalid, "unknown instruction or type"},
      {"result not there", [](AddBias &t) { t.step->results[0] = 3; }, invalid, "is no value"},
      {"too many results", [](AddBias &t) { t.step->results.push_back(0); }, invalid, "2 results for 1"},
      {"combine", [](AddBias &t) { t.step->combine = static_cast<data::Combine>(9); }, invalid, "unknown way"},
      {"iota output", [](AddBias &t) { t.step->outputs[0]->kind = AccessKind::Iota; }, invalid, "iota"},
      {"indexed without index", [](AddBias &t) { t.step->inputs[0]->kind = AccessKind::Indexed; }, invalid,
       "lacks indices"},
      {"float index",
       [](AddBias &t) {
         data::AccessT &access = *t.step->inputs[0];
         access.kind = AccessKind::Indexed;
         access.indices.push_back(t.p.access(t.x, {t.SD, t.D, t.one}));
         access.axis_extents = {t.one};
         access.axis_strides = {t.one};
       },
       invalid, "i32 or i64"},
      {"broadcast without extents", [](AddBias &t) { t.step->inputs[0]->broadcast = {true, true, true}; }, invalid,
       "lacks its extents"},
      {"expression of a later one",
       [](AddBias &t) { t.p.expr(ExprOp::Add, static_cast<uint32_t>(t.p.plan->exprs.size()), 0, 0); }, invalid,
       "uses what is not there"},
      {"no such dim", [](AddBias &t) { t.p.symbol(9); }, invalid, "uses what is not there"},
      {"constant too short",
       [](AddBias &t) {
         uint32_t number = t.p.constantBuffer<float>(ElementType::F32, {1, 2});
         t.p.plan->buffers[number]->data.pop_back();
       },
       invalid, "holds 7 bytes, not 8"},
      {"run state", [](AddBias &t) { t.p.buffer(BufferKind::RunState, ElementType::F32, t.one); }, invalid, "not u64"},
      {"run state size", [](AddBias &t) { t.p.buffer(BufferKind::RunState, ElementType::U64, t.p.constant(3)); },
       invalid, "is 3 of u64"},
      {"lifetime", [](AddBias &t) { t.p.arena(ElementType::F32, t.one, 0, 5); }, invalid, "lifetime"},
      {"lifetime backwards", [](AddBias &t) { t.p.arena(ElementType::F32, t.one, 1, 0); }, invalid, "lifetime"},
      {"packed input", [](AddBias &t) { t.p.plan->buffers[t.x]->layout = data::PackedLayout::Panels16; }, invalid,
       "cannot be packed"},
      {"splat output", [](AddBias &t) { t.step->outputs[0]->strides[2] = t.zero; }, invalid,
       "one element of an output"},
      {"negative size", [](AddBias &t) { t.p.arena(ElementType::F32, t.p.constant(-1), 0, 0); }, ErrorCode::OutOfRange,
       "no valid size"},
      {"huge arena",
       [](AddBias &t) {
         t.p.arena(ElementType::F32, t.p.constant(INT64_MAX / 4), 0, 0);
         t.p.arena(ElementType::F32, t.p.constant(INT64_MAX / 4), 0, 0);
       },
       ErrorCode::OutOfRange, "overflows"},
  };
  {
    AddBias good;
    ASSERT_OK(good.at(2, 3));
  }
  for (const Case &test : cases) {
    SCOPED_TRACE(test.what);
    AddBias add;
    test.damage(add);
    EXPECT_ERROR(add.at(2, 3), test.code, test.message);
  }
}

TEST(Instantiate, OutputsWrittenSeveralTimes) {
  // Along an outer loop, along all, by strides that meet: whoever shares the tiles would race.
  for (Family family : {Family::Loops, Family::Reduce, Family::Rows, Family::Scan, Family::Matmul}) {
    SCOPED_TRACE(data::EnumNameFamily(family));
    auto model = modelOf(SignatureBuilder()
                             .dim("A")
                             .dim("B")
                             .input("x", ElementType::F32, {"A", "B", "4"})
                             .output("y", ElementType::F32, {"A", "B", "4"}));
    auto run = [&](int64_t a, int64_t b, std::vector<int64_t> strides, int64_t offset = 0) {
      PlanBuilder p;
      uint32_t A = p.symbol(0), B = p.symbol(1), four = p.constant(4), one = p.constant(1), zero = p.constant(0);
      uint32_t all = p.mul(A, p.mul(B, four));
      uint32_t x = p.buffer(BufferKind::Input, ElementType::F32, all, 0);
      uint32_t y = p.buffer(BufferKind::Output, ElementType::F32, all, 0);
      bool product = family == Family::Matmul;
      data::StepT &step = p.step(family, "written", {A, B, four});
      step.inputs.push_back(p.access(x, {p.mul(B, four), four, product ? zero : one}));
      if (product) {
        // x times a matrix of one number again and again.
        step.inputs.push_back(p.access(p.constantBuffer<float>(ElementType::F32, {1}), {zero, zero, zero}));
        step.k = four;
        step.a_k_stride = one;
        step.b_k_stride = zero;
      }
      step.results = {0};
      if (family == Family::Rows || family == Family::Scan)
        step.results.clear();
      std::vector<uint32_t> numbers;
      for (int64_t stride : strides)
        numbers.push_back(p.constant(stride));
      step.outputs.push_back(p.access(y, numbers));
      step.outputs[0]->offset = p.constant(offset);
      p.output(y, {A, B, four});
      return instantiate(p.take(), *model, {{"A", a}, {"B", b}}, "fake");
    };
    EXPECT_OK(run(3, 2, {8, 4, 1}));
    EXPECT_OK(run(3, 2, {4, 12, 1}));
    EXPECT_OK(run(3, 2, {-8, 4, 1}, 16));
    EXPECT_OK(run(3, 2, {1, 3, 6}));
    EXPECT_OK(run(1, 2, {0, 4, 1})); // never applied
    EXPECT_OK(run(3, 1, {4, 0, 1}));
    EXPECT_OK(run(0, 2, {0, 0, 1}));
    for (auto strides :
         {std::vector<int64_t>{0, 4, 1}, {8, 0, 1}, {4, 4, 1}, {8, 4, 0}, {0, 0, 1}, {1, 4, 1}, {4, 3, 1}, {-4, 4, 1}})
      EXPECT_ERROR(run(3, 2, strides, strides[0] < 0 ? 8 : 0), ErrorCode::InvalidModel,
                   "plan step 'written': several points of its loops write one element of an output");
  }
}

TEST(Instantiate, OutputsThatOverlap) {
  AddBias add;
  add.step->outputs.push_back(std::make_unique<data::AccessT>(*add.step->outputs[0]));
  add.step->results.push_back(0);
  EXPECT_ERROR(add.at(2, 3), ErrorCode::InvalidModel, "two of its outputs overlap");
}

TEST(Instantiate, WindowsOfOneBuffer) {
  // A step that reads and writes elements of one buffer, each window from `first` to `last`.
  struct Window {
    int64_t first, last;
  };
  auto run = [](std::vector<Window> inputs, std::vector<Window> outputs) {
    auto model = modelOf(SignatureBuilder().dim("N").input("x", ElementType::F32, {"N"}));
    PlanBuilder p;
    uint32_t two = p.constant(2);
    uint32_t t = p.arena(ElementType::F32, p.constant(100), 0, 0);
    data::StepT &step = p.step(Family::Loops, "step", {two});
    auto access = [&](Window window) {
      auto made = p.access(t, {p.constant(window.last - window.first)});
      made->offset = p.constant(window.first);
      return made;
    };
    for (Window window : inputs)
      step.inputs.push_back(access(window));
    for (Window window : outputs) {
      step.outputs.push_back(access(window));
      step.results.push_back(0);
    }
    return instantiate(p.take(), *model, {{"N", 1}}, "fake");
  };
  EXPECT_OK(run({{0, 9}, {3, 4}, {20, 30}, {25, 31}}, {{10, 19}, {32, 40}}));
  EXPECT_OK(run({{50, 60}}, {{10, 49}, {61, 99}}));
  const char *meetsInput = "plan step 'step': an output overlaps an input";
  EXPECT_ERROR(run({{0, 50}, {3, 4}}, {{40, 60}}), ErrorCode::InvalidModel, meetsInput); // ends after the one between
  EXPECT_ERROR(run({{60, 70}, {45, 50}}, {{40, 60}}), ErrorCode::InvalidModel, meetsInput);
  EXPECT_ERROR(run({{10, 11}}, {{0, 90}, {95, 96}}), ErrorCode::InvalidModel, meetsInput);
  EXPECT_ERROR(run({{10, 20}}, {{10, 20}}), ErrorCode::InvalidModel, meetsInput);
  EXPECT_ERROR(run({{99, 98}}, {{0, 90}, {20, 21}}), ErrorCode::InvalidModel, "two of its outputs overlap");
  EXPECT_ERROR(run({{99, 98}}, {{20, 21}, {21, 22}}), ErrorCode::InvalidModel, "two of its outputs overlap");
}

TEST(Instantiate, UsedOutsideItsLifetime) {
  auto model =
      modelOf(SignatureBuilder().dim("N").input("x", ElementType::F32, {"N"}).output("y", ElementType::F32, {"N"}));
  PlanBuilder p;
  uint32_t N = p.symbol(0), one = p.constant(1);
  uint32_t x = p.buffer(BufferKind::Input, ElementType::F32, N, 0);
  uint32_t t = p.arena(ElementType::F32, N, 0, 0);
  uint32_t y = p.buffer(BufferKind::Output, ElementType::F32, N, 0);
  for (auto [from, to] : {std::pair(x, t), std::pair(t, y)}) {
    data::StepT &step = p.step(Family::Loops, "copy", {N});
    step.inputs.push_back(p.access(from, {one}));
    step.outputs.push_back(p.access(to, {one}));
    step.results = {0};
  }
  p.output(y, {N});
  EXPECT_ERROR(instantiate(p.take(), *model, {{"N", 3}}, "fake"), ErrorCode::InvalidModel, "outside its lifetime");
}

TEST(Instantiate, RandomDamageNeverLeavesTheBuffers) {
  // Whatever survives the checks keeps every window inside its buffer: compare
  // with windows computed anew, in 128 bits.
  std::mt19937_64 random(11);
  int survived = 0;
  for (int round = 0; round != 3000; ++round) {
    AddBias add;
    auto number = [&]() -> int64_t {
      static constexpr int64_t values[] = {-1, 0, 1, 2, 3, 7, 8, 24, 47, 48, INT64_MAX, INT64_MIN};
      return values[random() % std::size(values)];
    };
    for (int hits = 1 + static_cast<int>(random() % 2); hits; --hits) {
      data::AccessT &access = random() % 2 ? *add.step->inputs[random() % 2] : *add.step->outputs[0];
      switch (random() % 4) {
      case 0:
        access.offset = add.p.constant(number());
        break;
      case 1:
        access.strides[random() % 3] = add.p.constant(number());
        break;
      case 2:
        add.step->iteration[random() % 3] = add.p.constant(number());
        break;
      case 3:
        access.buffer = static_cast<uint32_t>(random() % 3);
        break;
      }
    }
    auto made = add.at(2, 3);
    if (!made)
      continue;
    for (const StepInstance &call : (*made)->steps) {
      ++survived;
      size_t rank = (*made)->kernels[call.kernel]->spec.rank;
      for (size_t operand = 0; operand != 3; ++operand) {
        __int128 low = call.pointers[operand].byteOffset / 4, high = low;
        for (size_t loop = 0; loop != rank; ++loop) {
          __int128 reach = __int128(call.integers[loop] - 1) * call.integers[rank + operand * rank + loop];
          (reach < 0 ? low : high) += reach;
        }
        EXPECT_GE(low, 0);
        EXPECT_LT(high, (*made)->buffers[call.pointers[operand].buffer].elements);
      }
    }
  }
  EXPECT_GT(survived, 100);
}

TEST(Instantiate, ACheckedTemplateRemembersNoBinding) {
  for (bool shared : {false, true}) {
    Product product(shared);
    auto plan = std::make_shared<data::PlanTemplateT>(*product.p.plan);
    auto checked = CheckedTemplate::create(plan, *product.model, "fake");
    ASSERT_OK(checked);
    // Sizes of several kernel variants, each met again in another order and by several threads.
    std::vector<Binding> bindings;
    for (int64_t b : {1, 3})
      for (int64_t m : {0, 1, 2, 7})
        for (int64_t n : {1, 20})
          bindings.push_back({{"B", b}, {"M", m}, {"K", 5}, {"N", n}});
    std::vector<std::vector<uint8_t>> wanted;
    for (const Binding &binding : bindings) {
      auto fresh = instantiate(plan, *product.model, binding, "fake");
      ASSERT_OK(fresh);
      wanted.push_back(serialize(**fresh));
    }
    EXPECT_NE(wanted[0], wanted[1]);
    std::vector<std::thread> threads;
    std::vector<size_t> same(4);
    for (size_t t = 0; t != same.size(); ++t)
      threads.emplace_back([&, t] {
        for (size_t i = 0; i != 3 * bindings.size(); ++i) {
          size_t which = (i * (2 * t + 1) + t) % bindings.size();
          auto made = (*checked)->instantiate(bindings[which]);
          same[t] += made && serialize(**made) == wanted[which];
        }
      });
    for (std::thread &thread : threads)
      thread.join();
    EXPECT_EQ(same, std::vector<size_t>(same.size(), 3 * bindings.size()));
    // An error is this binding's alone.
    EXPECT_ERROR((*checked)->instantiate({{"B", 1}, {"M", 2}, {"K", 5}}), ErrorCode::Unsolvable, "'N'");
    EXPECT_OK((*checked)->instantiate(bindings[3]));
  }
}
