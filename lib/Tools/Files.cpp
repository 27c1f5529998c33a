//===- Files.cpp - reading and writing whole files ------------------------===//
#include "rlx/Tools/Files.h"

#include "rlx/Support/Files.h"
#include "rlx/Tools/Npy.h"
#include "rlx/Tools/TensorProto.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <unistd.h>

namespace rlx::tools {

Result<std::vector<std::byte>> readFile(const std::string &path) {
  Result<OpenFile> open = openFile(path);
  if (!open)
    return open.takeError();
  std::vector<std::byte> bytes(open->bytes);
  size_t done = 0;
  while (done < bytes.size()) {
    ssize_t got = ::read(open->file.get(), bytes.data() + done, bytes.size() - done);
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      return Error{ErrorCode::Io, fmt::format("cannot read '{}': {}", path,
                                              got < 0 ? std::strerror(errno) : "it became shorter while it was read")};
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
  Result<AtomicFile> file = AtomicFile::create(path);
  if (!file)
    return file.takeError();
  Status status = file->write(bytes);
  return status ? file->commit() : status;
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
