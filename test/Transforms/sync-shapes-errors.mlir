// RUN: rlx-opt %s --rlx-sync-shapes --split-input-file --verify-diagnostics

// A size that a requirement excludes, where shapes alone are fine: a slice beyond its input.
rlx.graph @slice(%x: tensor<3xf32, #rlx.dims<[S]>>) -> tensor<5xf32> attributes {dims = [#rlx.dim<"S", bound = 3>]} {
  // expected-error @+1 {{S}}
  %0 = rlx.slice %x starts [0] steps [1] : tensor<3xf32, #rlx.dims<[S]>> -> tensor<5xf32>
  rlx.output %0 : tensor<5xf32>
}

// -----

// The output is promised as K rows, and has N.
// expected-error @+1 {{output 'y' is stated as K: K is 6, but N is 5}}
rlx.graph @promise(%x: tensor<5xf32, #rlx.dims<[N]>>, %k: tensor<6xf32, #rlx.dims<[K]>>)
    -> (tensor<?xf32, #rlx.dims<[K]>> {rlx.name = "y"})
    attributes {dims = [#rlx.dim<"N", bound = 5>, #rlx.dim<"K", bound = 6>],
                constraints = [#rlx.constraint<"K == N", "output 'y' is stated as K">]} {
  %0 = rlx.exp %x : tensor<5xf32, #rlx.dims<[N]>> -> tensor<?xf32>
  rlx.output %0 : tensor<?xf32>
}
