// RUN: split-file %s %t
// RUN: not rlx-opt %t/g.mlir --rlx-bind-dims="dims=batch=2" 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: not rlx-opt %t/g.mlir --rlx-bind-dims="dims=B=-1" 2>&1 | FileCheck %s --check-prefix=NEGATIVE
// RUN: not rlx-opt %t/g.mlir --rlx-bind-dims="dims=B=1" 2>&1 | FileCheck %s --check-prefix=SMALL
// RUN: not rlx-opt %t/g.mlir --rlx-bind-dims="dims=B=65" 2>&1 | FileCheck %s --check-prefix=LARGE
// RUN: not rlx-opt %t/g.mlir --rlx-bind-dims="dims=S=12" 2>&1 | FileCheck %s --check-prefix=MULTIPLE
// RUN: not rlx-opt %t/g.mlir --rlx-bind-dims="dims=B=2,B=3" 2>&1 | FileCheck %s --check-prefix=TWICE
// RUN: not rlx-opt %t/g.mlir --rlx-bind-dims="dims=B=2" --rlx-bind-dims="dims=B=3" 2>&1 | FileCheck %s --check-prefix=AGAIN
// RUN: not rlx-opt %t/g.mlir --rlx-bind-dims="dims=B" 2>&1 | FileCheck %s --check-prefix=FORM
// RUN: not rlx-opt %t/g.mlir --rlx-bind-dims="dims=B=two" 2>&1 | FileCheck %s --check-prefix=NUMBER
// RUN: not rlx-opt %t/g.mlir --rlx-bind-dims="dims=B=9223372036854775808" 2>&1 | FileCheck %s --check-prefix=NUMBER
// RUN: not rlx-opt %t/static.mlir --rlx-bind-dims="dims=B=2" 2>&1 | FileCheck %s --check-prefix=STATIC
// RUN: not rlx-opt %t/large.mlir --rlx-bind-dims="dims=N=4294967296,M=4294967296" 2>&1 | FileCheck %s --check-prefix=PRODUCT
// RUN: not rlx-opt %t/one.mlir --rlx-bind-dims="dims=N=4611686018427387906" 2>&1 | FileCheck %s --check-prefix=BYTES
// RUN: not rlx-opt %t/negative.mlir --rlx-bind-dims="dims=N=1" 2>&1 | FileCheck %s --check-prefix=BELOW

// UNKNOWN: error: no dim is named 'batch'; dims are B, S
// NEGATIVE: error: dim 'B': size -1 is negative
// SMALL: error: dim 'B': size 1 is below the declared minimum 2
// LARGE: error: dim 'B': size 65 is above the declared maximum 64
// MULTIPLE: error: dim 'S': size 12 is not a multiple of 8
// TWICE: error: rlx-bind-dims: dim 'B' is given as 2 and as 3
// AGAIN: error: dim 'B': size 3 differs from 2, which it is bound to already
// FORM: error: rlx-bind-dims: 'B' is not of the form name=size
// NUMBER: error: rlx-bind-dims: the size of dim 'B', '{{.*}}', is not a 64-bit integer
// STATIC: error: no dim is named 'B'; no dim has a name
// PRODUCT: error: {{.*}}a tensor of shape [N, M] is too large for 64 bits
// BYTES: error: {{.*}}a tensor of shape [N] is too large for 64 bits
// BELOW: error: {{.*}}axis 0, N-2, would have size -1

//--- g.mlir
rlx.graph @main(%x: tensor<?x?xf32, #rlx.dims<[B, S]>>) -> tensor<?x?xf32, #rlx.dims<[B, S]>>
    attributes {dims = [#rlx.dim<"B", min = 2, max = 64>, #rlx.dim<"S", multiple = 8>]} {
  %0 = rlx.exp %x : tensor<?x?xf32, #rlx.dims<[B, S]>> -> tensor<?x?xf32, #rlx.dims<[B, S]>>
  rlx.output %0 : tensor<?x?xf32, #rlx.dims<[B, S]>>
}
//--- static.mlir
rlx.graph @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  rlx.output %x : tensor<2xf32>
}
//--- large.mlir
rlx.graph @main(%x: tensor<?x?xf32, #rlx.dims<[N, M]>>) -> tensor<?x?xf32, #rlx.dims<[N, M]>>
    attributes {dims = [#rlx.dim<"N">, #rlx.dim<"M">]} {
  rlx.output %x : tensor<?x?xf32, #rlx.dims<[N, M]>>
}
//--- one.mlir
rlx.graph @main(%x: tensor<?xf32, #rlx.dims<[N]>>) -> tensor<?xf32, #rlx.dims<[N]>>
    attributes {dims = [#rlx.dim<"N">]} {
  rlx.output %x : tensor<?xf32, #rlx.dims<[N]>>
}
//--- negative.mlir
rlx.graph @main(%x: tensor<?xf32, #rlx.dims<[N]>>) -> tensor<?xf32, #rlx.dims<[N - 2]>>
    attributes {dims = [#rlx.dim<"N">]} {
  %0 = rlx.slice %x starts [2] steps [1] : tensor<?xf32, #rlx.dims<[N]>> -> tensor<?xf32, #rlx.dims<[N - 2]>>
  rlx.output %0 : tensor<?xf32, #rlx.dims<[N - 2]>>
}
