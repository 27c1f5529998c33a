//===- Opcode.h - facts about opcodes ---------------------------*- C++ -*-===//
#ifndef RLX_DATA_OPCODE_H
#define RLX_DATA_OPCODE_H

#include "rlx/Data/Plan_generated.h"

namespace rlx {

/// How many of an Instr's a, b and c the opcode reads.
constexpr unsigned operandCount(data::Opcode op) {
  if (op == data::Opcode::Constant)
    return 0;
  if (op == data::Opcode::Select || op == data::Opcode::Philox)
    return 3;
  if (op >= data::Opcode::Add && op <= data::Opcode::GreaterEqual)
    return 2;
  return 1;
}

} // namespace rlx

#endif // RLX_DATA_OPCODE_H
