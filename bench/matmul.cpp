//===- matmul.cpp - the variants of the matmul kernel ---------------------===//
//
// Single kernels by their spec, for those who work on them: storage types,
// epilogues, few and many rows, and where the weight comes from. B rotates
// through a set of matrices: "hot" is one of them, "l3" 12 MB of them, "cold"
// more than any cache holds. (bench/gemm takes the way that a run takes, and
// compares with libraries.)
//
//===----------------------------------------------------------------------===//
#include "common/Bench.h"
#include "common/Kernel.h"
#include "rlx/Data/ElementType.h"

#include <cstring>
#include <map>

using namespace rlx;
using namespace rlx::bench;
using namespace rlx::data;

namespace {

constexpr size_t kCold = size_t(288) << 20, kL3 = size_t(12) << 20;

/// What all rows share.
struct Kernels {
  std::string target = hostTarget();
  bool assembly = false;
  CodeMemory memory;
  std::map<size_t, Memory> sources;
  /// Memory of so many bytes, whose bandwidth is the limit.
  Memory &source(size_t bytes) { return sources.try_emplace(bytes, bytes).first->second; }
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

/// Empty, or what is wrong.
std::string measure(Bench &bench, Kernels &kernels, const Row &row, Sheet &sheet) {
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
  spec.target = kernels.target;
  spec.revision = kEmitterRevision;
  std::string assembly;
  Result<Kernel> kernel = makeKernel(spec, kernels.memory, kernels.assembly ? &assembly : nullptr);
  if (!kernel)
    return kernel.error().message;
  if (kernels.assembly)
    fmt::print("{}\n{}\n", row.name(), assembly);

  int64_t panels = (row.N + kPanel - 1) / kPanel;
  int64_t bBytes = (row.packed ? panels * kPanel : row.N) * row.K * elementBytes(row.weight);
  bBytes = (bBytes + 63) / 64 * 64;
  size_t total = row.place == Place::Cold ? kCold : row.place == Place::L3 ? kL3 : static_cast<size_t>(bBytes);
  size_t copies = (total + static_cast<size_t>(bBytes) - 1) / static_cast<size_t>(bBytes);
  Room a(row.M * row.K * elementBytes(row.activation)), b(static_cast<int64_t>(copies) * bBytes), columns(row.N * 4),
      rows(row.M * row.N * 4), c(row.M * row.N * elementBytes(row.activation)), scratch(matmulScratchBytes(row.K, 4));
  std::vector<int64_t> integers = {row.M, row.N, row.K, row.K, 1};
  int64_t kStride = row.transposed ? 1 : row.N, nStride = row.transposed ? row.K : 1;
  integers.insert(integers.end(), {row.packed ? 0 : kStride, row.packed ? 0 : nStride});
  std::vector<void *> pointers = {a.data(), b.data()};
  auto operand = [&](const Room &room, int64_t m, int64_t n) {
    pointers.push_back(room.data());
    integers.insert(integers.end(), {m, n});
  };
  if (scaled)
    operand(columns, 0, 0);
  if (bias)
    operand(columns, 0, 1);
  if (residual)
    operand(rows, row.N, 1);
  operand(c, row.N, 1);
  integers.insert(integers.end(), {4 << 20, 512 << 10}); // blocks of rows
  integers.push_back(row.packed && row.place == Place::L3);
  pointers.push_back(scratch.data());

  size_t copy = 0;
  double flops = 2.0 * static_cast<double>(row.M * row.N * row.K), bytes = static_cast<double>(bBytes);
  Race race(1, &kernels.source(total));
  race.add([&] {
    pointers[1] = b.data() + copy * static_cast<size_t>(bBytes);
    copy = copy + 1 == copies ? 0 : copy + 1;
    kernel->handle.fn(pointers.data(), integers.data(), 0, panels, nullptr);
  });
  race.run(bench.rounds);
  double seconds = race.seconds(0);
  sheet.add({row.name(), cell("{:.1f}", seconds * 1e6), cell("{:.1f}", flops / seconds * 1e-9),
             cell("{:.1f}", bytes / seconds * 1e-9), cell("{:.0f}", 100 * race.shareOfPeak(0, flops)),
             cell("{:.0f}", 100 * race.shareOfLimit(0, flops, bytes)), cell("{:.1f}", kernel->compileMs),
             cell("{:.1f}", kernel->codegenMs), cell(static_cast<int64_t>(kernel->codeBytes))});
  return "";
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
  Bench bench("matmul",
              "Variants of the matmul kernel, one thread, one kernel a row. bench/gemm is the one that compares.");
  Kernels kernels;
  std::vector<std::string> words;
  bench.app.add_option("--target", kernels.target, "What to compile for, such as x86_64:x86-64-v3:")
      ->type_name("TARGET");
  bench.app.add_flag("--assembly", kernels.assembly, "Print each kernel's assembly");
  bench.app.add_option("words", words, "Only rows whose name contains all of these");
  if (std::optional<int> code = bench.parse(argc, argv))
    return *code;
  bench.machine();
  bench.note("target " + kernels.target);
  Sheet sheet({"MxNxK", "us", "GF/s", "GB/s", "% of peak", "% of limit", "compile ms", "codegen ms", "code bytes"});
  for (const Row &row : allRows()) {
    std::string name = " " + row.name() + " ";
    if (!std::ranges::all_of(words, [&](const std::string &word) { return name.find(word) != name.npos; }))
      continue;
    bench.progress(row.name());
    if (std::string problem = measure(bench, kernels, row, sheet); !problem.empty())
      return bench.fail(row.name() + ": " + problem);
  }
  bench.print("matmul, one thread", sheet);
  return bench.finish();
}
