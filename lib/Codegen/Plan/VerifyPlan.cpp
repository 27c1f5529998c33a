//===- VerifyPlan.cpp - does a graph hold kernels only? -------------------===//

#include "rlx/Codegen/Plan/Passes.h"
#include "rlx/Codegen/Plan/PlanBuffers.h"
#include "rlx/Codegen/Plan/Questions.h"

namespace rlx::codegen {
#define GEN_PASS_DEF_VERIFYPLAN
#include "rlx/Codegen/Plan/Passes.h.inc"
} // namespace rlx::codegen

using namespace mlir;

namespace rlx::codegen {
namespace {

struct VerifyPlan : impl::VerifyPlanBase<VerifyPlan> {
  using VerifyPlanBase::VerifyPlanBase;

  void runOnOperation() override {
    if (failed(checkKernels()) || (memory && failed(checkMemory())))
      return signalPassFailure();
    markAllAnalysesPreserved();
  }

private:
  LogicalResult checkKernels() {
    for (Operation &op : getOperation().getBody().front().without_terminator()) {
      if (auto kernel = dyn_cast<ir::KernelOp>(op)) {
        if (kernel->getNumResults() == 1)
          continue;
        InFlightDiagnostic diagnostic = op.emitError()
                                        << nodeName(&op) << ": a kernel of " << kernel->getNumResults() << " results";
        diagnostic.attachNote() << "rlx-form-kernels makes kernels of one result";
        return diagnostic;
      }
      if (isa<ir::WeightOp, ir::ParamOp, ir::ConstantOp, ir::ReshapeOp>(op))
        continue;
      InFlightDiagnostic diagnostic = op.emitError() << nodeName(&op) << ": '" << op.getName().getStringRef()
                                                     << "' is not part of a kernel";
      diagnostic.attachNote() << "rlx-form-kernels puts it into one";
      return diagnostic;
    }
    return success();
  }

  LogicalResult checkMemory() {
    DenseMap<Value, BufferPlan> planOf;
    llvm::SmallDenseSet<int64_t> written;
    int64_t number = 0;
    for (auto kernel : getOperation().getBody().getOps<ir::KernelOp>()) {
      for (Value input : kernel.getInputs()) {
        auto it = planOf.find(storedValue(input));
        if (it == planOf.end() || it->second.output || it->second.last >= number)
          continue;
        InFlightDiagnostic diagnostic = kernel.emitError()
                                        << nodeName(kernel) << ": kernel " << number << " reads a buffer that is free";
        diagnostic.attachNote() << "it lives from kernel " << it->second.first << " to kernel " << it->second.last;
        return diagnostic;
      }
      std::optional<BufferPlan> plan = bufferPlan(kernel, 0);
      if (!plan) {
        InFlightDiagnostic diagnostic = kernel.emitError() << nodeName(kernel) << ": the kernel has no buffer";
        diagnostic.attachNote() << "rlx-plan-memory gives it one";
        return diagnostic;
      }
      if (plan->output && !written.insert(*plan->output).second)
        return kernel.emitError() << nodeName(kernel) << ": output " << *plan->output << " is written twice";
      planOf[kernel.getResult(0)] = *plan;
      ++number;
    }
    return success();
  }
};

} // namespace
} // namespace rlx::codegen
