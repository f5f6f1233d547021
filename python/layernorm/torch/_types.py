"""Element types and accumulation types."""

from __future__ import annotations

import torch

CODES = {torch.float16: 0, torch.bfloat16: 1, torch.float32: 2, torch.float64: 3}

# The bits of an address that are 0 if an element of the type is aligned.
UNALIGNED = {dtype: dtype.itemsize - 1 for dtype in CODES}


def code_of(what: str, dtype: torch.dtype) -> int:
    """Returns the extension module's code of a type. Raises TypeError if the type is not supported."""
    code = CODES.get(dtype)
    if code is None:
        raise TypeError(f"{what}: expected float16, bfloat16, float32 or float64, found {str(dtype)[6:]}")
    return code


def acc_of(dtype: torch.dtype) -> torch.dtype:
    """Returns the accumulation type."""
    return torch.float64 if dtype == torch.float64 else torch.float32
