//===- ExprTable.h - expressions as straight-line code ----------*- C++ -*-===//
#ifndef RLX_LIB_CODEGEN_PLAN_EXPRTABLE_H
#define RLX_LIB_CODEGEN_PLAN_EXPRTABLE_H

#include "rlx/Data/Plan_generated.h"
#include "rlx/Support/DimExpr.h"

#include <map>
#include <string>
#include <vector>

namespace rlx::codegen {

/// Numbers expressions; equal ones share a number. The order depends only on
/// the order of asking, so equal plans have equal tables.
class ExprTable {
public:
  /// `dims`: names in the order of the signature.
  explicit ExprTable(const std::vector<std::string> &dims);

  uint32_t id(const DimExpr &expr);
  /// The larger of two numbered expressions, as a node (no normal form).
  uint32_t max(uint32_t a, uint32_t b);
  /// The expression that id() numbered so.
  const DimExpr &expr(uint32_t number) const { return exprs[number]; }
  std::vector<data::ExprNode> take() { return std::move(table); }
  /// A name that the signature lacks, when one was met: our own bug.
  const std::string &unknownName() const { return unknown; }

private:
  uint32_t node(data::ExprOp op, uint32_t a, uint32_t b, int64_t value);
  std::vector<data::ExprNode> table;
  std::vector<DimExpr> exprs; // by number; what id() did not ask for itself stays 0
  std::map<DimExpr, uint32_t> ids;
  std::map<std::string, uint32_t, std::less<>> symbols;
  std::string unknown;
};

} // namespace rlx::codegen

#endif // RLX_LIB_CODEGEN_PLAN_EXPRTABLE_H
