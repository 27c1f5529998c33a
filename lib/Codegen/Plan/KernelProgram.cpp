//===- KernelProgram.cpp - accesses and element programs ------------------===//

#include "KernelProgram.h"

#include "rlx/Codegen/Plan/Questions.h"
#include "rlx/Data/Opcode.h"
#include "rlx/Dialect/RLX/IR/TensorShape.h"

#include "llvm/ADT/TypeSwitch.h"
#include "llvm/ADT/bit.h"

using namespace mlir;

namespace rlx::codegen {

using data::ElementType;
using data::Opcode;

namespace {
// While a program grows, its inputs are not all known yet: numbers of inputs and of the accumulator are marked, and
// renumbered by finish().
constexpr uint16_t kInput = 0x8000;
constexpr uint16_t kAccumulator = 0x7FFF;
} // namespace

ElementType elementTypeOf(Value value) {
  return *ir::toElementType(cast<RankedTensorType>(value.getType()).getElementType());
}

Window rowMajorWindow(ArrayRef<DimExpr> dims, const IndexMap &map) {
  Window window;
  window.strides.assign(map.loops, DimExpr(0));
  window.broadcast.assign(map.loops, std::nullopt);
  Dims strides = rowMajorStrides(dims);
  for (size_t d = 0; d < dims.size(); ++d) {
    window.offset = window.offset + map.dims[d].offset * strides[d];
    for (unsigned j = 0; j < map.loops; ++j) {
      if (map.dims[d].coefficients[j] == DimExpr(0))
        continue;
      window.strides[j] = window.strides[j] + map.dims[d].coefficients[j] * strides[d];
      if (map.dims[d].broadcast[j])
        window.broadcast[j] = map.dims[d].broadcast[j];
    }
  }
  return window;
}

std::optional<Window> windowOf(Value value, IndexMap map, const DimReader &reader) {
  while (Operation *op = value.getDefiningOp()) {
    std::optional<IndexMap> operandMap = viewOperandMap(op, map, reader);
    if (!operandMap)
      return std::nullopt;
    map = std::move(*operandMap);
    value = op->getOperand(0);
  }
  Window window = rowMajorWindow(reader.dims(value), map);
  window.argument = value;
  return window;
}

std::unique_ptr<data::AccessT> makeAccess(const Window &window, uint32_t buffer, ElementType type, ExprTable &exprs) {
  auto access = std::make_unique<data::AccessT>();
  access->kind = data::AccessKind::Direct;
  access->buffer = buffer;
  access->type = type;
  access->offset = exprs.id(window.offset);
  bool anyBroadcast = llvm::any_of(window.broadcast, [](const auto &own) { return own.has_value(); });
  for (size_t j = 0; j < window.strides.size(); ++j) {
    access->strides.push_back(exprs.id(window.strides[j]));
    if (anyBroadcast) {
      access->broadcast.push_back(window.broadcast[j].has_value());
      access->extents.push_back(exprs.id(window.broadcast[j].value_or(DimExpr(0))));
    }
  }
  return access;
}

std::unique_ptr<data::AccessT> makeIndexedAccess(Window data, uint32_t buffer, ElementType type, const LookupMaps &maps,
                                                 RegionContext &context) {
  // The loops after those of the indices are the axes that the indices move along.
  size_t loops = data.strides.size() - maps.indices.size();
  SmallVector<DimExpr> axisStrides(data.strides.begin() + loops, data.strides.end());
  data.strides.resize(loops);
  data.broadcast.resize(loops);
  std::unique_ptr<data::AccessT> access = makeAccess(data, buffer, type, context.exprs);
  access->kind = data::AccessKind::Indexed;
  for (auto [index, extent, axisStride] : llvm::zip_equal(maps.indices, maps.extents, axisStrides)) {
    std::optional<Window> window = windowOf(index.first, index.second, context.reader);
    if (!window)
      return nullptr;
    access->indices.push_back(
        makeAccess(*window, context.bufferOf.lookup(window->argument), elementTypeOf(index.first), context.exprs));
    access->axis_extents.push_back(context.exprs.id(extent));
    access->axis_strides.push_back(context.exprs.id(axisStride));
  }
  return access;
}

namespace {
/// The same map over more loops, which it does not depend on.
IndexMap widen(const IndexMap &map, unsigned extra) {
  IndexMap wide = map;
  wide.loops += extra;
  for (IndexForm &form : wide.dims) {
    form.coefficients.resize(wide.loops, DimExpr(0));
    form.broadcast.resize(wide.loops, std::nullopt);
  }
  return wide;
}

IndexForm constantForm(unsigned loops, DimExpr value) {
  IndexForm form = IndexForm::zero(loops);
  form.offset = std::move(value);
  return form;
}
} // namespace

LookupMaps lookupMaps(Operation *op, const IndexMap &map, const DimReader &reader) {
  LookupMaps maps;
  unsigned loops = map.loops;
  // Operands 0 and 1 of all of them: what is looked up in, and the indices.
  Value indices = op->getOperand(1);
  Dims dims = reader.dims(op->getOperand(0)), indexDims = reader.dims(indices);
  size_t indexRank = indexDims.size();
  // One index a point of `map`, along `axis`.
  auto alongAxis = [&](size_t axis) {
    maps.data = widen(map, 1);
    maps.data.dims[axis] = IndexForm::loop(maps.data.loops, loops);
    maps.indices.push_back({indices, map});
    maps.extents.push_back(dims[axis]);
  };
  // A tuple of indices a point, for the axes after the first `batch`.
  auto byTuple = [&](size_t batch) {
    int64_t depth = *indexDims.back().constant();
    IndexMap wide = widen(map, depth);
    maps.data.loops = wide.loops;
    for (size_t d = 0; d < dims.size(); ++d) {
      if (d < batch)
        maps.data.dims.push_back(wide.dims[d]);
      else if (d < batch + depth)
        maps.data.dims.push_back(IndexForm::loop(wide.loops, loops + d - batch));
      else
        maps.data.dims.push_back(wide.dims[indexRank - 1 + d - batch - depth]);
    }
    for (int64_t j = 0; j < depth; ++j) {
      IndexMap index;
      index.loops = loops;
      for (size_t d = 0; d + 1 < indexRank; ++d)
        index.dims.push_back(map.dims[d]);
      index.dims.push_back(constantForm(loops, DimExpr(j)));
      maps.indices.push_back({indices, index});
      maps.extents.push_back(dims[batch + j]);
    }
  };
  llvm::TypeSwitch<Operation *>(op)
      .Case<ir::GatherOp>([&](ir::GatherOp gather) {
        size_t axis = gather.getAxis();
        IndexMap wide = widen(map, 1);
        IndexMap index;
        maps.data.loops = wide.loops;
        index.loops = loops;
        for (size_t d = 0; d < dims.size(); ++d)
          maps.data.dims.push_back(d < axis    ? wide.dims[d]
                                   : d == axis ? IndexForm::loop(wide.loops, loops)
                                               : wide.dims[d - 1 + indexRank]);
        for (size_t d = 0; d < indexRank; ++d)
          index.dims.push_back(map.dims[axis + d]);
        maps.indices.push_back({indices, index});
        maps.extents.push_back(dims[axis]);
      })
      .Case<ir::GatherElementsOp, ir::ScatterElementsOp>([&](auto elements) { alongAxis(elements.getAxis()); })
      .Case<ir::GatherNDOp>([&](ir::GatherNDOp gather) { byTuple(gather.getBatchDims()); })
      .Case<ir::ScatterNDOp>([&](ir::ScatterNDOp) { byTuple(0); });
  return maps;
}

//===----------------------------------------------------------------------===//
// ProgramBuilder
//===----------------------------------------------------------------------===//

uint16_t ProgramBuilder::fail(Operation *op, const std::string &why) {
  if (failure.message.empty())
    failure = {ErrorCode::Unsupported, "node '" + nodeName(op) + "': " + why};
  return 0;
}

void ProgramBuilder::setAccumulator(Value value, ElementType type) {
  accumulator = value;
  uint16_t number = kAccumulator;
  // A narrow result is rounded once, where the accumulator leaves the loop.
  if (ElementType own = elementTypeOf(value); own != type)
    number = convert(number, type, own);
  pulled.push_back({value, {}, number});
}

uint16_t ProgramBuilder::emit(Opcode op, ElementType type, uint16_t a, uint16_t b, uint16_t c, uint64_t imm) {
  program.emplace_back(op, type, a, b, c, imm);
  return static_cast<uint16_t>(program.size() - 1);
}

uint16_t ProgramBuilder::convert(uint16_t number, ElementType from, ElementType to) {
  return from == to ? number : emit(Opcode::Convert, to, number);
}

uint16_t ProgramBuilder::constant(ElementType type, uint64_t bits) {
  return emit(Opcode::Constant, type, 0, 0, 0, bits);
}

uint16_t ProgramBuilder::addInput(std::unique_ptr<data::AccessT> access) {
  inputs.push_back(std::move(access));
  return kInput | static_cast<uint16_t>(inputs.size() - 1);
}

/// A size as a value: an iota that does not move.
uint16_t ProgramBuilder::expression(const DimExpr &value) {
  Window window;
  window.offset = value;
  window.strides.assign(loops, DimExpr(0));
  window.broadcast.assign(loops, std::nullopt);
  std::unique_ptr<data::AccessT> access = makeAccess(window, 0, ElementType::I64, context.exprs);
  access->kind = data::AccessKind::Iota;
  return addInput(std::move(access));
}

uint16_t ProgramBuilder::pull(Value value, const IndexMap &map) {
  for (const Pulled &known : pulled)
    if (known.value == value && (value == accumulator || known.map == map))
      return known.number;
  uint16_t number = pullUncached(value, map);
  pulled.push_back({value, map, number});
  return number;
}

uint16_t ProgramBuilder::pullUncached(Value value, const IndexMap &map) {
  const DimReader &reader = context.reader;
  if (std::optional<Window> window = windowOf(value, map, reader))
    return addInput(
        makeAccess(*window, context.bufferOf.lookup(window->argument), elementTypeOf(value), context.exprs));

  Operation *op = value.getDefiningOp();
  if (std::optional<IndexMap> operandMap = viewOperandMap(op, map, reader))
    return pull(op->getOperand(0), *operandMap);

  if (auto constantOp = dyn_cast<ir::ConstantOp>(op)) {
    auto dense = dyn_cast<DenseElementsAttr>(constantOp.getValue());
    if (!dense || !dense.isSplat())
      return fail(op, "a constant of several values must be stored");
    APInt bits = isa<FloatType>(dense.getElementType()) ? dense.getSplatValue<APFloat>().bitcastToAPInt()
                                                        : dense.getSplatValue<APInt>();
    return constant(elementTypeOf(value), bits.getZExtValue());
  }
  if (auto iota = dyn_cast<ir::IotaOp>(op)) {
    ArrayRef<DimExpr> startStep = iota.getStartStep().getDims();
    DimExpr start = reader.known().simplify(startStep[0]), step = reader.known().simplify(startStep[1]);
    const IndexForm &form = map.dims[iota.getAxis()];
    Window window;
    window.offset = start + step * form.offset;
    for (const DimExpr &coefficient : form.coefficients)
      window.strides.push_back(coefficient * step);
    window.broadcast = form.broadcast;
    std::unique_ptr<data::AccessT> access = makeAccess(window, 0, ElementType::I64, context.exprs);
    access->kind = data::AccessKind::Iota;
    return addInput(std::move(access));
  }
  if (auto dims = dyn_cast<ir::DimValuesOp>(op)) {
    if (dims.getValues().size() != 1)
      return fail(op, "several size values must be stored");
    return expression(reader.known().simplify(dims.getValues().getDims()[0]));
  }
  if (isa<ir::GatherOp, ir::GatherNDOp, ir::GatherElementsOp>(op))
    return pullLookup(op, map);
  if (isa<ir::RandomUniformOp, ir::RandomNormalOp>(op))
    return pullRandom(op, map);
  if (auto elementwise = dyn_cast<ir::ElementwiseOpInterface>(op)) {
    Dims resultDims = reader.dims(value);
    uint16_t numbers[3] = {0, 0, 0};
    if (op->getNumOperands() > 3)
      return fail(op, "has too many operands for an element program");
    for (auto [i, operand] : llvm::enumerate(op->getOperands()))
      numbers[i] = pull(operand, broadcastOperandMap(map, resultDims, reader.dims(operand)));
    Opcode code = elementwise.getOpcode();
    if (code == Opcode::Convert)
      return convert(numbers[0], elementTypeOf(op->getOperand(0)), elementTypeOf(value));
    return emit(code, elementTypeOf(value), numbers[0], numbers[1], numbers[2]);
  }
  return fail(op, "'" + op->getName().getStringRef().str() + "' has no kernel family");
}

uint16_t ProgramBuilder::pullLookup(Operation *op, const IndexMap &map) {
  const DimReader &reader = context.reader;
  LookupMaps maps = lookupMaps(op, map, reader);
  std::optional<Window> data = windowOf(op->getOperand(0), maps.data, reader);
  if (!data)
    return fail(op, "its data must be stored");
  std::unique_ptr<data::AccessT> access =
      makeIndexedAccess(*data, context.bufferOf.lookup(data->argument), elementTypeOf(op->getResult(0)), maps, context);
  if (!access)
    return fail(op, "its indices must be stored");
  return addInput(std::move(access));
}

uint16_t ProgramBuilder::pullRandom(Operation *op, const IndexMap &map) {
  // Element number e of the result, in row-major order.
  Window window = rowMajorWindow(context.reader.dims(op->getResult(0)), map);
  std::unique_ptr<data::AccessT> iota = makeAccess(window, 0, ElementType::I64, context.exprs);
  iota->kind = data::AccessKind::Iota;
  uint16_t element = convert(addInput(std::move(iota)), ElementType::I64, ElementType::U64);
  auto state = [&](int64_t offset) {
    Window scalar;
    scalar.offset = DimExpr(offset);
    scalar.strides.assign(loops, DimExpr(0));
    scalar.broadcast.assign(loops, std::nullopt);
    return addInput(makeAccess(scalar, context.runStateBuffer(), ElementType::U64, context.exprs));
  };
  uint16_t seed = state(0), step = state(1);
  auto f32 = [&](float value) { return constant(ElementType::F32, llvm::bit_cast<uint32_t>(value)); };
  // A word's upper 24 bits, as a multiple of 2^-24 in [0, 1).
  auto uniform = [&](uint16_t index, uint64_t key) {
    uint16_t word = emit(Opcode::Philox, ElementType::U32, index, seed, step, key);
    uint16_t bits = emit(Opcode::ShiftRight, ElementType::U32, word, constant(ElementType::U32, 8));
    return emit(Opcode::Mul, ElementType::F32, convert(bits, ElementType::U32, ElementType::F32), f32(0x1p-24f));
  };
  uint16_t result = 0;
  if (auto random = dyn_cast<ir::RandomUniformOp>(op)) {
    double low = random.getLow().convertToDouble(), high = random.getHigh().convertToDouble();
    uint16_t value = uniform(element, random.getKey());
    uint16_t scaled = emit(Opcode::Mul, ElementType::F32, value, f32(static_cast<float>(high - low)));
    result = emit(Opcode::Add, ElementType::F32, scaled, f32(static_cast<float>(low)));
  } else {
    auto normal = cast<ir::RandomNormalOp>(op);
    // Box-Muller on words (2p, 2p + 1): the even element takes the cosine, the odd one the sine.
    uint16_t one = constant(ElementType::U64, 1);
    uint16_t odd = emit(Opcode::And, ElementType::U64, element, one);
    uint16_t first = emit(Opcode::Sub, ElementType::U64, element, odd);
    uint16_t second = emit(Opcode::Add, ElementType::U64, first, one);
    uint16_t u = emit(Opcode::Max, ElementType::F32, uniform(first, normal.getKey()), f32(0x1p-24f));
    uint16_t angle = emit(Opcode::Mul, ElementType::F32, uniform(second, normal.getKey()), f32(6.283185307179586f));
    uint16_t logarithm = emit(Opcode::Log, ElementType::F32, u);
    uint16_t radius = emit(Opcode::Sqrt, ElementType::F32, emit(Opcode::Mul, ElementType::F32, logarithm, f32(-2.0f)));
    uint16_t isOdd = emit(Opcode::Equal, ElementType::I1, odd, one);
    uint16_t turn = emit(Opcode::Select, ElementType::F32, isOdd, emit(Opcode::Sin, ElementType::F32, angle),
                         emit(Opcode::Cos, ElementType::F32, angle));
    uint16_t standard = emit(Opcode::Mul, ElementType::F32, radius, turn);
    uint16_t scaled =
        emit(Opcode::Mul, ElementType::F32, standard, f32(static_cast<float>(normal.getScale().convertToDouble())));
    result = emit(Opcode::Add, ElementType::F32, scaled, f32(static_cast<float>(normal.getMean().convertToDouble())));
  }
  return convert(result, ElementType::F32, elementTypeOf(op->getResult(0)));
}

std::vector<data::Instr> ProgramBuilder::finish(MutableArrayRef<uint16_t> results) {
  uint16_t first = accumulator ? 1 : 0;
  auto renumber = [&](uint16_t number) -> uint16_t {
    if (number == kAccumulator)
      return 0;
    if (number & kInput)
      return first + (number & ~kInput);
    return first + inputs.size() + number;
  };
  std::vector<data::Instr> renumbered;
  for (const data::Instr &instr : program) {
    unsigned operands = operandCount(instr.op());
    renumbered.emplace_back(instr.op(), instr.type(), operands > 0 ? renumber(instr.a()) : 0,
                            operands > 1 ? renumber(instr.b()) : 0, operands > 2 ? renumber(instr.c()) : 0,
                            instr.imm());
  }
  for (uint16_t &result : results)
    result = renumber(result);
  return renumbered;
}

} // namespace rlx::codegen
