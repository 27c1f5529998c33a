// RUN: rlx-opt %s --rlx-verify-static --split-input-file --verify-diagnostics

// expected-error @+2 {{axis 0 of 'tensor<?xf32, #rlx.dims<[B]>>' has no size}}
// expected-note @+1 {{dim 'B' is not bound}}
rlx.graph @open(%x: tensor<?xf32, #rlx.dims<[B]>>) -> tensor<?xf32, #rlx.dims<[B]>> attributes {dims = [#rlx.dim<"B">]} {
  rlx.output %x : tensor<?xf32, #rlx.dims<[B]>>
}

// -----

// expected-error @+2 {{axis 0 of 'tensor<?xf32>' is unknown}}
// expected-note @+1 {{rlx-infer-dims finds it}}
rlx.graph @unknown(%x: tensor<?xf32>) -> tensor<?xf32> {
  rlx.output %x : tensor<?xf32>
}

// -----

rlx.graph @not_synced(%x: tensor<3xf32, #rlx.dims<[B]>>) -> tensor<3xf32> attributes {dims = [#rlx.dim<"B", bound = 3>]} {
  // expected-error @+2 {{axis 0 of 'tensor<?xf32, #rlx.dims<[B]>>' has no size}}
  // expected-note @+1 {{its names are bound; rlx-sync-shapes computes it}}
  %0 = rlx.exp %x : tensor<3xf32, #rlx.dims<[B]>> -> tensor<?xf32, #rlx.dims<[B]>>
  rlx.output %0 : tensor<?xf32, #rlx.dims<[B]>>
}
