//===- Node.h - what a handler sees of a node -------------------*- C++ -*-===//
#ifndef RLX_LIB_IMPORT_ONNX_NODE_H
#define RLX_LIB_IMPORT_ONNX_NODE_H

#include "Contents.h"

#include "rlx/Dialect/RLX/IR/RLXOps.h"
#include "rlx/Support/DimExpr.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/StringSet.h"

#include <optional>
#include <string>

namespace onnx {
class AttributeProto;
class GraphProto;
class NodeProto;
class TensorProto;
} // namespace onnx

namespace rlx::onnx_import {

class Importer;
struct Scope;

using llvm::ArrayRef;
using llvm::SmallVector;
using llvm::StringRef;
using mlir::Type;
using mlir::Value;

/// One node while its handler turns it into rlx ops.
///
/// Building methods take null values and give null back, and the first failure
/// has been reported by then: a handler can nest calls freely and need not look
/// at each result.
class Node {
public:
  Node(Importer &importer, Scope &scope, const ::onnx::NodeProto &proto, std::string name, int opset);

  //===--- the node itself -------------------------------------------------===//
  const std::string &name() const { return nodeName; }
  int opset() const { return version; }
  StringRef opType() const;
  size_t numInputs() const;
  size_t numOutputs() const;
  /// Whether input `i` is given.
  bool has(size_t i) const;
  /// Whether output `i` has a name.
  bool wants(size_t i) const;
  /// Input `i`; reports an error and gives null where it is missing.
  Value in(size_t i);
  void out(size_t i, Value value);
  const ::onnx::NodeProto &proto() const { return node; }
  Importer &owner() { return importer; }
  Scope &where() { return scope; }

  //===--- attributes ------------------------------------------------------===//
  bool hasAttr(StringRef name);
  int64_t attrInt(StringRef name, int64_t otherwise);
  double attrFloat(StringRef name, double otherwise);
  std::string attrString(StringRef name, StringRef otherwise);
  std::optional<SmallVector<int64_t>> attrInts(StringRef name);
  std::optional<SmallVector<double>> attrFloats(StringRef name);
  const ::onnx::TensorProto *attrTensor(StringRef name);
  const ::onnx::GraphProto *attrGraph(StringRef name);
  /// Says that an attribute makes no difference here.
  void ignoreAttr(StringRef name) { read.insert(name); }
  /// Reports inputs that no call above asked for.
  void checkInputs();
  /// Reports attributes that no call above asked for.
  void checkAttrs();

  //===--- errors ----------------------------------------------------------===//
  /// The node is legal, but not for us. Gives null, for `return`.
  Value unsupported(const llvm::Twine &reason);
  /// The node is wrong.
  Value invalid(const llvm::Twine &reason);
  bool failed() const { return failure; }
  /// Gives up for a reason that has been reported elsewhere.
  void fail() { failure = true; }
  /// A line to the user; the import goes on.
  void warn(const llvm::Twine &text);

  //===--- shapes ----------------------------------------------------------===//
  /// Dims of a value as expressions; empty for null.
  DimVector dims(Value value);
  int64_t rank(Value value);
  /// Element type; null for null.
  Type element(Value value);
  mlir::RankedTensorType type(ArrayRef<DimExpr> dims, Type element);
  /// Normalises an axis; reports one out of range (and gives nothing).
  std::optional<int64_t> axis(int64_t axis, int64_t rank);
  /// Normalises, sorts; reports one out of range or twice.
  std::optional<SmallVector<int64_t>> axes(ArrayRef<int64_t> axes, int64_t rank);
  /// Product of dims.
  static DimExpr product(ArrayRef<DimExpr> dims);

  /// What is known of sizes decides `kind(lhs, rhs)`, or nothing.
  std::optional<bool> prove(DimPredicate::Kind kind, const DimExpr &lhs, const DimExpr &rhs);
  /// Requires it: nothing where it is certain, an error where it is certainly
  /// false, else a constraint of the graph with the message (and this node).
  bool require(DimPredicate::Kind kind, const DimExpr &lhs, const DimExpr &rhs, const llvm::Twine &message);
  DimExpr simplify(const DimExpr &expr);
  DimExpr clamp(const DimExpr &x, const DimExpr &low, const DimExpr &high);
  bool nonNegative(const DimExpr &expr);
  /// a / b where b must divide a: an exact quotient, or floordiv with a
  /// constraint. Requires b >= 1.
  std::optional<DimExpr> divideExactly(const DimExpr &a, const DimExpr &b, const llvm::Twine &what);
  /// Integer division that truncates, on known elements; nothing where a sign is
  /// not known.
  std::optional<DimExpr> truncatedQuotient(const DimExpr &a, const DimExpr &b);

  //===--- known contents --------------------------------------------------===//
  std::optional<DimVector> content(Value value);
  /// Contents of input `i`, which decides a shape: reports an error that names the
  /// operand where they are not known.
  std::optional<DimVector> shapeOperand(size_t i, StringRef operand, StringRef decides = "a shape");
  /// The same, and numbers only.
  std::optional<SmallVector<int64_t>> constantOperand(size_t i, StringRef operand, StringRef decides = "a shape");
  /// A value whose elements are these expressions, with any integer, boolean or
  /// float element type.
  Value fromContent(const DimVector &elements, ArrayRef<int64_t> shape, Type element);
  /// An elementwise op on operands whose elements are all known, with numpy's
  /// broadcasting; null (and no error) where it cannot be known. `compute` gives
  /// one element, or nothing.
  Value knownElementwise(ArrayRef<Value> operands, Type element,
                         llvm::function_ref<std::optional<DimExpr>(ArrayRef<DimExpr>)> compute);
  void recordContent(Value value, DimVector elements);

  //===--- building --------------------------------------------------------===//
  /// Makes an op whose result type follows from its operands, folded.
  template <typename OpTy, typename... Args> Value make(Args &&...args);
  /// The same for an op with optional operands: null is a failure among `needed`
  /// only.
  template <typename OpTy, typename... Args> Value makeOptional(ArrayRef<Value> needed, Args &&...args);
  /// Makes an op with a given result type, folded.
  template <typename OpTy, typename... Args> Value makeTyped(Type type, Args &&...args);

  Value constant(const ::onnx::TensorProto &tensor, StringRef rowName);
  /// A scalar constant of an element type (rounded or saturated to it).
  Value scalar(Type element, double value);
  Value scalarInt(Type element, int64_t value);
  /// A scalar with the lowest or highest value of a type (an infinity for floats).
  Value lowest(Type element);
  Value highest(Type element);

  Value convert(Value value, Type element);
  Value reshape(Value value, ArrayRef<DimExpr> dims);
  Value transpose(Value value, ArrayRef<int64_t> permutation);
  Value broadcast(Value value, ArrayRef<DimExpr> dims);
  Value slice(Value value, ArrayRef<DimExpr> starts, ArrayRef<DimExpr> sizes, ArrayRef<int64_t> steps);
  /// Part of one axis, step 1.
  Value sliceAxis(Value value, int64_t axis, const DimExpr &start, const DimExpr &size);
  Value iota(ArrayRef<DimExpr> dims, int64_t axis, const DimExpr &start, const DimExpr &step);
  Value add(Value a, Value b);
  Value sub(Value a, Value b);
  Value mul(Value a, Value b);
  Value div(Value a, Value b);
  Value max(Value a, Value b);
  Value min(Value a, Value b);
  Value compare(ir::ComparePredicate predicate, Value a, Value b);
  Value select(Value condition, Value a, Value b);
  Value matmul(Value a, Value b);
  Value reduce(ir::ReduceKind kind, Value value, ArrayRef<int64_t> axes, bool keepDims);
  Value concat(ArrayRef<Value> values, int64_t axis);

  mlir::OpBuilder &builder();
  mlir::Location loc();
  mlir::MLIRContext *context();

private:
  /// Verifies, inserts and folds.
  Value finish(mlir::OperationState &state);
  Value built(mlir::FailureOr<Value> value);
  template <typename T> static bool isNull(const T &) { return false; }
  static bool isNull(const Value &value) { return !value; }
  static bool isNull(const mlir::ValueRange &values) {
    return llvm::any_of(values, [](Value v) { return !v; });
  }
  const ::onnx::AttributeProto *attribute(StringRef name, int type);

  Importer &importer;
  Scope &scope;
  const ::onnx::NodeProto &node;
  std::string nodeName;
  int version;
  bool failure = false;
  llvm::StringSet<> read;
  /// Inputs below this number have been asked for.
  mutable size_t asked = 0;
};

template <typename OpTy, typename... Args> Value Node::make(Args &&...args) {
  if ((isNull(args) || ...))
    return nullptr;
  return built(ir::createOrFoldChecked<OpTy>(builder(), loc(), std::forward<Args>(args)...));
}

template <typename OpTy, typename... Args> Value Node::makeOptional(ArrayRef<Value> needed, Args &&...args) {
  if (llvm::any_of(needed, [](Value value) { return !value; }))
    return nullptr;
  return built(ir::createOrFoldChecked<OpTy>(builder(), loc(), std::forward<Args>(args)...));
}

template <typename OpTy, typename... Args> Value Node::makeTyped(Type type, Args &&...args) {
  if (!type || (isNull(args) || ...))
    return nullptr;
  mlir::OperationState state(loc(), OpTy::getOperationName());
  OpTy::build(builder(), state, type, std::forward<Args>(args)...);
  return finish(state);
}

/// Turns a node into ops; sets every wanted output, or reports why not.
using Handler = void (*)(Node &);

/// Which handler serves an operator in a range of opsets.
struct OpEntry {
  const char *type;
  int since; ///< first opset, 7 or later
  int until; ///< last opset, 0: current
  Handler handler;
};

// One table a group; Table.cpp joins them.
ArrayRef<OpEntry> elementwiseOps();
ArrayRef<OpEntry> activationOps();
ArrayRef<OpEntry> shapeOps();
ArrayRef<OpEntry> movementOps();
ArrayRef<OpEntry> contractionOps();
ArrayRef<OpEntry> reductionOps();
ArrayRef<OpEntry> normalisationOps();
ArrayRef<OpEntry> attentionOps();
ArrayRef<OpEntry> randomOps();
ArrayRef<OpEntry> quantizationOps();

/// The entry for a type at an opset. Null with `known` true when the type exists
/// in another opset only.
const OpEntry *findOp(StringRef type, int opset, bool &known);

} // namespace rlx::onnx_import

#endif // RLX_LIB_IMPORT_ONNX_NODE_H
