//===- DimFactsTest.cpp - what is known of the named dims -----------------===//

#include "rlx/Support/DimFacts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
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

DimPredicate predicate(std::string_view text) {
  auto r = DimPredicate::parse(text);
  EXPECT_TRUE(bool(r)) << text << ": " << (r ? "" : r.error().message);
  return r ? *r : DimPredicate();
}

/// "true", "false" or "open".
std::string proven(const DimFacts &facts, std::string_view text) {
  auto r = facts.prove(predicate(text));
  return r ? (*r ? "true" : "false") : "open";
}

std::string simplified(const DimFacts &facts, std::string_view text) { return facts.simplify(parse(text)).str(); }

TEST(DimFacts, NamesAreNotNegative) {
  DimFacts facts;
  EXPECT_EQ(proven(facts, "S >= 0"), "true");
  EXPECT_EQ(proven(facts, "S >= 1"), "open");
  EXPECT_EQ(proven(facts, "S == -1"), "false");
  EXPECT_EQ(proven(facts, "S+1 == 0"), "false");
  EXPECT_EQ(proven(facts, "S < S+1"), "true");
  EXPECT_EQ(proven(facts, "2*S == 7"), "false");
  EXPECT_EQ(proven(facts, "N == N"), "true");
  EXPECT_EQ(proven(facts, "N == M"), "open");
  EXPECT_EQ(proven(facts, "B*S*4 % 4 == 0"), "true");
  EXPECT_EQ(proven(facts, "4*S+2 % 4 == 0"), "false");
  EXPECT_EQ(proven(facts, "broadcastable(N, 1)"), "true");
  EXPECT_EQ(proven(facts, "broadcastable(N, M)"), "open");
}

TEST(DimFacts, DeclaredRanges) {
  DimFacts facts;
  facts.declare("S", 1, 512, 1);
  facts.declare("B", 1, INT64_MAX, 1);
  EXPECT_EQ(proven(facts, "S <= 512"), "true");
  EXPECT_EQ(proven(facts, "S > 512"), "false");
  EXPECT_EQ(proven(facts, "S <= 511"), "open");
  EXPECT_EQ(proven(facts, "B*S >= 1"), "true");
  EXPECT_EQ(proven(facts, "B*S == 0"), "false");
  EXPECT_EQ(simplified(facts, "min(S, 512)"), "S");
  EXPECT_EQ(simplified(facts, "max(S, 1)*3"), "3*S");
  EXPECT_EQ(simplified(facts, "floordiv(384*B*S, 32*B*S)"), "12");
  EXPECT_EQ(simplified(facts, "floordiv(S, 513)"), "0");
  EXPECT_EQ(simplified(facts, "broadcast(min(512, S), S)"), "S");
  EXPECT_EQ(facts.range(parse("2*S+1")).min, 3);
  EXPECT_EQ(facts.range(parse("2*S+1")).max, 1025);
  EXPECT_EQ(facts.range(parse("B")).max, INT64_MAX);
  facts.declare("K", 7, 7, 1);
  EXPECT_EQ(simplified(facts, "K*S"), "7*S");
}

TEST(DimFacts, DeclaredMultiplesDecideDivisions) {
  DimFacts facts;
  facts.declare("H", 32, 1280, 32);
  facts.declare("W", 32, 1280, 32);
  EXPECT_EQ(proven(facts, "H % 32 == 0"), "true");
  EXPECT_EQ(proven(facts, "H % 16 == 0"), "true");
  EXPECT_EQ(proven(facts, "H % 64 == 0"), "open");
  EXPECT_EQ(proven(facts, "H+1 % 32 == 0"), "false");
  // ceil-divisions of a detector: no remainder is left
  EXPECT_EQ(simplified(facts, "floordiv(H+1, 2)"), "floordiv(H, 2)");
  EXPECT_EQ(simplified(facts, "2*floordiv(H+31, 32)"), "floordiv(H, 16)");
  EXPECT_EQ(simplified(facts, "32*floordiv(H+31, 32)"), "H");
  EXPECT_EQ(simplified(facts, "mod(H, 8)"), "0");
  EXPECT_EQ(simplified(facts, "floordiv(H, 64)"), "floordiv(H, 64)");
  EXPECT_EQ(simplified(facts, "H*W"), "H*W");
  EXPECT_EQ(proven(facts, "floordiv(H+15, 16) == 2*floordiv(H+31, 32)"), "true");
  EXPECT_EQ(proven(facts, "mod(H, 32) == 0"), "true");
  EXPECT_EQ(proven(facts, "H == 33"), "false");
  EXPECT_EQ(proven(facts, "H >= 33"), "open");
  EXPECT_EQ(facts.range(parse("floordiv(H, 32)")).max, 40);
  // anchors of three strides: 3*(H/8*W/8 + H/16*W/16 + H/32*W/32) = 63/1024 H*W = 63*h*w
  EXPECT_EQ(simplified(facts, "3*floordiv(H+7, 8)*floordiv(W+7, 8)+3*floordiv(H+15, 16)*floordiv(W+15, 16)"
                              "+3*floordiv(H+31, 32)*floordiv(W+31, 32)"),
            "63*floordiv(H, 32)*floordiv(W, 32)");
  // simplify is stable
  for (std::string_view text : {"floordiv(H+1, 2)", "floordiv(H, 64)", "48*floordiv(H, 32)", "floordiv(3*H, 64)+H"}) {
    DimExpr once = facts.simplify(parse(text));
    EXPECT_EQ(facts.simplify(once), once) << text;
  }
}

TEST(DimFacts, LearnsRanges) {
  DimFacts facts;
  facts.learn(predicate("S <= 512"), true);
  EXPECT_EQ(proven(facts, "S <= 512"), "true");
  EXPECT_EQ(proven(facts, "S < 1000000000"), "true");
  EXPECT_EQ(simplified(facts, "broadcast(broadcast(min(512, S), B), S)"), "broadcast(B, S)");
  facts.learn(predicate("S == 0"), false);
  EXPECT_EQ(proven(facts, "S >= 1"), "true");
  facts.learn(predicate("S != 1"), true);
  EXPECT_EQ(proven(facts, "S >= 2"), "true");

  DimFacts other;
  other.learn(predicate("S <= 512"), false);
  EXPECT_EQ(proven(other, "S >= 513"), "true");
  EXPECT_EQ(simplified(other, "min(S, 512)"), "512");
}

TEST(DimFacts, LearnsRangesOfExpressions) {
  DimFacts facts;
  facts.learn(predicate("B*S >= 6"), true);
  EXPECT_EQ(proven(facts, "B*S >= 6"), "true");
  EXPECT_EQ(proven(facts, "2*B*S >= 12"), "true");
  EXPECT_EQ(proven(facts, "2*B*S-12 >= 0"), "true");
  EXPECT_EQ(proven(facts, "B >= 1"), "true");
  EXPECT_EQ(proven(facts, "S == 0"), "false");
  EXPECT_EQ(simplified(facts, "floordiv(384*B*S, 32*B*S)"), "12");
  facts.learn(predicate("floordiv(W+3, 4) <= 10"), true);
  EXPECT_EQ(proven(facts, "W <= 40"), "true");
  EXPECT_EQ(proven(facts, "W <= 39"), "open");
  facts.learn(predicate("min(P, Q) >= 2"), true);
  EXPECT_EQ(proven(facts, "P >= 2"), "true");
  facts.learn(predicate("X+Y <= 5"), true);
  EXPECT_EQ(proven(facts, "X <= 5"), "true");
}

TEST(DimFacts, LearnsEqualities) {
  DimFacts facts;
  facts.declare("N", 0, INT64_MAX, 1);
  facts.declare("M", 0, INT64_MAX, 1);
  facts.declare("K", 0, INT64_MAX, 1);
  facts.learn(predicate("M == N"), true);
  EXPECT_EQ(proven(facts, "N == M"), "true");
  EXPECT_EQ(simplified(facts, "M+2*N"), "3*N"); // the later name goes
  facts.learn(predicate("K == N+M"), true);
  EXPECT_EQ(simplified(facts, "K"), "2*N");
  EXPECT_EQ(proven(facts, "K % 2 == 0"), "true");
  EXPECT_EQ(proven(facts, "broadcastable(K, 2*M)"), "true");
  facts.learn(predicate("N <= 4"), true);
  EXPECT_EQ(proven(facts, "K <= 8"), "true");
  facts.learn(predicate("N == 3"), true);
  EXPECT_EQ(simplified(facts, "K*M"), "18");

  DimFacts scaled; // B*N == B*M says N == M only where B is not 0
  scaled.learn(predicate("B*N == B*M"), true);
  EXPECT_EQ(proven(scaled, "N == M"), "open");
  EXPECT_EQ(proven(scaled, "B*N == B*M"), "true");
  scaled.learn(predicate("B >= 1"), true);
  EXPECT_EQ(proven(scaled, "N == M"), "true");
}

TEST(DimFacts, EqualitiesDecideAtoms) {
  DimFacts facts;
  facts.learn(predicate("floordiv(S+320, 512) == 1"), true);
  EXPECT_EQ(simplified(facts, "3*floordiv(S+320, 512)"), "3");
  EXPECT_EQ(proven(facts, "S <= 703"), "true");
  EXPECT_EQ(proven(facts, "S >= 192"), "true");
  EXPECT_EQ(proven(facts, "S >= 193"), "open");

  DimFacts detector; // the rewrite of a detector: the longer atom goes
  detector.learn(predicate("floordiv(H+15, 16) == 2*floordiv(H+31, 32)"), true);
  EXPECT_EQ(proven(detector, "2*floordiv(H+31, 32) == floordiv(H+15, 16)"), "true");

  DimFacts multiple;
  multiple.learn(predicate("mod(H, 32) == 0"), true);
  EXPECT_EQ(proven(multiple, "H % 32 == 0"), "true");
  EXPECT_EQ(simplified(multiple, "floordiv(H+15, 16)"), "floordiv(H, 16)");
  multiple.learn(predicate("H % 48 == 0"), true);
  EXPECT_EQ(proven(multiple, "H % 96 == 0"), "true");
}

TEST(DimFacts, AskedBeforeIsKnown) {
  DimFacts facts;
  for (std::string_view text :
       {"N == M", "H % n == 0", "broadcastable(P, Q)", "A <= B", "X*Y == Z*Z", "H+1 % 3 == 0"}) {
    DimFacts yes = facts, no = facts;
    EXPECT_EQ(proven(facts, text), "open");
    yes.learn(predicate(text), true);
    EXPECT_EQ(proven(yes, text), "true") << text;
    no.learn(predicate(text), false);
    EXPECT_EQ(proven(no, text), "false") << text;
  }
  facts.learn(predicate("broadcastable(P, Q)"), true);
  EXPECT_EQ(proven(facts, "broadcastable(Q, P)"), "true");
  // [N,4]+[M,4] with both known to be more than 1: they must be equal
  facts.learn(predicate("P >= 2"), true);
  facts.learn(predicate("Q >= 2"), true);
  EXPECT_EQ(proven(facts, "P == Q"), "true");
}

TEST(DimFacts, BoundsOfAtomsInSums) {
  DimFacts facts;
  facts.declare("S", 1, 1000, 1);
  EXPECT_EQ(proven(facts, "floordiv(S, 2) <= S"), "true");
  EXPECT_EQ(proven(facts, "floordiv(S+1, 2) <= S"), "true"); // needs S >= 1
  EXPECT_EQ(proven(facts, "2*floordiv(S, 2) <= S"), "true");
  EXPECT_EQ(proven(facts, "S <= 2*floordiv(S, 2)+1"), "true");
  EXPECT_EQ(proven(facts, "min(S, B) <= S"), "true");
  EXPECT_EQ(proven(facts, "S <= max(S, B)"), "true");
  EXPECT_EQ(proven(facts, "mod(S, 8) < 8"), "true");
  EXPECT_EQ(proven(facts, "mod(S, 8) >= 0"), "true");
  EXPECT_EQ(proven(facts, "mod(S, 8) < 7"), "open");
}

TEST(DimFacts, ContradictionsAreHarmless) {
  DimFacts facts;
  facts.learn(predicate("S <= 3"), true);
  facts.learn(predicate("S >= 9"), true);
  facts.learn(predicate("S == 100"), true);
  facts.learn(predicate("S == S+1"), true);
  facts.learn(predicate("S % 7 == 0"), true);
  facts.learn(predicate("S == 100"), false);
  (void)facts.simplify(parse("min(S, T)*floordiv(S, 3)"));
  facts.declare("Z", 9, 3, 4);
  (void)facts.prove(predicate("Z <= S"));
}

TEST(DimFacts, ExtremesSaturate) {
  DimFacts facts;
  facts.declare("N", 0, INT64_MAX, 1);
  facts.declare("L", INT64_MAX, INT64_MAX, 1);
  EXPECT_EQ(facts.range(parse("N*N")).max, INT64_MAX);
  EXPECT_EQ(facts.range(parse("-N*N")).min, INT64_MIN);
  EXPECT_EQ(proven(facts, "N*N >= 0"), "true");
  EXPECT_EQ(proven(facts, "L >= 5"), "true");
  EXPECT_EQ(proven(facts, "L-9 >= 9223372036854775800"), "open"); // in truth false: MAX - 9 is less
  facts.learn(predicate("N <= 9223372036854775807"), true);
  facts.learn(predicate("N >= -9223372036854775808"), false);
  DimExpr over = DimExpr(INT64_MAX) + DimExpr(INT64_MAX);
  EXPECT_FALSE(facts.prove({DimPredicate::Kind::LessEqual, over, DimExpr(1)}));
  facts.learn({DimPredicate::Kind::Equal, over, parse("N")}, true);
  EXPECT_TRUE(facts.simplify(over).isOverflow());
  facts.declare("Q", 0, INT64_MAX, INT64_MAX);
  facts.learn(predicate("Q % 9223372036854775806 == 0"), true);
  (void)facts.simplify(parse("Q*Q*3"));
}

TEST(DimFacts, ManyFactsStayCheap) {
  // As from a hostile file: nothing is quadratic in what is learnt without end.
  DimFacts facts;
  auto name = [](int i) { return DimExpr::symbol("n" + std::to_string(i)); };
  for (int i = 0; i < 500; ++i) {
    facts.learn({DimPredicate::Kind::LessEqual, name(i) + name(i + 1), name(i + 2) * name(i + 3)}, i % 3 == 0);
    facts.learn({DimPredicate::Kind::Equal, name(i), name(i + 7) + 3}, i % 2 == 0);
  }
  DimExpr sum;
  for (int i = 0; i < 200; ++i)
    sum = sum + DimExpr::floorDiv(name(i), 3) * name(i + 1);
  (void)facts.simplify(sum);
  (void)facts.prove({DimPredicate::Kind::LessEqual, sum, DimExpr(4)});
}

//===--- soundness ----------------------------------------------------------------===//

DimExpr randomExpr(std::mt19937 &random, int depth) {
  unsigned choice = random() % (depth == 0 ? 2 : 9);
  if (choice == 0)
    return DimExpr(static_cast<int64_t>(random() % 10) - 2);
  if (choice == 1)
    return DimExpr::symbol(std::string(1, static_cast<char>('a' + random() % 3)));
  DimExpr x = randomExpr(random, depth - 1), y = randomExpr(random, depth - 1);
  switch (choice) {
  case 2:
  case 3:
    return x + y;
  case 4:
    return x - y;
  case 5:
    return x * y;
  case 6:
    return DimExpr::floorDiv(x, random() % 4 ? DimExpr(1 + random() % 5) : y);
  case 7:
    return random() % 2 ? DimExpr::min(x, y) : DimExpr::max(x, y);
  default:
    return DimExpr::broadcast(x, y);
  }
}

DimPredicate randomPredicate(std::mt19937 &random) {
  DimPredicate p;
  p.kind = static_cast<DimPredicate::Kind>(random() % 6);
  p.lhs = randomExpr(random, 1 + static_cast<int>(random() % 3));
  p.rhs = p.kind == DimPredicate::Kind::Divisible && random() % 4 ? DimExpr(1 + random() % 6)
                                                                  : randomExpr(random, static_cast<int>(random() % 3));
  return p;
}

/// Learns random facts that hold at a hidden binding, then checks everything
/// said against every binding at which all the facts hold.
TEST(DimFacts, WhatIsProvenHolds) {
  std::mt19937 random(99);
  constexpr int64_t kMax = 11;
  int64_t decided = 0, checked = 0, simplifiedCount = 0;
  for (int trial = 0; trial < 200; ++trial) {
    DimFacts facts;
    Binding hidden;
    std::map<std::string, std::array<int64_t, 3>> declared;
    for (const char *name : {"a", "b", "c"}) {
      int64_t multiple = random() % 3 ? 1 : 2 + random() % 3;
      int64_t v = static_cast<int64_t>(random() % (kMax / multiple + 1)) * multiple;
      hidden[name] = v;
      int64_t min = random() % 2 ? 0 : std::max<int64_t>(0, v - static_cast<int64_t>(random() % 4));
      int64_t max = random() % 2 ? INT64_MAX : v + static_cast<int64_t>(random() % 4);
      declared[name] = {min, max, multiple};
      if (random() % 4)
        facts.declare(name, min, max, multiple);
      else
        declared[name] = {0, INT64_MAX, 1};
    }
    std::vector<std::pair<DimPredicate, bool>> learnt;
    std::string history;
    for (unsigned n = random() % 6; n > 0; --n) {
      DimPredicate p = randomPredicate(random);
      if (auto v = p.evaluate(hidden)) {
        facts.learn(p, *v);
        learnt.emplace_back(p, *v);
        history += (*v ? "  " : "  not ") + p.str() + "\n";
      }
    }
    std::vector<Binding> models;
    for (int64_t a = 0; a <= kMax; ++a)
      for (int64_t b = 0; b <= kMax; ++b)
        for (int64_t c = 0; c <= kMax; ++c) {
          Binding binding{{"a", a}, {"b", b}, {"c", c}};
          bool holds = true;
          for (auto &[name, d] : declared)
            holds &= binding[name] >= d[0] && binding[name] <= d[1] && binding[name] % d[2] == 0;
          for (auto &[p, v] : learnt) {
            if (!holds)
              break;
            auto r = p.evaluate(binding);
            holds = r && *r == v;
          }
          if (holds)
            models.push_back(binding);
        }
    ASSERT_FALSE(models.empty());
    std::shuffle(models.begin(), models.end(), random);
    if (models.size() > 60)
      models.resize(60);
    for (auto &[name, d] : declared)
      history += "  " + name + " in [" + std::to_string(d[0]) + ", " + std::to_string(d[1]) + "] multiple of " +
                 std::to_string(d[2]) + "\n";
    for (int q = 0; q < 25; ++q) {
      DimPredicate p = randomPredicate(random);
      DimExpr e = randomExpr(random, 3);
      auto said = facts.prove(p);
      DimExpr s = facts.simplify(e);
      DimFacts::Range range = facts.range(e);
      decided += said.has_value();
      simplifiedCount += !(s == e);
      for (const Binding &binding : models) {
        ++checked;
        if (said)
          if (auto truth = p.evaluate(binding))
            ASSERT_EQ(*truth, *said) << p.str() << " at a=" << binding.at("a") << " b=" << binding.at("b")
                                     << " c=" << binding.at("c") << " knowing\n"
                                     << history;
        auto want = e.evaluate(binding);
        if (!want)
          continue;
        auto got = s.evaluate(binding);
        ASSERT_TRUE(bool(got)) << e.str() << " -> " << s.str() << ": " << got.error().message << " knowing\n"
                               << history;
        ASSERT_EQ(*got, *want) << e.str() << " -> " << s.str() << " at a=" << binding.at("a")
                               << " b=" << binding.at("b") << " c=" << binding.at("c") << " knowing\n"
                               << history;
        ASSERT_LE(range.min, *want) << e.str() << " knowing\n" << history;
        ASSERT_GE(range.max, *want) << e.str() << " knowing\n" << history;
      }
    }
  }
  EXPECT_GT(decided, 1000);
  EXPECT_GT(simplifiedCount, 1000);
  EXPECT_GT(checked, 30000);
}

/// The same with numbers at the ends of 64 bits, where everything saturates.
TEST(DimFacts, WhatIsProvenHoldsAtTheEnds) {
  std::mt19937 random(17);
  const int64_t numbers[] = {INT64_MIN,
                             INT64_MIN + 1,
                             INT64_MAX,
                             INT64_MAX - 1,
                             int64_t(1) << 62,
                             -(int64_t(1) << 62),
                             int64_t(1) << 32,
                             3037000500,
                             -1,
                             0,
                             1,
                             2,
                             3};
  auto number = [&] { return numbers[random() % std::size(numbers)]; };
  auto size = [&] {
    int64_t v = number();
    return v < 0 ? ~v : v;
  };
  std::function<DimExpr(int)> expr = [&](int depth) -> DimExpr {
    unsigned choice = random() % (depth == 0 ? 2 : 9);
    if (choice == 0)
      return DimExpr(number());
    if (choice == 1)
      return DimExpr::symbol(random() % 2 ? "a" : "b");
    DimExpr x = expr(depth - 1), y = expr(depth - 1);
    switch (choice) {
    case 2:
      return x + y;
    case 3:
      return x - y;
    case 4:
      return x * y;
    case 5:
      return DimExpr::floorDiv(x, y);
    case 6:
      return DimExpr::min(x, y);
    case 7:
      return DimExpr::max(x, y);
    default:
      return DimExpr::ceilDiv(x, y);
    }
  };
  int decided = 0;
  for (int trial = 0; trial < 400; ++trial) {
    DimFacts facts;
    Binding binding{{"a", size()}, {"b", size()}};
    if (random() % 2)
      facts.declare("a", random() % 2 ? binding["a"] : 0, random() % 2 ? binding["a"] : INT64_MAX, 1);
    if (random() % 4 == 0 && binding["b"] > 0)
      facts.declare("b", 0, INT64_MAX, binding["b"]);
    auto predicate = [&] {
      return DimPredicate{static_cast<DimPredicate::Kind>(random() % 6), expr(2), expr(random() % 2)};
    };
    for (int i = 0; i < 3; ++i) {
      DimPredicate p = predicate();
      if (auto v = p.evaluate(binding))
        facts.learn(p, *v);
    }
    for (int i = 0; i < 8; ++i) {
      DimPredicate p = predicate();
      auto said = facts.prove(p);
      auto truth = p.evaluate(binding);
      if (said && truth) {
        ASSERT_EQ(*said, *truth) << p.str() << " at a=" << binding["a"] << " b=" << binding["b"];
        ++decided;
      }
      DimExpr e = expr(3);
      auto want = e.evaluate(binding);
      auto got = facts.simplify(e).evaluate(binding);
      if (want && got) { // what is rewritten may overflow where the original does not
        ASSERT_EQ(*got, *want) << e.str();
      }
      if (want) {
        ASSERT_LE(facts.range(e).min, *want) << e.str();
        ASSERT_GE(facts.range(e).max, *want) << e.str();
      }
    }
  }
  EXPECT_GT(decided, 150);
}

/// What is learnt is then known: no question is asked twice.
TEST(DimFacts, WhatWasLearntIsProven) {
  std::mt19937 random(4);
  int total = 0;
  for (int trial = 0; trial < 1500; ++trial) {
    DimFacts facts;
    DimPredicate p = randomPredicate(random);
    Binding hidden{{"a", random() % 9}, {"b", random() % 9}, {"c", random() % 9}};
    auto v = p.evaluate(hidden);
    if (!v)
      continue;
    facts.learn(p, *v);
    ++total;
    auto said = facts.prove(p);
    EXPECT_EQ(said, *v) << p.str();
  }
  EXPECT_GT(total, 700);
}

//===--- SizeAccessor -------------------------------------------------------------===//

TEST(SizeAccessor, RecordsOnlyWhatIsOpen) {
  DimFacts facts;
  facts.declare("S", 1, 2048, 1);
  facts.declare("B", 1, 64, 1);
  SizeAccessor sizes(facts, {{"B", 2}, {"S", 40}});
  EXPECT_TRUE(*sizes.ask(predicate("S <= 2048"), "slice", "clamp"));
  EXPECT_TRUE(sizes.trail().empty());
  EXPECT_TRUE(*sizes.ask(predicate("S <= 512"), "slice", "clamp"));
  EXPECT_TRUE(*sizes.ask(predicate("S <= 512"), "slice2", "clamp"));
  EXPECT_TRUE(*sizes.ask(predicate("S < 1000"), "slice3", "clamp"));
  ASSERT_EQ(sizes.trail().size(), 1u);
  EXPECT_EQ(sizes.trail()[0].predicate.str(), "S <= 512");
  EXPECT_EQ(sizes.trail()[0].op, "slice");
  EXPECT_EQ(sizes.trail()[0].message, "clamp");
  EXPECT_TRUE(sizes.trail()[0].answer);
  EXPECT_FALSE(sizes.trail()[0].required);
  EXPECT_EQ(sizes.expr(parse("B*min(S, 512)")).str(), "B*S");
  EXPECT_EQ(sizes.expr(parse("B")).str(), "B"); // never the number
}

TEST(SizeAccessor, RequirementsFailWithSizes) {
  // CASES 20: concat([N,4],[M,4]) + z[K,4] at N=2, M=3, K=6
  SizeAccessor sizes(DimFacts(), {{"N", 2}, {"M", 3}, {"K", 6}});
  Status s = sizes.require(predicate("K == N+M"), "add_1", "operands must have equal sizes");
  ASSERT_FALSE(bool(s));
  EXPECT_EQ(s.error().message, "add_1: operands must have equal sizes: K is 6 but M+N is 5 (M=3, N=2)");
  ASSERT_EQ(sizes.trail().size(), 1u);
  EXPECT_TRUE(sizes.trail()[0].required);
  EXPECT_FALSE(sizes.trail()[0].answer);
  // and K=5 works, and is known after
  SizeAccessor fine(DimFacts(), {{"N", 2}, {"M", 3}, {"K", 5}});
  EXPECT_TRUE(bool(fine.require(predicate("K == N+M"), "add_1", "")));
  EXPECT_TRUE(bool(fine.require(predicate("K-M == N"), "add_2", "")));
  EXPECT_EQ(fine.trail().size(), 1u);
  // N=0: K equals the second operand
  SizeAccessor zero(DimFacts(), {{"N", 0}, {"M", 3}, {"K", 3}});
  EXPECT_TRUE(bool(zero.require(predicate("K == N+M"), "add_1", "")));
}

TEST(SizeAccessor, AFalseRequirementEndsTheTrailEvenWhenDecided) {
  DimFacts facts;
  facts.declare("S", 600, 700, 1);
  SizeAccessor sizes(facts, {{"S", 600}});
  Status s = sizes.require(predicate("S <= 512"), "gather", "position table");
  ASSERT_FALSE(bool(s));
  EXPECT_EQ(s.error().message, "gather: position table: S is 600, more than 512");
  ASSERT_EQ(sizes.trail().size(), 1u);
}

TEST(SizeAccessor, BroadcastCase19) {
  for (auto [n, m, ok] :
       {std::tuple(1, 5, true), std::tuple(5, 5, true), std::tuple(5, 1, true), std::tuple(3, 5, false)}) {
    SizeAccessor sizes(DimFacts(), {{"N", n}, {"M", m}});
    Status s = sizes.require(predicate("broadcastable(N, M)"), "add", "operands must broadcast");
    EXPECT_EQ(bool(s), ok);
    if (!s) {
      EXPECT_EQ(s.error().message, "add: operands must broadcast: N is 3 and M is 5: they do not broadcast");
    }
  }
}

TEST(SizeAccessor, OverflowIsAnError) {
  SizeAccessor sizes(DimFacts(), {{"N", int64_t(1) << 62}});
  auto r = sizes.ask(predicate("N*N <= 5"), "op", "");
  ASSERT_FALSE(bool(r));
  EXPECT_EQ(r.error().code, ErrorCode::OutOfRange);
  EXPECT_EQ(r.error().message, "op: size arithmetic overflows 64 bits");
  EXPECT_FALSE(bool(sizes.ask(predicate("Z == 3"), "op", "")));
  EXPECT_TRUE(sizes.trail().empty());
}

/// CASES 59 at the level of expressions: where the recorded answers hold for
/// another binding, forming at that binding asks, answers and reads the same.
TEST(SizeAccessor, SameAnswersSameTrail) {
  std::mt19937 random(31);
  auto form = [](SizeAccessor &sizes, std::mt19937 script, std::string &read) {
    for (int i = 0; i < 12; ++i) {
      DimPredicate p = randomPredicate(script);
      auto r = sizes.ask(p, "op" + std::to_string(i), "");
      if (!r)
        return false;
      // What is done next depends on the answer, as in kernel forming.
      if (*r)
        (void)script();
      read += sizes.expr(randomExpr(script, 3)).str() + "\n";
    }
    return true;
  };
  int same = 0;
  for (int trial = 0; trial < 150; ++trial) {
    std::mt19937 script(random());
    auto bind = [&] { return Binding{{"a", random() % 6}, {"b", random() % 6}, {"c", random() % 6}}; };
    SizeAccessor first(DimFacts(), bind());
    std::string read;
    if (!form(first, script, read))
      continue;
    for (int i = 0; i < 20; ++i) {
      Binding other = bind();
      bool holds = true;
      for (const SizeAccessor::Asked &asked : first.trail()) {
        auto r = asked.predicate.evaluate(other);
        if (!r || *r != asked.answer) {
          holds = false;
          break;
        }
      }
      if (!holds)
        continue;
      SizeAccessor second(DimFacts(), other);
      std::string readAgain;
      ASSERT_TRUE(form(second, script, readAgain));
      ASSERT_EQ(second.trail().size(), first.trail().size());
      for (size_t k = 0; k < first.trail().size(); ++k)
        EXPECT_EQ(second.trail()[k].predicate, first.trail()[k].predicate);
      EXPECT_EQ(readAgain, read);
      ++same;
    }
  }
  EXPECT_GT(same, 15);
}

TEST(SizeAccessor, DescribeFailure) {
  Binding b{{"S", 600}, {"H", 33}, {"N", 3}, {"M", 5}};
  EXPECT_EQ(describeFailure(predicate("S <= 512"), b), "S is 600, more than 512");
  EXPECT_EQ(describeFailure(predicate("H % 32 == 0"), b), "H is 33, not a multiple of 32");
  EXPECT_EQ(describeFailure(predicate("N == M"), b), "N is 3 but M is 5");
  EXPECT_EQ(describeFailure(predicate("N == 4"), b), "N is 3, not 4");
  EXPECT_EQ(describeFailure({DimPredicate::Kind::Equal, DimExpr(4), DimExpr::symbol("N")}, b), "N is 3, not 4");
  EXPECT_EQ(describeFailure(predicate("2*N == 7"), b), "2*N is 6, not 7 (N=3)");
  EXPECT_EQ(describeFailure(predicate("M <= N"), b), "M is 5 but at most N = 3 is allowed");
  EXPECT_EQ(describeFailure(predicate("M < N"), b), "M is 5 but less than N = 3 is needed");
  EXPECT_EQ(describeFailure(predicate("7 <= N"), b), "N is 3, less than 7");
  EXPECT_EQ(describeFailure(predicate("7 <= M*N"), {{"M", 5}, {"N", 0}}), "M*N is 0, less than 7 (M=5, N=0)");
  EXPECT_EQ(describeFailure(predicate("3 < N"), b), "N is 3, not more than 3");
  EXPECT_EQ(describeFailure(predicate("N != 3"), b), "N is 3");
  EXPECT_EQ(describeFailure(predicate("Q == 3"), b), "'Q == 3' does not hold");
}

} // namespace
