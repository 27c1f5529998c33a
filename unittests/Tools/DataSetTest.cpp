#include "rlx/Tools/DataSet.h"

#include "TestBytes.h"

#include "rlx/Runtime/Model.h"
#include "rlx/Tools/Files.h"
#include "rlx/Tools/Npy.h"
#include "rlx/Tools/TensorProto.h"

#include <algorithm>
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>

using namespace rlx;
using namespace rlx::tools;
using data::ElementType;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

std::unique_ptr<data::TensorSpecT> spec(std::string name, ElementType type, std::vector<std::string> shape) {
  auto result = std::make_unique<data::TensorSpecT>();
  result->name = std::move(name);
  result->type = type;
  result->shape = std::move(shape);
  return result;
}

/// Inputs a/b f32[N, 2] and input_0 i8[N]; output y f32[N]. N is 0 to 64, a multiple of 2.
std::shared_ptr<const Model> makeModel() {
  data::ModelSignatureT signature;
  auto dim = std::make_unique<data::DimT>();
  dim->name = "N";
  dim->max = std::numeric_limits<int64_t>::max() - 1;
  dim->multiple = 2;
  signature.dims.push_back(std::move(dim));
  signature.inputs.push_back(spec("a/b", ElementType::F32, {"N", "2"}));
  signature.inputs.push_back(spec("input_0", ElementType::I8, {"N"}));
  signature.outputs.push_back(spec("y", ElementType::F32, {"N"}));
  Result<std::shared_ptr<const Model>> model = Model::create(std::move(signature), nullptr, nullptr);
  EXPECT_TRUE(model) << model.error().message;
  return model ? *model : nullptr;
}

class DataSetTest : public testing::Test {
protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "rlx-data-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder = name;
    model = makeModel();
    ASSERT_NE(model, nullptr);
  }
  void TearDown() override { std::filesystem::remove_all(folder); }
  void writeNpy(const std::string &name, float value) {
    ASSERT_TRUE(writeFile(folder + "/" + name, encodeNpy(makeTensor<float>(ElementType::F32, {1}, {value}).view())));
  }
  void writePb(const std::string &name, float value) {
    ASSERT_TRUE(writeFile(folder + "/" + name,
                          encodeTensorProto(makeTensor<float>(ElementType::F32, {1}, {value}).view(), "")));
  }
  std::string folder;
  std::shared_ptr<const Model> model;
};

TEST_F(DataSetTest, FilesByNumberComeBeforeFilesByName) {
  // input_0.pb is the first input, although the second one is called input_0.
  writePb("input_0.pb", 1);
  writePb("input_1.pb", 2);
  writePb("output_0.pb", 3);
  ASSERT_TRUE(writeFile(folder + "/NOTE.txt", bytesOf("no tensor")));
  DataSet data;
  Status status = readInputFolder(folder, *model, data);
  ASSERT_TRUE(status) << status.error().message;
  std::vector<NamedTensor> view = data.view();
  ASSERT_EQ(view.size(), 2u);
  EXPECT_EQ(view[0].name, "a/b");
  EXPECT_EQ(*static_cast<const float *>(view[0].tensor.data), 1);
  EXPECT_EQ(view[1].name, "input_0");
  EXPECT_EQ(*static_cast<const float *>(view[1].tensor.data), 2);
}

TEST_F(DataSetTest, NamesAndErrors) {
  writeNpy("a_b.npy", 1);
  writeNpy("input_0.npy", 2);
  DataSet data;
  ASSERT_TRUE(readInputFolder(folder, *model, data));
  EXPECT_TRUE(data.has("a/b"));
  EXPECT_TRUE(data.has("input_0"));
  writePb("a_b.pb", 3);
  DataSet twice;
  EXPECT_THAT(readInputFolder(folder, *model, twice).error().message, HasSubstr("input 'a/b' is given twice"));
  writeNpy("c.npy", 3);
  std::filesystem::remove(folder + "/a_b.pb");
  DataSet stray;
  EXPECT_THAT(readInputFolder(folder, *model, stray).error().message, HasSubstr("c.npy' belongs to no input"));
  DataSet missing;
  EXPECT_EQ(readInputFolder(folder + "/none", *model, missing).error().code, ErrorCode::Io);
}

TEST_F(DataSetTest, ExpectedOutputs) {
  EXPECT_THAT(readExpectedFolder(folder, *model).error().message, HasSubstr("no file for output 'y'"));
  writeNpy("y.npy", 4);
  EXPECT_THAT(valuesOf<float>(readExpectedFolder(folder, *model)->front()), ElementsAre(4));
  writePb("output_0.pb", 5);
  EXPECT_THAT(valuesOf<float>(readExpectedFolder(folder, *model)->front()), ElementsAre(5));
  writeNpy("0.npy", 6);
  EXPECT_THAT(valuesOf<float>(readExpectedFolder(folder, *model)->front()), ElementsAre(6));
}

TEST_F(DataSetTest, SplitsAtTheSignThatGivesAName) {
  EXPECT_THAT(*splitAssignment("x=a=b", {"y"}), testing::Pair("x", "a=b"));
  EXPECT_THAT(*splitAssignment("x=a=b", {"x=a"}), testing::Pair("x=a", "b"));
  for (const char *bad : {"x", "=x", "x=", ""})
    EXPECT_FALSE(splitAssignment(bad, {"x"})) << bad;
}

TEST_F(DataSetTest, RandomInputsDependOnSeedAndNameAlone) {
  DataSet one, two, other, given;
  ASSERT_TRUE(addRandomInputs(*model, {{"N", 8}}, {.seed = 1, .integerLimit = 100}, one));
  ASSERT_TRUE(addRandomInputs(*model, {{"N", 8}}, {.seed = 2, .integerLimit = 100}, other));
  // An input that a file gave changes nothing for the others.
  ASSERT_TRUE(given.add("a/b", makeTensor<float>(ElementType::F32, {1}, {7})));
  ASSERT_TRUE(addRandomInputs(*model, {{"N", 8}}, {.seed = 1, .integerLimit = 100}, given));
  auto bytes = [](const DataSet &data, size_t i) {
    TensorView view = data.view()[i].tensor;
    return std::string(static_cast<const char *>(view.data), view.bytes);
  };
  EXPECT_EQ(bytes(one, 1), bytes(given, 1));
  EXPECT_NE(bytes(one, 0), bytes(other, 0));
  EXPECT_EQ(*static_cast<const float *>(given.view()[0].tensor.data), 7);

  TensorView floats = one.view()[0].tensor;
  EXPECT_THAT(floats.shape, ElementsAre(8, 2));
  std::span<const float> values(static_cast<const float *>(floats.data), 16);
  EXPECT_GE(std::ranges::min(values), -1.0f);
  EXPECT_LT(std::ranges::max(values), 1.0f);
  EXPECT_LT(std::ranges::min(values), std::ranges::max(values));
  TensorView integers = one.view()[1].tensor;
  for (int8_t value : std::span(static_cast<const int8_t *>(integers.data), 8)) {
    EXPECT_GE(value, 0);
    EXPECT_LT(value, 100);
  }
}

TEST_F(DataSetTest, RandomInputsRefuseBadSizes) {
  auto errorOf = [&](const Binding &sizes, int64_t limit) {
    DataSet data;
    Status status = addRandomInputs(*model, sizes, {.seed = 1, .integerLimit = limit}, data);
    return status ? std::string("made") : status.error().message;
  };
  EXPECT_THAT(errorOf({}, 2), HasSubstr("random input 'a/b' axis 0 is N"));
  EXPECT_THAT(errorOf({{"N", 3}}, 2), HasSubstr("dim 'N': size 3 is not a multiple of 2"));
  EXPECT_THAT(errorOf({{"N", int64_t(1) << 61}}, 2), HasSubstr("larger than this machine's memory"));
  EXPECT_THAT(errorOf({{"N", int64_t(1) << 45}}, 2), HasSubstr("larger than this machine's memory"));
  EXPECT_THAT(errorOf({{"N", 2}}, 129), HasSubstr("--random-max 129 does not fit input 'input_0' of type i8"));
  EXPECT_EQ(errorOf({{"N", 2}}, 128), "made");
  EXPECT_EQ(errorOf({{"N", 0}}, 2), "made");
}

TEST_F(DataSetTest, IssueConstraintsBeforeRandomInputs) {
  data::ModelSignatureT signature;
  for (const char *name : {"N", "M"}) {
    auto dim = std::make_unique<data::DimT>();
    dim->name = name;
    dim->max = std::numeric_limits<int64_t>::max();
    dim->multiple = 1;
    signature.dims.push_back(std::move(dim));
    signature.inputs.push_back(spec(name, ElementType::F32, {name}));
  }
  auto constraint = std::make_unique<data::ConstraintT>();
  constraint->predicate = std::make_unique<data::PredicateT>();
  constraint->predicate->kind = data::PredicateKind::Equal;
  constraint->predicate->lhs = "N";
  constraint->predicate->rhs = "M";
  constraint->message = "both are as long";
  signature.constraints.push_back(std::move(constraint));
  auto two = Model::create(std::move(signature), nullptr, nullptr);
  ASSERT_TRUE(two) << two.error().message;
  DataSet data;
  Status status = addRandomInputs(**two, {{"N", 1 << 20}, {"M", 1}}, {.seed = 1, .integerLimit = 2}, data);
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, HasSubstr("both are as long"));
  EXPECT_FALSE(data.has("N"));
  EXPECT_TRUE(addRandomInputs(**two, {{"N", 2}, {"M", 2}}, {.seed = 1, .integerLimit = 2}, data));
}

} // namespace
