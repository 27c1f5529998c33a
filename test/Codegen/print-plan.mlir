// RUN: rlx-opt %s --rlx-prepare --rlx-specialize=dims=B=2,S=3,N=5,M=1 --rlx-lower-host --rlx-print-plan -o %t | FileCheck %s
// RUN: FileCheck %s --check-prefix=GRAPH < %t
// RUN: not rlx-opt %s --rlx-print-plan -o %t 2>&1 | FileCheck %s --check-prefix=EARLY

// The order of questions, buffers in the order of their first use, a step for each kernel. What is packed for the
// product is looked up in packed.

// CHECK-LABEL: plan of @main(B, S, N, M)
// CHECK-NEXT: guards
// CHECK-NEXT:   require broadcastable(N, M): yes  // graph: rlx.add: axis 0: N and M do not broadcast
// CHECK-NEXT: buffers
// CHECK-NEXT:   %0 = input 0: 4*B*S x f32
// CHECK-NEXT:   %1 = weight 'w': 32 x f32
// CHECK-NEXT:   %2 = param 'b': 8 x f32
// CHECK-NEXT:   %3 = arena steps 0..1: 8*B*S x f32
// CHECK-NEXT:   %4 = weight 'w': 32 x f32, panels of 16 columns of [4, 8] at 0 + 8*k + 1*n
// CHECK-NEXT:   %5 = output 0: 8*B*S x f32
// CHECK-NEXT:   %6 = input 1: N x i64
// CHECK-NEXT:   %7 = arena steps 2..3: 8*N x f32
// CHECK-NEXT:   %8 = input 2: 8*M x f32
// CHECK-NEXT:   %9 = output 1: 8*broadcast(M, N) x f32
// CHECK-NEXT:   %10 = output 2: B x f16
// CHECK-NEXT: steps
// The batch became rows, the weight is packed, the epilogue adds the bias.
// CHECK-NEXT:   0 matmul 'rlx.add' [B*S, 8] k 4 strides 1, 0
// CHECK-NEXT:     x0 = %0[4*i0] : f32
// CHECK-NEXT:     x1 = %4[0] : f32
// CHECK-NEXT:     x2 = %2[i1] : f32
// CHECK-NEXT:     v0 = add acc, x2 : f32
// CHECK-NEXT:     %3[8*i0 + i1] = v0 : f32
// CHECK-NEXT:   1 rows 'rlx.softmax' [B, S, 8] softmax
// CHECK-NEXT:     x0 = %3[8*S*i0 + 8*i1 + i2] : f32
// CHECK-NEXT:     %5[8*S*i0 + 8*i1 + i2] : f32
// CHECK-NEXT:   2 loops 'rlx.gather' [N, 8]
// CHECK-NEXT:     x0 = %4[k lookup(%6[i0], 4), n i1] : f32
// CHECK-NEXT:     v0 = constant 2.5 : f32
// CHECK-NEXT:     v1 = mul x0, v0 : f32
// CHECK-NEXT:     %7[8*i0 + i1] = v1 : f32
// Which of N and M is 1 is a matter of strides.
// CHECK-NEXT:   3 loops 'rlx.add' [broadcast(M, N), 8]
// CHECK-NEXT:     x0 = %7[(N == 1 ? 0 : 8)*i0 + i1] : f32
// CHECK-NEXT:     x1 = %8[(M == 1 ? 0 : 8)*i0 + i1] : f32
// CHECK-NEXT:     v0 = add x0, x1 : f32
// CHECK-NEXT:     %9[8*i0 + i1] = v0 : f32
// CHECK-NEXT:   4 reduce 'rlx.reduce' [B, S, 4] sum over the last 2 in f32
// CHECK-NEXT:     x0 = %0[4*S*i0 + 4*i1 + i2] : f32
// CHECK-NEXT:     v0 = convert x0 : f16
// CHECK-NEXT:     v1 = convert v0 : f32
// CHECK-NEXT:     e0 = div acc, count : f32
// CHECK-NEXT:     e1 = convert e0 : f16
// CHECK-NEXT:     %10[i0] = e1 of v1 : f16
// CHECK-NEXT: outputs
// CHECK-NEXT:   %5 as [B, S, 8] : f32
// CHECK-NEXT:   %9 as [broadcast(M, N), 8] : f32
// CHECK-NEXT:   %10 as [B] : f16

// The graph itself goes on unchanged.
// GRAPH: rlx.kernel matmul
// GRAPH: rlx.output

// EARLY: error: node 'rlx.softmax': 'rlx.softmax' is not part of a kernel: run rlx-form-kernels first

rlx.graph @main(%x: tensor<?x?x4xf32, #rlx.dims<[B, S, 4]>>, %ids: tensor<?xi64, #rlx.dims<[N]>>,
                %z: tensor<?x8xf32, #rlx.dims<[M, 8]>>)
    -> (tensor<?x?x8xf32, #rlx.dims<[B, S, 8]>>, tensor<?x8xf32>, tensor<?xf16, #rlx.dims<[B]>>)
    attributes {dims = [#rlx.dim<"B">, #rlx.dim<"S">, #rlx.dim<"N">, #rlx.dim<"M">]} {
  %w = rlx.weight "w" : tensor<4x8xf32>
  %b = rlx.param "b" : tensor<8xf32>
  %0 = rlx.matmul %x, %w : tensor<?x?x4xf32, #rlx.dims<[B, S, 4]>>, tensor<4x8xf32> -> tensor<?x?x8xf32, #rlx.dims<[B, S, 8]>>
  %1 = rlx.add %0, %b : tensor<?x?x8xf32, #rlx.dims<[B, S, 8]>>, tensor<8xf32> -> tensor<?x?x8xf32, #rlx.dims<[B, S, 8]>>
  %2 = rlx.softmax %1 axis 2 : tensor<?x?x8xf32, #rlx.dims<[B, S, 8]>> -> tensor<?x?x8xf32, #rlx.dims<[B, S, 8]>>
  %3 = rlx.gather %w, %ids axis 0 : tensor<4x8xf32>, tensor<?xi64, #rlx.dims<[N]>> -> tensor<?x8xf32, #rlx.dims<[N, 8]>>
  %two = rlx.constant dense<2.5> : tensor<f32>
  %4 = rlx.mul %3, %two : tensor<?x8xf32, #rlx.dims<[N, 8]>>, tensor<f32> -> tensor<?x8xf32, #rlx.dims<[N, 8]>>
  %5 = rlx.add %4, %z : tensor<?x8xf32, #rlx.dims<[N, 8]>>, tensor<?x8xf32, #rlx.dims<[M, 8]>> -> tensor<?x8xf32, #rlx.dims<[broadcast(N, M), 8]>>
  %6 = rlx.convert %x : tensor<?x?x4xf32, #rlx.dims<[B, S, 4]>> -> tensor<?x?x4xf16, #rlx.dims<[B, S, 4]>>
  %7 = rlx.reduce mean %6 axes [1, 2] : tensor<?x?x4xf16, #rlx.dims<[B, S, 4]>> -> tensor<?xf16, #rlx.dims<[B]>>
  rlx.output %2, %5, %7 : tensor<?x?x8xf32, #rlx.dims<[B, S, 8]>>, tensor<?x8xf32, #rlx.dims<[broadcast(N, M), 8]>>, tensor<?xf16, #rlx.dims<[B]>>
}
