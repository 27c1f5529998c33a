//===- GraphBuilder.cpp - graphs written in C++ ---------------------------===//
#include "rlx/Import/GraphBuilder.h"

#include "Onnx/Proto.h"

#include "rlx/Data/ElementType.h"
#include "rlx/Dialect/RLX/IR/ElementData.h"
#include "rlx/Dialect/RLX/IR/NodeName.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>
#include <set>

using namespace rlx;
using llvm::ArrayRef;
using llvm::SmallVector;
using llvm::StringRef;
using llvm::Twine;
using onnx_import::elementCount;
using onnx_import::printable;

/// As of imported models: more dims than any real tensor, and few enough for everything after.
static constexpr size_t kMaxRank = 32;
static constexpr size_t kMaxConstantBytes = 1024;

//===----------------------------------------------------------------------===//
// Arguments
//===----------------------------------------------------------------------===//

Result<DimExpr> GraphDim::expression() const {
  if (const DimExpr *dim = std::get_if<DimExpr>(&value))
    return *dim;
  return DimExpr::parse(std::get<std::string>(value));
}

const Error &GraphValue::error() const {
  static const Error none{ErrorCode::InvalidArgument, "a value that no builder made"};
  return failure ? *failure : none;
}

std::string BuiltGraph::text() const {
  std::string text;
  if (!module)
    return text;
  llvm::raw_string_ostream os(text);
  mlir::OpPrintingFlags flags;
  flags.enableDebugInfo(/*enable=*/true, /*prettyForm=*/false);
  mlir::ModuleOp(*module)->print(os, flags);
  os << '\n';
  return text;
}

//===----------------------------------------------------------------------===//
// State
//===----------------------------------------------------------------------===//

struct GraphBuilder::State {
  explicit State(mlir::MLIRContext *borrowed)
      : owned(borrowed ? nullptr : std::make_unique<mlir::MLIRContext>(mlir::MLIRContext::Threading::DISABLED)),
        context(borrowed ? *borrowed : *owned), builder(&context) {
    context.loadDialect<ir::RLXDialect>();
    mlir::Location unknown = mlir::UnknownLoc::get(&context);
    module = mlir::ModuleOp::create(unknown);
    builder.setInsertionPointToStart(module->getBody());
    graph = ir::GraphOp::create(builder, unknown, "main", builder.getFunctionType({}, {}), mlir::ArrayAttr(),
                                mlir::ArrayAttr(), mlir::ArrayAttr(), mlir::ArrayAttr());
    builder.setInsertionPointToStart(&graph.getBody().emplaceBlock());
  }

  mlir::Block &body() { return graph.getBody().front(); }

  std::unique_ptr<mlir::MLIRContext> owned;
  mlir::MLIRContext &context;
  mlir::OpBuilder builder;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  ir::GraphOp graph;
  std::shared_ptr<WeightTable> weights = std::make_shared<WeightTable>();
  std::shared_ptr<const void> identity = std::make_shared<const int>(0);
  llvm::StringSet<> dims, inputs, params;
  SmallVector<mlir::Attribute> dimDecls, constraints;
  SmallVector<std::string> inputNames;
  std::string nodeName;
  uint64_t ops = 0, randoms = 0;
  bool finished = false;
};

namespace {

/// Takes what ops and attributes have to say against their making.
class Complaints {
public:
  explicit Complaints(mlir::MLIRContext &context)
      : handler(&context, [this](mlir::Diagnostic &diagnostic) {
          if (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error && first.empty()) {
            first = diagnostic.str();
            node = ir::findNodeName(diagnostic.getLocation());
          }
          return mlir::success();
        }) {}

  /// The first error, without the "'rlx.add' op " that MLIR puts in front.
  std::string text(StringRef op) const {
    StringRef said = first;
    said.consume_front(("'" + op + "' op ").str());
    return said.empty() ? "its operands do not fit each other" : said.str();
  }
  /// The first error as it is, after the name of its node.
  std::string withNode() const { return node.empty() ? first : "node '" + node + "': " + first; }

private:
  std::string first, node;
  mlir::ScopedDiagnosticHandler handler;
};

std::string quoted(StringRef text) { return "'" + printable(text.str()) + "'"; }

Error invalid(const Twine &message) { return {ErrorCode::InvalidArgument, message.str()}; }

} // namespace

GraphBuilder::GraphBuilder() : state(std::make_unique<State>(nullptr)) {}
GraphBuilder::GraphBuilder(mlir::MLIRContext &context) : state(std::make_unique<State>(&context)) {}
GraphBuilder::~GraphBuilder() = default;

mlir::OpBuilder &GraphBuilder::builder() { return state->builder; }
mlir::MLIRContext &GraphBuilder::mlirContext() { return state->context; }

mlir::Location GraphBuilder::location(StringRef op) {
  std::string name = state->nodeName;
  if (name.empty()) {
    op.consume_front("rlx.");
    name = (op + "_" + Twine(state->ops)).str();
  }
  return mlir::NameLoc::get(state->builder.getStringAttr(name));
}

//===----------------------------------------------------------------------===//
// Errors
//===----------------------------------------------------------------------===//

GraphValue GraphBuilder::fail(Error error) const {
  GraphValue value;
  value.failure = std::make_shared<const Error>(std::move(error));
  return value;
}

std::optional<Error> GraphBuilder::usable(StringRef op) const {
  if (state->finished)
    return invalid(op + ": the graph has been finished");
  return std::nullopt;
}

/// "node 'fc1' (rlx.matmul): ", where a name was given; else "rlx.matmul: ".
static std::string place(StringRef node, StringRef op) {
  return node.empty() ? (op + ": ").str() : "node " + quoted(node) + " (" + op.str() + "): ";
}

std::optional<Error> GraphBuilder::check(const GraphValue &value, StringRef op) const {
  if (value.failure)
    return *value.failure; // the first of a chain is what the caller wants to know
  if (!value.value)
    return invalid(place(state->nodeName, op) + "an operand is a value that no builder made");
  if (value.owner != state->identity)
    return invalid(place(state->nodeName, op) + "an operand belongs to another builder");
  return std::nullopt;
}

Result<SmallVector<DimExpr>> GraphBuilder::expressions(const GraphShape &shape, StringRef op) const {
  SmallVector<DimExpr> dims;
  if (shape.dims.size() > kMaxRank)
    return invalid(place(state->nodeName, op) + "a shape of " + Twine(shape.dims.size()) + " sizes; rlx allows " +
                   Twine(kMaxRank));
  for (const GraphDim &dim : shape.dims) {
    Result<DimExpr> expression = dim.expression();
    if (!expression)
      return invalid(place(state->nodeName, op) + printable(expression.error().message));
    if (expression->isOverflow())
      return invalid(place(state->nodeName, op) + "a size is too large a number or expression");
    std::set<std::string> names;
    expression->collectNames(names);
    for (const std::string &name : names)
      if (!state->dims.contains(name))
        return invalid(place(state->nodeName, op) + "dim " + quoted(name) + " is not declared");
    dims.push_back(std::move(*expression));
  }
  return dims;
}

Result<mlir::RankedTensorType> GraphBuilder::tensorType(ElementType type, ArrayRef<DimExpr> dims, StringRef op) const {
  mlir::Type element = ir::fromElementType(&state->context, type);
  if (!element)
    return invalid(place(state->nodeName, op) + "no element type has number " + Twine(static_cast<int>(type)));
  std::vector<int64_t> fixed;
  for (const DimExpr &dim : dims)
    if (std::optional<int64_t> number = dim.constant()) {
      if (*number < 0)
        return invalid(place(state->nodeName, op) + "size " + Twine(*number) + " is negative");
      fixed.push_back(*number);
    }
  std::optional<int64_t> count = elementCount(fixed);
  if (!count || *count > std::numeric_limits<int64_t>::max() / rlx::elementBytes(type))
    return invalid(place(state->nodeName, op) + "shape " + ir::toString(dims) + " is too large");
  return ir::makeType(&state->context, {SmallVector<DimExpr>(dims), element});
}

Result<mlir::RankedTensorType> GraphBuilder::tensorType(ElementType type, const GraphShape &shape, StringRef op) const {
  Result<SmallVector<DimExpr>> dims = expressions(shape, op);
  if (!dims)
    return dims.takeError();
  return tensorType(type, ArrayRef<DimExpr>(*dims), op);
}

GraphValue GraphBuilder::insert(mlir::OperationState &made, bool inferred) {
  StringRef name = made.name.getStringRef();
  auto refuse = [&](const Twine &why) { return fail(invalid(place(state->nodeName, name) + printable(why.str()))); };
  if (llvm::any_of(made.operands, [](mlir::Value operand) { return !operand; }))
    return refuse("an operand is missing");
  Complaints complaints(state->context);
  mlir::Operation *op = mlir::Operation::create(made);
  auto drop = [&](const Twine &why) {
    std::string text = why.str(); // before the op goes
    op->destroy();
    return refuse(text);
  };
  if (op->getNumResults() != 1)
    return drop("the op has " + Twine(op->getNumResults()) + " results");
  if (inferred) {
    SmallVector<mlir::RankedTensorType> types;
    if (mlir::failed(ir::inferResultTypes(op, types)))
      return drop(complaints.text(name));
    op->getResult(0).setType(types.front());
  }
  if (mlir::failed(mlir::verify(op)))
    return drop(complaints.text(name));

  auto type = llvm::cast<mlir::RankedTensorType>(op->getResult(0).getType());
  ir::TensorShape shape = ir::getShape(type);
  if (shape.rank() > kMaxRank)
    return drop("the result has " + Twine(shape.rank()) + " dims; rlx allows " + Twine(kMaxRank));
  if (llvm::any_of(shape.dims, [](const DimExpr &dim) { return dim.isOverflow(); }))
    return drop("a size of the result is too large a number or expression");
  if (!shape.isKnown())
    return drop("a size of the result " + ir::toString(shape.dims) + " is negative");
  // Names in the result come from operands or were checked; what is left is the product.
  if (Result<mlir::RankedTensorType> fits =
          tensorType(*ir::toElementType(type.getElementType()), ArrayRef<DimExpr>(shape.dims), name);
      !fits) {
    op->destroy();
    return fail(fits.takeError());
  }
  state->builder.insert(op);
  ++state->ops;
  GraphValue result;
  result.value = op->getResult(0);
  result.owner = state->identity;
  return result;
}

//===----------------------------------------------------------------------===//
// Declarations
//===----------------------------------------------------------------------===//

Status GraphBuilder::dim(std::string_view name, const GraphDimOptions &options) {
  std::string what = "dim " + quoted(name);
  if (std::optional<Error> wrong = usable(what))
    return std::move(*wrong);
  Complaints complaints(state->context);
  auto emit = [&] { return mlir::emitError(mlir::UnknownLoc::get(&state->context)); };
  if (mlir::failed(ir::DimDeclAttr::verify(emit, name, options.min, options.max, options.multiple, options.likely,
                                           std::nullopt)))
    return invalid(printable(complaints.text("")));
  if (!state->dims.insert(name).second)
    return invalid(what + " is declared twice");
  state->dimDecls.push_back(ir::DimDeclAttr::get(&state->context, name, options.min, options.max, options.multiple,
                                                 options.likely, std::nullopt));
  return Status::ok();
}

Status GraphBuilder::require(std::string_view predicate, std::string_view message) {
  std::string what = "constraint " + quoted(predicate);
  if (std::optional<Error> wrong = usable(what))
    return std::move(*wrong);
  Result<DimPredicate> parsed = DimPredicate::parse(predicate);
  if (!parsed)
    return invalid(what + ": " + printable(parsed.error().message));
  std::set<std::string> names;
  for (const DimExpr *side : {&parsed->lhs, &parsed->rhs}) {
    side->collectNames(names);
    if (side->isOverflow())
      return invalid(what + ": a size is too large a number or expression");
  }
  for (const std::string &name : names)
    if (!state->dims.contains(name))
      return invalid(what + ": dim " + quoted(name) + " is not declared");
  state->constraints.push_back(ir::ConstraintAttr::get(&state->context, *parsed, message));
  return Status::ok();
}

GraphBuilder &GraphBuilder::node(std::string_view name) {
  state->nodeName = std::string(name);
  return *this;
}

GraphValue GraphBuilder::input(std::string_view name, ElementType type, const GraphShape &shape) {
  std::string what = "input " + quoted(name);
  if (std::optional<Error> wrong = usable(what))
    return fail(std::move(*wrong));
  if (name.empty())
    return fail(invalid("an input's name is empty"));
  Result<SmallVector<DimExpr>> dims = expressions(shape, what);
  if (!dims)
    return fail(dims.takeError());
  Result<mlir::RankedTensorType> tensor = tensorType(type, ArrayRef<DimExpr>(*dims), what);
  if (!tensor)
    return fail(tensor.takeError());
  if (!state->inputs.insert(name).second)
    return fail(invalid("two inputs are called " + quoted(name)));
  state->inputNames.emplace_back(name);
  GraphValue result;
  result.value = state->body().addArgument(*tensor, mlir::NameLoc::get(state->builder.getStringAttr(name)));
  result.owner = state->identity;
  return result;
}

GraphValue GraphBuilder::param(std::string_view name, ElementType type, const GraphShape &shape) {
  std::string what = "param " + quoted(name);
  if (std::optional<Error> wrong = usable(what))
    return fail(std::move(*wrong));
  if (name.empty())
    return fail(invalid("a param's name is empty"));
  if (state->params.contains(name))
    return fail(invalid("two params are called " + quoted(name)));
  GraphValue result = createAs<ir::ParamOp>(type, shape, state->builder.getStringAttr(name));
  if (result)
    state->params.insert(name);
  return result;
}

GraphValue GraphBuilder::weight(std::string_view name, ElementType type, ArrayRef<int64_t> shape,
                                std::span<const std::byte> bytes, std::shared_ptr<const void> owner) {
  std::string what = "weight " + quoted(name);
  if (std::optional<Error> wrong = usable(what))
    return fail(std::move(*wrong));
  if (name.empty())
    return fail(invalid("a weight's name is empty"));
  if (!bytes.empty() && !bytes.data())
    return fail(invalid(what + ": no data"));
  if (state->weights->find(name))
    return fail(invalid("two weights are called " + quoted(name)));
  // Its type first: the table does not take rows back.
  if (Result<mlir::RankedTensorType> tensor = tensorType(type, GraphShape(shape), what); !tensor)
    return fail(tensor.takeError());
  if (Status added = state->weights->add(std::string(name), WeightRow{type, shape.vec(), bytes, std::move(owner)});
      !added)
    return fail(invalid(printable(added.error().message)));
  return weight(name);
}

GraphValue GraphBuilder::weight(std::string_view name, ElementType type, ArrayRef<int64_t> shape,
                                std::span<const std::byte> bytes) {
  // Checked before the copy: the length may be nonsense.
  if (std::optional<int64_t> count = elementCount(shape);
      !count || !rlx::elementBytes(type) || *count > std::numeric_limits<int64_t>::max() / rlx::elementBytes(type) ||
      static_cast<uint64_t>(*count * rlx::elementBytes(type)) != bytes.size())
    return fail(invalid(
        "weight " + quoted(name) + ": " + Twine(bytes.size()) + " bytes for " + elementTypeName(type) + " of shape [" +
        llvm::join(llvm::map_range(shape, [](int64_t size) { return std::to_string(size); }), ", ") + "]"));
  if (!bytes.empty() && !bytes.data())
    return fail(invalid("weight " + quoted(name) + ": no data"));
  auto copy = std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end());
  return weight(name, type, shape, std::span<const std::byte>(*copy), copy);
}

GraphValue GraphBuilder::weight(std::string_view name) {
  std::string what = "weight " + quoted(name);
  if (std::optional<Error> wrong = usable(what))
    return fail(std::move(*wrong));
  const WeightRow *row = state->weights->find(name);
  if (!row)
    return fail(invalid(what + " is not among the weights"));
  Result<mlir::RankedTensorType> tensor = tensorType(row->type, GraphShape(row->shape), what);
  if (!tensor)
    return fail(tensor.takeError());
  return make<ir::WeightOp>(*tensor, state->builder.getStringAttr(name));
}

Status GraphBuilder::useWeights(std::shared_ptr<WeightTable> table) {
  if (std::optional<Error> wrong = usable("useWeights"))
    return std::move(*wrong);
  if (!table)
    return invalid("useWeights: no table");
  if (!state->weights->rows().empty())
    return invalid("useWeights: there are weights already");
  state->weights = std::move(table);
  return Status::ok();
}

GraphValue GraphBuilder::constant(ElementType type, ArrayRef<int64_t> shape, std::span<const std::byte> bytes) {
  constexpr StringRef op = ir::ConstantOp::getOperationName();
  if (std::optional<Error> wrong = usable(op))
    return fail(std::move(*wrong));
  Result<mlir::RankedTensorType> tensor = tensorType(type, GraphShape(shape), op);
  if (!tensor)
    return fail(tensor.takeError());
  auto wanted = static_cast<uint64_t>(tensor->getNumElements()) * static_cast<uint64_t>(rlx::elementBytes(type));
  if (wanted != bytes.size() || (!bytes.empty() && !bytes.data()))
    return fail(
        invalid(place(state->nodeName, op) + Twine(bytes.size()) + " bytes for a constant of " + Twine(wanted)));
  if (bytes.size() > kMaxConstantBytes)
    return fail(invalid(place(state->nodeName, op) + Twine(bytes.size()) + " bytes; more than " +
                        Twine(kMaxConstantBytes) + " are a weight"));
  mlir::ElementsAttr value =
      ir::elementsFromBytes(*tensor, ArrayRef(reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size()));
  return make<ir::ConstantOp>(*tensor, value);
}

GraphValue GraphBuilder::scalar(ElementType type, double value) {
  constexpr StringRef op = ir::ConstantOp::getOperationName();
  if (std::optional<Error> wrong = usable(op))
    return fail(std::move(*wrong));
  Result<mlir::RankedTensorType> tensor = tensorType(type, ArrayRef<DimExpr>(), op);
  if (!tensor)
    return fail(tensor.takeError());
  mlir::Type element = tensor->getElementType();
  if (auto floats = llvm::dyn_cast<mlir::FloatType>(element)) {
    mlir::ElementsAttr attr =
        mlir::DenseElementsAttr::get(*tensor, mlir::Attribute(mlir::FloatAttr::get(floats, value)));
    return make<ir::ConstantOp>(*tensor, attr);
  }
  // 2^63 and more is of use to u64 alone; a 64-bit float holds every integer below 2^53 and some above.
  if (value != std::trunc(value) || std::abs(value) > 0x1p53)
    return fail(invalid(place(state->nodeName, op) + "the number " + std::to_string(value) + " is no " +
                        elementTypeName(type)));
  return scalar(type, static_cast<int64_t>(value));
}

GraphValue GraphBuilder::scalar(ElementType type, int64_t value) {
  constexpr StringRef op = ir::ConstantOp::getOperationName();
  if (std::optional<Error> wrong = usable(op))
    return fail(std::move(*wrong));
  if (isFloatType(type))
    return scalar(type, static_cast<double>(value));
  Result<mlir::RankedTensorType> tensor = tensorType(type, ArrayRef<DimExpr>(), op);
  if (!tensor)
    return fail(tensor.takeError());
  mlir::Type element = tensor->getElementType();
  unsigned width = element.getIntOrFloatBitWidth();
  bool positive = isUnsignedType(type) || type == ElementType::I1;
  bool fits = positive ? value >= 0 && (width == 64 || value >> width == 0) : llvm::isIntN(width, value);
  if (!fits)
    return fail(invalid(place(state->nodeName, op) + "the number " + Twine(value) + " is no " + elementTypeName(type)));
  llvm::APInt bits = llvm::APInt(64, static_cast<uint64_t>(value)).trunc(width);
  mlir::ElementsAttr attr = mlir::DenseElementsAttr::get(*tensor, ArrayRef<llvm::APInt>(bits));
  return make<ir::ConstantOp>(*tensor, attr);
}

GraphValue GraphBuilder::dimValues(const GraphShape &shape) {
  constexpr StringRef op = ir::DimValuesOp::getOperationName();
  if (std::optional<Error> wrong = usable(op))
    return fail(std::move(*wrong));
  Result<SmallVector<DimExpr>> dims = expressions(shape, op);
  if (!dims)
    return fail(dims.takeError());
  DimExpr count = static_cast<int64_t>(dims->size());
  Result<mlir::RankedTensorType> tensor = tensorType(ElementType::I64, ArrayRef<DimExpr>(count), op);
  if (!tensor)
    return fail(tensor.takeError());
  return make<ir::DimValuesOp>(*tensor, ir::DimsAttr::get(&state->context, *dims));
}

//===----------------------------------------------------------------------===//
// Elementwise
//===----------------------------------------------------------------------===//

GraphValue GraphBuilder::operand(const GraphOperand &x, const GraphOperand &like, StringRef op) {
  if (const GraphValue *value = std::get_if<GraphValue>(&x.value))
    return *value;
  const GraphValue *other = std::get_if<GraphValue>(&like.value);
  if (!other)
    return fail(invalid(place(state->nodeName, op) + "both operands are numbers"));
  if (std::optional<Error> wrong = check(*other, op))
    return fail(std::move(*wrong));
  std::optional<ElementType> type =
      ir::toElementType(llvm::cast<mlir::RankedTensorType>(other->value.getType()).getElementType());
  if (const double *number = std::get_if<double>(&x.value))
    return scalar(*type, *number);
  return scalar(*type, std::get<int64_t>(x.value));
}

template <typename OpTy> GraphValue GraphBuilder::binary(const GraphOperand &a, const GraphOperand &b) {
  constexpr StringRef op = OpTy::getOperationName();
  if (std::optional<Error> wrong = usable(op))
    return fail(std::move(*wrong));
  return create<OpTy>(operand(a, b, op), operand(b, a, op));
}

GraphValue GraphBuilder::add(const GraphOperand &a, const GraphOperand &b) { return binary<ir::AddOp>(a, b); }
GraphValue GraphBuilder::sub(const GraphOperand &a, const GraphOperand &b) { return binary<ir::SubOp>(a, b); }
GraphValue GraphBuilder::mul(const GraphOperand &a, const GraphOperand &b) { return binary<ir::MulOp>(a, b); }
GraphValue GraphBuilder::div(const GraphOperand &a, const GraphOperand &b) { return binary<ir::DivOp>(a, b); }
GraphValue GraphBuilder::mod(const GraphOperand &a, const GraphOperand &b) { return binary<ir::ModOp>(a, b); }
GraphValue GraphBuilder::rem(const GraphOperand &a, const GraphOperand &b) { return binary<ir::RemOp>(a, b); }
GraphValue GraphBuilder::pow(const GraphOperand &a, const GraphOperand &b) { return binary<ir::PowOp>(a, b); }
GraphValue GraphBuilder::max(const GraphOperand &a, const GraphOperand &b) { return binary<ir::MaxOp>(a, b); }
GraphValue GraphBuilder::min(const GraphOperand &a, const GraphOperand &b) { return binary<ir::MinOp>(a, b); }
GraphValue GraphBuilder::bitAnd(const GraphOperand &a, const GraphOperand &b) { return binary<ir::AndOp>(a, b); }
GraphValue GraphBuilder::bitOr(const GraphOperand &a, const GraphOperand &b) { return binary<ir::OrOp>(a, b); }
GraphValue GraphBuilder::bitXor(const GraphOperand &a, const GraphOperand &b) { return binary<ir::XorOp>(a, b); }
GraphValue GraphBuilder::shl(const GraphOperand &a, const GraphOperand &b) { return binary<ir::ShlOp>(a, b); }
GraphValue GraphBuilder::shr(const GraphOperand &a, const GraphOperand &b) { return binary<ir::ShrOp>(a, b); }

GraphValue GraphBuilder::compare(ir::ComparePredicate predicate, const GraphOperand &a, const GraphOperand &b) {
  constexpr StringRef op = ir::CompareOp::getOperationName();
  if (std::optional<Error> wrong = usable(op))
    return fail(std::move(*wrong));
  if (!ir::symbolizeComparePredicate(static_cast<uint32_t>(predicate)))
    return fail(
        invalid(place(state->nodeName, op) + "no predicate has number " + Twine(static_cast<uint32_t>(predicate))));
  return create<ir::CompareOp>(predicate, operand(a, b, op), operand(b, a, op));
}

GraphValue GraphBuilder::neg(const GraphValue &x) { return create<ir::NegOp>(x); }
GraphValue GraphBuilder::abs(const GraphValue &x) { return create<ir::AbsOp>(x); }
GraphValue GraphBuilder::sign(const GraphValue &x) { return create<ir::SignOp>(x); }
GraphValue GraphBuilder::bitNot(const GraphValue &x) { return create<ir::NotOp>(x); }
GraphValue GraphBuilder::exp(const GraphValue &x) { return create<ir::ExpOp>(x); }
GraphValue GraphBuilder::log(const GraphValue &x) { return create<ir::LogOp>(x); }
GraphValue GraphBuilder::sqrt(const GraphValue &x) { return create<ir::SqrtOp>(x); }
GraphValue GraphBuilder::reciprocal(const GraphValue &x) { return create<ir::ReciprocalOp>(x); }
GraphValue GraphBuilder::tanh(const GraphValue &x) { return create<ir::TanhOp>(x); }
GraphValue GraphBuilder::erf(const GraphValue &x) { return create<ir::ErfOp>(x); }
GraphValue GraphBuilder::sigmoid(const GraphValue &x) { return create<ir::SigmoidOp>(x); }
GraphValue GraphBuilder::sin(const GraphValue &x) { return create<ir::SinOp>(x); }
GraphValue GraphBuilder::cos(const GraphValue &x) { return create<ir::CosOp>(x); }
GraphValue GraphBuilder::floor(const GraphValue &x) { return create<ir::FloorOp>(x); }
GraphValue GraphBuilder::ceil(const GraphValue &x) { return create<ir::CeilOp>(x); }
GraphValue GraphBuilder::round(const GraphValue &x) { return create<ir::RoundOp>(x); }
GraphValue GraphBuilder::isNaN(const GraphValue &x) { return create<ir::IsNaNOp>(x); }
GraphValue GraphBuilder::isInf(const GraphValue &x) { return create<ir::IsInfOp>(x); }
GraphValue GraphBuilder::relu(const GraphValue &x) { return max(x, 0); }
GraphValue GraphBuilder::gelu(const GraphValue &x, bool approximate) { return create<ir::GeluOp>(x, approximate); }
GraphValue GraphBuilder::silu(const GraphValue &x) { return mul(x, sigmoid(x)); }

GraphValue GraphBuilder::where(const GraphValue &condition, const GraphOperand &a, const GraphOperand &b) {
  constexpr StringRef op = ir::SelectOp::getOperationName();
  if (std::optional<Error> wrong = usable(op))
    return fail(std::move(*wrong));
  return create<ir::SelectOp>(condition, operand(a, b, op), operand(b, a, op));
}

GraphValue GraphBuilder::cast(const GraphValue &x, ElementType type) {
  constexpr StringRef op = ir::ConvertOp::getOperationName();
  if (std::optional<Error> wrong = usable(op))
    return fail(std::move(*wrong));
  if (std::optional<Error> wrong = check(x, op))
    return fail(std::move(*wrong));
  auto from = llvm::cast<mlir::RankedTensorType>(x.value.getType());
  Result<mlir::RankedTensorType> to = tensorType(type, ArrayRef<DimExpr>(ir::getShape(from).dims), op);
  if (!to)
    return fail(to.takeError());
  return *to == from ? x : make<ir::ConvertOp>(*to, x);
}

//===----------------------------------------------------------------------===//
// Contractions, reductions, rows
//===----------------------------------------------------------------------===//

Result<int64_t> GraphBuilder::axisOf(const GraphValue &x, int64_t axis, StringRef op, int64_t extra) const {
  if (std::optional<Error> wrong = usable(op))
    return std::move(*wrong);
  if (std::optional<Error> wrong = check(x, op))
    return std::move(*wrong);
  int64_t rank = llvm::cast<mlir::RankedTensorType>(x.value.getType()).getRank() + extra;
  if (axis < -rank || axis >= rank)
    return invalid(place(state->nodeName, op) + "axis " + Twine(axis) + " is outside a tensor of rank " + Twine(rank));
  return axis < 0 ? axis + rank : axis;
}

Result<SmallVector<int64_t>> GraphBuilder::axesOf(const GraphValue &x, ArrayRef<int64_t> axes, StringRef op,
                                                  int64_t extra) const {
  SmallVector<int64_t> list;
  if (std::optional<Error> wrong = usable(op))
    return std::move(*wrong);
  if (std::optional<Error> wrong = check(x, op))
    return std::move(*wrong);
  for (int64_t axis : axes) {
    Result<int64_t> normal = axisOf(x, axis, op, extra);
    if (!normal)
      return normal.takeError();
    if (llvm::is_contained(list, *normal))
      return invalid(place(state->nodeName, op) + "axis " + Twine(*normal) + " is given twice");
    list.push_back(*normal);
  }
  llvm::sort(list);
  return list;
}

GraphValue GraphBuilder::matmul(const GraphValue &a, const GraphValue &b) { return create<ir::MatmulOp>(a, b); }

GraphValue GraphBuilder::reduce(ir::ReduceKind kind, const GraphValue &x, ArrayRef<int64_t> axes, bool keepDims) {
  constexpr StringRef op = ir::ReduceOp::getOperationName();
  Result<SmallVector<int64_t>> list = axesOf(x, axes, op);
  if (!list)
    return fail(list.takeError());
  if (!ir::symbolizeReduceKind(static_cast<uint32_t>(kind)))
    return fail(invalid(place(state->nodeName, op) + "no reduction has number " + Twine(static_cast<uint32_t>(kind))));
  return create<ir::ReduceOp>(kind, x, ArrayRef<int64_t>(*list), keepDims);
}

GraphValue GraphBuilder::cumsum(const GraphValue &x, int64_t axis, bool exclusive, bool reverse) {
  Result<int64_t> normal = axisOf(x, axis, ir::CumSumOp::getOperationName());
  return normal ? create<ir::CumSumOp>(x, static_cast<uint64_t>(*normal), exclusive, reverse)
                : fail(normal.takeError());
}

GraphValue GraphBuilder::softmax(const GraphValue &x, int64_t axis) {
  Result<int64_t> normal = axisOf(x, axis, ir::SoftmaxOp::getOperationName());
  return normal ? create<ir::SoftmaxOp>(x, static_cast<uint64_t>(*normal)) : fail(normal.takeError());
}

GraphValue GraphBuilder::logSoftmax(const GraphValue &x, int64_t axis) {
  Result<int64_t> normal = axisOf(x, axis, ir::LogSoftmaxOp::getOperationName());
  return normal ? create<ir::LogSoftmaxOp>(x, static_cast<uint64_t>(*normal)) : fail(normal.takeError());
}

GraphValue GraphBuilder::layerNorm(const GraphValue &x, const std::optional<GraphValue> &scale,
                                   const std::optional<GraphValue> &bias, int64_t axis, double epsilon) {
  Result<int64_t> normal = axisOf(x, axis, ir::LayerNormOp::getOperationName());
  return normal ? create<ir::LayerNormOp>(x, scale, bias, static_cast<uint64_t>(*normal), epsilon)
                : fail(normal.takeError());
}

GraphValue GraphBuilder::rmsNorm(const GraphValue &x, const std::optional<GraphValue> &scale, int64_t axis,
                                 double epsilon) {
  Result<int64_t> normal = axisOf(x, axis, ir::RmsNormOp::getOperationName());
  return normal ? create<ir::RmsNormOp>(x, scale, static_cast<uint64_t>(*normal), epsilon) : fail(normal.takeError());
}

GraphValue GraphBuilder::attention(const GraphValue &q, const GraphValue &k, const GraphValue &v,
                                   const std::optional<GraphValue> &mask, double scale) {
  return create<ir::AttentionOp>(q, k, v, mask, scale);
}

//===----------------------------------------------------------------------===//
// Movement
//===----------------------------------------------------------------------===//

GraphValue GraphBuilder::reshaped(const GraphValue &x, ArrayRef<DimExpr> dims) {
  constexpr StringRef op = ir::ReshapeOp::getOperationName();
  auto from = llvm::cast<mlir::RankedTensorType>(x.value.getType());
  Result<mlir::RankedTensorType> to = tensorType(*ir::toElementType(from.getElementType()), dims, op);
  if (!to)
    return fail(to.takeError());
  return *to == from ? x : make<ir::ReshapeOp>(*to, x);
}

GraphValue GraphBuilder::reshape(const GraphValue &x, const GraphShape &shape) {
  constexpr StringRef op = ir::ReshapeOp::getOperationName();
  if (std::optional<Error> wrong = usable(op))
    return fail(std::move(*wrong));
  if (std::optional<Error> wrong = check(x, op))
    return fail(std::move(*wrong));
  Result<SmallVector<DimExpr>> request = expressions(shape, op);
  if (!request)
    return fail(request.takeError());
  Result<SmallVector<DimExpr>> dims = ir::resolveReshape(
      ir::getShape(llvm::cast<mlir::RankedTensorType>(x.value.getType())).dims, *request, /*zeroCopies=*/false);
  if (!dims)
    return fail(invalid(place(state->nodeName, op) + printable(dims.error().message)));
  return reshaped(x, *dims);
}

GraphValue GraphBuilder::transpose(const GraphValue &x, ArrayRef<int64_t> permutation) {
  return create<ir::TransposeOp>(x, permutation);
}

GraphValue GraphBuilder::broadcastTo(const GraphValue &x, const GraphShape &shape) {
  constexpr StringRef op = ir::BroadcastToOp::getOperationName();
  Result<ElementType> type = elementType(x);
  if (std::optional<Error> wrong = usable(op); wrong || !type)
    return fail(wrong ? std::move(*wrong) : *check(x, op));
  return createAs<ir::BroadcastToOp>(*type, shape, x);
}

GraphValue GraphBuilder::expandDims(const GraphValue &x, ArrayRef<int64_t> axes) {
  constexpr StringRef op = ir::ReshapeOp::getOperationName();
  Result<SmallVector<int64_t>> list = axesOf(x, axes, op, static_cast<int64_t>(axes.size()));
  if (!list)
    return fail(list.takeError());
  SmallVector<DimExpr> dims = ir::getShape(llvm::cast<mlir::RankedTensorType>(x.value.getType())).dims;
  for (int64_t axis : *list) // ascending, so that each is a place in the result
    dims.insert(dims.begin() + axis, DimExpr(1));
  return reshaped(x, dims);
}

GraphValue GraphBuilder::squeeze(const GraphValue &x, ArrayRef<int64_t> axes) {
  constexpr StringRef op = ir::ReshapeOp::getOperationName();
  Result<SmallVector<int64_t>> list = axesOf(x, axes, op);
  if (!list)
    return fail(list.takeError());
  SmallVector<DimExpr> dims = ir::getShape(llvm::cast<mlir::RankedTensorType>(x.value.getType())).dims;
  for (int64_t axis : llvm::reverse(*list)) {
    if (dims[axis].constant().value_or(1) != 1)
      return fail(
          invalid(place(state->nodeName, op) + "axis " + Twine(axis) + " has size " + dims[axis].str() + ", not 1"));
    dims.erase(dims.begin() + axis); // a named size becomes a requirement of the reshape
  }
  return reshaped(x, dims);
}

GraphValue GraphBuilder::slice(const GraphValue &x, int64_t axis, const GraphDim &start, const GraphDim &count,
                               int64_t step) {
  Result<int64_t> normal = axisOf(x, axis, ir::SliceOp::getOperationName());
  if (!normal)
    return fail(normal.takeError());
  SmallVector<DimExpr> dims = ir::getShape(llvm::cast<mlir::RankedTensorType>(x.value.getType())).dims;
  GraphShape counts(dims), starts;
  starts.dims.assign(dims.size(), 0);
  SmallVector<int64_t> steps(dims.size(), 1);
  counts.dims[*normal] = count;
  starts.dims[*normal] = start;
  steps[*normal] = step;
  return sliceAxes(x, starts, counts, steps);
}

GraphValue GraphBuilder::sliceAxes(const GraphValue &x, const GraphShape &starts, const GraphShape &counts,
                                   ArrayRef<int64_t> steps) {
  constexpr StringRef op = ir::SliceOp::getOperationName();
  Result<ElementType> type = elementType(x);
  if (std::optional<Error> wrong = usable(op); wrong || !type)
    return fail(wrong ? std::move(*wrong) : *check(x, op));
  Result<SmallVector<DimExpr>> first = expressions(starts, op);
  if (!first)
    return fail(first.takeError());
  return createAs<ir::SliceOp>(*type, counts, x, ir::DimsAttr::get(&state->context, *first), steps);
}

GraphValue GraphBuilder::concat(ArrayRef<GraphValue> values, int64_t axis) {
  constexpr StringRef op = ir::ConcatOp::getOperationName();
  if (std::optional<Error> wrong = usable(op))
    return fail(std::move(*wrong));
  if (values.empty())
    return fail(invalid(place(state->nodeName, op) + "there is nothing to join"));
  Result<int64_t> normal = axisOf(values.front(), axis, op);
  return normal ? create<ir::ConcatOp>(values.vec(), static_cast<uint64_t>(*normal)) : fail(normal.takeError());
}

GraphValue GraphBuilder::pad(const GraphValue &x, const GraphOperand &value, const GraphShape &low,
                             const GraphShape &high) {
  constexpr StringRef op = ir::PadOp::getOperationName();
  if (std::optional<Error> wrong = usable(op))
    return fail(std::move(*wrong));
  Result<SmallVector<DimExpr>> before = expressions(low, op), after = expressions(high, op);
  if (!before || !after)
    return fail(before ? after.takeError() : before.takeError());
  return create<ir::PadOp>(x, operand(value, x, op), ir::DimsAttr::get(&state->context, *before),
                           ir::DimsAttr::get(&state->context, *after));
}

GraphValue GraphBuilder::gather(const GraphValue &data, const GraphValue &indices, int64_t axis) {
  Result<int64_t> normal = axisOf(data, axis, ir::GatherOp::getOperationName());
  return normal ? create<ir::GatherOp>(data, indices, static_cast<uint64_t>(*normal)) : fail(normal.takeError());
}

GraphValue GraphBuilder::gatherND(const GraphValue &data, const GraphValue &indices, int64_t batchDims) {
  return create<ir::GatherNDOp>(data, indices, static_cast<uint64_t>(batchDims));
}

GraphValue GraphBuilder::gatherElements(const GraphValue &data, const GraphValue &indices, int64_t axis) {
  Result<int64_t> normal = axisOf(data, axis, ir::GatherElementsOp::getOperationName());
  return normal ? create<ir::GatherElementsOp>(data, indices, static_cast<uint64_t>(*normal))
                : fail(normal.takeError());
}

GraphValue GraphBuilder::scatterElements(const GraphValue &data, const GraphValue &indices, const GraphValue &updates,
                                         int64_t axis, ir::Combine combine) {
  constexpr StringRef op = ir::ScatterElementsOp::getOperationName();
  Result<int64_t> normal = axisOf(data, axis, op);
  if (!normal)
    return fail(normal.takeError());
  if (!ir::symbolizeCombine(static_cast<uint32_t>(combine)))
    return fail(
        invalid(place(state->nodeName, op) + "no combination has number " + Twine(static_cast<uint32_t>(combine))));
  return create<ir::ScatterElementsOp>(data, indices, updates, static_cast<uint64_t>(*normal), combine);
}

GraphValue GraphBuilder::scatterND(const GraphValue &data, const GraphValue &indices, const GraphValue &updates,
                                   ir::Combine combine) {
  constexpr StringRef op = ir::ScatterNDOp::getOperationName();
  if (!ir::symbolizeCombine(static_cast<uint32_t>(combine)))
    return fail(
        invalid(place(state->nodeName, op) + "no combination has number " + Twine(static_cast<uint32_t>(combine))));
  return create<ir::ScatterNDOp>(data, indices, updates, combine);
}

GraphValue GraphBuilder::iota(const GraphShape &shape, int64_t axis, const GraphDim &start, const GraphDim &step) {
  constexpr StringRef op = ir::IotaOp::getOperationName();
  if (std::optional<Error> wrong = usable(op))
    return fail(std::move(*wrong));
  Result<SmallVector<DimExpr>> line = expressions(GraphShape{start, step}, op);
  if (!line)
    return fail(line.takeError());
  auto rank = static_cast<int64_t>(shape.dims.size());
  return createAs<ir::IotaOp>(ElementType::I64, shape, ir::DimsAttr::get(&state->context, *line),
                              static_cast<uint64_t>(axis < 0 ? axis + rank : axis));
}

GraphValue GraphBuilder::assumeDims(const GraphValue &x, const GraphShape &shape) {
  constexpr StringRef op = ir::AssumeDimsOp::getOperationName();
  Result<ElementType> type = elementType(x);
  if (std::optional<Error> wrong = usable(op); wrong || !type)
    return fail(wrong ? std::move(*wrong) : *check(x, op));
  return createAs<ir::AssumeDimsOp>(*type, shape, x);
}

//===----------------------------------------------------------------------===//
// Random numbers
//===----------------------------------------------------------------------===//

GraphValue GraphBuilder::randomUniform(ElementType type, const GraphShape &shape, double low, double high,
                                       std::optional<int64_t> key) {
  GraphValue result =
      createAs<ir::RandomUniformOp>(type, shape, key.value_or(static_cast<int64_t>(state->randoms)), low, high);
  state->randoms += static_cast<bool>(result);
  return result;
}

GraphValue GraphBuilder::randomNormal(ElementType type, const GraphShape &shape, double mean, double scale,
                                      std::optional<int64_t> key) {
  GraphValue result =
      createAs<ir::RandomNormalOp>(type, shape, key.value_or(static_cast<int64_t>(state->randoms)), mean, scale);
  state->randoms += static_cast<bool>(result);
  return result;
}

//===----------------------------------------------------------------------===//
// The end
//===----------------------------------------------------------------------===//

Result<BuiltGraph> GraphBuilder::finish(ArrayRef<GraphOutput> outputs) {
  if (std::optional<Error> wrong = usable("finish"))
    return std::move(*wrong);
  if (outputs.empty())
    return invalid("the graph has no outputs");
  SmallVector<mlir::Value> values;
  SmallVector<mlir::Type> types;
  SmallVector<mlir::Attribute> inputAttrs, outputAttrs;
  llvm::StringSet<> names;
  mlir::OpBuilder &b = state->builder;
  auto nameAttr = [&](StringRef name) -> mlir::Attribute {
    return b.getDictionaryAttr(b.getNamedAttr(ir::GraphOp::getNameAttrName(), b.getStringAttr(name)));
  };
  for (const GraphOutput &output : outputs) {
    if (output.name.empty())
      return invalid("an output's name is empty");
    if (!names.insert(output.name).second)
      return invalid("two outputs are called " + quoted(output.name));
    if (std::optional<Error> wrong = check(output.value, "output " + quoted(output.name)))
      return std::move(*wrong);
    values.push_back(output.value.value);
    types.push_back(output.value.value.getType());
    outputAttrs.push_back(nameAttr(output.name));
  }
  for (const std::string &name : state->inputNames)
    inputAttrs.push_back(nameAttr(name));

  ir::GraphOp graph = state->graph;
  auto list = [&](ArrayRef<mlir::Attribute> attrs) {
    return attrs.empty() ? mlir::ArrayAttr() : b.getArrayAttr(attrs);
  };
  mlir::Operation *terminator = ir::OutputOp::create(b, mlir::UnknownLoc::get(&state->context), values);
  graph.setFunctionType(b.getFunctionType(state->body().getArgumentTypes(), types));
  if (mlir::ArrayAttr attrs = list(inputAttrs))
    graph.setArgAttrsAttr(attrs);
  graph.setResAttrsAttr(list(outputAttrs));
  if (mlir::ArrayAttr attrs = list(state->dimDecls))
    graph.setDimsAttr(attrs);
  if (mlir::ArrayAttr attrs = list(state->constraints))
    graph.setConstraintsAttr(attrs);

  Complaints complaints(state->context);
  if (mlir::failed(mlir::verify(*state->module))) {
    terminator->erase();
    return Error{ErrorCode::InvalidModel, printable(complaints.withNode())};
  }
  state->finished = true;
  BuiltGraph built;
  built.context = std::move(state->owned);
  built.module = std::move(state->module);
  built.weights = std::move(state->weights);
  return built;
}

Result<std::vector<DimExpr>> GraphBuilder::shape(const GraphValue &x) const {
  if (std::optional<Error> wrong = usable("shape"))
    return std::move(*wrong);
  if (std::optional<Error> wrong = check(x, "shape"))
    return std::move(*wrong);
  SmallVector<DimExpr> dims = ir::getShape(llvm::cast<mlir::RankedTensorType>(x.value.getType())).dims;
  return std::vector<DimExpr>(dims.begin(), dims.end());
}

Result<data::ElementType> GraphBuilder::elementType(const GraphValue &x) const {
  if (std::optional<Error> wrong = usable("elementType"))
    return std::move(*wrong);
  if (std::optional<Error> wrong = check(x, "elementType"))
    return std::move(*wrong);
  return *ir::toElementType(llvm::cast<mlir::RankedTensorType>(x.value.getType()).getElementType());
}
