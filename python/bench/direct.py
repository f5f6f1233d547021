"""The compiled half of the package, called directly: kernels, without the checks and the autograd of `layernorm.torch`.

Each method prepares its arguments and returns a function without arguments that makes the call. The extension module is
private and trusts the addresses that it receives, so these functions also keep their tensors alive.
"""

import torch
from layernorm import _core
from layernorm.torch._types import CODES


def _flat(t):
    return t.data_ptr(), CODES[t.dtype], t.numel()


def _tensor(t):
    if not t.is_contiguous():
        raise ValueError("expected a contiguous tensor")
    return t.data_ptr(), CODES[t.dtype], tuple(t.shape), t.stride()


def _keeping(function, *memory):
    # The call holds only addresses, so the tensors must outlive it.
    function.memory = memory
    return function


class Norm:
    """Layer norm of a problem. Without `into`, each call allocates its results with PyTorch, as PyTorch does."""

    def __init__(self, problem, threads, eps=1e-5):
        self.problem, self.threads, self.eps = problem, threads, eps
        # m, δ and 1/σ of every row.
        self.stats = torch.full((3, problem.shape.rows), float("nan"))

    def forward(self, into=None):
        """`into` is y [R, N]."""
        p, run, op, eps = self.problem, _core.forward, ("layer", 1), self.eps
        x, gain, bias, stats = _tensor(p.x), _tensor(p.gain), _tensor(p.bias), _flat(self.stats)
        given, fresh, like, empty_like = (self.threads, False), (self.threads, True), p.x, torch.empty_like
        _, code, shape, strides = x

        def allocating():
            y = empty_like(like)
            run(op, x, (y.data_ptr(), code, shape, strides), gain, bias, False, eps, stats, None, fresh)
            return y

        if into is None:
            return _keeping(allocating, p, self.stats)
        y = _tensor(into)
        call = lambda: run(op, x, y, gain, bias, False, eps, stats, None, given)
        return _keeping(call, p, self.stats, into)

    def backward(self, into=None):
        """Uses the statistics of the last forward pass. `into` is dx [R, N], and the gradients of gain and bias [N]."""
        p, run, op, eps = self.problem, _core.backward, ("layer", 1), self.eps
        x, dy, gain, stats = _tensor(p.x), _tensor(p.dy), _tensor(p.gain), _flat(self.stats)
        given, fresh, empty_like = (self.threads, False), (self.threads, True), torch.empty_like

        like, like_row = p.x, p.gain
        rows, row = x[1:], gain[1:]

        def allocating():
            dx, dgain, dbias = empty_like(like), empty_like(like_row), empty_like(like_row)
            at_x, at_gain, at_bias = dx.data_ptr(), dgain.data_ptr(), dbias.data_ptr()
            run(op, x, dy, None, gain, False, eps, stats, (at_x, *rows), (at_gain, *row), (at_bias, *row), fresh)
            return dx, dgain, dbias

        if into is None:
            return _keeping(allocating, p, self.stats)
        dx, dgain, dbias = map(_tensor, into)
        call = lambda: run(op, x, dy, None, gain, False, eps, stats, dx, dgain, dbias, given)
        return _keeping(call, p, self.stats, into)


class Network:
    """A recurrent network of one layer, from zeros, into memory that is kept."""

    def __init__(self, problem, variant, threads):
        self.problem, self.how = problem, (threads, False)
        size, given = problem.size, problem.parameters[variant]
        noise = (0.0, 0.0, 0.0, 0.0, 0.0)
        self.core = _core.Recurrent(problem.kind, variant, size.input, size.hidden, 1, False, None, True, None, noise)
        names = [name for _, _, name, _, _ in self.core.places()]
        if set(names) != set(given):
            raise ValueError(f"the network has the parameters {names}, PyTorch {list(given)}")
        self.parameters = {name: given[name].clone() for name in names}
        nan = float("nan")
        self.y, self.dx = torch.full_like(problem.dy, nan), torch.full_like(problem.x, nan)
        self.state = [torch.full((1, size.batch, size.hidden), nan) for _ in range(4)]
        self.flat_gradients = torch.full((sum(p.numel() for p in self.parameters.values()),), nan)

    def _arguments(self):
        size, lstm = self.problem.size, self.problem.kind == "lstm"
        h, c, dh, dc = map(_flat, self.state)
        last, first = ((h, c), (dh, dc)) if lstm else ((h, None), (dh, None))
        parameters = [_flat(p) for p in self.parameters.values()]
        return parameters, _flat(self.problem.x), (size.steps, size.batch, False), last, first

    def forward(self):
        parameters, x, sizes, last, _ = self._arguments()
        run, y, how = self.core.forward, _flat(self.y), self.how
        return _keeping(lambda: run(parameters, x, sizes, None, (None, None), y, last, None, how), self)

    def train(self, change):
        """Forward and backward, with gradients of x, the parameters and the state. `change` is called before."""
        parameters, x, sizes, last, first = self._arguments()
        run, y, how, dy = self.core.forward, _flat(self.y), self.how, _flat(self.problem.dy)
        dx, dparameters = _flat(self.dx), _flat(self.flat_gradients)

        def call():
            change()
            tape = run(parameters, x, sizes, None, (None, None), y, last, (0, False), how)
            tape.backward(dy, (None, None), dx, dparameters, first)

        return _keeping(call, self)

    def gradients(self):
        """Returns the gradients of the parameters in the last training step, by name."""
        parts = self.flat_gradients.split([p.numel() for p in self.parameters.values()])
        return {name: part.view(p.shape) for (name, p), part in zip(self.parameters.items(), parts)}
