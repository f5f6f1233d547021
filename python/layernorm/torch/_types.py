"""The four element types and the two that arithmetic is done in."""

from __future__ import annotations

import torch

CODES = {torch.float16: 0, torch.bfloat16: 1, torch.float32: 2, torch.float64: 3}

# The bits of an address that are 0 where an element of a type can be.
UNALIGNED = {dtype: dtype.itemsize - 1 for dtype in CODES}


def code_of(what, dtype):
    """The compiled half's number of a type, with a word on types that there are none of."""
    code = CODES.get(dtype)
    if code is None:
        raise TypeError(f"{what}: expected float16, bfloat16, float32 or float64, found {str(dtype)[6:]}")
    return code


def acc_of(dtype):
    """The type that arithmetic is done in."""
    return torch.float64 if dtype == torch.float64 else torch.float32
