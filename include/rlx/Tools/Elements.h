//===- Elements.h - single elements, for people -----------------*- C++ -*-===//
#ifndef RLX_TOOLS_ELEMENTS_H
#define RLX_TOOLS_ELEMENTS_H

#include "rlx/Data/Plan_generated.h"

#include <cstdint>
#include <string>

namespace rlx::tools {

/// Element `index` of float values at `data`, widened exactly.
double floatElement(data::ElementType type, const void *data, int64_t index);

/// Element `index` of any values as text that reads back as the same value.
std::string elementText(data::ElementType type, const void *data, int64_t index);

} // namespace rlx::tools

#endif // RLX_TOOLS_ELEMENTS_H
