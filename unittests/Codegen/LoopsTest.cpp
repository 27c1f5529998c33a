//===- LoopsTest.cpp - loop nests, gathers, scatters, reductions, scans ---===//
#include "KernelRunner.h"

#include "rlx/Data/Serialize.h"

#include <array>
#include <cmath>
#include <numeric>
#include <random>
#include <thread>

using namespace rlx;
using namespace rlx::test;
using data::Combine;
using data::Family;
using data::KernelSpecT;
using data::ReduceKind;

namespace {

std::vector<float> ramp(size_t n, float scale = 1) {
  std::vector<float> out(n);
  for (size_t i = 0; i < n; ++i)
    out[i] = (static_cast<float>(i % 251) - 100) * scale;
  return out;
}

class OnTarget : public testing::TestWithParam<std::string> {
protected:
  std::unique_ptr<Kernel> compile(KernelSpecT spec) {
    spec.target = GetParam();
    auto kernel = std::make_unique<Kernel>(std::move(spec));
    EXPECT_TRUE(*kernel) << kernel->error;
    return kernel;
  }
};

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

class LoopsTest : public OnTarget {};

TEST_P(LoopsTest, TailsTouchNothingElse) {
  for (ElementType type :
       {ElementType::I1, ElementType::I8, ElementType::I16, ElementType::F16, ElementType::F32, ElementType::F64}) {
    KernelSpecT spec = elementwise({type}, {}, type);
    spec.results = {0};
    auto kernel = compile(std::move(spec));
    size_t size = static_cast<size_t>(elementBytes(type));
    for (size_t n = 1; n <= 70; ++n) {
      // Neither a read nor a write beyond the end goes unseen.
      Guarded in(n * size), out(n * size);
      std::vector<uint8_t> before(32, 0xab);
      for (size_t i = 0; i < n * size; ++i)
        in.data[i] = type == ElementType::I1 ? i & 1 : static_cast<uint8_t>(i * 7 + 1);
      memcpy(out.data - 32, before.data(), 32);
      kernel->run({in.data, out.data}, {static_cast<int64_t>(n), 1, 1}, 0, 1);
      EXPECT_EQ(memcmp(in.data, out.data, n * size), 0) << elementTypeName(type) << " " << n;
      EXPECT_EQ(memcmp(out.data - 32, before.data(), 32), 0) << elementTypeName(type) << " " << n;
    }
  }
}

TEST_P(LoopsTest, BlocksOfOneLoop) {
  auto kernel =
      compile(elementwise({ElementType::F32}, {instr(Opcode::Add, ElementType::F32, 0, 0)}, ElementType::F32));
  int64_t n = 2 * kLoopsBlock + 5;
  std::vector<float> x = ramp(static_cast<size_t>(n)), out(static_cast<size_t>(n), -1);
  kernel->run({x.data(), out.data()}, {n, 1, 1}, 1, 2);
  for (int64_t i = 0; i < n; ++i)
    EXPECT_EQ(out[static_cast<size_t>(i)],
              i >= kLoopsBlock && i < 2 * kLoopsBlock ? 2 * x[static_cast<size_t>(i)] : -1);
  kernel->run({x.data(), out.data()}, {n, 1, 1}, 2, 3);
  EXPECT_EQ(out[static_cast<size_t>(n - 1)], 2 * x[static_cast<size_t>(n - 1)]);
  EXPECT_EQ(out[0], -1);
}

TEST_P(LoopsTest, StridesAndBroadcasts) {
  // out[i][j][k] = a[j][k] (transposed in memory) + b[i] + c[k]
  KernelSpecT spec;
  spec.family = Family::Loops;
  spec.rank = 3;
  spec.inputs.push_back(access(ElementType::F32, InnerMode::Strided));
  spec.inputs.push_back(access(ElementType::F32, InnerMode::Splat));
  spec.inputs.push_back(access(ElementType::F32));
  spec.outputs.push_back(access(ElementType::F32));
  spec.program = {instr(Opcode::Add, ElementType::F32, 0, 1), instr(Opcode::Add, ElementType::F32, 3, 2)};
  spec.results = {4};
  auto kernel = compile(std::move(spec));
  for (int64_t I : {1, 2, 3})
    for (int64_t J : {1, 2, 5})
      for (int64_t K : {1, 2, 7, 8, 9, 16, 19}) {
        std::vector<float> a = ramp(static_cast<size_t>(J * K)), b = ramp(static_cast<size_t>(I), 3),
                           c = ramp(static_cast<size_t>(K), 0.5f);
        std::vector<float> out(static_cast<size_t>(I * J * K), NAN);
        std::vector<int64_t> integers = {I, J, K, 0, 1, J, 1, 0, 0, 0, 0, 1, J * K, K, 1};
        // In two calls: tiles are rows.
        int64_t middle = I * J / 2;
        kernel->run({a.data(), b.data(), c.data(), out.data()}, integers, 0, middle);
        kernel->run({a.data(), b.data(), c.data(), out.data()}, integers, middle, I * J);
        for (int64_t i = 0; i < I; ++i)
          for (int64_t j = 0; j < J; ++j)
            for (int64_t k = 0; k < K; ++k)
              ASSERT_EQ(out[static_cast<size_t>((i * J + j) * K + k)],
                        a[static_cast<size_t>(k * J + j)] + b[static_cast<size_t>(i)] + c[static_cast<size_t>(k)]);
      }
}

/// out[i][j][k] = in[i][k][j], in calls of any number of rows. Nothing outside of the operands is read or written.
TEST_P(LoopsTest, Transpose) {
  for (ElementType type : {ElementType::I1, ElementType::I8, ElementType::BF16, ElementType::F32, ElementType::I64}) {
    KernelSpecT spec;
    spec.family = Family::Loops;
    spec.rank = 3;
    spec.inputs.push_back(access(type, InnerMode::Strided));
    spec.outputs.push_back(access(type));
    spec.results = {0};
    auto kernel = compile(std::move(spec));
    size_t size = static_cast<size_t>(elementBytes(type));
    for (int64_t J : {1, 7, 8, 15, 16, 17, 33, 40})
      for (int64_t K : {2, 7, 8, 9, 15, 16, 17, 37, 131}) {
        int64_t I = 3, pitch = J + 2; // rows of `in` are not neighbours
        Guarded in(static_cast<size_t>((I * K - 1) * pitch + J) * size), out(static_cast<size_t>(I * J * K) * size);
        for (size_t i = 0; i < static_cast<size_t>((I * K - 1) * pitch + J) * size; ++i)
          in.data[i] = static_cast<uint8_t>(type == ElementType::I1 ? i % 3 == 0 : i * 37 + i / 256);
        memset(out.data, 0xcd, static_cast<size_t>(I * J * K) * size);
        std::vector<int64_t> integers = {I, J, K, K * pitch, 1, pitch, J * K, K, 1};
        int64_t cuts[] = {0, std::min<int64_t>(5, I * J), I * J / 2 + 1, I * J};
        for (int call = 0; call < 3; ++call)
          if (cuts[call] < cuts[call + 1])
            kernel->run({in.data, out.data}, integers, cuts[call], cuts[call + 1]);
        for (int64_t i = 0; i < I; ++i)
          for (int64_t j = 0; j < J; ++j)
            for (int64_t k = 0; k < K; ++k)
              ASSERT_EQ(memcmp(out.data + static_cast<size_t>((i * J + j) * K + k) * size,
                               in.data + static_cast<size_t>((i * K + k) * pitch + j) * size, size),
                        0)
                  << elementTypeName(type) << " " << J << "x" << K << " at " << i << " " << j << " " << k;
        // What is not asked for stays.
        memset(out.data, 0xcd, static_cast<size_t>(I * J * K) * size);
        kernel->run({in.data, out.data}, integers, J, 2 * J);
        for (int64_t i : {int64_t(0), J * K - 1, 2 * J * K, 3 * J * K - 1})
          ASSERT_EQ(out.data[static_cast<size_t>(i) * size], 0xcd);
      }
  }
}

/// out[j][k] = f32(a[k][j] (bytes) + b[k][j]) * c[j] + d[j][k], to a strided output; and the same where b strides
/// otherwise, so that nothing is turned.
TEST_P(LoopsTest, TransposedInputsOfAProgram) {
  KernelSpecT spec;
  spec.family = Family::Loops;
  spec.rank = 2;
  spec.inputs.push_back(access(ElementType::I8, InnerMode::Strided));
  spec.inputs.push_back(access(ElementType::F32, InnerMode::Strided));
  spec.inputs.push_back(access(ElementType::F32, InnerMode::Splat));
  spec.inputs.push_back(access(ElementType::F32));
  spec.outputs.push_back(access(ElementType::F32));
  spec.outputs.push_back(access(ElementType::F32, InnerMode::Strided));
  spec.program = {instr(Opcode::Convert, ElementType::F32, 0), instr(Opcode::Add, ElementType::F32, 4, 1),
                  instr(Opcode::Mul, ElementType::F32, 5, 2), instr(Opcode::Add, ElementType::F32, 6, 3)};
  spec.results = {7, 5};
  auto kernel = compile(std::move(spec));
  for (int64_t J : {3, 16, 21, 50})
    for (int64_t K : {5, 8, 16, 29, 300})
      for (int64_t step : {1, 2}) {
        std::vector<int8_t> a(static_cast<size_t>(J * K));
        for (size_t i = 0; i < a.size(); ++i)
          a[i] = static_cast<int8_t>(i * 29);
        std::vector<float> b = ramp(static_cast<size_t>(J * K * step), 0.25f), c = ramp(static_cast<size_t>(J)),
                           d = ramp(static_cast<size_t>(J * K), 0.5f), out(static_cast<size_t>(J * K), NAN),
                           twice(static_cast<size_t>(2 * J * K), NAN);
        kernel->run({a.data(), b.data(), c.data(), d.data(), out.data(), twice.data()},
                    {J, K, 1, J, step, J * step, 1, 0, K, 1, K, 1, 2 * K, 2}, 0, J);
        for (int64_t j = 0; j < J; ++j)
          for (int64_t k = 0; k < K; ++k) {
            float sum =
                static_cast<float>(a[static_cast<size_t>(k * J + j)]) + b[static_cast<size_t>(k * J * step + j * step)];
            size_t at = static_cast<size_t>(j * K + k);
            ASSERT_EQ(twice[2 * at], sum) << J << " " << K << " " << j << " " << k;
            ASSERT_TRUE(std::isnan(twice[2 * at + 1]));
            ASSERT_EQ(out[at], sum * c[static_cast<size_t>(j)] + d[at]);
          }
      }
}

TEST_P(LoopsTest, StridedOutputAndNegativeStride) {
  for (ElementType type : {ElementType::I8, ElementType::I16, ElementType::I32, ElementType::I64}) {
    KernelSpecT spec = elementwise({type}, {}, type);
    spec.inputs[0]->inner = InnerMode::Strided;
    spec.outputs[0]->inner = InnerMode::Strided;
    spec.results = {0};
    auto kernel = compile(std::move(spec));
    size_t size = static_cast<size_t>(elementBytes(type));
    for (size_t n : {1, 5, 8, 31, 32, 33, 50}) {
      std::vector<uint8_t> in(n * size), out(3 * n * size, 0xee);
      for (size_t i = 0; i < in.size(); ++i)
        in[i] = static_cast<uint8_t>(i * 11);
      // Reversed, to every third element.
      kernel->run({in.data() + (n - 1) * size, out.data()}, {static_cast<int64_t>(n), -1, 3}, 0, 1);
      for (size_t i = 0; i < n; ++i) {
        EXPECT_EQ(memcmp(&out[3 * i * size], &in[(n - 1 - i) * size], size), 0);
        EXPECT_EQ(out[(3 * i + 1) * size], 0xee);
      }
    }
  }
}

TEST_P(LoopsTest, Iota) {
  KernelSpecT spec;
  spec.family = Family::Loops;
  spec.rank = 2;
  spec.inputs.push_back(access(ElementType::I64, InnerMode::Strided, AccessKind::Iota));
  spec.inputs.push_back(access(ElementType::I64, InnerMode::Splat, AccessKind::Iota));
  spec.inputs.push_back(access(ElementType::I64, InnerMode::Contiguous, AccessKind::Iota));
  for (int k = 0; k < 3; ++k)
    spec.outputs.push_back(access(ElementType::I64));
  spec.results = {0, 1, 2};
  auto kernel = compile(std::move(spec));
  for (int64_t n : {1, 7, 8, 20}) {
    std::vector<int64_t> x(static_cast<size_t>(3 * n)), y = x, z = x;
    kernel->run({nullptr, nullptr, nullptr, x.data(), y.data(), z.data()},
                {3, n, 100, 10, -2, 5, 7, 0, 1, n, 1, n, 1, n, 1, n, 1}, 0, 3);
    for (int64_t i = 0; i < 3; ++i)
      for (int64_t j = 0; j < n; ++j) {
        size_t at = static_cast<size_t>(i * n + j);
        EXPECT_EQ(x[at], 100 + 10 * i - 2 * j);
        EXPECT_EQ(y[at], 5 + 7 * i);
        EXPECT_EQ(z[at], 1 + n * i + j);
      }
  }
}

/// out[i][j] = table[index[i]][j]: the index stands still along the row.
TEST_P(LoopsTest, GatherRows) {
  for (ElementType indexType : {ElementType::I32, ElementType::I64}) {
    KernelSpecT spec;
    spec.family = Family::Loops;
    spec.rank = 2;
    spec.inputs.push_back(indexed(ElementType::F32, InnerMode::Contiguous, indexType, {InnerMode::Splat}));
    spec.outputs.push_back(access(ElementType::F32));
    spec.results = {0};
    auto kernel = compile(std::move(spec));
    for (int64_t width : {1, 3, 8, 21}) {
      std::vector<float> table = ramp(static_cast<size_t>(3 * width));
      auto run = [&](std::vector<int64_t> indices, ErrorWord &error) {
        int64_t rows = static_cast<int64_t>(indices.size());
        std::vector<float> out(static_cast<size_t>(rows * width), -7);
        std::vector<int32_t> narrow(indices.begin(), indices.end());
        const void *index = indexType == ElementType::I32 ? static_cast<const void *>(narrow.data()) : indices.data();
        error = kernel->run({table.data(), index, out.data()}, {rows, width, 0, 1, 1, 0, 3, width, width, 1}, 0, rows);
        return out;
      };
      ErrorWord error;
      std::vector<float> out = run({0, -1}, error);
      EXPECT_EQ(error.kind, ErrorKind::None);
      for (int64_t j = 0; j < width; ++j) {
        EXPECT_EQ(out[static_cast<size_t>(j)], table[static_cast<size_t>(j)]);
        EXPECT_EQ(out[static_cast<size_t>(width + j)], table[static_cast<size_t>(2 * width + j)]);
      }
      for (int64_t bad : {int64_t(3), int64_t(-4), indexType == ElementType::I32 ? int64_t(INT32_MIN) : INT64_MIN,
                          indexType == ElementType::I32 ? int64_t(INT32_MAX) : INT64_MAX}) {
        out = run({1, bad}, error);
        EXPECT_EQ(error.kind, ErrorKind::IndexOutOfRange);
        EXPECT_EQ(error.operand, 0);
        EXPECT_EQ(error.element, width);
        EXPECT_EQ(error.value, bad);
        EXPECT_EQ(error.extent, 3);
        EXPECT_EQ(out[static_cast<size_t>(width)], -7);
      }
    }
  }
}

/// out[i] = data[i][index[i]]: the index moves along the row.
TEST_P(LoopsTest, GatherElements) {
  for (ElementType type : {ElementType::I8, ElementType::F32, ElementType::F64})
    for (ElementType indexType : {ElementType::I32, ElementType::I64})
      for (InnerMode indexMode : {InnerMode::Contiguous, InnerMode::Strided}) {
        KernelSpecT spec;
        spec.family = Family::Loops;
        spec.rank = 1;
        spec.inputs.push_back(indexed(type, InnerMode::Strided, indexType, {indexMode}));
        spec.outputs.push_back(access(type));
        spec.results = {0};
        auto kernel = compile(std::move(spec));
        size_t size = static_cast<size_t>(elementBytes(type));
        int64_t step = indexMode == InnerMode::Strided ? 2 : 1, extent = 5;
        for (int64_t n : {1, 7, 8, 9, 32, 35}) {
          std::vector<uint8_t> data(static_cast<size_t>(n * extent) * size), out(static_cast<size_t>(n) * size);
          for (size_t i = 0; i < data.size(); ++i)
            data[i] = static_cast<uint8_t>(i * 13);
          std::vector<int64_t> index(static_cast<size_t>(n * step), 99);
          for (int64_t i = 0; i < n; ++i)
            index[static_cast<size_t>(i * step)] = (i * 3) % (2 * extent) - extent;
          auto run = [&] {
            std::vector<int32_t> narrow(index.begin(), index.end());
            const void *at = indexType == ElementType::I32 ? static_cast<const void *>(narrow.data()) : index.data();
            return kernel->run({data.data(), at, out.data()}, {n, extent, step, extent, 1, 1}, 0, 1);
          };
          EXPECT_EQ(run().kind, ErrorKind::None);
          for (int64_t i = 0; i < n; ++i) {
            int64_t k = index[static_cast<size_t>(i * step)];
            k += k < 0 ? extent : 0;
            EXPECT_EQ(
                memcmp(&out[static_cast<size_t>(i) * size], &data[static_cast<size_t>(i * extent + k) * size], size),
                0);
          }
          for (int64_t bad : {int64_t(0), n / 2, n - 1}) {
            int64_t old = std::exchange(index[static_cast<size_t>(bad * step)], extent);
            ErrorWord error = run();
            EXPECT_EQ(error.kind, ErrorKind::IndexOutOfRange);
            EXPECT_EQ(error.element, bad);
            EXPECT_EQ(error.value, extent);
            EXPECT_EQ(error.extent, extent);
            index[static_cast<size_t>(bad * step)] = old;
          }
        }
      }
}

namespace {
/// Element (k, n) of a matrix [rows, columns] is number k * columns + n; packed in panels of 16 columns, zero padded.
std::vector<uint8_t> panelsOf(ElementType type, int64_t rows, int64_t columns) {
  auto size = static_cast<size_t>(elementBytes(type));
  std::vector<uint8_t> packed(static_cast<size_t>((columns + 15) / 16 * rows * 16) * size);
  for (int64_t k = 0; k < rows; ++k)
    for (int64_t n = 0; n < columns; ++n) {
      int64_t number = k * columns + n;
      memcpy(&packed[static_cast<size_t>(n / 16 * rows * 16 + k * 16 + n % 16) * size], &number, size);
    }
  return packed;
}
} // namespace

/// Lookups into a packed weight: along its columns or its rows, with the index still or moving along the row, and with
/// what the index does not choose moving or still.
TEST_P(LoopsTest, GatherFromPanels) {
  constexpr int64_t rows = 21, columns = 37;
  struct Case {
    const char *what;
    InnerMode inner, index, column;
    // Of the loops over (i, j): rows, index, columns. Of the index: row, column. Where it starts: row, column.
    int64_t rowStrides[2], indexStrides[2], columnStrides[2], axisRow, axisColumn, row, column0;
    int64_t extent, width;
  };
  const InnerMode still = InnerMode::Splat, next = InnerMode::Contiguous, strided = InnerMode::Strided;
  const Case cases[] = {
      {"rows of E, packed for x E^T", strided, still, still, {0, 16}, {1, 0}, {0, 0}, 0, 1, 0, 0, columns, rows},
      {"every other element, from the second, backwards",
       strided,
       still,
       still,
       {0, -32},
       {1, 0},
       {0, 0},
       0,
       1,
       20 * 16,
       3,
       columns - 3,
       10},
      {"rows of E, packed for x E", still, still, next, {0, 0}, {1, 0}, {0, 1}, 16, 0, 0, 0, rows, columns},
      {"every third column, from the second", still, still, strided, {0, 0}, {1, 0}, {0, 3}, 16, 0, 0, 1, rows, 12},
      {"a column for each element", strided, next, still, {0, 16}, {21, 1}, {0, 0}, 0, 1, 0, 0, columns, rows},
      {"a row for each element", still, next, next, {0, 0}, {37, 1}, {0, 1}, 16, 0, 0, 0, rows, columns},
      {"along a diagonal", strided, still, next, {0, 16}, {1, 0}, {0, 1}, 0, 1, 0, 0, 17, rows},
      {"one row and the column that is asked for",
       still,
       strided,
       still,
       {16, 0},
       {0, 2},
       {0, 0},
       0,
       1,
       0,
       0,
       columns,
       19},
      {"one element all along", still, still, still, {16, 0}, {1, 0}, {0, 0}, 0, 1, 0, 0, columns, 23},
  };
  for (ElementType type : {ElementType::I8, ElementType::F16, ElementType::F32, ElementType::F64}) {
    auto size = static_cast<size_t>(elementBytes(type));
    std::vector<uint8_t> packed = panelsOf(type, rows, columns);
    for (const Case &test : cases) {
      SCOPED_TRACE(test.what);
      KernelSpecT spec;
      spec.family = Family::Loops;
      spec.rank = 2;
      spec.inputs.push_back(indexed(type, test.inner, ElementType::I64, {test.index}));
      spec.inputs[0]->panels = true;
      spec.inputs[0]->column_inner = test.column;
      spec.outputs.push_back(access(type));
      spec.results = {0};
      auto kernel = compile(std::move(spec));
      for (int64_t width : {int64_t(1), int64_t(7), test.width}) {
        constexpr int64_t height = 3;
        Guarded weight(packed.size());
        memcpy(weight.data, packed.data(), packed.size());
        std::vector<int64_t> index(height * 64);
        for (size_t i = 0; i < index.size(); ++i)
          index[i] = static_cast<int64_t>(i * 11) % (2 * test.extent) - test.extent;
        std::vector<uint8_t> out(static_cast<size_t>(height * width) * size);
        auto run = [&] {
          return kernel->run({weight.data + static_cast<size_t>(test.row) * size, index.data(), out.data()},
                             {height, width, test.rowStrides[0], test.rowStrides[1], test.indexStrides[0],
                              test.indexStrides[1], test.extent, test.axisRow, test.column0, rows * 16,
                              test.columnStrides[0], test.columnStrides[1], test.axisColumn, width, 1},
                             0, height);
        };
        EXPECT_EQ(run().kind, ErrorKind::None);
        auto lookedUp = [&](int64_t i, int64_t j) -> int64_t & {
          return index[static_cast<size_t>(i * test.indexStrides[0] + j * test.indexStrides[1])];
        };
        for (int64_t i = 0; i < height; ++i)
          for (int64_t j = 0; j < width; ++j) {
            int64_t at = lookedUp(i, j);
            at += at < 0 ? test.extent : 0;
            int64_t k = (test.row + i * test.rowStrides[0] + j * test.rowStrides[1] + at * test.axisRow) / 16;
            int64_t n = test.column0 + i * test.columnStrides[0] + j * test.columnStrides[1] + at * test.axisColumn;
            int64_t number = k * columns + n;
            EXPECT_EQ(memcmp(&out[static_cast<size_t>(i * width + j) * size], &number, size), 0) << i << " " << j;
          }
        for (int64_t bad : {test.extent, -test.extent - 1, INT64_MAX, INT64_MIN}) {
          int64_t old = std::exchange(lookedUp(1, width - 1), bad);
          ErrorWord error = run();
          EXPECT_EQ(error.kind, ErrorKind::IndexOutOfRange);
          EXPECT_EQ(error.operand, 0);
          EXPECT_EQ(error.value, bad);
          EXPECT_EQ(error.extent, test.extent);
          lookedUp(1, width - 1) = old;
        }
      }
    }
  }
}

/// Two indices, one along the rows and one along the columns.
TEST_P(LoopsTest, GatherElementsFromPanels) {
  constexpr int64_t rows = 5, columns = 40;
  std::vector<uint8_t> packed = panelsOf(ElementType::I32, rows, columns);
  KernelSpecT spec;
  spec.family = Family::Loops;
  spec.rank = 1;
  spec.inputs.push_back(
      indexed(ElementType::I32, InnerMode::Splat, ElementType::I32, {InnerMode::Contiguous, InnerMode::Contiguous}));
  spec.inputs[0]->panels = true;
  spec.inputs[0]->column_inner = InnerMode::Splat;
  spec.outputs.push_back(access(ElementType::I32));
  spec.results = {0};
  auto kernel = compile(std::move(spec));
  for (int64_t n : {1, 16, 35}) {
    std::vector<int32_t> k, column, out(static_cast<size_t>(n));
    for (int32_t i = 0; i < n; ++i) {
      k.push_back(i * 3 % 10 - 5);
      column.push_back(i * 7 % 80 - 40);
    }
    ErrorWord error = kernel->run({packed.data(), k.data(), column.data(), out.data()},
                                  {n, 0, 1, rows, 16, 1, columns, 0, 0, rows * 16, 0, 0, 1, 1}, 0, 1);
    EXPECT_EQ(error.kind, ErrorKind::None);
    for (size_t i = 0; i < out.size(); ++i)
      EXPECT_EQ(out[i], (k[i] + 5) % 5 * columns + (column[i] + 40) % 40);
  }
}

TEST_P(LoopsTest, GatherFromNothing) {
  KernelSpecT spec;
  spec.family = Family::Loops;
  spec.rank = 1;
  spec.inputs.push_back(indexed(ElementType::F32, InnerMode::Splat, ElementType::I64, {InnerMode::Contiguous}));
  spec.outputs.push_back(access(ElementType::F32));
  spec.results = {0};
  auto kernel = compile(std::move(spec));
  std::vector<int64_t> index(9, 0);
  std::vector<float> out(9, 5);
  // The table has no element: its pointer is not to be followed.
  ErrorWord error = kernel->run({nullptr, index.data(), out.data()}, {9, 0, 1, 0, 1, 1}, 0, 1);
  EXPECT_EQ(error.kind, ErrorKind::IndexOutOfRange);
  EXPECT_EQ(error.extent, 0);
}

/// Scatter along axis 0, elements of a row side by side: vectors.
TEST_P(LoopsTest, ScatterRows) {
  for (Combine combine : {Combine::Assign, Combine::Add, Combine::Mul, Combine::Max, Combine::Min})
    for (ElementType type : {ElementType::F32, ElementType::I32}) {
      KernelSpecT spec;
      spec.family = Family::Loops;
      spec.rank = 2;
      spec.inputs.push_back(access(type));
      spec.outputs.push_back(indexed(type, InnerMode::Contiguous, ElementType::I64, {InnerMode::Splat}));
      spec.results = {0};
      spec.combine = combine;
      auto kernel = compile(std::move(spec));
      for (int64_t width : {1, 5, 8, 13, 24}) {
        std::vector<int64_t> index = {2, 0, 2, -1, 0}; // collisions
        std::vector<double> want(static_cast<size_t>(4 * width));
        std::vector<int32_t> updates(static_cast<size_t>(5 * width)), out(want.size());
        for (size_t i = 0; i < updates.size(); ++i)
          updates[i] = static_cast<int32_t>(i * 7 % 23) - 9;
        for (size_t i = 0; i < out.size(); ++i)
          want[i] = out[i] = static_cast<int32_t>(i % 5);
        for (int64_t r = 0; r < 5; ++r)
          for (int64_t j = 0; j < width; ++j) {
            int64_t row =
                index[static_cast<size_t>(r)] < 0 ? index[static_cast<size_t>(r)] + 4 : index[static_cast<size_t>(r)];
            double u = updates[static_cast<size_t>(r * width + j)];
            double &w = want[static_cast<size_t>(row * width + j)];
            w = combine == Combine::Assign ? u
                : combine == Combine::Add  ? w + u
                : combine == Combine::Mul  ? w * u
                : combine == Combine::Max  ? std::max(w, u)
                                           : std::min(w, u);
          }
        std::vector<float> updatesF(updates.begin(), updates.end()), outF(out.begin(), out.end());
        bool isFloat = type == ElementType::F32;
        const void *from = isFloat ? static_cast<const void *>(updatesF.data()) : updates.data();
        const void *to = isFloat ? static_cast<const void *>(outF.data()) : out.data();
        std::vector<int64_t> integers = {5, width, width, 1, 0, 1, 1, 0, 4, width};
        EXPECT_EQ(kernel->run({from, to, index.data()}, integers, 0, 1).kind, ErrorKind::None);
        for (size_t i = 0; i < want.size(); ++i)
          EXPECT_EQ(isFloat ? outF[i] : out[i], want[i]) << data::EnumNameCombine(combine) << " " << width << " " << i;
        index[3] = 4;
        ErrorWord error = kernel->run({from, to, index.data()}, integers, 0, 1);
        EXPECT_EQ(error.kind, ErrorKind::IndexOutOfRange);
        EXPECT_EQ(error.operand, 1); // outputs count on
        EXPECT_EQ(error.element, 3 * width);
      }
    }
}

/// Two index operands that move along the row; the last update wins, in row-major order.
TEST_P(LoopsTest, ScatterElements) {
  KernelSpecT spec;
  spec.family = Family::Loops;
  spec.rank = 1;
  spec.inputs.push_back(access(ElementType::I32));
  spec.outputs.push_back(
      indexed(ElementType::I32, InnerMode::Splat, ElementType::I32, {InnerMode::Contiguous, InnerMode::Contiguous}));
  spec.results = {0};
  auto kernel = compile(std::move(spec));
  std::vector<int32_t> updates(20), rows(20), columns(20), out(12, -1), want(12, -1);
  for (int i = 0; i < 20; ++i) {
    updates[static_cast<size_t>(i)] = 100 + i;
    rows[static_cast<size_t>(i)] = i * 5 % 3;
    columns[static_cast<size_t>(i)] = i % 4 - 4;
    want[static_cast<size_t>(i * 5 % 3 * 4 + i % 4)] = 100 + i;
  }
  std::vector<int64_t> integers = {20, 1, 0, 1, 3, 4, 1, 4, 1};
  EXPECT_EQ(kernel->run({updates.data(), out.data(), rows.data(), columns.data()}, integers, 0, 1).kind,
            ErrorKind::None);
  EXPECT_EQ(out, want);
}

/// CASE 60: a row's bits are those it has alone, whatever its length's place in blocks and tiles.
TEST_P(LoopsTest, SameBitsAlone) {
  auto kernel = compile(elementwise({ElementType::F32},
                                    {instr(Opcode::Gelu, ElementType::F32, 0), instr(Opcode::Exp, ElementType::F32, 1)},
                                    ElementType::F32));
  std::vector<float> x = ramp(77, 0.037f), whole = apply<float>(*kernel, {x.data()}, 77);
  for (size_t i = 0; i < 77; ++i) {
    std::vector<float> one = apply<float>(*kernel, {&x[i]}, 1);
    EXPECT_EQ(bitCast<uint32_t>(one[0]), bitCast<uint32_t>(whole[i]));
  }
}

//===----------------------------------------------------------------------===//
// Reduce
//===----------------------------------------------------------------------===//

class ReduceTest : public OnTarget {};

KernelSpecT reduction(ElementType type, ReduceKind kind, bool inner, unsigned kept, unsigned reduced,
                      ElementType accumulator) {
  KernelSpecT spec;
  spec.family = Family::Reduce;
  spec.rank = static_cast<uint8_t>(kept + reduced);
  spec.reduced = static_cast<uint8_t>(reduced);
  spec.reduce = kind;
  spec.reduce_inner = inner;
  spec.accumulator = accumulator;
  spec.inputs.push_back(access(type));
  spec.outputs.push_back(access(type));
  spec.results = {0};
  spec.epilogue_result = 0;
  return spec;
}

constexpr ReduceKind kKinds[] = {ReduceKind::Sum, ReduceKind::Prod, ReduceKind::Max, ReduceKind::Min};

/// Sums of looked up rows, for either direction of the lanes.
TEST_P(ReduceTest, GatherFromPanels) {
  constexpr int64_t rows = 19, columns = 33;
  std::vector<uint8_t> packed = panelsOf(ElementType::I64, rows, columns);
  for (bool inner : {true, false}) {
    // sums[i] = sum over k of (k, index[i]), or sums[n] = sum over i of (index[i], n).
    KernelSpecT spec = reduction(ElementType::I64, ReduceKind::Sum, inner, 1, 1, ElementType::I64);
    spec.inputs[0] = inner ? indexed(ElementType::I64, InnerMode::Strided, ElementType::I64, {InnerMode::Splat})
                           : indexed(ElementType::I64, InnerMode::Splat, ElementType::I64, {InnerMode::Splat});
    spec.inputs[0]->panels = true;
    spec.inputs[0]->column_inner = inner ? InnerMode::Splat : InnerMode::Contiguous;
    auto kernel = compile(std::move(spec));
    std::vector<int64_t> index = {-1, 0, 17, 3};
    std::vector<int64_t> sums(columns, -1);
    ErrorWord error = inner ? kernel->run({packed.data(), index.data(), sums.data()},
                                          {4, rows, 0, 16, 1, 0, columns, 0, 0, rows * 16, 0, 0, 1, 1}, 0, 4)
                            : kernel->run({packed.data(), index.data(), sums.data()},
                                          {columns, 4, 0, 0, 0, 1, rows, 16, 0, rows * 16, 1, 0, 0, 1}, 0, 1);
    EXPECT_EQ(error.kind, ErrorKind::None);
    for (int64_t at = 0; at < (inner ? 4 : columns); ++at) {
      int64_t sum = 0;
      if (inner) {
        for (int64_t k = 0; k < rows; ++k)
          sum += k * columns + (index[static_cast<size_t>(at)] + columns) % columns;
      } else {
        for (int64_t i : index)
          sum += (i + rows) % rows * columns + at;
      }
      EXPECT_EQ(sums[static_cast<size_t>(at)], sum);
    }
  }
}

/// Every length 0..70 along the row, and across columns, integers and floats that are exact.
TEST_P(ReduceTest, Values) {
  for (ReduceKind kind : kKinds)
    for (bool inner : {true, false}) {
      auto ints = compile(reduction(ElementType::I32, kind, inner, 1, 1, ElementType::I32));
      auto floats = compile(reduction(ElementType::F32, kind, inner, 1, 1, ElementType::F32));
      for (int64_t length = 0; length <= 70; ++length)
        for (int64_t results : {1, 3, 8, 11}) {
          std::vector<int32_t> x(static_cast<size_t>(length * results)), out(static_cast<size_t>(results), 77);
          for (size_t i = 0; i < x.size(); ++i)
            x[i] = kind == ReduceKind::Prod ? (i % 7 == 3 ? -2 : 1) : static_cast<int32_t>(i * 37 % 101) - 50;
          Guarded xf(x.size() * 4), outf(static_cast<size_t>(results) * 4);
          for (size_t i = 0; i < x.size(); ++i)
            reinterpret_cast<float *>(xf.data)[i] = static_cast<float>(x[i]);
          // inner: x[result][element]; else x[element][result].
          std::vector<int64_t> integers = {results, length, inner ? length : 1, inner ? 1 : results, 1};
          int64_t tiles = inner ? results : 1;
          ints->run({x.data(), out.data()}, integers, 0, tiles);
          floats->run({xf.data, outf.data}, integers, 0, tiles);
          for (int64_t r = 0; r < results; ++r) {
            int64_t sum = 0, product = 1, high = INT32_MIN, low = INT32_MAX;
            for (int64_t k = 0; k < length; ++k) {
              int64_t v = x[static_cast<size_t>(inner ? r * length + k : k * results + r)];
              sum += v;
              product *= kind == ReduceKind::Prod ? v : 1;
              high = std::max(high, v);
              low = std::min(low, v);
            }
            int64_t want = kind == ReduceKind::Sum    ? sum
                           : kind == ReduceKind::Prod ? product
                           : kind == ReduceKind::Max  ? high
                                                      : low;
            double wantFloat = static_cast<double>(want);
            if (length == 0 && kind == ReduceKind::Max)
              wantFloat = -INFINITY;
            if (length == 0 && kind == ReduceKind::Min)
              wantFloat = INFINITY;
            ASSERT_EQ(out[static_cast<size_t>(r)], want)
                << data::EnumNameReduceKind(kind) << inner << " " << length << " " << results;
            ASSERT_EQ(reinterpret_cast<float *>(outf.data)[r], wantFloat)
                << data::EnumNameReduceKind(kind) << inner << " " << length << " " << results;
          }
        }
    }
}

/// CASE 47: a NaN at any place of any length gives NaN; max(+0, -0) is +0.
/// The mean of x[2][a][b][columns] over a and b, for as many columns as several vectors have and more: each is the sum
/// in row-major order, whatever its place. An error in one names its element.
TEST_P(ReduceTest, ManyColumns) {
  KernelSpecT spec = reduction(ElementType::F32, ReduceKind::Sum, false, 2, 2, ElementType::F32);
  spec.epilogue = {instr(Opcode::Div, ElementType::F32, 0, 1)};
  spec.epilogue_result = 2;
  auto kernel = compile(std::move(spec));
  KernelSpecT failing = reduction(ElementType::I32, ReduceKind::Sum, false, 2, 2, ElementType::I32);
  failing.program = {instr(Opcode::Div, ElementType::I32, 0, 0)};
  failing.results = {1};
  auto dividing = compile(std::move(failing));
  int64_t a = 3, b = 7;
  for (int64_t columns : {63, 64, 65, 127, 128, 129, 200, 257}) {
    size_t n = static_cast<size_t>(2 * a * b * columns);
    Guarded x(n * 4), out(static_cast<size_t>(2 * columns) * 4);
    auto *values = reinterpret_cast<float *>(x.data), *means = reinterpret_cast<float *>(out.data);
    for (size_t i = 0; i < n; ++i)
      values[i] = static_cast<float>(std::sin(static_cast<double>(i)));
    std::vector<int64_t> integers = {2, columns, a, b, a * b * columns, 1, b * columns, columns, columns, 1};
    kernel->run({x.data, out.data}, integers, 0, 2);
    for (int64_t i = 0; i < 2; ++i)
      for (int64_t c = 0; c < columns; ++c) {
        float sum = 0;
        for (int64_t k = 0; k < a * b; ++k)
          sum += values[(i * a * b + k) * columns + c];
        ASSERT_EQ(means[i * columns + c], sum / 21.0f) << i << " " << c << " of " << columns;
      }
    std::vector<int32_t> ones(n, 1), counts(static_cast<size_t>(2 * columns));
    EXPECT_EQ(dividing->run({ones.data(), counts.data()}, integers, 0, 2).kind, ErrorKind::None);
    EXPECT_EQ(counts, std::vector<int32_t>(static_cast<size_t>(2 * columns), 21));
    for (int64_t c : {int64_t(0), int64_t(17), columns - 1}) {
      size_t at = static_cast<size_t>((1 * a * b + 9) * columns + c);
      ones[at] = 0;
      ErrorWord error = dividing->run({ones.data(), counts.data()}, integers, 0, 2);
      EXPECT_EQ(error.kind, ErrorKind::DivisionByZero);
      EXPECT_EQ(error.element, ((columns + c) * a * b) + 9) << c << " of " << columns;
      ones[at] = 1;
    }
  }
}

TEST_P(ReduceTest, NaNAtEachPlace) {
  for (ReduceKind kind : {ReduceKind::Max, ReduceKind::Min, ReduceKind::Sum})
    for (bool inner : {true, false}) {
      auto kernel = compile(reduction(ElementType::F32, kind, inner, 1, 1, ElementType::F32));
      for (int64_t length = 1; length <= 70; length += length < 34 ? 1 : 9)
        for (int64_t place = 0; place < length; ++place) {
          std::vector<float> x(static_cast<size_t>(length), 42);
          x[static_cast<size_t>(place)] = NAN;
          float out = 0;
          kernel->run({x.data(), &out}, {1, length, inner ? length : 1, 1, 1}, 0, 1);
          ASSERT_TRUE(std::isnan(out)) << length << " " << place;
        }
      if (kind == ReduceKind::Sum)
        continue;
      for (int64_t length : {2, 9, 40})
        for (int64_t place = 0; place < length; ++place) {
          bool max = kind == ReduceKind::Max;
          std::vector<float> x(static_cast<size_t>(length), max ? -0.0f : 0.0f);
          x[static_cast<size_t>(place)] = max ? 0.0f : -0.0f;
          float out = 1;
          kernel->run({x.data(), &out}, {1, length, inner ? length : 1, 1, 1}, 0, 1);
          EXPECT_EQ(bitCast<uint32_t>(out), max ? 0u : 0x80000000u);
        }
    }
  auto kernel = compile(reduction(ElementType::F32, ReduceKind::Max, true, 1, 1, ElementType::F32));
  std::vector<float> x = {NAN, NAN, NAN, 42};
  float out = 0;
  kernel->run({x.data(), &out}, {1, 4, 4, 1, 1}, 0, 1);
  EXPECT_TRUE(std::isnan(out));
}

/// CASE 49, and mean as a sum with an epilogue.
TEST_P(ReduceTest, MeanAndEmpty) {
  for (bool inner : {true, false}) {
    KernelSpecT spec = reduction(ElementType::F32, ReduceKind::Sum, inner, 1, 2, ElementType::F32);
    spec.epilogue = {instr(Opcode::Div, ElementType::F32, 0, 1)};
    spec.epilogue_result = 2;
    auto kernel = compile(std::move(spec));
    std::vector<float> x = ramp(3 * 5 * 40), out(3);
    for (int64_t a : {0, 1, 5})
      for (int64_t b : {0, 1, 40}) {
        int64_t count = a * b;
        // x[result][a][b], or x[a][b][result].
        std::vector<int64_t> integers =
            inner ? std::vector<int64_t>{3, a, b, count, b, 1, 1} : std::vector<int64_t>{3, a, b, 1, b * 3, 3, 1};
        kernel->run({x.data(), out.data()}, integers, 0, inner ? 3 : 1);
        for (int64_t r = 0; r < 3; ++r) {
          double sum = 0;
          for (int64_t k = 0; k < count; ++k)
            sum += x[static_cast<size_t>(inner ? r * count + k : k * 3 + r)];
          if (count == 0)
            EXPECT_TRUE(std::isnan(out[static_cast<size_t>(r)]));
          else
            EXPECT_NEAR(out[static_cast<size_t>(r)], sum / static_cast<double>(count), 1e-4);
        }
      }
  }
}

/// A reduced row of no elements has no index either: none is read, and none can be wrong. Index buffers of such a step
/// are not checked to be as long as the kept loops.
TEST_P(ReduceTest, IssueIndexOfAnEmptyRow) {
  for (bool inner : {true, false}) {
    KernelSpecT spec = reduction(ElementType::F32, ReduceKind::Sum, inner, 1, 1, ElementType::F32);
    spec.inputs[0] = indexed(ElementType::F32, inner ? InnerMode::Contiguous : InnerMode::Strided, ElementType::I64,
                             {inner ? InnerMode::Splat : InnerMode::Contiguous});
    auto kernel = compile(std::move(spec));
    Guarded data(0), index(8);
    *reinterpret_cast<int64_t *>(index.data) = 99;
    for (int64_t results : {1, 5000}) {
      std::vector<float> out(static_cast<size_t>(results), 77);
      // data[index[r]][k] of shape [results, 0]: extents, data strides, index strides, its extent and stride, output.
      std::vector<int64_t> integers = {results, 0, 0, 1, 1, 0, 4, 0, 1};
      ErrorWord error = kernel->run({data.data, index.data, out.data()}, integers, 0, inner ? results : 1);
      EXPECT_EQ(error.kind, ErrorKind::None);
      EXPECT_EQ(out, std::vector<float>(static_cast<size_t>(results), 0));
    }
  }
}

TEST_P(ReduceTest, EveryTypeAndIdentity) {
  struct {
    ElementType type, accumulator;
  } pairs[] = {{ElementType::I8, ElementType::I8},   {ElementType::I64, ElementType::I64},
               {ElementType::U8, ElementType::U8},   {ElementType::U64, ElementType::U64},
               {ElementType::F16, ElementType::F32}, {ElementType::BF16, ElementType::F32},
               {ElementType::F64, ElementType::F64}};
  for (auto [type, accumulator] : pairs)
    for (ReduceKind kind : kKinds) {
      KernelSpecT spec = reduction(type, kind, true, 1, 1, accumulator);
      auto kernel = compile(std::move(spec));
      // Of ones: 37 summed, 1 otherwise; and of nothing.
      size_t size = static_cast<size_t>(elementBytes(type));
      uint64_t one = type == ElementType::F16    ? 0x3c00
                     : type == ElementType::BF16 ? 0x3f80
                     : type == ElementType::F64  ? 0x3ff0000000000000
                                                 : 1;
      uint64_t thirtySeven = type == ElementType::F16    ? 0x50a0
                             : type == ElementType::BF16 ? 0x4214
                             : type == ElementType::F64  ? bitCast<uint64_t>(37.0)
                                                         : 37;
      std::vector<uint8_t> x(37 * size);
      for (size_t i = 0; i < 37; ++i)
        memcpy(&x[i * size], &one, size);
      uint64_t out = 0;
      kernel->run({x.data(), &out}, {1, 37, 37, 1, 1}, 0, 1);
      EXPECT_EQ(out, kind == ReduceKind::Sum ? thirtySeven : one)
          << elementTypeName(type) << data::EnumNameReduceKind(kind);
      out = 0;
      kernel->run({x.data(), &out}, {1, 0, 0, 1, 1}, 0, 1);
      bool isFloat = isFloatType(type), isUnsigned = isUnsignedType(type);
      uint64_t infinity = type == ElementType::F16 ? 0x7c00 : type == ElementType::BF16 ? 0x7f80 : 0x7ff0000000000000;
      uint64_t sign = uint64_t(1) << (size * 8 - 1), all = size == 8 ? ~uint64_t(0) : (uint64_t(1) << (size * 8)) - 1;
      uint64_t lowest = isFloat      ? infinity | sign
                        : isUnsigned ? 0
                                     : sign,
               highest = isFloat      ? infinity
                         : isUnsigned ? all
                                      : sign - 1;
      uint64_t want[] = {0, one, lowest, highest};
      EXPECT_EQ(out, want[static_cast<int>(kind)]) << elementTypeName(type) << data::EnumNameReduceKind(kind);
    }
  // Booleans: any and all.
  auto any = compile(reduction(ElementType::I1, ReduceKind::Max, true, 1, 1, ElementType::I1));
  auto all = compile(reduction(ElementType::I1, ReduceKind::Min, true, 1, 1, ElementType::I1));
  for (int64_t n : {0, 1, 31, 32, 33, 70})
    for (int64_t place = -1; place < n; place += 10) {
      std::vector<uint8_t> x(static_cast<size_t>(n)), y(static_cast<size_t>(n), 1);
      if (place >= 0) {
        x[static_cast<size_t>(place)] = 1;
        y[static_cast<size_t>(place)] = 0;
      }
      uint8_t out = 9;
      any->run({x.data(), &out}, {1, n, n, 1, 1}, 0, 1);
      EXPECT_EQ(out, place >= 0);
      all->run({y.data(), &out}, {1, n, n, 1, 1}, 0, 1);
      EXPECT_EQ(out, place < 0);
    }
}

/// The order of a row's sum is the contract's: lane i mod 32, then halves. Computed here by hand.
TEST_P(ReduceTest, OrderOfTheSum) {
  auto kernel = compile(reduction(ElementType::F32, ReduceKind::Sum, true, 1, 1, ElementType::F32));
  KernelSpecT large = reduction(ElementType::F32, ReduceKind::Sum, true, 1, 1, ElementType::F32);
  for (int k = 0; k < 6; ++k) // long enough to leave the short schedule; changes nothing
    large.program.push_back(instr(Opcode::Max, ElementType::F32, static_cast<unsigned>(k), static_cast<unsigned>(k)));
  large.results = {6};
  auto same = compile(std::move(large));
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  for (int64_t n : {1, 5, 8, 31, 32, 33, 64, 100, 384, 391}) {
    std::vector<float> x(static_cast<size_t>(n));
    for (float &v : x)
      v = normal(random);
    std::array<float, 32> lanes = {};
    for (int64_t i = 0; i < n; ++i)
      lanes[static_cast<size_t>(i % 32)] += x[static_cast<size_t>(i)];
    for (size_t half = 16; half; half /= 2)
      for (size_t l = 0; l < half; ++l)
        lanes[l] += lanes[l + half];
    for (const auto &k : {kernel.get(), same.get()}) {
      float out = 0;
      k->run({x.data(), &out}, {1, n, n, 1, 1}, 0, 1);
      EXPECT_EQ(bitCast<uint32_t>(out), bitCast<uint32_t>(lanes[0])) << n;
    }
  }
  // Across columns: each result in order.
  auto across = compile(reduction(ElementType::F32, ReduceKind::Sum, false, 1, 1, ElementType::F32));
  for (int64_t columns : {1, 7, 8, 13}) {
    std::vector<float> x(static_cast<size_t>(50 * columns)), out(static_cast<size_t>(columns));
    for (float &v : x)
      v = normal(random);
    across->run({x.data(), out.data()}, {columns, 50, 1, columns, 1}, 0, 1);
    for (int64_t c = 0; c < columns; ++c) {
      float sum = 0;
      for (int64_t k = 0; k < 50; ++k)
        sum += x[static_cast<size_t>(k * columns + c)];
      EXPECT_EQ(bitCast<uint32_t>(out[static_cast<size_t>(c)]), bitCast<uint32_t>(sum));
    }
  }
}

TEST_P(ReduceTest, ProgramErrorsNameTheElement) {
  for (bool inner : {true, false}) {
    KernelSpecT spec = reduction(ElementType::I32, ReduceKind::Sum, inner, 1, 1, ElementType::I32);
    spec.inputs.push_back(access(ElementType::I32));
    spec.program = {instr(Opcode::Div, ElementType::I32, 0, 1)};
    spec.results = {2};
    auto kernel = compile(std::move(spec));
    int64_t results = 11, length = 37;
    for (int64_t badResult : {0, 4, 10})
      for (int64_t badPlace : {0, 20, 36}) {
        std::vector<int32_t> x(static_cast<size_t>(results * length), 6), y(x.size(), 3), out(11);
        std::vector<int64_t> integers = {results, length};
        for (int k = 0; k < 2; ++k) {
          integers.push_back(inner ? length : 1);
          integers.push_back(inner ? 1 : results);
        }
        integers.push_back(1);
        EXPECT_EQ(kernel->run({x.data(), y.data(), out.data()}, integers, 0, inner ? results : 1).kind,
                  ErrorKind::None);
        EXPECT_EQ(out, std::vector<int32_t>(11, 74));
        y[static_cast<size_t>(inner ? badResult * length + badPlace : badPlace * results + badResult)] = 0;
        ErrorWord error = kernel->run({x.data(), y.data(), out.data()}, integers, 0, inner ? results : 1);
        EXPECT_EQ(error.kind, ErrorKind::DivisionByZero);
        EXPECT_EQ(error.element, badResult * length + badPlace) << inner;
      }
  }
}

/// CASE 60: rows have the bits they have alone.
TEST_P(ReduceTest, SameBitsAlone) {
  for (bool inner : {true, false}) {
    KernelSpecT spec = reduction(ElementType::F32, ReduceKind::Sum, inner, 2, 1, ElementType::F32);
    spec.program = {instr(Opcode::Exp, ElementType::F32, 0)};
    spec.results = {1};
    auto kernel = compile(std::move(spec));
    int64_t A = 3, B = 13, L = 45;
    std::vector<float> x = ramp(static_cast<size_t>(A * B * L), 0.013f), whole(static_cast<size_t>(A * B)),
                       alone(whole.size());
    std::vector<int64_t> strides = inner ? std::vector<int64_t>{B * L, L, 1} : std::vector<int64_t>{B * L, 1, B};
    kernel->run({x.data(), whole.data()}, {A, B, L, strides[0], strides[1], strides[2], B, 1}, 0, inner ? A * B : A);
    for (int64_t a = 0; a < A; ++a)
      for (int64_t b = 0; b < B; ++b)
        kernel->run({&x[static_cast<size_t>(a * strides[0] + b * strides[1])], &alone[static_cast<size_t>(a * B + b)]},
                    {1, 1, L, strides[0], strides[1], strides[2], B, 1}, 0, 1);
    EXPECT_EQ(memcmp(whole.data(), alone.data(), whole.size() * 4), 0) << inner;
  }
}

//===----------------------------------------------------------------------===//
// Scan
//===----------------------------------------------------------------------===//

class ScanTest : public OnTarget {};

TEST_P(ScanTest, CumulativeSums) {
  for (bool exclusive : {false, true})
    for (bool reverse : {false, true}) {
      KernelSpecT spec;
      spec.family = Family::Scan;
      spec.rank = 1;
      spec.inputs.push_back(access(ElementType::I32));
      spec.outputs.push_back(access(ElementType::I32));
      spec.accumulator = ElementType::I32;
      spec.exclusive = exclusive;
      spec.reverse = reverse;
      auto kernel = compile(std::move(spec));
      for (int64_t n : {0, 1, 5, 19}) {
        std::vector<int32_t> x(static_cast<size_t>(2 * n)), out(x.size(), 99);
        std::iota(x.begin(), x.end(), -3);
        kernel->run({x.data(), out.data()}, {2, n, n, 1, n, 1}, 0, 2);
        for (int64_t r = 0; r < 2; ++r)
          for (int64_t i = 0; i < n; ++i) {
            int32_t want = 0;
            for (int64_t k = 0; k < n; ++k)
              if (reverse ? (exclusive ? k > i : k >= i) : (exclusive ? k < i : k <= i))
                want += x[static_cast<size_t>(r * n + k)];
            EXPECT_EQ(out[static_cast<size_t>(r * n + i)], want);
          }
      }
    }
}

/// Several rows at once, side by side or not: each is the sum in turn, and nothing else is written.
TEST_P(ScanTest, ManyRows) {
  for (bool turned : {false, true})
    for (ElementType type : {ElementType::F32, ElementType::I64, ElementType::BF16}) {
      KernelSpecT spec;
      spec.family = Family::Scan;
      spec.rank = 2;
      InnerMode mode = turned ? InnerMode::Strided : InnerMode::Contiguous;
      spec.inputs.push_back(access(type, mode));
      spec.outputs.push_back(access(type == ElementType::BF16 ? ElementType::F32 : type, mode));
      spec.accumulator = type == ElementType::I64 ? ElementType::I64 : ElementType::F32;
      spec.reverse = type == ElementType::I64;
      auto kernel = compile(std::move(spec));
      size_t size = static_cast<size_t>(elementBytes(type)), outSize = type == ElementType::I64 ? 8 : 4;
      for (int64_t rows : {1, 3, 4, 7, 8, 17, 35})
        for (int64_t n : {1, 6, 33}) {
          // x[2][rows][n], or [2][n][rows].
          size_t all = static_cast<size_t>(2 * rows * n);
          Guarded x(all * size), out(all * outSize);
          memset(out.data, 0xcd, all * outSize);
          for (size_t i = 0; i < all; ++i) {
            float value = static_cast<float>(i * 37 % 64) / 4;
            if (type == ElementType::I64)
              reinterpret_cast<int64_t *>(x.data)[i] = static_cast<int64_t>(i * i);
            else if (type == ElementType::F32)
              reinterpret_cast<float *>(x.data)[i] = value * 1.1f;
            else
              reinterpret_cast<uint16_t *>(x.data)[i] = static_cast<uint16_t>(bitCast<uint32_t>(value) >> 16);
          }
          int64_t pitch = turned ? 1 : n, step = turned ? rows : 1;
          std::vector<int64_t> integers = {2, rows, n, rows * n, pitch, step, rows * n, pitch, step};
          // The last row of all is left out, and rows come in two calls.
          int64_t cut = rows - rows / 3, end = 2 * rows - 1;
          kernel->run({x.data, out.data}, integers, 0, cut);
          kernel->run({x.data, out.data}, integers, cut, end);
          for (int64_t r = 0; r < 2 * rows; ++r) {
            float sum = 0;
            int64_t whole = 0;
            for (int64_t k = 0; k < n; ++k) {
              size_t at = static_cast<size_t>(r / rows * rows * n + r % rows * pitch +
                                              (type == ElementType::I64 ? n - 1 - k : k) * step);
              if (r == end) {
                ASSERT_EQ(out.data[at * outSize], 0xcd);
              } else if (type == ElementType::I64) {
                whole += reinterpret_cast<int64_t *>(x.data)[at];
                ASSERT_EQ(reinterpret_cast<int64_t *>(out.data)[at], whole) << r << " " << k;
              } else {
                sum += type == ElementType::F32
                           ? reinterpret_cast<float *>(x.data)[at]
                           : bitCast<float>(static_cast<uint32_t>(reinterpret_cast<uint16_t *>(x.data)[at]) << 16);
                ASSERT_EQ(reinterpret_cast<float *>(out.data)[at], sum) << r << " " << k;
              }
            }
          }
        }
    }
}

TEST_P(ScanTest, NarrowFloatsSumInF32) {
  KernelSpecT spec;
  spec.family = Family::Scan;
  spec.rank = 1;
  spec.inputs.push_back(access(ElementType::F16, InnerMode::Strided));
  spec.outputs.push_back(access(ElementType::F16));
  auto kernel = compile(std::move(spec));
  // 2048 + 1 + 1: in f16 steps the ones would be lost.
  uint16_t x[] = {0x6800, 0, 0x3c00, 0, 0x3c00, 0}, out[3] = {};
  kernel->run({x, out}, {1, 3, 0, 2, 0, 1}, 0, 1);
  EXPECT_EQ(out[0], 0x6800);
  EXPECT_EQ(out[1], 0x6800);
  EXPECT_EQ(out[2], 0x6801);
}

auto name = [](const auto &info) { return info.param == hostTarget() ? "Host" : "V3"; };
INSTANTIATE_TEST_SUITE_P(All, LoopsTest, testing::ValuesIn(targets()), name);
INSTANTIATE_TEST_SUITE_P(All, ReduceTest, testing::ValuesIn(targets()), name);
INSTANTIATE_TEST_SUITE_P(All, ScanTest, testing::ValuesIn(targets()), name);

//===----------------------------------------------------------------------===//
// Specs
//===----------------------------------------------------------------------===//

TEST(KernelSpecTest, EqualSpecsGiveEqualImages) {
  auto make = [] {
    KernelSpecT spec = elementwise({ElementType::F32}, {instr(Opcode::Sin, ElementType::F32, 0)}, ElementType::F32);
    spec.target = hostTarget();
    spec.revision = kEmitterRevision;
    return compileKernel(spec);
  };
  Result<data::KernelImageT> a = make(), b = make();
  ASSERT_TRUE(a) << a.error().message;
  EXPECT_EQ(a->code, b->code);
  EXPECT_EQ(a->spec, b->spec);
  EXPECT_EQ(a->entry, b->entry);
}

TEST(KernelSpecTest, BadSpecsAreErrors) {
  auto expect = [](KernelSpecT spec, const char *words) {
    if (spec.target.empty())
      spec.target = hostTarget();
    if (spec.revision == 0)
      spec.revision = kEmitterRevision;
    Result<data::KernelImageT> image = compileKernel(spec);
    ASSERT_FALSE(image);
    EXPECT_NE(image.error().message.find(words), std::string::npos) << image.error().message;
  };
  auto good = [] {
    return elementwise({ElementType::F32}, {instr(Opcode::Neg, ElementType::F32, 0)}, ElementType::F32);
  };
  KernelSpecT spec = good();
  spec.target = "aarch64:generic:";
  expect(std::move(spec), "aarch64");
  spec = good();
  spec.target = "x86_64:x86-64:";
  expect(std::move(spec), "avx2");
  spec = good();
  spec.target = "x86_64:no-such-cpu:+avx2";
  expect(std::move(spec), "names a cpu");
  spec = good();
  spec.target = "x86_64:x86-64-v3:+frobnicate";
  expect(std::move(spec), "frobnicate");
  spec = good();
  spec.revision = 77;
  expect(std::move(spec), "revision 77");
  spec = good();
  spec.program[0] = instr(Opcode::Neg, ElementType::F32, 1);
  expect(std::move(spec), "no earlier value");
  spec = good();
  spec.program[0] = instr(Opcode::Not, ElementType::F32, 0);
  expect(std::move(spec), "does not take");
  spec = good();
  spec.program[0] = instr(static_cast<Opcode>(200), ElementType::F32, 0);
  expect(std::move(spec), "unknown opcode");
  spec = good();
  spec.results = {9};
  expect(std::move(spec), "result 9");
  spec = good();
  spec.rank = 0;
  expect(std::move(spec), "no loop");
  spec = good();
  spec.outputs.clear();
  expect(std::move(spec), "no output");
  spec = good();
  spec.inputs[0].reset();
  expect(std::move(spec), "missing");
  spec = good();
  spec.inputs[0]->kind = AccessKind::Indexed;
  expect(std::move(spec), "indexed by 0");
  spec = good();
  spec.inputs[0]->panels = true;
  expect(std::move(spec), "input 0 reads panels");
  spec = good();
  spec.outputs[0] = indexed(ElementType::F32, InnerMode::Contiguous, ElementType::I64, {InnerMode::Splat});
  spec.outputs[0]->panels = true;
  expect(std::move(spec), "output 0 reads panels");
  spec = good();
  spec.inputs[0]->column_inner = static_cast<InnerMode>(3);
  expect(std::move(spec), "inner mode");
  spec = good();
  spec.family = Family::Scan;
  spec.inputs[0] = indexed(ElementType::F32, InnerMode::Contiguous, ElementType::I64, {InnerMode::Splat});
  spec.inputs[0]->panels = true;
  expect(std::move(spec), "input 0 reads panels");
  spec = good();
  spec.combine = Combine::Add;
  expect(std::move(spec), "indexed output");
  spec = reduction(ElementType::F16, ReduceKind::Sum, true, 1, 1, ElementType::F16);
  expect(std::move(spec), "f16");
  spec = reduction(ElementType::F32, ReduceKind::Sum, true, 0, 1, ElementType::F32);
  expect(std::move(spec), "kept loop");
}

TEST(KernelSpecTest, ManyThreads) {
  std::vector<std::vector<uint8_t>> images(8);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < images.size(); ++t)
    threads.emplace_back([&, t] {
      for (int round = 0; round < 4; ++round) {
        KernelSpecT spec = elementwise({ElementType::F32}, {instr(Opcode::Cos, ElementType::F32, 0)}, ElementType::F32);
        spec.target = hostTarget();
        spec.revision = kEmitterRevision;
        if (Result<data::KernelImageT> image = compileKernel(spec))
          images[t] = image->code;
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  ASSERT_FALSE(images[0].empty());
  for (const auto &image : images)
    EXPECT_EQ(image, images[0]);
}

/// Bytes that were changed at random are refused, or are a spec that compiles or is refused: nothing else happens.
TEST(KernelSpecTest, HostileBytes) {
  KernelSpecT spec = reduction(ElementType::F16, ReduceKind::Max, true, 2, 2, ElementType::F32);
  spec.inputs.push_back(
      indexed(ElementType::I32, InnerMode::Strided, ElementType::I32, {InnerMode::Splat, InnerMode::Contiguous}));
  spec.inputs.back()->panels = true;
  spec.program = {instr(Opcode::Convert, ElementType::F32, 1), instr(Opcode::Convert, ElementType::F32, 0),
                  instr(Opcode::Div, ElementType::F32, 2, 3)};
  spec.results = {4};
  spec.epilogue = {instr(Opcode::Mul, ElementType::F32, 0, 1)};
  spec.epilogue_result = 2;
  spec.target = "x86_64:x86-64-v3:";
  spec.revision = kEmitterRevision;
  std::vector<uint8_t> good = serializeSpec(spec);
  ASSERT_TRUE(deserializeSpec(good));
  std::mt19937 random(5);
  int compiled = 0, refused = 0;
  for (int round = 0; round < 400; ++round) {
    std::vector<uint8_t> bytes = good;
    if (round % 8 == 0)
      bytes.resize(random() % bytes.size());
    for (unsigned k = 0; k < 1 + random() % 3 && !bytes.empty(); ++k)
      bytes[random() % bytes.size()] = static_cast<uint8_t>(random() % 4 ? random() % 16 : random());
    Result<KernelSpecT> read = deserializeSpec(bytes);
    if (read && compileKernel(*read))
      ++compiled;
    else
      ++refused;
  }
  EXPECT_GT(compiled, 0);
  EXPECT_GT(refused, 0);
}

TEST(KernelSpecTest, BytesAreTheKey) {
  auto make = [] {
    return elementwise({ElementType::F32, ElementType::I8}, {instr(Opcode::Neg, ElementType::F32, 0)},
                       ElementType::F32);
  };
  std::vector<uint8_t> bytes = serializeSpec(make());
  EXPECT_EQ(bytes, serializeSpec(make()));
  Result<KernelSpecT> read = deserializeSpec(bytes);
  ASSERT_TRUE(read);
  EXPECT_TRUE(*read == make());
  EXPECT_EQ(serializeSpec(*read), bytes);
  KernelSpecT other = make();
  other.program[0] = instr(Opcode::Abs, ElementType::F32, 0);
  EXPECT_NE(serializeSpec(other), bytes);
}

} // namespace
