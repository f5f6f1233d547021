"""Recurrent modules of layernorm.torch: compared with torch.nn, and what PyTorch does with them."""

import copy
import pickle

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is missing: layernorm.torch is not tested")

from torch.autograd import gradcheck
from torch.nn.utils.rnn import pack_sequence, pad_packed_sequence
from torch.utils.checkpoint import checkpoint

import layernorm as ln
import layernorm.torch as lt
from torch import nn

KINDS = ["LSTM", "GRU", "RNN"]
# A few steps with sums over a few dozen numbers of magnitude 1, with errors on both sides.
CLOSE = dict(rtol=0, atol=512 * 2.0**-24)


def parts(state):
    return state if isinstance(state, tuple) else (state,)


OPTIONS = [{}, {"num_layers": 2, "bidirectional": True}, {"batch_first": True, "bias": False}]


@pytest.mark.parametrize(
    "kind, options",
    [
        *((kind, options) for kind in KINDS for options in OPTIONS),
        ("LSTM", {"proj_size": 3}),
        ("RNN", {"nonlinearity": "relu"}),
    ],
)
def test_plain_is_torch_nn(kind, options):
    torch.manual_seed(3)
    theirs = getattr(nn, kind)(5, 8, **options)
    ours = getattr(lt, kind).from_module(theirs)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert ours.variant.startswith("none")
    x = torch.randn(6, 4, 5)
    x1, x2 = x.clone().requires_grad_(), x.clone().requires_grad_()
    y, state = theirs(x1)
    y2, state2 = ours(x2)
    for a, b in zip((y2, *parts(state2)), (y, *parts(state))):
        torch.testing.assert_close(a, b, **CLOSE)
    start = tuple(torch.randn_like(s, requires_grad=True) for s in parts(state))
    start2 = tuple(s.detach().clone().requires_grad_() for s in start)
    y, state = theirs(x1, start if kind == "LSTM" else start[0])
    y2, state2 = ours(x2, start2 if kind == "LSTM" else start2[0])
    weight = torch.randn_like(y)
    ((y * weight).sum() + parts(state)[-1].sin().sum()).backward()
    ((y2 * weight).sum() + parts(state2)[-1].sin().sum()).backward()
    for a, b in zip((x2, *start2, *ours.parameters()), (x1, *start, *theirs.parameters())):
        scale = max(1.0, b.grad.abs().max().item())
        torch.testing.assert_close(a.grad, b.grad, rtol=0, atol=512 * 2.0**-24 * scale)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sorted_first", [True, False])
def test_packed_sequences(kind, sorted_first):
    torch.manual_seed(4)
    theirs = getattr(nn, kind)(5, 8, bidirectional=True)
    ours = getattr(lt, kind).from_module(theirs)
    lengths = [6, 4, 3] if sorted_first else [3, 6, 4]
    packed = pack_sequence([torch.randn(n, 5) for n in lengths], enforce_sorted=sorted_first)
    y, state = theirs(packed)
    y2, state2 = ours(packed)
    torch.testing.assert_close(y2.data, y.data, **CLOSE)
    assert torch.equal(y2.batch_sizes, y.batch_sizes)
    for a, b in zip(parts(state2), parts(state)):
        torch.testing.assert_close(a, b, **CLOSE)
    assert torch.equal(pad_packed_sequence(y2)[1], torch.tensor(lengths))


@pytest.mark.parametrize("kind", KINDS)
def test_numpy_and_torch_get_the_same_bits(kind):
    ours = getattr(lt, kind)(5, 8, num_layers=2)
    other = getattr(ln, kind)(5, 8, num_layers=2)
    for name, value in ours.state_dict().items():
        other.parameters[name] = value.numpy()
    x = torch.randn(6, 4, 5)
    assert np.array_equal(ours(x)[0].detach().numpy(), other(x.numpy())[0])


@pytest.mark.parametrize("kind, variant", [(kind, v) for kind in KINDS for v in getattr(ln, kind).variants()])
def test_gradients_of_every_variant(kind, variant):
    torch.manual_seed(5)
    nonlinearity = {"nonlinearity": "relu"} if variant.endswith("-relu") else {}
    ours = getattr(lt, kind)(3, 4, variant=variant, dtype=torch.float64, **nonlinearity)
    x = torch.randn(4, 2, 3, dtype=torch.float64, requires_grad=True)
    names = [name for name, _ in ours.named_parameters()]

    def call(x, *parameters):
        y, state = torch.func.functional_call(ours, dict(zip(names, parameters)), (x,))
        return (y, *parts(state))

    assert gradcheck(call, (x, *ours.parameters()), fast_mode=True)


@pytest.mark.parametrize("kind", KINDS)
def test_cells_are_steps(kind):
    torch.manual_seed(6)
    ours = getattr(lt, kind)(5, 8)
    cell = getattr(lt, kind + "Cell")(5, 8)
    cell.load_state_dict({name.removesuffix("_l0"): value for name, value in ours.state_dict().items()})
    x = torch.randn(4, 3, 5)
    y, _ = ours(x)
    state = None
    for t in range(4):
        state = cell(x[t], state)
        assert torch.equal(parts(state)[0], y[t])
    alone = cell(x[0, 0])
    assert torch.equal(parts(alone)[0], y[0, 0])
    y[-1].sum().backward()
    parts(state)[0].sum().backward()
    # Sums over time have another order.
    scale = ours.weight_hh_l0.grad.abs().max().item()
    torch.testing.assert_close(cell.weight_hh.grad, ours.weight_hh_l0.grad, rtol=0, atol=64 * 2.0**-24 * max(1, scale))
    plain = getattr(nn, kind + "Cell")(5, 8)
    same = getattr(lt, kind + "Cell")(5, 8, variant="none")
    same.load_state_dict(plain.state_dict())
    torch.testing.assert_close(parts(same(x[0]))[0], parts(plain(x[0]))[0], **CLOSE)


@pytest.mark.parametrize("kind", KINDS)
def test_compiled(kind):
    torch.manual_seed(7)
    ours = getattr(lt, kind)(5, 8, num_layers=2)
    x = torch.randn(6, 4, 5, requires_grad=True)
    y, state = ours(x)
    (y.sin().sum() + parts(state)[0].sum()).backward()
    expected = [x.grad, *(p.grad for p in ours.parameters())]
    x.grad = None
    ours.zero_grad()
    compiled = torch.compile(ours, backend="aot_eager", fullgraph=True)
    y2, state2 = compiled(x)
    (y2.sin().sum() + parts(state2)[0].sum()).backward()
    assert torch.equal(y2, y)
    assert all(torch.equal(a, b) for a, b in zip([x.grad, *(p.grad for p in ours.parameters())], expected))


@pytest.mark.parametrize("kind", KINDS)
def test_copies_and_types(kind):
    ours = getattr(lt, kind)(5, 8, bidirectional=True, num_layers=2)
    x = torch.randn(6, 4, 5)
    y = ours(x)[0]
    for other in (copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))):
        assert torch.equal(other(x)[0], y) and repr(other) == repr(ours)
    with torch.no_grad():
        assert torch.equal(ours(x)[0], y) and not ours(x)[0].requires_grad
    for dtype in (torch.float16, torch.bfloat16):
        small = copy.deepcopy(ours).to(dtype)
        half = x.to(dtype).requires_grad_()
        found, state = small(half)
        wide = copy.deepcopy(small).float()(half.detach().float())[0]
        assert found.dtype == parts(state)[0].dtype == dtype
        assert torch.equal(found, wide.to(dtype)), "computed in float32, rounded once"
        found.sum().backward()
        assert half.grad.dtype == dtype and small.weight_ih_l0.grad.dtype == dtype
    assert torch.equal(ours(x[:, 0])[0], ours(x[:, :1])[0][:, 0]), "a sequence alone"


def test_noise():
    torch.manual_seed(8)
    ours = lt.LSTM(5, 8, num_layers=2, dropout=0.5, zoneout=0.1)
    x = torch.randn(6, 4, 5)
    torch.manual_seed(1)
    a = ours(x)[0]
    torch.manual_seed(1)
    assert torch.equal(ours(x)[0], a) and not torch.equal(ours(x)[0], a)
    ours.eval()
    with torch.no_grad():
        assert torch.equal(ours(x)[0], ours(x)[0])
        y = ours(x)[0]
    assert torch.equal(ours(x)[0], y), "with gradients, too"
    dropped = lt.LSTM(5, 8, num_layers=2, dropout=0.5).eval()
    y = dropped(x)[0]
    y.sum().backward()
    with torch.no_grad():
        assert torch.equal(dropped(x)[0], y)


def test_checkpoint_and_several_passes():
    ours = lt.GRU(5, 8)
    x = torch.randn(6, 4, 5, requires_grad=True)
    (ours(x)[0].sum() + ours(2 * x)[0].sin().sum()).backward()
    once = ours.weight_ih_l0.grad.clone()
    ours.zero_grad()
    first, second = ours(x)[0].sum(), ours(2 * x)[0].sin().sum()
    second.backward()
    first.backward()
    torch.testing.assert_close(ours.weight_ih_l0.grad, once, **CLOSE)
    ours.zero_grad()
    run = checkpoint(lambda x: ours(x)[0], x, use_reentrant=False)
    run.sum().backward(retain_graph=True)
    gradient = ours.weight_ih_l0.grad.clone()
    ours.zero_grad()
    ours(x)[0].sum().backward()
    assert torch.equal(ours.weight_ih_l0.grad, gradient)


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: lt.LSTM(5, 8, variant="cudnn"), ValueError, "cudnn"),
        (lambda: lt.LSTM(5, 8)(torch.ones(6, 4, 3)), ValueError, "the last dimension 5, found 3"),
        (lambda: lt.LSTM(5, 8)(torch.ones(6, 4, 5).double()), TypeError, "expected float32, found float64"),
        (lambda: lt.LSTM(5, 8)(torch.ones(5)), ValueError, "2 or 3 dimensions, found 1"),
        (
            lambda: lt.GRU(5, 8)(torch.ones(6, 4, 5), torch.ones(1, 3, 8)),
            ValueError,
            "state h: expected shape [1, 4, 8], found [1, 3, 8]",
        ),
        (lambda: lt.RNN(5, 8, nonlinearity="gelu"), ValueError, "expected tanh or relu"),
        (lambda: lt.LSTMCell(5, 8)(torch.ones(3)), ValueError, "the last dimension 5, found 3"),
    ],
)
def test_errors(call, error, words):
    with pytest.raises(error) as raised:
        call()
    assert words in str(raised.value)


def test_made_without_numbers():
    made = nn.utils.skip_init(lt.LSTM, 5, 8, num_layers=2)
    assert not made.weight_ih_l0.is_meta
    made.load_state_dict(lt.LSTM(5, 8, num_layers=2).state_dict())
    assert made(torch.randn(3, 2, 5))[0].isfinite().all()
    empty = lt.GRU(5, 8, device="meta")
    assert all(p.is_meta for p in empty.parameters())


def test_starting_points_are_the_engines():
    network = lt.LSTM(5, 8, variant="keras")
    core = ln._core.Recurrent(*network._spec)  # type: ignore[attr-defined]
    flat = torch.empty(sum(p.numel() for p in network.parameters()), dtype=torch.float64)
    core.start_into(3, (flat.data_ptr(), 3, flat.numel()))
    assert flat.tolist() == core.start(3)
    with pytest.raises(ValueError, match="parameters: expected .* elements, found"):
        core.start_into(3, (flat.data_ptr(), 3, flat.numel() - 1))
