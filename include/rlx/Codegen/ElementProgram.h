//===- ElementProgram.h - straight-line code over lanes ---------*- C++ -*-===//
#ifndef RLX_CODEGEN_ELEMENTPROGRAM_H
#define RLX_CODEGEN_ELEMENTPROGRAM_H

#include "rlx/Codegen/Emitter.h"
#include "rlx/Support/Result.h"

#include <span>

namespace rlx {

/// A value of an element program: lanes in register form and what they are.
struct Lanes {
  llvm::Value *value = nullptr;
  data::ElementType type = data::ElementType::F32;
};

/// Checks a program over inputs of the given types: value numbers are earlier ones, operand types fit the opcode, each
/// opcode exists for its type. Gives the type of every value, inputs first.
Result<std::vector<data::ElementType>> checkProgram(std::span<const data::Instr> program,
                                                    std::span<const data::ElementType> inputs);

/// Appends to `values` (the inputs) one entry per instruction, W lanes each. `element` is the row-major position of
/// lane 0 in the iteration space, for the error word. The program has passed checkProgram. An error inside a lane
/// (division by zero) returns from the kernel; lanes where `active` (<W x i1>, null for all) is false raise none.
void emitProgram(Emitter &e, std::span<const data::Instr> program, llvm::SmallVectorImpl<Lanes> &values,
                 llvm::Value *element, unsigned W, llvm::Value *active = nullptr);

/// One instruction, on the operands given (those it does not use may be empty).
llvm::Value *emitInstr(Emitter &e, const data::Instr &instr, Lanes a, Lanes b, Lanes c, llvm::Value *element,
                       unsigned W, llvm::Value *active = nullptr);

/// Convert: float to integer saturates (NaN gives 0), integer to integer wraps, to float rounds once, to I1 is != 0.
llvm::Value *emitConvert(Emitter &e, Lanes from, data::ElementType to, unsigned W);

/// The type arithmetic on `type` happens in: F32 for F16 and BF16, else itself.
data::ElementType computeType(data::ElementType type);

/// max and min as the numeric contract has them: NaN wins, +0 is above -0; signed, unsigned or I1 by type.
llvm::Value *emitMax(Emitter &e, llvm::Value *a, llvm::Value *b, data::ElementType type);
llvm::Value *emitMin(Emitter &e, llvm::Value *a, llvm::Value *b, data::ElementType type);

/// Whether an instruction may raise an error in a lane: then lanes that do not exist must be masked.
bool canFail(std::span<const data::Instr> program);

/// Lanes that suit a kernel whose values have these types: two AVX registers of the widest at most, 8 to 32. Or one
/// register of 16 floats where the target has such, if nothing in the program computes on them in double.
unsigned laneCount(const Emitter &e, std::span<const data::ElementType> types, std::span<const data::Instr> program);

} // namespace rlx

#endif // RLX_CODEGEN_ELEMENTPROGRAM_H
