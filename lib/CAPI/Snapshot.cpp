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
  to.failures = from.failures;
  to.kernels_compiled = from.kernelsCompiled;
  to.kernels_reused = from.kernelsReused;
  to.code_bytes = from.codeBytes;
  to.entries = from.entries;
  to.phases = texts.phases(from.times);
  to.phase_count = from.times.size();
  return to;
}

rlx_binding_info describe(Texts &texts, const BindingInfo &from) {
  rlx_binding_info to = {};
  to.struct_size = sizeof to;
  to.binding = texts.binding(from.binding);
  to.origin = static_cast<int32_t>(from.origin);
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
  to.origin = static_cast<int32_t>(from.origin);
  to.guards_failed = texts.texts(from.guardsFailed);
  to.guard_count = from.guardsFailed.size();
  to.error = texts.text(from.error);
  to.text = texts.text(from.text());
  return to;
}

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
