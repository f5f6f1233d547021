"""The inputs that PyTorch tests its own modules and operations with, and what differs by intention."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is missing: layernorm.torch is not tested")

import layernorm.torch as lt
from torch import nn

NAMES = [
    "LayerNorm",
    "RMSNorm",
    "GroupNorm",
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "LSTM",
    "GRU",
    "RNN",
    "LSTMCell",
    "GRUCell",
    "RNNCell",
]


def plain(name):
    """torch.nn's own cells."""
    return {"variant": "none"} if name.startswith(("LSTM", "GRU", "RNN")) else {}


def flat(values):
    """The tensors in tuples, in their order."""
    if torch.is_tensor(values):
        return [values]
    return [t for value in values if value is not None for t in flat(value)]


def module_inputs(errors=False):
    try:
        from torch.testing._internal.common_modules import module_db
    except ImportError as error:
        return [
            pytest.param(None, None, marks=pytest.mark.skip(reason=f"PyTorch's test inputs cannot be loaded: {error}"))
        ]
    found = []
    for info in module_db:
        name = info.module_cls.__name__
        if (
            name in NAMES
            and (info.module_error_inputs_func or not errors)
            and info.module_cls.__module__.startswith("torch.nn.modules")
        ):
            found.append(pytest.param(info, name, id=name))
    return found


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("info, name", module_inputs())
def test_pytorchs_own_module_inputs(info, name, training):
    inputs = info.module_inputs_func(info, device="cpu", dtype=torch.float64, requires_grad=True, training=training)
    assert inputs
    for case in inputs:
        args, kwargs = case.constructor_input.args, case.constructor_input.kwargs
        torch.manual_seed(0)
        theirs = getattr(nn, name)(*args, **kwargs).double().train(training)
        ours = getattr(lt, name)(*args, **kwargs, **plain(name)).double().train(training)
        ours.load_state_dict(theirs.state_dict())
        call = case.forward_input
        expected, found = flat(theirs(*call.args, **call.kwargs)), flat(ours(*call.args, **call.kwargs))
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
        dy = [torch.randn_like(y) for y in expected]
        wanted = [t for t in flat(call.args) if t.requires_grad]
        for a, b in zip(
            torch.autograd.grad(found, [*wanted, *ours.parameters()], dy),
            torch.autograd.grad(expected, [*wanted, *theirs.parameters()], dy),
        ):
            torch.testing.assert_close(a, b, rtol=0, atol=1e-11)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("info, name", module_inputs(errors=True))
def test_pytorchs_own_wrong_inputs(info, name, training):
    """What torch.nn refuses, ours does, with ValueError or TypeError and words of our own."""
    cases = info.module_error_inputs_func(
        info, device="cpu", dtype=torch.float64, requires_grad=False, training=training
    )
    count = 0
    for case in cases:
        given = case.module_error_input
        args, kwargs = given.constructor_input.args, given.constructor_input.kwargs
        if accepted(name, kwargs, case):
            continue
        with pytest.raises((ValueError, TypeError)):
            module = getattr(lt, name)(*args, **kwargs, **plain(name)).train(training)
            module(*given.forward_input.args, **given.forward_input.kwargs)
        count += 1
    assert count


def accepted(name, kwargs, case):
    """Inputs that differ by intention: what torch.nn refuses and ours accepts.

    - ε = 0 of a batch norm: the contract has it, with IEEE's result where a channel is constant.
    """
    return name.startswith("BatchNorm") and kwargs.get("eps") == 0


OPS = {
    "nn.functional.layer_norm": "layer_norm",
    "nn.functional.rms_norm": "rms_norm",
    "nn.functional.group_norm": "group_norm",
    "nn.functional.instance_norm": "instance_norm",
    "nn.functional.batch_norm": "batch_norm",
}


def op_infos():
    try:
        from torch.testing._internal.common_methods_invocations import op_db
    except ImportError as error:
        return [pytest.param(None, marks=pytest.mark.skip(reason=f"PyTorch's test inputs cannot be loaded: {error}"))]
    return [pytest.param(op, id=op.name) for op in op_db if op.name in OPS]


# What two ways of computing may differ by: y near 1 is rounded to the type, from float32 (float64) that is off by some units.
# Gradients are sums of products, and rows of equal numbers have r = 1/sqrt(ε), 300, and gradients that cancel up to it.
CLOSE = {
    torch.float64: (1e-12, 1e-9),
    torch.float32: (2e-5, 2e-2),
    torch.float16: (4e-3, 0.25),
    torch.bfloat16: (3e-2, 2.0),
}


def like(sample, requires_grad):
    """The sample with tensors of its own."""
    return sample.transform(
        lambda t: t.detach().clone().requires_grad_(requires_grad and t.requires_grad) if torch.is_tensor(t) else t
    )


@pytest.mark.parametrize("requires_grad", [True, False])
@pytest.mark.parametrize("dtype", CLOSE)
@pytest.mark.parametrize("op", op_infos())
def test_pytorchs_own_operation_inputs(op, dtype, requires_grad):
    ours = getattr(lt.functional, OPS[op.name])
    close, close_gradient = CLOSE[dtype]
    count = 0
    for sample in op.sample_inputs("cpu", dtype, requires_grad=requires_grad):
        if refused(op.name, sample):
            continue
        theirs, mine = like(sample, requires_grad), like(sample, requires_grad)
        expected = op(theirs.input, *theirs.args, **theirs.kwargs)
        found = ours(mine.input, *mine.args, **mine.kwargs)
        torch.testing.assert_close(found, expected, rtol=close, atol=close)
        assert found.requires_grad is expected.requires_grad is requires_grad
        count += 1
        if requires_grad:
            dy = torch.randn_like(expected)
            a = torch.autograd.grad(found, mine.input, dy)[0]
            b = torch.autograd.grad(expected, theirs.input, dy)[0]
            torch.testing.assert_close(a, b, rtol=close_gradient, atol=close_gradient)
    assert count


def refused(name, sample):
    """Inputs that differ by intention: what torch.nn accepts and ours refuses.

    - ε below 0: the root of a negative number is no norm.
    - A momentum outside 0..1: running statistics would run away.
    - Batch norm of an empty tensor with one dimension: there are no channels.
    """
    eps, momentum = sample.kwargs.get("eps"), sample.kwargs.get("momentum")
    if (eps is not None and eps < 0) or (momentum is not None and not 0 <= momentum <= 1):
        return True
    return name == "nn.functional.batch_norm" and sample.input.dim() < 2
