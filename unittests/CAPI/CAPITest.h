//===- CAPITest.h - handles that end by themselves --------------*- C++ -*-===//
#ifndef RLX_UNITTESTS_CAPI_CAPITEST_H
#define RLX_UNITTESTS_CAPI_CAPITEST_H

#include "rlx/rlx.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace rlx::capitest {

/// A handle of the C API.
template <typename T, void (*destroy)(T **)> class Owned {
public:
  Owned() = default;
  explicit Owned(T *handle) : handle(handle) {}
  Owned(Owned &&other) noexcept : handle(std::exchange(other.handle, nullptr)) {}
  Owned &operator=(Owned &&other) noexcept {
    std::swap(handle, other.handle);
    return *this;
  }
  ~Owned() { destroy(&handle); }
  operator T *() const { return handle; }
  /// To be filled in.
  T **operator&() {
    destroy(&handle);
    return &handle;
  }

private:
  T *handle = nullptr;
};
using Status = Owned<rlx_status, rlx_status_destroy>;
using Engine = Owned<rlx_engine, rlx_engine_destroy>;
using Model = Owned<rlx_model, rlx_model_destroy>;
using Executable = Owned<rlx_executable, rlx_executable_destroy>;
using Context = Owned<rlx_context, rlx_context_destroy>;
using Tensor = Owned<rlx_tensor, rlx_tensor_destroy>;
using Preparation = Owned<rlx_preparation, rlx_preparation_destroy>;
using Forecast = Owned<rlx_forecast, rlx_forecast_destroy>;
using Snapshot = Owned<rlx_snapshot, rlx_snapshot_destroy>;

/// "" for success, else "CODE: MESSAGE".
inline std::string text(rlx_status *status) {
  Status owned(status);
  return status ? std::to_string(rlx_status_code(status)) + ": " + rlx_status_message(status) : "";
}
#define EXPECT_OK(call) EXPECT_EQ(rlx::capitest::text(call), "")
#define ASSERT_OK(call) ASSERT_EQ(rlx::capitest::text(call), "")
/// An error of this code whose message contains `part`.
#define EXPECT_FAILS(call, code, part)                                                                                 \
  EXPECT_THAT(rlx::capitest::text(call),                                                                               \
              testing::AllOf(testing::StartsWith(std::to_string(code) + ": "), testing::HasSubstr(part)))

/// z[N+M,4] = 2 * concat(x[N,4], y[M,4]).
extern const char *const kJoin;
/// scaled[N,4] = x[N,4] * w[4], twice[N,4] = x + x; w a param, N in [0, 64], likely 2 and 3.
extern const char *const kScale;

inline Engine makeEngine(int32_t threads = 1) {
  rlx_engine_options options = {};
  options.struct_size = sizeof options;
  options.threads = threads;
  Engine engine;
  EXPECT_OK(rlx_engine_create(&options, &engine));
  return engine;
}
inline Model load(rlx_engine *engine, const char *module) {
  Model model;
  EXPECT_OK(rlx_model_load_text(engine, module, std::strlen(module), nullptr, &model));
  return model;
}
inline Executable makeExecutable(rlx_engine *engine, rlx_model *model,
                                 const rlx_executable_options *options = nullptr) {
  Executable executable;
  EXPECT_OK(rlx_executable_create(engine, model, options, &executable));
  return executable;
}
inline Executable load(const char *module, int32_t threads = 1) {
  Engine engine = makeEngine(threads);
  Model model = load(engine, module);
  return makeExecutable(engine, model);
}

/// An f32 matrix of 4 columns as an input: first, first + 1, ...
struct Rows {
  std::vector<float> values;
  int64_t shape[2];

  explicit Rows(int64_t rows, float first = 0) : values(static_cast<size_t>(rows) * 4), shape{rows, 4} {
    for (size_t i = 0; i != values.size(); ++i)
      values[i] = first + static_cast<float>(i);
  }
  rlx_input input(const char *name) const {
    return {name, values.data(), values.size() * sizeof(float), shape, 2, RLX_F32, 0};
  }
  /// Times `factor`.
  std::vector<float> times(float factor) const {
    std::vector<float> scaled = values;
    for (float &value : scaled)
      value *= factor;
    return scaled;
  }
};
inline std::vector<float> concat(std::vector<float> a, const std::vector<float> &b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}
inline rlx_output outputFor(const char *name, std::vector<float> &values) {
  return {name, values.data(), values.size() * sizeof(float), RLX_F32, 0};
}
inline std::vector<float> valuesOf(const rlx_view &view) {
  EXPECT_EQ(view.dtype, RLX_F32);
  const auto *values = static_cast<const float *>(view.data);
  return {values, values + view.bytes / sizeof(float)};
}
inline std::vector<float> valuesOf(const rlx_tensor *tensor) {
  rlx_view view = {};
  EXPECT_OK(rlx_tensor_view(tensor, &view));
  return valuesOf(view);
}
inline std::vector<int64_t> shapeOf(const rlx_view &view) { return {view.shape, view.shape + view.rank}; }
inline std::vector<int64_t> shapeOf(const rlx_tensor *tensor) {
  rlx_view view = {};
  EXPECT_OK(rlx_tensor_view(tensor, &view));
  return shapeOf(view);
}

} // namespace rlx::capitest

#endif // RLX_UNITTESTS_CAPI_CAPITEST_H
