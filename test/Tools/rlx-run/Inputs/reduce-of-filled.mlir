rlx.graph @g(%x: tensor<?x3xf32, #rlx.dims<[n, 3]>> {rlx.name = "x"})
    -> (tensor<?xf32, #rlx.dims<[n]>> {rlx.name = "sum"}, tensor<f32> {rlx.name = "prod"}) attributes {dims = [#rlx.dim<"n">]} {
  %0 = rlx.constant dense<1.5> : tensor<f32>
  %1 = rlx.broadcast_to %0 : tensor<f32> -> tensor<?x3xf32, #rlx.dims<[n, 3]>>
  %2 = rlx.reduce sum %1 axes [1] : tensor<?x3xf32, #rlx.dims<[n, 3]>> -> tensor<?xf32, #rlx.dims<[n]>>
  %3 = rlx.reduce prod %1 axes [0, 1] : tensor<?x3xf32, #rlx.dims<[n, 3]>> -> tensor<f32>
  rlx.output %2, %3 : tensor<?xf32, #rlx.dims<[n]>>, tensor<f32>
}
