//===- PaddedRun.cpp - a run at the sizes of its bucket -------------------===//
#include "EngineParts.h"
#include "ExecutableState.h"

using namespace rlx;

namespace {
Result<std::vector<std::vector<int64_t>>> shapesAt(const std::vector<std::vector<DimExpr>> &shapes,
                                                   const Binding &binding) {
  std::vector<std::vector<int64_t>> result(shapes.size());
  for (size_t i = 0; i != shapes.size(); ++i)
    for (const DimExpr &dim : shapes[i]) {
      Result<int64_t> size = dim.evaluate(binding);
      if (!size)
        return size.takeError();
      result[i].push_back(*size);
    }
  return result;
}
} // namespace

Result<std::unique_ptr<const PaddedShapes>> Executable::State::paddedShapes(std::span<const int64_t> sizes,
                                                                            std::span<const int64_t> bucket) const {
  const BindingSolver &solver = setup->solver();
  Binding asked = solver.binding(sizes), padded = solver.binding(bucket);
  // What the caller gave has been checked; that the larger sizes can be had has not.
  std::vector<int64_t> checked(bucket.size());
  if (Status status = solver.check(padded, checked); !status)
    return Error{status.error().code, "at the bucket " + bindingString(padded) + ": " + status.error().message};
  auto made = std::make_unique<PaddedShapes>();
  for (auto [shapes, binding, result] : {std::tuple(&model().inputShapes(), &asked, &made->inputs),
                                         std::tuple(&model().outputShapes(), &asked, &made->outputs),
                                         std::tuple(&model().inputShapes(), &padded, &made->paddedInputs)}) {
    Result<std::vector<std::vector<int64_t>>> found = shapesAt(*shapes, *binding);
    if (!found)
      return found.takeError();
    *result = std::move(*found);
  }
  return std::unique_ptr<const PaddedShapes>(std::move(made));
}

Status Executable::State::runPadded(const FoundRun &found, std::span<const NamedTensor> inputs,
                                    std::span<const OutputBuffer> outputs, const ParamValues *params,
                                    const RunOptions &options) {
  const PaddedShapes &shapes = *found.padded;
  const std::vector<std::vector<int64_t>> &paddedOutputs = found.ready->plan->outputs;
  auto bytesOf = [](std::span<const int64_t> shape, data::ElementType type) {
    return static_cast<size_t>(*elementCount(shape)) * elementSize(type); // shapes of checked bindings
  };
  // Positions and types are checked by the run itself, but a name that is not there has no shape to pad.
  std::vector<NamedTensor> padded(inputs.begin(), inputs.end());
  std::vector<OutputBuffer> larger(outputs.begin(), outputs.end());
  std::vector<size_t> inputAt(inputs.size()), outputAt(outputs.size());
  BlockSize room(0);
  for (size_t i = 0; i != inputs.size(); ++i) {
    std::optional<size_t> position = model().findInput(inputs[i].name, i);
    if (!position)
      return Error{ErrorCode::InvalidArgument, "input '" + std::string(inputs[i].name) + "' does not exist"};
    inputAt[i] = *position;
    if (shapes.inputs[*position] == shapes.paddedInputs[*position])
      continue;
    const TensorView &tensor = inputs[i].tensor;
    if (!elementSize(tensor.type) || tensor.bytes != bytesOf(shapes.inputs[*position], tensor.type))
      return Error{ErrorCode::InvalidArgument, "input '" + std::string(inputs[i].name) + "' has " +
                                                   std::to_string(tensor.bytes) + " bytes, not those of shape " +
                                                   shapeString(shapes.inputs[*position])};
    padded[i].tensor = TensorView::flat(tensor.type, nullptr, bytesOf(shapes.paddedInputs[*position], tensor.type));
    room.add(padded[i].tensor.bytes);
  }
  for (size_t i = 0; i != outputs.size(); ++i) {
    std::optional<size_t> position = model().findOutput(outputs[i].name, i);
    if (!position)
      return Error{ErrorCode::InvalidArgument, "there is no output '" + std::string(outputs[i].name) + "'"};
    outputAt[i] = *position;
    if (shapes.outputs[*position] == paddedOutputs[*position])
      continue;
    if (outputs[i].bytes != bytesOf(shapes.outputs[*position], outputs[i].type))
      return Error{ErrorCode::InvalidArgument, "output '" + std::string(outputs[i].name) + "' has shape " +
                                                   shapeString(shapes.outputs[*position]) + ", but its buffer has " +
                                                   std::to_string(outputs[i].bytes) + " bytes"};
    larger[i].bytes = bytesOf(paddedOutputs[*position], outputs[i].type);
    room.add(larger[i].bytes);
  }
  if (room.tooLarge())
    return Error{ErrorCode::OutOfRange, "the memory of a run overflows"};
  Result<ArenaPool::Block> block = engine().parts().arenas.borrow(room.size());
  if (!block)
    return block.takeError();
  BlockSize places(0);
  for (size_t i = 0; i != inputs.size(); ++i) {
    size_t position = inputAt[i];
    if (shapes.inputs[position] == shapes.paddedInputs[position])
      continue;
    std::byte *place = block->data() + places.add(padded[i].tensor.bytes);
    padWithZeros(inputs[i].tensor.data, shapes.inputs[position], place, shapes.paddedInputs[position],
                 elementSize(inputs[i].tensor.type));
    padded[i].tensor.data = place;
  }
  for (size_t i = 0; i != outputs.size(); ++i)
    if (shapes.outputs[outputAt[i]] != paddedOutputs[outputAt[i]])
      larger[i].data = block->data() + places.add(larger[i].bytes);
  if (Status status = runAsItIs(*found.ready, padded, larger, params, options); !status)
    return status;
  for (size_t i = 0; i != outputs.size(); ++i)
    if (larger[i].data != outputs[i].data)
      cutBack(larger[i].data, paddedOutputs[outputAt[i]], outputs[i].data, shapes.outputs[outputAt[i]],
              elementSize(outputs[i].type));
  return Status::ok();
}
