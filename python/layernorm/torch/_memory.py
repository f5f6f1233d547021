"""A cache of memory for large results.

The C library returns blocks of 32 MiB or more to the system as soon as they are freed, and the page faults of the next result
would cost more than the norm itself. So a few such blocks are kept. They are ordinary PyTorch storages: a result in one can be
resized, shared, saved and freed like any other. A block is reused when nothing references it any more (no tensor, view, array or
capsule), and only for a result of exactly its size, so that no storage is larger than its tensor.
"""

from __future__ import annotations

import os
import sys
import threading

import torch

# Above this, glibc maps every block by itself (its largest M_MMAP_THRESHOLD).
LARGE_BYTES = 32 << 20
LARGE_COUNT = LARGE_BYTES // 8
"""Results with fewer elements are not large, whatever their type."""

DEFAULT_LIMIT = 256 << 20

# A finalizer may call this module while it runs. It gets fresh memory, not the block that is being examined.
_lock = threading.RLock()
_looking = False
_limit = DEFAULT_LIMIT
# `(storage, bytes)`, most recently used last.
_Block = tuple[torch.UntypedStorage, int]
_blocks: list[_Block] = []
_holders = getattr(torch._C, "_storage_Use_Count", None)


def _new_lock() -> None:
    """Replaces the lock in a forked process, where the thread that holds it may not exist."""
    global _lock, _looking
    _lock, _looking = threading.RLock(), False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_new_lock)


def _held(block: _Block) -> tuple[int, int]:
    """Returns the reference counts of a storage in PyTorch and in Python."""
    storage = block[0]
    return _holders(storage._cdata), sys.getrefcount(storage)


# The counts of a storage without other references. They differ between versions of Python.
_FREE = _held((torch.UntypedStorage(1), 1)) if _holders else None


def _is_free(block: _Block) -> bool:
    return _held(block) == _FREE


def _is_whole(block: _Block) -> bool:
    """Returns whether a block is still reusable: neither resized by its last user nor moved to shared memory."""
    storage, size = block
    return storage.nbytes() == size and not storage.is_shared()


def _take(size: int) -> torch.UntypedStorage | None:
    """Returns a free block of this size, or None. Drops blocks that are not reusable."""
    _blocks[:] = [block for block in _blocks if not _is_free(block) or _is_whole(block)]
    for at in range(len(_blocks) - 1, -1, -1):
        if _blocks[at][1] == size and _is_free(_blocks[at]):
            _blocks.append(_blocks.pop(at))
            return _blocks[-1][0]
    return None


def _make_room(size: int) -> bool:
    """Drops the least recently used free blocks until ``size`` more bytes fit, and returns whether they fit."""
    excess = sum(held for _, held in _blocks) + size - _limit
    at = 0
    while excess > 0 and at < len(_blocks):
        if _is_free(_blocks[at]):
            excess -= _blocks.pop(at)[1]
        else:
            at += 1
    return excess <= 0


def empty_like(x: torch.Tensor) -> torch.Tensor:
    """Like ``torch.empty_like``, but contiguous, and with cached memory if x is large."""
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


def _kept_like(x: torch.Tensor, size: int) -> torch.Tensor:
    storage = _take(size)
    if storage is None:
        found = torch.empty(x.shape, dtype=x.dtype, device="cpu")
        if _make_room(size):
            _blocks.append((found.untyped_storage(), size))
        return found
    return torch.empty(0, dtype=x.dtype, device="cpu").set_(storage, 0, x.shape)


def set_cache_limit(limit: int) -> None:
    """Sets how much memory of large results on the CPU (32 MiB or more each) is kept for reuse.

    Args:
        limit: number of bytes, including results that are in use. 0 disables the cache. The default is 256 MiB.

    Raises:
        ValueError: if the limit is negative.
    """
    global _limit
    if limit < 0:
        raise ValueError(f"limit: expected 0 or more bytes, found {limit}")
    with _lock:
        _limit = int(limit)
        _make_room(0)
        # Blocks in use that exceed the limit belong to their users from now on.
        while sum(held for _, held in _blocks) > _limit:
            _blocks.pop(0)


def clear_cache() -> None:
    """Returns the memory that is kept for large results to the system."""
    with _lock:
        _blocks.clear()


def cached_bytes() -> int:
    """Returns the number of bytes kept for large results, including those in use."""
    with _lock:
        return sum(held for _, held in _blocks)
