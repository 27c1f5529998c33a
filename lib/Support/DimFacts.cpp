//===- DimFacts.cpp - what is known of the named dims ---------------------===//

#include "rlx/Support/DimFacts.h"

#include "Interval.h"

#include <algorithm>
#include <numeric>

namespace rlx {

namespace {

using Kind = DimExpr::Kind;

std::vector<DimExpr> termsOf(const DimExpr &e) {
  if (e.kind() == Kind::Sum)
    return {e.operands().begin(), e.operands().end()};
  return {e};
}

/// The factors of a term but for its coefficient, with repetition.
std::vector<DimExpr> factorsOf(const DimExpr &term, int64_t &coefficient) {
  coefficient = 1;
  if (auto value = term.constant()) {
    coefficient = *value;
    return {};
  }
  if (term.kind() != Kind::Product)
    return {term};
  std::vector<DimExpr> factors;
  for (const DimExpr &factor : term.operands()) {
    if (auto value = factor.constant())
      coefficient = *value;
    else
      factors.push_back(factor);
  }
  return factors;
}

/// Operands of nested atoms of one kind.
void flatten(Kind kind, const DimExpr &e, std::vector<DimExpr> &out) {
  if (e.kind() != kind) {
    out.push_back(e);
    return;
  }
  for (const DimExpr &operand : e.operands())
    flatten(kind, operand, out);
}

DimExpr make(Kind kind, const DimExpr &a, const DimExpr &b) {
  switch (kind) {
  case Kind::Sum:
    return a + b;
  case Kind::Product:
    return a * b;
  case Kind::FloorDiv:
    return DimExpr::floorDiv(a, b);
  case Kind::Min:
    return DimExpr::min(a, b);
  case Kind::Max:
    return DimExpr::max(a, b);
  case Kind::Broadcast:
    return DimExpr::broadcast(a, b);
  default:
    return a;
  }
}

bool contains(const DimExpr &e, const DimExpr &part) {
  if (e == part)
    return true;
  for (const DimExpr &operand : e.operands())
    if (contains(operand, part))
      return true;
  return false;
}

size_t nodesOf(const DimExpr &e) {
  size_t n = 1;
  for (const DimExpr &operand : e.operands())
    n += nodesOf(operand);
  return n;
}

/// e = scale * key + offset, where key is primitive (its coefficients share no
/// factor, the first is positive, no constant term). For a constant, key is 0.
struct Linear {
  DimExpr key;
  int64_t scale = 1, offset = 0;
};

std::optional<Linear> linearOf(const DimExpr &e) {
  if (e.isOverflow())
    return std::nullopt;
  Linear r;
  int64_t g = 0, first = 0;
  for (const DimExpr &term : termsOf(e)) {
    int64_t c;
    bool constant = factorsOf(term, c).empty();
    if (c == INT64_MIN)
      return std::nullopt;
    if (constant) {
      r.offset = c;
      continue;
    }
    if (first == 0)
      first = c;
    g = std::gcd(g, c);
  }
  if (g == 0)
    return r;
  r.scale = first < 0 ? -g : g;
  DimExpr terms = r.offset == 0 ? e : e - DimExpr(r.offset);
  if (r.scale == 1) {
    r.key = terms;
    return r;
  }
  auto key = terms.exactQuotient(DimExpr(r.scale));
  if (!key)
    return std::nullopt;
  r.key = *key;
  return r;
}

Interval intervalOf(DimFacts::Range r) { return Interval::make(r.min, r.max); }
DimFacts::Range rangeOf(Interval i) { return {i.min, i.max}; }

int64_t ceilOf(int64_t a, int64_t b) {
  int64_t q = a / b;
  return a % b != 0 && (a < 0) == (b < 0) ? q + 1 : q;
}

/// Values of x such that scale * x + offset lies in `r`.
Interval solve(const Interval &r, int64_t scale, int64_t offset) {
  Interval shifted = r + Interval::point(offset == INT64_MIN ? INT64_MAX : -offset);
  if (offset == INT64_MIN)
    return {};
  Interval x;
  if (scale > 0) {
    if (!shifted.openBelow())
      x.min = ceilOf(shifted.min, scale);
    if (!shifted.openAbove())
      x.max = Interval::floorOf(shifted.max, scale);
  } else {
    // scale is never INT64_MIN; dividing by it swaps the ends.
    if (!shifted.openAbove())
      x.min = ceilOf(shifted.max, scale);
    if (!shifted.openBelow())
      x.max = Interval::floorOf(shifted.min, scale);
  }
  return x;
}

/// Facts beyond these are not learnt (they are then asked again): far more than
/// any graph asks, and a bound for what a file can make us do.
constexpr size_t kMaxFacts = 128;

constexpr char kOurs = '\x01'; // first character of our names; parse() refuses it

} // namespace

/// The work on a DimFacts. Expressions are in inner form unless said otherwise.
class DimFacts::Impl {
public:
  explicit Impl(const DimFacts &facts) : facts(facts), mutableFacts(nullptr) {}
  explicit Impl(DimFacts &facts) : facts(facts), mutableFacts(&facts) {}

  //===--- inner and outer form ---------------------------------------------===//

  static std::string innerName(std::string_view name, int64_t multiple) {
    return std::string(1, kOurs) + std::to_string(multiple) + ":" + std::string(name);
  }
  /// The name and multiple that a name of ours stands for.
  static std::optional<std::pair<std::string, int64_t>> outerName(std::string_view name) {
    if (name.empty() || name[0] != kOurs)
      return std::nullopt;
    size_t colon = name.find(':');
    if (colon == std::string_view::npos)
      return std::nullopt;
    int64_t multiple = 0;
    for (char c : name.substr(1, colon - 1)) {
      if (c < '0' || c > '9' || __builtin_mul_overflow(multiple, int64_t(10), &multiple) ||
          __builtin_add_overflow(multiple, int64_t(c - '0'), &multiple))
        return std::nullopt;
    }
    if (multiple < 2)
      return std::nullopt;
    return std::pair(std::string(name.substr(colon + 1)), multiple);
  }

  /// Names with a multiple replaced; nothing rewritten yet.
  DimExpr withMultiples(const DimExpr &e) const {
    if (e.isConstant() || !facts.anyMultiple)
      return e;
    std::set<std::string> used;
    e.collectNames(used);
    std::map<std::string, DimExpr, std::less<>> names;
    for (const std::string &name : used)
      if (auto it = facts.declared.find(name); it != facts.declared.end() && it->second.multiple > 1)
        names.emplace(name, DimExpr(it->second.multiple) * DimExpr::symbol(innerName(name, it->second.multiple)));
    return names.empty() ? e : e.substitute(names);
  }

  /// Back to the names of the user: m*h is H, m/2*h is floordiv(H, 2).
  static DimExpr outer(const DimExpr &e) {
    switch (e.kind()) {
    case Kind::Constant:
      return e;
    case Kind::Symbol:
      if (auto own = outerName(e.name()))
        return DimExpr::floorDiv(DimExpr::symbol(own->first), DimExpr(own->second));
      return e;
    case Kind::Product: {
      if (e.isOverflow())
        return e;
      int64_t coefficient;
      DimExpr rest(1);
      for (const DimExpr &factor : factorsOf(e, coefficient)) {
        auto own = factor.isSymbol() ? outerName(factor.name()) : std::nullopt;
        if (!own || coefficient == INT64_MIN) {
          rest = rest * outer(factor);
          continue;
        }
        int64_t g = std::gcd(coefficient, own->second);
        coefficient /= g;
        rest = rest * DimExpr::floorDiv(DimExpr::symbol(own->first), DimExpr(own->second / g));
      }
      return DimExpr(coefficient) * rest;
    }
    default: {
      DimExpr result = outer(e.operands()[0]);
      for (const DimExpr &operand : e.operands().subspan(1))
        result = make(e.kind(), result, outer(operand));
      return result;
    }
    }
  }

  /// Inner form with everything known applied.
  DimExpr inner(const DimExpr &e) const { return settle(withMultiples(e)); }

  DimExpr settle(DimExpr e) const {
    if (e.isConstant() || e.isOverflow())
      return e;
    for (int round = 0; round < 8; ++round) {
      DimExpr before = e;
      for (const auto &[from, to] : facts.rewrites)
        if (contains(e, from))
          e = e.replaceAtom(from, to);
      e = resolve(e);
      if (e == before)
        break;
    }
    return e;
  }

  /// Names and atoms whose value the ranges decide.
  DimExpr resolve(DimExpr e) const {
    fixNames(e, e);
    std::vector<DimExpr> atoms;
    // Replacing one atom changes those around it, so each turn looks anew.
    for (int turn = 0; turn < 64; ++turn) {
      atoms.clear();
      e.collectAtoms(atoms);
      bool changed = false;
      for (const DimExpr &atom : atoms) {
        DimExpr to = resolveAtom(atom);
        if (to == atom)
          continue;
        e = e.replaceAtom(atom, to);
        changed = true;
        break;
      }
      if (!changed)
        break;
    }
    return e;
  }

  /// Replaces in `whole` the names within `part` that have one possible size.
  void fixNames(const DimExpr &part, DimExpr &whole) const {
    if (part.isSymbol()) {
      Interval r = symbolRange(part.name());
      if (r.isPoint())
        whole = whole.replaceAtom(part, DimExpr(r.min));
      return;
    }
    DimExpr keep = part; // `whole` may be what holds it
    for (const DimExpr &operand : keep.operands())
      fixNames(operand, whole);
  }

  DimExpr resolveAtom(const DimExpr &atom) const {
    const DimExpr &a = atom.operands()[0], &b = atom.operands()[1];
    switch (atom.kind()) {
    case Kind::FloorDiv: {
      Interval r = range(atom);
      if (r.isPoint())
        return DimExpr(r.min);
      if (!b.isConstant() && range(b).min >= 1)
        if (auto quotient = a.exactQuotient(b))
          return *quotient;
      return atom;
    }
    case Kind::Min:
    case Kind::Max: {
      std::vector<DimExpr> operands;
      flatten(atom.kind(), atom, operands);
      size_t count = operands.size();
      for (size_t i = 0; i < operands.size();) {
        bool drop = false;
        for (size_t j = 0; j < operands.size() && !drop; ++j)
          drop = i != j &&
                 (atom.kind() == Kind::Min ? lessEqual(operands[j], operands[i]) : lessEqual(operands[i], operands[j]));
        if (drop)
          operands.erase(operands.begin() + static_cast<ptrdiff_t>(i));
        else
          ++i;
      }
      return operands.size() == count ? atom : combine(atom.kind(), operands);
    }
    case Kind::Broadcast: {
      std::vector<DimExpr> operands;
      flatten(Kind::Broadcast, atom, operands);
      size_t count = operands.size();
      // An operand that is not 1 is the result, where there is one.
      for (const DimExpr &operand : operands)
        if (!boundsOf(operand).contains(1) || provenNonzero(operand - 1))
          return operand;
      std::erase_if(operands, [&](const DimExpr &operand) {
        Interval r = range(operand);
        return r.isPoint() && r.min == 1;
      });
      if (operands.empty())
        return DimExpr(1);
      return operands.size() == count ? atom : combine(Kind::Broadcast, operands);
    }
    default:
      return atom;
    }
  }

  static DimExpr combine(Kind kind, const std::vector<DimExpr> &operands) {
    DimExpr result = operands.front();
    for (size_t i = 1; i < operands.size(); ++i)
      result = make(kind, result, operands[i]);
    return result;
  }

  //===--- ranges -------------------------------------------------------------===//

  Interval symbolRange(std::string_view name) const {
    Interval r{0, INT64_MAX};
    auto own = outerName(name);
    auto it = facts.declared.find(own ? std::string_view(own->first) : name);
    if (it != facts.declared.end()) {
      const Declared &d = it->second;
      int64_t multiple = own ? own->second : 1;
      r.min = std::max<int64_t>(ceilOf(d.min, multiple), 0);
      r.max = d.max == INT64_MAX ? INT64_MAX : Interval::floorOf(d.max, multiple);
      r = Interval::make(r.min, r.max);
    }
    return meetLearned(DimExpr::symbol(name), r);
  }

  Interval meetLearned(const DimExpr &key, Interval r) const {
    auto it = facts.learned.find(key);
    return it == facts.learned.end() ? r : Interval::meet(r, intervalOf(it->second));
  }

  /// By intervals alone.
  Interval range(const DimExpr &e) const {
    if (e.isOverflow())
      return {};
    switch (e.kind()) {
    case Kind::Constant:
      return Interval::point(*e.constant());
    case Kind::Symbol:
      return symbolRange(e.name());
    case Kind::Sum: {
      Interval r = Interval::point(0);
      for (const DimExpr &term : e.operands())
        r = r + range(term);
      return facts.learned.empty() ? r : meetLinear(e, r);
    }
    case Kind::Product: {
      Interval r = Interval::point(1);
      for (const DimExpr &factor : e.operands())
        r = r * range(factor);
      return facts.learned.empty() ? r : meetLinear(e, r);
    }
    default:
      break;
    }
    Interval a = range(e.operands()[0]), b = range(e.operands()[1]), r;
    switch (e.kind()) {
    case Kind::FloorDiv:
      r = Interval::floorDiv(a, b);
      break;
    case Kind::Min:
      r = {std::min(a.min, b.min), std::min(a.max, b.max)};
      break;
    case Kind::Max:
      r = {std::max(a.min, b.min), std::max(a.max, b.max)};
      break;
    default:
      r = Interval::broadcast(a, b);
      break;
    }
    return meetLearned(e, r);
  }

  Interval meetLinear(const DimExpr &e, Interval r) const {
    auto linear = linearOf(e);
    if (!linear || linear->key.isConstant())
      return r;
    auto it = facts.learned.find(linear->key);
    if (it == facts.learned.end())
      return r;
    return Interval::meet(r, intervalOf(it->second) * Interval::point(linear->scale) + Interval::point(linear->offset));
  }

  /// Intervals, and where they do not say enough, linear bounds of atoms:
  /// p-c+1 <= c*floordiv(p, c) <= p, min(a, b) <= a, max(a, b) >= a. Enough
  /// means: 0 is outside, or is an end.
  Interval boundsOf(const DimExpr &e) const {
    Interval r = range(e);
    if (e.kind() != Kind::Sum || e.isOverflow())
      return r;
    int budget = 48;
    if (r.min < 0 && r.max > 0) {
      r.max = std::min(r.max, upperBound(e, 4, budget));
      budget = 48;
      int64_t negated = upperBound(DimExpr() - e, 4, budget);
      if (negated != INT64_MAX)
        r.min = std::max(r.min, -negated);
      r = Interval::make(r.min, r.max);
    }
    return r;
  }

  int64_t upperBound(const DimExpr &e, int depth, int &budget) const {
    if (e.isOverflow() || --budget < 0)
      return INT64_MAX;
    int64_t best = range(e).max;
    if (depth == 0)
      return best;
    for (const DimExpr &term : termsOf(e)) {
      int64_t k;
      std::vector<DimExpr> factors = factorsOf(term, k);
      if (factors.size() != 1 || k == INT64_MIN || k == 0)
        continue;
      const DimExpr &atom = factors[0];
      DimExpr rest = e - term;
      if (atom.kind() == Kind::FloorDiv) {
        auto c = atom.operands()[1].constant();
        if (!c || *c < 1)
          continue;
        // c*e <= c*rest + k*p (k > 0) or c*rest + k*(p-c+1) (k < 0).
        DimExpr p = k > 0 ? atom.operands()[0] : atom.operands()[0] - (*c - 1);
        int64_t u = upperBound(DimExpr(*c) * rest + DimExpr(k) * p, depth - 1, budget);
        if (u != INT64_MAX)
          best = std::min(best, Interval::floorOf(u, *c));
      } else if ((atom.kind() == Kind::Min && k > 0) || (atom.kind() == Kind::Max && k < 0)) {
        for (const DimExpr &operand : atom.operands())
          best = std::min(best, upperBound(rest + DimExpr(k) * operand, depth - 1, budget));
      }
    }
    return best;
  }

  //===--- proving ------------------------------------------------------------===//

  bool lessEqual(const DimExpr &a, const DimExpr &b) const {
    DimExpr d = b - a;
    return !d.isOverflow() && boundsOf(d).min >= 0;
  }

  static bool holds(const std::vector<DimExpr> &list, const DimExpr &key) {
    return std::find(list.begin(), list.end(), key) != list.end();
  }

  bool provenNonzero(const DimExpr &d) const { return isZero(d) == false; }

  /// Whether `d` is 0, where known.
  std::optional<bool> isZero(const DimExpr &d) const {
    auto linear = linearOf(d);
    if (!linear)
      return std::nullopt;
    if (linear->key.isConstant())
      return linear->offset == 0;
    if (linear->offset % linear->scale != 0)
      return false;
    // scale * key + offset == 0 exactly where the primitive polynomial is 0.
    DimExpr primitive = linear->key + DimExpr(linear->offset / linear->scale);
    if (holds(facts.zero, primitive))
      return true;
    if (holds(facts.nonzero, primitive))
      return false;
    Interval r = boundsOf(primitive);
    if (!r.contains(0))
      return false;
    if (r.isPoint())
      return true;
    return std::nullopt;
  }

  std::optional<bool> isAtLeastZero(const DimExpr &d) const {
    if (d.isOverflow())
      return std::nullopt;
    Interval r = boundsOf(d);
    if (r.min >= 0)
      return true;
    if (r.max < 0)
      return false;
    return std::nullopt;
  }

  std::optional<bool> isDivisible(const DimExpr &a, const DimExpr &b) const {
    if (a.isOverflow() || b.isOverflow())
      return std::nullopt;
    if (auto c = b.constant()) {
      if (*c < 1)
        return std::nullopt;
      int64_t g = *c, constant = 0;
      bool open = false;
      for (const DimExpr &term : termsOf(a)) {
        int64_t k;
        if (factorsOf(term, k).empty()) {
          constant = k;
        } else if (k % *c != 0) {
          open = true;
          g = std::gcd(g, k);
        }
      }
      if (!open)
        return constant % *c == 0;
      if (constant % g != 0)
        return false;
    } else if (range(b).min >= 1 && (a == DimExpr() || a.exactQuotient(b))) {
      return true;
    }
    return lookup(DimPredicate::Kind::Divisible, a, b);
  }

  std::optional<bool> isBroadcastable(const DimExpr &a, const DimExpr &b) const {
    auto equal = isZero(a - b), aOne = isZero(a - 1), bOne = isZero(b - 1);
    if (equal == true || aOne == true || bOne == true)
      return true;
    if (equal == false && aOne == false && bOne == false)
      return false;
    return lookup(DimPredicate::Kind::Broadcastable, std::min(a, b), std::max(a, b));
  }

  std::optional<bool> lookup(DimPredicate::Kind kind, const DimExpr &a, const DimExpr &b) const {
    for (const auto &[p, value] : facts.known)
      if (p.kind == kind && p.lhs == a && p.rhs == b)
        return value;
    return std::nullopt;
  }

  std::optional<bool> prove(const DimPredicate &p) const {
    DimExpr a = inner(p.lhs), b = inner(p.rhs);
    switch (p.kind) {
    case DimPredicate::Kind::Equal:
      return isZero(settle(a - b));
    case DimPredicate::Kind::NotEqual: {
      auto zero = isZero(settle(a - b));
      return zero ? std::optional<bool>(!*zero) : std::nullopt;
    }
    case DimPredicate::Kind::LessEqual:
      return isAtLeastZero(settle(b - a));
    case DimPredicate::Kind::Less:
      return isAtLeastZero(settle(b - a - 1));
    case DimPredicate::Kind::Divisible:
      return isDivisible(a, b);
    case DimPredicate::Kind::Broadcastable:
      return isBroadcastable(a, b);
    }
    return std::nullopt;
  }

  //===--- learning -----------------------------------------------------------===//

  /// `e` lies in `r`. Tightens what it is made of.
  void learnRange(const DimExpr &e, Interval r, int depth = 0) {
    auto linear = linearOf(e);
    if (!linear || linear->key.isConstant() || depth > 6)
      return;
    const DimExpr &key = linear->key;
    r = solve(r, linear->scale, linear->offset);
    Interval old = range(key);
    if (r.min <= old.min && r.max >= old.max)
      return;
    r = Interval::meet(old, r);
    changed = true;
    mutableFacts->learned.insert_or_assign(key, rangeOf(r));
    switch (key.kind()) {
    case Kind::Product: {
      int64_t coefficient;
      std::vector<DimExpr> factors = factorsOf(key, coefficient);
      for (const DimExpr &factor : factors)
        if (range(factor).min < 0)
          return;
      for (size_t i = 0; i < factors.size(); ++i) {
        Interval bound{0, INT64_MAX};
        if (r.min >= 1)
          bound.min = 1;
        Interval others = Interval::point(1);
        for (size_t j = 0; j < factors.size(); ++j)
          if (i != j)
            others = others * range(factors[j]);
        if (others.min >= 1 && !r.openAbove())
          bound.max = std::max<int64_t>(0, r.max / others.min);
        if (others.max >= 1 && !others.openAbove() && r.min >= 1)
          bound.min = std::max(bound.min, ceilOf(r.min, others.max));
        learnRange(factors[i], bound, depth + 1);
      }
      return;
    }
    case Kind::Sum:
      for (const DimExpr &term : termsOf(key)) {
        Interval others = range(key - term);
        Interval negated = others * Interval::point(-1);
        learnRange(term, r + negated, depth + 1);
      }
      return;
    case Kind::FloorDiv:
      if (auto c = key.operands()[1].constant(); c && *c >= 1) {
        Interval numerator = r * Interval::point(*c);
        learnRange(key.operands()[0], {numerator.min, (numerator + Interval::point(*c - 1)).max}, depth + 1);
      }
      return;
    case Kind::Min:
    case Kind::Max:
      for (const DimExpr &operand : key.operands())
        learnRange(operand, key.kind() == Kind::Min ? Interval{r.min, INT64_MAX} : Interval{INT64_MIN, r.max},
                   depth + 1);
      return;
    default:
      return;
    }
  }

  /// `d` is 0: becomes a rewrite where it can be solved for a name or an atom.
  void learnZero(DimExpr d) {
    auto linear = linearOf(d);
    if (!linear || linear->key.isConstant() || linear->offset % linear->scale != 0)
      return;
    d = linear->key + DimExpr(linear->offset / linear->scale);
    d = withoutPositiveFactor(d);
    linear = linearOf(d);
    if (!linear || linear->key.isConstant())
      return;
    learnRange(d, Interval::point(0));
    // p - c*floordiv(p, c) == 0 says that c divides p.
    for (const DimExpr &term : termsOf(d)) {
      int64_t k;
      std::vector<DimExpr> factors = factorsOf(term, k);
      if (factors.size() != 1 || factors[0].kind() != Kind::FloorDiv || k == INT64_MIN)
        continue;
      auto c = factors[0].operands()[1].constant();
      if (!c || *c < 2 || (k != *c && k != -*c))
        continue;
      DimExpr p = factors[0].operands()[0];
      if ((k < 0 ? d - term : term - d) == p)
        learnDivisible(p, DimExpr(*c), true);
    }
    // Solve for a term x with coefficient 1 or -1 that occurs nowhere else.
    // Preferred, in order: what is replaced cannot be negative; a name whose
    // value is then a name or a number; names before atoms; the larger atom; the
    // name declared last (then the one last in order).
    struct Candidate {
      DimExpr from, to;
      std::tuple<bool, bool, bool, size_t, size_t> score;
    };
    std::optional<Candidate> best;
    for (const DimExpr &term : termsOf(d)) {
      int64_t k;
      std::vector<DimExpr> factors = factorsOf(term, k);
      if (factors.size() != 1 || (k != 1 && k != -1))
        continue;
      DimExpr rest = d - term;
      if (contains(rest, factors[0]))
        continue;
      DimExpr to = k == 1 ? DimExpr() - rest : rest;
      if (to.isOverflow())
        continue;
      bool name = factors[0].isSymbol();
      // An atom goes only for something smaller, or it would grow.
      if (!name && nodesOf(to) > nodesOf(factors[0]))
        continue;
      Candidate c{factors[0],
                  to,
                  {range(to).min >= 0, to.isSymbol() || to.isConstant(), name, name ? 0 : nodesOf(factors[0]),
                   name ? position(factors[0]) + 1 : 0}};
      if (!best || c.score > best->score || (c.score == best->score && best->from < c.from))
        best = std::move(c);
    }
    if (!best) {
      if (!holds(facts.zero, d)) {
        mutableFacts->zero.push_back(d);
        changed = true;
      }
      return;
    }
    Interval r = range(best->from);
    mutableFacts->rewrites.emplace_back(best->from, best->to);
    changed = true;
    learnRange(best->to, r);
  }

  /// Divides by names that every term has and that are never 0.
  DimExpr withoutPositiveFactor(DimExpr d) const {
    for (bool again = true; again;) {
      again = false;
      int64_t k;
      for (const DimExpr &factor : factorsOf(termsOf(d).front(), k)) {
        Interval r = range(factor);
        if (r.contains(0))
          continue;
        if (auto quotient = d.exactQuotient(factor)) {
          d = *quotient;
          again = true;
          break;
        }
      }
    }
    return d;
  }

  size_t position(const DimExpr &symbol) const {
    auto own = outerName(symbol.name());
    std::string_view name = own ? std::string_view(own->first) : symbol.name();
    auto it = std::find(facts.order.begin(), facts.order.end(), name);
    return static_cast<size_t>(it - facts.order.begin());
  }

  void learnNonzero(const DimExpr &d) {
    auto linear = linearOf(d);
    if (!linear || linear->key.isConstant() || linear->offset % linear->scale != 0)
      return;
    DimExpr primitive = linear->key + DimExpr(linear->offset / linear->scale);
    if (holds(facts.nonzero, primitive))
      return;
    mutableFacts->nonzero.push_back(primitive);
    changed = true;
  }

  void learnDivisible(const DimExpr &a, const DimExpr &b, bool value) {
    auto c = b.constant();
    int64_t k;
    std::vector<DimExpr> factors = factorsOf(a, k);
    if (value && c && *c >= 2 && a.kind() != Kind::Sum && factors.size() == 1 && factors[0].isSymbol() &&
        k != INT64_MIN) {
      int64_t m = *c / std::gcd(*c, k);
      auto own = outerName(factors[0].name());
      std::string name(own ? std::string_view(own->first) : factors[0].name());
      int64_t multiple;
      if (m > 1 && name[0] != kOurs && !__builtin_mul_overflow(own ? own->second : 1, m, &multiple))
        setMultiple(name, multiple);
      return;
    }
    addKnown({DimPredicate::Kind::Divisible, a, b}, value);
  }

  void addKnown(DimPredicate p, bool value) {
    if (lookup(p.kind, p.lhs, p.rhs))
      return;
    mutableFacts->known.emplace_back(std::move(p), value);
    changed = true;
  }

  void learnBroadcastable(const DimExpr &a, const DimExpr &b, bool value) {
    if (!value) {
      learnNonzero(settle(a - b));
      learnNonzero(settle(a - 1));
      learnNonzero(settle(b - 1));
    } else if (isZero(a - 1) == false && isZero(b - 1) == false) {
      learnZero(settle(a - b));
    }
    addKnown({DimPredicate::Kind::Broadcastable, std::min(a, b), std::max(a, b)}, value);
  }

  void learn(const DimPredicate &p, bool value) {
    DimExpr a = inner(p.lhs), b = inner(p.rhs);
    if (a.isOverflow() || b.isOverflow() ||
        facts.rewrites.size() + facts.learned.size() + facts.zero.size() + facts.nonzero.size() + facts.known.size() >=
            kMaxFacts)
      return;
    using P = DimPredicate::Kind;
    switch (p.kind) {
    case P::Equal:
    case P::NotEqual:
      if ((p.kind == P::Equal) == value)
        learnZero(settle(a - b));
      else
        learnNonzero(settle(a - b));
      break;
    case P::LessEqual:
    case P::Less: {
      // value: d >= 0. Otherwise d <= -1.
      DimExpr d = settle(b - a - (p.kind == P::Less ? 1 : 0));
      learnRange(d, value ? Interval{0, INT64_MAX} : Interval{INT64_MIN, -1});
      break;
    }
    case P::Divisible:
      learnDivisible(a, b, value);
      break;
    case P::Broadcastable:
      learnBroadcastable(a, b, value);
      break;
    }
    consolidate();
  }

  /// Replaces the name's multiple; what is known is carried over.
  void setMultiple(const std::string &name, int64_t multiple) {
    // To the user's names under the old multiples, and back under the new.
    auto translate = [&](bool toOuter) {
      auto turn = [&](const DimExpr &e) { return toOuter ? outer(e) : withMultiples(e); };
      for (auto &[from, to] : mutableFacts->rewrites) {
        from = turn(from);
        to = turn(to);
      }
      std::map<DimExpr, Range> old;
      old.swap(mutableFacts->learned);
      pending.clear();
      for (auto &[key, r] : old)
        pending.emplace_back(turn(key), r);
      for (auto *list : {&mutableFacts->zero, &mutableFacts->nonzero})
        for (DimExpr &e : *list)
          e = turn(e);
      for (auto &[p, value] : mutableFacts->known) {
        p.lhs = turn(p.lhs);
        p.rhs = turn(p.rhs);
      }
      if (toOuter)
        for (auto &[key, r] : pending)
          mutableFacts->learned.insert_or_assign(key, r);
    };
    translate(true);
    if (!mutableFacts->declared.contains(name))
      mutableFacts->order.push_back(name);
    mutableFacts->declared[name].multiple = multiple;
    mutableFacts->anyMultiple = true;
    translate(false);
    auto relearn = std::move(pending);
    pending.clear();
    for (auto &[key, r] : relearn)
      learnRange(key, intervalOf(r));
    // A rewrite of something that is no longer one name or atom is an equation.
    auto rewrites = std::move(mutableFacts->rewrites);
    mutableFacts->rewrites.clear();
    for (auto &[from, to] : rewrites)
      learnZero(settle(from - to));
    changed = true;
    consolidate();
  }

  /// Brings everything known to the form it has under everything known.
  void consolidate() {
    for (int round = 0; round < 6 && changed; ++round) {
      changed = false;
      for (size_t i = 0; i < mutableFacts->rewrites.size(); ++i) {
        DimExpr to = settle(mutableFacts->rewrites[i].second);
        if (!contains(to, mutableFacts->rewrites[i].first))
          mutableFacts->rewrites[i].second = to;
      }
      std::vector<std::pair<DimExpr, Range>> moved;
      for (auto it = mutableFacts->learned.begin(); it != mutableFacts->learned.end();) {
        DimExpr settled = settle(it->first);
        // A name or atom that has become a number keeps the range that says so.
        if (settled == it->first || settled.isConstant()) {
          ++it;
          continue;
        }
        bool rewritten = std::any_of(facts.rewrites.begin(), facts.rewrites.end(),
                                     [&](const auto &rewrite) { return contains(it->first, rewrite.first); });
        moved.emplace_back(settled, it->second);
        // Only an equality may take the old key's place; a range that was used to
        // get to the new form must stay.
        if (rewritten)
          it = mutableFacts->learned.erase(it);
        else
          ++it;
      }
      for (auto &[key, r] : moved)
        learnRange(key, intervalOf(r));
      std::vector<DimExpr> equations;
      equations.swap(mutableFacts->zero);
      for (const DimExpr &e : equations) {
        bool before = changed;
        DimExpr settled = settle(e);
        learnZero(settled);
        if (settled == e)
          changed = before; // it went back as it was
      }
      std::vector<DimExpr> differences;
      differences.swap(mutableFacts->nonzero);
      for (const DimExpr &e : differences) {
        DimExpr settled = settle(e);
        bool before = changed;
        learnNonzero(settled);
        if (settled == e)
          changed = before;
        // An end that is excluded moves the range.
        Interval r = range(settled);
        if (r.min == 0)
          learnRange(settled, {1, INT64_MAX});
        else if (r.max == 0)
          learnRange(settled, {INT64_MIN, -1});
      }
      std::vector<std::pair<DimPredicate, bool>> asked;
      asked.swap(mutableFacts->known);
      for (auto &[p, value] : asked) {
        DimPredicate settled{p.kind, settle(p.lhs), settle(p.rhs)};
        if (settled == p) {
          mutableFacts->known.emplace_back(p, value);
        } else if (p.kind == DimPredicate::Kind::Divisible) {
          learnDivisible(settled.lhs, settled.rhs, value);
        } else {
          learnBroadcastable(settled.lhs, settled.rhs, value);
        }
        if (settled == p && p.kind == DimPredicate::Kind::Broadcastable && value && isZero(p.lhs - p.rhs) != true &&
            isZero(p.lhs - 1) == false && isZero(p.rhs - 1) == false)
          learnZero(settle(p.lhs - p.rhs));
      }
    }
  }

private:
  const DimFacts &facts;
  DimFacts *mutableFacts;
  bool changed = false;
  std::vector<std::pair<DimExpr, Range>> pending;
};

void DimFacts::declare(std::string_view name, int64_t min, int64_t max, int64_t multiple) {
  if (!declared.contains(name))
    order.emplace_back(name);
  Declared &d = declared[std::string(name)];
  d.min = std::max<int64_t>(min, 0);
  d.max = max;
  // A name that looks like one of ours never gets one of ours.
  if (multiple > 1 && !name.empty() && name[0] != kOurs)
    Impl(*this).setMultiple(std::string(name), multiple);
}

std::optional<bool> DimFacts::prove(const DimPredicate &predicate) const { return Impl(*this).prove(predicate); }

void DimFacts::learn(const DimPredicate &predicate, bool value) { Impl(*this).learn(predicate, value); }

DimExpr DimFacts::simplify(const DimExpr &expr) const {
  Impl impl(*this);
  return Impl::outer(impl.inner(expr));
}

DimFacts::Range DimFacts::range(const DimExpr &expr) const {
  Impl impl(*this);
  return rangeOf(impl.boundsOf(impl.inner(expr)));
}

//===----------------------------------------------------------------------===//
// SizeAccessor
//===----------------------------------------------------------------------===//

std::string describeFailure(const DimPredicate &predicate, const Binding &binding) {
  auto a = predicate.lhs.evaluate(binding), b = predicate.rhs.evaluate(binding);
  if (!a || !b)
    return "'" + predicate.str() + "' does not hold";
  std::string left = predicate.lhs.str() + " is " + std::to_string(*a);
  std::string right = predicate.rhs.str() + " is " + std::to_string(*b);
  bool number = predicate.rhs.isConstant();
  std::string text;
  using P = DimPredicate::Kind;
  auto against = [&](const char *words) {
    return left + ", " + words + (number ? " " + std::to_string(*b) : " " + right);
  };
  switch (predicate.kind) {
  case P::Equal:
    text = number                       ? left + ", not " + std::to_string(*b)
           : predicate.lhs.isConstant() ? right + ", not " + std::to_string(*a)
                                        : left + " but " + right;
    break;
  case P::NotEqual:
    text = number ? left : left + " and so is " + predicate.rhs.str();
    break;
  case P::LessEqual:
    // "1 <= N" reads better from the side that varies.
    text = predicate.lhs.isConstant() ? right + ", less than " + std::to_string(*a)
           : number ? against("more than")
                    : left + " but at most " + predicate.rhs.str() + " = " + std::to_string(*b) + " is allowed";
    break;
  case P::Less:
    text = predicate.lhs.isConstant() ? right + ", not more than " + std::to_string(*a)
           : number ? left + ", not less than " + std::to_string(*b)
                    : left + " but less than " + predicate.rhs.str() + " = " + std::to_string(*b) + " is needed";
    break;
  case P::Divisible:
    text = left + ", not a multiple of " +
           (number ? std::to_string(*b) : predicate.rhs.str() + " = " + std::to_string(*b));
    break;
  case P::Broadcastable:
    text = left + " and " + right + ": they do not broadcast";
    break;
  }
  // Sizes of the names behind compound expressions.
  std::set<std::string> names;
  for (const DimExpr *e : {&predicate.lhs, &predicate.rhs})
    if (!e->isSymbol())
      e->collectNames(names);
  std::string sizes;
  for (const std::string &name : names) {
    if (predicate.lhs.isSymbol() && predicate.lhs.name() == name)
      continue;
    if (predicate.rhs.isSymbol() && predicate.rhs.name() == name)
      continue;
    auto it = binding.find(name);
    if (it != binding.end())
      sizes += (sizes.empty() ? "" : ", ") + name + "=" + std::to_string(it->second);
  }
  return sizes.empty() ? text : text + " (" + sizes + ")";
}

Result<bool> SizeAccessor::ask(const DimPredicate &predicate, std::string_view op, std::string_view reason) {
  if (auto proven = facts.prove(predicate))
    return *proven;
  Result<bool> answer = predicate.evaluate(binding);
  if (!answer)
    return Error{answer.error().code, std::string(op) + ": " + answer.error().message};
  asked.push_back({predicate, *answer, false, std::string(op), std::string(reason)});
  facts.learn(predicate, *answer);
  return answer;
}

Status SizeAccessor::require(const DimPredicate &predicate, std::string_view op, std::string_view message) {
  auto proven = facts.prove(predicate);
  if (proven == true)
    return Status::ok();
  Result<bool> answer = predicate.evaluate(binding);
  if (!answer)
    return Error{answer.error().code, std::string(op) + ": " + answer.error().message};
  asked.push_back({predicate, *answer, true, std::string(op), std::string(message)});
  facts.learn(predicate, *answer);
  if (*answer)
    return Status::ok();
  return Error{ErrorCode::InvalidArgument,
               std::string(op) + ": " + std::string(message) + ": " + describeFailure(predicate, binding)};
}

} // namespace rlx
