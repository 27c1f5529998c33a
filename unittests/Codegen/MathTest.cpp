//===- MathTest.cpp - the vector math against libm in higher precision ----===//
//
// One float in 1009 of all bit patterns on this machine's target, fewer on the
// others, and the worst that rlx-bench-math --exhaustive found among all of
// them; random doubles of every exponent for f64.
//
//===----------------------------------------------------------------------===//
#include "ExactMath.h"
#include "KernelRunner.h"

#include <cmath>
#include <functional>
#include <random>

using namespace rlx;
using namespace rlx::test;

namespace {

/// Largest distance in ulp of `got` from `want`, infinite where one is NaN or infinite and the other is not.
template <typename T, typename Wide> double ulps(T got, Wide want) {
  T rounded = static_cast<T>(want);
  if (std::isnan(got) || std::isnan(want))
    return std::isnan(got) && std::isnan(want) ? 0 : INFINITY;
  if (std::isinf(got) || std::isinf(rounded)) {
    if (got == rounded)
      return 0;
    // One ulp beyond the largest number is as far as rounding may go.
    T other = std::isinf(got) ? rounded : got;
    return std::abs(other) == std::numeric_limits<T>::max() && std::signbit(got) == std::signbit(rounded) ? 1
                                                                                                          : INFINITY;
  }
  if (want == 0 && got == 0)
    return std::signbit(got) == std::signbit(want) ? 0 : INFINITY;
  int exponent;
  std::frexp(want, &exponent);
  Wide unit = std::ldexp(Wide(1), std::max(exponent - std::numeric_limits<T>::digits,
                                           std::numeric_limits<T>::min_exponent - std::numeric_limits<T>::digits));
  return static_cast<double>(std::abs(static_cast<Wide>(got) - want) / unit);
}

struct Case {
  Opcode op;
  double f32, f64;          ///< largest errors in ulp, as docs/NumericContract.md has them
  std::vector<float> worst; ///< the worst arguments of all
};
const Case cases[] = {{Opcode::Exp, 1.2, 1.2, {0x1.4cba34p+2f}},       {Opcode::Log, 0.9, 1.0, {0x1.69e7b4p-1f}},
                      {Opcode::Tanh, 0.8, 1.5, {0x1.7da4d8p+1f}},      {Opcode::Erf, 1.2, 1.0, {0x1.71a112p+1f}},
                      {Opcode::Sigmoid, 1.1, 1.2, {-0x1.049b82p+4f}},  {Opcode::Sin, 0.51, 1.0, {0x1.7708fcp+8f}},
                      {Opcode::Cos, 0.51, 1.0, {0x1.aa891p+44f}},      {Opcode::Gelu, 2.0, 2.0, {-0x1.f3b372p+1f}},
                      {Opcode::GeluTanh, 2.0, 1.6, {-0x1.53092ep+2f}}, {Opcode::Rsqrt, 1.5, 1.5, {0x1.019566p-126f}}};

class MathTest : public testing::TestWithParam<Case> {};

TEST_P(MathTest, Float) {
  Opcode op = GetParam().op;
  for (const std::string &target : targets()) {
    uint64_t step = target == hostTarget() ? 1009 : 21100;
    data::KernelSpecT spec = elementwise({ElementType::F32}, {instr(op, ElementType::F32, 0)}, ElementType::F32);
    spec.target = target;
    Kernel kernel(spec);
    ASSERT_TRUE(kernel) << kernel.error;
    double worst = 0;
    float at = 0, gave = 0;
    std::vector<float> xs;
    auto flush = [&] {
      std::vector<float> ys = apply<float>(kernel, {xs.data()}, xs.size());
      for (size_t i = 0; i < xs.size(); ++i) {
        double error = ulps<float, double>(ys[i], exactMath<double>(op, xs[i]));
        if (!(error <= worst)) {
          worst = error;
          at = xs[i];
          gave = ys[i];
        }
      }
      xs.clear();
    };
    for (uint64_t bits = 0; bits <= 0xffffffff; bits += step) {
      xs.push_back(bitCast<float>(static_cast<uint32_t>(bits)));
      if (xs.size() == 1 << 20)
        flush();
    }
    for (float special : {0.0f, -0.0f, INFINITY, -INFINITY, NAN, 1.0f, -1.0f, 1e-45f, -1e-45f, 1.17549435e-38f,
                          3.4028235e38f, -3.4028235e38f, 88.72283f, 88.72284f, -87.33655f, -103.972f, -103.973f})
      xs.push_back(special);
    xs.insert(xs.end(), GetParam().worst.begin(), GetParam().worst.end());
    flush();
    printf("%-9s f32 %-18.18s %.3f ulp at %a (%a)\n", data::EnumNameOpcode(op), target.c_str(), worst, at, gave);
    EXPECT_LE(worst, GetParam().f32) << "at " << at << " gave " << gave << " for " << exactMath<double>(op, at);
  }
}

TEST_P(MathTest, Double) {
  Opcode op = GetParam().op;
  for (const std::string &target : targets()) {
    data::KernelSpecT spec = elementwise({ElementType::F64}, {instr(op, ElementType::F64, 0)}, ElementType::F64);
    spec.target = target;
    Kernel kernel(spec);
    ASSERT_TRUE(kernel) << kernel.error;
    std::mt19937_64 random(7);
    std::vector<double> xs = {0.0,
                              -0.0,
                              INFINITY,
                              -INFINITY,
                              NAN,
                              1,
                              -1,
                              5e-324,
                              -5e-324,
                              1e300,
                              -1e300,
                              709.782712893384,
                              709.7827128933841,
                              -745.1332191019411,
                              -745.1332191019412,
                              -708.5};
    for (int i = 0; i < 300000; ++i) {
      uint64_t bits = random();
      xs.push_back(bitCast<double>(bits));
      // Most functions live near zero.
      xs.push_back((static_cast<double>(bits >> 11) * 0x1p-53 - 0.5) *
                   std::ldexp(1.0, static_cast<int>(bits & 15) - 4));
    }
    std::vector<double> ys = apply<double>(kernel, {xs.data()}, xs.size());
    double worst = 0, at = 0, gave = 0;
    for (size_t i = 0; i < xs.size(); ++i) {
      double error = ulps<double, long double>(ys[i], exactMath<long double>(op, xs[i]));
      if (!(error <= worst)) {
        worst = error;
        at = xs[i];
        gave = ys[i];
      }
    }
    printf("%-9s f64 %-18.18s %.3f ulp at %a (%a), %.1f ms, %zu bytes\n", data::EnumNameOpcode(op), target.c_str(),
           worst, at, gave, kernel.milliseconds(), kernel.bytes);
    EXPECT_LE(worst, GetParam().f64) << "at " << at << " gave " << gave;
  }
}

/// The code for AVX-512 uses other instructions and more lanes, and gives the same bits.
template <typename T> void sameBits(Opcode op, ElementType type) {
  std::vector<std::vector<T>> results;
  for (const std::string &target : targets()) {
    data::KernelSpecT spec = elementwise({type}, {instr(op, type, 0)}, type);
    spec.target = target;
    Kernel kernel(spec);
    ASSERT_TRUE(kernel) << kernel.error;
    std::mt19937_64 random(3);
    std::vector<T> xs;
    for (int i = 0; i < 20001; ++i) {
      uint64_t bits = random();
      if (i % 2)
        xs.push_back(static_cast<T>(static_cast<double>(bits >> 11) * 0x1p-50 - 4));
      else if constexpr (sizeof(T) == 4)
        xs.push_back(bitCast<T>(static_cast<uint32_t>(bits)));
      else
        xs.push_back(bitCast<T>(bits));
    }
    results.push_back(apply<T>(kernel, {xs.data()}, xs.size()));
  }
  for (size_t i = 0; i < results[0].size(); ++i) {
    T x = results[0][i], y = results[1][i];
    ASSERT_TRUE((std::isnan(x) && std::isnan(y)) || memcmp(&x, &y, sizeof(T)) == 0) << i << ": " << x << " " << y;
  }
}

TEST_P(MathTest, SameBitsOnEveryTarget) {
  sameBits<float>(GetParam().op, ElementType::F32);
  sameBits<double>(GetParam().op, ElementType::F64);
}

/// One lane alone, as in an epilogue of a reduction, has the bits that it has among others.
TEST_P(MathTest, SameBitsInOneLane) {
  Opcode op = GetParam().op;
  std::vector<float> xs;
  for (int i = 0; i < 61; ++i)
    xs.push_back(static_cast<float>(i - 30) / 7);
  for (const std::string &target : targets()) {
    data::KernelSpecT many = elementwise({ElementType::F32}, {instr(op, ElementType::F32, 0)}, ElementType::F32);
    many.target = target;
    // A sum of one element each: the function is its epilogue, or goes before.
    data::KernelSpecT one;
    one.family = data::Family::Reduce;
    one.rank = 2;
    one.reduced = 1;
    one.reduce_inner = true;
    one.inputs.push_back(access(ElementType::F32));
    one.outputs.push_back(access(ElementType::F32));
    one.results = {0};
    one.epilogue = {instr(op, ElementType::F32, 0)};
    one.epilogue_result = 2;
    one.target = target;
    Kernel manyKernel(many), oneKernel(one);
    ASSERT_TRUE(manyKernel && oneKernel) << manyKernel.error << oneKernel.error;
    std::vector<float> want = apply<float>(manyKernel, {xs.data()}, xs.size()), got(xs.size());
    auto n = static_cast<int64_t>(xs.size());
    oneKernel.run({xs.data(), got.data()}, {n, 1, 1, 1, 1}, 0, n);
    for (size_t i = 0; i < xs.size(); ++i)
      ASSERT_TRUE((std::isnan(want[i]) && std::isnan(got[i])) || (want[i] == 0 && got[i] == 0) /* 0 + -0 */ ||
                  memcmp(&want[i], &got[i], 4) == 0)
          << xs[i] << ": " << got[i] << " instead of " << want[i];
  }
}

/// Sixteen lanes, as matmuls have in their epilogues on every target: out[n] = f(1 b[n]).
TEST_P(MathTest, SameBitsInAnEpilogue) {
  Opcode op = GetParam().op;
  std::vector<float> xs, one = {1};
  for (int i = 0; i < 61; ++i)
    xs.push_back(static_cast<float>(i - 30) / 7);
  auto n = static_cast<int64_t>(xs.size());
  for (const std::string &target : targets()) {
    data::KernelSpecT alone = elementwise({ElementType::F32}, {instr(op, ElementType::F32, 0)}, ElementType::F32);
    alone.target = target;
    data::KernelSpecT matmul;
    matmul.family = data::Family::Matmul;
    matmul.rank = 2;
    matmul.a_type = matmul.b_type = ElementType::F32;
    matmul.b_layout = data::PackedLayout::Strided;
    matmul.row_class = kMatmulFewRows;
    matmul.outputs.push_back(access(ElementType::F32));
    matmul.program = {instr(op, ElementType::F32, 0)};
    matmul.results = {1};
    matmul.target = target;
    Kernel aloneKernel(alone), matmulKernel(matmul);
    ASSERT_TRUE(aloneKernel && matmulKernel) << aloneKernel.error << matmulKernel.error;
    std::vector<float> want = apply<float>(aloneKernel, {xs.data()}, xs.size()), got(xs.size());
    alignas(64) char scratch[matmulScratchBytes(1, 4)];
    matmulKernel.run({one.data(), xs.data(), got.data(), scratch}, {1, n, 1, 1, 1, n, 1, n, 1}, 0,
                     (n + kPanel - 1) / kPanel);
    for (size_t i = 0; i < xs.size(); ++i)
      ASSERT_TRUE((std::isnan(want[i]) && std::isnan(got[i])) || (want[i] == 0 && got[i] == 0) /* 0 + -0 */ ||
                  memcmp(&want[i], &got[i], 4) == 0)
          << xs[i] << ": " << got[i] << " instead of " << want[i];
  }
}

/// pow, rem and mod take two operands: random pairs, whose quotients and powers reach every exponent.
template <typename T, typename Wide> void twoOperands(Opcode op, ElementType type, double limit) {
  for (const std::string &target : targets()) {
    data::KernelSpecT spec = elementwise({type, type}, {instr(op, type, 0, 1)}, type);
    spec.target = target;
    Kernel kernel(spec);
    ASSERT_TRUE(kernel) << kernel.error;
    std::mt19937_64 random(11);
    std::vector<T> xs, ys;
    T specials[] = {0,
                    1,
                    2,
                    3,
                    T(0.5),
                    T(2.5),
                    std::numeric_limits<T>::denorm_min(),
                    std::numeric_limits<T>::min(),
                    std::numeric_limits<T>::max(),
                    std::numeric_limits<T>::infinity(),
                    std::numeric_limits<T>::quiet_NaN(),
                    T(1e15),
                    T(1e15) + 1};
    for (T x : specials)
      for (T y : specials)
        for (int signs = 0; signs < 4; ++signs) {
          xs.push_back(signs & 1 ? -x : x);
          ys.push_back(signs & 2 ? -y : y);
        }
    int range = std::numeric_limits<T>::max_exponent;
    auto anyOf = [&](int exponents) {
      T m = static_cast<T>(1 + std::ldexp(static_cast<double>(random() >> 12), -52));
      return std::ldexp(m, static_cast<int>(random() % static_cast<uint64_t>(2 * exponents)) - exponents);
    };
    for (int i = 0; i < 100000; ++i) {
      T x, y;
      if (op == Opcode::Pow) {
        // Results between the smallest and the largest; and bases near 1 under large powers.
        x = i % 3 ? anyOf(range - 2) : 1 + std::ldexp(anyOf(1), -static_cast<int>(random() % 20));
        long double power = (static_cast<long double>(random() >> 11) * 0x1p-53L * 2 - 1) * range * 0.69314718L /
                            std::log(static_cast<long double>(x));
        y = static_cast<T>(power);
        if (!std::isfinite(y))
          continue;
      } else {
        x = anyOf(range - 2) * (i & 1 ? 1 : -1);
        y = (i % 3 ? anyOf(range - 2) : x * anyOf(4)) * (i & 2 ? 1 : -1);
      }
      xs.push_back(x);
      ys.push_back(y);
    }
    std::vector<T> out = apply<T>(kernel, {xs.data(), ys.data()}, xs.size());
    double worst = 0;
    size_t at = 0;
    for (size_t i = 0; i < xs.size(); ++i) {
      Wide x = xs[i], y = ys[i], want = op == Opcode::Pow ? std::pow(x, y) : std::fmod(x, y);
      if (op == Opcode::Mod)
        want = want == 0 ? std::copysign(Wide(0), y) : (want < 0) != (y < 0) ? want + y : want;
      double error = ulps<T, Wide>(out[i], want);
      if (!(error <= worst)) {
        worst = error;
        at = i;
      }
    }
    printf("%-9s %s %-18.18s %.3f ulp at (%a, %a) gave %a, %.1f ms, %zu bytes\n", data::EnumNameOpcode(op),
           elementTypeName(type), target.c_str(), worst, static_cast<double>(xs[at]), static_cast<double>(ys[at]),
           static_cast<double>(out[at]), kernel.milliseconds(), kernel.bytes);
    EXPECT_LE(worst, limit);
  }
}

TEST(MathTest, Pow) {
  twoOperands<float, double>(Opcode::Pow, ElementType::F32, 0.51);
  twoOperands<double, long double>(Opcode::Pow, ElementType::F64, 1.5);
}
TEST(MathTest, Rem) {
  twoOperands<float, double>(Opcode::Rem, ElementType::F32, 0);
  twoOperands<double, long double>(Opcode::Rem, ElementType::F64, 0);
}
TEST(MathTest, Mod) {
  // One rounding, when the remainder moves by the divisor.
  twoOperands<float, double>(Opcode::Mod, ElementType::F32, 0.501);
  twoOperands<double, long double>(Opcode::Mod, ElementType::F64, 0.501);
}

INSTANTIATE_TEST_SUITE_P(All, MathTest, testing::ValuesIn(cases),
                         [](const auto &info) { return data::EnumNameOpcode(info.param.op); });

} // namespace
