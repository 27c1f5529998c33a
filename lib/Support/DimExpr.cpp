//===- DimExpr.cpp - sizes as expressions of named dims -------------------===//

#include "rlx/Support/DimExpr.h"

#include "Interval.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

namespace rlx {

struct DimExpr::Node {
  Kind kind = Kind::Constant;
  bool overflow = false;
  int64_t value = 0;             // Constant
  std::string name;              // Symbol
  std::vector<DimExpr> operands; // the others
  size_t hash = 0;
  size_t nodes = 1, depth = 1;
};

namespace {

/// A product of atoms, sorted, with repetition for powers.
using Monomial = std::vector<DimExpr>;

struct Term {
  Monomial atoms;
  int64_t coefficient;
};

/// Terms in order of printing: higher degree first, then by atoms; no two with
/// the same atoms, no zero coefficient. `overflow` when it cannot be held.
struct Polynomial {
  std::vector<Term> terms;
  bool overflow = false;
};

constexpr size_t kMaxTerms = 256, kMaxFactors = 64;

size_t mix(size_t seed, size_t value) {
  // The 64-bit finaliser of splitmix: the same in every process.
  uint64_t x = static_cast<uint64_t>(seed) * 0x9E3779B97F4A7C15u + value + 0x632BE59BD9B4E019u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return static_cast<size_t>(x ^ (x >> 31));
}

size_t hashText(std::string_view text) {
  uint64_t h = 0xCBF29CE484222325u;
  for (unsigned char c : text)
    h = (h ^ c) * 0x100000001B3u;
  return static_cast<size_t>(h);
}

bool isAtomKind(DimExpr::Kind kind) {
  using K = DimExpr::Kind;
  return kind == K::FloorDiv || kind == K::Min || kind == K::Max || kind == K::Broadcast;
}

} // namespace

/// Everything that reads or makes nodes.
struct DimExpr::Builder {
  static const Node &get(const DimExpr &e) { return *e.node; }

  static DimExpr overflow() {
    static const DimExpr one = [] {
      auto node = std::make_shared<Node>();
      node->kind = Kind::Product;
      node->overflow = true;
      node->operands = {DimExpr(INT64_MAX), DimExpr(INT64_MAX)};
      node->nodes = 3;
      node->depth = 2;
      node->hash = mix(0x0F, 0x0F);
      return DimExpr(std::shared_ptr<const Node>(std::move(node)));
    }();
    return one;
  }

  static DimExpr symbol(std::string_view name) {
    if (name.empty() || name.size() > kMaxNameBytes)
      return overflow();
    auto node = std::make_shared<Node>();
    node->kind = Kind::Symbol;
    node->name = name;
    node->hash = mix(static_cast<size_t>(Kind::Symbol), hashText(name));
    return DimExpr(std::shared_ptr<const Node>(std::move(node)));
  }

  static DimExpr compound(Kind kind, std::vector<DimExpr> operands) {
    auto node = std::make_shared<Node>();
    node->kind = kind;
    node->hash = static_cast<size_t>(kind) + 17;
    for (const DimExpr &operand : operands) {
      const Node &n = get(operand);
      if (n.overflow)
        return overflow();
      node->hash = mix(node->hash, n.hash);
      node->nodes += n.nodes;
      node->depth = std::max(node->depth, n.depth + 1);
    }
    if (node->nodes > kMaxNodes || node->depth > kMaxDepth)
      return overflow();
    node->operands = std::move(operands);
    return DimExpr(std::shared_ptr<const Node>(std::move(node)));
  }

  //===--- order ----------------------------------------------------------===//

  static int compare(const DimExpr &a, const DimExpr &b) {
    if (a.node == b.node)
      return 0;
    const Node &x = get(a), &y = get(b);
    if (x.kind != y.kind)
      return rank(x.kind) < rank(y.kind) ? -1 : 1;
    if (x.overflow != y.overflow)
      return x.overflow ? 1 : -1;
    if (x.kind == Kind::Constant)
      return x.value < y.value ? -1 : x.value > y.value;
    if (x.kind == Kind::Symbol)
      return x.name < y.name ? -1 : x.name > y.name;
    size_t n = std::min(x.operands.size(), y.operands.size());
    for (size_t i = 0; i < n; ++i)
      if (int c = compare(x.operands[i], y.operands[i]))
        return c;
    return x.operands.size() < y.operands.size() ? -1 : x.operands.size() > y.operands.size();
  }

  /// Names before what is made of them, plain numbers last: N+1, min(S, 512).
  static int rank(Kind kind) {
    switch (kind) {
    case Kind::Symbol:
      return 0;
    case Kind::Product:
      return 1;
    case Kind::Sum:
      return 2;
    case Kind::FloorDiv:
      return 3;
    case Kind::Min:
      return 4;
    case Kind::Max:
      return 5;
    case Kind::Broadcast:
      return 6;
    case Kind::Constant:
      return 7;
    }
    return 8;
  }

  /// Graded lexicographic, largest first: an order that products respect, which
  /// exact division needs.
  static int compareMonomials(const Monomial &a, const Monomial &b) {
    if (a.size() != b.size())
      return a.size() > b.size() ? -1 : 1;
    for (size_t i = 0; i < a.size(); ++i)
      if (int c = compare(a[i], b[i]))
        return c;
    return 0;
  }

  //===--- polynomials ----------------------------------------------------===//

  static Term termOf(const DimExpr &e) {
    const Node &n = get(e);
    if (n.kind == Kind::Constant)
      return {{}, n.value};
    if (n.kind != Kind::Product)
      return {{e}, 1};
    Term term{{}, 1};
    for (const DimExpr &factor : n.operands) {
      if (factor.isConstant())
        term.coefficient = get(factor).value;
      else
        term.atoms.push_back(factor);
    }
    return term;
  }

  static Polynomial polynomialOf(const DimExpr &e) {
    const Node &n = get(e);
    Polynomial p;
    if (n.overflow) {
      p.overflow = true;
    } else if (n.kind == Kind::Sum) {
      p.terms.reserve(n.operands.size());
      for (const DimExpr &operand : n.operands)
        p.terms.push_back(termOf(operand));
    } else if (n.kind != Kind::Constant || n.value != 0) {
      p.terms.push_back(termOf(e));
    }
    return p;
  }

  /// Sorts, joins equal monomials, drops zeros.
  static void normalise(Polynomial &p) {
    std::sort(p.terms.begin(), p.terms.end(),
              [](const Term &a, const Term &b) { return compareMonomials(a.atoms, b.atoms) < 0; });
    std::vector<Term> out;
    for (size_t i = 0; i < p.terms.size();) {
      __int128 sum = 0;
      size_t j = i;
      for (; j < p.terms.size() && compareMonomials(p.terms[i].atoms, p.terms[j].atoms) == 0; ++j)
        sum += p.terms[j].coefficient;
      if (sum < INT64_MIN || sum > INT64_MAX) {
        p.overflow = true;
        return;
      }
      if (sum != 0)
        out.push_back({std::move(p.terms[i].atoms), static_cast<int64_t>(sum)});
      i = j;
    }
    p.terms = std::move(out);
    p.overflow |= p.terms.size() > kMaxTerms;
  }

  static DimExpr exprOf(const Term &term) {
    if (term.atoms.empty())
      return DimExpr(term.coefficient);
    if (term.atoms.size() == 1 && term.coefficient == 1)
      return term.atoms.front();
    std::vector<DimExpr> operands;
    operands.reserve(term.atoms.size() + 1);
    if (term.coefficient != 1)
      operands.push_back(DimExpr(term.coefficient));
    operands.insert(operands.end(), term.atoms.begin(), term.atoms.end());
    return compound(Kind::Product, std::move(operands));
  }

  /// `p` is normalised.
  static DimExpr exprOf(const Polynomial &p) {
    if (p.overflow)
      return overflow();
    if (p.terms.empty())
      return DimExpr();
    if (p.terms.size() == 1)
      return exprOf(p.terms.front());
    std::vector<DimExpr> operands;
    operands.reserve(p.terms.size());
    for (const Term &term : p.terms)
      operands.push_back(exprOf(term));
    return compound(Kind::Sum, std::move(operands));
  }

  /// a + scale * b; both are normalised.
  static Polynomial add(Polynomial a, const Polynomial &b, int64_t scale) {
    Polynomial sum;
    sum.overflow = a.overflow || b.overflow;
    if (sum.overflow)
      return sum;
    sum.terms.reserve(a.terms.size() + b.terms.size());
    auto x = a.terms.begin();
    for (const Term &y : b.terms) {
      int64_t coefficient;
      if (__builtin_mul_overflow(y.coefficient, scale, &coefficient)) {
        sum.overflow = true;
        return sum;
      }
      int order = 1; // of *x against y
      while (x != a.terms.end() && (order = compareMonomials(x->atoms, y.atoms)) < 0)
        sum.terms.push_back(std::move(*x++));
      if (x != a.terms.end() && order == 0) {
        if (__builtin_add_overflow(coefficient, x->coefficient, &coefficient)) {
          sum.overflow = true;
          return sum;
        }
        ++x;
      }
      if (coefficient != 0)
        sum.terms.push_back({y.atoms, coefficient});
    }
    sum.terms.insert(sum.terms.end(), std::make_move_iterator(x), std::make_move_iterator(a.terms.end()));
    sum.overflow = sum.terms.size() > kMaxTerms;
    return sum;
  }

  static std::optional<Term> multiply(const Term &a, const Term &b) {
    Term product;
    if (a.atoms.size() + b.atoms.size() > kMaxFactors ||
        __builtin_mul_overflow(a.coefficient, b.coefficient, &product.coefficient))
      return std::nullopt;
    product.atoms.reserve(a.atoms.size() + b.atoms.size());
    std::merge(a.atoms.begin(), a.atoms.end(), b.atoms.begin(), b.atoms.end(), std::back_inserter(product.atoms),
               [](const DimExpr &x, const DimExpr &y) { return compare(x, y) < 0; });
    return product;
  }

  static Polynomial multiply(const Polynomial &a, const Polynomial &b) {
    Polynomial p;
    p.overflow = a.overflow || b.overflow || a.terms.size() * b.terms.size() > 16 * kMaxTerms;
    if (p.overflow)
      return p;
    for (const Term &x : a.terms)
      for (const Term &y : b.terms) {
        auto term = multiply(x, y);
        if (!term) {
          p.overflow = true;
          return p;
        }
        p.terms.push_back(std::move(*term));
      }
    normalise(p);
    return p;
  }

  //===--- bounds that hold for all names >= 0 ------------------------------===//

  static Interval bounds(const DimExpr &e) {
    const Node &n = get(e);
    if (n.overflow)
      return {};
    switch (n.kind) {
    case Kind::Constant:
      return Interval::point(n.value);
    case Kind::Symbol:
      return {0, INT64_MAX};
    case Kind::Sum: {
      Interval r = Interval::point(0);
      for (const DimExpr &operand : n.operands)
        r = r + bounds(operand);
      return r;
    }
    case Kind::Product: {
      Interval r = Interval::point(1);
      for (const DimExpr &operand : n.operands)
        r = r * bounds(operand);
      return r;
    }
    case Kind::FloorDiv:
      return Interval::floorDiv(bounds(n.operands[0]), bounds(n.operands[1]));
    case Kind::Min: {
      Interval a = bounds(n.operands[0]), b = bounds(n.operands[1]);
      return {std::min(a.min, b.min), std::min(a.max, b.max)};
    }
    case Kind::Max: {
      Interval a = bounds(n.operands[0]), b = bounds(n.operands[1]);
      return {std::max(a.min, b.min), std::max(a.max, b.max)};
    }
    case Kind::Broadcast:
      return Interval::broadcast(bounds(n.operands[0]), bounds(n.operands[1]));
    }
    return {};
  }

  //===--- min, max, broadcast ----------------------------------------------===//

  /// Operands of nested atoms of one kind, as a flat list.
  static void flatten(Kind kind, const DimExpr &e, std::vector<DimExpr> &out) {
    if (e.kind() != kind) {
      out.push_back(e);
      return;
    }
    for (const DimExpr &operand : get(e).operands)
      flatten(kind, operand, out);
  }

  static DimExpr nest(Kind kind, std::vector<DimExpr> &operands) {
    std::sort(operands.begin(), operands.end(), [](const DimExpr &a, const DimExpr &b) { return compare(a, b) < 0; });
    operands.erase(std::unique(operands.begin(), operands.end()), operands.end());
    DimExpr result = operands.front();
    for (size_t i = 1; i < operands.size(); ++i)
      result = compound(kind, {result, operands[i]});
    return result;
  }

  static constexpr size_t kMaxFlat = 32;

  static DimExpr extremum(Kind kind, const DimExpr &a, const DimExpr &b) {
    if (get(a).overflow || get(b).overflow)
      return overflow();
    std::vector<DimExpr> operands;
    flatten(kind, a, operands);
    flatten(kind, b, operands);
    // Drop an operand that another one always beats.
    for (size_t i = 0; i < operands.size();) {
      bool drop = false;
      for (size_t j = 0; j < operands.size() && !drop; ++j) {
        if (i == j)
          continue;
        DimExpr difference = operands[i] - operands[j];
        if (get(difference).overflow)
          continue;
        Interval d = bounds(difference);
        drop = kind == Kind::Min ? d.min >= 0 : d.max <= 0;
      }
      if (drop)
        operands.erase(operands.begin() + static_cast<ptrdiff_t>(i));
      else
        ++i;
    }
    if (operands.size() > kMaxFlat)
      return overflow();
    return nest(kind, operands);
  }

  static DimExpr broadcast(const DimExpr &a, const DimExpr &b) {
    if (get(a).overflow || get(b).overflow)
      return overflow();
    std::vector<DimExpr> operands;
    flatten(Kind::Broadcast, a, operands);
    flatten(Kind::Broadcast, b, operands);
    std::erase_if(operands, [](const DimExpr &e) { return e.constant() == 1; });
    if (operands.empty())
      return DimExpr(1);
    // A number other than 1 is the result, or the sizes do not broadcast.
    if (std::any_of(operands.begin(), operands.end(), [](const DimExpr &e) { return e.isConstant(); }))
      std::erase_if(operands, [](const DimExpr &e) { return !e.isConstant(); });
    // min(x, c) beside x: where they differ and c is not 1, nothing broadcasts.
    std::vector<bool> drop(operands.size());
    for (size_t i = 0; i < operands.size(); ++i) {
      if (operands[i].kind() != Kind::Min)
        continue;
      std::vector<DimExpr> parts;
      flatten(Kind::Min, operands[i], parts);
      for (size_t j = 0; j < operands.size() && !drop[i]; ++j) {
        if (i == j || drop[j])
          continue;
        bool found = false, others = true;
        for (const DimExpr &part : parts) {
          if (part == operands[j])
            found = true;
          else
            others &= bounds(part).min >= 1;
        }
        drop[i] = found && others;
      }
    }
    std::vector<DimExpr> kept;
    for (size_t i = 0; i < operands.size(); ++i)
      if (!drop[i])
        kept.push_back(operands[i]);
    if (kept.size() > kMaxFlat)
      return overflow();
    return nest(Kind::Broadcast, kept);
  }

  //===--- floordiv ---------------------------------------------------------===//

  /// floordiv by a number >= 2.
  static DimExpr floorDivNumber(Polynomial p, int64_t divisor) {
    Polynomial whole; // what comes out of the floordiv
    auto quotientOf = [&](const Term &term) {
      // Constants are reduced to 0..divisor-1, others towards zero, so that
      // floordiv(H - K, 2) stays as it is.
      return term.atoms.empty() ? Interval::floorOf(term.coefficient, divisor) : term.coefficient / divisor;
    };
    for (bool changed = true; changed;) {
      changed = false;
      Polynomial rest;
      int64_t constant = 0;
      for (const Term &term : p.terms) {
        int64_t q = quotientOf(term);
        if (q != 0)
          whole.terms.push_back({term.atoms, q});
        auto r = static_cast<int64_t>(term.coefficient - static_cast<__int128>(q) * divisor); // |r| < divisor
        if (r == 0)
          continue;
        rest.terms.push_back({term.atoms, r});
        if (term.atoms.empty())
          constant = r;
      }
      p = std::move(rest);
      if (p.terms.empty() || (p.terms.size() == 1 && p.terms[0].atoms.empty())) {
        p.terms.clear(); // 0 <= constant < divisor
        break;
      }
      int64_t g = divisor;
      for (const Term &term : p.terms)
        if (!term.atoms.empty())
          g = std::gcd(g, term.coefficient);
      if (g > 1) {
        // floor((g*q + k) / (g*d)) = floor((q + floor(k / g)) / d)
        divisor /= g;
        for (Term &term : p.terms)
          term.coefficient = term.atoms.empty() ? constant / g : term.coefficient / g;
        std::erase_if(p.terms, [](const Term &term) { return term.coefficient == 0; });
        changed = true;
        if (divisor == 1)
          continue;
      }
      // floordiv(floordiv(q, a) + r, b) = floordiv(q + a*r, a*b), where just one
      // such term is there.
      const Term *inner = nullptr;
      size_t count = 0;
      for (const Term &term : p.terms)
        if (term.coefficient == 1 && term.atoms.size() == 1 && term.atoms[0].kind() == Kind::FloorDiv) {
          inner = &term;
          ++count;
        }
      if (count != 1)
        continue;
      DimExpr numerator = get(inner->atoms[0]).operands[0];
      auto a = get(inner->atoms[0]).operands[1].constant();
      int64_t product;
      if (!a || *a < 2 || __builtin_mul_overflow(*a, divisor, &product))
        continue;
      Polynomial r;
      for (const Term &term : p.terms)
        if (&term != inner)
          r.terms.push_back(term);
      Polynomial q = add(polynomialOf(numerator), r, *a);
      if (q.overflow)
        continue;
      p = std::move(q);
      divisor = product;
      changed = true;
    }
    normalise(whole);
    DimExpr result = exprOf(whole);
    if (p.terms.empty())
      return result;
    return result + compound(Kind::FloorDiv, {exprOf(p), DimExpr(divisor)});
  }

  static DimExpr floorDiv(const DimExpr &a, const DimExpr &b) {
    if (get(a).overflow || get(b).overflow)
      return overflow();
    if (auto divisor = b.constant()) {
      if (*divisor == 0)
        return compound(Kind::FloorDiv, {a, b}); // evaluating it is the error
      if (*divisor == INT64_MIN)
        return overflow();
      if (*divisor < 0)
        return floorDiv(DimExpr() - a, DimExpr(-*divisor));
      if (*divisor == 1)
        return a;
      return floorDivNumber(polynomialOf(a), *divisor);
    }
    // A divisor of names: cancel only where it cannot be 0.
    Interval range = bounds(b);
    if (range.min >= 1 || range.max <= -1)
      if (auto quotient = a.exactQuotient(b))
        return *quotient;
    Polynomial p = polynomialOf(a), q = polynomialOf(b);
    int64_t g = 0;
    for (const Polynomial *each : {&p, &q})
      for (const Term &term : each->terms) {
        if (term.coefficient == INT64_MIN)
          return compound(Kind::FloorDiv, {a, b});
        g = std::gcd(g, term.coefficient);
      }
    if (q.terms.front().coefficient < 0)
      g = -g;
    for (Polynomial *each : {&p, &q})
      for (Term &term : each->terms)
        term.coefficient /= g;
    return compound(Kind::FloorDiv, {exprOf(p), exprOf(q)});
  }

  static DimExpr make(Kind kind, const DimExpr &a, const DimExpr &b) {
    switch (kind) {
    case Kind::Sum:
      return a + b;
    case Kind::Product:
      return a * b;
    case Kind::FloorDiv:
      return floorDiv(a, b);
    case Kind::Min:
    case Kind::Max:
      return extremum(kind, a, b);
    case Kind::Broadcast:
      return broadcast(a, b);
    default:
      return a;
    }
  }

  /// Rebuilds `e` with `leaf(sub)` in place of every sub-expression for which it
  /// returns one (asked from the outside in).
  template <typename Leaf>
  static DimExpr rebuild(const DimExpr &e, const Leaf &leaf, std::unordered_map<const Node *, DimExpr> &memo) {
    const Node &n = get(e);
    if (n.overflow || n.kind == Kind::Constant)
      return e;
    auto it = memo.find(&n);
    if (it != memo.end())
      return it->second;
    DimExpr result = e;
    if (std::optional<DimExpr> replacement = leaf(e)) {
      result = *replacement;
    } else if (n.kind != Kind::Symbol) {
      std::vector<DimExpr> operands;
      bool changed = false;
      for (const DimExpr &operand : n.operands) {
        operands.push_back(rebuild(operand, leaf, memo));
        changed |= operands.back().node != operand.node;
      }
      if (changed && n.kind == Kind::Sum) {
        Polynomial sum;
        for (const DimExpr &operand : operands) {
          Polynomial p = polynomialOf(operand);
          sum.overflow |= p.overflow || sum.terms.size() > 16 * kMaxTerms;
          if (sum.overflow)
            break;
          std::move(p.terms.begin(), p.terms.end(), std::back_inserter(sum.terms));
        }
        if (!sum.overflow)
          normalise(sum);
        result = exprOf(sum);
      } else if (changed) {
        result = operands[0];
        for (size_t i = 1; i < operands.size(); ++i)
          result = make(n.kind, result, operands[i]);
      }
    }
    memo.emplace(&n, result);
    return result;
  }

  //===--- evaluation -------------------------------------------------------===//

  static Error overflowError() { return {ErrorCode::OutOfRange, "size arithmetic overflows 64 bits"}; }

  static Result<int64_t> evaluate(const DimExpr &e, const Binding &binding) {
    const Node &n = get(e);
    if (n.overflow)
      return overflowError();
    switch (n.kind) {
    case Kind::Constant:
      return n.value;
    case Kind::Symbol: {
      auto it = binding.find(n.name);
      if (it == binding.end())
        return Error{ErrorCode::InvalidArgument, "dim '" + n.name + "' has no size"};
      return it->second;
    }
    case Kind::Sum:
    case Kind::Product: {
      int64_t result = n.kind == Kind::Sum ? 0 : 1;
      for (const DimExpr &operand : n.operands) {
        Result<int64_t> value = evaluate(operand, binding);
        if (!value)
          return value;
        if (n.kind == Kind::Sum ? __builtin_add_overflow(result, *value, &result)
                                : __builtin_mul_overflow(result, *value, &result))
          return overflowError();
      }
      return result;
    }
    default:
      break;
    }
    Result<int64_t> a = evaluate(n.operands[0], binding);
    if (!a)
      return a;
    Result<int64_t> b = evaluate(n.operands[1], binding);
    if (!b)
      return b;
    switch (n.kind) {
    case Kind::FloorDiv:
      if (*b == 0)
        return Error{ErrorCode::OutOfRange, "division by zero in " + e.str()};
      if (*a == INT64_MIN && *b == -1)
        return overflowError();
      return Interval::floorOf(*a, *b);
    case Kind::Min:
      return std::min(*a, *b);
    case Kind::Max:
      return std::max(*a, *b);
    default:
      if (*a != *b && *a != 1 && *b != 1)
        return Error{ErrorCode::InvalidArgument, n.operands[0].str() + " is " + std::to_string(*a) + " and " +
                                                     n.operands[1].str() + " is " + std::to_string(*b) +
                                                     ": they do not broadcast"};
      return *a == 1 ? *b : *a;
    }
  }

  //===--- text -------------------------------------------------------------===//

  static bool isPlainName(std::string_view name) {
    auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
    if (name.empty() || !letter(name[0]))
      return false;
    for (char c : name)
      if (!letter(c) && !(c >= '0' && c <= '9') && c != '.')
        return false;
    for (std::string_view word : {"floordiv", "ceildiv", "mod", "min", "max", "broadcast", "broadcastable"})
      if (name == word)
        return false;
    return true;
  }

  static void print(const DimExpr &e, std::string &out) {
    const Node &n = get(e);
    switch (n.kind) {
    case Kind::Constant:
      out += std::to_string(n.value);
      return;
    case Kind::Symbol:
      if (isPlainName(n.name)) {
        out += n.name;
        return;
      }
      out += '"';
      for (char c : n.name) {
        if (c == '"' || c == '\\')
          out += '\\';
        out += c;
      }
      out += '"';
      return;
    case Kind::Sum:
      for (size_t i = 0; i < n.operands.size(); ++i) {
        std::string term;
        print(n.operands[i], term);
        // The lowest number has no magnitude of 64 bits: "N+-9223372036854775808" is read back, with '-' it is not.
        if (i > 0 && (term[0] != '-' || term.starts_with("-9223372036854775808")))
          out += '+';
        out += term;
      }
      return;
    case Kind::Product:
      for (size_t i = 0; i < n.operands.size(); ++i) {
        const DimExpr &factor = n.operands[i];
        if (i == 0 && factor.constant() == -1) {
          out += '-';
          continue;
        }
        if (!out.empty() && i > 0 && out.back() != '-')
          out += '*';
        print(factor, out);
      }
      return;
    case Kind::FloorDiv:
      out += "floordiv(";
      break;
    case Kind::Min:
      out += "min(";
      break;
    case Kind::Max:
      out += "max(";
      break;
    case Kind::Broadcast:
      out += "broadcast(";
      break;
    }
    print(n.operands[0], out);
    out += ", ";
    print(n.operands[1], out);
    out += ')';
  }
};

DimExpr::DimExpr() {
  static const std::shared_ptr<const Node> zero = [] {
    auto n = std::make_shared<Node>();
    n->hash = mix(static_cast<size_t>(Kind::Constant), 0);
    return n;
  }();
  node = zero;
}

DimExpr::DimExpr(int64_t value) {
  auto n = std::make_shared<Node>();
  n->value = value;
  n->hash = mix(static_cast<size_t>(Kind::Constant), static_cast<size_t>(value));
  node = std::move(n);
}

DimExpr DimExpr::symbol(std::string_view name) { return Builder::symbol(name); }

DimExpr::Kind DimExpr::kind() const { return node->kind; }
bool DimExpr::isOverflow() const { return node->overflow; }
std::optional<int64_t> DimExpr::constant() const {
  return node->kind == Kind::Constant ? std::optional<int64_t>(node->value) : std::nullopt;
}
std::string_view DimExpr::name() const { return node->name; }
std::span<const DimExpr> DimExpr::operands() const { return node->operands; }

std::string DimExpr::str() const {
  std::string out;
  Builder::print(*this, out);
  return out;
}

Result<int64_t> DimExpr::evaluate(const Binding &binding) const { return Builder::evaluate(*this, binding); }

DimExpr DimExpr::substitute(const std::map<std::string, DimExpr, std::less<>> &names) const {
  std::unordered_map<const Node *, DimExpr> memo;
  return Builder::rebuild(
      *this,
      [&](const DimExpr &e) -> std::optional<DimExpr> {
        if (e.kind() != Kind::Symbol)
          return std::nullopt;
        auto it = names.find(e.name());
        return it == names.end() ? std::nullopt : std::optional<DimExpr>(it->second);
      },
      memo);
}

DimExpr DimExpr::replaceAtom(const DimExpr &from, const DimExpr &to) const {
  std::unordered_map<const Node *, DimExpr> memo;
  return Builder::rebuild(
      *this,
      [&](const DimExpr &e) -> std::optional<DimExpr> { return e == from ? std::optional<DimExpr>(to) : std::nullopt; },
      memo);
}

void DimExpr::collectNames(std::set<std::string> &names) const {
  if (node->kind == Kind::Symbol)
    names.insert(node->name);
  for (const DimExpr &operand : node->operands)
    operand.collectNames(names);
}

void DimExpr::collectAtoms(std::vector<DimExpr> &atoms) const {
  for (const DimExpr &operand : node->operands)
    operand.collectAtoms(atoms);
  if (isAtomKind(node->kind) && std::find(atoms.begin(), atoms.end(), *this) == atoms.end())
    atoms.push_back(*this);
}

std::optional<DimExpr> DimExpr::exactQuotient(const DimExpr &divisor) const {
  Polynomial rest = Builder::polynomialOf(*this), d = Builder::polynomialOf(divisor), quotient;
  if (rest.overflow || d.overflow || d.terms.empty())
    return std::nullopt;
  const Term lead = d.terms.front();
  while (!rest.terms.empty()) {
    const Term &term = rest.terms.front();
    if (lead.coefficient == -1 && term.coefficient == INT64_MIN)
      return std::nullopt;
    if (term.coefficient % lead.coefficient != 0 || term.atoms.size() < lead.atoms.size() ||
        quotient.terms.size() >= kMaxTerms)
      return std::nullopt;
    Term q{{}, term.coefficient / lead.coefficient};
    // The atoms of `term` without those of `lead`; both are sorted.
    size_t taken = 0;
    for (const DimExpr &atom : term.atoms) {
      if (taken < lead.atoms.size() && atom == lead.atoms[taken])
        ++taken;
      else
        q.atoms.push_back(atom);
    }
    if (taken != lead.atoms.size())
      return std::nullopt;
    Polynomial step;
    step.terms.push_back(q);
    quotient.terms.push_back(std::move(q));
    rest = Builder::add(std::move(rest), Builder::multiply(step, d), -1);
    if (rest.overflow)
      return std::nullopt;
  }
  Builder::normalise(quotient);
  return Builder::exprOf(quotient);
}

size_t DimExpr::hash() const { return node->hash; }
bool operator==(const DimExpr &a, const DimExpr &b) {
  return a.node == b.node || (a.node->hash == b.node->hash && DimExpr::Builder::compare(a, b) == 0);
}
bool operator<(const DimExpr &a, const DimExpr &b) { return DimExpr::Builder::compare(a, b) < 0; }

DimExpr operator+(const DimExpr &a, const DimExpr &b) {
  using B = DimExpr::Builder;
  return B::exprOf(B::add(B::polynomialOf(a), B::polynomialOf(b), 1));
}
DimExpr operator-(const DimExpr &a, const DimExpr &b) {
  using B = DimExpr::Builder;
  return B::exprOf(B::add(B::polynomialOf(a), B::polynomialOf(b), -1));
}
DimExpr operator*(const DimExpr &a, const DimExpr &b) {
  using B = DimExpr::Builder;
  return B::exprOf(B::multiply(B::polynomialOf(a), B::polynomialOf(b)));
}

DimExpr DimExpr::floorDiv(const DimExpr &a, const DimExpr &b) { return Builder::floorDiv(a, b); }
DimExpr DimExpr::ceilDiv(const DimExpr &a, const DimExpr &b) {
  // ceil(a / b) = -floor(-a / b) for every b; the other form is the normal one
  // for a positive number.
  if (auto divisor = b.constant(); divisor && *divisor > 0)
    return Builder::floorDiv(a + b - 1, b);
  return DimExpr() - Builder::floorDiv(DimExpr() - a, b);
}
DimExpr DimExpr::mod(const DimExpr &a, const DimExpr &b) { return a - b * Builder::floorDiv(a, b); }
DimExpr DimExpr::min(const DimExpr &a, const DimExpr &b) { return Builder::extremum(Kind::Min, a, b); }
DimExpr DimExpr::max(const DimExpr &a, const DimExpr &b) { return Builder::extremum(Kind::Max, a, b); }
DimExpr DimExpr::broadcast(const DimExpr &a, const DimExpr &b) { return Builder::broadcast(a, b); }

//===----------------------------------------------------------------------===//
// Parsing
//===----------------------------------------------------------------------===//

namespace {

class Parser {
public:
  explicit Parser(std::string_view text) : text(text) {}

  /// Errors stop everything: once `failed`, results are meaningless.
  bool failed() const { return failure.has_value(); }
  Error takeError() { return std::move(*failure); }

  DimExpr expr() {
    DimExpr result = term();
    while (!failed()) {
      if (accept('+'))
        result = result + term();
      else if (accept('-'))
        result = result - term();
      else
        break;
      check(result);
    }
    return result;
  }

  bool accept(char c) {
    skip();
    if (position >= text.size() || text[position] != c)
      return false;
    ++position;
    return true;
  }
  bool accept(std::string_view word) {
    skip();
    if (!text.substr(position).starts_with(word))
      return false;
    position += word.size();
    return true;
  }
  void expect(char c) {
    if (!failed() && !accept(c))
      fail(std::string("expected '") + c + "'");
  }
  void expectEnd() {
    skip();
    if (!failed() && position != text.size())
      fail("unexpected text");
  }
  /// Takes `word(` and leaves the position untouched otherwise.
  bool acceptCall(std::string_view word) {
    size_t start = position;
    if (accept(word) && accept('('))
      return true;
    position = start;
    return false;
  }
  void fail(std::string what) {
    if (failed())
      return;
    std::string shown(text.substr(0, 200));
    failure = Error{ErrorCode::InvalidArgument,
                    "size expression '" + shown + "': " + what + " at position " + std::to_string(position)};
  }

private:
  DimExpr term() {
    DimExpr result = factor();
    while (!failed() && accept('*')) {
      result = result * factor();
      check(result);
    }
    return result;
  }

  DimExpr factor() {
    if (failed())
      return {};
    if (depth >= DimExpr::kMaxDepth) {
      fail("nested too deeply");
      return {};
    }
    ++depth;
    DimExpr result = factorInner();
    --depth;
    if (!failed())
      check(result);
    return result;
  }

  DimExpr factorInner() {
    skip();
    if (position >= text.size()) {
      fail("expected a size");
      return {};
    }
    if (accept('(')) {
      DimExpr result = expr();
      expect(')');
      return result;
    }
    if (accept('-')) {
      skip();
      if (position < text.size() && isDigit(text[position]))
        return integer(true);
      return DimExpr() - factor();
    }
    if (isDigit(text[position]))
      return integer(false);
    using Make = DimExpr (*)(const DimExpr &, const DimExpr &);
    constexpr std::pair<std::string_view, Make> calls[] = {
        {"floordiv", DimExpr::floorDiv}, {"ceildiv", DimExpr::ceilDiv}, {"mod", DimExpr::mod},
        {"min", DimExpr::min},           {"max", DimExpr::max},         {"broadcast", DimExpr::broadcast}};
    for (auto [word, make] : calls) {
      if (!acceptCall(word))
        continue;
      DimExpr a = expr();
      expect(',');
      if (failed())
        return {};
      DimExpr b = expr();
      expect(')');
      return failed() ? DimExpr() : make(a, b);
    }
    return name();
  }

  DimExpr integer(bool negative) {
    __int128 value = 0;
    while (position < text.size() && isDigit(text[position])) {
      value = value * 10 + (text[position] - '0');
      if (value > static_cast<__int128>(INT64_MAX) + negative) {
        fail("number beyond 64 bits");
        return {};
      }
      ++position;
    }
    return DimExpr(static_cast<int64_t>(negative ? -value : value));
  }

  DimExpr name() {
    std::string name;
    if (accept('"')) {
      for (;; ++position) {
        if (position >= text.size()) {
          fail("expected '\"'");
          return {};
        }
        char c = text[position];
        if (c == '"')
          break;
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
          fail("control character in a name");
          return {};
        }
        if (c == '\\') {
          if (++position >= text.size() || (text[position] != '"' && text[position] != '\\')) {
            fail("unknown escape");
            return {};
          }
          c = text[position];
        }
        name += c;
      }
      ++position;
    } else {
      auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
      if (!letter(text[position])) {
        fail("expected a size");
        return {};
      }
      while (position < text.size() && (letter(text[position]) || isDigit(text[position]) || text[position] == '.'))
        name += text[position++];
    }
    if (name.empty())
      fail("empty name");
    else if (name.size() > DimExpr::kMaxNameBytes)
      fail("name too long");
    return failed() ? DimExpr() : DimExpr::symbol(name);
  }

  static bool isDigit(char c) { return c >= '0' && c <= '9'; }
  void skip() {
    while (position < text.size() && (text[position] == ' ' || text[position] == '\t'))
      ++position;
  }
  void check(const DimExpr &e) {
    if (e.isOverflow())
      fail("too large a number or expression");
  }

  std::string_view text;
  size_t position = 0, depth = 0;
  std::optional<Error> failure;
};

Error tooLong() { return {ErrorCode::InvalidArgument, "size expression: text too long"}; }

} // namespace

Result<DimExpr> DimExpr::parse(std::string_view text) {
  if (text.size() > kMaxTextBytes)
    return tooLong();
  Parser parser(text);
  DimExpr result = parser.expr();
  parser.expectEnd();
  if (parser.failed())
    return parser.takeError();
  return result;
}

//===----------------------------------------------------------------------===//
// Predicates
//===----------------------------------------------------------------------===//

Result<bool> DimPredicate::evaluate(const Binding &binding) const {
  Result<int64_t> a = lhs.evaluate(binding);
  if (!a)
    return a.takeError();
  Result<int64_t> b = rhs.evaluate(binding);
  if (!b)
    return b.takeError();
  switch (kind) {
  case Kind::Equal:
    return *a == *b;
  case Kind::NotEqual:
    return *a != *b;
  case Kind::LessEqual:
    return *a <= *b;
  case Kind::Less:
    return *a < *b;
  case Kind::Divisible:
    if (*b <= 0)
      return Error{ErrorCode::OutOfRange, "'" + str() + "' asks for a multiple of " + std::to_string(*b)};
    return *a % *b == 0;
  case Kind::Broadcastable:
    return *a == *b || *a == 1 || *b == 1;
  }
  return Error{ErrorCode::Internal, "unknown kind of predicate"};
}

std::string DimPredicate::str() const {
  auto grouped = [](const DimExpr &e) { return e.kind() == DimExpr::Kind::Sum ? "(" + e.str() + ")" : e.str(); };
  switch (kind) {
  case Kind::Equal:
    return lhs.str() + " == " + rhs.str();
  case Kind::NotEqual:
    return lhs.str() + " != " + rhs.str();
  case Kind::LessEqual:
    return lhs.str() + " <= " + rhs.str();
  case Kind::Less:
    return lhs.str() + " < " + rhs.str();
  case Kind::Divisible:
    return grouped(lhs) + " % " + grouped(rhs) + " == 0";
  case Kind::Broadcastable:
    return "broadcastable(" + lhs.str() + ", " + rhs.str() + ")";
  }
  return {};
}

Result<DimPredicate> DimPredicate::parse(std::string_view text) {
  if (text.size() > 2 * DimExpr::kMaxTextBytes)
    return tooLong();
  Parser parser(text);
  DimPredicate result;
  if (parser.acceptCall("broadcastable")) {
    result.kind = Kind::Broadcastable;
    result.lhs = parser.expr();
    parser.expect(',');
    if (!parser.failed())
      result.rhs = parser.expr();
    parser.expect(')');
  } else {
    result.lhs = parser.expr();
    constexpr std::pair<std::string_view, Kind> operators[] = {{"==", Kind::Equal},     {"!=", Kind::NotEqual},
                                                               {"<=", Kind::LessEqual}, {">=", Kind::LessEqual},
                                                               {"<", Kind::Less},       {">", Kind::Less}};
    bool found = false;
    if (!parser.failed() && parser.accept('%')) {
      found = true;
      result.kind = Kind::Divisible;
      result.rhs = parser.expr();
      if (!parser.failed() && !(parser.accept("==") && parser.accept('0')))
        parser.fail("expected '== 0'");
    }
    for (auto [word, kind] : operators) {
      if (found || parser.failed() || !parser.accept(word))
        continue;
      found = true;
      result.kind = kind;
      result.rhs = parser.expr();
      if (word[0] == '>')
        std::swap(result.lhs, result.rhs);
    }
    if (!found)
      parser.fail("expected a comparison");
  }
  parser.expectEnd();
  if (parser.failed())
    return parser.takeError();
  return result;
}

} // namespace rlx
