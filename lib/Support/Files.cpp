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

/// Bytes that are unmapped with their owner.
struct Mapping {
  void *at;
  size_t bytes;
  ~Mapping() { ::munmap(at, bytes); }
};
} // namespace

Descriptor::~Descriptor() {
  if (number >= 0)
    ::close(number);
}

Result<OpenFile> rlx::openFile(const std::string &path) {
  // Without O_NONBLOCK, opening a pipe would wait for its writer.
  OpenFile result{Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK))};
  if (!result.file)
    return ioError("open", path, errno);
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
  if (open->bytes == 0)
    return MappedFile{std::make_shared<char>(), {}};
  void *at = ::mmap(nullptr, open->bytes, PROT_READ, MAP_PRIVATE, open->file.get(), 0);
  if (at == MAP_FAILED)
    return ioError("map", path, errno);
  return MappedFile{std::shared_ptr<const Mapping>(new Mapping{at, open->bytes}),
                    {static_cast<const std::byte *>(at), open->bytes}};
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
