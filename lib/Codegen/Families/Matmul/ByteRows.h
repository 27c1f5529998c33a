//===- ByteRows.h - few rows of floats by panels of bytes -------*- C++ -*-===//
#ifndef RLX_LIB_CODEGEN_FAMILIES_MATMUL_BYTEROWS_H
#define RLX_LIB_CODEGEN_FAMILIES_MATMUL_BYTEROWS_H

#include "rlx/Codegen/Emitter.h"

namespace rlx {

/// Sums of one or two rows of f32 by kPanels packed panels of bytes, for targets with AVX-512.
struct ByteRows {
  static constexpr unsigned kMostRows = 2, kPanels = 8;

  unsigned rows = 1;
  bool isSigned = true;                 ///< i8, else u8
  llvm::ArrayRef<llvm::Value *> panels; ///< kPanels of them, [K][16] each; the same may be there more than once
  llvm::Value *ahead;                   ///< where panels lie that are taken next, side by side; any address will do
  llvm::Value *a;                       ///< the first row, contiguous
  llvm::Value *rowStride;               ///< elements from one row to the next
  llvm::Value *K;
  llvm::Value *sums; ///< f32 [rows][kPanels][16], written

  void emit(Emitter &e) const;
};

} // namespace rlx

#endif // RLX_LIB_CODEGEN_FAMILIES_MATMUL_BYTEROWS_H
