//===- DimProgram.h - size expressions ready to evaluate --------*- C++ -*-===//
#ifndef RLX_LIB_RUNTIME_DIMPROGRAM_H
#define RLX_LIB_RUNTIME_DIMPROGRAM_H

#include "rlx/Support/DimExpr.h"
#include "rlx/Support/Result.h"

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace rlx {

/// Number of a dim by its name.
using DimIndex = std::map<std::string, uint32_t, std::less<>>;

/// How an evaluation ended. Anything but Ok is an error of the binding.
enum class DimOutcome : uint8_t { Ok, Overflow, DivisionByZero, NotBroadcastable, BadDivisor };

/// What people read of it.
Error dimOutcomeError(DimOutcome outcome);

/// A DimExpr as straight-line code over sizes by number. Evaluates as
/// DimExpr::evaluate does, operation for operation, and allocates nothing.
class DimProgram {
public:
  /// Errors: a name that is not in `dims`, an expression that overflowed.
  static Result<DimProgram> compile(const DimExpr &expr, const DimIndex &dims);

  /// `sizes`: one per dim.
  DimOutcome evaluate(std::span<const int64_t> sizes, int64_t &result) const;

private:
  enum class Op : uint8_t { Constant, Dim, Add, Mul, FloorDiv, Min, Max, Broadcast };
  struct Instr {
    Op op;
    uint32_t dim;
    int64_t value;
  };
  static constexpr size_t kStack = 160;
  Status append(const DimExpr &expr, const DimIndex &dims, size_t depth);

  std::vector<Instr> code; // postfix
};

/// A DimPredicate, likewise.
class PredicateProgram {
public:
  static Result<PredicateProgram> compile(const DimPredicate &predicate, const DimIndex &dims);
  DimOutcome evaluate(std::span<const int64_t> sizes, bool &result) const;

private:
  DimPredicate::Kind kind = DimPredicate::Kind::Equal;
  DimProgram lhs, rhs;
};

} // namespace rlx

#endif // RLX_LIB_RUNTIME_DIMPROGRAM_H
