//===- ElementTest.cpp - every opcode on every type -----------------------===//
//
// Against arithmetic in plain C++ on single values, over all pairs of values
// that matter (zeros, ones, extremes, subnormals, infinities, NaN).
//
//===----------------------------------------------------------------------===//
#include "ExactMath.h"
#include "KernelRunner.h"

#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <random>

using namespace rlx;
using namespace rlx::test;

namespace {

constexpr ElementType kTypes[] = {ElementType::I1,  ElementType::I8,  ElementType::I16,  ElementType::I32,
                                  ElementType::I64, ElementType::U8,  ElementType::U16,  ElementType::U32,
                                  ElementType::U64, ElementType::F16, ElementType::BF16, ElementType::F32,
                                  ElementType::F64};

/// Rounds to a binary format with `digits` bits of significand, half to even, by scaling: independent of any cast.
double roundTo(double x, int digits, int minExponent, double largest) {
  if (x == 0 || std::isnan(x) || std::isinf(x))
    return x;
  int exponent;
  std::frexp(x, &exponent);
  int unit = std::max(exponent - digits, minExponent - digits + 1);
  double rounded = std::ldexp(std::nearbyint(std::ldexp(x, -unit)), unit);
  return std::abs(rounded) > largest ? std::copysign(INFINITY, x) : std::copysign(rounded, x);
}

double roundToType(double x, ElementType type) {
  switch (type) {
  case ElementType::F16:
    return roundTo(x, 11, -14, 65504);
  case ElementType::BF16:
    return roundTo(x, 8, -126, 0x1.fep127);
  case ElementType::F32:
    return static_cast<float>(x);
  default:
    return x;
  }
}

double toDouble(ElementType type, uint64_t bits) {
  switch (type) {
  case ElementType::F16: {
    int exponent = static_cast<int>(bits >> 10 & 31);
    double fraction = static_cast<double>(bits & 1023);
    double value = exponent == 31 ? (fraction != 0 ? NAN : INFINITY)
                   : exponent     ? std::ldexp(1024 + fraction, exponent - 25)
                                  : std::ldexp(fraction, -24);
    return bits & 0x8000 ? -value : value;
  }
  case ElementType::BF16:
    return bitCast<float>(static_cast<uint32_t>(bits << 16));
  case ElementType::F32:
    return bitCast<float>(static_cast<uint32_t>(bits));
  default:
    return bitCast<double>(bits);
  }
}

/// Bits of a double that the type holds exactly.
uint64_t fromDouble(ElementType type, double x) {
  switch (type) {
  case ElementType::F16: {
    uint64_t sign = std::signbit(x) ? 0x8000 : 0;
    if (std::isnan(x))
      return 0x7e00;
    if (std::isinf(x))
      return sign | 0x7c00;
    int exponent;
    double fraction = std::frexp(std::abs(x), &exponent);
    if (x == 0)
      return sign;
    if (exponent < -13)
      return sign | static_cast<uint64_t>(std::ldexp(std::abs(x), 24));
    return sign | static_cast<uint64_t>((exponent + 14) << 10) | (static_cast<uint64_t>(fraction * 2048) & 1023);
  }
  case ElementType::BF16:
    return bitCast<uint32_t>(static_cast<float>(x)) >> 16;
  case ElementType::F32:
    return bitCast<uint32_t>(static_cast<float>(x));
  default:
    return bitCast<uint64_t>(x);
  }
}

unsigned widthOf(ElementType type) {
  return type == ElementType::I1 ? 1 : static_cast<unsigned>(elementBytes(type) * 8);
}

/// Integers are carried as 128 bits wide, which holds i64 and u64.
using Wide = __int128;

Wide toWide(ElementType type, uint64_t bits) {
  unsigned width = widthOf(type);
  if (width < 64)
    bits &= (uint64_t(1) << width) - 1;
  if (isUnsignedType(type) || type == ElementType::I1)
    return static_cast<Wide>(bits);
  uint64_t sign = uint64_t(1) << (width - 1);
  return static_cast<Wide>(bits ^ sign) - static_cast<Wide>(sign);
}

uint64_t fromWide(ElementType type, Wide value) {
  unsigned width = widthOf(type);
  uint64_t bits = static_cast<uint64_t>(value);
  return width == 64 ? bits : bits & ((uint64_t(1) << width) - 1);
}

Wide lowest(ElementType type) {
  return isUnsignedType(type) || type == ElementType::I1 ? 0 : -(Wide(1) << (widthOf(type) - 1));
}
Wide highest(ElementType type) {
  return isUnsignedType(type) || type == ElementType::I1 ? (Wide(1) << widthOf(type)) - 1
                                                         : (Wide(1) << (widthOf(type) - 1)) - 1;
}

/// Elements as the kernel has them in memory.
struct Array {
  ElementType type;
  std::vector<uint8_t> bytes;
  Array(ElementType type, const std::vector<uint64_t> &values) : type(type) {
    size_t size = static_cast<size_t>(elementBytes(type));
    bytes.resize(values.size() * size);
    for (size_t i = 0; i < values.size(); ++i)
      memcpy(bytes.data() + i * size, &values[i], size);
  }
  uint64_t operator[](size_t i) const {
    uint64_t bits = 0;
    size_t size = static_cast<size_t>(elementBytes(type));
    memcpy(&bits, bytes.data() + i * size, size);
    return bits;
  }
};

/// Values that matter for a type, as bits.
std::vector<uint64_t> interesting(ElementType type) {
  std::vector<uint64_t> out;
  if (isFloatType(type)) {
    double tiny = type == ElementType::F16    ? std::ldexp(1, -24)
                  : type == ElementType::BF16 ? std::ldexp(1, -133)
                  : type == ElementType::F32  ? std::ldexp(1, -149)
                                              : 5e-324;
    double normal = type == ElementType::F16   ? std::ldexp(1, -14)
                    : type == ElementType::F64 ? std::ldexp(1, -1022)
                                               : std::ldexp(1, -126);
    double largest = type == ElementType::F16    ? 65504
                     : type == ElementType::BF16 ? 0x1.fep127
                     : type == ElementType::F32  ? std::numeric_limits<float>::max()
                                                 : std::numeric_limits<double>::max();
    for (double x : {0.0, 1.0, 2.0, 3.0, 0.5, 1.5, 2.5, 0.1, 7.0, 100.0, 1e-3, 255.0, 1234.5, tiny, 3 * tiny, normal,
                     largest, static_cast<double>(INFINITY)})
      for (double sign : {1.0, -1.0})
        out.push_back(fromDouble(type, roundToType(sign * x, type)));
    out.push_back(fromDouble(type, NAN));
    return out;
  }
  for (Wide x : {Wide(0), Wide(1), Wide(2), Wide(3), Wide(7), Wide(8), Wide(31), Wide(63), Wide(100), Wide(-1),
                 Wide(-2), Wide(-3), Wide(-7), lowest(type), lowest(type) + 1, highest(type), highest(type) - 1,
                 highest(type) / 2, highest(type) / 3})
    out.push_back(fromWide(type, x));
  return out;
}

/// Reference for integers; nothing where the operation raises an error.
std::optional<Wide> integerReference(Opcode op, ElementType type, Wide x, Wide y) {
  unsigned width = widthOf(type);
  auto shiftBy = [&]() -> int { return y < 0 || y >= static_cast<Wide>(width) ? -1 : static_cast<int>(y); };
  switch (op) {
  case Opcode::Add:
    return x + y;
  case Opcode::Sub:
    return x - y;
  case Opcode::Mul:
    return static_cast<Wide>(static_cast<unsigned __int128>(x) * static_cast<unsigned __int128>(y));
  case Opcode::Div:
    return y == 0 ? std::nullopt : std::optional(x / y);
  case Opcode::Rem:
    return y == 0 ? std::nullopt : std::optional(x % y);
  case Opcode::Mod: {
    if (y == 0)
      return std::nullopt;
    Wide r = x % y;
    return r != 0 && (r < 0) != (y < 0) ? r + y : r;
  }
  case Opcode::Pow: {
    if (y < 0)
      return x == 1 ? 1 : x == -1 ? (y % 2 ? -1 : 1) : 0;
    // By squaring in wrapping 64 bits, of which any narrower type is the low part.
    uint64_t result = 1, base = static_cast<uint64_t>(x);
    for (Wide n = y; n; n >>= 1, base *= base)
      if (n & 1)
        result *= base;
    return static_cast<Wide>(result);
  }
  case Opcode::Max:
    return std::max(x, y);
  case Opcode::Min:
    return std::min(x, y);
  case Opcode::And:
    return x & y;
  case Opcode::Or:
    return x | y;
  case Opcode::Xor:
    return x ^ y;
  case Opcode::ShiftLeft:
    return shiftBy() < 0 ? 0 : x << shiftBy();
  case Opcode::ShiftRight:
    return shiftBy() < 0 ? (x < 0 ? -1 : 0) : x >> shiftBy();
  case Opcode::Neg:
    return -x;
  case Opcode::Abs:
    return x < 0 ? -x : x;
  case Opcode::Sign:
    return (x > 0) - (x < 0);
  case Opcode::Not:
    return ~x;
  default:
    return std::nullopt;
  }
}

double floatReference(Opcode op, double x, double y) {
  switch (op) {
  case Opcode::Add:
    return x + y;
  case Opcode::Sub:
    return x - y;
  case Opcode::Mul:
    return x * y;
  case Opcode::Div:
    return x / y;
  case Opcode::Rem:
    return std::fmod(x, y);
  case Opcode::Mod: {
    double r = std::fmod(x, y);
    return r == 0 ? std::copysign(0.0, y) : (r < 0) != (y < 0) ? r + y : r;
  }
  case Opcode::Pow:
    return std::pow(x, y);
  case Opcode::Max:
    return std::isnan(x) || std::isnan(y) ? NAN : x == y ? (std::signbit(x) ? y : x) : std::max(x, y);
  case Opcode::Min:
    return std::isnan(x) || std::isnan(y) ? NAN : x == y ? (std::signbit(x) ? x : y) : std::min(x, y);
  case Opcode::Neg:
    return -x;
  case Opcode::Abs:
    return std::abs(x);
  case Opcode::Sign:
    return std::isnan(x) ? x : (x > 0) - (x < 0);
  case Opcode::Sqrt:
    return std::sqrt(x);
  case Opcode::Reciprocal:
    return 1 / x;
  case Opcode::Floor:
    return std::floor(x);
  case Opcode::Ceil:
    return std::ceil(x);
  case Opcode::Round:
    return std::nearbyint(x);
  default:
    return exactMath<double>(op, x);
  }
}

/// Ulps of the type that the result may be off: 0 for what is rounded correctly.
double allowance(Opcode op, ElementType type) {
  bool narrow = type == ElementType::F16 || type == ElementType::BF16;
  switch (op) {
  case Opcode::Gelu:
  case Opcode::GeluTanh:
    return narrow ? 1 : 5;
  case Opcode::Exp:
  case Opcode::Log:
  case Opcode::Tanh:
  case Opcode::Erf:
  case Opcode::Sigmoid:
  case Opcode::Sin:
  case Opcode::Cos:
  case Opcode::Rsqrt:
  case Opcode::Pow:
    return narrow ? 1 : 2.5;
  default:
    return 0;
  }
}

/// Distance in units of the type at `want`.
double distance(ElementType type, double got, double want) {
  if (std::isnan(got) || std::isnan(want))
    return std::isnan(got) && std::isnan(want) ? 0 : INFINITY;
  if (got == want)
    return std::signbit(got) == std::signbit(want) ? 0 : INFINITY;
  if (std::isinf(got) || std::isinf(want))
    return INFINITY;
  int digits = type == ElementType::F16 ? 11 : type == ElementType::BF16 ? 8 : type == ElementType::F32 ? 24 : 53;
  int minimum = type == ElementType::F16 ? -14 : type == ElementType::F64 ? -1022 : -126;
  int exponent;
  std::frexp(want, &exponent);
  return std::abs(got - want) / std::ldexp(1.0, std::max(exponent - digits, minimum - digits + 1));
}

bool takesFloats(Opcode op) { return op < Opcode::And || op > Opcode::ShiftRight; }
bool floatsOnly(Opcode op) {
  return (op >= Opcode::Exp && op <= Opcode::GeluTanh) || op == Opcode::IsNaN || op == Opcode::IsInf;
}

bool exists(Opcode op, ElementType type) {
  if (type == ElementType::I1)
    return op == Opcode::And || op == Opcode::Or || op == Opcode::Xor || op == Opcode::Not || op == Opcode::Max ||
           op == Opcode::Min;
  if (isFloatType(type))
    return takesFloats(op) && op != Opcode::Not;
  return !floatsOnly(op);
}

class ElementTest : public testing::TestWithParam<std::tuple<Opcode, std::string>> {};

TEST_P(ElementTest, EveryType) {
  auto [op, target] = GetParam();
  bool binary = op < Opcode::Equal;
  for (ElementType type : kTypes) {
    data::KernelSpecT spec = elementwise({type, type}, {instr(op, type, 0, 1)}, type);
    spec.target = target;
    Kernel kernel(spec);
    SCOPED_TRACE(elementTypeName(type));
    if (!exists(op, type)) {
      EXPECT_FALSE(kernel);
      EXPECT_NE(kernel.error.find("does not take"), std::string::npos) << kernel.error;
      continue;
    }
    ASSERT_TRUE(kernel) << kernel.error;
    std::vector<uint64_t> values = interesting(type), xs, ys;
    for (uint64_t x : values)
      for (uint64_t y : binary ? values : std::vector<uint64_t>{0}) {
        bool fails = !isFloatType(type) && type != ElementType::I1 &&
                     !integerReference(op, type, toWide(type, x), toWide(type, y));
        if (!fails) {
          xs.push_back(x);
          ys.push_back(y);
        }
      }
    Array x(type, xs), y(type, ys), out(type, std::vector<uint64_t>(xs.size()));
    ErrorWord error = kernel.run({x.bytes.data(), y.bytes.data(), out.bytes.data()},
                                 {static_cast<int64_t>(xs.size()), 1, 1, 1}, 0, 1);
    EXPECT_EQ(error.kind, ErrorKind::None);
    for (size_t i = 0; i < xs.size(); ++i) {
      if (isFloatType(type)) {
        double a = toDouble(type, xs[i]), b = toDouble(type, ys[i]);
        double want = roundToType(floatReference(op, a, b), type);
        double got = toDouble(type, out[i]);
        EXPECT_LE(distance(type, got, want), allowance(op, type))
            << data::EnumNameOpcode(op) << "(" << a << ", " << b << ") gave " << got << " for " << want;
      } else {
        Wide a = toWide(type, xs[i]), b = toWide(type, ys[i]);
        uint64_t want = fromWide(type, *integerReference(op, type, a, b));
        EXPECT_EQ(out[i], want) << data::EnumNameOpcode(op) << "(" << static_cast<int64_t>(a) << ", "
                                << static_cast<int64_t>(b) << ")";
      }
    }
  }
}

std::vector<Opcode> arithmetic() {
  std::vector<Opcode> out;
  for (Opcode op : data::EnumValuesOpcode())
    if ((op >= Opcode::Add && op <= Opcode::ShiftRight) || (op >= Opcode::Neg && op <= Opcode::GeluTanh))
      out.push_back(op);
  return out;
}

INSTANTIATE_TEST_SUITE_P(All, ElementTest,
                         testing::Combine(testing::ValuesIn(arithmetic()), testing::ValuesIn(targets())),
                         [](const auto &info) {
                           return std::string(data::EnumNameOpcode(std::get<0>(info.param))) +
                                  (std::get<1>(info.param) == hostTarget() ? "Host" : "V3");
                         });

/// The bits of a result do not depend on the vectors that a machine has.
TEST(ElementTest, SameBitsOnEveryTarget) {
  std::mt19937_64 random(1);
  for (ElementType type : {ElementType::F16, ElementType::BF16, ElementType::F32, ElementType::F64}) {
    std::vector<uint64_t> xs, ys;
    for (int i = 0; i < 3000; ++i) {
      double x = std::ldexp(static_cast<double>(random() >> 11) * 0x1p-53 - 0.5, static_cast<int>(random() % 24) - 8);
      double y = std::ldexp(static_cast<double>(random() >> 11) * 0x1p-53 - 0.5, static_cast<int>(random() % 24) - 8);
      xs.push_back(fromDouble(type, roundToType(x, type)));
      ys.push_back(fromDouble(type, roundToType(y, type)));
    }
    Array x(type, xs), y(type, ys);
    for (Opcode op : arithmetic()) {
      if (!exists(op, type))
        continue;
      std::vector<Array> results;
      for (const std::string &target : targets()) {
        data::KernelSpecT spec = elementwise({type, type}, {instr(op, type, 0, 1)}, type);
        spec.target = target;
        Kernel kernel(spec);
        ASSERT_TRUE(kernel) << kernel.error;
        results.emplace_back(type, std::vector<uint64_t>(xs.size()));
        kernel.run({x.bytes.data(), y.bytes.data(), results.back().bytes.data()},
                   {static_cast<int64_t>(xs.size()), 1, 1, 1}, 0, 1);
      }
      for (size_t i = 0; i < xs.size(); ++i)
        if (!std::isnan(toDouble(type, results[0][i])) || !std::isnan(toDouble(type, results[1][i])))
          ASSERT_EQ(results[0][i], results[1][i]) << elementTypeName(type) << " " << data::EnumNameOpcode(op);
    }
  }
}

TEST(ElementTest, CompareSelectAndTests) {
  for (ElementType type : kTypes) {
    SCOPED_TRACE(elementTypeName(type));
    bool isFloat = isFloatType(type);
    std::vector<Instr> program;
    for (Opcode op :
         {Opcode::Equal, Opcode::NotEqual, Opcode::Less, Opcode::LessEqual, Opcode::Greater, Opcode::GreaterEqual})
      program.push_back(instr(op, ElementType::I1, 0, 1));
    program.push_back(isFloat ? instr(Opcode::IsNaN, ElementType::I1, 0) : instr(Opcode::Equal, ElementType::I1, 0, 0));
    program.push_back(isFloat ? instr(Opcode::IsInf, ElementType::I1, 0)
                              : instr(Opcode::NotEqual, ElementType::I1, 0, 0));
    program.push_back(instr(Opcode::Select, type, 2 + 2, 0, 1)); // less ? x : y
    data::KernelSpecT spec = elementwise({type, type}, program, ElementType::I1);
    spec.outputs.clear();
    spec.results.clear();
    for (uint16_t k = 0; k < 9; ++k) {
      spec.outputs.push_back(access(k < 8 ? ElementType::I1 : type));
      spec.results.push_back(static_cast<uint16_t>(2 + k));
    }
    Kernel kernel(spec);
    ASSERT_TRUE(kernel) << kernel.error;
    std::vector<uint64_t> values = interesting(type), xs, ys;
    for (uint64_t x : values)
      for (uint64_t y : values) {
        xs.push_back(x);
        ys.push_back(y);
      }
    size_t n = xs.size();
    Array x(type, xs), y(type, ys), picked(type, std::vector<uint64_t>(n));
    std::vector<std::vector<uint8_t>> out(8, std::vector<uint8_t>(n, 0xcc));
    std::vector<const void *> pointers = {x.bytes.data(), y.bytes.data()};
    for (auto &bytes : out)
      pointers.push_back(bytes.data());
    pointers.push_back(picked.bytes.data());
    std::vector<int64_t> integers(12, 1);
    integers[0] = static_cast<int64_t>(n);
    kernel.run(pointers, integers, 0, 1);
    for (size_t i = 0; i < n; ++i) {
      auto check = [&](auto a, auto b) {
        EXPECT_EQ(out[0][i], a == b);
        EXPECT_EQ(out[1][i], a != b);
        EXPECT_EQ(out[2][i], a < b);
        EXPECT_EQ(out[3][i], a <= b);
        EXPECT_EQ(out[4][i], a > b);
        EXPECT_EQ(out[5][i], a >= b);
        EXPECT_EQ(picked[i], a < b ? xs[i] : ys[i]); // to the bit, NaN too
      };
      if (isFloat) {
        double a = toDouble(type, xs[i]);
        check(a, toDouble(type, ys[i]));
        EXPECT_EQ(out[6][i], std::isnan(a));
        EXPECT_EQ(out[7][i], std::isinf(a));
      } else {
        check(toWide(type, xs[i]), toWide(type, ys[i]));
      }
    }
  }
}

/// What converting gives, from a value of `from`.
uint64_t convertReference(ElementType from, ElementType to, uint64_t bits) {
  if (to == from)
    return bits;
  if (isFloatType(from)) {
    double x = toDouble(from, bits);
    if (isFloatType(to))
      return fromDouble(to, roundToType(x, to));
    if (to == ElementType::I1)
      return x != 0;
    if (std::isnan(x))
      return 0;
    // Exact in long double.
    long double cut = std::trunc(static_cast<long double>(x));
    if (cut >= static_cast<long double>(highest(to)))
      return fromWide(to, highest(to));
    if (cut <= static_cast<long double>(lowest(to)))
      return fromWide(to, lowest(to));
    return fromWide(to, static_cast<Wide>(cut));
  }
  Wide x = toWide(from, bits);
  if (to == ElementType::I1)
    return x != 0;
  if (!isFloatType(to))
    return fromWide(to, x);
  // By hand, rounding once from all 64 bits: scale down with a sticky bit, then half to even.
  int digits = to == ElementType::F16 ? 11 : to == ElementType::BF16 ? 8 : to == ElementType::F32 ? 24 : 53;
  bool negative = x < 0;
  unsigned __int128 size = static_cast<unsigned __int128>(negative ? -x : x);
  int shift = 0;
  while ((size >> shift) >> digits)
    ++shift;
  unsigned __int128 kept = size >> shift, rest = size - (kept << shift),
                    half = shift ? static_cast<unsigned __int128>(1) << (shift - 1) : 0;
  if (shift && (rest > half || (rest == half && (kept & 1))))
    ++kept;
  double value = std::ldexp(static_cast<double>(static_cast<uint64_t>(kept)), shift);
  return fromDouble(to, roundToType(negative ? -value : value, to));
}

class ConvertTest : public testing::TestWithParam<std::string> {};

TEST_P(ConvertTest, EveryPair) {
  for (ElementType from : kTypes) {
    // All targets in one kernel: an output each.
    std::vector<Instr> program;
    for (ElementType to : kTypes)
      program.push_back(instr(Opcode::Convert, to, 0));
    data::KernelSpecT spec = elementwise({from}, program, ElementType::F32);
    spec.target = GetParam();
    spec.outputs.clear();
    spec.results.clear();
    for (size_t k = 0; k < std::size(kTypes); ++k) {
      spec.outputs.push_back(access(kTypes[k]));
      spec.results.push_back(static_cast<uint16_t>(1 + k));
    }
    Kernel kernel(spec);
    ASSERT_TRUE(kernel) << kernel.error;
    std::vector<uint64_t> values = interesting(from);
    if (isFloatType(from)) {
      for (double x : {3e9,
                       -3e9,
                       -1.9,
                       1.9,
                       127.5,
                       128.0,
                       300.0,
                       -129.0,
                       32767.0,
                       32768.0,
                       65519.0,
                       65520.0,
                       2049.0,
                       2051.0,
                       2.9e-8,
                       3e-8,
                       4294967295.0,
                       4294967296.0,
                       9.2233720368547748e18,
                       9.2233720368547758e18,
                       -9.2233720368547758e18,
                       1.8446744073709550e19,
                       1.8446744073709552e19,
                       3.14,
                       0.26914088,
                       1.01171875,
                       0x1.0020001p0,
                       0x1.002000001p0,
                       0x1.0080008p0,
                       0x1.008000000001p0,
                       0x1.ff7fffffffp127,
                       0x1.fep127,
                       0x1.ffp127,
                       6e-8,
                       5.9604645e-8,
                       0x1.0000010000001p0,
                       1e-310,
                       0x1p-25,
                       0x1.0000001p-25})
        values.push_back(fromDouble(from, roundToType(x, from)));
    } else {
      for (Wide x : {Wide(300), Wide(2049), Wide(2051), Wide(65519), Wide(65520), Wide(16777217), Wide(16777219),
                     (Wide(1) << 53) + 1, (Wide(1) << 40) + (Wide(1) << 32) + 1, (Wide(1) << 62) + (Wide(1) << 54) + 1,
                     (Wide(1) << 62) + (Wide(1) << 38) + 1, (Wide(1) << 62) + (Wide(1) << 54), (Wide(0x101) << 22) + 1,
                     (Wide(0x1ff) << 55) + 3})
        for (Wide sign : {1, -1})
          values.push_back(fromWide(from, sign * x));
    }
    size_t n = values.size();
    Array x(from, values);
    std::vector<Array> out;
    for (ElementType to : kTypes)
      out.emplace_back(to, std::vector<uint64_t>(n));
    std::vector<const void *> pointers = {x.bytes.data()};
    for (Array &array : out)
      pointers.push_back(array.bytes.data());
    std::vector<int64_t> integers(2 + out.size(), 1);
    integers[0] = static_cast<int64_t>(n);
    kernel.run(pointers, integers, 0, 1);
    for (Array &array : out)
      for (size_t i = 0; i < n; ++i) {
        uint64_t want = convertReference(from, array.type, x[i]);
        if (isFloatType(array.type) && std::isnan(toDouble(array.type, want)))
          EXPECT_TRUE(std::isnan(toDouble(array.type, array[i])))
              << elementTypeName(from) << " to " << elementTypeName(array.type);
        else
          EXPECT_EQ(array[i], want) << elementTypeName(from) << " to " << elementTypeName(array.type) << " of 0x"
                                    << std::hex << x[i];
      }
  }
}

INSTANTIATE_TEST_SUITE_P(All, ConvertTest, testing::ValuesIn(targets()),
                         [](const auto &info) { return info.param == hostTarget() ? "Host" : "V3"; });

// The tables of CASES 50 to 54, as written there.
TEST(ElementTest, IntegerDivisionCases) {
  using V = std::vector<int32_t>;
  auto run = [](Opcode op, V x, V y) {
    Kernel kernel(
        elementwise({ElementType::I32, ElementType::I32}, {instr(op, ElementType::I32, 0, 1)}, ElementType::I32));
    return apply<int32_t>(kernel, {x.data(), y.data()}, x.size());
  };
  EXPECT_EQ(run(Opcode::Div, {8, -8, 7, -7}, {-3, 3, -2, 2}), (V{-2, -2, -3, -3}));
  EXPECT_EQ(run(Opcode::Mod, {7, 7, -7, -7}, {3, -3, 3, -3}), (V{1, -2, 2, -1}));
  EXPECT_EQ(run(Opcode::Rem, {7, 7, -7, -7}, {3, -3, 3, -3}), (V{1, 1, -1, -1}));
  EXPECT_EQ(run(Opcode::Div, {INT32_MIN}, {-1}), V{INT32_MIN});
  EXPECT_EQ(run(Opcode::Mod, {INT32_MIN}, {-1}), V{0});
}

TEST(ElementTest, DivisionByZeroNamesTheElement) {
  for (ElementType type : {ElementType::I8, ElementType::I32, ElementType::U64, ElementType::I64})
    for (Opcode op : {Opcode::Div, Opcode::Mod, Opcode::Rem}) {
      Kernel kernel(elementwise({type, type}, {instr(op, type, 0, 1)}, type));
      ASSERT_TRUE(kernel) << kernel.error;
      for (size_t n : {1, 2, 7, 8, 9, 31, 32, 33, 100})
        for (size_t zero : {size_t(0), n / 2, n - 1}) {
          std::vector<uint64_t> divisor(n, 3);
          divisor[zero] = 0;
          Array x(type, std::vector<uint64_t>(n, 5)), y(type, divisor), out(type, std::vector<uint64_t>(n));
          ErrorWord error =
              kernel.run({x.bytes.data(), y.bytes.data(), out.bytes.data()}, {static_cast<int64_t>(n), 1, 1, 1}, 0, 1);
          EXPECT_EQ(error.kind, ErrorKind::DivisionByZero);
          EXPECT_EQ(error.element, static_cast<int64_t>(zero)) << n;
          EXPECT_EQ(error.value, 0);
        }
    }
}

TEST(ElementTest, FirstErrorStays) {
  Kernel kernel(elementwise({ElementType::I32, ElementType::I32}, {instr(Opcode::Div, ElementType::I32, 0, 1)},
                            ElementType::I32));
  int32_t x[] = {1}, y[] = {0}, out[] = {7};
  ErrorWord word = {ErrorKind::IndexOutOfRange, 1, 2, 3, 4};
  (void)word;
  ErrorWord fresh = kernel.run({x, y, out}, {1, 1, 1, 1}, 0, 1);
  EXPECT_EQ(fresh.kind, ErrorKind::DivisionByZero);
  ErrorWord old = kernel.run({x, y, out}, {1, 1, 1, 1}, 0, 1, word);
  EXPECT_EQ(old.kind, ErrorKind::IndexOutOfRange);
  EXPECT_EQ(old.element, 2);
}

TEST(ElementTest, SaturatingConversionCases) {
  Kernel toInt(elementwise({ElementType::F32}, {instr(Opcode::Convert, ElementType::I32, 0)}, ElementType::I32));
  std::vector<float> x = {INFINITY, -INFINITY, NAN, 3e9f, -1.9f};
  EXPECT_EQ(apply<int32_t>(toInt, {x.data()}, 5), (std::vector<int32_t>{2147483647, INT32_MIN, 0, 2147483647, -1}));
  Kernel toByte(elementwise({ElementType::F32}, {instr(Opcode::Convert, ElementType::I8, 0)}, ElementType::I8));
  std::vector<float> y = {300.0f};
  EXPECT_EQ(apply<int8_t>(toByte, {y.data()}, 1), std::vector<int8_t>{127});
  Kernel wraps(elementwise({ElementType::I32}, {instr(Opcode::Convert, ElementType::I8, 0)}, ElementType::I8));
  std::vector<int32_t> z = {300};
  EXPECT_EQ(apply<int8_t>(wraps, {z.data()}, 1), std::vector<int8_t>{44});
}

TEST(ElementTest, NarrowFloatCases) {
  Kernel toBrain(elementwise({ElementType::F32}, {instr(Opcode::Convert, ElementType::BF16, 0)}, ElementType::BF16));
  std::vector<float> x = {3.14f, 0.26914088f, 1.01171875f, bitCast<float>(0x7F800001u)};
  std::vector<uint16_t> brain = apply<uint16_t>(toBrain, {x.data()}, 4);
  EXPECT_EQ(toDouble(ElementType::BF16, brain[0]), 3.140625);
  EXPECT_EQ(toDouble(ElementType::BF16, brain[1]), 0.26953125);
  EXPECT_EQ(toDouble(ElementType::BF16, brain[2]), 1.015625);
  EXPECT_TRUE(std::isnan(toDouble(ElementType::BF16, brain[3])));
  Kernel toHalf(elementwise({ElementType::F32}, {instr(Opcode::Convert, ElementType::F16, 0)}, ElementType::F16));
  std::vector<float> y = {65519, 65520, 2049, 2051, 2.9e-8f};
  std::vector<uint16_t> half = apply<uint16_t>(toHalf, {y.data()}, 5);
  double want[] = {65504, INFINITY, 2048, 2052, 0};
  for (size_t i = 0; i < 5; ++i)
    EXPECT_EQ(toDouble(ElementType::F16, half[i]), want[i]);
}

TEST(ElementTest, SubnormalsAndInfinities) {
  data::KernelSpecT spec =
      elementwise({ElementType::F32, ElementType::F32}, {instr(Opcode::Mul, ElementType::F32, 0, 1)}, ElementType::F32);
  Kernel multiply(spec);
  std::vector<float> x = {bitCast<float>(0x000116C2u), INFINITY}, y = {2, 0};
  std::vector<float> product = apply<float>(multiply, {x.data(), y.data()}, 2);
  EXPECT_EQ(bitCast<uint32_t>(product[0]), 0x00022D84u);
  EXPECT_TRUE(std::isnan(product[1]));
  Kernel subtract(elementwise({ElementType::F32}, {instr(Opcode::Sub, ElementType::F32, 0, 0)}, ElementType::F32));
  Kernel divide(elementwise({ElementType::F32}, {instr(Opcode::Div, ElementType::F32, 0, 0)}, ElementType::F32));
  std::vector<float> inf = {INFINITY}, zero = {0};
  EXPECT_TRUE(std::isnan(apply<float>(subtract, {inf.data()}, 1)[0]));
  EXPECT_TRUE(std::isnan(apply<float>(divide, {zero.data()}, 1)[0]));
}

TEST(ElementTest, MovingKeepsEveryBit) {
  for (ElementType type : kTypes) {
    data::KernelSpecT spec = elementwise({type}, {}, type);
    spec.results = {0};
    Kernel kernel(spec);
    ASSERT_TRUE(kernel) << kernel.error;
    std::vector<uint64_t> values;
    for (uint64_t k = 0; k < 100; ++k) // signalling NaNs among them
      values.push_back(type == ElementType::I1 ? k & 1
                                               : k * 0x9E3779B97F4A7C15 ^ (k % 5                      ? 0
                                                                           : type == ElementType::F16 ? 0x7c01
                                                                                                      : 0x7f817f81));
    Array x(type, values), out(type, std::vector<uint64_t>(100));
    kernel.run({x.bytes.data(), out.bytes.data()}, {100, 1, 1}, 0, 1);
    EXPECT_EQ(x.bytes, out.bytes) << elementTypeName(type);
  }
}

TEST(ElementTest, ConstantOfEveryType) {
  for (ElementType type : kTypes) {
    uint64_t bits = interesting(type)[3];
    data::KernelSpecT spec = elementwise({}, {instr(Opcode::Constant, type, 0, 0, 0, bits)}, type);
    Kernel kernel(spec);
    ASSERT_TRUE(kernel) << kernel.error;
    Array out(type, std::vector<uint64_t>(13));
    kernel.run({out.bytes.data()}, {13, 1}, 0, 1);
    for (size_t i = 0; i < 13; ++i)
      EXPECT_EQ(out[i], Array(type, {bits})[0]) << elementTypeName(type);
  }
}

/// Philox4x32-10 in plain C++.
std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    uint64_t p0 = uint64_t(0xD2511F53) * counter[0], p1 = uint64_t(0xCD9E8D57) * counter[2];
    counter = {static_cast<uint32_t>(p1 >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(p1),
               static_cast<uint32_t>(p0 >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(p0)};
    key = {key[0] + 0x9E3779B9, key[1] + 0xBB67AE85};
  }
  return counter;
}

TEST(ElementTest, Philox) {
  // Random123's known answers for the reference; the opcode's block number has 62 bits and cannot ask for all of them.
  using Words = std::array<uint32_t, 4>;
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}), (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
  for (uint32_t opKey : {0u, ~0u, 0x13198a2eu}) {
    data::KernelSpecT spec = elementwise({ElementType::U64, ElementType::U64, ElementType::U64},
                                         {instr(Opcode::Philox, ElementType::U32, 0, 1, 2, opKey)}, ElementType::U32);
    Kernel kernel(spec);
    ASSERT_TRUE(kernel) << kernel.error;
    std::vector<uint64_t> index, seed, step;
    for (uint64_t at : {uint64_t(0), uint64_t(4) << 32, ~uint64_t(3), uint64_t(0x243f6a8885a308d0)})
      for (uint64_t word = 0; word < 4; ++word)
        for (uint64_t key : {uint64_t(0), ~uint64_t(0), uint64_t(0x299f31d0a4093822)}) {
          index.push_back(at + word);
          seed.push_back(key);
          step.push_back(key >> 7);
        }
    std::vector<uint32_t> words = apply<uint32_t>(kernel, {index.data(), seed.data(), step.data()}, index.size());
    for (size_t i = 0; i < index.size(); ++i) {
      uint64_t block = index[i] / 4;
      Words want = philox(
          {static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), opKey, static_cast<uint32_t>(step[i])},
          {static_cast<uint32_t>(seed[i]), static_cast<uint32_t>(seed[i] >> 32)});
      EXPECT_EQ(words[i], want[index[i] % 4]);
    }
  }
}

} // namespace
