//===- ModelText.cpp - ONNX models as text, for tests ---------------------===//
#include "ModelText.h"

#include "onnx/onnx_pb.h"

#include <google/protobuf/text_format.h>

using namespace rlx;
using namespace rlx::test;

std::string rlx::test::modelBytes(const std::string &graph, int opset, const std::string &rest) {
  ::onnx::ModelProto model;
  std::string text = "ir_version: 8 opset_import { domain: '' version: " + std::to_string(opset) + " } " + rest +
                     " graph { name: 'g' " + graph + " }";
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &model)) << text;
  return model.SerializeAsString();
}

std::string rlx::test::tensorType(int elementType, const std::vector<std::string> &dims) {
  std::string shape;
  for (const std::string &dim : dims) {
    if (dim.empty())
      shape += "dim { } ";
    else if (dim.find_first_not_of("-0123456789") == std::string::npos)
      shape += "dim { dim_value: " + dim + " } ";
    else
      shape += "dim { dim_param: '" + dim + "' } ";
  }
  return "type { tensor_type { elem_type: " + std::to_string(elementType) + " shape { " + shape + "} } } ";
}

std::string rlx::test::input(const std::string &name, int elementType, const std::vector<std::string> &dims) {
  return "input { name: '" + name + "' " + tensorType(elementType, dims) + "} ";
}

std::string rlx::test::output(const std::string &name) { return "output { name: '" + name + "' } "; }

std::string rlx::test::node(const std::string &name, const std::string &type, const std::vector<std::string> &inputs,
                            const std::vector<std::string> &outputs, const std::string &attributes) {
  std::string text = "node { name: '" + name + "' op_type: '" + type + "' ";
  for (const std::string &value : inputs)
    text += "input: '" + value + "' ";
  for (const std::string &value : outputs)
    text += "output: '" + value + "' ";
  return text + attributes + "} ";
}

std::string rlx::test::intAttr(const std::string &name, int64_t value) {
  return "attribute { name: '" + name + "' type: INT i: " + std::to_string(value) + " } ";
}

std::string rlx::test::intsAttr(const std::string &name, const std::vector<int64_t> &values) {
  std::string text = "attribute { name: '" + name + "' type: INTS ";
  for (int64_t value : values)
    text += "ints: " + std::to_string(value) + " ";
  return text + "} ";
}

std::string rlx::test::stringAttr(const std::string &name, const std::string &value) {
  return "attribute { name: '" + name + "' type: STRING s: '" + value + "' } ";
}

std::string rlx::test::ints(const std::string &name, const std::vector<int64_t> &values, bool scalar) {
  std::string text = "initializer { name: '" + name + "' data_type: 7 ";
  if (!scalar)
    text += "dims: " + std::to_string(values.size()) + " ";
  for (int64_t value : values)
    text += "int64_data: " + std::to_string(value) + " ";
  return text + "} ";
}

static Result<ImportedModel> import(mlir::MLIRContext &context, const std::string &bytes,
                                    const ImportOptions &options) {
  return importOnnx(context, std::as_bytes(std::span<const char>(bytes)), "", options);
}

Import::Import(const std::string &graph, int opset, const ImportOptions &options, const std::string &rest)
    : context(mlir::MLIRContext::Threading::DISABLED),
      result(import(context, modelBytes(graph, opset, rest), options)) {}

ir::GraphOp Import::graph() {
  if (!result) {
    ADD_FAILURE() << result.error().message;
    return {};
  }
  return *result->module->getOps<ir::GraphOp>().begin();
}

static mlir::Value outputOf(ir::GraphOp graph, unsigned i) {
  return graph ? graph.getBody().front().getTerminator()->getOperand(i) : mlir::Value();
}

std::string Import::dims(unsigned i) {
  mlir::Value value = outputOf(graph(), i);
  return value ? ir::toString(ir::getShape(llvm::cast<mlir::RankedTensorType>(value.getType())).dims) : "";
}

std::string Import::elements(unsigned i) {
  mlir::Value value = outputOf(graph(), i);
  if (!value)
    return "";
  if (auto sizes = value.getDefiningOp<ir::DimValuesOp>())
    return ir::toString(sizes.getValues().getDims());
  auto constant = value.getDefiningOp<ir::ConstantOp>();
  if (!constant) {
    ADD_FAILURE() << "output is not known";
    return "";
  }
  std::string text;
  auto elements = llvm::cast<mlir::DenseElementsAttr>(constant.getValue());
  for (mlir::Attribute element : elements.getValues<mlir::Attribute>()) {
    text += text.empty() ? "" : ", ";
    if (auto integer = llvm::dyn_cast<mlir::IntegerAttr>(element)) {
      llvm::SmallString<24> digits;
      integer.getValue().toString(digits, 10,
                                  !integer.getType().isUnsignedInteger() && !integer.getType().isInteger(1));
      text += digits.str();
    } else {
      text += std::to_string(llvm::cast<mlir::FloatAttr>(element).getValueAsDouble());
    }
  }
  return "[" + text + "]";
}

std::string Import::error() {
  if (result) {
    ADD_FAILURE() << "the import succeeded";
    return "";
  }
  return result.error().message;
}
