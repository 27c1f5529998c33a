//===- Params.cpp - values that the caller sets ---------------------------===//
#include "Params.h"

using namespace rlx;

Result<const void *> ParamValue::get(const WeightLayout &layout) const {
  if (layout.layout == data::PackedLayout::Strided)
    return static_cast<const void *>(plain.get());
  std::lock_guard lock(mutex);
  auto entry = packed.find(layout);
  if (entry == packed.end()) {
    Result<PackedBytes> made = packWeight(type, count, plain.get(), layout);
    if (!made)
      return made.takeError();
    entry = packed.emplace(layout, std::move(*made)).first;
  }
  return static_cast<const void *>(entry->second.data.get());
}
