"""The models that are timed, their sizes and inputs, and what an answer costs at least."""

import argparse
import collections
import dataclasses
import math
import pathlib
import re
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "utils"))
import harness  # noqa: E402
import models  # noqa: E402
import report  # noqa: E402

# Answers within this of onnxruntime's are the same answer, as in the tests.
TOLERANCE = 1e-4


@dataclasses.dataclass(frozen=True)
class Case:
    """A model at a size. `label` is the size as people write it: 8x32 is batch 8, sequence 32."""

    model: str
    label: str

    @property
    def name(self) -> str:
        return f"{self.model} {self.label}"

    @property
    def sizes(self) -> "tuple[int, ...]":
        return tuple(int(part) for part in self.label.split("x"))

    @property
    def binding(self) -> "dict[str, int]":
        """The model's named dims."""
        return dict(zip(DIMS[self.model], self.sizes)) if DIMS[self.model] else {}

    def inputs(self) -> "dict[str, np.ndarray]":
        return INPUTS[self.model](*self.sizes)


DIMS = {"minilm": ("batch", "sequence"), "maskseq": (), "rxnmap": ("seq_len",)}
INPUTS = {
    "minilm": harness.minilm_inputs,
    "maskseq": lambda batch, length: harness.maskseq_inputs(),
    "rxnmap": harness.rxnmap_inputs,
}
LABELS = {"minilm": r"[1-9]\d*x[1-9]\d*", "maskseq": "1x64", "rxnmap": r"[1-9]\d*"}
# What bench/compare is asked for.
CASES = {"minilm": ("1x16", "1x128", "8x32", "3x17"), "maskseq": ("1x64",), "rxnmap": ("7", "64")}
QUICK = {"minilm": ("3x17",), "maskseq": ("1x64",), "rxnmap": ("7",)}


def add_flags(parser: argparse.ArgumentParser) -> None:
    """--models and --sizes, by which cases are chosen, and --threads."""
    parser.add_argument(
        "--models", type=report.words, default=list(CASES), metavar="A,B", help=f"of {', '.join(CASES)}"
    )
    parser.add_argument(
        "--sizes", type=report.words, default=[], metavar="A,B", help="8x32 (batch, length), 7 (length)"
    )
    parser.add_argument("--threads", type=report.numbers, default=[1, 2], metavar="N,N", help="default: 1,2")


def parse(
    parser: argparse.ArgumentParser, arguments: "list[str] | None", rounds: int, few: bool = False
) -> "tuple[argparse.Namespace, list[Case]]":
    """What the flags of add_flags ask for. `rounds`: the default. `few`: fewer cases, as with --quick."""
    parser.add_argument("--rounds", type=int, metavar="N", help=f"default: {rounds}")
    flags = parser.parse_args(arguments)
    if flags.rounds is None:
        flags.rounds = 2 if flags.quick else rounds
    if flags.rounds < 1:
        parser.error("--rounds: at least 1")
    try:
        return flags, choose(flags.models, flags.sizes, few or flags.quick)
    except ValueError as error:
        parser.error(str(error))


def choose(names: "list[str]", labels: "list[str]", quick: bool) -> "list[Case]":
    """The cases that flags ask for. A size goes to each chosen model that has sizes of that form. Raises ValueError."""
    for name in names:
        if name not in CASES:
            raise ValueError(f"no model '{name}': there are {', '.join(CASES)}")
    if not labels:
        return [Case(name, label) for name in names for label in (QUICK if quick else CASES)[name]]
    cases = []
    for name in names:
        cases += [Case(name, label) for label in labels if re.fullmatch(LABELS[name], label)]
    for label in labels:
        if not any(case.label == label for case in cases):
            raise ValueError(
                f"size '{label}' fits none of the models {', '.join(names)} (8x32 is batch and length, 7 a length)"
            )
    return cases


def model_file(name: str) -> pathlib.Path:
    return models.fetch(name)


@dataclasses.dataclass(frozen=True)
class Cost:
    """What an answer costs at least: `flops` in matrix products, and the weights that go by, in the `order` in which
    they do: where each lies if they lay side by side, and its bytes. One that several layers use goes by several
    times."""

    flops: float
    order: "list[tuple[int, int]]"

    @property
    def traffic(self) -> int:
        """Bytes that go by."""
        return sum(size for _, size in self.order)

    @property
    def resident(self) -> int:
        """Bytes that they lie in."""
        return max((offset + size for offset, size in self.order), default=0)

    def limit_ms(self, peak_gflops: float, read_gbs: float) -> float:
        """No program is faster on a machine with that peak and that bandwidth."""
        return max(self.flops / peak_gflops, self.traffic / read_gbs) * 1e-6


# What stands between a weight as it is stored and the product that uses it.
_STORED_AS = {"Cast", "Mul", "DequantizeLinear", "Transpose", "Identity", "Reshape", "Div"}


def cost(path: pathlib.Path, inputs: "dict[str, np.ndarray]") -> Cost:
    """Counted, not estimated: onnxruntime runs the graph once, with the shapes of all products made outputs."""
    import onnx
    import onnxruntime

    model = onnx.load(str(path))
    graph = model.graph
    weights = {tensor.name: tensor for tensor in graph.initializer}
    made_by = {name: node for node in graph.node for name in node.output}

    def stored_bytes(name: str) -> "tuple[str, int] | None":
        """The largest weight that a value comes from with no data in between, and its bytes."""
        if name in weights:
            tensor = weights[name]
            width = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize
            return name, math.prod(tensor.dims) * width
        node = made_by.get(name)
        if node is None or node.op_type not in _STORED_AS:
            return None
        found = [stored_bytes(operand) for operand in node.input if operand]
        constant = [operand in made_by and made_by[operand].op_type == "Constant" for operand in node.input if operand]
        if any(one is None and not fixed for one, fixed in zip(found, constant)):
            return None
        return max((one for one in found if one), key=lambda one: one[1], default=None)

    # Only what the outputs need.
    needed: "set[str]" = set()
    queue = collections.deque(output.name for output in graph.output)
    while queue:
        name = queue.popleft()
        if name in needed:
            continue
        needed.add(name)
        if name in made_by:
            queue.extend(made_by[name].input)
    products = [node for node in graph.node if node.op_type in ("MatMul", "Gemm") and node.output[0] in needed]

    order, offsets, resident = [], {}, 0
    for node in products:
        for operand in node.input[:2]:
            stored = stored_bytes(operand)
            if not stored:
                continue
            if stored[0] not in offsets:
                offsets[stored[0]] = resident
                resident += stored[1]
            order.append((offsets[stored[0]], stored[1]))
    for i, node in enumerate(products):
        for what, value in (("left", node.input[0]), ("out", node.output[0])):
            graph.node.append(onnx.helper.make_node("Shape", [value], [f"{what}_shape_{i}"]))
            graph.output.append(onnx.helper.make_tensor_value_info(f"{what}_shape_{i}", onnx.TensorProto.INT64, [None]))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [f"{what}_shape_{i}" for i in range(len(products)) for what in ("left", "out")]
    shapes = session.run(names, inputs)
    flops = 0.0
    for i, node in enumerate(products):
        left, out = shapes[2 * i], shapes[2 * i + 1]
        transposed = any(attribute.name == "transA" and attribute.i for attribute in node.attribute)
        flops += 2.0 * math.prod(out.tolist()) * int(left[0 if transposed else -1])
    return Cost(flops, order)
