"""What the norms of NumPy arrays have in common: statistics, results, and the backward call of the extension module."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from . import _core
from ._arrays import acc_of, address, apart, array, flat, numbers, optional, output, plain, tensor

# A norm as the extension module takes it: its name, and a number of trailing axes, the axes, a number of groups, or None.
Op = tuple[str, int | tuple[int, ...] | None]
# (threads, fresh): 0 means all cores unless `set_num_threads` was called; fresh outputs were just allocated.
FRESH = (0, True)
GIVEN = (0, False)


class Stats(NamedTuple):
    """Statistics of each row that a forward pass saves for the backward pass, in float32 (float64 for float64).

    The mean of a row is ``m + delta``. For batch norm a row is a channel, for group norm a group of a sample.
    """

    m: np.ndarray
    """The rounded mean; 0 for RMS norm."""
    delta: np.ndarray
    """The rounding error of ``m``."""
    rstd: np.ndarray
    """``1/sqrt(variance + eps)``; for RMS norm ``1/sqrt(mean(x²) + eps)``."""

    @property
    def mean(self) -> np.ndarray:
        """The mean of each row."""
        return self.m + self.delta


class Gradients(NamedTuple):
    """Gradients, as returned by a backward pass. Those of parameters that were not given are None."""

    x: np.ndarray
    """Gradient of the input, and of the residual if there was one."""
    weight: np.ndarray | None
    """Gradient of the weight, in its type."""
    bias: np.ndarray | None
    """Gradient of the bias, in its type."""


def parameter(what: str, value: ArrayLike | None, like: np.ndarray) -> np.ndarray | None:
    """Converts a weight or bias. Lists and numbers take the input's type."""
    if value is None:
        return None
    if not isinstance(value, np.ndarray):
        value = plain(what, value, like.dtype)
    return array(what, value)


def empty_stats(shape: Sequence[int], dtype: np.dtype[Any]) -> np.ndarray:
    """Allocates statistics ``[3, *shape]``."""
    return np.empty((3, *shape), dtype=acc_of(dtype))


def split_stats(whole: np.ndarray) -> Stats:
    return Stats(whole[0, ...], whole[1, ...], whole[2, ...])


def _is_part(part: Any, whole: np.ndarray, at: int) -> bool:
    """Returns whether an array is ``whole[at]``."""
    return (
        type(part) is np.ndarray
        and part.base is whole
        and part.shape == whole.shape[1:]
        and part.flags.c_contiguous
        and address(part) == address(whole) + at * whole.strides[0]
    )


def _stats_argument(stats: Iterable[ArrayLike], shape: Sequence[int], dtype: np.dtype[Any]) -> np.ndarray:
    """Returns saved statistics as one array ``[3, *shape]``, without a copy if they came from a forward pass."""
    m, delta, rstd = stats
    whole = m.base if type(m) is np.ndarray else None
    acc = acc_of(dtype)
    if type(whole) is np.ndarray and whole.shape == (3, *shape) and whole.dtype == acc and whole.flags.c_contiguous:
        if all(_is_part(part, whole, at) for at, part in enumerate((m, delta, rstd))):
            return whole
    parts = [numbers("statistics", part, acc) for part in (m, delta, rstd)]
    for part in parts:
        if part.shape != tuple(shape):
            raise ValueError(f"statistics: expected shape {list(shape)}, found {list(part.shape)}")
    return np.stack(parts)


def result_place(
    x: np.ndarray, out: np.ndarray | None, others: Iterable[np.ndarray | None]
) -> tuple[np.ndarray, np.ndarray | None, tuple[int, bool]]:
    """Returns the array to compute into, the array to copy that to afterwards (or None), and ``(threads, fresh)``."""
    if out is None:
        return np.empty_like(x, subok=False), None, FRESH
    place = output("out", out, x)
    same = place is x or (place.strides == x.strides and address(place) == address(x))
    if (not same and np.may_share_memory(place, x)) or any(
        o is not None and np.may_share_memory(place, o) for o in others
    ):
        apart("out", place)
        return np.empty_like(x, subok=False), place, FRESH
    return place, None, GIVEN


def copied_out(y: np.ndarray, to: np.ndarray | None, out: np.ndarray | None) -> np.ndarray:
    """Copies y to its destination and returns ``out`` if it was given, otherwise y."""
    if to is not None:
        to[...] = y
    return y if out is None else out


def empty_gradients(x: np.ndarray, weight: np.ndarray | None, bias: np.ndarray | None) -> Gradients:
    def like(parameter: np.ndarray | None) -> np.ndarray | None:
        return None if parameter is None else np.empty(parameter.shape, parameter.dtype)

    return Gradients(np.empty_like(x, subok=False), like(weight), like(bias))


def backward(
    op: Op,
    dy: ArrayLike,
    x: np.ndarray,
    weight: ArrayLike | None,
    bias: ArrayLike | None,
    eps: float,
    stats: Stats | None,
    outer: Sequence[int],
    dh: ArrayLike | None = None,
    zero_centered: bool = False,
) -> Gradients:
    """Computes the gradients of a norm. Statistics ``[*outer]`` that were not saved are computed again."""
    dy = array("gradient of the output", dy)
    weight, bias = parameter("weight", weight, x), parameter("bias", bias, x)
    dh = None if dh is None else array("gradient of the residual output", dh)
    if stats is None:
        saved, unused = empty_stats(outer, x.dtype), np.empty_like(x, subok=False)
        place = flat(saved)
        _core.forward(op, tensor(x), tensor(unused), None, None, False, eps, place, None, FRESH)
    else:
        saved = _stats_argument(stats, outer, x.dtype)
        place = flat(saved)
    gradients = empty_gradients(x, weight, bias)
    _core.backward(
        op,
        tensor(x),
        tensor(dy),
        optional(dh),
        optional(weight),
        bool(zero_centered),
        eps,
        place,
        optional(gradients.x),
        optional(gradients.weight),
        optional(gradients.bias),
        FRESH,
    )
    return gradients
