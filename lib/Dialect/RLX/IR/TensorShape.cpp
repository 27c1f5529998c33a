//===- TensorShape.cpp - shapes over named dims ---------------------------===//

#include "rlx/Dialect/RLX/IR/TensorShape.h"

#include "rlx/Support/DimFacts.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace rlx;
using namespace rlx::ir;

/// Not a name that a file can hold: the parsers refuse it.
static constexpr std::string_view unknownName = "\x01?";

DimExpr rlx::ir::unknownDim() { return DimExpr::symbol(unknownName); }

bool rlx::ir::isUnknown(const DimExpr &dim) {
  if (dim.isSymbol())
    return dim.name() == unknownName;
  return llvm::any_of(dim.operands(), isUnknown);
}

bool TensorShape::isKnown() const { return llvm::none_of(dims, isUnknown); }

DimExpr TensorShape::elements() const {
  DimExpr product(1);
  for (const DimExpr &dim : dims)
    product = product * dim;
  return product;
}

TensorShape rlx::ir::getShape(RankedTensorType type) {
  TensorShape shape;
  shape.elementType = type.getElementType();
  if (auto encoding = dyn_cast_or_null<DimsAttr>(type.getEncoding())) {
    shape.dims.assign(encoding.getDims().begin(), encoding.getDims().end());
    return shape;
  }
  for (int64_t size : type.getShape())
    shape.dims.push_back(ShapedType::isDynamic(size) ? unknownDim() : DimExpr(size));
  return shape;
}

TensorShape rlx::ir::getBoundShape(RankedTensorType type) {
  TensorShape shape = getShape(type);
  for (auto [dim, size] : llvm::zip_equal(shape.dims, type.getShape()))
    if (!ShapedType::isDynamic(size))
      dim = DimExpr(size);
  return shape;
}

RankedTensorType rlx::ir::makeType(MLIRContext *context, const TensorShape &shape, const Binding *bound) {
  bool known = shape.isKnown();
  bool named = false;
  SmallVector<int64_t> sizes;
  SmallVector<DimExpr> dims;
  for (const DimExpr &dim : shape.dims) {
    int64_t size = ShapedType::kDynamic;
    DimExpr expression = dim;
    if (std::optional<int64_t> number = dim.constant()) {
      if (*number >= 0) {
        size = *number;
      } else {
        // Only a shape function fed nonsense gets here: leave the dim to the verifier.
        expression = unknownDim();
        known = false;
      }
    } else {
      named = true;
      if (bound && known)
        if (Result<int64_t> value = dim.evaluate(*bound); value && *value >= 0)
          size = *value;
    }
    sizes.push_back(size);
    dims.push_back(expression);
  }
  Attribute encoding;
  if (known && named)
    encoding = DimsAttr::get(context, dims);
  return RankedTensorType::get(sizes, shape.elementType, encoding);
}

std::optional<data::ElementType> rlx::ir::toElementType(Type type) {
  using E = data::ElementType;
  if (type.isF32())
    return E::F32;
  if (type.isF64())
    return E::F64;
  if (type.isF16())
    return E::F16;
  if (type.isBF16())
    return E::BF16;
  auto integer = dyn_cast<IntegerType>(type);
  if (!integer || integer.isSigned())
    return std::nullopt;
  bool isUnsigned = integer.isUnsigned();
  switch (integer.getWidth()) {
  case 1:
    return isUnsigned ? std::nullopt : std::optional(E::I1);
  case 8:
    return isUnsigned ? E::U8 : E::I8;
  case 16:
    return isUnsigned ? E::U16 : E::I16;
  case 32:
    return isUnsigned ? E::U32 : E::I32;
  case 64:
    return isUnsigned ? E::U64 : E::I64;
  default:
    return std::nullopt;
  }
}

Type rlx::ir::fromElementType(MLIRContext *context, data::ElementType type) {
  using E = data::ElementType;
  auto unsignedInt = [&](unsigned width) { return IntegerType::get(context, width, IntegerType::Unsigned); };
  switch (type) {
  case E::I1:
    return IntegerType::get(context, 1);
  case E::I8:
    return IntegerType::get(context, 8);
  case E::I16:
    return IntegerType::get(context, 16);
  case E::I32:
    return IntegerType::get(context, 32);
  case E::I64:
    return IntegerType::get(context, 64);
  case E::U8:
    return unsignedInt(8);
  case E::U16:
    return unsignedInt(16);
  case E::U32:
    return unsignedInt(32);
  case E::U64:
    return unsignedInt(64);
  case E::F16:
    return Float16Type::get(context);
  case E::BF16:
    return BFloat16Type::get(context);
  case E::F32:
    return Float32Type::get(context);
  case E::F64:
    return Float64Type::get(context);
  }
  return {};
}

int64_t rlx::ir::elementBytes(Type type) { return (type.getIntOrFloatBitWidth() + 7) / 8; }

bool rlx::ir::certainlyDiffer(const DimExpr &a, const DimExpr &b) {
  if (isUnknown(a) || isUnknown(b))
    return false;
  std::optional<int64_t> difference = (a - b).constant();
  return difference && *difference != 0;
}

std::optional<DimExpr> rlx::ir::broadcastDim(const DimExpr &a, const DimExpr &b) {
  if (a == b)
    return a;
  std::optional<int64_t> x = a.constant(), y = b.constant();
  if (x == 1)
    return b;
  if (y == 1)
    return a;
  if (x && y)
    return std::nullopt;
  if (x)
    return a;
  if (y)
    return b;
  return DimExpr::broadcast(a, b);
}

std::optional<SmallVector<DimExpr>> rlx::ir::broadcastShapes(ArrayRef<DimExpr> a, ArrayRef<DimExpr> b) {
  if (a.size() < b.size())
    std::swap(a, b);
  SmallVector<DimExpr> result(a.begin(), a.end());
  size_t lead = a.size() - b.size();
  for (size_t i = 0; i < b.size(); ++i) {
    std::optional<DimExpr> dim = broadcastDim(a[lead + i], b[i]);
    if (!dim)
      return std::nullopt;
    result[lead + i] = *dim;
  }
  return result;
}

Result<SmallVector<DimExpr>> rlx::ir::resolveReshape(ArrayRef<DimExpr> input, ArrayRef<DimExpr> request,
                                                     bool zeroCopies) {
  auto fail = [&](const Twine &why) {
    return Error{ErrorCode::InvalidModel,
                 ("cannot reshape " + toString(input) + " to " + toString(request) + ": " + why).str()};
  };
  DimExpr elements = TensorShape{SmallVector<DimExpr>(input), {}}.elements(), others(1);
  SmallVector<DimExpr> dims;
  std::optional<size_t> rest;
  for (auto [axis, size] : llvm::enumerate(request)) {
    std::optional<int64_t> number = size.constant();
    DimExpr dim = size;
    if (number == -1) {
      if (rest)
        return fail("two sizes are -1");
      rest = axis;
    } else if (number && *number < 0) {
      return fail("size " + Twine(*number) + " is negative");
    } else if (number == 0 && zeroCopies) {
      if (axis >= input.size())
        return fail("there is no axis " + Twine(axis) + " to copy");
      dim = input[axis];
    }
    if (rest != axis)
      others = others * dim;
    dims.push_back(dim);
  }
  if (!rest) {
    if (certainlyDiffer(elements, others))
      return fail(elements.str() + " elements are not " + others.str());
    return dims;
  }
  if (others.constant() == 0)
    return fail("the size for -1 is anything, as the others have product 0");
  if (std::optional<DimExpr> exact = elements.exactQuotient(others)) {
    dims[*rest] = *exact;
    return dims;
  }
  if (elements.isConstant() && others.isConstant())
    return fail(elements.str() + " elements do not divide by " + others.str());
  dims[*rest] = DimExpr::floorDiv(elements, others);
  return dims;
}

std::string rlx::ir::toString(ArrayRef<DimExpr> dims) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << '[';
  llvm::interleaveComma(dims, os, [&](const DimExpr &dim) {
    if (isUnknown(dim))
      os << '?';
    else
      printDimExpr(os, dim);
  });
  os << ']';
  return text;
}

bool rlx::ir::areCompatible(TypeRange inferred, TypeRange actual) {
  if (inferred.size() != actual.size())
    return false;
  for (auto [a, b] : llvm::zip_equal(inferred, actual)) {
    auto x = dyn_cast<RankedTensorType>(a), y = dyn_cast<RankedTensorType>(b);
    if (!x || !y || x.getElementType() != y.getElementType() || x.getRank() != y.getRank())
      return false;
    for (auto [m, n] : llvm::zip_equal(x.getShape(), y.getShape()))
      if (!ShapedType::isDynamic(m) && !ShapedType::isDynamic(n) && m != n)
        return false;
    TensorShape p = getShape(x), q = getShape(y);
    for (auto [m, n] : llvm::zip_equal(p.dims, q.dims))
      if (certainlyDiffer(m, n))
        return false;
  }
  return true;
}

bool rlx::ir::isCertain(const DimPredicate &predicate) {
  if (isUnknown(predicate.lhs) || isUnknown(predicate.rhs))
    return true;
  return DimFacts().prove(predicate).value_or(false);
}
