"""Inputs for real models, driving rlx-run, comparing: shared by the quickstart, the tests and the benchmarks."""

import json
import pathlib
import subprocess

import numpy as np

VOCABULARY = 30522


def minilm_inputs(batch: int, length: int) -> "dict[str, np.ndarray]":
    """Random token ids. Every row but the first is padded at its end, each by another amount."""
    random = np.random.default_rng(1000 * batch + length)
    mask = np.ones((batch, length), np.int64)
    for row in range(1, batch):
        mask[row, max(1, length - row) :] = 0
    return {
        "input_ids": random.integers(0, VOCABULARY, (batch, length), dtype=np.int64) * mask,
        "attention_mask": mask,
        "token_type_ids": np.zeros((batch, length), np.int64),
    }


def maskseq_inputs() -> "dict[str, np.ndarray]":
    """Random token ids; the last 24 of 64 places are masked."""
    mask = np.zeros((1, 1, 1, 64), np.float32)
    mask[..., 40:] = -10000
    return {"input_ids": np.random.default_rng(7).integers(0, 1000, (1, 64), dtype=np.int64), "attention_mask": mask}


def rxnmap_inputs(length: int) -> "dict[str, np.ndarray]":
    """A random molecule's atoms."""
    random = np.random.default_rng(length)
    return {
        "atoms": random.integers(1, 100, (1, length), dtype=np.int64),
        "neighbors": random.integers(0, 10, (1, length), dtype=np.int64),
        "distances": random.integers(0, 8, (1, length, length), dtype=np.int64),
        "roles": random.integers(0, 3, (1, length), dtype=np.int64),
    }


def save(folder: pathlib.Path, arrays: "dict[str, np.ndarray]") -> pathlib.Path:
    """Writes arrays as NAME.npy files."""
    folder.mkdir(parents=True)
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    return folder


def rlx_run(tool: str, model: pathlib.Path, folders: "list[pathlib.Path]", output: pathlib.Path, *flags: str) -> dict:
    """Runs every data folder in one process; the document that rlx-run prints. Raises with its error line."""
    command = [str(tool), str(model), "--json", "--output-dir", str(output), *flags]
    for folder in folders:
        command += ["--data", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip() or f"rlx-run ended with code {done.returncode}")
    return json.loads(done.stdout)


def outputs_of(output: pathlib.Path, run: int, runs: int, count: int) -> "list[np.ndarray]":
    """The outputs that rlx-run wrote for one of its runs."""
    folder = output if runs == 1 else output / str(run)
    return [np.load(folder / f"{i}.npy") for i in range(count)]


def largest_difference(got: "list[np.ndarray]", wanted: "list[np.ndarray]") -> float:
    """Over all outputs; infinite when a type, a shape or the places of NaN differ."""
    largest = 0.0
    if len(got) != len(wanted):
        return float("inf")
    for a, b in zip(got, wanted):
        if a.shape != b.shape or a.dtype != b.dtype or not np.array_equal(np.isfinite(a), np.isfinite(b)):
            return float("inf")
        finite = np.isfinite(b)
        if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
            return float("inf")
        if finite.any():
            largest = max(largest, float(np.max(np.abs(a[finite].astype(np.float64) - b[finite]))))
    return largest
