//===- DataSet.h - inputs and expected outputs of a run ---------*- C++ -*-===//
#ifndef RLX_TOOLS_DATASET_H
#define RLX_TOOLS_DATASET_H

#include "rlx/Runtime/Tensor.h"
#include "rlx/Support/DimExpr.h"
#include "rlx/Support/Result.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace rlx {
class Model;
}

namespace rlx::tools {

/// The inputs of one run, by name, in the order they were given.
class DataSet {
public:
  /// Error: the name is there already.
  Status add(std::string name, Tensor tensor);
  bool has(std::string_view name) const;
  /// As a run takes them; borrows from this object.
  std::vector<NamedTensor> view() const;

private:
  std::vector<std::pair<std::string, Tensor>> tensors;
};

/// Splits "name=value" so that the name is one of `names` if any split does that
/// (names and values may hold '=' themselves), else at the first '='. Error: no
/// '=' or an empty side.
Result<std::pair<std::string, std::string>> splitAssignment(const std::string &text,
                                                            const std::vector<std::string> &names);

/// Adds the inputs that a folder holds: input_N.pb is the graph's input N; else
/// NAME.npy or NAME.pb (a '/' of the name written '_'). Files output_N.pb are
/// left alone; another .npy or .pb file is an error, as a name that was mistyped
/// would be lost otherwise.
Status readInputFolder(const std::string &folder, const Model &model, DataSet &data);

/// The expected outputs that a folder holds, one for each output of the model:
/// N.npy, output_N.pb, NAME.npy or NAME.pb. Errors: one is missing, or none can
/// be read.
Result<std::vector<Tensor>> readExpectedFolder(const std::string &folder, const Model &model);

/// What random inputs are made of.
struct RandomOptions {
  uint64_t seed = 0;
  /// Integers lie in [0, integerLimit).
  int64_t integerLimit = 2;
};

/// Adds every input that `data` lacks, of the shape that `sizes` gives: floats
/// uniform in [-1, 1), integers in [0, limit), booleans 0 or 1. A function of
/// (seed, name, position) alone. Errors: a size is missing, negative or out of
/// its range; the tensor would be larger than the machine's memory; the limit
/// does not fit the type.
Status addRandomInputs(const Model &model, const Binding &sizes, const RandomOptions &options, DataSet &data);

} // namespace rlx::tools

#endif // RLX_TOOLS_DATASET_H
