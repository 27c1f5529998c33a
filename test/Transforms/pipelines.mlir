// RUN: rlx-opt %s --rlx-prepare | FileCheck %s --check-prefix=PREPARED
// RUN: rlx-opt %s --rlx-prepare=until=infer | FileCheck %s --check-prefix=INFERRED
// RUN: rlx-opt %s --rlx-prepare=until=clean | FileCheck %s --check-prefix=CLEAN
// RUN: rlx-opt %s --rlx-prepare=until=recognise | FileCheck %s --check-prefix=RECOGNISED
// RUN: rlx-opt %s --rlx-prepare --rlx-specialize=dims=x_0=2,x_1=16 | FileCheck %s --check-prefix=BOUND
// RUN: rlx-opt %s --rlx-prepare --rlx-specialize="dims=x_0=2 until=bind" | FileCheck %s --check-prefix=PARTIAL
// RUN: not rlx-opt %s --rlx-prepare --rlx-specialize=dims=x_0=2 2>&1 | FileCheck %s --check-prefix=NOT-STATIC
// RUN: not rlx-opt %s --rlx-prepare=until=later 2>&1 | FileCheck %s --check-prefix=NO-STAGE

// A graph as a file gives it: no names, a constant twice, GELU spelled out, shape arithmetic as ops.

// INFERRED: rlx.constant
// INFERRED: rlx.constant
// INFERRED: rlx.erf {{.*}} -> tensor<?x?x8xf32, #rlx.dims<[x_0, x_1, 8]>>

// CLEAN-COUNT-1: dense<1.000000e+00>
// CLEAN-NOT: dense<1.000000e+00>
// CLEAN: rlx.erf

// RECOGNISED-NOT: rlx.erf
// RECOGNISED: rlx.gelu

// PREPARED-LABEL: rlx.graph @main
// PREPARED-SAME: dims = [#rlx.dim<"x_0">, #rlx.dim<"x_1">]
// PREPARED-NEXT: %[[G:.*]] = rlx.gelu %arg0 : tensor<?x?x8xf32, #rlx.dims<[x_0, x_1, 8]>>
// PREPARED-NEXT: rlx.output %[[G]]

// BOUND: rlx.gelu %arg0 : tensor<2x16x8xf32, #rlx.dims<[x_0, x_1, 8]>> -> tensor<2x16x8xf32, #rlx.dims<[x_0, x_1, 8]>>
// PARTIAL: rlx.gelu %arg0 : tensor<2x?x8xf32, #rlx.dims<[x_0, x_1, 8]>>

// NOT-STATIC: error: {{.*}}has no size
// NOT-STATIC: note: {{.*}}dim 'x_1' is not bound

// NO-STAGE: rlx-prepare: no stage 'later'; stages are infer, clean, recognise, decompose

rlx.graph @main(%x: tensor<?x?x8xf32> {rlx.name = "x"}) -> tensor<?x?x8xf32> {
  %root2 = rlx.constant dense<1.41421354> : tensor<f32>
  %one = rlx.constant dense<1.0> : tensor<f32>
  %again = rlx.constant dense<1.0> : tensor<f32>
  %half = rlx.constant dense<0.5> : tensor<f32>
  %0 = rlx.div %x, %root2 : tensor<?x?x8xf32>, tensor<f32> -> tensor<?x?x8xf32>
  %1 = rlx.erf %0 : tensor<?x?x8xf32> -> tensor<?x?x8xf32>
  %2 = rlx.add %1, %one : tensor<?x?x8xf32>, tensor<f32> -> tensor<?x?x8xf32>
  %3 = rlx.mul %x, %2 : tensor<?x?x8xf32>, tensor<?x?x8xf32> -> tensor<?x?x8xf32>
  %4 = rlx.mul %3, %half : tensor<?x?x8xf32>, tensor<f32> -> tensor<?x?x8xf32>
  %5 = rlx.mul %4, %again : tensor<?x?x8xf32>, tensor<f32> -> tensor<?x?x8xf32>
  rlx.output %5 : tensor<?x?x8xf32>
}
