// RUN: rlx-opt %s --verify-diagnostics --split-input-file --allow-unregistered-dialect

//===----------------------------------------------------------------------===//
// Attributes and types
//===----------------------------------------------------------------------===//

// expected-error @+1 {{dims [B] are 1 for a tensor of rank 2}}
func.func private @f(tensor<?x?xf32, #rlx.dims<[B]>>)

// -----

// expected-error @+1 {{axis 1 is '?' but its dim is the number 4}}
func.func private @f(tensor<?x?xf32, #rlx.dims<[B, 4]>>)

// -----

// expected-error @+1 {{axis 1 is 3 but its dim is 4}}
func.func private @f(tensor<?x3xf32, #rlx.dims<[B, 4]>>)

// -----

// expected-error @+1 {{expected a size expression}}
func.func private @f(tensor<?xf32, #rlx.dims<[B +]>>)

// -----

// expected-error @+1 {{number does not fit 64 bits}}
func.func private @f(tensor<?xf32, #rlx.dims<[99999999999999999999]>>)

// -----

// expected-error @+1 {{a dim's name is empty}}
func.func private @f(tensor<?xf32, #rlx.dims<[""]>>)

// -----

// expected-error @+1 {{this name is reserved for unknown dims}}
func.func private @f(tensor<?xf32, #rlx.dims<["\01?"]>>)

// -----

// expected-error @+1 {{size expression is nested too deeply}}
func.func private @f(tensor<?xf32, #rlx.dims<[((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((B))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))]>>)

// -----

// expected-error @+1 {{dim 'B': min -1 is negative}}
"test.op"() {d = #rlx.dim<"B", min = -1>} : () -> ()

// -----

// expected-error @+1 {{dim 'B': max 3 is below min 4}}
"test.op"() {d = #rlx.dim<"B", min = 4, max = 3>} : () -> ()

// -----

// expected-error @+1 {{dim 'B': multiple 0 is below 1}}
"test.op"() {d = #rlx.dim<"B", multiple = 0>} : () -> ()

// -----

// expected-error @+1 {{dim 'B': no multiple of 8 lies in [1, 7]}}
"test.op"() {d = #rlx.dim<"B", min = 1, max = 7, multiple = 8>} : () -> ()

// -----

// expected-error @+1 {{dim 'B': likely size 9 is outside [0, 8]}}
"test.op"() {d = #rlx.dim<"B", max = 8, likely = [8, 9]>} : () -> ()

// -----

// expected-error @+1 {{dim 'B': size 4 is not a multiple of 8}}
"test.op"() {d = #rlx.dim<"B", multiple = 8, bound = 4>} : () -> ()

// -----

// expected-error @+1 {{'min' is given twice}}
"test.op"() {d = #rlx.dim<"B", min = 1, min = 2>} : () -> ()

// -----

// expected-error @+1 {{'maximum' is none of min, max, multiple, likely, bound}}
"test.op"() {d = #rlx.dim<"B", maximum = 1>} : () -> ()

// -----

// expected-error @+1 {{a dim's name is empty}}
"test.op"() {d = #rlx.dim<"">} : () -> ()

// -----

// expected-error @+1 {{constraint: }}
"test.op"() {d = #rlx.constraint<"B ==", "why">} : () -> ()

// -----

//===----------------------------------------------------------------------===//
// Graphs
//===----------------------------------------------------------------------===//

// expected-error @+1 {{input 0 is no tensor of an rlx element type}}
rlx.graph @g(%x: tensor<4xindex>) { rlx.output }

// -----

// expected-error @+1 {{input 0 is no tensor of an rlx element type}}
rlx.graph @g(%x: tensor<*xf32>) { rlx.output }

// -----

// expected-error @+1 {{region with 1 blocks}}
rlx.graph @g(%x: tensor<4xf32>)

// -----

rlx.graph @g(%x: tensor<4xf32>) {
  // expected-error @+1 {{a tensor's encoding is no #rlx.dims}}
  %0 = rlx.neg %x : tensor<4xf32> -> tensor<4xf32, "layout">
  rlx.output
}

// -----

// expected-error @+1 {{two inputs are named 'x'}}
rlx.graph @g(%x: tensor<4xf32> {rlx.name = "x"}, %y: tensor<4xf32> {rlx.name = "x"}) { rlx.output }

// -----

// expected-error @+1 {{two outputs are named 'output1'}}
rlx.graph @g(%x: tensor<4xf32>) -> (tensor<4xf32> {rlx.name = "output1"}, tensor<4xf32>) {
  rlx.output %x, %x : tensor<4xf32>, tensor<4xf32>
}

// -----

// expected-error @+1 {{the name of input 0 is not a string, or is empty}}
rlx.graph @g(%x: tensor<4xf32> {rlx.name = 1}) { rlx.output }

// -----

// expected-error @+1 {{dim 'B' is declared twice}}
rlx.graph @g() attributes {dims = [#rlx.dim<"B">, #rlx.dim<"B">]} { rlx.output }

// -----

// expected-error @+1 {{'dims' holds what is no #rlx.dim: 1}}
rlx.graph @g() attributes {dims = [1]} { rlx.output }

// -----

// expected-error @+1 {{'constraints' holds what is no #rlx.constraint: 1}}
rlx.graph @g() attributes {constraints = [1]} { rlx.output }

// -----

// expected-error @+1 {{dim 'C' of a constraint is not declared}}
rlx.graph @g() attributes {dims = [#rlx.dim<"B">], constraints = [#rlx.constraint<"B == C", "why">]} { rlx.output }

// -----

// expected-error @+1 {{dim 'B' is not declared by the graph}}
rlx.graph @g(%x: tensor<?xf32, #rlx.dims<[B]>>) { rlx.output }

// -----

rlx.graph @g(%x: tensor<?xf32, #rlx.dims<[B]>>) attributes {dims = [#rlx.dim<"B">]} {
  // expected-error @+1 {{dim 'C' is not declared by the graph}}
  %0 = rlx.dim_values [C] : tensor<1xi64>
  rlx.output
}

// -----

// CASE 14: nothing could bind it.
// expected-error @+1 {{dim 'C' occurs only in outputs (of 'y')}}
rlx.graph @g(%x: tensor<?xf32, #rlx.dims<[B]>>) -> (tensor<?xf32, #rlx.dims<[C]>> {rlx.name = "y"})
    attributes {dims = [#rlx.dim<"B">, #rlx.dim<"C">]} {
  %0 = rlx.assume_dims %x : tensor<?xf32, #rlx.dims<[B]>> -> tensor<?xf32, #rlx.dims<[C]>>
  rlx.output %0 : tensor<?xf32, #rlx.dims<[C]>>
}

// -----

// expected-error @+1 {{axis 0 has size 5, but 2*B is 8}}
rlx.graph @g(%x: tensor<5xf32, #rlx.dims<[2 * B]>>) attributes {dims = [#rlx.dim<"B", bound = 4>]} { rlx.output }

// -----

// CASE 15
// expected-error @+1 {{a tensor's size overflows}}
rlx.graph @g(%x: tensor<4294967296x4294967296xf32>) { rlx.output }

// -----

// expected-error @+1 {{a tensor's size overflows}}
rlx.graph @g(%x: tensor<4611686018427387906xf32>) { rlx.output }

// -----

// expected-error @+1 {{does not end in rlx.output}}
rlx.graph @g(%x: tensor<4xf32>) {
  "test.end"() : () -> ()
}

// -----

rlx.graph @g(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{has 0 values, but the graph promises 1}}
  rlx.output
}

// -----

rlx.graph @g(%x: tensor<4xf32>) -> (tensor<4xi32> {rlx.name = "y"}) {
  // expected-error @+1 {{'y' is promised as 'i32' but its value is 'f32'}}
  rlx.output %x : tensor<4xf32>
}

// -----

// CASE 21
rlx.graph @g(%x: tensor<4xf32>) -> (tensor<5xf32> {rlx.name = "y"}) {
  // expected-error @+1 {{'y' is promised as [5] but its value has sizes [4]}}
  rlx.output %x : tensor<4xf32>
}

// -----

rlx.graph @g(%x: tensor<?xf32, #rlx.dims<[B]>>) -> tensor<?xf32, #rlx.dims<[B + 1]>> attributes {dims = [#rlx.dim<"B">]} {
  // expected-error @+1 {{'output0' is promised as [B+1] but its value has sizes [B]}}
  rlx.output %x : tensor<?xf32, #rlx.dims<[B]>>
}

// -----

rlx.graph @g(%x: tensor<4xf32>) -> tensor<1xf32> {
  // expected-error @+1 {{'output0' is promised as [1] but its value has sizes [4]}}
  rlx.output %x : tensor<4xf32>
}

// -----

rlx.graph @g(%x: tensor<4x2xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{'output0' is promised as [4] but its value has sizes [4, 2]}}
  rlx.output %x : tensor<4x2xf32>
}

// -----

//===----------------------------------------------------------------------===//
// Leaves
//===----------------------------------------------------------------------===//

// expected-error @+1 {{value of type 'tensor<2xi64>' for a result of type 'tensor<3xi64>'}}
%0 = rlx.constant dense<1> : tensor<2xi64> -> tensor<3xi64>

// -----

// expected-error @+1 {{its value is no dense tensor without encoding}}
%0 = rlx.constant dense<1> : vector<2xi64> -> tensor<2xi64>

// -----

// expected-error @+1 {{its value is no dense tensor without encoding}}
%0 = rlx.constant sparse<0, 1> : tensor<2xi64>

// -----

// expected-error @+1 {{the row's name is empty}}
%0 = rlx.weight "" : tensor<2xf32>

// -----

// expected-error @+1 {{'w' has sizes that are no numbers}}
%0 = rlx.weight "w" : tensor<?xf32, #rlx.dims<[B]>>

// -----

// expected-error @+1 {{the param's name is empty}}
%0 = rlx.param "" : tensor<2xf32>

// -----

// expected-error @+1 {{2 values for a result of type 'tensor<3xi64>'}}
%0 = rlx.dim_values [B, S] : tensor<3xi64>

// -----

// expected-error @+1 {{2 values for a result of type 'tensor<i64>'}}
%0 = rlx.dim_values [B, S] : tensor<i64>

// -----

// expected-error @+1 {{1 values for a result of type 'tensor<?xi64>'}}
%0 = rlx.dim_values [B] : tensor<?xi64>

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{sizes [4] can never be [5]}}
  %0 = rlx.assume_dims %x : tensor<4xf32> -> tensor<5xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{ranks differ: 1 and 2}}
  %0 = rlx.assume_dims %x : tensor<4xf32> -> tensor<4x1xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{element types 'f32' and 'i32' differ}}
  %0 = rlx.assume_dims %x : tensor<4xf32> -> tensor<4xi32>
  return
}

// -----

func.func @f(%x: tensor<?xf32, #rlx.dims<[B]>>) {
  // expected-error @+1 {{sizes [B] can never be [B+1]}}
  %0 = rlx.assume_dims %x : tensor<?xf32, #rlx.dims<[B]>> -> tensor<?xf32, #rlx.dims<[B + 1]>>
  return
}

// -----

//===----------------------------------------------------------------------===//
// Elementwise
//===----------------------------------------------------------------------===//

func.func @f(%x: tensor<2x3xf32>, %y: tensor<2xf32>) {
  // expected-error @+1 {{operands of sizes [2, 3] and [2] do not broadcast}}
  %0 = rlx.add %x, %y : tensor<2x3xf32>, tensor<2xf32> -> tensor<2x3xf32>
  return
}

// -----

// CASE 19: N = 4 against 5, by number.
func.func @f(%x: tensor<4x3xf32, #rlx.dims<[N, 3]>>, %y: tensor<5x3xf32>) {
  // expected-error @+1 {{operands of sizes [4, 3] and [5, 3] do not broadcast}}
  %0 = rlx.add %x, %y : tensor<4x3xf32, #rlx.dims<[N, 3]>>, tensor<5x3xf32> -> tensor<5x3xf32>
  return
}

// -----

func.func @f(%x: tensor<2xf32>, %y: tensor<2xf64>) {
  // expected-error @+1 {{element types 'f32' and 'f64' differ}}
  %0 = rlx.add %x, %y : tensor<2xf32>, tensor<2xf64> -> tensor<2xf32>
  return
}

// -----

func.func @f(%x: tensor<2xi1>) {
  // expected-error @+1 {{does not take i1}}
  %0 = rlx.add %x, %x : tensor<2xi1>, tensor<2xi1> -> tensor<2xi1>
  return
}

// -----

func.func @f(%x: tensor<2xf32>) {
  // expected-error @+1 {{takes integers, not 'f32'}}
  %0 = rlx.and %x, %x : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
  return
}

// -----

func.func @f(%x: tensor<2xf32>) {
  // expected-error @+1 {{has a result of type 'tensor<3xf32>', but its operands give 'tensor<2xf32>'}}
  %0 = rlx.add %x, %x : tensor<2xf32>, tensor<2xf32> -> tensor<3xf32>
  return
}

// -----

func.func @f(%x: tensor<2xf32>) {
  // expected-error @+1 {{has a result of type 'tensor<2xf64>', but its operands give 'tensor<2xf32>'}}
  %0 = rlx.exp %x : tensor<2xf32> -> tensor<2xf64>
  return
}

// -----

func.func @f(%x: tensor<?xf32, #rlx.dims<[B]>>) {
  // expected-error @+1 {{has a result of type 'tensor<?xf32, #rlx.dims<[B+1]>>', but its operands give 'tensor<?xf32, #rlx.dims<[B]>>'}}
  %0 = rlx.exp %x : tensor<?xf32, #rlx.dims<[B]>> -> tensor<?xf32, #rlx.dims<[B + 1]>>
  return
}

// -----

func.func @f(%x: tensor<2xf32>) {
  // expected-error @+1 {{has a result of type 'tensor<2x1xf32>', but its operands give 'tensor<2xf32>'}}
  %0 = rlx.exp %x : tensor<2xf32> -> tensor<2x1xf32>
  return
}

// -----

func.func @f(%x: tensor<2xi32>) {
  // expected-error @+1 {{operand #0 must be}}
  %0 = rlx.exp %x : tensor<2xi32> -> tensor<2xi32>
  return
}

// -----

func.func @f(%x: tensor<2xf32>, %y: tensor<2xf64>) {
  // expected-error @+1 {{element types 'f32' and 'f64' differ}}
  %0 = rlx.compare lt %x, %y : tensor<2xf32>, tensor<2xf64> -> tensor<2xi1>
  return
}

// -----

func.func @f(%c: tensor<3xi1>, %x: tensor<2xf32>) {
  // expected-error @+1 {{operands of sizes [3] and [2] do not broadcast}}
  %0 = rlx.select %c, %x, %x : tensor<3xi1>, tensor<2xf32>, tensor<2xf32> -> tensor<3xf32>
  return
}

// -----

func.func @f(%x: tensor<2xf32>) {
  // expected-error @+1 {{result sizes [3] are not the operand's, [2]}}
  %0 = rlx.convert %x : tensor<2xf32> -> tensor<3xi32>
  return
}

// -----

//===----------------------------------------------------------------------===//
// Contraction
//===----------------------------------------------------------------------===//

// CASE 22
func.func @f(%x: tensor<4x15x384xf32>, %w: tensor<512x8xf32>) {
  // expected-error @+1 {{inner sizes differ: [384] and [512]}}
  %0 = rlx.matmul %x, %w : tensor<4x15x384xf32>, tensor<512x8xf32> -> tensor<4x15x8xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>, %w: tensor<4x8xf32>) {
  // expected-error @+1 {{operands have ranks 1 and 2; both need 2 or more}}
  %0 = rlx.matmul %x, %w : tensor<4xf32>, tensor<4x8xf32> -> tensor<8xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3x4xf32>, %w: tensor<5x4x8xf32>) {
  // expected-error @+1 {{batch dims of [2, 3, 4] and [5, 4, 8] do not broadcast}}
  %0 = rlx.matmul %x, %w : tensor<2x3x4xf32>, tensor<5x4x8xf32> -> tensor<2x3x8xf32>
  return
}

// -----

func.func @f(%x: tensor<3x4xi8>, %w: tensor<4x8xf32>) {
  // expected-error @+1 {{element types 'i8' and 'f32' differ}}
  %0 = rlx.matmul %x, %w : tensor<3x4xi8>, tensor<4x8xf32> -> tensor<3x8xf32>
  return
}

// -----

func.func @f(%x: tensor<3x4xi1>) {
  // expected-error @+1 {{does not take i1}}
  %0 = rlx.matmul %x, %x : tensor<3x4xi1>, tensor<3x4xi1> -> tensor<3x4xi1>
  return
}

// -----

func.func @f(%x: tensor<3x4xf32>) {
  // expected-error @+1 {{axis 2 is outside a tensor of rank 2}}
  %0 = rlx.reduce sum %x axes [2] : tensor<3x4xf32> -> tensor<3xf32>
  return
}

// -----

func.func @f(%x: tensor<3x4xf32>) {
  // expected-error @+1 {{axis -1 is outside a tensor of rank 2}}
  %0 = rlx.reduce sum %x axes [-1] : tensor<3x4xf32> -> tensor<3xf32>
  return
}

// -----

func.func @f(%x: tensor<3x4xf32>) {
  // expected-error @+1 {{axes are not sorted, each once}}
  %0 = rlx.reduce sum %x axes [1, 0] : tensor<3x4xf32> -> tensor<f32>
  return
}

// -----

func.func @f(%x: tensor<3x4xi1>) {
  // expected-error @+1 {{does not take i1}}
  %0 = rlx.reduce sum %x axes [0] : tensor<3x4xi1> -> tensor<4xi1>
  return
}

// -----

func.func @f(%x: tensor<3x4xf32>) {
  // expected-error @+1 {{axis -9223372036854775808 is outside a tensor of rank 2}}
  %0 = rlx.cumsum %x axis -9223372036854775808 : tensor<3x4xf32> -> tensor<3x4xf32>
  return
}

// -----

func.func @f(%x: tensor<f32>) {
  // expected-error @+1 {{axis 0 is outside a tensor of rank 0}}
  %0 = rlx.softmax %x axis 0 : tensor<f32> -> tensor<f32>
  return
}

// -----

func.func @f(%x: tensor<3x4xf32>) {
  // expected-error @+1 {{axis 2 is outside a tensor of rank 2}}
  %0 = rlx.log_softmax %x axis 2 : tensor<3x4xf32> -> tensor<3x4xf32>
  return
}

// -----

func.func @f(%x: tensor<3x4xf32>, %s: tensor<3xf32>) {
  // expected-error @+1 {{scale or bias of sizes [3] does not fit the normalised [4]}}
  %0 = rlx.layer_norm %x scale %s : tensor<3xf32> axis 1 epsilon 1.0e-5 : tensor<3x4xf32> -> tensor<3x4xf32>
  return
}

// -----

func.func @f(%x: tensor<3x4xf32>, %s: tensor<4xf64>) {
  // expected-error @+1 {{element types 'f32' and 'f64' differ}}
  %0 = rlx.layer_norm %x bias %s : tensor<4xf64> axis 1 epsilon 1.0e-5 : tensor<3x4xf32> -> tensor<3x4xf32>
  return
}

// -----

func.func @f(%x: tensor<3x4xf32>, %s: tensor<4xf32>) {
  // expected-error @+1 {{scale or bias of sizes [4] does not fit the normalised [3, 4]}}
  %0 = rlx.rms_norm %x scale %s : tensor<4xf32> axis 0 epsilon 1.0e-5 : tensor<3x4xf32> -> tensor<3x4xf32>
  return
}

// -----

func.func @f(%x: tensor<3x4xf32>) {
  // expected-error @+1 {{axis 7 is outside a tensor of rank 2}}
  %0 = rlx.rms_norm %x axis 7 epsilon 1.0e-5 : tensor<3x4xf32> -> tensor<3x4xf32>
  return
}

// -----

func.func @f(%q: tensor<4x8xf32>) {
  // expected-error @+1 {{query, key and value have ranks 2, 2 and 2; they need one rank of 3 or more}}
  %0 = rlx.attention %q, %q, %q scale 1.0 : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
  return
}

// -----

func.func @f(%q: tensor<3x4x8xf32>, %k: tensor<2x4x8xf32>) {
  // expected-error @+1 {{3 query heads are no multiple of 2 key heads}}
  %0 = rlx.attention %q, %k, %k scale 1.0 : tensor<3x4x8xf32>, tensor<2x4x8xf32>, tensor<2x4x8xf32> -> tensor<3x4x8xf32>
  return
}

// -----

func.func @f(%q: tensor<2x4x8xf32>, %k: tensor<0x4x8xf32>) {
  // expected-error @+1 {{2 query heads are no multiple of 0 key heads}}
  %0 = rlx.attention %q, %k, %k scale 1.0 : tensor<2x4x8xf32>, tensor<0x4x8xf32>, tensor<0x4x8xf32> -> tensor<2x4x8xf32>
  return
}

// -----

func.func @f(%q: tensor<2x4x8xf32>, %k: tensor<2x5x8xf32>) {
  // expected-error @+1 {{lengths of key and value differ: [5] and [4]}}
  %0 = rlx.attention %q, %k, %q scale 1.0 : tensor<2x4x8xf32>, tensor<2x5x8xf32>, tensor<2x4x8xf32> -> tensor<2x4x8xf32>
  return
}

// -----

func.func @f(%q: tensor<2x4x8xf32>, %k: tensor<2x4x7xf32>) {
  // expected-error @+1 {{depths of query and key differ: [8] and [7]}}
  %0 = rlx.attention %q, %k, %k scale 1.0 : tensor<2x4x8xf32>, tensor<2x4x7xf32>, tensor<2x4x7xf32> -> tensor<2x4x7xf32>
  return
}

// -----

func.func @f(%q: tensor<5x2x4x8xf32>, %k: tensor<6x2x4x8xf32>) {
  // expected-error @+1 {{leading sizes differ: [5] and [6]}}
  %0 = rlx.attention %q, %k, %k scale 1.0 : tensor<5x2x4x8xf32>, tensor<6x2x4x8xf32>, tensor<6x2x4x8xf32> -> tensor<5x2x4x8xf32>
  return
}

// -----

func.func @f(%q: tensor<2x4x8xf32>, %m: tensor<3x4xf32>) {
  // expected-error @+1 {{mask of sizes [3, 4] does not broadcast to the scores' [2, 4, 4]}}
  %0 = rlx.attention %q, %q, %q mask %m : tensor<3x4xf32> scale 1.0 : tensor<2x4x8xf32>, tensor<2x4x8xf32>, tensor<2x4x8xf32> -> tensor<2x4x8xf32>
  return
}

// -----

//===----------------------------------------------------------------------===//
// Movement
//===----------------------------------------------------------------------===//

func.func @f(%x: tensor<4x15xf32>) {
  // expected-error @+1 {{sizes [4, 15] and [7, 9] have different numbers of elements}}
  %0 = rlx.reshape %x : tensor<4x15xf32> -> tensor<7x9xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{element types 'f32' and 'i32' differ}}
  %0 = rlx.reshape %x : tensor<4xf32> -> tensor<4xi32>
  return
}

// -----

func.func @f(%x: tensor<?xf32, #rlx.dims<[S]>>) {
  // expected-error @+1 {{sizes [S] and [S+1] have different numbers of elements}}
  %0 = rlx.reshape %x : tensor<?xf32, #rlx.dims<[S]>> -> tensor<?xf32, #rlx.dims<[S + 1]>>
  return
}

// -----

func.func @f(%x: tensor<3x4xf32>) {
  // expected-error @+1 {{permutation has axis 1 twice}}
  %0 = rlx.transpose %x permutation [1, 1] : tensor<3x4xf32> -> tensor<4x4xf32>
  return
}

// -----

func.func @f(%x: tensor<3x4xf32>) {
  // expected-error @+1 {{axis 2 is outside a tensor of rank 2}}
  %0 = rlx.transpose %x permutation [0, 2] : tensor<3x4xf32> -> tensor<3x4xf32>
  return
}

// -----

func.func @f(%x: tensor<3x4xf32>) {
  // expected-error @+1 {{permutation of 1 axes for a tensor of rank 2}}
  %0 = rlx.transpose %x permutation [0] : tensor<3x4xf32> -> tensor<3x4xf32>
  return
}

// -----

func.func @f(%x: tensor<3x4xf32>) {
  // expected-error @+1 {{sizes [3, 4] do not broadcast to [2, 4]}}
  %0 = rlx.broadcast_to %x : tensor<3x4xf32> -> tensor<2x4xf32>
  return
}

// -----

func.func @f(%x: tensor<3x4xf32>) {
  // expected-error @+1 {{sizes [3, 4] do not broadcast to [3, 1]}}
  %0 = rlx.broadcast_to %x : tensor<3x4xf32> -> tensor<3x1xf32>
  return
}

// -----

func.func @f(%x: tensor<3x4xf32>) {
  // expected-error @+1 {{result has rank 1, below the operand's 2}}
  %0 = rlx.broadcast_to %x : tensor<3x4xf32> -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<3xf32>) {
  // expected-error @+1 {{step of axis 0 is 0}}
  %0 = rlx.slice %x starts [0] steps [0] : tensor<3xf32> -> tensor<1xf32>
  return
}

// -----

func.func @f(%x: tensor<3xf32>) {
  // expected-error @+1 {{rlx.slice: axis 0: reads past the end (start 1, count 3, step 1, size 3)}}
  %0 = rlx.slice %x starts [1] steps [1] : tensor<3xf32> -> tensor<3xf32>
  return
}

// -----

func.func @f(%x: tensor<3xf32>) {
  // expected-error @+1 {{rlx.slice: axis 0: starts before the tensor (start -1, count 2, step 1, size 3)}}
  %0 = rlx.slice %x starts [-1] steps [1] : tensor<3xf32> -> tensor<2xf32>
  return
}

// -----

func.func @f(%x: tensor<3xf32>) {
  // expected-error @+1 {{rlx.slice: axis 0: reads before the start (start 1, count 3, step -1, size 3)}}
  %0 = rlx.slice %x starts [1] steps [-1] : tensor<3xf32> -> tensor<3xf32>
  return
}

// -----

func.func @f(%x: tensor<3xf32>) {
  // expected-error @+1 {{rlx.slice: axis 0: starts past the end (start 3, count 1, step -1, size 3)}}
  %0 = rlx.slice %x starts [3] steps [-1] : tensor<3xf32> -> tensor<1xf32>
  return
}

// -----

func.func @f(%x: tensor<?xf32, #rlx.dims<[S]>>) {
  // expected-error @+1 {{rlx.slice: axis 0: reads past the end}}
  %0 = rlx.slice %x starts [1] steps [1] : tensor<?xf32, #rlx.dims<[S]>> -> tensor<?xf32, #rlx.dims<[S]>>
  return
}

// -----

func.func @f(%x: tensor<3xf32>) {
  // expected-error @+1 {{tensor of rank 1 with 2 starts, 1 steps and a result of rank 1}}
  %0 = rlx.slice %x starts [0, 0] steps [1] : tensor<3xf32> -> tensor<3xf32>
  return
}

// -----

func.func @f(%x: tensor<3x4xf32>, %y: tensor<3x5xf32>) {
  // expected-error @+1 {{sizes of axis 1 differ: [4] and [5]}}
  %0 = rlx.concat %x, %y axis 0 : tensor<3x4xf32>, tensor<3x5xf32> -> tensor<6x4xf32>
  return
}

// -----

func.func @f(%x: tensor<3x4xf32>) {
  // expected-error @+1 {{axis 2 is outside a tensor of rank 2}}
  %0 = rlx.concat %x, %x axis 2 : tensor<3x4xf32>, tensor<3x4xf32> -> tensor<3x8xf32>
  return
}

// -----

func.func @f(%x: tensor<3x4xf32>, %y: tensor<4xf32>) {
  // expected-error @+1 {{operands have ranks 2 and 1}}
  %0 = rlx.concat %x, %y axis 0 : tensor<3x4xf32>, tensor<4xf32> -> tensor<4x4xf32>
  return
}

// -----

// expected-error @+1 {{needs an operand}}
%0 = "rlx.concat"() {axis = 0 : i64} : () -> tensor<4xf32>

// -----

func.func @f(%x: tensor<3xf32>, %v: tensor<f32>) {
  // expected-error @+1 {{count -1 of axis 0 is negative}}
  %0 = rlx.pad %x, %v low [-1] high [0] : tensor<3xf32>, tensor<f32> -> tensor<2xf32>
  return
}

// -----

func.func @f(%x: tensor<3xf32>, %v: tensor<1xf32>) {
  // expected-error @+1 {{the value has rank 1, not 0}}
  %0 = rlx.pad %x, %v low [1] high [0] : tensor<3xf32>, tensor<1xf32> -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<3xf32>, %v: tensor<f32>) {
  // expected-error @+1 {{tensor of rank 1 with 0 low and 1 high counts}}
  %0 = rlx.pad %x, %v low [] high [0] : tensor<3xf32>, tensor<f32> -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<f32>, %i: tensor<1xi64>) {
  // expected-error @+1 {{axis 0 is outside a tensor of rank 0}}
  %0 = rlx.gather %x, %i axis 0 : tensor<f32>, tensor<1xi64> -> tensor<1xf32>
  return
}

// -----

func.func @f(%x: tensor<3x4xf32>, %i: tensor<3x2xi64>) {
  // expected-error @+1 {{batch_dims 2 with data of rank 2 and indices of rank 2}}
  %0 = rlx.gather_nd %x, %i batch_dims 2 : tensor<3x4xf32>, tensor<3x2xi64> -> tensor<3xf32>
  return
}

// -----

func.func @f(%x: tensor<3x4xf32>, %i: tensor<3x3xi64>) {
  // expected-error @+1 {{index tuples of 3 for 2 axes}}
  %0 = rlx.gather_nd %x, %i batch_dims 0 : tensor<3x4xf32>, tensor<3x3xi64> -> tensor<3xf32>
  return
}

// -----

func.func @f(%x: tensor<3x4xf32>, %i: tensor<i64>) {
  // expected-error @+1 {{indices need rank 1 or more}}
  %0 = rlx.scatter_nd add %x, %i, %x : tensor<3x4xf32>, tensor<i64>, tensor<3x4xf32> -> tensor<3x4xf32>
  return
}

// -----

func.func @f(%x: tensor<3x4xf32>, %i: tensor<?xi64, #rlx.dims<[D]>>) {
  // expected-error @+1 {{the last axis of the indices is [D], not a number}}
  %0 = rlx.gather_nd %x, %i batch_dims 0 : tensor<3x4xf32>, tensor<?xi64, #rlx.dims<[D]>> -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<3x4xf32>, %i: tensor<5x2xi64>) {
  // expected-error @+1 {{axis 0: 5 indices for a size of 3}}
  %0 = rlx.gather_elements %x, %i axis 1 : tensor<3x4xf32>, tensor<5x2xi64> -> tensor<5x2xf32>
  return
}

// -----

func.func @f(%x: tensor<3x4xf32>, %i: tensor<2xi64>) {
  // expected-error @+1 {{data has rank 2, the indices have 1}}
  %0 = rlx.gather_elements %x, %i axis 0 : tensor<3x4xf32>, tensor<2xi64> -> tensor<2xf32>
  return
}

// -----

func.func @f(%x: tensor<3x4xf32>, %i: tensor<3x2xi64>, %u: tensor<3x1xf32>) {
  // expected-error @+1 {{sizes of axis 1 of indices and updates differ: [2] and [1]}}
  %0 = rlx.scatter_elements assign %x, %i, %u axis 1 : tensor<3x4xf32>, tensor<3x2xi64>, tensor<3x1xf32> -> tensor<3x4xf32>
  return
}

// -----

func.func @f(%x: tensor<3x4xf32>, %i: tensor<3x2xi64>, %u: tensor<3xf32>) {
  // expected-error @+1 {{indices have rank 2, the updates have 1}}
  %0 = rlx.scatter_elements assign %x, %i, %u axis 1 : tensor<3x4xf32>, tensor<3x2xi64>, tensor<3xf32> -> tensor<3x4xf32>
  return
}

// -----

func.func @f(%x: tensor<3x4xf32>, %i: tensor<2x1xi64>, %u: tensor<2x5xf32>) {
  // expected-error @+1 {{sizes of axis 1 of updates differ: [4] and [5]}}
  %0 = rlx.scatter_nd assign %x, %i, %u : tensor<3x4xf32>, tensor<2x1xi64>, tensor<2x5xf32> -> tensor<3x4xf32>
  return
}

// -----

func.func @f(%x: tensor<3x4xf32>, %i: tensor<2x1xi64>, %u: tensor<2xf32>) {
  // expected-error @+1 {{updates have rank 1, not 2}}
  %0 = rlx.scatter_nd assign %x, %i, %u : tensor<3x4xf32>, tensor<2x1xi64>, tensor<2xf32> -> tensor<3x4xf32>
  return
}

// -----

// expected-error @+1 {{needs a start and a step, not 1 expressions}}
%0 = rlx.iota [0] axis 0 : tensor<4xi64>

// -----

// expected-error @+1 {{axis 1 is outside a tensor of rank 1}}
%0 = rlx.iota [0, 1] axis 1 : tensor<4xi64>

// -----

// expected-error @+1 {{key -1 is outside [0, 2^32)}}
%0 = rlx.random_normal key -1 {mean = 0.0 : f64, scale = 1.0 : f64} : tensor<4xf32>

// -----

// expected-error @+1 {{a parameter is not finite}}
%0 = rlx.random_uniform key 0 {low = 0.0 : f64, high = 0x7FF0000000000000 : f64} : tensor<4xf32>

// -----

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{the types of the region's arguments are not those of the inputs}}
  %0 = rlx.kernel loops(%x) {
  ^bb0(%a: tensor<5xf32>):
    rlx.yield %a : tensor<5xf32>
  } : (tensor<4xf32>) -> tensor<5xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  %0 = rlx.kernel loops(%x) {
  ^bb0(%a: tensor<4xf32>):
    // expected-error @+1 {{the types yielded are not those of the kernel's results}}
    rlx.yield
  } : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{does not end in rlx.yield}}
  %0 = rlx.kernel loops(%x) {
  ^bb0(%a: tensor<4xf32>):
    "test.end"() : () -> ()
  } : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{expects parent op 'rlx.kernel'}}
  rlx.yield %x : tensor<4xf32>
}
