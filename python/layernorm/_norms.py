"""The normalizations on NumPy arrays.

Every function takes arrays of float16, bfloat16 (of ml_dtypes), float32 or float64 with any strides, computes in float32
(float64 for float64) and rounds once. Weights and biases are of the input's type or float32. Results have the input's type.
"""

from __future__ import annotations

import operator
from typing import NamedTuple

import numpy as np

from . import _core
from ._arrays import acc_of, address, apart, array, contiguous, numbers, optional, output, plain, tensor, written

# All cores unless `set_num_threads` says otherwise; results that we make are fresh memory.
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


def _parameter(what, value, like):
    """A weight or bias; what is no array yet (a list, a number) takes the input's type."""
    if value is None:
        return None
    if not isinstance(value, np.ndarray):
        value = plain(what, value, like.dtype)
    return array(what, value)


def _rows(x, normalized_shape, axis):
    """What makes a row: a number of trailing axes, or a tuple of axes; and the shape that the statistics have."""
    if axis is not None:
        if normalized_shape is not None:
            raise ValueError("expected normalized_shape or axis, found both")
        axes = tuple(map(operator.index, axis)) if isinstance(axis, (tuple, list)) else (operator.index(axis),)
        inside = {a % x.ndim for a in axes if -x.ndim <= a < x.ndim}
        return axes, tuple(n for a, n in enumerate(x.shape) if a not in inside)
    if normalized_shape is None:
        return 1, x.shape[:-1]
    if isinstance(normalized_shape, (tuple, list)):
        wanted = tuple(map(operator.index, normalized_shape))
    else:
        wanted = (operator.index(normalized_shape),)
    if not wanted:
        raise ValueError("normalized_shape: expected at least one dimension, found none")
    count = len(wanted)
    if x.shape[-count:] != wanted:
        raise ValueError(f"input: expected a shape that ends in normalized_shape {list(wanted)}, found {list(x.shape)}")
    return count, x.shape[:-count]


def _count(shape):
    return int(np.prod(shape, dtype=np.int64)) if shape else 1


def _room(shape, dtype):
    """Memory for statistics ``[3, *shape]``."""
    return np.empty((3, *shape), dtype=acc_of(dtype))


def _stats(whole):
    return Stats(whole[0, ...], whole[1, ...], whole[2, ...])


def _is_part(part, whole, at):
    """Whether an array is ``whole[at]``."""
    return (
        type(part) is np.ndarray
        and part.base is whole
        and part.shape == whole.shape[1:]
        and part.flags.c_contiguous
        and address(part) == address(whole) + at * whole.strides[0]
    )


def _stats_argument(stats, shape, dtype):
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


def _result(x, out, others):
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


def _finish(y, to, out):
    """The result: what the caller gave as ``out``, if anything."""
    if to is not None:
        to[...] = y
    return y if out is None else out


def _row_norm(name, x, normalized_shape, weight, bias, eps, axis, residual, out, return_stats, zero_centered):
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
    place = None if stats is None else (address(stats), _count(outer))
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
    results = (y,) if residual is None else (y, h)
    if stats is not None:
        results += (_stats(stats),)
    return results if len(results) > 1 else y


def _row_norm_backward(name, dy, x, normalized_shape, weight, bias, eps, axis, stats, dh, zero_centered):
    x, dy = array("input", x), array("gradient of the output", dy)
    rows, outer = _rows(x, normalized_shape, axis)
    weight, bias = _parameter("weight", weight, x), _parameter("bias", bias, x)
    dh = None if dh is None else array("gradient of the residual output", dh)
    if stats is None:
        saved, unused = _room(outer, x.dtype), np.empty_like(x, subok=False)
        place = (address(saved), _count(outer))
        _core.forward((name, rows), tensor(x), tensor(unused), None, None, False, eps, place, None, _FRESH)
    else:
        saved = _stats_argument(stats, outer, x.dtype)
        place = (address(saved), _count(outer))
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
        *map(optional, gradients),
        _FRESH,
    )
    return gradients


def _gradients(x, weight, bias):
    like = lambda parameter: None if parameter is None else np.empty(parameter.shape, parameter.dtype)
    return Gradients(np.empty_like(x, subok=False), like(weight), like(bias))


def layer_norm(
    x,
    normalized_shape=None,
    weight=None,
    bias=None,
    eps=1e-5,
    *,
    axis=None,
    residual=None,
    out=None,
    return_stats=False,
    zero_centered=False,
):
    """Every row to mean 0 and variance 1, then gain and bias: ``(x − mean)/sqrt(var + eps)·weight + bias``.

    A row is the last axis, the trailing axes of ``normalized_shape`` (an int or a tuple, as in PyTorch), or the axes that
    ``axis`` names. ``weight`` and ``bias`` have the shape of those axes. With ``zero_centered`` the gain is ``1 + weight``.

    Returns ``y``, of the shape and type of x. With a ``residual`` of x's shape, ``h = x + residual`` is rounded to the type
    and normalized: ``(y, h)``. With ``return_stats``, :class:`Stats` come last. ``out`` is where y is written; it may be x.
    """
    return _row_norm("layer", x, normalized_shape, weight, bias, eps, axis, residual, out, return_stats, zero_centered)


def layer_norm_backward(
    dy,
    x,
    normalized_shape=None,
    weight=None,
    bias=None,
    eps=1e-5,
    *,
    axis=None,
    stats=None,
    dh=None,
    zero_centered=False,
):
    """Gradients of :func:`layer_norm` from ``dy``, of x's shape.

    ``stats`` are those that the forward pass returned; without them they are computed again. Where there was a residual, x is
    h, and ``dh`` is the gradient that comes from h's other users. Of ``bias`` only shape and type matter.
    """
    return _row_norm_backward("layer", dy, x, normalized_shape, weight, bias, eps, axis, stats, dh, zero_centered)


def rms_norm(
    x,
    normalized_shape=None,
    weight=None,
    bias=None,
    eps=1e-5,
    *,
    axis=None,
    residual=None,
    out=None,
    return_stats=False,
    zero_centered=False,
):
    """Every row divided by its root mean square, then gain: ``x/sqrt(mean(x²) + eps)·weight``, plus ``bias`` if there is one.

    Arguments, results and their shapes are those of :func:`layer_norm`. PyTorch's default for eps is the type's machine epsilon.
    """
    return _row_norm("rms", x, normalized_shape, weight, bias, eps, axis, residual, out, return_stats, zero_centered)


def rms_norm_backward(
    dy,
    x,
    normalized_shape=None,
    weight=None,
    bias=None,
    eps=1e-5,
    *,
    axis=None,
    stats=None,
    dh=None,
    zero_centered=False,
):
    """Gradients of :func:`rms_norm` from ``dy``, of x's shape, as :func:`layer_norm_backward`."""
    return _row_norm_backward("rms", dy, x, normalized_shape, weight, bias, eps, axis, stats, dh, zero_centered)


def _channels(x):
    if x.ndim < 2:
        raise ValueError(f"input: expected at least 2 dimensions, found {x.ndim}")
    return x.shape[1]


def _channel_norm(op, x, weight, bias, eps, out, return_stats, outer):
    weight, bias = _parameter("weight", weight, x), _parameter("bias", bias, x)
    # Only rows can be normalized where they are.
    y, to, how = _result(x, out, (x, weight, bias) if out is not None else ())
    stats = _room(outer, x.dtype) if return_stats or op[0] == "batch" else None
    place = None if stats is None else (address(stats), _count(outer))
    _core.forward(op, tensor(x), tensor(y), optional(weight), optional(bias), False, eps, place, None, how)
    y = _finish(y, to, out)
    return (y, _stats(stats)) if return_stats else y


def _channel_norm_backward(op, dy, x, weight, bias, eps, stats, outer):
    dy = array("gradient of the output", dy)
    weight, bias = _parameter("weight", weight, x), _parameter("bias", bias, x)
    if stats is None:
        saved, unused = _room(outer, x.dtype), np.empty_like(x, subok=False)
        place = (address(saved), _count(outer))
        _core.forward(op, tensor(x), tensor(unused), None, None, False, eps, place, None, _FRESH)
    else:
        saved = _stats_argument(stats, outer, x.dtype)
        place = (address(saved), _count(outer))
    gradients = _gradients(x, weight, bias)
    _core.backward(
        op, tensor(x), tensor(dy), None, optional(weight), False, eps, place, *map(optional, gradients), _FRESH
    )
    return gradients


def _group_op(x, num_groups):
    groups = operator.index(num_groups)
    channels = _channels(x)
    # Before memory for so many statistics is asked for.
    if groups < 1 or channels % groups:
        raise ValueError(f"groups: expected a divisor of the {channels} channels, found {groups}")
    return ("group", groups), (x.shape[0], groups)


def group_norm(x, num_groups, weight=None, bias=None, eps=1e-5, *, out=None, return_stats=False):
    """Group norm of x ``[N, C, …]``: the channels of a sample in ``num_groups`` groups, each to mean 0 and variance 1.

    ``weight`` and ``bias`` are ``[C]``. Returns y, and with ``return_stats`` also :class:`Stats` ``[N, num_groups]``.
    """
    x = array("input", x)
    op, outer = _group_op(x, num_groups)
    return _channel_norm(op, x, weight, bias, eps, out, return_stats, outer)


def group_norm_backward(dy, x, num_groups, weight=None, bias=None, eps=1e-5, *, stats=None):
    """Gradients of :func:`group_norm` from ``dy`` ``[N, C, …]``: of x ``[N, C, …]``, weight and bias ``[C]``."""
    x = array("input", x)
    op, outer = _group_op(x, num_groups)
    return _channel_norm_backward(op, dy, x, weight, bias, eps, stats, outer)


def instance_norm(x, weight=None, bias=None, eps=1e-5, *, out=None, return_stats=False):
    """Instance norm of x ``[N, C, …]``: every channel of every sample by itself, i.e. group norm with C groups.

    ``weight`` and ``bias`` are ``[C]``. Returns y, and with ``return_stats`` also :class:`Stats` ``[N, C]``.
    """
    x = array("input", x)
    channels = _channels(x)
    return _channel_norm(("group", channels), x, weight, bias, eps, out, return_stats, x.shape[:2])


def instance_norm_backward(dy, x, weight=None, bias=None, eps=1e-5, *, stats=None):
    """Gradients of :func:`instance_norm` from ``dy`` ``[N, C, …]``: of x ``[N, C, …]``, weight and bias ``[C]``."""
    x = array("input", x)
    channels = _channels(x)
    return _channel_norm_backward(("group", channels), dy, x, weight, bias, eps, stats, x.shape[:2])


def _running(what, given, channels, dtype):
    """Running statistics ``[channels]`` to read, in the arithmetic type; what is no array yet (a list) takes that type."""
    acc = acc_of(dtype)
    if not isinstance(given, np.ndarray):
        given = plain(what, given, acc)
    found = contiguous(what, array(what, given), acc)
    if found.shape != (channels,):
        raise ValueError(f"{what}: expected shape {[channels]}, found {list(found.shape)}")
    return found


def _changed(names, given, out):
    """Where running statistics are written. Each is memory of its own, and not that of the result."""
    places = [written(what, found) for what, found in zip(names, given)]
    for what, place in zip(names, places):
        apart(what, place)
        if out is not None and np.may_share_memory(place, out):
            raise ValueError(f"{what} and out: expected memory of their own, found the same")
    if np.shares_memory(*places):
        raise ValueError("running_mean and running_var: expected memory of their own, found the same")
    return places


def batch_norm(
    x,
    running_mean=None,
    running_var=None,
    weight=None,
    bias=None,
    training=False,
    momentum=0.1,
    eps=1e-5,
    *,
    out=None,
    return_stats=False,
    num_batches_tracked=0,
):
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
    if running_mean is None:
        return _channel_norm(("batch", None), x, weight, bias, eps, out, return_stats, (channels,))
    weight, bias = _parameter("weight", weight, x), _parameter("bias", bias, x)
    names, given = ("running_mean", "running_var"), (running_mean, running_var)
    mean, var = (_running(what, found, channels, x.dtype) for what, found in zip(names, given))
    if not training:
        if return_stats:
            raise ValueError("return_stats: expected training, found running statistics, which have none of a batch")
        y, to, how = _result(x, out, (x, weight, bias, mean, var))
        parameters = (optional(weight), optional(bias))
        _core.batch_infer(tensor(x), tensor(y), *parameters, eps, (address(mean), address(var), channels), how)
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
        (address(stats), channels),
        (address(mean), address(var), channels),
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
    dy, x, running_mean=None, running_var=None, weight=None, bias=None, training=False, eps=1e-5, *, stats=None
):
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
    running = (address(mean), address(var), channels)
    _core.batch_infer_backward(tensor(x), tensor(dy), optional(weight), eps, running, *map(optional, gradients), _FRESH)
    return gradients
