// RUN: rlx-opt %s --rlx-verify-static=named | FileCheck %s
// RUN: rlx-opt %s --rlx-bind-dims=dims=B=3 --rlx-verify-static | FileCheck %s

// CHECK-LABEL: rlx.graph @main
rlx.graph @main(%x: tensor<?xf32, #rlx.dims<[B]>>, %y: tensor<2xf32>) -> tensor<?xf32, #rlx.dims<[B]>>
    attributes {dims = [#rlx.dim<"B">]} {
  %0 = rlx.exp %x : tensor<?xf32, #rlx.dims<[B]>> -> tensor<?xf32, #rlx.dims<[B]>>
  rlx.output %0 : tensor<?xf32, #rlx.dims<[B]>>
}
