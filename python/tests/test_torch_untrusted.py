"""Tensors of wrong sizes, freed tensors, and tensors that change between a pass and its gradients: never a wrong number, never an
access out of bounds."""

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is missing: layernorm.torch is not tested")
from torch.autograd import graph
from torch.utils._python_dispatch import TorchDispatchMode

import layernorm.torch as lt
from layernorm import _core
from layernorm.torch import functional as F
from torch import nn

NETWORKS: dict[str, Any] = {"LSTM": lt.LSTM, "GRU": lt.GRU, "RNN": lt.RNN}
CELLS: dict[str, Any] = {"LSTMCell": lt.LSTMCell, "GRUCell": lt.GRUCell, "RNNCell": lt.RNNCell}
NORMS: dict[str, Any] = {
    "layer": lambda: lt.LayerNorm(4),
    "rms": lambda: lt.RMSNorm(4),
    "group": lambda: lt.GroupNorm(2, 4),
    "batch": lambda: lt.BatchNorm1d(4),
    "instance": lambda: lt.InstanceNorm1d(4, affine=True),
}


def total(found):
    """Returns the sum of the outputs of a module."""
    return found.sum() if torch.is_tensor(found) else sum(total(part) for part in found)


def norm_input(name, **options):
    return torch.randn((3, 4, 5) if name == "instance" else (3, 4), **options)


def by_assignment(module, name, value):
    setattr(module, name, nn.Parameter(value))
    return module


def by_data(module, name, value):
    getattr(module, name).data = value
    return module


def by_call(module, name, value):
    return lambda *inputs: torch.func.functional_call(module, {name: value}, inputs)


@pytest.mark.parametrize("way", [by_assignment, by_data, by_call])
@pytest.mark.parametrize("kind", NETWORKS)
def test_parameters_of_other_shapes(kind, way):
    x = torch.ones(3, 2, 64, requires_grad=True)
    for name in NETWORKS[kind](64, 32, variant="none").state_dict():
        module = NETWORKS[kind](64, 32, variant="none")
        shape = list(getattr(module, name).shape)
        with pytest.raises(ValueError, match=rf"^{name}: expected shape \[{shape[0]}.*\], found \[1\]$"):
            way(module, name, torch.ones(1))(x)[0].sum().backward()
        # The same number of elements in another shape.
        turned = torch.ones(*reversed(shape)) if len(shape) == 2 else torch.ones(1, *shape)
        if list(turned.shape) != shape:
            with pytest.raises(ValueError, match=rf"^{name}: expected shape"):
                way(module, name, turned)(x)


@pytest.mark.parametrize("kind", CELLS)
def test_parameters_of_cells(kind):
    cell = CELLS[kind](8, 16)
    for way, value in ((by_assignment, torch.ones(1)), (by_data, torch.ones(3, 3)), (by_call, torch.ones(()))):
        with pytest.raises(ValueError, match=r"^weight_hh: expected shape \[\d+, 16\], found"):
            way(cell, "weight_hh", value)(torch.ones(2, 8))


def test_parameters_that_are_missing_or_of_another_type():
    lstm = lt.LSTM(3, 4)
    lstm.weight_hh_l0 = None
    with pytest.raises(TypeError, match="weight_hh_l0: expected a tensor, found NoneType"):
        lstm(torch.ones(3, 2, 3))
    with pytest.raises(TypeError, match="expected float16, bfloat16, float32 or float64, found int64"):
        by_call(lt.LSTM(3, 4), "weight_hh_l0", torch.ones(16, 4, dtype=torch.int64))(torch.ones(3, 2, 3))


def test_the_compiled_half_counts():
    core = _core.Recurrent("gru", "none", 3, 4, 1, False, None, True, None, (0.0,) * 5)
    shapes = [shape for *_, shape, _ in core.places()]
    parameters = [torch.zeros(shape) for shape in shapes]
    x, y, h = torch.zeros(5, 2, 3), torch.zeros(5, 2, 4), torch.zeros(1, 2, 4)

    def flat(t):
        return (t.data_ptr(), 2, t.numel())

    def forward(parameters=parameters, x=x, y=y, state=None, last=h, training=None):
        pair = (None if state is None else flat(state), None)
        return core.forward(
            list(map(flat, parameters)), flat(x), (5, 2, False), None, pair, flat(y), (flat(last), None), training, (1, False)
        )  # fmt: skip

    short = torch.zeros(1)
    tape = forward(training=(0, False))
    with pytest.raises(ValueError, match="l0.input_weight: expected 36 elements, found 1"):
        forward([short, *parameters[1:]])
    with pytest.raises(ValueError, match="parameters: expected 4 elements, found 3"):
        forward(parameters[1:])
    for name, given, count in (
        ("input", "x", 30),
        ("output", "y", 40),
        ("state", "state", 8),
        ("final state", "last", 8),
    ):
        with pytest.raises(ValueError, match=f"^{name}: expected {count} elements, found 1"):
            forward(**{given: short})
    with pytest.raises(ValueError, match="input: expected aligned memory, found none"):
        core.forward(list(map(flat, parameters)), (0, 2, 30), (5, 2, False), None, (None, None), flat(y), (flat(h), None), None, (1, False))  # fmt: skip
    with pytest.raises(TypeError, match="output: expected float32, found float64"):
        core.forward(list(map(flat, parameters)), flat(x), (5, 2, False), None, (None, None), (y.data_ptr(), 3, 20), (flat(h), None), None, (1, False))  # fmt: skip
    dx, flat_gradients = torch.zeros_like(x), torch.zeros(sum(p.numel() for p in parameters))

    def backward(dy=y, dlast=h, dx=dx, dparameters=flat_gradients, dfirst=h):
        tape.backward(flat(dy), (flat(dlast), None), flat(dx), flat(dparameters), (flat(dfirst), None))

    backward()
    for given, words in (
        ("dy", "gradient of the output: expected 40"),
        ("dlast", "gradient of the final state: expected 8"),
        ("dx", "gradient of the input: expected 30"),
        ("dparameters", "gradients of the parameters: expected 108"),
        ("dfirst", "gradient of the state: expected 8"),
    ):
        with pytest.raises(ValueError, match=f"^{words} elements, found 1$"):
            backward(**{given: short})


def other_tensors(module, x, change):
    """Runs backward with saved tensors that hooks have changed."""
    with graph.saved_tensors_hooks(lambda t: t, change):
        y = module(x)
    total(y).backward()


CHANGES = {
    "one number": lambda t: t.new_ones(1),
    "nothing": lambda t: t.new_empty(0),
    "a row less": lambda t: t[:-1] if t.dim() else t,
    "double": lambda t: t.double(),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", [*NORMS, *NETWORKS])
def test_saved_tensors_that_hooks_replace(name, change):
    module = NETWORKS[name](4, 6) if name in NETWORKS else NORMS[name]()
    x = torch.randn(3, 2, 4, requires_grad=True) if name in NETWORKS else norm_input(name, requires_grad=True)
    # All at once, then one at a time.
    changes = [CHANGES[change]]
    for chosen in range(4):
        count = iter(range(100))
        changes.append(lambda t, count=count, chosen=chosen: CHANGES[change](t) if next(count) == chosen else t)  # type: ignore[misc]
    for one in changes:
        try:
            other_tensors(module, x, one)
        except (ValueError, TypeError) as error:
            assert "expected" in str(error)
        except RuntimeError as error:
            # PyTorch's own message about gradients of the wrong shape.
            assert "gradient" in str(error) or "shape" in str(error) or "size" in str(error)
        else:
            assert change == "double" or one is not changes[0]


def test_input_shortened_in_place_before_backward():
    norm, x = lt.LayerNorm(64), torch.randn(512, 64, requires_grad=True)
    y = norm(x)
    x.data = x.data[:1]
    with pytest.raises(ValueError, match="expected"):
        y.sum().backward()


@pytest.mark.parametrize("at", [0, 3])
@pytest.mark.parametrize("left", [0, 8])
@pytest.mark.parametrize("name", NORMS)
def test_freed_parameters_of_norms(name, left, at):
    for which in ("weight", "bias"):
        module, x = NORMS[name](), norm_input(name)
        if not hasattr(module, which):
            continue
        y = module(x.requires_grad_())
        base = torch.ones(8)
        getattr(module, which).data = base[at : at + 4]
        assert torch.isfinite(module(x)).all()
        base.untyped_storage().resize_(left)
        words = rf"^{which}: expected a storage of {(at + 4) * 4} bytes or more, found {left}: it was freed or shrunk$"
        with pytest.raises(ValueError, match=words):
            module(x)
        with torch.no_grad(), pytest.raises(ValueError, match=words):
            module(x)
        if which == "weight":
            with pytest.raises(ValueError, match=words):
                y.sum().backward()


@pytest.mark.parametrize("kind", [*NETWORKS, *CELLS])
def test_freed_tensors_of_networks(kind):
    module = {**NETWORKS, **CELLS}[kind](4, 6)
    x = torch.randn(3, 2, 4) if kind in NETWORKS else torch.randn(2, 4)
    with pytest.raises(ValueError, match="^input: expected a storage .* freed or shrunk"):
        freed = x.clone()
        freed.untyped_storage().resize_(0)
        module(freed)
    module.get_parameter(module._names[1]).untyped_storage().resize_(0)
    with pytest.raises(ValueError, match="^weight_hh.*: expected a storage of .* freed or shrunk"):
        module(x)


def test_freed_inputs_and_running_statistics():
    for name, module in NORMS.items():
        x = norm_input(name)
        x.untyped_storage().resize_(16)
        with pytest.raises(ValueError, match="^input: expected a storage"):
            module()(x)
    for training in (True, False):
        norm = lt.BatchNorm1d(4).train(training)
        norm.running_var.untyped_storage().resize_(0)
        with pytest.raises(ValueError, match="^running.var.*: expected a storage of 16 bytes or more, found 0"):
            norm(torch.randn(3, 4))


def test_running_statistics_of_other_sizes_and_types():
    x = torch.randn(3, 4, 5)
    for call in (F.batch_norm, F.instance_norm):
        arguments = {"training": True} if call is F.batch_norm else {}
        with pytest.raises(ValueError, match=r"running_var: expected shape \[4\], found \[1\]"):
            call(x, torch.zeros(4), torch.ones(1), **arguments)
        with pytest.raises(TypeError, match="running_mean: expected float16, .* found int64"):
            call(x, torch.zeros(4, dtype=torch.int64), torch.ones(4), **arguments)


def test_running_statistics_that_share_memory():
    x, base = torch.randn(6, 4), torch.zeros(12)
    apart = (base[0:8:2], base[1:9:2])
    F.batch_norm(x, *apart, training=True)
    assert apart[0].any() and apart[1].any()
    for mean, var in ((base[:4], base[:4]), (base[:4], base[3:7]), (base[:8:2], base[2:6]), (base[:4], base[:8:2])):
        wide = x.unsqueeze(-1).expand(6, 4, 3)
        for call in (lambda m, v: F.batch_norm(x, m, v, training=True), lambda m, v: F.instance_norm(wide, m, v)):
            with pytest.raises(ValueError, match="running_mean and running_var: must not share memory"):
                call(mean, var)


def test_memory_that_is_not_aligned():
    raw = torch.zeros(64 * 4 + 1, dtype=torch.uint8)
    odd = torch.frombuffer(bytearray(raw.numpy().tobytes()), dtype=torch.float32, offset=1, count=64).view(4, 16)
    odd.copy_(torch.randn(4, 16))
    assert odd.data_ptr() % 4
    for module in (lt.LayerNorm(16), lt.GroupNorm(4, 16), lt.GRUCell(16, 3)):
        assert torch.equal(module(odd), module(odd.clone()))


@pytest.mark.parametrize("name", [*NORMS])
def test_a_bias_may_change_before_backward(name):
    for affine in ("bias", "both"):
        module, x = NORMS[name](), norm_input(name, requires_grad=True)
        if not hasattr(module, "bias"):
            return
        expected = torch.autograd.grad(module(x).pow(2).sum(), [x, *module.parameters()])
        y = module(x)
        loss = y.pow(2).sum()
        with torch.no_grad():
            module.bias.add_(1)
        found = torch.autograd.grad(loss, [x, *module.parameters()])
        torch.testing.assert_close(found, expected, rtol=0, atol=0)


def test_a_bias_may_change_before_backward_in_operations_too():
    x, w, b = (
        torch.randn(3, 4, requires_grad=True),
        torch.ones(4, requires_grad=True),
        torch.ones(4, requires_grad=True),
    )
    mean, var = torch.zeros(4), torch.ones(4)
    for y in (
        torch.ops.layernorm.norm(x, w, b, "group", 2, 1e-5)[0],
        F.batch_norm(x, mean, var, w, b, True),
        F.batch_norm(x, mean, var, w, b, False),
    ):
        with torch.no_grad():
            b.add_(1)
        assert torch.autograd.grad(y.sum(), b)[0].tolist() == [3.0] * 4


def freed(t):
    t.untyped_storage().resize_(0)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("which", ["weight", "input"])
def test_freed_before_the_second_backward_of_batch_norm(training, which):
    norm, x = lt.BatchNorm1d(64).train(training), torch.randn(3, 64, requires_grad=True)
    (g,) = torch.autograd.grad(norm(x).pow(2).sum(), x, create_graph=True)
    freed(norm.weight if which == "weight" else x)
    with pytest.raises(ValueError, match="saved tensor: expected a storage of"):
        g.sum().backward()


class Seen(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("make", [lambda: lt.LayerNorm(8), lambda: lt.GroupNorm(2, 8), lambda: lt.LSTM(8, 4)])
def test_freed_before_the_second_backward_in_a_mode(make):
    module, x = make(), torch.randn(3, 2, 8, requires_grad=True)
    if isinstance(module, lt.GroupNorm):
        x = torch.randn(3, 8, requires_grad=True)
    with Seen():
        y = module(x)
        y = y[0] if isinstance(y, tuple) else y
        (g,) = torch.autograd.grad(y.pow(2).sum(), x, create_graph=True)
        freed(next(module.parameters()))
        with pytest.raises(ValueError, match="expected a storage of"):
            g.sum().backward()


@pytest.mark.parametrize("name", NETWORKS)
def test_freed_before_gradients_of_several_at_once(name):
    network, x = NETWORKS[name](4, 5), torch.randn(3, 2, 4, requires_grad=True)
    y = network(x)[0]
    freed(network.weight_ih_l0)
    with pytest.raises(ValueError, match="saved tensor: expected a storage of"):
        torch.autograd.grad(y, x, torch.ones(4, *y.shape), is_grads_batched=True)
