//===- Normalisation.cpp - layer, batch, instance and other norms ---------===//
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

/// Whether scale and bias have just the shape of the normalised dims. ONNX also
/// lets them broadcast, which is then left to mul and add.
static bool fits(Node &n, Value x, int64_t axis, Value parameter) {
  DimVector dims = n.dims(x);
  return !parameter || (ArrayRef<DimExpr>(n.dims(parameter)) == ArrayRef<DimExpr>(dims).drop_front(axis) &&
                        n.element(parameter) == n.element(x));
}

static Value layerNorm(Node &n, Value x, Value scale, Value bias, int64_t axis, double epsilon) {
  if (!x)
    return {};
  bool direct = fits(n, x, axis, scale) && fits(n, x, axis, bias);
  // The op's optional operands are null on purpose; `make` would take that for a failure.
  Value used = direct ? scale : Value(), added = direct ? bias : Value();
  Value result =
      n.makeOptional<ir::LayerNormOp>({x}, x, used, added, static_cast<uint64_t>(axis), llvm::APFloat(epsilon));
  if (!direct) {
    if (scale)
      result = n.mul(result, n.convert(scale, n.element(x)));
    if (bias)
      result = n.add(result, n.convert(bias, n.element(x)));
  }
  return result;
}

static void layerNormOp(Node &n) {
  n.ignoreAttr("stash_type"); // statistics are in f32 or better
  Value x = n.in(0), scale = n.in(1), bias = n.has(2) ? n.in(2) : Value();
  double epsilon = n.attrFloat("epsilon", 1e-5f);
  if (!x || !scale)
    return;
  std::optional<int64_t> axis = n.axis(n.attrInt("axis", -1), n.rank(x));
  if (!axis)
    return;
  n.out(0, layerNorm(n, x, scale, bias, *axis, epsilon));
  if (!n.wants(1) && !n.wants(2))
    return;
  Type type = n.element(x).isF64() ? n.element(x) : Type(n.builder().getF32Type());
  SmallVector<int64_t> axes = axesFrom(*axis, n.rank(x));
  Value wide = n.convert(x, type);
  Value mean = n.reduce(ReduceKind::Mean, wide, axes, true);
  Value apart = n.sub(wide, mean);
  Value variance = n.reduce(ReduceKind::Mean, n.mul(apart, apart), axes, true);
  n.out(1, mean);
  n.out(2, n.make<ir::ReciprocalOp>(n.make<ir::SqrtOp>(n.add(variance, n.scalar(type, epsilon)))));
}

static void rmsNormOp(Node &n) {
  n.ignoreAttr("stash_type");
  Value x = n.in(0), scale = n.in(1);
  double epsilon = n.attrFloat("epsilon", 1e-5f);
  if (!x || !scale)
    return;
  std::optional<int64_t> axis = n.axis(n.attrInt("axis", -1), n.rank(x));
  if (!axis)
    return;
  bool direct = fits(n, x, *axis, scale);
  Value result = n.makeOptional<ir::RmsNormOp>({x}, x, direct ? scale : Value(), static_cast<uint64_t>(*axis),
                                               llvm::APFloat(epsilon));
  n.out(0, direct ? result : n.mul(result, n.convert(scale, n.element(x))));
}

/// A vector of one element per channel, aligned at axis 1 of rank `rank`.
static Value perChannel(Node &n, Value vector, int64_t rank) {
  if (!vector)
    return {};
  if (n.rank(vector) != 1)
    return n.invalid("a parameter per channel has rank " + Twine(n.rank(vector)) + ", not 1");
  DimVector dims(rank - 1, DimExpr(1));
  dims[0] = n.dims(vector)[0];
  return n.reshape(vector, dims);
}

static void batchNormOp(Node &n) {
  n.ignoreAttr("momentum");
  Value x = n.in(0);
  double epsilon = n.attrFloat("epsilon", 1e-5f);
  if (!x)
    return;
  if (n.attrInt("training_mode", 0) != 0 || n.wants(1))
    return (void)n.unsupported("training is not supported");
  if (n.attrInt("spatial", 1) == 0)
    return (void)n.unsupported("spatial = 0 is not supported");
  int64_t rank = n.rank(x);
  if (rank < 2)
    return (void)n.invalid("the input has rank " + Twine(rank) + ", less than 2");
  Type type = n.element(x);
  auto parameter = [&](size_t i) { return n.convert(perChannel(n, n.in(i), rank), type); };
  Value scale = parameter(1), bias = parameter(2), mean = parameter(3), variance = parameter(4);
  Value deviation = n.make<ir::SqrtOp>(n.add(variance, n.scalar(type, epsilon)));
  n.out(0, n.add(n.mul(n.div(n.sub(x, mean), deviation), scale), bias));
}

static void instanceNormOp(Node &n) {
  Value x = n.in(0);
  double epsilon = n.attrFloat("epsilon", 1e-5f);
  if (!x)
    return;
  if (n.rank(x) < 3)
    return (void)n.invalid("the input has rank " + Twine(n.rank(x)) + ", less than 3");
  Value normal = layerNorm(n, x, {}, {}, 2, epsilon);
  n.out(0, n.add(n.mul(normal, perChannel(n, n.in(1), n.rank(x))), perChannel(n, n.in(2), n.rank(x))));
}

static void groupNormOp(Node &n) {
  n.ignoreAttr("stash_type");
  Value x = n.in(0), scale = n.in(1), bias = n.in(2);
  double epsilon = n.attrFloat("epsilon", 1e-5f);
  int64_t groups = n.attrInt("num_groups", 0);
  if (!x || !scale || !bias)
    return;
  if (n.rank(x) < 3 || groups < 1)
    return (void)n.invalid("needs an input of rank 3 or more, and num_groups");
  DimVector dims = n.dims(x), grouped = dims;
  std::optional<DimExpr> size = n.divideExactly(dims[1], DimExpr(groups), "the number of groups");
  if (!size)
    return;
  grouped[1] = *size;
  grouped.insert(grouped.begin() + 1, DimExpr(groups));
  Value normal = layerNorm(n, n.reshape(x, grouped), {}, {}, 2, epsilon);
  if (n.opset() < 21) {
    // One scale per group, in the first form of the operator.
    auto perGroup = [&](Value v) { return perChannel(n, v, static_cast<int64_t>(grouped.size())); };
    return n.out(0, n.reshape(n.add(n.mul(normal, perGroup(scale)), perGroup(bias)), dims));
  }
  normal = n.reshape(normal, dims);
  n.out(0, n.add(n.mul(normal, perChannel(n, scale, n.rank(x))), perChannel(n, bias, n.rank(x))));
}

static void meanVarianceNormOp(Node &n) {
  Value x = n.in(0);
  SmallVector<int64_t> given = n.attrInts("axes").value_or(SmallVector<int64_t>{0, 2, 3});
  if (!x)
    return;
  std::optional<SmallVector<int64_t>> axes = n.axes(given, n.rank(x));
  if (!axes)
    return;
  Value apart = n.sub(x, n.reduce(ReduceKind::Mean, x, *axes, true));
  Value variance = n.reduce(ReduceKind::Mean, n.mul(apart, apart), *axes, true);
  n.out(0, n.div(apart, n.add(n.make<ir::SqrtOp>(variance), n.scalar(n.element(x), 1e-9))));
}

static void lpNormOp(Node &n) {
  Value x = n.in(0);
  int64_t p = n.attrInt("p", 2);
  if (!x)
    return;
  std::optional<int64_t> axis = n.axis(n.attrInt("axis", -1), n.rank(x));
  if (!axis)
    return;
  if (p != 1 && p != 2)
    return (void)n.invalid("p is neither 1 nor 2");
  Value norm = p == 1 ? n.reduce(ReduceKind::Sum, n.make<ir::AbsOp>(x), {*axis}, true)
                      : n.make<ir::SqrtOp>(n.reduce(ReduceKind::Sum, n.mul(x, x), {*axis}, true));
  Value quotient = n.div(x, norm), zero = n.scalar(n.element(x), 0);
  n.out(0, n.select(n.compare(ir::ComparePredicate::Eq, norm, zero), zero, quotient));
}

ArrayRef<OpEntry> rlx::onnx_import::normalisationOps() {
  static const OpEntry table[] = {
      {"BatchNormalization", 7, 0, batchNormOp},
      {"GroupNormalization", 18, 0, groupNormOp},
      {"InstanceNormalization", 7, 0, instanceNormOp},
      {"LayerNormalization", 17, 0, layerNormOp},
      {"LpNormalization", 7, 0, lpNormOp},
      {"MeanVarianceNormalization", 9, 0, meanVarianceNormOp},
      {"RMSNormalization", 23, 0, rmsNormOp},
  };
  return table;
}
