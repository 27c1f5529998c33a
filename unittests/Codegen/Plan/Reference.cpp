//===- Reference.cpp - a graph computed one op at a time ------------------===//
#include "Reference.h"

#include "rlx/Dialect/RLX/IR/ElementData.h"
#include "rlx/Dialect/RLX/IR/TensorShape.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/TypeSwitch.h"
#include "gtest/gtest.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

using namespace mlir;

namespace rlx::test {

namespace {

using Index = std::vector<int64_t>;

int64_t countOf(const Index &shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t(1), std::multiplies<>());
}

int64_t flat(const Index &shape, const Index &at) {
  int64_t position = 0;
  for (size_t i = 0; i < shape.size(); ++i)
    position = position * shape[i] + at[i];
  return position;
}

/// Every index of a shape, in row-major order.
void forEach(const Index &shape, const std::function<void(const Index &)> &body) {
  int64_t count = countOf(shape);
  Index at(shape.size(), 0);
  for (int64_t i = 0; i < count; ++i) {
    body(at);
    for (size_t d = shape.size(); d-- > 0;) {
      if (++at[d] < shape[d])
        break;
      at[d] = 0;
    }
  }
}

/// The element of `values` that numpy's broadcasting shows at `at`.
double broadcastAt(const Values &values, const Index &at) {
  Index own(values.shape.size());
  for (size_t i = 0; i < own.size(); ++i)
    own[i] = values.shape[i] == 1 ? 0 : at[at.size() - own.size() + i];
  return values.data[flat(values.shape, own)];
}

double maxOf(double a, double b) { return std::isnan(a) || std::isnan(b) ? NAN : a > b ? a : b; }
double minOf(double a, double b) { return std::isnan(a) || std::isnan(b) ? NAN : a < b ? a : b; }

class Evaluator {
public:
  Evaluator(const Binding &binding, const WeightTable &weights) : binding(binding), weights(weights) {}

  llvm::DenseMap<Value, Values> known;
  bool outOfRange = false;

  void evaluate(Operation *op);

private:
  int64_t size(const DimExpr &dim) {
    Result<int64_t> value = dim.evaluate(binding);
    EXPECT_TRUE(value) << dim.str();
    return value ? *value : 0;
  }
  Index sizes(ArrayRef<DimExpr> dims) {
    Index result;
    for (const DimExpr &dim : dims)
      result.push_back(size(dim));
    return result;
  }
  Index shapeOf(Value value) { return sizes(ir::getShape(cast<RankedTensorType>(value.getType())).dims); }
  const Values &in(Operation *op, unsigned i) { return known[op->getOperand(i)]; }
  /// Every element of the result by its index.
  void set(Operation *op, const std::function<double(const Index &)> &element) {
    Values values{shapeOf(op->getResult(0)), {}};
    values.data.reserve(countOf(values.shape));
    forEach(values.shape, [&](const Index &at) { values.data.push_back(element(at)); });
    known[op->getResult(0)] = std::move(values);
  }
  void unary(Operation *op, double (*function)(double)) {
    const Values x = in(op, 0);
    set(op, [&](const Index &at) { return function(broadcastAt(x, at)); });
  }
  void binary(Operation *op, const std::function<double(double, double)> &function) {
    const Values a = in(op, 0), b = in(op, 1);
    set(op, [&](const Index &at) { return function(broadcastAt(a, at), broadcastAt(b, at)); });
  }
  int64_t lookup(double index, int64_t extent) {
    int64_t i = static_cast<int64_t>(index);
    if (i < -extent || i >= extent) {
      outOfRange = true;
      return -1;
    }
    return i < 0 ? i + extent : i;
  }
  /// Applies `function` to each row along the axes from `first` to `last`.
  void alongRows(Operation *op, size_t first, size_t last,
                 const std::function<void(std::vector<double> &row)> &function);

  const Binding &binding;
  const WeightTable &weights;
};

void Evaluator::alongRows(Operation *op, size_t first, size_t last,
                          const std::function<void(std::vector<double> &)> &function) {
  Values x = in(op, 0);
  Index outer = x.shape, inner;
  for (size_t d = first; d <= last; ++d) {
    inner.push_back(x.shape[d]);
    outer[d] = 1;
  }
  if (countOf(x.shape) != 0)
    forEach(outer, [&](const Index &base) {
      std::vector<int64_t> positions;
      forEach(inner, [&](const Index &at) {
        Index index = base;
        std::copy(at.begin(), at.end(), index.begin() + first);
        positions.push_back(flat(x.shape, index));
      });
      std::vector<double> row;
      for (int64_t position : positions)
        row.push_back(x.data[position]);
      function(row);
      for (size_t i = 0; i < row.size(); ++i)
        x.data[positions[i]] = row[i];
    });
  known[op->getResult(0)] = std::move(x);
}

void Evaluator::evaluate(Operation *op) {
  auto normalise = [&](auto norm, bool centred, const Values *scale, const Values *bias) {
    double epsilon = norm.getEpsilon().convertToDouble();
    size_t last = known[norm.getInput()].shape.size() - 1;
    alongRows(op, norm.getAxis(), last, [&](std::vector<double> &row) {
      double mean = centred ? std::accumulate(row.begin(), row.end(), 0.0) / row.size() : 0, square = 0;
      for (double &x : row) {
        x -= mean;
        square += x * x;
      }
      for (size_t i = 0; i < row.size(); ++i) {
        row[i] /= std::sqrt(square / row.size() + epsilon);
        if (scale)
          row[i] *= scale->data[i];
        if (bias)
          row[i] += bias->data[i];
      }
    });
  };
  auto soft = [&](uint64_t axis, bool logarithm) {
    alongRows(op, axis, axis, [&](std::vector<double> &row) {
      double top = -INFINITY, sum = 0;
      for (double x : row)
        top = maxOf(top, x);
      for (double x : row)
        sum += std::exp(x - top);
      for (double &x : row)
        x = logarithm ? x - top - std::log(sum) : std::exp(x - top) / sum;
    });
  };

  llvm::TypeSwitch<Operation *>(op)
      .Case([&](ir::WeightOp weight) {
        const WeightRow *row = weights.find(weight.getRow().str());
        ASSERT_NE(row, nullptr);
        auto bytes = reinterpret_cast<const uint8_t *>(row->bytes.data());
        DenseElementsAttr values = ir::elementsFromBytes(cast<RankedTensorType>(weight.getType()),
                                                         ArrayRef<uint8_t>(bytes, row->bytes.size()));
        ASSERT_TRUE(values);
        std::vector<double> list;
        for (const APFloat &value : values.getValues<APFloat>()) {
          APFloat wide = value;
          bool inexact;
          wide.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &inexact);
          list.push_back(wide.convertToDouble());
        }
        set(op, [&](const Index &at) { return list[flat(row->shape, at)]; });
      })
      .Case([&](ir::ConstantOp constant) {
        auto dense = cast<DenseElementsAttr>(constant.getValue());
        ASSERT_TRUE(dense.isSplat());
        bool isFloat = isa<FloatType>(dense.getElementType());
        double value = isFloat ? cast<FloatAttr>(dense.getSplatValue<Attribute>()).getValueAsDouble()
                               : static_cast<double>(dense.getSplatValue<APInt>().getSExtValue());
        set(op, [&](const Index &) { return value; });
      })
      .Case([&](ir::TanhOp) { unary(op, [](double x) { return std::tanh(x); }); })
      .Case([&](ir::SigmoidOp) { unary(op, [](double x) { return 1 / (1 + std::exp(-x)); }); })
      .Case([&](ir::AbsOp) { unary(op, [](double x) { return std::abs(x); }); })
      .Case([&](ir::NegOp) { unary(op, [](double x) { return -x; }); })
      .Case([&](ir::SqrtOp) { unary(op, [](double x) { return std::sqrt(x); }); })
      .Case([&](ir::ExpOp) { unary(op, [](double x) { return std::exp(x); }); })
      .Case([&](ir::ErfOp) { unary(op, [](double x) { return std::erf(x); }); })
      .Case([&](ir::GeluOp) { unary(op, [](double x) { return x / 2 * (1 + std::erf(x / std::sqrt(2.0))); }); })
      .Case([&](ir::ConvertOp convert) {
        // Small values: only what lies between integers, or below 0 where there is nothing, is lost.
        Type type = cast<RankedTensorType>(convert.getType()).getElementType();
        const Values x = in(op, 0);
        set(op, [&](const Index &at) {
          double value = broadcastAt(x, at);
          if (isa<FloatType>(type))
            return value;
          double low = type.isUnsignedInteger() ? 0 : -128, high = type.isUnsignedInteger() ? 255 : 127;
          if (type.getIntOrFloatBitWidth() == 8)
            value = std::clamp(value, low, high);
          return std::isnan(value) ? 0 : std::trunc(value);
        });
      })
      .Case([&](ir::DivOp) { binary(op, [](double a, double b) { return std::trunc(a / b); }); }) // integers only
      .Case([&](ir::ModOp) { binary(op, [](double a, double b) { return a - b * std::floor(a / b); }); })
      .Case([&](ir::RemOp) { binary(op, [](double a, double b) { return std::fmod(a, b); }); })
      .Case([&](ir::AddOp) { binary(op, [](double a, double b) { return a + b; }); })
      .Case([&](ir::SubOp) { binary(op, [](double a, double b) { return a - b; }); })
      .Case([&](ir::MulOp) { binary(op, [](double a, double b) { return a * b; }); })
      .Case([&](ir::MaxOp) { binary(op, maxOf); })
      .Case([&](ir::MinOp) { binary(op, minOf); })
      .Case([&](ir::CompareOp compare) {
        binary(op, [&](double a, double b) -> double {
          switch (compare.getPredicate()) {
          case ir::ComparePredicate::Eq:
            return a == b;
          case ir::ComparePredicate::Ne:
            return a != b;
          case ir::ComparePredicate::Lt:
            return a < b;
          case ir::ComparePredicate::Le:
            return a <= b;
          case ir::ComparePredicate::Gt:
            return a > b;
          case ir::ComparePredicate::Ge:
            return a >= b;
          }
          return NAN;
        });
      })
      .Case([&](ir::SelectOp) {
        const Values c = in(op, 0), x = in(op, 1), y = in(op, 2);
        set(op, [&](const Index &at) { return broadcastAt(c, at) != 0 ? broadcastAt(x, at) : broadcastAt(y, at); });
      })
      .Case([&](ir::IsNaNOp) { unary(op, [](double x) { return std::isnan(x) ? 1.0 : 0.0; }); })
      .Case([&](ir::MatmulOp) {
        const Values a = in(op, 0), b = in(op, 1);
        int64_t inner = a.shape.back();
        set(op, [&](const Index &at) {
          Index left = at, right = at;
          double sum = 0;
          // Batch dims broadcast; row and column do not, even where there is only one.
          auto read = [](const Values &values, Index index) {
            index.erase(index.begin(), index.end() - values.shape.size());
            for (size_t d = 0; d + 2 < index.size(); ++d)
              if (values.shape[d] == 1)
                index[d] = 0;
            return values.data[flat(values.shape, index)];
          };
          for (int64_t k = 0; k < inner; ++k) {
            left[left.size() - 1] = k;
            right[right.size() - 2] = k;
            sum += read(a, left) * read(b, right);
          }
          return sum;
        });
      })
      .Case([&](ir::TransposeOp transpose) {
        const Values x = in(op, 0);
        set(op, [&](const Index &at) {
          Index from(at.size());
          for (size_t i = 0; i < at.size(); ++i)
            from[transpose.getPermutation()[i]] = at[i];
          return x.data[flat(x.shape, from)];
        });
      })
      .Case([&](ir::ReshapeOp) {
        Values x = in(op, 0);
        x.shape = shapeOf(op->getResult(0));
        ASSERT_EQ(static_cast<size_t>(countOf(x.shape)), x.data.size());
        known[op->getResult(0)] = std::move(x);
      })
      .Case([&](ir::BroadcastToOp) {
        const Values x = in(op, 0);
        set(op, [&](const Index &at) { return broadcastAt(x, at); });
      })
      .Case([&](ir::SliceOp slice) {
        const Values x = in(op, 0);
        Index starts = sizes(slice.getStarts().getDims());
        set(op, [&](const Index &at) {
          Index from(at.size());
          for (size_t i = 0; i < at.size(); ++i)
            from[i] = starts[i] + at[i] * slice.getSteps()[i];
          return x.data[flat(x.shape, from)];
        });
      })
      .Case([&](ir::ConcatOp concat) {
        uint64_t axis = concat.getAxis();
        std::vector<Values> parts;
        for (Value input : concat.getInputs())
          parts.push_back(known[input]);
        set(op, [&](const Index &at) {
          Index from = at;
          for (const Values &part : parts) {
            if (from[axis] < part.shape[axis])
              return part.data[flat(part.shape, from)];
            from[axis] -= part.shape[axis];
          }
          return static_cast<double>(NAN);
        });
      })
      .Case([&](ir::PadOp pad) {
        const Values x = in(op, 0), value = in(op, 1);
        Index low = sizes(pad.getLow().getDims());
        set(op, [&](const Index &at) {
          Index from(at.size());
          for (size_t i = 0; i < at.size(); ++i) {
            from[i] = at[i] - low[i];
            if (from[i] < 0 || from[i] >= x.shape[i])
              return value.data[0];
          }
          return x.data[flat(x.shape, from)];
        });
      })
      .Case([&](ir::ReduceOp reduce) {
        const Values x = in(op, 0);
        Index kept = x.shape, axes(reduce.getAxes().begin(), reduce.getAxes().end());
        double empty = reduce.getKind() == ir::ReduceKind::Max    ? -INFINITY
                       : reduce.getKind() == ir::ReduceKind::Min  ? INFINITY
                       : reduce.getKind() == ir::ReduceKind::Prod ? 1
                                                                  : 0;
        int64_t count = 1;
        for (int64_t axis : axes) {
          kept[axis] = 1;
          count *= x.shape[axis];
        }
        std::vector<double> totals(countOf(kept), empty);
        forEach(x.shape, [&](const Index &at) {
          Index to = at;
          for (int64_t axis : axes)
            to[axis] = 0;
          double &total = totals[flat(kept, to)], value = x.data[flat(x.shape, at)];
          switch (reduce.getKind()) {
          case ir::ReduceKind::Max:
            total = maxOf(total, value);
            break;
          case ir::ReduceKind::Min:
            total = minOf(total, value);
            break;
          case ir::ReduceKind::Sum:
          case ir::ReduceKind::Mean:
            total += value;
            break;
          case ir::ReduceKind::Prod:
            total *= value;
            break;
          }
        });
        if (reduce.getKind() == ir::ReduceKind::Mean)
          for (double &total : totals)
            total /= count;
        known[op->getResult(0)] = {shapeOf(op->getResult(0)), std::move(totals)};
      })
      .Case([&](ir::CumSumOp scan) {
        uint64_t axis = scan.getAxis();
        alongRows(op, axis, axis, [&](std::vector<double> &row) {
          if (scan.getReverse())
            std::reverse(row.begin(), row.end());
          double sum = 0;
          for (double &x : row) {
            double before = sum;
            sum += x;
            x = scan.getExclusive() ? before : sum;
          }
          if (scan.getReverse())
            std::reverse(row.begin(), row.end());
        });
      })
      .Case([&](ir::SoftmaxOp softmax) { soft(softmax.getAxis(), false); })
      .Case([&](ir::LogSoftmaxOp softmax) { soft(softmax.getAxis(), true); })
      .Case([&](ir::LayerNormOp norm) {
        const Values scale = norm.getScale() ? known[norm.getScale()] : Values{};
        const Values bias = norm.getBias() ? known[norm.getBias()] : Values{};
        normalise(norm, true, norm.getScale() ? &scale : nullptr, norm.getBias() ? &bias : nullptr);
      })
      .Case([&](ir::RmsNormOp norm) { normalise(norm, false, nullptr, nullptr); })
      .Case([&](ir::GatherOp gather) {
        const Values x = in(op, 0), index = in(op, 1);
        uint64_t axis = gather.getAxis(), rank = index.shape.size();
        set(op, [&](const Index &at) {
          Index where(at.begin() + axis, at.begin() + axis + rank), from(at.begin(), at.begin() + axis);
          from.push_back(lookup(index.data[flat(index.shape, where)], x.shape[axis]));
          from.insert(from.end(), at.begin() + axis + rank, at.end());
          return outOfRange ? NAN : x.data[flat(x.shape, from)];
        });
      })
      .Case([&](ir::GatherElementsOp gather) {
        const Values x = in(op, 0), index = in(op, 1);
        set(op, [&](const Index &at) {
          Index from = at;
          from[gather.getAxis()] = lookup(index.data[flat(index.shape, at)], x.shape[gather.getAxis()]);
          return outOfRange ? NAN : x.data[flat(x.shape, from)];
        });
      })
      .Case([&](ir::GatherNDOp gather) {
        const Values x = in(op, 0), index = in(op, 1); // tuples of one, no batch
        set(op, [&](const Index &at) {
          Index from = at;
          from[0] = lookup(index.data[at[0]], x.shape[0]);
          return outOfRange ? NAN : x.data[flat(x.shape, from)];
        });
      })
      .Case<ir::ScatterElementsOp, ir::ScatterNDOp>([&](auto scatter) { // along axis 0, tuples of one
        Values x = in(op, 0);
        const Values index = in(op, 1), updates = in(op, 2);
        forEach(updates.shape, [&](const Index &at) {
          Index to = at;
          to[0] = lookup(index.data[at[0]], x.shape[0]);
          if (outOfRange)
            return;
          double &there = x.data[flat(x.shape, to)], value = updates.data[flat(updates.shape, at)];
          there = scatter.getCombine() == ir::Combine::Assign ? value
                  : scatter.getCombine() == ir::Combine::Add  ? there + value
                                                              : maxOf(there, value);
        });
        known[op->getResult(0)] = std::move(x);
      })
      .Case([&](ir::IotaOp iota) {
        Index startStep = sizes(iota.getStartStep().getDims());
        set(op, [&](const Index &at) { return startStep[0] + startStep[1] * at[iota.getAxis()]; });
      })
      .Case([&](ir::DimValuesOp dims) {
        Index values = sizes(dims.getValues().getDims());
        set(op, [&](const Index &at) { return values[at.empty() ? 0 : at[0]]; });
      })
      .Default([&](Operation *) { ADD_FAILURE() << "no reference for " << op->getName().getStringRef().str(); });
}

} // namespace

std::optional<std::vector<Values>> evaluateReference(ir::GraphOp graph, const Binding &binding,
                                                     const std::vector<Values> &inputs, const WeightTable &weights) {
  Evaluator evaluator(binding, weights);
  for (auto [argument, values] : llvm::zip_equal(graph.getBody().getArguments(), inputs))
    evaluator.known[argument] = values;
  // Only what the outputs need: an error in what nobody asked for is none.
  Operation *terminator = graph.getBody().front().getTerminator();
  llvm::SetVector<Operation *> needed;
  std::vector<Value> work(terminator->operand_begin(), terminator->operand_end());
  while (!work.empty()) {
    Operation *op = work.back().getDefiningOp();
    work.pop_back();
    if (op && needed.insert(op))
      work.insert(work.end(), op->operand_begin(), op->operand_end());
  }
  for (Operation &op : graph.getBody().front().without_terminator())
    if (needed.contains(&op) && !evaluator.outOfRange)
      evaluator.evaluate(&op);
  if (evaluator.outOfRange)
    return std::nullopt;
  std::vector<Values> outputs;
  for (Value value : terminator->getOperands())
    outputs.push_back(evaluator.known[value]);
  return outputs;
}

std::string whyIllegal(ir::GraphOp graph, const Binding &binding) {
  for (ir::ConstraintAttr constraint : graph.getConstraintList())
    if (Result<bool> holds = constraint.getPredicate().evaluate(binding); !holds || !*holds)
      return constraint.getMessage().str();
  // A size that cannot be evaluated (broadcast of 2 and 3) belongs to an op that is found illegal itself.
  auto shapeOf = [&](Value value) {
    Index shape;
    for (const DimExpr &dim : ir::getShape(cast<RankedTensorType>(value.getType())).dims) {
      Result<int64_t> size = dim.evaluate(binding);
      shape.push_back(size ? *size : -1);
    }
    return shape;
  };
  auto equal = [](const Index &a, const Index &b, size_t except) {
    for (size_t i = 0; i < a.size(); ++i)
      if (i != except && a[i] != b[i])
        return false;
    return true;
  };
  /// Aligned at the last axis; leaves out the last `skip` axes.
  auto broadcasts = [](const Index &a, const Index &b, size_t skip, bool toB) {
    for (size_t i = skip; i < std::min(a.size(), b.size()); ++i) {
      int64_t x = a[a.size() - 1 - i], y = b[b.size() - 1 - i];
      if (x != y && x != 1 && (toB || y != 1))
        return false;
    }
    return true;
  };
  for (Operation &op : graph.getBody().front().without_terminator()) {
    std::vector<Index> in;
    for (Value operand : op.getOperands())
      in.push_back(shapeOf(operand));
    bool legal = true;
    if (isa<ir::ElementwiseOpInterface>(op)) {
      for (size_t i = 0; i < in.size(); ++i)
        for (size_t j = 0; j < i; ++j)
          legal &= broadcasts(in[i], in[j], 0, false);
    } else if (isa<ir::MatmulOp>(op)) {
      legal = in[0].back() == in[1][in[1].size() - 2] && broadcasts(in[0], in[1], 2, false);
    } else if (auto concat = dyn_cast<ir::ConcatOp>(op)) {
      for (const Index &shape : in)
        legal &= equal(shape, in[0], concat.getAxis());
    } else if (isa<ir::BroadcastToOp>(op)) {
      legal = broadcasts(in[0], shapeOf(op.getResult(0)), 0, true);
    } else if (isa<ir::ReshapeOp>(op)) {
      legal = countOf(in[0]) == countOf(shapeOf(op.getResult(0)));
    }
    if (!legal)
      return op.getName().getStringRef().str();
  }
  return {};
}

} // namespace rlx::test
