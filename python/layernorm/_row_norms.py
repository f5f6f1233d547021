"""Layer norm and RMS norm of NumPy arrays.

Every function takes arrays of float16, bfloat16 (of ml_dtypes), float32 or float64 with any strides, computes in float32
(float64 for float64) and rounds the result once. Weights and biases are in the input's type or float32. Results have the
input's type.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from . import _core
from ._arrays import array, flat, optional, tensor
from ._norm_calls import Gradients, Stats, backward, copied_out, empty_stats, parameter, result_place, split_stats

Axes = int | Sequence[int] | None


def _integers(value: Any) -> tuple[int, ...]:
    return tuple(map(operator.index, value)) if isinstance(value, (tuple, list)) else (operator.index(value),)


def _rows(x: np.ndarray, normalized_shape: Axes, axis: Axes) -> tuple[int | tuple[int, ...], tuple[int, ...]]:
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


def _row_norm(
    name: str,
    x: ArrayLike,
    normalized_shape: Axes,
    weight: ArrayLike | None,
    bias: ArrayLike | None,
    eps: float,
    axis: Axes,
    residual: ArrayLike | None,
    out: np.ndarray | None,
    return_stats: bool,
    zero_centered: bool,
) -> Any:
    x = array("input", x)
    rows, outer = _rows(x, normalized_shape, axis)
    weight, bias = parameter("weight", weight, x), parameter("bias", bias, x)
    extra = None
    if residual is not None:
        residual = array("residual", residual)
        h = np.empty_like(x, subok=False)
        extra = (tensor(residual), tensor(h))
    y, to, how = result_place(x, out, (weight, bias, residual) if residual is None else (weight, bias, residual, x))
    stats = empty_stats(outer, x.dtype) if return_stats else None
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
    y = copied_out(y, to, out)
    results: tuple[Any, ...] = (y,) if residual is None else (y, h)
    if stats is not None:
        results += (split_stats(stats),)
    return results if len(results) > 1 else y


def _row_norm_backward(
    name: str,
    dy: ArrayLike,
    x: ArrayLike,
    normalized_shape: Axes,
    weight: ArrayLike | None,
    bias: ArrayLike | None,
    eps: float,
    axis: Axes,
    stats: Stats | None,
    dh: ArrayLike | None,
    zero_centered: bool,
) -> Gradients:
    x = array("input", x)
    axes, outer = _rows(x, normalized_shape, axis)
    return backward((name, axes), dy, x, weight, bias, eps, stats, outer, dh, zero_centered)


def layer_norm(
    x: ArrayLike,
    normalized_shape: Axes = None,
    weight: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    eps: float = 1e-5,
    *,
    axis: Axes = None,
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
    normalized_shape: Axes = None,
    weight: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    eps: float = 1e-5,
    *,
    axis: Axes = None,
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
    normalized_shape: Axes = None,
    weight: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    eps: float = 1e-5,
    *,
    axis: Axes = None,
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
    normalized_shape: Axes = None,
    weight: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    eps: float = 1e-5,
    *,
    axis: Axes = None,
    stats: Stats | None = None,
    dh: ArrayLike | None = None,
    zero_centered: bool = False,
) -> Gradients:
    """Computes the gradients of :func:`rms_norm`.

    Arguments, return values, their shapes and the exceptions are those of :func:`layer_norm_backward`.
    """
    return _row_norm_backward("rms", dy, x, normalized_shape, weight, bias, eps, axis, stats, dh, zero_centered)
