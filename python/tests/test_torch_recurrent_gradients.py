"""Gradients of the recurrent modules of layernorm.torch: second ones, outside training, compiled, under torch.func."""

import gc
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is missing: layernorm.torch is not tested")

from torch.autograd import gradcheck, gradgradcheck
from torch.nn.utils.rnn import pack_sequence

import layernorm as ln
import layernorm.torch as lt
import layernorm.torch._sequences as sequences
import layernorm.torch._tapes as tapes
from layernorm.torch._composed import composed

KINDS = ["LSTM", "GRU", "RNN"]
VARIANTS = [(kind, v) for kind in KINDS for v in getattr(ln, kind).variants()]
DOUBLE = torch.float64


def parts(state):
    return state if isinstance(state, tuple) else (state,)


def make(kind, variant, hidden=4, **options):
    torch.manual_seed(5)
    if variant.endswith("-relu"):
        options["nonlinearity"] = "relu"
    ours = getattr(lt, kind)(3, hidden, variant=variant, dtype=DOUBLE, **options)
    with torch.no_grad():
        for parameter in ours.parameters():
            # Not the initial values: biases of 0 and gains of 1 would hide some terms.
            parameter.add_(0.3 * torch.randn_like(parameter))
    return ours


def twice(ours, *inputs, seed=None):
    """Runs gradcheck and gradgradcheck for all inputs and parameters."""
    names = [name for name, _ in ours.named_parameters()]

    def call(*given):
        if seed is not None:
            torch.manual_seed(seed)
        arguments = given[: len(inputs)]
        if len(arguments) > 1:
            arguments = (arguments[0], arguments[1:] if len(arguments) == 3 else arguments[1])
        y, state = torch.func.functional_call(ours, dict(zip(names, given[len(inputs) :])), arguments)
        return (y, *parts(state))

    given = (*inputs, *ours.parameters())
    assert gradcheck(call, given, fast_mode=True)
    assert gradgradcheck(call, given, fast_mode=True)


def randn(*shape):
    return torch.randn(shape, dtype=DOUBLE, requires_grad=True)


@pytest.mark.parametrize("kind, variant", VARIANTS)
def test_every_variant_twice(kind, variant):
    ours = make(kind, variant)
    state = [randn(1, 2, 4) for _ in range(2 if kind == "LSTM" else 1)]
    twice(ours, randn(3, 2, 3), *state)


OPTIONS: list[dict[str, Any]] = [
    {"num_layers": 2, "bidirectional": True, "batch_first": True},
    {"bias": False},
    {"num_layers": 2, "dropout": 0.3, "recurrent_dropout": 0.3, "drop_connect": 0.3, "zoneout": 0.3},
]


@pytest.mark.parametrize(
    "kind, options", [(kind, options) for options in OPTIONS for kind in KINDS] + [("LSTM", {"proj_size": 2})]
)
def test_every_option_twice(kind, options):
    twice(make(kind, "paper", **options), randn(3, 2, 3), seed=1)


@pytest.mark.parametrize("kind", KINDS)
def test_cells_twice(kind):
    torch.manual_seed(6)
    cell = getattr(lt, kind + "Cell")(3, 4, dtype=DOUBLE)
    states = [randn(2, 4) for _ in range(2 if kind == "LSTM" else 1)]

    def call(x, *states):
        return cell(x, states if kind == "LSTM" else states[0])

    assert gradgradcheck(call, (randn(2, 3), *states), fast_mode=True)


def test_packed_sequences_twice():
    ours = make("LSTM", "paper", bidirectional=True)

    def call(a, b):
        return ours(pack_sequence([a, b], enforce_sorted=False))[0].data

    assert gradcheck(call, (randn(2, 3), randn(4, 3)), fast_mode=True)
    assert gradgradcheck(call, (randn(2, 3), randn(4, 3)), fast_mode=True)


def test_the_penalty_of_a_gradient_trains():
    """A typical use of double backward: a gradient penalty, in float32, gives parameters a gradient."""
    ours, x = lt.LSTM(3, 4), torch.randn(5, 2, 3, requires_grad=True)
    (slope,) = torch.autograd.grad(ours(x)[0].sum(), x, create_graph=True)
    once = torch.autograd.grad(ours(x)[0].sum(), x)[0]
    assert torch.equal(slope, once), "the extension module computes the first gradient in either case"
    slope.square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in ours.parameters())


@pytest.mark.parametrize("kind, variant", VARIANTS)
@pytest.mark.parametrize("training", [True, False])
def test_what_is_composed_is_what_is_compiled(kind, variant, training):
    cell = 0.2 if kind == "LSTM" else 0.0
    noise = (0.3, 0.3, 0.3, 0.3, cell) if training else (0.0, 0.0, 0.0, 0.3, cell)
    projection = 3 if kind == "LSTM" else None
    spec = sequences.Spec(kind.lower(), variant, 3, 4, 2, True, projection, True, None, noise)
    core = sequences.core_of(spec)
    torch.manual_seed(7)
    parameters = [torch.randn(shape, dtype=DOUBLE) for *_, shape, _ in core.places()]
    x, seed, lengths = torch.randn(5, 3, 3, dtype=DOUBLE), 77 if training else None, [2, 5, 1]
    h, c = (None if shape is None else torch.randn(shape, dtype=DOUBLE) for shape in spec.shapes(3))
    mode = (seed, False) if training else None
    expected = sequences.run(spec, core, x, h, c, parameters, lengths, False, mode)[:3]
    for a, b in zip(composed(core, spec, x, h, c, parameters, lengths, False, seed), expected):
        # About 20 steps in all layers, with sums over at most 6 numbers of magnitude 5: far below 10^-11.
        assert (a is None and b is None) or (a - b).abs().max() < 1e-11


@pytest.mark.parametrize("kind", KINDS)
def test_zoneout_outside_training(kind):
    """h is the expectation p·(old h) + (1 − p)·(new h), with its gradients."""
    rates = {"zoneout": 0.2, **({"zoneout_cell": 0.3} if kind == "LSTM" else {})}
    ours = make(kind, "paper", **rates).eval()
    x = randn(3, 2, 3)
    twice(ours, x)
    with torch.no_grad():
        assert torch.equal(ours(x)[0], ours(x.detach().requires_grad_())[0])
    torch._dynamo.reset()
    compiled = torch.compile(ours, backend="aot_eager", fullgraph=True)
    a, b = (torch.autograd.grad(f(x)[0].sin().sum(), x)[0] for f in (ours, compiled))
    assert torch.equal(a, b)
    plain = make(kind, "paper").eval()
    plain.load_state_dict(ours.state_dict())
    h = plain(x[:1])[0]
    torch.testing.assert_close(ours(x[:1])[0], 0.8 * h, rtol=1e-14, atol=0)


def counted(monkeypatch):
    calls, run = [], sequences.run
    monkeypatch.setattr(sequences, "run", lambda *arguments: (calls.append(1), run(*arguments))[1])
    return calls


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_compiled_backward_keeps_the_tape(kind, backend, monkeypatch):
    torch.manual_seed(7)
    torch._dynamo.reset()
    ours = getattr(lt, kind)(5, 8, num_layers=2)
    x = torch.randn(6, 4, 5, requires_grad=True)
    expected = torch.autograd.grad(ours(x)[0].sum(), [x, *ours.parameters()])
    compiled = torch.compile(ours, backend=backend, fullgraph=True)
    try:
        compiled(x)
    except torch._inductor.exc.InductorError as error:
        pytest.skip(f"inductor has no compiler here: {error}")
    calls = counted(monkeypatch)
    y = compiled(x)[0]
    found = torch.autograd.grad(y.sum(), [x, *ours.parameters()])
    assert len(calls) == 1, "backward does not run forward again"
    assert all(torch.equal(a, b) for a, b in zip(found, expected))
    del y, found
    gc.collect()
    assert not tapes._KEPT, "tapes go when their tensors do"


def test_a_tape_that_is_gone_is_made_again(monkeypatch):
    spec = sequences.Spec("lstm", "paper", 5, 8, 1, False, None, True, None, (0.0,) * 5)
    parameters = [torch.randn(shape) for *_, shape, _ in sequences.core_of(spec).places()]
    x = torch.randn(6, 4, 5)
    y, h, c, tape = torch.ops.layernorm.recurrent(x, None, None, parameters, None, spec.text, False, 0, True)
    rest = (x, None, None, parameters, None, spec.text, False, 0)
    expected = torch.ops.layernorm.recurrent_backward(y, h, c, tape, *rest)
    calls = counted(monkeypatch)
    found = torch.ops.layernorm.recurrent_backward(y, h, c, tape.clone(), *rest)
    assert len(calls) == 1 and torch.equal(found[0], expected[0])
    for recorded in (True, False):
        wanted = [p.clone().requires_grad_(recorded) for p in parameters]
        arguments = (x.clone().requires_grad_(recorded), None, None, wanted, None, spec.text, False, 0, recorded)
        torch.library.opcheck(torch.ops.layernorm.recurrent.default, arguments)


@pytest.mark.parametrize("kind", KINDS)
def test_under_torch_func(kind):
    torch.manual_seed(8)
    ours, xs = getattr(lt, kind)(5, 8), torch.randn(3, 6, 4, 5)
    parameters = dict(ours.named_parameters())

    def loss(parameters, x):
        return torch.func.functional_call(ours, parameters, (x,))[0].sin().sum()

    each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, xs)
    for i, x in enumerate(xs):
        found = torch.func.grad(loss)(parameters, x)
        expected = torch.autograd.grad(loss(parameters, x), list(parameters.values()))
        for (name, a), b in zip(found.items(), expected):
            assert torch.equal(a, b) and torch.equal(each[name][i], b)
    x = xs[0]
    found = torch.func.grad(lambda x: torch.func.grad(loss, 1)(parameters, x).square().sum())(x)
    x.requires_grad_()
    (once,) = torch.autograd.grad(loss(parameters, x), x, create_graph=True)
    torch.testing.assert_close(found, torch.autograd.grad(once.square().sum(), x)[0])


@pytest.mark.parametrize("kind", KINDS)
def test_autocast(kind):
    """Networks compute in the type of their input: autocast does not apply to their operations."""
    ours = getattr(lt, kind)(5, 8)
    x = torch.randn(6, 4, 5)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(ours(x)[0], ours(x.float())[0]) and ours(x)[0].dtype == torch.float32
        y = ours(torch.nn.functional.linear(x, torch.eye(5)))[0]
    assert y.dtype == torch.bfloat16
    y.float().sum().backward()
    assert ours.weight_ih_l0.grad.dtype == torch.float32


def test_in_place_changes_are_found():
    ours, x = lt.GRU(3, 4), torch.randn(5, 2, 3)
    y = ours(x)[0]
    with torch.no_grad():
        ours.weight_hh_l0.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    y = ours(x)[0]
    y.sum().backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        y.sum().backward()
