#include "KernelHarness.h"

#include <gmock/gmock.h>
#include <optional>

using namespace rlx;
using namespace rlx::test;
using data::InnerMode;
using data::Instr;
using data::Opcode;
using data::PackedLayout;

namespace {

struct Problem {
  int64_t M = 1, N = 1, K = 1;
  std::vector<int64_t> batch = {};
  ElementType a = ElementType::F32, b = ElementType::F32, sum = ElementType::F32, out = ElementType::F32;
  bool packed = false;
  bool aTransposed = false, bTransposed = false, outTransposed = false;
  std::vector<bool> aShared = {}, bShared = {}; ///< per batch loop: stride 0
  std::vector<Instr> program = {};              ///< value 0 the sum, 1 the bias along n if there is one, 2 the residual
  uint16_t result = 0;
  std::optional<ElementType> bias = {}, residual = {};
  bool biasScalar = false;
  int64_t large = 4 << 20, block = 512 << 10; ///< bytes of a
  bool contended = false;                     ///< b, in the last cache
  uint32_t seed = 1;
};

uint8_t rowClass(const Problem &p) {
  return static_cast<uint8_t>(p.M <= kMatmulFewRows && p.sum == ElementType::F32 ? kMatmulFewRows : kMatmulManyRows);
}

/// What a kernel call needs, and the operands, in plain order.
struct Prepared {
  data::KernelSpecT spec;
  std::vector<std::unique_ptr<Buffer>> buffers;
  std::vector<void *> pointers;
  std::vector<int64_t> integers;
  std::unique_ptr<Buffer> scratch;
  int64_t tiles = 0;
  int64_t batches = 1;
  std::vector<double> aValues, bValues, biasValues, residualValues; ///< [batch or 1][m][k], ...
  Buffer *out = nullptr;
  std::function<int64_t(int64_t, int64_t, int64_t)> outAt; ///< batch, m, n
};

int64_t product(const std::vector<int64_t> &extents) {
  int64_t result = 1;
  for (int64_t extent : extents)
    result *= extent;
  return result;
}

/// Strides of a [batch..., rows, columns] tensor; its elements.
int64_t strideOut(const Problem &p, int64_t rows, int64_t columns, bool transposed, const std::vector<bool> &shared,
                  std::vector<int64_t> &strides) {
  int64_t pitch = transposed ? rows + 1 : columns + 1; // a gap behind each line
  int64_t size = transposed ? pitch * columns : pitch * rows;
  strides.assign(p.batch.size(), 0);
  int64_t next = size;
  for (size_t i = p.batch.size(); i-- > 0;) {
    if (i < shared.size() && shared[i])
      continue;
    strides[i] = next;
    next *= p.batch[i];
  }
  strides.push_back(transposed ? 1 : pitch);
  strides.push_back(transposed ? pitch : 1);
  return next;
}

int64_t offsetOf(const Problem &p, const std::vector<int64_t> &strides, int64_t batch, int64_t i, int64_t j) {
  int64_t offset = i * strides[p.batch.size()] + j * strides[p.batch.size() + 1];
  for (size_t loop = p.batch.size(); loop-- > 0;) {
    offset += batch % p.batch[loop] * strides[loop];
    batch /= p.batch[loop];
  }
  return offset;
}

Prepared prepare(const Problem &p) {
  Prepared r;
  std::mt19937 random(p.seed);
  size_t rank = p.batch.size();
  r.batches = product(p.batch);
  data::KernelSpecT &spec = r.spec;
  spec.family = data::Family::Matmul;
  spec.rank = static_cast<uint8_t>(rank + 2);
  spec.batch_rank = static_cast<uint8_t>(rank);
  spec.a_type = p.a;
  spec.b_type = p.b;
  spec.accumulator = p.sum;
  spec.a_inner = p.aTransposed ? InnerMode::Strided : InnerMode::Contiguous;
  spec.b_layout = p.packed ? PackedLayout::Panels16 : PackedLayout::Strided;
  spec.row_class = rowClass(p);
  spec.program = p.program;
  spec.results = {p.result};

  r.integers = p.batch;
  r.integers.insert(r.integers.end(), {p.M, p.N, p.K});

  std::vector<int64_t> aStrides, bStrides, outStrides, residualStrides;
  auto a = std::make_unique<Buffer>(p.a, strideOut(p, p.M, p.K, p.aTransposed, p.aShared, aStrides));
  a->fillRandom(random);
  r.integers.insert(r.integers.end(), aStrides.begin(), aStrides.end());
  for (int64_t batch = 0; batch < r.batches; ++batch)
    for (int64_t m = 0; m < p.M; ++m)
      for (int64_t k = 0; k < p.K; ++k)
        r.aValues.push_back(a->get(offsetOf(p, aStrides, batch, m, k)));

  auto plain = std::make_unique<Buffer>(p.b, strideOut(p, p.K, p.N, p.bTransposed, p.bShared, bStrides));
  plain->fillRandom(random);
  for (int64_t batch = 0; batch < r.batches; ++batch)
    for (int64_t k = 0; k < p.K; ++k)
      for (int64_t n = 0; n < p.N; ++n)
        r.bValues.push_back(plain->get(offsetOf(p, bStrides, batch, k, n)));
  r.buffers.push_back(std::move(a));
  if (p.packed) {
    int64_t panels = (p.N + kPanel - 1) / kPanel;
    auto packed = std::make_unique<Buffer>(p.b, panels * p.K * kPanel);
    for (int64_t panel = 0; panel < panels; ++panel)
      for (int64_t k = 0; k < p.K; ++k)
        for (int64_t c = 0; c < kPanel; ++c) {
          int64_t n = panel * kPanel + c;
          packed->put((panel * p.K + k) * kPanel + c, n < p.N ? r.bValues[static_cast<size_t>(k * p.N + n)] : 0);
        }
    r.buffers.push_back(std::move(packed));
    r.integers.insert(r.integers.end(), rank + 2, 0);
  } else {
    r.buffers.push_back(std::move(plain));
    r.integers.insert(r.integers.end(), bStrides.begin(), bStrides.end());
  }
  if (p.bias) {
    auto bias = std::make_unique<Buffer>(*p.bias, p.biasScalar ? 1 : p.N);
    bias->fillRandom(random);
    for (int64_t n = 0; n < p.N; ++n)
      r.biasValues.push_back(bias->get(p.biasScalar ? 0 : n));
    r.integers.insert(r.integers.end(), rank + 1, 0);
    r.integers.push_back(p.biasScalar ? 0 : 1);
    spec.inputs.push_back(accessSpec(*p.bias, p.biasScalar ? InnerMode::Splat : InnerMode::Contiguous));
    r.buffers.push_back(std::move(bias));
  }
  if (p.residual) {
    auto residual = std::make_unique<Buffer>(*p.residual, strideOut(p, p.M, p.N, p.outTransposed, {}, residualStrides));
    residual->fillRandom(random);
    for (int64_t batch = 0; batch < r.batches; ++batch)
      for (int64_t m = 0; m < p.M; ++m)
        for (int64_t n = 0; n < p.N; ++n)
          r.residualValues.push_back(residual->get(offsetOf(p, residualStrides, batch, m, n)));
    r.integers.insert(r.integers.end(), residualStrides.begin(), residualStrides.end());
    spec.inputs.push_back(accessSpec(*p.residual, p.outTransposed ? InnerMode::Strided : InnerMode::Contiguous));
    r.buffers.push_back(std::move(residual));
  }
  auto out = std::make_unique<Buffer>(p.out, strideOut(p, p.M, p.N, p.outTransposed, {}, outStrides));
  r.integers.insert(r.integers.end(), outStrides.begin(), outStrides.end());
  r.integers.insert(r.integers.end(), {p.large, p.block, static_cast<int64_t>(p.contended)});
  spec.outputs.push_back(accessSpec(p.out, p.outTransposed ? InnerMode::Strided : InnerMode::Contiguous));
  r.out = out.get();
  r.buffers.push_back(std::move(out));
  r.outAt = [p, outStrides](int64_t batch, int64_t m, int64_t n) { return offsetOf(p, outStrides, batch, m, n); };
  int64_t sumBytes = elementBytes(p.sum);
  r.scratch = std::make_unique<Buffer>(ElementType::U8, matmulScratchBytes(p.K, sumBytes));
  for (auto &buffer : r.buffers)
    r.pointers.push_back(buffer->data);
  r.pointers.push_back(r.scratch->data);
  r.tiles = r.batches * ((p.N + kPanel - 1) / kPanel);
  return r;
}

/// Every element, against `expected(batch, m, n, sum, bound)`; gaps untouched.
void check(const Problem &p, double tolerance,
           std::function<double(const Prepared &, int64_t, int64_t, double)> expected = nullptr) {
  Prepared r = prepare(p);
  KernelFn kernel = kernelFor(r.spec);
  ASSERT_TRUE(kernel);
  ErrorWord error;
  kernel(r.pointers.data(), r.integers.data(), 0, r.tiles, &error);
  EXPECT_EQ(error.kind, ErrorKind::None);
  std::vector<bool> written(static_cast<size_t>(r.out->elements));
  int wrong = 0;
  for (int64_t batch = 0; batch < r.batches; ++batch)
    for (int64_t m = 0; m < p.M; ++m)
      for (int64_t n = 0; n < p.N; ++n) {
        double sum = 0, size = 0;
        for (int64_t k = 0; k < p.K; ++k) {
          double term = r.aValues[static_cast<size_t>((batch * p.M + m) * p.K + k)] *
                        r.bValues[static_cast<size_t>((batch * p.K + k) * p.N + n)];
          sum += term;
          size += std::abs(term);
        }
        double want = expected ? expected(r, (batch * p.M + m) * p.N + n, n, sum) : sum;
        double got = r.out->get(r.outAt(batch, m, n));
        written[static_cast<size_t>(r.outAt(batch, m, n))] = true;
        double bound = tolerance * std::max(size + std::abs(want), 1e-30);
        bool right = std::isnan(want) ? std::isnan(got) : std::abs(got - want) <= bound;
        if (!right && wrong++ < 3)
          ADD_FAILURE() << "batch " << batch << " row " << m << " column " << n << ": " << got << " instead of " << want
                        << ", M " << p.M << " N " << p.N << " K " << p.K;
      }
  for (int64_t i = 0; i < r.out->elements; ++i)
    if (!written[static_cast<size_t>(i)])
      ASSERT_TRUE(r.out->untouched(i)) << "wrote into a gap at " << i;
}

constexpr double kF32 = 3e-6;

/// CASES 24.
TEST(Matmul, case24) {
  Problem p{.M = 1, .N = 2, .K = 4};
  Prepared r = prepare(p);
  for (int k = 0; k < 4; ++k)
    r.buffers[0]->put(k, k + 1);
  double w[8] = {1, 0, 0, 1, 1, 0, 0, 1};
  for (int k = 0; k < 4; ++k)
    for (int n = 0; n < 2; ++n)
      r.buffers[1]->put(k * 3 + n, w[k * 2 + n]);
  KernelFn kernel = kernelFor(r.spec);
  ASSERT_TRUE(kernel);
  ErrorWord error;
  kernel(r.pointers.data(), r.integers.data(), 0, 1, &error);
  EXPECT_EQ(r.out->get(0), 4);
  EXPECT_EQ(r.out->get(1), 6);
}

/// Every way in which rows split into tiles, and panels into groups.
TEST(Matmul, packedEveryRowCountAndTail) {
  for (int64_t M = 1; M <= 40; ++M)
    for (int64_t N : {1, 17, 64, 83})
      for (int64_t K : {0, 1, 7})
        check({.M = M, .N = N, .K = K, .packed = true}, kF32);
  for (int64_t M : {1, 3, 5, 6, 7, 8, 13, 128})
    for (int64_t N : {15, 16, 33, 48, 112})
      check({.M = M, .N = N, .K = 64, .packed = true}, kF32);
}

TEST(Matmul, stridedEveryRowCountAndTail) {
  for (int64_t M : {1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 22})
    for (int64_t N : {1, 2, 15, 16, 17, 40})
      for (int64_t K : {0, 1, 9, 32})
        for (bool transposed : {false, true})
          check({.M = M, .N = N, .K = K, .bTransposed = transposed}, kF32);
}

TEST(Matmul, transposedOperandsAndOutput) {
  for (int64_t M : {1, 4, 6, 11})
    for (int64_t N : {5, 16, 21})
      for (int mask = 0; mask < 8; ++mask)
        check({.M = M,
               .N = N,
               .K = 10,
               .aTransposed = (mask & 1) != 0,
               .bTransposed = (mask & 2) != 0,
               .outTransposed = (mask & 4) != 0},
              kF32);
  check({.M = 9, .N = 20, .K = 10, .packed = true, .aTransposed = true, .outTransposed = true}, kF32);
}

TEST(Matmul, batchesWithSharedOperands) {
  check({.M = 3, .N = 17, .K = 5, .batch = {4}}, kF32);
  check({.M = 7, .N = 17, .K = 5, .batch = {2, 3}, .aShared = {true, false}}, kF32);
  check({.M = 7, .N = 18, .K = 5, .batch = {2, 3}, .bTransposed = true, .bShared = {false, true}}, kF32);
  check({.M = 2, .N = 3, .K = 5, .batch = {2, 1, 3, 2}, .aShared = {false, true, true}, .bShared = {true}}, kF32);
  check({.M = 6, .N = 33, .K = 8, .batch = {3}, .packed = true, .bShared = {true}}, kF32);
}

/// A that is larger than caches are is taken in blocks of rows.
TEST(Matmul, manyRowsOfLongSums) {
  check({.M = 131, .N = 2, .K = 9000, .packed = true}, kF32);
  check({.M = 70, .N = 1, .K = 16000, .packed = true}, kF32);
  check({.M = 2200, .N = 1, .K = 500, .batch = {2}, .packed = true, .bShared = {true}}, kF32);
  // Its rows have the bits of the same rows among few.
  Prepared all = prepare({.M = 300, .N = 5, .K = 4000, .packed = true});
  kernelFor(all.spec)(all.pointers.data(), all.integers.data(), 0, all.tiles, nullptr);
  std::vector<float> whole;
  for (int64_t m = 0; m < 300; ++m)
    for (int64_t n = 0; n < 5; ++n)
      whole.push_back(static_cast<float>(all.out->get(all.outAt(0, m, n))));
  for (int64_t first = 0; first < 300; first += 20) {
    std::vector<int64_t> integers = all.integers;
    std::vector<void *> pointers = all.pointers;
    integers[0] = 20;
    pointers[0] = all.buffers[0]->at(first * 4001);
    kernelFor(all.spec)(pointers.data(), integers.data(), 0, all.tiles, nullptr);
    for (int64_t m = 0; m < 20; ++m)
      for (int64_t n = 0; n < 5; ++n)
        ASSERT_EQ(all.out->get(all.outAt(0, m, n)), whole[static_cast<size_t>((first + m) * 5 + n)]);
  }
}

/// Blocks of any size give the same bits, also where the last ones are shorter.
TEST(Matmul, blocksOfRows) {
  for (ElementType b : {ElementType::F32, ElementType::I8}) {
    std::vector<double> whole;
    for (auto [large, block] :
         {std::pair<int64_t, int64_t>(INT64_MAX, 1), {1, INT64_MAX}, {1, 1}, {1, 7000}, {0, 20000}}) {
      Problem p{.M = 333, .N = 40, .K = 19, .b = b, .packed = true, .large = large, .block = block};
      check(p, kF32);
      Prepared r = prepare(p);
      kernelFor(r.spec)(r.pointers.data(), r.integers.data(), 0, r.tiles, nullptr);
      std::vector<double> got;
      for (int64_t m = 0; m < p.M; ++m)
        for (int64_t n = 0; n < p.N; ++n)
          got.push_back(r.out->get(r.outAt(0, m, n)));
      if (whole.empty())
        whole = got;
      ASSERT_EQ(got, whole) << "large " << large << " block " << block;
    }
  }
}

/// Where b is expected changes how it is read, not the bits.
TEST(Matmul, whereTheWeightLies) {
  for (ElementType b : {ElementType::F32, ElementType::F16, ElementType::I8})
    for (int64_t M : {1, 2, 3, 4, 5, 6, 7, 8, 15})
      for (int64_t K : {0, 1, 7, 8, 9, 25, 300})
        for (int64_t N : {1, 16, 70}) {
          std::vector<double> got[2];
          for (bool contended : {false, true}) {
            Problem p{.M = M, .N = N, .K = K, .b = b, .packed = true, .contended = contended};
            check(p, kF32);
            Prepared r = prepare(p);
            kernelFor(r.spec)(r.pointers.data(), r.integers.data(), 0, r.tiles, nullptr);
            for (int64_t m = 0; m < M; ++m)
              for (int64_t n = 0; n < N; ++n)
                got[contended].push_back(r.out->get(r.outAt(0, m, n)));
          }
          ASSERT_EQ(got[0], got[1]) << M << " x " << N << " x " << K;
        }
}

/// Few rows take four panels of bytes at once, or eight: any number of panels is left over.
TEST(Matmul, fewRowsOfEveryPanelCount) {
  for (ElementType b : {ElementType::I8, ElementType::U8, ElementType::F16, ElementType::F32})
    for (int64_t M : {1, 2, 3, 4, 5})
      for (int64_t panels = 1; panels <= 17; panels += panels < 9 ? 1 : 4)
        check({.M = M, .N = panels * 16 - 3, .K = 37, .b = b, .packed = true}, kF32);
  check({.M = 1, .N = 130, .K = 20, .b = ElementType::I8, .packed = true, .aTransposed = true}, kF32);
  check({.M = 2, .N = 130, .K = 20, .b = ElementType::I8, .packed = true, .aTransposed = true}, kF32);
  check({.M = 5, .N = 130, .K = 20, .a = ElementType::F16, .b = ElementType::I8, .packed = true}, kF32);
}

/// One and two rows of floats by bytes: any K, where panels and rows end with their memory. A sum takes k = 0, 1, ...
/// in turn, each product and sum rounded once.
TEST(Matmul, fewRowsByBytesOfEveryDepth) {
  for (ElementType b : {ElementType::I8, ElementType::U8})
    for (ElementType a : {ElementType::F32, ElementType::F16})
      for (int64_t M : {1, 2, 3})
        for (int64_t N : {1, 16, 100, 128, 257})
          for (int64_t K : {0, 1, 2, 3, 4, 5, 7, 8, 9, 17, 64, 203}) {
            Prepared r = prepare({.M = M, .N = N, .K = K, .a = a, .b = b, .packed = true});
            KernelFn kernel = kernelFor(r.spec);
            ASSERT_TRUE(kernel);
            kernel(r.pointers.data(), r.integers.data(), 0, r.tiles, nullptr);
            for (int64_t m = 0; m < M; ++m)
              for (int64_t n = 0; n < N; ++n) {
                float want = 0;
                for (int64_t k = 0; k < K; ++k)
                  want = std::fma(static_cast<float>(r.aValues[static_cast<size_t>(m * K + k)]),
                                  static_cast<float>(r.bValues[static_cast<size_t>(k * N + n)]), want);
                ASSERT_EQ(static_cast<float>(r.out->get(r.outAt(0, m, n))), want)
                    << "M " << M << " N " << N << " K " << K << " row " << m << " column " << n;
              }
          }
}

/// The smallest and largest bytes, and sums that leave the range of floats.
TEST(Matmul, fewRowsByExtremeBytes) {
  for (ElementType b : {ElementType::I8, ElementType::U8})
    for (int64_t M : {1, 2}) {
      Prepared r = prepare({.M = M, .N = 128, .K = 256, .b = b, .packed = true});
      for (int64_t k = 0; k < 256; ++k)
        for (int64_t n = 0; n < 128; ++n)
          r.buffers[1]->put((n / 16 * 256 + k) * 16 + n % 16,
                            static_cast<double>(k + (b == ElementType::I8 ? -128 : 0)));
      for (float scale : {1.0f, 0x1p-149f, 0x1p120f}) {
        for (int64_t m = 0; m < M; ++m)
          for (int64_t k = 0; k < 256; ++k)
            r.buffers[0]->put(m * 257 + k, scale * static_cast<float>(1 + m + k % 2));
        kernelFor(r.spec)(r.pointers.data(), r.integers.data(), 0, r.tiles, nullptr);
        for (int64_t m = 0; m < M; ++m) {
          float want = 0;
          for (int64_t k = 0; k < 256; ++k)
            want = std::fma(scale * static_cast<float>(1 + m + k % 2),
                            static_cast<float>(k + (b == ElementType::I8 ? -128 : 0)), want);
          for (int64_t n = 0; n < 128; ++n) {
            double got = r.out->get(r.outAt(0, m, n));
            ASSERT_TRUE(std::isnan(want) ? std::isnan(got) : got == static_cast<double>(want))
                << got << " instead of " << want;
          }
        }
      }
    }
}

/// Rows of 16 bits are widened a tile at a time, whole vectors and what is left.
TEST(Matmul, sixteenBitRows) {
  for (ElementType type : {ElementType::F16, ElementType::BF16})
    for (bool packed : {true, false})
      for (bool transposed : {false, true})
        for (int64_t M : {1, 2, 4, 5, 6, 7, 9, 20})
          for (int64_t K : {0, 1, 15, 16, 17, 50})
            check({.M = M, .N = 37, .K = K, .a = type, .packed = packed, .aTransposed = transposed}, kF32);
  check({.M = 9, .N = 37, .K = 33, .batch = {2, 3}, .a = ElementType::BF16, .aShared = {true, false}}, kF32);
}

/// 2x the bits of f16 and bf16 are kept by f32 sums: only the store rounds.
TEST(Matmul, sixteenBitOperands) {
  for (ElementType type : {ElementType::F16, ElementType::BF16})
    for (bool packed : {true, false})
      for (int64_t M : {1, 6, 8}) {
        check({.M = M, .N = 19, .K = 40, .a = type, .b = type, .packed = packed}, kF32);
        check({.M = M, .N = 19, .K = 40, .b = type, .packed = packed}, kF32);
        check({.M = M, .N = 19, .K = 40, .a = type, .b = type, .out = type, .packed = packed},
              type == ElementType::F16 ? 5e-4 : 4e-3);
      }
}

TEST(Matmul, eightBitWeights) {
  for (int64_t M = 1; M <= 8; ++M)
    for (int64_t N : {16, 30, 70})
      check({.M = M, .N = N, .K = 33, .b = ElementType::I8, .packed = true}, kF32);
  check({.M = 7, .N = 30, .K = 33, .b = ElementType::I8}, kF32);
  check({.M = 7, .N = 30, .K = 33, .b = ElementType::U8, .packed = true}, kF32);
}

TEST(Matmul, otherSums) {
  for (int64_t M : {1, 5, 6, 9})
    for (int64_t N : {7, 16, 25})
      for (bool packed : {false, true}) {
        check({.M = M,
               .N = N,
               .K = 12,
               .a = ElementType::F64,
               .b = ElementType::F64,
               .sum = ElementType::F64,
               .out = ElementType::F64,
               .packed = packed},
              1e-14);
        for (ElementType type : {ElementType::I32, ElementType::U32, ElementType::I64, ElementType::U64})
          check({.M = M, .N = N, .K = 12, .a = type, .b = type, .sum = type, .out = type, .packed = packed}, 0);
        check({.M = M,
               .N = N,
               .K = 12,
               .a = ElementType::I8,
               .b = ElementType::I8,
               .sum = ElementType::I32,
               .out = ElementType::I32,
               .packed = packed},
              0);
        check({.M = M,
               .N = N,
               .K = 12,
               .a = ElementType::U8,
               .b = ElementType::I8,
               .sum = ElementType::I32,
               .out = ElementType::I32,
               .packed = packed},
              0);
      }
}

TEST(Matmul, narrowSums) {
  for (bool packed : {false, true})
    check({.M = 7,
           .N = 25,
           .K = 3,
           .a = ElementType::I16,
           .b = ElementType::I16,
           .sum = ElementType::I16,
           .out = ElementType::I16,
           .packed = packed},
          0);
}

TEST(Matmul, integerSumsWrap) {
  Problem p{.M = 1,
            .N = 1,
            .K = 2,
            .a = ElementType::I32,
            .b = ElementType::I32,
            .sum = ElementType::I32,
            .out = ElementType::I32};
  Prepared r = prepare(p);
  r.buffers[0]->put(0, 2147483647);
  r.buffers[0]->put(1, 1);
  r.buffers[1]->put(0, 1);
  r.buffers[1]->put(2, 1);
  KernelFn kernel = kernelFor(r.spec);
  ASSERT_TRUE(kernel);
  kernel(r.pointers.data(), r.integers.data(), 0, 1, nullptr);
  EXPECT_EQ(r.out->get(0), -2147483648.0);
}

std::vector<Instr> biasReluResidual() {
  return {Instr(Opcode::Add, ElementType::F32, 0, 1, 0, 0), Instr(Opcode::Constant, ElementType::F32, 0, 0, 0, 0),
          Instr(Opcode::Max, ElementType::F32, 3, 4, 0, 0), Instr(Opcode::Add, ElementType::F32, 5, 2, 0, 0)};
}

TEST(Matmul, epilogue) {
  auto expected = [](const Prepared &r, int64_t element, int64_t n, double sum) {
    return std::max(0.0, sum + r.biasValues[static_cast<size_t>(n)]) + r.residualValues[static_cast<size_t>(element)];
  };
  for (int64_t M : {1, 2, 5, 6, 8})
    for (int64_t N : {3, 16, 35, 64, 80})
      for (bool packed : {false, true})
        for (bool scalar : {false, true})
          for (int64_t K : {0, 20}) {
            Problem p{.M = M,
                      .N = N,
                      .K = K,
                      .packed = packed,
                      .program = biasReluResidual(),
                      .result = 6,
                      .bias = ElementType::F32,
                      .residual = ElementType::F32,
                      .biasScalar = scalar};
            check(p, kF32, expected);
            p.outTransposed = true;
            check(p, kF32, expected);
          }
}

/// The position of an element and its lane's own error: integers divided by a
/// row with one zero.
TEST(Matmul, epilogueErrorNamesTheElement) {
  Problem p{.M = 3,
            .N = 20,
            .K = 2,
            .batch = {2},
            .a = ElementType::I32,
            .b = ElementType::I32,
            .sum = ElementType::I32,
            .out = ElementType::I32,
            .program = {Instr(Opcode::Div, ElementType::I32, 0, 1, 0, 0)},
            .result = 2,
            .bias = ElementType::I32};
  Prepared r = prepare(p);
  for (int64_t n = 0; n < p.N; ++n)
    r.buffers[2]->put(n, 1);
  KernelFn kernel = kernelFor(r.spec);
  ASSERT_TRUE(kernel);
  ErrorWord error;
  kernel(r.pointers.data(), r.integers.data(), 0, r.tiles, &error);
  EXPECT_EQ(error.kind, ErrorKind::None) << "columns that do not exist are not divided by";
  r.buffers[2]->put(18, 0);
  kernel(r.pointers.data(), r.integers.data(), 3, 4, &error);
  EXPECT_EQ(error.kind, ErrorKind::DivisionByZero);
  EXPECT_EQ(error.element, (1 * 3 + 0) * 20 + 18);
}

TEST(Matmul, iotaInTheEpilogue) {
  Problem p{.M = 7, .N = 21, .K = 3, .batch = {2}};
  p.program = {Instr(Opcode::Convert, ElementType::F32, 1, 0, 0, 0), Instr(Opcode::Add, ElementType::F32, 0, 2, 0, 0)};
  p.result = 3;
  p.bias = ElementType::I64;
  Prepared r = prepare(p);
  // The bias becomes offset 1000 + 147 batch + 21 m + n.
  r.spec.inputs[0] = accessSpec(ElementType::I64, InnerMode::Contiguous, data::AccessKind::Iota);
  r.pointers[2] = nullptr;
  size_t block = 1 + 3 + 3 + 3;
  r.integers.insert(r.integers.begin() + block, 1000);
  std::vector<int64_t> strides = {147, 21, 1};
  std::copy(strides.begin(), strides.end(), r.integers.begin() + block + 1);
  KernelFn kernel = kernelFor(r.spec);
  ASSERT_TRUE(kernel);
  kernel(r.pointers.data(), r.integers.data(), 0, r.tiles, nullptr);
  for (int64_t batch = 0; batch < 2; ++batch)
    for (int64_t m = 0; m < 7; ++m)
      for (int64_t n = 0; n < 21; ++n) {
        double sum = 1000 + 147 * batch + 21 * m + n;
        for (int64_t k = 0; k < 3; ++k)
          sum += r.aValues[(batch * 7 + m) * 3 + k] * r.bValues[(batch * 3 + k) * 21 + n];
        ASSERT_NEAR(r.out->get(r.outAt(batch, m, n)), sum, 1e-3);
      }
}

/// CASES 57: no products give zeros, to which the epilogue still applies.
TEST(Matmul, innerExtentZero) {
  for (bool packed : {false, true}) {
    check({.M = 2, .N = 5, .K = 0, .packed = packed}, 0);
    check({.M = 8,
           .N = 5,
           .K = 0,
           .packed = packed,
           .program = {Instr(Opcode::Add, ElementType::F32, 0, 1, 0, 0)},
           .result = 2,
           .bias = ElementType::F32},
          0, [](const Prepared &r, int64_t, int64_t n, double) { return r.biasValues[static_cast<size_t>(n)]; });
  }
}

TEST(Matmul, nanAndInfinityStayInTheirRowsAndColumns) {
  for (bool packed : {false, true})
    for (int64_t M : {3, 6, 7}) {
      Problem p{.M = M, .N = 18, .K = 4, .packed = packed};
      Prepared r = prepare(p);
      r.buffers[0]->put(1 * 5 + 2, NAN);      // row 1 of A
      r.buffers[0]->put(0 * 5 + 0, INFINITY); // row 0
      int64_t bAt = packed ? (1 * 4 + 3) * 16 + 1 : 3 * 19 + 17;
      r.buffers[1]->put(bAt, -INFINITY); // column 17
      KernelFn kernel = kernelFor(r.spec);
      ASSERT_TRUE(kernel);
      kernel(r.pointers.data(), r.integers.data(), 0, r.tiles, nullptr);
      for (int64_t m = 0; m < M; ++m)
        for (int64_t n = 0; n < 18; ++n) {
          double got = r.out->get(r.outAt(0, m, n));
          if (m == 1)
            EXPECT_TRUE(std::isnan(got));
          else if (m == 0 || n == 17)
            EXPECT_FALSE(std::isfinite(got)) << m << ' ' << n;
          else
            EXPECT_TRUE(std::isfinite(got)) << m << ' ' << n;
        }
    }
}

/// What is taken from where it lies, what is packed, and steps of any sign.
TEST(Matmul, stridesOfEveryKind) {
  for (int64_t M : {1, 4, 7, 8, 30})
    for (int64_t N : {16, 40})
      for (ElementType type : {ElementType::F32, ElementType::F16}) {
        Problem p{.M = M, .N = N, .K = 6, .b = type};
        Prepared plain = prepare(p);
        ASSERT_TRUE(kernelFor(plain.spec));
        kernelFor(plain.spec)(plain.pointers.data(), plain.integers.data(), 0, plain.tiles, nullptr);
        // The same values with k, then with n, running backwards.
        for (bool backwardsK : {true, false}) {
          Prepared r = prepare(p);
          Buffer turned(type, (N + 1) * p.K);
          for (int64_t k = 0; k < p.K; ++k)
            for (int64_t n = 0; n < N; ++n)
              turned.put(backwardsK ? (p.K - 1 - k) * (N + 1) + n : k * (N + 1) + N - 1 - n,
                         r.bValues[static_cast<size_t>(k * N + n)]);
          r.pointers[1] = turned.at(backwardsK ? (p.K - 1) * (N + 1) : N - 1);
          (backwardsK ? r.integers[5] : r.integers[6]) *= -1;
          kernelFor(r.spec)(r.pointers.data(), r.integers.data(), 0, r.tiles, nullptr);
          for (int64_t m = 0; m < M; ++m)
            for (int64_t n = 0; n < N; ++n)
              ASSERT_EQ(r.out->get(r.outAt(0, m, n)), plain.out->get(plain.outAt(0, m, n)))
                  << "M " << M << " N " << N << (backwardsK ? " k " : " n ") << m << ' ' << n;
        }
        // B the same for each k.
        Prepared r = prepare(p);
        r.integers[5] = 0;
        kernelFor(r.spec)(r.pointers.data(), r.integers.data(), 0, r.tiles, nullptr);
        for (int64_t m = 0; m < M; ++m)
          for (int64_t n = 0; n < N; ++n) {
            double sum = 0;
            for (int64_t k = 0; k < p.K; ++k)
              sum += r.aValues[static_cast<size_t>(m * p.K + k)] * r.bValues[static_cast<size_t>(n)];
            ASSERT_NEAR(r.out->get(r.outAt(0, m, n)), sum, 1e-5);
          }
      }
}

/// CASES 60: a row alone and among others, however the rows split, and whatever
/// the range of tiles, has the same bits.
TEST(Matmul, aRowsBitsDependOnTheRowAlone) {
  constexpr int64_t kMost = 40;
  using Types = std::pair<ElementType, ElementType>;
  for (bool packed : {true, false})
    for (auto [a, b] : {Types(ElementType::F32, ElementType::F32), Types(ElementType::F32, ElementType::I8),
                        Types(ElementType::F32, ElementType::U8), Types(ElementType::F16, ElementType::F16)})
      for (int64_t N : {16, 100}) {
        std::vector<std::vector<uint32_t>> alone;
        for (int64_t M = kMost; M >= 1; --M) {
          Problem p{.M = M, .N = N, .K = 77, .a = a, .b = b, .packed = packed};
          // A of all rows is drawn first: the same rows and the same B each time.
          Problem whole = p;
          whole.M = kMost;
          Prepared r = prepare(whole);
          r.integers[0] = M;
          r.spec.row_class = rowClass(p);
          KernelFn kernel = kernelFor(r.spec);
          ASSERT_TRUE(kernel);
          for (int64_t step : {r.tiles, int64_t(1), int64_t(2), int64_t(3), int64_t(5)}) {
            for (int64_t tile = 0; tile < r.tiles; tile += step)
              kernel(r.pointers.data(), r.integers.data(), tile, std::min(tile + step, r.tiles), nullptr);
            std::vector<std::vector<uint32_t>> rows(static_cast<size_t>(M));
            for (int64_t m = 0; m < M; ++m)
              for (int64_t n = 0; n < N; ++n)
                rows[static_cast<size_t>(m)].push_back(
                    std::bit_cast<uint32_t>(static_cast<float>(r.out->get(r.outAt(0, m, n)))));
            if (M == kMost && step == r.tiles)
              alone = rows;
            for (int64_t m = 0; m < M; ++m)
              ASSERT_EQ(rows[static_cast<size_t>(m)], alone[static_cast<size_t>(m)]) << "M " << M << " row " << m;
          }
        }
      }
}

/// Rows and tiles that were not asked for stay as they were.
TEST(Matmul, aRangeWritesItsOwnPanelsOnly) {
  for (int64_t M : {1, 2, 5, 7, 16}) {
    Problem p{.M = M, .N = 150, .K = 5, .packed = true};
    Prepared r = prepare(p);
    KernelFn kernel = kernelFor(r.spec);
    ASSERT_TRUE(kernel);
    kernel(r.pointers.data(), r.integers.data(), 2, 8, nullptr);
    for (int64_t m = 0; m < M; ++m)
      for (int64_t n = 0; n < p.N; ++n)
        ASSERT_EQ(r.out->untouched(r.outAt(0, m, n)), n < 32 || n >= 128) << "M " << M << " column " << n;
  }
}

/// Row m of a batch of products has the bits of the same product alone.
TEST(Matmul, packedAndStridedGiveTheSameBits) {
  for (int64_t M : {1, 4, 9}) {
    Problem p{.M = M, .N = 37, .K = 50, .packed = true};
    Prepared packed = prepare(p);
    p.packed = false;
    Prepared strided = prepare(p);
    for (Prepared *r : {&packed, &strided})
      kernelFor(r->spec)(r->pointers.data(), r->integers.data(), 0, r->tiles, nullptr);
    for (int64_t m = 0; m < M; ++m)
      for (int64_t n = 0; n < 37; ++n)
        ASSERT_EQ(packed.out->get(packed.outAt(0, m, n)), strided.out->get(strided.outAt(0, m, n)));
  }
}

/// Nothing a variant uses becomes a call on any machine, and a spec always
/// gives the same bytes.
TEST(Matmul, compilesForOtherMachinesAndToTheSameBytes) {
  struct Types {
    ElementType a, b, sum;
  };
  for (const char *target : {"x86_64:x86-64-v3:", "x86_64:sapphirerapids:"})
    for (Types types : {Types{ElementType::F32, ElementType::F32, ElementType::F32},
                        Types{ElementType::F16, ElementType::F16, ElementType::F32},
                        Types{ElementType::BF16, ElementType::BF16, ElementType::F32},
                        Types{ElementType::F32, ElementType::I8, ElementType::F32},
                        Types{ElementType::F64, ElementType::F64, ElementType::F64},
                        Types{ElementType::I64, ElementType::I64, ElementType::I64}})
      for (bool packed : {false, true}) {
        Prepared r = prepare(
            {.M = 8, .N = 20, .K = 3, .a = types.a, .b = types.b, .sum = types.sum, .out = types.a, .packed = packed});
        r.spec.target = target;
        r.spec.revision = kEmitterRevision;
        auto image = compileKernel(r.spec);
        ASSERT_TRUE(image) << target << ": " << image.error().message;
        auto again = compileKernel(r.spec);
        ASSERT_TRUE(again);
        EXPECT_EQ(image->code, again->code);
        EXPECT_LT(image->stack_bytes, 4096u);
      }
}

TEST(Matmul, indexedEpilogueOperandIsRefused) {
  Prepared r = prepare({.M = 1, .N = 1, .K = 1, .bias = ElementType::F32});
  r.spec.inputs[0]->kind = data::AccessKind::Indexed;
  r.spec.inputs[0]->index_inner = {InnerMode::Contiguous};
  r.spec.target = hostTarget();
  r.spec.revision = kEmitterRevision;
  auto image = compileKernel(r.spec);
  ASSERT_FALSE(image);
  EXPECT_EQ(image.error().code, ErrorCode::Unsupported);
  EXPECT_THAT(image.error().message, testing::HasSubstr("matmul"));
}

} // namespace
