// RUN: rlx-opt %s --rlx-decompose --split-input-file --verify-diagnostics

// Groups need numbers of heads.
rlx.graph @named_heads(%q: tensor<?x5x4xf32, #rlx.dims<[H, 5, 4]>>, %k: tensor<2x7x4xf32>, %v: tensor<2x7x6xf32>)
    -> tensor<?x5x6xf32, #rlx.dims<[H, 5, 6]>> attributes {dims = [#rlx.dim<"H">]} {
  // expected-error @+1 {{grouped queries need numbers of heads that are not named, not H and 2}}
  %0 = rlx.attention %q, %k, %v scale 1.0 : tensor<?x5x4xf32, #rlx.dims<[H, 5, 4]>>, tensor<2x7x4xf32>,
                                            tensor<2x7x6xf32> -> tensor<?x5x6xf32, #rlx.dims<[H, 5, 6]>>
  rlx.output %0 : tensor<?x5x6xf32, #rlx.dims<[H, 5, 6]>>
}
