//===- HostileTest.cpp - files that are wrong on purpose ------------------===//
//
// Whatever the bytes, an import ends with a model or an error. The mutations are
// the same at every run.
//
//===----------------------------------------------------------------------===//
#include "ModelText.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

#include <memory>
#include <random>

using namespace rlx;
using namespace rlx::test;

namespace {

std::string seedModel() {
  std::string branch = "g { name: 'b' " + node("e", "Exp", {"x"}, {"r"}) + output("r") + "} } ";
  return modelBytes(
      input("x", f32, {"B", "S", "8"}) + input("i", i64, {"S"}) + ints("shape", {0, -1, 2, 4}) + ints("k", {1, 2}) +
          ints("axes", {0}) + ints("zero", {0}) + ints("two", {2}) +
          "initializer { name: 'w' data_type: 1 dims: 8 dims: 2 raw_data: '" + std::string(64, 'x') + "' } " +
          node("s", "Shape", {"x"}, {"sx"}) + node("g", "Gather", {"sx", "k"}, {"part"}) +
          node("m", "Mul", {"part", "k"}, {"double"}) + node("r", "Reshape", {"x", "shape"}, {"rx"}) +
          node("sl", "Slice", {"x", "zero", "two", "axes"}, {"slx"}) + node("mm", "MatMul", {"x", "w"}, {"mx"}) +
          node("sp", "Split", {"x"}, {"p0", "p1"}, intAttr("axis", 2)) +
          node("c", "Concat", {"p0", "p1"}, {"cx"}, intAttr("axis", -1)) +
          node("t", "Transpose", {"x"}, {"tx"}, intsAttr("perm", {2, 0, 1})) +
          node("red", "ReduceSum", {"x", "axes"}, {"redx"}) +
          node("ga", "Gather", {"x", "i"}, {"gx"}, intAttr("axis", 1)) +
          node("cl", "Constant", {}, {"one"}, intsAttr("value_ints", {1})) +
          node("if", "If", {"flag"}, {"ifx"},
               "attribute { name: 'then_branch' type: GRAPH " + branch +
                   "attribute { name: 'else_branch' type: GRAPH " + branch) +
          "initializer { name: 'flag' data_type: 9 int32_data: 1 } "
          "node { op_type: 'F' domain: 'mine' input: 'x' output: 'fx' " +
          intAttr("n", 1) + "} " + output("rx") + output("cx") + output("mx") + output("double"),
      17,
      "opset_import { domain: 'mine' version: 1 } functions { name: 'F' domain: 'mine' input: 'a' output: 'b' "
      "attribute: 'n' opset_import { domain: '' version: 17 } " +
          node("fl", "Flatten", {"a"}, {"b"}, "attribute { name: 'axis' type: INT ref_attr_name: 'n' } ") + "} ");
}

/// One context serves many imports; it is renewed so that it cannot grow without end.
void importAny(const std::string &bytes) {
  static std::unique_ptr<mlir::MLIRContext> shared;
  static int uses = 0;
  if (uses++ % 500 == 0)
    shared = std::make_unique<mlir::MLIRContext>(mlir::MLIRContext::Threading::DISABLED);
  mlir::MLIRContext &context = *shared;
  Result<ImportedModel> result = importOnnx(context, std::as_bytes(std::span<const char>(bytes)), "");
  if (!result)
    EXPECT_FALSE(result.error().message.empty());
}

TEST(Hostile, TheSeedItselfIsFine) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  std::string bytes = seedModel();
  // Nodes are in order; only the flag is declared late, which ONNX allows.
  Result<ImportedModel> result = importOnnx(context, std::as_bytes(std::span<const char>(bytes)), "");
  EXPECT_TRUE(result) << result.error().message;
}

TEST(Hostile, Truncations) {
  std::string bytes = seedModel();
  for (size_t length = 0; length < bytes.size(); length += 7)
    importAny(bytes.substr(0, length));
}

TEST(Hostile, ChangedBytes) {
  std::string seed = seedModel();
  std::mt19937 random(1);
  for (int round = 0; round < 1500; ++round) {
    std::string bytes = seed;
    for (int changes = 1 + round % 4; changes > 0; --changes) {
      size_t at = random() % bytes.size();
      switch (random() % 4) {
      case 0:
        bytes[at] = static_cast<char>(random());
        break;
      case 1:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << (random() % 8)));
        break;
      case 2:
        bytes[at] = static_cast<char>(random() % 2 ? 0xff : 0x7f);
        break;
      case 3:
        bytes.erase(at, 1 + random() % 3);
        break;
      }
    }
    importAny(bytes);
  }
}

TEST(Hostile, Noise) {
  std::mt19937 random(2);
  for (int round = 0; round < 200; ++round) {
    std::string bytes(random() % 200, '\0');
    for (char &c : bytes)
      c = static_cast<char>(random());
    importAny(bytes);
  }
}

/// Every integer attribute and constant of the seed's kind of model, at values
/// that no exporter writes.
TEST(Hostile, ExtremeNumbers) {
  for (int64_t value :
       {INT64_MIN, INT64_MIN + 1, int64_t(-1), int64_t(0), int64_t(1) << 31, INT64_MAX - 1, INT64_MAX}) {
    std::string x = input("x", f32, {"B", "S", "8"}), v = ints("v", {value}), vv = ints("vv", {value, value, value});
    auto attempt = [&](const std::string &graph, int opset = 18) {
      importAny(modelBytes(x + v + vv + graph + output("y"), opset));
    };
    for (const char *type : {"Flatten", "Softmax", "LogSoftmax", "ArgMax", "Hardmax", "LayerNormalization"})
      attempt(node("n", type, {"x", "x"}, {"y"}, intAttr("axis", value)));
    for (const char *type : {"Softmax", "Flatten", "LogSoftmax"})
      attempt(node("n", type, {"x"}, {"y"}, intAttr("axis", value)), 11);
    attempt(node("n", "Concat", {"x", "x"}, {"y"}, intAttr("axis", value)));
    attempt(node("n", "Gather", {"x", "v"}, {"y"}, intAttr("axis", value)));
    attempt(node("n", "GatherND", {"x", "v"}, {"y"}, intAttr("batch_dims", value)));
    attempt(node("n", "GatherElements", {"vv", "v"}, {"y"}, intAttr("axis", value)));
    attempt(node("n", "Split", {"x"}, {"y"}, intAttr("axis", value) + intAttr("num_outputs", value)));
    attempt(node("n", "Transpose", {"x"}, {"y"}, intsAttr("perm", {value, value, value})));
    attempt(node("n", "CumSum", {"x", "v"}, {"y"}));
    attempt(node("n", "Reshape", {"x", "vv"}, {"y"}));
    attempt(node("n", "Reshape", {"x", "v"}, {"y"}, intAttr("allowzero", 1)));
    attempt(node("n", "Expand", {"x", "vv"}, {"y"}));
    attempt(node("n", "Tile", {"x", "vv"}, {"y"}));
    attempt(node("n", "ConstantOfShape", {"vv"}, {"y"}));
    attempt(node("n", "ConstantOfShape", {"v"}, {"y"}));
    attempt(node("n", "Unsqueeze", {"x", "v"}, {"y"}));
    attempt(node("n", "Squeeze", {"x", "v"}, {"y"}));
    attempt(node("n", "Pad", {"x", "vv"}, {"y"}));
    attempt(ints("six", {value, value, value, value, value, value}) + node("n", "Pad", {"x", "six"}, {"y"}));
    attempt(ints("s", {value}, true) + node("n", "Range", {"s", "s", "s"}, {"y"}));
    attempt(ints("s", {value}, true) + ints("z", {0}, true) + ints("o", {1}, true) +
            node("n", "Range", {"z", "s", "o"}, {"y"}));
    attempt(ints("s", {value}, true) + ints("z", {0}, true) + ints("o", {-1}, true) +
            node("n", "Range", {"s", "z", "o"}, {"y"}));
    attempt(ints("s", {value}, true) + node("n", "Trilu", {"x", "s"}, {"y"}));
    attempt(node("n", "Slice", {"x", "v", "v", "v", "v"}, {"y"}));
    attempt(ints("z", {0}) + node("n", "Slice", {"x", "v", "v", "z", "v"}, {"y"}));
    attempt(ints("z", {0}) + node("n", "Slice", {"vv", "v", "v", "z", "v"}, {"y"}));
    attempt(node("n", "OneHot", {"v", "v", "vv"}, {"y"}, intAttr("axis", value)));
    attempt(node("n", "Shape", {"x"}, {"y"}, intAttr("start", value) + intAttr("end", value)));
    attempt(node("n", "EyeLike", {"x"}, {"y"}, intAttr("k", value)));
    attempt(node("n", "Cast", {"x"}, {"y"}, intAttr("to", value)));
    attempt(node("n", "RandomNormal", {}, {"y"}, intsAttr("shape", {value, value}) + intAttr("dtype", value)));
    for (const char *type : {"Add", "Sub", "Mul", "Div", "Mod", "Max", "Min", "Pow", "Less", "Equal"}) {
      attempt(node("n", type, {"v", "vv"}, {"y"}));
      attempt(node("sh", "Shape", {"x"}, {"s"}) + node("n", type, {"s", "vv"}, {"y"}));
      attempt(node("sh", "Shape", {"x"}, {"s"}) + node("n", type, {"s", "vv"}, {"t"}) +
              node("r", "Reshape", {"x", "t"}, {"y"}));
    }
    attempt(node("n", "Neg", {"v"}, {"y"}));
    attempt(node("n", "Abs", {"v"}, {"y"}));
    attempt(node("n", "ReduceProd", {"vv"}, {"y"}));
    attempt(node("n", "ReduceSum", {"vv"}, {"y"}));
    attempt(node("n", "ReduceSum", {"x", "v"}, {"y"}));
    attempt(input("q", f32, {"1", "4", "2", "2"}) +
            node("n", "DepthToSpace", {"q"}, {"y"}, intAttr("blocksize", value)));
    attempt(node("n", "RotaryEmbedding", {"x", "x", "x"}, {"y"}, intAttr("num_heads", value)), 23);
    attempt(
        node("n", "Attention", {"x", "x", "x"}, {"y"}, intAttr("q_num_heads", value) + intAttr("kv_num_heads", value)),
        23);
    attempt(node("n", "GroupNormalization", {"x", "x", "x"}, {"y"}, intAttr("num_groups", value)), 21);
    attempt(node("n", "BitShift", {"v", "v"}, {"y"}, stringAttr("direction", "LEFT")));
  }
}

/// Every operator without inputs, with operands of every rank and of every type.
TEST(Hostile, EveryOperatorWithWrongOperands) {
  for (const std::string &line : listOnnxOps()) {
    std::string type = line.substr(0, line.find(' '));
    for (int opset : {7, 13, 23})
      for (int inputs : {0, 1, 2, 3, 5})
        for (int kind = 0; kind < 5; ++kind) {
          static const char *names[] = {"scalar", "list", "cube", "flag", "five"};
          std::vector<std::string> operands(inputs, names[kind]);
          importAny(modelBytes(input("scalar", f32, {}) + input("list", i64, {"N"}) +
                                   input("cube", f32, {"A", "0", "2"}) + input("flag", boolean, {"1", "B"}) +
                                   input("five", f32, {"1", "2", "3", "4", "C"}) +
                                   node("n", type, operands, {"y", "z", "u", "v"}) + output("y"),
                               opset));
        }
  }
}

TEST(Hostile, FunctionsThatGrowWithoutEnd) {
  // F0 calls F1 twice, F1 calls F2 twice, and so on: 2^40 nodes.
  std::string functions = "opset_import { domain: 'm' version: 1 } ";
  for (int i = 0; i < 40; ++i) {
    std::string next = i == 39 ? "op_type: 'Relu'" : "op_type: 'F" + std::to_string(i + 1) + "' domain: 'm'";
    functions += "functions { name: 'F" + std::to_string(i) +
                 "' domain: 'm' input: 'a' output: 'c' "
                 "opset_import { domain: 'm' version: 1 } opset_import { domain: '' version: 17 } "
                 "node { " +
                 next + " input: 'a' output: 'b' } node { " + next + " input: 'b' output: 'c' } } ";
  }
  Import import(input("x", f32, {"1"}) + "node { op_type: 'F0' domain: 'm' input: 'x' output: 'y' } " + output("y"), 17,
                {}, functions);
  EXPECT_NE(import.error().find("nodes"), std::string::npos);
}

/// Initializers of both sides of what stays in a file, in mixed order, one of them with a boolean's odd bytes.
std::string largeModel() {
  auto raw = [](const std::string &name, int type, const std::string &dims, size_t bytes, char first) {
    std::string text =
        "initializer { name: '" + name + "' data_type: " + std::to_string(type) + " " + dims + " raw_data: '";
    for (size_t i = 0; i < bytes; ++i)
      text += static_cast<char>('a' + (static_cast<size_t>(first) + i * i) % 26);
    return text + "' } ";
  };
  return modelBytes(input("x", f32, {"B", "16"}) + raw("w1", f32, "dims: 16 dims: 24", 1536, 1) +
                    raw("small", f32, "dims: 24", 96, 2) + ints("axes", {0}) +
                    raw("w2", f32, "dims: 24 dims: 20", 1920, 3) + raw("mask", boolean, "dims: 1200", 1200, 4) +
                    raw("w3", 3, "dims: 1100", 1100, 5) + node("m", "MatMul", {"x", "w1"}, {"a"}) +
                    node("b", "Add", {"a", "small"}, {"c"}) + node("m2", "MatMul", {"c", "w2"}, {"d"}) + output("d") +
                    node("n", "Not", {"mask"}, {"e"}) + output("e") + node("i", "Identity", {"w3"}, {"f"}) +
                    output("f") + node("r", "ReduceSum", {"d", "axes"}, {"g"}) + output("g"));
}

/// What an import came to, as text: the module with every byte of its weights, or the error.
std::string outcome(const Result<ImportedModel> &result, const std::string &path) {
  if (!result) {
    std::string message = result.error().message;
    return message.starts_with(path + ": ") ? message.substr(path.size() + 2) : message;
  }
  std::string text;
  llvm::raw_string_ostream os(text);
  (*result->module)->print(os);
  for (const auto &[name, row] : result->weights->rows()) {
    os << name << ' ' << static_cast<int>(row.type);
    for (std::byte each : row.bytes)
      os << ' ' << std::to_integer<int>(each);
  }
  return text;
}

// Parsed around its large contents or in one piece, a file means the same.
TEST(Hostile, FilesAreReadAsBytesAre) {
  llvm::SmallString<128> folder;
  ASSERT_FALSE(llvm::sys::fs::createUniqueDirectory("rlx-hostile", folder));
  std::string path = (folder + "/m.onnx").str();
  std::string seed = largeModel();
  std::mt19937 random(11);
  int good = 0;
  std::unique_ptr<mlir::MLIRContext> context;
  for (int round = 0; round < 1200; ++round) {
    if (round % 300 == 0)
      context = std::make_unique<mlir::MLIRContext>(mlir::MLIRContext::Threading::DISABLED);
    std::string bytes = seed;
    for (int changes = round % 3; changes > 0; --changes) {
      size_t at = random() % bytes.size();
      switch (random() % 5) {
      case 0:
        bytes[at] = static_cast<char>(random());
        break;
      case 1: // where the lengths are: before the long runs of letters
        if (size_t name = bytes.find("small"); name != std::string::npos && name > 40)
          at = name - random() % 40;
        bytes[at] = static_cast<char>(random());
        break;
      case 2:
        bytes.erase(at, 1 + random() % 3);
        break;
      case 3:
        bytes.insert(at, bytes.substr(random() % bytes.size(), random() % 2000));
        break;
      default:
        bytes.resize(at);
      }
      if (bytes.empty())
        bytes = seed;
    }
    {
      std::error_code code;
      llvm::raw_fd_ostream file(path, code);
      ASSERT_FALSE(code);
      file << bytes;
    }
    Result<ImportedModel> copied = importOnnx(*context, std::as_bytes(std::span<const char>(bytes)), "");
    Result<ImportedModel> mapped = importOnnx(*context, path);
    good += static_cast<bool>(mapped);
    ASSERT_EQ(outcome(mapped, path), outcome(copied, path)) << "round " << round;
    if (round == 0) {
      ASSERT_TRUE(mapped) << mapped.error().message;
      for (const char *name : {"w1", "w2", "w3"}) {
        ASSERT_TRUE(mapped->weights->find(name)) << name;
        EXPECT_TRUE(mapped->weights->find(name)->mapped) << name;
        EXPECT_FALSE(copied->weights->find(name)->mapped) << name;
      }
      EXPECT_FALSE(mapped->weights->find("mask")->mapped); // its bytes are no booleans yet
    }
  }
  EXPECT_GT(good, 400);
  llvm::sys::fs::remove_directories(folder);
}

TEST(Hostile, DeepBranches) {
  std::string inner = node("n", "Relu", {"x"}, {"r"}) + output("r");
  for (int depth = 0; depth < 30; ++depth)
    inner = node("n", "If", {"flag"}, {"r"},
                 "attribute { name: 'then_branch' type: GRAPH g { name: 'a' " + inner +
                     "} } attribute { name: 'else_branch' type: GRAPH g { name: 'b' } } ") +
            output("r");
  importAny(modelBytes(input("x", f32, {"1"}) + "initializer { name: 'flag' data_type: 9 int32_data: 1 } " + inner));
}

// Found by trying to break the tools: each of these ran with an input ignored, or had a message without the node.
TEST(Hostile, IssueMessagesNameTheNode) {
  std::string x = input("x", f32, {"B", "4"});
  EXPECT_EQ(Import(x + node("n", "Relu", {"x", "x"}, {"y"}) + output("y")).error(),
            "node 'n': Relu: input number 1 ('x') is not supported");

  std::string doubled = x;
  for (int i = 0; i < 64; ++i)
    doubled += node("n" + std::to_string(i), "Concat", std::vector<std::string>(2, i ? "t" + std::to_string(i) : "x"),
                    {"t" + std::to_string(i + 1)}, intAttr("axis", 0));
  EXPECT_EQ(Import(doubled + output("t64")).error(),
            "node 'n62': Concat: a size of result 't63' is too large a number, "
            "or an expression of too many names");

  EXPECT_EQ(Import(x + ints("s", {0}, true) + ints("e", {int64_t(1) << 62}, true) + ints("d", {1}, true) +
                   node("n", "Range", {"s", "e", "d"}, {"y"}) + output("y"))
                .error(),
            "node 'n': 'rlx.iota' op a tensor's size overflows: 'tensor<4611686018427387904xi64>'");

  EXPECT_EQ(Import(input("i", i64, {"B"}) + ints("d", {-2}, true) + ints("v", {0, 1}) +
                   node("n", "OneHot", {"i", "d", "v"}, {"y"}) + output("y"))
                .error(),
            "node 'n': OneHot: depth is not negative, but 0 <= -2 is false");

  EXPECT_EQ(Import(x + node("n", "BatchNormalization", {"x", "x", "x", "x", "x"}, {"y"}) + output("y")).error(),
            "node 'n': BatchNormalization: a parameter per channel has rank 2, not 1");
}

} // namespace

// Protobuf takes five bytes at most for a length; so does the walk around large contents.
TEST(Hostile, IssueLengthsOfManyBytes) {
  std::string seed = largeModel();
  // The graph, field 7 of the model, behind fields of one byte each or with lengths of one byte.
  size_t at = 0;
  while (seed[at] != '\x3a')
    at += (seed[at] & 7) == 0 ? 2 : 2 + static_cast<unsigned char>(seed[at + 1]);
  size_t end = at + 1;
  while (seed[end] & '\x80')
    ++end;
  llvm::SmallString<128> folder;
  ASSERT_FALSE(llvm::sys::fs::createUniqueDirectory("rlx-hostile", folder));
  std::string path = (folder + "/m.onnx").str();
  for (size_t length : {end - at, size_t(5), size_t(6), size_t(10)}) {
    std::string bytes = seed;
    bytes[end] = static_cast<char>(bytes[end] | '\x80');
    bytes.insert(end + 1, std::string(length - (end - at), '\x80'));
    bytes[at + length] &= '\x7f';
    {
      std::error_code code;
      llvm::raw_fd_ostream file(path, code);
      ASSERT_FALSE(code);
      file << bytes;
    }
    mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
    Result<ImportedModel> mapped = importOnnx(context, path);
    EXPECT_EQ(static_cast<bool>(mapped), length <= 5) << length << " bytes";
    EXPECT_EQ(outcome(mapped, path),
              outcome(importOnnx(context, std::as_bytes(std::span<const char>(bytes)), ""), path));
  }
  llvm::sys::fs::remove_directories(folder);
}
