rlx.graph @threads(%x: tensor<?x256xf32, #rlx.dims<[N, 256]>> {rlx.name = "x"},
                   %w: tensor<256x256xf32> {rlx.name = "w"},
                   %ids: tensor<?xi64, #rlx.dims<[N]>> {rlx.name = "ids"})
    -> (tensor<?x256xf32, #rlx.dims<[N, 256]>> {rlx.name = "mixed"}, tensor<?xf32, #rlx.dims<[N]>> {rlx.name = "sums"},
        tensor<256xf32> {rlx.name = "columns"}, tensor<?x256xf32, #rlx.dims<[N, 256]>> {rlx.name = "running"},
        tensor<?x256xf32, #rlx.dims<[N, 256]>> {rlx.name = "rows"})
    attributes {dims = [#rlx.dim<"N">]} {
  %q = rlx.matmul %x, %w : tensor<?x256xf32, #rlx.dims<[N, 256]>>, tensor<256x256xf32> -> tensor<?x256xf32, #rlx.dims<[N, 256]>>
  %t = rlx.transpose %x permutation [1, 0] : tensor<?x256xf32, #rlx.dims<[N, 256]>> -> tensor<256x?xf32, #rlx.dims<[256, N]>>
  %s = rlx.matmul %q, %t : tensor<?x256xf32, #rlx.dims<[N, 256]>>, tensor<256x?xf32, #rlx.dims<[256, N]>> -> tensor<?x?xf32, #rlx.dims<[N, N]>>
  %p = rlx.softmax %s axis 1 : tensor<?x?xf32, #rlx.dims<[N, N]>> -> tensor<?x?xf32, #rlx.dims<[N, N]>>
  %m = rlx.matmul %p, %x : tensor<?x?xf32, #rlx.dims<[N, N]>>, tensor<?x256xf32, #rlx.dims<[N, 256]>> -> tensor<?x256xf32, #rlx.dims<[N, 256]>>
  %n = rlx.layer_norm %m axis 1 epsilon 1.0e-05 : tensor<?x256xf32, #rlx.dims<[N, 256]>> -> tensor<?x256xf32, #rlx.dims<[N, 256]>>
  %e = rlx.exp %x : tensor<?x256xf32, #rlx.dims<[N, 256]>> -> tensor<?x256xf32, #rlx.dims<[N, 256]>>
  %r = rlx.reduce sum %e axes [1] : tensor<?x256xf32, #rlx.dims<[N, 256]>> -> tensor<?xf32, #rlx.dims<[N]>>
  %c = rlx.reduce sum %e axes [0] : tensor<?x256xf32, #rlx.dims<[N, 256]>> -> tensor<256xf32>
  %u = rlx.cumsum %e axis 0 : tensor<?x256xf32, #rlx.dims<[N, 256]>> -> tensor<?x256xf32, #rlx.dims<[N, 256]>>
  %g = rlx.gather %w, %ids axis 0 : tensor<256x256xf32>, tensor<?xi64, #rlx.dims<[N]>> -> tensor<?x256xf32, #rlx.dims<[N, 256]>>
  %z = rlx.softmax %g axis 1 : tensor<?x256xf32, #rlx.dims<[N, 256]>> -> tensor<?x256xf32, #rlx.dims<[N, 256]>>
  rlx.output %n, %r, %c, %u, %z : tensor<?x256xf32, #rlx.dims<[N, 256]>>, tensor<?xf32, #rlx.dims<[N]>>, tensor<256xf32>, tensor<?x256xf32, #rlx.dims<[N, 256]>>, tensor<?x256xf32, #rlx.dims<[N, 256]>>
}
