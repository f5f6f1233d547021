"""Norms on an NVIDIA GPU: on PyTorch's current stream, with memory allocated by PyTorch, without autograd. The functions are those
of ``_calls.py`` and give the same bits.

Rows may have a stride (a slice of a wider tensor); other tensors that are not contiguous are copied on the GPU first. Nothing waits
for the GPU, and nothing is copied to the CPU. The first call of a kernel compiles it with NVRTC, which is not possible while a CUDA
graph is captured: run once before capturing.
"""

from __future__ import annotations

import contextlib
import functools
import glob
import importlib.util
import os
from math import prod

import torch

from .. import _core
from ._readable import extent_of, readable
from ._types import CODES, acc_of, code_of

_current_device = getattr(torch._C, "_cuda_getDevice", None)
_raw_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None)


@functools.cache
def _find_compiler():
    """Passes the path of NVRTC to the extension module if it is among PyTorch's packages, in the version that PyTorch uses."""
    version = (torch.version.cuda or "").split(".")[0]
    spec = importlib.util.find_spec("nvidia")
    folders = [*(spec.submodule_search_locations or [])] if spec else []
    patterns = [os.path.join(folder, "*", "lib", f"libnvrtc.so.{version}*") for folder in folders]
    patterns.append(os.path.join(os.path.dirname(torch.__file__), "lib", f"libnvrtc*.so.{version}*"))
    found = [path for pattern in patterns for path in sorted(glob.glob(pattern)) if "builtins" not in path]
    if found:
        _core.cuda_use_nvrtc(found[0])
    return found[0] if found else None


def stream_of(device):
    """Returns the handle of PyTorch's current stream on a device."""
    if _raw_stream is not None:
        return _raw_stream(device.index)
    return torch.cuda.current_stream(device).cuda_stream


def as_current(index):
    """Returns a context with PyTorch's current device set, as the kernels expect, after finding their compiler."""
    _find_compiler()
    return contextlib.nullcontext() if index == _current_device() else torch.cuda.device(index)


def on_device(function):
    """Decorates a function to run with its first argument's device as PyTorch's current one, as the kernels expect."""

    @functools.wraps(function)
    def wrapped(*arguments):
        _find_compiler()
        device = arguments[0].device
        if device.index == _current_device():
            return function(*arguments)
        with torch.cuda.device(device):
            return function(*arguments)

    return wrapped


def same_device(x, **others):
    """Raises ValueError for tensors on another device than x."""
    for name, t in others.items():
        if t is not None and t.device != x.device:
            raise ValueError(f"{name}: expected a tensor on {x.device}, where the input is, found one on {t.device}")


def _place(x):
    return x.device.index, stream_of(x.device)


def _workspace(norm, gradients, x):
    """Allocates memory that may be freed after the launch: PyTorch's allocator reuses it only for later work on this stream."""
    size = _core.cuda_workspace(norm, gradients)
    return torch.empty(size, dtype=torch.uint8, device=x.device) if size else None


def _memory(t):
    return (0, 0) if t is None else (t.data_ptr(), t.numel())


def rows_of(x, count):
    """Returns x with rows along its ``count`` trailing axes as kernels can read them, and the number of elements between rows."""
    n = prod(x.shape[x.dim() - count :])
    if x.is_contiguous():
        return x, n
    expected = 1
    axes = [(x.shape[i], x.stride(i)) for i in range(x.dim()) if x.shape[i] != 1]
    trailing = sum(1 for i in range(x.dim() - count, x.dim()) if x.shape[i] != 1)
    for size, stride in reversed(axes[len(axes) - trailing :] if trailing else []):
        if stride != expected:
            return x.contiguous(), n
        expected *= size
    leading = axes[: len(axes) - trailing]
    for (_, outer), (size, inner) in zip(leading, leading[1:]):
        if outer != inner * size:
            return x.contiguous(), n
    return x, leading[-1][1] if leading else n


def vector(t):
    """Returns ``(address, type, elements)`` of a contiguous tensor, or None."""
    return None if t is None else (t.data_ptr(), CODES[t.dtype], t.numel())


def _saved(stats):
    """Returns ``(address, elements)`` of statistics, or None."""
    return None if stats is None else (stats.data_ptr(), stats.numel())


def _parameter(what, t, shape):
    """Returns ``(tensor, (address, type, elements))`` of γ or β. The caller must keep the tensor alive until the call."""
    if t is None:
        return None, None
    code_of(what, t.dtype)
    if tuple(t.shape) != tuple(shape):
        raise ValueError(f"{what}: expected shape {list(shape)}, found {list(t.shape)}")
    t = readable(what, t).contiguous()
    return t, vector(t)


def _described(op, x, eps):
    """Returns the description of a norm of x for the extension module, and the shape of γ and β."""
    kind, number = op
    code = code_of("input", x.dtype)
    shape = x.shape
    if kind in ("layer", "rms"):
        trailing = shape[x.dim() - number :]
        n = prod(trailing)
        return (kind, code, (prod(shape[: x.dim() - number]), n, 0, 0), float(eps)), trailing
    if x.dim() < 2:
        raise ValueError(f"input: expected at least 2 dimensions, found {x.dim()}")
    return (kind, code, (shape[0], shape[1], prod(shape[2:]), number), float(eps)), shape[1:2]


def _matrix(t, stride):
    """Returns ``(address, elements between rows, elements from that address)``."""
    return t.data_ptr(), stride, extent_of(t)


def _operand(what, op, x):
    """Returns x as the kernels of a norm read it, and its :func:`_matrix`."""
    x = readable(what, x)
    if op[0] in ("layer", "rms"):
        x, stride = rows_of(x, op[1])
    else:
        x, stride = x.contiguous(), 0
    return x, _matrix(x, stride)


def _result(op, x):
    """Allocates a contiguous result like x and returns it with its matrix arguments."""
    y = torch.empty_like(x) if x.is_contiguous() else torch.empty(x.shape, dtype=x.dtype, device=x.device)
    return y, (y.data_ptr(), prod(x.shape[x.dim() - op[1] :]) if op[0] in ("layer", "rms") else 0, y.numel())


def _laid_out(op, y, x):
    """Returns y in the memory format of the CPU's result: contiguous for row norms, otherwise that of x."""
    if op[0] in ("layer", "rms") or x.is_contiguous():
        return y
    return torch.empty_like(x).copy_(y)


def _gradient(t, wanted):
    """Allocates the gradient of a parameter, contiguous, and returns it with its vector arguments."""
    if not wanted:
        return None, None
    to = torch.empty(t.shape, dtype=t.dtype, device=t.device)
    return to, vector(to)


@on_device
def rows_forward(x, weight, bias, how, with_stats):
    """:func:`forward` for contiguous rows and checked parameters, with ``how = (op, n, eps)``. Inlined, because calls dominate the
    time for small tensors.
    """
    op, n, eps = how
    if x.is_neg() or x._is_zerotensor():
        x = readable("input", x)
    rows = x.numel() // n
    y = torch.empty_like(x)
    stats = torch.empty((3, rows), dtype=acc_of(x.dtype), device=x.device) if with_stats else None
    _core.cuda_forward(
        _place(x),
        (op[0], CODES[x.dtype], (rows, n, 0, 0), eps),
        (x.data_ptr(), n, x.numel()),
        (y.data_ptr(), n, y.numel()),
        vector(weight),
        vector(bias),
        _saved(stats),
        None,
        (0, 0),
    )
    return y, stats


@on_device
def forward(x, op, weight, bias, eps, with_stats, count):
    """Returns y, and the statistics ``[3, count]`` or None."""
    same_device(x, weight=weight, bias=bias)
    norm, shape = _described(op, x, eps)
    weight, gain = _parameter("weight", weight, shape)
    bias, shift = _parameter("bias", bias, shape)
    read, at = _operand("input", op, x)
    y, to = _result(op, x)
    # Batch norm without running statistics always computes the statistics of the batch.
    kept = with_stats or op[0] == "batch"
    stats = torch.empty((3, count), dtype=acc_of(x.dtype), device=x.device) if kept else None
    work = _workspace(norm, False, x) if op[0] == "batch" else None
    _core.cuda_forward(_place(x), norm, at, to, gain, shift, _saved(stats), None, _memory(work))
    return _laid_out(op, y, x), stats if with_stats else None


@on_device
def backward(x, op, dy, weight, bias, stats, eps, mask):
    """Returns dx, dweight and dbias; None where the mask is False."""
    same_device(x, gradient=dy, weight=weight, bias=bias, statistics=stats)
    return _gradients(op, x, dy, weight, bias, stats, None, eps, mask)


def _gradients(op, x, dy, weight, bias, stats, running, eps, mask):
    norm, shape = _described(op, x, eps)
    like_weight, like_bias = weight, bias
    weight, gain = _parameter("weight", weight, shape)
    read, at = _operand("input", op, x)
    dy, dy_at = _operand("gradient", op, dy.to(x.dtype))
    dx, to = _result(op, x) if mask[0] else (None, (0, 0, 0))
    dweight, dgain = _gradient(like_weight, mask[1])
    dbias, dshift = _gradient(like_bias, mask[2])
    work = _workspace(norm, mask[1] or mask[2], x)
    saved = None if stats is None else readable("statistics", stats).contiguous()
    _core.cuda_backward(_place(x), norm, at, dy_at, gain, _saved(saved), running, to, dgain, dshift, _memory(work))
    if dx is not None:
        dx = _laid_out(op, dx, x)
    return dx, _as(dweight, like_weight), _as(dbias, like_bias)


def _as(gradient, parameter):
    """Returns a gradient with its parameter's strides, as on the CPU."""
    if gradient is None or parameter.is_contiguous():
        return gradient
    return torch.empty_like(parameter).copy_(gradient)


def _moments(x, running_mean, running_var):
    """Returns copies of the running statistics in the accumulation type."""
    found = []
    for what, t in (("running mean", running_mean), ("running variance", running_var)):
        if t.shape != (x.shape[1],):
            raise ValueError(f"{what}: expected shape {[x.shape[1]]}, found {list(t.shape)}")
        found.append(readable(what, t.detach()).to(acc_of(x.dtype), copy=True).contiguous())
    return found


def _running(mean, var, momentum):
    return mean.data_ptr(), var.data_ptr(), min(mean.numel(), var.numel()), momentum


@on_device
def batch_train(x, weight, bias, running_mean, running_var, momentum, eps):
    """Batch norm in training. Returns y, the statistics, and the updated running mean and variance."""
    same_device(x, weight=weight, bias=bias, running_mean=running_mean, running_var=running_var)
    op = ("batch", 0)
    norm, shape = _described(op, x, eps)
    weight, gain = _parameter("weight", weight, shape)
    bias, shift = _parameter("bias", bias, shape)
    mean, var = _moments(x, running_mean, running_var)
    read, at = _operand("input", op, x)
    y, to = _result(op, x)
    stats = torch.empty((3, x.shape[1]), dtype=acc_of(x.dtype), device=x.device)
    work = _workspace(norm, False, x)
    running = _running(mean, var, float(momentum))
    _core.cuda_forward(_place(x), norm, at, to, gain, shift, _saved(stats), running, _memory(work))
    return _laid_out(op, y, x), stats, mean.to(running_mean.dtype), var.to(running_var.dtype)


@on_device
def batch_infer(x, weight, bias, running_mean, running_var, eps):
    """Batch norm with running statistics."""
    same_device(x, weight=weight, bias=bias, running_mean=running_mean, running_var=running_var)
    op = ("batch", 0)
    norm, shape = _described(op, x, eps)
    weight, gain = _parameter("weight", weight, shape)
    bias, shift = _parameter("bias", bias, shape)
    mean, var = _moments(x, running_mean, running_var)
    read, at = _operand("input", op, x)
    y, to = _result(op, x)
    work = _workspace(norm, False, x)
    running = _running(mean, var, 0.0)
    _core.cuda_forward(_place(x), norm, at, to, gain, shift, None, running, _memory(work))
    return _laid_out(op, y, x)


@on_device
def batch_infer_backward(x, dy, weight, bias, running_mean, running_var, eps, mask):
    """Computes the gradients of :func:`batch_infer`."""
    same_device(x, gradient=dy, weight=weight, bias=bias, running_mean=running_mean, running_var=running_var)
    mean, var = _moments(x, running_mean, running_var)
    return _gradients(("batch", 0), x, dy, weight, bias, None, _running(mean, var, 0.0), eps, mask)
