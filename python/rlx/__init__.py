"""rlx compiles neural network graphs whose sizes are not known beforehand.

    import rlx

    exe = rlx.load("model.onnx")
    y = exe(x=array)                        # the sizes of named dims are found from the inputs
    exe.run_into({"x": array}, {"y": out})  # no copies
    exe.prepare(batch=[1, 8], seq=128)      # ahead of the first run
    exe.stats(), exe.bindings(), exe.explain()

Errors are rlx.Error and its subclasses.
"""

from ._engine import Engine, Model
from ._errors import (
    Cancelled,
    CompilerFailed,
    Error,
    ErrorCode,
    Internal,
    InvalidArgument,
    InvalidModel,
    IoError,
    NotReady,
    OutOfRange,
    RunFailed,
    Unsolvable,
    Unsupported,
)
from ._executable import BoundRun, Executable, Params, Preparation, load
from ._rlx import version as _version
from ._types import BindingInfo, DimInfo, Forecast, Hint, MissInfo, Outputs, Progress, Rng, TensorInfo, power_of_two

#: Of the library.
__version__: str = _version()

__all__ = [
    "BindingInfo",
    "BoundRun",
    "Cancelled",
    "CompilerFailed",
    "DimInfo",
    "Engine",
    "Error",
    "ErrorCode",
    "Executable",
    "Forecast",
    "Hint",
    "Internal",
    "InvalidArgument",
    "InvalidModel",
    "IoError",
    "MissInfo",
    "Model",
    "NotReady",
    "OutOfRange",
    "Outputs",
    "Params",
    "Preparation",
    "Progress",
    "Rng",
    "RunFailed",
    "TensorInfo",
    "Unsolvable",
    "Unsupported",
    "load",
    "power_of_two",
]
