//===- Padding.cpp - may a run be padded along a dim ----------------------===//
//
// One walk in the order of the graph. For each value: along which axis it follows
// the dim, if it does, and what its elements beyond the smaller size are, where
// that is known. An op for which no rule says so is an obstacle.
//
//===----------------------------------------------------------------------===//
#include "rlx/Transforms/Padding.h"

#include "Shapes.h"
#include "rlx/Dialect/RLX/IR/ElementData.h"
#include "rlx/Dialect/RLX/IR/TensorShape.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/TypeSwitch.h"

#include <cmath>
#include <limits>
#include <variant>

using mlir::Operation;
using mlir::Value;

namespace rlx::transforms {
namespace {

/// One element: an integer or boolean, or an f32 or f64.
using Scalar = std::variant<int64_t, double>;

/// How a value follows the dim.
struct Followed {
  /// Its elements do not depend on the dim where nothing.
  std::optional<size_t> axis;
  /// The axis has dim * rest elements, the dim's index first.
  DimExpr rest = 1;
  /// Every element beyond the smaller size; of a value without an axis, every element.
  std::optional<Scalar> padding;
};

/// Nothing on success, else why not.
using Verdict = std::optional<std::string>;

bool mentions(const DimExpr &expr, llvm::StringRef dim) {
  std::set<std::string> names;
  expr.collectNames(names);
  return names.contains(dim.str());
}

bool isZero(const std::optional<Scalar> &value) {
  if (!value)
    return false;
  if (const auto *integer = std::get_if<int64_t>(&*value))
    return *integer == 0;
  return std::get<double>(*value) == 0 && !std::signbit(std::get<double>(*value));
}

double asDouble(const Scalar &value) {
  const auto *integer = std::get_if<int64_t>(&value);
  return integer ? static_cast<double>(*integer) : std::get<double>(value);
}

/// Whether a product of the two changes no sum it is added to. A sum of floats may be -0: a small negative product
/// that was rounded. To that only -0 adds nothing.
bool addsNothing(const std::optional<Scalar> &a, const std::optional<Scalar> &b, bool integers) {
  if (integers)
    return isZero(a) || isZero(b);
  if (!a || !b)
    return false;
  double x = asDouble(*a), y = asDouble(*b), product = x * y;
  return (x == 0 || y == 0) && product == 0 && std::signbit(product); // not NaN, as 0 times infinity is
}

/// The element that a constant repeats.
std::optional<Scalar> splatOf(ir::ConstantOp constant) {
  auto elements = llvm::dyn_cast<mlir::DenseElementsAttr>(constant.getValue());
  if (!elements || !elements.isSplat())
    return std::nullopt;
  mlir::Type type = elements.getElementType();
  if (type.isF32())
    return Scalar(static_cast<double>(elements.getSplatValue<float>()));
  if (type.isF64())
    return Scalar(elements.getSplatValue<double>());
  if (auto integer = llvm::dyn_cast<mlir::IntegerType>(type); integer && integer.getWidth() <= 64) {
    llvm::APInt value = elements.getSplatValue<llvm::APInt>();
    if (integer.isUnsigned() || integer.getWidth() == 1)
      return value.isNonNegative() || value.getBitWidth() < 64
                 ? std::optional<Scalar>(static_cast<int64_t>(value.getZExtValue()))
                 : std::nullopt;
    return Scalar(value.getSExtValue());
  }
  return std::nullopt;
}

/// A comparison; nothing where `opcode` is none.
template <typename T> std::optional<Scalar> compare(data::Opcode opcode, T a, T b) {
  using data::Opcode;
  switch (opcode) {
  case Opcode::Equal:
    return int64_t(a == b);
  case Opcode::NotEqual:
    return int64_t(a != b);
  case Opcode::Less:
    return int64_t(a < b);
  case Opcode::LessEqual:
    return int64_t(a <= b);
  case Opcode::Greater:
    return int64_t(a > b);
  case Opcode::GreaterEqual:
    return int64_t(a >= b);
  default:
    return std::nullopt;
  }
}

/// `opcode` on known elements of `type`, where that needs no more than exact or correctly rounded arithmetic.
std::optional<Scalar> evaluate(data::Opcode opcode, mlir::Type type, llvm::ArrayRef<std::optional<Scalar>> operands) {
  using data::Opcode;
  // A condition that is known needs only the side it selects.
  if (opcode == Opcode::Select)
    return operands[0] ? operands[std::get<int64_t>(*operands[0]) ? 1 : 2] : std::nullopt;
  for (const std::optional<Scalar> &operand : operands)
    if (!operand)
      return std::nullopt;
  if (llvm::all_of(operands, [](const auto &operand) { return std::holds_alternative<double>(*operand); })) {
    double a = std::get<double>(*operands[0]), b = operands.size() > 1 ? std::get<double>(*operands[1]) : 0;
    // A double holds the exact sum or product of two floats well enough to be rounded once more to the float result.
    auto round = [&](double value) {
      return Scalar(type.isF32() ? static_cast<double>(static_cast<float>(value)) : value);
    };
    switch (opcode) {
    case Opcode::Add:
      return round(a + b);
    case Opcode::Sub:
      return round(a - b);
    case Opcode::Mul:
      return round(a * b);
    case Opcode::Neg:
      return Scalar(-a);
    case Opcode::Abs:
      return Scalar(std::fabs(a));
    case Opcode::IsNaN:
      return Scalar(int64_t(std::isnan(a)));
    case Opcode::IsInf:
      return Scalar(int64_t(std::isinf(a)));
    default:
      return compare(opcode, a, b);
    }
  }
  if (!llvm::all_of(operands, [](const auto &operand) { return std::holds_alternative<int64_t>(*operand); }))
    return std::nullopt;
  // Small numbers only: nothing wraps in any integer type.
  auto small = [](int64_t value) { return value >= 0 && value <= 100; };
  int64_t a = std::get<int64_t>(*operands[0]), b = operands.size() > 1 ? std::get<int64_t>(*operands[1]) : 0;
  bool boolean = type.isInteger(1);
  switch (opcode) {
  case Opcode::And:
    return Scalar(a & b);
  case Opcode::Or:
    return Scalar(a | b);
  case Opcode::Xor:
    return Scalar(a ^ b);
  case Opcode::Not:
    return boolean ? std::optional<Scalar>(int64_t(!a)) : std::nullopt;
  case Opcode::Add:
    return small(a) && small(b) && a + b <= 100 ? std::optional<Scalar>(a + b) : std::nullopt;
  case Opcode::Sub:
    return small(a) && small(b) && a >= b ? std::optional<Scalar>(a - b) : std::nullopt;
  case Opcode::Mul:
    return small(a) && small(b) && a * b <= 100 ? std::optional<Scalar>(a * b) : std::nullopt;
  default:
    return compare(opcode, a, b);
  }
}

class Follower {
public:
  Follower(ir::GraphOp graph, llvm::StringRef dim) : graph(graph), dim(dim), symbol(DimExpr::symbol(dim.str())) {}

  Verdict run() {
    for (ir::ConstraintAttr constraint : graph.getConstraintList()) {
      // A bound is a check, made at the sizes given and at those of the bucket. What is equal or stretched is more:
      // it says what a size means, which may change with it.
      const DimPredicate &predicate = constraint.getPredicate();
      bool bound = predicate.kind == DimPredicate::Kind::Less || predicate.kind == DimPredicate::Kind::LessEqual;
      if (!bound && (mentions(predicate.lhs, dim) || mentions(predicate.rhs, dim)))
        return "the constraint '" + predicate.str() + "' speaks of it";
    }
    for (auto [i, argument] : llvm::enumerate(graph.getBody().getArguments())) {
      Followed input;
      if (Verdict why = follow(argument, input))
        return "input '" + graph.getInputName(i) + "': " + *why;
      mlir::Type type = typeOf(argument).getElementType();
      if (input.axis && (type.isF32() || type.isF64()))
        input.padding = Scalar(0.0);
      else if (input.axis && llvm::isa<mlir::IntegerType>(type))
        input.padding = Scalar(int64_t(0));
      values[argument] = input;
    }
    for (Operation &op : graph.getBody().front()) {
      if (Verdict why = visit(&op))
        return nodeName(&op) + ": " + *why;
    }
    return std::nullopt;
  }

private:
  /// Finds the axis of `value` from its type. An obstacle where the dim occurs otherwise.
  Verdict follow(Value value, Followed &found) const {
    std::optional<Dims> dims = dimsOf(typeOf(value));
    if (!dims)
      return "a size is not known";
    for (size_t axis = 0; axis < dims->size(); ++axis) {
      if (!mentions((*dims)[axis], dim))
        continue;
      std::optional<DimExpr> rest = (*dims)[axis].exactQuotient(symbol);
      if (found.axis || !rest || mentions(*rest, dim))
        return "its shape " + ir::toString(*dims) + " follows '" + dim.str() + "' in a way that cannot be cut back";
      found.axis = axis;
      found.rest = *rest;
    }
    return std::nullopt;
  }

  const Followed &of(Value value) const { return values.find(value)->second; }
  size_t rankOf(Value value) const { return static_cast<size_t>(typeOf(value).getRank()); }
  DimExpr before(Value value, size_t axis) const {
    DimExpr product = 1;
    auto dims = dimsOf(typeOf(value)); // named: a range in a for statement does not keep what it views
    for (const DimExpr &size : llvm::ArrayRef<DimExpr>(*dims).take_front(axis))
      product = product * size;
    return product;
  }
  bool anyAxis(Operation *op) const {
    return llvm::any_of(op->getOperands(), [&](Value operand) { return of(operand).axis.has_value(); });
  }

  Verdict visit(Operation *op) {
    if (auto shaped = llvm::dyn_cast<ir::ShapeFunctionOpInterface>(op)) {
      llvm::SmallVector<ir::Requirement> requirements;
      shaped.collectRequirements(requirements);
      for (const ir::Requirement &requirement : requirements)
        if (mentions(requirement.predicate.lhs, dim) || mentions(requirement.predicate.rhs, dim))
          return "requires " + requirement.predicate.str();
    }
    if (llvm::isa<ir::OutputOp>(op))
      return std::nullopt; // follow() has seen to it that every value can be cut back
    if (op->getNumResults() != 1 || op->getNumRegions())
      return "is not known to keep its elements apart";
    Value result = op->getResult(0);
    Followed found;
    if (Verdict why = follow(result, found))
      return why;
    if (Verdict why = visit(op, found))
      return why;
    values[result] = found;
    return std::nullopt;
  }

  /// Whether `found`, as the type of the result has it, is what `op` makes of its operands.
  Verdict visit(Operation *op, Followed &found) {
    if (auto elementwise = llvm::dyn_cast<ir::ElementwiseOpInterface>(op))
      return visitElementwise(op, elementwise.getOpcode(), found);
    return llvm::TypeSwitch<Operation *, Verdict>(op)
        .Case<ir::ConstantOp>([&](auto constant) {
          found.padding = splatOf(constant);
          return Verdict();
        })
        .Case<ir::WeightOp>([](auto) { return Verdict(); })
        .Case<ir::ParamOp>([&](auto) { return found.axis ? Verdict("the param's size follows it") : Verdict(); })
        .Case<ir::DimValuesOp>([&](auto values) {
          for (const DimExpr &value : values.getValues().getDims())
            if (mentions(value, dim))
              return Verdict("its value depends on the size");
          return Verdict();
        })
        .Case<ir::IotaOp>([&](auto iota) {
          for (const DimExpr &value : iota.getStartStep().getDims())
            if (mentions(value, dim))
              return Verdict("its value depends on the size");
          return Verdict();
        })
        .Case<ir::RandomUniformOp, ir::RandomNormalOp>([&](auto) {
          // The stream is numbered in row-major order.
          return found.axis && before(op->getResult(0), *found.axis) != DimExpr(1)
                     ? Verdict("which number an element gets depends on the size")
                     : Verdict();
        })
        .Case<ir::AssumeDimsOp>([&](auto assume) { return keepAxis(assume.getInput(), found); })
        .Case<ir::TransposeOp>([&](auto transpose) {
          const Followed &input = of(transpose.getInput());
          if (input.axis && transpose.getPermutation()[*found.axis] != static_cast<int64_t>(*input.axis))
            return Verdict("moves it");
          found.padding = input.padding;
          return Verdict();
        })
        .Case<ir::ReshapeOp>([&](auto reshape) { return visitReshape(reshape, found); })
        .Case<ir::BroadcastToOp>([&](auto broadcast) { return visitAligned(op, found); })
        .Case<ir::SliceOp>([&](auto slice) { return visitSlice(slice, found); })
        .Case<ir::PadOp>([&](auto pad) { return visitPad(pad, found); })
        .Case<ir::ConcatOp>([&](auto concat) { return visitConcat(concat, found); })
        .Case<ir::ReduceOp>([&](auto reduce) { return visitReduce(reduce, found); })
        .Case<ir::CumSumOp>([&](auto sum) {
          const Followed &input = of(sum.getInput());
          bool along = input.axis && *input.axis == sum.getAxis();
          if (along && sum.getReverse() && !isZero(input.padding))
            return Verdict("sums from the end of it");
          return Verdict();
        })
        .Case<ir::SoftmaxOp>([&](auto softmax) { return visitSoftmax(softmax); })
        .Case<ir::LogSoftmaxOp>([&](auto softmax) { return visitSoftmax(softmax); })
        .Case<ir::LayerNormOp, ir::RmsNormOp>([&](auto norm) {
          const Followed &input = of(norm.getInput());
          if (input.axis && *input.axis >= norm.getAxis())
            return Verdict("normalises along it");
          for (Value operand : llvm::drop_begin(op->getOperands()))
            if (of(operand).axis)
              return Verdict("normalises along it");
          return Verdict();
        })
        .Case<ir::MatmulOp>([&](auto matmul) { return visitMatmul(matmul, found); })
        .Case<ir::AttentionOp>([&](auto attention) { return visitAttention(attention, found); })
        .Case<ir::GatherOp>([&](auto gather) { return visitGather(gather, found); })
        .Default([&](Operation *other) {
          return anyAxis(other) || found.axis ? Verdict("is not known to keep its elements apart") : Verdict();
        });
  }

  /// The result has the operand's axis, elements and padding.
  Verdict keepAxis(Value operand, Followed &found) {
    const Followed &input = of(operand);
    if (input.axis != found.axis || (input.axis && input.rest != found.rest))
      return "moves it";
    found.padding = input.padding;
    return std::nullopt;
  }

  /// Operands that are aligned at the last axis and repeated: the dim lies where the result has it.
  Verdict visitAligned(Operation *op, Followed &found) {
    size_t rank = rankOf(op->getResult(0));
    for (Value operand : op->getOperands()) {
      const Followed &input = of(operand);
      if (!input.axis)
        continue;
      if (!found.axis || *input.axis + rank - rankOf(operand) != *found.axis || input.rest != found.rest)
        return "is not known to keep its elements apart";
    }
    if (op->getNumOperands() == 1)
      found.padding = of(op->getOperand(0)).padding;
    return std::nullopt;
  }

  Verdict visitElementwise(Operation *op, data::Opcode opcode, Followed &found) {
    if (Verdict why = visitAligned(op, found))
      return why;
    llvm::SmallVector<std::optional<Scalar>> operands;
    for (Value operand : op->getOperands())
      operands.push_back(of(operand).padding);
    mlir::Type type = typeOf(op->getResult(0)).getElementType(), from = typeOf(op->getOperand(0)).getElementType();
    // An error that only the padding would make must not end a run.
    bool divides = opcode == data::Opcode::Div || opcode == data::Opcode::Mod || opcode == data::Opcode::Rem;
    if (divides && found.axis && llvm::isa<mlir::IntegerType>(type)) {
      const Followed &divisor = of(op->getOperand(1));
      if (divisor.axis && (!divisor.padding || isZero(divisor.padding)))
        return "would divide by a padded zero";
    }
    if (opcode == data::Opcode::Convert) {
      found.padding = std::nullopt;
      if (const std::optional<Scalar> &value = operands[0]) {
        if (const auto *integer = std::get_if<int64_t>(&*value)) {
          bool exact = *integer >= 0 && *integer <= 100;
          if (exact && (type.isF32() || type.isF64()))
            found.padding = Scalar(static_cast<double>(*integer));
          else if (type.isInteger(1))
            found.padding = Scalar(int64_t(*integer != 0));
          else if (exact && llvm::isa<mlir::IntegerType>(type))
            found.padding = value;
        } else if (double number = std::get<double>(*value); type.isInteger(1)) {
          found.padding = Scalar(int64_t(number != 0));
        } else if (type.isF64() || (type.isF32() && from.isF32())) {
          found.padding = value;
        } else if (llvm::isa<mlir::IntegerType>(type) && number >= 0 && number <= 100) {
          found.padding = Scalar(static_cast<int64_t>(number));
        }
      }
      return std::nullopt;
    }
    found.padding = evaluate(opcode, type, operands);
    return std::nullopt;
  }

  Verdict visitReshape(ir::ReshapeOp reshape, Followed &found) {
    const Followed &input = of(reshape.getInput());
    if (input.axis.has_value() != found.axis.has_value())
      return "moves it";
    // In row-major order the dim's index comes after the same elements as before; what follows it may be cut anew.
    if (found.axis && before(reshape.getInput(), *input.axis) != before(reshape.getResult(), *found.axis))
      return "merges it behind another axis";
    found.padding = input.padding;
    return std::nullopt;
  }

  Verdict visitSlice(ir::SliceOp slice, Followed &found) {
    const Followed &input = of(slice.getInput());
    for (const DimExpr &start : slice.getStarts().getDims())
      if (mentions(start, dim))
        return "where it starts depends on the size";
    if (input.axis) {
      size_t axis = *input.axis;
      if (found.axis != input.axis || input.rest != found.rest || slice.getSteps()[axis] != 1 ||
          slice.getStarts().getDims()[axis] != DimExpr(0))
        return "takes a part of it";
    }
    found.padding = input.padding;
    return std::nullopt;
  }

  Verdict visitPad(ir::PadOp pad, Followed &found) {
    const Followed &input = of(pad.getInput());
    for (auto [low, high] : llvm::zip(pad.getLow().getDims(), pad.getHigh().getDims()))
      if (mentions(low, dim) || mentions(high, dim))
        return "how much it adds depends on the size";
    if (of(pad.getValue()).axis || input.axis != found.axis || (input.axis && input.rest != found.rest))
      return "adds to it";
    if (input.axis &&
        (pad.getLow().getDims()[*input.axis] != DimExpr(0) || pad.getHigh().getDims()[*input.axis] != DimExpr(0)))
      return "adds to it";
    return std::nullopt;
  }

  Verdict visitConcat(ir::ConcatOp concat, Followed &found) {
    for (Value operand : concat.getInputs()) {
      const Followed &input = of(operand);
      bool along = found.axis && *found.axis == concat.getAxis();
      if (input.axis != found.axis || (input.axis && (input.rest != found.rest || along)))
        return "joins along it";
    }
    return std::nullopt;
  }

  Verdict visitReduce(ir::ReduceOp reduce, Followed &found) {
    const Followed &input = of(reduce.getInput());
    if (!input.axis)
      return std::nullopt;
    if (!llvm::is_contained(reduce.getAxes(), static_cast<int64_t>(*input.axis))) {
      if (!found.axis)
        return "moves it";
      return std::nullopt;
    }
    auto neutral = [&] {
      const std::optional<Scalar> &padding = input.padding;
      const double infinity = std::numeric_limits<double>::infinity();
      const auto *number = padding ? std::get_if<double>(&*padding) : nullptr;
      switch (reduce.getKind()) {
      case ir::ReduceKind::Sum:
        return isZero(padding);
      case ir::ReduceKind::Prod:
        return padding && (number ? *number == 1 : std::get<int64_t>(*padding) == 1);
      case ir::ReduceKind::Max:
        return number && *number == -infinity;
      case ir::ReduceKind::Min:
        return number && *number == infinity;
      case ir::ReduceKind::Mean:
        return false; // it counts
      }
      return false;
    };
    if (!neutral())
      return "reduces along it";
    // Sums and products of floats depend on their order, and elements are numbered through all reduced axes.
    bool ordered = (reduce.getKind() == ir::ReduceKind::Sum || reduce.getKind() == ir::ReduceKind::Prod) &&
                   !llvm::isa<mlir::IntegerType>(typeOf(reduce.getResult()).getElementType());
    auto dims = dimsOf(typeOf(reduce.getInput()));
    for (int64_t axis : reduce.getAxes())
      if (ordered && axis < static_cast<int64_t>(*input.axis) && (*dims)[static_cast<size_t>(axis)] != DimExpr(1))
        return "reduces along it behind another axis";
    return std::nullopt;
  }

  /// Nothing is known of the result's padding: a row of nothing but -inf is NaN there too.
  template <typename Op> Verdict visitSoftmax(Op softmax) {
    const Followed &input = of(softmax.getInput());
    if (!input.axis || *input.axis != softmax.getAxis())
      return std::nullopt;
    const auto *number = input.padding ? std::get_if<double>(&*input.padding) : nullptr;
    if (!number || *number != -std::numeric_limits<double>::infinity())
      return "sums along it, and nothing masks the padding with -inf";
    return std::nullopt;
  }

  Verdict visitMatmul(ir::MatmulOp matmul, Followed &found) {
    const Followed &lhs = of(matmul.getLhs()), &rhs = of(matmul.getRhs());
    size_t rank = rankOf(matmul.getResult());
    auto isInner = [&](const Followed &side, Value value, size_t fromEnd) {
      return side.axis && *side.axis + fromEnd == rankOf(value);
    };
    bool left = isInner(lhs, matmul.getLhs(), 1), right = isInner(rhs, matmul.getRhs(), 2);
    if (left || right) {
      bool integers = llvm::isa<mlir::IntegerType>(typeOf(matmul.getResult()).getElementType());
      if (!left || !right || found.axis || !addsNothing(lhs.padding, rhs.padding, integers))
        return "sums along it";
      return std::nullopt;
    }
    for (auto [side, value] : {std::pair(&lhs, Value(matmul.getLhs())), std::pair(&rhs, Value(matmul.getRhs()))}) {
      if (!side->axis)
        continue;
      // Rows of the left and columns of the right side, and batch axes, lie where they lay, from the end.
      if (!found.axis || *side->axis + rank - rankOf(value) != *found.axis || side->rest != found.rest)
        return "is not known to keep its elements apart";
    }
    return std::nullopt;
  }

  Verdict visitAttention(ir::AttentionOp attention, Followed &found) {
    Value query = attention.getQuery();
    size_t rank = rankOf(query);
    for (Value operand : attention->getOperands()) {
      const Followed &input = of(operand);
      if (!input.axis)
        continue;
      size_t fromEnd = rankOf(operand) - *input.axis;
      // Batches, and the queries (of q and the mask); heads and keys are read across.
      bool batch = fromEnd > 3, queries = fromEnd == 2 && (operand == query || operand == attention.getMask());
      if (!(batch || queries) || !found.axis || fromEnd != rank - *found.axis || input.rest != found.rest)
        return fromEnd == 3 ? "shares keys between heads" : "sums along it";
    }
    // One value in two places: what it is as a query says nothing of it as a key.
    if (found.axis && rank - *found.axis == 2 && (query == attention.getKey() || query == attention.getValue()))
      return "sums along it";
    return std::nullopt;
  }

  Verdict visitGather(ir::GatherOp gather, Followed &found) {
    const Followed &table = of(gather.getData()), &indices = of(gather.getIndices());
    auto axis = static_cast<size_t>(gather.getAxis());
    size_t indexRank = rankOf(gather.getIndices());
    std::optional<size_t> expected;
    if (table.axis) {
      if (*table.axis == axis)
        return "looks up along it";
      expected = *table.axis < axis ? *table.axis : *table.axis + indexRank - 1;
      if (!found.axis || *found.axis != *expected || table.rest != found.rest)
        return "looks up along it";
    }
    if (indices.axis) {
      if (!found.axis || *found.axis != axis + *indices.axis || indices.rest != found.rest)
        return "is not known to keep its elements apart";
      // An index that only the padding has must lie in the table.
      std::optional<int64_t> extent = (*dimsOf(typeOf(gather.getData())))[axis].constant();
      const auto *index = indices.padding ? std::get_if<int64_t>(&*indices.padding) : nullptr;
      if (!index || !extent || *index < 0 || *index >= *extent)
        return "would look up an index that only the padding has";
    }
    return std::nullopt;
  }

  ir::GraphOp graph;
  llvm::StringRef dim;
  DimExpr symbol;
  llvm::DenseMap<Value, Followed> values;
};

} // namespace

std::optional<std::string> paddingObstacle(ir::GraphOp graph, llvm::StringRef dim) {
  return Follower(graph, dim).run();
}

} // namespace rlx::transforms
