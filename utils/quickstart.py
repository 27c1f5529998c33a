#!/usr/bin/env python3
"""usage: quickstart.py RLX-RUN   Runs MiniLM at several sizes in one process and compares with onnxruntime."""

import pathlib
import sys
import tempfile

import onnxruntime

import harness
import models

SIZES = [(1, 7), (1, 128), (8, 32), (3, 17), (1, 7)]
TOLERANCE = 1e-4


def main(tool: str) -> int:
    model = models.fetch("minilm")
    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    with tempfile.TemporaryDirectory() as name:
        scratch = pathlib.Path(name)
        inputs = [harness.minilm_inputs(batch, length) for batch, length in SIZES]
        folders = [harness.save(scratch / f"in{i}", arrays) for i, arrays in enumerate(inputs)]
        try:
            document = harness.rlx_run(tool, model, folders, scratch / "out")
        except RuntimeError as error:
            print(error, file=sys.stderr)
            return 1
        rows = [("batch", "sequence", "largest difference", "compile ms", "run ms", "specialization", "kernels compiled")]
        good = True
        for i, (arrays, run) in enumerate(zip(inputs, document["runs"])):
            wanted = session.run(None, arrays)
            difference = harness.largest_difference(
                harness.outputs_of(scratch / "out", i, len(SIZES), len(wanted)), wanted
            )
            good = good and difference <= TOLERANCE
            rows.append(
                (
                    str(SIZES[i][0]),
                    str(SIZES[i][1]),
                    f"{difference:.2e}",
                    f"{run['compile_ms']:.1f}",
                    f"{run['run_ms'][0]:.2f}",
                    run["specialization"],
                    str(run["kernels_compiled"]),
                )
            )
    widths = [max(len(row[c]) for row in rows) for c in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.rjust(width) for cell, width in zip(row, widths)))
    print()
    print(f"load and prepare: {document['load_ms']:.0f} ms, once")
    if not good:
        print(f"quickstart: error: a difference from onnxruntime is above {TOLERANCE:g}", file=sys.stderr)
        return 1
    print(f"Every size agrees with onnxruntime within {TOLERANCE:g}.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
