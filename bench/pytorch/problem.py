"""The tensors of one comparison, and PyTorch's layer norm on them."""

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

        # Neither centred nor of unit variance, so that no term drops out.
        self.x = normal(0.5, 1.5, shape.rows, shape.n)
        self.dy = normal(0.0, 1.0, shape.rows, shape.n)
        self.gain = normal(1.0, 0.3, shape.n)
        self.bias = normal(0.1, 0.3, shape.n)

    def torch_forward(self):
        """A call of PyTorch's layer norm as its users write it."""
        x, row, gain, bias = self.x, (self.shape.n,), self.gain, self.bias
        return lambda: F.layer_norm(x, row, gain, bias, EPS)

    def torch_backward(self):
        """A call of what autograd calls for layer norm, with the statistics of PyTorch's own forward."""
        x, dy, row, gain, bias = self.x, self.dy, [self.shape.n], self.gain, self.bias
        _, mean, rstd = torch.ops.aten.native_layer_norm.default(x, row, gain, bias, EPS)
        backward, wanted = torch.ops.aten.native_layer_norm_backward.default, [True, True, True]
        return lambda: backward(dy, x, row, mean, rstd, gain, bias, wanted)

    def copy(self):
        """A copy of x: what moving the memory costs by itself."""
        x, y = self.x, torch.zeros_like(self.x)
        return lambda: y.copy_(x)
