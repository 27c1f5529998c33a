//===- gemm.cpp - speed of the matmul kernels, and of compiling them ------===//
//
// Prints, for the shapes of encoders and a few others, GF/s, the share of the
// machine's limit and what compiling took. The limit is the larger of FLOPs over
// the FMA peak and bytes of B over the bandwidth of a plain read loop, both
// measured again and again in the same run (clock speeds and neighbours come
// and go). B rotates through a set of matrices: "hot" is one of them, "l3" 12 MB
// of them, "cold" more than any cache holds.
//
//   rlx-bench-gemm [--target=x86_64:x86-64-v3:] [--assembly] [words that a row's name must contain...]
//
//===----------------------------------------------------------------------===//
#include "rlx/Codegen/KernelCompiler.h"
#include "rlx/Data/ElementType.h"
#include "rlx/Runtime/CodeMemory.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <immintrin.h>
#include <string>
#include <sys/mman.h>
#include <vector>

using namespace rlx;
using namespace rlx::data;

namespace {

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

constexpr int kChains = 12;

/// Independent multiply-adds in registers.
__attribute__((target("avx2,fma"), noinline)) void multiplyAdds(int rounds) {
  __m256 x[kChains], y = _mm256_set1_ps(0.999f);
  for (int i = 0; i < kChains; ++i)
    x[i] = _mm256_set1_ps(static_cast<float>(i));
  for (int round = 0; round < rounds; ++round)
    for (int i = 0; i < kChains; ++i) {
      x[i] = _mm256_fmadd_ps(x[i], y, y);
      asm volatile("" : "+x"(x[i]));
    }
}

double elapsed(const std::function<void()> &call) {
  double start = seconds();
  call();
  return seconds() - start;
}

/// FMA speed of a few microseconds.
double gigaflopsNow() {
  constexpr int kRounds = 1000;
  return 2.0 * 8 * kChains * kRounds / elapsed([] { multiplyAdds(kRounds); }) * 1e-9;
}

/// Times calls while nobody else slows the core down.
class Clock {
public:
  double peak = 0; ///< GF/s, the best met
  /// Seconds of the fastest of many calls. Goes on until a dozen ran between two bursts of multiply-adds at full speed.
  double best(const std::function<void()> &call) {
    double fastest = 1e9, fastestQuiet = 1e9, end = seconds() + 2;
    for (int quiet = 0, calls = 0; quiet < 12 || calls < 30; ++calls) {
      double before = gigaflopsNow(), time = elapsed(call), after = gigaflopsNow();
      peak = std::max({peak, before, after});
      fastest = std::min(fastest, time);
      if (std::min(before, after) >= 0.97 * peak) {
        ++quiet;
        fastestQuiet = std::min(fastestQuiet, time);
      }
      if (seconds() > end)
        break;
    }
    return std::min(fastest, fastestQuiet);
  }
};

/// Memory that is touched, so that it is not all one page of zeros, and in large pages as the runtime's is.
char *room(size_t bytes) {
  size_t alignment = bytes >= (size_t(4) << 20) ? size_t(2) << 20 : 64;
  bytes = (bytes + alignment - 1) / alignment * alignment;
  auto *memory = static_cast<char *>(std::aligned_alloc(alignment, bytes));
  if (!memory)
    std::abort();
  if (alignment > 64)
    madvise(memory, bytes, MADV_HUGEPAGE);
  std::memset(memory, 0, bytes);
  return memory;
}

constexpr size_t kCold = size_t(288) << 20, kL3 = size_t(12) << 20;

/// Sums of eight streams of `bytes` at `from`.
__attribute__((target("avx2"), noinline)) float readAll(const char *from, size_t bytes) {
  constexpr size_t kStreams = 8;
  size_t part = bytes / kStreams / 64 * 64;
  __m256 sums[2 * kStreams];
  for (__m256 &sum : sums)
    sum = _mm256_setzero_ps();
  for (size_t at = 0; at != part; at += 64)
    for (size_t stream = 0; stream != kStreams; ++stream)
      for (size_t half = 0; half != 2; ++half)
        sums[2 * stream + half] =
            _mm256_add_ps(sums[2 * stream + half],
                          _mm256_load_ps(reinterpret_cast<const float *>(from + stream * part + at + half * 32)));
  __m256 all = _mm256_setzero_ps();
  for (__m256 sum : sums)
    all = _mm256_add_ps(all, sum);
  float lanes[8];
  _mm256_storeu_ps(lanes, all);
  return lanes[0];
}

/// What the machine can do at most.
struct Machine {
  Clock clock;
  char *memory = room(kCold);
  double fromMemory = 0, fromL3 = 0; ///< GB/s

  void measure() {
    volatile float sink = 0;
    auto read = [&](size_t total, size_t bytes) {
      size_t at = 0;
      double time = clock.best([&] {
        sink = sink + readAll(memory + at, bytes);
        at = at + 2 * bytes > total ? 0 : at + bytes;
      });
      return static_cast<double>(bytes) / time * 1e-9;
    };
    fromMemory = std::max(fromMemory, read(kCold, size_t(4) << 20));
    fromL3 = std::max(fromL3, read(kL3, size_t(4) << 20));
  }
  void print() const {
    std::printf("FMA peak %.1f GF/s, reads %.1f GB/s from memory, %.1f from L3\n", clock.peak, fromMemory, fromL3);
  }
};

std::unique_ptr<AccessSpecT> access(ElementType type = ElementType::F32, InnerMode inner = InnerMode::Contiguous) {
  auto result = std::make_unique<AccessSpecT>();
  result->type = type;
  result->inner = inner;
  return result;
}

enum class Place { Hot, L3, Cold };
enum class Epilogue { None, Bias, Gelu, Residual };
constexpr const char *kPlaceNames[] = {"hot", "l3", "cold"};
constexpr const char *kEpilogueNames[] = {"", " bias", " bias+gelu", " bias+residual"};

struct Row {
  int64_t M, N, K;
  ElementType weight = ElementType::F32;
  Epilogue epilogue = Epilogue::None;
  Place place = Place::Hot;
  ElementType activation = ElementType::F32;
  bool packed = true;
  bool transposed = false; ///< B along k is contiguous

  std::string name() const {
    std::string text = std::to_string(M) + "x" + std::to_string(N) + "x" + std::to_string(K);
    if (activation != ElementType::F32)
      text += " a " + std::string(elementTypeName(activation));
    text += " " + std::string(elementTypeName(weight));
    text += kEpilogueNames[static_cast<int>(epilogue)];
    if (!packed)
      text += transposed ? " transposed" : " plain";
    return text + " " + kPlaceNames[static_cast<int>(place)];
  }
};

void measure(CodeMemory &memory, Machine &machine, const std::string &target, const Row &row, bool printAssembly) {
  KernelSpecT spec;
  spec.family = Family::Matmul;
  spec.rank = 2;
  spec.a_type = row.activation;
  spec.b_type = row.weight;
  spec.b_layout = row.packed ? PackedLayout::Panels16 : PackedLayout::Strided;
  spec.row_class = static_cast<uint8_t>(row.M <= kMatmulFewRows ? kMatmulFewRows : kMatmulManyRows);
  spec.outputs.push_back(access(row.activation));
  // The operands of the epilogue in the order they are met: scale (8-bit weights), bias, residual.
  bool scaled = row.weight == ElementType::I8 && row.epilogue != Epilogue::None;
  auto input = [&](InnerMode inner) {
    spec.inputs.push_back(access(ElementType::F32, inner));
    return static_cast<uint16_t>(spec.inputs.size());
  };
  uint16_t scale = scaled ? input(InnerMode::Splat) : 0;
  uint16_t bias = row.epilogue != Epilogue::None ? input(InnerMode::Contiguous) : 0;
  uint16_t residual = row.epilogue == Epilogue::Residual ? input(InnerMode::Contiguous) : 0;
  uint16_t value = 0, next = static_cast<uint16_t>(spec.inputs.size() + 1);
  auto apply = [&](Opcode op, uint16_t with) {
    spec.program.push_back(Instr(op, ElementType::F32, value, with, 0, 0));
    value = next++;
  };
  if (scaled)
    apply(Opcode::Mul, scale);
  if (bias)
    apply(Opcode::Add, bias);
  if (row.epilogue == Epilogue::Gelu)
    apply(Opcode::Gelu, 0);
  if (residual)
    apply(Opcode::Add, residual);
  spec.results = {value};
  spec.target = target;
  spec.revision = kEmitterRevision;
  KernelPhaseTimes times;
  std::string assembly;
  auto image = compileKernel(spec, {.times = &times, .assembly = printAssembly ? &assembly : nullptr});
  if (printAssembly)
    std::puts(assembly.c_str());
  if (!image) {
    std::printf("%-40s %s\n", row.name().c_str(), image.error().message.c_str());
    return;
  }
  const KernelImageT *batch[] = {&*image};
  auto handles = memory.load(batch);
  if (!handles) {
    std::printf("%-40s %s\n", row.name().c_str(), handles.error().message.c_str());
    return;
  }

  int64_t panels = (row.N + kPanel - 1) / kPanel;
  int64_t bBytes = (row.packed ? panels * kPanel : row.N) * row.K * elementBytes(row.weight);
  bBytes = (bBytes + 63) / 64 * 64;
  auto total = row.place == Place::Cold ? kCold : row.place == Place::L3 ? kL3 : static_cast<size_t>(bBytes);
  size_t copies = (total + static_cast<size_t>(bBytes) - 1) / static_cast<size_t>(bBytes);
  size_t cBytes = static_cast<size_t>(row.M * row.N * elementBytes(row.activation));
  char *a = room(static_cast<size_t>(row.M * row.K * elementBytes(row.activation))),
       *b = room(static_cast<size_t>(bBytes) * copies), *columns = room(static_cast<size_t>(row.N * 4)),
       *rows = room(static_cast<size_t>(row.M * row.N * 4)), *c = room(cBytes),
       *scratch = room(static_cast<size_t>(matmulScratchBytes(row.K, 4)));
  std::vector<int64_t> integers = {row.M, row.N, row.K, row.K, 1};
  int64_t kStride = row.transposed ? 1 : row.N, nStride = row.transposed ? row.K : 1;
  integers.insert(integers.end(), {row.packed ? 0 : kStride, row.packed ? 0 : nStride});
  std::vector<void *> pointers = {a, b};
  auto operand = [&](char *base, int64_t m, int64_t n) {
    pointers.push_back(base);
    integers.insert(integers.end(), {m, n});
  };
  if (scaled)
    operand(columns, 0, 0);
  if (bias)
    operand(columns, 0, 1);
  if (residual)
    operand(rows, row.N, 1);
  operand(c, row.N, 1);
  pointers.push_back(scratch);

  size_t copy = 0;
  double flops = 2.0 * static_cast<double>(row.M * row.N * row.K), bytes = static_cast<double>(bBytes);
  // Calls of nanoseconds are timed by the dozen.
  int repeat = row.place == Place::Hot ? 1 + static_cast<int>(2e6 / flops) : 1;
  double time = machine.clock.best([&] {
    pointers[1] = b + copy * static_cast<size_t>(bBytes);
    copy = (copy + 1) % copies;
    for (int i = 0; i != repeat; ++i)
      (*handles)[0].fn(pointers.data(), integers.data(), 0, panels, nullptr);
  }) / repeat;
  double limit = flops / machine.clock.peak * 1e-9;
  if (row.place != Place::Hot)
    limit = std::max(limit, bytes / (row.place == Place::Cold ? machine.fromMemory : machine.fromL3) * 1e-9);
  double compile = 0;
  for (auto &[phase, ms] : times)
    compile += ms;
  std::printf("%-40s %9.1f us %7.1f GF/s %5.1f%% of peak %6.1f GB/s %5.1f%% of limit, %4.1f ms", row.name().c_str(),
              time * 1e6, flops / time * 1e-9, 100 * flops / time * 1e-9 / machine.clock.peak, bytes / time * 1e-9,
              100 * limit / time, compile);
  for (auto &[phase, ms] : times)
    if (phase == "codegen")
      std::printf(" (codegen %.1f)", ms);
  std::printf(" %zu bytes\n", image->code.size());
  std::fflush(stdout);
  for (void *memory : {a, b, columns, rows, c, scratch})
    std::free(memory);
}

std::vector<Row> allRows() {
  constexpr auto F32 = ElementType::F32, I8 = ElementType::I8;
  std::vector<Row> rows;
  // Few and middling rows: weights that no cache holds.
  for (int64_t M : {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 16, 32, 64})
    for (ElementType weight : {F32, I8})
      rows.push_back({M, 1024, 1024, weight, Epilogue::Bias, Place::Cold});
  for (int64_t M : {1, 5, 7})
    rows.push_back({M, 30000, 1024, F32, Epilogue::Bias, Place::Cold});
  // The products of encoders.
  struct Shape {
    int64_t N, K;
    Epilogue epilogue;
  };
  for (int64_t M : {16, 64, 128, 512})
    for (Shape shape : {Shape{384, 384, Epilogue::Bias}, Shape{1536, 384, Epilogue::Gelu},
                        Shape{1536, 384, Epilogue::Bias}, Shape{384, 1536, Epilogue::Residual}})
      for (ElementType weight : {F32, I8})
        rows.push_back({M, shape.N, shape.K, weight, shape.epilogue, Place::L3});
  for (int64_t M : {7, 64, 128})
    for (Shape shape : {Shape{3072, 1024, Epilogue::Bias}, Shape{1024, 1024, Epilogue::Residual},
                        Shape{3072, 1024, Epilogue::Gelu}, Shape{1024, 3072, Epilogue::Residual}})
      rows.push_back({M, shape.N, shape.K, F32, shape.epilogue, Place::Cold});
  // Micro-kernels alone.
  for (int64_t M : {1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16})
    for (ElementType weight : {F32, I8})
      rows.push_back({M, 512, 384, weight, Epilogue::None, Place::Hot});
  // What each epilogue costs.
  for (Epilogue epilogue : {Epilogue::None, Epilogue::Bias, Epilogue::Residual, Epilogue::Gelu})
    rows.push_back({128, 1536, 384, F32, epilogue, Place::Hot});
  // Storage of 16 bits.
  for (ElementType type : {ElementType::F16, ElementType::BF16})
    for (int64_t M : {1, 16, 128}) {
      rows.push_back({M, 1536, 384, type, Epilogue::Bias, Place::L3});
      rows.push_back({M, 1536, 384, type, Epilogue::Bias, Place::L3, type});
    }
  // Activations times activations.
  for (bool transposed : {false, true})
    for (int64_t M : {1, 5, 16, 128})
      rows.push_back({M, 128, 32, F32, Epilogue::None, Place::Hot, F32, false, transposed});
  rows.push_back({128, 1536, 384, F32, Epilogue::None, Place::Hot, F32, false});
  return rows;
}

} // namespace

int main(int argc, char **argv) {
  std::string target = hostTarget();
  bool printAssembly = false;
  std::vector<std::string> words;
  for (int i = 1; i != argc; ++i)
    if (std::string word = argv[i]; word.starts_with("--target="))
      target = word.substr(9);
    else if (word == "--assembly")
      printAssembly = true;
    else
      words.push_back(word);
  CodeMemory memory;
  Machine machine;
  machine.measure();
  std::printf("target %s\n", target.c_str());
  machine.print();
  for (const Row &row : allRows()) {
    std::string name = " " + row.name() + " ";
    if (std::all_of(words.begin(), words.end(), [&](const std::string &word) { return name.find(word) != name.npos; }))
      measure(memory, machine, target, row, printAssembly);
  }
  machine.print();
}
