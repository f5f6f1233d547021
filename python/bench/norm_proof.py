"""Checks the results before they are timed: every element against PyTorch in float64, within a bound that is derived here.

u = 2^-24 is the rounding error of f32, in which all arithmetic is done; w is that of the element type, or 0 if that is also
f32. bf16 has w = 2^-8, which is most of its bound: rounding the exact result would also give errors close to the whole
bound.

A sum over a row adds four elements per lane, then 256 lanes, then the blocks of 1024: its depth is
k = 4 + 8 + ceil(log2 blocks), and its error at most k u sum|term|. A sum down R rows adds 64 of them in order and then
the chunks: c = 64 + ceil(log2 chunks). Terms in u^2 are omitted; the constants are rounded up by more than that.

normalized value z = (x - mean) r
    The mean is computed twice, and with sum|d| <= N sigma its error is at most (k+1) u sigma. The relative error of v is
    (k+3) u, that of r therefore half of that and 3 roundings; d, d - delta and the product add 3. Together
    |dev z| <= u (k+10) (1 + |z|).
y = z gain + bias
    |dev y| <= |gain| |dev z| + (2u + w) |y|
dx = r (g - a - z b) with g = dy gain, a = mean g, b = mean(g z); G = sqrt(mean g^2)
    |dev a| <= (k+1) u G, and |dev b| <= mean|g dev z| + (k+1) u G <= (3k+21) u G. So |dev(z b)| is at most
    u G (1+|z|) (4k+31); the other roundings are within 8u (|g| + G (1+|z|)), and the relative error of r is (k+5) u:
    |dev dx| <= r u (6k+45) (|g| + G (1+|z|)) + w |dx|
dgain = sum of dy z and dbias = sum of dy, down the rows
    |dev dgain| <= sum|dy dev z| + (c+1) u sum|dy z| + w |dgain|
    |dev dbias| <= c u sum|dy| + w |dbias|
"""

import math

import torch
from norm_problem import DTYPES, EPS
from options import Unusable

U = 2.0**-24
BLOCK, CHUNK = 1024, 64

# Rows are compared in chunks of about this many elements, because float64 takes much memory.
PIECE = 1 << 20


def prove(problem, y, dx, dgain, dbias):
    """Returns the largest error of each result relative to its bound, at most 1. Raises Unusable otherwise."""
    p = problem
    w = 0.0 if p.dtype == "f32" else torch.finfo(DTYPES[p.dtype]).eps / 2
    depth = CHUNK + log2_ceil(p.shape.rows, CHUNK)
    gain, bias = p.gain.double(), p.bias.double()
    sums = torch.zeros(5, p.shape.n, dtype=torch.float64)
    parts = {"y": 0.0, "dx": 0.0}
    rows = max(1, PIECE // p.shape.n)
    for start in range(0, p.shape.rows, rows):
        piece = slice(start, start + rows)
        exact = Exact(p.x[piece].double(), p.dy[piece].double(), gain, bias, w)
        parts["y"] = largest(parts["y"], y[piece], exact.y, exact.y_bound)
        parts["dx"] = largest(parts["dx"], dx[piece], exact.dx, exact.dx_bound)
        sums += exact.sums
    exact_dgain, exact_dbias, shifted, products, terms = sums
    dgain_bound = shifted + (depth + 1) * U * products + w * exact_dgain.abs()
    parts["dgain"] = largest(0.0, dgain, exact_dgain, dgain_bound)
    parts["dbias"] = largest(0.0, dbias, exact_dbias, depth * U * terms + w * exact_dbias.abs())
    for name, part in parts.items():
        if not part <= 1.0:
            raise Unusable(f"{p.shape} {p.dtype}: the error of {name} is {part:.3g} times what is allowed")
    return parts


def log2_ceil(count, size):
    return math.ceil(math.log2(math.ceil(count / size)))


class Exact:
    """PyTorch's results for some rows in float64, with the bounds of our errors."""

    def __init__(self, x, dy, gain, bias, w):
        n = x.shape[1]
        k = 4 + 8 + log2_ceil(n, BLOCK)
        self.y, mean, r = torch.ops.aten.native_layer_norm.default(x, [n], gain, bias, EPS)
        self.dx, dgain, dbias = torch.ops.aten.native_layer_norm_backward.default(
            dy, x, [n], mean, r, gain, bias, [True, True, True]
        )
        z = (x - mean) * r
        reach = z.abs() + 1
        z_bound = U * (k + 10) * reach
        self.y_bound = gain.abs() * z_bound + (2 * U + w) * self.y.abs()
        g = dy * gain
        spread = g.square().mean(1, keepdim=True).sqrt()
        self.dx_bound = r * U * (6 * k + 45) * (g.abs() + spread * reach) + w * self.dx.abs()
        # The bounds of dgain and dbias are computed from these after all rows.
        terms = dy.abs()
        self.sums = torch.stack([dgain, dbias, (terms * z_bound).sum(0), (terms * z.abs()).sum(0), terms.sum(0)])


def largest(part, found, exact, bound):
    """Returns the larger of `part` and the largest error relative to its bound; NaN if there is one."""
    here = ((found.double() - exact).abs() / bound).max().item()
    return here if math.isnan(here) or here > part else part


def same_bits(left, right):
    bits = {4: torch.int32, 2: torch.int16}[left.element_size()]
    return torch.equal(left.view(bits), right.view(bits))
