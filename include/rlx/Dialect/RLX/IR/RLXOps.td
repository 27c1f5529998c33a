//===- RLXOps.td - the ops of the rlx dialect --------------*- tablegen -*-===//
#ifndef RLX_OPS
#define RLX_OPS

include "rlx/Dialect/RLX/IR/RLXAttributes.td"
include "rlx/Dialect/RLX/IR/RLXInterfaces.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/IR/RegionKindInterface.td"
include "mlir/Interfaces/FunctionInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"

// The element types, with words for errors and docs.
def RLX_Element : AnyTypeOf<[F32, F64, F16, BF16, I1, I8, I16, I32, I64, UI8, UI16, UI32, UI64],
                            "float (f32, f64, f16, bf16), integer (i8 to i64, ui8 to ui64) or i1">;
def RLX_FloatElement : AnyTypeOf<[F32, F64, F16, BF16], "float (f32, f64, f16, bf16)">;
def RLX_IndexElement : AnyTypeOf<[I32, I64], "i32 or i64">;

def RLX_Tensor : RankedTensorOf<[RLX_Element]>;
def RLX_FloatTensor : RankedTensorOf<[RLX_FloatElement]>;
def RLX_BoolTensor : RankedTensorOf<[I1]>;
def RLX_IndexTensor : RankedTensorOf<[RLX_IndexElement]>;
def RLX_ShapeTensor : RankedTensorOf<[I64]>;

class RLX_Op<string mnemonic, list<Trait> traits = []> : Op<RLX_Dialect, mnemonic, traits>;

// A pure op with a shape function. The last parameter says whether it requires anything of sizes.
class RLX_ShapedOp<string mnemonic, list<Trait> traits = [], bit requires = 0>
    : RLX_Op<mnemonic, !listconcat([Pure, DeclareOpInterfaceMethods<RLX_ShapeFunctionOpInterface,
                                              !if(requires, ["collectRequirements"], []<string>)>], traits)>;

// MLIR's own check of inferred types comes after the op's verifier, which has inferred them already and speaks in our
// words: there is nothing left to refine, and inferring twice would double the cost of every pass.
def RLX_InferTypes : InferTypeOpAdaptorBase<[{
  static bool isCompatibleReturnTypes(::mlir::TypeRange inferred, ::mlir::TypeRange actual);
  static ::llvm::LogicalResult refineReturnTypes(::mlir::MLIRContext *, std::optional<::mlir::Location>,
                                                 ::mlir::ValueRange, ::mlir::DictionaryAttr, ::mlir::OpaqueProperties,
                                                 ::mlir::RegionRange, ::llvm::SmallVectorImpl<::mlir::Type> &) {
    return ::llvm::success();
  }
}]>;

// A shaped op whose result types follow from its operands and attributes. One function of its adaptor
// (ShapeFunctions.h) serves inferShapes, the builders and the verifier.
class RLX_InferredOp<string mnemonic, list<Trait> traits = [], bit requires = 0>
    : RLX_ShapedOp<mnemonic, !listconcat([RLX_InferTypes], traits), requires> {
  code inferredDefinition = [{
    ::llvm::LogicalResult $cppClass::inferShapes(::llvm::ArrayRef<::rlx::ir::TensorShape> operands,
                                                 ::llvm::SmallVectorImpl<::rlx::ir::TensorShape> &results) {
      return ::rlx::ir::detail::computeShapes(Adaptor(*this), [this] { return emitOpError(); }, operands, results);
    }
    ::llvm::LogicalResult $cppClass::inferReturnTypes(::mlir::MLIRContext *context,
                                                      std::optional<::mlir::Location> location, Adaptor adaptor,
                                                      ::llvm::SmallVectorImpl<::mlir::Type> &types) {
      return ::rlx::ir::detail::inferTypes(context, location, getOperationName(), adaptor.getOperands(), types,
          [&](::rlx::ir::detail::EmitError emit, ::llvm::ArrayRef<::rlx::ir::TensorShape> operands,
              ::llvm::SmallVectorImpl<::rlx::ir::TensorShape> &results) {
            return ::rlx::ir::detail::computeShapes(adaptor, emit, operands, results);
          });
    }
    bool $cppClass::isCompatibleReturnTypes(::mlir::TypeRange inferred, ::mlir::TypeRange actual) {
      return ::rlx::ir::areCompatible(inferred, actual);
    }
    ::llvm::LogicalResult $cppClass::verify() { return ::rlx::ir::detail::verifyInferred(*this); }
  }];
  let hasVerifier = 1;
  let extraClassDefinition = inferredDefinition;
}

//===----------------------------------------------------------------------===//
// Structure
//===----------------------------------------------------------------------===//

def GraphOp : RLX_Op<"graph", [IsolatedFromAbove, FunctionOpInterface, SingleBlock]> {
  let summary = "A graph: its named dims, its inputs, its outputs.";
  let description = [{
    ```mlir
    rlx.graph @main(%x: tensor<?x4xf32, #rlx.dims<[B, 4]>> {rlx.name = "x"})
        -> (tensor<?x4xf32, #rlx.dims<[B, 4]>> {rlx.name = "y"})
        attributes {dims = [#rlx.dim<"B", max = 64>], constraints = [#rlx.constraint<"B % 8 == 0", "declared">]} {
      %0 = rlx.exp %x : tensor<?x4xf32, #rlx.dims<[B, 4]>> -> tensor<?x4xf32, #rlx.dims<[B, 4]>>
      rlx.output %0 : tensor<?x4xf32, #rlx.dims<[B, 4]>>
    }
    ```
    Arguments are the inputs; `rlx.name` is their public name (default: input0, input1, ...; output0, ...).
    `dims` declares every name that occurs in a type, an attribute or a constraint of the graph. `constraints`
    are requirements on sizes.

    A name in the type of an output also occurs in an input's or a param's: otherwise nothing could bind it.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<FunctionType>:$function_type,
                       OptionalAttr<ArrayAttr>:$dims, OptionalAttr<ArrayAttr>:$constraints,
                       OptionalAttr<DictArrayAttr>:$arg_attrs, OptionalAttr<DictArrayAttr>:$res_attrs);
  let regions = (region SizedRegion<1>:$body);
  let builders = [OpBuilder<(ins "::llvm::StringRef":$name, "::mlir::FunctionType":$type)>];
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    ::llvm::ArrayRef<::mlir::Type> getArgumentTypes() { return getFunctionType().getInputs(); }
    ::llvm::ArrayRef<::mlir::Type> getResultTypes() { return getFunctionType().getResults(); }
    ::mlir::Region *getCallableRegion() { return &getBody(); }
    /// The attribute of an input or output that holds its public name.
    static constexpr ::llvm::StringLiteral getNameAttrName() { return "rlx.name"; }
    /// Public name of input or output `i`.
    std::string getInputName(unsigned i);
    std::string getOutputName(unsigned i);
    /// Declared properties of the named dims, in order.
    ::llvm::SmallVector<::rlx::ir::DimDeclAttr> getDimDecls();
    ::llvm::SmallVector<::rlx::ir::ConstraintAttr> getConstraintList();
    /// What the declarations say: ranges, multiples, and the constraints.
    ::rlx::DimFacts getFacts();
    /// Sizes of the names that are bound.
    ::rlx::Binding getBinding();
    /// The terminator.
    ::rlx::ir::OutputOp getOutput();
  }];
}

def OutputOp : RLX_Op<"output", [Terminator, Pure, HasParent<"GraphOp">]> {
  let summary = "Ends a graph and names its outputs, in order.";
  let description = [{
    The values have the types that the graph promises, except that unit axes may differ, so that a scalar may
    stand for `[1]`: the elements are the same. A dim that the promise leaves open may be a number here.
  }];
  let arguments = (ins Variadic<RLX_Tensor>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
  let hasVerifier = 1;
}

def ConstantOp : RLX_Op<"constant", [Pure, ConstantLike]> {
  let summary = "A small value kept in the graph (up to about 1 KiB).";
  let description = [{
    ```mlir
    %0 = rlx.constant dense<[1, 2]> : tensor<2xi64>
    %1 = rlx.constant dense<0> : tensor<4xi64> -> tensor<4xi64, #rlx.dims<[B]>>
    ```
    The second form is for a result whose sizes are bound. Anything large is a weight.
  }];
  let arguments = (ins ElementsAttr:$value);
  let results = (outs RLX_Tensor:$result);
  let builders = [OpBuilder<(ins "::mlir::ElementsAttr":$value)>];
  let assemblyFormat = "$value attr-dict custom<ConstantType>(ref($value), type($result))";
  let hasFolder = 1;
  let hasVerifier = 1;
}

def WeightOp : RLX_Op<"weight", [Pure]> {
  let summary = "A named row of the weight table; its bytes live outside the IR.";
  let description = [{
    `%w = rlx.weight "encoder.0.query" : tensor<384x384xi8>`. The type is the row's, with static sizes. The same
    row may be named by many ops; it is stored once.
  }];
  let arguments = (ins StrAttr:$row);
  let results = (outs RLX_Tensor:$result);
  let assemblyFormat = "$row attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def ParamOp : RLX_Op<"param", [Pure]> {
  let summary = "A named slot whose value the caller sets before or between runs.";
  let description = [{ `%p = rlx.param "bias" : tensor<64xf32>`. }];
  let arguments = (ins StrAttr:$name);
  let results = (outs RLX_Tensor:$result);
  let assemblyFormat = "$name attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def DimValuesOp : RLX_Op<"dim_values", [Pure, ConstantLike]> {
  let summary = "A 1-d i64 tensor (or a scalar) of size expressions, as a value.";
  let description = [{
    What asking for a shape, and the integer arithmetic on the answer, become:

    ```mlir
    %0 = rlx.dim_values [B, S] : tensor<2xi64>
    %1 = rlx.constant dense<2> : tensor<2xi64>
    %2 = rlx.mul %0, %1 : tensor<2xi64>, tensor<2xi64> -> tensor<2xi64>
    // folds to
    %2 = rlx.dim_values [2 * B, 2 * S] : tensor<2xi64>
    ```
    A list of plain numbers folds to an `rlx.constant`.
  }];
  let arguments = (ins RLX_DimsAttr:$values);
  let results = (outs RLX_ShapeTensor:$result);
  let assemblyFormat = "custom<DimList>($values) attr-dict `:` type($result)";
  let hasFolder = 1;
  let hasVerifier = 1;
  let hasCanonicalizeMethod = 1;
}

def AssumeDimsOp : RLX_ShapedOp<"assume_dims", [], 1> {
  let summary = "States the dims of a value where its operands' types cannot.";
  let description = [{
    ```mlir
    %1 = rlx.assume_dims %0 : tensor<?xf32, #rlx.dims<[N]>> -> tensor<?xf32, #rlx.dims<[M]>>
    ```
    The result is the operand under the result's dims; that both agree (`N == M`) becomes a requirement.
  }];
  let arguments = (ins RLX_Tensor:$input);
  let results = (outs RLX_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasFolder = 1;
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Elementwise
//===----------------------------------------------------------------------===//

// An op that is one instruction of an element program. `foldable` ones fold integers.
class RLX_Elementwise<string mnemonic, string opcode, list<Trait> traits = [], bit foldable = 1>
    : RLX_InferredOp<mnemonic, !listconcat([RLX_ElementwiseOpInterface], traits), 1> {
  let extraClassDeclaration = [{ ::rlx::data::Opcode getOpcode() { return ::rlx::data::Opcode::}] # opcode # [{; } }];
  let hasFolder = foldable;
  let extraClassDefinition = inferredDefinition # [{
    void $cppClass::collectRequirements(::llvm::SmallVectorImpl<::rlx::ir::Requirement> &requirements) {
      ::rlx::ir::detail::requireBroadcast(*this, requirements);
    }
  }] # !if(foldable, [{
    ::mlir::OpFoldResult $cppClass::fold(FoldAdaptor adaptor) {
      return ::rlx::ir::detail::foldElementwise(*this, getOpcode(), adaptor.getOperands());
    }
  }], "");
}

class RLX_Unary<string mnemonic, string opcode, string what, Type type = RLX_Tensor, string element = "f32">
    : RLX_Elementwise<mnemonic, opcode> {
  let summary = what;
  let description = "`%r = rlx." # mnemonic # " %x : tensor<?x" # element # ", #rlx.dims<[N]>> -> tensor<?x" # element #
                    ", #rlx.dims<[N]>>`.";
  let arguments = (ins type:$input);
  let results = (outs type:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
}

class RLX_Binary<string mnemonic, string opcode, string what, list<Trait> traits = [], string element = "f32">
    : RLX_Elementwise<mnemonic, opcode, traits> {
  let summary = what;
  let description = [{
    Both operands have the result's element type. Axes are aligned at the last one; where sizes differ, one is 1 and
    is repeated. Sizes that are named differently give `broadcast(N, M)` and a requirement.

    ```mlir
    }] # "%r = rlx." # mnemonic # " %a, %b : tensor<?x4x" # element # ", #rlx.dims<[B, 4]>>, tensor<4x" # element #
                    "> -> tensor<?x4x" # element # [{, #rlx.dims<[B, 4]>>
    ```
  }];
  let arguments = (ins RLX_Tensor:$lhs, RLX_Tensor:$rhs);
  let results = (outs RLX_Tensor:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($lhs) `,` type($rhs) `->` type($result)";
}

def AddOp : RLX_Binary<"add", "Add", "Sum, with broadcasting; integers wrap.", [Commutative]>;
def SubOp : RLX_Binary<"sub", "Sub", "Difference, with broadcasting; integers wrap.">;
def MulOp : RLX_Binary<"mul", "Mul", "Product, with broadcasting; integers wrap.", [Commutative]>;
def DivOp : RLX_Binary<"div", "Div", "Quotient; integers truncate, a zero divisor is a run-time error.">;
def ModOp : RLX_Binary<"mod", "Mod", "Remainder with the sign of the divisor; an integer zero divisor is a run-time error.">;
def RemOp : RLX_Binary<"rem", "Rem", "Remainder with the sign of the dividend; an integer zero divisor is a run-time error.">;
def PowOp : RLX_Binary<"pow", "Pow", "lhs to the power rhs.">;
def MaxOp : RLX_Binary<"max", "Max", "The larger; NaN if either is NaN; +0 over -0.", [Commutative]>;
def MinOp : RLX_Binary<"min", "Min", "The smaller; NaN if either is NaN; -0 over +0.", [Commutative]>;
def AndOp : RLX_Binary<"and", "And", "Bitwise and (logical on i1); integers only.", [Commutative], "i32">;
def OrOp : RLX_Binary<"or", "Or", "Bitwise or (logical on i1); integers only.", [Commutative], "i32">;
def XorOp : RLX_Binary<"xor", "Xor", "Bitwise exclusive or (logical on i1); integers only.", [Commutative], "i32">;
def ShlOp : RLX_Binary<"shl", "ShiftLeft", "lhs shifted left by rhs bits; 0 when rhs is the width or more; integers only.", [], "i32">;
def ShrOp : RLX_Binary<"shr", "ShiftRight", "lhs shifted right by rhs bits; 0 (or the sign) when rhs is the width or more; integers only.", [], "i32">;

def NegOp : RLX_Unary<"neg", "Neg", "Negation; integers wrap.">;
def AbsOp : RLX_Unary<"abs", "Abs", "Absolute value; of the lowest integer itself.">;
def SignOp : RLX_Unary<"sign", "Sign", "-1, 0 or 1; NaN stays.">;
def NotOp : RLX_Unary<"not", "Not", "Bitwise complement (logical on i1); integers only.", RLX_Tensor, "i32">;
def ExpOp : RLX_Unary<"exp", "Exp", "e to the power of the input.", RLX_FloatTensor>;
def LogOp : RLX_Unary<"log", "Log", "Natural logarithm; of 0 -inf, of a negative number NaN.", RLX_FloatTensor>;
def SqrtOp : RLX_Unary<"sqrt", "Sqrt", "Square root, correctly rounded.", RLX_FloatTensor>;
def ReciprocalOp : RLX_Unary<"reciprocal", "Reciprocal", "1 / x, correctly rounded.", RLX_FloatTensor>;
def TanhOp : RLX_Unary<"tanh", "Tanh", "Hyperbolic tangent.", RLX_FloatTensor>;
def ErfOp : RLX_Unary<"erf", "Erf", "Error function.", RLX_FloatTensor>;
def SigmoidOp : RLX_Unary<"sigmoid", "Sigmoid", "1 / (1 + exp(-x)).", RLX_FloatTensor>;
def SinOp : RLX_Unary<"sin", "Sin", "Sine of radians.", RLX_FloatTensor>;
def CosOp : RLX_Unary<"cos", "Cos", "Cosine of radians.", RLX_FloatTensor>;
def FloorOp : RLX_Unary<"floor", "Floor", "Largest integer not above.", RLX_FloatTensor>;
def CeilOp : RLX_Unary<"ceil", "Ceil", "Smallest integer not below.", RLX_FloatTensor>;
def RoundOp : RLX_Unary<"round", "Round", "Nearest integer, halves to even.", RLX_FloatTensor>;

def GeluOp : RLX_Elementwise<"gelu", "Gelu", [], 0> {
  let summary = "x * Phi(x): exact by erf, or the tanh approximation.";
  let description = [{
    `rlx.gelu %x {approximate} : tensor<4xf32> -> tensor<4xf32>` computes
    `x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))`; without the mark, `x / 2 * (1 + erf(x / sqrt(2)))`.
  }];
  let arguments = (ins RLX_FloatTensor:$input, UnitAttr:$approximate);
  let results = (outs RLX_FloatTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let extraClassDeclaration = [{
    ::rlx::data::Opcode getOpcode() { return getApproximate() ? ::rlx::data::Opcode::GeluTanh : ::rlx::data::Opcode::Gelu; }
  }];
}

class RLX_Test<string mnemonic, string opcode, string what>
    : RLX_Elementwise<mnemonic, opcode, [], 0> {
  let summary = what;
  let description = "`%r = rlx." # mnemonic # " %x : tensor<4xf32> -> tensor<4xi1>`.";
  let arguments = (ins RLX_FloatTensor:$input);
  let results = (outs RLX_BoolTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
}
def IsNaNOp : RLX_Test<"is_nan", "IsNaN", "True where the input is NaN.">;
def IsInfOp : RLX_Test<"is_inf", "IsInf", "True where the input is +inf or -inf.">;

def CompareOp : RLX_Elementwise<"compare", "Equal"> {
  let summary = "Compares two tensors of one element type, with broadcasting.";
  let description = [{
    `rlx.compare lt %a, %b : tensor<4xf32>, tensor<f32> -> tensor<4xi1>`. The predicate is eq, ne, lt, le, gt or ge.
    NaN compares false, except that it is ne to everything.
  }];
  let arguments = (ins RLX_ComparePredicateAttr:$predicate, RLX_Tensor:$lhs, RLX_Tensor:$rhs);
  let results = (outs RLX_BoolTensor:$result);
  let assemblyFormat = "$predicate $lhs `,` $rhs attr-dict `:` type($lhs) `,` type($rhs) `->` type($result)";
  let extraClassDeclaration = [{ ::rlx::data::Opcode getOpcode(); }];
}

def SelectOp : RLX_Elementwise<"select", "Select"> {
  let summary = "Element of `on_true` where the condition holds, else of `on_false`; all three broadcast.";
  let description = [{
    `rlx.select %c, %a, %b : tensor<4xi1>, tensor<4xf32>, tensor<f32> -> tensor<4xf32>`.
  }];
  let arguments = (ins RLX_BoolTensor:$condition, RLX_Tensor:$on_true, RLX_Tensor:$on_false);
  let results = (outs RLX_Tensor:$result);
  let assemblyFormat = [{ $condition `,` $on_true `,` $on_false attr-dict `:` type($condition) `,` type($on_true) `,`
                          type($on_false) `->` type($result) }];
}

def ConvertOp : RLX_ShapedOp<"convert", [RLX_ElementwiseOpInterface]> {
  let summary = "Converts the element type: float to integer saturates (NaN gives 0), integers wrap, to i1 is `!= 0`.";
  let description = [{
    `rlx.convert %x : tensor<4xf32> -> tensor<4xi32>`. The sizes are the operand's.

    Sizes that go through a float or an i32 and come back (`Cast` to float, division, `Floor`, `Cast` to int64 of many
    exports) fold to expressions as if the float had unlimited precision, which is exact for sizes below 2^20.
  }];
  let arguments = (ins RLX_Tensor:$input);
  let results = (outs RLX_Tensor:$result);
  let builders = [OpBuilder<(ins "::mlir::Value":$input, "::mlir::Type":$elementType)>];
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasFolder = 1;
  let hasVerifier = 1;
  let extraClassDeclaration = [{ ::rlx::data::Opcode getOpcode() { return ::rlx::data::Opcode::Convert; } }];
}

//===----------------------------------------------------------------------===//
// Contraction, reduction, normalisation
//===----------------------------------------------------------------------===//

def MatmulOp : RLX_InferredOp<"matmul", [], 1> {
  let summary = "Batched product: [..., M, K] by [..., K, N], batch dims broadcast. Both of rank 2 or more.";
  let description = [{
    ```mlir
    %y = rlx.matmul %x, %w : tensor<?x?x64xf32, #rlx.dims<[B, S, 64]>>, tensor<64x32xf32>
                             -> tensor<?x?x32xf32, #rlx.dims<[B, S, 32]>>
    ```
    The result has the lhs's element type. An i8 or ui8 rhs under a float lhs is widened: scales are a `mul` of the
    result. f16 and bf16 accumulate in f32, integers in their own type. Inner size 0 gives zeros.
  }];
  let arguments = (ins RLX_Tensor:$lhs, RLX_Tensor:$rhs);
  let results = (outs RLX_Tensor:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($lhs) `,` type($rhs) `->` type($result)";
}

def ReduceOp : RLX_InferredOp<"reduce"> {
  let summary = "Reduces over axes (sorted, non-negative). Over nothing: sum 0, mean NaN, prod 1, max -inf, min +inf.";
  let description = [{
    ```mlir
    %y = rlx.reduce mean %x axes [1] keep_dims : tensor<?x4xf32, #rlx.dims<[B, 4]>> -> tensor<?x1xf32, #rlx.dims<[B, 1]>>
    ```
    Without `keep_dims` the reduced axes are dropped. Max of no integers is the lowest one, min the highest.
  }];
  let arguments = (ins RLX_ReduceKindAttr:$kind, RLX_Tensor:$input, DenseI64ArrayAttr:$axes, UnitAttr:$keep_dims);
  let results = (outs RLX_Tensor:$result);
  let assemblyFormat = "$kind $input `axes` $axes (`keep_dims` $keep_dims^)? attr-dict `:` type($input) `->` type($result)";
  let hasFolder = 1;
}

def CumSumOp : RLX_InferredOp<"cumsum"> {
  let summary = "Running sum along an axis.";
  let description = [{
    `rlx.cumsum %x axis 1 {exclusive, reverse} : tensor<2x3xf32> -> tensor<2x3xf32>`: `exclusive` leaves out the element
    itself, `reverse` sums from the end.
  }];
  let arguments = (ins RLX_Tensor:$input, I64Attr:$axis, UnitAttr:$exclusive, UnitAttr:$reverse);
  let results = (outs RLX_Tensor:$result);
  let assemblyFormat = "$input `axis` $axis attr-dict `:` type($input) `->` type($result)";
}

class RLX_SoftmaxLike<string mnemonic, string what> : RLX_InferredOp<mnemonic> {
  let summary = what;
  let description = "`%r = rlx." # mnemonic # [{ %x axis 1 : tensor<?x4xf32, #rlx.dims<[B, 4]>> -> tensor<?x4xf32, #rlx.dims<[B, 4]>>`. }];
  let arguments = (ins RLX_FloatTensor:$input, I64Attr:$axis);
  let results = (outs RLX_FloatTensor:$result);
  let assemblyFormat = "$input `axis` $axis attr-dict `:` type($input) `->` type($result)";
}
def SoftmaxOp : RLX_SoftmaxLike<"softmax", "Softmax along an axis; a row of -inf gives NaN, a masked lane exactly 0.">;
def LogSoftmaxOp : RLX_SoftmaxLike<"log_softmax", "Logarithm of the softmax along an axis.">;

def LayerNormOp : RLX_InferredOp<"layer_norm", [AttrSizedOperandSegments], 1> {
  let summary = "(x - mean) / sqrt(var + epsilon) over the axes from `axis` on, times scale, plus bias.";
  let description = [{
    ```mlir
    %y = rlx.layer_norm %x scale %s : tensor<4xf32> bias %b : tensor<4xf32> axis 1 epsilon 1.0e-05
         : tensor<?x4xf32, #rlx.dims<[B, 4]>> -> tensor<?x4xf32, #rlx.dims<[B, 4]>>
    ```
    Scale and bias have the shape of the normalised dims and the input's element type. Statistics in f32 (f64 for f64).
  }];
  let arguments = (ins RLX_FloatTensor:$input, Optional<RLX_FloatTensor>:$scale, Optional<RLX_FloatTensor>:$bias,
                       I64Attr:$axis, F64Attr:$epsilon);
  let results = (outs RLX_FloatTensor:$result);
  let assemblyFormat = [{ $input (`scale` $scale^ `:` type($scale))? (`bias` $bias^ `:` type($bias))? `axis`
                          $axis `epsilon` $epsilon attr-dict `:` type($input) `->` type($result) }];
}

def RmsNormOp : RLX_InferredOp<"rms_norm", [], 1> {
  let summary = "x / sqrt(mean(x * x) + epsilon) over the axes from `axis` on, times scale.";
  let description = [{
    `rlx.rms_norm %x scale %s : tensor<4xf32> axis 1 epsilon 1.0e-05 : tensor<2x4xf32> -> tensor<2x4xf32>`. The scale has
    the shape of the normalised dims and the input's element type. Statistics in f32 (f64 for f64).
  }];
  let arguments = (ins RLX_FloatTensor:$input, Optional<RLX_FloatTensor>:$scale, I64Attr:$axis, F64Attr:$epsilon);
  let results = (outs RLX_FloatTensor:$result);
  let assemblyFormat = [{ $input (`scale` $scale^ `:` type($scale))? `axis` $axis `epsilon`
                          $epsilon attr-dict `:` type($input) `->` type($result) }];
}

def AttentionOp : RLX_InferredOp<"attention", [], 1> {
  let summary = "softmax(q k^T * scale + mask) v over [..., heads, length, depth].";
  let description = [{
    q [..., H, L, D], k [..., Hk, T, D], v [..., Hk, T, E], mask broadcast to [..., H, L, T] (added); result
    [..., H, L, E]. H is a multiple of Hk (grouped queries: head h reads key head h / (H / Hk)). All of rank 3 or more
    with equal leading dims, and one element type.

    ```mlir
    %y = rlx.attention %q, %k, %v mask %m : tensor<4x4xf32> scale 1.250000e-01
         : tensor<2x4x8xf32>, tensor<1x4x8xf32>, tensor<1x4x16xf32> -> tensor<2x4x16xf32>
    ```
  }];
  let arguments = (ins RLX_FloatTensor:$query, RLX_FloatTensor:$key, RLX_FloatTensor:$value,
                       Optional<RLX_FloatTensor>:$mask, F64Attr:$scale);
  let results = (outs RLX_FloatTensor:$result);
  let assemblyFormat = [{ $query `,` $key `,` $value (`mask` $mask^ `:` type($mask))? `scale` $scale
                          attr-dict `:` type($query) `,` type($key) `,` type($value) `->` type($result) }];
}

//===----------------------------------------------------------------------===//
// Shape and data movement
//===----------------------------------------------------------------------===//

def ReshapeOp : RLX_ShapedOp<"reshape", [], 1> {
  let summary = "The same elements in row-major order under another shape, given by the result type.";
  let description = [{
    ```mlir
    %1 = rlx.reshape %0 : tensor<?x4xf32, #rlx.dims<[S, 4]>> -> tensor<?x2xf32, #rlx.dims<[2 * S, 2]>>
    ```
    The element counts are equal, as expressions or by a requirement.
  }];
  let arguments = (ins RLX_Tensor:$input);
  let results = (outs RLX_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasFolder = 1;
  let hasVerifier = 1;
}

def TransposeOp : RLX_InferredOp<"transpose"> {
  let summary = "Result axis i is input axis permutation[i].";
  let description = [{ `rlx.transpose %x permutation [1, 0] : tensor<2x3xf32> -> tensor<3x2xf32>`. }];
  let arguments = (ins RLX_Tensor:$input, DenseI64ArrayAttr:$permutation);
  let results = (outs RLX_Tensor:$result);
  let assemblyFormat = "$input `permutation` $permutation attr-dict `:` type($input) `->` type($result)";
  let hasFolder = 1;
}

def BroadcastToOp : RLX_ShapedOp<"broadcast_to", [], 1> {
  let summary = "Repeats unit dims (aligned at the last axis) to the result's shape.";
  let description = [{
    `rlx.broadcast_to %x : tensor<1x4xf32> -> tensor<?x4xf32, #rlx.dims<[B, 4]>>`. Each dim of the input is 1 or the
    result's; for dims that are named differently this is a requirement.
  }];
  let arguments = (ins RLX_Tensor:$input);
  let results = (outs RLX_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasFolder = 1;
  let hasVerifier = 1;
}

def SliceOp : RLX_ShapedOp<"slice", [], 1> {
  let summary = "Elements starts[i] + j * steps[i] of each axis, j below the result's size.";
  let description = [{
    ```mlir
    // the last row, and the columns backwards
    %1 = rlx.slice %0 starts [S - 1, 3] steps [1, -1] : tensor<?x4xf32, #rlx.dims<[S, 4]>> -> tensor<1x4xf32>
    ```
    Starts are already clamped and non-negative; steps may be negative, not zero. The result's dims are the counts. That
    every element read lies inside is a requirement.
  }];
  let arguments = (ins RLX_Tensor:$input, RLX_DimsAttr:$starts, DenseI64ArrayAttr:$steps);
  let results = (outs RLX_Tensor:$result);
  let assemblyFormat = [{ $input `starts` custom<DimList>($starts) `steps` $steps attr-dict `:` type($input) `->`
                          type($result) }];
  let hasFolder = 1;
  let hasVerifier = 1;
}

def ConcatOp : RLX_InferredOp<"concat", [], 1> {
  let summary = "Joins tensors along an axis.";
  let description = [{
    ```mlir
    %2 = rlx.concat %0, %1 axis 0 : tensor<?x4xf32, #rlx.dims<[N, 4]>>, tensor<?x4xf32, #rlx.dims<[M, 4]>>
         -> tensor<?x4xf32, #rlx.dims<[M + N, 4]>>
    ```
    One operand or more, of one rank and element type; the other axes have equal sizes, or it is a requirement.
  }];
  let arguments = (ins Variadic<RLX_Tensor>:$inputs, I64Attr:$axis);
  let results = (outs RLX_Tensor:$result);
  let assemblyFormat = "$inputs `axis` $axis attr-dict `:` type($inputs) `->` type($result)";
  let hasFolder = 1;
}

def PadOp : RLX_InferredOp<"pad", [], 1> {
  let summary = "Surrounds a tensor with a value; low and high are counts per axis, 0 or more.";
  let description = [{
    `rlx.pad %x, %zero low [0, 1] high [0, 2] : tensor<2x3xf32>, tensor<f32> -> tensor<2x6xf32>`. The value is a scalar.
  }];
  let arguments = (ins RLX_Tensor:$input, RLX_Tensor:$value, RLX_DimsAttr:$low, RLX_DimsAttr:$high);
  let results = (outs RLX_Tensor:$result);
  let assemblyFormat = [{ $input `,` $value `low` custom<DimList>($low) `high` custom<DimList>($high) attr-dict `:`
                          type($input) `,` type($value) `->` type($result) }];
}

def GatherOp : RLX_InferredOp<"gather"> {
  let summary = "Replaces one axis by the axes of an index tensor: out[a, i, b] = data[a, index[i], b].";
  let description = [{
    ```mlir
    %e = rlx.gather %table, %ids axis 0 : tensor<30522x384xf32>, tensor<?x?xi64, #rlx.dims<[B, S]>>
         -> tensor<?x?x384xf32, #rlx.dims<[B, S, 384]>>
    ```
    Negative indices count from the end; one out of range is a run-time error that names the node.
  }];
  let arguments = (ins RLX_Tensor:$data, RLX_IndexTensor:$indices, I64Attr:$axis);
  let results = (outs RLX_Tensor:$result);
  let assemblyFormat = [{ $data `,` $indices `axis` $axis attr-dict `:` type($data) `,` type($indices) `->`
                          type($result) }];
  let hasFolder = 1;
}

def GatherNDOp : RLX_InferredOp<"gather_nd", [], 1> {
  let summary = "Looks up index tuples: the last axis of `indices` indexes the axes of data after `batch_dims`.";
  let description = [{
    ```mlir
    %y = rlx.gather_nd %x, %i batch_dims 1 : tensor<2x5x7xf32>, tensor<2x3x1xi64> -> tensor<2x3x7xf32>
    ```
    The first `batch_dims` axes of both are walked together. The size of the last axis of `indices` is a number. Negative
    indices count from the end; one out of range is a run-time error.
  }];
  let arguments = (ins RLX_Tensor:$data, RLX_IndexTensor:$indices, I64Attr:$batch_dims);
  let results = (outs RLX_Tensor:$result);
  let assemblyFormat = [{ $data `,` $indices `batch_dims` $batch_dims attr-dict `:` type($data) `,`
                          type($indices) `->` type($result) }];
}

def GatherElementsOp : RLX_InferredOp<"gather_elements", [], 1> {
  let summary = "out[i, j] = data[index[i, j], j] for axis 0, and so on; the result has the indices' shape.";
  let description = [{
    `rlx.gather_elements %x, %i axis 1 : tensor<2x5xf32>, tensor<2x3xi64> -> tensor<2x3xf32>`. On the other axes the
    indices are no larger than the data. Negative indices count from the end; one out of range is a run-time error.
  }];
  let arguments = (ins RLX_Tensor:$data, RLX_IndexTensor:$indices, I64Attr:$axis);
  let results = (outs RLX_Tensor:$result);
  let assemblyFormat = [{ $data `,` $indices `axis` $axis attr-dict `:` type($data) `,` type($indices) `->`
                          type($result) }];
}

def ScatterElementsOp : RLX_InferredOp<"scatter_elements", [], 1> {
  let summary = "Data with updates written at data[index[i, j], j] for axis 0, and so on, in row-major order.";
  let description = [{
    ```mlir
    %y = rlx.scatter_elements add %x, %i, %u axis 1 : tensor<2x5xf32>, tensor<2x3xi64>, tensor<2x3xf32> -> tensor<2x5xf32>
    ```
    Indices and updates have one shape, on the other axes no larger than the data. Where two updates meet, `assign` keeps
    the last.
  }];
  let arguments = (ins RLX_Tensor:$data, RLX_IndexTensor:$indices, RLX_Tensor:$updates, I64Attr:$axis, RLX_CombineAttr:$combine);
  let results = (outs RLX_Tensor:$result);
  let assemblyFormat = [{ $combine $data `,` $indices `,` $updates `axis` $axis attr-dict `:` type($data)
                          `,` type($indices) `,` type($updates) `->` type($result) }];
}

def ScatterNDOp : RLX_InferredOp<"scatter_nd", [], 1> {
  let summary = "Data with slices of updates written at the index tuples, in row-major order.";
  let description = [{
    ```mlir
    %y = rlx.scatter_nd assign %x, %i, %u : tensor<5x7xf32>, tensor<3x1xi64>, tensor<3x7xf32> -> tensor<5x7xf32>
    ```
    Indices are [..., depth] with depth a number; updates are [..., the data's axes from depth on].
  }];
  let arguments = (ins RLX_Tensor:$data, RLX_IndexTensor:$indices, RLX_Tensor:$updates, RLX_CombineAttr:$combine);
  let results = (outs RLX_Tensor:$result);
  let assemblyFormat = [{ $combine $data `,` $indices `,` $updates attr-dict `:` type($data) `,` type($indices) `,`
                          type($updates) `->` type($result) }];
}

def IotaOp : RLX_ShapedOp<"iota"> {
  let summary = "start + step * position along an axis of the result's shape (i64).";
  let description = [{
    `rlx.iota [0, 1] axis 1 : tensor<?x?xi64, #rlx.dims<[B, S]>>`. The list is start and step, two expressions.
  }];
  let arguments = (ins RLX_DimsAttr:$start_step, I64Attr:$axis);
  let results = (outs RLX_ShapeTensor:$result);
  let assemblyFormat = "custom<DimList>($start_step) `axis` $axis attr-dict `:` type($result)";
  let hasFolder = 1;
  let hasVerifier = 1;
}

class RLX_Random<string mnemonic, string what, dag parameters> : RLX_ShapedOp<mnemonic> {
  let summary = what;
  let description = [{
    The stream is a function of (seed, key, step) only: see docs/NumericContract.md. The key lies in [0, 2^32). Pure for
    one run (two ops of one key are equal), but never folded: seed and step come with each run.
  }];
  let arguments = !con((ins I64Attr:$key), parameters);
  let results = (outs RLX_FloatTensor:$result);
  let assemblyFormat = "`key` $key attr-dict `:` type($result)";
  let hasVerifier = 1;
}
def RandomUniformOp : RLX_Random<"random_uniform", "Uniform numbers in [low, high) of the result's shape.", (ins F64Attr:$low, F64Attr:$high)>;
def RandomNormalOp : RLX_Random<"random_normal", "Normal numbers of the result's shape.", (ins F64Attr:$mean, F64Attr:$scale)>;

//===----------------------------------------------------------------------===//
// Kernels: what rlx-form-kernels makes of a graph
//===----------------------------------------------------------------------===//

def KernelOp : RLX_Op<"kernel", [IsolatedFromAbove, SingleBlock, Pure]> {
  let summary = "A group of ops that one kernel computes.";
  let description = [{
    ```mlir
    %2 = rlx.kernel matmul(%x, %w, %b) {
    ^bb0(%0: tensor<2x4xf32>, %1: tensor<4x8xf32>, %2: tensor<8xf32>):
      %3 = rlx.matmul %0, %1 : tensor<2x4xf32>, tensor<4x8xf32> -> tensor<2x8xf32>
      %4 = rlx.add %3, %2 : tensor<2x8xf32>, tensor<8xf32> -> tensor<2x8xf32>
      rlx.yield %4 : tensor<2x8xf32>
    } : (tensor<2x4xf32>, tensor<4x8xf32>, tensor<8xf32>) -> tensor<2x8xf32>
    ```
    Region arguments mirror the inputs and stand for whole, contiguous buffers. Reshapes outside kernels are views of the
    same buffer.
  }];
  let arguments = (ins RLX_KernelFamilyAttr:$family, Variadic<RLX_Tensor>:$inputs, OptionalAttr<StrAttr>:$node);
  let results = (outs Variadic<RLX_Tensor>:$results);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{ $family `` `(` $inputs `)` attr-dict-with-keyword $body `:` functional-type($inputs, $results) }];
  let hasRegionVerifier = 1;
}

def YieldOp : RLX_Op<"yield", [Terminator, Pure, HasParent<"KernelOp">]> {
  let summary = "Ends a kernel's region and names its results.";
  let description = [{ `rlx.yield %4 : tensor<2x8xf32>`. The types are the kernel's results'. }];
  let arguments = (ins Variadic<RLX_Tensor>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

#endif // RLX_OPS
