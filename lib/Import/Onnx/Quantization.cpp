//===- Quantization.cpp - to small integers and back ----------------------===//
#include "Node.h"
#include "Proto.h"

#include "llvm/ADT/Twine.h"

using namespace rlx;
using namespace rlx::onnx_import;
using llvm::Twine;

/// A scale or zero point: one for all, or one per slice of `axis`.
static Value alongAxis(Node &n, Value parameter, Value x, int64_t axis) {
  if (!parameter || !x || n.rank(parameter) == 0)
    return parameter;
  if (n.rank(parameter) != 1)
    return n.unsupported("scales in blocks are not supported");
  if (n.dims(parameter)[0] == DimExpr(1))
    return n.reshape(parameter, {});
  if (axis < -n.rank(x) || axis >= n.rank(x))
    return n.invalid("axis " + Twine(axis) + " is out of range for rank " + Twine(n.rank(x)));
  DimVector dims(n.rank(x), DimExpr(1));
  dims[axis < 0 ? axis + n.rank(x) : axis] = n.dims(parameter)[0];
  return n.reshape(parameter, dims);
}

static bool checkBlocks(Node &n) {
  if (n.attrInt("block_size", 0) == 0)
    return true;
  n.unsupported("scales in blocks are not supported");
  return false;
}

static void dequantizeOp(Node &n) {
  Value x = n.in(0), scale = n.in(1);
  int64_t axis = n.attrInt("axis", 1);
  if (!x || !scale || !checkBlocks(n))
    return;
  Type type = n.element(scale);
  if (n.attrInt("output_dtype", 0) != 0) {
    auto wanted = elementTypeOf(static_cast<int32_t>(n.attrInt("output_dtype", 0)));
    if (!wanted || ir::fromElementType(n.context(), *wanted) != type)
      return (void)n.unsupported("output_dtype must be the scale's type");
  }
  Value number;
  if (n.has(2)) {
    Type i32 = n.builder().getI32Type();
    number = n.convert(n.sub(n.convert(x, i32), n.convert(alongAxis(n, n.in(2), x, axis), i32)), type);
  } else {
    number = n.convert(x, type);
  }
  n.out(0, n.mul(number, alongAxis(n, scale, x, axis)));
}

static void quantizeOp(Node &n) {
  n.ignoreAttr("saturate"); // for 8-bit floats only
  n.ignoreAttr("precision");
  Value x = n.in(0), scale = n.in(1);
  int64_t axis = n.attrInt("axis", 1);
  if (!x || !scale || !checkBlocks(n))
    return;
  Type target = mlir::IntegerType::get(n.context(), 8, mlir::IntegerType::Unsigned), type = n.element(scale);
  if (n.has(2)) {
    target = n.element(n.in(2));
  } else if (int64_t number = n.attrInt("output_dtype", 0)) {
    auto wanted = elementTypeOf(static_cast<int32_t>(number));
    if (!wanted)
      return (void)n.unsupported("element type " + onnxTypeName(static_cast<int32_t>(number)) + " is not supported");
    target = ir::fromElementType(n.context(), *wanted);
  }
  n.ignoreAttr("output_dtype");
  Value rounded = n.make<ir::RoundOp>(n.div(n.convert(x, type), alongAxis(n, scale, x, axis)));
  if (n.has(2))
    rounded = n.add(rounded, n.convert(alongAxis(n, n.in(2), x, axis), type));
  n.out(0, n.convert(rounded, target)); // saturates
}

static void dynamicQuantizeOp(Node &n) {
  Value x = n.in(0);
  if (!x)
    return;
  Type type = n.element(x), u8 = mlir::IntegerType::get(n.context(), 8, mlir::IntegerType::Unsigned);
  SmallVector<int64_t> axes;
  for (int64_t i = 0; i < n.rank(x); ++i)
    axes.push_back(i);
  Value zero = n.scalar(type, 0);
  Value low = n.min(n.reduce(ir::ReduceKind::Min, x, axes, false), zero);
  Value high = n.max(n.reduce(ir::ReduceKind::Max, x, axes, false), zero);
  Value scale = n.div(n.sub(high, low), n.scalar(type, 255));
  Value offset = n.make<ir::RoundOp>(n.min(n.max(n.sub(zero, n.div(low, scale)), zero), n.scalar(type, 255)));
  n.out(0, n.convert(n.add(n.make<ir::RoundOp>(n.div(x, scale)), offset), u8));
  n.out(1, scale);
  n.out(2, n.convert(offset, u8));
}

ArrayRef<OpEntry> rlx::onnx_import::quantizationOps() {
  static const OpEntry table[] = {
      {"DequantizeLinear", 10, 0, dequantizeOp},
      {"DynamicQuantizeLinear", 11, 0, dynamicQuantizeOp},
      {"QuantizeLinear", 10, 0, quantizeOp},
  };
  return table;
}
