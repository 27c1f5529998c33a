"""A row's bits depend on nothing but the row: not on the batch, its neighbours, padding or the number of threads."""

import os
import pathlib
import tempfile
import unittest

import numpy as np

import harness
import models

TOOL = os.path.join(os.environ["RLX_BUILD"], "bin", "rlx-run")


def outputs(name: str, data: "list[dict[str, np.ndarray]]", *flags: str) -> "list[np.ndarray]":
    """The first output of each data set, all run in one process."""
    with tempfile.TemporaryDirectory() as folder:
        scratch = pathlib.Path(folder)
        folders = [harness.save(scratch / f"in{i}", arrays) for i, arrays in enumerate(data)]
        harness.rlx_run(TOOL, models.fetch(name), folders, scratch / "out", *flags)
        return [harness.outputs_of(scratch / "out", i, len(data), 1)[0] for i in range(len(data))]


def rows(arrays: "dict[str, np.ndarray]", begin: int, end: int) -> "dict[str, np.ndarray]":
    return {name: array[begin:end] for name, array in arrays.items()}


def padded(arrays: "dict[str, np.ndarray]", length: int) -> "dict[str, np.ndarray]":
    """The same rows with masked tokens behind them."""
    return {name: np.pad(array, ((0, 0), (0, length - array.shape[1]))) for name, array in arrays.items()}


class BitsTest(unittest.TestCase):
    def same(self, got: np.ndarray, wanted: np.ndarray, what: str):
        self.assertEqual(got.shape, wanted.shape, what)
        self.assertTrue(np.isfinite(wanted).all(), what)
        self.assertEqual(got.tobytes(), wanted.tobytes(), what)

    def test_minilm_rows_alone_among_others_and_padded(self):
        for length in (1, 5, 16, 33, 128):
            batch = harness.minilm_inputs(7, length)
            alone = [rows(batch, i, i + 1) for i in range(7)]
            together, few, longer, *single = outputs(
                "minilm", [batch, rows(batch, 2, 5), padded(batch, length + 21), *alone], "--threads", "1"
            )
            self.same(few, together[2:5], f"rows 2 to 5 of 7, {length} tokens")
            self.same(longer[:, :length], together, f"{length} tokens, padded by 21")
            for i, row in enumerate(single):
                self.same(row, together[i : i + 1], f"row {i} alone, {length} tokens")

    def test_threads(self):
        random = np.random.default_rng(3)
        rxnmap = [
            {
                "atoms": random.integers(1, 100, (1, length), dtype=np.int64),
                "neighbors": random.integers(0, 10, (1, length), dtype=np.int64),
                "distances": random.integers(0, 8, (1, length, length), dtype=np.int64),
                "roles": random.integers(1, 3, (1, length), dtype=np.int64),  # 0 is padding
            }
            for length in (1, 7, 64)
        ]
        mask = np.zeros((1, 1, 1, 64), np.float32)
        mask[..., 50:] = -10000
        maskseq = [{"input_ids": random.integers(0, 1000, (1, 64), dtype=np.int64), "attention_mask": mask}]
        minilm = [harness.minilm_inputs(*size) for size in ((1, 1), (1, 16), (1, 128), (8, 32), (3, 17))]
        for name, data in (("minilm", minilm), ("maskseq", maskseq), ("rxnmap", rxnmap)):
            serial = outputs(name, data, "--threads", "1")
            for threads in ("2", "5"):
                for i, (got, wanted) in enumerate(zip(outputs(name, data, "--threads", threads), serial)):
                    self.same(got, wanted, f"{name}, data set {i}, {threads} threads")


if __name__ == "__main__":
    unittest.main()
