#!/usr/bin/env python3
"""Times models on rlx and on its peers in one run."""

import argparse
import collections
import pathlib
import statistics
import sys
import tempfile

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "common"))
import catalog  # noqa: E402
import harness  # noqa: E402
import report  # noqa: E402
import workers  # noqa: E402
from workers import Engine, Machine, Worker, WorkerError  # noqa: E402

FOOTER = """\
Every engine runs in a process of its own, on the same inputs, once with one thread and once with two. Answers are
compared first, with onnxruntime's; a peer whose answer is off is not timed, rlx's would end the run with exit code 1.
Then the engines take turns, in another order each round: in a turn an engine answers once to warm its caches, then
several times that count, and the next one starts when no thread of it runs any more (some spin after an answer). Each
round measures the FMA peak and the read bandwidth too. Figures are medians of single answers.

  ratio       rlx over the fastest peer: below 1 rlx is ahead
  % of limit  the limit is the larger of FLOPs / peak and weight bytes / bandwidth, that of reading as many bytes in the
              order in which the model does: nothing answers sooner
  openvino default  outside of the ratios: it quantises activations to 8 bits, and answers are off by what is shown

Examples: bench/compare --check --json compare.json --picture compare.png
          bench/compare --models minilm --sizes 1x16,4x64 --threads 1 --rounds 20"""

# On rows of rlx above this, two threads must pay.
SCALING_FROM_MS = 10
GEOMETRIC_MEAN, WORST_ROW, SCALING = 0.90, 1.05, 0.85


def parse(arguments: "list[str] | None" = None) -> "tuple[argparse.Namespace, list[catalog.Case]]":
    parser = report.parser("compare", __doc__, FOOTER)
    catalog.add_flags(parser)
    parser.add_argument("--iree", action="store_true", help="IREE as a further peer (bench/setup --more)")
    parser.add_argument("--jax", action="store_true", help="JAX as a further peer (bench/setup --more)")
    parser.add_argument("--picture", type=pathlib.Path, metavar="FILE.png", help="draw the ratios")
    return catalog.parse(parser, arguments, rounds=12)


class Contest:
    """One model: an engine is a worker for each number of threads."""

    def __init__(self, engines: "list[Engine]", model: str, flags: argparse.Namespace, out: report.Report):
        self.path = catalog.model_file(model)
        self.flags = flags
        self.out = out
        self.workers: "list[Worker]" = []
        for engine in engines:
            for threads in flags.threads:
                try:
                    self.workers.append(Worker(engine, self.path, threads, flags.build))
                except WorkerError as error:
                    if engine in (workers.RLX, workers.ONNXRUNTIME):
                        raise
                    out.note(f"{model}: no {engine.name}: {error}")
                    break

    def close(self) -> None:
        for worker in self.workers:
            worker.close()

    def answers(self, case: catalog.Case, scratch: pathlib.Path) -> "dict[Worker, list[np.ndarray]]":
        """What each engine answers; the first answer at this size, and so the compiling, is done then."""
        inputs = case.inputs()
        folder = harness.save(scratch / f"{case.model}-{case.label}", inputs)
        answers = {}
        for worker in self.workers:
            written = folder / f"{worker.engine.name.replace(' ', '-')}-{worker.threads}"
            try:
                worker.ask("inputs", folder=str(folder))
                worker.ask("write", folder=str(written))
            except WorkerError as error:
                if worker.engine in (workers.RLX, workers.ONNXRUNTIME):
                    raise
                self.out.note(f"{case.name}: no {worker.engine.name}: {error}")
                continue
            answers[worker] = [np.load(written / f"{i}.npy") for i in range(len(list(written.glob("*.npy"))))]
        return answers

    def judge(self, case: catalog.Case, answers: "dict[Worker, list[np.ndarray]]") -> "dict[Worker, float]":
        """How far each answer is from onnxruntime's. Those that may be timed are returned."""
        reference = next(answer for worker, answer in answers.items() if worker.engine is workers.ONNXRUNTIME)
        differences = judge(
            {worker: harness.largest_difference(answer, reference) for worker, answer in answers.items()},
            case,
            self.out,
        )
        ours = [answer for worker, answer in answers.items() if worker.engine is workers.RLX]
        for other in ours[1:]:
            if not all(np.array_equal(a.view(np.uint8), b.view(np.uint8)) for a, b in zip(ours[0], other)):
                self.out.error(f"{case.name}: rlx's bits differ with the number of threads")
        return differences

    def time(self, case: catalog.Case, timed: "list[Worker]", machine: Machine, cost: catalog.Cost) -> dict:
        """The times of all answers by worker, and the limits, by round."""
        times: "dict[Worker, list[float]]" = collections.defaultdict(list)
        limits: "dict[tuple[str, int], list[float]]" = collections.defaultdict(list)
        calls = {}
        for worker in timed:  # so many as take 60 ms, but three at least
            once = min(worker.ask("run", times=2)["ms"])
            calls[worker] = 1 if self.flags.quick else max(3, min(30, round(60 / once)))
            worker.rest()
        for number in range(self.flags.rounds):
            for threads in self.flags.threads:
                limits["peak", threads].append(machine.peak(threads))
                limits["read", threads].append(machine.order_bandwidth(cost.order, threads))
            turn = timed[number % len(timed) :] + timed[: number % len(timed)]
            for worker in turn if number % 2 == 0 else reversed(turn):
                times[worker] += worker.ask("run", times=1 + calls[worker])["ms"][1:]
                worker.rest()
        return {"times": times, "limits": {key: statistics.median(values) for key, values in limits.items()}}


def threads_text(count: int) -> str:
    return f"{count} thread{'s' if count > 1 else ''}"


def judge(differences: "dict[Worker, float]", case: catalog.Case, out: report.Report) -> "dict[Worker, float]":
    """Drops peers whose answer is off; rlx's would be an error. Engines that are no peers stay, as what they are."""
    good = {}
    for worker, difference in differences.items():
        who = f"{case.name}: {worker.engine.name}, {threads_text(worker.threads)}"
        if difference <= catalog.TOLERANCE or not worker.engine.counts:
            good[worker] = difference
        elif worker.engine is workers.RLX:
            out.error(f"{who}: the answer is off by {difference:.2e}")
        else:
            out.note(f"{who}: the answer is off by {difference:.2e}: not timed")
    return good


def rows_of(
    case: catalog.Case, differences: dict, timing: dict, cost: catalog.Cost, threads: "list[int]"
) -> "list[dict]":
    """A row for each number of threads."""
    rows = []
    for count in threads:
        engines = {
            worker.engine.name: {
                "ms": statistics.median(values),
                "fastest_ms": min(values),
                "answers": len(values),
                "difference": differences[worker],
                "counts": worker.engine.counts,
            }
            for worker, values in timing["times"].items()
            if worker.threads == count
        }
        row = {
            "model": case.model,
            "size": case.label,
            "threads": count,
            "fma_peak_gflops": timing["limits"]["peak", count],
            "read_gbs": timing["limits"]["read", count],
            "flops": cost.flops,
            "weight_bytes": cost.traffic,
            "weight_bytes_resident": cost.resident,
            "engines": engines,
        }
        row["limit_ms"] = cost.limit_ms(row["fma_peak_gflops"], row["read_gbs"])
        peers = {name: one["ms"] for name, one in engines.items() if one["counts"] and name != "rlx"}
        ours = engines["rlx"]["ms"]
        row["best_peer"] = min(peers, key=peers.get)
        row["ratio"] = ours / peers[row["best_peer"]]
        row["share_of_limit"] = row["limit_ms"] / ours
        rows.append(row)
    return rows


def print_rows(out: report.Report, rows: "list[dict]", engines: "list[Engine]", threads: int) -> None:
    mine = [row for row in rows if row["threads"] == threads]
    shown = [engine for engine in engines if engine.counts]
    heading = ["model and size", *(f"{engine.name}" for engine in shown), "best peer", "ratio", "% of limit"]
    extra = workers.OPENVINO_DEFAULT.name
    heading += [f"| {extra}"]
    lines = [heading]
    for row in mine:
        got = row["engines"]
        line = [f"{row['model']} {row['size']}"]
        line += [report.format_ms(got[engine.name]["ms"] if engine.name in got else None) for engine in shown]
        line += [row["best_peer"], f"{row['ratio']:.2f}", f"{100 * row['share_of_limit']:.0f}"]
        line += [
            f"| {report.format_ms(got[extra]['ms'])}, off by {got[extra]['difference']:.0e}" if extra in got else "| -"
        ]
        lines.append(line)
    out.table(f"{threads_text(threads)}, ms", lines)


def verdicts(out: report.Report, rows: "list[dict]", threads: "list[int]") -> None:
    out.say()
    for count in threads:
        mine = [row for row in rows if row["threads"] == count]
        what = threads_text(count)
        mean = report.geometric_mean([row["ratio"] for row in mine])
        worst = max(mine, key=lambda row: row["ratio"])
        out.document.setdefault("geometric_means", {})[str(count)] = mean
        out.require(
            mean <= GEOMETRIC_MEAN, f"{what}: geometric mean of the ratios at most {GEOMETRIC_MEAN:.2f}: {mean:.3f}"
        )
        out.require(
            worst["ratio"] <= WORST_ROW,
            f"{what}: no ratio above {WORST_ROW}: the largest is {worst['ratio']:.2f} "
            f"({worst['model']} {worst['size']})",
        )
    if 1 not in threads or 2 not in threads:
        return
    lines = [["model and size", "1 thread ms", "2 threads ms", "speed-up", "of the limit", "of the FMA loop", "share"]]
    shares = []
    for one in (row for row in rows if row["threads"] == 1):
        two = next(row for row in rows if (row["model"], row["size"], row["threads"]) == (one["model"], one["size"], 2))
        ours, theirs = one["engines"]["rlx"]["ms"], two["engines"]["rlx"]["ms"]
        loop = two["fma_peak_gflops"] / one["fma_peak_gflops"]
        share = ours / theirs / loop
        limit = one["limit_ms"] / two["limit_ms"]
        two["speed_up"], two["limit_speed_up"] = ours / theirs, limit
        two["fma_speed_up"], two["speed_up_share"] = loop, share
        if ours > SCALING_FROM_MS:
            shares.append((share, f"{one['model']} {one['size']}"))
        lines.append(
            [
                f"{one['model']} {one['size']}",
                report.format_ms(ours),
                report.format_ms(theirs),
                f"{ours / theirs:.2f}",
                f"{limit:.2f}",
                f"{loop:.2f}",
            ]
            + [f"{share:.2f}" + ("" if ours > SCALING_FROM_MS else f" (at most {SCALING_FROM_MS} ms: not counted)")]
        )
    out.table("rlx with two threads", lines)
    out.say()
    if shares:
        share, name = min(shares)
        out.require(
            share >= SCALING,
            f"speed-up of 2 threads at least {SCALING} of the FMA loop's: the smallest is {share:.2f} ({name})",
        )
    else:
        out.note(f"no row takes rlx more than {SCALING_FROM_MS} ms: the speed-up of 2 threads is not judged")


def draw(rows: "list[dict]", engines: "list[Engine]", file: pathlib.Path) -> None:
    """Each engine's time over rlx's."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as pyplot

    counts = sorted({row["threads"] for row in rows})
    figure, axes = pyplot.subplots(len(counts), 1, figsize=(10, 3.4 * len(counts)), squeeze=False, layout="constrained")
    others = [engine for engine in engines if engine is not workers.RLX]
    for axis, count in zip(axes[:, 0], counts):
        mine = [row for row in rows if row["threads"] == count]
        width = 0.8 / len(others)
        for i, engine in enumerate(others):
            heights = [
                row["engines"].get(engine.name, {}).get("ms", float("nan")) / row["engines"]["rlx"]["ms"]
                for row in mine
            ]
            places = [place + (i - (len(others) - 1) / 2) * width for place in range(len(mine))]
            label = engine.name if engine.counts else f"{engine.name} (8-bit activations, other answers)"
            axis.bar(
                places,
                heights,
                width,
                label=label,
                alpha=1 if engine.counts else 0.35,
                hatch=None if engine.counts else "//",
            )
        axis.axhline(1, color="black", linewidth=1)
        axis.set_xticks(range(len(mine)), [f"{row['model']}\n{row['size']}" for row in mine])
        axis.set_ylabel("time over rlx's")
        axis.set_title(f"{threads_text(count)} (above the line: rlx is faster)")
        axis.legend(fontsize="small")
    figure.savefig(file, dpi=120)
    pyplot.close(figure)


def main(arguments: "list[str] | None" = None) -> int:
    flags, cases = parse(arguments)
    out = report.Report("compare", flags)
    more = [workers.IREE] * flags.iree + [workers.JAX] * flags.jax
    engines = [workers.RLX, *workers.PEERS, *more, workers.OPENVINO_DEFAULT]
    rows: "list[dict]" = []
    with Machine(flags.build) as machine:
        out.machine(machine)
        out.document |= {"rounds": flags.rounds, "versions": {}, "rows": rows}
        with tempfile.TemporaryDirectory() as folder:
            for model in dict.fromkeys(case.model for case in cases):
                out.progress(f"{model}: loading it into every engine")
                contest = Contest(engines, model, flags, out)
                try:
                    for worker in contest.workers:
                        out.document["versions"][worker.engine.name] = worker.ready["version"]
                    for case in (case for case in cases if case.model == model):
                        out.progress(f"{case.name}: comparing the answers")
                        cost = catalog.cost(contest.path, case.inputs())
                        differences = contest.judge(case, contest.answers(case, pathlib.Path(folder)))
                        if out.wrong:
                            return out.finish()
                        out.progress(f"{case.name}: timing")
                        timing = contest.time(case, list(differences), machine, cost)
                        rows += rows_of(case, differences, timing, cost, flags.threads)
                finally:
                    contest.close()
    versions = out.document["versions"]
    out.say(
        f"{flags.rounds} rounds; onnxruntime {versions['onnxruntime']}, "
        f"openvino {versions.get('openvino dynamic', '-')}"
    )
    for count in flags.threads:
        print_rows(out, rows, engines, count)
    verdicts(out, rows, flags.threads)
    if flags.picture:
        draw(rows, engines, flags.picture)
    return out.finish()


if __name__ == "__main__":
    sys.exit(report.guarded("compare", main))
