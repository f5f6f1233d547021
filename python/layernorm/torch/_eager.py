"""The fast path for plain tensors: autograd without the dispatcher, whose Python operations cost tens of microseconds per call.
It computes the same as ``_ops.py``.
"""

from __future__ import annotations

from math import inf, prod

from torch.autograd import forward_ad
from torch.nn import Parameter

import torch
from torch import Tensor

from .._core import rows_backward, rows_forward
from . import _calls, _memory, _ops  # noqa: F401  (registers the operations)
from ._memory import LARGE_COUNT
from ._modes import apply_of, differentiates_forward, is_batched
from ._modes import dispatch_modes as _dispatch_modes
from ._modes import function_modes as _function_modes
from ._modes import tracing as _tracing
from ._modes import transform as _transform
from ._readable import check_saved, check_tensor, check_tensors
from ._readable import is_plain as _plain
from ._readable import is_stored as _is_stored
from ._transforms import Norm
from ._twice import norm_backward_backward
from ._types import CODES, UNALIGNED

_empty, _empty_like, _threads = torch.empty, torch.empty_like, torch.get_num_threads
_FLOAT32 = torch.float32
_compiling = torch.compiler.is_compiling
_grad_enabled = torch.is_grad_enabled


def together(x, *others):
    """Returns whether tensors are on one device. If not, the operations raise."""
    return (
        all(t is None or t.is_cpu for t in others)
        if x.is_cpu
        else all(t is None or t.device == x.device for t in others)
    )


def has_data(*tensors):
    """Returns whether all tensors are plain ones with memory: not while tracing, nor under a transformation."""
    known = not _compiling() and not _dispatch_modes() and all(map(_plain, tensors))
    return known and not any(map(is_batched, tensors))


class _Rows(torch.autograd.Function):
    """Layer and RMS norm of contiguous rows. Their statistics are not a tensor, because its allocation would cost a microsecond."""

    @staticmethod
    def forward(ctx, x, weight, bias, how):
        op, n, eps = how
        y, saved = _rows_forward(x, weight, bias, op, n, eps, True)
        ctx.save_for_backward(x, weight)
        # Backward needs only the type of β.
        ctx.how = (op, n, eps, saved, None if bias is None else bias.dtype)
        return y

    @staticmethod
    def backward(ctx, dy):
        x, weight = ctx.saved_tensors
        op, n, eps, saved, bias_type = ctx.how
        for_x, for_weight, for_bias, _ = ctx.needs_input_grad
        # The gradient may be batched or a zero tensor; the parameters may have been freed.
        if (
            _grad_enabled()
            or is_batched(dy)
            or not (_is_stored(dy) and _is_stored(x) and (weight is None or _is_stored(weight)))
            or not (at := dy.data_ptr())
            or at & UNALIGNED[dy.dtype]
        ):
            return _general_backward(ctx, dy, x, weight)
        dx = _result(x) if for_x else None
        dweight = _empty_like(weight) if for_weight else None
        dbias = None
        if for_bias:
            like = for_weight and weight.dtype is bias_type
            dbias = _empty_like(weight) if like else _empty(x.shape[-op[1] :], dtype=bias_type, device="cpu")
        done = rows_backward(
            op[0] == "layer",
            CODES[x.dtype],
            n,
            x.data_ptr(),
            x.numel(),
            (at, CODES[dy.dtype], dy.numel()),
            None if weight is None else weight.data_ptr(),
            0 if weight is None else CODES[weight.dtype],
            0 if weight is None else weight.numel(),
            eps,
            saved,
            dx.data_ptr() if for_x else None,
            dweight.data_ptr() if for_weight else None,
            dbias.data_ptr() if for_bias else None,
            CODES[bias_type] if for_bias else 0,
            _threads(),
        )
        # Hooks, or assignments to `data`, may have replaced saved tensors with others of another address or layout.
        return (dx, dweight, dbias, None) if done else _general_backward(ctx, dy, x, weight)


# `row_norm` has ruled out transformations and their dead wrappers, which `Function.apply` would check for.
_rows_apply = apply_of(_Rows)


def _general_backward(ctx, dy, x, weight):
    op, _, eps, saved, bias_type = ctx.how
    return (*_gradients(dy, x, weight, bias_type, saved, op, eps, ctx.needs_input_grad[:3]), None)


def _gradients(dy, x, weight, bias_type, stats, op, eps, mask):
    """Returns dx, dweight and dbias, by a function that can be differentiated or transformed if required."""
    if is_batched(dy):
        # Batched gradients need an operation with a vmap rule, which takes statistics as a tensor: compute them again.
        stats = torch.ops.layernorm.norm(x.detach(), None, None, *op, eps)[1]
        found = torch.ops.layernorm.norm_backward(dy, x, weight, bias_type, stats, *op, eps, list(mask))
        return tuple(t if wanted else None for t, wanted in zip(found, mask))
    if _grad_enabled():
        return _NormBackward.apply(dy, x, weight, bias_type, stats, op, eps, mask)
    return _calls.backward(op, dy, x, weight, bias_type, stats, eps, mask)


def _result(x):
    return _empty_like(x) if x.numel() < LARGE_COUNT else _memory.empty_like(x)


def _rows_forward(x, weight, bias, op, n, eps, save):
    y = _result(x)
    saved = rows_forward(
        op[0] == "layer",
        CODES[x.dtype],
        x.numel() // n,
        n,
        x.data_ptr(),
        y.data_ptr(),
        None if weight is None else weight.data_ptr(),
        0 if weight is None else CODES[weight.dtype],
        None if bias is None else bias.data_ptr(),
        0 if bias is None else CODES[bias.dtype],
        eps,
        save,
        _threads(),
    )
    return y, saved


def _fits(parameter, x, shape):
    """Returns whether the fast path takes a parameter. If not, the general path converts it or raises."""
    return (
        (type(parameter) is Parameter or type(parameter) is Tensor)
        and (parameter.dtype is x.dtype or parameter.dtype is _FLOAT32)
        and parameter.shape == shape
        and (parameter.is_cpu if x.is_cpu else parameter.device == x.device)
        and _is_stored(parameter)
        and (at := parameter.data_ptr())
        and not at & UNALIGNED[parameter.dtype]
    )


class _Norm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, op, eps):
        y, stats = _calls.forward(op, x, weight, bias, eps, True)
        ctx.save_for_backward(x, weight, stats)
        ctx.op, ctx.eps, ctx.bias_type = op, eps, None if bias is None else bias.dtype
        return y

    @staticmethod
    def backward(ctx, dy):
        x, weight, stats = ctx.saved_tensors
        found = _gradients(dy, x, weight, ctx.bias_type, stats, ctx.op, ctx.eps, ctx.needs_input_grad[:3])
        return (*found, None, None)


class _GpuRows(_Norm):
    """The same for contiguous rows on a GPU, with checked parameters."""

    @staticmethod
    def forward(ctx, x, weight, bias, how):
        y, stats = _calls.gpu().rows_forward(x, weight, bias, how, True)
        ctx.save_for_backward(x, weight, stats)
        ctx.op, _, ctx.eps = how
        ctx.bias_type = None if bias is None else bias.dtype
        return y

    @staticmethod
    def backward(ctx, dy):
        return _Norm.backward(ctx, dy)[:4]


_gpu_rows_apply = apply_of(_GpuRows)


class _NormBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, dy, x, weight, bias_type, stats, op, eps, mask):
        ctx.save_for_backward(dy, x, weight)
        ctx.op, ctx.eps = op, eps
        ctx.set_materialize_grads(False)
        return _calls.backward(op, dy, x, weight, bias_type, stats, eps, mask)

    @staticmethod
    def backward(ctx, *u):
        check_saved(*ctx.saved_tensors, *u)
        return (*norm_backward_backward(ctx.op, ctx.eps, *ctx.saved_tensors, *u), None, None, None, None, None)


def _short(x, weight, bias):
    """Returns whether all tensors are plain ones and no mode or transformation must see operations."""
    return (
        not _compiling()
        and _plain(x)
        and _plain(weight)
        and _plain(bias)
        and together(x, weight, bias)
        and _transform() is None
        and _tracing() is None
        and not _dispatch_modes()
        and not _function_modes()
    )


def refuse_tangents(*tensors):
    """Raises NotImplementedError for tensors with tangents, which would be lost silently."""
    if differentiates_forward() and not _compiling() and _transform() is None:
        for t in tensors:
            if isinstance(t, Tensor) and forward_ad.unpack_dual(t).tangent is not None:
                raise NotImplementedError(
                    "expected a tensor without a tangent: forward-mode differentiation is not supported"
                )


def same_device(x, *others):
    """Raises ValueError for tensors on different devices. PyTorch itself would return `meta` tensors if one is on `meta`."""
    on_cpu = x.is_cpu
    for t in others:
        if t is not None and not (on_cpu and t.is_cpu) and t.device != x.device:
            raise ValueError(f"expected tensors on one device, found {x.device} and {t.device}")


def check_eps(eps):
    """Raises ValueError for an ε that the extension module rejects. It never receives the ε of tensors without data."""
    if not 0 <= eps < inf:
        raise ValueError(f"eps: expected a finite number, 0 or more, found {eps}")


def _needs_grad(x, weight, bias):
    return _grad_enabled() and (
        x.requires_grad or (weight is not None and weight.requires_grad) or (bias is not None and bias.requires_grad)
    )


def transformed():
    """Returns whether a transformation of ``torch.func`` is active."""
    return not _compiling() and _transform() is not None


def _long(x, weight, bias, op, eps):
    check_tensor("input", x)
    check_tensors(weight=weight, bias=bias)
    check_eps(eps)
    same_device(x, weight, bias)
    if transformed():
        return Norm.apply(x, weight, bias, op, eps)[0]
    return torch.ops.layernorm.norm(x, weight, bias, *op, eps)[0]


def norm(x, weight, bias, op, eps):
    """Returns y, by the fast path if possible."""
    refuse_tangents(x, weight, bias)
    if not _short(x, weight, bias):
        return _long(x, weight, bias, op, eps)
    if _needs_grad(x, weight, bias):
        return _Norm.apply(x, weight, bias, op, eps)
    return _calls.forward(op, x, weight, bias, eps, False)[0]


def row_norm(x, weight, bias, op, shape, eps):
    """The same for layer and RMS norm, by the fastest path if rows are contiguous.

    It makes the checks of :func:`norm` inline, because calls dominate the time for small tensors.
    """
    if (
        _compiling()
        or _transform() is not None
        or _tracing() is not None
        or _dispatch_modes()
        or _function_modes()
        or forward_ad._current_level >= 0
        or not (type(x) is Tensor or type(x) is Parameter)
        or not (x.is_cpu or x.is_cuda)
        or x.dtype not in CODES
        or not _is_stored(x)
        or not (weight is None or _fits(weight, x, shape))
        or not (bias is None or _fits(bias, x, shape))
        or not (at := x.data_ptr())
        or at & UNALIGNED[x.dtype]
        or (n := shape[0] if op[1] == 1 else prod(shape)) < 1
    ):
        return norm(x, weight, bias, op, eps)
    if x.is_cuda:
        if _needs_grad(x, weight, bias):
            return _gpu_rows_apply(x, weight, bias, (op, n, eps))
        return _calls.gpu().rows_forward(x, weight, bias, (op, n, eps), False)[0]
    if _needs_grad(x, weight, bias):
        return _rows_apply(x, weight, bias, (op, n, eps))
    return _rows_forward(x, weight, bias, op, n, eps, False)[0]
