//===- KernelRunner.h - compiles a spec and calls it, for tests -*- C++ -*-===//
#ifndef RLX_UNITTESTS_CODEGEN_KERNELRUNNER_H
#define RLX_UNITTESTS_CODEGEN_KERNELRUNNER_H

#include "rlx/Codegen/KernelCompiler.h"
#include "rlx/Data/ElementType.h"
#include "rlx/Data/KernelABI.h"

#include <gtest/gtest.h>

#include <cstring>
#include <initializer_list>
#include <memory>
#include <sys/mman.h>
#include <vector>

namespace rlx::test {

using data::AccessKind;
using data::ElementType;
using data::InnerMode;
using data::Instr;
using data::Opcode;

/// The targets to test on this machine: its own, and plain x86-64-v3.
inline std::vector<std::string> targets() { return {hostTarget(), "x86_64:x86-64-v3:"}; }

/// A kernel in executable memory.
class Kernel {
public:
  explicit Kernel(data::KernelSpecT spec) {
    spec.revision = kEmitterRevision;
    if (spec.target.empty())
      spec.target = hostTarget();
    KernelCompilerOptions options;
    options.times = &times;
    if (getenv("RLX_TEST_IR"))
      options.optimizedIR = &ir;
    if (getenv("RLX_TEST_ASM"))
      options.assembly = &assembly;
    Result<data::KernelImageT> image = compileKernel(spec, options);
    if (!image) {
      error = image.error().message;
      return;
    }
    if (!ir.empty() || !assembly.empty())
      fprintf(stderr, "%s%s", ir.c_str(), assembly.c_str());
    bytes = image->code.size();
    size = (bytes + 4095) & ~size_t(4095);
    memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(memory, image->code.data(), bytes);
    mprotect(memory, size, PROT_READ | PROT_EXEC);
    entry = image->entry;
  }
  Kernel(const Kernel &) = delete;
  ~Kernel() {
    if (memory)
      munmap(memory, size);
  }

  explicit operator bool() const { return memory != nullptr; }

  ErrorWord run(const std::vector<const void *> &pointers, const std::vector<int64_t> &integers, int64_t begin,
                int64_t end, ErrorWord word = {}) const {
    auto function = reinterpret_cast<KernelFn>(static_cast<char *>(memory) + entry);
    function(const_cast<void *const *>(reinterpret_cast<const void *const *>(pointers.data())), integers.data(), begin,
             end, &word);
    return word;
  }

  std::string error;
  std::string ir, assembly;
  KernelPhaseTimes times;
  size_t bytes = 0;
  double milliseconds() const {
    double sum = 0;
    for (const auto &[phase, ms] : times)
      sum += ms;
    return sum;
  }

private:
  void *memory = nullptr;
  size_t size = 0;
  uint32_t entry = 0;
};

inline std::unique_ptr<data::AccessSpecT> access(ElementType type, InnerMode inner = InnerMode::Contiguous,
                                                 AccessKind kind = AccessKind::Direct) {
  auto result = std::make_unique<data::AccessSpecT>();
  result->type = type;
  result->inner = inner;
  result->kind = kind;
  return result;
}

inline std::unique_ptr<data::AccessSpecT> indexed(ElementType type, InnerMode inner, ElementType indexType,
                                                  std::vector<InnerMode> indices) {
  auto result = access(type, inner, AccessKind::Indexed);
  result->index_type = indexType;
  result->index_inner = std::move(indices);
  return result;
}

inline Instr instr(Opcode op, ElementType type, unsigned a = 0, unsigned b = 0, unsigned c = 0, uint64_t imm = 0) {
  return Instr(op, type, static_cast<uint16_t>(a), static_cast<uint16_t>(b), static_cast<uint16_t>(c), imm);
}

/// A Loops spec of one loop: contiguous inputs of these types, one program, one contiguous output.
inline data::KernelSpecT elementwise(std::vector<ElementType> inputs, std::vector<Instr> program, ElementType output) {
  data::KernelSpecT spec;
  spec.family = data::Family::Loops;
  spec.rank = 1;
  for (ElementType type : inputs)
    spec.inputs.push_back(access(type));
  spec.outputs.push_back(access(output));
  spec.program = std::move(program);
  spec.results = {static_cast<uint16_t>(inputs.size() + spec.program.size() - 1)};
  return spec;
}

/// Applies a one-loop elementwise kernel to whole arrays.
template <typename Out>
std::vector<Out> apply(const Kernel &kernel, const std::vector<const void *> &inputs, size_t n,
                       ErrorWord *error = nullptr) {
  std::vector<Out> out(n + 1, Out{});
  std::vector<const void *> pointers = inputs;
  pointers.push_back(out.data());
  std::vector<int64_t> integers = {static_cast<int64_t>(n)};
  integers.insert(integers.end(), inputs.size() + 1, 1);
  ErrorWord word = kernel.run(pointers, integers, 0, static_cast<int64_t>((n + kLoopsBlock - 1) / kLoopsBlock));
  if (error)
    *error = word;
  else
    EXPECT_EQ(word.kind, ErrorKind::None);
  out.pop_back();
  return out;
}

/// Bytes that end where the next page must not be touched.
class Guarded {
public:
  explicit Guarded(size_t bytes) {
    size_t pages = (bytes + 4095) / 4096 + 1;
    size = pages * 4096;
    memory = static_cast<uint8_t *>(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(memory + size - 4096, 4096, PROT_NONE);
    data = memory + size - 4096 - bytes;
  }
  Guarded(const Guarded &) = delete;
  ~Guarded() { munmap(memory, size); }
  uint8_t *data;

private:
  uint8_t *memory;
  size_t size;
};

template <typename T, typename U> T bitCast(U value) {
  static_assert(sizeof(T) == sizeof(U));
  T result;
  memcpy(&result, &value, sizeof(T));
  return result;
}

} // namespace rlx::test

#endif // RLX_UNITTESTS_CODEGEN_KERNELRUNNER_H
