"""Tensors whose numbers can be read where they say: what PyTorch has left for later is done, what has no memory is refused."""

from __future__ import annotations

import torch

_STRIDED = torch.strided


def extent_of(t):
    """Elements from the first to the last in memory."""
    if t.is_contiguous():
        return t.numel()
    extent = 1
    for n, step in zip(t.shape, t.stride()):
        if n == 0:
            return 0
        extent += (n - 1) * step
    return extent


def is_stored(t):
    """Whether the numbers of a dense tensor lie in memory one after the other as they are, all of them in its storage: that may have
    been freed or shrunk. An address of 0 is still to be asked for: zeros that are never stored have it.
    """
    if not t.is_contiguous() or t.is_neg():
        return False
    at = t.storage_offset()
    return t.untyped_storage().nbytes() >= (t.nbytes + at * t.element_size() if at else t.nbytes)


def check_memory(what, t):
    """Refuses a tensor whose memory was freed, or that has none. Zeros that are never stored need none."""
    if t is not None and not t._is_zerotensor():
        _address(what, t)


def _address(what, t):
    """The address of a tensor whose memory is there; 0 if it has no elements or no data."""
    if t.layout is not _STRIDED:
        raise TypeError(f"{what}: expected a dense tensor, found one with layout {t.layout}")
    extent, at = extent_of(t), t.data_ptr()
    needed, found = (t.storage_offset() + extent) * t.element_size(), t.untyped_storage().nbytes()
    if extent and needed > found:
        raise ValueError(f"{what}: expected a storage of {needed} bytes or more, found {found}: it was freed or shrunk")
    if not at and extent and not t.is_meta:
        raise ValueError(f"{what}: expected a tensor with memory, found one without on {t.device}")
    return at


def readable(what, t):
    """The tensor, or None, with its numbers in memory as they are, aligned: zeros that PyTorch never stored (``torch.sgn`` has such
    gradients) and views that it has yet to negate are written out. Freed memory is refused. Its strides may be any.
    """
    if t is None:
        return None
    # What most tensors are, with few questions.
    if t.layout is _STRIDED and is_stored(t) and (at := t.data_ptr()) and not at & 7:
        return t
    if t._is_zerotensor():
        return torch.zeros(t.shape, dtype=t.dtype, device=t.device)
    at = _address(what, t)
    if t.is_neg():
        return t.resolve_neg()
    return t.clone() if at % t.element_size() else t


def check_shape(what, t, shape):
    """Refuses a tensor of another shape."""
    if t.shape != shape:
        raise ValueError(f"{what}: expected shape {list(shape)}, found {list(t.shape)}")


def _bytes(t):
    """The addresses of all bytes of a tensor with one dimension."""
    size, start = t.element_size(), t.data_ptr()
    return {start + (i * t.stride(0)) * size + byte for i in range(len(t)) for byte in range(size)}


def share_memory(a, b):
    """Whether two tensors with one dimension have bytes in common."""
    if not (a.numel() and b.numel()):
        return False
    at_a, at_b = a.data_ptr(), b.data_ptr()
    if at_a < at_b:
        apart = at_a + extent_of(a) * a.element_size() <= at_b
    else:
        apart = at_b + extent_of(b) * b.element_size() <= at_a
    return not apart and not _bytes(a).isdisjoint(_bytes(b))
