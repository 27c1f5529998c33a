//===- Activation.cpp - activation functions ------------------------------===//
#include "Node.h"

#include "llvm/ADT/Twine.h"

#include <cmath>

using namespace rlx;
using namespace rlx::onnx_import;
using ir::ComparePredicate;

// The formulas are those of the ONNX operator descriptions.

namespace {
/// Short names for one activation's formula.
struct Formula {
  explicit Formula(Node &n) : n(n), x(n.in(0)), type(n.element(x)) {}
  Value c(double value) { return n.scalar(type, value); }
  Value exp(Value v) { return n.make<ir::ExpOp>(v); }
  Value neg(Value v) { return n.make<ir::NegOp>(v); }
  Value lt(Value a, Value b) { return n.compare(ComparePredicate::Lt, a, b); }
  Value gt(Value a, Value b) { return n.compare(ComparePredicate::Gt, a, b); }
  /// log(1 + exp(x)), without overflow.
  Value softplus() {
    Value tail = exp(neg(n.make<ir::AbsOp>(x)));
    return n.add(n.max(x, c(0)), n.make<ir::LogOp>(n.add(c(1), tail)));
  }
  Node &n;
  Value x;
  Type type;
};
} // namespace

static void reluOp(Node &n) {
  Formula f(n);
  n.out(0, n.max(f.x, f.c(0)));
}

static void leakyReluOp(Node &n) {
  Formula f(n);
  Value alpha = f.c(n.attrFloat("alpha", 0.01f));
  n.out(0, n.select(f.lt(f.x, f.c(0)), n.mul(f.x, alpha), f.x));
}

static void preluOp(Node &n) {
  Formula f(n);
  n.out(0, n.select(f.lt(f.x, f.c(0)), n.mul(f.x, n.in(1)), f.x));
}

static Value elu(Formula &f, double alpha) { return f.n.mul(f.c(alpha), f.n.sub(f.exp(f.x), f.c(1))); }

static void eluOp(Node &n) {
  Formula f(n);
  n.out(0, n.select(f.lt(f.x, f.c(0)), elu(f, n.attrFloat("alpha", 1)), f.x));
}

static void seluOp(Node &n) {
  Formula f(n);
  double alpha = n.attrFloat("alpha", 1.67326319217681884765625),
         gamma = n.attrFloat("gamma", 1.05070102214813232421875);
  n.out(0, n.mul(f.c(gamma), n.select(f.gt(f.x, f.c(0)), f.x, elu(f, alpha))));
}

static void celuOp(Node &n) {
  Formula f(n);
  double alpha = n.attrFloat("alpha", 1);
  Value scaled = n.sub(f.exp(n.div(f.x, f.c(alpha))), f.c(1));
  n.out(0, n.add(n.max(f.x, f.c(0)), n.min(f.c(0), n.mul(f.c(alpha), scaled))));
}

static void hardSigmoidOp(Node &n) {
  Formula f(n);
  double alpha = n.attrFloat("alpha", 0.2f), beta = n.attrFloat("beta", 0.5);
  n.out(0, n.max(f.c(0), n.min(f.c(1), n.add(n.mul(f.x, f.c(alpha)), f.c(beta)))));
}

static void hardSwishOp(Node &n) {
  Formula f(n);
  Value gate = n.max(f.c(0), n.min(f.c(1), n.add(n.mul(f.x, f.c(1.0 / 6)), f.c(0.5))));
  n.out(0, n.mul(f.x, gate));
}

static void softplusOp(Node &n) { n.out(0, Formula(n).softplus()); }

static void softsignOp(Node &n) {
  Formula f(n);
  n.out(0, n.div(f.x, n.add(f.c(1), n.make<ir::AbsOp>(f.x))));
}

static void mishOp(Node &n) {
  Formula f(n);
  n.out(0, n.mul(f.x, n.make<ir::TanhOp>(f.softplus())));
}

static void swishOp(Node &n) {
  Formula f(n);
  double alpha = n.attrFloat("alpha", 1);
  n.out(0, n.mul(f.x, n.make<ir::SigmoidOp>(alpha == 1 ? f.x : n.mul(f.c(alpha), f.x))));
}

static void thresholdedReluOp(Node &n) {
  Formula f(n);
  n.out(0, n.select(f.gt(f.x, f.c(n.attrFloat("alpha", 1))), f.x, f.c(0)));
}

static void shrinkOp(Node &n) {
  Formula f(n);
  Value bias = f.c(n.attrFloat("bias", 0));
  double lambda = n.attrFloat("lambd", 0.5);
  Value high = n.select(f.gt(f.x, f.c(lambda)), n.sub(f.x, bias), f.c(0));
  n.out(0, n.select(f.lt(f.x, f.c(-lambda)), n.add(f.x, bias), high));
}

static void geluOp(Node &n) {
  std::string form = n.attrString("approximate", "none");
  if (form != "none" && form != "tanh")
    return (void)n.invalid("approximate is '" + form + "', neither 'none' nor 'tanh'");
  n.out(0, n.make<ir::GeluOp>(n.in(0), form == "tanh"));
}

/// Inference: the input itself, and a mask that keeps everything.
static void dropoutOp(Node &n) {
  n.ignoreAttr("ratio");
  n.ignoreAttr("seed");
  Value x = n.in(0);
  if (n.has(2)) {
    std::optional<DimVector> training = n.content(n.in(2));
    if (!training || training->size() != 1 || training->front() != DimExpr(0))
      return (void)n.unsupported("training is not supported (training_mode must be a constant false)");
  }
  n.out(0, x);
  if (n.wants(1)) {
    Type mask = n.opset() < 10 ? n.element(x) : Type(n.builder().getI1Type());
    n.out(1, n.broadcast(n.scalarInt(mask, 1), n.dims(x)));
  }
}

ArrayRef<OpEntry> rlx::onnx_import::activationOps() {
  static const OpEntry table[] = {
      {"Celu", 12, 0, celuOp},
      {"Dropout", 7, 0, dropoutOp},
      {"Elu", 7, 0, eluOp},
      {"Gelu", 20, 0, geluOp},
      {"HardSigmoid", 7, 0, hardSigmoidOp},
      {"HardSwish", 14, 0, hardSwishOp},
      {"LeakyRelu", 7, 0, leakyReluOp},
      {"Mish", 18, 0, mishOp},
      {"PRelu", 7, 0, preluOp},
      {"Relu", 7, 0, reluOp},
      {"Selu", 7, 0, seluOp},
      {"Shrink", 9, 0, shrinkOp},
      {"Softplus", 7, 0, softplusOp},
      {"Softsign", 7, 0, softsignOp},
      {"Swish", 24, 0, swishOp},
      {"ThresholdedRelu", 10, 0, thresholdedReluOp},
  };
  return table;
}
