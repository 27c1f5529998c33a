// RUN: rlx-opt %s --rlx-prepare --rlx-specialize=dims=B=2,S=3 --rlx-lower-host | FileCheck %s
// RUN: rlx-opt %s --rlx-prepare --rlx-specialize=dims=B=1,S=1 --rlx-lower-host --rlx-print-plan -o %t.mlir > %t.one
// RUN: rlx-opt %s --rlx-prepare --rlx-specialize=dims=B=9,S=400 --rlx-lower-host --rlx-print-plan -o %t.mlir > %t.many
// RUN: rlx-opt %s --rlx-prepare --rlx-specialize=dims=B=9,S=600 --rlx-lower-host --rlx-print-plan -o %t.mlir > %t.long
// RUN: diff %t.one %t.many
// RUN: not diff %t.one %t.long
// RUN: FileCheck %s --check-prefix=ONE < %t.one
// RUN: FileCheck %s --check-prefix=LONG < %t.long

// From a graph as written to kernels with buffers: an attention head with positions. The plan is the same text at
// (1, 1) and (9, 400), and another where the slice of the positions clamps.

// CHECK-LABEL: rlx.graph @main
// CHECK: rlx.kernel loops
// CHECK-SAME: {first = 0 : i64, last = 1 : i64}
// CHECK: rlx.kernel attention
// CHECK-SAME: {output = 0 : i64}

// ONE: plan of @main(B, S)
// ONE: choose S <= 512: yes
// ONE: steps
// ONE: attention {{.*}} [B, S, S] k 8 {{.*}} d 8

// LONG: plan of @main(B, S)
// LONG: choose S <= 512: no
rlx.graph @main(%x: tensor<?x?x8xf32, #rlx.dims<[B, S, 8]>>) -> (tensor<?x?x8xf32>, tensor<?x?x8xf32>)
    attributes {dims = [#rlx.dim<"B">, #rlx.dim<"S">], constraints = [#rlx.constraint<"S <= 1024", "positions">]} {
  %table = rlx.weight "positions" : tensor<1024x8xf32>
  %all = rlx.slice %table starts [0, 0] steps [1, 1] : tensor<1024x8xf32> -> tensor<?x8xf32, #rlx.dims<[S, 8]>>
  %scale = rlx.constant dense<0.5> : tensor<f32>
  %0 = rlx.add %x, %all : tensor<?x?x8xf32, #rlx.dims<[B, S, 8]>>, tensor<?x8xf32, #rlx.dims<[S, 8]>> -> tensor<?x?x8xf32>
  %t = rlx.transpose %0 permutation [0, 2, 1] : tensor<?x?x8xf32> -> tensor<?x8x?xf32>
  %1 = rlx.matmul %0, %t : tensor<?x?x8xf32>, tensor<?x8x?xf32> -> tensor<?x?x?xf32>
  %2 = rlx.mul %1, %scale : tensor<?x?x?xf32>, tensor<f32> -> tensor<?x?x?xf32>
  %3 = rlx.softmax %2 axis 2 : tensor<?x?x?xf32> -> tensor<?x?x?xf32>
  %4 = rlx.matmul %3, %0 : tensor<?x?x?xf32>, tensor<?x?x8xf32> -> tensor<?x?x8xf32>
  %cut = rlx.slice %4 starts [0, 0, 0] steps [1, 1, 1] : tensor<?x?x8xf32> -> tensor<?x?x8xf32, #rlx.dims<[B, min(S, 512), 8]>>
  rlx.output %4, %cut : tensor<?x?x8xf32>, tensor<?x?x8xf32, #rlx.dims<[B, min(S, 512), 8]>>
}
