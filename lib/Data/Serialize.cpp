//===- Serialize.cpp - plain data to bytes and back -----------------------===//
#include "rlx/Data/Serialize.h"

namespace rlx {

std::vector<uint8_t> serializeSpec(const data::KernelSpecT &spec) {
  // The builder writes fields in one order and leaves out empty lists and defaults, so the bytes follow from the value.
  flatbuffers::FlatBufferBuilder builder(512);
  builder.Finish(data::CreateKernelSpec(builder, &spec));
  return {builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize()};
}

Result<data::KernelSpecT> deserializeSpec(std::span<const uint8_t> bytes) {
  std::vector<uint8_t> aligned(bytes.begin(), bytes.end()); // the caller's may lie anywhere
  flatbuffers::Verifier verifier(aligned.data(), aligned.size());
  if (!verifier.VerifyBuffer<data::KernelSpec>(nullptr))
    return Error{ErrorCode::InvalidArgument, "these bytes are not a kernel spec"};
  data::KernelSpecT spec;
  flatbuffers::GetRoot<data::KernelSpec>(aligned.data())->UnPackTo(&spec);
  return spec;
}

} // namespace rlx
