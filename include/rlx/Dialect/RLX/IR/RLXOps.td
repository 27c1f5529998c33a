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

def RLX_Element : AnyTypeOf<[F32, F64, F16, BF16, I1, I8, I16, I32, I64, UI8, UI16, UI32, UI64]>;
def RLX_Tensor : RankedTensorOf<[F32, F64, F16, BF16, I1, I8, I16, I32, I64, UI8, UI16, UI32, UI64]>;
def RLX_FloatTensor : RankedTensorOf<[F32, F64, F16, BF16]>;
def RLX_BoolTensor : RankedTensorOf<[I1]>;
def RLX_IndexTensor : RankedTensorOf<[I32, I64]>;
def RLX_ShapeTensor : RankedTensorOf<[I64]>;

class RLX_Op<string mnemonic, list<Trait> traits = []> : Op<RLX_Dialect, mnemonic, traits>;

// A pure op with one shape function. `InferShapedResults` gives its builder inferred result types.
class RLX_PureOp<string mnemonic, list<Trait> traits = []>
    : RLX_Op<mnemonic, !listconcat([Pure, DeclareOpInterfaceMethods<RLX_ShapeFunctionOpInterface,
                                          ["inferShapes", "collectRequirements"]>], traits)>;

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
      %0 = rlx.exp %x : ...
      rlx.output %0 : ...
    }
    ```
    Arguments are the inputs; `rlx.name` is their public name (default: input0, input1, ...; output0, ...).
    `dims` declares every name that occurs. `constraints` are requirements on sizes.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<FunctionType>:$function_type,
                       OptionalAttr<ArrayAttr>:$dims, OptionalAttr<ArrayAttr>:$constraints,
                       OptionalAttr<DictArrayAttr>:$arg_attrs, OptionalAttr<DictArrayAttr>:$res_attrs);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::llvm::ArrayRef<::mlir::Type> getArgumentTypes() { return getFunctionType().getInputs(); }
    ::llvm::ArrayRef<::mlir::Type> getResultTypes() { return getFunctionType().getResults(); }
    ::mlir::Region *getCallableRegion() { return &getBody(); }
    /// Public name of input or output `i`.
    std::string getInputName(unsigned i);
    std::string getOutputName(unsigned i);
    /// Declared properties of the named dims, in order.
    ::llvm::SmallVector<::rlx::ir::DimDeclAttr> getDimDecls();
    ::llvm::SmallVector<::rlx::ir::ConstraintAttr> getConstraintList();
  }];
}

def OutputOp : RLX_Op<"output", [Terminator, Pure, HasParent<"GraphOp">]> {
  let summary = "Ends a graph and names its outputs, in order.";
  let arguments = (ins Variadic<RLX_Tensor>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
  let hasVerifier = 1;
}

def ConstantOp : RLX_Op<"constant", [Pure, ConstantLike]> {
  let summary = "A small value kept in the graph (up to about 1 KiB).";
  let arguments = (ins ElementsAttr:$value);
  let results = (outs RLX_Tensor:$result);
  let assemblyFormat = "attr-dict $value `:` type($result)";
  let hasFolder = 1;
  let hasVerifier = 1;
}

def WeightOp : RLX_Op<"weight", [Pure]> {
  let summary = "A named row of the weight table; its bytes live outside the IR.";
  let arguments = (ins StrAttr:$row);
  let results = (outs RLX_Tensor:$result);
  let assemblyFormat = "$row attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def ParamOp : RLX_Op<"param", [Pure]> {
  let summary = "A named slot whose value the caller sets before or between runs.";
  let arguments = (ins StrAttr:$name);
  let results = (outs RLX_Tensor:$result);
  let assemblyFormat = "$name attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def DimValuesOp : RLX_Op<"dim_values", [Pure]> {
  let summary = "A 1-d i64 tensor (or a scalar) of size expressions, as a value.";
  let description = [{ `rlx.dim_values [B, S * 2] : tensor<2xi64>`. What Shape and the arithmetic on it become. }];
  let arguments = (ins RLX_DimsAttr:$values);
  let results = (outs RLX_ShapeTensor:$result);
  let assemblyFormat = "$values attr-dict `:` type($result)";
  let hasFolder = 1;
  let hasVerifier = 1;
}

def AssumeDimsOp : RLX_PureOp<"assume_dims"> {
  let summary = "States the dims of a value where its operands' types cannot.";
  let description = [{ The result is the operand under the result's dims; that both agree becomes a requirement. }];
  let arguments = (ins RLX_Tensor:$input);
  let results = (outs RLX_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasFolder = 1;
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Elementwise
//===----------------------------------------------------------------------===//

class RLX_Elementwise<string mnemonic, string opcode, list<Trait> traits = []>
    : RLX_PureOp<mnemonic, !listconcat([RLX_ElementwiseOpInterface], traits)> {
  let extraClassDeclaration = [{ ::rlx::data::Opcode getOpcode() { return ::rlx::data::Opcode::}] # opcode # [{; } }];
}

class RLX_Unary<string mnemonic, string opcode, string what, Type type = RLX_Tensor>
    : RLX_Elementwise<mnemonic, opcode, [SameOperandsAndResultElementType, InferTypeOpAdaptor]> {
  let summary = what;
  let arguments = (ins type:$input);
  let results = (outs type:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasFolder = 1;
}

class RLX_Binary<string mnemonic, string opcode, string what, list<Trait> traits = [], Type type = RLX_Tensor>
    : RLX_Elementwise<mnemonic, opcode, !listconcat([SameOperandsAndResultElementType, InferTypeOpAdaptor], traits)> {
  let summary = what;
  let arguments = (ins type:$lhs, type:$rhs);
  let results = (outs type:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($lhs) `,` type($rhs) `->` type($result)";
  let hasFolder = 1;
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
def AndOp : RLX_Binary<"and", "And", "Bitwise and (logical on i1).", [Commutative]>;
def OrOp : RLX_Binary<"or", "Or", "Bitwise or (logical on i1).", [Commutative]>;
def XorOp : RLX_Binary<"xor", "Xor", "Bitwise exclusive or (logical on i1).", [Commutative]>;
def ShlOp : RLX_Binary<"shl", "ShiftLeft", "lhs shifted left by rhs bits; 0 when rhs is the width or more.">;
def ShrOp : RLX_Binary<"shr", "ShiftRight", "lhs shifted right by rhs bits; 0 (or the sign) when rhs is the width or more.">;

def NegOp : RLX_Unary<"neg", "Neg", "Negation.">;
def AbsOp : RLX_Unary<"abs", "Abs", "Absolute value.">;
def SignOp : RLX_Unary<"sign", "Sign", "-1, 0 or 1; NaN stays.">;
def NotOp : RLX_Unary<"not", "Not", "Bitwise complement (logical on i1).">;
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

def GeluOp : RLX_PureOp<"gelu", [SameOperandsAndResultElementType, InferTypeOpAdaptor, RLX_ElementwiseOpInterface]> {
  let summary = "x * Phi(x): exact by erf, or the tanh approximation.";
  let arguments = (ins RLX_FloatTensor:$input, UnitAttr:$approximate);
  let results = (outs RLX_FloatTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let extraClassDeclaration = [{
    ::rlx::data::Opcode getOpcode() { return getApproximate() ? ::rlx::data::Opcode::GeluTanh : ::rlx::data::Opcode::Gelu; }
  }];
}

class RLX_Test<string mnemonic, string opcode, string what>
    : RLX_Elementwise<mnemonic, opcode, [InferTypeOpAdaptor]> {
  let summary = what;
  let arguments = (ins RLX_FloatTensor:$input);
  let results = (outs RLX_BoolTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
}
def IsNaNOp : RLX_Test<"is_nan", "IsNaN", "True where the input is NaN.">;
def IsInfOp : RLX_Test<"is_inf", "IsInf", "True where the input is +inf or -inf.">;

def CompareOp : RLX_PureOp<"compare", [InferTypeOpAdaptor, RLX_ElementwiseOpInterface]> {
  let summary = "Compares two tensors of one element type, with broadcasting.";
  let arguments = (ins RLX_ComparePredicateAttr:$predicate, RLX_Tensor:$lhs, RLX_Tensor:$rhs);
  let results = (outs RLX_BoolTensor:$result);
  let assemblyFormat = "$predicate $lhs `,` $rhs attr-dict `:` type($lhs) `,` type($rhs) `->` type($result)";
  let hasFolder = 1;
  let hasVerifier = 1;
  let extraClassDeclaration = [{ ::rlx::data::Opcode getOpcode(); }];
}

def SelectOp : RLX_PureOp<"select", [InferTypeOpAdaptor, RLX_ElementwiseOpInterface]> {
  let summary = "Element of `on_true` where the condition holds, else of `on_false`; all three broadcast.";
  let arguments = (ins RLX_BoolTensor:$condition, RLX_Tensor:$on_true, RLX_Tensor:$on_false);
  let results = (outs RLX_Tensor:$result);
  let assemblyFormat = [{ $condition `,` $on_true `,` $on_false attr-dict `:` type($condition) `,` type($on_true) `,`
                          type($on_false) `->` type($result) }];
  let hasFolder = 1;
  let hasVerifier = 1;
  let extraClassDeclaration = [{ ::rlx::data::Opcode getOpcode() { return ::rlx::data::Opcode::Select; } }];
}

def ConvertOp : RLX_PureOp<"convert", [RLX_ElementwiseOpInterface]> {
  let summary = "Converts the element type: float to integer saturates (NaN gives 0), integers wrap, to i1 is `!= 0`.";
  let arguments = (ins RLX_Tensor:$input);
  let results = (outs RLX_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasFolder = 1;
  let extraClassDeclaration = [{ ::rlx::data::Opcode getOpcode() { return ::rlx::data::Opcode::Convert; } }];
}

//===----------------------------------------------------------------------===//
// Contraction, reduction, normalisation
//===----------------------------------------------------------------------===//

def MatmulOp : RLX_PureOp<"matmul", [InferTypeOpAdaptor]> {
  let summary = "Batched product: [..., M, K] by [..., K, N], batch dims broadcast. Both of rank 2 or more.";
  let description = [{
    The result has the lhs's element type. An i8 rhs under a float lhs is widened: scales are a `mul` of the result.
    f16 and bf16 accumulate in f32, integers in their own type. Inner size 0 gives zeros.
  }];
  let arguments = (ins RLX_Tensor:$lhs, RLX_Tensor:$rhs);
  let results = (outs RLX_Tensor:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($lhs) `,` type($rhs) `->` type($result)";
  let hasVerifier = 1;
}

def ReduceOp : RLX_PureOp<"reduce", [SameOperandsAndResultElementType, InferTypeOpAdaptor]> {
  let summary = "Reduces over axes (sorted, non-negative). Over nothing: sum 0, mean NaN, prod 1, max -inf, min +inf.";
  let arguments = (ins RLX_ReduceKindAttr:$kind, RLX_Tensor:$input, DenseI64ArrayAttr:$axes, UnitAttr:$keep_dims);
  let results = (outs RLX_Tensor:$result);
  let assemblyFormat = "$kind $input `axes` $axes (`keep_dims` $keep_dims^)? attr-dict `:` type($input) `->` type($result)";
  let hasFolder = 1;
  let hasVerifier = 1;
}

def CumSumOp : RLX_PureOp<"cumsum", [SameOperandsAndResultElementType, InferTypeOpAdaptor]> {
  let summary = "Running sum along an axis.";
  let arguments = (ins RLX_Tensor:$input, I64Attr:$axis, UnitAttr:$exclusive, UnitAttr:$reverse);
  let results = (outs RLX_Tensor:$result);
  let assemblyFormat = "$input `axis` $axis attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}

class RLX_SoftmaxLike<string mnemonic, string what>
    : RLX_PureOp<mnemonic, [SameOperandsAndResultElementType, InferTypeOpAdaptor]> {
  let summary = what;
  let arguments = (ins RLX_FloatTensor:$input, I64Attr:$axis);
  let results = (outs RLX_FloatTensor:$result);
  let assemblyFormat = "$input `axis` $axis attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}
def SoftmaxOp : RLX_SoftmaxLike<"softmax", "Softmax along an axis; a row of -inf gives NaN, a masked lane exactly 0.">;
def LogSoftmaxOp : RLX_SoftmaxLike<"log_softmax", "Logarithm of the softmax along an axis.">;

def LayerNormOp : RLX_PureOp<"layer_norm", [AttrSizedOperandSegments, InferTypeOpAdaptor]> {
  let summary = "(x - mean) / sqrt(var + epsilon) over the axes from `axis` on, times scale, plus bias.";
  let description = [{ Scale and bias have the shape of the normalised dims. Statistics in f32 (f64 for f64). }];
  let arguments = (ins RLX_FloatTensor:$input, Optional<RLX_FloatTensor>:$scale, Optional<RLX_FloatTensor>:$bias,
                       I64Attr:$axis, F64Attr:$epsilon);
  let results = (outs RLX_FloatTensor:$result);
  let assemblyFormat = [{ $input (`scale` $scale^ `:` type($scale))? (`bias` $bias^ `:` type($bias))? `axis` $axis
                          `epsilon` $epsilon attr-dict `:` type($input) `->` type($result) }];
  let hasVerifier = 1;
}

def RmsNormOp : RLX_PureOp<"rms_norm", [InferTypeOpAdaptor]> {
  let summary = "x / sqrt(mean(x * x) + epsilon) over the axes from `axis` on, times scale.";
  let arguments = (ins RLX_FloatTensor:$input, Optional<RLX_FloatTensor>:$scale, I64Attr:$axis, F64Attr:$epsilon);
  let results = (outs RLX_FloatTensor:$result);
  let assemblyFormat = [{ $input (`scale` $scale^ `:` type($scale))? `axis` $axis `epsilon` $epsilon attr-dict
                          `:` type($input) `->` type($result) }];
  let hasVerifier = 1;
}

def AttentionOp : RLX_PureOp<"attention", [InferTypeOpAdaptor]> {
  let summary = "softmax(q k^T * scale + mask) v over [..., heads, length, depth].";
  let description = [{
    q [..., H, L, D], k [..., Hk, T, D], v [..., Hk, T, E], mask broadcast to [..., H, L, T] (added); result [..., H, L, E].
    H is a multiple of Hk (grouped queries). `causal` masks t > l + T - L... by -inf; softcap c applies c * tanh(x / c).
  }];
  let arguments = (ins RLX_FloatTensor:$query, RLX_FloatTensor:$key, RLX_FloatTensor:$value,
                       Optional<RLX_FloatTensor>:$mask, F64Attr:$scale);
  let results = (outs RLX_FloatTensor:$result);
  let assemblyFormat = [{ $query `,` $key `,` $value (`mask` $mask^ `:` type($mask))? `scale` $scale attr-dict `:`
                          type($query) `,` type($key) `,` type($value) `->` type($result) }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Shape and data movement
//===----------------------------------------------------------------------===//

def ReshapeOp : RLX_PureOp<"reshape", [SameOperandsAndResultElementType]> {
  let summary = "The same elements in row-major order under another shape, given by the result type.";
  let arguments = (ins RLX_Tensor:$input);
  let results = (outs RLX_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasFolder = 1;
  let hasVerifier = 1;
}

def TransposeOp : RLX_PureOp<"transpose", [SameOperandsAndResultElementType, InferTypeOpAdaptor]> {
  let summary = "Result axis i is input axis permutation[i].";
  let arguments = (ins RLX_Tensor:$input, DenseI64ArrayAttr:$permutation);
  let results = (outs RLX_Tensor:$result);
  let assemblyFormat = "$input `permutation` $permutation attr-dict `:` type($input) `->` type($result)";
  let hasFolder = 1;
  let hasVerifier = 1;
}

def BroadcastToOp : RLX_PureOp<"broadcast_to", [SameOperandsAndResultElementType]> {
  let summary = "Repeats unit dims (aligned at the last axis) to the result's shape.";
  let arguments = (ins RLX_Tensor:$input);
  let results = (outs RLX_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasFolder = 1;
  let hasVerifier = 1;
}

def SliceOp : RLX_PureOp<"slice", [SameOperandsAndResultElementType]> {
  let summary = "Elements starts[i] + j * steps[i] of each axis, j below the result's size.";
  let description = [{
    Starts are already clamped and non-negative; steps may be negative. The result's dims are the counts.
    `rlx.slice %x starts [0, S - 1] steps [1, -1] : ...`
  }];
  let arguments = (ins RLX_Tensor:$input, RLX_DimsAttr:$starts, DenseI64ArrayAttr:$steps);
  let results = (outs RLX_Tensor:$result);
  let assemblyFormat = "$input `starts` $starts `steps` $steps attr-dict `:` type($input) `->` type($result)";
  let hasFolder = 1;
  let hasVerifier = 1;
}

def ConcatOp : RLX_PureOp<"concat", [SameOperandsAndResultElementType, InferTypeOpAdaptor]> {
  let summary = "Joins tensors along an axis.";
  let arguments = (ins Variadic<RLX_Tensor>:$inputs, I64Attr:$axis);
  let results = (outs RLX_Tensor:$result);
  let assemblyFormat = "$inputs `axis` $axis attr-dict `:` type($inputs) `->` type($result)";
  let hasFolder = 1;
  let hasVerifier = 1;
}

def PadOp : RLX_PureOp<"pad", [InferTypeOpAdaptor]> {
  let summary = "Surrounds a tensor with a value; low and high are counts per axis, 0 or more.";
  let arguments = (ins RLX_Tensor:$input, RLX_Tensor:$value, RLX_DimsAttr:$low, RLX_DimsAttr:$high);
  let results = (outs RLX_Tensor:$result);
  let assemblyFormat = [{ $input `,` $value `low` $low `high` $high attr-dict `:` type($input) `,` type($value) `->`
                          type($result) }];
  let hasVerifier = 1;
}

def GatherOp : RLX_PureOp<"gather", [InferTypeOpAdaptor]> {
  let summary = "Replaces one axis by the axes of an index tensor: out[a, i, b] = data[a, index[i], b].";
  let description = [{ Negative indices count from the end; one out of range is a run-time error that names the node. }];
  let arguments = (ins RLX_Tensor:$data, RLX_IndexTensor:$indices, I64Attr:$axis);
  let results = (outs RLX_Tensor:$result);
  let assemblyFormat = "$data `,` $indices `axis` $axis attr-dict `:` type($data) `,` type($indices) `->` type($result)";
  let hasFolder = 1;
  let hasVerifier = 1;
}

def GatherNDOp : RLX_PureOp<"gather_nd", [InferTypeOpAdaptor]> {
  let summary = "Looks up index tuples: the last axis of `indices` indexes the axes of data after `batch_dims`.";
  let arguments = (ins RLX_Tensor:$data, RLX_IndexTensor:$indices, I64Attr:$batch_dims);
  let results = (outs RLX_Tensor:$result);
  let assemblyFormat = [{ $data `,` $indices `batch_dims` $batch_dims attr-dict `:` type($data) `,` type($indices) `->`
                          type($result) }];
  let hasVerifier = 1;
}

def GatherElementsOp : RLX_PureOp<"gather_elements", [InferTypeOpAdaptor]> {
  let summary = "out[i, j] = data[index[i, j], j] for axis 0, and so on; the result has the indices' shape.";
  let arguments = (ins RLX_Tensor:$data, RLX_IndexTensor:$indices, I64Attr:$axis);
  let results = (outs RLX_Tensor:$result);
  let assemblyFormat = "$data `,` $indices `axis` $axis attr-dict `:` type($data) `,` type($indices) `->` type($result)";
  let hasVerifier = 1;
}

def ScatterElementsOp : RLX_PureOp<"scatter_elements", [InferTypeOpAdaptor]> {
  let summary = "Data with updates written at data[index[i, j], j] for axis 0, and so on, in row-major order.";
  let arguments = (ins RLX_Tensor:$data, RLX_IndexTensor:$indices, RLX_Tensor:$updates, I64Attr:$axis, RLX_CombineAttr:$combine);
  let results = (outs RLX_Tensor:$result);
  let assemblyFormat = [{ $combine $data `,` $indices `,` $updates `axis` $axis attr-dict `:` type($data) `,` type($indices)
                          `,` type($updates) `->` type($result) }];
  let hasVerifier = 1;
}

def ScatterNDOp : RLX_PureOp<"scatter_nd", [InferTypeOpAdaptor]> {
  let summary = "Data with slices of updates written at the index tuples, in row-major order.";
  let arguments = (ins RLX_Tensor:$data, RLX_IndexTensor:$indices, RLX_Tensor:$updates, RLX_CombineAttr:$combine);
  let results = (outs RLX_Tensor:$result);
  let assemblyFormat = [{ $combine $data `,` $indices `,` $updates attr-dict `:` type($data) `,` type($indices) `,`
                          type($updates) `->` type($result) }];
  let hasVerifier = 1;
}

def IotaOp : RLX_PureOp<"iota"> {
  let summary = "start + step * position along an axis of the result's shape (i64).";
  let description = [{ `rlx.iota start 0 step 1 axis 1 : tensor<?x?xi64, #rlx.dims<[B, S]>>`; start and step are expressions. }];
  let arguments = (ins RLX_DimsAttr:$start_step, I64Attr:$axis);
  let results = (outs RLX_ShapeTensor:$result);
  let assemblyFormat = "$start_step `axis` $axis attr-dict `:` type($result)";
  let hasFolder = 1;
  let hasVerifier = 1;
}

class RLX_Random<string mnemonic, string what, dag parameters> : RLX_Op<mnemonic> {
  let summary = what;
  let description = [{ The stream is a function of (seed, key, step) only: see docs/NumericContract.md. }];
  let arguments = !con((ins I64Attr:$key), parameters);
  let results = (outs RLX_FloatTensor:$result);
  let assemblyFormat = "`key` $key attr-dict `:` type($result)";
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
    %2 = rlx.kernel matmul (%x, %w, %b) { ^bb0(...): %0 = rlx.matmul ... %1 = rlx.add ... rlx.yield %1 } : ...
    ```
    Region arguments stand for whole, contiguous buffers. Reshapes outside kernels are views of the same buffer.
  }];
  let arguments = (ins RLX_KernelFamilyAttr:$family, Variadic<RLX_Tensor>:$inputs, OptionalAttr<StrAttr>:$node);
  let results = (outs Variadic<RLX_Tensor>:$results);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{ $family ` ` `(` $inputs `)` attr-dict-with-keyword $body `:` functional-type($inputs, $results) }];
  let hasVerifier = 1;
}

def YieldOp : RLX_Op<"yield", [Terminator, Pure, HasParent<"KernelOp">]> {
  let summary = "Ends a kernel's region and names its results.";
  let arguments = (ins Variadic<RLX_Tensor>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

#endif // RLX_OPS
