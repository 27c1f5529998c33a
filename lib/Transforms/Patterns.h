//===- Patterns.h - pattern groups of rlx-simplify --------------*- C++ -*-===//
#ifndef RLX_LIB_TRANSFORMS_PATTERNS_H
#define RLX_LIB_TRANSFORMS_PATTERNS_H

#include "rlx/Dialect/RLX/IR/RLXOps.h"

#include "mlir/IR/PatternMatch.h"

#include <optional>

namespace rlx::transforms {

/// GELU by erf or tanh, in any order of its factors (RecognizeActivations.cpp).
void addActivationPatterns(mlir::RewritePatternSet &patterns);
/// Layer and RMS normalisation spelled as reductions (RecognizeNorms.cpp).
void addNormPatterns(mlir::RewritePatternSet &patterns);
/// Lookups whose indices are the positions themselves (RecognizeLookups.cpp).
void addLookupPatterns(mlir::RewritePatternSet &patterns);
/// Weights kept in int8 behind matmul, gather and transpose (KeepQuantized.cpp).
void addQuantizedPatterns(mlir::RewritePatternSet &patterns);
/// Element ops in front of views, towards the matmul they follow (MoveViews.cpp).
void addMoveViewPatterns(mlir::RewritePatternSet &patterns);
/// Products of three dims whose batch and heads were merged (SplitBatches.cpp).
void addBatchPatterns(mlir::RewritePatternSet &patterns);
/// Squares, and views that cancel (Cancel.cpp).
void addCancelPatterns(mlir::RewritePatternSet &patterns);

/// The one value of a float constant whose elements are all equal, widened.
std::optional<double> splatFloat(mlir::Value value);
/// The one value of an integer constant whose elements are all equal.
std::optional<llvm::APInt> splatInt(mlir::Value value);

} // namespace rlx::transforms

#endif // RLX_LIB_TRANSFORMS_PATTERNS_H
