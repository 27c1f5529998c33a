//===- Snapshot.cpp - statistics ------------------------------------------===//
#include "Handles.h"

#include "rlx/Runtime/Statistics.h"

using namespace rlx;
using namespace rlx::capi;

namespace {

rlx_statistics describe(Texts &texts, const Statistics &from) {
  rlx_statistics to = {};
  to.struct_size = sizeof to;
  to.hits = from.hits;
  to.misses = from.misses;
  to.evictions = from.evictions;
  to.templates_made = from.templatesMade;
  to.templates_reused = from.templatesReused;
  to.templates_dropped = from.templatesDropped;
  to.failures = from.failures;
  to.not_ready = from.notReady;
  to.kernels_compiled = from.kernelsCompiled;
  to.kernels_reused = from.kernelsReused;
  to.code_bytes = from.codeBytes;
  to.entries = from.entries;
  to.plan_bytes = from.planBytes;
  to.templates = from.templates;
  to.template_bytes = from.templateBytes;
  to.kernels = from.kernels;
  to.kernel_bytes = from.kernelBytes;
  to.arena_bytes_in_use = from.arenaBytesInUse;
  to.arena_bytes_idle = from.arenaBytesIdle;
  to.phases = texts.phases(from.times);
  to.phase_count = from.times.size();
  return to;
}

rlx_binding_info describe(Texts &texts, const BindingInfo &from) {
  rlx_binding_info to = {};
  to.struct_size = sizeof to;
  to.binding = texts.binding(from.binding);
  to.state = static_cast<int32_t>(from.state);
  to.origin = static_cast<int32_t>(from.origin);
  to.idle_ms = from.idleMs;
  to.bytes = from.bytes;
  to.hits = from.hits;
  to.steps = from.steps;
  to.arena_bytes = from.arenaBytes;
  to.kernels_compiled = from.kernelsCompiled;
  to.kernels_reused = from.kernelsReused;
  to.guards_failed = texts.texts(from.guardsFailed);
  to.guard_count = from.guardsFailed.size();
  to.phases = texts.phases(from.times);
  to.phase_count = from.times.size();
  return to;
}

rlx_miss_info describe(Texts &texts, const MissReport &from) {
  rlx_miss_info to = {};
  to.struct_size = sizeof to;
  to.binding = texts.binding(from.binding);
  std::vector<rlx_change> changes;
  for (const MissReport::Change &change : from.changes)
    changes.push_back({texts.text(change.dim), change.from, change.to});
  to.changes = texts.array(std::move(changes));
  to.change_count = from.changes.size();
  to.first = from.first;
  to.evicted = from.evicted;
  to.made = from.made;
  to.origin = static_cast<int32_t>(from.origin);
  to.guards_failed = texts.texts(from.guardsFailed);
  to.guard_count = from.guardsFailed.size();
  to.error = texts.text(from.error);
  to.text = texts.text(from.text());
  return to;
}

static_assert(RLX_READY == static_cast<int>(BindingState::Ready) &&
              RLX_MAKING == static_cast<int>(BindingState::Making) &&
              RLX_QUEUED == static_cast<int>(BindingState::Queued));
static_assert(RLX_WILL_HIT == static_cast<int>(Forecast::Kind::Hit) &&
              RLX_BEING_MADE == static_cast<int>(Forecast::Kind::Making) &&
              RLX_WILL_INSTANTIATE == static_cast<int>(Forecast::Kind::Instantiate) &&
              RLX_NEEDS_TEMPLATE == static_cast<int>(Forecast::Kind::NewTemplate) &&
              RLX_WILL_FAIL == static_cast<int>(Forecast::Kind::Error));

} // namespace

rlx_status *rlx_executable_snapshot(const rlx_executable *executable, rlx_snapshot **snapshot) {
  return guarded([&]() -> rlx_status * {
    RLX_CAPI_GIVEN(snapshot);
    *snapshot = nullptr;
    RLX_CAPI_ALIVE(executable);
    auto *made = new rlx_snapshot;
    made->statistics = describe(made->texts, executable->executable->stats());
    for (const BindingInfo &info : executable->executable->bindings())
      made->bindings.push_back(describe(made->texts, info));
    if (std::optional<MissReport> miss = executable->executable->explain())
      made->miss = describe(made->texts, *miss);
    *snapshot = made;
    return nullptr;
  });
}

void rlx_snapshot_destroy(rlx_snapshot **snapshot) { destroy(snapshot); }

rlx_status *rlx_snapshot_statistics(const rlx_snapshot *snapshot, const rlx_statistics **statistics) {
  return guarded([&]() -> rlx_status * {
    RLX_CAPI_ALIVE(snapshot);
    RLX_CAPI_GIVEN(statistics);
    *statistics = &snapshot->statistics;
    return nullptr;
  });
}

rlx_status *rlx_snapshot_binding_count(const rlx_snapshot *snapshot, size_t *count) {
  return guarded([&]() -> rlx_status * {
    RLX_CAPI_ALIVE(snapshot);
    RLX_CAPI_GIVEN(count);
    *count = snapshot->bindings.size();
    return nullptr;
  });
}

rlx_status *rlx_snapshot_binding(const rlx_snapshot *snapshot, size_t index, const rlx_binding_info **info) {
  return guarded([&]() -> rlx_status * {
    RLX_CAPI_ALIVE(snapshot);
    RLX_CAPI_GIVEN(info);
    if (index >= snapshot->bindings.size())
      return invalid("binding " + std::to_string(index) + " does not exist: there are " +
                     std::to_string(snapshot->bindings.size()));
    *info = &snapshot->bindings[index];
    return nullptr;
  });
}

rlx_status *rlx_snapshot_explain(const rlx_snapshot *snapshot, const rlx_miss_info **miss) {
  return guarded([&]() -> rlx_status * {
    RLX_CAPI_ALIVE(snapshot);
    RLX_CAPI_GIVEN(miss);
    *miss = snapshot->miss ? &*snapshot->miss : nullptr;
    return nullptr;
  });
}

rlx_status *rlx_executable_forecast(const rlx_executable *executable, const rlx_binding *binding,
                                    rlx_forecast **forecast) {
  return guarded([&]() -> rlx_status * {
    RLX_CAPI_GIVEN(forecast);
    *forecast = nullptr;
    RLX_CAPI_ALIVE(executable);
    RLX_CAPI_GIVEN(binding);
    const Executable &target = *executable->executable;
    Binding sizes;
    if (std::optional<Error> error =
            readBinding(binding->sizes, binding->size_count, target.model()->signature().dims.size(), sizes))
      return fail(std::move(*error));
    Forecast from = target.explain(sizes);
    auto *made = new rlx_forecast;
    made->info.struct_size = sizeof made->info;
    made->info.kind = static_cast<int32_t>(from.kind);
    made->info.guards_failed = made->texts.texts(from.guardsFailed);
    made->info.guard_count = from.guardsFailed.size();
    made->info.error = made->texts.text(from.error);
    made->info.text = made->texts.text(from.text());
    *forecast = made;
    return nullptr;
  });
}

rlx_status *rlx_forecast_get_info(const rlx_forecast *forecast, const rlx_forecast_info **info) {
  return guarded([&]() -> rlx_status * {
    RLX_CAPI_ALIVE(forecast);
    RLX_CAPI_GIVEN(info);
    *info = &forecast->info;
    return nullptr;
  });
}

void rlx_forecast_destroy(rlx_forecast **forecast) { destroy(forecast); }
