//===- Files.cpp - opening, mapping and replacing files -------------------===//
#include "rlx/Support/Files.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace rlx;

namespace {
Error ioError(const char *what, const std::string &path, const std::string &why) {
  return Error{ErrorCode::Io, std::string("cannot ") + what + " '" + path + "': " + why};
}
Error ioError(const char *what, const std::string &path, int number) {
  return ioError(what, path, std::string(std::strerror(number)));
}

/// Unmaps; found again by its type in owners that know no type of theirs.
struct Unmap {
  FileMapping mapping;
  void operator()(const void *) const { ::munmap(const_cast<std::byte *>(mapping.bytes.data()), mapping.bytes.size()); }
};
} // namespace

Descriptor::~Descriptor() {
  if (number >= 0)
    ::close(number);
}

Result<OpenFile> rlx::openFile(const std::string &path) {
  // The system would open another file than the one that was named.
  if (size_t end = path.find('\0'); end != std::string::npos)
    return ioError("open", path.substr(0, end), "a zero byte and more follow");
  // Without O_NONBLOCK, opening a pipe would wait for its writer.
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file)
    return ioError("open", path, errno);
  return takeFile(std::move(file), path);
}

Result<OpenFile> rlx::takeFile(Descriptor file, const std::string &path) {
  OpenFile result{std::move(file)};
  struct stat info;
  if (::fstat(result.file.get(), &info) != 0)
    return ioError("open", path, errno);
  if (!S_ISREG(info.st_mode))
    return ioError("open", path, "not a regular file");
  result.bytes = static_cast<size_t>(info.st_size);
  return result;
}

Result<MappedFile> rlx::mapFile(const std::string &path) {
  Result<OpenFile> open = openFile(path);
  if (!open)
    return open.takeError();
  return mapFile(*open, path);
}

Result<MappedFile> rlx::mapFile(const OpenFile &open, const std::string &path) {
  if (open.bytes == 0)
    return MappedFile{std::make_shared<char>(), {}};
  struct stat info;
  if (::fstat(open.file.get(), &info) != 0)
    return ioError("map", path, errno);
  void *at = ::mmap(nullptr, open.bytes, PROT_READ, MAP_PRIVATE, open.file.get(), 0);
  if (at == MAP_FAILED)
    return ioError("map", path, errno);
  std::span<const std::byte> bytes(static_cast<const std::byte *>(at), open.bytes);
  return MappedFile{std::shared_ptr<const void>(bytes.data(), Unmap{{path, info.st_dev, info.st_ino, bytes}}), bytes};
}

const FileMapping *rlx::mappingOf(const std::shared_ptr<const void> &owner) {
  const auto *unmap = std::get_deleter<Unmap>(owner);
  return unmap ? &unmap->mapping : nullptr;
}

Result<OpenFile> rlx::reopen(const FileMapping &mapping) {
  Result<OpenFile> open = openFile(mapping.path);
  if (!open)
    return open.takeError();
  struct stat info;
  if (::fstat(open->file.get(), &info) != 0)
    return ioError("open", mapping.path, errno);
  if (info.st_dev != mapping.device || info.st_ino != mapping.inode || open->bytes < mapping.bytes.size())
    return ioError("open", mapping.path, "it was replaced while it was read");
  return open;
}

Status rlx::writeAll(const Descriptor &file, const std::string &path, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    ssize_t written = ::write(file.get(), bytes.data(), std::min<size_t>(bytes.size(), 1u << 30));
    if (written < 0 && errno == EINTR)
      continue;
    if (written <= 0)
      return ioError("write", path, written < 0 ? errno : EIO);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return Status::ok();
}

Result<AtomicFile> AtomicFile::create(std::string path) {
  struct stat info;
  if (::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode))
    return ioError("write", path, "not a regular file");
  AtomicFile result;
  result.target = std::move(path);
  for (unsigned attempt = 0; attempt != 100 && !result.file; ++attempt) {
    struct timespec now;
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    result.temporary = result.target + ".tmp-" + std::to_string(::getpid()) + "-" + std::to_string(now.tv_nsec) + "-" +
                       std::to_string(attempt);
    // Created by us, with the rights that the user's mask leaves.
    result.file = Descriptor(::open(result.temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (!result.file && errno != EEXIST)
      break;
  }
  if (!result.file) {
    result.temporary.clear();
    return ioError("write", result.target, errno);
  }
  return result;
}

AtomicFile::~AtomicFile() {
  // Without a descriptor it was moved from or never made.
  if (file && !temporary.empty())
    ::unlink(temporary.c_str());
}

Status AtomicFile::commit() {
  if (::fsync(file.get()) != 0 || ::rename(temporary.c_str(), target.c_str()) != 0)
    return ioError("write", target, errno);
  temporary.clear();
  return Status::ok();
}
