//===- TemplateTest.cpp - a template says what specialising would ---------===//
//
// The property that keeps templates honest: where a template's guards hold, its
// instantiation is, byte for byte, what specialising at that binding gives; where
// a requirement fails, both give the same error; where a choice falls otherwise,
// another template is made and the guard that failed is known. On random graphs
// at random sizes, and on graphs made for one guard each. The numbers are
// compared with a plain evaluation of the graph, op by op, in double.
//
//===----------------------------------------------------------------------===//
#include "RandomGraph.h"
#include "Reference.h"

#include "rlx/Compiler/Load.h"
#include "rlx/Runtime/Engine.h"
#include "rlx/Runtime/Executable.h"
#include "rlx/Runtime/Instantiate.h"
#include "rlx/Runtime/TemplateTree.h"

#include "mlir/IR/MLIRContext.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include <bit>
#include <cmath>
#include <cstring>

using namespace rlx;
using namespace rlx::test;
using testing::ElementsAre;
using testing::HasSubstr;
using Kind = TemplateTree::Found::Kind;

namespace {

std::shared_ptr<const Model> load(const std::string &text) {
  Result<compiler::LoadedModel> loaded = compiler::loadModule(text);
  EXPECT_TRUE(loaded) << loaded.error().message << "\n" << text;
  return loaded ? loaded->model : nullptr;
}

DimPredicate predicateOf(const data::GuardT &guard) {
  Result<DimExpr> lhs = DimExpr::parse(guard.predicate->lhs), rhs = DimExpr::parse(guard.predicate->rhs);
  EXPECT_TRUE(lhs && rhs);
  return {static_cast<DimPredicate::Kind>(guard.predicate->kind), *lhs, *rhs};
}

/// Bytes of an instantiation, or its error.
std::string instantiated(const std::shared_ptr<const data::PlanTemplateT> &plan, const Model &model,
                         const Binding &binding) {
  Result<std::shared_ptr<const Specialization>> made = instantiate(plan, model, binding, "target");
  if (!made)
    return "error: " + made.error().message;
  std::vector<uint8_t> bytes = serialize(**made);
  return std::string(bytes.begin(), bytes.end());
}

struct Counts {
  unsigned reached = 0, made = 0, errors = 0, errorsReached = 0, attention = 0, tied = 0;
};

/// One binding against all templates so far.
void check(const Model &model, TemplateTree &tree, std::span<const int64_t> sizes, const std::string &illegal,
           Counts &counts) {
  Binding binding = model.solver().binding(sizes);
  SCOPED_TRACE(bindingString(binding));
  TemplateTree::Found found = tree.lookup(sizes);
  Result<SpecializeReply> scratch = model.compiler()->specialize(binding);
  ASSERT_TRUE(scratch) << scratch.error().message;

  if (scratch->error) {
    ++counts.errors;
    EXPECT_NE(illegal, "") << scratch->error->message;
    EXPECT_NE(found.kind, Kind::Template) << "a template holds where there is none: " << scratch->error->message;
    if (found.kind == Kind::Missing) {
      Status inserted = tree.insert(scratch->plan->guards, nullptr);
      ASSERT_TRUE(inserted) << inserted.error().message;
      found = tree.lookup(sizes);
    } else {
      ++counts.errorsReached;
    }
    ASSERT_EQ(found.kind, Kind::Error);
    EXPECT_EQ(found.error.code, scratch->error->code);
    EXPECT_EQ(found.error.message, scratch->error->message);
    return;
  }

  EXPECT_EQ(illegal, "") << "was not noticed";
  std::shared_ptr<const data::PlanTemplateT> plan = std::move(scratch->plan);
  std::string bytes = instantiated(plan, model, binding);
  EXPECT_FALSE(bytes.starts_with("error")) << bytes;
  if (found.kind == Kind::Template) {
    ++counts.reached;
    EXPECT_EQ(instantiated(found.plan, model, binding), bytes);
    EXPECT_TRUE(*found.plan == *plan) << "the templates themselves differ";
    return;
  }
  ASSERT_EQ(found.kind, Kind::Missing) << found.error.message;
  ++counts.made;
  for (const auto &step : plan->steps) {
    counts.attention += step->family == data::Family::Attention;
    for (const auto &access : step->inputs)
      counts.tied += access->panels;
  }

  // Every earlier template parts from this one at the guard that explain reports.
  std::vector<TemplateTree::Failed> reported = tree.explain(sizes);
  ASSERT_EQ(reported.size(), tree.templateCount());
  for (size_t t = 0; t < reported.size(); ++t) {
    const auto &guards = tree.plan(t)->guards;
    size_t parted = 0;
    for (; parted < guards.size(); ++parted) {
      Result<bool> answer = predicateOf(*guards[parted]).evaluate(binding);
      ASSERT_TRUE(answer);
      if (*answer != guards[parted]->answer)
        break;
    }
    ASSERT_LT(parted, guards.size());
    EXPECT_FALSE(guards[parted]->required);
    EXPECT_EQ(reported[t].plan, t);
    EXPECT_EQ(reported[t].guard, predicateOf(*guards[parted]).str());
    EXPECT_EQ(reported[t].answer, guards[parted]->answer);
    ASSERT_LT(parted, plan->guards.size());
    for (size_t i = 0; i < parted; ++i)
      EXPECT_TRUE(*plan->guards[i] == *guards[i]);
    EXPECT_TRUE(predicateOf(*plan->guards[parted]) == predicateOf(*guards[parted]));
    EXPECT_NE(plan->guards[parted]->answer, guards[parted]->answer);
  }
  Status inserted = tree.insert(plan->guards, plan);
  ASSERT_TRUE(inserted) << inserted.error().message;
  EXPECT_EQ(tree.lookup(sizes).plan, plan);
}

uint64_t bitsOf(double value, data::ElementType type) {
  switch (type) {
  case data::ElementType::F64:
    return std::bit_cast<uint64_t>(value);
  case data::ElementType::I64:
    return static_cast<uint64_t>(static_cast<int64_t>(value));
  case data::ElementType::F32:
    return std::bit_cast<uint32_t>(static_cast<float>(value));
  case data::ElementType::F16:
    return std::bit_cast<uint16_t>(static_cast<_Float16>(value));
  default: // bf16: the upper half, exact for what is used here
    return std::bit_cast<uint32_t>(static_cast<float>(value)) >> 16;
  }
}

double valueOf(const Tensor &tensor, size_t i) {
  uint64_t bits = 0;
  size_t bytes = elementSize(tensor.type());
  std::memcpy(&bits, static_cast<const std::byte *>(tensor.data()) + i * bytes, bytes);
  switch (tensor.type()) {
  case data::ElementType::F64:
    return std::bit_cast<double>(bits);
  case data::ElementType::F32:
    return std::bit_cast<float>(static_cast<uint32_t>(bits));
  case data::ElementType::F16:
    return std::bit_cast<_Float16>(static_cast<uint16_t>(bits));
  default:
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  }
}

/// What an element may be off, as a part of the largest value there can be.
double tolerance(data::ElementType type) {
  switch (type) {
  case data::ElementType::F64:
    return 1e-12;
  case data::ElementType::F32:
    return 3e-5;
  case data::ElementType::F16:
    return 5e-3;
  default:
    return 4e-2;
  }
}

/// Inputs for a graph: eighths in [-1, 1], indices 0 or -1.
struct Inputs {
  std::vector<Values> values;
  std::vector<std::vector<std::byte>> bytes;
  std::vector<NamedTensor> tensors;
};

Inputs makeInputs(const Model &model, const Binding &binding, Random &random) {
  Inputs inputs;
  for (size_t i = 0; i < model.inputShapes().size(); ++i) {
    Values values;
    int64_t count = 1;
    for (const DimExpr &dim : model.inputShapes()[i]) {
      values.shape.push_back(*dim.evaluate(binding));
      count *= values.shape.back();
    }
    data::ElementType type = model.signature().inputs[i]->type;
    std::vector<std::byte> bytes(count * elementSize(type));
    for (int64_t k = 0; k < count; ++k) {
      values.data.push_back(isFloatType(type) ? (static_cast<int64_t>(random.below(17)) - 8) / 8.0
                                              : -double(random.below(2)));
      uint64_t bits = bitsOf(values.data.back(), type);
      std::memcpy(bytes.data() + k * elementSize(type), &bits, elementSize(type));
    }
    inputs.values.push_back(std::move(values));
    inputs.bytes.push_back(std::move(bytes));
  }
  for (size_t i = 0; i < inputs.values.size(); ++i) {
    const data::TensorSpecT &spec = *model.signature().inputs[i];
    inputs.tensors.push_back(
        {spec.name, {spec.type, inputs.values[i].shape, inputs.bytes[i].data(), inputs.bytes[i].size()}});
  }
  return inputs;
}

/// A random graph as a model. Null for one that is legal at no sizes, and said to be.
std::shared_ptr<const Model> loadRandom(RandomGraph &graph, uint64_t seed) {
  Result<compiler::LoadedModel> loaded = compiler::loadModule(graph.text(), graph.weights);
  if (loaded)
    return loaded->model;
  EXPECT_THAT(loaded.error().message, HasSubstr("holds for no sizes")) << graph.text();
  Random random(seed);
  for (int i = 0; i < 200; ++i) {
    std::vector<int64_t> sizes = randomSizes(random, graph.graph.getDimDecls().size());
    Binding binding;
    for (auto [dim, size] : llvm::zip_equal(graph.graph.getDimDecls(), sizes))
      binding[dim.getName().str()] = size;
    EXPECT_NE(whyIllegal(graph.graph, binding), "") << bindingString(binding) << graph.text();
  }
  return nullptr;
}

/// A context that only makes graphs.
std::unique_ptr<mlir::MLIRContext> makeContext() {
  auto context = std::make_unique<mlir::MLIRContext>(mlir::MLIRContext::Threading::DISABLED);
  context->loadDialect<ir::RLXDialect>();
  return context;
}

TEST(RandomGraphs, InstantiatingIsSpecialising) {
  constexpr unsigned kGraphs = 50, kBindings = 20;
  Counts counts;
  unsigned graphs = 0;
  for (uint64_t seed = 0; graphs < kGraphs; ++seed) {
    auto context = makeContext();
    RandomGraph graph = makeRandomGraph(*context, seed);
    SCOPED_TRACE("graph " + std::to_string(seed) + "\n" + graph.text());
    std::shared_ptr<const Model> model = loadRandom(graph, seed);
    if (!model)
      continue;
    ++graphs;
    TemplateTree tree(model->solver().dims());
    Random random(seed);
    for (unsigned i = 0; i < kBindings; ++i) {
      std::vector<int64_t> sizes = randomSizes(random, model->solver().dims().size());
      check(*model, tree, sizes, whyIllegal(graph.graph, model->solver().binding(sizes)), counts);
      if (HasFailure())
        return;
    }
  }
  EXPECT_EQ(counts.reached + counts.made + counts.errors, 1000u);
  RecordProperty("reached", counts.reached);
  RecordProperty("made", counts.made);
  RecordProperty("errors", counts.errors);
  RecordProperty("tied", counts.tied);
  // The generator reaches all outcomes, or this test shows nothing.
  EXPECT_GT(counts.reached, 300u);
  EXPECT_GT(counts.made, 50u);
  EXPECT_GT(counts.errors, 100u);
  EXPECT_GT(counts.errorsReached, 50u);
  EXPECT_GT(counts.attention, 10u);
  EXPECT_GT(counts.tied, 4u);
}

TEST(RandomGraphs, NumbersAreThoseOfThePlainGraph) {
  constexpr unsigned kGraphs = 24, kBindings = 6;
  unsigned compared = 0, refused = 0;
  Result<std::shared_ptr<Engine>> engine = Engine::create();
  ASSERT_TRUE(engine);
  unsigned graphs = 0;
  for (uint64_t seed = 1000; graphs < kGraphs; ++seed) {
    auto context = makeContext();
    RandomGraph graph = makeRandomGraph(*context, seed);
    SCOPED_TRACE("graph " + std::to_string(seed) + "\n" + graph.text());
    std::shared_ptr<const Model> model = loadRandom(graph, seed);
    if (!model)
      continue;
    ++graphs;
    auto executable = Executable::create(*engine, model);
    ASSERT_TRUE(executable);
    Random random(seed);
    for (unsigned i = 0; i < kBindings; ++i) {
      std::vector<int64_t> sizes = randomSizes(random, model->solver().dims().size());
      Binding binding = model->solver().binding(sizes);
      SCOPED_TRACE(bindingString(binding));
      Inputs inputs = makeInputs(*model, binding, random);
      Result<std::vector<Tensor>> outputs = (*executable)->run(inputs.tensors);
      if (std::string why = whyIllegal(graph.graph, binding); why != "") {
        EXPECT_FALSE(outputs) << why << " was not noticed";
        ++refused;
        continue;
      }
      auto expected = evaluateReference(graph.graph, binding, inputs.values, *graph.weights);
      if (!expected) { // there is nothing to look up; whether anybody looked depends on sizes
        if (!outputs)
          EXPECT_EQ(outputs.error().code, ErrorCode::RunFailed) << outputs.error().message;
        continue;
      }
      ASSERT_TRUE(outputs) << outputs.error().message;
      ASSERT_EQ(outputs->size(), expected->size());
      for (size_t o = 0; o < outputs->size(); ++o) {
        SCOPED_TRACE("output " + std::to_string(o));
        EXPECT_EQ((*outputs)[o].shape(), (*expected)[o].shape);
        ASSERT_EQ(static_cast<size_t>((*outputs)[o].elements()), (*expected)[o].data.size());
        for (size_t k = 0; k < (*expected)[o].data.size(); ++k) {
          double got = valueOf((*outputs)[o], k), want = (*expected)[o].data[k];
          if (std::isfinite(want))
            ASSERT_NEAR(got, want, tolerance(graph.type) * graph.scale) << "element " << k;
          else
            ASSERT_TRUE(std::isnan(want) ? std::isnan(got) : got == want)
                << "element " << k << ": " << got << ", not " << want;
        }
      }
      compared += outputs->size();

      // From scratch: the same bits.
      auto fresh = Executable::create(*engine, model);
      ASSERT_TRUE(fresh);
      Result<std::vector<Tensor>> again = (*fresh)->run(inputs.tensors);
      ASSERT_TRUE(again) << again.error().message;
      for (size_t o = 0; o < outputs->size(); ++o)
        EXPECT_EQ(std::memcmp((*again)[o].data(), (*outputs)[o].data(), (*again)[o].bytes()), 0) << "output " << o;
      if (HasFailure())
        return;
    }
  }
  EXPECT_GT(compared, 100u);
  EXPECT_GT(refused, 10u);
}

//===----------------------------------------------------------------------===//
// One guard each
//===----------------------------------------------------------------------===//

class HandMade : public testing::Test {
protected:
  void open(const std::string &text) {
    model = load(text);
    ASSERT_TRUE(model);
    auto engine = Engine::create();
    ASSERT_TRUE(engine);
    auto made = Executable::create(*engine, model);
    ASSERT_TRUE(made);
    executable = *made;
    tree.emplace(model->solver().dims());
  }

  /// Runs with f32 inputs that count 1, 2, 3...; returns the first output.
  Result<std::vector<float>> run(const std::vector<std::vector<int64_t>> &shapes) {
    std::vector<std::vector<float>> data;
    std::vector<NamedTensor> tensors;
    for (const auto &shape : shapes) {
      data.emplace_back(*elementCount(shape));
      for (size_t i = 0; i < data.back().size(); ++i)
        data.back()[i] = static_cast<float>(i + 1);
    }
    for (size_t i = 0; i < shapes.size(); ++i)
      tensors.push_back({model->signature().inputs[i]->name,
                         {data::ElementType::F32, shapes[i], data[i].data(), data[i].size() * sizeof(float)}});
    Result<std::vector<Tensor>> outputs = executable->run(tensors);
    if (!outputs)
      return outputs.takeError();
    std::span<const float> values = (*outputs)[0].as<const float>();
    return std::vector<float>(values.begin(), values.end());
  }
  std::vector<float> values(const std::vector<std::vector<int64_t>> &shapes) {
    Result<std::vector<float>> result = run(shapes);
    EXPECT_TRUE(result) << result.error().message;
    return result ? *result : std::vector<float>();
  }
  Origin origin() { return executable->explain()->origin; }
  std::vector<std::string> guardsFailed() { return executable->explain()->guardsFailed; }
  /// Templates against specialising, without running.
  void agree(std::vector<int64_t> sizes, const std::string &illegal = "") {
    check(*model, *tree, sizes, illegal, counts);
  }

  std::shared_ptr<const Model> model;
  std::shared_ptr<Executable> executable;
  std::optional<TemplateTree> tree;
  Counts counts;
};

TEST_F(HandMade, AnInnermostDimThatBecomesOne) {
  open(R"(rlx.graph @main(%x: tensor<?x?xf32, #rlx.dims<[B, N]>>, %y: tensor<?x?xf32, #rlx.dims<[B, M]>>)
                          -> tensor<?x?xf32> attributes {dims = [#rlx.dim<"B">, #rlx.dim<"N">, #rlx.dim<"M">]} {
    %0 = rlx.add %x, %y : tensor<?x?xf32, #rlx.dims<[B, N]>>, tensor<?x?xf32, #rlx.dims<[B, M]>> -> tensor<?x?xf32>
    rlx.output %0 : tensor<?x?xf32>
  })");
  EXPECT_THAT(values({{1, 3}, {1, 3}}), ElementsAre(2, 4, 6));
  EXPECT_EQ(origin(), Origin::NewTemplate);
  EXPECT_THAT(values({{2, 2}, {2, 2}}), ElementsAre(2, 4, 6, 8));
  EXPECT_EQ(origin(), Origin::Instantiated);
  EXPECT_THAT(values({{2, 2}, {2, 1}}), ElementsAre(2, 3, 5, 6));
  EXPECT_EQ(origin(), Origin::NewTemplate);
  ASSERT_EQ(guardsFailed().size(), 1u);
  EXPECT_THAT(guardsFailed()[0], testing::StartsWith("M == N (rlx.add: "));
  EXPECT_THAT(values({{1, 3}, {1, 1}}), ElementsAre(2, 3, 4));
  EXPECT_EQ(origin(), Origin::Instantiated);
  // The other way round: neither holds.
  EXPECT_THAT(values({{1, 1}, {1, 3}}), ElementsAre(2, 3, 4));
  EXPECT_EQ(origin(), Origin::NewTemplate);
  EXPECT_EQ(guardsFailed().size(), 2u);
  // Both 1: M == N again.
  EXPECT_THAT(values({{2, 1}, {2, 1}}), ElementsAre(2, 4));
  EXPECT_EQ(origin(), Origin::Instantiated);
  EXPECT_THAT(values({{2, 0}, {2, 1}}), ElementsAre());

  for (std::vector<int64_t> sizes :
       {std::vector<int64_t>{2, 5, 5}, {2, 5, 1}, {0, 0, 0}, {3, 1, 1}, {7, 1, 9}, {1, 8, 1}})
    agree(sizes);
  EXPECT_EQ(counts.made, 3u);
  agree({2, 5, 4}, "5 and 4");
  EXPECT_EQ(counts.errorsReached, 1u);
}

TEST_F(HandMade, ASliceThatClamps) {
  open(R"(rlx.graph @main(%x: tensor<?xf32, #rlx.dims<[S]>>) -> tensor<?xf32>
                          attributes {dims = [#rlx.dim<"S">]} {
    %0 = rlx.slice %x starts [0] steps [1] : tensor<?xf32, #rlx.dims<[S]>> -> tensor<?xf32, #rlx.dims<[min(512, S)]>>
    %1 = rlx.neg %0 : tensor<?xf32, #rlx.dims<[min(512, S)]>> -> tensor<?xf32, #rlx.dims<[min(512, S)]>>
    rlx.output %1 : tensor<?xf32, #rlx.dims<[min(512, S)]>>
  })");
  EXPECT_THAT(values({{3}}), ElementsAre(-1, -2, -3));
  EXPECT_EQ(values({{512}}).size(), 512u);
  EXPECT_EQ(origin(), Origin::Instantiated);
  EXPECT_EQ(values({{0}}).size(), 0u);
  EXPECT_EQ(origin(), Origin::Instantiated);
  std::vector<float> cut = values({{600}});
  EXPECT_EQ(origin(), Origin::NewTemplate);
  ASSERT_EQ(cut.size(), 512u);
  EXPECT_EQ(cut.back(), -512);
  ASSERT_EQ(guardsFailed().size(), 1u);
  EXPECT_THAT(guardsFailed()[0], testing::StartsWith("S <= 512 ("));
  EXPECT_EQ(values({{513}}).size(), 512u);
  EXPECT_EQ(origin(), Origin::Instantiated);
  for (int64_t size : {0, 1, 511, 512, 513, 5000})
    agree({size});
  EXPECT_EQ(counts.made, 2u);
  EXPECT_EQ(counts.reached, 4u);
}

TEST_F(HandMade, ABatchOfNothingUnderAnOpenReshape) {
  // [B, S, 4] to [B, -1], as the importer writes it.
  open(R"(rlx.graph @main(%x: tensor<?x?x4xf32, #rlx.dims<[B, S, 4]>>) -> tensor<?x?xf32>
      attributes {dims = [#rlx.dim<"B">, #rlx.dim<"S">],
                  constraints = [#rlx.constraint<"1 <= B", "node 'r': the -1 of a shape divides 4*B*S by B">]} {
    %0 = rlx.reshape %x : tensor<?x?x4xf32, #rlx.dims<[B, S, 4]>> -> tensor<?x?xf32, #rlx.dims<[B, 4 * S]>>
    %1 = rlx.exp %0 : tensor<?x?xf32, #rlx.dims<[B, 4 * S]>> -> tensor<?x?xf32, #rlx.dims<[B, 4 * S]>>
    rlx.output %1 : tensor<?x?xf32, #rlx.dims<[B, 4 * S]>>
  })");
  // Refused before any template, and after one.
  Result<std::vector<float>> before = run({{0, 3, 4}});
  ASSERT_FALSE(before);
  EXPECT_EQ(values({{2, 1, 4}}).size(), 8u);
  EXPECT_EQ(values({{2, 0, 4}}).size(), 0u);
  EXPECT_EQ(origin(), Origin::Instantiated);
  Result<std::vector<float>> after = run({{0, 3, 4}});
  ASSERT_FALSE(after);
  EXPECT_EQ(before.error().message, after.error().message);
  EXPECT_THAT(after.error().message, HasSubstr("the -1 of a shape divides 4*B*S by B"));

  agree({0, 3}, "B is 0"); // from scratch: the leaf is new
  agree({2, 1});
  agree({0, 7}, "B is 0"); // from the tree
  agree({3, 0});
  EXPECT_EQ(counts.errors, 2u);
  EXPECT_EQ(counts.errorsReached, 1u);
  EXPECT_EQ(counts.made, 1u);
  EXPECT_EQ(counts.reached, 1u);
}

TEST_F(HandMade, AnOperandThatMayBeRepeatedAlongTheInnerDim) {
  // [B, S] repeated to [S, S] and multiplied by itself: whether the rows are repeated is a stride, but not of a loop.
  open(R"(rlx.graph @main(%x: tensor<?x?xf32, #rlx.dims<[B, S]>>) -> tensor<?x?xf32, #rlx.dims<[S, S]>>
                          attributes {dims = [#rlx.dim<"B">, #rlx.dim<"S">]} {
    %0 = rlx.broadcast_to %x : tensor<?x?xf32, #rlx.dims<[B, S]>> -> tensor<?x?xf32, #rlx.dims<[S, S]>>
    %1 = rlx.matmul %0, %0 : tensor<?x?xf32, #rlx.dims<[S, S]>>, tensor<?x?xf32, #rlx.dims<[S, S]>> -> tensor<?x?xf32, #rlx.dims<[S, S]>>
    rlx.output %1 : tensor<?x?xf32, #rlx.dims<[S, S]>>
  })");
  EXPECT_THAT(values({{2, 2}}), ElementsAre(7, 10, 15, 22));
  EXPECT_THAT(values({{1, 2}}), ElementsAre(3, 6, 3, 6));
  EXPECT_THAT(values({{1, 3}}), ElementsAre(6, 12, 18, 6, 12, 18, 6, 12, 18));
  EXPECT_EQ(executable->stats().templatesMade, 1u);
}

TEST_F(HandMade, ASizeThatHasNoValue) {
  // The requirement of the broadcast is about broadcast(M, N), which is no size at all for 2 and 3.
  open(R"(rlx.graph @main(%x: tensor<?x4xf32, #rlx.dims<[N, 4]>>, %y: tensor<?xf32, #rlx.dims<[M]>>)
                          -> tensor<?x4xf32> attributes {dims = [#rlx.dim<"N">, #rlx.dim<"M">]} {
    %0 = rlx.broadcast_to %x : tensor<?x4xf32, #rlx.dims<[N, 4]>> -> tensor<?x4xf32, #rlx.dims<[M, 4]>>
    %1 = rlx.neg %0 : tensor<?x4xf32, #rlx.dims<[M, 4]>> -> tensor<?x4xf32, #rlx.dims<[M, 4]>>
    rlx.output %1 : tensor<?x4xf32, #rlx.dims<[M, 4]>>
  })");
  agree({2, 3}, "2 and 3");
  agree({1, 3});
  agree({3, 2}, "3 and 2");
  agree({3, 3});
  agree({3, 1}, "3 is not 1");
  EXPECT_EQ(counts.errors, 3u);
  EXPECT_EQ(counts.errorsReached, 2u); // all but the first
  EXPECT_EQ(counts.reached, 1u);
}

TEST_F(HandMade, AMatmulWhoseBatchCannotMerge) {
  // Six batch dims in an order that no two neighbours share.
  open(
      R"(rlx.graph @main(%x: tensor<2x1x2x1x2x1x1x2xf32>, %y: tensor<1x2x1x2x1x2x2x1xf32>) -> tensor<2x2x2x2x2x2x1x1xf32> {
    %0 = rlx.matmul %x, %y : tensor<2x1x2x1x2x1x1x2xf32>, tensor<1x2x1x2x1x2x2x1xf32> -> tensor<2x2x2x2x2x2x1x1xf32>
    rlx.output %0 : tensor<2x2x2x2x2x2x1x1xf32>
  })");
  std::vector<float> got = values({{2, 1, 2, 1, 2, 1, 1, 2}, {1, 2, 1, 2, 1, 2, 2, 1}});
  ASSERT_EQ(got.size(), 64u);
  for (int i = 0; i < 64; ++i) {
    // Bits of i from the top: x, y, x, y, x, y. Each pair of values is (2p + 1, 2p + 2).
    int x = (i >> 5 & 1) << 2 | (i >> 3 & 1) << 1 | (i >> 1 & 1), y = (i >> 4 & 1) << 2 | (i >> 2 & 1) << 1 | (i & 1);
    EXPECT_EQ(got[i], (2 * x + 1) * (2 * y + 1) + (2 * x + 2) * (2 * y + 2)) << i;
  }
}

TEST_F(HandMade, MoreOperandsThanAKernelTakes) {
  // x0 + x1 + ... + x99, all of them inputs.
  std::string arguments, body, last = "%x0";
  for (int i = 0; i < 100; ++i)
    arguments += (i ? ", %x" : "%x") + std::to_string(i) + ": tensor<3xf32>";
  for (int i = 1; i < 100; ++i) {
    std::string name = "%m" + std::to_string(i);
    body +=
        name + " = rlx.add " + last + ", %x" + std::to_string(i) + " : tensor<3xf32>, tensor<3xf32> -> tensor<3xf32>\n";
    last = name;
  }
  open("rlx.graph @main(" + arguments + ") -> tensor<3xf32> {\n" + body + "rlx.output " + last + " : tensor<3xf32>\n}");
  EXPECT_THAT(values(std::vector<std::vector<int64_t>>(100, {3})), ElementsAre(100, 200, 300));
}

TEST_F(HandMade, EqualSizesDoNotMakeEqualNames) {
  open(R"(rlx.graph @main(%x: tensor<?x1xf32, #rlx.dims<[N, 1]>>, %y: tensor<1x?xf32, #rlx.dims<[1, M]>>)
                          -> tensor<?x?xf32> attributes {dims = [#rlx.dim<"N">, #rlx.dim<"M">]} {
    %0 = rlx.mul %x, %y : tensor<?x1xf32, #rlx.dims<[N, 1]>>, tensor<1x?xf32, #rlx.dims<[1, M]>> -> tensor<?x?xf32>
    rlx.output %0 : tensor<?x?xf32>
  })");
  EXPECT_THAT(values({{2, 1}, {1, 2}}), ElementsAre(1, 2, 2, 4));
  EXPECT_THAT(values({{2, 1}, {1, 3}}), ElementsAre(1, 2, 3, 2, 4, 6));
  EXPECT_EQ(origin(), Origin::Instantiated);
  EXPECT_EQ(executable->stats().entries, 2u);
  EXPECT_EQ(executable->stats().templatesMade, 1u);
}

TEST_F(HandMade, OuterBroadcastsAreStrides) {
  // Case 19: [N,4] + [M,4] needs one template for every legal pair.
  open(R"(rlx.graph @main(%x: tensor<?x2xf32, #rlx.dims<[N, 2]>>, %y: tensor<?x2xf32, #rlx.dims<[M, 2]>>)
                          -> tensor<?x?xf32> attributes {dims = [#rlx.dim<"N">, #rlx.dim<"M">]} {
    %0 = rlx.add %x, %y : tensor<?x2xf32, #rlx.dims<[N, 2]>>, tensor<?x2xf32, #rlx.dims<[M, 2]>> -> tensor<?x2xf32>
    rlx.output %0 : tensor<?x2xf32>
  })");
  EXPECT_THAT(values({{1, 2}, {2, 2}}), ElementsAre(2, 4, 4, 6));
  EXPECT_THAT(values({{2, 2}, {2, 2}}), ElementsAre(2, 4, 6, 8));
  EXPECT_THAT(values({{2, 2}, {1, 2}}), ElementsAre(2, 4, 4, 6));
  EXPECT_THAT(values({{1, 2}, {0, 2}}), ElementsAre());
  EXPECT_EQ(executable->stats().templatesMade, 1u);
  Result<std::vector<float>> refused = run({{3, 2}, {5, 2}});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, testing::AllOf(HasSubstr("N is 3"), HasSubstr("M is 5")));
}

} // namespace
