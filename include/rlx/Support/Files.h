//===- Files.h - opening, mapping and replacing files -----------*- C++ -*-===//
#ifndef RLX_SUPPORT_FILES_H
#define RLX_SUPPORT_FILES_H

#include "rlx/Support/Result.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

namespace rlx {

/// A file descriptor, closed with its owner.
class Descriptor {
public:
  explicit Descriptor(int number = -1) : number(number) {}
  Descriptor(Descriptor &&other) noexcept : number(std::exchange(other.number, -1)) {}
  Descriptor &operator=(Descriptor &&other) noexcept {
    std::swap(number, other.number);
    return *this;
  }
  ~Descriptor();

  int get() const { return number; }
  explicit operator bool() const { return number >= 0; }

private:
  int number;
};

/// A file to read, and its length in bytes.
struct OpenFile {
  Descriptor file;
  size_t bytes = 0;
};

/// Opens a regular file to read. Errors (Io) name the path. A folder, a pipe or a device is refused, and never waited
/// for, so that a wrong path cannot hang the caller.
Result<OpenFile> openFile(const std::string &path);
/// The same for a descriptor that is open already; `path` is for messages.
Result<OpenFile> takeFile(Descriptor file, const std::string &path);

/// A regular file mapped read only: the bytes stay where they are, page by page as they are touched. `owner` keeps them
/// mapped. The file must not shrink meanwhile.
struct MappedFile {
  std::shared_ptr<const void> owner;
  std::span<const std::byte> bytes;
};
/// Errors: as openFile().
Result<MappedFile> mapFile(const std::string &path);
/// The same for a file that is open already; `path` is for messages.
Result<MappedFile> mapFile(const OpenFile &open, const std::string &path);

/// What a mapped file was: enough to find it again, and to see whether it is the same.
struct FileMapping {
  std::string path;
  uint64_t device = 0, inode = 0;
  std::span<const std::byte> bytes;
};
/// What `owner` keeps mapped, when it is a MappedFile's owner; else null.
const FileMapping *mappingOf(const std::shared_ptr<const void> &owner);
/// Opens the file of a mapping once more. Error (Io): there is another one by now.
Result<OpenFile> reopen(const FileMapping &mapping);

/// Writes all of `bytes`, in as many turns as it takes. `path` is for the message of an error (Io).
Status writeAll(const Descriptor &file, const std::string &path, std::span<const std::byte> bytes);

/// A file that appears whole or not at all: written beside its target under a name of its own, and renamed by commit().
/// Removed where commit() was not reached. Errors (Io) name the target.
class AtomicFile {
public:
  /// What is at `path` already must be a regular file: a rename would replace a pipe or a device.
  static Result<AtomicFile> create(std::string path);
  AtomicFile(AtomicFile &&other) noexcept = default;
  AtomicFile &operator=(AtomicFile &&) = delete;
  ~AtomicFile();

  Status write(std::span<const std::byte> bytes) { return writeAll(file, target, bytes); }
  /// Puts the file in the place of its target, on disk when this returns.
  Status commit();

private:
  AtomicFile() = default;
  Descriptor file;
  std::string target, temporary;
};

} // namespace rlx

#endif // RLX_SUPPORT_FILES_H
