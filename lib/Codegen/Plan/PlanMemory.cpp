//===- PlanMemory.cpp - which buffer each kernel writes -------------------===//

#include "rlx/Codegen/Plan/Passes.h"
#include "rlx/Codegen/Plan/PlanBuffers.h"

#include "mlir/IR/Builders.h"

namespace rlx::codegen {
#define GEN_PASS_DEF_PLANMEMORY
#include "rlx/Codegen/Plan/Passes.h.inc"
} // namespace rlx::codegen

using namespace mlir;

namespace rlx::codegen {

namespace {
constexpr llvm::StringLiteral kBuffers = "rlx.buffers";
}

Value storedValue(Value value) {
  while (auto reshape = value.getDefiningOp<ir::ReshapeOp>())
    value = reshape.getInput();
  return value;
}

std::optional<BufferPlan> bufferPlan(ir::KernelOp kernel, unsigned result) {
  auto buffers = kernel->getAttrOfType<ArrayAttr>(kBuffers);
  if (!buffers || result >= buffers.size())
    return std::nullopt;
  auto entry = dyn_cast<DictionaryAttr>(buffers[result]);
  if (!entry)
    return std::nullopt;
  auto number = [&](StringRef key) {
    auto attr = entry.getAs<IntegerAttr>(key);
    return attr ? std::optional<int64_t>(attr.getInt()) : std::nullopt;
  };
  BufferPlan plan;
  plan.output = number("output");
  std::optional<int64_t> first = number("first"), last = number("last");
  if (!plan.output && (!first || !last))
    return std::nullopt;
  plan.first = first.value_or(0);
  plan.last = last.value_or(0);
  return plan;
}

namespace {

struct PlanMemory : impl::PlanMemoryBase<PlanMemory> {
  void runOnOperation() override {
    ir::GraphOp graph = getOperation();
    SmallVector<ir::KernelOp> kernels;
    DenseMap<Operation *, int64_t> number;
    for (Operation &op : graph.getBody().front().without_terminator())
      if (auto kernel = dyn_cast<ir::KernelOp>(op)) {
        number[kernel] = kernels.size();
        kernels.push_back(kernel);
      }

    // The first graph output that is this value is written in place; further ones are copied at the end of the run.
    DenseMap<Value, int64_t> outputOf;
    for (auto [i, value] : llvm::enumerate(graph.getBody().front().getTerminator()->getOperands()))
      outputOf.try_emplace(storedValue(value), i);
    DenseMap<Value, int64_t> lastUse;
    for (ir::KernelOp kernel : kernels)
      for (Value input : kernel.getInputs())
        lastUse[storedValue(input)] = number[kernel];

    Builder builder(graph.getContext());
    for (ir::KernelOp kernel : kernels) {
      SmallVector<Attribute> buffers;
      for (Value result : kernel.getResults()) {
        SmallVector<NamedAttribute> entry;
        if (auto it = outputOf.find(result); it != outputOf.end()) {
          entry.push_back(builder.getNamedAttr("output", builder.getI64IntegerAttr(it->second)));
        } else {
          int64_t first = number[kernel];
          int64_t last = lastUse.count(result) ? lastUse[result] : first;
          entry.push_back(builder.getNamedAttr("first", builder.getI64IntegerAttr(first)));
          entry.push_back(builder.getNamedAttr("last", builder.getI64IntegerAttr(last)));
        }
        buffers.push_back(builder.getDictionaryAttr(entry));
      }
      kernel->setAttr(kBuffers, builder.getArrayAttr(buffers));
    }
  }
};

} // namespace
} // namespace rlx::codegen
