//===- rows.cpp - speed of the kernels that memory bounds -----------------===//
//
// Softmax, norms, reductions, transposes, gathers, conversions, elementwise
// programs: GB/s of what they must read and write once, beside a plain copy loop
// that moves as many bytes in the same turn. What computes much (softmax, gelu)
// is below the copy by that; the nanoseconds an element say how much.
//
//===----------------------------------------------------------------------===//
#include "common/Bench.h"
#include "common/Kernel.h"

#include "rlx/Data/ElementType.h"

#include <bit>
#include <cstdlib>
#include <cstring>
#include <immintrin.h>
#include <random>

using namespace rlx;
using namespace rlx::data;
using namespace rlx::bench;

namespace {

/// Small values of whatever type, no two neighbours alike.
void fill(void *data, ElementType type, int64_t elements) {
  for (int64_t i = 0; i < elements; ++i) {
    int64_t small = i * 7919 % 251 - 125;
    float value = static_cast<float>(small) / 40;
    auto put = [&](auto element) {
      std::memcpy(static_cast<char *>(data) + i * elementBytes(type), &element, sizeof(element));
    };
    switch (type) {
    case ElementType::F32:
      put(value);
      break;
    case ElementType::F64:
      put(static_cast<double>(value));
      break;
    case ElementType::F16:
      put(static_cast<_Float16>(value));
      break;
    case ElementType::BF16:
      put(static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16));
      break;
    case ElementType::I64:
      put(small);
      break;
    case ElementType::I32:
      put(static_cast<int32_t>(small));
      break;
    default:
      put(static_cast<int8_t>(small));
    }
  }
}

/// Half of the memory to the other half, 64 bytes at a time.
__attribute__((target("avx2"), noinline)) void copy(char *memory, int64_t bytes) {
  int64_t half = bytes / 2 / 64 * 64;
  for (int64_t at = 0; at < half; at += 64) {
    __m256i first = _mm256_load_si256(reinterpret_cast<const __m256i *>(memory + at));
    __m256i second = _mm256_load_si256(reinterpret_cast<const __m256i *>(memory + at + 32));
    _mm256_store_si256(reinterpret_cast<__m256i *>(memory + half + at), first);
    _mm256_store_si256(reinterpret_cast<__m256i *>(memory + half + at + 32), second);
  }
}

/// One kernel and what it works on.
struct Work {
  Work(std::string name, Family family, std::vector<int64_t> extents) : name(std::move(name)) {
    spec.family = family;
    spec.rank = static_cast<uint8_t>(extents.size());
    integers = std::move(extents);
  }

  static InnerMode modeOf(int64_t stride) {
    return stride == 1 ? InnerMode::Contiguous : stride == 0 ? InnerMode::Splat : InnerMode::Strided;
  }
  /// A direct operand; `counted`: how many elements of it are read or written.
  Work &operand(bool output, ElementType type, int64_t elements, std::vector<int64_t> strides, int64_t innerStride,
                int64_t counted = -1) {
    auto access = std::make_unique<AccessSpecT>();
    access->type = type;
    access->inner = modeOf(innerStride);
    (output ? spec.outputs : spec.inputs).push_back(std::move(access));
    integers.insert(integers.end(), strides.begin(), strides.end());
    rooms.emplace_back(elements * elementBytes(type));
    if (!output)
      fill(rooms.back().data(), type, elements);
    pointers.push_back(rooms.back().data());
    bytes += (counted < 0 ? elements : counted) * elementBytes(type);
    return *this;
  }
  /// In a nest of loops: the last stride is that of the innermost.
  Work &in(ElementType type, int64_t elements, std::vector<int64_t> strides) {
    int64_t inner = strides.back();
    return operand(false, type, elements, std::move(strides), inner);
  }
  Work &out(ElementType type, int64_t elements, std::vector<int64_t> strides) {
    int64_t inner = strides.back();
    this->elements = std::max(this->elements, elements);
    return operand(true, type, elements, std::move(strides), inner);
  }
  Work &program(std::vector<Instr> instrs, uint16_t result) {
    spec.program = std::move(instrs);
    spec.results = {result};
    return *this;
  }

  void run() { kernel.handle.fn(pointers.data(), integers.data(), 0, tiles, nullptr); }

  std::string name;
  KernelSpecT spec;
  std::vector<int64_t> integers;
  std::vector<void *> pointers;
  std::vector<Room> rooms;
  int64_t bytes = 0, elements = 0, tiles = 1;
  Kernel kernel;
};

constexpr ElementType F32 = ElementType::F32;

Work rows(const std::string &name, RowsKind kind, int64_t count, int64_t length, bool affine, bool sideBySide = false) {
  Work work(name, Family::Rows, {count});
  work.spec.rows = kind;
  work.integers.insert(work.integers.end(), {length, std::bit_cast<int64_t>(1e-5)});
  int64_t pitch = sideBySide ? 1 : length, stride = sideBySide ? count : 1;
  work.operand(false, F32, count * length, {pitch, stride}, stride);
  if (affine) {
    work.spec.has_scale = work.spec.has_bias = true;
    work.operand(false, F32, length, {1}, 1).operand(false, F32, length, {1}, 1);
  }
  work.operand(true, F32, count * length, {pitch, stride}, stride);
  work.spec.results = {0};
  work.elements = count * length;
  work.tiles = count;
  return work;
}

/// [a, b, c] reduced over b (c == 1: along the row).
Work reduction(const std::string &name, ReduceKind kind, int64_t a, int64_t b, int64_t c) {
  bool inner = c == 1;
  Work work(name, Family::Reduce, inner ? std::vector<int64_t>{a, b} : std::vector<int64_t>{a, c, b});
  work.spec.reduced = 1;
  work.spec.reduce = kind;
  work.spec.reduce_inner = inner;
  work.spec.results = {0};
  if (inner)
    work.operand(false, F32, a * b, {b, 1}, 1).operand(true, F32, a, {1}, 1);
  else
    work.operand(false, F32, a * b * c, {b * c, 1, c}, 1).operand(true, F32, a * c, {c, 1}, 1);
  work.elements = a * b * c;
  work.tiles = a;
  return work;
}

/// [a, b, c] to [a, c, b].
Work transpose(const std::string &name, ElementType type, int64_t a, int64_t b, int64_t c) {
  Work work(name, Family::Loops, {a, c, b});
  work.in(type, a * b * c, {b * c, 1, c}).out(type, a * b * c, {b * c, b, 1});
  work.spec.results = {0};
  work.tiles = a * c;
  return work;
}

/// [a, b, c, d] to [a, c, b, d].
Work swapMiddle(const std::string &name, int64_t a, int64_t b, int64_t c, int64_t d) {
  Work work(name, Family::Loops, {a, c, b, d});
  work.in(F32, a * b * c * d, {b * c * d, d, c * d, 1}).out(F32, a * b * c * d, {b * c * d, b * d, d, 1});
  work.spec.results = {0};
  work.tiles = a * b * c;
  return work;
}

Work elementwise(const std::string &name, std::vector<ElementType> inputs, std::vector<Instr> program,
                 ElementType output, int64_t n) {
  Work work(name, Family::Loops, {n});
  for (ElementType type : inputs)
    work.in(type, n, {1});
  work.out(output, n, {1});
  auto result = static_cast<uint16_t>(inputs.size() + program.size() - 1);
  work.program(std::move(program), result);
  work.tiles = (n - 1) / kLoopsBlock + 1;
  return work;
}

Work convert(const std::string &name, ElementType from, ElementType to, int64_t n) {
  return elementwise(name, {from}, {Instr(Opcode::Convert, to, 0, 0, 0, 0)}, to, n);
}

/// n rows of `width` out of a table.
Work gather(const std::string &name, int64_t table, int64_t n, int64_t width) {
  Work work(name, Family::Loops, {n, width});
  auto access = std::make_unique<AccessSpecT>();
  access->kind = AccessKind::Indexed;
  access->type = F32;
  access->inner = InnerMode::Contiguous;
  access->index_type = ElementType::I64;
  access->index_inner = {InnerMode::Splat};
  work.spec.inputs.push_back(std::move(access));
  work.integers.insert(work.integers.end(), {0, 1, 1, 0, table, width});
  work.rooms.emplace_back(table * width * 4);
  work.rooms.emplace_back(n * 8);
  auto *indices = reinterpret_cast<int64_t *>(work.rooms[1].data());
  std::mt19937_64 random(1);
  for (int64_t i = 0; i < n; ++i)
    indices[i] = static_cast<int64_t>(random() % static_cast<uint64_t>(table));
  work.pointers = {work.rooms[0].data(), indices};
  work.bytes = n * width * 4 + n * 8;
  work.out(F32, n * width, {width, 1});
  work.spec.results = {0};
  work.tiles = n;
  return work;
}

std::vector<Work> everything() {
  auto f32 = [](Opcode op, unsigned a, unsigned b = 0) {
    return Instr(op, F32, static_cast<uint16_t>(a), static_cast<uint16_t>(b), 0, 0);
  };
  std::vector<Work> works;
  works.push_back(rows("softmax 512x384", RowsKind::Softmax, 512, 384, false));
  works.push_back(rows("softmax 1536x128", RowsKind::Softmax, 1536, 128, false));
  works.push_back(rows("softmax 192x16", RowsKind::Softmax, 192, 16, false));
  works.push_back(rows("softmax 1000x7", RowsKind::Softmax, 1000, 7, false));
  works.push_back(rows("softmax of columns 384x512", RowsKind::Softmax, 512, 384, false, true));
  works.push_back(rows("log-softmax 512x384", RowsKind::LogSoftmax, 512, 384, false));
  works.push_back(rows("layer norm 128x384", RowsKind::LayerNorm, 128, 384, true));
  works.push_back(rows("layer norm 2048x768", RowsKind::LayerNorm, 2048, 768, true));
  works.push_back(rows("layer norm of columns 384x512", RowsKind::LayerNorm, 512, 384, true, true));
  works.push_back(rows("RMS norm 512x1024", RowsKind::RmsNorm, 512, 1024, false));
  works.push_back(reduction("sum of rows 512x384", ReduceKind::Sum, 512, 384, 1));
  works.push_back(reduction("max of rows 512x384", ReduceKind::Max, 512, 384, 1));
  works.push_back(reduction("sum of columns 512x384", ReduceKind::Sum, 1, 512, 384));
  works.push_back(reduction("max of columns 512x384", ReduceKind::Max, 1, 512, 384));
  works.push_back(reduction("sum over the middle 8x128x384", ReduceKind::Sum, 8, 128, 384));
  works.push_back(reduction("sum of columns 4096x4096", ReduceKind::Sum, 1, 4096, 4096));
  works.push_back(transpose("transpose 384x384", F32, 1, 384, 384));
  works.push_back(transpose("transpose 12x128x32", F32, 12, 128, 32));
  works.push_back(transpose("transpose 12x7x32", F32, 12, 7, 32));
  works.push_back(transpose("transpose 1000x1001", F32, 1, 1000, 1001));
  works.push_back(transpose("transpose 2048x2048", F32, 1, 2048, 2048));
  works.push_back(transpose("transpose f16 384x384", ElementType::F16, 1, 384, 384));
  works.push_back(transpose("transpose i8 512x512", ElementType::I8, 1, 512, 512));
  works.push_back(transpose("transpose i64 256x256", ElementType::I64, 1, 256, 256));
  works.push_back(swapMiddle("heads out 1x128x12x32", 1, 128, 12, 32));
  works.push_back(swapMiddle("heads out 8x128x12x64", 8, 128, 12, 64));
  works.push_back(gather("gather 128 rows of 384", 30522, 128, 384));
  works.push_back(gather("gather 4096 rows of 384", 30522, 4096, 384));
  works.push_back(elementwise("add 128x384", {F32, F32}, {f32(Opcode::Add, 0, 1)}, F32, 128 * 384));
  works.push_back(elementwise("add 4096x4096", {F32, F32}, {f32(Opcode::Add, 0, 1)}, F32, 4096 * 4096));
  works.push_back(elementwise("x * sigmoid(x) + y, 128x384", {F32, F32},
                              {f32(Opcode::Sigmoid, 0), f32(Opcode::Mul, 0, 2), f32(Opcode::Add, 3, 1)}, F32,
                              128 * 384));
  works.push_back(elementwise("gelu 128x384", {F32}, {f32(Opcode::Gelu, 0)}, F32, 128 * 384));
  {
    Work work("bias added 128x384", Family::Loops, {128, 384});
    work.in(F32, 128 * 384, {384, 1}).in(F32, 384, {0, 1}).out(F32, 128 * 384, {384, 1});
    work.program({f32(Opcode::Add, 0, 1)}, 2);
    work.tiles = 128;
    works.push_back(std::move(work));
  }
  {
    Work work("mask added 12x16x7x7", Family::Loops, {16, 84, 7});
    work.in(F32, 16 * 84 * 7, {84 * 7, 7, 1}).in(F32, 16 * 7, {7, 0, 1}).out(F32, 16 * 84 * 7, {84 * 7, 7, 1});
    work.program({f32(Opcode::Add, 0, 1)}, 2);
    work.tiles = 16 * 84;
    works.push_back(std::move(work));
  }
  for (auto [name, from, to] : {std::tuple{"f16 to f32", ElementType::F16, F32},
                                {"f32 to f16", F32, ElementType::F16},
                                {"bf16 to f32", ElementType::BF16, F32},
                                {"f32 to bf16", F32, ElementType::BF16},
                                {"i8 to f32", ElementType::I8, F32},
                                {"f32 to i8", F32, ElementType::I8},
                                {"f32 to i32", F32, ElementType::I32},
                                {"i64 to f32", ElementType::I64, F32},
                                {"i64 to i32", ElementType::I64, ElementType::I32},
                                {"i1 to f32", ElementType::I1, F32}})
    works.push_back(convert(name, from, to, 128 * 384));
  for (bool columns : {false, true}) {
    Work work(columns ? "running sum of columns 384x512" : "running sum 512x384", Family::Scan, {512});
    work.integers.push_back(384);
    int64_t pitch = columns ? 1 : 384, step = columns ? 512 : 1;
    work.operand(false, F32, 512 * 384, {pitch, step}, step).operand(true, F32, 512 * 384, {pitch, step}, step);
    work.elements = 512 * 384;
    work.tiles = 512;
    works.push_back(std::move(work));
  }
  return works;
}

} // namespace

int main(int argc, char **argv) {
  Bench bench("rows", "The kernels that memory bounds, beside a plain copy of as many bytes.");
  std::vector<std::string> words;
  std::string target = hostTarget();
  bench.app.add_option("words", words, "Only rows whose name contains one of these");
  bench.app.add_option("--target", target, "Compile for it, such as x86_64:x86-64-v3:");
  if (std::optional<int> code = bench.parse(argc, argv))
    return *code;
  bench.machine();

  CodeMemory memory;
  std::vector<Work> works;
  for (Work &work : everything()) {
    auto isNamed = [&](const std::string &word) { return work.name.find(word) != std::string::npos; };
    if (!words.empty() && std::none_of(words.begin(), words.end(), isNamed))
      continue;
    work.spec.target = target;
    work.spec.revision = kEmitterRevision;
    Result<Kernel> kernel = makeKernel(work.spec, memory);
    if (!kernel)
      return bench.fail(work.name + ": " + kernel.error().message);
    work.kernel = *std::move(kernel);
    works.push_back(std::move(work));
  }
  if (works.empty())
    return bench.fail("no row of these names");

  Sheet sheet({"kernel", "us", "ns/element", "GB/s", "copy GB/s", "% of copy", "compile ms", "bytes"});
  for (Work &work : works) {
    bench.progress(work.name);
    Room other(work.bytes + 128);
    Race race;
    size_t mine = race.add([&] { work.run(); });
    size_t plain = race.add([&] { copy(reinterpret_cast<char *>(other.data()), work.bytes); });
    race.run(bench.rounds, {0.002, 0.002});
    double seconds = race.fastest(mine), bytes = static_cast<double>(work.bytes);
    sheet.add({work.name, cell("{:.1f}", seconds * 1e6),
               cell("{:.3f}", seconds * 1e9 / static_cast<double>(work.elements)),
               cell("{:.1f}", bytes / seconds * 1e-9), cell("{:.1f}", bytes / race.fastest(plain) * 1e-9),
               cell("{:.0f}", 100 * race.fastest(plain) / seconds), cell("{:.1f}", work.kernel.compileMs),
               cell(static_cast<int64_t>(work.kernel.codeBytes))});
  }
  bench.print("rows", sheet);
  return bench.finish();
}
