"""Threads and instruction sets."""

from __future__ import annotations

from typing import NamedTuple

from . import _core


class Info(NamedTuple):
    """Settings that calls use, as returned by :func:`info`."""

    threads: int
    """Number of threads that a large call uses."""
    isa: str
    """Instruction set that calls use, such as ``"avx2"``."""
    available: tuple[str, ...]
    """Instruction sets that this machine supports, slowest first."""


def info() -> Info:
    """Returns the number of threads and the instruction set that calls use, and the instruction sets that this machine has.

    :func:`set_num_threads` and :func:`set_isa` change the first two. Neither affects the results.
    """
    threads, isa, available = _core.settings()
    return Info(threads, isa, tuple(available))
