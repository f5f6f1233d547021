"""Makes tensors readable at their address: resolves lazy negation and zero tensors, and raises for tensors without memory."""

from __future__ import annotations

from torch.nn import Parameter

import torch
from torch import Tensor

_STRIDED = torch.strided
_compiling = torch.compiler.is_compiling


def is_plain(t):
    """Returns whether t is None or an ordinary tensor or parameter on the CPU or a GPU."""
    return t is None or ((type(t) is Tensor or type(t) is Parameter) and (t.is_cpu or t.is_cuda))


def extent_of(t):
    """Returns the number of elements that a tensor spans in memory."""
    if t.is_contiguous():
        return t.numel()
    extent = 1
    for n, step in zip(t.shape, t.stride()):
        if n == 0:
            return 0
        extent += (n - 1) * step
    return extent


def is_stored(t):
    """Returns whether a dense tensor is contiguous, not lazily negated, and within its storage, which may have been freed or shrunk.
    The caller must still check for address 0, which zero tensors have.
    """
    if not t.is_contiguous() or t.is_neg():
        return False
    at = t.storage_offset()
    return t.untyped_storage().nbytes() >= (t.nbytes + at * t.element_size() if at else t.nbytes)


def check_memory(what, t):
    """Raises for a tensor whose memory was freed, or that has none. Zero tensors need none."""
    if t is not None and not t._is_zerotensor():
        _address(what, t)


def _address(what, t):
    """Returns the address of a tensor after checking its storage; 0 for a tensor without elements or data."""
    if t.layout is not _STRIDED:
        raise TypeError(f"{what}: expected a dense tensor, found one with layout {t.layout}")
    extent, at = extent_of(t), t.data_ptr()
    needed, found = (t.storage_offset() + extent) * t.element_size(), t.untyped_storage().nbytes()
    if extent and needed > found:
        raise ValueError(f"{what}: expected a storage of {needed} bytes or more, found {found}: it was freed or shrunk")
    if not at and extent and not t.is_meta:
        raise ValueError(f"{what}: expected a tensor with memory, found one without memory on {t.device}")
    return at


def check_saved(*tensors):
    """Raises for saved tensors that were freed in the meantime, before PyTorch's operations read them. Tensors without memory of
    their own (traced, or wrapped by a transformation) are left to PyTorch.
    """
    if _compiling():
        return
    for t in tensors:
        if t is None or not is_plain(t):
            continue
        try:
            t.untyped_storage()
        except RuntimeError:
            continue
        check_memory("saved tensor", t)


def readable(what, t):
    """Returns a tensor (or None) that can be read at its address, with any strides. Materializes zero tensors (the gradients of
    ``torch.sgn``, for example) and lazily negated views, and copies misaligned tensors. Raises if the memory was freed.
    """
    if t is None:
        return None
    # The common case, with few checks.
    if t.layout is _STRIDED and is_stored(t) and (at := t.data_ptr()) and not at & 7:
        return t
    if t._is_zerotensor():
        return torch.zeros(t.shape, dtype=t.dtype, device=t.device)
    at = _address(what, t)
    if t.is_neg():
        return t.resolve_neg()
    return t.clone() if at % t.element_size() else t


def check_tensor(what, t):
    """Raises TypeError for anything but a tensor."""
    if not isinstance(t, Tensor):
        raise TypeError(f"{what}: expected a tensor, found {type(t).__name__}")


def check_tensors(**tensors):
    """Raises TypeError for arguments that are neither None nor a tensor."""
    for what, t in tensors.items():
        if t is not None:
            check_tensor(what, t)


def check_shape(what, t, shape):
    """Raises ValueError if a tensor has another shape."""
    if t.shape != shape:
        raise ValueError(f"{what}: expected shape {list(shape)}, found {list(t.shape)}")


def _bytes(t):
    """Returns the addresses of all bytes of a one-dimensional tensor."""
    size, start = t.element_size(), t.data_ptr()
    return {start + (i * t.stride(0)) * size + byte for i in range(len(t)) for byte in range(size)}


def share_memory(a, b):
    """Returns whether two one-dimensional tensors share memory."""
    if not (a.numel() and b.numel()):
        return False
    at_a, at_b = a.data_ptr(), b.data_ptr()
    if at_a < at_b:
        apart = at_a + extent_of(a) * a.element_size() <= at_b
    else:
        apart = at_b + extent_of(b) * b.element_size() <= at_a
    return not apart and not _bytes(a).isdisjoint(_bytes(b))
