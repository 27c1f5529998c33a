// RUN: rlx-opt %s --rlx-infer-dims --split-input-file --verify-diagnostics

// A broadcast to a shape that nobody states.
rlx.graph @stays_unknown(%x: tensor<1xf32>) -> tensor<?xf32> {
  // expected-error @+2 {{rlx.broadcast_to: a dim of the result stays unknown}}
  // expected-note @+1 {{the result is [?]}}
  %0 = rlx.broadcast_to %x : tensor<1xf32> -> tensor<?xf32>
  rlx.output %0 : tensor<?xf32>
}

// -----

// CASES 18: [4, 15] as [7, -1].
rlx.graph @does_not_divide(%x: tensor<4x15xf32>) -> tensor<?x?xf32> {
  // expected-error @+1 {{60 elements of [4, 15] do not divide into [7, ?]}}
  %0 = rlx.reshape %x : tensor<4x15xf32> -> tensor<7x?xf32>
  rlx.output %0 : tensor<7x?xf32>
}

// -----

// CASES 23: [1, 0] as [-1, 0] has no answer, and divides nothing by zero.
rlx.graph @divides_by_zero(%x: tensor<1x0xf32>) -> tensor<?x0xf32> {
  // expected-error @+1 {{the open dim of [?, 0] could be anything}}
  %0 = rlx.reshape %x : tensor<1x0xf32> -> tensor<?x0xf32>
  rlx.output %0 : tensor<?x0xf32>
}

// -----

// CASES 23: two open dims.
rlx.graph @two_open(%x: tensor<4xf32>) -> tensor<?x?xf32> {
  // expected-error @+2 {{rlx.reshape: a dim of the result stays unknown}}
  // expected-note @+1 {{the result is [?, ?]}}
  %0 = rlx.reshape %x : tensor<4xf32> -> tensor<?x?xf32>
  rlx.output %0 : tensor<?x?xf32>
}

// -----

// A constraint that no sizes satisfy.
rlx.graph @never(%x: tensor<?xf32, #rlx.dims<[S]>>) -> tensor<8xf32> attributes {dims = [#rlx.dim<"S", max = 4>]} {
  // expected-error @+1 {{holds for no sizes}}
  %0 = rlx.assume_dims %x : tensor<?xf32, #rlx.dims<[S]>> -> tensor<8xf32>
  rlx.output %0 : tensor<8xf32>
}

// -----

// CASES 21: a result or an output that is stated with other static sizes than its operands give.
rlx.graph @stated_result(%x: tensor<6x4xf32>) -> tensor<5x4xf32> {
  // expected-error @+1 {{has a result of type 'tensor<5x4xf32>', but its operands give 'tensor<6x4xf32>'}}
  %0 = rlx.exp %x : tensor<6x4xf32> -> tensor<5x4xf32>
  rlx.output %0 : tensor<5x4xf32>
}

// -----

rlx.graph @stated_output(%x: tensor<6x4xf32>) -> (tensor<5x4xf32> {rlx.name = "y"}) {
  %0 = rlx.exp %x : tensor<6x4xf32> -> tensor<6x4xf32>
  // expected-error @+1 {{'y' is promised as [5, 4] but its value has sizes [6, 4]}}
  rlx.output %0 : tensor<6x4xf32>
}
