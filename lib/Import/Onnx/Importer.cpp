//===- Importer.cpp - walks an ONNX graph ---------------------------------===//
#include "Importer.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/Twine.h"

#include <google/protobuf/unknown_field_set.h>

#include <chrono>
#include <set>
#include <utility>

using namespace rlx;
using namespace rlx::onnx_import;
using llvm::Twine;

/// The opset the handlers were written against; later ones are tried, with a
/// warning.
static constexpr int64_t newestOpset = 28;
static constexpr int64_t oldestOpset = 7;
/// More dims than any real tensor; keeps hostile files cheap.
static constexpr int maxRank = 32;

static StringRef normalDomain(StringRef domain) { return domain == "ai.onnx" ? StringRef() : domain; }

static std::string functionKey(StringRef domain, StringRef name) { return (normalDomain(domain) + "::" + name).str(); }

Importer::Importer(mlir::MLIRContext &context, ParsedModel parsed, std::string folder, const ImportOptions &options)
    : builder(&context), tensors(parsed, std::move(folder)), loc(mlir::UnknownLoc::get(&context)), context(context),
      model(parsed.model), options(options), weights(std::make_shared<WeightTable>()) {}

//===----------------------------------------------------------------------===//
// Problems
//===----------------------------------------------------------------------===//

void Importer::report(ErrorCode code, const std::string &node, const std::string &reason) {
  ++problemCount;
  auto [found, added] = problemIndex.try_emplace({static_cast<int>(code), reason}, problems.size());
  if (added)
    problems.push_back({code, reason, {}});
  std::vector<std::string> &nodes = problems[found->second].nodes;
  // A node with several inputs may say the same of each.
  if (nodes.empty() || nodes.back() != node)
    nodes.push_back(node);
}

Error Importer::problemsAsError() const {
  Error error{ErrorCode::Unsupported, {}};
  for (const auto &[code, reason, nodes] : problems) {
    // A wrong file is worth more to its owner than what we cannot do.
    if (code != ErrorCode::Unsupported)
      error.code = code;
    if (!error.message.empty())
      error.message += "; ";
    if (!nodes.empty() && !nodes.front().empty()) {
      error.message += nodes.size() == 1 ? "node " : "nodes ";
      for (size_t i = 0; i < nodes.size(); ++i)
        error.message += (i ? ", '" : "'") + nodes[i] + "'";
      error.message += ": ";
    }
    error.message += reason;
  }
  if (tooManyProblems())
    error.message += "; and perhaps more (the list ends here)";
  return error;
}

std::string Importer::takeDiagnostics() {
  std::string text = llvm::join(diagnostics, "; ");
  diagnostics.clear();
  return text;
}

void Importer::addConstraint(DimPredicate predicate, std::string message) {
  facts.learn(predicate, true);
  constraints.emplace_back(std::move(predicate), std::move(message));
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

Type Importer::elementType(data::ElementType type) { return ir::fromElementType(&context, type); }

Value Importer::lookup(Scope &scope, StringRef name, bool &missing) {
  missing = false;
  for (Scope *at = &scope; at; at = at->parent) {
    if (auto found = at->values.find(name); found != at->values.end())
      return found->second;
    if (auto found = at->initializers.find(name); found != at->initializers.end()) {
      std::optional<Error> error;
      Value value = materialise(*found->second, at->prefix + name.str(), error);
      if (error)
        report(error->code, "", error->message);
      at->values[name] = value;
      return value;
    }
  }
  missing = true;
  return {};
}

Value Importer::materialise(const ::onnx::TensorProto &tensor, const std::string &rowName,
                            std::optional<Error> &error) {
  if (auto found = materialised.find(&tensor); found != materialised.end())
    return found->second;
  Result<TensorData> data = tensors.read(tensor);
  if (!data) {
    error = data.takeError();
    return {};
  }
  if (data->shape.size() > maxRank) {
    error = Error{ErrorCode::Unsupported, "tensor '" + rowName + "' has " + std::to_string(data->shape.size()) +
                                              " dims, more than the " + std::to_string(maxRank) + " rlx allows"};
    return {};
  }
  auto type = mlir::RankedTensorType::get(data->shape, elementType(data->type));
  mlir::OpBuilder::InsertionGuard guard(builder);
  mlir::Location where = mlir::NameLoc::get(builder.getStringAttr(rowName));
  Value value;
  if (data->bytes.size() <= options.maxConstantBytes) {
    mlir::DenseElementsAttr attr;
    if (data->type == data::ElementType::I1) {
      SmallVector<bool> elements;
      for (std::byte b : data->bytes)
        elements.push_back(b != std::byte{0});
      attr = mlir::DenseElementsAttr::get(type, ArrayRef<bool>(elements));
    } else {
      attr = mlir::DenseElementsAttr::getFromRawBuffer(
          type, ArrayRef<char>(reinterpret_cast<const char *>(data->bytes.data()), data->bytes.size()));
    }
    value = ir::ConstantOp::create(builder, where, type, attr);
  } else {
    std::string row = rowName;
    for (int suffix = 1; rows.contains(row); ++suffix)
      row = rowName + "_" + std::to_string(suffix);
    rows.try_emplace(row, std::move(*data));
    value = ir::WeightOp::create(builder, where, type, builder.getStringAttr(row));
  }
  materialised[&tensor] = value;
  return value;
}

//===----------------------------------------------------------------------===//
// The graph's frame
//===----------------------------------------------------------------------===//

int64_t Importer::opsetOf(const Scope &scope, StringRef domain) {
  for (const Scope *at = &scope; at; at = at->parent)
    if (auto found = at->opsets.find(domain); found != at->opsets.end())
      return found->second;
  return 0;
}

Status Importer::readOpsets(const google::protobuf::RepeatedPtrField<::onnx::OperatorSetIdProto> &imports,
                            Scope &scope) {
  for (const auto &import : imports)
    scope.opsets[normalDomain(import.domain())] = import.version();
  int64_t version = scope.opsets.lookup("");
  if (version == 0)
    return Status::ok(); // nodes of other domains only, or each will say that its opset is 0
  if (version < oldestOpset)
    return Error{ErrorCode::Unsupported, "the model uses opset " + std::to_string(version) + "; rlx reads opset " +
                                             std::to_string(oldestOpset) + " and later"};
  if (version > newestOpset && &scope == &top)
    warnings.push_back("the model uses opset " + std::to_string(version) + ", newer than the " +
                       std::to_string(newestOpset) + " that rlx knows");
  // Handlers compare with int; anything above the newest is the same to them.
  scope.opsets[""] = std::min<int64_t>(version, 1 << 20);
  return Status::ok();
}

bool Importer::isDimName(const std::string &name) {
  auto emit = [&] { return mlir::emitError(loc); };
  return mlir::succeeded(ir::DimDeclAttr::verify(emit, name, 0, INT64_MAX, 1, {}, std::nullopt));
}

Status Importer::importInputs() {
  const ::onnx::GraphProto &graph = model->graph();
  std::set<std::string, std::less<>> taken, seen;
  for (const auto &input : graph.input())
    for (const auto &dim : input.type().tensor_type().shape().dim())
      if (dim.has_dim_param())
        taken.insert(dim.dim_param());

  SmallVector<std::string> names;
  for (const auto &input : graph.input()) {
    const std::string &name = input.name();
    if (name.empty())
      return Error{ErrorCode::InvalidModel, "an input of the graph has no name"};
    if (!seen.insert(name).second)
      return Error{ErrorCode::InvalidModel, "two inputs are called '" + name + "'"};
    if (top.initializers.contains(name))
      continue; // a default value that callers may not override here
    auto refuse = [&](const std::string &why) {
      report(ErrorCode::Unsupported, "", "input '" + name + "' " + why);
      top.values[name] = Value();
    };
    if (!input.type().has_tensor_type()) {
      refuse(input.type().value_case() == ::onnx::TypeProto::VALUE_NOT_SET ? "has no type" : "is not a tensor");
      continue;
    }
    const auto &tensor = input.type().tensor_type();
    std::optional<data::ElementType> element = elementTypeOf(tensor.elem_type());
    if (!element) {
      refuse("has element type " + onnxTypeName(tensor.elem_type()) + ", which rlx does not have");
      continue;
    }
    if (!tensor.has_shape()) {
      refuse("has no declared number of dims");
      continue;
    }
    if (tensor.shape().dim_size() > maxRank) {
      refuse("has more than " + std::to_string(maxRank) + " dims");
      continue;
    }
    DimVector dims;
    std::vector<int64_t> fixed;
    for (int axis = 0; axis < tensor.shape().dim_size(); ++axis) {
      const auto &dim = tensor.shape().dim(axis);
      std::string symbol;
      if (dim.has_dim_param() && !dim.dim_param().empty() && dim.dim_param() != "?") {
        symbol = dim.dim_param();
        if (!isDimName(symbol))
          return Error{ErrorCode::InvalidModel, "input '" + name + "' axis " + std::to_string(axis) +
                                                    " has a name that no dim can have: " + takeDiagnostics()};
      } else if (dim.has_dim_value() && dim.dim_value() >= 0 && !options.dynamicInputs) {
        dims.push_back(DimExpr(dim.dim_value()));
        fixed.push_back(dim.dim_value());
        continue;
      } else {
        if (dim.has_dim_value() && dim.dim_value() < -1)
          return Error{ErrorCode::InvalidModel,
                       "input '" + name + "' axis " + std::to_string(axis) + " is " + std::to_string(dim.dim_value())};
        symbol = name + "_" + std::to_string(axis);
        if (!isDimName(symbol)) {
          takeDiagnostics();
          symbol = "input" + std::to_string(names.size()) + "_" + std::to_string(axis);
        }
        while (!taken.insert(symbol).second)
          symbol += "_";
      }
      dims.push_back(DimExpr::symbol(symbol));
      if (!llvm::is_contained(dimNames, symbol))
        dimNames.push_back(symbol);
    }
    if (!elementCount(fixed))
      return Error{ErrorCode::InvalidModel, "input '" + name + "' is too large"};
    Type type = ir::makeType(&context, {SmallVector<DimExpr>(ArrayRef<DimExpr>(dims)), elementType(*element)});
    mlir::Location where = mlir::NameLoc::get(builder.getStringAttr(name));
    top.values[name] = graphOp.getBody().front().addArgument(type, where);
    names.push_back(name);
  }
  SmallVector<mlir::Attribute> attrs;
  for (const std::string &name : names)
    attrs.push_back(builder.getDictionaryAttr(builder.getNamedAttr("rlx.name", builder.getStringAttr(name))));
  if (!attrs.empty())
    graphOp.setArgAttrsAttr(builder.getArrayAttr(attrs));
  return Status::ok();
}

void Importer::importInitializers(const ::onnx::GraphProto &graph, Scope &scope) {
  for (const auto &tensor : graph.initializer()) {
    if (tensor.name().empty())
      report(ErrorCode::InvalidModel, "", "an initializer has no name");
    else if (!scope.initializers.try_emplace(tensor.name(), &tensor).second)
      report(ErrorCode::InvalidModel, "", "two initializers are called '" + tensor.name() + "'");
    if (tooManyProblems())
      return;
  }
  for (const auto &sparse : graph.sparse_initializer()) {
    report(ErrorCode::Unsupported, "", "initializer '" + sparse.values().name() + "' is sparse");
    scope.values[sparse.values().name()] = Value();
    if (tooManyProblems())
      return;
  }
}

SmallVector<Value> Importer::importOutputs() {
  SmallVector<Value> outputs;
  const ::onnx::GraphProto &graph = model->graph();
  if (graph.output_size() == 0)
    report(ErrorCode::InvalidModel, "", "the graph has no outputs");
  for (const auto &output : graph.output()) {
    bool missing;
    Value value = lookup(top, output.name(), missing);
    if (missing)
      report(ErrorCode::InvalidModel, "", "output '" + output.name() + "' is defined by no node, input or initializer");
    if (value)
      checkHint(output, value);
    outputs.push_back(value);
  }
  return outputs;
}

/// Declared output shapes are often wrong; they are compared, and never used.
void Importer::checkHint(const ::onnx::ValueInfoProto &declared, Value value) {
  if (!declared.type().has_tensor_type())
    return;
  const auto &tensor = declared.type().tensor_type();
  auto type = llvm::cast<mlir::RankedTensorType>(value.getType());
  std::optional<data::ElementType> element = elementTypeOf(tensor.elem_type());
  if (element && elementType(*element) != type.getElementType()) {
    std::string have;
    llvm::raw_string_ostream(have) << type.getElementType();
    warnings.push_back("output '" + declared.name() + "' is declared as " + onnxTypeName(tensor.elem_type()) +
                       " but is " + have + "; the declaration is ignored");
  }
  if (!tensor.has_shape())
    return;
  SmallVector<DimExpr> dims = ir::getShape(type).dims;
  std::string text;
  bool differs = tensor.shape().dim_size() != static_cast<int>(dims.size());
  // [] and [1] are told apart by nobody.
  SmallVector<int64_t> declaredDims;
  for (int axis = 0; axis < tensor.shape().dim_size(); ++axis) {
    const auto &dim = tensor.shape().dim(axis);
    text += (axis ? ", " : "") + (dim.has_dim_value()       ? std::to_string(dim.dim_value())
                                  : dim.dim_param().empty() ? "?"
                                                            : dim.dim_param());
    if (differs || !dim.has_dim_value() || dim.dim_value() < 0)
      continue;
    if (facts.prove({DimPredicate::Kind::Equal, dims[axis], DimExpr(dim.dim_value())}) == false)
      differs = true;
  }
  if (!differs)
    return;
  auto onlyUnits = [](auto &&range, auto &&isOne) { return llvm::all_of(range, isOne); };
  if (onlyUnits(dims, [](const DimExpr &dim) { return dim == DimExpr(1); }) &&
      onlyUnits(tensor.shape().dim(), [](const auto &dim) { return dim.has_dim_value() && dim.dim_value() == 1; }))
    return;
  std::string inferred;
  for (size_t axis = 0; axis < dims.size(); ++axis)
    inferred += (axis ? ", " : "") + dims[axis].str();
  warnings.push_back("output '" + declared.name() + "' is declared with shape [" + text + "] but has [" + inferred +
                     "]; the declaration is ignored");
}

void Importer::eraseDeadOps() {
  SmallVector<mlir::Operation *> ops;
  for (mlir::Operation &op : graphOp.getBody().front().without_terminator())
    ops.push_back(&op);
  for (mlir::Operation *op : llvm::reverse(ops))
    if (mlir::isOpTriviallyDead(op))
      op->erase();
}

/// Fills the table with the rows that are left in the graph.
Status Importer::fillWeights() {
  Status status;
  graphOp.walk([&](ir::WeightOp op) {
    auto row = rows.find(op.getRow());
    if (row == rows.end() || !status)
      return;
    TensorData &data = row->second;
    Status added =
        weights->add(op.getRow().str(), WeightRow{data.type, data.shape, data.bytes, data.owner, data.mapped});
    if (!added)
      status = added;
    rows.erase(row);
  });
  return status;
}

void Importer::finishGraph(ArrayRef<Value> outputs) {
  builder.setInsertionPointToEnd(&graphOp.getBody().front());
  ir::OutputOp::create(builder, mlir::UnknownLoc::get(&context), outputs);
  eraseDeadOps();

  SmallVector<Type> resultTypes;
  SmallVector<mlir::Attribute> resultAttrs;
  for (auto [value, declared] : llvm::zip(outputs, model->graph().output())) {
    resultTypes.push_back(value.getType());
    resultAttrs.push_back(
        builder.getDictionaryAttr(builder.getNamedAttr("rlx.name", builder.getStringAttr(declared.name()))));
  }
  graphOp.setResAttrsAttr(builder.getArrayAttr(resultAttrs));
  graphOp.setFunctionType(builder.getFunctionType(graphOp.getBody().front().getArgumentTypes(), resultTypes));

  SmallVector<mlir::Attribute> declarations, statements;
  for (const std::string &name : dimNames)
    declarations.push_back(ir::DimDeclAttr::get(&context, name, 0, INT64_MAX, 1, {}, std::nullopt));
  if (!declarations.empty())
    graphOp.setDimsAttr(builder.getArrayAttr(declarations));
  for (const auto &[predicate, message] : constraints)
    statements.push_back(ir::ConstraintAttr::get(&context, predicate, message));
  if (!statements.empty())
    graphOp.setConstraintsAttr(builder.getArrayAttr(statements));
}

Result<ImportedModel> Importer::run() {
  context.loadDialect<ir::RLXDialect>();
  bool verifying = false;
  mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error && diagnostics.size() < maxProblems) {
      // While importing, the node at work is named by who takes the diagnostic.
      auto node = llvm::dyn_cast<mlir::NameLoc>(diagnostic.getLocation());
      diagnostics.push_back((verifying && node ? "node '" + node.getName().str() + "': " : "") + diagnostic.str());
    }
    return mlir::success();
  });

  if (Status status = readOpsets(model->opset_import(), top); !status)
    return status.takeError();
  for (const auto &function : model->functions())
    functions[functionKey(function.domain(), function.name())] = &function;

  ImportedModel result;
  mlir::Location unknown = mlir::UnknownLoc::get(&context);
  result.module = mlir::ModuleOp::create(unknown);
  builder.setInsertionPointToStart(result.module->getBody());
  graphOp = ir::GraphOp::create(builder, unknown, "main", builder.getFunctionType({}, {}), mlir::ArrayAttr(),
                                mlir::ArrayAttr(), mlir::ArrayAttr(), mlir::ArrayAttr());
  builder.setInsertionPointToStart(&graphOp.getBody().emplaceBlock());

  importInitializers(model->graph(), top);
  if (Status status = importInputs(); !status)
    return status.takeError();
  importNodes(model->graph().node(), top);
  SmallVector<Value> outputs = importOutputs();
  if (problemCount)
    return problemsAsError();
  finishGraph(outputs);
  if (Status status = fillWeights(); !status)
    return status.takeError();

  verifying = true;
  if (mlir::failed(mlir::verify(*result.module)))
    return Error{ErrorCode::InvalidModel, takeDiagnostics()};
  result.weights = std::move(weights);
  result.warnings = std::move(warnings);
  return result;
}

//===----------------------------------------------------------------------===//
// Nodes
//===----------------------------------------------------------------------===//

std::string Importer::nodeName(const ::onnx::NodeProto &node, const Scope &scope) {
  if (!node.name().empty())
    return scope.prefix + node.name();
  for (const std::string &output : node.output())
    if (!output.empty())
      return scope.prefix + node.op_type() + ":" + output;
  return scope.prefix + node.op_type();
}

void Importer::importNodes(const google::protobuf::RepeatedPtrField<::onnx::NodeProto> &nodes, Scope &scope) {
  for (const auto &node : nodes) {
    if (tooManyProblems())
      return;
    if (++nodesSeen > maxNodes) {
      if (nodesSeen == maxNodes + 1)
        report(ErrorCode::Unsupported, "", "the model has more than " + std::to_string(maxNodes) + " nodes");
      return;
    }
    importNode(node, scope);
  }
}

void Importer::importNode(const ::onnx::NodeProto &node, Scope &scope) {
  std::string name = nodeName(node, scope);
  auto setFailed = [&] {
    for (const std::string &output : node.output())
      if (!output.empty())
        scope.values[output] = Value();
  };
  for (const std::string &output : node.output())
    if (!output.empty() && scope.values.contains(output)) {
      report(ErrorCode::InvalidModel, name, "defines '" + output + "', which is defined already");
      return setFailed();
    }

  StringRef domain = normalDomain(node.domain());
  const ::onnx::FunctionProto *function = functions.lookup(functionKey(domain, node.op_type()));
  const OpEntry *entry = nullptr;
  if (!function) {
    int64_t opset = opsetOf(scope, "");
    bool known = false;
    if (domain.empty())
      entry = findOp(node.op_type(), static_cast<int>(opset), known);
    if (!entry) {
      std::string type = domain.empty() ? node.op_type() : (domain + "." + node.op_type()).str();
      report(ErrorCode::Unsupported, name,
             "operator " + type + (known ? " of opset " + std::to_string(opset) : "") + " is not supported");
      return setFailed();
    }
  }

  bool ready = true;
  for (const std::string &input : node.input()) {
    if (input.empty() || scope.absent.contains(input))
      continue;
    bool missing;
    if (lookup(scope, input, missing))
      continue;
    ready = false; // its reason has been reported, if it is not this one
    if (missing) {
      report(ErrorCode::InvalidModel, name,
             "uses '" + input + "', which no earlier node, input or initializer defines");
      scope.values[input] = Value();
    }
  }
  if (!ready)
    return setFailed();

  mlir::Location before = loc;
  loc = mlir::NameLoc::get(builder.getStringAttr(name));
  if (function) {
    importCall(node, *function, name, scope);
  } else {
    Node handled(*this, scope, node, name, static_cast<int>(opsetOf(scope, "")));
    entry->handler(handled);
    if (!handled.failed()) {
      handled.checkInputs();
      handled.checkAttrs();
    }
    for (size_t i = 0, e = node.output_size(); i < e; ++i) {
      const std::string &output = node.output(static_cast<int>(i));
      if (output.empty())
        continue;
      auto found = scope.values.find(output);
      if (found == scope.values.end() || handled.failed()) {
        if (!handled.failed())
          handled.unsupported("output number " + Twine(i) + " ('" + output + "') is not supported");
        scope.values[output] = Value();
        continue;
      }
      auto type = llvm::cast<mlir::RankedTensorType>(found->second.getType());
      SmallVector<int64_t> fixed;
      for (int64_t size : type.getShape())
        if (!mlir::ShapedType::isDynamic(size))
          fixed.push_back(size);
      if (type.getRank() > maxRank || !elementCount(fixed)) {
        handled.invalid("result '" + output + "' is too large");
        scope.values[output] = Value();
      } else if (llvm::any_of(ir::getShape(type).dims, [](const DimExpr &dim) { return dim.isOverflow(); })) {
        handled.unsupported("a size of result '" + output +
                            "' is too large a number, or an expression of too many names");
        scope.values[output] = Value();
      }
    }
  }
  loc = before;
}

void Importer::importCall(const ::onnx::NodeProto &node, const ::onnx::FunctionProto &function, const std::string &name,
                          Scope &scope) {
  auto fail = [&](ErrorCode code, const std::string &reason) {
    report(code, name, reason);
    for (const std::string &output : node.output())
      if (!output.empty())
        scope.values[output] = Value();
  };
  if (scope.depth >= maxDepth)
    return fail(ErrorCode::InvalidModel,
                "function '" + function.name() + "' calls itself, or calls are nested too deep");
  if (node.input_size() > function.input_size() || node.output_size() > function.output_size())
    return fail(ErrorCode::InvalidModel, "function '" + function.name() + "' has " +
                                             std::to_string(function.input_size()) + " inputs and " +
                                             std::to_string(function.output_size()) + " outputs, the call more");
  Scope body;
  body.depth = scope.depth + 1;
  body.prefix = name + "/";
  if (function.opset_import_size() == 0)
    for (auto &entry : scope.opsets)
      body.opsets[entry.first()] = entry.second;
  if (Status status = readOpsets(function.opset_import(), body); !status)
    return fail(status.error().code, status.error().message);

  for (int i = 0; i < function.input_size(); ++i) {
    bool missing = false;
    bool given = i < node.input_size() && !node.input(i).empty() && !scope.absent.contains(node.input(i));
    if (given)
      body.values[function.input(i)] = lookup(scope, node.input(i), missing);
    else
      body.absent.insert(function.input(i));
  }

  llvm::StringMap<const ::onnx::AttributeProto *> arguments;
  // Defaults came with a later schema than the packaged one: field 11, attributes.
  const auto &unknown = function.GetReflection()->GetUnknownFields(function);
  for (int i = 0; i < unknown.field_count(); ++i) {
    const auto &field = unknown.field(i);
    if (field.number() != 11 || field.type() != google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED)
      continue;
    ::onnx::AttributeProto attribute;
    if (!attribute.ParsePartialFromString(field.length_delimited()))
      return fail(ErrorCode::InvalidModel, "function '" + function.name() + "' has a default that cannot be read");
    defaults.push_back(std::move(attribute));
    arguments[defaults.back().name()] = &defaults.back();
  }
  for (const auto &attribute : node.attribute()) {
    const ::onnx::AttributeProto *actual = &attribute;
    if (!attribute.ref_attr_name().empty())
      actual = scope.arguments ? scope.arguments->lookup(attribute.ref_attr_name()) : nullptr;
    if (actual)
      arguments[attribute.name()] = actual;
  }
  body.arguments = &arguments;

  importNodes(function.node(), body);
  for (int i = 0; i < node.output_size(); ++i) {
    if (node.output(i).empty())
      continue;
    bool missing = false;
    Value value = lookup(body, function.output(i), missing);
    if (missing && !tooManyProblems())
      report(ErrorCode::InvalidModel, name,
             "function '" + function.name() + "' does not define its output '" + function.output(i) + "'");
    scope.values[node.output(i)] = value;
  }
}

SmallVector<Value> Importer::inlineGraph(const ::onnx::GraphProto &graph, Scope &scope) {
  Scope inner;
  inner.parent = &scope;
  inner.arguments = scope.arguments;
  inner.prefix = scope.prefix;
  inner.depth = scope.depth + 1;
  SmallVector<Value> outputs;
  if (inner.depth > maxDepth) {
    report(ErrorCode::InvalidModel, "", "subgraphs are nested too deep");
    outputs.resize(graph.output_size());
    return outputs;
  }
  importInitializers(graph, inner);
  importNodes(graph.node(), inner);
  for (const auto &output : graph.output()) {
    bool missing = false;
    Value value = lookup(inner, output.name(), missing);
    if (missing && !tooManyProblems())
      report(ErrorCode::InvalidModel, "", "output '" + output.name() + "' of a subgraph is defined by no node");
    outputs.push_back(value);
  }
  return outputs;
}

//===----------------------------------------------------------------------===//
// Entry points
//===----------------------------------------------------------------------===//

/// `file` keeps the bytes where they are; null when nothing does.
static Result<ImportedModel> importBytes(mlir::MLIRContext &context, std::span<const std::byte> bytes,
                                         std::shared_ptr<const void> file, const std::string &folder,
                                         const ImportOptions &options) {
  auto start = std::chrono::steady_clock::now();
  auto lap = [&] {
    auto now = std::chrono::steady_clock::now();
    return std::chrono::duration<double, std::milli>(now - std::exchange(start, now)).count();
  };
  Result<ParsedModel> parsed = parseModel(bytes, std::move(file));
  double parseMs = lap();
  if (!parsed)
    return parsed.takeError();
  Result<ImportedModel> result = Importer(context, std::move(*parsed), folder, options).run();
  if (!result) {
    Error error = result.takeError();
    error.message = printable(std::move(error.message));
    return error;
  }
  for (std::string &warning : result->warnings)
    warning = printable(std::move(warning));
  result->times = {{"parse", parseMs}, {"import", lap()}};
  return result;
}

Result<ImportedModel> rlx::importOnnx(mlir::MLIRContext &context, std::span<const std::byte> bytes,
                                      const std::string &folder, const ImportOptions &options) {
  return importBytes(context, bytes, nullptr, folder, options);
}

Result<ImportedModel> rlx::importOnnx(mlir::MLIRContext &context, const std::string &path,
                                      const ImportOptions &options) {
  Result<MappedFile> file = mapFile(path);
  if (!file)
    return file.takeError();
  size_t slash = path.rfind('/');
  std::string folder = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  Result<ImportedModel> result = importBytes(context, file->bytes, file->owner, folder, options);
  if (!result) {
    Error error = result.takeError();
    error.message = path + ": " + error.message;
    return error;
  }
  return result;
}
