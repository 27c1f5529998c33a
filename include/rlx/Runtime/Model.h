//===- Model.h - a graph as the runtime knows it ----------------*- C++ -*-===//
#ifndef RLX_RUNTIME_MODEL_H
#define RLX_RUNTIME_MODEL_H

#include "rlx/Data/Plan_generated.h"
#include "rlx/Runtime/BindingSolver.h"
#include "rlx/Runtime/Compiler.h"
#include "rlx/Runtime/WeightTable.h"
#include "rlx/Support/DimExpr.h"
#include "rlx/Support/Result.h"

#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace rlx {

/// A signature, its weights, and the compiler that knows its graph. Immutable
/// and shared between executables and threads.
class Model {
public:
  /// Checks the signature: names unique, expressions well formed, every name
  /// declared; a declared name that occurs in outputs only is an error.
  /// `weights` may be null for a model without any, `compiler` for one that is
  /// only looked at.
  static Result<std::shared_ptr<const Model>> create(data::ModelSignatureT signature,
                                                     std::shared_ptr<WeightTable> weights,
                                                     std::shared_ptr<CompilerInterface> compiler);

  const data::ModelSignatureT &signature() const { return description; }
  WeightTable &weights() const { return *weightTable; }
  /// May be null.
  CompilerInterface *compiler() const { return compilerSide.get(); }

  /// Finds and checks the sizes of the signature's dims.
  const BindingSolver &solver() const { return *bindingSolver; }

  /// Shapes of the signature, parsed.
  const std::vector<std::vector<DimExpr>> &inputShapes() const { return inputs; }
  const std::vector<std::vector<DimExpr>> &outputShapes() const { return outputs; }
  const std::vector<std::vector<DimExpr>> &paramShapes() const { return params; }

  /// Positions by name, in constant time. `guess`: where it probably is.
  std::optional<size_t> findInput(std::string_view name, size_t guess = 0) const;
  std::optional<size_t> findOutput(std::string_view name, size_t guess = 0) const;
  std::optional<size_t> findParam(std::string_view name, size_t guess = 0) const;

private:
  Model() = default;
  data::ModelSignatureT description;
  std::shared_ptr<WeightTable> weightTable;
  std::shared_ptr<CompilerInterface> compilerSide;
  std::optional<BindingSolver> bindingSolver;
  std::vector<std::vector<DimExpr>> inputs, outputs, params;
  /// Of the names in `description`.
  using Positions = std::unordered_map<std::string_view, size_t>;
  Positions inputPositions, outputPositions, paramPositions;
};

} // namespace rlx

#endif // RLX_RUNTIME_MODEL_H
