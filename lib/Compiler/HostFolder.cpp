//===- HostFolder.cpp - folding by running the host kernels ---------------===//

#include "HostFolder.h"

#include "KernelRequests.h"
#include "Session.h"

#include "rlx/Codegen/Plan/EmitPlan.h"
#include "rlx/Codegen/Plan/Passes.h"
#include "rlx/Dialect/RLX/IR/ElementData.h"
#include "rlx/Dialect/RLX/IR/TensorShape.h"
#include "rlx/Runtime/Engine.h"
#include "rlx/Runtime/Executable.h"
#include "rlx/Transforms/Passes.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Verifier.h"

using namespace mlir;

namespace rlx::compiler {

namespace {

/// The compiler of a graph that has been planned already.
class PlannedCompiler : public CompilerInterface {
public:
  explicit PlannedCompiler(std::unique_ptr<data::PlanTemplateT> plan) : plan(std::move(plan)) {}

  Result<SpecializeReply> specialize(const Binding &) override {
    if (!plan)
      return Error{ErrorCode::Internal, "a planned graph has one template"};
    SpecializeReply reply;
    reply.plan = std::move(plan);
    return reply;
  }
  Result<std::vector<data::KernelImageT>> compileKernels(std::span<const data::KernelSpecT> specs, ThreadPool &pool,
                                                         PhaseTimes &times) override {
    return compileKernelBatch(specs, pool, times, {});
  }
  std::string target() const override { return kernelTarget(); }

private:
  std::unique_ptr<data::PlanTemplateT> plan;
};

/// A module with one graph that applies a copy of `op` to its inputs.
OwningOpRef<ModuleOp> moduleOfOne(Operation *op) {
  OpBuilder builder(op->getContext());
  OwningOpRef<ModuleOp> module = ModuleOp::create(op->getLoc());
  builder.setInsertionPointToEnd(module->getBody());
  auto graph = ir::GraphOp::create(builder, op->getLoc(), "fold",
                                   builder.getFunctionType(op->getOperandTypes(), op->getResultTypes()));
  Block &block = graph.getBody().empty() ? graph.getBody().emplaceBlock() : graph.getBody().front();
  IRMapping mapping;
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    Value argument =
        i < block.getNumArguments() ? block.getArgument(i) : block.addArgument(operand.getType(), op->getLoc());
    // One op may take a value twice: each operand has its own input.
    mapping.map(operand, argument);
  }
  builder.setInsertionPointToEnd(&block);
  Operation *copy = builder.clone(*op, mapping);
  for (unsigned i = 0; i < op->getNumOperands(); ++i)
    copy->setOperand(i, block.getArgument(i));
  ir::OutputOp::create(builder, op->getLoc(), copy->getResults());
  return module;
}

} // namespace

HostFolder::HostFolder() {
  // Constants are small: threads would cost more than they gain.
  EngineOptions options;
  options.threads = 1;
  if (Result<std::shared_ptr<Engine>> made = Engine::create(std::move(options)))
    engine = std::move(*made);
}

HostFolder::~HostFolder() = default;

FailureOr<SmallVector<DenseElementsAttr>> HostFolder::fold(Operation *op, ArrayRef<DenseElementsAttr> operands) {
  if (!engine)
    return failure();
  for (Type type : op->getOperandTypes())
    if (!cast<RankedTensorType>(type).hasStaticShape())
      return failure();
  for (Type type : op->getResultTypes())
    if (!cast<RankedTensorType>(type).hasStaticShape())
      return failure();

  OwningOpRef<ModuleOp> module = moduleOfOne(op);
  PassManager manager(module->getContext());
  manager.addNestedPass<ir::GraphOp>(transforms::createDecompose());
  if (failed(codegen::buildLowerHostPipeline(manager, {})))
    return failure();
  if (!runPasses(manager, *module, ErrorCode::Internal))
    return failure();
  Result<ir::GraphOp> graph = onlyGraph(*module);
  if (!graph)
    return failure();
  Result<std::unique_ptr<data::PlanTemplateT>> plan = codegen::emitPlan(*graph);
  Result<data::ModelSignatureT> signature = codegen::emitSignature(*graph);
  if (!plan || !signature)
    return failure();
  Result<std::shared_ptr<const Model>> model =
      Model::create(std::move(*signature), nullptr, std::make_shared<PlannedCompiler>(std::move(*plan)));
  if (!model)
    return failure();
  Result<std::shared_ptr<Executable>> executable = Executable::create(engine, *model);
  if (!executable)
    return failure();

  std::vector<std::vector<uint8_t>> bytes;
  std::vector<NamedTensor> inputs;
  for (auto [i, value] : llvm::enumerate(operands))
    bytes.push_back(ir::bytesOf(value));
  for (auto [i, value] : llvm::enumerate(operands)) {
    TensorView view;
    view.type = *ir::toElementType(value.getElementType());
    view.shape = value.getType().getShape();
    view.data = bytes[i].data();
    view.bytes = bytes[i].size();
    inputs.push_back({(*model)->signature().inputs[i]->name, view});
  }
  Result<std::vector<Tensor>> outputs = (*executable)->run(inputs);
  if (!outputs)
    return failure();
  SmallVector<DenseElementsAttr> results;
  for (auto [type, tensor] : llvm::zip_equal(op->getResultTypes(), *outputs)) {
    auto tensorType = cast<RankedTensorType>(type);
    results.push_back(
        ir::elementsFromBytes(RankedTensorType::get(tensorType.getShape(), tensorType.getElementType()),
                              ArrayRef<uint8_t>(static_cast<const uint8_t *>(tensor.data()), tensor.bytes())));
  }
  return results;
}

} // namespace rlx::compiler
