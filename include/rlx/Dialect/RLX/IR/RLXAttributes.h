//===- RLXAttributes.h - dims and constraints -------------------*- C++ -*-===//
#ifndef RLX_DIALECT_RLX_IR_RLXATTRIBUTES_H
#define RLX_DIALECT_RLX_IR_RLXATTRIBUTES_H

#include "rlx/Dialect/RLX/IR/RLXDialect.h"
#include "rlx/Support/DimExpr.h"

#include "mlir/IR/Attributes.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/TensorEncoding.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/Hashing.h"

#include <optional>
#include <vector>

namespace rlx {

/// For MLIR's uniquer.
inline llvm::hash_code hash_value(const DimPredicate &predicate) {
  return llvm::hash_combine(static_cast<int>(predicate.kind), predicate.lhs.hash(), predicate.rhs.hash());
}

namespace ir {

/// The value of a DimsAttr: a list of expressions in normal form. A class of its own, because the storage
/// compares and hashes it.
class DimList {
public:
  static DimList of(llvm::ArrayRef<DimExpr> dims) { return DimList(Tag(), dims); }

  llvm::ArrayRef<DimExpr> dims() const { return list; }
  friend bool operator==(const DimList &a, const DimList &b) { return a.list == b.list; }
  friend llvm::hash_code hash_value(const DimList &list) {
    llvm::hash_code hash = llvm::hash_value(list.list.size());
    for (const DimExpr &dim : list.list)
      hash = llvm::hash_combine(hash, dim.hash());
    return hash;
  }

private:
  struct Tag {};
  DimList(Tag, llvm::ArrayRef<DimExpr> dims) : list(dims.begin(), dims.end()) {}
  std::vector<DimExpr> list;
};

/// Parses one size expression from tokens of the assembly; emits a diagnostic where it fails.
mlir::FailureOr<DimExpr> parseDimExpr(mlir::AsmParser &parser);
/// Prints an expression so that parseDimExpr reads the same one.
void printDimExpr(llvm::raw_ostream &os, const DimExpr &expr);

} // namespace ir
} // namespace rlx

#include "rlx/Dialect/RLX/IR/RLXEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "rlx/Dialect/RLX/IR/RLXAttributes.h.inc"

#endif // RLX_DIALECT_RLX_IR_RLXATTRIBUTES_H
