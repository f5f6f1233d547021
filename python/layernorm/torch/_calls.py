"""Calls of the extension module with tensors, without autograd. Tensors on a GPU go to ``_cuda.py``. A norm is
``op = (kind, number)``:

- ``("layer", k)``, ``("rms", k)``: over the k trailing axes;
- ``("group", G)``: of ``[N, C, …]``, in G groups;
- ``("batch", 0)``: of ``[N, C, …]``, each channel over the batch.
"""

from __future__ import annotations

import functools
import pathlib

import torch

from .. import _core
from . import _memory
from ._readable import check_shape, readable
from ._types import CODES, acc_of
from ._types import code_of as _code

# Use PyTorch's OpenMP threads if it has them: a second pool would compete with them for the cores.
_core.use_openmp_of(bytes(pathlib.Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))

_forward, _backward = _core.forward, _core.backward
_threads, _empty, _empty_like = torch.get_num_threads, torch.empty, torch.empty_like


@functools.cache
def gpu():
    """Returns the module for GPUs, imported on first use."""
    from . import _cuda

    return _cuda


def _tensor(what, t):
    """Returns ``(address, type, shape, strides)``, or None. Raises for unsupported types and other devices."""
    if t is None:
        return None
    if not t.is_cpu:
        raise ValueError(f"{what}: expected a tensor on the CPU, where the input is, found one on {t.device}")
    return (t.data_ptr(), _code(what, t.dtype), t.shape, t.stride())


def flat(what, t):
    """Returns ``(address, type, count)`` of a contiguous tensor, or None."""
    return None if t is None else (t.data_ptr(), _code(what, t.dtype), t.numel())


def flats(what, tensors):
    """Returns :func:`flat` of several tensors at once: networks have many parameters."""
    try:
        return [(t.data_ptr(), CODES[t.dtype], t.numel()) for t in tensors]
    except KeyError:
        return [flat(what, t) for t in tensors]


def _affine(weight, bias):
    return readable("weight", weight), readable("bias", bias)


def stats_count(op, shape):
    """Returns the number of rows, each of which has statistics."""
    kind, number = op
    least = number if kind in ("layer", "rms") else 2
    if len(shape) < least:
        raise ValueError(f"input: expected at least {least} dimensions, found {len(shape)}")
    if kind == "batch":
        return shape[1]
    if kind == "group":
        return shape[0] * number
    return _product(shape[: len(shape) - number])


def _product(dims):
    count = 1
    for dim in dims:
        count *= dim
    return count


def result_like(op, x):
    """Allocates y or dx: contiguous for row norms, in x's memory format for the others, as in torch.nn."""
    if op[0] in ("layer", "rms"):
        return _empty_like(x, memory_format=torch.contiguous_format)
    return _empty_like(x)


def _result(op, x):
    """Like :func:`result_like`, but large results use cached memory."""
    if x.numel() >= _memory.LARGE_COUNT and (op[0] in ("layer", "rms") or x.is_contiguous()):
        return _memory.empty_like(x)
    return result_like(op, x)


def forward(op, x, weight, bias, eps, with_stats):
    """Returns y, and the statistics ``[3, rows]`` or None."""
    x, (weight, bias) = readable("input", x), _affine(weight, bias)
    if x.is_cuda:
        return gpu().forward(x, op, weight, bias, eps, with_stats, stats_count(op, x.shape))
    at = _tensor("input", x)
    y = _result(op, x)
    stats = None
    # Batch norm without running statistics always computes the statistics of the batch.
    if with_stats or op[0] == "batch":
        stats = _empty((3, stats_count(op, x.shape)), dtype=acc_of(x.dtype), device="cpu")
    _forward(
        op,
        at,
        _tensor("output", y),
        _tensor("weight", weight),
        _tensor("bias", bias),
        False,
        eps,
        flat("statistics", stats),
        None,
        (_threads(), True),
    )
    return y, stats if with_stats else None


def _stats_place(stats, op, x):
    """Returns saved statistics as the extension module takes them, and the object to keep alive meanwhile."""
    if not isinstance(stats, torch.Tensor):
        return stats.place, stats
    check_shape("statistics", stats, (3, stats_count(op, x.shape)))
    stats = readable("statistics", stats).contiguous()
    if not stats.is_cpu:
        raise ValueError(f"statistics: expected a tensor on the CPU, where the input is, found one on {stats.device}")
    return flat("statistics", stats), stats


def parameter_shape(op, x):
    """Returns the shape of γ and β."""
    return x.shape[x.dim() - op[1] :] if op[0] in ("layer", "rms") else x.shape[1:2]


def _bias_gradient(op, x, bias_type, device):
    """Allocates the gradient of β, of which only the type was saved, because β may have changed since."""
    return None if bias_type is None else _empty(parameter_shape(op, x), dtype=bias_type, device=device)


def _check_input(x, dy):
    """Checks the saved input, which hooks may have replaced."""
    if x.shape != dy.shape:
        raise ValueError(f"input: expected shape {list(dy.shape)}, as its gradient has, found {list(x.shape)}")


def backward(op, dy, x, weight, bias_type, stats, eps, mask):
    """Returns dx, dweight and dbias; None where the mask is False. The statistics are a tensor ``[3, rows]``, or a ``_core.Saved``."""
    _check_input(x, dy)
    dy, x, weight = readable("gradient of the output", dy), readable("input", x), readable("weight", weight)
    if x.is_cuda:
        bias = _bias_gradient(op, x, bias_type, x.device) if mask[2] else None
        return gpu().backward(x, op, dy, weight, bias, stats, eps, mask)
    place, stats = _stats_place(stats, op, x)
    dx = _result(op, x) if mask[0] else None
    dweight = _empty_like(weight) if mask[1] else None
    dbias = _bias_gradient(op, x, bias_type, "cpu") if mask[2] else None
    _backward(
        op,
        _tensor("input", x),
        _tensor("gradient of the output", dy),
        None,
        _tensor("weight", weight),
        False,
        eps,
        place,
        _tensor("gradient of the input", dx),
        _tensor("gradient of the weight", dweight),
        _tensor("gradient of the bias", dbias),
        (_threads(), True),
    )
    return dx, dweight, dbias


def _running(mean, var):
    return flat("running mean", mean), flat("running variance", var)


def _moment(what, t, x):
    """Converts running statistics for the extension module."""
    check_shape(what, t, (x.shape[1],))
    if not t.is_cpu:
        raise ValueError(f"{what}: expected a tensor on the CPU, where the input is, found one on {t.device}")
    t, acc = readable(what, t), acc_of(x.dtype)
    return t if t.dtype is acc and t.is_contiguous() else t.detach().to(acc).contiguous()


def batch_train(x, weight, bias, running_mean, running_var, momentum, eps):
    """Batch norm in training. Returns y, the statistics, and the updated running mean and variance."""
    x, (weight, bias) = readable("input", x), _affine(weight, bias)
    if x.is_cuda:
        return gpu().batch_train(x, weight, bias, running_mean, running_var, momentum, eps)
    if x.dim() < 2:
        raise ValueError(f"input: expected at least 2 dimensions, found {x.dim()}")
    at = _tensor("input", x)
    y = _empty_like(x)
    stats = _empty((3, x.shape[1]), dtype=acc_of(x.dtype), device="cpu")
    mean, var = (
        _moment(what, t, x).clone() for what, t in (("running mean", running_mean), ("running variance", running_var))
    )
    _core.batch_running(
        at,
        _tensor("output", y),
        _tensor("weight", weight),
        _tensor("bias", bias),
        eps,
        flat("statistics", stats),
        _running(mean, var),
        momentum,
        0,
        (_threads(), True),
    )
    return y, stats, mean.to(running_mean.dtype), var.to(running_var.dtype)


def batch_infer(x, weight, bias, running_mean, running_var, eps):
    """Batch norm with running statistics."""
    x, (weight, bias) = readable("input", x), _affine(weight, bias)
    if x.is_cuda:
        return gpu().batch_infer(x, weight, bias, running_mean, running_var, eps)
    if x.dim() < 2:
        raise ValueError(f"input: expected at least 2 dimensions, found {x.dim()}")
    at = _tensor("input", x)
    y = _empty_like(x)
    mean, var = _moment("running mean", running_mean, x), _moment("running variance", running_var, x)
    _core.batch_infer(
        at,
        _tensor("output", y),
        _tensor("weight", weight),
        _tensor("bias", bias),
        eps,
        _running(mean, var),
        (_threads(), True),
    )
    return y


def batch_infer_backward(dy, x, weight, bias_type, running_mean, running_var, eps, mask):
    """Computes the gradients of :func:`batch_infer`."""
    _check_input(x, dy)
    dy, x, weight = readable("gradient of the output", dy), readable("input", x), readable("weight", weight)
    if x.is_cuda:
        bias = _bias_gradient(("batch", 0), x, bias_type, x.device) if mask[2] else None
        return gpu().batch_infer_backward(x, dy, weight, bias, running_mean, running_var, eps, mask)
    dx = _empty_like(x) if mask[0] else None
    dweight = _empty_like(weight) if mask[1] else None
    dbias = _bias_gradient(("batch", 0), x, bias_type, "cpu") if mask[2] else None
    mean, var = _moment("running mean", running_mean, x), _moment("running variance", running_var, x)
    _core.batch_infer_backward(
        _tensor("input", x),
        _tensor("gradient of the output", dy),
        _tensor("weight", weight),
        eps,
        _running(mean, var),
        _tensor("gradient of the input", dx),
        _tensor("gradient of the weight", dweight),
        _tensor("gradient of the bias", dbias),
        (_threads(), True),
    )
    return dx, dweight, dbias
