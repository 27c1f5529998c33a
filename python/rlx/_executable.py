"""Executables: models made callable."""

import dataclasses
import itertools
import math
import typing

import numpy as np

from . import _rlx
from ._atexit import watch
from ._check import Path, count, integer
from ._engine import Engine, Model
from ._errors import InvalidArgument
from ._types import BindingInfo, Forecast, Hint, MissInfo, Progress, Rng

#: What may be an input: an array of numpy or of anything that speaks DLPack, or plain Python values.
ArrayLike = typing.Any
Inputs = typing.Union["typing.Mapping[str, ArrayLike]", "typing.Sequence[ArrayLike]", ArrayLike]
Sizes = typing.Union[int, "typing.Iterable[int]"]
Binding = typing.Mapping[str, int]

_MOST = 2**63 - 1
#: Combinations of one prepare(): no cache holds more that is of use.
_MOST_PREPARED = 2**16


class Params:
    """The params of an executable: params["w"] = array sets one, which runs that start later see.

    Values can be set at any time, and go in only: the runtime keeps them in forms of its own. An f16 or bf16 param also
    takes f32 values, rounded to nearest even.
    """

    def __init__(self, executable: "Executable"):
        self._executable = executable

    def __setitem__(self, name: str, value: ArrayLike) -> None:
        self._executable.set_param(name, value)

    def update(self, values: "typing.Mapping[str, ArrayLike]") -> None:
        """Sets several."""
        for name, value in values.items():
            self[name] = value

    def finalize(self) -> None:
        """Ends a round of setting: packs what specializations want packed, so that no run has to. A later set reopens
        it. Raises InvalidArgument when params are not set."""
        self._executable.finalize_params()

    def __contains__(self, name: object) -> bool:
        return any(param.name == name for param in self._executable.model.params)

    def __iter__(self) -> "typing.Iterator[str]":
        return iter([param.name for param in self._executable.model.params])

    def __len__(self) -> int:
        return len(self._executable.model.params)

    def keys(self) -> "list[str]":
        """Their names."""
        return list(self)

    def __repr__(self) -> str:
        return f"<rlx params {self.keys()}>"


class Preparation(_rlx.Preparation):
    """Specializations being made in the background. Dropping it cancels nothing."""

    def __init__(self, progress: "typing.Callable[[Progress], object] | None" = None):
        super().__init__(None if progress is None else lambda counts: progress(Progress(*counts)))
        watch(self)

    @property
    def progress(self) -> Progress:  # type: ignore[override]
        """How far it is."""
        return Progress(*super().progress())

    @property
    def done(self) -> bool:
        """Whether there is nothing left to make."""
        progress = self.progress
        return progress.done == progress.total

    def cancel(self) -> None:
        """Drops what has not begun; what has goes on to its end."""
        super().cancel()

    def wait(self, timeout: "float | None" = None) -> None:
        """Until all are made, failed or dropped. Raises NotReady when `timeout` seconds are over, else the error of the
        first binding, in order, that has one (Cancelled for a dropped one)."""
        if timeout is not None and not timeout >= 0:
            raise InvalidArgument(f"timeout: seconds, 0 or more, are wanted, not {timeout!r}")
        super().wait(timeout)

    def close(self) -> None:
        """Cancels, and lets go of it."""
        super().close()


class BoundRun(_rlx.BoundRun):
    """Arrays that were checked once: calling it reads the inputs where they lie and writes the outputs where they lie.

    The cheapest way to run. The arrays are kept; their contents may change between calls, their memory must not (no
    numpy resize). Not to be called from two threads at once.
    """

    def __init__(
        self, executable: "Executable", inputs: Inputs, outputs: Inputs, binding: "Binding | None", step: "int | None"
    ):
        super().__init__(executable, inputs, outputs, binding, step)
        self.executable = executable
        self.inputs = inputs
        self.outputs = outputs


class Executable(_rlx.Executable):
    """A model made callable: finds the sizes of its named dims from the inputs of each run, and keeps a specialization
    for each binding (sizes of all dims) that it has met.

    exe(x=..., y=...), or exe(...) in the model's order, computes all outputs: an array where the model has one, else an
    Outputs. run(), run_into() and bind_io() do the same with choices.

    Thread safe: runs go on in parallel, without the GIL, and two that miss on one binding compile once. Not to be
    used in a child after os.fork(), where it raises: load it there, or start processes by spawn or forkserver.
    """

    def __init__(
        self,
        model: Model,
        *,
        engine: Engine,
        hints: "typing.Mapping[str, Hint | typing.Mapping[str, typing.Any]] | None" = None,
        prepare_likely: bool = False,
        seed: int = 42,
        cache_entries: "int | None" = None,
        cache_bytes: "int | None" = None,
    ):
        """As load(), which reads the model too."""
        super().__init__(
            engine,
            model,
            {
                "seed": integer("seed", seed, 0, 2**64 - 1),
                "step": 0,
                "cache_entries": count("cache_entries", cache_entries, 1),
                "cache_bytes": count("cache_bytes", cache_bytes, 1),
                "hints": [_hint(dim, hint) for dim, hint in (hints or {}).items()],
                "prepare_likely": bool(prepare_likely),
            },
        )
        self._finish(engine, model)

    def _finish(self, engine: Engine, model: Model) -> None:
        self.engine = engine
        self.model = model
        watch(self)

    @property
    def params(self) -> Params:
        """Its params: exe.params["w"] = array."""
        return Params(self)  # made anew, as one that is kept would keep the executable in turn

    @property
    def rng(self) -> Rng:
        """Seed and step of the random ops. Set it to an Rng, or to a seed."""
        return Rng(*super().get_rng())

    @rng.setter
    def rng(self, value: "Rng | int") -> None:
        rng = value if isinstance(value, Rng) else Rng(seed=value)
        super().set_rng(integer("seed", rng.seed, 0, 2**64 - 1), integer("step", rng.step, 0, 2**32 - 1))

    def bind_io(
        self, inputs: Inputs, outputs: Inputs, *, binding: "Binding | None" = None, step: "int | None" = None
    ) -> BoundRun:
        """Looks at the arrays of run_into() once, for a run that is called again and again."""
        return BoundRun(self, inputs, outputs, binding, step)

    @typing.overload
    def prepare(
        self,
        bindings: "Binding | typing.Iterable[Binding] | None" = None,
        *,
        background: typing.Literal[False] = False,
        progress: None = None,
        **sizes: Sizes,
    ) -> None: ...
    @typing.overload
    def prepare(
        self,
        bindings: "Binding | typing.Iterable[Binding] | None" = None,
        *,
        background: typing.Literal[True],
        progress: "typing.Callable[[Progress], object] | None" = None,
        **sizes: Sizes,
    ) -> "Preparation": ...
    def prepare(
        self,
        bindings: "Binding | typing.Iterable[Binding] | None" = None,
        *,
        background: bool = False,
        progress: "typing.Callable[[Progress], object] | None" = None,
        **sizes: Sizes,
    ) -> "Preparation | None":
        """Makes specializations ahead of their first run: of all combinations of sizes, prepare(batch=[1, 8], seq=128),
        or of `bindings`, a dict or a list of dicts, to which the sizes are added. Every dim must be given.

        At most 65,536 are taken at once. In the foreground it ends at the first that fails, with its error, and Ctrl-C
        is heard after each. With background=True it returns a Preparation at once, and `progress`, when given, is
        called with a Progress after each, from another thread.
        """
        if progress is not None and not background:
            raise InvalidArgument("progress: only with background=True")
        given: "list[Binding]"
        if bindings is None or isinstance(bindings, typing.Mapping):
            given = [bindings or {}]
        else:
            given = _few(bindings)
        lists = {dim: [size] if isinstance(size, (int, np.integer)) else _few(size) for dim, size in sizes.items()}
        if len(given) * math.prod(map(len, lists.values())) > _MOST_PREPARED:
            total = len(given) * math.prod(_length(sizes[dim], few) for dim, few in lists.items())
            raise InvalidArgument(
                f"prepare: {total} combinations of sizes, if not more; at most {_MOST_PREPARED} are taken at once"
            )
        known = [dim.name for dim in self.model.dims]
        for name in {name for binding in given for name in binding} | set(sizes):
            if name not in known:
                raise InvalidArgument(f"no dim {name!r}; there is {', '.join(map(repr, known)) or 'none'}")
        wanted = (
            {**binding, **dict(zip(lists, chosen))}
            for binding in given
            for chosen in itertools.product(*lists.values())
        )
        if not background:
            for binding in wanted:
                super().prepare_one(binding)
            return None
        preparation = Preparation(progress)
        super().prepare_in_background(list(wanted), preparation)
        return preparation

    @property
    def likely(self) -> "Preparation | None":
        """The preparation of likely sizes; None without `prepare_likely`."""
        preparation = Preparation()
        return preparation if super().get_likely(preparation) else None

    def solve(self, inputs: Inputs, binding: "Binding | None" = None) -> "dict[str, int]":
        """The binding that a run with these inputs would have."""
        return super().solve_sizes(inputs, dict(binding or {}))

    def stats(self) -> "dict[str, typing.Any]":
        """Counts since the executable was made, its clones' among them: hits, misses, evictions, failures, entries held
        now, templates and kernels, bytes of code, milliseconds by phase; and the memory of the engine's runs."""
        return super().get_stats()

    def bindings(self) -> "list[BindingInfo]":
        """The specializations held, most recently used first."""
        return [BindingInfo(**each) for each in super().get_bindings()]

    def explain(self) -> "MissInfo | None":
        """Why the latest miss missed; None before the first. str() of it is for people."""
        miss = super().get_explain()
        return None if miss is None else MissInfo(**miss)

    def forecast(self, binding: "Binding | None" = None, **sizes: int) -> Forecast:
        """What a run at a binding, of every dim, would meet now: forecast(batch=8, seq=128). Changes nothing."""
        return Forecast(**super().get_forecast({**(binding or {}), **sizes}))

    def clone(self) -> "Executable":
        """Another one that shares graph, weights, kernels, cache and statistics; owns params (as they are now) and rng.
        Costs no compile."""
        clone = _rlx.Executable.__new__(type(self))
        _rlx.Executable.__init__(clone, self)
        clone._finish(self.engine, self.model)
        return clone

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return super().is_closed()

    def close(self) -> None:
        """Lets go of its memory as soon as no run uses it. Later calls raise InvalidArgument."""
        super().close()

    def __enter__(self) -> "Executable":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<rlx.Executable of {self.model!r}>"


_T = typing.TypeVar("_T")


def _few(values: "typing.Iterable[_T]") -> "list[_T]":
    """As a list, no longer than is needed to see that there are too many."""
    return list(itertools.islice(values, _MOST_PREPARED + 1))


def _length(values: object, few: "list[typing.Any]") -> int:
    """Of what `few` is the beginning of, as far as it tells."""
    try:
        return max(len(few), len(values))  # type: ignore[arg-type]
    except (TypeError, OverflowError):
        return len(few)


def _hint(dim: str, hint: "Hint | typing.Mapping[str, typing.Any]") -> "tuple[typing.Any, ...]":
    """For the extension, with the C API's defaults."""
    if not isinstance(hint, Hint):
        known = {field.name for field in dataclasses.fields(Hint)}
        unknown = set(hint) - known
        if unknown:
            raise InvalidArgument(f"hint of dim '{dim}': no {sorted(unknown)}; there is {sorted(known)}")
        hint = Hint(**hint)
    whose = f"hint of dim '{dim}'"
    return (
        dim,
        integer(f"{whose}, min", hint.min, 0, _MOST),
        count(f"{whose}, max", hint.max, 1, _MOST),
        integer(f"{whose}, multiple", hint.multiple, 1, _MOST),
        [integer(f"{whose}, likely", size, 0, _MOST) for size in hint.likely],
        [tuple(integer(f"{whose}, buckets", size, 0, _MOST) for size in pair) for pair in hint.buckets],
    )


def load(
    path: Path,
    *,
    engine: "Engine | None" = None,
    threads: "int | None" = None,
    dynamic_inputs: bool = False,
    weights_file: "Path | None" = None,
    hints: "typing.Mapping[str, Hint | typing.Mapping[str, typing.Any]] | None" = None,
    prepare_likely: bool = False,
    seed: int = 42,
    cache_entries: "int | None" = None,
    cache_bytes: "int | None" = None,
) -> Executable:
    """Reads an .onnx or .mlir model and makes it callable. Nothing compiles before the first run or prepare().

    engine: what it shares with other models; None: one of its own, with `threads` threads.
    dynamic_inputs: .onnx: every dim of every input becomes a name, whatever the file says.
    weights_file: .mlir: where its weights are; None: beside it.
    hints: what is known of dims, by name: a Hint, or a dict of its fields.
    prepare_likely: makes specializations of all combinations of likely sizes in the background; see Executable.likely.
    seed: of the random ops.
    cache_entries, cache_bytes: bounds of the specializations held; None: the engine's.
    """
    if engine is None:
        engine = Engine(threads=threads)
    elif threads is not None:
        raise InvalidArgument("threads: the engine that was given has its own number")
    model = Model(path, engine=engine, weights_file=weights_file, dynamic_inputs=dynamic_inputs)
    return Executable(
        model,
        engine=engine,
        hints=hints,
        prepare_likely=prepare_likely,
        seed=seed,
        cache_entries=cache_entries,
        cache_bytes=cache_bytes,
    )
