//===- MappedWeightsTest.cpp - weights read where a file has them ---------===//
#include "ModelText.h"

#include "rlx/Compiler/Load.h"
#include "rlx/Runtime/Engine.h"
#include "rlx/Runtime/Executable.h"
#include "rlx/Runtime/Model.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

using namespace rlx;
using namespace rlx::test;

namespace {

constexpr int64_t kRows = 40, kColumns = 32;

/// Small whole numbers, so that sums are exact in any order.
float element(int64_t row, int64_t column) { return static_cast<float>((7 * row + 3 * column) % 11 - 5); }

std::string rawFloats(int64_t count) {
  std::string text;
  for (int64_t i = 0; i < count; ++i) {
    float value = element(i / kColumns, i % kColumns);
    const auto *bytes = reinterpret_cast<const unsigned char *>(&value);
    for (int k = 0; k < 4; ++k) {
      static constexpr char digits[] = "01234567";
      text += std::string("\\") + digits[bytes[k] >> 6] + digits[bytes[k] >> 3 & 7] + digits[bytes[k] & 7];
    }
  }
  return text;
}

} // namespace

// At every distance from an address that suits its type, a weight is gathered from, added, transposed and multiplied.
TEST(MappedWeights, AtAnyAddress) {
  llvm::SmallString<128> folder;
  ASSERT_FALSE(llvm::sys::fs::createUniqueDirectory("rlx-mapped", folder));
  for (size_t shift = 0; shift != 4; ++shift) {
    std::string name = "w" + std::string(shift, 'x');
    std::string bytes = modelBytes(input("i", i64, {"N"}) + input("x", f32, {"N", std::to_string(kColumns)}) +
                                   "initializer { name: '" + name + "' data_type: 1 dims: " + std::to_string(kRows) +
                                   " dims: " + std::to_string(kColumns) + " raw_data: '" + rawFloats(kRows * kColumns) +
                                   "' } " + node("g", "Gather", {name, "i"}, {"picked"}) +
                                   node("t", "Transpose", {name}, {"turned"}, intsAttr("perm", {1, 0})) +
                                   node("m", "MatMul", {"x", "turned"}, {"product"}) +
                                   node("s", "ReduceSum", {name}, {"sum"}) + node("e", "Neg", {"turned"}, {"minus"}) +
                                   output("picked") + output("product") + output("sum") + output("minus"));
    std::string path = (folder + "/m.onnx").str();
    {
      std::error_code code;
      llvm::raw_fd_ostream file(path, code);
      ASSERT_FALSE(code);
      file << bytes;
    }
    auto loaded = compiler::loadModel(path);
    ASSERT_TRUE(loaded) << loaded.error().message;
    const WeightRow *row = loaded->model->weights().find(name);
    ASSERT_TRUE(row);
    EXPECT_TRUE(row->mapped);
    auto engine = Engine::create();
    ASSERT_TRUE(engine);
    auto executable = Executable::create(*engine, loaded->model);
    ASSERT_TRUE(executable);

    std::vector<int64_t> index = {0, 39, 7};
    std::vector<float> x(index.size() * kColumns);
    for (size_t i = 0; i != x.size(); ++i)
      x[i] = static_cast<float>(i % 5) - 2;
    std::vector<int64_t> indexShape = {3}, xShape = {3, kColumns};
    std::vector<NamedTensor> inputs(2);
    inputs[0] = {"i", {data::ElementType::I64, indexShape, index.data(), index.size() * 8}};
    inputs[1] = {"x", {data::ElementType::F32, xShape, x.data(), x.size() * 4}};
    auto outputs = (*executable)->run(inputs);
    ASSERT_TRUE(outputs) << outputs.error().message;
    auto picked = (*outputs)[0].as<float>(), product = (*outputs)[1].as<float>(), minus = (*outputs)[3].as<float>();
    float all = 0;
    for (int64_t r = 0; r != kRows; ++r)
      for (int64_t c = 0; c != kColumns; ++c) {
        all += element(r, c);
        EXPECT_EQ(minus[static_cast<size_t>(c * kRows + r)], -element(r, c));
      }
    EXPECT_EQ((*outputs)[2].as<float>()[0], all);
    for (size_t n = 0; n != index.size(); ++n) {
      for (int64_t c = 0; c != kColumns; ++c)
        EXPECT_EQ(picked[n * kColumns + static_cast<size_t>(c)], element(index[n], c));
      for (int64_t r = 0; r != kRows; ++r) {
        float sum = 0;
        for (int64_t c = 0; c != kColumns; ++c)
          sum += x[n * kColumns + static_cast<size_t>(c)] * element(r, c);
        EXPECT_EQ(product[n * kRows + static_cast<size_t>(r)], sum);
      }
    }
    // Read in place: nothing but the product's panels was made.
    EXPECT_EQ(loaded->model->weights().packedBytes(), static_cast<size_t>(kColumns * 48 * 4));
  }
  llvm::sys::fs::remove_directories(folder);
}
