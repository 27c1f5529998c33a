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
  std::map<std::string, Declared, std::less<>> declared;
  std::vector<std::pair<DimExpr, DimExpr>> rewrites; // atom -> expression
  std::map<DimExpr, Range> learned;                  // ranges of other expressions
  std::vector<std::pair<DimPredicate, bool>> known;  // asked as they are
};

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
  /// A requirement: when false, the error `message` (with sizes appended), which
  /// is recorded too, as an error leaf.
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
