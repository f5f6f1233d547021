"""Converts NumPy arrays to arguments of the extension module: address, type, shape and strides.

Every array is checked here once. The result is always a plain ``numpy.ndarray``: a subclass can override its shape, flags or
address, and the extension module would trust them.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

# A tensor as the extension module takes it: address, type, shape, strides in elements.
Tensor = tuple[int, int, tuple[int, ...], tuple[int, ...]]
# A contiguous array: address, type, number of elements.
Flat = tuple[int, int, int]

# Type codes of the extension module.
FLOAT16, BFLOAT16, FLOAT32, FLOAT64 = range(4)

_CODES: dict[np.dtype[Any], int] = {
    np.dtype(np.float16): FLOAT16,
    np.dtype(np.float32): FLOAT32,
    np.dtype(np.float64): FLOAT64,
}
_SUPPORTED = "float16, bfloat16 (of ml_dtypes), float32 or float64"


def code_of(what: str, dtype: np.dtype[Any]) -> int:
    """Returns the code of a type. Raises TypeError if the type is not supported."""
    code = _CODES.get(dtype)
    if code is not None:
        return code
    # Recognize bfloat16 by name, so that ml_dtypes need not be installed.
    if dtype.name == "bfloat16" and dtype.itemsize == 2 and dtype.isnative:
        _CODES[dtype] = BFLOAT16
        return BFLOAT16
    raise TypeError(f"{what}: expected {_SUPPORTED}, found {dtype}")


def acc_of(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Returns the accumulation type: float64 for float64, otherwise float32."""
    return _DOUBLE if dtype == _DOUBLE else _SINGLE


_SINGLE, _DOUBLE = np.dtype(np.float32), np.dtype(np.float64)


def plain(what: str, value: Any, dtype: np.dtype[Any] | None = None) -> np.ndarray:
    """Converts a value to a plain array, without a copy if it is an array. Raises TypeError for masked arrays."""
    if type(value) is not np.ndarray:
        masked = sys.modules.get("numpy.ma")
        if masked is not None and isinstance(value, masked.MaskedArray):
            raise TypeError(
                f"{what}: expected an array without a mask, found a masked array (use its filled(…) or its data)"
            )
    return np.asarray(value, dtype)


def array(what: str, value: Any) -> np.ndarray:
    """Converts an input. Copies it only if it is byte-swapped or misaligned."""
    found = value if type(value) is np.ndarray else plain(what, value)
    if not found.dtype.isnative:
        found = found.astype(found.dtype.newbyteorder("="))
    code_of(what, found.dtype)
    return found if _aligned(found) else found.copy()


def numbers(what: str, value: Any, dtype: np.dtype[Any]) -> np.ndarray:
    """Converts an input of real numbers to a type."""
    found = plain(what, value)
    if not np.can_cast(found.dtype, dtype, "same_kind"):
        raise TypeError(f"{what}: expected real numbers, found {found.dtype}")
    return np.asarray(found, dtype)


def contiguous(what: str, value: Any, dtype: np.dtype[Any] | None = None) -> np.ndarray:
    """Converts an input to a contiguous array, of the given type if there is one. Copies only if needed."""
    # Not `ascontiguousarray`, which turns scalars into arrays of one dimension.
    found = np.asarray(array(what, value) if dtype is None else numbers(what, value, dtype), order="C")
    return found if found.flags.aligned else found.copy()


def _aligned(found: np.ndarray) -> bool:
    size = found.itemsize
    return found.flags.aligned and all(stride % size == 0 for stride in found.strides)


def written(what: str, found: Any) -> np.ndarray:
    """Converts an output to a plain array over the same memory. Raises if it is not writable."""
    if not isinstance(found, np.ndarray):
        raise TypeError(f"{what}: expected a writable array, found {type(found).__name__}")
    place = found if type(found) is np.ndarray else plain(what, found)
    if not place.flags.writeable:
        raise ValueError(f"{what}: expected a writable array, found a read-only one")
    return place


def output(what: str, found: Any, like: np.ndarray) -> np.ndarray:
    """Converts an output that must have the shape and type of ``like``."""
    place = written(what, found)
    if place.dtype != like.dtype:
        raise TypeError(f"{what}: expected {like.dtype}, found {place.dtype}")
    if place.shape != like.shape:
        raise ValueError(f"{what}: expected shape {list(like.shape)}, found {list(place.shape)}")
    if not _aligned(place):
        raise ValueError(f"{what}: expected elements at multiples of their size, found strides {place.strides}")
    return place


def apart(what: str, place: np.ndarray) -> None:
    """Raises ValueError if elements of an output overlap."""
    reach = 0
    for stride, count in sorted((abs(stride), count) for stride, count in zip(place.strides, place.shape) if count > 1):
        if stride < reach + place.itemsize and place.size:
            raise ValueError(f"{what}: expected elements that do not overlap, found strides {place.strides}")
        reach += stride * (count - 1)


def tensor(found: np.ndarray) -> Tensor:
    """Returns ``(address, type, shape, strides in elements)``. The caller must keep the array alive."""
    size = found.itemsize
    strides = tuple([stride // size for stride in found.strides])
    return (address(found), _CODES[found.dtype], found.shape, strides)


def optional(found: np.ndarray | None) -> Tensor | None:
    """:func:`tensor`, or None."""
    return None if found is None else tensor(found)


def flat(found: np.ndarray) -> Flat:
    """Returns ``(address, type, count)`` of a contiguous array. The caller must keep it alive."""
    return (address(found), _CODES[found.dtype], found.size)


def address(found: np.ndarray) -> int:
    """Returns the address of the first element."""
    return found.__array_interface__["data"][0] if found.dtype.kind == "f" else found.ctypes.data
