// Builds a block of a network with named sizes, compiles it, and runs it at sizes that nobody announced.
//
//   q = x wq + bq                          [batch, seq, 32]
//   a = softmax(q x^T / sqrt(32)) x        each row of a sequence looks at the others
//   y = x + gelu(a w1 + b1) w2             with a residual
#include "rlx/Compiler/Load.h"
#include "rlx/Import/GraphBuilder.h"
#include "rlx/Runtime/Engine.h"
#include "rlx/Runtime/Executable.h"

#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

using namespace rlx;
using Floats = std::vector<float>;

namespace {

constexpr int64_t kWidth = 32, kHidden = 64;

/// Numbers that look random and are the same everywhere, in [-1, 1) * scale.
Floats numbers(size_t count, uint32_t seed, float scale) {
  Floats values(count);
  for (float &value : values) {
    seed = seed * 1664525 + 1013904223;
    value = (static_cast<float>(seed >> 8) * 0x1p-23f - 1) * scale;
  }
  return values;
}

struct Weights {
  Floats wq = numbers(kWidth * kWidth, 1, 0.3f), bq = numbers(kWidth, 2, 0.1f);
  Floats w1 = numbers(kWidth * kHidden, 3, 0.3f), b1 = numbers(kHidden, 4, 0.1f);
  Floats w2 = numbers(kHidden * kWidth, 5, 0.3f);
};

Result<BuiltGraph> build(const Weights &w) {
  GraphBuilder b;
  if (Status status = b.dim("batch", {.max = 64}); !status)
    return status.takeError();
  if (Status status = b.dim("seq", {.min = 1, .max = 512, .likely = {16, 128}}); !status)
    return status.takeError();
  // No result is looked at before the end: a value that could not be built carries its error along, and finish() has
  // it.
  GraphValue x = b.input("x", data::ElementType::F32, {"batch", "seq", kWidth});
  b.node("query");
  GraphValue q =
      b.add(b.matmul(x, b.weight<float>("wq", {kWidth, kWidth}, w.wq)), b.weight<float>("bq", {kWidth}, w.bq));
  b.node("mix");
  GraphValue scores = b.mul(b.matmul(q, b.transpose(x, {0, 2, 1})), 1 / std::sqrt(double(kWidth)));
  GraphValue mixed = b.matmul(b.softmax(scores), x);
  b.node("feed");
  GraphValue hidden = b.gelu(
      b.add(b.matmul(mixed, b.weight<float>("w1", {kWidth, kHidden}, w.w1)), b.weight<float>("b1", {kHidden}, w.b1)));
  GraphValue y = b.add(x, b.matmul(hidden, b.weight<float>("w2", {kHidden, kWidth}, w.w2)));
  return b.finish({{"y", y}});
}

/// The same for one sequence, with loops.
std::vector<double> reference(const Weights &w, const float *x, int64_t seq) {
  auto at = [](const Floats &matrix, int64_t row, int64_t column, int64_t columns) {
    return double(matrix[size_t(row * columns + column)]);
  };
  std::vector<double> y(size_t(seq * kWidth));
  for (int64_t i = 0; i < seq; ++i) {
    std::vector<double> q(kWidth), scores(static_cast<size_t>(seq)), mixed(kWidth), hidden(kHidden);
    for (int64_t n = 0; n < kWidth; ++n) {
      q[size_t(n)] = double(w.bq[size_t(n)]);
      for (int64_t k = 0; k < kWidth; ++k)
        q[size_t(n)] += double(x[i * kWidth + k]) * at(w.wq, k, n, kWidth);
    }
    double largest = -INFINITY, sum = 0;
    for (int64_t j = 0; j < seq; ++j) {
      for (int64_t k = 0; k < kWidth; ++k)
        scores[size_t(j)] += q[size_t(k)] * double(x[j * kWidth + k]) / std::sqrt(double(kWidth));
      largest = std::fmax(largest, scores[size_t(j)]);
    }
    for (double &score : scores)
      sum += score = std::exp(score - largest);
    for (int64_t j = 0; j < seq; ++j)
      for (int64_t k = 0; k < kWidth; ++k)
        mixed[size_t(k)] += scores[size_t(j)] / sum * double(x[j * kWidth + k]);
    for (int64_t n = 0; n < kHidden; ++n) {
      double value = double(w.b1[size_t(n)]);
      for (int64_t k = 0; k < kWidth; ++k)
        value += mixed[size_t(k)] * at(w.w1, k, n, kHidden);
      hidden[size_t(n)] = value / 2 * (1 + std::erf(value / std::sqrt(2.0)));
    }
    for (int64_t n = 0; n < kWidth; ++n) {
      double value = double(x[i * kWidth + n]);
      for (int64_t k = 0; k < kHidden; ++k)
        value += hidden[size_t(k)] * at(w.w2, k, n, kWidth);
      y[size_t(i * kWidth + n)] = value;
    }
  }
  return y;
}

int fail(const Error &error) {
  std::fprintf(stderr, "error: %s\n", error.message.c_str());
  return 1;
}

} // namespace

int main() {
  Weights weights;
  Result<BuiltGraph> graph = build(weights);
  if (!graph)
    return fail(graph.error());
  Result<compiler::LoadedModel> loaded = compiler::loadModule(*graph->module, graph->weights);
  if (!loaded)
    return fail(loaded.error());
  Result<std::shared_ptr<Engine>> engine = Engine::create();
  if (!engine)
    return fail(engine.error());
  Result<std::shared_ptr<Executable>> executable = Executable::create(*engine, loaded->model);
  if (!executable)
    return fail(executable.error());

  double worst = 0;
  const int64_t sizes[][2] = {{1, 16}, {1, 17}, {3, 5}, {2, 128}, {1, 16}, {0, 4}, {1, 1}};
  for (auto [batch, seq] : sizes) {
    const int64_t shape[] = {batch, seq, kWidth};
    Floats x = numbers(size_t(batch * seq * kWidth), uint32_t(7 + batch + seq), 1);
    RunReport report;
    RunOptions options;
    options.report = &report;
    NamedTensor inputs[] = {
        {"x", TensorView{data::ElementType::F32, shape, x.data(), x.size() * sizeof(float), false}}};
    Result<std::vector<Tensor>> outputs = (*executable)->run(inputs, options);
    if (!outputs)
      return fail(outputs.error());
    std::span<const float> y = (*outputs)[0].as<float>();
    for (int64_t i = 0; i < batch; ++i) {
      std::vector<double> expected = reference(weights, x.data() + i * seq * kWidth, seq);
      for (size_t j = 0; j < expected.size(); ++j)
        worst = std::fmax(worst, std::fabs(double(y[size_t(i * seq * kWidth) + j]) - expected[j]));
    }
    std::printf("batch %lld, seq %3lld: y %-10s y[0] = %9.6f  (%s)\n", static_cast<long long>(batch),
                static_cast<long long>(seq), shapeString((*outputs)[0].shape()).c_str(), y.empty() ? 0.0 : double(y[0]),
                originName(report.origin));
  }

  // What cannot be is an error that says so.
  const int64_t wrong[] = {1, 513, kWidth};
  Floats x(513 * kWidth);
  NamedTensor inputs[] = {{"x", TensorView{data::ElementType::F32, wrong, x.data(), x.size() * sizeof(float), false}}};
  Result<std::vector<Tensor>> refused = (*executable)->run(inputs);
  std::printf("seq 513: %s\n", refused ? "ran, and should not have" : refused.error().message.c_str());

  Statistics stats = (*executable)->stats();
  std::printf("%llu sizes held, %llu hits, %llu templates compiled, %llu kernels, %llu bytes of code\n",
              static_cast<unsigned long long>(stats.entries), static_cast<unsigned long long>(stats.hits),
              static_cast<unsigned long long>(stats.templatesMade),
              static_cast<unsigned long long>(stats.kernelsCompiled), static_cast<unsigned long long>(stats.codeBytes));
  std::printf("largest difference from plain loops: %.2g\n", worst);
  return worst < 1e-4 && !refused ? 0 : 1;
}
