//===- Reduction.cpp - ops along axes -------------------------------------===//
#include "Node.h"

#include "llvm/ADT/Twine.h"

using namespace rlx;
using namespace rlx::onnx_import;
using ir::ReduceKind;
using llvm::Twine;

static SmallVector<int64_t> axesFrom(int64_t first, int64_t rank) {
  SmallVector<int64_t> axes;
  for (int64_t i = first; i < rank; ++i)
    axes.push_back(i);
  return axes;
}

//===----------------------------------------------------------------------===//
// Reduce*
//===----------------------------------------------------------------------===//

/// Axes as an attribute, from opset `inputSince` on as an input. None given
/// means all, or none with noop_with_empty_axes.
static std::optional<SmallVector<int64_t>> reductionAxes(Node &n, Value x, int inputSince) {
  std::optional<SmallVector<int64_t>> given;
  bool none = n.attrInt("noop_with_empty_axes", 0) != 0;
  if (n.opset() < inputSince) {
    given = n.attrInts("axes");
  } else if (n.has(1)) {
    given = n.constantOperand(1, "axes");
    if (!given)
      return std::nullopt;
  }
  if (n.failed() || !x)
    return std::nullopt;
  if (!given || given->empty())
    return none ? SmallVector<int64_t>() : axesFrom(0, n.rank(x));
  return n.axes(*given, n.rank(x));
}

namespace {
/// One Reduce operator: `before`, a reduction, `after`.
struct ReduceForm {
  ReduceKind kind;
  Value (*before)(Node &, Value) = nullptr;
  Value (*after)(Node &, Value) = nullptr;
  bool inFloats = false; ///< integers are converted, and the result back
  int inputSince = 18;
};
} // namespace

static void reduceBy(Node &n, const ReduceForm &form) {
  Value x = n.in(0);
  bool keep = n.attrInt("keepdims", 1) != 0;
  std::optional<SmallVector<int64_t>> axes = reductionAxes(n, x, form.inputSince);
  if (!axes)
    return;
  Type type = n.element(x);
  // Shape arithmetic: all elements of a list of sizes.
  std::optional<DimVector> known = type.isInteger() && !form.before && !form.after ? n.content(x) : std::nullopt;
  if (known && n.rank(x) == 1 && axes->size() == 1 && !known->empty() && form.kind != ReduceKind::Mean) {
    DimExpr total = known->front();
    for (const DimExpr &dim : ArrayRef<DimExpr>(*known).drop_front())
      total = form.kind == ReduceKind::Sum    ? total + dim
              : form.kind == ReduceKind::Prod ? total * dim
              : form.kind == ReduceKind::Max  ? n.simplify(DimExpr::max(total, dim))
                                              : n.simplify(DimExpr::min(total, dim));
    SmallVector<int64_t> shape;
    if (keep)
      shape.push_back(1);
    return n.out(0, n.fromContent({total}, shape, type));
  }
  Type working = type;
  if (form.inFloats && type.isInteger())
    working = n.builder().getF64Type();
  else if (type.isInteger(1))
    working = mlir::IntegerType::get(n.context(), 8, mlir::IntegerType::Unsigned);
  Value value = n.convert(x, working);
  if (form.before)
    value = form.before(n, value);
  value = n.reduce(form.kind, value, *axes, keep);
  if (form.after && value)
    value = form.after(n, value);
  n.out(0, n.convert(value, type));
}

static Value square(Node &n, Value x) { return n.mul(x, x); }
static Value absolute(Node &n, Value x) { return n.make<ir::AbsOp>(x); }
static Value root(Node &n, Value x) { return n.make<ir::SqrtOp>(x); }
static Value logarithm(Node &n, Value x) { return n.make<ir::LogOp>(x); }

static void reduceSum(Node &n) { reduceBy(n, {ReduceKind::Sum, nullptr, nullptr, false, 13}); }
static void reduceMean(Node &n) { reduceBy(n, {ReduceKind::Mean}); }
static void reduceProd(Node &n) { reduceBy(n, {ReduceKind::Prod}); }
static void reduceMax(Node &n) { reduceBy(n, {ReduceKind::Max}); }
static void reduceMin(Node &n) { reduceBy(n, {ReduceKind::Min}); }
static void reduceL1(Node &n) { reduceBy(n, {ReduceKind::Sum, absolute}); }
static void reduceL2(Node &n) { reduceBy(n, {ReduceKind::Sum, square, root, true}); }
static void reduceSumSquare(Node &n) { reduceBy(n, {ReduceKind::Sum, square}); }
static void reduceLogSum(Node &n) { reduceBy(n, {ReduceKind::Sum, nullptr, logarithm, true}); }

/// log(sum(exp(x - m))) + m with m the maximum, so that nothing overflows.
static void reduceLogSumExp(Node &n) {
  Value x = n.in(0);
  bool keep = n.attrInt("keepdims", 1) != 0;
  std::optional<SmallVector<int64_t>> axes = reductionAxes(n, x, 18);
  if (!axes)
    return;
  Type type = n.element(x), working = type.isInteger() ? Type(n.builder().getF64Type()) : type;
  x = n.convert(x, working);
  Value most = n.reduce(ReduceKind::Max, x, *axes, true);
  // An infinite maximum would give inf - inf.
  most = n.select(n.make<ir::IsInfOp>(most), n.scalar(working, 0), most);
  Value sum = n.reduce(ReduceKind::Sum, n.make<ir::ExpOp>(n.sub(x, most)), *axes, true);
  Value result = n.add(n.make<ir::LogOp>(sum), most);
  if (!keep && result) {
    DimVector dims = n.dims(result), kept;
    for (auto [i, dim] : llvm::enumerate(dims))
      if (!llvm::is_contained(*axes, static_cast<int64_t>(i)))
        kept.push_back(dim);
    result = n.reshape(result, kept);
  }
  n.out(0, n.convert(result, type));
}

//===----------------------------------------------------------------------===//
// Where the largest is
//===----------------------------------------------------------------------===//

/// Position of the largest (smallest) element along an axis, that axis kept; of
/// equal ones the first or the last. A NaN counts as the extreme.
static Value extremePosition(Node &n, Value x, int64_t axis, bool largest, bool last) {
  Type i64 = n.builder().getI64Type();
  Value extreme = n.reduce(largest ? ReduceKind::Max : ReduceKind::Min, x, {axis}, true);
  Value hit = n.compare(ir::ComparePredicate::Eq, x, extreme);
  if (x && llvm::isa<mlir::FloatType>(n.element(x)))
    hit = n.make<ir::OrOp>(hit, n.make<ir::IsNaNOp>(x));
  DimVector unit(n.rank(x), DimExpr(1));
  if (!x)
    return {};
  unit[axis] = n.dims(x)[axis];
  Value position = n.iota(unit, axis, DimExpr(0), DimExpr(1));
  Value candidates = n.select(hit, position, last ? n.lowest(i64) : n.highest(i64));
  return n.reduce(last ? ReduceKind::Max : ReduceKind::Min, candidates, {axis}, true);
}

static void argExtreme(Node &n, bool largest) {
  Value x = n.in(0);
  bool keep = n.attrInt("keepdims", 1) != 0, last = n.attrInt("select_last_index", 0) != 0;
  if (!x)
    return;
  std::optional<int64_t> axis = n.axis(n.attrInt("axis", 0), n.rank(x));
  if (!axis)
    return;
  DimVector dims = n.dims(x);
  if (!n.require(DimPredicate::Kind::LessEqual, DimExpr(1), dims[*axis], "the axis has an element"))
    return;
  Value position = extremePosition(n, x, *axis, largest, last);
  dims.erase(dims.begin() + *axis);
  n.out(0, keep ? position : n.reshape(position, dims));
}
static void argMax(Node &n) { argExtreme(n, true); }
static void argMin(Node &n) { argExtreme(n, false); }

//===----------------------------------------------------------------------===//
// Softmax and its kin
//===----------------------------------------------------------------------===//

/// Before opset 13 these work on the input flattened to two dims at `axis`.
static void alongAxis(Node &n, llvm::function_ref<Value(Value, int64_t)> compute) {
  Value x = n.in(0);
  if (!x)
    return;
  bool flattens = n.opset() < 13;
  int64_t rank = n.rank(x), given = n.attrInt("axis", flattens ? 1 : -1);
  if (flattens && given == rank && given >= 0)
    given = rank; // everything is batch
  else if (std::optional<int64_t> axis = n.axis(given, rank))
    given = *axis;
  else
    return;
  if (!flattens || given == rank - 1)
    return n.out(0, compute(x, given));
  DimVector dims = n.dims(x);
  ArrayRef<DimExpr> all(dims);
  Value flat = n.reshape(x, {Node::product(all.take_front(given)), Node::product(all.drop_front(given))});
  n.out(0, n.reshape(compute(flat, 1), dims));
}

static void softmaxOp(Node &n) {
  alongAxis(n, [&](Value x, int64_t axis) { return n.make<ir::SoftmaxOp>(x, static_cast<uint64_t>(axis)); });
}
static void logSoftmaxOp(Node &n) {
  alongAxis(n, [&](Value x, int64_t axis) { return n.make<ir::LogSoftmaxOp>(x, static_cast<uint64_t>(axis)); });
}
static void hardmaxOp(Node &n) {
  alongAxis(n, [&](Value x, int64_t axis) {
    DimVector unit(n.rank(x), DimExpr(1));
    unit[axis] = n.dims(x)[axis];
    Value position = n.iota(unit, axis, DimExpr(0), DimExpr(1));
    Value hit = n.compare(ir::ComparePredicate::Eq, position, extremePosition(n, x, axis, true, false));
    return n.convert(hit, n.element(x));
  });
}

static void cumSumOp(Node &n) {
  Value x = n.in(0);
  bool exclusive = n.attrInt("exclusive", 0) != 0, reverse = n.attrInt("reverse", 0) != 0;
  auto given = n.constantOperand(1, "axis", "the axis");
  if (!x || !given)
    return;
  if (given->size() != 1)
    return (void)n.invalid("axis is not one number");
  std::optional<int64_t> axis = n.axis(given->front(), n.rank(x));
  if (axis)
    n.out(0, n.make<ir::CumSumOp>(x, static_cast<uint64_t>(*axis), exclusive, reverse));
}

static void globalPool(Node &n, ReduceKind kind) {
  Value x = n.in(0);
  if (!x)
    return;
  if (n.rank(x) < 2)
    return (void)n.invalid("the input has rank " + Twine(n.rank(x)) + ", less than 2");
  n.out(0, n.reduce(kind, x, axesFrom(2, n.rank(x)), true));
}
static void globalAveragePool(Node &n) { globalPool(n, ReduceKind::Mean); }
static void globalMaxPool(Node &n) { globalPool(n, ReduceKind::Max); }

ArrayRef<OpEntry> rlx::onnx_import::reductionOps() {
  static const OpEntry table[] = {
      {"ArgMax", 7, 0, argMax},
      {"ArgMin", 7, 0, argMin},
      {"CumSum", 11, 0, cumSumOp},
      {"GlobalAveragePool", 7, 0, globalAveragePool},
      {"GlobalMaxPool", 7, 0, globalMaxPool},
      {"Hardmax", 7, 0, hardmaxOp},
      {"LogSoftmax", 7, 0, logSoftmaxOp},
      {"ReduceL1", 7, 0, reduceL1},
      {"ReduceL2", 7, 0, reduceL2},
      {"ReduceLogSum", 7, 0, reduceLogSum},
      {"ReduceLogSumExp", 7, 0, reduceLogSumExp},
      {"ReduceMax", 7, 0, reduceMax},
      {"ReduceMean", 7, 0, reduceMean},
      {"ReduceMin", 7, 0, reduceMin},
      {"ReduceProd", 7, 0, reduceProd},
      {"ReduceSum", 7, 0, reduceSum},
      {"ReduceSumSquare", 7, 0, reduceSumSquare},
      {"Softmax", 7, 0, softmaxOp},
  };
  return table;
}
