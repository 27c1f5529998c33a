//===- ExprTable.cpp - expressions as straight-line code ------------------===//

#include "ExprTable.h"

namespace rlx::codegen {

ExprTable::ExprTable(const std::vector<std::string> &dims) {
  for (uint32_t i = 0; i < dims.size(); ++i)
    symbols[dims[i]] = i;
}

uint32_t ExprTable::node(data::ExprOp op, uint32_t a, uint32_t b, int64_t value) {
  table.emplace_back(op, a, b, value);
  exprs.emplace_back();
  return static_cast<uint32_t>(table.size() - 1);
}

uint32_t ExprTable::max(uint32_t a, uint32_t b) { return a == b ? a : node(data::ExprOp::Max, a, b, 0); }

uint32_t ExprTable::id(const DimExpr &expr) {
  if (auto it = ids.find(expr); it != ids.end())
    return it->second;
  uint32_t result = 0;
  auto fold = [&](data::ExprOp op) {
    uint32_t total = id(expr.operands()[0]);
    for (const DimExpr &operand : expr.operands().subspan(1))
      total = node(op, total, id(operand), 0);
    return total;
  };
  switch (expr.kind()) {
  case DimExpr::Kind::Constant:
    result = node(data::ExprOp::Constant, 0, 0, *expr.constant());
    break;
  case DimExpr::Kind::Symbol: {
    auto it = symbols.find(expr.name());
    if (it == symbols.end())
      unknown = expr.name();
    else
      result = node(data::ExprOp::Symbol, it->second, 0, 0);
    break;
  }
  case DimExpr::Kind::Sum:
    result = fold(data::ExprOp::Add);
    break;
  case DimExpr::Kind::Product:
    result = fold(data::ExprOp::Mul);
    break;
  case DimExpr::Kind::FloorDiv:
    result = fold(data::ExprOp::FloorDiv);
    break;
  case DimExpr::Kind::Min:
    result = fold(data::ExprOp::Min);
    break;
  case DimExpr::Kind::Max:
    result = fold(data::ExprOp::Max);
    break;
  case DimExpr::Kind::Broadcast:
    result = fold(data::ExprOp::Broadcast);
    break;
  }
  ids.emplace(expr, result);
  exprs[result] = expr;
  return result;
}

} // namespace rlx::codegen
