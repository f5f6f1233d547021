"""Dropout and zoneout masks in PyTorch operations, on any device. For the same seed they equal those of
``crates/layernorm-rnn/src/noise.rs``. The finalizer of SplitMix64 computes the n-th number of a stream from n; int64 arithmetic
wraps around as required.
"""

from __future__ import annotations

from math import prod

import torch

NAMES = ("dropout", "recurrent_dropout", "drop_connect", "zoneout", "zoneout_cell")
_WORD = (1 << 64) - 1
_GOLDEN, _STREAM = 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93
_FIRST, _SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def _signed(word):
    return word - (1 << 64) if word >> 63 else word


def _mix(z):
    """Applies the finalizer to an integer below 2⁶⁴."""
    z = ((z ^ (z >> 30)) * _FIRST) & _WORD
    z = ((z ^ (z >> 27)) * _SECOND) & _WORD
    return z ^ (z >> 31)


def _mix_each(z):
    """Applies the finalizer to an int64 tensor, whose right shift is signed."""

    def shifted(t, by):
        return (t >> by) & ((1 << (64 - by)) - 1)

    z = (z ^ shifted(z, 30)) * _signed(_FIRST)
    z = (z ^ shifted(z, 27)) * _signed(_SECOND)
    return z ^ shifted(z, 31)


def hits(what, rate, seed, layer, direction, shape, device):
    """Returns a mask of the elements of a tensor that the noise ``what`` affects, with probability ``rate`` each."""
    stream = (1 + NAMES.index(what)) << 48 | layer << 8 | direction
    key = _mix(_mix((seed + _GOLDEN) & _WORD) ^ (stream * _STREAM & _WORD))
    index = torch.arange(prod(shape), dtype=torch.int64, device=device)
    bits = _mix_each(_mix_each(index * _signed(_GOLDEN) + _signed(key)) ^ _signed(key))
    # 53 bits, exactly converted to a number in [0, 1).
    return (((bits >> 11) & ((1 << 53) - 1)).to(torch.float64) * 2.0**-53 < rate).view(shape)


def factor(rate, hit, dtype):
    """Returns the factor of a dropout: 0 where it hits."""
    return (~hit).to(dtype) * (1.0 / (1.0 - rate))
