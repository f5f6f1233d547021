"""Custom operations ``torch.ops.layernorm.*``, with their fake implementations and gradients. They serve ``torch.compile``,
dispatch modes and tensor subclasses; plain tensors take the faster path of ``_eager.py``, which computes the same.
"""

from __future__ import annotations

# PyTorch 2.5 does not accept `list[…]` in the signatures of operations.
from typing import List  # noqa: UP035

import torch
from torch import Tensor

from . import _calls
from ._readable import check_saved
from ._transforms import map_each
from ._twice import infer_backward_backward, norm_backward_backward

# PyTorch selects CUDA if any tensor is there; the calls raise if the tensors are on different devices.
_DEVICES = ("cpu", "cuda")


def _or_empty(t, like):
    return like.new_empty((0,)) if t is None else t


def _present(t, wanted):
    return t if wanted else None


@torch.library.custom_op("layernorm::norm", mutates_args=(), device_types=_DEVICES)
def norm(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, kind: str, number: int, eps: float
) -> tuple[Tensor, Tensor]:
    """Returns y and the statistics ``[3, rows]``."""
    return _calls.forward((kind, number), x, weight, bias, eps, True)


@norm.register_fake
def _(x, weight, bias, kind, number, eps):
    op = (kind, number)
    stats = x.new_empty((3, _calls.stats_count(op, x.shape)), dtype=_calls.acc_of(x.dtype))
    return _calls.result_like(op, x), stats


@torch.library.custom_op("layernorm::norm_backward", mutates_args=(), device_types=_DEVICES)
def norm_backward(
    dy: Tensor,
    x: Tensor,
    weight: Tensor | None,
    bias_type: torch.dtype | None,
    stats: Tensor,
    kind: str,
    number: int,
    eps: float,
    mask: List[bool],  # noqa: UP006
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns dx, dweight and dbias; empty where the mask is False."""
    found = _calls.backward((kind, number), dy, x, weight, bias_type, stats, eps, mask)
    return tuple(_or_empty(t, x) for t in found)


@norm_backward.register_fake
def _(dy, x, weight, bias_type, stats, kind, number, eps, mask):
    op = (kind, number)
    dx = _calls.result_like(op, x) if mask[0] else x.new_empty((0,))
    dweight = torch.empty_like(weight) if mask[1] else x.new_empty((0,))
    dbias = x.new_empty(_calls.parameter_shape(op, x), dtype=bias_type) if mask[2] else x.new_empty((0,))
    return dx, dweight, dbias


def _type_of(t):
    return None if t is None else t.dtype


def _norm_setup(ctx, inputs, output):
    x, weight, bias, ctx.kind, ctx.number, ctx.eps = inputs
    # β itself may change before backward, as with torch.nn.
    ctx.bias_type = _type_of(bias)
    ctx.save_for_backward(x, weight, output[1])
    ctx.mark_non_differentiable(output[1])
    ctx.set_materialize_grads(False)


def _norm_gradient(ctx, dy, _):
    if dy is None:
        return (None,) * 6
    x, weight, stats = ctx.saved_tensors
    mask = list(ctx.needs_input_grad[:3])
    found = torch.ops.layernorm.norm_backward(dy, x, weight, ctx.bias_type, stats, ctx.kind, ctx.number, ctx.eps, mask)
    return (*map(_present, found, mask), None, None, None)


norm.register_autograd(_norm_gradient, setup_context=_norm_setup)


def _norm_backward_setup(ctx, inputs, output):
    dy, x, weight, _, _, kind, number, ctx.eps, ctx.mask = inputs
    ctx.op = (kind, number)
    ctx.save_for_backward(dy, x, weight)
    ctx.set_materialize_grads(False)


def _norm_backward_gradient(ctx, *u):
    dy, x, weight = ctx.saved_tensors
    check_saved(*ctx.saved_tensors, *u)
    u = map(_present, u, ctx.mask)
    by_dy, by_x, by_weight = norm_backward_backward(ctx.op, ctx.eps, dy, x, weight, *u)
    return by_dy, by_x, by_weight, None, None, None, None, None, None


norm_backward.register_autograd(_norm_backward_gradient, setup_context=_norm_backward_setup)


@torch.library.custom_op("layernorm::batch_norm_train", mutates_args=(), device_types=_DEVICES)
def batch_norm_train(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor,
    running_var: Tensor,
    momentum: float,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Returns y, the statistics ``[3, C]``, and the updated running mean and variance."""
    return _calls.batch_train(x, weight, bias, running_mean, running_var, momentum, eps)


@batch_norm_train.register_fake
def _(x, weight, bias, running_mean, running_var, momentum, eps):
    stats = x.new_empty((3, x.shape[1]), dtype=_calls.acc_of(x.dtype))
    return torch.empty_like(x), stats, torch.empty_like(running_mean), torch.empty_like(running_var)


def _batch_train_setup(ctx, inputs, output):
    x, weight, bias, _, _, _, ctx.eps = inputs
    ctx.bias_type = _type_of(bias)
    ctx.save_for_backward(x, weight, output[1])
    ctx.mark_non_differentiable(*output[1:])
    ctx.set_materialize_grads(False)


def _batch_train_gradient(ctx, dy, *_):
    if dy is None:
        return (None,) * 7
    x, weight, stats = ctx.saved_tensors
    mask = list(ctx.needs_input_grad[:3])
    found = torch.ops.layernorm.norm_backward(dy, x, weight, ctx.bias_type, stats, "batch", 0, ctx.eps, mask)
    return (*map(_present, found, mask), None, None, None, None)


batch_norm_train.register_autograd(_batch_train_gradient, setup_context=_batch_train_setup)


@torch.library.custom_op("layernorm::batch_norm_infer", mutates_args=(), device_types=_DEVICES)
def batch_norm_infer(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor,
    running_var: Tensor,
    eps: float,
) -> Tensor:
    """Batch norm with running statistics."""
    return _calls.batch_infer(x, weight, bias, running_mean, running_var, eps)


@batch_norm_infer.register_fake
def _(x, weight, bias, running_mean, running_var, eps):
    return torch.empty_like(x)


@torch.library.custom_op("layernorm::batch_norm_infer_backward", mutates_args=(), device_types=_DEVICES)
def batch_norm_infer_backward(
    dy: Tensor,
    x: Tensor,
    weight: Tensor | None,
    bias_type: torch.dtype | None,
    running_mean: Tensor,
    running_var: Tensor,
    eps: float,
    mask: List[bool],  # noqa: UP006
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns dx, dweight and dbias; empty where the mask is False."""
    found = _calls.batch_infer_backward(dy, x, weight, bias_type, running_mean, running_var, eps, mask)
    return tuple(_or_empty(t, x) for t in found)


@batch_norm_infer_backward.register_fake
def _(dy, x, weight, bias_type, running_mean, running_var, eps, mask):
    dx, dweight = (torch.empty_like(t) if wanted else x.new_empty((0,)) for t, wanted in zip((x, weight), mask))
    return dx, dweight, x.new_empty(x.shape[1:2] if mask[2] else (0,), dtype=bias_type if mask[2] else x.dtype)


def _infer_setup(ctx, inputs, output):
    x, weight, bias, mean, var, ctx.eps = inputs
    ctx.bias_type = _type_of(bias)
    ctx.save_for_backward(x, weight, mean, var)


def _infer_gradient(ctx, dy):
    x, weight, mean, var = ctx.saved_tensors
    mask = list(ctx.needs_input_grad[:3])
    found = torch.ops.layernorm.batch_norm_infer_backward(dy, x, weight, ctx.bias_type, mean, var, ctx.eps, mask)
    return (*map(_present, found, mask), None, None, None)


batch_norm_infer.register_autograd(_infer_gradient, setup_context=_infer_setup)


def _infer_backward_setup(ctx, inputs, output):
    dy, x, weight, _, mean, var, ctx.eps, ctx.mask = inputs
    ctx.save_for_backward(dy, x, weight, mean, var)
    ctx.set_materialize_grads(False)


def _infer_backward_gradient(ctx, *u):
    check_saved(*ctx.saved_tensors, *u)
    u = map(_present, u, ctx.mask)
    by_dy, by_x, by_weight = infer_backward_backward(ctx.eps, *ctx.saved_tensors, *u)
    return by_dy, by_x, by_weight, None, None, None, None, None


batch_norm_infer_backward.register_autograd(_infer_backward_gradient, setup_context=_infer_backward_setup)

for _name in ("norm", "norm_backward", "batch_norm_train", "batch_norm_infer", "batch_norm_infer_backward"):
    map_each(globals()[_name], getattr(torch.ops.layernorm, _name))
