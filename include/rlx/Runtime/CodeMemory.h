//===- CodeMemory.h - kernel images made executable -------------*- C++ -*-===//
//
// Images are copied in batches into private anonymous memory, compared there,
// and made read-execute. A sealed page never becomes writable again. The pages of
// a batch are given back with the last kernel in them, a region, which batches
// share, with the last one in it.
//
//===----------------------------------------------------------------------===//
#ifndef RLX_RUNTIME_CODEMEMORY_H
#define RLX_RUNTIME_CODEMEMORY_H

#include "rlx/Data/KernelABI.h"
#include "rlx/Data/Plan_generated.h"
#include "rlx/Support/Result.h"

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace rlx {

class CodeRegion;

/// A kernel that can be called for as long as the handle lives.
struct KernelHandle {
  KernelFn fn = nullptr;
  std::shared_ptr<const CodeRegion> region; ///< keeps the code mapped
};

struct CodeMemoryOptions {
  /// Address space taken at a time; only touched pages cost memory. A larger
  /// batch gets a region of its own.
  size_t regionBytes = 1 << 20;
  /// Not empty: a line per kernel is appended to this file, in the form perf
  /// reads from perf-PID.map in the temporary folder.
  std::string perfMapFile;
};

/// Loads kernel images. Thread safe. Handles may outlive it.
class CodeMemory {
public:
  explicit CodeMemory(CodeMemoryOptions options = {});
  ~CodeMemory();

  /// Loads images as one batch: all or none. One handle an image, in order.
  /// Where the system refuses to make private memory executable, a sealed file
  /// in memory is used instead (and perf shows no names).
  /// Errors: InvalidArgument for an image whose entry or text does not lie in
  /// its code; Internal for a copy that differs from its image; Io when the
  /// system gives no executable memory or the perf map cannot be written.
  Result<std::vector<KernelHandle>> load(std::span<const data::KernelImageT *const> images);

  /// True once the system has refused private memory.
  bool usesFiles() const;

private:
  struct Placed;
  Result<std::shared_ptr<CodeRegion>> placePrivate(std::span<const Placed> batch, size_t bytes, std::byte *&at);
  Result<std::shared_ptr<CodeRegion>> placeInFile(std::span<const Placed> batch, size_t bytes, std::byte *&at);
  Status writePerfMap(std::span<const Placed> batch, const std::byte *at) const;

  CodeMemoryOptions options;
  size_t pageBytes;
  mutable std::mutex mutex; // guards the members below
  std::shared_ptr<CodeRegion> open;
  bool refused = false;
};

} // namespace rlx

#endif // RLX_RUNTIME_CODEMEMORY_H
