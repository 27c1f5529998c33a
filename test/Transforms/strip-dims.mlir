// RUN: rlx-opt %s --rlx-strip-dims | FileCheck %s --implicit-check-not='rlx.dims<'

// CHECK-LABEL: rlx.graph @main
// CHECK-SAME: (%[[X:.*]]: tensor<2x16xf32>) -> tensor<2x16xf32>
// CHECK-NEXT: %[[Y:.*]] = rlx.kernel loops(%[[X]]) {
// CHECK-NEXT: ^bb0(%[[A:.*]]: tensor<2x16xf32>):
// CHECK-NEXT: %[[E:.*]] = rlx.exp %[[A]] : tensor<2x16xf32> -> tensor<2x16xf32>
// CHECK: } : (tensor<2x16xf32>) -> tensor<2x16xf32>
rlx.graph @main(%x: tensor<2x16xf32, #rlx.dims<[B, S]>>) -> tensor<2x16xf32, #rlx.dims<[B, S]>>
    attributes {dims = [#rlx.dim<"B", bound = 2>, #rlx.dim<"S", bound = 16>]} {
  %0 = rlx.kernel loops(%x) {
  ^bb0(%a: tensor<2x16xf32, #rlx.dims<[B, S]>>):
    %1 = rlx.exp %a : tensor<2x16xf32, #rlx.dims<[B, S]>> -> tensor<2x16xf32, #rlx.dims<[B, S]>>
    rlx.yield %1 : tensor<2x16xf32, #rlx.dims<[B, S]>>
  } : (tensor<2x16xf32, #rlx.dims<[B, S]>>) -> tensor<2x16xf32, #rlx.dims<[B, S]>>
  rlx.output %0 : tensor<2x16xf32, #rlx.dims<[B, S]>>
}

// Other ops' types lose it too, where a conversion left one.
// CHECK-LABEL: func.func @f
// CHECK-SAME: tensor<4xf32>) -> tensor<4xf32>
func.func @f(%x: tensor<4xf32, #rlx.dims<[B]>>) -> tensor<4xf32, #rlx.dims<[B]>> {
  return %x : tensor<4xf32, #rlx.dims<[B]>>
}
