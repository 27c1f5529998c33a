//===- RecognizeActivations.cpp - GELU as exporters spell it --------------===//
//
// GELU is written as some product of x, 1/2 and 1 + f(u(x)), f being erf or tanh.
// Exporters differ in the order of the factors and in how u is written, so both
// sides of f are read as polynomials instead of as trees:
//
//   erf:   u = x / sqrt(2)                             result = x/2 + x/2 * f
//   tanh:  u = sqrt(2/pi) * (x + 0.044715 * x^3)       result = x/2 + x/2 * f
//
//===----------------------------------------------------------------------===//
#include "Patterns.h"

#include "mlir/IR/PatternMatch.h"
#include "llvm/ADT/SetVector.h"

#include <cmath>
#include <map>
#include <numbers>

using mlir::Value;

namespace rlx::transforms {
namespace {

/// Coefficients by (power of x, power of f).
using Polynomial = std::map<std::pair<unsigned, unsigned>, double>;

/// More than any GELU has; keeps products of sums small.
constexpr size_t maxTerms = 8;
constexpr unsigned maxDegree = 4;
constexpr unsigned maxDepth = 8;
constexpr size_t maxAbove = 16;

std::optional<Polynomial> product(const Polynomial &a, const Polynomial &b) {
  Polynomial result;
  for (auto &[powersA, factorA] : a)
    for (auto &[powersB, factorB] : b) {
      std::pair powers(powersA.first + powersB.first, powersA.second + powersB.second);
      if (powers.first + powers.second > maxDegree)
        return std::nullopt;
      result[powers] += factorA * factorB;
    }
  if (result.size() > maxTerms)
    return std::nullopt;
  return result;
}

/// `value` as a polynomial of `x` and `f` (which may be null).
std::optional<Polynomial> read(Value value, Value x, Value f, unsigned depth = 0) {
  if (value == x)
    return Polynomial{{{1, 0}, 1.0}};
  if (value == f)
    return Polynomial{{{0, 1}, 1.0}};
  if (std::optional<double> constant = splatFloat(value))
    return Polynomial{{{0, 0}, *constant}};
  mlir::Operation *op = value.getDefiningOp();
  if (!op || depth == maxDepth || !llvm::isa<ir::AddOp, ir::SubOp, ir::MulOp, ir::DivOp, ir::NegOp, ir::PowOp>(op))
    return std::nullopt;

  std::optional<Polynomial> lhs = read(op->getOperand(0), x, f, depth + 1);
  if (!lhs)
    return std::nullopt;
  if (llvm::isa<ir::NegOp>(op))
    return product(*lhs, Polynomial{{{0, 0}, -1.0}});
  if (llvm::isa<ir::DivOp, ir::PowOp>(op)) {
    std::optional<double> rhs = splatFloat(op->getOperand(1));
    if (!rhs)
      return std::nullopt;
    if (llvm::isa<ir::DivOp>(op))
      return *rhs != 0 ? product(*lhs, Polynomial{{{0, 0}, 1 / *rhs}}) : std::nullopt;
    if (*rhs != 2 && *rhs != 3)
      return std::nullopt;
    std::optional<Polynomial> power = product(*lhs, *lhs);
    return power && *rhs == 3 ? product(*power, *lhs) : power;
  }
  std::optional<Polynomial> rhs = read(op->getOperand(1), x, f, depth + 1);
  if (!rhs)
    return std::nullopt;
  if (llvm::isa<ir::MulOp>(op))
    return product(*lhs, *rhs);
  for (auto &[powers, factor] : *rhs)
    (*lhs)[powers] += llvm::isa<ir::SubOp>(op) ? -factor : factor;
  return lhs;
}

/// Are the terms of `polynomial` these, up to the rounding of constants in `element`?
bool isAbout(const Polynomial &polynomial, const Polynomial &expected, mlir::Type element) {
  unsigned precision = llvm::cast<mlir::FloatType>(element).getFPMantissaWidth();
  double tolerance = std::max(1e-6, std::ldexp(4.0, -static_cast<int>(precision)));
  for (auto &[powers, factor] : polynomial)
    if (!expected.contains(powers) && factor != 0)
      return false;
  for (auto &[powers, factor] : expected) {
    auto found = polynomial.find(powers);
    // Written so that NaN, which is about nothing, fails too.
    if (found == polynomial.end() || !(std::abs(found->second - factor) <= tolerance * std::abs(factor)))
      return false;
  }
  return true;
}

/// Values below `value` that could be the x of its polynomial, the nearest first.
void collectCandidates(Value value, llvm::SetVector<Value> &candidates, unsigned depth = 0) {
  if (splatFloat(value) || !candidates.insert(value) || depth == maxDepth)
    return;
  if (mlir::Operation *op = value.getDefiningOp();
      op && llvm::isa<ir::AddOp, ir::SubOp, ir::MulOp, ir::DivOp, ir::NegOp, ir::PowOp>(op))
    for (Value operand : op->getOperands())
      collectCandidates(operand, candidates, depth + 1);
}

/// The op above `f` whose value is x/2 + x/2 * f, if there is one.
mlir::Operation *findRoot(Value f, Value x) {
  const Polynomial whole{{{1, 0}, 0.5}, {{1, 1}, 0.5}};
  mlir::Type element = llvm::cast<mlir::RankedTensorType>(f.getType()).getElementType();
  llvm::SetVector<mlir::Operation *> above;
  auto addUsers = [&](Value value) {
    for (mlir::Operation *user : value.getUsers())
      if (llvm::isa<ir::AddOp, ir::SubOp, ir::MulOp, ir::DivOp, ir::NegOp>(user) && above.size() < maxAbove)
        above.insert(user);
  };
  addUsers(f);
  for (size_t index = 0; index < above.size(); ++index) {
    Value root = above[index]->getResult(0);
    std::optional<Polynomial> outer = read(root, x, f);
    // A constant of higher rank would have changed the shape: then it is not GELU of x.
    if (outer && isAbout(*outer, whole, element) && root.getType() == x.getType())
      return above[index];
    addUsers(root);
  }
  return nullptr;
}

template <typename Function> struct RecognizeGelu : mlir::OpRewritePattern<Function> {
  using mlir::OpRewritePattern<Function>::OpRewritePattern;

  llvm::LogicalResult matchAndRewrite(Function op, mlir::PatternRewriter &rewriter) const override {
    constexpr bool isTanh = std::is_same_v<Function, ir::TanhOp>;
    mlir::Type element = op.getType().getElementType();
    const double c = isTanh ? std::sqrt(2 / std::numbers::pi) : 1 / std::numbers::sqrt2;
    Polynomial argument{{{1, 0}, c}};
    if (isTanh)
      argument[{3, 0}] = 0.044715 * c;

    llvm::SetVector<Value> candidates;
    collectCandidates(op.getInput(), candidates);
    for (Value x : candidates) {
      std::optional<Polynomial> inner = read(op.getInput(), x, Value());
      if (!inner || !isAbout(*inner, argument, element))
        continue;
      if (mlir::Operation *root = findRoot(op.getResult(), x)) {
        rewriter.setInsertionPoint(root);
        rewriter.replaceOpWithNewOp<ir::GeluOp>(root, x.getType(), x, isTanh);
        return mlir::success();
      }
    }
    return mlir::failure();
  }
};

} // namespace

void addActivationPatterns(mlir::RewritePatternSet &patterns) {
  patterns.add<RecognizeGelu<ir::ErfOp>, RecognizeGelu<ir::TanhOp>>(patterns.getContext());
}

} // namespace rlx::transforms
