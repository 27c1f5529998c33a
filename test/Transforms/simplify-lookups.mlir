// RUN: rlx-opt %s --rlx-simplify --split-input-file | FileCheck %s

// MiniLM's mask, as PyTorch's exporter writes it: a range over the batch and one over the keys, expanded against each
// other, joined to pairs, and looked up in the mask. Every pair is its own position: nothing moves.
// CHECK-LABEL: rlx.graph @mask_minilm
// CHECK-NOT: gather_nd
// CHECK-NOT: concat
// CHECK: %[[M:.*]] = rlx.reshape %arg0 : tensor<?x?xi1, #rlx.dims<[B, S]>> -> tensor<?x1x1x?xi1, #rlx.dims<[B, 1, 1, S]>>
// CHECK-NEXT: rlx.output %[[M]]
rlx.graph @mask_minilm(%m: tensor<?x?xi1, #rlx.dims<[B, S]>>) -> tensor<?x1x1x?xi1, #rlx.dims<[B, 1, 1, S]>> attributes {dims = [#rlx.dim<"B">, #rlx.dim<"S">]} {
  %b = rlx.iota [0, 1] axis 0 : tensor<?xi64, #rlx.dims<[B]>>
  %s = rlx.iota [0, 1] axis 0 : tensor<?xi64, #rlx.dims<[S]>>
  %b4 = rlx.reshape %b : tensor<?xi64, #rlx.dims<[B]>> -> tensor<?x1x1x1xi64, #rlx.dims<[B, 1, 1, 1]>>
  %s4 = rlx.reshape %s : tensor<?xi64, #rlx.dims<[S]>> -> tensor<1x1x1x?xi64, #rlx.dims<[1, 1, 1, S]>>
  %be = rlx.broadcast_to %b4 : tensor<?x1x1x1xi64, #rlx.dims<[B, 1, 1, 1]>> -> tensor<?x1x1x?xi64, #rlx.dims<[B, 1, 1, S]>>
  %se = rlx.broadcast_to %s4 : tensor<1x1x1x?xi64, #rlx.dims<[1, 1, 1, S]>> -> tensor<?x1x1x?xi64, #rlx.dims<[B, 1, 1, S]>>
  %b5 = rlx.reshape %be : tensor<?x1x1x?xi64, #rlx.dims<[B, 1, 1, S]>> -> tensor<?x1x1x?x1xi64, #rlx.dims<[B, 1, 1, S, 1]>>
  %s5 = rlx.reshape %se : tensor<?x1x1x?xi64, #rlx.dims<[B, 1, 1, S]>> -> tensor<?x1x1x?x1xi64, #rlx.dims<[B, 1, 1, S, 1]>>
  %i = rlx.concat %b5, %s5 axis 4 : tensor<?x1x1x?x1xi64, #rlx.dims<[B, 1, 1, S, 1]>>, tensor<?x1x1x?x1xi64, #rlx.dims<[B, 1, 1, S, 1]>> -> tensor<?x1x1x?x2xi64, #rlx.dims<[B, 1, 1, S, 2]>>
  %y = rlx.gather_nd %m, %i batch_dims 0 : tensor<?x?xi1, #rlx.dims<[B, S]>>, tensor<?x1x1x?x2xi64, #rlx.dims<[B, 1, 1, S, 2]>> -> tensor<?x1x1x?xi1, #rlx.dims<[B, 1, 1, S]>>
  rlx.output %y : tensor<?x1x1x?xi1, #rlx.dims<[B, 1, 1, S]>>
}

// -----

// Positions the other way round are a transpose; an axis that no index runs over is a repetition.
// CHECK-LABEL: rlx.graph @transposed
// CHECK: %[[T:.*]] = rlx.transpose %arg0 permutation [1, 0]
// CHECK-NEXT: %[[R:.*]] = rlx.reshape %[[T]] : {{.*}} -> tensor<?x1x?xf32, #rlx.dims<[S, 1, B]>>
// CHECK-NEXT: %[[X:.*]] = rlx.broadcast_to %[[R]] : {{.*}} -> tensor<?x3x?xf32, #rlx.dims<[S, 3, B]>>
// CHECK-NEXT: rlx.output %[[X]]
rlx.graph @transposed(%m: tensor<?x?xf32, #rlx.dims<[B, S]>>) -> tensor<?x3x?xf32, #rlx.dims<[S, 3, B]>> attributes {dims = [#rlx.dim<"B">, #rlx.dim<"S">]} {
  %b = rlx.iota [0, 1] axis 2 : tensor<?x3x?x1xi64, #rlx.dims<[S, 3, B, 1]>>
  %s = rlx.iota [0, 1] axis 0 : tensor<?x3x?x1xi64, #rlx.dims<[S, 3, B, 1]>>
  %i = rlx.concat %b, %s axis 3 : tensor<?x3x?x1xi64, #rlx.dims<[S, 3, B, 1]>>, tensor<?x3x?x1xi64, #rlx.dims<[S, 3, B, 1]>> -> tensor<?x3x?x2xi64, #rlx.dims<[S, 3, B, 2]>>
  %y = rlx.gather_nd %m, %i batch_dims 0 : tensor<?x?xf32, #rlx.dims<[B, S]>>, tensor<?x3x?x2xi64, #rlx.dims<[S, 3, B, 2]>> -> tensor<?x3x?xf32, #rlx.dims<[S, 3, B]>>
  rlx.output %y : tensor<?x3x?xf32, #rlx.dims<[S, 3, B]>>
}

// -----

// Rows by their own positions; and what must stay: another start, another extent, the same axis twice.
// CHECK-LABEL: rlx.graph @rows
// CHECK: %[[A:.*]] = rlx.gather %arg0
// CHECK: %[[B:.*]] = rlx.gather %arg0
// CHECK: %[[D:.*]] = rlx.gather_nd %arg1
// CHECK: rlx.output %arg0, %[[A]], %[[B]], %[[D]]
rlx.graph @rows(%x: tensor<?x4xf32, #rlx.dims<[N, 4]>>, %q: tensor<?x?xf32, #rlx.dims<[N, N]>>, %m: tensor<?xf32, #rlx.dims<[M]>>)
    -> (tensor<?x4xf32, #rlx.dims<[N, 4]>>, tensor<?x4xf32, #rlx.dims<[N, 4]>>, tensor<?x4xf32, #rlx.dims<[M, 4]>>, tensor<?xf32, #rlx.dims<[N]>>)
    attributes {dims = [#rlx.dim<"N">, #rlx.dim<"M">]} {
  %i = rlx.iota [0, 1] axis 0 : tensor<?xi64, #rlx.dims<[N]>>
  %0 = rlx.gather %x, %i axis 0 : tensor<?x4xf32, #rlx.dims<[N, 4]>>, tensor<?xi64, #rlx.dims<[N]>> -> tensor<?x4xf32, #rlx.dims<[N, 4]>>
  %j = rlx.iota [-1, 1] axis 0 : tensor<?xi64, #rlx.dims<[N]>>
  %1 = rlx.gather %x, %j axis 0 : tensor<?x4xf32, #rlx.dims<[N, 4]>>, tensor<?xi64, #rlx.dims<[N]>> -> tensor<?x4xf32, #rlx.dims<[N, 4]>>
  %k = rlx.iota [0, 1] axis 0 : tensor<?xi64, #rlx.dims<[M]>>
  %2 = rlx.gather %x, %k axis 0 : tensor<?x4xf32, #rlx.dims<[N, 4]>>, tensor<?xi64, #rlx.dims<[M]>> -> tensor<?x4xf32, #rlx.dims<[M, 4]>>
  %r = rlx.reshape %i : tensor<?xi64, #rlx.dims<[N]>> -> tensor<?x1xi64, #rlx.dims<[N, 1]>>
  %p = rlx.concat %r, %r axis 1 : tensor<?x1xi64, #rlx.dims<[N, 1]>>, tensor<?x1xi64, #rlx.dims<[N, 1]>> -> tensor<?x2xi64, #rlx.dims<[N, 2]>>
  %3 = rlx.gather_nd %q, %p batch_dims 0 : tensor<?x?xf32, #rlx.dims<[N, N]>>, tensor<?x2xi64, #rlx.dims<[N, 2]>> -> tensor<?xf32, #rlx.dims<[N]>>
  rlx.output %0, %1, %2, %3 : tensor<?x4xf32, #rlx.dims<[N, 4]>>, tensor<?x4xf32, #rlx.dims<[N, 4]>>, tensor<?x4xf32, #rlx.dims<[M, 4]>>, tensor<?xf32, #rlx.dims<[N]>>
}
