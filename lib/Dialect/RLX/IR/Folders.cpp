//===- Folders.cpp - exact folding of integers and sizes ------------------===//
//
// Elementwise ops. Floats are never computed here: a pass runs the host kernels for them, so that folded and run
// agree bit for bit. What is dropped (x * 1) keeps every bit of x, NaN and infinity included.
//
//===----------------------------------------------------------------------===//

#include "Folding.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace rlx;
using namespace rlx::ir;
using namespace rlx::ir::detail;
using data::Opcode;

//===----------------------------------------------------------------------===//
// One element
//===----------------------------------------------------------------------===//

/// Arithmetic of the element type; nothing where running it would be an error, or where it is not folded here.
static std::optional<APInt> evaluateInteger(Opcode opcode, bool isUnsigned, const APInt &a, const APInt &b) {
  unsigned width = a.getBitWidth();
  switch (opcode) {
  case Opcode::Add:
    return a + b;
  case Opcode::Sub:
    return a - b;
  case Opcode::Mul:
    return a * b;
  case Opcode::Div:
    if (b.isZero())
      return std::nullopt;
    return isUnsigned ? a.udiv(b) : a.sdiv(b);
  case Opcode::Rem:
    if (b.isZero())
      return std::nullopt;
    return isUnsigned ? a.urem(b) : a.srem(b);
  case Opcode::Mod: {
    if (b.isZero())
      return std::nullopt;
    if (isUnsigned)
      return a.urem(b);
    APInt remainder = a.srem(b);
    return !remainder.isZero() && remainder.isNegative() != b.isNegative() ? remainder + b : remainder;
  }
  case Opcode::Max:
    return (isUnsigned ? a.ugt(b) : a.sgt(b)) ? a : b;
  case Opcode::Min:
    return (isUnsigned ? a.ult(b) : a.slt(b)) ? a : b;
  case Opcode::And:
    return a & b;
  case Opcode::Or:
    return a | b;
  case Opcode::Xor:
    return a ^ b;
  case Opcode::ShiftLeft:
    return b.uge(width) ? APInt::getZero(width) : a.shl(b);
  case Opcode::ShiftRight: {
    unsigned amount = b.uge(width) ? width : b.getZExtValue();
    return isUnsigned ? a.lshr(amount) : a.ashr(amount);
  }
  case Opcode::Neg:
    return -a;
  case Opcode::Abs:
    return isUnsigned || !a.isNegative() ? a : -a;
  case Opcode::Sign:
    if (a.isZero())
      return a;
    return !isUnsigned && a.isNegative() ? APInt::getAllOnes(width) : APInt(width, 1);
  case Opcode::Not:
    return ~a;
  default:
    return std::nullopt;
  }
}

static std::optional<bool> compareIntegers(Opcode opcode, bool isUnsigned, const APInt &a, const APInt &b) {
  switch (opcode) {
  case Opcode::Equal:
    return a == b;
  case Opcode::NotEqual:
    return a != b;
  case Opcode::Less:
    return isUnsigned ? a.ult(b) : a.slt(b);
  case Opcode::LessEqual:
    return isUnsigned ? a.ule(b) : a.sle(b);
  case Opcode::Greater:
    return isUnsigned ? a.ugt(b) : a.sgt(b);
  case Opcode::GreaterEqual:
    return isUnsigned ? a.uge(b) : a.sge(b);
  default:
    return std::nullopt;
  }
}

/// The same over sizes. Division truncates and expressions round down, which is the same where both are 0 or more,
/// and where nothing remains.
static std::optional<DimExpr> evaluateSize(Opcode opcode, const DimFacts &facts, const DimExpr &a, const DimExpr &b) {
  auto divides = [&] { return b.constant() != 0 && isNonNegative(facts, a) && isNonNegative(facts, b); };
  switch (opcode) {
  case Opcode::Add:
    return a + b;
  case Opcode::Sub:
    return a - b;
  case Opcode::Mul:
    return a * b;
  case Opcode::Div:
    if (b.isConstant() && b.constant() != 0)
      if (std::optional<DimExpr> exact = a.exactQuotient(b))
        return exact;
    return divides() ? std::optional(DimExpr::floorDiv(a, b)) : std::nullopt;
  case Opcode::Mod:
    if (b.isConstant() ? b.constant() != 0 : isNonNegative(facts, b))
      return DimExpr::mod(a, b);
    return std::nullopt;
  case Opcode::Rem:
    return divides() ? std::optional(DimExpr::mod(a, b)) : std::nullopt;
  case Opcode::Max:
    return DimExpr::max(a, b);
  case Opcode::Min:
    return DimExpr::min(a, b);
  case Opcode::Neg:
    return DimExpr(0) - a;
  case Opcode::Abs:
    return isNonNegative(facts, a) ? std::optional(a) : std::nullopt;
  default:
    return std::nullopt;
  }
}

static std::optional<bool> compareSizes(Opcode opcode, const DimFacts &facts, const DimExpr &a, const DimExpr &b) {
  using K = DimPredicate::Kind;
  switch (opcode) {
  case Opcode::Equal:
    return facts.prove({K::Equal, a, b});
  case Opcode::NotEqual:
    return facts.prove({K::NotEqual, a, b});
  case Opcode::Less:
    return facts.prove({K::Less, a, b});
  case Opcode::LessEqual:
    return facts.prove({K::LessEqual, a, b});
  case Opcode::Greater:
    return facts.prove({K::Less, b, a});
  case Opcode::GreaterEqual:
    return facts.prove({K::LessEqual, b, a});
  default:
    return std::nullopt;
  }
}

static bool isComparison(Opcode opcode) { return opcode >= Opcode::Equal && opcode <= Opcode::GreaterEqual; }

//===----------------------------------------------------------------------===//
// Whole values
//===----------------------------------------------------------------------===//

/// Every operand is known: compute the result.
static Attribute foldKnown(Operation *op, Opcode opcode, ArrayRef<Attribute> constants) {
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  if (!isSmall(type))
    return {};
  SmallVector<Cells, 3> operands;
  SmallVector<SmallVector<int64_t>, 3> strides;
  bool symbolic = false;
  for (auto [value, constant] : llvm::zip_equal(op->getOperands(), constants)) {
    std::optional<Cells> cells = getCells(value, constant);
    if (!cells || !isa<IntegerType>(cells->elementType))
      // A select moves floats, and computes nothing.
      if (!cells || opcode != Opcode::Select)
        return {};
    symbolic |= cells->isSymbolic();
    // Strides aligned with the result's axes; 0 where the operand is repeated.
    SmallVector<int64_t> own = stridesOf(cells->shape), aligned(type.getRank() - own.size(), 0);
    for (auto [size, stride] : llvm::zip_equal(cells->shape, own))
      aligned.push_back(size == 1 ? 0 : stride);
    strides.push_back(aligned);
    operands.push_back(std::move(*cells));
  }

  const Cells &first = operands.front();
  bool isUnsigned = first.elementType.isUnsignedInteger() || first.elementType.isInteger(1);
  // Sums and products of sizes need no facts, and those of a large graph take time to collect.
  bool needsFacts = isComparison(opcode) || opcode == Opcode::Div || opcode == Opcode::Mod || opcode == Opcode::Rem ||
                    opcode == Opcode::Abs;
  DimFacts facts = symbolic && needsFacts ? factsAround(op) : DimFacts();
  Type boolean = IntegerType::get(op->getContext(), 1);
  SmallVector<Cell> results;
  bool failed = false;
  forEachIndex(type.getShape(), [&](ArrayRef<int64_t> index) {
    if (failed)
      return;
    SmallVector<size_t, 3> at;
    for (const SmallVector<int64_t> &stride : strides) {
      int64_t offset = 0;
      for (auto [i, s] : llvm::zip_equal(index, stride))
        offset += i * s;
      at.push_back(offset);
    }
    size_t second = operands.size() > 1 ? 1 : 0;
    if (opcode == Opcode::Select) {
      size_t picked = first.integer(at[0]).isZero() ? 2 : 1;
      results.push_back(operands[picked].elements[at[picked]]);
    } else if (isComparison(opcode)) {
      std::optional<bool> answer =
          symbolic ? compareSizes(opcode, facts, first.expression(at[0]), operands[1].expression(at[1]))
                   : compareIntegers(opcode, isUnsigned, first.integer(at[0]), operands[1].integer(at[1]));
      if (!answer)
        failed = true;
      else
        results.push_back(makeCell(boolean, APInt(1, *answer)));
    } else if (symbolic) {
      std::optional<DimExpr> size =
          evaluateSize(opcode, facts, first.expression(at[0]), operands[second].expression(at[second]));
      if (!size)
        failed = true;
      else
        results.push_back(*size);
    } else {
      std::optional<APInt> value =
          evaluateInteger(opcode, isUnsigned, first.integer(at[0]), operands[second].integer(at[second]));
      if (!value)
        failed = true;
      else
        results.push_back(makeCell(type.getElementType(), *value));
    }
  });
  if (failed)
    return {};
  return fromCells(type, results);
}

/// A constant operand that is one value everywhere.
static bool isSplatOf(Attribute constant, double value) {
  auto dense = dyn_cast_or_null<DenseElementsAttr>(constant);
  if (!dense || !dense.isSplat())
    return false;
  if (auto floats = dyn_cast<DenseFPElementsAttr>(dense)) {
    APFloat wanted(value);
    bool lossy = false;
    wanted.convert(floats.getSplatValue<APFloat>().getSemantics(), APFloat::rmNearestTiesToEven, &lossy);
    return floats.getSplatValue<APFloat>().bitwiseIsEqual(wanted);
  }
  if (auto integers = dyn_cast<DenseIntElementsAttr>(dense))
    return integers.getSplatValue<APInt>() ==
           APInt(integers.getSplatValue<APInt>().getBitWidth(), static_cast<uint64_t>(value));
  return false;
}

/// A constant operand with every bit set.
static bool isAllOnes(Attribute constant) {
  auto integers = dyn_cast_or_null<DenseIntElementsAttr>(constant);
  return integers && integers.isSplat() && integers.getSplatValue<APInt>().isAllOnes();
}

/// The operand that the result equals bit for bit, whatever the others hold.
static Value neutralOperand(Operation *op, Opcode opcode, ArrayRef<Attribute> constants) {
  Value lhs = op->getOperand(0);
  bool isFloat = isa<FloatType>(cast<RankedTensorType>(op->getResult(0).getType()).getElementType());
  auto rhsIs = [&](double value) { return isSplatOf(constants[1], value); };
  auto lhsIs = [&](double value) { return isSplatOf(constants[0], value); };
  switch (opcode) {
  case Opcode::Add: {
    // -0 + 0 is 0: only -0 changes no float.
    double zero = isFloat ? -0.0 : 0.0;
    return rhsIs(zero) ? lhs : lhsIs(zero) ? op->getOperand(1) : Value();
  }
  case Opcode::Sub:
    return rhsIs(0.0) ? lhs : Value();
  case Opcode::Mul:
    return rhsIs(1.0) ? lhs : lhsIs(1.0) ? op->getOperand(1) : Value();
  case Opcode::Div:
  case Opcode::Pow:
    return rhsIs(1.0) ? lhs : Value();
  case Opcode::Max:
  case Opcode::Min:
    return lhs == op->getOperand(1) ? lhs : Value();
  case Opcode::And:
    return lhs == op->getOperand(1) || isAllOnes(constants[1]) ? lhs
           : isAllOnes(constants[0])                           ? op->getOperand(1)
                                                               : Value();
  case Opcode::Or:
    return lhs == op->getOperand(1) || rhsIs(0.0) ? lhs : lhsIs(0.0) ? op->getOperand(1) : Value();
  case Opcode::Xor:
    return rhsIs(0.0) ? lhs : lhsIs(0.0) ? op->getOperand(1) : Value();
  case Opcode::ShiftLeft:
  case Opcode::ShiftRight:
    return rhsIs(0.0) ? lhs : Value();
  case Opcode::Select: {
    if (op->getOperand(1) == op->getOperand(2))
      return op->getOperand(1);
    auto condition = dyn_cast_or_null<DenseElementsAttr>(constants[0]);
    if (!condition || !condition.isSplat())
      return {};
    return op->getOperand(condition.getSplatValue<APInt>().isZero() ? 2 : 1);
  }
  case Opcode::Neg:
  case Opcode::Not:
    // Of itself.
    if (Operation *inner = lhs.getDefiningOp(); inner && inner->getName() == op->getName())
      return inner->getOperand(0);
    return {};
  case Opcode::Floor:
  case Opcode::Ceil:
  case Opcode::Round:
    return isa_and_nonnull<FloorOp, CeilOp, RoundOp>(lhs.getDefiningOp()) ? lhs : Value();
  case Opcode::Abs:
    return isa_and_nonnull<AbsOp>(lhs.getDefiningOp()) ? lhs : Value();
  default:
    return {};
  }
}

OpFoldResult rlx::ir::detail::foldElementwise(Operation *op, Opcode opcode, ArrayRef<Attribute> operands) {
  // Equal types with an unknown size may still be a broadcast.
  if (Value operand = neutralOperand(op, opcode, operands))
    if (operand.getType() == op->getResult(0).getType() && shapeOf(operand).isKnown())
      return operand;
  if (Attribute known = foldKnown(op, opcode, operands))
    return known;
  return {};
}

//===----------------------------------------------------------------------===//
// Conversions
//===----------------------------------------------------------------------===//

namespace {

/// A size that went through floats: numerator / denominator, denominator positive.
struct Ratio {
  DimExpr numerator;
  int64_t denominator = 1;
};
using Ratios = SmallVector<Ratio>;

constexpr int64_t maxDenominator = int64_t(1) << 20;

/// Follows sizes back through conversions to float or i32 and the arithmetic that exports put between them.
class SizeTracer {
public:
  explicit SizeTracer(Operation *op) : around(op) {}

  /// The elements of `value`, or nothing.
  std::optional<Ratios> trace(Value value, unsigned depth = 0) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    if (!type || type.getRank() > 1 || !type.hasStaticShape() || depth > 16)
      return std::nullopt;
    if (std::optional<SmallVector<DimExpr>> sizes = getDimValues(value)) {
      Ratios ratios;
      for (const DimExpr &size : *sizes)
        ratios.push_back({size});
      return ratios;
    }
    Operation *op = value.getDefiningOp();
    if (!op)
      return std::nullopt;
    if (auto constant = dyn_cast<ConstantOp>(op))
      return number(constant);
    if (isa<ReshapeOp>(op))
      return trace(op->getOperand(0), depth + 1);
    if (isa<ConvertOp>(op)) {
      std::optional<Ratios> ratios = trace(op->getOperand(0), depth + 1);
      if (ratios && isa<IntegerType>(type.getElementType()) && !truncate(*ratios))
        return std::nullopt;
      // Narrow integers could wrap, and i1 is a comparison.
      bool wide = type.getElementType().isSignlessInteger(32) || type.getElementType().isSignlessInteger(64) ||
                  type.getElementType().isF32() || type.getElementType().isF64();
      return wide ? ratios : std::nullopt;
    }
    if (isa<FloorOp, CeilOp>(op)) {
      std::optional<Ratios> ratios = trace(op->getOperand(0), depth + 1);
      if (!ratios)
        return std::nullopt;
      for (Ratio &ratio : *ratios)
        ratio = {isa<FloorOp>(op) ? DimExpr::floorDiv(ratio.numerator, ratio.denominator)
                                  : DimExpr::ceilDiv(ratio.numerator, ratio.denominator)};
      return ratios;
    }
    if (!isa<AddOp, SubOp, MulOp, DivOp>(op))
      return std::nullopt;
    std::optional<Ratios> lhs = trace(op->getOperand(0), depth + 1), rhs = trace(op->getOperand(1), depth + 1);
    if (!lhs || !rhs)
      return std::nullopt;
    Ratios results;
    for (int64_t i = 0; i < type.getNumElements(); ++i) {
      std::optional<Ratio> result = combine(op, (*lhs)[lhs->size() == 1 ? 0 : i], (*rhs)[rhs->size() == 1 ? 0 : i]);
      if (!result)
        return std::nullopt;
      results.push_back(*result);
    }
    if (isa<IntegerType>(type.getElementType()) && !truncate(results))
      return std::nullopt;
    return results;
  }

  /// Rounds toward zero in place; false where the sign is not known.
  bool truncate(Ratios &ratios) {
    for (Ratio &ratio : ratios) {
      if (ratio.denominator == 1)
        continue;
      if (!facts)
        facts = factsAround(around);
      if (!isNonNegative(*facts, ratio.numerator))
        return false;
      ratio = {DimExpr::floorDiv(ratio.numerator, ratio.denominator)};
    }
    return true;
  }

private:
  static std::optional<Ratios> number(ConstantOp constant) {
    auto dense = dyn_cast<DenseElementsAttr>(constant.getValue());
    if (!dense || dense.getNumElements() > 128)
      return std::nullopt;
    Ratios ratios;
    if (auto integers = dyn_cast<DenseIntElementsAttr>(dense)) {
      if (!integers.getElementType().isSignlessInteger(32))
        return std::nullopt;
      for (const APInt &value : integers.getValues<APInt>())
        ratios.push_back({value.getSExtValue()});
      return ratios;
    }
    if (!dense.getElementType().isF32() && !dense.getElementType().isF64())
      return std::nullopt;
    for (const APFloat &value : dense.getValues<APFloat>()) {
      double scaled = value.convertToDouble();
      int64_t denominator = 1;
      if (!value.isFinite() || std::abs(scaled) > 1e9)
        return std::nullopt;
      while (scaled != std::floor(scaled)) {
        scaled *= 2;
        denominator *= 2;
        if (denominator > maxDenominator)
          return std::nullopt;
      }
      ratios.push_back({static_cast<int64_t>(scaled), denominator});
    }
    return ratios;
  }

  static std::optional<Ratio> combine(Operation *op, const Ratio &a, const Ratio &b) {
    auto bounded = [](DimExpr numerator, int64_t denominator) -> std::optional<Ratio> {
      // Both factors are at most 2^20 and positive.
      if (std::optional<DimExpr> exact = numerator.exactQuotient(denominator))
        return Ratio{*exact};
      if (denominator > maxDenominator)
        return std::nullopt;
      return Ratio{numerator, denominator};
    };
    if (isa<MulOp>(op))
      return bounded(a.numerator * b.numerator, a.denominator * b.denominator);
    if (isa<DivOp>(op)) {
      std::optional<int64_t> divisor = b.numerator.constant();
      if (!divisor || *divisor == 0 || std::abs(*divisor) > maxDenominator)
        return std::nullopt;
      DimExpr numerator = a.numerator * DimExpr(*divisor < 0 ? -b.denominator : b.denominator);
      return bounded(numerator, a.denominator * std::abs(*divisor));
    }
    DimExpr left = a.numerator * DimExpr(b.denominator), right = b.numerator * DimExpr(a.denominator);
    return bounded(isa<AddOp>(op) ? left + right : left - right, a.denominator * b.denominator);
  }

  Operation *around;
  std::optional<DimFacts> facts; ///< collected when first asked
};

} // namespace

/// An integer as another integer type holds it: what does not fit wraps, and i1 is "not zero".
static APInt convertInteger(const APInt &value, Type from, Type to) {
  if (to.isInteger(1))
    return APInt(1, !value.isZero());
  bool zeroExtends = from.isUnsignedInteger() || from.isInteger(1);
  unsigned width = to.getIntOrFloatBitWidth();
  return zeroExtends ? value.zextOrTrunc(width) : value.sextOrTrunc(width);
}

/// Whether every integer of `from` is one of `to` too.
static bool keepsIntegers(Type from, Type to) {
  if (!isa<IntegerType>(from) || !isa<IntegerType>(to) || to.isInteger(1))
    return false;
  bool fromSigned = !from.isUnsignedInteger() && !from.isInteger(1), toSigned = !to.isUnsignedInteger();
  unsigned fromWidth = from.getIntOrFloatBitWidth(), toWidth = to.getIntOrFloatBitWidth();
  return fromSigned ? toSigned && toWidth >= fromWidth : toWidth >= fromWidth + toSigned;
}

OpFoldResult ConvertOp::fold(FoldAdaptor adaptor) {
  RankedTensorType type = getType();
  if (getInput().getType() == type)
    return getInput();
  // Two steps of which the first loses nothing are one: what exporters write around a zero point. Not where sizes are
  // still unknown in between: what lies on either side of that need not agree.
  if (auto inner = getInput().getDefiningOp<ConvertOp>();
      inner && inner.getType() == inner.getInput().getType().clone(inner.getType().getElementType()) &&
      keepsIntegers(inner.getInput().getType().getElementType(), inner.getType().getElementType())) {
    getInputMutable().assign(inner.getInput());
    return getResult();
  }
  Type element = type.getElementType();
  if (!isPlain(type) || !isa<IntegerType>(element))
    return {};
  // A splat stays one, whatever its size.
  if (auto dense = dyn_cast_or_null<DenseIntElementsAttr>(adaptor.getInput()); dense && dense.isSplat())
    return DenseElementsAttr::get(RankedTensorType::get(type.getShape(), element),
                                  convertInteger(dense.getSplatValue<APInt>(), dense.getElementType(), element));
  if (!isSmall(type))
    return {};
  if (std::optional<Cells> cells = getCells(getInput(), adaptor.getInput());
      cells && !cells->isSymbolic() && isa<IntegerType>(cells->elementType)) {
    SmallVector<Cell> results;
    for (size_t i = 0; i < cells->elements.size(); ++i)
      results.push_back(makeCell(element, convertInteger(cells->integer(i), cells->elementType, element)));
    return fromCells(type, results);
  }
  if (!element.isSignlessInteger(64))
    return {};
  SizeTracer tracer(*this);
  std::optional<Ratios> sizes = tracer.trace(getInput());
  if (!sizes || !tracer.truncate(*sizes))
    return {};
  SmallVector<Cell> results;
  for (const Ratio &size : *sizes)
    results.push_back(size.numerator);
  return fromCells(type, results);
}
