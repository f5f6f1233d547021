"""Recurrent networks of one comparison: those of torch.nn, of layernorm.torch, and cells written in PyTorch, with the same
parameters on all sides.

Shapes: T steps, B sequences, I inputs, H hidden units, G gates (LSTM i, f, g, o; GRU r, z, n). Weights are `[G·H, I]`
and `[G·H, H]`, as in `torch.nn`.
"""

import dataclasses
import zlib

import torch.nn.functional as F

import layernorm.torch
import torch
from layernorm._names import SLOTS

EPS = 1e-5
GATES = {"lstm": 4, "gru": 3}
VARIANTS = ("paper", "none")


@dataclasses.dataclass(frozen=True)
class Size:
    """B, T, I and H."""

    batch: int
    steps: int
    input: int
    hidden: int

    def __str__(self):
        return f"{self.batch}x{self.steps}x{self.input}x{self.hidden}"


class Modules(torch.nn.Module):
    """A network, and its cell for single steps, of torch.nn (`library`, for `none`) or of layernorm.torch."""

    def __init__(self, library, kind, parameters, **options):
        super().__init__()
        width, inputs = parameters["input_weight"].shape
        hidden = width // GATES[kind]
        self.network = getattr(library, kind.upper())(inputs, hidden, **options)
        self.cell = getattr(library, f"{kind.upper()}Cell")(inputs, hidden, **options)
        self.named = {name: getattr(self.network, f"{SLOTS[name]}_l0") for name in parameters}
        with torch.no_grad():
            for name, parameter in self.named.items():
                parameter.copy_(parameters[name])
            self.cell.load_state_dict({name[:-3]: value for name, value in self.network.state_dict().items()})

    def forward(self, x):
        return self.network(x)[0]

    def stepper(self):
        """Returns a function that maps x `[1, I]` to h `[1, H]` and keeps the state."""
        state, cell = None, self.cell

        def step(x):
            nonlocal state
            state = cell(x, state)
            return state[0] if isinstance(state, tuple) else state

        return step


class Paper(torch.nn.Module):
    """The layer-normalized cell as an experienced PyTorch user writes it: the product with the input is computed for all steps
    at once, the rest step by step. With `hoisted`, the norm of that product is also computed for all steps at once.
    """

    def __init__(self, kind, parameters, hoisted=False):
        super().__init__()
        self.kind, self.hoisted = kind, hoisted
        self.named = {name: torch.nn.Parameter(value.clone()) for name, value in parameters.items()}
        for name, parameter in self.named.items():
            self.register_parameter(name.replace(".", "_"), parameter)
        self.norm, self.step = (self.lstm_norm, self.lstm_step) if kind == "lstm" else (self.gru_norm, self.gru_step)

    def double(self):
        return Paper(self.kind, {name: value.detach().double() for name, value in self.named.items()}, self.hoisted)

    def forward(self, x):
        product = F.linear(x, self.input_weight)
        if self.hoisted:
            inputs = zip(*(part.unbind(0) for part in self.norm(product)))
        else:
            inputs = map(self.norm, product.unbind(0))
        state, outputs = self.zero_state(x.shape[1], x.dtype), []
        for normed in inputs:
            state = self.step(normed, state)
            outputs.append(state[0])
        return torch.stack(outputs)

    def zero_state(self, batch, dtype):
        zeros = torch.zeros(batch, self.recurrent_weight.shape[1], dtype=dtype)
        return (zeros, zeros) if self.kind == "lstm" else (zeros,)

    def stepper(self):
        """Returns a function that maps x `[1, I]` to h `[1, H]` and keeps the state."""
        norm, step, state = self.norm, self.step, self.zero_state(1, self.recurrent_weight.dtype)

        def one(x):
            nonlocal state
            state = step(norm(F.linear(x, self.input_weight)), state)
            return state[0]

        return one

    def lstm_norm(self, z):
        """LN(W x) + b."""
        return (F.layer_norm(z, z.shape[-1:], self.input_norm_gain, self.input_norm_bias, EPS) + self.bias,)

    def lstm_step(self, inputs, state):
        (a,), (h, c) = inputs, state
        z = F.linear(h, self.recurrent_weight)
        a = a + F.layer_norm(z, z.shape[-1:], self.recurrent_norm_gain, self.recurrent_norm_bias, EPS)
        i, f, g, o = a.chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        shown = F.layer_norm(c, c.shape[-1:], self.cell_norm_gain, self.cell_norm_bias, EPS)
        return torch.sigmoid(o) * torch.tanh(shown), c

    def gru_norm(self, z):
        """LN(W x): over both gates together, and over the candidate."""
        return self.split_norm(z, self.input_norm_gain, self.input_norm_bias)

    def gru_step(self, inputs, state):
        (gates, candidate), (h,) = inputs, state
        recurrent = F.linear(h, self.recurrent_weight)
        more, q = self.split_norm(recurrent, self.recurrent_norm_gain, self.recurrent_norm_bias)
        r, z = torch.sigmoid(gates + more).chunk(2, 1)
        n = torch.tanh(candidate + r * q)
        return (h + z * (n - h),)

    @staticmethod
    def split_norm(z, gain, bias):
        """Normalizes the first 2H and the last H numbers separately."""
        hidden = z.shape[-1] // 3
        parts = (tensor.split([2 * hidden, hidden], -1) for tensor in (z, gain, bias))
        return [F.layer_norm(part, part.shape[-1:], g, b, EPS) for part, g, b in zip(*parts)]


class Problem:
    """x `[T, B, I]`, dy `[T, B, H]` and the parameters of both variants, f32, the same in every run."""

    def __init__(self, kind, size, hoisted=False):
        self.kind, self.size, self.hoisted = kind, size, hoisted
        generator = torch.Generator().manual_seed(zlib.crc32(f"{kind} {size}".encode()))
        width = GATES[kind] * size.hidden

        def normal(mean, deviation, *sizes):
            return torch.randn(sizes, generator=generator).mul_(deviation).add_(mean)

        def uniform(*sizes):
            bound = size.hidden**-0.5  # initialized as in torch.nn
            return torch.rand(sizes, generator=generator).mul_(2 * bound).sub_(bound)

        self.x = normal(0.0, 1.0, size.steps, size.batch, size.input)
        self.dy = normal(0.0, 1.0, size.steps, size.batch, size.hidden)
        weights = {"input_weight": uniform(width, size.input), "recurrent_weight": uniform(width, size.hidden)}
        paper = dict(weights)
        # Gains and biases are not 1 and 0, so that no term vanishes.
        if kind == "lstm":
            paper["bias"] = normal(0.0, 0.1, width)
        norms = ["input_norm", "recurrent_norm"] + ["cell_norm"] * (kind == "lstm")
        for norm in norms:
            count = size.hidden if norm == "cell_norm" else width
            # With a recurrent gain of 1 the LSTM is chaotic: after 100 steps PyTorch's own f32 error is 1e-4.
            mean = 0.5 if norm == "recurrent_norm" else 1.0
            paper[f"{norm}.gain"], paper[f"{norm}.bias"] = normal(mean, 0.1, count), normal(0.0, 0.1, count)
        none = weights | {"input_bias": uniform(width), "recurrent_bias": uniform(width)}
        self.parameters = {"paper": paper, "none": none}

    def torch(self, variant):
        """Returns PyTorch's network with the parameters of a variant."""
        if variant == "none":
            return Modules(torch.nn, self.kind, self.parameters["none"])
        return Paper(self.kind, self.parameters["paper"], self.hoisted)

    def ours(self, variant):
        """Returns that of layernorm.torch."""
        return Modules(layernorm.torch, self.kind, self.parameters[variant], variant=variant)


def gradients(module, x, dy):
    """Returns y, and the gradients of x and of the parameters `module.named`, in order."""
    y = module(x)
    return y, torch.autograd.grad(y, [x, *module.named.values()], dy)


def changer(parameter):
    """Returns a function that flips the last bit of a number of a parameter, without PyTorch's notice.

    An optimizer changes the parameters between training steps, and ours then packs its weights again. It would not if they
    stayed the same.
    """
    bits = parameter.detach().numpy().reshape(-1).view("int32")

    def change():
        bits[0] ^= 1

    return change
