// RUN: rlx-opt %s --canonicalize | FileCheck %s

// Asking for a shape and computing with it leaves expressions.
// CHECK-LABEL: @shape_arithmetic
rlx.graph @shape_arithmetic(%x: tensor<?x?x64xf32, #rlx.dims<[B, S, 64]>>)
    -> (tensor<3xi64>, tensor<i64>, tensor<2xi64>, tensor<1xi64>, tensor<3xi64>)
    attributes {dims = [#rlx.dim<"B">, #rlx.dim<"S", min = 1>]} {
  %shape = rlx.dim_values [B, S, 64] : tensor<3xi64>
  %two = rlx.constant dense<2> : tensor<i64>
  %one = rlx.constant dense<1> : tensor<i64>
  %minus_one = rlx.constant dense<-1> : tensor<1xi64>
  // CHECK-DAG: %[[DOUBLED:.*]] = rlx.dim_values [2*B, 2*S, 128] : tensor<3xi64>
  %doubled = rlx.mul %shape, %two : tensor<3xi64>, tensor<i64> -> tensor<3xi64>
  // CHECK-DAG: %[[HALF:.*]] = rlx.dim_values [floordiv(S+1, 2)-1] : tensor<i64>
  %s = rlx.gather %shape, %one axis 0 : tensor<3xi64>, tensor<i64> -> tensor<i64>
  %s1 = rlx.sub %s, %one : tensor<i64>, tensor<i64> -> tensor<i64>
  %half = rlx.div %s1, %two : tensor<i64>, tensor<i64> -> tensor<i64>
  // CHECK-DAG: %[[SLICED:.*]] = rlx.dim_values [64, S] : tensor<2xi64>
  %sliced = rlx.slice %shape starts [2] steps [-1] : tensor<3xi64> -> tensor<2xi64>
  // CHECK-DAG: %[[PRODUCT:.*]] = rlx.dim_values [64*B*S] : tensor<1xi64>
  %product = rlx.reduce prod %shape axes [0] keep_dims : tensor<3xi64> -> tensor<1xi64>
  // CHECK-DAG: %[[JOINED:.*]] = rlx.dim_values [-1, S, 64*B*S] : tensor<3xi64>
  %s_list = rlx.reshape %s : tensor<i64> -> tensor<1xi64>
  %joined = rlx.concat %minus_one, %s_list, %product axis 0
    : tensor<1xi64>, tensor<1xi64>, tensor<1xi64> -> tensor<3xi64>
  // CHECK: rlx.output %[[DOUBLED]], %[[HALF]], %[[SLICED]], %[[PRODUCT]], %[[JOINED]]
  rlx.output %doubled, %half, %sliced, %product, %joined
    : tensor<3xi64>, tensor<i64>, tensor<2xi64>, tensor<1xi64>, tensor<3xi64>
}

// Truncation and rounding down differ below zero: B - 1 may be -1, so the division stays.
// CHECK-LABEL: @division_of_unknown_sign
rlx.graph @division_of_unknown_sign(%x: tensor<?xf32, #rlx.dims<[B]>>) -> (tensor<1xi64>, tensor<1xi64>, tensor<1xi64>)
    attributes {dims = [#rlx.dim<"B">]} {
  %two = rlx.constant dense<2> : tensor<1xi64>
  %less = rlx.dim_values [B - 1] : tensor<1xi64>
  // CHECK-DAG: %[[KEPT:.*]] = rlx.div
  %kept = rlx.div %less, %two : tensor<1xi64>, tensor<1xi64> -> tensor<1xi64>
  // An exact division needs no sign, and a modulo with the divisor's sign is right below zero too.
  // CHECK-DAG: %[[MOD:.*]] = rlx.dim_values [B-2*floordiv(B+1, 2)+1] : tensor<1xi64>
  // CHECK-DAG: %[[EXACT:.*]] = rlx.dim_values [B-1] : tensor<1xi64>
  %twice = rlx.dim_values [2 * B - 2] : tensor<1xi64>
  %exact = rlx.div %twice, %two : tensor<1xi64>, tensor<1xi64> -> tensor<1xi64>
  %mod = rlx.mod %less, %two : tensor<1xi64>, tensor<1xi64> -> tensor<1xi64>
  // CHECK: rlx.output %[[KEPT]], %[[EXACT]], %[[MOD]]
  rlx.output %kept, %exact, %mod : tensor<1xi64>, tensor<1xi64>, tensor<1xi64>
}

// CHECK-LABEL: @compare_and_select
rlx.graph @compare_and_select(%x: tensor<?x?xf32, #rlx.dims<[B, S]>>) -> (tensor<2xi64>, tensor<2xi64>)
    attributes {dims = [#rlx.dim<"B">, #rlx.dim<"S">]} {
  %shape = rlx.dim_values [B, S] : tensor<2xi64>
  %minus_one = rlx.constant dense<-1> : tensor<2xi64>
  %seven = rlx.constant dense<7> : tensor<2xi64>
  // No size is -1: what ConstantOfShape, Equal and Where make of Expand.
  // CHECK-DAG: %[[SHAPE:.*]] = rlx.dim_values [B, S]
  %is = rlx.compare eq %shape, %minus_one : tensor<2xi64>, tensor<2xi64> -> tensor<2xi1>
  %picked = rlx.select %is, %seven, %shape : tensor<2xi1>, tensor<2xi64>, tensor<2xi64> -> tensor<2xi64>
  // Whether B is 7 is open.
  // CHECK-DAG: rlx.compare eq
  %open = rlx.compare eq %shape, %seven : tensor<2xi64>, tensor<2xi64> -> tensor<2xi1>
  // CHECK-DAG: %[[OPEN:.*]] = rlx.select
  %kept = rlx.select %open, %seven, %shape : tensor<2xi1>, tensor<2xi64>, tensor<2xi64> -> tensor<2xi64>
  // CHECK: rlx.output %[[SHAPE]], %[[OPEN]]
  rlx.output %picked, %kept : tensor<2xi64>, tensor<2xi64>
}

// Sizes through float and back.
// CHECK-LABEL: @through_float
rlx.graph @through_float(%x: tensor<?xf32, #rlx.dims<[S]>>) -> (tensor<1xi64>, tensor<1xi64>, tensor<1xi64>)
    attributes {dims = [#rlx.dim<"S">]} {
  %s = rlx.dim_values [S] : tensor<1xi64>
  %f = rlx.convert %s : tensor<1xi64> -> tensor<1xf32>
  %half = rlx.constant dense<0.5> : tensor<f32>
  %three = rlx.constant dense<3.0> : tensor<f32>
  %scaled = rlx.mul %f, %half : tensor<1xf32>, tensor<f32> -> tensor<1xf32>
  %divided = rlx.div %f, %three : tensor<1xf32>, tensor<f32> -> tensor<1xf32>
  %up = rlx.ceil %divided : tensor<1xf32> -> tensor<1xf32>
  // CHECK-DAG: %[[SAME:.*]] = rlx.dim_values [S] :
  // CHECK-DAG: %[[DOWN:.*]] = rlx.dim_values [floordiv(S, 2)] :
  // CHECK-DAG: %[[UP:.*]] = rlx.dim_values [floordiv(S+2, 3)] :
  %0 = rlx.convert %f : tensor<1xf32> -> tensor<1xi64>
  %1 = rlx.convert %scaled : tensor<1xf32> -> tensor<1xi64>
  %2 = rlx.convert %up : tensor<1xf32> -> tensor<1xi64>
  // CHECK: rlx.output %[[SAME]], %[[DOWN]], %[[UP]]
  rlx.output %0, %1, %2 : tensor<1xi64>, tensor<1xi64>, tensor<1xi64>
}

// CASE 50: truncation; modulo with the divisor's and the dividend's sign; the lowest number wraps.
// CHECK-LABEL: @integers
rlx.graph @integers() -> (tensor<4xi32>, tensor<4xi32>, tensor<4xi32>, tensor<i32>, tensor<i8>, tensor<2xi64>,
                          tensor<2xui8>, tensor<2xi8>, tensor<3xi1>) {
  %a = rlx.constant dense<[8, -8, 7, -7]> : tensor<4xi32>
  %b = rlx.constant dense<[-3, 3, -2, 2]> : tensor<4xi32>
  // CHECK-DAG: %[[DIV:.*]] = rlx.constant dense<[-2, -2, -3, -3]> : tensor<4xi32>
  %div = rlx.div %a, %b : tensor<4xi32>, tensor<4xi32> -> tensor<4xi32>
  %c = rlx.constant dense<[7, 7, -7, -7]> : tensor<4xi32>
  %d = rlx.constant dense<[3, -3, 3, -3]> : tensor<4xi32>
  // CHECK-DAG: %[[MOD:.*]] = rlx.constant dense<[1, -2, 2, -1]> : tensor<4xi32>
  %mod = rlx.mod %c, %d : tensor<4xi32>, tensor<4xi32> -> tensor<4xi32>
  // CHECK-DAG: %[[REM:.*]] = rlx.constant dense<[1, 1, -1, -1]> : tensor<4xi32>
  %rem = rlx.rem %c, %d : tensor<4xi32>, tensor<4xi32> -> tensor<4xi32>
  %lowest = rlx.constant dense<-2147483648> : tensor<i32>
  %minus_one = rlx.constant dense<-1> : tensor<i32>
  // CHECK-DAG: %[[WRAPPED:.*]] = rlx.constant dense<-2147483648> : tensor<i32>
  %wrapped = rlx.div %lowest, %minus_one : tensor<i32>, tensor<i32> -> tensor<i32>
  // CASE 51: 300 to i8 is 44.
  // CHECK-DAG: %[[NARROW:.*]] = rlx.constant dense<44> : tensor<i8>
  %300 = rlx.constant dense<300> : tensor<i32>
  %narrow = rlx.convert %300 : tensor<i32> -> tensor<i8>
  // CHECK-DAG: %[[WIDE:.*]] = rlx.constant dense<[255, 1]> : tensor<2xi64>
  %u = rlx.constant dense<[255, 1]> : tensor<2xui8>
  %wide = rlx.convert %u : tensor<2xui8> -> tensor<2xi64>
  // CHECK-DAG: %[[ULOGICAL:.*]] = rlx.constant dense<[127, 0]> : tensor<2xui8>
  %one = rlx.constant dense<1> : tensor<ui8>
  %ushr = rlx.shr %u, %one : tensor<2xui8>, tensor<ui8> -> tensor<2xui8>
  // CHECK-DAG: %[[SIGNED:.*]] = rlx.constant dense<[-1, 0]> : tensor<2xi8>
  %v = rlx.constant dense<[-8, 8]> : tensor<2xi8>
  %eight = rlx.constant dense<8> : tensor<i8>
  %sshr = rlx.shr %v, %eight : tensor<2xi8>, tensor<i8> -> tensor<2xi8>
  // CHECK-DAG: %[[NOT:.*]] = rlx.constant dense<[true, false, true]> : tensor<3xi1>
  %bools = rlx.constant dense<[false, true, false]> : tensor<3xi1>
  %not = rlx.not %bools : tensor<3xi1> -> tensor<3xi1>
  // CHECK: rlx.output %[[DIV]], %[[MOD]], %[[REM]], %[[WRAPPED]], %[[NARROW]], %[[WIDE]], %[[ULOGICAL]], %[[SIGNED]], %[[NOT]]
  rlx.output %div, %mod, %rem, %wrapped, %narrow, %wide, %ushr, %sshr, %not
    : tensor<4xi32>, tensor<4xi32>, tensor<4xi32>, tensor<i32>, tensor<i8>, tensor<2xi64>, tensor<2xui8>,
      tensor<2xi8>, tensor<3xi1>
}

// What would be an error of the run stays for it.
// CHECK-LABEL: @run_time_errors
rlx.graph @run_time_errors() -> (tensor<i32>, tensor<1xi32>) {
  %a = rlx.constant dense<1> : tensor<i32>
  %zero = rlx.constant dense<0> : tensor<i32>
  // CHECK: %[[DIV:.*]] = rlx.div
  %div = rlx.div %a, %zero : tensor<i32>, tensor<i32> -> tensor<i32>
  %data = rlx.constant dense<[1, 2, 3]> : tensor<3xi32>
  %index = rlx.constant dense<[3]> : tensor<1xi64>
  // CHECK: %[[GATHER:.*]] = rlx.gather
  %gather = rlx.gather %data, %index axis 0 : tensor<3xi32>, tensor<1xi64> -> tensor<1xi32>
  // CHECK: rlx.output %[[DIV]], %[[GATHER]]
  rlx.output %div, %gather : tensor<i32>, tensor<1xi32>
}

// CASE 54: nothing that could lose a NaN or an infinity goes; x * 1 is every bit of x.
// CHECK-LABEL: @floats
// CHECK-SAME: (%[[X:.*]]: tensor<4xf32>)
rlx.graph @floats(%x: tensor<4xf32>)
    -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>) {
  %zero = rlx.constant dense<0.0> : tensor<f32>
  %minus_zero = rlx.constant dense<-0.0> : tensor<f32>
  %one = rlx.constant dense<1.0> : tensor<f32>
  // CHECK: %[[TIMES_ZERO:.*]] = rlx.mul
  %0 = rlx.mul %x, %zero : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  // CHECK: %[[MINUS_ITSELF:.*]] = rlx.sub
  %1 = rlx.sub %x, %x : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  // CHECK: %[[PLUS_ZERO:.*]] = rlx.add
  %2 = rlx.add %x, %zero : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %3 = rlx.add %x, %minus_zero : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %4 = rlx.mul %one, %x : tensor<f32>, tensor<4xf32> -> tensor<4xf32>
  // CHECK: %[[FLOAT:.*]] = rlx.add
  %5 = rlx.add %one, %one : tensor<f32>, tensor<f32> -> tensor<f32>
  // CHECK: rlx.output %[[TIMES_ZERO]], %[[MINUS_ITSELF]], %[[PLUS_ZERO]], %[[X]], %[[X]], %[[FLOAT]]
  rlx.output %0, %1, %2, %3, %4, %5
    : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>
}

// CHECK-LABEL: @movement
// CHECK-SAME: (%[[X:.*]]: tensor<2x3xf32>)
rlx.graph @movement(%x: tensor<2x3xf32>)
    -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) {
  %a = rlx.reshape %x : tensor<2x3xf32> -> tensor<6xf32>
  %b = rlx.reshape %a : tensor<6xf32> -> tensor<3x2xf32>
  %c = rlx.reshape %b : tensor<3x2xf32> -> tensor<2x3xf32>
  %d = rlx.transpose %x permutation [1, 0] : tensor<2x3xf32> -> tensor<3x2xf32>
  %e = rlx.transpose %d permutation [1, 0] : tensor<3x2xf32> -> tensor<2x3xf32>
  %f = rlx.slice %x starts [0, 0] steps [1, 1] : tensor<2x3xf32> -> tensor<2x3xf32>
  %g = rlx.broadcast_to %x : tensor<2x3xf32> -> tensor<2x3xf32>
  %h = rlx.concat %x axis 1 : tensor<2x3xf32> -> tensor<2x3xf32>
  %n = rlx.neg %x : tensor<2x3xf32> -> tensor<2x3xf32>
  %m = rlx.neg %n : tensor<2x3xf32> -> tensor<2x3xf32>
  // CHECK-NEXT: rlx.output %[[X]], %[[X]], %[[X]], %[[X]], %[[X]], %[[X]]
  rlx.output %c, %e, %f, %g, %h, %m
    : tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>
}

// Moving the elements of a small constant is exact for every type.
// CHECK-LABEL: @moved_constants
rlx.graph @moved_constants() -> (tensor<3x2xf32>, tensor<2xf32>, tensor<2x2xi64>, tensor<2x3xi64>, tensor<0xi64>,
                                 tensor<3xi64>, tensor<2x2x3xi64>) {
  %f = rlx.constant dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xf32>
  // CHECK-DAG: %[[T:.*]] = rlx.constant dense<{{\[\[}}1.{{0*}}e+00, 4.{{0*}}e+00], [2.{{0*}}e+00, 5.{{0*}}e+00], [3.{{0*}}e+00, 6.{{0*}}e+00]]>
  %t = rlx.transpose %f permutation [1, 0] : tensor<2x3xf32> -> tensor<3x2xf32>
  // CHECK-DAG: %[[LAST:.*]] = rlx.constant dense<[6.{{0*}}e+00, 5.{{0*}}e+00]>
  %one = rlx.constant dense<-1> : tensor<i64>
  %row = rlx.gather %f, %one axis 0 : tensor<2x3xf32>, tensor<i64> -> tensor<3xf32>
  %last = rlx.slice %row starts [2] steps [-1] : tensor<3xf32> -> tensor<2xf32>
  // CHECK-DAG: %[[STACKED:.*]] = rlx.constant dense<{{\[\[}}1, 5], [2, 6]]>
  %p = rlx.constant dense<[[1], [2]]> : tensor<2x1xi64>
  %q = rlx.constant dense<[[5], [6]]> : tensor<2x1xi64>
  %stacked = rlx.concat %p, %q axis 1 : tensor<2x1xi64>, tensor<2x1xi64> -> tensor<2x2xi64>
  // CHECK-DAG: %[[WIDE:.*]] = rlx.constant dense<{{\[\[}}1, 1, 1], [2, 2, 2]]>
  %wide = rlx.broadcast_to %p : tensor<2x1xi64> -> tensor<2x3xi64>
  // CHECK-DAG: %[[NONE:.*]] = rlx.constant dense<> : tensor<0xi64>
  %pair = rlx.constant dense<[1, 2]> : tensor<2xi64>
  %none = rlx.slice %pair starts [2] steps [1] : tensor<2xi64> -> tensor<0xi64>
  // CHECK-DAG: %[[IOTA:.*]] = rlx.constant dense<[5, 3, 1]> : tensor<3xi64>
  %iota = rlx.iota [5, -2] axis 0 : tensor<3xi64>
  // CHECK-DAG: %[[ROWS:.*]] = rlx.constant dense<{{.*}}7, 8, 9], [1, 2, 3]{{.*}}4, 5, 6], [7, 8, 9]{{.*}}> : tensor<2x2x3xi64>
  %table = rlx.constant dense<[[1, 2, 3], [4, 5, 6], [7, 8, 9]]> : tensor<3x3xi64>
  %index = rlx.constant dense<[[-1, 0], [1, 2]]> : tensor<2x2xi32>
  %rows = rlx.gather %table, %index axis 0 : tensor<3x3xi64>, tensor<2x2xi32> -> tensor<2x2x3xi64>
  // CHECK: rlx.output %[[T]], %[[LAST]], %[[STACKED]], %[[WIDE]], %[[NONE]], %[[IOTA]], %[[ROWS]]
  rlx.output %t, %last, %stacked, %wide, %none, %iota, %rows
    : tensor<3x2xf32>, tensor<2xf32>, tensor<2x2xi64>, tensor<2x3xi64>, tensor<0xi64>, tensor<3xi64>, tensor<2x2x3xi64>
}

// The cap: 1 KiB folds, more does not; a splat keeps being one.
// CHECK-LABEL: @cap
rlx.graph @cap() -> (tensor<128xi64>, tensor<129xi64>, tensor<1000x1000xf32>) {
  %zero = rlx.constant dense<0> : tensor<i64>
  // CHECK-DAG: %[[FOLDED:.*]] = rlx.constant dense<0> : tensor<128xi64>
  %small = rlx.broadcast_to %zero : tensor<i64> -> tensor<128xi64>
  // CHECK-DAG: %[[LARGE:.*]] = rlx.broadcast_to
  %large = rlx.broadcast_to %zero : tensor<i64> -> tensor<129xi64>
  // CHECK-DAG: %[[SPLAT:.*]] = rlx.constant dense<1.{{0*}}e+00> : tensor<1000x1000xf32>
  %splat = rlx.constant dense<1.0> : tensor<1000000xf32>
  %reshaped = rlx.reshape %splat : tensor<1000000xf32> -> tensor<1000x1000xf32>
  // CHECK: rlx.output %[[FOLDED]], %[[LARGE]], %[[SPLAT]]
  rlx.output %small, %large, %reshaped : tensor<128xi64>, tensor<129xi64>, tensor<1000x1000xf32>
}

// A range up to a name stays a kernel, bound or not: folding it would tie the graph to one size. A type with an
// unknown size says nothing about equality.
// CHECK-LABEL: @not_folded
rlx.graph @not_folded(%x: tensor<8xf32, #rlx.dims<[S]>>, %y: tensor<?x?xf32>) -> (tensor<8xi64, #rlx.dims<[S]>>, tensor<?x?xf32>)
    attributes {dims = [#rlx.dim<"S", bound = 8>]} {
  // CHECK: %[[IOTA:.*]] = rlx.iota
  %iota = rlx.iota [0, 1] axis 0 : tensor<8xi64, #rlx.dims<[S]>>
  // CHECK: %[[RESHAPE:.*]] = rlx.reshape
  %reshape = rlx.reshape %y : tensor<?x?xf32> -> tensor<?x?xf32>
  // CHECK: rlx.output %[[IOTA]], %[[RESHAPE]]
  rlx.output %iota, %reshape : tensor<8xi64, #rlx.dims<[S]>>, tensor<?x?xf32>
}

// A list of numbers is a constant.
// CHECK-LABEL: @numbers
rlx.graph @numbers() -> (tensor<2xi64>) {
  // CHECK: %[[NUMBERS:.*]] = rlx.constant dense<[3, 4]> : tensor<2xi64>
  %0 = rlx.dim_values [3, 4] : tensor<2xi64>
  // CHECK: rlx.output %[[NUMBERS]]
  rlx.output %0 : tensor<2xi64>
}

// Two conversions of which the first keeps every integer are one; others stay two.
// CHECK-LABEL: @issue_conversions_around_a_zero_point
// CHECK-DAG: %[[BYTE:.*]] = rlx.convert %arg0 : tensor<4xi8> -> tensor<4xf32>
// CHECK-DAG: %[[UNSIGNED:.*]] = rlx.convert %arg1 : tensor<4xui8> -> tensor<4xf32>
// CHECK-DAG: %[[WRAPPED:.*]] = rlx.convert %arg0 : tensor<4xi8> -> tensor<4xui8>
// CHECK-DAG: %[[LOST:.*]] = rlx.convert %[[WRAPPED]] : tensor<4xui8> -> tensor<4xf32>
// CHECK-DAG: %[[FLAG:.*]] = rlx.convert %arg0 : tensor<4xi8> -> tensor<4xi1>
// CHECK-DAG: %[[ONE:.*]] = rlx.convert %[[FLAG]] : tensor<4xi1> -> tensor<4xf32>
// CHECK: rlx.output %[[BYTE]], %[[UNSIGNED]], %[[LOST]], %[[ONE]]
rlx.graph @issue_conversions_around_a_zero_point(%x: tensor<4xi8>, %u: tensor<4xui8>)
    -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %0 = rlx.convert %x : tensor<4xi8> -> tensor<4xi32>
  %1 = rlx.convert %0 : tensor<4xi32> -> tensor<4xf32>
  %2 = rlx.convert %u : tensor<4xui8> -> tensor<4xi16>
  %3 = rlx.convert %2 : tensor<4xi16> -> tensor<4xf32>
  %4 = rlx.convert %x : tensor<4xi8> -> tensor<4xui8>
  %5 = rlx.convert %4 : tensor<4xui8> -> tensor<4xf32>
  %6 = rlx.convert %x : tensor<4xi8> -> tensor<4xi1>
  %7 = rlx.convert %6 : tensor<4xi1> -> tensor<4xf32>
  rlx.output %1, %3, %5, %7 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// Nothing says yet that two and three elements are no sizes of one tensor: folded, a third element was read that was
// not there.
// CHECK-LABEL: @issue_conversions_around_unknown_sizes
// CHECK: %[[WIDE:.*]] = rlx.convert %{{.*}} : tensor<2xi8> -> tensor<?xi32>
// CHECK: %[[Y:.*]] = rlx.convert %[[WIDE]] : tensor<?xi32> -> tensor<3xi64>
// CHECK: rlx.output %[[Y]]
rlx.graph @issue_conversions_around_unknown_sizes() -> (tensor<3xi64>) {
  %c = rlx.constant dense<[5, 6]> : tensor<2xi8>
  %0 = rlx.convert %c : tensor<2xi8> -> tensor<?xi32>
  %1 = rlx.convert %0 : tensor<?xi32> -> tensor<3xi64>
  rlx.output %1 : tensor<3xi64>
}

// One value everywhere is converted whatever the size: zero points of as many columns as a weight has.
// CHECK-LABEL: @issue_zero_points_of_many_columns
// CHECK: %[[C:.*]] = rlx.constant dense<-3> : tensor<1x4096xi32>
// CHECK: rlx.output %arg0, %[[C]]
rlx.graph @issue_zero_points_of_many_columns(%x: tensor<2x4096xi32>) -> (tensor<2x4096xi32>, tensor<1x4096xi32>) {
  %z = rlx.constant dense<0> : tensor<1x4096xi8>
  %0 = rlx.convert %z : tensor<1x4096xi8> -> tensor<1x4096xi32>
  %1 = rlx.sub %x, %0 : tensor<2x4096xi32>, tensor<1x4096xi32> -> tensor<2x4096xi32>
  %c = rlx.constant dense<-3> : tensor<1x4096xi8>
  %2 = rlx.convert %c : tensor<1x4096xi8> -> tensor<1x4096xi32>
  rlx.output %1, %2 : tensor<2x4096xi32>, tensor<1x4096xi32>
}
