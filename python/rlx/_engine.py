"""Engines, and models that were read."""

import typing

from . import _rlx
from ._atexit import watch
from ._check import Path, count, encoded, number
from ._errors import InvalidArgument
from ._types import DimInfo, TensorInfo


class Engine(_rlx.Engine):
    """What models share: threads, kernels, memory, and the compiler. Thread safe.

    One engine for all models of a process is the usual way; load() makes one of its own where none is given.
    """

    def __init__(
        self,
        *,
        threads: "int | None" = None,
        cache_entries: "int | None" = None,
        cache_bytes: "int | None" = None,
        background_threads: int = 1,
        idle_bytes: "int | None" = None,
        idle_seconds: "float | None" = None,
        compiler: 'typing.Literal["process", "worker"]' = "process",
        worker_program: "Path | None" = None,
        worker_timeout: "float | None" = None,
        worker_memory_bytes: "int | None" = None,
        log: "typing.Callable[[str], object] | None" = None,
    ):
        """
        threads: of a run and of a compilation, the calling one among them; None: one a physical core.
        cache_entries: specializations an executable holds unless it says otherwise (64).
        cache_bytes: bytes of specializations, templates and code that it holds (256 MiB).
        background_threads: that make specializations in the background; 1 to 64.
        idle_bytes, idle_seconds: memory of runs that is kept for later ones (1 GiB), and how long (10 s).
        compiler: where compiling happens: in this "process", or in a "worker" of its own, whose crash is an error here.
        worker_program, worker_timeout (seconds; 120), worker_memory_bytes (no limit): of a worker.
        log: called with one line for each miss, from the thread that missed. What it raises is printed and ignored.
        """
        if compiler not in ("process", "worker"):
            raise InvalidArgument(f"compiler: 'process' or 'worker' is wanted, not {compiler!r}")
        if log is not None and not callable(log):
            raise InvalidArgument("log: something to call is wanted")
        super().__init__(
            {
                "threads": count("threads", threads, 1, 256),
                "cache_entries": count("cache_entries", cache_entries, 1),
                "cache_bytes": count("cache_bytes", cache_bytes, 1),
                "background_threads": count("background_threads", background_threads, 1, 64),
                "idle_bytes": count("idle_bytes", idle_bytes, 1),
                "idle_ms": number("idle_seconds", idle_seconds, 1000),
                "worker": compiler == "worker",
                "worker_program": None if worker_program is None else encoded("worker_program", worker_program),
                "worker_timeout_ms": number("worker_timeout", worker_timeout, 1000),
                "worker_memory_bytes": count("worker_memory_bytes", worker_memory_bytes, 1),
                "log": log,
            }
        )
        watch(self)

    @property
    def threads(self) -> int:
        """Threads that share the work of a run, the calling one among them."""
        return self.info()["threads"]

    @property
    def kernels(self) -> int:
        """Kernels held."""
        return self.info()["kernels"]

    @property
    def code_bytes(self) -> int:
        """Bytes of their code."""
        return self.info()["code_bytes"]

    def trim(self) -> None:
        """Gives back memory that no run uses. It happens by itself for what was idle for a while."""
        super().trim()

    def close(self) -> None:
        """Lets go of it and of its log function; executables made with it stay usable."""
        super().close()

    def __enter__(self) -> "Engine":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<rlx.Engine at {id(self):#x}>"


class Model(_rlx.Model):
    """A graph that was read; it compiles nothing. Immutable; may be shared by executables."""

    def __init__(
        self,
        path: Path,
        *,
        engine: Engine,
        weights_file: "Path | None" = None,
        dynamic_inputs: bool = False,
    ):
        """
        path: an .onnx or .mlir file.
        weights_file: of an .mlir file, where its weights are; None: beside it.
        dynamic_inputs: of an .onnx file, every dim of every input becomes a name, whatever the file says.
        """
        weights = None if weights_file is None else encoded("weights_file", weights_file)
        super().__init__(engine, encoded("path", path), weights, bool(dynamic_inputs))
        info = super().info()
        #: What the file made rlx wonder about.
        self.warnings: "tuple[str, ...]" = tuple(info["warnings"])
        self.name: str = info["name"]
        self.inputs: "tuple[TensorInfo, ...]" = tuple(TensorInfo(*each) for each in info["inputs"])
        self.outputs: "tuple[TensorInfo, ...]" = tuple(TensorInfo(*each) for each in info["outputs"])
        #: Slots whose values the caller sets.
        self.params: "tuple[TensorInfo, ...]" = tuple(TensorInfo(*each) for each in info["params"])
        self.dims: "tuple[DimInfo, ...]" = tuple(DimInfo(*each) for each in info["dims"])

    def __repr__(self) -> str:
        def listed(tensors: "tuple[TensorInfo, ...]") -> str:
            return ", ".join(f"{t.name}: {t.type}[{', '.join(map(str, t.shape))}]" for t in tensors)

        return f"<rlx.Model {self.name!r} ({listed(self.inputs)}) -> ({listed(self.outputs)})>"
