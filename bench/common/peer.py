#!/usr/bin/env python3
"""A peer in a process of its own; answers the requests that bench/worker.cpp lists.

usage: peer.py ENGINE --model FILE --threads N [--first FOLDER]

ENGINE is onnxruntime, openvino-dynamic, openvino-static, openvino-default, iree or jax. Only the engine's own call is
timed: inputs are bound before it, and outputs are read after it.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np


def load_inputs(folder: str) -> "dict[str, np.ndarray]":
    return {path.stem: np.load(path) for path in sorted(pathlib.Path(folder).glob("*.npy"))}


class OnnxRuntime:
    def __init__(self, threads: int):
        import onnxruntime

        self.package = onnxruntime
        self.version = onnxruntime.__version__
        self.threads = threads

    def load(self, model: str) -> None:
        options = self.package.SessionOptions()
        options.intra_op_num_threads = self.threads
        options.inter_op_num_threads = 1
        self.session = self.package.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    def take(self, arrays: "dict[str, np.ndarray]") -> None:
        self.binding = self.session.io_binding()
        for name, array in arrays.items():
            self.binding.bind_cpu_input(name, array)
        for output in self.session.get_outputs():
            self.binding.bind_output(output.name, "cpu")

    def run(self) -> None:
        self.session.run_with_iobinding(self.binding)

    def outputs(self) -> "list[np.ndarray]":
        return self.binding.copy_outputs_to_cpu()


class OpenVino:
    """`static`: reshaped and compiled for each size. `as_it_comes`: OpenVINO's own choice of precision, which on CPUs
    with 8-bit instructions quantises the activations; otherwise f32 is computed, as everybody else does."""

    def __init__(self, threads: int, static: bool = False, as_it_comes: bool = False):
        import openvino

        self.package = openvino
        self.version = openvino.__version__.split("-")[0]
        self.static = static
        self.options = {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY"}
        if not as_it_comes:
            self.options |= {"INFERENCE_PRECISION_HINT": "f32", "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0"}

    def load(self, model: str) -> None:
        self.core = self.package.Core()
        self.model = self.core.read_model(model)
        self.request = None
        if not self.static:
            self.compile()

    def compile(self) -> None:
        self.request = self.core.compile_model(self.model, "CPU", self.options).create_infer_request()

    def take(self, arrays: "dict[str, np.ndarray]") -> None:
        if self.static:
            self.model.reshape({name: array.shape for name, array in arrays.items()})
            self.compile()
        self.arrays = arrays  # shared with the tensors
        for name, array in arrays.items():
            self.request.set_tensor(name, self.package.Tensor(array, shared_memory=True))

    def run(self) -> None:
        self.request.infer()

    def outputs(self) -> "list[np.ndarray]":
        return [np.array(tensor.data) for tensor in self.request.output_tensors]


class Iree:
    """Imported and compiled for each size, for this CPU."""

    def __init__(self, threads: int):
        import iree.compiler.version
        import iree.runtime

        self.package = iree.runtime
        self.version = iree.compiler.version.VERSION
        if threads > 1:
            self.package.flags.parse_flags(f"--task_topology_group_count={threads}")
        self.driver = "local-task" if threads > 1 else "local-sync"

    def load(self, model: str) -> None:
        import onnx

        self.model = onnx.load(model)

    def compile(self, arrays: "dict[str, np.ndarray]", folder: pathlib.Path) -> bytes:
        import onnx

        fixed = onnx.ModelProto()
        fixed.CopyFrom(self.model)
        del fixed.graph.value_info[:]
        for value in fixed.graph.input:
            for dim, size in zip(
                value.type.tensor_type.shape.dim, arrays[value.name].shape if value.name in arrays else ()
            ):
                dim.dim_value = size
        onnx.save(fixed, str(folder / "model.onnx"))
        tools = pathlib.Path(sys.executable).parent
        imports = [
            tools / "iree-import-onnx",
            folder / "model.onnx",
            "--opset-version",
            "17",
            "-o",
            folder / "model.mlir",
        ]
        compiles = [tools / "iree-compile", folder / "model.mlir", "-o", folder / "model.vmfb", "--iree-opt-level=O3"]
        compiles += [
            "--iree-hal-target-device=local",
            "--iree-hal-local-target-device-backends=llvm-cpu",
            "--iree-llvmcpu-target-cpu=host",
        ]
        for command in (imports, compiles):
            done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
            if done.returncode != 0:
                errors = [line for line in done.stderr.splitlines() if "error:" in line]
                raise RuntimeError(f"{command[0].name}: {(errors or [f'code {done.returncode}'])[0][:200]}")
        return (folder / "model.vmfb").read_bytes()

    def take(self, arrays: "dict[str, np.ndarray]") -> None:
        with tempfile.TemporaryDirectory() as folder:
            code = self.compile(arrays, pathlib.Path(folder))
        config = self.package.Config(self.driver)
        module = self.package.VmModule.copy_buffer(config.vm_instance, code)
        bound = self.package.load_vm_module(module, config)
        name = next(name for name in module.function_names if not name.startswith("__") and not name.endswith("$async"))
        self.function = bound[name]
        known = {tensor.name for tensor in self.model.graph.initializer}
        names = [value.name for value in self.model.graph.input if value.name not in known]
        self.arguments = [self.package.asdevicearray(config.device, arrays[name]) for name in names]

    def run(self) -> None:
        self.results = self.function(*self.arguments)

    def outputs(self) -> "list[np.ndarray]":
        results = self.results if isinstance(self.results, (list, tuple)) else [self.results]
        return [result.to_host() for result in results]


class Jax:
    """Traced and compiled for each size."""

    def __init__(self, threads: int):
        import os

        # XLA has as many threads as the process has CPUs.
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
        os.environ["JAX_PLATFORMS"] = "cpu"
        import jax
        import onnx_jax

        jax.config.update("jax_enable_x64", True)
        self.package = jax
        self.graphs = onnx_jax
        self.version = jax.__version__

    def load(self, model: str) -> None:
        self.graph = self.graphs.Graph(model)
        self.function = self.package.jit(self.graph)

    def take(self, arrays: "dict[str, np.ndarray]") -> None:
        inputs = {name: self.package.numpy.asarray(array) for name, array in arrays.items()}
        compiled = self.function.lower(inputs, self.graph.weights).compile()
        self.call = lambda: compiled(inputs, self.graph.weights)

    def run(self) -> None:
        self.results = self.package.block_until_ready(self.call())

    def outputs(self) -> "list[np.ndarray]":
        return [np.asarray(result) for result in self.results]


ENGINES = {
    "onnxruntime": OnnxRuntime,
    "openvino-dynamic": OpenVino,
    "openvino-static": lambda threads: OpenVino(threads, static=True),
    "openvino-default": lambda threads: OpenVino(threads, as_it_comes=True),
    "iree": Iree,
    "jax": Jax,
}


def process_status(key: str) -> int:
    """A number of /proc/self/status, KiB."""
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1])
    return 0


def milliseconds_since(start: float) -> float:
    return (time.perf_counter() - start) * 1e3


def answer(engine, request: dict) -> dict:
    what = request.get("do")
    if what == "inputs":
        arrays = load_inputs(request["folder"])
        start = time.perf_counter()
        engine.take(arrays)
        return {"ms": milliseconds_since(start)}
    if what == "write":
        start = time.perf_counter()
        engine.run()
        ms = milliseconds_since(start)
        folder = pathlib.Path(request["folder"])
        folder.mkdir(parents=True, exist_ok=True)
        for i, array in enumerate(engine.outputs()):
            np.save(folder / f"{i}.npy", array)
        return {"ms": ms}
    if what == "run":
        times = []
        for _ in range(request.get("times", 1)):
            start = time.perf_counter()
            engine.run()
            times.append(milliseconds_since(start))
        return {"ms": times}
    if what == "memory":
        return {"peak_kib": process_status("VmHWM"), "resident_kib": process_status("VmRSS")}
    raise ValueError(f"no request '{what}'")


def say(document: dict) -> None:
    print(json.dumps(document), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("engine", choices=sorted(ENGINES))
    parser.add_argument("--model", required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--first", metavar="FOLDER", help="run once as soon as the model is there")
    flags = parser.parse_args()
    arrays = load_inputs(flags.first) if flags.first else {}
    interpreter = process_status("VmRSS")
    try:
        engine = ENGINES[flags.engine](flags.threads)
        start = time.perf_counter()
        engine.load(flags.model)
        ready = {"engine": flags.engine, "version": engine.version, "load_ms": milliseconds_since(start)}
        ready["interpreter_kib"] = interpreter
        if arrays:
            engine.take(arrays)
            engine.run()
            ready["first_answer_ms"] = milliseconds_since(start)
    except Exception as error:  # whatever a package raises, the driver gets one line
        say({"error": f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"})
        return 1
    say(ready)
    for line in sys.stdin:
        try:
            say(answer(engine, json.loads(line)))
        except Exception as error:
            say({"error": f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"})
    return 0


if __name__ == "__main__":
    sys.exit(main())
