"""What goes wrong, as exceptions: one base, and a class for each code of the runtime."""

import enum


class ErrorCode(enum.IntEnum):
    """What kind of help the caller needs. The numbers are those of the C API."""

    INVALID_ARGUMENT = 1
    INVALID_MODEL = 2
    UNSUPPORTED = 3
    UNSOLVABLE = 4
    OUT_OF_RANGE = 5
    RUN_FAILED = 6
    IO = 7
    INTERNAL = 8
    NOT_READY = 9
    CANCELLED = 10
    COMPILER_FAILED = 11


class Error(Exception):
    """Base of all errors of rlx. Its text is one line that names the thing and the way out."""

    code: ErrorCode = ErrorCode.INTERNAL


class InvalidArgument(Error, ValueError):
    """A name, type, rank or size that the caller gave is wrong."""

    code = ErrorCode.INVALID_ARGUMENT


class InvalidModel(Error):
    """The graph or file is wrong."""

    code = ErrorCode.INVALID_MODEL


class Unsupported(Error, NotImplementedError):
    """Legal, but rlx cannot do it; names the op."""

    code = ErrorCode.UNSUPPORTED


class Unsolvable(Error):
    """The sizes of the named dims cannot be found from what was given."""

    code = ErrorCode.UNSOLVABLE


class OutOfRange(Error):
    """A size outside its range, or arithmetic that overflows."""

    code = ErrorCode.OUT_OF_RANGE


class RunFailed(Error):
    """Only the data was wrong: an index out of range, a division by zero."""

    code = ErrorCode.RUN_FAILED


class IoError(Error, OSError):
    """A file could not be read or written."""

    code = ErrorCode.IO


class Internal(Error):
    """A bug of rlx that was caught."""

    code = ErrorCode.INTERNAL


class NotReady(Error, TimeoutError):
    """What the run needs is still being compiled, and the caller would not wait (longer)."""

    code = ErrorCode.NOT_READY


class Cancelled(Error):
    """The caller gave up on it."""

    code = ErrorCode.CANCELLED


class CompilerFailed(Error):
    """The compiler died, or took too long or too much memory; asking again may help."""

    code = ErrorCode.COMPILER_FAILED


#: The exception of each code.
BY_CODE: "dict[int, type[Error]]" = {
    int(kind.code): kind
    for kind in (
        InvalidArgument,
        InvalidModel,
        Unsupported,
        Unsolvable,
        OutOfRange,
        RunFailed,
        IoError,
        Internal,
        NotReady,
        Cancelled,
        CompilerFailed,
    )
}
