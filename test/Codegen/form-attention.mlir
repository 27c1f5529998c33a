// RUN: rlx-opt %s --rlx-form-kernels | FileCheck %s
// RUN: rlx-opt %s --mlir-disable-threading --rlx-lower-host --rlx-print-plan -o /dev/null | FileCheck %s --check-prefix=PLAN

// Attention is recognised from its parts, as exporters write them. Graphs that are bound already.

// An encoder's: heads are split by reshapes and transposes, scale, mask, a guard against NaN, heads joined again. Not
// a copy is left: q, k, v and the result are windows.
// CHECK-LABEL: rlx.graph @encoder
// CHECK: %[[K:.*]] = rlx.kernel attention(%arg0, %arg1, %arg3, %arg2)
// CHECK: rlx.matmul
// CHECK: rlx.softmax
// CHECK: rlx.is_nan
// CHECK: %[[V:.*]] = rlx.matmul
// CHECK-NEXT: %[[T:.*]] = rlx.transpose %[[V]]
// CHECK-NEXT: rlx.yield %[[T]]
// CHECK-NOT: rlx.kernel
// CHECK: %[[R:.*]] = rlx.reshape %[[K]]
// CHECK-NEXT: rlx.output %[[R]]

// PLAN-LABEL: plan of @encoder(B, S)
// PLAN: steps
// PLAN-NEXT: 0 attention 'rlx.matmul' [B, 2, S, S] k 4 strides 1, 1 d 4 strides 1, 1 zero nan
// PLAN-NEXT: x0 = %0[8*S*i0 + 4*i1 + 8*i2] : f32
// PLAN-NEXT: x1 = %1[8*S*i0 + 4*i1 + 8*i3] : f32
// PLAN-NEXT: x2 = %2[8*S*i0 + 4*i1 + 8*i3] : f32
// PLAN-NEXT: x3 = %3[S*i0 + i3] : f32
// PLAN-NEXT: v0 = constant
// PLAN-NEXT: v1 = mul score, v0 : f32
// PLAN-NEXT: v2 = add v1, x3 : f32
// PLAN-NEXT: %4[8*S*i0 + 4*i1 + 8*i2] = softmax of v2 times x2 : f32
// PLAN-NEXT: outputs
rlx.graph @encoder(%q: tensor<2x3x8xf32, #rlx.dims<[B, S, 8]>>, %k: tensor<2x3x8xf32, #rlx.dims<[B, S, 8]>>,
                   %mask: tensor<2x1x1x3xf32, #rlx.dims<[B, 1, 1, S]>>, %v: tensor<2x3x8xf32, #rlx.dims<[B, S, 8]>>)
    -> tensor<2x3x8xf32, #rlx.dims<[B, S, 8]>>
    attributes {dims = [#rlx.dim<"B", bound = 2>, #rlx.dim<"S", bound = 3>]} {
  %scale = rlx.constant dense<0.5> : tensor<f32>
  %zero = rlx.constant dense<0.0> : tensor<f32>
  %0 = rlx.reshape %q : tensor<2x3x8xf32, #rlx.dims<[B, S, 8]>> -> tensor<2x3x2x4xf32, #rlx.dims<[B, S, 2, 4]>>
  %1 = rlx.transpose %0 permutation [0, 2, 1, 3] : tensor<2x3x2x4xf32, #rlx.dims<[B, S, 2, 4]>> -> tensor<2x2x3x4xf32, #rlx.dims<[B, 2, S, 4]>>
  %2 = rlx.reshape %k : tensor<2x3x8xf32, #rlx.dims<[B, S, 8]>> -> tensor<2x3x2x4xf32, #rlx.dims<[B, S, 2, 4]>>
  %3 = rlx.transpose %2 permutation [0, 2, 3, 1] : tensor<2x3x2x4xf32, #rlx.dims<[B, S, 2, 4]>> -> tensor<2x2x4x3xf32, #rlx.dims<[B, 2, 4, S]>>
  %4 = rlx.reshape %v : tensor<2x3x8xf32, #rlx.dims<[B, S, 8]>> -> tensor<2x3x2x4xf32, #rlx.dims<[B, S, 2, 4]>>
  %5 = rlx.transpose %4 permutation [0, 2, 1, 3] : tensor<2x3x2x4xf32, #rlx.dims<[B, S, 2, 4]>> -> tensor<2x2x3x4xf32, #rlx.dims<[B, 2, S, 4]>>
  %6 = rlx.matmul %1, %3 : tensor<2x2x3x4xf32, #rlx.dims<[B, 2, S, 4]>>, tensor<2x2x4x3xf32, #rlx.dims<[B, 2, 4, S]>> -> tensor<2x2x3x3xf32, #rlx.dims<[B, 2, S, S]>>
  %7 = rlx.mul %6, %scale : tensor<2x2x3x3xf32, #rlx.dims<[B, 2, S, S]>>, tensor<f32> -> tensor<2x2x3x3xf32, #rlx.dims<[B, 2, S, S]>>
  %8 = rlx.add %7, %mask : tensor<2x2x3x3xf32, #rlx.dims<[B, 2, S, S]>>, tensor<2x1x1x3xf32, #rlx.dims<[B, 1, 1, S]>> -> tensor<2x2x3x3xf32, #rlx.dims<[B, 2, S, S]>>
  %9 = rlx.softmax %8 axis 3 : tensor<2x2x3x3xf32, #rlx.dims<[B, 2, S, S]>> -> tensor<2x2x3x3xf32, #rlx.dims<[B, 2, S, S]>>
  %10 = rlx.is_nan %9 : tensor<2x2x3x3xf32, #rlx.dims<[B, 2, S, S]>> -> tensor<2x2x3x3xi1, #rlx.dims<[B, 2, S, S]>>
  %11 = rlx.select %10, %zero, %9 : tensor<2x2x3x3xi1, #rlx.dims<[B, 2, S, S]>>, tensor<f32>, tensor<2x2x3x3xf32, #rlx.dims<[B, 2, S, S]>> -> tensor<2x2x3x3xf32, #rlx.dims<[B, 2, S, S]>>
  %12 = rlx.matmul %11, %5 : tensor<2x2x3x3xf32, #rlx.dims<[B, 2, S, S]>>, tensor<2x2x3x4xf32, #rlx.dims<[B, 2, S, 4]>> -> tensor<2x2x3x4xf32, #rlx.dims<[B, 2, S, 4]>>
  %13 = rlx.transpose %12 permutation [0, 2, 1, 3] : tensor<2x2x3x4xf32, #rlx.dims<[B, 2, S, 4]>> -> tensor<2x3x2x4xf32, #rlx.dims<[B, S, 2, 4]>>
  %14 = rlx.reshape %13 : tensor<2x3x2x4xf32, #rlx.dims<[B, S, 2, 4]>> -> tensor<2x3x8xf32, #rlx.dims<[B, S, 8]>>
  rlx.output %14 : tensor<2x3x8xf32, #rlx.dims<[B, S, 8]>>
}

// One head, no program, in f16; k and v of one batch serve all queries. What follows is a kernel of its own.
// CHECK-LABEL: rlx.graph @plain
// CHECK: %[[A:.*]] = rlx.kernel attention(%arg1, %arg0, %arg2)
// CHECK: rlx.kernel loops(%[[A]])
// CHECK: rlx.gelu

// PLAN-LABEL: plan of @plain(B, S)
// PLAN: 0 attention 'rlx.matmul' [B, S, 5] k 8 strides 1, 1 d 6 strides 1, 1
// PLAN-NEXT: x0 = %1[8*S*i0 + 8*i1] : f16
// PLAN-NEXT: x1 = %0[8*i2] : f16
// PLAN-NEXT: x2 = %2[6*i2] : f16
// PLAN-NEXT: v0 = convert score : f16
// PLAN-NEXT: %3[6*S*i0 + 6*i1] = softmax of v0 times x2 : f16
rlx.graph @plain(%q: tensor<2x3x8xf16, #rlx.dims<[B, S, 8]>>, %k: tensor<5x8xf16>, %v: tensor<5x6xf16>)
    -> tensor<2x3x6xf16, #rlx.dims<[B, S, 6]>>
    attributes {dims = [#rlx.dim<"B", bound = 2>, #rlx.dim<"S", bound = 3>]} {
  %0 = rlx.transpose %k permutation [1, 0] : tensor<5x8xf16> -> tensor<8x5xf16>
  %1 = rlx.matmul %q, %0 : tensor<2x3x8xf16, #rlx.dims<[B, S, 8]>>, tensor<8x5xf16> -> tensor<2x3x5xf16, #rlx.dims<[B, S, 5]>>
  %2 = rlx.softmax %1 axis 2 : tensor<2x3x5xf16, #rlx.dims<[B, S, 5]>> -> tensor<2x3x5xf16, #rlx.dims<[B, S, 5]>>
  %3 = rlx.matmul %2, %v : tensor<2x3x5xf16, #rlx.dims<[B, S, 5]>>, tensor<5x6xf16> -> tensor<2x3x6xf16, #rlx.dims<[B, S, 6]>>
  %4 = rlx.gelu %3 : tensor<2x3x6xf16, #rlx.dims<[B, S, 6]>> -> tensor<2x3x6xf16, #rlx.dims<[B, S, 6]>>
  rlx.output %4 : tensor<2x3x6xf16, #rlx.dims<[B, S, 6]>>
}

// The mask is made in the kernel where it is made once an element; scores may come as any float and meet any type.
// CHECK-LABEL: rlx.graph @where
// CHECK: rlx.kernel attention
// CHECK: rlx.compare
// CHECK: rlx.select
// CHECK-NOT: rlx.kernel
// CHECK: rlx.output

// PLAN-LABEL: plan of @where(S)
// PLAN: attention
// PLAN: v{{[0-9]}} = select
rlx.graph @where(%x: tensor<3x8xf32, #rlx.dims<[S, 8]>>, %keep: tensor<3x3xi64, #rlx.dims<[S, S]>>)
    -> tensor<3x8xf32, #rlx.dims<[S, 8]>> attributes {dims = [#rlx.dim<"S", bound = 3>]} {
  %low = rlx.constant dense<0xFF800000> : tensor<f32>
  %none = rlx.constant dense<0> : tensor<i64>
  %0 = rlx.transpose %x permutation [1, 0] : tensor<3x8xf32, #rlx.dims<[S, 8]>> -> tensor<8x3xf32, #rlx.dims<[8, S]>>
  %1 = rlx.matmul %x, %0 : tensor<3x8xf32, #rlx.dims<[S, 8]>>, tensor<8x3xf32, #rlx.dims<[8, S]>> -> tensor<3x3xf32, #rlx.dims<[S, S]>>
  %2 = rlx.compare ne %keep, %none : tensor<3x3xi64, #rlx.dims<[S, S]>>, tensor<i64> -> tensor<3x3xi1, #rlx.dims<[S, S]>>
  %3 = rlx.select %2, %1, %low : tensor<3x3xi1, #rlx.dims<[S, S]>>, tensor<3x3xf32, #rlx.dims<[S, S]>>, tensor<f32> -> tensor<3x3xf32, #rlx.dims<[S, S]>>
  %4 = rlx.softmax %3 axis 1 : tensor<3x3xf32, #rlx.dims<[S, S]>> -> tensor<3x3xf32, #rlx.dims<[S, S]>>
  %5 = rlx.matmul %4, %x : tensor<3x3xf32, #rlx.dims<[S, S]>>, tensor<3x8xf32, #rlx.dims<[S, 8]>> -> tensor<3x8xf32, #rlx.dims<[S, 8]>>
  rlx.output %5 : tensor<3x8xf32, #rlx.dims<[S, 8]>>
}

// Products in f16, the softmax between them in f32.
// CHECK-LABEL: rlx.graph @mixed
// CHECK: rlx.kernel attention(%arg0)
// CHECK: rlx.convert
// CHECK: rlx.softmax
// CHECK: rlx.convert
// CHECK-NOT: rlx.kernel
// CHECK: rlx.output

// PLAN-LABEL: plan of @mixed
// PLAN: attention
// PLAN: v0 = convert score : f16
// PLAN-NEXT: v1 = convert v0 : f32
// PLAN-NEXT: %1[8*i0] = softmax of v1 times x2 : f16
rlx.graph @mixed(%x: tensor<3x8xf16>) -> tensor<3x8xf16> {
  %0 = rlx.transpose %x permutation [1, 0] : tensor<3x8xf16> -> tensor<8x3xf16>
  %1 = rlx.matmul %x, %0 : tensor<3x8xf16>, tensor<8x3xf16> -> tensor<3x3xf16>
  %2 = rlx.convert %1 : tensor<3x3xf16> -> tensor<3x3xf32>
  %3 = rlx.softmax %2 axis 1 : tensor<3x3xf32> -> tensor<3x3xf32>
  %4 = rlx.convert %3 : tensor<3x3xf32> -> tensor<3x3xf16>
  %5 = rlx.matmul %4, %x : tensor<3x3xf16>, tensor<3x8xf16> -> tensor<3x8xf16>
  rlx.output %5 : tensor<3x8xf16>
}

// The probabilities are an output too: they must be stored.
// CHECK-LABEL: rlx.graph @weights_wanted
// CHECK: %[[S:.*]] = rlx.kernel matmul
// CHECK: %[[P:.*]] = rlx.kernel rows(%[[S]])
// CHECK: rlx.kernel matmul(%[[P]]
// PLAN-LABEL: plan of @weights_wanted
rlx.graph @weights_wanted(%x: tensor<3x8xf32>) -> (tensor<3x8xf32>, tensor<3x3xf32>) {
  %0 = rlx.transpose %x permutation [1, 0] : tensor<3x8xf32> -> tensor<8x3xf32>
  %1 = rlx.matmul %x, %0 : tensor<3x8xf32>, tensor<8x3xf32> -> tensor<3x3xf32>
  %2 = rlx.softmax %1 axis 1 : tensor<3x3xf32> -> tensor<3x3xf32>
  %3 = rlx.matmul %2, %x : tensor<3x3xf32>, tensor<3x8xf32> -> tensor<3x8xf32>
  rlx.output %3, %2 : tensor<3x8xf32>, tensor<3x3xf32>
}

// A softmax along another axis than the keys.
// CHECK-LABEL: rlx.graph @other_axis
// CHECK: rlx.kernel rows
// PLAN-LABEL: plan of @other_axis
rlx.graph @other_axis(%x: tensor<3x8xf32>) -> tensor<3x8xf32> {
  %0 = rlx.transpose %x permutation [1, 0] : tensor<3x8xf32> -> tensor<8x3xf32>
  %1 = rlx.matmul %x, %0 : tensor<3x8xf32>, tensor<8x3xf32> -> tensor<3x3xf32>
  %2 = rlx.softmax %1 axis 0 : tensor<3x3xf32> -> tensor<3x3xf32>
  %3 = rlx.matmul %2, %x : tensor<3x3xf32>, tensor<3x8xf32> -> tensor<3x8xf32>
  rlx.output %3 : tensor<3x8xf32>
}

// A classifier's two layers are no attention: weights are packed once, which the kernel of attention would not use.
// CHECK-LABEL: rlx.graph @layers
// CHECK: rlx.kernel matmul
// CHECK: rlx.kernel rows
// CHECK: rlx.kernel matmul
// PLAN-LABEL: plan of @layers
rlx.graph @layers(%x: tensor<3x8xf32>) -> tensor<3x2xf32> {
  %w = rlx.weight "w" : tensor<8x5xf32>
  %u = rlx.weight "u" : tensor<5x2xf32>
  %0 = rlx.matmul %x, %w : tensor<3x8xf32>, tensor<8x5xf32> -> tensor<3x5xf32>
  %1 = rlx.softmax %0 axis 1 : tensor<3x5xf32> -> tensor<3x5xf32>
  %2 = rlx.matmul %1, %u : tensor<3x5xf32>, tensor<5x2xf32> -> tensor<3x2xf32>
  rlx.output %2 : tensor<3x2xf32>
}

// Double precision stays as the parts.
// CHECK-LABEL: rlx.graph @double
// CHECK: rlx.kernel rows
// PLAN-LABEL: plan of @double
rlx.graph @double(%x: tensor<3x8xf64>) -> tensor<3x8xf64> {
  %0 = rlx.transpose %x permutation [1, 0] : tensor<3x8xf64> -> tensor<8x3xf64>
  %1 = rlx.matmul %x, %0 : tensor<3x8xf64>, tensor<8x3xf64> -> tensor<3x3xf64>
  %2 = rlx.softmax %1 axis 1 : tensor<3x3xf64> -> tensor<3x3xf64>
  %3 = rlx.matmul %2, %x : tensor<3x3xf64>, tensor<3x8xf64> -> tensor<3x8xf64>
  rlx.output %3 : tensor<3x8xf64>
}

// A mask that widens the batch would have the scores made once for each of it.
// CHECK-LABEL: rlx.graph @wider_mask
// CHECK: rlx.kernel matmul
// CHECK: rlx.kernel rows
// PLAN-LABEL: plan of @wider_mask
rlx.graph @wider_mask(%x: tensor<3x8xf32>, %mask: tensor<4x3x3xf32>) -> tensor<4x3x8xf32> {
  %0 = rlx.transpose %x permutation [1, 0] : tensor<3x8xf32> -> tensor<8x3xf32>
  %1 = rlx.matmul %x, %0 : tensor<3x8xf32>, tensor<8x3xf32> -> tensor<3x3xf32>
  %2 = rlx.add %1, %mask : tensor<3x3xf32>, tensor<4x3x3xf32> -> tensor<4x3x3xf32>
  %3 = rlx.softmax %2 axis 2 : tensor<4x3x3xf32> -> tensor<4x3x3xf32>
  %4 = rlx.matmul %3, %x : tensor<4x3x3xf32>, tensor<3x8xf32> -> tensor<4x3x8xf32>
  rlx.output %4 : tensor<4x3x8xf32>
}

// Values of a larger batch than the probabilities have: a row of scores would be made several times.
// CHECK-LABEL: rlx.graph @wider_values
// CHECK: rlx.kernel rows
// PLAN-LABEL: plan of @wider_values
rlx.graph @wider_values(%x: tensor<3x8xf32>, %v: tensor<4x3x8xf32>) -> tensor<4x3x8xf32> {
  %0 = rlx.transpose %x permutation [1, 0] : tensor<3x8xf32> -> tensor<8x3xf32>
  %1 = rlx.matmul %x, %0 : tensor<3x8xf32>, tensor<8x3xf32> -> tensor<3x3xf32>
  %2 = rlx.softmax %1 axis 1 : tensor<3x3xf32> -> tensor<3x3xf32>
  %3 = rlx.matmul %2, %v : tensor<3x3xf32>, tensor<4x3x8xf32> -> tensor<4x3x8xf32>
  rlx.output %3 : tensor<4x3x8xf32>
}

// A guard that puts another value in than 0 is none.
// CHECK-LABEL: rlx.graph @other_guard
// CHECK: rlx.kernel rows
// PLAN-LABEL: plan of @other_guard
rlx.graph @other_guard(%x: tensor<3x8xf32>) -> tensor<3x8xf32> {
  %one = rlx.constant dense<1.0> : tensor<f32>
  %0 = rlx.transpose %x permutation [1, 0] : tensor<3x8xf32> -> tensor<8x3xf32>
  %1 = rlx.matmul %x, %0 : tensor<3x8xf32>, tensor<8x3xf32> -> tensor<3x3xf32>
  %2 = rlx.softmax %1 axis 1 : tensor<3x3xf32> -> tensor<3x3xf32>
  %3 = rlx.is_nan %2 : tensor<3x3xf32> -> tensor<3x3xi1>
  %4 = rlx.select %3, %one, %2 : tensor<3x3xi1>, tensor<f32>, tensor<3x3xf32> -> tensor<3x3xf32>
  %5 = rlx.matmul %4, %x : tensor<3x3xf32>, tensor<3x8xf32> -> tensor<3x8xf32>
  rlx.output %5 : tensor<3x8xf32>
}

// The probabilities on the right of a product are not attention.
// CHECK-LABEL: rlx.graph @right_hand
// CHECK: rlx.kernel rows
// PLAN-LABEL: plan of @right_hand
rlx.graph @right_hand(%x: tensor<3x3xf32>) -> tensor<3x3xf32> {
  %0 = rlx.matmul %x, %x : tensor<3x3xf32>, tensor<3x3xf32> -> tensor<3x3xf32>
  %1 = rlx.softmax %0 axis 1 : tensor<3x3xf32> -> tensor<3x3xf32>
  %2 = rlx.matmul %x, %1 : tensor<3x3xf32>, tensor<3x3xf32> -> tensor<3x3xf32>
  rlx.output %2 : tensor<3x3xf32>
}

// A norm reads the result through the transpose that ends the kernel, not what is before it.
// CHECK-LABEL: rlx.graph @issue_norm_after_transpose
// CHECK-NEXT: %[[A:.*]] = rlx.kernel attention(%arg0)
// CHECK: rlx.yield %{{.*}} : tensor<4x5x8xf32>
// CHECK: rlx.kernel rows(%[[A]])
// CHECK: rlx.kernel rows(%[[A]])
// PLAN-LABEL: plan of @issue_norm_after_transpose
// PLAN: 0 attention
// PLAN: 1 rows
// PLAN: 2 rows
rlx.graph @issue_norm_after_transpose(%x: tensor<5x4x8xf32>) -> (tensor<4x5x8xf32>, tensor<4x5x8xf32>) {
  %0 = rlx.transpose %x permutation [0, 2, 1] : tensor<5x4x8xf32> -> tensor<5x8x4xf32>
  %1 = rlx.matmul %x, %0 : tensor<5x4x8xf32>, tensor<5x8x4xf32> -> tensor<5x4x4xf32>
  %2 = rlx.softmax %1 axis 2 : tensor<5x4x4xf32> -> tensor<5x4x4xf32>
  %3 = rlx.matmul %2, %x : tensor<5x4x4xf32>, tensor<5x4x8xf32> -> tensor<5x4x8xf32>
  %4 = rlx.transpose %3 permutation [1, 0, 2] : tensor<5x4x8xf32> -> tensor<4x5x8xf32>
  %5 = rlx.rms_norm %4 axis 2 epsilon 0.1 : tensor<4x5x8xf32> -> tensor<4x5x8xf32>
  %6 = rlx.layer_norm %4 axis 1 epsilon 0.1 : tensor<4x5x8xf32> -> tensor<4x5x8xf32>
  rlx.output %5, %6 : tensor<4x5x8xf32>, tensor<4x5x8xf32>
}
