//===- RLXDialect.td - the rlx dialect ---------------------*- tablegen -*-===//
#ifndef RLX_DIALECT
#define RLX_DIALECT

include "mlir/IR/OpBase.td"

def RLX_Dialect : Dialect {
  let name = "rlx";
  let summary = "Tensor graphs whose dims have names.";
  let cppNamespace = "::rlx::ir";
  let description = [{
    A graph is written once with named dims, and bound to sizes later. A tensor
    type carries the expression of each dim in its encoding:

    ```mlir
    tensor<?x?x64xf32, #rlx.dims<[B, S, 64]>>     // open
    tensor<4x128x64xf32, #rlx.dims<[B, S, 64]>>   // bound to B = 4, S = 128
    tensor<2x3xf32>                               // nothing named
    ```

    The encoding lives on rlx ops only; `rlx-strip-dims` removes it before any
    other dialect sees the graph. Weights are named rows of a table outside the
    IR and never become attributes.
  }];
  let useDefaultAttributePrinterParser = 1;
  let hasConstantMaterializer = 1;
  let extraClassDeclaration = [{
    void registerAttributes();
    void registerOperations();
  }];
}

#endif // RLX_DIALECT
