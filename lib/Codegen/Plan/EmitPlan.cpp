//===- EmitPlan.cpp - planned graph to plain data -------------------------===//

#include "rlx/Codegen/Plan/EmitPlan.h"

#include "KernelProgram.h"
#include "PackedLookups.h"

#include "rlx/Codegen/Plan/PlanBuffers.h"
#include "rlx/Codegen/Plan/Questions.h"
#include "rlx/Data/ElementType.h"
#include "rlx/Dialect/RLX/IR/ElementData.h"
#include "rlx/Dialect/RLX/IR/TensorShape.h"
#include "rlx/Transforms/Padding.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallBitVector.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace rlx::codegen {

using data::ElementType;
using data::Opcode;

std::vector<std::unique_ptr<data::GuardT>> emitGuards(const std::vector<SizeAccessor::Asked> &questions) {
  std::vector<std::unique_ptr<data::GuardT>> guards;
  for (const SizeAccessor::Asked &question : questions) {
    auto guard = std::make_unique<data::GuardT>();
    guard->predicate = std::make_unique<data::PredicateT>();
    guard->predicate->kind = static_cast<data::PredicateKind>(question.predicate.kind);
    guard->predicate->lhs = question.predicate.lhs.str();
    guard->predicate->rhs = question.predicate.rhs.str();
    guard->answer = question.answer;
    guard->required = question.required;
    guard->op = question.op;
    guard->message = question.message;
    guards.push_back(std::move(guard));
  }
  return guards;
}

namespace {

/// True when integer data or indices can make the op fail while it runs.
bool canFail(Operation *op) {
  if (isa<ir::GatherOp, ir::GatherNDOp, ir::GatherElementsOp, ir::ScatterElementsOp, ir::ScatterNDOp>(op))
    return true;
  if (isa<ir::DivOp, ir::ModOp, ir::RemOp>(op))
    return !isa<FloatType>(cast<RankedTensorType>(op->getResult(0).getType()).getElementType());
  return false;
}

/// What attention's kernel is made of.
struct AttentionParts {
  ir::MatmulOp scores, values;
  ir::SoftmaxOp softmax;
  bool zeroNaN = false;
  ir::TransposeOp transpose; ///< of the result, or null
};

/// Reads a kernel's region as rlx-form-kernels writes it for attention.
std::optional<AttentionParts> attentionParts(ir::KernelOp kernel) {
  AttentionParts parts;
  Value result = kernel.getBody().front().getTerminator()->getOperand(0);
  if (auto transpose = result.getDefiningOp<ir::TransposeOp>()) {
    parts.transpose = transpose;
    result = transpose.getInput();
  }
  parts.values = result.getDefiningOp<ir::MatmulOp>();
  if (!parts.values)
    return std::nullopt;
  Value weights = parts.values.getLhs();
  if (auto convert = weights.getDefiningOp<ir::ConvertOp>())
    weights = convert.getInput();
  if (auto select = weights.getDefiningOp<ir::SelectOp>()) {
    if (!select.getCondition().getDefiningOp<ir::IsNaNOp>())
      return std::nullopt;
    parts.zeroNaN = true;
    weights = select.getOnFalse();
  }
  parts.softmax = weights.getDefiningOp<ir::SoftmaxOp>();
  int matmuls = 0;
  for (auto matmul : kernel.getBody().getOps<ir::MatmulOp>()) {
    ++matmuls;
    if (matmul != parts.values)
      parts.scores = matmul;
  }
  if (matmuls != 2 || !parts.softmax)
    return std::nullopt;
  auto rank = [](Value value) { return cast<RankedTensorType>(value.getType()).getRank(); };
  int64_t scoresRank = rank(parts.scores.getResult());
  if (rank(parts.softmax.getInput()) != scoresRank || static_cast<int64_t>(parts.softmax.getAxis()) + 1 != scoresRank)
    return std::nullopt;
  return parts;
}

class PlanEmitter {
public:
  explicit PlanEmitter(ir::GraphOp graph)
      : graph(graph), facts(knownFacts(graph)), reader(facts), exprs(dimNames(graph)),
        plan(std::make_unique<data::PlanTemplateT>()) {}

  Result<std::unique_ptr<data::PlanTemplateT>> run();

private:
  static std::vector<std::string> dimNames(ir::GraphOp graph) {
    std::vector<std::string> names;
    for (ir::DimDeclAttr dim : graph.getDimDecls())
      names.push_back(dim.getName().str());
    return names;
  }

  Result<uint32_t> bufferOf(Value value);
  uint32_t addBuffer(data::BufferKind kind, ElementType type, const DimExpr &elements);
  uint32_t runState();
  Status emitKernel(ir::KernelOp kernel);
  Status emitLoops(Operation *root, RegionContext &context, uint32_t output);
  Status emitOver(Operation *root, Value value, ArrayRef<DimExpr> loops, const Window &target, RegionContext &context,
                  uint32_t output);
  Status emitScatter(Operation *root, RegionContext &context, uint32_t output);
  Status emitReduce(ir::ReduceOp reduce, RegionContext &context, uint32_t output);
  Status emitRows(Operation *root, RegionContext &context, uint32_t output);
  Status emitScan(ir::CumSumOp scan, RegionContext &context, uint32_t output);
  void mergeBatchIntoRows(data::StepT &step);
  Status emitMatmul(ir::KernelOp kernel, Value yielded, RegionContext &context, uint32_t output);
  Status emitAttention(const AttentionParts &parts, RegionContext &context, uint32_t output);
  data::StepT &addStep(data::Family family, ArrayRef<DimExpr> loops);
  Status unsupported(Operation *op, const std::string &why) {
    return Error{ErrorCode::Unsupported, "node '" + nodeName(op) + "': " + why};
  }
  void markNeeded();

  ir::GraphOp graph;
  DimFacts facts;
  DimReader reader;
  ExprTable exprs;
  std::unique_ptr<data::PlanTemplateT> plan;
  llvm::DenseMap<Value, uint32_t> buffers;
  std::optional<uint32_t> runStateBuffer;
  std::string node; ///< of the kernel being emitted
};

uint32_t PlanEmitter::addBuffer(data::BufferKind kind, ElementType type, const DimExpr &elements) {
  auto buffer = std::make_unique<data::BufferT>();
  buffer->kind = kind;
  buffer->type = type;
  buffer->elements = exprs.id(elements);
  plan->buffers.push_back(std::move(buffer));
  return static_cast<uint32_t>(plan->buffers.size() - 1);
}

uint32_t PlanEmitter::runState() {
  if (!runStateBuffer)
    runStateBuffer = addBuffer(data::BufferKind::RunState, ElementType::U64, DimExpr(2));
  return *runStateBuffer;
}

Result<uint32_t> PlanEmitter::bufferOf(Value value) {
  value = storedValue(value);
  if (auto it = buffers.find(value); it != buffers.end())
    return it->second;
  ElementType type = elementTypeOf(value);
  DimExpr elements = elementCount(reader.dims(value));
  uint32_t number = 0;
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    number = addBuffer(data::BufferKind::Input, type, elements);
    plan->buffers[number]->index = argument.getArgNumber();
  } else if (auto weight = value.getDefiningOp<ir::WeightOp>()) {
    number = addBuffer(data::BufferKind::Weight, type, elements);
    plan->buffers[number]->name = weight.getRow().str();
  } else if (auto param = value.getDefiningOp<ir::ParamOp>()) {
    number = addBuffer(data::BufferKind::Param, type, elements);
    plan->buffers[number]->name = param.getName().str();
  } else if (auto constant = value.getDefiningOp<ir::ConstantOp>()) {
    auto dense = dyn_cast<DenseElementsAttr>(constant.getValue());
    if (!dense)
      return unsupported(constant, "its value is not held in the graph").takeError();
    number = addBuffer(data::BufferKind::Constant, type, elements);
    plan->buffers[number]->data = ir::bytesOf(dense);
  } else {
    Operation *op = value.getDefiningOp();
    return Error{ErrorCode::Internal, "node '" + nodeName(op) + "': '" + op->getName().getStringRef().str() +
                                          "' is not part of a kernel: run rlx-form-kernels first"};
  }
  buffers[value] = number;
  return number;
}

data::StepT &PlanEmitter::addStep(data::Family family, ArrayRef<DimExpr> loops) {
  auto step = std::make_unique<data::StepT>();
  step->node = node;
  step->family = family;
  for (const DimExpr &loop : loops)
    step->iteration.push_back(exprs.id(loop));
  plan->steps.push_back(std::move(step));
  return *plan->steps.back();
}

/// Loops over a tensor's dims; a scalar has one loop of extent 1.
std::pair<Dims, IndexMap> loopsOver(ArrayRef<DimExpr> dims) {
  if (!dims.empty())
    return {Dims(dims), IndexMap::identity(dims.size())};
  IndexMap map;
  map.loops = 1;
  return {Dims{DimExpr(1)}, map};
}

/// Computes `value` element by element over `loops` (its dims) into `target`.
Status PlanEmitter::emitOver(Operation *root, Value value, ArrayRef<DimExpr> dims, const Window &target,
                             RegionContext &context, uint32_t output) {
  auto [loops, map] = loopsOver(dims);
  ProgramBuilder program(context, map.loops);
  uint16_t results[] = {program.pull(value, map)};
  if (program.failed())
    return program.error();
  data::StepT &step = addStep(data::Family::Loops, loops);
  step.program = program.finish(results);
  step.inputs = program.takeInputs();
  step.results.assign(std::begin(results), std::end(results));
  step.outputs.push_back(makeAccess(target, output, elementTypeOf(root->getResult(0)), exprs));
  return Status::ok();
}

Status PlanEmitter::emitLoops(Operation *root, RegionContext &context, uint32_t output) {
  Value result = root->getResult(0);
  Dims dims = reader.dims(result);
  Dims strides = rowMajorStrides(dims);
  // Where a part of the result starts, moving as the result does.
  auto part = [&](ArrayRef<DimExpr> starts) {
    auto [loops, map] = loopsOver(dims);
    Window window = rowMajorWindow(dims, map);
    for (size_t d = 0; d < starts.size(); ++d)
      window.offset = window.offset + starts[d] * strides[d];
    return window;
  };

  if (auto concat = dyn_cast<ir::ConcatOp>(root)) {
    Dims starts(dims.size(), DimExpr(0));
    for (Value input : concat.getInputs()) {
      Dims inputDims = reader.dims(input);
      if (Status status = emitOver(root, input, inputDims, part(starts), context, output); !status)
        return status;
      starts[concat.getAxis()] = starts[concat.getAxis()] + inputDims[concat.getAxis()];
    }
    return Status::ok();
  }
  if (auto pad = dyn_cast<ir::PadOp>(root)) {
    // The value everywhere, then the tensor over it.
    auto [loops, map] = loopsOver(dims);
    ProgramBuilder program(context, map.loops);
    IndexMap scalar;
    scalar.loops = map.loops;
    for (size_t i = 0; i < reader.dims(pad.getValue()).size(); ++i)
      scalar.dims.push_back(IndexForm::zero(map.loops));
    uint16_t results[] = {program.pull(pad.getValue(), scalar)};
    if (program.failed())
      return program.error();
    data::StepT &step = addStep(data::Family::Loops, loops);
    step.program = program.finish(results);
    step.inputs = program.takeInputs();
    step.results.assign(std::begin(results), std::end(results));
    step.outputs.push_back(makeAccess(part({}), output, elementTypeOf(result), exprs));
    Dims starts;
    for (const DimExpr &low : pad.getLow().getDims())
      starts.push_back(facts.simplify(low));
    return emitOver(root, pad.getInput(), reader.dims(pad.getInput()), part(starts), context, output);
  }
  if (isa<ir::ScatterElementsOp, ir::ScatterNDOp>(root))
    return emitScatter(root, context, output);
  if (auto values = dyn_cast<ir::DimValuesOp>(root); values && values.getValues().size() > 1) {
    for (auto [i, value] : llvm::enumerate(values.getValues().getDims())) {
      Window size, target;
      size.offset = facts.simplify(value);
      target.offset = DimExpr(static_cast<int64_t>(i));
      for (Window *window : {&size, &target}) {
        window->strides.push_back(DimExpr(0));
        window->broadcast.push_back(std::nullopt);
      }
      data::StepT &step = addStep(data::Family::Loops, DimExpr(1));
      step.inputs.push_back(makeAccess(size, 0, ElementType::I64, exprs));
      step.inputs.back()->kind = data::AccessKind::Iota;
      step.results.push_back(0);
      step.outputs.push_back(makeAccess(target, output, ElementType::I64, exprs));
    }
    return Status::ok();
  }
  return emitOver(root, result, dims, part({}), context, output);
}

Status PlanEmitter::emitScatter(Operation *root, RegionContext &context, uint32_t output) {
  Value data = root->getOperand(0), updates = root->getOperand(2);
  Dims dims = reader.dims(root->getResult(0));
  {
    auto [loops, map] = loopsOver(dims);
    if (Status status = emitOver(root, data, dims, rowMajorWindow(dims, map), context, output); !status)
      return status;
  }
  auto [loops, map] = loopsOver(reader.dims(updates));
  LookupMaps maps = lookupMaps(root, map, reader);
  ProgramBuilder program(context, map.loops);
  uint16_t results[] = {program.pull(updates, map)};
  if (program.failed())
    return program.error();
  std::unique_ptr<data::AccessT> target =
      makeIndexedAccess(rowMajorWindow(dims, maps.data), output, elementTypeOf(root->getResult(0)), maps, context);
  if (!target)
    return unsupported(root, "its indices must be stored");
  auto elements = dyn_cast<ir::ScatterElementsOp>(root);
  data::StepT &step = addStep(data::Family::Loops, loops);
  step.combine =
      static_cast<data::Combine>(elements ? elements.getCombine() : cast<ir::ScatterNDOp>(root).getCombine());
  step.program = program.finish(results);
  step.inputs = program.takeInputs();
  step.results.assign(std::begin(results), std::end(results));
  step.outputs.push_back(std::move(target));
  return Status::ok();
}

/// The type a sum of this type is kept in.
ElementType accumulatorOf(ElementType type) {
  return type == ElementType::F16 || type == ElementType::BF16 ? ElementType::F32 : type;
}

Status PlanEmitter::emitReduce(ir::ReduceOp reduce, RegionContext &context, uint32_t output) {
  Dims inputDims = reader.dims(reduce.getInput());
  llvm::SmallBitVector reduced(inputDims.size());
  for (int64_t axis : reduce.getAxes())
    reduced.set(axis);
  // Kept loops first; each group has at least one loop.
  Dims loops;
  SmallVector<unsigned> loopOf(inputDims.size());
  for (size_t d = 0; d < inputDims.size(); ++d)
    if (!reduced.test(d)) {
      loopOf[d] = loops.size();
      loops.push_back(inputDims[d]);
    }
  if (loops.empty())
    loops.push_back(DimExpr(1));
  size_t kept = loops.size();
  for (size_t d = 0; d < inputDims.size(); ++d)
    if (reduced.test(d)) {
      loopOf[d] = loops.size();
      loops.push_back(inputDims[d]);
    }
  if (loops.size() == kept)
    loops.push_back(DimExpr(1));
  IndexMap map;
  map.loops = loops.size();
  for (size_t d = 0; d < inputDims.size(); ++d)
    map.dims.push_back(IndexForm::loop(map.loops, loopOf[d]));

  ElementType type = elementTypeOf(reduce.getResult()), accumulator = accumulatorOf(type);
  // The sum and the count of a mean of integers need not fit the integers' type; the mean does.
  if (reduce.getKind() == ir::ReduceKind::Mean && isIntegerType(type))
    accumulator = isUnsignedType(type) ? ElementType::U64 : ElementType::I64;
  ProgramBuilder program(context, map.loops);
  uint16_t results[] = {program.convert(program.pull(reduce.getInput(), map), type, accumulator)};
  if (program.failed())
    return program.error();
  data::StepT &step = addStep(data::Family::Reduce, loops);
  step.program = program.finish(results);
  step.inputs = program.takeInputs();
  step.results.assign(std::begin(results), std::end(results));
  step.reduced = static_cast<uint8_t>(loops.size() - kept);
  step.reduce_inner = inputDims.empty() || reduce.getAxes().empty() || reduced.test(inputDims.size() - 1);
  step.accumulator = accumulator;
  uint16_t value = 0;
  switch (reduce.getKind()) {
  case ir::ReduceKind::Sum:
    step.reduce = data::ReduceKind::Sum;
    break;
  case ir::ReduceKind::Mean:
    step.reduce = data::ReduceKind::Sum;
    step.epilogue.emplace_back(Opcode::Div, accumulator, 0, 1, 0, 0);
    value = 2;
    break;
  case ir::ReduceKind::Prod:
    step.reduce = data::ReduceKind::Prod;
    break;
  case ir::ReduceKind::Max:
    step.reduce = data::ReduceKind::Max;
    break;
  case ir::ReduceKind::Min:
    step.reduce = data::ReduceKind::Min;
    break;
  }
  if (type != accumulator) {
    step.epilogue.emplace_back(Opcode::Convert, type, value, 0, 0, 0);
    value = static_cast<uint16_t>(1 + step.epilogue.size());
  }
  step.epilogue_result = value;
  IndexMap keptMap = IndexMap::identity(kept);
  Dims keptDims(loops.begin(), loops.begin() + kept);
  step.outputs.push_back(makeAccess(rowMajorWindow(keptDims, keptMap), output, type, exprs));
  return Status::ok();
}

namespace {
/// Loops over all dims but `axis`, then over `axis`: outer loops (at least one),
/// and the map of a tensor of these dims.
std::pair<Dims, IndexMap> rowLoops(ArrayRef<DimExpr> dims, size_t axis) {
  Dims loops;
  for (size_t d = 0; d < dims.size(); ++d)
    if (d != axis)
      loops.push_back(dims[d]);
  if (loops.empty())
    loops.push_back(DimExpr(1));
  loops.push_back(dims[axis]);
  IndexMap map;
  map.loops = loops.size();
  for (size_t d = 0; d < dims.size(); ++d)
    map.dims.push_back(IndexForm::loop(map.loops, d == axis ? map.loops - 1 : d - (d > axis)));
  return {loops, map};
}
} // namespace

Status PlanEmitter::emitRows(Operation *root, RegionContext &context, uint32_t output) {
  Value x = root->getOperand(0);
  Dims dims = reader.dims(x);
  ElementType type = elementTypeOf(root->getResult(0));
  Value scale, bias;
  double epsilon = 0;
  data::RowsKind kind = data::RowsKind::Softmax;
  size_t axis = 0;
  llvm::TypeSwitch<Operation *>(root)
      .Case<ir::SoftmaxOp>([&](ir::SoftmaxOp op) { axis = op.getAxis(); })
      .Case<ir::LogSoftmaxOp>([&](ir::LogSoftmaxOp op) {
        axis = op.getAxis();
        kind = data::RowsKind::LogSoftmax;
      })
      .Case<ir::LayerNormOp>([&](ir::LayerNormOp op) {
        axis = op.getAxis();
        kind = data::RowsKind::LayerNorm;
        scale = op.getScale();
        bias = op.getBias();
        epsilon = op.getEpsilon().convertToDouble();
      })
      .Case<ir::RmsNormOp>([&](ir::RmsNormOp op) {
        axis = op.getAxis();
        kind = data::RowsKind::RmsNorm;
        scale = op.getScale();
        epsilon = op.getEpsilon().convertToDouble();
      });

  bool norm = kind == data::RowsKind::LayerNorm || kind == data::RowsKind::RmsNorm;
  Dims rowDims;
  if (norm && axis + 1 < dims.size()) {
    // Several dims in one row: their values lie in one piece (the kernel former saw to it).
    if (!isa<BlockArgument>(x) || (scale && !isa<BlockArgument>(scale)) || (bias && !isa<BlockArgument>(bias)))
      return unsupported(root, "a row of several dims must be stored");
    rowDims.assign(dims.begin(), dims.begin() + axis);
    rowDims.push_back(elementCount(ArrayRef<DimExpr>(dims).drop_front(axis)));
  } else {
    rowDims = dims;
  }
  auto [loops, map] = rowLoops(rowDims, axis);
  IndexMap rowMap; // of scale and bias
  rowMap.loops = map.loops;
  rowMap.dims.push_back(IndexForm::loop(map.loops, map.loops - 1));

  data::StepT step;
  auto addInput = [&](Value value, ArrayRef<DimExpr> valueDims, const IndexMap &valueMap) -> Status {
    std::optional<Window> window;
    if (isa<BlockArgument>(value)) {
      window = rowMajorWindow(valueDims, valueMap);
      window->argument = value;
    } else {
      window = windowOf(value, valueMap, reader);
    }
    if (!window)
      return unsupported(root, "its operands must be stored");
    step.inputs.push_back(makeAccess(*window, context.bufferOf.lookup(window->argument), elementTypeOf(value), exprs));
    return Status::ok();
  };
  if (Status status = addInput(x, rowDims, map); !status)
    return status;
  Dims length{rowDims[axis]};
  if (scale)
    if (Status status = addInput(scale, length, rowMap); !status)
      return status;
  if (bias)
    if (Status status = addInput(bias, length, rowMap); !status)
      return status;
  data::StepT &added = addStep(data::Family::Rows, loops);
  added.inputs = std::move(step.inputs);
  added.outputs.push_back(makeAccess(rowMajorWindow(rowDims, map), output, type, exprs));
  added.rows = kind;
  added.epsilon = epsilon;
  added.has_scale = static_cast<bool>(scale);
  added.has_bias = static_cast<bool>(bias);
  added.accumulator = accumulatorOf(type);
  return Status::ok();
}

Status PlanEmitter::emitScan(ir::CumSumOp scan, RegionContext &context, uint32_t output) {
  Dims dims = reader.dims(scan.getInput());
  auto [loops, map] = rowLoops(dims, scan.getAxis());
  std::optional<Window> window = windowOf(scan.getInput(), map, reader);
  if (!window)
    return unsupported(scan, "its operand must be stored");
  ElementType type = elementTypeOf(scan.getResult());
  data::StepT &step = addStep(data::Family::Scan, loops);
  step.inputs.push_back(makeAccess(*window, context.bufferOf.lookup(window->argument), type, exprs));
  step.outputs.push_back(makeAccess(rowMajorWindow(dims, map), output, type, exprs));
  step.exclusive = scan.getExclusive();
  step.reverse = scan.getReverse();
  step.accumulator = accumulatorOf(type);
  return Status::ok();
}

/// Where b does not move with the batch, (batch, row) is one longer loop of rows
/// if every other operand walks it in equal strides: [B, S, K] by a weight.
void PlanEmitter::mergeBatchIntoRows(data::StepT &step) {
  while (step.iteration.size() > 2) {
    size_t batch = step.iteration.size() - 3, row = batch + 1;
    DimExpr rows = exprs.expr(step.iteration[row]);
    std::function<bool(const data::AccessT &)> merges = [&](const data::AccessT &access) {
      if (!access.broadcast.empty() && (access.broadcast[batch] || access.broadcast[row]))
        return false;
      if (exprs.expr(access.strides[batch]) != rows * exprs.expr(access.strides[row]))
        return false;
      return llvm::all_of(access.indices, [&](const auto &index) { return merges(*index); });
    };
    auto still = [&](const data::AccessT &access) {
      return exprs.expr(access.strides[batch]) == DimExpr(0) && merges(access);
    };
    if (!still(*step.inputs[1]) || !llvm::all_of(step.inputs, [&](const auto &input) { return merges(*input); }) ||
        !llvm::all_of(step.outputs, [&](const auto &access) { return merges(*access); }))
      return;
    std::function<void(data::AccessT &)> drop = [&](data::AccessT &access) {
      access.strides.erase(access.strides.begin() + batch);
      if (!access.broadcast.empty()) {
        access.broadcast.erase(access.broadcast.begin() + batch);
        access.extents.erase(access.extents.begin() + batch);
      }
      for (auto &index : access.indices)
        drop(*index);
    };
    for (auto &input : step.inputs)
      drop(*input);
    for (auto &access : step.outputs)
      drop(*access);
    step.iteration[row] = exprs.id(exprs.expr(step.iteration[batch]) * rows);
    step.iteration.erase(step.iteration.begin() + batch);
  }
}

Status PlanEmitter::emitMatmul(ir::KernelOp kernel, Value yielded, RegionContext &context, uint32_t output) {
  ir::MatmulOp matmul;
  kernel.getBody().walk([&](ir::MatmulOp op) { matmul = op; });
  Dims dims = reader.dims(matmul.getResult());
  Dims lhsDims = reader.dims(matmul.getLhs()), rhsDims = reader.dims(matmul.getRhs());
  size_t rank = dims.size();

  // Loops batch..., M, N, and K as one more for the operands alone.
  IndexMap whole = IndexMap::identity(rank + 1);
  auto operandMap = [&](ArrayRef<DimExpr> operandDims, const IndexForm &row, const IndexForm &column) {
    IndexMap batch;
    batch.loops = rank + 1;
    batch.dims.assign(whole.dims.begin(), whole.dims.begin() + rank - 2);
    IndexMap map = broadcastOperandMap(batch, ArrayRef<DimExpr>(dims).drop_back(2), operandDims.drop_back(2));
    map.dims.push_back(row);
    map.dims.push_back(column);
    return map;
  };
  const IndexForm &m = whole.dims[rank - 2], &n = whole.dims[rank - 1], &k = whole.dims[rank];
  std::optional<Window> a = windowOf(matmul.getLhs(), operandMap(lhsDims, m, k), reader);
  std::optional<Window> b = windowOf(matmul.getRhs(), operandMap(rhsDims, k, n), reader);
  if (!a || !b)
    return unsupported(matmul, "its operands must be stored");

  auto splitK = [&](Window &window) {
    DimExpr stride = window.strides.back();
    window.strides.pop_back();
    window.broadcast.pop_back();
    return stride;
  };
  DimExpr aK = splitK(*a), bK = splitK(*b);
  ElementType type = elementTypeOf(matmul.getResult()), accumulator = accumulatorOf(type);

  // A weight is packed once for all its users, when its strides are numbers and no batch moves it.
  uint32_t bBuffer = context.bufferOf.lookup(b->argument);
  ElementType bType = elementTypeOf(matmul.getRhs());
  data::BufferKind bKind = plan->buffers[bBuffer]->kind;
  bool packed = (bKind == data::BufferKind::Weight || bKind == data::BufferKind::Param) &&
                llvm::is_contained({ElementType::F32, ElementType::F16, ElementType::BF16, ElementType::I8}, bType) &&
                accumulator == ElementType::F32 && b->offset.isConstant() && bK.isConstant() &&
                b->strides[rank - 1].isConstant() && rhsDims[rhsDims.size() - 2].isConstant() &&
                rhsDims.back().isConstant();
  for (size_t i = 0; i + 1 < rank; ++i)
    packed &= b->strides[i] == DimExpr(0);
  if (packed) {
    auto buffer = std::make_unique<data::BufferT>(*plan->buffers[bBuffer]);
    buffer->layout = data::PackedLayout::Panels16;
    buffer->k = *rhsDims[rhsDims.size() - 2].constant();
    buffer->n = *rhsDims.back().constant();
    buffer->k_stride = *bK.constant();
    buffer->n_stride = *b->strides[rank - 1].constant();
    buffer->offset = *b->offset.constant();
    // Other kernels may want the same packing.
    uint32_t found = plan->buffers.size();
    for (uint32_t i = 0; i < plan->buffers.size(); ++i)
      if (*plan->buffers[i] == *buffer)
        found = i;
    if (found == plan->buffers.size())
      plan->buffers.push_back(std::move(buffer));
    bBuffer = found;
    b->offset = DimExpr(0);
    b->strides.assign(rank, DimExpr(0));
    b->broadcast.assign(rank, std::nullopt);
    bK = DimExpr(0);
  }

  ProgramBuilder program(context, rank);
  program.setAccumulator(matmul.getResult(), accumulator);
  uint16_t results[] = {program.pull(yielded, IndexMap::identity(rank))};
  if (program.failed())
    return program.error();
  data::StepT &step = addStep(data::Family::Matmul, dims);
  step.program = program.finish(results);
  step.results.assign(std::begin(results), std::end(results));
  step.inputs.push_back(makeAccess(*a, context.bufferOf.lookup(a->argument), elementTypeOf(matmul.getLhs()), exprs));
  step.inputs.push_back(makeAccess(*b, bBuffer, bType, exprs));
  for (std::unique_ptr<data::AccessT> &input : program.takeInputs())
    step.inputs.push_back(std::move(input));
  step.outputs.push_back(
      makeAccess(rowMajorWindow(dims, IndexMap::identity(rank)), output, elementTypeOf(kernel.getResult(0)), exprs));
  step.k = exprs.id(lhsDims.back());
  step.a_k_stride = exprs.id(aK);
  step.b_k_stride = exprs.id(bK);
  step.b_packed = packed;
  step.accumulator = accumulator;
  mergeBatchIntoRows(step);
  return Status::ok();
}

Status PlanEmitter::emitAttention(const AttentionParts &parts, RegionContext &context, uint32_t output) {
  ir::MatmulOp scores = parts.scores, values = parts.values;
  Dims dims = reader.dims(scores.getResult());
  size_t rank = dims.size();

  // Loops batch..., M, N, and one more along the elements of the operands' own rows.
  IndexMap whole = IndexMap::identity(rank + 1);
  IndexMap batch;
  batch.loops = rank + 1;
  batch.dims.assign(whole.dims.begin(), whole.dims.begin() + rank - 2);
  const IndexForm &m = whole.dims[rank - 2], &n = whole.dims[rank - 1], &element = whole.dims[rank];
  struct Side {
    Window window;
    DimExpr stride;
    ElementType type;
  };
  auto side = [&](Window window, ElementType type) {
    DimExpr stride = window.strides.back();
    window.strides.pop_back();
    window.broadcast.pop_back();
    return Side{std::move(window), stride, type};
  };
  SmallVector<Side, 4> sides;
  auto addOperand = [&](Value value, const IndexForm &row, const IndexForm &column) {
    Dims own = reader.dims(value);
    IndexMap map =
        broadcastOperandMap(batch, ArrayRef<DimExpr>(dims).drop_back(2), ArrayRef<DimExpr>(own).drop_back(2));
    map.dims.push_back(row);
    map.dims.push_back(column);
    std::optional<Window> window = windowOf(value, map, reader);
    if (window)
      sides.push_back(side(std::move(*window), elementTypeOf(value)));
    return window.has_value();
  };
  if (!addOperand(scores.getLhs(), m, element) || !addOperand(scores.getRhs(), element, n) ||
      !addOperand(values.getRhs(), n, element))
    return unsupported(values, "its operands must be stored");

  IndexMap result = batch;
  result.dims.push_back(m);
  result.dims.push_back(element);
  Value yielded = values.getResult();
  if (parts.transpose) {
    IndexMap untransposed = result;
    for (auto [i, axis] : llvm::enumerate(ir::TransposeOp(parts.transpose).getPermutation()))
      result.dims[i] = untransposed.dims[axis];
    yielded = ir::TransposeOp(parts.transpose).getResult();
  }
  sides.push_back(side(rowMajorWindow(reader.dims(yielded), result), elementTypeOf(yielded)));

  ProgramBuilder program(context, rank);
  program.setAccumulator(scores.getResult(), ElementType::F32);
  uint16_t results[] = {program.pull(ir::SoftmaxOp(parts.softmax).getInput(), IndexMap::identity(rank))};
  if (program.failed())
    return program.error();
  data::StepT &step = addStep(data::Family::Attention, dims);
  step.program = program.finish(results);
  step.results.assign(std::begin(results), std::end(results));
  for (size_t i = 0; i < 3; ++i)
    step.inputs.push_back(
        makeAccess(sides[i].window, context.bufferOf.lookup(sides[i].window.argument), sides[i].type, exprs));
  for (std::unique_ptr<data::AccessT> &input : program.takeInputs())
    step.inputs.push_back(std::move(input));
  step.outputs.push_back(makeAccess(sides[3].window, output, sides[3].type, exprs));
  step.k = exprs.id(reader.dims(scores.getLhs()).back());
  step.d = exprs.id(reader.dims(values.getRhs()).back());
  step.a_k_stride = exprs.id(sides[0].stride);
  step.b_k_stride = exprs.id(sides[1].stride);
  step.v_stride = exprs.id(sides[2].stride);
  step.output_stride = exprs.id(sides[3].stride);
  step.zero_nan = parts.zeroNaN;
  return Status::ok();
}

/// Is the op that a kernel of this family is built around where it must be?
bool hasHeart(ir::KernelOp kernel, Operation *root) {
  switch (kernel.getFamily()) {
  case ir::KernelFamily::Loops:
    return true;
  case ir::KernelFamily::Reduce:
    return isa<ir::ReduceOp>(root);
  case ir::KernelFamily::Rows:
    return isa<ir::SoftmaxOp, ir::LogSoftmaxOp, ir::LayerNormOp, ir::RmsNormOp>(root);
  case ir::KernelFamily::Scan:
    return isa<ir::CumSumOp>(root);
  case ir::KernelFamily::Matmul:
    return llvm::hasSingleElement(kernel.getBody().getOps<ir::MatmulOp>());
  case ir::KernelFamily::Attention:
    return attentionParts(kernel).has_value();
  }
  return false;
}

Status PlanEmitter::emitKernel(ir::KernelOp kernel) {
  Operation *yield = kernel.getBody().front().getTerminator();
  Value yielded = yield->getOperand(0);
  Operation *root = yielded.getDefiningOp();
  if (!root)
    return unsupported(kernel, "a kernel that computes nothing");
  if (!hasHeart(kernel, root))
    return unsupported(root, "not what a kernel of family '" + ir::stringifyKernelFamily(kernel.getFamily()).str() +
                                 "' is built around");

  node = nodeName(kernel.getFamily() == ir::KernelFamily::Attention ? attentionParts(kernel)->values : root);
  std::vector<std::string> risky;
  kernel.getBody().walk([&](Operation *op) {
    if (canFail(op))
      risky.push_back(nodeName(op));
  });
  if (!risky.empty()) {
    node = risky[0];
    for (size_t i = 1; i < risky.size() && i < 4; ++i)
      node += " or " + risky[i];
  }

  // Inputs before the output, so that buffers are numbered in the order of their first use.
  RegionContext context{reader, exprs, llvm::DenseMap<Value, uint32_t>(), [this] { return runState(); }};
  for (auto [argument, input] : llvm::zip_equal(kernel.getBody().getArguments(), kernel.getInputs())) {
    Result<uint32_t> buffer = bufferOf(input);
    if (!buffer)
      return buffer.takeError();
    context.bufferOf[argument] = *buffer;
  }
  // A value that exists only inside the kernel has a size all the same: one that does not fit 64 bits is an error at
  // every binding, from a template as from scratch, and not a loop that never ends.
  kernel.getBody().walk([&](Operation *op) {
    for (Value value : op->getResults())
      exprs.id(elementCount(reader.dims(value)) *
               DimExpr(ir::elementBytes(cast<RankedTensorType>(value.getType()).getElementType())));
  });
  std::optional<BufferPlan> memory = bufferPlan(kernel, 0);
  if (!memory)
    return Error{ErrorCode::Internal, "node '" + node + "' has no buffer: run rlx-plan-memory first"};
  Value result = kernel.getResult(0);
  uint32_t output = addBuffer(memory->output ? data::BufferKind::Output : data::BufferKind::Arena,
                              elementTypeOf(result), elementCount(reader.dims(result)));
  if (memory->output)
    plan->buffers[output]->index = static_cast<uint32_t>(*memory->output);
  buffers[result] = output;

  switch (kernel.getFamily()) {
  case ir::KernelFamily::Loops:
    return emitLoops(root, context, output);
  case ir::KernelFamily::Reduce:
    return emitReduce(cast<ir::ReduceOp>(root), context, output);
  case ir::KernelFamily::Rows:
    return emitRows(root, context, output);
  case ir::KernelFamily::Scan:
    return emitScan(cast<ir::CumSumOp>(root), context, output);
  case ir::KernelFamily::Matmul:
    return emitMatmul(kernel, yielded, context, output);
  case ir::KernelFamily::Attention:
    return emitAttention(*attentionParts(kernel), context, output);
  }
  return unsupported(kernel, "an unknown kernel family");
}

/// Which outputs each step is needed for: an output needs the steps that write
/// its buffer, and what their inputs need.
void PlanEmitter::markNeeded() {
  size_t bytes = (plan->outputs.size() + 7) / 8;
  std::vector<std::vector<uint8_t>> bufferNeeded(plan->buffers.size(), std::vector<uint8_t>(bytes, 0));
  for (size_t i = 0; i < plan->outputs.size(); ++i)
    bufferNeeded[plan->outputs[i]->buffer][i / 8] |= 1u << (i % 8);
  // A buffer written by several steps (concat) is needed as a whole, and nothing reads it before it is: one backward
  // sweep settles everything.
  for (size_t s = plan->steps.size(); s-- > 0;) {
    data::StepT &step = *plan->steps[s];
    step.needed.assign(bytes, 0);
    for (const auto &access : step.outputs)
      for (size_t b = 0; b < bytes; ++b)
        step.needed[b] |= bufferNeeded[access->buffer][b];
    std::function<void(const data::AccessT &)> spread = [&](const data::AccessT &access) {
      if (access.kind != data::AccessKind::Iota)
        for (size_t b = 0; b < bytes; ++b)
          bufferNeeded[access.buffer][b] |= step.needed[b];
      for (const auto &index : access.indices)
        spread(*index);
    };
    for (const auto &access : step.inputs)
      spread(*access);
    for (const auto &access : step.outputs)
      for (const auto &index : access->indices)
        spread(*index);
  }
}

Result<std::unique_ptr<data::PlanTemplateT>> PlanEmitter::run() {
  plan->guards = emitGuards(recordedQuestions(graph));
  // Lifetimes are counted in kernels until the steps of each are known.
  std::vector<std::pair<uint32_t, uint32_t>> stepsOf;
  std::vector<std::pair<uint32_t, BufferPlan>> lifetimes;
  for (Operation &op : graph.getBody().front().without_terminator()) {
    auto kernel = dyn_cast<ir::KernelOp>(op);
    if (!kernel)
      continue;
    uint32_t first = plan->steps.size();
    if (Status status = emitKernel(kernel); !status)
      return status.takeError();
    // A kernel of no values (an empty list of sizes) has no step.
    uint32_t count = plan->steps.size();
    stepsOf.emplace_back(std::min(first, count ? count - 1 : 0), count ? count - 1 : 0);
    if (std::optional<BufferPlan> memory = bufferPlan(kernel, 0); memory && !memory->output)
      lifetimes.emplace_back(buffers[kernel.getResult(0)], *memory);
  }
  for (auto &[buffer, memory] : lifetimes) {
    plan->buffers[buffer]->first_step = stepsOf[memory.first].first;
    plan->buffers[buffer]->last_step = stepsOf[memory.last].second;
  }
  // A value may differ from its promise in unit axes: what is reported is the promise.
  for (auto [value, promised] :
       llvm::zip_equal(graph.getBody().front().getTerminator()->getOperands(), graph.getResultTypes())) {
    Result<uint32_t> buffer = bufferOf(value);
    if (!buffer)
      return buffer.takeError();
    auto output = std::make_unique<data::OutputValueT>();
    output->buffer = *buffer;
    output->type = elementTypeOf(value);
    for (const DimExpr &dim : ir::getShape(cast<RankedTensorType>(promised)).dims)
      output->shape.push_back(exprs.id(facts.simplify(dim)));
    plan->outputs.push_back(std::move(output));
  }
  readLookupsFromPanels(*plan, exprs);
  markNeeded();
  uint32_t largest = exprs.id(DimExpr(0));
  for (const auto &buffer : plan->buffers)
    largest = exprs.max(largest, buffer->elements);
  plan->max_buffer = largest;
  if (!exprs.unknownName().empty())
    return Error{ErrorCode::Internal, "dim '" + exprs.unknownName() + "' is not declared by the graph"};
  plan->exprs = exprs.take();
  return std::move(plan);
}

} // namespace

Result<std::unique_ptr<data::PlanTemplateT>> emitPlan(ir::GraphOp graph) { return PlanEmitter(graph).run(); }

namespace {
std::unique_ptr<data::TensorSpecT> tensorSpec(std::string name, Type type) {
  auto tensor = cast<RankedTensorType>(type);
  auto spec = std::make_unique<data::TensorSpecT>();
  spec->name = std::move(name);
  spec->type = *ir::toElementType(tensor.getElementType());
  for (const DimExpr &dim : ir::getShape(tensor).dims)
    spec->shape.push_back(dim.str());
  return spec;
}
} // namespace

Result<data::ModelSignatureT> emitSignature(ir::GraphOp graph) {
  data::ModelSignatureT signature;
  signature.name = graph.getSymName().str();
  for (ir::DimDeclAttr decl : graph.getDimDecls()) {
    auto dim = std::make_unique<data::DimT>();
    dim->name = decl.getName().str();
    dim->min = decl.getMin();
    dim->max = decl.getMax();
    dim->multiple = decl.getMultiple();
    dim->likely.assign(decl.getLikely().begin(), decl.getLikely().end());
    std::optional<std::string> obstacle = transforms::paddingObstacle(graph, decl.getName());
    dim->paddable = !obstacle;
    dim->obstacle = obstacle.value_or("");
    signature.dims.push_back(std::move(dim));
  }
  for (auto [i, argument] : llvm::enumerate(graph.getBody().getArguments()))
    signature.inputs.push_back(tensorSpec(graph.getInputName(i), argument.getType()));
  for (auto [i, type] : llvm::enumerate(graph.getResultTypes()))
    signature.outputs.push_back(tensorSpec(graph.getOutputName(i), type));
  std::set<std::string> seen;
  graph.getBody().walk([&](ir::ParamOp param) {
    if (seen.insert(param.getName().str()).second)
      signature.params.push_back(tensorSpec(param.getName().str(), param.getResult().getType()));
  });
  for (ir::ConstraintAttr attr : graph.getConstraintList()) {
    auto constraint = std::make_unique<data::ConstraintT>();
    constraint->predicate = std::make_unique<data::PredicateT>();
    constraint->predicate->kind = static_cast<data::PredicateKind>(attr.getPredicate().kind);
    constraint->predicate->lhs = attr.getPredicate().lhs.str();
    constraint->predicate->rhs = attr.getPredicate().rhs.str();
    constraint->message = attr.getMessage().str();
    signature.constraints.push_back(std::move(constraint));
  }
  return signature;
}

} // namespace rlx::codegen
