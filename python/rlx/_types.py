"""What the package's calls take and give that is neither an array nor a handle."""

import dataclasses
import typing

#: A dim as a model declares it: a number, or an expression over names such as "batch" or "2*S".
DimLike = typing.Union[int, str]


@dataclasses.dataclass(frozen=True)
class TensorInfo:
    """An input, output or param of a model."""

    name: str
    #: As rlx spells it: i1, i8 to i64, u8 to u64, f16, bf16, f32, f64.
    type: str
    shape: "tuple[DimLike, ...]"

    @property
    def dtype(self) -> str:
        """The name of numpy's type; "bfloat16" is that of ml_dtypes."""
        return NUMPY_NAMES[self.type]


@dataclasses.dataclass(frozen=True)
class DimInfo:
    """A named dim of a model, with what the model declares of it."""

    name: str
    min: int = 0
    #: None: no bound.
    max: "int | None" = None
    multiple: int = 1
    #: Sizes that the model says to expect.
    likely: "tuple[int, ...]" = ()
    #: Whether buckets may be set along it; where not, `obstacle` says why.
    paddable: bool = False
    obstacle: str = ""


@dataclasses.dataclass(frozen=True)
class Hint:
    """What the caller knows of a dim beyond the model's own declaration."""

    #: Sizes outside of min to max, or no multiple, are errors, as if the model had declared it so.
    min: int = 0
    max: "int | None" = None
    multiple: int = 1
    #: Sizes to be expected; see `prepare_likely` of load().
    likely: "typing.Sequence[int]" = ()
    #: Sizes that are run at the next larger one, as pairs (first, end): sizes of first up to end - 1 run at end - 1.
    #: power_of_two(low, high) makes a ladder. Where the model does not take the larger sizes, because dims are bounds
    #: of each other, they run as they are.
    buckets: "typing.Sequence[tuple[int, int]]" = ()


@dataclasses.dataclass(frozen=True)
class Rng:
    """State of the random ops: Philox 4x32-10, a function of (seed, op, step)."""

    seed: int = 42
    #: Mixed into every stream, so that a caller can ask for fresh numbers.
    step: int = 0


class Progress(typing.NamedTuple):
    """How far a Preparation is. `failed` are among `done`."""

    done: int
    failed: int
    total: int


@dataclasses.dataclass(frozen=True)
class BindingInfo:
    """A specialization that an executable holds. Of one that is not ready only binding and state are told."""

    binding: "dict[str, int]"
    #: "ready"; "making": some thread makes it; "queued": a background thread will.
    state: str
    #: Since it was used last, or made.
    idle_ms: float
    #: What it takes in the cache, template and kernels apart.
    bytes: int
    #: How it was made: "instantiated" from a template there was, or "new": the compiler was asked for a template.
    origin: str
    #: Runs it served after the one that made it.
    hits: int
    steps: int
    arena_bytes: int
    kernels_compiled: int
    #: Kernels that it shares with earlier ones.
    kernels_reused: int
    #: Choices that fell otherwise in the templates there were: "S <= 512 (op: reason)".
    guards_failed: "tuple[str, ...]"
    ms_by_phase: "dict[str, float]"


@dataclasses.dataclass(frozen=True)
class MissInfo:
    """Why a miss missed. str() of it is for people."""

    binding: "dict[str, int]"
    #: Dims that had another size in the run before, with both sizes.
    changes: "dict[str, tuple[int, int]]"
    #: There was no run before.
    first: bool
    #: False: it is still being made, or failed.
    made: bool
    #: It had been in the cache.
    evicted: bool
    origin: str
    guards_failed: "tuple[str, ...]"
    #: What it ended in; "" when it did not fail.
    error: str
    text: str

    def __str__(self) -> str:
        return self.text


@dataclasses.dataclass(frozen=True)
class Forecast:
    """What a run at a binding would meet now. str() of it is for people."""

    #: "hit", "being made", "instantiate" (a template holds there), "compile" (none does), "fail" (the sizes are in error).
    kind: str
    #: Of each template there is, the guard that does not hold.
    guards_failed: "tuple[str, ...]"
    #: Where it would fail; else "".
    error: str
    text: str

    def __str__(self) -> str:
        return self.text


class Outputs(tuple[typing.Any, ...]):
    """The outputs of a run: a tuple that knows their names.

    outputs[0], outputs["logits"], and x, y = outputs all work. `names` are in the same order.
    """

    __slots__ = ()
    #: Set by the subclass that an executable makes for each choice of outputs.
    names: "tuple[str, ...]" = ()

    def __getitem__(self, key: typing.Any) -> typing.Any:
        if isinstance(key, str):
            try:
                return tuple.__getitem__(self, self.names.index(key))
            except ValueError:
                raise KeyError(key) from None
        return tuple.__getitem__(self, key)

    def keys(self) -> "tuple[str, ...]":
        """Their names."""
        return self.names

    def items(self) -> "list[tuple[str, typing.Any]]":
        """Pairs of name and array."""
        return list(zip(self.names, self))

    def __repr__(self) -> str:
        return "Outputs(" + ", ".join(f"{name}={value!r}" for name, value in self.items()) + ")"


NUMPY_NAMES = {
    "i1": "bool",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "u8": "uint8",
    "u16": "uint16",
    "u32": "uint32",
    "u64": "uint64",
    "f16": "float16",
    "bf16": "bfloat16",
    "f32": "float32",
    "f64": "float64",
}


def power_of_two(low: int, high: int) -> "list[tuple[int, int]]":
    """Buckets for a Hint: sizes up to low run at low, larger ones at the next power of two, up to high.

    power_of_two(8, 64) runs 3 at 8, 9 at 16 and 33 at 64.
    """
    if low < 1 or high < low or low & (low - 1) or high & (high - 1):
        from ._errors import InvalidArgument

        raise InvalidArgument(f"power_of_two({low}, {high}): powers of two are wanted, the smaller one first")
    buckets = [(1, low + 1)]
    while low < high:
        buckets.append((low + 1, 2 * low + 1))
        low *= 2
    return buckets


def outputs_type(names: "tuple[str, ...]") -> "type[Outputs]":
    """The type of a choice of outputs."""
    return type("Outputs", (Outputs,), {"__slots__": (), "names": names, "__module__": Outputs.__module__})
