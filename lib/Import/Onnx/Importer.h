//===- Importer.h - walks an ONNX graph -------------------------*- C++ -*-===//
#ifndef RLX_LIB_IMPORT_ONNX_IMPORTER_H
#define RLX_LIB_IMPORT_ONNX_IMPORTER_H

#include "Contents.h"
#include "Node.h"
#include "Proto.h"

#include "rlx/Import/Onnx.h"
#include "rlx/Support/DimFacts.h"

#include "onnx/onnx_pb.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

#include <deque>

namespace rlx::onnx_import {

/// Names that a piece of a model can see. A subgraph sees its parent's; the body
/// of a function sees its own only.
struct Scope {
  /// A name's value; null for one that could not be imported.
  llvm::StringMap<Value> values;
  /// Initializers that nothing has used yet.
  llvm::StringMap<const ::onnx::TensorProto *> initializers;
  /// Inputs of a function that the call leaves out.
  llvm::StringSet<> absent;
  Scope *parent = nullptr;
  /// Opset of each domain ("" for the standard one).
  llvm::StringMap<int64_t> opsets;
  /// Attributes of the call, inside a function: what `ref_attr_name` refers to.
  const llvm::StringMap<const ::onnx::AttributeProto *> *arguments = nullptr;
  /// Put before names of nodes and weights, inside a function.
  std::string prefix;
  int depth = 0;
};

/// One import. Not reusable.
class Importer {
public:
  Importer(mlir::MLIRContext &context, ParsedModel parsed, std::string folder, const ImportOptions &options);

  Result<ImportedModel> run();

  //===--- for Node --------------------------------------------------------===//
  mlir::OpBuilder builder;
  Contents contents;
  DimFacts facts;
  TensorReader tensors;
  std::vector<std::string> warnings;
  /// Location of the node being imported.
  mlir::Location loc;

  /// The value of a name, where the scope has one; null with `missing` false for
  /// one whose node failed.
  Value lookup(Scope &scope, StringRef name, bool &missing);
  /// A constant, or a weight called `rowName`; null with `error` filled.
  Value materialise(const ::onnx::TensorProto &tensor, const std::string &rowName, std::optional<Error> &error);
  void addConstraint(DimPredicate predicate, std::string message);
  /// Records a problem with a node. Problems with one reason are told together.
  void report(ErrorCode code, const std::string &node, const std::string &reason);
  /// Imports a subgraph's nodes in place, seeing `scope`. Gives its outputs, null
  /// where they failed.
  SmallVector<Value> inlineGraph(const ::onnx::GraphProto &graph, Scope &scope);
  int nextRandomKey() { return randomKey++; }
  Type elementType(data::ElementType type);
  /// Diagnostics that building ops has raised since the last call.
  std::string takeDiagnostics();
  /// Opset of a domain, 0 where the model imports none.
  static int64_t opsetOf(const Scope &scope, StringRef domain);

private:
  Status importInputs();
  bool isDimName(const std::string &name);
  void importInitializers(const ::onnx::GraphProto &graph, Scope &scope);
  void importNodes(const google::protobuf::RepeatedPtrField<::onnx::NodeProto> &nodes, Scope &scope);
  void importNode(const ::onnx::NodeProto &node, Scope &scope);
  void importCall(const ::onnx::NodeProto &node, const ::onnx::FunctionProto &function, const std::string &name,
                  Scope &scope);
  SmallVector<Value> importOutputs();
  void eraseDeadOps();
  Status fillWeights();
  void finishGraph(ArrayRef<Value> outputs);
  void checkHint(const ::onnx::ValueInfoProto &declared, Value value);
  std::string nodeName(const ::onnx::NodeProto &node, const Scope &scope);
  Status readOpsets(const google::protobuf::RepeatedPtrField<::onnx::OperatorSetIdProto> &imports, Scope &scope);
  Error problemsAsError() const;
  bool tooManyProblems() const { return problemCount >= maxProblems; }

  static constexpr size_t maxProblems = 50;
  static constexpr int64_t maxNodes = 100'000;
  static constexpr int maxDepth = 64;

  mlir::MLIRContext &context;
  std::shared_ptr<::onnx::ModelProto> model;
  ImportOptions options;
  std::shared_ptr<WeightTable> weights;
  struct Problem {
    ErrorCode code;
    std::string reason;
    std::vector<std::string> nodes;
  };
  std::vector<Problem> problems;
  std::map<std::pair<int, std::string>, size_t> problemIndex;
  size_t problemCount = 0;
  int64_t nodesSeen = 0;
  int randomKey = 0;
  std::vector<std::pair<DimPredicate, std::string>> constraints;
  std::vector<std::string> dimNames; // of the inputs, in order of appearance
  llvm::StringMap<const ::onnx::FunctionProto *> functions;
  std::deque<::onnx::AttributeProto> defaults; // of attributes of functions
  llvm::DenseMap<const ::onnx::TensorProto *, Value> materialised;
  llvm::StringMap<TensorData> rows; // of the rlx.weight ops made so far
  Scope top;
  ir::GraphOp graphOp;
  std::vector<std::string> diagnostics;
};

} // namespace rlx::onnx_import

#endif // RLX_LIB_IMPORT_ONNX_IMPORTER_H
