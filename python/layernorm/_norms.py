"""Normalizations of NumPy arrays.

Every function takes arrays of float16, bfloat16 (of ml_dtypes), float32 or float64 with any strides, computes in float32
(float64 for float64) and rounds the result once. Weights and biases are in the input's type or float32. Results have the
input's type.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from . import _core
from ._arrays import acc_of, address, apart, array, contiguous, flat, numbers, optional, output, plain, tensor, written

_Axes = int | Sequence[int] | None
# A norm as the extension module takes it: its name, and a number of trailing axes, the axes, a number of groups, or None.
_Op = tuple[str, int | tuple[int, ...] | None]
# (threads, fresh): 0 means all cores unless `set_num_threads` was called; fresh outputs were just allocated.
_FRESH = (0, True)
_GIVEN = (0, False)


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


def _parameter(what: str, value: ArrayLike | None, like: np.ndarray) -> np.ndarray | None:
    """Converts a weight or bias. Lists and numbers take the input's type."""
    if value is None:
        return None
    if not isinstance(value, np.ndarray):
        value = plain(what, value, like.dtype)
    return array(what, value)


def _integers(value: Any) -> tuple[int, ...]:
    return tuple(map(operator.index, value)) if isinstance(value, (tuple, list)) else (operator.index(value),)


def _rows(x: np.ndarray, normalized_shape: _Axes, axis: _Axes) -> tuple[int | tuple[int, ...], tuple[int, ...]]:
    """Returns the axes of a row (a number of trailing axes, or a tuple of axes) and the shape of the statistics."""
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
    """Allocates statistics ``[3, *shape]``."""
    return np.empty((3, *shape), dtype=acc_of(dtype))


def _stats(whole: np.ndarray) -> Stats:
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


def _result(
    x: np.ndarray, out: np.ndarray | None, others: Iterable[np.ndarray | None]
) -> tuple[np.ndarray, np.ndarray | None, tuple[int, bool]]:
    """Returns the array to compute into, the array to copy that to afterwards (or None), and ``(threads, fresh)``."""
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
    """Copies y to its destination and returns ``out`` if it was given, otherwise y."""
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
    """Applies layer normalization: ``y = (x − mean)/sqrt(var + eps)·weight + bias``.

    Mean and variance are computed over each row: the last axis, the trailing axes of ``normalized_shape``, or the axes given
    by ``axis``.

    Args:
        x: input of any shape.
        normalized_shape: int or tuple, the shape of the trailing axes to normalize over, as in PyTorch.
        weight: gain, of the shape of the normalized axes, in the order of x. Default: 1.
        bias: bias, of the same shape as ``weight``. Default: 0.
        eps: added to the variance.
        axis: int or tuple, the axes to normalize over, instead of ``normalized_shape``.
        residual: array of x's shape. ``h = x + residual``, rounded to x's type, is normalized instead of x.
        out: array of x's shape and type to write y to. It may be x.
        return_stats: whether to return :class:`Stats` for :func:`layer_norm_backward`.
        zero_centered: whether the gain is ``1 + weight`` instead of ``weight``.

    Returns:
        y, of the shape and type of x. With ``residual``: ``(y, h)``. With ``return_stats``, :class:`Stats` come last:
        ``(y, stats)`` or ``(y, h, stats)``.

    Raises:
        TypeError: if a type is not supported, or an array is masked.
        ValueError: if shapes do not match, or ``out`` is read-only.

    Example:
        >>> import numpy as np, layernorm
        >>> x = np.arange(8, dtype=np.float32).reshape(2, 4)
        >>> layernorm.layer_norm(x, 4).round(3)
        array([[-1.342, -0.447,  0.447,  1.342],
               [-1.342, -0.447,  0.447,  1.342]], dtype=float32)
        >>> y, stats = layernorm.layer_norm(x, 4, return_stats=True)
        >>> stats.mean
        array([1.5, 5.5], dtype=float32)
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
    """Computes the gradients of :func:`layer_norm`.

    Args:
        dy: gradient of y, of x's shape.
        x: input of the forward pass; with a residual, the returned ``h``.
        normalized_shape, weight, eps, axis, zero_centered: as in the forward pass.
        bias: bias of the forward pass. Only its shape and type are used.
        stats: :class:`Stats` returned by the forward pass. If omitted, they are recomputed.
        dh: gradient of ``h`` from its other uses, of x's shape; added to the gradient of the input.

    Returns:
        :class:`Gradients` of x (and of the residual, which has the same gradient), weight and bias.

    Raises:
        TypeError: if a type is not supported, or an array is masked.
        ValueError: if shapes do not match.

    Example:
        >>> import numpy as np, layernorm
        >>> x = np.arange(8, dtype=np.float32).reshape(2, 4)
        >>> weight = np.full(4, 2.0, np.float32)
        >>> y, stats = layernorm.layer_norm(x, 4, weight, return_stats=True)
        >>> gradients = layernorm.layer_norm_backward(np.ones_like(x), x, 4, weight, stats=stats)
        >>> gradients.weight.round(3)
        array([-2.683, -0.894,  0.894,  2.683], dtype=float32)
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
    """Applies RMS normalization: ``y = x/sqrt(mean(x²) + eps)·weight``, plus ``bias`` if given.

    Arguments, return values, their shapes and the exceptions are those of :func:`layer_norm`. PyTorch's default for ``eps``
    is the machine epsilon of the type; here it is 10⁻⁵.

    Example:
        >>> import numpy as np, layernorm
        >>> layernorm.rms_norm(np.array([[3.0, 4.0]], np.float32)).round(3)
        array([[0.849, 1.131]], dtype=float32)
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
    """Computes the gradients of :func:`rms_norm`.

    Arguments, return values, their shapes and the exceptions are those of :func:`layer_norm_backward`.
    """
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
    # Only row norms can work in place.
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
    # Checked before the statistics are allocated.
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
    """Applies group normalization: splits the channels of each sample into groups and normalizes each group.

    Args:
        x: input ``[N, C, …]``.
        num_groups: number of groups, a divisor of C.
        weight: gain ``[C]``. Default: 1.
        bias: bias ``[C]``. Default: 0.
        eps: added to the variance.
        out: array of x's shape and type to write y to.
        return_stats: whether to return :class:`Stats` for :func:`group_norm_backward`.

    Returns:
        y ``[N, C, …]``, of x's type. With ``return_stats``: ``(y, stats)`` with :class:`Stats` ``[N, num_groups]``.

    Raises:
        TypeError: if a type is not supported, or an array is masked.
        ValueError: if shapes do not match, ``num_groups`` does not divide C, or ``out`` is read-only.

    Example:
        >>> import numpy as np, layernorm
        >>> x = np.arange(8, dtype=np.float32).reshape(1, 4, 2)
        >>> layernorm.group_norm(x, 2).round(3)[0, 2:]
        array([[-1.342, -0.447],
               [ 0.447,  1.342]], dtype=float32)
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
    """Computes the gradients of :func:`group_norm`.

    Args:
        dy: gradient of y ``[N, C, …]``.
        x: input of the forward pass ``[N, C, …]``.
        num_groups, weight, eps: as in the forward pass.
        bias: bias of the forward pass ``[C]``. Only its shape and type are used.
        stats: :class:`Stats` ``[N, num_groups]`` returned by the forward pass. If omitted, they are recomputed.

    Returns:
        :class:`Gradients` of x ``[N, C, …]``, weight and bias ``[C]``.

    Raises:
        TypeError: if a type is not supported, or an array is masked.
        ValueError: if shapes do not match, or ``num_groups`` does not divide C.
    """
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
    """Applies instance normalization: normalizes each channel of each sample. The same as group norm with C groups.

    Args:
        x: input ``[N, C, …]``.
        weight: gain ``[C]``. Default: 1.
        bias: bias ``[C]``. Default: 0.
        eps: added to the variance.
        out: array of x's shape and type to write y to.
        return_stats: whether to return :class:`Stats` for :func:`instance_norm_backward`.

    Returns:
        y ``[N, C, …]``, of x's type. With ``return_stats``: ``(y, stats)`` with :class:`Stats` ``[N, C]``.

    Raises:
        TypeError: if a type is not supported, or an array is masked.
        ValueError: if shapes do not match, or ``out`` is read-only.

    Example:
        >>> import numpy as np, layernorm
        >>> x = np.arange(8, dtype=np.float32).reshape(1, 2, 4)
        >>> layernorm.instance_norm(x).round(3)[0, 1]
        array([-1.342, -0.447,  0.447,  1.342], dtype=float32)
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
    """Computes the gradients of :func:`instance_norm`.

    Args:
        dy: gradient of y ``[N, C, …]``.
        x: input of the forward pass ``[N, C, …]``.
        weight, eps: as in the forward pass.
        bias: bias of the forward pass ``[C]``. Only its shape and type are used.
        stats: :class:`Stats` ``[N, C]`` returned by the forward pass. If omitted, they are recomputed.

    Returns:
        :class:`Gradients` of x ``[N, C, …]``, weight and bias ``[C]``.

    Raises:
        TypeError: if a type is not supported, or an array is masked.
        ValueError: if shapes do not match.
    """
    x = array("input", x)
    channels = _channels(x)
    return _channel_norm_backward(("group", channels), dy, x, weight, bias, eps, stats, x.shape[:2])


def _running(what: str, given: ArrayLike, channels: int, dtype: np.dtype[Any]) -> np.ndarray:
    """Converts running statistics ``[channels]`` to the accumulation type."""
    acc = acc_of(dtype)
    if not isinstance(given, np.ndarray):
        given = plain(what, given, acc)
    found = contiguous(what, array(what, given), acc)
    if found.shape != (channels,):
        raise ValueError(f"{what}: expected shape {[channels]}, found {list(found.shape)}")
    return found


def _changed(names: Sequence[str], given: Sequence[ArrayLike], out: np.ndarray | None) -> list[np.ndarray]:
    """Checks running statistics that will be updated: they must overlap neither each other nor the result."""
    places = [written(what, found) for what, found in zip(names, given)]
    for what, place in zip(names, places):
        apart(what, place)
        if out is not None and np.may_share_memory(place, out):
            raise ValueError(f"{what} and out: must not share memory")
    if np.shares_memory(places[0], places[1]):
        raise ValueError("running_mean and running_var: must not share memory")
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
    """Applies batch normalization: normalizes each channel over the batch, or with running statistics.

    With ``training``, or without running statistics, mean and variance are those of the batch. With ``training`` the running
    statistics are updated in place.

    Args:
        x: input ``[N, C, …]``.
        running_mean: running mean ``[C]``, a floating-point array.
        running_var: running variance ``[C]``, a floating-point array.
        weight: gain ``[C]``. Default: 1.
        bias: bias ``[C]``. Default: 0.
        training: whether to normalize with the statistics of the batch.
        momentum: weight of the batch in the running statistics. None: running statistics are the average over all batches.
        eps: added to the variance.
        out: array of x's shape and type to write y to.
        return_stats: whether to return :class:`Stats` for :func:`batch_norm_backward`.
        num_batches_tracked: number of earlier batches, for ``momentum=None``.

    Returns:
        y ``[N, C, …]``, of x's type. With ``return_stats``: ``(y, stats)`` with :class:`Stats` ``[C]`` of the batch.

    Raises:
        TypeError: if a type is not supported, or an array is masked.
        ValueError: if shapes do not match, only one of the running statistics is given, an array to be written is read-only
            or shares memory with another one, or ``return_stats`` is given with running statistics and no ``training``.

    Example:
        >>> import numpy as np, layernorm
        >>> x = np.array([[1.0, 10.0], [3.0, 30.0]], np.float32)
        >>> layernorm.batch_norm(x).round(3)
        array([[-1., -1.],
               [ 1.,  1.]], dtype=float32)
        >>> mean, var = np.zeros(2, np.float32), np.ones(2, np.float32)
        >>> y = layernorm.batch_norm(x, mean, var, training=True, momentum=0.5)
        >>> mean
        array([ 1., 10.], dtype=float32)
    """
    x = array("input", x)
    channels = _channels(x)
    if (running_mean is None) != (running_var is None):
        raise ValueError("expected both running_mean and running_var, found only one")
    if running_mean is None or running_var is None:
        return _channel_norm(("batch", None), x, weight, bias, eps, out, return_stats, (channels,))
    weight, bias = _parameter("weight", weight, x), _parameter("bias", bias, x)
    names, given = ("running_mean", "running_var"), (running_mean, running_var)
    mean, var = (_running(what, found, channels, x.dtype) for what, found in zip(names, given))
    if not training:
        if return_stats:
            raise ValueError("return_stats: not available with running statistics")
        y, to, how = _result(x, out, (x, weight, bias, mean, var))
        parameters = (optional(weight), optional(bias))
        _core.batch_infer(tensor(x), tensor(y), *parameters, eps, (flat(mean), flat(var)), how)
        return _finish(y, to, out)
    if num_batches_tracked < 0:
        raise ValueError(f"num_batches_tracked: expected 0 or more, found {num_batches_tracked}")
    y, to, how = _result(x, out, (x, weight, bias))
    places = _changed(names, given, out)
    # Inputs must not change while they are read.
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
    """Computes the gradients of :func:`batch_norm`.

    With ``training``, or without running statistics, gradients flow through the statistics of the batch. Otherwise the running
    statistics are constants.

    Args:
        dy: gradient of y ``[N, C, …]``.
        x: input of the forward pass ``[N, C, …]``.
        running_mean, running_var: running statistics ``[C]``.
        weight, training, eps: as in the forward pass.
        bias: bias of the forward pass ``[C]``. Only its shape and type are used.
        stats: :class:`Stats` ``[C]`` returned by the forward pass. If omitted, they are recomputed.

    Returns:
        :class:`Gradients` of x ``[N, C, …]``, weight and bias ``[C]``.

    Raises:
        TypeError: if a type is not supported, or an array is masked.
        ValueError: if shapes do not match, or ``running_var`` is missing.
    """
    x = array("input", x)
    channels = _channels(x)
    if training or running_mean is None:
        return _channel_norm_backward(("batch", None), dy, x, weight, bias, eps, stats, (channels,))
    if running_var is None:
        raise ValueError("expected both running_mean and running_var, found only one")
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
