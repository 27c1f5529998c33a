rlx.graph @g(%x: tensor<?xf32, #rlx.dims<[n]>> {rlx.name = "x"}) -> (tensor<?xf32> {rlx.name = "y"})
    attributes {dims = [#rlx.dim<"n", min = 3>]} {
  %0 = rlx.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %1 = rlx.add %x, %0 : tensor<?xf32, #rlx.dims<[n]>>, tensor<2xf32> -> tensor<?xf32> loc("sum")
  rlx.output %1 : tensor<?xf32>
}
