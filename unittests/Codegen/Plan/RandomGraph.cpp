//===- RandomGraph.cpp - graphs that nobody would write -------------------===//
#include "RandomGraph.h"

#include "rlx/Dialect/RLX/IR/ElementData.h"
#include "rlx/Dialect/RLX/IR/TensorShape.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cmath>

using namespace mlir;

namespace rlx::test {

uint64_t Random::next() {
  uint64_t z = (state += 0x9E3779B97F4A7C15);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

std::string RandomGraph::text() {
  std::string result;
  llvm::raw_string_ostream stream(result);
  OpPrintingFlags flags;
  flags.enableDebugInfo(true, false); // nodes have names
  module->print(stream, flags);
  return result;
}

std::vector<int64_t> randomSizes(Random &random, size_t count) {
  int64_t common = 1 + random.below(7);
  std::vector<int64_t> sizes;
  for (size_t i = 0; i != count; ++i) {
    uint64_t roll = random.below(100);
    sizes.push_back(roll < 55 ? common : roll < 75 ? 1 : roll < 82 ? 0 : roll < 98 ? 2 + random.below(6) : 33);
  }
  return sizes;
}

namespace {

constexpr double kSizeBound = 8;

class Generator {
public:
  Generator(MLIRContext &context, uint64_t seed) : context(context), builder(&context), random(seed * 7919 + 13) {
    const Type types[] = {builder.getF32Type(), builder.getF64Type(), builder.getF16Type(), builder.getBF16Type()};
    element = types[seed % 6 < 3 ? 0 : seed % 6 - 2];
  }
  RandomGraph run();

private:
  struct Item {
    Value value;
    double bound; ///< of absolute values
    bool exact;   ///< no rounding anywhere: may be compared
  };

  Location location() { return NameLoc::get(builder.getStringAttr("node" + std::to_string(nodes++))); }
  ir::TensorShape shapeOf(Value value) { return ir::getShape(cast<RankedTensorType>(value.getType())); }
  size_t rankOf(Value value) { return cast<RankedTensorType>(value.getType()).getRank(); }
  DimExpr name() { return DimExpr::symbol(random.pick(names)); }
  Type typeOf(ArrayRef<DimExpr> dims, Type element = {}) {
    ir::TensorShape shape;
    shape.dims.assign(dims.begin(), dims.end());
    shape.elementType = element ? element : this->element;
    return ir::makeType(&context, shape);
  }
  /// One of the values so far, the latest ones more often.
  Item pick() {
    size_t count = items.size();
    return items[random.chance(60) && count > 4 ? count - 1 - random.below(4) : random.below(count)];
  }
  bool narrow() const { return element.getIntOrFloatBitWidth() == 16; }
  std::optional<Item> pickWithRank(size_t least, size_t most = 99) {
    for (int i = 0; i < 12; ++i)
      if (Item item = pick(); rankOf(item.value) >= least && rankOf(item.value) <= most)
        return item;
    return std::nullopt;
  }
  void add(Value value, double bound, bool exact) {
    if (!value || rankOf(value) > 5)
      return;
    // Nothing grows without end.
    if (bound > (narrow() ? 4 : 64)) {
      value = ir::TanhOp::create(builder, location(), value.getType(), value);
      bound = 1;
      exact = false;
    }
    scale = std::max(scale, bound);
    items.push_back({value, bound, exact});
  }
  template <typename OpTy, typename... Args> Value make(Args &&...args) {
    FailureOr<OpTy> op = ir::createChecked<OpTy>(builder, location(), std::forward<Args>(args)...);
    return failed(op) ? Value() : Value((*op)->getResult(0));
  }
  /// An op whose result type is given.
  template <typename OpTy, typename... Args> Value makeTyped(Type type, Args &&...args) {
    auto op = OpTy::create(builder, location(), type, std::forward<Args>(args)...);
    if (succeeded(mlir::verify(op)))
      return op.getResult();
    op.erase();
    return {};
  }
  void require(DimPredicate::Kind kind, DimExpr lhs, DimExpr rhs, std::string message) {
    DimPredicate predicate{kind, std::move(lhs), std::move(rhs)};
    if (!ir::isCertain(predicate))
      constraints.push_back(ir::ConstraintAttr::get(&context, predicate, message));
  }
  Value scalar(double value) {
    auto type = RankedTensorType::get({}, element);
    return ir::ConstantOp::create(builder, location(),
                                  DenseElementsAttr::get(type, Attribute(FloatAttr::get(element, value))));
  }
  Value weight(ArrayRef<int64_t> shape);

  void inputs();
  void step();
  void unary();
  void binary();
  void choice();
  void matmul();
  void attention();
  void mergedAttention(const Item &x);
  void transpose();
  void reshape();
  void slice();
  void concat();
  void reduce();
  void rows();
  void gather();
  void tied();
  void pad();
  void cumsum();
  void broadcast();
  void positions();
  void sizes();
  void integers();
  void scatter();
  void finish();

  MLIRContext &context;
  OpBuilder builder;
  Random random;
  RandomGraph made;
  std::vector<std::string> names;
  std::vector<Item> items;
  std::vector<Value> indices; ///< i64 inputs
  SmallVector<Attribute> constraints;
  Type element;
  double scale = 1;
  unsigned nodes = 0, rows_ = 0;
};

Value Generator::weight(ArrayRef<int64_t> shape) {
  // Eighths: exact in every float type.
  SmallVector<Attribute> values;
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  for (int64_t i = 0; i < count; ++i)
    values.push_back(FloatAttr::get(element, (static_cast<int64_t>(random.below(17)) - 8) / 8.0));
  auto type = RankedTensorType::get(shape, element);
  auto bytes = std::make_shared<std::vector<uint8_t>>(ir::bytesOf(DenseElementsAttr::get(type, values)));
  std::string row = "w" + std::to_string(rows_++);
  WeightRow entry{made.type, {shape.begin(), shape.end()}, std::as_bytes(std::span(*bytes)), bytes};
  if (!made.weights->add(row, std::move(entry)))
    return {};
  return ir::WeightOp::create(builder, location(), type, row);
}

void Generator::inputs() {
  std::vector<std::string> all{"B", "S", "N", "M"};
  size_t count = 2 + random.below(3);
  SmallVector<Type> types;
  std::set<std::string> used;
  for (size_t i = 0; i < count; ++i) {
    SmallVector<DimExpr> dims;
    size_t rank = i == 0 ? 2 + random.below(3) : random.below(5);
    for (size_t d = 0; d < rank; ++d)
      dims.push_back(random.chance(65) ? DimExpr::symbol(random.pick(all)) : DimExpr(1 + random.below(5)));
    for (const DimExpr &dim : dims)
      dim.collectNames(used);
    types.push_back(typeOf(dims));
  }
  if (used.empty()) {
    used.insert("S");
    types.push_back(typeOf({DimExpr::symbol("S"), DimExpr(3)}));
  }
  names.assign(used.begin(), used.end());
  types.push_back(typeOf({name()}, builder.getI64Type()));
  made.graph = ir::GraphOp::create(builder, builder.getUnknownLoc(), "main", builder.getFunctionType(types, {}));
  Block &block = made.graph.getBody().empty() ? made.graph.getBody().emplaceBlock() : made.graph.getBody().front();
  for (auto [i, type] : llvm::enumerate(types)) {
    Value argument =
        i < block.getNumArguments() ? block.getArgument(i) : block.addArgument(type, builder.getUnknownLoc());
    if (i + 1 == types.size())
      indices.push_back(argument);
    else
      items.push_back({argument, 1, true});
  }
  builder.setInsertionPointToEnd(&block);
}

void Generator::unary() {
  Item x = pick();
  switch (random.below(8)) {
  case 0:
    return add(make<ir::TanhOp>(x.value), 1, false);
  case 1:
    return add(make<ir::SigmoidOp>(x.value), 1, false);
  case 2:
    return add(make<ir::AbsOp>(x.value), x.bound, x.exact);
  case 3:
    return add(make<ir::NegOp>(x.value), x.bound, x.exact);
  case 4:
    return add(make<ir::SqrtOp>(make<ir::AbsOp>(x.value)), std::sqrt(x.bound) + 1, false);
  case 5:
    return x.bound <= 3 ? add(make<ir::ExpOp>(x.value), std::exp(x.bound), false) : unary();
  case 6:
    return add(make<ir::ErfOp>(x.value), 1, false);
  default:
    return add(make<ir::GeluOp>(x.value, UnitAttr()), x.bound, false);
  }
}

void Generator::binary() {
  for (int attempt = 0; attempt < 6; ++attempt) {
    Item a = pick(), b = pick();
    if (random.chance(10))
      b = {scalar(0.5), 1, true};
    Value result;
    double bound = a.bound + b.bound;
    bool exact = false;
    switch (random.below(5)) {
    case 0:
      result = make<ir::AddOp>(a.value, b.value);
      break;
    case 1:
      result = make<ir::SubOp>(a.value, b.value);
      break;
    case 2:
      result = make<ir::MulOp>(a.value, b.value);
      bound = a.bound * b.bound;
      break;
    case 3:
      result = make<ir::MaxOp>(a.value, b.value);
      exact = a.exact && b.exact;
      break;
    default:
      result = make<ir::MinOp>(a.value, b.value);
      exact = a.exact && b.exact;
    }
    if (result)
      return add(result, bound, exact);
  }
}

/// A comparison of exact values, so that rounding never decides, and what it selects.
void Generator::choice() {
  for (int attempt = 0; attempt < 8; ++attempt) {
    Item a = pick(), b = random.chance(30) ? Item{scalar(0.25), 1, true} : pick(), x = pick(), y = pick();
    if (!a.exact || !b.exact)
      continue;
    Value condition = make<ir::CompareOp>(static_cast<ir::ComparePredicate>(random.below(6)), a.value, b.value);
    if (!condition)
      continue;
    if (Value result = make<ir::SelectOp>(condition, x.value, y.value))
      return add(result, std::max(x.bound, y.bound), x.exact && y.exact);
  }
}

void Generator::matmul() {
  std::optional<Item> x = pickWithRank(2, 4);
  if (!x)
    return;
  ir::TensorShape shape = shapeOf(x->value);
  std::optional<int64_t> inner = shape.dims.back().constant();
  unsigned kind = random.below(3);
  if (kind == 0 && inner && *inner > 0)
    return add(make<ir::MatmulOp>(x->value, weight({*inner, static_cast<int64_t>(1 + random.below(20))})),
               x->bound * *inner, false);
  SmallVector<int64_t> permutation;
  for (size_t i = 0; i < shape.dims.size(); ++i)
    permutation.push_back(i);
  std::swap(permutation[shape.dims.size() - 1], permutation[shape.dims.size() - 2]);
  if (kind == 1) {
    Value turned = make<ir::TransposeOp>(x->value, permutation);
    Value product = random.chance(50) ? make<ir::MatmulOp>(x->value, turned) : make<ir::MatmulOp>(turned, x->value);
    return add(product, x->bound * x->bound * kSizeBound, false);
  }
  for (int attempt = 0; attempt < 6; ++attempt) {
    std::optional<Item> y = pickWithRank(2, 4);
    if (!y)
      return;
    if (Value product = make<ir::MatmulOp>(x->value, y->value))
      return add(product, x->bound * y->bound * kSizeBound, false);
  }
}

/// softmax(q k^T, scaled, masked) v in the forms that exporters write, and in some that do not fit into one kernel.
void Generator::attention() {
  std::optional<Item> q = pickWithRank(2, 4);
  if (!q)
    return;
  SmallVector<int64_t> swapped, heads;
  for (size_t i = 0; i < rankOf(q->value); ++i)
    swapped.push_back(i);
  heads = swapped;
  std::swap(swapped[swapped.size() - 1], swapped[swapped.size() - 2]);
  if (rankOf(q->value) == 4 && random.chance(30))
    return mergedAttention(*q);
  Item k = *q;
  Value scores;
  for (int attempt = 0; attempt < 4 && !scores; ++attempt) {
    std::optional<Item> other = pickWithRank(2, 4);
    k = attempt < 3 && other && rankOf(other->value) == rankOf(q->value) ? *other : *q;
    scores = make<ir::MatmulOp>(q->value, make<ir::TransposeOp>(k.value, swapped));
  }
  if (!scores)
    return;
  SmallVector<DimExpr> dims = shapeOf(scores).dims;
  if (random.chance(70))
    scores = make<ir::MulOp>(scores, scalar(0.25));
  for (int attempt = 0; attempt < 3 && random.chance(70); ++attempt)
    if (Value masked = make<ir::AddOp>(scores, pick().value); masked && shapeOf(masked).dims == dims)
      scores = masked;
  bool wider = narrow() && random.chance(40);
  if (wider)
    scores = makeTyped<ir::ConvertOp>(typeOf(dims, builder.getF32Type()), scores);
  Value weights = make<ir::SoftmaxOp>(scores, static_cast<uint64_t>(dims.size() - 1));
  if (wider)
    weights = makeTyped<ir::ConvertOp>(typeOf(dims), weights);
  if (random.chance(30))
    weights = make<ir::SelectOp>(make<ir::IsNaNOp>(weights), scalar(0), weights);
  if (random.chance(10)) // somebody else wants them too
    add(weights, 1, false);
  std::optional<Item> v = pickWithRank(2, 4);
  Value result = v ? make<ir::MatmulOp>(weights, v->value) : Value();
  if (!result) {
    v = k;
    result = make<ir::MatmulOp>(weights, k.value);
  }
  if (result && heads.size() >= 3 && random.chance(50)) {
    std::swap(heads[heads.size() - 2], heads[heads.size() - 3]);
    if (rankOf(result) == heads.size())
      result = make<ir::TransposeOp>(result, heads);
  }
  add(result, v->bound, false);
}

/// With batch and heads merged around each product.
void Generator::mergedAttention(const Item &x) {
  SmallVector<DimExpr> dims = shapeOf(x.value).dims;
  auto merge = [&](Value value) {
    SmallVector<DimExpr> own = shapeOf(value).dims;
    return makeTyped<ir::ReshapeOp>(typeOf({own[0] * own[1], own[2], own[3]}), value);
  };
  auto split = [&](Value value, const DimExpr &last) {
    return makeTyped<ir::ReshapeOp>(typeOf({dims[0], dims[1], dims[2], last}), value);
  };
  SmallVector<int64_t> swapped = {0, 2, 1};
  Value merged = merge(x.value);
  Value scores = merged ? make<ir::MatmulOp>(merged, make<ir::TransposeOp>(merged, swapped)) : Value();
  if (!scores)
    return;
  if (random.chance(60)) {
    scores = split(scores, dims[2]);
    if (Value masked = make<ir::AddOp>(scores, pick().value); masked && shapeOf(masked).dims == shapeOf(scores).dims)
      scores = masked;
    scores = merge(make<ir::MulOp>(scores, scalar(0.25)));
  }
  Value result = make<ir::MatmulOp>(make<ir::SoftmaxOp>(scores, uint64_t(2)), merge(x.value));
  add(random.chance(70) ? split(result, dims[3]) : result, x.bound, false);
}

void Generator::transpose() {
  std::optional<Item> x = pickWithRank(2);
  if (!x)
    return;
  SmallVector<int64_t> permutation;
  for (size_t i = 0; i < rankOf(x->value); ++i)
    permutation.push_back(i);
  for (size_t i = permutation.size(); i-- > 1;)
    std::swap(permutation[i], permutation[random.below(i + 1)]);
  add(make<ir::TransposeOp>(x->value, permutation), x->bound, x->exact);
}

/// As ONNX's Reshape would: merges, splits and a -1 whose divisor must not be 0.
void Generator::reshape() {
  Item x = pick();
  SmallVector<DimExpr> dims = shapeOf(x.value).dims, request;
  switch (random.below(4)) {
  case 0: // [-1]
    request.push_back(DimExpr(-1));
    break;
  case 1: { // merge two neighbours
    if (dims.size() < 2)
      return;
    size_t at = random.below(dims.size() - 1);
    for (size_t i = 0; i < dims.size(); ++i)
      if (i == at) {
        request.push_back(dims[i] * dims[i + 1]);
        ++i;
      } else {
        request.push_back(dims[i]);
      }
    break;
  }
  case 2: { // unit dims come and go
    for (const DimExpr &dim : dims) {
      if (dim == DimExpr(1) && random.chance(50))
        continue;
      request.push_back(dim);
      if (random.chance(30))
        request.push_back(DimExpr(1));
    }
    break;
  }
  default: { // some dims in a new order, and a -1
    SmallVector<DimExpr> rest(dims);
    for (size_t i = rest.size(); i-- > 1;)
      std::swap(rest[i], rest[random.below(i + 1)]);
    if (!rest.empty())
      rest.pop_back();
    for (const DimExpr &dim : rest) {
      std::optional<int64_t> size = dim.constant();
      if (size && *size == 4 && random.chance(50)) {
        request.push_back(DimExpr(2));
        request.push_back(DimExpr(2));
      } else {
        request.push_back(dim);
      }
    }
    request.insert(request.begin() + random.below(request.size() + 1), random.chance(85) ? DimExpr(-1) : DimExpr(2));
    break;
  }
  }
  Result<SmallVector<DimExpr>> result = ir::resolveReshape(dims, request, false);
  if (!result || result->size() > 5)
    return;
  DimExpr divisor(1);
  bool open = false;
  for (const DimExpr &dim : request)
    if (dim == DimExpr(-1))
      open = true;
    else
      divisor = divisor * dim;
  std::string node = "node" + std::to_string(nodes);
  Value reshaped = makeTyped<ir::ReshapeOp>(typeOf(*result), x.value);
  if (reshaped && open)
    require(DimPredicate::Kind::LessEqual, DimExpr(1), divisor, "the -1 of " + node + " divides by a size");
  add(reshaped, x.bound, x.exact);
}

void Generator::slice() {
  std::optional<Item> x = pickWithRank(1);
  if (!x)
    return;
  SmallVector<DimExpr> dims = shapeOf(x->value).dims, starts(dims.size(), DimExpr(0));
  SmallVector<int64_t> steps(dims.size(), 1);
  size_t axis = random.below(dims.size());
  DimExpr extent = dims[axis], a(static_cast<int64_t>(random.below(4))), b(static_cast<int64_t>(1 + random.below(4)));
  DimExpr from, to = extent;
  switch (random.below(5)) {
  case 0: // [a:]
    from = DimExpr::min(a, extent);
    break;
  case 1: // [:b]
    to = DimExpr::min(b, extent);
    break;
  case 2: // [-b:]
    from = DimExpr::max(extent - b, DimExpr(0));
    break;
  case 3: // [::2]
    steps[axis] = 2;
    break;
  default: // [::-1]
    starts[axis] = extent - DimExpr(1);
    steps[axis] = -1;
    add(makeTyped<ir::SliceOp>(typeOf(dims), x->value, ir::DimsAttr::get(&context, starts),
                               builder.getDenseI64ArrayAttr(steps)),
        x->bound, x->exact);
    return;
  }
  starts[axis] = from;
  dims[axis] = DimExpr::ceilDiv(DimExpr::max(to - from, DimExpr(0)), DimExpr(steps[axis]));
  add(makeTyped<ir::SliceOp>(typeOf(dims), x->value, ir::DimsAttr::get(&context, starts),
                             builder.getDenseI64ArrayAttr(steps)),
      x->bound, x->exact);
}

void Generator::concat() {
  for (int attempt = 0; attempt < 8; ++attempt) {
    std::optional<Item> x = pickWithRank(1), y = pickWithRank(1);
    if (!x || !y || rankOf(x->value) != rankOf(y->value))
      continue;
    SmallVector<Value> values{x->value, y->value};
    if (random.chance(20))
      values.push_back(x->value);
    // Alongside the axis in which the shapes differ first, so that it is legal more often than not.
    SmallVector<DimExpr> a = shapeOf(x->value).dims, b = shapeOf(y->value).dims;
    size_t axis = random.below(a.size());
    for (size_t i = 0; i < a.size(); ++i)
      if (!(a[i] == b[i])) {
        axis = i;
        break;
      }
    if (Value result = make<ir::ConcatOp>(values, static_cast<uint64_t>(axis)))
      return add(result, std::max(x->bound, y->bound), x->exact && y->exact);
  }
}

void Generator::reduce() {
  Item x = pick();
  size_t rank = rankOf(x.value);
  SmallVector<int64_t> axes;
  for (size_t i = 0; i < rank; ++i)
    if (random.chance(45))
      axes.push_back(i);
  const ir::ReduceKind kinds[] = {ir::ReduceKind::Sum, ir::ReduceKind::Mean, ir::ReduceKind::Max, ir::ReduceKind::Min};
  ir::ReduceKind kind = kinds[random.below(4)];
  double bound = x.bound;
  if (x.bound <= 1 && random.chance(20))
    kind = ir::ReduceKind::Prod;
  if (kind == ir::ReduceKind::Sum)
    bound *= std::pow(kSizeBound, axes.size());
  add(make<ir::ReduceOp>(kind, x.value, axes, random.chance(50)), bound, false);
}

void Generator::rows() {
  std::optional<Item> x = pickWithRank(1);
  if (!x)
    return;
  SmallVector<DimExpr> dims = shapeOf(x->value).dims;
  uint64_t last = dims.size() - 1;
  APFloat epsilon(0.1);
  switch (random.below(5)) {
  case 0:
  case 1:
    return add(make<ir::SoftmaxOp>(x->value, random.chance(70) ? last : random.below(dims.size())), 1, false);
  case 2:
    return add(make<ir::LogSoftmaxOp>(x->value, random.chance(70) ? last : random.below(dims.size())), 2 * x->bound + 4,
               false);
  case 3: {
    Value scale, bias;
    std::optional<int64_t> size = dims.back().constant();
    if (size && *size > 0 && random.chance(70)) {
      scale = weight({*size});
      if (random.chance(60))
        bias = weight({*size});
    }
    uint64_t axis = scale ? last : last - (last > 0 && random.chance(40));
    return add(make<ir::LayerNormOp>(x->value, scale, bias, axis, epsilon), 8, false);
  }
  default:
    return add(make<ir::RmsNormOp>(x->value, Value(), last, epsilon), 8, false);
  }
}

void Generator::gather() {
  std::optional<Item> x = pickWithRank(1, 4);
  if (!x)
    return;
  // Inputs of indices hold 0 and -1: valid wherever there is anything to look up.
  Value index = random.pick(indices);
  uint64_t axis = random.below(rankOf(x->value));
  if (random.chance(25))
    index = ir::ConstantOp::create(builder, location(),
                                   DenseElementsAttr::get(RankedTensorType::get({}, builder.getI64Type()), int64_t(0)));
  if (rankOf(index) == 1 && rankOf(x->value) == 1 && random.chance(50))
    return add(make<ir::GatherElementsOp>(x->value, index, axis), x->bound, x->exact);
  add(make<ir::GatherOp>(x->value, index, axis), x->bound, x->exact);
}

/// Embeddings and a head that share a matrix, as it is or transposed.
void Generator::tied() {
  int64_t width = 1 + static_cast<int64_t>(random.below(20));
  Value table = weight({1 + static_cast<int64_t>(random.below(40)), width});
  Value rows = make<ir::GatherOp>(table, random.pick(indices), uint64_t(0));
  if (!rows || rankOf(rows) < 2)
    return;
  add(rows, 1, true);
  add(make<ir::MatmulOp>(rows, make<ir::TransposeOp>(table, ArrayRef<int64_t>{1, 0})), static_cast<double>(width),
      false);
}

void Generator::pad() {
  std::optional<Item> x = pickWithRank(1);
  if (!x)
    return;
  SmallVector<DimExpr> low, high;
  for (size_t i = 0; i < rankOf(x->value); ++i) {
    low.push_back(DimExpr(random.chance(40) ? random.below(3) : 0));
    high.push_back(random.chance(15) ? name() : DimExpr(random.chance(40) ? random.below(3) : 0));
  }
  add(make<ir::PadOp>(x->value, scalar(0.75), ir::DimsAttr::get(&context, low), ir::DimsAttr::get(&context, high)),
      std::max(x->bound, 1.0), x->exact);
}

void Generator::cumsum() {
  std::optional<Item> x = pickWithRank(1);
  if (!x)
    return;
  uint64_t axis = random.below(rankOf(x->value));
  add(make<ir::CumSumOp>(x->value, axis, random.chance(30), random.chance(30)), x->bound * kSizeBound, false);
}

void Generator::broadcast() {
  Item x = pick();
  SmallVector<DimExpr> dims = shapeOf(x.value).dims;
  for (DimExpr &dim : dims)
    if (dim == DimExpr(1) && random.chance(80))
      dim = random.chance(70) ? name() : DimExpr(3);
    else if (dim.isSymbol() && random.chance(10))
      dim = name(); // 1 or equal: a requirement
  if (dims.size() < 4 && random.chance(60))
    dims.insert(dims.begin(), random.chance(60) ? name() : DimExpr(2));
  add(makeTyped<ir::BroadcastToOp>(typeOf(dims), x.value), x.bound, x.exact);
}

void Generator::positions() {
  SmallVector<DimExpr> dims, startStep{DimExpr(0), DimExpr(1)};
  size_t rank = 1 + random.below(2);
  for (size_t i = 0; i < rank; ++i)
    dims.push_back(name());
  if (random.chance(30))
    startStep = {name(), DimExpr(-1)};
  Value iota = ir::IotaOp::create(builder, location(), typeOf(dims, builder.getI64Type()),
                                  ir::DimsAttr::get(&context, startStep), random.below(rank));
  add(ir::ConvertOp::create(builder, location(), iota, element), kSizeBound, true);
}

void Generator::sizes() {
  SmallVector<DimExpr> values{name()};
  if (random.chance(60))
    values.push_back(name() + DimExpr(1));
  Value list = ir::DimValuesOp::create(builder, location(),
                                       typeOf({DimExpr(static_cast<int64_t>(values.size()))}, builder.getI64Type()),
                                       ir::DimsAttr::get(&context, values));
  add(ir::ConvertOp::create(builder, location(), list, element), kSizeBound, true);
}

/// Exact values as integers, something done to them, and back.
void Generator::integers() {
  Item x = pick();
  if (!x.exact || x.bound > 32)
    return;
  const Type types[] = {builder.getI32Type(), builder.getIntegerType(8), builder.getIntegerType(16),
                        builder.getI64Type(), builder.getIntegerType(8, /*isSigned=*/false)};
  Type type = types[random.below(5)];
  auto scalarType = RankedTensorType::get({}, type);
  Value three = ir::ConstantOp::create(builder, location(),
                                       DenseElementsAttr::get(scalarType, APInt(type.getIntOrFloatBitWidth(), 3)));
  Value whole = ir::ConvertOp::create(builder, location(), make<ir::MulOp>(x.value, scalar(8)), type);
  switch (random.below(6)) {
  case 0:
    whole = make<ir::DivOp>(whole, three);
    break;
  case 1:
    whole = make<ir::ModOp>(whole, three);
    break;
  case 2:
    whole = make<ir::RemOp>(whole, three);
    break;
  case 3:
    whole = make<ir::MinOp>(whole, three);
    break;
  case 4:
    if (rankOf(whole) > 0)
      whole = make<ir::ReduceOp>(random.chance(50) ? ir::ReduceKind::Max : ir::ReduceKind::Min,
                                 make<ir::MinOp>(whole, three), ArrayRef<int64_t>{0}, true);
    break;
  default:
    whole = make<ir::MaxOp>(whole, three);
  }
  // The extremes of an empty reduction have no exact place in a narrow float.
  whole = make<ir::MinOp>(whole, three);
  if (!type.isUnsignedInteger())
    whole = make<ir::MaxOp>(whole, make<ir::NegOp>(three));
  Value divided = make<ir::MulOp>(ir::ConvertOp::create(builder, location(), whole, element), scalar(0.125));
  add(divided, 1, true);
}

void Generator::scatter() {
  std::optional<Item> x = pickWithRank(1, 3);
  if (!x)
    return;
  const ir::Combine combines[] = {ir::Combine::Assign, ir::Combine::Add, ir::Combine::Max};
  ir::Combine combine = combines[random.below(3)];
  SmallVector<DimExpr> dims = shapeOf(x->value).dims;
  Value index = random.pick(indices);
  DimExpr count = shapeOf(index).dims[0];
  // Index tuples of one: rows of the data.
  Value tuples = makeTyped<ir::ReshapeOp>(typeOf({count, DimExpr(1)}, builder.getI64Type()), index);
  SmallVector<DimExpr> updateDims(dims);
  updateDims[0] = count;
  Value updates = makeTyped<ir::BroadcastToOp>(typeOf(updateDims), scalar(0.25));
  double bound = combine == ir::Combine::Add ? x->bound + kSizeBound : std::max(x->bound, 1.0);
  if (dims.size() == 1 && random.chance(50))
    return add(make<ir::ScatterElementsOp>(x->value, index, updates, uint64_t(0), combine), bound, x->exact);
  if (random.chance(50))
    return add(make<ir::GatherNDOp>(x->value, tuples, uint64_t(0)), x->bound, x->exact);
  add(make<ir::ScatterNDOp>(x->value, tuples, updates, combine), bound, x->exact);
}

void Generator::step() {
  using Maker = void (Generator::*)();
  struct Choice {
    unsigned weight;
    Maker maker;
  };
  static const Choice choices[] = {
      {16, &Generator::unary},    {22, &Generator::binary},   {6, &Generator::choice},   {8, &Generator::matmul},
      {6, &Generator::attention}, {8, &Generator::transpose}, {10, &Generator::reshape}, {8, &Generator::slice},
      {6, &Generator::concat},    {8, &Generator::reduce},    {8, &Generator::rows},     {4, &Generator::gather},
      {5, &Generator::tied},      {3, &Generator::pad},       {3, &Generator::cumsum},   {5, &Generator::broadcast},
      {3, &Generator::positions}, {2, &Generator::sizes},     {4, &Generator::integers}, {4, &Generator::scatter}};
  unsigned total = 0;
  for (const Choice &choice : choices)
    total += choice.weight;
  unsigned roll = random.below(total);
  for (const Choice &choice : choices) {
    if (roll < choice.weight)
      return (this->*choice.maker)();
    roll -= choice.weight;
  }
}

void Generator::finish() {
  // What nobody uses, and now and then what somebody does: a value, an input, one of them again.
  SmallVector<Value> outputs;
  for (const Item &item : llvm::reverse(items))
    if (item.value.use_empty() && !isa<BlockArgument>(item.value) && outputs.size() < 3)
      outputs.push_back(item.value);
  if (outputs.empty() || random.chance(25))
    outputs.push_back(pick().value);
  if (random.chance(10))
    outputs.push_back(items.front().value);
  if (random.chance(10))
    outputs.push_back(outputs.front());
  ir::OutputOp::create(builder, builder.getUnknownLoc(), outputs);
  // Ops that nobody reads would still require things of sizes.
  SmallVector<Operation *> all(llvm::make_pointer_range(made.graph.getBody().front().without_terminator()));
  for (Operation *op : llvm::reverse(all))
    if (op->use_empty())
      op->erase();
  SmallVector<Type> results;
  for (Value value : outputs)
    results.push_back(value.getType());
  made.graph.setFunctionType(builder.getFunctionType(made.graph.getBody().front().getArgumentTypes(), results));
  SmallVector<Attribute> declarations;
  for (const std::string &dim : names)
    declarations.push_back(ir::DimDeclAttr::get(&context, dim, 0, INT64_MAX, 1, {}, std::nullopt));
  made.graph.setDimsAttr(builder.getArrayAttr(declarations));
  if (!constraints.empty())
    made.graph.setConstraintsAttr(builder.getArrayAttr(constraints));
  made.scale = scale;
}

RandomGraph Generator::run() {
  // Combinations that are no graph are tried and dropped.
  ScopedDiagnosticHandler silent(&context, [](Diagnostic &) { return success(); });
  made.weights = std::make_shared<WeightTable>();
  made.type = *ir::toElementType(element);
  made.module = ModuleOp::create(builder.getUnknownLoc());
  builder.setInsertionPointToEnd(made.module->getBody());
  inputs();
  // Rounding adds up: narrow types get short graphs.
  size_t count = items.size() + (narrow() ? 2 + random.below(3) : 6 + random.below(14));
  for (int i = 0; i < 80 && items.size() < count; ++i)
    step();
  finish();
  return std::move(made);
}

} // namespace

RandomGraph makeRandomGraph(MLIRContext &context, uint64_t seed) { return Generator(context, seed).run(); }

} // namespace rlx::test
