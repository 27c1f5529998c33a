//===- TemplateTree.h - plan templates by their guards ----------*- C++ -*-===//
#ifndef RLX_RUNTIME_TEMPLATETREE_H
#define RLX_RUNTIME_TEMPLATETREE_H

#include "rlx/Data/Plan_generated.h"
#include "rlx/Support/DimExpr.h"
#include "rlx/Support/Result.h"

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rlx {

/// The plan templates of one graph, as a tree of the questions that forming them
/// asked. What is asked next depends only on the answers so far, so the trails of
/// all templates share their beginnings, and walking the tree by the sizes of a
/// binding ends at the one template that holds there, at an error, or at a branch
/// that nobody has taken yet.
///
///     S <= 512 (choice)
///       yes: K == N+M (requirement)     no: template 1
///              yes: template 0
///              no: error "K is 6 but N+M is 5"
///
/// A requirement's false side is an error for every binding that comes there,
/// from the first time it was asked.
///
/// Not synchronised: reading and inserting need a lock, or a copy to insert into
/// (copies are cheap: nodes and templates are shared).
class TemplateTree {
public:
  using Template = std::shared_ptr<const data::PlanTemplateT>;

  /// `dims`: the signature's names; the sizes below are in this order.
  explicit TemplateTree(std::vector<std::string> dims);

  /// Adds what a specialize request answered. `trail` is its guards. With a plan
  /// the trail's requirements all hold; without one (null) the last guard is a
  /// failed requirement. Adding a path that is there already keeps the first.
  /// The tree is unchanged on an error: InvalidModel when a guard is not well
  /// formed, Internal when the trail disagrees with the tree (it asks something
  /// else after the same answers).
  Status insert(std::span<const std::unique_ptr<data::GuardT>> trail, Template plan);

  /// Takes a template out, and what only led to it; what remains of its trail is
  /// asked as before, and its sizes are Missing. Of requirements that lead to
  /// nothing else, which are kept because they know an error, the kMaxErrors latest
  /// stay. Templates inserted later get the numbers before theirs.
  void remove(const Template &plan);
  static constexpr size_t kMaxErrors = 256;

  struct Found {
    enum class Kind {
      Template, ///< `plan` holds here
      Error,    ///< `error`: a requirement fails here, or a guard overflows
      Missing   ///< nobody has been here: specialize
    };
    Kind kind = Kind::Missing;
    Template plan;
    Error error;
    size_t tests = 0; ///< guards evaluated
  };
  /// Allocates nothing unless it ends in an error. `sizes`: one per dim.
  Found lookup(std::span<const int64_t> sizes) const;

  /// A guard of a template that falls otherwise.
  struct Failed {
    size_t plan;       ///< number of the template, in order of insertion
    std::string guard; ///< "S <= 512"
    bool answer;       ///< what the template took it to be
    bool required;
    std::string op, reason;
    /// "not S <= 512 (slice: clamp)": what does not hold.
    std::string text() const;
  };
  /// Why no template holds: the first guard of each that falls otherwise at
  /// `sizes`, in order of insertion. Templates that hold are left out.
  std::vector<Failed> explain(std::span<const int64_t> sizes) const;

  size_t templateCount() const { return plans.size(); }
  /// In order of insertion.
  const Template &plan(size_t number) const { return plans[number].plan; }
  size_t nodeCount() const { return nodes.size() - unused.size(); }
  /// About what the tree takes, templates apart.
  size_t bytes() const;

private:
  struct Node;
  /// One way out of a node.
  struct Branch {
    enum class Kind : uint8_t { Missing, Node, Template, Error } kind = Kind::Missing;
    uint32_t number = 0;
  };
  struct Leaf {
    Template plan;
    std::vector<std::pair<uint32_t, bool>> path; // node, answer
  };
  Result<std::shared_ptr<const Node>> makeNode(const data::GuardT &guard) const;
  void cut(uint32_t number, bool answer);
  void boundErrors();

  std::vector<std::string> dims;
  std::map<std::string, uint32_t, std::less<>> index; // of dims
  std::vector<std::shared_ptr<const Node>> nodes;
  std::vector<std::array<Branch, 2>> branches; // by node: no, yes
  struct Parent {
    uint32_t number = kNone; // kNone: the node is the root
    bool answer = false;
  };
  static constexpr uint32_t kNone = UINT32_MAX;
  std::vector<Parent> parents;  // by node
  std::vector<uint32_t> unused; // numbers of nodes that were taken out
  std::deque<uint32_t> dead;    // requirements that lead to errors only, or did, oldest first
  Branch root;
  std::vector<Leaf> plans;
  size_t nodeBytes = 0; // of what `nodes` and `plans` point to
};

} // namespace rlx

#endif // RLX_RUNTIME_TEMPLATETREE_H
