//===- Handles.h - what is behind the C API's pointers ----------*- C++ -*-===//
#ifndef RLX_LIB_CAPI_HANDLES_H
#define RLX_LIB_CAPI_HANDLES_H

#include "rlx/Runtime/Engine.h"
#include "rlx/Runtime/Executable.h"
#include "rlx/Runtime/Model.h"
#include "rlx/Runtime/Tensor.h"
#include "rlx/rlx.h"

#include "Texts.h"

#include <atomic>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

//===----------------------------------------------------------------------===//
// Handles
//===----------------------------------------------------------------------===//

namespace rlx::capi {

/// What a handle begins with: a word that says its kind and that it is alive.
/// Whatever is found in the place of a destroyed one is unlikely to be that.
template <uint64_t Word> struct Marked {
  static constexpr uint64_t kWord = Word;
  std::atomic<uint64_t> word{Word};

  bool isAlive() const { return word.load(std::memory_order_relaxed) == Word; }
  /// Whether it was alive; now it is not.
  bool end() {
    uint64_t alive = Word;
    return word.compare_exchange_strong(alive, 0, std::memory_order_relaxed);
  }
};

} // namespace rlx::capi

struct rlx_status : rlx::capi::Marked<0x524c58535441545full> {
  rlx::Error error;
};

struct rlx_engine : rlx::capi::Marked<0x524c58454e47495full> {
  static constexpr const char *kName = "engine";
  std::shared_ptr<rlx::Engine> engine;
};

struct rlx_model : rlx::capi::Marked<0x524c584d4f44455full> {
  static constexpr const char *kName = "model";
  std::shared_ptr<const rlx::Model> model;
  // What the getters hand out.
  rlx::capi::Texts texts;
  rlx_model_info info = {};
  std::vector<rlx_dim_info> dims;
  std::vector<rlx_tensor_info> inputs, outputs, params;
};

struct rlx_executable : rlx::capi::Marked<0x524c58455845435full> {
  static constexpr const char *kName = "executable";
  std::shared_ptr<rlx::Executable> executable;
};

struct rlx_context : rlx::capi::Marked<0x524c58434f4e545full> {
  static constexpr const char *kName = "context";
  std::unique_ptr<rlx::RunContext> context;
  std::shared_ptr<const rlx::Model> model;
  std::atomic_flag busy; ///< guards `views`
  std::vector<rlx_view> views;
};

struct rlx_tensor : rlx::capi::Marked<0x524c5854454e535full> {
  static constexpr const char *kName = "tensor";
  rlx::Tensor tensor;
  std::atomic<int64_t> users{1}; ///< the handle, and tensors of DLPack

  void release() {
    if (users.fetch_sub(1, std::memory_order_acq_rel) == 1)
      delete this;
  }
};

struct rlx_preparation : rlx::capi::Marked<0x524c58505245505full> {
  static constexpr const char *kName = "preparation";
  std::shared_ptr<rlx::Preparation> preparation;
};

struct rlx_snapshot : rlx::capi::Marked<0x524c58534e41505full> {
  static constexpr const char *kName = "snapshot";
  rlx::capi::Texts texts;
  rlx_statistics statistics = {};
  std::vector<rlx_binding_info> bindings;
  std::optional<rlx_miss_info> miss;
};

struct rlx_forecast : rlx::capi::Marked<0x524c58464f52455full> {
  static constexpr const char *kName = "forecast";
  rlx::capi::Texts texts;
  rlx_forecast_info info = {};
};

struct rlx_task {
  std::function<void()> work;
};

namespace rlx::capi {

//===----------------------------------------------------------------------===//
// Status
//===----------------------------------------------------------------------===//

rlx_status *fail(Error error);
rlx_status *invalid(std::string text);
inline rlx_status *toStatus(Status status) { return status ? nullptr : fail(status.takeError()); }

/// The body of a function of the API. What it throws, it has from a callback of
/// the caller or from an allocation of a few bytes, ends the process.
template <typename Body> rlx_status *guarded(Body body) noexcept { return body(); }

template <typename Handle> rlx_status *notAlive(const Handle *handle) {
  std::string name = Handle::kName;
  return invalid(handle ? "the " + name + " was destroyed, or is no " + name : "the " + name + " is NULL");
}
/// Leaves the function with a status where a handle cannot be used.
#define RLX_CAPI_ALIVE(handle)                                                                                         \
  do {                                                                                                                 \
    if (!(handle) || !(handle)->isAlive()) [[unlikely]]                                                                \
      return rlx::capi::notAlive(handle);                                                                              \
  } while (false)
/// The same for an out-parameter.
#define RLX_CAPI_GIVEN(pointer)                                                                                        \
  do {                                                                                                                 \
    if (!(pointer)) [[unlikely]]                                                                                       \
      return rlx::capi::invalid("'" #pointer "' is NULL");                                                             \
  } while (false)

/// Destroys a handle that is nobody's but the caller's.
template <typename Handle> void destroy(Handle **handle) noexcept {
  if (!handle || !*handle)
    return;
  if ((*handle)->end())
    delete *handle;
  *handle = nullptr;
}

//===----------------------------------------------------------------------===//
// Structs of the caller
//===----------------------------------------------------------------------===//

/// Checks the size of a versioned struct. All of them are as they were in 0.1: none is
/// smaller.
std::optional<Error> checkSize(const void *given, size_t givenSize, size_t size, const char *what);

/// Reads a versioned struct: NULL is all zeros.
template <typename T> std::optional<Error> read(const T *given, T &options, const char *what) {
  if (!given)
    return std::nullopt;
  if (std::optional<Error> error = checkSize(given, given->struct_size, sizeof(T), what)) [[unlikely]]
    return error;
  options = *given;
  return std::nullopt;
}

/// "input 'x'", or "input 2" for one without a name.
std::string nameOf(const char *kind, const char *name, size_t position);

inline bool isType(rlx_dtype dtype) { return dtype >= RLX_I1 && dtype <= RLX_F64; }
inline data::ElementType toType(rlx_dtype dtype) { return static_cast<data::ElementType>(dtype); }
inline rlx_dtype fromType(data::ElementType type) { return static_cast<rlx_dtype>(type); }

/// The most axes that are looked at. No model has more than a few.
inline constexpr int32_t kMaxRank = 64;

/// The most elements that an array of the caller has which no model bounds: enough for any use, and a count that is
/// no count, of memory nobody has, is most likely above.
inline constexpr size_t kMostElements = 1 << 20;
/// As long as a text may be.
inline constexpr size_t kMostText = size_t(1) << 30;

/// Adds sizes by name to `binding`. Errors: no name, a name twice, more than `limit`.
std::optional<Error> readBinding(const rlx_size *sizes, size_t count, size_t limit, Binding &binding);

/// Waits of the caller; more than a year is a year, which no clock overflows at.
std::chrono::nanoseconds toWait(int64_t ns);

rlx_tensor *makeTensor(Tensor tensor);

} // namespace rlx::capi

#endif // RLX_LIB_CAPI_HANDLES_H
