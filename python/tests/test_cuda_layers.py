"""Combination of layers and directions on a GPU, with kernels replaced by the CPU. Addresses, row strides, order of states, dropout
and gradients are those of the real calls.
"""

import ctypes

import pytest

from gpu import distance

torch = pytest.importorskip("torch", reason="PyTorch is missing: layernorm.torch is not tested")

import layernorm.torch as lt
from layernorm.torch import _calls, _composed, _cuda, _cuda_sequences, _eager, _sequences, _spec


def memory(place, shape, strides=None):
    """Returns the float32 numbers at ``(address, …, elements)``, of the given shape; None for address 0."""
    address, elements = place[0], place[-1]
    if address == 0:
        return None
    if strides is None:
        strides = [1]
        for size in reversed(shape[1:]):
            strides.insert(0, strides[0] * size)
    count = 1 + sum((size - 1) * stride for size, stride in zip(shape, strides))
    assert count <= elements, "the extension module would raise"
    flat = torch.frombuffer((ctypes.c_char * (4 * count)).from_address(address), dtype=torch.float32)
    return flat.as_strided(shape, strides)


class Layer:
    """A CudaLayer that reads and writes CPU memory."""

    def __init__(self, device, core, place, types, tf32, sizes, training):
        self.core, self.place, (self.steps, self.batch, self.batch_first, _) = core, place, sizes
        inputs, self.hidden, _, directions, _ = core.sizes()
        self.input = inputs if place[0] == 0 else directions * self.hidden
        self.slots = [
            (slot, shape) for layer, direction, slot, shape, _ in core.places() if (layer, direction) == place
        ]
        self.kind = "lstm" if _composed._core.describe(core)["gates"] == 4 else "gru"

    def bytes(self):
        return 40, 24

    def _at(self, place, width, pitch=None):
        """Returns ``[T, B, width]`` in either memory order."""
        pitch = pitch or width
        steps, batch = (pitch, self.steps * pitch) if self.batch_first else (self.batch * pitch, pitch)
        return memory(place, (self.steps, self.batch, width), (steps, batch, 1))

    def _parameters(self, places):
        assert len(places) == len(self.slots)
        return [memory(place, shape) for place, (_, shape) in zip(places, self.slots)]

    def _states(self, pair):
        shape = (self.batch, self.hidden)
        return [memory(place, shape) for place in (pair if self.kind == "lstm" else (pair[0], (0, 0)))]

    def _run(self, x, h, c, parameters, lengths):
        named = {slot: p for (slot, _), p in zip(self.slots, parameters)}
        spec = lt.LSTM(1, 1)._spec._replace(kind=self.kind)
        zeros = torch.zeros(self.batch, self.hidden)
        c = c if c is not None else zeros if self.kind == "lstm" else None
        return _composed._Cell(self.core, spec, named, *self.place, None).over(x, zeros if h is None else h, c, lengths)  # type: ignore[call-arg]

    def _lengths(self, place):
        return list((ctypes.c_int32 * self.batch).from_address(place[0])) if place[0] else None

    def forward(self, stream, parameters, x, y, first, last, lengths, tape, workspace):
        ctypes.memset(workspace[0], 0, 24)
        lengths = self._lengths(lengths)
        with torch.no_grad():
            found, h, c = self._run(  # type: ignore[call-arg]
                self._at(x, self.input), *self._states(first), self._parameters(parameters), lengths
            )
            to = self._at(y, self.hidden, y[1])
            for b in range(self.batch):
                count = self.steps if lengths is None else lengths[b]
                to[:count, b] = found[:count, b]
            for place, value in zip(self._states(last), (h, c)):
                if place is not None:
                    place.copy_(value)
        if tape[0]:
            ctypes.memset(tape[0], 7, 40)

    def backward(self, stream, parameters, x, dy, dlast, lengths, tape, workspace, dparameters, dx, dfirst):
        assert ctypes.string_at(tape[0], 40) == bytes([7]) * 40
        ctypes.memset(workspace[0], 0, 24)
        given = [self._at(x, self.input), *self._states(self.first), *self._parameters(parameters)]  # type: ignore[attr-defined]
        inputs = [None if t is None else t.clone().requires_grad_() for t in given]
        y, h, c = self._run(*inputs[:3], inputs[3:], self._lengths(lengths))  # type: ignore[call-arg]
        outputs = [t for t in (y, h, c) if t is not None]
        states = [t for t in self._states(dlast)][: len(outputs) - 1]
        seeds = [self._at(dy, self.hidden, dy[1]), *(torch.zeros_like(h) if t is None else t for t in states)]
        present = [t for t in inputs if t is not None]
        found = iter(torch.autograd.grad(outputs, present, seeds))
        found = [None if t is None else next(found) for t in inputs]
        if dx[0][0]:
            to = self._at(dx[0], self.input)
            to.copy_(to + found[0] if dx[1] else found[0])
        for to, value in zip([*self._states(dfirst), *self._parameters(dparameters)], found[1:]):
            if to is not None:
                to.copy_(value)


@pytest.fixture
def kernels(monkeypatch):
    """Redirects calls for GPUs to CPU tensors."""
    # The real tape also holds the initial state.
    forward = Layer.forward

    def keeping(self, *arguments):
        self.first = arguments[4]
        forward(self, *arguments)

    monkeypatch.setattr(Layer, "forward", keeping)
    monkeypatch.setattr(_cuda_sequences._core, "CudaLayer", Layer)
    monkeypatch.setattr(_cuda_sequences, "stream_of", lambda device: 0)
    monkeypatch.setattr(_cuda_sequences, "_tell_at_exit", lambda device: None)
    monkeypatch.setattr(_cuda, "_current_device", lambda: None)
    yield
    _cuda_sequences._stack.cache_clear()


@pytest.mark.parametrize("lengths", [None, [3, 6, 1, 6]])
@pytest.mark.parametrize(
    "kind, options",
    [
        ("LSTM", {}),
        ("LSTM", {"num_layers": 2, "bidirectional": True, "batch_first": True, "dropout": 0.3}),
        ("GRU", {"num_layers": 3, "dropout": 0.4}),
        ("GRU", {"bidirectional": True}),
        ("LSTM", {"num_layers": 2, "variant": "none", "bias": False}),
    ],
    ids=str,
)
def test_layers_and_directions(kernels, kind, options, lengths):
    torch.manual_seed(2)
    network = getattr(lt, kind)(5, 8, **options)
    spec, parameters = network._spec, network._weights()
    how = _sequences._How(_spec.core_of(spec), spec, lengths, network.batch_first, 11)
    x = torch.randn((4, 6, 5) if network.batch_first else (6, 4, 5))
    h, c = (None if shape is None else torch.randn(shape) for shape in spec.shapes(4))
    *expected, tape = how.run(x, h, c, parameters, True)
    stack = _cuda_sequences.stack_of(how, x, parameters, True)
    *found, kept = _cuda_sequences.run(how, stack, x, h, c, parameters)
    # A dozen steps in float32, with sums of a few dozen numbers in two orders.
    for a, b in zip(expected, found):
        assert (a is None) == (b is None) and (a is None or distance(b, a) < 64 * 2.0**-24)
    cotangents = [None if t is None else torch.randn_like(t) for t in expected]
    wanted = how.gradients(tape, (x, h, c, *parameters), cotangents)
    gotten = _cuda_sequences.gradients(how, kept, x, h, c, parameters, cotangents, True)
    for at, (a, b) in enumerate(zip(wanted, gotten)):
        assert (a is None) == (b is None) and (a is None or distance(b, a) < 256 * 2.0**-24), at
    # Without a tape, without a state, with missing cotangents.
    plain = _cuda_sequences.stack_of(how, x, parameters, False)
    assert plain.bytes == 0
    again = _cuda_sequences.run(how, plain, x, None, None, parameters)[:3]
    for a, b in zip(how.run(x, None, None, parameters, True)[:3], again):
        assert a is None or distance(b, a) < 64 * 2.0**-24
    partly = _cuda_sequences.gradients(how, kept, x, None, None, parameters, (None, cotangents[1], None), False)
    assert partly[:3] == (None, None, None) and all(t.isfinite().all() for t in partly[3:])


def test_a_pass_that_gave_up_is_nan(kernels, monkeypatch):
    network = lt.LSTM(5, 8, num_layers=2)
    how = _sequences._How(_spec.core_of(network._spec), network._spec, None, False, None)
    x, parameters = torch.randn(3, 2, 5), network._weights()
    stack = _cuda_sequences.stack_of(how, x, parameters, True)
    forward = Layer.forward

    def giving_up(self, *arguments):
        forward(self, *arguments)
        ctypes.memset(arguments[-1][0], 1, 1)

    monkeypatch.setattr(Layer, "forward", giving_up)
    y, h, c, _ = _cuda_sequences.run(how, stack, x, None, None, parameters)
    assert y.isnan().all() and h.isnan().all() and c.isnan().all()


def test_norms_keep_their_operands_alive_and_in_place(monkeypatch):
    """Arguments passed to the extension module: addresses within live tensors, row strides, types of the parameters."""
    calls = []
    monkeypatch.setattr(_cuda, "_current_device", lambda: None)
    monkeypatch.setattr(_cuda, "stream_of", lambda device: 7)
    monkeypatch.setattr(_cuda._core, "cuda_forward", lambda *a: calls.append(a))
    monkeypatch.setattr(_cuda._core, "cuda_backward", lambda *a: calls.append(a))
    x = torch.randn(3, 4, 16)[..., 4:12]
    weight, bias = torch.randn(8, dtype=torch.bfloat16), torch.randn(8)
    y, stats = _cuda.forward(x, ("layer", 1), weight.float(), bias, 1e-5, True, 12)
    place, norm, read, to, gain, shift, saved, running, work = calls.pop()
    assert place == (None, 7) and norm == ("layer", 2, (12, 8, 0, 0), 1e-5) and running is None and work == (0, 0)
    assert (
        read == (x.data_ptr(), 16, 11 * 16 + 8)
        and to == (y.data_ptr(), 8, 96)
        and saved == (stats.data_ptr(), 36)
        and stats.shape == (3, 12)
    )
    assert gain[1:] == (2, 8) and shift == (bias.data_ptr(), 2, 8)
    dx, dweight, dbias = _cuda.backward(
        x, ("layer", 1), torch.randn(3, 4, 8), None, bias, stats, 1e-5, (True, False, True)
    )
    _, _, read, _, gain, saved, _, to, dgain, dshift, work = calls.pop()
    assert (
        gain is dgain is None
        and to == (dx.data_ptr(), 8, 96)
        and dweight is None
        and dshift == (dbias.data_ptr(), 2, 8)
    )
    assert work[1] == _cuda._core.cuda_workspace(("layer", 2, (12, 8, 0, 0), 1e-5), True) > 0
    image = torch.randn(2, 6, 5, 4).to(memory_format=torch.channels_last)
    y, _ = _cuda.forward(image, ("group", 3), None, None, 1e-5, False, 6)
    assert calls.pop()[1] == ("group", 2, (2, 6, 20, 3), 1e-5) and y.stride() == image.stride()
    mean, var = torch.zeros(6, dtype=torch.float64), torch.ones(6, dtype=torch.float64)
    *_, new_mean, new_var = _cuda.batch_train(image, None, None, mean, var, 0.1, 1e-5)
    assert new_mean.dtype == torch.float64 and calls[-1][7][-1] == 0.1 and calls.pop()[8][1] > 0


@pytest.mark.parametrize(
    "dtype, parameters", [(torch.float32, torch.float32), (torch.bfloat16, torch.float32)], ids=str
)
def test_the_short_way_of_rows(monkeypatch, dtype, parameters):
    """The fast path of contiguous rows, with the CPU in place of the GPU: operands, results, first and second gradients."""
    torch.manual_seed(5)
    x = torch.randn(3, 4, 8).to(dtype).requires_grad_()
    weight, bias = (torch.randn(8, dtype=parameters, requires_grad=True) for _ in range(2))
    how = (("layer", 1), 8, 1e-5)
    calls = []

    def forward(*a):
        calls.append(a)
        y, stats = _calls.forward(how[0], x.detach(), weight.detach(), bias.detach(), how[2], True)
        ctypes.memmove(a[3][0], y.data_ptr(), y.numel() * y.element_size())
        if a[6]:
            ctypes.memmove(a[6][0], stats.data_ptr(), stats.numel() * stats.element_size())

    monkeypatch.setattr(_cuda, "_current_device", lambda: None)
    monkeypatch.setattr(_cuda, "stream_of", lambda device: 7)
    monkeypatch.setattr(_cuda._core, "cuda_forward", forward)
    expected = lt.functional.layer_norm(x, (8,), weight, bias)
    alone, stats = _cuda.rows_forward(x.detach(), weight.detach(), bias.detach(), how, False)
    assert torch.equal(alone, expected) and stats is None
    place, norm, read, _, gain, shift, saved, running, work = calls.pop()
    codes = (_cuda.CODES[dtype], _cuda.CODES[parameters])
    assert place == (None, 7) and norm == ("layer", codes[0], (12, 8, 0, 0), 1e-5) and read == (x.data_ptr(), 8, 96)
    assert gain == (weight.data_ptr(), codes[1], 8) and shift == (bias.data_ptr(), codes[1], 8)
    assert saved is None and running is None and work == (0, 0)
    y = _eager._gpu_rows_apply(x, weight, bias, how)
    assert torch.equal(y, expected)
    for twice in (False, True):
        found, wanted = (
            torch.autograd.grad(t.float().square().sum(), [x, weight, bias], retain_graph=True, create_graph=twice)
            for t in (y, expected)
        )
        assert all(torch.equal(a, b) for a, b in zip(found, wanted))
    again = [torch.autograd.grad(sum(t.float().square().sum() for t in each), [x, weight]) for each in (found, wanted)]
    assert all(torch.equal(a, b) for a, b in zip(*again))
