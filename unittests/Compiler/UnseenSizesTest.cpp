//===- UnseenSizesTest.cpp - sizes no one compiled for, rows among others -===//
//
// Two promises about one small encoder (and MiniLM, where the cache of models has it): sizes that come later run by
// instantiating the templates there are, with the bits that specialising for them gives; and a row's bits do not
// depend on the batch it is computed in.
//
//===----------------------------------------------------------------------===//
#include "CompilerTest.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>

using namespace rlx;
using namespace rlx::compilertest;

namespace {

constexpr int64_t kVocabulary = 50, kLongest = 160, kWidth = 32, kInner = 64;

/// Writes a graph op by op. Weights get random rows.
class Writer {
public:
  std::string weight(Shape shape, float scale = 1) {
    std::string row = "w" + std::to_string(weights->rows().size());
    Value value = randomF32(shape, static_cast<uint32_t>(weights->rows().size()));
    for (size_t i = 0; i != value.bytes.size(); i += 4) {
      float one;
      std::memcpy(&one, &value.bytes[i], 4);
      one *= scale;
      std::memcpy(&value.bytes[i], &one, 4);
    }
    auto kept = std::make_shared<const Value>(std::move(value));
    EXPECT_TRUE(static_cast<bool>(weights->add(row, {kept->type, shape, std::as_bytes(std::span(kept->bytes)), kept})));
    return define("rlx.weight \"" + row + "\"", {}, kept->typeText());
  }
  std::string scalar(const std::string &value) {
    return define("rlx.constant dense<" + value + ">", {}, "tensor<f32>");
  }
  /// %n = text operands... : types -> result.
  std::string op(const std::string &name, const std::vector<std::string> &operands, const std::string &attributes,
                 const std::string &result) {
    std::string list, types;
    for (const std::string &operand : operands) {
      list += (list.empty() ? "" : ", ") + operand;
      types += (types.empty() ? "" : ", ") + typeOfValue.at(operand);
    }
    return define("rlx." + name + " " + list + (attributes.empty() ? "" : " " + attributes), types, result);
  }
  std::string layerNorm(const std::string &x, const std::string &type) {
    std::string scale = weight({kWidth}), bias = weight({kWidth}), vector = "tensor<32xf32>";
    return op("layer_norm", {x},
              "scale " + scale + " : " + vector + " bias " + bias + " : " + vector + " axis 2 epsilon 1.0e-12", type);
  }
  std::string linear(const std::string &x, int64_t in, int64_t out, const std::string &type) {
    std::string product = op("matmul", {x, weight({in, out}, 0.25f)}, "", type);
    return op("add", {product, weight({out})}, "", type);
  }

  std::map<std::string, std::string> typeOfValue;
  std::string text;
  std::shared_ptr<WeightTable> weights = std::make_shared<WeightTable>();

private:
  std::string define(const std::string &what, const std::string &types, const std::string &result) {
    std::string name = "%v" + std::to_string(count++);
    text += name + " = " + what + " : " + (types.empty() ? "" : types + " -> ") + result + "\n";
    typeOfValue[name] = result;
    return name;
  }
  int count = 0;
};

/// Embedding, two layers of attention and feed-forward (one as exporters spell attention, one as the op), mean of the
/// unmasked, normalised. Inputs ids and mask [B, S] (i64); outputs states [B, S, 32] and pooled [B, 32].
Loaded encoder() {
  Writer w;
  std::string ids = typeOf({"B", "S"}, "i64"), states = typeOf({"B", "S", "32"}), inner = typeOf({"B", "S", "64"});
  std::string split = typeOf({"B", "S", "4", "8"}), heads = typeOf({"B", "4", "S", "8"});
  std::string keys = typeOf({"B", "4", "8", "S"}), scores = typeOf({"B", "4", "S", "S"});
  std::string flags = typeOf({"B", "4", "S", "S"}, "i1"), masked = typeOf({"B", "1", "1", "S"});
  std::string pooled = typeOf({"B", "32"}), one = typeOf({"B", "1"}), column = typeOf({"B", "S", "1"});
  w.typeOfValue = {{"%ids", ids}, {"%mask", ids}};

  std::string x = w.op("gather", {w.weight({kVocabulary, kWidth}), "%ids"}, "axis 0", states);
  std::string places = w.op("slice", {w.weight({kLongest, kWidth})}, "starts [0, 0] steps [1, 1]", typeOf({"S", "32"}));
  x = w.layerNorm(w.op("add", {x, places}, "", states), states);
  std::string mask = w.op("convert", {"%mask"}, "", typeOf({"B", "S"}));
  std::string away = w.op("sub", {w.scalar("1.0"), mask}, "", typeOf({"B", "S"}));
  away = w.op("mul", {away, w.scalar("-1.0e9")}, "", typeOf({"B", "S"}));
  away = w.op("reshape", {away}, "", masked);

  for (bool asOp : {false, true}) {
    auto part = [&] {
      std::string flat = w.linear(x, kWidth, kWidth, states);
      return w.op("reshape", {flat}, "", split);
    };
    std::string query = w.op("transpose", {part()}, "permutation [0, 2, 1, 3]", heads);
    std::string key = part();
    std::string value = w.op("transpose", {part()}, "permutation [0, 2, 1, 3]", heads);
    std::string context;
    if (asOp) {
      key = w.op("transpose", {key}, "permutation [0, 2, 1, 3]", heads);
      context = w.op("attention", {query, key, value}, "mask " + away + " : " + masked + " scale 0.35", heads);
    } else {
      key = w.op("transpose", {key}, "permutation [0, 2, 3, 1]", keys);
      std::string score = w.op("matmul", {query, key}, "", scores);
      score = w.op("mul", {score, w.scalar("0.35")}, "", scores);
      score = w.op("softmax", {w.op("add", {score, away}, "", scores)}, "axis 3", scores);
      score = w.op("select", {w.op("is_nan", {score}, "", flags), w.scalar("0.0"), score}, "", scores);
      context = w.op("matmul", {score, value}, "", heads);
    }
    context = w.op("transpose", {context}, "permutation [0, 2, 1, 3]", split);
    context = w.linear(w.op("reshape", {context}, "", states), kWidth, kWidth, states);
    x = w.layerNorm(w.op("add", {context, x}, "", states), states);
    std::string hidden = w.op("gelu", {w.linear(x, kWidth, kInner, inner)}, "", inner);
    hidden = w.linear(hidden, kInner, kWidth, states);
    x = w.layerNorm(w.op("add", {hidden, x}, "", states), states);
  }
  std::string kept = w.op("mul", {x, w.op("reshape", {mask}, "", column)}, "", states);
  std::string sum = w.op("reduce sum", {kept}, "axes [1]", pooled);
  std::string count = w.op("reduce sum", {mask}, "axes [1] keep_dims", one);
  std::string mean = w.op("div", {sum, count}, "", pooled);
  std::string square = w.op("reduce sum", {w.op("mul", {mean, mean}, "", pooled)}, "axes [1] keep_dims", one);
  std::string norm = w.op("sqrt", {square}, "", one);
  std::string unit = w.op("div", {mean, norm}, "", pooled);

  return Loaded("rlx.graph @encoder(%ids: " + ids + " {rlx.name = \"ids\"}, %mask: " + ids +
                    " {rlx.name = \"mask\"}) -> (" + states + ", " + pooled +
                    ") attributes {dims = [#rlx.dim<\"B\">, #rlx.dim<\"S\">]} {\n" + w.text + "rlx.output " + x + ", " +
                    unit + " : " + states + ", " + pooled + "\n}\n",
                w.weights);
}

/// Token ids and masks; row r is the same for every batch, its first `lengths[r]` places are unmasked.
std::vector<Value> tokens(const std::vector<int64_t> &rows, int64_t length, const std::vector<int64_t> &lengths,
                          int64_t vocabulary = kVocabulary) {
  std::vector<int64_t> ids, mask;
  for (size_t r = 0; r != rows.size(); ++r)
    for (int64_t i = 0; i != length; ++i) {
      bool inside = i < lengths[r];
      ids.push_back(inside ? (rows[r] * 7919 + i * 104729 + i * i) % vocabulary : 0);
      mask.push_back(inside);
    }
  Shape shape = {static_cast<int64_t>(rows.size()), length};
  return {i64(shape, ids), i64(shape, mask)};
}
std::vector<Value> tokens(int64_t batch, int64_t length) {
  std::vector<int64_t> rows, lengths;
  for (int64_t r = 0; r != batch; ++r) {
    rows.push_back(r);
    lengths.push_back(length - r % length);
  }
  return tokens(rows, length, lengths);
}

/// Row `row` of a tensor, or its first `bytes`.
std::string rowBytes(const Tensor &tensor, int64_t row, size_t bytes = 0) {
  size_t whole = tensor.bytes() / static_cast<size_t>(tensor.shape()[0]);
  return std::string(static_cast<const char *>(tensor.data()) + static_cast<size_t>(row) * whole,
                     bytes ? bytes : whole);
}

bool isFinite(const Tensor &tensor) {
  std::span<const float> values = tensor.as<float>();
  return std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); });
}

/// The model that utils/models.py keeps in its cache, or an empty path.
std::string cachedMiniLM() {
  const char *cache = std::getenv("XDG_CACHE_HOME"), *home = std::getenv("HOME");
  std::filesystem::path folder = cache && *cache ? cache : home ? std::string(home) + "/.cache" : "";
  std::filesystem::path file = folder / "rlx" / "minilm-ec69288383455a95.onnx";
  std::error_code code;
  return !folder.empty() && std::filesystem::exists(file, code) ? file.string() : std::string();
}

/// ids, mask and token types as the model's inputs are called.
std::vector<Value> miniLMInputs(const Model &model, std::vector<Value> tokens) {
  std::vector<Value> inputs;
  for (const auto &input : model.signature().inputs) {
    if (input->name.find("mask") != std::string::npos)
      inputs.push_back(tokens[1]);
    else if (input->name.find("type") != std::string::npos)
      inputs.push_back(i64(tokens[0].shape, std::vector<int64_t>(tokens[0].bytes.size() / 8, 0)));
    else
      inputs.push_back(tokens[0]);
  }
  return inputs;
}

//===----------------------------------------------------------------------===//
// Sizes that come later
//===----------------------------------------------------------------------===//

void expectSameBits(const std::vector<Tensor> &got, const std::vector<Tensor> &expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i != got.size(); ++i)
    EXPECT_EQ(difference(got[i], expected[i]), "") << "output " << i;
}

/// Case 58 with these inputs by size.
template <typename Inputs> void unseenSizes(const Loaded &loaded, Inputs inputs) {
  ASSERT_TRUE(isFinite(loaded.outputs(inputs(1, 16))[0]));
  EXPECT_EQ(loaded->stats().templatesMade, 1u);
  const std::pair<int64_t, int64_t> sizes[] = {{1, 17}, {2, 40}, {8, 128}};
  for (auto [batch, length] : sizes) {
    SCOPED_TRACE(std::to_string(batch) + "x" + std::to_string(length));
    RunOptions options;
    RunReport report;
    options.report = &report;
    std::vector<Tensor> outputs = loaded.outputs(inputs(batch, length), options);
    EXPECT_EQ(report.origin, Origin::Instantiated) << loaded->explain()->text();
    ASSERT_TRUE(isFinite(outputs[0]));
    Loaded fresh(loaded.model);
    options.report = nullptr;
    expectSameBits(outputs, fresh.outputs(inputs(batch, length), options));
    EXPECT_EQ(fresh->stats().templatesMade, 1u);
  }
  EXPECT_EQ(loaded->stats().templatesMade, 1u);
  EXPECT_EQ(loaded->stats().templatesReused, 3u);
}

TEST(UnseenSizes, Case58_Encoder) {
  Loaded loaded = encoder();
  unseenSizes(loaded, [](int64_t batch, int64_t length) { return tokens(batch, length); });
  // Longer than the table of places: an error, from the template as from scratch.
  std::string error = loaded.error(tokens(1, kLongest + 1));
  EXPECT_NE(error.find("S"), std::string::npos);
  EXPECT_EQ(Loaded(loaded.model).error(tokens(1, kLongest + 1)), error);
}

TEST(UnseenSizes, Case58_EncoderInAnyOrder) {
  // One cache that has seen much, and caches that have seen one size.
  Loaded loaded = encoder();
  const std::pair<int64_t, int64_t> sizes[] = {{8, 33}, {1, 1}, {2, 1}, {1, 16}, {0, 5}, {3, 2}, {7, 16}, {16, 8}};
  for (auto [batch, length] : sizes) {
    SCOPED_TRACE(std::to_string(batch) + "x" + std::to_string(length));
    std::vector<Tensor> outputs = loaded.outputs(tokens(batch, length));
    EXPECT_EQ(outputs[0].shape(), (Shape{batch, length, kWidth}));
    EXPECT_EQ(outputs[1].shape(), (Shape{batch, kWidth}));
    expectSameBits(outputs, Loaded(loaded.model).outputs(tokens(batch, length)));
  }
}

TEST(UnseenSizes, Case58_MiniLM) {
  std::string path = cachedMiniLM();
  if (path.empty())
    GTEST_SKIP() << "utils/models.py minilm fetches the model";
  auto model = compiler::loadModel(path);
  ASSERT_GOOD(model);
  unseenSizes(Loaded(model->model),
              [&](int64_t batch, int64_t length) { return miniLMInputs(*model->model, tokens(batch, length)); });
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

const std::vector<int64_t> kSeven = {3, 1, 4, 15, 9, 2, 6}, kLengths = {16, 3, 11, 16, 1, 8, 5};

/// Case 60: rows alone, among others, in another order, and longer than they need be.
template <typename Inputs>
void rowsAlone(const Loaded &loaded, Inputs inputs, size_t bytesOfPlace, const std::vector<size_t> &outputs) {
  std::vector<Tensor> seven = loaded.outputs(inputs(kSeven, 16, kLengths));
  std::vector<int64_t> turned(kSeven.rbegin(), kSeven.rend()), turnedLengths(kLengths.rbegin(), kLengths.rend());
  std::vector<Tensor> back = loaded.outputs(inputs(turned, 16, turnedLengths));
  std::vector<Tensor> padded = loaded.outputs(inputs(kSeven, 24, kLengths));
  for (int64_t row = 0; row != 7; ++row) {
    SCOPED_TRACE(row);
    auto r = static_cast<size_t>(row);
    std::vector<Tensor> alone = loaded.outputs(inputs({kSeven[r]}, 16, {kLengths[r]}));
    std::vector<Tensor> exact = loaded.outputs(inputs({kSeven[r]}, kLengths[r], {kLengths[r]}));
    for (size_t output : outputs) {
      SCOPED_TRACE(output);
      EXPECT_EQ(rowBytes(seven[output], row), rowBytes(alone[output], 0));
      EXPECT_EQ(rowBytes(back[output], 6 - row), rowBytes(alone[output], 0));
      // Places: only the unmasked ones are anyone's. A pooled row is whole.
      size_t bytes = alone[output].shape().size() == 3 ? bytesOfPlace * static_cast<size_t>(kLengths[r]) : 0;
      EXPECT_EQ(rowBytes(padded[output], row, bytes), rowBytes(alone[output], 0, bytes));
      EXPECT_EQ(rowBytes(exact[output], 0, bytes), rowBytes(alone[output], 0, bytes));
    }
  }
}

TEST(Rows, Case60_Encoder) {
  rowsAlone(encoder(),
            [](const std::vector<int64_t> &rows, int64_t length, const std::vector<int64_t> &lengths) {
              return tokens(rows, length, lengths);
            },
            kWidth * sizeof(float), {0, 1});
}

TEST(Rows, Case60_MiniLM) {
  std::string path = cachedMiniLM();
  if (path.empty())
    GTEST_SKIP() << "utils/models.py minilm fetches the model";
  auto model = compiler::loadModel(path);
  ASSERT_GOOD(model);
  std::vector<size_t> outputs;
  for (size_t i = 0; i != model->model->signature().outputs.size(); ++i)
    outputs.push_back(i);
  rowsAlone(
      Loaded(model->model),
      [&](const std::vector<int64_t> &rows, int64_t length, const std::vector<int64_t> &lengths) {
        return miniLMInputs(*model->model, tokens(rows, length, lengths, 30522));
      },
      384 * sizeof(float), outputs);
}

TEST(Rows, Case60_WhateverTheNeighboursHold) {
  // One op (or a fused few) each, from x [B, 37]; 37 is no multiple of a vector or of a lane count.
  std::string x = typeOf({"B", "37"}), row = typeOf({"B"}), wide = typeOf({"B", "53"});
  std::string cube = typeOf({"B", "1", "37"}), tall = typeOf({"B", "37", "1"}), outer = typeOf({"B", "37", "37"});
  struct {
    const char *name;
    std::string type, body;
  } graphs[] = {
      {"matmul", wide, "%y = rlx.matmul %x, %w : $x, tensor<37x53xf32> -> $y"},
      {"matmul_bias_gelu", wide,
       "%m = rlx.matmul %x, %w : $x, tensor<37x53xf32> -> $y\n%a = rlx.add %m, %b : $y, tensor<53xf32> -> $y\n"
       "%y = rlx.gelu %a : $y -> $y"},
      {"matmul_of_two_rows", outer,
       "%l = rlx.reshape %x : $x -> " + tall + "\n%r = rlx.reshape %x : $x -> " + cube +
           "\n%y = rlx.matmul %l, %r : " + tall + ", " + cube + " -> $y"},
      {"layer_norm", x, "%y = rlx.layer_norm %x axis 1 epsilon 1.0e-5 : $x -> $y"},
      {"rms_norm", x, "%y = rlx.rms_norm %x axis 1 epsilon 1.0e-5 : $x -> $y"},
      {"softmax", x, "%y = rlx.softmax %x axis 1 : $x -> $y"},
      {"log_softmax", x, "%y = rlx.log_softmax %x axis 1 : $x -> $y"},
      {"sum", row, "%y = rlx.reduce sum %x axes [1] : $x -> $y"},
      {"mean_of_squares", row, "%s = rlx.mul %x, %x : $x, $x -> $x\n%y = rlx.reduce mean %s axes [1] : $x -> $y"},
      {"max", row, "%y = rlx.reduce max %x axes [1] : $x -> $y"},
      {"sum_of_outer", x,
       "%l = rlx.reshape %x : $x -> " + tall + "\n%r = rlx.reshape %x : $x -> " + cube + "\n%o = rlx.mul %l, %r : " +
           tall + ", " + cube + " -> " + outer + "\n%y = rlx.reduce sum %o axes [1] : " + outer + " -> $y"},
      {"functions", x,
       "%e = rlx.exp %x : $x -> $x\n%t = rlx.tanh %e : $x -> $x\n%r = rlx.erf %t : $x -> $x\n"
       "%g = rlx.sigmoid %r : $x -> $x\n%s = rlx.sin %g : $x -> $x\n%y = rlx.pow %s, %e : $x, $x -> $y"},
      {"cumsum", x, "%y = rlx.cumsum %x axis 1 : $x -> $y"},
  };
  Value weight = randomF32({37, 53}, 1), bias = randomF32({53}, 2);
  for (const auto &graph : graphs) {
    SCOPED_TRACE(graph.name);
    bool product = graph.body.find("%w") != std::string::npos, biased = graph.body.find("%b") != std::string::npos;
    std::string sources = (product ? "%w = rlx.weight \"w\" : tensor<37x53xf32>\n" : std::string()) +
                          (biased ? "%b = rlx.weight \"b\" : tensor<53xf32>\n" : std::string());
    auto weights = std::make_shared<WeightTable>();
    for (const auto &[name, value] : {std::pair("w", &weight), std::pair("b", &bias)})
      ASSERT_GOOD(weights->add(name, {value->type, value->shape, std::as_bytes(std::span(value->bytes)), nullptr}));
    Loaded loaded(graphText({"B"}, {{"x", x}}, {{"y", graph.type}}, sources + graph.body), weights);

    Value alone = randomF32({1, 37}, 3);
    std::string expected = rowBytes(loaded.outputs({alone})[0], 0);
    for (int64_t batch = 2; batch <= 33; batch += batch < 9 ? 1 : 6)
      for (int64_t place : {int64_t(0), batch / 2, batch - 1})
        for (bool poisoned : {false, true}) {
          Value many = randomF32({batch, 37}, static_cast<uint32_t>(batch));
          if (poisoned) {
            const float poison[] = {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()};
            for (int64_t r = 0; r != batch; ++r)
              std::memcpy(&many.bytes[static_cast<size_t>(r * 37 + r % 37) * 4], &poison[r % 2], 4);
          }
          std::memcpy(&many.bytes[static_cast<size_t>(place) * 37 * 4], alone.bytes.data(), alone.bytes.size());
          EXPECT_EQ(rowBytes(loaded.outputs({many})[0], place), expected)
              << "row " << place << " of " << batch << (poisoned ? ", poisoned" : "");
        }
  }
}

} // namespace
