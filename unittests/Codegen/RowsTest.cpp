#include "KernelHarness.h"

#include <gmock/gmock.h>

using namespace rlx;
using namespace rlx::test;
using data::InnerMode;
using data::Instr;
using data::Opcode;
using data::RowsKind;

namespace {

struct Problem {
  RowsKind rows = RowsKind::Softmax;
  int64_t count = 1, length = 1;
  ElementType x = ElementType::F32, out = ElementType::F32, scale = ElementType::F32;
  bool xTransposed = false, outTransposed = false; ///< rows lie side by side
  bool hasScale = false, hasBias = false, scalarScale = false;
  double epsilon = 1e-5;
  std::vector<Instr> program = {};
  uint16_t result = 0;
};

struct Prepared {
  data::KernelSpecT spec;
  std::vector<std::unique_ptr<Buffer>> buffers;
  std::vector<void *> pointers;
  std::vector<int64_t> integers;
  Buffer *x, *scale = nullptr, *bias = nullptr, *out;
  int64_t xPitch, xStride, outPitch, outStride;

  double xAt(int64_t row, int64_t i) { return x->get(row * xPitch + i * xStride); }
  double outAt(int64_t row, int64_t i) { return out->get(row * outPitch + i * outStride); }
  void run(int64_t begin, int64_t end) {
    KernelFn kernel = kernelFor(spec);
    ASSERT_TRUE(kernel);
    ErrorWord error;
    kernel(pointers.data(), integers.data(), begin, end, &error);
    EXPECT_EQ(error.kind, ErrorKind::None);
  }
};

Prepared prepare(const Problem &p, uint32_t seed = 1) {
  Prepared r;
  std::mt19937 random(seed);
  r.spec.family = data::Family::Rows;
  r.spec.rank = 1;
  r.spec.rows = p.rows;
  r.spec.has_scale = p.hasScale;
  r.spec.has_bias = p.hasBias;
  r.spec.program = p.program;
  r.spec.results = {p.result};
  r.integers = {p.count, p.length, std::bit_cast<int64_t>(p.epsilon)};
  auto add = [&](ElementType type, int64_t elements, bool fill) {
    r.buffers.push_back(std::make_unique<Buffer>(type, elements));
    if (fill)
      r.buffers.back()->fillRandom(random);
    r.pointers.push_back(r.buffers.back()->data);
    return r.buffers.back().get();
  };
  auto pitch = [&](bool transposed, int64_t &pitch, int64_t &stride) {
    pitch = transposed ? 1 : p.length + 1;
    stride = transposed ? p.count + 1 : 1;
    return transposed ? stride * p.length : pitch * p.count;
  };
  auto mode = [](bool transposed) { return transposed ? InnerMode::Strided : InnerMode::Contiguous; };
  int64_t elements = pitch(p.xTransposed, r.xPitch, r.xStride);
  r.x = add(p.x, elements, true);
  r.spec.inputs.push_back(accessSpec(p.x, mode(p.xTransposed)));
  r.integers.insert(r.integers.end(), {r.xPitch, r.xStride});
  if (p.hasScale) {
    r.scale = add(p.scale, p.scalarScale ? 1 : p.length, true);
    r.spec.inputs.push_back(accessSpec(p.scale, p.scalarScale ? InnerMode::Splat : InnerMode::Contiguous));
    r.integers.push_back(p.scalarScale ? 0 : 1);
  }
  if (p.hasBias) {
    r.bias = add(p.scale, p.length, true);
    r.spec.inputs.push_back(accessSpec(p.scale));
    r.integers.push_back(1);
  }
  elements = pitch(p.outTransposed, r.outPitch, r.outStride);
  r.out = add(p.out, elements, false);
  r.spec.outputs.push_back(accessSpec(p.out, mode(p.outTransposed)));
  r.integers.insert(r.integers.end(), {r.outPitch, r.outStride});
  return r;
}

/// A row of results, in doubles, from the definition.
std::vector<double> reference(const Problem &p, Prepared &r, int64_t row) {
  std::vector<double> x, y;
  for (int64_t i = 0; i < p.length; ++i)
    x.push_back(r.xAt(row, i));
  if (p.rows == RowsKind::Softmax || p.rows == RowsKind::LogSoftmax) {
    double maximum = -INFINITY, sum = 0;
    for (double value : x)
      maximum = std::max(maximum, value);
    for (double value : x)
      sum += std::exp(value - maximum);
    for (double value : x)
      y.push_back(p.rows == RowsKind::Softmax ? std::exp(value - maximum) / sum : value - maximum - std::log(sum));
    return y;
  }
  double n = static_cast<double>(p.length), mean = 0, square = 0;
  if (p.rows == RowsKind::LayerNorm)
    for (double value : x)
      mean += value / n;
  for (double value : x)
    square += (value - mean) * (value - mean) / n;
  for (int64_t i = 0; i < p.length; ++i) {
    double value = (x[static_cast<size_t>(i)] - mean) / std::sqrt(square + p.epsilon);
    if (p.hasScale)
      value *= r.scale->get(p.scalarScale ? 0 : i);
    if (p.hasBias)
      value += r.bias->get(i);
    y.push_back(value);
  }
  return y;
}

/// Every element within `tolerance` of the reference, relative to the larger of
/// it and `floor`; gaps untouched.
void check(const Problem &p, double tolerance, double floor) {
  Prepared r = prepare(p);
  r.run(0, p.count);
  std::vector<bool> written(static_cast<size_t>(r.out->elements));
  for (int64_t row = 0; row < p.count; ++row) {
    std::vector<double> want = reference(p, r, row);
    for (int64_t i = 0; i < p.length; ++i) {
      double got = r.outAt(row, i), right = want[static_cast<size_t>(i)];
      written[static_cast<size_t>(row * r.outPitch + i * r.outStride)] = true;
      ASSERT_LE(std::abs(got - right), tolerance * std::max(std::abs(right), floor))
          << "row " << row << " of " << p.length << ", element " << i << ": " << got << " instead of " << right;
    }
  }
  for (int64_t i = 0; i < r.out->elements; ++i)
    if (!written[static_cast<size_t>(i)])
      ASSERT_TRUE(r.out->untouched(i)) << i;
}

const std::vector<int64_t> kLengths = {1, 2, 7, 8, 9, 20, 31, 32, 33, 40, 63, 64, 65, 100, 384};

TEST(Rows, softmax) {
  for (int64_t length : kLengths)
    for (bool transposed : {false, true})
      for (int64_t count : {1, 5})
        check({.count = count, .length = length, .xTransposed = transposed, .outTransposed = transposed}, 5e-7, 0);
}

TEST(Rows, softmaxOfOneIsOne) {
  Prepared r = prepare({.count = 4, .length = 1});
  r.x->put(0, -87);
  r.x->put(2, 3e38);
  r.run(0, 4);
  for (int64_t row = 0; row < 4; ++row)
    EXPECT_EQ(r.outAt(row, 0), 1);
}

/// CASES 48.
TEST(Rows, softmaxMasks) {
  for (int64_t length : {2, 5, 16, 33, 47, 70}) {
    Prepared r = prepare({.count = 4, .length = length});
    for (int64_t i = 0; i < length; ++i) {
      r.x->put(1 * r.xPitch + i, -INFINITY);
      if (i % 3 != 0)
        r.x->put(2 * r.xPitch + i, -INFINITY);
    }
    r.x->put(3 * r.xPitch + length - 1, NAN);
    r.run(0, 4);
    double sum = 0;
    for (int64_t i = 0; i < length; ++i) {
      EXPECT_TRUE(std::isfinite(r.outAt(0, i)));
      EXPECT_TRUE(std::isnan(r.outAt(1, i))) << "a row of -inf is NaN";
      if (i % 3 != 0)
        EXPECT_EQ(std::bit_cast<uint64_t>(r.outAt(2, i)), 0u) << "a masked element is +0";
      else
        EXPECT_GT(r.outAt(2, i), 0);
      sum += r.outAt(2, i);
      EXPECT_TRUE(std::isnan(r.outAt(3, i))) << "NaN takes its whole row, " << length << ' ' << i;
    }
    EXPECT_NEAR(sum, 1, 1e-6);
  }
}

/// A large finite mask, as models add it, is exactly 0 too.
TEST(Rows, softmaxFarBelowTheMaximumIsZero) {
  Prepared r = prepare({.count = 1, .length = 4});
  double x[] = {1, -10000, -3.4028234663852886e38, 1};
  for (int i = 0; i < 4; ++i)
    r.x->put(i, x[i]);
  r.run(0, 1);
  EXPECT_EQ(r.outAt(0, 0), 0.5);
  EXPECT_EQ(r.outAt(0, 1), 0);
  EXPECT_EQ(r.outAt(0, 2), 0);
}

TEST(Rows, logSoftmax) {
  for (int64_t length : kLengths)
    check({.rows = RowsKind::LogSoftmax, .count = 3, .length = length}, 6e-7, 1);
  Prepared r = prepare({.rows = RowsKind::LogSoftmax, .count = 3, .length = 4});
  r.x->put(1, -INFINITY);
  for (int i = 0; i < 4; ++i)
    r.x->put(r.xPitch + i, -INFINITY);
  r.run(0, 3);
  EXPECT_EQ(r.outAt(0, 1), -INFINITY);
  EXPECT_TRUE(std::isfinite(r.outAt(0, 0)));
  EXPECT_TRUE(std::isnan(r.outAt(1, 0)));
  Prepared one = prepare({.rows = RowsKind::LogSoftmax, .count = 1, .length = 1});
  one.run(0, 1);
  EXPECT_EQ(one.outAt(0, 0), 0);
}

TEST(Rows, layerNorm) {
  for (int64_t length : kLengths)
    for (int options = 0; options < 8; ++options)
      check({.rows = RowsKind::LayerNorm,
             .count = 3,
             .length = length,
             .hasScale = (options & 1) != 0,
             .hasBias = (options & 2) != 0,
             .scalarScale = (options & 4) != 0},
            2e-6, 1);
  for (bool in : {false, true})
    for (bool out : {false, true})
      check({.rows = RowsKind::LayerNorm,
             .count = 5,
             .length = 77,
             .xTransposed = in,
             .outTransposed = out,
             .hasScale = true,
             .hasBias = true},
            2e-6, 1);
}

/// Two passes: a mean far above the spread does not eat the variance.
TEST(Rows, layerNormWithALargeMean) {
  Problem p{.rows = RowsKind::LayerNorm, .count = 1, .length = 100, .epsilon = 0};
  Prepared r = prepare(p);
  for (int64_t i = 0; i < 100; ++i)
    r.x->put(i, 4096 + (i % 2 ? 1 : -1));
  r.run(0, 1);
  for (int64_t i = 0; i < 100; ++i)
    EXPECT_NEAR(r.outAt(0, i), i % 2 ? 1 : -1, 1e-6);
}

TEST(Rows, layerNormOfAConstantRowIsTheBias) {
  Problem p{.rows = RowsKind::LayerNorm, .count = 1, .length = 37, .hasScale = true, .hasBias = true};
  Prepared r = prepare(p);
  for (int64_t i = 0; i < 37; ++i)
    r.x->put(i, 3);
  r.run(0, 1);
  for (int64_t i = 0; i < 37; ++i)
    EXPECT_EQ(r.outAt(0, i), r.bias->get(i));
}

TEST(Rows, rmsNorm) {
  for (int64_t length : kLengths)
    for (bool scale : {false, true})
      check({.rows = RowsKind::RmsNorm, .count = 3, .length = length, .hasScale = scale, .epsilon = 1e-6}, 1e-6, 0);
}

TEST(Rows, otherTypes) {
  for (RowsKind rows : {RowsKind::Softmax, RowsKind::LogSoftmax, RowsKind::LayerNorm, RowsKind::RmsNorm})
    for (int64_t length : {1, 30, 45}) {
      bool norm = rows == RowsKind::LayerNorm || rows == RowsKind::RmsNorm;
      Problem p{.rows = rows, .count = 3, .length = length, .hasScale = norm, .hasBias = rows == RowsKind::LayerNorm};
      p.x = p.out = p.scale = ElementType::F64;
      check(p, 1e-14, 1);
      p.x = p.out = p.scale = ElementType::F16;
      check(p, 6e-4, 1);
      p.x = p.out = p.scale = ElementType::BF16;
      check(p, 5e-3, 1);
      p.scale = ElementType::F32;
      check(p, 5e-3, 1);
    }
}

TEST(Rows, emptyRowsStoreNothing) {
  for (RowsKind rows : {RowsKind::Softmax, RowsKind::LayerNorm}) {
    Prepared r = prepare({.rows = rows, .count = 3, .length = 0});
    r.run(0, 3);
    for (int64_t i = 0; i < r.out->elements; ++i)
      EXPECT_TRUE(r.out->untouched(i));
  }
}

TEST(Rows, epilogue) {
  Problem p{.rows = RowsKind::Softmax,
            .count = 2,
            .length = 41,
            .program = {Instr(Opcode::Add, ElementType::F32, 0, 0, 0, 0)},
            .result = 1};
  Prepared r = prepare(p);
  r.run(0, 2);
  for (int64_t row = 0; row < 2; ++row) {
    std::vector<double> want = reference(p, r, row);
    for (int64_t i = 0; i < 41; ++i)
      EXPECT_NEAR(r.outAt(row, i), 2 * want[static_cast<size_t>(i)], 1e-7);
  }
}

/// CASES 60: the same bits alone or among others, and transposed.
TEST(Rows, aRowsBitsDependOnTheRowAlone) {
  for (RowsKind rows : {RowsKind::Softmax, RowsKind::LayerNorm})
    for (int64_t length : {5, 40, 97}) {
      Problem p{.rows = rows, .count = 7, .length = length};
      Prepared all = prepare(p), single = prepare(p);
      all.run(0, 7);
      for (int64_t row = 6; row >= 0; --row)
        single.run(row, row + 1);
      Problem turned = p;
      turned.xTransposed = turned.outTransposed = true;
      Prepared sideways = prepare(turned);
      for (int64_t row = 0; row < 7; ++row)
        for (int64_t i = 0; i < length; ++i)
          sideways.x->put(row * sideways.xPitch + i * sideways.xStride, all.xAt(row, i));
      sideways.run(0, 7);
      for (int64_t row = 0; row < 7; ++row)
        for (int64_t i = 0; i < length; ++i) {
          ASSERT_EQ(all.outAt(row, i), single.outAt(row, i));
          ASSERT_EQ(all.outAt(row, i), sideways.outAt(row, i));
        }
    }
}

/// As many rows side by side as lanes and more, of every kind: what is right, and the bits of a row that lies alone; in
/// calls that begin and end anywhere.
TEST(Rows, rowsSideBySide) {
  for (RowsKind rows : {RowsKind::Softmax, RowsKind::LogSoftmax, RowsKind::LayerNorm, RowsKind::RmsNorm})
    for (bool outTurned : {true, false})
      for (ElementType type : {ElementType::F32, ElementType::F64, ElementType::BF16})
        for (int64_t length : {1, 31, 32, 45, 100}) {
          bool norm = rows == RowsKind::LayerNorm || rows == RowsKind::RmsNorm;
          Problem p{.rows = rows,
                    .count = 37,
                    .length = length,
                    .x = type,
                    .out = type,
                    .hasScale = norm,
                    .hasBias = rows == RowsKind::LayerNorm};
          p.scalarScale = length == 45;
          if (length == 100)
            p.program = {Instr(Opcode::Add, ElementType::F32, 0, 0, 0, 0)}, p.result = type == ElementType::F64 ? 0 : 1;
          if (type == ElementType::F64)
            p.program.clear();
          Problem turned = p;
          turned.xTransposed = true;
          turned.outTransposed = outTurned;
          Prepared alone = prepare(p), sideways = prepare(turned);
          for (int64_t row = 0; row < p.count; ++row)
            for (int64_t i = 0; i < length; ++i)
              sideways.x->put(row * sideways.xPitch + i * sideways.xStride, alone.xAt(row, i));
          if (norm)
            for (int64_t i = 0; i < (p.scalarScale ? 1 : length); ++i)
              sideways.scale->put(i, alone.scale->get(i));
          if (p.hasBias)
            for (int64_t i = 0; i < length; ++i)
              sideways.bias->put(i, alone.bias->get(i));
          // One lane's row holds what takes a row over.
          sideways.x->put(20 * sideways.xPitch, -INFINITY);
          alone.x->put(20 * alone.xPitch, -INFINITY);
          alone.run(0, 37);
          sideways.run(0, 3);
          sideways.run(3, 22);
          sideways.run(22, 37);
          for (int64_t row = 0; row < p.count; ++row)
            for (int64_t i = 0; i < length; ++i) {
              double want = alone.outAt(row, i), got = sideways.outAt(row, i);
              ASSERT_TRUE(want == got || (std::isnan(want) && std::isnan(got)))
                  << row << " of length " << length << ", element " << i << ": " << got << " instead of " << want;
            }
          for (int64_t i = 0; i < sideways.out->elements; ++i) {
            bool isGap = outTurned ? i % sideways.outStride >= p.count : i % sideways.outPitch >= length;
            if (isGap)
              ASSERT_TRUE(sideways.out->untouched(i)) << i;
          }
        }
  check({.rows = RowsKind::Softmax, .count = 40, .length = 77, .xTransposed = true, .outTransposed = true}, 5e-7, 0);
  check({.rows = RowsKind::LayerNorm, .count = 40, .length = 77, .xTransposed = true, .hasScale = true}, 2e-6, 1);
}

/// Elements that a mask makes 0 change no bit of the others: a padded row is
/// the row.
TEST(Rows, paddingWithMinusInfinityChangesNoBit) {
  Prepared bare = prepare({.count = 1, .length = 45}), padded = prepare({.count = 1, .length = 64});
  for (int64_t i = 0; i < 64; ++i)
    padded.x->put(i, i < 45 ? bare.xAt(0, i) : -INFINITY);
  bare.run(0, 1);
  padded.run(0, 1);
  for (int64_t i = 0; i < 45; ++i)
    ASSERT_EQ(bare.outAt(0, i), padded.outAt(0, i));
}

TEST(Rows, severalOuterLoopsWithAnyStrides) {
  // x[2][3][10] read as its transpose over the first two loops.
  Problem p{.rows = RowsKind::Softmax, .count = 6, .length = 10};
  Prepared r = prepare(p);
  r.spec.rank = 2;
  r.integers = {3, 2, 10, 0, r.xPitch, 3 * r.xPitch, 1, 2 * r.outPitch, r.outPitch, 1};
  r.run(0, 6);
  Prepared plain = prepare(p);
  plain.run(0, 6);
  for (int64_t i = 0; i < 3; ++i)
    for (int64_t j = 0; j < 2; ++j)
      for (int64_t k = 0; k < 10; ++k)
        ASSERT_EQ(r.outAt(i * 2 + j, k), plain.outAt(j * 3 + i, k));
}

TEST(Rows, integersAreRefused) {
  Prepared r = prepare({.count = 1, .length = 1, .x = ElementType::I32});
  r.spec.target = hostTarget();
  r.spec.revision = kEmitterRevision;
  auto image = compileKernel(r.spec);
  ASSERT_FALSE(image);
  EXPECT_THAT(image.error().message, testing::HasSubstr("float"));
}

} // namespace
