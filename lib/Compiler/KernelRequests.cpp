//===- KernelRequests.cpp - compiling a batch of kernels ------------------===//

#include "KernelRequests.h"

#include "rlx/Codegen/KernelCompiler.h"
#include "rlx/Data/Serialize.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Support/xxhash.h"

namespace rlx::compiler {

std::string kernelTarget() { return hostTarget(); }

Result<std::vector<data::KernelImageT>> compileKernelBatch(std::span<const data::KernelSpecT> specs, PhaseTimes &times,
                                                           const std::string &dumpDir) {
  std::vector<data::KernelImageT> images;
  images.reserve(specs.size());
  for (const data::KernelSpecT &spec : specs) {
    std::string text;
    KernelCompilerOptions options;
    options.times = &times;
    if (!dumpDir.empty())
      options.optimizedIR = &text;
    Result<data::KernelImageT> image = compileKernel(spec, options);
    if (!image)
      return image.takeError();
    images.push_back(std::move(*image));
    if (dumpDir.empty())
      continue;
    std::vector<uint8_t> key = serializeSpec(spec);
    llvm::SmallString<128> path(dumpDir);
    llvm::sys::path::append(path, "kernel-" + llvm::utohexstr(llvm::xxh3_64bits(key), /*LowerCase=*/true, 16) + ".ll");
    std::error_code code;
    llvm::raw_fd_ostream stream(path, code);
    if (code)
      return Error{ErrorCode::Io, "cannot write '" + std::string(path) + "': " + code.message()};
    stream << text;
  }
  return images;
}

} // namespace rlx::compiler
