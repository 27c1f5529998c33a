#!/usr/bin/env python3
"""How much memory an engine takes to serve a model."""

import argparse
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "common"))
import catalog  # noqa: E402
import harness  # noqa: E402
import report  # noqa: E402
import workers  # noqa: E402
from workers import Machine, Worker  # noqa: E402

FOOTER = """\
One process an engine: it loads the model and answers twice at each size (those of bench/compare), so that all there is
to compile has been compiled; rlx's compiler is in its process. Then the system is asked for the peak of the resident
memory. Python, which the peers need and rlx does not, is shown and taken off: what is compared is what the engine took.
The files of the model are in the page cache and mapped by some engines; mapped pages that were touched count.

Example: bench/memory --check --json memory.json"""


def parse(arguments: "list[str] | None" = None) -> argparse.Namespace:
    parser = report.parser("memory", __doc__, FOOTER)
    parser.add_argument(
        "--models",
        type=report.words,
        default=["minilm", "rxnmap"],
        metavar="A,B",
        help=f"of {', '.join(catalog.CASES)}",
    )
    flags = parser.parse_args(arguments)
    try:
        catalog.choose(flags.models, [], False)
    except ValueError as error:
        parser.error(str(error))
    return flags


def measure(engine: workers.Engine, model: str, build: pathlib.Path, scratch: pathlib.Path) -> "dict[str, float]":
    """MiB."""
    worker = Worker(engine, catalog.model_file(model), 1, build)
    try:
        for case in catalog.choose([model], [], False):
            folder = scratch / f"{case.model}-{case.label}"
            if not folder.exists():
                harness.save(folder, case.inputs())
            worker.ask("inputs", folder=str(folder))
            worker.ask("run", times=2)
        answer = worker.ask("memory")
    finally:
        worker.close()
    python = worker.ready.get("interpreter_kib", 0)
    return {
        "peak_mib": answer["peak_kib"] / 1024,
        "resident_mib": answer["resident_kib"] / 1024,
        "python_mib": python / 1024,
        "peak_without_python_mib": (answer["peak_kib"] - python) / 1024,
    }


def main(arguments: "list[str] | None" = None) -> int:
    flags = parse(arguments)
    out = report.Report("memory", flags)
    with Machine(flags.build) as machine:
        out.machine(machine)
    engines = [workers.RLX, *workers.PEERS]
    with tempfile.TemporaryDirectory() as folder:
        for model in flags.models:
            out.progress(model)
            rows = {engine.name: measure(engine, model, flags.build, pathlib.Path(folder)) for engine in engines}
            out.document.setdefault("models", {})[model] = rows
            out.table(
                f"{model} ({catalog.model_file(model).stat().st_size / (1 << 20):.0f} MiB), resident memory, MiB",
                [["engine", "peak", "after the last answer", "Python", "peak without Python"]]
                + [[name, *(f"{value:.0f}" for value in row.values())] for name, row in rows.items()],
            )
    out.say()
    for model, rows in out.document["models"].items():
        ours, theirs = rows["rlx"]["peak_mib"], rows["onnxruntime"]["peak_without_python_mib"]
        what = f"{model}: peak below onnxruntime's: {ours:.0f} of {theirs:.0f} MiB"
        if model == "minilm":
            out.require(ours < theirs, what)
        else:
            out.note(what.replace("peak below", "peak, beside").replace(" of ", " and "))
    return out.finish()


if __name__ == "__main__":
    sys.exit(report.guarded("memory", main))
