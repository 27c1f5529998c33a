//===- Texts.h - what infos point to ----------------------------*- C++ -*-===//
#ifndef RLX_LIB_CAPI_TEXTS_H
#define RLX_LIB_CAPI_TEXTS_H

#include "rlx/Runtime/Compiler.h"
#include "rlx/Support/DimExpr.h"
#include "rlx/rlx.h"

#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace rlx::capi {

/// Strings and arrays that stay where they are until this ends.
class Texts {
public:
  const char *text(std::string_view text);
  const char *const *texts(const std::vector<std::string> &texts);
  const rlx_phase *phases(const PhaseTimes &times);
  rlx_binding binding(const Binding &binding);
  /// A copy of `values`; null for none.
  template <typename T> const T *array(std::vector<T> values) {
    if (values.empty())
      return nullptr;
    auto kept = std::make_shared<std::vector<T>>(std::move(values));
    const T *data = kept->data();
    arrays.push_back(std::move(kept));
    return data;
  }

private:
  std::deque<std::string> strings;
  std::vector<std::shared_ptr<const void>> arrays;
};

} // namespace rlx::capi

#endif // RLX_LIB_CAPI_TEXTS_H
