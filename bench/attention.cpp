//===- attention.cpp - speed of the attention kernel, and of compiling it -===//
//
// Heads lie inside of rows, as encoders have them: [batch, row, head, element];
// "cache" is a decoder's step, whose keys and values lie head by head.
// The program is that of most exports: a scale and an added mask. Flops are
// those of the two products alone; what the softmax takes shows as what is
// missing to the peak.
//
//===----------------------------------------------------------------------===//
#include "common/Bench.h"
#include "common/Kernel.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <random>

using namespace rlx;
using namespace rlx::data;
using namespace rlx::bench;

namespace {

struct Shape {
  std::string name;
  int64_t heads, queries, keys, width;
  ElementType type = ElementType::F32;
  bool cache = false;
};

/// A kernel with what it works on.
class Work {
public:
  Work(const Shape &shape, const std::string &target, CodeMemory &memory);

  void run() { kernel.handle.fn(pointers.data(), integers.data(), 0, tiles, nullptr); }
  /// The largest error of a few rows against double.
  double error();
  double flops() const { return 4.0 * static_cast<double>(shape.heads * shape.queries * shape.keys * shape.width); }
  /// q, k, v and the output, each once.
  double bytes() const { return 8.0 * static_cast<double>(shape.heads * shape.width * (shape.queries + shape.keys)); }

  const Shape shape;
  std::string problem; ///< why it cannot run
  Kernel kernel;

private:
  int64_t pitch() const { return shape.heads * shape.width; }
  /// From head to head and row to row of q, k, v (0, 1, 2) and the output.
  std::pair<int64_t, int64_t> strides(int which) const {
    bool apart = shape.cache && (which == 1 || which == 2);
    return apart ? std::pair(shape.keys * shape.width, shape.width) : std::pair(shape.width, pitch());
  }

  std::vector<Room> rooms; ///< q, k, v, output, mask, scratch
  std::vector<void *> pointers;
  std::vector<int64_t> integers;
  int64_t tiles = 0;
};

std::unique_ptr<AccessSpecT> access(ElementType type) {
  auto made = std::make_unique<AccessSpecT>();
  made->type = type;
  return made;
}

constexpr float kScale = 0.125f;

Work::Work(const Shape &shape, const std::string &target, CodeMemory &memory) : shape(shape) {
  KernelSpecT spec;
  spec.family = Family::Attention;
  spec.rank = 4;
  spec.batch_rank = 2;
  spec.row_class = static_cast<uint8_t>(shape.queries == 1 ? 1 : kAttentionRows);
  for (int i = 0; i < 3; ++i)
    spec.inputs.push_back(access(shape.type));
  spec.inputs.push_back(access(ElementType::F32));
  spec.outputs.push_back(access(shape.type));
  spec.program = {Instr(Opcode::Constant, ElementType::F32, 0, 0, 0, std::bit_cast<uint32_t>(kScale)),
                  Instr(Opcode::Mul, ElementType::F32, 0, 2, 0, 0), Instr(Opcode::Add, ElementType::F32, 3, 1, 0, 0)};
  spec.results = {4};
  spec.target = target;
  spec.revision = kEmitterRevision;
  Result<Kernel> made = makeKernel(spec, memory);
  if (!made) {
    problem = made.error().message;
    return;
  }
  kernel = *std::move(made);

  integers = {1, shape.heads, shape.queries, shape.keys, shape.width, shape.width};
  std::mt19937 random(1);
  for (int which = 0; which < 4; ++which) {
    int64_t rows = which == 0 || which == 3 ? shape.queries : shape.keys;
    auto [toHead, toRow] = strides(which);
    integers.insert(integers.end(), {0, toHead, toRow, 1});
    rooms.emplace_back(rows * pitch() * 4);
    if (shape.type == ElementType::F32)
      for (int64_t i = 0; i < rows * pitch(); ++i)
        rooms.back().floats()[i] = std::uniform_real_distribution<float>(-1, 1)(random);
  }
  integers.insert(integers.end(), {0, 0, 0, 1});
  rooms.emplace_back(shape.keys * 4);
  rooms.emplace_back(attentionScratchBytes(shape.queries, shape.keys, shape.width, shape.width));
  for (Room &room : rooms)
    pointers.push_back(room.data());
  tiles = shape.heads * ((shape.queries - 1) / spec.row_class + 1);
}

double Work::error() {
  if (shape.type != ElementType::F32)
    return 0;
  run();
  double largest = 0;
  for (int64_t head : {int64_t(0), shape.heads - 1})
    for (int64_t query : {int64_t(0), shape.queries - 1}) {
      auto row = [&](int which, int64_t row) {
        auto [toHead, toRow] = strides(which);
        return rooms[which].floats() + row * toRow + head * toHead;
      };
      std::vector<double> weights, result(static_cast<size_t>(shape.width));
      double most = -INFINITY, total = 0;
      for (int64_t key = 0; key < shape.keys; ++key) {
        double sum = 0;
        for (int64_t i = 0; i < shape.width; ++i)
          sum += static_cast<double>(row(0, query)[i]) * row(1, key)[i];
        weights.push_back(sum * kScale);
        most = std::max(most, weights.back());
      }
      for (double &weight : weights)
        total += weight = std::exp(weight - most);
      for (int64_t key = 0; key < shape.keys; ++key)
        for (int64_t i = 0; i < shape.width; ++i)
          result[static_cast<size_t>(i)] += weights[static_cast<size_t>(key)] / total * row(2, key)[i];
      for (int64_t i = 0; i < shape.width; ++i)
        largest = std::max(largest, std::abs(result[static_cast<size_t>(i)] - row(3, query)[i]));
    }
  return largest;
}

} // namespace

int main(int argc, char **argv) {
  Bench bench("attention", "Speed of attention in one kernel (scale, mask, softmax), and what compiling it takes.");
  std::string target = hostTarget();
  std::vector<std::string> words;
  bench.app.add_option("--target", target, "What to compile for, such as x86_64:x86-64-v3:")->type_name("TARGET");
  bench.app.add_option("words", words, "Only rows whose name contains one of these");
  if (std::optional<int> code = bench.parse(argc, argv))
    return *code;
  bench.machine();

  std::vector<Shape> shapes;
  for (int64_t width : {32, 64})
    for (int64_t length : {7, 16, 64, 128, 512})
      shapes.push_back({fmt::format("12 x {} x {}", length, width), 12, length, length, width});
  shapes.push_back({"12 x 128 x 64 f16", 12, 128, 128, 64, ElementType::F16});
  shapes.push_back({"2 x 4096 x 64", 2, 4096, 4096, 64});
  shapes.push_back({"cache 12 x 2048 x 64", 12, 1, 2048, 64, ElementType::F32, true});
  shapes.push_back({"cache 32 x 4096 x 128", 32, 1, 4096, 128, ElementType::F32, true});
  shapes.push_back({"one query 12 x 2048 x 64", 12, 1, 2048, 64});
  auto asked = [&](const Shape &shape) {
    return words.empty() || std::ranges::any_of(words, [&](const std::string &word) {
             return shape.name.find(word) != std::string::npos;
           });
  };
  Sheet sheet({"heads x length x width", "us", "GF/s", "% of peak", "% of limit", "compile ms", "code bytes"});
  CodeMemory memory;
  std::optional<double> least; ///< of the rows that the requirement is about
  for (const Shape &shape : shapes) {
    if (!asked(shape) || (bench.quick && shape.queries * shape.keys > 512 * 512))
      continue;
    bench.progress(shape.name);
    Work work(shape, target, memory);
    if (!work.problem.empty())
      return bench.fail(shape.name + ": " + work.problem);
    if (double error = work.error(); !(error < 1e-5))
      return bench.fail(fmt::format("{}: wrong by {}", shape.name, error));
    Race race;
    size_t own = race.add([&] { work.run(); });
    race.run(bench.rounds);
    double share = 100 * race.shareOfPeak(own, work.flops());
    // The limit: multiply-adds, or reading what is read and written once.
    double seconds = race.seconds(own), fromMemory = work.bytes() / (bench.readBandwidth(size_t(work.bytes())) * 1e9);
    double limit = std::max(share, 100 * fromMemory / seconds);
    sheet.add({shape.name, cell("{:.1f}", seconds * 1e6), cell("{:.1f}", work.flops() / seconds * 1e-9),
               cell("{:.1f}", share), cell("{:.1f}", limit), cell("{:.1f}", work.kernel.compileMs),
               cell(static_cast<int64_t>(work.kernel.codeBytes))});
    if (shape.queries == 128)
      least = std::min(least.value_or(share), share);
  }
  bench.print("attention, one thread", sheet);
  if (least)
    bench.require(*least >= 60, "12 heads of 128 at 0.60 of the FMA peak or more");
  return bench.finish();
}
