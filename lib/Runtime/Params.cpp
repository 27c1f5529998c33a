//===- Params.cpp - values that the caller sets ---------------------------===//
#include "Params.h"

using namespace rlx;

ParamValue::~ParamValue() {
  for (const Packed *at = packed.load(std::memory_order_acquire); at;) {
    const Packed *next = at->next;
    delete at;
    at = next;
  }
}

const ParamValue::Packed *ParamValue::find(const WeightLayout &layout) const {
  const Packed *at = packed.load(std::memory_order_acquire);
  while (at && at->layout != layout)
    at = at->next;
  return at;
}

Result<const void *> ParamValue::get(const WeightLayout &layout) const {
  if (layout.layout == data::PackedLayout::Strided)
    return static_cast<const void *>(plain.get());
  const Packed *found = find(layout);
  if (!found) {
    std::lock_guard lock(mutex);
    found = find(layout); // another thread may have packed it meanwhile
    if (!found) {
      Result<PackedBytes> made = packWeight(type, count, plain.get(), layout);
      if (!made)
        return made.takeError();
      found = new Packed{layout, std::move(*made), packed.load(std::memory_order_relaxed)};
      packed.store(found, std::memory_order_release);
    }
  }
  return static_cast<const void *>(found->bytes.data.get());
}
