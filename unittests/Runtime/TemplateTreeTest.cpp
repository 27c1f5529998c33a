//===- TemplateTreeTest.cpp - plan templates by their guards --------------===//

#include "rlx/Runtime/TemplateTree.h"

#include "rlx/Support/DimFacts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

using namespace rlx;
using testing::ElementsAre;
using testing::HasSubstr;
using Found = TemplateTree::Found;

namespace {

using Trail = std::vector<std::unique_ptr<data::GuardT>>;

/// "?S <= 512" is a choice, "!K == N+M" a requirement; a leading "not " is the
/// answer no.
Trail trailOf(std::initializer_list<std::string_view> texts) {
  Trail trail;
  for (std::string_view text : texts) {
    auto guard = std::make_unique<data::GuardT>();
    guard->answer = !text.starts_with("not ");
    if (!guard->answer)
      text.remove_prefix(4);
    guard->required = text[0] == '!';
    text.remove_prefix(1);
    auto p = DimPredicate::parse(text);
    EXPECT_TRUE(bool(p)) << text;
    guard->predicate = std::make_unique<data::PredicateT>();
    guard->predicate->kind = static_cast<data::PredicateKind>(p->kind);
    guard->predicate->lhs = p->lhs.str();
    guard->predicate->rhs = p->rhs.str();
    guard->op = "op";
    guard->message = "why";
    trail.push_back(std::move(guard));
  }
  return trail;
}

TemplateTree::Template plan() { return std::make_shared<data::PlanTemplateT>(); }

std::string inserted(TemplateTree &tree, const Trail &trail, TemplateTree::Template p) {
  Status s = tree.insert(trail, std::move(p));
  return s ? "" : s.error().message;
}

TEST(TemplateTree, OneTemplateWithoutGuards) {
  TemplateTree tree({"S"});
  int64_t sizes[] = {7};
  EXPECT_EQ(tree.lookup(sizes).kind, Found::Kind::Missing);
  auto p = plan();
  EXPECT_EQ(inserted(tree, {}, p), "");
  Found found = tree.lookup(sizes);
  EXPECT_EQ(found.kind, Found::Kind::Template);
  EXPECT_EQ(found.plan, p);
  EXPECT_EQ(found.tests, 0u);
  // the first stays
  EXPECT_EQ(inserted(tree, {}, plan()), "");
  EXPECT_EQ(tree.lookup(sizes).plan, p);
  EXPECT_EQ(tree.templateCount(), 1u);
}

TEST(TemplateTree, ChoicesBranch) {
  TemplateTree tree({"B", "S"});
  auto small = plan(), large = plan();
  EXPECT_EQ(inserted(tree, trailOf({"?S <= 512", "?B*S >= 6"}), small), "");
  int64_t at[][2] = {{2, 40}, {1, 3}, {2, 600}};
  EXPECT_EQ(tree.lookup(at[0]).plan, small);
  EXPECT_EQ(tree.lookup(at[0]).tests, 2u);
  EXPECT_EQ(tree.lookup(at[1]).kind, Found::Kind::Missing);
  EXPECT_EQ(tree.lookup(at[2]).kind, Found::Kind::Missing);
  EXPECT_EQ(inserted(tree, trailOf({"not ?S <= 512"}), large), "");
  EXPECT_EQ(tree.lookup(at[2]).plan, large);
  EXPECT_EQ(tree.lookup(at[1]).kind, Found::Kind::Missing);

  auto failed = tree.explain(at[1]);
  ASSERT_EQ(failed.size(), 2u);
  EXPECT_EQ(failed[0].plan, 0u);
  EXPECT_EQ(failed[0].text(), "6 <= B*S (op: why)");
  EXPECT_EQ(failed[1].plan, 1u);
  EXPECT_EQ(failed[1].text(), "not S <= 512 (op: why)");
  EXPECT_EQ(tree.explain(at[0]).size(), 1u);
}

TEST(TemplateTree, RequirementsAreErrorLeaves) {
  // CASES 20
  TemplateTree tree({"N", "M", "K"});
  auto p = plan();
  EXPECT_EQ(inserted(tree, trailOf({"!K == N+M", "?N <= 9"}), p), "");
  int64_t good[] = {2, 3, 5}, bad[] = {2, 3, 6}, zero[] = {0, 3, 3};
  EXPECT_EQ(tree.lookup(good).plan, p);
  EXPECT_EQ(tree.lookup(zero).plan, p);
  // Nobody failed it before, and yet no compiler is needed to know.
  Found found = tree.lookup(bad);
  EXPECT_EQ(found.kind, Found::Kind::Error);
  EXPECT_EQ(found.error.code, ErrorCode::InvalidArgument);
  EXPECT_EQ(found.error.message, "op: why: K is 6 but M+N is 5 (M=3, N=2)");
  // The same words as from scratch.
  SizeAccessor scratch(DimFacts(), {{"N", 2}, {"M", 3}, {"K", 6}});
  EXPECT_EQ(scratch.require(*DimPredicate::parse("K == N+M"), "op", "why").error().message, found.error.message);
}

TEST(TemplateTree, AFailedRequirementCanComeFirst) {
  TemplateTree tree({"H"});
  EXPECT_EQ(inserted(tree, trailOf({"?H >= 5", "not !H % 32 == 0"}), nullptr), "");
  int64_t bad[] = {33}, good[] = {64};
  Found found = tree.lookup(bad);
  EXPECT_EQ(found.kind, Found::Kind::Error);
  EXPECT_EQ(found.error.message, "op: why: H is 33, not a multiple of 32");
  EXPECT_EQ(tree.lookup(good).kind, Found::Kind::Missing);
  EXPECT_EQ(tree.templateCount(), 0u);
  auto p = plan();
  EXPECT_EQ(inserted(tree, trailOf({"?H >= 5", "!H % 32 == 0"}), p), "");
  EXPECT_EQ(tree.lookup(good).plan, p);
  EXPECT_EQ(inserted(tree, trailOf({"?H >= 5", "not !H % 32 == 0"}), nullptr), ""); // again
}

TEST(TemplateTree, OverflowIsAnError) {
  TemplateTree tree({"N"});
  EXPECT_EQ(inserted(tree, trailOf({"?N*N <= 100"}), plan()), "");
  int64_t huge[] = {int64_t(1) << 40};
  Found found = tree.lookup(huge);
  EXPECT_EQ(found.kind, Found::Kind::Error);
  EXPECT_EQ(found.error.code, ErrorCode::OutOfRange);
  EXPECT_EQ(found.error.message, "op: size arithmetic overflows 64 bits in 'N*N <= 100'");
  EXPECT_EQ(tree.explain(huge).size(), 1u);

  TemplateTree division({"N", "M"});
  EXPECT_EQ(inserted(division, trailOf({"?floordiv(N, M) == 2"}), plan()), "");
  int64_t zero[] = {4, 0}, fine[] = {4, 2};
  EXPECT_EQ(division.lookup(zero).kind, Found::Kind::Error);
  EXPECT_EQ(division.lookup(fine).kind, Found::Kind::Template);
}

TEST(TemplateTree, TrailsThatDisagreeAreRefused) {
  TemplateTree tree({"S", "B"});
  EXPECT_EQ(inserted(tree, trailOf({"?S <= 512", "?B <= 4"}), plan()), "");
  EXPECT_THAT(inserted(tree, trailOf({"?S <= 511"}), plan()), HasSubstr("guards disagree"));
  EXPECT_THAT(inserted(tree, trailOf({"?S <= 512"}), plan()), HasSubstr("guards disagree"));
  EXPECT_THAT(inserted(tree, trailOf({"?S <= 512", "?B <= 4", "?B <= 2"}), plan()), HasSubstr("guards disagree"));
  EXPECT_THAT(inserted(tree, trailOf({"!S <= 512", "?B <= 4"}), plan()), HasSubstr("guards disagree"));
  EXPECT_EQ(tree.templateCount(), 1u);
  int64_t sizes[] = {1, 1};
  EXPECT_EQ(tree.lookup(sizes).kind, Found::Kind::Template);
}

TEST(TemplateTree, BadGuardsAreRefused) {
  TemplateTree tree({"S"});
  EXPECT_THAT(inserted(tree, trailOf({"?T <= 512"}), plan()), HasSubstr("no dim is named 'T'"));
  EXPECT_THAT(inserted(tree, trailOf({"not !S <= 5"}), plan()), HasSubstr("must end a trail that has no plan"));
  EXPECT_THAT(inserted(tree, trailOf({"not !S <= 5", "?S <= 3"}), nullptr), HasSubstr("must end a trail"));
  EXPECT_THAT(inserted(tree, trailOf({"?S <= 5"}), nullptr), HasSubstr("must end in a failed requirement"));
  EXPECT_THAT(inserted(tree, {}, nullptr), HasSubstr("must end in a failed requirement"));
  Trail trail = trailOf({"?S <= 5"});
  trail[0]->predicate->lhs = "S +";
  EXPECT_THAT(inserted(tree, trail, plan()), HasSubstr("size expression"));
  trail[0]->predicate->lhs = "S";
  trail[0]->predicate->kind = static_cast<data::PredicateKind>(77);
  EXPECT_THAT(inserted(tree, trail, plan()), HasSubstr("no predicate"));
  trail[0]->predicate.reset();
  EXPECT_THAT(inserted(tree, trail, plan()), HasSubstr("no predicate"));
  trail[0].reset();
  EXPECT_THAT(inserted(tree, trail, plan()), HasSubstr("missing"));
  int64_t sizes[] = {1};
  EXPECT_EQ(tree.lookup(sizes).kind, Found::Kind::Missing);
  EXPECT_EQ(tree.templateCount(), 0u);
}

TEST(TemplateTree, CopiesAreIndependent) {
  TemplateTree tree({"S"});
  EXPECT_EQ(inserted(tree, trailOf({"?S <= 5"}), plan()), "");
  TemplateTree copy = tree;
  EXPECT_EQ(inserted(copy, trailOf({"not ?S <= 5"}), plan()), "");
  int64_t sizes[] = {9};
  EXPECT_EQ(tree.lookup(sizes).kind, Found::Kind::Missing);
  EXPECT_EQ(copy.lookup(sizes).kind, Found::Kind::Template);
}

TEST(TemplateTree, RemovedTemplatesAreMissing) {
  TemplateTree tree({"N", "M"});
  auto a = plan(), b = plan(), c = plan();
  EXPECT_EQ(inserted(tree, trailOf({"?N <= 4", "?M <= 4"}), a), "");
  EXPECT_EQ(inserted(tree, trailOf({"?N <= 4", "not ?M <= 4", "!M <= 100"}), b), "");
  EXPECT_EQ(inserted(tree, trailOf({"not ?N <= 4"}), c), "");
  EXPECT_EQ(tree.nodeCount(), 3u);
  int64_t atA[] = {1, 1}, atB[] = {1, 5}, atC[] = {5, 1}, bad[] = {1, 101};
  tree.remove(plan()); // not there
  tree.remove(a);
  EXPECT_EQ(tree.lookup(atA).kind, Found::Kind::Missing);
  EXPECT_EQ(tree.lookup(atB).plan, b);
  EXPECT_EQ(tree.lookup(atC).plan, c);
  EXPECT_EQ(tree.templateCount(), 2u);
  EXPECT_EQ(tree.plan(0), b);
  ASSERT_EQ(tree.explain(atC).size(), 1u);
  EXPECT_EQ(tree.explain(atC)[0].plan, 0u);
  // What is known to be an error stays known; what led to the template only goes.
  tree.remove(b);
  EXPECT_EQ(tree.lookup(atB).kind, Found::Kind::Missing);
  EXPECT_EQ(tree.lookup(bad).kind, Found::Kind::Error);
  EXPECT_EQ(tree.nodeCount(), 3u);
  tree.remove(c);
  EXPECT_EQ(tree.lookup(atC).kind, Found::Kind::Missing);
  EXPECT_EQ(tree.lookup(bad).kind, Found::Kind::Error);
  // And all of it can be made again.
  EXPECT_EQ(inserted(tree, trailOf({"?N <= 4", "not ?M <= 4", "!M <= 100"}), b), "");
  EXPECT_EQ(inserted(tree, trailOf({"?N <= 4", "?M <= 4"}), a), "");
  EXPECT_EQ(tree.lookup(atA).plan, a);
  EXPECT_EQ(tree.lookup(atB).plan, b);

  TemplateTree single({"N"});
  int64_t seven[] = {7};
  EXPECT_EQ(inserted(single, {}, a), "");
  single.remove(a);
  EXPECT_EQ(single.lookup(seven).kind, Found::Kind::Missing);
  EXPECT_EQ(inserted(single, trailOf({"?N <= 4"}), b), "");
  single.remove(b);
  EXPECT_EQ(single.nodeCount(), 0u);
  EXPECT_EQ(single.lookup(seven).kind, Found::Kind::Missing);
}

TEST(TemplateTree, KnownErrorsAreBounded) {
  TemplateTree many({"N"});
  constexpr int64_t kBits = 9;
  for (int64_t n = 0; n != int64_t(1) << kBits; ++n) {
    std::vector<std::string> texts;
    for (int64_t bit = 0; bit != kBits; ++bit)
      texts.push_back((n >> bit & 1 ? "?" : "not ?") + ("mod(floordiv(N, " + std::to_string(1 << bit)) + "), 2) == 1");
    texts.push_back("not !N >= 5000");
    Trail trail;
    for (const std::string &text : texts)
      for (auto &guard : trailOf({text}))
        trail.push_back(std::move(guard));
    ASSERT_EQ(inserted(many, trail, nullptr), "");
    int64_t sizes[] = {n};
    ASSERT_EQ(many.lookup(sizes).kind, Found::Kind::Error);
    ASSERT_LE(many.nodeCount(), TemplateTree::kMaxErrors * (kBits + 1));
  }
  int64_t first[] = {0}, last[] = {(int64_t(1) << kBits) - 1};
  EXPECT_EQ(many.lookup(first).kind, Found::Kind::Missing);
  EXPECT_EQ(many.lookup(last).kind, Found::Kind::Error);
}

TEST(TemplateTree, ExplainNamesOneGuardPerTemplate) {
  TemplateTree tree({"N", "M"});
  EXPECT_EQ(inserted(tree, trailOf({"?N == M"}), plan()), "");
  EXPECT_EQ(inserted(tree, trailOf({"not ?N == M", "?N == 1"}), plan()), "");
  EXPECT_EQ(inserted(tree, trailOf({"not ?N == M", "not ?N == 1", "?M == 1"}), plan()), "");
  int64_t sizes[] = {3, 5};
  EXPECT_EQ(tree.lookup(sizes).kind, Found::Kind::Missing);
  std::vector<std::string> texts;
  for (const auto &failed : tree.explain(sizes))
    texts.push_back(failed.text());
  EXPECT_THAT(texts, ElementsAre("N == M (op: why)", "N == 1 (op: why)", "M == 1 (op: why)"));
}

/// CASES 59 for the tree: forming at random bindings with SizeAccessor and
/// looking up in a tree of what was formed before always agree.
TEST(TemplateTree, AgreesWithForming) {
  std::mt19937 random(6);
  const char *questions[] = {"N == M",
                             "N <= 4",
                             "broadcastable(N, M)",
                             "N*M >= 6",
                             "M % 2 == 0",
                             "K == N+M",
                             "floordiv(K, 2) <= 2",
                             "min(N, 4) == N",
                             "K != 0",
                             "max(N, M) < 5",
                             "2*N == 2*M",
                             "mod(K, 3) == 0",
                             "K >= 1",
                             "N+M >= K-2",
                             "N < M"};
  int hits = 0, errors = 0, made = 0;
  for (int graph = 0; graph < 15; ++graph) {
    std::vector<std::pair<DimPredicate, bool>> script;
    for (int i = 0; i < 8; ++i)
      script.emplace_back(*DimPredicate::parse(questions[random() % std::size(questions)]), random() % 5 == 0);
    TemplateTree tree({"N", "M", "K"});
    std::map<TemplateTree::Template, std::string> formedText;
    for (int run = 0; run < 40; ++run) {
      int64_t sizes[] = {static_cast<int64_t>(random() % 7), static_cast<int64_t>(random() % 7),
                         static_cast<int64_t>(random() % 7)};
      SizeAccessor accessor(DimFacts(), {{"N", sizes[0]}, {"M", sizes[1]}, {"K", sizes[2]}});
      std::string error, text;
      for (size_t i = 0; i < script.size() && error.empty(); ++i) {
        auto &[p, required] = script[i];
        std::string op = "op" + std::to_string(i);
        if (required) {
          if (Status s = accessor.require(p, op, "why"); !s)
            error = s.error().message;
        } else {
          auto r = accessor.ask(p, op, "why");
          ASSERT_TRUE(bool(r));
          text += *r ? "y" : "n";
          // What is asked next depends on the answer.
          i += *r;
        }
        text += accessor.expr(*DimExpr::parse("max(N, M)*floordiv(K+1, 2)+broadcast(N, min(N, 4))")).str() + "\n";
      }
      Trail trail;
      for (const SizeAccessor::Asked &asked : accessor.trail()) {
        auto guard = std::make_unique<data::GuardT>();
        guard->predicate = std::make_unique<data::PredicateT>();
        guard->predicate->kind = static_cast<data::PredicateKind>(asked.predicate.kind);
        guard->predicate->lhs = asked.predicate.lhs.str();
        guard->predicate->rhs = asked.predicate.rhs.str();
        guard->answer = asked.answer;
        guard->required = asked.required;
        guard->op = asked.op;
        guard->message = asked.message;
        trail.push_back(std::move(guard));
      }
      Found found = tree.lookup(sizes);
      if (found.kind == Found::Kind::Missing) {
        auto p = error.empty() ? plan() : nullptr;
        ASSERT_EQ(inserted(tree, trail, p), "");
        if (p)
          formedText[p] = text;
        ++made;
        found = tree.lookup(sizes);
      }
      if (error.empty()) {
        ASSERT_EQ(found.kind, Found::Kind::Template);
        EXPECT_EQ(formedText[found.plan], text);
        EXPECT_EQ(tree.explain(sizes).size(), tree.templateCount() - 1); // just one holds
        ++hits;
      } else {
        ASSERT_EQ(found.kind, Found::Kind::Error);
        EXPECT_EQ(found.error.message, error);
        ++errors;
      }
      // Some go, and are formed again when they are needed.
      if (tree.templateCount() && random() % 8 == 0)
        tree.remove(TemplateTree::Template(tree.plan(random() % tree.templateCount())));
    }
  }
  EXPECT_GT(hits, 100);
  EXPECT_GT(errors, 100);
  EXPECT_GT(made, 15);
}

} // namespace
