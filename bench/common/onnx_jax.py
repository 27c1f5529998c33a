"""An ONNX graph as a function that JAX traces: the operators of the benchmarks' models, at the sizes of the inputs.

What depends on no input (weights, and what is made of them) is computed once by numpy and handed to the function as an
argument; sizes are numbers while it is traced, so that shape arithmetic is done by numpy too.
"""

import jax
import jax.numpy as jnp
import numpy as np
import onnx
from onnx import helper, numpy_helper


def _slice(xp, x, starts, ends, axes=None, steps=None):
    index = [slice(None)] * x.ndim
    for i, (start, end) in enumerate(zip(starts, ends)):
        index[int(axes[i]) if axes is not None else i] = slice(
            int(start), int(end), int(steps[i]) if steps is not None else 1
        )
    return x[tuple(index)]


def _layer_norm(xp, x, scale, bias=None, axis=-1, epsilon=1e-5, **_):
    axes = tuple(range(axis % x.ndim, x.ndim))
    centred = x - x.mean(axes, keepdims=True)
    result = centred / xp.sqrt((centred * centred).mean(axes, keepdims=True) + np.float32(epsilon)) * scale
    return result if bias is None else result + bias


def _gemm(xp, a, b, c=None, alpha=1.0, beta=1.0, transA=0, transB=0):
    result = np.float32(alpha) * ((a.T if transA else a) @ (b.T if transB else b))
    return result if c is None else result + np.float32(beta) * c


def _reshape(xp, x, shape, allowzero=0):
    return x.reshape([x.shape[i] if size == 0 and not allowzero else int(size) for i, size in enumerate(shape)])


def _unsqueeze(xp, x, axes):
    return xp.expand_dims(x, tuple(int(axis) for axis in axes))


def _softmax(xp, x, axis=-1):
    raised = xp.exp(x - x.max(axis, keepdims=True))
    return raised / raised.sum(axis, keepdims=True)


def _gather_nd(xp, x, indices, batch_dims=0):
    if batch_dims:
        raise NotImplementedError("GatherND with batch_dims")
    return x[tuple(xp.moveaxis(indices, -1, 0))]


def _constant(xp, **attributes):
    (value,) = attributes.values()
    return np.asarray(value)


def _divide(xp, a, b):
    return a // b if np.issubdtype(a.dtype, np.integer) else a / b


def _erf(xp, x):
    return jax.scipy.special.erf(x)


OPERATORS = {
    "Add": lambda xp, a, b: a + b,
    "And": lambda xp, a, b: a & b,
    "Cast": lambda xp, x, to, **_: x.astype(helper.tensor_dtype_to_np_dtype(to)),
    "Concat": lambda xp, *xs, axis: xp.concatenate(xs, axis),
    "Constant": _constant,
    "ConstantOfShape": lambda xp, shape, value=np.zeros(1, np.float32): np.full(shape, value[0], value.dtype),
    "Div": _divide,
    "Equal": lambda xp, a, b: a == b,
    "Erf": _erf,
    "Expand": lambda xp, x, shape: xp.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(int(size) for size in shape))),
    "Gather": lambda xp, x, indices, axis=0: xp.take(x, indices, axis),
    "GatherND": _gather_nd,
    "Gemm": _gemm,
    "Greater": lambda xp, a, b: a > b,
    "GreaterOrEqual": lambda xp, a, b: a >= b,
    "Identity": lambda xp, x: x,
    "IsNaN": lambda xp, x: xp.isnan(x),
    "LayerNormalization": _layer_norm,
    "MatMul": lambda xp, a, b: a @ b,
    "Max": lambda xp, a, b: xp.maximum(a, b),
    "Mul": lambda xp, a, b: a * b,
    "Pow": lambda xp, a, b: a**b,
    "Range": lambda xp, start, limit, delta: np.arange(int(start), int(limit), int(delta)),
    "ReduceSum": lambda xp, x, axes=None, keepdims=1, **_: x.sum(
        None if axes is None else tuple(int(a) for a in axes), keepdims=bool(keepdims)
    ),
    "Reshape": _reshape,
    "Shape": lambda xp, x, start=0, end=None: np.array(x.shape[start:end], np.int64),
    "Slice": _slice,
    "Softmax": _softmax,
    "Squeeze": lambda xp, x, axes=None: xp.squeeze(x, None if axes is None else tuple(int(axis) for axis in axes)),
    "Tanh": lambda xp, x: xp.tanh(x),
    "Transpose": lambda xp, x, perm=None: xp.transpose(x, perm),
    "Unsqueeze": _unsqueeze,
    "Where": lambda xp, condition, a, b: xp.where(condition, a, b),
}
# Larger values that numpy computed are arguments of the function, not constants in its code.
_CONSTANT_BYTES = 1024


def _attributes(node) -> dict:
    values = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
    return {
        key: numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value
        for key, value in values.items()
    }


class Graph:
    """Raises NotImplementedError for an operator that is not there."""

    def __init__(self, path: str):
        self.graph = onnx.load(path).graph
        missing = {node.op_type for node in self.graph.node} - set(OPERATORS)
        if missing:
            raise NotImplementedError(f"operators {', '.join(sorted(missing))}")
        values = {tensor.name: numpy_helper.to_array(tensor) for tensor in self.graph.initializer}
        self.nodes = [node for node in self.graph.node if not self._fold(node, values)]
        self.constants = {name: value for name, value in values.items() if value.nbytes <= _CONSTANT_BYTES}
        used = {name for node in self.nodes for name in node.input}
        self.weights = {
            name: jnp.asarray(value) for name, value in values.items() if name in used and name not in self.constants
        }

    @staticmethod
    def _fold(node, values: dict) -> bool:
        if node.op_type == "Erf" or any(name and name not in values for name in node.input):
            return False
        operands = [values[name] if name else None for name in node.input]
        values[node.output[0]] = np.asarray(OPERATORS[node.op_type](np, *operands, **_attributes(node)))
        return True

    def __call__(self, inputs: dict, weights: dict) -> list:
        values = self.constants | weights | inputs
        for node in self.nodes:
            operands = [values[name] if name else None for name in node.input]
            traced = any(isinstance(operand, jax.Array) for operand in operands)
            values[node.output[0]] = OPERATORS[node.op_type](jnp if traced else np, *operands, **_attributes(node))
        return [values[output.name] for output in self.graph.output]
