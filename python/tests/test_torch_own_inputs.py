"""Inputs that PyTorch tests its own modules and operations with, and the intended differences."""

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
    """Returns the arguments that select the plain cells of torch.nn."""
    return {"variant": "none"} if name.startswith(("LSTM", "GRU", "RNN")) else {}


def flat(values):
    """Returns the tensors of nested tuples, in order."""
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
    """Inputs that torch.nn rejects raise ValueError or TypeError here, with our own messages."""
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
    """Returns whether an input is rejected by torch.nn and accepted here, as intended.

    - ε = 0 in batch norm: the contract allows it, with the IEEE result for a constant channel.
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


# Half a unit in the last place of each type: the error of rounding a result.
ROUNDING = {torch.float64: 2.0**-53, torch.float32: 2.0**-24, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}


def bounds(dtype, r):
    """Returns ``(rtol, atol)`` for results compared with float64. Errors of float32 (or float64) arithmetic are about 64 units of
    the summands: numbers near 1 for y, and up to ``r`` times the incoming gradients, which may cancel. One rounding follows.
    """
    unit = ROUNDING[dtype if dtype == torch.float64 else torch.float32]
    return 2 * ROUNDING[dtype], 64 * unit * r


def like(sample, requires_grad, dtype):
    """Returns a copy of the sample with tensors of a given type."""

    def own(t):
        return t.detach().clone().to(dtype).requires_grad_(requires_grad and t.requires_grad)

    return sample.transform(lambda t: own(t) if torch.is_tensor(t) else t)


@pytest.mark.parametrize("requires_grad", [True, False])
@pytest.mark.parametrize("dtype", ROUNDING)
@pytest.mark.parametrize("op", op_infos())
def test_pytorchs_own_operation_inputs(op, dtype, requires_grad):
    ours = getattr(lt.functional, OPS[op.name])
    count = 0
    for sample in op.sample_inputs("cpu", dtype, requires_grad=requires_grad):
        if refused(op.name, sample):
            continue
        theirs, mine = like(sample, requires_grad, torch.float64), like(sample, requires_grad, dtype)
        eps = 1e-5
        if op.name.endswith("rms_norm"):
            # The default eps is the epsilon of the input's type, which differs here.
            eps = sample.kwargs.get("eps") or torch.finfo(dtype).eps
            theirs.kwargs["eps"] = mine.kwargs["eps"] = eps
        expected = op(theirs.input, *theirs.args, **theirs.kwargs)
        found = ours(mine.input, *mine.args, **mine.kwargs)
        assert found.dtype == dtype and found.requires_grad is expected.requires_grad is requires_grad
        size = max(1.0, expected.detach().abs().max().item()) if expected.numel() else 1.0
        rtol, atol = bounds(dtype, size)
        torch.testing.assert_close(found.double(), expected, rtol=rtol, atol=atol)
        count += 1
        if requires_grad:
            dy = torch.randn_like(found)
            a = torch.autograd.grad(found, mine.input, dy)[0]
            b = torch.autograd.grad(expected, theirs.input, dy.double())[0]
            # 1/σ is at most 1/sqrt(ε); a factor of 8 for dy, γ and their sums.
            rtol, atol = bounds(dtype, 8 * size * eps**-0.5)
            torch.testing.assert_close(a.double(), b, rtol=rtol, atol=atol)
    assert count


def refused(name, sample):
    """Returns whether an input is accepted by torch.nn and rejected here, as intended.

    - Negative ε: the square root of a negative number is not a norm.
    - A momentum outside 0..1: running statistics would diverge.
    - Batch norm of an empty tensor with one dimension: there are no channels.
    """
    eps, momentum = sample.kwargs.get("eps"), sample.kwargs.get("momentum")
    if (eps is not None and eps < 0) or (momentum is not None and not 0 <= momentum <= 1):
        return True
    return name == "nn.functional.batch_norm" and sample.input.dim() < 2
