// RUN: rlx-opt %s --rlx-simplify --split-input-file | FileCheck %s

// MiniLM scales queries and keys after it has split them into heads: the scale goes to the projection.
// CHECK-LABEL: rlx.graph @scaled_heads
// CHECK: %[[M:.*]] = rlx.matmul %arg0
// CHECK-NEXT: %[[B:.*]] = rlx.add %[[M]]
// CHECK-NEXT: %[[S:.*]] = rlx.mul %[[B]], %{{.*}} : tensor<?x?x384xf32, #rlx.dims<[B, S, 384]>>, tensor<f32>
// CHECK-NEXT: %[[R:.*]] = rlx.reshape %[[S]]
// CHECK-NEXT: %[[T:.*]] = rlx.transpose %[[R]] permutation [0, 2, 3, 1]
// CHECK-NEXT: rlx.output %[[T]]
rlx.graph @scaled_heads(%x: tensor<?x?x384xf32, #rlx.dims<[B, S, 384]>>) -> tensor<?x12x32x?xf32, #rlx.dims<[B, 12, 32, S]>> attributes {dims = [#rlx.dim<"B">, #rlx.dim<"S">]} {
  %w = rlx.weight "w" : tensor<384x384xf32>
  %b = rlx.weight "b" : tensor<384xf32>
  %c = rlx.constant dense<0.42> : tensor<f32>
  %0 = rlx.matmul %x, %w : tensor<?x?x384xf32, #rlx.dims<[B, S, 384]>>, tensor<384x384xf32> -> tensor<?x?x384xf32, #rlx.dims<[B, S, 384]>>
  %1 = rlx.add %0, %b : tensor<?x?x384xf32, #rlx.dims<[B, S, 384]>>, tensor<384xf32> -> tensor<?x?x384xf32, #rlx.dims<[B, S, 384]>>
  %2 = rlx.reshape %1 : tensor<?x?x384xf32, #rlx.dims<[B, S, 384]>> -> tensor<?x?x12x32xf32, #rlx.dims<[B, S, 12, 32]>>
  %3 = rlx.transpose %2 permutation [0, 2, 3, 1] : tensor<?x?x12x32xf32, #rlx.dims<[B, S, 12, 32]>> -> tensor<?x12x32x?xf32, #rlx.dims<[B, 12, 32, S]>>
  %4 = rlx.mul %3, %c : tensor<?x12x32x?xf32, #rlx.dims<[B, 12, 32, S]>>, tensor<f32> -> tensor<?x12x32x?xf32, #rlx.dims<[B, 12, 32, S]>>
  rlx.output %4 : tensor<?x12x32x?xf32, #rlx.dims<[B, 12, 32, S]>>
}

// -----

// maskseq multiplies flat rows (Gemm) and adds the residual in three dims: the residual is read flat instead.
// CHECK-LABEL: rlx.graph @flat_residual
// CHECK: %[[M:.*]] = rlx.matmul %arg0
// CHECK: %[[B:.*]] = rlx.add %[[M]]
// CHECK: %[[F:.*]] = rlx.reshape %arg1 : tensor<1x64x384xf32> -> tensor<64x384xf32>
// CHECK-NEXT: %[[A:.*]] = rlx.add %[[B]], %[[F]] : tensor<64x384xf32>, tensor<64x384xf32>
// CHECK-NEXT: %[[R:.*]] = rlx.reshape %[[A]] : tensor<64x384xf32> -> tensor<1x64x384xf32>
// CHECK-NEXT: rlx.output %[[R]]
rlx.graph @flat_residual(%x: tensor<64x384xf32>, %r: tensor<1x64x384xf32>) -> tensor<1x64x384xf32> {
  %w = rlx.weight "w" : tensor<384x384xf32>
  %b = rlx.weight "b" : tensor<384xf32>
  %0 = rlx.matmul %x, %w : tensor<64x384xf32>, tensor<384x384xf32> -> tensor<64x384xf32>
  %1 = rlx.add %0, %b : tensor<64x384xf32>, tensor<384xf32> -> tensor<64x384xf32>
  %2 = rlx.reshape %1 : tensor<64x384xf32> -> tensor<1x64x384xf32>
  %3 = rlx.add %2, %r : tensor<1x64x384xf32>, tensor<1x64x384xf32> -> tensor<1x64x384xf32>
  rlx.output %3 : tensor<1x64x384xf32>
}

// -----

// Stays: the view has another reader (the product would be stored twice), the operand is repeated, a full operand
// behind a transpose (it would have to be transposed back), and a view of what is no matmul.
// CHECK-LABEL: rlx.graph @stays
// CHECK: %[[M:.*]] = rlx.matmul
// CHECK-NEXT: %[[R:.*]] = rlx.reshape %[[M]]
// CHECK-NEXT: %[[A:.*]] = rlx.mul %[[R]]
// CHECK: %[[N:.*]] = rlx.matmul
// CHECK-NEXT: %[[T:.*]] = rlx.transpose %[[N]]
// CHECK-NEXT: %[[B:.*]] = rlx.add %[[T]], %arg1
// CHECK: %[[V:.*]] = rlx.reshape %arg0
// CHECK-NEXT: %[[C:.*]] = rlx.mul %[[V]]
// CHECK: %[[O:.*]] = rlx.matmul
// CHECK-NEXT: %[[Q:.*]] = rlx.reshape %[[O]]
// CHECK-NEXT: %[[D:.*]] = rlx.add %[[Q]], %arg2
// CHECK: rlx.output %[[R]], %[[A]], %[[B]], %[[C]], %[[D]]
rlx.graph @stays(%x: tensor<4x4xf32>, %r: tensor<4x4xf32>, %s: tensor<3x1x16xf32>)
    -> (tensor<1x16xf32>, tensor<1x16xf32>, tensor<4x4xf32>, tensor<1x16xf32>, tensor<3x1x16xf32>) {
  %u = rlx.weight "u" : tensor<4x4xf32>
  %v = rlx.weight "v" : tensor<4x4xf32>
  %w = rlx.weight "w" : tensor<4x4xf32>
  %c = rlx.constant dense<2.0> : tensor<f32>
  %0 = rlx.matmul %x, %u : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %1 = rlx.reshape %0 : tensor<4x4xf32> -> tensor<1x16xf32>
  %2 = rlx.mul %1, %c : tensor<1x16xf32>, tensor<f32> -> tensor<1x16xf32>
  %3 = rlx.matmul %x, %v : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %4 = rlx.transpose %3 permutation [1, 0] : tensor<4x4xf32> -> tensor<4x4xf32>
  %5 = rlx.add %4, %r : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %6 = rlx.reshape %x : tensor<4x4xf32> -> tensor<1x16xf32>
  %7 = rlx.mul %6, %c : tensor<1x16xf32>, tensor<f32> -> tensor<1x16xf32>
  %8 = rlx.matmul %x, %w : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %9 = rlx.reshape %8 : tensor<4x4xf32> -> tensor<1x1x16xf32>
  %10 = rlx.add %9, %s : tensor<1x1x16xf32>, tensor<3x1x16xf32> -> tensor<3x1x16xf32>
  rlx.output %1, %2, %5, %7, %10 : tensor<1x16xf32>, tensor<1x16xf32>, tensor<4x4xf32>, tensor<1x16xf32>, tensor<3x1x16xf32>
}
