"""Norms of layernorm.torch compared with torch.nn, and everything that PyTorch does with a module."""

import copy
import pickle

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is missing: layernorm.torch is not tested")

from torch.autograd import gradcheck, gradgradcheck

import layernorm as ln
import layernorm.torch as lt
from torch import nn

TYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
UNIT = {torch.float64: 2.0**-53, torch.float32: 2.0**-24, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}

CASES = {
    "layer": (lambda m: m.LayerNorm(24), (5, 24)),
    "layer-2": (lambda m: m.LayerNorm((6, 8), eps=1e-3), (5, 6, 8)),
    "layer-plain": (lambda m: m.LayerNorm(24, elementwise_affine=False), (2, 3, 24)),
    "layer-no-bias": (lambda m: m.LayerNorm(24, bias=False), (5, 24)),
    "rms": (lambda m: m.RMSNorm(24), (5, 24)),
    "rms-eps": (lambda m: m.RMSNorm((3, 8), eps=0.1), (5, 3, 8)),
    "rms-plain": (lambda m: m.RMSNorm(24, elementwise_affine=False), (5, 24)),
    "group": (lambda m: m.GroupNorm(3, 12), (4, 12, 5)),
    "group-flat": (lambda m: m.GroupNorm(3, 12), (4, 12)),
    "group-plain": (lambda m: m.GroupNorm(1, 6, affine=False), (4, 6, 5, 2)),
    "instance-1d": (lambda m: m.InstanceNorm1d(6), (4, 6, 9)),
    "instance-2d": (lambda m: m.InstanceNorm2d(6, affine=True), (4, 6, 3, 4)),
    "instance-3d": (lambda m: m.InstanceNorm3d(6, affine=True, track_running_stats=True), (4, 6, 3, 2, 4)),
    "instance-alone": (lambda m: m.InstanceNorm1d(6), (6, 9)),
    "batch-1d": (lambda m: m.BatchNorm1d(6), (8, 6)),
    "batch-1d-long": (lambda m: m.BatchNorm1d(6, momentum=None), (8, 6, 5)),
    "batch-2d": (lambda m: m.BatchNorm2d(6, momentum=0.3), (4, 6, 3, 4)),
    "batch-3d": (lambda m: m.BatchNorm3d(6, affine=False), (4, 6, 3, 2, 2)),
    "batch-own": (lambda m: m.BatchNorm1d(6, track_running_stats=False), (8, 6)),
}


def pair(name, dtype=torch.float32, training=True):
    """Returns torch.nn's module and ours, with the same random parameters."""
    make, shape = CASES[name]
    torch.manual_seed(7)
    theirs, ours = make(nn), make(lt)
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.normal_()
    ours.load_state_dict(theirs.state_dict())
    return theirs.to(dtype).train(training), ours.to(dtype).train(training), shape


def close(found, expected, dtype, scale=None, roundings=64):
    """Asserts that two results agree up to one rounding to the type and some roundings of the accumulation type.

    PyTorch's sums over a few hundred numbers have errors of at most about 30 roundings of the largest; together with ours, 64.
    """
    assert found.shape == expected.shape
    acc = 2.0**-53 if dtype == torch.float64 else 2.0**-24
    a, b = found.detach().double(), expected.detach().double()
    scale = max(1.0, b.abs().max().item()) if scale is None else scale
    bound = 2 * UNIT[dtype] * b.abs() + roundings * acc * scale + (2.0**-24 if dtype == torch.float16 else 0)
    assert (a - b).abs().sub(bound).max().item() <= 0 if a.numel() else True, (a - b).abs().max()


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", CASES)
def test_as_torch_nn(name, dtype, training):
    theirs, ours, shape = pair(name, dtype, training)
    assert repr(ours) == repr(theirs)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    x = (1 + torch.randn(shape)).to(dtype).requires_grad_()
    dy = torch.randn(shape).to(dtype)
    assert ours(x).dtype == theirs(x).dtype and ours(x).shape == theirs(x).shape
    if dtype in (torch.float16, torch.bfloat16):
        # In half precision PyTorch rounds intermediate statistics and sums; its float64 results are the reference.
        theirs = theirs.double()
    theirs.load_state_dict(ours.state_dict())
    x2 = x.detach().to(torch.float64 if dtype in (torch.float16, torch.bfloat16) else dtype).requires_grad_()
    found, expected = ours(x), theirs(x2)
    close(found, expected, dtype)
    found.backward(dy)
    expected.backward(dy.to(expected.dtype))
    for a, b in zip([x, *ours.parameters()], [x2, *theirs.parameters()]):
        close(a.grad, b.grad, dtype, 16 * max(1.0, b.grad.double().abs().max().item()))
    for a, b in zip(ours.buffers(), theirs.buffers()):
        close(a, b, dtype)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("training", [True, False])
def test_gradients_once_and_twice(name, training):
    _, ours, shape = pair(name, torch.float64, training)
    x = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    names = [n for n, _ in ours.named_parameters()]
    state = copy.deepcopy(dict(ours.named_buffers()))

    def call(x, *parameters):
        # Running statistics change with every call; each call must start from the same ones.
        buffers = {n: b.clone() for n, b in state.items()}
        return torch.func.functional_call(ours, {**dict(zip(names, parameters)), **buffers}, (x,))

    inputs = (x, *ours.parameters())
    assert gradcheck(call, inputs, fast_mode=True)
    assert gradgradcheck(call, inputs, fast_mode=True)


@pytest.mark.parametrize("name", ["layer", "rms", "group", "batch-own"])
def test_the_operations_take_the_same_way(name):
    """Compiled and transformed calls give the same bits as plain calls."""
    _, ours, shape = pair(name)
    x = torch.randn(shape, requires_grad=True)
    y = ours(x)
    y.sin().sum().backward()
    compiled = torch.compile(ours, backend="aot_eager", fullgraph=True)
    x2 = x.detach().clone().requires_grad_()
    ours.zero_grad()
    y2 = compiled(x2)
    y2.sin().sum().backward()
    assert torch.equal(y2, y) and torch.equal(x2.grad, x.grad)
    found = torch.func.grad(lambda x: ours(x).sin().sum())(x.detach())
    assert torch.equal(found, x.grad)
    checkpointed = x.detach().clone().requires_grad_()
    torch.utils.checkpoint.checkpoint(ours, checkpointed, use_reentrant=False).sin().sum().backward()
    assert torch.equal(checkpointed.grad, x.grad)


@pytest.mark.parametrize("name", ["layer", "group", "batch-2d", "instance-2d"])
def test_compiled_by_inductor(name):
    _, ours, shape = pair(name)
    again = copy.deepcopy(ours)
    model = nn.Sequential(ours, nn.GELU())
    compiled = torch.compile(model, fullgraph=True)
    x = torch.randn(shape, requires_grad=True)
    x2 = x.detach().clone().requires_grad_()
    try:
        y = compiled(x)
    except torch._inductor.exc.InductorError as error:
        pytest.skip(f"inductor has no compiler here: {error}")
    y2 = torch.nn.functional.gelu(again(x2))
    y.sum().backward()
    y2.sum().backward()
    # GELU and its gradient differ by a few roundings.
    close(y, y2, torch.float32)
    close(x.grad, x2.grad, torch.float32, 16)
    for a, b in zip(ours.buffers(), again.buffers()):
        assert torch.equal(a, b)


def test_gradients_of_each_sample():
    _, ours, _ = pair("layer")
    xs = torch.randn(6, 3, 24)
    parameters = dict(ours.named_parameters())

    def loss(parameters, x):
        return torch.func.functional_call(ours, parameters, (x,)).square().sum()

    found = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, xs)
    for i, x in enumerate(xs):
        expected = torch.func.grad(loss)(parameters, x)
        assert all(torch.equal(found[name][i], expected[name]) for name in expected)
    jacobian = torch.func.jacrev(lambda x: lt.functional.rms_norm(x, (24,)))(xs[0, 0])
    expected = torch.func.jacrev(lambda x: torch.nn.functional.rms_norm(x, (24,)))(xs[0, 0])
    close(jacobian, expected, torch.float32)


def test_batch_norm_outside_training_under_torch_func():
    theirs, ours, shape = pair("batch-2d", torch.float64, training=False)
    x = torch.randn(shape, dtype=torch.float64)

    def loss(module):
        return lambda x: module(x).sin().sum()

    torch.testing.assert_close(torch.func.grad(loss(ours))(x), torch.func.grad(loss(theirs))(x))
    xs = torch.stack([x, 2 * x])
    torch.testing.assert_close(
        torch.func.vmap(torch.func.grad(loss(ours)))(xs), torch.func.vmap(torch.func.grad(loss(theirs)))(xs)
    )

    def slope(module):
        return lambda x: torch.func.grad(loss(module))(x).square().sum()

    torch.testing.assert_close(torch.func.grad(slope(ours))(x), torch.func.grad(slope(theirs))(x))


@pytest.mark.parametrize("name", ["layer", "group", "batch-2d"])
def test_forward_mode_is_refused(name):
    """Forward mode raises, instead of returning a zero tangent."""
    _, ours, shape = pair(name, training=False)
    x = torch.randn(shape)
    with pytest.raises(NotImplementedError, match="jvp"):
        torch.func.jvp(ours, (x,), (x,))


def test_operations_pass_torchs_own_check():
    x = torch.randn(4, 6, 5, requires_grad=True)
    weight, bias = torch.randn(6, requires_grad=True), torch.randn(6, requires_grad=True)
    mean, var = torch.randn(6), torch.rand(6)
    ops = torch.ops.layernorm
    for kind, number, parameters in [
        ("layer", 1, (torch.randn(5, requires_grad=True), None)),
        ("layer", 2, (None, None)),
        ("rms", 1, (torch.randn(5, requires_grad=True), None)),
        ("group", 3, (weight, bias)),
        ("batch", 0, (weight, bias)),
    ]:
        torch.library.opcheck(ops.norm.default, (x, *parameters, kind, number, 1e-5))
        transposed = x.detach().transpose(0, 1).contiguous().transpose(0, 1).requires_grad_()
        torch.library.opcheck(ops.norm.default, (transposed, *parameters, kind, number, 1e-5))
    torch.library.opcheck(ops.batch_norm_train.default, (x, weight, bias, mean, var, 0.1, 1e-5))
    torch.library.opcheck(ops.batch_norm_infer.default, (x, weight, bias, mean, var, 1e-5))


def layouts(x):
    yield "transposed", x.transpose(0, -1).contiguous().transpose(0, -1)
    yield "spaced", torch.stack([x, x], -1)[..., 0]
    yield "offset", torch.cat([x[:1], x])[1:]
    if x.dim() == 4:
        yield "channels last", x.contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("name", ["layer", "layer-2", "rms", "group", "batch-2d", "instance-2d", "group-plain"])
def test_layouts_change_no_bit(name):
    theirs, ours, shape = pair(name)
    x, dy = torch.randn(shape), torch.randn(shape)
    plain = x.clone().requires_grad_()
    y = ours(plain)
    y.backward(dy)
    for what, other in layouts(x):
        other = other.detach().requires_grad_()
        found = ours(other)
        found.backward(dy)
        assert torch.equal(found, y) and torch.equal(other.grad, plain.grad), what
        if what == "channels last" and name.startswith(("group", "batch")):
            assert found.is_contiguous(memory_format=torch.channels_last), "as torch.nn keeps it"
    for what, other in layouts(dy):
        again = x.clone().requires_grad_()
        ours(again).backward(other)
        assert torch.equal(again.grad, plain.grad), what
    again = x.clone().requires_grad_()
    ours(again).sum().backward()
    assert torch.isfinite(again.grad).all(), "a gradient that is one number, expanded"


def test_numpy_and_torch_get_the_same_bits():
    x, w, b = torch.randn(40, 96), torch.randn(96), torch.randn(96)
    ours = lt.functional.layer_norm(x, (96,), w, b)
    assert np.array_equal(ours.numpy(), ln.layer_norm(x.numpy(), 96, w.numpy(), b.numpy()))
    cube = torch.randn(3, 6, 7)
    assert np.array_equal(lt.functional.group_norm(cube, 3).numpy(), ln.group_norm(cube.numpy(), 3))
    assert np.array_equal(lt.functional.rms_norm(x, (96,), w, 1e-5).numpy(), ln.rms_norm(x.numpy(), 96, w.numpy()))


def test_autocast_and_float32_parameters():
    theirs, ours, shape = pair("layer")
    with torch.autocast("cpu", torch.bfloat16):
        for x in (torch.randn(shape), torch.randn(shape).bfloat16()):
            expected, found = theirs(x), ours(x)
            assert found.dtype == expected.dtype
            close(found, expected, expected.dtype)
    x = torch.randn(shape).bfloat16().requires_grad_()
    ours(x).sum().backward()
    assert x.grad.dtype == torch.bfloat16 and ours.weight.grad.dtype == torch.float32


@pytest.mark.parametrize("name", CASES)
def test_copies(name):
    _, ours, shape = pair(name, training=False)
    x = torch.randn(shape)
    y = ours(x)
    for other in (copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))):
        assert torch.equal(other(x), y)
    meta = copy.deepcopy(ours).to("meta")
    assert meta(torch.empty(shape, device="meta")).shape == y.shape


def test_inference_mode_and_no_grad():
    _, ours, shape = pair("layer")
    x = torch.randn(shape)
    y = ours(x)
    with torch.inference_mode():
        assert torch.equal(ours(x), y)
    with torch.no_grad():
        assert torch.equal(ours(x), y) and not ours(x).requires_grad
    frozen = copy.deepcopy(ours).requires_grad_(False)
    x.requires_grad_()
    frozen(x).sum().backward()
    assert x.grad is not None and frozen.weight.grad is None


def test_hooks_and_extremes():
    ours = lt.LayerNorm(4)
    x = torch.tensor([[1e30, -1e30, 3e30, 0]], requires_grad=True)
    y = ours(x)
    assert torch.isfinite(y).all(), "where PyTorch gives NaN"
    y[0, 0].backward()
    assert torch.isfinite(x.grad).all()
    assert ours(torch.empty(0, 4)).shape == (0, 4)


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: lt.LayerNorm(5)(torch.randn(3, 4)), ValueError, "ends in normalized_shape [5], found [3, 4]"),
        (lambda: lt.functional.layer_norm(torch.ones(3, 4).int(), (4,)), TypeError, "input: expected float16"),
        (
            lambda: lt.functional.layer_norm(torch.ones(4), (4,), torch.ones(3)),
            ValueError,
            "weight: expected shape [4]",
        ),
        (lambda: lt.functional.layer_norm(torch.ones(4), (4,), eps=-1.0), ValueError, "eps: expected a finite number"),
        (lambda: lt.LayerNorm(4).double()(torch.ones(4)), TypeError, "weight: expected float32, found float64"),
        (lambda: lt.functional.group_norm(torch.ones(2, 4), 3), ValueError, "divisor of the 4 channels, found 3"),
        (lambda: lt.functional.group_norm(torch.ones(4), 2), ValueError, "at least 2 dimensions, found 1"),
        (lambda: lt.BatchNorm1d(4)(torch.ones(1, 4)), ValueError, "more than one value per channel"),
        (lambda: lt.BatchNorm2d(4)(torch.ones(1, 4)), ValueError, "expected 4D input"),
        (lambda: lt.BatchNorm1d(3).eval()(torch.ones(2, 4)), ValueError, "running mean: expected shape [4], found [3]"),
    ],
)
def test_errors(call, error, words):
    with pytest.raises(error) as raised:
        call()
    assert words in str(raised.value)
