// RUN: rlx-opt %s --rlx-infer-dims | FileCheck %s

// Unnamed dims of inputs get names of their own, even where they could be equal; shapes follow as expressions.
// CHECK-LABEL: rlx.graph @names_inputs
// CHECK-SAME: %[[X:.*]]: tensor<?x4xf32, #rlx.dims<[x_0, 4]>>
// CHECK-SAME: %[[Y:.*]]: tensor<?x4xf32, #rlx.dims<[y_0, 4]>>
// CHECK-SAME: -> tensor<?x4xf32, #rlx.dims<[x_0+y_0, 4]>>
// CHECK-SAME: dims = [#rlx.dim<"x_0">, #rlx.dim<"y_0">]
rlx.graph @names_inputs(%x: tensor<?x4xf32> {rlx.name = "x"}, %y: tensor<?x4xf32> {rlx.name = "y"}) -> tensor<?x4xf32> {
  // CHECK: rlx.concat %[[X]], %[[Y]] axis 0 : {{.*}} -> tensor<?x4xf32, #rlx.dims<[x_0+y_0, 4]>>
  %0 = rlx.concat %x, %y axis 0 : tensor<?x4xf32>, tensor<?x4xf32> -> tensor<?x4xf32>
  rlx.output %0 : tensor<?x4xf32>
}

// A name that is taken is not used again, and inputs without a name are called by their place.
// CHECK-LABEL: rlx.graph @name_taken
// CHECK-SAME: tensor<?xf32, #rlx.dims<[x_0]>>
// CHECK-SAME: tensor<?xf32, #rlx.dims<[x_0_]>>
// CHECK-SAME: tensor<?xf32, #rlx.dims<[input2_0]>>
// CHECK-SAME: dims = [#rlx.dim<"x_0", max = 8>, #rlx.dim<"x_0_">, #rlx.dim<"input2_0">]
rlx.graph @name_taken(%y: tensor<?xf32, #rlx.dims<[x_0]>> {rlx.name = "y"}, %x: tensor<?xf32> {rlx.name = "x"},
                      %z: tensor<?xf32>)
    -> tensor<?xf32> attributes {dims = [#rlx.dim<"x_0", max = 8>]} {
  %0 = rlx.exp %x : tensor<?xf32> -> tensor<?xf32>
  rlx.output %0 : tensor<?xf32>
}

// The two inner sizes of a matmul must be equal: a constraint, because nothing proves it. (rank 2, names K and L)
// CHECK-LABEL: rlx.graph @matmul_inner
// CHECK-SAME: constraints = [#rlx.constraint<"K == L"
rlx.graph @matmul_inner(%a: tensor<2x?xf32, #rlx.dims<[2, K]>>, %b: tensor<?x3xf32, #rlx.dims<[L, 3]>>) -> tensor<2x3xf32>
    attributes {dims = [#rlx.dim<"K">, #rlx.dim<"L">]} {
  %0 = rlx.matmul %a, %b : tensor<2x?xf32, #rlx.dims<[2, K]>>, tensor<?x3xf32, #rlx.dims<[L, 3]>> -> tensor<2x3xf32>
  rlx.output %0 : tensor<2x3xf32>
}

// What was declared already is not recorded again.
// CHECK-LABEL: rlx.graph @declared_already
// CHECK-SAME: constraints = [#rlx.constraint<"K == L", "declared">]
// CHECK-SAME: {
rlx.graph @declared_already(%a: tensor<2x?xf32, #rlx.dims<[2, K]>>, %b: tensor<?x3xf32, #rlx.dims<[L, 3]>>)
    -> tensor<2x3xf32>
    attributes {dims = [#rlx.dim<"K">, #rlx.dim<"L">], constraints = [#rlx.constraint<"K == L", "declared">]} {
  %0 = rlx.matmul %a, %b : tensor<2x?xf32, #rlx.dims<[2, K]>>, tensor<?x3xf32, #rlx.dims<[L, 3]>> -> tensor<2x3xf32>
  rlx.output %0 : tensor<2x3xf32>
}

// An op that broadcasts keeps both names (CASES 19) and asks only that they broadcast.
// CHECK-LABEL: rlx.graph @broadcast_keeps_names
// CHECK-SAME: -> tensor<?x4xf32, #rlx.dims<[broadcast(M, N), 4]>>
// CHECK-SAME: #rlx.constraint<"broadcastable({{M, N|N, M}})"
rlx.graph @broadcast_keeps_names(%a: tensor<?x4xf32, #rlx.dims<[N, 4]>>, %b: tensor<?x4xf32, #rlx.dims<[M, 4]>>)
    -> tensor<?x4xf32> attributes {dims = [#rlx.dim<"N">, #rlx.dim<"M">]} {
  %0 = rlx.add %a, %b : tensor<?x4xf32, #rlx.dims<[N, 4]>>, tensor<?x4xf32, #rlx.dims<[M, 4]>> -> tensor<?x4xf32>
  rlx.output %0 : tensor<?x4xf32>
}

// CASES 18: [S, 4] as [-1, 2] is [2 * S, 2].
// CHECK-LABEL: rlx.graph @reshape_open
// CHECK: rlx.reshape {{.*}} -> tensor<?x2xf32, #rlx.dims<[2*S, 2]>>
rlx.graph @reshape_open(%x: tensor<?x4xf32, #rlx.dims<[S, 4]>>) -> tensor<?x2xf32> attributes {dims = [#rlx.dim<"S">]} {
  %0 = rlx.reshape %x : tensor<?x4xf32, #rlx.dims<[S, 4]>> -> tensor<?x2xf32>
  rlx.output %0 : tensor<?x2xf32>
}

// CASES 18 and 23, static: [4, 15, 384] as [60, -1]; [2, 3, 4] as [2, -1]; [0, 10] as [-1, 10].
// CHECK-LABEL: rlx.graph @reshape_static
rlx.graph @reshape_static(%x: tensor<4x15x384xf32>, %y: tensor<2x3x4xf32>, %z: tensor<0x10xf32>)
    -> (tensor<?x?xf32>, tensor<?x?xf32>, tensor<?x?xf32>) {
  // CHECK: rlx.reshape {{.*}} -> tensor<60x384xf32>
  %0 = rlx.reshape %x : tensor<4x15x384xf32> -> tensor<60x?xf32>
  // CHECK: rlx.reshape {{.*}} -> tensor<2x12xf32>
  %1 = rlx.reshape %y : tensor<2x3x4xf32> -> tensor<2x?xf32>
  // CHECK: rlx.reshape {{.*}} -> tensor<0x10xf32>
  %2 = rlx.reshape %z : tensor<0x10xf32> -> tensor<?x10xf32>
  // CHECK: rlx.output {{.*}} : tensor<60x384xf32>, tensor<2x12xf32>, tensor<0x10xf32>
  rlx.output %0, %1, %2 : tensor<60x?xf32>, tensor<2x?xf32>, tensor<?x10xf32>
}

// CASES 20: an output stated as K that is N + M is a promise, checked when sizes are bound.
// CHECK-LABEL: rlx.graph @promise
// CHECK-SAME: constraints = [#rlx.constraint<"K == M+N", "output 'sum' is stated as K">]
rlx.graph @promise(%x: tensor<?xf32, #rlx.dims<[N]>>, %y: tensor<?xf32, #rlx.dims<[M]>>, %z: tensor<?xf32, #rlx.dims<[K]>>)
    -> (tensor<?xf32, #rlx.dims<[K]>> {rlx.name = "sum"})
    attributes {dims = [#rlx.dim<"N">, #rlx.dim<"M">, #rlx.dim<"K">]} {
  %0 = rlx.concat %x, %y axis 0 : tensor<?xf32, #rlx.dims<[N]>>, tensor<?xf32, #rlx.dims<[M]>> -> tensor<?xf32>
  rlx.output %0 : tensor<?xf32>
}

// CASES 21: a scalar may stand for [1].
// CHECK-LABEL: rlx.graph @unit_axes
// CHECK-SAME: -> tensor<1xf32>
rlx.graph @unit_axes(%x: tensor<4xf32>) -> tensor<1xf32> {
  %0 = rlx.reduce sum %x axes [0] : tensor<4xf32> -> tensor<f32>
  rlx.output %0 : tensor<f32>
}

// CASES 22: rows of a table, looked up by [B, S] indices.
// CHECK-LABEL: rlx.graph @gather
// CHECK: rlx.gather {{.*}} -> tensor<?x?x384xf32, #rlx.dims<[B, S, 384]>>
rlx.graph @gather(%i: tensor<?x?xi64, #rlx.dims<[B, S]>>) -> tensor<?x?x384xf32>
    attributes {dims = [#rlx.dim<"B">, #rlx.dim<"S">]} {
  %w = rlx.weight "table" : tensor<30522x384xf32>
  %0 = rlx.gather %w, %i axis 0 : tensor<30522x384xf32>, tensor<?x?xi64, #rlx.dims<[B, S]>> -> tensor<?x?x?xf32>
  rlx.output %0 : tensor<?x?x?xf32>
}

// Declared ranges settle what they can: S >= 1 and S <= 512, so the slice lies inside.
// CHECK-LABEL: rlx.graph @ranges_prove
// CHECK-SAME: attributes {dims = [#rlx.dim<"S", min = 1, max = 512>]} {
rlx.graph @ranges_prove(%x: tensor<512x4xf32>, %i: tensor<?xf32, #rlx.dims<[S]>>) -> tensor<?x4xf32, #rlx.dims<[S, 4]>>
    attributes {dims = [#rlx.dim<"S", min = 1, max = 512>]} {
  %0 = rlx.slice %x starts [0, 0] steps [1, 1] : tensor<512x4xf32> -> tensor<?x4xf32, #rlx.dims<[S, 4]>>
  rlx.output %0 : tensor<?x4xf32, #rlx.dims<[S, 4]>>
}

// 3*M is never 1, so that broadcast(N, 3*M) is 3*M whatever N is; that N is 1 or 3*M is asked for all the same.
// CHECK-LABEL: @issue_repeated_to_a_multiple
// CHECK-SAME: #rlx.constraint<"broadcastable(N, 3*M)"
rlx.graph @issue_repeated_to_a_multiple(%i: tensor<?xf32, #rlx.dims<[N]>>, %k: tensor<?xf32, #rlx.dims<[M]>>)
    -> tensor<2x?xf32, #rlx.dims<[2, 3*M]>> attributes {dims = [#rlx.dim<"N">, #rlx.dim<"M">]} {
  %0 = rlx.broadcast_to %i : tensor<?xf32, #rlx.dims<[N]>> -> tensor<2x?xf32, #rlx.dims<[2, 3*M]>>
  rlx.output %0 : tensor<2x?xf32, #rlx.dims<[2, 3*M]>>
}

// The same of attention's mask.
// CHECK-LABEL: @issue_mask_of_a_multiple
// CHECK-SAME: #rlx.constraint<"broadcastable(M, 3*T)"
rlx.graph @issue_mask_of_a_multiple(%q: tensor<1x2x8xf32>, %k: tensor<1x?x8xf32, #rlx.dims<[1, 3*T, 8]>>,
                                    %m: tensor<2x?xf32, #rlx.dims<[2, M]>>) -> tensor<1x2x8xf32>
    attributes {dims = [#rlx.dim<"T">, #rlx.dim<"M">]} {
  %0 = rlx.attention %q, %k, %k mask %m : tensor<2x?xf32, #rlx.dims<[2, M]>> scale 1.0
    : tensor<1x2x8xf32>, tensor<1x?x8xf32, #rlx.dims<[1, 3*T, 8]>>, tensor<1x?x8xf32, #rlx.dims<[1, 3*T, 8]>>
    -> tensor<1x2x8xf32>
  rlx.output %0 : tensor<1x2x8xf32>
}
