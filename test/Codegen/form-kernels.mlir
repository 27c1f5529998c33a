// RUN: rlx-opt %s --rlx-form-kernels | FileCheck %s

// Graphs that are bound already, as rlx-specialize leaves them.

// Elementwise ops become one kernel, in the order they stand.
// CHECK-LABEL: rlx.graph @chain
// CHECK-NEXT: %[[K:.*]] = rlx.kernel loops(%arg0, %arg1)
// CHECK-NEXT: ^bb0(%[[X:[^:]*]]: {{.*}}, %[[B:[^:]*]]: tensor<4xf32>)
// CHECK-NEXT: %[[S:.*]] = rlx.add %[[X]], %[[B]]
// CHECK-NEXT: %[[E:.*]] = rlx.exp %[[S]]
// CHECK-NEXT: %[[P:.*]] = rlx.mul %[[E]], %[[X]]
// CHECK-NEXT: rlx.yield %[[P]]
// CHECK: rlx.output %[[K]]
rlx.graph @chain(%x: tensor<2x4xf32, #rlx.dims<[B, 4]>>, %b: tensor<4xf32>) -> tensor<2x4xf32, #rlx.dims<[B, 4]>>
    attributes {dims = [#rlx.dim<"B", bound = 2>]} {
  %0 = rlx.add %x, %b : tensor<2x4xf32, #rlx.dims<[B, 4]>>, tensor<4xf32> -> tensor<2x4xf32, #rlx.dims<[B, 4]>>
  %1 = rlx.exp %0 : tensor<2x4xf32, #rlx.dims<[B, 4]>> -> tensor<2x4xf32, #rlx.dims<[B, 4]>>
  %2 = rlx.mul %1, %x : tensor<2x4xf32, #rlx.dims<[B, 4]>>, tensor<2x4xf32, #rlx.dims<[B, 4]>> -> tensor<2x4xf32, #rlx.dims<[B, 4]>>
  rlx.output %2 : tensor<2x4xf32, #rlx.dims<[B, 4]>>
}

// A matmul takes what follows it, as long as each value has one user.
// CHECK-LABEL: rlx.graph @epilogue(
// CHECK: %[[K:.*]] = rlx.kernel matmul(%arg0, %{{.*}}, %{{.*}}, %arg1)
// CHECK: %[[M:.*]] = rlx.matmul
// CHECK-NEXT: %[[A:.*]] = rlx.add %[[M]]
// CHECK-NEXT: %[[G:.*]] = rlx.gelu %[[A]]
// CHECK-NEXT: %[[R:.*]] = rlx.add %[[G]]
// CHECK-NEXT: rlx.yield %[[R]]
// CHECK-NOT: rlx.kernel
// CHECK: rlx.output %[[K]]
rlx.graph @epilogue(%x: tensor<2x4xf32>, %r: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %w = rlx.weight "w" : tensor<4x8xf32>
  %b = rlx.param "b" : tensor<8xf32>
  %0 = rlx.matmul %x, %w : tensor<2x4xf32>, tensor<4x8xf32> -> tensor<2x8xf32>
  %1 = rlx.add %0, %b : tensor<2x8xf32>, tensor<8xf32> -> tensor<2x8xf32>
  %2 = rlx.gelu %1 : tensor<2x8xf32> -> tensor<2x8xf32>
  %3 = rlx.add %2, %r : tensor<2x8xf32>, tensor<2x8xf32> -> tensor<2x8xf32>
  rlx.output %3 : tensor<2x8xf32>
}

// An output in the middle of the chain ends the epilogue.
// CHECK-LABEL: rlx.graph @epilogue_stops
// CHECK: %[[T:.*]] = rlx.kernel matmul
// CHECK: rlx.tanh
// CHECK-NEXT: rlx.yield
// CHECK: %[[E:.*]] = rlx.kernel loops(%[[T]])
// CHECK: rlx.exp
// CHECK: rlx.output %[[T]], %[[E]]
rlx.graph @epilogue_stops(%x: tensor<2x4xf32>) -> (tensor<2x8xf32>, tensor<2x8xf32>) {
  %w = rlx.weight "w" : tensor<4x8xf32>
  %0 = rlx.matmul %x, %w : tensor<2x4xf32>, tensor<4x8xf32> -> tensor<2x8xf32>
  %1 = rlx.tanh %0 : tensor<2x8xf32> -> tensor<2x8xf32>
  %2 = rlx.exp %1 : tensor<2x8xf32> -> tensor<2x8xf32>
  rlx.output %1, %2 : tensor<2x8xf32>, tensor<2x8xf32>
}

// What a reduction reads is computed on the way; what reads it has the smaller shape, and is a kernel of its own.
// CHECK-LABEL: rlx.graph @prologue
// CHECK: %[[R:.*]] = rlx.kernel reduce(%arg0)
// CHECK: %[[M:.*]] = rlx.mul
// CHECK-NEXT: rlx.reduce sum %[[M]]
// CHECK: rlx.kernel loops(%[[R]])
// CHECK: rlx.sqrt
rlx.graph @prologue(%x: tensor<2x4xf32>) -> tensor<2xf32> {
  %0 = rlx.mul %x, %x : tensor<2x4xf32>, tensor<2x4xf32> -> tensor<2x4xf32>
  %1 = rlx.reduce sum %0 axes [1] : tensor<2x4xf32> -> tensor<2xf32>
  %2 = rlx.sqrt %1 : tensor<2xf32> -> tensor<2xf32>
  rlx.output %2 : tensor<2xf32>
}

// Softmax reads through addresses: a sum before it is stored. A transpose is only strides.
// CHECK-LABEL: rlx.graph @rows
// CHECK: %[[S:.*]] = rlx.kernel loops(%arg0, %arg1)
// CHECK: rlx.kernel rows(%[[S]])
// CHECK: rlx.transpose
// CHECK-NEXT: rlx.softmax
rlx.graph @rows(%x: tensor<2x4xf32>, %y: tensor<2x4xf32>) -> tensor<4x2xf32> {
  %0 = rlx.add %x, %y : tensor<2x4xf32>, tensor<2x4xf32> -> tensor<2x4xf32>
  %1 = rlx.transpose %0 permutation [1, 0] : tensor<2x4xf32> -> tensor<4x2xf32>
  %2 = rlx.softmax %1 axis 1 : tensor<4x2xf32> -> tensor<4x2xf32>
  rlx.output %2 : tensor<4x2xf32>
}

// Views are part of every kernel that looks through them: heads split and turned, a slice, a broadcast.
// CHECK-LABEL: rlx.graph @views
// CHECK: rlx.kernel matmul(%arg0, %arg1)
// CHECK: %[[H:.*]] = rlx.reshape
// CHECK-NEXT: %[[Q:.*]] = rlx.transpose %[[H]]
// CHECK-NEXT: %[[T:.*]] = rlx.transpose %[[H]]
// CHECK-NEXT: rlx.matmul %[[Q]], %[[T]]
// CHECK: rlx.kernel loops(%arg1)
// CHECK: rlx.broadcast_to
// CHECK-NEXT: rlx.slice
// CHECK-NEXT: rlx.neg
// CHECK-NOT: rlx.kernel
rlx.graph @views(%x: tensor<3x8xf32, #rlx.dims<[S, 8]>>, %m: tensor<1x1x3xf32, #rlx.dims<[1, 1, S]>>)
    -> (tensor<2x3x3xf32, #rlx.dims<[2, S, S]>>, tensor<2x3x3xf32, #rlx.dims<[2, S, S]>>)
    attributes {dims = [#rlx.dim<"S", bound = 3>]} {
  %0 = rlx.reshape %x : tensor<3x8xf32, #rlx.dims<[S, 8]>> -> tensor<3x2x4xf32, #rlx.dims<[S, 2, 4]>>
  %1 = rlx.transpose %0 permutation [1, 0, 2] : tensor<3x2x4xf32, #rlx.dims<[S, 2, 4]>> -> tensor<2x3x4xf32, #rlx.dims<[2, S, 4]>>
  %2 = rlx.transpose %0 permutation [1, 2, 0] : tensor<3x2x4xf32, #rlx.dims<[S, 2, 4]>> -> tensor<2x4x3xf32, #rlx.dims<[2, 4, S]>>
  %3 = rlx.matmul %1, %2 : tensor<2x3x4xf32, #rlx.dims<[2, S, 4]>>, tensor<2x4x3xf32, #rlx.dims<[2, 4, S]>> -> tensor<2x3x3xf32, #rlx.dims<[2, S, S]>>
  %4 = rlx.add %3, %m : tensor<2x3x3xf32, #rlx.dims<[2, S, S]>>, tensor<1x1x3xf32, #rlx.dims<[1, 1, S]>> -> tensor<2x3x3xf32, #rlx.dims<[2, S, S]>>
  %5 = rlx.broadcast_to %m : tensor<1x1x3xf32, #rlx.dims<[1, 1, S]>> -> tensor<2x3x3xf32, #rlx.dims<[2, S, S]>>
  %6 = rlx.slice %5 starts [0, S - 1, 0] steps [1, -1, 1] : tensor<2x3x3xf32, #rlx.dims<[2, S, S]>> -> tensor<2x3x3xf32, #rlx.dims<[2, S, S]>>
  %7 = rlx.neg %6 : tensor<2x3x3xf32, #rlx.dims<[2, S, S]>> -> tensor<2x3x3xf32, #rlx.dims<[2, S, S]>>
  rlx.output %4, %7 : tensor<2x3x3xf32, #rlx.dims<[2, S, S]>>, tensor<2x3x3xf32, #rlx.dims<[2, S, S]>>
}

// A reshape that merges dims is the same buffer under another shape: between kernels, not in one.
// CHECK-LABEL: rlx.graph @alias
// CHECK: %[[E:.*]] = rlx.kernel loops(%arg0)
// CHECK: }
// CHECK-NEXT: %[[R:.*]] = rlx.reshape %[[E]]
// CHECK-NEXT: rlx.kernel rows(%[[R]])
rlx.graph @alias(%x: tensor<2x3x4xf32, #rlx.dims<[B, S, 4]>>) -> tensor<6x4xf32, #rlx.dims<[B * S, 4]>>
    attributes {dims = [#rlx.dim<"B", bound = 2>, #rlx.dim<"S", bound = 3>]} {
  %0 = rlx.exp %x : tensor<2x3x4xf32, #rlx.dims<[B, S, 4]>> -> tensor<2x3x4xf32, #rlx.dims<[B, S, 4]>>
  %1 = rlx.reshape %0 : tensor<2x3x4xf32, #rlx.dims<[B, S, 4]>> -> tensor<6x4xf32, #rlx.dims<[B * S, 4]>>
  %2 = rlx.softmax %1 axis 1 : tensor<6x4xf32, #rlx.dims<[B * S, 4]>> -> tensor<6x4xf32, #rlx.dims<[B * S, 4]>>
  rlx.output %2 : tensor<6x4xf32, #rlx.dims<[B * S, 4]>>
}

// Needed by two kernels: stored once. Cheap values (a splat, an iota) are copied into each instead.
// CHECK-LABEL: rlx.graph @shared
// CHECK-NEXT: %[[P:.*]] = rlx.kernel loops(%arg0)
// CHECK: rlx.constant dense<2.0
// CHECK: rlx.kernel reduce(%[[P]])
// CHECK: rlx.constant dense<2.0
// CHECK: rlx.kernel loops(%[[P]])
// CHECK: rlx.iota
// CHECK-NEXT: rlx.convert
// CHECK-NEXT: rlx.add
rlx.graph @shared(%x: tensor<4xf32, #rlx.dims<[S]>>) -> (tensor<f32>, tensor<4xf32, #rlx.dims<[S]>>)
    attributes {dims = [#rlx.dim<"S", bound = 4>]} {
  %two = rlx.constant dense<2.0> : tensor<f32>
  %i = rlx.iota [0, 1] axis 0 : tensor<4xi64, #rlx.dims<[S]>>
  %p = rlx.convert %i : tensor<4xi64, #rlx.dims<[S]>> -> tensor<4xf32, #rlx.dims<[S]>>
  %0 = rlx.mul %x, %two : tensor<4xf32, #rlx.dims<[S]>>, tensor<f32> -> tensor<4xf32, #rlx.dims<[S]>>
  %1 = rlx.mul %0, %two : tensor<4xf32, #rlx.dims<[S]>>, tensor<f32> -> tensor<4xf32, #rlx.dims<[S]>>
  %2 = rlx.reduce max %1 axes [0] : tensor<4xf32, #rlx.dims<[S]>> -> tensor<f32>
  %3 = rlx.add %0, %p : tensor<4xf32, #rlx.dims<[S]>>, tensor<4xf32, #rlx.dims<[S]>> -> tensor<4xf32, #rlx.dims<[S]>>
  rlx.output %2, %3 : tensor<f32>, tensor<4xf32, #rlx.dims<[S]>>
}

// Computing a small value once for each element of a large one would repeat the work.
// CHECK-LABEL: rlx.graph @outer
// CHECK: %[[E:.*]] = rlx.kernel loops(%arg0)
// CHECK: rlx.exp
// CHECK: rlx.kernel loops(%[[E]], %arg1)
rlx.graph @outer(%x: tensor<4x1xf32>, %y: tensor<5xf32>) -> tensor<4x5xf32> {
  %0 = rlx.exp %x : tensor<4x1xf32> -> tensor<4x1xf32>
  %1 = rlx.mul %0, %y : tensor<4x1xf32>, tensor<5xf32> -> tensor<4x5xf32>
  rlx.output %1 : tensor<4x5xf32>
}

// Outer dims that may be 1 are strides: nothing is asked. The innermost is.
// CHECK-LABEL: rlx.graph @broadcast
// CHECK-SAME: rlx.guards = [
// CHECK-SAME: predicate = "broadcastable(N, M)", required = true}
// CHECK-SAME: predicate = "broadcastable(I, J)", required = true}
// CHECK-SAME: {answer = true, message = "the innermost dim of an operand is read as it is, not repeated", op = "rlx.add", predicate = "I == broadcast(I, J)", required = false}
// CHECK-SAME: {answer = true, {{[^}]*}}predicate = "J == I", required = false}]
// CHECK: rlx.kernel loops(%arg0, %arg1)
rlx.graph @broadcast(%x: tensor<2x3xf32, #rlx.dims<[N, I]>>, %y: tensor<1x3xf32, #rlx.dims<[M, J]>>) -> tensor<2x3xf32, #rlx.dims<[broadcast(N, M), broadcast(I, J)]>>
    attributes {dims = [#rlx.dim<"N", bound = 2>, #rlx.dim<"M", bound = 1>, #rlx.dim<"I", bound = 3>, #rlx.dim<"J", bound = 3>]} {
  %0 = rlx.add %x, %y : tensor<2x3xf32, #rlx.dims<[N, I]>>, tensor<1x3xf32, #rlx.dims<[M, J]>> -> tensor<2x3xf32, #rlx.dims<[broadcast(N, M), broadcast(I, J)]>>
  rlx.output %0 : tensor<2x3xf32, #rlx.dims<[broadcast(N, M), broadcast(I, J)]>>
}

// The same with I = 1: repeated.
// CHECK-LABEL: rlx.graph @repeated
// CHECK-SAME: predicate = "broadcastable(I, J)", required = true}
// CHECK-SAME: {answer = false, {{[^}]*}}predicate = "I == broadcast(I, J)", required = false}
// CHECK-SAME: {answer = true, message = "the innermost dim of an operand is repeated", op = "rlx.add", predicate = "I == 1", required = false}]
rlx.graph @repeated(%x: tensor<2x1xf32, #rlx.dims<[N, I]>>, %y: tensor<2x3xf32, #rlx.dims<[N, J]>>) -> tensor<2x3xf32, #rlx.dims<[N, broadcast(I, J)]>>
    attributes {dims = [#rlx.dim<"N", bound = 2>, #rlx.dim<"I", bound = 1>, #rlx.dim<"J", bound = 3>]} {
  %0 = rlx.add %x, %y : tensor<2x1xf32, #rlx.dims<[N, I]>>, tensor<2x3xf32, #rlx.dims<[N, J]>> -> tensor<2x3xf32, #rlx.dims<[N, broadcast(I, J)]>>
  rlx.output %0 : tensor<2x3xf32, #rlx.dims<[N, broadcast(I, J)]>>
}

// min(512, S) is settled at once, and what is implied later is not asked.
// CHECK-LABEL: rlx.graph @clamp
// CHECK-SAME: rlx.guards = [{answer = true, message = "which operand of min(S, 512) counts", op = "rlx.slice", predicate = "S <= 512", required = false}]
// CHECK: rlx.slice
// CHECK-NEXT: rlx.slice
// CHECK-NEXT: rlx.add
rlx.graph @clamp(%x: tensor<7xf32, #rlx.dims<[S]>>) -> tensor<7xf32, #rlx.dims<[S]>>
    attributes {dims = [#rlx.dim<"S", bound = 7>]} {
  %0 = rlx.slice %x starts [0] steps [1] : tensor<7xf32, #rlx.dims<[S]>> -> tensor<7xf32, #rlx.dims<[min(512, S)]>>
  %1 = rlx.slice %0 starts [0] steps [1] : tensor<7xf32, #rlx.dims<[min(512, S)]>> -> tensor<7xf32, #rlx.dims<[min(600, S)]>>
  %2 = rlx.add %x, %1 : tensor<7xf32, #rlx.dims<[S]>>, tensor<7xf32, #rlx.dims<[min(600, S)]>> -> tensor<7xf32, #rlx.dims<[S]>>
  rlx.output %2 : tensor<7xf32, #rlx.dims<[S]>>
}

// A requirement is recorded like a choice, with the error that it would be.
// CHECK-LABEL: rlx.graph @required
// CHECK-SAME: rlx.guards = [{answer = true, message = "rlx.matmul: inner sizes differ: K and L", op = "rlx.matmul", predicate = "K == L", required = true}]
rlx.graph @required(%x: tensor<2x3xf32, #rlx.dims<[B, K]>>, %y: tensor<3x4xf32, #rlx.dims<[L, 4]>>) -> tensor<2x4xf32, #rlx.dims<[B, 4]>>
    attributes {dims = [#rlx.dim<"B", bound = 2>, #rlx.dim<"K", bound = 3>, #rlx.dim<"L", bound = 3>]} {
  %0 = rlx.matmul %x, %y : tensor<2x3xf32, #rlx.dims<[B, K]>>, tensor<3x4xf32, #rlx.dims<[L, 4]>> -> tensor<2x4xf32, #rlx.dims<[B, 4]>>
  rlx.output %0 : tensor<2x4xf32, #rlx.dims<[B, 4]>>
}

// Outputs that are inputs, constants, views, or the same value twice.
// CHECK-LABEL: rlx.graph @outputs
// CHECK: %[[C:.*]] = rlx.constant dense<[1.000000e+00, 2.000000e+00]>
// CHECK: %[[S:.*]] = rlx.kernel loops()
// CHECK-NEXT: rlx.constant dense<3.0
// CHECK: %[[T:.*]] = rlx.kernel loops(%arg0)
// CHECK: rlx.transpose
// CHECK: %[[R:.*]] = rlx.reshape %arg0
// CHECK-NEXT: rlx.output %arg0, %[[T]], %[[R]], %[[C]], %[[S]], %[[R]]
rlx.graph @outputs(%x: tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<4x2xf32>, tensor<8xf32>, tensor<2xf32>, tensor<f32>, tensor<8xf32>) {
  %c = rlx.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %s = rlx.constant dense<3.0> : tensor<f32>
  %t = rlx.transpose %x permutation [1, 0] : tensor<2x4xf32> -> tensor<4x2xf32>
  %r = rlx.reshape %x : tensor<2x4xf32> -> tensor<8xf32>
  rlx.output %x, %t, %r, %c, %s, %r : tensor<2x4xf32>, tensor<4x2xf32>, tensor<8xf32>, tensor<2xf32>, tensor<f32>, tensor<8xf32>
}

// Results that nobody reads are no kernels.
// CHECK-LABEL: rlx.graph @unused
// CHECK-NEXT: %{{.*}} = rlx.kernel loops(%arg0)
// CHECK-NOT: rlx.reduce
rlx.graph @unused(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = rlx.exp %x : tensor<4xf32> -> tensor<4xf32>
  %1 = rlx.reduce sum %0 axes [0] : tensor<4xf32> -> tensor<f32>
  %2 = rlx.neg %x : tensor<4xf32> -> tensor<4xf32>
  rlx.output %2 : tensor<4xf32>
}

// An epilogue reads by strides alone: a lookup is a kernel before it.
// CHECK-LABEL: rlx.graph @lookup_in_epilogue
// CHECK: %[[G:.*]] = rlx.kernel loops(%arg1, %arg2)
// CHECK: rlx.gather
// CHECK: rlx.kernel matmul(%arg0, %{{.*}}, %[[G]])
// CHECK: rlx.matmul
// CHECK-NEXT: rlx.exp
// CHECK-NEXT: rlx.add
rlx.graph @lookup_in_epilogue(%x: tensor<2x4xf32>, %t: tensor<9x8xf32>, %i: tensor<2xi64>) -> tensor<2x8xf32> {
  %w = rlx.weight "w" : tensor<4x8xf32>
  %0 = rlx.matmul %x, %w : tensor<2x4xf32>, tensor<4x8xf32> -> tensor<2x8xf32>
  %1 = rlx.gather %t, %i axis 0 : tensor<9x8xf32>, tensor<2xi64> -> tensor<2x8xf32>
  %2 = rlx.exp %1 : tensor<2x8xf32> -> tensor<2x8xf32>
  %3 = rlx.add %0, %2 : tensor<2x8xf32>, tensor<2x8xf32> -> tensor<2x8xf32>
  rlx.output %3 : tensor<2x8xf32>
}

// What a view repeats is computed once, before: exp would run for each of the 12 heads.
// CHECK-LABEL: rlx.graph @behind_a_view
// CHECK: %[[E:.*]] = rlx.kernel loops(%arg0)
// CHECK: rlx.exp
// CHECK: rlx.kernel loops(%[[E]], %arg1)
// CHECK: rlx.reshape
// CHECK-NEXT: rlx.add
rlx.graph @behind_a_view(%m: tensor<2x3xf32>, %x: tensor<2x12x3xf32>) -> tensor<2x12x3xf32> {
  %0 = rlx.exp %m : tensor<2x3xf32> -> tensor<2x3xf32>
  %1 = rlx.reshape %0 : tensor<2x3xf32> -> tensor<2x1x3xf32>
  %2 = rlx.add %x, %1 : tensor<2x12x3xf32>, tensor<2x1x3xf32> -> tensor<2x12x3xf32>
  rlx.output %2 : tensor<2x12x3xf32>
}
