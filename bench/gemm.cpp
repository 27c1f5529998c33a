//===- gemm.cpp - matrix products, rlx's and the libraries' ---------------===//
//
// What rlx does is what a run does: the graph of one product goes through the
// compiler, the runtime chooses the kernel for the number of rows and packs the
// weight, and the kernel is called as a step is, on one thread.
//
//===----------------------------------------------------------------------===//
#include "CpuCaches.h"
#include "common/Bench.h"
#include "rlx/Compiler/Load.h"
#include "rlx/Runtime/CodeMemory.h"
#include "rlx/Runtime/Instantiate.h"
#include "rlx/Runtime/Model.h"
#include "rlx/Runtime/ThreadPool.h"

#include <cmath>
#include <cstring>
#include <dlfcn.h>
#include <map>
#include <random>

#ifdef RLX_BENCH_OPENBLAS
#include <cblas.h>
#endif
#ifdef RLX_BENCH_ONEDNN
#include <oneapi/dnnl/dnnl.hpp>
#endif

using namespace rlx;
using namespace rlx::bench;

namespace {

/// Equal weights one after the other, used in turn as the layers of a model are: what holds all of them is what a
/// product's weight comes from.
class Copies {
public:
  Copies(const void *bytes, size_t size, size_t resident)
      : stride((size + 63) / 64 * 64), count(std::max<size_t>(resident / std::max<size_t>(stride, 1), 1)),
        room(stride * count) {
    for (size_t i = 0; i < count; ++i)
      std::memcpy(room.data() + i * stride, bytes, size);
  }
  std::byte *next() {
    at = at + 1 == count ? 0 : at + 1;
    return room.data() + at * stride;
  }

  std::span<const std::byte> all() const { return {room.data(), stride * count}; }

private:
  size_t stride, count, at = 0;
  Room room;
};

/// A weight of a model: K x N.
struct Weight {
  const char *model;
  int64_t N, K;
  bool int8;
  size_t resident; ///< bytes of all weights of the model's products, as they are stored
};

// The distinct ones. rxnmap's 15 layers share theirs.
constexpr Weight kWeights[] = {
    {"minilm", 384, 384, true, 10616832},    {"minilm", 1536, 384, true, 10616832},
    {"minilm", 384, 1536, true, 10616832},   {"maskseq", 384, 384, false, 21233664},
    {"maskseq", 1536, 384, false, 21233664}, {"maskseq", 384, 1536, false, 21233664},
    {"rxnmap", 1024, 1024, false, 41943040}, {"rxnmap", 3072, 1024, false, 41943040},
    {"rxnmap", 1024, 3072, false, 41943040},
};
constexpr int64_t kRows[] = {1, 2, 3, 4, 5, 7, 8, 16, 17, 32, 51, 64, 128, 256};

/// The operands: values that are small enough to be compared after K products.
struct Values {
  std::vector<int8_t> stored8;
  std::vector<float> stored, weight, input; ///< stored: as rlx gets it; weight: as f32
  static constexpr float kScale = 0.0078125f;

  Values(const Weight &shape, int64_t rows) {
    std::mt19937 random(1);
    auto draw = [&] { return static_cast<int>(random() % 255) - 127; };
    size_t elements = static_cast<size_t>(shape.N * shape.K);
    for (size_t i = 0; i < elements; ++i) {
      int value = draw();
      stored8.push_back(static_cast<int8_t>(value));
      weight.push_back(static_cast<float>(value) * kScale);
    }
    for (int64_t i = 0; i < rows * shape.K; ++i)
      input.push_back(static_cast<float>(draw()) * kScale);
  }
};

//===----------------------------------------------------------------------===//
// rlx
//===----------------------------------------------------------------------===//

/// The graph of one product, for any number of rows.
class RlxProduct {
public:
  Status load(const Weight &shape, const Values &values) {
    std::string type = fmt::format("tensor<{}x{}x{}>", shape.K, shape.N, shape.int8 ? "i8" : "f32");
    std::string wide = fmt::format("tensor<{}x{}xf32>", shape.K, shape.N);
    std::string input = fmt::format("tensor<?x{}xf32, #rlx.dims<[M, {}]>>", shape.K, shape.K);
    std::string text =
        fmt::format("rlx.graph @product(%x: {} {{rlx.name = \"x\"}}) -> (tensor<?x{}xf32> {{rlx.name = "
                    "\"y\"}}) attributes {{dims = [#rlx.dim<\"M\">]}} {{\n  %w = rlx.weight \"w\" : {}\n",
                    input, shape.N, type);
    std::string weight = "%w";
    if (shape.int8) {
      text += fmt::format("  %s = rlx.weight \"s\" : tensor<1x{}xf32>\n  %0 = rlx.convert %w : {} -> {}\n"
                          "  %1 = rlx.mul %0, %s : {}, tensor<1x{}xf32> -> {}\n",
                          shape.N, type, wide, wide, shape.N, wide);
      weight = "%1";
      scales.assign(static_cast<size_t>(shape.N), Values::kScale);
    }
    text += fmt::format("  %y = rlx.matmul %x, {} : {}, {} -> tensor<?x{}xf32>\n"
                        "  rlx.output %y : tensor<?x{}xf32>\n}}\n",
                        weight, input, wide, shape.N, shape.N);
    auto table = std::make_shared<WeightTable>();
    auto add = [&](const char *name, data::ElementType type, std::vector<int64_t> sizes, auto &numbers) {
      return table->add(name, {type, std::move(sizes), std::as_bytes(std::span(numbers)), nullptr});
    };
    if (Status status = shape.int8 ? add("w", data::ElementType::I8, {shape.K, shape.N}, values.stored8)
                                   : add("w", data::ElementType::F32, {shape.K, shape.N}, values.weight);
        !status)
      return status;
    if (shape.int8)
      if (Status status = add("s", data::ElementType::F32, {1, shape.N}, scales); !status)
        return status;
    Result<compiler::LoadedModel> loaded = compiler::loadModule(text, table);
    if (!loaded)
      return loaded.takeError();
    model = loaded->model;
    Result<SpecializeReply> reply = model->compiler()->specialize({{"M", 16}});
    if (!reply)
      return reply.takeError();
    if (reply->error)
      return *reply->error;
    plan = std::move(reply->plan);
    return Status::ok();
  }

  /// Chooses, compiles and loads what serves so many rows.
  Status bind(int64_t rows, size_t resident) {
    auto made = instantiate(plan, *model, {{"M", rows}}, model->compiler()->target());
    if (!made)
      return made.takeError();
    bound = *made;
    if (bound->steps.size() != 1)
      return Error{ErrorCode::Internal, fmt::format("the product is {} kernels, not one", bound->steps.size())};
    const std::vector<uint8_t> &key = bound->kernels[bound->steps[0].kernel]->key;
    if (!kernels.contains(key)) {
      PhaseTimes times;
      Result<std::shared_ptr<ThreadPool>> pool = ThreadPool::create(1);
      if (!pool)
        return pool.takeError();
      auto images =
          model->compiler()->compileKernels({&bound->kernels[bound->steps[0].kernel]->spec, 1}, **pool, times);
      if (!images)
        return images.takeError();
      const data::KernelImageT *batch[] = {&images->front()};
      auto handles = memory.load(batch);
      if (!handles)
        return handles.takeError();
      kernels[key] = handles->front();
    }
    function = kernels[key].fn;
    // The last argument says where b is likely to be, which here depends on the copies.
    const auto &own = bound->steps[0].integers;
    integers.assign(own.data(), own.data() + own.size());
    integers.back() = contendForLastCache(static_cast<int64_t>(resident), cpuCaches());
    return place(resident);
  }

  void run() {
    pointers[weightAt] = copies->next();
    function(pointers.data(), integers.data(), 0, bound->steps[0].tiles, &error);
  }

  /// Where rows are read from and written to.
  std::byte *input = nullptr, *output = nullptr;
  size_t packedBytes = 0;
  /// All copies of the packed weight. After bind().
  std::span<const std::byte> weights() const { return copies->all(); }

private:
  /// Gives every pointer argument its memory.
  Status place(size_t resident) {
    pointers.clear();
    scratch.emplace(static_cast<size_t>(bound->scratchBytes));
    for (const PointerSource &source : bound->steps[0].pointers) {
      if (source.kind != PointerSource::Kind::Buffer) {
        pointers.push_back(source.kind == PointerSource::Kind::Scratch ? scratch->data() : nullptr);
        continue;
      }
      const data::BufferT &buffer = *plan->buffers[source.buffer];
      std::byte *base = nullptr;
      switch (buffer.kind) {
      case data::BufferKind::Input:
        base = input;
        break;
      case data::BufferKind::Output:
        base = output;
        break;
      case data::BufferKind::Weight: {
        WeightLayout layout{buffer.layout,
                            static_cast<int64_t>(buffer.k),
                            static_cast<int64_t>(buffer.n),
                            buffer.k_stride,
                            buffer.n_stride,
                            buffer.offset};
        auto bytes = model->weights().get(buffer.name, layout);
        if (!bytes)
          return bytes.takeError();
        base = const_cast<std::byte *>(bytes->data());
        if (buffer.name == "w") {
          weightAt = pointers.size();
          packedBytes = bytes->size();
          if (!copies)
            copies.emplace(bytes->data(), bytes->size(), resident);
        }
        break;
      }
      default:
        return Error{ErrorCode::Internal, "the product has a buffer that is no weight"};
      }
      pointers.push_back(base + source.byteOffset);
    }
    return Status::ok();
  }

  std::vector<float> scales;
  std::shared_ptr<const Model> model;
  std::shared_ptr<const data::PlanTemplateT> plan;
  std::shared_ptr<const Specialization> bound;
  std::map<std::vector<uint8_t>, KernelHandle> kernels;
  CodeMemory memory;
  KernelFn function = nullptr;
  std::vector<void *> pointers;
  std::vector<int64_t> integers;
  size_t weightAt = 0;
  std::optional<Copies> copies;
  std::optional<Room> scratch;
  ErrorWord error;
};

//===----------------------------------------------------------------------===//
// Libraries: f32, weights that were 8-bit are multiplied as f32
//===----------------------------------------------------------------------===//

#ifdef RLX_BENCH_ONEDNN
/// oneDNN's matmul with the weight in the format it asks for, reordered beforehand.
class OneDnnProduct {
public:
  OneDnnProduct(const Weight &shape, int64_t rows, const Values &values, float *input, float *output)
      : engine(dnnl::engine::kind::cpu, 0), stream(engine) {
    using Desc = dnnl::memory::desc;
    constexpr auto kF32 = dnnl::memory::data_type::f32;
    Desc left({rows, shape.K}, kF32, dnnl::memory::dims{shape.K, 1});
    Desc out({rows, shape.N}, kF32, dnnl::memory::dims{shape.N, 1});
    Desc any({shape.K, shape.N}, kF32, dnnl::memory::format_tag::any);
    dnnl::matmul::primitive_desc description(dnnl::matmul::desc(left, any, out), engine);
    dnnl::memory plain(Desc({shape.K, shape.N}, kF32, dnnl::memory::dims{shape.N, 1}), engine,
                       const_cast<float *>(values.weight.data()));
    dnnl::memory packed(description.weights_desc(), engine);
    dnnl::reorder(plain, packed).execute(stream, plain, packed);
    stream.wait();
    size_t bytes = description.weights_desc().get_size();
    // As many copies as f32 weights of this model would be.
    size_t resident = shape.resident * (shape.int8 ? 4 : 1);
    copies.emplace(packed.get_data_handle(), bytes, resident);
    weight = dnnl::memory(description.weights_desc(), engine, copies->next());
    primitive = dnnl::matmul(description);
    arguments = {{DNNL_ARG_SRC, dnnl::memory(left, engine, input)},
                 {DNNL_ARG_WEIGHTS, weight},
                 {DNNL_ARG_DST, dnnl::memory(out, engine, output)}};
  }
  void run() {
    weight.set_data_handle(copies->next());
    primitive.execute(stream, arguments);
  }

private:
  dnnl::engine engine;
  dnnl::stream stream;
  dnnl::memory weight;
  dnnl::matmul primitive;
  std::unordered_map<int, dnnl::memory> arguments;
  std::optional<Copies> copies;
};
#endif

/// Tells the libraries to use one thread, and says which they are.
std::string prepareLibraries() {
  std::string text;
#ifdef RLX_BENCH_ONEDNN
  // Debian's is built with OpenMP.
  if (auto *set = reinterpret_cast<void (*)(int)>(::dlsym(RTLD_DEFAULT, "omp_set_num_threads")))
    set(1);
  text += fmt::format("oneDNN {}.{}.{}", dnnl::version()->major, dnnl::version()->minor, dnnl::version()->patch);
#else
  text += "no oneDNN: install libdnnl-dev and configure again";
#endif
#ifdef RLX_BENCH_OPENBLAS
  openblas_set_num_threads(1);
  text += fmt::format("; {}, {}", openblas_get_config(), openblas_get_corename());
#else
  text += "; no OpenBLAS: install libopenblas-dev and configure again";
#endif
  return text;
}

//===----------------------------------------------------------------------===//
// Measuring
//===----------------------------------------------------------------------===//

/// Checks a result by a plain loop, on some columns of some rows.
double largestError(const Weight &shape, int64_t rows, const Values &values, const float *got) {
  double largest = 0;
  for (int64_t row = 0; row < rows; row += std::max<int64_t>(1, rows / 5))
    for (int64_t column = 0; column < shape.N; column += 97) {
      double sum = 0;
      for (int64_t k = 0; k < shape.K; ++k)
        sum += static_cast<double>(values.input[static_cast<size_t>(row * shape.K + k)]) *
               static_cast<double>(values.weight[static_cast<size_t>(k * shape.N + column)]);
      largest = std::max(largest, std::abs(sum - static_cast<double>(got[row * shape.N + column])));
    }
  return largest;
}

/// Rows that a requirement is about, and the one that is farthest from it.
struct Group {
  int rows = 0, met = 0;
  double worst = 1e9;
  std::string worstName;

  void add(double share, double wanted, const std::string &name) {
    ++rows;
    met += share >= wanted;
    if (share < worst)
      worst = share, worstName = name;
  }
  void judge(Bench &bench, double wanted, const std::string &what) const {
    if (rows)
      bench.require(met == rows, fmt::format("{} at {} or more: {} of {} rows, the lowest is {:.2f} ({})", what, wanted,
                                             met, rows, worst, worstName));
  }
};

struct Tally {
  int rows = 0, ahead = 0;
  Group many[2], few[2]; ///< f32 weights, 8-bit weights
};

/// A turn of few rows, which read as fast as caches allow: until these keep what they will keep.
constexpr Turn kSteady = {.unmeasured = 0.1, .measured = 0.03};
constexpr double kShareOfPeak = 0.88, kShareOfLimit = 0.85, kAhead = 0.9;

/// One weight, at each number of rows. False when an answer is wrong.
bool measure(Bench &bench, const Weight &shape, const std::vector<int64_t> &rowCounts, Sheet &sheet, Tally &tally) {
  int64_t most = *std::ranges::max_element(rowCounts);
  Values values(shape, most);
  Room input(values.input.size() * 4), output(static_cast<size_t>(most * shape.N) * 4);
  std::memcpy(input.data(), values.input.data(), values.input.size() * 4);
  RlxProduct ours;
  ours.input = input.data();
  ours.output = output.data();
  std::string what = fmt::format("{} {}x{}{}", shape.model, shape.N, shape.K, shape.int8 ? " i8" : "");
  if (Status status = ours.load(shape, values); !status) {
    bench.fail(what + ": " + status.error().message);
    return false;
  }
#ifdef RLX_BENCH_OPENBLAS
  Copies plain(values.weight.data(), values.weight.size() * 4, shape.resident * (shape.int8 ? 4 : 1));
#endif
  for (int64_t rows : rowCounts) {
    if (Status status = ours.bind(rows, shape.resident); !status) {
      bench.fail(what + ": " + status.error().message);
      return false;
    }
    Memory memory(ours.weights()); // the limit: reading the very bytes that the product reads
    Race race(1, &memory);
    std::vector<std::pair<std::string, std::function<void()>>> contestants{{"rlx", [&] { ours.run(); }}};
#ifdef RLX_BENCH_ONEDNN
    OneDnnProduct oneDnn(shape, rows, values, input.floats(), output.floats());
    contestants.emplace_back("oneDNN", [&] { oneDnn.run(); });
#endif
#ifdef RLX_BENCH_OPENBLAS
    contestants.emplace_back("OpenBLAS", [&] {
      cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, static_cast<int>(rows), static_cast<int>(shape.N),
                  static_cast<int>(shape.K), 1, input.floats(), static_cast<int>(shape.K),
                  reinterpret_cast<const float *>(plain.next()), static_cast<int>(shape.N), 0, output.floats(),
                  static_cast<int>(shape.N));
    });
#endif
    for (auto &[name, call] : contestants) {
      std::memset(output.data(), 0xff, static_cast<size_t>(rows * shape.N) * 4); // NaN
      call();
      double error = largestError(shape, rows, values, output.floats());
      // Sums of K products of numbers below 1, of which float keeps 24 bits.
      if (!(error <= 1e-6 * static_cast<double>(shape.K))) {
        bench.fail(fmt::format("{}, {} rows: {} is off by {:.1e}", what, rows, name, error));
        return false;
      }
      race.add(call);
    }
    if (rows <= kMatmulFewRows && !bench.quick)
      race.run((bench.rounds + 2) / 3, kSteady);
    else
      race.run(bench.rounds);
    double flops = 2.0 * static_cast<double>(rows * shape.N * shape.K);
    double bytes = static_cast<double>(ours.packedBytes);
    double ofPeak = race.shareOfPeak(0, flops), ofLimit = race.shareOfLimit(0, flops, bytes);
    std::vector<Cell> row{what,
                          cell(rows),
                          cell("{:.1f}", race.seconds(0) * 1e6),
                          cell("{:.1f}", flops / race.seconds(0) * 1e-9),
                          cell("{:.1f}", bytes / race.seconds(0) * 1e-9),
                          cell("{:.0f}", 100 * ofPeak),
                          cell("{:.0f}", 100 * ofLimit)};
    double slowest = 0;
    for (size_t i = 1; i < contestants.size(); ++i) {
      double ratio = race.ratio(0, i);
      row.push_back(cell("{:.2f}", ratio));
      slowest = std::max(slowest, ratio);
    }
    row.push_back(cell("{:.1f}", race.peak()));
    row.push_back(cell("{:.1f}", race.bandwidth()));
    sheet.add(std::move(row));
    std::string name = fmt::format("{}, {} rows", what, rows);
    ++tally.rows;
    tally.ahead += slowest <= 1;
    if (rows >= 128)
      tally.many[shape.int8].add(ofPeak, kShareOfPeak, name);
    if (rows <= 5)
      tally.few[shape.int8].add(ofLimit, kShareOfLimit, name);
  }
  return true;
}

} // namespace

int main(int argc, char **argv) {
  Bench bench("gemm",
              "Matrix products with the weights of encoders, one thread: rlx, and oneDNN and OpenBLAS where they "
              "are installed.\nWeights are packed beforehand (rlx, oneDNN), and used in turn with copies of "
              "themselves that are as large\nas all weights of the model, so that they come from where they do "
              "in the model. Each result is checked first.");
  std::vector<std::string> models;
  std::vector<int64_t> rows;
  double resident = 0;
  bench.app.add_option("--models", models, "Of minilm, maskseq, rxnmap (default: all)")
      ->delimiter(',')
      ->type_name("A,B");
  bench.app.add_option("--rows", rows, "Numbers of rows")
      ->delimiter(',')
      ->type_name("N,N")
      ->check(CLI::Range(1, 100000));
  bench.app.add_option("--resident", resident, "MB of all weights as they are stored, for models of other sizes")
      ->type_name("MB")
      ->check(CLI::Range(0.1, 4000.0));
  if (std::optional<int> code = bench.parse(argc, argv))
    return *code;
  for (const std::string &name : models)
    if (std::ranges::none_of(kWeights, [&](const Weight &weight) { return name == weight.model; }))
      return bench.fail(fmt::format("--models: no '{}'", name));
  if (rows.empty())
    rows = bench.quick ? std::vector<int64_t>{1, 5, 17, 128} : std::vector<int64_t>(std::begin(kRows), std::end(kRows));
  bench.machine();
  std::string libraries = prepareLibraries();
  bench.note(libraries);
  std::vector<std::string> heading{"weight NxK", "rows", "us", "GF/s", "GB/s", "% of peak", "% of limit"};
#ifdef RLX_BENCH_ONEDNN
  heading.push_back("over oneDNN");
#endif
#ifdef RLX_BENCH_OPENBLAS
  heading.push_back("over OpenBLAS");
#endif
  bool peers = heading.size() == 9;
  heading.insert(heading.end(), {"peak", "read"});
  Sheet sheet(heading);
  Tally tally;
  for (Weight shape : kWeights) {
    if (!models.empty() && std::ranges::find(models, shape.model) == models.end())
      continue;
    if (resident > 0)
      shape.resident = static_cast<size_t>(resident * 1e6);
    bench.progress(fmt::format("{} {}x{}", shape.model, shape.N, shape.K));
    if (!measure(bench, shape, rows, sheet, tally))
      return 1;
  }
  bench.print("f32 products (i8: 8-bit weights, widened; the libraries multiply them as f32); 'over': rlx's time over "
              "theirs; peak in GF/s and read in GB/s of the same rounds",
              sheet);
  const char *kinds[] = {"f32 weights", "8-bit weights"};
  for (int kind : {0, 1})
    tally.many[kind].judge(bench, kShareOfPeak, fmt::format("{}, 128 rows and more: share of the peak", kinds[kind]));
  for (int kind : {0, 1})
    tally.few[kind].judge(bench, kShareOfLimit, fmt::format("{}, 1 to 5 rows: share of the limit", kinds[kind]));
  if (peers)
    bench.require(
        tally.ahead >= kAhead * tally.rows,
        fmt::format("at least as fast as both libraries in {} of the rows: {} of {}", kAhead, tally.ahead, tally.rows));
  else
    bench.note("the rows are not judged against the libraries: one is not there");
  return bench.finish();
}
