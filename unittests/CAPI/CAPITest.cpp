//===- CAPITest.cpp - what the C API does when all is well ----------------===//
#include "CAPITest.h"

#include "../Runtime/Allocations.h"

#include <atomic>

using namespace rlx::capitest;
using testing::ElementsAre;
using testing::HasSubstr;

extern "C" int runFromC(const char *text);

const char *const rlx::capitest::kJoin = R"(
rlx.graph @join(%x: tensor<?x4xf32, #rlx.dims<[N, 4]>> {rlx.name = "x"},
                %y: tensor<?x4xf32, #rlx.dims<[M, 4]>> {rlx.name = "y"})
    -> (tensor<?x4xf32> {rlx.name = "z"}) attributes {dims = [#rlx.dim<"N">, #rlx.dim<"M">]} {
  %a = rlx.constant dense<2.0> : tensor<f32>
  %0 = rlx.concat %x, %y axis 0 : tensor<?x4xf32, #rlx.dims<[N, 4]>>, tensor<?x4xf32, #rlx.dims<[M, 4]>> -> tensor<?x4xf32>
  %1 = rlx.mul %0, %a : tensor<?x4xf32>, tensor<f32> -> tensor<?x4xf32>
  rlx.output %1 : tensor<?x4xf32>
})";
const char *const rlx::capitest::kScale = R"(
rlx.graph @scale(%x: tensor<?x4xf32, #rlx.dims<[N, 4]>> {rlx.name = "x"})
    -> (tensor<?x4xf32> {rlx.name = "scaled"}, tensor<?x4xf32> {rlx.name = "twice"})
    attributes {dims = [#rlx.dim<"N", max = 64, likely = [2, 3]>]} {
  %w = rlx.param "w" : tensor<4xf32>
  %0 = rlx.mul %x, %w : tensor<?x4xf32, #rlx.dims<[N, 4]>>, tensor<4xf32> -> tensor<?x4xf32>
  %1 = rlx.add %x, %x : tensor<?x4xf32, #rlx.dims<[N, 4]>>, tensor<?x4xf32, #rlx.dims<[N, 4]>> -> tensor<?x4xf32>
  rlx.output %0, %1 : tensor<?x4xf32>, tensor<?x4xf32>
})";

TEST(CAPI, Names) {
  std::string version = std::to_string(RLX_VERSION_MAJOR) + "." + std::to_string(RLX_VERSION_MINOR) + "." +
                        std::to_string(RLX_VERSION_PATCH);
  EXPECT_EQ(rlx_version(), version);
  EXPECT_STREQ(rlx_code_name(RLX_OK), "ok");
  EXPECT_STREQ(rlx_code_name(RLX_COMPILER_FAILED), "compiler failed");
  EXPECT_STREQ(rlx_code_name(12), "unknown");
  EXPECT_STREQ(rlx_code_name(-1), "unknown");
  EXPECT_EQ(rlx_dtype_size(RLX_BF16), 2u);
  EXPECT_EQ(rlx_dtype_size(RLX_F64), 8u);
  EXPECT_EQ(rlx_dtype_size(13), 0u);
  EXPECT_STREQ(rlx_dtype_name(RLX_I1), "i1");
  EXPECT_STREQ(rlx_dtype_name(RLX_F64), "f64");
  EXPECT_STREQ(rlx_dtype_name(-1), "unknown");
  EXPECT_EQ(rlx_status_code(nullptr), RLX_OK);
  EXPECT_STREQ(rlx_status_message(nullptr), "");
}

TEST(CAPI, FromC) { EXPECT_EQ(runFromC(kJoin), 0); }

TEST(CAPI, WhatAModelDeclares) {
  Engine engine = makeEngine();
  Model model = load(engine, kScale);
  const rlx_model_info *info = nullptr;
  ASSERT_OK(rlx_model_get_info(model, &info));
  EXPECT_STREQ(info->name, "scale");
  EXPECT_EQ(info->dim_count, 1u);
  EXPECT_EQ(info->input_count, 1u);
  EXPECT_EQ(info->output_count, 2u);
  EXPECT_EQ(info->param_count, 1u);
  const rlx_dim_info *dim = nullptr;
  ASSERT_OK(rlx_model_get_dim(model, 0, &dim));
  EXPECT_STREQ(dim->name, "N");
  EXPECT_EQ(dim->min, 0);
  EXPECT_EQ(dim->max, 64);
  EXPECT_EQ(dim->multiple, 1);
  ASSERT_EQ(dim->likely_count, 2u);
  EXPECT_EQ(dim->likely[0], 2);
  EXPECT_EQ(dim->likely[1], 3);
  const rlx_tensor_info *input = nullptr, *output = nullptr, *param = nullptr;
  ASSERT_OK(rlx_model_get_input(model, 0, &input));
  EXPECT_STREQ(input->name, "x");
  EXPECT_EQ(input->dtype, RLX_F32);
  ASSERT_EQ(input->rank, 2);
  EXPECT_EQ(input->shape[0], -1);
  EXPECT_EQ(input->shape[1], 4);
  EXPECT_STREQ(input->dims[0], "N");
  EXPECT_STREQ(input->dims[1], "4");
  ASSERT_OK(rlx_model_get_output(model, 1, &output));
  EXPECT_STREQ(output->name, "twice");
  ASSERT_OK(rlx_model_get_param(model, 0, &param));
  EXPECT_STREQ(param->name, "w");
  ASSERT_EQ(param->rank, 1);
  EXPECT_EQ(param->shape[0], 4);
}

TEST(CAPI, RunsByNameAndByPosition) {
  Executable executable = load(kJoin);
  Rows x(2), y(3, 100);
  std::vector<float> expected = concat(x.times(2), y.times(2));
  rlx_input byName[] = {y.input("y"), x.input("x")}, byPosition[] = {x.input(nullptr), y.input(nullptr)};
  for (const rlx_input *inputs : {byName, byPosition}) {
    Tensor z;
    ASSERT_OK(rlx_run(executable, inputs, 2, &z, 1, nullptr));
    EXPECT_THAT(shapeOf(z), ElementsAre(5, 4));
    EXPECT_EQ(valuesOf(z), expected);
  }
  std::vector<float> into(20);
  for (const char *name : {"z", static_cast<const char *>(nullptr)}) {
    std::fill(into.begin(), into.end(), -1.0f);
    rlx_output output = outputFor(name, into);
    ASSERT_OK(rlx_run_into(executable, byName, 2, &output, 1, nullptr));
    EXPECT_EQ(into, expected);
  }
}

TEST(CAPI, SizesOfNothing) {
  Executable executable = load(kJoin);
  Rows none(0), one(1);
  rlx_input inputs[] = {none.input("x"), one.input("y")};
  inputs[0].data = nullptr;
  Tensor z;
  ASSERT_OK(rlx_run(executable, inputs, 2, &z, 1, nullptr));
  EXPECT_EQ(valuesOf(z), one.times(2));
  inputs[1] = inputs[0];
  inputs[1].name = "y";
  ASSERT_OK(rlx_run(executable, inputs, 2, &z, 1, nullptr));
  rlx_view view = {};
  ASSERT_OK(rlx_tensor_view(z, &view));
  EXPECT_THAT(shapeOf(view), ElementsAre(0, 4));
  EXPECT_EQ(view.bytes, 0u);
  EXPECT_NE(view.data, nullptr);
}

TEST(CAPI, FlatInputsAndGivenSizes) {
  Executable executable = load(kJoin);
  Rows x(2), y(3, 5);
  rlx_input inputs[] = {x.input("x"), y.input("y")};
  for (rlx_input &input : inputs) {
    input.flags = RLX_FLAT;
    input.rank = 0;
    input.shape = nullptr;
  }
  rlx_size given = {"N", 2};
  rlx_run_options options = {};
  options.struct_size = sizeof options;
  options.sizes = &given;
  options.size_count = 1;
  Tensor z;
  ASSERT_OK(rlx_run(executable, inputs, 2, &z, 1, &options));
  EXPECT_EQ(valuesOf(z), concat(x.times(2), y.times(2)));
  given.size = 3;
  EXPECT_FAILS(rlx_run(executable, inputs, 2, &z, 1, &options), RLX_INVALID_ARGUMENT, "N");

  int64_t sizes[2] = {};
  ASSERT_OK(rlx_executable_solve(executable, inputs, 2, nullptr, sizes, 2));
  EXPECT_THAT(sizes, ElementsAre(2, 3));
}

TEST(CAPI, OutputsByIndex) {
  Executable executable = load(kScale);
  const float w[] = {1, 10, 100, 1000};
  ASSERT_OK(rlx_executable_set_param(executable, "w", RLX_F32, w, sizeof w));
  Rows x(1, 1);
  rlx_input input = x.input("x");
  const size_t indices[] = {1, 0, 1};
  rlx_tensor *outputs[3] = {};
  ASSERT_OK(rlx_run_outputs(executable, &input, 1, indices, outputs, 3, nullptr));
  Tensor first(outputs[0]), second(outputs[1]), third(outputs[2]);
  EXPECT_THAT(valuesOf(first), ElementsAre(2, 4, 6, 8));
  EXPECT_THAT(valuesOf(second), ElementsAre(1, 20, 300, 4000));
  EXPECT_THAT(valuesOf(third), ElementsAre(2, 4, 6, 8));
  EXPECT_OK(rlx_run_outputs(executable, &input, 1, nullptr, nullptr, 0, nullptr));
  const size_t beyond = 2;
  rlx_tensor *none = first;
  EXPECT_FAILS(rlx_run_outputs(executable, &input, 1, &beyond, &none, 1, nullptr), RLX_INVALID_ARGUMENT, "2");
  EXPECT_EQ(none, nullptr);
}

TEST(CAPI, Contexts) {
  Executable executable = load(kScale);
  const float w[] = {1, 10, 100, 1000};
  ASSERT_OK(rlx_executable_set_param(executable, "w", RLX_F32, w, sizeof w));
  Context context;
  ASSERT_OK(rlx_context_create(executable, &context));
  executable = Executable(); // the context keeps what it needs
  for (int64_t rows : {1, 3, 0}) {
    Rows x(rows, 1);
    rlx_input input = x.input(nullptr);
    const rlx_view *views = nullptr;
    size_t count = 0;
    ASSERT_OK(rlx_context_run(context, &input, 1, nullptr, 0, &views, &count, nullptr));
    ASSERT_EQ(count, 2u);
    EXPECT_THAT(shapeOf(views[0]), ElementsAre(rows, 4));
    EXPECT_EQ(valuesOf(views[1]), x.times(2));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(views[0].data) % 64, 0u);
    const size_t second = 1;
    ASSERT_OK(rlx_context_run(context, &input, 1, &second, 1, &views, &count, nullptr));
    ASSERT_EQ(count, 1u);
    EXPECT_EQ(valuesOf(views[0]), x.times(2));
    ASSERT_OK(rlx_context_trim(context));
  }
}

TEST(CAPI, ParamsAndClones) {
  Executable executable = load(kScale);
  Rows x(1, 1);
  rlx_input input = x.input("x");
  const size_t scaled = 0;
  Tensor output;
  EXPECT_FAILS(rlx_run_outputs(executable, &input, 1, &scaled, &output, 1, nullptr), RLX_INVALID_ARGUMENT, "'w'");
  EXPECT_FAILS(rlx_executable_finalize_params(executable), RLX_INVALID_ARGUMENT, "'w'");
  float w[] = {1, 2, 3, 4};
  ASSERT_OK(rlx_executable_set_param(executable, "w", RLX_F32, w, sizeof w));
  ASSERT_OK(rlx_executable_finalize_params(executable));
  Executable clone;
  ASSERT_OK(rlx_executable_clone(executable, &clone));
  w[0] = 10;
  ASSERT_OK(rlx_executable_set_param(executable, "w", RLX_F32, w, sizeof w));
  ASSERT_OK(rlx_run_outputs(executable, &input, 1, &scaled, &output, 1, nullptr));
  EXPECT_THAT(valuesOf(output), ElementsAre(10, 4, 9, 16));
  ASSERT_OK(rlx_run_outputs(clone, &input, 1, &scaled, &output, 1, nullptr));
  EXPECT_THAT(valuesOf(output), ElementsAre(1, 4, 9, 16));

  rlx_rng rng = {};
  ASSERT_OK(rlx_executable_get_rng(executable, &rng));
  EXPECT_EQ(rng.seed, 42u);
  EXPECT_EQ(rng.step, 0u);
  ASSERT_OK(rlx_executable_set_rng(executable, {7, 3}));
  ASSERT_OK(rlx_executable_get_rng(executable, &rng));
  EXPECT_EQ(rng.seed, 7u);
  EXPECT_EQ(rng.step, 3u);
  ASSERT_OK(rlx_executable_get_rng(clone, &rng));
  EXPECT_EQ(rng.seed, 42u);
}

TEST(CAPI, SeedAndStep) {
  const char *text = R"(
rlx.graph @noise() -> (tensor<4xf32> {rlx.name = "u"}) attributes {dims = []} {
  %0 = rlx.random_uniform key 0 {low = 0.0 : f64, high = 1.0 : f64} : tensor<4xf32>
  rlx.output %0 : tensor<4xf32>
})";
  Engine engine = makeEngine();
  Model model = load(engine, text);
  rlx_rng zero = {0, 0};
  rlx_executable_options options = {};
  options.struct_size = sizeof options;
  options.rng = &zero;
  Executable executable = makeExecutable(engine, model, &options);
  Tensor output;
  ASSERT_OK(rlx_run(executable, nullptr, 0, &output, 1, nullptr));
  // Philox 4x32-10 of counter 0 and key 0, published: 6627e8d5 e169c58d bc57ac4c 9b00dbd8.
  const uint32_t words[] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
  std::vector<float> expected;
  for (uint32_t word : words)
    expected.push_back(static_cast<float>(word >> 8) * 0x1p-24f);
  EXPECT_EQ(valuesOf(output), expected);
  const uint32_t step = 1;
  rlx_run_options run = {};
  run.struct_size = sizeof run;
  run.step = &step;
  ASSERT_OK(rlx_run(executable, nullptr, 0, &output, 1, &run));
  EXPECT_NE(valuesOf(output), expected);
  run.step = nullptr;
  ASSERT_OK(rlx_run(executable, nullptr, 0, &output, 1, &run));
  EXPECT_EQ(valuesOf(output), expected);
}

TEST(CAPI, ReportsAndStatistics) {
  Executable executable = load(kJoin);
  Snapshot before;
  ASSERT_OK(rlx_executable_snapshot(executable, &before));
  const rlx_miss_info *miss = nullptr;
  ASSERT_OK(rlx_snapshot_explain(before, &miss));
  EXPECT_EQ(miss, nullptr);

  int64_t sizes[2] = {};
  rlx_run_report report = {sizeof report, sizes, 2, -1, -1, -1};
  rlx_run_options options = {};
  options.struct_size = sizeof options;
  options.report = &report;
  Tensor z;
  auto run = [&](int64_t n, int64_t m) {
    Rows x(n), y(m);
    rlx_input inputs[] = {x.input("x"), y.input("y")};
    ASSERT_OK(rlx_run(executable, inputs, 2, &z, 1, &options));
    EXPECT_THAT(sizes, ElementsAre(n, m));
    EXPECT_GE(report.run_ms, 0);
  };
  run(2, 3);
  EXPECT_EQ(report.origin, RLX_NEW_TEMPLATE);
  EXPECT_GT(report.specialize_ms, 0);
  run(2, 4);
  EXPECT_EQ(report.origin, RLX_INSTANTIATED);
  run(2, 3);
  EXPECT_EQ(report.origin, RLX_HIT);

  Snapshot snapshot;
  ASSERT_OK(rlx_executable_snapshot(executable, &snapshot));
  const rlx_statistics *statistics = nullptr;
  ASSERT_OK(rlx_snapshot_statistics(snapshot, &statistics));
  EXPECT_EQ(statistics->hits, 1u);
  EXPECT_EQ(statistics->misses, 2u);
  EXPECT_EQ(statistics->entries, 2u);
  EXPECT_EQ(statistics->templates_made, 1u);
  EXPECT_EQ(statistics->templates_reused, 1u);
  EXPECT_GT(statistics->kernels_compiled, 0u);
  EXPECT_GT(statistics->phase_count, 0u);
  EXPECT_EQ(statistics->templates, 1u);
  EXPECT_GT(statistics->plan_bytes, 0u);
  EXPECT_GT(statistics->template_bytes, 0u);
  EXPECT_GT(statistics->kernels, 0u);
  EXPECT_EQ(statistics->not_ready, 0u);
  size_t count = 0;
  ASSERT_OK(rlx_snapshot_binding_count(snapshot, &count));
  ASSERT_EQ(count, 2u);
  const rlx_binding_info *binding = nullptr;
  ASSERT_OK(rlx_snapshot_binding(snapshot, 0, &binding));
  ASSERT_EQ(binding->binding.size_count, 2u);
  EXPECT_STREQ(binding->binding.sizes[0].dim, "M"); // by name
  EXPECT_EQ(binding->binding.sizes[0].size, 3);
  EXPECT_EQ(binding->hits, 1u);
  EXPECT_EQ(binding->state, RLX_READY);
  EXPECT_GT(binding->bytes, 0u);
  EXPECT_FAILS(rlx_snapshot_binding(snapshot, 2, &binding), RLX_INVALID_ARGUMENT, "binding 2");
  ASSERT_OK(rlx_snapshot_explain(snapshot, &miss));
  ASSERT_NE(miss, nullptr);
  ASSERT_EQ(miss->change_count, 1u);
  EXPECT_STREQ(miss->changes[0].dim, "M");
  EXPECT_EQ(miss->changes[0].from, 3);
  EXPECT_EQ(miss->changes[0].to, 4);
  EXPECT_STREQ(miss->error, "");
  EXPECT_TRUE(miss->made);
  EXPECT_THAT(miss->text, HasSubstr("M"));
}

TEST(CAPI, Forecasts) {
  Executable executable = load(kJoin);
  rlx_size sizes[] = {{"N", 2}, {"M", 3}};
  rlx_binding binding = {sizes, 2};
  auto kind = [&] {
    Forecast forecast;
    EXPECT_OK(rlx_executable_forecast(executable, &binding, &forecast));
    const rlx_forecast_info *info = nullptr;
    EXPECT_OK(rlx_forecast_get_info(forecast, &info));
    EXPECT_STRNE(info->text, "");
    EXPECT_EQ(*info->error != 0, info->kind == RLX_WILL_FAIL);
    return info->kind;
  };
  EXPECT_EQ(kind(), RLX_NEEDS_TEMPLATE);
  ASSERT_OK(rlx_executable_prepare(executable, &binding, 1));
  EXPECT_EQ(kind(), RLX_WILL_HIT);
  sizes[0].size = 5;
  EXPECT_EQ(kind(), RLX_WILL_INSTANTIATE);
  sizes[0].size = -5;
  EXPECT_EQ(kind(), RLX_WILL_FAIL);
}

TEST(CAPI, Preparing) {
  Engine engine = makeEngine();
  Model model = load(engine, kJoin);
  Executable executable = makeExecutable(engine, model);
  rlx_size two[] = {{"N", 2}, {"M", 3}}, three[] = {{"M", 1}, {"N", 3}};
  rlx_binding bindings[] = {{two, 2}, {three, 2}};
  ASSERT_OK(rlx_executable_prepare(executable, bindings, 1));

  std::atomic<size_t> calls{0};
  Preparation preparation;
  ASSERT_OK(rlx_executable_prepare_in_background(
      executable, bindings, 2, [](void *user, rlx_progress) { ++*static_cast<std::atomic<size_t> *>(user); }, &calls,
      &preparation));
  ASSERT_OK(rlx_preparation_wait(preparation, 0));
  EXPECT_EQ(calls, 2u);
  rlx_progress progress = {};
  ASSERT_OK(rlx_preparation_progress(preparation, &progress));
  EXPECT_EQ(progress.done, 2u);
  EXPECT_EQ(progress.failed, 0u);
  EXPECT_EQ(progress.total, 2u);
  EXPECT_OK(rlx_preparation_cancel(preparation)); // of what is done: nothing
  EXPECT_OK(rlx_preparation_wait(preparation, 1));

  rlx_run_report report = {sizeof report, nullptr, 0, -1, 0, 0};
  rlx_run_options options = {};
  options.struct_size = sizeof options;
  options.report = &report;
  Rows x(3), y(1);
  rlx_input inputs[] = {x.input("x"), y.input("y")};
  Tensor z;
  ASSERT_OK(rlx_run(executable, inputs, 2, &z, 1, &options));
  EXPECT_EQ(report.origin, RLX_HIT);

  rlx_binding partial = {two, 1};
  EXPECT_NE(text(rlx_executable_prepare(executable, &partial, 1)), "");
  EXPECT_NE(text(rlx_executable_prepare_in_background(executable, &partial, 1, nullptr, nullptr, &preparation)), "");
  EXPECT_EQ(static_cast<rlx_preparation *>(preparation), nullptr);
  ASSERT_OK(rlx_executable_get_likely(executable, &preparation));
  EXPECT_EQ(static_cast<rlx_preparation *>(preparation), nullptr);
}

TEST(CAPI, LikelySizesAndHints) {
  Engine engine = makeEngine();
  Model model = load(engine, kScale);
  const int64_t likely[] = {5};
  rlx_dim_hint hint = {};
  hint.struct_size = sizeof hint;
  hint.dim = "N";
  hint.max = 8;
  hint.likely = likely;
  hint.likely_count = 1;
  rlx_executable_options options = {};
  options.struct_size = sizeof options;
  options.hints = &hint;
  options.hint_count = 1;
  options.prepare_likely = 1;
  Executable executable = makeExecutable(engine, model, &options);
  ASSERT_NE(static_cast<rlx_executable *>(executable), nullptr);
  Preparation preparation;
  ASSERT_OK(rlx_executable_get_likely(executable, &preparation));
  ASSERT_OK(rlx_preparation_wait(preparation, 0));
  rlx_progress progress = {};
  ASSERT_OK(rlx_preparation_progress(preparation, &progress));
  EXPECT_EQ(progress.done, 3u); // 2, 3 and 5
  EXPECT_EQ(progress.failed, 0u);

  const float w[] = {1, 1, 1, 1};
  ASSERT_OK(rlx_executable_set_param(executable, "w", RLX_F32, w, sizeof w));
  rlx_run_options run = {};
  run.struct_size = sizeof run;
  run.on_miss = RLX_FAIL_FAST;
  rlx_tensor *outputs[2] = {};
  Rows five(5), nine(9);
  rlx_input input = five.input("x");
  ASSERT_OK(rlx_run(executable, &input, 1, outputs, 2, &run));
  Tensor scaled(outputs[0]), twice(outputs[1]);
  EXPECT_EQ(valuesOf(scaled), five.values);
  input = nine.input("x");
  EXPECT_FAILS(rlx_run(executable, &input, 1, outputs, 2, nullptr), RLX_OUT_OF_RANGE, "N");
}

TEST(CAPI, Buckets) {
  Engine engine = makeEngine();
  Model model = load(engine, kScale);
  const rlx_dim_info *dim = nullptr;
  ASSERT_OK(rlx_model_get_dim(model, 0, &dim));
  ASSERT_TRUE(dim->paddable) << dim->obstacle;
  rlx_dim_hint hint = {};
  hint.struct_size = sizeof hint;
  hint.dim = "N";
  hint.ladder_low = 4;
  hint.ladder_high = 16;
  rlx_executable_options options = {};
  options.struct_size = sizeof options;
  options.hints = &hint;
  options.hint_count = 1;
  Executable executable = makeExecutable(engine, model, &options);
  ASSERT_NE(static_cast<rlx_executable *>(executable), nullptr);
  const float w[] = {1, 1, 1, 1};
  ASSERT_OK(rlx_executable_set_param(executable, "w", RLX_F32, w, sizeof w));
  for (int64_t rows = 1; rows != 17; ++rows) {
    Rows x(rows, 1);
    rlx_input input = x.input("x");
    rlx_tensor *outputs[2] = {};
    ASSERT_OK(rlx_run(executable, &input, 1, outputs, 2, nullptr));
    Tensor scaled(outputs[0]), twice(outputs[1]);
    EXPECT_THAT(shapeOf(scaled), ElementsAre(rows, 4));
    EXPECT_EQ(valuesOf(scaled), x.values);
    EXPECT_EQ(valuesOf(twice), x.times(2));
  }
  Snapshot snapshot;
  ASSERT_OK(rlx_executable_snapshot(executable, &snapshot));
  size_t count = 0;
  ASSERT_OK(rlx_snapshot_binding_count(snapshot, &count));
  EXPECT_EQ(count, 3u); // 4, 8 and 16
}

TEST(CAPI, FailFastComesToBeReady) {
  Executable executable = load(kJoin);
  rlx_run_options options = {};
  options.struct_size = sizeof options;
  options.on_miss = RLX_FAIL_FAST;
  Rows x(2), y(1);
  rlx_input inputs[] = {x.input("x"), y.input("y")};
  Tensor z;
  EXPECT_FAILS(rlx_run(executable, inputs, 2, &z, 1, &options), RLX_NOT_READY, "");
  // A run that waits needs the same specialization.
  ASSERT_OK(rlx_run(executable, inputs, 2, &z, 1, nullptr));
  ASSERT_OK(rlx_run(executable, inputs, 2, &z, 1, &options));
  EXPECT_EQ(valuesOf(z), concat(x.times(2), y.times(2)));
}

TEST(CAPI, HandlesEndInAnyOrder) {
  Engine engine = makeEngine();
  Model model = load(engine, kJoin);
  Executable executable = makeExecutable(engine, model);
  Executable clone;
  ASSERT_OK(rlx_executable_clone(executable, &clone));
  engine = Engine();
  model = Model();
  executable = Executable();
  Rows x(1), y(1);
  rlx_input inputs[] = {x.input("x"), y.input("y")};
  Tensor z;
  ASSERT_OK(rlx_run(clone, inputs, 2, &z, 1, nullptr));
  clone = Executable();
  EXPECT_EQ(valuesOf(z), concat(x.times(2), y.times(2)));
}

TEST(CAPI, AHitIntoBuffersAllocatesNothing) {
  Executable executable = load(kJoin);
  Rows x(2), y(3);
  std::vector<float> z(20);
  rlx_input inputs[] = {x.input("x"), y.input("y")};
  rlx_output output = outputFor("z", z);
  // The first make what is then kept.
  for (int run = 0; run != 4; ++run)
    ASSERT_OK(rlx_run_into(executable, inputs, 2, &output, 1, nullptr));
  rlx_status *status = nullptr;
  EXPECT_EQ(rlx::fakes::allocationsOf([&] { status = rlx_run_into(executable, inputs, 2, &output, 1, nullptr); }), 0u);
  ASSERT_OK(status);
  rlx_run_options options = {};
  options.struct_size = sizeof options;
  EXPECT_EQ(rlx::fakes::allocationsOf([&] { status = rlx_run_into(executable, inputs, 2, &output, 1, &options); }), 0u);
  ASSERT_OK(status);
  Context context;
  ASSERT_OK(rlx_context_create(executable, &context));
  const rlx_view *views = nullptr;
  auto runInContext = [&] { return rlx_context_run(context, inputs, 2, nullptr, 0, &views, nullptr, nullptr); };
  for (int run = 0; run != 4; ++run)
    ASSERT_OK(runInContext());
  EXPECT_EQ(rlx::fakes::allocationsOf([&] { status = runInContext(); }), 0u);
  ASSERT_OK(status);
}

TEST(CAPI, EngineInfo) {
  Executable executable;
  Engine engine = makeEngine(2);
  {
    Model model = load(engine, kJoin);
    executable = makeExecutable(engine, model);
  }
  Rows x(2), y(3);
  rlx_input inputs[] = {x.input("x"), y.input("y")};
  Tensor z;
  ASSERT_OK(rlx_run(executable, inputs, 2, &z, 1, nullptr));
  rlx_engine_info info = {};
  info.struct_size = sizeof info;
  ASSERT_OK(rlx_engine_get_info(engine, &info));
  EXPECT_EQ(info.threads, 2u);
  EXPECT_GT(info.kernels, 0u);
  EXPECT_GT(info.code_bytes, 0u);
  EXPECT_OK(rlx_engine_trim(engine));
}
