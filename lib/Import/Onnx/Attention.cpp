//===- Attention.cpp - attention and rotary embedding ---------------------===//
#include "Node.h"

#include "llvm/ADT/Twine.h"

#include <cmath>

using namespace rlx;
using namespace rlx::onnx_import;
using ir::ReduceKind;
using llvm::Twine;

/// [B, L, H * D] -> [B, H, L, D].
static Value splitHeads(Node &n, Value x, int64_t heads) {
  if (!x)
    return {};
  if (heads < 1)
    return n.invalid("inputs of rank 3 need q_num_heads and kv_num_heads");
  DimVector dims = n.dims(x);
  std::optional<DimExpr> depth = n.divideExactly(dims[2], DimExpr(heads), "the number of heads");
  if (!depth)
    return {};
  return n.transpose(n.reshape(x, {dims[0], dims[1], DimExpr(heads), *depth}), {0, 2, 1, 3});
}

/// [B, Hk, T, D] -> [B, H, T, D], each head repeated for its group.
static Value repeatHeads(Node &n, Value x, const DimExpr &heads) {
  if (!x)
    return {};
  DimVector d = n.dims(x);
  if (d[1] == heads)
    return x;
  std::optional<DimExpr> group = n.divideExactly(heads, d[1], "grouping heads");
  if (!group)
    return {};
  Value wide = n.broadcast(n.reshape(x, {d[0], d[1], DimExpr(1), d[2], d[3]}), {d[0], d[1], *group, d[2], d[3]});
  return n.reshape(wide, {d[0], heads, d[2], d[3]});
}

static void attentionOp(Node &n) {
  n.ignoreAttr("softmax_precision"); // sums are in f32 or better
  Value q = n.in(0), k = n.in(1), v = n.in(2);
  if (!q || !k || !v)
    return;
  int64_t rank = n.rank(q);
  if (n.rank(k) != rank || n.rank(v) != rank || (rank != 3 && rank != 4))
    return (void)n.invalid("Q, K and V must all have rank 3, or all rank 4");
  int64_t queryHeads = n.attrInt("q_num_heads", 0), keyHeads = n.attrInt("kv_num_heads", 0);
  if (rank == 3) {
    q = splitHeads(n, q, queryHeads);
    k = splitHeads(n, k, keyHeads);
    v = splitHeads(n, v, keyHeads);
  }
  bool causal = n.attrInt("is_causal", 0) != 0;
  double cap = n.attrFloat("softcap", 0);
  int64_t mode = n.attrInt("qk_matmul_output_mode", 0);
  int64_t left = n.attrInt("left_window_size", -1), right = n.attrInt("right_window_size", -1);
  if (left < -1 || right < -1)
    return (void)n.invalid("a window size is below -1");
  if (n.has(4) != n.has(5))
    return (void)n.invalid("past_key and past_value come together");
  DimExpr past(0);
  if (n.has(4)) {
    Value pastKey = n.in(4), pastValue = n.in(5);
    if (n.rank(pastKey) != 4 || n.rank(pastValue) != 4)
      return (void)n.invalid("past_key and past_value have rank 4");
    past = n.dims(pastKey)[2];
    k = n.concat({pastKey, k}, 2);
    v = n.concat({pastValue, v}, 2);
  }
  if (!q || !k || !v)
    return;
  n.out(1, k);
  n.out(2, v);

  Type type = n.element(q), i64 = n.builder().getI64Type();
  DimVector dq = n.dims(q), dk = n.dims(k);
  DimExpr length = dq[2], total = dk[2];
  Value zero = n.scalar(type, 0), minus = n.lowest(type);
  auto additive = [&](Value allowed) { return n.select(allowed, zero, minus); };

  Value mask;
  if (n.has(3)) {
    mask = n.in(3);
    if (n.element(mask).isInteger(1))
      mask = additive(mask);
    if (!mask || n.rank(mask) < 1 || n.rank(mask) > 4)
      return n.failed() ? void() : (void)n.invalid("attn_mask must have rank 1 to 4");
    // Keys beyond a shorter mask are not seen.
    DimExpr have = n.dims(mask).back();
    if (n.prove(DimPredicate::Kind::Less, have, total) == true && have != DimExpr(1)) {
      DimVector low(n.rank(mask), DimExpr(0)), high = low;
      high.back() = total - have;
      mask = n.make<ir::PadOp>(mask, minus, ir::DimsAttr::get(n.context(), low), ir::DimsAttr::get(n.context(), high));
    }
  }
  auto join = [&](Value more) { mask = mask ? n.add(mask, more) : more; };
  Value columns = n.iota({DimExpr(1), total}, 1, DimExpr(0), DimExpr(1));
  Value valid; // number of keys that are there, [B, 1, 1, 1]
  if (n.has(6)) {
    Value given = n.in(6);
    if (n.rank(given) != 1 || n.has(4))
      return (void)n.invalid("nonpad_kv_seqlen must have rank 1, and comes without past_key");
    valid = n.reshape(n.convert(given, i64), {n.dims(given)[0], DimExpr(1), DimExpr(1), DimExpr(1)});
    join(additive(n.compare(ir::ComparePredicate::Lt, columns, valid)));
  }
  if (causal || left >= 0 || right >= 0) {
    // Where query i stands among the keys: after all that lies before the queries.
    Value rows = n.iota({length, DimExpr(1)}, 0, past, DimExpr(1));
    if (valid)
      rows = n.add(rows, n.sub(valid, n.fromContent({length}, {}, i64)));
    if (causal)
      join(additive(n.compare(ir::ComparePredicate::Le, columns, rows)));
    if (left >= 0)
      join(additive(n.compare(ir::ComparePredicate::Ge, columns, n.sub(rows, n.scalarInt(i64, left)))));
    if (right >= 0)
      join(additive(n.compare(ir::ComparePredicate::Le, columns, n.add(rows, n.scalarInt(i64, right)))));
  }

  double scale = 1;
  if (n.hasAttr("scale")) {
    scale = n.attrFloat("scale", 1);
  } else if (std::optional<int64_t> depth = dq[3].constant()) {
    scale = *depth > 0 ? 1 / std::sqrt(static_cast<double>(*depth)) : 1;
  } else {
    Value depthValue = n.convert(n.fromContent({dq[3]}, {}, i64), type);
    q = n.div(q, n.make<ir::SqrtOp>(depthValue));
  }

  // A query that may see no key at all gives zeros, not NaN.
  auto seen = [&](Value x) {
    if (!mask)
      return x;
    Value most = n.reduce(ReduceKind::Max, mask, {n.rank(mask) - 1}, true);
    return n.select(n.compare(ir::ComparePredicate::Eq, most, minus), zero, x);
  };
  bool scores = n.wants(3);
  Value result;
  if (cap == 0 && !scores) {
    result = n.makeOptional<ir::AttentionOp>({q, k, v}, q, k, v, mask, llvm::APFloat(scale));
  } else {
    // The description and the reference differ on what mode 0 holds under a softcap.
    if (scores && (mode < 0 || mode > 3 || (mode == 0 && cap != 0)))
      return (void)n.unsupported("qk_matmul_output_mode " + Twine(mode) + " is not supported here");
    Value keys = repeatHeads(n, k, dq[1]), values = repeatHeads(n, v, dq[1]);
    Value logits = n.mul(n.matmul(q, n.transpose(keys, {0, 1, 3, 2})), n.scalar(type, scale));
    if (cap != 0)
      logits = n.mul(n.make<ir::TanhOp>(n.div(logits, n.scalar(type, cap))), n.scalar(type, cap));
    if (scores && mode < 2)
      n.out(3, logits);
    if (mask)
      logits = n.add(logits, mask);
    if (scores && mode == 2)
      n.out(3, logits);
    Value weights = n.make<ir::SoftmaxOp>(logits, uint64_t{3});
    if (scores && mode == 3)
      n.out(3, seen(weights));
    result = n.matmul(weights, values);
  }
  result = seen(result);
  if (rank == 3 && result) {
    DimVector d = n.dims(result);
    result = n.reshape(n.transpose(result, {0, 2, 1, 3}), {d[0], d[2], d[1] * d[3]});
  }
  n.out(0, result);
}

static void rotaryEmbeddingOp(Node &n) {
  Value x = n.in(0), cosines = n.in(1), sines = n.in(2);
  bool interleaved = n.attrInt("interleaved", 0) != 0;
  int64_t heads = n.attrInt("num_heads", 0), rotated = n.attrInt("rotary_embedding_dim", 0);
  if (!x || !cosines || !sines)
    return;
  DimVector original = n.dims(x);
  // To [B, L, H, D].
  if (original.size() == 4) {
    x = n.transpose(x, {0, 2, 1, 3});
  } else if (original.size() == 3) {
    if (heads < 1)
      return (void)n.invalid("an input of rank 3 needs num_heads");
    std::optional<DimExpr> depth = n.divideExactly(original[2], DimExpr(heads), "the number of heads");
    if (!depth)
      return;
    x = n.reshape(x, {original[0], original[1], DimExpr(heads), *depth});
  } else {
    return (void)n.invalid("the input has rank " + Twine(original.size()) + ", neither 3 nor 4");
  }
  DimVector d = n.dims(x);
  DimExpr depth = d[3], width = rotated > 0 ? DimExpr(rotated) : depth;
  std::optional<DimExpr> half = n.divideExactly(width, DimExpr(2), "halving the rotated part");
  if (!half)
    return;
  auto cache = [&](Value table) -> Value {
    if (n.has(3))
      table = n.make<ir::GatherOp>(table, n.in(3), uint64_t{0});
    if (!table)
      return {};
    DimVector dims = n.dims(table);
    if (dims.size() != 3)
      return n.invalid("the caches have the wrong rank");
    if (!n.require(DimPredicate::Kind::Equal, dims[2], *half, "the caches are half as wide as the rotated part"))
      return {};
    return n.reshape(table, {dims[0], dims[1], DimExpr(1), dims[2]});
  };
  Value c = cache(cosines), s = cache(sines);
  Value part = n.sliceAxis(x, 3, DimExpr(0), width), first, second;
  DimVector zeros(4, DimExpr(0)), sizes = d;
  sizes[3] = *half;
  if (interleaved) {
    DimVector one = zeros;
    one[3] = DimExpr(1);
    first = n.slice(part, zeros, sizes, {1, 1, 1, 2});
    second = n.slice(part, one, sizes, {1, 1, 1, 2});
  } else {
    first = n.sliceAxis(part, 3, DimExpr(0), *half);
    second = n.sliceAxis(part, 3, *half, *half);
  }
  Value real = n.sub(n.mul(c, first), n.mul(s, second)), imaginary = n.add(n.mul(s, first), n.mul(c, second));
  Value turned;
  if (interleaved && real && imaginary) {
    DimVector apart = n.dims(real);
    apart.push_back(DimExpr(1));
    DimVector whole = d;
    whole[3] = width;
    turned = n.reshape(n.concat({n.reshape(real, apart), n.reshape(imaginary, apart)}, 4), whole);
  } else if (real && imaginary) {
    turned = n.concat({real, imaginary}, 3);
  }
  if (width != depth && turned)
    turned = n.concat({turned, n.sliceAxis(x, 3, width, n.simplify(depth - width))}, 3);
  n.out(0, original.size() == 4 ? n.transpose(turned, {0, 2, 1, 3}) : n.reshape(turned, original));
}

ArrayRef<OpEntry> rlx::onnx_import::attentionOps() {
  static const OpEntry table[] = {
      {"Attention", 23, 0, attentionOp},
      {"RotaryEmbedding", 23, 0, rotaryEmbeddingOp},
  };
  return table;
}
