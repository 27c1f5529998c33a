//===- BadInputTest.cpp - everything a caller can get wrong ---------------===//
#include "CAPITest.h"

#include <climits>
#include <functional>

using namespace rlx::capitest;

// Reading memory that was freed is what ASan ends a program for, and TSan tells.
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define RLX_SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define RLX_SANITIZED 1
#endif

TEST(CAPIBadInput, NullHandles) {
  Engine engine;
  Model model;
  Executable executable;
  Context context;
  Tensor tensor;
  Preparation preparation;
  Snapshot snapshot;
  rlx_rng rng = {};
  rlx_engine_info engineInfo = {};
  engineInfo.struct_size = sizeof engineInfo;
  const rlx_model_info *modelInfo = nullptr;
  const rlx_dim_info *dimInfo = nullptr;
  const rlx_tensor_info *tensorInfo = nullptr;
  const rlx_view *views = nullptr;
  const rlx_statistics *statistics = nullptr;
  const rlx_binding_info *bindingInfo = nullptr;
  const rlx_miss_info *miss = nullptr;
  rlx_progress progress = {};
  rlx_view view = {};
  size_t count = 0;
  rlx_tensor *output = nullptr;
  const char *engineIsNull = "engine is NULL", *modelIsNull = "model is NULL", *executableIsNull = "executable is NULL",
             *snapshotIsNull = "snapshot is NULL", *preparationIsNull = "preparation is NULL";
  EXPECT_FAILS(rlx_engine_trim(nullptr), RLX_INVALID_ARGUMENT, engineIsNull);
  EXPECT_FAILS(rlx_engine_get_info(nullptr, &engineInfo), RLX_INVALID_ARGUMENT, engineIsNull);
  EXPECT_FAILS(rlx_model_load(nullptr, "x.mlir", nullptr, &model), RLX_INVALID_ARGUMENT, engineIsNull);
  EXPECT_FAILS(rlx_model_load_text(nullptr, "", 0, nullptr, &model), RLX_INVALID_ARGUMENT, engineIsNull);
  EXPECT_FAILS(rlx_model_get_info(nullptr, &modelInfo), RLX_INVALID_ARGUMENT, modelIsNull);
  EXPECT_FAILS(rlx_model_get_dim(nullptr, 0, &dimInfo), RLX_INVALID_ARGUMENT, modelIsNull);
  EXPECT_FAILS(rlx_model_get_input(nullptr, 0, &tensorInfo), RLX_INVALID_ARGUMENT, modelIsNull);
  EXPECT_FAILS(rlx_model_get_output(nullptr, 0, &tensorInfo), RLX_INVALID_ARGUMENT, modelIsNull);
  EXPECT_FAILS(rlx_model_get_param(nullptr, 0, &tensorInfo), RLX_INVALID_ARGUMENT, modelIsNull);
  EXPECT_FAILS(rlx_executable_create(nullptr, nullptr, nullptr, &executable), RLX_INVALID_ARGUMENT, engineIsNull);
  engine = makeEngine();
  EXPECT_FAILS(rlx_executable_create(engine, nullptr, nullptr, &executable), RLX_INVALID_ARGUMENT, modelIsNull);
  EXPECT_FAILS(rlx_executable_clone(nullptr, &executable), RLX_INVALID_ARGUMENT, executableIsNull);
  EXPECT_FAILS(rlx_executable_set_param(nullptr, "w", RLX_F32, nullptr, 0), RLX_INVALID_ARGUMENT, executableIsNull);
  EXPECT_FAILS(rlx_executable_finalize_params(nullptr), RLX_INVALID_ARGUMENT, executableIsNull);
  EXPECT_FAILS(rlx_executable_set_rng(nullptr, rng), RLX_INVALID_ARGUMENT, executableIsNull);
  EXPECT_FAILS(rlx_executable_get_rng(nullptr, &rng), RLX_INVALID_ARGUMENT, executableIsNull);
  EXPECT_FAILS(rlx_run(nullptr, nullptr, 0, &output, 1, nullptr), RLX_INVALID_ARGUMENT, executableIsNull);
  EXPECT_FAILS(rlx_run_outputs(nullptr, nullptr, 0, nullptr, nullptr, 0, nullptr), RLX_INVALID_ARGUMENT,
               executableIsNull);
  EXPECT_FAILS(rlx_run_into(nullptr, nullptr, 0, nullptr, 0, nullptr), RLX_INVALID_ARGUMENT, executableIsNull);
  EXPECT_FAILS(rlx_executable_solve(nullptr, nullptr, 0, nullptr, nullptr, 0), RLX_INVALID_ARGUMENT, executableIsNull);
  EXPECT_FAILS(rlx_executable_prepare(nullptr, nullptr, 0), RLX_INVALID_ARGUMENT, executableIsNull);
  EXPECT_FAILS(rlx_executable_prepare_in_background(nullptr, nullptr, 0, nullptr, nullptr, &preparation),
               RLX_INVALID_ARGUMENT, executableIsNull);
  EXPECT_FAILS(rlx_executable_get_likely(nullptr, &preparation), RLX_INVALID_ARGUMENT, executableIsNull);
  EXPECT_FAILS(rlx_executable_snapshot(nullptr, &snapshot), RLX_INVALID_ARGUMENT, executableIsNull);
  Forecast forecast;
  const rlx_forecast_info *forecastInfo = nullptr;
  EXPECT_FAILS(rlx_executable_forecast(nullptr, nullptr, &forecast), RLX_INVALID_ARGUMENT, executableIsNull);
  EXPECT_FAILS(rlx_forecast_get_info(nullptr, &forecastInfo), RLX_INVALID_ARGUMENT, "forecast is NULL");
  rlx_forecast_destroy(nullptr);
  EXPECT_FAILS(rlx_context_trim(nullptr), RLX_INVALID_ARGUMENT, "context is NULL");
  EXPECT_FAILS(rlx_context_create(nullptr, &context), RLX_INVALID_ARGUMENT, executableIsNull);
  EXPECT_FAILS(rlx_context_run(nullptr, nullptr, 0, nullptr, 0, &views, &count, nullptr), RLX_INVALID_ARGUMENT,
               "context is NULL");
  EXPECT_FAILS(rlx_tensor_view(nullptr, &view), RLX_INVALID_ARGUMENT, "tensor is NULL");
  EXPECT_FAILS(rlx_preparation_progress(nullptr, &progress), RLX_INVALID_ARGUMENT, preparationIsNull);
  EXPECT_FAILS(rlx_preparation_cancel(nullptr), RLX_INVALID_ARGUMENT, preparationIsNull);
  EXPECT_FAILS(rlx_preparation_wait(nullptr, 0), RLX_INVALID_ARGUMENT, preparationIsNull);
  EXPECT_FAILS(rlx_snapshot_statistics(nullptr, &statistics), RLX_INVALID_ARGUMENT, snapshotIsNull);
  EXPECT_FAILS(rlx_snapshot_binding_count(nullptr, &count), RLX_INVALID_ARGUMENT, snapshotIsNull);
  EXPECT_FAILS(rlx_snapshot_binding(nullptr, 0, &bindingInfo), RLX_INVALID_ARGUMENT, snapshotIsNull);
  EXPECT_FAILS(rlx_snapshot_explain(nullptr, &miss), RLX_INVALID_ARGUMENT, snapshotIsNull);

  rlx_status_destroy(nullptr);
  rlx_engine_destroy(nullptr);
  rlx_model_destroy(nullptr);
  rlx_executable_destroy(nullptr);
  rlx_context_destroy(nullptr);
  rlx_tensor_destroy(nullptr);
  rlx_preparation_destroy(nullptr);
  rlx_snapshot_destroy(nullptr);
  rlx_task_run(nullptr);
  rlx_task_drop(nullptr);
  rlx_engine *none = nullptr;
  rlx_engine_destroy(&none);
}

TEST(CAPIBadInput, NullPlacesForResults) {
  Engine engine = makeEngine();
  Model model = load(engine, kJoin);
  Executable executable = makeExecutable(engine, model);
  Context context;
  ASSERT_OK(rlx_context_create(executable, &context));
  Snapshot snapshot;
  ASSERT_OK(rlx_executable_snapshot(executable, &snapshot));
  Rows rows(1);
  rlx_input inputs[] = {rows.input("x"), rows.input("y")};
  const size_t index = 0;
  rlx_tensor *output = nullptr;
  EXPECT_FAILS(rlx_engine_create(nullptr, nullptr), RLX_INVALID_ARGUMENT, "'engine'");
  EXPECT_FAILS(rlx_engine_get_info(engine, nullptr), RLX_INVALID_ARGUMENT, "'info'");
  EXPECT_FAILS(rlx_model_load(engine, "x.mlir", nullptr, nullptr), RLX_INVALID_ARGUMENT, "'model'");
  EXPECT_FAILS(rlx_model_load_text(engine, kJoin, 1, nullptr, nullptr), RLX_INVALID_ARGUMENT, "'model'");
  EXPECT_FAILS(rlx_model_load(engine, nullptr, nullptr, &model), RLX_INVALID_ARGUMENT, "'path'");
  EXPECT_FAILS(rlx_model_load_text(engine, nullptr, 10, nullptr, &model), RLX_INVALID_ARGUMENT, "'text'");
  model = load(engine, kJoin);
  EXPECT_FAILS(rlx_model_get_info(model, nullptr), RLX_INVALID_ARGUMENT, "'info'");
  EXPECT_FAILS(rlx_model_get_dim(model, 0, nullptr), RLX_INVALID_ARGUMENT, "'info'");
  EXPECT_FAILS(rlx_model_get_input(model, 0, nullptr), RLX_INVALID_ARGUMENT, "'info'");
  EXPECT_FAILS(rlx_model_get_output(model, 0, nullptr), RLX_INVALID_ARGUMENT, "'info'");
  EXPECT_FAILS(rlx_model_get_param(model, 0, nullptr), RLX_INVALID_ARGUMENT, "'info'");
  EXPECT_FAILS(rlx_executable_create(engine, model, nullptr, nullptr), RLX_INVALID_ARGUMENT, "'executable'");
  EXPECT_FAILS(rlx_executable_clone(executable, nullptr), RLX_INVALID_ARGUMENT, "'clone'");
  EXPECT_FAILS(rlx_executable_get_rng(executable, nullptr), RLX_INVALID_ARGUMENT, "'rng'");
  EXPECT_FAILS(rlx_run(executable, inputs, 2, nullptr, 1, nullptr), RLX_INVALID_ARGUMENT, "'outputs'");
  EXPECT_FAILS(rlx_run_outputs(executable, inputs, 2, &index, nullptr, 1, nullptr), RLX_INVALID_ARGUMENT, "'outputs'");
  EXPECT_FAILS(rlx_run_outputs(executable, inputs, 2, nullptr, &output, 1, nullptr), RLX_INVALID_ARGUMENT, "'indices'");
  EXPECT_FAILS(rlx_run_into(executable, inputs, 2, nullptr, 1, nullptr), RLX_INVALID_ARGUMENT, "'outputs'");
  EXPECT_FAILS(rlx_run(executable, nullptr, 2, &output, 1, nullptr), RLX_INVALID_ARGUMENT, "'inputs'");
  EXPECT_FAILS(rlx_executable_solve(executable, inputs, 2, nullptr, nullptr, 2), RLX_INVALID_ARGUMENT, "'sizes'");
  EXPECT_FAILS(rlx_context_create(executable, nullptr), RLX_INVALID_ARGUMENT, "'context'");
  EXPECT_FAILS(rlx_context_run(context, inputs, 2, nullptr, 0, nullptr, nullptr, nullptr), RLX_INVALID_ARGUMENT,
               "'outputs'");
  const rlx_view *views = nullptr;
  EXPECT_FAILS(rlx_context_run(context, inputs, 2, nullptr, 1, &views, nullptr, nullptr), RLX_INVALID_ARGUMENT,
               "'indices'");
  EXPECT_FAILS(rlx_executable_prepare(executable, nullptr, 1), RLX_INVALID_ARGUMENT, "'bindings'");
  EXPECT_FAILS(rlx_executable_prepare_in_background(executable, nullptr, 0, nullptr, nullptr, nullptr),
               RLX_INVALID_ARGUMENT, "'preparation'");
  EXPECT_FAILS(rlx_executable_get_likely(executable, nullptr), RLX_INVALID_ARGUMENT, "'preparation'");
  rlx_binding binding = {};
  EXPECT_FAILS(rlx_executable_forecast(executable, &binding, nullptr), RLX_INVALID_ARGUMENT, "'forecast'");
  Forecast forecast;
  EXPECT_FAILS(rlx_executable_forecast(executable, nullptr, &forecast), RLX_INVALID_ARGUMENT, "'binding'");
  EXPECT_FAILS(rlx_executable_snapshot(executable, nullptr), RLX_INVALID_ARGUMENT, "'snapshot'");
  EXPECT_FAILS(rlx_snapshot_statistics(snapshot, nullptr), RLX_INVALID_ARGUMENT, "'statistics'");
  EXPECT_FAILS(rlx_snapshot_binding_count(snapshot, nullptr), RLX_INVALID_ARGUMENT, "'count'");
  EXPECT_FAILS(rlx_snapshot_binding(snapshot, 0, nullptr), RLX_INVALID_ARGUMENT, "'info'");
  EXPECT_FAILS(rlx_snapshot_explain(snapshot, nullptr), RLX_INVALID_ARGUMENT, "'miss'");
  EXPECT_FAILS(rlx_executable_set_param(executable, nullptr, RLX_F32, nullptr, 0), RLX_INVALID_ARGUMENT, "'name'");
}

TEST(CAPIBadInput, HandlesOfAnotherKind) {
  Engine engine = makeEngine();
  Model model = load(engine, kJoin);
  auto *noEngine = reinterpret_cast<rlx_engine *>(static_cast<rlx_model *>(model));
  auto *noModel = reinterpret_cast<rlx_model *>(static_cast<rlx_engine *>(engine));
  Executable executable;
  EXPECT_FAILS(rlx_engine_trim(noEngine), RLX_INVALID_ARGUMENT, "is no engine");
  EXPECT_FAILS(rlx_executable_create(engine, noModel, nullptr, &executable), RLX_INVALID_ARGUMENT, "is no model");
  rlx_engine_destroy(&noEngine); // does nothing but forget it
  EXPECT_EQ(noEngine, nullptr);
  const rlx_model_info *info = nullptr;
  EXPECT_OK(rlx_model_get_info(model, &info));
}

#ifndef RLX_SANITIZED
TEST(CAPIBadInput, CopiesOfDestroyedHandles) {
  rlx_engine *engine = nullptr;
  ASSERT_OK(rlx_engine_create(nullptr, &engine));
  rlx_engine *copy = engine;
  rlx_engine_destroy(&engine);
  EXPECT_EQ(engine, nullptr);
  EXPECT_FAILS(rlx_engine_trim(copy), RLX_INVALID_ARGUMENT, "was destroyed");
  rlx_engine_destroy(&copy);
  EXPECT_EQ(copy, nullptr);
}
#endif

TEST(CAPIBadInput, SizesOfStructs) {
  Engine engine;
  struct {
    rlx_engine_options options;
    uint64_t more[2];
  } newer = {};
  for (size_t size : {size_t(0), size_t(1), size_t(8), sizeof(rlx_engine_options) - 1, size_t(4097), SIZE_MAX}) {
    newer.options.struct_size = size;
    EXPECT_FAILS(rlx_engine_create(&newer.options, &engine), RLX_INVALID_ARGUMENT, "rlx_engine_options.struct_size");
    EXPECT_EQ(static_cast<rlx_engine *>(engine), nullptr);
  }
  newer.options.struct_size = sizeof newer;
  EXPECT_OK(rlx_engine_create(&newer.options, &engine));
  newer.more[1] = 1;
  EXPECT_FAILS(rlx_engine_create(&newer.options, &engine), RLX_INVALID_ARGUMENT, "does not know");

  engine = makeEngine();
  rlx_engine_info info = {};
  EXPECT_FAILS(rlx_engine_get_info(engine, &info), RLX_INVALID_ARGUMENT, "rlx_engine_info.struct_size");
  Model model;
  rlx_load_options load = {};
  EXPECT_FAILS(rlx_model_load(engine, "x.mlir", &load, &model), RLX_INVALID_ARGUMENT, "rlx_load_options.struct_size");
  model = rlx::capitest::load(engine, kJoin);
  Executable executable;
  rlx_executable_options options = {};
  EXPECT_FAILS(rlx_executable_create(engine, model, &options, &executable), RLX_INVALID_ARGUMENT,
               "rlx_executable_options.struct_size");
  rlx_dim_hint hints[2] = {};
  options.struct_size = sizeof options;
  options.hints = hints;
  options.hint_count = 2;
  EXPECT_FAILS(rlx_executable_create(engine, model, &options, &executable), RLX_INVALID_ARGUMENT,
               "rlx_dim_hint.struct_size");
  hints[0].struct_size = sizeof hints[0];
  hints[0].dim = "N";
  EXPECT_FAILS(rlx_executable_create(engine, model, &options, &executable), RLX_INVALID_ARGUMENT,
               "rlx_dim_hint.struct_size");
  executable = makeExecutable(engine, model);
  Rows rows(1);
  rlx_input inputs[] = {rows.input("x"), rows.input("y")};
  Tensor z;
  rlx_run_options run = {};
  EXPECT_FAILS(rlx_run(executable, inputs, 2, &z, 1, &run), RLX_INVALID_ARGUMENT, "rlx_run_options.struct_size");
  rlx_run_report report = {};
  run.struct_size = sizeof run;
  run.report = &report;
  EXPECT_FAILS(rlx_run(executable, inputs, 2, &z, 1, &run), RLX_INVALID_ARGUMENT, "rlx_run_report.struct_size");
  report.struct_size = sizeof report;
  report.size_count = 2;
  EXPECT_FAILS(rlx_run(executable, inputs, 2, &z, 1, &run), RLX_INVALID_ARGUMENT, "room for 2");
}

TEST(CAPIBadInput, EngineOptions) {
  auto fails = [](const char *part, const std::function<void(rlx_engine_options &)> &change) {
    rlx_engine_options options = {};
    options.struct_size = sizeof options;
    change(options);
    Engine engine;
    EXPECT_FAILS(rlx_engine_create(&options, &engine), RLX_INVALID_ARGUMENT, part);
    EXPECT_EQ(static_cast<rlx_engine *>(engine), nullptr);
  };
  rlx_allocator allocator = {};
  rlx_thread_pool pool = {};
  fails("threads", [](auto &options) { options.threads = -1; });
  fails("threads", [](auto &options) { options.threads = INT32_MAX; });
  fails("65", [](auto &options) { options.background_threads = 65; });
  fails("idle_ms", [](auto &options) { options.idle_ms = -1; });
  fails("compiler", [](auto &options) { options.compiler = 2; });
  fails("allocator", [&](auto &options) { options.allocator = &allocator; });
  fails("submit", [&](auto &options) { options.pool = &pool; });
  pool.submit = [](void *, rlx_task *task) { rlx_task_drop(task); };
  for (uint32_t threads : {0u, 257u, UINT_MAX}) {
    pool.threads = threads;
    fails("thread pool has", [&](auto &options) { options.pool = &pool; });
  }
  // As much of all as can be said.
  rlx_engine_options options = {};
  options.struct_size = sizeof options;
  options.cache_entries = options.cache_bytes = options.idle_bytes = options.worker_memory_bytes = RLX_UNLIMITED;
  options.idle_ms = options.worker_timeout_ms = INT64_MAX;
  options.threads = 1;
  Engine engine;
  ASSERT_OK(rlx_engine_create(&options, &engine));
  Model model = load(engine, kJoin);
  Executable executable = makeExecutable(engine, model);
  Rows rows(1);
  rlx_input inputs[] = {rows.input("x"), rows.input("y")};
  Tensor z;
  EXPECT_OK(rlx_run(executable, inputs, 2, &z, 1, nullptr));
}

TEST(CAPIBadInput, Models) {
  Engine engine = makeEngine();
  Model model;
  EXPECT_FAILS(rlx_model_load(engine, "/nonexistent/model.onnx", nullptr, &model), RLX_IO, "model.onnx");
  EXPECT_FAILS(rlx_model_load_text(engine, "", 0, nullptr, &model), RLX_INVALID_MODEL, "");
  EXPECT_FAILS(rlx_model_load_text(engine, "\0\xff{", 3, nullptr, &model), RLX_INVALID_MODEL, "");
  EXPECT_FAILS(rlx_model_load_text(engine, kJoin, std::strlen(kJoin) / 2, nullptr, &model), RLX_INVALID_MODEL, "");
  rlx_load_options options = {};
  options.struct_size = sizeof options;
  options.weights_file = "/nonexistent/weights.safetensors";
  EXPECT_FAILS(rlx_model_load_text(engine, kJoin, std::strlen(kJoin), &options, &model), RLX_IO, "weights");
  options.weights_file = nullptr;
  options.dynamic_inputs = 1;
  EXPECT_FAILS(rlx_model_load_text(engine, kJoin, std::strlen(kJoin), &options, &model), RLX_INVALID_ARGUMENT, "onnx");
  EXPECT_EQ(static_cast<rlx_model *>(model), nullptr);

  model = load(engine, kJoin);
  const rlx_dim_info *dim = nullptr;
  const rlx_tensor_info *tensor = nullptr;
  EXPECT_FAILS(rlx_model_get_dim(model, 2, &dim), RLX_INVALID_ARGUMENT, "dim 2");
  EXPECT_FAILS(rlx_model_get_input(model, SIZE_MAX, &tensor), RLX_INVALID_ARGUMENT, "there are 2");
  EXPECT_FAILS(rlx_model_get_output(model, 1, &tensor), RLX_INVALID_ARGUMENT, "output 1");
  EXPECT_FAILS(rlx_model_get_param(model, 0, &tensor), RLX_INVALID_ARGUMENT, "param 0");
}

TEST(CAPIBadInput, IssueCountsThatAreNone) {
  // What the pointer points to is not looked at.
  Engine engine = makeEngine();
  Model model;
  for (size_t count : {SIZE_MAX, size_t(1) << 50}) {
    EXPECT_FAILS(rlx_model_load_text(engine, kScale, count, nullptr, &model), RLX_INVALID_ARGUMENT, "a text of");
    EXPECT_EQ(static_cast<rlx_model *>(model), nullptr);
  }
  model = load(engine, kScale);
  const int64_t likely[] = {1};
  const rlx_bucket buckets[] = {{1, 5}};
  for (size_t count : {SIZE_MAX, SIZE_MAX / 8, size_t(1) << 50})
    for (bool isLikely : {true, false}) {
      rlx_dim_hint hint = {};
      hint.struct_size = sizeof hint;
      hint.dim = "N";
      hint.likely = likely;
      hint.buckets = buckets;
      (isLikely ? hint.likely_count : hint.bucket_count) = count;
      rlx_executable_options options = {};
      options.struct_size = sizeof options;
      options.hints = &hint;
      options.hint_count = 1;
      Executable executable;
      EXPECT_FAILS(rlx_executable_create(engine, model, &options, &executable), RLX_INVALID_ARGUMENT, "'N'");
    }
  Executable executable;
  ASSERT_OK(rlx_executable_create(engine, model, nullptr, &executable));
  rlx_size size = {"N", 1};
  rlx_binding binding = {&size, 1};
  Preparation preparation;
  EXPECT_FAILS(rlx_executable_prepare(executable, &binding, SIZE_MAX), RLX_INVALID_ARGUMENT, "bindings are given");
  EXPECT_FAILS(
      rlx_executable_prepare_in_background(executable, &binding, size_t(1) << 50, nullptr, nullptr, &preparation),
      RLX_INVALID_ARGUMENT, "bindings are given");
}

TEST(CAPIBadInput, Hints) {
  Engine engine = makeEngine();
  Model model = load(engine, kJoin);
  auto fails = [&](rlx_code code, const char *part, const std::function<void(rlx_dim_hint &)> &change) {
    rlx_dim_hint hint = {};
    hint.struct_size = sizeof hint;
    hint.dim = "N";
    change(hint);
    rlx_executable_options options = {};
    options.struct_size = sizeof options;
    options.hints = &hint;
    options.hint_count = 1;
    Executable executable;
    EXPECT_FAILS(rlx_executable_create(engine, model, &options, &executable), code, part);
    EXPECT_EQ(static_cast<rlx_executable *>(executable), nullptr);
  };
  fails(RLX_INVALID_ARGUMENT, "names no dim", [](auto &hint) { hint.dim = nullptr; });
  fails(RLX_INVALID_ARGUMENT, "Q", [](auto &hint) { hint.dim = "Q"; });
  fails(RLX_INVALID_ARGUMENT, "N", [](auto &hint) { hint.min = 5, hint.max = 4; });
  fails(RLX_INVALID_ARGUMENT, "N", [](auto &hint) { hint.multiple = -1; });
  fails(RLX_INVALID_ARGUMENT, "likely", [](auto &hint) { hint.likely_count = 3; });
  fails(RLX_INVALID_ARGUMENT, "buckets", [](auto &hint) { hint.bucket_count = SIZE_MAX; });
  fails(RLX_INVALID_ARGUMENT, "", [](auto &hint) { hint.ladder_low = 3, hint.ladder_high = 12; });
  fails(RLX_INVALID_ARGUMENT, "", [](auto &hint) { hint.ladder_low = 16, hint.ladder_high = 8; });
  // No run of this model may be padded along N.
  const rlx_bucket buckets[] = {{4, 4}, {1, 5}, {4, 9}};
  fails(RLX_UNSUPPORTED, "concat", [&](auto &hint) { hint.buckets = buckets + 1, hint.bucket_count = 1; });
  fails(RLX_UNSUPPORTED, "concat", [&](auto &hint) { hint.ladder_low = 1, hint.ladder_high = 4; });
  model = load(engine, kScale);
  fails(RLX_INVALID_ARGUMENT, "N", [&](auto &hint) { hint.buckets = buckets, hint.bucket_count = 1; });
  fails(RLX_INVALID_ARGUMENT, "N", [&](auto &hint) { hint.buckets = buckets + 1, hint.bucket_count = 2; });
  model = load(engine, kJoin);
  rlx_executable_options options = {};
  options.struct_size = sizeof options;
  options.hint_count = 1;
  Executable executable;
  EXPECT_FAILS(rlx_executable_create(engine, model, &options, &executable), RLX_INVALID_ARGUMENT, "'hints'");
  options.hint_count = SIZE_MAX;
  EXPECT_FAILS(rlx_executable_create(engine, model, &options, &executable), RLX_INVALID_ARGUMENT, "hints are given");
  options.hint_count = 0;
  options.prepare_likely = 1; // the model has no likely sizes
  EXPECT_FAILS(rlx_executable_create(engine, model, &options, &executable), RLX_INVALID_ARGUMENT, "likely");
}

TEST(CAPIBadInput, Inputs) {
  Executable executable = load(kJoin);
  Context context;
  ASSERT_OK(rlx_context_create(executable, &context));
  Rows x(2), y(3);
  // Every way to run says the same.
  auto fails = [&](rlx_code code, const char *part, const std::function<void(rlx_input *)> &change, size_t count = 2) {
    rlx_input inputs[3] = {x.input("x"), y.input("y"), y.input("q")};
    change(inputs);
    rlx_tensor *z = nullptr;
    const size_t index = 0;
    std::vector<float> values(20);
    rlx_output output = outputFor("z", values);
    const rlx_view *views = nullptr;
    int64_t sizes[2];
    EXPECT_FAILS(rlx_run(executable, inputs, count, &z, 1, nullptr), code, part);
    EXPECT_FAILS(rlx_run_outputs(executable, inputs, count, &index, &z, 1, nullptr), code, part);
    EXPECT_FAILS(rlx_run_into(executable, inputs, count, &output, 1, nullptr), code, part);
    EXPECT_FAILS(rlx_context_run(context, inputs, count, nullptr, 0, &views, nullptr, nullptr), code, part);
    EXPECT_FAILS(rlx_executable_solve(executable, inputs, count, nullptr, sizes, 2), code, part);
    EXPECT_EQ(z, nullptr);
  };
  fails(RLX_INVALID_ARGUMENT, "3 inputs", [](rlx_input *) {}, 3);
  fails(RLX_INVALID_ARGUMENT, "inputs are given", [](rlx_input *) {}, SIZE_MAX);
  fails(RLX_INVALID_ARGUMENT, "'y'", [](rlx_input *) {}, 1);
  fails(RLX_INVALID_ARGUMENT, "'x' is missing", [](rlx_input *) {}, 0);
  fails(RLX_INVALID_ARGUMENT, "'y' is missing", [](rlx_input *in) { in[0].name = nullptr; }, 1);
  fails(RLX_INVALID_ARGUMENT, "some inputs have names", [](rlx_input *in) { in[1].name = nullptr; });
  fails(RLX_INVALID_ARGUMENT, "some inputs have names", [](rlx_input *in) { in[0].name = nullptr; });
  fails(RLX_INVALID_ARGUMENT, "'q'", [](rlx_input *in) { in[0].name = "q"; });
  fails(RLX_INVALID_ARGUMENT, "'x'", [](rlx_input *in) { in[1].name = "x"; });
  fails(RLX_INVALID_ARGUMENT, "'x' has dtype 13", [](rlx_input *in) { in[0].dtype = 13; });
  fails(RLX_INVALID_ARGUMENT, "'x' has dtype -1", [](rlx_input *in) { in[0].dtype = -1; });
  fails(RLX_INVALID_ARGUMENT, "'x'", [](rlx_input *in) { in[0].dtype = RLX_I32; });
  fails(RLX_INVALID_ARGUMENT, "'y' has unknown flags", [](rlx_input *in) { in[1].flags = 2; });
  fails(RLX_INVALID_ARGUMENT, "'y' has rank -1", [](rlx_input *in) { in[1].rank = -1; });
  fails(RLX_INVALID_ARGUMENT, "'y' has rank 2147483647", [](rlx_input *in) { in[1].rank = INT32_MAX; });
  fails(RLX_INVALID_ARGUMENT, "'y'", [](rlx_input *in) { in[1].rank = 1; });
  fails(RLX_INVALID_ARGUMENT, "'y' has no shape", [](rlx_input *in) { in[1].shape = nullptr; });
  fails(RLX_INVALID_ARGUMENT, "'y' is flat, but has a shape", [](rlx_input *in) { in[1].flags = RLX_FLAT; });
  fails(RLX_INVALID_ARGUMENT, "'x' has no data", [](rlx_input *in) { in[0].data = nullptr; });
  fails(RLX_INVALID_ARGUMENT, "'x'", [](rlx_input *in) { in[0].bytes = 31; });
  fails(RLX_INVALID_ARGUMENT, "'x'", [](rlx_input *in) { in[0].bytes = SIZE_MAX; });
  const int64_t negative[] = {-1, 4}, huge[] = {INT64_MAX, 4}, other[] = {8, 1};
  fails(RLX_OUT_OF_RANGE, "'x'", [&](rlx_input *in) { in[0].shape = negative; });
  fails(RLX_OUT_OF_RANGE, "'x'", [&](rlx_input *in) { in[0].shape = huge; });
  fails(RLX_INVALID_ARGUMENT, "'x'", [&](rlx_input *in) { in[0].shape = other; });
}

TEST(CAPIBadInput, Outputs) {
  Executable executable = load(kScale);
  const float w[] = {1, 1, 1, 1};
  ASSERT_OK(rlx_executable_set_param(executable, "w", RLX_F32, w, sizeof w));
  Rows x(2);
  rlx_input input = x.input("x");
  std::vector<float> a(8), b(8);
  auto fails = [&](rlx_code code, const char *part, const std::function<void(rlx_output *)> &change, size_t count = 2) {
    rlx_output outputs[3] = {outputFor("scaled", a), outputFor("twice", b), outputFor("q", b)};
    change(outputs);
    EXPECT_FAILS(rlx_run_into(executable, &input, 1, outputs, count, nullptr), code, part);
  };
  fails(RLX_INVALID_ARGUMENT, "3 outputs", [](rlx_output *) {}, 3);
  fails(RLX_INVALID_ARGUMENT, "outputs are given", [](rlx_output *) {}, SIZE_MAX);
  fails(RLX_INVALID_ARGUMENT, "'q'", [](rlx_output *out) { out[0].name = "q"; });
  fails(RLX_INVALID_ARGUMENT, "'twice'", [](rlx_output *out) { out[0].name = "twice"; });
  fails(RLX_INVALID_ARGUMENT, "some outputs have names", [](rlx_output *out) { out[0].name = nullptr; });
  fails(RLX_INVALID_ARGUMENT, "'scaled' has dtype 99", [](rlx_output *out) { out[0].dtype = 99; });
  fails(RLX_INVALID_ARGUMENT, "'scaled'", [](rlx_output *out) { out[0].dtype = RLX_I32; });
  fails(RLX_INVALID_ARGUMENT, "'scaled' has unknown flags", [](rlx_output *out) { out[0].flags = 1; });
  fails(RLX_INVALID_ARGUMENT, "'twice' has no buffer", [](rlx_output *out) { out[1].data = nullptr; });
  // An output that overlaps another, or the input.
  fails(RLX_INVALID_ARGUMENT, "overlap", [&](rlx_output *out) { out[1].data = a.data(); });
  fails(RLX_INVALID_ARGUMENT, "overlap", [&](rlx_output *out) { out[1].data = a.data() + 7; });
  fails(RLX_INVALID_ARGUMENT, "overlap", [&](rlx_output *out) { out[0].data = x.values.data(); });
  // Too small, too large.
  for (size_t bytes : {size_t(0), size_t(16), size_t(31), size_t(33), size_t(1) << 62})
    EXPECT_NE(text([&] {
                rlx_output output = outputFor("scaled", a);
                output.bytes = bytes;
                return rlx_run_into(executable, &input, 1, &output, 1, nullptr);
              }()),
              "")
        << bytes;
  // A mistake leaves it as usable as before.
  rlx_output outputs[] = {outputFor("twice", b)};
  ASSERT_OK(rlx_run_into(executable, &input, 1, outputs, 1, nullptr));
  EXPECT_EQ(b, x.times(2));

  rlx_tensor *made[2] = {};
  EXPECT_FAILS(rlx_run(executable, &input, 1, made, 1, nullptr), RLX_INVALID_ARGUMENT, "room for 1 outputs");
  EXPECT_FAILS(rlx_run(executable, &input, 1, made, SIZE_MAX, nullptr), RLX_INVALID_ARGUMENT, "the model has 2");
  const size_t index = 0;
  EXPECT_FAILS(rlx_run_outputs(executable, &input, 1, &index, made, SIZE_MAX, nullptr), RLX_INVALID_ARGUMENT,
               "more than");
}

TEST(CAPIBadInput, RunOptions) {
  Executable executable = load(kJoin);
  Rows x(2), y(3);
  auto fails = [&](rlx_code code, const char *part, const std::function<void(rlx_run_options &)> &change) {
    rlx_input inputs[] = {x.input("x"), y.input("y")};
    rlx_run_options options = {};
    options.struct_size = sizeof options;
    change(options);
    Tensor z;
    EXPECT_FAILS(rlx_run(executable, inputs, 2, &z, 1, &options), code, part);
  };
  const rlx_size unknown = {"Q", 1}, none = {nullptr, 1}, wrong = {"N", 5}, negative = {"N", -1};
  const rlx_size twice[] = {{"N", 2}, {"N", 2}};
  fails(RLX_INVALID_ARGUMENT, "on_miss", [](auto &options) { options.on_miss = 7; });
  fails(RLX_INVALID_ARGUMENT, "timeout_ns", [](auto &options) { options.timeout_ns = -1; });
  fails(RLX_INVALID_ARGUMENT, "'sizes'", [](auto &options) { options.size_count = 1; });
  fails(RLX_INVALID_ARGUMENT, "sizes are given", [](auto &options) { options.size_count = SIZE_MAX; });
  fails(RLX_INVALID_ARGUMENT, "no dim", [&](auto &options) { options.sizes = &none, options.size_count = 1; });
  fails(RLX_INVALID_ARGUMENT, "twice", [&](auto &options) { options.sizes = twice, options.size_count = 2; });
  fails(RLX_INVALID_ARGUMENT, "'Q'", [&](auto &options) { options.sizes = &unknown, options.size_count = 1; });
  fails(RLX_INVALID_ARGUMENT, "'N'", [&](auto &options) { options.sizes = &wrong, options.size_count = 1; });
  fails(RLX_OUT_OF_RANGE, "'N'", [&](auto &options) { options.sizes = &negative, options.size_count = 1; });
  // The longest wait there is.
  rlx_input inputs[] = {x.input("x"), y.input("y")};
  rlx_run_options options = {};
  options.struct_size = sizeof options;
  options.timeout_ns = INT64_MAX;
  Tensor z;
  EXPECT_OK(rlx_run(executable, inputs, 2, &z, 1, &options));
}

TEST(CAPIBadInput, Params) {
  Executable executable = load(kScale);
  const float w[5] = {};
  auto set = [&](const char *name, rlx_dtype dtype, const void *data, size_t bytes) {
    return rlx_executable_set_param(executable, name, dtype, data, bytes);
  };
  EXPECT_FAILS(set("q", RLX_F32, w, 16), RLX_INVALID_ARGUMENT, "'q'");
  EXPECT_FAILS(set("w", RLX_F32, w, 20), RLX_INVALID_ARGUMENT, "'w'");
  EXPECT_FAILS(set("w", RLX_F32, w, 15), RLX_INVALID_ARGUMENT, "'w'");
  EXPECT_FAILS(set("w", RLX_F32, w, 0), RLX_INVALID_ARGUMENT, "'w'");
  EXPECT_FAILS(set("w", RLX_F32, nullptr, 16), RLX_INVALID_ARGUMENT, "'w' has no data");
  EXPECT_FAILS(set("w", RLX_F64, w, 16), RLX_INVALID_ARGUMENT, "f64");
  EXPECT_FAILS(set("w", 13, w, 16), RLX_INVALID_ARGUMENT, "no dtype");
  EXPECT_OK(set("w", RLX_F32, w, 16));
}

TEST(CAPIBadInput, Bindings) {
  Executable executable = load(kJoin);
  rlx_size sizes[] = {{"N", 1}, {"M", 1}}, none[] = {{"N", 1}, {nullptr, 1}}, huge[] = {{"N", INT64_MAX}, {"M", 1}};
  auto fails = [&](rlx_code code, const char *part, rlx_binding binding) {
    Preparation preparation;
    EXPECT_FAILS(rlx_executable_prepare(executable, &binding, 1), code, part);
    EXPECT_FAILS(rlx_executable_prepare_in_background(executable, &binding, 1, nullptr, nullptr, &preparation), code,
                 part);
    EXPECT_EQ(static_cast<rlx_preparation *>(preparation), nullptr);
  };
  fails(RLX_INVALID_ARGUMENT, "'sizes' is NULL", {nullptr, 2});
  fails(RLX_INVALID_ARGUMENT, "sizes are given", {sizes, SIZE_MAX});
  fails(RLX_INVALID_ARGUMENT, "no dim", {none, 2});
  fails(RLX_OUT_OF_RANGE, "", {huge, 2});
  Preparation nothing;
  EXPECT_OK(rlx_executable_prepare(executable, nullptr, 0));
  EXPECT_OK(rlx_executable_prepare_in_background(executable, nullptr, 0, nullptr, nullptr, &nothing));
  EXPECT_OK(rlx_preparation_wait(nothing, 0));
  EXPECT_FAILS(rlx_preparation_wait(nothing, -1), RLX_INVALID_ARGUMENT, "timeout_ns");
  int64_t solved[2];
  Rows rows(1);
  rlx_input inputs[] = {rows.input("x"), rows.input("y")};
  EXPECT_FAILS(rlx_executable_solve(executable, inputs, 2, nullptr, solved, 1), RLX_INVALID_ARGUMENT, "room for 1");
  rlx_binding given = {none, 2};
  EXPECT_FAILS(rlx_executable_solve(executable, inputs, 2, &given, solved, 2), RLX_INVALID_ARGUMENT, "no dim");
}
