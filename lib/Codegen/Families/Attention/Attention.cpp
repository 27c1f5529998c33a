//===- Attention.cpp - softmax(program(q k^T)) v, a few rows at a time ----===//
//
// A tile is a block of queries of one batch index. A group of tiles walks the
// keys together: its scores stand in scratch, one row a query, take the program
// and the softmax there, and multiply with v. The keys are turned into panels of
// 16 columns and the rows of v into f32 by the first group of a batch index;
// where there is one group only, a panel at a time, which then stays in cache.
//
// One query a tile (row class 1) is bound by reading k and v: both are read once,
// where they lie, in the order in which they lie. A group is then one tile, or
// neighbouring tiles whose keys lie in the same rows.
//
// Rows of a tile that no query has repeat its last one, so that there is one
// micro-kernel. Each sum takes its elements in turn in one accumulator, whatever
// the block, the group or the tile: a row's bits do not depend on the others.
//
//===----------------------------------------------------------------------===//
#include "rlx/Codegen/ElementProgram.h"
#include "rlx/Codegen/Families.h"
#include "rlx/Codegen/Math.h"
#include "rlx/Codegen/Operand.h"

#include "llvm/IR/Intrinsics.h"

using namespace llvm;

namespace rlx {

using data::ElementType;
using data::InnerMode;

namespace {

using Values = Emitter::Values;

/// Lanes of everything: a panel's columns. What is shorter than that is two registers, with AVX2.
constexpr unsigned W = kPanel;
static_assert(kReduceLanes == 2 * W, "a row's sum is kept in two vectors");
/// Rows of k are turned into columns in squares of so many.
constexpr unsigned S = 8;
/// Columns of v that one query takes at least at a time: as many sums as keep the multiply-adds busy.
constexpr unsigned kValueColumns = 4 * W;
/// Squares of keys that one query takes at a time. More would hide more of the sums' latency, but long rows, and those
/// that are asked for meanwhile, are to have room in the first cache together.
constexpr unsigned kSquares = 2;
/// Rows of v that the tiles of a group take in turn where they lie in the same rows.
constexpr unsigned kSharedRows = 8;
constexpr unsigned kLine = 64; ///< bytes of a cache line

class AttentionBuilder {
public:
  AttentionBuilder(Emitter &e, const data::KernelSpecT &spec)
      : e(e), b(e.b), spec(spec), batchRank(spec.batch_rank), rows(spec.row_class) {}

  Status emit();

private:
  void arguments();
  Values group(ArrayRef<Value *> state);
  Values groupOfOnes(ArrayRef<Value *> state);
  void placeQueries();
  void packKeys(Value *firstKey, Value *panel);
  void transpose(MutableArrayRef<Value *> square);
  void scoreKeys(Value *done);
  void scoreKeysOfOnes();
  void sumValues(Value *done, Value *sums, Value *sumPitch);
  void sumValuesOfOnes(Value *columns);
  void packValues(Value *firstKey, Value *keys, Value *to);
  void multiply(Value *left, Value *leftPitch, Value *right, Value *rightPitch, Value *length, Value *sums,
                Value *sumPitch, Value *goesOn = nullptr);
  void softmax(Value *firstRow, Value *count);
  void storeOutput(Value *query, Value *sums);

  /// Walks `length` elements of an operand's row, W at a time.
  void eachBlock(Value *length, function_ref<void(const Block &)> body);
  /// Its rows are what packing would make of them.
  bool isPlain(unsigned operand) const {
    const data::AccessSpecT &access = operand == 3 ? *spec.outputs[0] : *spec.inputs[operand];
    return access.type == ElementType::F32 && access.inner == InnerMode::Contiguous;
  }
  /// Between the rows of q, k, v or the output (0 to 3): their strides stand behind the sizes.
  Value *rowStrideOf(unsigned operand) { return e.integer(batchRank + 4 + operand * (batchRank + 2) + batchRank); }
  Operand::Row enter(Operand &operand, Value *outer, bool preload = false);
  Value *loadWide(Operand &operand, const Operand::Row &row, const Block &block);

  Value *at(Value *base, Value *offset) { return e.elementPointer(base, ElementType::F32, offset); }
  Value *loadLanes(Value *from) { return e.load(from, ElementType::F32, W); }
  void storeLanes(Value *to, Value *value) { e.store(to, ElementType::F32, value, W); }
  Value *least(Value *x, Value *y) { return b.CreateBinaryIntrinsic(Intrinsic::smin, x, y); }
  Value *panelsOf(Value *size) { return b.CreateLShr(b.CreateAdd(size, e.i64(W - 1)), Log2_32(W)); }
  Value *padded(Value *size) { return b.CreateShl(panelsOf(size), Log2_32(W)); }
  Value *times(Value *x, Value *y) { return b.CreateMul(x, y); }
  /// Into the caches; what is not there is no fault.
  void prefetch(Value *pointer) {
    b.CreateIntrinsic(Intrinsic::prefetch, {b.getPtrTy()}, {pointer, b.getInt32(0), b.getInt32(3), b.getInt32(1)});
  }
  Value *fma(Value *x, Value *y, Value *sum) { return b.CreateIntrinsic(Intrinsic::fma, {x->getType()}, {x, y, sum}); }
  template <typename Join> Value *combine(Value *lanes, Join join);

  Emitter &e;
  IRBuilder<> &b;
  const data::KernelSpecT &spec;
  unsigned batchRank, rows;

  Value *M = nullptr, *N = nullptr, *K = nullptr, *D = nullptr;
  Value *paddedK = nullptr, *paddedN = nullptr, *paddedD = nullptr, *scorePitch = nullptr;
  Value *blocks = nullptr;   ///< tiles of a batch index
  Value *oneGroup = nullptr; ///< i1: they are one group
  Value *keyRoom = nullptr, *valueRoom = nullptr, *scoreRoom = nullptr, *queryRoom = nullptr, *outputRoom = nullptr;
  SmallVector<Operand, 8> operands; ///< q, k, v, output, the program's inputs

  // Of the group at hand.
  Values batch;
  Value *batchIndex = nullptr, *firstQuery = nullptr, *tiles = nullptr;
  Value *queries = nullptr, *queryPitch = nullptr;
  Value *first = nullptr; ///< i1: its keys and values are still to be packed
  /// Of groups of ones: where the first row of k and v of each tile lies.
  Value *keyRows = nullptr, *valueRows = nullptr;
};

void AttentionBuilder::arguments() {
  M = e.integer(batchRank);
  N = e.integer(batchRank + 1);
  K = e.integer(batchRank + 2);
  D = e.integer(batchRank + 3);
  unsigned integer = batchRank + 4, pointer = 0, loops = batchRank + 2;
  for (unsigned i = 0; i < 3; ++i)
    operands.emplace_back(e, *spec.inputs[i], i, loops, integer, pointer);
  operands.emplace_back(e, *spec.outputs[0], static_cast<unsigned>(spec.inputs.size()), loops, integer, pointer);
  for (unsigned i = 3; i < spec.inputs.size(); ++i)
    operands.emplace_back(e, *spec.inputs[i], i, loops, integer, pointer);
  Value *scratch = e.pointer(pointer);

  paddedK = padded(K);
  paddedN = padded(N);
  paddedD = padded(D);
  scorePitch = b.CreateAdd(paddedN, e.i64(W));
  blocks = b.CreateSDiv(b.CreateAdd(M, e.i64(rows - 1)), e.i64(rows));
  oneGroup = b.CreateICmpSLE(M, e.i64(kAttentionGroup));
  // As attentionScratchBytes() counts.
  keyRoom = scratch;
  valueRoom = at(keyRoom, times(b.CreateSelect(oneGroup, e.i64(W), paddedN), K));
  scoreRoom = at(valueRoom, times(b.CreateSelect(oneGroup, e.i64(kAttentionKeys), N), paddedD));
  queryRoom = at(scoreRoom, times(e.i64(kAttentionGroup), scorePitch));
  outputRoom = at(queryRoom, times(e.i64(kAttentionGroup), paddedK));
}

Operand::Row AttentionBuilder::enter(Operand &operand, Value *outer, bool preload) {
  Values indices = batch;
  indices.push_back(outer);
  indices.push_back(e.i64(0));
  Value *element = times(b.CreateAdd(times(batchIndex, M), outer), N);
  return operand.enter(indices, batchRank + 1, element, preload);
}

void AttentionBuilder::eachBlock(Value *length, function_ref<void(const Block &)> body) {
  e.forLoop(e.i64(0), length, e.i64(W), [&](Value *i) {
    Value *left = b.CreateSub(length, i);
    body({i, i, W, b.CreateICmpSGE(left, e.i64(W)), least(left, e.i64(W))});
  });
}

/// W elements as f32, zeros where the row has none.
Value *AttentionBuilder::loadWide(Operand &operand, const Operand::Row &row, const Block &block) {
  SmallVector<Lanes> loaded;
  loadBlock(e, operand, row, block, loaded);
  return emitConvert(e, loaded[0], ElementType::F32, W);
}

/// The queries of the group as rows of f32: where they lie, if they are that and all there, or packed.
void AttentionBuilder::placeQueries() {
  Operand &q = operands[0];
  Value *count = times(tiles, e.i64(rows));
  auto pack = [&] {
    e.forLoop(e.i64(0), count, e.i64(1), [&](Value *r) {
      Value *query = least(b.CreateAdd(firstQuery, r), b.CreateSub(M, e.i64(1)));
      Operand::Row row = enter(q, query);
      Value *to = at(queryRoom, times(r, paddedK));
      eachBlock(K, [&](const Block &block) { storeLanes(at(to, block.i), loadWide(q, row, block)); });
    });
    return Values{queryRoom, paddedK};
  };
  Values placed = isPlain(0) ? e.ifThenElse(
                                   b.CreateICmpSLE(b.CreateAdd(firstQuery, count), M),
                                   [&] { return Values{enter(q, firstQuery).pointer, rowStrideOf(0)}; }, pack)
                             : pack();
  queries = placed[0];
  queryPitch = placed[1];
}

/// Rows and columns of S vectors of S lanes change places, in three rounds. Each shuffle is one instruction: the first
/// two rounds stay within the halves of the vectors.
void AttentionBuilder::transpose(MutableArrayRef<Value *> square) {
  struct Round {
    unsigned distance; ///< of the vectors that are paired
    int low[S], high[S];
  };
  static constexpr Round kRounds[] = {{1, {0, 8, 1, 9, 4, 12, 5, 13}, {2, 10, 3, 11, 6, 14, 7, 15}},
                                      {2, {0, 1, 8, 9, 4, 5, 12, 13}, {2, 3, 10, 11, 6, 7, 14, 15}},
                                      {4, {0, 1, 2, 3, 8, 9, 10, 11}, {4, 5, 6, 7, 12, 13, 14, 15}}};
  for (const Round &round : kRounds)
    for (unsigned r = 0; r < S; ++r) {
      if (r & round.distance)
        continue;
      Value *x = square[r], *y = square[r + round.distance];
      square[r] = b.CreateShuffleVector(x, y, round.low);
      square[r + round.distance] = b.CreateShuffleVector(x, y, round.high);
    }
  // The first round leaves elements 0 and 1 in the even vectors, 2 and 3 in the odd ones.
  for (unsigned r = 1; r < S; r += 4)
    std::swap(square[r], square[r + 1]);
}

/// Keys firstKey .. firstKey + 16 as columns of a panel [K][16]; the last key repeated where there is none.
void AttentionBuilder::packKeys(Value *firstKey, Value *panel) {
  Operand &k = operands[1];
  ElementType type = k.type();
  Value *last = b.CreateSub(N, e.i64(1));
  auto elementwise = [&] {
    e.forLoop(e.i64(0), e.i64(W), e.i64(1), [&](Value *column) {
      Operand::Row row = enter(k, least(b.CreateAdd(firstKey, column), last));
      e.forLoop(e.i64(0), K, e.i64(1), [&](Value *i) {
        Value *element = emitConvert(e, k.load(row, i, i, 1), ElementType::F32, 1);
        e.store(at(panel, b.CreateAdd(times(i, e.i64(W)), column)), ElementType::F32, element, 1);
      });
    });
    return Values();
  };
  if (spec.inputs[1]->inner != InnerMode::Contiguous) {
    elementwise();
    return;
  }
  // Squares of 8 keys by 8 elements, the last square of a row again where they do not divide.
  e.ifThenElse(
      b.CreateICmpSGE(K, e.i64(S)),
      [&] {
        e.forLoop(e.i64(0), e.i64(W), e.i64(S), [&](Value *column) {
          SmallVector<Operand::Row, S> keys;
          for (unsigned r = 0; r < S; ++r)
            keys.push_back(enter(k, least(b.CreateAdd(firstKey, b.CreateAdd(column, e.i64(r))), last)));
          e.forLoop(e.i64(0), K, e.i64(S), [&](Value *i) {
            i = least(i, b.CreateSub(K, e.i64(S)));
            Values square;
            for (const Operand::Row &key : keys) {
              Value *lanes = e.load(e.elementPointer(key.pointer, type, i), type, S);
              square.push_back(emitConvert(e, {lanes, type}, ElementType::F32, S));
            }
            transpose(square);
            Value *to = at(panel, b.CreateAdd(times(i, e.i64(W)), column));
            for (unsigned r = 0; r < S; ++r)
              e.store(at(to, e.i64(r * W)), ElementType::F32, square[r], S);
          });
        });
        return Values();
      },
      elementwise);
}

/// `keys` rows of v as f32 rows of paddedD.
void AttentionBuilder::packValues(Value *firstKey, Value *keys, Value *to) {
  Operand &v = operands[2];
  e.forLoop(e.i64(0), keys, e.i64(1), [&](Value *n) {
    Operand::Row row = enter(v, b.CreateAdd(firstKey, n));
    Value *target = at(to, times(n, paddedD));
    eachBlock(D, [&](const Block &block) { storeLanes(at(target, block.i), loadWide(v, row, block)); });
  });
}

/// sums[r][0..16] = sum over i < length of left[r][i] * right[i][0..16], for the rows of a tile; added to what is there
/// where `goesOn` (i1).
void AttentionBuilder::multiply(Value *left, Value *leftPitch, Value *right, Value *rightPitch, Value *length,
                                Value *sums, Value *sumPitch, Value *goesOn) {
  Value *old = goesOn ? e.splat(goesOn, W) : nullptr;
  auto some = [&](Value *left, Value *sums, unsigned count) {
    Values leftRows, sumRows, state;
    for (unsigned r = 0; r < count; ++r) {
      leftRows.push_back(at(left, times(leftPitch, e.i64(r))));
      sumRows.push_back(at(sums, times(sumPitch, e.i64(r))));
      state.push_back(old ? e.maskedLoad(sumRows[r], ElementType::F32, old, W)
                          : Constant::getNullValue(e.lanes(ElementType::F32, W)));
    }
    state.push_back(right);
    state = e.forLoop(e.i64(0), length, e.i64(1), state, [&](Value *i, ArrayRef<Value *> now) {
      Value *columns = loadLanes(now.back());
      Values next;
      for (unsigned r = 0; r < count; ++r)
        next.push_back(fma(e.splat(e.load(at(leftRows[r], i), ElementType::F32, 1), W), columns, now[r]));
      next.push_back(at(now.back(), rightPitch));
      return next;
    });
    for (unsigned r = 0; r < count; ++r)
      storeLanes(sumRows[r], state[r]);
  };
  // 16 registers hold the sums of four rows, 32 those of all.
  unsigned atOnce = e.hasAVX512 ? rows : std::min(rows, 4u);
  if (atOnce == rows)
    return some(left, sums, rows);
  e.forLoop(e.i64(0), e.i64(rows), e.i64(atOnce),
            [&](Value *r) { some(at(left, times(r, leftPitch)), at(sums, times(r, sumPitch)), atOnce); });
}

/// Joins W lanes as a tree: lane l with lane l + 8, then l + 4, and so on.
template <typename Join> Value *AttentionBuilder::combine(Value *lanes, Join join) {
  for (unsigned width = W / 2; width >= 1; width /= 2) {
    SmallVector<int, W> low, high;
    for (unsigned lane = 0; lane < width; ++lane) {
      low.push_back(static_cast<int>(lane));
      high.push_back(static_cast<int>(lane + width));
    }
    lanes = join(b.CreateShuffleVector(lanes, low), b.CreateShuffleVector(lanes, high));
  }
  return b.CreateExtractElement(lanes, uint64_t(0));
}

/// Rows [firstRow, firstRow + count) of the group, one tile's, become probabilities. There is a key. One sweep after
/// the other goes over all rows: what ends a row's sweep takes longer than the sweep itself, where rows are short.
void AttentionBuilder::softmax(Value *firstRow, Value *count) {
  Type *f32 = b.getFloatTy();
  Value *lowest = e.splat(ConstantFP::getInfinity(f32, /*Negative=*/true), W);
  Value *zero = Constant::getNullValue(lowest->getType());
  Value *perRow = e.stackArray(f32, kAttentionRows);
  auto eachRow = [&](function_ref<void(Value * row, Value * scores, Value * own)> body) {
    e.forLoop(e.i64(0), count, e.i64(1), [&](Value *r) {
      Value *row = b.CreateAdd(firstRow, r);
      body(row, at(scoreRoom, times(row, scorePitch)), at(perRow, r));
    });
  };
  // A comparison drops NaN, in one instruction; the sum below brings it back.
  auto larger = [&](Value *value, Value *old) { return b.CreateSelect(b.CreateFCmpOGT(value, old), value, old); };

  MutableArrayRef<Operand> inputs = MutableArrayRef<Operand>(operands).drop_front(4);
  bool fails = canFail(spec.program);
  eachRow([&](Value *row, Value *scores, Value *maximum) {
    Value *query = b.CreateAdd(firstQuery, row);
    SmallVector<Operand::Row, 4> inputRows;
    for (Operand &input : inputs)
      inputRows.push_back(enter(input, query, /*preload=*/true));
    Value *firstElement = times(b.CreateAdd(times(batchIndex, M), query), N);
    // Keys that are not there weigh nothing: `rest` of the last W are.
    auto scoreBlock = [&](Value *i, Value *rest, Value *old) {
      Block block{i, b.CreateAdd(firstElement, i), W, rest ? b.getFalse() : nullptr, rest};
      SmallVector<Lanes> values = {{loadLanes(at(scores, i)), ElementType::F32}};
      if (!inputs.empty())
        loadBlock(e, inputs, inputRows, block, values);
      emitProgram(e, spec.program, values, block.element, W, fails ? block.active(e) : nullptr);
      Value *score = emitConvert(e, values[spec.results[0]], ElementType::F32, W);
      if (rest)
        score = b.CreateSelect(e.tailMask(rest, W), score, lowest);
      storeLanes(at(scores, i), score);
      return Values{larger(score, old)};
    };
    Value *whole = b.CreateAnd(N, e.i64(-static_cast<int64_t>(W))), *rest = b.CreateSub(N, whole);
    Values maxima = e.forLoop(e.i64(0), whole, e.i64(W), {lowest},
                              [&](Value *i, ArrayRef<Value *> now) { return scoreBlock(i, nullptr, now[0]); });
    maxima = e.ifThenElse(
        b.CreateICmpNE(rest, e.i64(0)), [&] { return scoreBlock(whole, rest, maxima[0]); }, [&] { return maxima; });
    e.store(maximum, ElementType::F32, combine(maxima[0], larger), 1);
  });
  auto reciprocal = [&](Value *lanes) {
    Value *sum = combine(lanes, [&](Value *x, Value *y) { return b.CreateFAdd(x, y); });
    return b.CreateFDiv(ConstantFP::get(f32, 1), sum);
  };
  auto scaled = [&](Value *power, Value *factor) {
    Value *probability = b.CreateFMul(power, e.splat(factor, W));
    // One NaN makes the whole row NaN, and nothing else makes any.
    return spec.zero_nan ? b.CreateSelect(b.CreateFCmpUNO(factor, factor), zero, probability) : probability;
  };
  // As in Rows: exactly 0 below the normal numbers, and NaN passes. A row that is one vector stays in registers.
  Value *isOne = b.CreateICmpSLE(N, e.i64(W)), *all = count;
  count = b.CreateSelect(isOne, all, e.i64(0));
  eachRow([&](Value *, Value *scores, Value *own) {
    Value *maximum = e.splat(e.load(own, ElementType::F32, 1), W);
    Value *power = math::expOfNegative(e, b.CreateFSub(loadLanes(scores), maximum));
    storeLanes(scores, scaled(power, reciprocal(power)));
  });
  count = b.CreateSelect(isOne, e.i64(0), all);
  // The two sums change places at each step, so that element i goes to lane i mod 32.
  eachRow([&](Value *, Value *scores, Value *own) {
    Value *maximum = e.splat(e.load(own, ElementType::F32, 1), W);
    Values sums = e.forLoop(e.i64(0), N, e.i64(W), {zero, zero}, [&](Value *i, ArrayRef<Value *> now) {
      Value *power = math::expOfNegative(e, b.CreateFSub(loadLanes(at(scores, i)), maximum));
      storeLanes(at(scores, i), power);
      return Values{now[1], b.CreateFAdd(now[0], power)};
    });
    e.store(own, ElementType::F32, reciprocal(b.CreateFAdd(sums[0], sums[1])), 1);
  });
  eachRow([&](Value *, Value *scores, Value *own) {
    Value *factor = e.load(own, ElementType::F32, 1);
    e.forLoop(e.i64(0), N, e.i64(W),
              [&](Value *i) { storeLanes(at(scores, i), scaled(loadLanes(at(scores, i)), factor)); });
  });
}

void AttentionBuilder::storeOutput(Value *query, Value *sums) {
  Operand &output = operands[3];
  Operand::Row row = enter(output, query);
  eachBlock(D, [&](const Block &block) {
    Value *value = emitConvert(e, {loadLanes(at(sums, block.i)), ElementType::F32}, output.type(), W);
    storeBlock(e, output, row, block, data::Combine::Assign, value);
  });
}

/// q k^T for the rows of the group and the keys from `done` on.
void AttentionBuilder::scoreKeys(Value *done) {
  Value *panelSize = b.CreateSelect(oneGroup, e.i64(0), K);
  e.forLoop(done, paddedN, e.i64(W), [&](Value *key) {
    Value *panel = at(keyRoom, times(key, panelSize));
    e.ifThen(first, [&] { packKeys(key, panel); });
    e.forLoop(e.i64(0), tiles, e.i64(1), [&](Value *tile) {
      Value *firstRow = times(tile, e.i64(rows));
      multiply(at(queries, times(firstRow, queryPitch)), queryPitch, panel, e.i64(W), K,
               at(scoreRoom, b.CreateAdd(times(firstRow, scorePitch), key)), scorePitch);
    });
  });
}

/// The same for one query a tile, straight from k: there are kSquares * S keys or more, and the last block of so many
/// may take some a second time.
void AttentionBuilder::scoreKeysOfOnes() {
  constexpr unsigned kKeys = kSquares * S;
  ElementType type = spec.inputs[1]->type;
  auto size = static_cast<unsigned>(elementBytes(type));
  Value *squares = b.CreateAnd(K, e.i64(-static_cast<int64_t>(S)));
  Value *rowStride = rowStrideOf(1), *lastBlock = b.CreateSub(N, e.i64(kKeys));
  Values rowOffsets;
  for (unsigned r = 0; r < S; ++r)
    rowOffsets.push_back(times(rowStride, e.i64(r)));
  Value *squareStride = times(rowStride, e.i64(S));
  // The lines that the block after this one takes are asked for a step at a time, each once. Where keys lie one behind
  // the other, in the order of memory, which the machine then goes on with by itself; else so many rows' next line.
  unsigned lines = kKeys * S * size / kLine, phases = kKeys / lines;
  Value *dense = b.CreateAnd(b.CreateICmpEQ(tiles, e.i64(1)), b.CreateICmpEQ(rowStride, K));
  Value *lineStride = b.CreateSelect(dense, e.i64(kLine / size), rowStride);
  Value *phaseStride = times(rowStride, e.i64(lines));
  auto ahead = [&](Value *next, Value *i) {
    Value *inOrder = times(i, e.i64(kKeys));
    Value *phase = b.CreateAnd(b.CreateLShr(i, Log2_32(S)), e.i64(phases - 1));
    Value *byRow = b.CreateAdd(b.CreateAnd(i, e.i64(-static_cast<int64_t>(kLine / size))), times(phase, phaseStride));
    Value *line = e.elementPointer(next, type, b.CreateSelect(dense, inOrder, byRow));
    for (unsigned l = 0; l < lines; ++l) {
      prefetch(line);
      line = e.elementPointer(line, type, lineStride);
    }
  };
  e.forLoop(e.i64(0), N, e.i64(kKeys), [&](Value *key) {
    key = least(key, lastBlock);
    Value *here = times(key, rowStride), *further = b.CreateAdd(here, times(rowStride, e.i64(kKeys)));
    e.forLoop(e.i64(0), tiles, e.i64(1), [&](Value *tile) {
      Value *query = at(queryRoom, times(tile, paddedK)), *scores = at(scoreRoom, times(tile, scorePitch));
      auto rowsOf = [&](Value *tile) { return b.CreateLoad(b.getPtrTy(), b.CreateGEP(b.getPtrTy(), keyRows, tile)); };
      Value *nextTile = b.CreateAdd(tile, e.i64(1)), *wraps = b.CreateICmpEQ(nextTile, tiles);
      Value *next = e.elementPointer(rowsOf(b.CreateSelect(wraps, e.i64(0), nextTile)), type,
                                     b.CreateSelect(wraps, further, here));
      auto place = [&](Value *row, unsigned r) { return r ? e.elementPointer(row, type, rowOffsets[r]) : row; };
      auto add = [&](Value *i, Value *sum, Value *lanes) {
        return fma(e.splat(e.load(at(query, i), ElementType::F32, 1), S), lanes, sum);
      };
      // Sums of 8 keys each, then where the first row stands.
      Values state(kSquares, Constant::getNullValue(e.lanes(ElementType::F32, S)));
      state.push_back(e.elementPointer(rowsOf(tile), type, here));
      state = e.forLoop(e.i64(0), squares, e.i64(S), state, [&](Value *i, ArrayRef<Value *> now) {
        Values sums;
        Value *row = now[kSquares];
        for (unsigned part = 0; part < kSquares; ++part) {
          Values square;
          for (unsigned r = 0; r < S; ++r)
            square.push_back(emitConvert(e, {e.load(place(row, r), type, S), type}, ElementType::F32, S));
          transpose(square);
          Value *sum = now[part];
          for (unsigned j = 0; j < S; ++j)
            sum = add(b.CreateAdd(i, e.i64(j)), sum, square[j]);
          sums.push_back(sum);
          row = e.elementPointer(row, type, squareStride);
        }
        sums.push_back(e.elementPointer(now[kSquares], type, e.i64(S)));
        ahead(next, i);
        return sums;
      });
      state = e.forLoop(squares, K, e.i64(1), state, [&](Value *i, ArrayRef<Value *> now) {
        Values sums;
        Value *row = now[kSquares];
        for (unsigned part = 0; part < kSquares; ++part) {
          Value *lanes = Constant::getNullValue(e.lanes(type, S));
          for (unsigned r = 0; r < S; ++r)
            lanes = b.CreateInsertElement(lanes, e.load(place(row, r), type, 1), r);
          sums.push_back(add(i, now[part], emitConvert(e, {lanes, type}, ElementType::F32, S)));
          row = e.elementPointer(row, type, squareStride);
        }
        sums.push_back(e.elementPointer(now[kSquares], type, e.i64(1)));
        return sums;
      });
      for (unsigned part = 0; part < kSquares; ++part)
        e.store(at(scores, b.CreateAdd(key, e.i64(part * S))), ElementType::F32, state[part], S);
    });
  });
}

/// The probabilities times v, columns from `done` on, to rows at `sums`.
void AttentionBuilder::sumValues(Value *done, Value *sums, Value *sumPitch) {
  Value *rowSize = b.CreateSelect(oneGroup, e.i64(0), paddedD);
  // No key is one block of none: zeros.
  e.forLoop(e.i64(0), b.CreateBinaryIntrinsic(Intrinsic::smax, N, e.i64(1)), e.i64(kAttentionKeys), [&](Value *key) {
    Value *keys = least(b.CreateSub(N, key), e.i64(kAttentionKeys)), *goesOn = b.CreateICmpNE(key, e.i64(0));
    auto pack = [&] {
      Value *to = at(valueRoom, times(key, rowSize));
      e.ifThen(first, [&] { packValues(key, keys, to); });
      return Values{to, paddedD};
    };
    // What one group alone reads is read where it lies.
    Values values = !isPlain(2) ? pack()
                                : e.ifThenElse(
                                      b.CreateAnd(oneGroup, b.CreateICmpEQ(paddedD, D)),
                                      [&] { return Values{enter(operands[2], key).pointer, rowStrideOf(2)}; }, pack);
    e.forLoop(e.i64(0), tiles, e.i64(1), [&](Value *tile) {
      Value *firstRow = times(tile, e.i64(rows));
      Value *scores = at(scoreRoom, b.CreateAdd(times(firstRow, scorePitch), key));
      Value *tileSums = at(sums, times(firstRow, sumPitch));
      e.forLoop(done, D, e.i64(W), [&](Value *column) {
        multiply(scores, scorePitch, at(values[0], column), values[1], keys, at(tileSums, column), sumPitch, goesOn);
      });
    });
  });
}

/// The same for one query a tile and the first `columns` columns, a multiple of kValueColumns, straight from v.
void AttentionBuilder::sumValuesOfOnes(Value *columns) {
  ElementType type = spec.inputs[2]->type;
  Value *rowStride = rowStrideOf(2);
  Value *zero = Constant::getNullValue(e.lanes(ElementType::F32, W));
  e.forLoop(e.i64(0), tiles, e.i64(1), [&](Value *tile) {
    Value *outputs = at(outputRoom, times(tile, paddedD));
    e.forLoop(e.i64(0), columns, e.i64(W), [&](Value *column) { storeLanes(at(outputs, column), zero); });
  });
  // Whole rows are read best: the machine sees what comes next.
  Value *step = b.CreateSelect(b.CreateICmpEQ(tiles, e.i64(1)), b.CreateBinaryIntrinsic(Intrinsic::smax, N, e.i64(1)),
                               e.i64(kSharedRows));
  e.forLoop(e.i64(0), N, step, [&](Value *key) {
    Value *keys = least(b.CreateSub(N, key), step);
    e.forLoop(e.i64(0), tiles, e.i64(1), [&](Value *tile) {
      Value *scores = at(scoreRoom, b.CreateAdd(times(tile, scorePitch), key));
      Value *outputs = at(outputRoom, times(tile, paddedD));
      Value *firstRow = b.CreateLoad(b.getPtrTy(), b.CreateGEP(b.getPtrTy(), valueRows, tile));
      firstRow = e.elementPointer(firstRow, type, times(key, rowStride));
      auto some = [&](Value *from, Value *to, unsigned parts) {
        e.forLoop(from, to, e.i64(parts * W), [&](Value *column) {
          Values state;
          for (unsigned part = 0; part < parts; ++part)
            state.push_back(loadLanes(at(outputs, b.CreateAdd(column, e.i64(part * W)))));
          state.push_back(e.elementPointer(firstRow, type, column));
          state = e.forLoop(e.i64(0), keys, e.i64(1), state, [&](Value *n, ArrayRef<Value *> now) {
            Value *probability = e.splat(e.load(at(scores, n), ElementType::F32, 1), W);
            Values next;
            for (unsigned part = 0; part < parts; ++part) {
              Value *lanes = e.load(e.elementPointer(now.back(), type, e.i64(part * W)), type, W);
              next.push_back(fma(probability, emitConvert(e, {lanes, type}, ElementType::F32, W), now[part]));
            }
            next.push_back(e.elementPointer(now.back(), type, rowStride));
            return next;
          });
          for (unsigned part = 0; part < parts; ++part)
            storeLanes(at(outputs, b.CreateAdd(column, e.i64(part * W))), state[part]);
        });
      };
      constexpr unsigned kParts = kValueColumns / W;
      Value *done = e.i64(0);
      // 32 registers hold twice as many sums.
      if (e.hasAVX512) {
        done = b.CreateAnd(columns, e.i64(-static_cast<int64_t>(2 * kValueColumns)));
        some(e.i64(0), done, 2 * kParts);
      }
      some(done, columns, kParts);
    });
  });
}

/// The same as group() where a tile is one query.
Values AttentionBuilder::groupOfOnes(ArrayRef<Value *> state) {
  // Heads that lie inside of rows walk the keys together: so whole rows are read.
  Value *most = e.i64(1);
  if (batchRank > 0) {
    unsigned strides = batchRank + 4 + batchRank + 2; // behind those of q
    Value *beside = b.CreateICmpSLT(e.integer(strides + batchRank - 1), e.integer(strides + batchRank));
    most = b.CreateSelect(beside, e.i64(kAttentionGroup), most);
  }
  Value *count = least(b.CreateSub(e.end, state[0]), most);
  SmallVector<Value *, 5> extents;
  for (unsigned i = 0; i < batchRank; ++i)
    extents.push_back(e.integer(i));
  extents.push_back(M);
  Value *allScores = scoreRoom, *allOutputs = outputRoom;
  queryPitch = paddedK;
  // Each tile as a group of its own.
  auto eachTile = [&](function_ref<void(Value * tile)> body) {
    tiles = e.i64(1);
    e.forLoop(e.i64(0), count, e.i64(1), [&](Value *tile) {
      Value *index = b.CreateAdd(state[0], tile);
      batch = e.delinearize(index, extents);
      firstQuery = batch.pop_back_val();
      batchIndex = b.CreateUDiv(index, M);
      queries = at(queryRoom, times(tile, paddedK));
      scoreRoom = at(allScores, times(tile, scorePitch));
      outputRoom = at(allOutputs, times(tile, paddedD));
      body(tile);
    });
    tiles = count;
    scoreRoom = allScores;
    outputRoom = allOutputs;
  };

  keyRows = e.stackArray(b.getPtrTy(), kAttentionGroup);
  valueRows = e.stackArray(b.getPtrTy(), kAttentionGroup);
  eachTile([&](Value *tile) {
    Operand::Row row = enter(operands[0], firstQuery);
    eachBlock(K, [&](const Block &block) { storeLanes(at(queries, block.i), loadWide(operands[0], row, block)); });
    b.CreateStore(enter(operands[1], e.i64(0)).pointer, b.CreateGEP(b.getPtrTy(), keyRows, tile));
    b.CreateStore(enter(operands[2], e.i64(0)).pointer, b.CreateGEP(b.getPtrTy(), valueRows, tile));
  });
  Value *keysDone = e.i64(0), *columnsDone = e.i64(0);
  if (spec.inputs[1]->inner == InnerMode::Contiguous) {
    Value *enough = b.CreateICmpSGE(N, e.i64(kSquares * S));
    e.ifThen(enough, [&] { scoreKeysOfOnes(); });
    keysDone = b.CreateSelect(enough, paddedN, keysDone);
  }
  eachTile([&](Value *) {
    scoreKeys(keysDone);
    softmax(e.i64(0), b.CreateZExt(b.CreateICmpSGT(N, e.i64(0)), b.getInt64Ty()));
  });
  if (spec.inputs[2]->inner == InnerMode::Contiguous) {
    columnsDone = b.CreateAnd(D, e.i64(-static_cast<int64_t>(kValueColumns)));
    sumValuesOfOnes(columnsDone);
  }
  eachTile([&](Value *) {
    e.ifThen(b.CreateICmpSLT(columnsDone, D), [&] { sumValues(columnsDone, outputRoom, paddedD); });
    storeOutput(firstQuery, outputRoom);
  });
  return {b.CreateAdd(state[0], count), state[1]};
}

/// The tiles from state[0] on that walk the keys together. state[1]: the batch index whose keys are packed.
Values AttentionBuilder::group(ArrayRef<Value *> state) {
  SmallVector<Value *, 5> extents;
  for (unsigned i = 0; i < batchRank; ++i)
    extents.push_back(e.integer(i));
  extents.push_back(blocks);
  batch = e.delinearize(state[0], extents);
  Value *block = batch.pop_back_val();
  batchIndex = b.CreateSDiv(state[0], blocks);
  firstQuery = times(block, e.i64(rows));
  tiles = least(least(b.CreateSub(blocks, block), b.CreateSub(e.end, state[0])), e.i64(kAttentionGroup / rows));
  first = b.CreateOr(oneGroup, b.CreateICmpNE(batchIndex, state[1]));
  Value *rowCount = least(times(tiles, e.i64(rows)), b.CreateSub(M, firstQuery));
  placeQueries();
  scoreKeys(e.i64(0));
  e.forLoop(e.i64(0), b.CreateSelect(b.CreateICmpSGT(N, e.i64(0)), rowCount, e.i64(0)), e.i64(rows),
            [&](Value *row) { softmax(row, least(b.CreateSub(rowCount, row), e.i64(rows))); });
  // Where every row of the tiles is one of the output, as wide as its sums, they are made in it.
  Value *sums = outputRoom, *sumPitch = paddedD, *toStore = rowCount;
  if (isPlain(3)) {
    Value *inPlace = b.CreateAnd(b.CreateICmpEQ(paddedD, D), b.CreateICmpEQ(rowCount, times(tiles, e.i64(rows))));
    sums = b.CreateSelect(inPlace, enter(operands[3], firstQuery).pointer, sums);
    sumPitch = b.CreateSelect(inPlace, rowStrideOf(3), sumPitch);
    toStore = b.CreateSelect(inPlace, e.i64(0), toStore);
  }
  sumValues(e.i64(0), sums, sumPitch);
  e.forLoop(e.i64(0), toStore, e.i64(1),
            [&](Value *r) { storeOutput(b.CreateAdd(firstQuery, r), at(outputRoom, times(r, paddedD))); });
  return {b.CreateAdd(state[0], tiles), batchIndex};
}

Status AttentionBuilder::emit() {
  arguments();
  if (rows == 1)
    first = b.getTrue();
  e.whileLoop(
      {e.begin, e.i64(-1)}, [&](ArrayRef<Value *> state) { return b.CreateICmpSLT(state[0], e.end); },
      [&](ArrayRef<Value *> state) { return rows == 1 ? groupOfOnes(state) : group(state); });
  e.finish();
  return Status::ok();
}

} // namespace

Status emitAttention(Emitter &e, const data::KernelSpecT &spec) { return AttentionBuilder(e, spec).emit(); }

} // namespace rlx
