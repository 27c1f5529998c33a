//===- gemm.cpp - speed of the matmul kernels, and of compiling them ------===//
//
// Prints, for a few shapes, GF/s and the share of the machine's FMA peak that
// was measured in the same run (clock speeds and neighbours come and go).
// Built by hand or as the target rlx-bench-gemm; not a test.
//
//===----------------------------------------------------------------------===//
#include "rlx/Codegen/KernelCompiler.h"
#include "rlx/Runtime/CodeMemory.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <immintrin.h>
#include <vector>

using namespace rlx;
using namespace rlx::data;

namespace {

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// Seconds of the fastest of many calls.
double best(const std::function<void()> &call) {
  double fastest = 1e9, end = seconds() + 0.3;
  do {
    double start = seconds();
    call();
    fastest = std::min(fastest, seconds() - start);
  } while (seconds() < end);
  return fastest;
}

constexpr int kRounds = 20000, kChains = 12;

/// Independent multiply-adds in registers.
__attribute__((target("avx2,fma"), noinline)) void multiplyAdds() {
  __m256 x[kChains], y = _mm256_set1_ps(0.999f);
  for (int i = 0; i < kChains; ++i)
    x[i] = _mm256_set1_ps(static_cast<float>(i));
  for (int round = 0; round < kRounds; ++round)
    for (int i = 0; i < kChains; ++i) {
      x[i] = _mm256_fmadd_ps(x[i], y, y);
      asm volatile("" : "+x"(x[i]));
    }
}

/// What the machine can do at most.
double peakGigaflops() { return 2.0 * 8 * kChains * kRounds / best(multiplyAdds) * 1e-9; }

std::unique_ptr<AccessSpecT> f32Access(InnerMode inner = InnerMode::Contiguous) {
  auto access = std::make_unique<AccessSpecT>();
  access->type = ElementType::F32;
  access->inner = inner;
  return access;
}

struct Shape {
  const char *name;
  int64_t M, N, K;
  ElementType weight = ElementType::F32;
  bool packed = true;
  bool gelu = false;
  bool transposed = false; ///< B along k is contiguous
};

void measure(CodeMemory &memory, const std::string &target, const Shape &shape, double peak) {
  KernelSpecT spec;
  spec.family = Family::Matmul;
  spec.rank = 2;
  spec.b_type = shape.weight;
  spec.a_type = ElementType::F32;
  spec.b_layout = shape.packed ? PackedLayout::Panels16 : PackedLayout::Strided;
  spec.row_class = static_cast<uint8_t>(std::min<int64_t>(shape.M, 6));
  spec.outputs.push_back(f32Access());
  spec.results = {0};
  if (shape.gelu) {
    spec.inputs.push_back(f32Access());
    spec.program = {Instr(Opcode::Add, ElementType::F32, 0, 1, 0, 0),
                    Instr(Opcode::Gelu, ElementType::F32, 2, 0, 0, 0)};
    spec.results = {3};
  }
  spec.target = target;
  spec.revision = kEmitterRevision;
  KernelPhaseTimes times;
  auto image = compileKernel(spec, {.times = &times});
  if (!image) {
    std::printf("%-30s %s\n", shape.name, image.error().message.c_str());
    return;
  }
  const KernelImageT *batch[] = {&*image};
  auto handles = memory.load(batch);
  if (!handles) {
    std::printf("%-30s %s\n", shape.name, handles.error().message.c_str());
    return;
  }
  int64_t panels = (shape.N + kPanel - 1) / kPanel;
  auto room = [](int64_t bytes) {
    void *memory = std::aligned_alloc(64, static_cast<size_t>((bytes + 63) / 64 * 64));
    std::fill_n(static_cast<char *>(memory), bytes, 0);
    return memory;
  };
  int64_t width = shape.weight == ElementType::I8 ? 1 : 4;
  void *a = room(shape.M * shape.K * 4), *b = room(panels * kPanel * shape.K * width), *bias = room(shape.N * 4),
       *c = room(shape.M * shape.N * 4), *scratch = room(matmulScratchBytes(shape.K, 4));
  std::vector<int64_t> integers = {shape.M, shape.N, shape.K, shape.K, 1};
  int64_t kStride = shape.transposed ? 1 : shape.N, nStride = shape.transposed ? shape.K : 1;
  integers.insert(integers.end(), {shape.packed ? 0 : kStride, shape.packed ? 0 : nStride});
  std::vector<void *> pointers = {a, b};
  if (shape.gelu) {
    pointers.push_back(bias);
    integers.insert(integers.end(), {0, 1});
  }
  pointers.insert(pointers.end(), {c, scratch});
  integers.insert(integers.end(), {shape.N, 1});
  double time = best([&] { (*handles)[0].fn(pointers.data(), integers.data(), 0, panels, nullptr); });
  double gigaflops = 2.0 * static_cast<double>(shape.M * shape.N * shape.K) / time * 1e-9;
  double compile = 0;
  for (auto &[phase, ms] : times)
    compile += ms;
  std::printf("%-30s %9.1f us %7.1f GF/s %5.1f%% %6.1f GB/s of B, compiled in %5.1f ms (", shape.name, time * 1e6,
              gigaflops, 100 * gigaflops / peak, static_cast<double>(shape.N * shape.K * width) / time * 1e-9, compile);
  for (auto &[phase, ms] : times)
    std::printf(" %s %.1f", phase.c_str(), ms);
  std::printf(" ), %zu bytes\n", image->code.size());
  for (void *memory : {a, b, bias, c, scratch})
    std::free(memory);
}

} // namespace

/// The first argument, when there is one, is the target to compile for, such as x86_64:x86-64-v3:.
int main(int argc, char **argv) {
  CodeMemory memory;
  std::string target = argc > 1 ? argv[1] : hostTarget();
  double peak = peakGigaflops();
  std::printf("target %s, FMA peak %.1f GF/s\n", target.c_str(), peak);
  for (const Shape &shape : {
           Shape{"128x1536x384", 128, 1536, 384},
           Shape{"128x1536x384 gelu", 128, 1536, 384, ElementType::F32, true, true},
           Shape{"128x1536x384 int8", 128, 1536, 384, ElementType::I8},
           Shape{"128x384x1536", 128, 384, 1536},
           Shape{"128x1536x384 activations", 128, 1536, 384, ElementType::F32, false},
           Shape{"128x128x32 activations", 128, 128, 32, ElementType::F32, false},
           Shape{"128x128x32 transposed", 128, 128, 32, ElementType::F32, false, false, true},
           Shape{"16x16x32 transposed", 16, 16, 32, ElementType::F32, false, false, true},
           Shape{"16x32x16 activations", 16, 32, 16, ElementType::F32, false},
           Shape{"7x1536x384", 7, 1536, 384},
           Shape{"6x1536x384", 6, 1536, 384},
           Shape{"5x1536x384", 5, 1536, 384},
           Shape{"3x1536x384", 3, 1536, 384},
           Shape{"2x1536x384", 2, 1536, 384},
           Shape{"1x1536x384", 1, 1536, 384},
           Shape{"1x1536x384 int8", 1, 1536, 384, ElementType::I8},
           Shape{"1x30000x1024", 1, 30000, 1024},
       })
    measure(memory, target, shape, peak);
  std::printf("FMA peak at the end %.1f GF/s\n", peakGigaflops());
}
