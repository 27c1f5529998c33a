//===- TemplateTree.cpp - plan templates by their guards ------------------===//

#include "rlx/Runtime/TemplateTree.h"

#include "DimProgram.h"
#include "rlx/Support/DimFacts.h"

#include <algorithm>
#include <set>

using namespace rlx;

namespace {

/// More guards than any graph asks; a bound for what comes from a file.
constexpr size_t kMaxTrail = 4096;

} // namespace

struct TemplateTree::Node {
  DimPredicate predicate;
  PredicateProgram program;
  bool required;
  std::string op, message;
  size_t bytes; ///< about

  /// As SizeAccessor::require says it, so that an error reads the same from a
  /// template as from scratch.
  Error failure(std::span<const std::string> dims, std::span<const int64_t> sizes) const {
    Binding binding;
    for (size_t i = 0; i < dims.size(); ++i)
      binding.emplace(dims[i], sizes[i]);
    return {ErrorCode::InvalidArgument, op + ": " + message + ": " + describeFailure(predicate, binding)};
  }
};

TemplateTree::TemplateTree(std::vector<std::string> dims) : dims(std::move(dims)) {
  for (size_t i = 0; i < this->dims.size(); ++i)
    index.emplace(this->dims[i], static_cast<uint32_t>(i));
}

Result<std::shared_ptr<const TemplateTree::Node>> TemplateTree::makeNode(const data::GuardT &guard) const {
  auto malformed = [&](const std::string &what) {
    return Error{ErrorCode::InvalidModel, "guard of '" + guard.op + "': " + what};
  };
  if (!guard.predicate || guard.predicate->kind < data::PredicateKind::MIN ||
      guard.predicate->kind > data::PredicateKind::MAX)
    return malformed("no predicate");
  // The two enumerations list the same kinds in the same order.
  static_assert(static_cast<int>(data::PredicateKind::Broadcastable) ==
                    static_cast<int>(DimPredicate::Kind::Broadcastable) &&
                static_cast<int>(data::PredicateKind::Divisible) == static_cast<int>(DimPredicate::Kind::Divisible) &&
                static_cast<int>(data::PredicateKind::Less) == static_cast<int>(DimPredicate::Kind::Less));
  Result<DimExpr> lhs = DimExpr::parse(guard.predicate->lhs);
  if (!lhs)
    return malformed(lhs.error().message);
  Result<DimExpr> rhs = DimExpr::parse(guard.predicate->rhs);
  if (!rhs)
    return malformed(rhs.error().message);
  auto node = std::make_shared<Node>();
  node->predicate = {static_cast<DimPredicate::Kind>(guard.predicate->kind), std::move(*lhs), std::move(*rhs)};
  Result<PredicateProgram> program = PredicateProgram::compile(node->predicate, index);
  if (!program)
    return malformed(program.error().message);
  node->program = std::move(*program);
  node->required = guard.required;
  node->op = guard.op;
  node->message = guard.message;
  // Each name, number and operator of an expression is an object, and an instruction or two of a program.
  constexpr size_t kCharacter = 48, kFixed = 256;
  node->bytes = sizeof(Node) + kFixed + guard.op.size() + guard.message.size() +
                kCharacter * (guard.predicate->lhs.size() + guard.predicate->rhs.size());
  return std::shared_ptr<const Node>(std::move(node));
}

Status TemplateTree::insert(std::span<const std::unique_ptr<data::GuardT>> trail, Template plan) {
  if (trail.size() > kMaxTrail)
    return Error{ErrorCode::InvalidModel, "a plan with more than " + std::to_string(kMaxTrail) + " guards"};
  // Parse everything first: a trail that is not well formed changes nothing.
  std::vector<std::shared_ptr<const Node>> made;
  made.reserve(trail.size());
  for (size_t i = 0; i < trail.size(); ++i) {
    if (!trail[i])
      return Error{ErrorCode::InvalidModel, "a guard is missing"};
    Result<std::shared_ptr<const Node>> node = makeNode(*trail[i]);
    if (!node)
      return node.takeError();
    bool failed = (*node)->required && !trail[i]->answer;
    bool last = i + 1 == trail.size();
    if (failed && (!last || plan))
      return Error{ErrorCode::InvalidModel,
                   "guard of '" + trail[i]->op + "': a failed requirement must end a trail that has no plan"};
    if (!plan && last && !failed)
      return Error{ErrorCode::InvalidModel, "a trail without a plan must end in a failed requirement"};
    made.push_back(std::move(*node));
  }
  if (!plan && trail.empty())
    return Error{ErrorCode::InvalidModel, "a trail without a plan must end in a failed requirement"};

  // Walk what is there.
  auto disagrees = [&](size_t i) {
    return Error{ErrorCode::Internal, "guards disagree: '" + (i < trail.size() ? made[i]->op : std::string("the end")) +
                                          "' came after answers that led elsewhere before"};
  };
  std::vector<std::pair<uint32_t, bool>> path;
  Branch at = root;
  size_t i = 0;
  for (; i < trail.size() && at.kind == Branch::Kind::Node; ++i) {
    const Node &node = *nodes[at.number];
    if (!(node.predicate == made[i]->predicate) || node.required != made[i]->required)
      return disagrees(i);
    path.emplace_back(at.number, trail[i]->answer);
    at = branches[at.number][trail[i]->answer];
  }
  if (at.kind != Branch::Kind::Missing) {
    bool same = i == trail.size() && at.kind == (plan ? Branch::Kind::Template : Branch::Kind::Error);
    return same ? Status::ok() : Status(disagrees(i));
  }

  // Hang the rest onto the missing branch.
  auto set = [&](Branch branch) {
    if (path.empty())
      root = branch;
    else
      branches[path.back().first][path.back().second] = branch;
  };
  for (; i < trail.size(); ++i) {
    auto number = static_cast<uint32_t>(nodes.size());
    if (unused.empty()) {
      nodes.emplace_back();
      branches.emplace_back();
      parents.emplace_back();
    } else {
      number = unused.back();
      unused.pop_back();
    }
    set({Branch::Kind::Node, number});
    nodes[number] = made[i];
    nodeBytes += made[i]->bytes;
    branches[number] = {};
    if (made[i]->required)
      branches[number][false] = {Branch::Kind::Error, 0};
    parents[number] = path.empty() ? Parent() : Parent{path.back().first, path.back().second};
    path.emplace_back(number, trail[i]->answer);
  }
  if (plan) {
    set({Branch::Kind::Template, static_cast<uint32_t>(plans.size())});
    nodeBytes += path.capacity() * sizeof(path[0]);
    plans.push_back({std::move(plan), std::move(path)});
  } else {
    dead.push_back(path.back().first);
    boundErrors();
  }
  return {};
}

/// Nothing is known behind this answer any more; nodes that led nowhere else go.
void TemplateTree::cut(uint32_t number, bool answer) {
  for (Parent at{number, answer};;) {
    if (at.number == kNone) {
      root = {};
      return;
    }
    std::array<Branch, 2> &ways = branches[at.number];
    ways[at.answer] = {};
    if (ways[false].kind != Branch::Kind::Missing || ways[true].kind != Branch::Kind::Missing) {
      if (ways[false].kind == Branch::Kind::Error && ways[true].kind == Branch::Kind::Missing)
        dead.push_back(at.number);
      return;
    }
    nodeBytes -= nodes[at.number]->bytes;
    nodes[at.number] = nullptr;
    unused.push_back(at.number);
    at = parents[at.number];
  }
}

void TemplateTree::boundErrors() {
  // What leads to a template again, or was named twice, does not count.
  auto livesOn = [&](uint32_t number) {
    return !nodes[number] || branches[number][false].kind != Branch::Kind::Error ||
           branches[number][true].kind != Branch::Kind::Missing;
  };
  if (dead.size() <= kMaxErrors)
    return;
  std::set<uint32_t> seen;
  std::deque<uint32_t> latest;
  for (auto number = dead.rbegin(); number != dead.rend(); ++number)
    if (!livesOn(*number) && seen.insert(*number).second)
      latest.push_front(*number);
  dead = std::move(latest);
  while (dead.size() > kMaxErrors) {
    uint32_t oldest = dead.front();
    dead.pop_front();
    cut(oldest, false);
  }
}

void TemplateTree::remove(const Template &plan) {
  auto leaf = std::find_if(plans.begin(), plans.end(), [&](const Leaf &leaf) { return leaf.plan == plan; });
  if (leaf == plans.end())
    return;
  Parent at;
  if (!leaf->path.empty())
    at = {leaf->path.back().first, leaf->path.back().second};
  if (at.number == kNone)
    root = {};
  else
    cut(at.number, at.answer);
  nodeBytes -= leaf->path.capacity() * sizeof(leaf->path[0]);
  for (leaf = plans.erase(leaf); leaf != plans.end(); ++leaf)
    --(leaf->path.empty() ? root : branches[leaf->path.back().first][leaf->path.back().second]).number;
  boundErrors();
}

size_t TemplateTree::bytes() const {
  return nodes.capacity() * sizeof(nodes[0]) + branches.capacity() * sizeof(branches[0]) +
         parents.capacity() * sizeof(parents[0]) + plans.capacity() * sizeof(plans[0]) + nodeBytes;
}

TemplateTree::Found TemplateTree::lookup(std::span<const int64_t> sizes) const {
  assert(sizes.size() == dims.size());
  Found found;
  Branch at = root;
  const Node *last = nullptr;
  while (at.kind == Branch::Kind::Node) {
    last = nodes[at.number].get();
    bool answer = false;
    ++found.tests;
    if (DimOutcome outcome = last->program.evaluate(sizes, answer); outcome != DimOutcome::Ok) {
      found.kind = Found::Kind::Error;
      found.error = dimOutcomeError(outcome);
      found.error.message = last->op + ": " + found.error.message + " in '" + last->predicate.str() + "'";
      return found;
    }
    at = branches[at.number][answer];
  }
  if (at.kind == Branch::Kind::Template) {
    found.kind = Found::Kind::Template;
    found.plan = plans[at.number].plan;
  } else if (at.kind == Branch::Kind::Error) {
    found.kind = Found::Kind::Error;
    found.error = last->failure(dims, sizes);
  }
  return found;
}

std::vector<TemplateTree::Failed> TemplateTree::explain(std::span<const int64_t> sizes) const {
  std::vector<Failed> result;
  for (size_t number = 0; number < plans.size(); ++number)
    for (auto [index, wanted] : plans[number].path) {
      const Node &node = *nodes[index];
      bool answer = false;
      if (node.program.evaluate(sizes, answer) == DimOutcome::Ok && answer == wanted)
        continue;
      result.push_back({number, node.predicate.str(), wanted, node.required, node.op, node.message});
      break;
    }
  return result;
}

std::string TemplateTree::Failed::text() const {
  std::string result = answer ? guard : "not " + guard;
  if (op.empty() && reason.empty())
    return result;
  return result + " (" + op + (op.empty() || reason.empty() ? "" : ": ") + reason + ")";
}
