#!/usr/bin/env python3
"""Runs every benchmark, and puts what they print into docs/Performance.md."""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "common"))
import report  # noqa: E402

FOOTER = """\
What each prints is kept in build/bench/NAME.txt, its figures in build/bench/NAME.json, the picture of bench/compare in
build/bench/compare.png. With --write the blocks of docs/Performance.md are replaced, and the picture goes beside it;
--write --keep takes what earlier runs left there. It takes about half an hour on an otherwise idle machine.

Example: bench/all --write"""

NAMES = (
    *("machine", "compare", "gemm", "matmul", "attention", "rows", "math"),
    *("new-binding", "compile", "dispatch", "lookup", "memory", "soak"),
)
PAGE = report.ROOT / "docs" / "Performance.md"


def parse(arguments: "list[str] | None" = None) -> argparse.Namespace:
    parser = report.parser("all", __doc__, FOOTER)
    parser.add_argument("--only", type=report.words, default=list(NAMES), metavar="A,B", help=f"of {', '.join(NAMES)}")
    parser.add_argument("--write", action="store_true", help="replace the blocks of docs/Performance.md")
    parser.add_argument("--keep", action="store_true", help="run nothing: take what earlier runs printed")
    flags = parser.parse_args(arguments)
    for name in flags.only:
        if name not in NAMES:
            parser.error(f"--only: no '{name}'")
    if flags.write and flags.quick:
        parser.error("--write: figures of --quick mean nothing")
    return flags


def replaced(page: str, name: str, text: str, picture: str = "") -> str:
    """The page with another text in the block of a benchmark, and under it the picture of that name, if there is one.
    Raises ValueError when it has no such block."""
    pattern = re.compile(rf"(<!-- bench/{re.escape(name)} -->\n).*?(<!-- end -->\n)", re.S)
    block = f"```\n$ bench/{name}\n{text.rstrip()}\n```\n"
    if picture:
        block += f"\n![bench/{name}]({picture})\n"
    page, count = pattern.subn(lambda match: match[1] + block + match[2], page)
    if count != 1:
        raise ValueError(f"docs/Performance.md has {count} blocks of bench/{name}")
    return page


def run(name: str, folder: pathlib.Path, flags: argparse.Namespace) -> int:
    """Runs one, shows what it prints, keeps it when it is whole; its exit code."""
    command = [str(report.ROOT / "bench" / name), "--json", str(folder / f"{name}.json")]
    command += ["--quick"] * flags.quick + ["--check"] * flags.check
    if name == "compare":
        command += ["--picture", str(folder / "compare.png")]
    environment = os.environ | {"RLX_BENCH_BUILD": str(flags.build.resolve())}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as child:
        lines = []
        for line in child.stdout:
            print(line, end="", flush=True)
            lines.append(line)
    if child.returncode <= 1:
        (folder / f"{name}.txt").write_text("".join(lines))
    return child.returncode


def main(arguments: "list[str] | None" = None) -> int:
    flags = parse(arguments)
    folder = flags.build / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    worst = 0
    for name in () if flags.keep else flags.only:
        print(f"\n=== bench/{name}", flush=True)
        start = time.monotonic()
        worst = max(worst, run(name, folder, flags))
        print(f"bench/all: bench/{name} took {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
    if flags.write:
        page = PAGE.read_text()
        for name in flags.only:
            printed = folder / f"{name}.txt"
            if printed.exists():
                picture = folder / f"{name}.png"
                if picture.exists():
                    shutil.copyfile(picture, PAGE.parent / picture.name)
                page = replaced(page, name, printed.read_text(), picture.name if picture.exists() else "")
            else:
                print(f"bench/all: {printed} is not there: its block stays as it is", file=sys.stderr)
        PAGE.write_text(page)
    return worst


if __name__ == "__main__":
    sys.exit(main())
