rlx.graph @join(%x: tensor<?x4xf32, #rlx.dims<[N, 4]>> {rlx.name = "x"},
                %y: tensor<?x4xf32, #rlx.dims<[M, 4]>> {rlx.name = "y"})
    -> (tensor<?x4xf32> {rlx.name = "z"}) attributes {dims = [#rlx.dim<"N">, #rlx.dim<"M">]} {
  %a = rlx.constant dense<2.0> : tensor<f32>
  %b = rlx.constant dense<2.0> : tensor<f32>
  %0 = rlx.mul %x, %a : tensor<?x4xf32, #rlx.dims<[N, 4]>>, tensor<f32> -> tensor<?x4xf32>
  %1 = rlx.mul %y, %b : tensor<?x4xf32, #rlx.dims<[M, 4]>>, tensor<f32> -> tensor<?x4xf32>
  %2 = rlx.concat %0, %1 axis 0 : tensor<?x4xf32>, tensor<?x4xf32> -> tensor<?x4xf32>
  rlx.output %2 : tensor<?x4xf32>
}
