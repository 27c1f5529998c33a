#!/usr/bin/env python3
"""usage: check.py BUILD-FOLDER   Runs every test of a finished build and counts.

Prints a line a group, the details of what failed, and "N passed, N failed, N skipped" last.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
NODE_CASES = pathlib.Path("/usr/share/libonnx-testdata/data/node")
# Of libonnx-testdata's node cases, those made of the ops that rlx has. The rest is skipped, each with its reason.
NODE_CASES_AT_LEAST = 280


class Tally:
    """Counts over all groups."""

    def __init__(self):
        self.passed = self.failed = self.skipped = 0

    def group(self, name: str, run) -> None:
        """`run()` gives (passed, failed, skipped, text about failures)."""
        start = time.monotonic()
        passed, failed, skipped, text = run()
        self.passed += passed
        self.failed += failed
        self.skipped += skipped
        seconds = time.monotonic() - start
        # Not the form of the last line, which must be the only one of its kind.
        print(f"      {name}: {passed} ok, {failed} bad, {skipped} not run; {seconds:.0f} s", flush=True)
        if text:
            print("\n".join("      | " + line for line in text.splitlines()), flush=True)


def run_lit(build: pathlib.Path):
    """lit's own tests and, through it, the GoogleTest programs."""
    lit = "/usr/lib/llvm-22/bin/lit"
    results = build / "logs" / "lit.json"
    results.unlink(missing_ok=True)
    done = subprocess.run(
        [lit, "-v", "--no-progress-bar", "--output", str(results), str(build / "test")],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    if not results.exists():
        return 0, 1, 0, (done.stdout + done.stderr)[-4000:]
    passed = failed = skipped = 0
    text = []
    for test in json.loads(results.read_text())["tests"]:
        code = test["code"]
        if code in ("PASS", "XFAIL", "FLAKYPASS"):
            passed += 1
        elif code in ("UNSUPPORTED", "SKIPPED", "EXCLUDED"):
            skipped += 1
        else:
            failed += 1
            text.append(f"{code} {test['name']}\n{test.get('output', '')[-3000:]}")
    if passed == 0 or (done.returncode != 0 and failed == 0):
        failed += 1
        text.append(f"lit ended with code {done.returncode}\n{(done.stdout + done.stderr)[-4000:]}")
    return passed, failed, skipped, "\n".join(text)


def run_python(build: pathlib.Path):
    """The unittest modules of test/Python."""
    os.environ["RLX_BUILD"] = str(build)
    sys.path[:0] = [str(ROOT / "utils"), str(ROOT / "test" / "Python")]
    suite = unittest.defaultTestLoader.discover(str(ROOT / "test" / "Python"), pattern="test_*.py")
    result = unittest.TestResult()
    suite.run(result)
    bad = result.failures + result.errors
    # A test may fail in several of its parts: it counts once.
    failed = len({id(getattr(test, "test_case", test)) for test, _ in bad}) + len(result.unexpectedSuccesses)
    skipped = len(result.skipped)
    passed = max(0, result.testsRun - failed - skipped)
    text = [f"{test}\n{trace}" for test, trace in bad]
    text += [f"skipped {test}: {reason}" for test, reason in result.skipped]
    if result.testsRun == 0:
        failed += 1
        text.append("no Python test was found")
    return passed, failed, skipped, "\n".join(text)


def run_onnx_cases(build: pathlib.Path, folders: "list[pathlib.Path]", at_least: int, *flags: str):
    """rlx-onnx-test over folders, of which at least so many must pass."""
    if not folders:
        return 0, 1, 0, "no test folders were found"
    done = subprocess.run(
        [str(build / "bin" / "rlx-onnx-test"), *flags, *map(str, folders)], capture_output=True, text=True
    )
    log = build / "logs" / ("onnx-" + folders[0].parent.name + "".join(flags) + ".log")
    log.write_text(done.stdout + done.stderr)
    lines = done.stdout.splitlines()
    counts = re.fullmatch(r"(\d+) passed, (\d+) failed, (\d+) skipped", lines[-1]) if lines else None
    if not counts:
        return 0, 1, 0, f"rlx-onnx-test ended with code {done.returncode}\n{(done.stdout + done.stderr)[-3000:]}"
    passed, failed, skipped = map(int, counts.groups())
    text = [line for line in lines if line.startswith("FAIL")]
    if passed < at_least:
        failed += 1
        text.append(f"{passed} passed, at least {at_least} must")
    if (done.returncode == 0) != (int(counts.group(2)) == 0):
        failed += 1
        text.append(f"rlx-onnx-test ended with code {done.returncode} after '{lines[-1]}'")
    text.append(f"reasons of skips: {log.relative_to(ROOT) if log.is_relative_to(ROOT) else log}")
    return passed, failed, skipped, "\n".join(text)


def main(build: pathlib.Path) -> int:
    tally = Tally()
    tally.group("lit and GoogleTest", lambda: run_lit(build))
    tally.group("Python", lambda: run_python(build))
    cases = sorted(path.parent for path in (ROOT / "test" / "cases").glob("*/model.onnx"))
    nodes = sorted(path.parent for path in NODE_CASES.glob("*/model.onnx"))
    for flags in ([], ["--dynamic"]):
        what = " ".join(["", *flags])
        tally.group("test/cases" + what, lambda: run_onnx_cases(build, cases, 1, *flags))
        tally.group("ONNX node cases" + what, lambda: run_onnx_cases(build, nodes, NODE_CASES_AT_LEAST, *flags))
    print(f"{tally.passed} passed, {tally.failed} failed, {tally.skipped} skipped", flush=True)
    return 0 if tally.failed == 0 else 1


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve()))
