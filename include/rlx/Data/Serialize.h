//===- Serialize.h - plain data to bytes and back ---------------*- C++ -*-===//
#ifndef RLX_DATA_SERIALIZE_H
#define RLX_DATA_SERIALIZE_H

#include "rlx/Data/Plan_generated.h"
#include "rlx/Support/Result.h"

#include <cstdint>
#include <span>
#include <vector>

namespace rlx {

/// The bytes of a spec: the key of a kernel everywhere (lookup, images, files). Equal specs give equal bytes, on any
/// machine and in any process; an empty list and an absent one are equal.
std::vector<uint8_t> serializeSpec(const data::KernelSpecT &spec);

/// Reads what serializeSpec wrote. The bytes are checked before use: anything else is an error (InvalidArgument).
Result<data::KernelSpecT> deserializeSpec(std::span<const uint8_t> bytes);

} // namespace rlx

#endif // RLX_DATA_SERIALIZE_H
