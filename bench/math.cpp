//===- math.cpp - speed and error of the vector math ----------------------===//
//
// Speed: an elementwise kernel over an array that fits the first cache.
//
// Error: f32 kernels against the f64 kernel of the same function, whose own
// error is nothing beside; what looks worst is computed again by libm in long
// double, and so is a sample of everything, so that no mistake hides because
// both kernels make it. --exhaustive takes all 2^32 arguments, half a minute a
// function; else one in 4099. pow takes random pairs.
//
//===----------------------------------------------------------------------===//
#include "common/Bench.h"
#include "common/Kernel.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

using namespace rlx;
using namespace rlx::data;
using namespace rlx::bench;

namespace {

const std::vector<Opcode> kOpcodes = {Opcode::Exp,   Opcode::Log,        Opcode::Tanh, Opcode::Erf, Opcode::Sigmoid,
                                      Opcode::Gelu,  Opcode::GeluTanh,   Opcode::Sin,  Opcode::Cos, Opcode::Sqrt,
                                      Opcode::Rsqrt, Opcode::Reciprocal, Opcode::Pow};

std::string nameOf(Opcode op) {
  std::string name = EnumNameOpcode(op);
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  return name;
}

/// One function over contiguous elements.
class Function {
public:
  Function(Opcode op, ElementType type, const std::string &target, CodeMemory &memory)
      : operands(op == Opcode::Pow ? 2 : 1) {
    KernelSpecT spec;
    spec.family = Family::Loops;
    spec.rank = 1;
    auto access = [&] {
      auto made = std::make_unique<AccessSpecT>();
      made->type = type;
      return made;
    };
    for (int k = 0; k < operands; ++k)
      spec.inputs.push_back(access());
    spec.outputs.push_back(access());
    spec.program = {Instr(op, type, 0, operands == 2 ? 1 : 0, 0, 0)};
    spec.results = {static_cast<uint16_t>(operands)};
    spec.target = target;
    spec.revision = kEmitterRevision;
    Result<Kernel> made = makeKernel(spec, memory);
    if (!made) {
      problem = made.error().message;
      return;
    }
    kernel = *std::move(made);
  }

  /// y = f(x, x2), n elements.
  void run(const void *x, const void *x2, void *y, size_t n) const {
    const void *pointers[3] = {x, operands == 2 ? x2 : y, y};
    int64_t integers[4] = {static_cast<int64_t>(n), 1, 1, 1};
    kernel.handle.fn(const_cast<void *const *>(pointers), integers, 0, static_cast<int64_t>((n - 1) / kLoopsBlock + 1),
                     nullptr);
  }

  std::string problem; ///< why it cannot run
  Kernel kernel;

private:
  int operands;
};

long double exact(Opcode op, long double x, long double y) {
  switch (op) {
  case Opcode::Exp:
    return std::exp(x);
  case Opcode::Log:
    return std::log(x);
  case Opcode::Tanh:
    return std::tanh(x);
  case Opcode::Erf:
    return std::erf(x);
  case Opcode::Sigmoid:
    return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x));
  case Opcode::Gelu:
    return std::isinf(x) ? (x < 0 ? -0.0L : x) : x / 2 * std::erfc(-x / std::sqrt(2.0L));
  case Opcode::GeluTanh: {
    if (std::isinf(x))
      return x < 0 ? -0.0L : x;
    long double y2 = 2 * std::sqrt(2 / 3.14159265358979323846264338327950288L) * (x + 0.044715L * x * x * x);
    return y2 < 0 ? x * std::exp(y2) / (1 + std::exp(y2)) : x / (1 + std::exp(-y2));
  }
  case Opcode::Sin:
    return std::sin(x);
  case Opcode::Cos:
    return std::cos(x);
  case Opcode::Sqrt:
    return std::sqrt(x);
  case Opcode::Rsqrt:
    return 1 / std::sqrt(x);
  case Opcode::Reciprocal:
    return 1 / x;
  case Opcode::Pow:
    return std::pow(x, y);
  default:
    return 0;
  }
}

/// Distance in ulp of the f32 or f64 `got` from `want`; infinite where one is NaN, infinite or a zero of the other sign
/// and the other is not.
template <typename T> double ulps(T got, long double want) {
  T rounded = static_cast<T>(want);
  if (std::isnan(got) || std::isnan(want))
    return std::isnan(got) && std::isnan(want) ? 0 : INFINITY;
  if (got == 0 && rounded == 0)
    return std::signbit(got) == std::signbit(want)
               ? std::abs(static_cast<double>(want / static_cast<long double>(std::numeric_limits<T>::denorm_min())))
               : INFINITY;
  if (std::isinf(got) || std::isinf(rounded)) {
    if (got == rounded)
      return 0;
    // One ulp beyond the largest number is as far as rounding may go.
    T other = std::isinf(got) ? rounded : got;
    return std::abs(other) == std::numeric_limits<T>::max() && std::signbit(got) == std::signbit(rounded) ? 1
                                                                                                          : INFINITY;
  }
  int exponent;
  std::frexp(want, &exponent);
  using Limits = std::numeric_limits<T>;
  long double unit = std::ldexp(1.0L, std::max(exponent, Limits::min_exponent) - Limits::digits);
  return static_cast<double>(std::abs(static_cast<long double>(got) - want) / unit);
}

/// The largest distance in a block, by the f64 results; infinite or NaN where anything is to be looked at closely.
__attribute__((target("avx2,fma"))) double largest(const float *got, const double *want, size_t n) {
  double worst = 0;
  for (size_t i = 0; i < n; ++i) {
    double y = got[i], w = want[i];
    auto rounded = static_cast<float>(w);
    int64_t exponent = std::bit_cast<int64_t>(w) >> 52 & 0x7ff;
    exponent = exponent < 1023 - 126 ? 1023 - 126 : exponent;
    double inverse = std::bit_cast<double>((2046 + 23 - exponent) << 52); // 1 / unit
    double distance = std::abs(y - w) * inverse;
    bool same = std::bit_cast<int32_t>(rounded) == std::bit_cast<int32_t>(got[i]);
    bool infinite = std::abs(rounded) > std::numeric_limits<float>::max();
    bool zeros = got[i] == 0 && rounded == 0 && std::signbit(got[i]) != std::signbit(rounded);
    bool bothNaN = got[i] != got[i] && w != w;
    distance = (same && infinite) || bothNaN ? 0 : zeros ? 1e30 : distance;
    worst = distance <= worst ? worst : distance; // NaN counts as more
  }
  return worst;
}

struct Errors {
  double ulps = 0;     ///< of the f32 kernel
  float x = 0, y = 0;  ///< where
  double wideUlps = 0; ///< of the f64 kernel, over the sample that libm checked
};

/// A pass over many arguments, block by block.
class Measurement {
public:
  Measurement(Opcode op, const Function &narrow, const Function &wide) : op(op), narrow(narrow), wide(wide) {}

  void add(float x, float x2 = 0) {
    xs[count] = x;
    xs2[count] = x2;
    if (++count == kBlock)
      flush();
  }
  Errors finish() {
    flush();
    return errors;
  }

private:
  static constexpr size_t kBlock = 1 << 15, kSample = 509;

  void flush() {
    size_t n = std::exchange(count, 0);
    if (!n)
      return;
    narrow.run(xs.data(), xs2.data(), ys.data(), n);
    for (size_t i = 0; i < n; ++i) {
      wideXs[i] = xs[i];
      wideXs2[i] = xs2[i];
    }
    wide.run(wideXs.data(), wideXs2.data(), wideYs.data(), n);
    for (size_t i = first; i < n; i += kSample) {
      errors.wideUlps = std::max(errors.wideUlps, ulps<double>(wideYs[i], exact(op, xs[i], xs2[i])));
      look(i);
    }
    first = (first + 7) % kSample;
    if (largest(ys.data(), wideYs.data(), n) <= errors.ulps)
      return;
    for (size_t i = 0; i < n; ++i)
      if (!(largest(&ys[i], &wideYs[i], 1) <= errors.ulps))
        look(i);
  }

  void look(size_t i) {
    double distance = ulps<float>(ys[i], exact(op, xs[i], xs2[i]));
    if (!(distance <= errors.ulps))
      errors.ulps = distance, errors.x = xs[i], errors.y = xs2[i];
  }

  Opcode op;
  const Function &narrow, &wide;
  Errors errors;
  size_t count = 0, first = 0;
  std::vector<float> xs = std::vector<float>(kBlock), xs2 = xs, ys = xs;
  std::vector<double> wideXs = std::vector<double>(kBlock), wideXs2 = wideXs, wideYs = wideXs;
};

Errors errorsOf(Opcode op, const Function &narrow, const Function &wide, bool exhaustive, bool quick) {
  Measurement measurement(op, narrow, wide);
  if (op != Opcode::Pow) {
    uint64_t step = exhaustive ? 1 : quick ? 1000003 : 4099;
    for (uint64_t bits = 0; bits <= 0xffffffff; bits += step)
      measurement.add(std::bit_cast<float>(static_cast<uint32_t>(bits)));
    return measurement.finish();
  }
  // Results of every exponent, and bases near 1 under large powers; then anything.
  std::mt19937_64 random(5);
  for (int64_t i = 0, n = exhaustive ? int64_t(1) << 28 : quick ? 1 << 12 : 1 << 20; i < n; ++i) {
    uint64_t bits = random();
    auto x = std::bit_cast<float>(static_cast<uint32_t>(bits));
    if (i % 4 == 3) {
      measurement.add(x, std::bit_cast<float>(static_cast<uint32_t>(bits >> 32)));
      continue;
    }
    x = std::abs(x);
    if (i % 4 == 0)
      x = 1 + std::ldexp(static_cast<float>(bits & 0xffff) - 32768, -16 - static_cast<int>(bits >> 16 & 7));
    float power = static_cast<float>(bits >> 40) * 0x1p-23f - 1;
    measurement.add(x, power * 150 / std::log2(x));
  }
  return measurement.finish();
}

} // namespace

int main(int argc, char **argv) {
  Bench bench("math", "The vector math: nanoseconds an element, and the largest error found.");
  std::vector<std::string> functions;
  std::string target = hostTarget();
  bool exhaustive = false, speedOnly = false;
  bench.app.add_option("functions", functions, "Only these (exp, gelu, ...)");
  bench.app.add_option("--target", target, "Compile for it, such as x86_64:x86-64-v3:");
  bench.app.add_flag("--exhaustive", exhaustive, "Every f32 argument");
  bench.app.add_flag("--speed-only", speedOnly, "No errors");
  if (std::optional<int> code = bench.parse(argc, argv))
    return *code;
  bench.machine();

  CodeMemory memory;
  std::vector<std::unique_ptr<Function>> narrow, wide;
  std::vector<Opcode> chosen;
  for (Opcode op : kOpcodes) {
    if (!functions.empty() && std::find(functions.begin(), functions.end(), nameOf(op)) == functions.end())
      continue;
    chosen.push_back(op);
    narrow.push_back(std::make_unique<Function>(op, ElementType::F32, target, memory));
    wide.push_back(std::make_unique<Function>(op, ElementType::F64, target, memory));
    for (const auto *made : {&narrow.back(), &wide.back()})
      if (!(*made)->problem.empty())
        return bench.fail(nameOf(op) + ": " + (*made)->problem);
  }
  if (chosen.empty())
    return bench.fail("no function of these names");

  // As activations are: normal, of deviation 1.25. gelu takes longer where a vector has elements beyond 4.7.
  constexpr size_t kElements = 2048;
  std::vector<float> x(kElements), y(kElements);
  std::vector<double> wideX(kElements), wideY(kElements);
  std::mt19937_64 random(7);
  std::normal_distribution<float> activations(0, 1.25f);
  for (size_t i = 0; i < kElements; ++i)
    wideX[i] = x[i] = activations(random);
  Race race;
  for (size_t k = 0; k < chosen.size(); ++k) {
    race.add([&, k] { narrow[k]->run(x.data(), x.data(), y.data(), kElements); });
    race.add([&, k] { wide[k]->run(wideX.data(), wideX.data(), wideY.data(), kElements); });
  }
  race.run(bench.rounds);

  Sheet sheet({"function", "ns", "at peak", "f64 ns", "compile ms", "bytes", "max ulp", "at", "f64 max ulp"});
  for (size_t k = 0; k < chosen.size(); ++k) {
    auto nanoseconds = [&](size_t who) { return race.fastest(who) * 1e9 / kElements; };
    std::vector<Cell> row = {nameOf(chosen[k]), cell("{:.2f}", nanoseconds(2 * k)),
                             // Multiply-adds that the time would have been enough for.
                             cell("{:.1f}", race.fastest(2 * k) / kElements * race.peak() * 1e9 / 2),
                             cell("{:.2f}", nanoseconds(2 * k + 1)), cell("{:.1f}", narrow[k]->kernel.compileMs),
                             cell(static_cast<int64_t>(narrow[k]->kernel.codeBytes))};
    if (speedOnly) {
      row.insert(row.end(), {noCell(), noCell(), noCell()});
    } else {
      bench.progress("errors of " + nameOf(chosen[k]));
      Errors errors = errorsOf(chosen[k], *narrow[k], *wide[k], exhaustive, bench.quick);
      std::string at = fmt::format("{:a}", errors.x);
      if (chosen[k] == Opcode::Pow)
        at += fmt::format(", {:a}", errors.y);
      row.insert(row.end(), {cell("{:.3f}", errors.ulps), at, cell("{:.3f}", errors.wideUlps)});
    }
    sheet.add(std::move(row));
  }
  bench.print(exhaustive ? "math, every f32 argument" : "math, a sample of the f32 arguments", sheet);
  bench.note("at peak: multiply-adds an element that the FMA peak would have done in the time");
  return bench.finish();
}
