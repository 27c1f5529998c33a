//===- Elementwise.cpp - shapes of elementwise ops ------------------------===//

#include "ShapeFunctions.h"

using namespace mlir;
using namespace rlx;
using namespace rlx::ir;
using namespace rlx::ir::detail;

LogicalResult rlx::ir::detail::elementwiseShapes(ElementRule rule, EmitError emit, Shapes operands,
                                                 ShapeResults &results) {
  TensorShape result = operands.front();
  // A select's condition has no part in the element type.
  size_t first = rule == ElementRule::Select ? 1 : 0;
  Type element = operands[first].elementType;
  for (const TensorShape &operand : operands.drop_front(first + 1))
    if (failed(checkSameElements(emit, operands[first], operand)))
      return failure();
  if (rule == ElementRule::Integer && !isa<IntegerType>(element))
    return emit() << "takes integers, not " << element;
  if (rule == ElementRule::Number && element.isInteger(1))
    return emit() << "does not take i1";
  for (const TensorShape &operand : operands.drop_front()) {
    std::optional<SmallVector<DimExpr>> joined = broadcastShapes(result.dims, operand.dims);
    if (!joined)
      return emit() << "operands of sizes " << toString(result.dims) << " and " << toString(operand.dims)
                    << " do not broadcast";
    result.dims = std::move(*joined);
  }
  result.elementType = element;
  if (rule == ElementRule::Test || rule == ElementRule::Compare)
    result.elementType = IntegerType::get(element.getContext(), 1);
  results.push_back(std::move(result));
  return success();
}

data::Opcode CompareOp::getOpcode() {
  switch (getPredicate()) {
  case ComparePredicate::Eq:
    return data::Opcode::Equal;
  case ComparePredicate::Ne:
    return data::Opcode::NotEqual;
  case ComparePredicate::Lt:
    return data::Opcode::Less;
  case ComparePredicate::Le:
    return data::Opcode::LessEqual;
  case ComparePredicate::Gt:
    return data::Opcode::Greater;
  case ComparePredicate::Ge:
    return data::Opcode::GreaterEqual;
  }
  return data::Opcode::Equal;
}

//===----------------------------------------------------------------------===//
// ConvertOp
//===----------------------------------------------------------------------===//

void ConvertOp::build(OpBuilder &builder, OperationState &state, Value input, Type elementType) {
  auto type = cast<RankedTensorType>(input.getType());
  build(builder, state, RankedTensorType::get(type.getShape(), elementType, type.getEncoding()), input);
}

LogicalResult ConvertOp::inferShapes(Shapes operands, ShapeResults &results) {
  TensorShape result = operands.front();
  result.elementType = getType().getElementType();
  results.push_back(std::move(result));
  return success();
}

LogicalResult ConvertOp::verify() {
  RankedTensorType input = getInput().getType();
  auto converted = RankedTensorType::get(input.getShape(), getType().getElementType(), input.getEncoding());
  if (!areCompatible(Type(converted), Type(getType())))
    return emitOpError() << "result sizes " << toString(getBoundShape(getType()).dims) << " are not the operand's, "
                         << toString(getBoundShape(input).dims);
  return success();
}
