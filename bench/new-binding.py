#!/usr/bin/env python3
"""What a size costs that has not been met before."""

import argparse
import os
import pathlib
import random
import statistics
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "common"))
import catalog  # noqa: E402
import harness  # noqa: E402
import report  # noqa: E402
import workers  # noqa: E402
from workers import Machine, Worker  # noqa: E402

FOOTER = """\
Four parts, every engine with --threads threads:
  holds    a warm process meets sizes that it has not met: the first answer minus the median of the next ones, and
           how often the compiler was called
  compile  no template is there: making one with the kernels warm (what a size costs for which no template holds),
           and making everything, kernels too; beside OpenVINO's reshape and compile of the same sizes in turn
  start    load to first answer in fresh processes, in turn: from the moment that the engine's package is loaded,
           and with the start of the process (Python's too, for the peers)
  stream   2,000 random sizes are prepared: templates, kernels and bindings that were made

Example: bench/new-binding --check --json new-binding.json --parts holds,stream"""

PARTS = ("holds", "compile", "start", "stream")
FIRST_MINUS_STEADY_MS, OF_OPENVINO_COMPILE, OF_ONNXRUNTIME_START = 0.3, 0.1, 1.5
MODEL = "minilm"
# Met before anything is timed: as few rows as there are kernels of their own for, and many.
WARM = ["1x1", "1x2", "1x3", "1x4", "1x5", "2x1", "3x1", "5x1", "1x7", "3x17", "8x32"]


def parse(arguments: "list[str] | None" = None) -> argparse.Namespace:
    parser = report.parser("new-binding", __doc__, FOOTER)
    parser.add_argument("--parts", type=report.words, default=list(PARTS), metavar="A,B", help=f"of {', '.join(PARTS)}")
    threads = min(2, len(os.sched_getaffinity(0)))
    parser.add_argument("--threads", type=int, default=threads, metavar="N", help=f"default: {threads}")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of the random sizes (default: 1)")
    flags = parser.parse_args(arguments)
    if flags.threads < 1:
        parser.error("--threads: at least 1")
    for part in flags.parts:
        if part not in PARTS:
            parser.error(f"--parts: no '{part}'")
    return flags


def random_sizes(count: int, largest_batch: int, longest: int, tokens: int, seed: int) -> "list[tuple[int, int]]":
    """Different (batch, length) pairs with at most so many tokens, every magnitude alike; those of 1 come first."""
    source = random.Random(seed)

    def draw(limit: int) -> int:
        return int((limit + 1) ** source.random())

    sizes = [(1, 1), (1, longest), (largest_batch, 1)]
    while len(sizes) < count:
        size = draw(largest_batch), draw(longest)
        if size[0] * size[1] <= tokens and size not in sizes:
            sizes.append(size)
    return sizes[:count]


class Inputs:
    """Folders of inputs, made when asked for."""

    def __init__(self, scratch: pathlib.Path):
        self.scratch = scratch

    def folder(self, label: str) -> str:
        path = self.scratch / label
        if not path.exists():
            harness.save(path, catalog.Case(MODEL, label).inputs())
        return str(path)


def holds(out: report.Report, build: pathlib.Path, inputs: Inputs) -> None:
    count = 8 if out.flags.quick else 50
    worker = Worker(workers.RLX, catalog.model_file(MODEL), out.flags.threads, build)
    try:
        for label in WARM:
            worker.ask("inputs", folder=inputs.folder(label))
            worker.ask("run", times=1)
        before = worker.ask("statistics")
        rows = []
        sizes = [f"{b}x{s}" for b, s in random_sizes(count + len(WARM), 8, 128, 512, out.flags.seed)]
        for label in [size for size in sizes if size not in WARM][:count]:
            worker.ask("inputs", folder=inputs.folder(label))
            first, *rest = worker.ask("run", times=8)["ms"]
            rows.append({"size": label, "first_ms": first, "steady_ms": statistics.median(rest)})
        after = worker.ask("statistics")
    finally:
        worker.close()
    extra = sorted(row["first_ms"] - row["steady_ms"] for row in rows)
    middle = statistics.median(extra)
    calls = {name: after[name] - before[name] for name in ("templates", "kernels_compiled")}
    out.document["holds"] = {"rows": rows, "median_ms": middle, "calls": calls}
    out.say(
        f"\ntemplate holds ({out.flags.threads} threads): {len(rows)} sizes, first answer minus steady: median {middle:.3f} ms"
    )
    out.say(f"  nine in ten below {extra[len(extra) * 9 // 10]:.3f} ms, largest {extra[-1]:.3f} ms")
    out.require(middle <= FIRST_MINUS_STEADY_MS, f"the median at most {FIRST_MINUS_STEADY_MS} ms: {middle:.3f} ms")
    out.require(
        not any(calls.values()),
        f"no call of the compiler: {calls['templates']} templates and {calls['kernels_compiled']} kernels were made",
    )


def compiling(out: report.Report, build: pathlib.Path, inputs: Inputs) -> None:
    path = catalog.model_file(MODEL)
    rlx = Worker(workers.RLX, path, out.flags.threads, build)
    openvino = Worker(workers.OPENVINO_STATIC, path, out.flags.threads, build)
    rows = []
    try:
        sizes = random_sizes(4 if out.flags.quick else 12, 8, 128, 512, out.flags.seed + 1)
        for batch, length in sizes:
            row = {"size": f"{batch}x{length}"}
            binding = {"batch": batch, "sequence": length}
            rlx.ask("fresh", kernels=True)
            answer = rlx.ask("prepare", binding=binding)
            row["all_ms"], row["kernels"] = answer["ms"], answer["kernels_compiled"]
            rlx.ask("fresh", kernels=False)
            answer = rlx.ask("prepare", binding=binding)
            row["template_ms"] = answer["ms"]
            assert answer["kernels_compiled"] == 0 and answer["templates"] == 1, answer
            rlx.rest()
            row["openvino_ms"] = openvino.ask("inputs", folder=inputs.folder(row["size"]))["ms"]
            openvino.rest()
            rows.append(row)
    finally:
        rlx.close()
        openvino.close()
    out.document["compile"] = rows
    out.table(
        "no template: ms",
        [["size", "template, warm kernels", "template and kernels", "kernels", "openvino reshape and compile"]]
        + [
            [
                row["size"],
                f"{row['template_ms']:.1f}",
                f"{row['all_ms']:.1f}",
                str(row["kernels"]),
                f"{row['openvino_ms']:.1f}",
            ]
            for row in rows
        ],
    )
    ratio = statistics.median(row["template_ms"] / row["openvino_ms"] for row in rows)
    everything = statistics.median(row["all_ms"] / row["openvino_ms"] for row in rows)
    out.document["compile_ratio"], out.document["compile_ratio_with_kernels"] = ratio, everything
    out.note(f"with all kernels, of OpenVINO's: {everything:.2f} (median)")
    out.require(
        ratio <= OF_OPENVINO_COMPILE,
        f"a new template at most {OF_OPENVINO_COMPILE} of OpenVINO's compile: {ratio:.3f} (median)",
    )


def start(out: report.Report, build: pathlib.Path, inputs: Inputs) -> None:
    path = catalog.model_file(MODEL)
    engines = [workers.RLX, *workers.PEERS]
    times = {engine: [] for engine in engines}
    first = pathlib.Path(inputs.folder("1x16"))
    for number in range(2 if out.flags.quick else 9):
        for engine in engines if number % 2 == 0 else reversed(engines):
            worker = Worker(engine, path, out.flags.threads, build, first)
            times[engine].append((worker.ready["first_answer_ms"], worker.ready_seconds * 1e3))
            worker.close()
    middles = {engine.name: [statistics.median(values) for values in zip(*pairs)] for engine, pairs in times.items()}
    out.document["start"] = {
        name: {"load_to_answer_ms": one, "process_to_answer_ms": two} for name, (one, two) in middles.items()
    }
    out.table(
        "load to first answer at 1x16: ms",
        [["engine", "load to answer", "with the start of the process"]]
        + [[name, f"{one:.0f}", f"{two:.0f}"] for name, (one, two) in middles.items()],
    )
    ours = middles["rlx"][0]
    openvino = min(middles[engine.name][0] for engine in (workers.OPENVINO_DYNAMIC, workers.OPENVINO_STATIC))
    other = middles["onnxruntime"][0]
    out.require(
        ours <= openvino,
        f"load to first answer at most OpenVINO's (the faster of its two): {ours:.0f} of {openvino:.0f} ms",
    )
    out.require(
        ours <= OF_ONNXRUNTIME_START * other,
        f"load to first answer at most {OF_ONNXRUNTIME_START} of onnxruntime's: {ours / other:.2f}",
    )


def bindings_of(model: str, count: int, seed: int) -> "list[dict[str, int]]":
    """A stream of sizes."""
    if model == "minilm":
        return [{"batch": b, "sequence": s} for b, s in random_sizes(count, 32, 512, 8192, seed)]
    if model == "rxnmap":
        source = random.Random(seed)
        return [{"seq_len": length} for length in [1, 2, 512] + [source.randint(1, 512) for _ in range(count - 3)]]
    return [{}] * count


def stream(out: report.Report, build: pathlib.Path, inputs: Inputs) -> None:
    count = 60 if out.flags.quick else 2000
    lines = [
        [
            "model",
            "sizes",
            "different",
            "templates",
            "kernels, first half",
            "second half",
            "instantiated",
            "median ms",
            "largest ms after 100",
        ]
    ]
    verdicts = []
    for model in catalog.CASES:
        out.progress(f"{model}: preparing {count} sizes")
        worker = Worker(workers.RLX, catalog.model_file(model), out.flags.threads, build)
        try:
            times, halfway, last = [], None, None
            for i, binding in enumerate(bindings_of(model, count, out.flags.seed)):
                last = worker.ask("prepare", binding=binding)
                times.append(last["ms"])
                if i == count // 2 - 1:
                    halfway = last
        finally:
            worker.close()
        second = last["kernels_compiled"] - halfway["kernels_compiled"]
        row = {
            "sizes": count,
            "different": last["misses"],
            "templates": last["templates"],
            "kernels_first_half": halfway["kernels_compiled"],
            "kernels_second_half": second,
            "instantiated": last["instantiated"],
            "median_ms": statistics.median(times),
            "largest_ms_after_100": max(times[100:], default=None),
        }
        out.document.setdefault("stream", {})[model] = row
        largest = row["largest_ms_after_100"]
        lines.append(
            [
                model,
                *(str(row[name]) for name in list(row)[:6]),
                f"{row['median_ms']:.3f}",
                "-" if largest is None else f"{largest:.2f}",
            ]
        )
        if model == MODEL:
            verdicts.append((row["templates"] <= 2, f"{model}: one template, two at most: {row['templates']}"))
        verdicts.append((second == 0, f"{model}: no more kernels in the second half: {second}"))
    out.table(f"{count} random sizes, batch and length from 1 up", lines)
    for met, what in verdicts:
        out.require(met, what)


def main(arguments: "list[str] | None" = None) -> int:
    flags = parse(arguments)
    out = report.Report("new-binding", flags)
    with Machine(flags.build) as machine:
        out.machine(machine)
    with tempfile.TemporaryDirectory() as folder:
        inputs = Inputs(pathlib.Path(folder))
        for part, body in zip(PARTS, (holds, compiling, start, stream)):
            if part in flags.parts:
                out.progress(part)
                body(out, flags.build, inputs)
    return out.finish()


if __name__ == "__main__":
    sys.exit(report.guarded("new-binding", main))
