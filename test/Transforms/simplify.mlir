// RUN: rlx-opt %s --rlx-simplify --split-input-file | FileCheck %s

// GELU by erf as MiniLM spells it: x * (0.5 * (1 + erf(x / sqrt(2)))), x being a sum itself.
// CHECK-LABEL: rlx.graph @gelu_minilm
// CHECK: %[[X:.*]] = rlx.add
// CHECK-NEXT: %[[G:.*]] = rlx.gelu %[[X]] :
// CHECK-NEXT: rlx.output %[[G]]
rlx.graph @gelu_minilm(%m: tensor<?x?x1536xf32, #rlx.dims<[B, S, 1536]>>) -> tensor<?x?x1536xf32, #rlx.dims<[B, S, 1536]>> attributes {dims = [#rlx.dim<"B">, #rlx.dim<"S">]} {
  %b = rlx.weight "bias" : tensor<1536xf32>
  %root2 = rlx.constant dense<1.41421354> : tensor<f32>
  %one = rlx.constant dense<1.0> : tensor<f32>
  %half = rlx.constant dense<0.5> : tensor<f32>
  %x = rlx.add %m, %b : tensor<?x?x1536xf32, #rlx.dims<[B, S, 1536]>>, tensor<1536xf32> -> tensor<?x?x1536xf32, #rlx.dims<[B, S, 1536]>>
  %0 = rlx.div %x, %root2 : tensor<?x?x1536xf32, #rlx.dims<[B, S, 1536]>>, tensor<f32> -> tensor<?x?x1536xf32, #rlx.dims<[B, S, 1536]>>
  %1 = rlx.erf %0 : tensor<?x?x1536xf32, #rlx.dims<[B, S, 1536]>> -> tensor<?x?x1536xf32, #rlx.dims<[B, S, 1536]>>
  %2 = rlx.add %1, %one : tensor<?x?x1536xf32, #rlx.dims<[B, S, 1536]>>, tensor<f32> -> tensor<?x?x1536xf32, #rlx.dims<[B, S, 1536]>>
  %3 = rlx.mul %half, %2 : tensor<f32>, tensor<?x?x1536xf32, #rlx.dims<[B, S, 1536]>> -> tensor<?x?x1536xf32, #rlx.dims<[B, S, 1536]>>
  %4 = rlx.mul %x, %3 : tensor<?x?x1536xf32, #rlx.dims<[B, S, 1536]>>, tensor<?x?x1536xf32, #rlx.dims<[B, S, 1536]>> -> tensor<?x?x1536xf32, #rlx.dims<[B, S, 1536]>>
  rlx.output %4 : tensor<?x?x1536xf32, #rlx.dims<[B, S, 1536]>>
}

// -----

// GELU by erf as rxnmap spells it: (x * (erf(x / sqrt(2)) + 1)) * 0.5.
// CHECK-LABEL: rlx.graph @gelu_rxnmap
// CHECK: %[[G:.*]] = rlx.gelu %arg0 :
// CHECK-NEXT: rlx.output %[[G]]
rlx.graph @gelu_rxnmap(%x: tensor<?x?x1536xf32, #rlx.dims<[B, S, 1536]>>) -> tensor<?x?x1536xf32, #rlx.dims<[B, S, 1536]>> attributes {dims = [#rlx.dim<"B">, #rlx.dim<"S">]} {
  %root2 = rlx.constant dense<1.41421354> : tensor<f32>
  %one = rlx.constant dense<1.0> : tensor<f32>
  %half = rlx.constant dense<0.5> : tensor<f32>
  %0 = rlx.div %x, %root2 : tensor<?x?x1536xf32, #rlx.dims<[B, S, 1536]>>, tensor<f32> -> tensor<?x?x1536xf32, #rlx.dims<[B, S, 1536]>>
  %1 = rlx.erf %0 : tensor<?x?x1536xf32, #rlx.dims<[B, S, 1536]>> -> tensor<?x?x1536xf32, #rlx.dims<[B, S, 1536]>>
  %2 = rlx.add %1, %one : tensor<?x?x1536xf32, #rlx.dims<[B, S, 1536]>>, tensor<f32> -> tensor<?x?x1536xf32, #rlx.dims<[B, S, 1536]>>
  %3 = rlx.mul %x, %2 : tensor<?x?x1536xf32, #rlx.dims<[B, S, 1536]>>, tensor<?x?x1536xf32, #rlx.dims<[B, S, 1536]>> -> tensor<?x?x1536xf32, #rlx.dims<[B, S, 1536]>>
  %4 = rlx.mul %3, %half : tensor<?x?x1536xf32, #rlx.dims<[B, S, 1536]>>, tensor<f32> -> tensor<?x?x1536xf32, #rlx.dims<[B, S, 1536]>>
  rlx.output %4 : tensor<?x?x1536xf32, #rlx.dims<[B, S, 1536]>>
}

// -----

// (0.5 * x) * (1 + erf(x * 0.70710678)), and the product written out: both are GELU.
// CHECK-LABEL: rlx.graph @gelu_orders
// CHECK: %[[G:.*]] = rlx.gelu %arg0 :
// CHECK-NEXT: rlx.output %[[G]], %[[G]]
rlx.graph @gelu_orders(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %c = rlx.constant dense<0.707106769> : tensor<f32>
  %one = rlx.constant dense<1.0> : tensor<1xf32>
  %half = rlx.constant dense<0.5> : tensor<f32>
  %0 = rlx.mul %x, %c : tensor<8xf32>, tensor<f32> -> tensor<8xf32>
  %1 = rlx.erf %0 : tensor<8xf32> -> tensor<8xf32>
  %2 = rlx.add %one, %1 : tensor<1xf32>, tensor<8xf32> -> tensor<8xf32>
  %3 = rlx.mul %half, %x : tensor<f32>, tensor<8xf32> -> tensor<8xf32>
  %4 = rlx.mul %3, %2 : tensor<8xf32>, tensor<8xf32> -> tensor<8xf32>
  %e = rlx.mul %c, %x : tensor<f32>, tensor<8xf32> -> tensor<8xf32>
  %f = rlx.erf %e : tensor<8xf32> -> tensor<8xf32>
  %g = rlx.mul %x, %f : tensor<8xf32>, tensor<8xf32> -> tensor<8xf32>
  %h = rlx.add %x, %g : tensor<8xf32>, tensor<8xf32> -> tensor<8xf32>
  %i = rlx.mul %h, %half : tensor<8xf32>, tensor<f32> -> tensor<8xf32>
  rlx.output %4, %i : tensor<8xf32>, tensor<8xf32>
}

// -----

// GELU by tanh as maskseq spells it: (x * 0.5) * (tanh((x + x^3 * 0.044715) * 0.79788) + 1).
// CHECK-LABEL: rlx.graph @gelu_maskseq
// CHECK: %[[G:.*]] = rlx.gelu %arg0 {approximate} :
// CHECK-NEXT: rlx.output %[[G]]
rlx.graph @gelu_maskseq(%x: tensor<64x1536xf32>) -> tensor<64x1536xf32> {
  %half = rlx.constant dense<0.5> : tensor<f32>
  %three = rlx.constant dense<3.0> : tensor<f32>
  %k = rlx.constant dense<4.471500e-02> : tensor<f32>
  %c = rlx.constant dense<0.797884583> : tensor<f32>
  %one = rlx.constant dense<1.0> : tensor<f32>
  %0 = rlx.mul %x, %half : tensor<64x1536xf32>, tensor<f32> -> tensor<64x1536xf32>
  %1 = rlx.pow %x, %three : tensor<64x1536xf32>, tensor<f32> -> tensor<64x1536xf32>
  %2 = rlx.mul %1, %k : tensor<64x1536xf32>, tensor<f32> -> tensor<64x1536xf32>
  %3 = rlx.add %x, %2 : tensor<64x1536xf32>, tensor<64x1536xf32> -> tensor<64x1536xf32>
  %4 = rlx.mul %3, %c : tensor<64x1536xf32>, tensor<f32> -> tensor<64x1536xf32>
  %5 = rlx.tanh %4 : tensor<64x1536xf32> -> tensor<64x1536xf32>
  %6 = rlx.add %5, %one : tensor<64x1536xf32>, tensor<f32> -> tensor<64x1536xf32>
  %7 = rlx.mul %0, %6 : tensor<64x1536xf32>, tensor<64x1536xf32> -> tensor<64x1536xf32>
  rlx.output %7 : tensor<64x1536xf32>
}

// -----

// The same with x * x * x and the factor inside: 0.5 * x * (1 + tanh(0.79788 * x * (1 + 0.044715 * x * x))).
// CHECK-LABEL: rlx.graph @gelu_fast
// CHECK: %[[G:.*]] = rlx.gelu %arg0 {approximate} :
// CHECK-NEXT: rlx.output %[[G]]
rlx.graph @gelu_fast(%x: tensor<8xf32>) -> tensor<8xf32> {
  %half = rlx.constant dense<0.5> : tensor<f32>
  %k = rlx.constant dense<4.471500e-02> : tensor<f32>
  %c = rlx.constant dense<0.79788456> : tensor<f32>
  %one = rlx.constant dense<1.0> : tensor<f32>
  %0 = rlx.mul %x, %k : tensor<8xf32>, tensor<f32> -> tensor<8xf32>
  %1 = rlx.mul %0, %x : tensor<8xf32>, tensor<8xf32> -> tensor<8xf32>
  %2 = rlx.add %one, %1 : tensor<f32>, tensor<8xf32> -> tensor<8xf32>
  %3 = rlx.mul %x, %c : tensor<8xf32>, tensor<f32> -> tensor<8xf32>
  %4 = rlx.mul %3, %2 : tensor<8xf32>, tensor<8xf32> -> tensor<8xf32>
  %5 = rlx.tanh %4 : tensor<8xf32> -> tensor<8xf32>
  %6 = rlx.add %one, %5 : tensor<f32>, tensor<8xf32> -> tensor<8xf32>
  %7 = rlx.mul %half, %x : tensor<f32>, tensor<8xf32> -> tensor<8xf32>
  %8 = rlx.mul %7, %6 : tensor<8xf32>, tensor<8xf32> -> tensor<8xf32>
  rlx.output %8 : tensor<8xf32>
}

// -----

// Nearly GELU is not GELU: another constant under erf, another x outside, a constant that widens the shape, a value
// that others read too.
// CHECK-LABEL: rlx.graph @not_gelu
// CHECK-NOT: rlx.gelu
// CHECK: rlx.output
rlx.graph @not_gelu(%x: tensor<8xf32>, %y: tensor<8xf32>)
    -> (tensor<8xf32>, tensor<8xf32>, tensor<1x8xf32>, tensor<8xf32>, tensor<8xf32>) {
  %c = rlx.constant dense<0.707106769> : tensor<f32>
  %d = rlx.constant dense<0.7> : tensor<f32>
  %half = rlx.constant dense<0.5> : tensor<f32>
  %wide = rlx.constant dense<0.5> : tensor<1x1xf32>
  %one = rlx.constant dense<1.0> : tensor<f32>
  %0 = rlx.mul %x, %d : tensor<8xf32>, tensor<f32> -> tensor<8xf32>
  %1 = rlx.erf %0 : tensor<8xf32> -> tensor<8xf32>
  %2 = rlx.add %1, %one : tensor<8xf32>, tensor<f32> -> tensor<8xf32>
  %3 = rlx.mul %x, %2 : tensor<8xf32>, tensor<8xf32> -> tensor<8xf32>
  %4 = rlx.mul %3, %half : tensor<8xf32>, tensor<f32> -> tensor<8xf32>
  %5 = rlx.mul %y, %c : tensor<8xf32>, tensor<f32> -> tensor<8xf32>
  %6 = rlx.erf %5 : tensor<8xf32> -> tensor<8xf32>
  %7 = rlx.add %6, %one : tensor<8xf32>, tensor<f32> -> tensor<8xf32>
  %8 = rlx.mul %x, %7 : tensor<8xf32>, tensor<8xf32> -> tensor<8xf32>
  %9 = rlx.mul %8, %half : tensor<8xf32>, tensor<f32> -> tensor<8xf32>
  %10 = rlx.mul %8, %wide : tensor<8xf32>, tensor<1x1xf32> -> tensor<1x8xf32>
  rlx.output %4, %9, %10, %7, %6 : tensor<8xf32>, tensor<8xf32>, tensor<1x8xf32>, tensor<8xf32>, tensor<8xf32>
}

// -----

// Layer normalisation as torch's older exporter spells it: ReduceMean, Sub, Pow 2, ReduceMean, Add, Sqrt, Div, Mul, Add.
// CHECK-LABEL: rlx.graph @layer_norm
// CHECK-DAG: %[[S:.*]] = rlx.weight "gamma"
// CHECK-DAG: %[[T:.*]] = rlx.weight "beta"
// CHECK: %[[N:.*]] = rlx.layer_norm %arg0 scale %[[S]] : tensor<64xf32> bias %[[T]] : tensor<64xf32> axis 2 epsilon 9.9999997473787516E-6
// CHECK-NEXT: rlx.output %[[N]]
rlx.graph @layer_norm(%x: tensor<?x7x64xf32, #rlx.dims<[B, 7, 64]>>) -> tensor<?x7x64xf32, #rlx.dims<[B, 7, 64]>> attributes {dims = [#rlx.dim<"B">]} {
  %g = rlx.weight "gamma" : tensor<64xf32>
  %b = rlx.weight "beta" : tensor<64xf32>
  %two = rlx.constant dense<2.0> : tensor<f32>
  %eps = rlx.constant dense<9.99999974E-6> : tensor<f32>
  %0 = rlx.reduce mean %x axes [2] keep_dims : tensor<?x7x64xf32, #rlx.dims<[B, 7, 64]>> -> tensor<?x7x1xf32, #rlx.dims<[B, 7, 1]>>
  %1 = rlx.sub %x, %0 : tensor<?x7x64xf32, #rlx.dims<[B, 7, 64]>>, tensor<?x7x1xf32, #rlx.dims<[B, 7, 1]>> -> tensor<?x7x64xf32, #rlx.dims<[B, 7, 64]>>
  %2 = rlx.pow %1, %two : tensor<?x7x64xf32, #rlx.dims<[B, 7, 64]>>, tensor<f32> -> tensor<?x7x64xf32, #rlx.dims<[B, 7, 64]>>
  %3 = rlx.reduce mean %2 axes [2] keep_dims : tensor<?x7x64xf32, #rlx.dims<[B, 7, 64]>> -> tensor<?x7x1xf32, #rlx.dims<[B, 7, 1]>>
  %4 = rlx.add %3, %eps : tensor<?x7x1xf32, #rlx.dims<[B, 7, 1]>>, tensor<f32> -> tensor<?x7x1xf32, #rlx.dims<[B, 7, 1]>>
  %5 = rlx.sqrt %4 : tensor<?x7x1xf32, #rlx.dims<[B, 7, 1]>> -> tensor<?x7x1xf32, #rlx.dims<[B, 7, 1]>>
  %6 = rlx.div %1, %5 : tensor<?x7x64xf32, #rlx.dims<[B, 7, 64]>>, tensor<?x7x1xf32, #rlx.dims<[B, 7, 1]>> -> tensor<?x7x64xf32, #rlx.dims<[B, 7, 64]>>
  %7 = rlx.mul %6, %g : tensor<?x7x64xf32, #rlx.dims<[B, 7, 64]>>, tensor<64xf32> -> tensor<?x7x64xf32, #rlx.dims<[B, 7, 64]>>
  %8 = rlx.add %7, %b : tensor<?x7x64xf32, #rlx.dims<[B, 7, 64]>>, tensor<64xf32> -> tensor<?x7x64xf32, #rlx.dims<[B, 7, 64]>>
  rlx.output %8 : tensor<?x7x64xf32, #rlx.dims<[B, 7, 64]>>
}

// -----

// As another exporter does: the difference taken twice, its square by a product, a reciprocal, [1, 1, 64] scales.
// CHECK-LABEL: rlx.graph @layer_norm_twice
// CHECK: %[[N:.*]] = rlx.layer_norm %arg0 scale %{{.*}} : tensor<64xf32> bias %{{.*}} : tensor<64xf32> axis 2 epsilon
// CHECK-NEXT: rlx.output %[[N]]
rlx.graph @layer_norm_twice(%x: tensor<?x7x64xf32, #rlx.dims<[B, 7, 64]>>) -> tensor<?x7x64xf32, #rlx.dims<[B, 7, 64]>> attributes {dims = [#rlx.dim<"B">]} {
  %g = rlx.weight "gamma" : tensor<1x1x64xf32>
  %b = rlx.weight "beta" : tensor<1x1x64xf32>
  %eps = rlx.constant dense<9.99999974E-6> : tensor<f32>
  %m = rlx.reduce mean %x axes [2] keep_dims : tensor<?x7x64xf32, #rlx.dims<[B, 7, 64]>> -> tensor<?x7x1xf32, #rlx.dims<[B, 7, 1]>>
  %d = rlx.sub %x, %m : tensor<?x7x64xf32, #rlx.dims<[B, 7, 64]>>, tensor<?x7x1xf32, #rlx.dims<[B, 7, 1]>> -> tensor<?x7x64xf32, #rlx.dims<[B, 7, 64]>>
  %e = rlx.sub %x, %m : tensor<?x7x64xf32, #rlx.dims<[B, 7, 64]>>, tensor<?x7x1xf32, #rlx.dims<[B, 7, 1]>> -> tensor<?x7x64xf32, #rlx.dims<[B, 7, 64]>>
  %2 = rlx.mul %e, %e : tensor<?x7x64xf32, #rlx.dims<[B, 7, 64]>>, tensor<?x7x64xf32, #rlx.dims<[B, 7, 64]>> -> tensor<?x7x64xf32, #rlx.dims<[B, 7, 64]>>
  %3 = rlx.reduce mean %2 axes [2] keep_dims : tensor<?x7x64xf32, #rlx.dims<[B, 7, 64]>> -> tensor<?x7x1xf32, #rlx.dims<[B, 7, 1]>>
  %4 = rlx.add %eps, %3 : tensor<f32>, tensor<?x7x1xf32, #rlx.dims<[B, 7, 1]>> -> tensor<?x7x1xf32, #rlx.dims<[B, 7, 1]>>
  %5 = rlx.sqrt %4 : tensor<?x7x1xf32, #rlx.dims<[B, 7, 1]>> -> tensor<?x7x1xf32, #rlx.dims<[B, 7, 1]>>
  %6 = rlx.reciprocal %5 : tensor<?x7x1xf32, #rlx.dims<[B, 7, 1]>> -> tensor<?x7x1xf32, #rlx.dims<[B, 7, 1]>>
  %7 = rlx.mul %6, %d : tensor<?x7x1xf32, #rlx.dims<[B, 7, 1]>>, tensor<?x7x64xf32, #rlx.dims<[B, 7, 64]>> -> tensor<?x7x64xf32, #rlx.dims<[B, 7, 64]>>
  %8 = rlx.mul %g, %7 : tensor<1x1x64xf32>, tensor<?x7x64xf32, #rlx.dims<[B, 7, 64]>> -> tensor<?x7x64xf32, #rlx.dims<[B, 7, 64]>>
  %9 = rlx.add %8, %b : tensor<?x7x64xf32, #rlx.dims<[B, 7, 64]>>, tensor<1x1x64xf32> -> tensor<?x7x64xf32, #rlx.dims<[B, 7, 64]>>
  rlx.output %9 : tensor<?x7x64xf32, #rlx.dims<[B, 7, 64]>>
}

// -----

// RMS normalisation: x * (1 / sqrt(mean(x^2) + eps)) * scale.
// CHECK-LABEL: rlx.graph @rms_norm
// CHECK: %[[N:.*]] = rlx.rms_norm %arg0 scale %{{.*}} : tensor<64xf32> axis 2 epsilon
// CHECK-NEXT: rlx.output %[[N]]
rlx.graph @rms_norm(%x: tensor<?x7x64xf32, #rlx.dims<[B, 7, 64]>>) -> tensor<?x7x64xf32, #rlx.dims<[B, 7, 64]>> attributes {dims = [#rlx.dim<"B">]} {
  %g = rlx.weight "gamma" : tensor<64xf32>
  %one = rlx.constant dense<1.0> : tensor<f32>
  %two = rlx.constant dense<2.0> : tensor<f32>
  %eps = rlx.constant dense<9.99999974E-6> : tensor<f32>
  %2 = rlx.pow %x, %two : tensor<?x7x64xf32, #rlx.dims<[B, 7, 64]>>, tensor<f32> -> tensor<?x7x64xf32, #rlx.dims<[B, 7, 64]>>
  %3 = rlx.reduce mean %2 axes [2] keep_dims : tensor<?x7x64xf32, #rlx.dims<[B, 7, 64]>> -> tensor<?x7x1xf32, #rlx.dims<[B, 7, 1]>>
  %4 = rlx.add %3, %eps : tensor<?x7x1xf32, #rlx.dims<[B, 7, 1]>>, tensor<f32> -> tensor<?x7x1xf32, #rlx.dims<[B, 7, 1]>>
  %5 = rlx.sqrt %4 : tensor<?x7x1xf32, #rlx.dims<[B, 7, 1]>> -> tensor<?x7x1xf32, #rlx.dims<[B, 7, 1]>>
  %6 = rlx.div %one, %5 : tensor<f32>, tensor<?x7x1xf32, #rlx.dims<[B, 7, 1]>> -> tensor<?x7x1xf32, #rlx.dims<[B, 7, 1]>>
  %7 = rlx.mul %x, %6 : tensor<?x7x64xf32, #rlx.dims<[B, 7, 64]>>, tensor<?x7x1xf32, #rlx.dims<[B, 7, 1]>> -> tensor<?x7x64xf32, #rlx.dims<[B, 7, 64]>>
  %8 = rlx.mul %g, %7 : tensor<64xf32>, tensor<?x7x64xf32, #rlx.dims<[B, 7, 64]>> -> tensor<?x7x64xf32, #rlx.dims<[B, 7, 64]>>
  rlx.output %8 : tensor<?x7x64xf32, #rlx.dims<[B, 7, 64]>>
}

// -----

// Not normalisations: means over different axes, over an axis that is not last, a scale of another shape.
// CHECK-LABEL: rlx.graph @not_norm
// CHECK-NOT: rlx.layer_norm
// CHECK: rlx.output
rlx.graph @not_norm(%x: tensor<5x7x64xf32>) -> (tensor<5x7x64xf32>, tensor<5x7x64xf32>) {
  %eps = rlx.constant dense<9.99999974E-6> : tensor<f32>
  %0 = rlx.reduce mean %x axes [1] keep_dims : tensor<5x7x64xf32> -> tensor<5x1x64xf32>
  %1 = rlx.sub %x, %0 : tensor<5x7x64xf32>, tensor<5x1x64xf32> -> tensor<5x7x64xf32>
  %2 = rlx.mul %1, %1 : tensor<5x7x64xf32>, tensor<5x7x64xf32> -> tensor<5x7x64xf32>
  %3 = rlx.reduce mean %2 axes [1] keep_dims : tensor<5x7x64xf32> -> tensor<5x1x64xf32>
  %4 = rlx.add %3, %eps : tensor<5x1x64xf32>, tensor<f32> -> tensor<5x1x64xf32>
  %5 = rlx.sqrt %4 : tensor<5x1x64xf32> -> tensor<5x1x64xf32>
  %6 = rlx.div %1, %5 : tensor<5x7x64xf32>, tensor<5x1x64xf32> -> tensor<5x7x64xf32>
  %a = rlx.reduce mean %2 axes [1, 2] keep_dims : tensor<5x7x64xf32> -> tensor<5x1x1xf32>
  %b = rlx.add %a, %eps : tensor<5x1x1xf32>, tensor<f32> -> tensor<5x1x1xf32>
  %c = rlx.sqrt %b : tensor<5x1x1xf32> -> tensor<5x1x1xf32>
  %d = rlx.div %6, %c : tensor<5x7x64xf32>, tensor<5x1x1xf32> -> tensor<5x7x64xf32>
  rlx.output %6, %d : tensor<5x7x64xf32>, tensor<5x7x64xf32>
}

// -----

// MiniLM's int8 weights: the scale of each column moves behind the matmul, the weight stays int8.
// CHECK-LABEL: rlx.graph @int8_matmul
// CHECK-DAG: %[[W:.*]] = rlx.weight "q" : tensor<384x384xi8>
// CHECK-DAG: %[[S:.*]] = rlx.weight "s" : tensor<1x384xf32>
// CHECK: %[[M:.*]] = rlx.matmul %arg0, %[[W]] : tensor<?x?x384xf32, #rlx.dims<[B, S, 384]>>, tensor<384x384xi8>
// CHECK-NEXT: %[[R:.*]] = rlx.mul %[[M]], %[[S]] : {{.*}} -> tensor<?x?x384xf32, #rlx.dims<[B, S, 384]>>
// CHECK-NEXT: rlx.output %[[R]]
rlx.graph @int8_matmul(%x: tensor<?x?x384xf32, #rlx.dims<[B, S, 384]>>) -> tensor<?x?x384xf32, #rlx.dims<[B, S, 384]>>
    attributes {dims = [#rlx.dim<"B">, #rlx.dim<"S">]} {
  %w = rlx.weight "q" : tensor<384x384xi8>
  %s = rlx.weight "s" : tensor<1x384xf32>
  %0 = rlx.convert %w : tensor<384x384xi8> -> tensor<384x384xf32>
  %1 = rlx.mul %0, %s : tensor<384x384xf32>, tensor<1x384xf32> -> tensor<384x384xf32>
  %2 = rlx.matmul %x, %1 : tensor<?x?x384xf32, #rlx.dims<[B, S, 384]>>, tensor<384x384xf32>
                           -> tensor<?x?x384xf32, #rlx.dims<[B, S, 384]>>
  rlx.output %2 : tensor<?x?x384xf32, #rlx.dims<[B, S, 384]>>
}

// -----

// One scale for all; and a weight stored transposed, with a scale per row of what is stored.
// CHECK-LABEL: rlx.graph @int8_other_scales
// CHECK-DAG: %[[W:.*]] = rlx.weight "q"
// CHECK-DAG: %[[S:.*]] = rlx.weight "one"
// CHECK-DAG: %[[C:.*]] = rlx.weight "rows"
// CHECK: %[[A:.*]] = rlx.matmul %arg0, %[[W]] :
// CHECK: rlx.mul %[[A]], %[[S]]
// CHECK-DAG: %[[T:.*]] = rlx.transpose %[[W]] permutation [1, 0] : tensor<8x8xi8> -> tensor<8x8xi8>
// CHECK-DAG: %[[U:.*]] = rlx.transpose %[[C]] permutation [1, 0] : tensor<8x1xf32> -> tensor<1x8xf32>
// CHECK: %[[B:.*]] = rlx.matmul %arg0, %[[T]] : tensor<2x8xf32>, tensor<8x8xi8>
// CHECK: rlx.mul %[[B]], %[[U]]
rlx.graph @int8_other_scales(%x: tensor<2x8xf32>) -> (tensor<2x8xf32>, tensor<2x8xf32>) {
  %w = rlx.weight "q" : tensor<8x8xi8>
  %s = rlx.weight "one" : tensor<f32>
  %c = rlx.weight "rows" : tensor<8x1xf32>
  %0 = rlx.convert %w : tensor<8x8xi8> -> tensor<8x8xf32>
  %1 = rlx.mul %s, %0 : tensor<f32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %2 = rlx.matmul %x, %1 : tensor<2x8xf32>, tensor<8x8xf32> -> tensor<2x8xf32>
  %3 = rlx.mul %0, %c : tensor<8x8xf32>, tensor<8x1xf32> -> tensor<8x8xf32>
  %4 = rlx.transpose %3 permutation [1, 0] : tensor<8x8xf32> -> tensor<8x8xf32>
  %5 = rlx.matmul %x, %4 : tensor<2x8xf32>, tensor<8x8xf32> -> tensor<2x8xf32>
  rlx.output %2, %5 : tensor<2x8xf32>, tensor<2x8xf32>
}

// -----

// A scale that varies along K cannot move: the sum over K would mix it.
// CHECK-LABEL: rlx.graph @int8_scale_along_k
// CHECK: rlx.convert
// CHECK: %[[D:.*]] = rlx.mul
// CHECK: rlx.matmul %arg0, %[[D]]
rlx.graph @int8_scale_along_k(%x: tensor<2x8xf32>) -> tensor<2x4xf32> {
  %w = rlx.weight "q" : tensor<8x4xi8>
  %c = rlx.weight "rows" : tensor<8x1xf32>
  %0 = rlx.convert %w : tensor<8x4xi8> -> tensor<8x4xf32>
  %1 = rlx.mul %0, %c : tensor<8x4xf32>, tensor<8x1xf32> -> tensor<8x4xf32>
  %2 = rlx.matmul %x, %1 : tensor<2x8xf32>, tensor<8x4xf32> -> tensor<2x4xf32>
  rlx.output %2 : tensor<2x4xf32>
}

// -----

// MiniLM's embedding: rows are looked up in int8, with the scale of each row.
// CHECK-LABEL: rlx.graph @int8_gather
// CHECK-DAG: %[[W:.*]] = rlx.weight "q" : tensor<30522x384xi8>
// CHECK-DAG: %[[S:.*]] = rlx.weight "s" : tensor<30522x1xf32>
// CHECK-DAG: %[[R:.*]] = rlx.gather %[[W]], %arg0 axis 0 : {{.*}} -> tensor<?x?x384xi8, #rlx.dims<[B, S, 384]>>
// CHECK-DAG: %[[F:.*]] = rlx.convert %[[R]] : {{.*}} -> tensor<?x?x384xf32, #rlx.dims<[B, S, 384]>>
// CHECK-DAG: %[[G:.*]] = rlx.gather %[[S]], %arg0 axis 0 : {{.*}} -> tensor<?x?x1xf32, #rlx.dims<[B, S, 1]>>
// CHECK: %[[P:.*]] = rlx.mul %[[F]], %[[G]]
// CHECK-NEXT: rlx.output %[[P]]
rlx.graph @int8_gather(%i: tensor<?x?xi64, #rlx.dims<[B, S]>>) -> tensor<?x?x384xf32, #rlx.dims<[B, S, 384]>>
    attributes {dims = [#rlx.dim<"B">, #rlx.dim<"S">]} {
  %w = rlx.weight "q" : tensor<30522x384xi8>
  %s = rlx.weight "s" : tensor<30522x1xf32>
  %0 = rlx.convert %w : tensor<30522x384xi8> -> tensor<30522x384xf32>
  %1 = rlx.mul %0, %s : tensor<30522x384xf32>, tensor<30522x1xf32> -> tensor<30522x384xf32>
  %2 = rlx.gather %1, %i axis 0 : tensor<30522x384xf32>, tensor<?x?xi64, #rlx.dims<[B, S]>>
                                  -> tensor<?x?x384xf32, #rlx.dims<[B, S, 384]>>
  rlx.output %2 : tensor<?x?x384xf32, #rlx.dims<[B, S, 384]>>
}

// -----

// A scale per column stays as it is; one index gives one row.
// CHECK-LABEL: rlx.graph @int8_gather_columns
// CHECK: %[[R:.*]] = rlx.gather %{{.*}}, %arg0 axis 0 : tensor<9x4xi8>, tensor<i64> -> tensor<4xi8>
// CHECK: %[[F:.*]] = rlx.convert %[[R]]
// CHECK: rlx.mul %[[F]], %{{.*}} : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
rlx.graph @int8_gather_columns(%i: tensor<i64>) -> tensor<4xf32> {
  %w = rlx.weight "q" : tensor<9x4xi8>
  %s = rlx.weight "s" : tensor<4xf32>
  %0 = rlx.convert %w : tensor<9x4xi8> -> tensor<9x4xf32>
  %1 = rlx.mul %0, %s : tensor<9x4xf32>, tensor<4xf32> -> tensor<9x4xf32>
  %2 = rlx.gather %1, %i axis 0 : tensor<9x4xf32>, tensor<i64> -> tensor<4xf32>
  rlx.output %2 : tensor<4xf32>
}

// -----

// CASES 48: the guard behind a softmax stays, whatever one hopes of the mask.
// CHECK-LABEL: rlx.graph @softmax_guard
// CHECK: %[[P:.*]] = rlx.softmax
// CHECK-NEXT: %[[N:.*]] = rlx.is_nan %[[P]]
// CHECK-NEXT: %[[R:.*]] = rlx.select %[[N]], %{{.*}}, %[[P]]
// CHECK-NEXT: rlx.output %[[R]]
rlx.graph @softmax_guard(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %zero = rlx.constant dense<0.0> : tensor<f32>
  %0 = rlx.softmax %x axis 1 : tensor<2x8xf32> -> tensor<2x8xf32>
  %1 = rlx.is_nan %0 : tensor<2x8xf32> -> tensor<2x8xi1>
  %2 = rlx.select %1, %zero, %0 : tensor<2x8xi1>, tensor<f32>, tensor<2x8xf32> -> tensor<2x8xf32>
  rlx.output %2 : tensor<2x8xf32>
}

// -----

// Exact for every input: x * 1, x / 1, x - 0, x + (-0), integer x + 0, true and x.
// CHECK-LABEL: rlx.graph @exact
// CHECK-SAME: (%[[X:.*]]: tensor<4xf32>, %[[I:.*]]: tensor<4xi64>, %[[B:.*]]: tensor<4xi1>)
// CHECK-NEXT: rlx.output %[[X]], %[[I]], %[[B]]
rlx.graph @exact(%x: tensor<4xf32>, %i: tensor<4xi64>, %b: tensor<4xi1>) -> (tensor<4xf32>, tensor<4xi64>, tensor<4xi1>) {
  %one = rlx.constant dense<1.0> : tensor<4xf32>
  %zero = rlx.constant dense<0.0> : tensor<f32>
  %minus = rlx.constant dense<-0.0> : tensor<f32>
  %izero = rlx.constant dense<0> : tensor<i64>
  %true = rlx.constant dense<true> : tensor<i1>
  %0 = rlx.mul %one, %x : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  %1 = rlx.div %0, %one : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  %2 = rlx.sub %1, %zero : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %3 = rlx.add %minus, %2 : tensor<f32>, tensor<4xf32> -> tensor<4xf32>
  %4 = rlx.add %i, %izero : tensor<4xi64>, tensor<i64> -> tensor<4xi64>
  %5 = rlx.and %true, %b : tensor<i1>, tensor<4xi1> -> tensor<4xi1>
  rlx.output %3, %4, %5 : tensor<4xf32>, tensor<4xi64>, tensor<4xi1>
}

// -----

// CASES 54: not exact: x + 0 turns -0 into +0, x * 0 and x - x keep NaN, x / x is not 1, 1 - x is not x, and a constant
// that widens the shape does something.
// CHECK-LABEL: rlx.graph @not_exact
// CHECK-DAG: rlx.add
// CHECK-DAG: rlx.mul
// CHECK-DAG: rlx.sub %arg0, %arg0
// CHECK-DAG: rlx.div %arg0, %arg0
// CHECK-DAG: rlx.sub
// CHECK-DAG: rlx.mul {{.*}} -> tensor<2x4xf32>
// CHECK: rlx.output
rlx.graph @not_exact(%x: tensor<4xf32>)
    -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<2x4xf32>) {
  %zero = rlx.constant dense<0.0> : tensor<f32>
  %one = rlx.constant dense<1.0> : tensor<f32>
  %ones = rlx.constant dense<1.0> : tensor<2x4xf32>
  %0 = rlx.add %x, %zero : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %1 = rlx.mul %x, %zero : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %2 = rlx.sub %x, %x : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  %3 = rlx.div %x, %x : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  %4 = rlx.sub %one, %x : tensor<f32>, tensor<4xf32> -> tensor<4xf32>
  %5 = rlx.mul %x, %ones : tensor<4xf32>, tensor<2x4xf32> -> tensor<2x4xf32>
  rlx.output %0, %1, %2, %3, %4, %5 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<2x4xf32>
}

// -----

// Views that cancel or follow each other.
// CHECK-LABEL: rlx.graph @views
// CHECK-SAME: (%[[X:.*]]: tensor<2x3x4xf32>)
// CHECK-DAG: %[[T:.*]] = rlx.transpose %[[X]] permutation [2, 0, 1]
// CHECK-DAG: %[[R:.*]] = rlx.reshape %[[X]] : tensor<2x3x4xf32> -> tensor<4x6xf32>
// CHECK: rlx.output %[[X]], %[[T]], %[[R]], %[[X]]
rlx.graph @views(%x: tensor<2x3x4xf32>) -> (tensor<2x3x4xf32>, tensor<4x2x3xf32>, tensor<4x6xf32>, tensor<2x3x4xf32>) {
  %0 = rlx.transpose %x permutation [1, 2, 0] : tensor<2x3x4xf32> -> tensor<3x4x2xf32>
  %1 = rlx.transpose %0 permutation [2, 0, 1] : tensor<3x4x2xf32> -> tensor<2x3x4xf32>
  %2 = rlx.transpose %0 permutation [1, 2, 0] : tensor<3x4x2xf32> -> tensor<4x2x3xf32>
  %3 = rlx.reshape %x : tensor<2x3x4xf32> -> tensor<6x4xf32>
  %4 = rlx.reshape %3 : tensor<6x4xf32> -> tensor<4x6xf32>
  %5 = rlx.reshape %4 : tensor<4x6xf32> -> tensor<2x3x4xf32>
  rlx.output %1, %2, %4, %5 : tensor<2x3x4xf32>, tensor<4x2x3xf32>, tensor<4x6xf32>, tensor<2x3x4xf32>
}

// -----

// A broadcast that the op does anyway goes; one that gives the result its size stays.
// CHECK-LABEL: rlx.graph @broadcasts
// CHECK-SAME: (%[[X:.*]]: {{.*}}, %[[M:.*]]: tensor<1x?xf32, #rlx.dims<[1, S]>>)
// CHECK: %[[W:.*]] = rlx.broadcast_to %[[M]]
// CHECK: rlx.add %[[X]], %[[M]]
// CHECK: rlx.exp %[[W]]
rlx.graph @broadcasts(%x: tensor<?x?xf32, #rlx.dims<[B, S]>>, %m: tensor<1x?xf32, #rlx.dims<[1, S]>>)
    -> (tensor<?x?xf32, #rlx.dims<[B, S]>>, tensor<?x?xf32, #rlx.dims<[B, S]>>)
    attributes {dims = [#rlx.dim<"B">, #rlx.dim<"S">]} {
  %0 = rlx.broadcast_to %m : tensor<1x?xf32, #rlx.dims<[1, S]>> -> tensor<?x?xf32, #rlx.dims<[B, S]>>
  %1 = rlx.add %x, %0 : tensor<?x?xf32, #rlx.dims<[B, S]>>, tensor<?x?xf32, #rlx.dims<[B, S]>>
                        -> tensor<?x?xf32, #rlx.dims<[B, S]>>
  %2 = rlx.exp %0 : tensor<?x?xf32, #rlx.dims<[B, S]>> -> tensor<?x?xf32, #rlx.dims<[B, S]>>
  rlx.output %1, %2 : tensor<?x?xf32, #rlx.dims<[B, S]>>, tensor<?x?xf32, #rlx.dims<[B, S]>>
}

// -----

// x^2 is x * x; repeated ops become one; dead ones go.
// CHECK-LABEL: rlx.graph @repeats
// CHECK-NEXT: %[[S:.*]] = rlx.mul %arg0, %arg0
// CHECK-NEXT: %[[E:.*]] = rlx.exp %[[S]]
// CHECK-NEXT: rlx.output %[[E]], %[[E]]
rlx.graph @repeats(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %two = rlx.constant dense<2.0> : tensor<f32>
  %0 = rlx.pow %x, %two : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %1 = rlx.exp %0 : tensor<4xf32> -> tensor<4xf32>
  %2 = rlx.mul %x, %x : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  %3 = rlx.exp %2 : tensor<4xf32> -> tensor<4xf32>
  %4 = rlx.log %x : tensor<4xf32> -> tensor<4xf32>
  rlx.output %1, %3 : tensor<4xf32>, tensor<4xf32>
}

// -----

// MiniLM's keys: dims merged, moved as one and split again are one transpose, and join the one before.
// CHECK-LABEL: rlx.graph @keys
// CHECK-NEXT: %[[T:.*]] = rlx.transpose %arg0 permutation [0, 2, 3, 1] : {{.*}} -> tensor<?x12x32x?xf32, #rlx.dims<[B, 12, 32, S]>>
// CHECK-NEXT: rlx.output %[[T]]
rlx.graph @keys(%x: tensor<?x?x12x32xf32, #rlx.dims<[B, S, 12, 32]>>) -> tensor<?x12x32x?xf32, #rlx.dims<[B, 12, 32, S]>>
    attributes {dims = [#rlx.dim<"B">, #rlx.dim<"S">]} {
  %0 = rlx.transpose %x permutation [0, 2, 1, 3] : tensor<?x?x12x32xf32, #rlx.dims<[B, S, 12, 32]>>
                                                   -> tensor<?x12x?x32xf32, #rlx.dims<[B, 12, S, 32]>>
  %1 = rlx.reshape %0 : tensor<?x12x?x32xf32, #rlx.dims<[B, 12, S, 32]>> -> tensor<?x?x32xf32, #rlx.dims<[12 * B, S, 32]>>
  %2 = rlx.transpose %1 permutation [0, 2, 1] : tensor<?x?x32xf32, #rlx.dims<[12 * B, S, 32]>>
                                                -> tensor<?x32x?xf32, #rlx.dims<[12 * B, 32, S]>>
  %3 = rlx.reshape %2 : tensor<?x32x?xf32, #rlx.dims<[12 * B, 32, S]>> -> tensor<?x12x32x?xf32, #rlx.dims<[B, 12, 32, S]>>
  rlx.output %3 : tensor<?x12x32x?xf32, #rlx.dims<[B, 12, 32, S]>>
}

// -----

// Merged one way and split another is no transpose.
// CHECK-LABEL: rlx.graph @not_keys
// CHECK: rlx.reshape
// CHECK: rlx.transpose
// CHECK: rlx.reshape
rlx.graph @not_keys(%x: tensor<2x6x5xf32>) -> tensor<5x6x2xf32> {
  %0 = rlx.reshape %x : tensor<2x6x5xf32> -> tensor<12x5xf32>
  %1 = rlx.transpose %0 permutation [1, 0] : tensor<12x5xf32> -> tensor<5x12xf32>
  %2 = rlx.reshape %1 : tensor<5x12xf32> -> tensor<5x6x2xf32>
  rlx.output %2 : tensor<5x6x2xf32>
}

// -----

// A broadcast that requires something of the sizes stays: here B must be 3 or 1.
// CHECK-LABEL: rlx.graph @broadcast_requires
// CHECK: %[[W:.*]] = rlx.broadcast_to
// CHECK: rlx.add %arg0, %[[W]]
rlx.graph @broadcast_requires(%x: tensor<3x4xf32>, %m: tensor<1x4xf32>, %b: tensor<?xf32, #rlx.dims<[B]>>) -> tensor<3x4xf32>
    attributes {dims = [#rlx.dim<"B">]} {
  %0 = rlx.broadcast_to %m : tensor<1x4xf32> -> tensor<?x4xf32, #rlx.dims<[B, 4]>>
  %1 = rlx.add %x, %0 : tensor<3x4xf32>, tensor<?x4xf32, #rlx.dims<[B, 4]>> -> tensor<3x4xf32>
  rlx.output %1 : tensor<3x4xf32>
}

// -----

// A factor that is NaN is about nothing: no GELU.
// CHECK-LABEL: rlx.graph @issue_gelu_nan
// CHECK-NOT: rlx.gelu
// CHECK: rlx.output
rlx.graph @issue_gelu_nan(%x: tensor<8xf32>) -> tensor<8xf32> {
  %c = rlx.constant dense<0.707106769> : tensor<f32>
  %one = rlx.constant dense<1.0> : tensor<f32>
  %nan = rlx.constant dense<0x7FC00000> : tensor<f32>
  %0 = rlx.mul %x, %c : tensor<8xf32>, tensor<f32> -> tensor<8xf32>
  %1 = rlx.erf %0 : tensor<8xf32> -> tensor<8xf32>
  %2 = rlx.add %one, %1 : tensor<f32>, tensor<8xf32> -> tensor<8xf32>
  %3 = rlx.mul %nan, %x : tensor<f32>, tensor<8xf32> -> tensor<8xf32>
  %4 = rlx.mul %3, %2 : tensor<8xf32>, tensor<8xf32> -> tensor<8xf32>
  rlx.output %4 : tensor<8xf32>
}

// -----

// In f16 the scale stays before the matmul: the unscaled sum of 1024 products with int8 passes 65504.
// CHECK-LABEL: rlx.graph @issue_int8_matmul_f16
// CHECK: %[[M:.*]] = rlx.matmul
// CHECK-NEXT: rlx.output %[[M]]
rlx.graph @issue_int8_matmul_f16(%x: tensor<2x1024xf16>) -> tensor<2x4xf16> {
  %w = rlx.weight "q" : tensor<1024x4xi8>
  %s = rlx.weight "s" : tensor<4xf16>
  %0 = rlx.convert %w : tensor<1024x4xi8> -> tensor<1024x4xf16>
  %1 = rlx.mul %0, %s : tensor<1024x4xf16>, tensor<4xf16> -> tensor<1024x4xf16>
  %2 = rlx.matmul %x, %1 : tensor<2x1024xf16>, tensor<1024x4xf16> -> tensor<2x4xf16>
  rlx.output %2 : tensor<2x4xf16>
}

// -----

// Equal types are no equal sizes while dims are unknown: a [2, 3] may become a [3, 2], a 1 be repeated.
// CHECK-LABEL: rlx.graph @issue_unknown_dims
// CHECK: %[[R:.*]] = rlx.reshape
// CHECK: %[[B:.*]] = rlx.broadcast_to
// CHECK: %[[S:.*]] = rlx.select
// CHECK: rlx.output %[[R]], %[[B]], %[[S]]
rlx.graph @issue_unknown_dims(%x: tensor<?x?xf32>, %c: tensor<?x?xi1>) -> (tensor<?x?xf32>, tensor<?x?xf32>, tensor<?x?xf32>) {
  %0 = rlx.reshape %x : tensor<?x?xf32> -> tensor<?x?xf32>
  %1 = rlx.broadcast_to %x : tensor<?x?xf32> -> tensor<?x?xf32>
  %2 = rlx.select %c, %x, %x : tensor<?x?xi1>, tensor<?x?xf32>, tensor<?x?xf32> -> tensor<?x?xf32>
  rlx.output %0, %1, %2 : tensor<?x?xf32>, tensor<?x?xf32>, tensor<?x?xf32>
}

// -----

// Integer operations that keep every bit.
// CHECK-LABEL: rlx.graph @exact_integers
// CHECK: rlx.output %arg0, %arg0, %arg0, %arg0, %arg0, %arg1
rlx.graph @exact_integers(%x: tensor<4xi32>, %b: tensor<4xi1>) -> (tensor<4xi32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi1>) {
  %zero = rlx.constant dense<0> : tensor<i32>
  %one = rlx.constant dense<1> : tensor<i32>
  %ones = rlx.constant dense<-1> : tensor<i32>
  %true = rlx.constant dense<true> : tensor<i1>
  %0 = rlx.and %ones, %x : tensor<i32>, tensor<4xi32> -> tensor<4xi32>
  %1 = rlx.or %x, %zero : tensor<4xi32>, tensor<i32> -> tensor<4xi32>
  %2 = rlx.xor %zero, %x : tensor<i32>, tensor<4xi32> -> tensor<4xi32>
  %3 = rlx.shl %x, %zero : tensor<4xi32>, tensor<i32> -> tensor<4xi32>
  %4 = rlx.pow %x, %one : tensor<4xi32>, tensor<i32> -> tensor<4xi32>
  %5 = rlx.and %b, %true : tensor<4xi1>, tensor<i1> -> tensor<4xi1>
  rlx.output %0, %1, %2, %3, %4, %5 : tensor<4xi32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi1>
}

// DequantizeLinear with zero points that are zero, as quantisers write it for signed weights: bytes stay bytes.
// CHECK-LABEL: @issue_zero_points_that_are_zero
// CHECK-DAG: %[[W:.*]] = rlx.weight "q" : tensor<8x300xi8>
// CHECK-DAG: %[[S:.*]] = rlx.weight "s" : tensor<1x300xf32>
// CHECK: %[[M:.*]] = rlx.matmul %arg0, %[[W]] : tensor<2x8xf32>, tensor<8x300xi8>
// CHECK: %[[R:.*]] = rlx.mul %[[M]], %[[S]]
// CHECK: rlx.output %[[R]]
rlx.graph @issue_zero_points_that_are_zero(%x: tensor<2x8xf32>) -> (tensor<2x300xf32>) {
  %w = rlx.weight "q" : tensor<8x300xi8>
  %s = rlx.weight "s" : tensor<1x300xf32>
  %z = rlx.constant dense<0> : tensor<1x300xi8>
  %0 = rlx.convert %w : tensor<8x300xi8> -> tensor<8x300xi32>
  %1 = rlx.convert %z : tensor<1x300xi8> -> tensor<1x300xi32>
  %2 = rlx.sub %0, %1 : tensor<8x300xi32>, tensor<1x300xi32> -> tensor<8x300xi32>
  %3 = rlx.convert %2 : tensor<8x300xi32> -> tensor<8x300xf32>
  %4 = rlx.mul %3, %s : tensor<8x300xf32>, tensor<1x300xf32> -> tensor<8x300xf32>
  %5 = rlx.matmul %x, %4 : tensor<2x8xf32>, tensor<8x300xf32> -> tensor<2x300xf32>
  rlx.output %5 : tensor<2x300xf32>
}
