// RUN: rlx-opt %s --rlx-simplify | FileCheck %s

// Batch and heads merged around every product, as BART, OPT and CLIP are exported: the merges go behind the products and
// the softmax, and cancel with the splits.
// CHECK-LABEL: rlx.graph @bart
// CHECK: %[[Q:.*]] = rlx.transpose %{{.*}} permutation [0, 2, 1, 3]
// CHECK: %[[V:.*]] = rlx.transpose %{{.*}} permutation [0, 2, 1, 3]
// CHECK: %[[K:.*]] = rlx.transpose %{{.*}} permutation [0, 2, 3, 1]
// CHECK: %[[S:.*]] = rlx.matmul %[[Q]], %[[K]]
// CHECK: %[[M:.*]] = rlx.add %[[S]], %arg3
// CHECK: %[[P:.*]] = rlx.softmax %[[M]] axis 3
// CHECK: %[[R:.*]] = rlx.matmul %[[P]], %[[V]]
// CHECK-NOT: rlx.reshape
// CHECK: rlx.transpose %[[R]] permutation [0, 2, 1, 3]
rlx.graph @bart(%q: tensor<?x?x16x64xf32, #rlx.dims<[B, S, 16, 64]>>, %k: tensor<?x?x16x64xf32, #rlx.dims<[B, S, 16, 64]>>,
                %v: tensor<?x?x16x64xf32, #rlx.dims<[B, S, 16, 64]>>, %mask: tensor<?x1x?x?xf32, #rlx.dims<[B, 1, S, S]>>)
    -> tensor<?x?x16x64xf32, #rlx.dims<[B, S, 16, 64]>> attributes {dims = [#rlx.dim<"B">, #rlx.dim<"S">]} {
  %0 = rlx.transpose %q permutation [0, 2, 1, 3] : tensor<?x?x16x64xf32, #rlx.dims<[B, S, 16, 64]>> -> tensor<?x16x?x64xf32, #rlx.dims<[B, 16, S, 64]>>
  %1 = rlx.transpose %k permutation [0, 2, 1, 3] : tensor<?x?x16x64xf32, #rlx.dims<[B, S, 16, 64]>> -> tensor<?x16x?x64xf32, #rlx.dims<[B, 16, S, 64]>>
  %2 = rlx.transpose %v permutation [0, 2, 1, 3] : tensor<?x?x16x64xf32, #rlx.dims<[B, S, 16, 64]>> -> tensor<?x16x?x64xf32, #rlx.dims<[B, 16, S, 64]>>
  %3 = rlx.reshape %0 : tensor<?x16x?x64xf32, #rlx.dims<[B, 16, S, 64]>> -> tensor<?x?x64xf32, #rlx.dims<[16 * B, S, 64]>>
  %4 = rlx.reshape %1 : tensor<?x16x?x64xf32, #rlx.dims<[B, 16, S, 64]>> -> tensor<?x?x64xf32, #rlx.dims<[16 * B, S, 64]>>
  %5 = rlx.reshape %2 : tensor<?x16x?x64xf32, #rlx.dims<[B, 16, S, 64]>> -> tensor<?x?x64xf32, #rlx.dims<[16 * B, S, 64]>>
  %6 = rlx.transpose %4 permutation [0, 2, 1] : tensor<?x?x64xf32, #rlx.dims<[16 * B, S, 64]>> -> tensor<?x64x?xf32, #rlx.dims<[16 * B, 64, S]>>
  %7 = rlx.matmul %3, %6 : tensor<?x?x64xf32, #rlx.dims<[16 * B, S, 64]>>, tensor<?x64x?xf32, #rlx.dims<[16 * B, 64, S]>> -> tensor<?x?x?xf32, #rlx.dims<[16 * B, S, S]>>
  %8 = rlx.reshape %7 : tensor<?x?x?xf32, #rlx.dims<[16 * B, S, S]>> -> tensor<?x16x?x?xf32, #rlx.dims<[B, 16, S, S]>>
  %9 = rlx.add %8, %mask : tensor<?x16x?x?xf32, #rlx.dims<[B, 16, S, S]>>, tensor<?x1x?x?xf32, #rlx.dims<[B, 1, S, S]>> -> tensor<?x16x?x?xf32, #rlx.dims<[B, 16, S, S]>>
  %10 = rlx.reshape %9 : tensor<?x16x?x?xf32, #rlx.dims<[B, 16, S, S]>> -> tensor<?x?x?xf32, #rlx.dims<[16 * B, S, S]>>
  %11 = rlx.softmax %10 axis 2 : tensor<?x?x?xf32, #rlx.dims<[16 * B, S, S]>> -> tensor<?x?x?xf32, #rlx.dims<[16 * B, S, S]>>
  %12 = rlx.matmul %11, %5 : tensor<?x?x?xf32, #rlx.dims<[16 * B, S, S]>>, tensor<?x?x64xf32, #rlx.dims<[16 * B, S, 64]>> -> tensor<?x?x64xf32, #rlx.dims<[16 * B, S, 64]>>
  %13 = rlx.reshape %12 : tensor<?x?x64xf32, #rlx.dims<[16 * B, S, 64]>> -> tensor<?x16x?x64xf32, #rlx.dims<[B, 16, S, 64]>>
  %14 = rlx.transpose %13 permutation [0, 2, 1, 3] : tensor<?x16x?x64xf32, #rlx.dims<[B, 16, S, 64]>> -> tensor<?x?x16x64xf32, #rlx.dims<[B, S, 16, 64]>>
  rlx.output %14 : tensor<?x?x16x64xf32, #rlx.dims<[B, S, 16, 64]>>
}

// Operands whose batches were other dims before the merge stay merged.
// CHECK-LABEL: rlx.graph @other_dims
// CHECK: rlx.matmul {{.*}} tensor<12x3x5xf32>
rlx.graph @other_dims(%a: tensor<2x6x3x4xf32>, %b: tensor<3x4x4x5xf32>) -> tensor<12x3x5xf32> {
  %0 = rlx.reshape %a : tensor<2x6x3x4xf32> -> tensor<12x3x4xf32>
  %1 = rlx.reshape %b : tensor<3x4x4x5xf32> -> tensor<12x4x5xf32>
  %2 = rlx.matmul %0, %1 : tensor<12x3x4xf32>, tensor<12x4x5xf32> -> tensor<12x3x5xf32>
  rlx.output %2 : tensor<12x3x5xf32>
}

// A reshape that is no merge of whole leading dims, and one operand alone.
// CHECK-LABEL: rlx.graph @no_merge
// CHECK: rlx.matmul {{.*}} tensor<2x3x5xf32>
// CHECK: rlx.matmul {{.*}} tensor<12x3x5xf32>
rlx.graph @no_merge(%a: tensor<2x3x2x2xf32>, %b: tensor<2x2x2x5xf32>, %c: tensor<2x6x3x4xf32>, %d: tensor<12x4x5xf32>)
    -> (tensor<2x3x5xf32>, tensor<12x3x5xf32>) {
  %0 = rlx.reshape %a : tensor<2x3x2x2xf32> -> tensor<2x3x4xf32>
  %1 = rlx.reshape %b : tensor<2x2x2x5xf32> -> tensor<2x4x5xf32>
  %2 = rlx.matmul %0, %1 : tensor<2x3x4xf32>, tensor<2x4x5xf32> -> tensor<2x3x5xf32>
  %3 = rlx.reshape %c : tensor<2x6x3x4xf32> -> tensor<12x3x4xf32>
  %4 = rlx.matmul %3, %d : tensor<12x3x4xf32>, tensor<12x4x5xf32> -> tensor<12x3x5xf32>
  rlx.output %2, %4 : tensor<2x3x5xf32>, tensor<12x3x5xf32>
}

// A softmax along another axis does not move.
// CHECK-LABEL: rlx.graph @other_axis
// CHECK: rlx.softmax {{.*}} axis 1 : tensor<12x3x4xf32>
rlx.graph @other_axis(%a: tensor<2x6x3x4xf32>) -> tensor<12x3x4xf32> {
  %0 = rlx.reshape %a : tensor<2x6x3x4xf32> -> tensor<12x3x4xf32>
  %1 = rlx.softmax %0 axis 1 : tensor<12x3x4xf32> -> tensor<12x3x4xf32>
  rlx.output %1 : tensor<12x3x4xf32>
}
