#!/usr/bin/env python3
"""The onnxruntime side of bench/compare. Reads commands, one a line, and answers each with one line.

    make BATCH LENGTH FOLDER   makes the inputs of that size, keeps them, and writes NAME.npy files
    write FOLDER               runs once and writes the outputs as 0.npy, 1.npy, ...
    run                        runs once; answers the milliseconds it took
"""

import pathlib
import sys
import time

import numpy as np
import onnxruntime

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "utils"))
import harness  # noqa: E402


def main(model: str) -> None:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    arrays: "dict[str, np.ndarray]" = {}
    print("ready", onnxruntime.__version__, flush=True)
    for line in sys.stdin:
        command, *words = line.rstrip("\n").split(" ", 3)
        if command == "make":
            arrays = harness.minilm_inputs(int(words[0]), int(words[1]))
            harness.save(pathlib.Path(words[2]), arrays)
            print("ok", flush=True)
        elif command == "write":
            folder = pathlib.Path(words[0])
            folder.mkdir(parents=True)
            for i, array in enumerate(session.run(None, arrays)):
                np.save(folder / f"{i}.npy", array)
            print("ok", flush=True)
        elif command == "run":
            start = time.perf_counter()
            session.run(None, arrays)
            print((time.perf_counter() - start) * 1e3, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
