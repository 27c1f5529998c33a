#!/usr/bin/env python3
"""A server in miniature: threads that answer requests whose sizes are never the same, on one executable.

    python examples/python/server.py [MODEL.onnx] [--seconds 3] [--threads 4] [--seed 1]

Without a model it makes a small one, y = softmax(x W) over [batch, seq, 16] (which needs the onnx package). Each request
has a random batch and length, and an answer of the wrong shape, or one with anything but numbers in it, ends the server.
"""

import argparse
import pathlib
import random
import sys
import tempfile
import threading
import time

import numpy as np

import rlx

LARGEST = 32


def small_model(path: pathlib.Path) -> pathlib.Path:
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    weight = np.random.default_rng(0).standard_normal((16, 16)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Softmax", ["h"], ["y"], axis=-1)],
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", "seq", 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", "seq", 16])],
        [numpy_helper.from_array(weight, "w")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
    return path


def request(model: rlx.Model, source: random.Random) -> "dict[str, np.ndarray]":
    """Inputs of random sizes: whatever the model's dims are called, one size each."""
    sizes = {dim.name: source.randint(1, LARGEST) for dim in model.dims}
    inputs = {}
    for tensor in model.inputs:
        shape = [sizes[size] if isinstance(size, str) else size for size in tensor.shape]
        # Ones are right for masks and token ids alike.
        inputs[tensor.name] = np.ones(shape, tensor.dtype)
    return inputs


class Server:
    """Answers requests in threads until it is told to stop."""

    def __init__(self, exe: rlx.Executable, threads: int, seed: int):
        self.exe = exe
        self.stopping = threading.Event()
        self.answered = [0] * threads
        self.errors: "list[BaseException]" = []
        self.threads = [threading.Thread(target=self.work, args=(i, seed + i)) for i in range(threads)]

    def work(self, number: int, seed: int) -> None:
        source = random.Random(seed)
        try:
            while not self.stopping.is_set():
                outputs = self.exe.run(request(self.exe.model, source))
                if not all(np.isfinite(array).all() for array in outputs):
                    raise ValueError("an answer is no number")
                self.answered[number] += 1
        except BaseException as error:  # noqa: BLE001  (it is told when the server stops)
            self.errors.append(error)
            self.stopping.set()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    flags = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        model = flags.model or small_model(pathlib.Path(folder) / "small.onnx")
        # Requests are many and small: each runs on its own thread, and the executable holds up to 64 sizes.
        exe = rlx.load(model, threads=1, cache_entries=64)
        server = Server(exe, flags.threads, flags.seed)
        for thread in server.threads:
            thread.start()
        for second in range(1, int(flags.seconds) + 1):
            if server.stopping.wait(1):
                break
            answers = sum(server.answered)  # first: what was answered is among what is counted
            stats = exe.stats()
            print(
                f"{second} s: {answers} answers; {stats['entries']} sizes held, {stats['hits']} hits, "
                f"{stats['misses']} misses ({stats['templates_made']} compiled), {stats['evictions']} evictions"
            )
        server.stopping.set()
        for thread in server.threads:
            thread.join()
        for error in server.errors:
            print(f"server.py: error: {error}", file=sys.stderr)
        print(f"{sum(server.answered)} answers in all; the last miss: {exe.explain()}")
    return 1 if server.errors else 0


if __name__ == "__main__":
    start = time.monotonic()
    code = main()
    print(f"{time.monotonic() - start:.1f} s")
    sys.exit(code)
