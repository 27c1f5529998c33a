//===- InferDims.cpp - every dim gets an expression -----------------------===//
#include "Shapes.h"

#include "rlx/Transforms/Passes.h"

#include "llvm/ADT/SetVector.h"

using mlir::failure;
using mlir::LogicalResult;
using mlir::RankedTensorType;
using mlir::success;
using mlir::Value;

namespace rlx::transforms {

#define GEN_PASS_DEF_INFERDIMS
#include "rlx/Transforms/Passes.h.inc"

namespace {

/// The work on one graph.
class Inference {
public:
  explicit Inference(ir::GraphOp graph) : graph(graph), facts(graph.getFacts()), declarations(graph.getDimDecls()) {
    for (ir::DimDeclAttr dim : declarations)
      names.insert(dim.getName().str());
    constraints.insert_range(graph.getConstraintList());
  }

  LogicalResult run() {
    mlir::Block &block = graph.getBody().front();
    for (mlir::BlockArgument input : block.getArguments())
      input.setType(named(typeOf(input), graph.getInputName(input.getArgNumber())));
    for (mlir::Operation &op : block.without_terminator())
      if (failed(inferResults(&op)) || failed(require(&op)))
        return failure();
    if (failed(keepPromises()))
      return failure();

    mlir::MLIRContext *context = graph.getContext();
    auto asAttribute = [](auto attribute) -> mlir::Attribute { return attribute; };
    if (!declarations.empty())
      graph.setDimsAttr(mlir::ArrayAttr::get(context, llvm::map_to_vector(declarations, asAttribute)));
    if (!constraints.empty())
      graph.setConstraintsAttr(mlir::ArrayAttr::get(context, llvm::map_to_vector(constraints, asAttribute)));
    return success();
  }

private:
  /// `type` with a new name for each dim that has none, `<what>_<axis>`.
  RankedTensorType named(RankedTensorType type, llvm::StringRef what) {
    ir::TensorShape shape = ir::getShape(type);
    if (shape.isKnown())
      return type;
    for (auto [axis, dim] : llvm::enumerate(shape.dims))
      if (ir::isUnknown(dim))
        dim = DimExpr::symbol(declare((what + "_" + llvm::Twine(axis)).str()));
    return typeLike(type, type.getShape(), shape.dims);
  }

  std::string declare(std::string name) {
    while (!names.insert(name).second)
      name += "_";
    declarations.push_back(ir::DimDeclAttr::get(graph.getContext(), name, /*min=*/0, /*max=*/INT64_MAX, /*multiple=*/1,
                                                /*likely=*/{}, /*bound=*/std::nullopt));
    facts.declare(name, 0, INT64_MAX, 1);
    return name;
  }

  LogicalResult inferResults(mlir::Operation *op) {
    if (auto param = llvm::dyn_cast<ir::ParamOp>(op))
      param.getResult().setType(named(typeOf(param.getResult()), param.getName()));
    if (auto reshape = llvm::dyn_cast<ir::ReshapeOp>(op); reshape && failed(solveReshape(reshape)))
      return failure();

    if (llvm::isa<ir::ShapeFunctionOpInterface>(op)) {
      llvm::SmallVector<RankedTensorType> types;
      if (failed(ir::inferResultTypes(op, types)))
        return failure();
      for (auto [result, type] : llvm::zip_equal(op->getResults(), types)) {
        ir::TensorShape inferred = ir::getShape(type), stated = ir::getShape(typeOf(result));
        if (!inferred.isKnown())
          return unknown(op, result);
        if (inferred.rank() != stated.rank())
          return op->emitError(nodeName(op)) << ": the result is stated as " << ir::toString(stated.dims)
                                             << ", but its operands give " << ir::toString(inferred.dims);
        // What the text states beyond the shape function is a promise, to be checked when sizes are bound.
        for (auto [axis, pair] : llvm::enumerate(llvm::zip_equal(stated.dims, inferred.dims)))
          if (failed(promise(op, std::get<0>(pair), std::get<1>(pair),
                             nodeName(op) + ": axis " + std::to_string(axis) + " of the result is stated as " +
                                 std::get<0>(pair).str())))
            return failure();
        result.setType(type);
      }
    }
    for (Value result : op->getResults())
      if (!ir::getShape(typeOf(result)).isKnown())
        return unknown(op, result);
    return success();
  }

  LogicalResult unknown(mlir::Operation *op, Value result) {
    mlir::InFlightDiagnostic diagnostic = op->emitError(nodeName(op)) << ": a dim of the result stays unknown";
    diagnostic.attachNote() << "the result is " << ir::toString(ir::getShape(typeOf(result)).dims)
                            << "; give its type an encoding #rlx.dims<[...]>";
    return diagnostic;
  }

  /// One unknown dim of a reshape is what the element count leaves for it.
  LogicalResult solveReshape(ir::ReshapeOp op) {
    ir::TensorShape input = ir::getShape(op.getInput().getType()), result = ir::getShape(op.getType());
    if (result.isKnown() || !input.isKnown() || llvm::count_if(result.dims, ir::isUnknown) != 1)
      return success();
    DimExpr others = 1;
    DimExpr *open = nullptr;
    for (DimExpr &dim : result.dims) {
      if (ir::isUnknown(dim))
        open = &dim;
      else
        others = others * dim;
    }
    if (others == DimExpr(0))
      return op.emitError(nodeName(op)) << ": the open dim of " << ir::toString(result.dims)
                                        << " could be anything, because the others hold no element";
    DimExpr elements = input.elements();
    std::optional<DimExpr> quotient = elements.exactQuotient(others);
    if (!quotient && elements.isConstant() && others.isConstant())
      return op.emitError(nodeName(op)) << ": " << elements.str() << " elements of " << ir::toString(input.dims)
                                        << " do not divide into " << ir::toString(result.dims);
    *open = quotient ? *quotient : DimExpr::floorDiv(elements, others);
    Binding binding = graph.getBinding();
    op.getResult().setType(ir::makeType(graph.getContext(), result, &binding));
    return success();
  }

  LogicalResult promise(mlir::Operation *op, const DimExpr &stated, const DimExpr &inferred, std::string message) {
    if (ir::isUnknown(stated) || stated == inferred)
      return success();
    return record(op, {DimPredicate{DimPredicate::Kind::Equal, stated, inferred}, std::move(message)});
  }

  /// Takes `requirement` into the graph's constraints where it is not already certain.
  LogicalResult record(mlir::Operation *op, const ir::Requirement &requirement) {
    std::optional<bool> known = facts.prove(requirement.predicate);
    if (known && *known)
      return success();
    if (known)
      return op->emitError(requirement.message) << ": " << requirement.predicate.str() << " holds for no sizes";
    facts.learn(requirement.predicate, true);
    constraints.insert(ir::ConstraintAttr::get(graph.getContext(), requirement.predicate, requirement.message));
    return success();
  }

  LogicalResult require(mlir::Operation *op) {
    llvm::SmallVector<ir::Requirement> requirements;
    if (auto shaped = llvm::dyn_cast<ir::ShapeFunctionOpInterface>(op))
      shaped.collectRequirements(requirements);
    // The message outlives the op: it has to name the node by itself.
    std::string node = nodeName(op);
    bool named = node != op->getName().getStringRef();
    for (ir::Requirement &requirement : requirements) {
      if (named)
        requirement.message = node + ": " + requirement.message;
      if (failed(record(op, requirement)))
        return failure();
    }
    return success();
  }

  /// The graph's result types: what they leave open is filled in, what they state beyond the values is recorded.
  LogicalResult keepPromises() {
    ir::OutputOp output = graph.getOutput();
    llvm::SmallVector<mlir::Type> results;
    for (auto [index, value] : llvm::enumerate(output.getValues())) {
      auto stated = llvm::cast<RankedTensorType>(graph.getResultTypes()[index]);
      ir::TensorShape promised = ir::getShape(stated), found = ir::getShape(typeOf(value));
      if (!promised.isKnown()) {
        if (promised.rank() != found.rank())
          return output.emitError("output '")
                 << graph.getOutputName(index) << "': stated as " << ir::toString(promised.dims) << ", but it is "
                 << ir::toString(found.dims);
        results.push_back(value.getType());
        continue;
      }
      results.push_back(stated);
      // Unit axes may differ: the elements are the same.
      auto isUnit = [](const DimExpr &dim) { return dim == DimExpr(1); };
      if (promised.rank() != found.rank()) {
        llvm::erase_if(promised.dims, isUnit);
        llvm::erase_if(found.dims, isUnit);
      }
      if (promised.rank() != found.rank())
        return output.emitError("output '")
               << graph.getOutputName(index) << "': stated as " << ir::toString(ir::getShape(stated).dims)
               << ", but it is " << ir::toString(ir::getShape(typeOf(value)).dims);
      for (auto [a, b] : llvm::zip_equal(promised.dims, found.dims))
        if (failed(promise(output, a, b, "output '" + graph.getOutputName(index) + "' is stated as " + a.str())))
          return failure();
    }
    graph.setFunctionTypeAttr(mlir::TypeAttr::get(
        mlir::FunctionType::get(graph.getContext(), graph.getBody().front().getArgumentTypes(), results)));
    return success();
  }

  ir::GraphOp graph;
  DimFacts facts;
  llvm::SmallVector<ir::DimDeclAttr> declarations;
  std::set<std::string> names;
  llvm::SetVector<ir::ConstraintAttr> constraints;
};

struct InferDims : impl::InferDimsBase<InferDims> {
  void runOnOperation() override {
    if (failed(Inference(getOperation()).run()))
      signalPassFailure();
  }
};

} // namespace
} // namespace rlx::transforms
