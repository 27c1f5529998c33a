//===- RLXDialect.h - the rlx dialect ---------------------------*- C++ -*-===//
#ifndef RLX_DIALECT_RLX_IR_RLXDIALECT_H
#define RLX_DIALECT_RLX_IR_RLXDIALECT_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Dialect.h"

#include "rlx/Dialect/RLX/IR/RLXDialect.h.inc"

#endif // RLX_DIALECT_RLX_IR_RLXDIALECT_H
