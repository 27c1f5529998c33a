//===- Movement.cpp - ops that move elements ------------------------------===//
#include "Node.h"

#include "llvm/ADT/Twine.h"

using namespace rlx;
using namespace rlx::onnx_import;
using llvm::Twine;
using Kind = DimPredicate::Kind;

/// From here on an end is "as far as it goes", in either direction: ONNX says to
/// write INT_MAX and INT_MIN of either width for that.
static constexpr int64_t infinite = INT32_MAX;

/// A step that leaves one element at most.
static bool isWide(int64_t step) { return step >= infinite || step <= -infinite; }

static bool isInteger(Type type) { return type && type.isInteger(); }

//===----------------------------------------------------------------------===//
// Transpose, Concat, Split
//===----------------------------------------------------------------------===//

static void transposeOp(Node &n) {
  Value x = n.in(0);
  if (!x)
    return;
  int64_t rank = n.rank(x);
  SmallVector<int64_t> permutation;
  if (auto given = n.attrInts("perm")) {
    permutation = *given;
    SmallVector<int64_t> sorted = *given;
    llvm::sort(sorted);
    bool legal = static_cast<int64_t>(sorted.size()) == rank;
    for (int64_t i = 0; i < rank && legal; ++i)
      legal = sorted[i] == i;
    if (!legal)
      return (void)n.invalid("perm is no permutation of the " + Twine(rank) + " axes");
  } else {
    for (int64_t i = rank - 1; i >= 0; --i)
      permutation.push_back(i);
  }
  n.out(0, n.transpose(x, permutation));
}

static void concatOp(Node &n) {
  SmallVector<Value> values;
  DimVector elements;
  bool known = true;
  for (size_t i = 0; i < n.numInputs(); ++i) {
    Value value = n.in(i);
    if (!value)
      return;
    values.push_back(value);
    std::optional<DimVector> content = isInteger(n.element(value)) ? n.content(value) : std::nullopt;
    known &= content && n.rank(value) == 1;
    if (known)
      elements.append(content->begin(), content->end());
  }
  if (values.empty())
    return (void)n.invalid("has no inputs");
  if (!n.hasAttr("axis"))
    return (void)n.invalid("axis is missing");
  std::optional<int64_t> axis = n.axis(n.attrInt("axis", 0), n.rank(values.front()));
  if (!axis)
    return;
  bool alike = llvm::all_of(values, [&](Value v) { return n.element(v) == n.element(values.front()); });
  if (known && alike && elements.size() <= static_cast<size_t>(Contents::maxElements))
    return n.out(0, n.fromContent(elements, {static_cast<int64_t>(elements.size())}, n.element(values.front())));
  n.out(0, n.concat(values, *axis));
}

/// Part of one axis, by elements where they are known.
static Value part(Node &n, Value x, int64_t axis, const DimExpr &start, const DimExpr &size) {
  std::optional<DimVector> known = isInteger(n.element(x)) ? n.content(x) : std::nullopt;
  auto first = start.constant(), count = size.constant();
  if (known && n.rank(x) == 1 && first && count && *first >= 0 && *count >= 0 &&
      *first + *count <= static_cast<int64_t>(known->size()))
    return n.fromContent(DimVector(known->begin() + *first, known->begin() + *first + *count), {*count}, n.element(x));
  return n.sliceAxis(x, axis, start, size);
}

static void splitOp(Node &n) {
  Value x = n.in(0);
  if (!x)
    return;
  std::optional<int64_t> axis = n.axis(n.attrInt("axis", 0), n.rank(x));
  if (!axis)
    return;
  DimExpr extent = n.dims(x)[*axis];
  int64_t count = static_cast<int64_t>(n.numOutputs());
  DimVector sizes;
  if (n.opset() >= 13 && n.has(1)) {
    std::optional<DimVector> given = n.shapeOperand(1, "split");
    if (!given)
      return;
    sizes = *given;
  } else if (n.opset() < 13 && n.hasAttr("split")) {
    for (int64_t size : n.attrInts("split").value_or(SmallVector<int64_t>()))
      sizes.push_back(DimExpr(size));
  }
  if (n.hasAttr("num_outputs") && n.attrInt("num_outputs", count) != count)
    return (void)n.invalid("num_outputs does not match the " + Twine(count) + " outputs");
  if (!sizes.empty()) {
    DimExpr sum;
    for (const DimExpr &size : sizes) {
      if (!n.require(Kind::LessEqual, DimExpr(0), size, "a part has a negative size"))
        return;
      sum = sum + size;
    }
    if (static_cast<int64_t>(sizes.size()) != count)
      return (void)n.invalid("split names " + Twine(sizes.size()) + " parts for " + Twine(count) + " outputs");
    if (!n.require(Kind::Equal, extent, sum, "the parts of axis " + Twine(*axis) + " add up to its size"))
      return;
  } else if (n.opset() >= 18) {
    // Parts of ceil(extent / count), the last ones smaller.
    DimExpr chunk = n.simplify(DimExpr::ceilDiv(extent, DimExpr(count)));
    if (std::optional<DimExpr> exact = extent.exactQuotient(DimExpr(count)))
      chunk = *exact;
    for (int64_t i = 0; i < count; ++i)
      sizes.push_back(chunk * DimExpr(count) == extent ? chunk
                                                       : n.clamp(extent - chunk * DimExpr(i), DimExpr(0), chunk));
  } else {
    std::optional<DimExpr> chunk = n.divideExactly(extent, DimExpr(count), "splitting axis " + Twine(*axis));
    if (!chunk)
      return;
    sizes.assign(count, *chunk);
  }
  DimExpr start;
  for (int64_t i = 0; i < count; ++i) {
    if (n.wants(i))
      n.out(i, part(n, x, *axis, start, sizes[i]));
    start = start + sizes[i];
  }
}

//===----------------------------------------------------------------------===//
// Slice
//===----------------------------------------------------------------------===//

namespace {
struct Cut {
  DimExpr start, size;
};
} // namespace

/// Where a start or end lies in [0, extent] (step > 0), or between `low` and
/// extent - 1 (step < 0); the upper end wins where they cross, for an empty axis.
static std::optional<DimExpr> place(Node &n, const DimExpr &extent, const DimExpr &bound, bool forward, int64_t low) {
  DimExpr top = forward ? extent : extent - DimExpr(1);
  auto fromEnd = [&](const DimExpr &position) { return position == top ? top : n.clamp(position, DimExpr(low), top); };
  if (std::optional<int64_t> number = bound.constant()) {
    if (*number >= infinite)
      return top;
    if (*number <= -infinite)
      return n.simplify(DimExpr::min(DimExpr(low), top));
  }
  if (n.nonNegative(bound))
    return n.simplify(DimExpr::min(bound, top));
  if (n.prove(Kind::Less, bound, DimExpr(0)) == true)
    return fromEnd(bound + extent);
  // The sign decides the meaning; only one can be right for all sizes.
  if (!n.require(Kind::LessEqual, DimExpr(0), bound, "the bound " + bound.str() + " of a slice is not negative"))
    return std::nullopt;
  return n.simplify(DimExpr::min(bound, top));
}

static std::optional<Cut> cut(Node &n, const DimExpr &extent, const DimExpr &start, const DimExpr &end, int64_t step) {
  bool forward = step > 0;
  std::optional<DimExpr> from = place(n, extent, start, forward, 0);
  std::optional<DimExpr> to = from ? place(n, extent, end, forward, forward ? 0 : -1) : std::nullopt;
  if (!to)
    return std::nullopt;
  DimExpr distance = n.simplify(DimExpr::max(forward ? *to - *from : *from - *to, DimExpr(0)));
  if (isWide(step))
    return Cut{*from, n.simplify(DimExpr::min(distance, DimExpr(1)))};
  return Cut{*from, n.simplify(DimExpr::ceilDiv(distance, DimExpr(forward ? step : -step)))};
}

static void sliceWith(Node &n, const DimVector &starts, const DimVector &ends, ArrayRef<int64_t> givenAxes,
                      ArrayRef<int64_t> givenSteps) {
  Value x = n.in(0);
  if (!x)
    return;
  if (starts.size() != ends.size() || starts.size() != givenAxes.size() || starts.size() != givenSteps.size())
    return (void)n.invalid("starts, ends, axes and steps differ in length");
  DimVector extents = n.dims(x), from(extents.size(), DimExpr(0)), sizes = extents;
  SmallVector<int64_t> steps(extents.size(), 1);
  SmallVector<bool> seen(extents.size(), false);
  for (size_t i = 0; i < starts.size(); ++i) {
    std::optional<int64_t> axis = n.axis(givenAxes[i], n.rank(x));
    if (!axis)
      return;
    if (seen[*axis])
      return (void)n.invalid("axis " + Twine(*axis) + " is given twice");
    seen[*axis] = true;
    if (givenSteps[i] == 0)
      return (void)n.invalid("step 0 on axis " + Twine(*axis));
    std::optional<Cut> result = cut(n, extents[*axis], starts[i], ends[i], givenSteps[i]);
    if (!result)
      return;
    from[*axis] = result->start;
    sizes[*axis] = result->size;
    steps[*axis] = isWide(givenSteps[i]) ? 1 : givenSteps[i];
  }
  // Elements of a shape.
  std::optional<DimVector> known = isInteger(n.element(x)) ? n.content(x) : std::nullopt;
  if (known && extents.size() == 1) {
    auto first = from[0].constant(), count = sizes[0].constant();
    if (first && count) {
      DimVector elements;
      for (int64_t i = 0; i < *count; ++i)
        elements.push_back((*known)[*first + i * steps[0]]);
      return n.out(0, n.fromContent(elements, {*count}, n.element(x)));
    }
  }
  // A step no longer matters where nothing is left.
  for (size_t i = 0; i < sizes.size(); ++i)
    if (sizes[i] == DimExpr(0))
      from[i] = DimExpr(0), steps[i] = 1;
  n.out(0, n.slice(x, from, sizes, steps));
}

static void slice1(Node &n) {
  auto starts = n.attrInts("starts"), ends = n.attrInts("ends"), axes = n.attrInts("axes");
  if (!starts || !ends)
    return n.failed() ? void() : (void)n.invalid("starts or ends are missing");
  if (!axes) {
    axes.emplace();
    for (size_t i = 0; i < starts->size(); ++i)
      axes->push_back(static_cast<int64_t>(i));
  }
  DimVector from(starts->begin(), starts->end()), to(ends->begin(), ends->end());
  sliceWith(n, from, to, *axes, SmallVector<int64_t>(starts->size(), 1));
}

static void slice10(Node &n) {
  auto starts = n.shapeOperand(1, "starts"), ends = n.shapeOperand(2, "ends");
  if (!starts || !ends)
    return;
  SmallVector<int64_t> axes, steps(starts->size(), 1);
  if (n.has(3)) {
    auto given = n.constantOperand(3, "axes");
    if (!given)
      return;
    axes = *given;
  } else {
    for (size_t i = 0; i < starts->size(); ++i)
      axes.push_back(static_cast<int64_t>(i));
  }
  if (n.has(4)) {
    auto given = n.constantOperand(4, "steps");
    if (!given)
      return;
    steps = *given;
  }
  sliceWith(n, *starts, *ends, axes, steps);
}

//===----------------------------------------------------------------------===//
// Gather, scatter
//===----------------------------------------------------------------------===//

static void gatherOp(Node &n) {
  Value data = n.in(0), indices = n.in(1);
  if (!data || !indices)
    return;
  std::optional<int64_t> axis = n.axis(n.attrInt("axis", 0), n.rank(data));
  if (!axis)
    return;
  // One element of a shape, or several.
  std::optional<DimVector> known = isInteger(n.element(data)) ? n.content(data) : std::nullopt;
  std::optional<DimVector> at = known && n.rank(data) == 1 ? n.content(indices) : std::nullopt;
  if (at && llvm::all_of(*at, [](const DimExpr &dim) { return dim.isConstant(); })) {
    DimVector elements;
    for (const DimExpr &dim : *at) {
      int64_t i = *dim.constant();
      int64_t extent = static_cast<int64_t>(known->size());
      if (i < -extent || i >= extent)
        return (void)n.invalid("index " + Twine(i) + " is out of range for size " + Twine(extent));
      elements.push_back((*known)[i < 0 ? i + extent : i]);
    }
    return n.out(
        0, n.fromContent(elements, llvm::cast<mlir::RankedTensorType>(indices.getType()).getShape(), n.element(data)));
  }
  n.out(0, n.make<ir::GatherOp>(data, indices, static_cast<uint64_t>(*axis)));
}

static void gatherNDOp(Node &n) {
  Value data = n.in(0), indices = n.in(1);
  if (!data || !indices)
    return;
  if (n.rank(indices) == 0 || !n.dims(indices).back().isConstant())
    return (void)n.unsupported("the last dim of the indices decides the rank of the result; it must be a number");
  n.out(0, n.make<ir::GatherNDOp>(data, indices, static_cast<uint64_t>(n.attrInt("batch_dims", 0))));
}

static void gatherElementsOp(Node &n) {
  Value data = n.in(0), indices = n.in(1);
  if (!data || !indices)
    return;
  std::optional<int64_t> axis = n.axis(n.attrInt("axis", 0), n.rank(data));
  if (axis)
    n.out(0, n.make<ir::GatherElementsOp>(data, indices, static_cast<uint64_t>(*axis)));
}

static std::optional<ir::Combine> readCombine(Node &n) {
  std::string reduction = n.attrString("reduction", "none");
  if (reduction == "none")
    return ir::Combine::Assign;
  if (reduction == "add")
    return ir::Combine::Add;
  if (reduction == "mul")
    return ir::Combine::Mul;
  if (reduction == "max")
    return ir::Combine::Max;
  if (reduction == "min")
    return ir::Combine::Min;
  n.unsupported("reduction '" + reduction + "' is not supported");
  return std::nullopt;
}

static void scatterElementsOp(Node &n) {
  Value data = n.in(0), indices = n.in(1), updates = n.in(2);
  std::optional<ir::Combine> combine = readCombine(n);
  if (!data || !indices || !updates || !combine)
    return;
  std::optional<int64_t> axis = n.axis(n.attrInt("axis", 0), n.rank(data));
  if (axis)
    n.out(0, n.make<ir::ScatterElementsOp>(data, indices, updates, static_cast<uint64_t>(*axis), *combine));
}

static void scatterNDOp(Node &n) {
  Value data = n.in(0), indices = n.in(1), updates = n.in(2);
  std::optional<ir::Combine> combine = readCombine(n);
  if (!data || !indices || !updates || !combine)
    return;
  if (n.rank(indices) == 0 || !n.dims(indices).back().isConstant())
    return (void)n.unsupported("the last dim of the indices decides what is written; it must be a number");
  n.out(0, n.make<ir::ScatterNDOp>(data, indices, updates, *combine));
}

//===----------------------------------------------------------------------===//
// Pad, Trilu, blocks
//===----------------------------------------------------------------------===//

static void padWith(Node &n, Value value, const DimVector &pads, ArrayRef<int64_t> axes) {
  Value x = n.in(0);
  if (!x || !value)
    return;
  std::string mode = n.attrString("mode", "constant");
  if (mode != "constant")
    return (void)n.unsupported("mode '" + mode + "' is not supported");
  if (pads.size() != 2 * axes.size())
    return (void)n.invalid("pads has " + Twine(pads.size()) + " elements for " + Twine(axes.size()) + " axes");
  int64_t rank = n.rank(x);
  DimVector low(rank, DimExpr(0)), high(rank, DimExpr(0));
  for (size_t i = 0; i < axes.size(); ++i) {
    std::optional<int64_t> axis = n.axis(axes[i], rank);
    if (!axis)
      return;
    low[*axis] = pads[i];
    high[*axis] = pads[i + axes.size()];
  }
  // A negative pad cuts; that comes first.
  DimVector starts(rank, DimExpr(0)), sizes = n.dims(x);
  for (int64_t axis = 0; axis < rank; ++axis) {
    auto split = [&](DimExpr &pad) -> std::optional<DimExpr> {
      if (n.nonNegative(pad))
        return DimExpr(0);
      if (n.prove(Kind::Less, pad, DimExpr(0)) == true) {
        DimExpr removed = DimExpr(0) - pad;
        pad = DimExpr(0);
        return removed;
      }
      if (!n.require(Kind::LessEqual, DimExpr(0), pad, "the pad " + pad.str() + " is not negative"))
        return std::nullopt;
      return DimExpr(0);
    };
    std::optional<DimExpr> front = split(low[axis]), back = split(high[axis]);
    if (!front || !back)
      return;
    if (*front + *back != DimExpr(0) &&
        !n.require(Kind::LessEqual, *front + *back, sizes[axis], "negative pads cut no more than there is"))
      return;
    starts[axis] = *front;
    sizes[axis] = n.simplify(sizes[axis] - *front - *back);
  }
  x = n.slice(x, starts, sizes, SmallVector<int64_t>(rank, 1));
  bool none = llvm::all_of(low, [](const DimExpr &dim) { return dim == DimExpr(0); }) &&
              llvm::all_of(high, [](const DimExpr &dim) { return dim == DimExpr(0); });
  if (none)
    return n.out(0, x);
  n.out(0, n.make<ir::PadOp>(x, value, ir::DimsAttr::get(n.context(), low), ir::DimsAttr::get(n.context(), high)));
}

static SmallVector<int64_t> allAxes(int64_t rank) {
  SmallVector<int64_t> axes;
  for (int64_t i = 0; i < rank; ++i)
    axes.push_back(i);
  return axes;
}

static void pad2(Node &n) {
  Value x = n.in(0);
  if (!x)
    return;
  auto pads = n.attrInts("pads");
  if (!pads)
    return n.failed() ? void() : (void)n.invalid("pads are missing");
  padWith(n, n.scalar(n.element(x), n.attrFloat("value", 0)), DimVector(pads->begin(), pads->end()),
          allAxes(n.rank(x)));
}

static void pad11(Node &n) {
  Value x = n.in(0);
  auto pads = n.shapeOperand(1, "pads");
  if (!x || !pads)
    return;
  SmallVector<int64_t> axes = allAxes(n.rank(x));
  if (n.has(3)) {
    auto given = n.constantOperand(3, "axes");
    if (!given)
      return;
    axes = *given;
  }
  Value value = n.has(2) ? n.reshape(n.in(2), {}) : n.scalar(n.element(x), 0);
  padWith(n, value, *pads, axes);
}

static void triluOp(Node &n) {
  Value x = n.in(0);
  if (!x)
    return;
  bool upper = n.attrInt("upper", 1) != 0;
  int64_t rank = n.rank(x);
  if (rank < 2)
    return (void)n.invalid("the input has rank " + Twine(rank) + ", less than 2");
  DimVector dims = n.dims(x);
  Value rows = n.iota({dims[rank - 2], DimExpr(1)}, 0, DimExpr(0), DimExpr(1));
  Value columns = n.iota({DimExpr(1), dims[rank - 1]}, 1, DimExpr(0), DimExpr(1));
  Value k = n.has(1) ? n.reshape(n.in(1), {}) : n.scalarInt(n.builder().getI64Type(), 0);
  Value keep = n.compare(upper ? ir::ComparePredicate::Ge : ir::ComparePredicate::Le, n.sub(columns, rows), k);
  n.out(0, n.select(keep, x, n.scalar(n.element(x), 0)));
}

static void depthToSpaceOp(Node &n) {
  Value x = n.in(0);
  int64_t block = n.attrInt("blocksize", 0);
  std::string mode = n.attrString("mode", "DCR");
  if (!x)
    return;
  if (n.rank(x) != 4 || block < 1 || block > (1 << 20))
    return (void)n.invalid("the input must have rank 4, and blocksize be positive");
  if (mode != "DCR" && mode != "CRD")
    return (void)n.invalid("mode '" + mode + "' is neither DCR nor CRD");
  DimVector d = n.dims(x);
  DimExpr b(block);
  std::optional<DimExpr> depth = n.divideExactly(d[1], b * b, "the depth");
  if (!depth)
    return;
  if (mode == "DCR")
    x = n.transpose(n.reshape(x, {d[0], b, b, *depth, d[2], d[3]}), {0, 3, 4, 1, 5, 2});
  else
    x = n.transpose(n.reshape(x, {d[0], *depth, b, b, d[2], d[3]}), {0, 1, 4, 2, 5, 3});
  n.out(0, n.reshape(x, {d[0], *depth, d[2] * b, d[3] * b}));
}

static void spaceToDepthOp(Node &n) {
  Value x = n.in(0);
  int64_t block = n.attrInt("blocksize", 0);
  if (!x)
    return;
  if (n.rank(x) != 4 || block < 1 || block > (1 << 20))
    return (void)n.invalid("the input must have rank 4, and blocksize be positive");
  DimVector d = n.dims(x);
  DimExpr b(block);
  std::optional<DimExpr> rows = n.divideExactly(d[2], b, "the height");
  std::optional<DimExpr> columns = rows ? n.divideExactly(d[3], b, "the width") : std::nullopt;
  if (!columns)
    return;
  x = n.transpose(n.reshape(x, {d[0], d[1], *rows, b, *columns, b}), {0, 3, 5, 1, 2, 4});
  n.out(0, n.reshape(x, {d[0], d[1] * b * b, *rows, *columns}));
}

ArrayRef<OpEntry> rlx::onnx_import::movementOps() {
  static const OpEntry table[] = {
      {"Concat", 7, 0, concatOp},
      {"DepthToSpace", 7, 0, depthToSpaceOp},
      {"Gather", 7, 0, gatherOp},
      {"GatherElements", 11, 0, gatherElementsOp},
      {"GatherND", 11, 0, gatherNDOp},
      {"Pad", 7, 10, pad2},
      {"Pad", 11, 0, pad11},
      {"Scatter", 9, 10, scatterElementsOp},
      {"ScatterElements", 11, 0, scatterElementsOp},
      {"ScatterND", 11, 0, scatterNDOp},
      {"Slice", 7, 9, slice1},
      {"Slice", 10, 0, slice10},
      {"SpaceToDepth", 7, 0, spaceToDepthOp},
      {"Split", 7, 0, splitOp},
      {"Transpose", 7, 0, transposeOp},
      {"Trilu", 14, 0, triluOp},
  };
  return table;
}
