#!/usr/bin/env python3
"""Where the time of compiling a model goes: by phase, and by kernel."""

import argparse
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "common"))
import catalog  # noqa: E402
import report  # noqa: E402
import workers  # noqa: E402
from workers import Machine, Worker  # noqa: E402

FOOTER = """\
For each model at one size (--sizes: at each of these): loading it, then several times, with nothing kept in between,
what the first answer at that size waits for; and each kernel compiled by itself, on one thread. Figures are medians;
"first" is the first time in the process.

Example: bench/compile --models minilm --sizes 1x16 --kernels 40"""


def parse(arguments: "list[str] | None" = None) -> "tuple[argparse.Namespace, list[catalog.Case]]":
    parser = report.parser("compile", __doc__, FOOTER)
    catalog.add_flags(parser)
    parser.add_argument("--kernels", type=int, default=12, metavar="N", help="show the N slowest kernels (default: 12)")
    return catalog.parse(parser, arguments, rounds=7, few=True)


def middle_of(dicts: "list[dict[str, float]]") -> "dict[str, float]":
    """The median of each key."""
    return {
        key: statistics.median(one[key] for one in dicts if key in one)
        for key in dict.fromkeys(k for one in dicts for k in one)
    }


def measure(case: catalog.Case, flags: argparse.Namespace) -> dict:
    result: dict = {"model": case.model, "size": case.label, "threads": {}}
    for threads in flags.threads:
        worker = Worker(workers.RLX, catalog.model_file(case.model), threads, flags.build)
        try:
            answers = []
            for number in range(1 + flags.rounds):
                if number:
                    worker.ask("fresh", kernels=True)
                answers.append(worker.ask("prepare", binding=case.binding))
            result["threads"][str(threads)] = {
                "load_ms": worker.ready["load_ms"],
                "load_ms_by_phase": worker.ready["load_ms_by_phase"],
                "first_ms": answers[0]["ms"],
                "ms": statistics.median(answer["ms"] for answer in answers[1:]),
                "ms_by_phase": middle_of([answer["ms_by_phase"] for answer in answers[1:]]),
                "kernels": answers[0]["kernels_compiled"],
                "code_bytes": answers[0]["code_bytes"],
            }
            if threads == flags.threads[0]:
                runs = [worker.ask("kernels", binding=case.binding) for _ in range(flags.rounds)]
                result["template_ms"] = statistics.median(run["template_ms"] for run in runs)
                result["instantiate_ms"] = statistics.median(run["instantiate_ms"] for run in runs)
                result["steps"] = runs[0]["steps"]
                result["kernels"] = [
                    same[0]
                    | {
                        "ms": statistics.median(one["ms"] for one in same),
                        "ms_by_phase": middle_of([one["ms_by_phase"] for one in same]),
                    }
                    for same in zip(*(run["kernels"] for run in runs))
                ]
        finally:
            worker.close()
    return result


def show(out: report.Report, result: dict, shown: int) -> None:
    name = f"{result['model']} {result['size']}"
    loading = next(iter(result["threads"].values()))["load_ms_by_phase"]
    out.say(f"\n{name}: loading, ms: " + ", ".join(f"{phase} {ms:.2f}" for phase, ms in loading.items()))
    phases = list(dict.fromkeys(phase for one in result["threads"].values() for phase in one["ms_by_phase"]))
    rows = [["threads", "loading", "first", "again", *phases]]
    for threads, one in result["threads"].items():
        values = [one["load_ms"], one["first_ms"], one["ms"], *(one["ms_by_phase"].get(phase, 0) for phase in phases)]
        rows.append([threads, *(f"{value:.2f}" for value in values)])
    out.table(f"{name}: from nothing to ready, ms (phases of kernels are sums over all threads)", rows)
    kernels = sorted(result["kernels"], key=lambda kernel: -kernel["ms"])
    phases = list(dict.fromkeys(phase for kernel in kernels for phase in kernel["ms_by_phase"]))
    rows = [["kernel", "steps", "bytes", "ms", *phases]]
    for kernel in kernels[:shown]:
        rows.append(
            [kernel["kernel"][:70], str(kernel["steps"]), str(kernel["code_bytes"]), f"{kernel['ms']:.2f}"]
            + [f"{kernel['ms_by_phase'].get(phase, 0):.2f}" for phase in phases]
        )
    total = sum(kernel["ms"] for kernel in kernels)
    rows.append(
        [
            f"all {len(kernels)} kernels",
            str(result["steps"]),
            str(sum(k["code_bytes"] for k in kernels)),
            f"{total:.1f}",
        ]
    )
    rows[-1] += [f"{sum(kernel['ms_by_phase'].get(phase, 0) for kernel in kernels):.1f}" for phase in phases]
    out.table(f"{name}: kernels, ms", rows)
    out.say(f"template {result['template_ms']:.2f} ms, instantiating it {result['instantiate_ms']:.3f} ms")


def main(arguments: "list[str] | None" = None) -> int:
    flags, cases = parse(arguments)
    out = report.Report("compile", flags)
    with Machine(flags.build) as machine:
        out.machine(machine)
    results = out.document["models"] = []
    for case in cases:
        out.progress(case.name)
        results.append(measure(case, flags))
        show(out, results[-1], flags.kernels)
    return out.finish()


if __name__ == "__main__":
    sys.exit(report.guarded("compile", main))
