//===- Status.cpp - errors, versions, element types -----------------------===//
#include "Handles.h"

#include "rlx/Data/ElementType.h"

#include <algorithm>

using namespace rlx;
using namespace rlx::capi;
using data::ElementType;

static_assert(RLX_INVALID_ARGUMENT == static_cast<int>(ErrorCode::InvalidArgument) &&
              RLX_INVALID_MODEL == static_cast<int>(ErrorCode::InvalidModel) &&
              RLX_UNSUPPORTED == static_cast<int>(ErrorCode::Unsupported) &&
              RLX_UNSOLVABLE == static_cast<int>(ErrorCode::Unsolvable) &&
              RLX_OUT_OF_RANGE == static_cast<int>(ErrorCode::OutOfRange) &&
              RLX_RUN_FAILED == static_cast<int>(ErrorCode::RunFailed) && RLX_IO == static_cast<int>(ErrorCode::Io) &&
              RLX_INTERNAL == static_cast<int>(ErrorCode::Internal) &&
              RLX_NOT_READY == static_cast<int>(ErrorCode::NotReady) &&
              RLX_CANCELLED == static_cast<int>(ErrorCode::Cancelled) &&
              RLX_COMPILER_FAILED == static_cast<int>(ErrorCode::CompilerFailed));
static_assert(RLX_I1 == static_cast<int>(ElementType::I1) && RLX_I8 == static_cast<int>(ElementType::I8) &&
              RLX_I16 == static_cast<int>(ElementType::I16) && RLX_I32 == static_cast<int>(ElementType::I32) &&
              RLX_I64 == static_cast<int>(ElementType::I64) && RLX_U8 == static_cast<int>(ElementType::U8) &&
              RLX_U16 == static_cast<int>(ElementType::U16) && RLX_U32 == static_cast<int>(ElementType::U32) &&
              RLX_U64 == static_cast<int>(ElementType::U64) && RLX_F16 == static_cast<int>(ElementType::F16) &&
              RLX_BF16 == static_cast<int>(ElementType::BF16) && RLX_F32 == static_cast<int>(ElementType::F32) &&
              RLX_F64 == static_cast<int>(ElementType::F64));

const char *rlx_version() { return RLX_VERSION_STRING; }

rlx_code rlx_status_code(const rlx_status *status) {
  if (!status)
    return RLX_OK;
  return status->isAlive() ? static_cast<rlx_code>(status->error.code) : RLX_INVALID_ARGUMENT;
}

const char *rlx_status_message(const rlx_status *status) {
  if (!status)
    return "";
  return status->isAlive() ? status->error.message.c_str() : "the status was destroyed, or is no status";
}

void rlx_status_destroy(rlx_status **status) { destroy(status); }

const char *rlx_code_name(rlx_code code) {
  constexpr const char *names[] = {"ok",         "invalid argument", "invalid model", "unsupported",
                                   "unsolvable", "out of range",     "run failed",    "input or output",
                                   "internal",   "not ready",        "cancelled",     "compiler failed"};
  return code >= 0 && static_cast<size_t>(code) < std::size(names) ? names[code] : "unknown";
}

size_t rlx_dtype_size(rlx_dtype dtype) { return isType(dtype) ? elementSize(toType(dtype)) : 0; }
const char *rlx_dtype_name(rlx_dtype dtype) { return isType(dtype) ? elementTypeName(toType(dtype)) : "unknown"; }

rlx_status *capi::fail(Error error) {
  auto *status = new rlx_status;
  status->error = std::move(error);
  return status;
}

rlx_status *capi::invalid(std::string text) { return fail(Error{ErrorCode::InvalidArgument, std::move(text)}); }

std::optional<Error> capi::checkSize(const void *given, size_t givenSize, size_t size, const char *what) {
  // No struct of ours grows to that, whatever the version: what lies behind is not looked at.
  constexpr size_t largest = 4096;
  auto wrong = [&](const std::string &why) {
    return Error{ErrorCode::InvalidArgument,
                 std::string(what) + ".struct_size is " + std::to_string(givenSize) + ": " + why};
  };
  if (givenSize == size) [[likely]]
    return std::nullopt;
  if (givenSize < size || givenSize > largest)
    return wrong("set it to sizeof(" + std::string(what) + "), which is " + std::to_string(size) + " here");
  const auto *bytes = static_cast<const unsigned char *>(given);
  if (std::any_of(bytes + size, bytes + givenSize, [](unsigned char byte) { return byte != 0; }))
    return wrong("something is set that this library, version " RLX_VERSION_STRING ", does not know");
  return std::nullopt;
}

std::string capi::nameOf(const char *kind, const char *name, size_t position) {
  return name ? std::string(kind) + " '" + name + "'" : std::string(kind) + " " + std::to_string(position);
}

std::optional<Error> capi::readBinding(const rlx_size *sizes, size_t count, size_t limit, Binding &binding) {
  auto wrong = [](std::string text) { return Error{ErrorCode::InvalidArgument, std::move(text)}; };
  if (count > limit)
    return wrong(std::to_string(count) + " sizes are given, but the model has " + std::to_string(limit) + " dims");
  if (count && !sizes)
    return wrong("'sizes' is NULL, but there are " + std::to_string(count));
  for (size_t i = 0; i != count; ++i) {
    if (!sizes[i].dim)
      return wrong("size " + std::to_string(i) + " has no dim");
    if (!binding.emplace(sizes[i].dim, sizes[i].size).second)
      return wrong("dim '" + std::string(sizes[i].dim) + "' is given twice");
  }
  return std::nullopt;
}

std::chrono::nanoseconds capi::toWait(int64_t ns) {
  constexpr int64_t year = int64_t(366) * 24 * 3600 * 1000000000;
  return std::chrono::nanoseconds(std::min(ns, year));
}
