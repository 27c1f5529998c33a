//===- ModuleIOTest.cpp - .mlir files with their weights ------------------===//
#include "ModelText.h"

#include "rlx/Import/ModuleIO.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "gmock/gmock.h"

#include <fstream>
#include <sstream>

using namespace rlx;
using namespace rlx::test;
using testing::AllOf;
using testing::HasSubstr;

namespace {

struct ModuleIO : testing::Test {
  void SetUp() override { ASSERT_FALSE(llvm::sys::fs::createUniqueDirectory("rlx-moduleio", folder)); }
  void TearDown() override { llvm::sys::fs::remove_directories(folder); }

  std::string at(const std::string &name) { return std::string(folder) + "/" + name; }
  void put(const std::string &name, const std::string &text) { std::ofstream(at(name), std::ios::binary) << text; }
  std::string get(const std::string &name) {
    std::ifstream file(at(name), std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }
  std::vector<std::string> files() {
    std::vector<std::string> names;
    std::error_code code;
    for (llvm::sys::fs::directory_iterator entry(folder, code), end; entry != end && !code; entry.increment(code))
      names.push_back(llvm::sys::path::filename(entry->path()).str());
    std::sort(names.begin(), names.end());
    return names;
  }

  /// y = x + w, with a weight of 300 floats.
  static std::string withWeight() {
    std::string text = "initializer { name: 'a/w:0' data_type: 1 dims: 300 ";
    for (int i = 0; i < 300; ++i)
      text += "float_data: " + std::to_string(i) + " ";
    return text + "} " + input("x", f32, {"N", "300"}) + node("add", "Add", {"x", "a/w:0"}, {"y"}) + output("y");
  }

  llvm::SmallString<128> folder;
};

/// What reading a module of this text says.
std::string parseError(const std::string &text) {
  mlir::MLIRContext context;
  Result<mlir::OwningOpRef<mlir::ModuleOp>> parsed =
      parseMlir(context, text, "m.mlir", [](llvm::StringRef) -> const WeightRow * { return nullptr; });
  return parsed ? "" : parsed.error().message;
}

TEST(ModuleText, IssueTextThatIsTooDeep) {
  auto repeated = [](const char *text, size_t times) {
    std::string result;
    for (size_t i = 0; i != times; ++i)
      result += text;
    return result;
  };
  for (const char *bracket : {"[", "{a = ", "(", "#rlx.dims<", "\"a.b\"() ({\n"})
    EXPECT_THAT(parseError("module attributes {x = " + repeated(bracket, 50000)), HasSubstr("200 deep")) << bracket;
  EXPECT_THAT(parseError("module {\n%0 = " + repeated("- ", 50000)), HasSubstr("m.mlir:2: more than 16 signs"));
  EXPECT_THAT(parseError("#m = affine_map<(d) -> (" + repeated("d + ", 100000) + "d)>"), HasSubstr("affine maps"));
  // Brackets in strings and comments, and arrows, are none.
  std::string many = repeated("[", 1000);
  EXPECT_EQ(parseError("// " + many + "\nmodule attributes {rlx.x = \"" + many + "\\\" " + many + "\"} {}"), "");
}

TEST_F(ModuleIO, RoundTrip) {
  Import import(withWeight());
  ASSERT_TRUE(import.graph());
  Status written = writeModule(*import.result->module, *import.result->weights, at("m.mlir"));
  ASSERT_TRUE(written) << written.error().message;
  EXPECT_THAT(files(), testing::ElementsAre("m.mlir", "m.safetensors"));
  EXPECT_THAT(get("m.mlir"), HasSubstr("rlx.weights = \"m.safetensors\""));
  EXPECT_FALSE((*import.result->module)->hasAttr("rlx.weights")); // the caller's module is as it was

  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  Result<OpenedModule> opened = openMlir(context, at("m.mlir"));
  ASSERT_TRUE(opened) << opened.error().message;
  const WeightRow *row = opened->weights->find("a/w:0");
  ASSERT_NE(row, nullptr);
  EXPECT_EQ(reinterpret_cast<const float *>(row->bytes.data())[299], 299.0f);

  // Written again, it is the same text.
  ASSERT_TRUE(writeModule(*opened->module, *opened->weights, at("n.mlir")));
  std::string again = get("n.mlir");
  size_t name = again.find("n.safetensors");
  ASSERT_NE(name, std::string::npos);
  EXPECT_EQ(again.replace(name, 1, "m"), get("m.mlir"));
}

TEST_F(ModuleIO, WeightsElsewhere) {
  Import import(withWeight());
  ASSERT_TRUE(writeModule(*import.result->module, *import.result->weights, at("m.mlir"), at("other.st")));
  EXPECT_THAT(files(), testing::ElementsAre("m.mlir", "other.st"));
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  EXPECT_TRUE(openMlir(context, at("m.mlir")));
  ASSERT_FALSE(llvm::sys::fs::rename(at("other.st"), at("moved.st")));
  EXPECT_THAT(openMlir(context, at("m.mlir")).error().message, HasSubstr("other.st"));
  EXPECT_TRUE(openMlir(context, at("m.mlir"), at("moved.st")));
}

TEST_F(ModuleIO, NoWeightsNoFile) {
  Import import(input("x", f32, {"N"}) + node("n", "Relu", {"x"}, {"y"}) + output("y"));
  ASSERT_TRUE(writeModule(*import.result->module, *import.result->weights, at("m.mlir")));
  EXPECT_THAT(files(), testing::ElementsAre("m.mlir"));
}

TEST_F(ModuleIO, NothingIsLeftOnAnError) {
  Import import(withWeight());
  Status status = writeModule(*import.result->module, *import.result->weights, at("no/such/m.mlir"));
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::Io);
  // The weights can be written, the text cannot.
  EXPECT_FALSE(writeModule(*import.result->module, *import.result->weights, at("no/m.mlir"), at("w.st")));
  EXPECT_FALSE(writeModule(*import.result->module, *import.result->weights, std::string(folder)));
  EXPECT_FALSE(writeModule(*import.result->module, *import.result->weights, at("m.mlir"), at("m.mlir")));
  EXPECT_THAT(files(), testing::IsEmpty());
}

TEST_F(ModuleIO, ModulesThatAreWrong) {
  auto open = [&](const std::string &text) {
    put("m.mlir", text);
    mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
    Result<OpenedModule> opened = openMlir(context, at("m.mlir"));
    return opened ? std::string("opened") : opened.error().message;
  };
  EXPECT_THAT(open("module {"), AllOf(HasSubstr("m.mlir"), HasSubstr(" 1:")));
  EXPECT_THAT(open("module { %0 = foo.bar : i32 }"), HasSubstr("m.mlir"));
  EXPECT_THAT(open("\n  rlx.graph @main() -> (tensor<2xf32>) { rlx.output }"), HasSubstr("2:"));
  EXPECT_THAT(open(std::string("ML\xefR\0\0\0\0\0\0", 10)), AllOf(HasSubstr("m.mlir"), HasSubstr("bytecode")));
  std::string graph = "rlx.graph @main() -> tensor<2xf32> { %0 = rlx.weight \"w\" : tensor<2xf32> "
                      "rlx.output %0 : tensor<2xf32> }";
  EXPECT_THAT(open("module { " + graph + " }"), HasSubstr("'w'"));
  for (const char *name : {"../w.st", "/etc/passwd", "a/../../w.st", ""})
    EXPECT_THAT(open("module attributes {rlx.weights = \"" + std::string(name) + "\"} { " + graph + " }"),
                HasSubstr("--weights"));
}

TEST_F(ModuleIO, ARowOfAnotherShape) {
  Import import(withWeight());
  ASSERT_TRUE(writeModule(*import.result->module, *import.result->weights, at("m.mlir")));
  std::string text = get("m.mlir");
  for (size_t found = text.find("300"); found != std::string::npos; found = text.find("300", found))
    text.replace(found, 3, "301");
  put("m.mlir", text);
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  EXPECT_THAT(openMlir(context, at("m.mlir")).error().message, AllOf(HasSubstr("a/w:0"), HasSubstr("shape")));
}

} // namespace
