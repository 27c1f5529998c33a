//===- NodeName.h - what messages call an op --------------------*- C++ -*-===//
#ifndef RLX_DIALECT_RLX_IR_NODENAME_H
#define RLX_DIALECT_RLX_IR_NODENAME_H

#include "mlir/IR/Location.h"

#include <string>

namespace rlx::ir {

/// The name of the node of the model that an op comes from: the first in its
/// location, wherever that was fused or called from. Empty where there is none.
std::string findNodeName(mlir::Location location);

} // namespace rlx::ir

#endif // RLX_DIALECT_RLX_IR_NODENAME_H
