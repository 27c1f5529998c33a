//===- GraphBuilder.h - graphs written in C++ -------------------*- C++ -*-===//
//
// Builds a graph of the rlx dialect op by op:
//
//   GraphBuilder b;
//   b.dim("batch", {.max = 64});
//   GraphValue x = b.input("x", ElementType::F32, {"batch", 384});
//   GraphValue w = b.weight<float>("w", {384, 10}, values);
//   GraphValue y = b.softmax(b.mul(b.matmul(x, w), 0.5));
//   Result<BuiltGraph> graph = b.finish({{"y", y}});
//   auto loaded = compiler::loadModule(*graph->module, graph->weights);
//
//===----------------------------------------------------------------------===//
#ifndef RLX_IMPORT_GRAPHBUILDER_H
#define RLX_IMPORT_GRAPHBUILDER_H

#include "rlx/Data/Plan_generated.h"
#include "rlx/Dialect/RLX/IR/RLXOps.h"
#include "rlx/Runtime/WeightTable.h"
#include "rlx/Support/DimExpr.h"
#include "rlx/Support/Result.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace rlx {

class GraphBuilder;

/// True for unsigned numbers that an int64_t does not hold.
template <std::integral T> constexpr bool beyondInt64(T number) {
  return number > T(0) && static_cast<uint64_t>(number) > static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
}

/// One size of a shape: a number, an expression, or an expression's text ("2*S").
class GraphDim {
public:
  template <std::integral T>
    requires(!std::same_as<T, bool>)
  GraphDim(T size) : value(DimExpr(static_cast<int64_t>(size))) {
    if (beyondInt64(size))
      value = std::to_string(size); // more than an expression holds: an error where it is used
  }
  GraphDim(DimExpr expression) : value(std::move(expression)) {}
  GraphDim(std::string_view text) : value(std::string(text)) {}
  GraphDim(const std::string &text) : value(text) {}
  GraphDim(const char *text) : value(std::string(text ? text : "")) {}

  /// The expression, or why the text is none.
  Result<DimExpr> expression() const;

private:
  std::variant<DimExpr, std::string> value;
};

/// Sizes, outermost first: `{"batch", "2*S", 64}`, `{}` for a scalar, or any list
/// of numbers, expressions or texts.
class GraphShape {
public:
  GraphShape() = default;
  GraphShape(std::initializer_list<GraphDim> dims) : dims(dims) {}
  template <std::ranges::input_range R>
    requires(!std::same_as<std::remove_cvref_t<R>, GraphShape> && !std::convertible_to<R, std::string_view> &&
             std::convertible_to<std::ranges::range_reference_t<const R>, GraphDim>)
  GraphShape(const R &range) {
    for (const auto &dim : range)
      dims.emplace_back(dim);
  }

  std::vector<GraphDim> dims;
};

/// What is declared of a named dim.
struct GraphDimOptions {
  int64_t min = 0;
  int64_t max = std::numeric_limits<int64_t>::max();
  int64_t multiple = 1;
  /// Sizes that are worth having ready.
  std::vector<int64_t> likely = {};
};

/// A value of a graph that is being built, or the error that stands in its place.
/// Cheap to copy. An op over a value that is an error has that error, so that
/// calls nest and the outcome is looked at once; GraphBuilder::finish reports it.
class GraphValue {
public:
  GraphValue() = default; ///< nobody's: an error where it is used

  explicit operator bool() const { return static_cast<bool>(value); }
  /// Why there is no value.
  const Error &error() const;
  /// MLIR's value, for as long as the builder's graph lives; null for an error.
  mlir::Value get() const { return value; }

private:
  friend class GraphBuilder;
  mlir::Value value;
  std::shared_ptr<const void> owner; ///< whose address is the builder's identity
  std::shared_ptr<const Error> failure;
};

/// An operand of an elementwise op: a value, or a number that becomes a scalar of
/// the other operand's element type.
class GraphOperand {
public:
  GraphOperand(GraphValue value) : value(std::move(value)) {}
  template <std::floating_point T> GraphOperand(T number) : value(static_cast<double>(number)) {}
  template <std::integral T> GraphOperand(T number) {
    if (beyondInt64(number))
      value = static_cast<double>(number);
    else
      value = static_cast<int64_t>(number);
  }

private:
  friend class GraphBuilder;
  std::variant<GraphValue, double, int64_t> value;
};

/// An output of a graph.
struct GraphOutput {
  std::string name;
  GraphValue value;
};

/// A graph that has been built and verified.
struct BuiltGraph {
  BuiltGraph() = default;
  BuiltGraph(BuiltGraph &&) = default;
  BuiltGraph &operator=(BuiltGraph &&other) {
    std::swap(context, other.context);
    std::swap(module, other.module);
    std::swap(weights, other.weights);
    return *this;
  }

  /// Null when the context was the caller's.
  std::unique_ptr<mlir::MLIRContext> context;
  /// One `rlx.graph @main`.
  mlir::OwningOpRef<mlir::ModuleOp> module;
  /// The rows that it names; never null, perhaps empty.
  std::shared_ptr<WeightTable> weights;

  /// The module in text form, as rlx::loadModule and .mlir files have it.
  std::string text() const;
};

/// Builds one graph. Errors are values, name the op, and change nothing: what was
/// built before stays good. Nothing a caller passes ends the process. Codes:
/// InvalidArgument, and InvalidModel where only the whole graph can be judged.
/// Used by one thread at a time.
class GraphBuilder {
public:
  using ElementType = data::ElementType;

  /// In a context of its own.
  GraphBuilder();
  /// In the caller's context, which outlives the builder and the graph and is used
  /// by nobody else during calls. The rlx dialect is loaded into it.
  explicit GraphBuilder(mlir::MLIRContext &context);
  ~GraphBuilder();
  GraphBuilder(const GraphBuilder &) = delete;
  GraphBuilder &operator=(const GraphBuilder &) = delete;

  //===--- declarations ----------------------------------------------------===//

  /// Declares a dim, to be used in shapes by name. Errors: declared before; a name
  /// that no dim can have; a range that holds nothing; a likely size outside it.
  Status dim(std::string_view name, const GraphDimOptions &options = {});
  /// Requires something of sizes: "N == M", "S <= 512", "S < T", "H % 32 == 0",
  /// "broadcastable(N, M)". An error about sizes that do not comply starts with
  /// `message`.
  Status require(std::string_view predicate, std::string_view message);
  /// Names what is built from here on in messages, profiles and dumps. An empty
  /// name returns to names like "matmul_3".
  GraphBuilder &node(std::string_view name);

  /// An input of the graph, in the order of the calls.
  GraphValue input(std::string_view name, ElementType type, const GraphShape &shape);
  /// A slot whose value the caller of the model sets.
  GraphValue param(std::string_view name, ElementType type, const GraphShape &shape);

  /// A weight: a row of the table, by a name that is given once. The bytes are
  /// row-major and are copied.
  GraphValue weight(std::string_view name, ElementType type, llvm::ArrayRef<int64_t> shape,
                    std::span<const std::byte> bytes);
  template <typename T>
  GraphValue weight(std::string_view name, llvm::ArrayRef<int64_t> shape,
                    std::span<const std::type_identity_t<T>> values) {
    return weight(name, typeOf<T>(), shape, std::as_bytes(values));
  }
  /// The same, not copied: the bytes live as long as `owner`, and do not change.
  GraphValue weight(std::string_view name, ElementType type, llvm::ArrayRef<int64_t> shape,
                    std::span<const std::byte> bytes, std::shared_ptr<const void> owner);
  /// A row that is in the table already: of an earlier call, or of useWeights().
  GraphValue weight(std::string_view name);
  /// Takes a table, such as an opened file's, in place of the empty one; before the
  /// first weight. weight() with values adds to it.
  Status useWeights(std::shared_ptr<WeightTable> table);

  /// Values kept in the graph, 1 KiB at most; what is larger is a weight.
  GraphValue constant(ElementType type, llvm::ArrayRef<int64_t> shape, std::span<const std::byte> bytes);
  template <typename T>
  GraphValue constant(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<std::type_identity_t<T>> values) {
    return constant(typeOf<T>(), shape, std::as_bytes(std::span<const T>(values.data(), values.size())));
  }
  /// A number, rounded to a float type; an integer type must hold it exactly.
  GraphValue scalar(ElementType type, double value);
  GraphValue scalar(ElementType type, int64_t value);
  GraphValue scalar(ElementType type, int value) { return scalar(type, static_cast<int64_t>(value)); }
  /// Size expressions as an i64 tensor of rank 1.
  GraphValue dimValues(const GraphShape &dims);

  //===--- elementwise -----------------------------------------------------===//
  // Operands broadcast as in numpy and have one element type.

  GraphValue add(const GraphOperand &a, const GraphOperand &b);
  GraphValue sub(const GraphOperand &a, const GraphOperand &b);
  GraphValue mul(const GraphOperand &a, const GraphOperand &b);
  GraphValue div(const GraphOperand &a, const GraphOperand &b);
  /// Remainder with the sign of the divisor.
  GraphValue mod(const GraphOperand &a, const GraphOperand &b);
  /// Remainder with the sign of the dividend.
  GraphValue rem(const GraphOperand &a, const GraphOperand &b);
  GraphValue pow(const GraphOperand &a, const GraphOperand &b);
  GraphValue max(const GraphOperand &a, const GraphOperand &b);
  GraphValue min(const GraphOperand &a, const GraphOperand &b);
  GraphValue bitAnd(const GraphOperand &a, const GraphOperand &b);
  GraphValue bitOr(const GraphOperand &a, const GraphOperand &b);
  GraphValue bitXor(const GraphOperand &a, const GraphOperand &b);
  GraphValue shl(const GraphOperand &a, const GraphOperand &b);
  GraphValue shr(const GraphOperand &a, const GraphOperand &b);
  GraphValue compare(ir::ComparePredicate predicate, const GraphOperand &a, const GraphOperand &b);

  GraphValue neg(const GraphValue &x);
  GraphValue abs(const GraphValue &x);
  GraphValue sign(const GraphValue &x);
  GraphValue bitNot(const GraphValue &x);
  GraphValue exp(const GraphValue &x);
  GraphValue log(const GraphValue &x);
  GraphValue sqrt(const GraphValue &x);
  GraphValue reciprocal(const GraphValue &x);
  GraphValue tanh(const GraphValue &x);
  GraphValue erf(const GraphValue &x);
  GraphValue sigmoid(const GraphValue &x);
  GraphValue sin(const GraphValue &x);
  GraphValue cos(const GraphValue &x);
  GraphValue floor(const GraphValue &x);
  GraphValue ceil(const GraphValue &x);
  GraphValue round(const GraphValue &x);
  GraphValue isNaN(const GraphValue &x);
  GraphValue isInf(const GraphValue &x);
  /// max(x, 0)
  GraphValue relu(const GraphValue &x);
  GraphValue gelu(const GraphValue &x, bool approximate = false);
  /// x * sigmoid(x)
  GraphValue silu(const GraphValue &x);
  /// `a` where the condition (i1) holds, else `b`.
  GraphValue where(const GraphValue &condition, const GraphOperand &a, const GraphOperand &b);
  GraphValue cast(const GraphValue &x, ElementType type);

  //===--- contractions, reductions, rows ----------------------------------===//
  // Axes may be negative: counted from the end.

  /// [..., M, K] by [..., K, N], batch dims broadcast.
  GraphValue matmul(const GraphValue &a, const GraphValue &b);
  GraphValue reduce(ir::ReduceKind kind, const GraphValue &x, llvm::ArrayRef<int64_t> axes, bool keepDims = false);
  GraphValue cumsum(const GraphValue &x, int64_t axis, bool exclusive = false, bool reverse = false);
  GraphValue softmax(const GraphValue &x, int64_t axis = -1);
  GraphValue logSoftmax(const GraphValue &x, int64_t axis = -1);
  /// Over the axes from `axis` on; scale and bias have those axes' shape.
  GraphValue layerNorm(const GraphValue &x, const std::optional<GraphValue> &scale = {},
                       const std::optional<GraphValue> &bias = {}, int64_t axis = -1, double epsilon = 1e-5);
  GraphValue rmsNorm(const GraphValue &x, const std::optional<GraphValue> &scale = {}, int64_t axis = -1,
                     double epsilon = 1e-5);
  /// softmax(q k^T * scale + mask) v over [..., heads, length, depth].
  GraphValue attention(const GraphValue &q, const GraphValue &k, const GraphValue &v,
                       const std::optional<GraphValue> &mask, double scale);

  //===--- movement --------------------------------------------------------===//

  /// The same elements under another shape; one size may be -1, the rest.
  GraphValue reshape(const GraphValue &x, const GraphShape &shape);
  /// Result axis i is axis permutation[i] of x.
  GraphValue transpose(const GraphValue &x, llvm::ArrayRef<int64_t> permutation);
  /// Repeats unit dims, aligned at the last axis.
  GraphValue broadcastTo(const GraphValue &x, const GraphShape &shape);
  /// Inserts unit axes, at their places in the result.
  GraphValue expandDims(const GraphValue &x, llvm::ArrayRef<int64_t> axes);
  /// Drops axes whose size is 1.
  GraphValue squeeze(const GraphValue &x, llvm::ArrayRef<int64_t> axes);
  /// Elements start, start + step, ... of one axis, `count` of them.
  GraphValue slice(const GraphValue &x, int64_t axis, const GraphDim &start, const GraphDim &count, int64_t step = 1);
  /// The same of every axis.
  GraphValue sliceAxes(const GraphValue &x, const GraphShape &starts, const GraphShape &counts,
                       llvm::ArrayRef<int64_t> steps);
  GraphValue concat(llvm::ArrayRef<GraphValue> values, int64_t axis);
  /// Surrounds x with a scalar; counts per axis.
  GraphValue pad(const GraphValue &x, const GraphOperand &value, const GraphShape &low, const GraphShape &high);
  /// Replaces one axis by the axes of an index tensor (i32 or i64).
  GraphValue gather(const GraphValue &data, const GraphValue &indices, int64_t axis = 0);
  GraphValue gatherND(const GraphValue &data, const GraphValue &indices, int64_t batchDims = 0);
  GraphValue gatherElements(const GraphValue &data, const GraphValue &indices, int64_t axis);
  GraphValue scatterElements(const GraphValue &data, const GraphValue &indices, const GraphValue &updates, int64_t axis,
                             ir::Combine combine = ir::Combine::Assign);
  GraphValue scatterND(const GraphValue &data, const GraphValue &indices, const GraphValue &updates,
                       ir::Combine combine = ir::Combine::Assign);
  /// start + step * position along an axis (i64).
  GraphValue iota(const GraphShape &shape, int64_t axis, const GraphDim &start = 0, const GraphDim &step = 1);
  /// x under dims that its operands do not show: "M + N" as "K". That they agree
  /// becomes a requirement.
  GraphValue assumeDims(const GraphValue &x, const GraphShape &shape);

  //===--- random numbers --------------------------------------------------===//
  // Streams follow from the run's seed, its step and the key, in [0, 2^32); without
  // one, the op's number among the random ops of the graph. Float types.

  GraphValue randomUniform(ElementType type, const GraphShape &shape, double low = 0, double high = 1,
                           std::optional<int64_t> key = {});
  GraphValue randomNormal(ElementType type, const GraphShape &shape, double mean = 0, double scale = 1,
                          std::optional<int64_t> key = {});

  //===--- any op of the dialect -------------------------------------------===//

  /// An op whose type follows from its operands. Takes the arguments of
  /// `OpTy::build` after the result type, with GraphValue for values, vectors of
  /// them for operand lists, std::optional of them for optional operands, and plain
  /// numbers, enums and attributes of mlirContext().
  template <typename OpTy, typename... Args> GraphValue create(Args &&...args) {
    static_assert(OpTy::template hasTrait<mlir::InferTypeOpInterface::Trait>(), "its type is stated: use createAs");
    return make<OpTy>(mlir::RankedTensorType(), std::forward<Args>(args)...);
  }
  /// An op whose result type is stated (reshape, slice, iota, ...).
  template <typename OpTy, typename... Args>
  GraphValue createAs(ElementType type, const GraphShape &shape, Args &&...args) {
    static_assert(!OpTy::template hasTrait<mlir::InferTypeOpInterface::Trait>(), "its type is inferred: use create");
    if (std::optional<Error> wrong = usable(OpTy::getOperationName()))
      return fail(std::move(*wrong));
    Result<mlir::RankedTensorType> resultType = tensorType(type, shape, OpTy::getOperationName());
    return resultType ? make<OpTy>(*resultType, std::forward<Args>(args)...) : fail(resultType.takeError());
  }

  /// Ends the graph: its outputs in order, each a value under a name of its own.
  /// Verifies the module; every later call is an error. After an error nothing has
  /// changed. Errors: that of an output's value; no outputs; a name that is empty or
  /// taken; a dim that occurs in outputs only.
  Result<BuiltGraph> finish(llvm::ArrayRef<GraphOutput> outputs);

  //===--- looking ---------------------------------------------------------===//

  /// Sizes of a value of this builder.
  Result<std::vector<DimExpr>> shape(const GraphValue &x) const;
  Result<ElementType> elementType(const GraphValue &x) const;
  /// For attributes that create() takes. Valid until finish().
  mlir::MLIRContext &mlirContext();

private:
  struct State;

  template <typename T> static constexpr ElementType typeOf() {
    if constexpr (std::is_same_v<T, float>)
      return ElementType::F32;
    else if constexpr (std::is_same_v<T, double>)
      return ElementType::F64;
    else {
      static_assert(std::is_integral_v<T> && !std::is_same_v<T, bool>, "give the element type and bytes");
      constexpr bool isSigned = std::is_signed_v<T>;
      if constexpr (sizeof(T) == 1)
        return isSigned ? ElementType::I8 : ElementType::U8;
      else if constexpr (sizeof(T) == 2)
        return isSigned ? ElementType::I16 : ElementType::U16;
      else if constexpr (sizeof(T) == 4)
        return isSigned ? ElementType::I32 : ElementType::U32;
      else
        return isSigned ? ElementType::I64 : ElementType::U64;
    }
  }

  GraphValue fail(Error error) const;
  /// Why nothing more can be built, if so.
  std::optional<Error> usable(llvm::StringRef op) const;
  /// Why a value cannot be an operand here, if so.
  std::optional<Error> check(const GraphValue &value, llvm::StringRef op) const;
  std::optional<Error> check(const std::optional<GraphValue> &value, llvm::StringRef op) const {
    return value ? check(*value, op) : std::nullopt;
  }
  std::optional<Error> check(const std::vector<GraphValue> &values, llvm::StringRef op) const {
    for (const GraphValue &value : values)
      if (std::optional<Error> wrong = check(value, op))
        return wrong;
    return std::nullopt;
  }
  template <typename T> std::optional<Error> check(const T &, llvm::StringRef) const { return std::nullopt; }

  static mlir::Value unwrap(const GraphValue &value) { return value.value; }
  static mlir::Value unwrap(const std::optional<GraphValue> &value) { return value ? value->value : mlir::Value(); }
  static llvm::SmallVector<mlir::Value> unwrap(const std::vector<GraphValue> &values) {
    llvm::SmallVector<mlir::Value> list;
    for (const GraphValue &value : values)
      list.push_back(value.value);
    return list;
  }
  template <typename T>
  static constexpr bool isValue = std::is_same_v<T, GraphValue> || std::is_same_v<T, std::optional<GraphValue>> ||
                                  std::is_same_v<T, std::vector<GraphValue>>;
  template <typename T> static decltype(auto) argument(T &&value) {
    using Plain = std::remove_cvref_t<T>;
    if constexpr (isValue<Plain>) {
      return unwrap(std::as_const(value));
    } else if constexpr (std::is_floating_point_v<Plain>) {
      return llvm::APFloat(static_cast<double>(value)); // float attributes of the dialect are f64
    } else if constexpr (std::is_same_v<Plain, llvm::APFloat>) {
      return llvm::APFloat(value.convertToDouble());
    } else {
      return std::forward<T>(value);
    }
  }

  Result<llvm::SmallVector<DimExpr>> expressions(const GraphShape &shape, llvm::StringRef op) const;
  Result<mlir::RankedTensorType> tensorType(ElementType type, const GraphShape &shape, llvm::StringRef op) const;
  Result<mlir::RankedTensorType> tensorType(ElementType type, llvm::ArrayRef<DimExpr> dims, llvm::StringRef op) const;
  mlir::OpBuilder &builder();
  mlir::Location location(llvm::StringRef op);
  /// Checks and inserts; `inferred`: the result's type is still to be found.
  GraphValue insert(mlir::OperationState &state, bool inferred);

  template <typename OpTy, typename... Args> GraphValue make(mlir::RankedTensorType type, Args &&...args) {
    constexpr llvm::StringLiteral name = OpTy::getOperationName();
    std::optional<Error> wrong = usable(name);
    ((wrong = wrong ? wrong : check(args, name)), ...);
    if (wrong)
      return fail(std::move(*wrong));
    bool inferred = !type;
    if (inferred)
      type = mlir::RankedTensorType::get({}, builder().getI1Type());
    mlir::OperationState state(location(name), name);
    OpTy::build(builder(), state, type, argument(std::forward<Args>(args))...);
    return insert(state, inferred);
  }

  template <typename OpTy> GraphValue binary(const GraphOperand &a, const GraphOperand &b);
  /// The operand as a value of the element type of `like`, or of itself.
  GraphValue operand(const GraphOperand &x, const GraphOperand &like, llvm::StringRef op);
  Result<int64_t> axisOf(const GraphValue &x, int64_t axis, llvm::StringRef op, int64_t extra = 0) const;
  Result<llvm::SmallVector<int64_t>> axesOf(const GraphValue &x, llvm::ArrayRef<int64_t> axes, llvm::StringRef op,
                                            int64_t extra = 0) const;
  GraphValue reshaped(const GraphValue &x, llvm::ArrayRef<DimExpr> dims);

  std::unique_ptr<State> state;
};

} // namespace rlx

#endif // RLX_IMPORT_GRAPHBUILDER_H
