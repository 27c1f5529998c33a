#include "KernelHarness.h"

#include <gmock/gmock.h>

using namespace rlx;
using namespace rlx::test;
using data::InnerMode;
using data::Instr;
using data::Opcode;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

struct Problem {
  int64_t batch = 1, heads = 2, M = 1, N = 1, K = 8, D = 8;
  ElementType type = ElementType::F32;
  /// As exporters lay heads out: [batch, row, head, element].
  bool headsInside = true;
  /// Elements of q, k, v and the output lie apart.
  bool strided = false;
  bool mask = false; ///< [batch, 1, M, N], added
  bool zeroNaN = false;
  unsigned rowClass = kAttentionRows;
  float scale = 0.25f;
};

/// An operand [batch, heads, rows, elements] of the problem, in some layout.
struct Tensor {
  std::unique_ptr<Buffer> buffer;
  int64_t strides[4];

  Tensor(const Problem &p, int64_t rows, int64_t elements) {
    // Each row is a little longer than it needs to be.
    int64_t inner = p.strided ? 3 : 1, pitch = elements * inner + 2;
    if (p.headsInside) {
      strides[1] = pitch;
      strides[2] = pitch * p.heads + 1;
      strides[0] = strides[2] * rows + 3;
    } else {
      strides[2] = pitch;
      strides[1] = pitch * rows + 1;
      strides[0] = strides[1] * p.heads + 3;
    }
    strides[3] = inner;
    int64_t last = elements == 0 || rows == 0 ? 0
                                              : (p.batch - 1) * strides[0] + (p.heads - 1) * strides[1] +
                                                    (rows - 1) * strides[2] + (elements - 1) * inner + 1;
    buffer = std::make_unique<Buffer>(p.type, last);
  }
  int64_t place(int64_t b, int64_t h, int64_t row, int64_t i) const {
    return b * strides[0] + h * strides[1] + row * strides[2] + i * strides[3];
  }
  double get(int64_t b, int64_t h, int64_t row, int64_t i) { return buffer->get(place(b, h, row, i)); }
  void put(int64_t b, int64_t h, int64_t row, int64_t i, double value) { buffer->put(place(b, h, row, i), value); }
};

struct Prepared {
  Problem p;
  Tensor q, k, v, out;
  std::unique_ptr<Buffer> mask, scratch;
  data::KernelSpecT spec;

  explicit Prepared(const Problem &p, uint32_t seed = 1)
      : p(p), q(p, p.M, p.K), k(p, p.N, p.K), v(p, p.N, p.D), out(p, p.M, p.D) {
    std::mt19937 random(seed);
    for (Tensor *tensor : {&q, &k, &v})
      tensor->buffer->fillRandom(random);
    mask = std::make_unique<Buffer>(ElementType::F32, p.batch * p.M * p.N);
    mask->fillRandom(random);
    scratch = std::make_unique<Buffer>(ElementType::F32, attentionScratchBytes(p.M, p.N, p.K, p.D) / 4);
    spec.family = data::Family::Attention;
    spec.rank = 4;
    spec.batch_rank = 2;
    spec.row_class = static_cast<uint8_t>(p.rowClass);
    spec.zero_nan = p.zeroNaN;
    InnerMode inner = p.strided ? InnerMode::Strided : InnerMode::Contiguous;
    for (int i = 0; i < 3; ++i)
      spec.inputs.push_back(accessSpec(p.type, inner));
    spec.outputs.push_back(accessSpec(p.type, inner));
    uint16_t first = p.mask ? 2 : 1;
    spec.program = {Instr(Opcode::Constant, ElementType::F32, 0, 0, 0, std::bit_cast<uint32_t>(p.scale)),
                    Instr(Opcode::Mul, ElementType::F32, 0, first, 0, 0)};
    spec.results = {static_cast<uint16_t>(first + 1)};
    if (p.mask) {
      spec.inputs.push_back(accessSpec(ElementType::F32));
      spec.program.push_back(Instr(Opcode::Add, ElementType::F32, 3, 1, 0, 0));
      spec.results = {4};
    }
  }

  int64_t tiles() const { return p.batch * p.heads * ((p.M + p.rowClass - 1) / p.rowClass); }
  void putMask(int64_t b, int64_t m, int64_t n, double value) { mask->put((b * p.M + m) * p.N + n, value); }

  /// With the integers and pointers of the program's inputs.
  ErrorWord call(std::vector<int64_t> inputIntegers, std::vector<void *> inputPointers, int64_t begin, int64_t end) {
    ErrorWord error;
    KernelFn kernel = kernelFor(spec);
    EXPECT_TRUE(kernel);
    if (!kernel)
      return error;
    std::vector<int64_t> integers = {p.batch, p.heads, p.M, p.N, p.K, p.D};
    std::vector<void *> pointers;
    for (Tensor *tensor : {&q, &k, &v, &out}) {
      integers.insert(integers.end(), tensor->strides, tensor->strides + 4);
      pointers.push_back(tensor->buffer->data);
    }
    integers.insert(integers.end(), inputIntegers.begin(), inputIntegers.end());
    pointers.insert(pointers.end(), inputPointers.begin(), inputPointers.end());
    // Kernels are given memory aligned to 64 bytes.
    std::vector<float> room(static_cast<size_t>(scratch->elements) + 32);
    char *aligned = reinterpret_cast<char *>((reinterpret_cast<uintptr_t>(room.data()) + 63) & ~uintptr_t(63));
    pointers.push_back(aligned);
    float *guard = reinterpret_cast<float *>(aligned) + scratch->elements;
    *guard = 1234.5f;
    kernel(pointers.data(), integers.data(), begin, end, &error);
    EXPECT_EQ(*guard, 1234.5f) << "more scratch than promised";
    return error;
  }
  void run(int64_t begin, int64_t end) {
    ErrorWord error = p.mask ? call({p.M * p.N, 0, p.N, 1}, {mask->data}, begin, end) : call({}, {}, begin, end);
    EXPECT_EQ(error.kind, ErrorKind::None);
  }
  void run() { run(0, tiles()); }

  /// What the parts give, in double.
  std::vector<double> reference(int64_t b, int64_t h, int64_t m) {
    std::vector<double> scores(static_cast<size_t>(p.N)), result(static_cast<size_t>(p.D));
    double largest = -kInf;
    for (int64_t n = 0; n < p.N; ++n) {
      double sum = 0;
      for (int64_t i = 0; i < p.K; ++i)
        sum += q.get(b, h, m, i) * k.get(b, h, n, i);
      sum *= p.scale;
      if (p.mask)
        sum += mask->get((b * p.M + m) * p.N + n);
      scores[static_cast<size_t>(n)] = sum;
      largest = std::max(largest, sum);
    }
    double total = 0;
    for (double &score : scores)
      total += score = std::exp(score - largest);
    for (int64_t n = 0; n < p.N; ++n) {
      double probability = scores[static_cast<size_t>(n)] / total;
      if (p.zeroNaN && std::isnan(probability))
        probability = 0;
      for (int64_t i = 0; i < p.D; ++i)
        result[static_cast<size_t>(i)] += probability * v.get(b, h, n, i);
    }
    return result;
  }

  void check(double tolerance = 2e-6) {
    if (p.type == ElementType::F16)
      tolerance = 1e-3;
    if (p.type == ElementType::BF16)
      tolerance = 8e-3;
    for (int64_t b = 0; b < p.batch; ++b)
      for (int64_t h = 0; h < p.heads; ++h)
        for (int64_t m = 0; m < p.M; ++m) {
          std::vector<double> expected = reference(b, h, m);
          for (int64_t i = 0; i < p.D; ++i) {
            double want = expected[static_cast<size_t>(i)], got = out.get(b, h, m, i);
            if (std::isnan(want))
              ASSERT_TRUE(std::isnan(got)) << got << " at " << b << " " << h << " " << m << " " << i;
            else if (std::isinf(want))
              ASSERT_EQ(got, want) << b << " " << h << " " << m << " " << i;
            else
              ASSERT_NEAR(got, want, tolerance) << b << " " << h << " " << m << " " << i;
          }
        }
  }
  std::vector<std::vector<double>> rowsOf(int64_t b, int64_t h) {
    std::vector<std::vector<double>> result;
    for (int64_t m = 0; m < p.M; ++m) {
      result.emplace_back();
      for (int64_t i = 0; i < p.D; ++i)
        result.back().push_back(out.get(b, h, m, i));
    }
    return result;
  }
};

void runAndCheck(const Problem &p) {
  SCOPED_TRACE(testing::Message() << "M " << p.M << " N " << p.N << " K " << p.K << " D " << p.D << " strided "
                                  << p.strided << " type " << int(p.type));
  Prepared r(p);
  r.run();
  r.check();
}

TEST(Attention, OddSizes) {
  for (int64_t M : {1, 5, 6, 7, 13, 33})
    for (int64_t N : {1, 2, 15, 16, 17, 33, 70})
      runAndCheck({.batch = 2, .M = M, .N = N, .K = 9, .D = 17, .mask = (M + N) % 2 == 0});
}

TEST(Attention, QueriesOfSeveralGroups) {
  for (int64_t M : {24, 25, 48, 55, 131})
    runAndCheck({.heads = 3, .M = M, .N = 130, .K = 32, .D = 32, .mask = true});
}

TEST(Attention, ElementsOfRows) {
  for (int64_t K : {1, 7, 8, 9, 15, 16, 31, 64, 80})
    for (int64_t D : {1, 2, 16, 33, 64, 80})
      runAndCheck({.M = 7, .N = 19, .K = K, .D = D});
}

TEST(Attention, Layouts) {
  for (bool headsInside : {false, true})
    for (bool strided : {false, true})
      for (int64_t M : {6, 40})
        runAndCheck({.batch = 2, .M = M, .N = 21, .K = 12, .D = 20, .headsInside = headsInside, .strided = strided});
}

TEST(Attention, NarrowTypes) {
  for (ElementType type : {ElementType::F16, ElementType::BF16})
    for (bool strided : {false, true})
      for (int64_t M : {3, 31})
        runAndCheck({.M = M, .N = 37, .K = 24, .D = 19, .type = type, .strided = strided, .mask = M == 3});
}

TEST(Attention, NoElementsInAQuery) {
  // Scores are sums over nothing: every key weighs the same.
  runAndCheck({.M = 4, .N = 5, .K = 0, .D = 3});
}

TEST(Attention, NoKeys) {
  Prepared r({.M = 8, .N = 0, .K = 4, .D = 5, .mask = true});
  r.run();
  for (int64_t m = 0; m < 8; ++m)
    for (int64_t i = 0; i < 5; ++i)
      EXPECT_EQ(r.out.get(0, 1, m, i), 0);
}

TEST(Attention, OneQuery) {
  for (int64_t N : {1, 16, 64, 100, 257})
    for (bool strided : {false, true})
      runAndCheck({.batch = 2, .M = 1, .N = N, .K = 40, .D = 72, .strided = strided, .mask = true, .rowClass = 1});
}

TEST(Attention, OneQueryOfManyHeads) {
  // Heads inside of rows walk the keys together, 24 at most; others one by one. Whatever tiles are called for, and as
  // rows of a larger tile, the bits are the same.
  for (bool headsInside : {false, true})
    for (int64_t heads : {1, 5, 26})
      for (ElementType type : {ElementType::F32, ElementType::F16}) {
        int64_t size = heads;
        for (int64_t N : {15, 16, 17, 41, 64}) {
          size += 3;
          Problem p{.batch = 2,
                    .heads = heads,
                    .M = 1,
                    .N = N,
                    .K = size % 2 ? 61 : 64,
                    .D = 64 * (size % 4) + 24,
                    .type = type,
                    .headsInside = headsInside,
                    .mask = true,
                    .rowClass = 1};
          SCOPED_TRACE(testing::Message()
                       << "heads " << heads << " N " << N << " inside " << headsInside << " type " << int(type));
          Prepared whole(p), parts(p);
          whole.run();
          whole.check();
          for (int64_t tile = 0; tile < parts.tiles(); tile += 3)
            parts.run(tile, std::min(tile + 3, parts.tiles()));
          p.rowClass = kAttentionRows;
          Prepared tiles(p);
          tiles.run();
          for (int64_t b = 0; b < 2; ++b)
            for (int64_t h = 0; h < heads; ++h) {
              EXPECT_EQ(whole.rowsOf(b, h), parts.rowsOf(b, h));
              EXPECT_EQ(whole.rowsOf(b, h), tiles.rowsOf(b, h));
            }
        }
      }
}

TEST(Attention, HeadsThatShareKeys) {
  for (int64_t M : {1, 3}) {
    Prepared r({.heads = 6, .M = M, .N = 50, .K = 24, .D = 64, .mask = true, .rowClass = 1});
    r.k.strides[1] = r.v.strides[1] = 0;
    r.run();
    r.check();
  }
}

TEST(Attention, NothingButItsElementsIsWritten) {
  // 16 queries are whole tiles, 13 are not; 32 elements are whole vectors, 31 are not.
  for (int64_t M : {1, 13, 16, 48})
    for (int64_t D : {31, 32, 64})
      for (bool headsInside : {false, true}) {
        Prepared r({.batch = 2,
                    .M = M,
                    .N = 70,
                    .K = 8,
                    .D = D,
                    .headsInside = headsInside,
                    .rowClass = M == 1 ? 1u : unsigned(kAttentionRows)});
        constexpr double kUntouched = 4711;
        for (int64_t i = 0; i < r.out.buffer->elements; ++i)
          r.out.buffer->put(i, kUntouched);
        r.run();
        r.check();
        int64_t untouched = 0;
        for (int64_t i = 0; i < r.out.buffer->elements; ++i)
          untouched += r.out.buffer->get(i) == kUntouched;
        EXPECT_EQ(untouched, r.out.buffer->elements - 2 * 2 * M * D) << M << " " << D << " " << headsInside;
      }
}

TEST(Attention, RowClassesAndTilesGiveTheSameBits) {
  Problem p{.batch = 2, .M = 29, .N = 75, .K = 20, .D = 24, .mask = true};
  Prepared whole(p);
  whole.run();
  Prepared parts(p);
  for (int64_t tile = parts.tiles(); tile-- > 0;)
    parts.run(tile, tile + 1);
  p.rowClass = 1;
  // As many queries as a group holds at most are one query at a time just as well.
  Problem few = p;
  few.M = 11;
  Prepared one(few), six([&] {
    Problem six = few;
    six.rowClass = kAttentionRows;
    return six;
  }());
  one.run();
  six.run();
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t h = 0; h < 2; ++h) {
      EXPECT_EQ(whole.rowsOf(b, h), parts.rowsOf(b, h));
      EXPECT_EQ(one.rowsOf(b, h), six.rowsOf(b, h));
    }
}

TEST(Attention, AnyNumberOfBatchLoops) {
  // Heads alone as one loop, none at all, and three of which one has one turn.
  Prepared two({.batch = 1, .M = 9, .N = 20, .K = 8, .D = 8});
  two.run();
  auto check = [&](std::vector<int64_t> extents, std::vector<int> loops, int64_t head) {
    Prepared r({.batch = 1, .M = 9, .N = 20, .K = 8, .D = 8});
    r.spec.batch_rank = static_cast<uint8_t>(extents.size());
    r.spec.rank = static_cast<uint8_t>(extents.size() + 2);
    KernelFn kernel = kernelFor(r.spec);
    ASSERT_TRUE(kernel);
    std::vector<int64_t> integers = extents;
    int64_t tiles = 2; // of nine queries
    for (int64_t extent : extents)
      tiles *= extent;
    integers.insert(integers.end(), {9, 20, 8, 8});
    std::vector<void *> pointers;
    for (Tensor *tensor : {&r.q, &r.k, &r.v, &r.out}) {
      for (int loop : loops)
        integers.push_back(loop < 0 ? 4711 : tensor->strides[loop]);
      integers.insert(integers.end(), {tensor->strides[2], tensor->strides[3]});
      pointers.push_back(tensor->buffer->at(head * tensor->strides[1]));
    }
    std::vector<float> room(static_cast<size_t>(r.scratch->elements) + 16);
    pointers.push_back(reinterpret_cast<void *>((reinterpret_cast<uintptr_t>(room.data()) + 63) & ~uintptr_t(63)));
    ErrorWord error;
    kernel(pointers.data(), integers.data(), 0, tiles, &error);
    for (int64_t h = head; h < (extents.empty() ? head + 1 : 2); ++h)
      EXPECT_EQ(r.rowsOf(0, h), two.rowsOf(0, h));
  };
  check({2}, {1}, 0);
  check({}, {}, 1);
  check({1, 1, 2}, {-1, -1, 1}, 0);
}

TEST(Attention, PaddingAndNeighboursChangeNoBit) {
  // 10 queries and 10 keys; the same among 37, where the keys beyond are masked by -inf and hold other values.
  Prepared small({.M = 10, .N = 10, .K = 16, .D = 16, .mask = true}, 1);
  Prepared large({.M = 37, .N = 37, .K = 16, .D = 16, .mask = true}, 2);
  for (int64_t h = 0; h < 2; ++h)
    for (int64_t r = 0; r < 10; ++r)
      for (int64_t i = 0; i < 16; ++i) {
        large.q.put(0, h, r, i, small.q.get(0, h, r, i));
        large.k.put(0, h, r, i, small.k.get(0, h, r, i));
        large.v.put(0, h, r, i, small.v.get(0, h, r, i));
      }
  for (int64_t m = 0; m < 37; ++m)
    for (int64_t n = 0; n < 37; ++n)
      large.putMask(0, m, n, m < 10 && n < 10 ? small.mask->get(m * 10 + n) : n < 10 ? 0.5 : -kInf);
  small.run();
  large.run();
  for (int64_t h = 0; h < 2; ++h) {
    auto all = large.rowsOf(0, h);
    all.resize(10);
    EXPECT_EQ(all, small.rowsOf(0, h));
  }
}

TEST(Attention, MaskedRowsAndNaN) {
  for (bool zeroNaN : {false, true}) {
    Prepared r({.heads = 1, .M = 9, .N = 20, .K = 8, .D = 5, .mask = true, .zeroNaN = zeroNaN});
    for (int64_t n = 0; n < 20; ++n) {
      r.putMask(0, 1, n, -kInf);                // nothing to look at
      r.putMask(0, 2, n, n == 7 ? 0.0 : -kInf); // one key alone
    }
    r.putMask(0, 3, 19, kNaN);
    r.putMask(0, 4, 2, kInf);
    r.putMask(0, 5, 0, -1e30);
    r.run();
    r.check();
    for (int64_t i = 0; i < 5; ++i) {
      if (zeroNaN)
        EXPECT_EQ(r.out.get(0, 0, 1, i), 0);
      else
        EXPECT_TRUE(std::isnan(r.out.get(0, 0, 1, i)));
      EXPECT_EQ(r.out.get(0, 0, 2, i), r.v.get(0, 0, 7, i));
    }
  }
}

TEST(Attention, ZeroTimesInfinityIsNaN) {
  for (bool zeroNaN : {false, true}) {
    Prepared r({.heads = 1, .M = 3, .N = 6, .K = 8, .D = 4, .mask = true, .zeroNaN = zeroNaN});
    r.v.put(0, 0, 4, 1, kInf);
    for (int64_t n = 0; n < 6; ++n)
      r.putMask(0, 1, n, -kInf);
    r.putMask(0, 2, 4, -kInf);
    r.run();
    r.check();
    EXPECT_EQ(r.out.get(0, 0, 0, 1), kInf);
    EXPECT_TRUE(std::isnan(r.out.get(0, 0, 1, 1)));
    EXPECT_TRUE(std::isnan(r.out.get(0, 0, 2, 1)));
  }
}

TEST(Attention, LargeValuesDoNotOverflowOnTheWay) {
  // The probabilities are divided before they meet v, as in the parts.
  Prepared r({.heads = 1, .M = 2, .N = 4, .K = 1, .D = 1});
  for (int64_t n = 0; n < 4; ++n) {
    r.k.put(0, 0, n, 0, 0);
    r.v.put(0, 0, n, 0, 2e38);
  }
  r.run();
  EXPECT_NEAR(r.out.get(0, 0, 1, 0), 2e38, 1e33);
}

TEST(Attention, ProgramsWithOtherOperands) {
  // select(x1 != 0, score, x2): a mask of bytes and a scalar.
  Prepared r({.heads = 1, .M = 8, .N = 23, .K = 8, .D = 8});
  r.spec.inputs.push_back(accessSpec(ElementType::I1));
  r.spec.inputs.push_back(accessSpec(ElementType::F32, InnerMode::Splat));
  r.spec.program = {Instr(Opcode::Select, ElementType::F32, 1, 0, 2, 0)};
  r.spec.results = {3};
  Buffer keep(ElementType::I1, 8 * 23), low(ElementType::F32, 1);
  low.put(0, -kInf);
  for (int64_t i = 0; i < 8 * 23; ++i)
    keep.put(i, i % 23 == 3 + i / 23);
  r.call({0, 0, 23, 1, 0, 0, 0, 0}, {keep.data, low.data}, 0, r.tiles());
  for (int64_t m = 0; m < 8; ++m)
    for (int64_t i = 0; i < 8; ++i)
      EXPECT_EQ(r.out.get(0, 0, m, i), r.v.get(0, 0, 3 + m, i)) << m << " " << i;
}

/// The program also computes on lanes behind the last key, of what happens to lie there: these raise no error.
TEST(Attention, ErrorsOfThePrograms) {
  for (unsigned rowClass : {1u, unsigned(kAttentionRows)})
    for (int64_t M : {1, 11})
      for (int64_t N : {1, 16, 19, 70}) {
        Prepared r({.batch = 2, .heads = 3, .M = M, .N = N, .rowClass = rowClass});
        r.spec.inputs.push_back(accessSpec(ElementType::I32));
        r.spec.program = {Instr(Opcode::Constant, ElementType::I32, 0, 0, 0, 12),
                          Instr(Opcode::Div, ElementType::I32, 2, 1, 0, 0),
                          Instr(Opcode::Convert, ElementType::F32, 3, 0, 0, 0)};
        r.spec.results = {4};
        Buffer divisors(ElementType::I32, 2 * M * N); // shared by the heads
        for (int64_t i = 0; i < 2 * M * N; ++i)
          divisors.put(i, 3);
        auto run = [&] { return r.call({M * N, 0, N, 1}, {divisors.data}, 0, r.tiles()); };
        EXPECT_EQ(run().kind, ErrorKind::None) << M << " " << N << " " << rowClass;
        // Of the second batch, for its first head.
        divisors.put(M * N + M * N - 1, 0);
        ErrorWord error = run();
        EXPECT_EQ(error.kind, ErrorKind::DivisionByZero);
        EXPECT_EQ(error.element, 3 * M * N + M * N - 1) << M << " " << N << " " << rowClass;
      }
}

TEST(Attention, PositionsInThePrograms) {
  // Keys up to 2 behind the query's own number, by a mask and by the numbers themselves: the same bits.
  for (unsigned rowClass : {1u, unsigned(kAttentionRows)})
    for (int64_t M : {1, 13})
      for (int64_t N : {3, 16, 41}) {
        Prepared masked({.M = M, .N = N, .mask = true, .rowClass = rowClass, .scale = 1});
        for (int64_t m = 0; m < M; ++m)
          for (int64_t n = 0; n < N; ++n)
            masked.putMask(0, m, n, n <= m + 2 ? 0 : -kInf);
        masked.run();
        masked.check();
        Prepared r({.M = M, .N = N, .rowClass = rowClass});
        r.spec.inputs.push_back(accessSpec(ElementType::I64, InnerMode::Contiguous, data::AccessKind::Iota));
        r.spec.program = {Instr(Opcode::Constant, ElementType::I64, 0, 0, 0, 2),
                          Instr(Opcode::LessEqual, ElementType::I1, 1, 2, 0, 0),
                          Instr(Opcode::Constant, ElementType::F32, 0, 0, 0, 0xff800000), // -inf
                          Instr(Opcode::Select, ElementType::F32, 3, 0, 4, 0)};
        r.spec.results = {5};
        r.call({0, 0, 0, -1, 1}, {nullptr}, 0, r.tiles()); // n - m
        for (int64_t h = 0; h < 2; ++h)
          EXPECT_EQ(r.rowsOf(0, h), masked.rowsOf(0, h)) << M << " " << N << " " << rowClass;
      }
}

TEST(Attention, SpecsThatAreRefused) {
  auto refused = [](auto change) {
    Prepared r({.mask = true});
    r.spec.target = testTarget();
    r.spec.revision = kEmitterRevision;
    change(r.spec);
    return validateSpec(r.spec).error().message;
  };
  using data::KernelSpecT;
  EXPECT_THAT(refused([](KernelSpecT &spec) { spec.row_class = 2; }), testing::HasSubstr("row class 2"));
  EXPECT_THAT(refused([](KernelSpecT &spec) { spec.inputs.resize(2); }), testing::HasSubstr("q, k, v"));
  EXPECT_THAT(refused([](KernelSpecT &spec) { spec.inputs[1]->type = ElementType::F64; }),
              testing::HasSubstr("f32, f16 or bf16"));
  EXPECT_THAT(refused([](KernelSpecT &spec) { spec.outputs[0]->type = ElementType::I32; }),
              testing::HasSubstr("f32, f16 or bf16"));
  EXPECT_THAT(refused([](KernelSpecT &spec) { spec.results = {9}; }), testing::HasSubstr("no value"));
  EXPECT_THAT(refused([](KernelSpecT &spec) {
                spec.program.push_back(Instr(Opcode::IsNaN, ElementType::I1, 0, 0, 0, 0));
                spec.results = {5};
              }),
              testing::HasSubstr("scores are not i1"));
}

} // namespace
