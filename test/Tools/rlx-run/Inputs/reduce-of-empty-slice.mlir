rlx.graph @g(%x: tensor<2x?xf32, #rlx.dims<[2, n]>> {rlx.name = "x"}) -> (tensor<2xf32> {rlx.name = "y"})
    attributes {dims = [#rlx.dim<"n">]} {
  %0 = rlx.slice %x starts [0, n - 1] steps [1, -1] : tensor<2x?xf32, #rlx.dims<[2, n]>> -> tensor<2x?xf32, #rlx.dims<[2, n]>>
  %1 = rlx.reduce sum %0 axes [1] : tensor<2x?xf32, #rlx.dims<[2, n]>> -> tensor<2xf32>
  rlx.output %1 : tensor<2xf32>
}
