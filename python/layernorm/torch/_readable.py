"""Makes tensors readable at their address: resolves lazy negation and zero tensors, and raises for tensors without memory."""

from __future__ import annotations

import torch


def extent_of(t):
    """Returns the number of elements that a tensor spans in memory."""
    if t.is_contiguous():
        return t.numel()
    return 1 + sum((n - 1) * step for n, step in zip(t.shape, t.stride())) if t.numel() else 0


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
    if t is None or t._is_zerotensor():
        return
    if t.layout is not torch.strided:
        raise TypeError(f"{what}: expected a dense tensor, found one with layout {t.layout}")
    extent = extent_of(t)
    needed, found = (t.storage_offset() + extent) * t.element_size(), t.untyped_storage().nbytes()
    if extent and needed > found:
        raise ValueError(f"{what}: expected a storage of {needed} bytes or more, found {found}: it was freed or shrunk")
    if extent and t.data_ptr() == 0 and not t.is_meta:
        raise ValueError(f"{what}: expected a tensor with memory, found one without on {t.device}")


def readable(what, t):
    """Returns a tensor (or None) that can be read at its address, with any strides. Materializes zero tensors (the gradients of
    ``torch.sgn``, for example) and lazily negated views, and copies misaligned tensors. Raises if the memory was freed.
    """
    if t is None:
        return None
    # The common case, with few checks.
    if t.layout is torch.strided and is_stored(t) and (at := t.data_ptr()) and at % 8 == 0:
        return t
    if t._is_zerotensor():
        return torch.zeros(t.shape, dtype=t.dtype, device=t.device)
    check_memory(what, t)
    if t.is_neg():
        t = t.resolve_neg()
    return t.clone() if t.data_ptr() % t.element_size() else t


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
    ends = [t.data_ptr() + extent_of(t) * t.element_size() for t in (a, b)]
    return a.data_ptr() < ends[1] and b.data_ptr() < ends[0] and not _bytes(a).isdisjoint(_bytes(b))
