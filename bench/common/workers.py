"""Engines in processes of their own, asked one line at a time."""

import dataclasses
import json
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PEER = pathlib.Path(__file__).resolve().parent / "peer.py"


class WorkerError(Exception):
    """One line: what an engine said instead of an answer."""


@dataclasses.dataclass(frozen=True)
class Engine:
    """How a table calls it, how peer.py does ("" for rlx), and whether it counts as a peer."""

    name: str
    peer: str
    counts: bool = True
    about: str = ""


RLX = Engine("rlx", "")
ONNXRUNTIME = Engine("onnxruntime", "onnxruntime")
OPENVINO_DYNAMIC = Engine("openvino dynamic", "openvino-dynamic", about="one compiled model for all sizes")
OPENVINO_STATIC = Engine("openvino static", "openvino-static", about="reshaped and compiled for each size")
OPENVINO_DEFAULT = Engine("openvino default", "openvino-default", False, "activations in 8 bits: other answers")
IREE = Engine("iree", "iree", about="compiled for each size")
JAX = Engine("jax", "jax", about="traced and compiled for each size")
PEERS = (ONNXRUNTIME, OPENVINO_DYNAMIC, OPENVINO_STATIC)


class Process:
    """A program that answers one line to each line."""

    def __init__(self, command: "list[str]", name: str):
        self.name = name
        self.started = time.perf_counter()
        self.child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def line(self, request: str) -> str:
        try:
            self.child.stdin.write(request + "\n")
            self.child.stdin.flush()
        except BrokenPipeError:
            pass  # its end is reported by what it wrote before
        return self.read()

    def read(self) -> str:
        line = self.child.stdout.readline()
        if not line:
            words = self.child.stderr.read().strip().splitlines()
            raise WorkerError(f"{self.name} ended: {words[-1] if words else f'code {self.child.wait()}'}")
        return line.rstrip("\n")

    def close(self) -> None:
        for stream in (self.child.stdin, self.child.stdout, self.child.stderr):
            try:
                stream.close()
            except BrokenPipeError:
                pass
        try:
            self.child.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()

    def is_busy(self) -> bool:
        """A thread of it is running: waiting for work with open eyes, most likely."""
        for task in pathlib.Path(f"/proc/{self.child.pid}/task").glob("*/stat"):
            try:
                if task.read_text().rsplit(")", 1)[1].split()[0] == "R":
                    return True
            except OSError:
                pass  # that thread has just ended
        return False

    def rest(self, patience: float = 5.0) -> None:
        """Waits until no thread of it has run for a few milliseconds. Some engines spin after an answer, and would take
        the core from whoever is next."""
        end = time.perf_counter() + patience
        quiet = 0
        while quiet < 3:
            quiet = 0 if self.is_busy() else quiet + 1
            if time.perf_counter() > end:
                raise WorkerError(f"{self.name} still runs {patience:g} s after its last answer")
            time.sleep(0.002)


class Worker(Process):
    """An engine with a model loaded."""

    def __init__(
        self,
        engine: Engine,
        model: pathlib.Path,
        threads: int,
        build: pathlib.Path,
        first: "pathlib.Path | None" = None,
    ):
        if engine.peer:
            command = [sys.executable, str(PEER), engine.peer]
        else:
            command = [str(build / "bin" / "rlx-bench-worker")]
        command += ["--model", str(model), "--threads", str(threads)]
        if first:
            command += ["--first", str(first)]
        super().__init__(command, engine.name)
        self.engine = engine
        self.threads = threads
        try:
            self.ready = self._parse(self.read())
        except WorkerError:
            self.close()
            raise
        self.ready_seconds = time.perf_counter() - self.started

    def ask(self, do: str, **more) -> dict:
        return self._parse(self.line(json.dumps({"do": do, **more})))

    def _parse(self, line: str) -> dict:
        try:
            answer = json.loads(line)
        except json.JSONDecodeError:
            raise WorkerError(f"{self.name} says {line!r}") from None
        if "error" in answer:
            raise WorkerError(f"{self.name}: {answer['error']}")
        return answer


class Machine(Process):
    """The limits of the machine, measured whenever they are asked for."""

    def __init__(self, build: pathlib.Path):
        super().__init__([str(build / "bin" / "rlx-bench-machine"), "--serve"], "rlx-bench-machine")

    def __enter__(self) -> "Machine":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def cpu(self) -> str:
        return self.line("name")

    def peak(self, threads: int) -> float:
        """GFLOP/s of multiply-adds in registers."""
        return self._number(f"peak {threads}")

    def read_bandwidth(self, size: float, threads: int) -> float:
        """GB/s of reading so many bytes again and again."""
        return self._number(f"read {int(size)} {threads}")

    def order_bandwidth(self, order: "list[tuple[int, int]]", threads: int) -> float:
        """GB/s of reading pieces, an offset and bytes each, one after the other, and all of that again and again."""
        return self._number(" ".join([f"order {threads}", *(f"{offset} {size}" for offset, size in order)]))

    def _number(self, request: str) -> float:
        answer = self.line(request)
        try:
            return float(answer)
        except ValueError:
            raise WorkerError(f"rlx-bench-machine says {answer!r} to {request!r}") from None
