// RUN: rlx-opt %s --rlx-bind-dims="dims=B=2,S=16" --split-input-file | FileCheck %s
// RUN: rlx-opt %s --rlx-bind-dims="dims=B=2" --split-input-file | FileCheck %s --check-prefix=PARTIAL
// RUN: rlx-opt %s --rlx-bind-dims="dims=B=2" --rlx-bind-dims="dims=S=16" --split-input-file | FileCheck %s
// RUN: rlx-opt %s --rlx-bind-dims="dims=S=16,B=2,S=16" --split-input-file | FileCheck %s

// CASES 1 and 3: numbers beside names; a binding of B alone leaves S.
// CHECK-LABEL: rlx.graph @main
// CHECK-SAME: tensor<2x16x4xf32, #rlx.dims<[B, S, 4]>>
// CHECK-SAME: -> (tensor<2x16x8xf32, #rlx.dims<[B, S, 8]>>, tensor<2x1x8xf32, #rlx.dims<[B, 1, 8]>>)
// CHECK-SAME: dims = [#rlx.dim<"B", max = 64, bound = 2>, #rlx.dim<"S", multiple = 8, bound = 16>]
// CHECK: rlx.matmul {{.*}} -> tensor<2x16x8xf32, #rlx.dims<[B, S, 8]>>
// CHECK: rlx.slice {{.*}} starts [0, S-1, 0] steps [1, 1, 1] : {{.*}} -> tensor<2x1x8xf32, #rlx.dims<[B, 1, 8]>>
// PARTIAL-LABEL: rlx.graph @main
// PARTIAL-SAME: tensor<2x?x4xf32, #rlx.dims<[B, S, 4]>>
// PARTIAL-SAME: dims = [#rlx.dim<"B", max = 64, bound = 2>, #rlx.dim<"S", multiple = 8>]
// PARTIAL: rlx.matmul {{.*}} -> tensor<2x?x8xf32, #rlx.dims<[B, S, 8]>>
rlx.graph @main(%x: tensor<?x?x4xf32, #rlx.dims<[B, S, 4]>>) -> (tensor<?x?x8xf32, #rlx.dims<[B, S, 8]>>,
                                                                 tensor<?x1x8xf32, #rlx.dims<[B, 1, 8]>>)
    attributes {dims = [#rlx.dim<"B", max = 64>, #rlx.dim<"S", multiple = 8>],
                constraints = [#rlx.constraint<"1 <= S", "declared">]} {
  %w = rlx.weight "w" : tensor<4x8xf32>
  %0 = rlx.matmul %x, %w : tensor<?x?x4xf32, #rlx.dims<[B, S, 4]>>, tensor<4x8xf32>
                           -> tensor<?x?x8xf32, #rlx.dims<[B, S, 8]>>
  %1 = rlx.slice %0 starts [0, S - 1, 0] steps [1, 1, 1] : tensor<?x?x8xf32, #rlx.dims<[B, S, 8]>>
                                                         -> tensor<?x1x8xf32, #rlx.dims<[B, 1, 8]>>
  rlx.output %0, %1 : tensor<?x?x8xf32, #rlx.dims<[B, S, 8]>>, tensor<?x1x8xf32, #rlx.dims<[B, 1, 8]>>
}

// -----

// Sizes of expressions, and names with odd characters.
// CHECK-LABEL: rlx.graph @expressions
// CHECK: rlx.concat {{.*}} -> tensor<18xf32, #rlx.dims<[B+S]>>
rlx.graph @expressions(%x: tensor<?xf32, #rlx.dims<[B]>>, %y: tensor<?xf32, #rlx.dims<[S]>>)
    -> tensor<?xf32, #rlx.dims<[B + S]>> attributes {dims = [#rlx.dim<"B">, #rlx.dim<"S">]} {
  %0 = rlx.concat %x, %y axis 0 : tensor<?xf32, #rlx.dims<[B]>>, tensor<?xf32, #rlx.dims<[S]>>
                                  -> tensor<?xf32, #rlx.dims<[B + S]>>
  rlx.output %0 : tensor<?xf32, #rlx.dims<[B + S]>>
}
