// RUN: rlx-opt %s --rlx-dedupe-constants --split-input-file --verify-diagnostics

// The pass has no errors of its own: what it is given must be a graph. One row under two types is not its matter.
rlx.graph @two_types() -> (tensor<4xf32>, tensor<2x2xf32>) {
  %a = rlx.weight "w" : tensor<4xf32>
  %b = rlx.weight "w" : tensor<2x2xf32>
  rlx.output %a, %b : tensor<4xf32>, tensor<2x2xf32>
}
