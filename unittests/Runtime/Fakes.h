//===- Fakes.h - plans by hand, a compiler and kernels in C++ ---*- C++ -*-===//
//
// The runtime is tested without code generation: plan templates are written by
// hand, and kernels are C++ functions that follow KernelABI.h literally.
//
//===----------------------------------------------------------------------===//
#ifndef RLX_UNITTESTS_RUNTIME_FAKES_H
#define RLX_UNITTESTS_RUNTIME_FAKES_H

#include "rlx/Data/Serialize.h"
#include "rlx/Runtime/Executable.h"
#include "rlx/Runtime/Instantiate.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <map>
#include <mutex>

namespace rlx::fakes {

using data::ElementType;

/// Writes plan templates. Expressions are numbers returned by constant(),
/// symbol() and the operations.
class PlanBuilder {
public:
  std::unique_ptr<data::PlanTemplateT> plan = std::make_unique<data::PlanTemplateT>();

  uint32_t constant(int64_t value) { return expr(data::ExprOp::Constant, 0, 0, value); }
  uint32_t symbol(uint32_t dim) { return expr(data::ExprOp::Symbol, dim, 0, 0); }
  uint32_t mul(uint32_t a, uint32_t b) { return expr(data::ExprOp::Mul, a, b, 0); }
  uint32_t add(uint32_t a, uint32_t b) { return expr(data::ExprOp::Add, a, b, 0); }
  uint32_t expr(data::ExprOp op, uint32_t a, uint32_t b, int64_t value) {
    plan->exprs.emplace_back(op, a, b, value);
    return static_cast<uint32_t>(plan->exprs.size() - 1);
  }

  uint32_t buffer(data::BufferKind kind, ElementType type, uint32_t elements, uint32_t index = 0) {
    auto made = std::make_unique<data::BufferT>();
    made->kind = kind;
    made->type = type;
    made->elements = elements;
    made->index = index;
    plan->buffers.push_back(std::move(made));
    return static_cast<uint32_t>(plan->buffers.size() - 1);
  }
  uint32_t arena(ElementType type, uint32_t elements, uint32_t first, uint32_t last) {
    uint32_t number = buffer(data::BufferKind::Arena, type, elements);
    plan->buffers[number]->first_step = first;
    plan->buffers[number]->last_step = last;
    return number;
  }
  template <typename T> uint32_t constantBuffer(ElementType type, const std::vector<T> &values) {
    uint32_t number = buffer(data::BufferKind::Constant, type, constant(static_cast<int64_t>(values.size())));
    auto *bytes = reinterpret_cast<const uint8_t *>(values.data());
    plan->buffers[number]->data.assign(bytes, bytes + values.size() * sizeof(T));
    return number;
  }

  std::unique_ptr<data::AccessT> access(uint32_t buffer, std::vector<uint32_t> strides) {
    auto made = std::make_unique<data::AccessT>();
    made->buffer = buffer;
    made->type = plan->buffers[buffer]->type;
    made->offset = constant(0);
    made->strides = std::move(strides);
    return made;
  }
  data::StepT &step(data::Family family, std::string node, std::vector<uint32_t> iteration) {
    auto made = std::make_unique<data::StepT>();
    made->family = family;
    made->node = std::move(node);
    made->iteration = std::move(iteration);
    plan->steps.push_back(std::move(made));
    return *plan->steps.back();
  }
  void output(uint32_t buffer, std::vector<uint32_t> shape) {
    auto made = std::make_unique<data::OutputValueT>();
    made->buffer = buffer;
    made->type = plan->buffers[buffer]->type;
    made->shape = std::move(shape);
    plan->outputs.push_back(std::move(made));
  }
  void guard(data::PredicateKind kind, std::string lhs, std::string rhs, bool answer, bool required = false,
             std::string message = "why") {
    auto made = std::make_unique<data::GuardT>();
    made->predicate = std::make_unique<data::PredicateT>();
    made->predicate->kind = kind;
    made->predicate->lhs = std::move(lhs);
    made->predicate->rhs = std::move(rhs);
    made->answer = answer;
    made->required = required;
    made->op = "op";
    made->message = std::move(message);
    plan->guards.push_back(std::move(made));
  }
  std::unique_ptr<data::PlanTemplateT> take() { return std::move(plan); }
};

inline data::Instr instr(data::Opcode op, ElementType type, uint16_t a = 0, uint16_t b = 0, uint16_t c = 0,
                         uint64_t imm = 0) {
  return data::Instr(op, type, a, b, c, imm);
}

struct SignatureBuilder {
  data::ModelSignatureT signature;
  SignatureBuilder &dim(std::string name, int64_t min = 0, int64_t max = INT64_MAX, int64_t multiple = 1) {
    auto made = std::make_unique<data::DimT>();
    made->name = std::move(name);
    made->min = min;
    made->max = max;
    made->multiple = multiple;
    signature.dims.push_back(std::move(made));
    return *this;
  }
  SignatureBuilder &input(std::string name, ElementType type, std::vector<std::string> shape) {
    return add(signature.inputs, std::move(name), type, std::move(shape));
  }
  SignatureBuilder &output(std::string name, ElementType type, std::vector<std::string> shape) {
    return add(signature.outputs, std::move(name), type, std::move(shape));
  }
  SignatureBuilder &param(std::string name, ElementType type, std::vector<std::string> shape) {
    return add(signature.params, std::move(name), type, std::move(shape));
  }

private:
  SignatureBuilder &add(std::vector<std::unique_ptr<data::TensorSpecT>> &list, std::string name, ElementType type,
                        std::vector<std::string> shape) {
    auto made = std::make_unique<data::TensorSpecT>();
    made->name = std::move(name);
    made->type = type;
    made->shape = std::move(shape);
    list.push_back(std::move(made));
    return *this;
  }
};

/// Answers from a function; counts what it is asked.
class FakeCompiler : public CompilerInterface {
public:
  using Specialize = std::function<Result<SpecializeReply>(const Binding &)>;
  explicit FakeCompiler(Specialize specialize) : answer(std::move(specialize)) {}

  std::atomic<int> specialized{0};
  std::atomic<int> compiled{0};             ///< kernels
  std::mutex mutex;                         // guards `keys`
  std::map<std::vector<uint8_t>, int> keys; ///< how often each spec was compiled

  Result<SpecializeReply> specialize(const Binding &binding) override {
    ++specialized;
    return answer(binding);
  }
  Result<std::vector<data::KernelImageT>> compileKernels(std::span<const data::KernelSpecT> specs, ThreadPool &,
                                                         PhaseTimes &times) override {
    times.emplace_back("codegen", 1.0);
    std::vector<data::KernelImageT> images;
    for (const data::KernelSpecT &spec : specs) {
      data::KernelImageT image;
      image.spec = serializeSpec(spec);
      image.code.resize(64);
      ++compiled;
      {
        std::lock_guard lock(mutex);
        ++keys[image.spec];
      }
      images.push_back(std::move(image));
    }
    return images;
  }
  std::string target() const override { return "fake"; }

private:
  Specialize answer;
};

/// Supplies C++ functions by what the spec says: see Fakes.cpp for which.
class FakeLoader : public KernelLoader {
public:
  Result<std::vector<LoadedKernel>> load(std::span<const data::KernelImageT> images) override;
};

inline std::shared_ptr<Engine> fakeEngine(size_t cacheEntries = 64) {
  EngineOptions options;
  options.cacheEntries = cacheEntries;
  options.loader = std::make_shared<FakeLoader>();
  auto engine = Engine::create(std::move(options));
  return engine ? *engine : nullptr;
}

/// A reply that holds a plan.
inline Result<SpecializeReply> reply(std::unique_ptr<data::PlanTemplateT> plan) {
  SpecializeReply made;
  made.plan = std::move(plan);
  made.times.emplace_back("template", 1.0);
  return made;
}

/// An input of shape and values, which it borrows.
template <typename T>
NamedTensor input(std::string_view name, ElementType type, std::span<const int64_t> shape, const std::vector<T> &values) {
  return {name, TensorView{type, shape, values.data(), values.size() * sizeof(T), false}};
}

template <typename T> std::vector<T> valuesOf(const Tensor &tensor) {
  auto values = tensor.as<T>();
  return {values.begin(), values.end()};
}

/// EXPECT_TRUE that prints the error.
#define EXPECT_OK(result)                                                                                              \
  do {                                                                                                                 \
    auto &&result_ = (result);                                                                                         \
    EXPECT_TRUE(static_cast<bool>(result_)) << (result_ ? std::string() : result_.error().message);                    \
  } while (false)
#define ASSERT_OK(result) ASSERT_TRUE(static_cast<bool>(result)) << (result).error().message
/// That it fails, with a message that contains `text`.
#define EXPECT_ERROR(result, wanted, text)                                                                             \
  do {                                                                                                                 \
    auto &&result_ = (result);                                                                                         \
    EXPECT_FALSE(static_cast<bool>(result_));                                                                          \
    if (!result_) {                                                                                                    \
      EXPECT_EQ(static_cast<int>(result_.error().code), static_cast<int>(wanted)) << result_.error().message;          \
      EXPECT_NE(result_.error().message.find(text), std::string::npos) << result_.error().message;                     \
    }                                                                                                                  \
  } while (false)

/// A model over hand-made templates, and what runs it.
struct Bench {
  std::shared_ptr<FakeCompiler> compiler;
  std::shared_ptr<Engine> engine;
  std::shared_ptr<const Model> model;
  std::shared_ptr<Executable> executable;

  Bench(SignatureBuilder signature, FakeCompiler::Specialize specialize, size_t cacheEntries = 64,
        std::shared_ptr<WeightTable> weights = nullptr, std::shared_ptr<Engine> shared = nullptr)
      : compiler(std::make_shared<FakeCompiler>(std::move(specialize))),
        engine(shared ? std::move(shared) : fakeEngine(cacheEntries)) {
    auto made = Model::create(std::move(signature.signature), std::move(weights), compiler);
    EXPECT_OK(made);
    model = *made;
    auto runs = Executable::create(engine, model);
    EXPECT_OK(runs);
    executable = *runs;
  }
};

inline data::StepT &unary(PlanBuilder &p, std::string node, uint32_t size, uint32_t from, uint32_t to) {
  uint32_t one = p.constant(1);
  data::StepT &step = p.step(data::Family::Loops, std::move(node), {size});
  step.inputs.push_back(p.access(from, {one}));
  step.outputs.push_back(p.access(to, {one}));
  step.results = {0};
  return step;
}

inline data::StepT &binary(PlanBuilder &p, std::string node, data::Opcode op, uint32_t size, uint32_t a, uint32_t b,
                           uint32_t to, bool splatB = false) {
  uint32_t one = p.constant(1);
  data::StepT &step = unary(p, std::move(node), size, a, to);
  step.inputs.push_back(p.access(b, {splatB ? p.constant(0) : one}));
  step.program.push_back(instr(op, p.plan->buffers[to]->type, 0, 1));
  step.results = {2};
  return step;
}

} // namespace rlx::fakes

#endif // RLX_UNITTESTS_RUNTIME_FAKES_H
