"""Tables for people, verdicts, one JSON file: what the benchmarks written in Python share."""

import argparse
import json
import math
import pathlib
import statistics
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def parser(name: str, about: str, footer: str = "") -> argparse.ArgumentParser:
    """The flags that all have. Wrong flags end with exit code 2."""
    result = argparse.ArgumentParser(
        prog=f"bench/{name}",
        description=about,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=(footer + "\n\n" if footer else "")
        + "Exit code: 0; 1 when an answer of rlx is wrong, or with --check when a requirement is missed; 2 when\n"
        "flags are wrong or something is not there. Run it on an otherwise idle machine.",
    )
    result.add_argument(
        "--quick", action="store_true", help="few rounds, small sizes: shows that it works, times nothing well"
    )
    result.add_argument("--check", action="store_true", help="exit code 1 when a requirement is missed")
    result.add_argument("--json", metavar="FILE", type=pathlib.Path, help="write all figures to this file")
    result.add_argument("--build", metavar="FOLDER", type=pathlib.Path, default=ROOT / "build", help="default: build/")
    return result


def numbers(text: str) -> "list[int]":
    """For argparse: "1,2"."""
    values = [int(part) for part in text.split(",")]
    if not values or min(values) < 1:
        raise ValueError
    return values


def words(text: str) -> "list[str]":
    """For argparse: "a,b"."""
    return [part for part in text.split(",") if part]


def geometric_mean(values: "list[float]") -> float:
    return math.exp(statistics.fmean(math.log(value) for value in values))


def format_ms(ms: "float | None") -> str:
    if ms is None:
        return "-"
    return f"{ms:.3f}" if ms < 10 else f"{ms:.1f}"


class Report:
    """What a run found: printed as it comes, and kept for the JSON file."""

    def __init__(self, name: str, flags: argparse.Namespace):
        self.flags = flags
        self.name = name
        self.document: dict = {"bench": name, "quick": flags.quick}
        self.wrong = False
        self.missed = False

    def progress(self, what: str) -> None:
        print(f"bench/{self.name}: {what}", file=sys.stderr, flush=True)

    def say(self, line: str = "") -> None:
        print(line, flush=True)

    def note(self, line: str) -> None:
        """A line that belongs to the figures."""
        self.say(line)
        self.document.setdefault("notes", []).append(line)

    def machine(self, machine, size: int = 256 << 20) -> None:
        """Measures and prints the limits of the machine."""
        samples = 2 if self.flags.quick else 7
        self.document["cpu"] = machine.cpu()
        self.say(self.document["cpu"])
        for threads in (1, 2):
            peak = statistics.median(machine.peak(threads) for _ in range(samples))
            read = statistics.median(machine.read_bandwidth(size, threads) for _ in range(samples))
            self.document.setdefault("machine", []).append(
                {"threads": threads, "fma_peak_gflops": peak, "read_gbs": read}
            )
            plural = "s" if threads > 1 else ""
            self.say(f"{threads} thread{plural}: FMA peak {peak:.1f} GF/s; read {read:.1f} GB/s of {size >> 20} MiB")

    def table(self, title: str, rows: "list[list[str]]") -> None:
        """The first row is the heading; the first column stands to the left."""
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        self.say(f"\n{title}")
        for row in rows:
            cells = [row[0].ljust(widths[0])] + [cell.rjust(width) for cell, width in zip(row[1:], widths[1:])]
            self.say("  ".join(cells).rstrip())

    def require(self, met: bool, requirement: str) -> None:
        self.say(f"{'met:   ' if met else 'MISSED:'} {requirement}")
        self.document.setdefault("requirements", []).append({"met": bool(met), "what": requirement})
        self.missed |= not met

    def error(self, line: str) -> None:
        """An answer that is wrong."""
        print(f"bench/{self.name}: error: {line}", file=sys.stderr, flush=True)
        self.document.setdefault("errors", []).append(line)
        self.wrong = True

    def finish(self) -> int:
        if self.flags.json:
            self.flags.json.write_text(json.dumps(self.document, indent=2) + "\n")
        return 1 if self.wrong or (self.flags.check and self.missed) else 0


def guarded(name: str, body) -> int:
    """Runs `body`, which gives the exit code; what is not there is one line."""
    import models  # the caller imported catalog, which knows where it is
    from workers import WorkerError

    try:
        return body()
    except (WorkerError, models.FetchError, OSError) as error:
        print(f"bench/{name}: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
