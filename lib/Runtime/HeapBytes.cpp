//===- HeapBytes.cpp - how much memory plans take -------------------------===//
#include "HeapBytes.h"

#include "Execute.h"

#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

using namespace rlx;

namespace {
// owned(): beyond the object itself. Declared first, so that containers of
// containers find each other.
size_t owned(const std::string &text);
template <typename T> size_t owned(const std::vector<T> &list);
template <typename T> size_t owned(const std::unique_ptr<T> &pointer);
template <typename A, typename B> size_t owned(const std::pair<A, B> &pair);
template <typename K, typename V, typename C> size_t owned(const std::map<K, V, C> &map);

template <typename T>
  requires std::is_trivially_copyable_v<T>
size_t owned(const T &) {
  return 0;
}
template <typename... T> size_t ownedAll(const T &...parts) { return (owned(parts) + ... + size_t(0)); }

size_t owned(const data::PredicateT &predicate) { return ownedAll(predicate.lhs, predicate.rhs); }
size_t owned(const data::GuardT &guard) { return ownedAll(guard.predicate, guard.op, guard.message); }
size_t owned(const data::BufferT &buffer) { return ownedAll(buffer.name, buffer.data); }
size_t owned(const data::AccessT &access) {
  return ownedAll(access.strides, access.broadcast, access.extents, access.indices, access.axis_extents,
                  access.axis_strides, access.column_strides, access.axis_columns);
}
size_t owned(const data::StepT &step) {
  return ownedAll(step.node, step.iteration, step.inputs, step.outputs, step.program, step.results, step.epilogue,
                  step.needed);
}
size_t owned(const data::OutputValueT &output) { return owned(output.shape); }
size_t owned(const data::PlanTemplateT &plan) {
  return ownedAll(plan.guards, plan.exprs, plan.buffers, plan.steps, plan.outputs);
}
size_t owned(const data::AccessSpecT &access) { return owned(access.index_inner); }
size_t owned(const data::KernelSpecT &spec) {
  return ownedAll(spec.inputs, spec.outputs, spec.program, spec.results, spec.epilogue, spec.target);
}
/// Kernels are the template's.
size_t owned(const Specialization &made) {
  return made.kernels.capacity() * sizeof(made.kernels[0]) +
         ownedAll(made.buffers, made.steps, made.outputs, made.numbers, made.pointers);
}
size_t owned(const BindingInfo &info) { return ownedAll(info.binding, info.guardsFailed, info.times); }
size_t owned(const RunLayout::Written &written) { return owned(written.touchedBy); }
size_t owned(const RunLayout &layout) {
  return ownedAll(layout.calls, layout.pointers, layout.slots, layout.inputs, layout.params, layout.arena,
                  layout.written, layout.copied, layout.randomState, layout.outputElements);
}
size_t owned(const ReadySpecialization &ready) {
  size_t bytes = sizeof(Specialization) + owned(*ready.plan) + owned(ready.info) + owned(ready.layout);
  return bytes + ready.kernels.capacity() * sizeof(LoadedKernel) + owned(ready.inputElements);
}

size_t owned(const std::string &text) { return text.capacity() > std::string().capacity() ? text.capacity() + 1 : 0; }
template <typename T> size_t owned(const std::vector<T> &list) {
  if constexpr (std::is_same_v<T, bool>) {
    return list.capacity() / 8;
  } else {
    size_t bytes = list.capacity() * sizeof(T);
    if constexpr (!std::is_trivially_copyable_v<T>)
      for (const T &element : list)
        bytes += owned(element);
    return bytes;
  }
}
template <typename T> size_t owned(const std::unique_ptr<T> &pointer) {
  return pointer ? sizeof(T) + owned(*pointer) : 0;
}
template <typename A, typename B> size_t owned(const std::pair<A, B> &pair) {
  return ownedAll(pair.first, pair.second);
}
template <typename K, typename V, typename C> size_t owned(const std::map<K, V, C> &map) {
  constexpr size_t kNode = 4 * sizeof(void *); // colour and three pointers
  size_t bytes = map.size() * (kNode + sizeof(std::pair<const K, V>));
  for (const auto &pair : map)
    bytes += ownedAll(pair.first, pair.second);
  return bytes;
}
} // namespace

size_t rlx::heapBytes(const data::PlanTemplateT &plan) { return sizeof(plan) + owned(plan); }
size_t rlx::heapBytes(const data::KernelSpecT &spec) { return sizeof(spec) + owned(spec); }
size_t rlx::heapBytes(const ReadySpecialization &ready) { return sizeof(ready) + owned(ready); }
