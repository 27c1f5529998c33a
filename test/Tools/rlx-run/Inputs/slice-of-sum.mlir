rlx.graph @g(%x: tensor<?x2xf32, #rlx.dims<[N, 2]>> {rlx.name = "x"}, %y: tensor<?x2xf32, #rlx.dims<[M, 2]>> {rlx.name = "y"})
    -> (tensor<?x2xf32> {rlx.name = "z"}) attributes {dims = [#rlx.dim<"N", min = 1>, #rlx.dim<"M", min = 1>]} {
  %0 = rlx.add %x, %y : tensor<?x2xf32, #rlx.dims<[N, 2]>>, tensor<?x2xf32, #rlx.dims<[M, 2]>> -> tensor<?x2xf32, #rlx.dims<[broadcast(N, M), 2]>>
  %1 = rlx.slice %0 starts [1, 0] steps [1, 1] : tensor<?x2xf32, #rlx.dims<[broadcast(N, M), 2]>> -> tensor<?x2xf32, #rlx.dims<[broadcast(N, M) - 1, 2]>>
  rlx.output %1 : tensor<?x2xf32, #rlx.dims<[broadcast(N, M) - 1, 2]>>
}
