//===- RLXOps.cpp - registration and generated code of the ops ------------===//

#include "rlx/Dialect/RLX/IR/RLXOps.h"

#include "ShapeFunctions.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"

using namespace mlir;
using namespace rlx;
using namespace rlx::ir;

//===----------------------------------------------------------------------===//
// Custom directives of the assembly formats
//===----------------------------------------------------------------------===//

static ParseResult parseDimList(OpAsmParser &parser, DimsAttr &dims) {
  SmallVector<DimExpr> list;
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&]() -> ParseResult {
        FailureOr<DimExpr> dim = parseDimExpr(parser);
        if (failed(dim))
          return failure();
        list.push_back(*dim);
        return success();
      }))
    return failure();
  dims = DimsAttr::get(parser.getContext(), list);
  return success();
}

static void printDimList(OpAsmPrinter &printer, Operation *, DimsAttr dims) {
  printer << '[';
  llvm::interleaveComma(dims.getDims(), printer.getStream(),
                        [&](const DimExpr &dim) { printDimExpr(printer.getStream(), dim); });
  printer << ']';
}

static ParseResult parseConstantType(OpAsmParser &parser, ElementsAttr value, Type &type) {
  if (succeeded(parser.parseOptionalArrow()))
    return parser.parseType(type);
  type = value.getType();
  return success();
}

static void printConstantType(OpAsmPrinter &printer, Operation *, ElementsAttr value, Type type) {
  if (value.getType() != type)
    printer << " -> " << type;
}

#include "rlx/Dialect/RLX/IR/RLXInterfaces.cpp.inc"

#define GET_OP_CLASSES
#include "rlx/Dialect/RLX/IR/RLXOps.cpp.inc"

void RLXDialect::registerOperations() {
  addOperations<
#define GET_OP_LIST
#include "rlx/Dialect/RLX/IR/RLXOps.cpp.inc"
      >();
}
