rlx.graph @scaled(%x: tensor<?xf32, #rlx.dims<[N]>> {rlx.name = "x"}) -> (tensor<4xf32> {rlx.name = "y"})
    attributes {dims = [#rlx.dim<"N">]} {
  %s = rlx.param "s" : tensor<4xf32>
  %0 = rlx.mul %x, %s : tensor<?xf32, #rlx.dims<[N]>>, tensor<4xf32> -> tensor<4xf32>
  rlx.output %0 : tensor<4xf32>
}
