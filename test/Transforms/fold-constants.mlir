// RUN: rlx-opt %s --rlx-fold-constants --split-input-file | FileCheck %s

// CASES 38: 2 + 3 folds to 5 (integers, by the folders).
// CHECK-LABEL: rlx.graph @integers
// CHECK-NEXT: %[[C:.*]] = rlx.constant dense<5> : tensor<i64>
// CHECK-NEXT: rlx.output %[[C]]
rlx.graph @integers() -> tensor<i64> {
  %a = rlx.constant dense<2> : tensor<i64>
  %b = rlx.constant dense<3> : tensor<i64>
  %0 = rlx.add %a, %b : tensor<i64>, tensor<i64> -> tensor<i64>
  rlx.output %0 : tensor<i64>
}

// -----

// Shape arithmetic on names stays an expression: [B, S] * [1, 2] + [0, 3] = [B, 2 * S + 3].
// CHECK-LABEL: rlx.graph @expressions
// CHECK: %[[D:.*]] = rlx.dim_values [B, 2*S+3] : tensor<2xi64>
// CHECK-NEXT: rlx.output %[[D]]
rlx.graph @expressions(%x: tensor<?x?xf32, #rlx.dims<[B, S]>>) -> tensor<2xi64>
    attributes {dims = [#rlx.dim<"B">, #rlx.dim<"S">]} {
  %d = rlx.dim_values [B, S] : tensor<2xi64>
  %a = rlx.constant dense<[1, 2]> : tensor<2xi64>
  %b = rlx.constant dense<[0, 3]> : tensor<2xi64>
  %0 = rlx.mul %d, %a : tensor<2xi64>, tensor<2xi64> -> tensor<2xi64>
  %1 = rlx.add %0, %b : tensor<2xi64>, tensor<2xi64> -> tensor<2xi64>
  rlx.output %1 : tensor<2xi64>
}

// -----

// CASES 38: what depends on an input does not fold; nor does a random op, nor a value that grows with a size.
// CHECK-LABEL: rlx.graph @stays
// CHECK: rlx.add
// CHECK: rlx.random_uniform
// CHECK: rlx.iota
rlx.graph @stays(%x: tensor<i64>, %s: tensor<?xf32, #rlx.dims<[S]>>)
    -> (tensor<i64>, tensor<2xf32>, tensor<?xi64, #rlx.dims<[S]>>) attributes {dims = [#rlx.dim<"S">]} {
  %a = rlx.constant dense<2> : tensor<i64>
  %0 = rlx.add %x, %a : tensor<i64>, tensor<i64> -> tensor<i64>
  %1 = rlx.random_uniform key 1 {low = 0.0 : f64, high = 1.0 : f64} : tensor<2xf32>
  %2 = rlx.iota [0, 1] axis 0 : tensor<?xi64, #rlx.dims<[S]>>
  rlx.output %0, %1, %2 : tensor<i64>, tensor<2xf32>, tensor<?xi64, #rlx.dims<[S]>>
}

// -----

// An op that would fail at run time is left to fail then: a zero divisor, an index out of range (CASES 50, 56).
// CHECK-LABEL: rlx.graph @would_fail
// CHECK: rlx.div
// CHECK: rlx.gather
rlx.graph @would_fail() -> (tensor<2xi64>, tensor<1xi64>) {
  %a = rlx.constant dense<[6, 7]> : tensor<2xi64>
  %b = rlx.constant dense<[2, 0]> : tensor<2xi64>
  %i = rlx.constant dense<[2]> : tensor<1xi64>
  %0 = rlx.div %a, %b : tensor<2xi64>, tensor<2xi64> -> tensor<2xi64>
  %1 = rlx.gather %a, %i axis 0 : tensor<2xi64>, tensor<1xi64> -> tensor<1xi64>
  rlx.output %0, %1 : tensor<2xi64>, tensor<1xi64>
}

// -----

// Floats wait for the host kernels, which the compiler brings.
// CHECK-LABEL: rlx.graph @floats
// CHECK: rlx.add
rlx.graph @floats() -> tensor<f32> {
  %a = rlx.constant dense<1.5> : tensor<f32>
  %b = rlx.constant dense<0.25> : tensor<f32>
  %0 = rlx.add %a, %b : tensor<f32>, tensor<f32> -> tensor<f32>
  rlx.output %0 : tensor<f32>
}
