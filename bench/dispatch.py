#!/usr/bin/env python3
"""What a run of a small model costs besides its arithmetic: from Python beside onnxruntime, and from C++."""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import timeit

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "common"))
import catalog  # noqa: E402, F401  (it knows where the modules of utils/ are)
import python_package  # noqa: E402
import report  # noqa: E402
from workers import WorkerError  # noqa: E402

FOOTER = """\
The model is x + 1 of N by 4 numbers, at N = 2, on one thread; all calls are hits. The calls from Python take turns in
one process, several thousand at a time:
  onnxruntime run          session.run(None, {"x": x})
  onnxruntime io binding   session.run_with_iobinding(binding), bound before
  rlx call                 exe(x=x)
  rlx run                  exe.run({"x": x})
  rlx run_into             exe.run_into({"x": x}, {"y": y}), looked at anew each time
  rlx bound run            run(), of exe.bind_io({"x": x}, {"y": y})
What one takes in C++ is measured by rlx-bench-dispatch, whose parts are listed below it.

Example: bench/dispatch --check --json dispatch.json"""

RUN, INTO, NATIVE = 4, 2, 10
ONNX_RUN, ONNX_BOUND = "onnxruntime run", "onnxruntime io binding"


def parse(arguments: "list[str] | None" = None) -> argparse.Namespace:
    parser = report.parser("dispatch", __doc__, FOOTER)
    parser.add_argument("--rounds", type=int, default=None, metavar="N", help="in which they take turns (default: 60)")
    flags = parser.parse_args(arguments)
    if flags.rounds is None:
        flags.rounds = 3 if flags.quick else 60
    if flags.rounds < 1:
        parser.error("--rounds: at least 1")
    return flags


def save_model(path: pathlib.Path) -> None:
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "one"], ["y"])],
        "add_one",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 4])],
        [numpy_helper.from_array(np.array(1, np.float32), "one")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(path))


def contestants(out: report.Report, path: pathlib.Path) -> "dict[str, timeit.Timer]":
    """Calls by name, each of which was found to give the right answer."""
    import onnxruntime
    import rlx

    out.document["versions"] = {"onnxruntime": onnxruntime.__version__, "rlx": rlx.__version__}
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    exe = rlx.load(path, threads=1)
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    y, z = np.empty_like(x), np.empty_like(x)
    feed, room = {"x": x}, {"y": y}
    binding = session.io_binding()
    binding.bind_cpu_input("x", x)
    binding.bind_output("y", "cpu", 0, np.float32, z.shape, z.ctypes.data)
    bound = exe.bind_io(feed, room)
    calls = {
        ONNX_RUN: ("session.run(None, feed)", lambda: session.run(None, feed)[0]),
        ONNX_BOUND: ("session.run_with_iobinding(binding)", lambda: z),
        "rlx call": ("exe(x=x)", lambda: exe(x=x)),
        "rlx run": ("exe.run(feed)", lambda: exe.run(feed)[0]),
        "rlx run_into": ("exe.run_into(feed, room)", lambda: y),
        "rlx bound run": ("bound()", lambda: y),
    }
    # timeit compiles each into a loop of its own: calling it through a function would show.
    known = {"session": session, "binding": binding, "exe": exe, "bound": bound, "x": x, "feed": feed, "room": room}
    timers = {name: timeit.Timer(text, globals=known) for name, (text, _) in calls.items()}
    for name, (_, answer) in calls.items():
        y[:] = z[:] = 0
        timers[name].timeit(1)
        if not np.array_equal(answer(), x + 1):
            out.error(f"{name}: a wrong answer")
    return timers


def race(timers: "dict[str, timeit.Timer]", rounds: int, calls: int) -> "dict[str, float]":
    """Nanoseconds of a call: medians over the rounds, which begin with another each time."""
    times: "dict[str, list[float]]" = {name: [] for name in timers}
    names = list(timers)
    for number in range(rounds):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            times[name].append(timers[name].timeit(calls) / calls * 1e9)
    return {name: statistics.median(values) for name, values in times.items()}


def native(out: report.Report, build: pathlib.Path, path: pathlib.Path, scratch: pathlib.Path) -> "dict[str, float]":
    """What rlx-bench-dispatch finds: nanoseconds by part."""
    figures = scratch / "native.json"
    command = [str(build / "bin" / "rlx-bench-dispatch"), "--model", str(path), "--size", "2", "--json", str(figures)]
    done = subprocess.run(command + ["--quick"] * out.flags.quick, capture_output=True, text=True)
    if done.returncode != 0:
        raise WorkerError(f"rlx-bench-dispatch: {done.stderr.strip() or done.stdout.strip()}")
    tables = json.loads(figures.read_text())["tables"]
    return {row["part"]: float(row["ns"]) for row in tables["a hit"]}


def main(arguments: "list[str] | None" = None) -> int:
    flags = parse(arguments)
    out = report.Report("dispatch", flags)
    out.progress("building the Python package")
    try:
        sys.path.insert(0, str(python_package.make(flags.build)))
    except python_package.PackageError as error:
        raise WorkerError(str(error)) from None
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "add_one.onnx"
        save_model(path)
        out.progress("from Python")
        ns = race(contestants(out, path), flags.rounds, 50 if flags.quick else 3000)
        out.progress("from C++")
        parts = native(out, flags.build, path, pathlib.Path(folder))
    out.document |= {"python_ns": ns, "native_ns": parts}
    versions = out.document["versions"]
    out.say(f"onnxruntime {versions['onnxruntime']}, numpy {np.__version__}, Python {sys.version.split()[0]}")
    into = parts["runInto"]
    rows = [["x + 1, 2 by 4", "ns", "onnxruntime run over it", "its io binding over it"]]
    for name, each in [*ns.items(), ("rlx runInto, from C++", into)]:
        rows.append([name, f"{each:.0f}", f"{ns[ONNX_RUN] / each:.1f}", f"{ns[ONNX_BOUND] / each:.1f}"])
    out.table("a call", rows)
    out.table("parts of a hit, from C++", [["part", "ns"]] + [[name, f"{each:.0f}"] for name, each in parts.items()])
    out.say()
    ratios = {
        "call": (ns[ONNX_RUN] / max(ns["rlx call"], ns["rlx run"]), RUN, "call and run from Python", ONNX_RUN),
        "run_into": (ns[ONNX_BOUND] / ns["rlx run_into"], INTO, "run_into from Python", ONNX_BOUND),
        "native": (ns[ONNX_BOUND] / into, NATIVE, "runInto from C++", ONNX_BOUND + " from Python"),
    }
    out.document["ratios"] = {name: ratio for name, (ratio, *_) in ratios.items()}
    for ratio, least, ours, theirs in ratios.values():
        out.require(ratio >= least, f"{ours}: at least {least} times less than {theirs}: {ratio:.1f}")
    return out.finish()


if __name__ == "__main__":
    sys.exit(report.guarded("dispatch", main))
