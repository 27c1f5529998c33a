//===- SyncShapes.cpp - shapes that agree with the sizes bound ------------===//
#include "Shapes.h"

#include "rlx/Transforms/Passes.h"

using mlir::failure;
using mlir::LogicalResult;
using mlir::RankedTensorType;
using mlir::ShapedType;
using mlir::success;
using mlir::Value;

namespace rlx::transforms {

#define GEN_PASS_DEF_SYNCSHAPES
#include "rlx/Transforms/Passes.h.inc"

namespace {

std::string showSizes(llvm::ArrayRef<int64_t> shape) {
  llvm::SmallVector<DimExpr> dims;
  for (int64_t size : shape)
    dims.push_back(ShapedType::isDynamic(size) ? ir::unknownDim() : DimExpr(size));
  return ir::toString(dims);
}

/// The work on one graph.
class Synchronizer {
public:
  explicit Synchronizer(ir::GraphOp graph) : graph(graph), binding(graph.getBinding()) {}

  LogicalResult run() {
    mlir::Block &block = graph.getBody().front();
    for (Value input : block.getArguments())
      if (failed(bindResult(graph, input)))
        return failure();
    for (mlir::Operation &op : block.without_terminator())
      if (failed(checkRequirements(&op, binding)) || failed(syncResults(&op)))
        return failure();
    // After the ops', so that a requirement that an op has too is reported where it arises.
    return failure(failed(checkConstraints(graph, binding)) || failed(syncSignature()));
  }

private:
  mlir::FailureOr<RankedTensorType> bound(mlir::Operation *op, RankedTensorType type) {
    Result<RankedTensorType> result = boundType(type, binding);
    if (!result)
      return op->emitError(nodeName(op)) << ": " << result.error().message;
    return *result;
  }

  LogicalResult bindResult(mlir::Operation *op, Value value) {
    mlir::FailureOr<RankedTensorType> type = bound(op, typeOf(value));
    if (succeeded(type))
      value.setType(*type);
    return type;
  }

  LogicalResult syncResults(mlir::Operation *op) {
    if (op->getNumRegions() != 0)
      return rewriteTypes(op, [&](mlir::Operation *inner, RankedTensorType type) { return bound(inner, type); });
    if (!llvm::isa<ir::ShapeFunctionOpInterface>(op)) {
      for (Value result : op->getResults())
        if (failed(bindResult(op, result)))
          return failure();
      return success();
    }

    llvm::SmallVector<RankedTensorType> types;
    if (failed(ir::inferResultTypes(op, types, &binding)))
      return failure();
    for (auto [result, type] : llvm::zip_equal(op->getResults(), types)) {
      mlir::FailureOr<RankedTensorType> stated = bound(op, typeOf(result)), inferred = bound(op, type);
      if (failed(stated) || failed(inferred))
        return failure();
      if (failed(agree(*stated, *inferred)))
        return op->emitError(nodeName(op))
               << ": the result is stated as " << showSizes(stated->getShape()) << ", but its operands give "
               << showSizes(inferred->getShape()) << " = " << ir::toString(ir::getShape(*inferred).dims);
      result.setType(*inferred);
    }
    return success();
  }

  static LogicalResult agree(RankedTensorType a, RankedTensorType b) {
    if (a.getRank() != b.getRank())
      return failure();
    for (auto [x, y] : llvm::zip_equal(a.getShape(), b.getShape()))
      if (!ShapedType::isDynamic(x) && !ShapedType::isDynamic(y) && x != y)
        return failure();
    return success();
  }

  LogicalResult syncSignature() {
    ir::OutputOp output = graph.getOutput();
    llvm::SmallVector<mlir::Type> results;
    for (auto [index, value] : llvm::enumerate(output.getValues())) {
      mlir::FailureOr<RankedTensorType> promised =
          bound(graph, llvm::cast<RankedTensorType>(graph.getResultTypes()[index]));
      if (failed(promised))
        return failure();
      RankedTensorType found = typeOf(value);
      if (promised->getRank() == found.getRank()) {
        if (failed(agree(*promised, found)))
          return output.emitError("output '")
                 << graph.getOutputName(index) << "': stated as " << showSizes(promised->getShape()) << ", but it is "
                 << showSizes(found.getShape());
        // Where the promise left a dim open and the value does not, the value says it.
        if (!promised->hasStaticShape() && !ir::getShape(*promised).isKnown())
          promised = found;
      }
      results.push_back(*promised);
    }
    graph.setFunctionTypeAttr(mlir::TypeAttr::get(
        mlir::FunctionType::get(graph.getContext(), graph.getBody().front().getArgumentTypes(), results)));
    return success();
  }

  ir::GraphOp graph;
  Binding binding;
};

struct SyncShapes : impl::SyncShapesBase<SyncShapes> {
  void runOnOperation() override {
    if (failed(Synchronizer(getOperation()).run()))
      signalPassFailure();
  }
};

} // namespace
} // namespace rlx::transforms
