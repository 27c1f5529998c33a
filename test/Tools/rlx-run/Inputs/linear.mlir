rlx.graph @linear(%x: tensor<?x4xf32, #rlx.dims<[B, 4]>> {rlx.name = "x"})
    -> (tensor<?x2xf32, #rlx.dims<[B, 2]>> {rlx.name = "y"})
    attributes {dims = [#rlx.dim<"B", max = 64>]} {
  %w = rlx.constant dense<[[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]]> : tensor<4x2xf32>
  %0 = rlx.matmul %x, %w : tensor<?x4xf32, #rlx.dims<[B, 4]>>, tensor<4x2xf32> -> tensor<?x2xf32, #rlx.dims<[B, 2]>>
  rlx.output %0 : tensor<?x2xf32, #rlx.dims<[B, 2]>>
}
