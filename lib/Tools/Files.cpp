//===- Files.cpp - reading and writing whole files ------------------------===//
#include "rlx/Tools/Files.h"

#include "rlx/Tools/Npy.h"
#include "rlx/Tools/TensorProto.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

namespace rlx::tools {

namespace {

Error ioError(std::string_view what, const std::string &path, int number) {
  return Error{ErrorCode::Io, fmt::format("{} '{}': {}", what, path, std::strerror(number))};
}

/// Closes on every way out.
struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0)
      ::close(fd);
  }
};

} // namespace

Result<std::vector<std::byte>> readFile(const std::string &path) {
  // O_NONBLOCK: opening a pipe nobody writes to must return, so that it can be refused below.
  Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0)
    return ioError("cannot open", path, errno);
  struct stat info;
  if (::fstat(file.fd, &info) != 0)
    return ioError("cannot read", path, errno);
  if (!S_ISREG(info.st_mode))
    return Error{ErrorCode::Io, fmt::format("cannot read '{}': not a regular file", path)};
  std::vector<std::byte> bytes(static_cast<size_t>(info.st_size));
  size_t done = 0;
  while (done < bytes.size()) {
    ssize_t got = ::read(file.fd, bytes.data() + done, bytes.size() - done);
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      return ioError("cannot read", path, errno);
    if (got == 0)
      return Error{ErrorCode::Io, fmt::format("cannot read '{}': it became shorter while it was read", path)};
    done += static_cast<size_t>(got);
  }
  return bytes;
}

Status writeFile(const std::string &path, std::span<const std::byte> bytes) {
  std::error_code failure;
  std::filesystem::path target(path);
  if (target.has_parent_path()) {
    std::filesystem::create_directories(target.parent_path(), failure);
    if (failure)
      return Error{ErrorCode::Io,
                   fmt::format("cannot make the folder '{}': {}", target.parent_path().string(), failure.message())};
  }
  std::string temporary = path + ".XXXXXX";
  Descriptor file{::mkstemp(temporary.data())};
  if (file.fd < 0)
    return ioError("cannot write beside", path, errno);
  auto abandon = [&](int number) {
    ::unlink(temporary.c_str());
    return ioError("cannot write", path, number);
  };
  size_t done = 0;
  while (done < bytes.size()) {
    ssize_t put = ::write(file.fd, bytes.data() + done, bytes.size() - done);
    if (put < 0 && errno == EINTR)
      continue;
    if (put < 0)
      return abandon(errno);
    done += static_cast<size_t>(put);
  }
  mode_t mask = ::umask(0);
  ::umask(mask);
  if (::fchmod(file.fd, 0666 & ~mask) != 0)
    return abandon(errno);
  if (::rename(temporary.c_str(), path.c_str()) != 0)
    return abandon(errno);
  return Status::ok();
}

Result<Tensor> readTensor(const std::string &path) {
  bool npy = path.ends_with(".npy");
  if (!npy && !path.ends_with(".pb"))
    return Error{ErrorCode::InvalidArgument, fmt::format("'{}': a tensor file ends in .npy or .pb", path)};
  Result<std::vector<std::byte>> bytes = readFile(path);
  if (!bytes)
    return bytes.takeError();
  Result<Tensor> tensor = npy ? decodeNpy(*bytes) : decodeTensorProto(*bytes);
  if (!tensor)
    return Error{tensor.error().code, fmt::format("'{}': {}", path, tensor.error().message)};
  return tensor;
}

} // namespace rlx::tools
