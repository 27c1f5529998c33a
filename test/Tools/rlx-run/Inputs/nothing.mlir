rlx.graph @nothing(%x: tensor<?xf32, #rlx.dims<[N]>> {rlx.name = "x"})
    -> (tensor<?xf32, #rlx.dims<[N]>> {rlx.name = "y"}) attributes {dims = [#rlx.dim<"N">]} {
  rlx.output %x : tensor<?xf32, #rlx.dims<[N]>>
}
