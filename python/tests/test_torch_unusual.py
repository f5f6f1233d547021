"""Lazily negated tensors and zero tensors, tensors that change between a pass and its gradients, and what is no tensor."""

import warnings

import pytest

torch = pytest.importorskip("torch")
from torch.autograd import forward_ad, graph

import layernorm.torch as ours
import layernorm.torch.functional as F

NORMS = [("LayerNorm", (4,)), ("RMSNorm", (4,)), ("GroupNorm", (1, 4)), ("BatchNorm1d", (4,))]


def pair(name, arguments):
    return getattr(ours, name)(*arguments), getattr(torch.nn, name)(*arguments)


@pytest.mark.parametrize("name, arguments", NORMS)
def test_tensors_that_are_yet_to_be_negated(name, arguments):
    z = torch.randn(3, 4, dtype=torch.complex64)
    for norm in pair(name, arguments):
        x = z.conj().imag
        assert x.is_neg()
        # Without the sign of x the result would be −y, which rounding cannot hide.
        torch.testing.assert_close(norm(x), norm(x.clone()), rtol=0, atol=0)


@pytest.mark.parametrize("name, arguments", NORMS)
def test_gradients_that_are_yet_to_be_negated(name, arguments):
    a, b, w = torch.randn(3, 4), torch.randn(3, 4), torch.randn(3, 4, dtype=torch.complex64)
    found = []
    for norm in pair(name, arguments):
        x = b.clone().requires_grad_()
        (torch.complex(a, norm(x)).conj() * w).abs().sum().backward()
        found.append(x.grad)
    # Three rounded steps with numbers near 1.
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-5)


def test_saved_tensors_in_another_layout():
    x = torch.randn(6, 4, requires_grad=True)
    turn = lambda t: t.t().contiguous() if t.dim() == 2 else t
    found = []
    for norm in pair("LayerNorm", (4,)):
        with graph.saved_tensors_hooks(turn, lambda t: t.t() if t.dim() == 2 else t):
            y = norm(x)
        found += torch.autograd.grad(y.pow(3).sum(), x)
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-4)


def test_parameters_of_another_type_between_forward_and_backward():
    norm = ours.LayerNorm(400)
    y = norm(torch.randn(6, 400, requires_grad=True))
    norm.half()
    with pytest.raises(TypeError, match="weight: expected float32, found float16"):
        y.sum().backward()


def test_saved_tensors_of_another_type():
    norm = ours.LayerNorm(400)
    with graph.saved_tensors_hooks(torch.Tensor.double, lambda t: t):
        y = norm(torch.randn(6, 400, requires_grad=True))
    with pytest.raises(TypeError, match="expected float64, found float32"):
        y.sum().backward()


@pytest.mark.parametrize("module", [ours.LayerNorm(4, elementwise_affine=False), ours.GroupNorm(2, 4, affine=False),
                                    ours.BatchNorm1d(4, affine=False), ours.LSTM(4, 4).requires_grad_(False)])  # fmt: skip
def test_tangents_are_refused_and_not_lost(module):
    x = torch.randn(3, 4)
    with forward_ad.dual_level(), pytest.raises(NotImplementedError, match="tangent"):
        module(forward_ad.make_dual(x, x))


@pytest.mark.parametrize("name, arguments", NORMS[:3])
def test_traced_norms_are_no_constants(name, arguments):
    norm = getattr(ours, name)(*arguments)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = torch.jit.trace(norm, torch.randn(3, 4))
    x = torch.randn(5, 4, requires_grad=True)
    assert torch.equal(traced(x), norm(x))
    gradient = torch.autograd.grad(traced(x).pow(3).sum(), x)[0]
    assert gradient.any() and torch.equal(gradient, torch.autograd.grad(norm(x).pow(3).sum(), x)[0])


def test_traced_lstm():
    lstm = ours.LSTM(4, 5)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = torch.jit.trace(lstm, torch.randn(3, 2, 4))
        x = torch.randn(6, 2, 4)
        assert torch.equal(traced(x)[0], lstm(x)[0])


@pytest.mark.parametrize("name, arguments", [*NORMS, ("LSTM", (4, 4))])
def test_parameters_without_memory_are_refused(name, arguments):
    with pytest.raises(ValueError, match="one device"):
        getattr(ours, name)(*arguments, device="meta")(torch.randn(3, 4))


def test_state_without_memory_or_of_another_type():
    lstm, x = ours.LSTM(4, 4), torch.randn(3, 2, 4)
    state = torch.ones(1, 2, 4)
    with pytest.raises(ValueError, match="one device"):
        lstm(x, (state.to("meta"), state))
    with pytest.raises(TypeError, match="state c: expected .* found int32"):
        lstm(x, (state, state.int()))


@pytest.mark.parametrize("name, arguments", [*NORMS, ("LSTM", (4, 4)), ("GRUCell", (4, 4))])
def test_zeros_that_are_never_stored(name, arguments):
    module, zeros = getattr(ours, name)(*arguments), torch._efficientzerotensor((4, 4))
    found, expected = module(zeros), module(torch.zeros(4, 4))
    assert torch.equal(*((found, expected) if torch.is_tensor(found) else (found[0], expected[0])))


def test_networks_on_a_default_device():
    with torch.device("meta"):
        assert ours.LSTM(4, 4).weight_ih_l0.is_meta
        assert ours.LSTM(4, 4, device="cpu").weight_ih_l0.abs().sum() > 0


def test_an_array_is_no_tensor():
    numpy = pytest.importorskip("numpy")
    with pytest.raises(TypeError, match="expected a tensor, found ndarray"):
        ours.LayerNorm(4)(numpy.ones((2, 4), "f4"))


@pytest.mark.parametrize("wrong", [[1.0, 2.0], "x", 1.0, object()])
def test_what_is_no_tensor_is_said(wrong):
    x, one, said = torch.ones(2, 2), torch.ones(2), f"expected a tensor, found {type(wrong).__name__}"
    calls = [
        lambda: F.layer_norm(wrong, (2,)),
        lambda: F.layer_norm(x, (2,), wrong),
        lambda: F.layer_norm(x, (2,), one, wrong),
        lambda: F.rms_norm(wrong, (2,)),
        lambda: F.rms_norm(x, (2,), wrong),
        lambda: F.group_norm(wrong, 1),
        lambda: F.group_norm(x, 1, wrong),
        lambda: F.instance_norm(x.expand(2, 2, 2), wrong, one),
        lambda: F.instance_norm(x.expand(2, 2, 2), weight=wrong),
        lambda: F.batch_norm(x, one, wrong),
        lambda: F.batch_norm(x, one, one, wrong),
        lambda: F.batch_norm(wrong, one, one),
        lambda: ours.LSTM(2, 2)(wrong),
        lambda: ours.LSTM(2, 2)(x, (wrong, one)),
        lambda: ours.GRU(2, 2)(x, wrong),
        lambda: ours.GRUCell(2, 2)(wrong),
        lambda: ours.LSTMCell(2, 2)(x, (x, wrong)),
    ]
    for call in calls:
        with pytest.raises(TypeError, match=said):
            call()
    # None is a parameter that is missing, but no input.
    for call in (lambda: ours.LSTM(2, 2)(None), lambda: F.layer_norm(None, (2,)), lambda: F.batch_norm(None, one, one)):
        with pytest.raises(TypeError, match="input: expected a tensor, found NoneType"):
            call()


def test_a_parameter_that_was_removed():
    network = ours.LSTM(2, 2)
    network.weight_ih_l0 = None
    with pytest.raises(TypeError, match="weight_ih_l0: expected a tensor, found NoneType"):
        network(torch.ones(2, 2))


@pytest.mark.parametrize("eps", [-1.0, float("nan"), float("inf")])
def test_eps_of_tensors_without_data(eps):
    for device in ("cpu", "meta"):
        x, one = torch.ones(2, 2, device=device), torch.ones(2, device=device)
        for call in (lambda: F.layer_norm(x, (2,), eps=eps), lambda: F.batch_norm(x, one, one, eps=eps)):
            with pytest.raises(ValueError, match="eps: expected a finite number, 0 or more, found"):
                call()


def test_one_of_the_running_statistics_is_missing():
    x, one = torch.ones(2, 2, 2), torch.ones(2)
    for call in (lambda: F.batch_norm(x, one, None, training=True), lambda: F.instance_norm(x, None, one)):
        with pytest.raises(ValueError, match="expected both running_mean and running_var, found only one"):
            call()


def test_convert_leaves_a_replaced_forward():
    model = torch.nn.Sequential(torch.nn.LayerNorm(4), torch.nn.LayerNorm(4))
    forward = model[1].forward
    model[1].forward = lambda x: forward(x) * 2
    done = ours.convert(model)
    assert list(done.changed) == ["0"] and done.left == {"1": "LayerNorm with its own forward"}
    assert type(model[1]) is torch.nn.LayerNorm


def test_parametrized_weights_come_over():
    plain = torch.nn.utils.parametrizations.weight_norm(torch.nn.LSTM(3, 5), "weight_hh_l0")
    x = torch.randn(4, 2, 3)
    # float32 through 4 steps, with sums of 8 numbers below 1.
    torch.testing.assert_close(ours.LSTM.from_module(plain)(x)[0], plain(x)[0], rtol=1e-5, atol=1e-6)
