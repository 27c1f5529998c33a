//===- KernelABI.h - how a kernel is called ---------------------*- C++ -*-===//
//
// The contract between the code that lays out arguments (lib/Runtime/Select*)
// and the code that emits kernels (lib/Codegen/Families). Plain C++: both the
// runtime and the compiler include it.
//
//===----------------------------------------------------------------------===//
#ifndef RLX_DATA_KERNELABI_H
#define RLX_DATA_KERNELABI_H

#include <cstdint>

namespace rlx {

/// What only data can get wrong. The first error of a step stays; a kernel
/// writes only while `kind` is None.
enum class ErrorKind : int32_t { None = 0, DivisionByZero = 1, IndexOutOfRange = 2 };

/// One per step. The runtime zeroes it and adds the node's name afterwards, so
/// that kernels stay shared between nodes.
struct ErrorWord {
  ErrorKind kind = ErrorKind::None;
  int32_t operand = 0; ///< IndexOutOfRange: which input (outputs count on).
  int64_t element = 0; ///< Row-major position in the iteration space.
  int64_t value = 0;   ///< IndexOutOfRange: the index. DivisionByZero: 0.
  int64_t extent = 0;  ///< IndexOutOfRange: the extent it was checked against.
};

/// A kernel runs tiles [begin, end) of its step. `pointers` and `integers` are
/// those of the whole step. It allocates nothing, calls nothing, and writes
/// only its outputs, its scratch and `error`. The caller guarantees: outputs
/// overlap no input; what is written is aligned to its element; MXCSR is at its
/// default (denormals kept, round to nearest).
///
/// Every extent is 1 or more (a step with an empty iteration space is not
/// called), except a reduced extent, Matmul's K and Rows' and Scan's length of
/// a non-empty outer space, which may be 0.
///
/// `E` = number of loops (KernelSpec.rank), strides are in elements and may be
/// 0 or negative, offsets are already added to the pointers.
///
/// An operand's block of integers, over `n` loops:
///   Direct:   stride[n]
///   Iota:     offset, stride[n]
///   Indexed:  stride[n], then per index operand: stride[n], extent, axis_stride
///   panels:   the same, then column, panel stride, column stride[n], and per
///             index operand: column axis stride
/// and of pointers:
///   Direct: base    Iota: null    Indexed: base, then one per index operand
/// An index i is valid when -extent <= i < extent; a negative one counts from
/// the end. In bad lanes nothing is read or written through it.
/// An Indexed input with panels reads a weight in Panels16. Strides and axis
/// strides lead to the line of 16 that its row k has in panel 0. The column n is
/// `column` and what the loops and indices add to it, never negative; its element
/// lies (n / 16) * panel stride + n mod 16 further.
///
/// Loops
///   integers: extent[E]; operand blocks over E loops: inputs, then outputs
///   pointers: inputs, then outputs
///   tiles:    E == 1: blocks of kLoopsBlock elements; E > 1: row-major index
///             over the first E-1 loops. With an Indexed output: one tile (the
///             whole nest, in row-major order), because updates may collide.
///
/// Reduce            (E = kept + reduced, both 1 or more; kept loops first)
///   integers: extent[E]; input blocks over E loops; output blocks over kept
///   pointers: inputs, then outputs
///   tiles:    reduce_inner: row-major index over the kept loops.
///             otherwise: row-major index over all kept loops but the last.
///   InnerMode of inputs speaks of the vectorised loop: the last reduced one
///   when reduce_inner, else the last kept one. Output: the last kept one.
///   order:    reduce_inner: element i of the last reduced loop goes to lane
///             i mod kReduceLanes, for any vector width; lanes are combined in
///             a fixed tree. Otherwise each result takes its elements in
///             row-major order of the reduced loops.
///
/// Rows              (E = outer loops, 1 or more; then the row)
///   integers: extent[E], length, epsilon (bits of the double);
///             x: stride[E], row stride; scale?: row stride; bias?: row stride;
///             output: stride[E], row stride
///   pointers: x, scale?, bias?, output
///   tiles:    row-major index over the outer loops.
///   inputs = x, scale, bias; InnerMode speaks of the row.
///   order:    element i of a row goes to lane i mod kReduceLanes.
///
/// Matmul            (Bt = batch_rank)
///   integers: batch[Bt], M, N, K;
///             a: stride[Bt], m stride, k stride;
///             b: stride[Bt], k stride, n stride  (Panels16: all 0, ignored);
///             operand blocks over Bt + 2 loops (batch, m, n): epilogue inputs,
///             then outputs;
///             large, block (bytes, 1 or more): where the rows of a take `large`
///             and more they are taken in blocks of about `block`;
///             contended: 1 where a packed b is likely to be in the last cache,
///             with little room to spare or not quite whole, so that it contends
///             with what others have there; 0 elsewhere. Speed alone depends on it
///   pointers: a, b, epilogue inputs, outputs, scratch
///   tiles:    row-major index over (batch, panel of 16 columns).
///   scratch:  matmulScratchBytes(K, accumulator size), one per worker.
///   program:  value 0 = the sum (accumulator type), then epilogue inputs.
///   spec.inputs lists the epilogue inputs only; InnerMode speaks of n.
///   row_class: kMatmulFewRows where 1 <= M <= kMatmulFewRows, else kMatmulManyRows (any M serves where the sums are
///             not f32). A kernel may take neighbouring panels of its range at
///             once, and takes as long for fewer: ranges of eight (bytes, two
///             rows at most), else of four, are best.
///   order:    each sum takes k = 0, 1, ... in turn in one accumulator (fma).
///
/// Attention         (Bt = batch_rank) softmax(program(q k^T)) v, a row of scores at a time
///   integers: batch[Bt], M (queries), N (keys), K (elements of a query),
///             D (elements of a row of v and of the output);
///             q: stride[Bt], m stride, k stride;
///             k: stride[Bt], n stride, k stride;
///             v: stride[Bt], n stride, d stride;
///             output: stride[Bt], m stride, d stride;
///             operand blocks over Bt + 2 loops (batch, m, n): the program's inputs
///   pointers: q, k, v, output, the program's inputs, scratch
///   tiles:    row-major index over (batch, block of row_class queries).
///   row_class: kAttentionRows, blocks of so many queries, the last one
///             shorter; or 1, one query at a time, which suits M = 1 with many
///             keys. The bits are the same.
///   scratch:  attentionScratchBytes(M, N, K, D), one per worker.
///   program:  value 0 = the score q . k (f32), then the inputs.
///   spec.inputs: q, k, v (InnerMode along K, K and D), then the program's
///   inputs (along N); spec.outputs: one (along D). K, N and D may be 0.
///   order:    each score takes its elements in turn in one accumulator (fma),
///             and so does each sum over the keys; the sum of a row's
///             exponentials is made as Rows makes it.
///
/// Scan              (E = outer loops, 1 or more; then the scanned loop)
///   integers: extent[E], length; x: stride[E], scan stride;
///             output: stride[E], scan stride
///   pointers: x, output
///   tiles:    row-major index over the outer loops.
using KernelFn = void (*)(void *const *pointers, const int64_t *integers, int64_t begin, int64_t end, ErrorWord *error);

/// What KernelSpec.revision is for this build: goes up when the code that a spec
/// stands for changes, so that no kernel of an older build is taken for it.
inline constexpr uint32_t kEmitterRevision = 7;

/// Elements of a tile of a rank-1 Loops kernel.
inline constexpr int64_t kLoopsBlock = 4096;
/// Partial results of a reduced row.
inline constexpr int64_t kReduceLanes = 32;
/// Bytes ahead of what is read that a product asks for, which may lie behind its packed b: best where what is used next
/// lies there. Nothing is read there; but memory that is not there takes longer to ask for.
inline constexpr int64_t kReadAhead = 64 << 10;
/// Columns of a packed panel.
inline constexpr int64_t kPanel = 16;

/// Queries of an Attention tile.
inline constexpr int64_t kAttentionRows = 8;
/// Queries of one batch index that walk the keys together: the most that neighbouring tiles have.
inline constexpr int64_t kAttentionGroup = 3 * kAttentionRows;
/// Keys whose rows of v an Attention kernel takes at a time.
inline constexpr int64_t kAttentionKeys = 64;

/// Row classes of Matmul: at most so many rows, or more.
inline constexpr int64_t kMatmulFewRows = 5, kMatmulManyRows = 6;

/// Scratch elements that a worker of a Matmul step needs for each k: a panel of B and the rows of a tile of A.
inline constexpr int64_t kMatmulScratchPerK = kPanel + 8;

/// Bytes of scratch a worker of a Matmul step needs.
inline constexpr int64_t matmulScratchBytes(int64_t k, int64_t accumulatorBytes) {
  return k * kMatmulScratchPerK * accumulatorBytes;
}

/// Bytes of scratch a worker of an Attention step needs, all f32: k in panels of 16 keys, then rows of v, padded to 16
/// (one panel and kAttentionKeys rows where one group takes all queries); then for each query of a group its scores,
/// its elements and its output. The caller knows that (N + 128) * (K + D + 128) * 4 does not overflow.
inline constexpr int64_t attentionScratchBytes(int64_t m, int64_t n, int64_t k, int64_t d) {
  auto padded = [](int64_t size) { return (size + kPanel - 1) / kPanel * kPanel; };
  int64_t panels = m <= kAttentionGroup ? kPanel * k : padded(n) * k;
  int64_t values = (m <= kAttentionGroup ? kAttentionKeys : n) * padded(d);
  return 4 * (panels + values + kAttentionGroup * (padded(n) + kPanel + padded(k) + padded(d)));
}

} // namespace rlx

#endif // RLX_DATA_KERNELABI_H
