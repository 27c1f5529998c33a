"""Checks of arguments that go to C."""

import operator
import os
import typing

from ._errors import InvalidArgument

#: What names a file.
Path = typing.Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]


def encoded(name: str, value: Path) -> bytes:
    """A path as the system has it."""
    try:
        return os.fsencode(value)
    except TypeError:
        raise TypeError(f"{name}: a path is wanted, a str, bytes or os.PathLike, not {value!r}") from None
    except UnicodeEncodeError:
        raise InvalidArgument(f"{name}: {value!r} has no form in the encoding of file names") from None


def integer(name: str, value: object, least: int, most: int) -> int:
    """`value`, which must be an integer in a range."""
    try:
        result = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise InvalidArgument(f"{name}: an integer is wanted, not {value!r}") from None
    if not least <= result <= most:
        raise InvalidArgument(f"{name}: {result} is not from {least} to {most}")
    return result


def count(name: str, value: "int | None", least: int, most: int = 2**63 - 1) -> int:
    """The same, and 0 for None: the default of the C API."""
    return 0 if value is None else integer(name, value, least, most)


def number(name: str, value: "float | None", scale: float) -> int:
    """A positive number times `scale`, at least 1; 0 for None."""
    if value is None:
        return 0
    if not isinstance(value, (int, float)) or not 0 < value < 2**40:
        raise InvalidArgument(f"{name}: a number above 0 is wanted, not {value!r}")
    return max(1, round(value * scale))
