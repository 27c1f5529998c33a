rlx.graph @g(%x: tensor<?x?xf32, #rlx.dims<[M, N]>> {rlx.name = "x"}, %y: tensor<?x2xf32, #rlx.dims<[A, 2]>> {rlx.name = "y"})
    -> (tensor<?x2xf32, #rlx.dims<[M, 2]>> {rlx.name = "product"}, tensor<2x2xf32> {rlx.name = "rows"})
    attributes {dims = [#rlx.dim<"M">, #rlx.dim<"N">, #rlx.dim<"A">]} {
  %w = rlx.broadcast_to %y : tensor<?x2xf32, #rlx.dims<[A, 2]>> -> tensor<?x2xf32, #rlx.dims<[N, 2]>>
  %p = rlx.matmul %x, %w : tensor<?x?xf32, #rlx.dims<[M, N]>>, tensor<?x2xf32, #rlx.dims<[N, 2]>> -> tensor<?x2xf32, #rlx.dims<[M, 2]>>
  %i = rlx.constant dense<[3, 0]> : tensor<2xi64>
  %t = rlx.transpose %w permutation [1, 0] : tensor<?x2xf32, #rlx.dims<[N, 2]>> -> tensor<2x?xf32, #rlx.dims<[2, N]>>
  %r = rlx.gather %t, %i axis 1 : tensor<2x?xf32, #rlx.dims<[2, N]>>, tensor<2xi64> -> tensor<2x2xf32>
  rlx.output %p, %r : tensor<?x2xf32, #rlx.dims<[M, 2]>>, tensor<2x2xf32>
}
