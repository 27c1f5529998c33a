//===- StructureOps.cpp - graphs, constants, weights, kernels -------------===//

#include "ShapeFunctions.h"

#include "mlir/Interfaces/FunctionImplementation.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

#include <set>

using namespace mlir;
using namespace rlx;
using namespace rlx::ir;
using namespace rlx::ir::detail;

//===----------------------------------------------------------------------===//
// GraphOp
//===----------------------------------------------------------------------===//

void GraphOp::build(OpBuilder &builder, OperationState &state, StringRef name, FunctionType type) {
  state.addAttribute(SymbolTable::getSymbolAttrName(), builder.getStringAttr(name));
  state.addAttribute(getFunctionTypeAttrName(state.name), TypeAttr::get(type));
  Region *body = state.addRegion();
  Block &block = body->emplaceBlock();
  for (Type input : type.getInputs())
    block.addArgument(input, state.location);
}

ParseResult GraphOp::parse(OpAsmParser &parser, OperationState &result) {
  auto buildType = [](Builder &builder, ArrayRef<Type> inputs, ArrayRef<Type> results,
                      function_interface_impl::VariadicFlag,
                      std::string &) -> Type { return builder.getFunctionType(inputs, results); };
  return function_interface_impl::parseFunctionOp(parser, result, /*allowVariadic=*/false,
                                                  getFunctionTypeAttrName(result.name), buildType,
                                                  getArgAttrsAttrName(result.name), getResAttrsAttrName(result.name));
}

void GraphOp::print(OpAsmPrinter &printer) {
  function_interface_impl::printFunctionOp(printer, *this, /*isVariadic=*/false, getFunctionTypeAttrName(),
                                           getArgAttrsAttrName(), getResAttrsAttrName());
}

std::string GraphOp::getInputName(unsigned i) {
  if (auto name = getArgAttrOfType<StringAttr>(i, getNameAttrName()))
    return name.str();
  return "input" + std::to_string(i);
}

std::string GraphOp::getOutputName(unsigned i) {
  if (auto name = getResultAttrOfType<StringAttr>(i, getNameAttrName()))
    return name.str();
  return "output" + std::to_string(i);
}

SmallVector<DimDeclAttr> GraphOp::getDimDecls() {
  SmallVector<DimDeclAttr> decls;
  if (ArrayAttr dims = getDimsAttr())
    for (Attribute dim : dims)
      if (auto decl = dyn_cast<DimDeclAttr>(dim))
        decls.push_back(decl);
  return decls;
}

SmallVector<ConstraintAttr> GraphOp::getConstraintList() {
  SmallVector<ConstraintAttr> list;
  if (ArrayAttr constraints = getConstraintsAttr())
    for (Attribute attribute : constraints)
      if (auto constraint = dyn_cast<ConstraintAttr>(attribute))
        list.push_back(constraint);
  return list;
}

DimFacts GraphOp::getFacts() {
  DimFacts facts;
  for (DimDeclAttr decl : getDimDecls())
    facts.declare(decl.getName().str(), decl.getMin(), decl.getMax(), decl.getMultiple());
  for (ConstraintAttr constraint : getConstraintList())
    facts.learn(constraint.getPredicate(), true);
  return facts;
}

Binding GraphOp::getBinding() {
  Binding binding;
  for (DimDeclAttr decl : getDimDecls())
    if (decl.getBound())
      binding.emplace(decl.getName().str(), *decl.getBound());
  return binding;
}

OutputOp GraphOp::getOutput() { return cast<OutputOp>(getBody().front().getTerminator()); }

/// An error where public names are no strings, empty, or given twice.
static LogicalResult verifyNames(GraphOp graph, ArrayAttr attributes, size_t count, StringRef what,
                                 function_ref<std::string(unsigned)> nameOf) {
  llvm::StringSet<> seen;
  for (size_t i = 0; i < count; ++i) {
    auto entry = attributes ? dyn_cast<DictionaryAttr>(attributes[i]) : DictionaryAttr();
    if (Attribute name = entry ? entry.get(GraphOp::getNameAttrName()) : Attribute())
      if (auto text = dyn_cast<StringAttr>(name); !text || text.empty())
        return graph.emitOpError() << "the name of " << what << " " << i << " is not a string, or is empty";
    if (!seen.insert(nameOf(i)).second)
      return graph.emitOpError() << "two " << what << "s are named '" << nameOf(i) << "'";
  }
  return success();
}

LogicalResult GraphOp::verify() {
  FunctionType type = getFunctionType();
  auto isTensor = [](Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    return tensor && toElementType(tensor.getElementType()) &&
           (!tensor.getEncoding() || isa<DimsAttr>(tensor.getEncoding()));
  };
  for (auto [i, input] : llvm::enumerate(type.getInputs()))
    if (!isTensor(input))
      return emitOpError() << "input " << i << " is no tensor of an rlx element type: " << input;
  for (auto [i, result] : llvm::enumerate(type.getResults()))
    if (!isTensor(result))
      return emitOpError() << "output " << i << " is no tensor of an rlx element type: " << result;

  if (failed(verifyNames(*this, getArgAttrsAttr(), type.getNumInputs(), "input",
                         [&](unsigned i) { return getInputName(i); })) ||
      failed(verifyNames(*this, getResAttrsAttr(), type.getNumResults(), "output",
                         [&](unsigned i) { return getOutputName(i); })))
    return failure();

  llvm::StringSet<> declared;
  if (ArrayAttr dims = getDimsAttr())
    for (Attribute attribute : dims) {
      auto decl = dyn_cast<DimDeclAttr>(attribute);
      if (!decl)
        return emitOpError() << "'dims' holds what is no #rlx.dim: " << attribute;
      if (!declared.insert(decl.getName()).second)
        return emitOpError() << "dim '" << decl.getName() << "' is declared twice";
    }
  if (ArrayAttr constraints = getConstraintsAttr())
    for (Attribute attribute : constraints) {
      auto constraint = dyn_cast<ConstraintAttr>(attribute);
      if (!constraint)
        return emitOpError() << "'constraints' holds what is no #rlx.constraint: " << attribute;
      std::set<std::string> names;
      constraint.getPredicate().lhs.collectNames(names);
      constraint.getPredicate().rhs.collectNames(names);
      for (const std::string &name : names)
        if (!declared.contains(name))
          return emitOpError() << "dim '" << name << "' of a constraint is not declared";
    }
  return success();
}

namespace {

/// Checks what the types inside a graph say against what the graph declares.
struct GraphChecker {
  GraphOp graph;
  Binding binding = graph.getBinding();
  std::set<std::string> declared = {}, solvable = {};

  explicit GraphChecker(GraphOp graph) : graph(graph) {
    for (DimDeclAttr decl : graph.getDimDecls())
      declared.insert(decl.getName().str());
  }

  LogicalResult checkNames(ArrayRef<DimExpr> dims, Operation *at) {
    std::set<std::string> names;
    for (const DimExpr &dim : dims)
      dim.collectNames(names);
    for (const std::string &name : names)
      if (!declared.count(name))
        return at->emitOpError() << "dim '" << name << "' is not declared by the graph";
    return success();
  }

  LogicalResult checkType(Type type, Operation *at) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor)
      return success();
    int64_t bytes = elementBytes(tensor.getElementType());
    bool empty = llvm::is_contained(tensor.getShape(), 0);
    for (int64_t size : tensor.getShape())
      if (!ShapedType::isDynamic(size) && !empty && llvm::MulOverflow(bytes, size, bytes))
        return at->emitOpError() << "a tensor's size overflows: " << tensor;
    Attribute encoding = tensor.getEncoding();
    if (!encoding)
      return success();
    auto dims = dyn_cast<DimsAttr>(encoding);
    if (!dims)
      return at->emitOpError() << "a tensor's encoding is no #rlx.dims: " << tensor;
    if (failed(checkNames(dims.getDims(), at)))
      return failure();
    for (auto [axis, size] : llvm::enumerate(tensor.getShape()))
      if (!ShapedType::isDynamic(size))
        if (Result<int64_t> value = dims.getDims()[axis].evaluate(binding); value && *value != size)
          return at->emitOpError() << "axis " << axis << " has size " << size << ", but " << dims.getDims()[axis].str()
                                   << " is " << *value;
    return success();
  }

  void addSolvable(Type type) {
    if (auto tensor = dyn_cast<RankedTensorType>(type))
      for (const DimExpr &dim : getShape(tensor).dims)
        dim.collectNames(solvable);
  }
};

} // namespace

LogicalResult GraphOp::verifyRegions() {
  auto output = dyn_cast<OutputOp>(getBody().front().back());
  if (!output)
    return emitOpError() << "does not end in rlx.output";
  GraphChecker checker(*this);
  for (Type type : getArgumentTypes()) {
    if (failed(checker.checkType(type, *this)))
      return failure();
    checker.addSolvable(type);
  }
  llvm::StringMap<Type> params;
  WalkResult walked = getBody().walk([&](Operation *op) {
    for (Type type : op->getResultTypes())
      if (failed(checker.checkType(type, op)))
        return WalkResult::interrupt();
    for (NamedAttribute attribute : op->getAttrs())
      if (auto dims = dyn_cast<DimsAttr>(attribute.getValue()))
        if (failed(checker.checkNames(dims.getDims(), op)))
          return WalkResult::interrupt();
    if (auto param = dyn_cast<ParamOp>(op)) {
      checker.addSolvable(param.getType());
      // One slot, one value.
      Type type = params.try_emplace(param.getName(), param.getType()).first->second;
      if (type != param.getType()) {
        param.emitOpError() << "'" << param.getName() << "' is " << param.getType() << " here and " << type
                            << " before";
        return WalkResult::interrupt();
      }
    }
    return WalkResult::advance();
  });
  if (walked.wasInterrupted())
    return failure();
  for (auto [i, type] : llvm::enumerate(getResultTypes())) {
    if (failed(checker.checkType(type, *this)))
      return failure();
    std::set<std::string> names;
    for (const DimExpr &dim : getShape(cast<RankedTensorType>(type)).dims)
      if (!isUnknown(dim))
        dim.collectNames(names);
    for (const std::string &name : names)
      if (!checker.solvable.count(name))
        return emitOpError() << "dim '" << name << "' occurs only in outputs (of '" << getOutputName(i) << "')";
  }
  return success();
}

//===----------------------------------------------------------------------===//
// OutputOp
//===----------------------------------------------------------------------===//

/// Sizes but for those that are 1.
static SmallVector<DimExpr> withoutUnits(const TensorShape &shape) {
  SmallVector<DimExpr> dims;
  for (const DimExpr &dim : shape.dims)
    if (dim.constant() != 1)
      dims.push_back(dim);
  return dims;
}

LogicalResult OutputOp::verify() {
  GraphOp graph = cast<GraphOp>((*this)->getParentOp());
  ArrayRef<Type> promised = graph.getResultTypes();
  if (promised.size() != getNumOperands())
    return emitOpError() << "has " << getNumOperands() << " values, but the graph promises " << promised.size();
  for (auto [i, value] : llvm::enumerate(getValues())) {
    auto type = cast<RankedTensorType>(value.getType());
    auto declared = dyn_cast<RankedTensorType>(promised[i]);
    if (!declared)
      continue; // the graph's own verifier reports it
    if (type.getElementType() != declared.getElementType())
      return emitOpError() << "'" << graph.getOutputName(i) << "' is promised as " << declared.getElementType()
                           << " but its value is " << type.getElementType();
    // A single `[1]` for `[]` is the same elements; so are other unit axes.
    auto mayEqual = [](ArrayRef<DimExpr> a, ArrayRef<DimExpr> b) {
      return a.size() == b.size() && llvm::none_of(llvm::zip_equal(a, b), [](auto pair) {
               return certainlyDiffer(std::get<0>(pair), std::get<1>(pair));
             });
    };
    TensorShape has = getBoundShape(type), wants = getBoundShape(declared);
    bool fits = mayEqual(has.dims, wants.dims) || mayEqual(withoutUnits(has), withoutUnits(wants));
    if (!fits)
      return emitOpError() << "'" << graph.getOutputName(i) << "' is promised as "
                           << toString(getBoundShape(declared).dims) << " but its value has sizes "
                           << toString(getBoundShape(type).dims);
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Leaves
//===----------------------------------------------------------------------===//

void ConstantOp::build(OpBuilder &builder, OperationState &state, ElementsAttr value) {
  build(builder, state, value.getType(), value);
}

OpFoldResult ConstantOp::fold(FoldAdaptor) { return getValue(); }

LogicalResult ConstantOp::verify() {
  auto type = dyn_cast<RankedTensorType>(getValue().getType());
  if (!isa<DenseElementsAttr>(getValue()) || !type || type.getEncoding())
    return emitOpError() << "its value is no dense tensor without encoding";
  if (type.getElementType() != getType().getElementType() || type.getShape() != getType().getShape())
    return emitOpError() << "value of type " << type << " for a result of type " << getType();
  return success();
}

LogicalResult WeightOp::verify() {
  if (getRow().empty())
    return emitOpError() << "the row's name is empty";
  if (!getType().hasStaticShape())
    return emitOpError() << "'" << getRow() << "' has sizes that are no numbers";
  return success();
}

LogicalResult ParamOp::verify() {
  if (getName().empty())
    return emitOpError() << "the param's name is empty";
  return success();
}

LogicalResult DimValuesOp::verify() {
  int64_t count = getValues().size();
  RankedTensorType type = getType();
  if (type.getRank() == 0 ? count != 1 : type.getRank() != 1 || type.getDimSize(0) != count)
    return emitOpError() << count << " values for a result of type " << type;
  return success();
}

OpFoldResult DimValuesOp::fold(FoldAdaptor) {
  SmallVector<int64_t> numbers;
  for (const DimExpr &dim : getValues().getDims()) {
    std::optional<int64_t> number = dim.constant();
    if (!number)
      return getValues();
    numbers.push_back(*number);
  }
  return DenseElementsAttr::get(RankedTensorType::get(getType().getShape(), getType().getElementType()),
                                ArrayRef(numbers));
}

LogicalResult DimValuesOp::canonicalize(DimValuesOp op, PatternRewriter &rewriter) {
  auto numbers = dyn_cast<DenseElementsAttr>(cast<Attribute>(op.fold(FoldAdaptor({}, op))));
  if (!numbers)
    return failure();
  rewriter.replaceOpWithNewOp<ConstantOp>(op, op.getType(), numbers);
  return success();
}

Value rlx::ir::createDimValues(OpBuilder &builder, Location location, ArrayRef<DimExpr> dims, bool scalar) {
  assert((!scalar || dims.size() == 1) && "a scalar is one size");
  SmallVector<int64_t, 1> shape;
  if (!scalar)
    shape.push_back(dims.size());
  auto type = RankedTensorType::get(shape, builder.getI64Type());
  SmallVector<int64_t> numbers;
  for (const DimExpr &dim : dims)
    if (std::optional<int64_t> number = dim.constant())
      numbers.push_back(*number);
  if (numbers.size() == dims.size())
    return ConstantOp::create(builder, location, DenseElementsAttr::get(type, ArrayRef(numbers)));
  return DimValuesOp::create(builder, location, type, DimsAttr::get(builder.getContext(), dims));
}

std::optional<SmallVector<DimExpr>> rlx::ir::getDimValues(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!type || type.getRank() > 1 || !type.getElementType().isInteger(64) || type.getElementType().isUnsignedInteger())
    return std::nullopt;
  if (auto dims = value.getDefiningOp<DimValuesOp>())
    return SmallVector<DimExpr>(dims.getValues().getDims());
  auto constant = value.getDefiningOp<ConstantOp>();
  auto elements = constant ? dyn_cast<DenseIntElementsAttr>(constant.getValue()) : DenseIntElementsAttr();
  if (!elements || elements.getNumElements() > 1024)
    return std::nullopt;
  SmallVector<DimExpr> dims;
  for (const APInt &number : elements.getValues<APInt>())
    dims.push_back(number.getSExtValue());
  return dims;
}

//===----------------------------------------------------------------------===//
// KernelOp
//===----------------------------------------------------------------------===//

LogicalResult KernelOp::verifyRegions() {
  Block &body = getBody().front();
  if (body.getArgumentTypes() != getInputs().getTypes())
    return emitOpError() << "the types of the region's arguments are not those of the inputs";
  auto yield = dyn_cast<YieldOp>(body.back());
  if (!yield)
    return emitOpError() << "does not end in rlx.yield";
  if (yield.getValues().getTypes() != getResultTypes())
    return yield.emitOpError() << "the types yielded are not those of the kernel's results";
  return success();
}
