rlx.graph @scaled(%x: tensor<?xf32, #rlx.dims<[N]>> {rlx.name = "x"})
    -> (tensor<?xf32, #rlx.dims<[N]>> {rlx.name = "y"})
    attributes {dims = [#rlx.dim<"N">]} {
  %s = rlx.param "s" : tensor<4xf32>
  %0 = rlx.mul %x, %s : tensor<?xf32, #rlx.dims<[N]>>, tensor<4xf32> -> tensor<?xf32, #rlx.dims<[broadcast(N, 4)]>>
  rlx.output %0 : tensor<?xf32, #rlx.dims<[broadcast(N, 4)]>>
}
