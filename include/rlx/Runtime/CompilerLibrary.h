//===- CompilerLibrary.h - where models come from ---------------*- C++ -*-===//
//
// The runtime knows no compiler. What reads models is a CompilerSource: made by
// librlx-compiler, which is opened when it is first needed and found through one
// C symbol; or by a worker process; or handed over in EngineOptions by a program
// that links the compiler itself.
//
//===----------------------------------------------------------------------===//
#ifndef RLX_RUNTIME_COMPILERLIBRARY_H
#define RLX_RUNTIME_COMPILERLIBRARY_H

#include "rlx/Runtime/Compiler.h"
#include "rlx/Support/Result.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace rlx {

class WeightTable;
struct LoadedModel;
struct LoadOptions;

/// Makes models of files. Thread safe. Models may outlive it.
class CompilerSource {
public:
  virtual ~CompilerSource();
  /// As rlx::loadModel and rlx::loadModule.
  virtual Result<LoadedModel> loadModel(const std::string &path, const LoadOptions &options) = 0;
  virtual Result<LoadedModel> loadModule(std::string_view text, std::shared_ptr<WeightTable> weights,
                                         const LoadOptions &options) = 0;
};

/// What the compiler library's C symbol returns. The members down to `buildId`
/// never change; the others are read where the build is the same.
struct CompilerLibrary {
  static constexpr uint32_t kMagic = 0x434c5852; // "RXLC"
  uint32_t magic = kMagic;
  uint32_t bytes = sizeof(CompilerLibrary);
  /// Objects cross this interface, so both sides are of one build.
  const char *buildId;

  std::shared_ptr<CompilerSource> (*create)();
  /// A function of MLIR by its symbol, and where the library's own calls of it go:
  /// another MLIR in the process must not have taken its place.
  const char *symbol;
  const void *bound;
};

/// The symbol: `extern "C" const rlx::CompilerLibrary *rlxCompilerLibrary()`.
inline constexpr const char *kCompilerLibrarySymbol = "rlxCompilerLibrary";
inline constexpr const char *kCompilerLibraryFile = "librlx-compiler.so";
/// Names the library's file, where it is not where it is looked for: beside the
/// file that holds the runtime, in ../lib from there, on the loader's path.
inline constexpr const char *kCompilerLibraryVariable = "RLX_COMPILER_LIBRARY";

/// The same for the worker's program: beside the runtime's file, then in ../bin,
/// ../libexec/rlx and ../../libexec/rlx from there.
inline constexpr const char *kWorkerFile = "rlx-compile-worker";
inline constexpr const char *kWorkerVariable = "RLX_COMPILE_WORKER";

/// "0.1.0-<digest of the interface>": equal in libraries that can work together.
const char *buildId();

} // namespace rlx

#endif // RLX_RUNTIME_COMPILERLIBRARY_H
