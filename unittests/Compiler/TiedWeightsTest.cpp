//===- TiedWeightsTest.cpp - one matrix, multiplied with and looked up in -===//
//
// Tied embeddings: logits = h E^T reads E packed, and so does the lookup of E's rows. There is one form of E in memory,
// and the bits are those of two weights that happen to be equal.
//
//===----------------------------------------------------------------------===//
#include "../Runtime/ResidentMemory.h"
#include "CompilerTest.h"

#include <cmath>

using namespace rlx;
using namespace rlx::compilertest;

namespace {

constexpr int64_t kVocabulary = 37, kWidth = 20; // neither is a multiple of 16

/// Small whole numbers: exact in every type, and so are their sums.
int element(int64_t row, int64_t column) { return static_cast<int>((7 * row + 3 * column) % 11 - 5); }
int state(int64_t row, int64_t column) { return static_cast<int>((5 * row + column) % 7 - 3); }

/// element() of a matrix, as stored.
Value matrix(ElementType type, int64_t rows, int64_t columns) {
  std::vector<float> values;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      values.push_back(static_cast<float>(element(r, c)));
  if (type == ElementType::I8)
    return i8({rows, columns}, std::vector<int8_t>(values.begin(), values.end()));
  if (type == ElementType::F32)
    return f32({rows, columns}, values);
  std::vector<uint16_t> bits; // of whole numbers up to 5
  for (float value : values) {
    int exponent = 0;
    float fraction = std::frexp(std::abs(value), &exponent);
    auto mantissa = static_cast<uint16_t>(fraction == 0 ? 0 : (2 * fraction - 1) * 1024);
    bits.push_back(
        static_cast<uint16_t>((value < 0 ? 0x8000 : 0) | (fraction == 0 ? 0 : (exponent + 14) << 10 | mantissa)));
  }
  return f16({rows, columns}, bits);
}

std::shared_ptr<WeightTable> tableOf(const std::vector<std::pair<std::string, Value>> &rows) {
  auto table = std::make_shared<WeightTable>();
  for (const auto &[name, value] : rows) {
    auto kept = std::make_shared<const Value>(value);
    EXPECT_TRUE(
        static_cast<bool>(table->add(name, {kept->type, kept->shape, std::as_bytes(std::span(kept->bytes)), kept})));
  }
  return table;
}

/// A weight as the graph uses it: f32, f16, or i8 times a scale of 0.5, which then is f32.
std::string weightText(const std::string &name, ElementType type, const std::string &sizes) {
  std::string stored = "tensor<" + sizes + "x" + elementTypeName(type) + ">", floats = "tensor<" + sizes + "xf32>";
  if (type != ElementType::I8)
    return "%" + name + " = rlx.weight \"" + name + "\" : " + stored + "\n";
  return "%" + name + "_q = rlx.weight \"" + name + "\" : " + stored + "\n%" + name + "_f = rlx.convert %" + name +
         "_q : " + stored + " -> " + floats + "\n%" + name + "_s = rlx.constant dense<0.5> : tensor<f32>\n%" + name +
         " = rlx.mul %" + name + "_f, %" + name + "_s : " + floats + ", tensor<f32> -> " + floats + "\n";
}

struct Tied {
  ElementType type;
  bool isTied;   ///< else the lookup has a weight of its own, with the same bytes
  bool isAlongK; ///< x E instead of h E^T
  std::string more = {};

  /// Inputs ids [B, S] and h [B, S, width] (or x [B, S, vocabulary]); outputs rows [B, S, width] and the product.
  Loaded load(std::shared_ptr<WeightTable> weights = nullptr) const {
    std::string float_ = type == ElementType::F16 ? "f16" : "f32";
    std::string sizes = std::to_string(kVocabulary) + "x" + std::to_string(kWidth),
                turned = std::to_string(kWidth) + "x" + std::to_string(kVocabulary);
    std::string e = "tensor<" + sizes + "x" + float_ + ">", t = "tensor<" + turned + "x" + float_ + ">";
    std::string lookedUp = isTied ? "e" : "twin";
    std::string body = weightText("e", type, sizes) + (isTied ? "" : weightText("twin", type, sizes));
    body += "%rows = rlx.gather %" + lookedUp + ", %ids axis 0 : " + e + ", $ids -> $rows\n";
    if (isAlongK)
      body += "%product = rlx.matmul %h, %e : $h, " + e + " -> $product\n";
    else
      body += "%turned = rlx.transpose %e permutation [1, 0] : " + e + " -> " + t +
              "\n%product = rlx.matmul %h, %turned : $h, " + t + " -> $product\n";
    std::vector<std::pair<std::string, std::string>> outputs = {
        {"rows", typeOf({"B", "S", std::to_string(kWidth)}, float_)},
        {"product", typeOf({"B", "S", std::to_string(isAlongK ? kWidth : kVocabulary)}, float_)}};
    if (!more.empty())
      outputs.emplace_back("more", typeOf({std::to_string(kWidth)}, float_));
    std::string text = graphText({"B", "S"},
                                 {{"ids", typeOf({"B", "S"}, "i64")},
                                  {"h", typeOf({"B", "S", std::to_string(isAlongK ? kVocabulary : kWidth)}, float_)}},
                                 outputs, body + more);
    if (!weights) {
      Value bytes = matrix(type, kVocabulary, kWidth);
      weights = isTied ? tableOf({{"e", bytes}}) : tableOf({{"e", bytes}, {"twin", bytes}});
    }
    return Loaded(text, weights);
  }
};

std::vector<Value> inputs(const Tied &tied, int64_t batch, int64_t length) {
  std::vector<int64_t> ids;
  for (int64_t i = 0; i != batch * length; ++i)
    ids.push_back(i * 17 % (2 * kVocabulary) - kVocabulary); // from -37 to 36
  int64_t k = tied.isAlongK ? kVocabulary : kWidth;
  std::vector<float> h;
  for (int64_t i = 0; i != batch * length * k; ++i)
    h.push_back(static_cast<float>(state(i / k, i % k)));
  Value states = f32({batch, length, k}, h);
  if (tied.type == ElementType::F16) {
    std::vector<uint16_t> bits; // of -3 to 3
    static constexpr uint16_t known[] = {0xC200, 0xC000, 0xBC00, 0x0000, 0x3C00, 0x4000, 0x4200};
    for (float value : h)
      bits.push_back(known[static_cast<int>(value) + 3]);
    states = f16({batch, length, k}, bits);
  }
  return {i64({batch, length}, ids), states};
}

/// The numbers of an f32 or f16 tensor.
std::vector<float> numbers(const Tensor &tensor) {
  if (tensor.type() == ElementType::F32)
    return valuesOf<float>(tensor);
  std::vector<float> values;
  for (uint16_t bits : valuesOf<uint16_t>(tensor)) {
    int exponent = bits >> 10 & 31, mantissa = bits & 1023;
    float size = exponent ? std::ldexp(1024.0f + static_cast<float>(mantissa), exponent - 25)
                          : std::ldexp(static_cast<float>(mantissa), -24);
    values.push_back(bits & 0x8000 ? -size : size);
  }
  return values;
}

size_t panelBytes(int64_t k, int64_t n, size_t size) { return static_cast<size_t>((n + 15) / 16 * 16 * k) * size; }

} // namespace

TEST(TiedWeights, OneFormServesBoth) {
  for (ElementType type : {ElementType::F32, ElementType::F16, ElementType::I8})
    for (bool isAlongK : {false, true}) {
      SCOPED_TRACE(std::string(elementTypeName(type)) + (isAlongK ? ", x E" : ", h E^T"));
      Tied how{type, true, isAlongK}, apart{type, false, isAlongK};
      Loaded tied = how.load(), untied = apart.load();
      const float scale = type == ElementType::I8 ? 0.5f : 1;
      for (auto [batch, length] : {std::pair<int64_t, int64_t>(2, 9), {1, 1}, {1, 37}, {0, 3}, {5, 2}}) {
        std::vector<Value> given = inputs(how, batch, length);
        std::vector<Tensor> outputs = tied.outputs(given), twins = untied.outputs(given);
        for (size_t i = 0; i != 2; ++i)
          EXPECT_EQ(difference(outputs[i], twins[i]), "");
        // The same sizes from scratch.
        std::vector<Tensor> fresh = how.load().outputs(given);
        for (size_t i = 0; i != 2; ++i)
          EXPECT_EQ(difference(outputs[i], fresh[i]), "");
        std::vector<float> rows = numbers(outputs[0]), product = numbers(outputs[1]);
        auto ids = reinterpret_cast<const int64_t *>(given[0].bytes.data());
        int64_t k = isAlongK ? kVocabulary : kWidth, n = isAlongK ? kWidth : kVocabulary;
        for (int64_t i = 0; i != batch * length; ++i) {
          for (int64_t c = 0; c != kWidth; ++c)
            ASSERT_EQ(rows[static_cast<size_t>(i * kWidth + c)],
                      scale * static_cast<float>(element((ids[i] + kVocabulary) % kVocabulary, c)));
          for (int64_t c = 0; c != n; ++c) {
            int sum = 0;
            for (int64_t l = 0; l != k; ++l)
              sum += state(i, l) * (isAlongK ? element(l, c) : element(c, l));
            ASSERT_EQ(product[static_cast<size_t>(i * n + c)], scale * static_cast<float>(sum));
          }
        }
      }
      const WeightTable &table = tied.model->weights();
      EXPECT_FALSE(table.isReadPlain("e"));
      size_t packed = isAlongK ? panelBytes(kVocabulary, kWidth, elementSize(type))
                               : panelBytes(kWidth, kVocabulary, elementSize(type));
      EXPECT_EQ(table.packedBytes(), packed);
      EXPECT_FALSE(untied.model->weights().isReadPlain("e"));
      EXPECT_TRUE(untied.model->weights().isReadPlain("twin"));
      EXPECT_EQ(tied->stats().templatesMade, untied->stats().templatesMade);
    }
}

TEST(TiedWeights, BadIndices) {
  for (bool isAlongK : {false, true}) {
    Tied how{ElementType::F32, true, isAlongK};
    Loaded tied = how.load();
    std::vector<Value> given = inputs(how, 2, 3);
    for (int64_t bad : {kVocabulary, -kVocabulary - 1, INT64_MAX, INT64_MIN}) {
      std::vector<int64_t> ids = {0, 1, 36, -37, bad, 5};
      given[0] = i64({2, 3}, ids);
      EXPECT_EQ(tied.error(given), "node 'rlx.gather': index " + std::to_string(bad) +
                                       " is out of range for an axis of 37 at element [1,1,0]");
      Tied apart{ElementType::F32, false, isAlongK};
      EXPECT_EQ(tied.error(given), apart.load().error(given));
    }
  }
}

// A sum over E reads it plain: so does the lookup then, and one packed form and one plain one are right.
TEST(TiedWeights, WhatElseReadsItKeepsItPlain) {
  Tied how{ElementType::F32, true, false, "%more = rlx.reduce sum %e axes [0] : tensor<37x20xf32> -> tensor<20xf32>\n"};
  Loaded loaded = how.load();
  std::vector<Tensor> outputs = loaded.outputs(inputs(how, 2, 3));
  std::vector<float> sums = numbers(outputs[2]), rows = numbers(outputs[0]);
  for (int64_t c = 0; c != kWidth; ++c) {
    int sum = 0;
    for (int64_t r = 0; r != kVocabulary; ++r)
      sum += element(r, c);
    EXPECT_EQ(sums[static_cast<size_t>(c)], static_cast<float>(sum));
    EXPECT_EQ(rows[static_cast<size_t>(c)], static_cast<float>(element(0, c)));
  }
  EXPECT_TRUE(loaded.model->weights().isReadPlain("e"));
}

// Of the rows that a product has, not all: those that it lacks can be looked up all the same.
TEST(TiedWeights, AProductOfAPart) {
  std::string text = graphText({"N"}, {{"ids", typeOf({"N"}, "i64")}, {"h", typeOf({"N", "20"})}},
                               {{"rows", typeOf({"N", "20"})}, {"product", typeOf({"N", "30"})}},
                               R"(%e = rlx.weight "e" : tensor<37x20xf32>
         %rows = rlx.gather %e, %ids axis 0 : tensor<37x20xf32>, $ids -> $rows
         %part = rlx.slice %e starts [5, 0] steps [1, 1] : tensor<37x20xf32> -> tensor<30x20xf32>
         %turned = rlx.transpose %part permutation [1, 0] : tensor<30x20xf32> -> tensor<20x30xf32>
         %product = rlx.matmul %h, %turned : $h, tensor<20x30xf32> -> $product)");
  Loaded loaded(text, tableOf({{"e", matrix(ElementType::F32, 37, 20)}}));
  std::vector<float> h(20, 0);
  h[3] = 1;
  std::vector<Tensor> outputs = loaded.outputs({i64({1}, std::vector<int64_t>{36}), f32({1, 20}, h)});
  for (int64_t c = 0; c != 20; ++c)
    EXPECT_EQ(numbers(outputs[0])[static_cast<size_t>(c)], static_cast<float>(element(36, c)));
  for (int64_t n = 0; n != 30; ++n)
    EXPECT_EQ(numbers(outputs[1])[static_cast<size_t>(n)], static_cast<float>(element(n + 5, 3)));
  EXPECT_TRUE(loaded.model->weights().isReadPlain("e"));
}

// And of a lookup in a part of the matrix, in panels: from its sixth row and second column on, every other column.
TEST(TiedWeights, ALookupInAPart) {
  std::string text = graphText({"N"}, {{"ids", typeOf({"N"}, "i64")}, {"h", typeOf({"N", "20"})}},
                               {{"rows", typeOf({"N", "9"})}, {"product", typeOf({"N", "37"})}},
                               R"(%e = rlx.weight "e" : tensor<37x20xf32>
         %part = rlx.slice %e starts [5, 1] steps [1, 2] : tensor<37x20xf32> -> tensor<31x9xf32>
         %rows = rlx.gather %part, %ids axis 0 : tensor<31x9xf32>, $ids -> $rows
         %turned = rlx.transpose %e permutation [1, 0] : tensor<37x20xf32> -> tensor<20x37xf32>
         %product = rlx.matmul %h, %turned : $h, tensor<20x37xf32> -> $product)");
  Loaded loaded(text, tableOf({{"e", matrix(ElementType::F32, 37, 20)}}));
  std::vector<int64_t> ids = {30, -31, 0, 12};
  std::vector<Tensor> outputs = loaded.outputs({i64({4}, ids), f32({4, 20}, std::vector<float>(80, 1))});
  for (size_t i = 0; i != ids.size(); ++i)
    for (int64_t c = 0; c != 9; ++c)
      EXPECT_EQ(numbers(outputs[0])[i * 9 + static_cast<size_t>(c)],
                static_cast<float>(element((ids[i] + 31) % 31 + 5, 2 * c + 1)));
  EXPECT_FALSE(loaded.model->weights().isReadPlain("e"));
}

#if defined(__linux__)
TEST(TiedWeights, PagesOfAMappedFileAreLetGoOf) {
  constexpr int64_t vocabulary = 4099, width = 128; // 2 MiB
  TemporaryFolder folder;
  std::string path = folder.write("tied.safetensors", "");
  {
    auto table = tableOf({{"e", matrix(ElementType::F32, vocabulary, width)}});
    ASSERT_GOOD(table->writeSafetensors(path));
  }
  auto table = WeightTable::openSafetensors(path);
  ASSERT_GOOD(table);
  const std::byte *plain = (*table)->find("e")->bytes.data();
  std::string text = graphText({"N"}, {{"ids", typeOf({"N"}, "i64")}, {"h", typeOf({"N", "128"})}},
                               {{"rows", typeOf({"N", "128"})}, {"product", typeOf({"N", "4099"})}},
                               R"(%e = rlx.weight "e" : tensor<4099x128xf32>
         %rows = rlx.gather %e, %ids axis 0 : tensor<4099x128xf32>, $ids -> $rows
         %turned = rlx.transpose %e permutation [1, 0] : tensor<4099x128xf32> -> tensor<128x4099xf32>
         %product = rlx.matmul %h, %turned : $h, tensor<128x4099xf32> -> $product)");
  Loaded loaded(text, *table);
  // Rows all over the file.
  std::vector<int64_t> ids;
  for (int64_t i = 0; i != 64; ++i)
    ids.push_back(i * 65);
  for (int round = 0; round != 2; ++round) {
    std::vector<Tensor> outputs = loaded.outputs({i64({64}, ids), f32({64, 128}, std::vector<float>(64 * 128, 1))});
    std::vector<float> rows = numbers(outputs[0]);
    for (size_t i = 0; i != rows.size(); ++i)
      ASSERT_EQ(rows[i], static_cast<float>(element(ids[i / 128], static_cast<int64_t>(i % 128))));
    int64_t left = test::residentKilobytes(plain + 4096);
    ASSERT_GE(left, 0);
    EXPECT_LT(left, 200); // 64 lookups of a page each would make 256
  }
  EXPECT_FALSE((*table)->isReadPlain("e"));
}
#endif
