//===- Rows.cpp - softmax and normalisations over rows --------------------===//
//
// Each row takes a few sweeps. A sweep that sums (or takes the maximum) keeps
// kReduceLanes partial results, element i going to lane i mod kReduceLanes
// whatever the vector width is, so that a row's bits depend on its elements
// alone. A whole block of lanes is straight-line code; what is left at the end
// of a row is a loop of masked vectors, with the partial results in memory.
//
// Where rows lie side by side (a softmax over a middle axis), lanes are as many
// rows instead. The partial results of each are then kReduceLanes vectors in
// memory, and combined as those of one row are: the bits are the same.
//
//===----------------------------------------------------------------------===//
#include "rlx/Codegen/ElementProgram.h"
#include "rlx/Codegen/Families.h"
#include "rlx/Codegen/Math.h"

#include "llvm/IR/Intrinsics.h"

using namespace llvm;

namespace rlx {

using data::ElementType;
using data::InnerMode;
using data::Opcode;
using data::RowsKind;

namespace {

using Values = Emitter::Values;

/// One operand's row.
struct Row {
  Value *base = nullptr; ///< first element
  ElementType type = ElementType::F32;
  InnerMode mode = InnerMode::Contiguous;
  Value *stride = nullptr; ///< used by Strided
  Value *pitch = nullptr;  ///< to the row beside it; null for scale and bias, which are the same for every row
};

class RowsBuilder {
public:
  RowsBuilder(Emitter &e, const data::KernelSpecT &spec)
      : e(e), b(e.b), spec(spec), compute(computeType(spec.inputs[0]->type)),
        // One register of floats where there are 16, which halves the instructions.
        W(e.hasAVX512 && compute == ElementType::F32 ? 16 : 8), kParts(static_cast<unsigned>(kReduceLanes) / W) {}

  Status emit();

private:
  /// Takes the accumulator of one vector, gives its next state. `mask` is
  /// null where all lanes hold elements of the row.
  using Body = function_ref<Value *(Value *position, Value *mask, Value *accumulator)>;

  Values accumulate(Value *init, Body body);
  void each(function_ref<void(Value *position, Value *mask)> body);
  Value *combine(ArrayRef<Value *> parts, function_ref<Value *(Value *, Value *)> join);
  Value *addAll(ArrayRef<Value *> parts) {
    return combine(parts, [&](Value *x, Value *y) { return b.CreateFAdd(x, y); });
  }

  /// How many of the W elements from `position` on the row has.
  Value *lanesFrom(Value *position) {
    return b.CreateBinaryIntrinsic(Intrinsic::smin, b.CreateSub(length, position), e.i64(W));
  }
  Value *pointerAt(const Row &row, Value *position);
  Value *load(const Row &row, Value *position, Value *mask);
  void store(const Row &row, Value *position, Value *value, Value *mask);
  void storeResult(Value *position, Value *value, Value *mask);

  void softmax(bool logarithm);
  void layerNorm();
  void rmsNorm();
  Value *scaled(Value *value, Value *position, Value *mask);
  Value *meanOf(Value *sum) { return b.CreateFDiv(sum, forRows(floatLength)); }
  Value *reciprocalRoot(Value *variance);

  Type *laneType() { return e.laneType(compute); }
  Value *constant(double value, unsigned lanes) { return e.splat(ConstantFP::get(laneType(), value), lanes); }
  Value *select(Value *mask, Value *value, Value *otherwise) {
    return mask ? b.CreateSelect(mask, value, otherwise) : value;
  }
  /// What is alike for all rows, as one value for each row at hand.
  Value *forRows(Value *scalar) { return e.splat(scalar, sideBySide ? W : 1); }
  /// One value for each row at hand, in the lanes it belongs to.
  Value *toLanes(Value *ofRow) { return sideBySide ? ofRow : e.splat(ofRow, W); }

  Emitter &e;
  IRBuilder<> &b;
  const data::KernelSpecT &spec;
  ElementType compute;
  unsigned W, kParts;
  Row x, scale, bias, out;
  Value *length = nullptr, *wholeLength = nullptr, *floatLength = nullptr, *epsilon = nullptr;
  Value *rowIndex = nullptr;
  bool sideBySide = false; ///< lanes are rows
  Value *accumulatorRoom = nullptr, *elementRoom = nullptr;
};

/// Runs over the row with an accumulator in each of its vectors; gives their last states.
Values RowsBuilder::accumulate(Value *init, Body body) {
  Type *vector = e.lanes(compute, W);
  auto place = [&](Value *part) { return b.CreateGEP(vector, accumulatorRoom, part); };
  if (sideBySide) {
    e.forLoop(e.i64(0), e.i64(kReduceLanes), e.i64(1), [&](Value *part) { b.CreateStore(init, place(part)); });
    e.forLoop(e.i64(0), length, e.i64(1), [&](Value *i) {
      Value *at = place(b.CreateAnd(i, e.i64(kReduceLanes - 1)));
      b.CreateStore(body(i, nullptr, b.CreateLoad(vector, at)), at);
    });
    Values result;
    for (int64_t part = 0; part < kReduceLanes; ++part)
      result.push_back(b.CreateLoad(vector, place(e.i64(part))));
    return result;
  }
  Values start(kParts, init);
  Values whole = e.forLoop(e.i64(0), wholeLength, e.i64(kReduceLanes), start, [&](Value *i, ArrayRef<Value *> now) {
    Values next;
    for (unsigned part = 0; part < kParts; ++part)
      next.push_back(body(b.CreateAdd(i, e.i64(static_cast<int64_t>(part * W))), nullptr, now[part]));
    return next;
  });
  return e.ifThenElse(
      b.CreateICmpSLT(wholeLength, length),
      [&] {
        for (unsigned part = 0; part < kParts; ++part)
          b.CreateStore(whole[part], place(e.i64(part)));
        e.forLoop(wholeLength, length, e.i64(W), [&](Value *i) {
          Value *at = place(b.CreateLShr(b.CreateSub(i, wholeLength), Log2_32(W)));
          b.CreateStore(body(i, e.tailMask(b.CreateSub(length, i), W), b.CreateLoad(vector, at)), at);
        });
        Values result;
        for (unsigned part = 0; part < kParts; ++part)
          result.push_back(b.CreateLoad(vector, place(e.i64(part))));
        return result;
      },
      [&] { return whole; });
}

/// Runs over the row, vector by vector.
void RowsBuilder::each(function_ref<void(Value *, Value *)> body) {
  if (sideBySide)
    return e.forLoop(e.i64(0), length, e.i64(1), [&](Value *i) { body(i, nullptr); });
  Value *whole = b.CreateAnd(length, e.i64(-static_cast<int64_t>(W)));
  e.forLoop(e.i64(0), whole, e.i64(W), [&](Value *i) { body(i, nullptr); });
  e.ifThen(b.CreateICmpSLT(whole, length), [&] { body(whole, e.tailMask(b.CreateSub(length, whole), W)); });
}

/// Joins the kReduceLanes partial results as a tree: lane l with lane l + 16,
/// then l + 8, and so on. Gives one value for each row at hand.
Value *RowsBuilder::combine(ArrayRef<Value *> parts, function_ref<Value *(Value *, Value *)> join) {
  Values level(parts.begin(), parts.end());
  while (level.size() > 1) {
    size_t half = level.size() / 2;
    for (size_t i = 0; i < half; ++i)
      level[i] = join(level[i], level[i + half]);
    level.resize(half);
  }
  Value *value = level[0];
  if (sideBySide)
    return value;
  for (unsigned width = W / 2; width >= 1; width /= 2) {
    SmallVector<int, 16> low, high;
    for (unsigned lane = 0; lane < width; ++lane) {
      low.push_back(static_cast<int>(lane));
      high.push_back(static_cast<int>(lane + width));
    }
    value = join(b.CreateShuffleVector(value, low), b.CreateShuffleVector(value, high));
  }
  return b.CreateExtractElement(value, uint64_t(0));
}

Value *RowsBuilder::pointerAt(const Row &row, Value *position) {
  Value *offset = row.mode == InnerMode::Contiguous ? position
                  : row.mode == InnerMode::Splat    ? e.i64(0)
                                                    : b.CreateMul(position, row.stride);
  return e.elementPointer(row.base, row.type, offset);
}

/// W elements of a row in the type that is computed in; anything in lanes that
/// the mask leaves out.
Value *RowsBuilder::load(const Row &row, Value *position, Value *mask) {
  Value *value;
  if (sideBySide) {
    Value *pointer = pointerAt(row, position);
    value = row.pitch ? e.load(pointer, row.type, W) : e.splat(e.load(pointer, row.type, 1), W);
  } else if (row.mode == InnerMode::Strided && mask) {
    // Lane by lane, as many as there are.
    Type *memory = e.memoryType(row.type);
    Value *count = lanesFrom(position);
    b.CreateStore(Constant::getNullValue(e.lanes(memory, W)), elementRoom);
    e.forLoop(e.i64(0), count, e.i64(1), [&](Value *lane) {
      Value *offset = b.CreateMul(b.CreateAdd(position, lane), row.stride);
      Value *element = e.load(e.elementPointer(row.base, row.type, offset), row.type, 1);
      e.store(e.elementPointer(elementRoom, row.type, lane), row.type, element, 1);
    });
    value = e.load(elementRoom, row.type, W);
  } else if (row.mode == InnerMode::Contiguous && mask) {
    value = e.maskedLoad(e.elementPointer(row.base, row.type, position), row.type, mask, W);
  } else {
    value = e.loadLanes(pointerAt(row, position), row.type, row.mode, row.stride, W);
  }
  return emitConvert(e, {value, row.type}, compute, W);
}

/// Stores W elements, which have the row's type.
void RowsBuilder::store(const Row &row, Value *position, Value *value, Value *mask) {
  if (row.mode == InnerMode::Strided && mask) {
    e.store(elementRoom, row.type, value, W);
    e.forLoop(e.i64(0), lanesFrom(position), e.i64(1), [&](Value *lane) {
      Value *element = e.load(e.elementPointer(elementRoom, row.type, lane), row.type, 1);
      Value *offset = b.CreateMul(b.CreateAdd(position, lane), row.stride);
      e.store(e.elementPointer(row.base, row.type, offset), row.type, element, 1);
    });
    return;
  }
  Value *pointer = pointerAt(row, position);
  if (sideBySide) {
    if (row.mode == InnerMode::Strided)
      return e.store(pointer, row.type, value, W);
    return e.stridedStore(pointer, row.type, value, row.pitch, W);
  }
  if (row.mode == InnerMode::Contiguous && mask)
    return e.maskedStore(pointer, row.type, value, mask, W);
  e.storeLanes(pointer, row.type, row.mode, row.stride, value, W);
}

/// The epilogue, then the store.
void RowsBuilder::storeResult(Value *position, Value *value, Value *mask) {
  SmallVector<Lanes> values = {{value, compute}};
  if (!spec.program.empty()) {
    Value *element = b.CreateAdd(b.CreateMul(rowIndex, length), position);
    emitProgram(e, spec.program, values, element, W, mask);
  }
  uint16_t result = spec.results.empty() ? 0 : spec.results[0];
  store(out, position, emitConvert(e, values[result], out.type, W), mask);
}

void RowsBuilder::softmax(bool logarithm) {
  Value *lowest = ConstantFP::getInfinity(laneType(), /*Negative=*/true);
  Value *lowestLanes = e.splat(lowest, W);
  // A comparison drops NaN, in one instruction; the sum below brings it back.
  auto larger = [&](Value *value, Value *old) { return b.CreateSelect(b.CreateFCmpOGT(value, old), value, old); };
  Values maxima = accumulate(lowestLanes, [&](Value *i, Value *mask, Value *now) {
    return larger(select(mask, load(x, i, mask), lowestLanes), now);
  });
  Value *maximum = toLanes(combine(maxima, larger));

  // What is below the normal numbers is 0: far below what a sum of at least 1 can tell, and slow. NaN passes.
  auto exponential = [&](Value *difference) { return math::expOfNegative(e, difference); };
  // The exponentials wait in the output where it holds them without rounding.
  bool kept = !logarithm && spec.program.empty() && out.type == compute &&
              out.mode != (sideBySide ? InnerMode::Contiguous : InnerMode::Splat);
  Values sums = accumulate(constant(0, W), [&](Value *i, Value *mask, Value *now) {
    Value *power = exponential(b.CreateFSub(load(x, i, mask), maximum));
    if (kept)
      store(out, i, power, mask);
    return b.CreateFAdd(now, select(mask, power, constant(0, W)));
  });
  Value *sum = addAll(sums);
  if (logarithm) {
    Value *logSum = toLanes(math::log(e, sum));
    each([&](Value *i, Value *mask) {
      storeResult(i, b.CreateFSub(b.CreateFSub(load(x, i, mask), maximum), logSum), mask);
    });
    return;
  }
  Value *factor = toLanes(b.CreateFDiv(ConstantFP::get(sum->getType(), 1), sum));
  each([&](Value *i, Value *mask) {
    Value *power = kept ? load(out, i, mask) : exponential(b.CreateFSub(load(x, i, mask), maximum));
    storeResult(i, b.CreateFMul(power, factor), mask);
  });
}

Value *RowsBuilder::reciprocalRoot(Value *variance) {
  Value *root = b.CreateUnaryIntrinsic(Intrinsic::sqrt, b.CreateFAdd(variance, forRows(epsilon)));
  return b.CreateFDiv(ConstantFP::get(root->getType(), 1), root);
}

Value *RowsBuilder::scaled(Value *value, Value *position, Value *mask) {
  if (spec.has_scale)
    value = b.CreateFMul(value, load(scale, position, mask));
  if (spec.has_bias)
    value = b.CreateFAdd(value, load(bias, position, mask));
  return value;
}

/// Two passes for mean and variance: exact enough where the mean is far larger
/// than the spread.
void RowsBuilder::layerNorm() {
  Values sums = accumulate(constant(0, W), [&](Value *i, Value *mask, Value *now) {
    return b.CreateFAdd(now, select(mask, load(x, i, mask), constant(0, W)));
  });
  Value *mean = toLanes(meanOf(addAll(sums)));
  Values squares = accumulate(constant(0, W), [&](Value *i, Value *mask, Value *now) {
    Value *centred = select(mask, b.CreateFSub(load(x, i, mask), mean), constant(0, W));
    return math::fma(e, centred, centred, now);
  });
  Value *factor = toLanes(reciprocalRoot(meanOf(addAll(squares))));
  each([&](Value *i, Value *mask) {
    Value *normal = b.CreateFMul(b.CreateFSub(load(x, i, mask), mean), factor);
    storeResult(i, scaled(normal, i, mask), mask);
  });
}

void RowsBuilder::rmsNorm() {
  Values squares = accumulate(constant(0, W), [&](Value *i, Value *mask, Value *now) {
    Value *value = select(mask, load(x, i, mask), constant(0, W));
    return math::fma(e, value, value, now);
  });
  Value *factor = toLanes(reciprocalRoot(meanOf(addAll(squares))));
  each([&](Value *i, Value *mask) { storeResult(i, scaled(b.CreateFMul(load(x, i, mask), factor), i, mask), mask); });
}

Status RowsBuilder::emit() {
  unsigned rank = spec.rank;
  SmallVector<Value *, 8> extents;
  for (unsigned i = 0; i < rank; ++i)
    extents.push_back(e.integer(i));
  length = e.integer(rank);
  Value *wide = b.CreateBitCast(e.integer(rank + 1), b.getDoubleTy());
  epsilon = b.CreateFPCast(wide, laneType());
  wholeLength = b.CreateAnd(length, e.i64(-kReduceLanes));
  floatLength = b.CreateSIToFP(length, laneType());
  // Rows beside each other are seen from the strides; here is what it takes besides.
  bool mayLieSideBySide = spec.inputs[0]->inner == InnerMode::Strided && spec.outputs[0]->inner != InnerMode::Splat &&
                          !canFail(spec.program);
  accumulatorRoom = e.stackArray(laneType(), static_cast<uint64_t>(kReduceLanes) * (mayLieSideBySide ? W : 1));
  elementRoom = e.stackArray(b.getInt64Ty(), W);

  unsigned block = rank + 2, pointer = 0;
  auto place = [&](Row &row, const data::AccessSpecT &access, bool outer, unsigned &firstStride) {
    row.type = access.type;
    row.mode = access.inner;
    firstStride = block;
    row.base = e.pointer(pointer++);
    row.stride = e.integer(block + (outer ? rank : 0));
    if (outer)
      row.pitch = e.integer(block + rank - 1);
    block += outer ? rank + 1 : 1;
  };
  unsigned xStrides, outStrides, unused, input = 0;
  place(x, *spec.inputs[input++], true, xStrides);
  if (spec.has_scale)
    place(scale, *spec.inputs[input++], false, unused);
  if (spec.has_bias)
    place(bias, *spec.inputs[input++], false, unused);
  place(out, *spec.outputs[0], true, outStrides);
  Value *xBase = x.base, *outBase = out.base;

  auto computeRow = [&](ArrayRef<Value *> indices, Value *row) {
    rowIndex = row;
    x.base = e.elementPointer(xBase, x.type, e.linearOffset(indices, xStrides));
    out.base = e.elementPointer(outBase, out.type, e.linearOffset(indices, outStrides));
    switch (spec.rows) {
    case RowsKind::Softmax:
      return softmax(false);
    case RowsKind::LogSoftmax:
      return softmax(true);
    case RowsKind::LayerNorm:
      return layerNorm();
    case RowsKind::RmsNorm:
      return rmsNorm();
    }
  };
  if (!mayLieSideBySide) {
    e.forLoop(e.begin, e.end, e.i64(1), [&](Value *row) { computeRow(e.delinearize(row, extents), row); });
    e.finish();
    return Status::ok();
  }
  // Rows that differ in the last of the outer loops only go together; the last W of them end with the others.
  Value *along = extents.pop_back_val();
  Value *lastRun = b.CreateAdd(b.CreateSDiv(b.CreateSub(e.end, e.i64(1)), along), e.i64(1));
  e.forLoop(b.CreateSDiv(e.begin, along), lastRun, e.i64(1), [&](Value *run) {
    Value *start = b.CreateMul(run, along);
    Value *lo = b.CreateBinaryIntrinsic(Intrinsic::smax, b.CreateSub(e.begin, start), e.i64(0));
    Value *hi = b.CreateBinaryIntrinsic(Intrinsic::smin, b.CreateSub(e.end, start), along);
    Values outer = extents.empty() ? Values() : e.delinearize(run, extents);
    auto rowsFrom = [&](Value *at) {
      Values indices = outer;
      indices.push_back(at);
      computeRow(indices, b.CreateAdd(start, at));
    };
    Value *fits = b.CreateAnd(b.CreateICmpEQ(x.pitch, e.i64(1)), b.CreateICmpSGE(b.CreateSub(hi, lo), e.i64(W)));
    if (out.mode == InnerMode::Strided)
      fits = b.CreateAnd(fits, b.CreateICmpEQ(out.pitch, e.i64(1)));
    e.ifThenElse(
        fits,
        [&] {
          sideBySide = true;
          e.forLoop(lo, hi, e.i64(W), [&](Value *i) {
            rowsFrom(b.CreateBinaryIntrinsic(Intrinsic::smin, i, b.CreateSub(hi, e.i64(W))));
          });
          sideBySide = false;
          return Values();
        },
        [&] {
          e.forLoop(lo, hi, e.i64(1), rowsFrom);
          return Values();
        });
  });
  e.finish();
  return Status::ok();
}

} // namespace

Status emitRows(Emitter &e, const data::KernelSpecT &spec) {
  if (!isFloatType(spec.inputs[0]->type))
    return Error{ErrorCode::Unsupported,
                 std::string("rows kernel over ") + elementTypeName(spec.inputs[0]->type) + " elements"};
  return RowsBuilder(e, spec).emit();
}

} // namespace rlx
