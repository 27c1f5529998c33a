// RUN: rlx-opt %s --rlx-dedupe-constants --split-input-file | FileCheck %s
// RUN: rlx-opt %s --rlx-dedupe-constants --split-input-file --remarks-filter=rlx-dedupe-constants -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK --implicit-check-not='[Passed]'

// CASES 45: equal type, shape and bytes become one; users and outputs follow.
// CHECK-LABEL: rlx.graph @equal
// CHECK-NEXT: %[[C:.*]] = rlx.constant dense<2.000000e+00> : tensor<f32>
// CHECK-NEXT: %[[M:.*]] = rlx.mul %{{.*}}, %[[C]]
// CHECK-NEXT: %[[N:.*]] = rlx.mul %[[M]], %[[C]]
// CHECK-NEXT: rlx.output %[[N]], %[[C]]
// REMARK: [Passed] {{.*}}merged 1 constants and 0 weights
rlx.graph @equal(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<f32>) {
  %a = rlx.constant dense<2.0> : tensor<f32>
  %0 = rlx.mul %x, %a : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %b = rlx.constant dense<2.0> : tensor<f32>
  %1 = rlx.mul %0, %b : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  rlx.output %1, %b : tensor<4xf32>, tensor<f32>
}

// -----

// [2, 3] and [3, 2], f32 and i32 zeros, +0 and -0, two NaNs: nine values, nine constants.
// CHECK-LABEL: rlx.graph @apart
// CHECK-COUNT-9: rlx.constant
// CHECK-NOT: rlx.constant
// CHECK: rlx.output
rlx.graph @apart() -> (tensor<2x3xi64>, tensor<3x2xi64>, tensor<2xf32>, tensor<2xi32>, tensor<f32>, tensor<f32>,
                       tensor<f32>, tensor<f32>, tensor<1xf32>) {
  %a = rlx.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi64>
  %b = rlx.constant dense<[[1, 2], [3, 4], [5, 6]]> : tensor<3x2xi64>
  %c = rlx.constant dense<0.0> : tensor<2xf32>
  %d = rlx.constant dense<0> : tensor<2xi32>
  %e = rlx.constant dense<0.0> : tensor<f32>
  %f = rlx.constant dense<-0.0> : tensor<f32>
  %g = rlx.constant dense<0x7FC00000> : tensor<f32>
  %h = rlx.constant dense<0x7FC00001> : tensor<f32>
  %i = rlx.constant dense<0.0> : tensor<1xf32>
  rlx.output %a, %b, %c, %d, %e, %f, %g, %h, %i : tensor<2x3xi64>, tensor<3x2xi64>, tensor<2xf32>, tensor<2xi32>,
    tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<1xf32>
}

// -----

// Values written in different ways with the same bytes are the same.
// CHECK-LABEL: rlx.graph @spelled
// CHECK-COUNT-1: rlx.constant
// CHECK-NOT: rlx.constant
// CHECK: rlx.output
// REMARK: [Passed] {{.*}}merged 2 constants and 0 weights
rlx.graph @spelled() -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) {
  %a = rlx.constant dense<1.0> : tensor<2xf32>
  %b = rlx.constant dense<[1.0, 1.0]> : tensor<2xf32>
  %c = rlx.constant dense<"0x0000803F0000803F"> : tensor<2xf32>
  rlx.output %a, %b, %c : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}

// -----

// Weights and params of one row and type are one; other rows stay, whatever their bytes.
// CHECK-LABEL: rlx.graph @rows
// CHECK-NEXT: %[[W:.*]] = rlx.weight "w"
// CHECK-NEXT: %[[V:.*]] = rlx.weight "v"
// CHECK-NEXT: %[[P:.*]] = rlx.param "w"
// CHECK-NEXT: rlx.output %[[W]], %[[W]], %[[V]], %[[P]], %[[P]]
// REMARK: [Passed] {{.*}}merged 0 constants and 2 weights
rlx.graph @rows() -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %a = rlx.weight "w" : tensor<4xf32>
  %b = rlx.weight "w" : tensor<4xf32>
  %c = rlx.weight "v" : tensor<4xf32>
  %d = rlx.param "w" : tensor<4xf32>
  %e = rlx.param "w" : tensor<4xf32>
  rlx.output %a, %b, %c, %d, %e : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
