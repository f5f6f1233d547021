"""Tensors to the compiled half and back: no autograd here. Those on a GPU go on to ``_cuda.py``. A norm is ``op = (kind, number)``:

- ``("layer", k)``, ``("rms", k)``: over the k trailing axes;
- ``("group", G)``: of ``[N, C, …]`` in G groups;
- ``("batch", 0)``: of ``[N, C, …]``, channel by channel over the batch.
"""

from __future__ import annotations

import functools
import pathlib

import torch

from .. import _core
from . import _memory
from ._types import CODES, acc_of
from ._types import code_of as _code

# Work goes to PyTorch's own threads where they are OpenMP's: threads of ours would share the cores with those.
_core.use_openmp_of(bytes(pathlib.Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))

_forward, _backward = _core.forward, _core.backward
_threads, _empty, _empty_like = torch.get_num_threads, torch.empty, torch.empty_like


@functools.cache
def gpu():
    """The GPU's half, imported when a tensor is there."""
    from . import _cuda

    return _cuda


def tensor(t):
    """``(address, type, shape, strides)``."""
    return (t.data_ptr(), CODES[t.dtype], t.shape, t.stride())


def optional(what, t):
    """The same, or None; with a word on types that there are none of, and on tensors elsewhere."""
    if t is None:
        return None
    if not t.is_cpu:
        raise ValueError(f"{what}: expected a tensor on the CPU, where the input is, found one on {t.device}")
    return (t.data_ptr(), _code(what, t.dtype), t.shape, t.stride())


def stored(t):
    """The tensor, or None, with its numbers in memory as they are: a view that is yet to be negated is written out."""
    return t.resolve_neg() if t is not None and t.is_neg() else t


def stats_count(op, shape):
    """How many rows there are, of which each has statistics."""
    kind, number = op
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
    """Memory for y or dx: row norms give contiguous results, the others keep the memory format, as torch.nn's."""
    if op[0] in ("layer", "rms"):
        return _empty_like(x, memory_format=torch.contiguous_format)
    return _empty_like(x)


def _result(op, x):
    """The same of tensors that have data: large ones in memory that is used again."""
    if x.numel() >= _memory.LARGE_COUNT and (op[0] in ("layer", "rms") or x.is_contiguous()):
        return _memory.empty_like(x)
    return result_like(op, x)


def forward(op, x, weight, bias, eps, with_stats):
    """y, and the statistics ``[3, rows]`` or None."""
    x, weight, bias = stored(x), stored(weight), stored(bias)
    if x.is_cuda:
        return gpu().forward(x, op, weight, bias, eps, with_stats, stats_count(op, x.shape))
    code = _code("input", x.dtype)
    y = _result(op, x)
    stats = place = None
    if with_stats:
        count = stats_count(op, x.shape)
        stats = _empty((3, count), dtype=acc_of(x.dtype), device="cpu")
        place = (stats.data_ptr(), count)
    _forward(
        op,
        (x.data_ptr(), code, x.shape, x.stride()),
        tensor(y),
        optional("weight", weight),
        optional("bias", bias),
        False,
        eps,
        place,
        None,
        (_threads(), True),
    )
    return y, stats


def backward(op, dy, x, weight, bias, stats, eps, mask):
    """dx, dweight and dbias; None where the mask says that they are not wanted. The statistics are a tensor ``[3, rows]``, or
    what the compiled half has kept.
    """
    dy, x, weight = stored(dy), stored(x), stored(weight)
    if x.is_cuda:
        return gpu().backward(x, op, dy, weight, bias, stats, eps, mask)
    dx = _result(op, x) if mask[0] else None
    dweight = _empty_like(weight) if mask[1] else None
    dbias = _empty_like(bias) if mask[2] else None
    _backward(
        op,
        tensor(x),
        tensor(dy),
        None,
        None if weight is None else tensor(weight),
        False,
        eps,
        (stats.data_ptr(), stats.shape[1]) if isinstance(stats, torch.Tensor) else stats.place,
        None if dx is None else tensor(dx),
        None if dweight is None else tensor(dweight),
        None if dbias is None else tensor(dbias),
        (_threads(), True),
    )
    return dx, dweight, dbias


def _running(running_mean, running_var):
    return (running_mean.data_ptr(), running_var.data_ptr(), running_mean.shape[0])


def _moment(what, t, x):
    """Running statistics as the compiled half reads them."""
    channels = x.shape[1]
    if t.shape != (channels,):
        raise ValueError(f"{what}: expected shape {[channels]}, found {list(t.shape)}")
    if not t.is_cpu:
        raise ValueError(f"{what}: expected a tensor on the CPU, where the input is, found one on {t.device}")
    return stored(t.detach().to(acc_of(x.dtype)).contiguous())


def batch_train(x, weight, bias, running_mean, running_var, momentum, eps):
    """Batch norm in training: y, statistics, and running mean and variance as they are after this batch."""
    x, weight, bias = stored(x), stored(weight), stored(bias)
    if x.is_cuda:
        return gpu().batch_train(x, weight, bias, running_mean, running_var, momentum, eps)
    if x.dim() < 2:
        raise ValueError(f"input: expected at least 2 dimensions, found {x.dim()}")
    code = _code("input", x.dtype)
    y = _empty_like(x)
    count = x.shape[1]
    stats = _empty((3, count), dtype=acc_of(x.dtype), device="cpu")
    mean, var = (
        _moment(what, t, x).clone() for what, t in (("running mean", running_mean), ("running variance", running_var))
    )
    _core.batch_running(
        (x.data_ptr(), code, x.shape, x.stride()),
        tensor(y),
        optional("weight", weight),
        optional("bias", bias),
        eps,
        (stats.data_ptr(), count),
        _running(mean, var),
        momentum,
        0,
        (_threads(), True),
    )
    return y, stats, mean.to(running_mean.dtype), var.to(running_var.dtype)


def batch_infer(x, weight, bias, running_mean, running_var, eps):
    """Batch norm by running statistics."""
    x, weight, bias = stored(x), stored(weight), stored(bias)
    if x.is_cuda:
        return gpu().batch_infer(x, weight, bias, running_mean, running_var, eps)
    if x.dim() < 2:
        raise ValueError(f"input: expected at least 2 dimensions, found {x.dim()}")
    code = _code("input", x.dtype)
    y = _empty_like(x)
    mean, var = _moment("running mean", running_mean, x), _moment("running variance", running_var, x)
    _core.batch_infer(
        (x.data_ptr(), code, x.shape, x.stride()),
        tensor(y),
        optional("weight", weight),
        optional("bias", bias),
        eps,
        _running(mean, var),
        (_threads(), True),
    )
    return y


def batch_infer_backward(dy, x, weight, bias, running_mean, running_var, eps, mask):
    """Gradients of :func:`batch_infer`."""
    dy, x, weight = stored(dy), stored(x), stored(weight)
    if x.is_cuda:
        return gpu().batch_infer_backward(x, dy, weight, bias, running_mean, running_var, eps, mask)
    dx = _empty_like(x) if mask[0] else None
    dweight = _empty_like(weight) if mask[1] else None
    dbias = _empty_like(bias) if mask[2] else None
    mean, var = _moment("running mean", running_mean, x), _moment("running variance", running_var, x)
    _core.batch_infer_backward(
        tensor(x),
        tensor(dy),
        None if weight is None else tensor(weight),
        eps,
        _running(mean, var),
        None if dx is None else tensor(dx),
        None if dweight is None else tensor(dweight),
        None if dbias is None else tensor(dbias),
        (_threads(), True),
    )
    return dx, dweight, dbias
