"""Tapes as tensors, because custom operations can only return tensors.

A tape is looked up by the address of its tensor. The memory of the tensor owns the tape, which therefore lives as long as PyTorch
keeps that memory. A copy of the tensor has another address; if no tape is found there, the pass is recomputed.
"""

from __future__ import annotations

import weakref

import numpy as np

import torch

_KEPT: weakref.WeakValueDictionary = weakref.WeakValueDictionary()


class _Held(np.ndarray):
    """Memory that owns a tape."""

    tape = None


def tensor_of(tape):
    """Returns a tensor ``[1]`` that owns the tape. Its value has no meaning."""
    held = np.zeros(1, np.int64).view(_Held)
    held.tape = tape
    _KEPT[held.ctypes.data] = held
    return torch.from_numpy(held)


def tape_of(tensor):
    """Returns the tape of a tensor, or None."""
    held = _KEPT.get(tensor.data_ptr())
    return None if held is None else held.tape
