//===- RLXInterfaces.td - shapes over named dims -----------*- tablegen -*-===//
#ifndef RLX_INTERFACES
#define RLX_INTERFACES

include "mlir/IR/OpBase.td"

def RLX_ShapeFunctionOpInterface : OpInterface<"ShapeFunctionOpInterface"> {
  let cppNamespace = "::rlx::ir";
  let description = [{
    The shape function of an op over named dims. A `TensorShape` is a list of
    `DimExpr` and an element type; a size that is a number is a constant. A dim that
    nobody has named or inferred yet is `unknownDim()`, and so is every dim computed
    from one.
  }];
  let methods = [
    InterfaceMethod<[{
      Computes the shape of each result from the operands' shapes. A dim that only the
      result's own type states (reshape, broadcast_to, iota) is taken from there. Emits an
      error at the op, with the sizes, where operands contradict each other for every binding.
    }], "::llvm::LogicalResult", "inferShapes",
    (ins "::llvm::ArrayRef<::rlx::ir::TensorShape>":$operands,
         "::llvm::SmallVectorImpl<::rlx::ir::TensorShape> &":$results)>,
    InterfaceMethod<[{
      Appends what must hold of the sizes for this op to be legal and is not already
      certain, for instance `K == L` for the two inner dims of a matmul. Reads the
      types of the operands and results as they are; says nothing of unknown dims.
    }], "void", "collectRequirements",
    (ins "::llvm::SmallVectorImpl<::rlx::ir::Requirement> &":$requirements), "", [{ (void)requirements; }]>
  ];
}

def RLX_ElementwiseOpInterface : OpInterface<"ElementwiseOpInterface"> {
  let cppNamespace = "::rlx::ir";
  let description = [{ One scalar instruction applied to every element; operands broadcast as in numpy. }];
  let methods = [
    InterfaceMethod<"The instruction of the element program.", "::rlx::data::Opcode", "getOpcode", (ins)>
  ];
}

#endif // RLX_INTERFACES
