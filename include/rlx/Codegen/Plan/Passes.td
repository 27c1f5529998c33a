//===- Passes.td - from a bound graph to a plan ------------*- tablegen -*-===//
#ifndef RLX_CODEGEN_PLAN_PASSES
#define RLX_CODEGEN_PLAN_PASSES

include "mlir/Pass/PassBase.td"

def FormKernels : Pass<"rlx-form-kernels", "::rlx::ir::GraphOp"> {
  let summary = "Group the ops of a bound graph into kernels.";
  let description = [{
    Before: a bound, synced graph. After: `rlx.kernel` ops, reshapes between them (views of whole buffers), and sources.

    ```mlir
    %0 = rlx.matmul %x, %w            %0 = rlx.kernel matmul(%x, %w, %b) { ^bb0(%a, %c, %d):
    %1 = rlx.add %0, %b         =>          %m = rlx.matmul %a, %c
    rlx.output %1                           %s = rlx.add %m, %d
                                            rlx.yield %s }
                                      rlx.output %0
    ```

    Attention is recognised from its parts: a matmul, elementwise ops on the scores, a softmax along the keys, perhaps
    `select(is_nan(p), 0, p)`, and a matmul with values that are no weights, where nothing else reads what stands in
    between. It is one kernel, with a transpose of its result, and no scores are stored.

    Sizes are read only as expressions. A fact that changes the grouping is asked of the binding and recorded in
    `rlx.guards` of the graph, so that the plan holds for every binding that answers the same. A requirement that fails is
    an error.
  }];
  let dependentDialects = ["::rlx::ir::RLXDialect"];
}

def PlanMemory : Pass<"rlx-plan-memory", "::rlx::ir::GraphOp"> {
  let summary = "Decide which buffer each kernel writes, and how long it lives.";
  let description = [{
    Before: a graph of kernels. After: each kernel carries `rlx.buffers`, one entry a result: `first` and `last`, the numbers of the
    first and last kernel that need it, or `output`, the number of the graph output it is. Offsets are laid out
    later, by number, when the plan meets sizes.
  }];
}

def VerifyPlan : Pass<"rlx-verify-plan", "::rlx::ir::GraphOp"> {
  let summary = "Check that a graph holds kernels only, and say in a note what breaks that.";
  let description = [{
    The contract after `rlx-form-kernels`: outside kernels there are sources (weights, params, constants) and reshapes, and
    a kernel has one result. With `memory`, the contract after `rlx-plan-memory`: each kernel knows its buffer, no buffer
    dies before its last reader, and every graph output that a kernel makes is written in place once.
  }];
  let options = [Option<"memory", "memory", "bool", "false", "Check buffers and lifetimes too">];
}

#endif // RLX_CODEGEN_PLAN_PASSES
