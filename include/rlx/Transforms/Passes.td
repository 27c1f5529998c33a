//===- Passes.td - graph to graph passes -------------------*- tablegen -*-===//
#ifndef RLX_TRANSFORMS_PASSES
#define RLX_TRANSFORMS_PASSES

include "mlir/Pass/PassBase.td"

def InferDims : Pass<"rlx-infer-dims", "::rlx::ir::GraphOp"> {
  let summary = "Gives every dim of every value an expression over the graph's names.";
  let description = [{
    Inputs whose dims have no name get one, `<input>_<axis>`, declared in the
    graph's `dims`. Then each op's shape function runs in order, and its result
    takes the shape it finds. What must hold of the sizes for an op to be legal,
    and is not certain from the declared ranges and constraints, is added to the
    graph's `constraints`, so that it is checked when sizes are bound.

    Before:

    ```mlir
    rlx.graph @main(%x: tensor<?x4xf32> {rlx.name = "x"}, %y: tensor<?x4xf32> {rlx.name = "y"}) -> (tensor<?x4xf32>) {
      %0 = rlx.concat %x, %y axis 0 : tensor<?x4xf32>, tensor<?x4xf32> -> tensor<?x4xf32>
      rlx.output %0 : tensor<?x4xf32>
    }
    ```

    After:

    ```mlir
    rlx.graph @main(%x: tensor<?x4xf32, #rlx.dims<[x_0, 4]>> {rlx.name = "x"},
                    %y: tensor<?x4xf32, #rlx.dims<[y_0, 4]>> {rlx.name = "y"})
        -> (tensor<?x4xf32, #rlx.dims<[x_0+y_0, 4]>>)
        attributes {dims = [#rlx.dim<"x_0">, #rlx.dim<"y_0">]} {
      %0 = rlx.concat %x, %y axis 0 : ... -> tensor<?x4xf32, #rlx.dims<[x_0+y_0, 4]>>
      rlx.output %0 : tensor<?x4xf32, #rlx.dims<[x_0+y_0, 4]>>
    }
    ```

    Holds before: nothing is asked. Holds after: no dim is unknown. A dim that no
    operand and no result type states, or a declared static shape that the
    operands contradict, is an error that names the op.

    A stated dim that differs from the inferred one is a promise: the equality
    becomes a constraint. Names are never made equal because two sizes might be.
  }];
}

def BindDims : Pass<"rlx-bind-dims", "::mlir::ModuleOp"> {
  let summary = "Puts sizes beside the named dims of a graph.";
  let description = [{
    Each type whose names all have a size gets numbers, and keeps its
    expressions as provenance. The sizes are recorded as `bound` in the graph's
    `dims`.

    Before, with `rlx-bind-dims{dims=B=2,S=16}`:

    ```mlir
    tensor<?x?x4xf32, #rlx.dims<[B, S, 4]>>
    ```

    After:

    ```mlir
    tensor<2x16x4xf32, #rlx.dims<[B, S, 4]>>
    ```

    A binding may be partial: names left out stay open, and a later run of the
    pass may bind them. Errors: a name no graph of the module declares (the
    declared ones are listed), a size outside the declared range or multiple, a
    negative size, a name bound twice to different sizes, a dim or a tensor too
    large for 64 bits.

    Expressions in attributes (starts of a slice, dim_values) stay expressions:
    plans are formed from expressions, so that one serves many sizes.
  }];
  let options = [
    ListOption<"dims", "dims", "std::string", "Sizes by name, as name=size,name=size">
  ];
}

def SyncShapes : Pass<"rlx-sync-shapes", "::rlx::ir::GraphOp"> {
  let summary = "Recomputes every result type from its operands, and checks what the sizes must satisfy.";
  let description = [{
    Runs each op's shape function in order under the sizes that are bound, and
    gives the result that shape. Checks what each op and the graph require of
    the sizes.

    Before, N = 5 and M = 1 bound on the inputs alone:

    ```mlir
    %0 = rlx.add %x, %y : tensor<5x4xf32, #rlx.dims<[N, 4]>>, tensor<1x4xf32, #rlx.dims<[M, 4]>>
           -> tensor<?x4xf32, #rlx.dims<[broadcast(M, N), 4]>>
    ```

    After:

    ```mlir
    %0 = rlx.add %x, %y : tensor<5x4xf32, #rlx.dims<[N, 4]>>, tensor<1x4xf32, #rlx.dims<[M, 4]>>
           -> tensor<5x4xf32, #rlx.dims<[broadcast(M, N), 4]>>
    ```

    A contradiction is an error that names the op, the dims and the sizes. Dims
    whose names are not bound stay open; `rlx-verify-static` says which.
  }];
}

def DedupeConstants : Pass<"rlx-dedupe-constants", "::rlx::ir::GraphOp"> {
  let summary = "Keeps one copy of constants with equal element type, shape and bytes.";
  let description = [{
    All users point at the first; so do outputs. Weights and params that name the
    same row under one type become one too. Bytes are compared, never values: +0
    and -0 stay apart, and so do different NaNs, and equal bytes under another
    shape or element type.

    Before:

    ```mlir
    %a = rlx.constant dense<2.0> : tensor<f32>
    %b = rlx.constant dense<2.0> : tensor<f32>
    %0 = rlx.mul %x, %a : ...
    %1 = rlx.mul %0, %b : ...
    ```

    After:

    ```mlir
    %a = rlx.constant dense<2.0> : tensor<f32>
    %0 = rlx.mul %x, %a : ...
    %1 = rlx.mul %0, %a : ...
    ```

    The count is reported as a remark of category `rlx-dedupe-constants`.
  }];
}

def FoldConstants : Pass<"rlx-fold-constants", "::rlx::ir::GraphOp"> {
  let summary = "Computes ops whose operands are all constants.";
  let description = [{
    Integer and shape arithmetic is done by the ops' folders. Any other op runs
    the host kernel that would run later, so that a folded number has the same
    bits as a computed one. Those kernels come with the compiler: where it is not
    linked (`rlx-opt` alone, the plugin) only the folders work.

    Before:

    ```mlir
    %a = rlx.constant dense<[2, 3]> : tensor<2xi64>
    %b = rlx.constant dense<1> : tensor<2xi64>
    %0 = rlx.add %a, %b : tensor<2xi64>, tensor<2xi64> -> tensor<2xi64>
    ```

    After:

    ```mlir
    %0 = rlx.constant dense<[3, 4]> : tensor<2xi64>
    ```

    Not folded: a result larger than `max-bytes` (folding must not grow a model),
    random ops, a value that merely depends on a size, weights, and an op that
    would fail at run time (a zero divisor, an index out of range): it is left to
    fail then, if it runs.
  }];
  let options = [
    Option<"maxBytes", "max-bytes", "int64_t", "1024", "Largest result that is kept in the graph, in bytes">
  ];
}

def Simplify : Pass<"rlx-simplify", "::rlx::ir::GraphOp"> {
  let summary = "Recognises what exporters spell out, and drops what does nothing.";
  let description = [{
    Recognised: GELU (by erf or tanh, in any order of its factors), layer and
    RMS normalisation spelled as reductions, and weights that are stored as int8
    and dequantised by a convert and a mul. The last stay int8: the scale moves
    behind the matmul (but in f16, which might not hold the sum without it) or
    the gather, and nothing of the weight's size is made. A lookup whose indices
    are the positions themselves (masks built from ranges) is a view.

    Moved: an element op that follows a matmul behind a reshape or a transpose
    goes in front of it, where the matmul's kernel can take it in: the scale of
    a query after the split into heads, a residual added in another rank.
    Batch and heads that are merged around a matmul or a softmax are merged
    after it, where the next split cancels them.

    Before:

    ```mlir
    %w = rlx.weight "w" : tensor<384x384xi8>
    %s = rlx.weight "s" : tensor<1x384xf32>
    %0 = rlx.convert %w : tensor<384x384xi8> -> tensor<384x384xf32>
    %1 = rlx.mul %0, %s : tensor<384x384xf32>, tensor<1x384xf32> -> tensor<384x384xf32>
    %2 = rlx.matmul %x, %1 : tensor<7x384xf32>, tensor<384x384xf32> -> tensor<7x384xf32>
    ```

    After:

    ```mlir
    %0 = rlx.matmul %x, %w : tensor<7x384xf32>, tensor<384x384xi8> -> tensor<7x384xf32>
    %1 = rlx.mul %0, %s : tensor<7x384xf32>, tensor<1x384xf32> -> tensor<7x384xf32>
    ```

    Dropped: steps that change no bit of any input (x * 1, x + (-0), but not
    x + 0, which turns -0 into 0), transposes and reshapes that cancel, broadcasts
    that the ops using them would do anyway, repeated and dead ops. A value that
    is NaN or infinite before is so after.

    No size is looked at, only expressions, so the result holds for every binding.
  }];
}

def Decompose : Pass<"rlx-decompose", "::rlx::ir::GraphOp"> {
  let summary = "Spells attention as matmuls and a softmax, which kernels are formed from.";
  let description = [{
    Before:

    ```mlir
    %0 = rlx.attention %q, %k, %v scale 0.125 : tensor<2x12x7x64xf32>, tensor<2x12x7x64xf32>,
           tensor<2x12x7x64xf32> -> tensor<2x12x7x64xf32>
    ```

    After:

    ```mlir
    %0 = rlx.transpose %k permutation [0, 1, 3, 2] : ...
    %1 = rlx.matmul %q, %0 : ... -> tensor<2x12x7x7xf32>
    %2 = rlx.constant dense<0.125> : tensor<f32>
    %3 = rlx.mul %1, %2 : ...
    %4 = rlx.softmax %3 axis 3 : ...
    %5 = rlx.matmul %4, %v : ... -> tensor<2x12x7x64xf32>
    ```

    Grouped queries (more query heads than key heads) are split into a group axis
    by reshapes, which cost nothing.
  }];
}

def VerifyStatic : Pass<"rlx-verify-static", "::rlx::ir::GraphOp"> {
  let summary = "Checks that every size is known, and says what leaves one open.";
  let description = [{
    The contract after `rlx-sync-shapes`: each type has a number for every dim.
    Each offender is an error with a note naming what breaks it: a name that is
    not bound, or a dim that has no name.

    With `named`, the weaker contract after `rlx-infer-dims` is checked: each dim
    has a number or an expression over declared names.
  }];
  let options = [
    Option<"named", "named", "bool", "false", "Accept dims that are not bound, as long as they have an expression">
  ];
}

def StripDims : Pass<"rlx-strip-dims", "::mlir::ModuleOp"> {
  let summary = "Removes the dim expressions from all types: the border to other dialects.";
  let description = [{
    Passes of other dialects drop the encoding of a tensor type here and copy it
    wrongly there, so it must not reach them.

    Before:

    ```mlir
    %0 = rlx.exp %x : tensor<2x16xf32, #rlx.dims<[B, S]>> -> tensor<2x16xf32, #rlx.dims<[B, S]>>
    ```

    After:

    ```mlir
    %0 = rlx.exp %x : tensor<2x16xf32> -> tensor<2x16xf32>
    ```

    Holds before: the graph is static (a dim that is open would lose its name, and
    is an error). Holds after: no type in the module carries dims.
  }];
}

#endif // RLX_TRANSFORMS_PASSES
