"""Memory for large results, used again.

The C library gives blocks of 32 MiB and more back to the system as soon as they are free, and takes them anew, page by page, for
the next result: that takes longer than the norm itself. So a few such blocks are kept. They are PyTorch's own storages: a result
in one can be resized, shared, saved and freed as any other. A block is given out again when nothing holds it any more, neither a
tensor nor a view, array or capsule of one, and only for a result of its very size, so that no storage is larger than its tensor.
"""

from __future__ import annotations

import os
import sys
import threading

import torch

# Above this, glibc maps every block by itself (its largest M_MMAP_THRESHOLD).
LARGE_BYTES = 32 << 20
LARGE_COUNT = LARGE_BYTES // 8
"""Elements that are not large results, whatever their type."""

DEFAULT_LIMIT = 256 << 20

# A finalizer may call us in the middle of a call. It gets fresh memory, not the block that is being looked at.
_lock = threading.RLock()
_looking = False
_limit = DEFAULT_LIMIT
# `(storage, bytes)`, those that were given out last at the end.
_blocks: list[tuple[torch.UntypedStorage, int]] = []
_holders = getattr(torch._C, "_storage_Use_Count", None)


def _new_lock():
    """In a forked process the thread that holds the lock may be missing."""
    global _lock, _looking
    _lock, _looking = threading.RLock(), False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_new_lock)


def _held(block):
    """How often PyTorch and Python hold a storage."""
    storage = block[0]
    return _holders(storage._cdata), sys.getrefcount(storage)


# The same of one that nobody else holds. Which names and arguments count differs between versions of Python.
_FREE = _held((torch.UntypedStorage(1), 1)) if _holders else None


def _is_free(block):
    return _held(block) == _FREE


def _is_whole(block):
    """Whether it is still what was kept: not resized by its last user, nor moved into memory that another process may see."""
    storage, size = block
    return storage.nbytes() == size and not storage.is_shared()


def _take(size):
    """A free block of this size, or None. Blocks that cannot be used again are let go."""
    _blocks[:] = [block for block in _blocks if not _is_free(block) or _is_whole(block)]
    for at in range(len(_blocks) - 1, -1, -1):
        if _blocks[at][1] == size and _is_free(_blocks[at]):
            _blocks.append(_blocks.pop(at))
            return _blocks[-1][0]
    return None


def _make_room(size):
    """Lets the free blocks go that were used longest ago, until so many bytes more are within the limit. Whether they are."""
    excess = sum(held for _, held in _blocks) + size - _limit
    at = 0
    while excess > 0 and at < len(_blocks):
        if _is_free(_blocks[at]):
            excess -= _blocks.pop(at)[1]
        else:
            at += 1
    return excess <= 0


def empty_like(x):
    """``torch.empty_like``, contiguous; of a large x in memory that is used again."""
    global _looking
    size = x.nbytes
    if size < LARGE_BYTES or _limit < size or _holders is None:
        return torch.empty_like(x, memory_format=torch.contiguous_format)
    with _lock:
        if _looking:
            return torch.empty(x.shape, dtype=x.dtype, device="cpu")
        _looking = True
        try:
            return _kept_like(x, size)
        finally:
            _looking = False


def _kept_like(x, size):
    storage = _take(size)
    if storage is None:
        found = torch.empty(x.shape, dtype=x.dtype, device="cpu")
        if _make_room(size):
            _blocks.append((found.untyped_storage(), size))
        return found
    return torch.empty(0, dtype=x.dtype, device="cpu").set_(storage, 0, x.shape)


def set_cache_limit(limit: int) -> None:
    """The most bytes of large results (32 MiB and more each) whose memory is kept for the next ones; 0: none is kept.

    Results that are in use count. It starts at 256 MiB.
    """
    global _limit
    if limit < 0:
        raise ValueError(f"limit: expected 0 or more bytes, found {limit}")
    with _lock:
        _limit = int(limit)
        _make_room(0)
        # What is still in use and too much is its user's alone from now on.
        while sum(held for _, held in _blocks) > _limit:
            _blocks.pop(0)


def clear_cache() -> None:
    """Gives the memory that is kept for large results back to the system."""
    with _lock:
        _blocks.clear()


def cached_bytes() -> int:
    """How many bytes are kept for large results, those in use among them."""
    with _lock:
        return sum(held for _, held in _blocks)
