//===- Shape.cpp - ops that ask for shapes, and make values of them -------===//
#include "Importer.h"
#include "Node.h"
#include "Proto.h"

#include "llvm/ADT/Twine.h"

#include <cmath>

using namespace rlx;
using namespace rlx::onnx_import;
using llvm::Twine;
using Kind = DimPredicate::Kind;

//===----------------------------------------------------------------------===//
// Constants
//===----------------------------------------------------------------------===//

static void constantOp(Node &n) {
  std::string name = n.proto().output_size() ? n.proto().output(0) : "";
  if (const ::onnx::TensorProto *tensor = n.attrTensor("value"))
    return n.out(0, n.constant(*tensor, n.where().prefix + name));
  mlir::OpBuilder &builder = n.builder();
  auto make = [&](ArrayRef<int64_t> shape, Type element, auto values) {
    auto type = mlir::RankedTensorType::get(shape, element);
    n.out(0, ir::ConstantOp::create(builder, n.loc(), type, mlir::DenseElementsAttr::get(type, values)));
  };
  if (n.hasAttr("value_int")) {
    int64_t value = n.attrInt("value_int", 0);
    return make({}, builder.getI64Type(), ArrayRef<int64_t>(value));
  }
  if (n.hasAttr("value_float")) {
    float value = static_cast<float>(n.attrFloat("value_float", 0));
    return make({}, builder.getF32Type(), ArrayRef<float>(value));
  }
  if (auto values = n.attrInts("value_ints"))
    return make({static_cast<int64_t>(values->size())}, builder.getI64Type(), ArrayRef<int64_t>(*values));
  if (auto values = n.attrFloats("value_floats")) {
    SmallVector<float> floats(values->begin(), values->end());
    return make({static_cast<int64_t>(floats.size())}, builder.getF32Type(), ArrayRef<float>(floats));
  }
  if (!n.failed())
    n.unsupported("only tensors, integers and floats can be constants");
}

static void constantOfShapeOp(Node &n) {
  std::optional<DimVector> shape = n.shapeOperand(0, "input");
  if (!shape)
    return;
  Value value;
  if (const ::onnx::TensorProto *tensor = n.attrTensor("value"))
    value = n.reshape(n.constant(*tensor, n.name()), {});
  else
    value = n.scalar(n.builder().getF32Type(), 0);
  for (const DimExpr &dim : *shape)
    if (!n.require(Kind::LessEqual, DimExpr(0), dim, "a size is negative"))
      return;
  // A short list of known integers may become a shape itself.
  std::optional<DimVector> element = n.content(value);
  std::optional<int64_t> count = Node::product(*shape).constant();
  bool fixed = llvm::all_of(*shape, [](const DimExpr &dim) { return dim.isConstant(); });
  if (value && element && fixed && count && *count >= 0 && *count <= 64 && shape->size() <= 1 &&
      n.element(value).isInteger()) {
    SmallVector<int64_t> sizes;
    for (const DimExpr &dim : *shape)
      sizes.push_back(*dim.constant());
    return n.out(0, n.fromContent(DimVector(*count, element->front()), sizes, n.element(value)));
  }
  n.out(0, n.broadcast(value, *shape));
}

//===----------------------------------------------------------------------===//
// Shapes as values
//===----------------------------------------------------------------------===//

static void shapeOp(Node &n) {
  Value x = n.in(0);
  if (!x)
    return;
  DimVector dims = n.dims(x);
  int64_t rank = static_cast<int64_t>(dims.size());
  auto bound = [&](StringRef name, int64_t otherwise) {
    int64_t value = n.attrInt(name, otherwise);
    if (value < 0)
      value += rank;
    return std::clamp<int64_t>(value, 0, rank);
  };
  int64_t start = bound("start", 0), end = std::max(start, bound("end", rank));
  DimVector part(dims.begin() + start, dims.begin() + end);
  n.out(0, n.fromContent(part, {end - start}, n.builder().getI64Type()));
}

static void sizeOp(Node &n) {
  Value x = n.in(0);
  if (x)
    n.out(0, n.fromContent({Node::product(n.dims(x))}, {}, n.builder().getI64Type()));
}

static void rangeOp(Node &n) {
  Value start = n.in(0), limit = n.in(1), delta = n.in(2);
  Type element = n.element(start);
  if (!start || !limit || !delta)
    return;
  if (n.element(limit) != element || n.element(delta) != element)
    return (void)n.invalid("start, limit and delta have different types");
  auto first = n.content(start), last = n.content(limit), step = n.content(delta);
  auto single = [](const auto &list) { return list && list->size() == 1; };
  if (single(first) && single(last) && single(step)) {
    std::optional<int64_t> by = step->front().constant();
    if (!by || *by == INT64_MIN)
      return (void)n.unsupported("delta depends on a size, or has none that fits");
    if (*by == 0)
      return (void)n.invalid("delta is 0");
    DimExpr distance = *by > 0 ? last->front() - first->front() : first->front() - last->front();
    DimExpr count =
        n.simplify(DimExpr::ceilDiv(n.simplify(DimExpr::max(distance, DimExpr(0))), DimExpr(std::abs(*by))));
    if (std::optional<int64_t> number = count.constant(); number && *number <= 64 && element.isInteger()) {
      DimVector elements;
      for (int64_t i = 0; i < *number; ++i)
        elements.push_back(first->front() + DimExpr(i * *by));
      return n.out(0, n.fromContent(elements, {*number}, element));
    }
    return n.out(0, n.convert(n.iota({count}, 0, first->front(), DimExpr(*by)), element));
  }
  auto a = constantNumbers(start), b = constantNumbers(limit), c = constantNumbers(delta);
  if (single(a) && single(b) && single(c)) {
    double count = std::ceil((b->front() - a->front()) / c->front());
    if (!(count < 9.0e15)) // also NaN
      return (void)n.invalid("start, limit and delta give no length");
    DimExpr length(static_cast<int64_t>(std::max(count, 0.0)));
    Value position = n.convert(n.iota({length}, 0, DimExpr(0), DimExpr(1)), element);
    return n.out(0, n.add(n.mul(position, n.reshape(delta, {})), n.reshape(start, {})));
  }
  StringRef culprit = !first && !a ? "start" : !last && !b ? "limit" : "delta";
  n.unsupported("operand '" + culprit + "' decides a shape, and is known only when the model runs");
}

static void eyeLikeOp(Node &n) {
  Value x = n.in(0);
  if (!x)
    return;
  Type element = n.element(x);
  if (n.hasAttr("dtype")) {
    auto type = static_cast<int32_t>(n.attrInt("dtype", 0));
    std::optional<data::ElementType> wanted = elementTypeOf(type);
    if (!wanted)
      return (void)n.unsupported("element type " + onnxTypeName(type) + " is not supported");
    element = ir::fromElementType(n.context(), *wanted);
  }
  if (n.rank(x) != 2)
    return (void)n.invalid("the input has rank " + Twine(n.rank(x)) + ", not 2");
  DimVector dims = n.dims(x);
  Value rows = n.iota({dims[0], DimExpr(1)}, 0, DimExpr(n.attrInt("k", 0)), DimExpr(1));
  Value columns = n.iota({DimExpr(1), dims[1]}, 1, DimExpr(0), DimExpr(1));
  n.out(0, n.convert(n.compare(ir::ComparePredicate::Eq, columns, rows), element));
}

static void oneHotOp(Node &n) {
  Value indices = n.in(0), values = n.in(2);
  std::optional<DimVector> depth = n.shapeOperand(1, "depth");
  if (!indices || !values || !depth)
    return;
  if (depth->size() != 1 || n.rank(values) != 1)
    return (void)n.invalid("depth or values has the wrong shape");
  if (!n.require(Kind::LessEqual, DimExpr(0), depth->front(), "depth is not negative"))
    return;
  int64_t rank = n.rank(indices);
  std::optional<int64_t> axis = n.axis(n.attrInt("axis", -1), rank + 1);
  if (!axis)
    return;
  Type i64 = n.builder().getI64Type();
  DimVector dims = n.dims(indices), unit(rank + 1, DimExpr(1));
  dims.insert(dims.begin() + *axis, DimExpr(1));
  unit[*axis] = depth->front();
  Value position = n.reshape(n.convert(indices, i64), dims);
  // A negative index counts from the end; one out of range matches nothing.
  Value fromEnd = n.add(position, n.fromContent(*depth, {}, i64));
  position = n.select(n.compare(ir::ComparePredicate::Lt, position, n.scalarInt(i64, 0)), fromEnd, position);
  Value hit = n.compare(ir::ComparePredicate::Eq, position, n.iota(unit, *axis, DimExpr(0), DimExpr(1)));
  auto pick = [&](int64_t i) { return n.reshape(n.sliceAxis(values, 0, DimExpr(i), DimExpr(1)), {}); };
  if (!n.require(Kind::Equal, n.dims(values)[0], DimExpr(2), "values has two elements"))
    return;
  n.out(0, n.select(hit, pick(1), pick(0)));
}

//===----------------------------------------------------------------------===//
// Changing shapes
//===----------------------------------------------------------------------===//

static void reshapeOp(Node &n) {
  Value x = n.in(0);
  std::optional<DimVector> target = n.shapeOperand(1, "shape");
  bool zeroMeansZero = n.attrInt("allowzero", 0) != 0;
  if (!x || !target)
    return;
  if (n.rank(n.in(1)) != 1)
    return (void)n.invalid("shape has rank " + Twine(n.rank(n.in(1))) + ", not 1");
  DimVector dims = n.dims(x), result;
  std::optional<size_t> open;
  for (auto [i, size] : llvm::enumerate(*target)) {
    if (size == DimExpr(-1)) {
      if (open)
        return (void)n.invalid("shape holds -1 twice");
      open = i;
      result.push_back(DimExpr(1));
    } else if (size == DimExpr(0) && !zeroMeansZero) {
      if (i >= dims.size())
        return (void)n.invalid("shape copies dim " + Twine(i) + ", which the input does not have");
      result.push_back(dims[i]);
    } else {
      if (!n.require(Kind::LessEqual, DimExpr(0), size, "a size is negative"))
        return;
      result.push_back(n.simplify(size));
    }
  }
  if (open) {
    std::optional<DimExpr> rest = n.divideExactly(Node::product(dims), Node::product(result), "the -1 of a shape");
    if (!rest)
      return;
    result[*open] = n.simplify(*rest);
  } else if (!zeroMeansZero) {
    // A size that turns out to be 0 would mean "copy". That is the same where
    // the input's dim is 0 then, too.
    for (auto [i, size] : llvm::enumerate(*target)) {
      if (size.isConstant() || (i < dims.size() && dims[i].exactQuotient(size)))
        continue;
      // One of them holds: size >= 1, or 1 - dim >= 1.
      bool copied = i < dims.size() && n.prove(Kind::LessEqual, DimExpr(1), dims[i]) != true;
      DimExpr atLeastOne = copied ? DimExpr::max(size, DimExpr(1) - dims[i]) : size;
      if (!n.require(Kind::LessEqual, DimExpr(1), atLeastOne, "a size of 0 in a shape means to copy one"))
        return;
    }
  }
  n.out(0, n.reshape(x, result));
}

static void flattenOp(Node &n) {
  Value x = n.in(0);
  if (!x)
    return;
  DimVector dims = n.dims(x);
  int64_t rank = n.rank(x), axis = n.attrInt("axis", 1);
  if (axis < -rank || axis > rank)
    return (void)n.invalid("axis " + Twine(axis) + " is out of range for rank " + Twine(rank));
  if (axis < 0)
    axis += rank;
  ArrayRef<DimExpr> all(dims);
  n.out(0, n.reshape(x, {Node::product(all.take_front(axis)), Node::product(all.drop_front(axis))}));
}

/// Axes as an attribute before opset 13, as an input later.
static bool readAxes(Node &n, std::optional<SmallVector<int64_t>> &axes) {
  if (n.opset() < 13)
    axes = n.attrInts("axes");
  else if (n.has(1) && !(axes = n.constantOperand(1, "axes")))
    return false;
  return !n.failed();
}

static void squeezeOp(Node &n) {
  Value x = n.in(0);
  std::optional<SmallVector<int64_t>> given;
  if (!x || !readAxes(n, given))
    return;
  DimVector dims = n.dims(x), result;
  SmallVector<int64_t> drop;
  if (given) {
    std::optional<SmallVector<int64_t>> axes = n.axes(*given, n.rank(x));
    if (!axes)
      return;
    drop = *axes;
  } else {
    for (auto [i, dim] : llvm::enumerate(dims)) {
      std::optional<bool> unit = n.prove(Kind::Equal, dim, DimExpr(1));
      if (!unit)
        return (void)n.unsupported("without axes, whether dim " + Twine(i) + " (" + dim.str() +
                                   ") goes depends on its size");
      if (*unit)
        drop.push_back(static_cast<int64_t>(i));
    }
  }
  for (auto [i, dim] : llvm::enumerate(dims)) {
    if (!llvm::is_contained(drop, static_cast<int64_t>(i)))
      result.push_back(dim);
    else if (!n.require(Kind::Equal, dim, DimExpr(1), "dim " + Twine(i) + " is dropped, so its size is 1"))
      return;
  }
  n.out(0, n.reshape(x, result));
}

static void unsqueezeOp(Node &n) {
  Value x = n.in(0);
  std::optional<SmallVector<int64_t>> given;
  if (!x || !readAxes(n, given))
    return;
  if (!given)
    return (void)n.invalid("axes are missing");
  DimVector dims = n.dims(x);
  std::optional<SmallVector<int64_t>> axes = n.axes(*given, n.rank(x) + static_cast<int64_t>(given->size()));
  if (!axes)
    return;
  for (int64_t axis : *axes)
    dims.insert(dims.begin() + axis, DimExpr(1));
  n.out(0, n.reshape(x, dims));
}

static void expandOp(Node &n) {
  Value x = n.in(0);
  std::optional<DimVector> shape = n.shapeOperand(1, "shape");
  if (!x || !shape)
    return;
  DimVector dims = n.dims(x), result = *shape;
  // Either side may have more dims, and either may hold the 1.
  while (result.size() < dims.size())
    result.insert(result.begin(), DimExpr(1));
  size_t lead = result.size() - dims.size();
  for (size_t i = 0; i < result.size(); ++i) {
    if (!n.require(Kind::LessEqual, DimExpr(0), result[i], "a size is negative"))
      return;
    if (i < lead)
      continue;
    const DimExpr &dim = dims[i - lead];
    if (!n.require(Kind::Broadcastable, dim, result[i], "dim " + Twine(i - lead) + " is repeated to a size"))
      return;
    result[i] = n.simplify(DimExpr::broadcast(dim, result[i]));
  }
  Value known = n.knownElementwise({x}, n.element(x), [](ArrayRef<DimExpr> e) { return std::optional(e[0]); });
  bool fixed = llvm::all_of(result, [](const DimExpr &dim) { return dim.isConstant(); });
  std::optional<int64_t> count = Node::product(result).constant();
  if (known && fixed && count && *count <= 64 && result.size() <= 1 && n.element(x).isInteger()) {
    std::optional<DimVector> elements = n.content(x);
    SmallVector<int64_t> sizes;
    for (const DimExpr &dim : result)
      sizes.push_back(*dim.constant());
    if (elements->size() == 1)
      return n.out(0, n.fromContent(DimVector(*count, elements->front()), sizes, n.element(x)));
  }
  n.out(0, n.broadcast(x, result));
}

static void tileOp(Node &n) {
  Value x = n.in(0);
  std::optional<DimVector> repeats = n.shapeOperand(1, "repeats");
  if (!x || !repeats)
    return;
  DimVector dims = n.dims(x);
  if (repeats->size() != dims.size())
    return (void)n.invalid("repeats has " + Twine(repeats->size()) + " elements for rank " + Twine(dims.size()));
  // [a, b] -> [1, a, 1, b] -> [r, a, s, b] -> [r * a, s * b], for repeated axes only.
  DimVector apart, wide, result;
  for (auto [dim, times] : llvm::zip(dims, *repeats)) {
    if (!n.require(Kind::LessEqual, DimExpr(0), times, "a number of repeats is negative"))
      return;
    if (times != DimExpr(1)) {
      apart.push_back(DimExpr(1));
      wide.push_back(times);
    }
    apart.push_back(dim);
    wide.push_back(dim);
    result.push_back(dim * times);
  }
  n.out(0, n.reshape(n.broadcast(n.reshape(x, apart), wide), result));
}

static void identityOp(Node &n) { n.out(0, n.in(0)); }

/// A condition that shapes and constants decide leaves one branch.
static void ifOp(Node &n) {
  Value condition = n.in(0);
  const ::onnx::GraphProto *yes = n.attrGraph("then_branch"), *no = n.attrGraph("else_branch");
  if (!condition)
    return;
  if (!yes || !no)
    return (void)n.invalid("a branch is missing");
  std::optional<DimVector> known = n.content(condition);
  if (!known || known->size() != 1 || !known->front().isConstant())
    return (void)n.unsupported("the condition is known only when the model runs");
  const ::onnx::GraphProto &taken = known->front() == DimExpr(0) ? *no : *yes;
  SmallVector<Value> outputs = n.owner().inlineGraph(taken, n.where());
  if (outputs.size() < n.numOutputs())
    return (void)n.invalid("the branch has too few outputs");
  for (auto [i, value] : llvm::enumerate(outputs)) {
    if (!value)
      return n.fail(); // reported where it failed
    n.out(i, value);
  }
}

ArrayRef<OpEntry> rlx::onnx_import::shapeOps() {
  static const OpEntry table[] = {
      {"Constant", 7, 0, constantOp},
      {"ConstantOfShape", 9, 0, constantOfShapeOp},
      {"Expand", 8, 0, expandOp},
      {"EyeLike", 9, 0, eyeLikeOp},
      {"Flatten", 7, 0, flattenOp},
      {"Identity", 7, 0, identityOp},
      {"If", 7, 0, ifOp},
      {"OneHot", 9, 0, oneHotOp},
      {"Range", 11, 0, rangeOp},
      {"Reshape", 7, 0, reshapeOp},
      {"Shape", 7, 0, shapeOp},
      {"Size", 7, 0, sizeOp},
      {"Squeeze", 7, 0, squeezeOp},
      {"Tile", 7, 0, tileOp},
      {"Unsqueeze", 7, 0, unsqueezeOp},
  };
  return table;
}
