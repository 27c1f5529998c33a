//===- RLXInterfaces.td - shapes over named dims -----------*- tablegen -*-===//
#ifndef RLX_INTERFACES
#define RLX_INTERFACES

include "mlir/IR/OpBase.td"

def RLX_ShapeFunctionOpInterface : OpInterface<"ShapeFunctionOpInterface"> {
  let cppNamespace = "::rlx::ir";
  let description = [{
    The shape function of an op over named dims. A `TensorShape` is a list of
    `DimExpr` and an element type; a size that is a number is a constant.
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
      certain, for instance `K == L` for the two inner dims of a matmul.
    }], "void", "collectRequirements",
    (ins "::llvm::SmallVectorImpl<::rlx::ir::Requirement> &":$requirements), "", [{}]>
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
