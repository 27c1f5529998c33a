//===- Node.cpp - what a handler sees of a node ---------------------------===//
#include "Node.h"
#include "Importer.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/Twine.h"

#include <cmath>
#include <limits>

using namespace rlx;
using namespace rlx::onnx_import;
using llvm::Twine;

Node::Node(Importer &importer, Scope &scope, const ::onnx::NodeProto &proto, std::string name, int opset)
    : importer(importer), scope(scope), node(proto), nodeName(std::move(name)), version(opset) {}

mlir::OpBuilder &Node::builder() { return importer.builder; }
mlir::Location Node::loc() { return importer.loc; }
mlir::MLIRContext *Node::context() { return importer.builder.getContext(); }

//===----------------------------------------------------------------------===//
// The node itself
//===----------------------------------------------------------------------===//

StringRef Node::opType() const { return node.op_type(); }
size_t Node::numInputs() const { return node.input_size(); }
size_t Node::numOutputs() const { return node.output_size(); }

bool Node::has(size_t i) const {
  asked = std::max(asked, i + 1);
  if (i >= numInputs() || node.input(static_cast<int>(i)).empty())
    return false;
  for (const Scope *at = &scope; at; at = at->parent)
    if (at->absent.contains(node.input(static_cast<int>(i))))
      return false;
  return true;
}

bool Node::wants(size_t i) const { return i < numOutputs() && !node.output(static_cast<int>(i)).empty(); }

Value Node::in(size_t i) {
  if (!has(i))
    return invalid("input " + Twine(i) + " is missing");
  bool missing;
  return importer.lookup(scope, node.input(static_cast<int>(i)), missing);
}

void Node::out(size_t i, Value value) {
  if (!value) {
    if (!failure)
      unsupported("could not be built"); // a helper that gave up without a word
    return;
  }
  if (wants(i))
    scope.values[node.output(static_cast<int>(i))] = value;
}

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

const ::onnx::AttributeProto *Node::attribute(StringRef name, int type) {
  read.insert(name);
  for (const ::onnx::AttributeProto &attribute : node.attribute()) {
    if (attribute.name() != name)
      continue;
    const ::onnx::AttributeProto *actual = &attribute;
    if (!attribute.ref_attr_name().empty()) {
      actual = scope.arguments ? scope.arguments->lookup(attribute.ref_attr_name()) : nullptr;
      if (!actual)
        return nullptr; // the call leaves it out
    }
    // Very old files give no type; what is there then has to be taken for it.
    if (type != 0 && actual->has_type() && actual->type() != type) {
      invalid("attribute '" + name + "' has the wrong type");
      return nullptr;
    }
    return actual;
  }
  return nullptr;
}

bool Node::hasAttr(StringRef name) { return attribute(name, 0) != nullptr; }

int64_t Node::attrInt(StringRef name, int64_t otherwise) {
  const ::onnx::AttributeProto *found = attribute(name, ::onnx::AttributeProto::INT);
  return found ? found->i() : otherwise;
}

double Node::attrFloat(StringRef name, double otherwise) {
  const ::onnx::AttributeProto *found = attribute(name, ::onnx::AttributeProto::FLOAT);
  return found ? found->f() : otherwise;
}

std::string Node::attrString(StringRef name, StringRef otherwise) {
  const ::onnx::AttributeProto *found = attribute(name, ::onnx::AttributeProto::STRING);
  return found ? found->s() : otherwise.str();
}

std::optional<SmallVector<int64_t>> Node::attrInts(StringRef name) {
  const ::onnx::AttributeProto *found = attribute(name, ::onnx::AttributeProto::INTS);
  if (!found)
    return std::nullopt;
  return SmallVector<int64_t>(found->ints().begin(), found->ints().end());
}

std::optional<SmallVector<double>> Node::attrFloats(StringRef name) {
  const ::onnx::AttributeProto *found = attribute(name, ::onnx::AttributeProto::FLOATS);
  if (!found)
    return std::nullopt;
  return SmallVector<double>(found->floats().begin(), found->floats().end());
}

const ::onnx::TensorProto *Node::attrTensor(StringRef name) {
  const ::onnx::AttributeProto *found = attribute(name, ::onnx::AttributeProto::TENSOR);
  return found && found->has_t() ? &found->t() : nullptr;
}

const ::onnx::GraphProto *Node::attrGraph(StringRef name) {
  const ::onnx::AttributeProto *found = attribute(name, ::onnx::AttributeProto::GRAPH);
  return found && found->has_g() ? &found->g() : nullptr;
}

void Node::checkInputs() {
  for (size_t i = asked; i < numInputs(); ++i)
    if (has(i))
      unsupported("input number " + Twine(i) + " ('" + node.input(static_cast<int>(i)) + "') is not supported");
}

void Node::checkAttrs() {
  for (const ::onnx::AttributeProto &attribute : node.attribute())
    if (!read.contains(attribute.name()))
      unsupported("attribute '" + attribute.name() + "' of " + node.op_type() + " is not supported");
}

//===----------------------------------------------------------------------===//
// Errors
//===----------------------------------------------------------------------===//

Value Node::unsupported(const Twine &reason) {
  failure = true;
  importer.report(ErrorCode::Unsupported, nodeName, (Twine(node.op_type()) + ": " + reason).str());
  return {};
}

Value Node::invalid(const Twine &reason) {
  failure = true;
  importer.report(ErrorCode::InvalidModel, nodeName, (Twine(node.op_type()) + ": " + reason).str());
  return {};
}

void Node::warn(const Twine &text) { importer.warnings.push_back(("node '" + Twine(nodeName) + "': " + text).str()); }

//===----------------------------------------------------------------------===//
// Shapes
//===----------------------------------------------------------------------===//

DimVector Node::dims(Value value) {
  if (!value)
    return {};
  return ir::getShape(llvm::cast<mlir::RankedTensorType>(value.getType())).dims;
}

int64_t Node::rank(Value value) { return value ? llvm::cast<mlir::RankedTensorType>(value.getType()).getRank() : 0; }

Type Node::element(Value value) {
  return value ? llvm::cast<mlir::RankedTensorType>(value.getType()).getElementType() : Type();
}

mlir::RankedTensorType Node::type(ArrayRef<DimExpr> dims, Type element) {
  if (!element)
    return {};
  return ir::makeType(context(), {SmallVector<DimExpr>(dims), element});
}

std::optional<int64_t> Node::axis(int64_t axis, int64_t rank) {
  if (axis >= -rank && axis < rank)
    return axis < 0 ? axis + rank : axis;
  invalid("axis " + Twine(axis) + " is out of range for rank " + Twine(rank));
  return std::nullopt;
}

std::optional<SmallVector<int64_t>> Node::axes(ArrayRef<int64_t> list, int64_t rank) {
  SmallVector<int64_t> result;
  for (int64_t entry : list) {
    std::optional<int64_t> normal = axis(entry, rank);
    if (!normal)
      return std::nullopt;
    if (llvm::is_contained(result, *normal)) {
      invalid("axis " + Twine(entry) + " is given twice");
      return std::nullopt;
    }
    result.push_back(*normal);
  }
  llvm::sort(result);
  return result;
}

DimExpr Node::product(ArrayRef<DimExpr> dims) {
  DimExpr result(1);
  for (const DimExpr &dim : dims)
    result = result * dim;
  return result;
}

std::optional<bool> Node::prove(DimPredicate::Kind kind, const DimExpr &lhs, const DimExpr &rhs) {
  return importer.facts.prove({kind, lhs, rhs});
}

bool Node::require(DimPredicate::Kind kind, const DimExpr &lhs, const DimExpr &rhs, const Twine &message) {
  DimPredicate predicate{kind, lhs, rhs};
  std::optional<bool> certain = importer.facts.prove(predicate);
  if (certain == true)
    return true;
  if (certain == false) {
    invalid(message + ", but " + predicate.str() + " is false");
    return false;
  }
  importer.addConstraint(std::move(predicate), ("node '" + Twine(nodeName) + "': " + message).str());
  return true;
}

DimExpr Node::simplify(const DimExpr &expr) { return importer.facts.simplify(expr); }

DimExpr Node::clamp(const DimExpr &x, const DimExpr &low, const DimExpr &high) {
  return simplify(DimExpr::min(simplify(DimExpr::max(x, low)), high));
}

bool Node::nonNegative(const DimExpr &expr) { return prove(DimPredicate::Kind::LessEqual, DimExpr(0), expr) == true; }

std::optional<DimExpr> Node::divideExactly(const DimExpr &a, const DimExpr &b, const Twine &what) {
  if (!require(DimPredicate::Kind::LessEqual, DimExpr(1), b, what + " divides " + a.str() + " by " + b.str()))
    return std::nullopt;
  if (std::optional<DimExpr> quotient = a.exactQuotient(b))
    return *quotient;
  if (!require(DimPredicate::Kind::Divisible, a, b, what + " divides " + a.str() + " by " + b.str()))
    return std::nullopt;
  return simplify(DimExpr::floorDiv(a, b));
}

std::optional<DimExpr> Node::truncatedQuotient(const DimExpr &a, const DimExpr &b) {
  std::optional<int64_t> x = a.constant(), y = b.constant();
  if ((y && *y == 0) || x == INT64_MIN)
    return std::nullopt; // a run-time error, or a wrap: the op's own business
  if (x && y)
    return *y == -1 ? DimExpr(0) - a : DimExpr(*x / *y);
  if (!nonNegative(b))
    return std::nullopt;
  std::optional<DimExpr> exact = a.exactQuotient(b);
  if (!exact && !nonNegative(a))
    return std::nullopt;
  if (!require(DimPredicate::Kind::LessEqual, DimExpr(1), b, "divides " + a.str() + " by " + b.str()))
    return std::nullopt;
  return exact ? *exact : simplify(DimExpr::floorDiv(a, b));
}

//===----------------------------------------------------------------------===//
// Known contents
//===----------------------------------------------------------------------===//

std::optional<DimVector> Node::content(Value value) { return importer.contents.find(value); }

void Node::recordContent(Value value, DimVector elements) {
  if (value)
    importer.contents.record(value, std::move(elements));
}

std::optional<DimVector> Node::shapeOperand(size_t i, StringRef operand, StringRef decides) {
  Value value = in(i);
  if (!value)
    return std::nullopt;
  std::optional<DimVector> known = content(value);
  if (!known)
    unsupported("operand '" + operand + "' decides " + decides + ", and is known only when the model runs");
  return known;
}

std::optional<SmallVector<int64_t>> Node::constantOperand(size_t i, StringRef operand, StringRef decides) {
  std::optional<DimVector> known = shapeOperand(i, operand, decides);
  if (!known)
    return std::nullopt;
  SmallVector<int64_t> numbers;
  for (const DimExpr &dim : *known) {
    std::optional<int64_t> number = dim.constant();
    if (!number) {
      unsupported("operand '" + operand + "' depends on the size " + dim.str() + "; it must be constant");
      return std::nullopt;
    }
    numbers.push_back(*number);
  }
  return numbers;
}

Value Node::fromContent(const DimVector &elements, ArrayRef<int64_t> shape, Type element) {
  if (!element)
    return {};
  auto resultType = mlir::RankedTensorType::get(shape, element);
  if (llvm::all_of(elements, [](const DimExpr &dim) { return dim.isConstant(); })) {
    mlir::DenseElementsAttr attr;
    if (auto floatType = llvm::dyn_cast<mlir::FloatType>(element)) {
      SmallVector<llvm::APFloat> values;
      for (const DimExpr &dim : elements) {
        llvm::APFloat value(floatType.getFloatSemantics());
        value.convertFromAPInt(llvm::APInt(64, static_cast<uint64_t>(*dim.constant())), /*IsSigned=*/true,
                               llvm::APFloat::rmNearestTiesToEven);
        values.push_back(value);
      }
      attr = mlir::DenseElementsAttr::get(resultType, values);
    } else {
      unsigned width = element.getIntOrFloatBitWidth();
      SmallVector<llvm::APInt> values;
      for (const DimExpr &dim : elements)
        values.push_back(llvm::APInt(64, static_cast<uint64_t>(*dim.constant())).trunc(width));
      attr = mlir::DenseElementsAttr::get(resultType, values);
    }
    return ir::ConstantOp::create(builder(), loc(), resultType, attr);
  }
  if (element.isInteger(1))
    return {}; // a condition that sizes do not decide
  Value value = ir::createDimValues(builder(), loc(), elements, /*scalar=*/shape.empty());
  if (shape.size() > 1)
    value = reshape(value, DimVector(shape.begin(), shape.end()));
  value = convert(value, element);
  recordContent(value, elements);
  return value;
}

Value Node::knownElementwise(ArrayRef<Value> operands, Type element,
                             llvm::function_ref<std::optional<DimExpr>(ArrayRef<DimExpr>)> compute) {
  if (!element)
    return {};
  SmallVector<DimVector> contents;
  SmallVector<ArrayRef<int64_t>> shapes;
  SmallVector<int64_t> shape;
  bool sizes = false;
  for (Value operand : operands) {
    std::optional<DimVector> known = content(operand);
    if (!known)
      return {};
    sizes |= llvm::any_of(*known, [](const DimExpr &dim) { return !dim.isConstant(); });
    contents.push_back(std::move(*known));
    shapes.push_back(llvm::cast<mlir::RankedTensorType>(operand.getType()).getShape());
    shape.resize(std::max(shape.size(), shapes.back().size()), 1);
  }
  // Arithmetic on float constants is the kernels' business, not ours.
  if (!sizes && (llvm::isa<mlir::FloatType>(element) || llvm::isa<mlir::FloatType>(this->element(operands.front()))))
    return {};
  for (ArrayRef<int64_t> operand : shapes)
    for (auto [i, size] : llvm::enumerate(operand)) {
      int64_t &joined = shape[shape.size() - operand.size() + i];
      if (size != 1 && joined != 1 && size != joined)
        return {}; // the op itself will say what is wrong
      joined = size == 1 ? joined : size;
    }
  std::optional<int64_t> count = elementCount(shape);
  if (!count || *count > Contents::maxElements)
    return {};

  DimVector result;
  SmallVector<int64_t> index(shape.size(), 0);
  for (int64_t position = 0; position < *count; ++position) {
    DimVector arguments;
    for (auto [operand, values] : llvm::zip(shapes, contents)) {
      int64_t offset = 0;
      for (auto [i, size] : llvm::enumerate(operand))
        offset = offset * size + (size == 1 ? 0 : index[shape.size() - operand.size() + i]);
      arguments.push_back(values[offset]);
    }
    std::optional<DimExpr> value = compute(arguments);
    if (!value)
      return {};
    if (std::optional<int64_t> number = value->constant(); number && element.isIntOrIndex()) {
      unsigned width = element.getIntOrFloatBitWidth();
      llvm::APInt bits(64, static_cast<uint64_t>(*number));
      bool fits = element.isUnsignedInteger() || width == 1 ? bits.getActiveBits() <= width : bits.isSignedIntN(width);
      if (!fits)
        return {};
    }
    result.push_back(*value);
    for (int64_t i = static_cast<int64_t>(shape.size()) - 1; i >= 0 && ++index[i] == shape[i]; --i)
      index[i] = 0;
  }
  return fromContent(result, shape, element);
}

//===----------------------------------------------------------------------===//
// Building
//===----------------------------------------------------------------------===//

/// "'rlx.add' op: sizes differ" -> "sizes differ": the user knows ONNX's names.
static std::string withoutOpName(StringRef text) {
  if (text.consume_front("'rlx.")) {
    size_t end = text.find("' op");
    if (end != StringRef::npos)
      text = text.drop_front(end + 4);
    text = text.ltrim(": ");
  }
  return text.str();
}

Value Node::built(mlir::FailureOr<Value> value) {
  if (mlir::succeeded(value))
    return *value;
  std::string reason = withoutOpName(importer.takeDiagnostics());
  return invalid(reason.empty() ? Twine("operands do not fit each other") : Twine(reason));
}

Value Node::finish(mlir::OperationState &state) {
  mlir::Operation *op = mlir::Operation::create(state);
  if (mlir::failed(mlir::verify(op))) {
    op->destroy();
    return built(mlir::failure());
  }
  builder().insert(op);
  SmallVector<Value> folded;
  if (mlir::succeeded(builder().tryFold(op, folded)) && !folded.empty()) {
    op->erase();
    return folded.front();
  }
  return op->getResult(0);
}

Value Node::constant(const ::onnx::TensorProto &tensor, StringRef rowName) {
  std::optional<Error> error;
  Value value = importer.materialise(tensor, rowName.str(), error);
  if (error)
    return error->code == ErrorCode::Unsupported ? unsupported(error->message) : invalid(error->message);
  return value;
}

Value Node::scalar(Type element, double value) {
  if (!element)
    return {};
  auto resultType = mlir::RankedTensorType::get({}, element);
  if (!llvm::isa<mlir::FloatType>(element))
    return scalarInt(element, static_cast<int64_t>(std::clamp(std::trunc(value), -9.2e18, 9.2e18)));
  auto attr = mlir::DenseElementsAttr::get(resultType, mlir::Attribute(mlir::FloatAttr::get(element, value)));
  return ir::ConstantOp::create(builder(), loc(), resultType, attr);
}

Value Node::scalarInt(Type element, int64_t value) {
  if (!element)
    return {};
  if (llvm::isa<mlir::FloatType>(element))
    return scalar(element, static_cast<double>(value));
  auto resultType = mlir::RankedTensorType::get({}, element);
  unsigned width = element.getIntOrFloatBitWidth();
  llvm::APInt bits = llvm::APInt(64, static_cast<uint64_t>(value)).trunc(width);
  auto attr = mlir::DenseElementsAttr::get(resultType, ArrayRef<llvm::APInt>(bits));
  return ir::ConstantOp::create(builder(), loc(), resultType, attr);
}

static Value extreme(Node &n, Type element, bool high) {
  if (!element)
    return {};
  if (llvm::isa<mlir::FloatType>(element))
    return n.scalar(element, high ? std::numeric_limits<double>::infinity() : -std::numeric_limits<double>::infinity());
  unsigned width = element.getIntOrFloatBitWidth();
  bool isUnsigned = element.isUnsignedInteger() || width == 1;
  llvm::APInt bits = isUnsigned
                         ? (high ? llvm::APInt::getMaxValue(width) : llvm::APInt::getMinValue(width))
                         : (high ? llvm::APInt::getSignedMaxValue(width) : llvm::APInt::getSignedMinValue(width));
  return n.scalarInt(element, bits.getSExtValue());
}

Value Node::lowest(Type element) { return extreme(*this, element, false); }
Value Node::highest(Type element) { return extreme(*this, element, true); }

Value Node::convert(Value value, Type target) {
  if (!value || !target || element(value) == target)
    return value;
  std::optional<DimVector> known = content(value);
  if (known && llvm::all_of(*known, [](const DimExpr &dim) { return dim.isConstant(); })) {
    // Numbers that fit are the same ones in the other type.
    double low = -9.0e15, high = 9.0e15;
    if (auto integer = llvm::dyn_cast<mlir::IntegerType>(target)) {
      int bits = std::min(53u, integer.getWidth());
      bool isUnsigned = integer.isUnsigned() || integer.getWidth() == 1;
      low = isUnsigned ? 0 : -std::ldexp(1.0, bits - 1);
      high = std::ldexp(1.0, isUnsigned ? bits : bits - 1) - 1;
    } else {
      high =
          std::ldexp(1.0, llvm::APFloat::semanticsPrecision(llvm::cast<mlir::FloatType>(target).getFloatSemantics()));
      low = -high;
    }
    if (target.isInteger(1))
      for (DimExpr &dim : *known)
        dim = DimExpr(dim.constant() != 0);
    if (llvm::all_of(*known, [&](const DimExpr &dim) {
          auto number = static_cast<double>(*dim.constant());
          return number >= low && number <= high;
        }))
      return fromContent(*known, llvm::cast<mlir::RankedTensorType>(value.getType()).getShape(), target);
    known.reset();
  }
  Value result = makeTyped<ir::ConvertOp>(type(dims(value), target), value);
  // Sizes stay below 2^24 in f32 and 2^31 in i32, as the dialect's own folders assume.
  bool holdsSizes =
      llvm::isa<mlir::FloatType>(target) ? target.isF32() || target.isF64() : target.getIntOrFloatBitWidth() >= 32;
  if (known && result && holdsSizes)
    recordContent(result, std::move(*known));
  return result;
}

Value Node::reshape(Value value, ArrayRef<DimExpr> target) {
  if (!value || ArrayRef<DimExpr>(dims(value)) == target)
    return value;
  std::optional<DimVector> known = content(value);
  bool fixed = llvm::all_of(target, [](const DimExpr &dim) { return dim.isConstant(); });
  if (known && fixed && element(value).isInteger() && product(target) == DimExpr(static_cast<int64_t>(known->size())) &&
      (target.size() <= 1 || llvm::all_of(*known, [](const DimExpr &dim) { return dim.isConstant(); }))) {
    SmallVector<int64_t> shape;
    for (const DimExpr &dim : target)
      shape.push_back(*dim.constant());
    return fromContent(*known, shape, element(value));
  }
  Value result = makeTyped<ir::ReshapeOp>(type(target, element(value)), value);
  if (known && result)
    recordContent(result, std::move(*known));
  return result;
}

Value Node::transpose(Value value, ArrayRef<int64_t> permutation) {
  bool identity = true;
  for (auto [i, p] : llvm::enumerate(permutation))
    identity &= static_cast<int64_t>(i) == p;
  return identity ? value : make<ir::TransposeOp>(value, permutation);
}

Value Node::broadcast(Value value, ArrayRef<DimExpr> target) {
  if (!value || ArrayRef<DimExpr>(dims(value)) == target)
    return value;
  return makeTyped<ir::BroadcastToOp>(type(target, element(value)), value);
}

Value Node::slice(Value value, ArrayRef<DimExpr> starts, ArrayRef<DimExpr> sizes, ArrayRef<int64_t> steps) {
  if (!value)
    return {};
  bool all = ArrayRef<DimExpr>(dims(value)) == sizes;
  for (auto [start, step] : llvm::zip(starts, steps))
    all &= start == DimExpr(0) && step == 1;
  if (all)
    return value;
  return makeTyped<ir::SliceOp>(type(sizes, element(value)), value, ir::DimsAttr::get(context(), starts), steps);
}

Value Node::sliceAxis(Value value, int64_t axis, const DimExpr &start, const DimExpr &size) {
  if (!value)
    return {};
  DimVector sizes = dims(value), starts(sizes.size(), DimExpr(0));
  SmallVector<int64_t> steps(sizes.size(), 1);
  starts[axis] = start;
  sizes[axis] = size;
  return slice(value, starts, sizes, steps);
}

Value Node::iota(ArrayRef<DimExpr> dims, int64_t axis, const DimExpr &start, const DimExpr &step) {
  return makeTyped<ir::IotaOp>(type(dims, builder().getI64Type()), ir::DimsAttr::get(context(), {start, step}),
                               static_cast<uint64_t>(axis));
}

Value Node::add(Value a, Value b) { return make<ir::AddOp>(a, b); }
Value Node::sub(Value a, Value b) { return make<ir::SubOp>(a, b); }
Value Node::mul(Value a, Value b) { return make<ir::MulOp>(a, b); }
Value Node::div(Value a, Value b) { return make<ir::DivOp>(a, b); }
Value Node::max(Value a, Value b) { return make<ir::MaxOp>(a, b); }
Value Node::min(Value a, Value b) { return make<ir::MinOp>(a, b); }
Value Node::compare(ir::ComparePredicate predicate, Value a, Value b) { return make<ir::CompareOp>(predicate, a, b); }
Value Node::select(Value condition, Value a, Value b) { return make<ir::SelectOp>(condition, a, b); }

Value Node::matmul(Value a, Value b) {
  if (!a || !b)
    return {};
  if (rank(a) == 0 || rank(b) == 0)
    return invalid("an operand of a product is a scalar");
  bool vectorA = rank(a) == 1, vectorB = rank(b) == 1;
  if (vectorA)
    a = reshape(a, {DimExpr(1), dims(a)[0]});
  if (vectorB)
    b = reshape(b, {dims(b)[0], DimExpr(1)});
  Value product = make<ir::MatmulOp>(a, b);
  if (!product || (!vectorA && !vectorB))
    return product;
  DimVector result = dims(product);
  if (vectorB)
    result.pop_back();
  if (vectorA)
    result.erase(vectorB ? result.end() - 1 : result.end() - 2);
  return reshape(product, result);
}

Value Node::reduce(ir::ReduceKind kind, Value value, ArrayRef<int64_t> axes, bool keepDims) {
  if (axes.empty())
    return value;
  return make<ir::ReduceOp>(kind, value, axes, keepDims);
}

Value Node::concat(ArrayRef<Value> values, int64_t axis) {
  if (values.size() == 1)
    return values.front();
  return make<ir::ConcatOp>(mlir::ValueRange(values), static_cast<uint64_t>(axis));
}
