// RUN: rlx-opt %s --rlx-decompose --split-input-file | FileCheck %s --implicit-check-not=rlx.attention

// CHECK-LABEL: rlx.graph @masked
// CHECK-SAME: (%[[Q:[^:]*]]: {{.*}}, %[[K:[^:]*]]: {{.*}}, %[[V:[^:]*]]: {{.*}}, %[[M:[^:]*]]: tensor<?x1x1x?xf32, #rlx.dims<[B, 1, 1, T]>>)
// CHECK: %[[KT:.*]] = rlx.transpose %[[K]] permutation [0, 1, 3, 2] : {{.*}} -> tensor<?x12x32x?xf32, #rlx.dims<[B, 12, 32, T]>>
// CHECK: %[[S:.*]] = rlx.matmul %[[Q]], %[[KT]] : {{.*}} -> tensor<?x12x?x?xf32, #rlx.dims<[B, 12, S, T]>>
// CHECK: %[[C:.*]] = rlx.constant dense<1.250000e-01> : tensor<f32>
// CHECK: %[[X:.*]] = rlx.mul %[[S]], %[[C]]
// CHECK: %[[A:.*]] = rlx.add %[[X]], %[[M]]
// CHECK: %[[P:.*]] = rlx.softmax %[[A]] axis 3
// CHECK: %[[R:.*]] = rlx.matmul %[[P]], %[[V]] : {{.*}} -> tensor<?x12x?x64xf32, #rlx.dims<[B, 12, S, 64]>>
// CHECK: rlx.output %[[R]]
rlx.graph @masked(%q: tensor<?x12x?x32xf32, #rlx.dims<[B, 12, S, 32]>>, %k: tensor<?x12x?x32xf32, #rlx.dims<[B, 12, T, 32]>>,
                  %v: tensor<?x12x?x64xf32, #rlx.dims<[B, 12, T, 64]>>, %m: tensor<?x1x1x?xf32, #rlx.dims<[B, 1, 1, T]>>)
    -> tensor<?x12x?x64xf32, #rlx.dims<[B, 12, S, 64]>>
    attributes {dims = [#rlx.dim<"B">, #rlx.dim<"S">, #rlx.dim<"T">]} {
  %0 = rlx.attention %q, %k, %v mask %m : tensor<?x1x1x?xf32, #rlx.dims<[B, 1, 1, T]>> scale 1.250000e-01
    : tensor<?x12x?x32xf32, #rlx.dims<[B, 12, S, 32]>>, tensor<?x12x?x32xf32, #rlx.dims<[B, 12, T, 32]>>,
      tensor<?x12x?x64xf32, #rlx.dims<[B, 12, T, 64]>> -> tensor<?x12x?x64xf32, #rlx.dims<[B, 12, S, 64]>>
  rlx.output %0 : tensor<?x12x?x64xf32, #rlx.dims<[B, 12, S, 64]>>
}

// -----

// Grouped queries: 8 heads over 2 keys are 2 groups of 4. A scale of 1 is no step.
// CHECK-LABEL: rlx.graph @grouped
// CHECK-DAG: %[[Q:.*]] = rlx.reshape %arg0 : tensor<3x8x5x4xf32> -> tensor<3x2x4x5x4xf32>
// CHECK-DAG: %[[K:.*]] = rlx.reshape %arg1 : tensor<3x2x7x4xf32> -> tensor<3x2x1x7x4xf32>
// CHECK-DAG: %[[V:.*]] = rlx.reshape %arg2 : tensor<3x2x7x6xf32> -> tensor<3x2x1x7x6xf32>
// CHECK-DAG: %[[M:.*]] = rlx.reshape %arg3 : tensor<8x5x7xf32> -> tensor<2x4x5x7xf32>
// CHECK: %[[T:.*]] = rlx.transpose %[[K]] permutation [0, 1, 2, 4, 3]
// CHECK-NEXT: %[[S:.*]] = rlx.matmul %[[Q]], %[[T]] : {{.*}} -> tensor<3x2x4x5x7xf32>
// CHECK-NEXT: %[[A:.*]] = rlx.add %[[S]], %[[M]]
// CHECK-NEXT: %[[P:.*]] = rlx.softmax %[[A]] axis 4
// CHECK-NEXT: %[[R:.*]] = rlx.matmul %[[P]], %[[V]] : {{.*}} -> tensor<3x2x4x5x6xf32>
// CHECK-NEXT: %[[O:.*]] = rlx.reshape %[[R]] : tensor<3x2x4x5x6xf32> -> tensor<3x8x5x6xf32>
// CHECK-NEXT: rlx.output %[[O]]
rlx.graph @grouped(%q: tensor<3x8x5x4xf32>, %k: tensor<3x2x7x4xf32>, %v: tensor<3x2x7x6xf32>, %m: tensor<8x5x7xf32>)
    -> tensor<3x8x5x6xf32> {
  %0 = rlx.attention %q, %k, %v mask %m : tensor<8x5x7xf32> scale 1.0
    : tensor<3x8x5x4xf32>, tensor<3x2x7x4xf32>, tensor<3x2x7x6xf32> -> tensor<3x8x5x6xf32>
  rlx.output %0 : tensor<3x8x5x6xf32>
}

// -----

// One key head broadcasts; half precision scales are rounded to it.
// CHECK-LABEL: rlx.graph @one_key
// CHECK-NOT: rlx.reshape
// CHECK: rlx.constant dense<1.768800e-01> : tensor<f16>
// CHECK: rlx.matmul {{.*}} -> tensor<8x5x6xf16>
rlx.graph @one_key(%q: tensor<8x5x4xf16>, %k: tensor<1x7x4xf16>, %v: tensor<1x7x6xf16>) -> tensor<8x5x6xf16> {
  %0 = rlx.attention %q, %k, %v scale 0.17687 : tensor<8x5x4xf16>, tensor<1x7x4xf16>, tensor<1x7x6xf16> -> tensor<8x5x6xf16>
  rlx.output %0 : tensor<8x5x6xf16>
}
