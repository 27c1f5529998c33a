//===- Matmul.cpp - products of matrices, with an epilogue ----------------===//
//
// A tile of the step is a panel of 16 columns. Its rows are split, by number,
// into tiles whose sizes differ by one at most, so that none is computed twice:
// a micro-kernel for each size keeps a tile's sums in registers while k runs and
// leaves them in a small tile on the stack, and one loop over that tile's rows
// applies the epilogue: it exists once, whatever the number of rows. Each sum
// takes k = 0, 1, ... in turn in one accumulator, in every variant: a row's bits
// do not depend on how many rows there are.
//
// Weights seldom come from a near cache, and few rows need them faster than
// caches notice by themselves. So lines that come next are asked for, in one of
// two ways (measured on Zen 4):
//   - Several panels at once are as many streams, and of each a line now and then
//     is asked for a page ahead, where the processor then follows by itself. Best
//     from memory: to ask for every line keeps all of the few places for lines
//     that are on their way occupied, a third slower. Best too from a cache that
//     surely has them, where the processor alone is in time and asking costs a
//     load each.
//   - One panel at a time is one stream, of which every line is asked for, long
//     before. Best from a last cache that others use as well and that has only
//     most lines. A sum waits four cycles for itself and a line comes in less: so
//     three rows take two panels in bursts of eight k in turn, which the processor
//     overlaps (line by line in turn they are slower than one panel; one row takes
//     streams, and two gained nothing).
// Behind the last panel that is what the next step reads: packed weights lie in
// the order of their use.
//
//===----------------------------------------------------------------------===//
#include "ByteRows.h"
#include "rlx/Codegen/ElementProgram.h"
#include "rlx/Codegen/Families.h"

#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/Intrinsics.h"

using namespace llvm;

namespace rlx {

using data::AccessKind;
using data::ElementType;
using data::InnerMode;
using data::PackedLayout;

namespace {

using Values = Emitter::Values;

constexpr unsigned kColumns = kPanel;
constexpr int64_t kLine = 64, kPage = 4096;
/// Of streams: every kLinesApart lines one is asked for, once every kTurns k.
constexpr int64_t kTurns = 8, kLinesApart = 8;
/// Of bursts: every line is asked for, so many bytes ahead.
constexpr int64_t kBurstAhead = 16 << 10;

class MatmulBuilder {
public:
  MatmulBuilder(Emitter &e, const data::KernelSpecT &spec)
      : e(e), b(e.b), spec(spec), sumType(spec.accumulator), wide(elementBytes(sumType) == 8),
        V(wide || !e.hasAVX512 ? kColumns / 2 : kColumns), batchRank(spec.batch_rank) {}

  Status emit();

private:
  /// An operand of the epilogue or an output, over batch, m and n.
  struct Operand {
    const data::AccessSpecT *spec;
    Value *base = nullptr; ///< Direct: where the step starts
    unsigned strides = 0;  ///< integers: batch, m, n
    unsigned offset = 0;   ///< Iota: integer with its offset
    Value *batchOffset = nullptr;
  };

  void arguments();
  void packPanel(Value *panelColumn, Value *columns);
  void chooseTiles();
  void splitRows(Value *first, Value *rows);
  void rowBlocks();
  void tiles();
  Value *packedPanels(Value *tile, Value *panel);
  Value *stridedPanel(Value *tile, Value *panel);
  void rowTiles(ArrayRef<Value *> panels, Value *firstPanel, Value *panelCount);
  void rowTile(ArrayRef<Value *> panels, Value *index, Value *firstRow, Value *rows);
  void widenRows(Value *rows);
  Value *linesAhead(ArrayRef<Value *> panels);
  void microKernel(ArrayRef<Value *> panels, Value *tile, unsigned rows, bool contends);
  void epilogue(Value *firstRow, Value *rows, Value *firstPanel, Value *panelCount);

  Value *operandOffset(const Operand &operand, Value *row, Value *column);
  Value *loadOperand(const Operand &operand, Value *row, Value *column, Value *count, Value *full, Value *mask);
  void storeOutput(const Operand &operand, Value *row, Value *column, Value *value, Value *count, Value *full,
                   Value *mask);

  Value *columnMask(Value *count, unsigned lanes);
  void freeVectorRegisters();
  Value *unknownPointer(Value *pointer);

  /// `lanes` elements of `type` as sums are made of.
  Value *widen(Value *value, ElementType type, unsigned lanes) { return emitConvert(e, {value, type}, sumType, lanes); }
  Value *multiplyAdd(Value *x, Value *y, Value *sum) {
    if (isFloatType(sumType))
      return b.CreateIntrinsic(Intrinsic::fma, {x->getType()}, {x, y, sum});
    return b.CreateAdd(b.CreateMul(x, y), sum);
  }
  unsigned parts() const { return kColumns / V; }
  /// Few rows and a panel of bytes: the ports that widening takes decide, and a row that is loaded on its own
  /// takes a place beside it, while one that is the operand of a multiply-add does not.
  bool rowsApart() const {
    return e.hasAVX512 && packed && spec.row_class == kMatmulFewRows && sumType == ElementType::F32 &&
           elementBytes(panelType) == 1 && tileA.type == ElementType::F32;
  }
  bool takesByteRows(ArrayRef<Value *> panels, unsigned rows) const {
    return rowsApart() && rows <= ByteRows::kMostRows && panels.size() == ByteRows::kPanels &&
           (panelType == ElementType::I8 || panelType == ElementType::U8) && tileA.kStride == e.i64(1);
  }
  bool widensRows() const { return sumType == ElementType::F32 && elementBytes(spec.a_type) == 2; }

  Emitter &e;
  IRBuilder<> &b;
  const data::KernelSpecT &spec;
  ElementType sumType;
  bool wide;  ///< sums of 8 bytes
  unsigned V; ///< columns in one vector of sums
  unsigned batchRank;
  unsigned outLanes = kColumns;

  bool packed = false;                        ///< B is
  unsigned fewestRows = 1, mostRows = 1;      ///< of a row tile
  SmallVector<unsigned, 8> panelsOfRows;      ///< panels at once, of a tile of fewestRows + i rows
  SmallVector<unsigned, 8> panelsOfContended; ///< the same where b is contended; empty: the same panels
  Value *blockRow = nullptr;                  ///< the first row of a block
  Value *tileCount = nullptr;                 ///< row tiles of a block
  Value *tileRows = nullptr;                  ///< rows of each; the first longerTiles have one more
  Value *longerTiles = nullptr;
  Value *panelsAtOnce = nullptr;
  Value *ahead = nullptr;       ///< where the panels lie that come next
  Value *panelStride = nullptr; ///< elements from k to k of a panel that is not packed
  /// The rows of A that a tile takes.
  struct {
    Value *base = nullptr, *rowStride = nullptr, *kStride = nullptr;
    ElementType type = ElementType::F32;
  } tileA;
  Value *M = nullptr, *N = nullptr, *K = nullptr, *panelsPerBatch = nullptr;
  Value *largeBytes = nullptr, *blockBytes = nullptr, *contended = nullptr;
  Value *aBase = nullptr, *bBase = nullptr, *scratch = nullptr;
  Value *aRowStride = nullptr, *aKStride = nullptr, *bKStride = nullptr, *bNStride = nullptr;
  unsigned aBatchStrides = 0, bBatchStrides = 0;
  ElementType panelType = ElementType::F32; ///< of an element of a packed panel
  SmallVector<Operand, 4> inputs, outputs;
  Value *aBatch = nullptr, *bBatch = nullptr, *batchIndex = nullptr;
  Value *sumRoom = nullptr, *elementRoom = nullptr, *maskTable = nullptr;
};

void MatmulBuilder::arguments() {
  M = e.integer(batchRank);
  N = e.integer(batchRank + 1);
  K = e.integer(batchRank + 2);
  unsigned next = batchRank + 3, pointer = 0;
  aBatchStrides = next;
  aRowStride = e.integer(next + batchRank);
  aKStride = spec.a_inner == InnerMode::Contiguous ? e.i64(1) : e.integer(next + batchRank + 1);
  next += batchRank + 2;
  bBatchStrides = next;
  bKStride = e.integer(next + batchRank);
  bNStride = e.integer(next + batchRank + 1);
  next += batchRank + 2;
  aBase = e.pointer(pointer++);
  bBase = e.pointer(pointer++);
  auto operand = [&](const std::unique_ptr<data::AccessSpecT> &access) {
    Operand result;
    result.spec = access.get();
    if (access->kind == AccessKind::Iota)
      result.offset = next++;
    result.base = e.pointer(pointer++);
    result.strides = next;
    next += batchRank + 2;
    return result;
  };
  for (const auto &access : spec.inputs)
    inputs.push_back(operand(access));
  for (const auto &access : spec.outputs)
    outputs.push_back(operand(access));
  scratch = e.pointer(pointer);
  largeBytes = e.integer(next);
  blockBytes = e.integer(next + 1);
  contended = b.CreateICmpNE(e.integer(next + 2), e.i64(0));
  panelsPerBatch = b.CreateSDiv(b.CreateAdd(N, e.i64(kColumns - 1)), e.i64(kColumns));
}

/// The first `count` of `lanes` lanes, 0 <= count <= lanes. Read from a table:
/// a mask made by comparing with constants would keep them in registers all
/// through the micro-kernel, which with AVX2 has none to spare.
Value *MatmulBuilder::columnMask(Value *count, unsigned lanes) {
  if (!maskTable) {
    SmallVector<uint8_t, 2 * kColumns> table(kColumns, 0xff);
    table.append(kColumns, 0);
    auto *global = new GlobalVariable(e.module, ArrayType::get(b.getInt8Ty(), table.size()), /*isConstant=*/true,
                                      GlobalValue::InternalLinkage,
                                      ConstantDataArray::get(e.module.getContext(), table), "rlx_columns");
    global->setDSOLocal(true);
    global->setUnnamedAddr(GlobalValue::UnnamedAddr::Global);
    maskTable = global;
  }
  Value *at = b.CreateGEP(b.getInt8Ty(), maskTable, b.CreateSub(e.i64(kColumns), count));
  Value *bytes = b.CreateAlignedLoad(e.lanes(b.getInt8Ty(), lanes), at, Align(1));
  return b.CreateTrunc(b.CreateAShr(bytes, 7), e.lanes(b.getInt1Ty(), lanes));
}

/// Columns panelColumn .. panelColumn + 16 of B into scratch, [K][16], in the
/// type of the sums, zeros where there is no column.
void MatmulBuilder::packPanel(Value *panelColumn, Value *columns) {
  ElementType type = spec.b_type;
  Value *source = e.elementPointer(bBatch, type, b.CreateMul(panelColumn, bNStride));
  Value *mask = columnMask(columns, kColumns);
  // element(from, k) for each k, `from` moving along: lanes that go to scratch, `offset` and k times 16 elements on.
  auto alongK = [&](Value *from, Value *offset, unsigned lanes, function_ref<Value *(Value *)> element) {
    Values start = {from, e.elementPointer(scratch, sumType, offset)};
    e.forLoop(e.i64(0), K, e.i64(1), start, [&](Value *, ArrayRef<Value *> at) {
      e.store(at[1], sumType, element(at[0]), lanes);
      return Values{e.elementPointer(at[0], type, bKStride), e.elementPointer(at[1], sumType, e.i64(kColumns))};
    });
  };
  auto whole = [&](Value *from) { return widen(e.load(from, type, kColumns), type, kColumns); };
  auto apart = [&](Value *from) { return widen(e.stridedLoad(from, type, bNStride, kColumns), type, kColumns); };
  auto some = [&](Value *from) { return widen(e.maskedLoad(from, type, mask, kColumns), type, kColumns); };
  auto rows = [&](function_ref<Value *(Value *)> row) {
    alongK(source, e.i64(0), kColumns, row);
    return Values();
  };
  auto columnByColumn = [&] {
    e.forLoop(e.i64(0), e.i64(kColumns), e.i64(1), [&](Value *column) {
      auto there = [&] {
        alongK(e.elementPointer(source, type, b.CreateMul(column, bNStride)), column, 1,
               [&](Value *from) { return widen(e.load(from, type, 1), type, 1); });
        return Values();
      };
      auto missing = [&] {
        alongK(source, column, 1, [&](Value *) { return Constant::getNullValue(e.laneType(sumType)); });
        return Values();
      };
      e.ifThenElse(b.CreateICmpSLT(column, columns), there, missing);
    });
    return Values();
  };
  Value *sideBySide = b.CreateOr(b.CreateICmpEQ(bNStride, e.i64(1)), b.CreateICmpEQ(columns, e.i64(1)));
  e.ifThenElse(
      b.CreateICmpEQ(columns, e.i64(kColumns)),
      [&] { return e.ifThenElse(sideBySide, [&] { return rows(whole); }, [&] { return rows(apart); }); },
      [&] { return e.ifThenElse(sideBySide, [&] { return rows(some); }, columnByColumn); });
}

/// How rows are split, and how many panels are taken at once.
void MatmulBuilder::chooseTiles() {
  if (wide || !isFloatType(sumType)) {
    // Plain: these are not what models spend their time in.
    panelsOfRows = {1};
    panelsAtOnce = e.i64(1);
    return;
  }
  // Sums and a vector of B and of A must fit into the registers: 32 of 16 floats, or 16 of 8.
  if (spec.row_class == kMatmulManyRows) {
    // Eight hide the widening of bytes. More rows of A would fall into the same lines of the first cache where K is a
    // multiple of 1024.
    bool wideRows = packed && e.hasAVX512 && widensRows();
    mostRows = !e.hasAVX512 || wideRows ? 6 : elementBytes(panelType) == 1 ? 8 : 7;
    fewestRows = (mostRows + 1) / 2; // what more than mostRows rows split into
    // Zen 4 does one multiply-add of 16 floats a cycle, which four sums keep busy. Others do two, and need
    // twice as many. Widened rows serve as many panels as fit.
    bool one = !packed || !e.hasAVX512 || StringRef(spec.target).starts_with("x86_64:znver4:");
    panelsOfRows.assign(mostRows - fewestRows + 1, wideRows ? 4 : one ? 1 : 2);
  } else {
    mostRows = kMatmulFewRows;
    for (unsigned rows = 1; rows <= mostRows; ++rows)
      panelsOfRows.push_back(!packed ? 1 : e.hasAVX512 ? 4 : std::max(5u - rows, 1u));
    // More sums for what waits for the widening of bytes.
    if (packed && e.hasAVX512 && elementBytes(panelType) == 1)
      panelsOfRows[0] = panelsOfRows[1] = 8;
    if (packed && elementBytes(panelType) == 4) {
      panelsOfContended.assign(panelsOfRows.size(), 1);
      panelsOfContended[0] = panelsOfRows[0]; // one sum would wait for itself
      if (e.hasAVX512)
        panelsOfContended[2] = 2; // in bursts
    }
  }
  auto choose = [&](ArrayRef<unsigned> panelsOf) {
    Value *chosen = e.i64(panelsOf.front());
    for (auto [i, panels] : enumerate(panelsOf))
      if (panels != panelsOf.front())
        chosen = b.CreateSelect(b.CreateICmpEQ(M, e.i64(static_cast<int64_t>(fewestRows + i))), e.i64(panels), chosen);
    return chosen;
  };
  panelsAtOnce = choose(panelsOfRows);
  if (!panelsOfContended.empty())
    panelsAtOnce = b.CreateSelect(contended, choose(panelsOfContended), panelsAtOnce);
}

/// A block of rows into tiles.
void MatmulBuilder::splitRows(Value *first, Value *rows) {
  blockRow = first;
  // A kernel for few rows has one tile of them.
  bool one = mostRows > 1 && fewestRows == 1;
  tileCount = one ? e.i64(1) : b.CreateUDiv(b.CreateAdd(rows, e.i64(mostRows - 1)), e.i64(mostRows));
  tileRows = b.CreateUDiv(rows, tileCount);
  longerTiles = b.CreateSub(rows, b.CreateMul(tileRows, tileCount));
}

/// Where A is larger than caches are, in blocks of rows that the second one holds while all panels pass: a panel is
/// read again for each block, and there are far fewer of these than of panels.
void MatmulBuilder::rowBlocks() {
  if (!packed || spec.row_class != kMatmulManyRows || sumType != ElementType::F32) {
    splitRows(e.i64(0), M);
    return tiles();
  }
  constexpr int64_t kLeastRows = 64;
  Value *bytes = b.CreateMul(b.CreateMul(M, K), e.i64(elementBytes(spec.a_type)));
  Value *most = b.CreateUDiv(M, e.i64(kLeastRows));
  Value *count = b.CreateBinaryIntrinsic(Intrinsic::smin, b.CreateUDiv(bytes, blockBytes), most);
  count = b.CreateSelect(b.CreateICmpSGE(bytes, largeBytes), count, e.i64(1));
  count = b.CreateBinaryIntrinsic(Intrinsic::smax, count, e.i64(1));
  Value *rows = b.CreateUDiv(M, count), *longer = b.CreateSub(M, b.CreateMul(rows, count));
  e.forLoop(e.i64(0), count, e.i64(1), {e.i64(0)}, [&](Value *block, ArrayRef<Value *> first) {
    Value *here = b.CreateAdd(rows, b.CreateZExt(b.CreateICmpSLT(block, longer), b.getInt64Ty()));
    splitRows(first[0], here);
    tiles();
    return Values{b.CreateAdd(first[0], here)};
  });
}

/// All rows of the panels given, which lie side by side.
void MatmulBuilder::rowTiles(ArrayRef<Value *> panels, Value *firstPanel, Value *panelCount) {
  auto tile = [&](Value *index, Value *firstRow) {
    Value *rows = b.CreateAdd(tileRows, b.CreateZExt(b.CreateICmpSLT(index, longerTiles), b.getInt64Ty()));
    rowTile(panels, index, firstRow, rows);
    epilogue(firstRow, rows, firstPanel, panelCount);
    return Values{b.CreateAdd(firstRow, rows)};
  };
  if (isa<Constant>(tileCount))
    tile(e.i64(0), blockRow);
  else
    e.forLoop(e.i64(0), tileCount, e.i64(1), {blockRow},
              [&](Value *index, ArrayRef<Value *> firstRow) { return tile(index, firstRow[0]); });
}

/// Sums of a tile of `rows` rows: the micro-kernel of that size.
void MatmulBuilder::rowTile(ArrayRef<Value *> panels, Value *index, Value *firstRow, Value *rows) {
  tileA.base = e.elementPointer(aBatch, spec.a_type, b.CreateMul(firstRow, aRowStride));
  tileA.rowStride = aRowStride;
  tileA.kStride = aKStride;
  tileA.type = spec.a_type;
  if (widensRows())
    widenRows(rows);
  if (fewestRows == mostRows)
    return microKernel(panels.take_front(panelsOfRows[0]), index, fewestRows, /*contends=*/false);
  BasicBlock *from = b.GetInsertBlock();
  BasicBlock *done = BasicBlock::Create(b.getContext(), "rows.done", e.function);
  // One after the other: those of panelsOfRows, then those of panelsOfContended, the same ones where they are alike.
  SmallVector<BasicBlock *, 16> blocks;
  for (bool contends : {false, true})
    for (auto [i, count] : enumerate(contends ? panelsOfContended : panelsOfRows)) {
      if (contends && count == panelsOfRows[i]) {
        blocks.push_back(blocks[i]);
        continue;
      }
      blocks.push_back(BasicBlock::Create(b.getContext(), "rows", e.function));
      b.SetInsertPoint(blocks.back());
      microKernel(panels.take_front(count), index, fewestRows + static_cast<unsigned>(i), contends);
      b.CreateBr(done);
    }
  done->moveAfter(b.GetInsertBlock());
  b.SetInsertPoint(from);
  Value *number = b.CreateSub(rows, e.i64(fewestRows));
  if (!panelsOfContended.empty()) {
    Value *first = e.i64(static_cast<int64_t>(panelsOfRows.size()));
    number = b.CreateAdd(number, b.CreateSelect(contended, first, e.i64(0)));
  }
  SwitchInst *choice = b.CreateSwitch(number, blocks.front(), static_cast<unsigned>(blocks.size()) - 1);
  for (auto [i, block] : enumerate(drop_begin(blocks)))
    choice->addCase(e.i64(static_cast<int64_t>(i + 1)), block);
  b.SetInsertPoint(done);
}

/// The rows of a tile into scratch, in the type of the sums: [row][K]. One by one in the micro-kernel they would cost
/// more than the products.
void MatmulBuilder::widenRows(Value *rows) {
  Value *room = e.elementPointer(scratch, sumType, packed ? e.i64(0) : b.CreateMul(K, e.i64(kColumns)));
  e.forLoop(e.i64(0), rows, e.i64(1), [&](Value *row) {
    Value *from = e.elementPointer(tileA.base, spec.a_type, b.CreateMul(row, aRowStride));
    Value *to = e.elementPointer(room, sumType, b.CreateMul(row, K));
    auto copy = [&](Value *k, unsigned lanes) {
      Value *element = e.load(e.elementPointer(from, spec.a_type, b.CreateMul(k, aKStride)), spec.a_type, lanes);
      e.store(e.elementPointer(to, sumType, k), sumType, widen(element, spec.a_type, lanes), lanes);
    };
    Value *vectors = e.i64(0);
    if (spec.a_inner == InnerMode::Contiguous) {
      vectors = b.CreateAnd(K, e.i64(-int64_t(kColumns)));
      e.forLoop(e.i64(0), vectors, e.i64(kColumns), [&](Value *k) { copy(k, kColumns); });
    }
    e.forLoop(vectors, K, e.i64(1), [&](Value *k) { copy(k, 1); });
  });
  tileA.base = room;
  tileA.rowStride = K;
  tileA.kStride = e.i64(1);
  tileA.type = sumType;
}

/// The lines to ask for while these panels are taken: far enough behind where those begin. Rows that take several tiles
/// stay with the panels for long, and several panels are not read in the order of memory: then it is what comes behind
/// all of them, at least. Behind the last panel lies what the next step reads.
Value *MatmulBuilder::linesAhead(ArrayRef<Value *> panels) {
  int64_t bytes = kColumns * elementBytes(panelType) * static_cast<int64_t>(panels.size());
  Value *behind = b.CreateBinaryIntrinsic(Intrinsic::smax, b.CreateMul(K, e.i64(bytes)), e.i64(kReadAhead));
  if (panels.size() == 1)
    behind = b.CreateSelect(b.CreateICmpEQ(tileCount, e.i64(1)), e.i64(kReadAhead), behind);
  return b.CreateGEP(b.getInt8Ty(), panels[0], behind);
}

/// Sums of `rows` rows and the panels' columns into the stack tile. `tile` counts the row tiles of a panel.
void MatmulBuilder::microKernel(ArrayRef<Value *> panels, Value *tile, unsigned rows, bool contends) {
  if (takesByteRows(panels, rows))
    return ByteRows{rows, panelType == ElementType::I8, panels, ahead, tileA.base, tileA.rowStride, K, sumRoom}.emit(e);
  unsigned count = parts();
  // What moves along k is carried from turn to turn: the code generator's own search for that takes longer. The loop's
  // variable is where k lies in a panel, in bytes before its end. Every third row of A has a pointer of its own, and
  // the two after it are one and two strides on: a pointer for each would not fit into the registers.
  Values carried(rows * panels.size() * count, Constant::getNullValue(e.lanes(sumType, V)));
  size_t sums = carried.size();
  bool apart = rowsApart();
  for (unsigned r = 0; r < (apart ? 1 : rows); r += 3)
    carried.push_back(e.elementPointer(tileA.base, tileA.type, b.CreateMul(tileA.rowStride, e.i64(r))));
  int64_t panelStep = kColumns * elementBytes(panelType);
  int64_t bytes = panelStep * static_cast<int64_t>(panels.size());
  // What comes next, as said above. The share of a tile of rows begins where the tile's own would.
  bool streams = packed && !contends && spec.row_class == kMatmulFewRows && panelStep == kLine && panels.size() > 1;
  bool bursts = packed && contends && panelStep == kLine && panels.size() == 2;
  Value *askStep = nullptr;
  if (packed && !streams && !bursts && bytes <= 2 * kLine) {
    askStep = b.CreateUDiv(b.CreateAdd(tileCount, e.i64(bytes - 1)), tileCount);
    Value *share = b.CreateMul(b.CreateMul(tile, K), askStep);
    carried.push_back(b.CreateGEP(b.getInt8Ty(), linesAhead(panels), share));
  }
  // To be read, into the second cache, as data.
  auto ask = [&](Value *pointer) {
    b.CreateIntrinsic(Intrinsic::prefetch, {b.getPtrTy()}, {pointer, b.getInt32(0), b.getInt32(2), b.getInt32(1)});
  };
  // An unpacked panel has a pointer of its own, because the step from k to k is a number.
  Value *panelBytes = b.CreateMul(K, e.i64(panelStep)), *step = e.i64(panelStep);
  Values panelEnds;
  if (packed) {
    for (Value *panel : panels)
      panelEnds.push_back(b.CreateGEP(b.getInt8Ty(), panel, panelBytes));
  } else {
    panelBytes = K;
    step = e.i64(1);
    carried.push_back(panels[0]);
  }
  // One k of the panels that end there, of which `now` has the sums.
  auto turn = [&](ArrayRef<Value *> ends, Value *at, ArrayRef<Value *> now) {
    Values next;
    size_t sums = rows * (packed ? ends.size() : 1) * count;
    if (askStep)
      for (int64_t line = 0; line < bytes; line += kLine)
        ask(b.CreateGEP(b.getInt8Ty(), now.back(), e.i64(line)));
    SmallVector<Value *, 4> starts;
    for (Value *panelEnd : ends)
      starts.push_back(b.CreateGEP(b.getInt8Ty(), panelEnd, at));
    if (!packed)
      starts.push_back(now.back());
    auto loadColumns = [&](size_t c) {
      Value *from = e.elementPointer(starts[c / count], panelType, e.i64(static_cast<int64_t>(c % count * V)));
      return widen(e.load(from, panelType, V), panelType, V);
    };
    auto loadRow = [&](size_t r) {
      Value *row = now[sums + r / 3];
      if (r % 3)
        row = e.elementPointer(row, tileA.type, b.CreateMul(tileA.rowStride, e.i64(static_cast<int64_t>(r % 3))));
      return e.splat(widen(e.load(row, tileA.type, 1), tileA.type, 1), V);
    };
    next.resize(sums);
    size_t width = starts.size() * count;
    if (apart) {
      for (size_t i = 0; i < width; ++i) {
        Value *column = loadColumns(i);
        Value *first = unknownPointer(now[sums]);
        for (size_t r = 0; r < rows; ++r) {
          Value *row =
              e.elementPointer(first, tileA.type, b.CreateMul(tileA.rowStride, e.i64(static_cast<int64_t>(r))));
          next[r * width + i] = multiplyAdd(column, e.splat(e.load(row, tileA.type, 1), V), now[r * width + i]);
        }
      }
    }
    // Where registers are few, the fewer of the two stay in them while the others pass.
    bool rowsStay = !e.hasAVX512 && rows < width;
    Values staying;
    for (size_t i = 0; !apart && i < (rowsStay ? rows : width); ++i)
      staying.push_back(rowsStay ? loadRow(i) : loadColumns(i));
    for (size_t i = 0; !apart && i < (rowsStay ? width : rows); ++i) {
      Value *passing = rowsStay ? loadColumns(i) : loadRow(i);
      for (auto [j, stays] : enumerate(staying)) {
        size_t at = rowsStay ? j * width + i : i * width + j;
        next[at] = multiplyAdd(rowsStay ? stays : passing, rowsStay ? passing : stays, now[at]);
      }
    }
    for (unsigned r = 0; r < (apart ? 1 : rows); r += 3)
      next.push_back(e.elementPointer(now[sums + r / 3], tileA.type, tileA.kStride));
    if (askStep)
      next.push_back(b.CreateGEP(b.getInt8Ty(), now.back(), askStep));
    if (!packed)
      next.push_back(e.elementPointer(now.back(), panelType, panelStride));
    return next;
  };
  auto turnsOf = [&](ArrayRef<Value *> ends, Value *at, Value *end, ArrayRef<Value *> now) {
    return e.forLoop(at, end, step, now, [&](Value *at, ArrayRef<Value *> now) { return turn(ends, at, now); });
  };
  auto turns = [&](Value *at, ArrayRef<Value *> now) {
    // Behind a panel comes the one that is taken next in its place, which lies behind the others.
    Value *there = b.CreateAdd(at, e.i64(bursts ? kBurstAhead : kPage));
    Value *others = b.CreateMul(panelBytes, e.i64(static_cast<int64_t>(panels.size()) - 1));
    there = b.CreateSelect(b.CreateICmpSLT(there, e.i64(0)), there, b.CreateAdd(there, others));
    auto askFor = [&](Value *panelEnd, int64_t apart) {
      for (int64_t line = 0; line < kTurns; line += apart)
        ask(b.CreateGEP(b.getInt8Ty(), panelEnd, b.CreateAdd(there, e.i64(line * kLine))));
    };
    Value *end = b.CreateAdd(at, e.i64(kTurns * panelStep));
    end = b.CreateBinaryIntrinsic(Intrinsic::smin, end, e.i64(0));
    if (streams) {
      for (Value *panelEnd : panelEnds)
        askFor(panelEnd, kLinesApart);
      return turnsOf(panelEnds, at, end, now);
    }
    Values next(now), part;
    size_t width = panels.size() * count;
    for (auto [p, panelEnd] : enumerate(panelEnds)) {
      askFor(panelEnd, 1);
      Values own;
      for (size_t r = 0; r < rows; ++r)
        llvm::append_range(own, now.slice(r * width + p * count, count));
      llvm::append_range(own, now.drop_front(sums));
      part = turnsOf(panelEnd, at, end, own);
      for (size_t r = 0; r < rows; ++r)
        std::copy_n(part.begin() + r * count, count, next.begin() + r * width + p * count);
    }
    std::copy(part.begin() + rows * count, part.end(), next.begin() + sums);
    return next;
  };
  if (streams || bursts)
    carried = e.forLoop(b.CreateNeg(panelBytes), e.i64(0), e.i64(kTurns * panelStep), carried, turns);
  else
    carried = turnsOf(panelEnds, b.CreateNeg(panelBytes), e.i64(0), carried);
  // The tile is [row][panel][16].
  for (size_t i = 0; i < sums; ++i)
    e.store(e.elementPointer(sumRoom, sumType, e.i64(static_cast<int64_t>(i * V))), sumType, carried[i], V);
}

Value *MatmulBuilder::operandOffset(const Operand &operand, Value *row, Value *column) {
  Value *offset = b.CreateAdd(operand.batchOffset, b.CreateMul(row, e.integer(operand.strides + batchRank)));
  switch (operand.spec->inner) {
  case InnerMode::Contiguous:
    return b.CreateAdd(offset, column);
  case InnerMode::Splat:
    return offset;
  case InnerMode::Strided:
    return b.CreateAdd(offset, b.CreateMul(column, e.integer(operand.strides + batchRank + 1)));
  }
  llvm_unreachable("inner mode");
}

/// `count` elements from (row, column) on. `full` says that all lanes exist.
Value *MatmulBuilder::loadOperand(const Operand &operand, Value *row, Value *column, Value *count, Value *full,
                                  Value *mask) {
  unsigned lanes = outLanes;
  ElementType type = operand.spec->type;
  Value *offset = operandOffset(operand, row, column);
  Value *nStride = e.integer(operand.strides + batchRank + 1);
  if (operand.spec->kind == AccessKind::Iota) {
    Value *first = b.CreateAdd(e.integer(operand.offset), offset);
    Value *step = operand.spec->inner == InnerMode::Contiguous ? e.i64(1)
                  : operand.spec->inner == InnerMode::Splat    ? e.i64(0)
                                                               : nStride;
    return b.CreateAdd(e.splat(first, lanes), b.CreateMul(e.laneIndices(lanes), e.splat(step, lanes)));
  }
  Value *pointer = e.elementPointer(operand.base, type, offset);
  switch (operand.spec->inner) {
  case InnerMode::Splat:
    return e.splat(e.load(pointer, type, 1), lanes);
  case InnerMode::Contiguous:
    return e.ifThenElse(
        full, [&] { return Values{e.load(pointer, type, lanes)}; },
        [&] { return Values{e.maskedLoad(pointer, type, mask, lanes)}; })[0];
  case InnerMode::Strided:
    e.forLoop(e.i64(0), count, e.i64(1), [&](Value *lane) {
      Value *element = e.load(e.elementPointer(pointer, type, b.CreateMul(lane, nStride)), type, 1);
      e.store(e.elementPointer(elementRoom, type, lane), type, element, 1);
    });
    return e.load(elementRoom, type, lanes);
  }
  llvm_unreachable("inner mode");
}

void MatmulBuilder::storeOutput(const Operand &operand, Value *row, Value *column, Value *value, Value *count,
                                Value *full, Value *mask) {
  unsigned lanes = outLanes;
  ElementType type = operand.spec->type;
  Value *pointer = e.elementPointer(operand.base, type, operandOffset(operand, row, column));
  switch (operand.spec->inner) {
  case InnerMode::Splat: // one column
    e.store(pointer, type, b.CreateExtractElement(value, uint64_t(0)), 1);
    return;
  case InnerMode::Contiguous:
    e.ifThenElse(
        full,
        [&] {
          e.store(pointer, type, value, lanes);
          return Values();
        },
        [&] {
          e.maskedStore(pointer, type, value, mask, lanes);
          return Values();
        });
    return;
  case InnerMode::Strided: {
    Value *nStride = e.integer(operand.strides + batchRank + 1);
    e.store(elementRoom, type, value, lanes);
    e.forLoop(e.i64(0), count, e.i64(1), [&](Value *lane) {
      Value *element = e.load(e.elementPointer(elementRoom, type, lane), type, 1);
      e.store(e.elementPointer(pointer, type, b.CreateMul(lane, nStride)), type, element, 1);
    });
    return;
  }
  }
}

/// Nothing lies in a vector register here. The code generator hoists the constants of a long program out of all loops,
/// and would leave the micro-kernels with too few registers.
void MatmulBuilder::freeVectorRegisters() {
  std::string clobbers;
  for (unsigned i = 0; i < (e.hasAVX512 ? 32 : 16); ++i)
    clobbers += (i ? ",~{xmm" : "~{xmm") + std::to_string(i) + "}";
  b.CreateCall(InlineAsm::get(FunctionType::get(b.getVoidTy(), false), "", clobbers, /*hasSideEffects=*/true));
}

/// `pointer`, but the code generator does not know: what is loaded through two of them is loaded twice.
Value *MatmulBuilder::unknownPointer(Value *pointer) {
  auto *type = FunctionType::get(b.getPtrTy(), {b.getPtrTy()}, false);
  return b.CreateCall(InlineAsm::get(type, "", "=r,0", /*hasSideEffects=*/false), {pointer});
}

/// Takes the stack tile through the epilogue to the outputs.
void MatmulBuilder::epilogue(Value *firstRow, Value *rows, Value *firstPanel, Value *panelCount) {
  if (!spec.program.empty())
    freeVectorRegisters();
  unsigned lanes = outLanes;
  Value *firstColumn = b.CreateMul(firstPanel, e.i64(kColumns));
  Value *width = b.CreateMul(panelsAtOnce, e.i64(kColumns));
  Value *columnEnd =
      b.CreateBinaryIntrinsic(Intrinsic::smin, b.CreateMul(b.CreateAdd(firstPanel, panelCount), e.i64(kColumns)), N);
  auto row = [&](Value *r) {
    Value *sums = e.elementPointer(sumRoom, sumType, b.CreateMul(r, width));
    Value *m = b.CreateAdd(firstRow, r);
    e.forLoop(firstColumn, columnEnd, e.i64(lanes), [&](Value *column) {
      Value *count = b.CreateSub(N, column);
      Value *full = b.CreateICmpSGE(count, e.i64(lanes));
      count = b.CreateBinaryIntrinsic(Intrinsic::smin, count, e.i64(lanes));
      Value *mask = columnMask(count, lanes);
      Value *at = e.elementPointer(sums, sumType, b.CreateSub(column, firstColumn));
      SmallVector<Lanes> values = {{e.load(at, sumType, lanes), sumType}};
      for (const Operand &input : inputs)
        values.push_back({loadOperand(input, m, column, count, full, mask), input.spec->type});
      Value *element = b.CreateAdd(b.CreateMul(b.CreateAdd(b.CreateMul(batchIndex, M), m), N), column);
      emitProgram(e, spec.program, values, element, lanes, mask);
      for (auto [i, output] : enumerate(outputs)) {
        Lanes result = values[i < spec.results.size() ? spec.results[i] : 0];
        Value *converted = emitConvert(e, result, output.spec->type, lanes);
        storeOutput(output, m, column, converted, count, full, mask);
      }
    });
  };
  e.forLoop(e.i64(0), rows, e.i64(1), row);
}

/// The tiles of the range, for the rows of a block.
void MatmulBuilder::tiles() {
  SmallVector<Value *, 5> extents;
  for (unsigned i = 0; i < batchRank; ++i)
    extents.push_back(e.integer(i));
  extents.push_back(panelsPerBatch);
  e.whileLoop(
      {e.begin}, [&](ArrayRef<Value *> tile) { return b.CreateICmpSLT(tile[0], e.end); },
      [&](ArrayRef<Value *> tile) {
        Values indices = e.delinearize(tile[0], extents);
        Value *panel = indices.pop_back_val();
        batchIndex = b.CreateSDiv(tile[0], panelsPerBatch);
        aBatch = e.elementPointer(aBase, spec.a_type, e.linearOffset(indices, aBatchStrides));
        bBatch = packed ? bBase : e.elementPointer(bBase, spec.b_type, e.linearOffset(indices, bBatchStrides));
        for (auto *list : {&inputs, &outputs})
          for (Operand &operand : *list)
            operand.batchOffset = e.linearOffset(indices, operand.strides);
        return Values{packed ? packedPanels(tile[0], panel) : stridedPanel(tile[0], panel)};
      });
}

/// The panels at `panel`; gives the next tile.
Value *MatmulBuilder::packedPanels(Value *tile, Value *panel) {
  // Where fewer panels are left than are taken at once, the last is taken again: its memory is read once, and the
  // epilogue stops at the panels that are there.
  Value *left = b.CreateBinaryIntrinsic(Intrinsic::smin, b.CreateSub(e.end, tile), b.CreateSub(panelsPerBatch, panel));
  Value *count = b.CreateBinaryIntrinsic(Intrinsic::smin, panelsAtOnce, left);
  Value *panelElements = b.CreateMul(K, e.i64(kColumns));
  auto panelAt = [&](Value *index) { return e.elementPointer(bBatch, spec.b_type, b.CreateMul(index, panelElements)); };
  Value *last = b.CreateSub(b.CreateAdd(panel, count), e.i64(1));
  Values panels;
  for (unsigned i = 0; i < *llvm::max_element(panelsOfRows); ++i)
    panels.push_back(panelAt(i ? b.CreateBinaryIntrinsic(Intrinsic::smin, b.CreateAdd(panel, e.i64(i)), last) : panel));
  // Behind the range usually lies what this thread reads next.
  ahead = panelAt(b.CreateAdd(panel, count));
  rowTiles(panels, panel, count);
  return b.CreateAdd(tile, count);
}

/// A panel of a b that is not packed; gives the next tile.
Value *MatmulBuilder::stridedPanel(Value *tile, Value *panel) {
  Value *column = b.CreateMul(panel, e.i64(kColumns));
  Value *columns = b.CreateBinaryIntrinsic(Intrinsic::smin, b.CreateSub(N, column), e.i64(kColumns));
  auto pack = [&] {
    packPanel(column, columns);
    return Values{scratch, e.i64(kColumns)};
  };
  Values source;
  if (spec.b_type == sumType && sumType == ElementType::F32) {
    // One tile of rows takes whole columns that lie side by side from where they are.
    Value *once = b.CreateAnd(b.CreateICmpEQ(tileCount, e.i64(1)), b.CreateICmpEQ(bNStride, e.i64(1)));
    source = e.ifThenElse(
        b.CreateAnd(once, b.CreateICmpEQ(columns, e.i64(kColumns))),
        [&] { return Values{e.elementPointer(bBatch, spec.b_type, column), bKStride}; }, pack);
  } else {
    source = pack();
  }
  panelStride = source[1];
  rowTiles({source[0]}, panel, e.i64(1));
  return b.CreateAdd(tile, e.i64(1));
}

Status MatmulBuilder::emit() {
  for (const auto *list : {&spec.inputs, &spec.outputs})
    for (const auto &access : *list)
      if (access->kind == AccessKind::Indexed)
        return Error{ErrorCode::Unsupported, "matmul kernel with an indexed operand in its epilogue"};
  arguments();
  packed = spec.b_layout == PackedLayout::Panels16;
  panelType = packed ? spec.b_type : sumType;
  // Lanes of the epilogue: two registers of the widest at most.
  outLanes = wide ? kColumns / 2 : kColumns;
  chooseTiles();
  unsigned roomPanels = 0;
  for (auto [i, panels] : enumerate(panelsOfRows))
    roomPanels = std::max(roomPanels, static_cast<unsigned>(fewestRows + i) * panels);
  sumRoom = e.stackArray(e.laneType(sumType), roomPanels * kColumns);
  elementRoom = e.stackArray(b.getInt64Ty(), kColumns);
  // Strided operands fill as many lanes as there are columns; the program computes on all of them.
  if (llvm::any_of(spec.inputs, [](const auto &access) { return access->inner == InnerMode::Strided; }))
    e.store(elementRoom, ElementType::I64, Constant::getNullValue(e.lanes(b.getInt64Ty(), kColumns)), kColumns);
  rowBlocks();
  e.finish();
  return Status::ok();
}

} // namespace

Status emitMatmul(Emitter &e, const data::KernelSpecT &spec) { return MatmulBuilder(e, spec).emit(); }

} // namespace rlx
