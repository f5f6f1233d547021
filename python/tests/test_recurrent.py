"""Recurrent networks for NumPy arrays."""

import copy
import pickle

import numpy as np
import pytest

import layernorm as ln

KINDS = {"LSTM": ln.LSTM, "GRU": ln.GRU, "RNN": ln.RNN}
ALL = [(kind, variant) for kind, network in KINDS.items() for variant in network.variants()]


def bits(a):
    return np.ascontiguousarray(a).tobytes()


def norm(v, gain, bias, eps=1e-5):
    d = v - v.mean(-1, keepdims=True)
    return d / np.sqrt((d * d).mean(-1, keepdims=True) + eps) * gain + bias


def sigmoid(v):
    return 1 / (1 + np.exp(-v))


def paper_lstm(network, x):
    """Equations 20 to 22 of the paper, in float64."""
    p = {name: value.astype(np.float64) for name, value in network.parameters.items()}
    h = c = np.zeros((x.shape[1], p["norm_c_weight_l0"].size))
    outputs = []
    for step in x.astype(np.float64):
        a = norm(step @ p["weight_ih_l0"].T, p["norm_ih_weight_l0"], p["norm_ih_bias_l0"])
        a = a + norm(h @ p["weight_hh_l0"].T, p["norm_hh_weight_l0"], p["norm_hh_bias_l0"]) + p["bias_gates_l0"]
        i, f, g, o = np.split(a, 4, 1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(norm(c, p["norm_c_weight_l0"], p["norm_c_bias_l0"]))
        outputs.append(h)
    return np.stack(outputs), h, c


def test_the_papers_equations(rng):
    network = ln.LSTM(5, 8)
    x = rng.standard_normal((7, 3, 5)).astype(np.float32)
    y, (h, c) = network(x)
    expected, last_h, last_c = paper_lstm(network, x)
    # Seven steps, each with sums over a few dozen numbers of magnitude 1 and functions with slopes of at most 1.
    for found, wanted in ((y, expected), (h[0], last_h), (c[0], last_c)):
        assert np.abs(found - wanted).max() < 7 * 64 * 2.0**-24
    double = ln.LSTM(5, 8, dtype=np.float64)
    assert np.abs(double(x.astype(np.float64))[0] - paper_lstm(double, x)[0]).max() < 7 * 64 * 2.0**-53


@pytest.mark.parametrize("kind, variant", ALL)
def test_gradients_are_those_of_differences(rng, kind, variant):
    network = KINDS[kind](3, 4, variant, num_layers=2, bidirectional=True, dtype=np.float64)
    x = rng.standard_normal((4, 2, 3))
    for value in network.parameters.values():
        value += 0.1 * rng.standard_normal(value.shape)
    y, state, tape = network.train(x)
    dy = rng.standard_normal(y.shape)
    parts = state if kind == "LSTM" else (state,)
    dstate = tuple(rng.standard_normal(part.shape) for part in parts)
    found = tape.backward(dy, dstate if kind == "LSTM" else dstate[0])
    first = tuple(0.5 * rng.standard_normal(part.shape) for part in parts) if kind == "LSTM" else None

    def loss(state=None):
        y, last = network(x, state)
        last = last if kind == "LSTM" else (last,)
        return (y * dy).sum() + sum((a * b).sum() for a, b in zip(last, dstate))

    def slope(array, index, state=None):
        kept, eps = array[index], 1e-6
        array[index] = kept + eps
        up = loss(state)
        array[index] = kept - eps
        down = loss(state)
        array[index] = kept
        return (up - down) / (2 * eps)

    # Central differences have errors of ε²·f''' and rounding/ε, each about 10^-9 for numbers of about 10. These numbers are not
    # near the kink of relu.
    for array, gradient in [(x, found.x), *((network.parameters[n], found.parameters[n]) for n in network.parameters)]:
        index = tuple(rng.integers(0, dim) for dim in array.shape)
        assert abs(slope(array, index) - gradient[index]) < 1e-6
    if first is not None:
        _, _, tape = network.train(x, first)
        gradient = tape.backward(dy, dstate).state
        assert abs(slope(first[1], (1, 0, 2), first) - gradient[1][1, 0, 2]) < 1e-6


@pytest.mark.parametrize("kind", KINDS)
def test_steps_are_the_sequence(rng, kind):
    network = KINDS[kind](3, 5, num_layers=2)
    x = rng.standard_normal((6, 2, 3)).astype(np.float32)
    y, last = network(x)
    state = None
    for t in range(6):
        one, state = network.step(x[t], state)
        assert bits(one) == bits(y[t])
    assert bits(np.stack(state) if kind == "LSTM" else state) == bits(np.stack(last) if kind == "LSTM" else last)


def test_layouts_lengths_and_batches(rng):
    network = ln.GRU(3, 4, bidirectional=True)
    swapped = ln.GRU(3, 4, bidirectional=True, batch_first=True)
    x = rng.standard_normal((5, 3, 3)).astype(np.float32)
    y, h = network(x)
    y2, h2 = swapped(x.transpose(1, 0, 2))
    assert bits(y2.transpose(1, 0, 2)) == bits(y) and bits(h2) == bits(h)
    y, h = network(x, lengths=[5, 2, 4])
    assert not y[2:, 1].any() and not y[4:, 2].any()
    alone, last = network(x[:2, 1:2])
    assert bits(alone) == bits(y[:2, 1:2]) and bits(last) == bits(h[:, 1:2])


@pytest.mark.parametrize("recompute", [False, True])
def test_several_tapes_at_once(rng, recompute):
    network = ln.LSTM(3, 4, num_layers=2, dropout=0.5)
    xs = rng.standard_normal((3, 5, 2, 3)).astype(np.float32)
    dy = rng.standard_normal((5, 2, 4)).astype(np.float32)
    alone = [network.train(x, seed=i)[2].backward(dy) for i, x in enumerate(xs)]
    tapes = [network.train(x, seed=i, recompute=recompute)[2] for i, x in enumerate(xs)]
    for expected, tape in zip(alone, tapes):
        for _ in range(2):
            found = tape.backward(dy)
            assert bits(found.x) == bits(expected.x)
            assert all(bits(found.parameters[n]) == bits(expected.parameters[n]) for n in network.parameters)


def test_new_parameters_are_used(rng):
    network = ln.RNN(3, 4)
    x = rng.standard_normal((2, 1, 3)).astype(np.float32)
    before = network(x)[0]
    network.parameters["weight_ih_l0"] *= 2
    changed = network(x)[0]
    assert bits(changed) != bits(before)
    network.parameters["weight_ih_l0"] = network.parameters["weight_ih_l0"] / 2
    assert bits(network(x)[0]) == bits(before)


def test_half_precision_in_and_out(rng):
    network = ln.LSTM(3, 4)
    x = rng.standard_normal((5, 2, 3)).astype(np.float16)
    y, _ = network(x)
    expected, _ = network(x.astype(np.float32))
    assert bits(y) == bits(expected.astype(np.float16))


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: ln.LSTM(3, 4, "cudnn"), ValueError, "cudnn"),
        (lambda: ln.LSTM(0, 4), ValueError, "input: expected 1 to 16777216, found 0"),
        (lambda: ln.GRU(3, 4, proj_size=2), ValueError, "projection: expected an LSTM"),
        (lambda: ln.LSTM(3, 4, dropout=1.0), ValueError, "dropout"),
        (lambda: ln.LSTM(3, 4)(np.ones((5, 2, 2), "f4")), ValueError, "with I = 3, found shape [5, 2, 2]"),
        (lambda: ln.LSTM(3, 4)(np.ones((5, 2, 3))), TypeError, "computed in float32, found float64"),
        (lambda: ln.GRU(3, 4)(np.ones((5, 2, 3), "f4"), np.ones((1, 1, 4))), ValueError, "h of shape [1, 2, 4]"),
        (lambda: ln.GRU(3, 4)(np.ones((5, 2, 3), "f4"), lengths=[6, 1]), ValueError, "6"),
        (lambda: ln.GRU(3, 4, bidirectional=True).step(np.ones((2, 3), "f4")), ValueError, "found a bidirectional one"),
    ],
)
def test_errors(call, error, words):
    with pytest.raises(error) as raised:
        call()
    assert words in str(raised.value)


class Named(ln.GRU):
    """A subclass with an additional attribute."""

    def __init__(self, name, **options):
        super().__init__(3, 4, **options)
        self.name = name


COPIES = {
    "pickle": lambda network: pickle.loads(pickle.dumps(network)),
    "pickle protocol 2": lambda network: pickle.loads(pickle.dumps(network, protocol=2)),
    "deepcopy": copy.deepcopy,
}


@pytest.mark.parametrize("again", COPIES.values(), ids=COPIES)
@pytest.mark.parametrize(
    "network",
    [
        ln.LSTM(3, 4, num_layers=2, bidirectional=True, proj_size=2, eps=1e-3, batch_first=True, seed=5),
        ln.GRU(3, 4, bias=False, dropout=0.5, num_layers=2, dtype=np.float64),
        ln.RNN(3, 4, ln.RNN.variants()[-1], zoneout=0.25),
        Named("mine"),
    ],
    ids=lambda network: type(network).__name__,
)
def test_copies(rng, network, again):
    for value in network.parameters.values():
        value += 0.1
    x = rng.standard_normal((5, 2, 3)).astype(network.dtype)
    y, state, tape = network.train(x, seed=3)
    other = again(network)
    assert repr(other) == repr(network) and vars(other).keys() == vars(network).keys()
    assert getattr(other, "name", None) == getattr(network, "name", None)
    y2, state2, tape2 = other.train(x, seed=3)
    assert bits(y2) == bits(y) and all(bits(a) == bits(b) for a, b in zip(state2, state))
    dy = np.ones_like(y)
    found, wanted = tape2.backward(dy), tape.backward(dy)
    assert bits(found.x) == bits(wanted.x) and list(found.parameters) == list(wanted.parameters)
    # Each has its own parameters.
    next(iter(other.parameters.values()))[...] = 7
    assert bits(network.train(x, seed=3)[0]) == bits(y) != bits(other.train(x, seed=3)[0])


def test_a_shallow_copy_shares_parameters(rng):
    network = ln.RNN(3, 4)
    other = copy.copy(network)
    network.parameters["weight_ih_l0"] *= 2
    x = rng.standard_normal((2, 1, 3)).astype(np.float32)
    assert bits(other(x)[0]) == bits(network(x)[0])


def test_a_tape_outlives_its_network(rng):
    network = ln.GRU(3, 4)
    x = rng.standard_normal((5, 2, 3)).astype(np.float32)
    y, _, tape = network.train(x)
    wanted = tape.backward(np.ones_like(y))
    ln.GRU.__init__(network, 1, 1)
    found = tape.backward(np.ones_like(y))
    assert all(bits(found.parameters[name]) == bits(wanted.parameters[name]) for name in wanted.parameters)
    with pytest.raises(TypeError, match="pickle"):
        pickle.dumps(tape)
