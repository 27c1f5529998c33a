"""Writes the small models of this folder: python generate.py (needs the onnx package)."""

import os

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

HERE = os.path.dirname(os.path.abspath(__file__))


def write(name, nodes, inputs, outputs, initializers=(), opset=17, **more):
    graph = helper.make_graph(nodes, name, inputs, outputs, list(initializers))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], **more)
    model.ir_version = 8
    model.producer_name = ""
    save(model, os.path.join(HERE, name + ".onnx"))


def value(name, shape, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def ints(name, numbers):
    return numpy_helper.from_array(np.array(numbers, np.int64), name)


# Heads of attention: shape arithmetic on two named dims, and a weight above 1 KiB.
weight = numpy_helper.from_array((np.arange(32 * 32) % 7).astype(np.float32).reshape(32, 32), "proj.weight")
write(
    "heads",
    [
        helper.make_node("MatMul", ["x", "proj.weight"], ["y"], name="/proj/MatMul"),
        helper.make_node("Shape", ["x"], ["shape"], name="/Shape"),
        helper.make_node("Gather", ["shape", "first"], ["lead"], name="/Gather"),
        helper.make_node("Concat", ["lead", "rest"], ["target"], name="/Concat", axis=0),
        helper.make_node("Reshape", ["y", "target"], ["split"], name="/Reshape"),
        helper.make_node("Transpose", ["split"], ["heads"], name="/Transpose", perm=[0, 2, 1, 3]),
    ],
    [value("x", ["batch", "seq", 32])],
    [value("heads", ["batch", 4, "seq", 9])],  # wrong on purpose: the last size is 8
    [weight, ints("first", [0, 1]), ints("rest", [4, 8])],
)

# Nodes that rlx does not have, and a shape that only a run decides.
write(
    "unsupported",
    [
        helper.make_node("NonZero", ["x"], ["a"], name="where"),
        helper.make_node("Relu", ["a"], ["b"], name="after"),
        helper.make_node("Reshape", ["x", "shape"], ["c"], name="view"),
    ],
    [value("x", ["N"]), value("shape", [2], TensorProto.INT64)],
    [value("b", ["M"]), value("c", [1, "N"])],
)

# Every size is a number.
write(
    "fixed",
    [helper.make_node("Add", ["a", "b"], ["c"], name="sum")],
    [value("a", [2, 3]), value("b", [3])],
    [value("c", [2, 3])],
)
