//===- DimProgram.cpp - size expressions ready to evaluate ----------------===//

#include "DimProgram.h"

#include <algorithm>

using namespace rlx;

Error rlx::dimOutcomeError(DimOutcome outcome) {
  switch (outcome) {
  case DimOutcome::DivisionByZero:
    return {ErrorCode::OutOfRange, "size arithmetic divides by zero"};
  case DimOutcome::NotBroadcastable:
    return {ErrorCode::InvalidArgument, "sizes do not broadcast"};
  case DimOutcome::BadDivisor:
    return {ErrorCode::OutOfRange, "a multiple of 0 or less is asked for"};
  default:
    return {ErrorCode::OutOfRange, "size arithmetic overflows 64 bits"};
  }
}

Result<DimProgram> DimProgram::compile(const DimExpr &expr, const DimIndex &dims) {
  DimProgram program;
  if (Status s = program.append(expr, dims, 1); !s)
    return s.takeError();
  return program;
}

/// `depth`: places of the stack in use once the value is there.
Status DimProgram::append(const DimExpr &expr, const DimIndex &dims, size_t depth) {
  using K = DimExpr::Kind;
  // Two places per level of nesting: kMaxDepth keeps this within the stack.
  static_assert(kStack > 2 * DimExpr::kMaxDepth + 2);
  if (expr.isOverflow())
    return Error{ErrorCode::OutOfRange, "size expression too large"};
  if (depth >= kStack)
    return Error{ErrorCode::OutOfRange, "size expression nested too deeply"};
  switch (expr.kind()) {
  case K::Constant:
    code.push_back({Op::Constant, 0, *expr.constant()});
    return {};
  case K::Symbol: {
    auto it = dims.find(expr.name());
    if (it == dims.end())
      return Error{ErrorCode::InvalidModel, "no dim is named '" + std::string(expr.name()) + "'"};
    code.push_back({Op::Dim, it->second, 0});
    return {};
  }
  default:
    break;
  }
  Op op = Op::Add;
  switch (expr.kind()) {
  case K::Product:
    op = Op::Mul;
    break;
  case K::FloorDiv:
    op = Op::FloorDiv;
    break;
  case K::Min:
    op = Op::Min;
    break;
  case K::Max:
    op = Op::Max;
    break;
  case K::Broadcast:
    op = Op::Broadcast;
    break;
  default:
    break;
  }
  bool first = true;
  for (const DimExpr &operand : expr.operands()) {
    if (Status s = append(operand, dims, depth + !first); !s)
      return s;
    if (!first)
      code.push_back({op, 0, 0});
    first = false;
  }
  return {};
}

DimOutcome DimProgram::evaluate(std::span<const int64_t> sizes, int64_t &result) const {
  int64_t stack[kStack];
  size_t top = 0;
  for (const Instr &instr : code) {
    if (instr.op == Op::Constant) {
      stack[top++] = instr.value;
      continue;
    }
    if (instr.op == Op::Dim) {
      stack[top++] = sizes[instr.dim];
      continue;
    }
    int64_t b = stack[--top];
    int64_t &a = stack[top - 1];
    switch (instr.op) {
    case Op::Add:
      if (__builtin_add_overflow(a, b, &a))
        return DimOutcome::Overflow;
      break;
    case Op::Mul:
      if (__builtin_mul_overflow(a, b, &a))
        return DimOutcome::Overflow;
      break;
    case Op::FloorDiv: {
      if (b == 0)
        return DimOutcome::DivisionByZero;
      if (a == INT64_MIN && b == -1)
        return DimOutcome::Overflow;
      int64_t q = a / b;
      a = a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
      break;
    }
    case Op::Min:
      a = std::min(a, b);
      break;
    case Op::Max:
      a = std::max(a, b);
      break;
    default:
      if (a != b && a != 1 && b != 1)
        return DimOutcome::NotBroadcastable;
      a = a == 1 ? b : a;
      break;
    }
  }
  result = stack[0];
  return DimOutcome::Ok;
}

Result<PredicateProgram> PredicateProgram::compile(const DimPredicate &predicate, const DimIndex &dims) {
  PredicateProgram program;
  program.kind = predicate.kind;
  Result<DimProgram> lhs = DimProgram::compile(predicate.lhs, dims);
  if (!lhs)
    return lhs.takeError();
  Result<DimProgram> rhs = DimProgram::compile(predicate.rhs, dims);
  if (!rhs)
    return rhs.takeError();
  program.lhs = std::move(*lhs);
  program.rhs = std::move(*rhs);
  return program;
}

DimOutcome PredicateProgram::evaluate(std::span<const int64_t> sizes, bool &result) const {
  int64_t a, b;
  if (DimOutcome outcome = lhs.evaluate(sizes, a); outcome != DimOutcome::Ok)
    return outcome;
  if (DimOutcome outcome = rhs.evaluate(sizes, b); outcome != DimOutcome::Ok)
    return outcome;
  using K = DimPredicate::Kind;
  switch (kind) {
  case K::Equal:
    result = a == b;
    break;
  case K::NotEqual:
    result = a != b;
    break;
  case K::LessEqual:
    result = a <= b;
    break;
  case K::Less:
    result = a < b;
    break;
  case K::Divisible:
    if (b <= 0)
      return DimOutcome::BadDivisor;
    result = a % b == 0;
    break;
  case K::Broadcastable:
    result = a == b || a == 1 || b == 1;
    break;
  }
  return DimOutcome::Ok;
}
