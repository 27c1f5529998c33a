//===- CodeMemory.cpp - kernel images made executable ---------------------===//
#include "rlx/Runtime/CodeMemory.h"

#include "rlx/Support/Files.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace rlx {

/// A mapping, unmapped when its last user goes.
class CodeRegion {
public:
  CodeRegion(std::byte *base, size_t size) : base(base), size(size) {}
  CodeRegion(const CodeRegion &) = delete;
  CodeRegion &operator=(const CodeRegion &) = delete;
  ~CodeRegion() { munmap(base, size); }

  std::byte *const base;
  const size_t size;
  size_t used = 0; ///< sealed so far; a whole number of pages
};

namespace {
/// Pages of a region that one call of load() filled. Those of a private region are
/// let go of with the last kernel in them, so that a region whose other kernels
/// live holds no more memory than they need; the mapping stays as it is.
class CodePages {
public:
  CodePages(std::shared_ptr<CodeRegion> region, std::byte *at, size_t bytes)
      : region(std::move(region)), at(at), bytes(bytes) {}
  CodePages(const CodePages &) = delete;
  CodePages &operator=(const CodePages &) = delete;
  ~CodePages() { madvise(at, bytes, MADV_DONTNEED); }

  const std::shared_ptr<CodeRegion> region;

private:
  std::byte *at;
  size_t bytes;
};
} // namespace

/// An image and where it lies in its batch.
struct CodeMemory::Placed {
  const data::KernelImageT *image;
  size_t offset;
};

namespace {

constexpr size_t kImageAlignment = 64;
constexpr int kTrapByte = 0xcc;

size_t roundUp(size_t value, size_t to) { return (value + to - 1) / to * to; }

Error systemError(const char *what, int error) {
  return Error{ErrorCode::Io, std::string("code memory: ") + what + ": " + std::strerror(error)};
}

bool isRefusal(int error) { return error == EACCES || error == EPERM; }

/// What lies at `at` is what the images hold.
template <typename Batch> bool sameDigests(const Batch &batch, const std::byte *at) {
  for (const auto &[image, offset] : batch)
    if (!XXH128_isEqual(XXH3_128bits(at + offset, image->code.size()),
                        XXH3_128bits(image->code.data(), image->code.size())))
      return false;
  return true;
}

Error copyDiffers() { return Error{ErrorCode::Internal, "code memory: a copied kernel image differs from its source"}; }

template <typename Batch> void copyImages(const Batch &batch, std::byte *at, size_t bytes) {
  // Gaps and tails trap.
  std::memset(at, kTrapByte, bytes);
  for (const auto &[image, offset] : batch)
    std::memcpy(at + offset, image->code.data(), image->code.size());
}

} // namespace

CodeMemory::CodeMemory(CodeMemoryOptions options)
    : options(std::move(options)), pageBytes(static_cast<size_t>(sysconf(_SC_PAGESIZE))) {}

CodeMemory::~CodeMemory() = default;

bool CodeMemory::usesFiles() const {
  std::lock_guard lock(mutex);
  return refused;
}

Result<std::vector<KernelHandle>> CodeMemory::load(std::span<const data::KernelImageT *const> images) {
  std::vector<Placed> batch;
  batch.reserve(images.size());
  size_t bytes = 0;
  for (const data::KernelImageT *image : images) {
    if (image->text_size > image->code.size() || image->entry >= image->text_size)
      return Error{ErrorCode::InvalidArgument, "kernel image: entry " + std::to_string(image->entry) + " and text of " +
                                                   std::to_string(image->text_size) + " bytes do not lie in " +
                                                   std::to_string(image->code.size()) + " bytes of code"};
    batch.push_back({image, bytes});
    // Each image exists in memory, so that the sum of a few cannot overflow; a
    // span that repeats one image for ever could.
    if (__builtin_add_overflow(bytes, roundUp(image->code.size(), kImageAlignment), &bytes) || bytes > SIZE_MAX / 2)
      return Error{ErrorCode::OutOfRange, "code memory: the batch is too large"};
  }
  if (batch.empty())
    return std::vector<KernelHandle>();
  bytes = roundUp(bytes, pageBytes);

  std::lock_guard lock(mutex);
  std::byte *at = nullptr;
  Result<std::shared_ptr<CodeRegion>> region = std::shared_ptr<CodeRegion>();
  if (!refused)
    region = placePrivate(batch, bytes, at);
  if (refused)
    region = placeInFile(batch, bytes, at);
  if (!region)
    return region.takeError();
  __builtin___clear_cache(reinterpret_cast<char *>(at), reinterpret_cast<char *>(at) + bytes);
  if (Status status = writePerfMap(batch, at); !status)
    return status.takeError();

  auto pages = std::make_shared<const CodePages>(*region, at, bytes);
  std::shared_ptr<const CodeRegion> owner(pages, pages->region.get());
  std::vector<KernelHandle> handles;
  handles.reserve(batch.size());
  for (const Placed &placed : batch)
    handles.push_back({reinterpret_cast<KernelFn>(at + placed.offset + placed.image->entry), owner});
  return handles;
}

/// Copies the batch behind what is sealed in the open region and seals it. Sets
/// `refused`, and returns no region, when the system does not allow that.
Result<std::shared_ptr<CodeRegion>> CodeMemory::placePrivate(std::span<const Placed> batch, size_t bytes,
                                                             std::byte *&at) {
  std::shared_ptr<CodeRegion> region = open;
  if (!region || region->size - region->used < bytes) {
    size_t size = std::max(bytes, roundUp(options.regionBytes, pageBytes));
    void *base = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
      return systemError("mmap", errno);
    region = std::make_shared<CodeRegion>(static_cast<std::byte *>(base), size);
  }
  at = region->base + region->used;
  copyImages(batch, at, bytes);
  if (!sameDigests(batch, at))
    return copyDiffers();
  if (mprotect(at, bytes, PROT_READ | PROT_EXEC) != 0) {
    int error = errno;
    if (!isRefusal(error))
      return systemError("mprotect", error);
    refused = true;
    open = nullptr;
    return std::shared_ptr<CodeRegion>();
  }
  region->used += bytes;
  // The region with more room left serves the next batch.
  if (!open || region->size - region->used > open->size - open->used)
    open = region;
  return region;
}

/// One sealed file in memory a batch: nobody, a forked child included, can
/// write to it once it is mapped.
Result<std::shared_ptr<CodeRegion>> CodeMemory::placeInFile(std::span<const Placed> batch, size_t bytes,
                                                            std::byte *&at) {
  Descriptor file(memfd_create("rlx-kernels", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file)
    return systemError("memfd_create", errno);
  std::vector<std::byte> contents(bytes);
  copyImages(batch, contents.data(), bytes);
  if (Status status = writeAll(file, "rlx-kernels", contents); !status)
    return status.takeError();
  // No shared writable mapping exists, so that the strongest seal is granted.
  if (fcntl(file.get(), F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return systemError("sealing", errno);
  void *base = mmap(nullptr, bytes, PROT_READ | PROT_EXEC, MAP_PRIVATE, file.get(), 0);
  if (base == MAP_FAILED)
    return systemError("mmap of executable memory", errno);
  auto region = std::make_shared<CodeRegion>(static_cast<std::byte *>(base), bytes);
  region->used = bytes;
  at = region->base;
  if (!sameDigests(batch, at))
    return copyDiffers();
  return region;
}

Status CodeMemory::writePerfMap(std::span<const Placed> batch, const std::byte *at) const {
  if (options.perfMapFile.empty())
    return Status::ok();
  std::string lines;
  for (const Placed &placed : batch) {
    // The kernel's name is the digest of what it was made from.
    unsigned long long digest = XXH3_64bits(placed.image->spec.data(), placed.image->spec.size());
    char line[96];
    std::snprintf(line, sizeof(line), "%llx %x rlx_%016llx\n",
                  static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(at + placed.offset)),
                  static_cast<unsigned>(placed.image->text_size), digest);
    lines += line;
  }
  // The folder may be shared: follow no link that somebody else put there.
  Descriptor file(::open(options.perfMapFile.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file)
    return systemError(options.perfMapFile.c_str(), errno);
  return writeAll(file, options.perfMapFile, std::as_bytes(std::span(lines)));
}

} // namespace rlx
