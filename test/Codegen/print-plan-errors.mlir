// RUN: split-file %s %t
// RUN: not rlx-opt %t/family.mlir --rlx-lower-host --rlx-print-plan 2>&1 | FileCheck %t/family.mlir
// RUN: not rlx-opt %t/memory.mlir --rlx-form-kernels --rlx-print-plan 2>&1 | FileCheck %t/memory.mlir
// RUN: not rlx-opt %t/kernels.mlir --rlx-print-plan 2>&1 | FileCheck %t/kernels.mlir
// RUN: not rlx-opt %t/issue-reduce.mlir --rlx-print-plan 2>&1 | FileCheck %t/issue-reduce.mlir
// RUN: not rlx-opt %t/issue-matmul.mlir --rlx-print-plan 2>&1 | FileCheck %t/issue-matmul.mlir

//--- family.mlir
// An op that rlx-decompose should have taken apart.
// CHECK: error: {{.*}}'rlx.attention' has no kernel family
rlx.graph @family(%q: tensor<2x4x8xf32>) -> tensor<2x4x8xf32> {
  %0 = rlx.attention %q, %q, %q scale 1.0 : tensor<2x4x8xf32>, tensor<2x4x8xf32>, tensor<2x4x8xf32> -> tensor<2x4x8xf32>
  rlx.output %0 : tensor<2x4x8xf32>
}

//--- memory.mlir
// CHECK: error: node 'rlx.exp' has no buffer: run rlx-plan-memory first
rlx.graph @memory(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = rlx.exp %x : tensor<4xf32> -> tensor<4xf32>
  rlx.output %0 : tensor<4xf32>
}

//--- kernels.mlir
// CHECK: error: node 'rlx.exp': 'rlx.exp' is not part of a kernel: run rlx-form-kernels first
rlx.graph @kernels(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = rlx.exp %x : tensor<4xf32> -> tensor<4xf32>
  rlx.output %0 : tensor<4xf32>
}

//--- issue-reduce.mlir
// A kernel's family is not believed.
// CHECK: error: node 'rlx.exp': not what a kernel of family 'reduce' is built around
rlx.graph @g(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = rlx.kernel reduce(%x) attributes {rlx.buffers = [{output = 0 : i64}]} {
  ^bb0(%a: tensor<4xf32>):
    %1 = rlx.exp %a : tensor<4xf32> -> tensor<4xf32>
    rlx.yield %1 : tensor<4xf32>
  } : (tensor<4xf32>) -> tensor<4xf32>
  rlx.output %0 : tensor<4xf32>
}

//--- issue-matmul.mlir
// A kernel's family is not believed.
// CHECK: error: node 'rlx.exp': not what a kernel of family 'matmul' is built around
rlx.graph @g(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = rlx.kernel matmul(%x) attributes {rlx.buffers = [{output = 0 : i64}]} {
  ^bb0(%a: tensor<4xf32>):
    %1 = rlx.exp %a : tensor<4xf32> -> tensor<4xf32>
    rlx.yield %1 : tensor<4xf32>
  } : (tensor<4xf32>) -> tensor<4xf32>
  rlx.output %0 : tensor<4xf32>
}
