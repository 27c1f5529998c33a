// RUN: rlx-opt %s --rlx-bind-dims="dims=N=5,M=1,B=4,S=3,P=4" --rlx-sync-shapes --split-input-file | FileCheck %s
// RUN: rlx-opt %s --rlx-bind-dims="dims=N=5,M=1,B=4,S=3,P=4" --rlx-sync-shapes --rlx-verify-static --split-input-file

// CASES 19: [N, 4] + [M, 4] at (5, 1).
// CHECK-LABEL: rlx.graph @broadcast
// CHECK-SAME: -> tensor<5x4xf32, #rlx.dims<[broadcast(M, N), 4]>>
rlx.graph @broadcast(%a: tensor<?x4xf32, #rlx.dims<[N, 4]>>, %b: tensor<?x4xf32, #rlx.dims<[M, 4]>>)
    -> tensor<?x4xf32, #rlx.dims<[broadcast(M, N), 4]>>
    attributes {dims = [#rlx.dim<"N">, #rlx.dim<"M">, #rlx.dim<"B">, #rlx.dim<"S">, #rlx.dim<"P">]} {
  // CHECK: rlx.add {{.*}} -> tensor<5x4xf32, #rlx.dims<[broadcast(M, N), 4]>>
  %0 = rlx.add %a, %b : tensor<?x4xf32, #rlx.dims<[N, 4]>>, tensor<?x4xf32, #rlx.dims<[M, 4]>> -> tensor<?x4xf32>
  rlx.output %0 : tensor<?x4xf32>
}

// -----

// CASES 16: a linear layer at (4, 3).
// CHECK-LABEL: rlx.graph @linear
rlx.graph @linear(%x: tensor<?x?x64xf32, #rlx.dims<[B, S, 64]>>) -> tensor<?x?x64xf32, #rlx.dims<[B, S, 64]>>
    attributes {dims = [#rlx.dim<"N">, #rlx.dim<"M">, #rlx.dim<"B">, #rlx.dim<"S">, #rlx.dim<"P">]} {
  // An op whose type says nothing gets all of it.
  // CHECK: rlx.matmul {{.*}} -> tensor<4x3x64xf32, #rlx.dims<[B, S, 64]>>
  %w = rlx.weight "w" : tensor<64x64xf32>
  %0 = rlx.matmul %x, %w : tensor<?x?x64xf32, #rlx.dims<[B, S, 64]>>, tensor<64x64xf32> -> tensor<?x?x?xf32>
  rlx.output %0 : tensor<?x?x?xf32>
}

// -----

// CASES 17: concat([1, P, 8], [1, 1, 8]) at P = 4 gives [1, 5, 8], and users agree; S ++ S at 3 gives 6.
// CHECK-LABEL: rlx.graph @concat
rlx.graph @concat(%x: tensor<1x?x8xf32, #rlx.dims<[1, P, 8]>>, %y: tensor<1x1x8xf32>, %s: tensor<?xf32, #rlx.dims<[S]>>)
    -> (tensor<1x?x8xf32, #rlx.dims<[1, P + 1, 8]>>, tensor<?xf32, #rlx.dims<[2 * S]>>)
    attributes {dims = [#rlx.dim<"N">, #rlx.dim<"M">, #rlx.dim<"B">, #rlx.dim<"S">, #rlx.dim<"P">]} {
  // CHECK: rlx.concat {{.*}} axis 1 : {{.*}} -> tensor<1x5x8xf32, #rlx.dims<[1, P+1, 8]>>
  %0 = rlx.concat %x, %y axis 1 : tensor<1x?x8xf32, #rlx.dims<[1, P, 8]>>, tensor<1x1x8xf32> -> tensor<1x?x8xf32>
  // CHECK: rlx.exp {{.*}} -> tensor<1x5x8xf32, #rlx.dims<[1, P+1, 8]>>
  %1 = rlx.exp %0 : tensor<1x?x8xf32> -> tensor<1x?x8xf32>
  // CHECK: rlx.concat {{.*}} axis 0 : {{.*}} -> tensor<6xf32, #rlx.dims<[2*S]>>
  %2 = rlx.concat %s, %s axis 0 : tensor<?xf32, #rlx.dims<[S]>>, tensor<?xf32, #rlx.dims<[S]>> -> tensor<?xf32>
  rlx.output %1, %2 : tensor<1x?x8xf32>, tensor<?xf32>
}

// -----

// CASES 18: [S, 4] as [-1, 2] at 3 is [6, 2].
// CHECK-LABEL: rlx.graph @reshape
rlx.graph @reshape(%x: tensor<?x4xf32, #rlx.dims<[S, 4]>>) -> tensor<?x2xf32, #rlx.dims<[2 * S, 2]>>
    attributes {dims = [#rlx.dim<"N">, #rlx.dim<"M">, #rlx.dim<"B">, #rlx.dim<"S">, #rlx.dim<"P">]} {
  // CHECK: rlx.reshape {{.*}} -> tensor<6x2xf32, #rlx.dims<[2*S, 2]>>
  %0 = rlx.reshape %x : tensor<?x4xf32, #rlx.dims<[S, 4]>> -> tensor<?x2xf32, #rlx.dims<[2 * S, 2]>>
  rlx.output %0 : tensor<?x2xf32, #rlx.dims<[2 * S, 2]>>
}
