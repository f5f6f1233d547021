"""Reference results: the numerical contract (docs/NUMERICS.md) in plain NumPy, and formulas in float64."""

import numpy as np

CHUNK, LANES, BLOCK = 64, 256, 1024


def fma(a, b, c):
    """Computes an exact fused multiply-add in float32.

    The product is exact in float64. The sum is rounded to odd there, so that the second rounding, to float32, gives the correctly
    rounded result.
    """
    p, c = np.asarray(a, np.float64) * np.asarray(b, np.float64), np.asarray(c, np.float64)
    s = p + c
    part = s - p
    error = (p - (s - part)) + (c - part)
    even = (s.view(np.int64) & 1) == 0
    s = np.where((error != 0) & even, np.nextafter(s, np.where(error > 0, np.inf, -np.inf)), s)
    return s.astype(np.float32)


def row_sum(a, b=None):
    """Rule 2: the canonical sum of a float32 row, or of the products of two."""
    n = len(a)
    blocks = []
    for start in range(0, n, BLOCK):
        lanes = np.zeros(LANES, np.float32)
        for step in range(start, min(start + BLOCK, n), LANES):
            end = min(step + LANES, n)
            width = end - step
            if b is None:
                lanes[:width] = lanes[:width] + a[step:end]
            else:
                lanes[:width] = fma(a[step:end], b[step:end], lanes[:width])
        half = LANES // 2
        while half:
            lanes[:half] = lanes[:half] + lanes[half : 2 * half]
            half //= 2
        blocks.append(lanes[0])
    return fold(blocks)


def fold(parts):
    """A balanced tree of adjacent pairs, padded with 0 to a power of two."""
    while len(parts) > 1:
        if len(parts) % 2:
            parts = [*parts, parts[0] * np.float32(0)]
        parts = [parts[i] + parts[i + 1] for i in range(0, len(parts), 2)]
    return parts[0]


def column_sum(a, b=None):
    """Rule 5: sums down the rows, in chunks of 64."""
    chunks = []
    for start in range(0, len(a), CHUNK):
        acc = np.zeros(a.shape[1], np.float32)
        for i in range(start, min(start + CHUNK, len(a))):
            acc = acc + a[i] if b is None else fma(a[i], b[i], acc)
        chunks.append(acc)
    return fold(chunks)


def contract_row(x, eps):
    """Rule 3: m, δ, r and x̂ of a float32 row."""
    n = np.float32(len(x))
    m = row_sum(x) / n
    d = x - m
    delta = row_sum(d) / n
    v = max(np.float32(0), fma(-delta, delta, row_sum(d, d) / n)[()])
    r = np.float32(1) / np.sqrt(v + np.float32(eps))
    return m, delta, r, (d - delta) * r


def contract_layer_norm(x, weight, bias, eps):
    """y of layer norm over the last axis, float32 ``[R, N]``."""
    return np.stack([fma(contract_row(row, eps)[3], weight, bias) for row in x])


def contract_layer_norm_backward(dy, x, weight, eps):
    """Rules 4 and 5: dx, dγ, dβ."""
    n = np.float32(x.shape[1])
    dx, x_hats = [], []
    for row, grad in zip(x, dy):
        _, _, r, x_hat = contract_row(row, eps)
        g = grad * weight
        a, b = row_sum(g) / n, row_sum(g, x_hat) / n
        dx.append(r * fma(-x_hat, b, g - a))
        x_hats.append(x_hat)
    return np.stack(dx), column_sum(dy, np.stack(x_hats)), column_sum(dy)


def wide(a):
    """Converts to the widest type that NumPy has on this platform."""
    return np.asarray(a).astype(np.float64).astype(np.longdouble)


def normalize(x, axes, eps, centered=True):
    """Returns x̂ and 1/σ in the widest type."""
    x = wide(x)
    if centered:
        x = x - x.mean(axis=axes, keepdims=True)
    r = 1 / np.sqrt((x * x).mean(axis=axes, keepdims=True) + np.longdouble(eps))
    return x * r, r


def normalize_backward(g, x_hat, r, axes, centered=True):
    """Returns dx from g = dy·γ."""
    b = (g * x_hat).mean(axis=axes, keepdims=True)
    a = g.mean(axis=axes, keepdims=True) if centered else 0
    return r * (g - a - x_hat * b)


def unit(dtype):
    """Returns half the distance from 1 to the next number: the largest relative error of one rounding."""
    name = np.dtype(dtype).name
    return {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}[name]


def acc_unit(dtype):
    """The same for the accumulation type."""
    return unit("float64") if np.dtype(dtype).name == "float64" else unit("float32")


def assert_close(found, expected, scale, dtype, roundings=24):
    """Asserts agreement within one rounding to the type plus ``roundings`` of the accumulation type, relative to ``scale``.

    ``scale`` is the largest summand of an element. A row of N takes 4·⌈N/1024⌉ + log₂ N additions in sequence and about ten
    operations after that; 24 covers the rows of these tests (N ≤ 2048).
    """
    assert found.dtype == np.dtype(dtype)
    found, expected = wide(found), wide(expected) if not isinstance(expected, np.ndarray) else expected
    bound = unit(dtype) * np.abs(expected) + roundings * acc_unit(dtype) * scale
    # Subnormals of float16 are 2^-24 apart.
    bound = bound + (2.0**-25 if np.dtype(dtype).name == "float16" else 0)
    worst = np.max(np.abs(found - expected) - bound) if found.size else -1
    assert worst <= 0, f"beyond the bound by {worst}"
