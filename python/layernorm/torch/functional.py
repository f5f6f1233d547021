"""Norms as functions, with the signatures of :mod:`torch.nn.functional`."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ._eager import check_eps, has_data, norm, refuse_tangents, row_norm, same_device, transformed
from ._readable import check_shape, check_tensor, check_tensors, readable, share_memory
from ._transforms import Infer
from ._types import acc_of, code_of

__all__ = ["batch_norm", "group_norm", "instance_norm", "layer_norm", "rms_norm"]


def _trailing(input: Tensor, normalized_shape: tuple[int, ...]) -> int:
    """Checks ``normalized_shape`` and returns its number of axes."""
    check_tensor("input", input)
    count = len(normalized_shape)
    if count == 0:
        raise ValueError("normalized_shape: expected at least one dimension, found none")
    if input.shape[-count:] != normalized_shape:
        raise ValueError(
            f"input: expected a shape that ends in normalized_shape {list(normalized_shape)}, found {list(input.shape)}"
        )
    return count


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Applies layer normalization over the trailing axes, like :func:`torch.nn.functional.layer_norm`.

    Args:
        input: tensor ``(*, *normalized_shape)``.
        normalized_shape: shape of the trailing axes.
        weight: gain of shape ``normalized_shape``. Default: 1.
        bias: bias of shape ``normalized_shape``. Default: 0.
        eps: added to the variance.

    Returns:
        Tensor of the shape and type of ``input``.

    Raises:
        TypeError: if a type is not supported.
        ValueError: if shapes or devices do not match.
    """
    shape = tuple(normalized_shape)
    return row_norm(input, weight, bias, ("layer", _trailing(input, shape)), shape, eps)


def rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """Applies RMS normalization over the trailing axes, like :func:`torch.nn.functional.rms_norm`.

    Args:
        input: tensor ``(*, *normalized_shape)``.
        normalized_shape: shape of the trailing axes.
        weight: gain of shape ``normalized_shape``. Default: 1.
        eps: added to the mean square. Default: the machine epsilon of the accumulation type, float32 or float64.

    Returns:
        Tensor of the shape and type of ``input``.

    Raises:
        TypeError: if a type is not supported.
        ValueError: if shapes or devices do not match.
    """
    shape = tuple(normalized_shape)
    count = _trailing(input, shape)
    if eps is None:
        eps = torch.finfo(acc_of(input.dtype)).eps
    return row_norm(input, weight, None, ("rms", count), shape, eps)


def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Applies group normalization, like :func:`torch.nn.functional.group_norm`.

    Args:
        input: tensor ``(N, C, *)``.
        num_groups: number of groups, a divisor of C.
        weight: gain ``(C,)``. Default: 1.
        bias: bias ``(C,)``. Default: 0.
        eps: added to the variance.

    Returns:
        Tensor of the shape and type of ``input``.

    Raises:
        TypeError: if a type is not supported.
        ValueError: if shapes or devices do not match, or ``num_groups`` does not divide C.
    """
    _at_least_two(input)
    if num_groups < 1:
        raise ValueError(f"groups: expected a divisor of the {input.shape[1]} channels, found {num_groups}")
    return norm(input, weight, bias, ("group", num_groups), eps)


def _at_least_two(input: Tensor) -> None:
    check_tensor("input", input)
    if input.dim() < 2:
        raise ValueError(f"input: expected at least 2 dimensions, found {input.dim()}")


def _check_running(input: Tensor, running_mean: Tensor, running_var: Tensor) -> None:
    """Raises for running statistics that cannot be read or updated."""
    for what, t in (("running_mean", running_mean), ("running_var", running_var)):
        if t.layout is not torch.strided:
            raise TypeError(f"{what}: expected a dense tensor, found one with layout {t.layout}")
    same_device(input, running_mean, running_var)
    known = has_data(running_mean, running_var)
    for what, t in (("running_mean", running_mean), ("running_var", running_var)):
        check_shape(what, t, (input.shape[1],))
        code_of(what, t.dtype)
        if known:
            readable(what, t)
    if known and share_memory(running_mean, running_var):
        raise ValueError("running_mean and running_var: must not share memory")


def _check_both(running_mean: Tensor | None, running_var: Tensor | None) -> None:
    if (running_mean is None) != (running_var is None):
        raise ValueError("expected both running_mean and running_var, found only one")


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Applies instance normalization, like :func:`torch.nn.functional.instance_norm`.

    Args:
        input: tensor ``(N, C, *)``.
        running_mean: running mean ``(C,)``, updated in place if ``use_input_stats``.
        running_var: running variance ``(C,)``, updated in place if ``use_input_stats``.
        weight: gain ``(C,)``. Default: 1.
        bias: bias ``(C,)``. Default: 0.
        use_input_stats: whether to normalize each channel of each sample with its own statistics, instead of the running ones.
        momentum: weight of the input's statistics, averaged over the samples, in the running statistics.
        eps: added to the variance.

    Returns:
        Tensor of the shape and type of ``input``.

    Raises:
        TypeError: if a type is not supported.
        ValueError: if shapes or devices do not match, there is only one value per channel, running statistics share memory, only
            one of them is given, or they are missing and ``use_input_stats`` is False.
    """
    _at_least_two(input)
    check_tensors(running_mean=running_mean, running_var=running_var, weight=weight, bias=bias)
    _check_both(running_mean, running_var)
    if not use_input_stats:
        if running_mean is None or running_var is None:
            raise ValueError("expected running_mean and running_var if the input's statistics are not used")
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    _several_values(input, input.shape[2:])
    if running_mean is not None and running_var is not None:
        _check_running(input, running_mean, running_var)
        samples = input.shape[0]
        with torch.no_grad():
            flat = input.detach().reshape(1, -1, *input.shape[2:])
            found = torch.ops.layernorm.batch_norm_train(
                flat, None, None, running_mean.repeat(samples), running_var.repeat(samples), momentum, eps
            )
            running_mean.copy_(found[2].view(samples, -1).mean(0))
            running_var.copy_(found[3].view(samples, -1).mean(0))
    return norm(input, weight, bias, ("group", input.shape[1]), eps)


def _several_values(input: Tensor, shape: Sequence[int]) -> None:
    count = 1
    for dim in shape:
        count *= dim
    if count == 1:
        raise ValueError(f"expected more than one value per channel in training, found shape {list(input.shape)}")


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Applies batch normalization, like :func:`torch.nn.functional.batch_norm`.

    Args:
        input: tensor ``(N, C, *)``.
        running_mean: running mean ``(C,)``, updated in place in training.
        running_var: running variance ``(C,)``, updated in place in training.
        weight: gain ``(C,)``. Default: 1.
        bias: bias ``(C,)``. Default: 0.
        training: whether to normalize with the statistics of the batch, instead of the running ones.
        momentum: weight of the batch in the running statistics.
        eps: added to the variance.

    Returns:
        Tensor of the shape and type of ``input``.

    Raises:
        TypeError: if a type is not supported.
        ValueError: if shapes or devices do not match, there is only one value per channel in training, running statistics share
            memory, only one of them is given, or they are missing outside training.
    """
    _at_least_two(input)
    check_tensors(running_mean=running_mean, running_var=running_var, weight=weight, bias=bias)
    _check_both(running_mean, running_var)
    check_eps(eps)
    refuse_tangents(input, weight, bias)
    same_device(input, weight, bias, running_mean, running_var)
    if not training:
        if running_mean is None or running_var is None:
            raise ValueError("expected running_mean and running_var outside training")
        arguments = (input, weight, bias, running_mean, running_var, eps)
        return Infer.apply(*arguments)[0] if transformed() else torch.ops.layernorm.batch_norm_infer(*arguments)
    _several_values(input, (input.shape[0], *input.shape[2:]))
    if running_mean is None or running_var is None:
        return norm(input, weight, bias, ("batch", 0), eps)
    _check_running(input, running_mean, running_var)
    y, _, mean, var = torch.ops.layernorm.batch_norm_train(
        input, weight, bias, running_mean, running_var, momentum, eps
    )
    with torch.no_grad():
        running_mean.copy_(mean)
        running_var.copy_(var)
    return y
