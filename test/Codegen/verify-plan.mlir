// RUN: rlx-opt %s --rlx-form-kernels --rlx-verify-plan | FileCheck %s
// RUN: rlx-opt %s --rlx-form-kernels --rlx-plan-memory --rlx-verify-plan=memory | FileCheck %s
// RUN: not rlx-opt %s --rlx-verify-plan 2>&1 | FileCheck %s --check-prefix=GRAPH
// RUN: not rlx-opt %s --rlx-form-kernels --rlx-verify-plan=memory 2>&1 | FileCheck %s --check-prefix=MEMORY

// CHECK-LABEL: rlx.graph @scale
// CHECK: rlx.kernel loops
// GRAPH: error: {{.*}}'rlx.exp' is not part of a kernel
// GRAPH: note: rlx-form-kernels puts it into one
// MEMORY: error: {{.*}}the kernel has no buffer
// MEMORY: note: rlx-plan-memory gives it one
rlx.graph @scale(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %0 = rlx.exp %x : tensor<2x4xf32> -> tensor<2x4xf32>
  rlx.output %0 : tensor<2x4xf32>
}
