//===- RLXAttributes.cpp - dims and constraints ---------------------------===//

#include "rlx/Dialect/RLX/IR/RLXAttributes.h"

#include "rlx/Dialect/RLX/IR/TensorShape.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace rlx;
using namespace rlx::ir;

#include "rlx/Dialect/RLX/IR/RLXEnums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "rlx/Dialect/RLX/IR/RLXAttributes.cpp.inc"

void RLXDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "rlx/Dialect/RLX/IR/RLXAttributes.cpp.inc"
      >();
}

//===----------------------------------------------------------------------===//
// Size expressions in the assembly
//===----------------------------------------------------------------------===//

/// Why a text cannot name a dim, or nothing. The same rules as DimExpr's own parser.
static std::optional<StringRef> badName(StringRef name) {
  if (name.empty())
    return "a dim's name is empty";
  if (!DimExpr::symbol(name).isSymbol())
    return "a dim's name is too long";
  if (isUnknown(DimExpr::symbol(name)))
    return "this name is reserved for unknown dims";
  if (llvm::any_of(name, [](unsigned char c) { return c < 0x20 || c == 0x7F; }))
    return "a dim's name has a control character";
  return std::nullopt;
}

namespace {

/// Reads the grammar of DimExpr from MLIR's tokens.
class ExprParser {
public:
  explicit ExprParser(AsmParser &parser) : parser(parser) {}

  FailureOr<DimExpr> expr() {
    // Bounds the recursion, so that a file cannot overflow the stack.
    if (++depth > 100)
      return parser.emitError(parser.getCurrentLocation(), "size expression is nested too deeply"), failure();
    FailureOr<DimExpr> sum = term();
    while (succeeded(sum)) {
      bool minus = false;
      if (failed(parser.parseOptionalPlus())) {
        if (failed(parser.parseOptionalMinus()))
          break;
        minus = true;
      }
      FailureOr<DimExpr> next = term();
      if (failed(next))
        return failure();
      sum = minus ? *sum - *next : *sum + *next;
    }
    --depth;
    return sum;
  }

private:
  FailureOr<DimExpr> term() {
    FailureOr<DimExpr> product = factor();
    while (succeeded(product) && succeeded(parser.parseOptionalStar())) {
      FailureOr<DimExpr> next = factor();
      if (failed(next))
        return failure();
      product = *product * *next;
    }
    return product;
  }

  FailureOr<DimExpr> factor() {
    SMLoc location = parser.getCurrentLocation();
    bool negative = false;
    while (succeeded(parser.parseOptionalMinus()))
      negative = !negative;

    APInt magnitude;
    OptionalParseResult number = parser.parseOptionalInteger(magnitude);
    if (number.has_value()) {
      if (failed(*number))
        return failure();
      APInt wide = magnitude.zext(std::max(magnitude.getBitWidth(), 64u) + 1);
      if (negative)
        wide.negate();
      if (!wide.isSignedIntN(64))
        return parser.emitError(location, "number does not fit 64 bits"), failure();
      return DimExpr(wide.getSExtValue());
    }

    FailureOr<DimExpr> atom = primary(location);
    if (succeeded(atom) && negative)
      return DimExpr(0) - *atom;
    return atom;
  }

  FailureOr<DimExpr> primary(SMLoc location) {
    if (succeeded(parser.parseOptionalLParen())) {
      FailureOr<DimExpr> inner = expr();
      if (failed(inner) || failed(parser.parseRParen()))
        return failure();
      return inner;
    }
    std::string quoted;
    if (succeeded(parser.parseOptionalString(&quoted)))
      return name(quoted, location);
    StringRef keyword;
    if (failed(parser.parseOptionalKeyword(&keyword)))
      return parser.emitError(location, "expected a size expression: a number, a name, a call or '('"), failure();
    using Make = DimExpr (*)(const DimExpr &, const DimExpr &);
    Make make = llvm::StringSwitch<Make>(keyword)
                    .Case("floordiv", &DimExpr::floorDiv)
                    .Case("ceildiv", &DimExpr::ceilDiv)
                    .Case("mod", &DimExpr::mod)
                    .Case("min", &DimExpr::min)
                    .Case("max", &DimExpr::max)
                    .Case("broadcast", &DimExpr::broadcast)
                    .Default(nullptr);
    // `min` is a name unless it is called.
    if (!make || failed(parser.parseOptionalLParen()))
      return name(keyword, location);
    FailureOr<DimExpr> lhs = expr();
    if (failed(lhs) || failed(parser.parseComma()))
      return failure();
    FailureOr<DimExpr> rhs = expr();
    if (failed(rhs) || failed(parser.parseRParen()))
      return failure();
    return make(*lhs, *rhs);
  }

  FailureOr<DimExpr> name(StringRef text, SMLoc location) {
    if (std::optional<StringRef> why = badName(text))
      return parser.emitError(location, *why), failure();
    return DimExpr::symbol(text);
  }

  AsmParser &parser;
  unsigned depth = 0;
};

} // namespace

FailureOr<DimExpr> rlx::ir::parseDimExpr(AsmParser &parser) { return ExprParser(parser).expr(); }

void rlx::ir::printDimExpr(llvm::raw_ostream &os, const DimExpr &expr) {
  // The same text: MLIR reads the escapes of a quoted name as DimExpr writes them.
  os << expr.str();
}

//===----------------------------------------------------------------------===//
// DimsAttr
//===----------------------------------------------------------------------===//

DimsAttr DimsAttr::get(MLIRContext *context, ArrayRef<DimExpr> dims) { return get(context, DimList::of(dims)); }

ArrayRef<DimExpr> DimsAttr::getDims() const { return getImpl()->list.dims(); }

Attribute DimsAttr::parse(AsmParser &parser, Type) {
  SmallVector<DimExpr> dims;
  if (parser.parseLess() ||
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Square,
                                     [&]() -> ParseResult {
                                       FailureOr<DimExpr> dim = parseDimExpr(parser);
                                       if (failed(dim))
                                         return failure();
                                       dims.push_back(*dim);
                                       return success();
                                     }) ||
      parser.parseGreater())
    return {};
  return get(parser.getContext(), dims);
}

void DimsAttr::print(AsmPrinter &printer) const {
  printer << "<[";
  llvm::interleaveComma(getDims(), printer.getStream(),
                        [&](const DimExpr &dim) { printDimExpr(printer.getStream(), dim); });
  printer << "]>";
}

LogicalResult DimsAttr::verifyEncoding(ArrayRef<int64_t> shape, Type elementType,
                                       function_ref<InFlightDiagnostic()> emitError) const {
  if (shape.size() != size())
    return emitError() << "dims " << toString(getDims()) << " are " << size() << " for a tensor of rank "
                       << shape.size();
  for (auto [axis, pair] : llvm::enumerate(llvm::zip_equal(shape, getDims()))) {
    auto [number, dim] = pair;
    std::optional<int64_t> constant = dim.constant();
    if (constant && ShapedType::isDynamic(number))
      return emitError() << "axis " << axis << " is '?' but its dim is the number " << *constant;
    if (constant && *constant != number)
      return emitError() << "axis " << axis << " is " << number << " but its dim is " << *constant;
  }
  return success();
}

//===----------------------------------------------------------------------===//
// DimDeclAttr
//===----------------------------------------------------------------------===//

LogicalResult DimDeclAttr::verify(function_ref<InFlightDiagnostic()> emitError, StringRef name, int64_t min,
                                  int64_t max, int64_t multiple, ArrayRef<int64_t> likely,
                                  std::optional<int64_t> bound) {
  if (std::optional<StringRef> why = badName(name))
    return emitError() << *why;
  if (min < 0)
    return emitError() << "dim '" << name << "': min " << min << " is negative";
  if (max < min)
    return emitError() << "dim '" << name << "': max " << max << " is below min " << min;
  if (multiple < 1)
    return emitError() << "dim '" << name << "': multiple " << multiple << " is below 1";
  if (max / multiple * multiple < min)
    return emitError() << "dim '" << name << "': no multiple of " << multiple << " lies in [" << min << ", " << max
                       << "]";
  auto check = [&](int64_t size, StringRef what) -> LogicalResult {
    if (size < min || size > max)
      return emitError() << "dim '" << name << "': " << what << " " << size << " is outside [" << min << ", " << max
                         << "]";
    if (size % multiple != 0)
      return emitError() << "dim '" << name << "': " << what << " " << size << " is not a multiple of " << multiple;
    return success();
  };
  for (int64_t size : likely)
    if (failed(check(size, "likely size")))
      return failure();
  if (bound)
    return check(*bound, "size");
  return success();
}

Attribute DimDeclAttr::parse(AsmParser &parser, Type) {
  SMLoc location = parser.getCurrentLocation();
  std::string name;
  int64_t min = 0, max = INT64_MAX, multiple = 1;
  SmallVector<int64_t> likely;
  std::optional<int64_t> bound;
  if (parser.parseLess() || parser.parseString(&name))
    return {};
  llvm::SmallDenseSet<StringRef, 8> seen;
  while (succeeded(parser.parseOptionalComma())) {
    SMLoc fieldLocation = parser.getCurrentLocation();
    StringRef field;
    if (parser.parseKeyword(&field) || parser.parseEqual())
      return {};
    if (!seen.insert(field).second)
      return parser.emitError(fieldLocation) << "'" << field << "' is given twice", Attribute();
    ParseResult result = failure();
    if (field == "min") {
      result = parser.parseInteger(min);
    } else if (field == "max") {
      result = parser.parseInteger(max);
    } else if (field == "multiple") {
      result = parser.parseInteger(multiple);
    } else if (field == "bound") {
      int64_t size = 0;
      result = parser.parseInteger(size);
      bound = size;
    } else if (field == "likely") {
      result = parser.parseCommaSeparatedList(AsmParser::Delimiter::Square,
                                              [&] { return parser.parseInteger(likely.emplace_back()); });
    } else {
      parser.emitError(fieldLocation) << "'" << field << "' is none of min, max, multiple, likely, bound";
    }
    if (failed(result))
      return {};
  }
  if (parser.parseGreater())
    return {};
  return getChecked([&] { return parser.emitError(location); }, parser.getContext(), name, min, max, multiple, likely,
                    bound);
}

void DimDeclAttr::print(AsmPrinter &printer) const {
  printer << '<';
  printer.printString(getName());
  if (getMin() != 0)
    printer << ", min = " << getMin();
  if (getMax() != INT64_MAX)
    printer << ", max = " << getMax();
  if (getMultiple() != 1)
    printer << ", multiple = " << getMultiple();
  if (!getLikely().empty()) {
    printer << ", likely = [";
    llvm::interleaveComma(getLikely(), printer.getStream());
    printer << ']';
  }
  if (getBound())
    printer << ", bound = " << *getBound();
  printer << '>';
}

//===----------------------------------------------------------------------===//
// ConstraintAttr
//===----------------------------------------------------------------------===//

Attribute ConstraintAttr::parse(AsmParser &parser, Type) {
  SMLoc location = parser.getCurrentLocation();
  std::string text, message;
  if (parser.parseLess() || parser.parseString(&text) || parser.parseComma() || parser.parseString(&message) ||
      parser.parseGreater())
    return {};
  Result<DimPredicate> predicate = DimPredicate::parse(text);
  if (!predicate)
    return parser.emitError(location) << "constraint: " << predicate.error().message, Attribute();
  if (isUnknown(predicate->lhs) || isUnknown(predicate->rhs))
    return parser.emitError(location) << "constraint: a name is reserved for unknown dims", Attribute();
  return get(parser.getContext(), *predicate, message);
}

void ConstraintAttr::print(AsmPrinter &printer) const {
  printer << '<';
  printer.printString(getPredicate().str());
  printer << ", ";
  printer.printString(getMessage());
  printer << '>';
}
