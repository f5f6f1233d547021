"""Calls of the learner's code: with a time limit, and with every failure as a finding."""

from __future__ import annotations

import contextlib
import ctypes
import linecache
import pathlib
import sysconfig
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np

from ._types import Finding, Notes, Stop

CALL_SECONDS = 10.0
CHECK_SECONDS = 40.0
# After a call was told to end, it may clean up for so long.
GRACE_SECONDS = 0.5


class Late(BaseException):
    """Raised inside a call that takes too long. No ``except Exception`` of a learner catches it."""


class TimedOut(Exception):
    """A call did not return in time."""


def bounded(function: Callable[[], Any], seconds: float) -> Any:
    """Returns what the function returns or raises what it raises; TimedOut if it takes longer.

    The function runs in a daemon thread. After the time is up, an exception is raised inside it, which ends any loop in Python; code
    that never comes back to Python is left behind.
    """
    outcome: list[Any] = []
    failure: list[BaseException] = []

    def work() -> None:
        try:
            # Overflow and 0/0 are diagnosed from the values.
            with np.errstate(all="ignore"):
                outcome.append(function())
        except BaseException as error:
            failure.append(error)

    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    try:
        worker.join(seconds)
    finally:
        # Also when the person at the keyboard interrupts.
        late = worker.is_alive()
        if late and worker.ident is not None:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(worker.ident), ctypes.py_object(Late))
            worker.join(GRACE_SECONDS)
    if late:
        raise TimedOut
    if failure:
        raise failure[0]
    return outcome[0]


def _foreign(filename: str) -> bool:
    """Whether a file is not the learner's: of Python, of an installed package, or of this one."""
    roots = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    roots.add(str(pathlib.Path(__file__).parent))
    with contextlib.suppress(OSError, ValueError):
        path = pathlib.Path(filename).resolve()
        return any(pathlib.Path(root).resolve() in path.parents for root in roots) or filename.startswith("<frozen")
    return False


def place(error: BaseException) -> tuple[int | None, str]:
    """The last line of the learner's code that an error passed through, and its text."""
    if isinstance(error, SyntaxError):
        return error.lineno, (error.text or "").strip()
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not _foreign(frame.filename):
            return frame.lineno, (frame.line or linecache.getline(frame.filename, frame.lineno or 0)).strip()
    return None, ""


def explained(error: BaseException, doing: str) -> Finding:
    """An exception of the learner's code as a finding. ``doing`` says what was called, such as "layer_norm(x [5, 6], …)"."""
    line, text = place(error)
    at = f" in `{text}`" if text else ""
    what = f"{doing} raises {type(error).__name__}{at}: {error}"
    if isinstance(error, NotImplementedError):
        return Finding("not-written", f"{doing} raises NotImplementedError: it is still to be written.", line=line)
    if isinstance(error, ValueError) and "broadcast" in str(error):
        advice = (
            "Shapes do not fit. The mean of x [rows, features] over the last axis has shape [rows]; with keepdims=True "
            "it has shape [rows, 1], and x - mean works."
        )
        return Finding("broadcast", f"{what}\n{advice}", line=line)
    return Finding("raises", what, line=line)


def shown(value: Any) -> str:
    """An argument as it is named in messages."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {list(value.shape)}"
    return repr(value)


class Learner:
    """The learner's function. Calls leave findings in the notes."""

    def __init__(self, notes: Notes) -> None:
        self.notes = notes
        self.ends = time.monotonic() + CHECK_SECONDS

    def call(self, name: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """Calls with copies of the arguments. Raises Stop if there is no result; notes arguments that were changed."""
        given = [value.copy(order="K") if isinstance(value, np.ndarray) else value for value in arguments]
        doing = f"{name}({', '.join(map(shown, arguments))})"
        seconds = max(0.1, min(CALL_SECONDS, self.ends - time.monotonic()))
        try:
            value = bounded(lambda: function(*given), seconds)
        except TimedOut:
            raise self.notes.stop(
                "too-slow", f"{doing} did not return within {seconds:.0f} s and was stopped."
            ) from None
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            self.notes.add(explained(error, doing))
            raise Stop from None
        for number, (before, after) in enumerate(zip(arguments, given), 1):
            if isinstance(before, np.ndarray) and before.tobytes() != after.tobytes():
                self.notes.wrong(
                    "input-changed",
                    f"{doing} changes its {ordinal(number)} argument. x -= mean, x /= σ and out=x write into the caller's "
                    "array; x = x - mean makes a new one.",
                )
        return value

    def array(self, name: str, function: Callable[..., Any], *arguments: Any, shape: tuple[int, ...]) -> np.ndarray:
        """Calls, and returns the result if it is an array of this shape; raises Stop otherwise."""
        return as_array(self.call(name, function, *arguments), f"{name} returns", shape, self.notes)


def ordinal(number: int) -> str:
    return {1: "first", 2: "second", 3: "third"}.get(number, f"{number}th")


def as_array(value: Any, what: str, shape: tuple[int, ...], notes: Notes) -> np.ndarray:
    """Returns the value if it is a numeric array of this shape; raises Stop otherwise. ``what`` is such as "layer_norm returns"."""
    if value is None:
        raise notes.stop("nothing-returned", f"{what} None. Is there a return statement at the end?")
    if not isinstance(value, np.ndarray):
        kind = f"{type(value).__module__}.{type(value).__name__}".removeprefix("builtins.")
        advice = " Tensor.numpy() makes an array of a tensor." if kind.startswith("torch") else ""
        raise notes.stop("not-an-array", f"{what} {kind}, expected a numpy.ndarray.{advice}")
    if value.shape != shape:
        raise notes.stop("wrong-shape", f"{what} an array of shape {list(value.shape)}, expected {list(shape)}.")
    if value.dtype.kind not in "fiu":
        raise notes.stop("wrong-type", f"{what} an array of {value.dtype}, expected real numbers.")
    return value
