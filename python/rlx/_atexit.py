"""Ends what runs in threads of the runtime before Python and C++ take down what those threads use."""

import atexit
import os
import typing
import weakref

from . import _rlx

_open: "weakref.WeakSet[typing.Any]" = weakref.WeakSet()


def watch(thing: typing.Any) -> None:
    """Closes it when Python ends."""
    _open.add(thing)


def _end() -> None:
    for thing in list(_open):
        thing.close()
    _rlx.end()


atexit.register(_end)
# Handles are of no use in a child, and destroying them there would wait for threads that it does not have.
os.register_at_fork(after_in_child=_rlx.forked)
