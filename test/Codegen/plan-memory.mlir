// RUN: rlx-opt %s --rlx-form-kernels --rlx-plan-memory | FileCheck %s
// RUN: rlx-opt %s --rlx-lower-host | FileCheck %s

// A value lives from the kernel that makes it to the last one that reads it; outputs are written in place.
// CHECK-LABEL: rlx.graph @lifetimes
// CHECK: %[[A:.*]] = rlx.kernel reduce(%arg0) attributes {rlx.buffers = [{first = 0 : i64, last = 3 : i64}]}
// CHECK: %[[B:.*]] = rlx.kernel rows(%[[A]]) attributes {rlx.buffers = [{first = 1 : i64, last = 2 : i64}]}
// CHECK: %[[C:.*]] = rlx.kernel rows(%[[B]]) attributes {rlx.buffers = [{first = 2 : i64, last = 3 : i64}]}
// CHECK: rlx.kernel loops({{.*}}) attributes {rlx.buffers = [{output = 0 : i64}]}
rlx.graph @lifetimes(%x: tensor<2x4xf32>) -> tensor<4xf32> {
  %0 = rlx.reduce sum %x axes [0] : tensor<2x4xf32> -> tensor<4xf32>
  %1 = rlx.softmax %0 axis 0 : tensor<4xf32> -> tensor<4xf32>
  %2 = rlx.softmax %1 axis 0 : tensor<4xf32> -> tensor<4xf32>
  %3 = rlx.add %0, %2 : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  rlx.output %3 : tensor<4xf32>
}

// An alias keeps what it shows alive.
// CHECK-LABEL: rlx.graph @alias
// CHECK: %[[A:.*]] = rlx.kernel loops(%arg0) attributes {rlx.buffers = [{first = 0 : i64, last = 2 : i64}]}
// CHECK: %[[R:.*]] = rlx.reshape %[[A]]
// CHECK: rlx.kernel rows(%[[R]]) attributes {rlx.buffers = [{first = 1 : i64, last = 2 : i64}]}
// CHECK: rlx.kernel matmul({{.*}}) attributes {rlx.buffers = [{output = 0 : i64}]}
rlx.graph @alias(%x: tensor<2x3x6xf32>) -> tensor<6x6xf32> {
  %0 = rlx.exp %x : tensor<2x3x6xf32> -> tensor<2x3x6xf32>
  %1 = rlx.reshape %0 : tensor<2x3x6xf32> -> tensor<6x6xf32>
  %2 = rlx.softmax %1 axis 1 : tensor<6x6xf32> -> tensor<6x6xf32>
  %3 = rlx.matmul %2, %1 : tensor<6x6xf32>, tensor<6x6xf32> -> tensor<6x6xf32>
  rlx.output %3 : tensor<6x6xf32>
}

// One value, three outputs: the first is written in place, also where another output is a view of it. An output that is
// read again is no arena buffer.
// CHECK-LABEL: rlx.graph @outputs
// CHECK: %[[A:.*]] = rlx.kernel loops(%arg0) attributes {rlx.buffers = [{output = 1 : i64}]}
// CHECK: %[[B:.*]] = rlx.kernel reduce(%[[A]]) attributes {rlx.buffers = [{output = 4 : i64}]}
// CHECK: rlx.output %arg0, %[[A]], %{{.*}}, %[[A]], %[[B]]
rlx.graph @outputs(%x: tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>, tensor<8xf32>, tensor<2x4xf32>, tensor<4xf32>) {
  %0 = rlx.exp %x : tensor<2x4xf32> -> tensor<2x4xf32>
  %1 = rlx.reshape %0 : tensor<2x4xf32> -> tensor<8xf32>
  %2 = rlx.reduce sum %0 axes [0] : tensor<2x4xf32> -> tensor<4xf32>
  rlx.output %x, %0, %1, %0, %2 : tensor<2x4xf32>, tensor<2x4xf32>, tensor<8xf32>, tensor<2x4xf32>, tensor<4xf32>
}

// Nothing to compute, nothing to plan.
// CHECK-LABEL: rlx.graph @nothing
// CHECK-NEXT: rlx.output %arg0
rlx.graph @nothing(%x: tensor<4xf32>) -> tensor<4xf32> {
  rlx.output %x : tensor<4xf32>
}
