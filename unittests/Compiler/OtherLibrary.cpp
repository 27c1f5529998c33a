//===- OtherLibrary.cpp - libraries that a test finds in its way ----------===//
#include "rlx/Runtime/CompilerLibrary.h"

#include <cstdlib>

// A compiler of another build.
extern "C" const rlx::CompilerLibrary *rlxCompilerLibrary();
extern "C" const rlx::CompilerLibrary *rlxCompilerLibrary() {
  static const rlx::CompilerLibrary library = {
      .buildId = "9.9.9-abc", .create = nullptr, .symbol = nullptr, .bound = nullptr};
  return &library;
}

// Another MLIR: nobody that has one of its own may come here.
namespace mlir {
class Operation;
bool verify(Operation *, bool);
bool verify(Operation *, bool) { std::abort(); }
} // namespace mlir
