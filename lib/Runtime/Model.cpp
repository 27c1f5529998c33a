//===- Model.cpp - a graph as the runtime knows it ------------------------===//
#include "rlx/Runtime/Model.h"

#include "rlx/Data/ElementType.h"

#include <algorithm>
#include <set>

using namespace rlx;

namespace {
Error invalid(const std::string &text) { return Error{ErrorCode::InvalidModel, "signature: " + text}; }

using Specs = std::vector<std::unique_ptr<data::TensorSpecT>>;

Status parseSpecs(const Specs &specs, const char *what, const std::set<std::string> &declared,
                  std::vector<std::vector<DimExpr>> &shapes, std::set<std::string> &used) {
  std::set<std::string_view> seen;
  for (const auto &spec : specs) {
    if (!spec || !elementBytes(spec->type))
      return invalid(std::string("an ") + what + " is not well formed");
    if (!seen.insert(spec->name).second)
      return invalid(std::string(what) + " '" + spec->name + "' is there twice");
    std::vector<DimExpr> shape;
    for (const std::string &text : spec->shape) {
      Result<DimExpr> expr = DimExpr::parse(text);
      if (!expr)
        return invalid(std::string(what) + " '" + spec->name + "': " + expr.error().message);
      std::set<std::string> names;
      expr->collectNames(names);
      for (const std::string &name : names)
        if (!declared.contains(name))
          return invalid(std::string(what) + " '" + spec->name + "' uses the dim '" + name +
                         "', which is not declared");
      used.insert(names.begin(), names.end());
      shape.push_back(std::move(*expr));
    }
    shapes.push_back(std::move(shape));
  }
  return Status::ok();
}

std::unordered_map<std::string_view, size_t> positionsOf(const Specs &specs) {
  std::unordered_map<std::string_view, size_t> positions;
  for (size_t i = 0; i != specs.size(); ++i)
    positions.emplace(specs[i]->name, i);
  return positions;
}

std::optional<size_t> position(const Specs &specs, const std::unordered_map<std::string_view, size_t> &positions,
                               std::string_view name, size_t guess) {
  if (guess < specs.size() && specs[guess]->name == name)
    return guess;
  auto it = positions.find(name);
  if (it == positions.end())
    return std::nullopt;
  return it->second;
}
} // namespace

Result<std::shared_ptr<const Model>> Model::create(data::ModelSignatureT signature,
                                                   std::shared_ptr<WeightTable> weights,
                                                   std::shared_ptr<CompilerInterface> compiler) {
  std::shared_ptr<Model> model(new Model());
  std::set<std::string> declared;
  for (const auto &dim : signature.dims) {
    if (!dim || dim->name.empty())
      return invalid("a dim has no name");
    if (!declared.insert(dim->name).second)
      return invalid("dim '" + dim->name + "' is declared twice");
    if (dim->min < 0 || dim->min > dim->max || dim->multiple < 1)
      return invalid("dim '" + dim->name + "' has no size in [" + std::to_string(dim->min) + ", " +
                     std::to_string(dim->max) + "] with multiple " + std::to_string(dim->multiple));
  }
  std::set<std::string> fed, computed;
  if (Status status = parseSpecs(signature.inputs, "input", declared, model->inputs, fed); !status)
    return status.takeError();
  if (Status status = parseSpecs(signature.params, "param", declared, model->params, fed); !status)
    return status.takeError();
  if (Status status = parseSpecs(signature.outputs, "output", declared, model->outputs, computed); !status)
    return status.takeError();
  for (const std::string &name : computed)
    if (!fed.contains(name))
      return invalid("dim '" + name + "' occurs in outputs only, so no input can tell its size");
  for (const auto &constraint : signature.constraints)
    if (!constraint || !constraint->predicate)
      return invalid("a constraint is not well formed");
  Result<BindingSolver> solver = BindingSolver::create(signature);
  if (!solver)
    return solver.takeError();
  model->bindingSolver.emplace(std::move(*solver));
  model->description = std::move(signature);
  model->inputPositions = positionsOf(model->description.inputs);
  model->outputPositions = positionsOf(model->description.outputs);
  model->paramPositions = positionsOf(model->description.params);
  model->weightTable = weights ? std::move(weights) : std::make_shared<WeightTable>();
  model->compilerSide = std::move(compiler);
  return std::shared_ptr<const Model>(std::move(model));
}

std::optional<size_t> Model::findInput(std::string_view name, size_t guess) const {
  return position(description.inputs, inputPositions, name, guess);
}
std::optional<size_t> Model::findOutput(std::string_view name, size_t guess) const {
  return position(description.outputs, outputPositions, name, guess);
}
std::optional<size_t> Model::findParam(std::string_view name, size_t guess) const {
  return position(description.params, paramPositions, name, guess);
}
