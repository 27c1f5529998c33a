// RUN: rlx-opt %s --split-input-file --rlx-prepare --rlx-specialize=dims=B=2,S=3 --rlx-lower-host --rlx-print-plan -o /dev/null | FileCheck %s

// Embeddings tied to the head: row `id` of E is column `id` of E^T, packed for the product. No access to the plain form
// is left.

// CHECK-LABEL: plan of @tied(B, S)
// CHECK: %[[PLAIN:.*]] = weight 'e': 740 x f32{{$}}
// CHECK: %[[PACKED:.*]] = weight 'e': 740 x f32, panels of 16 columns of [20, 37] at 0 + 1*k + 20*n
// CHECK: steps
// CHECK-NOT: %[[PLAIN]][
// CHECK: loops 'rlx.gather' [B, S, 20]
// CHECK-NEXT: x0 = %[[PACKED]][k i2, n lookup(%{{.*}}[S*i0 + i1], 37)] : f32
// CHECK-NOT: %[[PLAIN]][
// CHECK: outputs
rlx.graph @tied(%ids: tensor<?x?xi64, #rlx.dims<[B, S]>>, %h: tensor<?x?x20xf32, #rlx.dims<[B, S, 20]>>)
    -> (tensor<?x?x20xf32, #rlx.dims<[B, S, 20]>>, tensor<?x?x37xf32, #rlx.dims<[B, S, 37]>>)
    attributes {dims = [#rlx.dim<"B">, #rlx.dim<"S">]} {
  %e = rlx.weight "e" : tensor<37x20xf32>
  %0 = rlx.gather %e, %ids axis 0 : tensor<37x20xf32>, tensor<?x?xi64, #rlx.dims<[B, S]>> -> tensor<?x?x20xf32, #rlx.dims<[B, S, 20]>>
  %1 = rlx.transpose %e permutation [1, 0] : tensor<37x20xf32> -> tensor<20x37xf32>
  %2 = rlx.matmul %h, %1 : tensor<?x?x20xf32, #rlx.dims<[B, S, 20]>>, tensor<20x37xf32> -> tensor<?x?x37xf32, #rlx.dims<[B, S, 37]>>
  rlx.output %0, %2 : tensor<?x?x20xf32, #rlx.dims<[B, S, 20]>>, tensor<?x?x37xf32, #rlx.dims<[B, S, 37]>>
}

// -----

// 8-bit: what is looked up is widened and scaled where it is used.

// CHECK-LABEL: plan of @quantized(B, S)
// CHECK: %[[PACKED:.*]] = weight 'e': 740 x i8, panels
// CHECK: loops 'rlx.gather'
// CHECK-NEXT: x0 = %[[PACKED]][k i1, n lookup(%{{.*}}[i0], 37)] : i8
// CHECK-NEXT: v0 = convert x0 : f32
// CHECK-NEXT: v1 = constant 0.5 : f32
// CHECK-NEXT: v2 = mul v0, v1 : f32
rlx.graph @quantized(%ids: tensor<?xi64, #rlx.dims<[S]>>, %h: tensor<?x20xf32, #rlx.dims<[B, 20]>>)
    -> (tensor<?x20xf32, #rlx.dims<[S, 20]>>, tensor<?x37xf32, #rlx.dims<[B, 37]>>)
    attributes {dims = [#rlx.dim<"B">, #rlx.dim<"S">]} {
  %q = rlx.weight "e" : tensor<37x20xi8>
  %s = rlx.constant dense<0.5> : tensor<f32>
  %f = rlx.convert %q : tensor<37x20xi8> -> tensor<37x20xf32>
  %e = rlx.mul %f, %s : tensor<37x20xf32>, tensor<f32> -> tensor<37x20xf32>
  %0 = rlx.gather %e, %ids axis 0 : tensor<37x20xf32>, tensor<?xi64, #rlx.dims<[S]>> -> tensor<?x20xf32, #rlx.dims<[S, 20]>>
  %1 = rlx.transpose %e permutation [1, 0] : tensor<37x20xf32> -> tensor<20x37xf32>
  %2 = rlx.matmul %h, %1 : tensor<?x20xf32, #rlx.dims<[B, 20]>>, tensor<20x37xf32> -> tensor<?x37xf32, #rlx.dims<[B, 37]>>
  rlx.output %0, %2 : tensor<?x20xf32, #rlx.dims<[S, 20]>>, tensor<?x37xf32, #rlx.dims<[B, 37]>>
}

// -----

// Of the matrix as it is stored, looked up along its columns, from the third row on and every other one.

// CHECK-LABEL: plan of @columns(B, S)
// CHECK: %[[PACKED:.*]] = weight 'w': 740 x f32, panels of 16 columns of [20, 37] at 0 + 37*k + 1*n
// CHECK: loops 'rlx.gather'
// CHECK-NEXT: x0 = %[[PACKED]][k 2 + 2*i0, n lookup(%{{.*}}[i1], 37)] : f32
rlx.graph @columns(%ids: tensor<?xi64, #rlx.dims<[S]>>, %h: tensor<?x20xf32, #rlx.dims<[B, 20]>>)
    -> (tensor<9x?xf32, #rlx.dims<[9, S]>>, tensor<?x37xf32, #rlx.dims<[B, 37]>>)
    attributes {dims = [#rlx.dim<"B">, #rlx.dim<"S">]} {
  %w = rlx.weight "w" : tensor<20x37xf32>
  %p = rlx.slice %w starts [2, 0] steps [2, 1] : tensor<20x37xf32> -> tensor<9x37xf32>
  %0 = rlx.gather %p, %ids axis 1 : tensor<9x37xf32>, tensor<?xi64, #rlx.dims<[S]>> -> tensor<9x?xf32, #rlx.dims<[9, S]>>
  %1 = rlx.matmul %h, %w : tensor<?x20xf32, #rlx.dims<[B, 20]>>, tensor<20x37xf32> -> tensor<?x37xf32, #rlx.dims<[B, 37]>>
  rlx.output %0, %1 : tensor<9x?xf32, #rlx.dims<[9, S]>>, tensor<?x37xf32, #rlx.dims<[B, 37]>>
}

// -----

// One use that is no lookup keeps the plain form, and the lookup reads that.

// CHECK-LABEL: plan of @plain(B, S)
// CHECK: %[[PLAIN:.*]] = weight 'e': 740 x f32{{$}}
// CHECK: loops 'rlx.gather'
// CHECK-NEXT: x0 = %[[PLAIN]][i1 + 20*lookup(%{{.*}}[i0], 37)] : f32
// CHECK: reduce
// CHECK-NEXT: x0 = %[[PLAIN]][
rlx.graph @plain(%ids: tensor<?xi64, #rlx.dims<[S]>>, %h: tensor<?x20xf32, #rlx.dims<[B, 20]>>)
    -> (tensor<?x20xf32, #rlx.dims<[S, 20]>>, tensor<?x37xf32, #rlx.dims<[B, 37]>>, tensor<20xf32>)
    attributes {dims = [#rlx.dim<"B">, #rlx.dim<"S">]} {
  %e = rlx.weight "e" : tensor<37x20xf32>
  %0 = rlx.gather %e, %ids axis 0 : tensor<37x20xf32>, tensor<?xi64, #rlx.dims<[S]>> -> tensor<?x20xf32, #rlx.dims<[S, 20]>>
  %1 = rlx.transpose %e permutation [1, 0] : tensor<37x20xf32> -> tensor<20x37xf32>
  %2 = rlx.matmul %h, %1 : tensor<?x20xf32, #rlx.dims<[B, 20]>>, tensor<20x37xf32> -> tensor<?x37xf32, #rlx.dims<[B, 37]>>
  %3 = rlx.reduce sum %e axes [0] : tensor<37x20xf32> -> tensor<20xf32>
  rlx.output %0, %2, %3 : tensor<?x20xf32, #rlx.dims<[S, 20]>>, tensor<?x37xf32, #rlx.dims<[B, 37]>>, tensor<20xf32>
}
