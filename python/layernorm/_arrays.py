"""NumPy arrays as the compiled half takes them: address, type, shape and strides."""

from __future__ import annotations

import numpy as np

# Places in the compiled half's list of types.
FLOAT16, BFLOAT16, FLOAT32, FLOAT64 = range(4)

_CODES = {np.dtype(np.float16): FLOAT16, np.dtype(np.float32): FLOAT32, np.dtype(np.float64): FLOAT64}
_SUPPORTED = "float16, bfloat16 (of ml_dtypes), float32 or float64"


def code_of(what, dtype):
    """The number of a type, or TypeError."""
    code = _CODES.get(dtype)
    if code is not None:
        return code
    # A type of ml_dtypes is known by its name, so that the package need not be there.
    if dtype.name == "bfloat16" and dtype.itemsize == 2:
        _CODES[dtype] = BFLOAT16
        return BFLOAT16
    raise TypeError(f"{what}: expected {_SUPPORTED}, found {dtype}")


def acc_of(dtype):
    """The type that arithmetic is done in: float64 for float64, else float32."""
    return np.float64 if dtype == np.float64 else np.float32


def array(what, value):
    """An array to read. It is copied only if its bytes are swapped, or not where its elements should be."""
    found = np.asarray(value)
    if not found.dtype.isnative and found.dtype.kind == "f":
        found = found.astype(found.dtype.newbyteorder("="))
    code_of(what, found.dtype)
    return found if _aligned(found) else found.copy()


def contiguous(what, value, dtype=None):
    """An array to read whose elements follow each other, of the type if one is given; copied only if it is not that already."""
    found = np.ascontiguousarray(array(what, value) if dtype is None else value, dtype)
    return found if found.flags.aligned else found.copy()


def _aligned(found):
    size = found.itemsize
    return found.flags.aligned and all(stride % size == 0 for stride in found.strides)


def output(what, found, like):
    """An array to write, of the shape and type of ``like``."""
    if not isinstance(found, np.ndarray):
        raise TypeError(f"{what}: expected an array, found {type(found).__name__}")
    if found.dtype != like.dtype:
        raise TypeError(f"{what}: expected {like.dtype}, found {found.dtype}")
    if found.shape != like.shape:
        raise ValueError(f"{what}: expected shape {list(like.shape)}, found {list(found.shape)}")
    if not found.flags.writeable:
        raise ValueError(f"{what}: expected an array that can be written, found one that is read-only")
    if not _aligned(found):
        raise ValueError(f"{what}: expected elements at multiples of their size, found strides {found.strides}")
    return found


def tensor(found):
    """``(address, type, shape, strides in elements)``. The caller keeps the array alive."""
    size = found.itemsize
    strides = tuple([stride // size for stride in found.strides])
    return (address(found), _CODES[found.dtype], found.shape, strides)


def optional(found):
    """:func:`tensor`, or None."""
    return None if found is None else tensor(found)


def address(found):
    """Where element 0 is."""
    return found.__array_interface__["data"][0] if found.dtype.kind == "f" else found.ctypes.data
