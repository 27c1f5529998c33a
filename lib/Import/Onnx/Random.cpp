//===- Random.cpp - random numbers ----------------------------------------===//
#include "Importer.h"
#include "Node.h"
#include "Proto.h"

#include "llvm/ADT/Twine.h"

using namespace rlx;
using namespace rlx::onnx_import;

/// The element type asked for, else that of `like`.
static Type wantedType(Node &n, Type otherwise) {
  if (!n.hasAttr("dtype"))
    return otherwise;
  auto number = static_cast<int32_t>(n.attrInt("dtype", 0));
  std::optional<data::ElementType> type = elementTypeOf(number);
  if (!type) {
    n.unsupported("element type " + onnxTypeName(number) + " is not supported");
    return {};
  }
  return ir::fromElementType(n.context(), *type);
}

/// A node's own seed is a number of its own stream elsewhere; here streams follow
/// from the run's seed and the op's place in the model.
static void ignoreSeed(Node &n) {
  if (n.hasAttr("seed"))
    n.warn("its seed is ignored: random numbers follow from the run's seed");
}

static Value uniform(Node &n, ArrayRef<DimExpr> dims, Type type, double low, double high) {
  if (!type)
    return {};
  if (!llvm::isa<mlir::FloatType>(type))
    return n.unsupported("random numbers are floats");
  return n.makeTyped<ir::RandomUniformOp>(n.type(dims, type), static_cast<uint64_t>(n.owner().nextRandomKey()),
                                          llvm::APFloat(low), llvm::APFloat(high));
}

static Value normal(Node &n, ArrayRef<DimExpr> dims, Type type, double mean, double scale) {
  if (!type)
    return {};
  if (!llvm::isa<mlir::FloatType>(type))
    return n.unsupported("random numbers are floats");
  return n.makeTyped<ir::RandomNormalOp>(n.type(dims, type), static_cast<uint64_t>(n.owner().nextRandomKey()),
                                         llvm::APFloat(mean), llvm::APFloat(scale));
}

static std::optional<DimVector> shapeAttr(Node &n) {
  auto shape = n.attrInts("shape");
  if (!shape) {
    if (!n.failed())
      n.invalid("shape is missing");
    return std::nullopt;
  }
  if (!elementCount(*shape)) {
    n.invalid("shape is negative or too large");
    return std::nullopt;
  }
  return DimVector(shape->begin(), shape->end());
}

static void randomUniform(Node &n) {
  ignoreSeed(n);
  std::optional<DimVector> shape = shapeAttr(n);
  if (shape)
    n.out(0,
          uniform(n, *shape, wantedType(n, n.builder().getF32Type()), n.attrFloat("low", 0), n.attrFloat("high", 1)));
}
static void randomUniformLike(Node &n) {
  ignoreSeed(n);
  if (Value x = n.in(0))
    n.out(0, uniform(n, n.dims(x), wantedType(n, n.element(x)), n.attrFloat("low", 0), n.attrFloat("high", 1)));
}
static void randomNormal(Node &n) {
  ignoreSeed(n);
  std::optional<DimVector> shape = shapeAttr(n);
  if (shape)
    n.out(0,
          normal(n, *shape, wantedType(n, n.builder().getF32Type()), n.attrFloat("mean", 0), n.attrFloat("scale", 1)));
}
static void randomNormalLike(Node &n) {
  ignoreSeed(n);
  if (Value x = n.in(0))
    n.out(0, normal(n, n.dims(x), wantedType(n, n.element(x)), n.attrFloat("mean", 0), n.attrFloat("scale", 1)));
}
static void bernoulli(Node &n) {
  ignoreSeed(n);
  Value x = n.in(0);
  Type type = wantedType(n, n.element(x));
  if (!x || !type)
    return;
  Value hit = n.compare(ir::ComparePredicate::Lt, uniform(n, n.dims(x), n.element(x), 0, 1), x);
  n.out(0, n.convert(hit, type));
}

ArrayRef<OpEntry> rlx::onnx_import::randomOps() {
  static const OpEntry table[] = {
      {"Bernoulli", 15, 0, bernoulli},
      {"RandomNormal", 7, 0, randomNormal},
      {"RandomNormalLike", 7, 0, randomNormalLike},
      {"RandomUniform", 7, 0, randomUniform},
      {"RandomUniformLike", 7, 0, randomUniformLike},
  };
  return table;
}
