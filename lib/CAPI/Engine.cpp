//===- Engine.cpp - engines, and what the caller supplies to them ---------===//
#include "Handles.h"

#include "rlx/Runtime/ThreadPool.h"

#include <algorithm>

using namespace rlx;
using namespace rlx::capi;

namespace {

class CallersAllocator : public Allocator {
public:
  explicit CallersAllocator(const rlx_allocator &calls) : calls(calls) {}
  ~CallersAllocator() override {
    if (calls.release)
      calls.release(calls.user);
  }
  void *allocate(size_t bytes, size_t alignment) override { return calls.allocate(calls.user, bytes, alignment); }
  void deallocate(void *pointer, size_t bytes) override { calls.deallocate(calls.user, pointer, bytes); }

private:
  rlx_allocator calls;
};

class CallersPool : public ThreadPool {
public:
  explicit CallersPool(const rlx_thread_pool &calls) : calls(calls) {}
  ~CallersPool() override {
    if (calls.release)
      calls.release(calls.user);
  }
  unsigned threads() const override { return calls.threads; }
  void submit(std::function<void()> task) override { calls.submit(calls.user, new rlx_task{std::move(task)}); }

private:
  rlx_thread_pool calls;
};

std::chrono::milliseconds toMs(int64_t ms) {
  constexpr int64_t year = int64_t(366) * 24 * 3600 * 1000;
  return std::chrono::milliseconds(std::min(ms, year));
}

Result<EngineOptions> convert(const rlx_engine_options &given) {
  auto wrong = [](std::string text) { return Error{ErrorCode::InvalidArgument, std::move(text)}; };
  EngineOptions options;
  if (given.cache_entries)
    options.cacheEntries = given.cache_entries;
  if (given.cache_bytes)
    options.cacheBytes = given.cache_bytes == RLX_UNLIMITED ? 0 : given.cache_bytes;
  if (given.background_threads)
    options.backgroundThreads = given.background_threads;
  options.threads = given.threads;
  if (given.idle_bytes)
    options.idleBytes = given.idle_bytes;
  if (given.idle_ms < 0)
    return wrong("idle_ms is " + std::to_string(given.idle_ms) + ", but must not be negative");
  if (given.idle_ms)
    options.idleTime = toMs(given.idle_ms);
  if (given.compiler != RLX_COMPILER_IN_PROCESS && given.compiler != RLX_COMPILER_WORKER)
    return wrong("compiler is " + std::to_string(given.compiler) + ", which is no place for one");
  options.compiler = given.compiler == RLX_COMPILER_WORKER ? CompilerPlace::Worker : CompilerPlace::InProcess;
  if (given.worker_program)
    options.worker.program = given.worker_program;
  if (given.worker_timeout_ms)
    options.worker.timeout = toMs(std::max<int64_t>(given.worker_timeout_ms, 0));
  if (given.worker_memory_bytes != RLX_UNLIMITED)
    options.worker.memoryBytes = given.worker_memory_bytes;
  if (given.log)
    options.log = [log = given.log, user = given.log_user](std::string_view line) {
      log(user, std::string(line).c_str());
    };
  if (given.allocator && (!given.allocator->allocate || !given.allocator->deallocate))
    return wrong("the allocator lacks a function");
  if (given.pool && !given.pool->submit)
    return wrong("the thread pool lacks 'submit'");
  if (given.pool && (given.pool->threads < 1 || given.pool->threads > kMaxThreads))
    return wrong("the thread pool has " + std::to_string(given.pool->threads) + " threads, but must have 1 to " +
                 std::to_string(kMaxThreads));
  return options;
}

} // namespace

void rlx_task_run(rlx_task *task) {
  if (!task)
    return;
  task->work();
  delete task;
}

void rlx_task_drop(rlx_task *task) { delete task; }

rlx_status *rlx_engine_create(const rlx_engine_options *options, rlx_engine **engine) {
  return guarded([&]() -> rlx_status * {
    RLX_CAPI_GIVEN(engine);
    *engine = nullptr;
    rlx_engine_options given = {};
    if (std::optional<Error> error = read(options, given, "rlx_engine_options"))
      return fail(std::move(*error));
    Result<EngineOptions> converted = convert(given);
    if (!converted)
      return fail(converted.takeError());
    // Only now: their release() is called from here on, whatever happens.
    if (given.allocator)
      converted->allocator = std::make_shared<CallersAllocator>(*given.allocator);
    if (given.pool)
      converted->pool = std::make_shared<CallersPool>(*given.pool);
    Result<std::shared_ptr<Engine>> made = Engine::create(std::move(*converted));
    if (!made)
      return fail(made.takeError());
    *engine = new rlx_engine;
    (*engine)->engine = std::move(*made);
    return nullptr;
  });
}

void rlx_engine_destroy(rlx_engine **engine) { destroy(engine); }

rlx_status *rlx_engine_trim(rlx_engine *engine) {
  return guarded([&]() -> rlx_status * {
    RLX_CAPI_ALIVE(engine);
    engine->engine->trim();
    return nullptr;
  });
}

rlx_status *rlx_engine_get_info(const rlx_engine *engine, rlx_engine_info *info) {
  return guarded([&]() -> rlx_status * {
    RLX_CAPI_ALIVE(engine);
    RLX_CAPI_GIVEN(info);
    if (std::optional<Error> error = checkSize(info, info->struct_size, sizeof *info, "rlx_engine_info"))
      return fail(std::move(*error));
    info->threads = engine->engine->threads();
    info->kernels = engine->engine->kernelCount();
    info->code_bytes = engine->engine->codeBytes();
    return nullptr;
  });
}
