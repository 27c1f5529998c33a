//===- Questions.cpp - facts, guards and requirements of a graph ----------===//

#include "rlx/Codegen/Plan/Questions.h"

#include "rlx/Dialect/RLX/IR/NodeName.h"
#include "rlx/Dialect/RLX/IR/TensorShape.h"

#include "mlir/IR/Builders.h"

using namespace mlir;

namespace rlx::codegen {

namespace {
constexpr llvm::StringLiteral kGuards = "rlx.guards";
}

DimFacts declaredFacts(ir::GraphOp graph) {
  DimFacts facts;
  for (ir::DimDeclAttr dim : graph.getDimDecls())
    facts.declare(dim.getName().str(), dim.getMin(), dim.getMax(), dim.getMultiple());
  return facts;
}

DimFacts knownFacts(ir::GraphOp graph) {
  DimFacts facts = declaredFacts(graph);
  for (const SizeAccessor::Asked &question : recordedQuestions(graph))
    facts.learn(question.predicate, question.answer);
  return facts;
}

std::vector<SizeAccessor::Asked> recordedQuestions(ir::GraphOp graph) {
  std::vector<SizeAccessor::Asked> questions;
  auto guards = graph->getAttrOfType<ArrayAttr>(kGuards);
  if (!guards)
    return questions;
  for (Attribute entry : guards) {
    auto guard = dyn_cast<DictionaryAttr>(entry);
    if (!guard)
      continue;
    auto text = [&](StringRef key) {
      auto attr = guard.getAs<StringAttr>(key);
      return attr ? attr.getValue().str() : std::string();
    };
    auto flag = [&](StringRef key) {
      auto attr = guard.getAs<BoolAttr>(key);
      return attr && attr.getValue();
    };
    Result<DimPredicate> predicate = DimPredicate::parse(text("predicate"));
    if (!predicate)
      continue;
    questions.push_back({*predicate, flag("answer"), flag("required"), text("op"), text("message")});
  }
  return questions;
}

void recordQuestions(ir::GraphOp graph, const std::vector<SizeAccessor::Asked> &questions) {
  Builder builder(graph.getContext());
  SmallVector<Attribute> guards;
  for (const SizeAccessor::Asked &question : questions)
    guards.push_back(builder.getDictionaryAttr({
        builder.getNamedAttr("predicate", builder.getStringAttr(question.predicate.str())),
        builder.getNamedAttr("answer", builder.getBoolAttr(question.answer)),
        builder.getNamedAttr("required", builder.getBoolAttr(question.required)),
        builder.getNamedAttr("op", builder.getStringAttr(question.op)),
        builder.getNamedAttr("message", builder.getStringAttr(question.message)),
    }));
  if (guards.empty())
    graph->removeAttr(kGuards);
  else
    graph->setAttr(kGuards, builder.getArrayAttr(guards));
}

std::string nodeName(Operation *op) {
  std::string name = ir::findNodeName(op->getLoc());
  return name.empty() ? op->getName().getStringRef().str() : name;
}

namespace {
/// Requires what `expr` needs to have a value at all: that sizes broadcast which it broadcasts, and that it divides by
/// no 0. A requirement about such an expression would otherwise have no answer.
Status requireDefined(const DimExpr &expr, SizeAccessor &sizes, std::string_view node) {
  std::vector<DimExpr> atoms;
  sizes.expr(expr).collectAtoms(atoms);
  for (const DimExpr &atom : atoms) {
    Status status;
    if (atom.kind() == DimExpr::Kind::Broadcast)
      status = sizes.require({DimPredicate::Kind::Broadcastable, atom.operands()[0], atom.operands()[1]}, node,
                             "a size is " + atom.str());
    else if (atom.kind() == DimExpr::Kind::FloorDiv && !atom.operands()[1].isConstant())
      status = sizes.require({DimPredicate::Kind::NotEqual, atom.operands()[1], DimExpr(0)}, node,
                             "a size is " + atom.str());
    if (!status)
      return status;
  }
  return Status::ok();
}

Status requireWithSizes(const DimPredicate &predicate, SizeAccessor &sizes, std::string_view node,
                        std::string_view message) {
  for (const DimExpr *side : {&predicate.lhs, &predicate.rhs})
    if (Status status = requireDefined(*side, sizes, node); !status)
      return status;
  return sizes.require(predicate, node, message);
}

/// Requires that `expr` has a value, and asks which way each min and max of it falls. Innermost first, so that an
/// outer one is asked about what the inner one turned out to be.
Status settleAtoms(const DimExpr &expr, SizeAccessor &sizes, Operation *op) {
  if (Status status = requireDefined(expr, sizes, nodeName(op)); !status)
    return status;
  // A question can simplify the rest: start over until nothing is left to ask.
  for (;;) {
    std::vector<DimExpr> atoms;
    sizes.expr(expr).collectAtoms(atoms);
    const DimExpr *open = nullptr;
    for (const DimExpr &atom : atoms)
      if (atom.kind() == DimExpr::Kind::Min || atom.kind() == DimExpr::Kind::Max) {
        open = &atom;
        break;
      }
    if (!open)
      return Status::ok();
    DimExpr settled = *open;
    Result<bool> answer = sizes.ask({DimPredicate::Kind::LessEqual, settled.operands()[0], settled.operands()[1]},
                                    nodeName(op), "which operand of " + settled.str() + " counts");
    if (!answer)
      return answer.takeError();
    // The facts must have settled it; if they cannot use the answer, leave the atom as an expression.
    if (sizes.expr(settled) == settled)
      return Status::ok();
  }
}
} // namespace

Status askFirstQuestions(ir::GraphOp graph, SizeAccessor &sizes) {
  for (ir::ConstraintAttr constraint : graph.getConstraintList())
    if (Status status = requireWithSizes(constraint.getPredicate(), sizes, "graph", constraint.getMessage().str());
        !status)
      return status;
  for (BlockArgument argument : graph.getBody().getArguments())
    for (const DimExpr &dim : ir::getShape(cast<RankedTensorType>(argument.getType())).dims)
      if (Status status = settleAtoms(dim, sizes, graph); !status)
        return status;
  Status failed;
  WalkResult walk = graph.getBody().walk([&](Operation *op) {
    if (auto shaped = dyn_cast<ir::ShapeFunctionOpInterface>(op)) {
      SmallVector<ir::Requirement> requirements;
      shaped.collectRequirements(requirements);
      for (const ir::Requirement &requirement : requirements)
        if (Status status = requireWithSizes(requirement.predicate, sizes, nodeName(op), requirement.message);
            !status) {
          failed = std::move(status);
          return WalkResult::interrupt();
        }
    }
    // Sizes of results, and those that attributes hold (a slice's starts).
    SmallVector<DimExpr> mentioned;
    for (Type type : op->getResultTypes())
      if (auto tensor = dyn_cast<RankedTensorType>(type))
        llvm::append_range(mentioned, ir::getShape(tensor).dims);
    for (NamedAttribute attribute : op->getAttrs())
      if (auto dims = dyn_cast<ir::DimsAttr>(attribute.getValue()))
        llvm::append_range(mentioned, dims.getDims());
    for (const DimExpr &dim : mentioned)
      if (Status status = settleAtoms(dim, sizes, op); !status) {
        failed = std::move(status);
        return WalkResult::interrupt();
      }
    return WalkResult::advance();
  });
  if (walk.wasInterrupted())
    return failed;
  return Status::ok();
}

} // namespace rlx::codegen
