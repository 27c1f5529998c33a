//===- Kernel.h - a kernel made from a spec of the benchmark's ---*- C++ -*-===//
#ifndef RLX_BENCH_COMMON_KERNEL_H
#define RLX_BENCH_COMMON_KERNEL_H

#include "rlx/Codegen/KernelCompiler.h"
#include "rlx/Runtime/CodeMemory.h"

namespace rlx::bench {

/// A kernel that can be called for as long as `handle` lives.
struct Kernel {
  KernelHandle handle;
  double compileMs = 0, codegenMs = 0; ///< all phases, and the one of them
  size_t codeBytes = 0;
};

/// Compiles `spec` and loads it into `memory`. `assembly`, when not null, gets its text.
inline Result<Kernel> makeKernel(const data::KernelSpecT &spec, CodeMemory &memory, std::string *assembly = nullptr) {
  KernelPhaseTimes times;
  Result<data::KernelImageT> image = compileKernel(spec, {.times = &times, .assembly = assembly});
  if (!image)
    return image.takeError();
  const data::KernelImageT *batch[] = {&*image};
  auto handles = memory.load(batch);
  if (!handles)
    return handles.takeError();
  Kernel kernel{handles->front(), 0, 0, image->code.size()};
  for (auto &[phase, ms] : times) {
    kernel.compileMs += ms;
    if (phase == "codegen")
      kernel.codegenMs += ms;
  }
  return kernel;
}

} // namespace rlx::bench

#endif // RLX_BENCH_COMMON_KERNEL_H
