//===- BindDims.cpp - sizes beside names ----------------------------------===//
#include "Shapes.h"

#include "rlx/Transforms/Passes.h"

#include "llvm/ADT/StringExtras.h"

using llvm::StringRef;
using mlir::failure;
using mlir::LogicalResult;
using mlir::RankedTensorType;
using mlir::success;

namespace rlx::transforms {

#define GEN_PASS_DEF_BINDDIMS
#include "rlx/Transforms/Passes.h.inc"

namespace {

/// "name=size" texts as a binding. The last '=' separates: a name may hold others.
LogicalResult parseBinding(mlir::Operation *op, llvm::ArrayRef<std::string> texts, Binding &binding) {
  for (StringRef text : texts) {
    auto [name, number] = text.rsplit('=');
    int64_t size = 0;
    if (name.empty() || name.size() == text.size())
      return op->emitError("rlx-bind-dims: '") << text << "' is not of the form name=size";
    if (number.getAsInteger(10, size))
      return op->emitError("rlx-bind-dims: the size of dim '")
             << name << "', '" << number << "', is not a 64-bit integer";
    auto [place, inserted] = binding.emplace(name.str(), size);
    if (!inserted && place->second != size)
      return op->emitError("rlx-bind-dims: dim '") << name << "' is given as " << place->second << " and as " << size;
  }
  return success();
}

/// `dim` with its size, when the declaration allows that.
mlir::FailureOr<ir::DimDeclAttr> bind(ir::GraphOp graph, ir::DimDeclAttr dim, int64_t size) {
  auto error = [&] { return graph.emitError("dim '") << dim.getName() << "': size " << size; };
  if (size < 0)
    return error() << " is negative";
  if (size < dim.getMin())
    return error() << " is below the declared minimum " << dim.getMin();
  if (size > dim.getMax())
    return error() << " is above the declared maximum " << dim.getMax();
  if (size % dim.getMultiple() != 0)
    return error() << " is not a multiple of " << dim.getMultiple();
  if (dim.getBound() && *dim.getBound() != size)
    return error() << " differs from " << *dim.getBound() << ", which it is bound to already";
  return ir::DimDeclAttr::get(graph.getContext(), dim.getName(), dim.getMin(), dim.getMax(), dim.getMultiple(),
                              dim.getLikely(), size);
}

LogicalResult bindGraph(ir::GraphOp graph, const Binding &binding) {
  llvm::SmallVector<mlir::Attribute> dims;
  for (ir::DimDeclAttr dim : graph.getDimDecls()) {
    auto size = binding.find(std::string_view(dim.getName()));
    if (size == binding.end()) {
      dims.push_back(dim);
      continue;
    }
    mlir::FailureOr<ir::DimDeclAttr> bound = bind(graph, dim, size->second);
    if (failed(bound))
      return failure();
    dims.push_back(*bound);
  }
  if (dims.empty())
    return success();
  graph.setDimsAttr(mlir::ArrayAttr::get(graph.getContext(), dims));

  // Checked before the types change: the verifier would find some contradictions too, but not say which names they
  // come from.
  Binding sizes = graph.getBinding();
  for (mlir::Operation &op : graph.getBody().front())
    if (failed(checkRequirements(&op, sizes)))
      return failure();
  if (failed(checkConstraints(graph, sizes)))
    return failure();
  return rewriteTypes(graph, [&](mlir::Operation *op, RankedTensorType type) -> mlir::FailureOr<RankedTensorType> {
    Result<RankedTensorType> bound = boundType(type, sizes);
    if (!bound)
      return op->emitError(nodeName(op)) << ": " << bound.error().message;
    return *bound;
  });
}

struct BindDims : impl::BindDimsBase<BindDims> {
  using BindDimsBase::BindDimsBase;
  explicit BindDims(const Binding &binding) : given(binding) {}

  void runOnOperation() override {
    Binding binding = given;
    if (failed(parseBinding(getOperation(), dims, binding)) || failed(bindModule(binding)))
      signalPassFailure();
  }

private:
  LogicalResult bindModule(const Binding &binding) {
    llvm::SmallVector<ir::GraphOp> graphs;
    std::set<std::string> declared;
    getOperation().walk([&](ir::GraphOp graph) {
      graphs.push_back(graph);
      for (ir::DimDeclAttr dim : graph.getDimDecls())
        declared.insert(dim.getName().str());
    });
    // A name that nothing declares is most likely a typing error, so it is never ignored.
    for (const auto &[name, size] : binding)
      if (!declared.contains(name)) {
        mlir::Operation *place = graphs.size() == 1 ? graphs.front().getOperation() : getOperation().getOperation();
        mlir::InFlightDiagnostic diagnostic = place->emitError("no dim is named '") << name << "'";
        if (declared.empty())
          diagnostic << "; no dim has a name (rlx-infer-dims names those of inputs)";
        else
          diagnostic << "; dims are " << llvm::join(declared, ", ");
        return diagnostic;
      }
    for (ir::GraphOp graph : graphs)
      if (failed(bindGraph(graph, binding)))
        return failure();
    return success();
  }

  Binding given;
};

} // namespace

std::unique_ptr<mlir::Pass> createBindDims(const Binding &binding) { return std::make_unique<BindDims>(binding); }

} // namespace rlx::transforms
