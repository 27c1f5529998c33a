//===- RLXAttributes.td - dims and constraints -------------*- tablegen -*-===//
#ifndef RLX_ATTRIBUTES
#define RLX_ATTRIBUTES

include "rlx/Dialect/RLX/IR/RLXDialect.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/TensorEncoding.td"
include "mlir/IR/EnumAttr.td"

class RLX_Attr<string name, string attrMnemonic, list<Trait> traits = []> : AttrDef<RLX_Dialect, name, traits> {
  let mnemonic = attrMnemonic;
}

def RLX_DimsAttr : RLX_Attr<"Dims", "dims", [DeclareAttrInterfaceMethods<VerifiableTensorEncoding>]> {
  let summary = "A list of size expressions: the encoding of a tensor type, or the starts of a slice.";
  let description = [{
    `#rlx.dims<[B, 2 * S, floordiv(H, 2)]>`. Expressions are kept in normal form,
    so two lists are the same attribute exactly when they are equal.

    As the encoding of a tensor type it has one expression per axis. An axis whose
    expression is a number has that size; a size beside any other expression means
    that the dim is bound and remembers where its size came from; a `?` needs an
    expression with a name in it.

    An expression is made of integers, names (quoted when they are no plain
    identifiers: `"a:b"`), `+`, `-`, `*`, parentheses, and the calls `floordiv`,
    `ceildiv`, `mod`, `min`, `max` and `broadcast` of two expressions.
  }];
  // DimList wraps std::vector<rlx::DimExpr>; the storage's destructor runs with the context's.
  let parameters = (ins AttrParameter<"::rlx::ir::DimList", "expressions">:$list);
  let hasCustomAssemblyFormat = 1;
  let extraClassDeclaration = [{
    static DimsAttr get(::mlir::MLIRContext *context, ::llvm::ArrayRef<::rlx::DimExpr> dims);
    ::llvm::ArrayRef<::rlx::DimExpr> getDims() const;
    size_t size() const { return getDims().size(); }
  }];
}

def RLX_DimDeclAttr : RLX_Attr<"DimDecl", "dim"> {
  let summary = "Declares a named dim: `#rlx.dim<\"B\", min = 1, max = 64, multiple = 8, likely = [1, 8], bound = 4>`.";
  let description = [{
    All fields but the name may be left out: min 0, max unbounded, multiple 1, no
    likely sizes, not bound. `bound` is set by `rlx-bind-dims`, and lies within the
    range and multiple, as every likely size does.
  }];
  let parameters = (ins StringRefParameter<"name">:$name, "int64_t":$min, "int64_t":$max, "int64_t":$multiple,
                        ArrayRefParameter<"int64_t">:$likely, "std::optional<int64_t>":$bound);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def RLX_ConstraintAttr : RLX_Attr<"Constraint", "constraint"> {
  let summary = "A fact that must hold when sizes are bound: `#rlx.constraint<\"N == M\", \"why\">`.";
  let description = [{
    The predicate in text form (`N == M`, `N != M`, `S <= 512`, `S < T`, `H % 32 == 0`,
    `broadcastable(N, M)`) and the line an error starts with when it does not hold.
  }];
  let parameters = (ins AttrParameter<"::rlx::DimPredicate", "predicate">:$predicate,
                        StringRefParameter<"message">:$message);
  let hasCustomAssemblyFormat = 1;
}

def RLX_ReduceKind : I32EnumAttr<"ReduceKind", "what a reduction computes", [
  I32EnumAttrCase<"Sum", 0, "sum">, I32EnumAttrCase<"Mean", 1, "mean">, I32EnumAttrCase<"Prod", 2, "prod">,
  I32EnumAttrCase<"Max", 3, "max">, I32EnumAttrCase<"Min", 4, "min">]> {
  let cppNamespace = "::rlx::ir";
  let genSpecializedAttr = 0;
}
def RLX_ReduceKindAttr : EnumAttr<RLX_Dialect, RLX_ReduceKind, "reduce_kind">;

def RLX_ComparePredicate : I32EnumAttr<"ComparePredicate", "an ordered comparison; NaN compares false, except ne", [
  I32EnumAttrCase<"Eq", 0, "eq">, I32EnumAttrCase<"Ne", 1, "ne">, I32EnumAttrCase<"Lt", 2, "lt">,
  I32EnumAttrCase<"Le", 3, "le">, I32EnumAttrCase<"Gt", 4, "gt">, I32EnumAttrCase<"Ge", 5, "ge">]> {
  let cppNamespace = "::rlx::ir";
  let genSpecializedAttr = 0;
}
def RLX_ComparePredicateAttr : EnumAttr<RLX_Dialect, RLX_ComparePredicate, "compare">;

def RLX_Combine : I32EnumAttr<"Combine", "how a scatter joins an update with what it meets", [
  I32EnumAttrCase<"Assign", 0, "assign">, I32EnumAttrCase<"Add", 1, "add">, I32EnumAttrCase<"Mul", 2, "mul">,
  I32EnumAttrCase<"Max", 3, "max">, I32EnumAttrCase<"Min", 4, "min">]> {
  let cppNamespace = "::rlx::ir";
  let genSpecializedAttr = 0;
}
def RLX_CombineAttr : EnumAttr<RLX_Dialect, RLX_Combine, "combine">;

def RLX_KernelFamily : I32EnumAttr<"KernelFamily", "which builder makes a kernel", [
  I32EnumAttrCase<"Loops", 0, "loops">, I32EnumAttrCase<"Reduce", 1, "reduce">, I32EnumAttrCase<"Rows", 2, "rows">,
  I32EnumAttrCase<"Matmul", 3, "matmul">, I32EnumAttrCase<"Scan", 4, "scan">,
  I32EnumAttrCase<"Attention", 5, "attention">]> {
  let cppNamespace = "::rlx::ir";
  let genSpecializedAttr = 0;
}
def RLX_KernelFamilyAttr : EnumAttr<RLX_Dialect, RLX_KernelFamily, "family">;

#endif // RLX_ATTRIBUTES
