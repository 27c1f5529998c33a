//===- OnnxImportTest.cpp - files, inputs, weights, errors ----------------===//
#include "ModelText.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "gmock/gmock.h"

#include <fstream>

using namespace rlx;
using namespace rlx::test;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

namespace {

template <typename OpTy> int count(ir::GraphOp graph) {
  int found = 0;
  graph.walk([&](OpTy) { ++found; });
  return found;
}

std::string inputTypes(Import &import) {
  std::string text;
  for (mlir::Type type : import.graph().getArgumentTypes())
    text += (text.empty() ? "" : " ") + ir::toString(ir::getShape(llvm::cast<mlir::RankedTensorType>(type)).dims);
  return text;
}

//===--- inputs and outputs -----------------------------------------------===//

TEST(OnnxImport, DimsOfInputs) {
  Import import(input("x", f32, {"batch", "", "-1", "3", "floor(height/2 - 1/2)"}) + node("n", "Relu", {"x"}, {"y"}) +
                output("y"));
  EXPECT_EQ(inputTypes(import), "[batch, x_1, x_2, 3, \"floor(height/2 - 1/2)\"]");
  EXPECT_EQ(import.graph().getInputName(0), "x");
  EXPECT_EQ(import.graph().getOutputName(0), "y");
  std::vector<std::string> names;
  for (ir::DimDeclAttr dim : import.graph().getDimDecls())
    names.push_back(dim.getName().str());
  EXPECT_THAT(names, testing::ElementsAre("batch", "x_1", "x_2", "floor(height/2 - 1/2)"));
}

TEST(OnnxImport, FreshNamesDoNotClash) {
  Import import(input("x", f32, {"", "x_0"}) + node("n", "Relu", {"x"}, {"y"}) + output("y"));
  EXPECT_EQ(inputTypes(import), "[x_0_, x_0]");
}

TEST(OnnxImport, DynamicInputsNameEveryDim) {
  ImportOptions options;
  options.dynamicInputs = true;
  Import import(input("x", f32, {"2", "N"}) + input("y", f32, {"2", "3"}) + node("n", "Add", {"x", "y"}, {"z"}) +
                    output("z"),
                17, options);
  EXPECT_EQ(inputTypes(import), "[x_0, N] [y_0, y_1]");
  EXPECT_EQ(import.dims(), "[broadcast(x_0, y_0), broadcast(N, y_1)]");
}

TEST(OnnxImport, NamesThatNoDimCanHave) {
  EXPECT_EQ(Import(input("x", f32, {"?", "?"}) + output("x")).dims(), "[x_0, x_1]");
  EXPECT_THAT(Import(input("x", f32, {"a\\nb"}) + output("x")).error(), HasSubstr("'x' axis 0"));
}

TEST(OnnxImport, AnInitializerThatIsAlsoAnInputIsAWeight) {
  Import import(input("x", i64, {"N"}) + input("k", i64, {"1"}) + ints("k", {5}) + node("n", "Add", {"x", "k"}, {"y"}) +
                output("y"));
  EXPECT_EQ(inputTypes(import), "[N]");
}

TEST(OnnxImport, DeclaredOutputsAreHints) {
  Import wrong(input("x", f32, {"2", "3"}) + node("n", "Relu", {"x"}, {"y"}) + "output { name: 'y' " +
               tensorType(f32, {"2", "4"}) + "}");
  EXPECT_EQ(wrong.dims(), "[2, 3]");
  ASSERT_EQ(wrong.result->warnings.size(), 1u);
  EXPECT_THAT(wrong.result->warnings[0], AllOf(HasSubstr("'y'"), HasSubstr("[2, 4]"), HasSubstr("[2, 3]")));

  Import named(input("x", f32, {"N", "3"}) + node("n", "Relu", {"x"}, {"y"}) + "output { name: 'y' " +
               tensorType(f32, {"other", "3"}) + "}");
  EXPECT_EQ(named.dims(), "[N, 3]");
  EXPECT_TRUE(named.result->warnings.empty());

  // A scalar and one element are not worth a word.
  Import scalar(input("x", f32, {}) + node("n", "Relu", {"x"}, {"y"}) + "output { name: 'y' " + tensorType(f32, {"1"}) +
                "}");
  EXPECT_TRUE(scalar.result->warnings.empty());
}

TEST(OnnxImport, OutputsMayBeInputsAndWeights) {
  Import import(input("x", f32, {"N"}) + ints("k", {1, 2}) + output("x") + output("k"));
  EXPECT_EQ(import.dims(0), "[N]");
  EXPECT_EQ(import.elements(1), "[1, 2]");
  EXPECT_THAT(Import(input("x", f32, {"N"}) + output("x") + output("x")).error(), HasSubstr("'x'"));
}

//===--- initializers -----------------------------------------------------===//

std::string floats(const std::string &name, int n) {
  std::string text = "initializer { name: '" + name + "' data_type: 1 dims: " + std::to_string(n) + " ";
  for (int i = 0; i < n; ++i)
    text += "float_data: " + std::to_string(i) + " ";
  return text + "} ";
}

TEST(OnnxImport, LargeInitializersBecomeRows) {
  Import import(input("x", f32, {"257"}) + floats("w", 257) + floats("unused", 300) +
                node("n", "Add", {"x", "w"}, {"y"}) + output("y"));
  ASSERT_TRUE(import.graph());
  EXPECT_EQ(count<ir::WeightOp>(import.graph()), 1);
  const WeightTable &weights = *import.result->weights;
  ASSERT_EQ(weights.rows().size(), 1u); // the unused one is dropped
  const WeightRow *row = weights.find("w");
  ASSERT_NE(row, nullptr);
  EXPECT_EQ(row->type, data::ElementType::F32);
  EXPECT_EQ(row->shape, std::vector<int64_t>{257});
  ASSERT_EQ(row->bytes.size(), 257 * 4u);
  EXPECT_EQ(reinterpret_cast<const float *>(row->bytes.data())[200], 200.0f);
}

TEST(OnnxImport, SmallInitializersBecomeConstants) {
  Import import(input("x", f32, {"256"}) + floats("w", 256) + node("n", "Add", {"x", "w"}, {"y"}) + output("y"));
  EXPECT_EQ(count<ir::ConstantOp>(import.graph()), 1); // 1024 bytes are the most
  EXPECT_TRUE(import.result->weights->rows().empty());
}

TEST(OnnxImport, TypedFieldsAreNarrowed) {
  // f16 bits and booleans come in int32_data; a boolean is any number.
  Import import("initializer { name: 'h' data_type: 10 dims: 2 int32_data: 15360 int32_data: 49152 } "
                "initializer { name: 'b' data_type: 9 dims: 3 int32_data: 0 int32_data: 1 int32_data: 2 } "
                "initializer { name: 'c' data_type: 3 dims: 2 int32_data: -1 int32_data: 127 } " +
                output("h") + output("b") + output("c"));
  EXPECT_EQ(import.elements(0), "[1.000000, -2.000000]");
  EXPECT_EQ(import.elements(1), "[0, 1, 1]");
  EXPECT_EQ(import.elements(2), "[-1, 127]");
}

TEST(OnnxImport, WrongLengths) {
  EXPECT_THAT(Import("initializer { name: 'w' data_type: 1 dims: 3 float_data: 1 } " + output("w")).error(),
              AllOf(HasSubstr("'w'"), HasSubstr("1 elements"), HasSubstr("3")));
  EXPECT_THAT(Import("initializer { name: 'w' data_type: 1 dims: 3 raw_data: 'abc' } " + output("w")).error(),
              AllOf(HasSubstr("'w'"), HasSubstr("3 bytes"), HasSubstr("12")));
  EXPECT_THAT(Import("initializer { name: 'w' data_type: 1 dims: -3 } " + output("w")).error(), HasSubstr("negative"));
  EXPECT_THAT(Import("initializer { name: 'w' data_type: 1 dims: 4294967296 dims: 4294967296 } " + output("w")).error(),
              HasSubstr("too large"));
  EXPECT_THAT(Import("initializer { name: 'w' data_type: 1 dims: 4611686018427387906 } " + output("w")).error(),
              HasSubstr("too large"));
  EXPECT_THAT(Import("initializer { name: 'w' data_type: 8 dims: 1 string_data: 'a' } " + output("w")).error(),
              HasSubstr("STRING"));
}

/// A folder that goes when the test ends.
struct Folder {
  Folder() { EXPECT_FALSE(llvm::sys::fs::createUniqueDirectory("rlx-import", path)); }
  ~Folder() { llvm::sys::fs::remove_directories(path); }
  std::string file(const std::string &name, const std::string &bytes) {
    llvm::SmallString<128> full(path);
    llvm::sys::path::append(full, name);
    std::ofstream(full.c_str(), std::ios::binary) << bytes;
    return std::string(full);
  }
  llvm::SmallString<128> path;
};

std::string external(const std::string &location, const std::string &more = {}) {
  return "initializer { name: 'w' data_type: 1 dims: 300 data_location: EXTERNAL "
         "external_data { key: 'location' value: '" +
         location + "' } " + more + "} " + input("x", f32, {"300"}) + node("n", "Add", {"x", "w"}, {"y"}) + output("y");
}

std::string externalError(const std::string &location, const std::string &more = {}) {
  Folder folder;
  folder.file("data.bin", std::string(1204, 'a'));
  llvm::SmallString<128> inner(folder.path);
  llvm::sys::path::append(inner, "model");
  EXPECT_FALSE(llvm::sys::fs::create_directory(inner));
  std::string path = folder.file("model/m.onnx", modelBytes(external(location, more)));
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  Result<ImportedModel> result = importOnnx(context, path);
  return result ? "imported" : result.error().message;
}

TEST(OnnxImport, ExternalData) {
  Folder folder;
  std::string bytes(4, '\0');
  for (int i = 0; i < 300; ++i) {
    auto value = static_cast<float>(i);
    bytes.append(reinterpret_cast<const char *>(&value), 4);
  }
  folder.file("data.bin", bytes);
  std::string path =
      folder.file("m.onnx", modelBytes(external("data.bin", "external_data { key: 'offset' value: '4' } "
                                                            "external_data { key: 'length' value: '1200' } ")));
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  Result<ImportedModel> result = importOnnx(context, path);
  ASSERT_TRUE(result) << result.error().message;
  const WeightRow *row = result->weights->find("w");
  ASSERT_NE(row, nullptr);
  EXPECT_EQ(reinterpret_cast<const float *>(row->bytes.data())[299], 299.0f);
}

TEST(OnnxImport, ExternalDataStaysInTheFolder) {
  EXPECT_THAT(externalError("../data.bin"), HasSubstr("outside the model's folder"));
  EXPECT_THAT(externalError("sub/../../data.bin"), HasSubstr("outside the model's folder"));
  EXPECT_THAT(externalError("/etc/passwd"), HasSubstr("outside the model's folder"));
  EXPECT_THAT(externalError(""), HasSubstr("outside the model's folder"));
  EXPECT_THAT(externalError("none.bin"), HasSubstr("none.bin"));
  EXPECT_THAT(externalError("."), Not(HasSubstr("imported")));
}

TEST(OnnxImport, ALinkOutOfTheFolderIsRefused) {
  Folder outside, folder;
  std::string target = outside.file("data.bin", std::string(1200, 'a'));
  llvm::SmallString<128> link(folder.path);
  llvm::sys::path::append(link, "data.bin");
  ASSERT_FALSE(llvm::sys::fs::create_link(target, link));
  std::string path = folder.file("m.onnx", modelBytes(external("data.bin")));
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  Result<ImportedModel> result = importOnnx(context, path);
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().message, HasSubstr("outside the model's folder"));
}

TEST(OnnxImport, ExternalDataLengths) {
  Folder folder;
  folder.file("data.bin", std::string(1204, 'a'));
  auto attempt = [&](const std::string &more) {
    std::string path = folder.file("m.onnx", modelBytes(external("data.bin", more)));
    mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
    Result<ImportedModel> result = importOnnx(context, path);
    return result ? "imported" : result.error().message;
  };
  auto offset = [](const std::string &value) { return "external_data { key: 'offset' value: '" + value + "' } "; };
  EXPECT_EQ(attempt(offset("4")), "imported");
  EXPECT_EQ(attempt(offset("1")), "imported"); // copied once, to be aligned
  EXPECT_THAT(attempt(offset("5")), HasSubstr("1204"));
  EXPECT_THAT(attempt(offset("18446744073709551615")), HasSubstr("1204"));
  EXPECT_THAT(attempt(offset("-1")), HasSubstr("no size"));
  EXPECT_THAT(attempt("external_data { key: 'length' value: '1199' } "), HasSubstr("1199"));
}

//===--- functions and branches -------------------------------------------===//

TEST(OnnxImport, FunctionsAreExpanded) {
  // Scaled(x; k = given) = x * k, called twice; the second call leaves k out.
  std::string function =
      "opset_import { domain: 'mine' version: 1 } "
      "functions { name: 'Scaled' domain: 'mine' input: 'a' output: 'c' attribute: 'k' "
      "opset_import { domain: '' version: 17 } " +
      node("const", "Constant", {}, {"b"}, "attribute { name: 'value_ints' type: INTS ref_attr_name: 'k' } ") +
      node("mul", "Mul", {"a", "b"}, {"c"}) + "} ";
  auto call = [](const std::string &in, const std::string &out, const std::string &attr) {
    return "node { name: 'call_" + out + "' op_type: 'Scaled' domain: 'mine' input: '" + in + "' output: '" + out +
           "' " + attr + "} ";
  };
  Import import(ints("x", {2, 3}) + call("x", "y", intsAttr("k", {5, 7})) + call("y", "z", intsAttr("k", {1, 2})) +
                    output("z"),
                17, {}, function);
  EXPECT_EQ(import.elements(), "[10, 42]");

  Import missing(ints("x", {2}) + call("x", "y", "") + output("y"), 17, {}, function);
  EXPECT_THAT(missing.error(), HasSubstr("call_y/const"));
}

TEST(OnnxImport, AFunctionThatCallsItselfIsAnError) {
  std::string function = "opset_import { domain: 'mine' version: 1 } "
                         "functions { name: 'F' domain: 'mine' input: 'a' output: 'b' "
                         "opset_import { domain: 'mine' version: 1 } "
                         "node { op_type: 'F' domain: 'mine' input: 'a' output: 'b' } } ";
  Import import(input("x", f32, {"1"}) + "node { op_type: 'F' domain: 'mine' input: 'x' output: 'y' } " + output("y"),
                17, {}, function);
  EXPECT_THAT(import.error(), HasSubstr("calls itself"));
}

TEST(OnnxImport, ABranchThatShapesDecideIsTaken) {
  auto branch = [](const std::string &name, const std::string &type) {
    return "attribute { name: '" + name + "' type: GRAPH g { name: 'b' " + node(type, type, {"x"}, {"r"}) +
           output("r") + "} } ";
  };
  std::string graph =
      input("x", f32, {"N", "3"}) + ints("one", {1}) + ints("three", {3}) + node("shape", "Shape", {"x"}, {"s"}) +
      node("pick", "Gather", {"s", "one"}, {"w"}) + node("test", "Equal", {"w", "three"}, {"c"}) +
      node("if", "If", {"c"}, {"y"}, branch("then_branch", "Exp") + branch("else_branch", "Loop")) + output("y");
  Import import(graph);
  EXPECT_EQ(count<ir::ExpOp>(import.graph()), 1);
  EXPECT_THAT(Import(input("x", f32, {"3"}) + input("c", boolean, {}) +
                     node("if", "If", {"c"}, {"y"}, branch("then_branch", "Exp") + branch("else_branch", "Log")) +
                     output("y"))
                  .error(),
              AllOf(HasSubstr("'if'"), HasSubstr("only when the model runs")));
}

//===--- errors -----------------------------------------------------------===//

TEST(OnnxImport, OneErrorListsAllThatIsUnsupported) {
  Import import(input("x", f32, {"N"}) + input("k", i64, {"1"}) + node("a", "NonZero", {"x"}, {"p"}) +
                node("b", "Relu", {"p"}, {"q"}) + node("c", "Reshape", {"x", "k"}, {"r"}) +
                node("d", "NonZero", {"x"}, {"s"}) + node("e", "Relu", {"x"}, {"t"}, intAttr("odd", 1)) +
                "node { op_type: 'Fused' domain: 'com.example' input: 'x' output: 'u' } " + output("q") + output("r"));
  std::string error = import.error();
  EXPECT_EQ(import.result.error().code, ErrorCode::Unsupported);
  EXPECT_THAT(error, HasSubstr("nodes 'a', 'd': operator NonZero is not supported"));
  EXPECT_THAT(error, HasSubstr("node 'c': Reshape: operand 'shape'"));
  EXPECT_THAT(error, HasSubstr("node 'e': Relu: attribute 'odd'"));
  EXPECT_THAT(error, HasSubstr("node 'Fused:u': operator com.example.Fused"));
  EXPECT_THAT(error, Not(HasSubstr("'b'"))); // it only follows
  EXPECT_EQ(error.find('\n'), std::string::npos);
}

TEST(OnnxImport, AMessageIsOneLineWhateverTheNames) {
  EXPECT_THAT(Import(input("x", f32, {"N"}) + node("a\\nb", "NonZero", {"x"}, {"y"}) + output("y")).error(),
              HasSubstr("'a\\x0Ab'"));
}

TEST(OnnxImport, ALongListEnds) {
  std::string nodes;
  for (int i = 0; i < 200; ++i)
    nodes += node("n" + std::to_string(i), "Kind" + std::to_string(i), {"x"}, {"y" + std::to_string(i)});
  std::string error = Import(input("x", f32, {"N"}) + nodes + output("y1")).error();
  EXPECT_THAT(error, AllOf(HasSubstr("'n49'"), HasSubstr("perhaps more"), Not(HasSubstr("'n60'"))));
}

TEST(OnnxImport, WrongGraphs) {
  auto code = [](const Import &import) { return import.result.error().code; };
  Import unknown(input("x", f32, {"N"}) + node("n", "Add", {"x", "nothing"}, {"y"}) + output("y"));
  EXPECT_THAT(unknown.error(), AllOf(HasSubstr("'n'"), HasSubstr("'nothing'")));
  EXPECT_EQ(code(unknown), ErrorCode::InvalidModel);
  EXPECT_THAT(
      Import(input("x", f32, {"N"}) + node("n", "Relu", {"x"}, {"y"}) + node("m", "Relu", {"x"}, {"y"}) + output("y"))
          .error(),
      AllOf(HasSubstr("'m'"), HasSubstr("defined already")));
  EXPECT_THAT(Import(input("x", f32, {"N"}) + output("z")).error(), HasSubstr("output 'z'"));
  EXPECT_THAT(Import(input("x", f32, {"N"})).error(), HasSubstr("no outputs"));
  EXPECT_THAT(Import(input("x", f32, {"N"}) + input("x", f32, {"N"}) + output("x")).error(), HasSubstr("two inputs"));
  EXPECT_THAT(Import(ints("k", {1}) + ints("k", {2}) + output("k")).error(), HasSubstr("two initializers"));
  EXPECT_THAT(
      Import(input("x", f32, {"N"}) + input("i", i64, {"N"}) + node("n", "Add", {"x", "i"}, {"y"}) + output("y"))
          .error(),
      HasSubstr("'n'"));
  EXPECT_THAT(Import(input("a", f32, {"4", "384"}) + input("b", f32, {"512", "2"}) +
                     node("n", "MatMul", {"a", "b"}, {"y"}) + output("y"))
                  .error(),
              AllOf(HasSubstr("'n'"), HasSubstr("384"), HasSubstr("512")));
  EXPECT_THAT(Import(input("x", f32, {"4611686018427387904", "4"}) + output("x")).error(), HasSubstr("too large"));
  EXPECT_THAT(Import(input("x", f32, {"-7"}) + output("x")).error(), HasSubstr("-7"));
  EXPECT_THAT(Import("input { name: 'x' type { tensor_type { elem_type: 1 } } } " + output("x")).error(),
              HasSubstr("no declared number of dims"));
}

TEST(OnnxImport, Opsets) {
  EXPECT_THAT(Import(input("x", f32, {"N"}) + node("n", "Relu", {"x"}, {"y"}) + output("y"), 6).error(),
              HasSubstr("opset 6"));
  Import seven(input("x", f32, {"N"}) + node("n", "Relu", {"x"}, {"y"}) + output("y"), 7);
  EXPECT_TRUE(seven.result);
  Import future(input("x", f32, {"N"}) + node("n", "Relu", {"x"}, {"y"}) + output("y"), 999);
  ASSERT_TRUE(future.result);
  EXPECT_THAT(future.result->warnings.at(0), HasSubstr("opset 999"));
  EXPECT_THAT(Import(input("x", f32, {"N"}) + node("n", "Gelu", {"x"}, {"y"}) + output("y"), 17).error(),
              HasSubstr("Gelu of opset 17"));
}

TEST(OnnxImport, NodesGiveLocations) {
  Import import(input("x", f32, {"N"}) + node("my/node", "Exp", {"x"}, {"y"}) +
                "node { op_type: 'Log' input: 'y' output: 'z' } " + output("z"));
  std::vector<std::string> names;
  import.graph().walk([&](mlir::Operation *op) {
    if (auto loc = llvm::dyn_cast<mlir::NameLoc>(op->getLoc()))
      names.push_back(loc.getName().str());
  });
  EXPECT_THAT(names, testing::ElementsAre("my/node", "Log:z"));
}

TEST(OnnxImport, WrongFiles) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  EXPECT_EQ(importOnnx(context, std::string("/nonexistent.onnx")).error().code, ErrorCode::Io);
  EXPECT_EQ(importOnnx(context, std::string("/")).error().code, ErrorCode::Io);
  EXPECT_EQ(importOnnx(context, std::span<const std::byte>(), "").error().code, ErrorCode::InvalidModel);
}

TEST(OnnxImport, ListsItsOperators) {
  std::vector<std::string> ops = listOnnxOps();
  EXPECT_THAT(ops, testing::IsSupersetOf({"Gemm 7+", "Clip 7-10", "Clip 11+"}));
  EXPECT_TRUE(std::is_sorted(ops.begin(), ops.end()));
}

} // namespace
