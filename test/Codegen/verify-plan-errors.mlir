// RUN: rlx-opt %s --rlx-verify-plan=memory --split-input-file --verify-diagnostics

// A buffer that is free when it is read.
rlx.graph @lifetime(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = rlx.kernel loops (%x) attributes {rlx.buffers = [{first = 0 : i64, last = 0 : i64}]} {
  ^bb0(%a: tensor<4xf32>):
    %2 = rlx.exp %a : tensor<4xf32> -> tensor<4xf32>
    rlx.yield %2 : tensor<4xf32>
  } : (tensor<4xf32>) -> tensor<4xf32>
  // expected-error @below {{kernel 1 reads a buffer that is free}}
  // expected-note @below {{it lives from kernel 0 to kernel 0}}
  %1 = rlx.kernel loops (%0) attributes {rlx.buffers = [{output = 0 : i64}]} {
  ^bb0(%a: tensor<4xf32>):
    %2 = rlx.exp %a : tensor<4xf32> -> tensor<4xf32>
    rlx.yield %2 : tensor<4xf32>
  } : (tensor<4xf32>) -> tensor<4xf32>
  rlx.output %1 : tensor<4xf32>
}

// -----

rlx.graph @twice(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = rlx.kernel loops (%x) attributes {rlx.buffers = [{output = 0 : i64}]} {
  ^bb0(%a: tensor<4xf32>):
    %2 = rlx.exp %a : tensor<4xf32> -> tensor<4xf32>
    rlx.yield %2 : tensor<4xf32>
  } : (tensor<4xf32>) -> tensor<4xf32>
  // expected-error @below {{output 0 is written twice}}
  %1 = rlx.kernel loops (%x) attributes {rlx.buffers = [{output = 0 : i64}]} {
  ^bb0(%a: tensor<4xf32>):
    %2 = rlx.neg %a : tensor<4xf32> -> tensor<4xf32>
    rlx.yield %2 : tensor<4xf32>
  } : (tensor<4xf32>) -> tensor<4xf32>
  rlx.output %0 : tensor<4xf32>
}
