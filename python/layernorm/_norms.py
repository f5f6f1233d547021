"""The normalizations on NumPy arrays.

Every function takes arrays of float16, bfloat16 (of ml_dtypes), float32 or float64 with any strides, computes in float32
(float64 for float64) and rounds once. Weights and biases are of the input's type or float32. Results have the input's type.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from . import _core
from ._arrays import acc_of, address, apart, array, contiguous, flat, numbers, optional, output, plain, tensor, written

# All cores unless `set_num_threads` says otherwise; results that we make are fresh memory.
_Axes = int | Sequence[int] | None
# What the compiled half calls a norm: its name, and trailing axes, axes, groups or nothing.
_Op = tuple[str, int | tuple[int, ...] | None]
_FRESH = (0, True)
_GIVEN = (0, False)


class Stats(NamedTuple):
    """What forward saves for backward, one of each a row, in the arithmetic type. The mean of a row is ``m + delta``."""

    m: np.ndarray
    """The rounded mean; 0 in RMS norm."""
    delta: np.ndarray
    """What the rounding of ``m`` left behind."""
    rstd: np.ndarray
    """1/sqrt(variance + eps)."""

    @property
    def mean(self) -> np.ndarray:
        """The mean of each row."""
        return self.m + self.delta


class Gradients(NamedTuple):
    """What a backward pass gives. Those of parameters that were not given are None."""

    x: np.ndarray
    """Of the input (and of the residual, where there is one)."""
    weight: np.ndarray | None
    """Of the weight, in its type."""
    bias: np.ndarray | None
    """Of the bias, in its type."""


def _parameter(what: str, value: ArrayLike | None, like: np.ndarray) -> np.ndarray | None:
    """A weight or bias; what is no array yet (a list, a number) takes the input's type."""
    if value is None:
        return None
    if not isinstance(value, np.ndarray):
        value = plain(what, value, like.dtype)
    return array(what, value)


def _integers(value: Any) -> tuple[int, ...]:
    return tuple(map(operator.index, value)) if isinstance(value, (tuple, list)) else (operator.index(value),)


def _rows(x: np.ndarray, normalized_shape: _Axes, axis: _Axes) -> tuple[int | tuple[int, ...], tuple[int, ...]]:
    """What makes a row: a number of trailing axes, or a tuple of axes; and the shape that the statistics have."""
    if axis is not None:
        if normalized_shape is not None:
            raise ValueError("expected normalized_shape or axis, found both")
        axes = _integers(axis)
        inside = {a % x.ndim for a in axes if -x.ndim <= a < x.ndim}
        return axes, tuple(n for a, n in enumerate(x.shape) if a not in inside)
    if normalized_shape is None:
        return 1, x.shape[:-1]
    wanted = _integers(normalized_shape)
    if not wanted:
        raise ValueError("normalized_shape: expected at least one dimension, found none")
    count = len(wanted)
    if x.shape[-count:] != wanted:
        raise ValueError(f"input: expected a shape that ends in normalized_shape {list(wanted)}, found {list(x.shape)}")
    return count, x.shape[:-count]


def _count(shape: Sequence[int]) -> int:
    return int(np.prod(shape, dtype=np.int64)) if shape else 1


def _room(shape: Sequence[int], dtype: np.dtype[Any]) -> np.ndarray:
    """Memory for statistics ``[3, *shape]``."""
    return np.empty((3, *shape), dtype=acc_of(dtype))


def _stats(whole: np.ndarray) -> Stats:
    return Stats(whole[0, ...], whole[1, ...], whole[2, ...])


def _is_part(part: Any, whole: np.ndarray, at: int) -> bool:
    """Whether an array is ``whole[at]``."""
    return (
        type(part) is np.ndarray
        and part.base is whole
        and part.shape == whole.shape[1:]
        and part.flags.c_contiguous
        and address(part) == address(whole) + at * whole.strides[0]
    )


def _stats_argument(stats: Iterable[ArrayLike], shape: Sequence[int], dtype: np.dtype[Any]) -> np.ndarray:
    """Saved statistics as memory ``[3, …]``. They are used where they are if they came from a forward pass of ours."""
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


def _result(
    x: np.ndarray, out: np.ndarray | None, others: Iterable[np.ndarray | None]
) -> tuple[np.ndarray, np.ndarray | None, tuple[int, bool]]:
    """Where the result is written, and where it goes from there: None if it is there already."""
    if out is None:
        return np.empty_like(x, subok=False), None, _FRESH
    place = output("out", out, x)
    same = place is x or (place.strides == x.strides and address(place) == address(x))
    if (not same and np.may_share_memory(place, x)) or any(
        o is not None and np.may_share_memory(place, o) for o in others
    ):
        apart("out", place)
        return np.empty_like(x, subok=False), place, _FRESH
    return place, None, _GIVEN


def _finish(y: np.ndarray, to: np.ndarray | None, out: np.ndarray | None) -> np.ndarray:
    """The result: what the caller gave as ``out``, if anything."""
    if to is not None:
        to[...] = y
    return y if out is None else out


def _row_norm(
    name: str,
    x: ArrayLike,
    normalized_shape: _Axes,
    weight: ArrayLike | None,
    bias: ArrayLike | None,
    eps: float,
    axis: _Axes,
    residual: ArrayLike | None,
    out: np.ndarray | None,
    return_stats: bool,
    zero_centered: bool,
) -> Any:
    x = array("input", x)
    rows, outer = _rows(x, normalized_shape, axis)
    weight, bias = _parameter("weight", weight, x), _parameter("bias", bias, x)
    extra = None
    if residual is not None:
        residual = array("residual", residual)
        h = np.empty_like(x, subok=False)
        extra = (tensor(residual), tensor(h))
    y, to, how = _result(x, out, (weight, bias, residual) if residual is None else (weight, bias, residual, x))
    stats = _room(outer, x.dtype) if return_stats else None
    place = None if stats is None else flat(stats)
    _core.forward(
        (name, rows),
        tensor(x),
        tensor(y),
        optional(weight),
        optional(bias),
        bool(zero_centered),
        eps,
        place,
        extra,
        how,
    )
    y = _finish(y, to, out)
    results: tuple[Any, ...] = (y,) if residual is None else (y, h)
    if stats is not None:
        results += (_stats(stats),)
    return results if len(results) > 1 else y


def _row_norm_backward(
    name: str,
    dy: ArrayLike,
    x: ArrayLike,
    normalized_shape: _Axes,
    weight: ArrayLike | None,
    bias: ArrayLike | None,
    eps: float,
    axis: _Axes,
    stats: Stats | None,
    dh: ArrayLike | None,
    zero_centered: bool,
) -> Gradients:
    x, dy = array("input", x), array("gradient of the output", dy)
    rows, outer = _rows(x, normalized_shape, axis)
    weight, bias = _parameter("weight", weight, x), _parameter("bias", bias, x)
    dh = None if dh is None else array("gradient of the residual output", dh)
    if stats is None:
        saved, unused = _room(outer, x.dtype), np.empty_like(x, subok=False)
        place = flat(saved)
        _core.forward((name, rows), tensor(x), tensor(unused), None, None, False, eps, place, None, _FRESH)
    else:
        saved = _stats_argument(stats, outer, x.dtype)
        place = flat(saved)
    gradients = _gradients(x, weight, bias)
    _core.backward(
        (name, rows),
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
        _FRESH,
    )
    return gradients


def _gradients(x: np.ndarray, weight: np.ndarray | None, bias: np.ndarray | None) -> Gradients:
    def like(parameter: np.ndarray | None) -> np.ndarray | None:
        return None if parameter is None else np.empty(parameter.shape, parameter.dtype)

    return Gradients(np.empty_like(x, subok=False), like(weight), like(bias))


def layer_norm(
    x: ArrayLike,
    normalized_shape: _Axes = None,
    weight: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    eps: float = 1e-5,
    *,
    axis: _Axes = None,
    residual: ArrayLike | None = None,
    out: np.ndarray | None = None,
    return_stats: bool = False,
    zero_centered: bool = False,
) -> Any:
    """Every row to mean 0 and variance 1, then gain and bias: ``(x − mean)/sqrt(var + eps)·weight + bias``.

    A row is the last axis, the trailing axes of ``normalized_shape`` (an int or a tuple, as in PyTorch), or the axes that
    ``axis`` names. ``weight`` and ``bias`` have the shape of those axes, in the order of x. With ``zero_centered`` the gain is ``1 + weight``.

    Returns ``y``, of the shape and type of x. With a ``residual`` of x's shape, ``h = x + residual`` is rounded to the type
    and normalized: ``(y, h)``. With ``return_stats``, :class:`Stats` come last. ``out`` is where y is written; it may be x.
    """
    return _row_norm("layer", x, normalized_shape, weight, bias, eps, axis, residual, out, return_stats, zero_centered)


def layer_norm_backward(
    dy: ArrayLike,
    x: ArrayLike,
    normalized_shape: _Axes = None,
    weight: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    eps: float = 1e-5,
    *,
    axis: _Axes = None,
    stats: Stats | None = None,
    dh: ArrayLike | None = None,
    zero_centered: bool = False,
) -> Gradients:
    """Gradients of :func:`layer_norm` from ``dy``, of x's shape.

    ``stats`` are those that the forward pass returned; without them they are computed again. Where there was a residual, x is
    h, and ``dh`` is the gradient that comes from h's other users. Of ``bias`` only shape and type matter.
    """
    return _row_norm_backward("layer", dy, x, normalized_shape, weight, bias, eps, axis, stats, dh, zero_centered)


def rms_norm(
    x: ArrayLike,
    normalized_shape: _Axes = None,
    weight: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    eps: float = 1e-5,
    *,
    axis: _Axes = None,
    residual: ArrayLike | None = None,
    out: np.ndarray | None = None,
    return_stats: bool = False,
    zero_centered: bool = False,
) -> Any:
    """Every row divided by its root mean square, then gain: ``x/sqrt(mean(x²) + eps)·weight``, plus ``bias`` if there is one.

    Arguments, results and their shapes are those of :func:`layer_norm`. PyTorch's default for eps is the type's machine epsilon.
    """
    return _row_norm("rms", x, normalized_shape, weight, bias, eps, axis, residual, out, return_stats, zero_centered)


def rms_norm_backward(
    dy: ArrayLike,
    x: ArrayLike,
    normalized_shape: _Axes = None,
    weight: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    eps: float = 1e-5,
    *,
    axis: _Axes = None,
    stats: Stats | None = None,
    dh: ArrayLike | None = None,
    zero_centered: bool = False,
) -> Gradients:
    """Gradients of :func:`rms_norm` from ``dy``, of x's shape, as :func:`layer_norm_backward`."""
    return _row_norm_backward("rms", dy, x, normalized_shape, weight, bias, eps, axis, stats, dh, zero_centered)


def _channels(x: np.ndarray) -> int:
    if x.ndim < 2:
        raise ValueError(f"input: expected at least 2 dimensions, found {x.ndim}")
    return x.shape[1]


def _channel_norm(
    op: _Op,
    x: np.ndarray,
    weight: ArrayLike | None,
    bias: ArrayLike | None,
    eps: float,
    out: np.ndarray | None,
    return_stats: bool,
    outer: tuple[int, ...],
) -> Any:
    weight, bias = _parameter("weight", weight, x), _parameter("bias", bias, x)
    # Only rows can be normalized where they are.
    y, to, how = _result(x, out, (x, weight, bias) if out is not None else ())
    stats = _room(outer, x.dtype) if return_stats or op[0] == "batch" else None
    place = None if stats is None else flat(stats)
    _core.forward(op, tensor(x), tensor(y), optional(weight), optional(bias), False, eps, place, None, how)
    y = _finish(y, to, out)
    return (y, _stats(stats)) if return_stats and stats is not None else y


def _channel_norm_backward(
    op: _Op,
    dy: ArrayLike,
    x: np.ndarray,
    weight: ArrayLike | None,
    bias: ArrayLike | None,
    eps: float,
    stats: Stats | None,
    outer: tuple[int, ...],
) -> Gradients:
    dy = array("gradient of the output", dy)
    weight, bias = _parameter("weight", weight, x), _parameter("bias", bias, x)
    if stats is None:
        saved, unused = _room(outer, x.dtype), np.empty_like(x, subok=False)
        place = flat(saved)
        _core.forward(op, tensor(x), tensor(unused), None, None, False, eps, place, None, _FRESH)
    else:
        saved = _stats_argument(stats, outer, x.dtype)
        place = flat(saved)
    gradients = _gradients(x, weight, bias)
    _core.backward(
        op,
        tensor(x),
        tensor(dy),
        None,
        optional(weight),
        False,
        eps,
        place,
        optional(gradients.x),
        optional(gradients.weight),
        optional(gradients.bias),
        _FRESH,
    )
    return gradients


def _group_op(x: np.ndarray, num_groups: int) -> tuple[_Op, tuple[int, ...]]:
    groups = operator.index(num_groups)
    channels = _channels(x)
    # Before memory for so many statistics is asked for.
    if groups < 1 or channels % groups:
        raise ValueError(f"groups: expected a divisor of the {channels} channels, found {groups}")
    return ("group", groups), (x.shape[0], groups)


def group_norm(
    x: ArrayLike,
    num_groups: int,
    weight: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    eps: float = 1e-5,
    *,
    out: np.ndarray | None = None,
    return_stats: bool = False,
) -> Any:
    """Group norm of x ``[N, C, …]``: the channels of a sample in ``num_groups`` groups, each to mean 0 and variance 1.

    ``weight`` and ``bias`` are ``[C]``. Returns y, and with ``return_stats`` also :class:`Stats` ``[N, num_groups]``.
    """
    x = array("input", x)
    op, outer = _group_op(x, num_groups)
    return _channel_norm(op, x, weight, bias, eps, out, return_stats, outer)


def group_norm_backward(
    dy: ArrayLike,
    x: ArrayLike,
    num_groups: int,
    weight: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    eps: float = 1e-5,
    *,
    stats: Stats | None = None,
) -> Gradients:
    """Gradients of :func:`group_norm` from ``dy`` ``[N, C, …]``: of x ``[N, C, …]``, weight and bias ``[C]``."""
    x = array("input", x)
    op, outer = _group_op(x, num_groups)
    return _channel_norm_backward(op, dy, x, weight, bias, eps, stats, outer)


def instance_norm(
    x: ArrayLike,
    weight: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    eps: float = 1e-5,
    *,
    out: np.ndarray | None = None,
    return_stats: bool = False,
) -> Any:
    """Instance norm of x ``[N, C, …]``: every channel of every sample by itself, i.e. group norm with C groups.

    ``weight`` and ``bias`` are ``[C]``. Returns y, and with ``return_stats`` also :class:`Stats` ``[N, C]``.
    """
    x = array("input", x)
    channels = _channels(x)
    return _channel_norm(("group", channels), x, weight, bias, eps, out, return_stats, x.shape[:2])


def instance_norm_backward(
    dy: ArrayLike,
    x: ArrayLike,
    weight: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    eps: float = 1e-5,
    *,
    stats: Stats | None = None,
) -> Gradients:
    """Gradients of :func:`instance_norm` from ``dy`` ``[N, C, …]``: of x ``[N, C, …]``, weight and bias ``[C]``."""
    x = array("input", x)
    channels = _channels(x)
    return _channel_norm_backward(("group", channels), dy, x, weight, bias, eps, stats, x.shape[:2])


def _running(what: str, given: ArrayLike, channels: int, dtype: np.dtype[Any]) -> np.ndarray:
    """Running statistics ``[channels]`` to read, in the arithmetic type; what is no array yet (a list) takes that type."""
    acc = acc_of(dtype)
    if not isinstance(given, np.ndarray):
        given = plain(what, given, acc)
    found = contiguous(what, array(what, given), acc)
    if found.shape != (channels,):
        raise ValueError(f"{what}: expected shape {[channels]}, found {list(found.shape)}")
    return found


def _changed(names: Sequence[str], given: Sequence[ArrayLike], out: np.ndarray | None) -> list[np.ndarray]:
    """Where running statistics are written. Each is memory of its own, and not that of the result."""
    places = [written(what, found) for what, found in zip(names, given)]
    for what, place in zip(names, places):
        apart(what, place)
        if out is not None and np.may_share_memory(place, out):
            raise ValueError(f"{what} and out: expected memory of their own, found the same")
    if np.shares_memory(places[0], places[1]):
        raise ValueError("running_mean and running_var: expected memory of their own, found the same")
    return places


def batch_norm(
    x: ArrayLike,
    running_mean: np.ndarray | None = None,
    running_var: np.ndarray | None = None,
    weight: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    training: bool = False,
    momentum: float | None = 0.1,
    eps: float = 1e-5,
    *,
    out: np.ndarray | None = None,
    return_stats: bool = False,
    num_batches_tracked: int = 0,
) -> Any:
    """Batch norm of x ``[N, C, …]``: every channel to mean 0 and variance 1 over the batch, or by running statistics.

    In ``training``, or without running statistics, the batch's own are used; running ones ``[C]`` (arrays, changed in place)
    take the part ``momentum`` of them, or with ``momentum=None`` the plain average over all batches, of which there were
    ``num_batches_tracked`` before. ``weight`` and ``bias`` are ``[C]``.

    Returns y, and with ``return_stats`` also :class:`Stats` ``[C]`` of the batch.
    """
    x = array("input", x)
    channels = _channels(x)
    if (running_mean is None) != (running_var is None):
        raise ValueError("expected running_mean and running_var, found one of them")
    if running_mean is None or running_var is None:
        return _channel_norm(("batch", None), x, weight, bias, eps, out, return_stats, (channels,))
    weight, bias = _parameter("weight", weight, x), _parameter("bias", bias, x)
    names, given = ("running_mean", "running_var"), (running_mean, running_var)
    mean, var = (_running(what, found, channels, x.dtype) for what, found in zip(names, given))
    if not training:
        if return_stats:
            raise ValueError("return_stats: expected training, found running statistics, which have none of a batch")
        y, to, how = _result(x, out, (x, weight, bias, mean, var))
        parameters = (optional(weight), optional(bias))
        _core.batch_infer(tensor(x), tensor(y), *parameters, eps, (flat(mean), flat(var)), how)
        return _finish(y, to, out)
    if num_batches_tracked < 0:
        raise ValueError(f"num_batches_tracked: expected 0 or more, found {num_batches_tracked}")
    y, to, how = _result(x, out, (x, weight, bias))
    places = _changed(names, given, out)
    # What is read is not changed before the end.
    mean, var = (
        found.copy() if any(o is not None and np.may_share_memory(found, o) for o in (x, weight, bias)) else found
        for found in (mean, var)
    )
    stats = _room((channels,), x.dtype)
    _core.batch_running(
        tensor(x),
        tensor(y),
        optional(weight),
        optional(bias),
        eps,
        flat(stats),
        (flat(mean), flat(var)),
        momentum,
        num_batches_tracked,
        how,
    )
    for place, updated in zip(places, (mean, var)):
        if updated is not place:
            place[...] = updated
    y = _finish(y, to, out)
    return (y, _stats(stats)) if return_stats else y


def batch_norm_backward(
    dy: ArrayLike,
    x: ArrayLike,
    running_mean: ArrayLike | None = None,
    running_var: ArrayLike | None = None,
    weight: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    training: bool = False,
    eps: float = 1e-5,
    *,
    stats: Stats | None = None,
) -> Gradients:
    """Gradients of :func:`batch_norm` from ``dy`` ``[N, C, …]``: of x ``[N, C, …]``, weight and bias ``[C]``.

    In training through the batch's statistics; otherwise the running ones ``[C]`` are fixed.
    """
    x = array("input", x)
    channels = _channels(x)
    if training or running_mean is None:
        return _channel_norm_backward(("batch", None), dy, x, weight, bias, eps, stats, (channels,))
    if running_var is None:
        raise ValueError("expected running_mean and running_var, found one of them")
    dy = array("gradient of the output", dy)
    weight, bias = _parameter("weight", weight, x), _parameter("bias", bias, x)
    mean = _running("running_mean", running_mean, channels, x.dtype)
    var = _running("running_var", running_var, channels, x.dtype)
    gradients = _gradients(x, weight, bias)
    running = (flat(mean), flat(var))
    _core.batch_infer_backward(
        tensor(x),
        tensor(dy),
        optional(weight),
        eps,
        running,
        optional(gradients.x),
        optional(gradients.weight),
        optional(gradients.bias),
        _FRESH,
    )
    return gradients
