"""Tensors of one comparison of norms, and what is timed: PyTorch's calls and ours."""

import zlib

import torch.nn.functional as F

import layernorm.torch
import torch
from direct import Norm

EPS = 1e-5
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


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
        # Initialized, so that pages are mapped before the timing and missing writes are noticed.
        self.y, *self.gradients = (torch.full_like(t, float("nan")) for t in (self.x, self.x, self.gain, self.bias))

    def contestants(self, work, threads):
        """Returns the calls that a row times, by name."""
        if work == "modules forward":
            calls = {"torch": forward(self.module(torch.nn), self.x), "ours": forward(self.module(), self.x)}
        elif work == "modules training":
            calls = {"torch": self.training(self.module(torch.nn)), "ours": self.training(self.module())}
        else:
            ours = Norm(self, threads)
            if work == "kernels forward":
                calls = {"torch": self.torch_forward(), "ours": ours.forward(), "given": ours.forward(self.y)}
            else:
                # Backward reads the statistics of forward.
                ours.forward()()
                given = ours.backward(self.gradients)
                calls = {"torch": self.torch_backward(), "ours": ours.backward(), "given": given}
        return calls | {"copy": self.copy()}

    def module(self, library=layernorm.torch):
        """Returns a LayerNorm of this library, with the gain and bias of the problem."""
        module = library.LayerNorm(self.shape.n, EPS, dtype=self.x.dtype)
        module.load_state_dict({"weight": self.gain, "bias": self.bias})
        return module

    def training(self, module):
        """Returns a training step without an optimizer: forward, and the gradients of x, gain and bias."""
        x, dy, weight, bias = self.x.detach().clone().requires_grad_(), self.dy, module.weight, module.bias

        def call():
            y = module(x)
            y.backward(dy)
            found = y, x.grad, weight.grad, bias.grad
            x.grad = weight.grad = bias.grad = None
            return found

        return call

    def torch_forward(self):
        """Returns a call of PyTorch's layer norm without gradients."""
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


def forward(module, x):
    """Returns a forward pass without gradients, as in inference."""
    no_grad = torch.no_grad

    def call():
        with no_grad():
            return module(x)

    return call
