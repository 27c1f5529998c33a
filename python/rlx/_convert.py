"""Plain Python values as arrays."""

import typing

import numpy as np

from ._errors import InvalidArgument
from ._types import NUMPY_NAMES


def numpy_type(name: str) -> typing.Any:
    """numpy's type of an rlx type; bf16 is that of ml_dtypes, which must be there."""
    if name == "bf16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(NUMPY_NAMES[name])


def from_python(value: typing.Any, type_name: str, whose: str) -> typing.Any:
    """A number, bool, list or tuple as an array of an input's or param's type; `whose` is for messages. What would change
    a value, other than by rounding a float, raises InvalidArgument."""
    try:
        natural = np.asarray(value)
        wanted = numpy_type(type_name)
        result = natural.astype(wanted) if natural.dtype != object else np.asarray(value, dtype=wanted)
    except (ValueError, TypeError, OverflowError) as error:
        raise InvalidArgument(f"{whose}: no array of {type_name} can be made of this: {error}") from None
    kind = natural.dtype.kind
    is_float = type_name in ("f16", "bf16", "f32", "f64")
    if natural.size and not (kind == "b" or (kind in "iu" and type_name != "i1") or (kind == "f" and is_float)):
        raise InvalidArgument(f"{whose} is {type_name}, the values are {natural.dtype}")
    if kind in "iu" and not is_float and not np.array_equal(natural, result):
        raise InvalidArgument(f"{whose}: not all values fit {type_name}")
    return np.asarray(result, order="C")
