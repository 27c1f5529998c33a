//===- DimExpr.h - sizes as expressions of named dims -----------*- C++ -*-===//
#ifndef RLX_SUPPORT_DIMEXPR_H
#define RLX_SUPPORT_DIMEXPR_H

#include "rlx/Support/Result.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rlx {

/// Sizes by dim name. Ordered by name, so that the order of insertion never
/// matters: {B=2, S=3} equals {S=3, B=2}.
using Binding = std::map<std::string, int64_t, std::less<>>;

/// An immutable size expression in normal form: a polynomial with integer
/// coefficients over atoms. An atom is a name, floordiv(p, q), min(a, b),
/// max(a, b) or broadcast(a, b). Two expressions that are equal as polynomials
/// over equal atoms are equal objects. Names are taken to be >= 0.
///
/// Cheap to copy (a shared pointer), safe to share between threads.
///
/// What cannot be held (a coefficient beyond 64 bits, more than kMaxNodes nodes)
/// becomes one expression, isOverflow(): every expression over it is it, and
/// evaluating it is an error.
///
/// Text form, as parse() reads and str() prints:
///   expr  := term (('+'|'-') term)*        term := factor ('*' factor)*
///   factor := integer | name | call | '(' expr ')' | '-' factor
///   call  := ('floordiv'|'ceildiv'|'mod'|'min'|'max'|'broadcast') '(' expr ',' expr ')'
/// A name is [A-Za-z_][A-Za-z0-9_.]*, or any text in double quotes (with \" and
/// \\ escaped, no control characters). ceildiv and mod are syntax only: they are rewritten to floordiv.
class DimExpr {
public:
  enum class Kind : uint8_t { Constant, Symbol, Sum, Product, FloorDiv, Min, Max, Broadcast };

  DimExpr();              ///< 0
  DimExpr(int64_t value); // implicit on purpose: sizes mix freely
  static DimExpr symbol(std::string_view name);
  static Result<DimExpr> parse(std::string_view text);

  Kind kind() const;
  bool isConstant() const { return kind() == Kind::Constant; }
  bool isSymbol() const { return kind() == Kind::Symbol; }
  /// Too large to be held; see above.
  bool isOverflow() const;
  /// The value of a constant expression.
  std::optional<int64_t> constant() const;
  /// The name of a symbol.
  std::string_view name() const;
  /// Terms of a Sum, factors of a Product (the coefficient first when it is not
  /// 1), the two operands of the others, in normal-form order.
  std::span<const DimExpr> operands() const;

  std::string str() const;

  /// Bounds on what an expression may be, so that none can exhaust the stack.
  static constexpr size_t kMaxNodes = 4096, kMaxDepth = 64, kMaxNameBytes = 1024, kMaxTextBytes = 1 << 16;

  /// Value under `binding`, in checked 64-bit arithmetic. Errors: a name without
  /// a size, overflow, division by zero, broadcast of two sizes that do not.
  Result<int64_t> evaluate(const Binding &binding) const;
  /// Replaces names by expressions, and normalises.
  DimExpr substitute(const std::map<std::string, DimExpr, std::less<>> &names) const;
  /// Replaces every occurrence of the atom `from` by `to`, and normalises.
  DimExpr replaceAtom(const DimExpr &from, const DimExpr &to) const;
  /// Adds every name that occurs to `names`.
  void collectNames(std::set<std::string> &names) const;
  /// Appends every min, max, broadcast and floordiv atom, innermost first, each
  /// once.
  void collectAtoms(std::vector<DimExpr> &atoms) const;
  /// this / divisor when the division is exact as polynomials (for every value
  /// of the names with divisor != 0), else nothing.
  std::optional<DimExpr> exactQuotient(const DimExpr &divisor) const;

  size_t hash() const;
  friend bool operator==(const DimExpr &a, const DimExpr &b);
  /// A total order, the same in every process.
  friend bool operator<(const DimExpr &a, const DimExpr &b);

  friend DimExpr operator+(const DimExpr &a, const DimExpr &b);
  friend DimExpr operator-(const DimExpr &a, const DimExpr &b);
  friend DimExpr operator*(const DimExpr &a, const DimExpr &b);
  static DimExpr floorDiv(const DimExpr &a, const DimExpr &b);
  static DimExpr ceilDiv(const DimExpr &a, const DimExpr &b);
  static DimExpr mod(const DimExpr &a, const DimExpr &b);
  static DimExpr min(const DimExpr &a, const DimExpr &b);
  static DimExpr max(const DimExpr &a, const DimExpr &b);
  /// Size of two dims broadcast together: b where a is 1, a where b is 1, their
  /// common size where equal. broadcast(a, min(a, c)) with a constant c >= 2 is
  /// a: the case where they differ is an error that the op's constraint reports.
  static DimExpr broadcast(const DimExpr &a, const DimExpr &b);

private:
  struct Node;
  struct Builder;
  explicit DimExpr(std::shared_ptr<const Node> node) : node(std::move(node)) {}
  std::shared_ptr<const Node> node;
};

/// A statement about sizes that is true or false under a binding.
struct DimPredicate {
  enum class Kind : uint8_t { Equal, NotEqual, LessEqual, Less, Divisible, Broadcastable };
  Kind kind = Kind::Equal;
  DimExpr lhs, rhs;

  /// Divisible: rhs divides lhs (rhs > 0). Broadcastable: equal, or either is 1.
  Result<bool> evaluate(const Binding &binding) const;
  /// "S <= 512", "N == M", "H % 32 == 0", "broadcastable(N, M)".
  std::string str() const;
  static Result<DimPredicate> parse(std::string_view text);
  friend bool operator==(const DimPredicate &, const DimPredicate &) = default;
};

} // namespace rlx

template <> struct std::hash<rlx::DimExpr> {
  size_t operator()(const rlx::DimExpr &expr) const { return expr.hash(); }
};

#endif // RLX_SUPPORT_DIMEXPR_H
