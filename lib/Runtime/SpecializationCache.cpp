//===- SpecializationCache.cpp - specializations by binding ---------------===//
#include "SpecializationCache.h"

#include "EngineParts.h"
#include "HeapBytes.h"
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

/// A template and what its bindings have in common.
struct rlx::HeldTemplate {
  HeldTemplate(TemplateTree::Template plan, std::shared_ptr<const CheckedTemplate> checked)
      : plan(std::move(plan)), checked(std::move(checked)), checkedBytes(this->checked->bytes()),
        bytes(sizeof(*this) + heapBytes(*this->plan) + checkedBytes) {}

  const TemplateTree::Template plan;
  const std::shared_ptr<const CheckedTemplate> checked;

  // Guarded by the cache's mutex:
  size_t checkedBytes, bytes; ///< of `checked`, when it was counted last; of all
  /// Where its weights and constants lie, one per buffer; null until the first binding has found them.
  std::shared_ptr<const std::vector<const void *>> fixed;
  size_t entries = 0, makers = 0;
  int64_t used = 0;                  ///< the latest use of what it holds no more
  std::vector<LoadedKernel> kernels; ///< by their number among the template's; those that its bindings used
};

namespace {
/// How many evicted bindings are remembered, to tell so when one comes back.
constexpr size_t kEvicted = 1024;

Error notReady(const Model &model, std::span<const int64_t> sizes, const char *why) {
  return Error{ErrorCode::NotReady,
               "the specialization for " + bindingString(model.solver().binding(sizes)) + " is not ready" + why};
}
} // namespace

SpecializationCache::SpecializationCache(std::shared_ptr<Engine> engine, std::shared_ptr<const Model> model,
                                         size_t entries, size_t bytes)
    : engine(std::move(engine)), model(std::move(model)), entriesLimit(entries), bytesLimit(bytes),
      tree(this->model->solver().dims()) {
  assert(entries && "a cache holds an entry");
}

SpecializationCache::~SpecializationCache() {
  // Nobody makes anything any more: who does holds the cache.
  for (const auto &[sizes, flight] : flights)
    for (const auto &[job, index] : flight->jobs)
      job->drop(index);
}

//===----------------------------------------------------------------------===//
// Asking
//===----------------------------------------------------------------------===//

Result<SpecializationCache::Acquired> SpecializationCache::miss(std::span<const int64_t> sizes, OnMiss onMiss,
                                                                std::optional<std::chrono::nanoseconds> timeout) {
  bool patient = onMiss == OnMiss::Wait && !timeout;
  std::chrono::steady_clock::time_point deadline;
  if (!patient)
    deadline = deadlineOf(onMiss == OnMiss::Wait ? *timeout : std::chrono::nanoseconds(0));

  std::unique_lock lock(mutex);
  if (BindingTable::Entry *entry = table.peek(sizes)) { // since
    entry->ready->hits.fetch_add(1, std::memory_order_relaxed);
    entry->ready->used.store(useStamp(), std::memory_order_relaxed);
    return Acquired{entry->ready};
  }
  auto found = flights.find(sizes);
  bool first = found == flights.end();
  bool waits = patient || std::chrono::steady_clock::now() < deadline;
  std::shared_ptr<Flight> flight = first ? nullptr : found->second;
  using State = Flight::State;
  if (flight && !patient) {
    // What takes no compiler is there in a moment: whoever makes it, nobody is told that it is not.
    auto decided = [&] { return flight->state == State::Queued || flight->state == State::Done || flight->compiles; };
    ++flight->waiting;
    flight->landed.wait(lock, decided);
    --flight->waiting;
  }
  auto refused = [&] {
    ++counts.notReady;
    return notReady(*model, sizes, ", nor is it begun: as many as the cache holds wait for the background already");
  };
  bool isOpen = first || (flight->state == State::Queued && flight->triedAt != compiledFor);
  if (!patient && isOpen && tree.lookup(sizes).kind != TemplateTree::Found::Kind::Missing) {
    // Nobody has to wait, however long the background takes with what it is at.
    if (first) {
      reportMiss(sizes);
      flight = begin(sizes);
    }
    comeBack(*flight);
    flight->triedAt = compiledFor;
    flight->state = State::Trying;
    lock.unlock();
    if (std::optional<Result<Acquired>> here = flyWithoutCompiler(flight))
      return std::move(*here);
    lock.lock();
    flight->state = State::Queued;
    flight->landed.notify_all(); // to whoever takes it over
    if (!waits)
      leave(*flight);
    if (flight->state == State::Done)
      return refused();
  } else if (first) {
    if (!waits && left >= entriesLimit)
      return refused();
    reportMiss(sizes);
    flight = begin(sizes);
  }
  while (patient && flight->state != State::Done) {
    if (flight->state == State::Queued) {
      comeBack(*flight);
      flight->state = State::Making;
      lock.unlock();
      return fly(flight, false);
    }
    ++flight->waiting;
    flight->landed.wait(lock, [&] { return flight->state == State::Queued || flight->state == State::Done; });
    --flight->waiting;
  }
  if (flight->state != State::Done) {
    if (flight->state == State::Queued && (!flight->queued || (waits && !flight->urgent))) {
      Status queued = enqueue(flight, waits);
      if (!queued && !flight->queued && !flight->waiting) {
        // Nobody is going to make it.
        Error error = queued.takeError();
        comeBack(*flight);
        flight->state = State::Done;
        flights.erase(flight->sizes);
        auto jobs = std::move(flight->jobs);
        lock.unlock();
        settle(jobs, error, false);
        return error;
      }
    }
    flight->wanted = true;
    auto done = [&] { return flight->state == State::Done; };
    bool landed = false;
    if (waits) {
      comeBack(*flight);
      ++flight->waiting;
      landed = flight->landed.wait_until(lock, deadline, done);
      --flight->waiting;
    }
    if (!landed) {
      leave(*flight);
      ++counts.notReady;
      return notReady(*model, sizes, onMiss == OnMiss::Wait ? " within the time given" : "");
    }
  }
  if (!flight->outcome)
    return flight->outcome.error();
  const Ready &ready = *flight->outcome;
  if (first)
    return Acquired{ready, flight->origin, true};
  if (BindingTable::Entry *entry = table.peek(sizes); entry && entry->ready == ready)
    ready->hits.fetch_add(1, std::memory_order_relaxed);
  else
    ++counts.hits; // it went already
  return Acquired{ready, Origin::Hit, true};
}

std::shared_ptr<SpecializationCache::Flight> SpecializationCache::begin(std::span<const int64_t> sizes) {
  auto flight = std::make_shared<Flight>();
  flight->sizes.assign(sizes.begin(), sizes.end());
  flights.emplace(flight->sizes, flight);
  ++counts.misses;
  return flight;
}

Status SpecializationCache::enqueue(const std::shared_ptr<Flight> &flight, bool urgent) {
  flight->urgent |= urgent;
  Status queued = engine->parts().background.submit(
      [weak = weak_from_this(), flight] {
        std::shared_ptr<SpecializationCache> cache = weak.lock();
        if (!cache)
          return;
        {
          std::lock_guard lock(cache->mutex);
          --flight->queued;
          if (flight->state != Flight::State::Queued)
            return; // somebody else makes it, or it was dropped
          cache->comeBack(*flight);
          flight->state = Flight::State::Making;
        }
        (void)cache->fly(flight, true);
      },
      urgent, flight.get());
  flight->queued += static_cast<bool>(queued);
  return queued;
}

/// A run does not wait for it any more. Ahead of runs that may never come no more is made than can be held, so that
/// ever-changing sizes do not pile up.
void SpecializationCache::leave(Flight &flight) {
  if (flight.state != Flight::State::Queued || flight.isLeft || flight.waiting || !flight.jobs.empty())
    return;
  if (left < entriesLimit) {
    flight.isLeft = true;
    ++left;
    return;
  }
  flight.state = Flight::State::Done;
  flight.outcome = Error{ErrorCode::Cancelled, "no run waits for it any more"};
  engine->parts().background.drop(&flight, flight.queued);
  flights.erase(flight.sizes);
}

/// It is waited for again, or begun.
void SpecializationCache::comeBack(Flight &flight) {
  if (flight.isLeft)
    --left;
  flight.isLeft = false;
}

void SpecializationCache::reportMiss(std::span<const int64_t> sizes) {
  std::optional<Sizes> before = lastMissed;
  if (auto latest = table.latest(); latest && latest->first > lastMissedAt)
    before = std::move(latest->second);
  MissReport report;
  report.binding = model->solver().binding(sizes);
  report.first = !before;
  report.evicted = std::find(evicted.begin(), evicted.end(), table.hash(sizes)) != evicted.end();
  if (before)
    for (size_t i = 0; i != sizes.size(); ++i)
      if ((*before)[i] != sizes[i])
        report.changes.push_back({model->solver().dims()[i], (*before)[i], sizes[i]});
  lastMiss = std::move(report);
  lastMissed.emplace(sizes.begin(), sizes.end());
  lastMissedAt = useStamp();
}

Result<std::shared_ptr<Preparation>>
SpecializationCache::prepareInBackground(std::vector<std::vector<int64_t>> sizes,
                                         std::function<void(Preparation::Progress)> progress) {
  bool reports = progress != nullptr;
  auto job = std::make_shared<PreparationJob>(sizes.size(), std::move(progress), weak_from_this());
  std::vector<size_t> there;
  Status failure;
  {
    std::lock_guard lock(mutex);
    for (size_t i = 0; i != sizes.size(); ++i) {
      if (table.peek(sizes[i])) {
        there.push_back(i);
        continue;
      }
      auto found = flights.find(std::span<const int64_t>(sizes[i]));
      if (found != flights.end()) {
        found->second->jobs.emplace_back(job, i);
        continue;
      }
      std::shared_ptr<Flight> flight = begin(sizes[i]);
      flight->jobs.emplace_back(job, i);
      failure = enqueue(flight, false);
      if (!failure) {
        flights.erase(flight->sizes);
        break;
      }
    }
    // Who gets an error is not called any more: not for what others make either.
    if (!failure)
      for (const auto &[others, flight] : flights)
        std::erase_if(flight->jobs, [&](const auto &entry) { return entry.first == job; });
  }
  if (!failure)
    return failure.takeError();
  for (size_t i : there)
    job->settle(i, Status::ok());
  if (reports && !there.empty())
    tell(job);
  return std::shared_ptr<Preparation>(std::move(job));
}

/// Jobs are told by background threads, whoever made it.
void SpecializationCache::settle(const Jobs &jobs, const Status &status, bool inBackground) {
  for (const auto &[job, index] : jobs) {
    job->settle(index, status);
    if (inBackground)
      PreparationJob::reporter(job)();
    else
      tell(job);
  }
}

/// By a background thread, where there is one.
void SpecializationCache::tell(const std::shared_ptr<PreparationJob> &job) {
  std::function<void()> report = PreparationJob::reporter(job);
  if (!engine->parts().background.submit(report, true))
    report();
}

bool SpecializationCache::isBackgroundThread() const { return engine->parts().background.isOwnThread(); }

void SpecializationCache::cancel(PreparationJob &job) {
  Jobs dropped; // jobs may go with it: after the lock
  std::vector<std::shared_ptr<Flight>> ended;
  std::unordered_set<const void *> over;
  {
    std::lock_guard lock(mutex);
    for (auto at = flights.begin(); at != flights.end();) {
      std::shared_ptr<Flight> flight = (at++)->second;
      if (flight->state != Flight::State::Queued && flight->state != Flight::State::Trying)
        continue;
      auto mine = std::partition(flight->jobs.begin(), flight->jobs.end(),
                                 [&](const auto &entry) { return entry.first.get() != &job; });
      if (mine == flight->jobs.end())
        continue;
      std::move(mine, flight->jobs.end(), std::back_inserter(dropped));
      flight->jobs.erase(mine, flight->jobs.end());
      ended.push_back(flight);
      if (!flight->jobs.empty() || flight->state == Flight::State::Trying)
        continue; // (a run that tries it wants it)
      if (flight->wanted) {
        leave(*flight); // by a run that may have gone since
        continue;
      }
      flight->state = Flight::State::Done;
      flight->outcome = Error{ErrorCode::Cancelled, "preparing this binding was cancelled"};
      over.insert(flight.get());
      flights.erase(flight->sizes);
    }
  }
  engine->parts().background.drop(over);
  for (const auto &[own, index] : dropped)
    own->drop(index);
}

//===----------------------------------------------------------------------===//
// Making
//===----------------------------------------------------------------------===//

Result<SpecializationCache::Acquired> SpecializationCache::fly(const std::shared_ptr<Flight> &flight,
                                                               bool inBackground) {
  Making making;
  Stopwatch watch;
  Result<Ready> made = make(*flight, making, true);
  return land(flight, made, making, watch.ms(), inBackground);
}

std::optional<Result<SpecializationCache::Acquired>>
SpecializationCache::flyWithoutCompiler(const std::shared_ptr<Flight> &flight) {
  Making making;
  Stopwatch watch;
  Result<Ready> made = make(*flight, making, false);
  if (!made || *made)
    return land(flight, made, making, watch.ms(), false);
  if (making.heldTemplate) {
    std::lock_guard lock(mutex);
    endUse(making.heldTemplate);
  }
  return std::nullopt;
}

Result<SpecializationCache::Acquired> SpecializationCache::land(const std::shared_ptr<Flight> &flight,
                                                                const Result<Ready> &made, Making &making, double ms,
                                                                bool inBackground) {
  publish(*flight, made, making);
  if (engine->options().log) {
    std::string line = model->signature().name + " " + bindingString(model->solver().binding(flight->sizes)) + ": ";
    line += made ? std::string(originName(making.origin)) + ", " + std::to_string(making.kernelsCompiled) +
                       " kernels compiled, " + std::to_string(making.kernelsReused) + " reused"
                 : made.error().message;
    engine->options().log(line + ", " + milliseconds(ms));
  }
  settle(flight->jobs, made ? Status::ok() : Status(made.error()), inBackground); // nobody adds to what is over
  flight->jobs.clear();
  if (!made)
    return made.error();
  return Acquired{*made, making.origin};
}

void SpecializationCache::publish(Flight &flight, const Result<Ready> &outcome, Making &making) {
  Dropped dropped;
  BindingTable::Entry *newest = nullptr;
  std::unique_ptr<BindingTable::Entry> entry;
  if (outcome) {
    entry = std::make_unique<BindingTable::Entry>();
    entry->sizes = flight.sizes;
    entry->ready = *outcome;
    entry->heldTemplate = making.heldTemplate;
    entry->bytes = (*outcome)->info.bytes;
  }
  {
    std::lock_guard lock(mutex);
    flight.outcome = outcome;
    flight.origin = making.origin;
    flight.state = Flight::State::Done;
    flights.erase(flight.sizes);
    // It was taken over. The queue is no place for what it has become.
    engine->parts().background.drop(&flight, flight.queued);
    compiledFor += making.kernelsCompiled || making.origin == Origin::NewTemplate;
    // A later miss on another binding may have replaced the report meanwhile.
    if (lastMiss && lastMissed && *lastMissed == flight.sizes) {
      lastMiss->origin = making.origin;
      lastMiss->guardsFailed = making.guardsFailed;
      lastMiss->made = static_cast<bool>(outcome);
      if (!outcome)
        lastMiss->error = outcome.error().message;
    }
    for (const auto &[phase, ms] : making.times)
      addTime(counts.times, phase, ms);
    counts.kernelsCompiled += making.kernelsCompiled;
    counts.kernelsReused += making.kernelsReused;
    counts.codeBytes += making.codeBytes;
    int64_t now = useStamp();
    HeldTemplate *held = making.heldTemplate.get();
    if (held)
      held->used = now;
    if (outcome) {
      counts.templatesReused += making.origin == Origin::Instantiated;
      (*outcome)->used.store(now, std::memory_order_relaxed);
      ++held->entries;
      planBytes += entry->bytes;
      hold(making, **outcome);
      newest = entry.get();
      table.insert(std::move(entry), dropped.entries);
    } else {
      ++counts.failures;
    }
    if (held)
      endUse(making.heldTemplate);
    // The newest is not among those that may go yet.
    evict(dropped);
    if (newest) {
      ages.push_back({now, newest});
      std::push_heap(ages.begin(), ages.end());
    }
  }
  flight.landed.notify_all();
  if (dropped.entries.entries.empty() && dropped.entries.slots.empty())
    return;
  table.settle(dropped.entries);
  std::lock_guard lock(mutex);
  for (const auto &gone : dropped.entries.entries)
    hitsGone += gone->ready->hits.load(std::memory_order_relaxed) - gone->hitsCounted;
}

/// What it holds is wanted again.
void SpecializationCache::use(HeldTemplate &held) {
  if (!held.entries && !held.makers)
    std::erase_if(idle, [&](const auto &other) { return other.get() == &held; });
  ++held.makers;
}

/// By one who made something of it, or did not after all.
void SpecializationCache::endUse(const std::shared_ptr<HeldTemplate> &held) {
  if (--held->makers == 0 && !held->entries)
    idle.push_back(held);
}

void SpecializationCache::hold(const Making &making, const ReadySpecialization &ready) {
  HeldTemplate &held = *making.heldTemplate;
  size_t before = held.bytes, listBefore = held.kernels.capacity();
  for (size_t i = 0; i != making.kernelBytes.size(); ++i) {
    const void *owner = ready.kernels[i].owner.get();
    uint32_t number = ready.plan->kernels[i]->number;
    if (number >= held.kernels.size())
      held.kernels.resize(number + size_t(1));
    if (held.kernels[number].function)
      continue;
    held.kernels[number] = ready.kernels[i];
    auto [user, isNew] = kernelUsers.try_emplace(owner, 0, making.kernelBytes[i]);
    ++user->second.first;
    kernelBytes += isNew ? making.kernelBytes[i] : 0;
  }
  size_t checked = held.checked->bytes();
  held.bytes += checked - held.checkedBytes + (held.kernels.capacity() - listBefore) * sizeof(LoadedKernel);
  held.checkedBytes = checked;
  templateBytes += held.bytes - before;
}

//===----------------------------------------------------------------------===//
// Bounds
//===----------------------------------------------------------------------===//

size_t SpecializationCache::bytesHeld() const {
  return planBytes + templateBytes + kernelBytes + table.bytes() + tree.bytes();
}

/// The entry used least recently, at the top of the heap; null when there is none.
BindingTable::Entry *SpecializationCache::oldest(int64_t now) {
  while (!ages.empty()) {
    Aged &top = ages.front();
    int64_t used = top.entry->ready->used.load(std::memory_order_relaxed);
    if (used == top.used || top.used >= now)
      return top.entry;
    // It was used since it was put here.
    std::pop_heap(ages.begin(), ages.end());
    ages.back().used = used;
    std::push_heap(ages.begin(), ages.end());
  }
  return nullptr;
}

void SpecializationCache::removeOldest(Dropped &dropped) {
  BindingTable::Entry &entry = *ages.front().entry;
  std::pop_heap(ages.begin(), ages.end());
  ages.pop_back();
  ++counts.evictions;
  evicted.push_back(entry.hash);
  if (evicted.size() > kEvicted)
    evicted.pop_front();
  planBytes -= entry.bytes;
  HeldTemplate &held = *entry.heldTemplate;
  held.used = std::max(held.used, entry.ready->used.load(std::memory_order_relaxed));
  if (--held.entries == 0 && !held.makers)
    idle.push_back(entry.heldTemplate);
  entry.hitsCounted = entry.ready->hits.load(std::memory_order_relaxed);
  hitsGone += entry.hitsCounted;
  table.remove(entry, dropped.entries);
}

void SpecializationCache::dropTemplate(size_t number, Dropped &dropped) {
  std::shared_ptr<HeldTemplate> held = std::move(idle[number]);
  idle.erase(idle.begin() + static_cast<ptrdiff_t>(number));
  tree.remove(held->plan);
  templates.erase(held->plan.get());
  templateBytes -= held->bytes;
  for (const LoadedKernel &kernel : held->kernels) {
    if (!kernel.function)
      continue;
    auto user = kernelUsers.find(kernel.owner.get());
    if (--user->second.first)
      continue;
    kernelBytes -= user->second.second;
    kernelUsers.erase(user);
  }
  ++counts.templatesDropped;
  dropped.templates.push_back(std::move(held));
}

void SpecializationCache::evict(Dropped &dropped) {
  int64_t now = useStamp();
  while (true) {
    BindingTable::Entry *entry = oldest(now);
    size_t oldestIdle = 0;
    for (size_t i = 1; i < idle.size(); ++i)
      if (idle[i]->used < idle[oldestIdle]->used)
        oldestIdle = i;
    if (table.count() > entriesLimit && entry) {
      removeOldest(dropped);
    } else if (idle.size() > kIdleTemplates) {
      dropTemplate(oldestIdle, dropped);
    } else if (bytesLimit && bytesHeld() > bytesLimit && (entry || !idle.empty())) {
      bool templateFirst =
          !entry || (!idle.empty() && idle[oldestIdle]->used <= entry->ready->used.load(std::memory_order_relaxed));
      if (templateFirst)
        dropTemplate(oldestIdle, dropped);
      else
        removeOldest(dropped);
    } else {
      return;
    }
  }
}

//===----------------------------------------------------------------------===//
// One specialization
//===----------------------------------------------------------------------===//

/// From here on it may take long.
void SpecializationCache::beginCompiling(Flight &flight) {
  {
    std::lock_guard lock(mutex);
    flight.compiles = true;
  }
  flight.landed.notify_all();
}

Result<std::shared_ptr<HeldTemplate>> SpecializationCache::findTemplate(Flight &flight, Making &making,
                                                                        bool mayCompile) {
  const Sizes &sizes = flight.sizes;
  using Kind = TemplateTree::Found::Kind;
  auto lookup = [&]() -> Result<std::shared_ptr<HeldTemplate>> {
    std::lock_guard lock(mutex);
    TemplateTree::Found found = tree.lookup(sizes);
    if (found.kind == Kind::Error)
      return std::move(found.error);
    if (found.kind == Kind::Missing)
      return std::shared_ptr<HeldTemplate>();
    std::shared_ptr<HeldTemplate> held = templates.at(found.plan.get());
    use(*held);
    return held;
  };
  Result<std::shared_ptr<HeldTemplate>> found = lookup();
  if (!found || *found || !mayCompile)
    return found;
  beginCompiling(flight);
  std::lock_guard turn(templateTurn);
  found = lookup(); // whoever had the turn before may have made it
  if (!found || *found)
    return found;

  {
    std::lock_guard lock(mutex);
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
  if (reply->error) {
    // The trail is remembered: a failed requirement is an error leaf.
    std::lock_guard lock(mutex);
    (void)tree.insert(plan->guards, nullptr);
    return *reply->error;
  }
  Stopwatch checking;
  Result<std::shared_ptr<const CheckedTemplate>> checked = CheckedTemplate::create(plan, *model, compiler->target());
  addTime(making.times, "instantiate", checking.ms());
  if (!checked)
    return checked.takeError();
  auto held = std::make_shared<HeldTemplate>(plan, std::move(*checked));
  std::lock_guard lock(mutex);
  // A trail that does not fit leaves the tree as it was.
  if (Status inserted = tree.insert(plan->guards, plan); !inserted)
    return inserted.takeError();
  templates.emplace(plan.get(), held);
  templateBytes += held->bytes;
  ++counts.templatesMade;
  ++held->makers;
  return held;
}

Result<std::shared_ptr<const std::vector<const void *>>> SpecializationCache::findFixed(HeldTemplate &held) {
  const data::PlanTemplateT &plan = *held.plan;
  auto fixed = std::make_shared<std::vector<const void *>>(plan.buffers.size());
  std::vector<bool> used = usedBuffers(plan);
  std::vector<WeightRequest> requests;
  std::vector<size_t> places;
  for (size_t i = 0; i != plan.buffers.size(); ++i) {
    const data::BufferT &buffer = *plan.buffers[i];
    if (buffer.kind == data::BufferKind::Constant)
      (*fixed)[i] = buffer.data.data();
    if (buffer.kind != data::BufferKind::Weight || !used[i])
      continue;
    requests.push_back({buffer.name, layoutOf(buffer)});
    places.push_back(i);
  }
  Result<std::vector<std::span<const std::byte>>> weights = model->weights().get(requests, *engine->parts().threads);
  if (!weights)
    return weights.takeError();
  for (size_t i = 0; i != places.size(); ++i)
    (*fixed)[places[i]] = (*weights)[i].data();
  std::lock_guard lock(mutex);
  held.fixed = std::move(fixed);
  return held.fixed;
}

Result<SpecializationCache::Ready> SpecializationCache::make(Flight &flight, Making &making, bool mayCompile) {
  Result<std::shared_ptr<HeldTemplate>> found = findTemplate(flight, making, mayCompile);
  if (!found)
    return found.takeError();
  if (!*found)
    return Ready();
  HeldTemplate &held = **found;
  making.heldTemplate = std::move(*found);
  CompilerInterface *compiler = model->compiler();
  if (!compiler)
    return Error{ErrorCode::Unsupported, "the model has no compiler for its kernels"};

  auto ready = std::make_shared<ReadySpecialization>();
  Binding binding = model->solver().binding(flight.sizes);
  Stopwatch instantiation;
  Result<std::shared_ptr<const Specialization>> made = held.checked->instantiate(binding);
  addTime(making.times, "instantiate", instantiation.ms());
  if (!made)
    return Error{made.error().code, bindingString(binding) + ": " + made.error().message};
  ready->plan = std::move(*made);

  // Kernels and weights need nothing of each other.
  Result<KernelCache::Got> kernels = KernelCache::Got();
  Result<std::shared_ptr<const std::vector<const void *>>> fixed = std::shared_ptr<const std::vector<const void *>>();
  bool hasKernels = true; // of other bindings
  {
    std::lock_guard lock(mutex);
    fixed = held.fixed;
    for (const auto &kernel : ready->plan->kernels) {
      hasKernels = kernel->number < held.kernels.size() && held.kernels[kernel->number].function;
      if (!hasKernels)
        break;
      kernels->kernels.push_back(held.kernels[kernel->number]);
    }
  }
  PhaseTimes compiling;
  if (mayCompile && !(hasKernels && *fixed))
    beginCompiling(flight);
  auto getKernels = [&] {
    kernels = engine->parts().kernels.get(ready->plan->kernels, *compiler, *engine->parts().threads, compiling);
  };
  if (hasKernels && *fixed) {
    // Nothing is to be found.
  } else if (!mayCompile) {
    std::optional<KernelCache::Got> there = engine->parts().kernels.find(ready->plan->kernels);
    if (!there || !*fixed)
      return Ready();
    kernels = std::move(*there);
  } else if (*fixed) {
    getKernels();
  } else {
    double packingMs = 0;
    parallelFor(*engine->parts().threads, 2, [&](size_t i) {
      if (i == 0)
        return getKernels();
      Stopwatch packing;
      fixed = findFixed(held);
      packingMs = packing.ms();
    });
    addTime(making.times, "weights", packingMs);
  }
  for (const auto &[phase, ms] : compiling)
    addTime(making.times, phase, ms);
  if (!kernels) {
    Error error = kernels.takeError();
    // Kernels know no sizes; who asked for them does.
    if (error.code == ErrorCode::CompilerFailed)
      error.message = bindingString(binding) + ": " + error.message;
    return error;
  }
  if (!fixed)
    return fixed.takeError();
  ready->kernels = std::move(kernels->kernels);
  making.kernelsCompiled = kernels->compiled;
  making.kernelsReused = ready->kernels.size() - kernels->compiled;
  making.codeBytes = kernels->codeBytes;
  making.kernelBytes = std::move(kernels->bytes);

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
  if (Status status = layOut(*ready, **fixed, *engine->parts().threads); !status)
    return status.takeError();
  info.bytes = heapBytes(*ready) + sizeof(BindingTable::Entry) + sizeof(Aged) + flight.sizes.size() * sizeof(int64_t);
  return Ready(std::move(ready));
}

//===----------------------------------------------------------------------===//
// Telling
//===----------------------------------------------------------------------===//

Statistics SpecializationCache::stats() const {
  std::unique_lock lock(mutex);
  Statistics result = counts;
  result.hits += hitsGone;
  for (const BindingTable::Entry *entry : table.entries())
    result.hits += entry->ready->hits.load(std::memory_order_relaxed);
  result.entries = table.count();
  result.planBytes = planBytes;
  result.templates = templates.size();
  result.templateBytes = templateBytes + table.bytes() + tree.bytes();
  result.kernels = kernelUsers.size();
  result.kernelBytes = kernelBytes;
  lock.unlock();
  ArenaPool::Usage arenas = engine->parts().arenas.usage();
  result.arenaBytesInUse = arenas.inUse;
  result.arenaBytesIdle = arenas.idle;
  return result;
}

std::vector<SpecializationCache::Ready> SpecializationCache::held() const {
  std::vector<std::pair<int64_t, Ready>> byUse;
  {
    std::lock_guard lock(mutex);
    for (const BindingTable::Entry *entry : table.entries())
      byUse.emplace_back(entry->ready->used.load(std::memory_order_relaxed), entry->ready);
  }
  std::sort(byUse.begin(), byUse.end(), [](const auto &a, const auto &b) { return a.first > b.first; });
  std::vector<Ready> result;
  for (auto &[used, ready] : byUse)
    result.push_back(std::move(ready));
  return result;
}

std::vector<BindingInfo> SpecializationCache::bindings() const {
  std::vector<BindingInfo> result;
  for (const Ready &ready : held()) {
    result.push_back(ready->info);
    result.back().hits = ready->hits.load(std::memory_order_relaxed);
    result.back().idleMs = useClock.msSince(ready->used.load(std::memory_order_relaxed));
  }
  std::lock_guard lock(mutex);
  for (bool queued : {false, true})
    for (const auto &[sizes, flight] : flights) {
      if ((flight->state == Flight::State::Queued) != queued)
        continue;
      BindingInfo &info = result.emplace_back();
      info.binding = model->solver().binding(sizes);
      info.state = queued ? BindingState::Queued : BindingState::Making;
    }
  return result;
}

std::optional<MissReport> SpecializationCache::explain() const {
  std::lock_guard lock(mutex);
  return lastMiss;
}

Forecast SpecializationCache::explain(std::span<const int64_t> sizes) const {
  using Kind = TemplateTree::Found::Kind;
  Forecast forecast;
  forecast.binding = model->solver().binding(sizes);
  std::lock_guard lock(mutex);
  if (table.peek(sizes)) {
    forecast.kind = Forecast::Kind::Hit;
  } else if (flights.find(sizes) != flights.end()) {
    forecast.kind = Forecast::Kind::Making;
  } else if (TemplateTree::Found found = tree.lookup(sizes); found.kind == Kind::Template) {
    forecast.kind = Forecast::Kind::Instantiate;
  } else if (found.kind == Kind::Error) {
    forecast.kind = Forecast::Kind::Error;
    forecast.error = found.error.message;
  } else {
    for (const TemplateTree::Failed &failed : tree.explain(sizes))
      forecast.guardsFailed.push_back(failed.text());
  }
  return forecast;
}

size_t SpecializationCache::probes(std::span<const int64_t> sizes) const {
  std::lock_guard lock(mutex);
  return table.probes(sizes);
}
