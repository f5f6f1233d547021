"""The short way for plain tensors: autograd without the dispatcher, whose Python operations cost some tens of microseconds a
call. What it computes is what ``_ops.py`` does.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import Parameter

from . import _calls, _ops  # noqa: F401  (the operations are registered)
from ._transforms import Norm
from ._twice import norm_backward_backward

_compiling = torch.compiler.is_compiling
_grad_enabled = torch.is_grad_enabled
_dispatch_modes = torch._C._len_torch_dispatch_stack
_function_modes = torch._C._len_torch_function_stack
_transform = torch._C._functorch.peek_interpreter_stack


def _plain(t):
    return t is None or ((type(t) is Tensor or type(t) is Parameter) and t.is_cpu)


class _Norm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, op, eps):
        y, stats = _calls.forward(op, x, weight, bias, eps, True)
        ctx.save_for_backward(x, weight, bias, stats)
        ctx.op, ctx.eps = op, eps
        return y

    @staticmethod
    def backward(ctx, dy):
        x, weight, bias, stats = ctx.saved_tensors
        mask = ctx.needs_input_grad[:3]
        if _grad_enabled():
            found = _NormBackward.apply(dy, x, weight, bias, stats, ctx.op, ctx.eps, mask)
        else:
            found = _calls.backward(ctx.op, dy, x, weight, bias, stats, ctx.eps, mask)
        return (*found, None, None)


class _NormBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, dy, x, weight, bias, stats, op, eps, mask):
        ctx.save_for_backward(dy, x, weight)
        ctx.op, ctx.eps = op, eps
        ctx.set_materialize_grads(False)
        return _calls.backward(op, dy, x, weight, bias, stats, eps, mask)

    @staticmethod
    def backward(ctx, *u):
        return (*norm_backward_backward(ctx.op, ctx.eps, *ctx.saved_tensors, *u), None, None, None, None, None)


def norm(x, weight, bias, op, eps):
    """y, by the short way where that is possible."""
    if _compiling():
        return torch.ops.layernorm.norm(x, weight, bias, *op, eps)[0]
    if _transform() is not None:
        return Norm.apply(x, weight, bias, op, eps)[0]
    short = _plain(x) and _plain(weight) and _plain(bias) and not _dispatch_modes() and not _function_modes()
    if not short:
        return torch.ops.layernorm.norm(x, weight, bias, *op, eps)[0]
    needs_grad = _grad_enabled() and (
        x.requires_grad or (weight is not None and weight.requires_grad) or (bias is not None and bias.requires_grad)
    )
    if needs_grad:
        return _Norm.apply(x, weight, bias, op, eps)
    return _calls.forward(op, x, weight, bias, eps, False)[0]
