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
  flatbuffers::Verifier verifier(bytes.data(), bytes.size());
  if (!verifier.VerifyBuffer<data::KernelSpec>(nullptr))
    return Error{ErrorCode::InvalidArgument, "these bytes are not a kernel spec"};
  data::KernelSpecT spec;
  flatbuffers::GetRoot<data::KernelSpec>(bytes.data())->UnPackTo(&spec);
  return spec;
}

} // namespace rlx
