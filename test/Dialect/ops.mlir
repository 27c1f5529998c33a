// RUN: rlx-opt %s | FileCheck %s
// RUN: rlx-opt %s | rlx-opt | FileCheck %s
// RUN: rlx-opt %s --mlir-print-op-generic | rlx-opt | FileCheck %s
// RUN: rlx-opt %s --emit-bytecode | rlx-opt | FileCheck %s

!bs = tensor<?x?xf32, #rlx.dims<[B, S]>>
!bs4 = tensor<?x?x4xf32, #rlx.dims<[B, S, 4]>>

// CHECK-LABEL: rlx.graph @signature(
// CHECK-SAME: %{{.*}}: tensor<?x4xf32, #rlx.dims<[B, 4]>> {rlx.name = "x"}
// CHECK-SAME: -> (tensor<?x4xf32, #rlx.dims<[B, 4]>> {rlx.name = "y"})
// CHECK-SAME: attributes {constraints = [#rlx.constraint<"B % 8 == 0", "declared">]
// CHECK-SAME: dims = [#rlx.dim<"B", min = 1, max = 64, multiple = 8, likely = [8, 16], bound = 32>]}
rlx.graph @signature(%x: tensor<?x4xf32, #rlx.dims<[B, 4]>> {rlx.name = "x"})
    -> (tensor<?x4xf32, #rlx.dims<[B, 4]>> {rlx.name = "y"})
    attributes {dims = [#rlx.dim<"B", likely = [8, 16], multiple = 8, min = 1, max = 64, bound = 32>],
                constraints = [#rlx.constraint<"B % 8 == 0", "declared">]} {
  rlx.output %x : tensor<?x4xf32, #rlx.dims<[B, 4]>>
}

// CHECK-LABEL: rlx.graph @expressions
// CHECK-SAME: tensor<?x?x?xf32, #rlx.dims<[2*S+1, floordiv(S+1, 2), S*T]>>
// CHECK-SAME: tensor<?x?xf32, #rlx.dims<[min(S, T), max(S, T)]>>
// CHECK-SAME: tensor<?xf32, #rlx.dims<[broadcast(S, T)]>>
// CHECK-SAME: tensor<?x?xf32, #rlx.dims<["a:b/c", "say \"hi\""]>>
// CHECK-SAME: tensor<?x?xf32, #rlx.dims<["min", f32]>>
rlx.graph @expressions(
    %0: tensor<?x?x?xf32, #rlx.dims<[1 + S * 2, ceildiv(S, 2), T * S]>>,
    %1: tensor<?x?xf32, #rlx.dims<[min(S, T), max(S, T)]>>,
    %2: tensor<?xf32, #rlx.dims<[broadcast(S, T)]>>,
    %3: tensor<?x?xf32, #rlx.dims<["a:b/c", "say \"hi\""]>>,
    %4: tensor<?x?xf32, #rlx.dims<[min, f32]>>)
    attributes {dims = [#rlx.dim<"S">, #rlx.dim<"T">, #rlx.dim<"a:b/c">, #rlx.dim<"say \"hi\"">, #rlx.dim<"min">,
                        #rlx.dim<"f32">]} {
  rlx.output
}
