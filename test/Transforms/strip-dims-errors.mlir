// RUN: rlx-opt %s --rlx-strip-dims --split-input-file --verify-diagnostics

// expected-error @+1 {{has an open dim, whose name would be lost; rlx-bind-dims and rlx-sync-shapes come before}}
rlx.graph @open(%x: tensor<?xf32, #rlx.dims<[B]>>) -> tensor<?xf32, #rlx.dims<[B]>> attributes {dims = [#rlx.dim<"B">]} {
  rlx.output %x : tensor<?xf32, #rlx.dims<[B]>>
}
