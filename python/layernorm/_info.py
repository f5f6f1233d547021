"""How calls run on this machine."""

from __future__ import annotations

from typing import NamedTuple

from . import _core


class Info(NamedTuple):
    """What :func:`info` says."""

    threads: int
    """Threads that a large call uses."""
    isa: str
    """The instruction set that calls use."""
    available: tuple[str, ...]
    """The instruction sets of this machine, slowest first."""


def info() -> Info:
    """How calls run now: threads, the instruction set, and those that the machine has."""
    threads, isa, available = _core.settings()
    return Info(threads, isa, tuple(available))
