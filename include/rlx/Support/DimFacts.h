//===- DimFacts.h - what is known of the named dims -------------*- C++ -*-===//
#ifndef RLX_SUPPORT_DIMFACTS_H
#define RLX_SUPPORT_DIMFACTS_H

#include "rlx/Support/DimExpr.h"

namespace rlx {

/// What is known of the names at some point: a range and a multiple of each, and
/// equalities that are used as rewrites. Proves predicates by intervals and by
/// the rewrites; learns from declared properties, answers and requirements, so
/// that an implied fact is never asked.
///
/// Deterministic: what is proved depends only on what was learnt, in order.
class DimFacts {
public:
  /// Declares a name with its range (inclusive) and multiple. An undeclared
  /// name is 0 or more.
  void declare(std::string_view name, int64_t min, int64_t max, int64_t multiple);

  /// True or false where what is known decides it, else nothing.
  std::optional<bool> prove(const DimPredicate &predicate) const;
  /// Takes `predicate` to be `value` from here on.
  void learn(const DimPredicate &predicate, bool value);
  /// Rewrites by what is known: atoms that are decided (min(S, 512) where
  /// S <= 512), equalities, in a fixed direction.
  DimExpr simplify(const DimExpr &expr) const;

  struct Range {
    int64_t min, max; ///< inclusive, saturated at the ends of int64_t
  };
  Range range(const DimExpr &expr) const;

private:
  struct Declared {
    int64_t min = 0, max = INT64_MAX, multiple = 1;
  };
  class Impl;
  // Everything below is in inner form: a name H with a multiple m is replaced by
  // m * h, where h is a name of ours, so that the normal form itself decides
  // what the multiple decides.
  std::map<std::string, Declared, std::less<>> declared;
  bool anyMultiple = false;
  std::vector<std::string> order;                    // of declaration
  std::vector<std::pair<DimExpr, DimExpr>> rewrites; // name or atom -> expression
  std::map<DimExpr, Range> learned;                  // ranges of primitive polynomials
  std::vector<DimExpr> zero, nonzero;                // primitive polynomials
  std::vector<std::pair<DimPredicate, bool>> known;  // Divisible and Broadcastable, as they are
};

/// What is wrong when `predicate` is false under `binding`, for people:
/// "K is 6 but N+M is 5 (N=2, M=3)", "S is 600, more than 512". Sizes that cannot
/// be evaluated are left out.
std::string describeFailure(const DimPredicate &predicate, const Binding &binding);

/// The one way in which template forming reads sizes (the design's second idea).
/// A question that the facts decide is not recorded; any other is answered by the
/// binding, learnt, and recorded as a guard.
class SizeAccessor {
public:
  /// One recorded question.
  struct Asked {
    DimPredicate predicate;
    bool answer;
    bool required;
    std::string op, message;
  };

  SizeAccessor(DimFacts facts, Binding binding) : facts(std::move(facts)), binding(std::move(binding)) {}

  /// The expression, simplified by what is known. Never a number of the binding.
  DimExpr expr(const DimExpr &size) const { return facts.simplify(size); }
  /// A choice: either answer is a legal plan. Errors only when the predicate
  /// cannot be evaluated (overflow).
  Result<bool> ask(const DimPredicate &predicate, std::string_view op, std::string_view reason);
  /// A requirement: when false, the error `message` (with sizes appended as
  /// describeFailure says them). A false one ends the trail, also where the facts
  /// had decided it.
  Status require(const DimPredicate &predicate, std::string_view op, std::string_view message);

  const std::vector<Asked> &trail() const { return asked; }
  const DimFacts &known() const { return facts; }

private:
  DimFacts facts;
  Binding binding;
  std::vector<Asked> asked;
};

} // namespace rlx

#endif // RLX_SUPPORT_DIMFACTS_H
