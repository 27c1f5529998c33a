// REQUIRES: tool-RlxPlugin
// The packaged mlir-opt loads the dialect and the passes.
// RUN: mlir-opt %s --load-dialect-plugin=%rlx_plugin --load-pass-plugin=%rlx_plugin \
// RUN:   --pass-pipeline="builtin.module(rlx.graph(rlx-infer-dims),rlx-bind-dims{dims=x_0=2,x_1=16},rlx.graph(rlx-sync-shapes))" | FileCheck %s
// RUN: mlir-opt %s --load-dialect-plugin=%rlx_plugin --load-pass-plugin=%rlx_plugin \
// RUN:   --pass-pipeline="builtin.module(rlx-prepare,rlx-specialize{dims=x_0=2,x_1=16})" | FileCheck %s

// CHECK: rlx.exp {{.*}} -> tensor<2x16xf32, #rlx.dims<[x_0, x_1]>>
rlx.graph @main(%x: tensor<?x?xf32> {rlx.name = "x"}) -> tensor<?x?xf32> {
  %0 = rlx.exp %x : tensor<?x?xf32> -> tensor<?x?xf32>
  rlx.output %0 : tensor<?x?xf32>
}
