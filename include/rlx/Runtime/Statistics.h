//===- Statistics.h - what a cache of bindings did --------------*- C++ -*-===//
#ifndef RLX_RUNTIME_STATISTICS_H
#define RLX_RUNTIME_STATISTICS_H

#include "rlx/Runtime/Compiler.h"
#include "rlx/Support/DimExpr.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace rlx {

/// Adds milliseconds to a phase, at the end where it is new.
void addTime(PhaseTimes &times, const std::string &phase, double ms);

/// "{B=2, S=3}".
std::string bindingString(const Binding &binding);

/// How a run came by its specialization.
enum class Origin {
  Hit,          ///< It was in the cache (or another thread was making it).
  Instantiated, ///< From a template there was; kernels may still have compiled.
  NewTemplate   ///< The compiler was asked for a template.
};
/// "hit", "instantiated", "new".
const char *originName(Origin origin);

/// Where a specialization is.
enum class BindingState {
  Ready,
  Making, ///< some thread makes it
  Queued  ///< a background thread will, unless a run that waits comes first
};
/// "ready", "making", "queued".
const char *bindingStateName(BindingState state);

/// One specialization: how it was made and how it is used. Of one that is not ready,
/// only binding and state are told.
struct BindingInfo {
  Binding binding;
  BindingState state = BindingState::Ready;
  Origin origin = Origin::NewTemplate; ///< never Hit
  /// Choices that fell otherwise in the templates there were: "S <= 512 (op: reason)".
  std::vector<std::string> guardsFailed;
  uint64_t kernelsCompiled = 0;
  uint64_t kernelsReused = 0; ///< distinct kernels it shares with earlier ones
  PhaseTimes times;           ///< milliseconds; "instantiate" is the runtime's own part
  uint64_t hits = 0;          ///< runs served after the one that made it
  double idleMs = 0;          ///< since it was used last, or made
  uint64_t steps = 0;
  uint64_t arenaBytes = 0; ///< of each run
  uint64_t bytes = 0;      ///< of its plan: what it takes in the cache, template and kernels apart
};

/// Counts since the executable was made; a clone shares them, as it shares the
/// cache.
struct Statistics {
  uint64_t hits = 0;
  uint64_t misses = 0; ///< specializations begun, ahead of a run or for it
  uint64_t evictions = 0;
  uint64_t templatesMade = 0;    ///< compiles: misses that the compiler had to form a plan for
  uint64_t templatesReused = 0;  ///< misses served by instantiation alone
  uint64_t templatesDropped = 0; ///< made, and let go of since
  uint64_t failures = 0;         ///< misses that ended in an error
  uint64_t notReady = 0;         ///< runs that did not wait, or not long enough
  uint64_t kernelsCompiled = 0;
  uint64_t kernelsReused = 0;
  uint64_t codeBytes = 0; ///< of the kernels that this executable's misses compiled
  PhaseTimes times;       ///< summed by phase

  // What is held now. The three kinds of bytes are what ExecutableOptions::cacheBytes bounds.
  uint64_t entries = 0;
  uint64_t planBytes = 0; ///< of the entries
  uint64_t templates = 0;
  uint64_t templateBytes = 0;
  uint64_t kernels = 0;     ///< distinct ones that the templates hold
  uint64_t kernelBytes = 0; ///< their code and their keys
  // Memory of the runs of the whole engine.
  uint64_t arenaBytesInUse = 0, arenaBytesIdle = 0;
};

/// Why the latest miss missed.
struct MissReport {
  struct Change {
    std::string dim;
    int64_t from = 0, to = 0;
  };
  Binding binding;
  /// Against the binding of the run before; empty at the first.
  std::vector<Change> changes;
  bool first = false;   ///< there was no run before
  bool evicted = false; ///< it had been in the cache
  bool made = false;    ///< else it is still being made, or failed
  Origin origin = Origin::NewTemplate;
  std::vector<std::string> guardsFailed;
  std::string error; ///< what the miss ended in, when it failed
  /// One or more lines for people.
  std::string text() const;
};

/// What a run at a binding would meet now.
struct Forecast {
  enum class Kind {
    Hit,         ///< it is there
    Making,      ///< it is being made, or queued for that
    Instantiate, ///< a template holds here
    NewTemplate, ///< none does: the compiler is needed
    Error        ///< of the sizes
  };
  Binding binding;
  Kind kind = Kind::NewTemplate;
  /// NewTemplate: of each template there is, the guard that does not hold here.
  std::vector<std::string> guardsFailed;
  std::string error;
  /// One or more lines for people.
  std::string text() const;
};

/// One step of one run.
struct StepTime {
  std::string node; ///< as in error messages
  data::Family family = data::Family::Loops;
  std::vector<int64_t> extents; ///< of its loops, as the plan has them
  double ms = 0;
  unsigned threads = 1; ///< that took part
};

/// Of one run.
struct RunReport {
  Binding binding;
  Origin origin = Origin::Hit;
  double specializeMs = 0; ///< making the specialization, or waiting for the thread that makes it; else 0
  double runMs = 0;
};

} // namespace rlx

#endif // RLX_RUNTIME_STATISTICS_H
