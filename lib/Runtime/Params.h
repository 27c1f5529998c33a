//===- Params.h - values that the caller sets -------------------*- C++ -*-===//
#ifndef RLX_LIB_RUNTIME_PARAMS_H
#define RLX_LIB_RUNTIME_PARAMS_H

#include "AlignedBytes.h"
#include "rlx/Runtime/WeightTable.h"

#include <atomic>
#include <mutex>

namespace rlx {

/// The value of a param at some time. Immutable but for the packed copies it
/// grows; shared by the runs that began while it was set, and by clones.
class ParamValue {
public:
  ParamValue(data::ElementType type, int64_t elements, AlignedBytes bytes)
      : type(type), count(elements), plain(std::move(bytes)) {}
  ~ParamValue();
  ParamValue(const ParamValue &) = delete;
  ParamValue &operator=(const ParamValue &) = delete;

  int64_t elements() const { return count; }
  /// The value under a layout, packed at the first call; later ones take no lock.
  Result<const void *> get(const WeightLayout &layout) const;

private:
  struct Packed {
    WeightLayout layout;
    PackedBytes bytes;
    const Packed *next;
  };
  const Packed *find(const WeightLayout &layout) const;

  data::ElementType type;
  int64_t count;
  AlignedBytes plain;
  mutable std::mutex mutex; // held while packing
  /// Grows at its front only.
  mutable std::atomic<const Packed *> packed{nullptr};
};

/// One per param of the signature; null while unset.
using ParamValues = std::vector<std::shared_ptr<const ParamValue>>;

} // namespace rlx

#endif // RLX_LIB_RUNTIME_PARAMS_H
