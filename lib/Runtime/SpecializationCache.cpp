//===- SpecializationCache.cpp - specializations by binding ---------------===//
#include "SpecializationCache.h"

#include "KernelCache.h"
#include "rlx/Runtime/Tensor.h"
#include "rlx/Runtime/ThreadPool.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

using namespace rlx;

namespace {
class Stopwatch {
public:
  double ms() const {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  }

private:
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
};

/// Buffers that a step touches or that are an output. A template may name a weight in a layout that nothing reads.
std::vector<bool> usedBuffers(const data::PlanTemplateT &plan) {
  std::vector<bool> used(plan.buffers.size());
  auto use = [&](const data::AccessT &access) {
    if (access.kind != data::AccessKind::Iota)
      used[access.buffer] = true;
  };
  for (const auto &step : plan.steps) {
    for (const auto *accesses : {&step->inputs, &step->outputs}) {
      for (const auto &access : *accesses) {
        use(*access);
        for (const auto &index : access->indices)
          use(*index);
      }
    }
  }
  for (const auto &output : plan.outputs)
    used[output->buffer] = true;
  return used;
}

std::string milliseconds(double ms) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.2f ms", ms);
  return text;
}
} // namespace

Preparation::~Preparation() = default;

SpecializationCache::SpecializationCache(std::shared_ptr<Engine> engine, std::shared_ptr<const Model> model,
                                         size_t capacity, size_t)
    : engine(std::move(engine)), model(std::move(model)), capacity(capacity), tree(this->model->solver().dims()) {}

Result<SpecializationCache::Acquired> SpecializationCache::get(std::span<const int64_t> sizes, OnMiss,
                                                                std::optional<std::chrono::nanoseconds>) {
  Sizes key(sizes.begin(), sizes.end());
  {
    std::unique_lock lock(mutex);
    std::optional<Sizes> before = std::exchange(lastSizes, key);
    if (auto found = index.find(key); found != index.end()) {
      recent.splice(recent.begin(), recent, found->second);
      ++counts.hits;
      found->second->ready->hits.fetch_add(1, std::memory_order_relaxed);
      return Acquired{found->second->ready, Origin::Hit};
    }
    if (auto flying = flights.find(key); flying != flights.end()) {
      std::shared_ptr<Flight> flight = flying->second;
      landed.wait(lock, [&] { return flight->done; });
      if (!flight->outcome)
        return flight->outcome.error();
      ++counts.hits;
      (*flight->outcome)->hits.fetch_add(1, std::memory_order_relaxed);
      return Acquired{*flight->outcome, Origin::Hit, true};
    }
    flights.emplace(key, std::make_shared<Flight>());
    ++counts.misses;
    MissReport report;
    report.binding = model->solver().binding(key);
    report.first = !before;
    report.evicted = std::find(evicted.begin(), evicted.end(), key) != evicted.end();
    if (before)
      for (size_t i = 0; i != key.size(); ++i)
        if ((*before)[i] != key[i])
          report.changes.push_back({model->solver().dims()[i], (*before)[i], key[i]});
    lastMiss = std::move(report);
  }

  Making making;
  Stopwatch watch;
  Result<Ready> made = make(key, making);
  double ms = watch.ms();
  publish(key, made, making);
  if (engine->options().log) {
    std::string line = model->signature().name + " " + bindingString(model->solver().binding(key)) + ": ";
    line += made ? std::string(originName(making.origin)) + ", " + std::to_string(making.kernelsCompiled) +
                       " kernels compiled, " + std::to_string(making.kernelsReused) + " reused"
                 : made.error().message;
    engine->options().log(line + ", " + milliseconds(ms));
  }
  if (!made)
    return made.takeError();
  return Acquired{*made, making.origin};
}

Result<std::shared_ptr<Preparation>>
SpecializationCache::prepareInBackground(std::vector<std::vector<int64_t>>,
                                         std::function<void(Preparation::Progress)>) {
  return Error{ErrorCode::Unsupported, "preparing in the background"};
}

void SpecializationCache::publish(const Sizes &sizes, const Result<Ready> &outcome, const Making &making) {
  std::vector<Ready> dropped; // let go of after the lock
  {
    std::lock_guard lock(mutex);
    auto flying = flights.find(sizes);
    flying->second->outcome = outcome;
    flying->second->done = true;
    flights.erase(flying);
    // A later miss on another binding may have replaced the report meanwhile.
    if (lastMiss && lastMiss->binding == model->solver().binding(sizes)) {
      lastMiss->origin = making.origin;
      lastMiss->guardsFailed = making.guardsFailed;
      if (!outcome)
        lastMiss->error = outcome.error().message;
    }
    for (const auto &[phase, ms] : making.times)
      addTime(counts.times, phase, ms);
    counts.kernelsCompiled += making.kernelsCompiled;
    counts.kernelsReused += making.kernelsReused;
    counts.codeBytes += making.codeBytes;
    if (!outcome) {
      ++counts.failures;
    } else {
      counts.templatesReused += making.origin == Origin::Instantiated;
      recent.push_front({sizes, *outcome});
      index[sizes] = recent.begin();
      std::erase(evicted, sizes);
      while (recent.size() > capacity) {
        Entry &oldest = recent.back();
        ++counts.evictions;
        evicted.push_back(oldest.sizes);
        if (evicted.size() > capacity)
          evicted.pop_front();
        index.erase(oldest.sizes);
        dropped.push_back(std::move(oldest.ready));
        recent.pop_back();
      }
    }
  }
  landed.notify_all();
}

Result<TemplateTree::Template> SpecializationCache::findTemplate(const Sizes &sizes, Making &making) {
  using Kind = TemplateTree::Found::Kind;
  auto lookup = [&] {
    std::lock_guard lock(treeMutex);
    return tree.lookup(sizes);
  };
  TemplateTree::Found found = lookup();
  std::unique_lock turn(templateTurn, std::defer_lock);
  if (found.kind == Kind::Missing) {
    turn.lock();
    found = lookup(); // whoever had the turn before may have made it
  }
  if (found.kind == Kind::Template)
    return found.plan;
  if (found.kind == Kind::Error)
    return found.error;

  {
    std::lock_guard lock(treeMutex);
    for (const TemplateTree::Failed &failed : tree.explain(sizes))
      making.guardsFailed.push_back(failed.text());
  }
  CompilerInterface *compiler = model->compiler();
  if (!compiler)
    return Error{ErrorCode::Unsupported, "these sizes need a new template, and the model has no compiler"};
  Result<SpecializeReply> reply = compiler->specialize(model->solver().binding(sizes));
  if (!reply)
    return reply.takeError();
  for (const auto &[phase, ms] : reply->times)
    addTime(making.times, phase, ms);
  if (!reply->plan)
    return Error{ErrorCode::Internal, "the compiler returned no plan"};
  making.origin = Origin::NewTemplate;
  std::shared_ptr<const data::PlanTemplateT> plan = std::move(reply->plan);
  {
    std::lock_guard lock(treeMutex);
    // The trail is remembered in either case; a failed requirement is an error
    // leaf. A trail that does not fit leaves the tree as it was: it is reported,
    // unless there is a better error.
    Status inserted = tree.insert(plan->guards, reply->error ? nullptr : plan);
    if (reply->error)
      return *reply->error;
    if (!inserted)
      return inserted.takeError();
  }
  {
    std::lock_guard lock(mutex);
    ++counts.templatesMade;
  }
  return plan;
}

Result<SpecializationCache::Shared> SpecializationCache::sharedOf(const TemplateTree::Template &plan) {
  {
    std::lock_guard lock(treeMutex);
    if (auto found = sharedByTemplate.find(plan); found != sharedByTemplate.end())
      return found->second;
  }
  Result<std::shared_ptr<const CheckedTemplate>> checked =
      CheckedTemplate::create(plan, *model, model->compiler()->target());
  if (!checked)
    return checked.takeError();
  std::lock_guard lock(treeMutex);
  return sharedByTemplate.try_emplace(plan, Shared{std::move(*checked), nullptr}).first->second;
}

Status SpecializationCache::findFixed(const TemplateTree::Template &plan, Shared &shared) {
  auto fixed = std::make_shared<std::vector<const void *>>(plan->buffers.size());
  std::vector<bool> used = usedBuffers(*plan);
  std::vector<WeightRequest> requests;
  std::vector<size_t> places;
  for (size_t i = 0; i != plan->buffers.size(); ++i) {
    const data::BufferT &buffer = *plan->buffers[i];
    if (buffer.kind == data::BufferKind::Constant)
      (*fixed)[i] = buffer.data.data();
    if (buffer.kind != data::BufferKind::Weight || !used[i])
      continue;
    requests.push_back({buffer.name, layoutOf(buffer)});
    places.push_back(i);
  }
  Result<std::vector<std::span<const std::byte>>> weights = model->weights().get(requests, engine->pool());
  if (!weights)
    return weights.takeError();
  for (size_t i = 0; i != places.size(); ++i)
    (*fixed)[places[i]] = (*weights)[i].data();
  shared.fixed = std::move(fixed);
  std::lock_guard lock(treeMutex);
  sharedByTemplate[plan] = shared;
  return Status::ok();
}

Result<SpecializationCache::Ready> SpecializationCache::make(const Sizes &sizes, Making &making) {
  Result<TemplateTree::Template> plan = findTemplate(sizes, making);
  if (!plan)
    return plan.takeError();
  CompilerInterface *compiler = model->compiler();
  if (!compiler)
    return Error{ErrorCode::Unsupported, "the model has no compiler for its kernels"};

  auto ready = std::make_shared<ReadySpecialization>();
  Binding binding = model->solver().binding(sizes);
  Stopwatch instantiation;
  Result<Shared> shared = sharedOf(*plan);
  if (!shared)
    return shared.takeError();
  Result<std::shared_ptr<const Specialization>> made = (*shared).checked->instantiate(binding);
  addTime(making.times, "instantiate", instantiation.ms());
  if (!made)
    return made.takeError();
  ready->plan = std::move(*made);

  // Kernels and weights need nothing of each other.
  Result<KernelCache::Got> kernels = KernelCache::Got();
  Status fixed;
  PhaseTimes compiling;
  auto getKernels = [&] {
    kernels = engine->kernels().get(ready->plan->kernels, ready->plan->keys, *compiler, engine->pool(), compiling);
  };
  if (shared->fixed) {
    getKernels();
  } else {
    double packingMs = 0;
    parallelFor(engine->pool(), 2, [&](size_t i) {
      if (i == 0)
        return getKernels();
      Stopwatch packing;
      fixed = findFixed(*plan, *shared);
      packingMs = packing.ms();
    });
    addTime(making.times, "weights", packingMs);
  }
  for (const auto &[phase, ms] : compiling)
    addTime(making.times, phase, ms);
  if (!kernels)
    return kernels.takeError();
  if (!fixed)
    return fixed.takeError();
  ready->kernels = std::move(kernels->kernels);
  making.kernelsCompiled = kernels->compiled;
  making.kernelsReused = ready->kernels.size() - kernels->compiled;
  making.codeBytes = kernels->codeBytes;
  ready->fixed = *shared->fixed;

  for (size_t i = 0; i != model->inputShapes().size(); ++i) {
    std::vector<int64_t> shape;
    for (const DimExpr &expr : model->inputShapes()[i]) {
      Result<int64_t> size = expr.evaluate(binding);
      if (!size)
        return size.takeError();
      shape.push_back(*size);
    }
    std::optional<int64_t> count = elementCount(shape);
    if (!count)
      return Error{ErrorCode::OutOfRange, "input '" + model->signature().inputs[i]->name + "' of shape " +
                                              shapeString(shape) + " has no valid size"};
    ready->inputElements.push_back(*count);
  }

  BindingInfo &info = ready->info;
  info.binding = std::move(binding);
  info.origin = making.origin;
  info.guardsFailed = making.guardsFailed;
  info.kernelsCompiled = making.kernelsCompiled;
  info.kernelsReused = making.kernelsReused;
  info.times = making.times;
  info.steps = ready->plan->steps.size();
  info.arenaBytes = static_cast<uint64_t>(ready->plan->arenaBytes);
  if (Status status = layOut(*ready, engine->pool()); !status)
    return status.takeError();
  return Ready(std::move(ready));
}

Statistics SpecializationCache::stats() const {
  std::lock_guard lock(mutex);
  Statistics result = counts;
  result.entries = recent.size();
  return result;
}

std::vector<BindingInfo> SpecializationCache::bindings() const {
  std::vector<BindingInfo> result;
  for (const Ready &ready : held()) {
    result.push_back(ready->info);
    result.back().hits = ready->hits.load(std::memory_order_relaxed);
  }
  return result;
}

std::vector<SpecializationCache::Ready> SpecializationCache::held() const {
  std::lock_guard lock(mutex);
  std::vector<Ready> result;
  for (const Entry &entry : recent)
    result.push_back(entry.ready);
  return result;
}

std::optional<MissReport> SpecializationCache::explain() const {
  std::lock_guard lock(mutex);
  return lastMiss;
}
