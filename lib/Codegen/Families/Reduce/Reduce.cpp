//===- Reduce.cpp - reductions --------------------------------------------===//
//
// Two schedules. reduce_inner: each result's row is spread over kReduceLanes
// partial results, element i to lane i mod kReduceLanes, combined in a tree at
// the end. Otherwise lanes are neighbouring results, and each takes its elements
// in order. In both the bits of a result depend on its own elements alone.
//
// Maxima and minima of f32 are taken among integers that are in the order of the
// numbers, where NaN and the sign of zero need no care: one instruction instead
// of a chain of several.
//
//===----------------------------------------------------------------------===//
#include "rlx/Codegen/Families.h"
#include "rlx/Codegen/Operand.h"

#include "llvm/IR/Intrinsics.h"

#include <limits>

using namespace llvm;

namespace rlx {

using data::AccessKind;
using data::ElementType;
using data::InnerMode;
using data::ReduceKind;

namespace {

class ReduceBuilder {
public:
  ReduceBuilder(Emitter &e, const data::KernelSpecT &spec)
      : e(e), b(e.b), spec(spec), sum(spec.accumulator),
        isOrdered(sum == ElementType::F32 && (spec.reduce == ReduceKind::Max || spec.reduce == ReduceKind::Min)),
        partial(isOrdered ? ElementType::I32 : sum), rank(spec.rank), reduced(spec.reduced), kept(rank - reduced) {}

  Status emit() {
    unsigned integer = rank, pointer = 0, number = 0;
    for (const auto &access : spec.inputs)
      inputs.emplace_back(e, *access, number++, rank, integer, pointer);
    output.emplace(e, *spec.outputs[0], number, kept, integer, pointer);
    std::vector<ElementType> types = {sum};
    for (const auto &access : spec.inputs)
      types.push_back(access->type);
    for (const data::Instr &instr : spec.program)
      types.push_back(instr.type());
    W = laneCount(e, types, spec.program);
    count = e.i64(1);
    for (unsigned loop = kept; loop < rank; ++loop)
      count = b.CreateMul(count, e.integer(loop));
    if (spec.reduce_inner)
      alongRows();
    else
      acrossColumns();
    e.finish();
    return Status::ok();
  }

private:
  /// One result, its row spread over lanes.
  void alongRows() {
    SmallVector<Value *, 8> extents;
    for (unsigned loop = 0; loop < kept; ++loop)
      extents.push_back(e.integer(loop));
    parts = e.stackArray(e.memoryType(partial), kReduceLanes);
    Value *length = e.integer(rank - 1);
    Value *whole = b.CreateAnd(length, e.i64(-kReduceLanes));
    unsigned width = static_cast<unsigned>(kReduceLanes) / W;
    e.forLoop(e.begin, e.end, e.i64(1), [&](Value *tile) {
      Emitter::Values indices = e.delinearize(tile, extents);
      for (unsigned part = 0; part < width; ++part)
        storePart(e.i64(part * W), identity(W), W);
      auto row = [&](Emitter::Values &all, Value *position) {
        all.push_back(nullptr);
        Value *element = b.CreateMul(position, length);
        enter(all, rank - 1, element);
        // Whole blocks of lanes in registers; then vectors, the last one short, with the partial results in memory.
        bool small = isSmall(spec.program);
        if (small) {
          e.ifThen(b.CreateICmpSGT(whole, e.i64(0)), [&] {
            Emitter::Values start;
            for (unsigned part = 0; part < width; ++part)
              start.push_back(loadPart(e.i64(part * W), W));
            Emitter::Values last =
                e.forLoop(e.i64(0), whole, e.i64(kReduceLanes), start, [&](Value *i, ArrayRef<Value *> now) {
                  Emitter::Values next;
                  for (unsigned part = 0; part < width; ++part) {
                    Value *at = b.CreateAdd(i, e.i64(part * W));
                    next.push_back(combine(now[part], value({at, b.CreateAdd(element, at), W})));
                  }
                  return next;
                });
            for (unsigned part = 0; part < width; ++part)
              storePart(e.i64(part * W), last[part], W);
          });
        }
        e.forLoop(small ? whole : e.i64(0), length, e.i64(W), [&](Value *i) {
          Value *left = b.CreateSub(length, i);
          Block block = {i, b.CreateAdd(element, i), W, b.CreateICmpSGE(left, e.i64(W)), left};
          Value *part = b.CreateAnd(i, e.i64(kReduceLanes - 1));
          Value *old = loadPart(part, W);
          storePart(part, b.CreateSelect(block.active(e), combine(old, value(block)), old), W);
        });
      };
      reducedLoops(indices, kept, rank - 1, tile, [&](Emitter::Values &all, Value *position) {
        if (!entryReads())
          return row(all, position);
        e.ifThen(b.CreateICmpSGT(length, e.i64(0)), [&] { row(all, position); });
      });
      // 32 lanes to 16, 8, 4, 2, 1: lane l takes lane l + half.
      Emitter::Values lanes;
      for (unsigned part = 0; part < width; ++part)
        lanes.push_back(loadPart(e.i64(part * W), W));
      for (unsigned half = width / 2; half; half /= 2) {
        for (unsigned part = 0; part < half; ++part)
          lanes[part] = combine(lanes[part], lanes[part + half]);
      }
      Value *vector = lanes[0];
      for (unsigned half = W / 2; half; half /= 2) {
        SmallVector<int, 32> low, high;
        for (unsigned lane = 0; lane < half; ++lane) {
          low.push_back(static_cast<int>(lane));
          high.push_back(static_cast<int>(lane + half));
        }
        vector = combine(b.CreateShuffleVector(vector, low), b.CreateShuffleVector(vector, high));
      }
      Value *result = b.CreateExtractElement(vector, uint64_t(0));
      Operand::Row place = output->enter(keptIndices(indices, nullptr), kept - 1, tile);
      finishResult(place, {indices[kept - 1], tile, 1}, result);
    });
  }

  /// Lanes are neighbours along the last kept loop. Several vectors of them at a time, where the program is small:
  /// their sums do not wait for each other, and what is read of a row is more than a line.
  void acrossColumns() {
    SmallVector<Value *, 8> extents;
    for (unsigned loop = 0; loop + 1 < kept; ++loop)
      extents.push_back(e.integer(loop));
    Value *columns = e.integer(kept - 1);
    bool small = isSmall(spec.program) && isSmall(spec.epilogue);
    int64_t wide = small ? kGroup * W : 0;
    e.forLoop(e.begin, e.end, e.i64(1), [&](Value *tile) {
      Emitter::Values indices = extents.empty() ? Emitter::Values() : e.delinearize(tile, extents);
      indices.push_back(nullptr);
      Value *firstResult = b.CreateMul(tile, columns);
      Operand::Row place = output->enter(indices, kept - 1, firstResult);
      Value *done = e.i64(0);
      if (small) {
        done = b.CreateAnd(columns, e.i64(-wide));
        e.forLoop(e.i64(0), done, e.i64(wide), [&](Value *column) {
          SmallVector<Block, kGroup> blocks;
          for (int64_t k = 0; k < kGroup; ++k) {
            Value *at = b.CreateAdd(column, e.i64(k * W));
            blocks.push_back({at, b.CreateAdd(firstResult, at), W});
          }
          Emitter::Values last = reduceColumns(indices, kept, blocks, Emitter::Values(kGroup, identity(W)));
          for (int64_t k = 0; k < kGroup; ++k)
            finishResult(place, blocks[k], last[k]);
        });
      }
      // The last block ends with the row and takes a few results again; a shorter row is one block of fewer lanes.
      Value *lastBlock = b.CreateSub(columns, e.i64(W));
      Value *full = b.CreateICmpSGE(lastBlock, e.i64(0));
      e.forLoop(done, columns, e.i64(W), [&](Value *column) {
        Value *at = b.CreateBinaryIntrinsic(Intrinsic::smax,
                                            b.CreateBinaryIntrinsic(Intrinsic::smin, column, lastBlock), e.i64(0));
        Block block = {at, b.CreateAdd(firstResult, at), W, full, columns};
        Emitter::Values last = reduceColumns(indices, kept, block, {identity(W)});
        finishResult(place, block, last[0]);
      });
    });
  }

  /// Loops over reduced loop `loop` and those inside it, for blocks of results. `element` of a block counts what is
  /// outside in row-major order.
  Emitter::Values reduceColumns(Emitter::Values &indices, unsigned loop, ArrayRef<Block> blocks,
                                ArrayRef<Value *> start) {
    if (loop == rank) {
      e.elementStride = count; // neighbours are a whole reduction apart
      enter(indices, kept - 1, blocks[0].element);
      Emitter::Values next;
      for (auto [block, sofar] : llvm::zip(blocks, start))
        next.push_back(combine(sofar, value(block)));
      e.elementStride = nullptr;
      return next;
    }
    Value *extent = e.integer(loop);
    SmallVector<Value *, kGroup> bases;
    for (const Block &block : blocks)
      bases.push_back(b.CreateMul(block.element, extent));
    return e.forLoop(e.i64(0), extent, e.i64(1), start, [&](Value *i, ArrayRef<Value *> now) {
      indices.push_back(i);
      SmallVector<Block, kGroup> inner(blocks);
      for (auto [block, base] : llvm::zip(inner, bases))
        block.element = b.CreateAdd(base, i);
      Emitter::Values next = reduceColumns(indices, loop + 1, inner, now);
      indices.pop_back();
      return next;
    });
  }

  /// Loops over the reduced loops from `loop` to before `last`.
  void reducedLoops(Emitter::Values indices, unsigned loop, unsigned last, Value *position,
                    function_ref<void(Emitter::Values &, Value *)> body) {
    if (loop == last) {
      body(indices, position);
      return;
    }
    Value *extent = e.integer(loop);
    Value *base = b.CreateMul(position, extent);
    e.forLoop(e.i64(0), extent, e.i64(1), [&](Value *i) {
      Emitter::Values inner = indices;
      inner.push_back(i);
      reducedLoops(inner, loop + 1, last, b.CreateAdd(base, i), body);
    });
  }

  /// Whether entering a row reads an index of it. A row of no elements has none, and its buffer may be empty.
  bool entryReads() const {
    return llvm::any_of(spec.inputs,
                        [](const auto &access) { return llvm::is_contained(access->index_inner, InnerMode::Splat); });
  }

  void enter(ArrayRef<Value *> indices, unsigned vectorLoop, Value *element) {
    rows.clear();
    for (Operand &input : inputs)
      rows.push_back(input.enter(indices, vectorLoop, element));
  }

  /// The elements that are reduced, in the accumulator's type.
  Value *value(const Block &block) {
    SmallVector<Lanes, 16> values;
    loadBlock(e, inputs, rows, block, values);
    emitProgram(e, spec.program, values, block.element, block.W, canFail(spec.program) ? block.active(e) : nullptr);
    Value *converted = emitConvert(e, values[spec.results[0]], sum, block.W);
    if (!isOrdered)
      return converted;
    // NaN is beyond all others.
    Value *order = turned(b.CreateBitCast(converted, e.lanes(b.getInt32Ty(), block.W)));
    uint32_t most = spec.reduce == ReduceKind::Max ? 0x7fffffff : 0x80000000;
    return b.CreateSelect(b.CreateFCmpUNO(converted, converted), ConstantInt::get(order->getType(), most), order);
  }

  /// From the bits of floats to integers in the same order, and back.
  Value *turned(Value *bits) {
    Value *negative = b.CreateAShr(bits, 31);
    return b.CreateXor(bits, b.CreateAnd(negative, ConstantInt::get(bits->getType(), 0x7fffffff)));
  }

  Value *combine(Value *x, Value *y) {
    switch (spec.reduce) {
    case ReduceKind::Sum:
      return isFloatType(sum) ? b.CreateFAdd(x, y) : b.CreateAdd(x, y);
    case ReduceKind::Prod:
      return isFloatType(sum) ? b.CreateFMul(x, y) : b.CreateMul(x, y);
    case ReduceKind::Max:
      return emitMax(e, x, y, partial);
    case ReduceKind::Min:
      return emitMin(e, x, y, partial);
    }
    llvm_unreachable("reduction");
  }

  Value *identity(unsigned lanes) {
    Type *type = e.laneType(sum);
    if (spec.reduce == ReduceKind::Sum)
      return e.splat(Constant::getNullValue(type), lanes);
    if (spec.reduce == ReduceKind::Prod)
      return e.splat(isFloatType(sum) ? ConstantFP::get(type, 1) : ConstantInt::get(type, 1), lanes);
    bool max = spec.reduce == ReduceKind::Max;
    if (isOrdered) // of the infinities
      return e.splat(b.getInt32(max ? 0x807fffff : 0x7f800000), lanes);
    if (isFloatType(sum))
      return e.splat(ConstantFP::getInfinity(type, max), lanes);
    unsigned width = type->getIntegerBitWidth();
    if (isUnsignedType(sum) || sum == ElementType::I1)
      return e.splat(ConstantInt::get(type, max ? APInt::getMinValue(width) : APInt::getMaxValue(width)), lanes);
    return e.splat(ConstantInt::get(type, max ? APInt::getSignedMinValue(width) : APInt::getSignedMaxValue(width)),
                   lanes);
  }

  void finishResult(const Operand::Row &place, const Block &block, Value *result) {
    if (isOrdered)
      result = b.CreateBitCast(turned(result), e.lanes(sum, block.W));
    SmallVector<Lanes, 8> values = {{result, sum}};
    Value *total = sum == ElementType::I1 ? b.getInt1(true) : emitConvert(e, {count, ElementType::I64}, sum, 1);
    values.push_back({e.splat(total, block.W), sum});
    emitProgram(e, spec.epilogue, values, block.element, block.W, canFail(spec.epilogue) ? block.active(e) : nullptr);
    Value *stored = emitConvert(e, values[spec.epilogue_result], output->type(), block.W);
    storeBlock(e, *output, place, block, data::Combine::Assign, stored);
  }

  /// The kept loops' indices with `last` at the vector loop.
  Emitter::Values keptIndices(ArrayRef<Value *> indices, Value *last) {
    Emitter::Values result(indices.begin(), indices.begin() + kept);
    result[kept - 1] = last;
    return result;
  }

  Value *loadPart(Value *lane, unsigned lanes) {
    return e.load(e.elementPointer(parts, partial, lane), partial, lanes);
  }
  void storePart(Value *lane, Value *value, unsigned lanes) {
    e.store(e.elementPointer(parts, partial, lane), partial, value, lanes);
  }

  /// Whether a program may be repeated for each vector of a block.
  static bool isSmall(ArrayRef<data::Instr> program) {
    using data::Opcode;
    return program.size() <= 3 && llvm::none_of(program, [](const data::Instr &instr) {
             return llvm::is_contained({Opcode::Mod, Opcode::Rem, Opcode::Pow, Opcode::Log, Opcode::Tanh, Opcode::Erf,
                                        Opcode::Sigmoid, Opcode::Sin, Opcode::Cos, Opcode::Gelu, Opcode::GeluTanh,
                                        Opcode::Philox},
                                       instr.op());
           });
  }
  /// Vectors of results at a time.
  static constexpr int64_t kGroup = 8;

  Emitter &e;
  IRBuilder<> &b;
  const data::KernelSpecT &spec;
  ElementType sum;
  bool isOrdered;
  ElementType partial; ///< what partial results are kept as
  unsigned rank, reduced, kept, W = 8;
  std::vector<Operand> inputs;
  std::optional<Operand> output;
  std::vector<Operand::Row> rows;
  Value *count = nullptr, *parts = nullptr;
};

} // namespace

Status emitReduce(Emitter &e, const data::KernelSpecT &spec) { return ReduceBuilder(e, spec).emit(); }

} // namespace rlx
