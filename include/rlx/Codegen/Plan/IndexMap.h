//===- IndexMap.h - which element of a value a loop nest reads --*- C++ -*-===//
//
// A kernel's region is a small graph; its loops run over the iteration space of
// what it yields. An IndexMap says, for a value of the region, which element an
// iteration point needs: per dim of the value an affine form of the loops.
// Views (transpose, slice, broadcast, reshapes that only split or drop dims) are
// maps and cost nothing.
//
//===----------------------------------------------------------------------===//
#ifndef RLX_CODEGEN_PLAN_INDEXMAP_H
#define RLX_CODEGEN_PLAN_INDEXMAP_H

#include "rlx/Support/DimFacts.h"

#include "mlir/IR/Operation.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <optional>
#include <vector>

namespace rlx::codegen {

/// Dims of a value as expressions, simplified by what is known.
using Dims = llvm::SmallVector<DimExpr, 6>;

/// offset + sum(coefficient[j] * loop[j]).
struct IndexForm {
  DimExpr offset;
  std::vector<DimExpr> coefficients; ///< one per loop
  /// Per loop: set where this dim's own size may be 1 while the loop's is not;
  /// the coefficient then counts only when this size is not 1.
  std::vector<std::optional<DimExpr>> broadcast;

  static IndexForm zero(unsigned loops);
  /// The loop itself.
  static IndexForm loop(unsigned loops, unsigned index);
  bool isZero() const;
  friend bool operator==(const IndexForm &, const IndexForm &) = default;
};

/// One form per dim of the value.
struct IndexMap {
  unsigned loops = 0;
  std::vector<IndexForm> dims;

  /// Dim i of the value is loop i.
  static IndexMap identity(unsigned loops);
  friend bool operator==(const IndexMap &, const IndexMap &) = default;
};

/// Element strides of a row-major tensor.
Dims rowMajorStrides(llvm::ArrayRef<DimExpr> dims);
/// Product of the dims.
DimExpr elementCount(llvm::ArrayRef<DimExpr> dims);

/// Reads the dims of values: expressions only, simplified by the facts.
class DimReader {
public:
  explicit DimReader(const DimFacts &facts) : facts(facts) {}
  Dims dims(mlir::Value value) const;
  const DimFacts &known() const { return facts; }

private:
  const DimFacts &facts;
};

/// The map of an operand that is aligned at the last axis and broadcast to the
/// result whose map is given (elementwise operands, broadcast_to).
IndexMap broadcastOperandMap(const IndexMap &resultMap, llvm::ArrayRef<DimExpr> resultDims,
                             llvm::ArrayRef<DimExpr> operandDims);

/// How the dims of a reshape correspond: every group of result dims comes from
/// one input dim (a split), or input dims of size 1 vanish. Nothing when two
/// input dims that are not of size 1 merge, or it cannot be told from the
/// expressions.
std::optional<IndexMap> splitReshapeMap(const IndexMap &resultMap, llvm::ArrayRef<DimExpr> resultDims,
                                        llvm::ArrayRef<DimExpr> inputDims);

/// The map of the operand of a view op (transpose, slice, broadcast_to,
/// reshape), given the map of its result. Nothing where it is not a view.
std::optional<IndexMap> viewOperandMap(mlir::Operation *op, const IndexMap &resultMap, const DimReader &reader);

/// True for the ops viewOperandMap() can see through (a reshape: when it only
/// splits or drops dims).
bool isView(mlir::Operation *op, const DimReader &reader);

} // namespace rlx::codegen

#endif // RLX_CODEGEN_PLAN_INDEXMAP_H
