//===- SpecializationCache.h - specializations by binding -------*- C++ -*-===//
#ifndef RLX_LIB_RUNTIME_SPECIALIZATIONCACHE_H
#define RLX_LIB_RUNTIME_SPECIALIZATIONCACHE_H

#include "Execute.h"
#include "rlx/Runtime/Executable.h"
#include "rlx/Runtime/Model.h"
#include "rlx/Runtime/TemplateTree.h"

#include <condition_variable>
#include <deque>
#include <list>
#include <map>
#include <mutex>

namespace rlx {

/// The specializations of an executable and its clones, and the templates they
/// are made from. Bounded; the least recently used goes first, and lives on while
/// a run uses it. Thread safe.
///
/// The first thread to miss on a binding makes it, on its own; others that want
/// it wait for that one and for nothing else. Requests for templates take turns:
/// the second one usually finds that the first one's template holds for it too.
class SpecializationCache : public std::enable_shared_from_this<SpecializationCache> {
public:
  /// Holds at most `entries` specializations, and `bytes` of them (0: no bound).
  /// Made by make_shared().
  SpecializationCache(std::shared_ptr<Engine> engine, std::shared_ptr<const Model> model, size_t entries,
                      size_t bytes = 0);

  struct Acquired {
    std::shared_ptr<const ReadySpecialization> ready;
    Origin origin = Origin::Hit;
    bool waited = false; ///< for another thread that was making it
  };
  /// `sizes`: one per dim of the signature, checked. A failure is reported to all
  /// who waited for it. `onMiss` and `timeout` as in RunOptions.
  Result<Acquired> get(std::span<const int64_t> sizes, OnMiss onMiss = OnMiss::Wait,
                       std::optional<std::chrono::nanoseconds> timeout = {});
  /// Makes them on the engine's background threads; as Executable's.
  Result<std::shared_ptr<Preparation>> prepareInBackground(std::vector<std::vector<int64_t>> sizes,
                                                           std::function<void(Preparation::Progress)> progress);

  Statistics stats() const;
  std::vector<BindingInfo> bindings() const;
  std::optional<MissReport> explain() const;
  /// Everything held now.
  std::vector<std::shared_ptr<const ReadySpecialization>> held() const;

  const std::shared_ptr<Engine> engine;
  const std::shared_ptr<const Model> model;

private:
  using Sizes = std::vector<int64_t>;
  using Ready = std::shared_ptr<const ReadySpecialization>;
  struct Entry {
    Sizes sizes;
    Ready ready;
  };
  struct Flight {
    bool done = false;
    Result<Ready> outcome = Ready();
  };
  /// What making one specialization came to, successful or not.
  struct Making {
    Origin origin = Origin::Instantiated;
    std::vector<std::string> guardsFailed;
    PhaseTimes times;
    uint64_t kernelsCompiled = 0, kernelsReused = 0, codeBytes = 0;
  };

  /// What all bindings of a template share.
  struct Shared {
    std::shared_ptr<const CheckedTemplate> checked;
    /// Where its weights and constants lie, one per buffer; null until the first binding has found them.
    std::shared_ptr<const std::vector<const void *>> fixed;
  };
  Result<Shared> sharedOf(const TemplateTree::Template &plan);
  /// Packs what is not packed yet.
  Status findFixed(const TemplateTree::Template &plan, Shared &shared);

  Result<Ready> make(const Sizes &sizes, Making &making);
  Result<TemplateTree::Template> findTemplate(const Sizes &sizes, Making &making);
  void publish(const Sizes &sizes, const Result<Ready> &outcome, const Making &making);

  const size_t capacity;

  mutable std::mutex mutex; // guards the members below
  std::condition_variable landed;
  std::list<Entry> recent; // most recently used first
  std::map<Sizes, std::list<Entry>::iterator> index;
  std::map<Sizes, std::shared_ptr<Flight>> flights;
  std::deque<Sizes> evicted; // the latest, at most `capacity`
  std::optional<Sizes> lastSizes;
  std::optional<MissReport> lastMiss;
  Statistics counts;

  mutable std::mutex treeMutex; // guards the members below, never held while compiling
  TemplateTree tree;
  std::map<TemplateTree::Template, Shared> sharedByTemplate;
  std::mutex templateTurn; // held while a template is being made
};

} // namespace rlx

#endif // RLX_LIB_RUNTIME_SPECIALIZATIONCACHE_H
