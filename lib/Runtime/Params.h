//===- Params.h - values that the caller sets -------------------*- C++ -*-===//
#ifndef RLX_LIB_RUNTIME_PARAMS_H
#define RLX_LIB_RUNTIME_PARAMS_H

#include "AlignedBytes.h"
#include "rlx/Runtime/WeightTable.h"

#include <map>
#include <mutex>

namespace rlx {

/// The value of a param at some time. Immutable but for the packed copies it
/// grows; shared by the runs that began while it was set, and by clones.
class ParamValue {
public:
  ParamValue(data::ElementType type, int64_t elements, AlignedBytes bytes)
      : type(type), count(elements), plain(std::move(bytes)) {}

  int64_t elements() const { return count; }
  /// The value under a layout, packed at the first call.
  Result<const void *> get(const WeightLayout &layout) const;

private:
  data::ElementType type;
  int64_t count;
  AlignedBytes plain;
  mutable std::mutex mutex; // guards `packed`
  mutable std::map<WeightLayout, PackedBytes> packed;
};

/// One per param of the signature; null while unset.
using ParamValues = std::vector<std::shared_ptr<const ParamValue>>;

} // namespace rlx

#endif // RLX_LIB_RUNTIME_PARAMS_H
