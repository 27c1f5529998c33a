// RUN: not rlx-opt %s --rlx-fold-constants=max-bytes=many 2>&1 | FileCheck %s
// CHECK: max-bytes
rlx.graph @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  rlx.output %x : tensor<4xf32>
}
