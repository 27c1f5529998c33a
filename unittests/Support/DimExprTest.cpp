//===- DimExprTest.cpp - sizes as expressions of named dims ---------------===//

#include "rlx/Support/DimExpr.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>

using namespace rlx;
using testing::HasSubstr;

namespace {

DimExpr parse(std::string_view text) {
  auto r = DimExpr::parse(text);
  EXPECT_TRUE(bool(r)) << text << ": " << (r ? "" : r.error().message);
  return r ? *r : DimExpr();
}

std::string norm(std::string_view text) { return parse(text).str(); }

std::string parseError(std::string_view text) {
  auto r = DimExpr::parse(text);
  return r ? "parsed as " + r->str() : r.error().message;
}

int64_t value(std::string_view text, const Binding &binding) {
  auto r = parse(text).evaluate(binding);
  EXPECT_TRUE(bool(r)) << text << ": " << (r ? "" : r.error().message);
  return r ? *r : INT64_MIN;
}

//===--- normal form ----------------------------------------------------------===//

TEST(DimExpr, SumsAndProductsAreOneForm) {
  EXPECT_EQ(norm("N+M"), "M+N");
  EXPECT_EQ(norm("M + N"), "M+N");
  EXPECT_EQ(norm("2*n*3"), "6*n");
  EXPECT_EQ(norm("n+n"), "2*n");
  EXPECT_EQ(norm("n-n"), "0");
  EXPECT_EQ(norm("1 + S"), "S+1");
  EXPECT_EQ(norm("-1 + S"), "S-1");
  EXPECT_EQ(norm("3 - n"), "-n+3");
  EXPECT_EQ(norm("S*B*12"), "12*B*S");
  EXPECT_EQ(norm("(a+b)*(a-b)"), "a*a-b*b");
  EXPECT_EQ(norm("(a+b)*(a+b)"), "a*a+2*a*b+b*b");
  EXPECT_EQ(norm("0*n"), "0");
  EXPECT_EQ(parse("(a+1)*(b+1)"), parse("1+b+a+a*b"));
  EXPECT_NE(parse("a"), parse("b"));
}

TEST(DimExpr, FloorDivisionByNumbers) {
  EXPECT_EQ(norm("floordiv(n, 1)"), "n");
  EXPECT_EQ(norm("floordiv(7, 2)"), "3");
  EXPECT_EQ(norm("floordiv(-7, 2)"), "-4");
  EXPECT_EQ(norm("floordiv(7, -2)"), "-4");
  EXPECT_EQ(norm("floordiv(n, -1)"), "-n");
  // the rule that shortens convolutions: ceil-division by 2 twice
  EXPECT_EQ(norm("floordiv(floordiv(H+1, 2)+1, 2)"), "floordiv(H+3, 4)");
  EXPECT_EQ(norm("floordiv(floordiv(floordiv(H+1, 2)+1, 2)+1, 2)"), "floordiv(H+7, 8)");
  EXPECT_EQ(norm("ceildiv(ceildiv(H, 16), 2)"), "floordiv(H+31, 32)");
  // whole multiples come out, common factors go
  EXPECT_EQ(norm("floordiv(6*n+4, 2)"), "3*n+2");
  EXPECT_EQ(norm("floordiv(S-64, 128)"), "floordiv(S+64, 128)-1");
  EXPECT_EQ(norm("floordiv(6*n+9, 12)"), "floordiv(n+1, 2)");
  EXPECT_EQ(norm("floordiv(32*h+31, 32)"), "h");
  EXPECT_EQ(norm("floordiv(4*a*b+8*a, 4)"), "a*b+2*a");
  EXPECT_EQ(norm("mod(H, 32)"), "H-32*floordiv(H, 32)");
  EXPECT_EQ(norm("mod(64*h+3, 32)"), "3");
  EXPECT_EQ(norm("floordiv(H-K, 2)"), "floordiv(H-K, 2)");
}

TEST(DimExpr, FloorDivisionByExpressions) {
  // n may be 0, so n/n stays; n+2 may not
  EXPECT_EQ(norm("floordiv(n, n)"), "floordiv(n, n)");
  EXPECT_EQ(norm("floordiv(3*n+6, n+2)"), "3");
  EXPECT_EQ(norm("floordiv(n*n+3*n+2, n+2)"), "n+1");
  EXPECT_EQ(norm("floordiv(6*B, 4*S)"), "floordiv(3*B, 2*S)");
  EXPECT_EQ(norm("floordiv(B, -S)"), norm("floordiv(-B, S)"));
  EXPECT_EQ(norm("floordiv(5, 0)"), "floordiv(5, 0)");
  auto r = parse("floordiv(5, 0)").evaluate({});
  ASSERT_FALSE(bool(r));
  EXPECT_EQ(r.error().message, "division by zero in floordiv(5, 0)");
  EXPECT_EQ(value("floordiv(B, S)", {{"B", 7}, {"S", 2}}), 3);
  EXPECT_FALSE(bool(parse("floordiv(B, S)").evaluate({{"B", 7}, {"S", 0}})));
}

TEST(DimExpr, ExactQuotient) {
  auto quotient = [](std::string_view a, std::string_view b) {
    auto q = parse(a).exactQuotient(parse(b));
    return q ? q->str() : "none";
  };
  EXPECT_EQ(quotient("384*B*S", "32*B*S"), "12");
  EXPECT_EQ(quotient("B*S*384", "B*384"), "S");
  EXPECT_EQ(quotient("a*a-b*b", "a-b"), "a+b");
  EXPECT_EQ(quotient("a*a+b*b", "a-b"), "none");
  EXPECT_EQ(quotient("3*n", "2"), "none");
  EXPECT_EQ(quotient("n", "0"), "none");
  EXPECT_EQ(quotient("0", "n"), "0");
  EXPECT_EQ(quotient("B", "S"), "none");
  EXPECT_EQ(quotient("384*B*floordiv(W+1, 2)", "128*floordiv(W+1, 2)"), "3*B");
  EXPECT_EQ(quotient("-9223372036854775808", "-1"), "none");
}

TEST(DimExpr, MinAndMax) {
  EXPECT_EQ(norm("min(512, S)"), "min(S, 512)");
  EXPECT_EQ(norm("min(S, S)"), "S");
  EXPECT_EQ(norm("min(3, 7)"), "3");
  EXPECT_EQ(norm("max(3, 7)"), "7");
  EXPECT_EQ(norm("min(a, a+3)"), "a");
  EXPECT_EQ(norm("max(a, a+3)"), "a+3");
  EXPECT_EQ(norm("max(S, 0)"), "S");
  EXPECT_EQ(norm("min(S, 0)"), "0");
  EXPECT_EQ(norm("min(S, -1)"), "-1");
  EXPECT_EQ(norm("min(min(S, 512), 100)"), "min(S, 100)");
  EXPECT_EQ(norm("min(a, min(b, a))"), "min(a, b)");
  EXPECT_EQ(parse("min(min(c, a), b)"), parse("min(a, min(b, c))"));
  EXPECT_EQ(parse("max(max(c, a), b)"), parse("max(a, max(b, c))"));
  EXPECT_EQ(norm("max(S-3, -5)"), "S-3");
}

TEST(DimExpr, Broadcast) {
  EXPECT_EQ(norm("broadcast(a, 1)"), "a");
  EXPECT_EQ(norm("broadcast(1, 1)"), "1");
  EXPECT_EQ(norm("broadcast(a, a)"), "a");
  EXPECT_EQ(norm("broadcast(a, 5)"), "5");
  EXPECT_EQ(norm("broadcast(a, 0)"), "0");
  EXPECT_EQ(norm("broadcast(b, a)"), "broadcast(a, b)");
  EXPECT_EQ(norm("broadcast(broadcast(a, b), b)"), "broadcast(a, b)");
  EXPECT_EQ(norm("broadcast(c, broadcast(b, a))"), norm("broadcast(broadcast(c, a), b)"));
  EXPECT_EQ(norm("broadcast(S, min(S, 512))"), "S");
  EXPECT_EQ(norm("broadcast(broadcast(S, B), min(512, S))"), "broadcast(B, S)");
  // with 0 in the min the rule does not hold: broadcast(1, min(1, b)) at b=0 is 0
  EXPECT_EQ(norm("broadcast(a, min(a, b))"), "broadcast(a, min(a, b))");
  EXPECT_EQ(value("broadcast(a, b)", {{"a", 1}, {"b", 0}}), 0);
  EXPECT_EQ(value("broadcast(a, b)", {{"a", 5}, {"b", 1}}), 5);
  auto r = parse("broadcast(N, M)").evaluate({{"N", 3}, {"M", 5}});
  ASSERT_FALSE(bool(r));
  EXPECT_EQ(r.error().message, "M is 5 and N is 3: they do not broadcast");
  EXPECT_FALSE(bool(parse("broadcast(2, 3)").evaluate({})));
}

//===--- text -----------------------------------------------------------------===//

TEST(DimExpr, TextRoundTrip) {
  for (std::string_view text :
       {"0", "-5", "S", "_a.b9", "-n", "-2*n+1", "-a*b-c", "floordiv(H+1, 2)*floordiv(W+1, 2)", "min(S, 512)",
        "max(a, b)", "broadcast(a, b)", "-9223372036854775808", "9223372036854775807", "\"a b\\\"c\\\\\"*2",
        "\"min\"+1", "\"42\"", "\"\xC3\xA9t\xC3\xA9\"", "a*a*a-a", "broadcast(min(a, b), max(c, d))"}) {
    DimExpr e = parse(text);
    EXPECT_EQ(parse(e.str()), e) << text << " printed as " << e.str();
    EXPECT_EQ(parse(e.str()).hash(), e.hash());
  }
  EXPECT_EQ(DimExpr::symbol("a b").str(), "\"a b\"");
  EXPECT_EQ(parse("\"plain\"").str(), "plain");
  EXPECT_EQ(parse("2*-3"), DimExpr(-6));
  EXPECT_EQ(parse("--n").str(), "n");
}

TEST(DimExpr, ParseErrorsSayWhere) {
  EXPECT_THAT(parseError(""), HasSubstr("expected a size at position 0"));
  EXPECT_THAT(parseError("a b"), HasSubstr("unexpected text at position 2"));
  EXPECT_THAT(parseError("a +"), HasSubstr("expected a size at position 3"));
  EXPECT_THAT(parseError("(a"), HasSubstr("expected ')' at position 2"));
  EXPECT_THAT(parseError("min(a)"), HasSubstr("expected ',' at position 5"));
  EXPECT_THAT(parseError("\"a"), HasSubstr("expected '\"' at position 2"));
  EXPECT_THAT(parseError("\"\""), HasSubstr("empty name"));
  EXPECT_THAT(parseError("\"a\\n\""), HasSubstr("unknown escape"));
  EXPECT_THAT(parseError("\"a\nb\""), HasSubstr("control character"));
  EXPECT_THAT(parseError("9223372036854775808"), HasSubstr("number beyond 64 bits"));
  EXPECT_THAT(parseError("9223372036854775807+1"), HasSubstr("too large"));
  EXPECT_THAT(parseError("#"), HasSubstr("expected a size at position 0"));
  EXPECT_THAT(parseError(std::string_view("a\0b", 3)), HasSubstr("unexpected text at position 1"));
}

TEST(DimExpr, HostileTextIsAnError) {
  EXPECT_THAT(parseError(std::string(50000, '(')), HasSubstr("nested too deeply"));
  EXPECT_THAT(parseError(std::string(50000, '-')), HasSubstr("nested too deeply"));
  EXPECT_THAT(parseError(std::string(1 << 17, 'a')), HasSubstr("text too long"));
  EXPECT_THAT(parseError(std::string(2000, 'a')), HasSubstr("name too long"));
  std::string nested = "n", product = "(a+b+c+d)", sum = "a0", power = "a";
  for (int i = 0; i < 2000; ++i)
    nested = "floordiv(" + nested + ", m)";
  EXPECT_THAT(parseError(nested), HasSubstr("nested too deeply"));
  for (int i = 0; i < 100; ++i)
    product += "*(a+b+c+d)";
  EXPECT_THAT(parseError(product), HasSubstr("too large"));
  for (int i = 1; i < 1000; ++i)
    sum += "+a" + std::to_string(i);
  EXPECT_THAT(parseError(sum), HasSubstr("too large"));
  for (int i = 0; i < 9000; ++i)
    power += "*a";
  EXPECT_THAT(parseError(power), HasSubstr("too large"));
  // no name made by the API can be unreadable or unbounded
  EXPECT_TRUE(DimExpr::symbol("").isOverflow());
  EXPECT_TRUE(DimExpr::symbol(std::string(5000, 'x')).isOverflow());
}

TEST(DimExpr, RandomBytesNeverCrashTheParser) {
  std::mt19937 random(7);
  const std::string_view pieces[] = {
      "a",    "b",         "+",          "-",        "*",  "(", ")", ",",
      "min(", "floordiv(", "mod(",       "\"",       "\\", "0", "9", "9223372036854775807",
      " ",    "max(",      "broadcast(", "ceildiv(", "%"};
  int parsed = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text;
    for (unsigned n = random() % 12; n > 0; --n)
      text += pieces[random() % std::size(pieces)];
    if (auto r = DimExpr::parse(text)) {
      ++parsed;
      EXPECT_EQ(parse(r->str()), *r) << text;
    }
  }
  EXPECT_GT(parsed, 100);
}

TEST(DimExpr, IssueTheLowestNumberIsReadBack) {
  DimExpr n = DimExpr::symbol("n"), m = DimExpr::symbol("m"), lowest(INT64_MIN);
  for (const DimExpr &e : {lowest, n + lowest, m + n * lowest, n * lowest, n * lowest + lowest,
                           DimExpr::min(n + lowest, m), n * n + lowest * m - 1})
    EXPECT_EQ(parse(e.str()), e) << e.str();
  EXPECT_EQ((n + lowest).str(), "n+-9223372036854775808");
}

//===--- overflow -------------------------------------------------------------===//

TEST(DimExpr, OverflowIsKeptAndReported) {
  DimExpr big = DimExpr(INT64_MAX) * DimExpr::symbol("n");
  DimExpr over = big + big;
  EXPECT_TRUE(over.isOverflow());
  EXPECT_FALSE(over.constant());
  EXPECT_FALSE(over.isConstant());
  EXPECT_TRUE((over - over).isOverflow());
  EXPECT_TRUE(DimExpr::min(over, 3).isOverflow());
  EXPECT_TRUE(DimExpr::floorDiv(3, over).isOverflow());
  EXPECT_EQ(over, DimExpr(INT64_MIN) - 1);
  auto r = over.evaluate({{"n", 1}});
  ASSERT_FALSE(bool(r));
  EXPECT_EQ(r.error().code, ErrorCode::OutOfRange);
  EXPECT_TRUE(DimExpr::floorDiv(DimExpr(INT64_MIN), DimExpr(-1)).isOverflow());
  EXPECT_TRUE((DimExpr() - DimExpr(INT64_MIN)).isOverflow());
}

TEST(DimExpr, EvaluationIsChecked) {
  // dims whose product overflows: [2^32, 2^32] and [2^62] * 4
  Binding b{{"N", int64_t(1) << 32}, {"M", int64_t(1) << 62}};
  EXPECT_FALSE(bool(parse("N*N").evaluate(b)));
  EXPECT_FALSE(bool(parse("4*M").evaluate(b)));
  EXPECT_FALSE(bool(parse("M+M").evaluate(b)));
  EXPECT_EQ(*parse("M+N").evaluate(b), (int64_t(1) << 62) + (int64_t(1) << 32));
  auto missing = parse("N*K").evaluate({{"N", 2}});
  ASSERT_FALSE(bool(missing));
  EXPECT_EQ(missing.error().message, "dim 'K' has no size");
}

//===--- the other members ------------------------------------------------------===//

TEST(DimExpr, SubstituteAndReplace) {
  DimExpr e = parse("floordiv(H+3, 4)*floordiv(W+3, 4)+H");
  EXPECT_EQ(e.substitute({{"H", parse("32*h")}, {"W", parse("8*w")}}).str(), "16*h*w+32*h");
  EXPECT_EQ(e.substitute({{"H", DimExpr(5)}, {"W", DimExpr(1)}}), DimExpr(7)); // 2*1+5
  // simultaneous, not one after the other
  EXPECT_EQ(parse("a-2*b").substitute({{"a", parse("b")}, {"b", parse("a")}}).str(), "-2*a+b");
  EXPECT_EQ(parse("3*min(S, 512)+1").replaceAtom(parse("min(S, 512)"), parse("S")).str(), "3*S+1");
  EXPECT_EQ(parse("floordiv(min(a, b), 2)").replaceAtom(parse("min(a, b)"), DimExpr(9)).str(), "4");
}

TEST(DimExpr, CollectsNamesAndAtoms) {
  std::set<std::string> names;
  DimExpr e = parse("floordiv(min(S, 512)+B, 4)*min(S, 512)+max(B, C)");
  e.collectNames(names);
  EXPECT_EQ(names, (std::set<std::string>{"B", "C", "S"}));
  std::vector<DimExpr> atoms;
  e.collectAtoms(atoms);
  ASSERT_EQ(atoms.size(), 3u);
  auto at = [&](std::string_view text) { return std::find(atoms.begin(), atoms.end(), parse(text)) - atoms.begin(); };
  EXPECT_LT(at("min(S, 512)"), at("floordiv(min(S, 512)+B, 4)"));
  EXPECT_LT(at("max(B, C)"), 3);
}

TEST(DimExpr, KindsAndOperands) {
  EXPECT_EQ(parse("5").constant(), 5);
  EXPECT_EQ(parse("n").name(), "n");
  DimExpr product = parse("4*a*b");
  ASSERT_EQ(product.kind(), DimExpr::Kind::Product);
  ASSERT_EQ(product.operands().size(), 3u);
  EXPECT_EQ(product.operands()[0], DimExpr(4));
  EXPECT_EQ(parse("a+b+1").operands().size(), 3u);
  EXPECT_EQ(parse("floordiv(a, 3)").operands()[1], DimExpr(3));
  EXPECT_EQ(DimExpr(), DimExpr(0));
}

TEST(DimExpr, OrderIsTotal) {
  std::vector<DimExpr> all;
  for (std::string_view text :
       {"0", "1", "a", "b", "a+b", "a*b", "2*a", "floordiv(a, 2)", "min(a, b)", "max(a, b)", "broadcast(a, b)", "a-1"})
    all.push_back(parse(text));
  for (const DimExpr &x : all)
    for (const DimExpr &y : all)
      EXPECT_EQ((x < y) + (y < x) + (x == y), 1) << x.str() << " " << y.str();
}

TEST(DimExpr, HashIsTheSameInEveryProcess) {
  // Recorded from one run: a seed of the process must not enter.
  EXPECT_EQ(parse("B*S+floordiv(min(H, 4), 2)").hash(), 1290055619118884595u);
  EXPECT_EQ(parse("B*S+1").hash(), parse("1+S*B").hash());
  EXPECT_NE(parse("B*S+1").hash(), parse("B*S+2").hash());
  EXPECT_NE(parse("min(a, b)").hash(), parse("max(a, b)").hash());
}

//===--- against brute force ----------------------------------------------------===//

/// A tree evaluated by the plain meaning of its operators.
struct Tree {
  DimExpr expr;
  std::function<std::optional<int64_t>(const Binding &)> value;
};

Tree randomTree(std::mt19937 &random, int depth) {
  unsigned choice = random() % (depth == 0 ? 2 : 9);
  if (choice == 0) {
    int64_t c = static_cast<int64_t>(random() % 12) - 3;
    return {DimExpr(c), [c](const Binding &) { return std::optional<int64_t>(c); }};
  }
  if (choice == 1) {
    std::string name(1, static_cast<char>('a' + random() % 3));
    return {DimExpr::symbol(name), [name](const Binding &b) { return std::optional<int64_t>(b.at(name)); }};
  }
  Tree x = randomTree(random, depth - 1), y = randomTree(random, depth - 1);
  auto both = [&](DimExpr e, auto f) -> Tree {
    return {std::move(e), [x, y, f](const Binding &b) -> std::optional<int64_t> {
              auto p = x.value(b), q = y.value(b);
              return p && q ? f(*p, *q) : std::nullopt;
            }};
  };
  using O = std::optional<int64_t>;
  auto floorDiv = [](int64_t p, int64_t q) {
    int64_t r = p / q;
    return p % q != 0 && (p < 0) != (q < 0) ? r - 1 : r;
  };
  switch (choice) {
  case 2:
    return both(x.expr + y.expr, [](int64_t p, int64_t q) -> O { return p + q; });
  case 3:
    return both(x.expr - y.expr, [](int64_t p, int64_t q) -> O { return p - q; });
  case 4:
    return both(x.expr * y.expr, [](int64_t p, int64_t q) -> O { return p * q; });
  case 5:
    return both(DimExpr::floorDiv(x.expr, y.expr),
                [=](int64_t p, int64_t q) -> O { return q == 0 ? O() : O(floorDiv(p, q)); });
  case 6:
    return both(DimExpr::min(x.expr, y.expr), [](int64_t p, int64_t q) -> O { return std::min(p, q); });
  case 7:
    return both(DimExpr::max(x.expr, y.expr), [](int64_t p, int64_t q) -> O { return std::max(p, q); });
  default:
    return both(DimExpr::broadcast(x.expr, y.expr), [](int64_t p, int64_t q) -> O {
      return p == 1 ? O(q) : q == 1 || p == q ? O(p) : O();
    });
  }
}

TEST(DimExpr, NormalFormKeepsTheValue) {
  std::mt19937 random(2024);
  int compared = 0;
  for (int i = 0; i < 2000; ++i) {
    Tree tree = randomTree(random, 1 + static_cast<int>(random() % 4));
    if (tree.expr.isOverflow())
      continue;
    auto again = DimExpr::parse(tree.expr.str());
    ASSERT_TRUE(bool(again)) << tree.expr.str() << ": " << again.error().message;
    EXPECT_EQ(*again, tree.expr) << tree.expr.str() << " parsed as " << again->str();
    for (int j = 0; j < 20; ++j) {
      Binding b{{"a", random() % 7}, {"b", random() % 7}, {"c", random() % 40}};
      auto want = tree.value(b);
      if (!want)
        continue; // an error in the tree may cancel in the normal form
      auto got = tree.expr.evaluate(b);
      ASSERT_TRUE(bool(got)) << tree.expr.str() << ": " << got.error().message;
      ASSERT_EQ(*got, *want) << tree.expr.str() << " at a=" << b["a"] << " b=" << b["b"] << " c=" << b["c"];
      ++compared;
    }
  }
  EXPECT_GT(compared, 15000);
}

TEST(DimExpr, ExactQuotientTimesDivisorIsTheDividend) {
  std::mt19937 random(5);
  for (int i = 0; i < 2000; ++i) {
    DimExpr a = randomTree(random, 2).expr, b = randomTree(random, 2).expr;
    DimExpr product = a * b;
    if (product.isOverflow() || b == DimExpr())
      continue;
    auto q = product.exactQuotient(b);
    ASSERT_TRUE(q.has_value()) << product.str() << " / " << b.str();
    EXPECT_EQ(*q, a);
  }
}

//===--- predicates -------------------------------------------------------------===//

TEST(DimPredicate, TextAndValue) {
  struct Row {
    const char *text, *printed;
    Binding binding;
    bool value;
  };
  for (const Row &row :
       std::initializer_list<Row>{{"S <= 512", "S <= 512", {{"S", 512}}, true},
                                  {"S<512", "S < 512", {{"S", 512}}, false},
                                  {"S >= 1", "1 <= S", {{"S", 0}}, false},
                                  {"N > M", "M < N", {{"N", 3}, {"M", 2}}, true},
                                  {"N==M", "N == M", {{"N", 3}, {"M", 2}}, false},
                                  {"N != 0", "N != 0", {{"N", 3}}, true},
                                  {"H % 32 == 0", "H % 32 == 0", {{"H", 64}}, true},
                                  {"H+1 % 32 == 0", "(H+1) % 32 == 0", {{"H", 64}}, false},
                                  {"broadcastable(N, M)", "broadcastable(N, M)", {{"N", 1}, {"M", 5}}, true},
                                  {"broadcastable(N, M)", "broadcastable(N, M)", {{"N", 3}, {"M", 5}}, false},
                                  {"floordiv(S+320,512) == 1", "floordiv(S+320, 512) == 1", {{"S", 512}}, true}}) {
    auto p = DimPredicate::parse(row.text);
    ASSERT_TRUE(bool(p)) << row.text << ": " << p.error().message;
    EXPECT_EQ(p->str(), row.printed);
    EXPECT_EQ(*DimPredicate::parse(p->str()), *p);
    auto v = p->evaluate(row.binding);
    ASSERT_TRUE(bool(v)) << row.text;
    EXPECT_EQ(*v, row.value) << row.text;
  }
  for (const char *bad : {"", "S", "S <=", "S = 3", "S % 3", "S % 3 == 1", "S <= 3 4", "broadcastable(N)", "<= 3"})
    EXPECT_FALSE(bool(DimPredicate::parse(bad))) << bad;
  EXPECT_FALSE(bool(DimPredicate::parse("H % n == 0")->evaluate({{"H", 3}, {"n", 0}})));
  EXPECT_FALSE(bool(DimPredicate::parse("H % n == 0")->evaluate({{"H", 3}, {"n", -2}})));
}

} // namespace
