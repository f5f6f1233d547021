"""Group, instance and batch norm of NumPy arrays ``[N, C, …]``; types and rounding as in ``_row_norms``."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from . import _core
from ._arrays import acc_of, apart, array, contiguous, flat, optional, plain, tensor, written
from ._norm_calls import (
    FRESH,
    Gradients,
    Op,
    Stats,
    backward,
    copied_out,
    empty_gradients,
    empty_stats,
    parameter,
    result_place,
    split_stats,
)


def _channels(x: np.ndarray) -> int:
    if x.ndim < 2:
        raise ValueError(f"input: expected at least 2 dimensions, found {x.ndim}")
    return x.shape[1]


def _channel_norm(
    op: Op,
    x: np.ndarray,
    weight: ArrayLike | None,
    bias: ArrayLike | None,
    eps: float,
    out: np.ndarray | None,
    return_stats: bool,
    outer: tuple[int, ...],
) -> Any:
    weight, bias = parameter("weight", weight, x), parameter("bias", bias, x)
    # Only row norms can work in place.
    y, to, how = result_place(x, out, (x, weight, bias) if out is not None else ())
    stats = empty_stats(outer, x.dtype) if return_stats or op[0] == "batch" else None
    place = None if stats is None else flat(stats)
    _core.forward(op, tensor(x), tensor(y), optional(weight), optional(bias), False, eps, place, None, how)
    y = copied_out(y, to, out)
    return (y, split_stats(stats)) if return_stats and stats is not None else y


def _group_op(x: np.ndarray, num_groups: int) -> tuple[Op, tuple[int, ...]]:
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
    return backward(op, dy, x, weight, bias, eps, stats, outer)


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
    return backward(("group", channels), dy, x, weight, bias, eps, stats, x.shape[:2])


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
    weight, bias = parameter("weight", weight, x), parameter("bias", bias, x)
    names, given = ("running_mean", "running_var"), (running_mean, running_var)
    mean, var = (_running(what, found, channels, x.dtype) for what, found in zip(names, given))
    if not training:
        if return_stats:
            raise ValueError("return_stats: not available with running statistics")
        y, to, how = result_place(x, out, (x, weight, bias, mean, var))
        parameters = (optional(weight), optional(bias))
        _core.batch_infer(tensor(x), tensor(y), *parameters, eps, (flat(mean), flat(var)), how)
        return copied_out(y, to, out)
    if num_batches_tracked < 0:
        raise ValueError(f"num_batches_tracked: expected 0 or more, found {num_batches_tracked}")
    y, to, how = result_place(x, out, (x, weight, bias))
    places = _changed(names, given, out)
    # Inputs must not change while they are read.
    mean, var = (
        found.copy() if any(o is not None and np.may_share_memory(found, o) for o in (x, weight, bias)) else found
        for found in (mean, var)
    )
    stats = empty_stats((channels,), x.dtype)
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
    y = copied_out(y, to, out)
    return (y, split_stats(stats)) if return_stats else y


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
        return backward(("batch", None), dy, x, weight, bias, eps, stats, (channels,))
    if running_var is None:
        raise ValueError("expected both running_mean and running_var, found only one")
    dy = array("gradient of the output", dy)
    weight, bias = parameter("weight", weight, x), parameter("bias", bias, x)
    mean = _running("running_mean", running_mean, channels, x.dtype)
    var = _running("running_var", running_var, channels, x.dtype)
    gradients = empty_gradients(x, weight, bias)
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
        FRESH,
    )
    return gradients
