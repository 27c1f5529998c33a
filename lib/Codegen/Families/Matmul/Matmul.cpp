//===- Matmul.cpp - products of matrices, with an epilogue ----------------===//
//
// A tile is a panel of 16 columns. The micro-kernel keeps a few rows of it in
// registers while k runs, leaves the sums in a small tile on the stack, and one
// loop over that tile's rows applies the epilogue: it exists once, whatever the
// number of rows. Six or more rows are taken six at a time, the last six again
// where they do not divide: no output is an input, so that storing twice is
// harmless. Each sum takes k = 0, 1, ... in turn in one accumulator, in every
// variant: a row's bits do not depend on how many rows there are.
//
//===----------------------------------------------------------------------===//
#include "rlx/Codegen/ElementProgram.h"
#include "rlx/Codegen/Families.h"

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

class MatmulBuilder {
public:
  MatmulBuilder(Emitter &e, const data::KernelSpecT &spec)
      : e(e), b(e.b), spec(spec), sumType(spec.accumulator), wide(elementBytes(sumType) == 8),
        V(wide ? kColumns / 2 : kColumns), batchRank(spec.batch_rank) {}

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
  void rowTiles(ArrayRef<Value *> panels, Value *firstPanel);
  void microKernel(ArrayRef<Value *> panels, Value *firstRow, unsigned rows);
  void epilogue(Value *firstRow, unsigned rows, Value *firstPanel, Value *panelCount);

  Value *operandOffset(const Operand &operand, Value *row, Value *column);
  Value *loadOperand(const Operand &operand, Value *row, Value *column, Value *count, Value *full, Value *mask);
  void storeOutput(const Operand &operand, Value *row, Value *column, Value *value, Value *count, Value *full,
                   Value *mask);

  Value *columnMask(Value *count, unsigned lanes);

  /// `lanes` elements of `type` as sums are made of.
  Value *widen(Value *value, ElementType type, unsigned lanes) { return emitConvert(e, {value, type}, sumType, lanes); }
  Value *multiplyAdd(Value *x, Value *y, Value *sum) {
    if (isFloatType(sumType))
      return b.CreateIntrinsic(Intrinsic::fma, {x->getType()}, {x, y, sum});
    return b.CreateAdd(b.CreateMul(x, y), sum);
  }
  unsigned parts() const { return kColumns / V; }

  Emitter &e;
  IRBuilder<> &b;
  const data::KernelSpecT &spec;
  ElementType sumType;
  bool wide;  ///< sums of 8 bytes
  unsigned V; ///< columns in one vector of sums
  unsigned batchRank;
  unsigned outLanes = kColumns;

  Value *M = nullptr, *N = nullptr, *K = nullptr, *panelsPerBatch = nullptr;
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
  Value *full = b.CreateICmpEQ(columns, e.i64(kColumns));
  Value *mask = columnMask(columns, kColumns);
  e.ifThenElse(
      b.CreateOr(b.CreateICmpEQ(bNStride, e.i64(1)), b.CreateICmpEQ(columns, e.i64(1))),
      [&] {
        e.forLoop(e.i64(0), K, e.i64(1), [&](Value *k) {
          Value *from = e.elementPointer(source, type, b.CreateMul(k, bKStride));
          Values row = e.ifThenElse(
              full, [&] { return Values{e.load(from, type, kColumns)}; },
              [&] { return Values{e.maskedLoad(from, type, mask, kColumns)}; });
          Value *to = e.elementPointer(scratch, sumType, b.CreateMul(k, e.i64(kColumns)));
          e.store(to, sumType, widen(row[0], type, kColumns), kColumns);
        });
        return Values();
      },
      [&] {
        // Column by column: along k the source is often contiguous.
        e.forLoop(e.i64(0), e.i64(kColumns), e.i64(1), [&](Value *column) {
          Value *to = e.elementPointer(scratch, sumType, column);
          e.ifThenElse(
              b.CreateICmpSLT(column, columns),
              [&] {
                Value *from = e.elementPointer(source, type, b.CreateMul(column, bNStride));
                e.forLoop(e.i64(0), K, e.i64(1), [&](Value *k) {
                  Value *element = e.load(e.elementPointer(from, type, b.CreateMul(k, bKStride)), type, 1);
                  e.store(e.elementPointer(to, sumType, b.CreateMul(k, e.i64(kColumns))), sumType,
                          widen(element, type, 1), 1);
                });
                return Values();
              },
              [&] {
                e.forLoop(e.i64(0), K, e.i64(1), [&](Value *k) {
                  e.store(e.elementPointer(to, sumType, b.CreateMul(k, e.i64(kColumns))), sumType,
                          Constant::getNullValue(e.laneType(sumType)), 1);
                });
                return Values();
              });
        });
        return Values();
      });
}

/// All rows of the panels given, which lie side by side.
void MatmulBuilder::rowTiles(ArrayRef<Value *> panels, Value *firstPanel) {
  Value *panelCount = e.i64(static_cast<int64_t>(panels.size()));
  auto tile = [&](Value *firstRow, unsigned rows) {
    microKernel(panels, firstRow, rows);
    epilogue(firstRow, rows, firstPanel, panelCount);
  };
  if (wide || !isFloatType(sumType)) {
    // Plain: these are not what models spend their time in.
    e.forLoop(e.i64(0), M, e.i64(1), [&](Value *row) { tile(row, 1); });
  } else if (spec.row_class < 6) {
    tile(e.i64(0), spec.row_class);
  } else {
    Value *last = b.CreateSub(M, e.i64(6));
    e.forLoop(e.i64(0), M, e.i64(6), [&](Value *row) { tile(b.CreateBinaryIntrinsic(Intrinsic::smin, row, last), 6); });
  }
}

/// Sums of `rows` rows and the panels' columns into the stack tile.
void MatmulBuilder::microKernel(ArrayRef<Value *> panels, Value *firstRow, unsigned rows) {
  unsigned count = parts();
  Values rowPointers;
  Value *row = e.elementPointer(aBatch, spec.a_type, b.CreateMul(firstRow, aRowStride));
  for (unsigned r = 0; r < rows; ++r) {
    rowPointers.push_back(row);
    row = e.elementPointer(row, spec.a_type, aRowStride);
  }
  Values sums(rows * panels.size() * count, Constant::getNullValue(e.lanes(sumType, V)));
  sums.push_back(e.i64(0)); // where k is in a row of A
  sums = e.forLoop(e.i64(0), K, e.i64(1), sums, [&](Value *k, ArrayRef<Value *> now) {
    Values columns, next;
    Value *offset = b.CreateMul(k, e.i64(kColumns));
    for (Value *panel : panels)
      for (unsigned part = 0; part < count; ++part) {
        Value *at = e.elementPointer(panel, panelType, b.CreateAdd(offset, e.i64(part * V)));
        columns.push_back(widen(e.load(at, panelType, V), panelType, V));
      }
    for (unsigned r = 0; r < rows; ++r) {
      Value *element = e.load(e.elementPointer(rowPointers[r], spec.a_type, now.back()), spec.a_type, 1);
      Value *lanes = e.splat(widen(element, spec.a_type, 1), V);
      for (size_t c = 0; c < columns.size(); ++c)
        next.push_back(multiplyAdd(lanes, columns[c], now[r * columns.size() + c]));
    }
    next.push_back(b.CreateAdd(now.back(), aKStride));
    return next;
  });
  // The tile is [row][panel][16].
  for (size_t i = 0; i + 1 < sums.size(); ++i)
    e.store(e.elementPointer(sumRoom, sumType, e.i64(static_cast<int64_t>(i * V))), sumType, sums[i], V);
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

/// Takes the stack tile through the epilogue to the outputs.
void MatmulBuilder::epilogue(Value *firstRow, unsigned rows, Value *firstPanel, Value *panelCount) {
  unsigned lanes = outLanes;
  Value *firstColumn = b.CreateMul(firstPanel, e.i64(kColumns));
  Value *width = b.CreateMul(panelCount, e.i64(kColumns));
  Value *columnEnd = b.CreateBinaryIntrinsic(Intrinsic::smin, b.CreateAdd(firstColumn, width), N);
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
  if (rows == 1)
    return row(e.i64(0));
  e.forLoop(e.i64(0), e.i64(rows), e.i64(1), row);
}

Status MatmulBuilder::emit() {
  for (const auto *list : {&spec.inputs, &spec.outputs})
    for (const auto &access : *list)
      if (access->kind == AccessKind::Indexed)
        return Error{ErrorCode::Unsupported, "matmul kernel with an indexed operand in its epilogue"};
  arguments();
  bool packed = spec.b_layout == PackedLayout::Panels16;
  panelType = packed ? spec.b_type : sumType;

  // Lanes of the epilogue: two registers of the widest at most.
  outLanes = wide ? kColumns / 2 : kColumns;

  // Few rows leave registers for more panels, and several streams of weights
  // come faster from memory than one.
  bool skinny = packed && spec.row_class <= 2 && sumType == ElementType::F32;
  unsigned group = !skinny ? 1 : spec.row_class == 1 ? 4 : 2;
  unsigned tileRows = spec.row_class < 6 ? spec.row_class : 6;
  sumRoom = e.stackArray(e.laneType(sumType), tileRows * group * kColumns);
  elementRoom = e.stackArray(b.getInt64Ty(), kColumns);

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
        for (auto *list : {&inputs, &outputs})
          for (Operand &operand : *list)
            operand.batchOffset = e.linearOffset(indices, operand.strides);
        if (!packed) {
          bBatch = e.elementPointer(bBase, spec.b_type, e.linearOffset(indices, bBatchStrides));
          Value *column = b.CreateMul(panel, e.i64(kColumns));
          packPanel(column, b.CreateBinaryIntrinsic(Intrinsic::smin, b.CreateSub(N, column), e.i64(kColumns)));
          rowTiles({scratch}, panel);
          return Values{b.CreateAdd(tile[0], e.i64(1))};
        }
        Value *panelElements = b.CreateMul(K, e.i64(kColumns));
        Value *first = e.elementPointer(bBase, spec.b_type, b.CreateMul(panel, panelElements));
        auto panels = [&](unsigned count) {
          Values all;
          for (unsigned i = 0; i < count; ++i)
            all.push_back(e.elementPointer(first, spec.b_type, b.CreateMul(panelElements, e.i64(i))));
          rowTiles(all, panel);
          return Values{b.CreateAdd(tile[0], e.i64(count))};
        };
        if (group == 1)
          return panels(1);
        Value *left =
            b.CreateBinaryIntrinsic(Intrinsic::smin, b.CreateSub(e.end, tile[0]), b.CreateSub(panelsPerBatch, panel));
        return e.ifThenElse(
            b.CreateICmpSGE(left, e.i64(group)), [&] { return panels(group); }, [&] { return panels(1); });
      });
  e.finish();
  return Status::ok();
}

} // namespace

Status emitMatmul(Emitter &e, const data::KernelSpecT &spec) { return MatmulBuilder(e, spec).emit(); }

} // namespace rlx
