//===- Instantiate.cpp - plan template and sizes to a plan ----------------===//
#include "rlx/Runtime/Instantiate.h"

#include "rlx/Data/KernelABI.h"

#include "ArenaLayout.h"
#include "CheckedMath.h"
#include "Select.h"
#include "Split.h"
#include "rlx/Data/Serialize.h"
#include "rlx/Runtime/Tensor.h"

#include <algorithm>
#include <deque>
#include <mutex>
#include <optional>

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

/// Elements of a tensor of the signature.
Result<int64_t> signatureElements(const std::vector<DimExpr> &shape, const Binding &binding, const char *what,
                                  const std::string &name) {
  std::vector<int64_t> sizes;
  for (const DimExpr &expr : shape) {
    Result<int64_t> size = expr.evaluate(binding);
    if (!size)
      return Error{size.error().code, std::string(what) + " '" + name + "': " + size.error().message};
    sizes.push_back(*size);
  }
  std::optional<int64_t> count = elementCount(sizes);
  if (!count)
    return Error{ErrorCode::OutOfRange,
                 std::string(what) + " '" + name + "' of shape " + shapeString(sizes) + " has no valid size"};
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

Result<std::vector<BufferInstance>> sizeBuffers(const data::PlanTemplateT &plan, const Model &model,
                                                std::span<const Supplied> supplied, const Binding &binding,
                                                std::span<const int64_t> values) {
  const data::ModelSignatureT &signature = model.signature();
  std::vector<BufferInstance> result;
  for (size_t i = 0; i != plan.buffers.size(); ++i) {
    const data::BufferT &buffer = *plan.buffers[i];
    BufferInstance instance;
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
      if (buffer.data.size() != static_cast<size_t>(instance.bytes))
        return malformed("constant " + std::to_string(i) + " holds " + std::to_string(buffer.data.size()) +
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
      return malformed(name() + " " + (buffer.name.empty() ? "" : "'" + buffer.name + "' ") + "is " +
                       std::to_string(instance.elements) + " of " + elementTypeName(buffer.type) +
                       ", but what it stands for is " + std::to_string(*there) + " of " + elementTypeName(type));
    result.push_back(instance);
  }
  return result;
}

Status placeArena(const data::PlanTemplateT &plan, Specialization &made) {
  // A graph output that lies in the arena is read after the last step.
  std::vector<bool> kept(plan.buffers.size());
  for (const auto &output : plan.outputs)
    kept[output->buffer] = true;
  std::vector<ArenaRequest> requests;
  std::vector<size_t> owners;
  for (size_t i = 0; i != plan.buffers.size(); ++i) {
    const data::BufferT &buffer = *plan.buffers[i];
    if (buffer.kind != BufferKind::Arena)
      continue;
    auto last = kept[i] ? std::max(buffer.last_step, static_cast<uint32_t>(plan.steps.size())) : buffer.last_step;
    requests.push_back({made.buffers[i].bytes, buffer.first_step, last, 0});
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

struct CheckedTemplate::Parts {
  std::shared_ptr<const data::PlanTemplateT> plan;
  const Model &model;
  std::string target;
  std::vector<Supplied> supplied;

  /// A spec that some binding has selected. The same steps mostly select the same ones, and comparing is cheaper than
  /// serialising.
  struct Known {
    data::KernelSpecT spec;
    std::vector<uint8_t> key;
  };
  std::mutex mutex;           // guards the members below
  std::deque<Known> known;    // only grows, so that references stay
  std::vector<size_t> latest; // by step: the one it selected last

  /// The number and the place of a spec that `step` selects.
  std::pair<size_t, const Known *> knownOf(uint32_t step, data::KernelSpecT &&spec) {
    std::lock_guard lock(mutex);
    size_t &number = latest[step];
    if (number >= known.size() || known[number].spec != spec) {
      number = 0;
      while (number != known.size() && known[number].spec != spec)
        ++number;
      if (number == known.size()) {
        std::vector<uint8_t> key = serializeSpec(spec);
        known.push_back({std::move(spec), std::move(key)});
      }
    }
    return {number, &known[number]};
  }
};

CheckedTemplate::CheckedTemplate(std::unique_ptr<Parts> parts) : parts(std::move(parts)) {}
CheckedTemplate::~CheckedTemplate() = default;

Result<std::shared_ptr<const CheckedTemplate>> CheckedTemplate::create(std::shared_ptr<const data::PlanTemplateT> plan,
                                                                       const Model &model, std::string_view target) {
  if (Status status = validate(*plan, model.signature()); !status)
    return status.takeError();
  Result<std::vector<Supplied>> supplied = findSupplied(*plan, model);
  if (!supplied)
    return supplied.takeError();
  std::unique_ptr<Parts> parts(new Parts{plan, model, std::string(target), std::move(*supplied), {}, {}, {}});
  parts->latest.resize(plan->steps.size());
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
  Result<std::vector<BufferInstance>> buffers = sizeBuffers(*plan, model, parts->supplied, binding, *values);
  if (!buffers)
    return buffers.takeError();
  made->buffers = std::move(*buffers);

  std::vector<std::optional<uint32_t>> kernelOf; // by number of the known spec
  made->steps.reserve(plan->steps.size());
  double sharedNs = 0;
  for (uint32_t number = 0; number != plan->steps.size(); ++number) {
    StepReader reader(*plan, number, *values, made->buffers);
    data::KernelSpecT spec;
    StepInstance call;
    call.step = number;
    Selected selected = false;
    switch (reader.step.family) {
    case data::Family::Loops:
      selected = selectLoops(reader, spec, call);
      break;
    case data::Family::Reduce:
      selected = selectReduce(reader, spec, call);
      break;
    case data::Family::Rows:
      selected = selectRows(reader, spec, call);
      break;
    case data::Family::Matmul:
      selected = selectMatmul(reader, spec, call, made->scratchBytes);
      break;
    case data::Family::Attention:
      selected = selectAttention(reader, spec, call, made->scratchBytes);
      break;
    case data::Family::Scan:
      selected = selectScan(reader, spec, call);
      break;
    default:
      selected = reader.malformed("it belongs to an unknown family");
    }
    if (!selected)
      return selected.takeError();
    if (!*selected)
      continue;
    sharedNs += splitStep(spec, call);
    spec.target = parts->target;
    spec.revision = kEmitterRevision;
    auto [known, place] = parts->knownOf(number, std::move(spec));
    if (known >= kernelOf.size())
      kernelOf.resize(known + 1);
    if (!kernelOf[known]) {
      kernelOf[known] = static_cast<uint32_t>(made->kernels.size());
      made->keys.push_back(place->key);
      made->kernels.push_back(place->spec);
    }
    call.kernel = *kernelOf[known];
    made->steps.push_back(std::move(call));
  }
  if (sharedNs < kWakeNs)
    for (StepInstance &call : made->steps)
      call.helpers = 0;

  for (size_t i = 0; i != plan->outputs.size(); ++i) {
    const data::OutputValueT &output = *plan->outputs[i];
    std::vector<int64_t> shape;
    for (uint32_t expr : output.shape)
      shape.push_back((*values)[expr]);
    std::optional<int64_t> count = elementCount(shape);
    if (!count || *count != made->buffers[output.buffer].elements)
      return malformed("output '" + model.signature().outputs[i]->name + "' of shape " + shapeString(shape) +
                       " lies in a buffer of " + std::to_string(made->buffers[output.buffer].elements) + " elements");
    made->outputs.push_back(std::move(shape));
  }
  if (Status status = placeArena(*plan, *made); !status)
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
  out.number(made.keys.size());
  for (const auto &key : made.keys)
    out.list(key);
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
