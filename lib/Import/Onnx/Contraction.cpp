//===- Contraction.cpp - products of matrices -----------------------------===//
#include "Node.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/Twine.h"

using namespace rlx;
using namespace rlx::onnx_import;
using llvm::Twine;
using Kind = DimPredicate::Kind;

static void matMulOp(Node &n) { n.out(0, n.matmul(n.in(0), n.in(1))); }

static void gemmOp(Node &n) {
  Value a = n.in(0), b = n.in(1);
  if (!a || !b)
    return;
  if (n.rank(a) != 2 || n.rank(b) != 2)
    return (void)n.invalid("A and B have ranks " + Twine(n.rank(a)) + " and " + Twine(n.rank(b)) + ", not 2");
  if (n.attrInt("transA", 0))
    a = n.transpose(a, {1, 0});
  if (n.attrInt("transB", 0))
    b = n.transpose(b, {1, 0});
  double alpha = n.attrFloat("alpha", 1), beta = n.attrFloat("beta", 1);
  Value product = n.matmul(a, b);
  Type type = n.element(product);
  if (alpha != 1)
    product = n.mul(product, n.scalar(type, alpha));
  // beta = 0 leaves C out, as BLAS does, whatever C holds.
  if (n.has(2) && beta != 0) {
    Value c = n.in(2);
    if (n.rank(c) > 2)
      return (void)n.invalid("C has rank " + Twine(n.rank(c)) + ", more than 2");
    product = n.add(product, beta == 1 ? c : n.mul(c, n.scalar(type, beta)));
  }
  n.out(0, product);
}

/// Integers less their zero point, as i32. A zero point with one element per row
/// or column is aligned at axis `fromEnd`, counted from the last.
static Value centred(Node &n, Value x, size_t zeroPoint, int64_t fromEnd) {
  Type i32 = n.builder().getI32Type();
  Value wide = n.convert(x, i32);
  if (!n.has(zeroPoint))
    return wide;
  Value zero = n.convert(n.in(zeroPoint), i32);
  if (n.rank(zero) == 1 && fromEnd == 2)
    zero = n.reshape(zero, {n.dims(zero)[0], DimExpr(1)});
  return n.sub(wide, zero);
}

static void matMulIntegerOp(Node &n) { n.out(0, n.matmul(centred(n, n.in(0), 2, 2), centred(n, n.in(1), 3, 1))); }

static void qLinearMatMulOp(Node &n) {
  Value sums = n.matmul(centred(n, n.in(0), 2, 2), centred(n, n.in(3), 5, 1));
  Value scaleA = n.in(1), scaleB = n.in(4), scaleY = n.in(6), zeroY = n.in(7);
  if (!sums || !scaleA || !scaleB || !scaleY || !zeroY)
    return;
  Type type = n.element(scaleY);
  if (n.rank(scaleA) == 1)
    scaleA = n.reshape(scaleA, {n.dims(scaleA)[0], DimExpr(1)});
  Value scale = n.div(n.mul(scaleA, scaleB), scaleY);
  Value rounded = n.make<ir::RoundOp>(n.mul(n.convert(sums, type), scale));
  n.out(0, n.convert(n.add(rounded, n.convert(zeroY, type)), n.element(zeroY)));
}

//===----------------------------------------------------------------------===//
// Einsum
//===----------------------------------------------------------------------===//

namespace {
/// A label: a letter, or 256 + i for axis i (from the last) of an ellipsis.
using Labels = SmallVector<int, 6>;

struct Operand {
  Value value;
  Labels labels;
};
} // namespace

static bool contains(const Labels &labels, int label) { return llvm::is_contained(labels, label); }

/// Reads "bij" or "...ij"; `ellipsis` is the number of axes it stands for.
static bool readLabels(StringRef text, int ellipsis, Labels &labels) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ' ')
      continue;
    if (text.substr(i).starts_with("...")) {
      for (int axis = ellipsis - 1; axis >= 0; --axis)
        labels.push_back(256 + axis);
      i += 2;
    } else if (llvm::isAlpha(text[i])) {
      labels.push_back(text[i]);
    } else {
      return false;
    }
  }
  return true;
}

/// The operand with its axes in the order of `order`; labels it lacks get size 1.
static Value arrange(Node &n, const Operand &operand, const Labels &order) {
  SmallVector<int64_t> permutation;
  DimVector dims = n.dims(operand.value), result;
  for (int label : order) {
    auto at = llvm::find(operand.labels, label);
    if (at == operand.labels.end()) {
      result.push_back(DimExpr(1));
      continue;
    }
    permutation.push_back(at - operand.labels.begin());
    result.push_back(dims[at - operand.labels.begin()]);
  }
  return n.reshape(n.transpose(operand.value, permutation), result);
}

static Operand multiply(Node &n, const Operand &a, const Operand &b, const Labels &needed) {
  Labels batch, left, right, summed;
  for (int label : a.labels) {
    if (!contains(b.labels, label))
      left.push_back(label);
    else if (contains(needed, label))
      batch.push_back(label);
    else
      summed.push_back(label);
  }
  for (int label : b.labels)
    if (!contains(a.labels, label))
      right.push_back(label);
  Operand result;
  result.labels = batch;
  result.labels.append(left);
  result.labels.append(right);
  if (summed.empty()) {
    result.value = n.mul(arrange(n, a, result.labels), arrange(n, b, result.labels));
    return result;
  }
  auto order = [](ArrayRef<Labels> parts) {
    Labels all;
    for (const Labels &part : parts)
      all.append(part);
    return all;
  };
  Value x = arrange(n, a, order({batch, left, summed})), y = arrange(n, b, order({batch, summed, right}));
  if (!x || !y)
    return {};
  DimVector dx = n.dims(x), dy = n.dims(y);
  auto slice = [](const DimVector &dims, size_t from, size_t count) {
    return ArrayRef<DimExpr>(dims).slice(from, count);
  };
  size_t b0 = batch.size(), l = left.size(), s = summed.size(), r = right.size();
  for (size_t i = 0; i < s; ++i)
    if (!n.require(Kind::Equal, dx[b0 + l + i], dy[b0 + i], "the sizes of one label agree"))
      return {};
  auto flat = [&](Value v, ArrayRef<DimExpr> lead, ArrayRef<DimExpr> rows, ArrayRef<DimExpr> columns) {
    DimVector dims(lead.begin(), lead.end());
    dims.push_back(Node::product(rows));
    dims.push_back(Node::product(columns));
    return n.reshape(v, dims);
  };
  Value product = n.matmul(flat(x, slice(dx, 0, b0), slice(dx, b0, l), slice(dx, b0 + l, s)),
                           flat(y, slice(dy, 0, b0), slice(dy, b0, s), slice(dy, b0 + s, r)));
  if (!product)
    return {};
  DimVector dims = n.dims(product);
  dims.resize(b0);
  dims.append(dx.begin() + b0, dx.begin() + b0 + l);
  dims.append(dy.begin() + b0 + s, dy.end());
  result.value = n.reshape(product, dims);
  return result;
}

static void einsumOp(Node &n) {
  std::string equation = n.attrString("equation", "");
  auto [inputs, output] = StringRef(equation).split("->");
  bool implicit = equation.find("->") == std::string::npos;
  SmallVector<StringRef> terms;
  inputs.split(terms, ',');
  if (terms.size() != n.numInputs())
    return (void)n.invalid("the equation names " + Twine(terms.size()) + " operands, the node has " +
                           Twine(n.numInputs()));
  SmallVector<Operand> operands;
  int widest = 0;
  for (auto [i, term] : llvm::enumerate(terms)) {
    Operand operand;
    operand.value = n.in(i);
    if (!operand.value)
      return;
    Labels letters;
    int ellipsis = 0;
    bool legal = readLabels(term, 0, letters);
    if (legal && term.contains("..."))
      ellipsis = static_cast<int>(n.rank(operand.value)) - static_cast<int>(letters.size());
    if (!legal || ellipsis < 0 || !readLabels(term, ellipsis, operand.labels) ||
        static_cast<int64_t>(operand.labels.size()) != n.rank(operand.value))
      return (void)n.invalid("term '" + term + "' of the equation does not fit operand " + Twine(i));
    Labels sorted = operand.labels;
    llvm::sort(sorted);
    if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
      return (void)n.unsupported("a label twice in one term (a diagonal) is not supported");
    widest = std::max(widest, ellipsis);
    operands.push_back(operand);
  }
  Labels result;
  if (implicit) {
    for (int axis = widest - 1; axis >= 0; --axis)
      result.push_back(256 + axis);
    for (int letter = 'A'; letter <= 'z'; ++letter) {
      size_t uses = llvm::count_if(operands, [&](const Operand &o) { return contains(o.labels, letter); });
      if (uses == 1)
        result.push_back(letter);
    }
  } else if (!readLabels(output, widest, result)) {
    return (void)n.invalid("the equation '" + equation + "' cannot be read");
  }
  for (int label : result)
    if (llvm::none_of(operands, [&](const Operand &o) { return contains(o.labels, label); }) ||
        llvm::count(result, label) != 1)
      return (void)n.invalid("the result of '" + equation + "' has a label that no operand has, or one twice");

  Operand sum = operands.front();
  for (size_t i = 0; i < operands.size(); ++i) {
    // What later operands or the result still need.
    auto neededAfter = [&](size_t next) {
      Labels needed = result;
      for (const Operand &later : ArrayRef<Operand>(operands).drop_front(next))
        needed.append(later.labels);
      return needed;
    };
    auto dropAlone = [&](Operand &operand, const Labels &needed) {
      SmallVector<int64_t> axes;
      Labels kept;
      for (auto [axis, label] : llvm::enumerate(operand.labels)) {
        if (contains(needed, label))
          kept.push_back(label);
        else
          axes.push_back(static_cast<int64_t>(axis));
      }
      operand.value = n.reduce(ir::ReduceKind::Sum, operand.value, axes, false);
      operand.labels = kept;
    };
    if (i == 0) {
      dropAlone(sum, neededAfter(1));
      continue;
    }
    Operand next = operands[i];
    Labels needed = neededAfter(i + 1), others = needed;
    others.append(sum.labels);
    dropAlone(next, others);
    sum = multiply(n, sum, next, needed);
    if (!sum.value)
      return n.fail();
    dropAlone(sum, needed);
  }
  n.out(0, arrange(n, sum, result));
}

ArrayRef<OpEntry> rlx::onnx_import::contractionOps() {
  static const OpEntry table[] = {
      {"Einsum", 12, 0, einsumOp},
      {"Gemm", 7, 0, gemmOp},
      {"MatMul", 7, 0, matMulOp},
      {"MatMulInteger", 10, 0, matMulIntegerOp},
      {"QLinearMatMul", 10, 0, qLinearMatMulOp},
  };
  return table;
}
