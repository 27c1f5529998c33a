//===- BindingSolver.h - sizes of named dims from inputs --------*- C++ -*-===//
#ifndef RLX_RUNTIME_BINDINGSOLVER_H
#define RLX_RUNTIME_BINDINGSOLVER_H

#include "rlx/Data/Plan_generated.h"
#include "rlx/Runtime/Tensor.h"
#include "rlx/Support/DimExpr.h"
#include "rlx/Support/Result.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rlx {

/// Finds the sizes of a signature's dims from what one run is given: shapes of
/// inputs, element counts of flat inputs and of the caller's output buffers, and
/// sizes the caller states. Made once per signature; immutable, so any number of
/// threads may use it.
///
/// Dims solved from one place help to solve the next until nothing changes. An
/// equation is used only where it has one solution: [N,N] with 9 elements gives
/// N=3; floordiv(n, 2) = 4 gives n only where range and multiple leave one n.
/// Then everything is checked: every axis and count, ranges, multiples, the
/// signature's constraints, and that no input or output is larger than 64 bits
/// of bytes can count.
class BindingSolver {
public:
  /// Errors (InvalidModel): an expression or constraint that does not parse or
  /// uses a name that is not among the dims; a name twice, empty or with control
  /// characters; a range that is empty or negative; a multiple below 1; more than
  /// kMaxDims dims.
  static Result<BindingSolver> create(const data::ModelSignatureT &signature);
  static constexpr size_t kMaxDims = 1024;
  ~BindingSolver();
  BindingSolver(BindingSolver &&) noexcept;
  BindingSolver &operator=(BindingSolver &&) noexcept;

  /// Names of the dims, in the order of the signature. The sizes below are in
  /// this order.
  const std::vector<std::string> &dims() const;

  /// Every input must be there once, in any order, of its type (f32 is taken for
  /// f16 and bf16 too). `outputs` are those of a run into the caller's buffers:
  /// any subset, each once. `sizes` has one place per dim.
  ///
  /// Allocates nothing where every dim is given or an axis of some shape by itself,
  /// there are at most 512 inputs and outputs, and nothing is wrong. Errors name the dim, the input, the axis and the sizes.
  Status solve(std::span<const NamedTensor> inputs, std::span<const OutputBuffer> outputs, const Binding &given,
               std::span<int64_t> sizes) const;
  /// The same as a Binding.
  Result<Binding> solve(std::span<const NamedTensor> inputs, const Binding &given = {},
                        std::span<const OutputBuffer> outputs = {}) const;

  /// A binding given in full, with no inputs at hand: names, ranges, multiples,
  /// constraints, sizes of inputs and outputs.
  Status check(const Binding &binding, std::span<int64_t> sizes) const;
  /// The same of one size per dim.
  Status check(std::span<const int64_t> sizes) const;

  /// `sizes` by name.
  Binding binding(std::span<const int64_t> sizes) const;

private:
  struct Program;
  explicit BindingSolver(std::unique_ptr<const Program> program);
  std::unique_ptr<const Program> program;
};

} // namespace rlx

#endif // RLX_RUNTIME_BINDINGSOLVER_H
