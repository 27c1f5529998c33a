//===- Elementwise.cpp - ops on one element at a time ---------------------===//
#include "Node.h"

#include "Proto.h"

#include "llvm/ADT/Twine.h"

#include <cmath>

using namespace rlx;
using namespace rlx::onnx_import;
using ir::ComparePredicate;
using llvm::Twine;

using Elements = ArrayRef<DimExpr>;
using Computed = std::optional<DimExpr>;

static bool isFloat(Type type) { return type && llvm::isa<mlir::FloatType>(type); }

/// A product, a sum or a difference of numbers near the end of int64 would wrap
/// when run; expressions do not.
static bool isHuge(Elements elements) {
  return llvm::any_of(elements, [](const DimExpr &dim) {
    std::optional<int64_t> number = dim.constant();
    return number && (*number > (int64_t{1} << 31) || *number < -(int64_t{1} << 31));
  });
}

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

/// A binary op: known elements by `known`, else the op `OpTy`.
template <typename OpTy> static void binary(Node &n, llvm::function_ref<Computed(Elements)> known) {
  Value a = n.in(0), b = n.in(1);
  if (Value value = n.knownElementwise({a, b}, n.element(a), known))
    return n.out(0, value);
  n.out(0, n.make<OpTy>(a, b));
}

static void addOp(Node &n) {
  binary<ir::AddOp>(n, [](Elements e) { return isHuge(e) ? Computed() : e[0] + e[1]; });
}
static void subOp(Node &n) {
  binary<ir::SubOp>(n, [](Elements e) { return isHuge(e) ? Computed() : e[0] - e[1]; });
}
static void mulOp(Node &n) {
  binary<ir::MulOp>(n, [](Elements e) { return isHuge(e) ? Computed() : e[0] * e[1]; });
}

static void divOp(Node &n) {
  Value a = n.in(0);
  bool floats = isFloat(n.element(a));
  binary<ir::DivOp>(n, [&](Elements e) -> Computed {
    if (!floats)
      return n.truncatedQuotient(e[0], e[1]);
    // A float quotient is known where it is a size again.
    if (e[1].constant().value_or(0) <= 0)
      return std::nullopt;
    return e[0].exactQuotient(e[1]);
  });
}

static void modOp(Node &n) {
  bool sameAsC = n.attrInt("fmod", 0) != 0;
  Value a = n.in(0), b = n.in(1);
  Value known = n.knownElementwise({a, b}, n.element(a), [&](Elements e) -> Computed {
    std::optional<int64_t> divisor = e[1].constant();
    // With both signs known to be positive the two remainders are one.
    if (!divisor || *divisor <= 0 || !n.nonNegative(e[0]))
      return std::nullopt;
    return n.simplify(DimExpr::mod(e[0], e[1]));
  });
  n.out(0, known ? known : sameAsC ? n.make<ir::RemOp>(a, b) : n.make<ir::ModOp>(a, b));
}

static void powOp(Node &n) {
  Value base = n.in(0), exponent = n.in(1);
  Type type = n.element(base);
  if (!type)
    return;
  if (!isFloat(type) && isFloat(n.element(exponent))) {
    // An integer to a fractional power is computed in floats and cut.
    Type wide = n.builder().getF64Type();
    return n.out(0, n.convert(n.make<ir::PowOp>(n.convert(base, wide), n.convert(exponent, wide)), type));
  }
  n.out(0, n.make<ir::PowOp>(base, n.convert(exponent, type)));
}

/// Max, Min, Sum: any number of operands.
static void fold(Node &n, llvm::function_ref<Value(Value, Value)> join) {
  if (n.numInputs() == 0)
    return (void)n.invalid("has no inputs");
  Value result = n.in(0);
  for (size_t i = 1; i < n.numInputs() && result; ++i)
    result = join(result, n.in(i));
  n.out(0, result);
}

static void maxOp(Node &n) {
  fold(n, [&](Value a, Value b) {
    Value known = n.knownElementwise({a, b}, n.element(a),
                                     [&](Elements e) -> Computed { return n.simplify(DimExpr::max(e[0], e[1])); });
    return known ? known : n.max(a, b);
  });
}
static void minOp(Node &n) {
  fold(n, [&](Value a, Value b) {
    Value known = n.knownElementwise({a, b}, n.element(a),
                                     [&](Elements e) -> Computed { return n.simplify(DimExpr::min(e[0], e[1])); });
    return known ? known : n.min(a, b);
  });
}
static void sumOp(Node &n) {
  fold(n, [&](Value a, Value b) { return n.add(a, b); });
}
static void meanOp(Node &n) {
  size_t count = 0;
  Value last;
  if (n.numInputs() == 0)
    return (void)n.invalid("has no inputs");
  for (; count < n.numInputs(); ++count)
    last = count ? n.add(last, n.in(count)) : n.in(0);
  n.out(0, count == 1 ? last : n.div(last, n.scalar(n.element(last), static_cast<double>(count))));
}

//===----------------------------------------------------------------------===//
// One operand
//===----------------------------------------------------------------------===//

template <typename OpTy> static void unary(Node &n) { n.out(0, n.make<OpTy>(n.in(0))); }

static void negOp(Node &n) {
  Value x = n.in(0);
  Value known =
      n.knownElementwise({x}, n.element(x), [](Elements e) { return isHuge(e) ? Computed() : DimExpr(0) - e[0]; });
  n.out(0, known ? known : n.make<ir::NegOp>(x));
}

static void absOp(Node &n) {
  Value x = n.in(0);
  Value known = n.knownElementwise({x}, n.element(x), [&](Elements e) -> Computed {
    if (n.nonNegative(e[0]))
      return e[0];
    if (n.nonNegative(DimExpr(0) - e[0]) && !isHuge(e))
      return DimExpr(0) - e[0];
    return std::nullopt;
  });
  n.out(0, known ? known : n.make<ir::AbsOp>(x));
}

/// Floor, Ceil, Round: a size is a whole number already.
template <typename OpTy> static void rounding(Node &n) {
  Value x = n.in(0);
  Value known = n.knownElementwise({x}, n.element(x), [](Elements e) -> Computed { return e[0]; });
  n.out(0, known ? known : n.make<OpTy>(x));
}

static void notOp(Node &n) {
  Value x = n.in(0);
  Value known = n.knownElementwise({x}, n.element(x), [](Elements e) { return Computed(DimExpr(e[0] == DimExpr(0))); });
  n.out(0, known ? known : n.make<ir::NotOp>(x));
}

static void tanOp(Node &n) {
  Value x = n.in(0);
  n.out(0, n.div(n.make<ir::SinOp>(x), n.make<ir::CosOp>(x)));
}
static Value cosh(Node &n, Value x) {
  Value half = n.scalar(n.element(x), 0.5);
  return n.mul(half, n.add(n.make<ir::ExpOp>(x), n.make<ir::ExpOp>(n.make<ir::NegOp>(x))));
}
static void coshOp(Node &n) { n.out(0, cosh(n, n.in(0))); }
static void sinhOp(Node &n) {
  // By tanh: a difference of exponentials loses everything near 0.
  Value x = n.in(0);
  n.out(0, n.mul(n.make<ir::TanhOp>(x), cosh(n, x)));
}

static void isInfOp(Node &n) {
  Value x = n.in(0);
  bool negative = n.attrInt("detect_negative", 1) != 0, positive = n.attrInt("detect_positive", 1) != 0;
  Value infinite = n.make<ir::IsInfOp>(x);
  if (negative && positive)
    return n.out(0, infinite);
  Value zero = n.scalar(n.element(x), 0);
  Value side = negative   ? n.compare(ComparePredicate::Lt, x, zero)
               : positive ? n.compare(ComparePredicate::Gt, x, zero)
                          : n.scalarInt(n.builder().getI1Type(), 0);
  n.out(0, n.make<ir::AndOp>(infinite, side));
}

//===----------------------------------------------------------------------===//
// Logic and comparison
//===----------------------------------------------------------------------===//

static void andOp(Node &n) {
  binary<ir::AndOp>(n, [](Elements e) -> Computed { return DimExpr(e[0] != DimExpr(0) && e[1] != DimExpr(0)); });
}
static void orOp(Node &n) {
  binary<ir::OrOp>(n, [](Elements e) -> Computed { return DimExpr(e[0] != DimExpr(0) || e[1] != DimExpr(0)); });
}
template <typename OpTy> static void plainBinary(Node &n) { n.out(0, n.make<OpTy>(n.in(0), n.in(1))); }

static void bitShiftOp(Node &n) {
  std::string direction = n.attrString("direction", "");
  if (direction == "LEFT")
    return n.out(0, n.make<ir::ShlOp>(n.in(0), n.in(1)));
  if (direction == "RIGHT")
    return n.out(0, n.make<ir::ShrOp>(n.in(0), n.in(1)));
  n.invalid("direction '" + direction + "' is neither LEFT nor RIGHT");
}

static void comparison(Node &n, ComparePredicate predicate) {
  Value a = n.in(0), b = n.in(1);
  Value known = n.knownElementwise({a, b}, n.builder().getI1Type(), [&](Elements e) -> Computed {
    std::optional<bool> answer;
    auto negate = [](std::optional<bool> value) { return value ? std::optional<bool>(!*value) : value; };
    switch (predicate) {
    case ComparePredicate::Eq:
      answer = n.prove(DimPredicate::Kind::Equal, e[0], e[1]);
      break;
    case ComparePredicate::Ne:
      answer = negate(n.prove(DimPredicate::Kind::Equal, e[0], e[1]));
      break;
    case ComparePredicate::Lt:
      answer = n.prove(DimPredicate::Kind::Less, e[0], e[1]);
      break;
    case ComparePredicate::Le:
      answer = n.prove(DimPredicate::Kind::LessEqual, e[0], e[1]);
      break;
    case ComparePredicate::Gt:
      answer = n.prove(DimPredicate::Kind::Less, e[1], e[0]);
      break;
    case ComparePredicate::Ge:
      answer = n.prove(DimPredicate::Kind::LessEqual, e[1], e[0]);
      break;
    }
    return answer ? Computed(DimExpr(*answer)) : Computed();
  });
  n.out(0, known ? known : n.compare(predicate, a, b));
}
static void equalOp(Node &n) { comparison(n, ComparePredicate::Eq); }
static void lessOp(Node &n) { comparison(n, ComparePredicate::Lt); }
static void lessOrEqualOp(Node &n) { comparison(n, ComparePredicate::Le); }
static void greaterOp(Node &n) { comparison(n, ComparePredicate::Gt); }
static void greaterOrEqualOp(Node &n) { comparison(n, ComparePredicate::Ge); }

static void whereOp(Node &n) {
  Value condition = n.in(0), a = n.in(1), b = n.in(2);
  Value known = n.knownElementwise({condition, a, b}, n.element(a), [](Elements e) -> Computed {
    std::optional<int64_t> chosen = e[0].constant();
    if (!chosen)
      return std::nullopt;
    return *chosen ? e[1] : e[2];
  });
  n.out(0, known ? known : n.select(condition, a, b));
}

//===----------------------------------------------------------------------===//
// Casts and bounds
//===----------------------------------------------------------------------===//

static void castOp(Node &n) {
  n.ignoreAttr("saturate");   // for 8-bit floats only
  n.ignoreAttr("round_mode"); // for 8-bit floats only
  auto to = static_cast<int32_t>(n.attrInt("to", 0));
  std::optional<data::ElementType> type = elementTypeOf(to);
  if (!type)
    return (void)n.unsupported("a cast to " + onnxTypeName(to) + " is not supported");
  n.out(0, n.convert(n.in(0), ir::fromElementType(n.context(), *type)));
}

static void castLikeOp(Node &n) {
  n.ignoreAttr("saturate");
  n.ignoreAttr("round_mode");
  n.out(0, n.convert(n.in(0), n.element(n.in(1))));
}

static void bounded(Node &n, Value low, Value high) {
  // The upper bound last: where they cross, it wins. NaN passes through both.
  Value result = n.in(0);
  if (low)
    result = n.max(result, low);
  if (high)
    result = n.min(result, high);
  n.out(0, result);
}

/// Bounds as attributes.
static void clip6(Node &n) {
  Value x = n.in(0);
  Value low, high;
  if (n.hasAttr("min"))
    low = n.scalar(n.element(x), n.attrFloat("min", 0));
  if (n.hasAttr("max"))
    high = n.scalar(n.element(x), n.attrFloat("max", 0));
  bounded(n, low, high);
}

/// Bounds as inputs, either may be missing.
static void clip11(Node &n) {
  auto bound = [&](size_t i) {
    Value value = n.has(i) ? n.in(i) : Value();
    // A scalar by the standard; some files hold one element with dims.
    return value && n.rank(value) > 0 ? n.reshape(value, {}) : value;
  };
  bounded(n, bound(1), bound(2));
}

ArrayRef<OpEntry> rlx::onnx_import::elementwiseOps() {
  static const OpEntry table[] = {
      {"Abs", 7, 0, absOp},
      {"Add", 7, 0, addOp},
      {"And", 7, 0, andOp},
      {"BitShift", 11, 0, bitShiftOp},
      {"BitwiseAnd", 18, 0, plainBinary<ir::AndOp>},
      {"BitwiseNot", 18, 0, unary<ir::NotOp>},
      {"BitwiseOr", 18, 0, plainBinary<ir::OrOp>},
      {"BitwiseXor", 18, 0, plainBinary<ir::XorOp>},
      {"Cast", 7, 0, castOp},
      {"CastLike", 15, 0, castLikeOp},
      {"Ceil", 7, 0, rounding<ir::CeilOp>},
      {"Clip", 7, 10, clip6},
      {"Clip", 11, 0, clip11},
      {"Cos", 7, 0, unary<ir::CosOp>},
      {"Cosh", 9, 0, coshOp},
      {"Div", 7, 0, divOp},
      {"Equal", 7, 0, equalOp},
      {"Erf", 9, 0, unary<ir::ErfOp>},
      {"Exp", 7, 0, unary<ir::ExpOp>},
      {"Floor", 7, 0, rounding<ir::FloorOp>},
      {"Greater", 7, 0, greaterOp},
      {"GreaterOrEqual", 12, 0, greaterOrEqualOp},
      {"IsInf", 10, 0, isInfOp},
      {"IsNaN", 9, 0, unary<ir::IsNaNOp>},
      {"Less", 7, 0, lessOp},
      {"LessOrEqual", 12, 0, lessOrEqualOp},
      {"Log", 7, 0, unary<ir::LogOp>},
      {"Max", 7, 0, maxOp},
      {"Mean", 7, 0, meanOp},
      {"Min", 7, 0, minOp},
      {"Mod", 10, 0, modOp},
      {"Mul", 7, 0, mulOp},
      {"Neg", 7, 0, negOp},
      {"Not", 7, 0, notOp},
      {"Or", 7, 0, orOp},
      {"Pow", 7, 0, powOp},
      {"Reciprocal", 7, 0, unary<ir::ReciprocalOp>},
      {"Round", 11, 0, rounding<ir::RoundOp>},
      {"Sigmoid", 7, 0, unary<ir::SigmoidOp>},
      {"Sign", 9, 0, unary<ir::SignOp>},
      {"Sin", 7, 0, unary<ir::SinOp>},
      {"Sinh", 9, 0, sinhOp},
      {"Sqrt", 7, 0, unary<ir::SqrtOp>},
      {"Sub", 7, 0, subOp},
      {"Sum", 7, 0, sumOp},
      {"Tan", 7, 0, tanOp},
      {"Tanh", 7, 0, unary<ir::TanhOp>},
      {"Where", 9, 0, whereOp},
      {"Xor", 7, 0, plainBinary<ir::XorOp>},
  };
  return table;
}
