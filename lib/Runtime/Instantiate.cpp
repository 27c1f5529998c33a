//===- Instantiate.cpp - plan template and sizes to a plan ----------------===//
#include "rlx/Runtime/Instantiate.h"

#include "rlx/Data/KernelABI.h"

#include "ArenaLayout.h"
#include "CheckedMath.h"
#include "HeapBytes.h"
#include "Select.h"
#include "Split.h"
#include "rlx/Data/Serialize.h"
#include "rlx/Runtime/Tensor.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cassert>
#include <deque>
#include <mutex>
#include <optional>
#include <unordered_map>

using namespace rlx;
using namespace rlx::select;
using data::AccessKind;
using data::BufferKind;
using data::ElementType;
using data::ExprOp;
using data::PackedLayout;

namespace {
Error malformed(const std::string &text) { return Error{ErrorCode::InvalidModel, "plan: " + text}; }

//===----------------------------------------------------------------------===//
// What does not depend on sizes
//===----------------------------------------------------------------------===//

bool validAccess(const data::PlanTemplateT &plan, const data::AccessT *access, bool nested) {
  size_t exprs = plan.exprs.size();
  auto all = [&](const std::vector<uint32_t> &list) {
    return std::all_of(list.begin(), list.end(), [&](uint32_t expr) { return expr < exprs; });
  };
  if (!access || access->kind < AccessKind::MIN || access->kind > AccessKind::MAX || !elementBytes(access->type) ||
      access->offset >= exprs || !all(access->strides) || !all(access->extents) || !all(access->axis_extents) ||
      !all(access->axis_strides) || access->column >= exprs || !all(access->column_strides) ||
      !all(access->axis_columns))
    return false;
  if (access->panels && access->kind != AccessKind::Indexed)
    return false;
  if (access->kind != AccessKind::Iota && access->buffer >= plan.buffers.size())
    return false;
  // An index is never indexed itself; this also bounds the depth.
  if (nested && !access->indices.empty())
    return false;
  return std::all_of(access->indices.begin(), access->indices.end(),
                     [&](const auto &index) { return validAccess(plan, index.get(), true); });
}

/// Everything that later code uses without looking: numbers of expressions and
/// buffers, enumerators, pointers that are there.
Status validate(const data::PlanTemplateT &plan, const data::ModelSignatureT &signature) {
  for (size_t i = 0; i != plan.exprs.size(); ++i) {
    const data::ExprNode &node = plan.exprs[i];
    if (node.op() < ExprOp::MIN || node.op() > ExprOp::MAX)
      return malformed("expression " + std::to_string(i) + " is of an unknown kind");
    if (node.op() == ExprOp::Symbol ? node.a() >= signature.dims.size()
                                    : node.op() != ExprOp::Constant && (node.a() >= i || node.b() >= i))
      return malformed("expression " + std::to_string(i) + " uses what is not there");
  }
  std::vector<bool> outputSeen(signature.outputs.size());
  for (size_t i = 0; i != plan.buffers.size(); ++i) {
    const data::BufferT *buffer = plan.buffers[i].get();
    auto bad = [&](const char *text) { return malformed("buffer " + std::to_string(i) + " " + text); };
    if (!buffer || buffer->kind < BufferKind::MIN || buffer->kind > BufferKind::MAX || !elementBytes(buffer->type) ||
        buffer->layout < PackedLayout::MIN || buffer->layout > PackedLayout::MAX ||
        buffer->elements >= plan.exprs.size())
      return bad("is not well formed");
    bool packable = buffer->kind == BufferKind::Weight || buffer->kind == BufferKind::Param;
    if (buffer->layout != PackedLayout::Strided &&
        (!packable || buffer->k > static_cast<uint64_t>(INT64_MAX) || buffer->n > static_cast<uint64_t>(INT64_MAX)))
      return bad("cannot be packed");
    if ((buffer->kind == BufferKind::Input && buffer->index >= signature.inputs.size()) ||
        (buffer->kind == BufferKind::Param && buffer->index >= signature.params.size()) ||
        (buffer->kind == BufferKind::Output && buffer->index >= signature.outputs.size()))
      return bad("is no input, output or param of the signature");
    if (buffer->kind == BufferKind::Output) {
      if (outputSeen[buffer->index])
        return bad("is an output that has a buffer already");
      outputSeen[buffer->index] = true;
    }
    if (buffer->kind == BufferKind::RunState && buffer->type != ElementType::U64)
      return bad("is a run state that is not u64");
    if (buffer->kind == BufferKind::Arena &&
        (buffer->first_step > buffer->last_step || buffer->last_step >= std::max<size_t>(plan.steps.size(), 1)))
      return bad("has a lifetime outside the steps");
  }
  for (const auto &step : plan.steps) {
    if (!step)
      return malformed("a step is missing");
    bool good = true;
    bool attends = step->family == data::Family::Attention;
    if (step->family == data::Family::Matmul || attends)
      for (uint32_t expr : {step->k, step->a_k_stride, step->b_k_stride})
        good &= expr < plan.exprs.size();
    if (attends)
      for (uint32_t expr : {step->d, step->v_stride, step->output_stride})
        good &= expr < plan.exprs.size();
    for (uint32_t expr : step->iteration)
      good &= expr < plan.exprs.size();
    for (const auto &access : step->inputs)
      good &= validAccess(plan, access.get(), false);
    for (const auto &access : step->outputs)
      good &= validAccess(plan, access.get(), false);
    if (!good)
      return malformed("step '" + step->node + "' is not well formed");
  }
  if (plan.outputs.size() != signature.outputs.size())
    return malformed("it has " + std::to_string(plan.outputs.size()) + " outputs, the signature " +
                     std::to_string(signature.outputs.size()));
  for (size_t i = 0; i != plan.outputs.size(); ++i) {
    const data::OutputValueT *output = plan.outputs[i].get();
    bool good = output && output->buffer < plan.buffers.size();
    if (good) {
      const data::BufferT &buffer = *plan.buffers[output->buffer];
      good = output->type == buffer.type && output->type == signature.outputs[i]->type &&
             buffer.layout == PackedLayout::Strided && buffer.kind != BufferKind::RunState;
      for (uint32_t expr : output->shape)
        good &= expr < plan.exprs.size();
    }
    if (!good)
      return malformed("output '" + signature.outputs[i]->name + "' is not well formed");
  }
  return Status::ok();
}

//===----------------------------------------------------------------------===//
// Sizes
//===----------------------------------------------------------------------===//

Result<std::vector<int64_t>> evaluate(const data::PlanTemplateT &plan, const data::ModelSignatureT &signature,
                                      const Binding &binding) {
  std::vector<int64_t> dims;
  for (const auto &dim : signature.dims) {
    auto size = binding.find(dim->name);
    if (size == binding.end())
      return Error{ErrorCode::Unsolvable, "dim '" + dim->name + "' has no size"};
    if (size->second < 0)
      return Error{ErrorCode::OutOfRange, "dim '" + dim->name + "' is " + std::to_string(size->second)};
    dims.push_back(size->second);
  }
  std::vector<int64_t> values(plan.exprs.size());
  for (size_t i = 0; i != plan.exprs.size(); ++i) {
    const data::ExprNode &node = plan.exprs[i];
    int64_t a = 0, b = 0, &value = values[i];
    if (node.op() != ExprOp::Constant && node.op() != ExprOp::Symbol) {
      a = values[node.a()];
      b = values[node.b()];
    }
    bool fits = true;
    switch (node.op()) {
    case ExprOp::Constant:
      value = node.value();
      break;
    case ExprOp::Symbol:
      value = dims[node.a()];
      break;
    case ExprOp::Add:
      fits = checkedAdd(a, b, value);
      break;
    case ExprOp::Mul:
      fits = checkedMul(a, b, value);
      break;
    case ExprOp::FloorDiv:
      if (b == 0)
        return Error{ErrorCode::OutOfRange, "a size of the plan divides " + std::to_string(a) + " by zero"};
      fits = !(a == INT64_MIN && b == -1);
      if (fits)
        value = a / b - (a % b != 0 && (a < 0) != (b < 0));
      break;
    case ExprOp::Min:
      value = std::min(a, b);
      break;
    case ExprOp::Max:
      value = std::max(a, b);
      break;
    case ExprOp::Broadcast:
      if (a != b && a != 1 && b != 1)
        return Error{ErrorCode::InvalidArgument,
                     "sizes " + std::to_string(a) + " and " + std::to_string(b) + " cannot be broadcast together"};
      value = a == 1 ? b : a;
      break;
    }
    if (!fits)
      return Error{ErrorCode::OutOfRange, "a size of the plan overflows"};
  }
  return values;
}

/// Sizes of a tensor of the signature.
Result<std::vector<int64_t>> signatureSizes(const std::vector<DimExpr> &shape, const Binding &binding, const char *what,
                                            const std::string &name) {
  std::vector<int64_t> sizes;
  sizes.reserve(shape.size());
  for (const DimExpr &expr : shape) {
    Result<int64_t> size = expr.evaluate(binding);
    if (!size)
      return Error{size.error().code, std::string(what) + " '" + name + "': " + size.error().message};
    sizes.push_back(*size);
  }
  return sizes;
}

/// Their product.
Result<int64_t> signatureElements(const std::vector<DimExpr> &shape, const Binding &binding, const char *what,
                                  const std::string &name) {
  Result<std::vector<int64_t>> sizes = signatureSizes(shape, binding, what, name);
  if (!sizes)
    return sizes.takeError();
  std::optional<int64_t> count = elementCount(*sizes);
  if (!count)
    return Error{ErrorCode::OutOfRange,
                 std::string(what) + " '" + name + "' of shape " + shapeString(*sizes) + " has no valid size"};
  return *count;
}

/// What stands behind a buffer at every binding.
struct Supplied {
  ElementType type = ElementType::F32;
  int64_t elements = 0; ///< Weight: of its row
  uint32_t param = 0;   ///< Param: position in the signature
};

/// Finds weights and params by name.
Result<std::vector<Supplied>> findSupplied(const data::PlanTemplateT &plan, const Model &model) {
  std::vector<Supplied> result;
  for (const auto &pointer : plan.buffers) {
    const data::BufferT &buffer = *pointer;
    Supplied &supplied = result.emplace_back();
    if (buffer.kind == BufferKind::Param) {
      // By name where it has one: the order of params is the signature's alone.
      supplied.param = buffer.index;
      if (!buffer.name.empty()) {
        std::optional<size_t> position = model.findParam(buffer.name);
        if (!position)
          return malformed("there is no param '" + buffer.name + "'");
        supplied.param = static_cast<uint32_t>(*position);
      }
      supplied.type = model.signature().params[supplied.param]->type;
    } else if (buffer.kind == BufferKind::Weight) {
      const WeightRow *row = model.weights().find(buffer.name);
      if (!row)
        return malformed("there is no weight '" + buffer.name + "'");
      supplied.elements = *elementCount(row->shape);
      supplied.type = row->type;
    }
  }
  return result;
}

Result<std::vector<BufferInstance>> sizeBuffers(const data::PlanTemplateT &plan, const PlanForm &form,
                                                const Model &model, std::span<const Supplied> supplied,
                                                const Binding &binding, std::span<const int64_t> values) {
  const data::ModelSignatureT &signature = model.signature();
  std::vector<BufferInstance> result;
  result.reserve(form.buffers.size());
  for (size_t i = 0; i != form.buffers.size(); ++i) {
    const BufferForm &buffer = form.buffers[i];
    BufferInstance instance;
    instance.kind = buffer.kind;
    instance.index = buffer.index;
    instance.elements = values[buffer.elements];
    auto name = [&] { return "buffer " + std::to_string(i); };
    if (instance.elements < 0 || !checkedMul(instance.elements, elementBytes(buffer.type), instance.bytes))
      return Error{ErrorCode::OutOfRange,
                   "plan: " + name() + " of " + std::to_string(instance.elements) + " elements has no valid size"};
    // What others supply must be as long as the plan takes it to be.
    Result<int64_t> there = instance.elements;
    ElementType type = buffer.type;
    switch (buffer.kind) {
    case BufferKind::Input: {
      const data::TensorSpecT &spec = *signature.inputs[buffer.index];
      there = signatureElements(model.inputShapes()[buffer.index], binding, "input", spec.name);
      type = spec.type;
      break;
    }
    case BufferKind::Param: {
      instance.param = supplied[i].param;
      there = signatureElements(model.paramShapes()[instance.param], binding, "param",
                                signature.params[instance.param]->name);
      type = supplied[i].type;
      break;
    }
    case BufferKind::Output:
      type = signature.outputs[buffer.index]->type;
      break;
    case BufferKind::Weight:
      there = supplied[i].elements;
      type = supplied[i].type;
      break;
    case BufferKind::Constant:
      if (buffer.constantBytes != static_cast<size_t>(instance.bytes))
        return malformed("constant " + std::to_string(i) + " holds " + std::to_string(buffer.constantBytes) +
                         " bytes, not " + std::to_string(instance.bytes));
      break;
    case BufferKind::RunState:
      there = int64_t(2);
      break;
    case BufferKind::Arena:
      break;
    }
    if (!there)
      return there.takeError();
    // Packed copies are checked against their row where they are made.
    if (type != buffer.type || (buffer.layout == PackedLayout::Strided && *there != instance.elements))
      return malformed(name() + " " + (plan.buffers[i]->name.empty() ? "" : "'" + plan.buffers[i]->name + "' ") +
                       "is " + std::to_string(instance.elements) + " of " + elementTypeName(buffer.type) +
                       ", but what it stands for is " + std::to_string(*there) + " of " + elementTypeName(type));
    result.push_back(instance);
  }
  return result;
}

Status shapeOutputs(const data::PlanTemplateT &plan, const Model &model, const Binding &binding,
                    std::span<const int64_t> values, Specialization &made) {
  made.outputs.reserve(plan.outputs.size());
  for (size_t i = 0; i != plan.outputs.size(); ++i) {
    const data::OutputValueT &output = *plan.outputs[i];
    const std::string &name = model.signature().outputs[i]->name;
    std::vector<int64_t> shape;
    shape.reserve(output.shape.size());
    for (uint32_t expr : output.shape)
      shape.push_back(values[expr]);
    std::optional<int64_t> count = elementCount(shape);
    if (!count || *count != made.buffers[output.buffer].elements)
      return malformed("output '" + name + "' of shape " + shapeString(shape) + " lies in a buffer of " +
                       std::to_string(made.buffers[output.buffer].elements) + " elements");
    Result<std::vector<int64_t>> wanted = signatureSizes(model.outputShapes()[i], binding, "output", name);
    if (!wanted)
      return wanted.takeError();
    if (shape != *wanted)
      return malformed("output '" + name + "' is of shape " + shapeString(shape) + ", but the model's is " +
                       shapeString(*wanted));
    made.outputs.push_back(std::move(shape));
  }
  return Status::ok();
}

Status placeArena(const data::PlanTemplateT &plan, const PlanForm &form, Specialization &made) {
  // A graph output that lies in the arena is read after the last step.
  std::vector<bool> kept(plan.buffers.size());
  for (const auto &output : plan.outputs)
    kept[output->buffer] = true;
  std::vector<ArenaRequest> requests;
  std::vector<size_t> owners;
  requests.reserve(form.buffers.size());
  owners.reserve(form.buffers.size());
  for (size_t i = 0; i != form.buffers.size(); ++i) {
    const BufferForm &buffer = form.buffers[i];
    if (buffer.kind != BufferKind::Arena)
      continue;
    auto last = kept[i] ? std::max(buffer.lastStep, static_cast<uint32_t>(plan.steps.size())) : buffer.lastStep;
    requests.push_back({made.buffers[i].bytes, buffer.firstStep, last, 0});
    owners.push_back(i);
  }
  std::optional<int64_t> total = layoutArena(requests);
  if (!total)
    return Error{ErrorCode::OutOfRange, "the memory of a run overflows"};
  for (size_t i = 0; i != requests.size(); ++i)
    made.buffers[owners[i]].arenaOffset = requests[i].offset;
  made.arenaBytes = *total;
  return Status::ok();
}
} // namespace

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

namespace {
/// False where the step has nothing to do. `scratchBytes` grows to what it needs.
Selected selectStep(StepReader &reader, StepDraft &call, int64_t &scratchBytes) {
  switch (reader.step.family) {
  case data::Family::Loops:
    return selectLoops(reader, call);
  case data::Family::Reduce:
    return selectReduce(reader, call);
  case data::Family::Rows:
    return selectRows(reader, call);
  case data::Family::Matmul:
    return selectMatmul(reader, call, scratchBytes);
  case data::Family::Attention:
    return selectAttention(reader, call, scratchBytes);
  case data::Family::Scan:
    return selectScan(reader, call);
  }
  return false;
}

/// Writes the lists of a specialization's steps, one behind the other. They move while they grow: the steps get their
/// parts in the end.
class StepLists {
public:
  explicit StepLists(Specialization &made) : made(made) {}
  void reserve(size_t steps, size_t numbers, size_t pointers) {
    lengths.reserve(steps);
    made.steps.reserve(steps);
    made.numbers.reserve(numbers);
    made.pointers.reserve(pointers);
  }
  void add(const StepDraft &call) {
    for (const auto *list : {&call.integers, &call.extents, &call.rowBytes})
      made.numbers.insert(made.numbers.end(), list->begin(), list->end());
    made.pointers.insert(made.pointers.end(), call.pointers.begin(), call.pointers.end());
    lengths.push_back({call.integers.size(), call.extents.size(), call.rowBytes.size(), call.pointers.size()});
    made.steps.push_back({call, {}, {}, {}, {}});
  }
  void finish() {
    made.numbers.shrink_to_fit();
    made.pointers.shrink_to_fit();
    const int64_t *nextNumber = made.numbers.data();
    const PointerSource *nextPointer = made.pointers.data();
    auto part = []<typename T>(const T *&next, size_t count) {
      return Part<T>(std::exchange(next, next + count), count);
    };
    for (size_t i = 0; i != lengths.size(); ++i) {
      StepInstance &step = made.steps[i];
      step.integers = part(nextNumber, lengths[i].integers);
      step.extents = part(nextNumber, lengths[i].extents);
      step.rowBytes = part(nextNumber, lengths[i].rowBytes);
      step.pointers = part(nextPointer, lengths[i].pointers);
    }
  }

private:
  struct Lengths {
    size_t integers, extents, rowBytes, pointers;
  };
  Specialization &made;
  std::vector<Lengths> lengths;
};
} // namespace

struct CheckedTemplate::Parts {
  std::shared_ptr<const data::PlanTemplateT> plan;
  const Model &model;
  std::string target;
  std::vector<Supplied> supplied;
  PlanForm form;

  /// What a step selected at some sizes.
  struct Choice {
    SpecChoice choice;
    uint32_t kernel; ///< of `known`
  };
  struct Seen : Choice {
    std::vector<data::InnerMode> modes;
  };
  struct Known {
    std::shared_ptr<const SelectedKernel> kernel;
    ElementCosts costs;
  };
  mutable std::mutex mutex;                             // guards the members below
  std::deque<Known> known;                              // only grows, so that references stay
  std::unordered_map<std::string_view, uint32_t> byKey; ///< places in `known`, by keys there
  /// By step, what it selected last. It mostly selects the same again, and this is found without looking elsewhere.
  std::vector<Choice> latest;
  std::vector<data::InnerMode> latestModes; ///< of all steps, one behind the other
  std::vector<uint32_t> firstMode;          ///< by step, and the end
  std::vector<std::vector<Seen>> seen;      ///< by step
  size_t kernelBytes = 0;                   ///< of what `known` and `seen` point to

  static constexpr uint32_t kNone = UINT32_MAX;

  void prepareLatest() {
    seen.resize(plan->steps.size());
    latest.assign(plan->steps.size(), {{}, kNone});
    firstMode.reserve(plan->steps.size() + 1);
    uint32_t modes = 0;
    for (const auto &step : plan->steps) {
      firstMode.push_back(modes);
      modes += static_cast<uint32_t>(modesOf(*step));
    }
    firstMode.push_back(modes);
    latestModes.resize(modes);
  }

  /// The kernel that `step` selects.
  const Known &knownOf(uint32_t step, const SpecChoice &choice, OperandModes modes) {
    std::lock_guard lock(mutex);
    std::span<data::InnerMode> last = std::span(latestModes).subspan(firstMode[step], modes.size());
    assert(firstMode[step] + modes.size() == firstMode[step + 1]);
    if (latest[step].kernel != kNone && latest[step].choice == choice && std::ranges::equal(last, modes))
      return known[latest[step].kernel];
    std::vector<Seen> &mine = seen[step];
    auto at = std::find_if(mine.begin(), mine.end(), [&](const Seen &each) {
      return each.choice == choice && std::ranges::equal(each.modes, modes);
    });
    if (at == mine.end()) {
      kernelBytes -= mine.capacity() * sizeof(Seen);
      mine.push_back({{choice, numberOf(specOf(*plan->steps[step], choice, modes))}, {modes.begin(), modes.end()}});
      kernelBytes += mine.capacity() * sizeof(Seen) + modes.size();
      at = std::prev(mine.end());
    }
    latest[step] = *at;
    std::ranges::copy(modes, last.begin());
    return known[at->kernel];
  }

  /// In `known`; steps share kernels. The lock is held.
  uint32_t numberOf(data::KernelSpecT spec) {
    spec.target = target;
    spec.revision = kEmitterRevision;
    std::vector<uint8_t> key = serializeSpec(spec);
    auto text = [](const std::vector<uint8_t> &bytes) {
      return std::string_view(reinterpret_cast<const char *>(bytes.data()), bytes.size());
    };
    if (auto at = byKey.find(text(key)); at != byKey.end())
      return at->second;
    auto number = static_cast<uint32_t>(known.size());
    ElementCosts costs = costsOf(spec);
    auto made = std::make_shared<const SelectedKernel>(std::move(spec), std::move(key), number);
    byKey.emplace(text(made->key), number);
    constexpr size_t kNode = sizeof(decltype(byKey)::value_type) + 3 * sizeof(void *); // hash, next, place
    kernelBytes += sizeof(Known) + kNode + heapBytes(made->spec) + sizeof(SelectedKernel) - sizeof(made->spec) +
                   made->key.capacity();
    known.push_back({std::move(made), costs});
    return number;
  }

  size_t bytes() const {
    std::lock_guard lock(mutex);
    return sizeof(*this) + form.bytes() + supplied.capacity() * sizeof(Supplied) + target.capacity() +
           latest.capacity() * sizeof(Choice) + latestModes.capacity() + firstMode.capacity() * sizeof(uint32_t) +
           seen.capacity() * sizeof(seen[0]) + kernelBytes;
  }

  /// What the latest binding took: the next will take about as much.
  std::atomic<size_t> numbers{0}, pointers{0};
};

CheckedTemplate::CheckedTemplate(std::unique_ptr<Parts> parts) : parts(std::move(parts)) {}
CheckedTemplate::~CheckedTemplate() = default;
size_t CheckedTemplate::bytes() const { return parts->bytes(); }

Result<std::shared_ptr<const CheckedTemplate>> CheckedTemplate::create(std::shared_ptr<const data::PlanTemplateT> plan,
                                                                       const Model &model, std::string_view target) {
  if (Status status = validate(*plan, model.signature()); !status)
    return status.takeError();
  if (Status status = checkSteps(*plan); !status)
    return status.takeError();
  Result<std::vector<Supplied>> supplied = findSupplied(*plan, model);
  if (!supplied)
    return supplied.takeError();
  auto parts = std::make_unique<Parts>(plan, model, std::string(target), std::move(*supplied), formOf(*plan));
  parts->prepareLatest();
  return std::shared_ptr<const CheckedTemplate>(new CheckedTemplate(std::move(parts)));
}

Result<std::shared_ptr<const Specialization>> rlx::instantiate(std::shared_ptr<const data::PlanTemplateT> plan,
                                                               const Model &model, const Binding &binding,
                                                               std::string_view target) {
  Result<std::shared_ptr<const CheckedTemplate>> checked = CheckedTemplate::create(std::move(plan), model, target);
  if (!checked)
    return checked.takeError();
  return (*checked)->instantiate(binding);
}

Result<std::shared_ptr<const Specialization>> CheckedTemplate::instantiate(const Binding &binding) const {
  const std::shared_ptr<const data::PlanTemplateT> &plan = parts->plan;
  const Model &model = parts->model;
  Result<std::vector<int64_t>> values = evaluate(*plan, model.signature(), binding);
  if (!values)
    return values.takeError();
  auto made = std::make_shared<Specialization>();
  made->plan = plan;
  const PlanForm &form = parts->form;
  Result<std::vector<BufferInstance>> buffers = sizeBuffers(*plan, form, model, parts->supplied, binding, *values);
  if (!buffers)
    return buffers.takeError();
  made->buffers = std::move(*buffers);

  StepLists lists(*made);
  lists.reserve(form.steps.size(), parts->numbers.load(std::memory_order_relaxed),
                parts->pointers.load(std::memory_order_relaxed));
  std::vector<uint32_t> kernelOf; // by number among those of the template
  double sharedNs = 0;
  StepDraft call;
  std::array<std::byte, 4096> room; // enough for the lists of most steps
  std::pmr::monotonic_buffer_resource memory(room.data(), room.size());
  for (uint32_t number = 0; number != form.steps.size(); ++number) {
    memory.release();
    StepReader reader(*plan, form, number, *values, made->buffers, &memory);
    call.clear();
    call.step = number;
    call.needed = reader.step.needed;
    Selected selected = selectStep(reader, call, made->scratchBytes);
    if (!selected)
      return selected.takeError();
    if (!*selected)
      continue;
    const Parts::Known &known = parts->knownOf(number, call.choice, call.modes);
    const SelectedKernel &kernel = *known.kernel;
    sharedNs += splitStep(kernel.spec, known.costs, call);
    if (kernel.number >= kernelOf.size())
      kernelOf.resize(kernel.number + size_t(1), Parts::kNone);
    uint32_t &place = kernelOf[kernel.number];
    if (place == Parts::kNone) {
      place = static_cast<uint32_t>(made->kernels.size());
      made->kernels.push_back(known.kernel);
    }
    call.kernel = place;
    lists.add(call);
  }
  parts->numbers.store(made->numbers.size(), std::memory_order_relaxed);
  parts->pointers.store(made->pointers.size(), std::memory_order_relaxed);
  lists.finish();
  if (sharedNs < kWakeNs)
    for (StepInstance &call : made->steps)
      call.helpers = 0;

  if (Status status = shapeOutputs(*plan, model, binding, *values, *made); !status)
    return status.takeError();
  if (Status status = placeArena(*plan, form, *made); !status)
    return status.takeError();
  return std::shared_ptr<const Specialization>(std::move(made));
}

//===----------------------------------------------------------------------===//
// Bytes
//===----------------------------------------------------------------------===//

namespace {
class Writer {
public:
  std::vector<uint8_t> bytes;
  void number(uint64_t value) {
    for (int i = 0; i != 8; ++i)
      bytes.push_back(static_cast<uint8_t>(value >> (8 * i)));
  }
  template <typename T> void list(const T &values) {
    number(values.size());
    for (auto value : values)
      number(static_cast<uint64_t>(value));
  }
};
} // namespace

std::vector<uint8_t> rlx::serialize(const Specialization &made) {
  Writer out;
  const data::PlanTemplateT &plan = *made.plan;
  out.number(static_cast<uint64_t>(made.arenaBytes));
  out.number(static_cast<uint64_t>(made.scratchBytes));
  out.number(made.kernels.size());
  for (const auto &kernel : made.kernels)
    out.list(kernel->key);
  out.number(made.buffers.size());
  for (size_t i = 0; i != made.buffers.size(); ++i) {
    const data::BufferT &buffer = *plan.buffers[i];
    out.number(static_cast<uint64_t>(buffer.kind));
    out.number(buffer.index);
    out.list(buffer.name);
    out.number(static_cast<uint64_t>(buffer.type));
    out.number(static_cast<uint64_t>(buffer.layout));
    for (auto value : {static_cast<int64_t>(buffer.k), static_cast<int64_t>(buffer.n), buffer.k_stride, buffer.n_stride,
                       buffer.offset, made.buffers[i].elements, made.buffers[i].bytes, made.buffers[i].arenaOffset,
                       static_cast<int64_t>(made.buffers[i].param)})
      out.number(static_cast<uint64_t>(value));
    out.list(buffer.data);
  }
  out.number(made.steps.size());
  for (const StepInstance &call : made.steps) {
    const data::StepT &step = *plan.steps[call.step];
    out.number(call.step);
    out.list(step.node);
    out.list(step.needed);
    out.number(call.kernel);
    out.number(static_cast<uint64_t>(call.tiles));
    out.number(static_cast<uint64_t>(call.unitTiles));
    out.number(call.helpers);
    out.number(call.rowGroups);
    out.list(call.rowBytes);
    out.number(call.pointers.size());
    for (const PointerSource &pointer : call.pointers) {
      out.number(static_cast<uint64_t>(pointer.kind));
      out.number(pointer.buffer);
      out.number(static_cast<uint64_t>(pointer.byteOffset));
    }
    out.list(call.integers);
    out.list(call.extents);
  }
  out.number(made.outputs.size());
  for (size_t i = 0; i != made.outputs.size(); ++i) {
    out.number(plan.outputs[i]->buffer);
    out.number(static_cast<uint64_t>(plan.outputs[i]->type));
    out.list(made.outputs[i]);
  }
  return out.bytes;
}
