"""Tensors of one comparison, and PyTorch's layer norm of them."""

import dataclasses
import zlib

import torch.nn.functional as F

import torch

EPS = 1e-5
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


@dataclasses.dataclass(frozen=True)
class Shape:
    """R rows of N elements."""

    rows: int
    n: int

    @staticmethod
    def parse(text):
        rows, n = (int(size) for size in text.split("x"))
        if rows < 1 or n < 1:
            raise ValueError(text)
        return Shape(rows, n)

    def __str__(self):
        return f"{self.rows}x{self.n}"

    def elements(self):
        return self.rows * self.n


class Problem:
    """x and dy [R, N], gain and bias [N], of one type and the same in every run."""

    def __init__(self, shape, dtype):
        self.shape, self.dtype = shape, dtype
        generator = torch.Generator().manual_seed(zlib.crc32(str(shape).encode()))

        def normal(mean, deviation, *sizes):
            values = torch.randn(sizes, generator=generator).mul_(deviation).add_(mean)
            return values.to(DTYPES[dtype])

        # Neither centered nor of unit variance, so that no term vanishes.
        self.x = normal(0.5, 1.5, shape.rows, shape.n)
        self.dy = normal(0.0, 1.0, shape.rows, shape.n)
        self.gain = normal(1.0, 0.3, shape.n)
        self.bias = normal(0.1, 0.3, shape.n)

    def torch_forward(self):
        """Returns a call of PyTorch's layer norm, as users write it."""
        x, row, gain, bias = self.x, (self.shape.n,), self.gain, self.bias
        return lambda: F.layer_norm(x, row, gain, bias, EPS)

    def torch_backward(self):
        """Returns a call of the function that autograd uses for layer norm, with the statistics of PyTorch's forward pass."""
        x, dy, row, gain, bias = self.x, self.dy, [self.shape.n], self.gain, self.bias
        _, mean, rstd = torch.ops.aten.native_layer_norm.default(x, row, gain, bias, EPS)
        backward, wanted = torch.ops.aten.native_layer_norm_backward.default, [True, True, True]
        return lambda: backward(dy, x, row, mean, rstd, gain, bias, wanted)

    def copy(self):
        """Returns a copy of x: the cost of moving the memory alone."""
        x, y = self.x, torch.zeros_like(self.x)
        return lambda: y.copy_(x)
