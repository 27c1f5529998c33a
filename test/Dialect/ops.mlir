// RUN: rlx-opt %s | FileCheck %s
// RUN: rlx-opt %s | rlx-opt | FileCheck %s
// RUN: rlx-opt %s --mlir-print-op-generic | rlx-opt | FileCheck %s
// RUN: rlx-opt %s --emit-bytecode | rlx-opt | FileCheck %s

!bs = tensor<?x?xf32, #rlx.dims<[B, S]>>
!bs4 = tensor<?x?x4xf32, #rlx.dims<[B, S, 4]>>

// CHECK-LABEL: rlx.graph @signature(
// CHECK-SAME: %{{.*}}: tensor<?x4xf32, #rlx.dims<[B, 4]>> {rlx.name = "x"}
// CHECK-SAME: -> (tensor<?x4xf32, #rlx.dims<[B, 4]>> {rlx.name = "y"})
// CHECK-SAME: attributes {constraints = [#rlx.constraint<"B % 8 == 0", "declared">]
// CHECK-SAME: dims = [#rlx.dim<"B", min = 1, max = 64, multiple = 8, likely = [8, 16], bound = 32>]}
rlx.graph @signature(%x: tensor<?x4xf32, #rlx.dims<[B, 4]>> {rlx.name = "x"})
    -> (tensor<?x4xf32, #rlx.dims<[B, 4]>> {rlx.name = "y"})
    attributes {dims = [#rlx.dim<"B", likely = [8, 16], multiple = 8, min = 1, max = 64, bound = 32>],
                constraints = [#rlx.constraint<"B % 8 == 0", "declared">]} {
  rlx.output %x : tensor<?x4xf32, #rlx.dims<[B, 4]>>
}

// CHECK-LABEL: rlx.graph @expressions
// CHECK-SAME: tensor<?x?x?xf32, #rlx.dims<[2*S+1, floordiv(S+1, 2), S*T]>>
// CHECK-SAME: tensor<?x?xf32, #rlx.dims<[min(S, T), max(S, T)]>>
// CHECK-SAME: tensor<?xf32, #rlx.dims<[broadcast(S, T)]>>
// CHECK-SAME: tensor<?x?xf32, #rlx.dims<["a:b/c", "say \"hi\""]>>
// CHECK-SAME: tensor<?x?xf32, #rlx.dims<["min", f32]>>
rlx.graph @expressions(
    %0: tensor<?x?x?xf32, #rlx.dims<[1 + S * 2, ceildiv(S, 2), T * S]>>,
    %1: tensor<?x?xf32, #rlx.dims<[min(S, T), max(S, T)]>>,
    %2: tensor<?xf32, #rlx.dims<[broadcast(S, T)]>>,
    %3: tensor<?x?xf32, #rlx.dims<["a:b/c", "say \"hi\""]>>,
    %4: tensor<?x?xf32, #rlx.dims<[min, f32]>>)
    attributes {dims = [#rlx.dim<"S">, #rlx.dim<"T">, #rlx.dim<"a:b/c">, #rlx.dim<"say \"hi\"">, #rlx.dim<"min">,
                        #rlx.dim<"f32">]} {
  rlx.output
}

// CHECK-LABEL: rlx.graph @structure
rlx.graph @structure() -> (tensor<2xf32>)
    attributes {dims = [#rlx.dim<"B", bound = 4>]} {
  // CHECK: rlx.constant dense<[1, 2]> : tensor<2xi64>
  %0 = rlx.constant dense<[1, 2]> : tensor<2xi64>
  // CHECK: rlx.constant dense<0> : tensor<4xi64> -> tensor<4xi64, #rlx.dims<[B]>>
  %1 = rlx.constant dense<0> : tensor<4xi64> -> tensor<4xi64, #rlx.dims<[B]>>
  // CHECK: rlx.weight "encoder.0:w" : tensor<2xf32>
  %2 = rlx.weight "encoder.0:w" : tensor<2xf32>
  // CHECK: rlx.param "bias" : tensor<?xf32, #rlx.dims<[B]>>
  %3 = rlx.param "bias" : tensor<?xf32, #rlx.dims<[B]>>
  // CHECK: rlx.dim_values [B, 2*B] : tensor<2xi64>
  %4 = rlx.dim_values [B, B * 2] : tensor<2xi64>
  // CHECK: rlx.dim_values [B] : tensor<i64>
  %5 = rlx.dim_values [B] : tensor<i64>
  // CHECK: rlx.dim_values [] : tensor<0xi64>
  %6 = rlx.dim_values [] : tensor<0xi64>
  // CHECK: rlx.assume_dims %{{.*}} : tensor<?xf32, #rlx.dims<[B]>> -> tensor<2xf32>
  %7 = rlx.assume_dims %3 : tensor<?xf32, #rlx.dims<[B]>> -> tensor<2xf32>
  rlx.output %7 : tensor<2xf32>
}

// CHECK-LABEL: rlx.graph @elementwise
rlx.graph @elementwise(%x: !bs4, %y: tensor<4xf32>, %i: tensor<4xi32>, %c: tensor<4xi1>) attributes {dims = [#rlx.dim<"B">, #rlx.dim<"S">]} {
  // CHECK: rlx.add %{{.*}}, %{{.*}} : tensor<?x?x4xf32, #rlx.dims<[B, S, 4]>>, tensor<4xf32> -> tensor<?x?x4xf32, #rlx.dims<[B, S, 4]>>
  %0 = rlx.add %x, %y : !bs4, tensor<4xf32> -> !bs4
  // CHECK: rlx.sub
  %1 = rlx.sub %x, %y : !bs4, tensor<4xf32> -> !bs4
  // CHECK: rlx.mul
  %2 = rlx.mul %x, %y : !bs4, tensor<4xf32> -> !bs4
  // CHECK: rlx.div
  %3 = rlx.div %x, %y : !bs4, tensor<4xf32> -> !bs4
  // CHECK: rlx.mod
  %4 = rlx.mod %x, %y : !bs4, tensor<4xf32> -> !bs4
  // CHECK: rlx.rem
  %5 = rlx.rem %x, %y : !bs4, tensor<4xf32> -> !bs4
  // CHECK: rlx.pow
  %6 = rlx.pow %x, %y : !bs4, tensor<4xf32> -> !bs4
  // CHECK: rlx.max
  %7 = rlx.max %x, %y : !bs4, tensor<4xf32> -> !bs4
  // CHECK: rlx.min
  %8 = rlx.min %x, %y : !bs4, tensor<4xf32> -> !bs4
  // CHECK: rlx.and
  %9 = rlx.and %c, %c : tensor<4xi1>, tensor<4xi1> -> tensor<4xi1>
  // CHECK: rlx.or
  %10 = rlx.or %i, %i : tensor<4xi32>, tensor<4xi32> -> tensor<4xi32>
  // CHECK: rlx.xor
  %11 = rlx.xor %i, %i : tensor<4xi32>, tensor<4xi32> -> tensor<4xi32>
  // CHECK: rlx.shl
  %12 = rlx.shl %i, %i : tensor<4xi32>, tensor<4xi32> -> tensor<4xi32>
  // CHECK: rlx.shr
  %13 = rlx.shr %i, %i : tensor<4xi32>, tensor<4xi32> -> tensor<4xi32>
  // CHECK: rlx.neg
  %14 = rlx.neg %x : !bs4 -> !bs4
  // CHECK: rlx.abs
  %15 = rlx.abs %x : !bs4 -> !bs4
  // CHECK: rlx.sign
  %16 = rlx.sign %x : !bs4 -> !bs4
  // CHECK: rlx.not
  %17 = rlx.not %c : tensor<4xi1> -> tensor<4xi1>
  // CHECK: rlx.exp
  %18 = rlx.exp %x : !bs4 -> !bs4
  // CHECK: rlx.log
  %19 = rlx.log %x : !bs4 -> !bs4
  // CHECK: rlx.sqrt
  %20 = rlx.sqrt %x : !bs4 -> !bs4
  // CHECK: rlx.reciprocal
  %21 = rlx.reciprocal %x : !bs4 -> !bs4
  // CHECK: rlx.tanh
  %22 = rlx.tanh %x : !bs4 -> !bs4
  // CHECK: rlx.erf
  %23 = rlx.erf %x : !bs4 -> !bs4
  // CHECK: rlx.sigmoid
  %24 = rlx.sigmoid %x : !bs4 -> !bs4
  // CHECK: rlx.sin
  %25 = rlx.sin %x : !bs4 -> !bs4
  // CHECK: rlx.cos
  %26 = rlx.cos %x : !bs4 -> !bs4
  // CHECK: rlx.floor
  %27 = rlx.floor %x : !bs4 -> !bs4
  // CHECK: rlx.ceil
  %28 = rlx.ceil %x : !bs4 -> !bs4
  // CHECK: rlx.round
  %29 = rlx.round %x : !bs4 -> !bs4
  // CHECK: rlx.gelu %{{[^ ]*}} :
  %30 = rlx.gelu %x : !bs4 -> !bs4
  // CHECK: rlx.gelu %{{.*}} {approximate} :
  %31 = rlx.gelu %x {approximate} : !bs4 -> !bs4
  // CHECK: rlx.is_nan %{{.*}} -> tensor<4xi1>
  %32 = rlx.is_nan %y : tensor<4xf32> -> tensor<4xi1>
  // CHECK: rlx.is_inf
  %33 = rlx.is_inf %y : tensor<4xf32> -> tensor<4xi1>
  // CHECK: rlx.compare lt %{{.*}}, %{{.*}} : tensor<4xi32>, tensor<4xi32> -> tensor<4xi1>
  %34 = rlx.compare lt %i, %i : tensor<4xi32>, tensor<4xi32> -> tensor<4xi1>
  // CHECK: rlx.select %{{.*}}, %{{.*}}, %{{.*}} : tensor<4xi1>, tensor<?x?x4xf32, #rlx.dims<[B, S, 4]>>, tensor<4xf32> -> tensor<?x?x4xf32, #rlx.dims<[B, S, 4]>>
  %35 = rlx.select %c, %x, %y : tensor<4xi1>, !bs4, tensor<4xf32> -> !bs4
  // CHECK: rlx.convert %{{.*}} : tensor<?x?x4xf32, #rlx.dims<[B, S, 4]>> -> tensor<?x?x4xbf16, #rlx.dims<[B, S, 4]>>
  %36 = rlx.convert %x : !bs4 -> tensor<?x?x4xbf16, #rlx.dims<[B, S, 4]>>
  rlx.output
}

// CHECK-LABEL: rlx.graph @contraction
rlx.graph @contraction(%x: !bs4, %w: tensor<4x8xf32>, %w8: tensor<4x8xi8>, %s: tensor<4xf32>,
                       %q: tensor<2x4x8xf32>, %k: tensor<1x5x8xf32>, %v: tensor<1x5x16xf32>, %m: tensor<4x5xf32>)
    attributes {dims = [#rlx.dim<"B">, #rlx.dim<"S">]} {
  // CHECK: rlx.matmul %{{.*}}, %{{.*}} : tensor<?x?x4xf32, #rlx.dims<[B, S, 4]>>, tensor<4x8xf32> -> tensor<?x?x8xf32, #rlx.dims<[B, S, 8]>>
  %0 = rlx.matmul %x, %w : !bs4, tensor<4x8xf32> -> tensor<?x?x8xf32, #rlx.dims<[B, S, 8]>>
  // CHECK: rlx.matmul %{{.*}} tensor<4x8xi8>
  %1 = rlx.matmul %x, %w8 : !bs4, tensor<4x8xi8> -> tensor<?x?x8xf32, #rlx.dims<[B, S, 8]>>
  // CHECK: rlx.reduce mean %{{.*}} axes [2] keep_dims : {{.*}} -> tensor<?x?x1xf32, #rlx.dims<[B, S, 1]>>
  %2 = rlx.reduce mean %x axes [2] keep_dims : !bs4 -> tensor<?x?x1xf32, #rlx.dims<[B, S, 1]>>
  // CHECK: rlx.reduce max %{{.*}} axes [0, 2] : {{.*}} -> tensor<?xf32, #rlx.dims<[S]>>
  %3 = rlx.reduce max %x axes [0, 2] : !bs4 -> tensor<?xf32, #rlx.dims<[S]>>
  // CHECK: rlx.reduce sum %{{.*}} axes [] :
  %4 = rlx.reduce sum %x axes [] : !bs4 -> !bs4
  // CHECK: rlx.cumsum %{{.*}} axis 1 {exclusive, reverse} :
  %5 = rlx.cumsum %x axis 1 {exclusive, reverse} : !bs4 -> !bs4
  // CHECK: rlx.softmax %{{.*}} axis 2 :
  %6 = rlx.softmax %x axis 2 : !bs4 -> !bs4
  // CHECK: rlx.log_softmax %{{.*}} axis 0 :
  %7 = rlx.log_softmax %x axis 0 : !bs4 -> !bs4
  // CHECK: rlx.layer_norm %{{.*}} scale %{{.*}} : tensor<4xf32> bias %{{.*}} : tensor<4xf32> axis 2 epsilon 9.9{{.*}} :
  %8 = rlx.layer_norm %x scale %s : tensor<4xf32> bias %s : tensor<4xf32> axis 2 epsilon 9.9e-6 : !bs4 -> !bs4
  // CHECK: rlx.layer_norm %{{[^ ]*}} axis 1 epsilon
  %9 = rlx.layer_norm %x axis 1 epsilon 0.0 : !bs4 -> !bs4
  // CHECK: rlx.rms_norm %{{.*}} scale %{{.*}} : tensor<4xf32> axis 2 epsilon
  %10 = rlx.rms_norm %x scale %s : tensor<4xf32> axis 2 epsilon 1.0e-6 : !bs4 -> !bs4
  // CHECK: rlx.attention %{{.*}}, %{{.*}}, %{{.*}} mask %{{.*}} : tensor<4x5xf32> scale 1.250000e-01 : tensor<2x4x8xf32>, tensor<1x5x8xf32>, tensor<1x5x16xf32> -> tensor<2x4x16xf32>
  %11 = rlx.attention %q, %k, %v mask %m : tensor<4x5xf32> scale 0.125
    : tensor<2x4x8xf32>, tensor<1x5x8xf32>, tensor<1x5x16xf32> -> tensor<2x4x16xf32>
  // CHECK: rlx.attention %{{[^ ]*}}, %{{[^ ]*}}, %{{[^ ]*}} scale
  %12 = rlx.attention %q, %k, %v scale 0.125
    : tensor<2x4x8xf32>, tensor<1x5x8xf32>, tensor<1x5x16xf32> -> tensor<2x4x16xf32>
  rlx.output
}

// CHECK-LABEL: rlx.graph @data_movement
rlx.graph @data_movement(%x: !bs4, %one: tensor<1x4xf32>, %zero: tensor<f32>, %d: tensor<3x5xf32>, %n: tensor<3x2xi64>,
                         %e: tensor<3x2xi32>, %u: tensor<3xf32>, %v: tensor<3x2xf32>)
    attributes {dims = [#rlx.dim<"B">, #rlx.dim<"S", min = 1>]} {
  // CHECK: rlx.reshape %{{.*}} -> tensor<?x2xf32, #rlx.dims<[2*B*S, 2]>>
  %0 = rlx.reshape %x : !bs4 -> tensor<?x2xf32, #rlx.dims<[2 * S * B, 2]>>
  // CHECK: rlx.transpose %{{.*}} permutation [2, 0, 1] : {{.*}} -> tensor<4x?x?xf32, #rlx.dims<[4, B, S]>>
  %1 = rlx.transpose %x permutation [2, 0, 1] : !bs4 -> tensor<4x?x?xf32, #rlx.dims<[4, B, S]>>
  // CHECK: rlx.broadcast_to %{{.*}} : tensor<1x4xf32> -> tensor<?x?x4xf32, #rlx.dims<[B, S, 4]>>
  %2 = rlx.broadcast_to %one : tensor<1x4xf32> -> !bs4
  // CHECK: rlx.slice %{{.*}} starts [0, S-1, 3] steps [1, -1, -2] : {{.*}} -> tensor<?x1x2xf32, #rlx.dims<[B, 1, 2]>>
  %3 = rlx.slice %x starts [0, S - 1, 3] steps [1, -1, -2] : !bs4 -> tensor<?x1x2xf32, #rlx.dims<[B, 1, 2]>>
  // CHECK: rlx.concat %{{.*}}, %{{.*}} axis 1 : {{.*}} -> tensor<?x?x4xf32, #rlx.dims<[B, 2*S, 4]>>
  %4 = rlx.concat %x, %x axis 1 : !bs4, !bs4 -> tensor<?x?x4xf32, #rlx.dims<[B, 2 * S, 4]>>
  // CHECK: rlx.pad %{{.*}}, %{{.*}} low [0, 1] high [S, 0] : tensor<3x5xf32>, tensor<f32> -> tensor<?x6xf32, #rlx.dims<[S+3, 6]>>
  %5 = rlx.pad %d, %zero low [0, 1] high [S, 0] : tensor<3x5xf32>, tensor<f32> -> tensor<?x6xf32, #rlx.dims<[S + 3, 6]>>
  // CHECK: rlx.gather %{{.*}}, %{{.*}} axis 1 : tensor<3x5xf32>, tensor<3x2xi64> -> tensor<3x3x2xf32>
  %6 = rlx.gather %d, %n axis 1 : tensor<3x5xf32>, tensor<3x2xi64> -> tensor<3x3x2xf32>
  // CHECK: rlx.gather_nd %{{.*}}, %{{.*}} batch_dims 0 : tensor<3x5xf32>, tensor<3x2xi64> -> tensor<3xf32>
  %7 = rlx.gather_nd %d, %n batch_dims 0 : tensor<3x5xf32>, tensor<3x2xi64> -> tensor<3xf32>
  // CHECK: rlx.gather_elements %{{.*}}, %{{.*}} axis 1 : tensor<3x5xf32>, tensor<3x2xi32> -> tensor<3x2xf32>
  %8 = rlx.gather_elements %d, %e axis 1 : tensor<3x5xf32>, tensor<3x2xi32> -> tensor<3x2xf32>
  // CHECK: rlx.scatter_elements add %{{.*}}, %{{.*}}, %{{.*}} axis 1 :
  %9 = rlx.scatter_elements add %d, %e, %v axis 1 : tensor<3x5xf32>, tensor<3x2xi32>, tensor<3x2xf32> -> tensor<3x5xf32>
  // CHECK: rlx.scatter_nd assign %{{.*}}, %{{.*}}, %{{.*}} :
  %10 = rlx.scatter_nd assign %d, %n, %u : tensor<3x5xf32>, tensor<3x2xi64>, tensor<3xf32> -> tensor<3x5xf32>
  // CHECK: rlx.iota [S-1, -1] axis 1 : tensor<?x?xi64, #rlx.dims<[B, S]>>
  %11 = rlx.iota [S - 1, -1] axis 1 : tensor<?x?xi64, #rlx.dims<[B, S]>>
  // CHECK: rlx.random_uniform key 3 {high = 1.000000e+00 : f64, low = -1.000000e+00 : f64} : tensor<?x?xf32, #rlx.dims<[B, S]>>
  %12 = rlx.random_uniform key 3 {low = -1.0 : f64, high = 1.0 : f64} : !bs
  // CHECK: rlx.random_normal key 4294967295 {mean = 0.000000e+00 : f64, scale = 2.000000e+00 : f64} : tensor<2xf16>
  %13 = rlx.random_normal key 4294967295 {mean = 0.0 : f64, scale = 2.0 : f64} : tensor<2xf16>
  rlx.output
}

// CHECK-LABEL: rlx.graph @kernels
rlx.graph @kernels(%x: tensor<2x4xf32>, %w: tensor<4x8xf32>) -> (tensor<2x8xf32>) {
  // CHECK: rlx.kernel matmul(%{{.*}}, %{{.*}}) attributes {node = "dense"} {
  // CHECK-NEXT: ^bb0(%{{.*}}: tensor<2x4xf32>, %{{.*}}: tensor<4x8xf32>):
  // CHECK: rlx.yield %{{.*}} : tensor<2x8xf32>
  // CHECK-NEXT: } : (tensor<2x4xf32>, tensor<4x8xf32>) -> tensor<2x8xf32>
  %0 = rlx.kernel matmul(%x, %w) attributes {node = "dense"} {
  ^bb0(%a: tensor<2x4xf32>, %b: tensor<4x8xf32>):
    %1 = rlx.matmul %a, %b : tensor<2x4xf32>, tensor<4x8xf32> -> tensor<2x8xf32>
    %2 = rlx.tanh %1 : tensor<2x8xf32> -> tensor<2x8xf32>
    rlx.yield %2 : tensor<2x8xf32>
  } : (tensor<2x4xf32>, tensor<4x8xf32>) -> tensor<2x8xf32>
  rlx.output %0 : tensor<2x8xf32>
}

// Bound sizes beside their names; a size that nobody knows yet; a scalar for a promised [1]; a number for a promised
// name.
// CHECK-LABEL: rlx.graph @bound
rlx.graph @bound(%x: tensor<4x?xf32, #rlx.dims<[B, S]>>, %y: tensor<?xf32>, %z: tensor<f32>, %v: tensor<4xf32>)
    -> (tensor<1xf32>, tensor<?xf32, #rlx.dims<[B]>>) attributes {dims = [#rlx.dim<"B", bound = 4>, #rlx.dim<"S">]} {
  // CHECK: -> tensor<?x?xf32>
  %0 = rlx.add %x, %y : tensor<4x?xf32, #rlx.dims<[B, S]>>, tensor<?xf32> -> tensor<?x?xf32>
  // CHECK: -> tensor<8x?xf32, #rlx.dims<[2*B, S]>>
  %1 = rlx.concat %x, %x axis 0 : tensor<4x?xf32, #rlx.dims<[B, S]>>, tensor<4x?xf32, #rlx.dims<[B, S]>>
    -> tensor<8x?xf32, #rlx.dims<[2 * B, S]>>
  rlx.output %z, %v : tensor<f32>, tensor<4xf32>
}
