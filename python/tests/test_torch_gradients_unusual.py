"""Gradients that are zero tensors, batched or lazily negated; and a PyTorch without the private functions that are used."""

import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is missing: layernorm.torch is not tested")
from torch.autograd.functional import jacobian

import layernorm.torch as lt
from layernorm.torch import _modes
from layernorm.torch import functional as F

MODULES = {
    "LayerNorm": (lambda: lt.LayerNorm(4), (3, 4)),
    "LayerNorm without parameters": (lambda: lt.LayerNorm(4, elementwise_affine=False), (3, 4)),
    "LayerNorm over two axes": (lambda: lt.LayerNorm((3, 4)), (2, 3, 4)),
    "RMSNorm": (lambda: lt.RMSNorm(4), (3, 4)),
    "GroupNorm": (lambda: lt.GroupNorm(2, 4), (3, 4, 2)),
    "InstanceNorm1d": (lambda: lt.InstanceNorm1d(4, affine=True), (3, 4, 5)),
    "BatchNorm1d": (lambda: lt.BatchNorm1d(4), (3, 4)),
    "BatchNorm1d outside training": (lambda: lt.BatchNorm1d(4).eval(), (3, 4)),
    "BatchNorm1d without statistics": (lambda: lt.BatchNorm1d(4, track_running_stats=False), (3, 4)),
    "LSTM": (lambda: lt.LSTM(4, 3, num_layers=2, bidirectional=True), (2, 2, 4)),
    "GRU": (lambda: lt.GRU(4, 3), (2, 2, 4)),
    "RNN": (lambda: lt.RNN(4, 3), (2, 2, 4)),
    "RNN with zoneout's expectation": (lambda: lt.RNN(4, 3, zoneout=0.2).eval(), (2, 2, 4)),
    "LSTMCell": (lambda: lt.LSTMCell(4, 3), (2, 4)),
    "GRUCell": (lambda: lt.GRUCell(4, 3), (2, 4)),
    "RNNCell": (lambda: lt.RNNCell(4, 3), (2, 4)),
}


def first(found):
    return found if torch.is_tensor(found) else first(found[0])


def made(name):
    make, shape = MODULES[name]
    torch.manual_seed(0)
    module = make().double()
    for p in module.parameters():
        torch.nn.init.normal_(p)
    return module, torch.randn(shape, dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize("name", MODULES)
def test_zeros_without_memory_as_gradients(name):
    module, x = made(name)
    torch.sgn(first(module(x))).sum().backward()
    for t in (x, *module.parameters()):
        assert t.grad is not None and not t.grad.any()


@pytest.mark.parametrize("name", MODULES)
def test_a_penalty_of_the_gradients_absolute_values(name):
    """The gradient of |·| has a zero tensor as its gradient. Compared with the same penalty without it."""
    module, x = made(name)
    found = []
    for size in (lambda t: t.abs(), lambda t: t * t.detach().sign()):
        y = size(first(module(x)))
        gradient = torch.autograd.grad(y.sum(), x, create_graph=True)[0]
        found.append(torch.autograd.grad(size(gradient).sum(), [x, *module.parameters()], allow_unused=True))
    for a, b in zip(*found):
        none = torch.zeros_like(b if a is None else a) if a is not None or b is not None else torch.zeros(())
        torch.testing.assert_close(none if a is None else a, none if b is None else b, rtol=0, atol=1e-12)


def test_an_l1_penalty_trains():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), lt.LayerNorm(4), torch.nn.Linear(4, 2))
    network = lt.GRU(2, 3)
    optimizer = torch.optim.SGD([*model.parameters(), *network.parameters()], lr=0.05)
    x, target, losses = torch.randn(5, 2, 3), torch.randn(5, 2, 3), []
    for _ in range(20):
        inputs = x.clone().requires_grad_()
        loss = torch.nn.functional.l1_loss(network(model(inputs))[0], target)
        penalty = torch.autograd.grad(loss, inputs, create_graph=True)[0].abs().sum()
        optimizer.zero_grad()
        (loss + 0.1 * penalty).backward()
        optimizer.step()
        losses.append((loss + 0.1 * penalty).item())
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("name", MODULES)
def test_many_gradients_at_once(name, create_graph):
    module, x = made(name)
    y = first(module(x))
    wanted = [x, *module.parameters()]
    many = torch.randn(3, *y.shape, dtype=y.dtype)
    options = dict(retain_graph=True, create_graph=create_graph, allow_unused=True)
    found = torch.autograd.grad(y, wanted, many, is_grads_batched=True, **options)
    each = zip(*(torch.autograd.grad(y, wanted, dy, **options) for dy in many))
    for a, b in zip(found, each):
        torch.testing.assert_close(a, None if b[0] is None else torch.stack(b), rtol=0, atol=1e-13)
    if create_graph:
        single = torch.autograd.grad(y, x, many[0], **options)[0]
        options = dict(retain_graph=True, allow_unused=True, materialize_grads=True)
        twice = [torch.autograd.grad(t.pow(2).sum(), wanted, **options) for t in (found[0][0], single)]
        torch.testing.assert_close(*twice, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", MODULES)
def test_vectorized_jacobians(name):
    module, x = made(name)
    call = lambda x: first(module(x))
    x = x.detach()
    torch.testing.assert_close(jacobian(call, x, vectorize=True), jacobian(call, x), rtol=0, atol=1e-13)


def test_many_gradients_of_operations_and_functions():
    x, w, b = (
        torch.randn(3, 4, requires_grad=True),
        torch.ones(4, requires_grad=True),
        torch.ones(4, requires_grad=True),
    )
    calls = [
        lambda: F.layer_norm(x, (4,), w, b),
        lambda: F.rms_norm(x, (4,), w),
        lambda: F.group_norm(x, 2, w, b),
        lambda: F.instance_norm(x.unsqueeze(-1).expand(3, 4, 2) * x.new_tensor([1.0, 2.0]), None, None, w, b),
        lambda: F.batch_norm(x, None, None, w, b, True),
        lambda: F.batch_norm(x, torch.zeros(4), torch.ones(4), w, b, False),
        lambda: torch.ops.layernorm.norm(x, w, b, "layer", 1, 1e-5)[0],
    ]
    spec = lt.GRU(4, 3)._spec
    parameters = list(lt.GRU(4, 3).parameters())
    calls.append(
        lambda: torch.ops.layernorm.recurrent(x.unsqueeze(1), None, None, parameters, None, spec.text, False, 0, True)[
            0
        ]
    )
    for call in calls:
        y = call()
        many = torch.randn(2, *y.shape)
        found = torch.autograd.grad(y, x, many, retain_graph=True, is_grads_batched=True)[0]
        each = torch.stack([torch.autograd.grad(y, x, dy, retain_graph=True)[0] for dy in many])
        torch.testing.assert_close(found, each, rtol=0, atol=0)


@pytest.mark.parametrize("affine", [True, False])
def test_batch_norm_without_running_statistics(affine):
    theirs = torch.nn.BatchNorm1d(6, affine=affine, track_running_stats=False)
    ours = lt.BatchNorm1d(6, affine=affine, track_running_stats=False)
    x = torch.randn(5, 6)
    # float32 sums of 5 numbers.
    close = dict(rtol=1e-5, atol=1e-6)
    for training in (True, False):
        expected = theirs.train(training)(x)
        torch.testing.assert_close(ours.train(training)(x), expected, **close)
        with torch.no_grad():
            torch.testing.assert_close(ours(x), expected, **close)
        with torch.inference_mode():
            torch.testing.assert_close(ours(x), expected, **close)
    torch.testing.assert_close(
        F.batch_norm(x, None, None, training=True), theirs(x) if not affine else expected, **close
    )
    half = x.half()
    assert F.batch_norm(half, None, None, training=True).dtype is torch.float16


def test_contiguous_views_that_are_yet_to_be_negated():
    z = torch.randn(3, 4, dtype=torch.complex64)
    x = z.conj().imag.as_strided((3, 8), (8, 1), 0)
    w = torch.randn(4, dtype=torch.complex64).conj().imag.as_strided((8,), (1,), 0)
    assert x.is_neg() and x.is_contiguous() and w.is_neg() and w.is_contiguous()
    for module in (
        lt.LayerNorm(8),
        lt.RMSNorm(8),
        lt.GroupNorm(2, 8),
        lt.BatchNorm1d(8),
        lt.GRUCell(8, 3),
        lt.LSTMCell(8, 3),
    ):
        assert torch.equal(first(module(x)), first(module(x.clone())))
    network = lt.GRU(8, 3)
    assert torch.equal(network(x.unsqueeze(1))[0], network(x.clone().unsqueeze(1))[0])
    assert torch.equal(F.layer_norm(x, (8,), w, w), F.layer_norm(x.clone(), (8,), w.clone(), w.clone()))
    # A single number.
    one = torch.randn(1, dtype=torch.complex64).conj().imag.view(1, 1)
    assert torch.equal(F.layer_norm(one, (1,), one[0]), F.layer_norm(one.clone(), (1,), one[0].clone()))


def test_gradients_that_are_contiguous_and_yet_to_be_negated():
    dy = torch.randn(3, 4, dtype=torch.complex64).conj().imag.as_strided((3, 8), (8, 1), 0)
    assert dy.is_neg() and dy.is_contiguous()
    for module in (lt.LayerNorm(8), lt.GroupNorm(2, 8), lt.BatchNorm1d(8), lt.GRUCell(5, 8)):
        x = torch.randn(3, 5 if isinstance(module, lt.GRUCell) else 8, requires_grad=True)
        y = module(x)
        found, expected = (torch.autograd.grad(y, x, t, retain_graph=True)[0] for t in (dy, dy.clone()))
        assert torch.equal(found, expected)


BY_NUMBERS = """
numbers = []
x = torch.linspace(-1, 1, 24).view(3, 2, 4).requires_grad_()
for module in (lt.LayerNorm(4), lt.GroupNorm(1, 2), lt.BatchNorm1d(2), lt.LSTM(4, 3), lt.GRU(4, 3, zoneout=0.1)):
    with torch.no_grad():
        for p in module.parameters():
            p.copy_(torch.linspace(-1, 1, p.numel()).view(p.shape))
    torch.manual_seed(1)
    y = module(x)
    y = y if torch.is_tensor(y) else y[0]
    numbers += [t.detach().sum().item() for t in (y, *torch.autograd.grad(y.pow(2).sum(), [x, *module.parameters()]))]
    with torch.no_grad():
        torch.manual_seed(1)
        y = module(x)
        numbers.append((y if torch.is_tensor(y) else y[0]).sum().item())
"""

WITHOUT = """
import torch
from torch.autograd import forward_ad

del torch._C._len_torch_dispatch_stack, torch._C._functorch.peek_interpreter_stack
import layernorm.torch as lt

assert not lt._modes.KNOWN
"""


def test_a_pytorch_without_private_names():
    here = {"torch": torch, "lt": lt}
    exec(BY_NUMBERS, here)
    code = WITHOUT + BY_NUMBERS + "print(numbers)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert _modes.KNOWN and done.stdout.strip() == str(here["numbers"])
