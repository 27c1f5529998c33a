//===- KernelRequests.cpp - compiling a batch of kernels ------------------===//

#include "KernelRequests.h"

#include "rlx/Codegen/KernelCompiler.h"
#include "rlx/Data/Serialize.h"
#include "rlx/Runtime/Statistics.h"
#include "rlx/Runtime/ThreadPool.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Support/xxhash.h"

#include <algorithm>
#include <mutex>
#include <numeric>

namespace rlx::compiler {

std::string kernelTarget() { return hostTarget(); }

namespace {

/// The compilers that a batch's threads use: as many as there are threads at work.
class Compilers {
public:
  KernelCompiler take() {
    std::lock_guard lock(mutex);
    if (idle.empty())
      return {};
    KernelCompiler compiler = std::move(idle.back());
    idle.pop_back();
    return compiler;
  }
  void giveBack(KernelCompiler compiler) {
    std::lock_guard lock(mutex);
    idle.push_back(std::move(compiler));
  }

private:
  std::mutex mutex; // guards `idle`
  std::vector<KernelCompiler> idle;
};

/// Roughly what a kernel costs to compile, so that the large ones begin first.
size_t costOf(const data::KernelSpecT &spec) {
  bool large = spec.family == data::Family::Matmul || spec.family == data::Family::Attention ||
               spec.family == data::Family::Rows;
  return spec.program.size() + (large ? 1000 : 0);
}

Status dumpKernel(const data::KernelSpecT &spec, const std::string &text, const std::string &dumpDir) {
  std::vector<uint8_t> key = serializeSpec(spec);
  llvm::SmallString<128> path(dumpDir);
  llvm::sys::path::append(path, "kernel-" + llvm::utohexstr(llvm::xxh3_64bits(key), /*LowerCase=*/true, 16) + ".ll");
  std::error_code code;
  llvm::raw_fd_ostream stream(path, code);
  if (code)
    return Error{ErrorCode::Io, "cannot write '" + std::string(path) + "': " + code.message()};
  stream << text;
  return Status::ok();
}

} // namespace

Result<std::vector<data::KernelImageT>> compileKernelBatch(std::span<const data::KernelSpecT> specs, ThreadPool &pool,
                                                           PhaseTimes &times, const std::string &dumpDir) {
  struct Made {
    Result<data::KernelImageT> image = Error{};
    KernelPhaseTimes times;
    std::string text;
  };
  std::vector<Made> made(specs.size());
  std::vector<size_t> order(specs.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return std::pair(costOf(specs[b]), a) < std::pair(costOf(specs[a]), b); });
  Compilers compilers;
  parallelFor(pool, specs.size(), [&](size_t i) {
    Made &mine = made[order[i]];
    KernelCompilerOptions options;
    options.times = &mine.times;
    if (!dumpDir.empty())
      options.optimizedIR = &mine.text;
    KernelCompiler compiler = compilers.take();
    mine.image = compiler.compile(specs[order[i]], options);
    compilers.giveBack(std::move(compiler));
  });

  std::vector<data::KernelImageT> images;
  images.reserve(specs.size());
  for (size_t i = 0; i != specs.size(); ++i) {
    for (const auto &[phase, ms] : made[i].times)
      addTime(times, phase, ms);
    if (!made[i].image)
      return made[i].image.takeError();
    images.push_back(std::move(*made[i].image));
    if (!dumpDir.empty())
      if (Status status = dumpKernel(specs[i], made[i].text, dumpDir); !status)
        return status.takeError();
  }
  return images;
}

} // namespace rlx::compiler
