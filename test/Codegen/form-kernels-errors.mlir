// RUN: rlx-opt %s --rlx-form-kernels --split-input-file --verify-diagnostics

// Kernels are formed of bound graphs.
// expected-error @+1 {{dim 'B' has no size: run rlx-bind-dims first}}
rlx.graph @open(%x: tensor<?xf32, #rlx.dims<[B]>>) -> tensor<?xf32, #rlx.dims<[B]>> attributes {dims = [#rlx.dim<"B">]} {
  %0 = rlx.exp %x : tensor<?xf32, #rlx.dims<[B]>> -> tensor<?xf32, #rlx.dims<[B]>>
  rlx.output %0 : tensor<?xf32, #rlx.dims<[B]>>
}

// -----

// A requirement of an op, where the sizes alone are fine.
// expected-error @+1 {{rlx.slice: rlx.slice: axis 0}}
rlx.graph @required(%x: tensor<3xf32, #rlx.dims<[S]>>) -> tensor<5xf32> attributes {dims = [#rlx.dim<"S", bound = 3>]} {
  %0 = rlx.slice %x starts [0] steps [1] : tensor<3xf32, #rlx.dims<[S]>> -> tensor<5xf32>
  rlx.output %0 : tensor<5xf32>
}

// -----

// A constraint of the graph.
// expected-error @+1 {{node 'r': the -1 divides by B}}
rlx.graph @constraint(%x: tensor<0x3xf32, #rlx.dims<[B, 3]>>) -> tensor<0x3xf32, #rlx.dims<[B, 3]>>
    attributes {dims = [#rlx.dim<"B", bound = 0>], constraints = [#rlx.constraint<"1 <= B", "node 'r': the -1 divides by B">]} {
  rlx.output %x : tensor<0x3xf32, #rlx.dims<[B, 3]>>
}

// -----

// Sizes that do not broadcast have no size together: an error before anything is asked of it.
// expected-error @+1 {{rlx.iota: a size is broadcast(M, N): M is 3 and N is 2: they do not broadcast}}
rlx.graph @undefined(%x: tensor<2xf32, #rlx.dims<[N]>>, %y: tensor<3xf32, #rlx.dims<[M]>>) -> tensor<2xf32, #rlx.dims<[N]>>
    attributes {dims = [#rlx.dim<"N", bound = 2>, #rlx.dim<"M", bound = 3>]} {
  %0 = rlx.iota [0, 1] axis 0 : tensor<?xi64, #rlx.dims<[broadcast(N, M)]>>
  rlx.output %x : tensor<2xf32, #rlx.dims<[N]>>
}

// -----

// A size that divides by another which is 0.
// expected-error @+1 {{rlx.iota: a size is floordiv(M, N): N is 0}}
rlx.graph @division(%x: tensor<0xf32, #rlx.dims<[N]>>, %y: tensor<3xf32, #rlx.dims<[M]>>) -> tensor<0xf32, #rlx.dims<[N]>>
    attributes {dims = [#rlx.dim<"N", bound = 0>, #rlx.dim<"M", bound = 3>]} {
  %0 = rlx.iota [0, 1] axis 0 : tensor<?xi64, #rlx.dims<[floordiv(M, N)]>>
  rlx.output %x : tensor<0xf32, #rlx.dims<[N]>>
}

// -----

// A kernel that a file holds is not put into another.
rlx.graph @issue_kernels_already(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{the graph has kernels already}}
  %0 = rlx.kernel loops(%x) {
  ^bb0(%a: tensor<4xf32>):
    %1 = rlx.exp %a : tensor<4xf32> -> tensor<4xf32>
    rlx.yield %1 : tensor<4xf32>
  } : (tensor<4xf32>) -> tensor<4xf32>
  rlx.output %0 : tensor<4xf32>
}
