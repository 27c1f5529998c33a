rlx.graph @short(%x: tensor<2xbf16> {rlx.name = "x"})
    -> (tensor<1xf32> {rlx.name = "nan"}, tensor<2xbf16> {rlx.name = "b"}) {
  %nan = rlx.constant dense<0xFFC00000> : tensor<1xf32>
  %zero = rlx.constant dense<0.0> : tensor<bf16>
  %c = rlx.constant dense<[1.5, -3.0]> : tensor<2xbf16>
  %0 = rlx.mul %x, %zero : tensor<2xbf16>, tensor<bf16> -> tensor<2xbf16>
  %b = rlx.add %0, %c : tensor<2xbf16>, tensor<2xbf16> -> tensor<2xbf16>
  rlx.output %nan, %b : tensor<1xf32>, tensor<2xbf16>
}
