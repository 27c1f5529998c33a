// A worked example: bind, sync and dedupe on ten lines of IR.
// RUN: rlx-opt %s --rlx-bind-dims=dims=B=2,S=16 --rlx-sync-shapes --rlx-dedupe-constants | FileCheck %s

// CHECK-LABEL: rlx.graph @main
// CHECK-SAME: %[[X:.*]]: tensor<2x16x4xf32, #rlx.dims<[B, S, 4]>>
// CHECK-SAME: -> tensor<2x16x8xf32, #rlx.dims<[B, S, 8]>>
// CHECK-NEXT: %[[W:.*]] = rlx.weight "w" : tensor<4x8xf32>
// CHECK-NEXT: %[[C:.*]] = rlx.constant dense<5.000000e-01> : tensor<f32>
// CHECK-NEXT: %[[M:.*]] = rlx.mul %[[X]], %[[C]] : {{.*}} -> tensor<2x16x4xf32, #rlx.dims<[B, S, 4]>>
// CHECK-NEXT: %[[P:.*]] = rlx.matmul %[[M]], %[[W]] : {{.*}} -> tensor<2x16x8xf32, #rlx.dims<[B, S, 8]>>
// CHECK-NEXT: %[[A:.*]] = rlx.add %[[P]], %[[C]] : {{.*}} -> tensor<2x16x8xf32, #rlx.dims<[B, S, 8]>>
// CHECK-NEXT: rlx.output %[[A]]
rlx.graph @main(%x: tensor<?x?x4xf32, #rlx.dims<[B, S, 4]>>) -> tensor<?x?x8xf32, #rlx.dims<[B, S, 8]>>
    attributes {dims = [#rlx.dim<"B">, #rlx.dim<"S">]} {
  %w = rlx.weight "w" : tensor<4x8xf32>
  %a = rlx.constant dense<0.5> : tensor<f32>
  %b = rlx.constant dense<0.5> : tensor<f32>
  %0 = rlx.mul %x, %a : tensor<?x?x4xf32, #rlx.dims<[B, S, 4]>>, tensor<f32> -> tensor<?x?x4xf32, #rlx.dims<[B, S, 4]>>
  %1 = rlx.matmul %0, %w : tensor<?x?x4xf32, #rlx.dims<[B, S, 4]>>, tensor<4x8xf32> -> tensor<?x?x8xf32>
  %2 = rlx.add %1, %b : tensor<?x?x8xf32>, tensor<f32> -> tensor<?x?x8xf32>
  rlx.output %2 : tensor<?x?x8xf32>
}
