//===- FormKernels.cpp - group the ops of a bound graph into kernels ------===//
//
// Which values are stored is decided first; every stored value that is not a
// source then becomes one kernel, whose region is a copy of everything that
// leads to it from other stored values.
//
//   sources   inputs, weights, params, constants: stored already
//   aliases   a reshape of a stored value: the same buffer
//   roots     matmul, reduce, softmax and norms, scan, concat, pad, scatter:
//             always the heart of a kernel of their own
//   views     transpose, slice, broadcast_to, splitting reshapes: copied into
//             every kernel that looks through them
//   inline    splat constants, iota, dim values: cheap, copied likewise
//   compute   elementwise ops and gathers: part of the one kernel that needs
//             them, or stored when several do
//
// Chains of ops that are one kernel whatever they are become so first: attention
// from its parts, then matmuls with what follows them.
//
//===----------------------------------------------------------------------===//

#include "rlx/Codegen/Plan/IndexMap.h"
#include "rlx/Codegen/Plan/Passes.h"
#include "rlx/Codegen/Plan/Questions.h"
#include "rlx/Dialect/RLX/IR/TensorShape.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

namespace rlx::codegen {
#define GEN_PASS_DEF_FORMKERNELS
#include "rlx/Codegen/Plan/Passes.h.inc"
} // namespace rlx::codegen

using namespace mlir;

namespace rlx::codegen {
namespace {

/// Instructions and operands beyond which a chain of elementwise ops is cut, so
/// that a kernel stays within the vector registers and compiles quickly.
constexpr unsigned kMaxChain = 40, kMaxReads = 32;

enum class Role { Source, Alias, Root, View, Inline, Compute };

class KernelFormer {
public:
  KernelFormer(ir::GraphOp graph, SizeAccessor &sizes) : graph(graph), sizes(sizes), reader(sizes.known()) {}

  Status run();

private:
  Status askInnermost();
  Role classify(Operation *op);
  Role role(Operation *op) const { return roles.lookup(op); }
  bool isStored(Value value) const;
  /// Whether `user` can take operand `operand` as part of its own kernel, given
  /// that the operand is computed there element by element.
  bool takesComputed(OpOperand &use);
  bool readOncePerRow(Operation *op);
  bool isActivation(Value value) const;
  void growAttention();
  void growEpilogues();
  void findOpenBroadcasts();
  bool showsOpenBroadcast(Operation *op) const;
  void decideStored();
  void limitChains();
  void storeThroughViews(Value value);
  void build();
  ir::KernelFamily familyOf(Operation *op);
  bool sameDims(Value a, Value b) { return reader.dims(a) == reader.dims(b); }

  ir::GraphOp graph;
  SizeAccessor &sizes;
  DimReader reader;
  DenseMap<Operation *, Role> roles;
  llvm::SmallPtrSet<Operation *, 32> stored;
  /// An op of a chain that is one kernel (a matmul with its epilogue, attention) -> the last op of the chain.
  DenseMap<Operation *, Operation *> chainEnd;
  llvm::SmallPtrSet<Operation *, 16> matmulEnds, attentionEnds;
  /// Values with an operand somewhere of which only the sizes of a run will tell whether it is repeated.
  llvm::SmallPtrSet<Operation *, 16> open;
  /// The broadcast_to ops among them whose own operand is such.
  llvm::SmallPtrSet<Operation *, 4> openViews;
};

bool isSplat(ir::ConstantOp constant) {
  auto dense = dyn_cast<DenseElementsAttr>(constant.getValue());
  return dense && dense.isSplat();
}

bool isRoot(Operation *op) {
  return isa<ir::MatmulOp, ir::ReduceOp, ir::SoftmaxOp, ir::LogSoftmaxOp, ir::LayerNormOp, ir::RmsNormOp, ir::CumSumOp,
             ir::ConcatOp, ir::PadOp, ir::ScatterElementsOp, ir::ScatterNDOp>(op);
}

/// Ops that read their operands through addresses alone: what they read must be
/// stored (or a view of what is).
bool readsThroughAddresses(Operation *op, unsigned operand) {
  if (isa<ir::MatmulOp, ir::SoftmaxOp, ir::LogSoftmaxOp, ir::LayerNormOp, ir::RmsNormOp, ir::CumSumOp>(op))
    return true;
  if (isa<ir::GatherOp, ir::GatherNDOp, ir::GatherElementsOp>(op))
    return true;
  // Scatters compute their data and updates, but look indices up.
  if (isa<ir::ScatterElementsOp, ir::ScatterNDOp>(op))
    return operand == 1;
  return false;
}

/// Norms over more than the last axis read a row of several dims.
bool readsSeveralDimsAsOne(Operation *op) {
  auto several = [](auto norm) {
    return static_cast<int64_t>(norm.getAxis()) + 1 < cast<RankedTensorType>(norm.getInput().getType()).getRank();
  };
  if (auto norm = dyn_cast<ir::LayerNormOp>(op))
    return several(norm);
  if (auto norm = dyn_cast<ir::RmsNormOp>(op))
    return several(norm);
  return false;
}

Role KernelFormer::classify(Operation *op) {
  if (isa<ir::WeightOp, ir::ParamOp>(op))
    return Role::Source;
  if (auto constant = dyn_cast<ir::ConstantOp>(op))
    return isSplat(constant) ? Role::Inline : Role::Source;
  if (isa<ir::IotaOp>(op))
    return Role::Inline;
  if (auto dims = dyn_cast<ir::DimValuesOp>(op))
    return dims.getValues().size() == 1 ? Role::Inline : Role::Root;
  if (isRoot(op))
    return Role::Root;
  if (isView(op, reader))
    return Role::View;
  if (isa<ir::ReshapeOp>(op))
    return Role::Alias; // merges dims: its operand will be stored
  return Role::Compute;
}

bool KernelFormer::isStored(Value value) const {
  Operation *op = value.getDefiningOp();
  if (!op)
    return true;
  return role(op) == Role::Source || stored.contains(op);
}

/// The design asks one fact of broadcasting: whether an operand's innermost dim
/// is the result's (a vector load) or 1 (a splat). Outer dims are strides.
Status KernelFormer::askInnermost() {
  Status failed;
  graph.getBody().walk([&](Operation *op) {
    if (!isa<ir::ElementwiseOpInterface>(op) || !failed)
      return;
    Dims result = reader.dims(op->getResult(0));
    if (result.empty())
      return;
    for (Value operand : op->getOperands()) {
      Dims dims = reader.dims(operand);
      if (dims.empty())
        continue;
      DimExpr own = sizes.expr(dims.back()), whole = sizes.expr(result.back());
      if (own == whole || own.isConstant())
        continue;
      Result<bool> equal = sizes.ask({DimPredicate::Kind::Equal, own, whole}, nodeName(op),
                                     "the innermost dim of an operand is read as it is, not repeated");
      if (!equal) {
        failed = equal.takeError();
        return;
      }
      if (*equal)
        continue;
      Result<bool> unit = sizes.ask({DimPredicate::Kind::Equal, own, DimExpr(1)}, nodeName(op),
                                    "the innermost dim of an operand is repeated");
      if (!unit) {
        failed = unit.takeError();
        return;
      }
    }
  });
  return failed;
}

/// A gather of one element per row (a scale, say) is an address that the row shares.
bool KernelFormer::readOncePerRow(Operation *op) {
  if (!isa_and_nonnull<ir::GatherOp>(op))
    return false;
  Dims own = reader.dims(op->getResult(0));
  return !own.empty() && own.back() == DimExpr(1);
}

bool KernelFormer::takesComputed(OpOperand &use) {
  Operation *user = use.getOwner();
  if (isa<ir::OutputOp>(user) || readsThroughAddresses(user, use.getOperandNumber()))
    return false;
  // Computing a value once per element of a larger result would repeat the work.
  if (isa<ir::ElementwiseOpInterface, ir::BroadcastToOp>(user))
    return readOncePerRow(use.get().getDefiningOp()) ||
           elementCount(reader.dims(use.get())) == elementCount(reader.dims(user->getResult(0)));
  return role(user) != Role::Alias;
}

/// The one op whose operands are all uses of the value (x * x counts as one).
static Operation *onlyUser(Value value) {
  Operation *only = nullptr;
  for (Operation *user : value.getUsers()) {
    if (only && user != only)
      return nullptr;
    only = user;
  }
  return only;
}

/// Made by the graph from its inputs: no weight, param or constant, nor a view of one.
bool KernelFormer::isActivation(Value value) const {
  while (Operation *op = value.getDefiningOp()) {
    if (role(op) != Role::View && role(op) != Role::Alias)
      return role(op) != Role::Source;
    value = op->getOperand(0);
  }
  return true;
}

/// select(is_nan(p), 0, p), which some exporters put behind a softmax, if that is all that uses p.
static ir::SelectOp nanGuard(Value p) {
  ir::SelectOp select;
  ir::IsNaNOp test;
  for (OpOperand &use : p.getUses()) {
    Operation *user = use.getOwner();
    if (auto op = dyn_cast<ir::IsNaNOp>(user); op && !test)
      test = op;
    else if (auto op = dyn_cast<ir::SelectOp>(user); op && !select && use.getOperandNumber() == 2)
      select = op;
    else
      return {};
  }
  if (!select || !test || select.getCondition() != test.getResult() || !test.getResult().hasOneUse())
    return {};
  auto zero = select.getOnTrue().getDefiningOp<ir::ConstantOp>();
  auto dense = zero ? dyn_cast<DenseElementsAttr>(zero.getValue()) : DenseElementsAttr();
  bool isZero =
      dense && dense.isSplat() && isa<FloatType>(dense.getElementType()) && dense.getSplatValue<APFloat>().isPosZero();
  return isZero ? select : ir::SelectOp();
}

/// matmul(q, k) -> elementwise ops -> softmax along the last axis -> matmul with v is one kernel, as long as nothing
/// else reads what stands in between and each row of scores is made once. A transpose behind is where the result goes.
void KernelFormer::growAttention() {
  auto isFloat = [](Value value) {
    Type type = cast<RankedTensorType>(value.getType()).getElementType();
    return type.isF32() || type.isF16() || type.isBF16();
  };
  auto fits = [&](ir::MatmulOp matmul) {
    return isFloat(matmul.getLhs()) && isFloat(matmul.getRhs()) && isFloat(matmul.getResult()) &&
           isActivation(matmul.getRhs());
  };
  // More batch loops than kernels take do not fit into one either.
  constexpr size_t kMostOps = 12, kMostDims = 32;
  graph.getBody().walk([&](ir::MatmulOp scores) {
    size_t rank = reader.dims(scores.getResult()).size();
    if (chainEnd.count(scores) || rank > kMostDims || !fits(scores))
      return;
    SmallVector<Operation *> chain{scores};
    Operation *next = onlyUser(scores.getResult());
    while (next && isa<ir::ElementwiseOpInterface>(next) && chain.size() < kMostOps &&
           sameDims(scores.getResult(), next->getResult(0))) {
      chain.push_back(next);
      next = onlyUser(next->getResult(0));
    }
    auto softmax = dyn_cast_or_null<ir::SoftmaxOp>(next);
    if (!softmax || static_cast<size_t>(softmax.getAxis()) + 1 != rank || !isFloat(softmax.getInput()))
      return;
    chain.push_back(softmax);
    Value weights = softmax.getResult();
    if (ir::SelectOp guard = nanGuard(weights); guard && sameDims(weights, guard.getResult())) {
      chain.push_back(guard.getCondition().getDefiningOp());
      chain.push_back(guard);
      weights = guard.getResult();
    }
    // A softmax in f32 between products of narrower types.
    if (auto convert = dyn_cast_or_null<ir::ConvertOp>(onlyUser(weights)); convert && isFloat(convert.getResult())) {
      chain.push_back(convert);
      weights = convert.getResult();
    }
    auto values = dyn_cast_or_null<ir::MatmulOp>(onlyUser(weights));
    if (!values || values.getLhs() != weights || values.getRhs() == weights || !fits(values) ||
        ArrayRef<DimExpr>(reader.dims(values.getResult())).drop_back(2) !=
            ArrayRef<DimExpr>(reader.dims(weights)).drop_back(2))
      return;
    chain.push_back(values);
    if (auto transpose = dyn_cast_or_null<ir::TransposeOp>(onlyUser(values.getResult())))
      chain.push_back(transpose);
    for (Operation *op : chain)
      chainEnd[op] = chain.back();
    attentionEnds.insert(chain.back());
  });
}

/// A matmul takes the elementwise ops after it into its kernel, as long as each
/// is the only user of the one before and keeps its shape.
void KernelFormer::growEpilogues() {
  graph.getBody().walk([&](ir::MatmulOp matmul) {
    if (chainEnd.count(matmul))
      return;
    SmallVector<Operation *> chain{matmul};
    while (chain.size() < 12) {
      Value value = chain.back()->getResult(0);
      Operation *next = onlyUser(value);
      if (!next || !isa<ir::ElementwiseOpInterface>(next) || !sameDims(value, next->getResult(0)) ||
          chainEnd.count(next))
        break;
      chain.push_back(next);
    }
    for (Operation *op : chain)
      chainEnd[op] = chain.back();
    matmulEnds.insert(chain.back());
  });
}

/// Whether an operand is repeated along a loop is a stride, decided by number, as
/// long as the loop is that dim. A slice or a reshape in between would make it a
/// matter of offsets too: what is open must then be stored first.
void KernelFormer::findOpenBroadcasts() {
  graph.getBody().walk([&](Operation *op) {
    if (role(op) != Role::Compute && role(op) != Role::View)
      return;
    bool isOpen = false;
    for (Value operand : op->getOperands()) {
      isOpen |= open.contains(operand.getDefiningOp());
      if (!isa<ir::ElementwiseOpInterface, ir::BroadcastToOp>(op))
        continue;
      Dims own = reader.dims(operand), result = reader.dims(op->getResult(0));
      for (size_t i = 0; i < own.size(); ++i)
        isOpen |= !own[i].isConstant() && own[i] != result[result.size() - own.size() + i];
    }
    if (isOpen)
      open.insert(op);
    if (isOpen && isa<ir::BroadcastToOp>(op))
      openViews.insert(op);
  });
}

/// True for an open broadcast_to, also behind transposes: its strides depend on sizes. Accesses say so for loops, but
/// not for a matmul's K or the axis of a lookup.
bool KernelFormer::showsOpenBroadcast(Operation *op) const {
  while (auto transpose = dyn_cast_or_null<ir::TransposeOp>(op))
    op = transpose.getInput().getDefiningOp();
  return op && openViews.contains(op);
}

void KernelFormer::storeThroughViews(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (stored.contains(op) || role(op) == Role::Source)
      return;
    // The view that ends a chain is its result: what lies before it is in no memory.
    if (role(op) == Role::View && chainEnd.lookup(op) != op) {
      value = op->getOperand(0);
      continue;
    }
    if (role(op) == Role::Alias) {
      stored.insert(op);
      // A merge is an alias of its operand's buffer, which must then be whole.
      Value operand = op->getOperand(0);
      if (Operation *source = operand.getDefiningOp(); source && role(source) != Role::Source)
        stored.insert(source);
      value = operand;
      continue;
    }
    stored.insert(op);
    return;
  }
}

void KernelFormer::decideStored() {
  SmallVector<Operation *> order;
  for (Operation &op : graph.getBody().front().without_terminator())
    order.push_back(&op);

  for (Value value : graph.getBody().front().getTerminator()->getOperands())
    if (Operation *op = value.getDefiningOp(); op && role(op) != Role::Source)
      stored.insert(op);

  // From the end: whoever needs a value is settled before the value is.
  DenseMap<Operation *, llvm::SmallSetVector<Operation *, 2>> kernelsOf;
  llvm::SmallPtrSet<Operation *, 8> repeated;
  for (Operation *op : llvm::reverse(order)) {
    if (role(op) == Role::Source)
      continue;
    Operation *end = chainEnd.lookup(op);
    bool inEpilogue = end && end != op;
    llvm::SmallSetVector<Operation *, 2> &kernels = kernelsOf[op];
    bool mustStore = (role(op) == Role::Root && !inEpilogue) || (end && end == op);
    for (OpOperand &use : op->getUses()) {
      Operation *user = use.getOwner();
      if (isa<ir::OutputOp>(user))
        continue;
      if (inEpilogue) {
        kernels.insert(end);
        continue;
      }
      bool taken = takesComputed(use);
      // A view whose elements are read more than once repeats the work behind it, unless it is copied.
      if (role(user) == Role::View && repeated.contains(user) && !stored.contains(user))
        taken = readOncePerRow(op);
      if (!taken && role(op) == Role::View)
        repeated.insert(op);
      if (!taken && role(op) != Role::View && role(op) != Role::Inline)
        mustStore = true;
      if (open.contains(op) && role(user) == Role::View && !isa<ir::TransposeOp>(user))
        mustStore = true;
      // A row of several dims is read as one: it must lie in one piece.
      if (role(op) == Role::View && readsSeveralDimsAsOne(user))
        mustStore = true;
      // A root reads through views: what they show must be stored.
      if (readsThroughAddresses(user, use.getOperandNumber())) {
        mustStore |= showsOpenBroadcast(op);
        storeThroughViews(op->getResult(0));
      }
      if (role(user) == Role::Alias && role(op) != Role::Inline)
        mustStore = true;
      if (stored.contains(user))
        kernels.insert(user);
      else
        kernels.insert(kernelsOf[user].begin(), kernelsOf[user].end());
    }
    if (role(op) == Role::Compute && !inEpilogue && kernels.size() > 1)
      mustStore = true;
    // An epilogue reads by strides alone: what it looks up is looked up before.
    if (isa<ir::GatherOp, ir::GatherNDOp, ir::GatherElementsOp>(op) && llvm::any_of(kernels, [&](Operation *kernel) {
          return matmulEnds.contains(kernel) || attentionEnds.contains(kernel);
        }))
      mustStore = true;
    if (role(op) == Role::Alias)
      mustStore = true;
    // An inline value that is looked up, merged or returned is made like any other.
    if (role(op) == Role::Inline)
      for (OpOperand &use : op->getUses())
        if (readsThroughAddresses(use.getOwner(), use.getOperandNumber()) || role(use.getOwner()) == Role::Alias)
          mustStore = true;
    if (mustStore)
      stored.insert(op);
    if (role(op) == Role::Alias)
      storeThroughViews(op->getResult(0));
    // A view that is returned, or looked at through an alias, is copied by a kernel of its own.
    if (stored.contains(op)) {
      kernels.clear();
      kernels.insert(op);
    }
  }
}

/// Cuts chains that have become too long, nearest to the sources first.
void KernelFormer::limitChains() {
  struct Work {
    unsigned ops = 1, reads = 0;
    bool isTooMuch() const { return ops > kMaxChain || reads > kMaxReads; }
  };
  DenseMap<Operation *, Work> work;
  auto measure = [&](Operation &op) {
    Work total;
    for (Value operand : op.getOperands()) {
      if (isStored(operand)) {
        ++total.reads;
        continue;
      }
      Work part = work.lookup(operand.getDefiningOp());
      total.ops += part.ops;
      total.reads += part.reads;
    }
    return total;
  };
  for (Operation &op : graph.getBody().front().without_terminator()) {
    if (role(&op) == Role::Source)
      continue;
    Work total = measure(op);
    if (total.isTooMuch()) {
      if (role(&op) == Role::Compute && !chainEnd.count(&op))
        stored.insert(&op);
      else
        for (Value operand : op.getOperands())
          if (Operation *producer = operand.getDefiningOp();
              producer && !isStored(operand) && role(producer) == Role::Compute && !chainEnd.count(producer))
            stored.insert(producer);
      total = measure(op);
    }
    work[&op] = total;
  }
}

ir::KernelFamily KernelFormer::familyOf(Operation *op) {
  if (matmulEnds.contains(op))
    return ir::KernelFamily::Matmul;
  if (attentionEnds.contains(op))
    return ir::KernelFamily::Attention;
  if (isa<ir::ReduceOp>(op))
    return ir::KernelFamily::Reduce;
  if (isa<ir::SoftmaxOp, ir::LogSoftmaxOp, ir::LayerNormOp, ir::RmsNormOp>(op))
    return ir::KernelFamily::Rows;
  if (isa<ir::CumSumOp>(op))
    return ir::KernelFamily::Scan;
  return ir::KernelFamily::Loops;
}

void KernelFormer::build() {
  SmallVector<Operation *> order;
  // Numbers of our own: the block's order is found anew after every op that is inserted.
  DenseMap<Operation *, size_t> position;
  for (Operation &op : graph.getBody().front().without_terminator()) {
    position[&op] = order.size();
    order.push_back(&op);
  }

  OpBuilder builder(graph.getContext());
  for (Operation *op : order) {
    if (!stored.contains(op) || role(op) == Role::Alias)
      continue;
    // A reshape of a stored value is the same buffer, whatever its dims do.
    if (auto reshape = dyn_cast<ir::ReshapeOp>(op); reshape && isStored(reshape.getInput()))
      continue;
    // Everything that leads here from stored values, in graph order.
    llvm::SetVector<Operation *> members;
    llvm::SetVector<Value> inputs;
    SmallVector<Operation *> work{op};
    while (!work.empty()) {
      Operation *member = work.pop_back_val();
      if (!members.insert(member))
        continue;
      for (Value operand : member->getOperands()) {
        if (isStored(operand))
          inputs.insert(operand);
        else
          work.push_back(operand.getDefiningOp());
      }
    }
    SmallVector<Operation *> body = members.takeVector();
    llvm::sort(body, [&](Operation *a, Operation *b) { return position.lookup(a) < position.lookup(b); });
    // Inputs in the order the body uses them, so that equal kernels have equal regions.
    llvm::SetVector<Value> ordered;
    for (Operation *member : body)
      for (Value operand : member->getOperands())
        if (inputs.contains(operand))
          ordered.insert(operand);

    builder.setInsertionPoint(op);
    auto kernel = ir::KernelOp::create(builder, op->getLoc(), op->getResultTypes(), familyOf(op), ordered.getArrayRef(),
                                       StringAttr());
    Block &block = kernel.getBody().emplaceBlock();
    IRMapping mapping;
    for (Value input : ordered)
      mapping.map(input, block.addArgument(input.getType(), input.getLoc()));
    OpBuilder inner = OpBuilder::atBlockEnd(&block);
    for (Operation *member : body)
      inner.clone(*member, mapping);
    ir::YieldOp::create(inner, op->getLoc(), ValueRange{mapping.lookup(op->getResult(0))});
    op->getResult(0).replaceUsesWithIf(kernel.getResult(0),
                                       [&](OpOperand &use) { return use.getOwner()->getBlock() != &block; });
  }
  // What no kernel and no output reads any more is gone.
  for (Operation *op : llvm::reverse(order))
    if (op->use_empty() && !isa<ir::KernelOp>(op))
      op->erase();
}

Status KernelFormer::run() {
  // What nobody reads is no kernel. (Its requirements were asked: they are the graph's.)
  SmallVector<Operation *> all(llvm::make_pointer_range(graph.getBody().front().without_terminator()));
  for (Operation *op : llvm::reverse(all))
    if (op->use_empty())
      op->erase();
  if (Status status = askInnermost(); !status)
    return status;
  graph.getBody().walk([&](Operation *op) { roles[op] = classify(op); });
  growAttention();
  growEpilogues();
  findOpenBroadcasts();
  decideStored();
  limitChains();
  build();
  return Status::ok();
}

struct FormKernels : impl::FormKernelsBase<FormKernels> {
  void runOnOperation() override {
    ir::GraphOp graph = getOperation();
    Binding binding = graph.getBinding();
    for (ir::DimDeclAttr dim : graph.getDimDecls())
      if (!dim.getBound()) {
        graph.emitError() << "dim '" << dim.getName() << "' has no size: run rlx-bind-dims first";
        return signalPassFailure();
      }
    for (auto kernel : graph.getBody().getOps<ir::KernelOp>()) {
      kernel.emitError() << nodeName(kernel) << ": the graph has kernels already; rlx-form-kernels makes all of them";
      return signalPassFailure();
    }
    // Earlier questions come first in the trail: ask them again of fresh facts.
    SizeAccessor sizes(declaredFacts(graph), binding);
    Status status = askFirstQuestions(graph, sizes);
    if (status)
      status = KernelFormer(graph, sizes).run();
    if (!status) {
      graph.emitError() << status.error().message;
      return signalPassFailure();
    }
    recordQuestions(graph, sizes.trail());
  }
};

} // namespace
} // namespace rlx::codegen
