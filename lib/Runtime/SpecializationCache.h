//===- SpecializationCache.h - specializations by binding -------*- C++ -*-===//
#ifndef RLX_LIB_RUNTIME_SPECIALIZATIONCACHE_H
#define RLX_LIB_RUNTIME_SPECIALIZATIONCACHE_H

#include "BindingTable.h"
#include "Preparation.h"
#include "rlx/Runtime/Executable.h"
#include "rlx/Runtime/Model.h"
#include "rlx/Runtime/TemplateTree.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <unordered_map>

namespace rlx {

/// The specializations of an executable and its clones, and the templates they
/// are made from. Thread safe.
///
/// A hit waits for nobody but, for an instant, a thread that shares its lock by
/// chance (BindingTable). All else has one mutex that is never held while something
/// compiles, is instantiated, is freed or calls the caller.
///
/// The first thread to miss on a binding makes it, on its own; others that want
/// it wait for that one and for nothing else. Who does not want to wait, or not for
/// long, makes what needs no compiler, and leaves the rest to the engine's background
/// threads; what is only queued there is taken over by whoever is ready to wait. Requests for templates take
/// turns: the second one usually finds that the first one's template holds for it
/// too.
///
/// Bounded by entries and by bytes: those of specializations, of templates and of
/// the code of the kernels that they use. What was used longest ago goes first,
/// specializations and templates alike. A template is used when a specialization of
/// it is, and goes after all of those; it holds the kernels that they used. Besides,
/// kIdleTemplates without a specialization are held at most. The specialization made
/// last stays in any case, and what a run uses lives on until it ends.
class SpecializationCache : public std::enable_shared_from_this<SpecializationCache> {
public:
  static constexpr size_t kIdleTemplates = 64;

  /// Holds at most `entries` specializations, 1 or more, and `bytes` (0: no bound).
  /// Made by make_shared().
  SpecializationCache(std::shared_ptr<Engine> engine, std::shared_ptr<const Model> model, size_t entries,
                      size_t bytes = 0);
  ~SpecializationCache();

  struct Acquired {
    std::shared_ptr<const ReadySpecialization> ready;
    Origin origin = Origin::Hit;
    bool waited = false; ///< for another thread that was making it
  };
  /// `sizes`: one per dim of the signature, checked. A failure is reported to all
  /// who waited for it. `onMiss` and `timeout` as in RunOptions.
  Result<Acquired> get(std::span<const int64_t> sizes, OnMiss onMiss = OnMiss::Wait,
                       std::optional<std::chrono::nanoseconds> timeout = {}) {
    if (std::shared_ptr<const ReadySpecialization> ready = find(sizes))
      return Acquired{std::move(ready)};
    return miss(sizes, onMiss, timeout);
  }
  /// Null where get() would miss; else a hit.
  std::shared_ptr<const ReadySpecialization> find(std::span<const int64_t> sizes) { return table.find(sizes); }
  /// Makes them on the engine's background threads; as Executable's.
  Result<std::shared_ptr<Preparation>> prepareInBackground(std::vector<std::vector<int64_t>> sizes,
                                                           std::function<void(Preparation::Progress)> progress);
  /// Drops what is queued for this job only.
  void cancel(PreparationJob &job);
  /// Whether the caller is a background thread of the engine.
  bool isBackgroundThread() const;

  Statistics stats() const;
  /// Those held, the most recently used first, then those being made and queued.
  std::vector<BindingInfo> bindings() const;
  std::optional<MissReport> explain() const;
  /// What a run at these sizes would meet now.
  Forecast explain(std::span<const int64_t> sizes) const;
  /// Everything held now.
  std::vector<std::shared_ptr<const ReadySpecialization>> held() const;
  /// For tests: what a hit looks at.
  size_t probes(std::span<const int64_t> sizes) const;

  const std::shared_ptr<Engine> engine;
  const std::shared_ptr<const Model> model;

private:
  using Ready = std::shared_ptr<const ReadySpecialization>;
  /// Who asked for a binding, and its number there.
  using Jobs = std::vector<std::pair<std::shared_ptr<PreparationJob>, size_t>>;
  /// One specialization on its way.
  struct Flight {
    enum class State { Queued, Trying /* without the compiler */, Making, Done } state = State::Queued;
    Sizes sizes;
    bool wanted = false; ///< by a run, so that cancelling a job does not drop it
    bool urgent = false;
    bool compiles = false;           ///< who makes it is with the compiler, or packs
    std::optional<uint64_t> triedAt; ///< without the compiler: `compiledFor` then
    size_t queued = 0;               ///< tasks for it in the background's queue
    size_t waiting = 0;              ///< runs
    bool isLeft = false;             ///< counted in `left`
    Jobs jobs;
    std::condition_variable landed;
    // When done:
    Result<Ready> outcome = Ready();
    Origin origin = Origin::Hit;
  };
  /// What making one specialization came to, successful or not.
  struct Making {
    Origin origin = Origin::Instantiated;
    std::vector<std::string> guardsFailed;
    PhaseTimes times;
    uint64_t kernelsCompiled = 0, kernelsReused = 0, codeBytes = 0;
    std::vector<size_t> kernelBytes;            ///< one per kernel of the specialization
    std::shared_ptr<HeldTemplate> heldTemplate; ///< counted among its makers
  };
  struct SizesHash {
    using is_transparent = void;
    size_t operator()(std::span<const int64_t> sizes) const { return hashSizes(sizes); }
  };
  struct SizesEqual {
    using is_transparent = void;
    bool operator()(std::span<const int64_t> a, std::span<const int64_t> b) const {
      return std::equal(a.begin(), a.end(), b.begin(), b.end());
    }
  };
  /// What was let go of under the lock, to be freed after it.
  struct Dropped {
    BindingTable::Garbage entries;
    std::vector<std::shared_ptr<HeldTemplate>> templates;
  };
  /// An entry and what its stamp was when it was put here: never later than it is.
  struct Aged {
    int64_t used;
    BindingTable::Entry *entry;
    bool operator<(const Aged &other) const { return used > other.used; } // the oldest is the heap's top
  };

  Result<Acquired> miss(std::span<const int64_t> sizes, OnMiss onMiss, std::optional<std::chrono::nanoseconds> timeout);
  /// Makes what a flight is for, tells everybody, and returns it.
  Result<Acquired> fly(const std::shared_ptr<Flight> &flight, bool inBackground);
  /// The same, where a template holds and neither a kernel nor a packed weight is missing; else nothing.
  std::optional<Result<Acquired>> flyWithoutCompiler(const std::shared_ptr<Flight> &flight);
  Result<Acquired> land(const std::shared_ptr<Flight> &flight, const Result<Ready> &made, Making &making, double ms,
                        bool inBackground);
  /// Null where it `mayCompile` not and would have to.
  Result<Ready> make(Flight &flight, Making &making, bool mayCompile);
  Result<std::shared_ptr<HeldTemplate>> findTemplate(Flight &flight, Making &making, bool mayCompile);
  void beginCompiling(Flight &flight);
  /// Packs what is not packed yet.
  Result<std::shared_ptr<const std::vector<const void *>>> findFixed(HeldTemplate &held);
  void publish(Flight &flight, const Result<Ready> &outcome, Making &making);
  void settle(const Jobs &jobs, const Status &status, bool inBackground);
  void tell(const std::shared_ptr<PreparationJob> &job);

  // With the lock held:
  std::shared_ptr<Flight> begin(std::span<const int64_t> sizes);
  Status enqueue(const std::shared_ptr<Flight> &flight, bool urgent);
  void leave(Flight &flight);
  void comeBack(Flight &flight);
  void reportMiss(std::span<const int64_t> sizes);
  void use(HeldTemplate &held);
  void endUse(const std::shared_ptr<HeldTemplate> &held);
  void hold(const Making &making, const ReadySpecialization &ready);
  void evict(Dropped &dropped);
  BindingTable::Entry *oldest(int64_t now);
  void removeOldest(Dropped &dropped);
  void dropTemplate(size_t idle, Dropped &dropped);
  size_t bytesHeld() const;

  const size_t entriesLimit, bytesLimit;
  const UseClock useClock;
  mutable BindingTable table; // found without the lock, changed with it

  mutable std::mutex mutex; // guards the members below
  std::unordered_map<Sizes, std::shared_ptr<Flight>, SizesHash, SizesEqual> flights;
  size_t left = 0;              // flights that runs have queued and none waits for: no more than entries
  uint64_t compiledFor = 0;     // flights: since the last of them more may need no compiler
  std::vector<Aged> ages;       // a heap of all entries
  std::deque<uint64_t> evicted; // hashes of the sizes evicted last
  std::optional<Sizes> lastMissed;
  int64_t lastMissedAt = 0;
  std::optional<MissReport> lastMiss;
  Statistics counts;     // hits: what BindingTable did not count
  uint64_t hitsGone = 0; // of entries that were taken out
  size_t planBytes = 0, templateBytes = 0, kernelBytes = 0;

  TemplateTree tree;
  std::unordered_map<const data::PlanTemplateT *, std::shared_ptr<HeldTemplate>> templates;
  std::vector<std::shared_ptr<HeldTemplate>> idle; // without specializations and makers
  /// Kernels that templates hold, by owner: how many do, and their bytes.
  std::unordered_map<const void *, std::pair<size_t, size_t>> kernelUsers;

  std::mutex templateTurn; // held while a template is being made
};

} // namespace rlx

#endif // RLX_LIB_RUNTIME_SPECIALIZATIONCACHE_H
